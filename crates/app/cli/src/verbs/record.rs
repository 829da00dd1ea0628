//! `tallycast record`: writes streams into an archive run, every element with its gap map and account.
//!
//! The rate and the disk's end, which are shown meanwhile, are in `pace`.

mod pace;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Clock};

use anyhow::Context;
use archive::{
    Compactor, FileStore, Notice, Options, Progress, Recorder, RunName, Store, Totals, moment_text,
};
use clap::Args;
use serde_json::json;
use tallycast::runs::{self, Keeper, RunError};
use tallycast::{Epoch, Event, StreamAccount, StreamName, StreamPattern, Subscriber, WallTime};
use units::Instant;
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::reading::Patience;
use crate::settings::Sources;
use crate::signals::AsChild;
use crate::status_line::StatusLine;
use crate::verbs::subscribe::account_line;
use crate::verbs::unjoined;
use pace::Pace;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast record 'lab/**'           a run named by time and station
  tallycast record --run shot-1042 'lab/**'
  tallycast record --run night --archive /data/archive '**' --duration 8h
  tallycast query tallycast-archive --list

A terminal shows the rate, the size, losses, free space and the time until the disk is full; without one there is a line a minute.
Events of runs (tallycast run start) are recorded as well, and told to later readers; with --until-end only if asked for: 'run/*'.
To continue after a crash, give the same command with --run; the samples missed in between are recorded as a gap.
A damaged file in the run is reported and kept, and the exit code is 1: see tallycast archive verify.";

/// Interval at which the clock and the request to end are checked: a subscriber sleeps at words of memory, not at
/// descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which accounts are passed to the recorder; it writes them less often.
const ACCOUNTS: Duration = Duration::from_secs(1);
/// Interval of the lines about progress where there is no terminal.
const LINES: Duration = Duration::from_secs(60);
/// Maximum number of streams that are remembered to have failed; an older one is complained of again.
const MAX_FAILED: usize = 256;
/// Length of a station within a run's name: its folder has room for the rest.
const STATION_LETTERS: usize = 100;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to record, such as lab/probe, 'lab/*' or '**'
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<StreamPattern>,
    /// Name of the archive run, one word [default: time and station, such as 2026-11-26T135807Z-daq-3]
    #[arg(long, value_name = "NAME")]
    run: Option<RunName>,
    /// Folder of the archive; created if missing [default: record.root of the settings]
    #[arg(long, alias = "root", value_name = "DIR")]
    archive: Option<PathBuf>,
    /// End after this time, such as 8h
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// End once every joined stream has ended; a stream that falls silent counts as ended after a minute
    #[arg(long)]
    until_end: bool,
    /// Age from which samples are of no use: relays serve it, and what is older when it comes is lost [default: none]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    deadline: Option<Duration>,
    /// Name of this reader in accounts
    #[arg(long, value_name = "NAME", default_value = "recorder")]
    reader: String,
    /// Print run and progress, and the accounts at the end, as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    #[command(flatten)]
    child: AsChild,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let flag = arguments.archive.as_ref().map(|root| root.display().to_string());
    let root = settings.text("record.root", flag.as_deref())?;
    let node = settings.node()?;
    let run = arguments.run.clone().unwrap_or_else(|| own_name(sys::clock::wall(), node.station()));
    let cancellation = arguments.child.cancellation()?;
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root.as_ref()).with_context(|| root.clone())?);
    let mut recording =
        Recording::open(Arc::clone(&store), &arguments, &run).with_context(|| root.clone())?;
    let runs = (!arguments.until_end).then_some(runs::PATTERN);
    let mut patterns = arguments.patterns.iter().map(StreamPattern::as_str).chain(runs);
    let mut builder = node.subscriber(patterns.next().expect("clap asks for one")).reader(&arguments.reader);
    builder = patterns.fold(builder, tallycast::SubscriberBuilder::pattern);
    if let Some(deadline) = arguments.deadline {
        builder = builder.deadline(deadline);
    }
    let subscriber = builder.open()?;
    if arguments.json {
        print_line(&json!({"event": "recording", "run": run.as_str(), "root": root}))?;
    } else {
        eprintln!("recording run {run} in {root}");
    }
    // A keeper's stream ends with its process: one that waits for the ends of streams would wait for itself.
    recording.keeper = runs.map(|_| Keeper::new(&node, "recorder"));
    let patience = Patience::new(cancellation, arguments.child.patience, arguments.until_end);
    let mut recorded = recording.record(subscriber, patience, Deadline::after(arguments.duration));
    recorded.whole &= unjoined::say(&node);
    if recorded.accounts.is_empty() {
        eprintln!("nothing was recorded: no stream matched the patterns\nlist the streams: tallycast ls");
        return Ok(Outcome::Found);
    }
    print(&arguments, &recorded)
}

