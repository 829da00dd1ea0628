//! How the datagrams of streams are protected.

use std::fmt;

/// Protection of the datagrams of streams. All streams of a bus have the same: it is never lowered.
///
/// Source: `docs/protocol/security.md`, "Levels".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// None: everybody on the network can read and forge them.
    Clear,
    /// Members of the laboratory read and write; outsiders can do neither.
    Group,
}

impl Level {
    /// Returns its name, as in JSON: `clear` or `group`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Group => "group",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
