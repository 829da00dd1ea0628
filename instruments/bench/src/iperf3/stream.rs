//! One data stream: a socket, a thread that sends or receives, and the counts that both share with the test.
//!
//! A thread checks at least every [`POLL_INTERVAL`] whether it is to continue: sockets wait no longer than that
//! for data or room.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{SockAddr, Socket};
use sys::{MemInfo, TcpInfo, clock};
use units::Instant;

use super::datagram::{Arrived, Header, SequenceTracker};
use super::figures::Figures;
use super::goal::Goal;
use super::pace::Pacer;
use super::parameters::{Place, Protocol, Test};

/// Interval at which a thread checks whether the test is over: its blocking calls wait for one socket alone.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time without data after which a receiver assumes that nothing is in flight any more.
const QUIET: Duration = Duration::from_millis(200);
/// Time a sender waits before it tries again if its device's queue is full.
const FULL_QUEUE: Duration = Duration::from_micros(200);

/// Counts of a stream so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Counts {
    /// Bytes handed to the kernel, or taken from it; of datagrams those of the first copies.
    pub(super) bytes: u64,
    /// Datagrams sent, or first copies received.
    pub(super) packets: u64,
    /// The highest number sent or seen.
    pub(super) highest: u64,
    /// Numbers below the highest that did not arrive.
    pub(super) missing: u64,
    /// Datagrams that arrived after one with a higher number.
    pub(super) out_of_order: u64,
    /// Datagrams that arrived again, or too late to decide.
    pub(super) duplicates: u64,
    /// Input that is not a datagram of the test.
    pub(super) foreign: u64,
    /// Smoothed difference of transit times. Units: seconds.
    pub(super) jitter_s: f64,
    /// Time of a receiver's last datagram or bytes.
    pub(super) last_arrival: Option<Instant>,
}

/// Behaviour of a sender once its test is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterEnd {
    /// Nothing: its thread ends.
    Leave,
    /// Send another block whenever asked to, until stopped.
    SendWhenNudged,
}

/// Order to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Order {
    /// Send, or receive.
    GoOn = 0,
    /// Receive what is still in flight; finish the block that was begun.
    Finish = 1,
    /// Stop.
    Stop = 2,
}

