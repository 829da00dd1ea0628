//! FOBS-like: an object is sent at one rate that the user sets; the receiver acknowledges every so many packets with a
//! bitmap of all of it that is missing, and the sender repeats that without ever waiting for an answer.
//!
//! Source: Dickens, "FOBS: A lightweight communication protocol for Grid computing", Euro-Par 2003: the greedy sender, the
//! acknowledgement bitmap and its frequency. There an object is one buffer; here it is the flight, up to the peer's buffer.
//! Its relative RBUDP ([`rbudp`](crate::rbudp)) sends in rounds and waits for the bitmap at the end of each.
//!
//! The sender asks for bitmaps until the first arrives; from then on the receiver's transport reports no losses. A peer that
//! does not know the question, such as libudt, goes on reporting them, and the sender repeats those: no worse than
//! [`fixed`](crate::fixed). The tail of the flight is the transport's: it probes for an answer.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::missing_map::{self, Map};
use crate::options::FromOptions;
use crate::{
    AckPolicy, Acked, CongestionControl, Environment, LossReports, Lost, Message, OptionError, Options,
    Policy, Received, Resized, RoundTrip, Sent,
};

/// FOBS-like: only for paths without other traffic. It never yields, and costs others the excess over the path's
/// capacity.
#[derive(Clone, Debug)]
pub(crate) struct Fobs {
    rate_bits_per_s: f64,
    packets_per_s: f64,
    /// Number of packets after which the receiver is to acknowledge.
    every: u32,
    sending: Sending,
    receiving: Option<Receiving>,
    to_say: VecDeque<Message>,
}

/// State of a sender.
#[derive(Clone, Debug, Default)]
struct Sending {
    /// Time at which bitmaps are requested again; none once one has arrived, or too many requests had no answer.
    ask_at: Option<Instant>,
    asked: u32,
    /// Round of the latest bitmap whose packets were repeated, and the time from which another one is: before it, packets
    /// that were repeated are still missing because they are on their way.
    repeated: Option<(u32, Instant)>,
    missing: VecDeque<Range<u64>>,
}

/// State of a receiver whose sender wants bitmaps.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    every: u32,
    /// Packets since the last bitmap.
    packets: u32,
    round: u32,
    /// Time of the next bitmap if fewer packets arrive; none while nothing is missing.
    due: Option<Instant>,
}

/// The request for bitmaps: the number of packets between two.
pub(crate) const WANT: u16 = 0x4653;
/// The bitmap: see [`Map`].
pub(crate) const MAP: u16 = 0x464d;

/// Number of requests without an answer after which the peer counts as not knowing them.
const MOST_ASKED: u32 = 6;
/// Minimum time between two requests, and between two bitmaps of one hole.
const LEAST_PATIENCE: Duration = Duration::from_millis(20);
/// Bounds of the packets between two bitmaps: one of each is one packet's work, and a peer must not ask for silence.
const EVERY: core::ops::RangeInclusive<u32> = 16..=1_000_000;
/// Maximum number of bitmaps waiting to be sent, and of ranges waiting to be taken.
const MOST_WAITING: usize = 65_536;

/// Returns the time in which an answer arrives, if none is lost.
fn patience(round_trip: &RoundTrip) -> Duration {
    (round_trip.smoothed + round_trip.variation * 4).clamp(LEAST_PATIENCE, RoundTrip::LONGEST)
}

impl Fobs {
    /// Requests bitmaps.
    fn ask(&mut self, environment: &Environment<'_>) {
        let sending = &mut self.sending;
        sending.asked += 1;
        let again = environment.now + patience(&environment.round_trip) * 2;
        sending.ask_at = Some(again).filter(|_| sending.asked < MOST_ASKED);
        self.to_say.push_back(Message { kind: WANT, body: vec![self.every] });
    }

    /// Repeats what a bitmap lacks, unless that is still on its way.
    fn take(&mut self, environment: &Environment<'_>, body: &[u32]) {
        let Some(map) = Map::read(body) else { return };
        let (now, sending) = (environment.now, &mut self.sending);
        sending.ask_at = None;
        sending.asked = MOST_ASKED;
        let is_of_round = sending.repeated.is_some_and(|(round, _)| round == map.round);
        if !is_of_round && sending.repeated.is_some_and(|(_, until)| now < until) {
            return;
        }
        let before = sending.missing.len();
        let room = MOST_WAITING.saturating_sub(before);
        let sent = environment.flight.acked_to..environment.flight.next;
        sending.missing.extend(map.missing(sent).take(room));
        if !is_of_round && sending.missing.len() > before {
            sending.repeated = Some((map.round, now + patience(&environment.round_trip)));
        }
    }

