//! `tallycast access explain`: the line that decides.

use std::io::Write;

use access::{Decision, May, Principal, PrincipalName, Reach, Who};
use anyhow::{anyhow, bail};
use clap::Args;
use identity::{Content, Folder};
use sample::StreamName;
use serde::Serialize;

use crate::Outcome;
use crate::messages::print_line;
use crate::settings::{Sources, listen_address};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast access explain user:ada steer lab/laser/power
  tallycast access explain anyone read lab/probe
  tallycast access explain user:alan@example.org read lab/probe --group operators

Exit codes: 0 allowed, 1 denied, 2 could not run.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The principal: anyone, user:NAME, token:NAME, key:NAME or key:HEX
    who: String,
    /// The use: read, publish, steer, derive or administer
    may: May,
    /// The stream
    #[arg(value_name = "NAME")]
    stream: StreamName,
    /// A group that a provider puts the user in; repeatable
    #[arg(long, value_name = "NAME")]
    group: Vec<PrincipalName>,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    who: String,
    stream: &'a StreamName,
    #[serde(flatten)]
    decision: &'a Decision,
}

pub(crate) fn run(arguments: &Arguments, folder: &Folder, sources: &Sources) -> anyhow::Result<Outcome> {
    let content = folder.read()?;
    let principal = principal(arguments, &content)?;
    let policy = content.policy(reach(sources)?);
    let decision = policy.decide(&principal, arguments.may, &arguments.stream);
    if arguments.json {
        let answer = Answer { who: principal.to_string(), stream: &arguments.stream, decision: &decision };
        print_line(&serde_json::to_value(answer)?)?;
    } else {
        writeln!(std::io::stdout(), "{decision}")?;
    }
    Ok(if decision.is_allowed { Outcome::Fine } else { Outcome::Found })
}

/// Returns the reach of the address at which the monitor listens, which decides where there are no rules.
fn reach(sources: &Sources) -> anyhow::Result<Reach> {
    let address = sources.load()?.text("monitor.listen", None)?;
    let address = listen_address(&address).map_err(anyhow::Error::msg)?;
    Ok(if address.ip().is_loopback() { Reach::Loopback } else { Reach::Elsewhere })
}

/// Returns the principal with what the files know of it.
fn principal(arguments: &Arguments, content: &Content) -> anyhow::Result<Principal> {
    let principal = match arguments.who.parse::<Who>()? {
        Who::Anyone => Principal::anonymous(),
        Who::User(name) => content.users.principal(&name).unwrap_or_else(|| {
            eprintln!("note: no local user is named `{name}`: taken for a provider's user");
            Principal::user(name)
        }),
        Who::Token(name) => {
            let found = content.tokens.iter().find(|(known, _)| **known == name);
            let unknown = || anyhow!("no token is named `{name}`\nlist them: tallycast access token list");
            let (_, token) = found.ok_or_else(unknown)?;
            Principal::token(name.clone(), token.scopes)
        }
        Who::Key(name) if is_key(name.as_str()) => Principal::key(name.as_str(), None),
        Who::Key(name) => Principal::key("", Some(name)),
        _ => bail!(
            "`{}` is not one principal\nask for one of them: user:NAME, token:NAME or key:NAME",
            arguments.who
        ),
    };
    Ok(principal.in_groups(arguments.group.iter().map(PrincipalName::as_str)))
}

/// Returns whether a name is the digits of a public key of 32 bytes.
fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}
