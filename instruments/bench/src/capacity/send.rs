//! The sending threads: as fast as possible, or by a timetable.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use probe::flow::{FlowRate, FlowSent};
use sys::{Cancellation, OpenError, SendOptions, SendTechniques, clock};
use units::Instant;

use super::options::Calls;
use super::receive::thread_cpu_ns;
use crate::control::reached_from;
use flow::udp::{self, Outcomes};
use flow::{Paced, Room, Timetable};

/// Parameters common to all senders of a run.
#[derive(Clone)]
pub(super) struct Task {
    /// This end's address of the control connection: datagrams take the same path.
    pub(super) local: SocketAddr,
    pub(super) endpoints: Vec<SocketAddr>,
    pub(super) payload_bytes: usize,
    pub(super) senders: u32,
    /// Sockets of each sender: the kernel distributes datagrams of one port by their source address.
    pub(super) sockets_each: u32,
    /// Rate of all senders together.
    pub(super) rate: FlowRate,
    pub(super) calls: Calls,
}

/// Counts of a sender of a run, or of all.
#[derive(Clone, Default, Debug)]
pub(super) struct Sent {
    /// Counts of each endpoint, in their order.
    pub(super) endpoints: Vec<FlowSent>,
    pub(super) cpu_ns: u64,
    /// Time from the start until the last sender ended.
    pub(super) elapsed: Duration,
    /// Datagrams that a stall kept from being sent.
    pub(super) skipped: u64,
    /// Reasons why datagrams were refused, the last of each sender and endpoint.
    pub(super) refusals: Vec<String>,
    /// Note that no trains were sent although they were requested.
    pub(super) without_trains: Option<String>,
}

/// The sending threads.
pub(super) struct Senders {
    threads: Vec<JoinHandle<std::io::Result<Sent>>>,
    cancellation: Cancellation,
}

impl Senders {
    /// Opens the sockets of all senders.
    pub(super) fn open(task: &Task) -> Result<Vec<Sender>, OpenError> {
        (0..task.senders).map(|_| Sender::open(task)).collect()
    }

    /// Begins to send.
    pub(super) fn begin(senders: Vec<Sender>, duration: Duration) -> std::io::Result<Self> {
        let start = clock::monotonic();
        let mut all = Self { threads: Vec::new(), cancellation: Cancellation::new()? };
        for sender in senders {
            let cancellation = all.cancellation.clone();
            let thread = std::thread::Builder::new().name("sender".to_owned());
            all.threads.push(thread.spawn(move || sender.run(start, start + duration, &cancellation))?);
        }
        Ok(all)
    }

    pub(super) fn are_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Asks the threads to stop sending.
    pub(super) fn ask_to_end(&self) {
        self.cancellation.cancel();
    }

