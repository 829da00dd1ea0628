//! The sending threads: as fast as possible, or by a timetable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use probe::flow::{Due, FlowRate, FlowSent, Pace};
use sys::{
    Interest, Loopback, OpenError, Outcome, Poller, Refusal, SendOptions, SendSocket, SendTechniques, clock,
};
use units::Instant;

use super::options::Calls;
use super::receive::thread_cpu_ns;
use crate::control::reached_from;
use crate::refusal::stage_of;

/// Interval at which a sender checks whether it is to end: paced sleeps are exact only on the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Send buffer of a socket by default: 208 KiB, which the kernel reports doubled.
const SYSTEM_SEND_BUFFER_BYTES: usize = 106_496;

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

/// Counts of all senders of a run.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Counts of each endpoint, in their order.
    pub(super) endpoints: Vec<FlowSent>,
    pub(super) cpu_ns: u64,
    /// Time from the start until the last sender ended.
    pub(super) elapsed: Duration,
    /// Datagrams that a stall kept from being sent.
    pub(super) skipped: u64,
    /// Reasons why datagrams were refused, the last of each sender.
    pub(super) refusals: Vec<String>,
    /// Reason why no trains were sent although they were requested.
    pub(super) without_trains: Option<String>,
}

/// The sending threads.
pub(super) struct Senders {
    threads: Vec<JoinHandle<std::io::Result<SentByOne>>>,
    is_to_end: Arc<AtomicBool>,
    start: Instant,
}

struct SentByOne {
    endpoints: Vec<FlowSent>,
    cpu_ns: u64,
    ended: Instant,
    skipped: u64,
    refusal: Option<String>,
    without_trains: Option<String>,
}

impl Senders {
    /// Opens the sockets of all senders.
    pub(super) fn open(task: &Task) -> Result<Vec<Sender>, OpenError> {
        (0..task.senders).map(|_| Sender::open(task)).collect()
    }

    /// Begins to send.
    pub(super) fn begin(senders: Vec<Sender>, duration: Duration) -> std::io::Result<Self> {
        let start = clock::monotonic();
        let mut all = Self { threads: Vec::new(), is_to_end: Arc::default(), start };
        for sender in senders {
            let is_to_end = Arc::clone(&all.is_to_end);
            let thread = std::thread::Builder::new().name("sender".to_owned());
            all.threads.push(thread.spawn(move || sender.run(start, start + duration, &is_to_end))?);
        }
        Ok(all)
    }

    pub(super) fn are_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Asks the threads to stop sending.
    pub(super) fn ask_to_end(&self) {
        self.is_to_end.store(true, Ordering::Relaxed);
    }

    /// Waits for the threads, and adds up their counts.
    pub(super) fn join(mut self) -> std::io::Result<Sent> {
        let threads = std::mem::take(&mut self.threads);
        let all = threads.into_iter().map(|thread| thread.join().expect("a sender returns its errors"));
        let all = all.collect::<std::io::Result<Vec<SentByOne>>>()?;
        let ended = all.iter().map(|it| it.ended).max().unwrap_or(self.start);
        let mut endpoints: Vec<FlowSent> = Vec::new();
        for one in &all {
            endpoints.resize(one.endpoints.len(), FlowSent::default());
            for (sum, sent) in endpoints.iter_mut().zip(&one.endpoints) {
                add(sum, sent);
            }
        }
        Ok(Sent {
            endpoints,
            cpu_ns: all.iter().map(|it| it.cpu_ns).sum(),
            elapsed: ended.since(self.start),
            skipped: all.iter().map(|it| it.skipped).sum(),
            without_trains: all.iter().find_map(|it| it.without_trains.clone()),
            refusals: all.into_iter().filter_map(|it| it.refusal).collect(),
        })
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.ask_to_end();
    }
}

fn add(sum: &mut FlowSent, sent: &FlowSent) {
    sum.numbered += sent.numbered;
    sum.bytes += sent.bytes;
    for (stage, count) in sent.refused.nonzero() {
        sum.refused[stage] += count;
    }
}

/// The sockets of one thread, and their destinations.
pub(super) struct Sender {
    sockets: Vec<(SendSocket, Poller)>,
    endpoints: Vec<SocketAddr>,
    rate: FlowRate,
    payload_bytes: usize,
    calls: Calls,
    without_trains: Option<String>,
}

impl Sender {
    fn open(task: &Task) -> Result<Self, OpenError> {
        let endpoints: Vec<SocketAddr> =
            task.endpoints.iter().map(|endpoint| reached_from(task.local, *endpoint)).collect();
        let first = endpoints[0];
        let open = |_| {
            let (gso, batches) = (task.calls == Calls::Trains, task.calls != Calls::Single);
            let socket = SendSocket::open(&SendOptions {
                destination: first,
                interface: None,
                ttl: 1,
                loopback: Loopback::On,
                buffer_bytes: SYSTEM_SEND_BUFFER_BYTES,
                techniques: SendTechniques { gso, batches, connect: false },
            })?;
            let failed = |source| OpenError::System { step: "wait for the socket", address: first, source };
            let poller = Poller::new().map_err(failed)?;
            poller.add(&socket, 0, Interest::Write).map_err(failed)?;
            Ok((socket, poller))
        };
        let sockets = (0..task.sockets_each).map(open).collect::<Result<Vec<_>, OpenError>>()?;
        let is_without =
            task.calls == Calls::Trains && sockets.iter().any(|(socket, _)| !socket.techniques().gso);
        Ok(Self {
            sockets,
            without_trains: is_without.then(|| "this kernel has no UDP_SEGMENT (Linux 4.18)".to_owned()),
            endpoints,
            rate: shared(task.rate, task.senders),
            payload_bytes: task.payload_bytes,
            calls: task.calls,
        })
    }

