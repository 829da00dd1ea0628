//! Losses at the reader's socket.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use socket2::SockRef;

use super::steps::{Burst, Course, FIFTY, Stepping, Steps, TEN_TRAINS};
use crate::borrowed::Borrowed;
use crate::scene::{PORT, Scene};
use crate::traffic::{PAYLOAD_BYTES, Planted, arrived, datagram, send, send_one, send_trains, settle};

fn small_reader(scene: &Scene) -> anyhow::Result<UdpSocket> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 4_096)?;
    Ok(reader)
}

pub(super) fn nothing_lost(scene: &mut Scene) -> anyhow::Result<Planted> {
    Steps::new(scene, scene.reader_socket(PORT)?, FIFTY)?.run(100)
}

/// Port of a stranger's datagrams.
const STRANGERS_PORT: u16 = PORT + 7;

/// Sends as fast as one thread can send and read in turn, in trains of forty; some hundred thousand datagrams a
/// second.
pub(super) fn nothing_lost_beside_a_stranger(
    scene: &mut Scene,
    how_long: Duration,
) -> anyhow::Result<Planted> {
    const SEGMENTS: u64 = 40;
    let reader = roomy_reader(scene)?;
    takes_trains(&reader)?;
    let strangers_reader = scene.reader_socket(STRANGERS_PORT)?;
    set_socket_recv_buffer_size(&strangers_reader, 4_096)?;
    let (stranger, writer) = (scene.sender_socket()?, scene.sender_socket()?);
    let (mut sent, mut received, mut bytes) = (0, 0, vec![0; 1 << 16]);
    let began = Instant::now();
    while began.elapsed() < how_long {
        send_trains(&writer, scene.to(PORT), sent / SEGMENTS..sent / SEGMENTS + 5, SEGMENTS, 100)?;
        sent += 5 * SEGMENTS;
        send_one(&stranger, b"of somebody else", scene.to(STRANGERS_PORT))?;
        while let Ok(size) = reader.recv(&mut bytes) {
            received += size as u64;
        }
    }
    let markers = scene.reader_socket(PORT + 1)?;
    settle(&stranger, &markers, scene.to(PORT + 1))?;
    while let Ok(size) = reader.recv(&mut bytes) {
        received += size as u64;
    }
    let received = received / datagram(0, 100).len() as u64;
    anyhow::ensure!(received == sent, "{received} of {sent} arrived");
    let strangers = sys::MemInfo::of(&strangers_reader)?.drops;
    anyhow::ensure!(strangers > 1_000, "the stranger lost only {strangers}");
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    let note = format!("{rate:.0} a second, the stranger lost {strangers}");
    Ok(Planted { notes: vec![note], ..Planted::default() }.keep(reader).keep(strangers_reader))
}

pub(super) fn send_without_udp_memory(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = roomy_reader(scene)?;
    let course = Course::new(scene)?;
    {
        // In pages; programs already hold more than this.
        let _few = Borrowed::set("/proc/sys/net/ipv4/udp_mem", "1 2 3")?;
        send(&course.writer, course.to, 0..2_000, PAYLOAD_BYTES)?;
    }
    let markers = course.settle()?;
    let mut seen = BTreeSet::new();
    arrived(&reader, &mut seen);
    Ok(Planted { markers, ..Planted::of(0..2_000, &seen).keep(reader) })
}

/// Bursts of 1.5 million bytes to a reader in the host's own namespace, where all of UDP may hold 800,000: the
/// setting exists only there. [`Borrowed`] restores it.
struct OnTheHost {
    writer: UdpSocket,
    reader: UdpSocket,
    sent: u64,
    seen: BTreeSet<u64>,
}

pub(super) fn without_udp_memory(_: &mut Scene) -> anyhow::Result<Box<dyn Stepping>> {
    let reader = UdpSocket::bind((Ipv4Addr::LOCALHOST, PORT))?;
    roomy(&reader)?;
    reader.set_nonblocking(true)?;
    let writer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    std::fs::write("/proc/sys/net/ipv4/udp_mem", "100 150 200")?;
    Ok(Box::new(OnTheHost { writer, reader, sent: 0, seen: BTreeSet::new() }))
}

impl Stepping for OnTheHost {
    fn step(&mut self) -> anyhow::Result<()> {
        const BURST: u64 = 2_000;
        send(&self.writer, self.reader.local_addr()?, self.sent..self.sent + BURST, PAYLOAD_BYTES)?;
        self.sent += BURST;
        arrived(&self.reader, &mut self.seen);
        Ok(())
    }

    fn reader(&self) -> Option<&UdpSocket> {
        Some(&self.reader)
    }

    fn lost(&self) -> u64 {
        self.sent - self.seen.len() as u64
    }
}

pub(super) fn send_to_no_socket(scene: &mut Scene) -> anyhow::Result<Planted> {
    let course = Course::new(scene)?;
    // ICMP errors are rate-limited, and `send` does not fail here: the socket is not connected.
    send(&course.writer, course.to, 0..1_000, PAYLOAD_BYTES)?;
    course.settle()?;
    Ok(Planted::of(0..1_000, &BTreeSet::new()))
}

pub(super) fn send_trains_to_no_socket(scene: &mut Scene) -> anyhow::Result<Planted> {
    let course = Course::new(scene)?;
    send_trains(&course.writer, course.to, 0..100, 8, 1_000)?;
    course.settle()?;
    Ok(Planted::of(0..800, &BTreeSet::new()))
}

