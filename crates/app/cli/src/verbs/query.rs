//! `tallycast query`: lists what an archive has, thins it, shows its gaps, exports it.

mod export;

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use archive::{Archive, Points, PointsRequest, Recording, RunName, StreamEntry};
use clap::Args;
use serde_json::{Value, json};
use tallycast::{StreamName, WallTime};

use crate::Outcome;
use crate::messages::print_line;
use crate::moment::{Moment, text as utc};
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast query tallycast-archive --list
  tallycast query tallycast-archive signal/ecg            each recording with its account
  tallycast query tallycast-archive signal/ecg --gaps     what is missing, where it was lost
  tallycast query tallycast-archive signal/ecg --points 20 --from -30s
  tallycast query tallycast-archive signal/ecg --export parquet ecg.parquet --from +10s --to +20s";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of the archive
    root: PathBuf,
    /// The stream; without it everything is listed
    stream: Option<StreamName>,
    /// List runs and streams
    #[arg(long, conflicts_with = "stream")]
    list: bool,
    /// The run; needed where several runs have the stream
    #[arg(long, value_name = "NAME")]
    run: Option<RunName>,
    /// The epoch, as listed; needed for exports where a run has several
    #[arg(long, value_name = "EPOCH", requires = "stream")]
    epoch: Option<String>,
    /// From here on: 2026-11-21T20:15:00Z, nanoseconds since 1970, +10s after the start, -30s before the end
    #[arg(long, value_name = "TIME", requires = "stream", allow_hyphen_values = true)]
    from: Option<Moment>,
    /// Up to here, not included
    #[arg(long, value_name = "TIME", requires = "stream", allow_hyphen_values = true)]
    to: Option<Moment>,
    /// Thin to so many columns of least and greatest value
    #[arg(long, value_name = "COUNT", requires = "stream")]
    points: Option<usize>,
    /// Which channel to thin; the first by default
    #[arg(long, value_name = "NAME", requires = "points")]
    channel: Option<String>,
    /// Export as parquet, csv or npy into FILE
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], requires = "stream", conflicts_with = "points")]
    export: Option<Vec<String>>,
    /// Show the gaps
    #[arg(long, requires = "stream", conflicts_with_all = ["points", "export"])]
    gaps: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, _sources: &Sources) -> anyhow::Result<Outcome> {
    let archive = Archive::open(&arguments.root)?;
    let Some(name) = &arguments.stream else {
        list(&archive, &arguments)?;
        return Ok(Outcome::Fine);
    };
    let mut entry = find(&archive, name, arguments.run.as_ref())?;
    if let Some(epoch) = &arguments.epoch {
        entry.epochs.retain(|recording| recording.description.epoch.to_string() == *epoch);
    }
    let (Some(first), Some(last)) = (entry.epochs.first(), entry.epochs.last()) else {
        bail!("stream {name} in run {} has no such epoch\nlist them: tallycast query ROOT {name}", entry.run);
    };
    let (start, end) = (first.t0, last.t1);
    let moment = |moment: Option<Moment>, default| moment.map_or(default, |it| it.in_recording(start, end));
    let range = moment(arguments.from, start)..moment(arguments.to, end);
    if let Some(words) = &arguments.export {
        export::export(&archive, &entry, range, &words[0], words[1].as_ref(), arguments.json)?;
    } else if let Some(points) = arguments.points {
        thin(&archive, &entry, range, points, &arguments)?;
    } else if arguments.gaps {
        gaps(&archive, &entry, range, arguments.json)?;
    } else {
        entry.epochs.iter().try_for_each(|recording| show(&entry, recording, &arguments))?;
    }
    Ok(Outcome::Fine)
}

fn list(archive: &Archive, arguments: &Arguments) -> anyhow::Result<()> {
    for run in archive.runs()?.iter().filter(|run| arguments.run.as_ref().is_none_or(|only| only == *run)) {
        for entry in archive.streams(run)? {
            entry.epochs.iter().try_for_each(|recording| show(&entry, recording, arguments))?;
        }
    }
    Ok(())
}

/// Finds a stream in the run asked for, or in the only run that has it.
fn find(archive: &Archive, name: &StreamName, run: Option<&RunName>) -> anyhow::Result<StreamEntry> {
    if let Some(run) = run {
        return Ok(archive.stream(run, name)?);
    }
    let mut found = Vec::new();
    for run in archive.runs()? {
        found.extend(archive.streams(&run)?.into_iter().filter(|entry| *entry.name == *name));
    }
    if found.len() > 1 {
        let runs: Vec<&str> = found.iter().map(|entry| entry.run.as_str()).collect();
        bail!("several runs have the stream {name}\nchoose one with --run: {}", runs.join(", "));
    }
    found.pop().ok_or_else(|| {
        anyhow!("the archive has no stream {name}\nlist what it has: tallycast query ROOT --list")
    })
}

