//! A process of this same program in a role, controlled by lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Standing;

/// Option after which a role's name, its processor and its order follow.
const ROLE: &str = "--role";

/// A process in a role; dropping it ends it.
pub struct Process {
    role: &'static str,
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again in a role on this host.
    ///
    /// # Errors
    /// If this program cannot be started.
    pub fn start(role: &'static str, standing: Standing, order: &impl Serialize) -> Result<Self> {
        Self::start_by(Command::new(this_program()?), role, standing, order)
    }

    /// Starts this program by a command, which may be another program with this one as its last argument.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn start_by(
        mut command: Command,
        role: &'static str,
        standing: Standing,
        order: &impl Serialize,
    ) -> Result<Self> {
        command.args([ROLE, role, &serde_json::to_string(&(standing, order))?]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {role}"))?;
        let input = child.stdin.take().context("a pipe was asked for")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        Ok(Self { role, child, input, lines })
    }

    /// Sends a message to it, as one line.
    ///
    /// # Errors
    /// If it has exited.
    pub fn say(&mut self, what: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(what)?;
        writeln!(self.input, "{line}").with_context(|| format!("{} exited early", self.role))
    }

    /// Lets it continue.
    ///
    /// # Errors
    /// If it has exited.
    pub fn go(&mut self) -> Result<()> {
        self.say(&())
    }

    /// Waits for its next line, which must be `[event, value]`.
    ///
    /// # Errors
    /// If it sends something else, or exits.
    pub fn hear<T: DeserializeOwned>(&mut self, event: &str) -> Result<T> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("{} exited before it sent `{event}`\nsee its error above", self.role);
        }
        let (said, value): (String, T) =
            serde_json::from_str(&line).with_context(|| format!("expected `{event}`, not {line}"))?;
        ensure!(said == event, "expected `{event}`, not {line}");
        Ok(value)
    }

    /// Waits until it has exited successfully.
    ///
    /// # Errors
    /// If it fails.
    pub fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "{} failed: {status}\nsee its error above", self.role);
        Ok(())
    }

    /// Returns its standard error, if its command has a pipe for it.
    pub fn take_errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A child process must not outlive the measurement. An error means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A role that this program plays when it is started again.
pub struct Role {
    name: &'static str,
    play: Box<dyn Fn(Value) -> Result<()>>,
}

impl Role {
    /// Creates a role from the function that plays it.
    pub fn new<T: DeserializeOwned + 'static>(name: &'static str, play: fn(T) -> Result<()>) -> Self {
        Self { name, play: Box::new(move |order| play(serde_json::from_value(order)?)) }
    }
}

/// Plays the role that the command line names, on its processor; returns false if it names none.
///
/// # Errors
/// If there is no such role, or it fails.
pub fn plays(roles: &[Role]) -> Result<bool> {
    let mut arguments = std::env::args().skip_while(|argument| argument != ROLE).skip(1);
    let Some(name) = arguments.next() else { return Ok(false) };
    let role =
        roles.iter().find(|role| role.name == name).with_context(|| format!("unknown role `{name}`"))?;
    let order = arguments.next().context("a role needs a processor and an order")?;
    let (standing, order): (Standing, Value) = serde_json::from_str(&order)?;
    standing.take()?;
    (role.play)(order).context(name)?;
    Ok(true)
}

/// Returns this program's path.
///
/// # Errors
/// If it is unknown.
pub fn this_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().context("cannot find this program's own path")
}

/// Sends a message to the parent process.
///
/// # Errors
/// If the parent has exited.
pub fn tell(event: &str, value: &impl Serialize) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&(event, value))?)?;
    output.flush().context("the parent process has exited")
}

/// Waits for a message that the parent sends with [`Process::say`]; `None` after the last.
///
/// # Errors
/// If it is malformed.
pub fn next<T: DeserializeOwned>() -> Result<Option<T>> {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).with_context(|| format!("malformed message: {line}"))
}

/// Waits until this process may continue.
///
/// # Errors
/// If the parent has exited.
pub fn wait_for_go() -> Result<()> {
    next()?.context("the measurement was aborted")
}

/// Reports that this side is prepared, and waits until it may continue.
///
/// # Errors
/// If the parent has exited.
pub fn stand_by() -> Result<()> {
    tell("ready", &())?;
    wait_for_go()
}

/// Makes this process exit when its parent does, even while it waits.
pub fn end_with_leader() {
    std::thread::spawn(|| {
        while next::<Value>().is_ok_and(|message| message.is_some()) {}
        std::process::exit(0);
    });
}
