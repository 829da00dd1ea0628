//! `tallycast ls`: the streams that are announced on the bus; no server is needed for it.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use tallycast::Announced;

use crate::Outcome;
use crate::messages::print_line;
use crate::quantity;
use crate::settings::{self, Sources};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast ls
  tallycast ls --json --wait 3s
  tallycast ls --bus 'udp://239.84.0.0:7400?iface=eth1'";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// How long to listen; publishers announce their streams once a second
    #[arg(long, value_name = "DURATION", default_value = "1.5s", value_parser = quantity::duration)]
    wait: Duration,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let mut streams = node.streams(arguments.wait)?;
    streams.sort_by(|a, b| a.announcement.name.cmp(&b.announcement.name));
    if arguments.json {
        for stream in &streams {
            print_line(&object(stream))?;
        }
    } else {
        print_table(&streams)?;
    }
    if streams.is_empty() {
        eprintln!("no stream was announced on {} within {:?}", settings::brief(node.bus()), arguments.wait);
        eprintln!("publish one with `tallycast pub`, or give the right --bus and interface");
    }
    Ok(Outcome::Fine)
}

fn object(stream: &Announced) -> serde_json::Value {
    let it = &stream.announcement;
    json!({
        "stream": it.name.as_str(),
        "id": it.stream.to_string(),
        "epoch": it.epoch.to_string(),
        "rate": {"numerator": it.rate.numerator(), "denominator": it.rate.denominator()},
        "channels": it.channels,
        "elements_per_sample": it.elements_per_sample,
        "dtype": it.dtype.name(),
        "station": it.station,
        "group": it.group.to_string(),
        "from": stream.from.ip().to_string(),
        "age_ns": u64::try_from(age(stream).as_nanos()).unwrap_or(u64::MAX),
    })
}

fn print_table(streams: &[Announced]) -> std::io::Result<()> {
    let width =
        |text: fn(&Announced) -> usize, least: usize| streams.iter().map(text).max().unwrap_or(0).max(least);
    let name = width(|it| it.announcement.name.as_str().len(), 6);
    let station = width(|it| it.announcement.station.len(), 7);
    let mut output = std::io::stdout().lock();
    if !streams.is_empty() {
        writeln!(
            output,
            "{:name$}  {:>12}  {:>8}  {:5}  {:station$}  {:21}  AGE",
            "STREAM", "SAMPLES/S", "CHANNELS", "DTYPE", "STATION", "GROUP"
        )?;
    }
    for stream in streams {
        let it = &stream.announcement;
        let (rate, group, age) = (it.rate.to_string(), it.group.to_string(), brief(age(stream)));
        writeln!(
            output,
            "{:name$}  {rate:>12}  {:>8}  {:5}  {:station$}  {group:21}  {age}",
            it.name.as_str(),
            it.channels,
            it.dtype.name(),
            it.station
        )?;
    }
    Ok(())
}

/// Returns how long ago the epoch began.
fn age(stream: &Announced) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(stream.announcement.epoch.start_ns))
}

/// Writes a duration in its largest unit and the next.
fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_two_units() {
        for (seconds, text) in [(59, "59 s"), (60, "1 min 00 s"), (3_661, "1 h 01 min"), (90_000, "1 d 01 h")]
        {
            assert_eq!(brief(Duration::from_secs(seconds)), text);
        }
    }
}
