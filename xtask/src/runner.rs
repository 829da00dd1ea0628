//! `cargo xtask test`: runs the suites one after the other and continues after a failure.
//!
//! They run one at a time because small machines have two cores and several suites need both for real data rates.
//! Each suite's full output is kept below `target/xtask`; failures are shown.

use crate::counts::{Counts, Reading};
use crate::load::Load;
use crate::nightly::Nightly;
use crate::report::{Outcome, Report};
use crate::setup::{self, Need, Preparation};
use crate::suites::{self, Counting, Lane, Scope, Step, Suite};
use crate::workspace::{Metadata, cargo, root};
use crate::{Verdict, page, process};
use anyhow::{Context, bail};
use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Environment variable for the number of threads of cargo's test programs.
const TEST_THREADS: &str = "RUST_TEST_THREADS";
/// Maximum number of lines shown of a failed suite's output; the rest is in its log.
const SHOWN_LINES: usize = 300;

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only the inner loop: tidy, fmt, clippy, unit and property tests, fixed-seed simulation. Installs nothing.
    #[arg(long, conflicts_with = "nightly")]
    fast: bool,
    /// Run the product without the instruments: the inner loop, and one behaviour over every reach. Installs nothing.
    #[arg(long, conflicts_with_all = ["fast", "nightly"])]
    core: bool,
    /// Run with busy loops, one per processor and two at least: suites with sockets, clocks, processes or browsers
    /// three times.
    #[arg(long, conflicts_with = "nightly")]
    under_load: bool,
    /// Run the long suites, such as 100,000 seeds and minutes of fuzzing; write the results to tests/nightly.json.
    #[arg(long)]
    nightly: bool,
    /// Only these suites, such as `unit` or `page`.
    #[arg(value_name = "SUITE")]
    only: Vec<String>,
    /// List the suites instead of running them.
    #[arg(long)]
    list: bool,
}

impl Options {
    fn lane(&self) -> Lane {
        match (self.fast, self.core, self.nightly) {
            (true, ..) => Lane::Fast,
            (_, true, _) => Lane::Core,
            (.., true) => Lane::Nightly,
            _ => Lane::Full,
        }
    }
}

/// Runs the requested suites and prints the report.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let lane = options.lane();
    refuse_unknown(lane, &options.only)?;
    let suites = suites::planned(lane, &options.only);
    if options.list {
        suites.iter().for_each(|suite| println!("{:<12} {}", suite.name, suite.about));
        return Ok(Verdict::Fine);
    }
    let metadata = Metadata::load()?;
    let runner = Runner {
        logs: metadata.target_directory.join("xtask"),
        built: metadata.target_directory.join("debug"),
        scope: lane.scope(),
        metadata,
    };
    std::fs::create_dir_all(&runner.logs)?;
    let mut night = options.nightly.then(Nightly::begin).transpose()?;

    let (set_up, preparation) = prepare(&suites);
    let mut outcomes = vec![set_up];
    if options.under_load {
        outcomes.push(runner.build(&suites)?);
    }
    let load = options.under_load.then(Load::start);
    for suite in suites {
        let runs = if options.under_load { suite.runs_under_load() } else { 1 };
        for name in names(suite.name, runs) {
            let outcome = runner.run(suite, name, &preparation)?;
            if let Some(night) = &mut night {
                night.record(&outcome)?;
            }
            outcomes.push(outcome);
        }
    }
    drop(load);
    let report = Report(outcomes);
    println!("\n{report}");
    Ok(if report.is_fine() { Verdict::Fine } else { Verdict::FoundSomething })
}

/// Returns the names of a suite's runs: the suite's own name if there is one run.
fn names(suite: &str, runs: u32) -> Vec<String> {
    match runs {
        1 => vec![suite.to_owned()],
        _ => (1..=runs).map(|run| format!("{suite} {run}/{runs}")).collect(),
    }
}

fn refuse_unknown(lane: Lane, names: &[String]) -> anyhow::Result<()> {
    let night = if lane == Lane::Nightly { "--nightly " } else { "" };
    let is_of_night = |suite: &Suite| suite.lanes == [Lane::Nightly];
    let is_known = |name: &str| {
        suites::all().any(|suite| suite.name == name && is_of_night(suite) == (lane == Lane::Nightly))
    };
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => bail!("unknown suite `{name}`; `cargo xtask test {night}--list` lists them"),
        None => Ok(()),
    }
}

/// Sets up for all suites at once; the set-up has its own row for its time and failures.
fn prepare(suites: &[&Suite]) -> (Outcome, Preparation) {
    let began = Instant::now();
    let needs: Vec<Need> =
        suites.iter().flat_map(|suite| suite.needs.iter().chain(suite.wants)).copied().collect();
    let preparation = setup::prepare(&needs);
    let counts = Counts { failed: preparation.failures.len() as u64, ..Counts::default() };
    (Outcome { name: "set-up".to_owned(), elapsed: began.elapsed(), counts, log: None }, preparation)
}

