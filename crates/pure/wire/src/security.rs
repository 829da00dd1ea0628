//! The entry `security` of a description: the stream's level, and the signature that lets an epoch begin.
//!
//! At level `group` every member can encrypt, but only the holder of a certified station key can begin an epoch: its
//! descriptor states when it was issued and carries the station's certificate and signature. A recorded descriptor
//! ends with the clock bound.
//!
//! Source: `docs/protocol/security.md`, "Signed descriptions".

use core::time::Duration;

use keys::{Certificate, CertificateError, PublicKey, SIGNATURE_BYTES, Salt, Signature, Station};
use minicbor::decode::{Decoder, Error};
use minicbor::encode::Encoder;
use units::{Epoch, WallTime};

use crate::cbor::key::description::SECURITY;
use crate::{Description, stream_id};

/// Maximum difference between the time at which a description was issued and the reader's clock.
pub const CLOCK_BOUND: Duration = Duration::from_secs(15 * 60);

/// Subject of the signature of a description.
const SUBJECT: &[u8] = b"tallycast 1 description";

/// Protection of a stream's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Level {
    /// Members of the group read and write; outsiders can do neither.
    Group = 1,
}

/// The entry `security` of a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Security {
    /// The stream's level.
    pub level: Level,
    /// Time of issue by the publisher's clock.
    pub issued: WallTime,
    /// The certificate of the publishing station.
    pub certificate: Certificate,
    /// The station's signature.
    pub signature: Signature,
}

/// Reason not to believe that a description begins an epoch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// No entry, or one that cannot be read.
    #[error("its description is not signed")]
    Unsigned,
    /// A certificate that is not valid here and now.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A signature of other bytes, or by another key.
    #[error("the signature of station `{0}` does not belong to its description")]
    Signature(String),
    /// Issued too long ago or in the future, by the reader's clock.
    #[error(
        "station `{station}` issued its description {} s {} this host's clock, at most {} s are allowed\n\
         it is a recording, or one of the two clocks is wrong: synchronise both with NTP or PTP",
        difference.as_secs(), if *is_ahead { "ahead of" } else { "behind" }, CLOCK_BOUND.as_secs()
    )]
    Clock {
        /// The publishing station.
        station: String,
        /// Difference of the clocks.
        difference: Duration,
        /// True if the publisher's clock is ahead.
        is_ahead: bool,
    },
}

impl Security {
    /// Signs a description for an epoch whose keys are derived with `salt`.
    #[must_use]
    pub fn sign(
        description: &Description,
        (epoch, salt): (Epoch, Salt),
        issued: WallTime,
        station: &Station,
    ) -> Self {
        let certificate = station.certificate().clone();
        let unsigned =
            Self { level: Level::Group, issued, certificate, signature: Signature([0; SIGNATURE_BYTES]) };
        let signature = station.sign(SUBJECT, &unsigned.signed_bytes(description, (epoch, salt)));
        Self { signature, ..unsigned }
    }

    /// Writes the entry into a description, in place of an earlier one.
    pub fn put(&self, description: &mut Description) {
        let mut bytes = Vec::new();
        let written = self.write(&mut Encoder::new(&mut bytes));
        written.expect("memory takes every byte");
        description.unknown.insert(SECURITY, bytes);
    }

    /// Removes the entry, whoever issued it, from a description.
    pub fn remove_from(description: &mut Description) {
        description.unknown.remove(&SECURITY);
    }

    /// Reads the entry of a description.
    #[must_use]
    pub fn of(description: &Description) -> Option<Self> {
        let bytes = description.unknown.get(&SECURITY)?;
        let mut decoder = Decoder::new(bytes);
        let security = Self::read(&mut decoder).ok().flatten()?;
        (decoder.position() == bytes.len()).then_some(security)
    }

    /// Checks that a station of the laboratory issued this description for this epoch, and about now.
    ///
    /// # Errors
    /// `Certificate`, `Signature` and `Clock` of [`Distrust`].
    pub fn check(
        &self,
        description: &Description,
        (epoch, salt): (Epoch, Salt),
        authority: &PublicKey,
        wall: WallTime,
    ) -> Result<(), Distrust> {
        let station = || self.certificate.name.clone();
        let apart = self.issued.nanos_since(wall);
        let difference = Duration::from_nanos(apart.unsigned_abs());
        if difference > CLOCK_BOUND {
            return Err(Distrust::Clock { station: station(), difference, is_ahead: apart > 0 });
        }
        self.certificate.check(authority, wall)?;
        let signed = self.signed_bytes(description, (epoch, salt));
        if !self.certificate.signing.has_signed(SUBJECT, &signed, &self.signature) {
            return Err(Distrust::Signature(station()));
        }
        Ok(())
    }

