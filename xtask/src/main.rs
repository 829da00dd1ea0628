//! The development tool: `cargo xtask` checks, tests, measures and demonstrates Tallycast.
//!
//! Only cargo and, for the page, Node must be installed first: each command does its own set-up and reports it.
//! Start at [`suites`] for the tests, at [`tidy`] for the rules of the repository.

mod bench;
mod counts;
pub mod data;
mod demo;
mod fuzz;
mod instructions;
mod lab;
mod load;
mod nightly;
mod page;
mod process;
mod report;
mod runner;
mod setup;
mod sim;
mod suites;
mod tidy;
mod versions;
mod wheel;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The development tool of Tallycast.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every test a machine can run, installing what is missing; ends with a table and one line of totals.
    Test(runner::Options),
    /// Check the rules of the repository (CONVENTIONS.md, the lines marked "tidy").
    Tidy(tidy::Options),
    /// Set everything up, build and run `tallycast demo` with the arguments given.
    Demo(demo::Options),
    /// Fetch the recorded signals that cannot be shipped into data/external.
    Data,
    /// Build the page into web/dist, for monitor servers built afterwards.
    Page,
    /// Build the Python package, with the command and the page in it, into target/wheels.
    Wheel(wheel::Options),
    /// Run the stream machine over the simulated network, one run per seed, and check every account.
    Sim(sim::Options),
    /// Fuzz every decoder, and the code after it, for a while each, on a stable toolchain.
    Fuzz(fuzz::Options),
    /// Plant losses in network namespaces, and check that the doctor names each of them.
    Lab(lab::Options),
    /// Run this version together with earlier ones, which are built from this repository's history.
    Versions,
    /// Run a benchmark from `instruments/peers`.
    Bench(bench::Options),
    /// Count instructions per datagram and compare them with instruments/peers/counts.toml.
    Counts(instructions::Options),
}

/// Exit codes are those of `tallycast`: 0 fine, 1 found something, 2 could not run.
const FOUND_SOMETHING: u8 = 1;
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::FoundSomething) => ExitCode::from(FOUND_SOMETHING),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

fn run(command: Command) -> anyhow::Result<Verdict> {
    match command {
        Command::Test(options) => runner::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Data => data::run().map(|()| Verdict::Fine),
        Command::Page => page::run().map(|()| Verdict::Fine),
        Command::Wheel(options) => wheel::run(&options).map(|()| Verdict::Fine),
        Command::Sim(options) => sim::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Lab(options) => lab::run(&options),
        Command::Versions => versions::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Counts(options) => instructions::run(&options),
    }
}

/// Result of a command that could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// No failures.
    Fine,
    /// Failures or offences; they have been printed.
    FoundSomething,
}
