//! State of one operator, derived from its process's messages and events: values in, values out.
//!
//! | state | when |
//! |---|---|
//! | `waiting` | not started yet, or to be restarted once its back-off is over |
//! | `starting` | its process runs and has not reported that it is ready |
//! | `running` | it reads, and keeps up |
//! | `lagging` | its input is more than a second older than at best, or it lost input because of that |
//! | `silent` | its process runs and has reported nothing for five seconds |
//! | `ending`, `ended` | it was asked to end, and has ended |
//!
//! Nobody else's stream depends on any of this. Start with [`Tending`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Wait before the first restart.
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
/// Maximum wait, which doubles with each death: after a repair it continues within half a minute.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// Run time after which the back-off is reset.
const STEADY: Duration = Duration::from_secs(60);
/// Its state is reported twice a second; after this time without a report it is blocked.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// Additional age of the input that counts as lagging rather than as a short delay.
const LAGGING_NS: u64 = 1_000_000_000;
/// Maximum length of the last output that is kept.
const MAX_WORDS: usize = 500;

/// State of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OperatorState {
    Waiting,
    Starting,
    Running,
    Lagging,
    Silent,
    Ending,
    Ended,
}

/// Report of its process, twice a second and at its end: sums since its start.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Additional age of its input relative to the best so far.
    pub(crate) behind_ns: u64,
    /// Samples of the output that were decided, holes included.
    pub(crate) offered_samples: u64,
    /// Number of those that are holes.
    pub(crate) source_samples: u64,
    /// Elements of its inputs that reached it.
    pub(crate) delivered_elements: u64,
    /// Elements of its inputs lost on the path to it, by stage.
    pub(crate) lost_elements: BTreeMap<String, u64>,
    /// Elements lost to it at an unknown stage.
    pub(crate) unexplained_elements: u64,
}

/// Message to be logged once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Saying(pub(crate) String);

/// History and state of one operator.
#[derive(Clone, Debug)]
pub(crate) struct Tending {
    name: String,
    state: State,
    starts: u64,
    /// Its processes until the last one, together.
    before: Report,
    report: Report,
    back_off: Duration,
    /// Reason why it does not run as expected.
    trouble: Option<String>,
    /// End of its last process that was not requested.
    last_end: Option<String>,
    last_words: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Waiting { until: Instant },
    Starting(Process),
    Running { process: Process, lagging: bool, silent: bool },
    Ending(Process),
    Ended,
}

/// A process of an operator.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Process {
    pid: u32,
    since: Instant,
    heard: Instant,
    /// Lag is logged once per process, and so is silence.
    said_lag: bool,
    said_silence: bool,
}

impl Report {
    fn and(&self, other: &Self) -> Self {
        let mut lost_elements = self.lost_elements.clone();
        for (stage, count) in &other.lost_elements {
            *lost_elements.entry(stage.clone()).or_default() += count;
        }
        Self {
            behind_ns: other.behind_ns,
            offered_samples: self.offered_samples + other.offered_samples,
            source_samples: self.source_samples + other.source_samples,
            delivered_elements: self.delivered_elements + other.delivered_elements,
            lost_elements,
            unexplained_elements: self.unexplained_elements + other.unexplained_elements,
        }
    }

    fn lost_by_reader(&self) -> u64 {
        self.lost_elements.get("reader_lag").copied().unwrap_or(0)
    }
}

impl Tending {
    pub(crate) fn new(name: impl Into<String>, now: Instant) -> Self {
        Self {
            name: name.into(),
            state: State::Waiting { until: now },
            starts: 0,
            before: Report::default(),
            report: Report::default(),
            back_off: FIRST_BACK_OFF,
            trouble: None,
            last_end: None,
            last_words: None,
        }
    }

