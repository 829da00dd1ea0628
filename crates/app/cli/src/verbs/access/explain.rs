//! `tallycast access explain`: the line that decides, for one stream or for all, and what the answer covers.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;

use access::{Decision, May, Policy, Principal, PrincipalName, Reach, Who};
use anyhow::bail;
use clap::Args;
use identity::{Content, Folder, UserError, Users};
use sample::{StreamName, StreamPattern};
use serde::Serialize;

use crate::Outcome;
use crate::messages::print_line;
use crate::settings::{self, Sources, listen_address};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast access explain user:ada steer lab/laser/power
  tallycast access explain user:ada steer '**'            the loss switch, and patterns with wildcards
  tallycast access explain user:ada administer            the sessions of all users
  tallycast access explain anyone read lab/probe --listen 0.0.0.0:7480
  tallycast access explain user:alan@example.org read lab/probe --group operators

Exit codes: 0 allowed, 1 denied, 2 could not run.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The principal: anyone, user:NAME, token:NAME, key:NAME or key:HEX
    who: String,
    /// The use: read, publish, steer, derive or administer
    may: May,
    /// The stream; a pattern is asked for as all streams
    #[arg(value_name = "NAME", default_value = "**")]
    streams: StreamPattern,
    /// A group that a provider puts the user in; repeatable
    #[arg(long, value_name = "NAME")]
    group: Vec<PrincipalName>,
    /// Address at which the monitor listens: without rules it decides [default: monitor.listen of the settings]
    #[arg(long, value_name = "ADDRESS", value_parser = settings::listen_address)]
    listen: Option<SocketAddr>,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
}

/// The answer in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    who: String,
    stream: &'a str,
    covers: &'static str,
    #[serde(flatten)]
    decision: &'a Decision,
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    /// One stream.
    Stream(StreamName),
    /// All of them, and what concerns no single one.
    Everything,
}

pub(crate) fn run(arguments: &Arguments, folder: &Folder, sources: &Sources) -> anyhow::Result<Outcome> {
    let content = folder.read()?;
    let policy = content.policy(reach(arguments, sources)?);
    let asked = Asked::of(arguments.may, &arguments.streams);
    let (principal, is_expired) = principal(arguments, &content)?;
    let decision = if is_expired {
        Decision::expired(arguments.may)
    } else {
        asked.decide(&policy, &principal, arguments.may)
    };
    let covers = asked.covers(arguments.may);
    if arguments.json {
        let answer =
            Answer { who: principal.to_string(), stream: asked.as_str(), covers, decision: &decision };
        print_line(&serde_json::to_value(answer)?)?;
    } else {
        writeln!(std::io::stdout(), "{decision}\n{asked}: {covers}")?;
    }
    Ok(if decision.is_allowed { Outcome::Fine } else { Outcome::Found })
}

impl Asked {
    /// Returns what a question is about: a pattern is joined with the right to all streams, and the sessions of others
    /// are no stream's.
    fn of(may: May, streams: &StreamPattern) -> Self {
        match streams.as_str().parse() {
            Ok(name) if may != May::Administer => Self::Stream(name),
            Ok(_) | Err(_) => Self::Everything,
        }
    }

    fn decide(&self, policy: &Policy, principal: &Principal, may: May) -> Decision {
        match self {
            Self::Stream(name) => policy.decide(principal, may, name),
            Self::Everything => policy.decide_everywhere(principal, may),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Stream(name) => name.as_str(),
            Self::Everything => "**",
        }
    }

    /// Returns what the answer is for.
    const fn covers(&self, may: May) -> &'static str {
        match (self, may) {
            (Self::Stream(_), May::Read) => "its samples, account, history and recordings",
            (Self::Stream(_), May::Steer) => "joining and leaving it",
            (Self::Stream(_), May::Derive) => "deriving a stream of this name, from inputs that may be read",
            (Self::Stream(_), May::Publish) => "deriving under this name while another publisher has it",
            (Self::Everything, May::Read) => "every stream, also one to come",
            (Self::Everything, May::Steer) => "the loss switch; joining and leaving patterns with wildcards",
            (Self::Everything, May::Derive) => "deriving streams of any name",
            (Self::Everything, May::Publish) => "deriving under any name, also one in use",
            (_, May::Administer) => "listing and ending the sessions of all users",
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stream(name) => name.as_str(),
            Self::Everything => "all streams",
        })
    }
}

/// Returns the reach of the address at which the monitor listens, which decides where there are no rules.
fn reach(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Reach> {
    let address = match arguments.listen {
        Some(address) => address,
        None => {
            let address = sources.load()?.text("monitor.listen", None)?;
            listen_address(&address).map_err(anyhow::Error::msg)?
        }
    };
    Ok(if address.ip().is_loopback() { Reach::Loopback } else { Reach::Elsewhere })
}

/// Returns the principal with what the files know of it, and whether its proof has expired.
fn principal(arguments: &Arguments, content: &Content) -> anyhow::Result<(Principal, bool)> {
    let mut is_expired = false;
    let principal = match arguments.who.parse::<Who>()? {
        Who::Anyone => Principal::anonymous(),
        Who::User(name) => user(name, &content.users)?,
        Who::Token(name) => {
            let token = content.tokens.named(&name)?;
            if let Some(expires) = token.expires.filter(|_| !token.is_valid(sys::clock::wall())) {
                eprintln!("note: the access token `{name}` expired at {expires}");
                is_expired = true;
            }
            Principal::token(name, token.scopes)
        }
        Who::Key(name) if is_key(name.as_str()) => Principal::key(name.as_str(), None),
        Who::Key(name) => Principal::key("", Some(name)),
        _ => bail!(
            "`{}` is not one principal\nask for one of them: user:NAME, token:NAME or key:NAME",
            arguments.who
        ),
    };
    Ok((principal.in_groups(arguments.group.iter().map(PrincipalName::as_str)), is_expired))
}

/// Returns a local user, or one that a provider may vouch for.
fn user(name: PrincipalName, users: &Users) -> Result<Principal, UserError> {
    match users.principal(&name) {
        Some(known) => Ok(known),
        None if Users::is_local_name(&name) => Err(UserError::Unknown(name)),
        None => {
            eprintln!("note: `{name}` is taken for a provider's user: no local one has such a name");
            Ok(Principal::user(name))
        }
    }
}

/// Returns whether a name is the digits of a public key of 32 bytes.
fn is_key(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}
