//! Set-up: determines what a run needs and this machine lacks, installs what it may, and reports all of it.
//!
//! Shared by `test`, `demo` and `page`. Without anything to do it takes a few milliseconds, so every run calls it.
//! If something cannot be installed (no root, no network, not Debian), the command to install it is printed, and
//! the caller continues without. Tools are a table ([`TOOLS`]); the page and the Pythons are built by their own
//! modules.

mod debian;
mod python;

use crate::page;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Instant;

pub(crate) use python::{BENCH, Environment, PACKAGE, READERS, WHEEL};

/// The oldest Node that builds the page.
const NODE_MAJOR: u32 = 20;

/// A requirement of a suite or the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Rustfmt,
    Clippy,
    Miri,
    CxxCompiler,
    LibUdt,
    Clang,
    NetworkTools,
    Nft,
    Valgrind,
    Iperf3,
    /// Another system for live data across long paths, beside which ours is measured.
    Srt,
    /// The same.
    Rist,
    Tmux,
    Chromium,
    Node,
    /// `web/node_modules` as in the lock file.
    NpmPackages,
    /// `web/dist`, newer than its sources.
    Page,
    PythonVenv,
    /// The broker for the tests of the MQTT bridge.
    Mosquitto,
    /// A virtual environment with the packages of `tests/archive-readers/requirements.txt`.
    PythonReaders,
    /// A virtual environment with the packages of `python/requirements-build.txt`.
    PythonWheel,
    /// A virtual environment with the packages of `python/requirements-test.txt`.
    PythonPackage,
    /// A virtual environment with the packages of `instruments/peers/python/requirements.txt`.
    PythonBench,
}

impl Need {
    /// Returns the need that must be met first.
    fn ground(self) -> Option<Self> {
        match self {
            Self::NpmPackages => Some(Self::Node),
            Self::Page => Some(Self::NpmPackages),
            Self::PythonReaders | Self::PythonWheel | Self::PythonPackage | Self::PythonBench => {
                Some(Self::PythonVenv)
            }
            Self::LibUdt => Some(Self::CxxCompiler),
            Self::Rustfmt
            | Self::Clippy
            | Self::Miri
            | Self::CxxCompiler
            | Self::Clang
            | Self::NetworkTools
            | Self::Nft
            | Self::Valgrind
            | Self::Iperf3
            | Self::Srt
            | Self::Rist
            | Self::Tmux
            | Self::Chromium
            | Self::Node
            | Self::PythonVenv
            | Self::Mosquitto => None,
        }
    }
}

/// A program that is either installed or not.
struct Tool {
    need: Need,
    name: &'static str,
    why: &'static str,
    /// Command that succeeds if the tool is installed.
    probe: &'static [&'static str],
    remedy: Remedy,
}

