//! What is lost at the reader's socket.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use socket2::SockRef;

use crate::scene::{PORT, Scene};
use crate::traffic::{PAYLOAD_BYTES, Planted, arrived, datagram, send, send_one, send_trains, settle};

/// Sends in steps, with the reader taking all after each.
struct Course {
    writer: UdpSocket,
    markers: UdpSocket,
    to: SocketAddr,
    to_marker: SocketAddr,
}

impl Course {
    fn new(scene: &Scene) -> anyhow::Result<Self> {
        Ok(Self {
            writer: scene.sender_socket()?,
            markers: scene.reader_socket(PORT + 1)?,
            to: scene.to(PORT),
            to_marker: scene.to(PORT + 1),
        })
    }

    fn settle(&self) -> anyhow::Result<u64> {
        // Trains are switched off: a marker is one datagram.
        nix::sys::socket::setsockopt(&self.writer, nix::sys::socket::sockopt::UdpGsoSegment, &0)?;
        settle(&self.writer, &self.markers, self.to_marker)
    }

    fn run(&self, reader: UdpSocket, steps: u64, each: u64, payload_bytes: usize) -> anyhow::Result<Planted> {
        let mut seen = BTreeSet::new();
        for step in 0..steps {
            send(&self.writer, self.to, step * each..(step + 1) * each, payload_bytes)?;
            self.settle()?;
            arrived(&reader, &mut seen);
        }
        Ok(Planted::of(0..steps * each, &seen).keep(reader))
    }

    fn run_trains(&self, reader: UdpSocket) -> anyhow::Result<Planted> {
        const SEGMENTS: u64 = 8;
        let mut seen = BTreeSet::new();
        for step in 0..20 {
            send_trains(&self.writer, self.to, step * 10..(step + 1) * 10, SEGMENTS, 1_000)?;
            self.settle()?;
            arrived(&reader, &mut seen);
        }
        Ok(Planted::of(0..200 * SEGMENTS, &seen).keep(reader))
    }
}

fn small_reader(scene: &Scene) -> anyhow::Result<UdpSocket> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 4_096)?;
    Ok(reader)
}

pub(super) fn nothing_lost(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    Course::new(scene)?.run(reader, 100, 50, PAYLOAD_BYTES)
}

/// How long all must arrive.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// Where a stranger's datagrams go to.
const STRANGERS_PORT: u16 = PORT + 7;

/// As fast as one thread sends and reads by turns, in trains of forty; some hundred thousand datagrams a second.
pub(super) fn nothing_lost_beside_a_stranger(scene: &mut Scene) -> anyhow::Result<Planted> {
    const SEGMENTS: u64 = 40;
    let reader = scene.reader_socket(PORT)?;
    roomy(&reader)?;
    nix::sys::socket::setsockopt(&reader, nix::sys::socket::sockopt::UdpGroSegment, &true)?;
    let strangers_reader = scene.reader_socket(STRANGERS_PORT)?;
    set_socket_recv_buffer_size(&strangers_reader, 4_096)?;
    let (stranger, writer) = (scene.sender_socket()?, scene.sender_socket()?);
    let (mut sent, mut received, mut bytes) = (0, 0, vec![0; 1 << 16]);
    let began = Instant::now();
    while began.elapsed() < BUSY_TIME {
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

/// A number of the machine that is put back.
struct Borrowed {
    path: &'static str,
    before: String,
}

impl Borrowed {
    fn set(path: &'static str, value: &str) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(path)?;
        let borrowed = Self { path, before };
        std::fs::write(path, value)?;
        Ok(borrowed)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(self.path, self.before.trim()) {
            eprintln!("{} was {}, and cannot be put back: {error}", self.path, self.before.trim());
        }
    }
}

pub(super) fn send_without_udp_memory(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    roomy(&reader)?;
    let course = Course::new(scene)?;
    {
        // Pages; whatever programs hold already is more.
        let _few = Borrowed::set("/proc/sys/net/ipv4/udp_mem", "1 2 3")?;
        send(&course.writer, course.to, 0..2_000, PAYLOAD_BYTES)?;
    }
    let markers = course.settle()?;
    let mut seen = BTreeSet::new();
    arrived(&reader, &mut seen);
    Ok(Planted { markers, ..Planted::of(0..2_000, &seen).keep(reader) })
}

pub(super) fn send_to_no_socket(scene: &mut Scene) -> anyhow::Result<Planted> {
    let course = Course::new(scene)?;
    // ICMP answers are limited, and a refused `send` is none here: the socket is not connected.
    send(&course.writer, course.to, 0..1_000, PAYLOAD_BYTES)?;
    course.settle()?;
    Ok(Planted::of(0..1_000, &BTreeSet::new()))
}

pub(super) fn send_to_a_filter(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    // Classic BPF: return 0, of which nothing is kept.
    SockRef::from(&reader).attach_filter(&[socket2::SockFilter::new(0x06, 0, 0, 0)])?;
    Course::new(scene)?.run(reader, 10, 50, PAYLOAD_BYTES)
}

pub(super) fn send_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = small_reader(scene)?;
    Course::new(scene)?.run(reader, 40, 50, PAYLOAD_BYTES)
}

pub(super) fn send_large_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 100_000)?;
    Course::new(scene)?.run(reader, 20, 20, 30_000)
}

