//! Proof of a change: the same traffic before and after, over windows of the same length.

use core::time::Duration;

/// Counts of delivered and lost datagrams within a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Length of the window.
    pub time: Duration,
    /// Number of datagrams delivered to the readers of the namespace.
    pub delivered: u64,
    /// Number of losses that the change is to reduce.
    pub lost: u64,
}

/// Result of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// At most half as many were lost in the same time.
    Helped,
    /// As many were lost as before, or nearly.
    DidNotHelp,
    /// There was much less traffic than before: nothing follows.
    NoTraffic,
}

/// Minimum share of the earlier traffic that allows a comparison.
const COMPARABLE: f64 = 0.5;
/// Maximum share of the earlier loss for a change that helped.
const LEFT: f64 = 0.5;

impl Window {
    /// Adds another window.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            time: self.time + other.time,
            delivered: self.delivered + other.delivered,
            lost: self.lost + other.lost,
        }
    }

    /// Returns the lost share of all arrivals; 0 if there were none.
    #[must_use]
    pub fn lost_share(&self) -> f64 {
        let offered = self.delivered + self.lost;
        if offered == 0 { 0.0 } else { as_f64(self.lost) / as_f64(offered) }
    }

    fn per_second(&self, count: u64) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { as_f64(count) / seconds } else { 0.0 }
    }

    fn offered_per_second(&self) -> f64 {
        self.per_second(self.delivered + self.lost)
    }
}

impl Proof {
    /// Compares two windows, one before a change and one after it.
    ///
    /// Delivered datagrams are counted for all programs together: a share would also fall if another program began to
    /// receive.
    #[must_use]
    pub fn of(before: &Window, after: &Window) -> Self {
        if after.offered_per_second() < COMPARABLE * before.offered_per_second() {
            Self::NoTraffic
        } else if after.per_second(after.lost) <= LEFT * before.per_second(before.lost) {
            Self::Helped
        } else {
            Self::DidNotHelp
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are not counted")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(seconds: u64, delivered: u64, lost: u64) -> Window {
        Window { time: Duration::from_secs(seconds), delivered, lost }
    }

    #[test]
    fn a_change_helped_where_half_of_the_loss_is_gone_and_the_traffic_is_not() {
        let before = window(5, 900, 100);
        for (after, expected) in [
            (window(5, 1_000, 0), Proof::Helped),
            (window(5, 950, 50), Proof::Helped),
            (window(5, 949, 51), Proof::DidNotHelp),
            (window(5, 900, 100), Proof::DidNotHelp),
            (window(10, 2_000, 0), Proof::Helped),
            (window(10, 1_800, 100), Proof::Helped),
            (window(5, 9_000, 100), Proof::DidNotHelp),
            (window(5, 499, 0), Proof::NoTraffic),
            (window(5, 500, 0), Proof::Helped),
            (window(0, 0, 0), Proof::NoTraffic),
        ] {
            assert_eq!(Proof::of(&before, &after), expected, "{after:?}");
        }
    }

    #[test]
    fn windows_are_added() {
        assert_eq!(window(1, 2, 3).and(window(10, 20, 30)), window(11, 22, 33));
        assert!((window(2, 3, 1).lost_share() - 0.25).abs() < 1e-12);
    }
}
