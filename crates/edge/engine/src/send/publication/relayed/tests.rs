//! What a relayed publication writes into its ring, and what its send path makes of it.

use std::num::NonZeroU8;

use ledger::{Account, AccountState, Hop};
use ring::Read;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, WallTime};
use wire::Clock;

use super::*;
use crate::HostRings;
use crate::send::send_path::SendPath;
use crate::send::tests::{listener, opened, publication_config};
use crate::send::{PublicationConfig, SendError, open_relayed_on_host};
use ring::shared::Access;

const E: u64 = 3;
const ORIGIN: Origin =
    Origin { epoch: Epoch { start_ns: 1, incarnation: 7 }, hop: NonZeroU8::new(2).expect("not zero") };

/// A stream of three channels of 16 bits at a kilohertz, whose account begins with sample 4.
fn config() -> PublicationConfig {
    let mut config = publication_config(Vec::new());
    let channels = ["a", "b", "c"].map(|name| Channel::new(name, "V")).into();
    config.description.schema = Schema::new(Dtype::I16, SampleRate::hz(1_000).unwrap(), channels).unwrap();
    PublicationConfig { relayed: Some(Relayed { origin: ORIGIN, first_position: 4 * E }), ..config }
}

fn shares(of: &[(u8, Outcome, u64)]) -> HopCounts {
    of.iter().map(|&(hop, outcome, count)| HopShare { hop, outcome, count }).collect()
}

fn late(count: u64) -> HopCounts {
    shares(&[(1, Outcome::Lost(Stage::Deadline), count)])
}

fn waits(count: u64) -> HopCounts {
    shares(&[(1, Outcome::Unsettled, count)])
}

/// Elements whose values are their positions.
fn elements(positions: Range<u64>) -> Vec<u8> {
    positions.flat_map(|position| i16::try_from(position).unwrap().to_le_bytes()).collect()
}

fn t0(position: u64) -> WallTime {
    WallTime::from_nanos(i64::try_from(position / E).unwrap() * 1_000_000)
}

fn times(position: u64) -> ElementTimes {
    ElementTimes { t0: t0(position), clock: Clock::Ptp, born: None }
}

fn write(publication: &mut RelayedPublication, positions: Range<u64>) {
    let start = positions.start;
    publication.write(start, times(start), &elements(positions)).unwrap();
}

/// Reads a ring as its reader does; returns the account and the pieces.
fn account_of(config: &PublicationConfig, ring: &ring::Ring) -> (Account, Vec<Range<u64>>) {
    let (mut reader, mut bytes) = (ring.reader_at_oldest(), Vec::new());
    let (mut hop, mut pieces): (Option<Hop>, _) = (None, Vec::new());
    while let Read::Record { kind, totals } = reader.read(&mut bytes) {
        let record = Record::decode_of(&config.description.schema, kind, totals, &bytes).unwrap();
        match record {
            Record::Began { first_index, origin, .. } => {
                assert_eq!(origin, Some(ORIGIN));
                hop = Some(Hop::join(E as u32, totals, first_index * E));
            }
            Record::Block(block) => {
                let positions = block.position..block.position + block.payload.len() as u64 / 2;
                assert_eq!((block.payload, block.t0), (&elements(positions.clone())[..], t0(block.position)));
                assert_eq!(block.clock, Clock::Ptp);
                hop.as_mut().unwrap().delivered(positions.clone());
                pieces.push(positions);
            }
            Record::Gap(_, gap) => drop(hop.as_mut().unwrap().gap(gap).clone()),
            Record::Settled(_, gap) => assert!(hop.as_mut().unwrap().settled(&gap).is_some()),
            Record::Ended { state, .. } => hop.as_mut().unwrap().end(state),
            Record::Upstream(..)
            | Record::Statement(..)
            | Record::Horizon { .. }
            | Record::TwoPublishers { .. } => {}
        }
    }
    let hop = hop.unwrap();
    let (state, elements, hops) = (hop.state(), hop.rows(), hop.inherited());
    let account = Account { state, datagrams: None, elements, hops, gaps: hop.gaps().cloned().collect() };
    assert_eq!(account.check(), Ok(()));
    (account, pieces)
}

