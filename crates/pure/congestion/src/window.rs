//! Arithmetic of congestion windows that several controls share.

use crate::{Acked, Environment};

/// Initial window, before anything is known of the path.
pub(crate) const START_WINDOW: f64 = 10.0;
/// Minimum window after a cut.
pub(crate) const LEAST_WINDOW: f64 = 2.0;

/// Grows a window by the acknowledged packets up to the threshold; returns the packets left for congestion avoidance.
///
/// A window that the application does not fill says nothing about the path, and does not grow (RFC 7661).
pub(crate) fn slow_start(
    window: &mut f64,
    threshold: f64,
    acked: &Acked,
    environment: &Environment<'_>,
) -> f64 {
    if environment.flight.is_application_limited {
        return 0.0;
    }
    let newly = f64::from(acked.newly);
    let grown = newly.min((threshold - *window).max(0.0));
    *window += grown;
    newly - grown
}

/// Keeps a window from growing while the peer's buffer limits the sender and not the path.
pub(crate) fn limit(window: &mut f64, environment: &Environment<'_>) {
    *window = window.min(f64::from(environment.flight.max_window_packets).max(LEAST_WINDOW));
}