    /// Acknowledges with bitmaps of everything up to the newest packet.
    fn acknowledge(&mut self, environment: &Environment<'_>) {
        let Some(receiving) = &mut self.receiving else { return };
        let incoming = &environment.incoming;
        (receiving.packets, receiving.round) = (0, receiving.round.wrapping_add(1));
        let is_whole = incoming.next >= incoming.received_end;
        receiving.due = (!is_whole).then(|| environment.now + patience(&environment.round_trip));
        let words =
            (environment.flight.packet_bytes / 4).saturating_sub(missing_map::OVERHEAD_WORDS) as usize;
        for map in Map::of(incoming, receiving.round, incoming.received_end, words) {
            if self.to_say.len() < MOST_WAITING {
                self.to_say.push_back(Message { kind: MAP, body: map.body() });
            }
        }
    }
}

impl FromOptions for Fobs {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let rate_bits_per_s = options.rate("rate")?;
        let (least, most) = (f64::from(*EVERY.start()), f64::from(*EVERY.end()));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within its bounds")]
        let every = options.number("every", 1_000.0, least, most)? as u32;
        Ok(Self {
            rate_bits_per_s,
            packets_per_s: 1_000.0,
            every,
            sending: Sending::default(),
            receiving: None,
            to_say: VecDeque::new(),
        })
    }
}

