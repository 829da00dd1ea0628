//! Signed statements on their way: each in several tallies, and the last one in all final ones.

use core::time::Duration;

use cast::send::StatementStats;
use ledger::AccountState;
use sim::{Link, NodeId, Port};
use units::Instant;

use crate::line::at;
use crate::line::feed::Holes;
use crate::line::publisher::Command;
use crate::line::scene::{EPOCH, StreamShape, accounts, publisher, reader, watched_by};

const STATEMENTS: u8 = 20;

/// Plays a publisher that makes a statement every 300 ms on a link with this loss; returns those that arrived, by
/// their first bytes, once the account has closed.
fn arrived(seed: u64, loss: f64) -> Vec<u8> {
    let span = Instant::ORIGIN..at(300 * u64::from(STATEMENTS));
    let mut publisher = publisher(&StreamShape::PLAIN, EPOCH, span.clone(), Holes::NONE);
    for number in 0..STATEMENTS {
        let statement = vec![number; wire::MAX_TALLY_STATEMENT_BYTES];
        publisher = publisher.told(at(300 * u64::from(number) + 150), Command::State(statement));
    }
    // As a publisher that closes: behind the last samples, before the final tally.
    let last = vec![STATEMENTS; 100];
    publisher = publisher.told(span.end + Duration::from_millis(99), Command::State(last));
    let port = Port { down: Link::lan().loss(loss), ..Port::default() };
    let (mut network, node) = watched_by(seed, publisher, reader(seed).waiting(), port);
    let accounts = accounts(&mut network, node, at(20_000));
    assert!(accounts.iter().all(|(_, account)| account.state == AccountState::Closed), "seed {seed}");
    network.node(node).reader().watch.statements.iter().map(|bytes| bytes[0]).collect()
}

#[test]
fn every_statement_arrives_once_and_in_its_order_where_nothing_is_lost() {
    assert_eq!(arrived(1, 0.0), (0..=STATEMENTS).collect::<Vec<_>>());
}

#[test]
fn lost_tallies_cost_few_statements_and_never_the_last() {
    let mut lost = 0;
    for seed in 0..20 {
        let found = arrived(seed, 0.2);
        assert!(found.is_sorted_by(|a, b| a < b), "seed {seed}: {found:?}");
        assert_eq!(found.last(), Some(&STATEMENTS), "seed {seed}: the last is in five tallies");
        // Before the description has arrived, tallies tell nothing.
        lost += usize::from(STATEMENTS - found[0]) + 1 - found.len();
    }
    // One in 125 has all three tallies lost, about 3 of 420; without repeats one in five, 84.
    assert!(lost <= 10, "{lost} statements were lost");
}

#[test]
fn a_narrow_path_tells_small_statements_and_counts_those_without_room() {
    let shape = StreamShape { datagram_bytes: wire::MIN_DATAGRAM_BYTES, ..StreamShape::PLAIN };
    let span = Instant::ORIGIN..at(1_000);
    // As a publisher's: the first has room in the smallest datagrams, the second has none, the third comes behind it.
    let sizes = [(150, 200), (300, wire::MAX_TALLY_STATEMENT_BYTES), (450, 201)];
    let publisher =
        sizes.into_iter().fold(publisher(&shape, EPOCH, span, Holes::NONE), |publisher, (at_ms, size)| {
            publisher.told(at(at_ms), Command::State(vec![1; size]))
        });
    let (mut network, node) = watched_by(1, publisher, reader(1).waiting(), Port::default());
    let accounts = accounts(&mut network, node, at(20_000));
    assert!(accounts.iter().all(|(_, account)| account.state == AccountState::Closed));
    let arrived = network.node(node).reader().watch.statements.iter().map(Vec::len);
    assert_eq!(arrived.collect::<Vec<_>>(), [200, 201]);
    let stats = network.node(NodeId(0)).publisher().sender().unwrap().statement_stats();
    assert_eq!(stats, StatementStats { taken: 3, too_large: 1, displaced: 0 });
}
