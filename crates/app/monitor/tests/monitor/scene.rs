//! A separate bus for each test, publishers that run in the background, a monitor, and its clients.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use monitor::{MonitorConfig, MonitorHandle};
use serde_json::Value;
pub(crate) use support::http::Answer;
use support::{WATCHDOG, Watchdog, http, wait_until};
use tallycast::{Bus, Channel, Dtype, Node, WallTime};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};
use wire::{PictureFrame, ValuesFrame, ViewFrame, WaterfallFrame};

/// Time allowed for evidence of a loss: longer than a publisher that has it can be delayed.
const SETTLE: Duration = Duration::from_secs(10);
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which a feed publishes what is due.
const FEED_PAUSE: Duration = Duration::from_millis(20);
pub(crate) const FEED_RATE: u32 = 1_000;

/// A bus used by no other test, whose readers begin with the first datagram they receive: a delayed reader may miss a
/// stream's beginning.
pub(crate) fn bus() -> Bus {
    support::ports::private_bus_from_now().parse().unwrap()
}

pub(crate) fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("bench").settle(SETTLE).build().unwrap()
}

/// Starts a monitor of everything on the bus.
pub(crate) fn monitor(bus: &Bus) -> MonitorHandle {
    start(MonitorConfig::new(node(bus)))
}

pub(crate) fn start(mut config: MonitorConfig) -> MonitorHandle {
    config.listen = "127.0.0.1:0".parse().unwrap();
    monitor::start(config).unwrap()
}

/// A publisher of one channel `x` in V that runs until dropped.
///
/// Its samples' times follow from their count alone, and it publishes as many as the clock asks for: however long
/// it was kept from its processor, no time jumps and no sample is left out.
pub(crate) struct Feed {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Publishes `value` of every sample's index.
    pub(crate) fn start(bus: &Bus, name: &str, injection: f64, value: fn(u64) -> f64) -> Self {
        Self::by_clock(bus, name, injection, 0, value)
    }

