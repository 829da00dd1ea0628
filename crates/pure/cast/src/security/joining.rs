//! Epochs that a reader joins: nothing of them passes until the publisher has repeated a nonce of this reader.
//!
//! A descriptor proves that its epoch began, but not that it is sent now: it may be a recording of the last minutes. The
//! reader therefore sends a nonce with its request for the description. A tally that repeats it was made after the
//! request; its number, and those that lead up to it without a hole, are where the account may begin.
//!
//! Where no answer comes, the epoch begins all the same after [`PATIENCE`], bounded by clocks alone, and this is told.
//!
//! Source: `docs/protocol/security.md`, "Receiving".

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use keys::{GroupSecret, Stretch};
use units::{Epoch, Instant, Random, StreamId};
use wire::{Datagram, Description, Nonce, SecuredHead};

use super::Unauthentic;
use super::epoch_keys::BelievedEpoch;
use super::rivalry::Rival;

/// Time after which an epoch begins although nobody repeated the nonce. A tally repeats sixteen nonces, ten times a
/// second: this is enough for a crowd of four hundred that joins at once.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval of the requests.
const ASK_INTERVAL: Duration = Duration::from_millis(250);
/// Validity of a nonce: one of the present period or the one before is of now.
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of epochs that are joined at the same time; of more, the oldest begins again with its descriptor.
const MAX_JOININGS: usize = 1_024;
/// Maximum number of datagrams kept of one epoch, and maximum size of those of all epochs: the answer takes 100 ms and a
/// round trip, in which a link of 1 Gbit/s brings 12 MiB.
const MAX_KEPT: usize = 32_768;
const MAX_KEPT_BYTES: usize = 32 << 20;

/// Drawer of the nonces: nobody outside the laboratory foresees or sees them.
#[derive(Debug)]
pub(super) struct Nonces {
    seed: u64,
}

/// The epochs that are joined.
#[derive(Debug, Default)]
pub(super) struct Joinings {
    epochs: BTreeMap<(StreamId, Epoch), Joining>,
    size_bytes: usize,
}

/// An epoch with a signed description, of which nobody has proven yet that it is sent now.
#[derive(Debug)]
pub(super) struct Joining {
    epoch: BelievedEpoch,
    pub(super) description: Box<Description>,
    since: Instant,
    next_ask: Instant,
    /// Plain datagrams by their numbers.
    kept: BTreeMap<u64, Vec<u8>>,
}

/// Consequence of a datagram for the epoch that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It was kept.
    Kept,
    /// It was kept, and it is time to ask the publisher at this address.
    Ask(SocketAddr),
    /// The epoch is sent now: the numbers that lead up to this one may begin.
    Confirmed(u64),
    /// A further copy of the final tally.
    Repeated,
}

impl Nonces {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the nonce with which an epoch is asked at `now`.
    pub(super) fn at(&self, now: Instant, stretch: Stretch) -> Nonce {
        self.of_period(now.as_nanos() / period_ns(), stretch)
    }

    /// Returns whether a plain datagram that is received at `now` is a tally that repeats a nonce of this reader.
    pub(super) fn are_answered(&self, now: Instant, stretch: Stretch, plain: &[u8]) -> bool {
        let Ok(Datagram::Tally(tally)) = Datagram::decode(plain) else { return false };
        let period = now.as_nanos() / period_ns();
        let is_ours = |period| tally.nonces.contains(&self.of_period(period, stretch));
        !tally.nonces.is_empty() && (is_ours(period) || period.checked_sub(1).is_some_and(is_ours))
    }

    fn of_period(&self, period: u64, Stretch { stream, epoch }: Stretch) -> Nonce {
        let words = [period, stream.0, epoch.start_ns, epoch.incarnation];
        Nonce::new(words.iter().fold(self.seed, |state, word| Random::new(state ^ word).next_u64()))
    }
}

impl Joinings {
    /// Joins an epoch; of too many, the oldest gives way.
    pub(super) fn insert(&mut self, joining: Joining) {
        if self.epochs.len() == MAX_JOININGS {
            let oldest = self.epochs.iter().min_by_key(|(_, joining)| joining.since).map(|(key, _)| *key);
            oldest.map(|(stream, epoch)| self.remove(Stretch { stream, epoch }));
        }
        let Stretch { stream, epoch } = joining.epoch.stretch;
        self.epochs.insert((stream, epoch), joining);
    }

    pub(super) fn contains(&self, Stretch { stream, epoch }: Stretch) -> bool {
        self.epochs.contains_key(&(stream, epoch))
    }

    /// Takes a datagram of an epoch that is joined.
    pub(super) fn take(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
        nonces: &Nonces,
    ) -> Result<Step, Unauthentic> {
        let Self { epochs, size_bytes } = self;
        let joining = epochs.get_mut(&(head.stream, head.epoch)).expect("the caller has looked it up");
        let Some(plain) = joining.epoch.open_copy((now, from), (head, secret), bytes)? else {
            return Ok(Step::Repeated);
        };
        let is_fresh = nonces.are_answered(now, joining.epoch.stretch, &plain);
        joining.keep(head.nonce, plain, size_bytes);
        if is_fresh {
            return Ok(Step::Confirmed(head.nonce));
        }
        Ok(joining.ask(now).map_or(Step::Kept, Step::Ask))
    }

