//! Flows of the stream protocol: this system's publisher at one end, its subscriber at the other, with their
//! own account.
//!
//! A stream's elements are bytes, and a datagram holds one unit of them after its header, so that it is as
//! large as a datagram of UDP. Every end is a node of its own: each receiver has its socket, and nothing else
//! on either host receives the streams of a run, which have their own port and their own announcements. Nothing
//! is in shared memory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use probe::flow::{Delays, Stamp, stamps};
use sys::{Interface, MAX_SEGMENTS, clock};
use tallycast::{
    Bus, Dtype, Event, Node, OnFull, Pacing, PublishError, Publisher, SampleRate, Stage, StageCounts,
    StreamAccount, Subscriber, Totals,
};
use units::Instant;

use super::{
    Arrived, Description, Flow, FlowEnd, Listening, ReceiveEnd, Receivers, SendEnd, TAIL, Task, Transport,
    TransportError,
};
use crate::throughput::message::{Account, AccountState, Count, End, FlowKey, Sent, Unit, by_name};
use crate::throughput::options::Rate;
use flow::udp::said_if_clamped;
use flow::{Paced, Room, Tail};

/// Maximum size of the queue between flow and network: enough for the longest trains, and little compared with
/// a run's data.
const QUEUE_BYTES: usize = 2 << 20;
/// Maximum size of a handed-over block: a record of the queue.
const BYTES_AT_ONCE: usize = 64 << 10;
/// Time a sender sleeps before it checks again for room in the queue.
const ROOM_PAUSE: Duration = Duration::from_micros(500);

/// Time that losses wait for evidence. On a path worth measuring it arrives within milliseconds; the stream's
/// own two seconds would lengthen every run with losses.
const SETTLE: Duration = Duration::from_millis(500);
/// Time without data after a sender's final counts: the last losses are settled by then, and the last five
/// tallies have arrived or are lost.
const QUIET: Duration = Duration::from_millis(1_500);

/// Maximum elements per second that a stream can declare; a stream without a rate limit declares it.
const MOST_BYTES_PER_SECOND: u32 = u32::MAX;

pub(super) struct Stream;

impl Transport for Stream {
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError> {
        let keys: Vec<FlowKey> = task.receiving_flows().collect();
        let ports = free_ports(task.local.ip(), keys.len())?;
        let endpoints: Vec<SocketAddr> = ports.into_iter().map(|port| task.receive_address(port)).collect();
        let mut flows = Vec::new();
        for (key, address) in keys.into_iter().zip(&endpoints) {
            for receiver in 0..task.options.receivers {
                let end = Receiver::open(task, key, *address)?;
                flows.push(end.into_flow(FlowKey { receiver: Some(receiver), ..key }, *address));
            }
        }
        let sender = |task: &Task<'_>, key, to| Ok(Sender::open(task, key, to)?.into_flow(task, key, to));
        Ok(Box::new(Receivers { endpoints, flows, sender }))
    }
}

/// Returns `count` ports that are free on this host at this moment.
///
/// A stream's reader is given its address, including the port. Each port was free a moment ago, for every local
/// address; if another program takes it in between, the run fails instead of counting foreign data.
fn free_ports(local: IpAddr, count: usize) -> Result<Vec<u16>, TransportError> {
    let any: IpAddr =
        if local.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let sockets = (0..count).map(|_| UdpSocket::bind((any, 0))).collect::<Result<Vec<_>, _>>()?;
    let port = |socket: &UdpSocket| Ok(socket.local_addr()?.port());
    sockets.iter().map(port).collect()
}

/// Returns the name of a flow's stream, the same at both ends.
fn name(task: &Task<'_>, key: FlowKey) -> String {
    format!("bench/run{}/flow{}", task.run, key.flow())
}