impl CongestionControl for Fobs {
    fn policy(&self) -> Policy {
        let reports = if self.receiving.is_some() { LossReports::Withheld } else { LossReports::AtOnce };
        let acknowledge = AckPolicy { reports, ..AckPolicy::UDT };
        Policy { acknowledge, ..Policy::rate(self.packets_per_s) }
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packets_per_s = (self.rate_bits_per_s / environment.flight.packet_bits()).max(1.0);
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, _: &Resized) {
        self.on_start(environment);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn on_sent(&mut self, environment: &mut Environment<'_>, _: &Sent) {
        if self.sending.asked == 0 {
            self.ask(environment);
        }
    }

    fn on_received(&mut self, environment: &mut Environment<'_>, received: &Received) {
        let Some(receiving) = &mut self.receiving else { return };
        receiving.packets = receiving.packets.saturating_add(received.packets);
        if receiving.packets >= receiving.every {
            self.acknowledge(environment);
        } else if received.newly_missing > 0 && receiving.due.is_none() {
            receiving.due = Some(environment.now + patience(&environment.round_trip));
        }
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        match (message.kind, &message.body[..]) {
            (WANT, &[every]) => {
                let every = every.clamp(*EVERY.start(), *EVERY.end());
                let round = self.receiving.map_or(0, |receiving| receiving.round);
                self.receiving = Some(Receiving { every, packets: 0, round, due: None });
                // The answer tells the sender that it need not ask again.
                self.acknowledge(environment);
            }
            (MAP, body) => self.take(environment, body),
            _ => {}
        }
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.to_say.pop_front()
    }

    fn poll_missing(&mut self) -> Option<Range<u64>> {
        self.sending.missing.pop_front()
    }

    fn next_timer(&self) -> Option<Instant> {
        Instant::earlier(self.sending.ask_at, self.receiving.and_then(|receiving| receiving.due))
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        let now = environment.now;
        if self.sending.ask_at.is_some_and(|at| at <= now) {
            self.ask(environment);
        }
        if self.receiving.and_then(|receiving| receiving.due).is_some_and(|due| due <= now) {
            self.acknowledge(environment);
        }
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("repeated_round", self.sending.repeated.map_or(f64::NAN, |(round, _)| round.into()));
        tell("bitmaps", self.receiving.map_or(f64::NAN, |receiving| receiving.round.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Stage;

    const ROUND_TRIP: Duration = Duration::from_millis(20);

    fn fobs() -> Fobs {
        Fobs::from_options(&mut Options::parse("rate=12m&every=100").unwrap()).unwrap()
    }

    /// A sender that has sent the packets 1,000 to 1,199, its question, and a receiver that misses some.
    fn pair() -> (Fobs, Stage, Fobs, Stage) {
        let (mut sender, mut here) = (fobs(), Stage::new(1, ROUND_TRIP));
        sender.on_start(&mut here.environment());
        (here.flight.acked_to, here.flight.next) = (1_000, 1_200);
        sender
            .on_sent(&mut here.environment(), &Sent { first: 1_000, packets: 200, is_retransmission: false });
        let (mut receiver, mut there) = (fobs(), Stage::new(2, ROUND_TRIP));
        assert_eq!(receiver.policy().acknowledge.reports, LossReports::AtOnce);
        let question = sender.poll_message().unwrap();
        assert_eq!(question, Message { kind: WANT, body: vec![100] });
        there.received_end = 1_000;
        receiver.on_message(&mut there.environment(), &question);
        assert_eq!(receiver.policy().acknowledge.reports, LossReports::Withheld);
        sender.on_message(&mut here.environment(), &receiver.poll_message().unwrap());
        assert_eq!((sender.next_timer(), sender.poll_missing()), (None, None), "nothing is missing");
        (sender, here, receiver, there)
    }

    fn receive(receiver: &mut Fobs, there: &mut Stage, packets: u32, newly_missing: u32) -> Option<Message> {
        there.received_end += u64::from(packets + newly_missing);
        let arrived = there.now;
        receiver
            .on_received(&mut there.environment(), &Received { packets, bytes: 0, newly_missing, arrived });
        receiver.poll_message()
    }

    #[test]
    fn a_bitmap_comes_after_so_many_packets_and_its_holes_are_repeated_once_a_round_trip() {
        let (mut sender, mut here, mut receiver, mut there) = pair();
        there.missing.insert(1_010..1_012);
        assert_eq!(receive(&mut receiver, &mut there, 99, 2), None);
        let map = receive(&mut receiver, &mut there, 1, 0).unwrap();
        sender.on_message(&mut here.environment(), &map);
        assert_eq!(sender.poll_missing(), Some(1_010..1_012));
        // The next bitmap still lacks them: they are on their way.
        let next =
            receive(&mut receiver, &mut there, 90, 0).or_else(|| receive(&mut receiver, &mut there, 10, 0));
        let next = next.unwrap();
        here.now += ROUND_TRIP / 2;
        sender.on_message(&mut here.environment(), &next);
        assert_eq!(sender.poll_missing(), None);
        here.now += ROUND_TRIP;
        sender.on_message(&mut here.environment(), &next);
        assert_eq!(sender.poll_missing(), Some(1_010..1_012), "they were lost again");
    }

    #[test]
    fn a_hole_behind_which_nothing_more_arrives_is_told_by_time() {
        let (_, _, mut receiver, mut there) = pair();
        there.missing.insert(1_010..1_011);
        assert_eq!(receive(&mut receiver, &mut there, 50, 1), None);
        for _ in 0..2 {
            there.now = receiver.next_timer().unwrap();
            receiver.on_timer(&mut there.environment());
            assert_eq!(receiver.poll_message().map(|it| it.kind), Some(MAP));
        }
        there.missing.remove(1_010..1_011);
        there.now = receiver.next_timer().unwrap();
        receiver.on_timer(&mut there.environment());
        assert_eq!(receiver.next_timer(), None, "nothing is missing any more");
    }

    #[test]
    fn a_peer_that_answers_nothing_is_asked_six_times_and_its_reports_suffice() {
        let (mut sender, mut here) = (fobs(), Stage::new(1, ROUND_TRIP));
        sender.on_start(&mut here.environment());
        sender.on_sent(&mut here.environment(), &Sent { first: 1, packets: 1, is_retransmission: false });
        let mut asked = 0;
        loop {
            asked += u32::from(sender.poll_message().is_some());
            let Some(at) = sender.next_timer() else { break };
            here.now = at;
            sender.on_timer(&mut here.environment());
        }
        assert_eq!(asked, MOST_ASKED);
        assert_eq!(sender.policy(), Policy::rate(1_000.0), "as a constant rate");
    }

    #[test]
    fn a_request_for_silence_is_bounded() {
        let (mut receiver, mut there) = (fobs(), Stage::new(2, ROUND_TRIP));
        for (asked, every) in [(0, 16), (u32::MAX, 1_000_000)] {
            let question = Message { kind: WANT, body: vec![asked] };
            receiver.on_message(&mut there.environment(), &question);
            assert_eq!(receiver.receiving.unwrap().every, every);
        }
        receiver.on_message(&mut there.environment(), &Message { kind: MAP, body: vec![1, 2] });
        assert_eq!(receiver.poll_missing(), None);
    }
}
