//! Pages as connections of this process: a thread for each reads what it is sent, and confirms frames.

use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use peers::{Bench, connect_page};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket};
use units::Instant;

use crate::Shape;
use crate::bare::Piece;
use crate::monitor::{DOCUMENT, stream_of};

/// Watchdog: time limit for everything that must arrive.
const WATCHDOG: Duration = Duration::from_secs(30);
/// Time after the last change in which it must have arrived.
const PATIENCE: Duration = Duration::from_secs(2);
/// Place of a frame's number in it.
const FRAME_NUMBER: std::ops::Range<usize> = 4..8;
/// Time that the plots show.
const SPAN_NS: u64 = 10_000_000_000;

/// Part of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening,
    Measured,
    Over,
}

/// Changes of a document: when each was sent. Units: nanoseconds on the monotonic clock, 0 for not yet.
pub(crate) struct Changes {
    per_s: u32,
    sent: Box<[AtomicU64]>,
}

impl Changes {
    pub(crate) fn new(per_s: u32, run_time: Duration) -> Arc<Self> {
        let count = (f64::from(per_s) * run_time.as_secs_f64()) as usize;
        Arc::new(Self { per_s, sent: (0..count).map(|_| AtomicU64::new(0)).collect() })
    }

    pub(crate) fn none() -> Arc<Self> {
        Self::new(0, Duration::ZERO)
    }

    pub(crate) fn count(&self) -> usize {
        self.sent.len()
    }
}

/// What one page was sent.
pub(crate) struct Heard {
    /// Frames and bytes while it was measured.
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// All that came while it was measured.
    pub(crate) pieces: Vec<Piece>,
    /// Time from each change's sending to its arrival, or that of a later one, which replaces it.
    pub(crate) delays_ms: Vec<f64>,
}

/// Pages that show the same.
pub(crate) struct Pages {
    phase: Arc<AtomicU8>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<Result<Heard>>>,
}

