//! `tallycast doctor audit`: is this host set up for continuous data?

use std::io::Write;
use std::time::Duration;

use clap::Args;
use doctor::{AuditLine, BusOptions, Check, Judgement, Wishes};
use serde_json::json;
use sys::Interface;
use units::text;

use super::text::{line, remedies};
use crate::Outcome;
use crate::layout;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::verbs::reliable::keys::forbid_core_dumps;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor audit                        for the rate of the fastest link, and pauses of 10 ms
  tallycast doctor audit --rate 2Gbit/s --longest-pause 50ms
  tallycast doctor audit --rate 10Gbit/s --round-trip 20ms
  tallycast doctor audit --interface eth1 --json
  tallycast doctor audit --bus 'udp://239.84.0.0?keys=daq-1.keys'   which streams are clear, whose clock is off

It needs no privilege (only root sees the rules of a firewall) and changes nothing: remedies are shown as commands, each with its undo.
Exit codes: 0 all is well, 1 something may cost data, 2 something will, or it could not be checked.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Rate the host must carry [default: that of the fastest link]
    #[arg(long, value_name = "RATE", value_parser = text::bits_per_second)]
    rate: Option<f64>,
    /// Longest time a reader may pause between reads
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = text::duration)]
    longest_pause: Duration,
    /// Round-trip time to the other end, as shown by `ping`; with the rate it determines buffers and queues
    #[arg(long, alias = "rtt", value_name = "DURATION", value_parser = text::duration)]
    round_trip: Option<Duration>,
    /// Only these interfaces; may be given several times
    #[arg(long = "interface", value_name = "INTERFACE")]
    interfaces: Vec<String>,
    /// Time to listen to the announcements of the bus, which tell what is secured; 0s is not at all
    #[arg(long, value_name = "DURATION", default_value = "1.5s", value_parser = text::duration)]
    listen: Duration,
    /// One JSON object per check, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let Arguments { rate, longest_pause, round_trip, interfaces, listen, json } = arguments;
    for name in &interfaces {
        Interface::find(name)?;
    }
    let wishes = Wishes { bytes_per_second: rate.map(|bits| bits / 8.0), longest_pause, round_trip };
    let mut checks = doctor::audit(&wishes, &interfaces.into_iter().collect());
    if !listen.is_zero() {
        let bus = sources.load()?.bus()?;
        let interface = bus.interface.as_deref().map(Interface::find).transpose()?;
        if bus.keys.is_some() {
            forbid_core_dumps();
        }
        let announcements = bus.has_network().then(|| bus.announcements());
        checks.extend(doctor::audit_bus(&BusOptions { announcements, interface, keys: bus.keys, listen }));
    }
    report_all(&checks, json)
}

/// Prints checks, and sums them up in the exit code.
pub(super) fn report_all(checks: &[Check], json: bool) -> anyhow::Result<Outcome> {
    for check in checks {
        if json {
            print_line(&json!(AuditLine::finding(check)))?;
        } else {
            report(check)?;
        }
    }
    let count = |judgement| checks.iter().filter(|it| it.judgement == judgement).count();
    let [ok, not_seen, warn, fail] = Judgement::ALL.map(count);
    if json {
        print_line(&json!(AuditLine::Ended { ok, not_seen, warn, fail }))?;
    } else {
        writeln!(std::io::stdout().lock(), "{ok} ok, {warn} warn, {fail} fail, {not_seen} not seen")?;
    }
    Ok(match (warn, fail) {
        (0, 0) => Outcome::Fine,
        (_, 0) => Outcome::Found,
        _ => Outcome::Failing,
    })
}

fn report(check: &Check) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    let head = format!("{:<10}{:<24}", check.judgement.name(), check.name);
    writeln!(output, "{}", layout::hanging(&head, &check.live, layout::width()))?;
    if check.judgement == Judgement::Ok {
        return Ok(());
    }
    line(&mut output, "why", &check.why)?;
    if let Some(recommended) = &check.recommended {
        line(&mut output, "better", recommended)?;
    }
    remedies(&mut output, &check.remedies)
}
