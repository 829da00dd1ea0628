//! Loop between two TUN devices: writes packets that are due, reads arrivals, waits for either.

use std::io::{self, IoSlice};

use sys::{Interest, MAX_SEGMENTS, Poller, Tun, VNET_HEADER_BYTES, in_namespace, links};
use units::Instant;

use super::BetweenOptions;
use super::packet::{Joined, MOST_PACKET_BYTES, Unfinished, cut};
use crate::account::Account;
use crate::conditions::HEADER_BYTES;
use crate::driver::Driver;
use crate::forwarding_queue::ForwardingQueue;
use crate::parcel::{MOST_HELD_BYTES, Parcel, Store};
use crate::police::Police;
use crate::report::{Report, Watch, Way};

/// Maximum number of packets read from one end before due packets are written.
const READS_PER_TURN: usize = 64;
/// Maximum number of pieces written to one end before the other has its turn.
const WRITES_PER_TURN: usize = 64;

/// State of a running path. Queue 0 leads from end 0 to end 1, queue 1 back.
pub(super) struct Work {
    options: BetweenOptions,
    ends: [Tun; 2],
    queues: [ForwardingQueue<Packet>; 2],
    polices: [Police; 2],
    poller: Poller,
    driver: Driver,
    store: Store,
    joined: Joined,
    /// Packets about to be written.
    leaving: Vec<Parcel>,
    /// Room for the largest packet.
    read: Box<[u8]>,
}

/// A packet in flight.
struct Packet {
    parcel: Parcel,
    unfinished: Option<Unfinished>,
}

