//! Runs of the experiment: heard on the bus, kept for later readers, and read from the archive.
//!
//! A thread of its own with a subscriber of its own: events of runs come whatever the monitor shows. Protocol:
//! `docs/protocol/runs.md`.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use archive::{Moment, run_range, select_run};
use serde_json::Value;
use tallycast::runs::{Keeper, PATTERN, RunChoice, Runs, run_json, stranger_json};
use tallycast::{Event, Node, NodeError};
use units::WallTime;

use crate::clock;
use crate::refused::Refused;
use crate::shared::Shared;

/// Maximum wait for events before the end of the monitor and readers that came are looked for.
const PATIENCE: Duration = Duration::from_millis(100);

/// The runs that the bus told of.
#[derive(Default)]
pub(crate) struct HeardRuns(Mutex<Runs>);

impl HeardRuns {
    fn set(&self, runs: Runs) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = runs;
    }

    fn get(&self) -> Runs {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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

/// Returns the runs that the bus and the archive know, and stops without a start, as JSON. Reads the archive: may block.
pub(crate) fn listed(shared: &Shared) -> Result<Value, Refused> {
    let runs = known(shared)?;
    let (listed, strangers) = (runs.list(), runs.strangers());
    Ok(listed.iter().map(run_json).chain(strangers.iter().map(stranger_json)).collect())
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
    let run = select_run(&known(shared)?, &choice).map_err(|error| Refused::because(&error))?;
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

fn known(shared: &Shared) -> Result<Runs, Refused> {
    let mut runs = shared.runs.get();
    if let Some(store) = &shared.store {
        store.runs(&mut runs).map_err(|failure| Refused::store(&failure))?;
    }
    Ok(runs)
}