fn filtered_reader(scene: &Scene) -> anyhow::Result<UdpSocket> {
    let reader = scene.reader_socket(PORT)?;
    // Classic BPF: return 0, which drops the datagram.
    SockRef::from(&reader).attach_filter(&[socket2::SockFilter::new(0x06, 0, 0, 0)])?;
    Ok(reader)
}

pub(super) fn send_to_a_filter(scene: &mut Scene) -> anyhow::Result<Planted> {
    Steps::new(scene, filtered_reader(scene)?, FIFTY)?.run(10)
}

pub(super) fn send_trains_to_a_filter(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = filtered_reader(scene)?;
    takes_trains(&reader)?;
    Steps::new(scene, reader, TEN_TRAINS)?.run(10)
}

/// Sends more in each step than a token bucket and its queue hold.
pub(super) fn send_long_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    let burst = Burst::Datagrams { count: 600, payload_bytes: PAYLOAD_BYTES };
    Steps::new(scene, small_reader(scene)?, burst)?.run(6)
}

pub(super) fn small_buffer(scene: &mut Scene) -> anyhow::Result<Steps> {
    Steps::new(scene, small_reader(scene)?, FIFTY)
}

pub(super) fn send_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    small_buffer(scene)?.run(40)
}

pub(super) fn large_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Steps> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 100_000)?;
    Steps::new(scene, reader, Burst::Datagrams { count: 20, payload_bytes: 30_000 })
}

pub(super) fn send_large_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    large_to_a_small_buffer(scene)?.run(20)
}

pub(super) fn trains_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Steps> {
    Steps::new(scene, small_reader(scene)?, TEN_TRAINS)
}

pub(super) fn send_trains_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    trains_to_a_small_buffer(scene)?.run(20)
}

pub(super) fn trains_to_a_small_buffer_that_takes_trains(scene: &mut Scene) -> anyhow::Result<Steps> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 20_000)?;
    takes_trains(&reader)?;
    Steps::new(scene, reader, TEN_TRAINS)
}

pub(super) fn send_trains_to_a_small_buffer_that_takes_trains(scene: &mut Scene) -> anyhow::Result<Planted> {
    let planted = trains_to_a_small_buffer_that_takes_trains(scene)?.run(20)?;
    let drops = sys::MemInfo::of(&planted.sockets[0])?.drops;
    Ok(Planted { notes: vec![format!("the socket counts {drops} trains")], ..planted })
}

pub(super) fn group_with_a_slow_reader(scene: &mut Scene) -> anyhow::Result<Steps> {
    let group = SocketAddr::from((Ipv4Addr::new(239, 84, 1, 1), PORT));
    let join = |small: bool| {
        scene.within(scene.reader(), || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&group.into())?;
            if small {
                set_socket_recv_buffer_size(&socket, 4_096)?;
            }
            let device = socket2::InterfaceIndexOrAddress::Address(ipv4(scene.reader().ip(false)));
            socket.join_multicast_v4_n(&Ipv4Addr::new(239, 84, 1, 1), &device)?;
            socket.set_nonblocking(true)?;
            Ok(UdpSocket::from(socket))
        })
    };
    let (fast, slow) = (join(false)?, join(true)?);
    let mut steps = Steps::new(scene, slow, FIFTY)?;
    steps.readers.push((fast, BTreeSet::new()));
    steps.course.to = group;
    SockRef::from(&steps.course.writer).set_multicast_if_v4(&ipv4(scene.sender().ip(false)))?;
    Ok(steps)
}

pub(super) fn send_to_a_group_with_a_slow_reader(scene: &mut Scene) -> anyhow::Result<Planted> {
    group_with_a_slow_reader(scene)?.run(40)
}

/// Sends bursts that are longer than a backlog of a thousand and shorter than one of two thousand.
pub(super) fn long_bursts(scene: &mut Scene) -> anyhow::Result<Steps> {
    Steps::new(scene, roomy_reader(scene)?, Burst::Datagrams { count: 2_000, payload_bytes: 40 })
}

pub(super) fn takes_trains(reader: &UdpSocket) -> anyhow::Result<()> {
    Ok(nix::sys::socket::setsockopt(reader, nix::sys::socket::sockopt::UdpGroSegment, &true)?)
}

pub(super) fn ipv4(address: std::net::IpAddr) -> Ipv4Addr {
    match address {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Enlarges a reader's buffer for everything that a class sends.
fn roomy(reader: &UdpSocket) -> anyhow::Result<()> {
    sys::Buffer::ask_receive(reader, 32 << 20)?;
    Ok(())
}

/// Opens a reader with room for everything that a class sends.
pub(super) fn roomy_reader(scene: &Scene) -> anyhow::Result<UdpSocket> {
    let reader = scene.reader_socket(PORT)?;
    roomy(&reader)?;
    Ok(reader)
}

/// Sends in one go to a reader with room for all of it; missing datagrams were lost along the path.
pub(super) fn send_on_the_way(
    scene: &Scene,
    send: impl FnOnce(&UdpSocket, SocketAddr) -> anyhow::Result<u64>,
) -> anyhow::Result<Planted> {
    send_on_the_way_to(scene, roomy_reader(scene)?, send)
}

/// Sends the same to a given reader.
pub(super) fn send_on_the_way_to(
    scene: &Scene,
    reader: UdpSocket,
    send: impl FnOnce(&UdpSocket, SocketAddr) -> anyhow::Result<u64>,
) -> anyhow::Result<Planted> {
    let course = Course::new(scene)?;
    let mut seen = BTreeSet::new();
    let count = send(&course.writer, course.to)?;
    let markers = course.settle()?;
    arrived(&reader, &mut seen);
    Ok(Planted { markers, ..Planted::of(0..count, &seen).keep(reader) })
}
