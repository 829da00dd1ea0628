//! Delivery of frames: the page's confirmations, and when to look for the next frame.
//!
//! Confirmations are most of what a page says. They only return credit, which the next look finds: nothing is drawn or
//! sent because of one.

use std::time::Instant;

use super::pace::{Allowance, Pace};
use super::{MAX_VIEWS, Viewer};

/// Maximum number of frames of one view sent and not confirmed: one is drawn while the next is in flight.
pub(crate) const MAX_UNDER_WAY: usize = 2;
/// The most frames of one confirmation: more are not under way.
pub(crate) const MAX_CONFIRMED: usize = MAX_VIEWS * MAX_UNDER_WAY;

/// Delivery of a view's frames. It is kept when the page changes the content of the view.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Number of frames sent and not confirmed.
    pub(super) under_way: usize,
    pub(super) pace: Pace,
    /// Earliest time of the next frame.
    pub(super) next_at: Option<Instant>,
    /// True while the store is being asked.
    pub(super) asking: bool,
    pub(super) asked_at: Option<Instant>,
}

impl Delivery {
    /// Returns whether a frame that is due may be made: there is credit, and the page has not had its bytes.
    ///
    /// Otherwise one that follows the newest data is skipped rather than delayed, and counted in `dropped`: the next frame
    /// shows the newest data of that time. The past does not change, so a frame of it is only later.
    pub(super) fn has_room(
        &mut self,
        follows: bool,
        allowance: &Allowance,
        dropped: &mut u32,
        now: Instant,
    ) -> bool {
        if self.under_way < MAX_UNDER_WAY && !allowance.is_spent(now) {
            return true;
        }
        self.next_at = Some(Pace::next_beat(now));
        if follows {
            self.pace.dropped(now);
            *dropped += 1;
        }
        false
    }

    pub(super) fn sent(&mut self, now: Instant) {
        self.under_way += 1;
        self.pace.made(now);
        self.next_at = Some(Pace::next_beat(now));
    }

    /// Returns whether enough time has passed since the last frame.
    pub(super) fn may_send(&self, now: Instant) -> bool {
        self.next_at.is_none_or(|at| at <= now)
    }

    /// Returns whether the store may be asked again: limited in rate, and one question at a time.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        !self.asking && self.asked_at.is_none_or(|asked| now.saturating_duration_since(asked) >= Pace::ASK)
    }
}

impl Viewer {
    /// Takes back the credit of frames that were drawn.
    pub(crate) fn confirm(&mut self, frames: &[u32]) {
        for frame in frames {
            // Most pages confirm in the order in which they were sent: it is the first.
            let Some(place) = self.under_way.iter().position(|(number, _)| number == frame) else { continue };
            let Some((_, view)) = self.under_way.remove(place) else { continue };
            if let Some(view) = self.views.get_mut(&view) {
                view.delivery_mut().under_way -= 1;
                self.shown += 1;
            }
        }
    }

    /// Forgets the frames of a view that ends: its successor has all credit, and confirmations of them are not counted.
    pub(super) fn forget_frames(&mut self, ended: u32) {
        self.under_way.retain(|(_, view)| *view != ended);
    }

    /// Returns when a frame may be due next.
    pub(crate) fn next_look(now: Instant) -> Instant {
        Pace::next_beat(now)
    }
}

/// Returns the frames that a message confirms, if it is written as the page writes it; others are read as any message.
pub(crate) fn confirmed_by(text: &str) -> Option<Vec<u32>> {
    let numbers = text.strip_prefix(r#"{"type":"shown","frames":["#)?.strip_suffix("]}")?;
    let number = |text: &str| text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok())?;
    let frames: Option<Vec<u32>> = numbers.split(',').take(MAX_CONFIRMED + 1).map(number).collect();
    frames.filter(|frames| frames.len() <= MAX_CONFIRMED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::PageMessage;

    #[test]
    fn confirmations_are_read_as_the_page_writes_them_and_nothing_else_is_one() {
        assert_eq!(confirmed_by(r#"{"type":"shown","frames":[7,4294967295]}"#), Some(vec![7, u32::MAX]));
        for other in [
            r#"{"type":"shown","frames":[4294967296]}"#,
            r#"{"type":"shown","frames":[+1]}"#,
            r#"{"type":"shown","frames":[]}"#,
            r#"{"type":"shown","frames":[1,]}"#,
            r#"{"type":"shown","frame":1}"#,
            r#"{"type":"close","view":1}"#,
            "",
        ] {
            assert_eq!(confirmed_by(other), None, "{other}");
        }
    }

    #[test]
    fn both_sides_of_the_number_of_confirmations() {
        let message = |count: usize| {
            let numbers = (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
            format!(r#"{{"type":"shown","frames":[{numbers}]}}"#)
        };
        assert_eq!(confirmed_by(&message(MAX_CONFIRMED)).unwrap().len(), MAX_CONFIRMED);
        assert_eq!(confirmed_by(&message(MAX_CONFIRMED + 1)), None);
        let read = |count| serde_json::from_str::<PageMessage>(&message(count)).unwrap().check();
        assert_eq!(read(MAX_CONFIRMED), Ok(()));
        assert!(read(MAX_CONFIRMED + 1).is_err());
    }
}
