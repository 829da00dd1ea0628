//! BBR's model of the path: its rate, its minimum round trip and its capacity.

use core::time::Duration;

use units::Instant;

use crate::{Environment, RateSample, RoundTrip};

/// Lifetime of the minimum round trip.
const ROUND_TRIP_SPAN: Duration = Duration::from_secs(10);
/// Time without a shorter round trip after which it is probed for (`ProbeRTTInterval`).
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum reduction of the short-term limits by a loss (`Beta`).
const CUT: f64 = 0.7;
/// Number of rounds over which the maximum surplus of acknowledgements is taken (`ExtraAckedFilterLen`).
const SURPLUS_ROUNDS: u64 = 10;
/// Maximum plausible rate. Units: packets per second.
const MOST_RATE: f64 = 1e12;

/// The model of the path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Number of packets known to be delivered.
    pub(super) delivered: u64,
    pub(super) round: u64,
    round_ends_at: u64,
    /// The fastest samples of the last cycle of probing and of this one. Units: packets per second.
    rates: [f64; 2],
    /// The minimum round trip, and the time of its sample.
    least: Option<(Duration, Instant)>,
    /// The minimum round trip since the last probe for it.
    least_since_look: Option<(Duration, Instant)>,
    /// Rate limit after losses, until the next probe for more.
    short_rate: f64,
    short_flight: f64,
    /// Packets in flight that were excessive during a probe for more.
    pub(super) long_flight: f64,
    losses: Losses,
    surplus: Surplus,
    /// Number of delivered packets up to which samples count packets of the former size: they are no rate.
    sized_from: u64,
}

/// Deliveries and losses of a round.
#[derive(Clone, Debug, Default)]
struct Losses {
    round_ends_at: u64,
    is_any: bool,
    ranges: u32,
    latest_rate: f64,
    latest_delivered: f64,
}

/// Surplus of acknowledgements over the rate: they arrive for many packets at once.
#[derive(Clone, Debug, Default)]
struct Surplus {
    began: Option<Instant>,
    delivered: f64,
    /// Maxima of this and the previous span of rounds, and the start of this one.
    most: [f64; 2],
    span_began: u64,
}

/// A sample of delivered packets, as the model takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) now: Instant,
    pub(super) sample: RateSample,
    /// Units: packets per second.
    pub(super) rate: f64,
    pub(super) newly: f64,
    pub(super) in_flight: f64,
    /// True if the sample was limited by something other than the path.
    pub(super) is_limited: bool,
    pub(super) ends_round: bool,
    /// True at the end of a round of loss accounting, with the number of its lost ranges.
    pub(super) ends_loss_round: bool,
    pub(super) lost_ranges: u32,
}

impl Path {
    pub(super) fn new() -> Self {
        Self {
            delivered: 0,
            round: 0,
            round_ends_at: 0,
            rates: [0.0; 2],
            least: None,
            least_since_look: None,
            short_rate: f64::INFINITY,
            short_flight: f64::INFINITY,
            long_flight: f64::INFINITY,
            losses: Losses::default(),
            surplus: Surplus::default(),
            sized_from: 0,
        }
    }

    /// Returns the fastest rate of two cycles. Units: packets per second.
    pub(super) const fn most_rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// Returns the current estimate of the rate. Units: packets per second.
    pub(super) const fn rate(&self) -> f64 {
        self.most_rate().min(self.short_rate)
    }

    pub(super) fn least(&self) -> Option<Duration> {
        self.least.map(|(least, _)| least)
    }

    /// Returns the packets that fill the path without a queue; `None` before its round trip is known. Units: packets.
    pub(super) fn filled(&self) -> Option<f64> {
        self.least().map(|least| self.rate() * least.as_secs_f64())
    }

    pub(super) const fn short_flight(&self) -> f64 {
        self.short_flight
    }

    pub(super) const fn surplus(&self) -> f64 {
        self.surplus.most[0].max(self.surplus.most[1])
    }

    /// Returns the maximum delivered in this round. Units: packets.
    pub(super) const fn latest_delivered(&self) -> f64 {
        self.losses.latest_delivered
    }

    /// Records lost packets, in this many ranges.
    pub(super) const fn lose(&mut self, ranges: u32) {
        if !self.losses.is_any {
            self.losses.round_ends_at = self.delivered;
        }
        self.losses.is_any = true;
        self.losses.ranges = self.losses.ranges.saturating_add(ranges);
    }

    /// Takes a sample; packets delivered before `limited_until` say nothing about the path's capacity.
    pub(super) fn take(
        &mut self,
        environment: &Environment<'_>,
        sample: &RateSample,
        limited_until: u64,
    ) -> Option<News> {
        // An interval below the minimum round trip mixes several transmissions of one packet.
        let is_possible = sample.prior_delivered >= self.sized_from
            && self.least().is_none_or(|least| sample.interval >= least);
        let seconds = sample.interval.as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let rate = if is_possible { (packets(sample.delivered) / seconds).min(MOST_RATE) } else { 0.0 };
        let delivered = sample.total_delivered.max(self.delivered);
        let newly = packets(delivered - self.delivered);
        self.delivered = delivered;
        let is_limited = sample.is_application_limited || sample.prior_delivered < limited_until;
        let ends_round = sample.prior_delivered >= self.round_ends_at;
        if ends_round {
            self.begin_round();
            self.round += 1;
        }
        self.losses.latest_rate = self.losses.latest_rate.max(rate);
        self.losses.latest_delivered = self.losses.latest_delivered.max(packets(sample.delivered));
        let ends_loss_round = sample.prior_delivered >= self.losses.round_ends_at;
        if ends_loss_round {
            self.losses.round_ends_at = delivered;
        }
        if rate >= self.most_rate() || !is_limited {
            self.rates[1] = self.rates[1].max(rate);
        }
        let in_flight = f64::from(environment.flight.in_flight);
        let lost_ranges = self.losses.ranges;
        Some(News {
            now: environment.now,
            sample: *sample,
            rate,
            newly,
            in_flight,
            is_limited,
            ends_round,
            ends_loss_round,
            lost_ranges,
        })
    }