/// Returns the name of a run that was given none: `2026-11-26T135807Z-daq-3`.
fn own_name(time: WallTime, station: &str) -> RunName {
    let time = moment_text(time);
    let second = time.split('.').next().unwrap_or_default().replace(':', "");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let station: String =
        station.chars().map(|it| if is_plain(it) { it } else { '-' }).take(STATION_LETTERS).collect();
    format!("{second}Z-{station}").parse().expect("these letters are those of names")
}

/// Result of a recording.
struct Recorded {
    accounts: Vec<StreamAccount>,
    progress: Vec<Progress>,
    /// Elements that could not be written, also of streams without progress.
    not_written: u64,
    /// True if everything was recorded without a fault.
    whole: bool,
}

/// Elements that never reached this reader, for the progress.
#[derive(Default)]
struct Missing {
    /// Of the accounts that have ended.
    ended: u64,
    /// Of each open one, as last seen.
    open: BTreeMap<(Arc<StreamName>, Epoch, u32), u64>,
}

/// A recorder with its clock and its background work.
struct Recording {
    recorder: Recorder,
    compactor: Compactor,
    store: Arc<dyn Store>,
    json: bool,
    status: StatusLine,
    pace: Pace,
    next_line: Clock,
    missing: Missing,
    /// Streams that could not be recorded, and were complained of: the newest.
    failed: VecDeque<(Arc<StreamName>, Epoch)>,
    /// Something in the run is damaged, and was complained of.
    damaged: Arc<AtomicBool>,
    /// Number of streams being recorded.
    joined: usize,
    began: Clock,
    next_accounts: Clock,
    /// Of the runs of the experiment.
    keeper: Option<Keeper>,
}

impl Recording {
    fn open(store: Arc<dyn Store>, arguments: &Arguments, run: &RunName) -> anyhow::Result<Self> {
        let damaged = Arc::new(AtomicBool::new(false));
        let found_damaged = Arc::clone(&damaged);
        let compactor = Compactor::start(Arc::clone(&store), move |done| match done {
            Ok(done) => tracing::info!("segment {} compacted", done.segment.number),
            Err(error) => {
                tracing::warn!("cannot compact a segment: {error}");
                // Relaxed: read once the thread has ended.
                found_damaged.fetch_or(error.is_damage(), Ordering::Relaxed);
            }
        })?;
        let options = Options { reader: arguments.reader.clone(), ..Options::default() };
        let recorder = Recorder::open(Arc::clone(&store), run.clone(), options, Instant::ORIGIN)?;
        let began = Clock::now();
        Ok(Self {
            recorder,
            compactor,
            store,
            pace: Pace::new(began),
            next_line: began + LINES,
            missing: Missing::default(),
            json: arguments.json,
            status: StatusLine::new(arguments.json),
            failed: VecDeque::new(),
            damaged,
            joined: 0,
            began,
            next_accounts: began + ACCOUNTS,
            keeper: None,
        })
    }

    /// Records until the end. After any failure everything else is still stored and reported.
    fn record(mut self, mut subscriber: Subscriber, mut patience: Patience, deadline: Deadline) -> Recorded {
        while !(deadline.is_over() || patience.is_over(&mut subscriber)) {
            let due = self.recorder.deadline().since(self.now());
            if let Some(event) = subscriber.next(deadline.left(due.min(POLL_INTERVAL))) {
                self.take(&event);
            }
            self.recorder.tick(self.now());
            self.note_accounts(&subscriber);
            self.keep(Keeper::tend);
            self.pass_on();
            self.show();
        }
        // The account counts waiting events as delivered, so they are recorded too.
        let accounts = subscriber.close_into(|event| self.take(&event));
        // A commit before closing, so that the reported progress is the last.
        self.recorder.tick(self.recorder.deadline());
        let progress = self.recorder.progress().collect();
        let not_written = self.recorder.totals().archive_write;
        self.pass_on();
        let mut whole = self.failed.is_empty();
        let now = self.now();
        match self.recorder.close(now) {
            Ok(closed) => self.compactor.take(closed),
            Err(error) => {
                tracing::error!("the recording could not be closed: {error}");
                whole = false;
            }
        }
        self.status.show(|| "writing closed segments as Parquet".to_owned());
        // Waits until that is done.
        drop(self.compactor);
        whole &= !self.damaged.load(Ordering::Relaxed);
        Recorded { accounts, progress, not_written, whole }
    }

