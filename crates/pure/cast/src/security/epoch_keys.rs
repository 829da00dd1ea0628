//! An epoch whose publisher is believed: its keys, the numbers taken from it, and where it sends from.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use keys::{DatagramKey, GroupKey, GroupSecret, KeySet, Purpose, Salt, Stretch, Token};
use units::{Epoch, Instant, StreamId};
use wire::{Kind, SecuredHead};

use super::window::Window;
use super::{TallyFor, Unauthentic};

/// Silence at the known address after which new datagrams from another one move the epoch there.
const MOVES_AFTER: Duration = Duration::from_secs(3);
/// Silence of the tallies for one destination after which those for another are taken.
const DESTINATION_SILENT_AFTER: Duration = Duration::from_secs(3);

/// A believed epoch.
#[derive(Debug)]
pub(super) struct BelievedEpoch {
    pub(super) stretch: Stretch,
    salt: Salt,
    secrets: Vec<SecretKeys>,
    window: Window,
    /// Address from which its datagrams are passed on.
    pub(super) from: SocketAddr,
    /// Time of the latest new datagram from there.
    heard: Instant,
    /// The destination whose tallies are taken, and when the latest came: those for another would tell of losses that
    /// this reader has not had.
    destination: Option<(u16, Instant)>,
    /// Revision of the final tally that was taken.
    final_revision: Option<u16>,
}

/// Keys derived from one secret.
#[derive(Debug)]
struct SecretKeys {
    secret: GroupSecret,
    group: GroupKey,
    stream: DatagramKey,
    /// Key of the tallies for the latest destination, by the field of that name.
    tally: Option<(u16, DatagramKey)>,
}

/// A datagram that was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Opened {
    /// Size of the plain datagram.
    pub(super) size_bytes: usize,
    /// True if the epoch is sent from another address now.
    pub(super) has_moved: bool,
}

impl SecretKeys {
    fn new(secret: &GroupSecret, salt: Salt, stretch: Stretch) -> Self {
        let group = GroupKey::new(secret, salt);
        let stream = group.derive(Purpose::Stream(stretch));
        Self { secret: secret.clone(), group, stream, tally: None }
    }

    /// Opens a datagram in place.
    fn open(
        &mut self,
        head: &SecuredHead,
        stretch: Stretch,
        bytes: &mut [u8],
        (place, to): (Range<usize>, usize),
    ) -> Result<usize, Unauthentic> {
        if head.kind != Kind::Tally {
            return head.open(&self.stream, bytes, place, to).map_err(|_| Unauthentic::BadTag);
        }
        if let Some((_, key)) =
            self.tally.as_ref().filter(|(destination, _)| *destination == head.destination)
        {
            return head.open(key, bytes, place, to).map_err(|_| Unauthentic::BadTag);
        }
        let key = self.group.derive(Purpose::Tally(stretch, head.destination));
        let size_bytes = head.open(&key, bytes, place, to).map_err(|_| Unauthentic::BadTag)?;
        // Only an authentic tally takes the slot.
        self.tally = Some((head.destination, key));
        Ok(size_bytes)
    }
}

impl BelievedEpoch {
    /// Believes an epoch from the number `floor` on.
    pub(super) fn new(
        (stream, epoch): (StreamId, Epoch),
        salt: Salt,
        floor: u64,
        (now, from): (Instant, SocketAddr),
    ) -> Self {
        Self {
            stretch: Stretch { stream, epoch },
            salt,
            secrets: Vec::new(),
            window: Window::new(floor),
            from,
            heard: now,
            destination: None,
            final_revision: None,
        }
    }