    /// Sends bursts to the endpoints in turn, from the sockets in turn: at least one burst, even if the thread
    /// is scheduled only after the end. A run in which nothing was sent says nothing.
    fn run(mut self, start: Instant, end: Instant, is_to_end: &AtomicBool) -> std::io::Result<SentByOne> {
        let began_cpu_ns = thread_cpu_ns();
        // Refused on some kernels; pauses then end up to 50 µs late.
        let _ = clock::lower_timer_slack();
        let mut pace = Pace::new(self.rate, start);
        let memory = vec![0; pace.quantum() as usize * self.payload_bytes];
        let mut sent = vec![FlowSent::default(); self.endpoints.len()];
        let (mut refusal, mut first) = (None, None);
        for burst in 0.. {
            let now = clock::monotonic();
            if is_to_end.load(Ordering::Relaxed) || (now >= end && first.is_some()) {
                break;
            }
            let count = match pace.due(now.min(end)) {
                Due::At(moment) => {
                    clock::sleep_until(moment.min(end).min(now + POLL_INTERVAL));
                    continue;
                }
                Due::Now(count) => count,
            };
            first.get_or_insert(now);
            let place = burst % self.endpoints.len().max(self.sockets.len());
            let (socket, poller) = {
                let index = place % self.sockets.len();
                let (socket, poller) = &mut self.sockets[index];
                (socket, poller)
            };
            let endpoint = place % self.endpoints.len();
            let burst = &memory[..count as usize * self.payload_bytes];
            let outcomes = send(socket, burst, self.payload_bytes, self.calls, self.endpoints[endpoint]);
            let taken = tally(outcomes, self.payload_bytes, &mut sent[endpoint], &mut refusal);
            if let Some(error) = socket.take_end_of_trains() {
                self.without_trains = Some(error.to_string());
            }
            pace.hand(taken);
            if taken < count {
                poller.wait(Some(end.min(now + POLL_INTERVAL)))?;
                socket.drain_error_queue(&mut Vec::new())?;
            }
        }
        let now = clock::monotonic();
        Ok(SentByOne {
            endpoints: sent,
            cpu_ns: thread_cpu_ns().saturating_sub(began_cpu_ns),
            ended: now.min(end.max(first.unwrap_or(now))),
            skipped: pace.skipped(),
            refusal,
            without_trains: self.without_trains,
        })
    }
}

fn send<'a>(
    socket: &'a mut SendSocket,
    burst: &[u8],
    payload_bytes: usize,
    calls: Calls,
    to: SocketAddr,
) -> &'a [Outcome] {
    if calls == Calls::Trains {
        return socket.send_train(burst, payload_bytes, to);
    }
    let datagrams: Vec<&[u8]> = burst.chunks(payload_bytes).collect();
    socket.send_batch(&datagrams, to)
}

/// Counts the outcome of a burst; returns the number of datagrams that are done with. Those that found the
/// socket full were not sent, and are not retried.
fn tally(
    outcomes: &[Outcome],
    payload_bytes: usize,
    sent: &mut FlowSent,
    refusal: &mut Option<String>,
) -> u32 {
    let mut taken = 0;
    for outcome in outcomes {
        match outcome {
            Outcome::Refused(Refusal::SocketFull) => continue,
            Outcome::Sent => sent.bytes += payload_bytes as u64,
            Outcome::Refused(why) => {
                sent.refused[stage_of(*why)] += 1;
                *refusal = Some(why.to_string());
            }
        }
        sent.numbered += 1;
        taken += 1;
    }
    taken
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
    use ledger::Stage;

    use super::*;

    #[test]
    fn what_found_no_room_was_not_sent_and_what_was_refused_is_in_the_account() {
        let (mut sent, mut refusal) = (FlowSent::default(), None);
        let outcomes = [
            Outcome::Sent,
            Outcome::Refused(Refusal::QueueDiscipline),
            Outcome::Refused(Refusal::SocketFull),
            Outcome::Sent,
        ];
        assert_eq!(tally(&outcomes, 100, &mut sent, &mut refusal), 3);
        assert_eq!((sent.numbered, sent.bytes, sent.refused.total()), (3, 200, 1));
        assert_eq!(sent.refused[Stage::SenderQdisc], 1);
        assert!(refusal.unwrap().contains("ENOBUFS"));
    }

    #[test]
    fn a_sender_that_comes_late_sends_one_burst_and_says_when() {
        let reader = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let task = Task {
            local: SocketAddr::from(([127, 0, 0, 1], 0)),
            endpoints: vec![reader.local_addr().unwrap()],
            payload_bytes: 100,
            senders: 1,
            sockets_each: 1,
            rate: FlowRate::of_units(10),
            calls: Calls::Batches,
        };
        let run = |is_to_end: bool| {
            let start = clock::monotonic();
            let sender = Sender::open(&task).unwrap();
            (start, sender.run(start, start, &AtomicBool::new(is_to_end)).unwrap())
        };
        let (start, late) = run(false);
        assert_eq!(late.endpoints[0].numbered, 1);
        assert!(late.ended > start, "not before it was sent");
        assert_eq!(run(true).1.endpoints[0].numbered, 0, "nobody wants it any more");
    }

    #[test]
    fn senders_share_a_rate() {
        let one = FlowRate::of_units(3_000);
        assert_eq!(shared(one, 3), FlowRate::Limited { units: 3_000, nanos: 3_000_000_000 });
        assert_eq!(shared(FlowRate::Unlimited, 3), FlowRate::Unlimited);
    }
}
