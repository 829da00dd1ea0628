//! Runs of the experiment: heard on the bus, kept for later readers, and read from the archive.
//!
//! A thread of its own with a subscriber of its own: events of runs come whatever the monitor shows. Protocol:
//! `docs/protocol/runs.md`.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use archive::{Moment, run_range, select_run};
use serde_json::Value;
use tallycast::runs::{Keeper, PATTERN, Run, RunChoice, RunId, Runs, Stranger, run_json, stranger_json};
use tallycast::{Event, Node, NodeError};
use tokio::sync::watch;
use units::WallTime;

use crate::clock;
use crate::refused::Refused;
use crate::shared::Shared;

/// Maximum wait for events before the end of the monitor and readers that came are looked for.
const PATIENCE: Duration = Duration::from_millis(100);

/// Stands for the streams of runs in rules: a visitor sees all runs or none.
pub(crate) const ALL_RUNS: &str = "run/all";
/// The most runs of one answer: more than a keeper has events of.
pub(crate) const MAX_RUNS: usize = 100_000;

/// The runs that the bus told of, and with them those of the archive.
#[derive(Default)]
pub(crate) struct RunBoard {
    heard: Mutex<Arc<Runs>>,
    /// Number of times that the bus told something new.
    change: watch::Sender<u64>,
    /// The runs as they were computed last, and from what.
    computed: Mutex<Computed>,
}

#[derive(Default)]
struct Computed {
    heard: Arc<Runs>,
    stored: Option<Arc<Runs>>,
    known: Arc<KnownRuns>,
    /// Number of times that runs were computed from events.
    times: u64,
}

impl RunBoard {
    fn set(&self, runs: Runs) {
        *lock(&self.heard) = Arc::new(runs);
        self.change.send_modify(|change| *change += 1);
    }

    /// Returns what wakes a connection when the bus has told something new.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.change.subscribe()
    }

    /// Returns the number of times that the bus told something new.
    pub(crate) fn change(&self) -> u64 {
        *self.change.borrow()
    }

    /// Returns the runs that the bus and a store know. They are computed again only after one of them has new events.
    fn known(&self, stored: Option<Arc<Runs>>) -> Arc<KnownRuns> {
        let heard = Arc::clone(&lock(&self.heard));
        let mut computed = lock(&self.computed);
        let is_same = Arc::ptr_eq(&heard, &computed.heard)
            && match (&stored, &computed.stored) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
        if !is_same {
            let mut runs = (*heard).clone();
            stored.iter().for_each(|stored| runs.merge(stored));
            let times = computed.times + 1;
            *computed = Computed { heard, stored, known: Arc::new(KnownRuns::new(runs)), times };
        }
        Arc::clone(&computed.known)
    }
}

/// Runs in an order in which those of a range of time are found without looking at all of them.
#[derive(Default)]
struct KnownRuns {
    runs: Runs,
    /// By time: runs by their start, stops without a start by theirs.
    listed: Vec<Listed>,
    /// The latest end of a run and all before it; an open run has none and reaches everywhere.
    reach: Vec<Option<WallTime>>,
}

enum Listed {
    Run(Run),
    Stranger(Stranger),
}

/// Runs asked for.
#[derive(Clone, Debug)]
pub(crate) struct AskedRuns {
    /// Runs of this id alone.
    pub(crate) id: Option<RunId>,
    /// Runs that have a moment in this range.
    pub(crate) range: Range<WallTime>,
    /// The most runs: the newest.
    pub(crate) limit: usize,
}

impl Listed {
    fn id(&self) -> &RunId {
        match self {
            Self::Run(run) => &run.id,
            Self::Stranger(stranger) => &stranger.id,
        }
    }

    fn time(&self) -> WallTime {
        match self {
            Self::Run(run) => run.start,
            Self::Stranger(stranger) => stranger.time,
        }
    }

    fn end(&self) -> Option<WallTime> {
        match self {
            Self::Run(run) => run.end_time(),
            Self::Stranger(stranger) => Some(stranger.time),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Run(run) => run_json(run),
            Self::Stranger(stranger) => stranger_json(stranger),
        }
    }
}

