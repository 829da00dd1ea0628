//! `tallycast doctor watch`: losses of any UDP program of this host, as they happen.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use doctor::{
    About, Checkpoints, Datagrams, Drops, Evidence, Finding, Level, Losses, Passage, Passed, Place, Profile,
    Replay, ReportError, Seen, UNEXPLAINED, UNKNOWN_REASON, Unplaced, Unseen, Wanted, Watcher, finding_json,
    guide, unplaced_json,
};
use serde_json::json;
use tallycast::StreamPattern;
use units::RangeSet;
use units::text;

use super::Selection;
use super::names::Names;
use super::text::{line, remedies};
use crate::Outcome;
use crate::deadline::Deadline;
use crate::layout;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor watch                        every socket of this network namespace, until Ctrl-C
  tallycast doctor watch 'lab/**'               these streams, by name
  tallycast doctor watch --port 5004 --port 5006
  tallycast doctor watch --pid 4711 --interval 200ms
  tallycast doctor watch --snapshots 60 --json  one object per loss, for a minute
  tallycast doctor watch --port 5004 --profile rtp
  tallycast doctor watch --checkpoints          also losses before this host; costs some CPU time
  tallycast doctor watch --record events.jsonl  for others: tallycast doctor replay events.jsonl
  tallycast doctor watch --port 9000 --profile number=4:8,stream=0:4,order=big

