//! Flows of datagrams, to one receiver or to the members of a group.
//!
//! Only `send_waiting` and `take_batch` decide how datagrams enter and leave the kernel. Trains consist of the
//! same datagrams, each with its own stamp: only the number that the kernel handles as one differs.

use std::net::SocketAddr;

use ledger::{MAX_TRAIN, Stage};
use probe::flow::{Arrival, FlowReceiver, FlowSent, Numbering, STAMP_BYTES, SocketDrops, Stamp};
use sys::{Interface, ReceiveOptions, ReceiveTechniques, Refusal, SendOptions, SendTechniques, clock};
use units::{Instant, WallTime};

use super::{
    Arrived, Description, Flow, FlowEnd, Listening, ReceiveEnd, Receivers, SendEnd, Task, Transport,
    TransportError,
};
use crate::day_clock::{DayClock, Moment};
use crate::report::Times;
use crate::throughput::message::{Account, Count, FlowKey, Sent};
use crate::throughput::options::Fragments;
use flow::udp::{self, Outcomes, receive_buffer_bytes};
use flow::{Paced, Room};

/// Maximum age of a trusted kernel time stamp: no queue holds a datagram for longer.
const OLDEST_ARRIVAL_NS: i64 = 1_000_000_000;

pub(super) struct Udp;

impl Transport for Udp {
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError> {
        let sender = |task: &Task<'_>, key, to| Ok(Sender::open(task, key, to)?.into_flow(key));
        let mut receivers = Receivers { endpoints: Vec::new(), flows: Vec::new(), sender };
        for key in task.receiving_flows() {
            let mut address = task.receive_address(0);
            for receiver in 0..task.options.receivers {
                let end = Receiver::open(task, key, address)?;
                // Members of one group share the port that the first of them got.
                address = end.receiver.address();
                receivers.flows.push(end.into_flow(FlowKey { receiver: Some(receiver), ..key }));
            }
            receivers.endpoints.push(address);
        }
        Ok(Box::new(receivers))
    }
}

/// Returns the interface that has the address of the control connection, for data to or from a group.
fn interface(task: &Task<'_>, address: SocketAddr) -> Option<Interface> {
    address.ip().is_multicast().then(|| Interface::find(&task.local.ip().to_string()).ok()).flatten()
}

struct Sender {
    socket: udp::Sender,
    to: SocketAddr,
    run: u32,
    flow: u32,
    unit_bytes: usize,
    /// The datagrams, one after the other.
    memory: Vec<u8>,
    outcomes: Outcomes,
    unsent: Unsent,
    /// True if each datagram leaves at the time of its own stamp or not at all: its delay is measured.
    is_punctual: bool,
}

/// The datagrams in memory that were not sent yet.
#[derive(Default)]
struct Unsent {
    /// Number of datagrams in memory: those that were numbered last.
    written: usize,
    /// Indices in memory of those that found no room yet.
    waiting: Vec<usize>,
}

impl Unsent {
    /// Ends the flow. Waiting datagrams never left, because this end stopped: they were not sent, and their
    /// numbers are not used. Only those before one that did leave keep their numbers, and count as refused.
    fn end(&mut self, sent: &mut FlowSent) {
        while self.waiting.last().is_some_and(|place| place + 1 == self.written) {
            self.waiting.pop();
            self.written -= 1;
            sent.numbered -= 1;
        }
        sent.refused[Stage::SenderSocket] += self.waiting.drain(..).len() as u64;
    }
}

