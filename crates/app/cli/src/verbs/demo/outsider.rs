//! The attacker of a secured demo: it listens in the groups of some streams, and sends forgeries and replays there.
//!
//! It has no keys: which groups it attacks it is told, as somebody would learn who watches a switch. What it makes of
//! what it hears is the business of `forger`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use keys::Token;
use sys::{
    Cancellation, Interface, Loopback, Outcome, ReceiveBatch, ReceiveOptions, ReceiveSocket, SendOptions,
    SendSocket, SendTechniques,
};
use tallycast::{Bus, Node};
use wire::{Datagram, SecuredHead};

use super::forger::{Forger, Forgery};
use super::plaintext::Plaintext;

/// Streams that are attacked. Datagrams of the chime hold many samples, so that these would be recognised.
const TARGETS: [&str; 3] = ["signal/ecg", "signal/chime", "test/sine"];
/// Interval of the attacks, in each of which every stream gets one forgery of each kind: a rate that leaves readers
/// their processors, on any machine.
const INTERVAL: Duration = Duration::from_millis(50);
/// Time to listen for the announcements of streams, once a second each.
const LISTENING: Duration = Duration::from_millis(1_500);
/// How often that is repeated at most: publishers start at the same time.
const ATTEMPTS: u32 = 20;
const BUFFER_BYTES: usize = 1 << 22;

/// The running attacker.
pub(super) struct Outsider {
    cancellation: Cancellation,
    thread: JoinHandle<anyhow::Result<Report>>,
}

/// What it heard and sent.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Report {
    /// Streams attacked.
    pub(super) streams: BTreeSet<String>,
    /// Datagrams heard, without its own.
    pub(super) heard: u64,
    /// Those among them that anybody can read, or that showed samples or names.
    pub(super) in_clear: u64,
    /// Public names of the secrets with which they were encrypted.
    pub(super) tokens: BTreeSet<Token>,
    /// Datagrams sent, by the reason for which readers refuse them.
    pub(super) sent: BTreeMap<&'static str, u64>,
}

impl Outsider {
    /// Starts it; `reader` is a secured bus whose announcements tell the groups.
    pub(super) fn start(reader: Bus) -> anyhow::Result<Self> {
        let cancellation = Cancellation::new()?;
        let cancelled = cancellation.clone();
        let named = std::thread::Builder::new().name("outsider".to_owned());
        let thread =
            named.spawn(move || attack(&reader, &cancelled)).context("no thread for the attacker")?;
        Ok(Self { cancellation, thread })
    }

    /// Ends it.
    pub(super) fn end(self) -> anyhow::Result<Report> {
        self.cancellation.cancel();
        self.thread.join().map_err(|_| anyhow!("the attacker's thread panicked"))?
    }
}

/// A stream under attack.
struct Target {
    group: SocketAddr,
    listens: ReceiveSocket,
    sends: SendSocket,
    forger: Forger,
}

fn attack(reader: &Bus, cancelled: &Cancellation) -> anyhow::Result<Report> {
    let plaintext = Plaintext::of(["ecg", "chime"])?;
    let groups = groups(reader, cancelled)?;
    let interface = reader.interface.as_deref().map(Interface::find).transpose()?;
    let targets = groups.iter().map(|(_, group)| Target::open(*group, interface.clone(), reader));
    let mut targets: Vec<Target> = targets.collect::<anyhow::Result<_>>()?;
    let mut report =
        Report { streams: groups.into_iter().map(|(name, _)| name).collect(), ..Report::default() };
    let mut batch = ReceiveBatch::new();
    while !cancelled.wait(INTERVAL) {
        for target in &mut targets {
            target.listen(&mut batch, &plaintext, &mut report)?;
            target.forge(&mut report);
        }
    }
    Ok(report)
}

/// Returns the groups of the streams to be attacked.
fn groups(reader: &Bus, cancelled: &Cancellation) -> anyhow::Result<Vec<(String, SocketAddr)>> {
    let node = Node::open(reader.clone())?;
    for _ in 0..ATTEMPTS {
        let streams = node.streams(LISTENING)?;
        let found = streams.iter().map(|it| (it.announcement.name.to_string(), it.announcement.group));
        let found: Vec<_> = found.filter(|(name, _)| TARGETS.contains(&name.as_str())).collect();
        if found.len() == TARGETS.len() || cancelled.is_cancelled() {
            return Ok(found);
        }
    }
    bail!("the attacker found no stream to attack: {} are not announced", TARGETS.join(", "))
}

impl Target {
    fn open(group: SocketAddr, interface: Option<Interface>, bus: &Bus) -> anyhow::Result<Self> {
        let mut options = ReceiveOptions::at(group, BUFFER_BYTES);
        options.interface.clone_from(&interface);
        let listens = ReceiveSocket::open(&options)?;
        let sends = SendSocket::open(&SendOptions {
            destination: group,
            interface,
            ttl: bus.ttl.unwrap_or(1),
            loopback: Loopback::On,
            buffer_bytes: BUFFER_BYTES,
            techniques: SendTechniques::default(),
        })?;
        Ok(Self { group, listens, sends, forger: Forger::new(sys::clock::wall()) })
    }

    fn listen(
        &mut self,
        batch: &mut ReceiveBatch,
        plaintext: &Plaintext,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let own = self.sends.local_address().port();
        loop {
            self.listens.receive_batch(batch)?;
            for received in batch.iter().filter(|received| received.from.port() != own) {
                for datagram in received.datagrams() {
                    report.heard += 1;
                    report.in_clear +=
                        u64::from(Datagram::decode(datagram).is_ok() || plaintext.is_in(datagram));
                    report.tokens.extend(SecuredHead::read(datagram).map(|head| head.token));
                    self.forger.overhear(datagram);
                }
            }
            if !batch.is_full() {
                return Ok(());
            }
        }
    }

    fn forge(&mut self, report: &mut Report) {
        for _ in Forgery::ALL {
            let Some((kind, bytes)) = self.forger.next() else { return };
            // What the kernel refuses reaches nobody.
            let sent = self.sends.send_batch(&[&bytes], self.group) == [Outcome::Sent];
            *report.sent.entry(kind.reason()).or_default() += u64::from(sent);
        }
    }
}