/// Returns the bus of one flow: along the control connection's path, announced at the flow's own port.
fn bus(task: &Task<'_>, port: u16) -> Result<Bus, TransportError> {
    let range = if task.local.is_ipv6() { "[ff15::5443:0:0]" } else { "239.84.0.0" };
    let bus = format!("udp://{range}:{port}").parse();
    let mut bus: Bus = bus.expect("it is the beginning of a range of groups, with a port");
    bus.interface = Interface::find(&task.local.ip().to_string()).ok().map(|interface| interface.name);
    if task.options.secured {
        let end = if task.end == End::Client { "client" } else { "server" };
        bus.keys = Some(task.station.ok_or(TransportError::NoStation(end))?.to_owned());
    }
    bus.datagram_bytes = task.unit_bytes + task.options.stream_header_bytes();
    bus.send_buffer_bytes = task.options.buffer_bytes.unwrap_or(bus.send_buffer_bytes);
    bus.receive_buffer_bytes = task.options.buffer_bytes.unwrap_or(bus.receive_buffer_bytes);
    bus.tuning.send_thread.cpu = task.cpu();
    bus.tuning.receive_thread.cpu = task.cpu();
    Ok(bus)
}

/// Returns the bytes per second of a flow.
fn byte_rate(rate: Rate, unit_bytes: usize) -> SampleRate {
    let most = SampleRate::hz(MOST_BYTES_PER_SECOND).expect("it is not zero");
    let bits = u32::try_from(rate.bits_per_second(unit_bytes));
    bits.ok().and_then(|bits| SampleRate::new(bits, 8).ok()).unwrap_or(most)
}

struct Sender {
    /// Publisher; none once the flow has ended.
    publisher: Option<Publisher>,
    unit_bytes: usize,
    run: u32,
    flow: u32,
    /// Block for one hand-over: whole units.
    block: Vec<u8>,
    bytes: u64,
    /// The publisher's totals of all it was handed; known at the end.
    totals: Totals,
}

impl Sender {
    fn open(task: &Task<'_>, key: FlowKey, to: SocketAddr) -> Result<Self, TransportError> {
        let node = Node::open(bus(task, to.port())?)?;
        let mut stream = node.publisher(name(task, key)).dtype(Dtype::U8).to(to);
        stream = stream.rate(byte_rate(task.rate, task.unit_bytes));
        stream = stream.on_full(OnFull::Error).queue_bytes(QUEUE_BYTES);
        if task.rate.bits_per_second(task.unit_bytes) == 0 {
            stream = stream.pacing(Pacing::Unlimited { train: MAX_SEGMENTS });
        }
        let units_at_once = (BYTES_AT_ONCE / task.unit_bytes).max(1);
        Ok(Self {
            publisher: Some(stream.open()?),
            unit_bytes: task.unit_bytes,
            run: task.run,
            flow: key.flow(),
            block: vec![0; units_at_once * task.unit_bytes],
            bytes: 0,
            totals: Totals::default(),
        })
    }

    fn into_flow(self, task: &Task<'_>, key: FlowKey, to: SocketAddr) -> Flow {
        // The publisher does not report the port of its socket.
        let about = Description { remote: Some(to), ..Description::new(key, task.local, None) };
        Flow { about, end: FlowEnd::Send(Box::new(self)) }
    }

    const fn units(&self) -> u64 {
        self.bytes / self.unit_bytes as u64
    }

    /// Stamps the first `count` units of the block.
    fn write(&mut self, count: usize) {
        let (run, flow, first, sent) = (self.run, self.flow, self.units(), clock::monotonic());
        for (unit, number) in self.block.chunks_mut(self.unit_bytes).take(count).zip(first..) {
            Stamp { run, flow, number, sent }.write(unit);
        }
    }
}

impl Paced for Sender {
    type Error = TransportError;

    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        let mut handed = 0;
        while handed < count {
            let at_once = (self.block.len() / self.unit_bytes).min((count - handed) as usize);
            self.write(at_once);
            let part = at_once * self.unit_bytes;
            let Some(publisher) = &mut self.publisher else { return Ok(Room::Full(handed)) };
            match publisher.send_bytes(&self.block[..part]) {
                Ok(()) => {
                    self.bytes += part as u64;
                    handed += u32::try_from(at_once).expect("no more than were asked for");
                }
                Err(PublishError::Full) => return Ok(Room::Full(handed)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Room::Taken(handed))
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        clock::sleep_until(until.min(clock::monotonic() + ROOM_PAUSE));
        Ok(())
    }
}

impl SendEnd for Sender {
    fn finish(&mut self) -> Result<(), TransportError> {
        if let Some(publisher) = self.publisher.take() {
            self.totals = publisher.close_with_status().totals;
        }
        Ok(())
    }

