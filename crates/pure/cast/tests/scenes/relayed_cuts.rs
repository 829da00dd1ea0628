//! The sender of a relayed stream over random cuts, holes, settlements and statements: every element is told once, as
//! it was passed on.

use core::time::Duration;

use cast::Sender;
use cast::send::{ElementTimes, Input, Output, SenderConfig};
use ledger::{HopCounts, HopShare, Outcome, Stage};
use proptest::prelude::*;
use sample::Dtype;
use units::{Epoch, Instant};
use wire::{Clock, MIN_DATA_BYTES, MIN_DATAGRAM_BYTES, Nonce, ORIGIN_BYTES, UpstreamHop};

use crate::line::relay::{Heard, ORIGIN_EPOCH, Passed, relaying};
use crate::line::scene::{EPOCH, StreamShape};

#[derive(Clone, Debug)]
enum Step {
    Elements(u64),
    Inherited(Vec<(u8, Outcome, u64)>),
    Lapped(u64),
    Settle { behind: usize, most: u64, to: Outcome },
    Statement(usize),
    Ask(u64),
    Refuse,
    Wait(u64),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Unsettled),
        Just(Outcome::Unexplained),
        Just(Outcome::Lost(Stage::Network)),
        Just(Outcome::Lost(Stage::Deadline)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let share = (0_u8..8, outcome(), 1_u64..40);
    prop_oneof![
        6 => (1_u64..400).prop_map(Step::Elements),
        4 => prop::collection::vec(share, 1..4).prop_map(Step::Inherited),
        1 => (1_u64..100).prop_map(Step::Lapped),
        3 => (0_usize..4_000, 1_u64..50, outcome())
            .prop_map(|(behind, most, to)| Step::Settle { behind, most, to }),
        1 => (1_usize..=wire::MAX_TALLY_STATEMENT_BYTES).prop_map(Step::Statement),
        1 => (1_u64..20).prop_map(Step::Ask),
        1 => Just(Step::Refuse),
        3 => (0_u64..30).prop_map(Step::Wait),
    ]
}

fn config() -> impl Strategy<Value = SenderConfig> {
    let elements = prop_oneof![Just(1_u32), Just(3), Just(50), Just(1_000), Just(100_000)];
    let least = MIN_DATA_BYTES + ORIGIN_BYTES;
    let datagram_bytes = prop_oneof![Just(least), Just(MIN_DATAGRAM_BYTES), Just(1_472)];
    let linger = prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(5))];
    (elements, datagram_bytes, linger, 1_u8..=8, 0_u64..10_000).prop_map(
        |(elements, datagram_bytes, linger, hop, first_position)| {
            let shape =
                StreamShape { dtype: Dtype::U16, elements, datagram_bytes, linger, ..StreamShape::PLAIN };
            relaying(shape.config(EPOCH), hop, first_position)
        },
    )
}

/// A sender, and all that it sent.
struct Line {
    sender: Sender,
    passed: Passed,
    now: Instant,
    sent: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    hops: u8,
}

impl Line {
    fn new(config: &SenderConfig) -> Self {
        let sender = Sender::new(config.clone(), 1, Instant::ORIGIN).expect("a sound configuration");
        Self {
            buffer: vec![0; sender.train_bytes()],
            sender,
            passed: Passed::new(config),
            now: Instant::ORIGIN,
            sent: Vec::new(),
            hops: config.relayed.expect("of a relay").origin.hop.get(),
        }
    }

