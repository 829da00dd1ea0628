//! The log of an app: a chain of records, in which a changed, missing or reordered record shows.
//!
//! Each frame ends with a digest of the frame and the digest before it. The head, which is the last digest and the
//! number of records, is signed by the caller's key: so a cut-off end shows, too. Layout:
//! `docs/protocol/steering.md`. Records and their order are made by [`crate::App`]; disks belong to the caller.

use sample::StreamName;
use units::WallTime;

use crate::Record;

/// Size of a frame without its record: size, number, time, digest. Units: bytes.
pub const FRAME_BYTES: usize = 4 + 8 + 8 + 32;
/// Maximum size of a record. Units: bytes.
pub const MAX_RECORD_BYTES: usize = 4_096;

const BEGINNING: &str = "tallycast 1 steer beginning";
const FRAME: &str = "tallycast 1 steer frame";
/// Subject of the signature over a head.
pub const HEAD_SUBJECT: &[u8] = b"tallycast 1 steer head";

/// Head of a log: everything before it follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Number of records.
    pub count: u64,
    /// Digest of the last frame.
    pub digest: [u8; 32],
}

/// A head, and a signature over it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedHead {
    /// The head.
    pub head: Head,
    /// Signature over [`Head::signed_bytes`].
    pub signature: Vec<u8>,
}

/// What a stream of samples has of a head, and others than the app remember: a log that does not have it is another one,
/// or one of an earlier time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark {
    /// Number of records.
    pub count: u64,
    /// First 48 bits of the last digest, little-endian: a whole number that a sample of 64 bits holds exactly.
    pub digest: u64,
}

/// A frame that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Head of the log behind it.
    pub mark: Mark,
    /// When it was appended, by the writer's clock.
    pub time: WallTime,
    /// The record.
    pub record: Record,
}

/// A log that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// The records in their order.
    pub entries: Vec<Entry>,
    /// Head behind the last one.
    pub head: Head,
    /// Size of the whole frames of the last segment: a writer goes on behind them.
    pub whole_bytes: usize,
}

/// What is wrong with a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A frame does not match its digest, or the digests before it.
    #[error("record {0} of the log was changed, or the log is of another app")]
    Changed(u64),
    /// Records are missing.
    #[error("records {expected} to {} of the log are missing", found - 1)]
    Missing {
        /// Number of the first missing record.
        expected: u64,
        /// Number of the record in its place.
        found: u64,
    },
    /// A record stands where a later one should.
    #[error(
        "record {found} of the log stands in the place of record {expected}: records were reordered or repeated"
    )]
    Order {
        /// Number of the place.
        expected: u64,
        /// Number of the record in it.
        found: u64,
    },
    /// The log ends inside a frame: a write was interrupted, or the end is cut off.
    #[error("the log ends inside record {0}: a write was interrupted, or the end is cut off")]
    Torn(u64),
    /// The log ends before its signed head.
    #[error("the log has {found} records and its signed head {signed}: the end is cut off")]
    CutOff {
        /// Records of the log.
        found: u64,
        /// Records of the signed head.
        signed: u64,
    },
    /// Somebody has seen a later head.
    #[error(
        "the log has {found} records, and its stream had {seen} before: an earlier log was put in its place, or the end is cut off"
    )]
    Earlier {
        /// Records of the log.
        found: u64,
        /// Records of the newest head that was seen.
        seen: u64,
    },
    /// Somebody has seen another record.
    #[error(
        "record {0} of the log is not the one that its stream had: an earlier log was put in its place and continued, or the log was written anew"
    )]
    Replaced(u64),
    /// The signed head is not one of this log.
    #[error("the signed head is not that of record {0} of this log: the log was written anew")]
    Head(u64),
    /// The signature is not valid.
    #[error("the signature of the log's head is forged, or the head was changed")]
    Signature,
}

impl Head {
    /// Returns the head of a log without records.
    #[must_use]
    pub fn beginning(app: &StreamName) -> Self {
        Self { count: 0, digest: blake3::derive_key(BEGINNING, app.as_str().as_bytes()) }
    }

    /// Appends a record: returns its frame, which is written as a whole, and moves the head behind it.
    pub fn append(&mut self, time: WallTime, record: &Record) -> Vec<u8> {
        let record = record.encode();
        assert!(record.len() <= MAX_RECORD_BYTES, "all parts of a record are bounded");
        let mut frame = Vec::with_capacity(FRAME_BYTES + record.len());
        frame.extend_from_slice(&u32::try_from(record.len()).expect("at most 4 KiB").to_le_bytes());
        frame.extend_from_slice(&self.count.to_le_bytes());
        frame.extend_from_slice(&time.as_nanos().to_le_bytes());
        frame.extend_from_slice(&record);
        self.count += 1;
        self.digest = self.behind(&frame);
        frame.extend_from_slice(&self.digest);
        frame
    }

    /// Returns what a stream tells of it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.digest[..6]);
        Mark { count: self.count, digest: u64::from_le_bytes(bytes) }
    }

    /// Signs the head with a function from bytes to a signature, such as a station's key.
    #[must_use]
    pub fn signed(self, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> SignedHead {
        SignedHead { head: self, signature: sign(&self.signed_bytes()) }
    }

    /// Returns the message of a signature, on [`HEAD_SUBJECT`]: number of records, digest.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        [&self.count.to_le_bytes()[..], &self.digest].concat()
    }

    fn behind(&self, frame: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(FRAME);
        hasher.update(&self.digest).update(frame);
        *hasher.finalize().as_bytes()
    }
}