It changes nothing and needs no privilege: from the kernel's counters it reports count, place and cause of losses. With
CAP_BPF and CAP_PERFMON (root has them) it also sees each datagram that is freed unread, and reports stream and number.
--checkpoints also finds losses outside of this host, by the numbers missing where streams enter it. Processes of other
users are named only to root.
Exit codes: 0 nothing was lost, 1 something was, 2 watching was not possible.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Only these streams, such as lab/**; requires events of single datagrams
    #[arg(value_name = "STREAM", conflicts_with_all = ["ports", "pids", "no_events"])]
    streams: Vec<StreamPattern>,
    #[command(flatten)]
    selection: Selection,
    /// The time between two snapshots
    #[arg(long, short, value_name = "DURATION", default_value = "1s", value_parser = text::duration)]
    interval: Duration,
    /// End after this time, such as 30s
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Position of stream and number in datagrams: `tallycast`, `rtp`, or offsets and sizes in bytes; may be given
    /// several times
    #[arg(long = "profile", value_name = "PROFILE", default_value = "tallycast")]
    profiles: Vec<Profile>,
    /// Read counters only, without events of single datagrams
    #[arg(long)]
    no_events: bool,
    /// Also count datagrams that pass where streams leave and enter this host, to report those that never arrived
    #[arg(long, conflicts_with = "no_events")]
    checkpoints: bool,
    /// Write what is seen to an event file, too
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// End after this many snapshots
    #[arg(long, alias = "looks", value_name = "COUNT")]
    snapshots: Option<u64>,
    /// One JSON object per loss, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let Arguments { streams, selection, interval, profiles, no_events, checkpoints, record, .. } = arguments;
    let Arguments { duration, snapshots, json, .. } = arguments;
    let cancellation = signals::cancellation()?;
    let wanted = Wanted::from(selection);
    let drops = if no_events { None } else { drops(&wanted, &profiles) };
    // Before the drop events, so that every dropped datagram has its event.
    let checkpoints = if checkpoints { Some(begin_checkpoints(&wanted, &profiles)?) } else { None };
    let mut names = Names::new(sources, streams);
    anyhow::ensure!(
        drops.is_some() || !names.are_wanted(),
        "streams can be distinguished only if single datagrams are seen\nrun it as root, or watch their ports (--port)"
    );
    names.learn_first()?;
    let mut watcher = Watcher::begin(wanted, drops).context(
        "the kernel does not list its UDP sockets (sock_diag)\n\
         load the module udp_diag, or run this outside of the container",
    )?;
    if let Some(checkpoints) = checkpoints {
        watcher.watch_checkpoints(checkpoints);
    }
    for file in watcher.unread() {
        eprintln!("warning: {file} cannot be read: its counts are not seen");
    }
    match watcher.report_to_accounts(&sources.load()?.bus()?.drop_board()) {
        Ok(()) => {}
        Err(ReportError::InUse { .. }) => {
            eprintln!("note: another doctor already reports drops to the accounts of this host")
        }
        Err(error) => eprintln!("note: drops are not reported to the accounts of this host: {error}"),
    }
    if let Some(path) = record {
        watcher.record(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    begin(&watcher, json)?;
    let mut reported = Reported { json, names: Some(names), ..Reported::default() };
    reported.choose(&mut watcher);
    let report = |watcher: &mut Watcher, seen: Seen| -> std::io::Result<()> {
        reported.report_seen(&seen)?;
        reported.report_passed(watcher)?;
        reported.choose(watcher);
        Ok(())
    };
    let end = Deadline::after(duration);
    let wait = |time| !cancellation.wait(end.left(time)) && !end.is_over();
    watcher
        .watch_until_stopped((interval, snapshots), wait, report)
        .context("the kernel no longer lists its UDP sockets")?;
    reported.report_seen(&watcher.finish())?;
    reported.report_passed_at_end(&watcher)?;
    reported.sum_up(
        watcher.unseen()?.unwrap_or_default(),
        watcher.checkpoints().map_or(0, Checkpoints::doubtful),
    )?;
    Ok(if reported.is_nothing() { Outcome::Fine } else { Outcome::Found })
}

pub(crate) const REPLAY_EXAMPLES: &str = "\
Examples:
  tallycast doctor replay events.jsonl          as `watch` reported it, on any host

Exit codes: 0 nothing was lost, 1 something was, 2 the file cannot be read.";

#[derive(Args, Debug)]
pub(crate) struct ReplayArguments {
    /// File written by `tallycast doctor watch --record`
    file: PathBuf,
    /// One JSON object per loss, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn replay(arguments: ReplayArguments) -> anyhow::Result<Outcome> {
    let ReplayArguments { file, json } = arguments;
    let mut replay = Replay::open(&file).with_context(|| file.display().to_string())?;
    let About { kernel, names_datagrams } = replay.about.clone();
    if json {
        print_line(&json!({ "event": "replaying", "kernel": kernel, "names_datagrams": names_datagrams }))?;
    } else {
        eprintln!("replaying events of Linux {kernel}");
    }
    let mut reported = Reported { json, ..Reported::default() };
    while let Some(seen) = replay.next_snapshot().with_context(|| file.display().to_string())? {
        reported.time += seen.time;
        reported.report_all(&seen.losses)?;
    }
    reported.report_all(&replay.finish())?;
    reported.sum_up(Unseen::default(), 0)?;
    Ok(if reported.is_nothing() { Outcome::Fine } else { Outcome::Found })
}

/// Watches single datagrams if that is permitted; prints a note otherwise.
fn drops(wanted: &Wanted, profiles: &[Profile]) -> Option<Drops> {
    match Drops::begin(wanted, profiles) {
        Ok(drops) => {
            if !drops.has_locations() {
                eprintln!(
                    "note: without CAP_SYSLOG places in the kernel have no names, and some losses no stage"
                );
            }
            Some(drops)
        }
        Err(error) => {
            eprintln!("note: single datagrams are not named: {error}");
            None
        }
    }
}

fn begin_checkpoints(wanted: &Wanted, profiles: &[Profile]) -> anyhow::Result<Checkpoints> {
    Checkpoints::begin(wanted, profiles).context("passing datagrams cannot be watched (--checkpoints)")
}

/// Reports that losses are reported from now on.
fn begin(watcher: &Watcher, json: bool) -> anyhow::Result<()> {
    let sockets = watcher.sockets();
    let (names_datagrams, reports_to_accounts) = (watcher.unseen()?.is_some(), watcher.reports_to_accounts());
    if json {
        return Ok(print_line(&json!({
            "event": "watching",
            "sockets": sockets,
            "names_datagrams": names_datagrams,
            "tells_accounts": reports_to_accounts,
        }))?);
    }
    let how = match (names_datagrams, reports_to_accounts) {
        (true, true) => "and each datagram that is dropped, and reports it to the accounts of this host",
        (true, false) => "and each datagram that is dropped",
        (false, _) => "by counters",
    };
    eprintln!("watching {sockets} UDP sockets {how}; Ctrl-C ends");
    Ok(())
}

/// Everything reported so far.
#[derive(Default)]
struct Reported<'s> {
    json: bool,
    /// `None` without a bus.
    names: Option<Names<'s>>,
    time: Duration,
    sums: BTreeMap<(&'static str, Place), u64>,
    /// Losses that are in no finding.
    not_observed: u64,
    /// Losses that were counted and have no drop event.
    not_named: u64,
    /// Combinations of stage, place and reason whose explanation was printed.
    explained: BTreeSet<(&'static str, Place, String)>,
}

impl Reported<'_> {
    /// Selects the requested streams in the watcher, including new ones.
    fn choose(&mut self, watcher: &mut Watcher) {
        if let Some(names) = self.names.as_mut().filter(|names| names.are_wanted()) {
            names.learn();
            watcher.want_streams(names.wanted());
        }
    }

    fn name(&self, stream: u64) -> Option<&str> {
        self.names.as_ref().and_then(|names| names.of(stream))
    }

    fn report_seen(&mut self, seen: &Seen) -> std::io::Result<()> {
        if let Some(error) = &seen.recording_failed {
            eprintln!("warning: the event file ends here, and watching continues: {error}");
        }
        self.time += seen.time;
        self.report_all(&seen.losses)
    }

    /// Prints what has passed at checkpoints so far: for programs with every snapshot.
    fn report_passed(&mut self, watcher: &Watcher) -> std::io::Result<()> {
        if self.json { self.report_passed_at_end(watcher) } else { Ok(()) }
    }

    fn report_passed_at_end(&mut self, watcher: &Watcher) -> std::io::Result<()> {
        let Some(checkpoints) = watcher.checkpoints() else { return Ok(()) };
        for (passage, passed) in checkpoints.passed() {
            if self.json {
                print_line(&self.passed_json(watcher, passage, passed))?;
                continue;
            }
            let stream = self
                .name(passage.way.stream)
                .map_or_else(|| format!("{:016x}", passage.way.stream), str::to_owned);
            let Passed { first, next, datagrams } = passed;
            let device = watcher.device(passage.device);
            let numbers = format!("{datagrams} datagrams, {first}–{}", next.wrapping_sub(1));
            let (source, destination) = (passage.way.source, passage.way.destination);
            let way = format!("{numbers}: stream {stream}, from {source} to {destination}");
            say(&format!("{:<5} {device:<12} ", passage.checkpoint.name()), &way)?;
        }
        Ok(())
    }

    fn passed_json(&self, watcher: &Watcher, passage: &Passage, passed: &Passed) -> serde_json::Value {
        json!({
            "event": "passed",
            "seconds": self.time.as_secs_f64(),
            "checkpoint": passage.checkpoint.name(),
            "tracepoint": passage.checkpoint.tracepoint(),
            "device": watcher.device(passage.device),
            "source": passage.way.source.to_string(),
            "destination": passage.way.destination.to_string(),
            "stream": format!("{:016x}", passage.way.stream),
            "name": self.name(passage.way.stream),
            "first": passed.first,
            "next": passed.next,
            "datagrams": passed.datagrams,
        })
    }

    fn report_all(&mut self, losses: &Losses) -> std::io::Result<()> {
        let mut named = losses.findings.iter().flat_map(|it| &it.datagrams);
        if let Some(names) = &mut self.names
            && named.any(|it| it.stream.is_some_and(|(_, incarnation)| incarnation != 0))
        {
            names.learn();
        }
        self.not_observed = self.not_observed.saturating_add(losses.not_observed);
        for finding in &losses.findings {
            self.not_named = self.not_named.saturating_add(finding.not_observed.unwrap_or(0));
            self.report(finding, losses.not_observed)?;
        }
        losses.unplaced.iter().try_for_each(|unplaced| self.report_unplaced(unplaced))
    }

    /// Adds to a sum, saturating: an edited file may have counts that overflow it.
    fn count(&mut self, stage: &'static str, place: &Place, count: u64) {
        let sum = self.sums.entry((stage, place.clone())).or_default();
        *sum = sum.saturating_add(count);
    }

    fn report_unplaced(&mut self, unplaced: &Unplaced) -> std::io::Result<()> {
        self.count(UNEXPLAINED, &Place::Namespace, unplaced.count);
        if self.json {
            return self.print_loss(unplaced_json(unplaced));
        }
        let seconds = self.time.as_secs_f64();
        say(&format!("{seconds:>8.1} s  "), &format!("{UNEXPLAINED:<24} {} datagrams", unplaced.count))?;
        let mut output = std::io::stdout().lock();
        self.list(&mut output, &unplaced.datagrams)?;
        line(&mut output, "why", UNKNOWN_REASON)?;
        line(&mut output, "evidence", &evidence_text(&unplaced.evidence))
    }

    fn print_loss(&self, mut object: serde_json::Value) -> std::io::Result<()> {
        object["event"] = json!("loss");
        object["seconds"] = json!(self.time.as_secs_f64());
        for datagrams in object["datagrams"].as_array_mut().into_iter().flatten() {
            let stream = datagrams["stream"].as_str().and_then(|id| u64::from_str_radix(id, 16).ok());
            datagrams["name"] = json!(stream.and_then(|id| self.name(id)));
        }
        print_line(&object)
    }

    fn report(&mut self, finding: &Finding, not_observed: u64) -> std::io::Result<()> {
        self.count(finding.stage.name(), &finding.place, finding.count);
        if self.json {
            return self.print_loss(finding_json(finding, not_observed));
        }
        let Finding { stage, count, unit, why, .. } = finding;
        let share = if finding.is_apportioned { " (by share)" } else { "" };
        let (place, unit) = (&finding.place, unit.in_words());
        let seconds = self.time.as_secs_f64();
        let head = format!("{seconds:>8.1} s  {:<24} ", stage.name());
        say(&head, &format!("{count} {unit}{share}, {place}"))?;
        let mut output = std::io::stdout().lock();
        self.list(&mut output, &finding.datagrams)?;
        if self.explained.insert((stage.name(), finding.place.clone(), why.clone())) {
            explain(&mut output, finding)?;
        }
        output.flush()
    }

    /// Prints the datagrams.
    fn list(&self, output: &mut impl Write, datagrams: &[Datagrams]) -> std::io::Result<()> {
        for it in datagrams.iter().take(LISTED_STREAMS) {
            let way = format!("{} from {} to {}", it.count, it.source, it.destination);
            let numbers = it.stream.map_or_else(String::new, |(stream, _)| {
                let stream = self.name(stream).map_or_else(|| format!("{stream:016x}"), str::to_owned);
                format!(": stream {stream}, {}", ranges_text(&it.numbers))
            });
            line(output, "named", &format!("{way}{numbers}"))?;
        }
        let more = datagrams.len().saturating_sub(LISTED_STREAMS);
        if more > 0 {
            line(output, "", &format!("and of {more} others; --json lists all"))?;
        }
        Ok(())
    }

    fn is_nothing(&self) -> bool {
        self.sums.is_empty() && self.not_observed == 0
    }

    fn sum_up(&self, unseen: Unseen, doubtful: u64) -> std::io::Result<()> {
        let seconds = self.time.as_secs_f64();
        if self.json {
            let losses = self.sums.iter().map(|((stage, place), count)| {
                json!({ "stage": stage, "place": place.to_string(), "count": count })
            });
            let losses: Vec<_> = losses.collect();
            return print_line(&json!({
                "event": "ended",
                "seconds": seconds,
                "losses": losses,
                "not_observed": self.not_observed + self.not_named,
                "unreported": unseen.unreported + unseen.not_copied,
                "missed_calls": unseen.missed_calls,
                "doubtful": doubtful,
            }));
        }
        if doubtful > 0 {
            eprintln!(
                "note: {doubtful} numbers were missing on arrival and are not reported: not every arriving datagram was seen then"
            );
        }
        if unseen != Unseen::default() {
            let Unseen { unreported, not_copied, missed_calls } = unseen;
            eprintln!(
                "warning: {} datagrams could not be named for lack of room, and {missed_calls} calls of the hook were skipped",
                unreported + not_copied
            );
        }
        let mut output = std::io::stdout().lock();
        if self.is_nothing() {
            return writeln!(output, "nothing was lost in {seconds:.1} s");
        }
        writeln!(output, "lost in {seconds:.1} s:")?;
        for ((stage, place), count) in &self.sums {
            let head = format!("{count:>12}  {stage:<24} ");
            writeln!(output, "{}", layout::hanging(&head, &place.to_string(), layout::width()))?;
        }
        let rests = [
            (self.not_named, "of these not observed: counted, and in no drop event"),
            (self.not_observed, "not observed: sockets that are closed, or drops of the last moment"),
        ];
        for (count, what) in rests.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(output, "{}", layout::hanging(&format!("{count:>12}  "), what, layout::width()))?;
        }
        Ok(())
    }
}

/// Prints a line that is broken between words, below the first of them.
fn say(head: &str, text: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout().lock(), "{}", layout::hanging(head, text, layout::width()))
}

/// Prints cause, counters and remedies.
fn explain(output: &mut impl Write, finding: &Finding) -> std::io::Result<()> {
    line(output, "why", &finding.why)?;
    let levels = finding.levels.iter().map(level_text);
    let evidence: Vec<String> = std::iter::once(evidence_text(&finding.evidence)).chain(levels).collect();
    line(output, "evidence", &evidence.join(", "))?;
    remedies(output, &finding.remedies)?;
    line(output, "more", &guide(finding.stage.name()))
}

fn evidence_text(evidence: &[Evidence]) -> String {
    let each: Vec<String> = evidence.iter().map(|it| format!("{} +{}", it.counter, it.rise)).collect();
    each.join(", ")
}

fn level_text(level: &Level) -> String {
    let of = level.limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    format!("{} {}{of}", level.name, level.value)
}

/// More would hide the following lines; `--json` has all.
const LISTED_STREAMS: usize = 3;
const LISTED_RANGES: usize = 4;

fn ranges_text(numbers: &RangeSet) -> String {
    let text = |range: Range<u64>| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}–{}", range.start, range.end - 1),
    };
    let first: Vec<String> = numbers.iter().take(LISTED_RANGES).map(text).collect();
    let more = numbers.range_count().saturating_sub(LISTED_RANGES);
    let rest = if more > 0 { format!(" and {more} more ranges") } else { String::new() };
    format!("numbers {}{rest}", first.join(", "))
}
