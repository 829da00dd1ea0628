//! Suites of `cargo xtask test`, as data: each suite's name, when it runs, its needs and its commands.
//!
//! A suite whose folder does not exist is left out; one with unmet needs is skipped and counted. Add a suite here,
//! or in [`nightly`] if it takes long by nature, and nowhere else; `runner` runs suites, `setup` meets needs, and
//! [`selection`] chooses the packages that cargo builds for them.

mod nightly;
mod selection;

use crate::setup::{Environment, Need, PACKAGE, READERS};
use crate::workspace::root;

pub(crate) use selection::{Scope, Targets, builds, lint, of_workspace, tests};

/// A group of tests with its own row in the final table.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Purpose of the suite, for the user.
    pub(crate) about: &'static str,
    pub(crate) lanes: &'static [Lane],
    pub(crate) nature: Nature,
    /// File without which the suite does not exist (yet).
    pub(crate) exists_with: &'static str,
    pub(crate) needs: &'static [Need],
    /// Optional needs of some of its tests, which report when they skip without them.
    pub(crate) wants: &'static [Need],
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) steps: &'static [Step],
    pub(crate) counting: Counting,
}

/// A run that a suite may belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// `--fast`.
    Fast,
    /// `--core`: the product without the instruments.
    Core,
    /// Everything but the night.
    Full,
    /// `--nightly`.
    Nightly,
}

impl Lane {
    /// Returns the packages that a run builds and tests.
    pub(crate) fn scope(self) -> Scope {
        if self == Self::Core { Scope::Product } else { Scope::Everything }
    }
}

/// Every run by day.
const BY_DAY: &[Lane] = &[Lane::Fast, Lane::Core, Lane::Full];

/// Dependence of a suite's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Depends on its inputs alone: it computes, or reads files.
    Computed,
    /// Depends on time, too: it has sockets, clocks, processes or browsers. Under load it runs [`RUNS_UNDER_LOAD`]
    /// times.
    Live,
}

/// Runs of a live suite under load: a timing-dependent test seldom fails the first time.
const RUNS_UNDER_LOAD: u32 = 3;

impl Suite {
    /// Returns the number of runs with busy loops.
    pub(crate) fn runs_under_load(&self) -> u32 {
        match self.nature {
            Nature::Computed => 1,
            Nature::Live => RUNS_UNDER_LOAD,
        }
    }
}

/// One command of a suite; the first failure ends the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A command of this program, in a separate process.
    Xtask(&'static [&'static str]),
    /// clippy for every target of the packages of the run; a warning is an error.
    Lint,
    /// cargo with these arguments, at the root.
    Cargo(&'static [&'static str]),
    /// cargo with this command and these arguments, for the packages that are built together.
    Workspace(&'static str, &'static [&'static str]),
    /// Rust tests of those packages, with arguments for their programs.
    Tests(Targets, &'static [&'static str]),
    /// A program that a previous step has built, by its path below `target/debug`, at the root.
    Built(&'static str, &'static [&'static str]),
    /// npm with these arguments, in `web/`.
    Npm(&'static [&'static str]),
    /// The Python of a virtual environment with these arguments, at the root.
    Python(Environment, &'static [&'static str]),
}

/// Source of a suite's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The suite is one check.
    OneCheck,
    /// Its output contains the numbers of tests.
    Printed,
}

