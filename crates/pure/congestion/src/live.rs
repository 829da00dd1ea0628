//! A control for live messages, whose rate their sources decide: it follows the offered rate up, and the delivered one
//! down.
//!
//! A live source does not become slower by being sent slowly, it becomes late. So the pace stays above what was offered
//! in the busiest moment of the last second, and single losses do not matter. Only where the path delivers less than
//! was sent for two round trips, with a queue or more loss than usual, does the pace go down to what is delivered; a
//! loss that does not become less with the pace is the path's own, and is ignored from then on.

use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::feedback::Beat;
use crate::options::FromOptions;
use crate::{
    Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, RateSample, Resized,
    RoundTrip, Sent,
};

/// Pace above the busiest moment, so that a backlog dissolves and repairs find room.
const HEADROOM: f64 = 1.25;
/// Length of a moment.
const MOMENT: Duration = Duration::from_millis(10);
/// Time for which the busiest moment is remembered.
const MEMORY: Duration = Duration::from_secs(1);
/// Limits of the time over which deliveries are compared with departures, a round trip in between.
const LEAST_SPAN: Duration = Duration::from_millis(100);
const MOST_SPAN: Duration = Duration::from_secs(1);
/// Number of packets in that time below which nothing is compared.
const FEW_PACKETS: u64 = 20;
/// Loss that is usual on long paths; the design of the relay has up to 5 %.
const USUAL_LOSS: f64 = 0.15;
/// Loss beside a growing queue that shows a bottleneck.
const LOSS_WITH_QUEUE: f64 = 0.03;
/// Pace after a cut, relative to the delivered rate: what is queued drains.
const DRAINS: f64 = 0.92;
/// Growth of a cut pace in a round trip: near the rate of the last cut, and far below it.
const SLOW_GROWTH: f64 = 1.02;
const FAST_GROWTH: f64 = 1.25;
/// Maximum number of remembered moments: those of the longest comparison.
const MOST_MOMENTS: usize = 1_200;

/// Follows the offered rate, at most a given one.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    most_bits_per_s: f64,
    start_bits_per_s: f64,
    /// The same in packets per second.
    most: f64,
    start: f64,
    beat: Beat,
    moments: VecDeque<Moment>,
    sent: u64,
    delivered: u64,
    answered_at: Instant,
    /// When the first packet since the last answer was sent.
    unanswered_since: Option<Instant>,
    /// What was sent before was sent into an outage.
    compares_from: Instant,
    /// Start of the present shortage.
    short_since: Option<Instant>,
    cut: Option<Cut>,
    /// Loss that counts as the path's own.
    ignored_loss: f64,
    pace: f64,
}

/// Totals at one moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    sent: u64,
    delivered: u64,
}

/// A pace below the offered rate.
#[derive(Clone, Copy, Debug)]
struct Cut {
    pace: f64,
    /// Delivered rate, sent rate and loss when it was made.
    delivered: f64,
    sent: f64,
    loss: f64,
    /// Time until which its effect does not show, or until which it does not grow.
    holds_until: Instant,
}

/// What was sent in a span of time, and what was delivered a round trip later.
#[derive(Clone, Copy, Debug)]
struct Compared {
    sent: f64,
    delivered: f64,
    loss: f64,
}

/// Outcome of a comparison.
#[derive(Clone, Copy, Debug)]
enum Comparison {
    /// There is nothing to compare yet.
    Nothing,
    /// Too little was sent to compare it.
    Few,
    Known(Compared),
}

/// Returns the time over which deliveries are compared with departures: at a slow pace longer, until there are enough.
fn span(round_trip: Duration, pace: f64) -> Duration {
    let enough = Duration::from_secs_f64(2.0 * FEW_PACKETS as f64 / pace.max(1.0));
    round_trip.max(enough).clamp(LEAST_SPAN, MOST_SPAN)
}

impl Live {
    fn new(most_bits_per_s: f64, start_bits_per_s: f64) -> Self {
        Self {
            most_bits_per_s,
            start_bits_per_s,
            most: f64::INFINITY,
            start: 1_000.0,
            beat: Beat::new(MOMENT),
            moments: VecDeque::new(),
            sent: 0,
            delivered: 0,
            answered_at: Instant::ORIGIN,
            unanswered_since: None,
            compares_from: Instant::ORIGIN,
            short_since: None,
            cut: None,
            ignored_loss: USUAL_LOSS,
            pace: 1_000.0,
        }
    }

