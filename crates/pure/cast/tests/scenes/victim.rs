//! A receiver whose datagrams a test writes one by one, with the law checked after every one.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use cast::Receiver;
use cast::receive::{AccountView, Event, Input, Output, ReaderIdentity};
use ledger::{Account, AccountState, LedgerConfig, NetworkRows};
use sample::Selection;
use units::{Epoch, Instant, ReaderId, WallTime};
use wire::{
    Clock, DATAGRAM_BYTES_IPV4, Data, Datagram, Description, DescriptorExtensions, DescriptorParts,
    MAX_DATAGRAM_BYTES, Numbered, Request, Tally, Totals,
};

use crate::line::scene::{EPOCH, StreamShape, description};

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// A receiver with a forger at its socket.
pub(crate) struct Victim {
    pub(crate) receiver: Receiver,
    pub(crate) description: Description,
    pub(crate) head: Numbered,
    pub(crate) now: Instant,
    pub(crate) buffer: Vec<u8>,
    pub(crate) out: Vec<u8>,
    /// Source host of the next datagrams.
    pub(crate) host: u8,
    /// Numbers of elements delivered, and of accounts begun and ended.
    pub(crate) delivered: u64,
    pub(crate) began: u64,
    pub(crate) imposters: u64,
    pub(crate) two_publishers: u64,
    /// Its requests and their destinations.
    pub(crate) requests: Vec<(SocketAddr, Request)>,
    pub(crate) ended: Vec<AccountState>,
    /// The final accounts.
    pub(crate) accounts: Vec<Account>,
}

impl Victim {
    /// Creates a receiver that knows the stream's description.
    pub(crate) fn new() -> Self {
        let mut victim = Self::ignorant();
        victim.describe();
        victim
    }

    pub(crate) fn ignorant() -> Self {
        let identity = ReaderIdentity { id: ReaderId(1), name: "victim".to_owned(), receive_buffer_bytes: 0 };
        let description = description(&StreamShape::PLAIN);
        let head = Numbered {
            stream: wire::stream_id(&description.name, &description.schema),
            epoch: EPOCH,
            number: 0,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: 1,
        };
        Self {
            receiver: Receiver::new(identity, LedgerConfig::default(), 1),
            description,
            head,
            now: Instant::ORIGIN,
            buffer: vec![0; MAX_DATAGRAM_BYTES],
            out: vec![0; MAX_DATAGRAM_BYTES],
            host: 66,
            delivered: 0,
            began: 0,
            imposters: 0,
            two_publishers: 0,
            requests: Vec::new(),
            ended: Vec::new(),
            accounts: Vec::new(),
        }
    }

    pub(crate) fn describe(&mut self) {
        let description = self.description.clone();
        self.send_description(&description, self.head);
    }

    pub(crate) fn send_description(&mut self, description: &Description, head: Numbered) {
        self.send_description_with(description, head, &[]);
    }

    /// Sends a description whose publisher lists its addresses.
    pub(crate) fn send_description_with(
        &mut self,
        description: &Description,
        head: Numbered,
        addresses: &[IpAddr],
    ) {
        let extensions = DescriptorExtensions { addresses, ..DescriptorExtensions::default() };
        let parts = DescriptorParts::with_extensions(description, &extensions, DATAGRAM_BYTES_IPV4);
        let parts = parts.expect("a small description");
        let size = parts.part(0, head).expect("one part").encode(&mut self.buffer).expect("room");
        self.input(size);
    }

    /// Sends data that hold ten elements at their usual place.
    pub(crate) fn data(&mut self, number: u64) {
        self.data_at(self.head.epoch, number, number.saturating_mul(10));
    }

    pub(crate) fn data_at(&mut self, epoch: Epoch, number: u64, first_index: u64) {
        let head = Numbered { epoch, number, first_index, ..self.head };
        let (t0, clock, payload) = (WallTime::from_nanos(0), Clock::System, [7; 40]);
        let dtype = self.description.schema.dtype;
        let data = Data { head, t0, clock, dtype, element_count: 10, origin: None, payload: &payload };
        let size = data.encode(&mut self.buffer).expect("room");
        self.input(size);
    }

