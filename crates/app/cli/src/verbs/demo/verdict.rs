//! The judgement over a demo: every reader has an account of every stream, and each is in order.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::{Value, json};

use super::children::Line;
use crate::messages::print_line;

/// What must be true of an account.
const DEMANDS: [&str; 3] = ["balanced", "closed", "explained"];

/// What was found.
pub(super) struct Verdict<'a> {
    accounts: Vec<&'a Value>,
    complaints: Vec<String>,
}

/// Judges what the processes printed: publishers their totals, readers their accounts.
pub(super) fn judge(lines: &[Line]) -> Verdict<'_> {
    let of = |event: &str| {
        let event = json!(event);
        lines.iter().filter(move |line| line.value["event"] == event)
    };
    let epoch = |value: &Value| (text(&value["stream"]), text(&value["epoch"]));
    let published: BTreeSet<_> = of("totals").map(|line| epoch(&line.value)).collect();
    let readers: BTreeSet<&str> = of("account").map(|line| line.child.as_str()).collect();
    let mut complaints = Vec::new();
    if published.is_empty() || readers.is_empty() {
        complaints.push("nothing was published or nobody read".to_owned());
    }
    for reader in &readers {
        let read: BTreeSet<_> =
            of("account").filter(|line| line.child == *reader).map(|line| epoch(&line.value)).collect();
        let unread = published.difference(&read);
        complaints
            .extend(unread.map(|(stream, epoch)| format!("{reader} has no account of {stream} {epoch}")));
    }
    for line in of("account") {
        let failed = DEMANDS.iter().filter(|demand| line.value[**demand] != json!(true));
        let name = format!("account of {} at {}", text(&line.value["stream"]), line.child);
        complaints.extend(failed.map(|demand| format!("{name} is not {demand}")));
        let state = text(&line.value["state"]);
        if state != "closed" {
            complaints.push(format!("{name} ended {state}"));
        }
    }
    Verdict { accounts: of("account").map(|line| &line.value).collect(), complaints }
}

impl Verdict<'_> {
    pub(super) fn is_in_order(&self) -> bool {
        self.complaints.is_empty()
    }

    /// Prints the accounts, and what there is to complain of.
    pub(super) fn print(&self, as_json: bool) -> std::io::Result<()> {
        for account in &self.accounts {
            if as_json {
                print_line(account)?;
            } else {
                writeln!(std::io::stdout(), "{}", account_text(account))?;
            }
        }
        self.complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        if self.is_in_order() {
            eprintln!("{} accounts, all closed, balanced and explained", self.accounts.len());
        }
        Ok(())
    }
}

fn account_text(account: &Value) -> String {
    let elements = &account["elements"];
    let lost = elements["lost"].as_object().into_iter().flatten();
    let lost: Vec<String> = lost.map(|(stage, count)| format!("{stage} {count}")).collect();
    let lost = if lost.is_empty() { "nothing lost".to_owned() } else { format!("lost {}", lost.join(", ")) };
    let (stream, reader) = (text(&account["stream"]), text(&account["reader"]));
    let (state, delivered) = (text(&account["state"]), &elements["delivered"]);
    format!("{stream:24} {reader:10} {state:8} {delivered:>12} elements delivered, {lost}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(child: &str, value: Value) -> Line {
        Line { child: child.to_owned(), value }
    }

    fn account(child: &str, stream: &str, explained: bool) -> Line {
        let value = json!({"event": "account", "stream": stream, "epoch": "1", "reader": child,
            "state": "closed", "balanced": true, "closed": true, "explained": explained});
        line(child, value)
    }

    fn totals(stream: &str) -> Line {
        line(stream, json!({"event": "totals", "stream": stream, "epoch": "1"}))
    }

    #[test]
    fn all_is_well_when_every_reader_has_every_account_in_order() {
        let lines = [totals("a"), account("monitor", "a", true), account("recorder", "a", true)];
        assert!(judge(&lines).is_in_order());
    }

    #[test]
    fn a_missing_or_unexplained_account_is_complained_of() {
        let lines = [totals("a"), totals("b"), account("m", "a", true), account("m", "b", false)];
        assert_eq!(judge(&lines).complaints, ["account of b at m is not explained"]);
        assert_eq!(judge(&lines[..3]).complaints, ["m has no account of b 1"]);
        assert!(!judge(&[]).is_in_order());
    }
}
