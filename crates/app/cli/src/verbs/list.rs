//! `tallycast ls`: the streams that are there, announced on the bus or in this host's memory; no server is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::json;
use tallycast::{Announced, Bus, Dtype, Level, OnHost, Reach, SampleRate, StreamId, Withheld};
use units::text;

use crate::Outcome;
use crate::layout::{self, Align, Table};
use crate::messages::print_line;
use crate::settings::{self, Sources};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast ls
  tallycast ls --json --duration 3s
  tallycast ls --bus 'udp://239.84.0.0:7400?iface=eth1'";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Time to listen; publishers announce their streams once a second
    #[arg(long, short = 't', alias = "wait", value_name = "DURATION", default_value = "1.5s", value_parser = text::duration)]
    duration: Duration,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

/// A present stream, and the reach by which a reader of this host would receive it.
struct Row {
    name: String,
    id: StreamId,
    epoch: Option<String>,
    rate: SampleRate,
    channels: usize,
    elements_per_sample: u32,
    dtype: Dtype,
    station: String,
    /// Address and host of the announcement; `None` if only this host's memory has the stream.
    network: Option<(SocketAddr, IpAddr)>,
    reach: Reach,
    why: String,
    age: Duration,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let announced = match node.streams(arguments.duration) {
        // As for readers: this host's streams are there without a network.
        Err(error) if node.bus().shm.is_some() => {
            eprintln!("{error}\nonly streams on this host are listed");
            Vec::new()
        }
        announced => announced?,
    };
    let withheld = node.streams_withheld();
    let (rows, level) = (rows(&announced, &node.streams_on_host(), &withheld, node.bus()), node.level());
    if arguments.json {
        for row in &rows {
            print_line(&object(row, level))?;
        }
    } else {
        print_table(&rows, level)?;
    }
    // Announced streams state this in their rows.
    let mut unseen: BTreeMap<Withheld, usize> = BTreeMap::new();
    for (_, why) in withheld.iter().filter(|(stream, _)| !rows.iter().any(|row| row.id == **stream)) {
        *unseen.entry(*why).or_default() += 1;
    }
    for (why, count) in &unseen {
        eprintln!("streams of this host that {}: {count}\n{}", why.which(), why.remedy());
    }
    if unseen.is_empty() && rows.is_empty() {
        eprintln!("no stream found on {} within {:?}", settings::brief(node.bus()), arguments.duration);
        eprintln!("publish one with `tallycast pub`, or check --bus and its interface");
    }
    Ok(Outcome::Fine)
}

/// Joins announcements and rings in this host's memory, by name.
fn rows(
    announced: &[Announced],
    on_host: &[OnHost],
    withheld: &BTreeMap<StreamId, Withheld>,
    bus: &Bus,
) -> Vec<Row> {
    let row = |it: &Announced| {
        let stream = it.announcement.stream;
        let local = on_host.iter().find(|local| local.stream == stream);
        let why = local.map_or_else(|| why_from_network(withheld.get(&stream).copied(), bus), why);
        announced_row(it, local, why)
    };
    let mut rows: Vec<Row> = announced.iter().map(row).collect();
    let mut known: BTreeSet<StreamId> = announced.iter().map(|it| it.announcement.stream).collect();
    // The publisher's ring of a stream takes precedence over the agent's.
    rows.extend(on_host.iter().filter(|it| known.insert(it.stream)).map(host_row));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn announced_row(stream: &Announced, local: Option<&OnHost>, why: String) -> Row {
    let it = &stream.announcement;
    Row {
        name: it.name.to_string(),
        id: it.stream,
        epoch: Some(it.epoch.to_string()),
        rate: it.rate,
        channels: it.channels as usize,
        elements_per_sample: it.elements_per_sample,
        dtype: it.dtype,
        station: it.station.clone(),
        network: Some((it.group, stream.from.ip())),
        reach: local.map_or(Reach::Udp, |local| local.reach),
        why,
        age: age(it.epoch.start_ns),
    }
}

fn host_row(local: &OnHost) -> Row {
    let schema = &local.description.schema;
    Row {
        name: local.description.name.to_string(),
        id: local.stream,
        epoch: None,
        rate: schema.rate,
        channels: schema.channels.len(),
        elements_per_sample: schema.elements_per_sample(),
        dtype: schema.dtype,
        station: local.description.station.clone(),
        network: None,
        reach: local.reach,
        why: why(local),
        age: age(u64::try_from(local.since.as_nanos()).unwrap_or(0)),
    }
}

/// Returns the reason why a stream comes from the network instead of a readable ring.
fn why_from_network(withheld: Option<Withheld>, bus: &Bus) -> String {
    if bus.shm.is_none() {
        "from the network: the bus's address sets udp".to_owned()
    } else if let Some(withheld) = withheld {
        format!("from the network: its ring on this host {}; {}", withheld.which(), withheld.remedy())
    } else {
        "from the network: no ring of it on this host".to_owned()
    }
}

fn why(local: &OnHost) -> String {
    format!("{}: process {}", local.reach.why(), local.pid)
}

fn object(row: &Row, level: Level) -> serde_json::Value {
    json!({
        "stream": row.name,
        "id": row.id.to_string(),
        "epoch": row.epoch,
        "rate": row.rate,
        "channels": row.channels,
        "elements_per_sample": row.elements_per_sample,
        "dtype": row.dtype.name(),
        "station": row.station,
        "group": row.network.map(|(group, _)| group.to_string()),
        "from": row.network.map(|(_, from)| from.to_string()),
        "level": level.name(),
        "reach": row.reach.hop(),
        "why": row.why,
        "age_ns": u64::try_from(row.age.as_nanos()).unwrap_or(u64::MAX),
    })
}

fn print_table(rows: &[Row], level: Level) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in if rows.is_empty() { Vec::new() } else { table(rows, level).lines(layout::width()) } {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn table(rows: &[Row], level: Level) -> Table<9> {
    let mut table = Table::new([
        ("STREAM", Align::Left),
        ("SAMPLES/S", Align::Right),
        ("CHANNELS", Align::Right),
        ("DTYPE", Align::Left),
        ("STATION", Align::Left),
        ("GROUP", Align::Left),
        ("AGE", Align::Left),
        ("LEVEL", Align::Left),
        ("REACH", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.rate.to_string(),
            row.channels.to_string(),
            row.dtype.name().to_owned(),
            row.station.clone(),
            row.network.map_or_else(|| "-".to_owned(), |(group, _)| group.to_string()),
            brief(row.age),
            level.to_string(),
            format!("{} ({})", row.reach.hop(), row.why),
        ]);
    }
    table
}

/// Returns how long ago an epoch began.
fn age(start_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(start_ns))
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