    /// Waits for the threads, and adds up their counts.
    pub(super) fn join(mut self) -> std::io::Result<Sent> {
        let mut all = Sent::default();
        for thread in std::mem::take(&mut self.threads) {
            all.add(thread.join().expect("a sender returns its errors")?);
        }
        Ok(all)
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

impl Sent {
    fn add(&mut self, one: Self) {
        self.endpoints.resize(one.endpoints.len(), FlowSent::default());
        for (sum, sent) in self.endpoints.iter_mut().zip(&one.endpoints) {
            sum.numbered += sent.numbered;
            sum.bytes += sent.bytes;
            sum.refused.add(&sent.refused);
        }
        self.cpu_ns += one.cpu_ns;
        self.elapsed = self.elapsed.max(one.elapsed);
        self.skipped += one.skipped;
        self.refusals.extend(one.refusals);
        self.without_trains = self.without_trains.take().or(one.without_trains);
    }
}

/// The sockets of one thread, and their destinations.
pub(super) struct Sender {
    sockets: Vec<udp::Sender>,
    endpoints: Vec<(SocketAddr, Outcomes)>,
    rate: FlowRate,
    payload_bytes: usize,
    /// The content of all datagrams of a burst.
    memory: Vec<u8>,
    /// Number of the next burst.
    burst: usize,
}

impl Sender {
    fn open(task: &Task) -> Result<Self, OpenError> {
        let reached = |endpoint: &SocketAddr| reached_from(task.local, *endpoint);
        let endpoints: Vec<_> =
            task.endpoints.iter().map(|endpoint| (reached(endpoint), Outcomes::default())).collect();
        let (gso, batches) = (task.calls == Calls::Trains, task.calls != Calls::Single);
        let techniques = SendTechniques { gso, batches, connect: false };
        let options = SendOptions { techniques, ..udp::to(endpoints[0].0) };
        Ok(Self {
            sockets: (0..task.sockets_each).map(|_| udp::Sender::open(&options)).collect::<Result<_, _>>()?,
            endpoints,
            rate: shared(task.rate, task.senders),
            payload_bytes: task.payload_bytes,
            memory: Vec::new(),
            burst: 0,
        })
    }

    fn run(mut self, start: Instant, end: Instant, cancellation: &Cancellation) -> std::io::Result<Sent> {
        let began_cpu_ns = thread_cpu_ns();
        // Refused on some kernels; pauses then end up to 50 µs late.
        let _ = clock::lower_timer_slack();
        let timetable = Timetable { start, end, rate: self.rate };
        let sending = flow::send(&mut self, timetable, &|| cancellation.is_cancelled());
        sending.outcome?;
        let outcomes = || self.endpoints.iter().map(|(_, outcomes)| outcomes);
        Ok(Sent {
            endpoints: outcomes().map(|outcomes| outcomes.sent).collect(),
            cpu_ns: thread_cpu_ns().saturating_sub(began_cpu_ns),
            elapsed: sending.ended.since(start),
            skipped: sending.skipped,
            refusals: outcomes().filter_map(|outcomes| Some(outcomes.refusal?.to_string())).collect(),
            without_trains: self.sockets.iter().find_map(udp::Sender::note_without_trains),
        })
    }

    /// Returns the index of the socket of a burst, and of its endpoint.
    fn place(&self, burst: usize) -> (usize, usize) {
        let place = burst % self.endpoints.len().max(self.sockets.len());
        (place % self.sockets.len(), place % self.endpoints.len())
    }
}

impl Paced for Sender {
    type Error = std::io::Error;

    /// Sends bursts to the endpoints in turn, from the sockets in turn. Datagrams that find the socket full are
    /// not sent, and not retried.
    fn send(&mut self, count: u32) -> std::io::Result<Room> {
        let (socket, endpoint) = self.place(self.burst);
        self.burst += 1;
        let size_bytes = count as usize * self.payload_bytes;
        self.memory.resize(size_bytes.max(self.memory.len()), 0);
        let (to, outcomes) = &mut self.endpoints[endpoint];
        let mut left = 0;
        let burst = &self.memory[..size_bytes];
        self.sockets[socket].send(burst, count as usize, self.payload_bytes, *to, outcomes, |_| left += 1);
        outcomes.sent.numbered += u64::from(count - left);
        Ok(if left > 0 { Room::Full(count - left) } else { Room::Taken(count) })
    }

    fn wait_for_room(&mut self, until: Instant) -> std::io::Result<()> {
        let (socket, _) = self.place(self.burst - 1);
        self.sockets[socket].wait_for_room(until)
    }
}

/// Returns the part of a rate that each of `senders` has.
fn shared(rate: FlowRate, senders: u32) -> FlowRate {
    match rate {
        FlowRate::Unlimited => FlowRate::Unlimited,
        FlowRate::Limited { units, nanos } => FlowRate::Limited { units, nanos: nanos * u128::from(senders) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_go_to_the_endpoints_in_turn_and_each_is_in_its_account() {
        let readers = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let task = Task {
            local: SocketAddr::from(([127, 0, 0, 1], 0)),
            endpoints: readers.iter().map(|reader| reader.local_addr().unwrap()).collect(),
            payload_bytes: 100,
            senders: 1,
            sockets_each: 1,
            rate: FlowRate::of_units(10),
            calls: Calls::Batches,
        };
        let mut sender = Sender::open(&task).unwrap();
        for _ in 0..3 {
            assert_eq!(sender.send(2).unwrap(), Room::Taken(2));
        }
        let sent = sender.endpoints.iter().map(|(_, outcomes)| (outcomes.sent.numbered, outcomes.sent.bytes));
        assert_eq!(sent.collect::<Vec<_>>(), [(4, 400), (2, 200)]);
    }

    #[test]
    fn senders_share_a_rate() {
        let one = FlowRate::of_units(3_000);
        assert_eq!(shared(one, 3), FlowRate::Limited { units: 3_000, nanos: 3_000_000_000 });
        assert_eq!(shared(FlowRate::Unlimited, 3), FlowRate::Unlimited);
    }
}
