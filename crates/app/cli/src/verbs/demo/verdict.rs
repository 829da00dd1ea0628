//! Check of a demo: every reader has an account of every stream, each is correct, and the archive has
//! all data that its recorder read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::{Value, json};

use super::children::{Exit, Line};
use crate::layout::{self, Align, Table};
use crate::messages::print_line;

/// Properties that every account must have.
const DEMANDS: [&str; 3] = ["balanced", "closed", "explained"];

/// Result of the check.
pub(super) struct Verdict<'a> {
    accounts: Vec<&'a Value>,
    complaints: Vec<String>,
}

/// A complaint, and the process it is about.
struct Complaint<'a> {
    child: &'a str,
    text: String,
}

/// Judges what the processes printed, publishers their totals and `readers` their accounts, and how they ended.
pub(super) fn judge<'a>(lines: &'a [Line], exits: &[Exit], readers: &[&str]) -> Verdict<'a> {
    let accounts: Vec<&Line> = with_event(lines, "account").collect();
    let mut complaints = missing(lines, &accounts, readers);
    for account in &accounts {
        complaints.extend(out_of_order(account, &accounts));
    }
    complaints.extend(not_archived(&accounts));
    let unexplained: Vec<String> = exits
        .iter()
        .filter(|exit| exit.code != 0 && !complaints.iter().any(|it| it.child == exit.child))
        .map(|exit| {
            format!("{} ended with exit code {}, and its accounts give no reason", exit.child, exit.code)
        })
        .collect();
    let complaints = complaints.into_iter().map(|complaint| complaint.text).chain(unexplained).collect();
    Verdict { accounts: accounts.iter().map(|line| &line.value).collect(), complaints }
}

fn with_event<'a>(lines: &'a [Line], event: &'static str) -> impl Iterator<Item = &'a Line> {
    lines.iter().filter(move |line| line.value["event"] == json!(event))
}

/// Finds the epochs that were published and have no account at a reader.
fn missing<'a>(lines: &'a [Line], accounts: &[&'a Line], readers: &[&'a str]) -> Vec<Complaint<'a>> {
    let published: BTreeSet<_> = with_event(lines, "totals").map(epoch).collect();
    let mut complaints = Vec::new();
    if published.is_empty() {
        complaints.push(Complaint { child: "", text: "nothing was published".to_owned() });
    }
    for reader in readers {
        let read: BTreeSet<_> =
            accounts.iter().filter(|line| line.child == *reader).map(|line| origin(line)).collect();
        let unread = published.difference(&read);
        complaints.extend(unread.map(|(stream, epoch)| Complaint {
            child: reader,
            text: format!("{reader} has no account of {stream} {epoch}"),
        }));
    }
    complaints
}

fn out_of_order<'a>(line: &'a Line, accounts: &[&Line]) -> Vec<Complaint<'a>> {
    let name = name(line);
    let failed = DEMANDS.iter().filter(|demand| line.value[**demand] != json!(true));
    let mut texts: Vec<String> = failed.map(|demand| format!("{name} is not {demand}")).collect();
    let state = text(&line.value["state"]);
    if state != "closed" && !(state == "unconfirmed" && goes_on(line, accounts)) {
        texts.push(format!("{name} ended {state}"));
    }
    texts.into_iter().map(|text| Complaint { child: &line.child, text }).collect()
}

/// Returns whether another account continues where this one ended: its publisher was only silent.
fn goes_on(line: &Line, accounts: &[&Line]) -> bool {
    accounts.iter().any(|other| {
        let place = (&other.value["follows"], &other.value["elements"]["first"]);
        let is_behind = place == (&line.value["account"], &line.value["elements"]["next"]);
        is_behind && other.child == line.child && epoch(other) == epoch(line)
    })
}

/// Finds elements that a recorder read and its archive lacks; a loss on the path to the disk is explained, but leaves
/// the demo without its recording.
fn not_archived<'a>(accounts: &[&'a Line]) -> Vec<Complaint<'a>> {
    let mut complaints = Vec::new();
    // A stream that was silent for a time has several accounts of one epoch, and one archive.
    let mut delivered: BTreeMap<_, (&Line, u64)> = BTreeMap::new();
    let recorded = accounts.iter().filter(|line| line.value.get("archive").is_some());
    for line in recorded {
        let sum = delivered.entry((line.child.as_str(), epoch(line))).or_insert((line, 0));
        sum.1 += line.value["elements"]["delivered"].as_u64().unwrap_or(0);
    }
    for (line, delivered) in delivered.into_values() {
        let (name, archive) = (name(line), &line.value["archive"]);
        let mut complain = |text| complaints.push(Complaint { child: &line.child, text });
        if archive.is_null() {
            if delivered > 0 {
                complain(format!(
                    "{name}: {delivered} elements were delivered, and the archive has none of them"
                ));
            }
            continue;
        }
        let (accepted, lost) = (archive["accepted"].as_u64(), archive_write(&line.value));
        if accepted != Some(delivered) {
            complain(format!(
                "{name}: {delivered} elements delivered, but the archive was given {}",
                archive["accepted"]
            ));
        }
        if lost > 0 {
            complain(format!(
                "{name}: {lost} elements could not be written (archive_write): is the disk full?"
            ));
        }
    }
    complaints
}

