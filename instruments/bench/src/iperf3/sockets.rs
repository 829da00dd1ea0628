//! The sockets of a test: the server's listener, the opening of streams, and their options.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use super::conversation::{Cookie, STALL};
use super::datagram::{ANSWER, HELLO, OLD_ANSWER};
use super::parameters::{Protocol, Test};

/// Maximum number of connections that wait to be accepted: those of one test, and some that are refused.
const BACKLOG: i32 = 512;
/// Time that connecting may take, for the control connection and for each stream.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Time a client waits for the answer to its hello before it repeats it. A server takes a second hello on a
/// stream for a datagram of the test, so this is longer than any sensible round trip.
const HELLO_PATIENCE: Duration = Duration::from_secs(3);
const HELLOS: u32 = 3;

/// Listens at an address, or at every address of this host, IPv4 and IPv6, if none is given.
pub(super) fn listen(bind: Option<IpAddr>, port: u16) -> Result<TcpListener, (SocketAddr, io::Error)> {
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let address = SocketAddr::new(bind.unwrap_or(any), port);
    match listen_at(address) {
        // This host has no IPv6.
        Err(error) if bind.is_none() && error.kind() != io::ErrorKind::AddrInUse => {
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
            listen_at(address).map_err(|error| (address, error))
        }
        outcome => outcome.map_err(|error| (address, error)),
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, Type::STREAM)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Opens a datagram socket at the server's listening address, for the hello of the next stream.
pub(super) fn listen_for_hello(address: SocketAddr, test: &Test) -> io::Result<UdpSocket> {
    let socket = bound(address, Type::DGRAM)?;
    set_buffers(&socket, test)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn bound(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // A restarted server gets its port at once; each stream of datagrams has a socket of the same port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Returns the answer to a hello, if it is one and comes from the host of the control connection: the same
/// bytes in reverse order, whatever the byte order of the client. Clients before 3.10 send the number
/// 123456789.
pub(super) fn answer_to(datagram: &[u8], from: SocketAddr, peer: SocketAddr) -> Option<[u8; 4]> {
    const OLD_HELLO: u32 = 123_456_789;
    if from.ip().to_canonical() != peer.ip().to_canonical() {
        return None;
    }
    let hello: [u8; 4] = *datagram.first_chunk()?;
    let mut backwards = hello;
    backwards.reverse();
    match hello {
        HELLO => Some(backwards),
        _ if backwards == HELLO => Some(backwards),
        _ if hello == OLD_HELLO.to_ne_bytes() => Some(OLD_ANSWER),
        _ => None,
    }
}

/// Local address of a client's sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    pub(super) address: Option<IpAddr>,
    /// The port of the first stream; the others take those above it.
    pub(super) port: Option<u16>,
}

impl Origin {
    /// Returns the local address of a stream; `None` if the system is to choose.
    pub(super) fn of_stream(self, remote: SocketAddr, index: u16) -> Option<SocketAddr> {
        if self.address.is_none() && self.port.is_none() {
            return None;
        }
        let any = if remote.is_ipv4() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        };
        let port = self.port.map_or(0, |port| port.wrapping_add(index));
        Some(SocketAddr::new(self.address.unwrap_or(any), port))
    }
}

/// Connects the control connection.
pub(super) fn connect_control(remote: SocketAddr, origin: Origin) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
    let without_port = Origin { port: None, ..origin };
    if let Some(local) = without_port.of_stream(remote, 0) {
        socket.bind(&local.into())?;
    }
    socket.connect_timeout(&remote.into(), CONNECT_PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    watch_control(&stream)?;
    Ok(stream)
}

/// Makes the kernel probe an idle control connection: it is silent while a test runs, and a host that only
/// sends datagrams would never notice that its peer is gone.
pub(super) fn watch_control(control: &TcpStream) -> io::Result<()> {
    const IDLE: Duration = Duration::from_secs(30);
    const BETWEEN_PROBES: Duration = Duration::from_secs(10);
    let socket = SockRef::from(control);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(IDLE).with_interval(BETWEEN_PROBES))?;
    // It limits the number of probes, too.
    socket.set_tcp_user_timeout(Some(STALL))
}

/// Returns the maximum segment size of a connection, where the system reports it.
pub(super) fn segment_bytes(connection: &TcpStream) -> Option<u32> {
    SockRef::from(connection).tcp_mss().ok()
}

