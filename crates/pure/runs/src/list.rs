//! From events in any order to runs.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use units::WallTime;

use crate::{Event, Labels, RunId, What};

/// A run: from its start to its stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its id; other runs may have the same.
    pub id: RunId,
    /// Its labels.
    pub labels: Labels,
    /// Its start, by the clock of the host that said it.
    pub start: WallTime,
    /// Its end.
    pub end: End,
    /// Station and principal that started it; `None` if only its stop is known, which told the rest.
    pub started_by: Option<(String, String)>,
    /// Nanoseconds by which the clock of the host that stopped it was at least behind: the stop has a time before the start.
    /// The run then ends at its start. Otherwise 0.
    pub clock_behind_ns: u64,
}

/// End of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// No stop is known: the run goes on, or its stop was forgotten.
    Open,
    /// It was stopped.
    Stopped {
        /// First moment after the run.
        time: WallTime,
        /// Station and principal that stopped it.
        by: (String, String),
    },
    /// It was started again without a stop between.
    Restarted {
        /// Start of the next run of this id.
        time: WallTime,
    },
}

/// A stop that belongs to no known start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stranger {
    /// The id that it names.
    pub id: RunId,
    /// Its time.
    pub time: WallTime,
    /// Station and principal that said it.
    pub by: (String, String),
}

/// What became of the events taken: `taken = starts + stops + repeated + again + strangers`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of events taken.
    pub taken: u64,
    /// Starts that began a run.
    pub starts: u64,
    /// Stops that ended a run.
    pub stops: u64,
    /// Events that were known already.
    pub repeated: u64,
    /// Starts and stops that changed nothing: said of a run that had started at this moment, or that had ended.
    pub again: u64,
    /// Stops without a start.
    pub strangers: u64,
}

/// Events known, and the runs that they make.
///
/// The order in which events are taken does not matter.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    events: BTreeMap<RunId, BTreeSet<Known>>,
    taken: u64,
    repeated: u64,
}

/// An event in the order in which runs are computed; `number` last, so that any two events have an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Known {
    time: WallTime,
    what: What,
    number: u64,
    started: Option<WallTime>,
    by: (String, String),
    labels: Labels,
}

impl Run {
    /// Returns the first moment after the run; `None` while it is open.
    #[must_use]
    pub const fn end_time(&self) -> Option<WallTime> {
        match self.end {
            End::Open => None,
            End::Stopped { time, .. } | End::Restarted { time } => Some(time),
        }
    }

    /// Returns whether a moment is in the run: from its start, before its end.
    #[must_use]
    pub fn contains(&self, time: WallTime) -> bool {
        time >= self.start && self.end_time().is_none_or(|end| time < end)
    }
}

impl Runs {
    /// Takes an event; returns whether it is new.
    pub fn take(&mut self, event: Event) -> bool {
        let Event { number, id, what, time, host, by, labels, started } = event;
        let known = Known { time, what, number, started, by: (host, by), labels };
        let is_new = self.events.entry(id).or_default().insert(known);
        self.taken += 1;
        self.repeated += u64::from(!is_new);
        is_new
    }

    /// Takes all events of another list.
    pub fn merge(&mut self, other: &Self) {
        for (id, events) in &other.events {
            let known = self.events.entry(id.clone()).or_default();
            let new = events.iter().filter(|event| known.insert((*event).clone())).count();
            self.repeated += (events.len() - new) as u64;
            self.taken += events.len() as u64;
        }
    }

    /// Returns the runs by their start.
    #[must_use]
    pub fn list(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = self.events.iter().flat_map(|(id, events)| of_id(id, events).runs).collect();
        runs.sort_by(|one, other| (one.start, &one.id).cmp(&(other.start, &other.id)));
        runs
    }

    /// Returns the newest run of an id.
    #[must_use]
    pub fn newest(&self, id: &RunId) -> Option<Run> {
        of_id(id, self.events.get(id)?).runs.pop()
    }

    /// Returns a stop with the start and the labels of the open run that it ends; as it is if no such run is known.
    #[must_use]
    pub fn stop(&self, stop: Event) -> Event {
        match self.newest(&stop.id) {
            Some(Run { start, end: End::Open, labels, .. }) => Event { started: Some(start), labels, ..stop },
            Some(_) | None => stop,
        }
    }

