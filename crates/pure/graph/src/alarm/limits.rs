//! One value watched against limits, each with hysteresis and hold of its own.

use units::WallTime;

/// A limit, reached by values at or beyond it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limit {
    /// State that it stands for: 1 warning, 2 alarm; negative if values below are beyond it.
    pub(super) level: i8,
    pub(super) at: f64,
    /// How far values must be on the other side until it is no longer reached.
    pub(super) hysteresis: f64,
}

/// How long a limit must be reached, or not, until that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hold {
    /// So many samples in succession.
    Samples(u64),
    /// So long from the first sample of a succession to another. Units: nanoseconds.
    Time(i64),
}

/// A sample of the input in index and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moment {
    pub(super) index: u64,
    pub(super) time: WallTime,
}

/// A change of what is known of a value: 0 if it is within all limits, otherwise the level of the worst that is reached;
/// `None` if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) before: Option<i8>,
    pub(super) now: Option<i8>,
    /// Index of the first sample that it is due to.
    pub(super) since: u64,
}

/// What is known of one value.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// In the order of the limits.
    tracks: Vec<Track>,
    level: Option<i8>,
    /// Index of the first sample that the level is due to.
    since: u64,
}

/// What is known of one limit.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    run: Option<Run>,
    /// Whether it is reached, decided by the last run that was held; `None` after missing data.
    held: Option<bool>,
}

/// Samples in succession that have reached a limit, or have not.
#[derive(Clone, Copy, Debug)]
struct Run {
    reached: bool,
    first: Moment,
}

impl Limit {
    fn is_reached(&self, value: f64, before: bool) -> bool {
        let hysteresis = if before { self.hysteresis } else { 0.0 };
        if self.level > 0 { value >= self.at - hysteresis } else { value <= self.at + hysteresis }
    }
}

impl Hold {
    fn is_over(self, first: Moment, now: Moment) -> bool {
        match self {
            Self::Samples(samples) => now.index - first.index + 1 >= samples,
            Self::Time(ns) => now.time.nanos_since(first.time) >= ns,
        }
    }
}

impl Watch {
    pub(super) fn new(limits: usize) -> Self {
        Self { tracks: vec![Track::default(); limits], level: None, since: 0 }
    }

    /// Takes the next value; NaN is a missing one.
    pub(super) fn take(&mut self, limits: &[Limit], hold: Hold, value: f64, now: Moment) -> Option<Change> {
        if value.is_nan() {
            return self.lose(now.index);
        }
        let mut since = None;
        for (limit, track) in limits.iter().zip(&mut self.tracks) {
            let reached = limit.is_reached(value, track.run.is_some_and(|run| run.reached));
            let run = track.run.filter(|run| run.reached == reached).unwrap_or(Run { reached, first: now });
            track.run = Some(run);
            if track.held != Some(reached) && hold.is_over(run.first, now) {
                track.held = Some(reached);
                since = since.max(Some(run.first.index));
            }
        }
        let (since, level) = (since?, self.held_level(limits)?);
        self.change(Some(level), since)
    }

    /// Forgets the past, because the sample at `index` and maybe others are missing.
    pub(super) fn lose(&mut self, index: u64) -> Option<Change> {
        self.tracks.fill(Track::default());
        self.change(None, index)
    }

    /// Returns the level of the worst limit that is reached, and `None` if too little is known.
    fn held_level(&self, limits: &[Limit]) -> Option<i8> {
        let tracked = || limits.iter().zip(&self.tracks);
        let reached = tracked().filter(|(_, track)| track.held == Some(true)).map(|(limit, _)| limit.level);
        let worst = reached.max_by_key(|level| level.abs());
        worst.or_else(|| tracked().all(|(_, track)| track.held.is_some()).then_some(0))
    }

    /// Returns what is known, as a change to itself.
    pub(super) const fn state(&self) -> Change {
        Change { before: self.level, now: self.level, since: self.since }
    }

    fn change(&mut self, now: Option<i8>, since: u64) -> Option<Change> {
        let before = core::mem::replace(&mut self.level, now);
        if before == now {
            return None;
        }
        self.since = since;
        Some(Change { before, now, since })
    }
}
