//! A monitor of one stream, started once, and a minimal client for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::OnceLock;
use std::time::Duration;

use identity::{Folder, Secret};
use monitor::{MonitorConfig, MonitorHandle};
use tallycast::{Bus, Dtype, Node};

use crate::private_files::PrivateFolder;

/// Watchdog: an answer that takes longer means that the monitor hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Its live stream, of one channel `x`.
pub const STREAM: &str = "lab/x";

/// Returns the address of the monitor, and starts it the first time.
pub fn address() -> SocketAddr {
    static MONITOR: OnceLock<MonitorHandle> = OnceLock::new();
    MONITOR.get_or_init(start).address()
}

/// Returns the token `fuzz` of the monitor, which may read.
///
/// # Panics
/// If the system has no room for its files.
pub fn token() -> &'static str {
    access().1.reveal()
}

fn access() -> &'static (PrivateFolder, Secret) {
    static ACCESS: OnceLock<(PrivateFolder, Secret)> = OnceLock::new();
    ACCESS.get_or_init(|| {
        let files = PrivateFolder::new();
        let (name, scopes) = ("fuzz".parse().expect("a name"), "read".parse().expect("a right"));
        let issued = Folder::new(files.path()).change_tokens(|tokens| tokens.issue(name, scopes, None));
        (files, issued.expect("a folder of our own"))
    })
}

fn start() -> MonitorHandle {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let bus: Bus = format!("udp://239.84.0.0:{port}?iface=lo").parse().expect("a bus");
    let node = || Node::builder().bus(bus.clone()).station("bench").build().expect("a node");
    let mut config = MonitorConfig::new(node());
    config.listen = "127.0.0.1:0".parse().expect("an address");
    config.access = Some(access().0.path().to_owned());
    let handle = monitor::start(config).expect("loopback takes a monitor");
    // A second of samples, with a hole, and none after it: the data to query never change.
    let mut publisher = node().publisher(STREAM).dtype(Dtype::F8).rate(1_000).channel(("x", "V")).open();
    let publisher = publisher.as_mut().expect("a publisher");
    while publisher.readers().is_empty() {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let values: Vec<f64> = (0..450).map(f64::from).collect();
    publisher.send(&values).expect("room for it");
    publisher.skip(100, tallycast::Stage::Source).expect("a hole of the source");
    publisher.send(&values).expect("room for it");
    handle
}

/// An answer over HTTP.
pub struct Answer {
    /// Status code: 200, 400, …
    pub status: u16,
    /// Status line and headers, in lower case.
    pub head: String,
    /// Content.
    pub body: Vec<u8>,
}

/// Requests `target`, which is put into the request unchanged.
pub fn ask(method: &str, target: &[u8], body: &[u8]) -> Answer {
    ask_with(method, target, b"", body)
}

/// Requests `target` with further header lines, which are put into the request unchanged.
///
/// # Panics
/// If the monitor does not answer.
pub fn ask_with(method: &str, target: &[u8], headers: &[u8], body: &[u8]) -> Answer {
    let address = address();
    let mut stream = TcpStream::connect(address).expect("the monitor listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let head = format!("Host: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let request =
        [method.as_bytes(), b" ", target, b" HTTP/1.1\r\n", headers, head.as_bytes(), body].concat();
    // A request that is refused early may not be read to the end.
    let _ = stream.write_all(&request);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer within its time");
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}

/// Returns a connection with a timeout, for the case that the monitor hangs.
///
/// # Panics
/// If the monitor does not listen.
pub fn connect() -> TcpStream {
    let stream = TcpStream::connect(address()).expect("the monitor listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream.set_nodelay(true).expect("TCP");
    stream
}
