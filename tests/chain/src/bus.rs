//! A sender on the far bus, as a relay's publication drives it.

use core::time::Duration;
use std::collections::VecDeque;

use cast::Sender;
use cast::send::{
    Beginning, ElementTimes, Input, Output, Pacing, Relayed, SenderConfig, SenderEvent, Sending,
};
use relay::Publish;
use sim::{Address, Arrival, Group, Socket};
use units::{Epoch, Instant};
use wire::{DATAGRAM_BYTES_IPV4, Datagram, Deadline, Description, Origin};

use crate::feed::Feed;

/// The sender of one stream.
#[derive(Debug)]
pub(crate) struct Bus {
    sender: Sender,
    group: Group,
    /// Inputs for which the sender has no room yet.
    pending: VecDeque<(Publish, Option<Instant>)>,
    buffer: Vec<u8>,
    is_over: bool,
    has_sent: bool,
}

impl Bus {
    /// Begins a stream of a station under an epoch of its own.
    pub(crate) fn begin(now: Instant, seed: u64, group: Group, station: &str, begin: &Publish) -> Self {
        let Publish::Begin { description, origin, hop, first_position, deadline, .. } = begin else {
            panic!("not a beginning: {begin:?}")
        };
        let description = Description::decode(description).expect("the far end has read it");
        let config = SenderConfig {
            description: Description { station: station.to_owned(), ..description },
            epoch: Epoch { start_ns: now.as_nanos() + 1, incarnation: seed },
            datagram_bytes: DATAGRAM_BYTES_IPV4,
            linger: Duration::ZERO,
            clock: Feed::clock(),
            destinations: 1,
            pacing: Pacing::default(),
            sending: Sending::Always,
            beginning: Beginning::Now,
            predecessor: None,
            security: None,
            relayed: Some(Relayed {
                origin: Origin { epoch: *origin, hop: *hop },
                first_position: *first_position,
            }),
            deadline: Some(Deadline { end_to_end: *deadline, priority: 0 }),
        };
        Self::new(config, seed, group, now)
    }

    /// Begins any stream.
    pub(crate) fn new(config: SenderConfig, seed: u64, group: Group, now: Instant) -> Self {
        let sender = Sender::new(config, seed, now).expect("a description that fits");
        let buffer = vec![0; sender.train_bytes()];
        Self { sender, group, pending: VecDeque::new(), buffer, is_over: false, has_sent: false }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.sender.next_head().epoch
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether anything of it is on the bus.
    pub(crate) const fn has_sent(&self) -> bool {
        self.has_sent
    }

    pub(crate) const fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    pub(crate) fn publish(&mut self, now: Instant, publish: Publish) {
        let born = match &publish {
            Publish::Elements { age, .. } => Some(now - *age),
            _ => None,
        };
        self.pending.push_back((publish, born));
        self.hand_over(now);
    }

    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let epoch = self.epoch();
        match Datagram::decode(arrival.bytes) {
            Ok(Datagram::Report(report)) if report.epoch == epoch => {
                let from = core::net::Ipv4Addr::from(0x0a00_0000 + arrival.from.0).into();
                let size_bytes = arrival.bytes.len();
                self.sender.handle(now, Input::Report { report: &report, from, size_bytes });
            }
            Ok(Datagram::Request(request)) if request.epoch == epoch => {
                self.sender.handle(now, Input::Request(&request));
            }
            _ => {}
        }
    }

    /// Sends what is due; returns when it wants to again.
    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        self.sender.handle(now, Input::Advance);
        loop {
            self.hand_over(now);
            match self.sender.poll(now, &mut self.buffer) {
                Output::Transmit { segment_bytes, size_bytes, .. } => {
                    self.has_sent = true;
                    let train = &self.buffer[..size_bytes];
                    socket.send_train(Address::Group(self.group), train, segment_bytes);
                }
                Output::Event(SenderEvent::Finished) => self.is_over = true,
                Output::Event(event) => panic!("there is one publisher: {event:?}"),
                Output::Idle { .. } if !self.pending.is_empty() && self.sender.wants_samples() => {}
                Output::Idle { deadline } => {
                    let totals = self.sender.totals();
                    assert!(totals.samples.is_balanced(), "the sender's samples: {totals:?}");
                    return deadline;
                }
            }
        }
    }

    fn hand_over(&mut self, now: Instant) {
        let sender = &mut self.sender;
        while sender.wants_samples()
            && let Some((publish, born)) = self.pending.pop_front()
        {
            match &publish {
                Publish::Begin { .. } => panic!("a stream begins once"),
                Publish::Elements { positions, t0, clock, bytes, .. } => {
                    let times = ElementTimes { t0: *t0, clock: *clock, born };
                    sender.handle(now, Input::Elements { position: positions.start, times, bytes });
                }
                Publish::Inherited { positions, shares, cause } => {
                    let (positions, cause) = (positions.clone(), *cause);
                    sender.handle(now, Input::Inherited { positions, shares, cause });
                }
                Publish::Settled { positions, shares } => {
                    sender.handle(now, Input::Settled { positions: positions.clone(), shares });
                }
                Publish::Statement(bytes) => sender.handle(now, Input::Statement(bytes)),
                Publish::Upstream(hops) => sender.handle(now, Input::Upstream(hops.clone())),
                Publish::End => sender.handle(now, Input::Finish),
            }
        }
        let bytes = self.pending.iter().map(|(publish, _)| match publish {
            Publish::Elements { bytes, .. } => bytes.len(),
            _ => 0,
        });
        sender.handle(now, Input::Backlog(bytes.sum()));
    }
}
