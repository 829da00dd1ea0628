//! Rules of the repository: tiers, floors, dependencies, names, comments, and pages that match the code.
//!
//! Each rule is a pure function from text or metadata to [`Offence`]s, tested on strings for both sides; this file
//! only collects their inputs. Rules that the compiler or clippy can enforce are left to them (`clippy.toml`,
//! `[workspace.lints]`). The lines of CONVENTIONS.md marked "tidy" are the ones checked here.

mod dependencies;
mod files;
mod generated;
mod machine_paths;
mod messages;
mod names;
mod pages;
mod proofs;
mod rust_rules;
mod rust_text;
mod tasks;
mod tiers;
mod words;

use crate::Verdict;
use crate::bench::measured;
use crate::workspace::{self, Metadata};
use std::fmt;

/// One breach of a rule, printed as `path:line: message` so that editors and people can jump to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Offence {
    path: String,
    line: usize,
    message: String,
}

impl Offence {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Options of `cargo xtask tidy`.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Options {
    /// Rewrite the catalogue of messages and the page of measured figures before the rules are checked.
    #[arg(long)]
    update: bool,
}

/// Checks every rule and prints each offence on a line of its own.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    if options.update {
        std::fs::write(workspace::root().join(messages::PAGE), messages::catalogue(&files::list()?))?;
        measured::update()?;
    }
    let (files, offences) = check()?;
    for offence in &offences {
        println!("{offence}");
    }
    if offences.is_empty() {
        println!("tidy: {files} files keep the rules");
        return Ok(Verdict::Fine);
    }
    println!("tidy: {} offences in {files} files", offences.len());
    Ok(Verdict::FoundSomething)
}

/// Returns the number of files checked, and the offences in order of path and line.
fn check() -> anyhow::Result<(usize, Vec<Offence>)> {
    let metadata = Metadata::load()?;
    let files = files::list()?;
    let root = workspace::root();
    let machine = machine_paths::Machine::of_checkout(&root);

    let mut offences = tiers::check(&metadata.packages);
    offences.extend(names::check_crates(&metadata.packages));
    let sources: Vec<proofs::Source<'_>> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
        .collect();
    for file in &files {
        offences.extend(names::check_path(&file.path));
        let Some(text) = &file.text else { continue };
        offences.extend(machine.check(&file.path, text));
        offences.extend(pages::check(&file.path, text, &metadata.packages, |name| root.join(name).exists()));
        offences.extend(words::check(&file.path, text));
        offences.extend(proofs::check(&file.path, text, &sources));
        if file.path.ends_with(".rs") {
            offences.extend(rust_rules::check(&file.path, text, file.tracked));
        } else {
            offences.extend(tasks::check_text(&file.path, text));
        }
    }
    offences.extend(dependencies::check(&metadata.packages, &files));
    offences.extend(generated::check(&files, messages::PAGE, &messages::catalogue(&files)));
    offences.extend(generated::check(&files, measured::PAGE, &measured::page()?));
    offences.sort();
    offences.dedup();
    Ok((files.len(), offences))
}
