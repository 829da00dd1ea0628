//! `tallycast archive`: maintenance of recordings.

use std::path::PathBuf;

use anyhow::Context;
use archive::{Archive, Finding, RunName, Scope, Verification};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tallycast::StreamName;

use crate::Outcome;
use crate::layout;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::status_line::StatusLine;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast archive verify tallycast-archive                 compare account, index, data and gap map
  tallycast archive verify tallycast-archive lab/probe --run shot-1042 --json

Exit codes: 0 intact, 1 contradictions found, 2 could not run.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Read everything and report contradictions; nothing is changed
    #[command(after_help = EXAMPLES)]
    Verify(Verify),
}

#[derive(Args, Debug)]
struct Verify {
    /// Folder of the archive [default: record.root of the settings]
    #[arg(value_name = "ROOT")]
    root: Option<PathBuf>,
    /// Only this stream
    #[arg(value_name = "STREAM", requires = "root")]
    stream: Option<StreamName>,
    /// Only this run
    #[arg(long, value_name = "NAME")]
    run: Option<RunName>,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Verify(arguments) => verify(arguments, sources),
    }
}

fn verify(arguments: &Verify, sources: &Sources) -> anyhow::Result<Outcome> {
    let root = match &arguments.root {
        Some(root) => root.clone(),
        None => sources.load()?.text("record.root", None)?.into(),
    };
    let archive = Archive::open(&root)?;
    let scope = Scope { run: arguments.run.clone(), stream: arguments.stream.clone() };
    let mut status = StatusLine::new(arguments.json);
    let found = archive
        .verify(&scope, &mut |so_far| {
            status.show(|| format!("{} epochs, {} samples read", so_far.epochs, so_far.samples));
        })
        .with_context(|| format!("{} could not be verified", root.display()))?;
    status.clear();
    if arguments.json {
        print_json(&found)?
    } else {
        print(&found)?
    }
    Ok(if found.is_whole() { Outcome::Fine } else { Outcome::Found })
}

fn print_json(found: &Verification) -> anyhow::Result<()> {
    let line = |kind: &str, finding: &Finding| {
        print_line(&json!({"kind": kind, "path": finding.path.to_string_lossy(), "what": finding.what}))
    };
    found.contradictions.iter().try_for_each(|finding| line("contradiction", finding))?;
    found.remarks.iter().try_for_each(|finding| line("remark", finding))?;
    Ok(print_line(&summary(found))?)
}

fn summary(found: &Verification) -> Value {
    json!({
        "kind": "summary",
        "whole": found.is_whole(),
        "complete": found.is_complete(),
        "runs": found.runs,
        "epochs": found.epochs,
        "segments": found.segments,
        "samples": found.samples,
        "missing_samples": found.missing_samples,
        "missing_elements": found.missing_elements,
        "refilled_elements": found.refilled_elements,
        "contradictions": found.contradictions.len(),
        "remarks": found.remarks.len(),
        "untold": found.untold,
    })
}

fn print(found: &Verification) -> anyhow::Result<()> {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    for Finding { path, what } in &found.contradictions {
        writeln!(output, "contradiction: {}: {what}", path.display())?;
    }
    for Finding { path, what } in &found.remarks {
        writeln!(output, "remark: {} {what}", path.display())?;
    }
    // An intact recording has only excess remarks.
    let untold = if found.is_whole() { 0 } else { found.untold };
    let verdict = match found.contradictions.len() as u64 + untold {
        0 => "no contradictions".to_owned(),
        1 => "1 contradiction".to_owned(),
        count => format!("{count} contradictions"),
    };
    let Verification { runs, epochs, segments, samples, missing_samples, .. } = found;
    let complete = if found.is_complete() { "; complete" } else { "" };
    let read = format!("{samples} samples read, {missing_samples} missing; {verdict}{complete}");
    let sum = format!("{runs} runs, {epochs} epochs, {segments} segments: {read}");
    writeln!(output, "{}", layout::wrapped(&sum, layout::width()).join("\n"))?;
    if found.refilled_elements > 0 {
        let text =
            format!("{} elements came later, from the archives of other stations", found.refilled_elements);
        writeln!(output, "{}", layout::wrapped(&text, layout::width()).join("\n"))?;
    }
    Ok(())
}