/// Way to install a missing tool.
#[derive(Clone, Copy)]
enum Remedy {
    DebianPackage(&'static str),
    RustupComponent(&'static str),
    ByHand(&'static str),
}

const TOOLS: &[Tool] = &[
    Tool {
        need: Need::Rustfmt,
        name: "rustfmt",
        why: "checks the layout of the sources",
        probe: &["cargo", "fmt", "--version"],
        remedy: Remedy::RustupComponent("rustfmt"),
    },
    Tool {
        need: Need::Clippy,
        name: "clippy",
        why: "keeps the floors and the lints",
        probe: &["cargo", "clippy", "--version"],
        remedy: Remedy::RustupComponent("clippy"),
    },
    Tool {
        need: Need::Miri,
        name: "Miri",
        why: "looks for undefined behaviour in the ring",
        probe: &["cargo", "miri", "--version"],
        remedy: Remedy::ByHand(
            "it comes with nightly toolchains: rustup toolchain install nightly --component miri",
        ),
    },
    Tool {
        need: Need::CxxCompiler,
        name: "a C++ compiler",
        why: "builds the fuzzers' engine",
        probe: &["c++", "--version"],
        remedy: Remedy::DebianPackage("g++"),
    },
    Tool {
        need: Need::LibUdt,
        name: "libudt",
        why: "is the other end of the reliable transport's tests",
        probe: &["sh", "-c", "echo '#include <udt/udt.h>' | c++ -E -x c++ - > /dev/null"],
        remedy: Remedy::DebianPackage("libudt-dev"),
    },
    Tool {
        need: Need::Clang,
        name: "clang",
        why: "compiles what looks at drops in the kernel",
        probe: &["sh", "-c", "clang --version || clang-14 --version"],
        remedy: Remedy::DebianPackage("clang"),
    },
    Tool {
        need: Need::NetworkTools,
        name: "ip and tc",
        why: "lay out the test networks",
        probe: &["ip", "-Version"],
        remedy: Remedy::DebianPackage("iproute2"),
    },
    Tool {
        need: Need::Nft,
        name: "nft",
        why: "plants losses in the laboratory",
        probe: &["nft", "--version"],
        remedy: Remedy::DebianPackage("nftables"),
    },
    Tool {
        need: Need::Valgrind,
        name: "valgrind",
        why: "counts instructions",
        probe: &["valgrind", "--version"],
        remedy: Remedy::DebianPackage("valgrind"),
    },
    Tool {
        need: Need::Iperf3,
        name: "iperf3",
        why: "talks to our own side of its protocol",
        probe: &["iperf3", "--version"],
        remedy: Remedy::DebianPackage("iperf3"),
    },
    Tool {
        need: Need::Srt,
        name: "srt-live-transmit",
        why: "is measured beside our relays",
        probe: &["srt-live-transmit", "-version"],
        remedy: Remedy::DebianPackage("srt-tools"),
    },
    Tool {
        need: Need::Rist,
        name: "ristsender",
        why: "is measured beside our relays",
        // It has no option that succeeds without a path to carry.
        probe: &["sh", "-c", "command -v ristsender"],
        remedy: Remedy::DebianPackage("rist-tools"),
    },
    Tool {
        need: Need::Tmux,
        name: "tmux",
        why: "is the terminal in which `tallycast top` is tested",
        probe: &["tmux", "-V"],
        remedy: Remedy::DebianPackage("tmux"),
    },
    Tool {
        need: Need::Chromium,
        name: "Chromium's headless shell",
        why: "shows the page to its tests",
        // A person may name another browser, as for the tests themselves (`web/test/page/browser.ts`). The full
        // browser works as well and takes twice the processor time.
        probe: &["sh", "-c", "\"${CHROMIUM:-chromium-headless-shell}\" --version || chromium --version"],
        remedy: Remedy::DebianPackage("chromium-headless-shell"),
    },
    Tool {
        need: Need::PythonVenv,
        name: "Python with venv",
        why: "reads the archive with other people's tools, and builds and tests the Python package",
        probe: &["python3", "-c", "import ensurepip, venv"],
        remedy: Remedy::DebianPackage("python3-venv"),
    },
    Tool {
        need: Need::Mosquitto,
        name: "mosquitto",
        why: "is the broker at the other end of the bridge to MQTT",
        // Debian installs it outside the usual PATH, and it has no option without an effect.
        probe: &["sh", "-c", "PATH=\"$PATH:/usr/sbin\"; command -v mosquitto"],
        remedy: Remedy::DebianPackage("mosquitto"),
    },
    Tool {
        need: Need::Node,
        name: "Node.js 20 or newer, with npm",
        why: "builds the page",
        probe: &["npm", "--version"],
        remedy: Remedy::ByHand(
            "install it from https://nodejs.org or, if new enough there: apt-get install nodejs npm",
        ),
    },
];

/// Function that meets a need; quick if it is met already.
type Build = fn() -> anyhow::Result<()>;

/// Needs that are built rather than installed, each after its prerequisite.
const BUILDS: &[(Need, Build)] = &[
    (Need::NpmPackages, page::install),
    (Need::Page, page::build),
    (Need::PythonReaders, || READERS.prepare()),
    (Need::PythonWheel, || WHEEL.prepare()),
    (Need::PythonPackage, || PACKAGE.prepare()),
    (Need::PythonBench, || BENCH.prepare()),
];

/// Result of a set-up.
#[derive(Debug, Default)]
pub(crate) struct Preparation {
    /// Unmet needs, each with the reason.
    pub(crate) missing: BTreeMap<Need, String>,
    /// Steps that should have worked here and failed.
    pub(crate) failures: Vec<String>,
}

impl Preparation {
    /// Returns why something with these needs cannot run; `None` if it can.
    pub(crate) fn obstacle(&self, needs: &[Need]) -> Option<&str> {
        needs.iter().find_map(|need| self.missing.get(need)).map(String::as_str)
    }

    fn lacks(&mut self, need: Need, reason: impl Into<String>) {
        self.missing.insert(need, reason.into());
    }

    /// Records a failed step: suites that need it are skipped, and the set-up itself has failed.
    fn failed(&mut self, need: Need, error: &anyhow::Error) {
        let failure = format!("{error:#}");
        say(&failure);
        self.lacks(need, failure.lines().next().unwrap_or_default());
        self.failures.push(failure);
    }
}

/// Meets as many of `needs` and their prerequisites as this machine allows.
pub(crate) fn prepare(needs: &[Need]) -> Preparation {
    let mut preparation = Preparation::default();
    let wanted = with_grounds(needs);
    let missing = TOOLS.iter().filter(|tool| wanted.contains(&tool.need) && !is_there(tool));
    install(missing, &mut preparation);
    for &(need, build) in BUILDS.iter().filter(|(need, _)| wanted.contains(need)) {
        build_on_ground(need, build, &mut preparation);
    }
    preparation
}

fn with_grounds(needs: &[Need]) -> BTreeSet<Need> {
    let chain = |&need: &Need| std::iter::successors(Some(need), |need| need.ground());
    needs.iter().flat_map(chain).collect()
}

/// Builds `need` if its prerequisite is met.
fn build_on_ground(need: Need, build: Build, preparation: &mut Preparation) {
    let obstacle = need.ground().and_then(|ground| preparation.missing.get(&ground)).cloned();
    if let Some(reason) = obstacle {
        preparation.lacks(need, reason);
    } else if let Err(error) = build() {
        preparation.failed(need, &error);
    }
}

fn install<'a>(missing: impl Iterator<Item = &'a Tool>, preparation: &mut Preparation) {
    let mut debian = Vec::new();
    for tool in missing {
        say(&format!("{} is missing ({})", tool.name, tool.why));
        match tool.remedy {
            Remedy::DebianPackage(package) => debian.push((tool, package)),
            Remedy::RustupComponent(component) => install_component(tool.need, component, preparation),
            Remedy::ByHand(how) => {
                say(how);
                preparation.lacks(tool.need, format!("{} is missing", tool.name));
            }
        }
    }
    let packages: Vec<&str> = debian.iter().map(|(_, package)| *package).collect();
    match debian::install(&packages) {
        debian::Outcome::Installed => {}
        debian::Outcome::NotAllowed => {
            for (tool, package) in debian {
                preparation.lacks(tool.need, format!("{} is missing (Debian package {package})", tool.name));
            }
        }
        debian::Outcome::Failed(error) => {
            for (tool, _) in debian {
                preparation.failed(tool.need, &error);
            }
        }
    }
}

fn install_component(need: Need, component: &str, preparation: &mut Preparation) {
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "add", component]);
    if let Err(error) = run_said(&mut rustup, &format!("adding the Rust component {component}")) {
        preparation.failed(need, &error);
    }
}

