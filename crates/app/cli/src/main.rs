//! The command `tallycast`: arguments, exit codes and what is printed; what it does is in the libraries.
//!
//! Start with [`verbs::Verb`], one file per verb. Exit codes: 0 success, 1 problems found, 2 could not run.

mod deadline;
mod features;
#[cfg(all(test, feature = "instruments"))]
mod golden;
mod help;
mod layout;
#[macro_use]
mod messages;
mod python;
mod quantity;
mod reading;
mod settings;
mod signals;
mod status_line;
mod verbs;
mod wholeness;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::messages::{Told, init_tracing, print_error};
use crate::settings::Sources;
use crate::verbs::Verb;

/// Every sample delivered, or the reason why.
#[derive(Parser, Debug)]
#[command(name = "tallycast", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    sources: Sources,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  tallycast demo                                          a complete demonstration on this machine
  tallycast pub lab/sine --wave sine --rate 1k            publish a waveform
  tallycast sub 'lab/*'                                   read it; every loss comes with its reason
  tallycast ls                                            list the streams

Exit codes: 0 success, 1 problems found, 2 could not run.
Environment: TALLYCAST_BUS, TALLYCAST_CONFIG, TALLYCAST_LOG (such as `debug`), NO_COLOR.";

/// Outcome of a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Nothing to complain about.
    Fine,
    /// It ran, and found something: a wrong account, a wrong configuration.
    Found,
    /// It ran, and found a future failure; only audits distinguish this, by the exit codes of checks: 0, 1, 2.
    Failing,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let told = Told::wanted_by(&arguments);
    #[cfg(feature = "instruments")]
    let arguments = verbs::instruments::bench::as_iperf3(arguments.into_iter());
    let mut command = help::fitted(Cli::command(), layout::width());
    let matches = command.try_get_matches_from_mut(arguments);
    let cli = matches.and_then(|it| Cli::from_arg_matches(&it).map_err(|error| error.format(&mut command)));
    let cli = cli.unwrap_or_else(|error| refuse(&error, told));
    init_tracing();
    match cli.verb.run(&cli.sources) {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(1),
        Ok(Outcome::Failing) => ExitCode::from(2),
        // The reader of the output has closed it, as `head` does: that is not a failure.
        Err(error) if messages::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            told.tell(&messages::chain(&error));
            print_error(&error);
            ExitCode::from(2)
        }
    }
}

/// Ends with the parser's message: help, the version, or the reason why the arguments are refused.
fn refuse(error: &clap::Error, told: Told) -> ! {
    if error.use_stderr() {
        let text = error.render().to_string();
        let reason = text.split("\n\n").next().unwrap_or_default();
        told.tell(reason.trim_start_matches("error: "));
    }
    error.exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
