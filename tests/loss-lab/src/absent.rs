//! A requirement of a class that this machine lacks: the class is skipped, with a report.

use std::process::Command;

/// Missing requirement, as text.
#[derive(Debug)]
pub(crate) struct Absent(pub(crate) String);

impl std::fmt::Display for Absent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Absent {}

/// Returns the first of these programs that runs.
pub(crate) fn find(programs: &[&'static str]) -> Result<&'static str, Absent> {
    let runs = |program: &&&str| Command::new(**program).arg("--version").output().is_ok();
    programs.iter().find(runs).copied().ok_or_else(|| Absent(format!("there is no {}", programs[0])))
}
