//! Folders of this user: settings, and what a program keeps between its runs.
//!
//! Source: XDG Base Directory Specification, by which an empty variable is none.

use std::env;
use std::path::PathBuf;

/// Returns the folder of this user's settings: `$XDG_CONFIG_HOME`, or `.config` at home.
#[must_use]
pub fn config() -> Option<PathBuf> {
    named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config")))
}

/// Returns the folder for what programs of this user keep between their runs: `$XDG_STATE_HOME`, or `.local/state` at home.
#[must_use]
pub fn state() -> Option<PathBuf> {
    named("XDG_STATE_HOME").or_else(|| named("HOME").map(|home| home.join(".local/state")))
}

fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|it| !it.is_empty()).map(PathBuf::from)
}
