//! Publishers and readers of different versions of the protocol.

use ledger::AccountState;
use sim::{Link, NodeId, Port};
use units::Instant;
use wire::VERSION;

use crate::line::feed::Holes;
use crate::line::scene::{EPOCH, StreamShape, accounts, publisher, reader, watched_by};
use crate::line::{address, at};

const SHAPE: StreamShape = StreamShape::PLAIN;

/// Adds an extension of a later version that is not critical, behind the others.
fn extended(datagram: &mut Vec<u8>) {
    const UNKNOWN: [u8; 16] = [200, 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0];
    let header_bytes = usize::from(u16::from_le_bytes([datagram[6], datagram[7]]));
    datagram.splice(header_bytes..header_bytes, UNKNOWN);
    sealed(datagram, header_bytes + UNKNOWN.len());
}

/// Converts a datagram to the next version.
#[expect(clippy::ptr_arg, reason = "as one that makes it longer")]
fn of_next_version(datagram: &mut Vec<u8>) {
    datagram[2] = VERSION + 1;
    let header_bytes = usize::from(u16::from_le_bytes([datagram[6], datagram[7]]));
    sealed(datagram, header_bytes);
}

fn sealed(datagram: &mut [u8], header_bytes: usize) {
    let size = u16::try_from(header_bytes).expect("a header");
    datagram[6..8].copy_from_slice(&size.to_le_bytes());
    datagram[8..12].fill(0);
    let crc = crc_fast::crc32_iscsi(&datagram[..header_bytes]);
    datagram[8..12].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn what_a_later_version_adds_to_data_tallies_and_descriptors_is_passed_over() {
    let publisher = publisher(&SHAPE, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE).translating(extended);
    let port = Port { down: Link::lan().loss(0.01), ..Port::default() };
    let (mut network, node) = watched_by(1, publisher, reader(1).waiting(), port);
    let accounts = accounts(&mut network, node, at(15_000));
    let [(truth, account)] = &accounts[..] else { panic!("one account: {accounts:?}") };
    assert_eq!(
        (account.state, account.elements.first, account.elements.next),
        (AccountState::Closed, 0, 30_000)
    );
    assert_eq!(account.datagrams.expect("a socket").unexplained, truth.network, "only what the link lost");
    let stats = network.node(node).reader().receiver.stats();
    let unused: u64 = stats.unused().iter().map(|(_, count)| count).sum();
    assert_eq!(unused, stats.after_end, "nothing but copies of the final tally was left out: {stats:?}");
}

#[test]
fn a_later_version_itself_is_refused_counted_and_said_once() {
    let publisher = publisher(&SHAPE, EPOCH, Instant::ORIGIN..at(3_000), Holes::NONE);
    let port = Port { down: Link::lan(), ..Port::default() };
    let (mut network, node) =
        watched_by(1, publisher.translating(of_next_version), reader(1).waiting(), port);
    let accounts = accounts(&mut network, node, at(15_000));
    assert!(accounts.is_empty(), "{accounts:?}");
    let reader = network.node(node).reader();
    assert_eq!(reader.watch.unknown_versions, [(VERSION + 1, address(NodeId(0)))]);
    let stats = reader.receiver.stats();
    assert!(stats.unknown_version > 3_000, "{stats:?}");
    assert_eq!(stats.unknown_version, stats.datagrams);
}
