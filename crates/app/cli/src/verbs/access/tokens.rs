//! `tallycast access token`: tokens for machines, each shown once.

use std::io::Write;

use access::{MaySet, PrincipalName};
use clap::{Args, Subcommand};
use identity::{Expiry, Folder};
use serde_json::json;

use crate::Outcome;
use crate::layout::{self, Align};
use crate::messages::print_line;

#[derive(Subcommand, Debug)]
pub(crate) enum What {
    /// Make a token and print it: it is kept nowhere and cannot be shown again
    New(New),
    /// Remove a token
    Remove {
        /// Name of the token
        name: PrincipalName,
    },
    /// List the tokens with scopes and expiry
    List {
        /// Print JSON, one object per line
        #[arg(long, short = 'J')]
        json: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct New {
    /// Name of the token
    name: PrincipalName,
    /// Scopes, the most that the bearer may do: read, publish, steer, derive, administer, with commas
    #[arg(long, default_value = "read")]
    may: MaySet,
    /// Days until it expires
    #[arg(long, default_value_t = 90, conflicts_with = "expires")]
    days: u16,
    /// Moment of expiry in UTC: 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<Expiry>,
}

pub(crate) fn run(what: What, folder: &Folder) -> anyhow::Result<Outcome> {
    match what {
        What::New(new) => make(new, folder)?,
        What::Remove { name } => folder.change_tokens(|tokens| tokens.remove(&name))?,
        What::List { json } => list(folder, json)?,
    }
    Ok(Outcome::Fine)
}

fn make(new: New, folder: &Folder) -> anyhow::Result<()> {
    let expires = new.expires.unwrap_or_else(|| Expiry::in_days(sys::clock::wall(), new.days));
    let secret = folder.change_tokens(|tokens| tokens.issue(new.name, new.may, Some(expires)))?;
    eprintln!("may {}, expires {expires}; this is its only showing:", new.may);
    Ok(writeln!(std::io::stdout(), "{}", secret.reveal())?)
}

fn list(folder: &Folder, as_json: bool) -> anyhow::Result<()> {
    let (tokens, now) = (folder.read()?.tokens, sys::clock::wall());
    let mut table = layout::Table::new(["token", "may", "expires"].map(|head| (head, Align::Left)));
    for (name, token) in tokens.iter() {
        if as_json {
            let is_expired = !token.is_valid(now);
            print_line(
                &json!({"name": name, "may": token.scopes, "expires": token.expires, "expired": is_expired}),
            )?;
        }
        let expires = token.expires.map_or_else(|| "never".to_owned(), |expires| expires.to_string());
        let mark = if token.is_valid(now) { "" } else { " (expired)" };
        table.row([name.to_string(), token.scopes.to_string(), format!("{expires}{mark}")]);
    }
    if as_json {
        return Ok(());
    }
    let mut output = std::io::stdout().lock();
    Ok(table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?)
}
