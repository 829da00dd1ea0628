//! Scenes at level `group`: forgeries, replays, rotations, restarts, recordings.

use core::time::Duration;
use std::sync::Arc;

use keys::{GroupSecret, Membership, Suite};
use sim::{Link, Network, Port};
use units::{Epoch, Instant};
use wire::Kind;

use crate::laboratory::{Laboratory, wall};
use crate::nodes::{
    ATTACKER, Attacker, BLOCK_SAMPLES, Change, GROUP, PUBLISHER, Part, Publisher, READER, Reader, config,
    with_interval,
};

pub(crate) const EPOCH: Epoch = Epoch { start_ns: 1_000, incarnation: 11 };

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A link that loses some numbers, whoever sends them.
fn lossy(share_percent: u64) -> Link {
    Link::ideal().lose_when("by number", move |passing| {
        let Some(number) = passing.bytes.get(40..48) else { return false };
        let number = u64::from_le_bytes(number.try_into().unwrap());
        let is_data = passing.bytes[3] == Kind::Data.code();
        is_data
            && number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < share_percent * (u64::from(u32::MAX) / 100)
    })
}

pub(crate) fn scene(publisher: Publisher, reader: Reader, attacker: Attacker, down: Link) -> Network<Part> {
    let mut network = Network::new(1);
    let port = |down| Port { down, ..Port::default() };
    network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
    network.add("reader", Part::Reader(Box::new(reader)), port(down));
    network.add("attacker", Part::Attacker(Box::new(attacker)), Port::default());
    network.join(READER, GROUP);
    network
}

pub(crate) fn reader(network: &Network<Part>) -> &Reader {
    let Part::Reader(reader) = network.node(READER) else { unreachable!() };
    reader
}

pub(crate) fn publisher(network: &Network<Part>) -> &Publisher {
    let Part::Publisher(publisher) = network.node(PUBLISHER) else { unreachable!() };
    publisher
}

/// Plays a scene of a publisher that restarts once, and returns all that its two ends saw of each other.
fn outcome(seed: u64, forgeries_per_datagram: u64) -> (Vec<String>, String, u64, u64) {
    let suite = Suite::ALL[(seed % 2) as usize];
    let mut laboratory = Laboratory::new(seed, suite);
    let secrets = [laboratory.secret(1, wall(at(0))), laboratory.secret(2, wall(at(350)))];
    let ours = laboratory.member(&secrets);
    let restart = config(&mut laboratory, &ours, Epoch { start_ns: 2_000, incarnation: 12 }, at(700));
    let first = config(&mut laboratory, &ours, EPOCH, at(0));
    let publisher_part =
        Publisher::new(&ours, first, at(1_500)).changes(at(700), Change::Restart(Box::new(restart)));
    let reader_part = Reader::new(&mut laboratory, &ours);
    let foreign = foreign(seed, suite);
    let attacker = Attacker::new(seed, forgeries_per_datagram, &foreign);
    let mut network = scene(publisher_part, reader_part, attacker, lossy(seed % 3));
    network.run_until(at(8_000));
    let (reader, publisher) = (reader(&network), publisher(&network));
    let (counts, gate) = (publisher.unauthentic, reader.gate.stats().unauthentic);
    let Part::Attacker(attacker) = network.node(ATTACKER) else { unreachable!() };
    if forgeries_per_datagram == 0 {
        assert_eq!((counts.total(), gate.total(), attacker.sent), (0, 0, 0), "seed {seed}");
        assert!(
            reader.ended >= 2 && reader.delivered > 10_000,
            "seed {seed}: {} {}",
            reader.ended,
            reader.delivered
        );
    } else {
        assert!(gate.bad_tag > 0 && gate.replayed > 0 && gate.clear > 0, "seed {seed}: {gate:?}");
        assert!(counts.no_key > 0 && counts.wrong_sender > 0 && counts.clear > 0, "seed {seed}: {counts:?}");
    }
    println!("seed {seed}: {} datagrams of the attacker", attacker.sent);
    (reader.accounts.clone(), format!("{:?}", reader.receiver.stats()), reader.delivered, publisher.reports)
}

