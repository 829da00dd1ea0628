//! `tallycast doctor fix` and `undo`: prints the steps of [`doctor::fix`], and asks its questions.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use doctor::{
    Change, Entry, FixOptions, FixOutcome, FixStep, FixUser, Journal, Plan, Proof, Undone, Wanted, Window,
};
use flow::{Fed, Feed};
use serde_json::{Value, json};
use sys::Cancellation;
use units::text;

use super::Selection;
use super::load;
use super::text::{command, line};
use crate::Outcome;
use crate::messages::print_line;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo tallycast doctor fix --port 5004         watch, show the change, ask, change, measure again
  sudo tallycast doctor fix --duration 30s --yes  without asking
  sudo tallycast doctor fix --port 5004 --load 20000  without traffic: send it 20,000 datagrams per second

It watches live traffic for a while, shows the change and its undo, applies it with your consent, and
watches again for the same time. A change that did not help is undone at once. Kept changes are in a journal, and
`tallycast doctor undo` undoes them. It acts in the network namespace and on the host in which it runs: run it on the
sender's host for losses of a sender.
Exit codes: 0 nothing was lost, or the changes helped; 1 losses remain (of the sockets of --port or --pid, if given); 2 it failed.";

pub(crate) const UNDO_EXAMPLES: &str = "\
Examples:
  sudo tallycast doctor undo                    the newest change
  sudo tallycast doctor undo --all
  tallycast doctor undo --list                  the changes in the journal

Settings that were changed by others since are left alone and reported.
Exit codes: 0 done, 1 something was left alone, 2 it failed.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Length of the measurement, before and after a change
    #[arg(long, short = 't', alias = "window", value_name = "DURATION", default_value = "5s", value_parser = text::duration)]
    duration: Duration,
    /// Send this many datagrams per second to the reader of the one --port during the measurement; it receives data
    /// it does not expect
    #[arg(long, value_name = "RATE", value_parser = clap::value_parser!(u64).range(1..=Feed::MOST_PER_SECOND))]
    load: Option<u64>,
    /// Change without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    journal: JournalFile,
    /// One JSON object per step, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UndoArguments {
    /// Undo every change, the newest first
    #[arg(long)]
    all: bool,
    /// Only list the changes that would be undone
    #[arg(long, conflicts_with = "all")]
    list: bool,
    #[command(flatten)]
    journal: JournalFile,
    /// One JSON object per change, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

#[derive(Args, Debug)]
struct JournalFile {
    /// File for the record of changes [default: $XDG_STATE_HOME/tallycast/doctor.jsonl]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl JournalFile {
    fn path(self) -> PathBuf {
        self.journal.unwrap_or_else(Journal::default_path)
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let Arguments { selection, duration: window, load, yes, journal, json } = arguments;
    if !yes && (json || !std::io::stdin().is_terminal()) {
        bail!(
            "there is no terminal to ask on\ngive --yes to change without asking, or see the losses first: tallycast doctor watch"
        );
    }
    let load = load.map(|per_second| load::feed(&selection, per_second)).transpose()?;
    let cancellation = signals::cancellation()?;
    let mut user = User { report: Report { json }, yes, window, cancellation, load: load.map(Load::new) };
    let wanted = Wanted::from(selection);
    let outcome = doctor::fix(FixOptions { wanted, window, journal: journal.path() }, &mut user)?;
    Ok(match outcome {
        FixOutcome::Fixed => Outcome::Fine,
        FixOutcome::LossesRemain => Outcome::Found,
    })
}

/// The person at the terminal, and the load that is sent for them.
struct User {
    report: Report,
    /// Consent was given for all changes.
    yes: bool,
    window: Duration,
    cancellation: Cancellation,
    load: Option<Load>,
}

impl FixUser for User {
    type Error = anyhow::Error;

    fn step(&mut self, step: &FixStep<'_>) -> anyhow::Result<()> {
        Ok(self.report.step(step)?)
    }

    fn consents(&mut self, _change: &Change) -> anyhow::Result<bool> {
        Ok(self.yes || ask(self.window)?)
    }

    fn wait(&mut self, time: Duration) -> bool {
        !self.cancellation.wait(time)
    }

    fn on_begin(&mut self) {
        if let Some(load) = &mut self.load {
            load.begin(self.window);
        }
    }

