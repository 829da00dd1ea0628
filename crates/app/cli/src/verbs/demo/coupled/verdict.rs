//! Check of a coupled demo: the account of the commands closes, and the archive has the sample from which each took effect.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use archive::{Archive, RunName, StreamEntry};
use serde_json::{Value, json};

use super::{APP, Commands, SIMULATION};
use crate::messages::print_line;
use crate::verbs::demo::children::Line;
use crate::verbs::steered;

/// Outcomes of a command: each has one of them.
const OUTCOMES: [&str; 7] = ["applied", "refused", "expired", "superseded", "failed", "uncertain", "pending"];
/// Kind of a row that tells what became of an accepted command (`docs/protocol/steering.md`, "The stream").
const OUTCOME_ROW: f64 = 3.0;

/// A change as the archive has it: the index from which on it is in the data, and the parameter's revision.
type Change = (u64, u64);

/// The account of the commands, and where the archive has them.
#[derive(Debug)]
pub(in crate::verbs::demo) struct Coupling {
    account: Value,
    sent: u64,
    applied: usize,
    archived: usize,
    complaints: Vec<String>,
}

impl Coupling {
    /// Judges what the simulation printed, and compares what the viewer was answered with the archive.
    pub(in crate::verbs::demo) fn judge(
        members: &[Line],
        commands: &Commands,
        root: &Path,
        run: &RunName,
    ) -> anyhow::Result<Self> {
        let archive = Archive::open(root)?;
        let (app, streams) = (APP.parse()?, archive.streams(run)?);
        let entry = streams.iter().find(|entry| steered::is_of(entry, &app));
        let archived = entry.map(|entry| changes(&archive, entry)).transpose()?.unwrap_or_default();
        Ok(Self::of(members, commands, &archived))
    }

    fn of(members: &[Line], commands: &Commands, archived: &BTreeSet<Change>) -> Self {
        let account =
            members.iter().find(|line| line.child == SIMULATION && line.value["event"] == "commands");
        let account = account.map_or(Value::Null, |line| line.value.clone());
        let count = |name: &str| account[name].as_u64().unwrap_or(0);
        let without_effect = commands.refused + commands.expired + commands.others.len() as u64;
        let sent = commands.applied.len() as u64 + without_effect;
        let mut complaints: Vec<String> = Vec::new();
        if account.is_null() {
            complaints.push("the simulation printed no account of its commands".to_owned());
        }
        let sum: u64 = OUTCOMES.iter().map(|name| count(name)).sum();
        if count("received") != sum || count("pending") > 0 {
            complaints.push(format!("the account of the commands does not close: {account}"));
        }
        if count("received") != sent {
            complaints.push(format!("{sent} commands were sent, and {} received", count("received")));
        }
        complaints
            .extend(commands.others.iter().map(|other| format!("a command was not applied: {other:?}")));
        if commands.applied.is_empty() {
            complaints.push("no command was applied\nlet it run longer: --duration 20s".to_owned());
        }
        let lost = commands.applied.iter().filter(|it| !archived.contains(&(it.index, it.revision)));
        let lost: Vec<String> =
            lost.map(|it| format!("the archive does not have the change at sample {}", it.index)).collect();
        let applied = commands.applied.len();
        let archived = applied - lost.len();
        complaints.extend(lost);
        Self { account, sent, applied, archived, complaints }
    }

    /// Prints what was found; returns whether all is well.
    pub(in crate::verbs::demo) fn print(&self, as_json: bool) -> std::io::Result<bool> {
        if as_json {
            print_line(&self.object())?;
        } else {
            writeln!(std::io::stdout(), "\n{}", self.text())?;
        }
        self.complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        Ok(self.complaints.is_empty())
    }

    fn object(&self) -> Value {
        let mut object = self.account.clone();
        if object.is_null() {
            object = json!({ "event": "commands" });
        }
        object["sent"] = json!(self.sent);
        object["archived_changes"] = json!(self.archived);
        object["complaints"] = json!(self.complaints);
        object
    }

