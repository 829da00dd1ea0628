//! Results of a suite, read from the output of its tools.
//!
//! Recognised are the summary lines of cargo test, vitest, node:test and pytest, our own `N passed, N failed, N
//! skipped`, the reasons that pytest prints with `-rs`, and the line `SKIPPED: reason` by which a test reports that
//! it could not run here. Such a test exits successfully, so its tool counts it as passed; here it moves to the
//! skipped.
//!
//! Failures are known by name: from the line `FAILED: what and why`, cargo test's list, pytest's and vitest's
//! lines; if a command failed without a name, by its first and last error, or its last line.

use std::collections::BTreeMap;

/// Mark by which a test reports that it was skipped.
const SKIP_MARK: &str = "SKIPPED: ";
/// Mark by which a check reports a failed part, and why.
const FAIL_MARK: &str = "FAILED: ";
/// Errors of cargo, of the compiler, of rustfmt, of a program that panicked.
const ERRORS: [&str; 4] = ["error: ", "error[", "Diff in ", "thread '"];
/// Marks before pytest's names of tests that failed or could not run.
const PYTEST_MARKS: [&str; 2] = ["FAILED ", "ERROR "];
/// Mark before vitest's name of a test that failed.
const VITEST_MARK: &str = " FAIL  ";
/// Indentation of names in cargo test's list of failures.
const LIST_INDENT: &str = "    ";

/// Numbers of tests, reasons for skips, and failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Number of skips by reason.
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Number of failures by name, with the reason if there is one.
    pub(crate) failures: BTreeMap<String, u64>,
}

impl Counts {
    /// One check that passed.
    pub(crate) fn one_passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One check that failed.
    pub(crate) fn one_failed() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// One check that could not run here.
    pub(crate) fn one_skipped(reason: &str) -> Self {
        Self { skipped: 1, reasons: BTreeMap::from([(reason.to_owned(), 1)]), ..Self::default() }
    }

    /// Returns the number of tests that ran.
    pub(crate) fn run(&self) -> u64 {
        self.passed + self.failed
    }

    /// Adds the counts of another suite.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
        for (failure, count) in &other.failures {
            *self.failures.entry(failure.clone()).or_default() += count;
        }
    }
}

/// State of counting while lines arrive.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    counts: Counts,
    /// Tests that reported a skip and that their tool will count as passed.
    said_skipped: u64,
    list: List,
    /// First and last error of a command that names no test.
    errors: Option<(String, String)>,
    /// Last line that is not empty.
    last: String,
}

/// Position of the next line in cargo test's list of failures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum List {
    #[default]
    Outside,
    /// After its heading, which is also the heading of the tests' output.
    Begun,
    /// After a name.
    Named,
}

impl Reading {
    /// Returns the counts, once all lines have been read.
    ///
    /// `success` is true if the command exited successfully; otherwise something failed, and gets a name.
    pub(crate) fn finish(mut self, success: bool) -> Counts {
        if !success && self.counts.failures.is_empty() {
            let (first, last) = self.errors.take().unwrap_or_else(|| (self.last.clone(), self.last.clone()));
            self.counts.failures.extend([first, last].map(|error| (error, 1)));
            self.counts.failures.remove("");
        }
        self.counts.passed = self.counts.passed.saturating_sub(self.said_skipped);
        self.counts.skipped += self.said_skipped;
        self.counts
    }

    /// Records a failure.
    pub(crate) fn failed(&mut self, what: &str) {
        *self.counts.failures.entry(what.trim().to_owned()).or_default() += 1;
    }

