//! Command: a request to change one parameter, and the identities in it.

use core::fmt;
use core::time::Duration;

use units::Instant;

use crate::Value;

/// The longest time between now and a command's deadline.
///
/// A command that waited longer in a queue is one that its sender no longer has in mind.
pub const MAX_VALIDITY: Duration = Duration::from_secs(2);
/// The longest reason of a command. Units: bytes.
pub const MAX_REASON_BYTES: usize = 256;
/// The longest name of a parameter or group. Units: bytes.
pub const MAX_NAME_BYTES: usize = 100;

/// Identity of a command: 128 bits that its sender draws at random, never twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u128);

/// Identity of a session: drawn at random for each authenticated connection, never twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A request to change one parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Its identity.
    pub id: CommandId,
    /// Session of its sender.
    pub session: SessionId,
    /// Name of the parameter.
    pub parameter: String,
    /// Revision that the parameter must have when the command takes effect; none if any will do.
    pub if_revision: Option<u64>,
    /// The new value.
    pub value: Value,
    /// Last moment at which the command may take effect, on the app's own clock, at most [`MAX_VALIDITY`] ahead.
    pub valid_until: Instant,
    /// Reason in the sender's words, for the log.
    pub reason: String,
}

/// Digest of a whole command, by which a repeated command is told from another one with the same id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Returns it as a number, for the log.
    pub(crate) const fn number(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    pub(crate) const fn from_number(number: u128) -> Self {
        Self(number.to_le_bytes())
    }
}

impl Command {
    /// Returns the digest of everything in the command: BLAKE3, first half.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hasher = blake3::Hasher::new_derive_key("tallycast 1 steer command");
        let mut text = |bytes: &[u8]| {
            hasher.update(&u64::try_from(bytes.len()).expect("a length fits").to_le_bytes());
            hasher.update(bytes);
        };
        text(&self.id.0.to_le_bytes());
        text(&self.session.0.to_le_bytes());
        text(self.parameter.as_bytes());
        text(
            &self.if_revision.map(u64::to_le_bytes).unwrap_or_default()[..self.if_revision.map_or(0, |_| 8)],
        );
        text(&[self.value.dtype().code()]);
        text(&self.value.shape().iter().flat_map(|extent| extent.to_le_bytes()).collect::<Vec<u8>>());
        text(self.value.bytes());
        text(&self.valid_until.as_nanos().to_le_bytes());
        text(self.reason.as_bytes());
        let whole = hasher.finalize();
        Fingerprint(*whole.as_bytes().first_chunk().expect("a digest has 32 bytes"))
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

macro_rules! debug_as_display {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}

debug_as_display!(CommandId, SessionId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_gives_another_fingerprint() {
        let command = Command {
            id: CommandId(7),
            session: SessionId(1),
            parameter: "gain".to_owned(),
            if_revision: None,
            value: Value::scalar(2.0),
            valid_until: Instant::from_nanos(9),
            reason: "test".to_owned(),
        };
        let changes: [fn(&mut Command); 9] = [
            |it| it.id = CommandId(8),
            |it| it.session = SessionId(2),
            |it| it.parameter = "gai".to_owned(),
            |it| it.if_revision = Some(0),
            |it| it.value = Value::scalar(3.0),
            |it| it.value = Value::scalar(0x4000_0000_0000_0000_u64),
            |it| it.value = Value::from_bytes(sample::Dtype::F8, &[1], &2.0_f64.to_le_bytes()).unwrap(),
            |it| it.valid_until = Instant::from_nanos(8),
            |it| it.reason = "tes".to_owned(),
        ];
        assert_eq!(command.fingerprint(), command.clone().fingerprint());
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = command.clone();
            change(&mut changed);
            assert_ne!(changed.fingerprint(), command.fingerprint(), "change {number}");
        }
    }
}