    /// Returns whether a process must be started now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        matches!(self.state, State::Waiting { until } if now >= until)
    }

    pub(crate) fn started(&mut self, pid: u32, now: Instant) {
        self.starts += 1;
        self.last_words = None;
        self.state =
            State::Starting(Process { pid, since: now, heard: now, said_lag: false, said_silence: false });
    }

    /// Records that no process could be started.
    pub(crate) fn not_started(&mut self, why: &str, now: Instant) -> Saying {
        let wait = self.back_off();
        self.state = State::Waiting { until: now + wait };
        let trouble = format!("it cannot be started: {why}");
        let saying = Saying(format!(
            "the operator `{}` cannot be started: {why}\nname an interpreter with monitor.python; it is tried again in {wait:?}",
            self.name
        ));
        self.trouble = Some(trouble);
        saying
    }

    /// Records that it is ready to read.
    pub(crate) fn ready(&mut self, now: Instant) {
        if let State::Starting(process) = self.state {
            let process = Process { heard: now, ..process };
            self.state = State::Running { process, lagging: false, silent: false };
            self.trouble = None;
        }
    }

    /// Records a report; returns a message to log, if any.
    pub(crate) fn reported(&mut self, report: Report, now: Instant) -> Option<Saying> {
        let lost = report.lost_by_reader().saturating_sub(self.report.lost_by_reader());
        self.report = report;
        let State::Running { process, .. } = &mut self.state else { return None };
        process.heard = now;
        let lagging = self.report.behind_ns > LAGGING_NS || lost > 0;
        let first = lagging && !std::mem::replace(&mut process.said_lag, true);
        let process = *process;
        self.state = State::Running { process, lagging, silent: false };
        let behind = Duration::from_nanos(self.report.behind_ns).as_secs_f64();
        let so_far = self.before.and(&self.report).lost_by_reader();
        self.trouble = lagging.then(|| {
            format!("it does not keep up: {behind:.1} s behind, {so_far} elements of its inputs lost so far")
        });
        first.then(|| {
            Saying(format!(
                "the operator `{}` (process {}) does not keep up: it is {behind:.1} s behind, and has lost {so_far} elements of its inputs\n\
                 let it do less for each block, or give it fewer samples; everything else goes on",
                self.name, process.pid
            ))
        })
    }

    /// Advances the time.
    pub(crate) fn passed(&mut self, now: Instant) -> Option<Saying> {
        let State::Running { process, silent, .. } = &mut self.state else { return None };
        *silent = now.saturating_duration_since(process.heard) > SILENT_AFTER;
        if !*silent {
            return None;
        }
        let first = !std::mem::replace(&mut process.said_silence, true);
        let pid = process.pid;
        self.trouble = Some(format!("its process {pid} has been silent for {SILENT_AFTER:?}"));
        first.then(|| {
            Saying(format!(
                "the operator `{}` (process {pid}) has said nothing for {SILENT_AFTER:?}: its function does not return, or holds the interpreter\n\
                 everything else goes on; what it does not read in time is lost to it, and counted",
                self.name
            ))
        })
    }

    /// Keeps a line of its standard error: the last one is reported if it dies.
    pub(crate) fn said(&mut self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            self.last_words = Some(line.chars().take(MAX_WORDS).collect());
        }
    }

    /// Records the end of its process.
    pub(crate) fn exited(&mut self, how: &str, now: Instant) -> Option<Saying> {
        let process = match self.state {
            State::Starting(process) | State::Running { process, .. } => process,
            State::Ending(_) => {
                self.close_run();
                self.state = State::Ended;
                return None;
            }
            State::Waiting { .. } | State::Ended => return None,
        };
        self.close_run();
        if now.saturating_duration_since(process.since) >= STEADY {
            self.back_off = FIRST_BACK_OFF;
        }
        let wait = self.back_off();
        self.state = State::Waiting { until: now + wait };
        let words = self.last_words.as_ref().map(|words| format!(": {words}")).unwrap_or_default();
        self.last_end = Some(format!("its process {} ended with {how}{words}", process.pid));
        self.trouble.clone_from(&self.last_end);
        Some(Saying(format!(
            "the operator `{}` (process {}) ended with {how}{words}\nit is restarted in {wait:?}; everything else continues",
            self.name, process.pid
        )))
    }

    /// Asks it to end; returns whether there is a process to wait for.
    pub(crate) fn end(&mut self) -> bool {
        match self.state {
            State::Starting(process) | State::Running { process, .. } | State::Ending(process) => {
                self.state = State::Ending(process);
                true
            }
            State::Waiting { .. } | State::Ended => {
                self.state = State::Ended;
                false
            }
        }
    }

    pub(crate) const fn state(&self) -> OperatorState {
        match self.state {
            State::Waiting { .. } => OperatorState::Waiting,
            State::Starting(_) => OperatorState::Starting,
            State::Running { silent: true, .. } => OperatorState::Silent,
            State::Running { lagging: true, .. } => OperatorState::Lagging,
            State::Running { .. } => OperatorState::Running,
            State::Ending(_) => OperatorState::Ending,
            State::Ended => OperatorState::Ended,
        }
    }

    pub(crate) const fn pid(&self) -> Option<u32> {
        match self.state {
            State::Starting(process) | State::Running { process, .. } | State::Ending(process) => {
                Some(process.pid)
            }
            State::Waiting { .. } | State::Ended => None,
        }
    }

    /// Returns how often a process was started.
    pub(crate) const fn starts(&self) -> u64 {
        self.starts
    }

    /// Returns the sums of all its processes.
    pub(crate) fn totals(&self) -> Report {
        self.before.and(&self.report)
    }

    /// Returns the reason why it does not run as expected, if any.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns the end of its last process that was not requested, if there was one.
    pub(crate) fn last_end(&self) -> Option<&str> {
        self.last_end.as_deref()
    }

    fn close_run(&mut self) {
        let last = std::mem::take(&mut self.report);
        self.before = self.before.and(&Report { behind_ns: 0, ..last });
    }

    fn back_off(&mut self) -> Duration {
        let wait = self.back_off;
        self.back_off = (wait * 2).min(LONGEST_BACK_OFF);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn running(now: Instant) -> Tending {
        let mut tending = Tending::new("rms", now);
        assert!(tending.is_due(now));
        tending.started(7, now);
        assert_eq!(tending.state(), OperatorState::Starting);
        tending.ready(now);
        tending
    }

    fn report(behind_ns: u64, lost: u64) -> Report {
        let lost_elements = [("reader_lag".to_owned(), lost)].into();
        Report { behind_ns, offered_samples: 10, lost_elements, ..Report::default() }
    }

    #[test]
    fn a_death_is_said_with_its_reason_and_each_next_wait_is_twice_as_long_up_to_a_bound() {
        let start = Instant::now();
        let mut tending = running(start);
        tending.said("ValueError: too small\n");
        tending.said("  \n");
        let said = tending.exited("exit status: 1", start).unwrap().0;
        assert!(
            said.contains("`rms` (process 7) ended with exit status: 1: ValueError: too small"),
            "{said}"
        );
        assert!(said.contains("restarted in 500ms"), "{said}");
        assert_eq!((tending.state(), tending.pid()), (OperatorState::Waiting, None));
        assert!(tending.trouble().unwrap().ends_with("ValueError: too small"));
        let mut now = start;
        for wait in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000].map(Duration::from_millis) {
            assert!(!tending.is_due(now + wait - Duration::from_nanos(1)));
            now += wait;
            assert!(tending.is_due(now));
            tending.started(8, now);
            tending.exited("signal: 9", now);
        }
        assert_eq!(tending.starts(), 9);
    }

    #[test]
    fn whoever_ran_for_a_minute_is_started_again_soon() {
        let start = Instant::now();
        for (ran, wait) in [(STEADY, 500), (STEADY - Duration::from_nanos(1), 1_000)] {
            let mut tending = running(start);
            tending.exited("exit status: 1", start);
            tending.started(8, start);
            tending.ready(start);
            tending.exited("exit status: 1", start + ran);
            assert!(tending.is_due(start + ran + Duration::from_millis(wait)));
            assert!(!tending.is_due(start + ran + Duration::from_millis(wait - 1)));
        }
    }

    #[test]
    fn lag_is_logged_once_per_process_and_shown_as_long_as_it_lasts() {
        let now = Instant::now();
        let mut tending = running(now);
        assert_eq!(tending.reported(report(LAGGING_NS, 0), now), None);
        assert_eq!(tending.state(), OperatorState::Running);
        assert!(tending.reported(report(LAGGING_NS + 1, 0), now).is_some());
        assert_eq!(tending.state(), OperatorState::Lagging);
        assert_eq!(tending.reported(report(0, 0), now), None);
        assert_eq!((tending.state(), tending.trouble()), (OperatorState::Running, None));
        assert_eq!(tending.reported(report(0, 5), now), None, "it was logged before");
        assert_eq!(tending.state(), OperatorState::Lagging);
        assert!(tending.trouble().unwrap().contains("5 elements"));
        assert_eq!(tending.reported(report(0, 5), now), None);
        assert_eq!(tending.state(), OperatorState::Running, "no more were lost");
    }

    #[test]
    fn silence_is_said_once_and_ends_with_the_next_word() {
        let now = Instant::now();
        let mut tending = running(now);
        assert_eq!(tending.passed(now + SILENT_AFTER), None);
        assert!(tending.passed(now + SILENT_AFTER + Duration::from_nanos(1)).is_some());
        assert_eq!(tending.state(), OperatorState::Silent);
        assert_eq!(tending.passed(now + 2 * SILENT_AFTER), None);
        assert_eq!(tending.reported(report(0, 0), now + 2 * SILENT_AFTER), None);
        assert_eq!(tending.state(), OperatorState::Running);
    }

    #[test]
    fn sums_go_over_all_processes_and_one_that_was_told_to_end_is_not_started_again() {
        let now = Instant::now();
        let mut tending = running(now);
        tending.reported(report(0, 3), now);
        tending.exited("signal: 9", now);
        tending.started(8, now + SECOND);
        tending.ready(now + SECOND);
        tending.reported(report(7, 4), now + SECOND);
        let totals = tending.totals();
        assert_eq!((totals.offered_samples, totals.lost_by_reader(), totals.behind_ns), (20, 7, 7));
        assert!(tending.end());
        assert_eq!(tending.exited("exit status: 0", now + SECOND), None);
        assert_eq!(tending.state(), OperatorState::Ended);
        assert_eq!(tending.totals().offered_samples, 20);
        assert!(!tending.is_due(now + 100 * SECOND));
        assert!(!tending.end());
    }

    #[test]
    fn what_cannot_be_started_is_tried_again() {
        let now = Instant::now();
        let mut tending = Tending::new("rms", now);
        let said = tending.not_started("python9: not found", now).0;
        assert!(said.contains("python9") && said.contains("monitor.python"), "{said}");
        assert!(!tending.is_due(now) && tending.is_due(now + FIRST_BACK_OFF));
        assert!(!tending.end(), "there is no process to wait for");
    }
}
