//! Reports, requests and announcements as they arrive: on a secured bus they are opened, and those that are not taken are
//! counted by reason and told once for each. Without keys, secured ones are told once.

use std::fmt;
use std::net::SocketAddr;

use cast::secure::{ControlOpener, Unauthentic, UnauthenticCounts};
use keys::{KeySet, Membership};
use sys::clock;
use wire::SecuredHead;

use crate::present_keys::SecretSource;

/// The messages of one kind that an agent receives.
#[derive(Debug)]
pub(crate) struct ControlMessages {
    kind: &'static str,
    source: SecretSource,
    opener: ControlOpener,
    /// Messages that were not taken.
    counts: UnauthenticCounts,
    /// Without keys: secured messages were told.
    is_secured_told: bool,
}

/// A refusal in words, and on a second line what to do about it.
struct Told<'a>(&'a ControlMessages, Unauthentic, SocketAddr);

impl ControlMessages {
    /// `kind` names the messages in the plural, `source` the place of this member's secrets.
    pub(crate) fn new(kind: &'static str, source: SecretSource) -> Self {
        let (opener, counts) = (ControlOpener::default(), UnauthenticCounts::default());
        Self { kind, source, opener, counts, is_secured_told: false }
    }

    pub(crate) const fn counts(&self) -> UnauthenticCounts {
        self.counts
    }

    /// Returns the plain message in `bytes`, `None` if it is not taken; the first of each reason is logged. Without a
    /// membership messages are as they are; the first secured one is logged.
    pub(crate) fn open<'a>(
        &mut self,
        membership: Option<&Membership>,
        from: SocketAddr,
        bytes: &'a mut [u8],
    ) -> Option<&'a [u8]> {
        let Some(membership) = membership else {
            if let Some(told) = self.tell_secured(from, bytes) {
                tracing::warn!("{told}");
            }
            return Some(bytes);
        };
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

    /// Returns the notice of a secured message without keys, once.
    fn tell_secured(&mut self, from: SocketAddr, bytes: &[u8]) -> Option<String> {
        if self.is_secured_told || SecuredHead::read(bytes).is_none() {
            return None;
        }
        self.is_secured_told = true;
        Some(format!(
            "{} from {} are secured, and this process has no keys: it cannot read them\n\
             give it the keys of its station (bus option keys=FILE), made with tallycast keys add",
            self.kind,
            from.ip()
        ))
    }

    fn count(&mut self, reason: Unauthentic, from: SocketAddr) -> Option<Told<'_>> {
        let is_first = self.counts.of(reason) == 0;
        self.counts.count(reason, 1);
        is_first.then_some(Told(self, reason, from))
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(ControlMessages { kind, source, .. }, reason, from) = self;
        let for_secret = source.remedy();
        let remedy = match reason {
            Unauthentic::Clear => "give the process that sends them the keys too (bus option keys=FILE)",
            Unauthentic::NoKey => &for_secret,
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
    use crate::send::tests::secured_datagram;

    #[test]
    fn without_keys_secured_messages_are_told_once() {
        let from = SocketAddr::from(([192, 0, 2, 7], 7_400));
        let secured = secured_datagram();
        let mut messages = ControlMessages::new("announcements", SecretSource::File);
        assert_eq!(messages.tell_secured(from, &[0; 80]), None);
        let told = messages.tell_secured(from, &secured).unwrap();
        assert!(told.starts_with("announcements from 192.0.2.7 are secured"), "{told}");
        assert_eq!(messages.tell_secured(from, &secured), None, "once");
        assert_eq!(
            messages.open(None, from, &mut secured.clone()).map(|bytes| bytes.len()),
            Some(secured.len()),
            "counted by the decoder"
        );
    }

    #[test]
    fn the_first_of_each_reason_is_told_with_a_remedy_and_all_are_counted() {
        let mut refused = ControlMessages::new("announcements", SecretSource::File);
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
        let source = SecretSource::Service("keys.lab.example:7409".to_owned());
        let mut of_service = ControlMessages::new("announcements", source);
        let told = of_service.count(Unauthentic::NoKey, from).unwrap().to_string();
        assert!(
            told.contains("\nthis station's secrets come from the key service keys.lab.example:7409"),
            "{told}"
        );
    }
}
