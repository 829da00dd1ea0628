//! The relay on the loopback interface: it treats datagrams as the virtual network's machine does, and accounts for
//! all.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emulator::{Conditions, Relay, RelayError, RelayOptions, Report, Trains, Watch};
use sim::{Address, Arrival, Network, Node, NodeId, Port, Socket};
use support::{WATCHDOG, wait_until};
use sys::{Loopback, SendOptions, SendSocket, SendTechniques};

/// A relay on a thread of its own; dropping it stops the relay.
struct Running {
    address: SocketAddr,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<Report>>,
}

impl Running {
    fn start(server: &UdpSocket, change: impl FnOnce(&mut RelayOptions)) -> Self {
        let target = server.local_addr().unwrap();
        let mut options = RelayOptions::new(any(), target, Conditions::default(), 1);
        change(&mut options);
        let relay = Relay::open(options).unwrap();
        let (address, watch) = (relay.address(), Arc::new(Watch::default()));
        let watched = Arc::clone(&watch);
        let thread = std::thread::spawn(move || relay.run(&watched).unwrap());
        Self { address, watch, thread: Some(thread) }
    }

    fn end(mut self) -> Report {
        self.watch.stop();
        let report = self.thread.take().unwrap().join().unwrap();
        for way in [&report.forward, &report.reverse] {
            assert!(way.account.is_closed(), "{report:?}");
            assert_eq!(way.account.held, 0, "{report:?}");
            assert_eq!(way.lateness.count, way.account.passed + way.account.no_listener, "{report:?}");
        }
        report
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watch.stop();
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(any()).unwrap();
    socket.set_read_timeout(Some(WATCHDOG)).unwrap();
    socket
}

/// Receives `count` datagrams; returns the numbers at their beginnings, and the sender of the last.
fn receive(socket: &UdpSocket, count: usize) -> (Vec<u64>, Option<SocketAddr>) {
    let (mut bytes, mut last) = (vec![0; 65_536], None);
    let numbers = (0..count).map(|_| {
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        last = Some(from);
        assert!(length >= 8, "{length} bytes");
        u64::from_le_bytes(*bytes.first_chunk().unwrap())
    });
    (numbers.collect(), last)
}

fn send(socket: &UdpSocket, to: SocketAddr, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        socket.send_to(&number.to_le_bytes(), to).unwrap();
    }
}

/// Sends 500 datagrams, of which exactly these must arrive; returns the sender of the last. Limits the number in
/// flight to what any buffer holds.
fn crosses(from: &UdpSocket, to: SocketAddr, at: &UdpSocket, survivors: &[u64]) -> Option<SocketAddr> {
    let mut sender = None;
    for first in (0..500).step_by(100) {
        send(from, to, first..first + 100);
        let expected: Vec<u64> =
            survivors.iter().copied().filter(|number| (first..first + 100).contains(number)).collect();
        let (numbers, last) = receive(at, expected.len());
        assert_eq!(numbers, expected);
        sender = last.or(sender);
    }
    sender
}

/// A node of the virtual network that sends 500 numbers, and records those that arrive.
struct Part {
    to: NodeId,
    sent: u64,
    heard: Vec<u64>,
}

impl Node for Part {
    fn receive(&mut self, _now: units::Instant, arrival: &Arrival<'_>) {
        self.heard.push(u64::from_le_bytes(*arrival.bytes.first_chunk().unwrap()));
    }

    fn poll(&mut self, _now: units::Instant, socket: &mut Socket<'_>) -> Option<units::Instant> {
        for number in std::mem::replace(&mut self.sent, 500)..500 {
            socket.send(Address::Node(self.to), &number.to_le_bytes());
        }
        None
    }
}

/// Returns the numbers that arrive in each direction in the virtual network, over the same link with the same seed.
fn survivors(conditions: &Conditions, seed: u64) -> [Vec<u64>; 2] {
    let link = || conditions.link().unwrap();
    let mut network = Network::new(seed);
    let part = |to| Part { to: NodeId(to), sent: 0, heard: Vec::new() };
    network.add("client", part(1), Port { up: link(), down: link(), ..Port::default() });
    network.add("server", part(0), Port::default());
    network.run_for(Duration::from_secs(1));
    [1, 0].map(|node| network.node(NodeId(node)).heard.clone())
}

