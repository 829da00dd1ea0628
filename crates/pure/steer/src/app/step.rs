//! Step boundary: which of the commands that wait take effect, and what became of them.

use std::collections::BTreeMap;

use units::Instant;

use super::memory::{Entry, State};
use super::{App, AppError, Busy, Done, Effect};
use crate::command::MAX_REASON_BYTES;
use crate::record::{Record, shorten};
use crate::{Answer, Applied, Command, CommandId, SessionId};

/// What is to be done with a command at a step boundary.
enum Verdict {
    Wait,
    Settle(Answer),
    Apply(usize),
}

impl App {
    /// Decides at a step boundary. `index` is that of the first sample computed after it.
    ///
    /// Of several commands for one parameter the last one to arrive takes effect, and the others are superseded. An
    /// effect of the previous boundary that the app said nothing about is uncertain.
    ///
    /// Cost: nothing if no command waits.
    pub fn step(&mut self, now: Instant, index: u64) {
        self.conclude_previous();
        let mut chosen: BTreeMap<usize, CommandId> = BTreeMap::new();
        for _ in 0..self.waiting.len() {
            let id = self.waiting.pop_front().expect("the loop counts them");
            match self.verdict(now, id) {
                Verdict::Wait => self.waiting.push_back(id),
                Verdict::Settle(answer) => self.settle(id, answer),
                Verdict::Apply(parameter) => {
                    if let Some(earlier) = chosen.insert(parameter, id) {
                        self.settle(earlier, Answer::Superseded);
                    }
                }
            }
        }
        for (parameter, id) in chosen {
            self.begin(id, parameter, index);
        }
        self.check_law();
    }

    /// Settles the effects of the previous boundary of which the app said nothing.
    fn conclude_previous(&mut self) {
        for effect in core::mem::take(&mut self.effects) {
            let reason = "the app did not take the change before its next step".to_owned();
            self.acting.retain(|id| *id != effect.id);
            self.conclude(effect.id, Done::Failed { reason }).expect("there is no value to be wrong");
        }
        for id in core::mem::take(&mut self.acting) {
            self.conclude(id, Done::Unknown).expect("there is no value to be wrong");
        }
    }

    /// Settles the commands whose deadline has passed: between steps, for an app whose steps are rare.
    pub fn tick(&mut self, now: Instant) {
        for _ in 0..self.waiting.len() {
            let id = self.waiting.pop_front().expect("the loop counts them");
            if self.waiting_command(id).valid_until < now {
                self.settle(id, Answer::Expired);
            } else {
                self.waiting.push_back(id);
            }
        }
        self.check_law();
    }

    /// Settles everything at the orderly end of the app: commands that wait have failed, and effects of which the app
    /// said nothing are uncertain.
    pub fn end(&mut self) {
        self.conclude_previous();
        for id in core::mem::take(&mut self.waiting) {
            let reason = "the app ended before the change took effect".to_owned();
            self.settle(id, Answer::Failed { reason });
        }
        self.check_law();
    }

    /// Takes what the app says of an effect.
    ///
    /// # Errors
    /// `NotActing` of [`AppError`] if the effect is not under way, which it is until the next step; `Readback` if the
    /// value is not one of the parameter: then the command is uncertain.
    pub fn done(&mut self, id: CommandId, done: Done) -> Result<(), AppError> {
        let position = self.acting.iter().position(|acting| *acting == id);
        self.acting.swap_remove(position.ok_or(AppError::NotActing(id))?);
        let result = self.conclude(id, done);
        self.check_law();
        result
    }

    fn verdict(&self, now: Instant, id: CommandId) -> Verdict {
        let Some(Entry { state: State::Waiting { command, record }, .. }) = self.memory.find(id) else {
            unreachable!("a command in the queue waits")
        };
        if command.valid_until < now {
            return Verdict::Settle(Answer::Expired);
        }
        if *record >= self.written {
            return Verdict::Wait;
        }
        let busy = self.by_name.get(&command.parameter).map(|position| self.parameters[*position].busy);
        match busy {
            Some(Busy::Acting) => return Verdict::Wait,
            Some(Busy::Recording(outcome)) if outcome >= self.written => return Verdict::Wait,
            Some(Busy::Free | Busy::Recording(_)) | None => {}
        }
        match self.permitted_now(now, command) {
            Ok(parameter) => Verdict::Apply(parameter),
            Err(rule) => Verdict::Settle(Answer::Refused { rule }),
        }
    }

    fn waiting_command(&self, id: CommandId) -> &Command {
        match self.memory.find(id) {
            Some(Entry { state: State::Waiting { command, .. }, .. }) => command,
            _ => unreachable!("a command in the queue waits"),
        }
    }

    /// Hands out the effect of a command.
    fn begin(&mut self, id: CommandId, parameter: usize, index: u64) {
        let value = self.waiting_command(id).value.clone();
        let held = &mut self.parameters[parameter];
        held.busy = Busy::Acting;
        let revision = held.revision + 1;
        let name = held.parameter.name.clone();
        let epoch = self.config.epoch;
        let session = self.waiting_command(id).session;
        let entry = self.memory.find_mut(id).expect("it waits");
        entry.state = State::Acting { parameter, session, epoch, index, revision };
        self.effects.push_back(Effect { id, parameter: name, value, revision, index });
        self.acting.push(id);
    }

    /// Records what became of an effect.
    fn conclude(&mut self, id: CommandId, done: Done) -> Result<(), AppError> {
        let Some(Entry { state: State::Acting { parameter, session, epoch, index, revision }, .. }) =
            self.memory.find(id)
        else {
            unreachable!("an effect under way is remembered")
        };
        let (parameter, session, epoch, index, revision) = (*parameter, *session, *epoch, *index, *revision);
        let held = &mut self.parameters[parameter];
        let mut result = Ok(());
        let answer = match done {
            Done::Applied { readback } if held.can_have(&readback) => {
                (held.value, held.is_read, held.revision) = (readback.clone(), true, revision);
                Answer::Applied(Applied { epoch, index, revision, readback })
            }
            Done::Failed { mut reason } => {
                shorten(&mut reason, MAX_REASON_BYTES);
                Answer::Failed { reason }
            }
            done => {
                if done != Done::Unknown {
                    result = Err(AppError::Readback(held.parameter.name.clone()));
                }
                // A sender that relies on the old revision has to read again.
                (held.is_read, held.revision) = (false, revision);
                Answer::Uncertain
            }
        };
        let record = self.outcome(id, session, parameter, answer);
        self.parameters[parameter].busy = Busy::Recording(record);
        result
    }

    /// Settles a command that had no effect.
    fn settle(&mut self, id: CommandId, answer: Answer) {
        let command = self.waiting_command(id);
        let (session, name) = (command.session, command.parameter.clone());
        let parameter = self.by_name[&name];
        self.outcome(id, session, parameter, answer);
    }

    /// Records the outcome of a command; its answer leaves when the record is on disk. Returns the record's number.
    fn outcome(&mut self, id: CommandId, session: SessionId, parameter: usize, answer: Answer) -> u64 {
        self.totals.settle(&answer);
        let held = &self.parameters[parameter];
        let (parameter, revision) = (held.parameter.name.clone(), held.revision);
        let record = self.write(Record::Outcome { id, parameter, revision, answer: answer.clone() });
        self.unreleased.push_back((record, session, id, answer.clone()));
        let entry = self.memory.find_mut(id).expect("an outstanding command is remembered");
        entry.state = State::Decided { answer, record };
        record
    }
}
