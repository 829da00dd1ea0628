//! The frame of controls that grow until packets are lost; each is a [`Response`] in it.
//!
//! In slow start a window w doubles in a round trip, up to a threshold. Above that each acknowledged packet adds its
//! share of the control's growth. A loss cuts the window, once in a round trip; after a timeout it is one packet.
//!
//! | control | growth of w in a round trip | w after a loss |
//! |---|---|---|
//! | [`Reno`] | 1 | w/2 |
//! | [`Bic`] | half the way to the window of the last loss; beyond it 1, 2, 4 … | w·(1 − b) |
//! | [`Cubic`] | to C·(t − K)³ + the window of the last loss, t seconds after it | 0.7·w |
//! | [`Scalable`] | a·w | w·(1 − b) |
//! | [`HighSpeed`] | a(w) | w·(1 − b(w)) |
//! | [`Westwood`] | 1 | the measured rate × the least round trip |
//!
//! Source: RFC 5681. Losses are reported by number here, so the inflation and deflation of fast recovery have no
//! counterpart. Every acknowledged packet counts, even if one acknowledgement covers many (RFC 3465 without its limit).

mod bic;
mod cubic;
mod highspeed;
mod reno;
mod scalable;
mod westwood;

use core::fmt;

use crate::window::{Window, limit, sized};
use crate::{Acked, CongestionControl, Environment, Lost, Policy, Resized};

pub(crate) use bic::Bic;
pub(crate) use cubic::Cubic;
pub(crate) use highspeed::HighSpeed;
pub(crate) use reno::Reno;
pub(crate) use scalable::Scalable;
pub(crate) use westwood::Westwood;

/// A loss-based control.
#[derive(Clone, Debug)]
pub(crate) struct LossBased<R> {
    window: Window,
    last_cut: LastCut,
    response: R,
}

/// The response of a window to acknowledgements and losses. Units: packets.
pub(crate) trait Response: fmt::Debug + Send {
    /// Returns the window after an acknowledgement.
    fn grow(&mut self, step: &Step<'_>) -> f64;

    /// Returns the slow-start threshold after a loss.
    fn cut(&mut self, window: f64, environment: &Environment<'_>) -> f64;

    /// Returns the slow-start threshold after a timeout.
    fn time_out(&mut self, window: f64, environment: &Environment<'_>) -> f64 {
        self.cut(window, environment)
    }

    /// Returns the window kept after a loss that set this threshold.
    fn keep(&self, window: f64, threshold: f64) -> f64 {
        let _ = window;
        threshold
    }

    /// Observes an acknowledgement before the window grows; returns whether it may.
    fn observe(&mut self, acked: &Acked, environment: &Environment<'_>) -> bool {
        let _ = (acked, environment);
        true
    }

    /// Keeps the bytes of its windows and rates with packets of another size.
    fn resize(&mut self, resized: &Resized) {
        let _ = resized;
    }

    /// Reports its estimates.
    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        let _ = tell;
    }
}

/// Growth of a window in congestion avoidance, by one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    window: f64,
    /// Acknowledged packets that slow start has left; zero if the window is not to grow.
    packets: f64,
    /// Packets in the round trip in which the acknowledgement came.
    round: f64,
    acked: &'a Acked,
    environment: &'a Environment<'a>,
}

/// The last cut of a window; by default there was none.
#[derive(Clone, Copy, Debug, Default)]
struct LastCut {
    next: u64,
    window_before: f64,
}

impl Step<'_> {
    /// Returns the window that grows by `packets_per_round`.
    fn widened_by(&self, packets_per_round: f64) -> f64 {
        self.window + self.packets * packets_per_round / self.round
    }
}

impl LastCut {
    /// Records a window that is about to be cut.
    const fn new(window: f64, environment: &Environment<'_>) -> Self {
        Self { next: environment.flight.next, window_before: window }
    }

    fn resize(&mut self, resized: &Resized) {
        self.window_before = sized(self.window_before, resized);
    }

    /// Returns the number of packets in the round trip in which an acknowledgement came.
    ///
    /// Packets sent before a cut fill the wider window: a round trip must bring one step there, too.
    const fn round(&self, acked: &Acked, window: f64) -> f64 {
        if acked.to <= self.next { self.window_before.max(window) } else { window }
    }
}

impl<R> LossBased<R> {
    /// Creates a control before its first event, with its initial window.
    fn new(start_window: f64, response: R) -> Self {
        Self { window: Window::new(start_window), last_cut: LastCut::default(), response }
    }
}

impl<R: Response> CongestionControl for LossBased<R> {
    fn policy(&self) -> Policy {
        self.window.policy()
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, acked: &Acked) {
        if !self.response.observe(acked, environment) {
            return;
        }
        let packets = self.window.slow_start(acked, environment);
        let window = self.window.packets;
        let round = self.last_cut.round(acked, window);
        self.window.packets = self.response.grow(&Step { window, packets, round, acked, environment });
        limit(&mut self.window.packets, environment);
    }

    fn on_packet_size(&mut self, _: &mut Environment<'_>, resized: &Resized) {
        self.window.resize(resized);
        self.last_cut.resize(resized);
        self.response.resize(resized);
    }

    fn on_loss(&mut self, environment: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            let window = self.window.packets;
            self.last_cut = LastCut::new(window, environment);
            let threshold = self.response.cut(window, environment);
            self.window = Window { packets: self.response.keep(window, threshold), threshold };
        }
    }

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        let threshold = self.response.time_out(self.window.packets, environment);
        self.window.restart(threshold);
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("slow_start_threshold_packets", self.window.threshold);
        self.response.tell(tell);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::harness::Stage;

    fn reno(window: f64) -> (LossBased<Reno>, Stage) {
        (LossBased::new(window, Reno), Stage::new(1, Duration::from_millis(100)))
    }

    #[test]
    fn slow_start_ends_at_the_threshold_and_what_is_left_counts_for_avoidance() {
        let (mut control, mut stage) = reno(10.0);
        control.window.threshold = 20.0;
        stage.ack(&mut control, 30);
        assert!((control.window.packets - 21.0).abs() < 1e-9, "{control:?}");
    }

    #[test]
    fn an_application_that_does_not_fill_the_window_does_not_widen_it() {
        let (mut control, mut stage) = reno(10.0);
        stage.flight.is_application_limited = true;
        stage.ack(&mut control, 10);
        assert!((control.window.packets - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_timeout_begins_again_with_one_packet_up_to_half_the_window() {
        let (mut control, mut stage) = reno(40.0);
        control.on_timeout(&mut stage.environment());
        assert!((control.window.packets - 1.0).abs() < 1e-9);
        stage.ack(&mut control, 19);
        assert!((control.window.packets - 20.0).abs() < 1e-9);
    }
}
