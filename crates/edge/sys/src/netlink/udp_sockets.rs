//! All UDP sockets of this network namespace, also of other users: addresses, queues and drops.
//!
//! Read by netlink (`sock_diag(7)`), which needs no privilege and takes some twenty microseconds
//! for a few sockets. `/proc/net/udp` has the same for IPv4, but walks the kernel's hash table for
//! it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{AddressFamily, ipproto, netlink};

use crate::netlink::{Netlink, attribute, u16_at, u32_at};

/// A UDP socket as the kernel reports it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpSocket {
    /// Local address.
    pub local: SocketAddr,
    /// Address it is connected to.
    pub remote: Option<SocketAddr>,
    /// Number that distinguishes it from every other socket of this host since boot (`SO_COOKIE`).
    pub cookie: u64,
    /// Inode of its file in `/proc/PID/fd`: `socket:[INODE]`.
    pub inode: u32,
    /// User id of its owner.
    pub uid: u32,
    /// Size of the receive queue, including the kernel's overhead.
    pub queued_bytes: u32,
    /// Size of the receive buffer, as in
    /// [`Buffer::effective_bytes`](crate::Buffer::effective_bytes).
    pub buffer_bytes: u32,
    /// Number of drops since it was opened, in datagrams, or in trains where it receives them
    /// (`UDP_GRO`); wraps at 2³².
    pub drops: u32,
}

/// Lists the UDP sockets of this process's network namespace.
///
/// # Errors
/// The kernel's error: there are kernels without `sock_diag` for UDP, and containers that forbid
/// netlink.
pub fn udp_sockets() -> io::Result<Vec<UdpSocket>> {
    let netlink = Netlink::open(Some(netlink::SOCK_DIAG))?;
    let mut sockets = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        netlink.dump(SOCK_DIAG_BY_FAMILY, &request(family), |kind, body| take(kind, body, &mut sockets))?;
    }
    Ok(sockets)
}

/// The message type (`linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Sizes of `struct inet_diag_req_v2` and `struct inet_diag_msg` (`linux/inet_diag.h`).
const REQUEST_BYTES: usize = 56;
const SOCKET_BYTES: usize = 72;
/// Attribute with the socket's memory, which has nine words; requested by the bit of its number
/// less one.
const INET_DIAG_SKMEMINFO: u16 = 7;

fn request(family: AddressFamily) -> [u8; REQUEST_BYTES] {
    let mut body = [0; REQUEST_BYTES];
    body[0] = family.as_raw().to_le_bytes()[0];
    body[1] = ipproto::UDP.as_raw().get().to_le_bytes()[0];
    body[2] = 1 << (INET_DIAG_SKMEMINFO - 1);
    // Sockets in every state.
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    body
}

pub(crate) fn take(kind: u16, body: &[u8], sockets: &mut Vec<UdpSocket>) {
    if kind == SOCK_DIAG_BY_FAMILY {
        sockets.extend(read_socket(body));
    }
}

/// Reads a socket with its attributes; `None` if it is truncated, or of an unknown address family.
fn read_socket(body: &[u8]) -> Option<UdpSocket> {
    let is_v6 = match u16::from(*body.first()?) {
        family if family == AddressFamily::INET.as_raw() => false,
        family if family == AddressFamily::INET6.as_raw() => true,
        _ => return None,
    };
    let local = address_at(body, 8, is_v6, 4)?;
    let remote = address_at(body, 24, is_v6, 6)?;
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let (uid, inode) = (u32_at(body, 64)?, u32_at(body, 68)?);
    let [queued_bytes, buffer_bytes, drops] = memory(body.get(SOCKET_BYTES..)?).unwrap_or_default();
    let remote = Some(remote).filter(|remote| remote.port() != 0);
    Some(UdpSocket { local, remote, cookie, inode, uid, queued_bytes, buffer_bytes, drops })
}

/// Returns queue, buffer and drops: the first, second and ninth word of the memory attribute.
fn memory(attributes: &[u8]) -> Option<[u32; 3]> {
    let content = attribute(attributes, INET_DIAG_SKMEMINFO)?;
    Some([u32_at(content, 0)?, u32_at(content, 4)?, u32_at(content, 32)?])
}

