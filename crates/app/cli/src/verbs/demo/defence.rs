//! Check of a secured demo: what was refused, that nothing forged entered an account, and that outsiders got nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use keys::Token;
use serde_json::{Value, json};

use super::children::Line;
use super::outsider::Report;
use crate::messages::print_line;

/// What a secured demo left behind.
pub(super) struct Defence<'a> {
    /// Lines of publishers and readers with keys.
    pub(super) members: &'a [Line],
    /// Lines of readers that must get nothing.
    pub(super) outsiders: &'a [Line],
    /// What those were told, by their names.
    pub(super) messages: &'a [(String, Vec<String>)],
    /// The attacker's report.
    pub(super) report: Report,
    /// Secrets that publishers must have begun to use.
    pub(super) in_use: Vec<Token>,
}

/// Datagrams that readers refused, by reader and reason.
type Refused<'a> = BTreeMap<&'a str, BTreeMap<&'a str, u64>>;

impl Defence<'_> {
    /// Prints what was found; returns whether all is well.
    pub(super) fn print(&self, as_json: bool) -> std::io::Result<bool> {
        let complaints = self.complaints();
        if as_json {
            print_line(&self.object(&complaints))?;
        } else {
            let mut output = std::io::stdout().lock();
            self.text().iter().try_for_each(|line| writeln!(output, "{line}"))?;
        }
        complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        if complaints.is_empty() {
            eprintln!("nothing forged entered an account, and outsiders read nothing");
        }
        Ok(complaints.is_empty())
    }

    fn complaints(&self) -> Vec<String> {
        let Report { heard, in_clear, sent, .. } = &self.report;
        let mut complaints = self.forged();
        let refused = self.refused();
        for (reason, _) in sent.iter().filter(|(_, count)| **count > 0) {
            for (reader, reasons) in &refused {
                if reasons.get(reason).is_none_or(|count| *count == 0) {
                    complaints.push(format!(
                        "{reader} refused no datagram for the reason {reason}, and some were sent"
                    ));
                }
            }
        }
        if sent.is_empty() || refused.is_empty() {
            complaints.push(
                "the attacker was not there for long enough\nlet it run longer: --duration 20s".to_owned(),
            );
        }
        if *heard == 0 || *in_clear > 0 {
            complaints.push(format!("the attacker heard {heard} datagrams, {in_clear} of them in clear"));
        }
        for (name, lines) in self.read_by_outsiders() {
            complaints.push(format!("{name} read something: {lines} events"));
        }
        let unused = self.in_use.iter().filter(|token| !self.report.tokens.contains(token));
        complaints
            .extend(unused.map(|token| format!("no publisher was heard to use the new secret {token}")));
        complaints
    }

    /// Finds accounts that have more than was published, or epochs that nobody published.
    fn forged(&self) -> Vec<String> {
        let mut published: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for Line { value, .. } in self.members.iter().filter(|line| line.value["event"] == "totals") {
            let offered = value["samples"]["offered"].as_u64().unwrap_or(0);
            published.entry(text(&value["stream"])).or_default().insert(text(&value["epoch"]), offered);
        }
        let mut complaints = Vec::new();
        for Line { child, value } in self.accounts() {
            let (stream, epoch) = (text(&value["stream"]), text(&value["epoch"]));
            // Derived streams are published by the monitor server, which prints no totals.
            let Some(epochs) = published.get(stream) else { continue };
            let elements = &value["elements"];
            let count = |key: &str| elements[key].as_u64().unwrap_or(0);
            match epochs.get(epoch) {
                None => complaints
                    .push(format!("account of {stream} at {child}: nobody published the epoch {epoch}")),
                Some(offered) if count("next") > *offered => complaints.push(format!(
                    "account of {stream} at {child} goes to sample {}, and {offered} were published",
                    count("next")
                )),
                Some(_) => {}
            }
        }
        complaints
    }

    fn accounts(&self) -> impl Iterator<Item = &Line> {
        self.members.iter().filter(|line| line.value["event"] == "account")
    }

    /// Returns what the readers refused in the name of the attacked streams; every reader of them is there.
    fn refused(&self) -> Refused<'_> {
        let mut refused = Refused::new();
        let attacked = |line: &&Line| self.report.streams.contains(text(&line.value["stream"]));
        for line in self.accounts().filter(attacked) {
            let reasons = refused.entry(line.child.as_str()).or_default();
            for (reason, count) in line.value["unauthentic"].as_object().into_iter().flatten() {
                *reasons.entry(reason.as_str()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        refused
    }

    fn read_by_outsiders(&self) -> BTreeMap<&str, usize> {
        let mut read = BTreeMap::new();
        self.outsiders.iter().for_each(|line| *read.entry(line.child.as_str()).or_default() += 1);
        read
    }

    fn tokens(&self) -> Vec<String> {
        self.report.tokens.iter().map(Token::to_string).collect()
    }

    fn object(&self, complaints: &[String]) -> Value {
        let read = self.read_by_outsiders();
        let outsiders = self.messages.iter().map(|(name, told)| {
            json!({"outsider": name, "events": read.get(name.as_str()).unwrap_or(&0), "told": told})
        });
        let in_use: BTreeSet<String> = self.in_use.iter().map(Token::to_string).collect();
        json!({
            "event": "defence",
            "attacked": self.report.streams,
            "heard_datagrams": self.report.heard,
            "clear_datagrams": self.report.in_clear,
            "sent": self.report.sent,
            "refused": self.refused(),
            "secrets": self.tokens(),
            "rotations": in_use,
            "outsiders": outsiders.collect::<Vec<_>>(),
            "complaints": complaints,
        })
    }

    fn text(&self) -> Vec<String> {
        let Report { streams, heard, in_clear, sent, .. } = &self.report;
        let counted = |counts: &BTreeMap<&str, u64>| {
            let counts = counts.iter().filter(|(_, count)| **count > 0);
            counts.map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
        };
        let streams: Vec<&str> = streams.iter().map(String::as_str).collect();
        let mut lines = vec![
            String::new(),
            format!("attacker   heard {heard} datagrams of {}, {in_clear} in clear", streams.join(", ")),
            format!("           sent {}", counted(sent)),
        ];
        for (reader, reasons) in self.refused() {
            lines.push(format!("refused    by {reader}: {}", counted(&reasons)));
        }
        let read = self.read_by_outsiders();
        for (name, told) in self.messages {
            let events = read.get(name.as_str()).unwrap_or(&0);
            let told = told.first().map_or_else(String::new, |line| format!("; told: {line}"));
            lines.push(format!("outsider   {name}: {events} events{told}"));
        }
        lines.push(format!("secrets    heard in use: {}", self.tokens().join(", ")));
        lines
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(child: &str, value: Value) -> Line {
        Line { child: child.to_owned(), value }
    }

    fn account(reader: &str, epoch: &str, next: u64) -> Line {
        let value = json!({"event": "account", "stream": "a", "epoch": epoch, "elements": {"next": next},
            "unauthentic": {"bad_tag": 3, "clear": 0}});
        line(reader, value)
    }

    fn members() -> Vec<Line> {
        let totals = json!({"event": "totals", "stream": "a", "epoch": "1", "samples": {"offered": 10}});
        vec![line("a", totals), account("m", "1", 10), account("r", "1", 10)]
    }

    fn report() -> Report {
        Report {
            streams: BTreeSet::from(["a".to_owned()]),
            heard: 5,
            in_clear: 0,
            tokens: BTreeSet::from([Token(1), Token(2)]),
            sent: BTreeMap::from([("bad_tag", 3)]),
        }
    }

    fn complaints(members: &[Line], outsiders: &[Line], report: Report) -> Vec<String> {
        Defence { members, outsiders, messages: &[], report, in_use: vec![Token(2)] }.complaints()
    }

    #[test]
    fn all_is_well_when_forgeries_are_refused_and_outsiders_get_nothing() {
        assert_eq!(complaints(&members(), &[], report()), [""; 0]);
    }

    #[test]
    fn what_nobody_published_is_complained_of() {
        let mut lines = members();
        lines[1].value["elements"]["next"] = json!(11);
        lines.push(account("r", "2", 1));
        let said = complaints(&lines, &[], report());
        assert_eq!(said[0], "account of a at m goes to sample 11, and 10 were published");
        assert_eq!(said[1..], ["account of a at r: nobody published the epoch 2"]);
    }

    #[test]
    fn an_outsider_that_read_or_heard_anything_is_complained_of() {
        let read = [line("reader without keys", json!({"event": "began"}))];
        assert_eq!(complaints(&members(), &read, report()), ["reader without keys read something: 1 events"]);
        let said = complaints(&members(), &[], Report { in_clear: 1, ..report() });
        assert_eq!(said, ["the attacker heard 5 datagrams, 1 of them in clear"]);
    }

    #[test]
    fn an_attack_that_shows_nowhere_and_a_secret_that_nobody_uses_are_complained_of() {
        let sent = BTreeMap::from([("clear", 1)]);
        let said = complaints(&members(), &[], Report { sent, ..report() });
        assert_eq!(said.len(), 2, "at each reader: {said:?}");
        assert!(said[0].starts_with("m refused no datagram for the reason clear"), "{said:?}");
        let said = complaints(&members(), &[], Report { sent: BTreeMap::new(), ..report() });
        assert!(said[0].starts_with("the attacker was not there for long enough"), "{said:?}");
        let said = complaints(&members(), &[], Report { tokens: BTreeSet::from([Token(1)]), ..report() });
        assert_eq!(said, ["no publisher was heard to use the new secret 00000002"]);
    }
}
