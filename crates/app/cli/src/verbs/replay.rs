//! `tallycast replay`: publishes a recording again, with its gaps.
//!
//! Every recorded epoch becomes a new epoch; data missing in the archive are missing again, as stage `source`. A part is
//! selected by times or by a run of the experiment (`verbs::during`). The
//! pacing of one epoch is in `schedule`, the report of its holes in `inherited`.

mod inherited;
mod schedule;

use std::ops::Range;
use std::path::PathBuf;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail};
use archive::{Archive, Piece, Recording, RunName, StreamEntry};
use clap::{Args, ValueEnum};
use source::Speed;
use tallycast::{Node, Publisher, StreamPattern, WallTime};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;
use crate::status_line::StatusLine;
use crate::verbs::during::{ALWAYS, Selection, is_in};
use crate::verbs::publish::{Ending, some_left, totals_json};
use crate::verbs::query::says_damage;
use inherited::Inherited;
use schedule::{Replay, Schedule};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast replay tallycast-archive --run shot-1042
  tallycast replay tallycast-archive --run shot-1042 --stream 'signal/*' --speed 10
  tallycast replay tallycast-archive --run shot-1042 --time original --prefix again
  tallycast replay tallycast-archive --during shot-17 --from +1s --to +2s --prefix again";

/// Interval at which the progress is shown and the threads are checked: their end has no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Folder of the archive [default: record.root of the settings]
    root: Option<PathBuf>,
    /// The archive run to replay; with --during, required if several have recordings of that time
    #[arg(long, value_name = "NAME", required_unless_present = "during")]
    run: Option<RunName>,
    #[command(flatten)]
    selection: Selection,
    /// Streams to replay [default: all]; may be given several times
    #[arg(long, value_name = "PATTERN")]
    stream: Vec<StreamPattern>,
    /// Time stamps of the samples
    #[arg(long, value_enum, default_value_t)]
    time: Times,
    /// Speed relative to the recording: 10, 0.5 or 1/2
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Prefix for the stream names
    #[arg(long, value_name = "WORD")]
    prefix: Option<String>,
    /// Wait until every stream has a reader before the first sample, at most this long, so that present readers miss
    /// nothing
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = text::duration)]
    wait: Duration,
    /// End after this time, such as 30s
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print the totals as JSON at the end
    #[arg(long, short = 'J')]
    json: bool,
}

/// Times that replayed samples carry.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Times {
    /// As if the samples were acquired now
    #[default]
    Now,
    /// The times at which they were acquired
    Original,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let given = arguments.root.as_ref().map(|root| root.display().to_string());
    let archive = Archive::open(settings.text("record.root", given.as_deref())?.as_ref())?;
    let Found { streams, is_whole: is_found_whole, range } = arguments.find(&archive)?;
    let damaged = streams.iter().flat_map(|entry| &entry.epochs).flat_map(|recording| &recording.damaged);
    damaged.for_each(|damaged| eprintln!("warning: {damaged}"));
    let recordings = || streams.iter().flat_map(stored);
    let Some(origin) = recordings().map(|recording| recording.t0.max(range.start)).min() else {
        bail!(
            "nothing to replay is recorded of these streams and times\nlist what is: tallycast query ROOT --list"
        );
    };
    let total = (!arguments.selection.is_given()).then(|| recordings().map(|it| it.samples).sum::<u64>());
    let of = total.map_or_else(String::new, |total| format!(" of {total}"));
    let mut status = StatusLine::new(arguments.json);
    let cancellation = signals::cancellation()?;
    let mut schedule = Schedule::new(cancellation.clone(), origin, arguments.speed, arguments.time)?;
    let node = settings.node()?;
    let plan = Plan { archive: &archive, node: &node, arguments: &arguments, range };
    let parts = streams.iter().filter_map(|entry| Part::open(entry, &plan, &schedule).transpose());
    let parts = parts.collect::<anyhow::Result<Vec<_>>>()?;
    Ending::new(cancellation.clone(), None, None)
        .wait_for_readers(parts.iter().map(|part| &part.first), arguments.wait);
    schedule.begin()?;
    let deadline = Deadline::after(arguments.duration);
    let is_whole = std::thread::scope(|scope| {
        let (plan, schedule) = (&plan, &schedule);
        let players: Vec<_> =
            parts.into_iter().map(|part| scope.spawn(move || part.play(plan, schedule))).collect();
        while !players.iter().all(ScopedJoinHandle::is_finished) {
            if deadline.is_over() {
                cancellation.cancel();
            }
            status.show(|| format!("{}{of} samples published", schedule.published()));
            std::thread::sleep(POLL_INTERVAL);
        }
        status.clear();
        let results: Vec<_> = players.into_iter().map(|player| player.join()).collect();
        results.into_iter().try_fold(true, |is_whole, result| {
            Ok::<_, anyhow::Error>(
                is_whole & result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            )
        })
    })?;
    let is_found_whole =
        is_found_whole && streams.iter().flat_map(|it| &it.epochs).all(|it| it.damaged.is_empty());
    Ok(if is_whole && is_found_whole { Outcome::Fine } else { Outcome::Found })
}

/// What is to be replayed.
struct Found {
    /// Streams with their epochs in the range.
    streams: Vec<StreamEntry>,
    /// False if some recordings cannot be read.
    is_whole: bool,
    range: Range<WallTime>,
}

