//! Messages on standard error, and the one function that prints a line of JSON.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;

/// Prints a line on standard error; replaces the standard library's macro in this program.
///
/// The original panics when standard error is closed, which must not keep samples from being sent.
macro_rules! eprintln {
    ($($word:tt)*) => {
        $crate::messages::say(format_args!($($word)*))
    };
}

/// Variable for the log level: `error`, `warn`, `info`, `debug`, or filters by module.
pub(crate) const LOG_VARIABLE: &str = "TALLYCAST_LOG";

/// Sends warnings and other requested messages to standard error.
pub(crate) fn init_tracing() {
    let wanted = std::env::var(LOG_VARIABLE).ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(wanted.as_deref().unwrap_or("warn")).unwrap_or_else(|error| {
        eprintln!("warning: invalid {LOG_VARIABLE}: {error}");
        EnvFilter::new("warn")
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(in_colour(&std::io::stderr()))
        .with_target(false)
        // Errors of writing to standard error cannot be reported on it.
        .log_internal_errors(false)
        .without_time()
        .init();
}

/// Returns whether an output may be coloured.
pub(crate) fn in_colour(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints a line on standard error, unless that is closed.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints an error; the lines after the first are the remedy.
pub(crate) fn print_error(error: &anyhow::Error) {
    eprintln!("error: {}", chain(error));
}

/// Whether an error is also an object on standard output, as `--json` promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    InWords,
    AsJson,
}

/// Set by a report in JSON that has the error already.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

impl Told {
    /// Returns how the arguments want it, which may not be valid otherwise. With `--raw` standard output is data.
    pub(crate) fn wanted_by(arguments: &[OsString]) -> Self {
        let words = || arguments.iter().skip(1).filter_map(|word| word.to_str()).take_while(|it| *it != "--");
        let is_json = |word: &str| {
            let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
            word == "--json"
                || letters.is_some_and(|it| it.starts_with(char::is_alphanumeric) && it.ends_with('J'))
        };
        let is_wanted = words().any(is_json) && !words().any(|word| word == "--raw");
        if is_wanted { Self::AsJson } else { Self::InWords }
    }

    /// Prints the object, unless a report has it. Standard output may be closed; the text then says it alone.
    pub(crate) fn tell(self, error: &str) {
        if self == Self::AsJson && !IS_TOLD.load(Ordering::Relaxed) {
            drop(print_line(&json!({ "error": error })));
        }
    }
}

/// Notes that an error was printed as JSON, so that it is not printed again.
pub(crate) fn note_told() {
    IS_TOLD.store(true, Ordering::Relaxed);
}

/// Returns whether an error is only that the reader of the output has closed it.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
}

/// Prints one object as one line, and flushes it: readers of a pipe wait for it.
pub(crate) fn print_line(value: &Value) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{value}")?;
    output.flush()
}

/// Joins an error and its causes, without causes that the error's own text already contains.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut text, cause| {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_error_is_an_object_where_json_was_asked_for() {
        let wanted = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            Told::wanted_by(&words)
        };
        for line in [
            "tallycast ls --json",
            "tallycast bench -c host -J",
            "tallycast bench -uJ",
            "tallycast recv in -1J",
        ] {
            assert_eq!(wanted(line), Told::AsJson, "{line}");
        }
        for line in
            ["tallycast ls", "tallycast recv --raw --json", "tallycast pub -- -J", "tallycast record -Jx"]
        {
            assert_eq!(wanted(line), Told::InWords, "{line}");
        }
    }

    #[test]
    fn causes_are_told_once() {
        let error = anyhow!("the disk is full\nfree some space").context("recording failed");
        assert_eq!(chain(&error), "recording failed: the disk is full\nfree some space");
        let error = anyhow!("no such file").context("a.csv: no such file");
        assert_eq!(chain(&error), "a.csv: no such file");
    }
}
