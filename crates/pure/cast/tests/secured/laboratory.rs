//! A laboratory with its secrets and stations, and one that is not ours.

use std::sync::Arc;

use cast::send::SenderSecurity;
use keys::{
    Authority, Certificate, GroupSecret, KeySet, Membership, PublicKey, SIGNATURE_BYTES, Salt, Secret,
    Signature, SigningKey, Station, Suite, Token,
};
use units::{Instant, Random, WallTime};

/// UTC when a scene begins.
const BEGIN: WallTime = WallTime::from_nanos(1_800_000_000_000_000_000);

/// Returns UTC at an instant of the scene.
pub(crate) fn wall(now: Instant) -> WallTime {
    BEGIN.offset(i64::try_from(now.as_nanos()).unwrap())
}

/// Everything that is random follows from a seed.
pub(crate) struct Laboratory {
    random: Random,
    authority: Authority,
    pub(crate) suite: Suite,
}

impl Laboratory {
    pub(crate) fn new(seed: u64, suite: Suite) -> Self {
        let mut random = Random::for_purpose(seed, "laboratory");
        let authority = Authority::new(SigningKey::from_seed(&bytes(&mut random).into()));
        Self { random, authority, suite }
    }

    pub(crate) fn salt(&mut self) -> Salt {
        let bytes: [u8; 32] = bytes(&mut self.random);
        Salt(bytes[..16].try_into().unwrap())
    }

    pub(crate) fn secret(&mut self, token: u32, from: WallTime) -> GroupSecret {
        let secret = Secret::new(bytes(&mut self.random).into());
        GroupSecret::new(Token(token), self.suite, secret, from)
    }

    /// Makes a member with these secrets and a station of its own.
    pub(crate) fn member(&mut self, secrets: &[GroupSecret]) -> Arc<Membership> {
        let seed = bytes(&mut self.random).into();
        let certificate = self.authority.certify(Certificate {
            name: "daq".to_owned(),
            signing: SigningKey::from_seed(&seed).public(),
            exchange: PublicKey([0; 32]),
            not_before: BEGIN.offset(-3_600_000_000_000),
            not_after: BEGIN.offset(1_000_000_000_000_000),
            signature: Signature([0; SIGNATURE_BYTES]),
        });
        let station = Station::new(certificate, SigningKey::from_seed(&seed)).unwrap();
        Arc::new(Membership {
            laboratory: "lab".to_owned(),
            authority: self.authority.public(),
            keys: KeySet::new(secrets.iter().cloned()),
            station: Arc::new(station),
            exchange: Secret::new(bytes(&mut self.random).into()),
        })
    }

    pub(crate) fn security(&mut self, membership: &Arc<Membership>, now: Instant) -> SenderSecurity {
        SenderSecurity { membership: Arc::clone(membership), salt: self.salt(), wall: wall(now) }
    }
}

fn bytes(random: &mut Random) -> [u8; 32] {
    core::array::from_fn(|_| u8::try_from(random.below(256)).unwrap())
}
