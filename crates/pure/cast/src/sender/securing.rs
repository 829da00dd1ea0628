//! Keys of a secured stream's datagrams, and the signature of its description.
//!
//! Every number encrypts one content only: data and descriptors are the same for all destinations, tallies have a key
//! per destination, and the bytes of the final tally are repeated; if it tells more than before, it has a further key.
//! The secret may change between any two datagrams, because numbers and salt go on under the keys derived from it.
//!
//! Source: `docs/protocol/security.md`.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use keys::{DatagramKey, GroupKey, GroupSecret, Membership, Purpose, Salt, Stretch, TAG_BYTES};
use units::{Epoch, Instant, StreamId, WallTime};
use wire::{DatagramTotals, Description, Kind, SecuredHead, Security, Tally, secured_bytes};

use crate::security::{TallyFor, Utc};

/// Interval at which a description is signed anew, well within the clock bound of readers.
const SIGNED_EVERY: Duration = Duration::from_secs(60);

/// Maximum number of destinations of a secured stream: each has a key for its tallies.
pub const MAX_SECURED_DESTINATIONS: usize = TallyFor::MAX_DESTINATIONS as usize;

/// Keys with which a sender secures its stream.
#[derive(Clone, Debug)]
pub struct SenderSecurity {
    /// The laboratory's secrets and the station that signs.
    pub membership: Arc<Membership>,
    /// Random bits, drawn for this sender alone.
    pub salt: Salt,
    /// UTC when the sender begins.
    pub wall: WallTime,
}

/// The security of one epoch.
pub(super) struct Securing {
    membership: Arc<Membership>,
    salt: Salt,
    stretch: Stretch,
    utc: Utc,
    /// `None` before the first secret; an ended one stays until another takes its place, and is not sent with.
    keys: Option<SendingKeys>,
    /// Number of destinations.
    destinations: usize,
    signed: Option<Instant>,
    /// The final tally for each destination once it was encrypted.
    finals: Vec<Option<FinalTally>>,
}

/// A final tally, which is repeated byte for byte as long as it tells everything.
#[derive(Clone)]
struct FinalTally {
    tally: Tally,
    revision: u16,
    bytes: Vec<u8>,
}

/// The keys derived from the secret that is sent with.
struct SendingKeys {
    secret: GroupSecret,
    /// From then on nothing is sent with it.
    ends: Option<Instant>,
    group: GroupKey,
    stream: DatagramKey,
    tallies: Vec<DatagramKey>,
}

impl Securing {
    pub(super) fn new(
        security: &SenderSecurity,
        (stream, epoch): (StreamId, Epoch),
        destinations: usize,
        now: Instant,
    ) -> Self {
        let SenderSecurity { membership, salt, wall } = security;
        let stretch = Stretch { stream, epoch };
        let mut securing = Self {
            membership: Arc::clone(membership),
            salt: *salt,
            stretch,
            utc: Utc { at: now, wall: *wall },
            keys: None,
            destinations,
            signed: None,
            finals: vec![None; destinations],
        };
        securing.renew(now);
        securing
    }

    /// Adopts other secrets, or another certificate; `wall` is UTC now.
    pub(super) fn adopt(&mut self, now: Instant, membership: &Arc<Membership>, wall: WallTime) {
        self.utc = Utc { at: now, wall };
        if !Arc::ptr_eq(&self.membership, membership) {
            self.membership = Arc::clone(membership);
            self.signed = None;
        }
        self.renew(now);
    }

    /// Sends with the secret whose time has come.
    pub(super) fn renew(&mut self, now: Instant) {
        let wall = self.utc.at(now);
        let Some(secret) = self.membership.sending(wall) else {
            // The set has others, or none: what is held is of no use, whatever was known of its end.
            if let Some(keys) = &mut self.keys {
                keys.ends = Some(keys.ends.map_or(now, |ends| ends.min(now)));
            }
            return;
        };
        let left =
            |until: WallTime| Duration::from_nanos(u64::try_from(until.nanos_since(wall)).unwrap_or(0));
        let ends = secret.until.map(|until| now + left(until));
        match &mut self.keys {
            Some(keys) if keys.secret == *secret => keys.ends = ends,
            keys => {
                let new = SendingKeys::new(secret, self.salt, self.stretch, self.destinations);
                *keys = Some(SendingKeys { ends, ..new });
            }
        }
    }