    /// Opens a datagram in place if it is authentic and new; `None` for further copies of the final tally, which is
    /// sent several times under one number. A revised one is new.
    pub(super) fn open(
        &mut self,
        (now, from): (Instant, SocketAddr),
        head: &SecuredHead,
        secret: &GroupSecret,
        bytes: &mut [u8],
        place: (Range<usize>, usize),
    ) -> Result<Option<Opened>, Unauthentic> {
        if head.kind == Kind::Descriptor && head.salt != self.salt {
            return Err(Unauthentic::WrongSender);
        }
        let tally_for = TallyFor::from_code(head.destination);
        if head.kind == Kind::Tally && self.is_for_others(now, tally_for.index) {
            return Err(Unauthentic::WrongSender);
        }
        let (to, stretch) = (place.1, self.stretch);
        let size_bytes = self.keys(secret).open(head, stretch, bytes, place)?;
        let is_highest = head.nonce >= self.window.next();
        let is_final = is_final_tally(head, &bytes[to..to + size_bytes]);
        if !self.window.take(head.nonce) {
            if !is_final {
                return Err(Unauthentic::Replayed);
            }
            if self.final_revision.is_none_or(|taken| tally_for.revision <= taken) {
                return Ok(None);
            }
        }
        if is_final {
            self.final_revision = Some(tally_for.revision);
        }
        if head.kind == Kind::Tally {
            self.destination = Some((tally_for.index, now));
        }
        Ok(Some(Opened { size_bytes, has_moved: is_highest && self.heard_from(now, from) }))
    }

    /// Opens a copy of a datagram of which nobody has proven yet that it is sent now; otherwise as [`open`](Self::open).
    pub(super) fn open_copy(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, Unauthentic> {
        let is_highest = head.nonce >= self.window.next();
        let mut plain = bytes.to_vec();
        // A recorded tally for another destination must not shut out those for this reader.
        self.destination = None;
        let Some(opened) = self.open((now, from), head, secret, &mut plain, (0..bytes.len(), 0))? else {
            return Ok(None);
        };
        plain.truncate(opened.size_bytes);
        if is_highest {
            // Recordings have lower numbers than what is sent now.
            self.from = from;
        }
        Ok(Some(plain))
    }

    /// Opens in place a data datagram from the known address, of the secret whose keys are at `key`; returns its size.
    ///
    /// It is what [`open`](Self::open) does, with less to distinguish.
    pub(super) fn open_data(
        &mut self,
        now: Instant,
        head: &SecuredHead,
        key: usize,
        bytes: &mut [u8],
        (place, to): (Range<usize>, usize),
    ) -> Result<usize, Unauthentic> {
        let opened = head.open(&self.secrets[key].stream, bytes, place, to);
        let size_bytes = opened.map_err(|_| Unauthentic::BadTag)?;
        if head.nonce >= self.window.next() {
            self.heard = now;
        }
        if self.window.take(head.nonce) { Ok(size_bytes) } else { Err(Unauthentic::Replayed) }
    }

    /// Takes the number of a datagram that was opened before the epoch was believed; returns whether it is new.
    pub(super) fn passes(&mut self, number: u64) -> bool {
        self.window.take(number)
    }

    /// Takes numbers from `floor` on only.
    pub(super) const fn begin_at(&mut self, floor: u64) {
        self.window.begin_at(floor);
    }

    /// Forgets keys of secrets that the member no longer has.
    pub(super) fn keep_only(&mut self, keys: &KeySet) {
        self.secrets.retain(|derived| keys.with_token(derived.secret.token) == Some(&derived.secret));
    }

    /// Returns whether tallies for another destination are alive.
    fn is_for_others(&self, now: Instant, destination: u16) -> bool {
        self.destination
            .is_some_and(|(taken, heard)| taken != destination && now.since(heard) < DESTINATION_SILENT_AFTER)
    }

    /// Records the address of a new datagram; returns whether the epoch has moved there.
    fn heard_from(&mut self, now: Instant, from: SocketAddr) -> bool {
        let has_moved = from != self.from && now.since(self.heard) >= MOVES_AFTER;
        if has_moved {
            self.from = from;
        }
        if from == self.from {
            self.heard = now;
        }
        has_moved
    }

    fn keys(&mut self, secret: &GroupSecret) -> &mut SecretKeys {
        let index = self.index_of(secret.token).unwrap_or_else(|| {
            self.secrets.push(SecretKeys::new(secret, self.salt, self.stretch));
            self.secrets.len() - 1
        });
        &mut self.secrets[index]
    }

    /// Returns the place of the keys that were derived from a secret.
    pub(super) fn index_of(&self, token: Token) -> Option<usize> {
        self.secrets.iter().position(|derived| derived.secret.token == token)
    }
}

fn is_final_tally(head: &SecuredHead, plain: &[u8]) -> bool {
    head.kind == Kind::Tally
        && matches!(wire::Datagram::decode(plain), Ok(wire::Datagram::Tally(tally)) if tally.last)
}
