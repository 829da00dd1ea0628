//! Copa: aims at a rate in inverse proportion to the queueing delay that it sees.
//!
//! Source: Arun, Balakrishnan, "Copa: practical delay-based congestion control for the internet", NSDI 2018, with its
//! mode for paths that are shared with controls that fill queues.

use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW, limit, sized};
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized, RoundTrip};

/// Copa: two packets of its own in the queue on average, oscillating so that the queue empties and the path is
/// measured without it. If the queue does not empty, other flows fill it, and Copa becomes as aggressive as they are.
#[derive(Clone, Debug)]
pub(crate) struct Copa {
    window: f64,
    /// Inverse of the target number of packets in the queue, without competing flows of another kind.
    delta: f64,
    /// Current target of packets in the queue.
    wished: f64,
    is_slow_start: bool,
    /// Velocity of the window in a round trip, and its direction.
    velocity: f64,
    is_upward: bool,
    /// Window and direction at the start of the round, and the number of rounds in this direction.
    round_window: f64,
    rounds_so: u32,
    /// True if by the last round trip the rate is at most the target.
    may_grow: bool,
    least: Extreme,
    standing: Extreme,
    most: Extreme,
    /// Time when the queue was last nearly empty.
    emptied: Option<Instant>,
    had_loss: bool,
    smoothed: Duration,
}

/// Minimum or maximum of the samples of a time span.
#[derive(Clone, Debug)]
struct Extreme {
    is_largest: bool,
    /// Candidates in order; an older sample is dropped once a newer one is more extreme.
    samples: VecDeque<(Instant, Duration)>,
}

/// Time span of the minimum round trip.
const LEAST_SPAN: Duration = Duration::from_secs(10);
/// Fraction of the range of round trips below which the queue is nearly empty.
const NEARLY_EMPTY: f64 = 0.1;
const MOST_VELOCITY: f64 = 1e6;

impl Extreme {
    const fn new(is_largest: bool) -> Self {
        Self { is_largest, samples: VecDeque::new() }
    }

    fn take(&mut self, now: Instant, sample: Duration, span: Duration) -> Duration {
        let hides = |old: Duration| if self.is_largest { sample >= old } else { sample <= old };
        while self.samples.back().is_some_and(|(_, old)| hides(*old)) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, sample));
        while self.samples.len() > 1 && self.samples.front().is_some_and(|(at, _)| now.since(*at) > span) {
            self.samples.pop_front();
        }
        self.samples.front().map_or(sample, |(_, extreme)| *extreme)
    }

    fn value(&self) -> Option<Duration> {
        self.samples.front().map(|(_, extreme)| *extreme)
    }
}

impl Copa {
    /// Creates a control with a target of `1 / delta` packets in the queue.
    const fn new(delta: f64) -> Self {
        Self {
            window: START_WINDOW,
            delta,
            wished: 1.0 / delta,
            is_slow_start: true,
            velocity: 1.0,
            is_upward: true,
            round_window: START_WINDOW,
            rounds_so: 0,
            may_grow: true,
            least: Extreme::new(false),
            standing: Extreme::new(false),
            most: Extreme::new(true),
            emptied: None,
            had_loss: false,
            smoothed: Duration::from_millis(100),
        }
    }

    /// Takes a round trip; returns whether the rate is at most the target.
    fn look(&mut self, environment: &Environment<'_>, sample: Duration) -> bool {
        let now = environment.now;
        self.smoothed = environment.round_trip.smoothed.min(RoundTrip::LONGEST);
        let least = self.least.take(now, sample, LEAST_SPAN);
        let standing = self.standing.take(now, sample, self.smoothed / 2);
        let most = self.most.take(now, sample, self.smoothed * 4);
        let queueing = standing.saturating_sub(least).as_secs_f64();
        if queueing <= NEARLY_EMPTY * most.saturating_sub(least).as_secs_f64() {
            self.emptied = Some(now);
        }
        // The rate is the window in a standing round trip, the target is `wished` packets in the queueing delay.
        self.window * queueing <= self.wished * standing.as_secs_f64()
    }

    fn end_round(&mut self, now: Instant) {
        let has_others = self.emptied.is_none_or(|emptied| now.since(emptied) > self.smoothed * 5);
        self.wished = if !has_others {
            1.0 / self.delta
        } else if core::mem::take(&mut self.had_loss) {
            (self.wished / 2.0).max(1.0 / self.delta)
        } else {
            self.wished + 1.0
        };
        let went_upward = self.window > self.round_window;
        self.round_window = self.window;
        if went_upward == self.is_upward {
            self.rounds_so += 1;
        } else {
            (self.rounds_so, self.velocity) = (0, 1.0);
        }
        self.is_upward = went_upward;
        if self.rounds_so >= 3 {
            self.velocity = (self.velocity * 2.0).min(MOST_VELOCITY);
        }
    }
}

impl FromOptions for Copa {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let delta = options.number("delta", 0.5, 0.004, 1.0)?;
        Ok(Self::new(delta))
    }
}

impl CongestionControl for Copa {
    fn policy(&self) -> Policy {
        Policy::window(self.window).paced(2.0, self.standing.value().unwrap_or_default())
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        // A packet that filled a hole has no round trip; the latest decision applies.
        if let Some(sample) = acked.round_trip {
            self.may_grow = self.look(environment, sample);
        }
        let may_grow = self.may_grow;
        if environment.flight.is_application_limited {
            return;
        }
        let newly = f64::from(acked.newly);
        if self.is_slow_start && may_grow {
            self.window += newly;
        } else {
            self.is_slow_start = false;
            if may_grow != self.is_upward && self.velocity > 1.0 {
                (self.velocity, self.rounds_so) = (1.0, 0);
            }
            let step = self.velocity * newly * self.wished / self.window;
            // At most the window itself in one round trip.
            let step = step.min(newly);
            self.window = (self.window + if may_grow { step } else { -step }).max(LEAST_WINDOW);
        }
        if acked.ends_round {
            self.end_round(environment.now);
        }
        limit(&mut self.window, environment);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window = sized(self.window, resized);
        self.round_window = sized(self.round_window, resized);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        self.had_loss |= lost.begins_epoch;
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        (self.window, self.velocity, self.rounds_so) = (LEAST_WINDOW, 1.0, 0);
        self.is_slow_start = true;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("wished_packets", self.wished);
        tell("velocity", self.velocity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AckKind;
    use crate::harness::Stage;

    #[test]
    fn what_filled_a_hole_counts_though_it_tells_no_time() {
        let mut stage = Stage::new(1, Duration::from_millis(20));
        let mut copa = Copa::new(0.5);
        stage.ack(&mut copa, 1);
        let before = copa.window;
        let filled = Acked {
            to: 30,
            newly: 29,
            kind: AckKind::Light,
            round_trip: None,
            ends_round: false,
            rate: None,
        };
        copa.on_ack(&mut stage.environment(), &filled);
        assert_eq!(copa.window, before + 29.0, "slow start");
    }
}