    /// Returns the number of different events.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.taken - self.repeated
    }

    /// Returns whether no event is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the stops that belong to no known start, by their time.
    #[must_use]
    pub fn strangers(&self) -> Vec<Stranger> {
        let of = |(id, events)| of_id(id, events).strangers;
        let mut strangers: Vec<Stranger> = self.events.iter().flat_map(of).collect();
        strangers.sort_by_key(|it| it.time);
        strangers
    }

    /// Returns what became of the events.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { taken: self.taken, repeated: self.repeated, ..Counts::default() };
        for (id, events) in &self.events {
            let found = of_id(id, events);
            counts.starts += found.starts;
            counts.stops += found.stops;
            counts.strangers += found.strangers.len() as u64;
            let used = found.starts + found.stops + found.strangers.len() as u64;
            counts.again += events.len() as u64 - used;
        }
        counts
    }

    /// Returns events from which a later reader computes the runs that are open and the newest `count` of the others; the
    /// newest event first, so that the first one of an id tells whether its newest run is open.
    #[must_use]
    pub fn to_repeat(&self, count: usize) -> Vec<Event> {
        let runs = self.list();
        let ended = runs.iter().filter(|run| run.end != End::Open);
        let oldest = ended.rev().take(count).last().map(|run| run.start);
        let is_wanted = |run: &&Run| run.end == End::Open || oldest.is_some_and(|oldest| run.start >= oldest);
        let wanted: BTreeMap<&RunId, WallTime> =
            runs.iter().rev().filter(is_wanted).map(|run| (&run.id, run.start)).collect();
        let events = self.events.iter().filter_map(|(id, events)| Some((id, wanted.get(id)?, events)));
        let mut events: Vec<Event> = events
            .flat_map(|(id, since, events)| {
                let is_wanted = |it: &&Known| it.started.unwrap_or(it.time) >= *since;
                events.iter().filter(is_wanted).map(|known| known.event(id))
            })
            .collect();
        events.sort_by_key(|event| Reverse((event.time, event.number)));
        events
    }
}

impl Known {
    fn event(&self, id: &RunId) -> Event {
        let (host, by) = self.by.clone();
        Event {
            number: self.number,
            id: id.clone(),
            what: self.what,
            time: self.time,
            host,
            by,
            labels: self.labels.clone(),
            started: self.started,
        }
    }
}

/// What the events of one id make.
#[derive(Default)]
struct Found {
    runs: Vec<Run>,
    strangers: Vec<Stranger>,
    starts: u64,
    stops: u64,
}

/// A start, and the stop that ends it so far.
struct Begun<'a> {
    by: Option<&'a (String, String)>,
    labels: &'a Labels,
    stop: Option<&'a Known>,
}

fn of_id(id: &RunId, events: &BTreeSet<Known>) -> Found {
    let mut found = Found::default();
    let mut begun: BTreeMap<WallTime, Begun<'_>> = BTreeMap::new();
    for start in events.iter().filter(|it| it.what == What::Start) {
        begun.entry(start.time).or_insert_with(|| {
            found.starts += 1;
            Begun { by: Some(&start.by), labels: &start.labels, stop: None }
        });
    }
    let stops = || events.iter().filter(|it| it.what == What::Stop);
    for stop in stops() {
        if let Some(started) = stop.started {
            begun.entry(started).or_insert(Begun { by: None, labels: &stop.labels, stop: None });
        }
    }
    // In the order of time: the first stop ends the run.
    for stop in stops() {
        let run = match stop.started {
            Some(started) => begun.get_mut(&started),
            None => begun.range_mut(..=stop.time).next_back().map(|(_, run)| run),
        };
        match run {
            Some(Begun { stop: place @ None, .. }) => *place = Some(stop),
            Some(_) => {}
            None => found.strangers.push(Stranger { id: id.clone(), time: stop.time, by: stop.by.clone() }),
        }
    }
    let nexts = begun.keys().copied().skip(1).map(Some).chain([None]).collect::<Vec<_>>();
    for ((start, run), next) in begun.into_iter().zip(nexts) {
        let (end, clock_behind_ns) = end(start, run.stop, next);
        found.stops += u64::from(matches!(end, End::Stopped { .. }));
        let (labels, started_by) = (run.labels.clone(), run.by.cloned());
        found.runs.push(Run { id: id.clone(), labels, start, end, started_by, clock_behind_ns });
    }
    found
}

/// Returns the end of a run, and by how much the clock of its stop was behind.
fn end(start: WallTime, stop: Option<&Known>, next: Option<WallTime>) -> (End, u64) {
    let stopped = stop.map(|stop| (stop.time.max(start), stop));
    match (stopped, next) {
        (Some((time, stop)), next) if next.is_none_or(|next| time <= next) => {
            let behind = u64::try_from(start.nanos_since(stop.time)).unwrap_or(0);
            (End::Stopped { time, by: stop.by.clone() }, behind)
        }
        (_, Some(time)) => (End::Restarted { time }, 0),
        (_, None) => (End::Open, 0),
    }
}

#[cfg(test)]
mod tests;
