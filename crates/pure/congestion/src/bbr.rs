//! BBR, version 3: sends at the measured delivery rate of the path, with little more in flight than fills it.
//!
//! Its model of the path has two values, the delivery rate and the minimum round trip, which it probes in turn: for
//! more rate every two or three seconds, for a shorter round trip every five. Losses limit the packets in flight only
//! above two in a hundred.
//!
//! | from | to | when |
//! |---|---|---|
//! | startup | drain | three rounds brought less than a quarter more, or one lost more than 2 % in six ranges |
//! | drain | down | the packets in flight just fill the path, or three rounds are over |
//! | down | cruise | the packets in flight just fill the path, and are 15 % below the last excess |
//! | down, cruise | refill | two to three seconds, or as many rounds as Reno would take, have passed |
//! | refill | up | a round is over |
//! | up | down | three rounds brought no more, or losses were excessive, or the last excess is reached |
//! | each | round trip | five seconds brought no shorter one |
//! | round trip | cruise, or startup | half of what fills the path was in flight for 200 ms and a round |
//!
//! Source: draft-ietf-ccwg-bbr-06. What differs:
//!
//! - Packets that a loss report shows to have arrived make a sample, as an acknowledgement does: UDT has no selective
//!   ones.
//! - Losses of up to 2 % in a round do not reduce the rate between two probes for more, as they do not end a probe
//!   either. By the draft any loss does, which costs a fifth of the rate where one packet in a hundred is lost by
//!   chance; `strict=1` follows the draft.
//! - A round's fastest sample decides whether the rate still grows, not the one at its end: acknowledgements are coarse.
//! - The window is raised from one packet after a timeout and not restored, and no loss is ever found to be spurious.

mod cycle;
mod path;
#[cfg(test)]
mod tests;

use core::time::Duration;

use units::Instant;

use crate::options::FromOptions;
use crate::window::{START_WINDOW, limit, sized};
use crate::{
    ACK_INTERVAL, AckPolicy, Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy,
    RateSample, Resized, Sent,
};
use cycle::{Answers, Cycle, Plateau, is_too_much};
use path::{News, Path, packets};

/// BBR: for paths with random loss or deep queues, which it leaves nearly empty.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    /// True if any loss reduces the rate until the next probe for more.
    is_strict: bool,
    state: State,
    path: Path,
    window: f64,
    packets_per_s: f64,
    packet_bytes: f64,
    plateau: Plateau,
    /// True once the path was full: startup is over.
    was_filled: bool,
    cycle: Cycle,
    /// Window before it was reduced to probe the round trip.
    prior_window: f64,
    /// Number of delivered packets up to which samples say nothing about the path's rate: less was sent on purpose.
    limited_until: u64,
    is_after_pause: bool,
    /// True if the window limited the sender in this round, and in the last one.
    window_stopped: [bool; 2],
    has_round_trip: bool,
    round_trip_probes: u32,
}

/// State of the control.
#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// Doubles the rate each round.
    Startup,
    /// Drains the queue that startup has built.
    Drain { until_round: u64 },
    /// Sends less than the path delivers.
    Down,
    /// Sends as much as the path delivers.
    Cruise,
    /// Sends as much, without the limits that losses left.
    Refill,
    /// Sends more.
    Up,
    /// Sends half, to measure the minimum round trip: `until` is set once few enough packets are in flight.
    RoundTrip { until: Option<Instant>, had_round: bool },
}

/// `StartupPacingGain`, 4 ln 2.
const STARTUP_GAIN: f64 = 2.77;
/// `StartupFullLossCnt`.
const LOST_RANGES: u32 = 6;
/// `PacingMarginPercent`.
const PACE_MARGIN: f64 = 0.99;
/// `MinPipeCwnd`.
const LEAST_WINDOW: f64 = 4.0;
/// `Headroom`.
const HEADROOM: f64 = 0.15;
/// `ProbeRTTDuration`.
const ROUND_TRIP_PROBE: Duration = Duration::from_millis(200);
/// Maximum round trip that yields a nominal rate before the first is known.
const NOMINAL_ROUND_TRIP: Duration = Duration::from_millis(1);
/// Minimum rate, below which the connection would stall. Units: packets per second.
const LEAST_RATE: f64 = 4.0;
/// Maximum burst that a kernel takes at once. Units: bytes.
const MOST_BURST_BYTES: f64 = 65_536.0;