impl Verdict<'_> {
    pub(super) fn is_in_order(&self) -> bool {
        self.complaints.is_empty()
    }

    /// Prints the accounts, and the complaints.
    pub(super) fn print(&self, as_json: bool) -> std::io::Result<()> {
        if as_json {
            self.accounts.iter().try_for_each(|account| print_line(account))?;
        } else {
            let lines = table(&self.accounts).lines(layout::width());
            lines.iter().try_for_each(|line| writeln!(std::io::stdout(), "{line}"))?;
        }
        self.complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        if self.is_in_order() {
            eprintln!("{} accounts, all closed, balanced and explained", self.accounts.len());
        }
        Ok(())
    }
}

fn table(accounts: &[&Value]) -> Table<5> {
    let mut table = Table::new([
        ("STREAM", Align::Left),
        ("READER", Align::Left),
        ("STATE", Align::Left),
        ("DELIVERED", Align::Right),
        ("LOST", Align::Left),
    ]);
    for account in accounts {
        table.row([
            text(&account["stream"]),
            text(&account["reader"]),
            text(&account["state"]),
            account["elements"]["delivered"].to_string(),
            lost_text(account),
        ]);
    }
    table
}

fn lost_text(account: &Value) -> String {
    let hops = account["hops"].as_array();
    let lost = account["elements"]["lost"].as_object().into_iter().flatten();
    // What hops before this one lost is at stage `source` here, and they say where.
    let own = lost.filter(|(stage, _)| hops.is_none() || *stage != "source");
    let mut lost: Vec<String> = hops.into_iter().flatten().flat_map(lost_on_hop).collect();
    lost.extend(own.map(|(stage, count)| format!("{stage} {count}")));
    if archive_write(account) > 0 {
        lost.push(format!("archive_write {}", archive_write(account)));
    }
    if lost.is_empty() { "nothing".to_owned() } else { lost.join(", ") }
}

fn lost_on_hop(hop: &Value) -> impl Iterator<Item = String> + '_ {
    let pending = ["unexplained", "unsettled"].map(|name| (name, &hop[name]));
    let pending = pending.into_iter().filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
    let lost = hop["lost"].as_object().into_iter().flatten().map(|(stage, count)| (stage.as_str(), count));
    lost.chain(pending).map(|(stage, count)| format!("{stage} {count} on hop {}", hop["hop"]))
}

fn archive_write(account: &Value) -> u64 {
    account["archive"]["lost"]["archive_write"].as_u64().unwrap_or(0)
}

fn name(line: &Line) -> String {
    format!("account of {} at {}", text(&line.value["stream"]), line.child)
}

fn epoch(line: &Line) -> (String, String) {
    (text(&line.value["stream"]), text(&line.value["epoch"]))
}