impl Sender {
    fn open(task: &Task<'_>, key: FlowKey, to: SocketAddr) -> Result<Self, TransportError> {
        let options = task.options;
        let default = udp::to(to);
        let buffer_bytes = options.send_buffer_bytes.or(options.buffer_bytes);
        let socket = udp::Sender::open(&SendOptions {
            interface: interface(task, to),
            buffer_bytes: buffer_bytes.unwrap_or(default.buffer_bytes),
            techniques: SendTechniques { gso: options.gso, ..default.techniques },
            ..default
        })?;
        if options.fragments == Fragments::Forbidden {
            sys::fragments::forbid(&socket.socket, to)?;
        }
        Ok(Self {
            socket,
            to,
            run: task.run,
            flow: key.flow(),
            unit_bytes: task.unit_bytes,
            memory: Vec::new(),
            outcomes: Outcomes::default(),
            unsent: Unsent::default(),
            is_punctual: options.delay_percentiles,
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        let local = self.socket.socket.local_address();
        let about = Description::new(key, local, Some(self.socket.buffer()));
        let about = Description { remote: Some(self.to), ..about };
        Flow { about, end: FlowEnd::Send(Box::new(self)) }
    }

    /// Writes `count` new datagrams into memory.
    fn write(&mut self, count: usize) {
        self.memory.resize((count * self.unit_bytes).max(self.memory.len()), 0);
        self.unsent = Unsent { written: count, waiting: (0..count).collect() };
        let sent = clock::monotonic();
        for place in 0..count {
            let number = self.outcomes.sent.numbered + place as u64;
            let stamp = Stamp { run: self.run, flow: self.flow, number, sent };
            stamp.write(&mut self.memory[place * self.unit_bytes..][..self.unit_bytes]);
        }
        self.outcomes.sent.numbered += count as u64;
    }

    /// Sends a new datagram. One that finds no room is refused: it must not leave later than its stamp says.
    fn send_now(&mut self) {
        self.write(1);
        self.send_waiting();
        if !std::mem::take(&mut self.unsent).waiting.is_empty() {
            self.outcomes.refuse(Refusal::SocketFull);
        }
    }

    /// Sends the datagrams that wait in memory; keeps those that found no room.
    fn send_waiting(&mut self) {
        let Self { socket, to, unit_bytes, memory, outcomes, unsent, .. } = self;
        let waiting = std::mem::take(&mut unsent.waiting);
        // A train is contiguous: datagrams missing in between left before.
        for places in waiting.chunk_by(|one, next| *next == one + 1) {
            let datagrams = &memory[places[0] * *unit_bytes..][..places.len() * *unit_bytes];
            socket.send(datagrams, places.len(), *unit_bytes, *to, outcomes, |index| {
                unsent.waiting.push(places[index])
            });
        }
    }
}

impl Paced for Sender {
    type Error = TransportError;

    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        if self.is_punctual {
            (0..count).for_each(|_| self.send_now());
            return Ok(Room::Taken(count));
        }
        let is_new = self.unsent.waiting.is_empty();
        if is_new {
            self.write(count as usize);
        }
        self.send_waiting();
        // Units count as sent when they are written: waiting ones are sent before new ones.
        let handed = if is_new { count } else { 0 };
        Ok(if self.unsent.waiting.is_empty() { Room::Taken(handed) } else { Room::Full(handed) })
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        Ok(self.socket.wait_for_room(until)?)
    }
}

impl SendEnd for Sender {
    fn finish(&mut self) -> Result<(), TransportError> {
        self.unsent.end(&mut self.outcomes.sent);
        Ok(())
    }

    fn count(&self) -> Count {
        Count { units: self.outcomes.taken, bytes: self.outcomes.sent.bytes, ..Count::default() }
    }

    fn sent(&self) -> Sent {
        Sent::of(&self.outcomes.sent)
    }

    fn notes(&self) -> Vec<String> {
        self.outcomes.note(self.to).into_iter().chain(self.socket.note_without_trains()).collect()
    }
}

struct Receiver {
    receiver: udp::Receiver,
    flow: FlowReceiver,
    day_clock: DayClock,
    /// True if trains were to be received whole.
    is_to_take_trains: bool,
}

impl Receiver {
    fn open(task: &Task<'_>, key: FlowKey, address: SocketAddr) -> Result<Self, TransportError> {
        let options = ReceiveOptions {
            interface: interface(task, address),
            techniques: ReceiveTechniques { gro: task.options.gro, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, receive_buffer_bytes(task.options.buffer_bytes))
        };
        Ok(Self {
            // Room for a stamp at least, so that datagrams of another kind are recognised.
            receiver: udp::Receiver::open(&options, task.unit_bytes.max(STAMP_BYTES))?,
            day_clock: DayClock::new(Moment::now()),
            is_to_take_trains: task.options.gro,
            flow: FlowReceiver::new(task.run, key.flow(), Numbering::of_payload(task.unit_bytes))
                .keeping_delays(task.kept_delays()),
        })
    }

    fn into_flow(self, key: FlowKey) -> Flow {
        let about = Description::new(key, self.receiver.address(), Some(self.receiver.buffer()));
        Flow { about, end: FlowEnd::Receive(Box::new(self)) }
    }

