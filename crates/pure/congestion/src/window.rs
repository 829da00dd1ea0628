//! Arithmetic of congestion windows that several controls share.

use crate::{Acked, Environment, Policy, Resized};

/// A window and its slow-start threshold. Units: packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) packets: f64,
    pub(crate) threshold: f64,
}

/// Initial window, before anything is known of the path.
///
/// Source: RFC 6928.
pub(crate) const START_WINDOW: f64 = 10.0;
/// Minimum window after a cut.
///
/// Source: RFC 5681, equation 4.
pub(crate) const LEAST_WINDOW: f64 = 2.0;
/// Window after a timeout.
///
/// Source: RFC 5681, section 3.1, the loss window.
const LOSS_WINDOW: f64 = 1.0;

impl Window {
    /// Creates a window that grows in slow start until the first loss.
    pub(crate) const fn new(packets: f64) -> Self {
        Self { packets, threshold: f64::INFINITY }
    }

    pub(crate) const fn is_slow_start(&self) -> bool {
        self.packets < self.threshold
    }

    pub(crate) const fn policy(&self) -> Policy {
        if self.is_slow_start() {
            Policy::doubling_window(self.packets)
        } else {
            Policy::window(self.packets)
        }
    }

    /// Grows by the acknowledged packets up to the threshold; returns the packets left for congestion avoidance.
    ///
    /// A window that the application does not fill says nothing about the path, and does not grow (RFC 7661).
    pub(crate) fn slow_start(&mut self, acked: &Acked, environment: &Environment<'_>) -> f64 {
        if environment.flight.is_application_limited {
            return 0.0;
        }
        let newly = f64::from(acked.newly);
        let grown = newly.min((self.threshold - self.packets).max(0.0));
        self.packets += grown;
        newly - grown
    }

    /// Keeps the bytes of the window and its threshold with packets of another size.
    pub(crate) fn resize(&mut self, resized: &Resized) {
        self.packets = sized(self.packets, resized);
        self.threshold = (self.threshold * resized.factor()).max(LEAST_WINDOW);
    }

    /// Begins again with one packet, in slow start up to a threshold.
    pub(crate) const fn restart(&mut self, threshold: f64) {
        *self = Self { packets: LOSS_WINDOW, threshold };
    }
}

/// Returns half of a window, to which Reno and others cut it.
pub(crate) const fn halved(window: f64) -> f64 {
    (window / 2.0).max(LEAST_WINDOW)
}

/// Returns the window of as many bytes in packets of another size, but no less than a window after a timeout.
pub(crate) fn sized(window: f64, resized: &Resized) -> f64 {
    (window * resized.factor()).max(LOSS_WINDOW)
}

/// Keeps a window from growing while the peer's buffer limits the sender and not the path.
pub(crate) fn limit(window: &mut f64, environment: &Environment<'_>) {
    *window = window.min(f64::from(environment.flight.max_window_packets).max(LEAST_WINDOW));
}
