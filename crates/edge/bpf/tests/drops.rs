//! Datagrams that the kernel drops, reported one by one: those missing at the reader are those in the events.
//!
//! Needs `CAP_BPF` and `CAP_PERFMON`; skipped without them, with a message. On the loopback interface, each
//! test with ports of its own.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use bpf::{Hook, HookError, Options, Unseen};
use diagnose::{DropEvent, Numbers};
use ledger::Stage;
use sample::Dtype;
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, Data, Numbered};

const STREAM: u64 = 0x1234_5678_9abc_def0;
const INCARNATION: u64 = 77;

const ADDRESSES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn load(options: &Options) -> Option<Hook> {
    match Hook::load(options) {
        Ok(hook) => Some(hook),
        Err(error @ (HookError::NotPermitted | HookError::NoTypes(_) | HookError::NoTracepoint)) => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Keeps the calling thread on its processor: a run that continues at another one is another run.
fn stay_on_one_processor() {
    sys::scheduling::pin_to_cpu(rustix::thread::sched_getcpu()).expect("a thread may stay where it is");
}

/// Loads a hook for one port.
fn hook_at(port: u16) -> Option<Hook> {
    load(&Options { ports: vec![port], ..Options::default() })
}

fn bind(address: &str) -> Option<UdpSocket> {
    let socket = UdpSocket::bind(address).ok();
    if socket.is_none() {
        println!("SKIPPED: this host has no {address}");
    }
    socket
}

/// Returns a socket with a very small receive buffer, and its cookie.
fn small_reader(address: &str) -> Option<(UdpSocket, u64)> {
    let reader = bind(address)?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&reader, 4_096).expect("it works on loopback");
    reader.set_nonblocking(true).expect("it works on loopback");
    let cookie = rustix::net::sockopt::socket_cookie(&reader).expect("it works on loopback");
    Some((reader, cookie))
}

/// Returns a datagram as publishers of this program send it.
fn datagram(number: u64, payload_bytes: usize) -> Vec<u8> {
    let payload = vec![0; payload_bytes];
    let elements = u32::try_from(payload_bytes / 4).expect("a datagram's size");
    let data = Data {
        head: Numbered {
            stream: StreamId(STREAM),
            epoch: Epoch { start_ns: 1, incarnation: INCARNATION },
            number,
            first_index: number,
            element_offset: 0,
            elements_per_sample: elements,
        },
        t0: WallTime::from_nanos(0),
        clock: Clock::Unknown,
        dtype: Dtype::F4,
        element_count: elements,
        origin: None,
        payload: &payload,
    };
    let mut bytes = vec![0; data.encoded_bytes()];
    data.encode(&mut bytes).expect("it works on loopback");
    bytes
}

fn send(to: SocketAddr, numbers: std::ops::Range<u64>) {
    let writer =
        UdpSocket::bind(if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).expect("it works on loopback");
    for number in numbers {
        writer.send_to(&datagram(number, 400), to).expect("it works on loopback");
    }
}

/// Reads the datagrams that arrived; returns their numbers.
fn arrived(reader: &UdpSocket) -> BTreeSet<u64> {
    let (mut bytes, mut numbers) = ([0; 65_536], BTreeSet::new());
    while let Ok(size) = reader.recv(&mut bytes) {
        numbers
            .insert(diagnose::Profile::TALLYCAST.read(&bytes[..size]).expect("it works on loopback").number);
    }
    numbers
}

fn drain(hook: &mut Hook) -> Vec<DropEvent> {
    let mut events = Vec::new();
    hook.drain(&mut events).expect("it works on loopback");
    assert_eq!(hook.unseen().expect("it works on loopback"), Unseen::default());
    events
}

/// Returns the numbers in events, each once.
fn named(events: &[DropEvent]) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for event in events {
        let Numbers { stream, incarnation, first, last } = event.numbers.expect("it works on loopback");
        assert_eq!((stream, incarnation, event.count), (STREAM, INCARNATION, last - first + 1));
        for number in first..=last {
            assert!(numbers.insert(number), "{number} is named twice");
        }
    }
    numbers
}