    /// Reads one line of output.
    pub(crate) fn read_line(&mut self, line: &str) {
        self.read_failure(line);
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut self.last);
        }
        if let Some((_, reason)) = line.split_once(SKIP_MARK) {
            self.said_skipped += 1;
            *self.counts.reasons.entry(reason.trim().to_owned()).or_default() += 1;
        } else if let Some((count, reason)) = pytest_skip(line) {
            // Its summary has their number.
            *self.counts.reasons.entry(reason.to_owned()).or_default() += count;
        } else if let Some((_, summary)) = line.split_once("test result: ") {
            let numbers = summary.split_once(". ").map_or("", |(_, numbers)| numbers);
            self.add_list(numbers, ';');
        } else if let Some(summary) = line.trim_start().strip_prefix("Tests  ") {
            self.add_list(summary.split('(').next().unwrap_or_default(), '|');
        } else if let Some(item) = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ ")) {
            self.add_item(item.split_once(' ').map(|(word, number)| (number, word)));
        } else if let Some(summary) = comma_summary(line) {
            self.add_list(summary, ',');
        }
    }

    fn read_failure(&mut self, line: &str) {
        let name = line.strip_prefix(LIST_INDENT).filter(|name| !name.is_empty() && !name.starts_with(' '));
        match (self.list, name) {
            (List::Begun | List::Named, Some(name)) => {
                self.failed(name);
                self.list = List::Named;
                return;
            }
            (List::Begun, None) if line.is_empty() => return,
            _ => self.list = if line == "failures:" { List::Begun } else { List::Outside },
        }
        if let Some(what) = line.strip_prefix(FAIL_MARK) {
            self.failed(what);
        } else if let Some(name) = line.strip_prefix(VITEST_MARK).or_else(|| pytest_failure(line)) {
            self.failed(name);
        } else if ERRORS.iter().any(|mark| line.starts_with(mark)) {
            let last = line.to_owned();
            self.errors = Some(match self.errors.take() {
                Some((first, _)) => (first, last),
                None => (last.clone(), last),
            });
        }
    }

    fn add_list(&mut self, list: &str, separator: char) {
        for item in list.split(separator) {
            self.add_item(item.trim().split_once(' '));
        }
    }

    fn add_item(&mut self, item: Option<(&str, &str)>) {
        let Some((number, word)) = item else { return };
        let Ok(number) = number.trim().parse::<u64>() else { return };
        match word.trim() {
            "passed" | "pass" => self.counts.passed += number,
            "failed" | "fail" | "error" | "errors" => self.counts.failed += number,
            "skipped" | "ignored" | "todo" => self.counts.skipped += number,
            _ => {}
        }
    }
}

/// Returns the number of tests pytest skipped for a reason: `SKIPPED [2] tests/test_x.py:3: reason`.
fn pytest_skip(line: &str) -> Option<(u64, &str)> {
    let (count, place_and_reason) = line.strip_prefix("SKIPPED [")?.split_once("] ")?;
    let (_, reason) = place_and_reason.split_once(": ")?;
    Some((count.parse().ok()?, reason.trim()))
}

/// Returns the `tests/test_a.py::test_b - AssertionError` of pytest's summary.
fn pytest_failure(line: &str) -> Option<&str> {
    let named = PYTEST_MARKS.iter().find_map(|mark| line.strip_prefix(mark))?;
    named.split(" - ").next().is_some_and(|name| name.contains(".py")).then_some(named)
}

