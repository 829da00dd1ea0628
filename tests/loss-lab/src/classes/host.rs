//! Losses in the reader's IP layer: return routes, groups, fragments, checksums.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::{SockRef, Socket};

use super::path::bursts_to_who_has_room;
use super::socket::{ipv4, roomy_reader};
use super::steps::{Burst, FIFTY, Stepping, Steps};
use crate::scene::{PORT, Scene, Version};
use crate::traffic::{PAYLOAD_BYTES, Planted, arrived, datagram, send, settle};

/// Address of the sender to which the reader's return route leads over another interface.
const ELSEWHERE: [u8; 4] = [10, 99, 9, 1];

pub(super) fn strict_way_back(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_sender("ip address add 10.99.9.1/32 dev lo")?;
    scene.on_reader(
        "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1; ip route add 10.99.9.0/24 dev lo",
    )
}

pub(super) fn send_from_elsewhere(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    let writer = scene.within(scene.sender(), || Ok(UdpSocket::bind(SocketAddr::from((ELSEWHERE, 0)))?))?;
    send(&writer, scene.to(PORT), 0..1_000, PAYLOAD_BYTES)?;
    finish(scene, reader, 1_000)
}

/// Sends from an address with another return route; markers come from the known address.
pub(super) fn from_elsewhere(scene: &mut Scene) -> anyhow::Result<Steps> {
    let mut steps = bursts_to_who_has_room(scene, FIFTY)?;
    steps.course.writer =
        scene.within(scene.sender(), || Ok(UdpSocket::bind(SocketAddr::from((ELSEWHERE, 0)))?))?;
    Ok(steps)
}

pub(super) fn send_to_a_group_joined_elsewhere(scene: &mut Scene) -> anyhow::Result<Planted> {
    let group = Ipv4Addr::new(239, 84, 2, 2);
    let reader = scene.within(scene.reader(), || {
        let reader = UdpSocket::bind(SocketAddr::from((group, PORT)))?;
        reader.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        reader.set_nonblocking(true)?;
        Ok(reader)
    })?;
    let writer = scene.sender_socket()?;
    SockRef::from(&writer).set_multicast_if_v4(&ipv4(scene.sender().ip(false)))?;
    send(&writer, SocketAddr::from((group, PORT)), 0..1_000, PAYLOAD_BYTES)?;
    finish(scene, reader, 1_000)
}

pub(super) fn impatient_reassembly(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_reader("sysctl -qw net.ipv4.ipfrag_time=1")
}

pub(super) fn little_memory_for_fragments(scene: &mut Scene) -> anyhow::Result<()> {
    // Remaining fragments of incomplete datagrams are cleared soon.
    scene.on_reader(
        "sysctl -qw net.ipv4.ipfrag_time=1 net.ipv4.ipfrag_low_thresh=10000 net.ipv4.ipfrag_high_thresh=20000
         sysctl -qw net.ipv6.ip6frag_time=1 net.ipv6.ip6frag_low_thresh=10000 net.ipv6.ip6frag_high_thresh=20000",
    )
}

pub(super) fn firewall_and_little_memory(scene: &mut Scene) -> anyhow::Result<()> {
    super::path::firewall_out(scene)?;
    little_memory_for_fragments(scene)
}

/// Addresses behind the reader.
const BEHIND: [&str; 2] = ["10.85.0.2", "fd85::2"];

pub(super) fn blackhole_route(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_reader(
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
         ip route add blackhole 10.85.0.0/24; ip -6 route add blackhole fd85::/64",
    )?;
    let via = |is_v6| scene.reader().ip(is_v6);
    scene.on_sender(&format!(
        "ip route add 10.85.0.0/24 via {}; ip -6 route add fd85::/64 via {}",
        via(false),
        via(true)
    ))
}

pub(super) fn send_into_a_blackhole(scene: &mut Scene) -> anyhow::Result<Planted> {
    let to = BEHIND[usize::from(scene.version == Version::V6)].parse()?;
    send(&scene.sender_socket()?, SocketAddr::new(to, PORT), 0..1_000, PAYLOAD_BYTES)?;
    let markers = scene.reader_socket(PORT + 1)?;
    settle(&scene.sender_socket()?, &markers, scene.to(PORT + 1))?;
    Ok(Planted::of(0..1_000, &BTreeSet::new()))
}

pub(super) fn send_in_fragments(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = roomy_reader(scene)?;
    let writer = scene.sender_socket()?;
    send(&writer, scene.to(PORT), 0..100, 30_000)?;
    let planted = finish(scene, reader, 100)?;
    until_no_fragment_waits(scene)?;
    Ok(planted)
}

/// Steps of datagrams with 21 fragments each.
struct InFragments(Steps);

pub(super) fn in_fragments(scene: &mut Scene) -> anyhow::Result<Box<dyn Stepping>> {
    let burst = Burst::Datagrams { count: 20, payload_bytes: 30_000 };
    Ok(Box::new(InFragments(bursts_to_who_has_room(scene, burst)?)))
}