    fn take(&mut self, step: &Step) {
        let (now, sender) = (self.now, &mut self.sender);
        match step {
            Step::Elements(count) => self.passed.elements(now, sender, *count),
            Step::Inherited(shares) => {
                let share = |&(hop, outcome, count): &(u8, Outcome, u64)| HopShare {
                    hop: hop % self.hops,
                    outcome,
                    count,
                };
                let shares: HopCounts = shares.iter().map(share).collect();
                self.passed.inherited(now, sender, &shares);
            }
            Step::Lapped(count) => self.passed.lapped(now, sender, *count),
            Step::Settle { behind, most, to } => {
                let behind = (*behind).min(self.passed.outcomes.len());
                self.passed.settle(now, sender, behind, *most, *to);
            }
            Step::Statement(size) => sender.handle(now, Input::Statement(&vec![1; *size])),
            Step::Ask(count) => {
                for nonce in 0..*count {
                    let request = request(sender, Nonce::new(nonce));
                    sender.handle(now, Input::Request(&request));
                }
            }
            Step::Refuse => {
                let (number, stage) = (sender.next_head().number.saturating_sub(1), Stage::SenderQdisc);
                sender.handle(now, Input::Refused { destination: 0, number, stage, size_bytes: 0 });
            }
            Step::Wait(millis) => return self.run_until(now + Duration::from_millis(*millis)),
        }
        self.run_until(now);
    }

    /// Takes a step while the end of the stream is told.
    fn take_late(&mut self, step: &Step) {
        if matches!(step, Step::Ask(_) | Step::Refuse | Step::Wait(_)) {
            self.take(step);
        }
    }

    /// Takes all that leaves until then; the sender's promises about time are checked.
    fn run_until(&mut self, end: Instant) {
        loop {
            match self.sender.poll(self.now, &mut self.buffer) {
                Output::Transmit { numbers, segment_bytes, size_bytes, .. } => {
                    let datagrams = self.buffer[..size_bytes].chunks(segment_bytes);
                    assert_eq!(datagrams.len() as u64, numbers.end - numbers.start);
                    self.sent.extend(datagrams.map(<[u8]>::to_vec));
                    let totals = self.sender.totals().samples;
                    assert!(totals.is_balanced(), "{totals:?}");
                }
                Output::Event(_) => {}
                Output::Idle { deadline } => match deadline {
                    Some(deadline) if deadline <= end => {
                        assert!(deadline > self.now, "a deadline that has passed");
                        self.now = deadline;
                    }
                    _ => break,
                },
            }
        }
        self.now = self.now.max(end);
    }
}