struct Runner {
    /// Folder of the logs.
    logs: PathBuf,
    /// Folder of the built programs, including the command under test.
    built: PathBuf,
    /// Packages that are built and tested.
    scope: Scope,
    metadata: Metadata,
}

impl Runner {
    /// Builds the programs of the suites before the load starts: under load it would take three times as long.
    ///
    /// Build failures are reported by the suites that need the programs.
    fn build(&self, suites: &[&Suite]) -> anyhow::Result<Outcome> {
        println!("build: the programs of all suites, before the load begins");
        let began = Instant::now();
        let mut log = File::create(self.logs.join("build.log"))?;
        for step in suites.iter().flat_map(|suite| suite.steps) {
            if let Some(mut command) = self.building(step) {
                process::run_logged(command.env("CARGO_TERM_COLOR", "never"), "build", &mut log, |_| ())?;
            }
        }
        Ok(Outcome {
            name: "build".to_owned(),
            elapsed: began.elapsed(),
            counts: Counts::default(),
            log: None,
        })
    }

    fn of_workspace(&self, command: &str, arguments: &[&str]) -> Command {
        suites::of_workspace(&self.metadata, self.scope, command, arguments)
    }

    /// Returns the build command of a step.
    fn building(&self, step: &Step) -> Option<Command> {
        match step {
            Step::Tests(targets, _) => Some(suites::builds(&self.metadata, self.scope, *targets)),
            Step::Workspace(command @ "build", arguments) => Some(self.of_workspace(command, arguments)),
            _ => None,
        }
    }

    /// Runs one suite, under a separate name if it runs several times, and returns its result.
    fn run(&self, suite: &Suite, name: String, preparation: &Preparation) -> anyhow::Result<Outcome> {
        println!("{name}: {}", suite.about);
        let began = Instant::now();
        let log = self.logs.join(format!("{}.log", name.replace(' ', "-").replace('/', "-of-")));
        let (counts, log) = match preparation.obstacle(suite.needs) {
            Some(obstacle) => (Counts::one_skipped(obstacle), None),
            None => (self.run_steps(suite, &log)?, Some(log)),
        };
        let outcome = Outcome { name, elapsed: began.elapsed(), counts, log };
        println!("  {} in {:.1} s: {}", outcome.word(), outcome.elapsed.as_secs_f64(), outcome.summary());
        if let Some(log) = outcome.log.as_deref().filter(|_| outcome.counts.failed > 0) {
            show_end(log)?;
        }
        Ok(outcome)
    }

    /// Runs the steps up to the first failure, and counts.
    fn run_steps(&self, suite: &Suite, path: &Path) -> anyhow::Result<Counts> {
        let mut log = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut reading = Reading::default();
        let mut success = true;
        for step in suite.steps {
            let mut command = self.command(step)?;
            command.envs(suite.environment.iter().copied());
            let ended =
                process::run_logged(&mut command, suite.name, &mut log, |line| reading.read_line(line));
            success = match ended {
                Ok(status) => status.success(),
                Err(error) => {
                    let what = format!("{}: {error}", command.get_program().display());
                    writeln!(log, "{what}")?;
                    reading.failed(&what);
                    false
                }
            };
            if !success {
                break;
            }
        }
        Ok(counts_of(suite.counting, reading.finish(success), success))
    }

    fn command(&self, step: &Step) -> anyhow::Result<Command> {
        let mut command = match step {
            Step::Xtask(arguments) => {
                let mut command =
                    Command::new(std::env::current_exe().context("cannot find the path of xtask")?);
                command.args(*arguments);
                command
            }
            Step::Cargo(arguments) => {
                let mut command = cargo();
                command.args(*arguments);
                command
            }
            Step::Lint => suites::lint(&self.metadata, self.scope),
            Step::Workspace(command, arguments) => self.of_workspace(command, arguments),
            Step::Tests(targets, arguments) => suites::tests(&self.metadata, self.scope, *targets, arguments),
            Step::Built(program, arguments) => {
                let mut command = Command::new(self.built.join(program));
                command.args(*arguments).current_dir(root());
                command
            }
            Step::Npm(arguments) => page::npm(arguments),
            Step::Python(environment, arguments) => environment.python(arguments),
        };
        // Tests in other languages and packages find the command under test by these variables.
        command.env("TALLYCAST_BIN", self.built.join("tallycast")).env("CARGO_TERM_COLOR", "never");
        if std::env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, test_threads().to_string());
        }
        Ok(command)
    }
}

