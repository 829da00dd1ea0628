//! The two sides of a plain pair: the same datagrams through the same sockets, and nothing else.
//!
//! Measures the system calls alone on this machine. A datagram has a run, a number in it, and a time stamp.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use peers::process::{end_with_leader, tell};
use peers::{Whose, cpu_seconds};
use sys::{Interest, Interface, Loopback, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket};
use sys::{ReceiveTechniques, SendOptions, SendSocket, SendTechniques, clock};

use crate::peer::{self, Content, FULL_BYTES, Order, Received, STAMP_BYTES, STAMPS_HZ, Sent};

/// Number of datagrams sent at once, as by a stream.
const TRAIN: usize = 16;
/// Numbers of the first and the last datagram of a run, which are not counted.
const BEGIN: u64 = u64::MAX - 1;
const END: u64 = u64::MAX;
/// Number of copies of the last datagram, so that a run ends even if some are lost.
const ENDS: u32 = 5;
const END_PAUSE: Duration = Duration::from_millis(20);
const BUFFER_BYTES: usize = 4 << 20;

struct Source {
    socket: SendSocket,
    group: SocketAddr,
    run: u64,
    sent: u64,
}

/// Sends one run after the other, as ordered.
pub(crate) fn source(group: &str, interface: &str) -> Result<()> {
    let group: SocketAddr = group.parse()?;
    let options = SendOptions {
        destination: group,
        interface: Some(Interface::find(interface)?),
        ttl: 1,
        loopback: Loopback::On,
        buffer_bytes: BUFFER_BYTES,
        // Plain: without trains.
        techniques: SendTechniques { gso: false, ..SendTechniques::default() },
    };
    let mut source = Source { socket: SendSocket::open(&options)?, group, run: 0, sent: 0 };
    clock::lower_timer_slack()?;
    while let Some(order) = peer::next_order()? {
        (source.run, source.sent) = (source.run + 1, 0);
        tell("sent", &source.play(&order)?)?;
    }
    Ok(())
}

impl Source {
    fn play(&mut self, order: &Order) -> Result<Sent> {
        self.send(&[self.datagram(BEGIN, STAMP_BYTES)])?;
        peer::wait_for_go()?;
        let (began, cpu) = (Instant::now(), cpu_seconds(Whose::Process));
        match order.content {
            Content::Bulk { datagrams_per_second } => {
                self.bulk(began, datagrams_per_second, order.seconds)?
            }
            Content::Stamps { .. } => self.stamps(began, order.seconds)?,
        }
        let seconds = began.elapsed().as_secs_f64();
        for _ in 0..ENDS {
            self.send(&[self.datagram(END, STAMP_BYTES)])?;
            std::thread::sleep(END_PAUSE);
        }
        Ok(Sent { units: self.sent, seconds, cpu_s: cpu_seconds(Whose::Process) - cpu })
    }

    /// Sends batches of full datagrams, each when it is due.
    fn bulk(&mut self, began: Instant, datagrams_per_second: f64, seconds: f64) -> Result<()> {
        let start = clock::monotonic();
        let train = vec![self.datagram(0, FULL_BYTES); TRAIN];
        while began.elapsed().as_secs_f64() < seconds {
            #[expect(clippy::cast_precision_loss, reason = "a count of a short run")]
            let due = Duration::from_secs_f64(self.sent as f64 / datagrams_per_second);
            clock::sleep_until(start + due);
            self.send(&train)?;
            self.sent += TRAIN as u64;
        }
        Ok(())
    }

    fn stamps(&mut self, began: Instant, seconds: f64) -> Result<()> {
        let mut due = clock::monotonic();
        while began.elapsed().as_secs_f64() < seconds {
            due += Duration::from_secs(1) / STAMPS_HZ;
            clock::sleep_until(due);
            self.send(&[self.datagram(0, STAMP_BYTES)])?;
            self.sent += 1;
        }
        Ok(())
    }

    fn datagram(&self, place: u64, size_bytes: usize) -> Vec<u8> {
        let words = [self.run, place, clock::monotonic().as_nanos()];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(size_bytes, 0);
        bytes
    }

    fn send(&mut self, datagrams: &[Vec<u8>]) -> Result<()> {
        let mut slices = [&[][..]; TRAIN];
        for (slice, datagram) in slices.iter_mut().zip(datagrams) {
            *slice = datagram;
        }
        let outcomes = self.socket.send_batch(&slices[..datagrams.len()], self.group);
        let refused = outcomes.iter().find(|outcome| **outcome != Outcome::Sent);
        anyhow::ensure!(refused.is_none(), "a plain datagram was refused: {refused:?}");
        Ok(())
    }
}

/// Reads one run after the other and reports the counts of each.
pub(crate) fn reader(group: &str, interface: &str) -> Result<()> {
    let interface = Some(Interface::find(interface)?);
    let socket = ReceiveSocket::open(&ReceiveOptions {
        interface,
        techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
        ..ReceiveOptions::at(group.parse()?, BUFFER_BYTES)
    })?;
    let mut batch = ReceiveBatch::with_slot_bytes(wire::MAX_DATAGRAM_BYTES);
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    end_with_leader();
    tell("ready", &())?;
    let mut count = Count::default();
    loop {
        if socket.receive_batch(&mut batch)? == 0 {
            poller.wait(None)?;
            continue;
        }
        let now = clock::monotonic().as_nanos();
        for received in batch.iter() {
            count.take(received.bytes, now)?;
        }
    }
}

/// Counts of the current run.
#[derive(Default)]
struct Count {
    run: u64,
    ended: bool,
    datagrams: u64,
    cpu_s: f64,
    delays_us: Vec<f64>,
}

impl Count {
    fn take(&mut self, bytes: &[u8], now: u64) -> Result<()> {
        let word = |index: usize| bytes.get(index * 8..index * 8 + 8).and_then(|word| word.try_into().ok());
        let word = |index| word(index).map(u64::from_le_bytes).context("three words in every datagram");
        let (run, place, sent) = (word(0)?, word(1)?, word(2)?);
        match place {
            BEGIN => {
                *self = Self { run, cpu_s: cpu_seconds(Whose::Process), ..Self::default() };
                tell("began", &())?;
            }
            END if run == self.run && !self.ended => {
                self.ended = true;
                let cpu_s = cpu_seconds(Whose::Process) - self.cpu_s;
                let (datagrams, delays_us) = (self.datagrams, std::mem::take(&mut self.delays_us));
                tell("ended", &Received { units: datagrams, datagrams, cpu_s, delays_us })?;
            }
            END => {}
            _ => {
                self.datagrams += 1;
                if bytes.len() == STAMP_BYTES {
                    #[expect(clippy::cast_precision_loss, reason = "a delay is small")]
                    self.delays_us.push(now.saturating_sub(sent) as f64 / 1e3);
                }
            }
        }
        Ok(())
    }
}