impl KnownRuns {
    fn new(runs: Runs) -> Self {
        let strangers = runs.strangers().into_iter().map(Listed::Stranger);
        let mut listed: Vec<_> = runs.list().into_iter().map(Listed::Run).chain(strangers).collect();
        listed.sort_by(|one, other| (one.time(), one.id()).cmp(&(other.time(), other.id())));
        let mut latest = Some(WallTime::from_nanos(i64::MIN));
        let reach = listed.iter().map(|it| {
            latest = latest.zip(it.end()).map(|(latest, end)| latest.max(end));
            latest
        });
        let reach = reach.collect();
        Self { runs, listed, reach }
    }

    /// Returns the runs among which are those of a range of time: all that began before its end, from the first on that
    /// reaches it. A run that stays open is among them from its start on.
    fn near(&self, range: &Range<WallTime>) -> &[Listed] {
        let first = self.reach.partition_point(|reach| reach.is_some_and(|end| end < range.start));
        let begun = self.listed.partition_point(|it| it.time() < range.end);
        self.listed.get(first..begun).unwrap_or_default()
    }

    /// Returns the runs asked for by their time.
    fn find(&self, asked: &AskedRuns) -> Vec<&Listed> {
        let is_wanted = |it: &&Listed| {
            asked.id.as_ref().is_none_or(|id| id == it.id())
                && it.end().is_none_or(|end| end >= asked.range.start)
        };
        let mut found: Vec<_> =
            self.near(&asked.range).iter().rev().filter(is_wanted).take(asked.limit).collect();
        found.reverse();
        found
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that keeps runs until the monitor stops.
pub(crate) fn start(node: &Node, shared: Arc<Shared>) -> Result<JoinHandle<()>, Failure> {
    let mut subscriber = node.subscriber(PATTERN).reader("runs").open()?;
    let mut keeper = Keeper::new(node, "monitor");
    let keep = move || {
        while !*shared.stopping.borrow() {
            let kept = match subscriber.next(PATIENCE) {
                Some(Event::Block(block)) => keeper.take(&block).map(|is_new| {
                    if is_new {
                        shared.runs.set(keeper.heard().runs.clone());
                    }
                }),
                _ => Ok(()),
            };
            if let Err(error) = kept.and_then(|()| keeper.tend()) {
                tracing::warn!("later readers are not told of a run: {error}");
            }
        }
    };
    Ok(std::thread::Builder::new().name("monitor-runs".to_owned()).spawn(keep)?)
}

/// Reason why runs are not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

/// Returns runs that the bus and the archive know, and stops without a start, as JSON. Reads the archive: may block.
pub(crate) fn listed(shared: &Shared, asked: &AskedRuns) -> Result<Value, Refused> {
    let known = known(shared)?;
    Ok(known.find(asked).into_iter().map(Listed::to_json).collect())
}

/// Returns the range of time of a run, or of the part of it between two moments. Reads the archive: may block.
///
/// `+10s` is after the start of the run, `-10s` before its end; that of an open run is now.
pub(crate) fn range(
    shared: &Shared,
    choice: &str,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<Range<WallTime>, Refused> {
    let choice = choice.parse::<RunChoice>().map_err(|error| Refused::because(&error))?;
    let run = select_run(&known(shared)?.runs, &choice).map_err(|error| Refused::because(&error))?;
    let whole = run_range(&run, clock::wall());
    let moment = |text: Option<&str>, otherwise| match text {
        None => Ok(otherwise),
        Some(text) => text
            .parse::<Moment>()
            .map(|moment| moment.in_recording(whole.start, whole.end))
            .map_err(|error| Refused::because(&error)),
    };
    let range = moment(from, whole.start)?..moment(to, whole.end)?;
    if range.is_empty() { Err(Refused::range_ends_first()) } else { Ok(range) }
}

fn known(shared: &Shared) -> Result<Arc<KnownRuns>, Refused> {
    let stored = shared.store.as_ref().map(|store| store.runs()).transpose();
    Ok(shared.runs.known(stored.map_err(|failure| Refused::store(&failure))?.flatten()))
}

#[cfg(test)]
mod tests {
    use tallycast::runs::{Event, Labels, What};

    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const RUNS: i64 = 10_000;

    fn event(number: i64, id: &str, what: What, time: i64) -> Event {
        let [host, by] = ["daq-3", "ada"].map(str::to_owned);
        let (id, time) = (id.parse().unwrap(), WallTime::from_nanos(time * SECOND));
        Event { number: number as u64, id, what, time, host, by, labels: Labels::new(), started: None }
    }

    /// Makes runs of nine seconds, every ten seconds.
    fn shots(numbers: Range<i64>) -> Runs {
        let mut runs = Runs::default();
        for number in numbers {
            let id = format!("shot-{number}");
            runs.take(event(2 * number, &id, What::Start, 10 * number));
            runs.take(event(2 * number + 1, &id, What::Stop, 10 * number + 9));
        }
        runs
    }

    fn asked(from: i64, to: i64) -> AskedRuns {
        let range = WallTime::from_nanos(from * SECOND)..WallTime::from_nanos(to * SECOND);
        AskedRuns { id: None, range, limit: MAX_RUNS }
    }

    fn ids(known: &KnownRuns, asked: &AskedRuns) -> Vec<String> {
        known.find(asked).iter().map(|it| it.id().to_string()).collect()
    }

    #[test]
    fn a_window_costs_the_runs_that_it_shows_of_ten_thousand() {
        let board = RunBoard::default();
        // Half of them are on the bus, half in the archive, and some in both.
        board.set(shots(4_000..RUNS));
        let stored = Some(Arc::new(shots(0..6_000)));
        for window in 0..1_000 {
            let known = board.known(stored.clone());
            let asked = asked(100 * window + 5, 100 * window + 25);
            let first = 10 * window;
            let shown = [first, first + 1, first + 2].map(|number| format!("shot-{number}"));
            assert_eq!(ids(&known, &asked), shown);
            assert_eq!(known.near(&asked.range).len(), 3, "no others were looked at");
        }
        assert_eq!(lock(&board.computed).times, 1);
        board.set(shots(4_000..RUNS + 1));
        let known = board.known(stored.clone());
        assert_eq!(lock(&board.computed).times, 2);
        assert_eq!(ids(&known, &asked(10 * RUNS, 10 * RUNS + 1)), ["shot-10000"]);
        board.known(Some(Arc::new(shots(0..1))));
        assert_eq!(lock(&board.computed).times, 3);
        assert_eq!((board.change(), *board.subscribe().borrow()), (2, 2));
    }

    #[test]
    fn both_ends_of_a_range_and_the_newest_within_a_limit() {
        let mut runs = shots(0..4);
        runs.take(event(100, "open", What::Start, 12));
        runs.take(event(101, "gone", What::Stop, 5));
        let known = KnownRuns::new(runs);
        let ids = |asked: &AskedRuns| ids(&known, asked).join(" ");
        assert_eq!(ids(&asked(0, 1_000)), "shot-0 gone shot-1 open shot-2 shot-3");
        assert_eq!(ids(&asked(9, 10)), "shot-0", "its end is at the edge, where it is marked");
        assert_eq!(ids(&asked(10, 11)), "shot-1", "`gone` was before");
        assert_eq!(ids(&asked(-5, 0)), "", "the end of a range is no part of it");
        assert_eq!(ids(&asked(-5, 1)), "shot-0");
        assert_eq!(ids(&asked(500, 501)), "open");
        assert_eq!(ids(&AskedRuns { limit: 2, ..asked(0, 1_000) }), "shot-2 shot-3");
        assert_eq!(ids(&AskedRuns { id: Some("gone".parse().unwrap()), ..asked(0, 1_000) }), "gone");
    }
}
