//! Sockets on the loopback interface, waiting for datagrams with a watchdog, and the scenes that
//! every kind of address must pass.

use std::net::SocketAddr;
use std::time::Duration;

use support::Watchdog;
use sys::{
    Interest, Interface, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, SendOptions,
    SendSocket, SendTechniques, clock,
};

/// Buffer size for everything the tests send.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address with a port")
}

pub(crate) fn receiver(address: SocketAddr, buffer_bytes: usize) -> ReceiveSocket {
    let interface = Some(Interface::find("lo").expect("every host has it"));
    ReceiveSocket::open(&ReceiveOptions { interface, ..ReceiveOptions::at(address, buffer_bytes) })
        .expect("it opens")
}

pub(crate) fn sender(destination: SocketAddr) -> SendSocket {
    let interface = Some(Interface::find("lo").expect("every host has it"));
    let (loopback, buffer_bytes) = (Loopback::On, BUFFER_BYTES);
    let techniques = SendTechniques::default();
    let options = SendOptions { destination, interface, ttl: 1, loopback, buffer_bytes, techniques };
    SendSocket::open(&options).expect("it opens")
}

/// Sends one datagram of eight bytes.
pub(crate) fn send_number(socket: &mut SendSocket, number: u64, to: SocketAddr) {
    assert_eq!(socket.send_batch(&[&number.to_le_bytes()], to), [Outcome::Sent]);
}

/// Returns the number at the beginning of a datagram.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("the tests send numbers"))
}

/// Receives until `enough` returns true for the batch.
pub(crate) fn receive_until(
    socket: &ReceiveSocket,
    batch: &mut ReceiveBatch,
    mut enough: impl FnMut(&ReceiveBatch) -> bool,
) {
    let watchdog = Watchdog::new("datagrams");
    let mut poller = Poller::new().expect("it opens");
    poller.add(socket, 0, Interest::Read).expect("a socket can be waited for");
    loop {
        socket.receive_batch(batch).expect("nothing but an empty queue");
        if enough(batch) {
            return;
        }
        watchdog.check();
        // Short, since not every condition comes with a datagram.
        poller.wait(Some(clock::monotonic() + Duration::from_millis(1))).expect("nothing interrupts");
    }
}

/// Returns a datagram of `size_bytes` with a number at its beginning.
pub(crate) fn numbered(number: u64, size_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; size_bytes];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Lets enough datagrams be accepted, one by one and awaited, that batches and trains are used.
pub(crate) fn earn_trust(sender: &mut SendSocket, receiver: &ReceiveSocket) {
    let to = receiver.local_address();
    for number in 0..1_100 {
        send_number(sender, number, to);
        assert_eq!(numbers(receiver, 1), [number]);
    }
}

/// Receives exactly `count` datagrams and returns their numbers.
pub(crate) fn numbers(socket: &ReceiveSocket, count: usize) -> Vec<u64> {
    let (mut batch, mut found) = (ReceiveBatch::for_trains(), Vec::new());
    receive_until(socket, &mut batch, |batch| {
        for received in batch.iter() {
            found.extend(received.datagrams().map(number));
        }
        found.len() >= count
    });
    found
}

/// Sends in single calls and in batches; all arrive, in order, with their evidence.
pub(crate) fn makes_the_round(address: SocketAddr) {
    let receiver = receiver(address, BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    let payloads: Vec<_> = (0..3_000_u64).map(u64::to_le_bytes).collect();
    let mut all = Vec::new();
    // Small steps, so that no buffer overflows; enough of them that batches are gained.
    for step in payloads.chunks(100) {
        let datagrams: Vec<&[u8]> = step.iter().map(<[u8; 8]>::as_slice).collect();
        assert!(sender.send_batch(&datagrams, to).iter().all(|outcome| *outcome == Outcome::Sent));
        all.extend(numbers(&receiver, step.len()));
    }
    assert_eq!(all, (0..3_000).collect::<Vec<_>>());
    assert_eq!(sender.retried(), 0);

    let before = clock::wall();
    send_number(&mut sender, 7, to);
    let mut batch = ReceiveBatch::new();
    receive_until(&receiver, &mut batch, |batch| batch.iter().len() == 1);
    let received = batch.iter().next().expect("it works");
    assert_eq!((number(received.bytes), received.drops, received.truncated), (7, None, false));
    assert_eq!(received.from.port(), sender.local_address().port());
    assert!(received.from.ip().is_loopback());
    let time = received.kernel_time.expect("the kernel stamps every datagram");
    assert!(before <= time && time <= clock::wall(), "stamped at {time:?}");
}

/// Two sockets in one group, one in another: each receives its own.
pub(crate) fn keeps_groups_apart(a: SocketAddr, mut b: SocketAddr) {
    let first = receiver(a, BUFFER_BYTES);
    let a = first.local_address();
    b.set_port(a.port());
    let (second, other) = (receiver(a, BUFFER_BYTES), receiver(b, BUFFER_BYTES));
    let mut sender = sender(a);
    for (number, to) in [(1, b), (2, a), (3, b), (4, a)] {
        send_number(&mut sender, number, to);
    }
    assert_eq!(numbers(&first, 2), [2, 4]);
    assert_eq!(numbers(&second, 2), [2, 4]);
    assert_eq!(numbers(&other, 2), [1, 3]);
}

/// Leaves the group and joins it again, with a second member that stays.
pub(crate) fn leaves_and_comes_back(group: SocketAddr) {
    let leaver = receiver(group, BUFFER_BYTES);
    let to = leaver.local_address();
    let witness = receiver(to, BUFFER_BYTES);
    let mut sender = sender(to);
    send_number(&mut sender, 1, to);
    assert_eq!(numbers(&leaver, 1), [1]);
    leaver.leave().expect("it works");
    send_number(&mut sender, 2, to);
    // The second member proves that the datagram was delivered.
    assert_eq!(numbers(&witness, 2), [1, 2]);
    leaver.join().expect("it works");
    send_number(&mut sender, 3, to);
    assert_eq!(numbers(&leaver, 1), [3]);
}
