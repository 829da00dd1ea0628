//! `tallycast heated-plate`: the simulation of `demo --coupled`, which is the example of the guide *Couple a simulation*.

#[expect(dead_code, reason = "the main function of an example that is a program, too")]
#[path = "../../../../../examples/heated_plate.rs"]
mod example;

use clap::Args;
use serde_json::json;
use tallycast::cyclic::OutputReport;
use tallycast::steering;

use crate::Outcome;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals::WithParent;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    parent: WithParent,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let cancellation = arguments.parent.cancellation()?;
    let report = example::simulate(&node, || cancellation.is_cancelled())?;
    let commands = report.commands.unwrap_or_default();
    if arguments.json {
        for OutputReport { stream, epoch, totals } in &report.outputs {
            print_line(&json!({
                "event": "totals",
                "stream": stream,
                "epoch": epoch,
                "samples": totals.samples,
                "datagrams": totals.datagrams,
            }))?;
        }
        let mut account = steering::totals_json(&commands);
        account["event"] = json!("commands");
        print_line(&account)?;
    } else {
        eprintln!("{} cycles, {} commands applied", report.counters.cycles, commands.applied);
    }
    Ok(Outcome::Fine)
}
