//! RBUDP-style: everything is sent at one rate, then the receiver returns a bitmap of the missing packets, and those
//! are sent again, until none is missing.
//!
//! Source: He, Leigh, Yu, DeFanti, "Reliable Blast UDP: predictable high performance bulk data transfer", Cluster 2002. With
//! losses of a part q of the packets, n packets at r a second take about `n/r · (1 − qᵏ)/(1 − q) + k·(R + t)`, where
//! `k = 1 + ⌈ln n / ln 1/q⌉` rounds end with a query that takes a round trip R, and the silence t before it.
//!
//! A block is the data that the application has queued, up to the peer's buffer: a hole stops the window behind it. A
//! round ends when nothing has left for a while. While the receiver is queried, its transport reports no losses.
//!
//! A peer that reports losses after three queries, or answers none of six, does not support them, such as libudt: the
//! sender then repeats packets that are reported lost at once, still at its rate.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::missing_map::{self as map, Map};
use crate::options::FromOptions;
use crate::{
    AckPolicy, Acked, CongestionControl, Environment, LossReports, LossSource, Lost, Message, OptionError,
    Options, Policy, Resized, Retransmission, RoundTrip, Sent,
};

/// RBUDP-style: only for paths without other traffic. It never yields, and costs others the excess over the path's
/// capacity.
#[derive(Clone, Debug)]
pub(crate) struct Rbudp {
    rate_bits_per_s: f64,
    packets_per_s: f64,
    round: u32,
    state: State,
    /// Time to answer a query that was sent once; `None` before the first.
    answered_in: Option<Duration>,
    has_answered: bool,
    questions: u64,
    /// Missing packets by the last answer, until the transport has taken them.
    missing: VecDeque<Range<u64>>,
    to_say: VecDeque<Message>,
    /// As receiver: end of the time in which the sender is expected to query.
    asked_until: Option<Instant>,
}

/// State of a sender's round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// All sent packets have arrived.
    Idle,
    /// Packets are being sent; the round ends if none leaves until `quiet_at`.
    Sending { repeats: bool, quiet_at: Instant },
    /// The peer is queried repeatedly for missing packets before `end`.
    Asking { end: u64, attempts: u32, asked_at: Instant, again_at: Instant },
    /// The peer does not answer: it is not queried, and its transport's reports apply.
    Alone,
}

/// The end of a round: its number, and one more than its last packet, as the high word and the low one.
pub(crate) const DONE: u16 = 0x5244;
/// The answer: see [`Map`].
pub(crate) const MAP: u16 = 0x5242;
/// Time without a departure after which a round is over, in addition to the time of several packets.
const QUIET: Duration = Duration::from_millis(5);
const QUIET_PACKETS: f64 = 8.0;
/// Minimum time after which an unanswered query is repeated: usually twice the time of an answer, and ever more
/// rarely for a peer that has answered before.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);
const MOST_STEPS: u32 = 8;
/// Number of unanswered queries after which a peer without any answer counts as not supporting them; for one that
/// still reports losses, fewer suffice.
const MOST_UNANSWERED: u32 = 6;
const FEW: u32 = 3;
/// Time without a query after which the receiver's transport reports losses again.
const MOST_SILENCE: Duration = Duration::from_secs(2);
/// Maximum number of answers waiting to be sent, and of ranges waiting to be taken.
const MOST_WAITING: usize = 65_536;

impl Rbudp {
    fn quiet(&self) -> Duration {
        QUIET.max(Duration::from_secs_f64(QUIET_PACKETS / self.packets_per_s))
    }

    fn ask(&mut self, now: Instant, end: u64, attempts: u32, round_trip: &RoundTrip) {
        // While a hole is open no acknowledgement gives a round trip: the time of an earlier answer does.
        let unknown = round_trip.smoothed + round_trip.variation * 4;
        let patience =
            self.answered_in.map_or(unknown, |took| took * 2).clamp(LEAST_PATIENCE, RoundTrip::LONGEST);
        // A peer that has never answered is not waited for as long.
        let steps = if self.has_answered { attempts.min(MOST_STEPS) } else { 1 };
        let again_at = now + patience * steps;
        self.state = State::Asking { end, attempts, asked_at: now, again_at };
        self.questions += 1;
        let [high, low] = map::words(end);
        self.to_say.push_back(Message { kind: DONE, body: vec![self.round, high, low] });
    }

