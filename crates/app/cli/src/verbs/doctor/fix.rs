//! `tallycast doctor fix` and `undo`: remedies are applied, measured, and kept only if they helped.

mod tried;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bench::{Fed, Feed};
use clap::Args;
use doctor::{
    Change, ChangeError, Entry, Journal, Place, Plan, Plans, Proof, Tunables, Wanted, Watcher, Window,
    change_json,
};
use serde_json::{Value, json};
use sys::{Cancellation, clock};
use units::text;

use self::tried::Tried;
use super::Selection;
use super::load;
use super::text::line;
use crate::Outcome;
use crate::messages::print_line;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo tallycast doctor fix --port 5004         watch, show the change, ask, change, measure again
  sudo tallycast doctor fix --window 30s --yes  without asking
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
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = text::duration)]
    window: Duration,
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
    #[arg(long)]
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
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct JournalFile {
    /// File for the record of changes [default: $XDG_STATE_HOME/tallycast/doctor.jsonl]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

impl JournalFile {
    fn open(self) -> anyhow::Result<Journal> {
        Ok(Journal::open(&self.journal.unwrap_or_else(Journal::default_path))?)
    }
}

/// Snapshots in a window.
const SNAPSHOTS_PER_WINDOW: u32 = 5;

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let Arguments { selection, window, load, yes, journal, json } = arguments;
    if !yes && (json || !std::io::stdin().is_terminal()) {
        bail!(
            "there is no terminal to ask on\ngive --yes to change without asking, or see the losses first: tallycast doctor watch"
        );
    }
    let feed = load.map(|per_second| load::feed(&selection, per_second)).transpose()?;
    let cancellation = signals::cancellation()?;
    let wanted = Wanted::from(selection);
    let is_everything = wanted.is_everything();
    let report = Report { json };
    let mut traffic = Traffic { watcher: Watcher::begin(wanted, None)?, window, feed, report, cancellation };
    report.watching(&traffic)?;
    let mut seen = traffic.watch()?;
    if seen.plans.is_empty() {
        report.nothing(&seen.window)?;
        return Ok(Outcome::Fine);
    }
    let mut journal = journal.open()?;
    let mut tried = Tried::default();
    // A change may show its effect elsewhere: each is judged by the latest observation.
    while let Some((plan, change)) = tried.next(&seen.plans) {
        report.plan(&plan, change.as_ref(), &seen.window)?;
        let agreed = change.is_some() && (yes || ask(window)?);
        let Some(change) = change.filter(|_| agreed) else {
            // Losses counted beyond the chosen sockets may belong to others.
            let is_ours = is_everything || matches!(plan.place, Place::Socket { .. });
            tried.leave(&plan, if is_ours { Outcome::Found } else { Outcome::Fine });
            continue;
        };
        let number = make(&mut journal, &change)?;
        // Losses up to now belong to the time before.
        traffic.watcher.take_snapshot()?;
        let (before, after) = (seen.window_of(&plan), traffic.watch()?);
        let proof = Proof::of(&before, &after.window_of(&plan));
        match proof {
            Proof::Helped => tried.leave(&plan, Outcome::Fine),
            Proof::DidNotHelp | Proof::NoTraffic => take_back(&mut journal, number, &change)?,
        }
        report.proof(&plan, &change, &before, &after.window_of(&plan), proof)?;
        seen = after;
        if traffic.cancellation.is_cancelled() {
            break;
        }
    }
    Ok(tried.outcome())
}

/// Writes a change to the journal and makes it; returns its number there.
fn make(journal: &mut Journal, change: &Change) -> anyhow::Result<u64> {
    let number = journal.begin(clock::wall(), change)?;
    if let Err(error) = doctor::apply(change) {
        journal.end(clock::wall(), number)?;
        return Err(error).with_context(|| format!("nothing was changed: {change} could not be set"));
    }
    Ok(number)
}

fn take_back(journal: &mut Journal, number: u64, change: &Change) -> anyhow::Result<()> {
    match doctor::take_back(change) {
        // A closed socket has taken its buffer with it.
        Ok(()) | Err(ChangeError::Gone) => Ok(journal.end(clock::wall(), number)?),
        Err(error) => Err(error)
            .with_context(|| format!("it did not help and could not be undone: {}", undo_text(change))),
    }
}

