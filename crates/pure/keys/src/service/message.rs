//! What a member and the key service say to each other, inside a session.
//!
//! Layout: `docs/protocol/key-service.md`. All numbers are little-endian.

use core::fmt;
use core::time::Duration;

use units::WallTime;
use zeroize::Zeroizing;

use super::schedule::nanos;
use crate::{GroupSecret, MAX_SECRETS, SECRET_BYTES, Secret, Suite, Token};

/// Size of a question. Units: bytes.
pub const QUESTION_BYTES: usize = 8;
/// Size of the longest message. Units: bytes.
pub const MAX_MESSAGE_BYTES: usize = HEAD_BYTES + 8 + MAX_SECRETS * ENTRY_BYTES;

const VERSION: u8 = 1;
const QUESTION: u8 = 1;
const SECRETS: u8 = 2;
const REFUSAL: u8 = 3;
/// Size of what all answers begin with.
const HEAD_BYTES: usize = 16;
/// Size of a secret with its token and times.
const ENTRY_BYTES: usize = 24 + SECRET_BYTES;

/// A member asks for the present secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Number of the question, counted by the member.
    pub number: u32,
}

/// The service answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Number of the question.
    pub number: u32,
    /// UTC by the clock of the service.
    pub now: WallTime,
    /// What it says.
    pub content: Content,
}

/// Content of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// The secrets to use, by the clock of the service.
    Secrets {
        /// Time for which each is accepted after its end.
        kept: Duration,
        /// The secrets, each with an end.
        secrets: Vec<GroupSecret>,
    },
    /// The member gets none.
    Refused(RefusedFor),
}

/// Reason why a member gets no secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedFor {
    /// It was removed, at this time by the clock of the service.
    Removed(WallTime),
    /// It is no member.
    Unknown,
}

impl fmt::Display for RefusedFor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed(at) => {
                let at = jiff::Timestamp::from_nanosecond(at.as_nanos().into());
                let at = at.expect("64-bit nanoseconds end centuries before this calendar");
                write!(formatter, "removed at {at:.0}")
            }
            Self::Unknown => formatter.write_str("not a member"),
        }
    }
}

/// Error for bytes that are no message of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a message of this version of the key service")]
pub struct Unreadable;

