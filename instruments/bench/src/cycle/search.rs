//! The search at each point: two processes, one run after the other, until the largest array is found.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use probe::cycle::{Cut, CutError, Imbalance, Verdict};
use probe::{Answer, Bisection, Next};
use sys::clock;

use super::message::{Role, Task};
use super::options::{self, CpuLimit, Options};
use super::pair::{Measured, Pair};
use super::report::{
    End, FORMAT, Found, Outcome, Point, Report, Run, Search, Settings, Start, State, VERSION,
};
use super::transport::Transport;
use crate::child::{ProcessError, Program};
use crate::control::program_version;
use crate::host::{self, Elsewhere, Host};
use crate::host_state::Link;
use crate::options::OptionsError;
use crate::quota::{self, CpuGroup, Quota, QuotaError};
use crate::report::Watch;

/// Time before a run at which the throttling so far is read: the preparation is a whole period back by then, so
/// that it is counted already, and reading does not disturb cycle 0.
const BEFORE_START: Duration = Duration::from_millis(10);

/// Progress of a bench. `Display` formats it in a line.
struct Progress {
    place: Place,
    /// Index of the point, and number of points.
    point: (usize, usize),
    /// Index of the repeat, and number of repeats.
    repeat: (u32, u32),
    /// Size under test. Units: elements.
    elements: u64,
}

/// Reasons why a point could not be measured.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Quota(#[from] QuotaError),
    #[error(transparent)]
    Cut(#[from] CutError),
    #[error(transparent)]
    Imbalance(#[from] Imbalance),
}

/// Measures every point and returns the report.
///
/// A point that cannot be measured is in the report with its reason; the others are measured all the same.
///
/// # Errors
/// [`OptionsError`] if an option is invalid; nothing was measured then.
pub fn run(options: &Options, program: &Program, watch: &mut dyn Watch) -> Result<Report, OptionsError> {
    options.check()?;
    options.transports.iter().for_each(|transport| transport.sweep());
    quota::sweep();
    let start = Start {
        time_ns: clock::wall().as_nanos(),
        tallycast: program_version().to_owned(),
        host: Host::look(),
        interface: Link::of(Ipv4Addr::LOCALHOST.into()),
        options: Settings::of(options),
    };
    let mut bench = Bench { options, program, watch, runs_begun: 0, notes: Vec::new(), interrupted: false };
    let mut points = Vec::new();
    let places = places(options);
    for (index, place) in places.iter().enumerate() {
        let (point, repeat) = ((index, places.len()), (0, options.repeats));
        let mut progress = Progress { place: *place, point, repeat, elements: 0 };
        if let Some(outcome) = bench.measure(&mut progress) {
            points.push(place.point(outcome));
        }
    }
    let state = if bench.interrupted { State::Interrupted } else { State::Complete };
    let end = End { time_ns: clock::wall().as_nanos(), state, load_1min: host::load(), notes: bench.notes };
    let rows = points.iter().filter_map(Point::row).collect();
    Ok(Report { format: FORMAT.to_owned(), version: VERSION, start, points, rows, source: None, end })
}

/// Parameters of a point.
#[derive(Clone, Copy)]
struct Place {
    transport: Transport,
    cycle_time: Duration,
    cpus: CpuLimit,
}

fn places(options: &Options) -> Vec<Place> {
    let mut places = Vec::new();
    for &cpus in &options.cpus {
        for &transport in &options.transports {
            places.extend(options.cycle_times.iter().map(|&cycle_time| Place {
                transport,
                cycle_time,
                cpus,
            }));
        }
    }
    places
}

impl Place {
    fn point(&self, outcome: Outcome) -> Point {
        Point {
            transport: self.transport,
            cycle_time_ns: u64::try_from(self.cycle_time.as_nanos()).unwrap_or(u64::MAX),
            cpus: self.cpus.cpus(),
            outcome,
        }
    }
}

/// The two processes of a search, and the group that limits them.
///
/// Fields are dropped in their order: the group is removed once its processes have ended.
struct LimitedPair {
    pair: Pair,
    group: Option<CpuGroup>,
}

impl LimitedPair {
    fn start(program: &Program, quota: Option<&Quota>) -> Result<Self, SearchError> {
        let pair = Pair::start(program)?;
        let group = quota.map(|quota| CpuGroup::create(quota, &pair.process_ids())).transpose()?;
        Ok(Self { pair, group })
    }
}

struct Bench<'a> {
    options: &'a Options,
    program: &'a Program,
    watch: &'a mut dyn Watch,
    /// Number of runs so far: each has its number, so that no piece is taken for one of another run.
    runs_begun: u32,
    notes: Vec<String>,
    /// True if a point is missing, or a repeat of one.
    interrupted: bool,
}

