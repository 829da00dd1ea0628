//! Running the program: its surroundings, and the keys of what it prints.

use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;

/// The user without rights: a number reserved on every system.
const NOBODY: u32 = 65_534;

/// Runs the program to its end as a user without privileges; `None`, with a note, if that is impossible.
pub(crate) fn run_as_nobody(arguments: &[&str]) -> Option<Output> {
    let mut command = command(arguments);
    match command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("SKIPPED: the program cannot be run as another user: {error}");
            None
        }
    }
}

/// The program with arguments; nothing of the surroundings decides what it does.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallycast"));
    command.args(arguments).env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1");
    for variable in ["TALLYCAST_ACCESS", "TALLYCAST_BUS", "TALLYCAST_CONFIG", "TALLYCAST_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    run_with(arguments, &[], "")
}

/// Runs the program to its end, with environment variables and a standard input.
pub(crate) fn run_with(arguments: &[&str], variables: &[(&str, &str)], input: &str) -> Output {
    let mut command = command(arguments);
    command.envs(variables.iter().copied());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    check_keys(arguments, &output.stdout);
    output
}

/// Checks the keys of all JSON in an output: the whole, or its lines.
pub(crate) fn check_keys(arguments: &[&str], output: &[u8]) {
    let verb = published_name(arguments);
    match serde_json::from_slice(output) {
        Ok(value) => check_keys_of(&verb, &value),
        Err(_) => {
            let lines =
                output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
            lines.for_each(|value| check_keys_of(&verb, &value));
        }
    }
}

/// Checks the keys of one object; each event of a verb has its own list. The reports of `bench` have schemas instead.
fn check_keys_of(verb: &str, value: &Value) {
    if !matches!(value, Value::Object(_) | Value::Array(_)) || verb.starts_with("bench") {
        return;
    }
    if value.get("error").is_some_and(Value::is_string) && value.as_object().is_some_and(|it| it.len() == 1) {
        return support::keys::check("error", value);
    }
    match value["event"].as_str() {
        // The account of a stream is the same for every verb, and of the monitor.
        Some("account" | "look") if !["send", "recv"].contains(&verb) => {
            support::keys::check("account", value)
        }
        Some(event) if ["send", "recv"].contains(&verb) => {
            support::keys::check(&format!("transfer/{event}"), value)
        }
        Some(event) => support::keys::check(&format!("{verb}/{event}"), value),
        None => support::keys::check(verb, value),
    }
}

/// Returns the published name of a command's JSON: its verb, with its subcommand if it has one.
fn published_name(arguments: &[&str]) -> String {
    let verb = arguments.first().copied().unwrap_or_default();
    let own = arguments.get(1).filter(|it| !it.starts_with('-'));
    match own {
        Some(own)
            if ["access", "archive", "bench", "bridge", "config", "doctor", "keys", "run"]
                .contains(&verb) =>
        {
            format!("{verb}-{own}")
        }
        _ => verb.to_owned(),
    }
}

/// The program while it runs.
pub(crate) struct Running(support::Running);

impl Running {
    /// Starts it.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::of(&mut command(arguments), arguments)
    }

    /// Starts this command, whose arguments tell what it prints.
    pub(crate) fn of(command: &mut Command, arguments: &[&str]) -> Self {
        let verb = published_name(arguments);
        let check = move |line: &Value| {
            assert!(!line.is_string(), "no JSON: {line}");
            check_keys_of(&verb, line);
        };
        Self(support::Running::start(command.stdin(Stdio::piped()), arguments.join(" "), check))
    }

    /// Waits for its end; returns what it still printed.
    pub(crate) fn wait(self) -> (ExitStatus, Vec<Value>) {
        let (lines, status) = self.0.finish();
        (status, lines)
    }
}

impl Deref for Running {
    type Target = support::Running;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