/// Returns `5 passed, 1 skipped`, without pytest's frame (`== … in 0.40s ==`); the line must contain nothing else.
fn comma_summary(line: &str) -> Option<&str> {
    let inside = line.trim().trim_matches('=').trim();
    // For more than a minute pytest prints hours and minutes, too.
    let inside = inside.split_once(" (").filter(|(_, rest)| rest.ends_with(')')).map_or(inside, |(it, _)| it);
    let list =
        inside.split_once(" in ").filter(|(_, rest)| rest.ends_with('s')).map_or(inside, |(list, _)| list);
    let is_item = |item: &str| {
        let words = ["passed", "failed", "skipped", "errors", "error", "warnings", "warning", "deselected"];
        item.trim()
            .split_once(' ')
            .is_some_and(|(number, word)| number.parse::<u64>().is_ok() && words.contains(&word))
    };
    list.split(',').all(is_item).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Counts {
        let mut reading = Reading::default();
        output.lines().for_each(|line| reading.read_line(line));
        reading.finish(true)
    }

    fn failures(output: &str, success: bool) -> Vec<(String, u64)> {
        let mut reading = Reading::default();
        output.lines().for_each(|line| reading.read_line(line));
        reading.finish(success).failures.into_iter().collect()
    }

    fn named(names: &[&str]) -> Vec<(String, u64)> {
        names.iter().map(|name| ((*name).to_owned(), 1)).collect()
    }

    fn counted(output: &str) -> (u64, u64, u64) {
        let counts = read(output);
        (counts.passed, counts.failed, counts.skipped)
    }

    #[test]
    fn cargo_test_is_summed_over_its_binaries() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(counted(output), (15, 2, 1));
    }

    #[test]
    fn pytest_is_counted_however_long_it_took() {
        assert_eq!(counted("577 passed, 2 skipped in 310.20s (0:05:10)\n"), (577, 0, 2));
        assert_eq!(counted("== 1 failed, 3 passed in 0.40s ==\n"), (3, 1, 0));
    }

    #[test]
    fn pytest_in_several_processes_is_counted_once_and_what_failed_has_its_name() {
        let output = "bringing up nodes...\nbringing up nodes...\n\n..F..s [100%]\n[gw1] node down: Not properly terminated\n\n\
            replacing crashed worker gw1\nFAILED python/tests/test_a.py::test_b[c] - assert 1 == 2\n\
            FAILED python/tests/test_d.py::test_e - worker 'gw1' crashed while running 'test_e'\n\
            SKIPPED [1] python/tests/test_f.py:3: needs root\n2 failed, 3 passed, 1 skipped in 190.61s (0:03:10)\n";
        assert_eq!(counted(output), (3, 2, 1));
        let expected = [
            "python/tests/test_a.py::test_b[c] - assert 1 == 2",
            "python/tests/test_d.py::test_e - worker 'gw1' crashed while running 'test_e'",
        ];
        assert_eq!(failures(output, false), named(&expected));
    }

    #[test]
    fn a_test_that_says_it_skipped_is_not_passed() {
        let output = "test bridge ... SKIPPED: needs root\nok\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
        let counts = read(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (1, 0, 1));
        assert_eq!(counts.reasons, BTreeMap::from([("needs root".to_owned(), 1)]));
    }

    #[test]
    fn the_other_tools_are_understood() {
        assert_eq!(
            counted(" Test Files  3 passed (3)\n      Tests  1 failed | 20 passed | 2 skipped (23)\n"),
            (20, 1, 2)
        );
        assert_eq!(counted("# tests 9\n# pass 7\n# fail 1\n# cancelled 0\n# skipped 1\n"), (7, 1, 1));
        assert_eq!(counted("ℹ pass 7\nℹ fail 0\nℹ duration_ms 12.5\n"), (7, 0, 0));
        assert_eq!(counted("===== 5 passed, 1 skipped, 2 warnings in 0.40s =====\n"), (5, 0, 1));
        assert_eq!(counted("9 passed, 1 failed, 4 skipped\n"), (9, 1, 4));
    }

    #[test]
    fn the_reasons_of_pytest_are_kept_and_counted_once() {
        let output = "SKIPPED [2] python/tests/test_wheel.py:187: Python 3.12 is not on this machine\n\
            SKIPPED [1] tests/test_x.py: needs root: no\n7 passed, 3 skipped in 2.01s\n";
        let counts = read(output);
        assert_eq!((counts.passed, counts.failed, counts.skipped), (7, 0, 3));
        let reasons = [("Python 3.12 is not on this machine", 2), ("needs root: no", 1)];
        assert_eq!(counts.reasons, BTreeMap::from(reasons.map(|(reason, count)| (reason.to_owned(), count))));
    }

    #[test]
    fn prose_is_not_counted() {
        assert_eq!(
            counted("all 5 passed, as 3 failed before\n1 passed the gate\nTests are fine\n# pass the salt\n"),
            (0, 0, 0)
        );
    }

    #[test]
    fn what_cargo_test_lists_as_failed_has_its_name() {
        let output = "test a ... ok\ntest b ... FAILED\n\nsuccesses:\n\n---- a stdout ----\n    indented\n\n\n\
            successes:\n    a\n\nfailures:\n\n---- b stdout ----\nthread 'b' panicked:\n    left: 1\n\n\
            \nfailures:\n    b\n    src/lib.rs - c (line 12)\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n    d\n\
            error: test failed, to rerun pass `-p x`\n";
        assert_eq!(failures(output, false), named(&["b", "src/lib.rs - c (line 12)"]));
        // Without captured output (`--nocapture`) the heading occurs twice.
        assert_eq!(failures("failures:\n\nfailures:\n    b\n\n    no\n", false), named(&["b"]));
    }

    #[test]
    fn a_check_that_says_what_failed_is_heard() {
        let output = "class v4 ok\nFAILED: class v6 as nobody: 3 are counted\nFAILED: other v4: why\n\
            FAILED: other v4: why\nthis FAILED: not\n FAIL  test/a.test.ts > does b\n\
            FAILED tests/test_a.py::test_b[c] - assert 1 == 2\nERROR tests/test_d.py\nERROR of something else\n";
        let expected = [
            ("class v6 as nobody: 3 are counted", 1),
            ("other v4: why", 2),
            ("test/a.test.ts > does b", 1),
            ("tests/test_a.py::test_b[c] - assert 1 == 2", 1),
            ("tests/test_d.py", 1),
        ];
        let mut expected: Vec<_> = expected.map(|(what, count)| (what.to_owned(), count)).into();
        expected.sort();
        assert_eq!(failures(output, false), expected);
    }

    #[test]
    fn where_nothing_is_named_errors_tell() {
        let output =
            "error[E0308]: mismatched types\nerror: expected\nan error: not\nerror: could not compile `x`\n";
        let expected = named(&["error: could not compile `x`", "error[E0308]: mismatched types"]);
        assert_eq!(failures(output, false), expected);
        assert_eq!(failures(output, true), [], "a test may print what it likes");
        assert_eq!(failures("error: once\nmore\n", false), named(&["error: once"]));
        assert_eq!(failures("a.rs:1: odd\n tidy: 1 offence\n\n", false), named(&["tidy: 1 offence"]));
        assert_eq!(failures("", false), []);
        let panic = "thread 'main' (7) panicked at a.rs:1:2:";
        assert_eq!(failures(&format!("{panic}\nnote: run with\n"), false), named(&[panic]));
        assert_eq!(failures("FAILED: x\nerror: once\n", false), named(&["x"]));
    }
}