    fn adopt_size(&mut self, environment: &Environment<'_>) {
        let bits = environment.flight.packet_bits();
        (self.most, self.start) = (self.most_bits_per_s / bits, self.start_bits_per_s / bits);
        self.decide(environment.now);
    }

    fn hear(&mut self, now: Instant, rate: Option<RateSample>) {
        if let Some(rate) = rate.filter(|rate| rate.total_delivered > self.delivered) {
            // A broken transport could claim any total.
            self.delivered = rate.total_delivered.min(self.sent.max(self.delivered));
            (self.answered_at, self.unanswered_since) = (now, None);
        }
    }

    /// Returns the pace that is asked for: that of the busiest moment of the last second, and more.
    fn demand(&self, now: Instant) -> f64 {
        let recent = self.moments.iter().rev().take_while(|moment| now.since(moment.at) <= MEMORY);
        let (mut busiest, mut later) = (0.0_f64, None::<&Moment>);
        for moment in recent {
            if let Some(later) = later {
                let seconds = later.at.since(moment.at).as_secs_f64().max(MOMENT.as_secs_f64());
                busiest = busiest.max((later.sent - moment.sent) as f64 / seconds);
            }
            later = Some(moment);
        }
        (busiest * HEADROOM).max(self.start)
    }

    fn decide(&mut self, now: Instant) {
        let cut = self.cut.map_or(f64::INFINITY, |cut| cut.pace);
        // A moment without a packet would stop the connection.
        self.pace = self.demand(now).min(cut).min(self.most).max(1.0);
    }

    /// Ends a moment.
    fn note_moment(&mut self, now: Instant, round_trip: &RoundTrip) {
        self.moments.push_back(Moment { at: now, sent: self.sent, delivered: self.delivered });
        if self.moments.len() > MOST_MOMENTS {
            self.moments.pop_front();
        }
        self.watch_delivery(now, round_trip);
        self.decide(now);
    }

    fn watch_delivery(&mut self, now: Instant, round_trip: &RoundTrip) {
        let smoothed = round_trip.smoothed.min(RoundTrip::LONGEST);
        // A path that is silent says nothing of its capacity, and what it loses in an outage does not either.
        let is_unanswered = |for_longer_than: Duration| {
            self.unanswered_since.is_some_and(|since| now.since(since) > for_longer_than)
        };
        let is_silent = now.since(self.answered_at) > (smoothed / 2).max(LEAST_SPAN / 2)
            || is_unanswered(smoothed + (smoothed / 4).max(MOMENT * 2));
        if is_unanswered(smoothed * 2 + LEAST_SPAN) {
            self.compares_from = now;
        }
        let holds = self.cut.is_some_and(|cut| now < cut.holds_until);
        let comparison = if holds || is_silent { Comparison::Nothing } else { self.compare(now, smoothed) };
        let compared = match comparison {
            Comparison::Known(compared) => compared,
            Comparison::Few => {
                self.short_since = None;
                return self.grow(now, smoothed);
            }
            Comparison::Nothing => {
                self.short_since = None;
                return;
            }
        };
        let least = round_trip.least.unwrap_or(smoothed);
        let has_queue = smoothed > least + least / 4 + LEAST_SPAN / 20 + round_trip.variation;
        let is_short = compared.loss > self.ignored_loss || has_queue && compared.loss > LOSS_WITH_QUEUE;
        if !is_short {
            self.short_since = None;
            return self.grow(now, smoothed);
        }
        let since = *self.short_since.get_or_insert(now);
        if now.since(since) >= smoothed * 2 {
            self.short_since = None;
            self.cut(now, smoothed, &compared);
        }
    }

    fn cut(&mut self, now: Instant, round_trip: Duration, compared: &Compared) {
        let Compared { sent, delivered, loss } = *compared;
        if self.cut.is_some_and(|cut| sent < cut.sent * 0.9 && loss > cut.loss * 0.8) {
            // It sends less, and as large a part is lost.
            self.ignored_loss = (loss * 1.2).min(0.9);
            self.cut = None;
            return;
        }
        let pace = delivered * DRAINS;
        let holds_until = now + round_trip + span(round_trip, pace);
        self.cut = Some(Cut { pace, delivered, sent, loss, holds_until });
    }

    fn grow(&mut self, now: Instant, round_trip: Duration) {
        let demand = self.demand(now);
        let Some(cut) = &mut self.cut else { return };
        cut.pace *= if cut.pace < cut.delivered * 0.8 { FAST_GROWTH } else { SLOW_GROWTH };
        cut.holds_until = now + round_trip;
        if cut.pace > demand * 2.0 {
            self.cut = None;
        }
    }

