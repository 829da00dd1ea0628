//! Responses of built-in controls to losses, compared with the closed forms of their authors and a reference
//! simulation.

use core::time::Duration;

use crate::harness::{EmptyPath, Losses};
use crate::named;

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Returns the mean window if each `every`-th packet is lost.
fn periodic(name: &str, every: u64, epochs: u32) -> f64 {
    let mut control = named(name, "").unwrap().create();
    EmptyPath::new(1, ROUND_TRIP, Losses::Every(every)).mean_window(control.as_mut(), 60, epochs)
}

/// Returns the mean window if each packet is lost with probability `p`.
fn random(name: &str, p: f64, epochs: u32) -> f64 {
    let mut control = named(name, "").unwrap().create();
    EmptyPath::new(1, ROUND_TRIP, Losses::Random(p)).mean_window(control.as_mut(), 60, epochs)
}

/// Fails if a mean window differs from the expected one by more than a fraction.
fn assert_near(what: &str, mean: f64, expected: f64, tolerance: f64) {
    let part = mean / expected;
    assert!((part - 1.0).abs() <= tolerance, "{what}: {mean:.2} where {expected:.2} is expected");
}

#[test]
fn reno_keeps_the_root_of_three_halves_by_the_probability() {
    for (every, expected) in [(100, 12.3), (1_000, 38.8), (10_000, 122.5), (100_000, 387.0)] {
        assert_near(&format!("every {every}"), periodic("reno", every, 100), expected, 0.03);
    }
    for p in [1e-3f64, 1e-4, 1e-5] {
        assert_near(&format!("p={p}"), random("reno", p, 400), 1.31 / p.sqrt(), 0.15);
    }
}

#[test]
fn cubic_keeps_the_window_of_its_rfc() {
    for (every, expected) in [(100, 12.0), (1_000, 40.0), (10_000, 186.0), (100_000, 1_013.0)] {
        assert_near(&format!("every {every}"), periodic("cubic", every, 100), expected, 0.06);
    }
    // The RFC's formula is that of evenly spaced losses. These are the means of a fluid model of its rules, in which
    // the number of packets between two losses is drawn from the exponential distribution.
    for (p, expected) in [(1e-3, 47.2), (1e-4, 212.0), (1e-5, 1_195.0)] {
        assert_near(&format!("p={p}"), random("cubic", p, 400), expected, 0.15);
    }
}

/// Losses at even distances lock a binary search into one of several cycles, so it is compared under random ones:
/// with a simulation of its rules that acknowledges packet by packet.
#[test]
fn bic_keeps_the_windows_of_a_simulation_of_its_rules() {
    for (p, expected) in [(1e-2, 25.5), (1e-3, 148.0), (1e-4, 843.0), (1e-5, 3_850.0)] {
        assert_near(&format!("p={p}"), random("bic", p, 400), expected, 0.15);
    }
    for (p, expected) in [(1e-2, 22.6), (1e-3, 119.0), (1e-4, 611.0)] {
        let mut control = named("bic", "smax=16&b=0.2").unwrap().create();
        let mut path = EmptyPath::new(1, ROUND_TRIP, Losses::Random(p));
        assert_near(&format!("Linux, p={p}"), path.mean_window(control.as_mut(), 60, 400), expected, 0.15);
    }
    assert_near("every 100000", periodic("bic", 100_000, 100), 3_381.0, 0.1);
}

#[test]
fn scalable_keeps_a_window_in_inverse_proportion_to_the_probability() {
    for (every, expected) in [(1_000, 75.0), (10_000, 749.0), (100_000, 7_491.0)] {
        assert_near(&format!("every {every}"), periodic("scalable", every, 100), expected, 0.03);
    }
    for p in [1e-3f64, 1e-4, 1e-5] {
        assert_near(&format!("p={p}"), random("scalable", p, 400), 0.0749 / p, 0.15);
    }
}

#[test]
fn highspeed_keeps_the_window_of_its_rfc() {
    for (every, expected) in [(1_000, 40.0), (10_000, 262.0), (100_000, 1_791.0)] {
        assert_near(&format!("every {every}"), periodic("highspeed", every, 100), expected, 0.03);
    }
    for p in [1e-4f64, 1e-5] {
        assert_near(&format!("p={p}"), random("highspeed", p, 400), 0.12 / p.powf(0.835), 0.15);
    }
}
