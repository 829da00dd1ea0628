//! What an app keeps with the value of a parameter, over restarts: as text, beside the value in a file of the app.

use core::fmt;
use core::str::FromStr;

use units::Epoch;

use crate::CommandId;
use crate::bytes::MAX_COUNT;

/// What an app keeps with the value of a parameter, over restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// Nothing, or not in one write with the value.
    Nothing,
    /// That no command has changed it.
    Unchanged,
    /// The last command that changed it.
    Change {
        /// The command.
        id: CommandId,
        /// Revision that it made: that of the [`crate::Effect`].
        revision: u64,
        /// Epoch of the app's stream at its step boundary.
        epoch: Epoch,
        /// Index of the first sample in which the change was.
        index: u64,
    },
}

/// Error for a text that was not kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` was not kept with the value of a parameter\nkeep the text that the change has, or `unchanged`"
)]
pub struct NotKept(pub String);

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => formatter.write_str("nothing"),
            Self::Unchanged => formatter.write_str("unchanged"),
            Self::Change { id, revision, epoch, index } => {
                write!(formatter, "{id} {revision} {epoch} {index}")
            }
        }
    }
}

impl FromStr for Kept {
    type Err = NotKept;

    /// Parses it in its displayed form.
    fn from_str(text: &str) -> Result<Self, NotKept> {
        let change = |parts: &[&str]| {
            let [id, revision, epoch, index] = parts else { return None };
            Some(Self::Change {
                id: CommandId(u128::from_str_radix(id, 16).ok()?),
                revision: revision.parse().ok().filter(|revision| *revision <= MAX_COUNT)?,
                epoch: epoch.parse().ok()?,
                index: index.parse().ok()?,
            })
        };
        match text {
            "nothing" => Ok(Self::Nothing),
            "unchanged" => Ok(Self::Unchanged),
            _ => change(&text.split(' ').collect::<Vec<_>>()).ok_or_else(|| NotKept(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was_written_and_never_from_a_part() {
        let epoch = Epoch { start_ns: 5, incarnation: 6 };
        let change = Kept::Change { id: CommandId(7), revision: 3, epoch, index: 9 };
        for kept in [Kept::Nothing, Kept::Unchanged, change] {
            assert_eq!(kept.to_string().parse(), Ok(kept));
        }
        let text = change.to_string();
        for size in 0..text.len() - 1 {
            assert_eq!(text[..size].parse::<Kept>(), Err(NotKept(text[..size].to_owned())));
        }
    }
}