    /// Compares what was sent in a span that ended a round trip ago with what was delivered in the one that ends now.
    fn compare(&self, now: Instant, round_trip: Duration) -> Comparison {
        let span = span(round_trip, self.cut.map_or(f64::INFINITY, |cut| cut.pace));
        let moments = [now, now - span, now - round_trip, now - round_trip - span].map(|at| self.at(at));
        let [Some(last), Some(from), Some(sent_to), Some(sent_from)] = moments else {
            return Comparison::Nothing;
        };
        let (delivered, sent) = (last.delivered - from.delivered, sent_to.sent - sent_from.sent);
        if sent_from.at < self.compares_from || sent >= FEW_PACKETS && delivered == 0 {
            return Comparison::Nothing;
        }
        if sent < FEW_PACKETS {
            return Comparison::Few;
        }
        let rate = |packets: u64| packets as f64 / span.as_secs_f64();
        let loss = 1.0 - delivered as f64 / sent as f64;
        Comparison::Known(Compared { sent: rate(sent), delivered: rate(delivered), loss })
    }

    /// Returns the newest moment at or before a time.
    fn at(&self, at: Instant) -> Option<&Moment> {
        let after = self.moments.partition_point(|moment| moment.at <= at);
        self.moments.get(after.checked_sub(1)?)
    }
}

impl FromOptions for Live {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let most = options.rate_or("rate", f64::INFINITY)?;
        let start = options.rate_or("start", 10e6)?;
        Ok(Self::new(most, start))
    }
}