impl Stepping for InFragments {
    fn step(&mut self) -> anyhow::Result<()> {
        self.0.step()
    }

    fn reader(&self) -> Option<&UdpSocket> {
        self.0.reader()
    }

    fn lost(&self) -> u64 {
        self.0.lost()
    }

    fn finish(&mut self, scene: &Scene) -> anyhow::Result<()> {
        until_no_fragment_waits(scene)
    }
}

/// Waits until no fragment is left. If the kernel gave it up later, the drop would have no namespace, and every
/// doctor of the host would report it in another class.
fn until_no_fragment_waits(scene: &Scene) -> anyhow::Result<()> {
    let waiting = || {
        scene.within(scene.reader(), || {
            let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
            let texts = read("sockstat")? + &read("sockstat6")?;
            // The memory is released last, after all fragments.
            Ok(texts.lines().any(|line| line.starts_with("FRAG") && !line.ends_with(" inuse 0 memory 0")))
        })
    };
    e2e::wait_until("fragments to be given up", || match waiting() {
        Ok(true) => None,
        other => Some(other.map(|_| ())),
    })
}

pub(super) fn send_without_last_fragment(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_fragments(scene, Fragment { at: 0, is_last: false }, |datagram| &datagram[..1_400])
}

pub(super) fn send_without_first_fragment(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_fragments(scene, Fragment { at: 1_400, is_last: true }, |datagram| &datagram[1_400..])
}

/// Sends one fragment of each datagram, with this part of its bytes.
fn send_fragments(scene: &Scene, fragment: Fragment, part: fn(&[u8]) -> &[u8]) -> anyhow::Result<Planted> {
    let reader = scene.reader_socket(PORT)?;
    let packets = scene.packet_socket()?;
    for number in 0..50_u16 {
        let datagram = udp(scene, &datagram(number.into(), 2_000), true);
        send_packet(&packets, &ip(scene, number + 1, fragment, part(&datagram)), scene)?;
    }
    let planted = finish(scene, reader, 50)?;
    until_no_fragment_waits(scene)?;
    Ok(planted)
}

pub(super) fn send_wrong_checksums(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = roomy_reader(scene)?;
    let packets = scene.packet_socket()?;
    for number in 0..1_000_u16 {
        let datagram = udp(scene, &datagram(number.into(), PAYLOAD_BYTES), number % 10 != 4);
        send_packet(&packets, &ip(scene, number, Fragment { at: 0, is_last: true }, &datagram), scene)?;
    }
    finish(scene, reader, 1_000)
}

fn finish(scene: &Scene, reader: UdpSocket, count: u64) -> anyhow::Result<Planted> {
    let markers = scene.reader_socket(PORT + 1)?;
    settle(&scene.sender_socket()?, &markers, scene.to(PORT + 1))?;
    let mut seen = BTreeSet::new();
    arrived(&reader, &mut seen);
    Ok(Planted::of(0..count, &seen).keep(reader))
}

fn send_packet(packets: &Socket, bytes: &[u8], scene: &Scene) -> anyhow::Result<()> {
    packets.send_to(bytes, &SocketAddr::new(scene.reader().ip(false), 0).into())?;
    Ok(())
}

/// Offset of a fragment, in bytes and a multiple of eight, and whether it is the last.
#[derive(Clone, Copy)]
struct Fragment {
    at: u16,
    is_last: bool,
}

/// Prepends a UDP header to a payload (RFC 768), with the right checksum or a wrong one.
fn udp(scene: &Scene, payload: &[u8], is_right: bool) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
    let mut bytes = [4_000_u16, PORT, length, 0].iter().flat_map(|it| it.to_be_bytes()).collect::<Vec<u8>>();
    bytes.extend(payload);
    let addresses = [scene.sender(), scene.reader()].map(|host| ipv4(host.ip(false)).octets()).concat();
    let pseudo = [&addresses[..], &[0, 17], &length.to_be_bytes(), &bytes].concat();
    let sum = checksum(&pseudo);
    let sum = if is_right { sum } else { !sum | 1 };
    // A checksum of 0 would mean that there is none.
    bytes[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    bytes
}

/// Prepends an IPv4 header to a payload (RFC 791); the kernel fills in length and checksum.
fn ip(scene: &Scene, id: u16, fragment: Fragment, payload: &[u8]) -> Vec<u8> {
    let more = if fragment.is_last { 0 } else { 0x2000 };
    let [source, destination] = [scene.sender(), scene.reader()].map(|host| ipv4(host.ip(false)).octets());
    let mut bytes = vec![0x45, 0, 0, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend((more | (fragment.at / 8)).to_be_bytes());
    bytes.extend([64, 17, 0, 0]);
    bytes.extend(source.iter().chain(&destination));
    bytes.extend(payload);
    bytes
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn the_checksum_of_rfc_1071() {
        // Example of RFC 1071, section 3: the sum is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
