//! `tallycast query`: lists the contents of an archive, downsamples them, shows their gaps, exports them, and proves them
//! by what their publisher signed.

mod export;
mod gaps;
mod proof;

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use archive::{
    Archive, CsvTimes, Points, PointsRequest, Recording, RecordingState, RunName, StreamEntry,
    moment_text as utc,
};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tallycast::{StreamName, WallTime};

use crate::Outcome;
use crate::layout;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::verbs::during::{ALWAYS, Selection, is_in};
use export::Order;
pub(in crate::verbs) use gaps::says_damage;

pub(crate) use proof::public_key;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast query tallycast-archive --list
  tallycast query tallycast-archive signal/ecg            every recording with its account
  tallycast query tallycast-archive signal/ecg --gaps     the gaps, and the stage of each loss
  tallycast query tallycast-archive signal/ecg --points 20 --from -30s
  tallycast query tallycast-archive signal/ecg --export parquet ecg.parquet --from +10s --to +20s
  tallycast query tallycast-archive signal/ecg --export csv ecg.csv --times iso
  tallycast query tallycast-archive signal/ecg --during shot-17 --from +1s --to +2s --gaps
  tallycast query tallycast-archive signal/ecg --verify --authority keys/lab.authority

Exit codes: 0 everything can be read (--verify: is proven), 1 something not, 2 could not run.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of the archive [default: record.root of the settings], and the stream; without a stream everything
    /// is listed
    #[arg(value_names = ["ROOT", "STREAM"], num_args = 0..=2)]
    places: Vec<String>,
    /// List runs and streams
    #[arg(long, conflicts_with_all = ["epoch", "during", "from", "to", "points", "export", "gaps"])]
    list: bool,
    /// The archive run; required if several contain the stream
    #[arg(long, value_name = "NAME")]
    run: Option<RunName>,
    /// The epoch, as listed; required for an export if the range contains several
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// Downsample to this many columns, each with its minimum and maximum
    #[arg(long, value_name = "COUNT")]
    points: Option<usize>,
    /// Channel to downsample [default: the first]
    #[arg(long, value_name = "NAME", requires = "points")]
    channel: Option<String>,
    /// Export as parquet, csv, npy or wav into FILE; as hdf5, netcdf, mat or mcap by the Python package
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], conflicts_with = "points")]
    export: Option<Vec<String>>,
    /// Times in CSV: nanoseconds since 1970 as `time_ns`, or ISO 8601 in UTC as `time`
    #[arg(long, value_enum, value_name = "FORM", requires = "export", default_value = "ns")]
    times: Times,
    /// Replace existing files
    #[arg(long = "overwrite", alias = "force", requires = "export")]
    force: bool,
    /// Show the gaps
    #[arg(long, conflicts_with_all = ["points", "export"])]
    gaps: bool,
    /// Compare the samples with what their publisher signed: proven, incomplete, contradicted or unsigned, interval
    /// by interval
    #[arg(long, requires = "authority", conflicts_with_all = ["points", "export", "gaps", "list"])]
    verify: bool,
    /// Laboratory that certified the publisher's station: its authority's file, a station's file of keys, or the
    /// public key, as 64 hexadecimal digits or a file with them
    #[arg(long, value_name = "KEY|FILE", requires = "verify")]
    authority: Option<String>,
    /// Station that must have signed [default: the one that the recording names, or the first that signed]
    #[arg(long, value_name = "STATION", requires = "verify")]
    signed_by: Option<String>,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

/// [`CsvTimes`], with its names on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Times {
    /// Nanoseconds since 1970 UTC
    Ns,
    /// ISO 8601 in UTC, to the nanosecond
    Iso,
}

