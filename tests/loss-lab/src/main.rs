//! The loss laboratory: every class of loss, planted in network namespaces, and the doctor's report of it.
//!
//! Numbered datagrams go from one host to another, something along the path loses some of them, and `tallycast
//! doctor watch` runs on both hosts. The doctor must name the datagrams missing at the reader, at the stage where
//! the loss was planted, number by number; it must report the others as not observed. [`classes`] is the list;
//! `docs/guide/loss-lab.md` the manual.

mod absent;
mod borrowed;
mod classes;
mod judge;
mod processors;
mod remedy;
mod scene;
mod traffic;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use serde_json::json;

use absent::Absent;
use classes::{CLASSES, Class};
use judge::Row;
use remedy::{Knob, Remedy};
use scene::{Scene, Version};
use watch::Leaving;

/// Plant losses, and compare them with the doctor's report.
#[derive(Parser)]
struct Arguments {
    /// Only these classes
    classes: Vec<String>,
    /// Print one JSON object per row, one per line
    #[arg(long)]
    json: bool,
    /// Run the doctor as a user without privilege: by counters
    #[arg(long)]
    nobody: bool,
    /// Let the doctor use checkpoints, too, in every class
    #[arg(long)]
    checkpoints: bool,
    /// Skip and exit successfully if network namespaces cannot be created: for suites
    #[arg(long)]
    skip_without_root: bool,
    /// List the classes, and do nothing else
    #[arg(long)]
    list: bool,
}

impl Arguments {
    fn names(&self, class: &Class) -> bool {
        self.classes.iter().any(|it| it == class.name)
    }

    /// Returns the remedy for `doctor fix`: it needs root, and classes of the whole host must be named.
    fn remedies(&self, class: &'static Class, version: Version) -> Option<&'static Remedy> {
        let is_allowed = |remedy: &&Remedy| !matches!(remedy.knob, Knob::Host(_)) || self.names(class);
        let remedy = class.remedy.as_ref().filter(is_allowed).filter(|_| !self.nobody);
        remedy.filter(|remedy| remedy.versions.contains(&version))
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let unknown =
        arguments.classes.iter().find(|name| !CLASSES.iter().any(|class| class.name == name.as_str()));
    if let Some(unknown) = unknown {
        anyhow::bail!("unknown class `{unknown}`\n--list names all classes");
    }
    let wanted =
        |class: &&Class| arguments.names(class) || arguments.classes.is_empty() && !class.only_if_named;
    if arguments.list {
        CLASSES.iter().for_each(|class| println!("{:<28}{}", class.name, class.about));
        return Ok(true);
    }
    if !rustix::process::geteuid().is_root() {
        anyhow::ensure!(
            arguments.skip_without_root,
            "network namespaces need root\n--list names the classes without planting them"
        );
        println!("SKIPPED: network namespaces need root");
        return Ok(true);
    }
    let (mut failures, mut leaving) = (Vec::new(), Leaving::default());
    if !arguments.json {
        println!("{}", judge::HEAD);
    }
    for class in CLASSES.iter().filter(wanted) {
        for version in class.versions {
            let row = match row(class, *version, arguments, &mut leaving) {
                Err(error) if error.is::<Absent>() => {
                    let skipped = json!({ "kind": "skipped", "class": class.name, "why": error.to_string() });
                    let text = || format!("SKIPPED: {}: {error}", class.name);
                    println!("{}", if arguments.json { skipped.to_string() } else { text() });
                    continue;
                }
                row => row.unwrap_or_else(|error| Row::failed(class, *version, &error)),
            };
            let remedied = arguments.remedies(class, *version).map(|remedy| {
                remedy_row(class, remedy, *version)
                    .unwrap_or_else(|error| Row::remedy_failed(class, *version, &error))
            });
            for row in [Some(row), remedied].iter().flatten() {
                failures.extend(row.failure(arguments.nobody));
                println!("{}", if arguments.json { row.json().to_string() } else { row.text() });
            }
        }
    }
    // Repeated at the end, for logs of which only the end is kept; not among the rows.
    failures.iter().for_each(|failure| eprintln!("FAILED: {failure}"));
    Ok(failures.is_empty())
}

fn row(
    class: &'static Class,
    version: Version,
    arguments: &Arguments,
    leaving: &mut Leaving,
) -> anyhow::Result<Row> {
    let Arguments { nobody, checkpoints, .. } = *arguments;
    let mut scene = Scene::new(version)?;
    (class.prepare)(&mut scene)?;
    let watches = scene.watch(class, nobody, checkpoints)?;
    let planted = (class.plant)(&mut scene)?;
    // Counters report no numbers to wait for; the planted losses are counted.
    let patience = if nobody { Duration::ZERO } else { class.patience };
    let told = watches.end(patience, &planted, leaving)?;
    Ok(judge::judge(class, version, &planted, &told, nobody))
}

fn remedy_row(class: &'static Class, remedy: &Remedy, version: Version) -> anyhow::Result<Row> {
    let mut scene = Scene::new(version)?;
    (class.prepare)(&mut scene)?;
    Ok(Row::of_remedy(class, version, remedy::remedy(remedy, &mut scene)?))
}
