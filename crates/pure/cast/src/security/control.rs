//! Datagrams without a number, secured and opened: reports, requests and announcements.
//!
//! Their nonce is a counter of the process that sends them, in units of its UTC: it never repeats under one salt, and a
//! receiver that has not heard the sender before can tell a recording by its age.
//!
//! Source: `docs/protocol/security.md`, "Datagrams without a number".

use core::fmt;
use std::collections::BTreeMap;

use keys::{DatagramKey, GroupKey, GroupSecret, KeySet, Membership, Purpose, Salt, Suite, TAG_BYTES, Token};
use units::WallTime;
use wire::{CLOCK_BOUND, SecuredHead, secured_bytes};

use super::Unauthentic;

/// Maximum number of senders that are remembered; of more, the one that was silent for longest is forgotten. A replay
/// of its latest datagrams is then taken once more, within the clock bound.
const MAX_SENDERS: usize = 4_096;
/// Counters of one sender that are told apart: few of its datagrams overtake each other.
const RECENT: usize = 32;

/// Secures a process's datagrams without a number.
pub struct ControlSealer {
    salt: Salt,
    counter: u64,
    /// `None` before the first secret.
    sealing: Option<(GroupSecret, DatagramKey)>,
}

/// Opens datagrams without a number, each once.
#[derive(Debug, Default)]
pub struct ControlOpener {
    senders: BTreeMap<(Token, Salt), Sender>,
}

/// A sender that has proven to be a member.
struct Sender {
    /// Check and suite of the secret that the key comes from.
    derived: (u32, Suite),
    key: DatagramKey,
    /// The latest counters, ascending.
    recent: Vec<u64>,
    heard: WallTime,
}

impl ControlSealer {
    /// Creates a sealer with a salt that was drawn for it alone.
    #[must_use]
    pub fn new(membership: &Membership, salt: Salt, wall: WallTime) -> Self {
        let mut sealer = Self { salt, counter: 0, sealing: None };
        sealer.renew(membership, wall, salt);
        sealer
    }

    /// Seals with the secret whose time has come. `fresh` is a salt drawn for this call: it is used if UTC was set back,
    /// for receivers take counters of about now only.
    pub fn renew(&mut self, membership: &Membership, wall: WallTime, fresh: Salt) {
        let is_ahead = i64::try_from(self.counter).is_ok_and(|counter| {
            u128::try_from(counter.saturating_sub(wall.as_nanos()))
                .is_ok_and(|by| by > CLOCK_BOUND.as_nanos() / 2)
        });
        if is_ahead {
            (self.salt, self.counter) = (fresh, 0);
        }
        // Without a secret of use the ended one stays, and nothing is sealed.
        let Some(secret) = membership.sending(wall) else { return };
        if is_ahead || self.sealing.as_ref().is_none_or(|(known, _)| known != secret) {
            // The counter of a salt goes on: no nonce repeats, should this secret come back.
            let key = GroupKey::new(secret, self.salt).derive(Purpose::Unnumbered);
            self.sealing = Some((secret.clone(), key));
        }
    }

    /// Secures the plain datagram at the start of `buffer` and returns its size; `None` if the buffer is too short,
    /// or if no secret is of use at `wall`.
    ///
    /// # Panics
    /// If there is no datagram without a number.
    pub fn seal(&mut self, wall: WallTime, buffer: &mut [u8], plain_bytes: usize) -> Option<usize> {
        let (secret, key) = self.sealing.as_ref().filter(|(secret, _)| secret.is_of_use(wall))?;
        let mut head = SecuredHead::of_plain(&buffer[..plain_bytes], secret);
        assert!(!head.kind.is_numbered(), "numbers belong to the stream's sender");
        let room = secured_bytes(head.kind) - TAG_BYTES;
        let bytes = buffer.get_mut(..plain_bytes + secured_bytes(head.kind))?;
        bytes.copy_within(..plain_bytes, room);
        self.counter = (self.counter + 1).max(u64::try_from(wall.as_nanos()).unwrap_or(0));
        (head.salt, head.nonce) = (self.salt, self.counter);
        head.secure(key, bytes);
        Some(bytes.len())
    }
}

impl ControlOpener {
    /// Opens the datagram in `bytes` and returns the size of the plain one at its start.
    ///
    /// # Errors
    /// [`Unauthentic`]; `bytes` are then meaningless.
    pub fn open(&mut self, keys: &KeySet, wall: WallTime, bytes: &mut [u8]) -> Result<usize, Unauthentic> {
        let head = SecuredHead::read(bytes).ok_or(Unauthentic::Clear)?;
        if head.kind.is_numbered() {
            return Err(Unauthentic::WrongSender);
        }
        let secret = head.secret_in(keys).ok_or(Unauthentic::NoKey)?;
        let end = bytes.len();
        let (known, derived) = ((head.token, head.salt), (head.key_check, head.suite));
        if let Some(sender) = self.senders.get_mut(&known).filter(|it| it.derived == derived) {
            let opened = head.open(&sender.key, bytes, 0..end, 0).map_err(|_| Unauthentic::BadTag)?;
            return sender.take(head.nonce, wall).then_some(opened).ok_or(Unauthentic::Replayed);
        }
        let key = GroupKey::new(secret, head.salt).derive(Purpose::Unnumbered);
        let opened = head.open(&key, bytes, 0..end, 0).map_err(|_| Unauthentic::BadTag)?;
        let mut sender = Sender { derived, key, recent: Vec::new(), heard: wall };
        if !sender.take(head.nonce, wall) {
            return Err(Unauthentic::Replayed);
        }
        if self.senders.len() == MAX_SENDERS {
            let silent = self.senders.iter().min_by_key(|(_, sender)| sender.heard).map(|(known, _)| *known);
            silent.map(|silent| self.senders.remove(&silent));
        }
        self.senders.insert(known, sender);
        Ok(opened)
    }

    /// Forgets the senders whose secrets the member no longer has.
    pub fn keep_only(&mut self, keys: &KeySet) {
        self.senders.retain(|(token, _), sender| {
            let (key_check, suite) = sender.derived;
            keys.named(*token, key_check, suite).is_some()
        });
    }
}

impl Sender {
    /// Takes a counter; returns whether it is new and of now.
    fn take(&mut self, counter: u64, wall: WallTime) -> bool {
        let apart = i64::try_from(counter).map_or(i64::MAX, |issued| issued.saturating_sub(wall.as_nanos()));
        let is_now = u128::from(apart.unsigned_abs()) <= CLOCK_BOUND.as_nanos();
        let is_forgotten = self.recent.len() == RECENT && counter < self.recent[0];
        let Err(place) = self.recent.binary_search(&counter) else { return false };
        if !is_now || is_forgotten {
            return false;
        }
        self.recent.insert(place, counter);
        if self.recent.len() > RECENT {
            self.recent.remove(0);
        }
        self.heard = wall;
        true
    }
}

impl fmt::Debug for ControlSealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.sealing.as_ref().map(|(secret, _)| secret.token);
        formatter.debug_struct("ControlSealer").field("token", &token).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sender").field("heard", &self.heard).finish_non_exhaustive()
    }
}