/// Returns the number of parallel tests: tests over real sockets mostly wait for real time.
fn test_threads() -> usize {
    3 * std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Counts a failed command as a failure even without a failed test: it may not have been built.
///
/// A single check may report skipped and failed parts.
fn counts_of(counting: Counting, printed: Counts, success: bool) -> Counts {
    let Counts { ref reasons, ref failures, .. } = printed;
    let with_parts = |check: Counts| {
        let (reasons, failures) = (reasons.clone(), failures.clone());
        Counts { skipped: reasons.values().sum(), reasons, failures, ..check }
    };
    match (counting, success) {
        (Counting::OneCheck, true) => with_parts(Counts::one_passed()),
        (Counting::OneCheck, false) => with_parts(Counts::one_failed()),
        (Counting::Printed, true) => printed,
        (Counting::Printed, false) => Counts { failed: printed.failed.max(1), ..printed },
    }
}

/// Prints the part of a log about failures, at most the last [`SHOWN_LINES`].
fn show_end(log: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(log)?;
    let lines = relevant_lines(&text);
    let hidden = lines.len().saturating_sub(SHOWN_LINES);
    if hidden > 0 {
        println!("  | … {hidden} lines before these are in the log");
    }
    for line in &lines[hidden..] {
        println!("  | {line}");
    }
    Ok(())
}

/// Returns the lines of a log without cargo test's lines about passed tests.
fn relevant_lines(text: &str) -> Vec<&str> {
    let mut of_successes = false;
    let mut told = Vec::new();
    for line in text.lines() {
        match line {
            "successes:" => of_successes = true,
            "failures:" => of_successes = false,
            line if line.starts_with("test result: ") => of_successes = false,
            _ => {}
        }
        let passed = line.starts_with("test ") && line.ends_with(" ... ok");
        let blank_again = line.is_empty() && told.last().is_none_or(|last: &&str| last.is_empty());
        if !of_successes && !passed && !blank_again {
            told.push(line);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_was_not_even_built_counts_as_one_failure() {
        assert_eq!(counts_of(Counting::Printed, Counts::default(), false).failed, 1);
        let three = Counts { failed: 3, passed: 2, ..Counts::default() };
        assert_eq!(counts_of(Counting::Printed, three.clone(), false), three);
    }

    #[test]
    fn what_passed_does_not_hide_what_failed() {
        let log = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\nfine\n\n\
            successes:\n    a\n\nfailures:\n\n---- b stdout ----\nseed 7\n\nfailures:\n    b\n\ntest result: FAILED.\n";
        let told = relevant_lines(log);
        assert!(told.contains(&"test b ... FAILED") && told.contains(&"seed 7"), "{told:?}");
        assert!(!told.contains(&"test a ... ok") && !told.contains(&"fine"), "{told:?}");
        assert_eq!(relevant_lines("error: it does not compile\n"), ["error: it does not compile"]);
    }

    #[test]
    fn a_check_counts_as_one_whatever_it_prints() {
        let printed = Counts { passed: 7, ..Counts::default() };
        assert_eq!(counts_of(Counting::OneCheck, printed.clone(), true), Counts::one_passed());
        assert_eq!(counts_of(Counting::OneCheck, printed, false), Counts::one_failed());
    }

    #[test]
    fn a_check_says_what_of_it_was_skipped_and_what_failed() {
        let printed = Counts {
            reasons: [("xdp: there is no clang".to_owned(), 2)].into(),
            failures: [("a".to_owned(), 1)].into(),
            ..Counts::default()
        };
        let counts = counts_of(Counting::OneCheck, printed.clone(), false);
        assert_eq!(counts, Counts { failed: 1, skipped: 2, ..printed });
    }

    #[test]
    fn what_cargo_builds_for_a_suite_is_built_before_the_load_begins() {
        let runner = Runner {
            logs: PathBuf::new(),
            built: PathBuf::new(),
            scope: Scope::Everything,
            metadata: Metadata::load().unwrap(),
        };
        let e2e = suites::planned(Lane::Full, &["e2e".to_owned()])[0];
        let built: Vec<Command> = e2e.steps.iter().filter_map(|step| runner.building(step)).collect();
        let verbs: Vec<_> = built.iter().filter_map(|command| command.get_args().next()).collect();
        assert_eq!(verbs, ["build", "test"]);
        assert!(built[1].get_args().any(|it| it == "--no-run"), "{:?}", built[1]);
    }

    #[test]
    fn an_unknown_suite_is_refused() {
        let refused =
            |lane, name: &str| refuse_unknown(lane, &[name.to_owned()]).map_err(|it| it.to_string());
        assert!(refused(Lane::Full, "unit").is_ok() && refused(Lane::Nightly, "soak").is_ok());
        assert!(refused(Lane::Full, "unti").unwrap_err().contains("unti"));
        assert!(refused(Lane::Full, "soak").is_err() && refused(Lane::Nightly, "unit").is_err());
    }

    #[test]
    fn several_runs_of_a_suite_have_names_of_their_own() {
        assert_eq!(names("tidy", 1), ["tidy"]);
        assert_eq!(names("e2e", 3), ["e2e 1/3", "e2e 2/3", "e2e 3/3"]);
    }
}
