//! Flows of datagrams, to one receiver or to the members of a group.
//!
//! Only `send_waiting` and `take_batch` decide how datagrams enter and leave the kernel. Trains consist of the
//! same datagrams, each with its own stamp: only the number that the kernel handles as one differs.

use std::net::{IpAddr, SocketAddr};

use ledger::{MAX_TRAIN, Stage};
use probe::flow::{Arrival, FlowReceiver, FlowSent, Numbering, STAMP_BYTES, SocketDrops, Stamp};
use sys::{
    Interest, Interface, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    ReceiveTechniques, Refusal, SendOptions, SendSocket, SendTechniques, clock,
};
use units::{Instant, WallTime};

use super::{
    Arrived, Flow, FlowEnd, Listening, ReceiveEnd, Room, SendEnd, Task, Transport, TransportError,
    granted_bytes, said_if_clamped,
};
use crate::day_clock::{DayClock, Moment};
use crate::refusal::stage_of;
use crate::throughput::message::{Account, Count, FlowKey, Sent};
use crate::throughput::options::Fragments;

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// Maximum age of a trusted kernel time stamp: no queue holds a datagram for longer.
const OLDEST_ARRIVAL_NS: i64 = 1_000_000_000;

pub(super) struct Udp;

struct Receivers {
    /// Destination of each flow's datagrams.
    endpoints: Vec<SocketAddr>,
    flows: Vec<Flow>,
}

impl Transport for Udp {
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError> {
        let mut receivers = Receivers { endpoints: Vec::new(), flows: Vec::new() };
        for key in task.receiving_flows() {
            let mut address = task.receive_address(0);
            for receiver in 0..task.options.receivers {
                let end = Receiver::open(task, key, address)?;
                // Members of one group share the port that the first of them got.
                address = end.socket.local_address();
                receivers.flows.push(end.into_flow(FlowKey { receiver: Some(receiver), ..key }));
            }
            receivers.endpoints.push(address);
        }
        Ok(Box::new(receivers))
    }
}

impl Listening for Receivers {
    fn endpoints(&self) -> Vec<SocketAddr> {
        self.endpoints.clone()
    }

    fn connect(
        mut self: Box<Self>,
        task: &Task<'_>,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<Flow>, TransportError> {
        for (key, to) in task.sending_flows_to(endpoints)? {
            self.flows.push(Sender::open(task, key, to)?.into_flow(key));
        }
        Ok(self.flows)
    }
}

/// Returns the interface that has the address of the control connection.
fn interface(local: IpAddr) -> Option<Interface> {
    Interface::find(&local.to_string()).ok()
}

struct Sender {
    socket: SendSocket,
    to: SocketAddr,
    poller: Poller,
    run: u32,
    flow: u32,
    unit_bytes: usize,
    /// The datagrams, one after the other.
    memory: Vec<u8>,
    send_outcomes: SendOutcomes,
    /// Reason why datagrams that were to leave in trains do not.
    without_trains: Option<String>,
}

/// The outcomes of the datagrams of a sender.
#[derive(Default)]
struct SendOutcomes {
    sent: FlowSent,
    taken: u64,
    /// Number of datagrams in memory: those that were numbered last.
    written: usize,
    /// Indices in memory of those that found no room yet.
    waiting: Vec<usize>,
    refusal: Option<Refusal>,
}

impl SendOutcomes {
    /// Records the outcomes of the datagrams at these indices, each of `unit_bytes`.
    fn take(&mut self, places: &[usize], outcomes: &[Outcome], unit_bytes: usize) {
        for (place, outcome) in places.iter().zip(outcomes) {
            match outcome {
                Outcome::Sent => {
                    self.taken += 1;
                    self.sent.bytes += unit_bytes as u64;
                }
                Outcome::Refused(Refusal::SocketFull) => self.waiting.push(*place),
                Outcome::Refused(refusal) => {
                    self.sent.refused[stage_of(*refusal)] += 1;
                    self.refusal = Some(*refusal);
                }
            }
        }
    }