/// Observation of a window.
struct Seen {
    window: Window,
    /// Number of packets received by the whole host.
    processed: u64,
    /// The largest loss first.
    plans: Vec<Plan>,
    /// The tunables at each snapshot.
    tunables: Vec<Tunables>,
}

impl Seen {
    /// Returns the window with the losses of one kind, and the passed packets where these are counted; losses of the
    /// whole host may have been addressed to other namespaces.
    fn window_of(&self, plan: &Plan) -> Window {
        let passed = doctor::passed(plan.stage, &plan.place, &self.tunables);
        let of_all = if plan.place == Place::Host { self.processed } else { self.window.delivered };
        let lost = self.plans.iter().find(|it| it.key() == plan.key()).map_or(0, |it| it.lost);
        Window { lost, delivered: passed.unwrap_or(of_all), ..self.window }
    }
}

/// Live traffic, or a load of our own, watched for a window at a time.
struct Traffic {
    watcher: Watcher,
    window: Duration,
    feed: Option<(Feed, SocketAddr)>,
    report: Report,
    cancellation: Cancellation,
}

impl Traffic {
    /// Watches for a window; returns the losses and their remedies.
    fn watch(&mut self) -> anyhow::Result<Seen> {
        let Some((mut feed, to)) = self.feed.take() else { return Ok(self.watch_window()?) };
        let (window, is_over) = (self.window, AtomicBool::new(false));
        let (seen, fed) = std::thread::scope(|threads| {
            let feeding = threads.spawn(|| feed.send(window, &|| is_over.load(Ordering::Relaxed)));
            let seen = self.watch_window();
            is_over.store(true, Ordering::Relaxed);
            (seen, feeding.join())
        });
        self.feed = Some((feed, to));
        self.report.fed(to, &fed.map_err(|_| anyhow!("the sending thread panicked"))?)?;
        Ok(seen?)
    }