/// Returns an address, with the port at another offset; both in network byte order.
fn address_at(body: &[u8], at: usize, is_v6: bool, port_at: usize) -> Option<SocketAddr> {
    let octets: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
    let [a, b, c, d, ..] = octets;
    let ip = if is_v6 { IpAddr::V6(Ipv6Addr::from(octets)) } else { Ipv4Addr::new(a, b, c, d).into() };
    Some(SocketAddr::new(ip, u16_at(body, port_at)?.to_be()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemInfo;
    use crate::netlink::{self, Answer, HEAD_BYTES};
    use std::net::UdpSocket as Socket;
    use units::Random;

    fn read_answer(messages: &[u8], sockets: &mut Vec<UdpSocket>) -> io::Result<Answer> {
        netlink::read_answer(messages, &mut |kind, body| take(kind, body, sockets))
    }

    fn of(sockets: &[UdpSocket], socket: &Socket) -> UdpSocket {
        let cookie = rustix::net::sockopt::socket_cookie(socket).unwrap();
        sockets.iter().find(|it| it.cookie == cookie).expect("every socket is listed").clone()
    }

    #[test]
    fn a_socket_is_told_with_its_address_its_queue_and_its_drops() {
        for here in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(reader) = Socket::bind(here) else {
                eprintln!("SKIPPED: this host has no {here}");
                continue;
            };
            rustix::net::sockopt::set_socket_recv_buffer_size(&reader, 4_096).unwrap();
            let writer = Socket::bind(here).unwrap();
            writer.connect(reader.local_addr().unwrap()).unwrap();
            for _ in 0..100 {
                writer.send(&[0; 1_000]).unwrap();
            }
            let sockets = udp_sockets().unwrap();
            let (told, itself) = (of(&sockets, &reader), MemInfo::of(&reader).unwrap());
            assert_eq!((told.local, told.remote), (reader.local_addr().unwrap(), None));
            assert_eq!((told.drops, told.buffer_bytes), (itself.drops, itself.buffer_bytes));
            assert_eq!(told.queued_bytes, itself.queued_bytes);
            assert!(told.drops > 50 && told.queued_bytes > 0, "{told:?}");
            assert_eq!(told.uid, rustix::process::getuid().as_raw());
            assert_eq!(of(&sockets, &writer).remote, reader.local_addr().ok());
        }
    }

    #[test]
    fn its_file_has_its_inode() {
        let socket = Socket::bind("127.0.0.1:0").unwrap();
        let inode = of(&udp_sockets().unwrap(), &socket).inode;
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        let name = format!("socket:[{inode}]");
        assert!(names.into_iter().any(|it| it.as_os_str() == name.as_str()), "no file is {name}");
    }

    /// A message with one socket, as the kernel writes it.
    fn message() -> Vec<u8> {
        let mut body = vec![0; SOCKET_BYTES];
        body[0] = 2;
        body[4..8].copy_from_slice(&[0x1c, 0xe8, 0, 0]);
        body[8..12].copy_from_slice(&[239, 84, 0, 1]);
        body[44..52].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
        body[68] = 77;
        // An unknown attribute, of five bytes and three of padding, before that of the memory.
        body.extend([9, 0, 99, 0, 1, 2, 3, 4, 5, 0, 0, 0, 40, 0, 7, 0]);
        let words = [10_u32, 4_608, 0, 0, 0, 0, 0, 0, 3];
        body.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        let mut message = Vec::from(((HEAD_BYTES + body.len()) as u32).to_ne_bytes());
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.resize(HEAD_BYTES, 0);
        message.extend(body);
        message
    }

    #[test]
    fn an_answer_is_read_whatever_stands_between() {
        let mut messages = [message(), message()].concat();
        let mut sockets = Vec::new();
        assert_eq!(read_answer(&messages, &mut sockets).unwrap(), Answer::Partial);
        let expected = UdpSocket {
            local: "239.84.0.1:7400".parse().unwrap(),
            remote: None,
            cookie: 1 | 2 << 32,
            inode: 77,
            uid: 0,
            queued_bytes: 10,
            buffer_bytes: 4_608,
            drops: 3,
        };
        assert_eq!(sockets, [expected.clone(), expected]);
        messages.extend([20, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_answer(&messages, &mut sockets).unwrap(), Answer::Complete);
        let refused = [36, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255];
        let refused = [&refused[..], &[0; 16]].concat();
        assert_eq!(read_answer(&refused, &mut sockets).unwrap_err().raw_os_error(), Some(2));
    }

    #[test]
    fn no_answer_is_too_short_or_too_strange() {
        let whole = [message(), message()].concat();
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let mut answer = whole.clone();
            for _ in 0..random.below(6) {
                let at = random.below(answer.len() as u64) as usize;
                answer[at] = random.below(256) as u8;
            }
            answer.truncate(random.below(answer.len() as u64 + 1) as usize);
            let mut sockets = Vec::new();
            let _ = read_answer(&answer, &mut sockets);
            assert!(sockets.len() <= 2);
        }
    }
}
