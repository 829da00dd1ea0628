//! The announcements by which readers on the bus find a stream.

use std::net::SocketAddr;
use std::time::Duration;

use cast::secure::ControlSealer;
use keyring::random_salt;
use keys::Membership;
use sys::clock;
use units::{Epoch, Instant, Random, StreamId};
use wire::{Announcement, Kind};

use super::egress::Egress;

/// Interval at which a publisher announces its stream.
pub(super) const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval before the second announcement, twice that before the third, and so on: a reader that
/// starts in the same moment may just have missed the first.
const FIRST_ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);
/// Random spread of announcements, a tenth either way, so that many publishers do not announce at
/// the same time.
const ANNOUNCE_SPREAD: f64 = 0.2;

/// Maximum size of an announcement, secured.
const MAX_BYTES: usize = wire::MIN_DATAGRAM_BYTES + wire::secured_bytes(Kind::Announcement);

/// Announces one stream.
pub(super) struct Announcer {
    announcement: Announcement,
    /// `None` where there is no multicast.
    next: Option<Instant>,
    interval: Duration,
    random: Random,
    /// Secures the announcements on a secured bus.
    sealer: Option<ControlSealer>,
}

impl Announcer {
    pub(super) fn new(announcement: Announcement, membership: Option<&Membership>, now: Instant) -> Self {
        let random = Random::for_purpose(announcement.epoch.incarnation, "announcements");
        let sealer = membership.map(|it| ControlSealer::new(it, random_salt(), clock::wall()));
        Self { announcement, next: Some(now), interval: FIRST_ANNOUNCE_INTERVAL, random, sealer }
    }

    /// Secures with other keys from now on.
    pub(super) fn adopt(&mut self, membership: &Membership) {
        if let Some(sealer) = &mut self.sealer {
            sealer.renew(membership, clock::wall(), random_salt());
        }
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.announcement.stream
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.announcement.epoch
    }

    /// Returns when the next announcement is due.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Announces the stream at `to` if that is due.
    pub(super) fn poll(&mut self, now: Instant, to: Option<SocketAddr>, egress: &mut Egress) {
        let Some(to) = to else {
            self.next = None;
            return;
        };
        if self.next.is_some_and(|due| now < due) {
            return;
        }
        let spread = 1.0 + ANNOUNCE_SPREAD * (self.random.unit() - 0.5);
        self.next = Some(now + self.interval.mul_f64(spread));
        self.interval = (self.interval * 2).min(ANNOUNCE_INTERVAL);
        let mut datagram = [0; MAX_BYTES];
        let encoded = self.announcement.encode(&mut datagram[..wire::MIN_DATAGRAM_BYTES]).ok();
        let secured = match &mut self.sealer {
            Some(sealer) => encoded.and_then(|plain| sealer.seal(clock::wall(), &mut datagram, plain)),
            None => encoded,
        };
        if let Some(size_bytes) = secured {
            egress.send_unaccounted(&datagram[..size_bytes], to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::send_path::SendPath;
    use crate::send::tests::{listener, opened, publication_config};

    #[test]
    fn announcements_begin_often_and_go_on_every_second() {
        let ((_listener, open), (group, announce_to)) = (listener(), listener());
        group.set_nonblocking(true).unwrap();
        let (_publication, mut send_path) = opened(&publication_config(vec![open]));
        let SendPath { announcer, egress, .. } = &mut send_path;
        let start = clock::monotonic();
        let mut announced = Vec::new();
        for millis in 0..5_000 {
            announcer.poll(start + Duration::from_millis(millis), Some(announce_to), egress);
            if group.recv(&mut [0; wire::MIN_DATAGRAM_BYTES]).is_ok() {
                announced.push(millis);
            }
        }
        assert_eq!(announced[0], 0);
        let pauses = announced.windows(2).map(|pair| pair[1] - pair[0]);
        for (pause, expected) in pauses.zip([100, 200, 400, 800, 1_000, 1_000, 1_000]) {
            assert!(pause.abs_diff(expected) <= expected / 10 + 1, "{announced:?}");
        }
        assert!((7..=8).contains(&announced.len()), "{announced:?}");
        // The send path is dropped first, or nothing would end the publisher.
        drop(send_path);
    }
}