    /// Starts a feed whose clock is this number of seconds ahead of this host's.
    pub(crate) fn by_clock(
        bus: &Bus,
        name: &str,
        injection: f64,
        ahead_s: i64,
        value: fn(u64) -> f64,
    ) -> Self {
        let node = node(bus);
        let builder = node.publisher(name).dtype(Dtype::F8).rate(FEED_RATE);
        let publisher = builder.channel(Channel::new("x", "V")).loss(injection).open().unwrap();
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::spawn(move || {
            // Dropped behind the publisher, which ends before its node does.
            let _node = node;
            let mut publisher = publisher;
            let (began, t0) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
            while stopped.recv_timeout(FEED_PAUSE) == Err(RecvTimeoutError::Timeout) {
                let due = (began.elapsed().as_secs_f64() * f64::from(FEED_RATE)) as u64;
                let first = publisher.next_index();
                let samples = (first..due.max(first)).flat_map(|index| value(index).to_le_bytes());
                let time = t0.as_nanos() as i64
                    + ahead_s * 1_000_000_000
                    + first as i64 * (1_000_000_000 / i64::from(FEED_RATE));
                publisher.send_bytes_at(WallTime::from_nanos(time), &samples.collect::<Vec<u8>>()).unwrap();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Asks with `head`, the request line and headers without `Host`, which is the address.
pub(crate) fn ask(address: SocketAddr, head: &str, body: &str) -> Answer {
    ask_as(address, &format!("{head}\r\nHost: {address}"), body)
}

/// Asks with exactly these headers.
pub(crate) fn ask_as(address: SocketAddr, request: &str, body: &str) -> Answer {
    let answer = http::ask(address, request, body);
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if let (true, Ok(value)) = (path.starts_with("/api/"), serde_json::from_slice(&answer.body)) {
        support::keys::check(&published_name(method, path, answer.status), &value);
    }
    answer
}

/// Returns the published name of a path's answer.
fn published_name(method: &str, path: &str, status: u16) -> String {
    let path = path.split('?').next().unwrap_or_default();
    match (status, path) {
        (200, "/api/account") => "account".to_owned(),
        (200, "/api/graph/check" | "/api/graph/undo") => "api/graph".to_owned(),
        (200, path) if path.starts_with("/api/steer/") => match method {
            "GET" => "api/steer-app".to_owned(),
            "PUT" => "api/steer-command".to_owned(),
            _ => "api/steer-action".to_owned(),
        },
        (200, path) if path.starts_with("/api/views/") => match method {
            "GET" => "api/shared-view".to_owned(),
            _ => "api/shared-view-written".to_owned(),
        },
        (200, path) => path.trim_start_matches('/').to_owned(),
        _ => "api/refused".to_owned(),
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, &format!("GET {path} HTTP/1.1"), "")
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    ask(address, &format!("POST {path} HTTP/1.1"), body)
}

/// Waits until the catalogue lists a stream that satisfies `is`.
pub(crate) fn listed(address: SocketAddr, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    wait_until(name, || {
        let catalogue = get(address, "/api/streams").json();
        let streams = catalogue["streams"].as_array().unwrap();
        streams.iter().find(|stream| stream["stream"] == name && is(stream)).cloned()
    })
}

pub(crate) fn has_data(stream: &Value) -> bool {
    stream["samples_per_s"].as_f64() > Some(0.0)
}

/// A page's connection.
pub(crate) struct Page {
    socket: WebSocket<TcpStream>,
}

/// A message of the server.
pub(crate) enum Said {
    Json(Value),
    Frame(ViewFrame),
    Picture(PictureFrame),
    Values(ValuesFrame),
    Waterfall(WaterfallFrame),
}

impl Page {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::open_as(address, "")
    }

    /// Opens it with a session's cookie, as a page of this server does.
    pub(crate) fn open_as(address: SocketAddr, cookie: &str) -> Self {
        let mut request = format!("ws://{address}/api/live").into_client_request().unwrap();
        if !cookie.is_empty() {
            request.headers_mut().insert("Cookie", cookie.parse().unwrap());
            request.headers_mut().insert("Origin", format!("http://{address}").parse().unwrap());
        }
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        let (socket, _) = tungstenite::client(request, stream).unwrap();
        Self { socket }
    }

    pub(crate) fn say(&mut self, message: &str) {
        self.socket.send(Message::text(message)).unwrap();
    }

    /// Follows one channel `x` over the last `span_ms`.
    pub(crate) fn follow(&mut self, view: u32, stream: &str, span_ms: u64) {
        let trace = format!(r#"{{"stream":"{stream}","channel":"x"}}"#);
        self.say(&format!(
            r#"{{"type":"view","view":{view},"traces":[{trace}],"width_px":200,"span_ns":{span_ms}000000,"end_ns":null}}"#
        ));
    }

    pub(crate) fn hear(&mut self) -> Said {
        loop {
            let read = self.socket.read();
            // After a process was stopped, a wait with a time limit is interrupted: signal(7).
            if matches!(&read, Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted) {
                continue;
            }
            match read.unwrap() {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    match message["type"].as_str().unwrap() {
                        "account" => support::keys::check("account", &message),
                        kind => support::keys::check(&format!("page/{kind}"), &message),
                    }
                    return Said::Json(message);
                }
                // The kind of a frame.
                Message::Binary(bytes) if bytes[3] == 2 => {
                    return Said::Picture(PictureFrame::decode(&bytes).unwrap());
                }
                Message::Binary(bytes) if bytes[3] == 3 => {
                    return Said::Values(ValuesFrame::decode(&bytes).unwrap());
                }
                Message::Binary(bytes) if bytes[3] == 4 => {
                    return Said::Waterfall(WaterfallFrame::decode(&bytes).unwrap());
                }
                Message::Binary(bytes) => return Said::Frame(ViewFrame::decode(&bytes).unwrap()),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Close(_) => panic!("the server closed the connection"),
            }
        }
    }

    /// Waits for a text of this type that satisfies `is`.
    pub(crate) fn text(&mut self, kind: &str, is: impl Fn(&Value) -> bool) -> Value {
        let watchdog = Watchdog::new(format_args!("a text of type {kind}"));
        loop {
            watchdog.check();
            match self.hear() {
                Said::Json(said) if said["type"] == kind && is(&said) => return said,
                Said::Json(_) | Said::Frame(_) | Said::Picture(_) | Said::Values(_) | Said::Waterfall(_) => {}
            }
        }
    }

    /// Waits for a table's frame that satisfies `is`, and returns the credit of every one.
    pub(crate) fn values(&mut self, is: impl Fn(&ValuesFrame) -> bool) -> ValuesFrame {
        let watchdog = Watchdog::new("values");
        loop {
            watchdog.check();
            let Said::Values(frame) = self.hear() else { continue };
            self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame));
            if is(&frame) {
                return frame;
            }
        }
    }

    /// Waits for a frame that satisfies `is`, and returns the credit of every frame.
    pub(crate) fn frame(&mut self, is: impl Fn(&ViewFrame) -> bool) -> ViewFrame {
        let watchdog = Watchdog::new("a frame");
        loop {
            watchdog.check();
            let Said::Frame(frame) = self.hear() else { continue };
            self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame));
            if is(&frame) {
                return frame;
            }
        }
    }

    /// Waits for a picture that satisfies `is`, and returns the credit of every one.
    pub(crate) fn picture(&mut self, is: impl Fn(&PictureFrame) -> bool) -> PictureFrame {
        let watchdog = Watchdog::new("a picture");
        loop {
            watchdog.check();
            let Said::Picture(frame) = self.hear() else { continue };
            self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame));
            if is(&frame) {
                return frame;
            }
        }
    }
    /// Waits for a waterfall that satisfies `is`, and returns the credit of every one.
    pub(crate) fn waterfall(&mut self, mut is: impl FnMut(&WaterfallFrame) -> bool) -> WaterfallFrame {
        let watchdog = Watchdog::new("a waterfall");
        loop {
            watchdog.check();
            let Said::Waterfall(frame) = self.hear() else { continue };
            self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame));
            if is(&frame) {
                return frame;
            }
        }
    }
}
