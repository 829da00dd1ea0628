//! The keys of a secured bus as its agents use them: looked at again and again.

use std::sync::Arc;
use std::time::Duration;

use keyring::Keyring;
use keys::Membership;
use sys::clock;
use units::Instant;

/// Interval at which the file of keys is looked at: a member whose secret is removed is to be blind within 1 s.
///
/// Cost: a system call, and for each stream a comparison of secrets.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Shortest interval between looks when datagrams arrive with a secret that is not in the file: a new member is to read
/// within 200 ms, and a flood of forged tokens is to cost no more than these looks.
const EARLY_LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// An agent's view of the keys.
pub(crate) struct PresentKeys {
    keyring: Option<Arc<Keyring>>,
    next_look: Instant,
    earliest_look: Instant,
}

/// Where the secrets of a member are: what to do about one that it lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SecretSource {
    /// In its file of keys.
    File,
    /// At the key service with this address.
    Service(String),
}

impl SecretSource {
    /// Returns what to do about a secret that another uses and this member lacks.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::File => "one of the two key files lacks a secret: compare them with tallycast keys show, and copy the \
                           current one"
                .to_owned(),
            Self::Service(address) => format!(
                "this station's secrets come from the key service {address}: one of the two stations does not reach it, or \
                 the other has its secrets elsewhere: compare the key services in both key files with tallycast keys show"
            ),
        }
    }
}

impl PresentKeys {
    /// `None`: streams are clear.
    pub(crate) fn new(keyring: Option<Arc<Keyring>>) -> Self {
        let now = clock::monotonic();
        Self { keyring, next_look: now, earliest_look: now }
    }

    /// Returns when the file is looked at next; `None` where streams are clear.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        self.keyring.as_ref().map(|_| self.next_look)
    }

    /// Looks soon: a secret was used that is not in the file as it was.
    pub(crate) fn look_early(&mut self) {
        if self.earliest_look < self.next_look {
            self.next_look = self.earliest_look;
            // Once for each look, however many datagrams are forged.
            self.keyring.iter().for_each(|keyring| keyring.hurry());
        }
    }

    /// Returns where the secrets are.
    pub(crate) fn source(&self) -> SecretSource {
        let service = self.keyring.as_ref().and_then(|keyring| keyring.service_address());
        service.map_or(SecretSource::File, SecretSource::Service)
    }

    /// Returns the present membership of a secured bus.
    pub(crate) fn membership(&self) -> Option<Arc<Membership>> {
        self.keyring.as_ref().map(|keyring| keyring.membership())
    }

    /// Returns the present membership if it is time to adopt it, which also corrects UTC.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Arc<Membership>> {
        let keyring = self.keyring.as_ref()?;
        if now < self.next_look {
            return None;
        }
        (self.next_look, self.earliest_look) = (now + LOOK_INTERVAL, now + EARLY_LOOK_INTERVAL);
        let wall = clock::wall();
        if let Err(error) = keyring.refresh(wall) {
            tracing::warn!("the keys stay as they are: {error}");
        }
        match keyring.news(wall) {
            Some(news) if news.is_good() => tracing::info!("{news}"),
            Some(news) => tracing::warn!("{news}"),
            None => {}
        }
        if let Some(ending) = keyring.ending(wall) {
            tracing::warn!("{ending}");
        }
        Some(keyring.membership())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::tests::keyring;

    #[test]
    fn the_file_is_looked_at_four_times_a_second_and_early_for_an_unknown_secret() {
        let (_folder, keyring) = keyring();
        let mut keys = PresentKeys::new(Some(keyring));
        let after = |keys: &PresentKeys, now: Instant| keys.next_look().unwrap().since(now);
        let now = keys.next_look().unwrap();
        assert!(keys.look(now).is_some());
        assert_eq!(after(&keys, now), Duration::from_millis(250));
        keys.look_early();
        assert_eq!(after(&keys, now), Duration::from_millis(20));
        assert!(keys.look(now).is_none());
        let now = now + EARLY_LOOK_INTERVAL;
        assert!(keys.look(now).is_some());
        assert_eq!(after(&keys, now), LOOK_INTERVAL);
        assert_eq!(PresentKeys::new(None).next_look(), None);
    }
}