    /// Starts counting a round.
    pub(super) const fn begin_round(&mut self) {
        self.round_ends_at = self.delivered;
    }

    /// Starts a cycle: the rates of the one before the last are forgotten.
    pub(super) const fn begin_cycle(&mut self) {
        self.rates = [self.rates[1], 0.0];
    }

    /// Responds to the losses of a finished round: gently, towards the delivered amount. During a probe for more the
    /// response is another one.
    pub(super) const fn answer_losses(&mut self, window: f64) {
        if self.losses.is_any {
            if self.short_rate.is_infinite() {
                self.short_rate = self.most_rate();
            }
            if self.short_flight.is_infinite() {
                self.short_flight = window;
            }
            self.short_rate = self.losses.latest_rate.max(CUT * self.short_rate);
            self.short_flight = self.losses.latest_delivered.max(CUT * self.short_flight);
        }
    }

    /// Starts the next round of loss accounting.
    pub(super) const fn end_loss_round(&mut self, news: &News) {
        self.losses.is_any = false;
        self.losses.ranges = 0;
        self.losses.latest_rate = news.rate;
        self.losses.latest_delivered = packets(news.sample.delivered);
    }

    /// Removes the limits left by losses: a probe for more is due.
    pub(super) const fn forget_losses(&mut self) {
        (self.short_rate, self.short_flight) = (f64::INFINITY, f64::INFINITY);
    }

    /// Forgets the values of this round.
    pub(super) const fn forget_round(&mut self) {
        self.losses.is_any = false;
        self.losses.ranges = 0;
        (self.losses.latest_rate, self.losses.latest_delivered) = (0.0, 0.0);
    }

    /// Takes a round trip; returns whether a probe for a shorter one is due.
    pub(super) fn take_round_trip(&mut self, now: Instant, sample: Option<Duration>) -> bool {
        let is_older =
            |seen: Option<(Duration, Instant)>, span| seen.is_some_and(|(_, at)| now.since(at) > span);
        let is_due = is_older(self.least_since_look, PROBE_INTERVAL);
        if let Some(sample) = sample.map(|sample| sample.min(RoundTrip::LONGEST))
            && (is_due || self.least_since_look.is_none_or(|(least, _)| sample < least))
        {
            self.least_since_look = Some((sample, now));
        }
        if let Some((recent, at)) = self.least_since_look
            && (is_older(self.least, ROUND_TRIP_SPAN) || self.least.is_none_or(|(least, _)| recent < least))
        {
            self.least = Some((recent, at));
        }
        is_due
    }

    /// Records that a probe for a shorter round trip has ended.
    pub(super) fn looked_for_round_trip(&mut self, now: Instant) {
        self.least_since_look = self.least_since_look.map(|(least, _)| (least, now));
    }

    /// Measures the surplus of acknowledgements.
    pub(super) fn take_surplus(&mut self, news: &News, window: f64, is_filled: bool) {
        let began = *self.surplus.began.get_or_insert(news.now);
        let mut expected = self.rate() * news.now.since(began).as_secs_f64();
        if self.surplus.delivered <= expected {
            (self.surplus.began, self.surplus.delivered, expected) = (Some(news.now), 0.0, 0.0);
        }
        self.surplus.delivered += news.newly;
        let span = if is_filled { SURPLUS_ROUNDS } else { 1 };
        if self.round >= self.surplus.span_began + span {
            self.surplus.span_began = self.round;
            self.surplus.most = [self.surplus.most[1], 0.0];
        }
        let surplus = (self.surplus.delivered - expected).min(window);
        self.surplus.most[1] = self.surplus.most[1].max(surplus);
    }

    /// Keeps the bytes of all packets of the model with packets of another size.
    pub(super) fn resize(&mut self, factor: f64, sized_from: u64) {
        self.sized_from = sized_from;
        let Losses { latest_rate, latest_delivered, .. } = &mut self.losses;
        let Surplus { delivered, most: [older, newer], .. } = &mut self.surplus;
        let [before, now] = &mut self.rates;
        let limits = [&mut self.short_rate, &mut self.short_flight, &mut self.long_flight];
        for packets in
            [before, now, latest_rate, latest_delivered, delivered, older, newer].into_iter().chain(limits)
        {
            *packets *= factor;
        }
    }

    /// Records that sending resumes after a pause.
    pub(super) const fn restart(&mut self, now: Instant) {
        (self.surplus.began, self.surplus.delivered) = (Some(now), 0.0);
    }
}

/// Returns a count as a float.
#[expect(clippy::cast_precision_loss, reason = "packets are far from what a f64 cannot say")]
pub(super) const fn packets(count: u64) -> f64 {
    count as f64
}