pub(super) fn send_trains_to_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = small_reader(scene)?;
    Course::new(scene)?.run_trains(reader)
}

pub(super) fn send_trains_to_a_small_buffer_that_takes_trains(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    set_socket_recv_buffer_size(&reader, 20_000)?;
    nix::sys::socket::setsockopt(&reader, nix::sys::socket::sockopt::UdpGroSegment, &true)?;
    let planted = Course::new(scene)?.run_trains(reader)?;
    let drops = sys::MemInfo::of(&planted.sockets[0])?.drops;
    Ok(Planted { notes: vec![format!("the socket counts {drops} trains")], ..planted })
}

pub(super) fn send_to_a_group_with_a_slow_reader(scene: &mut Scene) -> anyhow::Result<Planted> {
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
    let course = Course { to: group, ..Course::new(scene)? };
    SockRef::from(&course.writer).set_multicast_if_v4(&ipv4(scene.sender().ip(false)))?;
    // The bridge takes a group's first datagrams while the reader's membership is on its way.
    let (mut of_fast, mut of_slow) = (BTreeSet::new(), BTreeSet::new());
    for step in 0..40_u64 {
        send(&course.writer, group, step * 50..(step + 1) * 50, PAYLOAD_BYTES)?;
        course.settle()?;
        arrived(&fast, &mut of_fast);
        arrived(&slow, &mut of_slow);
    }
    anyhow::ensure!(of_fast.len() == 2_000, "the fast reader has {} of 2,000", of_fast.len());
    Ok(Planted::of(0..2_000, &of_slow).keep(slow).keep(fast))
}

pub(super) fn ipv4(address: std::net::IpAddr) -> Ipv4Addr {
    match address {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Gives a reader room for all that a class sends.
pub(super) fn roomy(reader: &UdpSocket) -> anyhow::Result<()> {
    sys::Buffer::ask_receive(reader, 32 << 20)?;
    Ok(())
}

/// Sends in one go to a reader that has room for all of it; what is missing was lost on the way.
pub(super) fn send_on_the_way(
    scene: &Scene,
    send: impl FnOnce(&UdpSocket, SocketAddr) -> anyhow::Result<u64>,
) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    roomy(&reader)?;
    let course = Course::new(scene)?;
    let mut seen = BTreeSet::new();
    let count = send(&course.writer, course.to)?;
    let markers = course.settle()?;
    arrived(&reader, &mut seen);
    Ok(Planted { markers, ..Planted::of(0..count, &seen).keep(reader) })
}