impl Question {
    /// Writes the question.
    #[must_use]
    pub fn to_bytes(self) -> [u8; QUESTION_BYTES] {
        let mut bytes = [0; QUESTION_BYTES];
        bytes[..2].copy_from_slice(&[QUESTION, VERSION]);
        bytes[4..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads a question.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader(bytes);
        let [kind, version, reserved @ ..] = reader.take::<4>()?;
        let number = u32::from_le_bytes(reader.take()?);
        reader.end()?;
        ((kind, version, reserved) == (QUESTION, VERSION, [0; 2]))
            .then_some(Self { number })
            .ok_or(Unreadable)
    }
}

impl Answer {
    /// Writes the answer.
    ///
    /// # Panics
    /// If a secret has no end, or there are more than [`MAX_SECRETS`].
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_MESSAGE_BYTES));
        let (kind, detail) = match &self.content {
            Content::Secrets { secrets, .. } => {
                assert!(secrets.len() <= MAX_SECRETS, "a schedule has no more");
                (SECRETS, u8::try_from(secrets.len()).expect("they are few"))
            }
            Content::Refused(RefusedFor::Removed(_)) => (REFUSAL, 1),
            Content::Refused(RefusedFor::Unknown) => (REFUSAL, 2),
        };
        bytes.extend([kind, VERSION, detail, 0]);
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.now.as_nanos().to_le_bytes());
        match &self.content {
            Content::Secrets { kept, secrets } => {
                bytes.extend(nanos(*kept).to_le_bytes());
                for secret in secrets {
                    let until = secret.until.expect("secrets of a service have an end");
                    bytes.extend(secret.token.0.to_le_bytes());
                    bytes.extend([secret.suite.code(), 0, 0, 0]);
                    bytes.extend(secret.from.as_nanos().to_le_bytes());
                    bytes.extend(until.as_nanos().to_le_bytes());
                    bytes.extend(secret.secret.reveal());
                }
            }
            Content::Refused(RefusedFor::Removed(at)) => bytes.extend(at.as_nanos().to_le_bytes()),
            Content::Refused(RefusedFor::Unknown) => bytes.extend([0; 8]),
        }
        bytes
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader(bytes);
        let [kind, version, detail, reserved] = reader.take::<4>()?;
        if (version, reserved) != (VERSION, 0) {
            return Err(Unreadable);
        }
        let number = u32::from_le_bytes(reader.take()?);
        let now = reader.time()?;
        let content = match (kind, detail) {
            (SECRETS, count) if usize::from(count) <= MAX_SECRETS => {
                let kept = u64::try_from(reader.time()?.as_nanos()).map_err(|_| Unreadable)?;
                let secrets = (0..count).map(|_| reader.secret()).collect::<Result<_, _>>()?;
                Content::Secrets { kept: Duration::from_nanos(kept), secrets }
            }
            (REFUSAL, 1) => Content::Refused(RefusedFor::Removed(reader.time()?)),
            (REFUSAL, 2) if reader.take()? == [0; 8] => Content::Refused(RefusedFor::Unknown),
            _ => return Err(Unreadable),
        };
        reader.end()?;
        Ok(Self { number, now, content })
    }
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn time(&mut self) -> Result<WallTime, Unreadable> {
        Ok(WallTime::from_nanos(i64::from_le_bytes(self.take()?)))
    }

    fn secret(&mut self) -> Result<GroupSecret, Unreadable> {
        let token = Token(u32::from_le_bytes(self.take()?));
        let [suite, reserved @ ..] = self.take::<4>()?;
        let (from, until) = (self.time()?, self.time()?);
        let secret = Secret::new(Zeroizing::new(self.take()?));
        let suite =
            Suite::from_code(suite).filter(|_| reserved == [0; 3] && from <= until).ok_or(Unreadable)?;
        Ok(GroupSecret::new(token, suite, secret, from).ending(until))
    }

    fn end(&self) -> Result<(), Unreadable> {
        self.0.is_empty().then_some(()).ok_or(Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(number: u8) -> GroupSecret {
        let (from, until) = (i64::from(number), i64::from(number) + 1);
        let secret = Secret::new(Zeroizing::new([number; 32]));
        GroupSecret::new(Token(number.into()), Suite::ChaCha20Poly1305, secret, WallTime::from_nanos(from))
            .ending(WallTime::from_nanos(until))
    }

    fn answers() -> Vec<Answer> {
        let now = WallTime::from_nanos(0x0102_0304_0506_0708);
        let answer = |content| Answer { number: 0x0a0b_0c0d, now, content };
        let secrets = |count: usize| (1..=u8::try_from(count).unwrap()).map(secret).collect();
        let with = |count| Content::Secrets { kept: Duration::from_secs(10), secrets: secrets(count) };
        let removed = RefusedFor::Removed(WallTime::from_nanos(7));
        let contents = [
            with(0),
            with(1),
            with(MAX_SECRETS),
            Content::Refused(removed),
            Content::Refused(RefusedFor::Unknown),
        ];
        contents.map(answer).into()
    }

    #[test]
    fn messages_keep_their_bytes() {
        assert_eq!(Question { number: 0x0a0b_0c0d }.to_bytes(), [1, 1, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a]);
        let head = [1, 0, 0x0d, 0x0c, 0x0b, 0x0a, 8, 7, 6, 5, 4, 3, 2, 1];
        let kept = 10_000_000_000_i64.to_le_bytes();
        let one = [
            &[2, 1][..],
            &head,
            &kept,
            &[1, 0, 0, 0, 2, 0, 0, 0],
            &1_i64.to_le_bytes(),
            &2_i64.to_le_bytes(),
            &[1; 32],
        ];
        assert_eq!(*answers()[1].to_bytes(), one.concat());
        assert_eq!(*answers()[3].to_bytes(), [&[3, 1][..], &head, &7_i64.to_le_bytes()].concat());
        assert_eq!(answers()[2].to_bytes().len(), MAX_MESSAGE_BYTES);
    }

    #[test]
    fn messages_read_what_they_write_and_nothing_shorter_or_longer() {
        for answer in answers() {
            let bytes = answer.to_bytes();
            assert_eq!(Answer::from_bytes(&bytes), Ok(answer));
            for end in 0..bytes.len() {
                assert_eq!(Answer::from_bytes(&bytes[..end]), Err(Unreadable), "{end}");
            }
            assert_eq!(Answer::from_bytes(&[&bytes[..], &[0]].concat()), Err(Unreadable));
        }
        let question = Question { number: 7 };
        assert_eq!(Question::from_bytes(&question.to_bytes()), Ok(question));
        for end in 0..QUESTION_BYTES {
            assert_eq!(Question::from_bytes(&question.to_bytes()[..end]), Err(Unreadable));
        }
    }

    #[test]
    fn another_version_kind_or_suite_is_refused() {
        let mut bytes = answers()[1].to_bytes().to_vec();
        for (at, value) in [(0, 1), (0, 4), (1, 2), (2, 2), (3, 1), (28, 3), (29, 1)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert_eq!(Answer::from_bytes(&bytes), Err(Unreadable), "{at}");
            bytes[at] = before;
        }
        assert!(Answer::from_bytes(&bytes).is_ok());
        assert_eq!(Question::from_bytes(&[2, 1, 0, 0, 0, 0, 0, 0]), Err(Unreadable));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let shown = format!("{:?}", answers()[1]);
        assert!(shown.contains("Secret(…)") && !shown.contains("1, 1, 1"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = Question::from_bytes(&bytes);
            if let Ok(answer) = Answer::from_bytes(&bytes) {
                prop_assert_eq!(&*answer.to_bytes(), &bytes);
            }
        }
    }
}