fn is_there(tool: &Tool) -> bool {
    let Some((program, arguments)) = tool.probe.split_first() else { return true };
    let answer = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let found = answer.is_ok_and(|output| output.status.success());
    found && (tool.need != Need::Node || node_is_new_enough())
}

fn node_is_new_enough() -> bool {
    let Ok(output) = Command::new("node").arg("--version").stdin(Stdio::null()).output() else {
        return false;
    };
    let version = String::from_utf8_lossy(&output.stdout);
    let major = node_major(&version);
    if let Some(old) = major.filter(|&major| major < NODE_MAJOR) {
        say(&format!("Node.js {old} is too old; the page needs {NODE_MAJOR} or newer"));
    }
    major.is_some_and(|major| major >= NODE_MAJOR)
}

/// Returns the 20 of `v20.20.2`.
fn node_major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// Runs a command of the set-up: prints the command and its purpose, streams its output to standard error, prints
/// its duration.
pub(crate) fn run_said(command: &mut Command, what: &str) -> anyhow::Result<()> {
    say(&format!("{what} …"));
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let shown = command_line(command);
    match status {
        Ok(status) if status.success() => {
            say(&format!("{what}: done in {:.1} s", began.elapsed().as_secs_f64()));
            Ok(())
        }
        Ok(status) => anyhow::bail!("{what} failed ({status})\n  by hand: {shown}"),
        Err(error) => anyhow::bail!("{what} failed ({error})\n  by hand: {shown}"),
    }
}

/// Returns the command as a person would type it at the root of the workspace.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let typed = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    match command.get_current_dir() {
        Some(folder) if folder != crate::workspace::root() => {
            format!("cd {} && {typed}", crate::workspace::relative(folder))
        }
        _ => typed,
    }
}

/// Prints a message for the user on standard error; standard output belongs to the results.
pub(crate) fn say(words: &str) {
    eprintln!("set-up: {words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_node_is_read() {
        assert_eq!(node_major("v20.20.2\n"), Some(20));
        assert_eq!(node_major("v8.1.0"), Some(8));
        assert_eq!(node_major("command not found"), None);
    }

    #[test]
    fn an_obstacle_is_told_only_to_those_who_need_it() {
        let mut preparation = Preparation::default();
        preparation.lacks(Need::Chromium, "Chromium is missing");
        assert_eq!(preparation.obstacle(&[Need::Node, Need::Chromium]), Some("Chromium is missing"));
        assert_eq!(preparation.obstacle(&[Need::Node]), None);
    }

    #[test]
    fn what_stands_on_something_missing_is_missing_for_the_same_reason() {
        let mut preparation = Preparation::default();
        preparation.lacks(Need::Node, "Node.js is missing");
        for need in [Need::NpmPackages, Need::Page] {
            build_on_ground(need, || panic!("built without its ground"), &mut preparation);
        }
        assert_eq!(preparation.obstacle(&[Need::Page]), Some("Node.js is missing"));
        assert!(preparation.failures.is_empty());
    }

    #[test]
    fn a_need_brings_what_it_stands_on() {
        let expected = BTreeSet::from([Need::Node, Need::NpmPackages, Need::Page]);
        assert_eq!(with_grounds(&[Need::Page]), expected);
    }

    #[test]
    fn a_step_that_fails_is_told_and_counted() {
        let mut preparation = Preparation::default();
        build_on_ground(Need::NpmPackages, || anyhow::bail!("npm ci failed\n  by hand"), &mut preparation);
        assert_eq!(preparation.obstacle(&[Need::NpmPackages]), Some("npm ci failed"));
        assert_eq!(preparation.failures.len(), 1);
    }
}