impl Work {
    pub(super) fn begin(ends: [Tun; 2], options: BetweenOptions) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (token, end) in (0..).zip(&ends) {
            poller.add(end, token, Interest::Read)?;
        }
        let queue = |conditions: &crate::Conditions, name| {
            let link = conditions.link().expect("it was made when the devices were");
            ForwardingQueue::new(link, options.seed, name)
        };
        let queues = [queue(&options.forward, "up 0"), queue(&options.reverse, "down 0")];
        let trains = ends.iter().all(Tun::takes_trains);
        Ok(Self {
            driver: Driver::begin(options.manner.fifo)?,
            polices: Default::default(),
            store: Store::new(MOST_HELD_BYTES),
            joined: Joined::new(if trains { MAX_SEGMENTS } else { 1 }),
            leaving: Vec::with_capacity(MAX_SEGMENTS),
            read: vec![0; VNET_HEADER_BYTES + MOST_PACKET_BYTES + 1].into_boxed_slice(),
            options,
            ends,
            queues,
            poller,
        })
    }

    pub(super) fn run(mut self, watch: &Watch) -> io::Result<Report> {
        loop {
            let now = self.driver.now();
            if self.driver.looks_up(now) {
                watch.show(self.accounts());
                if watch.is_over() {
                    return Ok(self.report(now));
                }
            }
            let due = Instant::earlier(self.queues[0].next_due(), self.queues[1].next_due());
            let deadline = self.driver.deadline(due.map(|due| due + self.options.manner.merge));
            let ready = self.poller.wait(Some(deadline))?;
            let is_ready = [0, 1].map(|token| ready.iter().any(|ready| ready.token == token));
            self.write_due();
            for end in (0..2).filter(|end| is_ready[*end]) {
                self.take_in(end)?;
                // Due packets leave before more are read: an emulator that keeps reading never catches up.
                self.write_due();
            }
        }
    }

    /// Reads the packets that an end has sent, and enters each datagram of them.
    fn take_in(&mut self, end: usize) -> io::Result<()> {
        let Self { options, ends, queues, driver, store, read, .. } = self;
        for _ in 0..READS_PER_TURN {
            let count = ends[end].read(read).map_err(|error| gone(&error, &options.namespaces[end]))?;
            if count == 0 {
                return Ok(());
            }
            let now = driver.now();
            let packet = &read[VNET_HEADER_BYTES.min(count)..count];
            cut(&read[..count], |segment| {
                // The machine adds the UDP and IPv4 headers itself, so it receives the packet without them.
                let judged = &packet[packet.len().min(HEADER_BYTES)..];
                let judged = &judged[..judged.len().min(segment.bytes().saturating_sub(HEADER_BYTES))];
                queues[end].enter(now, judged, segment.bytes() as u64, || {
                    let parcel = store.keep(&segment.pieces())?;
                    Some(Packet { parcel, unfinished: segment.unfinished })
                });
            });
        }
        Ok(())
    }

    fn write_due(&mut self) {
        for direction in 0..2 {
            for _ in 0..WRITES_PER_TURN {
                if !self.write_one(direction) {
                    break;
                }
            }
        }
    }

    /// Writes due packets of one direction that fit in one piece; returns whether there were any.
    fn write_one(&mut self, direction: usize) -> bool {
        let Self { ends, queues, polices, driver, joined, leaving, .. } = self;
        let queue = &mut queues[direction];
        let now = driver.now();
        if queue.next_due().is_none_or(|due| due + self.options.manner.merge > now) {
            return false;
        }
        joined.clear();
        let mut slices = [IoSlice::new(&[]); 2 + MAX_SEGMENTS];
        let next = |queue: &mut ForwardingQueue<Packet>, joined: &Joined| {
            queue.pop_if(now, |packet| joined.takes(packet.parcel.bytes(), packet.unfinished))
        };
        while let Some((due, packet)) = next(queue, joined) {
            joined.push(packet.parcel.bytes(), packet.unfinished);
            polices[direction].saw(due, now);
            leaving.push(packet.parcel);
        }
        let (vnet, head) = joined.headers();
        (slices[0], slices[1]) = (IoSlice::new(&vnet), IoSlice::new(head.bytes()));
        for (slice, parcel) in slices[2..].iter_mut().zip(leaving.iter()) {
            *slice = IoSlice::new(&parcel.bytes()[head.bytes().len()..]);
        }
        let written = ends[1 - direction].write(&slices[..2 + leaving.len()]);
        count(&mut queue.account, leaving, &written);
        leaving.drain(..).for_each(|parcel| self.store.take_back(parcel));
        true
    }

    fn accounts(&self) -> [Account; 2] {
        [self.queues[0].account(), self.queues[1].account()]
    }

    fn report(&self, now: Instant) -> Report {
        let [at_one, at_other] = [self.dropped(0), self.dropped(1)];
        let way = |direction: usize, unseen: u64, undelivered: u64| Way {
            account: self.queues[direction].account(),
            lateness: self.polices[direction].lateness(),
            unseen,
            undelivered,
        };
        let (ran, waited) = self.driver.times();
        Report {
            elapsed: now.since(Instant::ORIGIN),
            forward: way(0, at_one.sent, at_other.received),
            reverse: way(1, at_other.sent, at_one.received),
            clients: 0,
            turned_away: 0,
            ran,
            waited,
        }
    }

    /// Returns the drops of an end's device; zero if the kernel does not report them.
    fn dropped(&self, end: usize) -> Dropped {
        let found = in_namespace(&self.options.namespaces[end], links);
        let links = found.ok().and_then(Result::ok).unwrap_or_default();
        let link = links.into_iter().find(|link| link.name == self.ends[end].name()).unwrap_or_default();
        Dropped { sent: link.sent_dropped, received: link.received_dropped }
    }
}

/// Drops of a device: of packets from its host, before they were read; of written packets, before its host received
/// them.
struct Dropped {
    sent: u64,
    received: u64,
}

/// Counts the outcome of packets that were written in one piece.
fn count(account: &mut Account, packets: &[Parcel], written: &io::Result<()>) {
    match written {
        Ok(()) => {
            account.passed += packets.len() as u64;
            account.passed_bytes += packets.iter().map(|packet| packet.bytes().len() as u64).sum::<u64>();
        }
        Err(_) => account.refused += packets.len() as u64,
    }
}

/// Explains a failed read: nearly always the device is gone.
fn gone(error: &io::Error, namespace: &str) -> io::Error {
    io::Error::other(format!(
        "the device in {namespace} is gone: {error}\nkeep the namespace while the path is used"
    ))
}