#[test]
fn elements_and_holes_lie_in_the_ring_at_the_positions_of_the_stream() {
    let config = config();
    let mut publication = open_relayed_on_host(&config).unwrap();
    let ring = publication.publication.writer.as_ref().unwrap().reading_end();
    write(&mut publication, 12..20);
    publication.inherit(20..29, &waits(9), None).unwrap();
    write(&mut publication, 29..31);
    publication.tell_upstream(vec![hop_of("rig"), hop_of("gate")]).unwrap();
    write(&mut publication, 31..36);
    publication.settle(&(22..25), &late(3)).unwrap();
    publication.settle(&(20..22), &late(2)).unwrap();
    // The stream ends inside a sample.
    write(&mut publication, 36..37);
    assert_eq!(publication.next_position(), 37);
    drop(publication);
    let (account, pieces) = account_of(&config, &ring);
    assert_eq!(pieces, [12..18, 18..20, 29..30, 30..31, 31..33, 33..36, 36..37]);
    assert!(account.closed(), "{account:?}");
    assert_eq!((account.elements.first, account.elements.next, account.state), (4, 13, AccountState::Closed));
    let expected = [(1, Outcome::Lost(Stage::Deadline), 5), (1, Outcome::Unexplained, 4 + 2)];
    assert_eq!(account.hops, shares(&expected));
}

fn hop_of(station: &str) -> UpstreamHop {
    UpstreamHop { station: station.to_owned(), lost: StageCounts::default(), unexplained: 0 }
}

#[test]
fn samples_larger_than_records_are_written_in_pieces() {
    let mut config = config();
    let channels = (0..4_000).map(|index| Channel::new(index.to_string(), "V")).collect();
    config.description.schema = Schema::new(Dtype::F8, SampleRate::hz(10).unwrap(), channels).unwrap();
    config.ring_bytes = MIN_RING_BYTES;
    config.relayed = Some(Relayed { origin: ORIGIN, first_position: 8_000 });
    let mut publication = open_relayed_on_host(&config).unwrap();
    let mut reader = publication.publication.writer.as_ref().unwrap().reading_end().reader_at_oldest();
    let (mut bytes, mut next) = (Vec::new(), 8_000);
    for _ in 0..10 {
        let position = publication.next_position();
        publication.write(position, times(0), &[0; 8_000]).unwrap();
        while let Read::Record { kind, totals } = reader.read(&mut bytes) {
            let record = Record::decode_of(&config.description.schema, kind, totals, &bytes).unwrap();
            if let Record::Block(block) = record {
                assert_eq!(block.position, next);
                next += block.payload.len() as u64 / 8;
            }
        }
        assert_eq!(next, publication.next_position());
    }
}

#[test]
fn what_does_not_follow_is_refused_in_words_and_changes_nothing() {
    let mut publication = open_relayed_on_host(&config()).unwrap();
    write(&mut publication, 12..14);
    let one = shares(&[(0, Outcome::Unexplained, 1)]);
    let refused = [
        publication.write(15, times(15), &elements(15..16)),
        publication.write(12, times(12), &elements(12..13)),
        publication.write(14, times(14), &[]),
        publication.write(14, times(14), &[1]),
        publication.inherit(15..16, &one, None),
        publication.inherit(14..14, &HopCounts::default(), None),
        publication.inherit(14..16, &one, None),
        publication.inherit(14..15, &shares(&[(2, Outcome::Unexplained, 1)]), None),
        publication.inherit(14..MAX_POSITION + 1, &one, None),
        publication.settle(&(14..16), &one),
        publication.settle(&(14..15), &shares(&[(2, Outcome::Unexplained, 1)])),
        publication.tell_upstream(vec![hop_of("rig")]),
        publication.state(&[0; MAX_TALLY_STATEMENT_BYTES + 1]),
    ];
    let words: Vec<String> = refused.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert_eq!(words[0], "positions 15 to 16 do not begin at 14, where the stream ends");
    assert_eq!(words[3], "1 bytes are no elements of 2 bytes each");
    assert_eq!(words[6], "2 missing elements have 1 outcomes");
    assert_eq!(words[7], "3 hops are told of a stream on hop 2");
    assert_eq!(publication.next_position(), 14);
    publication.inherit(14..15, &one, None).unwrap();
}