impl From<Times> for CsvTimes {
    fn from(times: Times) -> Self {
        match times {
            Times::Ns => Self::Nanoseconds,
            Times::Iso => Self::Iso,
        }
    }
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let (root, name) = arguments.place(|| sources.load()?.text("record.root", None))?;
    let archive = Archive::open(&root)?;
    let Some(name) = &name else {
        if arguments.asks_of_a_stream() {
            bail!("no stream is given\nlist the streams: tallycast query {} --list", root.display());
        }
        return list(&archive, &arguments);
    };
    let (mut entry, is_whole) = find(&archive, name, arguments.run.as_ref())?;
    if let Some(epoch) = &arguments.epoch {
        entry.epochs.retain(|recording| recording.description.epoch.to_string() == *epoch);
    }
    let spans = entry.epochs.iter().map(Recording::span);
    let Some(span) = spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)) else {
        bail!("stream {name} in run {} has no such epoch\nlist them: tallycast query ROOT {name}", entry.run);
    };
    // Losses before the first and behind the last stored sample belong to the known range.
    let open = if arguments.points.is_some() { span.clone() } else { ALWAYS };
    let range = arguments.selection.range(&archive, &span, open)?;
    let damaged = if let (true, Some(authority)) = (arguments.verify, &arguments.authority) {
        proof::show(&archive, &entry, (authority, arguments.signed_by.clone()), range, arguments.json)?
    } else if let Some(words) = &arguments.export {
        export::keep_asked_for(&mut entry, &range)?;
        let (format, path) = (words[0].as_str(), words[1].as_ref());
        let (root, times, force, as_json) = (&root, arguments.times.into(), arguments.force, arguments.json);
        export::export(&archive, &entry, &Order { root, range, format, path, times, force, as_json })?
    } else if let Some(points) = arguments.points {
        thin(&archive, &entry, range, points, &arguments)?
    } else if arguments.gaps {
        gaps::show(&archive, &entry, range, arguments.json)?
    } else {
        let during =
            |recording: &&Recording| arguments.selection.during.is_none() || is_in(&recording.span(), &range);
        let mut listed = entry.epochs.iter().filter(during);
        listed.try_for_each(|recording| show(&archive, &entry, recording, &arguments))?;
        return Ok(if is_whole { outcome(&entry) } else { Outcome::Found });
    };
    // Also what cost no sample.
    for what in entry.epochs.iter().flat_map(|recording| &recording.damaged) {
        eprintln!("warning: {what}");
    }
    Ok(if damaged || !is_whole { Outcome::Found } else { outcome(&entry) })
}

impl Arguments {
    /// Returns the archive and the stream: a single word is a folder if one of that name exists.
    fn place(
        &self,
        usual: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<(PathBuf, Option<StreamName>)> {
        match &self.places[..] {
            [] => Ok((usual()?.into(), None)),
            [root] if self.list || Path::new(root).is_dir() => Ok((root.into(), None)),
            [name] => {
                let root = usual()?;
                let said = || format!("`{name}` is not a folder, and as a stream of the archive in {root}");
                if !Path::new(&root).is_dir() {
                    return Err(anyhow!("no such archive").context(said()));
                }
                Ok((root.clone().into(), Some(name.parse().with_context(said)?)))
            }
            [root, name, ..] => Ok((root.into(), Some(name.parse()?))),
        }
    }

    fn asks_of_a_stream(&self) -> bool {
        let range = self.epoch.is_some() || self.selection.is_given();
        range || self.points.is_some() || self.export.is_some() || self.gaps || self.verify
    }
}

fn list(archive: &Archive, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut found = Outcome::Fine;
    for run in archive.runs()?.iter().filter(|run| arguments.run.as_ref().is_none_or(|only| only == *run)) {
        let (entries, unreadable) = match archive.survey(run) {
            Ok(found) => found,
            Err(error) => {
                eprintln!("error: cannot read run {run}: {error}");
                found = Outcome::Found;
                continue;
            }
        };
        for entry in entries {
            entry.epochs.iter().try_for_each(|recording| show(archive, &entry, recording, arguments))?;
            if outcome(&entry) == Outcome::Found {
                found = Outcome::Found;
            }
        }
        for epoch in unreadable {
            eprintln!("error: cannot read {}: {}", epoch.folder.display(), epoch.cause);
            found = Outcome::Found;
        }
    }
    if found == Outcome::Found {
        eprintln!("list the damage and what it costs: tallycast archive verify ROOT");
    }
    Ok(found)
}

/// Returns whether everything stored can be read.
fn outcome(entry: &StreamEntry) -> Outcome {
    let whole = entry.epochs.iter().all(|recording| recording.damaged.is_empty());
    if whole { Outcome::Fine } else { Outcome::Found }
}

/// Finds a stream in the requested run, or in the only run that has it. Also returns whether all its possible
/// recordings can be read.
fn find(archive: &Archive, name: &StreamName, run: Option<&RunName>) -> anyhow::Result<(StreamEntry, bool)> {
    let mut found = Vec::new();
    let mut unread = Vec::new();
    let runs = match run {
        Some(run) => vec![run.clone()],
        None => archive.runs()?,
    };
    for run in runs {
        let (entries, unreadable) = archive.survey(&run)?;
        found.extend(entries.into_iter().filter(|entry| *entry.name == *name));
        for epoch in unreadable {
            eprintln!("warning: cannot read {}: {}", epoch.folder.display(), epoch.cause);
            unread.push(epoch.folder);
        }
    }
    if found.len() > 1 {
        let runs: Vec<&str> = found.iter().map(|entry| entry.run.as_str()).collect();
        bail!("several runs contain the stream {name}\nchoose one with --run: {}", runs.join(", "));
    }
    let entry = found.pop().ok_or_else(|| match unread.first() {
        Some(folder) => anyhow!(
            "the archive has no readable stream {name}; {} cannot be read\n\
             list the damage: tallycast archive verify ROOT",
            folder.display()
        ),
        None => anyhow!("the archive has no stream {name}\nlist its streams: tallycast query ROOT --list"),
    })?;
    let folder = archive::stream_folder(&entry.run, name);
    let is_whole = !unread.iter().any(|path| path.starts_with(&folder));
    Ok((entry, is_whole))
}

fn show(
    archive: &Archive,
    entry: &StreamEntry,
    recording: &Recording,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let is_complete = archive.is_complete(recording).unwrap_or_else(|error| {
        eprintln!("warning: cannot read all of epoch {}: {error}", recording.description.epoch);
        false
    });
    if arguments.json {
        return Ok(print_line(&recording_json(entry, recording, is_complete))?);
    }
    let (lost, unexplained) = recording.losses();
    let schema = &recording.description.schema;
    let mut output = std::io::stdout().lock();
    let head = format!("{}  {}  epoch {}", entry.run, entry.name, recording.description.epoch);
    writeln!(output, "{}", layout::redrawn(&head, layout::width()))?;
    let stored = match recording.samples {
        0 => format!("nothing stored since {}:", utc(recording.t0)),
        samples => format!("{} to {}, {samples} samples", utc(recording.t0), utc(recording.t1)),
    };
    let kind = format!("{} × {} at {} samples/s", schema.channels.len(), schema.dtype, schema.rate);
    let complete = if is_complete { ", complete" } else { "" };
    let text = format!("{stored} of {kind}, {} bytes, {}{complete}", recording.size_bytes, state(recording));
    let width = layout::width();
    writeln!(output, "{}", layout::hanging("  ", &text, width))?;
    for damaged in &recording.damaged {
        writeln!(output, "{}", layout::hanging("  damaged: ", &damaged.to_string(), width))?;
    }
    for (stage, count) in lost.nonzero() {
        writeln!(output, "  {count} elements lost in {stage}")?;
    }
    if unexplained > 0 {
        writeln!(output, "  {unexplained} elements missing, unexplained")?;
    }
    for line in gaps::absences(recording) {
        writeln!(output, "{}", layout::hanging("  ", &line, width))?;
    }
    Ok(())
}

/// Returns how the recording ended, as text.
fn state(recording: &Recording) -> &'static str {
    match recording.state {
        RecordingState::Open if !recording.attended => "open, but no recorder is running",
        state => state.name(),
    }
}