pub(crate) fn foreign(seed: u64, suite: Suite) -> Arc<Membership> {
    let mut laboratory = Laboratory::new(seed + 1_000_000, suite);
    let secrets: Vec<GroupSecret> = [1, 2].map(|token| laboratory.secret(token, wall(at(0)))).into();
    laboratory.member(&secrets)
}

/// `TALLYCAST_SEEDS` counts seeds as the other simulations do, of which a scene here takes twenty: with the 2,000 of the
/// suite it makes some 1.5 million forgeries.
#[test]
fn forgeries_and_replays_change_nothing_that_either_end_sees() {
    for seed in 0..scenes() {
        assert_eq!(outcome(seed, 10), outcome(seed, 0), "seed {seed}");
    }
}

/// 100,000 datagrams/s, of which every fifth is overtaken by up to ten others; each secret is sent with for 25 of them.
/// `TALLYCAST_SEEDS` counts as for forgeries: the 2,000 of the suite make 10,000 rotations.
#[test]
fn a_thousand_rotations_lose_nothing_and_refuse_nothing() {
    const INTERVAL: Duration = Duration::from_micros(10);
    const DATAGRAMS: u64 = 25;
    let rotations = (scenes() * 100).max(1_000);
    let mut laboratory = Laboratory::new(3, Suite::Aes256Gcm);
    // The reader has joined by the first.
    let due =
        |rotation: u64| at(150) + INTERVAL * u32::try_from(rotation.saturating_sub(1) * DATAGRAMS).unwrap();
    let end = due(rotations + 1);
    // Each secret is distributed before its time, to the reader and to the publisher, and an old one is kept for some.
    let secrets: Vec<_> = (0..=rotations)
        .map(|token| laboratory.secret(u32::try_from(token).unwrap(), wall(due(token))))
        .collect();
    let mut member = |now: usize| {
        let membership = laboratory.member(&secrets[now.saturating_sub(3)..(now + 3).min(secrets.len())]);
        (now, membership)
    };
    let members: Vec<_> = (0..secrets.len()).map(&mut member).collect();
    let config = with_interval(config(&mut laboratory, &members[0].1, EPOCH, at(0)), INTERVAL);
    let mut publisher_part = Publisher::new(&members[0].1, config, end);
    let mut reader_part = Reader::new(&mut laboratory, &members[0].1);
    for (now, membership) in &members[1..] {
        let due = due(*now as u64);
        publisher_part = publisher_part.changes(due, Change::Membership(Arc::clone(membership)));
        reader_part = reader_part.gets(due, Arc::clone(membership));
    }
    let attacker = Attacker::new(1, 0, &foreign(1, Suite::Aes256Gcm));
    let mut network = scene(publisher_part, reader_part, attacker, Link::lan().reorder(0.2, INTERVAL * 10));
    // Overtaken datagrams below the number at which the account begins are refused.
    network.run_until(due(1));
    let joined = reader(&network).gate.stats().unauthentic;
    network.run_until(end + Duration::from_secs(5));
    let reader = reader(&network);
    assert!(reader.delivered > rotations * DATAGRAMS * BLOCK_SAMPLES, "{}", reader.delivered);
    assert_eq!((reader.missing, reader.ended), (0, 1));
    assert!(
        reader.overtaken > rotations,
        "{} datagrams were overtaken by a newer secret's",
        reader.overtaken
    );
    assert_eq!(reader.gate.stats().unauthentic, joined);
    assert_eq!(publisher(&network).unauthentic.total(), 0);
}