/// Opens a stream, as a client: over TCP its first bytes are the cookie, over UDP there is a hello and its answer.
pub(super) fn open_stream(
    remote: SocketAddr,
    origin: Option<SocketAddr>,
    test: &Test,
    cookie: &Cookie,
) -> io::Result<Socket> {
    let is_tcp = test.protocol == Protocol::Tcp;
    let kind = if is_tcp { Type::STREAM } else { Type::DGRAM };
    let socket = Socket::new(Domain::for_address(remote), kind, None)?;
    // Before connecting: window scale and maximum segment size are agreed on then.
    dress(&socket, remote, test)?;
    if let Some(local) = origin {
        socket.set_reuse_address(is_tcp)?;
        socket.bind(&local.into())?;
    }
    socket.connect_timeout(&remote.into(), CONNECT_PATIENCE)?;
    if is_tcp {
        (&socket).write_all(cookie)?
    } else {
        greet(&socket)?
    }
    Ok(socket)
}

fn greet(mut socket: &Socket) -> io::Result<()> {
    socket.set_read_timeout(Some(HELLO_PATIENCE))?;
    for _ in 0..HELLOS {
        socket.send(&HELLO)?;
        let mut answer = [0; 4];
        match socket.read(&mut answer) {
            Ok(4) if answer == ANSWER || answer == OLD_ANSWER => return Ok(()),
            // Another datagram, or silence: repeat the hello.
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no answer from its UDP port"))
}

/// Sets the options of a test on the socket of a stream.
pub(super) fn dress(socket: &Socket, remote: SocketAddr, test: &Test) -> io::Result<()> {
    if test.protocol == Protocol::Tcp {
        if test.no_delay {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(mss) = test.mss_bytes {
            socket.set_tcp_mss(mss)?;
        }
        if let Some(congestion) = &test.congestion {
            socket.set_tcp_congestion(congestion.as_bytes())?;
        }
    }
    set_type_of_service(socket, remote, test)?;
    set_buffers(socket, test)
}

/// Sets the type of service, with the option of the protocol version used with the other end.
pub(super) fn set_type_of_service(socket: &Socket, remote: SocketAddr, test: &Test) -> io::Result<()> {
    if test.type_of_service == 0 {
        return Ok(());
    }
    if remote.ip().to_canonical().is_ipv4() {
        socket.set_tos_v4(test.type_of_service)
    } else {
        socket.set_tclass_v6(test.type_of_service)
    }
}

fn set_buffers(socket: &Socket, test: &Test) -> io::Result<()> {
    if let Some(bytes) = test.window_bytes {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_of_every_byte_order_and_age_are_answered() {
        let answer_to = |datagram: &[u8]| answer_to(datagram, address("192.0.2.1"), address("192.0.2.1"));
        assert_eq!(answer_to(b"9876"), Some(*b"6789"));
        assert_eq!(answer_to(b"6789"), Some(*b"9876"));
        assert_eq!(answer_to(&123_456_789_u32.to_ne_bytes()), Some(OLD_ANSWER));
        for stray in [&b""[..], b"987", b"GET /", &[0; 64]] {
            assert_eq!(answer_to(stray), None);
        }
    }

    fn address(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 5_201)
    }

    #[test]
    fn only_the_host_of_the_control_connection_is_answered() {
        let peer = address("192.0.2.1");
        for (from, is_answered) in
            [("192.0.2.1", true), ("::ffff:192.0.2.1", true), ("192.0.2.2", false), ("2001:db8::1", false)]
        {
            assert_eq!(answer_to(b"9876", address(from), peer).is_some(), is_answered, "{from}");
            assert_eq!(answer_to(b"9876", peer, address(from)).is_some(), is_answered, "{from}");
        }
    }

    #[test]
    fn the_kernel_finds_out_that_the_other_end_of_a_control_connection_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let control = connect_control(listener.local_addr().unwrap(), Origin::default()).unwrap();
        let socket = SockRef::from(&control);
        assert!(socket.keepalive().unwrap());
        let first_probes =
            socket.tcp_keepalive_time().unwrap() + 2 * socket.tcp_keepalive_interval().unwrap();
        assert!(first_probes < STALL, "{first_probes:?}");
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(STALL));
    }

    #[test]
    fn a_port_that_is_taken_is_said() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let (where_, error) = listen(Some(address.ip()), address.port()).unwrap_err();
        assert_eq!((where_, error.kind()), (address, io::ErrorKind::AddrInUse));
    }
}
