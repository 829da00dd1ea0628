//! The time up to which an input is known while it sends nothing, and whether it is there at all.
//!
//! A tally tells that everything below a position has come or is missing. It tells no time: the next sample of a paused
//! source may be taken at any later moment. So the time is computed from how late the input's blocks have come so far.
//! Sample times are compared with a clock that never steps, so that recordings are handled like live streams.
//! Start with [`Horizons`].

use core::time::Duration;

use sample::Block;
use units::{Epoch, Instant, WallTime};

/// Silence after which an input is absent: ten of the longest tally intervals.
pub const ABSENT_AFTER: Duration = Duration::from_secs(10);
/// Time by which samples may come later than any before them: a source whose process was not scheduled is not paused.
const MARGIN_NS: i64 = 2_000_000_000;
/// Additional delay of an input that has sent nothing yet, beyond that of the latest other input.
const UNKNOWN_NS: i64 = 1_000_000_000;
/// Additional delay of a relayed input, whose relay sends tallies while its link is interrupted: the longest deadline of
/// samples on a link.
const RELAYED_NS: i64 = 60_000_000_000;
/// Time for which the greatest delay counts, once or twice.
const WINDOW: Duration = Duration::from_secs(10);

/// Position and time before which nothing more of an input will come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Horizon {
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// All samples below this index were passed on, or are missing.
    pub next_index: u64,
    /// All samples taken before this time were passed on, or are missing; `None` if that is unknown.
    pub before: Option<WallTime>,
}

/// The horizons of an operator's inputs, and the inputs that are absent.
///
/// `now` is a clock that never steps, the same for all calls. An input is present from its first block or horizon on,
/// and absent after [`ABSENT_AFTER`] without either. The operator is passed [`crate::Input::Ended`] then.
#[derive(Clone, Debug)]
pub struct Horizons(Vec<Watched>);

#[derive(Clone, Debug)]
struct Watched {
    presence: Presence,
    delays: Option<Delays>,
    /// The newest epoch that began.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Presence {
    /// Nothing of it has come, since the first look at the clock.
    Awaited {
        since: Option<Instant>,
    },
    Present {
        heard: Instant,
    },
    Absent,
    Ended,
}

/// Delays of blocks: the arrival by the steady clock less the time of the first sample.
#[derive(Clone, Copy, Debug)]
struct Delays {
    since: Instant,
    current: Extreme,
    previous: Extreme,
}

/// Units: nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Extreme {
    delay: i64,
    /// Greatest excess of a delay over all before it: those of a slow replay rise with every block.
    rise: i64,
}

impl Horizons {
    /// Begins to watch this number of inputs.
    #[must_use]
    pub fn new(inputs: usize) -> Self {
        let presence = Presence::Awaited { since: None };
        Self(vec![Watched { presence, delays: None, epoch: None }; inputs])
    }

    /// Records that an epoch of an input has begun.
    pub fn began(&mut self, input: usize, now: Instant, epoch: Epoch) {
        self.0[input].presence = Presence::Present { heard: now };
        self.0[input].epoch = Some(epoch);
    }

    /// Records that a block has arrived.
    pub fn block(&mut self, input: usize, now: Instant, block: &Block) {
        let watched = &mut self.0[input];
        watched.presence = Presence::Present { heard: now };
        let delay = nanos(now).saturating_sub(block.t0.as_nanos());
        watched.delays = Some(match watched.delays {
            None => Delays::new(now, delay),
            Some(delays) => delays.with(now, delay),
        });
    }

    /// Records that an input told its position at `at`; returns the time before which nothing more of it will come if it
    /// had sent everything by then.
    pub fn horizon(&mut self, input: usize, at: Instant, path: Path) -> Option<WallTime> {
        self.0[input].presence = Presence::Present { heard: at };
        let own = self.0[input].delays.map(Delays::most);
        let others = || self.0.iter().filter_map(|it| it.delays).map(Delays::most).max();
        let most = own.or_else(|| others().map(|most| most.saturating_add(UNKNOWN_NS)))?;
        let most = match path {
            Path::Direct => most,
            Path::Relayed => most.saturating_add(RELAYED_NS),
        };
        Some(WallTime::from_nanos(nanos(at).saturating_sub(most)))
    }

    /// Records that an epoch of an input has ended; returns whether the input has, because no other epoch began since.
    pub fn ended(&mut self, input: usize, epoch: Epoch, end: End) -> bool {
        let watched = &mut self.0[input];
        if watched.epoch.is_some_and(|newest| newest != epoch) {
            return false;
        }
        watched.presence = match end {
            End::Told => Presence::Ended,
            End::Silent => Presence::Absent,
        };
        true
    }

    /// Returns the inputs that have become absent by `now`, a moment at which everything that had come was passed on.
    pub fn advance(&mut self, now: Instant) -> Vec<usize> {
        let mut absent = Vec::new();
        for (input, watched) in self.0.iter_mut().enumerate() {
            let since = match &mut watched.presence {
                Presence::Awaited { since } => *since.get_or_insert(now),
                Presence::Present { heard } => *heard,
                Presence::Absent | Presence::Ended => continue,
            };
            if now.as_nanos().saturating_sub(since.as_nanos()) >= ABSENT_AFTER.as_nanos() as u64 {
                watched.presence = Presence::Absent;
                absent.push(input);
            }
        }
        absent
    }

    /// Returns whether an input is absent.
    #[must_use]
    pub fn is_absent(&self, input: usize) -> bool {
        self.0[input].presence == Presence::Absent
    }
}

/// How the samples of an input come here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// From their publisher.
    Direct,
    /// By a relay, which keeps samples back while its link is interrupted.
    Relayed,
}

/// How an input ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its publisher told the end.
    Told,
    /// It fell silent.
    Silent,
}

impl Delays {
    const fn new(since: Instant, delay: i64) -> Self {
        let extreme = Extreme { delay, rise: 0 };
        Self { since, current: extreme, previous: extreme }
    }

    fn with(mut self, now: Instant, delay: i64) -> Self {
        let rise = delay.saturating_sub(self.current.delay.max(self.previous.delay)).max(0);
        if now.as_nanos().saturating_sub(self.since.as_nanos()) >= WINDOW.as_nanos() as u64 {
            (self.since, self.previous, self.current) = (now, self.current, Extreme { delay, rise });
        } else {
            let Extreme { delay: most, rise: highest } = self.current;
            self.current = Extreme { delay: most.max(delay), rise: highest.max(rise) };
        }
        self
    }

    /// Returns the delay that the next block will not exceed.
    fn most(self) -> i64 {
        let Self { current, previous, .. } = self;
        let rise = current.rise.max(previous.rise).saturating_mul(2);
        current.delay.max(previous.delay).saturating_add(rise).saturating_add(MARGIN_NS)
    }
}

fn nanos(at: Instant) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