    fn take(&mut self, event: &Event) {
        self.tell(event);
        if let Event::Block(block) = event {
            self.keep(|keeper| keeper.take(block).map(|_| ()));
        }
        let Err(error) = self.recorder.handle(self.now(), event) else { return };
        let (stream, epoch) = origin(event);
        // Reported once: everything after it fails alike.
        if !self.failed.iter().any(|it| (&it.0, it.1) == (stream, epoch)) {
            self.failed.push_back((Arc::clone(stream), epoch));
            self.status.clear();
            tracing::error!("{stream} in epoch {epoch} is not recorded: {error}");
        }
        if self.failed.len() > MAX_FAILED {
            self.failed.pop_front();
        }
    }

    /// Keeps runs of the experiment for later readers; without that they are recorded nevertheless.
    fn keep(&mut self, act: impl FnOnce(&mut Keeper) -> Result<(), RunError>) {
        let Some(Err(error)) = self.keeper.as_mut().map(act) else { return };
        self.keeper = None;
        self.status.clear();
        tracing::warn!("later readers are not told of the runs: {error}");
    }

    /// Reports that a stream is recorded, and that it has ended.
    fn tell(&mut self, event: &Event) {
        match event {
            Event::Began(info) => {
                self.joined += 1;
                if !self.json {
                    let schema = &info.schema;
                    let (channels, dtype, rate) = (schema.channels.len(), schema.dtype, schema.rate);
                    self.status.say(&format!(
                        "{}: joined at sample {}, {channels} × {dtype} at {rate} samples/s",
                        info.name, info.first_index
                    ));
                }
            }
            Event::Ended(account) => {
                self.joined = self.joined.saturating_sub(1);
                self.missing.end(account);
            }
            Event::Block(_) | Event::Gap(_) | Event::Settled(_) | Event::Statement(_) => {}
        }
    }

    /// Shows the progress: in a terminal on one line, otherwise, and as JSON, on a line a minute.
    fn show(&mut self) {
        let is_watched = self.status.is_watched();
        let is_due = if is_watched { self.status.is_due() } else { Clock::now() >= self.next_line };
        if !is_due {
            return;
        }
        self.next_line = Clock::now() + LINES;
        let progress = self.progress();
        if is_watched {
            self.status.show(|| progress.text());
        } else if self.json {
            // A closed output is no reason to stop recording.
            drop(print_line(&progress.json()));
        } else {
            eprintln!("{}", progress.text());
        }
    }

    fn progress(&mut self) -> pace::Progress {
        let Totals { accepted_bytes: bytes, archive_write } = self.recorder.totals();
        pace::Progress {
            streams: self.joined,
            bytes,
            bytes_per_s: self.pace.per_second(Clock::now(), bytes),
            missing: self.missing.total(),
            not_written: archive_write,
            free_bytes: self.store.space_bytes().ok(),
        }
    }

    fn note_accounts(&mut self, subscriber: &Subscriber) {
        if Clock::now() < self.next_accounts {
            return;
        }
        self.next_accounts = Clock::now() + ACCOUNTS;
        let accounts = subscriber.accounts();
        accounts.iter().for_each(|account| self.missing.note(account));
        self.recorder.note_accounts(self.now(), &accounts);
    }

    /// Prints the recorder's messages and passes closed segments to the compactor.
    fn pass_on(&mut self) {
        while let Some(notice) = self.recorder.poll_notice() {
            self.status.clear();
            let is_damage =
                matches!(notice, Notice::Mended { .. } | Notice::Damaged { .. } | Notice::LeftAlone { .. });
            self.damaged.fetch_or(is_damage, Ordering::Relaxed);
            say(&notice);
        }
        self.compactor.take(self.recorder.take_closed());
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.began.elapsed()
    }
}

impl Missing {
    fn note(&mut self, account: &StreamAccount) {
        self.open.insert(key_of(account), account.account.elements.missing());
    }

    fn end(&mut self, account: &StreamAccount) {
        self.open.remove(&key_of(account));
        self.ended += account.account.elements.missing();
    }

    fn total(&self) -> u64 {
        self.ended + self.open.values().sum::<u64>()
    }
}

fn key_of(account: &StreamAccount) -> (Arc<StreamName>, Epoch, u32) {
    (Arc::clone(&account.stream), account.epoch, account.join)
}

fn origin(event: &Event) -> (&Arc<StreamName>, Epoch) {
    match event {
        Event::Began(info) => (&info.name, info.epoch),
        Event::Block(block) => (&block.stream, block.epoch),
        Event::Gap(gap) | Event::Settled(gap) => (&gap.stream, gap.epoch),
        Event::Statement(statement) => (&statement.stream, statement.epoch),
        Event::Ended(account) => (&account.stream, account.epoch),
    }
}