fn show(entry: &StreamEntry, recording: &Recording, arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.json {
        return Ok(print_line(&recording_json(entry, recording))?);
    }
    let (lost, unexplained) = recording.losses();
    let schema = &recording.description.schema;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}  {}  epoch {}", entry.run, entry.name, recording.description.epoch)?;
    writeln!(
        output,
        "  {} to {}, {} samples of {} × {} at {} samples/s, {} bytes, {}",
        utc(recording.t0),
        utc(recording.t1),
        recording.samples,
        schema.channels.len(),
        schema.dtype,
        schema.rate,
        recording.size_bytes,
        recording.state.name()
    )?;
    for (stage, count) in lost.nonzero() {
        writeln!(output, "  {count} elements lost in {stage}")?;
    }
    if unexplained > 0 {
        writeln!(output, "  {unexplained} elements missing, unexplained")?;
    }
    Ok(())
}

fn recording_json(entry: &StreamEntry, recording: &Recording) -> Value {
    let (lost, unexplained) = recording.losses();
    let lost = lost.nonzero().map(|(stage, count)| (stage.name().to_owned(), json!(count)));
    let schema = &recording.description.schema;
    json!({
        "run": entry.run.as_str(),
        "stream": entry.name.as_str(),
        "epoch": recording.description.epoch.to_string(),
        "state": recording.state.name(),
        "t0_ns": recording.t0.as_nanos(),
        "t1_ns": recording.t1.as_nanos(),
        "first_index": recording.first_index,
        "stored_index": recording.stored_index,
        "samples": recording.samples,
        "size_bytes": recording.size_bytes,
        "dtype": schema.dtype.name(),
        "rate": {"numerator": schema.rate.numerator(), "denominator": schema.rate.denominator()},
        "channels": schema.channels.iter().map(|channel| &channel.name).collect::<Vec<_>>(),
        "gaps": recording.gaps.len(),
        "lost": lost.collect::<serde_json::Map<_, _>>(),
        "unexplained": unexplained,
        "account": recording.account,
    })
}

fn gaps(archive: &Archive, entry: &StreamEntry, range: Range<WallTime>, as_json: bool) -> anyhow::Result<()> {
    for piece in archive.range(entry, range) {
        let archive::Piece::Hole(hole) = piece? else { continue };
        if as_json {
            print_line(&hole.to_json())?;
            continue;
        }
        let stages = hole.lost.nonzero().map(|(stage, count)| (stage.name(), count));
        let rest = [
            ("unexplained", hole.unexplained),
            ("unsettled", hole.unsettled),
            ("reader_absent", hole.reader_absent),
        ];
        let parts = stages.chain(rest.into_iter().filter(|(_, count)| *count > 0));
        let parts: Vec<String> = parts.map(|(stage, count)| format!("{stage} {count}")).collect();
        let last = hole.first_index + hole.samples - 1;
        let mut output = std::io::stdout().lock();
        writeln!(output, "{}  samples {} to {last}: {}", utc(hole.t0), hole.first_index, parts.join(", "))?;
    }
    Ok(())
}

fn thin(
    archive: &Archive,
    entry: &StreamEntry,
    range: Range<WallTime>,
    points: usize,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let channels = &entry.epochs[0].description.schema.channels;
    let channel = match &arguments.channel {
        None => 0,
        Some(name) => channels.iter().position(|channel| channel.name == *name).ok_or_else(|| {
            let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
            anyhow!("{} has no channel {name}\nits channels are {}", entry.name, names.join(", "))
        })?,
    };
    let points = archive.points(entry, &PointsRequest { channel, element: 0, range, points })?;
    if arguments.json {
        return Ok(print_line(&points_json(&points))?);
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "# time, least, greatest [{}]", channels[channel].unit)?;
    for (index, column) in points.columns.iter().enumerate() {
        let time = utc(column_time(&points, index));
        match column {
            Some(column) => writeln!(output, "{time}  {}  {}", column.min, column.max)?,
            None => writeln!(output, "{time}  -  -")?,
        }
    }
    Ok(())
}

fn points_json(points: &Points) -> Value {
    let column = |(index, column): (usize, &Option<archive::Extremes>)| {
        let t0 = column_time(points, index).as_nanos();
        let t1 = column_time(points, index + 1).as_nanos();
        column.map_or(Value::Null, |column| json!([t0, t1, column.min, column.max]))
    };
    json!({
        "from": points.from.as_nanos(),
        "column_ns": points.column_ns,
        "columns": points.columns.iter().enumerate().map(column).collect::<Vec<_>>(),
        "gaps": points.holes.iter().map(archive::Hole::to_json).collect::<Vec<_>>(),
    })
}

fn column_time(points: &Points, index: usize) -> WallTime {
    let offset = points.column_ns.saturating_mul(index as u64);
    points.from.offset(i64::try_from(offset).unwrap_or(i64::MAX))
}