    /// Sends data with an extension of eight bytes behind the header.
    pub(crate) fn data_with_extension(&mut self, number: u64, extension: [u8; 8]) {
        let head = Numbered { number, first_index: number * 10, ..self.head };
        let (t0, clock, payload) = (WallTime::from_nanos(0), Clock::System, [7; 40]);
        let dtype = self.description.schema.dtype;
        let data = Data { head, t0, clock, dtype, element_count: 10, origin: None, payload: &payload };
        let size = data.encode(&mut self.buffer).expect("room");
        self.buffer.copy_within(80..size, 88);
        self.buffer[80..88].copy_from_slice(&extension);
        self.buffer[6..8].copy_from_slice(&88_u16.to_le_bytes());
        self.buffer[8..12].fill(0);
        let crc = crc_fast::crc32_iscsi(&self.buffer[..88]);
        self.buffer[8..12].copy_from_slice(&crc.to_le_bytes());
        self.input(size + 8);
    }

    pub(crate) fn tally(&mut self, head: Numbered, change: impl FnOnce(&mut Tally)) {
        let mut tally = Tally {
            head,
            last: false,
            paused: false,
            watched: false,
            next_tally: MILLISECOND * 100,
            readers: 1,
            report_interval: Duration::from_secs(1),
            totals: Totals::default(),
            withheld: Vec::new(),
            skipped: Vec::new(),
            nonces: Vec::new(),
            statement: Vec::new(),
            origin: None,
            upstream: Vec::new(),
        };
        change(&mut tally);
        let size = tally.encode(&mut self.buffer).expect("room");
        self.input(size);
    }

    pub(crate) fn input(&mut self, size: usize) {
        let from = SocketAddr::from(([10, 0, 0, self.host], 7400));
        let bytes = &self.buffer[..size];
        self.receiver.handle(self.now, Input::Datagram { bytes, from, drops: None });
        self.drain();
    }

    /// Selects these streams and no others.
    pub(crate) fn select(&mut self, selection: &Selection) {
        self.receiver.handle(self.now, Input::Select(selection));
        self.drain();
    }

    pub(crate) fn pass(&mut self, duration: Duration) {
        self.now += duration;
        self.receiver.handle(self.now, Input::Advance);
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        loop {
            match self.receiver.poll(self.now, &mut self.out) {
                Output::Event(Event::Block { block, .. }) => {
                    self.delivered += block.payload.size_bytes() as u64 / 4
                }
                Output::Event(Event::Began { .. }) => self.began += 1,
                Output::Event(Event::Imposter { .. }) => self.imposters += 1,
                Output::Event(Event::TwoPublishers { .. }) => self.two_publishers += 1,
                Output::Event(Event::Ended { account, .. }) => {
                    assert_eq!(account.check(), Ok(()));
                    self.ended.push(account.state);
                    self.accounts.push(account);
                }
                Output::Transmit { to, size_bytes } => {
                    if let Ok(Datagram::Request(request)) = Datagram::decode(&self.out[..size_bytes]) {
                        self.requests.push((to, request));
                    }
                }
                Output::Event(_) => {}
                Output::Idle { deadline } => {
                    assert!(deadline.is_none_or(|deadline| deadline > self.now));
                    break;
                }
            }
        }
        assert_eq!(self.receiver.check(), Ok(()));
    }

    pub(crate) fn account(&self) -> AccountView {
        let accounts: Vec<_> = self.receiver.accounts().collect();
        assert_eq!(accounts[0].account.check(), Ok(()));
        accounts.into_iter().next().expect("an account")
    }

    pub(crate) fn rows(&self) -> NetworkRows {
        self.account().account.datagrams.expect("a socket")
    }
}
