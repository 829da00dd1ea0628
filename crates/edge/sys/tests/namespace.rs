//! Tests that need a network namespace: queue disciplines that drop, firewalls, no routes, no
//! privilege.
//!
//! Needs root and iproute2; skipped without them, with a message.

mod scene;

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use scene::{
    at, earn_trust, keeps_groups_apart, leaves_and_comes_back, makes_the_round, number, numbered, numbers,
    receive_until, receiver, send_number, sender,
};
use support::{WATCHDOG, Watchdog, or_skip};
use sys::counters::Counters;
use sys::{
    DeviceCounters, Interest, Interface, Loopback, Namespace, Outcome, Poller, ReceiveBatch, Refusal,
    SendOptions, SendSocket, SendTechniques, Tun, TunError, TunOptions, VNET_HEADER_BYTES, clock, host,
    path_mtu,
};

const ENETUNREACH: i32 = 101;
const EHOSTUNREACH: i32 = 113;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const EMSGSIZE: i32 = 90;

/// A network namespace, or the reason why a test that needs one is skipped.
struct Place(Namespace);

impl Place {
    /// Creates one, or prints why not.
    fn new() -> Option<Self> {
        or_skip(Namespace::create("sys")).map(Self)
    }

    /// Runs a command inside; `None`, with a message, if it is missing or fails.
    fn run(&self, command: &str) -> Option<String> {
        or_skip(self.0.run(command))
    }

    /// Lets a firewall drop matching outgoing packets; `None`, with a message, if there is none.
    fn drop_outgoing(&self, matching: &str) -> Option<()> {
        self.run("nft add table ip t")?;
        self.run("nft add chain ip t out { type filter hook output priority 0 ; }")?;
        self.run(&format!("nft add rule ip t out {matching} drop")).map(|_| ())
    }

    /// Runs `work` on a thread inside the namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.inside(work).expect("it was made")
    }

    /// Returns the drops of the queue disciplines of `lo`, by their own counters.
    fn dropped(&self) -> u64 {
        let said = self.run("tc -s qdisc show dev lo").expect("it was configured before");
        let mut words = said.split_whitespace().skip_while(|word| *word != "(dropped");
        words.nth(1).and_then(|word| word.trim_end_matches(',').parse().ok()).expect("tc counts drops")
    }
}

/// Results of numbered datagrams: which were refused and why, and which are missing at the
/// receiver.
struct SendOutcomes {
    refused: Vec<(u64, Refusal)>,
    missing: Vec<u64>,
    retried: u64,
}

impl SendOutcomes {
    /// Sends `count` datagrams of `size_bytes` in calls of `per_call` over `lo`.
    ///
    /// `warm_up` datagrams are sent first, one by one and awaited, so that batches are gained.
    fn of(count: u64, per_call: usize, warm_up: u64, socket: Option<SendSocket>) -> Self {
        let receiver = receiver(at("127.0.0.1:0"), 64 << 20);
        let to = receiver.local_address();
        let mut sender = socket.unwrap_or_else(|| sender(to));
        let mut batch = ReceiveBatch::new();
        for _ in 0..warm_up {
            assert_eq!(sender.send_batch(&[&[0; 8]], to), [Outcome::Sent]);
            receive_until(&receiver, &mut batch, |batch| batch.iter().len() == 1);
        }
        let payloads: Vec<_> = (0..count).map(payload).collect();
        let mut outcomes = Vec::new();
        for call in payloads.chunks(per_call) {
            let datagrams: Vec<&[u8]> = call.iter().map(Vec::as_slice).collect();
            outcomes.extend_from_slice(sender.send_batch(&datagrams, to));
        }
        let refused: Vec<_> = (0..count)
            .zip(outcomes)
            .filter_map(|(number, outcome)| match outcome {
                Outcome::Refused(refusal) => Some((number, refusal)),
                Outcome::Sent => None,
            })
            .collect();
        let mut arrived = vec![false; count as usize];
        let mut left = count as usize - refused.len();
        receive_until(&receiver, &mut batch, |batch| {
            for received in batch.iter() {
                let place = &mut arrived[number(received.bytes) as usize];
                assert!(!*place, "a datagram was sent twice");
                *place = true;
                left -= 1;
            }
            left == 0
        });
        let missing = (0..count).filter(|number| !arrived[*number as usize]).collect();
        Self { refused, missing, retried: sender.retried() }
    }