impl Bench<'_> {
    /// Measures one point; `None` if the bench is to end.
    fn measure(&mut self, progress: &mut Progress) -> Option<Outcome> {
        if self.watch.cancellation().is_cancelled() {
            self.interrupted = true;
            return None;
        }
        let (mut searches, mut failure) = (Vec::new(), None);
        for repeat in 0..self.options.repeats {
            progress.repeat.0 = repeat;
            match self.search(progress) {
                Ok(Some(search)) => searches.push(search),
                Ok(None) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // If ended early it has fewer repeats, which its rows show.
        self.interrupted |= failure.is_none() && searches.len() < self.options.repeats as usize;
        outcome(searches, failure)
    }

    /// Searches once, with its own two processes; `None` if the bench is to end.
    fn search(&mut self, progress: &mut Progress) -> Result<Option<Search>, SearchError> {
        let place = progress.place;
        let quota = place.cpus.quota(self.options.quota_period);
        let mut limited = LimitedPair::start(self.program, quota.as_ref())?;
        let elsewhere = Elsewhere::begin();
        let mut bisection = Bisection::new(self.options.limit.into(), self.options.step.into());
        let mut runs: Vec<Run> = Vec::new();
        let found = loop {
            let elements = match bisection.next() {
                Next::Try(elements) => elements,
                Next::Done(found) => break found,
            };
            progress.elements = elements;
            self.watch.progress(&|| progress.to_string());
            let run = self.run(&place, elements, &mut limited)?;
            let verdict = run.verdict;
            runs.push(run);
            match verdict {
                Verdict::Good => bisection.tell(Answer::Good),
                // A run is undecided if the bench ended it, or if a process gave it up to the nanosecond at its
                // limit.
                _ if self.watch.cancellation().is_cancelled() => return Ok(None),
                Verdict::Late | Verdict::Incomplete | Verdict::LateAndIncomplete | Verdict::Undecided => {
                    bisection.tell(Answer::Bad);
                }
            }
            if self.watch.cancellation().is_cancelled() {
                return Ok(None);
            }
        };
        let ours = runs.iter().map(|run| run.writer_cpu_ns + run.reader_cpu_ns).sum();
        Ok(Some(Search {
            elements: found.size(),
            found: Found::from(found),
            elsewhere_cpus: elsewhere.cpus(Duration::from_nanos(ours)),
            runs,
        }))
    }

    /// Executes one run.
    fn run(&mut self, place: &Place, elements: u64, limited: &mut LimitedPair) -> Result<Run, SearchError> {
        let task = self.task(place, u32::try_from(elements).unwrap_or(u32::MAX))?;
        let LimitedPair { pair, group } = limited;
        let quota = place.cpus.quota(self.options.quota_period);
        let lead = quota.map_or(options::LEAD, |quota| quota.lead());
        let begun = pair.begin(&task, lead)?;
        let before = group.as_ref().and_then(|group| {
            clock::sleep_until(begun.start - BEFORE_START);
            group.throttled_periods()
        });
        let measured = pair.finish(begun, self.watch.cancellation())?;
        let Measured { account, writer_cpu_ns, reader_cpu_ns, dropped_by_socket, notes } = measured;
        account.check()?;
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        let periods = before.zip(group.as_ref().and_then(CpuGroup::throttled_periods));
        let throttled_periods = periods.map(|(before, after)| after.saturating_sub(before));
        let verdict = self.options.limits().judge(&account);
        Ok(Run {
            elements,
            verdict,
            account,
            writer_cpu_ns,
            reader_cpu_ns,
            dropped_by_socket,
            throttled_periods,
        })
    }

    fn task(&mut self, place: &Place, elements: u32) -> Result<Task, CutError> {
        self.runs_begun = self.runs_begun.wrapping_add(1);
        let unit_bytes = place.transport.unit_bytes(self.options, elements);
        let cut = Cut::new(self.runs_begun, elements, unit_bytes)?;
        Ok(Task {
            role: Role::Writer,
            run: self.runs_begun,
            transport: place.transport,
            endpoint: String::new(),
            elements,
            cycles: self.options.cycles,
            cycle_time: place.cycle_time,
            unit_bytes,
            buffer_bytes: place.transport.buffer_bytes(self.options, &cut),
            // At once, which saves about half the time, unless the last cycle is to show how badly it failed.
            end_beyond: (!self.options.whole_runs).then(|| self.options.limits()),
        })
    }
}

/// Returns the result at a point: a failure does not discard the repeats before it. `None` if there is neither.
fn outcome(searches: Vec<Search>, failure: Option<SearchError>) -> Option<Outcome> {
    match failure {
        None if searches.is_empty() => None,
        Some(error @ SearchError::Quota(_)) if searches.is_empty() => {
            Some(Outcome::Skipped { reason: error.to_string() })
        }
        Some(error) if searches.is_empty() => Some(Outcome::Failed { reason: error.to_string() }),
        failure => Some(Outcome::of(searches, failure.map(|error| error.to_string()))),
    }
}

impl From<probe::Found> for Found {
    fn from(found: probe::Found) -> Self {
        match found {
            probe::Found::Nothing => Self::Nothing,
            probe::Found::Largest(_) => Self::Largest,
            probe::Found::Limit(_) => Self::Limit,
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place: Place { transport, cycle_time, cpus }, point, repeat, elements } = self;
        write!(
            formatter,
            "point {} of {}: {transport}, {cycle_time:?}, CPUs {cpus}; repeat {} of {}, trying {elements} elements",
            point.0 + 1,
            point.1,
            repeat.0 + 1,
            repeat.1
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search() -> Search {
        Search { elements: 7, found: Found::Largest, elsewhere_cpus: None, runs: Vec::new() }
    }

    #[test]
    fn what_fails_takes_nothing_from_the_repeats_before_it() {
        let ended = || Some(SearchError::Process(ProcessError::Ended("the writer of a run")));
        let found = outcome(vec![search(), search()], ended()).unwrap();
        let Outcome::Measured { searches, broken_off, .. } = found else { panic!("{found:?}") };
        assert_eq!(searches.len(), 2);
        assert!(broken_off.is_some_and(|reason| reason.contains("ended unexpectedly")));
        assert!(matches!(outcome(Vec::new(), ended()), Some(Outcome::Failed { .. })));
    }

    #[test]
    fn a_quota_that_cannot_be_had_skips_a_point_and_an_end_before_its_first_search_leaves_it_out() {
        let refused = SearchError::Quota(QuotaError::NoController);
        assert!(matches!(outcome(Vec::new(), Some(refused)), Some(Outcome::Skipped { .. })));
        assert_eq!(outcome(Vec::new(), None), None);
        let all = outcome(vec![search()], None);
        assert!(matches!(all, Some(Outcome::Measured { broken_off: None, .. })), "{all:?}");
    }
}