    /// Ends the flow. Waiting datagrams never left, because this end stopped: they were not sent, and their
    /// numbers are not used. Only those before one that did leave keep their numbers, and count as refused.
    fn end(&mut self) {
        while self.waiting.last().is_some_and(|place| place + 1 == self.written) {
            self.waiting.pop();
            self.written -= 1;
            self.sent.numbered -= 1;
        }
        self.sent.refused[Stage::SenderSocket] += self.waiting.drain(..).len() as u64;
    }

    /// Returns a note on refused datagrams, with a remedy.
    fn refused_in_words(&self, to: SocketAddr) -> Option<String> {
        let refusal = self.refusal?;
        let remedy = match refusal {
            Refusal::TooLarge => {
                "lower -l to the MTU of the path less 28 bytes, or leave --dont-fragment out"
            }
            Refusal::Peer => "see whether the receiver was ended",
            _ => "lower the rate with -b, or see `ip route get` and the firewall",
        };
        let total = self.sent.refused.total();
        Some(format!("{total} datagrams to {to} were refused; the last: {refusal}\n{remedy}"))
    }
}

impl Sender {
    fn open(task: &Task<'_>, key: FlowKey, to: SocketAddr) -> Result<Self, TransportError> {
        let socket = SendSocket::open(&SendOptions {
            destination: to,
            interface: to.ip().is_multicast().then(|| interface(task.local.ip())).flatten(),
            ttl: 1,
            loopback: Loopback::On,
            buffer_bytes: task
                .options
                .send_buffer_bytes
                .or(task.options.buffer_bytes)
                .unwrap_or(SYSTEM_SEND_BUFFER_BYTES),
            techniques: SendTechniques { gso: task.options.gso, ..SendTechniques::default() },
        })?;
        let is_without = task.options.gso && !socket.techniques().gso;
        if task.options.fragments == Fragments::Forbidden {
            sys::fragments::forbid(&socket, to)?;
        }
        let poller = Poller::new()?;
        poller.add(&socket, SOCKET, Interest::Write)?;
        Ok(Self {
            socket,
            to,
            poller,
            run: task.run,
            flow: key.flow(),
            unit_bytes: task.unit_bytes,
            memory: Vec::new(),
            send_outcomes: SendOutcomes::default(),
            without_trains: is_without.then(|| "this kernel has no UDP_SEGMENT (Linux 4.18)".to_owned()),
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        Flow {
            key,
            local: self.socket.local_address(),
            remote: Some(self.to),
            congestion_control: None,
            buffer_bytes: Some(granted_bytes(self.socket.granted_buffer())),
            notes: said_if_clamped(self.socket.granted_buffer()).into_iter().collect(),
            end: FlowEnd::Send(Box::new(self)),
        }
    }

    /// Writes `count` new datagrams into memory.
    fn write(&mut self, count: usize) {
        self.memory.resize((count * self.unit_bytes).max(self.memory.len()), 0);
        (self.send_outcomes.written, self.send_outcomes.waiting) = (count, (0..count).collect());
        let sent = clock::monotonic();
        for place in 0..count {
            let number = self.send_outcomes.sent.numbered + place as u64;
            let stamp = Stamp { run: self.run, flow: self.flow, number, sent };
            stamp.write(&mut self.memory[place * self.unit_bytes..][..self.unit_bytes]);
        }
        self.send_outcomes.sent.numbered += count as u64;
    }

    /// Sends the datagrams that wait in memory; keeps those that found no room.
    fn send_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.send_outcomes.waiting);
        if self.socket.techniques().gso {
            // A train is contiguous: datagrams missing in between left before.
            waiting.chunk_by(|one, next| *next == one + 1).for_each(|places| self.send_train(places));
        } else {
            self.send_single(&waiting);
        }
    }

