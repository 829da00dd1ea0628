//! Kill switch: it stops all commands of one app, or of all apps, until an administrator releases it.

use crate::SessionId;
use crate::command::MAX_REASON_BYTES;

/// What a kill switch stops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// This app.
    App,
    /// All apps: the server turns it at each of them.
    All,
}

/// The party that turns a kill switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hand {
    /// A session.
    Session(SessionId),
    /// The app's own code, such as an interlock.
    Host,
}

/// The kill switches as one app knows them: either stops it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Switches {
    /// The one of this app is on.
    pub app: bool,
    /// The one of all apps is on.
    pub all: bool,
}

/// Reason to refuse to turn a kill switch.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The session is not open.
    #[error("session {0} is not open at this app: open a new one")]
    Session(SessionId),
    /// No rule of access allows the session to stop the app.
    #[error("no rule of access allows this session to steer the app, so it cannot stop it")]
    ReadOnly,
    /// Only administrators release a kill switch.
    #[error(
        "no rule of access allows this session to administer the app, so it cannot release the kill switch"
    )]
    Administrator,
    /// There is no reason, or it is too long.
    #[error("the kill switch needs a reason of 1 to {MAX_REASON_BYTES} bytes")]
    Reason,
}

impl Switches {
    /// Returns whether commands are stopped.
    #[must_use]
    pub const fn is_stopped(self) -> bool {
        self.app || self.all
    }

    /// Turns one switch and returns whether it was otherwise before.
    pub(crate) const fn turn(&mut self, scope: Scope, is_on: bool) -> bool {
        let switch = match scope {
            Scope::App => &mut self.app,
            Scope::All => &mut self.all,
        };
        core::mem::replace(switch, is_on) != is_on
    }
}