    /// Ends a round in which all packets have left, or repeats a query.
    fn go_on(&mut self, environment: &Environment<'_>) {
        let (now, flight) = (environment.now, &environment.flight);
        match self.state {
            State::Sending { quiet_at, .. } if quiet_at <= now => {
                if flight.acked_to >= flight.next {
                    self.state = State::Idle;
                } else {
                    self.round = self.round.wrapping_add(1);
                    self.ask(now, flight.next, 1, &environment.round_trip);
                }
            }
            State::Asking { end, attempts, again_at, .. } if again_at <= now => {
                if flight.acked_to >= end {
                    self.state = State::Sending { repeats: false, quiet_at: now + self.quiet() };
                } else if !self.has_answered && attempts >= MOST_UNANSWERED {
                    self.state = State::Alone;
                } else {
                    self.ask(now, end, attempts + 1, &environment.round_trip);
                }
            }
            State::Idle | State::Sending { .. } | State::Asking { .. } | State::Alone => {}
        }
    }

    /// Handles an answer of the receiver.
    fn take(&mut self, environment: &Environment<'_>, body: &[u32]) {
        let Some(map) = Map::read(body).filter(|map| map.round == self.round) else { return };
        self.has_answered = true;
        let end = match self.state {
            State::Asking { end, attempts, asked_at, .. } => {
                if attempts == 1 {
                    self.answered_in = Some(environment.now.since(asked_at));
                }
                end
            }
            State::Alone => map.end(),
            State::Idle | State::Sending { .. } => return,
        };
        let room = MOST_WAITING.saturating_sub(self.missing.len());
        self.missing.extend(map.missing(environment.flight.acked_to..end).take(room));
        if map.end() >= end {
            let quiet_at = environment.now + self.quiet();
            self.state = State::Sending { repeats: true, quiet_at };
        }
    }

    /// Answers a query of the sender.
    fn answer(&mut self, environment: &Environment<'_>, body: &[u32]) {
        let &[round, high, low] = body else { return };
        self.asked_until = Some(environment.now + MOST_SILENCE);
        let words = (environment.flight.packet_bytes / 4).saturating_sub(map::OVERHEAD_WORDS) as usize;
        for map in Map::of(&environment.incoming, round, map::number(high, low), words) {
            if self.to_say.len() < MOST_WAITING {
                self.to_say.push_back(Message { kind: MAP, body: map.body() });
            }
        }
    }
}

impl FromOptions for Rbudp {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let rate_bits_per_s = options.rate("rate")?;
        Ok(Self {
            rate_bits_per_s,
            packets_per_s: 1_000.0,
            round: 0,
            state: State::Idle,
            answered_in: None,
            has_answered: false,
            questions: 0,
            missing: VecDeque::new(),
            to_say: VecDeque::new(),
            asked_until: None,
        })
    }
}

impl CongestionControl for Rbudp {
    fn policy(&self) -> Policy {
        let retransmission = match self.state {
            State::Idle | State::Asking { .. } | State::Sending { repeats: false, .. } => {
                Retransmission::Withheld
            }
            State::Sending { repeats: true, .. } => Retransmission::Round,
            State::Alone => Retransmission::First,
        };
        let reports = if self.asked_until.is_some() { LossReports::Withheld } else { LossReports::AtOnce };
        let acknowledge = AckPolicy { reports, ..AckPolicy::UDT };
        Policy { retransmission, acknowledge, ..Policy::rate(self.packets_per_s) }
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packets_per_s = (self.rate_bits_per_s / environment.flight.packet_bits()).max(1.0);
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, _: &Resized) {
        self.on_start(environment);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        // A control at the peer would have stopped the reports.
        if let State::Asking { attempts: FEW.., .. } = self.state
            && !self.has_answered
            && lost.source == LossSource::Report
        {
            self.state = State::Alone;
        }
    }

    fn on_sent(&mut self, environment: &mut Environment<'_>, _: &Sent) {
        let quiet_at = environment.now + self.quiet();
        match &mut self.state {
            State::Idle => self.state = State::Sending { repeats: false, quiet_at },
            State::Sending { quiet_at: at, .. } => *at = quiet_at,
            State::Asking { .. } | State::Alone => {}
        }
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        match message.kind {
            DONE => self.answer(environment, &message.body),
            MAP => self.take(environment, &message.body),
            _ => {}
        }
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.to_say.pop_front()
    }

