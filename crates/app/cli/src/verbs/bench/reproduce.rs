//! `tallycast bench reproduce`: a document's measurements done again, its conclusions beside ours.

use bench::report::Grid;
use bench::source_004;
use clap::{Args, ValueEnum};

use super::output::{self, Output};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench reproduce 004                           a few points of its grid, in three to four minutes
  tallycast bench reproduce 004 --full --html 004.html    the whole grid; it takes most of a day

Processor quotas are enforced by a control group, which takes root or a container that may make one.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Which document
    #[arg(value_name = "DOCUMENT")]
    document: Document,
    /// Measure all of its points with runs of its length
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    output: Output,
}

/// The documents that can be done again.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Document {
    /// Data exchange in middleware by UDP and shared memory: the largest array every cycle
    #[value(name = "004")]
    Exchange,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let grid = if arguments.full { Grid::Full } else { Grid::Short };
    match arguments.document {
        Document::Exchange => output::measure(&source_004::options(grid), &arguments.output, |report| {
            report.source = Some(source_004::compare(report, grid));
        }),
    }
}