    fn refused_numbers(&self) -> Vec<u64> {
        self.refused.iter().map(|(number, _)| *number).collect()
    }

    fn assert_all_are(&self, expected: Refusal) {
        assert!(!self.refused.is_empty(), "nothing was refused");
        let other = self.refused.iter().find(|(_, refusal)| *refusal != expected);
        assert_eq!(other, None);
        assert_eq!(self.refused_numbers(), self.missing);
    }
}

fn payload(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1_000];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

const SMALL_TBF: &str = "tc qdisc add dev lo root tbf rate 4mbit burst 3000 limit 10000";

#[test]
fn what_the_queue_discipline_drops_is_refused_one_for_one() {
    let Some(namespace) = Place::new() else { return };
    let Some(_) = namespace.run(SMALL_TBF) else { return };
    let outcomes = namespace.inside(|| SendOutcomes::of(400, 16, 0, None));
    outcomes.assert_all_are(Refusal::QueueDiscipline);
    assert_eq!((outcomes.refused.len() as u64, outcomes.retried), (namespace.dropped(), 0));
}

#[test]
fn a_drop_within_an_earned_batch_is_tried_once_more_and_counted() {
    let Some(namespace) = Place::new() else { return };
    let Some(_) = namespace.run(SMALL_TBF) else { return };
    let outcomes = namespace.inside(|| SendOutcomes::of(400, 32, 1_100, None));
    outcomes.assert_all_are(Refusal::QueueDiscipline);
    assert_eq!(outcomes.refused.len() as u64 + outcomes.retried, namespace.dropped());
    assert_eq!(outcomes.retried, 1);
}

#[test]
fn a_full_send_buffer_is_told_from_a_full_queue() {
    let Some(namespace) = Place::new() else { return };
    let roomy = "tc qdisc add dev lo root tbf rate 4mbit burst 3000 limit 10000000";
    let Some(_) = namespace.run(roomy) else { return };
    let outcomes = namespace.inside(|| {
        let destination: SocketAddr = at("127.0.0.1:0");
        let (interface, loopback, ttl, buffer_bytes) = (None, Loopback::On, 1, 4_608);
        let techniques = SendTechniques::default();
        let small = SendOptions { destination, interface, ttl, loopback, buffer_bytes, techniques };
        SendOutcomes::of(400, 16, 0, Some(SendSocket::open(&small).expect("it opens")))
    });
    outcomes.assert_all_are(Refusal::SocketFull);
    assert_eq!(namespace.dropped(), 0);
}

#[test]
fn what_a_firewall_takes_out_of_a_batch_is_refused_by_the_ip_layer() {
    let Some(namespace) = Place::new() else { return };
    let Some(()) = namespace.drop_outgoing("udp length 1008 numgen inc mod 7 == 3") else { return };
    let outcomes = namespace.inside(|| SendOutcomes::of(400, 32, 1_100, None));
    outcomes.assert_all_are(Refusal::Ip(EPERM));
}

#[test]
fn the_mtu_of_a_way_is_known_before_anything_is_sent() {
    let Some(namespace) = Place::new() else { return };
    let Some(_) = namespace.run("ip link set lo mtu 1280") else { return };
    let Some(_) = namespace.run("ip route add 239.84.0.0/16 dev lo") else { return };
    namespace.inside(|| {
        let lo = Interface::find("lo").expect("every namespace has it");
        for to in ["127.0.0.1:9", "239.84.0.1:9", "[::1]:9"] {
            assert_eq!(path_mtu(at(to), None).expect("there is a way"), 1_280, "{to}");
            assert_eq!(path_mtu(at(to), Some(&lo)).expect("there is a way"), 1_280, "{to}");
        }
        assert!(path_mtu(at("192.0.2.1:9"), None).is_err(), "there is no way there");
    });
}