fn request(sender: &Sender, nonce: Nonce) -> wire::Request {
    let wire::Numbered { stream, epoch, .. } = sender.next_head();
    wire::Request {
        stream,
        epoch,
        what: wire::Wanted::Data,
        reader: units::ReaderId(1),
        waiting: None,
        nonce: Some(nonce),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_element_is_told_as_it_was_passed_on(
        config in config(),
        steps in prop::collection::vec(step(), 0..120),
        late in prop::collection::vec(step(), 0..30),
    ) {
        let mut line = Line::new(&config);
        steps.iter().for_each(|step| line.take(step));
        let per_sample = u64::from(line.passed.schema.elements_per_sample());
        let rest = line.passed.next_position().next_multiple_of(per_sample) - line.passed.next_position();
        line.passed.elements(line.now, &mut line.sender, rest);
        line.passed.tell_upstream(line.now, &mut line.sender);
        line.sender.handle(line.now, Input::Finish);
        late.iter().for_each(|step| line.take_late(step));
        line.run_until(line.now + Duration::from_secs(60));
        prop_assert!(line.sender.is_finished());
        let mut heard = Heard::new(line.passed.clone());
        line.sent.iter().for_each(|bytes| heard.hear(bytes));
        heard.check_all();
        let total = |hop: &UpstreamHop| hop.lost.total() + hop.unexplained;
        let lost: Vec<u64> = line.passed.upstream().iter().map(total).collect();
        prop_assert_eq!(heard.upstream.iter().map(total).collect::<Vec<_>>(), lost);
        prop_assert_eq!(line.sender.totals().samples.queued, 0);
        prop_assert_eq!(line.sender.next_position(), line.passed.next_position());
    }
}

#[test]
fn what_settles_while_the_end_is_told_is_in_the_copies_of_the_final_tally_that_follow() {
    let mut line = Line::new(&relaying(StreamShape::PLAIN.config(EPOCH), 2, 0));
    line.take(&Step::Inherited(vec![(1, Outcome::Unsettled, 5)]));
    line.sender.handle(line.now, Input::Finish);
    line.run_until(line.now + Duration::from_millis(30));
    assert!(line.sender.has_told_end() && !line.sender.is_finished());
    line.take(&Step::Settle { behind: 0, most: 5, to: Outcome::Lost(Stage::Deadline) });
    line.run_until(line.now + Duration::from_secs(1));
    let mut heard = Heard::new(line.passed.clone());
    line.sent.iter().for_each(|bytes| heard.hear(bytes));
    heard.check_all();
    assert_eq!(heard.upstream[1].lost[Stage::Deadline], 5);
}

/// Returns a sender at hop 2 that took the stream up at 10 and was passed 10 elements.
fn at_twenty() -> Sender {
    let config = relaying(StreamShape::PLAIN.config(EPOCH), 2, 10);
    let mut sender = Sender::new(config.clone(), 1, Instant::ORIGIN).expect("a sound configuration");
    Passed::new(&config).elements(Instant::ORIGIN, &mut sender, 10);
    sender
}

fn network(hop: u8, count: u64) -> HopCounts {
    [HopShare { hop, outcome: Outcome::Lost(Stage::Network), count }].into_iter().collect()
}

/// Returns whether an input is refused.
fn refuses(input: Input<'_>) -> bool {
    let mut sender = at_twenty();
    let handle = core::panic::AssertUnwindSafe(|| sender.handle(Instant::ORIGIN, input));
    std::panic::catch_unwind(handle).is_err()
}

#[test]
fn what_a_caller_must_not_pass_is_refused() {
    let t0 = units::WallTime::from_nanos(0);
    let times = ElementTimes { t0, clock: Clock::System, born: None };
    let elements = |position| Input::Elements { position, times, bytes: &[0; 8] };
    assert!(!refuses(elements(20)) && refuses(elements(19)) && refuses(elements(21)), "out of turn");
    assert!(refuses(Input::Elements { position: 20, times, bytes: &[0; 7] }), "elements are whole");
    let (two, three, elsewhere) = (network(1, 2), network(1, 3), network(2, 2));
    let inherited = |positions, shares| Input::Inherited { positions, shares, cause: None };
    assert!(!refuses(inherited(20..22, &two)));
    assert!(refuses(inherited(19..21, &two)) && refuses(inherited(21..23, &two)), "overlapping, or ahead");
    assert!(refuses(inherited(20..22, &three)), "more outcomes than elements");
    assert!(refuses(inherited(20..22, &elsewhere)), "an outcome on its own hop");
    let settled = |positions, shares| Input::Settled { positions, shares };
    assert!(!refuses(settled(18..20, &two)) && refuses(settled(19..21, &two)), "not yet inherited");
    let lapped = |stage| Input::SkippedElements { positions: 20..22, stage };
    assert!(!refuses(lapped(Stage::PublisherQueue)) && refuses(lapped(Stage::Network)));
    let samples = Input::Samples { first_index: 20, t0, bytes: &[0; 8] };
    assert!(refuses(samples), "a relay passes elements");
    assert!(refuses(Input::Upstream(Vec::new())), "both hops before are told");
}

#[test]
fn an_origin_that_readers_would_refuse_is_refused() {
    let refuses = |epoch: Epoch, hop: u8| {
        let config = SenderConfig { epoch, ..relaying(StreamShape::PLAIN.config(EPOCH), hop, 0) };
        std::panic::catch_unwind(|| Sender::new(config, 1, Instant::ORIGIN)).is_err()
    };
    assert!(!refuses(EPOCH, 8) && refuses(EPOCH, 9) && refuses(ORIGIN_EPOCH, 8));
}
