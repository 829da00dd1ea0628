//! The program with its standard error.

use std::io::BufReader;
use std::process::{ChildStderr, Stdio};

use crate::program::{Running, command};

impl Running {
    /// Starts it; returns its standard error, too.
    pub(crate) fn start_heard(arguments: &[&str]) -> (Self, BufReader<ChildStderr>) {
        let mut running = Self::of(command(arguments).stderr(Stdio::piped()), arguments);
        let said = running.take_errors();
        (running, said)
    }
}