/// Returns the epoch that the publisher began: a relayed stream has another one on each hop.
fn origin(line: &Line) -> (String, String) {
    match &line.value["origin"]["epoch"] {
        Value::String(origin) => (text(&line.value["stream"]), origin.clone()),
        _ => epoch(line),
    }
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

    fn account(child: &str, stream: &str) -> Line {
        let value = json!({"event": "account", "stream": stream, "epoch": "1", "reader": child,
            "state": "closed", "balanced": true, "closed": true, "explained": true,
            "elements": {"delivered": 10, "lost": {}}});
        line(child, value)
    }

    fn recorded(stream: &str, accepted: u64, archive_write: u64) -> Line {
        let mut line = account("r", stream);
        line.value["archive"] = json!({"stored_index": 10, "accepted": accepted,
            "stored": accepted - archive_write, "lost": {"archive_write": archive_write}});
        line
    }

    fn totals(stream: &str) -> Line {
        line(stream, json!({"event": "totals", "stream": stream, "epoch": "1"}))
    }

    fn complaints(lines: &[Line], readers: &[&str]) -> Vec<String> {
        judge(lines, &[], readers).complaints
    }

    #[test]
    fn all_is_well_when_every_reader_has_every_account_in_order() {
        let lines = [totals("a"), account("m", "a"), recorded("a", 10, 0)];
        assert!(judge(&lines, &[], &["m", "r"]).is_in_order());
    }

    #[test]
    fn a_missing_or_unexplained_account_is_complained_of() {
        let mut unexplained = account("m", "b");
        unexplained.value["explained"] = json!(false);
        let lines = [totals("a"), totals("b"), account("m", "a"), unexplained];
        assert_eq!(complaints(&lines, &["m"]), ["account of b at m is not explained"]);
        assert_eq!(complaints(&lines[..3], &["m"]), ["m has no account of b 1"]);
        assert!(!judge(&[], &[], &["m"]).is_in_order());
    }

    #[test]
    fn an_account_that_a_silence_ended_is_in_order_where_another_goes_on() {
        let [mut silent, mut next] = [account("m", "a"), account("m", "a")];
        silent.value["state"] = json!("unconfirmed");
        (silent.value["account"], silent.value["elements"]["next"]) = (json!("m@1#1"), json!(5));
        (next.value["follows"], next.value["elements"]["first"]) = (json!("m@1#1"), json!(5));
        assert_eq!(complaints(&[totals("a"), silent.clone(), next.clone()], &["m"]), [""; 0]);
        next.value["elements"]["first"] = json!(6);
        let complaint = ["account of a at m ended unconfirmed"];
        assert_eq!(complaints(&[totals("a"), silent.clone(), next], &["m"]), complaint);
        assert_eq!(complaints(&[totals("a"), silent], &["m"]), complaint);
    }

    #[test]
    fn a_reader_without_a_word_is_missed() {
        let lines = [totals("a"), account("m", "a")];
        assert_eq!(complaints(&lines, &["m", "r"]), ["r has no account of a 1"]);
    }

    #[test]
    fn a_relayed_account_is_that_of_its_origin_and_shows_where_samples_were_lost() {
        let mut relayed = account("far", "a");
        relayed.value["epoch"] = json!("9");
        let complaint = ["far has no account of a 1"];
        assert_eq!(complaints(&[totals("a"), relayed.clone()], &["far"]), complaint);
        relayed.value["origin"] = json!({"epoch": "1", "hop": 2});
        assert_eq!(complaints(&[totals("a"), relayed.clone()], &["far"]), [""; 0]);
        relayed.value["elements"]["lost"] = json!({"network": 1, "source": 6});
        relayed.value["hops"] = json!([
            {"hop": 0, "lost": {"injected": 4}, "unexplained": 0, "unsettled": 0},
            {"hop": 1, "lost": {}, "unexplained": 2, "unsettled": 0},
        ]);
        assert_eq!(lost_text(&relayed.value), "injected 4 on hop 0, unexplained 2 on hop 1, network 1");
    }

    #[test]
    fn what_the_archive_does_not_have_is_complained_of_and_shown() {
        let full = recorded("a", 10, 9);
        assert_eq!(lost_text(&full.value), "archive_write 9");
        let said = complaints(&[totals("a"), full], &["r"]);
        assert_eq!(
            said,
            ["account of a at r: 9 elements could not be written (archive_write): is the disk full?"]
        );
        let said = complaints(&[totals("a"), recorded("a", 7, 0)], &["r"]);
        assert_eq!(said, ["account of a at r: 10 elements delivered, but the archive was given 7"]);
        let mut nothing = account("r", "a");
        nothing.value["archive"] = Value::Null;
        let said = complaints(&[totals("a"), nothing], &["r"]);
        assert_eq!(said, ["account of a at r: 10 elements were delivered, and the archive has none of them"]);
    }

    #[test]
    fn an_exit_code_that_no_account_explains_is_complained_of() {
        let exit = |child: &str, code| Exit { child: child.to_owned(), code };
        let lines = [totals("a"), account("m", "a"), recorded("a", 10, 9)];
        let verdict = judge(&lines, &[exit("m", 0), exit("r", 1)], &["m", "r"]);
        assert_eq!(verdict.complaints.len(), 1, "the disk explains it: {:?}", verdict.complaints);
        let verdict = judge(&lines[..2], &[exit("m", 1)], &["m"]);
        assert_eq!(verdict.complaints, ["m ended with exit code 1, and its accounts give no reason"]);
    }
}