#[test]
fn a_member_without_the_new_secret_is_blind_at_once_and_reads_on_when_it_gets_it() {
    let mut laboratory = Laboratory::new(5, Suite::ChaCha20Poly1305);
    let secrets = [laboratory.secret(1, wall(at(0))), laboratory.secret(2, wall(at(500)))];
    let ours = laboratory.member(&secrets);
    let removed = laboratory.member(&secrets[..1]);
    let config = config(&mut laboratory, &ours, EPOCH, at(0));
    let publisher_part = Publisher::new(&ours, config, at(2_000));
    let reader_part = Reader::new(&mut laboratory, &removed).gets(at(1_000), Arc::clone(&ours));
    let attacker = Attacker::new(1, 0, &foreign(1, Suite::Aes256Gcm));
    let mut network = scene(publisher_part, reader_part, attacker, Link::ideal());
    network.run_until(at(999));
    let blind = reader(&network).delivered;
    assert!((5_000..=6_000).contains(&blind), "{blind} until the next tally or descriptor");
    let refused = reader(&network).gate.stats().unauthentic;
    assert!(refused.no_key > 300 && refused.total() == refused.no_key, "{refused:?}");
    network.run_until(at(6_000));
    let reader = reader(&network);
    assert!(reader.delivered >= blind + 9_990, "{}", reader.delivered);
    assert_eq!(reader.ended, 1, "its losses are in the account, which closes");
}

#[test]
fn a_recorded_publisher_does_not_begin_for_a_fresh_reader_with_a_clock_of_later() {
    let mut laboratory = Laboratory::new(6, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let ours = laboratory.member(&secrets);
    let mut config = config(&mut laboratory, &ours, EPOCH, at(0));
    // Its clock is behind by more than the bound, as a recording's is.
    let behind = wire::CLOCK_BOUND + Duration::from_secs(3);
    let security = config.security.as_mut().unwrap();
    security.wall = security.wall.offset(-i64::try_from(behind.as_nanos()).unwrap());
    let publisher_part = Publisher::new(&ours, config, at(1_000));
    let reader_part = Reader::new(&mut laboratory, &ours);
    let attacker = Attacker::new(1, 0, &foreign(1, Suite::Aes256Gcm));
    let mut network = scene(publisher_part, reader_part, attacker, Link::ideal());
    network.run_until(at(3_000));
    let reader = reader(&network);
    assert_eq!((reader.delivered, reader.ended), (0, 0));
    assert!(reader.gate.stats().unauthentic.wrong_sender > 0);
}

/// The first descriptors of a restarted publisher are lost: what came before the next one was held.
#[test]
fn a_restart_whose_first_descriptors_are_lost_loses_nothing() {
    let mut laboratory = Laboratory::new(7, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let ours = laboratory.member(&secrets);
    let first = config(&mut laboratory, &ours, EPOCH, at(0));
    let second = Epoch { start_ns: 2_000, incarnation: 12 };
    let restart = config(&mut laboratory, &ours, second, at(700));
    let publisher_part =
        Publisher::new(&ours, first, at(2_000)).changes(at(700), Change::Restart(Box::new(restart)));
    let reader_part = Reader::new(&mut laboratory, &ours);
    let attacker = Attacker::new(1, 0, &foreign(1, Suite::Aes256Gcm));
    let link = Link::ideal().lose_when("early descriptors", move |passing| {
        let is_descriptor = passing.bytes[3] == Kind::Descriptor.code();
        let is_second = passing.bytes.get(24..32) == Some(&second.start_ns.to_le_bytes());
        is_descriptor && is_second && passing.at < at(1_000)
    });
    let mut network = scene(publisher_part, reader_part, attacker, link);
    network.run_until(at(6_000));
    let reader = reader(&network);
    // Two epochs: 700 ms and 1.3 s of ten samples a millisecond.
    assert!(
        reader.delivered >= 19_990,
        "{} {:?} {:?}",
        reader.delivered,
        reader.accounts,
        reader.gate.stats()
    );
    assert_eq!(reader.gate.stats().unauthentic.total(), 0);
}

/// Returns the number of scenes, at least one of each suite over a link without loss and over two with.
#[expect(clippy::disallowed_methods, reason = "how many seeds to run is asked of the caller of the tests")]
fn scenes() -> u64 {
    let seeds: u64 = std::env::var("TALLYCAST_SEEDS").map_or(200, |seeds| seeds.parse().unwrap());
    (seeds / 20).max(6)
}
