//! `tallycast config`: checks the settings, and shows the origin of each.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::Outcome;
use crate::layout;
use crate::messages::print_error;
use crate::settings::{self, KEYS, Sources};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast config check ~/.config/tallycast.toml
  tallycast config show --origin";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Check a file of settings: unknown keys and wrong values are errors; exit code 1 if there are any
    Check {
        /// The file; by default the one that would be read: --config, TALLYCAST_CONFIG, or the usual one
        file: Option<PathBuf>,
    },
    /// Show every setting with its meaning
    Show {
        /// Show the origin of each value: flag, environment, file or default
        #[arg(long)]
        origin: bool,
    },
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::Check { file } => check(file.or_else(|| sources.asked_file())),
        What::Show { origin } => show(sources, origin),
    }
}

fn check(file: Option<PathBuf>) -> anyhow::Result<Outcome> {
    let Some(path) = file.or_else(settings::default_path) else {
        anyhow::bail!("no file to check\nname one: tallycast config check FILE");
    };
    // A missing file could not be checked; an invalid one was checked, and a problem was found.
    std::fs::metadata(&path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    match settings::read(&path) {
        Ok(_) => {
            writeln!(std::io::stdout(), "{}: valid", path.display())?;
            Ok(Outcome::Fine)
        }
        Err(error) => {
            print_error(&error);
            Ok(Outcome::Found)
        }
    }
}

fn show(sources: &Sources, with_origin: bool) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let mut output = std::io::stdout().lock();
    let mut section = "";
    for key in &KEYS {
        let (of, name) = key.name.split_once('.').expect("every key is in a section");
        if of != section {
            writeln!(output, "{}[{of}]", if section.is_empty() { "" } else { "\n" })?;
            section = of;
        }
        let (value, origin) = settings.value(key.name, None)?;
        let over: Vec<&str> = key.flag.into_iter().chain(key.variable).collect();
        let over = if over.is_empty() { String::new() } else { format!(" ({})", over.join(", ")) };
        let about = layout::wrapped(&format!("{}{over}", key.about), layout::width() - 2);
        about.iter().try_for_each(|line| writeln!(output, "# {line}"))?;
        write!(output, "{name} = {value}")?;
        writeln!(output, "{}", if with_origin { format!("  # {origin}") } else { String::new() })?;
    }
    Ok(Outcome::Fine)
}