impl Log {
    /// Reads the last segments of a log after a crash: a torn frame at its end was never acted upon and is left out.
    /// The first of them may begin with a checkpoint, which is believed.
    ///
    /// # Errors
    /// `Changed`, `Missing`, `Order` and `Torn` of [`LogError`].
    pub fn recover<S: AsRef<[u8]>>(app: &StreamName, segments: &[S]) -> Result<Self, LogError> {
        let first = segments.first().map_or(&[][..], AsRef::as_ref);
        let before = checkpoint(app, first).unwrap_or_else(|| Head::beginning(app));
        read(before, segments, |_| {}).map(|(log, _)| log)
    }

    /// Verifies a whole log, all segments from the first on, and its newest signed head with a function that checks a
    /// signature over bytes.
    ///
    /// # Errors
    /// [`LogError`] with the first thing that is wrong.
    pub fn verify<S: AsRef<[u8]>>(
        app: &StreamName,
        segments: &[S],
        signed: Option<&SignedHead>,
        is_signature: impl FnOnce(&[u8], &[u8]) -> bool,
    ) -> Result<Self, LogError> {
        let mut met = None;
        let wanted = signed.map(|it| it.head.count);
        let note = |head: &Head| {
            if Some(head.count) == wanted {
                met = Some(*head);
            }
        };
        let (log, is_torn) = read(Head::beginning(app), segments, note)?;
        if let Some(SignedHead { head, signature }) = signed {
            if !is_signature(&head.signed_bytes(), signature) {
                return Err(LogError::Signature);
            }
            if head.count > log.head.count {
                return Err(LogError::CutOff { found: log.head.count, signed: head.count });
            }
            if met != Some(*head) {
                return Err(LogError::Head(head.count));
            }
        }
        if is_torn { Err(LogError::Torn(log.head.count)) } else { Ok(log) }
    }

    /// Compares the log with what others have seen of it, in any order; returns how much that was.
    ///
    /// # Errors
    /// `Replaced` of [`LogError`] with the first record that is another one, else `Earlier`.
    pub fn compare(&self, seen: impl IntoIterator<Item = Mark>) -> Result<u64, LogError> {
        let first = self.head.count - self.entries.len() as u64;
        let (mut compared, mut newest, mut replaced) = (0, 0, None);
        for mark in seen {
            compared += 1;
            newest = newest.max(mark.count);
            let place = mark.count.checked_sub(first + 1).and_then(|place| usize::try_from(place).ok());
            let own = place.and_then(|place| self.entries.get(place));
            if own.is_some_and(|own| own.mark != mark) {
                replaced = Some(replaced.map_or(mark.count, |count: u64| count.min(mark.count)));
            }
        }
        match replaced {
            Some(count) => Err(LogError::Replaced(count - 1)),
            None if newest > self.head.count => {
                Err(LogError::Earlier { found: self.head.count, seen: newest })
            }
            None => Ok(compared),
        }
    }
}

/// Returns the head before a segment that begins with a checkpoint of the app.
fn checkpoint(app: &StreamName, segment: &[u8]) -> Option<Head> {
    let size = usize::try_from(u32::from_le_bytes(*segment.first_chunk()?)).ok()?;
    match Record::decode(segment.get(20..)?.get(..size)?)? {
        Record::Checkpoint { app: of, before, .. } if of == *app => Some(before),
        _ => None,
    }
}

/// Reads segments, tells every head, and returns whether the last one ends inside a frame.
fn read<S: AsRef<[u8]>>(
    before: Head,
    segments: &[S],
    mut note: impl FnMut(&Head),
) -> Result<(Log, bool), LogError> {
    let mut log = Log { entries: Vec::new(), head: before, whole_bytes: 0 };
    note(&before);
    let mut is_torn = false;
    for segment in segments.iter().map(AsRef::as_ref) {
        // A writer begins the next segment behind a whole frame.
        if is_torn {
            return Err(LogError::Torn(log.head.count));
        }
        is_torn = log.read(segment, &mut note)?;
    }
    Ok((log, is_torn))
}

impl Log {
    /// Reads the frames of a segment; returns whether it ends inside one.
    fn read(&mut self, segment: &[u8], note: &mut impl FnMut(&Head)) -> Result<bool, LogError> {
        let mut rest = segment;
        while let Some((size, _)) = rest.split_first_chunk::<4>() {
            let expected = self.head.count;
            let size =
                usize::try_from(u32::from_le_bytes(*size)).ok().filter(|size| *size <= MAX_RECORD_BYTES);
            let size = size.ok_or(LogError::Changed(expected))?;
            let Some((frame, behind)) = rest.split_at_checked(FRAME_BYTES + size) else { break };
            let (covered, digest) = frame.split_at(frame.len() - 32);
            let u64_at =
                |at: usize| u64::from_le_bytes(*covered[at..].first_chunk().expect("a frame is longer"));
            let found = u64_at(4);
            if found > expected {
                return Err(LogError::Missing { expected, found });
            }
            if found < expected {
                return Err(LogError::Order { expected, found });
            }
            if self.head.behind(covered) != digest {
                return Err(LogError::Changed(expected));
            }
            let record = Record::decode(&covered[20..]).ok_or(LogError::Changed(expected))?;
            self.head = Head { count: expected + 1, digest: digest.try_into().expect("32 bytes") };
            let time = WallTime::from_nanos(u64_at(12).cast_signed());
            self.entries.push(Entry { mark: self.head.mark(), time, record });
            note(&self.head);
            rest = behind;
        }
        self.whole_bytes = segment.len() - rest.len();
        Ok(!rest.is_empty())
    }
}

#[cfg(test)]
mod tests;
