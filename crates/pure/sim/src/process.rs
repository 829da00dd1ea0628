//! Run times of a host's process: at its cycles, outside its stalls, late after a sleep, and not while it is busy.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, Random};

use crate::host::{Host, Lateness};
use crate::path::exponential;

/// A host's process in operation, with its random streams.
pub(crate) struct Process {
    pub(crate) host: Host,
    late: Random,
    stalls: RandomStalls,
    /// End of its current work.
    busy_until: Instant,
}

/// Random stalls, generated as far ahead as requested.
struct RandomStalls {
    random: Random,
    made: VecDeque<Range<Instant>>,
    made_until: Instant,
}

/// Work of a process in a turn.
#[derive(Clone, Copy, Default)]
pub(crate) struct Work {
    pub(crate) received: u32,
    pub(crate) calls: u32,
    pub(crate) sent: u32,
}

impl Process {
    pub(crate) fn new(host: Host, seed: u64, name: &str) -> Self {
        let stream = |effect: &str| Random::for_purpose(seed, &format!("{name}: {effect}"));
        let stalls =
            RandomStalls { random: stream("stalls"), made: VecDeque::new(), made_until: Instant::ORIGIN };
        Self { host, late: stream("lateness"), stalls, busy_until: Instant::ORIGIN }
    }

    /// Returns the delay of a wake-up if the process sleeps at `now`, drawn again for each wake-up.
    pub(crate) fn lateness(&mut self, now: Instant) -> Duration {
        let Some(Lateness { usual, rare, most }) = self.host.lateness else { return Duration::ZERO };
        let is_rare = self.late.chance(rare);
        let part = self.late.unit();
        let is_awake = self.busy_until > now;
        if is_awake { Duration::ZERO } else { (if is_rare { most } else { usual * 2 }).mul_f64(part) }
    }

    /// Returns the first instant at or after `at` at which the process runs.
    pub(crate) fn runs_from(&mut self, at: Instant) -> Instant {
        let mut at = self.host.runs_from(at.max(self.busy_until));
        while let Some(end) = self.stalls.end_of_stall_at(at, &self.host) {
            at = self.host.runs_from(end);
        }
        at
    }

    /// Returns the time at which a timer for `deadline` fires while the process is idle; random stalls are not
    /// included.
    pub(crate) fn timer(&self, now: Instant, deadline: Instant) -> Instant {
        self.host.runs_from(self.host.fires_at(deadline.max(now)).max(self.busy_until))
    }

    /// Returns the first instant after `at` at which the process runs again after a full batch.
    pub(crate) fn runs_again(&mut self, at: Instant) -> Instant {
        let again = self.host.runs_again(at);
        self.runs_from(again)
    }

    /// Records a turn's work, which begins at `now`.
    pub(crate) fn work(&mut self, now: Instant, work: Work) {
        self.stalls.forget_before(now);
        let took = self.time_of(work);
        if !took.is_zero() {
            self.busy_until = self.busy_until.max(now) + took;
        }
    }

    /// Returns the duration of `work`: the delay from the start of a turn to a datagram sent at its end.
    pub(crate) fn time_of(&self, work: Work) -> Duration {
        let costs = &self.host.costs;
        costs.turn + costs.received * work.received + costs.send_call * work.calls + costs.sent * work.sent
    }
}

impl RandomStalls {
    fn end_of_stall_at(&mut self, at: Instant, host: &Host) -> Option<Instant> {
        let (apart, lengths) = host.random_stalls.as_ref()?;
        while self.made_until <= at {
            let begin = self.made_until + exponential(&mut self.random, *apart);
            let spread = lengths.end.saturating_sub(lengths.start).mul_f64(self.random.unit());
            let end = begin + lengths.start + spread;
            self.made.push_back(begin..end);
            self.made_until = end;
        }
        self.made.iter().find(|stall| stall.contains(&at)).map(|stall| stall.end)
    }

    fn forget_before(&mut self, now: Instant) {
        while self.made.front().is_some_and(|stall| stall.end <= now) {
            self.made.pop_front();
        }
    }
}
