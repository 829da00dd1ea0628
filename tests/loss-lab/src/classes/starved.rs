//! A reader with work for each datagram, and too small a share of its processor for it.

use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::anyhow;
use diagnose::Profile;
use rustix::time::{ClockId, clock_gettime};
use sys::clock;

use super::path::on_first_processor;
use super::steps::Stepping;
use crate::absent::{self, Absent};
use crate::scene::{PORT, Scene};
use crate::traffic::{PAYLOAD_BYTES, Planted, send, settle};

/// Number of other programs on the reader's processor: together they leave it a seventh, while it needs a quarter.
const OTHERS: usize = 6;
/// Datagrams per step; with the interval of the steps this is ten thousand a second.
const BURST: u64 = 50;
const PERIOD: Duration = Duration::from_millis(5);
/// Work of the reader per datagram.
const WORK_NS: i64 = 25_000;
/// Buffer size: it holds the datagrams of a tenth of a second, in which the reader has its turn, too.
const BUFFER_BYTES: usize = 400_000;
/// Interval at which the reader checks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Programs that keep the second processor busy.
struct Others(Vec<Child>);

impl Others {
    fn begin(scene: &Scene) -> anyhow::Result<Self> {
        absent::find(&["taskset"])?;
        if std::thread::available_parallelism()?.get() < 2 {
            return Err(Absent("there is one processor only".to_owned()).into());
        }
        let mut others = Self(Vec::new());
        for _ in 0..OTHERS {
            let mut command = scene.reader().command("taskset");
            command.args(["-c", "1", "sh", "-c", "while :; do :; done"]);
            others.0.push(command.stdin(Stdio::null()).spawn()?);
        }
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The reader, and the sender's end.
struct Starved {
    writer: UdpSocket,
    to: SocketAddr,
    sent: u64,
    /// Second handle of the socket that the reader reads.
    socket: UdpSocket,
    seen: Arc<Mutex<BTreeSet<u64>>>,
    reader: Option<JoinHandle<anyhow::Result<()>>>,
    is_over: Arc<AtomicBool>,
    _others: Others,
}

impl Starved {
    fn begin(scene: &Scene) -> anyhow::Result<Self> {
        let others = Others::begin(scene)?;
        let socket = scene.reader_socket(PORT)?;
        sys::Buffer::ask_receive(&socket, BUFFER_BYTES)?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let (is_over, seen) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (of_reader, stop, into) = (socket.try_clone()?, Arc::clone(&is_over), Arc::clone(&seen));
        let reader = Some(std::thread::spawn(move || read(&of_reader, &stop, &into)));
        let (writer, to) = (scene.sender_socket()?, scene.to(PORT));
        Ok(Self { writer, to, sent: 0, socket, seen, reader, is_over, _others: others })
    }

    fn seen(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the reader read the rest.
    fn end(&mut self) -> anyhow::Result<()> {
        // The flag publishes no data: the lock does.
        self.is_over.store(true, Ordering::Relaxed);
        let Some(reader) = self.reader.take() else { return Ok(()) };
        reader.join().map_err(|_| anyhow!("the reading thread panicked"))?
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("the starved reader ended with {error:#}");
        }
    }
}

impl Stepping for Starved {
    fn step(&mut self) -> anyhow::Result<()> {
        send(&self.writer, self.to, self.sent..self.sent + BURST, PAYLOAD_BYTES)?;
        self.sent += BURST;
        Ok(())
    }

    fn reader(&self) -> Option<&UdpSocket> {
        Some(&self.socket)
    }

    fn lost(&self) -> u64 {
        self.sent - self.seen().len() as u64
    }
}

/// Reads until the end flag is set and no datagram is left.
fn read(socket: &UdpSocket, is_over: &AtomicBool, seen: &Mutex<BTreeSet<u64>>) -> anyhow::Result<()> {
    sys::scheduling::pin_to_cpu(1)?;
    let mut bytes = [0; 2_048];
    loop {
        let Ok(size) = socket.recv(&mut bytes) else {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            continue;
        };
        let number = Profile::TALLYCAST.read(&bytes[..size]).map(|named| named.number);
        seen.lock().unwrap_or_else(PoisonError::into_inner).extend(number);
        work();
    }
}

/// Works for `WORK_NS` of processor time, excluding the time it waits for a processor.
fn work() {
    let ran = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let until = ran() + WORK_NS;
    while ran() < until {
        spin_loop();
    }
}

pub(super) fn starved_reader(scene: &mut Scene) -> anyhow::Result<Box<dyn Stepping>> {
    Ok(Box::new(Starved::begin(scene)?))
}

pub(super) fn send_to_a_starved_reader(scene: &mut Scene) -> anyhow::Result<Planted> {
    const STEPS: u64 = 200;
    let mut starved = Starved::begin(scene)?;
    on_first_processor(|| {
        let mut due = clock::monotonic();
        for _ in 0..STEPS {
            starved.step()?;
            due += PERIOD;
            clock::sleep_until(due);
        }
        Ok(())
    })?;
    let markers = scene.reader_socket(PORT + 1)?;
    settle(&starved.writer, &markers, scene.to(PORT + 1))?;
    starved.end()?;
    let planted = Planted::of(0..STEPS * BURST, &starved.seen());
    Ok(planted.keep(starved.socket.try_clone()?))
}