#[test]
fn what_a_driver_counts_is_read_by_its_own_names_as_long_as_the_device_is_there() {
    let Some(namespace) = Place::new() else { return };
    const PAIR: &str = "type veth peer name two numrxqueues 1 numtxqueues 1";
    let add = format!("ip link add name one numrxqueues 1 numtxqueues 1 {PAIR}");
    let Some(_) = namespace.run(&add) else { return };
    namespace.inside(|| {
        let mut driver = DeviceCounters::new(|name| name.ends_with("_xdp_drops"));
        let mut read = || {
            let devices = Interface::all().expect("they are listed").into_iter();
            let mut counters = Counters::new();
            driver.read(&devices.map(|it| (it.index, it.name)).collect(), &mut counters);
            counters
        };
        let of = |names: [&str; 2]| {
            let names = names.map(|name| (format!("ethtool:rx_queue_0_xdp_drops/{name}"), 0));
            Counters::from(names)
        };
        assert_eq!(read(), of(["one", "two"]));
        namespace.run("ip link set one name other").expect("it is there");
        assert_eq!(read(), of(["other", "two"]));
        namespace.run("ip link del two").expect("both go together");
        assert_eq!(read(), Counters::new());
    });
}

#[test]
fn a_path_too_narrow_for_a_train_ends_trains_and_loses_nothing() {
    let Some(namespace) = Place::new() else { return };
    namespace.inside(|| {
        let receiver = receiver(at("127.0.0.1:0"), 1 << 20);
        let to = receiver.local_address();
        let mut sender = sender(to);
        earn_trust(&mut sender, &receiver);
        let Some(_) = namespace.run("ip link set lo mtu 1280") else { return };
        let train: Vec<u8> = (0..16).flat_map(|number| numbered(number, 1_472)).collect();
        assert_eq!(sender.send_train(&train, 1_472, to), [Outcome::Sent; 16], "in fragments, one by one");
        assert_eq!(numbers(&receiver, 16), (0..16).collect::<Vec<_>>());
        let why = sender.take_end_of_trains().expect("it is said").raw_os_error();
        assert!([Some(EINVAL), Some(EMSGSIZE)].contains(&why), "{why:?}");
        assert!(sender.take_end_of_trains().is_none(), "and said once");
        assert!(!sender.techniques().gso);
    });
}

#[test]
fn a_path_that_became_too_narrow_since_the_last_train_still_takes_single_datagrams() {
    let Some(namespace) = Place::new() else { return };
    namespace.inside(|| {
        let receiver = receiver(at("127.0.0.1:0"), 1 << 20);
        let to = receiver.local_address();
        let mut sender = sender(to);
        earn_trust(&mut sender, &receiver);
        let train: Vec<u8> = (0..2).flat_map(|number| numbered(number, 1_472)).collect();
        assert_eq!(sender.send_train(&train, 1_472, to), [Outcome::Sent; 2]);
        assert_eq!(numbers(&receiver, 2), [0, 1]);
        let Some(_) = namespace.run("ip link set lo mtu 1280") else { return };
        for number in 2..6 {
            assert_eq!(sender.send_batch(&[&numbered(number, 1_472)], to), [Outcome::Sent], "in fragments");
            assert_eq!(numbers(&receiver, 1), [number]);
        }
        assert!(sender.take_end_of_trains().is_some());
    });
}

#[test]
fn a_train_that_a_firewall_stops_is_refused_as_a_whole() {
    let Some(namespace) = Place::new() else { return };
    let Some(()) = namespace.drop_outgoing("udp length > 4000") else { return };
    namespace.inside(|| {
        let receiver = receiver(at("127.0.0.1:0"), 1 << 20);
        let to = receiver.local_address();
        let mut sender = sender(to);
        earn_trust(&mut sender, &receiver);
        let refused = Outcome::Refused(Refusal::Ip(EPERM));
        assert_eq!(sender.send_train(&[0; 16_000], 1_000, to), [refused; 16]);
        // The refused train is sent again one by one, which this firewall allows.
        let train: Vec<u8> = (0..16).flat_map(|number| numbered(number, 1_000)).collect();
        assert_eq!(sender.send_train(&train, 1_000, to), [Outcome::Sent; 16]);
        assert_eq!(numbers(&receiver, 16), (0..16).collect::<Vec<_>>(), "and nothing of the train before");
    });
}

#[test]
fn a_network_without_a_route_is_named() {
    let Some(namespace) = Place::new() else { return };
    let nowhere: SocketAddr = at("192.0.2.1:7400");
    let outcomes = namespace.inside(|| sender(nowhere).send_batch(&[&[0], &[1]], nowhere).to_vec());
    assert_eq!(outcomes, [Outcome::Refused(Refusal::Ip(ENETUNREACH)); 2]);
}

