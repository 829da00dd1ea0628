//! Transports that carry an array from the writer to the reader, behind one pair of traits.
//!
//! A new transport is a module with a [`SendEnd`] and a [`ReceiveEnd`], and a variant of [`Transport`].

mod shm;
mod udp;

use std::fmt;

use clap::ValueEnum;
use probe::cycle::{Cut, HEADER_BYTES};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Instant;

use super::message::{Role, Task};
use super::options::Options;

/// The transport of the array.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Datagrams over the loopback interface.
    Udp,
    /// A ring in shared memory.
    Shm,
}

/// Reasons why a transport could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A ring could not be created.
    #[error(transparent)]
    Create(#[from] ring::shared::CreateError),
    /// A ring could not be opened.
    #[error(transparent)]
    Attach(#[from] ring::shared::OpenError),
    /// A ring is too small for its record: a defect of this program.
    #[error(transparent)]
    TooLarge(#[from] ring::RecordTooLarge),
    /// The ring was overwritten or truncated by another process.
    #[error(
        "the ring was damaged while it was read\nsee what else writes to /dev/shm, and start the bench again"
    )]
    Broken,
    /// A socket stopped working.
    #[error("the socket failed: {0}\nrun `dmesg` for what the kernel says")]
    Io(#[from] std::io::Error),
    /// The endpoint belongs to another transport.
    #[error("`{0}` is not an endpoint of this transport\nstart the bench again; if this recurs, report it")]
    Endpoint(String),
}

/// The writer's end.
pub(super) trait SendEnd {
    /// Sends the pieces of a cycle; returns the number of refused pieces.
    fn send(&mut self, pieces: &[&[u8]]) -> Result<u64, TransportError>;
}

/// The reader's end.
pub(super) trait ReceiveEnd {
    /// Waits for pieces until `until`, checks at least once, and passes on all that have arrived.
    ///
    /// Returns the number of pieces: 0 means that none arrived until then.
    fn receive(&mut self, until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError>;

    /// Returns the number of pieces that the kernel dropped before this end, where it is reported.
    fn dropped(&self) -> Option<u64>;
}

/// An end that is ready, and its notes.
pub(super) struct Opened<End: ?Sized> {
    pub(super) end: Box<End>,
    /// Address for the other end.
    pub(super) endpoint: String,
    pub(super) notes: Vec<String>,
}

impl Transport {
    /// Every transport, in the order of tables.
    pub const ALL: [Self; 2] = [Self::Udp, Self::Shm];

    /// Returns its name, as on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }

    /// Returns the role that must be prepared first.
    pub(super) const fn first(self) -> Role {
        match self {
            Self::Udp => Role::Reader,
            Self::Shm => Role::Writer,
        }
    }

    /// Returns the maximum size of a piece of a run, header included.
    pub(super) fn unit_bytes(self, options: &Options, elements: u32) -> usize {
        let whole = HEADER_BYTES + elements as usize * 4;
        match self {
            Self::Udp => options.datagram_bytes.min(whole),
            Self::Shm => whole,
        }
    }

    /// Returns the size of the buffer for data that the reader has not taken yet.
    pub(super) fn buffer_bytes(self, options: &Options, cut: &Cut) -> usize {
        match self {
            Self::Udp => options.receive_buffer_bytes(),
            Self::Shm => shm::ring_bytes(cut),
        }
    }

    /// Removes leftovers of benches that were killed.
    pub(super) fn sweep(self) {
        match self {
            Self::Udp => {}
            Self::Shm => shm::sweep(),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Opens the writer's end.
pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    match task.transport {
        Transport::Udp => udp::open_send(task),
        Transport::Shm => shm::open_send(task),
    }
}

/// Opens the reader's end.
pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    match task.transport {
        Transport::Udp => udp::open_receive(task),
        Transport::Shm => shm::open_receive(task),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use probe::cycle::{Account, Assembly, Schedule, Sending};
    use sys::clock;

    use super::*;

    /// Sends all cycles of a run before the reader takes any of them; returns its account and the kernel's drops.
    fn overrun(task: &Task) -> (Account, Option<u64>) {
        let cut = Cut::new(task.run, task.elements, task.unit_bytes).unwrap();
        let schedule = Schedule {
            start: clock::monotonic(),
            cycle_time: Duration::from_secs(3_600),
            cycles: task.cycles,
        };
        let (mut sending, mut assembly) = (Sending::new(schedule), Assembly::new(cut, schedule));
        let (mut writer, mut reader) = open_both(task);
        while let Some(cycle) = sending.next_cycle() {
            let mut memory = Vec::new();
            let pieces: Vec<&[u8]> = cut.write(cycle, &mut memory).collect();
            let refused = writer.send(&pieces).unwrap();
            sending.count(pieces.len() as u64, refused, clock::monotonic());
        }
        let mut take = |bytes: &[u8]| {
            let content = cut.read(bytes);
            let _ = assembly.accept(clock::monotonic(), content);
        };
        while reader.receive(Instant::ORIGIN, &mut take).unwrap() > 0 {}
        let dropped = reader.dropped();
        (assembly.close(sending.sent()), dropped)
    }

    fn open_both(task: &Task) -> (Box<dyn SendEnd>, Box<dyn ReceiveEnd>) {
        match task.transport.first() {
            Role::Writer => {
                let Opened { end: writer, endpoint, .. } = open_send(task).unwrap();
                (writer, open_receive(&Task { endpoint, ..task.clone() }).unwrap().end)
            }
            Role::Reader => {
                let Opened { end: reader, endpoint, .. } = open_receive(task).unwrap();
                (open_send(&Task { endpoint, ..task.clone() }).unwrap().end, reader)
            }
        }
    }

    fn task(transport: Transport, run: u32) -> Task {
        let options = Options { receive_buffer: Some(1 << 16), ..Options::default() };
        let elements = 20_000;
        let unit_bytes = transport.unit_bytes(&options, elements);
        let cut = Cut::new(run, elements, unit_bytes).unwrap();
        Task {
            role: Role::Writer,
            run,
            transport,
            endpoint: String::new(),
            elements,
            cycles: 50,
            cycle_time: Duration::from_millis(1),
            unit_bytes,
            buffer_bytes: transport.buffer_bytes(&options, &cut),
            end_beyond: None,
        }
    }

    #[test]
    fn datagrams_that_find_the_buffer_full_are_absent_and_the_kernel_says_as_many() {
        let (account, dropped) = overrun(&task(Transport::Udp, 1));
        assert_eq!(account.check(), Ok(()));
        assert_eq!((account.cycles.sent, account.pieces.handed), (50, 100));
        assert!(account.pieces.absent > 0 && account.pieces.received > 0, "{account:?}");
        assert_eq!(Some(account.pieces.absent - account.pieces.refused), dropped);
        assert_eq!(account.pieces.wrong, 0);
    }

    #[test]
    fn a_reader_that_was_lapped_misses_whole_cycles_and_has_the_newest() {
        let (account, dropped) = overrun(&task(Transport::Shm, 2));
        assert_eq!((account.check(), dropped), (Ok(()), None));
        // A ring holds four cycles at least; however many of those a lapped reader skips, most of fifty are
        // gone.
        let Account { cycles, pieces, .. } = account;
        assert!((1..50).contains(&cycles.complete) && cycles.incomplete == 0, "{cycles:?}");
        assert_eq!((cycles.missing, pieces.wrong), (50 - cycles.complete, 0));
    }
}