    /// Returns whether there is a secret to send with.
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        let is_valid = |keys: &Option<SendingKeys>| {
            keys.as_ref().is_some_and(|it| it.ends.is_none_or(|ends| now < ends))
        };
        if !is_valid(&self.keys) {
            self.renew(now);
        }
        is_valid(&self.keys)
    }

    /// Signs the description if the last signature is too old; returns whether it has changed.
    pub(super) fn sign(&mut self, now: Instant, description: &mut Description) -> bool {
        let is_due = self.signed.is_none_or(|signed| now.since(signed) >= SIGNED_EVERY);
        if is_due {
            self.signed = Some(now);
            let issued = self.utc.at(now);
            let begun = (self.stretch.epoch, self.salt);
            let station = &self.membership.station;
            Security::sign(description, begun, issued, station).put(description);
        }
        is_due
    }

    /// Secures the plain datagram that lies in `bytes` behind the room for its extension and before that for its tag.
    pub(super) fn secure(&self, kind: Kind, number: u64, destination: usize, bytes: &mut [u8]) {
        let keys = self.keys();
        let mut head = head_of(kind, bytes, &keys.secret);
        debug_assert_eq!(head.nonce, number, "the nonce is the number");
        let key = match kind {
            Kind::Tally => {
                head.destination = TallyFor::destination(destination, 0).code();
                &keys.tallies[destination]
            }
            Kind::Descriptor => {
                head.salt = self.salt;
                &keys.stream
            }
            Kind::Data => &keys.stream,
            Kind::Report | Kind::Announcement | Kind::Request => {
                unreachable!("a sender of samples numbers its datagrams")
            }
        };
        head.secure(key, bytes);
    }

    /// Secures the final tally for a destination, which lies in `bytes` as in [`secure`](Self::secure), and keeps it.
    pub(super) fn secure_final_tally(&mut self, destination: usize, tally: Tally, bytes: &mut [u8]) {
        let revision = self.finals[destination].as_ref().map_or(0, |before| before.revision + 1);
        let keys = self.keys();
        let mut head = head_of(Kind::Tally, bytes, &keys.secret);
        head.destination = TallyFor::destination(destination, revision).code();
        // Its number has met the key of the revision before.
        head.secure(&keys.group.derive(Purpose::Tally(self.stretch, head.destination)), bytes);
        self.finals[destination] = Some(FinalTally { tally, revision, bytes: bytes.to_vec() });
    }

    /// Returns the final tally for a destination if it was encrypted before and tells as much as this one.
    pub(super) fn final_tally(&self, destination: usize, tally: &Tally) -> Option<&[u8]> {
        let before = self.finals[destination].as_ref()?;
        before.tells_as_much_as(tally).then_some(&before.bytes)
    }

    fn keys(&self) -> &SendingKeys {
        self.keys.as_ref().expect("nothing is begun without a secret")
    }
}

impl FinalTally {
    /// Returns whether another final tally has no further losses, causes or nonces. Each copy changes the count of bytes.
    fn tells_as_much_as(&self, other: &Tally) -> bool {
        let counts = |tally: &Tally| DatagramTotals { bytes: 0, ..tally.totals.datagrams };
        (counts(&self.tally), &self.tally.nonces) == (counts(other), &other.nonces)
            && (&self.tally.skipped, &self.tally.upstream) == (&other.skipped, &other.upstream)
    }
}

impl SendingKeys {
    fn new(secret: &GroupSecret, salt: Salt, stretch: Stretch, destinations: usize) -> Self {
        let group = GroupKey::new(secret, salt);
        let tally = |index| group.derive(Purpose::Tally(stretch, TallyFor::destination(index, 0).code()));
        Self {
            secret: secret.clone(),
            ends: None,
            stream: group.derive(Purpose::Stream(stretch)),
            tallies: (0..destinations).map(tally).collect(),
            group,
        }
    }
}

impl fmt::Debug for Securing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.keys.as_ref().map(|keys| keys.secret.token);
        formatter.debug_struct("Securing").field("token", &token).finish_non_exhaustive()
    }
}

/// Returns the head of the plain datagram that lies in `bytes` behind the room for its extension.
fn head_of(kind: Kind, bytes: &[u8], secret: &GroupSecret) -> SecuredHead {
    let head = SecuredHead::of_plain(&bytes[room_before(kind)..], secret);
    debug_assert_eq!(head.kind, kind, "the room is as large as its kind needs");
    head
}

/// Returns the room before a plain datagram for its extension. Units: bytes.
pub(super) const fn room_before(kind: Kind) -> usize {
    secured_bytes(kind) - TAG_BYTES
}