impl Arguments {
    /// Finds the recordings of the archive run that is named, or of the only one that has some of the selected time.
    fn find(&self, archive: &Archive) -> anyhow::Result<Found> {
        let runs = match &self.run {
            Some(run) => vec![run.clone()],
            None => archive.runs()?,
        };
        let wanted = |entry: &StreamEntry| {
            self.stream.is_empty() || self.stream.iter().any(|pattern| pattern.matches(&entry.name))
        };
        let (mut streams, mut is_whole) = (Vec::new(), true);
        for run in runs {
            let (entries, unreadable) = archive.survey(&run)?;
            streams.extend(entries.into_iter().filter(wanted));
            for epoch in unreadable {
                eprintln!("warning: cannot read {}: {}", epoch.folder.display(), epoch.cause);
                is_whole = false;
            }
        }
        let spans = streams.iter().flat_map(stored).map(Recording::span);
        let whole = spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(ALWAYS);
        let range = self.selection.range(archive, &whole, ALWAYS)?;
        for entry in &mut streams {
            entry.epochs.retain(|recording| recording.samples > 0 && is_in(&recording.span(), &range));
        }
        streams.retain(|entry| !entry.epochs.is_empty());
        let mut runs: Vec<&str> = streams.iter().map(|entry| entry.run.as_str()).collect();
        runs.sort_unstable();
        runs.dedup();
        if runs.len() > 1 {
            bail!(
                "several archive runs have recordings of this time\nchoose one with --run: {}",
                runs.join(", ")
            );
        }
        Ok(Found { streams, is_whole, range })
    }
}

/// Recordings to be replayed, their archive and their destination.
struct Plan<'a> {
    archive: &'a Archive,
    node: &'a Node,
    arguments: &'a Arguments,
    range: Range<WallTime>,
}

/// One stream's part of a replay.
struct Part<'a> {
    entry: &'a StreamEntry,
    /// Opened ahead, so that readers have joined when the first sample is due.
    first: Publisher,
}

impl<'a> Part<'a> {
    /// Opens the first epoch of a stream; `None` if nothing of the stream is stored.
    fn open(entry: &'a StreamEntry, plan: &Plan<'_>, schedule: &Schedule) -> anyhow::Result<Option<Self>> {
        let first = stored(entry).next().map(|recording| plan.open(entry, recording, schedule));
        Ok(first.transpose()?.map(|first| Self { entry, first }))
    }

    /// Replays the epochs, one after the other. Returns whether everything stored could be read.
    fn play(self, plan: &Plan<'_>, schedule: &Schedule) -> anyhow::Result<bool> {
        let (mut opened, mut is_whole) = (Some(self.first), true);
        for recording in stored(self.entry) {
            let publisher = match opened.take() {
                Some(publisher) => publisher,
                None if !schedule.wait_for(recording.t0.max(plan.range.start)) => return Ok(is_whole),
                None => plan.open(self.entry, recording, schedule)?,
            };
            let mut replay = Replay { recording, publisher, schedule, inherited: Inherited::default() };
            let replayed = replay.run(plan.archive, plan.range.clone());
            is_whole &= replay.inherited.is_whole();
            is_whole &= plan.report(self.entry, replay)?;
            replayed.map_err(|error| anyhow!(error).context(self.entry.name.to_string()))?;
        }
        Ok(is_whole)
    }
}

/// Returns the epochs with data to replay.
fn stored(entry: &StreamEntry) -> impl Iterator<Item = &Recording> {
    entry.epochs.iter().filter(|recording| recording.samples > 0)
}

impl Plan<'_> {
    fn open(
        &self,
        entry: &StreamEntry,
        recording: &Recording,
        schedule: &Schedule,
    ) -> anyhow::Result<Publisher> {
        let name = match &self.arguments.prefix {
            Some(prefix) => format!("{prefix}/{}", entry.name),
            None => entry.name.to_string(),
        };
        let schema = schedule.schema(&recording.description.schema)?;
        let builder = self.node.publisher(name).schema(&schema).clock(schedule.clock());
        let labels = inherited::labels(entry, recording, self.first_of_part(recording)?).into_iter();
        Ok(labels.fold(builder, |builder, (key, label)| builder.label(key, label)).open()?)
    }

    /// Returns the index of the first sample that is replayed, if that is a part of the recording.
    fn first_of_part(&self, recording: &Recording) -> anyhow::Result<Option<u64>> {
        if !self.arguments.selection.is_given() {
            return Ok(None);
        }
        for piece in self.archive.epoch(recording, self.range.clone()) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => return Ok(Some(hole.first_index)),
                Piece::Block(block) => return Ok(Some(block.first_index)),
            }
        }
        Ok(Some(recording.first_index))
    }

    /// Ends an epoch, and reports its totals and the origin of its holes. Returns whether any of it left.
    fn report(&self, entry: &StreamEntry, replay: Replay<'_>) -> anyhow::Result<bool> {
        let Replay { recording, publisher, inherited, .. } = replay;
        let (name, epoch, readers) = (publisher.name().clone(), publisher.epoch(), publisher.readers());
        let status = publisher.close_with_status();
        let left = self.node.bus().shm.is_some() || some_left(&name, &status.totals);
        if self.arguments.json {
            let mut json = totals_json(&name, epoch, &status, &readers);
            json["inherited"] = inherited.to_json(entry, recording);
            print_line(&json)?;
            return Ok(left);
        }
        let samples = &status.totals.samples;
        eprintln!("{name}: {} of {} samples were sent", samples.numbered, samples.offered);
        if let Some(said) = inherited.text(entry.name.as_str()) {
            eprintln!("{name}: {said}");
        }
        Ok(left)
    }
}
