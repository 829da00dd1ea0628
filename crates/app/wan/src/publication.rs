//! The bus of a far end, as an interface.

use std::time::Duration;

use relay::{Publish, WantedBy};
use units::Instant;

use crate::notice::Notice;

/// A stream of a far end: the number of its near relay, and the relay's number of the stream.
pub type PublicationKey = (u64, u16);

/// The readers of a stream and their deadlines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The relay's number of the stream.
    pub slot: u16,
    /// Readers that state a deadline.
    pub stated: Vec<WantedBy>,
    /// True if others read it, too.
    pub has_unstated: bool,
}

/// Target of a far end's publications: a bus, or the log of a test.
pub trait Publication {
    /// Takes an item of a stream; returns the reason if the stream cannot be published, once.
    fn publish(&mut self, key: PublicationKey, publish: Publish) -> Option<String>;

    /// Returns the readers' deadlines for those streams of a near relay where they have changed.
    fn wanted(&mut self, number: u64) -> Vec<Wanted>;

    /// Learns whether a near relay answers: streams of one that does not may go on by another link.
    fn link(&mut self, _number: u64, _is_up: bool) {}

    /// Looks at the other publications on the bus, and stands by or takes over; returns the events. To be called a few
    /// times a second.
    fn look(&mut self, _: Instant) -> Vec<Notice> {
        Vec::new()
    }

    /// Waits until readers know the end of all streams, at most this long.
    fn close(&mut self, at_most: Duration);
}