#[test]
fn a_neighbour_that_does_not_answer_is_named_with_the_datagram_itself() {
    let Some(namespace) = Place::new() else { return };
    let network = [
        "ip link add left type veth peer name right",
        "ip address add 192.0.2.1/24 dev left",
        "ip link set left up",
        "ip link set right up",
        "sysctl -qw net.ipv4.neigh.left.retrans_time_ms=10",
    ];
    if network.iter().any(|command| namespace.run(command).is_none()) {
        return;
    }
    let errors = namespace.inside(|| {
        let nobody: SocketAddr = at("192.0.2.7:7400");
        let mut sender = sender(nobody);
        // Accepted: the neighbour is resolved only now.
        send_number(&mut sender, 7, nobody);
        let mut poller = Poller::new().expect("it opens");
        poller.add(&sender, 0, Interest::Read).expect("a socket can be waited for");
        let (mut errors, watchdog) = (Vec::new(), Watchdog::new("an error"));
        while errors.is_empty() {
            poller.wait(Some(clock::monotonic() + watchdog.check())).expect("nothing interrupts");
            sender.drain_error_queue(&mut errors).expect("nothing but an empty queue");
        }
        errors
    });
    assert_eq!((errors[0].errno, number(errors[0].returned())), (EHOSTUNREACH, 7), "{}", errors[0]);
}

#[test]
fn ipv4_multicast_needs_no_route_when_its_interface_is_named() {
    let Some(namespace) = Place::new() else { return };
    namespace.inside(|| makes_the_round(at("239.84.9.9:0")));
}

#[test]
fn ipv6_multicast_makes_the_round_where_it_has_a_route() {
    let Some(namespace) = Place::new() else { return };
    let route = "ip -6 route add local ff15::/16 dev lo table local";
    let Some(_) = namespace.run(route) else { return };
    namespace.inside(|| {
        makes_the_round(at("[ff15::5443:0:1]:0"));
        keeps_groups_apart(at("[ff15::5443:0:201]:0"), at("[ff15::5443:0:202]:0"));
        leaves_and_comes_back(at("[ff15::5443:0:301]:0"));
    });
}

#[test]
fn a_tun_device_hands_packets_out_and_takes_them_in() {
    let Some(namespace) = Place::new() else { return };
    let (address, peer) = (Ipv4Addr::new(10, 84, 9, 1), Ipv4Addr::new(10, 84, 9, 2));
    let name = "tun7".to_owned();
    let options = TunOptions { name, address, prefix_bits: 24, mtu: 1_400, queue_packets: 100, trains: true };
    let (tun, again, socket) = namespace.inside(|| {
        let socket = || std::net::UdpSocket::bind((address, 0)).expect("the device has the address");
        (Tun::open(&options).expect("as root"), Tun::open(&options), socket())
    });
    assert!(matches!(again, Err(TunError::Exists { .. })));
    let link = |namespace: &Place| {
        let links = namespace.inside(|| sys::links().expect("netlink is there"));
        links.into_iter().find(|link| link.name == tun.name()).expect("it was made")
    };
    assert_eq!((link(&namespace).queue_packets, link(&namespace).sent_dropped), (100, 0));
    let mtu = namespace.inside(|| Interface::find("tun7").expect("it was made").mtu);
    assert_eq!(mtu, 1_400);
    // From the host's socket to the reader of the device …
    let port = socket.local_addr().expect("it is bound").port();
    socket.send_to(&[1, 2, 3], (peer, port)).expect("the device is up");
    let mut packet = [0; 2_000];
    let count = tun.read(&mut packet).expect("it was just sent");
    assert_eq!(count, VNET_HEADER_BYTES + 28 + 3);
    assert_eq!(tun.read(&mut packet[count..]).expect("an empty queue is no error"), 0);
    // … and back, from its writer to the socket. The checksum is unfinished in both directions.
    let ip = &mut packet[VNET_HEADER_BYTES..count];
    assert_eq!((ip[0], &ip[28..]), (0x45, &[1, 2, 3][..]));
    let (source, target): (Vec<u8>, Vec<u8>) = (ip[12..16].to_vec(), ip[16..20].to_vec());
    ip[12..16].copy_from_slice(&target);
    ip[16..20].copy_from_slice(&source);
    let (header, ip) = packet[..count].split_at(VNET_HEADER_BYTES);
    tun.write(&[IoSlice::new(header), IoSlice::new(ip)]).expect("a packet of IP");
    socket.set_read_timeout(Some(WATCHDOG)).expect("it is no zero time");
    let mut bytes = [0; 8];
    let (count, from) = socket.recv_from(&mut bytes).expect("it was written");
    assert_eq!((&bytes[..count], from), (&[1, 2, 3][..], (peer, port).into()));
    // Its ring has the configured queue length.
    namespace.inside(|| sys::set_queue_packets(link(&namespace).index, 100_000).expect("as root"));
    assert_eq!(link(&namespace).queue_packets, 100_000);
    namespace.inside(|| sys::set_queue_packets(link(&namespace).index, 100).expect("as root"));
    assert_eq!(link(&namespace).queue_packets, 100);
    // Packets beyond its queue are dropped, and the device counts them.
    for _ in 0..150 {
        let _ = socket.send_to(&[1], (peer, port));
    }
    let waiting = std::iter::from_fn(|| Some(tun.read(&mut packet).expect("an end is no error")))
        .take_while(|it| *it > 0);
    let waiting = u64::try_from(waiting.count()).expect("a short queue");
    assert_eq!((waiting + link(&namespace).sent_dropped, waiting <= 100), (150, true));
    assert!(tun.write(&[IoSlice::new(&[0; 3])]).is_err(), "a header is ten bytes");
}