#[test]
fn what_is_lost_in_both_directions_is_what_the_virtual_network_loses() {
    for seed in 1..5 {
        let server = socket();
        let mut conditions = Conditions { loss: 0.1, bursts: Some((0.1, 3.0)), ..Conditions::default() };
        conditions.placed = vec![0, 17];
        let relay = Running::start(&server, |options| {
            (options.forward, options.reverse) = (conditions.clone(), conditions.clone());
            options.seed = seed;
        });
        let client = socket();
        let [forward, reverse] = survivors(&conditions, seed);
        let port = crosses(&client, relay.address, &server, &forward).unwrap();
        assert_eq!(crosses(&server, port, &client, &reverse), Some(relay.address), "seed {seed}");
        let report = relay.end();
        for (way, survivors) in [(report.forward, forward), (report.reverse, reverse)] {
            let (account, passed) = (way.account, survivors.len() as u64);
            assert_eq!((account.taken, account.passed, account.lost.sum()), (500, passed, 500 - passed));
            assert_eq!((account.taken_bytes, account.passed_bytes), (4_000, passed * 8));
            assert_eq!(account.lost.placed, 2);
            assert!(account.lost.random > 0 && account.lost.burst > 0, "{account:?}");
        }
    }
}

#[test]
fn a_round_trip_takes_both_delays() {
    let server = socket();
    let delays = [Duration::from_millis(7), Duration::from_millis(11)];
    let relay = Running::start(&server, |options| {
        (options.forward.delay, options.reverse.delay) = (delays[0], delays[1])
    });
    let client = socket();
    for number in 0..5 {
        let began = Instant::now();
        send(&client, relay.address, [number]);
        let (_, from) = receive(&server, 1);
        assert!(began.elapsed() >= delays[0], "{:?}", began.elapsed());
        send(&server, from.unwrap(), [number]);
        assert_eq!(receive(&client, 1).0, [number]);
        assert!(began.elapsed() >= delays[0] + delays[1], "{:?}", began.elapsed());
    }
    relay.end();
}

#[test]
fn a_bottleneck_takes_its_time_and_loses_what_finds_no_room() {
    let server = socket();
    // 934 bytes are 1,000 on the wire, which take a millisecond; three fit into the queue.
    let relay = Running::start(&server, |options| {
        (options.forward.rate_bits_per_s, options.forward.queue_bytes) = (Some(8_000_000), Some(3_000));
    });
    let client = socket();
    let began = Instant::now();
    for number in 0..40_u64 {
        let mut datagram = [0; 934];
        datagram[..8].copy_from_slice(&number.to_le_bytes());
        client.send_to(&datagram, relay.address).unwrap();
    }
    let (numbers, _) = receive(&server, 3);
    assert_eq!(numbers[0], 0);
    assert!(began.elapsed() >= Duration::from_millis(3), "{:?}", began.elapsed());
    // At any send rate: as many as the link carries in that time, plus the queue.
    wait_until("the last of them", || {
        let [account, _] = relay.watch.accounts();
        (account.taken == 40 && account.held == 0).then_some(())
    });
    let (report, elapsed) = (relay.end(), began.elapsed());
    let account = report.forward.account;
    assert_eq!(account.passed + account.lost.queue, 40);
    assert!(u128::from(account.passed) <= elapsed.as_millis() + 4, "{account:?} in {elapsed:?}");
}

