//! Results of a measurement by the program: its report, which the schema accepts, its files, or its refusal.

use std::fmt::Debug;
use std::process::Output;

use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use support::wait_until;
use tempfile::TempDir;

use crate::program::{Running, run};

/// Reads a report that the schema of its format accepts.
pub(crate) fn read<R: DeserializeOwned>(report: &Value) -> R {
    let page = match report["format"].as_str() {
        Some("tallycast.bench.throughput") => "bench".to_owned(),
        Some(format) => format.replace("tallycast.bench.", "bench-"),
        None => panic!("no report: {report}"),
    };
    assert_eq!(published::check(&page, report), Ok(()));
    serde_json::from_value(report.clone()).unwrap()
}

/// Checks that changes of a report are refused by the schema of a page.
pub(crate) fn check_schema(page: &str, report: &impl Serialize, changes: &[fn(&mut Value)]) {
    let whole = serde_json::to_value(report).unwrap();
    assert_eq!(published::check(page, &whole), Ok(()));
    for (index, change) in changes.iter().enumerate() {
        let mut changed = whole.clone();
        change(&mut changed);
        assert!(published::check(page, &changed).is_err(), "change {index} is accepted");
    }
}

/// Runs a measurement to its end; returns its report and its exit code.
pub(crate) fn report<R: DeserializeOwned>(arguments: &[&str]) -> (R, Option<i32>) {
    report_of(&run(arguments))
}

/// Runs a measurement that finds everything that it measures; returns its report.
pub(crate) fn complete<R: DeserializeOwned + Debug>(arguments: &[&str]) -> R {
    let (report, code) = report(arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {report:?}");
    report
}

/// Runs a measurement between network namespaces; `None`, with a note, if none can be made here.
pub(crate) fn between_namespaces<R: DeserializeOwned>(arguments: &[&str]) -> Option<(R, Option<i32>)> {
    let output = run(&[arguments, &["--netns", "--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let is_impossible =
        ["only root can", "cannot be started", "Operation not"].iter().any(|words| said.contains(words));
    if is_impossible {
        println!("SKIPPED: {said}");
    }
    (!is_impossible).then(|| report_of(&output))
}

fn report_of<R: DeserializeOwned>(output: &Output) -> (R, Option<i32>) {
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (read(&value), output.status.code())
}

/// Ends a measurement like Ctrl-C as soon as it `has_begun`; returns its report and its exit code.
pub(crate) fn interrupted<R: DeserializeOwned>(
    arguments: &[&str],
    has_begun: impl Fn(&Running) -> bool,
) -> (R, Option<i32>) {
    let bench = Running::start(arguments);
    wait_until("the start of the measurement", || has_begun(&bench).then_some(()));
    bench.signal(Signal::INT);
    let (status, lines) = bench.wait();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    (read(line), status.code())
}

/// Returns whether a measurement has started its server: only then does it handle signals.
pub(crate) fn has_server(bench: &Running) -> bool {
    !bench.children().is_empty()
}

/// Runs the program, which refuses its arguments; returns its message.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Checks that a verb refuses each of these arguments, separated by blanks, in words that name the way out.
pub(crate) fn check_refusals(verb: &str, refusals: &[(&str, &str)]) {
    for (arguments, words) in refusals {
        let said = refusal(&verb.split(' ').chain(arguments.split_whitespace()).collect::<Vec<_>>());
        assert!(said.contains(words), "{verb} {arguments}: {said}");
    }
}

/// The files of a report, in a folder of their own.
pub(crate) struct Files {
    folder: TempDir,
    csv: String,
    html: String,
    png: String,
}

impl Files {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [csv, html, png] =
            ["a.csv", "a.html", "a.png"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        Self { folder, csv, html, png }
    }

    /// Returns the options that ask for them.
    pub(crate) fn options(&self) -> [&str; 6] {
        ["--csv", &self.csv, "--html", &self.html, "--png", &self.png]
    }

    /// Checks the picture, the number of lines of the table, and that the page is self-contained; returns the page.
    pub(crate) fn check(&self, lines: usize) -> String {
        assert!(std::fs::read(&self.png).unwrap().starts_with(b"\x89PNG"));
        assert_eq!(self.table().lines().count(), lines);
        assert_eq!(std::fs::read_dir(&self.folder).unwrap().count(), 3, "nothing else is left behind");
        let page = self.page();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(["<script", "<link", "src=", "href=", "NaN"].iter().all(|word| !page.contains(word)));
        page
    }

    pub(crate) fn table(&self) -> String {
        std::fs::read_to_string(&self.csv).unwrap()
    }

    pub(crate) fn page(&self) -> String {
        std::fs::read_to_string(&self.html).unwrap()
    }

    pub(crate) fn has_picture(&self) -> bool {
        std::fs::exists(&self.png).unwrap()
    }
}
