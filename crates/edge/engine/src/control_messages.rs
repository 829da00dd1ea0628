//! Reports, requests and announcements as they arrive: on a secured bus they are opened, and those that are not taken are
//! counted by reason and told once for each.

use std::fmt;
use std::net::SocketAddr;

use cast::secure::{ControlOpener, Unauthentic, UnauthenticCounts};
use keys::{KeySet, Membership};
use sys::clock;

/// The messages of one kind that an agent receives.
#[derive(Debug)]
pub(crate) struct ControlMessages {
    kind: &'static str,
    opener: ControlOpener,
    /// Messages that were not taken.
    counts: UnauthenticCounts,
}

/// A refusal in words, and on a second line what to do about it.
struct Told(&'static str, Unauthentic, SocketAddr);

impl ControlMessages {
    /// `kind` names the messages in the plural.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, opener: ControlOpener::default(), counts: UnauthenticCounts::default() }
    }

    pub(crate) const fn counts(&self) -> UnauthenticCounts {
        self.counts
    }

    /// Returns the plain message in `bytes`, `None` if it is not taken; the first of each reason is logged. Without a
    /// membership messages are clear.
    pub(crate) fn open<'a>(
        &mut self,
        membership: Option<&Membership>,
        from: SocketAddr,
        bytes: &'a mut [u8],
    ) -> Option<&'a [u8]> {
        let Some(membership) = membership else { return Some(bytes) };
        match self.opener.open(&membership.keys, clock::wall(), bytes) {
            Ok(plain_bytes) => Some(&bytes[..plain_bytes]),
            Err(reason) => {
                if let Some(told) = self.count(reason, from) {
                    tracing::warn!("{told}");
                }
                None
            }
        }
    }

    /// Forgets senders whose secrets the member no longer has.
    pub(crate) fn keep_only(&mut self, keys: &KeySet) {
        self.opener.keep_only(keys);
    }

    fn count(&mut self, reason: Unauthentic, from: SocketAddr) -> Option<Told> {
        let is_first = self.counts.of(reason) == 0;
        self.counts.count(reason, 1);
        is_first.then_some(Told(self.kind, reason, from))
    }
}

impl fmt::Display for Told {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind, reason, from) = self;
        let remedy = match reason {
            Unauthentic::Clear => "give the process that sends them the keys too (bus option keys=FILE)",
            Unauthentic::NoKey => {
                "one of the two key files lacks a secret: compare them with tallycast keys show"
            }
            Unauthentic::Replayed => {
                "they were recorded earlier, or one of the two clocks is wrong by more than 15 min: \
                 synchronise both with NTP or PTP"
            }
            Unauthentic::BadTag | Unauthentic::WrongSender => "they are forged, or damaged on the way",
        };
        write!(
            formatter,
            "{kind} from {} are refused ({reason}): this bus is secured; further ones are counted\n{remedy}",
            from.ip()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_reason_is_told_with_a_remedy_and_all_are_counted() {
        let mut refused = ControlMessages::new("announcements");
        let from = SocketAddr::from(([192, 0, 2, 7], 7_400));
        let mut told = |reason| refused.count(reason, from).map(|told| told.to_string());
        let clear = told(Unauthentic::Clear).unwrap();
        assert!(clear.starts_with("announcements from 192.0.2.7 are refused (clear)"), "{clear}");
        assert!(clear.ends_with("(bus option keys=FILE)"), "{clear}");
        assert_eq!(told(Unauthentic::Clear), None);
        let replayed = told(Unauthentic::Replayed).unwrap();
        assert!(replayed.contains("clocks is wrong") && replayed.ends_with("NTP or PTP"), "{replayed}");
        assert!(told(Unauthentic::NoKey).unwrap().contains("tallycast keys show"));
        let UnauthenticCounts { clear, replayed, no_key, .. } = refused.counts();
        assert_eq!((clear, replayed, no_key), (2, 1, 1));
    }
}
