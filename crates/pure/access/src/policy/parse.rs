//! The access file's text, line by line.

use core::str::FromStr;
use std::collections::BTreeSet;
use std::sync::Arc;

use sample::PatternError;

use super::{Groups, Rule, Who};
use crate::{InvalidPrincipalName, PrincipalName, UnknownWord};

/// The largest access file: a thousand rules, and groups of thousands.
pub const MAX_POLICY_BYTES: usize = 256 * 1024;
/// The most rules: each question may go through all of them.
pub const MAX_RULES: usize = 1_000;

/// Words with which a line begins.
const FIRST_WORDS: [&str; 3] = ["allow", "deny", "group"];
/// Forms of WHO.
const WHO_FORMS: [&str; 7] = ["anyone", "signed-in", "user", "group", "role", "token", "key"];

/// Error in an access file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PolicyError {
    /// Number of the line, from 1.
    pub line: u32,
    /// What is wrong with it, and what to do.
    pub problem: Problem,
}

/// What is wrong with a line of an access file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is too large.
    #[error(
        "the access file exceeds {MAX_POLICY_BYTES} bytes here\nuse patterns and groups instead of single names"
    )]
    TooLarge,
    /// There are too many rules.
    #[error(
        "the access file exceeds {MAX_RULES} rules here\nuse patterns and groups instead of single names"
    )]
    TooManyRules,
    /// A line that begins with another word.
    #[error("a line begins with allow, deny or group, not: {0}")]
    FirstWord(UnknownWord),
    /// A rule that lacks a part.
    #[error(
        "a rule has four parts: allow or deny, WHO, MAY, WHAT\nfor example: allow user:ada read,steer lab/**"
    )]
    Incomplete,
    /// Principals that are named in no known form.
    #[error("unknown form of a principal: {0}")]
    Form(UnknownWord),
    /// A form of principal that has no name, or must have one.
    #[error(
        "`{0}` does not name a principal\nwrite anyone, signed-in, role:ROLE, or user: group: token: key: and a name"
    )]
    Who(String),
    /// A name with other characters than names have.
    #[error(transparent)]
    Name(#[from] InvalidPrincipalName),
    /// An unknown kind of use, or an unknown role.
    #[error(transparent)]
    Word(#[from] UnknownWord),
    /// A pattern that matches no stream name.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A definition of a group that lacks a part.
    #[error("a group has a name and members\nfor example: group operators = ada, grace")]
    Group,
    /// A group that is defined a second time.
    #[error("the group `{0}` is defined a second time\nwrite all members in one line")]
    SecondGroup(PrincipalName),
}

/// Reads rules and groups.
pub(super) fn read(text: &str) -> Result<(Vec<Rule>, Groups), PolicyError> {
    let (mut rules, mut groups) = (Vec::new(), Groups::new());
    let mut size_bytes = 0;
    // Editors of other systems begin a text with a mark of its encoding.
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').split('\n')) {
        let because = |problem| PolicyError { line: number, problem };
        size_bytes += line.len() + 1;
        if size_bytes > MAX_POLICY_BYTES + 1 {
            return Err(because(Problem::TooLarge));
        }
        let (line, _comment) = line.split_once('#').unwrap_or((line, ""));
        let Some(first) = line.split_whitespace().next() else { continue };
        if first == "group" {
            let (name, members) = group(line).map_err(because)?;
            if groups.contains_key(&name) {
                return Err(because(Problem::SecondGroup(name)));
            }
            groups.insert(name, members);
        } else {
            rules.push(rule(number, line).map_err(because)?);
            if rules.len() > MAX_RULES {
                return Err(because(Problem::TooManyRules));
            }
        }
    }
    Ok((rules, groups))
}

fn rule(line: u32, text: &str) -> Result<Rule, Problem> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let allows = match words[0] {
        "allow" => true,
        "deny" => false,
        other => return Err(Problem::FirstWord(UnknownWord::new(other, &FIRST_WORDS))),
    };
    let [_, who, may @ .., streams] = words.as_slice() else { return Err(Problem::Incomplete) };
    if may.is_empty() {
        return Err(Problem::Incomplete);
    }
    // Blanks after the commas are no mistake.
    let (who, may) = (who.parse()?, may.join(" ").parse()?);
    Ok(Rule { line, text: Arc::from(words.join(" ")), allows, who, may, streams: streams.parse()? })
}

fn group(line: &str) -> Result<(PrincipalName, BTreeSet<PrincipalName>), Problem> {
    let (head, members) = line.split_once('=').ok_or(Problem::Group)?;
    let ["group", name] = head.split_whitespace().collect::<Vec<_>>()[..] else { return Err(Problem::Group) };
    let members = members.split(',').map(str::trim);
    if members.clone().any(str::is_empty) {
        return Err(Problem::Group);
    }
    Ok((name.parse()?, members.map(str::parse).collect::<Result<_, _>>()?))
}

impl FromStr for Who {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (form, name) = text.split_once(':').map_or((text, None), |(form, name)| (form, Some(name)));
        match (form, name) {
            ("anyone", None) => Ok(Self::Anyone),
            ("signed-in", None) => Ok(Self::SignedIn),
            ("user", Some(name)) => Ok(Self::User(name.parse()?)),
            ("group", Some(name)) => Ok(Self::Group(name.parse()?)),
            ("role", Some(role)) => Ok(Self::Role(role.parse()?)),
            ("token", Some(name)) => Ok(Self::Token(name.parse()?)),
            ("key", Some(name)) => Ok(Self::Key(name.parse()?)),
            (form, _) if WHO_FORMS.contains(&form) => Err(Problem::Who(text.escape_debug().to_string())),
            (form, _) => Err(Problem::Form(UnknownWord::new(form, &WHO_FORMS))),
        }
    }
}
