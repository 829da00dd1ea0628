//! Sending on demand: always, or only while a remote reader listens.
//!
//! Source: `docs/protocol/stream.md`, "Sending on demand".

use core::time::Duration;

use units::Instant;

/// Condition under which a publisher sends data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sending {
    /// Always, with or without readers.
    #[default]
    Always,
    /// Only while a reader is heard; samples meanwhile are lost in stage `publisher_paused`.
    OnDemand,
}

/// Time after a request for which its sender counts as a reader: five of the shortest report intervals, as for a
/// reader that reports, and twice the maximum wait for its first report.
pub(super) const PATIENCE_AFTER_REQUEST: Duration = Duration::from_secs(5);

/// Tracks whether any reader is heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    sending: Sending,
    asked: Option<Instant>,
}

impl Demand {
    pub(super) const fn new(sending: Sending) -> Self {
        Self { sending, asked: None }
    }

    /// Records a request of a reader.
    pub(super) const fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Returns whether data are paused for lack of readers; `readers` are known by their reports.
    pub(super) fn is_paused(&self, now: Instant, readers: u32) -> bool {
        let asked = || self.asked.is_some_and(|asked| now.since(asked) < PATIENCE_AFTER_REQUEST);
        self.sending == Sending::OnDemand && readers == 0 && !asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_is_heard_for_five_seconds_and_no_longer() {
        let mut demand = Demand::new(Sending::OnDemand);
        let asked = Instant::from_nanos(7);
        assert!(demand.is_paused(asked, 0), "nobody has asked");
        demand.asked(asked);
        let over = asked + PATIENCE_AFTER_REQUEST;
        assert!(!demand.is_paused(over - Duration::from_nanos(1), 0));
        assert!(demand.is_paused(over, 0));
        assert!(!demand.is_paused(over, 1), "a reader that reports is enough");
    }

    #[test]
    fn who_sends_always_is_never_paused() {
        assert!(!Demand::new(Sending::Always).is_paused(Instant::ORIGIN, 0));
    }
}