    fn watch_window(&mut self) -> std::io::Result<Seen> {
        let (mut window, mut processed, mut plans) = (Window::default(), 0, Plans::default());
        let mut tunables = vec![doctor::tunables(&BTreeSet::new())];
        for _ in 0..SNAPSHOTS_PER_WINDOW {
            self.watcher.wait(self.window / SNAPSHOTS_PER_WINDOW, |time| !self.cancellation.wait(time))?;
            let seen = self.watcher.take_snapshot()?;
            seen.losses.findings.iter().for_each(|finding| plans.take(finding));
            tunables.push(doctor::tunables(&plans.starved().collect()));
            window = window.and(Window { time: seen.time, delivered: seen.losses.delivered, lost: 0 });
            processed += seen.losses.processed;
            if self.cancellation.is_cancelled() {
                break;
            }
        }
        Ok(Seen { window, processed, plans: plans.into_plans(&tunables), tunables })
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

pub(crate) fn undo(arguments: UndoArguments) -> anyhow::Result<Outcome> {
    let UndoArguments { all, list, journal, json } = arguments;
    let mut journal = journal.open()?;
    let report = Report { json };
    let open: Vec<Entry> = journal.open_entries().rev().cloned().collect();
    if list {
        open.iter().try_for_each(|entry| report.entry(entry))?;
        return Ok(Outcome::Fine);
    }
    if open.is_empty() {
        report.nothing_to_undo()?;
        return Ok(Outcome::Fine);
    }
    let mut outcome = Outcome::Fine;
    for entry in open.iter().take(if all { usize::MAX } else { 1 }) {
        match doctor::take_back(&entry.change) {
            Ok(()) => report.undone(entry, "undone")?,
            // A closed socket has taken its buffer with it; a setting changed by others is left alone.
            Err(error @ ChangeError::Gone) => report.undone(entry, &error.to_string())?,
            Err(error @ ChangeError::ChangedSince { .. }) => {
                report.undone(entry, &error.to_string())?;
                outcome = Outcome::Found;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("it is still there: {}", entry.change.command()));
            }
        }
        journal.end(clock::wall(), entry.number)?;
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

    fn watching(&self, traffic: &Traffic) -> std::io::Result<()> {
        let (sockets, seconds) = (traffic.watcher.sockets(), traffic.window.as_secs_f64());
        self.print(
            || json!({ "event": "watching", "sockets": sockets, "seconds": seconds }),
            || format!("watching {sockets} UDP sockets for {seconds} s"),
        )
    }

    fn nothing(&self, before: &Window) -> std::io::Result<()> {
        self.print(
            || json!({ "event": "nothing_lost", "before": window_json(before) }),
            || match before.delivered {
                0 => "nothing came: start what sends, or let this send (--port PORT --load RATE)".to_owned(),
                delivered => format!("nothing was lost of {delivered} datagrams: there is nothing to fix"),
            },
        )
    }

    fn fed(self, to: SocketAddr, fed: &Fed) -> std::io::Result<()> {
        let Fed { sent, refused, skipped } = *fed;
        self.print(
            || json!({ "event": "load", "to": to.to_string(), "sent": sent, "refused": refused, "skipped": skipped }),
            || format!("sent {sent} datagrams to {to}; the host refused {refused}, and {skipped} were too late to be sent"),
        )
    }

    fn plan(&self, plan: &Plan, change: Option<&Change>, before: &Window) -> std::io::Result<()> {
        let (stage, place) = (plan.stage.name(), plan.place.to_string());
        if self.json {
            return print_line(&json!({
                "event": "plan",
                "stage": stage,
                "place": place,
                "lost": plan.lost,
                "why": plan.why,
                "change": change.map(change_json),
                "undo": change.map(undo_text),
                "by_hand": plan.by_hand.iter().map(|remedy| remedy.what.as_str()).collect::<Vec<_>>(),
            }));
        }
        let mut output = std::io::stdout().lock();
        writeln!(output, "lost {} in {:.1} s at {stage}, {place}", plan.lost, before.time.as_secs_f64())?;
        line(&mut output, "why", &plan.why)?;
        match change {
            Some(change) => {
                line(&mut output, "change", &change.to_string())?;
                line(&mut output, "undo", &undo_text(change))?;
            }
            None => line(&mut output, "change", "none that can be made and undone from here")?,
        }
        plan.by_hand.iter().try_for_each(|remedy| {
            line(&mut output, "by hand", &remedy.what)?;
            remedy.command().map_or(Ok(()), |command| line(&mut output, "", &command))
        })
    }

    fn proof(
        &self,
        plan: &Plan,
        change: &Change,
        before: &Window,
        after: &Window,
        proof: Proof,
    ) -> std::io::Result<()> {
        let (name, words) = match proof {
            Proof::Helped => ("helped", "it helped, and is kept; `tallycast doctor undo` takes it back"),
            Proof::DidNotHelp => ("did_not_help", "it did not help, and was undone"),
            Proof::NoTraffic => (
                "no_traffic",
                "there was much less traffic than before: nothing is proved, and it was undone",
            ),
        };
        if self.json {
            return print_line(&json!({
                "event": "proof",
                "stage": plan.stage.name(),
                "place": plan.place.to_string(),
                "change": change_json(change),
                "before": window_json(before),
                "after": window_json(after),
                "proof": name,
                "kept": proof == Proof::Helped,
            }));
        }
        let mut output = std::io::stdout().lock();
        line(&mut output, "before", &window_text(before))?;
        line(&mut output, "after", &window_text(after))?;
        line(&mut output, "proof", words)
    }

    fn entry(&self, entry: &Entry) -> std::io::Result<()> {
        self.print(
            || json!({ "event": "change", "number": entry.number, "utc_ns": entry.at.as_nanos(), "change": change_json(&entry.change) }),
            || format!("{:>4}  {}", entry.number, entry.change),
        )
    }

    fn undone(&self, entry: &Entry, result: &str) -> std::io::Result<()> {
        self.print(
            || json!({ "event": "undo", "number": entry.number, "change": change_json(&entry.change), "result": result }),
            || format!("{:>4}  {}: {result}", entry.number, entry.change),
        )
    }

    fn nothing_to_undo(&self) -> std::io::Result<()> {
        self.print(|| json!({ "event": "nothing_to_undo" }), || "no change to undo".to_owned())
    }
}

fn window_json(window: &Window) -> Value {
    json!({
        "seconds": window.time.as_secs_f64(),
        "delivered": window.delivered,
        "lost": window.lost,
        "lost_share": window.lost_share(),
    })
}

fn window_text(window: &Window) -> String {
    let Window { time, delivered, lost } = window;
    let (offered, percent) = (delivered + lost, 100.0 * window.lost_share());
    format!("lost {lost} of {offered} in {:.1} s ({percent:.2} %)", time.as_secs_f64())
}

fn undo_text(change: &Change) -> String {
    change.undo().unwrap_or_else(|| "by hand".to_owned())
}