/// Every suite, in the order in which they run: quick refusals first.
const SUITES: &[Suite] = &[
    Suite {
        name: "tidy",
        about: "tiers, floors, names, comments, pages",
        steps: &[Step::Xtask(&["tidy"])],
        counting: Counting::OneCheck,
        ..CHECK
    },
    Suite {
        name: "fmt",
        about: "every file as rustfmt would write it",
        needs: &[Need::Rustfmt],
        steps: &[Step::Cargo(&["fmt", "--all", "--check"])],
        ..CHECK
    },
    Suite {
        name: "clippy",
        about: "every target without a warning, the pure floor without clock or I/O",
        needs: &[Need::Clippy],
        steps: &[Step::Lint],
        ..CHECK
    },
    Suite {
        name: "unit",
        about: "unit and property tests of every crate",
        // The simulation has its own suite; here a few seeds show that it builds and runs.
        environment: &[("TALLYCAST_SEEDS", "5")],
        steps: &[Step::Tests(Targets::AllBut(&["contract", "e2e", "interop"]), &["--show-output"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "simulation",
        about: "the stream machine over a simulated network, 200 fixed seeds",
        lanes: &[Lane::Fast, Lane::Core],
        exists_with: "crates/pure/cast/tests/seeds.rs",
        environment: &[("TALLYCAST_SEEDS", "200"), ("TALLYCAST_FIRST_SEED", "0")],
        steps: &[SIMULATION],
        ..TESTS
    },
    Suite {
        name: "simulation",
        about: "the stream machine and the reliable transport over a simulated network, 2,000 seeds each",
        lanes: &[Lane::Full],
        exists_with: "crates/pure/cast/tests/seeds.rs",
        environment: &[("TALLYCAST_SEEDS", "2000"), ("TALLYCAST_FIRST_SEED", "0")],
        steps: &[SIMULATION],
        ..TESTS
    },
    Suite {
        name: "model",
        about: "the ring under every interleaving that the memory model allows, by loom",
        lanes: &[Lane::Full],
        exists_with: "crates/edge/ring/tests/loom.rs",
        environment: &[("RUSTFLAGS", "--cfg loom")],
        // A separate build folder, because other flags would rebuild everything else. Optimised: it explores
        // hundreds of thousands of runs.
        steps: &[Step::Cargo(&[
            "test",
            "--package",
            "tallycast-ring",
            "--test",
            "loom",
            "--release",
            "--target-dir",
            "target/loom",
        ])],
        ..TESTS
    },
    Suite {
        name: "miri",
        about: "the ring's algorithm under Miri, where a toolchain offers it",
        lanes: &[Lane::Full],
        exists_with: "crates/edge/ring/tests/model.rs",
        needs: &[Need::Miri],
        // Miri has no shared memory and no futex for several words, so it tests the ring on the heap, with one thread.
        steps: &[Step::Cargo(&[
            "miri",
            "test",
            "--package",
            "tallycast-ring",
            "--test",
            "model",
            "--target-dir",
            "target/miri",
            "--",
            "--skip",
            "every_read_agrees",
        ])],
        ..TESTS
    },
    Suite {
        name: "doctests",
        about: "the examples in the documentation",
        lanes: &[Lane::Full],
        steps: &[Step::Workspace("test", &["--doc", "--no-fail-fast"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "rustdoc",
        about: "the documentation builds without a warning",
        lanes: &[Lane::Full],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        // Libraries only: the binary `tallycast` and the library of that name would write the same pages.
        steps: &[Step::Cargo(&["doc", "--workspace", "--no-deps", "--lib"])],
        ..CHECK
    },
    Suite {
        name: "binary",
        about: "the command `tallycast`, the laboratory and the examples, which the next suites run",
        lanes: &[Lane::Full],
        steps: &[PROGRAMS],
        ..CHECK
    },
    Suite {
        name: "counts",
        about: "a datagram costs no more instructions than the table says",
        lanes: &[Lane::Full],
        exists_with: "instruments/peers/counts.toml",
        needs: &[Need::Valgrind],
        steps: &[Step::Xtask(&["counts"])],
        ..CHECK
    },
    Suite {
        name: "web",
        about: "types and unit tests of the page",
        lanes: &[Lane::Full],
        exists_with: "web/package.json",
        needs: &[Need::NpmPackages],
        steps: &[Step::Npm(&["run", "check"]), Step::Npm(&["test"])],
        ..TESTS
    },
    Suite {
        name: "contract",
        about: "one behaviour over every reach",
        lanes: &[Lane::Core, Lane::Full],
        exists_with: "tests/contract/Cargo.toml",
        steps: &[Step::Tests(Targets::Of(&["contract"]), &["--show-output"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "e2e",
        about: "whole processes over real multicast, in network namespaces where allowed",
        lanes: &[Lane::Full],
        exists_with: "tests/e2e/Cargo.toml",
        needs: &[Need::NetworkTools],
        // One after the other, so that each has the machine's two cores for its real rates.
        steps: &[PROGRAMS, Step::Tests(Targets::Of(&["e2e"]), &["--nocapture", "--test-threads=1"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "lab",
        about: "every class of loss planted, and named by the doctor: with privilege, and by counters without",
        lanes: &[Lane::Full],
        exists_with: "tests/loss-lab/Cargo.toml",
        needs: &[Need::NetworkTools, Need::Nft],
        steps: &[
            PROGRAMS,
            Step::Built("loss-lab", &["--skip-without-root"]),
            Step::Built("loss-lab", &["--skip-without-root", "--nobody"]),
        ],
        nature: Nature::Live,
        ..CHECK
    },
    Suite {
        name: "hook",
        // The suite `unit` has these tests too; this one ensures that there is a compiler.
        about: "the hook in the kernel: drops named one by one, and the object that is shipped",
        lanes: &[Lane::Full],
        exists_with: "crates/edge/bpf/src/hook.bpf.c",
        needs: &[Need::Clang],
        steps: &[Step::Tests(Targets::Of(&["tallycast-bpf"]), &["--show-output"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "interop",
        about: "our reliable transport and Debian's libudt as each other's peers",
        lanes: &[Lane::Full],
        exists_with: "tests/interop/Cargo.toml",
        needs: &[Need::LibUdt],
        steps: &[Step::Tests(Targets::Of(&["interop"]), &["--show-output"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "iperf3",
        // The suite `unit` has these tests too, if iperf3 is installed; this one ensures that it is.
        about: "the bench and iperf3 as each other's client and server",
        lanes: &[Lane::Full],
        exists_with: "crates/app/cli/tests/instruments/iperf3.rs",
        needs: &[Need::Iperf3],
        steps: &[Step::Tests(Targets::Named(&["instruments"]), &["--show-output", "iperf3::"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "top",
        // The suite `unit` has these tests too, if tmux is installed; this one ensures that it is.
        about: "the terminal view in a terminal",
        lanes: &[Lane::Full],
        exists_with: "crates/app/cli/tests/cli/top.rs",
        needs: &[Need::Tmux],
        steps: &[Step::Tests(Targets::Named(&["cli"]), &["--show-output", "top::"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "readers",
        // Before the suite `page`, which rebuilds the page: the command, which contains it, would be built again.
        about: "pyarrow and DuckDB read the archive as it lies",
        lanes: &[Lane::Full],
        exists_with: "tests/archive-readers/requirements.txt",
        needs: &[Need::PythonReaders],
        steps: &[
            // A new folder every time: an existing archive would be continued.
            Step::Python(
                READERS,
                &["-c", "import shutil; shutil.rmtree('target/sample-archive', ignore_errors=True)"],
            ),
            PROGRAMS,
            Step::Built("examples/sample_archive", &["target/sample-archive"]),
            Step::Python(READERS, &["tests/archive-readers/test_readers.py", "target/sample-archive"]),
        ],
        ..CHECK
    },
    Suite {
        name: "python",
        // Before the suite `page`, for the same reason.
        about: "the Python package from its wheel: behaviour, types, examples, empty environments",
        lanes: &[Lane::Full],
        exists_with: "python/tests/conftest.py",
        needs: &[Need::PythonWheel, Need::PythonPackage],
        wants: &[Need::Page, Need::Mosquitto, Need::NetworkTools],
        steps: &[
            Step::Xtask(&["wheel", "--profile", "dev", "--sdist", "--install", "target/python-venv"]),
            // Most tests wait for real time, a process, a peer: several run at once, each on its own buses and ports.
            Step::Python(PACKAGE, &["-m", "pytest", "python/tests", "-q", "-rfEs", "-n", "3"]),
            Step::Python(
                PACKAGE,
                &["-m", "pytest", "--pyargs", "tallycast", "--doctest-modules", "-q", "-rfEs"],
            ),
        ],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "page",
        about: "the real page on the real demo in headless Chromium",
        lanes: &[Lane::Full],
        exists_with: "web/package.json",
        needs: &[Need::Page, Need::Chromium],
        // The command contains the page, which may have been built since.
        steps: &[PROGRAMS, Step::Npm(&["run", "test:page"])],
        nature: Nature::Live,
        ..TESTS
    },
    Suite {
        name: "fuzz",
        about: "the fuzz targets compile",
        lanes: &[Lane::Full],
        exists_with: "fuzz/Cargo.toml",
        needs: &[Need::CxxCompiler],
        // Outside the workspace: their common dependencies are checked already.
        steps: &[Step::Cargo(&["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"])],
        ..CHECK
    },
];

/// Built like the unit tests: these few seeds take less time than an optimised build.
const SIMULATION: Step = Step::Tests(Targets::Named(&["seeds", "secured"]), &[]);

/// Builds the command under test, the laboratory, and every example. After the suite `binary` nothing else is
/// built.
///
/// Examples enable features that tests need: without them the common dependencies would be built again.
const PROGRAMS: Step = Step::Workspace("build", &["--bin", "tallycast", "--bin", "loss-lab", "--examples"]);

const CHECK: Suite = Suite {
    name: "",
    about: "",
    lanes: BY_DAY,
    nature: Nature::Computed,
    exists_with: "Cargo.toml",
    needs: &[],
    wants: &[],
    environment: &[],
    steps: &[],
    counting: Counting::OneCheck,
};

const TESTS: Suite = Suite { counting: Counting::Printed, ..CHECK };

/// Returns the suites of one run: those of its lane that exist, or only the named ones if any are named.
pub(crate) fn planned(lane: Lane, only: &[String]) -> Vec<&'static Suite> {
    let of_lane = |suite: &&Suite| suite.lanes.contains(&lane);
    let wanted = |suite: &&Suite| only.is_empty() || only.iter().any(|name| name == suite.name);
    let exists = |suite: &&Suite| root().join(suite.exists_with).is_file();
    all().filter(of_lane).filter(wanted).filter(exists).collect()
}

/// Returns all suites of all lanes.
pub(crate) fn all() -> impl Iterator<Item = &'static Suite> {
    SUITES.iter().chain(nightly::SUITES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_lane_has_every_name_once() {
        for lane in [Lane::Fast, Lane::Core, Lane::Full, Lane::Nightly] {
            let names: Vec<&str> = planned(lane, &[]).iter().map(|suite| suite.name).collect();
            assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len(), "{names:?}");
        }
    }

    #[test]
    fn every_suite_says_what_it_proves_and_does_something() {
        assert!(all().all(|suite| !suite.about.is_empty() && !suite.steps.is_empty()));
    }

    #[test]
    fn the_inner_loop_and_the_product_need_nothing_but_rust() {
        let suites = [Lane::Fast, Lane::Core].into_iter().flat_map(|lane| planned(lane, &[]));
        let needs: BTreeSet<Need> = suites.flat_map(|suite| suite.needs).copied().collect();
        assert!(needs.iter().all(|need| [Need::Rustfmt, Need::Clippy].contains(need)), "{needs:?}");
    }

    #[test]
    fn a_night_has_only_what_takes_long_and_other_runs_have_none_of_it() {
        assert!(planned(Lane::Nightly, &[]).iter().all(|suite| suite.lanes == [Lane::Nightly]));
        for lane in BY_DAY.iter().copied() {
            assert!(planned(lane, &[]).iter().all(|suite| suite.lanes != [Lane::Nightly]));
        }
    }

    #[test]
    fn what_is_live_runs_several_times_under_load() {
        let runs = |name: &str| planned(Lane::Full, &[name.to_owned()])[0].runs_under_load();
        assert_eq!((runs("unit"), runs("e2e"), runs("tidy"), runs("simulation")), (3, 3, 1, 1));
    }

    #[test]
    fn only_named_suites_are_planned_when_names_are_given() {
        let names: Vec<&str> =
            planned(Lane::Fast, &["fmt".to_owned()]).iter().map(|suite| suite.name).collect();
        assert_eq!(names, ["fmt"]);
    }
}
