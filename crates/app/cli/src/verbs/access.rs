//! `tallycast access`: explains rules, checks the access files, edits users and tokens.

mod explain;
mod tokens;
mod users;

use std::io::Write;
use std::path::PathBuf;

use access::{Policy, Who};
use clap::{Args, Subcommand};
use identity::{Content, Folder, Users};

use crate::Outcome;
use crate::messages::print_error;
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast access user add ada --role operator    a local user; asks for the password
  tallycast access token new scraper --may read    a token for a machine, shown once
  tallycast access explain user:ada steer lab/laser
  tallycast access check                           rules, users, tokens, and the modes of their files";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    what: What,
}

/// Where the access files are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// Folder of the access files: rules, users, tokens [env: TALLYCAST_ACCESS] [default: access.folder of the
    /// settings, or ~/.config/tallycast]
    #[arg(long, global = true, value_name = "DIR")]
    access: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Say whether WHO has the right MAY to a stream, and which line decides; exit code 1 if not
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Arguments),
    /// Check the access files; exit code 1 if one is wrong
    Check,
    /// Add, change, remove and list local users
    User {
        #[command(subcommand)]
        what: users::What,
    },
    /// Make, remove and list tokens for machines
    Token {
        #[command(subcommand)]
        what: tokens::What,
    },
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let folder = arguments.place.folder(sources)?;
    match arguments.what {
        What::Explain(arguments) => explain::run(&arguments, &folder, sources),
        What::Check => check(&folder),
        What::User { what } => users::run(what, &folder),
        What::Token { what } => tokens::run(what, &folder),
    }
}

impl Place {
    /// Returns the folder that the flag, the environment or the settings name.
    pub(crate) fn folder(&self, sources: &Sources) -> anyhow::Result<Folder> {
        Ok(Folder::new(sources.load()?.access_folder(self.access.as_deref())?))
    }
}

fn check(folder: &Folder) -> anyhow::Result<Outcome> {
    let path = folder.as_ref().display();
    let content = match folder.read() {
        Ok(content) => content,
        Err(error) => {
            print_error(&error.into());
            return Ok(Outcome::Found);
        }
    };
    let rules = content.rules.as_ref().map_or_else(
        || "no rules: on a loopback address anyone may do anything, elsewhere the role decides".to_owned(),
        |policy| counted(policy.rules().len(), "rule"),
    );
    let (users, tokens) = (content.users.iter().len(), content.tokens.iter().len());
    writeln!(
        std::io::stdout(),
        "{path}: valid\n{rules}\n{}, {}",
        counted(users, "user"),
        counted(tokens, "token")
    )?;
    for rule in content.rules.iter().flat_map(Policy::rules) {
        if let Some(unknown) = unknown(rule.who(), &content) {
            writeln!(std::io::stdout(), "note: line {} applies to nobody: {unknown}", rule.line())?;
        }
    }
    Ok(Outcome::Fine)
}

/// Returns what is unknown about those that a rule is about.
fn unknown(who: &Who, content: &Content) -> Option<String> {
    match who {
        Who::User(name) if Users::is_local_name(name) && content.users.get(name).is_none() => {
            Some(format!("no user is named `{name}`"))
        }
        // By the first line of the error, which does not repeat a token.
        Who::Token(name) => content.tokens.named(name).err()?.to_string().lines().next().map(str::to_owned),
        _ => None,
    }
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