impl Pages {
    pub(crate) fn open(
        server: SocketAddr,
        shape: Shape,
        count: usize,
        changes: Arc<Changes>,
    ) -> Result<Self> {
        let phase = Arc::new(AtomicU8::new(Phase::Opening as u8));
        let (mut streams, mut threads) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut socket = connect_page(server)?;
            streams.push(socket.get_ref().try_clone()?);
            follow(&mut socket)?;
            for plot in 0..shape.plots {
                let stream = stream_of(plot);
                let trace = |place: usize| json!({"stream": stream, "channel": format!("c{place}")});
                let request = json!({
                    "type": "view", "view": plot, "traces": (0..shape.traces_per_plot).map(trace).collect::<Vec<_>>(),
                    "width_px": shape.width_px, "span_ns": SPAN_NS, "end_ns": null, "exact": true, "means": true,
                });
                socket.send(Message::text(request.to_string()))?;
            }
            let (phase, changes) = (Arc::clone(&phase), Arc::clone(&changes));
            threads.push(std::thread::spawn(move || read(socket, &phase, &changes)));
        }
        Ok(Self { phase, streams, threads })
    }

    pub(crate) fn enter(&self, phase: Phase) {
        // Nothing else is read by it: no ordering is needed.
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Closes all pages; returns what they were sent.
    pub(crate) fn close(self) -> Result<Vec<Heard>> {
        self.enter(Phase::Over);
        for stream in &self.streams {
            // One that has ended says so by its thread.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let join =
            |thread: JoinHandle<Result<Heard>>| thread.join().map_err(|_| anyhow!("a page panicked"))?;
        self.threads.into_iter().map(join).collect()
    }
}

/// The page that presents.
pub(crate) struct Presenter {
    socket: WebSocket<TcpStream>,
    changes: Arc<Changes>,
}

impl Presenter {
    pub(crate) fn open(server: SocketAddr, changes: Arc<Changes>) -> Result<Self> {
        let mut socket = connect_page(server)?;
        follow(&mut socket)?;
        // It shows nothing here, so that it need not read while it writes.
        socket.send(Message::text(json!({"type": "visible", "visible": false}).to_string()))?;
        socket.send(Message::text(json!({"type": "present", "take": true}).to_string()))?;
        Ok(Self { socket, changes })
    }

    /// Moves the cursors again and again; returns once all pages had time to hear of it.
    pub(crate) fn change(&mut self, bench: &Bench) -> Result<()> {
        let start = sys::clock::monotonic();
        for (number, sent) in (0_u32..).zip(&self.changes.sent) {
            bench.check()?;
            sys::clock::sleep_until(start + Duration::from_secs(1) * number / self.changes.per_s);
            let edit = json!({"type": "edit", "fields": {"cursors": {"a_ns": number, "b_ns": number}}});
            // Release: a thread that hears of the change sees its time.
            sent.store(sys::clock::monotonic().as_nanos(), Ordering::Release);
            self.socket.send(Message::text(edit.to_string()))?;
        }
        std::thread::sleep(PATIENCE);
        Ok(())
    }
}

fn follow(socket: &mut WebSocket<TcpStream>) -> Result<()> {
    Ok(socket.send(Message::text(json!({"type": "follow", "name": DOCUMENT}).to_string()))?)
}

/// Reads until the connection is closed; what came together is confirmed with one message, as the page does.
fn read(mut socket: WebSocket<TcpStream>, phase: &AtomicU8, changes: &Changes) -> Result<Heard> {
    let mut heard = Heard { frames: 0, bytes: 0, pieces: Vec::new(), delays_ms: Vec::new() };
    let mut drawn = Vec::new();
    socket.get_ref().set_nonblocking(true)?;
    let outcome = loop {
        match socket.read() {
            Ok(message) => take(&message, phase, changes, &mut heard, &mut drawn)?,
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                if !drawn.is_empty() {
                    let shown = format!(r#"{{"type":"shown","frames":{}}}"#, serde_json::to_string(&drawn)?);
                    drawn.clear();
                    if let Err(error) = socket.send(Message::text(shown)) {
                        break error;
                    }
                }
                wait(socket.get_ref())?;
            }
            Err(error) => break error,
        }
    };
    if phase.load(Ordering::Relaxed) == Phase::Over as u8 {
        Ok(heard)
    } else {
        Err(outcome).context("a page's connection ended early")
    }
}

/// Waits until something can be read.
pub(crate) fn wait(stream: &TcpStream) -> Result<()> {
    let limit = Timespec { tv_sec: WATCHDOG.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&limit))?;
    ensure!(ready > 0, "the monitor server fell silent");
    Ok(())
}

fn take(
    message: &Message,
    phase: &AtomicU8,
    changes: &Changes,
    heard: &mut Heard,
    drawn: &mut Vec<u32>,
) -> Result<()> {
    let now = sys::clock::monotonic();
    let size_bytes = message.len();
    if phase.load(Ordering::Relaxed) == Phase::Measured as u8 {
        heard.frames += u64::from(message.is_binary());
        heard.bytes += size_bytes as u64;
        heard.pieces.push(Piece { at_ns: now.as_nanos(), size_bytes });
    }
    match message {
        Message::Binary(frame) => {
            let number = frame.get(FRAME_NUMBER).and_then(|bytes| bytes.try_into().ok());
            drawn.push(u32::from_le_bytes(number.context("a frame without a number")?));
        }
        Message::Text(text) if text.contains("shared_view_changed") => {
            let changed: Value = serde_json::from_str(text)?;
            let newest = changed["fields"]["cursors"]["a_ns"].as_u64().context("another change")? as usize;
            let known = heard.delays_ms.len();
            let news = changes.sent.get(known..=newest).context("a change that was not sent")?;
            let delay = |sent: &AtomicU64| now.since(Instant::from_nanos(sent.load(Ordering::Acquire)));
            heard.delays_ms.extend(news.iter().map(|sent| delay(sent).as_secs_f64() * 1e3));
        }
        _ => {}
    }
    Ok(())
}