    /// Returns the socket's drops since it was opened.
    fn drops(&self) -> SocketDrops {
        let count = self.receiver.drops().unwrap_or(0);
        if self.receiver.takes_trains() {
            SocketDrops::of_trains(count)
        } else {
            SocketDrops::of_datagrams(count)
        }
    }

    fn take_batch(&mut self) -> Result<bool, TransportError> {
        let has_some = self.receiver.take()?;
        let moment = Moment::now();
        let (is_believed, now) = (self.day_clock.is_believed(moment), moment.monotonic);
        for piece in self.receiver.batch.iter() {
            let kernel_time = piece.kernel_time.filter(|_| is_believed);
            let arrival = Arrival { host: arrival(now, moment.wall, kernel_time), reader: now };
            piece.datagrams().for_each(|datagram| self.flow.accept(arrival, datagram));
        }
        Ok(has_some)
    }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError> {
        let arrived = self.take_batch()? || {
            self.receiver.wait(until)?;
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

    fn delays(&mut self) -> Option<Times> {
        self.flow.delay_percentiles().as_ref().map(Times::of)
    }

    fn notes(&self) -> Vec<String> {
        let takes_trains = self.receiver.takes_trains();
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
    use super::*;
    use crate::throughput::message::AccountState;
    use crate::throughput::options::{Options, Protocol, Way};

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
        let task = Task { unit_bytes: UNIT_BYTES, ..Task::example(&options) };
        let key = FlowKey::sender(Way::Forward, 0);
        let mut receiver = Receiver::open(&task, key, task.local).unwrap();
        let mut sender = Sender::open(&task, key, receiver.receiver.address()).unwrap();
        let mut longest = 0;
        // A sender sends no train before a thousand datagrams were received individually.
        for _ in 0..2_048 / BURST {
            assert_eq!(sender.send(BURST).unwrap(), Room::Taken(BURST));
            while receiver.take_batch().unwrap() {
                let lengths = receiver.receiver.batch.iter().map(|piece| piece.datagrams().count());
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

    /// Sends a burst of three, and returns the number of different stamps among them.
    fn stamps(options: &Options) -> usize {
        let task = Task::example(options);
        let reader = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        reader.set_read_timeout(Some(support::WATCHDOG)).unwrap();
        let key = FlowKey::sender(Way::Forward, 0);
        let mut sender = Sender::open(&task, key, reader.local_addr().unwrap()).unwrap();
        assert_eq!(sender.send(3).unwrap(), Room::Taken(3));
        let mut bytes = [0; 1_000];
        let mut read = || {
            reader.recv(&mut bytes).unwrap();
            Stamp::read(&bytes).unwrap()
        };
        let stamps = [read(), read(), read()];
        assert_eq!(stamps.map(|stamp| stamp.number), [0, 1, 2]);
        stamps.iter().map(|stamp| stamp.sent).collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn a_datagram_whose_delay_is_measured_leaves_with_a_stamp_of_its_own() {
        let burst = Options { protocol: Protocol::Udp, ..Options::default() };
        assert_eq!(stamps(&burst), 1, "a burst has one");
        assert_eq!(stamps(&Options { delay_percentiles: true, ..burst }), 3);
    }

    #[test]
    fn a_sender_whose_trains_ended_says_why() {
        let options = Options { protocol: Protocol::Udp, gso: true, ..Options::default() };
        let task = Task::example(&options);
        let to = (task.peer, 9).into();
        let mut sender = Sender::open(&task, FlowKey::sender(Way::Forward, 0), to).unwrap();
        sender.socket.without_trains = None;
        assert_eq!(sender.notes(), Vec::<String>::new());
        sender.socket.without_trains = Some("the network card cannot".to_owned());
        let [note] = &sender.notes()[..] else { panic!() };
        assert!(note.contains("although --gso was asked for: the network card cannot"), "{note}");
    }

    #[test]
    fn what_waited_when_the_sender_stopped_was_not_sent_and_what_was_overtaken_is_lost() {
        let of = |waiting: &[usize]| {
            let mut sent = FlowSent { numbered: 100, ..FlowSent::default() };
            let mut unsent = Unsent { written: 4, waiting: waiting.to_vec() };
            unsent.end(&mut sent);
            unsent.end(&mut sent);
            (sent.numbered, sent.refused[Stage::SenderSocket], unsent.waiting.len())
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