    fn poll_missing(&mut self) -> Option<Range<u64>> {
        self.missing.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        let sending = match self.state {
            State::Idle | State::Alone => None,
            State::Sending { quiet_at, .. } => Some(quiet_at),
            State::Asking { again_at, .. } => Some(again_at),
        };
        Instant::earlier(sending, self.asked_until)
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        self.go_on(environment);
        self.asked_until = self.asked_until.filter(|until| *until > environment.now);
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("rounds", self.round.into());
        tell("questions", map::count(self.questions));
        tell("peer_reports", f64::from(u8::from(self.has_answered)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    const MS: Duration = Duration::from_millis(1);

    fn rbudp() -> Rbudp {
        Rbudp::from_options(&mut Options::parse("rate=12m").unwrap()).unwrap()
    }

    /// A sender that has sent the packets 1,000 to 1,099 and its query.
    fn asking() -> (Rbudp, Stage) {
        let (mut control, mut stage) = (rbudp(), Stage::new(1, 20 * MS));
        control.on_start(&mut stage.environment());
        (stage.flight.acked_to, stage.flight.next) = (1_000, 1_100);
        let sent = Sent { first: 1_000, packets: 100, is_retransmission: false };
        control.on_sent(&mut stage.environment(), &sent);
        assert_eq!(control.policy().retransmission, Retransmission::Withheld);
        assert_eq!(control.poll_message(), None, "the round goes on");
        stage.now = control.next_timer().unwrap();
        control.on_timer(&mut stage.environment());
        (control, stage)
    }

    #[test]
    fn a_round_ends_with_a_question_whose_answer_is_repeated() {
        let (mut control, mut stage) = asking();
        let question = control.poll_message().unwrap();
        assert_eq!(question, Message { kind: DONE, body: vec![1, 0, 1_100] });
        // The receiver misses three packets in the middle, and the last two.
        let (mut receiver, mut there) = (rbudp(), Stage::new(2, 20 * MS));
        there.received_end = 1_098;
        there.missing.insert(1_010..1_012);
        there.missing.insert(1_050..1_051);
        assert_eq!(receiver.policy().acknowledge.reports, LossReports::AtOnce);
        receiver.on_message(&mut there.environment(), &question);
        assert_eq!(receiver.policy().acknowledge.reports, LossReports::Withheld);
        let answer = receiver.poll_message().unwrap();
        control.on_message(&mut stage.environment(), &answer);
        let missing: Vec<_> = core::iter::from_fn(|| control.poll_missing()).collect();
        assert_eq!(missing, [1_010..1_012, 1_050..1_051, 1_098..1_100]);
        assert_eq!(control.policy().retransmission, Retransmission::Round);
        // A late copy of the answer has no effect.
        control.on_message(&mut stage.environment(), &answer);
        assert_eq!(control.poll_missing(), None);
        // The sender no longer queries: the receiver's transport reports again.
        there.now = receiver.next_timer().unwrap();
        receiver.on_timer(&mut there.environment());
        assert_eq!(receiver.policy().acknowledge.reports, LossReports::AtOnce);
    }

    #[test]
    fn a_peer_that_answers_nothing_is_asked_six_times_and_one_that_reports_three_times() {
        for (reports, expected) in [(false, 6), (true, 3)] {
            let (mut control, mut stage) = asking();
            let mut questions = 0;
            while control.policy().retransmission != Retransmission::First {
                questions += u32::from(control.poll_message().is_some());
                if reports {
                    stage.lose(&mut control);
                    if control.state == State::Alone {
                        break;
                    }
                }
                stage.now = control.next_timer().unwrap();
                control.on_timer(&mut stage.environment());
            }
            assert_eq!((questions, control.next_timer()), (expected, None));
        }
    }

    #[test]
    fn what_is_acknowledged_is_not_asked_for() {
        let (mut control, mut stage) = asking();
        stage.flight.acked_to = 1_100;
        while let Some(at) = control.next_timer() {
            stage.now = at;
            control.on_timer(&mut stage.environment());
        }
        assert_eq!((control.state, control.questions), (State::Idle, 1));
    }
}
