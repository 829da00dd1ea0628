//! `tallycast record`: writes streams into a run of an archive, every element with its gap map and account.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use anyhow::Context;
use archive::{
    Began, Compactor, Description, FileStore, Input, Notice, Options, Progress, ReaderGap, Recorder, RunName,
    Store,
};
use clap::Args;
use serde_json::json;
use tallycast::{Event, StreamAccount, StreamPattern, Subscriber, account_json};
use units::Instant;

use crate::Outcome;
use crate::messages::print_line;
use crate::quantity;
use crate::reading::{Patience, StreamsSeen};
use crate::settings::Sources;
use crate::stop::{Deadline, Stop};
use crate::verbs::subscribe::account_line;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast record --run shot-1042 'lab/**'
  tallycast record --run night --root /data/archive '**' --duration 8h
  tallycast query tallycast-archive --list

Recording on after a crash: the same command; what was missed meanwhile is a recorded gap.";

/// The longest wait between two looks at the clock and the wish to end.
const LOOK: Duration = Duration::from_millis(100);
/// How often the recorder is told how the accounts stand; it writes them more rarely.
const ACCOUNTS: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to record, such as lab/probe, 'lab/*' or '**'
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<StreamPattern>,
    /// Name of the run, one word
    #[arg(long, value_name = "NAME")]
    run: RunName,
    /// Folder of the archive; made when it is not there [default: record.root of the settings]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// End after this time, such as 8h
    #[arg(long, value_parser = quantity::duration)]
    duration: Option<Duration>,
    /// End once every stream that was joined has ended
    #[arg(long)]
    until_end: bool,
    /// Name under which this reader's account is kept
    #[arg(long, value_name = "NAME", default_value = "recorder")]
    reader: String,
    /// Print the accounts as JSON at the end, one object a line
    #[arg(long)]
    json: bool,
    /// End when standard input does
    #[arg(long, hide = true)]
    with_parent: bool,
    /// Once the end is wished for, wait this long for the streams to end first
    #[arg(long, hide = true, value_parser = quantity::duration, default_value = "0s")]
    patience: Duration,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let flag = arguments.root.as_ref().map(|root| root.display().to_string());
    let root = settings.text("record.root", flag.as_deref())?;
    let node = settings.node()?;
    let stop = Stop::on_signals()?;
    if arguments.with_parent {
        stop.with_parent()?;
    }
    let store: Arc<dyn Store> = Arc::new(FileStore::create(root.as_ref()).with_context(|| root.clone())?);
    let recording = Recording::open(Arc::clone(&store), &arguments).with_context(|| root.clone())?;
    let mut patterns = arguments.patterns.iter().map(StreamPattern::as_str);
    let mut builder = node.subscriber(patterns.next().expect("clap asks for one")).reader(&arguments.reader);
    builder = patterns.fold(builder, tallycast::SubscriberBuilder::pattern);
    let subscriber = builder.open()?;
    if !arguments.json {
        eprintln!("recording run {} in {root}", arguments.run);
    }
    let patience = Patience::new(stop, arguments.patience, arguments.until_end);
    let (accounts, progress) = recording.record(subscriber, patience, Deadline::after(arguments.duration))?;
    print(&arguments, &accounts, &progress)
}

/// A recorder with its clock and what runs beside it.
struct Recording {
    recorder: Recorder,
    compactor: Compactor,
    reader: String,
    began: Clock,
    next_accounts: Clock,
}

impl Recording {
    fn open(store: Arc<dyn Store>, arguments: &Arguments) -> anyhow::Result<Self> {
        let compactor = Compactor::start(Arc::clone(&store), |done| match done {
            Ok(done) => tracing::info!("segment {} compacted", done.segment.number),
            Err(error) => tracing::warn!("a segment stays uncompacted: {error}"),
        })?;
        let recorder = Recorder::open(store, arguments.run.clone(), Options::default(), Instant::ORIGIN)?;
        let began = Clock::now();
        let reader = arguments.reader.clone();
        Ok(Self { recorder, compactor, reader, began, next_accounts: began + ACCOUNTS })
    }