    /// Keeps a part of the descriptor, which was opened before.
    pub(super) fn keep_part(&mut self, Stretch { stream, epoch }: Stretch, number: u64, plain: Vec<u8>) {
        let Self { epochs, size_bytes } = self;
        if let Some(joining) = epochs.get_mut(&(stream, epoch))
            && joining.epoch.passes(number)
        {
            joining.keep(number, plain, size_bytes);
        }
    }

    /// Returns where to ask the publisher of an epoch if this is due.
    pub(super) fn ask(&mut self, now: Instant, Stretch { stream, epoch }: Stretch) -> Option<SocketAddr> {
        self.epochs.get_mut(&(stream, epoch))?.ask(now)
    }

    /// Ends the joining of an epoch.
    pub(super) fn remove(&mut self, Stretch { stream, epoch }: Stretch) -> Option<Joining> {
        let joining = self.epochs.remove(&(stream, epoch))?;
        self.size_bytes -= joining.kept.values().map(Vec::len).sum::<usize>();
        Some(joining)
    }

    /// Returns the epochs of a stream that are joined, the earliest first.
    pub(super) fn of_stream(&self, stream: StreamId) -> Vec<Stretch> {
        self.epochs.values().map(|it| it.epoch.stretch).filter(|it| it.stream == stream).collect()
    }

    /// Returns an epoch whose publisher has not answered in time.
    pub(super) fn overdue(&self, now: Instant) -> Option<Stretch> {
        self.epochs.values().find(|it| now.since(it.since) >= PATIENCE).map(|it| it.epoch.stretch)
    }

    /// Returns when the next epoch begins without an answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.epochs.values().map(|joining| joining.since + PATIENCE).min()
    }

    /// Forgets keys of secrets that the member no longer has.
    pub(super) fn keep_only(&mut self, keys: &keys::KeySet) {
        self.epochs.values_mut().for_each(|joining| joining.epoch.keep_only(keys));
    }
}

impl Joining {
    pub(super) const fn new(epoch: BelievedEpoch, description: Box<Description>, now: Instant) -> Self {
        Self { epoch, description, since: now, next_ask: now, kept: BTreeMap::new() }
    }

    /// Returns the highest number that was kept.
    pub(super) fn highest(&self) -> u64 {
        self.kept.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Ends the wait: returns the epoch from the lowest number on that leads up to `number` without a hole, its datagrams
    /// from there on in order, and how many others were kept in vain.
    pub(super) fn begin_before(self, number: u64) -> (BelievedEpoch, Vec<Vec<u8>>, u64) {
        let Self { mut epoch, mut kept, .. } = self;
        let leading = kept.range(..number).rev().map(|(number, _)| *number);
        let floor = leading
            .zip(1..)
            .take_while(|(lower, below)| lower + below == number)
            .last()
            .map_or(number, |(lower, _)| lower);
        let begins = kept.split_off(&floor);
        epoch.begin_at(floor);
        (epoch, begins.into_values().collect(), kept.len() as u64)
    }

    /// Ends the wait for an epoch that a later one precludes; returns it as a rival of that one, and the number of
    /// datagrams kept in vain.
    pub(super) fn rival(self) -> (Rival, u64) {
        (Rival { epoch: self.epoch, description: self.description }, self.kept.len() as u64)
    }

    /// Ends the wait for an epoch that follows one that is believed: nothing of it can have been recorded for long.
    pub(super) fn follow(self) -> (BelievedEpoch, Vec<Vec<u8>>) {
        (self.epoch, self.kept.into_values().collect())
    }

    /// Keeps a datagram; of too many, those with the lowest numbers give way.
    fn keep(&mut self, number: u64, plain: Vec<u8>, size_bytes: &mut usize) {
        *size_bytes += plain.len();
        // A revised final tally replaces the one before: it has all losses of that one, and newer nonces.
        *size_bytes -= self.kept.insert(number, plain).map_or(0, |before| before.len());
        while self.kept.len() > MAX_KEPT || *size_bytes > MAX_KEPT_BYTES {
            let Some((_, lowest)) = self.kept.pop_first() else { return };
            *size_bytes -= lowest.len();
        }
    }

    fn ask(&mut self, now: Instant) -> Option<SocketAddr> {
        if now < self.next_ask {
            return None;
        }
        self.next_ask = now + ASK_INTERVAL;
        Some(SocketAddr::new(self.epoch.from.ip(), self.description.report_port))
    }
}

fn period_ns() -> u64 {
    u64::try_from(PERIOD.as_nanos()).expect("a period is short")
}
