//! BBR's cycle of probing for more, and the detection of a plateau.

use core::time::Duration;

use units::Instant;

use super::path::{News, packets};
use super::{Bbr, State};
use crate::Environment;

/// Detector of a rate that no longer grows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plateau {
    pub(super) rate: f64,
    /// The fastest sample of the round so far.
    round_rate: f64,
    pub(super) rounds: u32,
    pub(super) is_reached: bool,
}

/// State of a cycle of probing for more.
#[derive(Clone, Debug)]
pub(super) struct Cycle {
    pub(super) began: Instant,
    pub(super) wait: Duration,
    pub(super) rounds: u64,
    pub(super) answers: Answers,
    /// True while samples are of packets sent during the probe, and none has shown excessive loss.
    pub(super) is_probe_sample: bool,
    pub(super) was_too_much: bool,
    pub(super) was_cautious: bool,
    pub(super) up_rounds: u32,
    pub(super) up_acked: f64,
    pub(super) acked_a_step: f64,
}

/// Origin of the answers that arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answers {
    Usual,
    Refilling,
    /// More is sent, and the answers are to earlier packets.
    ProbeStarting,
    ProbeFeedback,
    /// Less is sent, and the answers are to the probe.
    ProbeStopping,
}

/// `LossThresh`.
const TOO_MANY_LOST: f64 = 0.02;
/// `Beta`.
const CUT: f64 = 0.7;
/// Rounds after which Reno flows of usual size would have recovered.
const RENO_ROUNDS: f64 = 63.0;

impl Plateau {
    /// Keeps the bytes of its rates with packets of another size.
    pub(super) fn resize(&mut self, factor: f64) {
        self.rate *= factor;
        self.round_rate *= factor;
    }
}

impl Bbr {
    /// Advances the cycle of probing for more.
    pub(super) fn go_on(&mut self, environment: &mut Environment<'_>, news: &News) {
        if !self.was_filled || self.learn_from_probe(environment, news) {
            return;
        }
        match self.state {
            State::Down if self.is_time_to_probe(news) => self.refill(),
            State::Down if self.is_time_to_cruise(news) => self.state = State::Cruise,
            State::Cruise if self.is_time_to_probe(news) => self.refill(),
            State::Refill if news.ends_round => {
                self.cycle.is_probe_sample = true;
                self.go_up(news);
            }
            State::Up => {
                if self.is_time_to_go_down(news) {
                    self.cycle.was_too_much = false;
                    self.go_down(environment);
                }
            }
            State::Startup
            | State::Drain { .. }
            | State::Down
            | State::Cruise
            | State::Refill
            | State::RoundTrip { .. } => {}
        }
    }

    /// Learns the path's capacity from the answers to the last probe; returns whether the next state is decided.
    fn learn_from_probe(&mut self, environment: &mut Environment<'_>, news: &News) -> bool {
        if news.ends_round && self.cycle.answers == Answers::ProbeStarting {
            self.cycle.answers = Answers::ProbeFeedback;
        }
        if news.ends_round && self.cycle.answers == Answers::ProbeStopping {
            self.cycle.is_probe_sample = false;
            self.cycle.answers = Answers::Usual;
            if self.is_cycling() && !news.is_limited {
                self.path.begin_cycle();
            }
            if self.is_cycling() && self.cycle.was_cautious && !self.cycle.was_too_much {
                self.refill();
                return true;
            }
        }
        if is_too_much(news) {
            if self.cycle.is_probe_sample {
                self.was_too_much(environment, news);
            }
        } else if self.path.long_flight.is_finite() {
            self.path.long_flight = self.path.long_flight.max(news.sample.in_flight_at_send.into());
            if self.state == State::Up {
                self.raise_long_flight(news);
            }
        }
        false
    }

    fn was_too_much(&mut self, environment: &mut Environment<'_>, news: &News) {
        self.cycle.was_too_much = true;
        self.cycle.is_probe_sample = false;
        if !news.is_limited {
            let filled = self.path.filled().unwrap_or(self.window).min(self.window);
            self.path.long_flight = f64::from(news.sample.in_flight_at_send).max(filled * CUT);
        }
        if self.state == State::Up {
            self.go_down(environment);
        }
    }