#[test]
fn without_privilege_the_buffer_is_clamped_and_the_limit_is_said() {
    let Some(namespace) = Place::new() else { return };
    namespace.inside(|| {
        let mut sets = capabilities(None).expect("a thread has capabilities");
        sets.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, sets).expect("capabilities can be given up");
        let limit_bytes = host::receive_buffer_limit().expect("/proc is there");
        let buffer = receiver(at("127.0.0.1:0"), 1 << 30).granted_buffer();
        assert_eq!((buffer.effective_bytes, buffer.clamped()), (2 * limit_bytes, limit_bytes < 1 << 30));
        assert!(buffer.to_string().contains("sudo sysctl -w net.core.rmem_max=1073741823"), "{buffer}");
    });
}

#[test]
fn a_queues_limit_is_changed_alone_and_taken_back_exactly() {
    let Some(namespace) = Place::new() else { return };
    let Some(_) = namespace.run("ip link add q0 type veth peer name q1") else { return };
    namespace.run("ip link set q0 up").expect("it was made");
    for (kind, setup) in [
        ("pfifo", "root pfifo limit 10"),
        ("pfifo_head_drop", "root pfifo_head_drop limit 10"),
        ("bfifo", "root bfifo limit 10000"),
        ("tbf", "root tbf rate 40mbit burst 100001 limit 100003"),
        ("tbf", "root tbf rate 999983bit burst 1601 limit 100003"),
        ("tbf", "root tbf rate 40gbit burst 9999991 limit 30000001"),
    ] {
        namespace.run(&format!("tc qdisc replace dev q0 {setup}")).expect("tc is there");
        let shown = || namespace.run("tc -d qdisc show dev q0").expect("tc is there");
        let queue = || {
            let queues = namespace.inside(|| sys::qdiscs().expect("netlink is there"));
            queues.into_iter().find(|queue| queue.kind == kind).expect("it was set up")
        };
        let (before, text) = (queue(), shown());
        let limit = before.limit.expect("it has one").value();
        namespace.inside(|| before.set_limit(limit + 5_000).expect("as root"));
        let larger = queue();
        assert_eq!(larger.limit.map(|it| it.value()), Some(limit + 5_000), "{setup}");
        namespace.inside(|| larger.set_limit(limit).expect("as root"));
        assert_eq!((shown(), queue().limit), (text, before.limit), "{setup}");
    }
    // One queue discipline within another, which drops.
    namespace.run("tc qdisc replace dev q0 root handle 1: htb default 1").expect("tc is there");
    namespace.run("tc class add dev q0 parent 1: classid 1:1 htb rate 4mbit").expect("tc is there");
    namespace.run("tc qdisc add dev q0 parent 1:1 pfifo limit 10").expect("tc is there");
    let queues = namespace.inside(|| sys::qdiscs().expect("netlink is there"));
    let htb = queues.iter().find(|queue| queue.kind == "htb").expect("it was set up");
    let pfifo = queues.iter().find(|queue| queue.kind == "pfifo").expect("it was set up");
    assert_eq!((htb.limit, htb.handle, pfifo.parent), (None, 0x1_0000, 0x1_0001));
    namespace.inside(|| pfifo.set_limit(20).expect("as root"));
    let shown = namespace.run("tc qdisc show dev q0").expect("tc is there");
    assert!(shown.contains("pfifo") && shown.contains("parent 1:1 limit 20p"), "{shown}");
}

