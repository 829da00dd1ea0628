//! Flows of datagrams, to one receiver or to the members of a group.
//!
//! How datagrams enter and leave the kernel is said in two places only: `send_waiting` and `take_batch`.

use std::net::{IpAddr, SocketAddr};

use ledger::Stage;
use probe::flow::{FlowReceiver, FlowSent, Numbering, STAMP_BYTES, Stamp};
use sys::{
    Interest, Interface, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    ReceiveTechniques, Refusal, SendOptions, SendSocket, SendTechniques, clock,
};
use units::{Instant, WallTime};

use super::{
    Arrived, Flow, FlowEnd, Listening, ReceiveEnd, Room, SendEnd, Task, Transport, TransportError,
    said_if_clamped,
};
use crate::throughput::message::{Account, Count, FlowKey, Sent};
use crate::throughput::options::{Fragments, Options, Protocol, Way};

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// How far back a kernel's time stamp may lie and be believed: beyond it somebody has set the clock.
const OLDEST_ARRIVAL_NS: i64 = 1_000_000_000;

pub(super) struct Udp;

struct Receivers {
    /// One a flow: where its datagrams are to go.
    endpoints: Vec<SocketAddr>,
    flows: Vec<Flow>,
}

impl Transport for Udp {
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError> {
        let mut receivers = Receivers { endpoints: Vec::new(), flows: Vec::new() };
        for key in flows_where(task, |way| !task.end.sends(way)) {
            let mut address = receive_address(task.options, task.local);
            for receiver in 0..task.options.receivers {
                let end = Receiver::open(task, key, address)?;
                // Members of one group share the port that the first of them was given.
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
        let keys: Vec<FlowKey> = flows_where(task, |way| task.end.sends(way)).collect();
        if keys.len() != endpoints.len() {
            return Err(TransportError::Endpoints { made: endpoints.len(), wanted: keys.len() });
        }
        for (key, to) in keys.into_iter().zip(endpoints) {
            self.flows.push(Sender::open(task, key, *to)?.into_flow(key));
        }
        Ok(self.flows)
    }
}

/// Returns the flows of the ways that are wanted, in an order that both ends know.
fn flows_where(task: &Task<'_>, wanted: impl Fn(Way) -> bool) -> impl Iterator<Item = FlowKey> {
    let ways = task.options.ways().iter().copied().filter(move |way| wanted(*way));
    let streams = task.options.streams;
    ways.flat_map(move |way| (0..streams).map(move |stream| FlowKey::sender(way, stream)))
}

/// Returns where datagrams are received: the group, or the address that the control connection came by.
fn receive_address(options: &Options, local: IpAddr) -> SocketAddr {
    match options.protocol {
        Protocol::Multicast => SocketAddr::new(options.group.into(), 0),
        Protocol::Udp | Protocol::Tcp => SocketAddr::new(local, 0),
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
    /// One datagram beside the other.
    memory: Vec<u8>,
    /// Datagrams of the last call that found no room, as places in `memory`.
    waiting: Vec<usize>,
    sent: FlowSent,
    taken: u64,
    refusal: Option<Refusal>,
}

impl Sender {
    fn open(task: &Task<'_>, key: FlowKey, to: SocketAddr) -> Result<Self, TransportError> {
        let socket = SendSocket::open(&SendOptions {
            destination: to,
            interface: to.ip().is_multicast().then(|| interface(task.local)).flatten(),
            ttl: 1,
            loopback: Loopback::On,
            buffer_bytes: task.options.buffer_bytes.unwrap_or(SYSTEM_SEND_BUFFER_BYTES),
            techniques: SendTechniques { gso: false, ..SendTechniques::default() },
        })?;
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
            waiting: Vec::new(),
            sent: FlowSent::default(),
            taken: 0,
            refusal: None,
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        Flow {
            key,
            local: self.socket.local_address(),
            remote: Some(self.to),
            congestion_control: None,
            notes: said_if_clamped(self.socket.granted_buffer()).into_iter().collect(),
            end: FlowEnd::Send(Box::new(self)),
        }
    }

    /// Writes `count` new datagrams into memory.
    fn write(&mut self, count: usize) {
        self.memory.resize((count * self.unit_bytes).max(self.memory.len()), 0);
        self.waiting = (0..count).collect();
        let sent = clock::monotonic();
        for place in 0..count {
            let number = self.sent.numbered + place as u64;
            let stamp = Stamp { run: self.run, flow: self.flow, number, sent };
            stamp.write(&mut self.memory[place * self.unit_bytes..][..self.unit_bytes]);
        }
        self.sent.numbered += count as u64;
    }

    /// Sends what waits in memory; keeps what found no room.
    fn send_waiting(&mut self) -> u32 {
        let memory = &self.memory;
        let unit = |place: &usize| &memory[place * self.unit_bytes..][..self.unit_bytes];
        let datagrams: Vec<&[u8]> = self.waiting.iter().map(unit).collect();
        let outcomes = self.socket.send_batch(&datagrams, self.to);
        let (mut taken, mut still_waiting) = (0, Vec::new());
        for (place, outcome) in self.waiting.iter().zip(outcomes) {
            match outcome {
                Outcome::Sent => taken += 1,
                Outcome::Refused(Refusal::SocketFull) => still_waiting.push(*place),
                Outcome::Refused(refusal) => {
                    self.sent.refused[stage_of(*refusal)] += 1;
                    self.refusal = Some(*refusal);
                }
            }
        }
        self.waiting = still_waiting;
        self.taken += u64::from(taken);
        self.sent.bytes += u64::from(taken) * self.unit_bytes as u64;
        taken
    }
}

impl SendEnd for Sender {
    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        let is_new = self.waiting.is_empty();
        if is_new {
            self.write(count as usize);
        }
        self.send_waiting();
        // Units count as handed over when they are written: what waits is sent before anything new.
        let handed = if is_new { count } else { 0 };
        Ok(if self.waiting.is_empty() { Room::Taken(handed) } else { Room::Full(handed) })
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        self.poller.wait(Some(until))?;
        // What ICMP reported would keep the poller awake; refusals are counted where they are met.
        Ok(self.socket.drain_error_queue(&mut Vec::new())?)
    }

    fn finish(&mut self) -> Result<(), TransportError> {
        self.sent.refused[Stage::SenderSocket] += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn count(&self) -> Count {
        Count { units: self.taken, bytes: self.sent.bytes, ..Count::default() }
    }

    fn sent(&self) -> Sent {
        Sent::of(&self.sent)
    }

    fn notes(&self) -> Vec<String> {
        let remedy = match self.refusal {
            Some(Refusal::TooLarge) => {
                "\nlower -l to the MTU of the path less 28 bytes, or leave --dont-fragment out"
            }
            Some(Refusal::Peer) => "\nsee whether the receiver was ended",
            Some(_) => "\nlower the rate with -b, or see `ip route get` and the firewall",
            None => "",
        };
        let total = self.sent.refused.total();
        self.refusal
            .map(|refusal| {
                format!("{total} datagrams to {} were refused; the last: {refusal}{remedy}", self.to)
            })
            .into_iter()
            .collect()
    }
}

/// What the kernel gives a socket that asks for none: 208 KiB, told doubled.
const SYSTEM_SEND_BUFFER_BYTES: usize = 106_496;

fn stage_of(refusal: Refusal) -> Stage {
    match refusal {
        Refusal::SocketFull | Refusal::TooLarge => Stage::SenderSocket,
        Refusal::QueueDiscipline => Stage::SenderQdisc,
        _ => Stage::SenderIp,
    }
}

struct Receiver {
    socket: ReceiveSocket,
    poller: Poller,
    batch: ReceiveBatch,
    book: FlowReceiver,
}

impl Receiver {
    fn open(task: &Task<'_>, key: FlowKey, address: SocketAddr) -> Result<Self, TransportError> {
        let system =
            sys::host::receive_buffer_default().map_or(SYSTEM_SEND_BUFFER_BYTES as u64, |bytes| bytes / 2);
        let buffer_bytes =
            task.options.buffer_bytes.unwrap_or(usize::try_from(system).unwrap_or(SYSTEM_SEND_BUFFER_BYTES));
        let interface = address.ip().is_multicast().then(|| interface(task.local)).flatten();
        let socket = ReceiveSocket::open(&ReceiveOptions {
            interface,
            techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, buffer_bytes)
        })?;
        let poller = Poller::new()?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        Ok(Self {
            socket,
            poller,
            // Room for a stamp at least, so that what is of another kind is seen to be.
            batch: ReceiveBatch::with_slot_bytes(task.unit_bytes.max(STAMP_BYTES)),
            book: FlowReceiver::new(task.run, key.flow(), Numbering::of_payload(task.unit_bytes)),
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        Flow {
            key,
            local: self.socket.local_address(),
            remote: None,
            congestion_control: None,
            notes: said_if_clamped(self.socket.granted_buffer()).into_iter().collect(),
            end: FlowEnd::Receive(Box::new(self)),
        }
    }

    fn take_batch(&mut self) -> Result<bool, TransportError> {
        let received = self.socket.receive_batch(&mut self.batch)?;
        let (now, wall) = clock::pair();
        for datagram in self.batch.iter() {
            self.book.accept(arrival(now, wall, datagram.kernel_time), datagram.bytes);
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
        self.book.has_all(&sent.to_flow())
    }

    fn count(&self) -> Count {
        Count::of_arrivals(&self.book.totals())
    }

    fn close(&self, sent: Option<&Sent>) -> Result<Account, TransportError> {
        let drops = self.socket.meminfo().map_or(0, |info| u64::from(info.drops));
        let account = self.book.close(sent.map(Sent::to_flow).as_ref(), drops);
        account.check()?;
        Ok(Account::of_datagrams(&account))
    }
}

/// Returns when a datagram arrived, on the monotonic clock: as long ago as the kernel's time says. A clock that was set
/// in between is not believed.
fn arrival(now: Instant, wall: WallTime, kernel_time: Option<WallTime>) -> Instant {
    let age = kernel_time.map_or(0, |time| wall.nanos_since(time));
    let age = u64::try_from(age).ok().filter(|_| age <= OLDEST_ARRIVAL_NS).unwrap_or(0);
    now - std::time::Duration::from_nanos(age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_lies_as_far_back_as_the_kernel_says_unless_the_clock_was_set() {
        let (now, wall) = (Instant::from_nanos(5_000_000_000), WallTime::from_nanos(1_000_000_000_000));
        assert_eq!(arrival(now, wall, Some(wall.offset(-700))), Instant::from_nanos(4_999_999_300));
        assert_eq!(arrival(now, wall, Some(wall.offset(700))), now, "from the future");
        assert_eq!(arrival(now, wall, Some(wall.offset(-OLDEST_ARRIVAL_NS - 1))), now, "from long ago");
        assert_eq!(arrival(now, wall, None), now);
    }
}
