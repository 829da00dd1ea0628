//! Runs one command: its output goes to a log, line by line past a reader, with a progress display.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval of progress updates on a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of progress updates in a log: short enough to show where a run hangs, long enough not to drown the
/// results.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum silence of a working command: a test that hangs must not suppress the report of the others.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// Mark after the output of a command, once it has exited. No text contains this byte.
const END_OF_OUTPUT: &[u8] = b"\0\n";
/// Width of the progress line; on a narrower terminal it would wrap, and 80 columns are always available.
const STATUS_COLUMNS: usize = 79;

/// Runs `command` to its end without standard input, passes each line of its output to `on_line` and writes it to
/// `log`.
///
/// A command that prints nothing for twenty minutes is killed with all of its descendants, and its last line is the
/// error.
pub(crate) fn run_logged(
    command: &mut Command,
    name: &str,
    log: &mut File,
    on_line: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    run_for(PATIENCE, command, name, log, on_line)
}

fn run_for(
    patience: Duration,
    command: &mut Command,
    name: &str,
    log: &mut File,
    mut on_line: impl FnMut(&str),
) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    let mut end = Some(writer.try_clone()?);
    let mut child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // `command` holds copies of the pipe's writing end. They are dropped here: otherwise a child that closes both
    // would seem to continue.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = lines_of(reader);
    let mut status = Status::new(name);
    loop {
        match next_line(&lines, &mut child, &mut end, &mut status, patience)? {
            Next::Line(line) => {
                writeln!(log, "{line}")?;
                on_line(&line);
                status.latest = line;
            }
            Next::End => break,
            Next::Silence => {
                end_with_descendants(&mut child)?;
                status.clear();
                let minutes = patience.as_secs() / 60;
                let text =
                    format!("ended after {minutes} minutes without a word; the last was: {}", status.latest);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
    }
    status.clear();
    child.wait()
}

/// Kills a process and all of its descendants, the youngest first, so that none is left to disturb the next
/// command.
fn end_with_descendants(child: &mut Child) -> io::Result<()> {
    let mut family = vec![child.id()];
    let mut next = 0;
    while let Some(id) = family.get(next) {
        let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<u32> = children
            .flat_map(|ids| ids.split_whitespace().flat_map(str::parse).collect::<Vec<u32>>())
            .collect();
        family.extend(children);
        next += 1;
    }
    for id in family.iter().rev() {
        // One that has exited meanwhile is fine.
        let _ = Command::new("kill").args(["-KILL", &id.to_string()]).stderr(Stdio::null()).status()?;
    }
    child.wait().map(drop)
}

/// Result of waiting for a line.
enum Next {
    Line(String),
    /// The command has exited and all of its output was read.
    End,
    Silence,
}

/// Reads lines on a separate thread, so that waiting for one can be interrupted to show progress.
fn lines_of(reader: io::PipeReader) -> Receiver<String> {
    // A full queue makes the child wait, as a pipe would; more room is not needed.
    let (sender, receiver) = mpsc::sync_channel(1024);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let rest = line.strip_suffix(END_OF_OUTPUT);
            let text = String::from_utf8_lossy(rest.unwrap_or(&line)).trim_end().to_owned();
            // The last line may lack a line end; if it has one, the mark is alone on its line.
            let says_nothing = rest.is_some_and(<[u8]>::is_empty);
            if (!says_nothing && sender.send(text).is_err()) || rest.is_some() {
                break;
            }
            line.clear();
        }
    });
    receiver
}

/// Waits for the next line.
///
/// A process left behind by the command may hold the pipe open for ever; so the end of the command counts, not that
/// of the pipe. Its whole output is read all the same: the mark written after it shows its `end`.
fn next_line(
    lines: &Receiver<String>,
    child: &mut Child,
    end: &mut Option<io::PipeWriter>,
    status: &mut Status<'_>,
    patience: Duration,
) -> io::Result<Next> {
    let asked = Instant::now();
    loop {
        match lines.recv_timeout(TERMINAL_INTERVAL) {
            Ok(line) => {
                status.show();
                return Ok(Next::Line(line));
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Next::End),
            Err(RecvTimeoutError::Timeout) => {
                if end.is_some() && child.try_wait()?.is_some() {
                    mark(end.take());
                } else if asked.elapsed() >= patience {
                    return Ok(Next::Silence);
                }
                status.show();
            }
        }
    }
}

/// Writes the mark after the output, on a separate thread: if a left-behind process keeps the pipe full, the write
/// blocks.
fn mark(end: Option<io::PipeWriter>) {
    std::thread::spawn(move || {
        // An error means that the reader is gone, and so does not wait for the mark.
        let _ = end.map(|mut end| end.write_all(END_OF_OUTPUT));
    });
}

/// Progress display of a running command.
struct Status<'a> {
    name: &'a str,
    began: Instant,
    shown: Instant,
    latest: String,
    terminal: bool,
}

impl<'a> Status<'a> {
    fn new(name: &'a str) -> Self {
        let now = Instant::now();
        Self { name, began: now, shown: now, latest: String::new(), terminal: io::stderr().is_terminal() }
    }

    fn show(&mut self) {
        let interval = if self.terminal { TERMINAL_INTERVAL } else { LOG_INTERVAL };
        if self.shown.elapsed() < interval {
            return;
        }
        self.shown = Instant::now();
        let line = format!("  {} {} s  {}", self.name, self.began.elapsed().as_secs(), self.latest.trim());
        if self.terminal {
            let line: String = line.chars().filter(|c| !c.is_control()).take(STATUS_COLUMNS).collect();
            eprint!("\r\x1b[K{line}");
        } else {
            eprintln!("{line}");
        }
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        let mut log = File::options().write(true).open("/dev/null").unwrap();
        let status = run_logged(Command::new("sh").args(["-c", script]), "test", &mut log, |line| {
            lines.push(line.into())
        });
        (status.unwrap().success(), lines)
    }

    #[test]
    fn both_outputs_are_read_in_order_and_the_exit_code_is_told() {
        for last in ["printf three", "echo three"] {
            assert_eq!(
                run(&format!("echo one; echo two >&2; {last}; exit 3")),
                (false, vec!["one".into(), "two".into(), "three".into()])
            );
        }
        assert_eq!(run("exit 0"), (true, Vec::new()));
    }

    #[test]
    fn one_that_hangs_is_ended_with_all_it_started() {
        let mut lines = Vec::new();
        let mut log = File::options().write(true).open("/dev/null").unwrap();
        let script = "sh -c 'sleep 3600 & echo $!; wait'; echo never";
        // Long enough for its first line to arrive on any busy machine.
        let patience = Duration::from_secs(5);
        let outcome = run_for(patience, Command::new("sh").args(["-c", script]), "test", &mut log, |line| {
            lines.push(line.to_owned());
        });
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let [id] = &lines[..] else { panic!("{lines:?}") };
        // A killed process counts as running until it has a processor to exit on; an exited orphan stays a zombie
        // if nothing reaps it.
        support::wait_until("the end of a killed process", || {
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            (state.is_empty() || state.contains(") Z ") || state.contains(") X ")).then_some(())
        });
    }

    #[test]
    fn a_process_left_behind_does_not_hold_the_run() {
        let (success, lines) = run("sleep 60 & echo $!");
        assert!(success);
        // Only a running process can be killed, so the run did not wait for it.
        assert!(Command::new("kill").arg(&lines[0]).status().unwrap().success());
    }
}
