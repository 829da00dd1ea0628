//! Statement: a publisher's signed list of digests, and its bytes.
//!
//! Layout (`docs/protocol/proof.md`): a fixed part, the entries, the station's certificate, the signature over all
//! before it. Start with [`Statement::decode`].

use keys::{Certificate, CertificateError, PublicKey, SIGNATURE_BYTES, Signature, Station};
use units::{Epoch, WallTime};

use crate::{Digest, Grid, MAX_LEAVES, Subject};

/// Maximum number of entries of a statement.
pub const MAX_ENTRIES: usize = 64;
/// Maximum size of a statement. Units: bytes.
pub const MAX_STATEMENT_BYTES: usize =
    FIXED_BYTES + MAX_ENTRIES * (8 + MAX_LEAVES * 32) + keys::CERTIFICATE_BYTES + SIGNATURE_BYTES;

/// Size of the part before the entries. Units: bytes.
pub const FIXED_BYTES: usize = 116;
const VERSION: u8 = 1;
/// The only flag: the epoch ends at `until`.
const FINAL: u8 = 1;
/// Subject of the signature.
const SIGNED: &[u8] = b"tallycast 1 statement";

/// Digests of one interval in a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number of the interval.
    pub interval: u64,
    /// Digests of its leaves; one at least is not [`Digest::NOTHING`].
    pub leaves: Vec<Digest>,
}

/// A publisher's statement: what it numbered from interval `first` to position `until`. Intervals in between that
/// have no entry had nothing numbered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// What is digested; it covers stream, schema, epoch and grid.
    pub subject: Subject,
    /// The epoch.
    pub epoch: Epoch,
    /// Division into intervals.
    pub grid: Grid,
    /// When it was signed, by the station's clock.
    pub issued: WallTime,
    /// First interval of which it speaks.
    pub first: u64,
    /// Position up to which it speaks: the end of an interval, or of the epoch.
    pub until: u64,
    /// True if the epoch ended at `until`.
    pub is_final: bool,
    /// Head of the chain before `first`.
    pub before: Digest,
    /// Intervals in their order.
    pub entries: Vec<Entry>,
    /// Certificate of the station that signed.
    pub certificate: Certificate,
    /// Signature over everything before it.
    pub signature: Signature,
}

/// Reason to refuse a statement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatementError {
    /// Not the encoding of a statement.
    #[error("the bytes are not a signed statement of digests")]
    Malformed,
    /// A later version.
    #[error("the statement has version {0}, this program reads up to {VERSION}\nuse a newer tallycast")]
    Version(u8),
    /// Another stream, schema or epoch.
    #[error("the statement is about another stream, schema or epoch")]
    Subject,
    /// Its certificate is refused.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Its signature is not that of its certificate's key.
    #[error("the signature in the name of station `{0}` is forged, or the statement was changed")]
    Signature(String),
    /// Another station than the stream's.
    #[error(
        "the statement is by station `{found}`, not by `{expected}`\nname the right one with --signed-by STATION"
    )]
    Station {
        /// Station that signed.
        found: String,
        /// Station whose statements count.
        expected: String,
    },
    /// Two valid statements that cannot both be true.
    #[error("the statement contradicts another one of the same station about interval {0}")]
    Disagrees(u64),
}

impl Statement {
    /// Signs a statement, whose certificate and signature are replaced.
    #[must_use]
    pub fn signed_by(mut self, station: &Station) -> Self {
        self.certificate = station.certificate().clone();
        self.signature = station.sign(SIGNED, &self.signed_bytes());
        self
    }

    /// Checks certificate and signature; the certificate must be valid when the statement was issued.
    ///
    /// # Errors
    /// `Certificate` and `Signature` of [`StatementError`].
    pub fn check(&self, authority: &PublicKey) -> Result<(), StatementError> {
        self.certificate.check(authority, self.issued)?;
        let is_signed = self.certificate.signing.has_signed(SIGNED, &self.signed_bytes(), &self.signature);
        if is_signed { Ok(()) } else { Err(StatementError::Signature(self.certificate.name.clone())) }
    }

