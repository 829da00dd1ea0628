//! Suites that take long by nature: kills by the hundred, seeds by the hundred thousand, minutes of fuzzing, soaks,
//! much data, other versions.
//!
//! `cargo xtask test --nightly` runs them; a short version of each is in every full run. Tests take the amount from
//! variables, so that the same code runs for a second and for an hour.

use super::{CHECK, Lane, Nature, PROGRAMS, Step, Suite, TESTS, Targets};
use crate::setup::Need;

/// All suites of a night, in order.
pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "seeds",
        about: "the stream machine and the reliable transport over a simulated network, 100,000 seeds each",
        lanes: &[Lane::Nightly],
        environment: &[("TALLYCAST_SEEDS", "100000"), ("TALLYCAST_FIRST_SEED", "0")],
        // Optimised: building those few crates is worth it here.
        steps: &[Step::Cargo(&[
            "test",
            "--release",
            "--package",
            "tallycast-cast",
            "--package",
            "tallycast-udt",
            "--no-fail-fast",
            "--test",
            "seeds",
        ])],
        ..TESTS
    },
    Suite {
        name: "ring",
        about: "a ring whose processes are killed 2,000 times, and 20,000,000 records past lapped readers",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        environment: &[("TORTURE_KILLS", "2000"), ("TORTURE_RECORDS", "20000000")],
        steps: &[Step::Cargo(&[
            "test",
            "--release",
            "--package",
            "tallycast-ring",
            "--no-fail-fast",
            "--test",
            "processes",
            "--test",
            "torture",
            "--",
            "--show-output",
        ])],
        ..TESTS
    },
    Suite {
        name: "archive",
        about: "a recorder killed 200 times on a real disk, 20 outcomes of every power cut, every seventh byte of a segment damaged",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        environment: &[("TALLYCAST_KILLS", "200"), ("TALLYCAST_CUTS", "20"), ("TALLYCAST_FLIP_STRIDE", "7")],
        steps: &[Step::Tests(Targets::Named(&["archive"]), &["--show-output"])],
        ..TESTS
    },
    Suite {
        name: "transfer",
        about: "files of 200 MB across everything that is killed on the way",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        environment: &[("TALLYCAST_BIG_BYTES", "200000000")],
        steps: &[Step::Tests(Targets::Named(&["cli"]), &["--show-output", "transfer::"])],
        ..TESTS
    },
    Suite {
        name: "versions",
        about: "this version beside earlier ones that landed: streams, agents, files, archives, monitors, measurements",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        exists_with: "tests/versions.json",
        needs: &[Need::NetworkTools],
        steps: &[PROGRAMS, Step::Xtask(&["versions"])],
        ..TESTS
    },
    Suite {
        name: "soak",
        about: "streams that lose for twenty minutes: accounts close, and neither memory nor descriptors grow",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        needs: &[Need::NetworkTools],
        environment: &[("TALLYCAST_SOAK_SECONDS", "1200")],
        steps: &[PROGRAMS, Step::Tests(Targets::Named(&["soak"]), &["--nocapture", "--test-threads=1"])],
        ..TESTS
    },
    Suite {
        name: "lab",
        about: "for ten minutes nothing is lost beside a stranger whose reader loses nearly everything",
        lanes: &[Lane::Nightly],
        nature: Nature::Live,
        needs: &[Need::NetworkTools, Need::Nft],
        steps: &[PROGRAMS, Step::Built("loss-lab", &["--skip-without-root", "busy_long"])],
        ..CHECK
    },
    Suite {
        name: "fuzz",
        about: "every fuzz target for two minutes",
        lanes: &[Lane::Nightly],
        needs: &[Need::CxxCompiler],
        steps: &[Step::Xtask(&["fuzz", "--seconds", "120"])],
        ..TESTS
    },
];
