//! A custom congestion control in the laboratory, compared with two built-in ones:
//! `cargo run --release --example lab_own_control`.
//!
//! The control is the one of `own_congestion_control.rs`, with a smaller reduction. For plots over time, write
//! `report.to_html()` into a file. `docs/guide/congestion-lab.md` explains the table.

use std::sync::Arc;
use std::time::Duration;

use cc_lab::{Comparison, ComparisonReport, Competitor, Path};
use congestion::{Acked, CongestionControl, Environment, Factory, Lost, Policy};

/// Adds one packet per round trip, and keeps `kept` of the window at a loss.
#[derive(Clone, Debug)]
struct Gentle {
    window: f64,
    kept: f64,
}

impl CongestionControl for Gentle {
    fn policy(&self) -> Policy {
        Policy::window(self.window)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
        self.window += f64::from(acked.newly) / self.window;
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.window = (self.window * self.kept).max(2.0);
        }
    }
}

impl Factory for Gentle {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

fn main() {
    println!("{}", compare(Duration::from_secs(60)));
}

fn compare(duration: Duration) -> ComparisonReport {
    let mut path = Path::new(50_000_000, Duration::from_millis(20));
    path.loss = 3e-3;
    let gentle = Gentle { window: 10.0, kept: 0.8 };
    let built_in = ["reno", "cubic"].map(|name| Competitor::named(name).expect("it is built in"));
    let competitors = [Competitor::of("gentle", Arc::new(gentle))].into_iter().chain(built_in).collect();
    let mut comparison = Comparison::new(path, competitors);
    comparison.duration = duration;
    comparison.warm_up = duration / 4;
    comparison.play(|_| true).expect("nobody stops it")
}

#[test]
fn it_takes_effect() {
    let report = compare(Duration::from_secs(60));
    let [gentle, reno, _] = &report.standings[..] else { panic!("{report}") };
    assert!(gentle.packets.balance() && gentle.absurd_policies == 0, "{report}");
    // By the closed form of AIMD it gets √3 times the goodput of halving under random losses.
    let more = gentle.goodput_bits_per_second / reno.goodput_bits_per_second;
    assert!((1.3..2.2).contains(&more), "{more}\n{report}");
    assert!(gentle.friendliness_to_reno.is_some_and(|kept| kept > 0.5), "{report}");
}