/// State shared by a thread and its test.
#[derive(Debug)]
struct Shared {
    counts: Mutex<Counts>,
    order: AtomicU8,
    /// Amount sent according to the sender, in bytes or datagrams; `u64::MAX` while it is unknown.
    expected: AtomicU64,
    failure: Mutex<Option<io::Error>>,
    /// Number of blocks requested after the end.
    nudges: AtomicU64,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is(Order::GoOn, |order, go_on| order > go_on)
    }

    fn is_stopped(&self) -> bool {
        self.is(Order::Stop, |order, stop| order >= stop)
    }

    fn is(&self, order: Order, compare: impl Fn(u8, u8) -> bool) -> bool {
        // Acquire, with the release in `Stream::order`: the expected amount was stored before.
        compare(self.order.load(Ordering::Acquire), order as u8)
    }

    fn update(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A data stream of a test.
pub(super) struct Stream {
    pub(super) place: Place,
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) protocol: Protocol,
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    /// Takes a connected socket; nothing flows yet.
    pub(super) fn new(place: Place, sends: bool, protocol: Protocol, socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        socket.set_write_timeout(Some(POLL_INTERVAL))?;
        let shared = Shared {
            counts: Mutex::default(),
            order: AtomicU8::new(Order::GoOn as u8),
            expected: AtomicU64::new(u64::MAX),
            failure: Mutex::default(),
            nudges: AtomicU64::new(0),
        };
        let internet = |address: SockAddr| address.as_socket().expect("it was opened at an internet address");
        let (local, remote) = (internet(socket.local_addr()?), internet(socket.peer_addr()?));
        let (socket, shared) = (Arc::new(socket), Arc::new(shared));
        Ok(Self { place, sends, local, remote, protocol, socket, shared, thread: None })
    }

    /// Begins to send or to receive.
    pub(super) fn start(
        &mut self,
        test: &Test,
        goal: &Arc<Goal>,
        start: Instant,
        after_end: AfterEnd,
    ) -> io::Result<()> {
        let worker = Worker {
            socket: Arc::clone(&self.socket),
            shared: Arc::clone(&self.shared),
            goal: Arc::clone(goal),
            protocol: self.protocol,
            after_end,
            nudged: 0,
            wide: test.wide_counters,
            block: vec![0; test.block_bytes.max(16)],
            block_bytes: test.block_bytes,
            pacer: Pacer::new(start, test.rate_bits_per_s, test.burst, test.block_bytes),
        };
        let sends = self.sends;
        let name = format!("iperf3 stream {}", self.place.id);
        self.thread = Some(std::thread::Builder::new().name(name).spawn(move || worker.run(sends))?);
        Ok(())
    }

    /// Returns figures that name the stream, and no more.
    pub(super) fn figures(&self) -> Figures {
        let socket = Some(self.descriptor());
        Figures { place: self.place, socket, sender: self.sends, ..Figures::default() }
    }

    /// Returns the counts so far.
    pub(super) fn counts(&self) -> Counts {
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kernel's statistics of the connection, if there is one.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        (self.protocol == Protocol::Tcp).then(|| TcpInfo::of(&*self.socket).ok()).flatten()
    }

    /// Returns the number of bytes that are known to have arrived: received, or acknowledged. `None` for
    /// datagrams that this side sends.
    pub(super) fn arrived_bytes(&self) -> Option<u64> {
        let bytes = self.counts().bytes;
        match (self.sends, self.protocol) {
            (false, _) => Some(bytes),
            (true, Protocol::Tcp) => Some(self.tcp().map_or(bytes, |tcp| acknowledged(bytes, &tcp))),
            (true, Protocol::Udp) => None,
        }
    }

    /// Returns the number of datagrams that found the socket's receive buffer full.
    pub(super) fn dropped_by_socket(&self) -> Option<u64> {
        let receives_datagrams = !self.sends && self.protocol == Protocol::Udp;
        let info = receives_datagrams.then(|| MemInfo::of(&*self.socket).ok()).flatten();
        info.map(|info| u64::from(info.drops))
    }

    /// Returns the congestion control of the connection.
    pub(super) fn congestion(&self) -> Option<String> {
        let name = self.socket.tcp_congestion().ok().filter(|_| self.protocol == Protocol::Tcp)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(name).into_owned())
    }

    /// Returns the buffers that the kernel gave: for sending and for receiving.
    pub(super) fn buffers(&self) -> (u64, u64) {
        let bytes = |size: io::Result<usize>| size.map_or(0, |bytes| bytes as u64);
        (bytes(self.socket.send_buffer_size()), bytes(self.socket.recv_buffer_size()))
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Lets a sender end with the block that it has begun. iperf3 waits for whole blocks and for nothing else
    /// meanwhile: half a block would keep it from receiving the end of the test
    /// (`a_test_that_ends_within_a_block_is_heard_by_iperf3`).
    pub(super) fn finish_block(&self) {
        self.order(Order::Finish);
    }

    /// Makes a sender whose test is over send one block more.
    pub(super) fn nudge(&self) {
        self.shared.nudges.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets a receiver end once all that is `expected` has arrived, or nothing more does.
    pub(super) fn finish(&self, expected: Option<u64>) {
        self.shared.expected.store(expected.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.order(Order::Finish);
    }

    /// Asks the thread to end; it does within [`POLL_INTERVAL`].
    pub(super) fn tell_to_stop(&self) {
        self.order(Order::Stop);
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&mut self) {
        self.tell_to_stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; its counts remain valid.
            let _ = thread.join();
        }
    }

    /// Returns whether the thread has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the error of the stream, once.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn order(&self, order: Order) {
        // Release, with the acquire in `Shared::is`; the maximum, since orders are never withdrawn.
        self.shared.order.fetch_max(order as u8, Ordering::Release);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}

/// State owned by a stream's thread.
struct Worker {
    socket: Arc<Socket>,
    shared: Arc<Shared>,
    goal: Arc<Goal>,
    protocol: Protocol,
    after_end: AfterEnd,
    nudged: u64,
    wide: bool,
    block: Vec<u8>,
    block_bytes: usize,
    pacer: Pacer,
}

impl Worker {
    fn run(mut self, sends: bool) {
        // Refused on some kernels; paced blocks then leave up to 50 µs late.
        let _ = clock::lower_timer_slack();
        let outcome = if sends { self.send() } else { self.receive() };
        if let Err(error) = outcome {
            *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        self.goal.wakeup.wake();
    }

    fn send(&mut self) -> io::Result<()> {
        fill(&mut self.block);
        let mut number = 0;
        while self.pacer.wait(|| self.shared.is_over()) && self.goal.take_block() {
            number += 1;
            self.send_one(number)?;
        }
        while self.is_asked_for_more() {
            number += 1;
            self.send_one(number)?;
        }
        Ok(())
    }

    fn send_one(&mut self, number: u64) -> io::Result<()> {
        match self.protocol {
            Protocol::Tcp => self.send_block(),
            Protocol::Udp => self.send_datagram(number),
        }
    }

    /// Waits until one block more is requested by [`Stream::nudge`]; returns false once the stream is stopped,
    /// and at once if there will be no request.
    fn is_asked_for_more(&mut self) -> bool {
        while self.after_end == AfterEnd::SendWhenNudged && !self.shared.is_stopped() {
            // Relaxed: an independent count, which orders nothing else.
            if self.shared.nudges.load(Ordering::Relaxed) > self.nudged {
                self.nudged += 1;
                return true;
            }
            clock::sleep_until(clock::monotonic() + POLL_INTERVAL);
        }
        false
    }

    /// Writes a whole block, or as much of it as there is room for until the stream is stopped.
    fn send_block(&self) -> io::Result<()> {
        let mut rest = &self.block[..self.block_bytes];
        while !rest.is_empty() && !self.shared.is_stopped() {
            match self.socket.send(rest) {
                Ok(written) => {
                    self.shared.update(|counts| counts.bytes += written as u64);
                    rest = &rest[written..];
                }
                Err(error) if is_patience(&error) => {}
                // The peer may close at the very end of the test.
                Err(_) if self.shared.is_over() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends one datagram; tries again, with the same number, while the kernel has no room for it.
    fn send_datagram(&mut self, number: u64) -> io::Result<()> {
        while !self.shared.is_stopped() {
            Header { sent: clock::monotonic(), number }.write(self.wide, &mut self.block);
            match self.socket.send(&self.block[..self.block_bytes]) {
                Ok(bytes) => {
                    self.shared.update(|counts| {
                        counts.bytes += bytes as u64;
                        counts.packets += 1;
                        counts.highest = number;
                    });
                    return Ok(());
                }
                Err(error) if is_patience(&error) => {}
                Err(error) if is_full_queue(&error) => {
                    clock::sleep_until(clock::monotonic() + FULL_QUEUE);
                }
                Err(_) if self.shared.is_over() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut tracker = SequenceTracker::default();
        let mut last_arrival = clock::monotonic();
        while !self.shared.is_stopped() && !self.has_all() {
            match self.read(&mut tracker) {
                Ok(Some(bytes)) => {
                    last_arrival = clock::monotonic();
                    self.goal.count_received(bytes);
                }
                // The peer has closed it: nothing more will arrive.
                Ok(None) => break,
                Err(error) if is_patience(&error) => {
                    if !self.shared.is_over() {
                        last_arrival = clock::monotonic();
                    } else if clock::monotonic().since(last_arrival) >= QUIET && !self.will_come() {
                        break;
                    }
                }
                Err(_) if self.shared.is_over() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once; returns the number of bytes that count, `None` at the end of the stream.
    fn read(&mut self, tracker: &mut SequenceTracker) -> io::Result<Option<u64>> {
        match self.protocol {
            Protocol::Tcp => {
                let read = (&*self.socket).read(&mut self.block[..self.block_bytes])? as u64;
                self.shared.update(|counts| {
                    counts.bytes += read;
                    counts.last_arrival = Some(clock::monotonic());
                });
                Ok((read > 0).then_some(read))
            }
            Protocol::Udp => {
                let read = (&*self.socket).read(&mut self.block)?;
                let now = clock::monotonic();
                let header = Header::parse(self.wide, &self.block[..read]);
                let arrived = header.and_then(|header| tracker.record(self.wide, header, now));
                let counts = matches!(arrived, Some(Arrived::New | Arrived::OutOfOrder));
                let bytes = if counts { read as u64 } else { 0 };
                self.shared.update(|counts| {
                    counts.bytes += bytes;
                    counts.packets = tracker.received;
                    counts.highest = tracker.highest;
                    counts.missing = tracker.missing;
                    counts.out_of_order = tracker.out_of_order;
                    counts.duplicates = tracker.duplicates;
                    counts.foreign += u64::from(arrived.is_none());
                    counts.jitter_s = tracker.jitter_s();
                    counts.last_arrival = Some(now);
                });
                Ok(Some(bytes))
            }
        }
    }

    /// Returns whether more is sure to come: for a stream of bytes whose total is known, also after a silence
    /// as long as the sender's kernel takes to send a lost segment again.
    fn will_come(&self) -> bool {
        self.protocol == Protocol::Tcp && self.shared.expected.load(Ordering::Relaxed) != u64::MAX
    }

    /// Returns whether everything that the sender reported has arrived.
    fn has_all(&self) -> bool {
        if !self.shared.is_over() {
            return false;
        }
        let expected = self.shared.expected.load(Ordering::Relaxed);
        let counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match self.protocol {
            Protocol::Tcp => counts.bytes >= expected,
            Protocol::Udp => counts.packets >= expected,
        }
    }
}

/// Returns a lower bound of the acknowledged bytes among those that the kernel took: segments may be smaller
/// than the largest.
fn acknowledged(bytes: u64, tcp: &TcpInfo) -> u64 {
    let on_the_way = u64::from(tcp.unacknowledged_segments) * u64::from(tcp.send_mss_bytes);
    bytes.saturating_sub(on_the_way + u64::from(tcp.not_sent_bytes))
}

/// Fills a block with bytes that do not compress.
fn fill(block: &mut [u8]) {
    let mut random = units::Random::new(0);
    for piece in block.chunks_mut(8) {
        piece.copy_from_slice(&random.next_u64().to_le_bytes()[..piece.len()]);
    }
}

/// Returns whether an error means only that there was nothing to read, or no room, in time.
fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn is_full_queue(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}
