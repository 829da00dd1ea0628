//! CUBIC: the window is a cubic function of the time since the last loss, independent of the round trip.
//!
//! Source: RFC 9438, with fast convergence. Slow start is the standard one: without HyStart++ (RFC 9406) it ends at a
//! loss.

use units::Instant;

use super::{LastCut, LossBased, Response, Step};
use crate::options::FromOptions;
use crate::window::{LEAST_WINDOW, START_WINDOW};
use crate::{Acked, Environment, OptionError, Options, Resized};

/// CUBIC, the usual control of today's TCP. It returns to the window of the last loss in a time that depends on that
/// window only, plateaus there, and then probes further, ever faster; where Reno would be faster, it is as fast as
/// Reno.
///
/// `C·(t − K)³ + plateau`, t seconds after a cut, where `K = ∛((plateau − w)/C)` (section 4.2); a loss cuts to `0.7·w`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cubic {
    /// The window of the plateau.
    plateau: f64,
    growth: Option<Growth>,
    /// True after a cut by a timeout, which leaves the plateau unknown.
    has_lost_plateau: bool,
    /// The last cut, also by a timeout, which the frame does not count.
    last_cut: LastCut,
    last_ack: Option<Instant>,
}

/// Growth of a window since the first acknowledgement after a cut.
#[derive(Clone, Copy, Debug)]
struct Growth {
    began: Instant,
    /// Time when the plateau is reached. Units: seconds since the growth began.
    plateau_at: f64,
    /// The window that Reno would have.
    reno: f64,
}

/// Units: packets per cubic second.
const SCALE: f64 = 0.4;
/// Fraction of the window that a loss leaves.
const KEEP: f64 = 0.7;
/// Growth per round trip at which Reno with this control's smaller cut has the same mean window.
const FRIENDLY: f64 = 3.0 * (1.0 - KEEP) / (1.0 + KEEP);
/// Maximum growth of the window in a round trip: half of itself.
const MOST_GROWTH: f64 = 1.5;

impl Cubic {
    fn begin(&mut self, window: f64, now: Instant) -> Growth {
        if core::mem::take(&mut self.has_lost_plateau) || self.plateau < window {
            self.plateau = window;
        }
        let plateau_at = ((self.plateau - window) / SCALE).cbrt();
        Growth { began: now, plateau_at, reno: window }
    }
}

impl FromOptions for LossBased<Cubic> {
    fn from_options(_: &mut Options) -> Result<Self, OptionError> {
        Ok(Self::new(START_WINDOW, Cubic::default()))
    }
}

impl Response for Cubic {
    fn grow(&mut self, step: &Step<'_>) -> f64 {
        let &Step { window, packets, acked, environment, .. } = step;
        if packets == 0.0 {
            return window;
        }
        let mut growth = self.growth.unwrap_or_else(|| self.begin(window, environment.now));
        let passed = environment.now.since(growth.began).as_secs_f64() - growth.plateau_at;
        let cubic = |seconds: f64| SCALE * seconds.powi(3) + self.plateau;
        let round = self.last_cut.round(acked, window);
        let reno_step = if growth.reno >= self.last_cut.window_before { 1.0 } else { FRIENDLY };
        growth.reno += reno_step * packets / round;
        self.growth = Some(growth);
        if cubic(passed) < growth.reno {
            window.max(growth.reno)
        } else {
            let ahead = cubic(passed + environment.round_trip.smoothed.as_secs_f64());
            let target = ahead.clamp(window, window * MOST_GROWTH);
            window + packets * (target - window) / round
        }
    }

    fn cut(&mut self, window: f64, environment: &Environment<'_>) -> f64 {
        self.last_cut = LastCut::new(window, environment);
        // A flow that has less than at the last loss makes room for others: fast convergence.
        let shrinks = window < self.plateau;
        self.plateau = if shrinks { window * (1.0 + KEEP) / 2.0 } else { window };
        self.growth = None;
        (window * KEEP).max(LEAST_WINDOW)
    }

    fn time_out(&mut self, window: f64, environment: &Environment<'_>) -> f64 {
        self.has_lost_plateau = true;
        self.cut(window, environment)
    }

