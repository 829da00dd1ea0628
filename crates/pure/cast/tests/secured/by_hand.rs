//! Publishers and readers of a secured stream whose datagrams a test carries by hand.

use core::net::SocketAddr;
use core::ops::Range;
use std::sync::Arc;

use cast::receive::{self, Event, ReaderIdentity};
use cast::secure::Gate;
use cast::send::{Input, Output, SenderConfig};
use cast::{Receiver, Sender};
use keys::{Membership, Suite};
use ledger::{Account, LedgerConfig};
use units::{Epoch, Instant, ReaderId};
use wire::Datagram;

use crate::laboratory::{Laboratory, wall};
use crate::nodes::{config, take};

const EPOCH: Epoch = Epoch { start_ns: 1_000, incarnation: 11 };

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

pub(crate) fn from() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7_400))
}

/// A member, and the configuration of its publisher.
pub(crate) fn hearing_member() -> (Arc<Membership>, SenderConfig) {
    let mut laboratory = Laboratory::new(9, Suite::Aes256Gcm);
    let secrets = [laboratory.secret(1, wall(at(0)))];
    let membership = laboratory.member(&secrets);
    let config = config(&mut laboratory, &membership, EPOCH, at(0));
    (membership, config)
}

/// Returns the datagrams that a sender sends in a span, each with its destinations.
pub(crate) fn sent(
    sender: &mut Sender,
    Range { start, end }: Range<Instant>,
) -> Vec<(Range<usize>, Vec<u8>)> {
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

/// A receiver behind its gate.
pub(crate) struct Reader {
    pub(crate) gate: Gate,
    pub(crate) receiver: Receiver,
    pub(crate) accounts: Vec<Account>,
    /// Pairs of epochs of which it was told that they share a name.
    pub(crate) two_publishers: Vec<(Epoch, Epoch)>,
}

impl Reader {
    pub(crate) fn new(membership: &Arc<Membership>, now: Instant) -> Self {
        let identity = ReaderIdentity { id: ReaderId(7), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        Self {
            gate: Gate::new(Arc::clone(membership), now, wall(now), 1),
            receiver: Receiver::new(identity, LedgerConfig::default(), 7),
            accounts: Vec::new(),
            two_publishers: Vec::new(),
        }
    }

    pub(crate) fn hears(&mut self, now: Instant, bytes: &[u8], from: SocketAddr) {
        let (mut bytes, segment_bytes) = (bytes.to_vec(), bytes.len());
        let Self { gate, receiver, .. } = self;
        gate.pass(now, &mut bytes, segment_bytes, from, &mut |passed| take(receiver, now, passed));
    }

    /// Returns what it sends at `now`, with its destinations.
    pub(crate) fn sends(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let Self { gate, receiver, accounts, two_publishers } = self;
        gate.advance(now, &mut |passed| take(receiver, now, passed));
        receiver.handle(now, receive::Input::Advance);
        let (mut sent, mut buffer) = (Vec::new(), [0; 2_048]);
        loop {
            match receiver.poll(now, &mut buffer) {
                receive::Output::Transmit { to, size_bytes } => {
                    sent.push((to, buffer[..size_bytes].to_vec()))
                }
                receive::Output::Event(Event::Ended { account, .. }) => accounts.push(account),
                receive::Output::Event(Event::TwoPublishers { winner, other, .. }) => {
                    two_publishers.push((winner, other));
                }
                receive::Output::Event(_) => {}
                receive::Output::Idle { .. } => {
                    receiver.check().unwrap();
                    return sent;
                }
            }
        }
    }
}

/// Hands over what a reader sent.
pub(crate) fn answer(sender: &mut Sender, now: Instant, bytes: &[u8]) {
    match Datagram::decode(bytes).unwrap() {
        Datagram::Request(request) => sender.handle(now, Input::Request(&request)),
        Datagram::Report(report) => {
            let (from, size_bytes) = (from().ip(), bytes.len());
            sender.handle(now, Input::Report { report: &report, from, size_bytes });
        }
        other => panic!("{other:?}"),
    }
}