#[test]
fn each_datagram_of_a_train_is_judged_on_its_own() {
    for trains in [Trains::Taken, Trains::Split] {
        let server = socket();
        let placed = vec![1_150, 1_151, 1_200];
        let lost = placed.clone();
        let relay = Running::start(&server, |options| {
            options.forward.placed = placed;
            options.manner.trains = trains;
        });
        let mut client = SendSocket::open(&SendOptions {
            destination: relay.address,
            interface: None,
            ttl: 1,
            loopback: Loopback::On,
            buffer_bytes: 1 << 20,
            techniques: SendTechniques::default(),
        })
        .unwrap();
        // One by one until the socket trusts the path with trains; then the rest in four trains.
        for number in 0..1_100_u64 {
            client.send_batch(&[&number.to_le_bytes()], relay.address);
            if number % 50 == 49 {
                assert_eq!(receive(&server, 50).0.len(), 50);
            }
        }
        for first in [1_100_u64, 1_150, 1_200, 1_250] {
            let train: Vec<u8> = (first..first + 50).flat_map(u64::to_le_bytes).collect();
            client.send_train(&train, 8, relay.address);
        }
        let expected: Vec<u64> = (1_100..1_300).filter(|number| !lost.contains(number)).collect();
        assert_eq!(receive(&server, expected.len()).0, expected, "{trains:?}");
        let account = relay.end().forward.account;
        assert_eq!((account.taken, account.lost.placed, account.passed), (1_300, 3, 1_297));
    }
}

#[test]
fn clients_have_a_port_and_a_path_each_and_those_beyond_the_bound_are_turned_away() {
    let server = socket();
    let relay = Running::start(&server, |options| {
        options.forward.placed = vec![1];
        options.most_clients = 2;
    });
    let clients = [socket(), socket()];
    let ports = clients.each_ref().map(|client| {
        // The second datagram of each is lost.
        send(client, relay.address, [10, 11, 12]);
        let (numbers, from) = receive(&server, 2);
        assert_eq!(numbers, [10, 12]);
        from.unwrap()
    });
    assert_ne!(ports[0], ports[1]);
    send(&socket(), relay.address, [1, 2, 3]);
    for (client, port) in clients.iter().zip(ports) {
        send(&server, port, [u64::from(port.port())]);
        assert_eq!(receive(client, 1).0, [u64::from(port.port())]);
    }
    // An empty datagram is forwarded too, and datagrams from strangers to a client's port are ignored.
    socket().send_to(&[0; 8], ports[0]).unwrap();
    clients[0].send_to(&[], relay.address).unwrap();
    assert_eq!(server.recv_from(&mut [0; 8]).unwrap(), (0, ports[0]));
    let report = relay.end();
    assert_eq!((report.clients, report.turned_away), (2, 3));
    assert_eq!((report.forward.account.taken, report.reverse.account.taken), (7, 2));
}

#[test]
fn a_target_that_nobody_listens_at_ends_nothing() {
    let server = socket();
    let relay = Running::start(&server, |_| ());
    let target = server.local_addr().unwrap();
    drop(server);
    let client = socket();
    for count in 1..=20 {
        send(&client, relay.address, [count]);
        wait_until("each of them", || (relay.watch.accounts()[0].taken == count).then_some(()));
    }
    let server = UdpSocket::bind(target).unwrap();
    server.set_read_timeout(Some(WATCHDOG)).unwrap();
    send(&client, relay.address, [99]);
    assert_eq!(receive(&server, 1).0, [99]);
    let report = relay.end();
    let account = report.forward.account;
    assert_eq!((account.taken, account.passed + account.no_listener), (21, 21), "{account:?}");
}

#[test]
fn what_cannot_be_relayed_is_told_with_a_way_out() {
    let taken = socket();
    let target = taken.local_addr().unwrap();
    let open = |change: fn(&mut RelayOptions)| {
        let mut options = RelayOptions::new(any(), target, Conditions::default(), 1);
        change(&mut options);
        Relay::open(options).err().unwrap()
    };
    assert!(matches!(open(|it| it.listen = it.target), RelayError::Itself(_)));
    assert!(matches!(open(|it| it.target = "[::1]:9".parse().unwrap()), RelayError::Versions { .. }));
    assert!(matches!(open(|it| it.most_clients = 0), RelayError::NoClients));
    assert!(matches!(open(|it| it.reverse.loss = 2.0), RelayError::Conditions(_)));
    let options = RelayOptions::new(target, SocketAddr::from(([127, 0, 0, 1], 9)), Conditions::default(), 1);
    let said = Relay::open(options).err().unwrap().to_string();
    assert!(said.contains("in use by another program\nchoose another port"), "{said}");
}
