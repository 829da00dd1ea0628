//! Restart of an app from its log: what the earlier run left open is resolved, and nothing is tried again.
//!
//! An app that keeps each value with the revision and the command that made it, in one write, lets every open command
//! be resolved: it took effect, or it had none. Of an app that keeps nothing every open command is uncertain.

use std::collections::{BTreeMap, VecDeque, btree_map};

use sample::StreamName;

use super::memory::{Entry, Memory, State};
use super::{App, Config, Declared, Kept, MAX_REMEMBERED};
use crate::command::Fingerprint;
use crate::parameter::ParameterError;
use crate::record::Record;
use crate::switch::Switches;
use crate::{Answer, Applied, CommandId, Head, Rule, Totals};

/// Maximum number of ids of earlier runs that an app remembers; the newest.
pub const MAX_RECOVERED: usize = MAX_REMEMBERED / 2;
/// Maximum number of commands of one parameter that may have been the last one. Of those that are left out a restart
/// cannot tell whether they were.
pub(crate) const MAX_LAST: usize = 64;

/// How a parameter stands after a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// The parameter and its value, as the app read it back.
    pub declared: Declared,
    /// What the app kept with the value.
    pub kept: Kept,
}

/// What a log says, gathered record by record. It begins with the first record, or with a checkpoint; of what is before
/// that it knows no ids.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    totals: Totals,
    switches: Switches,
    open: BTreeMap<CommandId, Open>,
    /// Number of commands that waited.
    arrivals: u64,
    revisions: BTreeMap<String, u64>,
    /// Last commands that took effect, or may have, by parameter.
    last: BTreeMap<String, VecDeque<CommandId>>,
    decided: BTreeMap<CommandId, (Option<Fingerprint>, Answer)>,
    decided_order: VecDeque<CommandId>,
    has_forgotten: bool,
    place: Place,
}

/// A command without an outcome.
#[derive(Clone, Debug)]
struct Open {
    parameter: String,
    fingerprint: Fingerprint,
    /// Its place in the order of arrivals.
    arrival: u64,
}

/// Place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Place {
    /// Before the first record.
    #[default]
    Beginning,
    /// Behind a checkpoint with which this began.
    Checkpoint,
    /// Behind other records: a checkpoint repeats what they say.
    Middle,
}

