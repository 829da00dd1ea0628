//! End of a test run: failures, skips with reasons, a table of suites, and one line of totals.

use crate::counts::Counts;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of failures shown per suite, and maximum length of each: if everything fails, one reason is
/// enough.
const SHOWN_FAILURES: usize = 20;
const SHOWN_CHARS: usize = 300;

/// Result of one suite.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) elapsed: Duration,
    pub(crate) counts: Counts,
    /// Log of the full output, if commands were run.
    pub(crate) log: Option<PathBuf>,
}

impl Outcome {
    /// Returns the result of the suite as one word.
    pub(crate) fn word(&self) -> &'static str {
        match &self.counts {
            counts if counts.failed > 0 => "FAILED",
            counts if counts.run() == 0 && counts.skipped > 0 => "skipped",
            _ => "ok",
        }
    }

    /// Returns the numbers of the suite in words.
    pub(crate) fn summary(&self) -> String {
        let Counts { passed, failed, skipped, .. } = self.counts;
        let parts = [(passed, "passed"), (failed, "failed"), (skipped, "skipped")];
        let told: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        if told.is_empty() { "no tests".to_owned() } else { told.join(", ") }
    }
}

/// All suites of a run; its display is the end of the output.
pub(crate) struct Report(pub(crate) Vec<Outcome>);

impl Report {
    /// Returns whether no test failed.
    pub(crate) fn is_fine(&self) -> bool {
        self.totals().failed == 0
    }

    fn totals(&self) -> Counts {
        let mut totals = Counts::default();
        self.0.iter().for_each(|outcome| totals.add(&outcome.counts));
        totals
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let totals = self.totals();
        writeln!(
            f,
            "{:<12} {:<8} {:>8} {:>7} {:>7} {:>7} {:>7}",
            "suite", "", "seconds", "run", "passed", "failed", "skipped"
        )?;
        for outcome in &self.0 {
            row(f, &outcome.name, outcome.word(), outcome.elapsed, &outcome.counts)?;
        }
        let elapsed = self.0.iter().map(|outcome| outcome.elapsed).sum();
        row(f, "all", "", elapsed, &totals)?;
        writeln!(f)?;
        for outcome in &self.0 {
            for (reason, count) in &outcome.counts.reasons {
                writeln!(f, "skipped in {}, {count} x: {reason}", outcome.name)?;
            }
        }
        for outcome in self.0.iter().filter(|outcome| outcome.counts.failed > 0) {
            match &outcome.log {
                Some(log) => {
                    writeln!(f, "failed in {}: see {}", outcome.name, crate::workspace::relative(log))?
                }
                None => writeln!(f, "failed in {}: see above", outcome.name)?,
            }
        }
        // Failures come last: often only the end of a long output is kept.
        for outcome in self.0.iter().filter(|outcome| outcome.counts.failed > 0) {
            failures(f, outcome)?;
        }
        write!(f, "{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.skipped)
    }
}

/// Lists the failures of a suite.
fn failures(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let Outcome { name, counts, .. } = outcome;
    for (what, count) in counts.failures.iter().take(SHOWN_FAILURES) {
        let (what, more) = match what.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => (&what[..end], " …"),
            None => (what.as_str(), ""),
        };
        writeln!(f, "failed in {name}, {count} x: {what}{more}")?;
    }
    match counts.failures.len().saturating_sub(SHOWN_FAILURES) {
        0 => Ok(()),
        hidden => writeln!(f, "failed in {name}: {hidden} more"),
    }
}

fn row(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    word: &str,
    elapsed: Duration,
    counts: &Counts,
) -> fmt::Result {
    let Counts { passed, failed, skipped, .. } = counts;
    let (seconds, run) = (elapsed.as_secs_f64(), counts.run());
    writeln!(f, "{name:<12} {word:<8} {seconds:>8.1} {run:>7} {passed:>7} {failed:>7} {skipped:>7}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, counts: Counts) -> Outcome {
        Outcome { name: name.to_owned(), elapsed: Duration::from_millis(1_250), counts, log: None }
    }

    #[test]
    fn the_last_line_has_the_totals() {
        let counted = Counts { passed: 40, failed: 1, skipped: 2, ..Counts::default() };
        let report = Report(vec![
            outcome("unit", counted),
            outcome("page", Counts::one_skipped("Chromium is missing")),
        ]);
        let text = report.to_string();
        assert_eq!(text.lines().last(), Some("40 passed, 1 failed, 3 skipped"));
        assert!(text.contains("skipped in page, 1 x: Chromium is missing"), "{text}");
        assert!(text.contains("unit         FAILED        1.2      41      40       1       2"), "{text}");
        assert!(!report.is_fine());
    }

    #[test]
    fn what_failed_is_named_right_before_the_totals() {
        let failures = [("receive_buffer v6 as nobody: 3 are counted".to_owned(), 1)].into();
        let counts = Counts { failures, ..Counts::one_failed() };
        let text = Report(vec![outcome("lab", counts), outcome("unit", Counts::one_passed())]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let [.., failure, totals] = &lines[..] else { panic!("{text}") };
        assert_eq!(*failure, "failed in lab, 1 x: receive_buffer v6 as nobody: 3 are counted");
        assert_eq!(*totals, "1 passed, 1 failed, 0 skipped");
    }

    #[test]
    fn many_and_long_failures_do_not_drown_the_end() {
        let failures = |count: usize, chars: usize| {
            let failures = (0..count).map(|at| (format!("{at:0chars$}é"), 1)).collect();
            let report = Report(vec![outcome("unit", Counts { failures, ..Counts::one_failed() })]);
            report.to_string().lines().filter(|line| line.starts_with("failed in unit")).count()
        };
        // Includes the line with the path of the log.
        assert_eq!(failures(SHOWN_FAILURES, SHOWN_CHARS - 1), 1 + SHOWN_FAILURES);
        assert_eq!(failures(SHOWN_FAILURES + 1, SHOWN_CHARS), 2 + SHOWN_FAILURES);
        let counts = Counts { failures: [("é".repeat(SHOWN_CHARS + 1), 1)].into(), ..Counts::one_failed() };
        let text = Report(vec![outcome("unit", counts)]).to_string();
        assert!(text.contains(&format!(" x: {} …\n", "é".repeat(SHOWN_CHARS))), "{text}");
    }

    #[test]
    fn skips_alone_are_fine_but_not_called_ok() {
        let skipped = outcome("page", Counts::one_skipped("Chromium is missing"));
        assert_eq!((skipped.word(), skipped.summary().as_str()), ("skipped", "1 skipped"));
        assert!(Report(vec![skipped]).is_fine());
    }
}
