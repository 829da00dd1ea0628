//! `tallycast doctor watch`: losses of any UDP program of this host, as they happen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use doctor::{Place, Verdict, Wanted, Watcher, verdict_json};
use serde_json::json;

use crate::Outcome;
use crate::messages::print_line;
use crate::quantity;
use crate::stop::Stop;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor watch                        every socket of this network namespace, until Ctrl-C
  tallycast doctor watch --port 5004 --port 5006
  tallycast doctor watch --pid 4711 --interval 200ms
  tallycast doctor watch --looks 60 --json      one object a loss, for a minute

It needs no privilege and changes nothing. It sees counters, not single datagrams, and nothing of what was lost outside of
this host. Processes of other users are named only to root.
Exit codes: 0 nothing was lost, 1 something was, 2 could not look.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Watch the sockets of this port, whoever has them; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
    /// Watch the sockets of this process; may be given several times
    #[arg(long = "pid", value_name = "PID")]
    pids: Vec<u32>,
    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::duration)]
    interval: Duration,
    /// End after so many looks
    #[arg(long, value_name = "COUNT")]
    looks: Option<u64>,
    /// One JSON object a loss, one a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let Arguments { ports, pids, interval, looks, json } = arguments;
    let stop = Stop::on_signals()?;
    let wanted = Wanted { ports: ports.into_iter().collect(), pids: pids.into_iter().collect() };
    let mut watcher = Watcher::begin(wanted).context(
        "the kernel does not list its UDP sockets (sock_diag)\n\
         load the module udp_diag, or run this outside of the container",
    )?;
    for file in watcher.unread() {
        eprintln!("warning: {file} cannot be read: what it counts is not seen");
    }
    begin(&watcher, json)?;
    let mut told = Told { json, ..Told::default() };
    for look in 1.. {
        stop.wait(interval);
        let seen = watcher.look().context("the kernel does not list its UDP sockets any more")?;
        told.time += seen.time;
        told.not_observed += seen.losses.not_observed;
        for verdict in &seen.losses.verdicts {
            told.tell(verdict, seen.losses.not_observed)?;
        }
        if stop.is_wanted() || looks.is_some_and(|looks| look >= looks) {
            break;
        }
    }
    told.not_observed += watcher.pending();
    told.sum_up()?;
    Ok(if told.is_nothing() { Outcome::Fine } else { Outcome::Found })
}

/// Says that losses from now on are told.
fn begin(watcher: &Watcher, json: bool) -> std::io::Result<()> {
    let sockets = watcher.sockets();
    if json {
        return print_line(&json!({ "event": "watching", "sockets": sockets }));
    }
    eprintln!("watching {sockets} UDP sockets; Ctrl-C ends");
    Ok(())
}

/// What has been told so far.
#[derive(Default)]
struct Told {
    json: bool,
    time: Duration,
    sums: BTreeMap<(&'static str, Place), u64>,
    /// What no verdict tells of.
    not_observed: u64,
    /// Why and what helps is said once for each stage, place and reason.
    explained: BTreeSet<(&'static str, Place, String)>,
}

impl Told {
    fn tell(&mut self, verdict: &Verdict, not_observed: u64) -> std::io::Result<()> {
        *self.sums.entry((verdict.stage.name(), verdict.place.clone())).or_default() += verdict.count;
        if self.json {
            let mut object = verdict_json(verdict, not_observed);
            object["event"] = json!("loss");
            object["seconds"] = json!(self.time.as_secs_f64());
            return print_line(&object);
        }
        let Verdict { stage, count, unit, why, .. } = verdict;
        let share = if verdict.is_apportioned { " (by share)" } else { "" };
        let (place, unit) = (place_text(&verdict.place), unit.in_words());
        let mut output = std::io::stdout().lock();
        let seconds = self.time.as_secs_f64();
        writeln!(output, "{seconds:>8.1} s  {:<24} {count} {unit}{share}, {place}", stage.name())?;
        if self.explained.insert((stage.name(), verdict.place.clone(), why.clone())) {
            explain(&mut output, verdict)?;
        }
        output.flush()
    }

    fn is_nothing(&self) -> bool {
        self.sums.is_empty() && self.not_observed == 0
    }

    fn sum_up(&self) -> std::io::Result<()> {
        let seconds = self.time.as_secs_f64();
        if self.json {
            let losses = self.sums.iter().map(|((stage, place), count)| {
                json!({ "stage": stage, "place": place_text(place), "count": count })
            });
            let losses: Vec<_> = losses.collect();
            let not_observed = self.not_observed;
            return print_line(
                &json!({ "event": "ended", "seconds": seconds, "losses": losses, "not_observed": not_observed }),
            );
        }
        let mut output = std::io::stdout().lock();
        if self.is_nothing() {
            return writeln!(output, "nothing was lost in {seconds:.1} s");
        }
        writeln!(output, "lost in {seconds:.1} s:")?;
        for ((stage, place), count) in &self.sums {
            writeln!(output, "{count:>12}  {stage:<24} {}", place_text(place))?;
        }
        if self.not_observed > 0 {
            writeln!(
                output,
                "{:>12}  not observed: sockets that are closed, or drops of the last moment",
                self.not_observed
            )?;
        }
        Ok(())
    }
}

/// Says why, by which counters, and what helps.
fn explain(output: &mut impl Write, verdict: &Verdict) -> std::io::Result<()> {
    let mut line = |head: &str, text: &str| writeln!(output, "{:12}{head:<10}{text}", "");
    line("why", &verdict.why)?;
    let evidence: Vec<String> =
        verdict.evidence.iter().map(|it| format!("{} +{}", it.counter, it.rise)).collect();
    line("evidence", &evidence.join(", "))?;
    for cure in &verdict.cures {
        line("cure", &cure.what)?;
        if let Some(command) = &cure.command {
            line("", command)?;
        }
        if let Some(undo) = &cure.undo {
            line("undo", undo)?;
        }
    }
    Ok(())
}

fn place_text(place: &Place) -> String {
    match place {
        Place::Socket { local, owner: Some((pid, name)), .. } => format!("socket {local} of {name}[{pid}]"),
        Place::Socket { local, owner: None, .. } => format!("socket {local}"),
        Place::Device(name) => format!("device {name}"),
        Place::Namespace => "this network namespace".to_owned(),
        Place::Host => "this host".to_owned(),
    }
}