impl Recovery {
    /// Takes the next record of the log.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Checkpoint { .. } | Record::Standing { .. } | Record::Open { .. } => {
                return self.sum(record);
            }
            Record::Began { .. } | Record::Lease { .. } => {}
            Record::Intent { command, .. } => {
                self.arrive(command.id, &command.parameter, command.fingerprint());
            }
            Record::Attempt { command, answer, .. } => {
                self.totals.attempt(answer);
                if is_remembered(answer) && !self.open.contains_key(&command.id) {
                    self.remember(command.id, Some(command.fingerprint()), answer);
                }
            }
            Record::Outcome { id, parameter, revision, answer } => {
                let Some(Open { fingerprint, .. }) = self.open.remove(id) else { return };
                self.totals.settle(answer);
                self.revisions.insert(parameter.clone(), *revision);
                match answer {
                    Answer::Applied(_) => {
                        self.last.insert(parameter.clone(), VecDeque::from([*id]));
                    }
                    Answer::Uncertain => {
                        let last = self.last.entry(parameter.clone()).or_default();
                        last.push_back(*id);
                        if last.len() > MAX_LAST {
                            last.pop_front();
                        }
                    }
                    _ => {}
                }
                self.remember(*id, Some(fingerprint), answer);
            }
            Record::Switch { scope, is_on, .. } => {
                self.switches.turn(*scope, *is_on);
            }
            Record::Omitted { refused } => {
                refused.iter().for_each(|(rule, count)| self.totals.omitted(*rule, *count));
            }
        }
        self.place = Place::Middle;
    }

    /// Takes a record of a checkpoint, unless the records that it sums up were taken.
    fn sum(&mut self, record: &Record) {
        match (self.place, record) {
            (Place::Beginning, Record::Checkpoint { totals, switches, .. }) => {
                // Those that wait follow one by one.
                (self.totals, self.switches, self.has_forgotten) = (totals.decided(), *switches, true);
                self.place = Place::Checkpoint;
            }
            (Place::Checkpoint, Record::Standing { parameter, revision, last }) => {
                self.revisions.insert(parameter.clone(), *revision);
                self.last.insert(parameter.clone(), last.iter().copied().collect());
            }
            (Place::Checkpoint, Record::Open { id, parameter, fingerprint }) => {
                self.arrive(*id, parameter, Fingerprint::from_number(*fingerprint));
            }
            _ => {}
        }
    }

    /// Counts a command that waits, once.
    fn arrive(&mut self, id: CommandId, parameter: &str, fingerprint: Fingerprint) {
        if let btree_map::Entry::Vacant(place) = self.open.entry(id) {
            place.insert(Open { parameter: parameter.to_owned(), fingerprint, arrival: self.arrivals });
            self.arrivals += 1;
            self.totals.intent();
        }
    }

    /// Returns the open commands in the order of their arrival.
    fn arrived(&self) -> Vec<CommandId> {
        let mut open: Vec<_> = self.open.iter().map(|(id, open)| (open.arrival, *id)).collect();
        open.sort_unstable();
        open.into_iter().map(|(_, id)| id).collect()
    }

    /// Returns the records with which another segment of the log begins, behind `head`.
    #[must_use]
    pub fn checkpoint(&self, app: &StreamName, head: Head) -> Vec<Record> {
        let (totals, switches) = (self.totals, self.switches);
        let first = Record::Checkpoint { app: app.clone(), before: head, totals, switches };
        let standings = self.revisions.iter().map(|(parameter, revision)| Record::Standing {
            parameter: parameter.clone(),
            revision: *revision,
            last: self.last.get(parameter).into_iter().flatten().copied().collect(),
        });
        let open = self.arrived().into_iter().map(|id| {
            let Open { parameter, fingerprint, .. } = &self.open[&id];
            Record::Open { id, parameter: parameter.clone(), fingerprint: fingerprint.number() }
        });
        core::iter::once(first).chain(standings).chain(open).collect()
    }

    /// Returns whether it knows as many ids as an app remembers: what is before the records that it took would be
    /// forgotten.
    #[must_use]
    pub fn knows_enough(&self) -> bool {
        self.decided.len() >= MAX_RECOVERED
    }

    /// Starts the app: open commands are resolved, their outcomes are the first records that it writes.
    ///
    /// # Errors
    /// [`ParameterError`] of the first declaration that is not sound.
    pub fn start(mut self, config: Config, standings: Vec<Standing>) -> Result<App, ParameterError> {
        let kept: BTreeMap<String, Kept> =
            standings.iter().map(|it| (it.declared.parameter.name.clone(), it.kept)).collect();
        let mut app = App::new(config, standings.into_iter().map(|it| it.declared).collect())?;
        app.totals = self.totals;
        app.switches = self.switches;
        for held in &mut app.parameters {
            let logged = self.revisions.get(&held.parameter.name).copied().unwrap_or_default();
            let kept = kept.get(&held.parameter.name);
            held.revision = match kept {
                Some(Kept::Change { revision, .. }) => logged.max(*revision),
                _ => logged,
            };
        }
        let answers: Vec<(CommandId, Answer)> =
            self.arrived().into_iter().map(|id| (id, self.resolved(id, &kept, &app))).collect();
        for (id, answer) in answers {
            self.conclude(&mut app, id, &answer);
        }
        app.memory = self.memory(&app);
        app.check_law();
        Ok(app)
    }

    /// Returns what became of an open command.
    fn resolved(&self, id: CommandId, kept: &BTreeMap<String, Kept>, app: &App) -> Answer {
        let name = &self.open[&id].parameter;
        let none = || Answer::Failed { reason: "the app restarted before the change took effect".to_owned() };
        let Some((value, _)) = app.value(name) else { return Answer::Uncertain };
        match kept.get(name).copied().unwrap_or(Kept::Nothing) {
            Kept::Change { id: by, revision, epoch, index } if by == id => {
                Answer::Applied(Applied { epoch, index, revision, readback: value.clone() })
            }
            // At most one change of a parameter lacks its outcome, and that is the last one.
            Kept::Change { id: by, .. } if self.open.get(&by).is_some_and(|it| it.parameter == *name) => {
                none()
            }
            Kept::Change { id: by, .. } if self.last.get(name).is_some_and(|it| it.contains(&by)) => none(),
            Kept::Unchanged if !self.last.contains_key(name) => none(),
            Kept::Change { .. } | Kept::Unchanged | Kept::Nothing => Answer::Uncertain,
        }
    }

    /// Writes the outcome of an open command.
    fn conclude(&mut self, app: &mut App, id: CommandId, answer: &Answer) {
        let Open { parameter, fingerprint, .. } = self.open[&id].clone();
        let position = app.by_name.get(&parameter).copied();
        let mut revision = 0;
        if let Some(position) = position {
            let held = &mut app.parameters[position];
            // The effect, if there was one, had the next revision: a sender that relies on an old one reads again.
            held.revision += u64::from(*answer == Answer::Uncertain);
            revision = held.revision;
        }
        app.totals.settle(answer);
        app.write(Record::Outcome { id, parameter, revision, answer: answer.clone() });
        self.remember(id, Some(fingerprint), answer);
    }

    fn remember(&mut self, id: CommandId, fingerprint: Option<Fingerprint>, answer: &Answer) {
        if self.decided.insert(id, (fingerprint, answer.clone())).is_none() {
            self.decided_order.push_back(id);
        }
        if self.decided_order.len() > MAX_RECOVERED {
            let oldest = self.decided_order.pop_front().expect("there are many");
            self.decided.remove(&oldest);
            self.has_forgotten = true;
        }
    }

    /// Makes the memory of the new run. All answers leave when the records of the restart are on disk.
    fn memory(&mut self, app: &App) -> Memory {
        let mut memory = Memory::of_earlier_run(self.has_forgotten);
        let record = app.next_record - 1;
        for id in core::mem::take(&mut self.decided_order) {
            let (fingerprint, answer) = self.decided.remove(&id).expect("both have the same ids");
            let state = State::Decided { answer, record };
            memory.insert(id, Entry { fingerprint, valid_until: None, state });
        }
        memory
    }
}

/// Returns whether an app remembers the id of a command that it decided at once.
fn is_remembered(answer: &Answer) -> bool {
    match answer {
        Answer::Refused { rule } => !matches!(
            rule,
            Rule::Session | Rule::Clock | Rule::Text | Rule::Forgotten | Rule::Full | Rule::IdReused
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
