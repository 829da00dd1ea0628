//! Recovery when the last packets of a flight stay unanswered.
//!
//! A receiver reports holes when it sees packets behind them; behind the last packet there is none. Two probes repeat
//! the newest packet, then everything counts as lost. A control may have a timeout of its own: then there are no
//! probes, and every timeout has that length. libudt relies on its `EXP` timer alone, 300 ms at least, and any packet
//! of the peer restarts it; here only progress does.
//!
//! Source: the probes are RFC 8985's tail loss probes, the doubling is RFC 6298's.

use core::time::Duration;

use units::Instant;

/// Maximum delay of an acknowledgement at the peer.
const ACK_DELAY: Duration = congestion::ACK_INTERVAL;
const LEAST_PATIENCE: Duration = Duration::from_millis(20);
/// Minimum timeout, that of libudt's `EXP`.
const LEAST_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum timeout, short enough that a dead peer is tried often before it is given up.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
const PROBES: u32 = 2;

/// Watches the tail.
#[derive(Debug)]
pub(crate) struct Tail {
    due: Option<Instant>,
    /// Start of the present wait.
    since: Instant,
    /// Timeout of a control that has its own.
    own: Option<Duration>,
    /// Probes and timeouts since the last progress.
    fired: u32,
    /// Time after which an answer counts as lost.
    patience: Duration,
}

/// Action on a silent tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TailAction {
    /// Send the newest packet again.
    Probe,
    /// Count everything as lost.
    Timeout,
}

impl Tail {
    pub(crate) const fn new(patience: Duration) -> Self {
        Self { due: None, since: Instant::ORIGIN, own: None, fired: 0, patience }
    }

    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Applies a control's own timeout, including to the present wait.
    pub(crate) fn obey(&mut self, own: Option<Duration>) {
        if self.own != own {
            self.own = own;
            self.due = self.due.map(|_| self.since + self.wait());
        }
    }

    /// Records that packets left; the time runs from the last of them.
    pub(crate) fn sent(&mut self, now: Instant) {
        if self.fired == 0 || self.due.is_none() {
            self.start(now);
        }
    }

    /// Records that the peer acknowledged new packets.
    pub(crate) fn progress(&mut self, now: Instant, patience: Duration, is_unanswered: bool) {
        self.fired = 0;
        self.patience = patience;
        self.due = None;
        if is_unanswered {
            self.start(now);
        }
    }

    /// Advances time.
    pub(crate) fn advance(&mut self, now: Instant) -> Option<TailAction> {
        if self.due? > now {
            return None;
        }
        self.fired += 1;
        self.start(now);
        let is_probe = self.own.is_none() && self.fired <= PROBES;
        Some(if is_probe { TailAction::Probe } else { TailAction::Timeout })
    }

    fn start(&mut self, now: Instant) {
        self.since = now;
        self.due = Some(now + self.wait());
    }

    fn wait(&self) -> Duration {
        if let Some(own) = self.own {
            return own;
        }
        let probe = (self.patience + ACK_DELAY).max(LEAST_PATIENCE);
        if self.fired < PROBES {
            return probe * (self.fired + 1);
        }
        let doubled = probe.max(LEAST_TIMEOUT) * 2_u32.pow((self.fired - PROBES).min(5));
        doubled.min(LONGEST_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn fires(tail: &mut Tail, count: usize) -> Vec<(u64, TailAction)> {
        let mut fired = Vec::new();
        while fired.len() < count {
            let now = tail.deadline().unwrap();
            let action = tail.advance(now);
            fired.extend(action.map(|action| (now.as_nanos() / 1_000_000, action)));
        }
        fired
    }

    #[test]
    fn two_probes_and_then_timeouts_ever_further_apart() {
        let mut tail = Tail::new(PATIENCE);
        tail.sent(Instant::ORIGIN);
        assert_eq!(tail.advance(Instant::ORIGIN), None);
        let expected = [
            (60, TailAction::Probe),
            (180, TailAction::Probe),
            (480, TailAction::Timeout),
            (1_080, TailAction::Timeout),
            (2_280, TailAction::Timeout),
            (4_280, TailAction::Timeout),
        ];
        assert_eq!(fires(&mut tail, 6), expected);
    }

    #[test]
    fn a_controls_own_timeout_stands_for_both_and_takes_effect_at_once() {
        let mut tail = Tail::new(PATIENCE);
        tail.sent(Instant::ORIGIN);
        tail.obey(Some(Duration::from_millis(5)));
        assert_eq!(fires(&mut tail, 2), [(5, TailAction::Timeout), (10, TailAction::Timeout)]);
        tail.obey(Some(Duration::from_millis(40)));
        assert_eq!(fires(&mut tail, 1), [(50, TailAction::Timeout)]);
        tail.obey(None);
        assert_eq!(tail.deadline(), Some(Instant::from_nanos(650_000_000)));
    }

    #[test]
    fn progress_begins_anew_and_an_empty_flight_ends_it() {
        let mut tail = Tail::new(PATIENCE);
        tail.sent(Instant::ORIGIN);
        let fired = fires(&mut tail, 3);
        let now = Instant::from_nanos(fired[2].0 * 1_000_000);
        tail.progress(now, PATIENCE, true);
        assert_eq!(tail.deadline(), Some(now + Duration::from_millis(60)));
        tail.progress(now, PATIENCE, false);
        assert_eq!(tail.deadline(), None);
    }
}