#[test]
fn datagrams_to_no_socket_are_named() {
    stay_on_one_processor();
    for address in ADDRESSES {
        let Some(to) = bind(address).map(|socket| socket.local_addr().expect("it works on loopback")) else {
            continue;
        };
        let Some(mut hook) = hook_at(to.port()) else { return };
        send(to, 0..500);
        let events = drain(&mut hook);
        assert_eq!(named(&events), (0..500).collect());
        assert_eq!(events.len(), 1, "they are one run");
        let event = &events[0];
        assert_eq!((&*event.reason, event.stage()), ("NO_SOCKET", Some(Stage::ReceiverNoSocket)));
        assert_eq!((event.destination, event.source.ip()), (to, to.ip()));
        assert_eq!(drain(&mut hook), [], "all is told");
        send(to, 500..700);
        assert_eq!(named(&drain(&mut hook)), (500..700).collect(), "the same run goes on");
    }
}

#[test]
fn what_a_full_buffer_refused_is_what_is_missing() {
    for address in ADDRESSES {
        let Some((reader, cookie)) = small_reader(address) else { continue };
        let to = reader.local_addr().expect("it works on loopback");
        let Some(mut hook) = hook_at(to.port()) else { return };
        let (mut arrived_all, mut events) = (BTreeSet::new(), Vec::new());
        for step in 0..20 {
            send(to, step * 100..(step + 1) * 100);
            arrived_all.extend(arrived(&reader));
            events.extend(drain(&mut hook));
        }
        let missing: BTreeSet<u64> = (0..2_000).filter(|number| !arrived_all.contains(number)).collect();
        assert!(missing.len() > 1_000 && !arrived_all.is_empty());
        assert_eq!(named(&events), missing);
        for event in &events {
            assert_eq!((&*event.reason, event.socket), ("SOCKET_RCVBUFF", Some(cookie)), "{event:?}");
            assert_eq!(event.stage(), Some(Stage::ReceiverSocketBuffer));
        }
        assert_eq!(sys::MemInfo::of(&reader).expect("it works on loopback").drops as usize, missing.len());
    }
}

#[test]
fn each_datagram_of_a_train_is_named() {
    for address in ADDRESSES {
        let Some((reader, cookie)) = small_reader(address) else { continue };
        let to = reader.local_addr().expect("it works on loopback");
        let Some(mut hook) = hook_at(to.port()) else { return };
        let here = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
        let writer = UdpSocket::bind(here).expect("it works on loopback");
        writer.connect(to).expect("it works on loopback");
        // Eight datagrams sent as one, which the kernel segments at reception.
        let segment_bytes = datagram(0, 1_000).len();
        nix::sys::socket::setsockopt(
            &writer,
            nix::sys::socket::sockopt::UdpGsoSegment,
            &i32::try_from(segment_bytes).expect("it works on loopback"),
        )
        .expect("it works on loopback");
        let mut events = Vec::new();
        for train in 0..50_u64 {
            let pieces: Vec<Vec<u8>> = (0..8).map(|index| datagram(train * 8 + index, 1_000)).collect();
            writer.send(&pieces.concat()).expect("it works on loopback");
            events.extend(drain(&mut hook));
        }
        let arrived = arrived(&reader);
        let missing: BTreeSet<u64> = (0..400).filter(|number| !arrived.contains(number)).collect();
        assert!(missing.len() > 300);
        assert_eq!(named(&events), missing);
        assert!(events.iter().all(|event| event.socket == Some(cookie)), "{events:?}");
    }
}

#[test]
fn a_train_that_a_socket_refuses_whole_is_named_with_all_its_datagrams() {
    // A socket that receives trains: the kernel does not segment them.
    let Some((reader, _)) = small_reader("127.0.0.1:0") else { return };
    nix::sys::socket::setsockopt(&reader, nix::sys::socket::sockopt::UdpGroSegment, &true)
        .expect("it works on loopback");
    let to = reader.local_addr().expect("it works on loopback");
    let Some(mut hook) = hook_at(to.port()) else { return };
    let writer = UdpSocket::bind("127.0.0.1:0").expect("it works on loopback");
    writer.connect(to).expect("it works on loopback");
    let segment_bytes = datagram(0, 1_000).len();
    nix::sys::socket::setsockopt(
        &writer,
        nix::sys::socket::sockopt::UdpGsoSegment,
        &i32::try_from(segment_bytes).expect("it works on loopback"),
    )
    .expect("it works on loopback");
    for train in 0..20_u64 {
        let pieces: Vec<Vec<u8>> = (0..40).map(|index| datagram(train * 40 + index, 1_000)).collect();
        writer.send(&pieces.concat()).expect("it works on loopback");
    }
    let events = drain(&mut hook);
    let drops = u64::from(sys::MemInfo::of(&reader).expect("it works on loopback").drops);
    assert!(drops > 10, "{drops}");
    assert_eq!(named(&events).len() as u64, drops * 40, "the socket counts trains");
}