impl Bbr {
    /// Creates a control before its first event.
    fn new(is_strict: bool) -> Self {
        Self {
            is_strict,
            state: State::Startup,
            path: Path::new(),
            window: START_WINDOW,
            packets_per_s: STARTUP_GAIN * START_WINDOW / NOMINAL_ROUND_TRIP.as_secs_f64(),
            packet_bytes: 1_500.0,
            plateau: Plateau::default(),
            was_filled: false,
            cycle: Cycle::new(),
            prior_window: 0.0,
            limited_until: 0,
            is_after_pause: false,
            window_stopped: [false; 2],
            has_round_trip: false,
            round_trip_probes: 0,
        }
    }

    /// Returns the factors of pace and window relative to the path's rate and capacity.
    const fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (STARTUP_GAIN, 2.0),
            State::Drain { .. } => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::RoundTrip { .. } => (1.0, 0.5),
        }
    }

    const fn is_cycling(&self) -> bool {
        matches!(self.state, State::Down | State::Cruise | State::Refill | State::Up)
    }

    const fn tries_for_more(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    fn window_stops(&self) -> bool {
        self.window_stopped.contains(&true)
    }

    /// Returns the maximum number of packets that leave back to back.
    fn burst(&self) -> f64 {
        (self.packets_per_s * 0.001).min(MOST_BURST_BYTES / self.packet_bytes).max(2.0)
    }

    /// Returns `gain` times the packets that fill the path, but enough that a train and the packets between two
    /// acknowledgements do not stall the sender.
    fn in_flight_of(&self, gain: f64) -> f64 {
        self.enough(self.path.filled().map_or(START_WINDOW, |filled| gain * filled))
    }

    fn enough(&self, window: f64) -> f64 {
        let unacknowledged = (self.path.rate() * ACK_INTERVAL.as_secs_f64())
            .min(f64::from(AckPolicy::UDT.light_after_packets));
        let up = if self.state == State::Up { 2.0 } else { 0.0 };
        window.max(self.burst() + unacknowledged).max(LEAST_WINDOW) + up
    }

    /// Returns the last excess less the headroom.
    fn with_headroom(&self) -> f64 {
        let long = self.path.long_flight;
        if long.is_infinite() { long } else { (long - (HEADROOM * long).max(1.0)).max(LEAST_WINDOW) }
    }

    /// Takes a sample, and decides the next state.
    fn learn(
        &mut self,
        environment: &mut Environment<'_>,
        sample: Option<&RateSample>,
        round_trip: Option<Duration>,
    ) {
        let taken = sample.and_then(|sample| self.path.take(environment, sample, self.limited_until));
        let Some(news) = taken else { return };
        self.note_round_trip(round_trip);
        if news.ends_round {
            self.cycle.rounds += 1;
            self.window_stopped = [self.window_stopped[1], false];
        }
        if news.ends_loss_round && !self.tries_for_more() && (self.is_strict || is_too_much(&news)) {
            self.path.answer_losses(self.window);
        }
        self.path.take_surplus(&news, self.window, self.was_filled);
        self.was_filled |= self.plateau.take(&news);
        self.leave_start(environment, &news);
        self.go_on(environment, &news);
        let is_due = self.path.take_round_trip(news.now, round_trip);
        self.look_for_round_trip(environment, &news, is_due);
        if news.ends_loss_round {
            self.path.end_loss_round(&news);
        }
        self.set_pace();
        self.set_window(environment, news.newly);
    }

    fn note_round_trip(&mut self, round_trip: Option<Duration>) {
        if let Some(sample) = round_trip.filter(|sample| !self.has_round_trip && !sample.is_zero()) {
            self.has_round_trip = true;
            self.packets_per_s = STARTUP_GAIN * self.window.max(START_WINDOW) / sample.as_secs_f64();
        }
    }

    /// Ends startup, and the drain after it.
    fn leave_start(&mut self, environment: &mut Environment<'_>, news: &News) {
        if self.state == State::Startup {
            if news.ends_loss_round && news.lost_ranges >= LOST_RANGES && is_too_much(news) {
                self.was_filled = true;
                self.path.long_flight = self.path.filled().unwrap_or(0.0).max(self.path.latest_delivered());
            }
            if self.was_filled {
                self.state = State::Drain { until_round: self.path.round + 3 };
            }
        }
        if let State::Drain { until_round } = self.state
            && (news.in_flight <= self.in_flight_of(1.0) || self.path.round > until_round)
        {
            self.go_down(environment);
        }
    }

    /// Probes for a shorter round trip with few packets in flight, and returns to the previous state.
    fn look_for_round_trip(&mut self, environment: &mut Environment<'_>, news: &News, is_due: bool) {
        let is_looking = matches!(self.state, State::RoundTrip { .. });
        if is_due && !is_looking && !self.is_after_pause {
            self.prior_window = self.window;
            self.cycle.answers = Answers::ProbeStopping;
            self.path.begin_round();
            self.state = State::RoundTrip { until: None, had_round: false };
            self.round_trip_probes += 1;
        }
        if let State::RoundTrip { until, had_round } = self.state {
            self.limited_until = self.path.delivered + u64::from(environment.flight.in_flight);
            let had_round = had_round || until.is_some() && news.ends_round;
            let until = until.or_else(|| {
                let is_little = news.in_flight <= self.round_trip_window();
                is_little.then(|| {
                    self.path.begin_round();
                    news.now + ROUND_TRIP_PROBE
                })
            });
            self.state = State::RoundTrip { until, had_round };
            self.end_look(environment);
        }
        self.is_after_pause &= news.newly == 0.0;
    }

    fn end_look(&mut self, environment: &mut Environment<'_>) {
        let State::RoundTrip { until: Some(until), had_round: true } = self.state else { return };
        if environment.now <= until {
            return;
        }
        self.path.looked_for_round_trip(environment.now);
        self.window = self.window.max(self.prior_window);
        self.path.forget_losses();
        if self.was_filled {
            self.go_down(environment);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    fn round_trip_window(&self) -> f64 {
        self.path.filled().map_or(START_WINDOW, |filled| 0.5 * filled).max(LEAST_WINDOW)
    }

    fn set_pace(&mut self) {
        let rate = self.gains().0 * self.path.rate() * PACE_MARGIN;
        if self.was_filled || rate > self.packets_per_s {
            self.packets_per_s = rate.max(LEAST_RATE);
        }
    }

    fn set_window(&mut self, environment: &Environment<'_>, newly: f64) {
        let filled = self.path.filled().map_or(START_WINDOW, |filled| self.gains().1 * filled);
        let most = self.enough(filled + self.path.surplus());
        if self.was_filled {
            self.window = (self.window + newly).min(most);
        } else if self.window < most || packets(self.path.delivered) < START_WINDOW {
            self.window += newly;
        }
        let bound = match self.state {
            State::Startup | State::Drain { .. } => f64::INFINITY,
            State::Down | State::Refill | State::Up => self.path.long_flight,
            State::Cruise => self.with_headroom(),
            State::RoundTrip { .. } => self.with_headroom().min(self.round_trip_window()),
        };
        self.window = self.window.min(bound).min(self.path.short_flight()).max(LEAST_WINDOW);
        limit(&mut self.window, environment);
    }
}

impl FromOptions for Bbr {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let strict = options.number("strict", 0.0, 0.0, 1.0)?;
        Ok(Self::new(strict >= 0.5))
    }
}

impl CongestionControl for Bbr {
    fn policy(&self) -> Policy {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 2 and 65,536")]
        let burst_packets = self.burst() as u32;
        Policy { packets_per_s: self.packets_per_s, burst_packets, ..Policy::window(self.window) }
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packet_bytes = f64::from(environment.flight.packet_bytes.max(1));
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, resized: &Resized) {
        self.on_start(environment);
        let factor = resized.factor();
        self.window = sized(self.window, resized);
        self.prior_window *= factor;
        self.packets_per_s = (self.packets_per_s * factor).max(LEAST_RATE);
        let sized_from = self.path.delivered + u64::from(environment.flight.in_flight);
        self.limited_until = self.limited_until.max(sized_from);
        self.path.resize(factor, sized_from);
        self.plateau.resize(factor);
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        self.learn(environment, acked.rate.as_ref(), acked.round_trip);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.newly > 0 {
            self.path.lose(u32::try_from(lost.ranges.len()).unwrap_or(u32::MAX));
        }
        self.learn(environment, lost.rate.as_ref(), lost.round_trip);
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        self.path.lose(1);
        self.window = f64::from(environment.flight.in_flight) + 1.0;
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        let in_flight = environment.flight.in_flight;
        self.window_stopped[1] |= f64::from(in_flight) + 1.0 > self.window;
        if in_flight <= sent.packets && self.path.delivered > 0 {
            self.is_after_pause = true;
            self.path.restart(environment.now);
            if self.is_cycling() {
                self.packets_per_s = (self.path.rate() * PACE_MARGIN).max(LEAST_RATE);
            }
            self.end_look(environment);
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("delivery_packets_per_s", self.path.most_rate());
        tell("least_round_trip_s", self.path.least().map_or(f64::NAN, |least| least.as_secs_f64()));
        tell("too_much_packets", self.path.long_flight);
        tell("round_trip_probes", self.round_trip_probes.into());
    }
}