    fn send_train(&mut self, places: &[usize]) {
        let (Some(first), size_bytes) = (places.first(), places.len() * self.unit_bytes) else { return };
        let train = &self.memory[first * self.unit_bytes..][..size_bytes];
        let outcomes = self.socket.send_train(train, self.unit_bytes, self.to);
        self.send_outcomes.take(places, outcomes, self.unit_bytes);
        if let Some(error) = self.socket.take_end_of_trains() {
            self.without_trains = Some(error.to_string());
        }
    }

    fn send_single(&mut self, places: &[usize]) {
        let memory = &self.memory;
        let unit = |place: &usize| &memory[place * self.unit_bytes..][..self.unit_bytes];
        let datagrams: Vec<&[u8]> = places.iter().map(unit).collect();
        let outcomes = self.socket.send_batch(&datagrams, self.to);
        self.send_outcomes.take(places, outcomes, self.unit_bytes);
    }
}

impl SendEnd for Sender {
    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        let is_new = self.send_outcomes.waiting.is_empty();
        if is_new {
            self.write(count as usize);
        }
        self.send_waiting();
        // Units count as sent when they are written: waiting ones are sent before new ones.
        let handed = if is_new { count } else { 0 };
        Ok(if self.send_outcomes.waiting.is_empty() { Room::Taken(handed) } else { Room::Full(handed) })
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        self.poller.wait(Some(until))?;
        // Reports of ICMP would keep the poller awake; refusals are counted where they occur.
        Ok(self.socket.drain_error_queue(&mut Vec::new())?)
    }

    fn finish(&mut self) -> Result<(), TransportError> {
        self.send_outcomes.end();
        Ok(())
    }

    fn count(&self) -> Count {
        Count { units: self.send_outcomes.taken, bytes: self.send_outcomes.sent.bytes, ..Count::default() }
    }

    fn sent(&self) -> Sent {
        Sent::of(&self.send_outcomes.sent)
    }

    fn notes(&self) -> Vec<String> {
        let without_trains = self.without_trains.as_ref().map(|why| {
            format!("datagrams left one by one although --gso was asked for: {why}\nsee `ethtool -k`, or leave --gso out")
        });
        self.send_outcomes.refused_in_words(self.to).into_iter().chain(without_trains).collect()
    }
}

/// Send buffer of a socket by default: 208 KiB, which the kernel reports doubled.
const SYSTEM_SEND_BUFFER_BYTES: usize = 106_496;

struct Receiver {
    socket: ReceiveSocket,
    poller: Poller,
    batch: ReceiveBatch,
    flow: FlowReceiver,
    day_clock: DayClock,
    /// True if trains were to be received whole.
    is_to_take_trains: bool,
}

