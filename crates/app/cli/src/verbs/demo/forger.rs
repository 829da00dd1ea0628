//! The forger's craft: datagrams that somebody without keys can make of what he overhears in a group.
//!
//! It neither sends nor receives: `outsider` does.

use std::collections::VecDeque;

use keys::{GroupKey, GroupSecret, Purpose, Salt, Stretch, Suite};
use tallycast::{Dtype, WallTime};
use wire::{Clock, Data, Datagram, Kind, Numbered, SecuredHead, secured_bytes};

/// Datagrams that are kept to be sent again or changed: some of the past seconds.
const KEPT: usize = 64;
/// Distance by which a clear forgery is ahead of the stream: within what a receiver would take.
const AHEAD: u64 = 100;
/// Elements of a clear forgery.
const ELEMENTS: u32 = 16;

/// Ways to make a datagram, with the reason for which a reader must refuse it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Forgery {
    /// Sent again as it was.
    Replayed,
    /// One bit of its content changed.
    Changed,
    /// Made without encryption.
    Clear,
    /// Encrypted with a key of the forger's own.
    OtherKey,
}

impl Forgery {
    pub(super) const ALL: [Self; 4] = [Self::Replayed, Self::Changed, Self::Clear, Self::OtherKey];

    /// Returns the reason by which readers count it.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Changed => "bad_tag",
            Self::Clear => "clear",
            Self::OtherKey => "no_key",
        }
    }
}

/// What was overheard of one stream, and the secret of another laboratory.
pub(super) struct Forger {
    overheard: VecDeque<(SecuredHead, Vec<u8>)>,
    secret: GroupSecret,
    salt: Salt,
    turn: usize,
}

impl Forger {
    pub(super) fn new(now: WallTime) -> Self {
        let secret =
            GroupSecret::new(keyring::random_token(), Suite::default(), keyring::random_secret(), now);
        Self { overheard: VecDeque::with_capacity(KEPT), secret, salt: keyring::random_salt(), turn: 0 }
    }

    /// Keeps a datagram of samples that was overheard.
    pub(super) fn overhear(&mut self, bytes: &[u8]) {
        let Some(head) = SecuredHead::read(bytes).filter(|head| head.kind == Kind::Data) else { return };
        if self.overheard.len() == KEPT {
            self.overheard.pop_front();
        }
        self.overheard.push_back((head, bytes.to_vec()));
    }

    /// Makes the next forgery, of each kind in turn; `None` before anything was overheard.
    pub(super) fn next(&mut self) -> Option<(Forgery, Vec<u8>)> {
        let kind = Forgery::ALL[self.turn % Forgery::ALL.len()];
        let (head, original) =
            self.overheard.get(self.turn / Forgery::ALL.len() % self.overheard.len().max(1))?;
        self.turn = self.turn.wrapping_add(1);
        let bytes = match kind {
            Forgery::Replayed => original.clone(),
            Forgery::Changed => {
                let mut changed = original.clone();
                *changed.last_mut()? ^= 1;
                changed
            }
            Forgery::Clear => clear(self.newest()?),
            Forgery::OtherKey => self.encrypted(&clear(head)),
        };
        Some((kind, bytes))
    }

    fn newest(&self) -> Option<&SecuredHead> {
        self.overheard.back().map(|(head, _)| head)
    }

    /// Encrypts a clear datagram with the forger's own secret.
    fn encrypted(&self, plain: &[u8]) -> Vec<u8> {
        let head = SecuredHead::of_plain(plain, &self.secret);
        let stretch = Stretch { stream: head.stream, epoch: head.epoch };
        let key = GroupKey::new(&self.secret, self.salt).derive(Purpose::Stream(stretch));
        let mut bytes = vec![0; plain.len() + secured_bytes(head.kind)];
        bytes[head.plain_at()..][..plain.len()].copy_from_slice(plain);
        head.secure(&key, &mut bytes);
        bytes
    }
}

/// Makes a clear datagram in the name of a stream, ahead of it, so that whoever took it would miss samples.
fn clear(head: &SecuredHead) -> Vec<u8> {
    let payload = [0; ELEMENTS as usize * 4];
    let number = head.nonce + AHEAD;
    let numbered = Numbered {
        stream: head.stream,
        epoch: head.epoch,
        number,
        first_index: number * u64::from(ELEMENTS),
        element_offset: 0,
        elements_per_sample: 1,
    };
    let data = Data {
        head: numbered,
        t0: WallTime::default(),
        clock: Clock::System,
        dtype: Dtype::F4,
        element_count: ELEMENTS,
        origin: None,
        payload: &payload,
    };
    let mut bytes = [0; 512];
    let size = Datagram::Data(data).encode(&mut bytes).expect("a small datagram is valid");
    bytes[..size].to_vec()
}

#[cfg(test)]
mod tests {
    use units::{Epoch, StreamId};

    use super::*;

    fn overheard() -> Vec<u8> {
        let forger = Forger::new(WallTime::default());
        let secret = &forger.secret;
        let plain = clear(&SecuredHead::of_plain(&first(), secret));
        forger.encrypted(&plain)
    }

    fn first() -> Vec<u8> {
        let head = Numbered {
            stream: StreamId(7),
            epoch: Epoch { start_ns: 3, incarnation: 5 },
            number: 11,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: 1,
        };
        let data = Data {
            head,
            t0: WallTime::default(),
            clock: Clock::System,
            dtype: Dtype::F4,
            element_count: 1,
            origin: None,
            payload: &[0; 4],
        };
        let mut bytes = [0; 512];
        let size = Datagram::Data(data).encode(&mut bytes).unwrap();
        bytes[..size].to_vec()
    }

    #[test]
    fn each_kind_of_forgery_is_made_in_the_name_of_the_stream() {
        let original = overheard();
        let head = SecuredHead::read(&original).unwrap();
        let mut forger = Forger::new(WallTime::default());
        assert!(forger.next().is_none(), "nothing was overheard");
        forger.overhear(&first());
        assert!(forger.next().is_none(), "clear datagrams need no forger");
        forger.overhear(&original);
        let made: Vec<_> = std::iter::from_fn(|| forger.next()).take(4).collect();
        let kinds: Vec<_> = made.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, Forgery::ALL);
        assert_eq!(made[0].1, original);
        let changed = made[1].1.iter().zip(&original).filter(|(one, other)| one != other);
        assert_eq!(changed.count(), 1);
        let Ok(Datagram::Data(data)) = Datagram::decode(&made[2].1) else { panic!("{:?}", made[2]) };
        assert_eq!((data.head.stream, data.head.epoch), (head.stream, head.epoch));
        assert!(data.head.number > head.nonce);
        let other = SecuredHead::read(&made[3].1).unwrap();
        assert_eq!((other.stream, other.token), (head.stream, forger.secret.token));
        assert_ne!(other.token, head.token);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut forger = Forger::new(WallTime::default());
        let original = overheard();
        (0..2 * KEPT).for_each(|_| forger.overhear(&original));
        assert_eq!(forger.overheard.len(), KEPT);
    }
}
