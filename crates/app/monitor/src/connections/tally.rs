//! Counts of refused and dropped connections, with one log line per kind.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reason why a connection was closed by this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// It sent no request.
    Idle,
    /// It began a request and did not end it.
    Slow,
    /// It took nothing, or too little, of what it was sent.
    Stalled,
    /// A page that answered no ping.
    Silent,
    /// It waited, and a newcomer got its slot.
    Displaced,
    /// Its TLS handshake failed, or was not completed.
    Handshake,
    /// A page whose visitor's session, token or rules ended.
    Revoked,
    /// It asked in clear where TLS is spoken.
    Unencrypted,
}

/// Reason why a connection, or a page, was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TurnedAway {
    /// Its source has its share of connections.
    SourceConnections,
    /// All slots for connections are taken.
    Connections,
    /// Its source has its share of pages.
    SourcePages,
    /// All slots for pages are taken.
    Pages,
    /// The process, or the system, has no descriptor for it.
    Descriptors,
}

/// Counts by reason. Nothing is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    closed: [Count; Closed::ALL.len()],
    turned_away: [Count; TurnedAway::ALL.len()],
}

#[derive(Debug, Default)]
struct Count {
    count: AtomicU64,
    said: AtomicBool,
}

impl Closed {
    pub(crate) const ALL: [Self; 8] = [
        Self::Idle,
        Self::Slow,
        Self::Stalled,
        Self::Silent,
        Self::Displaced,
        Self::Handshake,
        Self::Revoked,
        Self::Unencrypted,
    ];

    /// Returns its name in the metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Stalled => "stalled",
            Self::Silent => "silent",
            Self::Displaced => "displaced",
            Self::Handshake => "handshake",
            Self::Revoked => "revoked",
            Self::Unencrypted => "unencrypted",
        }
    }

    const fn what_happened(self) -> &'static str {
        match self {
            Self::Idle => "it asked for nothing",
            Self::Slow => "it did not complete its request",
            Self::Stalled => "it did not read what was sent",
            Self::Silent => "its page answered no ping",
            Self::Displaced => "it was idle, and a new connection took its place",
            Self::Handshake => "its TLS handshake failed or was not completed",
            Self::Revoked => "the rights of its page ended",
            Self::Unencrypted => "it asked in clear at an encrypted port",
        }
    }
}

impl TurnedAway {
    pub(crate) const ALL: [Self; 5] =
        [Self::SourceConnections, Self::Connections, Self::SourcePages, Self::Pages, Self::Descriptors];

    /// Returns its name in the metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SourceConnections => "source_connections",
            Self::Connections => "connections",
            Self::SourcePages => "source_pages",
            Self::Pages => "pages",
            Self::Descriptors => "descriptors",
        }
    }

    const fn what_happened(self) -> &'static str {
        match self {
            Self::SourceConnections => {
                "a connection was turned away: its address has its share\n\
                 where many people share one address, raise it with --pages-per-address"
            }
            Self::Connections => {
                "a connection was turned away: all slots are taken\n\
                 more are allowed where the process may open more files: ulimit -n"
            }
            Self::SourcePages => {
                "a page was turned away: its address has its share\n\
                 where many people share one address, raise it with --pages-per-address"
            }
            Self::Pages => {
                "a page was turned away: too many pages are open\nclose some, or start another monitor"
            }
            Self::Descriptors => {
                "a connection could not be taken: the process or the system has no descriptor left\n\
                 raise the limit on open files: ulimit -n"
            }
        }
    }
}

impl Tally {
    /// Counts a closed connection, and logs the first of its kind.
    pub(crate) fn closed(&self, why: Closed, source: &dyn std::fmt::Display) {
        if self.closed[why as usize].add() {
            tracing::warn!(
                "a connection from {source} was closed: {}\nfurther ones are counted in /metrics: \
                 tallycast_monitor_connections_closed_total{{reason=\"{}\"}}",
                why.what_happened(),
                why.name()
            );
        }
    }

    /// Counts a refused connection or page, and logs the first of its kind.
    pub(crate) fn turned_away(&self, why: TurnedAway, source: &dyn std::fmt::Display) {
        if self.turned_away[why as usize].add() {
            tracing::warn!(
                "{source}: {}\nfurther ones are counted in /metrics: \
                 tallycast_monitor_turned_away_total{{reason=\"{}\"}}",
                why.what_happened(),
                why.name()
            );
        }
    }

    /// Returns how many connections were closed, by reason.
    pub(crate) fn closed_counts(&self) -> [(Closed, u64); Closed::ALL.len()] {
        Closed::ALL.map(|why| (why, self.closed[why as usize].get()))
    }

    /// Returns how many connections and pages were turned away, by reason.
    pub(crate) fn turned_away_counts(&self) -> [(TurnedAway, u64); TurnedAway::ALL.len()] {
        TurnedAway::ALL.map(|why| (why, self.turned_away[why as usize].get()))
    }
}

impl Count {
    /// Adds one; returns whether it is the first.
    fn add(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        !self.said.swap(true, Ordering::Relaxed)
    }

    fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
