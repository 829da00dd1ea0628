//! `tallycast replay`: publishes a recording again, with its gaps.
//!
//! Every recorded epoch becomes an epoch of its own; what is missing in the archive is missing again, as stage
//! `source`. How one epoch is paced lies in `schedule`.

mod schedule;

use std::path::PathBuf;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail};
use archive::{Archive, RunName, StreamEntry};
use clap::{Args, ValueEnum};
use source::Speed;
use tallycast::{Node, StreamPattern};

use crate::Outcome;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::status_line::StatusLine;
use crate::stop::Stop;
use crate::verbs::publish::totals_json;
use schedule::{Schedule, replay};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast replay tallycast-archive --run shot-1042
  tallycast replay tallycast-archive --run shot-1042 --stream 'signal/*' --speed 10
  tallycast replay tallycast-archive --run shot-1042 --time original --prefix again";

/// The pause between two looks at how far the replay is.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of the archive [default: record.root of the settings]
    root: Option<PathBuf>,
    /// The run
    #[arg(long, value_name = "NAME")]
    run: RunName,
    /// Which streams; all by default; may be given several times
    #[arg(long, value_name = "PATTERN")]
    stream: Vec<StreamPattern>,
    /// Which times the samples carry
    #[arg(long, value_enum, default_value_t)]
    time: Times,
    /// How much faster than they were recorded: 10, 0.5 or 1/2
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Put this word in front of the streams' names
    #[arg(long, value_name = "WORD")]
    prefix: Option<String>,
    /// Print what became of everything as JSON at the end
    #[arg(long)]
    json: bool,
}

/// Which times replayed samples carry.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Times {
    /// As if they were taken now
    #[default]
    Now,
    /// Those they were taken at
    Original,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let given = arguments.root.as_ref().map(|root| root.display().to_string());
    let archive = Archive::open(settings.text("record.root", given.as_deref())?.as_ref())?;
    let mut streams = archive.streams(&arguments.run)?;
    let wanted = |entry: &StreamEntry| arguments.stream.iter().any(|pattern| pattern.matches(&entry.name));
    streams.retain(|entry| arguments.stream.is_empty() || wanted(entry));
    let recordings = || streams.iter().flat_map(|entry| &entry.epochs).filter(|it| it.samples > 0);
    let Some(origin) = recordings().map(|recording| recording.t0).min() else {
        bail!("run {} has nothing to replay\nlist it: tallycast query ROOT --list --run {0}", arguments.run);
    };
    let node = settings.node()?;
    let total: u64 = recordings().map(|recording| recording.samples).sum();
    let mut status = StatusLine::new(arguments.json);
    let schedule = Schedule::new(Stop::on_signals()?, origin, arguments.speed, arguments.time)?;
    std::thread::scope(|scope| {
        let players: Vec<_> = streams
            .iter()
            .map(|entry| scope.spawn(|| replay_stream(&archive, entry, &node, &schedule, &arguments)))
            .collect();
        while !players.iter().all(ScopedJoinHandle::is_finished) {
            status.show(|| format!("{} of {total} samples published", schedule.published()));
            std::thread::sleep(LOOK);
        }
        status.clear();
        let results: Vec<_> = players.into_iter().map(|player| player.join()).collect();
        results
            .into_iter()
            .try_for_each(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(Outcome::Fine)
}

/// Replays the epochs of one stream, one after the other.
fn replay_stream(
    archive: &Archive,
    entry: &StreamEntry,
    node: &Node,
    schedule: &Schedule,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let name = match &arguments.prefix {
        Some(prefix) => format!("{prefix}/{}", entry.name),
        None => entry.name.to_string(),
    };
    for recording in entry.epochs.iter().filter(|recording| recording.samples > 0) {
        let origin = format!("{}/{}", entry.run, recording.description.epoch);
        let schema = schedule.schema(&recording.description.schema)?;
        let mut builder = node.publisher(name.as_str()).schema(&schema).label("replay_of", origin);
        builder = builder.clock(schedule.clock());
        if !schedule.wait_for(recording.t0) {
            return Ok(());
        }
        let mut publisher = builder.open()?;
        let replayed = replay(archive, recording, &mut publisher, schedule);
        let (name, epoch, readers) = (publisher.name().clone(), publisher.epoch(), publisher.readers());
        let totals = publisher.close();
        if arguments.json {
            print_line(&totals_json(&name, epoch, &totals, &readers))?;
        } else {
            eprintln!("{name}: {} of {} samples went out", totals.samples.numbered, totals.samples.offered);
        }
        replayed.map_err(|error| anyhow!(error).context(entry.name.to_string()))?;
    }
    Ok(())
}