impl CongestionControl for Live {
    fn policy(&self) -> Policy {
        Policy::rate(self.pace)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.adopt_size(environment);
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, _: &Resized) {
        self.adopt_size(environment);
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        self.hear(environment.now, acked.rate);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        self.hear(environment.now, lost.rate);
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, sent: &Sent) {
        self.sent += u64::from(sent.packets);
        self.unanswered_since.get_or_insert(environment.now);
        self.beat.want(environment.now);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.beat.due()
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        if self.beat.take(environment.now) {
            self.note_moment(environment.now, &environment.round_trip);
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("pace_packets_per_s", self.pace);
        tell("ignored_loss", self.ignored_loss);
        tell("is_cut", f64::from(u8::from(self.cut.is_some())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    const MS: Duration = Duration::from_millis(1);
    const ROUND_TRIP: Duration = Duration::from_millis(40);

    /// A path that delivers what `carries` lets through of each millisecond's packets, a round trip later.
    struct Path {
        stage: Stage,
        round_trip: Duration,
        control: Live,
        in_flight: VecDeque<(Instant, f64)>,
        delivered: f64,
        sent: f64,
    }

    impl Path {
        fn new(control: Live) -> Self {
            Self::of(control, ROUND_TRIP)
        }

        fn of(control: Live, round_trip: Duration) -> Self {
            let mut path = Self {
                stage: Stage::new(1, round_trip),
                round_trip,
                control,
                in_flight: VecDeque::new(),
                delivered: 0.0,
                sent: 0.0,
            };
            path.control.on_start(&mut path.stage.environment());
            path
        }

        /// Offers packets each millisecond, of which the pace lets some leave; returns the number sent in the last second.
        fn run(&mut self, millis: u32, offered: impl Fn(u32) -> f64, carries: impl Fn(f64) -> f64) -> f64 {
            let mut backlog = 0.0;
            let mut last_second = 0.0;
            for milli in 0..millis {
                self.stage.now += MS;
                let now = self.stage.now;
                backlog += offered(milli);
                let leaves = f64::min(backlog, self.control.policy().packets_per_s / 1e3);
                let whole = (self.sent + leaves).floor() - self.sent.floor();
                backlog -= leaves;
                self.sent += leaves;
                last_second += if milli + 1_000 >= millis { leaves } else { 0.0 };
                if whole >= 1.0 {
                    let sent = Sent { first: 1, packets: whole as u32, is_retransmission: false };
                    self.control.on_sent(&mut self.stage.environment(), &sent);
                }
                self.in_flight.push_back((now, carries(leaves)));
                while let Some((_, arrives)) =
                    self.in_flight.pop_front_if(|(at, _)| now.since(*at) >= self.round_trip)
                {
                    self.delivered += arrives;
                }
                let total_delivered = self.delivered as u64;
                self.stage.strange_rate = Some(RateSample {
                    delivered: 1,
                    interval: MS,
                    prior_delivered: 0,
                    total_delivered,
                    lost: 0,
                    in_flight_at_send: 1,
                    is_application_limited: false,
                });
                self.stage.ack(&mut self.control, 0);
                if self.control.next_timer().is_some_and(|at| at <= now) {
                    self.control.on_timer(&mut self.stage.environment());
                }
            }
            last_second
        }
    }

    fn live(options: &str) -> Live {
        Live::from_options(&mut Options::parse(options).unwrap()).unwrap()
    }

    #[test]
    fn the_pace_follows_what_is_offered_also_in_bursts() {
        let mut path = Path::new(live(""));
        let sent = path.run(2_000, |_| 10.0, |leaves| leaves);
        assert!((9_900.0..=10_100.0).contains(&sent), "{sent}");
        // A block of a hundred each tenth of a second leaves within two moments, and not over all of it.
        path.run(3_000, |milli| if milli % 100 == 0 { 100.0 } else { 0.0 }, |leaves| leaves);
        assert!(path.control.pace * MOMENT.as_secs_f64() >= 50.0, "{}", path.control.pace);
    }

    #[test]
    fn a_usual_loss_changes_nothing_and_a_large_one_of_the_path_itself_is_learnt() {
        let mut path = Path::new(live(""));
        let sent = path.run(5_000, |_| 5.0, |leaves| leaves * 0.95);
        assert!((4_950.0..=5_050.0).contains(&sent) && path.control.cut.is_none(), "{sent}");
        path.run(10_000, |_| 5.0, |leaves| leaves * 0.7);
        let sent = path.run(2_000, |_| 5.0, |leaves| leaves * 0.7);
        assert!(sent >= 4_900.0, "{sent}");
    }

    #[test]
    fn a_bottleneck_is_not_flooded_and_is_used_again_when_it_widens() {
        let mut path = Path::new(live(""));
        path.run(2_000, |_| 10.0, |leaves| leaves);
        // 5 packets a millisecond pass.
        path.run(10_000, |_| 10.0, |leaves| leaves.min(5.0));
        let sent = path.run(3_000, |_| 10.0, |leaves| leaves.min(5.0));
        assert!((4_000.0..=6_300.0).contains(&sent), "{sent}");
        let sent = path.run(5_000, |_| 10.0, |leaves| leaves);
        assert!(sent >= 9_900.0, "{sent}");
    }

    #[test]
    fn a_silent_path_says_nothing_and_a_given_rate_is_kept() {
        let mut path = Path::new(live("rate=60m"));
        let sent = path.run(3_000, |_| 10.0, |leaves| leaves);
        assert!((4_950.0..=5_050.0).contains(&sent), "60 Mbit/s are 5,000 packets of 1,500 bytes: {sent}");
        path.run(2_000, |_| 4.0, |leaves| leaves);
        path.run(3_000, |_| 4.0, |_| 0.0);
        assert!(path.control.cut.is_none(), "{:?}", path.control.cut);
    }

    #[test]
    fn what_was_sent_into_an_outage_is_no_shortage_of_the_path() {
        for millis in [1, 10, 40, 200] {
            let mut path = Path::of(live(""), MS * millis);
            path.run(2_000, |_| 1.0, |leaves| leaves);
            path.run(3_000, |_| 1.0, |_| 0.0);
            path.run(500, |_| 1.0, |leaves| leaves);
            assert!(path.control.cut.is_none(), "{millis} ms: {:?}", path.control.cut);
        }
    }

    #[test]
    fn a_pace_that_was_cut_to_a_few_packets_grows_again() {
        for millis in [1, 40] {
            let mut path = Path::of(live(""), MS * millis);
            path.run(2_000, |_| 1.0, |leaves| leaves);
            path.run(5_000, |_| 1.0, |leaves| leaves.min(0.03));
            assert!(path.control.pace < 200.0, "{millis} ms: {}", path.control.pace);
            let sent = path.run(10_000, |_| 1.0, |leaves| leaves);
            assert!(sent >= 990.0, "{millis} ms: {sent}");
        }
    }

    #[test]
    fn a_narrow_path_is_not_flooded_either() {
        let mut path = Path::new(live(""));
        path.run(2_000, |_| 1.0, |leaves| leaves);
        // 100 packets a second pass.
        path.run(10_000, |_| 1.0, |leaves| leaves.min(0.1));
        let sent = path.run(3_000, |_| 1.0, |leaves| leaves.min(0.1));
        assert!((70.0..=140.0).contains(&sent), "{sent}");
    }
}
