//! An epoch that is sent beside a later one: two publishers share the name of a stream.
//!
//! Its signature tells it from a forgery, but not from the recording of an epoch that is over. Its publisher is therefore
//! asked to repeat a nonce; from the tally on that does, its datagrams pass, and the receiver tells of two publishers.
//! Until then they are refused as replayed.
//!
//! A stream challenges one epoch at a time, so that recordings cost one signature and one request in [`TURN`].
//!
//! Source: `docs/protocol/security.md`, "Two publishers".

use core::net::SocketAddr;
use core::time::Duration;

use keys::{GroupSecret, KeySet};
use units::{Epoch, Instant};
use wire::{Description, Kind, SecuredHead};

use super::Unauthentic;
use super::epoch_keys::BelievedEpoch;
use super::joining::{Nonces, PERIOD};

/// Time for the answer to a challenge: a nonce is valid for that long at least.
const TURN: Duration = PERIOD;
/// Further time in which an epoch that has not answered is not challenged again: another that is sent now, with its
/// descriptor once a second, comes first.
const OTHERS_FIRST: Duration = Duration::from_secs(2);

/// The challenges of one stream.
#[derive(Debug)]
pub(super) struct Rivalry {
    latest: Option<Challenge>,
}

#[derive(Debug)]
struct Challenge {
    epoch: Epoch,
    since: Instant,
    /// `None` if its descriptor is not valid.
    rival: Option<Rival>,
}

/// An epoch with a signed description that began before the believed one.
#[derive(Debug)]
pub(super) struct Rival {
    pub(super) epoch: BelievedEpoch,
    pub(super) description: Box<Description>,
}

/// The answer of a rival's publisher.
#[derive(Debug)]
pub(super) struct Answer {
    /// The rival, from the answer on.
    pub(super) rival: Rival,
    /// The plain tally that repeats the nonce.
    pub(super) tally: Vec<u8>,
}

impl Rivalry {
    pub(super) const fn new() -> Self {
        Self { latest: None }
    }

    /// Returns whether the descriptor of an earlier epoch may be judged now.
    pub(super) fn has_turn(&self, now: Instant, epoch: Epoch) -> bool {
        let is_over = |latest: &Challenge| {
            let rest = if latest.epoch == epoch { OTHERS_FIRST } else { Duration::ZERO };
            now.since(latest.since) >= TURN + rest
        };
        self.latest.as_ref().is_none_or(is_over)
    }

    /// Gives an earlier epoch its turn, without a rival if its descriptor is not valid. Returns where to ask its
    /// publisher.
    pub(super) fn challenge(
        &mut self,
        now: Instant,
        epoch: Epoch,
        rival: Option<Rival>,
    ) -> Option<SocketAddr> {
        let address = |rival: &Rival| SocketAddr::new(rival.epoch.from.ip(), rival.description.report_port);
        // A publisher without a port never answers.
        let to = rival.as_ref().map(address).filter(|to| to.port() != 0);
        self.latest = Some(Challenge { epoch, since: now, rival });
        to
    }

    /// Takes a tally of an earlier epoch.
    pub(super) fn answered(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
        nonces: &Nonces,
    ) -> Result<Answer, Unauthentic> {
        debug_assert_eq!(head.kind, Kind::Tally, "nothing else answers");
        let is_its = |latest: &&mut Challenge| latest.epoch == head.epoch;
        let challenge = self.latest.as_mut().filter(is_its).ok_or(Unauthentic::Replayed)?;
        let rival = challenge.rival.as_mut().ok_or(Unauthentic::Replayed)?;
        let tally =
            rival.epoch.open_copy((now, from), (head, secret), bytes)?.ok_or(Unauthentic::Replayed)?;
        let is_answer = nonces.are_answered(now, rival.epoch.stretch, &tally);
        let mut rival = challenge.rival.take_if(|_| is_answer).ok_or(Unauthentic::Replayed)?;
        rival.epoch.begin_at(head.nonce);
        Ok(Answer { rival, tally })
    }

    /// Forgets keys of secrets that the member no longer has.
    pub(super) fn keep_only(&mut self, keys: &KeySet) {
        let rival = self.latest.as_mut().and_then(|latest| latest.rival.as_mut());
        if let Some(rival) = rival {
            rival.epoch.keep_only(keys);
        }
    }
}
