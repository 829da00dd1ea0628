//! Counters of a secured port.

/// Counters of a secured port. Those of refused datagrams are by reason, and none of them has any other effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionStats {
    /// Sessions established.
    pub sessions: u64,
    /// Handshakes begun at this end, each retry counted.
    pub initiations: u64,
    /// Handshakes at this end that nobody answered in time.
    pub unanswered: u64,
    /// Datagrams that are not of this protocol, such as those of a peer without a key.
    pub clear: u64,
    /// Datagrams with the mark of this protocol that it does not know, or of a wrong size.
    pub malformed: u64,
    /// Handshakes by somebody who does not know this end's public key.
    pub strangers: u64,
    /// Handshakes without a valid cookie: each is answered by one, and nothing is kept.
    pub no_cookie: u64,
    /// Handshakes beyond the number that is answered at once, or for one address in a second.
    pub busy: u64,
    /// Handshakes that were not made by the owner of the key that they name.
    pub bad_handshakes: u64,
    /// Handshakes of a key that is not listed.
    pub unknown_peers: u64,
    /// Handshakes that were received before.
    pub replayed_handshakes: u64,
    /// Answers to no handshake of this end.
    pub unexpected: u64,
    /// Handshakes and datagrams to send for which the table of peers has no room.
    pub full: u64,
    /// Datagrams of no session, such as one that has been replaced.
    pub unknown_sessions: u64,
    /// Datagrams of a session from another address than its peer's.
    pub foreign: u64,
    /// Datagrams whose counter was received before, or is behind the window.
    pub replayed: u64,
    /// Datagrams that were changed on the way, or forged.
    pub bad_tags: u64,
    /// Datagrams of a session that is too old.
    pub expired: u64,
    /// Trains that were not sent: no session, and no key to make one with.
    pub no_peer: u64,
    /// Trains that were not sent: no session in time, or too many that waited for it.
    pub not_sent: u64,
}

impl SessionStats {
    /// Returns the number of received datagrams that were refused, for whatever reason.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.clear
            + self.malformed
            + self.strangers
            + self.busy
            + self.bad_handshakes
            + self.unknown_peers
            + self.replayed_handshakes
            + self.unexpected
            + self.unknown_sessions
            + self.foreign
            + self.replayed
            + self.bad_tags
            + self.expired
    }
}