/// Opens a sender and a receiver at a named interface.
fn at_interface(name: &str, group: SocketAddr) -> (SendSocket, sys::ReceiveSocket) {
    let interface = Some(Interface::find(name).expect("it was made"));
    let options = SendOptions {
        destination: group,
        interface: interface.clone(),
        ttl: 1,
        loopback: Loopback::On,
        buffer_bytes: scene::BUFFER_BYTES,
        techniques: SendTechniques::default(),
    };
    let options_of_receiver =
        sys::ReceiveOptions { interface, ..sys::ReceiveOptions::at(group, scene::BUFFER_BYTES) };
    let receiver = sys::ReceiveSocket::open(&options_of_receiver).expect("the group can be joined");
    (SendSocket::open(&options).expect("there is a way"), receiver)
}

/// Groups that are different ones at each link, and one that is not: also at an interface that was
/// created again.
#[test]
fn groups_of_every_scope_are_received_at_their_interface_and_again_when_it_is_another() {
    let Some(namespace) = Place::new() else { return };
    let make = || {
        namespace.run("ip link add d0 type dummy")?;
        namespace.run("ip link set d0 up multicast on")?;
        namespace.run("ip address add 10.84.9.1/24 dev d0")?;
        namespace.run("ip address add fe80::84/64 dev d0 nodad")
    };
    if make().is_none() {
        return;
    }
    for group in ["[ff12::84:1]:7401", "[ff02::8484]:7402", "[ff15::84:1]:7403", "239.84.9.1:7404"].map(at) {
        namespace.inside(|| {
            let (mut sender, mut receiver) = at_interface("d0", group);
            assert_eq!(receiver.local_address().ip(), group.ip());
            send_number(&mut sender, 1, group);
            assert_eq!(numbers(&receiver, 1), [1], "{group}");
            namespace.run("ip link delete d0").expect("it is there");
            make().expect("it could be made before");
            let (mut sender, _) = at_interface("d0", group);
            receiver.rejoin(&Interface::find("d0").expect("it was made")).expect("it can be joined");
            send_number(&mut sender, 2, group);
            assert_eq!(numbers(&receiver, 1), [2], "{group}");
        });
    }
    // Without its link such a group is ambiguous.
    let refused = namespace.inside(|| {
        sys::ReceiveSocket::open(&sys::ReceiveOptions::at(at("[ff12::84:1]:7401"), 1 << 16)).err()
    });
    let said = refused.expect("nobody says at which link").to_string();
    assert!(said.contains("name one, as in ?iface=eth0"), "{said}");
}

#[test]
fn changes_of_interfaces_and_addresses_are_told_and_a_source_that_is_gone_is_seen() {
    let Some(namespace) = Place::new() else { return };
    if namespace.run("ip link add d0 type dummy").is_none() {
        return;
    }
    namespace.inside(|| {
        let events = sys::LinkEvents::open().expect("the kernel tells");
        let mut poller = Poller::new().expect("it opens");
        poller.add(&events, 7, Interest::Read).expect("it can be waited for");
        assert!(!events.take(), "nothing has changed since");
        let steps = [
            "link set d0 up",
            "address add 10.84.9.1/24 dev d0",
            "route add default dev d0",
            "link set d0 down",
        ];
        for step in steps {
            namespace.run(&format!("ip {step}")).expect("root may");
            // Changes of routes are not notified.
            if !step.starts_with("route") {
                let ready = poller.wait(Some(clock::monotonic() + WATCHDOG)).expect("nothing interrupts");
                assert!(ready.iter().any(|it| it.token == 7), "`ip {step}` was not told");
                assert!(events.take());
            }
        }
        namespace.run("ip link set d0 up").expect("root may");
        let (mut sender, _) = at_interface("d0", at("239.84.9.1:7404"));
        assert!(!sender.has_lost_its_source(), "it has none yet");
        sender.connect(at("239.84.9.1:7404")).expect("there is a way");
        assert!(!sender.has_lost_its_source());
        namespace.run("ip address delete 10.84.9.1/24 dev d0").expect("root may");
        assert!(sender.has_lost_its_source());
    });
}