    pub(super) fn go_down(&mut self, environment: &mut Environment<'_>) {
        self.path.forget_round();
        self.path.begin_round();
        let cycle = &mut self.cycle;
        cycle.acked_a_step = f64::INFINITY;
        cycle.rounds = environment.random.below(2);
        cycle.wait = Duration::from_secs(2) + Duration::from_secs(1).mul_f64(environment.random.unit());
        cycle.began = environment.now;
        cycle.answers = Answers::ProbeStopping;
        self.state = State::Down;
    }

    fn refill(&mut self) {
        self.path.forget_losses();
        self.path.begin_round();
        (self.cycle.up_rounds, self.cycle.up_acked, self.cycle.was_cautious) = (0, 0.0, false);
        self.cycle.answers = Answers::Refilling;
        self.state = State::Refill;
    }

    fn go_up(&mut self, news: &News) {
        self.cycle.answers = Answers::ProbeStarting;
        self.path.begin_round();
        self.plateau = Plateau::from(news.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    fn is_time_to_probe(&self, news: &News) -> bool {
        let reno = self.path.filled().unwrap_or(self.window).min(self.window).min(RENO_ROUNDS);
        news.now.since(self.cycle.began) > self.cycle.wait || packets(self.cycle.rounds) >= reno
    }

    fn is_time_to_cruise(&self, news: &News) -> bool {
        news.in_flight <= self.with_headroom() && news.in_flight <= self.in_flight_of(1.0)
    }

    fn is_time_to_go_down(&mut self, news: &News) -> bool {
        let long = self.path.long_flight;
        if self.cycle.was_too_much && news.in_flight >= long {
            self.cycle.was_cautious = true;
            return true;
        }
        if self.window_stops() && self.window >= long {
            self.plateau = Plateau::from(news.rate);
            return false;
        }
        self.plateau.is_reached
    }

    /// Doubles the amount by which a round raises the limit.
    fn raise_slope(&mut self) {
        let steps = f64::from(1_u32 << self.cycle.up_rounds);
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.acked_a_step = (self.window / steps).max(1.0);
    }

    fn raise_long_flight(&mut self, news: &News) {
        if !self.window_stops() || self.window < self.path.long_flight {
            return;
        }
        self.cycle.up_acked += news.newly;
        let steps = (self.cycle.up_acked / self.cycle.acked_a_step).floor();
        if steps >= 1.0 {
            self.cycle.up_acked -= steps * self.cycle.acked_a_step;
            self.path.long_flight += steps;
        }
        if news.ends_round {
            self.raise_slope();
        }
    }
}

/// Returns whether the packets in flight at a sample's start were excessive: more than two in a hundred were lost
/// since.
pub(super) fn is_too_much(news: &News) -> bool {
    packets(news.sample.lost) > f64::from(news.sample.in_flight_at_send) * TOO_MANY_LOST
}

impl Plateau {
    /// Creates a detector that starts from a rate.
    pub(super) fn from(rate: f64) -> Self {
        Self { rate, ..Self::default() }
    }

    /// Takes a sample; returns whether three rounds brought less than a quarter more.
    pub(super) fn take(&mut self, news: &News) -> bool {
        self.round_rate = self.round_rate.max(news.rate);
        if self.is_reached || !news.ends_round || news.is_limited {
            return false;
        }
        let rate = core::mem::take(&mut self.round_rate);
        if rate >= self.rate * 1.25 {
            *self = Self::from(rate);
            return false;
        }
        self.rounds += 1;
        self.is_reached = self.rounds >= 3;
        self.is_reached
    }
}

impl Cycle {
    pub(super) const fn new() -> Self {
        Self {
            began: Instant::ORIGIN,
            wait: Duration::ZERO,
            rounds: 0,
            answers: Answers::Usual,
            is_probe_sample: false,
            was_too_much: false,
            was_cautious: false,
            up_rounds: 0,
            up_acked: 0.0,
            acked_a_step: f64::INFINITY,
        }
    }
}