    /// Records until the end; returns every account, and how far each stream was stored.
    fn record(
        mut self,
        mut subscriber: Subscriber,
        mut patience: Patience,
        deadline: Deadline,
    ) -> anyhow::Result<(Vec<StreamAccount>, Vec<Progress>)> {
        let mut seen = StreamsSeen::default();
        while !(deadline.is_over() || patience.is_over(&seen)) {
            let due = self.recorder.deadline().since(self.now());
            if let Some(event) = subscriber.next(deadline.left(due.min(LOOK))) {
                seen.take(&event);
                self.take(event)?;
            }
            self.recorder.tick(self.now());
            self.note_accounts(&subscriber)?;
            self.pass_on();
        }
        // What is still on its way was delivered, so it is recorded too.
        let mut rest = Vec::new();
        let accounts = subscriber.close_into(|event| rest.push(event));
        rest.into_iter().try_for_each(|event| self.take(event))?;
        // A commit before closing, so that the progress told is the last.
        self.recorder.tick(self.recorder.deadline());
        let progress = self.recorder.progress().collect();
        self.pass_on();
        let now = self.now();
        self.compactor.take(self.recorder.close(now)?);
        Ok((accounts, progress))
    }

    fn take(&mut self, event: Event) -> anyhow::Result<()> {
        let now = self.now();
        match event {
            Event::Began(info) => {
                let description = Description {
                    name: Arc::clone(&info.name),
                    epoch: info.epoch,
                    schema: Arc::clone(&info.schema),
                    station: info.station.clone(),
                };
                let began = Began { description, first_index: info.first_index, reader: self.reader.clone() };
                self.recorder.handle(now, Input::Began(began))?;
            }
            Event::Block(block) => self.recorder.handle(now, Input::Block(&block))?,
            Event::Gap(gap) | Event::Settled(gap) => {
                let gap =
                    ReaderGap { stream: gap.stream, epoch: gap.epoch, gap: gap.gap, t0: gap.t0, t1: gap.t1 };
                self.recorder.handle(now, Input::Gap(&gap))?;
            }
            Event::Ended(account) => self.recorder.handle(now, Input::Ended(for_archive(&account)))?,
        }
        Ok(())
    }

    fn note_accounts(&mut self, subscriber: &Subscriber) -> anyhow::Result<()> {
        if Clock::now() < self.next_accounts {
            return Ok(());
        }
        self.next_accounts = Clock::now() + ACCOUNTS;
        for account in subscriber.accounts() {
            self.recorder.handle(self.now(), Input::Account(for_archive(&account)))?;
        }
        Ok(())
    }

    /// Says what the recorder has to say and hands closed segments to the compactor.
    fn pass_on(&mut self) {
        while let Some(notice) = self.recorder.poll_notice() {
            say(&notice);
        }
        self.compactor.take(self.recorder.take_closed());
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.began.elapsed()
    }
}

fn for_archive(account: &StreamAccount) -> archive::StreamAccount {
    archive::StreamAccount {
        stream: Arc::clone(&account.stream),
        epoch: account.epoch,
        account: account_json(account),
    }
}

fn say(notice: &Notice) {
    match notice {
        Notice::Recovered { stream, cut_bytes } => {
            tracing::warn!("{stream}: {cut_bytes} bytes that nobody had acknowledged were cut off");
        }
        Notice::Resumed { stream, stored_index } => {
            tracing::info!("{stream}: recorded on behind sample {stored_index}");
        }
        Notice::DiskFull { cause } => {
            tracing::warn!(
                "the disk is full ({cause}); samples are counted as archive_write until there is space"
            );
        }
        Notice::DiskBack => tracing::warn!("there is space again, recording goes on"),
        Notice::WriteFailed { stream, cause } => {
            tracing::warn!("{stream}: cannot be written ({cause}); samples are counted as archive_write");
        }
        Notice::WriteResumed { stream } => tracing::warn!("{stream}: writing works again"),
    }
}

/// Prints the accounts, each with what the archive made of it.
fn print(
    arguments: &Arguments,
    accounts: &[StreamAccount],
    progress: &[Progress],
) -> anyhow::Result<Outcome> {
    let mut in_order = true;
    for account in accounts {
        let kept = progress.iter().find(|it| it.stream == account.stream && it.epoch == account.epoch);
        let lost = kept.map_or(0, |it| it.archive_write);
        in_order &= lost == 0 && tallycast::is_in_order(&account.account);
        if arguments.json {
            let mut line = account_line(account);
            line["archive"] = kept.map_or(serde_json::Value::Null, progress_json);
            print_line(&line)?;
        } else if let Some(kept) = kept {
            eprintln!(
                "{}: {} elements stored up to sample {}, {lost} not written, account {}",
                kept.stream, kept.stored, kept.stored_index, account.account.state
            );
        }
    }
    Ok(if in_order { Outcome::Fine } else { Outcome::Found })
}

fn progress_json(progress: &Progress) -> serde_json::Value {
    json!({
        "stored_index": progress.stored_index,
        "accepted": progress.accepted,
        "stored": progress.stored,
        "lost": {"archive_write": progress.archive_write},
    })
}
