//! Packages that cargo builds for the suites: always the same.
//!
//! Dependencies are built with the union of the features that the selected packages request. Another selection,
//! such as one package for one suite, would change features of some dependency and rebuild everything above it. So
//! suites select among test programs, and never among packages.

use crate::workspace::{Metadata, Package, cargo};
use std::process::Command;

/// Packages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The whole workspace.
    Everything,
    /// The product: the command is built without the verbs of the instruments, and no package of an instrument is
    /// tested.
    Product,
}

/// The Python module: NumPy's crates would change the features of all the rest, which nothing else needs.
const PYTHON: &str = "tallycast-python";

/// The command's test program for the verbs that measure.
const INSTRUMENTS: &str = "instruments";

/// Folders of packages that are not the product's.
const BEYOND_THE_PRODUCT: [&str; 4] = ["instruments/", "tests/e2e/", "tests/interop/", "tests/loss-lab/"];

impl Scope {
    /// Returns whether a run builds and tests a package.
    fn has(self, package: &Package) -> bool {
        let is_beyond =
            |manifest: String| BEYOND_THE_PRODUCT.iter().any(|folder| manifest.starts_with(folder));
        self == Self::Everything || !is_beyond(package.manifest())
    }

    /// Returns cargo's arguments that select the packages, without those named.
    fn arguments<'a>(self, metadata: &'a Metadata, but: &[&'a str]) -> Vec<&'a str> {
        let others = metadata.packages.iter().filter(|package| !self.has(package)).map(|it| it.name.as_str());
        let excluded = but.iter().copied().chain(others).flat_map(|name| ["--exclude", name]);
        let features = (self == Self::Product).then_some("--no-default-features");
        std::iter::once("--workspace").chain(features).chain(excluded).collect()
    }
}

/// Test programs of the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Targets {
    /// Unit tests of every library and program, and the test programs of every package but these.
    AllBut(&'static [&'static str]),
    /// The test programs of these packages.
    Of(&'static [&'static str]),
    /// The test programs with these names, in every package that has one.
    Named(&'static [&'static str]),
}

/// Runs cargo's `command` for the packages that are built together.
pub(crate) fn of_workspace(metadata: &Metadata, scope: Scope, command: &str, arguments: &[&str]) -> Command {
    let mut cargo = cargo();
    cargo.arg(command).args(scope.arguments(metadata, &[PYTHON])).args(arguments);
    cargo
}

/// Runs clippy over every target.
pub(crate) fn lint(metadata: &Metadata, scope: Scope) -> Command {
    let mut cargo = cargo();
    cargo.arg("clippy").args(scope.arguments(metadata, &[])).args(["--all-targets", "--", "-D", "warnings"]);
    cargo
}

/// Runs test programs, each with `arguments`; continues after a failure.
pub(crate) fn tests(metadata: &Metadata, scope: Scope, targets: Targets, arguments: &[&str]) -> Command {
    let mut cargo = of_targets(metadata, scope, targets, "--no-fail-fast");
    cargo.arg("--").args(arguments);
    cargo
}

/// Builds test programs and runs none.
pub(crate) fn builds(metadata: &Metadata, scope: Scope, targets: Targets) -> Command {
    of_targets(metadata, scope, targets, "--no-run")
}

fn of_targets(metadata: &Metadata, scope: Scope, targets: Targets, option: &str) -> Command {
    let mut cargo = of_workspace(metadata, scope, "test", &[option]);
    if let Targets::AllBut(_) = targets {
        cargo.args(["--lib", "--bins"]);
    }
    for name in names(metadata, scope, targets) {
        cargo.args(["--test", name]);
    }
    cargo
}

/// Returns the names of test programs, without duplicates.
fn names(metadata: &Metadata, scope: Scope, targets: Targets) -> Vec<&str> {
    let packages = || metadata.packages.iter().filter(|package| scope.has(package));
    let of = |is_wanted: &dyn Fn(&Package) -> bool| {
        packages().filter(|package| is_wanted(package)).flat_map(test_programs).collect()
    };
    let mut names: Vec<&str> = match targets {
        Targets::AllBut(others) => of(&|package| !others.contains(&package.name.as_str())),
        Targets::Of(wanted) => of(&|package| wanted.contains(&package.name.as_str())),
        Targets::Named(names) => names.to_vec(),
    };
    names.retain(|name| scope == Scope::Everything || *name != INSTRUMENTS);
    names.sort_unstable();
    names.dedup();
    names
}

fn test_programs(package: &Package) -> impl Iterator<Item = &str> {
    let is_test = |kind: &String| kind == "test";
    package
        .targets
        .iter()
        .filter(move |target| target.kind.iter().any(is_test))
        .map(|target| target.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::{Step, all};
    use super::*;

    /// cargo selects test programs by name alone, independent of their package.
    #[test]
    fn no_suite_runs_a_test_program_of_another_for_its_name() {
        let metadata = Metadata::load().unwrap();
        let holders = |name: &str| {
            let has = |package: &&Package| test_programs(package).any(|it| it == name);
            metadata.packages.iter().filter(has).map(|package| package.name.as_str()).collect::<Vec<_>>()
        };
        for suite in all() {
            for step in suite.steps {
                let Step::Tests(targets, _) = step else { continue };
                let programs = names(&metadata, Scope::Everything, *targets);
                assert!(!programs.is_empty(), "{} tests nothing", suite.name);
                for name in programs {
                    let is_meant = |package: &&str| match targets {
                        Targets::AllBut(others) => !others.contains(package),
                        Targets::Of(packages) => packages.contains(package),
                        Targets::Named(_) => true,
                    };
                    let holders = holders(name);
                    assert!(!holders.is_empty(), "{}: there is no test program `{name}`", suite.name);
                    assert!(holders.iter().all(is_meant), "rename `{name}`: it is of {holders:?}");
                }
            }
        }
    }

    #[test]
    fn unit_tests_come_with_all_and_only_named_programs_without() {
        let metadata = Metadata::load().unwrap();
        let line = |targets, arguments| {
            let command = tests(&metadata, Scope::Everything, targets, arguments);
            command.get_args().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let all = line(Targets::AllBut(&["e2e"]), &[]);
        assert!(
            all.contains(" --lib --bins ") && all.contains(" --test cli ") && !all.contains(" link "),
            "{all}"
        );
        let command = line(Targets::Named(&["cli"]), &["top::"]);
        let expected = "test --workspace --exclude tallycast-python --no-fail-fast --test cli -- top::";
        assert_eq!(command, expected);
    }

    #[test]
    fn the_product_has_no_instrument() {
        let metadata = Metadata::load().unwrap();
        let command = tests(&metadata, Scope::Product, Targets::AllBut(&[]), &[]);
        let line =
            command.get_args().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
        for excluded in ["tallycast-bench", "tallycast-peers", "e2e", "tallycast-python"] {
            assert!(line.contains(&format!(" --exclude {excluded} ")), "{line}");
        }
        assert!(line.contains(" --no-default-features ") && line.contains(" --test archive "), "{line}");
        assert!(!line.contains(" --test relay ") && !line.contains(" --test instruments "), "{line}");
    }
}
