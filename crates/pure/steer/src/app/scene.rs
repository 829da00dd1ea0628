//! One app, its clock and its disk, as the tests of this folder play with them.

use core::time::Duration;

use access::{Policy, Principal};
use sample::Dtype;
use units::{Epoch, Instant};

use super::{App, Config, Declared, Done, Effect, Output, Question};
use crate::{Answer, Command, CommandId, Needs, Number, Parameter, Record, Reply, Rule, SessionId, Value};

pub(super) const ADA: SessionId = SessionId(1);
pub(super) const EVE: SessionId = SessionId(2);
pub(super) const ROOT: SessionId = SessionId(3);
pub(super) const BOB: SessionId = SessionId(4);
const POLICY: &str = "allow user:ada steer sim/**\nallow user:ada read sim/**\nallow user:eve read sim/**\n\
    allow user:root steer,administer **\nallow user:bob steer sim/engine/power";

/// An app, its clock, and a disk that writes at once unless it is stopped.
pub(super) struct Scene {
    pub(super) app: App,
    pub(super) now: Instant,
    pub(super) records: Vec<Record>,
    pub(super) answers: Vec<(CommandId, Answer)>,
    pub(super) is_disk_stopped: bool,
}

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) fn config() -> Config {
    Config {
        app: "sim/engine".parse().unwrap(),
        epoch: Epoch { start_ns: 5, incarnation: 6 },
        policy: Policy::parse(POLICY).unwrap(),
    }
}

pub(super) fn declared() -> Vec<Declared> {
    let gain = Parameter {
        min: Some(Number::Real(0.0)),
        max: Some(Number::Real(10.0)),
        ..Parameter::new("gain", Dtype::F8)
    };
    let power = Parameter {
        needs: Needs::Lease { group: "heating".to_owned() },
        ..Parameter::new("power", Dtype::F8)
    };
    let slow = Parameter { greatest_step: Some(Number::Real(1.0)), ..Parameter::new("slow", Dtype::F8) };
    [gain, slow, power].map(|parameter| Declared { parameter, value: Value::scalar(1.0) }).into()
}

impl Scene {
    pub(super) fn new() -> Self {
        let mut app = App::new(config(), declared()).unwrap();
        for (session, name) in [(ADA, "ada"), (EVE, "eve"), (ROOT, "root"), (BOB, "bob")] {
            app.open(session, Principal::user(name.parse().unwrap())).unwrap();
        }
        let mut scene = Self {
            app,
            now: Instant::from_nanos(1_000_000_000),
            records: Vec::new(),
            answers: Vec::new(),
            is_disk_stopped: false,
        };
        scene.poll();
        scene
    }

    pub(super) fn poll(&mut self) {
        loop {
            while let Some(output) = self.app.poll() {
                match output {
                    Output::Write { record, .. } => self.records.push(record),
                    Output::Answer { id, answer, .. } => self.answers.push((id, answer)),
                }
            }
            if !self.is_disk_stopped {
                self.app.written(self.records.len() as u64);
            }
            match self.app.poll() {
                Some(Output::Write { record, .. }) => self.records.push(record),
                Some(Output::Answer { id, answer, .. }) => self.answers.push((id, answer)),
                None => return,
            }
        }
    }

    pub(super) fn gain(&self, id: u128, value: f64) -> Command {
        Command {
            id: CommandId(id),
            session: ADA,
            parameter: "gain".to_owned(),
            if_revision: None,
            value: Value::scalar(value),
            valid_until: self.now + ms(500),
            reason: "test".to_owned(),
        }
    }

    /// Sends a command and returns the answers that it caused at once.
    pub(super) fn send(&mut self, command: Command) -> Vec<Answer> {
        self.app.command(self.now, command);
        self.poll();
        self.answers.drain(..).map(|(_, answer)| answer).collect()
    }

    pub(super) fn step(&mut self, index: u64) -> Vec<Effect> {
        self.app.step(self.now, index);
        self.poll();
        core::iter::from_fn(|| self.app.poll_effect()).collect()
    }

    pub(super) fn apply_all(&mut self, index: u64) -> Vec<(CommandId, Answer)> {
        for effect in self.step(index) {
            self.app.done(effect.id, Done::Applied { readback: effect.value }).unwrap();
        }
        self.poll();
        core::mem::take(&mut self.answers)
    }

    pub(super) fn ask(&mut self, command: &Command) -> Option<Reply> {
        let question =
            Question { id: command.id, session: command.session, valid_until: command.valid_until };
        self.app.ask(self.now, command.session, &question)
    }
}

pub(super) fn refused(rule: Rule) -> Vec<Answer> {
    vec![Answer::Refused { rule }]
}