#[test]
fn an_origin_that_cannot_be_is_refused() {
    let refused = |relayed| {
        let config = PublicationConfig { relayed: Some(relayed), ..config() };
        open_relayed_on_host(&config).err().expect("it is refused")
    };
    let hop = NonZeroU8::new(9).unwrap();
    let too_far = Relayed { origin: Origin { hop, ..ORIGIN }, first_position: 0 };
    assert!(matches!(refused(too_far), SendError::Origin { hop: 9 }));
    let own = Relayed { origin: Origin { epoch: config().epoch, ..ORIGIN }, first_position: 0 };
    assert!(matches!(refused(own), SendError::Origin { .. }));
    let inside = Relayed { origin: ORIGIN, first_position: 13 };
    assert!(matches!(refused(inside), SendError::FirstPosition { first_position: 13, per_sample: 3 }));
}

/// Sends all that was written, later than its pacing.
fn send_all(send_path: &mut SendPath) {
    let now = sys::clock::monotonic();
    for millis in 0..2_000 {
        send_path.poll(now + std::time::Duration::from_millis(millis), None);
    }
    assert_eq!(send_path.waiting_bytes(), 0);
}

#[test]
fn the_send_path_sends_pieces_and_skips_holes_with_their_causes() {
    let (_listener, open) = listener();
    let config = PublicationConfig { destinations: vec![open], ..config() };
    let (publication, send_path) = opened(&config);
    let mut publication = RelayedPublication::over(publication);
    // Dropped before its publication, which waits for its end.
    let mut send_path = send_path;
    write(&mut publication, 12..20);
    publication.inherit(20..29, &waits(9), None).unwrap();
    publication.tell_upstream(vec![hop_of("rig"), hop_of("gate")]).unwrap();
    write(&mut publication, 29..36);
    publication.settle(&(20..29), &late(9)).unwrap();
    send_all(&mut send_path);
    let samples = send_path.totals().samples;
    assert!(samples.is_balanced(), "{samples:?}");
    // Samples 0 to 3 were never offered; samples 7 and 8 are missing as a whole, 6 and 9 in part.
    assert_eq!((samples.offered, samples.source), (12, 4 + 2), "{samples:?}");
}

#[test]
fn elements_that_the_ring_overwrote_before_they_were_sent_are_lost_in_the_queue() {
    let (_listener, open) = listener();
    let config = PublicationConfig { ring_bytes: MIN_RING_BYTES, destinations: vec![open], ..config() };
    let (publication, send_path) = opened(&config);
    let mut publication = RelayedPublication::over(publication);
    // Dropped before its publication, which waits for its end.
    let mut send_path = send_path;
    write(&mut publication, 12..13);
    publication.inherit(13..20, &waits(7), None).unwrap();
    write(&mut publication, 20..12_000);
    send_all(&mut send_path);
    let samples = send_path.totals().samples;
    assert!(samples.is_balanced() && samples.publisher_queue > 0, "{samples:?}");
    assert_eq!(samples.offered, 4_000);
    // Outcomes of holes that were overwritten may come all the same.
    publication.settle(&(13..20), &late(7)).unwrap();
    send_all(&mut send_path);
}

#[test]
fn a_reader_that_is_too_late_for_the_ring_is_told_the_beginning_and_every_hop() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let rings = HostRings::new(directory.path(), "test", Access::Owner);
    let config = PublicationConfig { host: Some(rings), ..config() };
    let mut publication = open_relayed_on_host(&config).unwrap();
    write(&mut publication, 12..20);
    publication.inherit(20..30, &waits(10), None).unwrap();
    publication.settle(&(20..30), &late(10)).unwrap();
    let (mut note, ring) = ring::ring(MIN_RING_BYTES);
    publication.publication.tell_end(&mut note);
    let (account, pieces) = account_of(&config, &ring);
    assert!(account.explained() && pieces.is_empty(), "{account:?}");
    assert_eq!(account.elements.lost[Stage::ReaderLag], 8);
    assert_eq!(account.hops, late(10));
}
