//! A gate between a publisher and a receiver: parts of earlier signatures, tallies for other destinations, final tallies,
//! and readers that join.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cast::Sender;
use cast::receive::{EpochNews, ReceiverStats};
use cast::secure::{Gate, GateEvent, Passed, UnauthenticCounts};
use cast::send::{Input, MAX_SECURED_DESTINATIONS, SenderConfig};
use keys::Membership;
use ledger::{AccountState, Stage};
use sample::{Channel, Schema};
use units::{Instant, ReaderId, WallTime};
use wire::{Datagram, Kind, Nonce, Numbered, Request, SecuredHead, Wanted};

use crate::by_hand::{Reader, answer, at, from, hearing_member, sent};
use crate::laboratory::wall;

/// A member, and the configuration of its publisher, which hears no requests: readers join it at its descriptor.
fn member() -> (Arc<Membership>, SenderConfig) {
    let (membership, mut config) = hearing_member();
    config.description.report_port = 0;
    (membership, config)
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
    let mut gate = Gate::new(membership, at(0), wall(at(0)), 1);
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

/// Passes a datagram; returns the numbers of those that came through, and the nonces to be repeated.
fn passed(gate: &mut Gate, now: Instant, bytes: &[u8]) -> (Vec<u64>, Vec<Nonce>) {
    let (mut bytes, mut numbers, mut nonces) = (bytes.to_vec(), Vec::new(), Vec::new());
    let segment_bytes = bytes.len();
    gate.pass(now, &mut bytes, segment_bytes, from(), &mut |it| match it {
        Passed::Train { bytes, .. } => {
            numbers.push(Datagram::decode(bytes).unwrap().head().unwrap().number);
        }
        Passed::Epoch { news: EpochNews::Unconfirmed { nonce, .. }, .. } => nonces.push(nonce),
        Passed::Epoch { .. } => {}
    });
    (numbers, nonces)
}

/// A publisher that has sent a sample every 10 ms for 5 s, and what it sent in the last 4 s.
fn running() -> (Arc<Membership>, Sender, Vec<Vec<u8>>) {
    let (membership, config) = hearing_member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let first = streamed(&mut sender, 0..1_000);
    assert!(!first.is_empty());
    let recorded = streamed(&mut sender, 1_000..5_000);
    (membership, sender, recorded)
}

/// Lets a sender send a datagram of samples every 10 ms; returns all datagrams for the first destination.
fn streamed(sender: &mut Sender, millis: Range<u64>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for start in millis.step_by(10) {
        let (first_index, t0) = (start, WallTime::from_nanos(i64::try_from(start * 1_000_000).unwrap()));
        sender.handle(at(start), Input::Samples { first_index, t0, bytes: &[0; 40] });
        all.extend(sent(sender, at(start)..at(start + 10)));
    }
    all.into_iter().filter(|(destinations, _)| destinations.start == 0).map(|(_, bytes)| bytes).collect()
}

fn ask(sender: &mut Sender, now: Instant, nonce: Nonce) {
    let Numbered { stream, epoch, .. } = sender.next_head();
    let (reader, what) = (ReaderId(7), Wanted::Descriptor);
    let request = Request { stream, epoch, reader, what, waiting: None, nonce: Some(nonce) };
    sender.handle(now, Input::Request(&request));
}

#[test]
fn nothing_passes_before_the_publisher_answers_and_what_leads_up_to_its_answer_does() {
    let (membership, mut sender, recorded) = running();
    let live_from = sender.next_head().number;
    let mut gate = Gate::new(membership, at(5_000), wall(at(5_000)), 1);
    let mut asked = Vec::new();
    for bytes in &recorded {
        let (numbers, nonces) = passed(&mut gate, at(5_000), bytes);
        assert!(numbers.is_empty(), "a recording");
        asked.extend(nonces);
    }
    assert_eq!(asked.len(), 1);
    ask(&mut sender, at(5_000), asked[0]);
    let mut begun = Vec::new();
    for bytes in streamed(&mut sender, 5_000..5_200) {
        begun.extend(passed(&mut gate, at(5_200), &bytes).0);
    }
    // It is whole up to the present.
    assert!(begun.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{begun:?}");
    assert!(begun.last().unwrap() > &live_from);
    assert_eq!(gate.stats().unauthentic, UnauthenticCounts::default());
}

#[test]
fn a_recording_of_the_running_epoch_is_not_where_a_joining_reader_begins() {
    let (membership, mut sender, recorded) = running();
    let mut gate = Gate::new(membership, at(9_000), wall(at(9_000)), 1);
    let unheard = streamed(&mut sender, 5_000..9_000);
    let live_from = sender.next_head().number;
    let mut asked = Vec::new();
    recorded.iter().for_each(|bytes| asked.extend(passed(&mut gate, at(9_000), bytes).1));
    ask(&mut sender, at(9_000), asked[0]);
    let live = streamed(&mut sender, 9_000..9_200);
    let begun: Vec<u64> = live.iter().flat_map(|bytes| passed(&mut gate, at(9_200), bytes).0).collect();
    let (first, last) = (begun[0], sender.next_head().number);
    assert!(first >= live_from, "{first} of {live_from}");
    assert_eq!(begun, (first..last).collect::<Vec<_>>());
    // The rest of the recording is too old now.
    assert!(recorded.iter().chain(&unheard).all(|bytes| passed(&mut gate, at(9_200), bytes).0.is_empty()));
}

#[test]
fn a_reader_joins_within_a_tenth_of_a_second_of_its_first_descriptor() {
    let (membership, mut sender, _) = running();
    let mut gate = Gate::new(membership, at(5_000), wall(at(5_000)), 1);
    let (mut described, mut begun) = (None, None);
    for start in (5_000..7_000).step_by(10) {
        for bytes in streamed(&mut sender, start..start + 10) {
            let (numbers, nonces) = passed(&mut gate, at(start), &bytes);
            for nonce in nonces {
                described.get_or_insert(start);
                ask(&mut sender, at(start + 10), nonce);
            }
            if !numbers.is_empty() {
                begun.get_or_insert(start);
            }
        }
    }
    let waited = begun.unwrap() - described.unwrap();
    assert!(waited <= 110, "{waited} ms");
}

#[test]
fn a_repeated_nonce_of_another_reader_or_of_a_minute_ago_proves_nothing() {
    let (membership, mut sender, recorded) = running();
    let [mut ours, mut other] =
        [1, 2].map(|seed| Gate::new(Arc::clone(&membership), at(5_000), wall(at(5_000)), seed));
    let mut asked = Vec::new();
    recorded.iter().for_each(|bytes| asked.extend(passed(&mut other, at(5_000), bytes).1));
    ask(&mut sender, at(5_000), asked[0]);
    let answered = streamed(&mut sender, 5_000..5_200);
    for bytes in recorded.iter().chain(&answered) {
        assert!(passed(&mut ours, at(5_200), bytes).0.is_empty());
    }
    // The other reader hears its own answer a minute late.
    let late = at(65_000);
    assert!(answered.iter().all(|bytes| passed(&mut other, late, bytes).0.is_empty()));
}

#[test]
fn without_an_answer_an_epoch_begins_after_three_seconds_and_this_is_told_once() {
    let (membership, mut sender, _) = running();
    let mut gate = Gate::new(membership, at(5_000), wall(at(5_000)), 1);
    let mut asked = 0;
    for start in (5_000..8_000).step_by(10) {
        for bytes in streamed(&mut sender, start..start + 10) {
            let (numbers, nonces) = passed(&mut gate, at(start), &bytes);
            assert!(numbers.is_empty(), "{numbers:?}");
            asked += nonces.len();
        }
    }
    assert!((2..=12).contains(&asked), "{asked}");
    let due = gate.deadline().unwrap();
    let mut numbers = 0;
    let mut count = |it: Passed<'_>| numbers += u64::from(matches!(it, Passed::Train { .. }));
    gate.advance(at(7_990), &mut count);
    gate.advance(due, &mut count);
    gate.advance(due, &mut count);
    assert!(numbers > 100, "{numbers}");
    assert_eq!((gate.stats().unconfirmed_epochs, gate.deadline()), (1, None));
    assert!(matches!(gate.next_event(), Some(GateEvent::Unconfirmed { .. })));
    assert_eq!(gate.next_event(), None);
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
    let mut gate = Gate::new(membership, at(0), wall(at(0)), 1);
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
    let mut gate = Gate::new(membership, at(0), wall(at(0)), 1);
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

#[test]
fn a_loss_reported_after_the_first_final_tally_is_in_every_account_at_its_stage() {
    let (membership, config) = member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let mut readers = [0, 1].map(|destination| (destination, Reader::new(&membership, at(0))));
    let (mut kept_back, mut ended, mut nonces) = (None, None, BTreeMap::new());
    let mut finals = BTreeSet::new();
    for millis in 0..8_000 {
        let now = at(millis);
        match millis {
            100..150 => {
                let (first_index, t0) =
                    (10 * (millis - 100), WallTime::from_nanos(millis as i64 * 1_000_000));
                sender.handle(now, Input::Samples { first_index, t0, bytes: &[0; 40] });
            }
            150 => sender.handle(now, Input::Finish),
            _ => {}
        }
        if ended.is_some_and(|ended| millis == ended + 5) {
            let (number, size_bytes) = kept_back.unwrap();
            for destination in 0..2 {
                let stage = Stage::SenderQdisc;
                sender.handle(now, Input::Refused { destination, number, stage, size_bytes });
            }
        }
        for (destinations, bytes) in sent(&mut sender, now..at(millis + 1)) {
            let head = SecuredHead::read(&bytes).unwrap();
            let first = nonces.entry((head.destination, head.nonce)).or_insert_with(|| bytes.clone());
            assert_eq!(*first, bytes, "one nonce encrypts two contents");
            if sender.has_told_end() && head.kind == Kind::Tally {
                ended.get_or_insert(millis);
                finals.insert(bytes.clone());
            }
            if head.kind == Kind::Data
                && kept_back.is_none_or(|(number, _)| number == head.nonce)
                && millis > 110
            {
                // The host drops it, and says so late.
                kept_back = Some((head.nonce, bytes.len()));
                continue;
            }
            for (destination, reader) in &mut readers {
                if destinations.contains(destination) {
                    reader.hears(now, &bytes, from());
                }
            }
        }
        readers.iter_mut().for_each(|(_, reader)| drop(reader.sends(now)));
    }
    assert!(sender.is_finished());
    assert_eq!(finals.len(), 4, "two for each destination, of five copies");
    for (_, reader) in &readers {
        let [account] = &reader.accounts[..] else { panic!("{:?}", reader.accounts) };
        assert_eq!(account.state, AccountState::Closed);
        let rows = account.datagrams.as_ref().unwrap();
        let lost = (rows.lost[Stage::SenderQdisc], rows.lost.total(), rows.unexplained);
        assert_eq!(lost, (1, 1, 0), "{account:?}");
        let stats = reader.gate.stats();
        assert_eq!((stats.unauthentic, stats.repeated), (UnauthenticCounts::default(), 3));
    }
}

#[test]
fn a_secured_stream_has_as_many_destinations_as_its_tallies_have_keys() {
    let (_, config) = member();
    let with = |destinations| SenderConfig { destinations, ..config.clone() };
    let mut sender = Sender::new(with(MAX_SECURED_DESTINATIONS), 1, at(0)).unwrap();
    sender.handle(at(0), Input::Finish);
    let finals = of_kind(&sent(&mut sender, at(0)..at(1)), Kind::Tally);
    let mut keys: Vec<_> =
        finals.iter().map(|(_, bytes)| SecuredHead::read(bytes).unwrap().destination).collect();
    keys.dedup();
    assert_eq!(keys.len(), MAX_SECURED_DESTINATIONS);
}

#[test]
fn a_reader_joins_a_stream_that_ends_as_soon_as_it_is_heard() {
    let (membership, config) = hearing_member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let mut reader = Reader::new(&membership, at(0));
    let mut asked: Option<(u64, Vec<u8>)> = None;
    let (mut heard, mut ended, mut has_asked) = (None, None, false);
    for millis in 0..5_000 {
        let now = at(millis);
        if millis < 1_000 {
            let (first_index, t0) = (10 * millis, WallTime::from_nanos(millis as i64 * 1_000_000));
            sender.handle(now, Input::Samples { first_index, t0, bytes: &[0; 40] });
        }
        if heard.is_some_and(|heard| millis == heard + 5) {
            sender.handle(now, Input::Finish);
        }
        if let Some((_, request)) = asked.take_if(|(due, _)| *due <= millis) {
            let is_first = !core::mem::replace(&mut has_asked, true);
            assert!(!is_first || sender.has_told_end(), "between two copies of the final tally");
            answer(&mut sender, now, &request);
        }
        for (destinations, bytes) in sent(&mut sender, now..at(millis + 1)) {
            let kind = SecuredHead::read(&bytes).unwrap().kind;
            if millis >= 990 && destinations.contains(&0) && (heard.is_some() || kind == Kind::Descriptor) {
                heard.get_or_insert(millis);
                reader.hears(now, &bytes, from());
            }
        }
        for (_, request) in reader.sends(now) {
            asked.get_or_insert((millis + 10, request));
        }
        if !reader.accounts.is_empty() {
            ended.get_or_insert(millis);
        }
    }
    let waited = ended.unwrap() - heard.unwrap();
    assert!(waited <= 100, "{waited} ms");
    assert_eq!((reader.gate.stats().unconfirmed_epochs, reader.accounts[0].state), (0, AccountState::Closed));
}

#[test]
fn a_refusal_told_before_its_stream_is_known_is_not_told_again() {
    let (membership, config) = member();
    let mut clear = Sender::new(SenderConfig { security: None, ..config.clone() }, 1, at(0)).unwrap();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let (clear, secured) = (sent(&mut clear, at(0)..at(1)), sent(&mut sender, at(0)..at(1)));
    let mut gate = Gate::new(membership, at(0), wall(at(0)), 1);
    assert!(!passes(&mut gate, at(1), &clear[0].1));
    assert!(matches!(gate.next_event(), Some(GateEvent::Refused { .. })));
    while gate.next_event().is_some() {}
    assert!(passes(&mut gate, at(1), &of_kind(&secured, Kind::Descriptor)[0].1));
    while let Some(event) = gate.next_event() {
        assert!(matches!(event, GateEvent::Unconfirmed { .. }), "{event:?}");
    }
    assert!(!passes(&mut gate, at(1), &clear[0].1));
    assert_eq!((gate.next_event(), gate.stats().unauthentic.clear), (None, 2));
}

/// A gate that believes a stream, and the data datagrams that follow.
fn believing() -> (Gate, Vec<Vec<u8>>) {
    let (membership, config) = member();
    let mut sender = Sender::new(config, 1, at(0)).unwrap();
    let mut gate = Gate::new(membership, at(0), wall(at(0)), 1);
    for bytes in streamed(&mut sender, 0..1_000) {
        passes(&mut gate, at(1_000), &bytes);
    }
    let mut next = streamed(&mut sender, 1_000..2_000);
    next.retain(|bytes| SecuredHead::read(bytes).unwrap().kind == Kind::Data);
    assert!(next.len() > 50 && next.iter().all(|bytes| bytes.len() == next[0].len()));
    (gate, next)
}

/// Passes datagrams of one size at once; returns the plain ones, and the addresses to which the epoch has moved.
fn pass_train(
    gate: &mut Gate,
    now: Instant,
    datagrams: &[Vec<u8>],
    from: SocketAddr,
) -> (Vec<Vec<u8>>, Vec<SocketAddr>) {
    let (mut bytes, mut plain, mut moved) = (datagrams.concat(), Vec::new(), Vec::new());
    gate.pass(now, &mut bytes, datagrams[0].len(), from, &mut |it| match it {
        Passed::Train { bytes, segment_bytes, .. } => {
            plain.extend(bytes.chunks(segment_bytes).map(<[u8]>::to_vec));
        }
        Passed::Epoch { news: EpochNews::Moved { to }, .. } => moved.push(to),
        Passed::Epoch { .. } => {}
    });
    (plain, moved)
}

#[test]
fn a_train_passes_as_its_datagrams_do_one_by_one() {
    let (mut together, data) = believing();
    let (mut apart, _) = believing();
    let mut train = data[..12].to_vec();
    train.swap(3, 4);
    train[6] = train[5].clone();
    train[8][90] ^= 1;
    train[9].iter_mut().rev().take(1).for_each(|byte| *byte ^= 1);
    let (whole, _) = pass_train(&mut together, at(2_000), &train, from());
    let single = |datagram| pass_train(&mut apart, at(2_000), core::slice::from_ref(datagram), from()).0;
    let one_by_one: Vec<Vec<u8>> = train.iter().flat_map(single).collect();
    assert_eq!(whole, one_by_one);
    assert_eq!(whole.len(), 9);
    assert_eq!(together.stats(), apart.stats());
    let counts = together.stats().unauthentic;
    assert_eq!((counts.replayed, counts.total()), (1, 3), "{counts:?}");
    assert!(whole.iter().all(|plain| Datagram::decode(plain).is_ok()));
}

#[test]
fn trains_from_elsewhere_do_not_keep_a_silent_address_alive() {
    let (mut gate, data) = believing();
    let other = SocketAddr::from(([10, 0, 0, 2], 7_400));
    let trains: Vec<&[Vec<u8>]> = data.chunks(10).collect();
    assert_eq!(pass_train(&mut gate, at(2_000), trains[0], from()).1, []);
    assert_eq!(pass_train(&mut gate, at(3_000), trains[1], other).1, []);
    assert_eq!(pass_train(&mut gate, at(4_000), trains[2], other).1, []);
    assert_eq!(pass_train(&mut gate, at(5_001), trains[3], other).1, [other]);
}