    fn observe(&mut self, _: &Acked, environment: &Environment<'_>) -> bool {
        let last = self.last_ack.replace(environment.now).unwrap_or(environment.now);
        let is_limited = environment.flight.is_application_limited;
        if is_limited && let Some(growth) = &mut self.growth {
            // Time in which the window was not filled does not count.
            growth.began += environment.now.since(last);
        }
        !is_limited
    }

    fn resize(&mut self, resized: &Resized) {
        self.plateau *= resized.factor();
        self.last_cut.resize(resized);
        // The time to the plateau depends on the packets to it: it is computed anew.
        self.growth = None;
    }

    fn tell(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("plateau_packets", self.plateau);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::CongestionControl;
    use crate::harness::Stage;

    /// A control that was cut at a window, and its environment.
    fn cut_at(window: f64) -> (LossBased<Cubic>, Stage) {
        let mut stage = Stage::new(1, Duration::from_millis(100));
        let mut control = LossBased::new(window, Cubic::default());
        stage.lose(&mut control);
        (control, stage)
    }

    /// Runs for this many round trips, with an acknowledgement every 10 ms.
    fn go_on(control: &mut LossBased<Cubic>, stage: &mut Stage, rounds: u32) {
        for _ in 0..rounds * 10 {
            stage.now += Duration::from_millis(10);
            let newly = control.window.packets / 10.0;
            stage.ack(control, newly.round() as u32);
        }
    }

    #[test]
    fn it_comes_back_to_the_plateau_in_the_time_of_the_rfc_and_then_looks_further() {
        let (mut control, mut stage) = cut_at(10_000.0);
        assert_eq!(control.window.packets, 7_000.0);
        // The cube root of 3000 / 0.4 is 19.57 s; the steps look a round trip ahead.
        go_on(&mut control, &mut stage, 98);
        let halfway = 10_000.0 - 0.4 * (19.574_f64 - 9.8).powi(3);
        assert!(
            (control.window.packets / halfway - 1.0).abs() < 0.02,
            "{} after 9.8 s",
            control.window.packets
        );
        go_on(&mut control, &mut stage, 98);
        assert!(
            (control.window.packets / 10_000.0 - 1.0).abs() < 0.01,
            "{} after 19.6 s",
            control.window.packets
        );
        go_on(&mut control, &mut stage, 100);
        let beyond = 10_000.0 + 0.4 * (29.6_f64 - 19.574).powi(3);
        assert!(
            (control.window.packets / beyond - 1.0).abs() < 0.02,
            "{} after 29.6 s",
            control.window.packets
        );
    }

    #[test]
    fn who_has_less_than_before_makes_room() {
        let (mut control, mut stage) = cut_at(1_000.0);
        assert_eq!((control.window.packets, control.response.plateau), (700.0, 1_000.0));
        stage.lose(&mut control);
        assert_eq!((control.window.packets.round(), control.response.plateau), (490.0, 595.0));
    }

    #[test]
    fn small_windows_grow_as_renos_do() {
        let (mut control, mut stage) = cut_at(20.0);
        go_on(&mut control, &mut stage, 10);
        // 14 and 0.53 a round trip, where the cubic function is nearly flat.
        assert!((control.window.packets - 14.0 - 5.3).abs() < 0.6, "{}", control.window.packets);
    }

    #[test]
    fn time_without_data_does_not_count() {
        let (mut control, mut stage) = cut_at(10_000.0);
        go_on(&mut control, &mut stage, 10);
        let before = control.window.packets;
        stage.flight.is_application_limited = true;
        stage.now += Duration::from_secs(100);
        stage.ack(&mut control, 1);
        stage.flight.is_application_limited = false;
        stage.now += Duration::from_millis(10);
        stage.ack(&mut control, 70);
        assert!(control.window.packets < before * 1.02, "{} from {before}", control.window.packets);
    }

    #[test]
    fn after_a_timeout_it_begins_from_where_slow_start_ends() {
        let (mut control, mut stage) = cut_at(1_000.0);
        control.on_timeout(&mut stage.environment());
        assert_eq!((control.window.packets, control.window.threshold.round()), (1.0, 490.0));
        stage.ack(&mut control, 489);
        stage.now += Duration::from_millis(10);
        stage.ack(&mut control, 49);
        assert_eq!(control.response.plateau, control.window.threshold);
    }
}