    fn text(&self) -> String {
        let outcomes = OUTCOMES.iter().filter_map(|name| {
            let count = self.account[*name].as_u64().filter(|count| *count > 0)?;
            Some(format!("{count} {name}"))
        });
        let outcomes: Vec<String> = outcomes.collect();
        format!(
            "commands   {} sent: {}; the archive has the samples of {} of {} changes",
            self.sent,
            outcomes.join(", "),
            self.archived,
            self.applied
        )
    }
}

/// Reads the changes that a recording of `steer/APP` has.
fn changes(archive: &Archive, entry: &StreamEntry) -> anyhow::Result<BTreeSet<Change>> {
    // Whole numbers below 2^53; a command without an effect has NaN.
    let whole = |value: f64| value as u64;
    let rows = steered::rows(archive, entry, ["kind", "index", "revision"])?.into_iter();
    let changes = rows.filter(|[kind, index, _]| *kind == OUTCOME_ROW && !index.is_nan());
    Ok(changes.map(|[_, index, revision]| (whole(index), whole(revision))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallycast::Dtype;
    use tallycast::steering::{Applied, Conclusion, Value as Readback};
    use units::Epoch;

    fn applied(index: u64, revision: u64) -> Applied {
        let readback = Readback::parse(Dtype::F8, &[], "1").unwrap();
        Applied { epoch: Epoch { start_ns: 1, incarnation: 1 }, index, revision, readback }
    }

    fn account(received: u64, applied: u64, refused: u64) -> Line {
        let value = json!({"event": "commands", "received": received, "applied": applied, "refused": refused,
            "expired": 0, "superseded": 0, "failed": 0, "uncertain": 0, "pending": 0});
        Line { child: SIMULATION.to_owned(), value }
    }

    fn complaints(members: &[Line], commands: &Commands, archived: &[Change]) -> Vec<String> {
        Coupling::of(members, commands, &archived.iter().copied().collect()).complaints
    }

    #[test]
    fn all_is_well_when_the_account_closes_and_the_archive_has_every_change() {
        let applied = vec![applied(7, 1), applied(9, 2)];
        let commands = Commands { applied, refused: 1, ..Commands::default() };
        let coupling = Coupling::of(&[account(3, 2, 1)], &commands, &BTreeSet::from([(7, 1), (9, 2)]));
        assert_eq!(coupling.complaints, [""; 0]);
        assert_eq!(
            coupling.text(),
            "commands   3 sent: 2 applied, 1 refused; the archive has the samples of 2 of 2 changes"
        );
        assert_eq!(coupling.object()["archived_changes"], 2);
    }

    #[test]
    fn a_change_that_the_archive_has_at_another_sample_is_complained_of() {
        let commands = Commands { applied: vec![applied(7, 1)], ..Commands::default() };
        let said = complaints(&[account(1, 1, 0)], &commands, &[(8, 1)]);
        assert_eq!(said, ["the archive does not have the change at sample 7"]);
    }

    #[test]
    fn an_account_that_does_not_close_or_lacks_a_command_is_complained_of() {
        let commands = Commands { applied: vec![applied(7, 1)], ..Commands::default() };
        let said = complaints(&[account(3, 1, 1)], &commands, &[(7, 1)]);
        assert!(said[0].starts_with("the account of the commands does not close: {"), "{said:?}");
        assert_eq!(said[1], "1 commands were sent, and 3 received");
        let said = complaints(&[], &commands, &[(7, 1)]);
        assert_eq!(said[0], "the simulation printed no account of its commands");
        let uncertain = Commands { others: vec![Conclusion::Uncertain], ..Commands::default() };
        let said = complaints(&[account(1, 0, 1)], &uncertain, &[]);
        assert_eq!(said[0], "a command was not applied: Uncertain");
        assert!(said[1].starts_with("no command was applied\n"), "{said:?}");
    }
}
