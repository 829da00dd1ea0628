//! What a suite did, read from what its tools print.
//!
//! Understood are the summary lines of cargo test, vitest, node:test and pytest, our own `N passed, N failed, N skipped`,
//! the reasons that pytest gives with `-rs`, and the line `SKIPPED: reason` by which a test says that it could not run
//! here. Such a test ends without a complaint, so its tool counts it as passed; here it moves to the skipped.

use std::collections::BTreeMap;

/// By which a test says that it was skipped.
const SKIP_MARK: &str = "SKIPPED: ";

/// Numbers of tests, and why some were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Reason and how often it was given.
    pub(crate) reasons: BTreeMap<String, u64>,
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

    /// Something that could not run here.
    pub(crate) fn one_skipped(reason: &str) -> Self {
        Self { skipped: 1, reasons: BTreeMap::from([(reason.to_owned(), 1)]), ..Self::default() }
    }

    /// How many tests ran.
    pub(crate) fn run(&self) -> u64 {
        self.passed + self.failed
    }

    /// Adds what another suite counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
    }
}

/// Counting while the lines come in.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    counts: Counts,
    /// Tests that said they were skipped and that their tool will call passed.
    said_skipped: u64,
}

impl Reading {
    /// The counts, once all lines have been read.
    pub(crate) fn finish(mut self) -> Counts {
        self.counts.passed = self.counts.passed.saturating_sub(self.said_skipped);
        self.counts.skipped += self.said_skipped;
        self.counts
    }

    /// Takes in one line of output.
    pub(crate) fn read_line(&mut self, line: &str) {
        if let Some((_, reason)) = line.split_once(SKIP_MARK) {
            self.said_skipped += 1;
            *self.counts.reasons.entry(reason.trim().to_owned()).or_default() += 1;
        } else if let Some((count, reason)) = pytest_skip(line) {
            // Its summary counts them.
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

/// How many tests pytest skipped for a reason: `SKIPPED [2] tests/test_x.py:3: reason`.
fn pytest_skip(line: &str) -> Option<(u64, &str)> {
    let (count, place_and_reason) = line.strip_prefix("SKIPPED [")?.split_once("] ")?;
    let (_, reason) = place_and_reason.split_once(": ")?;
    Some((count.parse().ok()?, reason.trim()))
}

/// `5 passed, 1 skipped`, with pytest's frame (`== … in 0.40s ==`) taken off; nothing else may stand in the line.
fn comma_summary(line: &str) -> Option<&str> {
    let inside = line.trim().trim_matches('=').trim();
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
        reading.finish()
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
}
