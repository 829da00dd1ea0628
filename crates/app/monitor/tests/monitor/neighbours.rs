//! Connections that request nothing, do not finish what they began, or do not accept data.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use monitor::{MonitorConfig, MonitorHandle};
use socket2::{Domain, Socket, Type};
use support::{WATCHDOG, Watchdog, wait_until};
use tungstenite::client::IntoClientRequest;

use crate::scene::{Answer, Page, ask, bus, get, node, start};

/// Short enough that a test of closed connections is quick, and long enough that no process is delayed that much
/// between connecting and asking.
pub(crate) const SHORT: Duration = Duration::from_secs(10);

fn impatient() -> MonitorHandle {
    let mut config = MonitorConfig::new(node(&bus()));
    config.patience = SHORT;
    start(config)
}

/// A patient monitor with room for this number of pages per address.
fn narrow(pages_per_address: usize) -> MonitorHandle {
    let mut config = MonitorConfig::new(node(&bus()));
    config.pages_per_address = pages_per_address;
    start(config)
}

/// Connects from an address of the loopback network.
fn connect_from(last: u8, address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// Waits until the other end closes the connection.
pub(crate) fn closed(mut stream: TcpStream) {
    let mut bytes = [0; 1 << 16];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset => return,
                // After a process was stopped, a wait with a time limit is interrupted: signal(7).
                ErrorKind::Interrupted => {}
                kind => panic!("the connection was not closed: {kind}"),
            },
        }
    }
}

fn count(address: SocketAddr, line: &str) -> u64 {
    let text = String::from_utf8(get(address, "/metrics").body).unwrap();
    let value = text.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(' '));
    let value: f64 = value.unwrap_or_else(|| panic!("{line} is not in\n{text}")).parse().unwrap();
    value as u64
}

fn closed_count(address: SocketAddr, reason: &str) -> u64 {
    count(address, &format!(r#"tallycast_monitor_connections_closed_total{{reason="{reason}"}}"#))
}

fn turned_away_count(address: SocketAddr, reason: &str) -> u64 {
    count(address, &format!(r#"tallycast_monitor_turned_away_total{{reason="{reason}"}}"#))
}

/// Opens a page from an address of the loopback network, as far as the server's answer.
fn page_from(last: u8, address: SocketAddr) -> (TcpStream, Answer) {
    let mut stream = connect_from(last, address);
    write!(
        stream,
        "GET /api/live HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (stream, Answer { status, head, body: Vec::new() })
}

/// All connections are open at the same time, so that the test waits only once for the monitor's patience.
#[test]
fn a_connection_that_stands_still_is_closed_and_counted_by_its_reason() {
    let monitor = impatient();
    let address = monitor.address();
    let idle = connect_from(1, address);
    let mut head = connect_from(1, address);
    head.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let mut body = connect_from(1, address);
    write!(body, "POST /api/join HTTP/1.1\r\nHost: {address}\r\nContent-Length: 99\r\n\r\n{{").unwrap();

    let mut said = [0; 12];
    body.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 408");
    [idle, head, body].into_iter().for_each(closed);
    assert_eq!(closed_count(address, "idle"), 1);
    assert_eq!(closed_count(address, "slow"), 2);
}

/// The page that answers was open before the other one, so it has outlived the patience once the other one is closed.
#[test]
fn a_page_that_answers_no_ping_gives_its_place_back_and_one_that_answers_stays() {
    let monitor = impatient();
    let address = monitor.address();
    let mut answering = Page::open(address);
    let (mut silent, answer) = page_from(2, address);
    assert_eq!(answer.status, 101);
    // It reports itself hidden, so that it is sent only pings.
    silent.write_all(&masked_text(br#"{"type":"visible","visible":false}"#)).unwrap();

    // Reading answers pings.
    let watchdog = Watchdog::new("the page that answers no ping to be closed");
    while closed_count(address, "silent") == 0 {
        watchdog.check();
        drop(answering.text("streams", |_| true));
    }
    closed(silent);
    wait_until("free slot", || (count(address, "tallycast_monitor_viewers{}") == 1).then_some(()));
    drop(answering.text("streams", |_| true));
    assert_eq!(closed_count(address, "silent"), 1);
}

/// Returns a text frame of a page. Source: RFC 6455 §5.2; a mask of zeros leaves the text as it is.
fn masked_text(text: &[u8]) -> Vec<u8> {
    let length = 0x80 | u8::try_from(text.len()).unwrap();
    [&[0x81, length, 0, 0, 0, 0], text].concat()
}

#[test]
fn one_address_has_its_share_of_the_pages_and_leaves_places_to_others() {
    let monitor = narrow(2);
    let address = monitor.address();
    let pages = [page_from(2, address), page_from(2, address)];
    assert!(pages.iter().all(|(_, answer)| answer.status == 101));
    let (mut refused, answer) = page_from(2, address);
    assert_eq!(answer.status, 503);
    let mut body = Vec::new();
    // The connection stays open, so exactly the body's length is read.
    let length = answer.head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.resize(length.parse().unwrap(), 0);
    refused.read_exact(&mut body).unwrap();
    assert!(String::from_utf8(body).unwrap().contains("--pages-per-address"));
    let (other, answer) = page_from(3, address);
    assert_eq!(answer.status, 101);
    assert_eq!(turned_away_count(address, "source_pages"), 1);
    drop((pages, other));
}

#[test]
fn connections_that_ask_for_nothing_keep_neither_their_own_address_nor_another_out() {
    // A share of one page in 256 is at most four connections.
    let monitor = narrow(1);
    let address = monitor.address();
    let idle: Vec<_> = (0..40).map(|_| connect_from(2, address)).collect();
    for last in [2, 3] {
        let mut asks = connect_from(last, address);
        write!(asks, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        asks.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "127.0.0.{last}: {answer}");
    }
    let displaced = closed_count(address, "displaced");
    assert!(displaced >= 40 - 4, "{displaced} displaced");
    let open = || (count(address, "tallycast_monitor_connections{}") <= 6).then_some(());
    wait_until("end of those displaced", open);
    drop(idle);
}

#[test]
fn a_page_and_a_request_on_the_same_address_still_meet() {
    // The share of one page is also what its files are fetched over.
    let monitor = narrow(1);
    let mut page = Page::open(monitor.address());
    assert_eq!(get(monitor.address(), "/").status, 200);
    page.text("streams", |_| true);
    let request = format!("ws://{}/api/live", monitor.address()).into_client_request().unwrap();
    let second = TcpStream::connect(monitor.address()).unwrap();
    assert!(tungstenite::client(request, second).is_err());
    assert_eq!(ask(monitor.address(), "GET /healthz HTTP/1.1", "").status, 200);
}