fn say(notice: &Notice) {
    match notice {
        Notice::Recovered { stream, cut_bytes } => {
            tracing::warn!("{stream}: {cut_bytes} unacknowledged bytes were truncated");
        }
        Notice::Mended { stream, mended } => {
            let kept = mended.kept_as.as_ref().map(|name| format!("; the damaged file is kept as {name}"));
            tracing::warn!(
                "{stream}: {} was damaged and is rebuilt ({}){}",
                mended.file,
                mended.cause,
                kept.unwrap_or_default()
            );
        }
        Notice::Damaged { cause } => {
            tracing::warn!("{cause}\nlist the damage and what it costs: tallycast archive verify ROOT");
        }
        Notice::LeftAlone { path, cause } => {
            tracing::warn!("{} cannot be recovered and is left unchanged: {cause}", path.display());
        }
        Notice::Resumed { stream, stored_index } => {
            tracing::info!("{stream}: recording continues after sample {stored_index}");
        }
        Notice::DiskFull { cause } => {
            tracing::warn!(
                "the disk is full ({cause}); samples are counted as archive_write until there is space\n\
                 free some, or record to another disk with --archive DIR"
            );
        }
        Notice::Gone { cause } => tracing::error!(
            "{cause}\nsamples are counted as archive_write until it is back; earlier data are where it was moved\n\
             put it back, or end this recorder and record into another folder with --archive DIR"
        ),
        Notice::Back => tracing::warn!("the archive is back in place, recording continues"),
        Notice::DiskBack => tracing::warn!("disk space is available again, recording continues"),
        Notice::DiskFilling(level) => tracing::warn!(
            "the disk is {} % full, {} are free\n\
             free some before it is full, or record to another disk with --archive DIR",
            level.used_percent(),
            text::decimal_size(level.free_bytes)
        ),
        Notice::DiskEased(level) => {
            tracing::info!("the disk is {} % full, less than before", level.used_percent());
        }
        Notice::WriteFailed { stream, cause } => {
            tracing::warn!("{stream}: cannot be written ({cause}); samples are counted as archive_write");
        }
        Notice::WriteResumed { stream } => tracing::warn!("{stream}: writing works again"),
    }
}

/// Prints the accounts, each with the archive's part.
fn print(arguments: &Arguments, recorded: &Recorded) -> anyhow::Result<Outcome> {
    let mut in_order = recorded.whole && recorded.not_written == 0 && all_taken(recorded);
    for account in &recorded.accounts {
        let mut progress = recorded.progress.iter();
        let kept = progress.find(|it| it.stream == account.stream && it.epoch == account.epoch);
        let lost = kept.map_or(0, |it| it.archive_write);
        in_order &= tallycast::is_in_order_among(account, &recorded.accounts);
        if arguments.json {
            let mut line = account_line(account);
            line["archive"] = kept.map_or(serde_json::Value::Null, progress_json);
            print_line(&line)?;
        } else if let Some(kept) = kept {
            eprintln!(
                "{}: {} elements stored up to sample {}, {lost} not written, account {}",
                kept.stream, kept.stored, kept.stored_index, account.account.state
            );
        } else {
            eprintln!("{}: account {}", account.stream, account.account.state);
        }
    }
    Ok(if in_order { Outcome::Fine } else { Outcome::Found })
}

/// Checks that the archive has every element that the reader delivered, and reports where it has not.
fn all_taken(recorded: &Recorded) -> bool {
    let mut all = true;
    for progress in &recorded.progress {
        let ours = |it: &&StreamAccount| it.stream == progress.stream && it.epoch == progress.epoch;
        let accounts = recorded.accounts.iter().filter(ours);
        let delivered: u64 = accounts.map(|account| account.account.elements.delivered).sum();
        if delivered != progress.accepted {
            all = false;
            tracing::error!(
                "{}: {delivered} elements were delivered and {} were accepted by the archive; please report this",
                progress.stream,
                progress.accepted
            );
        }
    }
    all
}

fn progress_json(progress: &Progress) -> serde_json::Value {
    json!({
        "stored_index": progress.stored_index,
        "accepted": progress.accepted,
        "stored": progress.stored,
        "lost": {"archive_write": progress.archive_write},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_name_is_named_by_time_and_station() {
        let time = WallTime::from_nanos(1_795_292_100_500_000_000);
        assert_eq!(own_name(time, "daq-3").as_str(), "2026-11-21T201500Z-daq-3");
        assert_eq!(own_name(time, "hall 2/ä").as_str(), "2026-11-21T201500Z-hall-2--");
        assert_eq!(own_name(time, &"s".repeat(500)).as_str().len(), 19 + STATION_LETTERS);
    }
}