impl Receiver {
    fn open(task: &Task<'_>, key: FlowKey, address: SocketAddr) -> Result<Self, TransportError> {
        let system =
            sys::host::receive_buffer_default().map_or(SYSTEM_SEND_BUFFER_BYTES as u64, |bytes| bytes / 2);
        let buffer_bytes =
            task.options.buffer_bytes.unwrap_or(usize::try_from(system).unwrap_or(SYSTEM_SEND_BUFFER_BYTES));
        let interface = address.ip().is_multicast().then(|| interface(task.local.ip())).flatten();
        let socket = ReceiveSocket::open(&ReceiveOptions {
            interface,
            techniques: ReceiveTechniques { gro: task.options.gro, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, buffer_bytes)
        })?;
        let poller = Poller::new()?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        let batch = if socket.techniques().gro {
            ReceiveBatch::for_trains()
        } else {
            // Room for a stamp at least, so that datagrams of another kind are recognised.
            ReceiveBatch::with_slot_bytes(task.unit_bytes.max(STAMP_BYTES))
        };
        Ok(Self {
            socket,
            poller,
            batch,
            day_clock: DayClock::new(Moment::now()),
            is_to_take_trains: task.options.gro,
            flow: FlowReceiver::new(task.run, key.flow(), Numbering::of_payload(task.unit_bytes)),
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        Flow {
            key,
            local: self.socket.local_address(),
            remote: None,
            congestion_control: None,
            buffer_bytes: Some(granted_bytes(self.socket.granted_buffer())),
            notes: said_if_clamped(self.socket.granted_buffer()).into_iter().collect(),
            end: FlowEnd::Receive(Box::new(self)),
        }
    }

    /// Returns the socket's drops since it was opened.
    fn drops(&self) -> SocketDrops {
        let count = self.socket.meminfo().map_or(0, |info| u64::from(info.drops));
        if self.socket.techniques().gro {
            SocketDrops::of_trains(count)
        } else {
            SocketDrops::of_datagrams(count)
        }
    }

    fn take_batch(&mut self) -> Result<bool, TransportError> {
        let received = self.socket.receive_batch(&mut self.batch)?;
        let moment = Moment::now();
        let (is_believed, now) = (self.day_clock.is_believed(moment), moment.monotonic);
        for piece in self.batch.iter() {
            let kernel_time = piece.kernel_time.filter(|_| is_believed);
            let arrival = Arrival { host: arrival(now, moment.wall, kernel_time), reader: now };
            piece.datagrams().for_each(|datagram| self.flow.accept(arrival, datagram));
        }
        Ok(received > 0)
    }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError> {
        let arrived = self.take_batch()? || {
            self.poller.wait(Some(until))?;
            self.take_batch()?
        };
        Ok(if arrived { Arrived::Some } else { Arrived::Nothing })
    }

    fn has_all(&self, sent: &Sent) -> bool {
        self.flow.has_all(&sent.to_flow())
    }

    fn count(&self) -> Count {
        Count::of_arrivals(&self.flow.totals())
    }

    fn close(&mut self, sent: Option<&Sent>) -> Result<Account, TransportError> {
        let account = self.flow.close(sent.map(Sent::to_flow).as_ref(), self.drops());
        account.check()?;
        Ok(Account::of_datagrams(&account))
    }

    fn notes(&self) -> Vec<String> {
        let takes_trains = self.socket.techniques().gro;
        if self.is_to_take_trains && !takes_trains {
            return vec!["datagrams were received one by one although --gro was asked for: this kernel has no UDP_GRO (Linux 5.0)".to_owned()];
        }
        let drops = self.drops().count;
        let bound = (takes_trains && drops > 0).then(|| {
            format!(
                "the receiving socket dropped {drops} trains (--gro), each of up to {MAX_TRAIN} datagrams: \
                 receiver_socket_buffer is a bound"
            )
        });
        bound.into_iter().collect()
    }
}

/// Returns the arrival time of a datagram on the monotonic clock: as long ago as the kernel's stamp says, if
/// that is plausible. Steps of the clock in between are detected before ([`DayClock`]).
fn arrival(now: Instant, wall: WallTime, kernel_time: Option<WallTime>) -> Instant {
    let age = kernel_time.map_or(0, |time| wall.nanos_since(time));
    let age = u64::try_from(age).ok().filter(|_| age <= OLDEST_ARRIVAL_NS).unwrap_or(0);
    now - std::time::Duration::from_nanos(age)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::throughput::message::{AccountState, End};
    use crate::throughput::options::{Options, Protocol, Rate, Way};

    #[test]
    fn trains_are_cut_into_the_datagrams_that_they_were_made_of() {
        const UNIT_BYTES: usize = 1_000;
        const BURST: u32 = 16;
        let options = Options {
            protocol: Protocol::Udp,
            gso: true,
            gro: true,
            buffer_bytes: Some(1 << 18),
            ..Options::default()
        };
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        let task = Task {
            options: &options,
            end: End::Client,
            run: 0,
            token: 0,
            rate: Rate::Bits(0),
            unit_bytes: UNIT_BYTES,
            local: (local, 0).into(),
            peer: local,
            patience: Duration::from_secs(1),
        };
        let key = FlowKey::sender(Way::Forward, 0);
        let mut receiver = Receiver::open(&task, key, (local, 0).into()).unwrap();
        let mut sender = Sender::open(&task, key, receiver.socket.local_address()).unwrap();
        let mut longest = 0;
        // A sender sends no train before a thousand datagrams were received individually.
        for _ in 0..2_048 / BURST {
            assert_eq!(sender.send(BURST).unwrap(), Room::Taken(BURST));
            while receiver.take_batch().unwrap() {
                let lengths = receiver.batch.iter().map(|piece| piece.datagrams().count());
                longest = lengths.fold(longest, usize::max);
            }
        }
        sender.finish().unwrap();
        let account = receiver.close(Some(&sender.sent())).unwrap();
        assert!(account.is_loss_free() && account.state == AccountState::Closed, "{account:?}");
        assert_eq!((account.sent, receiver.count().bytes), (2_048, 2_048 * UNIT_BYTES as u64));
        if sender.notes().is_empty() && receiver.notes().is_empty() {
            assert!((2..=BURST as usize).contains(&longest), "no train came: {longest}");
        } else {
            println!("SKIPPED: {:?} {:?}", sender.notes(), receiver.notes());
        }
    }

    #[test]
    fn a_sender_whose_trains_ended_says_why() {
        let options = Options { protocol: Protocol::Udp, gso: true, ..Options::default() };
        let (local, rate) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Rate::Bits(0));
        let (end, run, token, unit_bytes, patience) = (End::Client, 0, 0, 100, Duration::from_secs(1));
        let task =
            Task { options: &options, end, run, token, rate, unit_bytes, local, peer: local.ip(), patience };
        let to = (local.ip(), 9).into();
        let mut sender = Sender::open(&task, FlowKey::sender(Way::Forward, 0), to).unwrap();
        sender.without_trains = None;
        assert_eq!(sender.notes(), Vec::<String>::new());
        sender.without_trains = Some("the network card cannot".to_owned());
        let [note] = &sender.notes()[..] else { panic!() };
        assert!(note.contains("although --gso was asked for: the network card cannot"), "{note}");
    }

    #[test]
    fn what_waited_when_the_sender_stopped_was_not_sent_and_what_was_overtaken_is_lost() {
        let of = |waiting: &[usize]| {
            let sent = FlowSent { numbered: 100, ..FlowSent::default() };
            let mut send_outcomes =
                SendOutcomes { sent, written: 4, waiting: waiting.to_vec(), ..SendOutcomes::default() };
            send_outcomes.end();
            send_outcomes.end();
            (
                send_outcomes.sent.numbered,
                send_outcomes.sent.refused[Stage::SenderSocket],
                send_outcomes.waiting.len(),
            )
        };
        assert_eq!(of(&[]), (100, 0, 0));
        assert_eq!(of(&[2, 3]), (98, 0, 0));
        assert_eq!(of(&[0, 1, 2, 3]), (96, 0, 0), "all of the last call");
        assert_eq!(of(&[1, 3]), (99, 1, 0), "the datagram behind it left");
        assert_eq!(of(&[0, 1]), (100, 2, 0));
    }

    #[test]
    fn an_arrival_lies_as_far_back_as_the_kernel_says_unless_the_clock_was_set() {
        let (now, wall) = (Instant::from_nanos(5_000_000_000), WallTime::from_nanos(1_000_000_000_000));
        assert_eq!(arrival(now, wall, Some(wall.offset(-700))), Instant::from_nanos(4_999_999_300));
        assert_eq!(arrival(now, wall, Some(wall.offset(700))), now, "from the future");
        assert_eq!(arrival(now, wall, Some(wall.offset(-OLDEST_ARRIVAL_NS - 1))), now, "from long ago");
        assert_eq!(arrival(now, wall, None), now);
    }
}