fn recording_json(entry: &StreamEntry, recording: &Recording, is_complete: bool) -> Value {
    let (lost, unexplained) = recording.losses();
    let schema = &recording.description.schema;
    json!({
        "run": entry.run.as_str(),
        "stream": entry.name.as_str(),
        "epoch": recording.description.epoch.to_string(),
        "state": recording.state.name(),
        "attended": recording.attended,
        "complete": is_complete,
        "damaged": recording.damaged,
        "t0_ns": recording.t0.as_nanos(),
        "t1_ns": recording.t1.as_nanos(),
        "first_index": recording.first_index,
        "stored_index": recording.stored_index,
        "samples": recording.samples,
        "size_bytes": recording.size_bytes,
        "dtype": schema.dtype.name(),
        "rate": schema.rate,
        "channels": schema.channels.iter().map(|channel| &channel.name).collect::<Vec<_>>(),
        "gaps": recording.gaps.len(),
        "lost": lost,
        "unexplained": unexplained,
        "absent": gaps::absent_json(recording),
        "account": recording.account,
        "earlier_accounts": recording.earlier_accounts,
    })
}

fn thin(
    archive: &Archive,
    entry: &StreamEntry,
    range: Range<WallTime>,
    points: usize,
    arguments: &Arguments,
) -> anyhow::Result<bool> {
    let channels = &entry.epochs[0].description.schema.channels;
    let channel = match &arguments.channel {
        None => 0,
        Some(name) => channels.iter().position(|channel| channel.name == *name).ok_or_else(|| {
            let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
            anyhow!("{} has no channel {name}\nits channels are {}", entry.name, names.join(", "))
        })?,
    };
    let points = archive.points(entry, &PointsRequest { channel, element: 0, range, points })?;
    let damaged = says_damage(&points.holes);
    if arguments.json {
        print_line(&points_json(&points))?;
        return Ok(damaged);
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
    Ok(damaged)
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