    fn count(&self) -> Count {
        Count { units: self.units(), bytes: self.bytes, ..Count::default() }
    }

    fn sent(&self) -> Sent {
        let datagrams = &self.totals.datagrams;
        let mut refused = StageCounts::default();
        refused[Stage::SenderSocket] = datagrams.sender_socket;
        refused[Stage::SenderIp] = datagrams.sender_ip;
        refused[Stage::SenderQdisc] = datagrams.sender_qdisc;
        // The publisher's own count: all units that it was handed have lower indices.
        Sent { units: self.units(), bytes: self.totals.samples.offered, refused }
    }
}

struct Receiver {
    /// Subscriber; none once the account is closed.
    subscriber: Option<Subscriber>,
    heard: Heard,
    notes: Vec<String>,
}

/// Events of a reader so far.
struct Heard {
    unit_bytes: usize,
    /// Bytes counted here, block by block; the account has the same or does not balance.
    bytes: u64,
    /// Bytes in reported gaps, whatever their stage.
    missing: u64,
    delays: Delays,
    /// True once the sender's final counts arrived.
    has_ended: bool,
}

impl Receiver {
    fn open(task: &Task<'_>, key: FlowKey, address: SocketAddr) -> Result<Self, TransportError> {
        let node = Node::builder().bus(bus(task, address.port())?).settle(SETTLE).build()?;
        let subscriber = node.subscriber(name(task, key)).reader("bench").from(address).open()?;
        let port = node.ports().into_iter().find(|port| port.address == address);
        let secured = node.key_state().map(|_| "the stream is encrypted and authenticated".to_owned());
        let notes = port.and_then(|port| said_if_clamped(port.buffer)).into_iter().chain(secured).collect();
        let unit_bytes = task.unit_bytes;
        let heard = Heard { unit_bytes, bytes: 0, missing: 0, delays: Delays::default(), has_ended: false };
        Ok(Self { subscriber: Some(subscriber), heard, notes })
    }

    fn into_flow(self, key: FlowKey, address: SocketAddr) -> Flow {
        Flow { about: Description::new(key, address, None), end: FlowEnd::Receive(Box::new(self)) }
    }

    /// Leaves the stream; returns its accounts, empty if no datagram of it ever arrived.
    fn leave(&mut self) -> Vec<StreamAccount> {
        let Some(subscriber) = self.subscriber.take() else { return Vec::new() };
        // Data left in the ring still counts.
        subscriber.close_into(|event| {
            self.heard.take(event);
        })
    }
}

impl Heard {
    fn take(&mut self, event: Event) -> Arrived {
        match event {
            Event::Block(block) => {
                let bytes = block.data.as_bytes();
                let delivered = clock::monotonic();
                for stamp in stamps(bytes, block.first_index, self.unit_bytes) {
                    self.delays.take(stamp.sent, delivered);
                }
                self.bytes += bytes.len() as u64;
                Arrived::Some
            }
            Event::Gap(gap) => {
                self.missing += gap.gap.len();
                Arrived::Some
            }
            Event::Began(_) | Event::Settled(_) | Event::Statement(_) => Arrived::Some,
            // A sender that was kept from its processor was silent, and continues: another account follows.
            Event::Ended(ended) if ended.account.state == tallycast::AccountState::Unconfirmed => {
                Arrived::Some
            }
            Event::Ended(_) => {
                self.has_ended = true;
                Arrived::End
            }
        }
    }

