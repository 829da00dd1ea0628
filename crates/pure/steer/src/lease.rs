//! Leases: one holder for a group of parameters, for a short time that the holder renews.

use core::time::Duration;
use std::collections::BTreeMap;

use units::Instant;

use crate::SessionId;
use crate::command::MAX_REASON_BYTES;

/// Validity of a lease from its grant or renewal: a holder that is gone keeps others out no longer than this.
pub const LEASE_DURATION: Duration = Duration::from_secs(10);

/// A lease that was granted or renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Last moment of the lease, on the app's clock.
    pub until: Instant,
    /// The app's clock at the grant: the holder derives the deadlines of its commands from it.
    pub clock: Instant,
}

/// Reason to refuse a request for a lease.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// No parameter needs this lease.
    #[error("no parameter of the app needs a lease of `{0}`: list its parameters")]
    Group(String),
    /// The session is not open.
    #[error("session {0} is not open at this app: open a new one")]
    Session(SessionId),
    /// No rule of access allows the session to steer the group.
    #[error("no rule of access allows this session to steer `{0}`: ask an administrator for one")]
    ReadOnly(String),
    /// Another session holds it.
    #[error(
        "{by} holds the lease of `{group}`\nwait until it is released, or let an administrator take it over"
    )]
    Held {
        /// Name of the group.
        group: String,
        /// Holder, as the access file names it.
        by: String,
    },
    /// The session does not hold it.
    #[error("this session does not hold the lease of `{0}`")]
    NotHolder(String),
    /// Only administrators take leases over.
    #[error("no rule of access allows this session to administer the app, so it cannot take over a lease")]
    Administrator,
    /// There is no reason, or it is too long.
    #[error("a take-over needs a reason of 1 to {MAX_REASON_BYTES} bytes")]
    Reason,
    /// Too many records wait for the disk.
    #[error("too many records of the log wait for the disk: try again later")]
    Busy,
}

/// Holders of all groups.
#[derive(Debug, Default)]
pub(crate) struct Leases(BTreeMap<String, Lease>);

/// Holder of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lease {
    holder: SessionId,
    until: Instant,
}

impl Leases {
    /// Returns the holder of a group at `now`.
    pub(crate) fn holder(&self, now: Instant, group: &str) -> Option<SessionId> {
        self.0.get(group).filter(|lease| lease.until >= now).map(|lease| lease.holder)
    }

    /// Grants or renews a lease; a former holder loses it.
    pub(crate) fn grant(&mut self, now: Instant, group: &str, holder: SessionId) -> Granted {
        let until = now + LEASE_DURATION;
        self.0.insert(group.to_owned(), Lease { holder, until });
        Granted { until, clock: now }
    }

    /// Releases a lease.
    pub(crate) fn release(&mut self, group: &str) {
        self.0.remove(group);
    }

    /// Releases all leases of a session and returns their groups.
    pub(crate) fn release_all(&mut self, session: SessionId) -> Vec<String> {
        let own: Vec<String> = self
            .0
            .iter()
            .filter(|(_, lease)| lease.holder == session)
            .map(|(group, _)| group.clone())
            .collect();
        self.0.retain(|_, lease| lease.holder != session);
        own
    }
}
