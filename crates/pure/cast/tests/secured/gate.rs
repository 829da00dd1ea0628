//! A gate alone: parts of earlier signatures, and tallies for other destinations.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use cast::Sender;
use cast::receive::ReceiverStats;
use cast::secure::{Gate, Passed, UnauthenticCounts};
use cast::send::{Input, Output, SenderConfig};
use keys::{Membership, Suite};
use ledger::Stage;
use sample::{Channel, Schema};
use units::{Epoch, Instant, WallTime};
use wire::{Kind, SecuredHead};

use crate::laboratory::{Laboratory, wall};
use crate::nodes::config;

const EPOCH: Epoch = Epoch { start_ns: 1_000, incarnation: 11 };

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn from() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7_400))
}

/// A member, and the configuration of its publisher.
fn member() -> (Arc<Membership>, SenderConfig) {
    let mut laboratory = Laboratory::new(9, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let membership = laboratory.member(&secrets);
    let config = config(&mut laboratory, &membership, EPOCH, at(0));
    (membership, config)
}

/// Returns the datagrams that a sender sends in a span, each with its destinations.
fn sent(sender: &mut Sender, Range { start, end }: Range<Instant>) -> Vec<(Range<usize>, Vec<u8>)> {
    let (mut now, mut sent, mut buffer) = (start, Vec::new(), vec![0; sender.train_bytes()]);
    loop {
        match sender.poll(now, &mut buffer) {
            Output::Transmit { destinations, segment_bytes, size_bytes, .. } => {
                let datagrams = buffer[..size_bytes].chunks(segment_bytes);
                sent.extend(datagrams.map(|bytes| (destinations.clone(), bytes.to_vec())));
            }
            Output::Event(_) => {}
            Output::Idle { deadline: Some(deadline) } if deadline < end => {
                now = deadline.max(now);
                sender.handle(now, Input::Advance);
            }
            Output::Idle { .. } => return sent,
        }
    }
}

/// Passes a datagram; returns whether anything came through.
fn passes(gate: &mut Gate, now: Instant, bytes: &[u8]) -> bool {
    let (mut bytes, mut passed) = (bytes.to_vec(), false);
    let segment_bytes = bytes.len();
    gate.pass(now, &mut bytes, segment_bytes, from(), &mut |it| passed |= matches!(it, Passed::Train { .. }));
    passed
}

fn of_kind(sent: &[(Range<usize>, Vec<u8>)], kind: Kind) -> Vec<(usize, Vec<u8>)> {
    let is_kind = |bytes: &[u8]| SecuredHead::read(bytes).unwrap().kind == kind;
    let of_kind = sent.iter().filter(|(_, bytes)| is_kind(bytes));
    of_kind.map(|(destinations, bytes)| (destinations.start, bytes.clone())).collect()
}

/// The description is signed anew every minute; parts of the signature before it still open.
#[test]
fn a_recorded_part_of_an_earlier_signature_does_not_keep_a_joiner_out() {
    let (membership, mut config) = member();
    let schema = &config.description.schema;
    let channels = (0..200).map(|index| Channel::new(format!("channel {index}"), "V")).collect();
    config.description.schema = Schema::new(schema.dtype, schema.rate, channels).unwrap();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let parts = of_kind(&sent(&mut sender, at(0)..at(70_000)), Kind::Descriptor);
    let recorded = &parts[1].1;
    let mut gate = Gate::new(membership, at(0), wall(at(0)));
    let late = &parts[parts.len() - 30..];
    assert!(!passes(&mut gate, at(70_000), recorded));
    let begun = late.iter().filter(|(_, part)| {
        let is_begun = passes(&mut gate, at(70_000), part);
        if !is_begun {
            assert!(!passes(&mut gate, at(70_000), recorded));
        }
        is_begun
    });
    assert!(begun.count() > 1, "the description has fewer than 30 parts");
    let counts = gate.stats().unauthentic;
    assert!(counts.replayed > 1 && counts.total() == counts.replayed, "{counts:?}");
}

#[test]
fn tallies_for_another_destination_are_taken_only_when_those_for_the_own_fall_silent() {
    let (membership, config) = member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let bytes = [0; 40];
    let t0 = WallTime::from_nanos(0);
    sender.handle(at(0), Input::Samples { first_index: 0, t0, bytes: &bytes });
    let (destination, number, stage) = (1, 1, Stage::SenderQdisc);
    let mut all = sent(&mut sender, at(0)..at(200));
    sender.handle(at(200), Input::Refused { destination, number, stage, size_bytes: 0 });
    all.extend(sent(&mut sender, at(200)..at(9_000)));
    let mut gate = Gate::new(membership, at(0), wall(at(0)));
    let descriptors = of_kind(&all, Kind::Descriptor);
    assert!(passes(&mut gate, at(1), &descriptors[0].1));
    let tallies = of_kind(&all, Kind::Tally);
    let of =
        |destination: usize| tallies.iter().filter(move |(to, _)| *to == destination).map(|(_, bytes)| bytes);
    let (mut own, mut others) = (of(0), of(1));
    assert!(passes(&mut gate, at(2), own.next().unwrap()));
    let later = others.nth(1).unwrap();
    assert!(!passes(&mut gate, at(3), later), "it tells of losses elsewhere");
    assert_eq!(gate.stats().unauthentic, UnauthenticCounts { wrong_sender: 1, ..Default::default() });
    assert!(passes(&mut gate, at(2) + Duration::from_secs(3), later), "nothing else is heard");
}

#[test]
fn what_does_not_get_past_the_gate_is_in_the_counters_of_its_socket() {
    let (membership, config) = member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let all = sent(&mut sender, at(0)..at(3_000));
    let mut gate = Gate::new(membership, at(0), wall(at(0)));
    let (tallies, descriptors) = (of_kind(&all, Kind::Tally), of_kind(&all, Kind::Descriptor));
    // Before its descriptor nothing of the epoch can be opened; bytes of another protocol never are.
    assert!(!passes(&mut gate, at(1), &tallies[0].1));
    assert!(!passes(&mut gate, at(1), b"another protocol"));
    assert!(passes(&mut gate, at(2), &descriptors[0].1));
    assert!(!passes(&mut gate, at(2), &descriptors[0].1), "a replay");
    let counted = gate.with_refused(ReceiverStats { datagrams: 1, ..Default::default() });
    let expected = ReceiverStats { datagrams: 4, malformed: 1, undescribed: 1, ..Default::default() };
    assert_eq!((counted, gate.stats().unauthentic.replayed), (expected, 1));
}