    /// Returns the accounts of a reader as a flow's account: data that it never knew of, at the beginning,
    /// between two accounts or at the end, is missing like the rest.
    fn account(&self, told: &[StreamAccount], sent: Option<&Sent>) -> Account {
        let (mut lost, mut unexplained, mut duplicates, mut next) = (StageCounts::default(), 0, 0, 0);
        for StreamAccount { account, .. } in told {
            let rows = &account.elements;
            lost.add(&rows.lost);
            unexplained +=
                rows.first.saturating_sub(next) + rows.unexplained + rows.unsettled + rows.in_flight;
            duplicates += account.datagrams.map_or(0, |rows| rows.duplicates);
            next = rows.next;
        }
        let total = sent.map_or(next, |sent| sent.bytes);
        Account {
            unit: Unit::Bytes,
            state: state(sent),
            sent: total,
            received: self.bytes,
            lost: by_name(&lost),
            unexplained: unexplained + total.saturating_sub(next),
            duplicates,
            unmatched: told.last().and_then(|it| it.port).map_or(0, |port| port.unmatched.total()),
        }
    }

    /// Returns the account of a reader that received nothing: the sender's known refusals explain it.
    fn account_of_nothing(&self, sent: Option<&Sent>) -> Account {
        let total = sent.map_or(0, |sent| sent.bytes);
        let mut unexplained = total;
        let mut lost = StageCounts::default();
        for (stage, datagrams) in sent.iter().flat_map(|sent| sent.refused.nonzero()) {
            let bytes = datagrams.saturating_mul(self.unit_bytes as u64).min(unexplained);
            lost[stage] = bytes;
            unexplained -= bytes;
        }
        let (unit, state, lost) = (Unit::Bytes, state(sent), by_name(&lost));
        Account { unit, state, sent: total, received: 0, lost, unexplained, duplicates: 0, unmatched: 0 }
    }
}

const fn state(sent: Option<&Sent>) -> AccountState {
    if sent.is_some() { AccountState::Closed } else { AccountState::Unconfirmed }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError> {
        let Some(subscriber) = &mut self.subscriber else { return Ok(Arrived::End) };
        let event = subscriber.next(until.since(clock::monotonic()));
        Ok(event.map_or(Arrived::Nothing, |event| self.heard.take(event)))
    }

    /// Everything has arrived when the account has ended: then the missing data is known too.
    fn has_all(&self, _sent: &Sent) -> bool {
        self.heard.has_ended
    }

    fn tail(&self) -> Tail {
        Tail { quiet: QUIET, ..TAIL }
    }

    fn count(&self) -> Count {
        let Heard { unit_bytes, bytes, missing, delays, .. } = &self.heard;
        let unit_bytes = *unit_bytes as u64;
        let count = Count { units: bytes / unit_bytes, bytes: *bytes, ..Count::default() };
        Count { lost: Some(missing.div_ceil(unit_bytes)), ..count.with_delays(delays) }
    }

    fn close(&mut self, sent: Option<&Sent>) -> Result<Account, TransportError> {
        let told = self.leave();
        if told.is_empty() {
            return Ok(self.heard.account_of_nothing(sent));
        }
        told.iter().try_for_each(|it| it.account.check())?;
        let account = self.heard.account(&told, sent);
        if account.lost.contains_key(Stage::ReceiverSocketBuffer.name()) {
            self.notes.push(
                "the reader's socket counts what it drops in trains: receiver_socket_buffer is a bound"
                    .to_owned(),
            );
        }
        Ok(account)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::options::{Options, Protocol, Way};

    const UNIT_BYTES: usize = 1_000;
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn task(options: &Options) -> Task<'_> {
        Task { rate: Rate::Bits(100_000_000), unit_bytes: UNIT_BYTES, ..Task::example(options) }
    }

    fn open(task: &Task<'_>) -> (Sender, Receiver) {
        let key = FlowKey::sender(Way::Forward, 0);
        let address = SocketAddr::new(LOCAL, free_ports(LOCAL, 1).unwrap()[0]);
        let receiver = Receiver::open(task, key, address).unwrap();
        (Sender::open(task, key, address).unwrap(), receiver)
    }

    #[test]
    fn a_planted_loss_is_seen_live_and_put_down_to_its_stage() {
        const UNITS: u32 = 200;
        let options = Options { protocol: Protocol::Stream, ..Options::default() };
        let (mut sender, mut receiver) = open(&task(&options));
        sender.publisher.as_mut().unwrap().set_injection(0.3);
        assert_eq!(sender.send(UNITS).unwrap(), Room::Taken(UNITS));
        sender.finish().unwrap();
        let sent = sender.sent();
        assert_eq!((sent.units, sent.bytes), (u64::from(UNITS), u64::from(UNITS) * UNIT_BYTES as u64));
        while !receiver.has_all(&sent) {
            receiver.receive(clock::monotonic() + QUIET).unwrap();
        }
        let live = receiver.count();
        let account = receiver.close(Some(&sent)).unwrap();
        assert!(account.adds_up() && account.state == AccountState::Closed, "{account:?}");
        assert_eq!((account.sent, account.received), (sent.bytes, live.bytes));
        assert_eq!(account.lost.keys().collect::<Vec<_>>(), ["injected"], "{account:?}");
        assert_eq!((account.unexplained, live.lost), (0, Some(account.missing() / UNIT_BYTES as u64)));
        assert!(live.delayed > 0 && live.delayed <= live.units);
    }

    #[test]
    fn a_sender_that_fell_silent_and_went_on_has_accounts_that_add_up() {
        let options = Options { protocol: Protocol::Stream, ..Options::default() };
        let (mut sender, mut receiver) = open(&task(&options));
        assert_eq!(sender.send(100).unwrap(), Room::Taken(100));
        sender.finish().unwrap();
        let sent = sender.sent();
        while !receiver.has_all(&sent) {
            receiver.receive(clock::monotonic() + QUIET).unwrap();
        }
        // The same account, as if nothing had been received for a while in the middle.
        let whole = receiver.leave().swap_remove(0);
        let part = |rows: std::ops::Range<u64>| {
            let mut part = whole.clone();
            let elements = &mut part.account.elements;
            (elements.first, elements.next, elements.delivered) =
                (rows.start, rows.end, rows.end - rows.start);
            part
        };
        let middle = sent.bytes / 2;
        let account = receiver.heard.account(&[part(0..middle), part(middle..sent.bytes)], Some(&sent));
        assert!(account.adds_up() && account.is_loss_free(), "{account:?}");
        let account = receiver.heard.account(&[part(0..middle), part(middle + 5..sent.bytes)], Some(&sent));
        assert_eq!(account.unexplained, 5, "what is in neither is missing");
        let mut silent = whole.clone();
        silent.account.state = tallycast::AccountState::Unconfirmed;
        receiver.heard.has_ended = false;
        assert_eq!(receiver.heard.take(Event::Ended(silent)), Arrived::Some);
        assert!(!receiver.has_all(&sent), "it goes on");
    }

    #[test]
    fn a_stream_that_was_never_heard_of_is_lost_where_its_sender_says() {
        let options = Options { protocol: Protocol::Stream, ..Options::default() };
        // Without a sender: the end of one would be received.
        let address = SocketAddr::new(LOCAL, free_ports(LOCAL, 1).unwrap()[0]);
        let key = FlowKey::sender(Way::Forward, 0);
        let mut receiver = Receiver::open(&task(&options), key, address).unwrap();
        let refused = StageCounts::of(Stage::SenderIp, 2);
        let account = receiver.close(Some(&Sent { units: 5, bytes: 5_000, refused })).unwrap();
        assert!(account.adds_up() && account.received == 0, "{account:?}");
        assert_eq!((account.lost["sender_ip"], account.unexplained), (2_000, 3_000));
    }

    #[test]
    fn what_goes_as_fast_as_it_can_has_the_highest_rate_there_is() {
        let of = |rate| byte_rate(rate, 10).as_hz();
        assert_eq!((of(Rate::Bits(80)), of(Rate::Units(3)), of(Rate::Bits(12))), (10.0, 30.0, 1.5));
        for rate in [Rate::Bits(0), Rate::Bits(u64::MAX)] {
            assert_eq!(of(rate), f64::from(MOST_BYTES_PER_SECOND));
        }
    }
}