    fn on_end(&mut self) -> anyhow::Result<()> {
        let fed = self.load.as_mut().map(|load| load.end().map(|fed| (load.to, fed))).transpose()?;
        Ok(fed.map_or(Ok(()), |(to, fed)| self.report.fed(to, &fed))?)
    }
}

fn ask(window: Duration) -> anyhow::Result<bool> {
    let mut output = std::io::stdout().lock();
    write!(output, "Do it, and measure again for {} s? [y/N] ", window.as_secs_f64())?;
    output.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Traffic of our own, sent during a measurement by a thread.
struct Load {
    to: SocketAddr,
    /// The sender while it is idle.
    feed: Option<Feed>,
    sending: Option<JoinHandle<(Feed, Fed)>>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    fn new((feed, to): (Feed, SocketAddr)) -> Self {
        Self { to, feed: Some(feed), sending: None, is_over: Arc::default() }
    }

    fn begin(&mut self, window: Duration) {
        self.is_over.store(false, Ordering::Relaxed);
        let is_over = Arc::clone(&self.is_over);
        self.sending = self.feed.take().map(|mut feed| {
            std::thread::spawn(move || {
                let fed = feed.send(window, &|| is_over.load(Ordering::Relaxed));
                (feed, fed)
            })
        });
    }

    fn end(&mut self) -> anyhow::Result<Fed> {
        self.is_over.store(true, Ordering::Relaxed);
        let sent = self.sending.take().map(JoinHandle::join);
        let (feed, fed) = sent.and_then(Result::ok).ok_or_else(|| anyhow!("the sending thread panicked"))?;
        self.feed = Some(feed);
        Ok(fed)
    }
}

pub(crate) fn undo(arguments: UndoArguments) -> anyhow::Result<Outcome> {
    let UndoArguments { all, list, journal, json } = arguments;
    let mut journal = Journal::open(&journal.path())?;
    let report = Report { json };
    let open: Vec<Entry> = journal.open_entries().rev().cloned().collect();
    if list {
        open.iter().try_for_each(|entry| report.entry(entry))?;
        return Ok(Outcome::Fine);
    }
    if open.is_empty() {
        report.nothing_to_undo()?;
    }
    let mut outcome = Outcome::Fine;
    for entry in open.iter().take(if all { usize::MAX } else { 1 }) {
        let undone = doctor::undo(&mut journal, entry)?;
        report.undone(entry, &undone)?;
        if matches!(undone, Undone::LeftAlone(_)) {
            outcome = Outcome::Found;
        }
    }
    Ok(outcome)
}

/// Output of each step.
#[derive(Clone, Copy)]
struct Report {
    json: bool,
}

impl Report {
    fn print(&self, object: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> std::io::Result<()> {
        if self.json {
            return print_line(&object());
        }
        writeln!(std::io::stdout().lock(), "{}", text())
    }

    fn step(self, step: &FixStep<'_>) -> std::io::Result<()> {
        if self.json {
            return print_line(&step.to_json());
        }
        let mut output = std::io::stdout().lock();
        match *step {
            FixStep::Watching { sockets, window } => {
                writeln!(output, "watching {sockets} UDP sockets for {} s", window.as_secs_f64())
            }
            FixStep::NothingLost { before: Window { delivered: 0, .. } } => {
                writeln!(output, "nothing came: start what sends, or let this send (--port PORT --load RATE)")
            }
            FixStep::NothingLost { before: Window { delivered, .. } } => {
                writeln!(output, "nothing was lost of {delivered} datagrams: there is nothing to fix")
            }
            FixStep::Plan { plan, change, before } => write_plan(&mut output, plan, change, before),
            FixStep::Proof { before, after, proof, .. } => {
                line(&mut output, "before", &window_text(before))?;
                line(&mut output, "after", &window_text(after))?;
                line(&mut output, "proof", proof_text(proof))
            }
        }
    }

    fn fed(self, to: SocketAddr, fed: &Fed) -> std::io::Result<()> {
        let Fed { sent, refused, skipped } = *fed;
        self.print(
            || json!({ "event": "load", "to": to.to_string(), "sent": sent, "refused": refused, "skipped": skipped }),
            || format!("sent {sent} datagrams to {to}; the host refused {refused}, and {skipped} were too late to be sent"),
        )
    }

    fn entry(&self, entry: &Entry) -> std::io::Result<()> {
        self.print(
            || json!({ "event": "change", "number": entry.number, "utc_ns": entry.at.as_nanos(), "change": entry.change }),
            || format!("{:>4}  {}", entry.number, entry.change),
        )
    }

    fn undone(&self, entry: &Entry, undone: &Undone) -> std::io::Result<()> {
        self.print(
            || json!({ "event": "undo", "number": entry.number, "change": entry.change, "result": undone.to_string() }),
            || format!("{:>4}  {}: {undone}", entry.number, entry.change),
        )
    }

    fn nothing_to_undo(&self) -> std::io::Result<()> {
        self.print(|| json!({ "event": "nothing_to_undo" }), || "no change to undo".to_owned())
    }
}

fn write_plan(
    output: &mut impl Write,
    plan: &Plan,
    change: Option<&Change>,
    before: &Window,
) -> std::io::Result<()> {
    let Plan { stage, place, lost, .. } = plan;
    writeln!(output, "lost {lost} in {:.1} s at {}, {place}", before.time.as_secs_f64(), stage.name())?;
    line(output, "why", &plan.why)?;
    match change {
        Some(change) => {
            command(output, "change", &change.to_string())?;
            command(output, "undo", &change.undo().unwrap_or_else(|| "by hand".to_owned()))?;
        }
        None => line(output, "change", "none that can be made and undone from here")?,
    }
    plan.by_hand.iter().try_for_each(|remedy| {
        line(output, "by hand", &remedy.what)?;
        remedy.command().map_or(Ok(()), |it| command(output, "", &it))
    })
}

const fn proof_text(proof: Proof) -> &'static str {
    match proof {
        Proof::Helped => "it helped, and is kept; `tallycast doctor undo` takes it back",
        Proof::DidNotHelp => "it did not help, and was undone",
        Proof::NoTraffic => "there was much less traffic than before: nothing is proved, and it was undone",
    }
}

fn window_text(window: &Window) -> String {
    let Window { time, delivered, lost } = window;
    let (offered, percent) = (delivered + lost, 100.0 * window.lost_share());
    format!("lost {lost} of {offered} in {:.1} s ({percent:.2} %)", time.as_secs_f64())
}