    /// Returns the heads of the chain: before `first`, then behind each entry.
    pub fn heads(&self) -> impl Iterator<Item = Digest> + '_ {
        let behind = self.entries.iter().scan(self.before, |head, entry| {
            *head = self.subject.head(*head, entry.interval, &entry.leaves);
            Some(*head)
        });
        core::iter::once(self.before).chain(behind)
    }

    /// Returns the interval behind the last one of which it speaks.
    #[must_use]
    pub const fn next_interval(&self) -> u64 {
        self.until.div_ceil(self.grid.interval_elements())
    }

    /// Encodes the statement.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.signed_bytes();
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }

    /// Decodes a statement; nothing of it is checked against an authority.
    ///
    /// # Errors
    /// `Malformed` and `Version` of [`StatementError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, StatementError> {
        match bytes.first() {
            Some(&VERSION) => Self::read(bytes).ok_or(StatementError::Malformed),
            Some(&later) if later > VERSION => Err(StatementError::Version(later)),
            _ => Err(StatementError::Malformed),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk::<FIXED_BYTES>()?;
        let u64_at = |at: usize| Some(u64::from_le_bytes(*fixed[at..].first_chunk()?));
        let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(*fixed[at..].first_chunk()?)));
        let digest_at = |at: usize| Some(Digest(*fixed[at..].first_chunk()?));
        let [_, flags, leaves, reserved, ..] = *fixed;
        let grid = Grid::from_sizes(u32::from_le_bytes(*fixed[4..].first_chunk()?), leaves)?;
        let (count, certificate_bytes) = (u16_at(112)?, u16_at(114)?);
        (flags & !FINAL == 0 && reserved == 0 && count <= MAX_ENTRIES).then_some(())?;
        let entry_bytes = 8 + grid.leaves() * 32;
        let (entries, rest) = rest.split_at_checked(count * entry_bytes)?;
        let (certificate, signature) = rest.split_at_checked(certificate_bytes)?;
        let entry = |entry: &[u8]| -> Option<Entry> {
            let (interval, leaves) = entry.split_first_chunk()?;
            let leaves = leaves.chunks_exact(32).map(|leaf| Digest(leaf.try_into().expect("32 bytes")));
            Some(Entry { interval: u64::from_le_bytes(*interval), leaves: leaves.collect() })
        };
        let statement = Self {
            subject: Subject(digest_at(8)?),
            epoch: Epoch { start_ns: u64_at(40)?, incarnation: u64_at(48)? },
            grid,
            issued: WallTime::from_nanos(u64_at(56)?.cast_signed()),
            first: u64_at(64)?,
            until: u64_at(72)?,
            is_final: flags & FINAL != 0,
            before: digest_at(80)?,
            entries: entries.chunks_exact(entry_bytes).map(entry).collect::<Option<_>>()?,
            certificate: Certificate::from_bytes(certificate).ok()?,
            signature: Signature(signature.try_into().ok()?),
        };
        statement.is_consistent().then_some(statement)
    }

    /// Returns whether the entries ascend within the range of the statement, and each has something.
    fn is_consistent(&self) -> bool {
        let mut from = self.first;
        let ascend = self.entries.iter().all(|entry| {
            let fits = entry.interval >= from && entry.interval < self.next_interval();
            from = entry.interval.saturating_add(1);
            fits && entry.leaves.iter().any(|leaf| *leaf != Digest::NOTHING)
        });
        let whole = self.is_final || self.until.is_multiple_of(self.grid.interval_elements());
        ascend && whole && self.first <= self.next_interval()
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let certificate = self.certificate.to_bytes();
        let mut bytes = Vec::with_capacity(MAX_STATEMENT_BYTES);
        let leaves = u8::try_from(self.grid.leaves()).expect("at most eight leaves");
        bytes.extend_from_slice(&[VERSION, if self.is_final { FINAL } else { 0 }, leaves, 0]);
        bytes.extend_from_slice(&self.grid.leaf_elements().to_le_bytes());
        bytes.extend_from_slice(&self.subject.0.0);
        for number in [
            self.epoch.start_ns,
            self.epoch.incarnation,
            self.issued.as_nanos().cast_unsigned(),
            self.first,
            self.until,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.before.0);
        let count = u16::try_from(self.entries.len()).expect("at most 64 entries");
        bytes.extend_from_slice(&count.to_le_bytes());
        let size = u16::try_from(certificate.len()).expect("a certificate has at most 210 bytes");
        bytes.extend_from_slice(&size.to_le_bytes());
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.interval.to_le_bytes());
            entry.leaves.iter().for_each(|leaf| bytes.extend_from_slice(&leaf.0));
        }
        bytes.extend_from_slice(&certificate);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{NOW, authority, statements};

    fn encoded() -> Vec<u8> {
        statements(&[0..70], 75).remove(1)
    }

    #[test]
    fn a_statement_is_encoded_byte_for_byte_as_on_the_page() {
        let bytes = encoded();
        assert_eq!(bytes[..8], [1, 1, 3, 0, 10, 0, 0, 0], "version, final, leaves, reserved, elements");
        assert_eq!(bytes[40..48], 7_u64.to_le_bytes(), "epoch");
        assert_eq!(bytes[56..64], 1_000_u64.to_le_bytes(), "issued");
        assert_eq!((bytes[64], bytes[72], bytes[112]), (0, 75, 3), "first, until, entries");
        // The digests, too, are the same for ever: BLAKE3 and Ed25519 are deterministic.
        let sum = blake3::hash(&bytes).to_hex();
        assert_eq!(&sum[..32], GOLDEN);
    }

    #[test]
    fn the_page_has_every_field_where_it_is() {
        let page = include_str!("../../../../docs/protocol/proof.md");
        let fields = [
            (0, 1, "version"),
            (1, 1, "flags"),
            (2, 1, "leaves"),
            (3, 1, "reserved"),
            (4, 4, "leaf_elements"),
            (8, 32, "subject"),
            (40, 8, "epoch_start_ns"),
            (48, 8, "epoch_life"),
            (56, 8, "issued_ns"),
            (64, 8, "first_interval"),
            (72, 8, "until"),
            (80, 32, "head_before"),
            (112, 2, "entry_count"),
            (114, 2, "certificate_bytes"),
        ];
        let mut end = 0;
        for (offset, bytes, field) in fields {
            assert_eq!(offset, end, "{field}");
            end += bytes;
            assert!(page.contains(&format!("| {offset} | {bytes} | `{field}` |")), "{field}");
        }
        assert_eq!(end, FIXED_BYTES);
        for context in crate::digest::CONTEXTS {
            assert!(page.contains(&format!("`{context}`")), "{context}");
        }
        assert!(page.contains(core::str::from_utf8(SIGNED).unwrap()));
    }

    /// BLAKE3 of the statement's bytes, first half.
    const GOLDEN: &str = "cbbcaaa085671bb0845f91b3a3c92115";

    #[test]
    fn every_changed_or_missing_byte_is_refused() {
        let bytes = encoded();
        let statement = Statement::decode(&bytes).unwrap();
        assert_eq!(statement.encode(), bytes);
        assert_eq!(statement.check(&authority(1).public()), Ok(()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let believed = Statement::decode(&changed).and_then(|it| it.check(&authority(1).public()));
            assert!(believed.is_err(), "byte {at}");
            assert_eq!(Statement::decode(&bytes[..at]), Err(StatementError::Malformed), "{at} bytes");
        }
        assert_eq!(Statement::decode(&[&bytes[..], &[0]].concat()), Err(StatementError::Malformed));
    }

    #[test]
    fn a_later_version_says_so() {
        let mut bytes = encoded();
        bytes[0] = 2;
        assert_eq!(Statement::decode(&bytes), Err(StatementError::Version(2)));
    }

    #[test]
    fn a_certificate_counts_at_the_time_of_the_statement() {
        let statement = Statement::decode(&encoded()).unwrap();
        assert_eq!(statement.issued, NOW);
        let at = |nanos| Statement { issued: WallTime::from_nanos(nanos), ..statement.clone() };
        let refused = |nanos: i64| {
            matches!(at(nanos).check(&authority(1).public()), Err(StatementError::Certificate(_)))
        };
        assert!(refused(499) && refused(2_000));
        assert!(!refused(500) && !refused(1_999), "the signature is what fails then");
        let foreign = statement.check(&authority(9).public());
        assert!(matches!(foreign, Err(StatementError::Certificate(CertificateError::Authority(_)))));
    }
}