#[test]
fn where_nothing_is_lost_there_is_no_event() {
    let Some(reader) = bind("127.0.0.1:0") else { return };
    let Some(mut hook) = hook_at(reader.local_addr().expect("it works on loopback").port()) else { return };
    reader.set_nonblocking(true).expect("it works on loopback");
    for step in 0..50 {
        send(reader.local_addr().expect("it works on loopback"), step * 10..(step + 1) * 10);
        assert_eq!(arrived(&reader).len(), 10);
    }
    assert_eq!(drain(&mut hook), []);
}

#[test]
fn drops_are_told_one_by_one_if_that_is_wanted() {
    let Some(to) = bind("127.0.0.1:0").map(|socket| socket.local_addr().expect("it works on loopback"))
    else {
        return;
    };
    let options = Options { ports: vec![to.port()], joins: false, ..Options::default() };
    let Some(mut hook) = load(&options) else { return };
    send(to, 0..50);
    let events = drain(&mut hook);
    assert_eq!((events.len(), named(&events)), (50, (0..50).collect()));
}

#[test]
fn an_old_kernel_names_them_without_reason_and_socket() {
    let Some((reader, _)) = small_reader("127.0.0.1:0") else { return };
    let to = reader.local_addr().expect("it works on loopback");
    let options = Options {
        ports: vec![to.port()],
        pretends_no_reason: true,
        pretends_no_socket: true,
        ..Options::default()
    };
    let Some(mut hook) = load(&options) else { return };
    send(to, 0..300);
    let events = drain(&mut hook);
    let arrived = arrived(&reader);
    assert_eq!(named(&events), (0..300).filter(|number| !arrived.contains(number)).collect());
    for event in &events {
        assert_eq!((&*event.reason, event.socket, event.stage()), ("NOT_SPECIFIED", None, None));
    }
}

#[test]
fn datagrams_of_protocols_that_nobody_knows_are_counted() {
    stay_on_one_processor();
    let Some(to) = bind("127.0.0.1:0").map(|socket| socket.local_addr().expect("it works on loopback"))
    else {
        return;
    };
    let Some(mut hook) = hook_at(to.port()) else { return };
    let writer = UdpSocket::bind("127.0.0.1:0").expect("it works on loopback");
    for _ in 0..30 {
        writer.send_to(b"what is this", to).expect("it works on loopback");
    }
    // A datagram that is followed in memory by bytes which would be taken for a number.
    writer.send_to(&datagram(5, 400)[..44], to).expect("it works on loopback");
    let events = drain(&mut hook);
    assert_eq!((events.len(), events[0].numbers, events[0].count), (1, None, 31));
}

#[test]
fn an_rtp_packet_and_a_profile_of_ones_own_are_named() {
    let rtp: Vec<u8> =
        [0x80, 0, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0x12, 0x34].into_iter().chain([0; 100]).collect();
    let own: Vec<u8> = [0, 7, 0, 0, 0, 9].into_iter().chain([0; 100]).collect();
    for (profile, payload, stream, number) in
        [("rtp", rtp, 0x1234, 0xfffe), ("number=2:4,stream=0:2,order=big", own, 7, 9)]
    {
        let Some(to) = bind("127.0.0.1:0").map(|socket| socket.local_addr().expect("it works on loopback"))
        else {
            return;
        };
        let profiles = vec![profile.parse().expect("it works on loopback")];
        let Some(mut hook) = load(&Options { ports: vec![to.port()], profiles, ..Options::default() }) else {
            return;
        };
        UdpSocket::bind("127.0.0.1:0")
            .expect("it works on loopback")
            .send_to(&payload, to)
            .expect("it works on loopback");
        let events = drain(&mut hook);
        let expected = Numbers { stream, incarnation: 0, first: number, last: number };
        assert_eq!(events[0].numbers, Some(expected), "{profile}");
    }
}

#[test]
fn more_than_the_hook_has_room_for_is_said() {
    let options = Options { ports: vec![1; 9], ..Options::default() };
    let refused = Hook::load(&options).map(drop);
    if let Err(HookError::NoTypes(_)) = refused {
        return println!("SKIPPED: this kernel does not tell its types");
    }
    assert!(matches!(refused, Err(HookError::TooMany { what: "ports", room: 8 })), "{refused:?}");
}