    /// Returns the signed bytes: identity of stream and epoch, salt, level, time of issue, and the description without
    /// this entry. Without the salt, any member could show the description under keys that nobody else sends with.
    fn signed_bytes(&self, description: &Description, (epoch, salt): (Epoch, Salt)) -> Vec<u8> {
        let mut plain = description.clone();
        plain.unknown.remove(&SECURITY);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&stream_id(&plain.name, &plain.schema).0.to_le_bytes());
        bytes.extend_from_slice(&epoch.start_ns.to_le_bytes());
        bytes.extend_from_slice(&epoch.incarnation.to_le_bytes());
        bytes.extend_from_slice(&salt.0);
        bytes.push(self.level as u8);
        bytes.extend_from_slice(&self.issued.as_nanos().to_le_bytes());
        bytes.extend_from_slice(&crate::cbor::encode_description(&plain));
        bytes
    }

    fn write(
        &self,
        encoder: &mut Encoder<&mut Vec<u8>>,
    ) -> Result<(), minicbor::encode::Error<core::convert::Infallible>> {
        encoder.array(4)?.u8(self.level as u8)?.i64(self.issued.as_nanos())?;
        encoder.bytes(&self.certificate.to_bytes())?.bytes(&self.signature.0)?;
        Ok(())
    }

    fn read(decoder: &mut Decoder<'_>) -> Result<Option<Self>, Error> {
        if decoder.array()? != Some(4) || decoder.u8()? != Level::Group as u8 {
            return Ok(None);
        }
        let issued = WallTime::from_nanos(decoder.i64()?);
        let certificate = Certificate::from_bytes(decoder.bytes()?).ok();
        let signature = decoder.bytes()?.try_into().ok().map(Signature);
        Ok(certificate.zip(signature).map(|(certificate, signature)| Self {
            level: Level::Group,
            issued,
            certificate,
            signature,
        }))
    }
}

#[cfg(test)]
mod tests {
    use keys::{Authority, SigningKey};
    use sample::{Channel, Dtype, Schema};
    use units::SampleRate;

    use super::*;

    const EPOCH: Epoch = Epoch { start_ns: 5, incarnation: 6 };
    const SALT: Salt = Salt([7; 16]);
    const HOUR: i64 = 3_600_000_000_000;

    fn signing(first: u8) -> SigningKey {
        SigningKey::from_seed(&[first; 32].into())
    }

    fn station(authority: u8) -> Station {
        let certificate = Certificate {
            name: "daq-1".to_owned(),
            signing: signing(2).public(),
            exchange: PublicKey([3; 32]),
            not_before: WallTime::from_nanos(0),
            not_after: WallTime::from_nanos(10 * HOUR),
            signature: Signature([0; SIGNATURE_BYTES]),
        };
        Station::new(Authority::new(signing(authority)).certify(certificate), signing(2)).unwrap()
    }

    fn description(name: &str) -> Description {
        let schema =
            Schema::new(Dtype::F4, SampleRate::new(1_000, 1).unwrap(), vec![Channel::new("a", "V")]).unwrap();
        Description {
            name: name.parse().unwrap(),
            schema,
            report_port: 7_401,
            station: String::new(),
            unknown: [(9, vec![0xf6])].into(),
        }
    }

    fn check(description: &Description, epoch: Epoch, wall: i64) -> Result<(), Distrust> {
        let security = Security::of(description).ok_or(Distrust::Unsigned)?;
        security.check(description, (epoch, SALT), &signing(1).public(), WallTime::from_nanos(wall))
    }

    fn signed(authority: u8) -> Description {
        let mut description = description("lab/probe");
        let issued = WallTime::from_nanos(HOUR);
        Security::sign(&description, (EPOCH, SALT), issued, &station(authority)).put(&mut description);
        // As on the wire.
        Description::decode(&description.encode().unwrap()).unwrap()
    }

    #[test]
    fn a_signed_description_is_believed_for_its_epoch_and_about_its_time() {
        let signed = signed(1);
        let bound = i64::try_from(CLOCK_BOUND.as_nanos()).unwrap();
        assert_eq!(check(&signed, EPOCH, HOUR - bound), Ok(()));
        assert_eq!(check(&signed, EPOCH, HOUR + bound), Ok(()));
        let clock = |wall| match check(&signed, EPOCH, wall) {
            Err(Distrust::Clock { is_ahead, .. }) => Some(is_ahead),
            _ => None,
        };
        assert_eq!((clock(HOUR - bound - 1), clock(HOUR + bound + 1)), (Some(true), Some(false)));
        let security = Security::of(&signed).unwrap();
        let (salt, authority) = (Salt([8; 16]), signing(1).public());
        let moved = security.check(&signed, (EPOCH, salt), &authority, WallTime::from_nanos(HOUR));
        assert_eq!(moved, Err(Distrust::Signature("daq-1".to_owned())));
        let other = Epoch { incarnation: 7, ..EPOCH };
        assert_eq!(check(&signed, other, HOUR), Err(Distrust::Signature("daq-1".to_owned())));
    }

    #[test]
    fn no_other_description_and_no_other_laboratory_is_believed() {
        assert_eq!(check(&description("lab/probe"), EPOCH, HOUR), Err(Distrust::Unsigned));
        let mut moved = description("lab/other");
        Security::of(&signed(1)).unwrap().put(&mut moved);
        assert_eq!(check(&moved, EPOCH, HOUR), Err(Distrust::Signature("daq-1".to_owned())));
        let mut extended = signed(1);
        extended.unknown.insert(10, vec![0xf6]);
        assert_eq!(check(&extended, EPOCH, HOUR), Err(Distrust::Signature("daq-1".to_owned())));
        let foreign = check(&signed(9), EPOCH, HOUR);
        assert!(matches!(foreign, Err(Distrust::Certificate(CertificateError::Authority(_)))), "{foreign:?}");
    }

    #[test]
    fn a_changed_entry_is_not_believed() {
        let signed = signed(1);
        let entry = signed.unknown[&SECURITY].clone();
        for at in 0..entry.len() {
            let mut changed = signed.clone();
            changed.unknown.get_mut(&SECURITY).unwrap()[at] ^= 1;
            assert!(check(&changed, EPOCH, HOUR).is_err(), "byte {at}");
            changed.unknown.insert(SECURITY, entry[..at].to_vec());
            assert_eq!(check(&changed, EPOCH, HOUR), Err(Distrust::Unsigned), "cut at {at}");
        }
    }
}
