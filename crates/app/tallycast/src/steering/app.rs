//! Steering as the app sees it: values, and the changes of a step.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::SocketAddr;

use ::steer::{CommandId, Done, Effect, Kept, Totals, Value};
use sample::{Element, SampleBuffer};
use sys::clock;
use units::WallTime;
use zerocopy::{FromBytes, IntoBytes};

use super::host::Host;
use super::{Steered, SteeringError};

/// The parameters of a running app, which change at its steps and nowhere else.
///
/// Dropping it ends steering: commands that wait have failed, and the log has every outcome.
pub struct Steering {
    host: Host,
    address: SocketAddr,
    names: Vec<String>,
    values: Vec<Aligned>,
    /// Changes of the last step, until [`done`](Self::done).
    changes: Vec<Change>,
    /// What the core has not taken yet, because another thread had it.
    untold: Untold,
}

/// What the app has to say.
#[derive(Default)]
struct Untold {
    results: Vec<(CommandId, Done)>,
    /// Values that were read by positions of their parameters; the newest counts.
    readings: BTreeMap<usize, Value>,
}

/// A change of one parameter at a step.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Position of the parameter, in the order of declaration.
    pub place: usize,
    /// Its name.
    pub parameter: String,
    /// The value before.
    pub before: Value,
    /// The new value.
    pub value: Value,
    /// What an app that keeps values over restarts writes with the new one, in one write and before the step is
    /// [done](Steering::done); its next run hands it to [`SteeringBuilder::kept`](super::SteeringBuilder::kept).
    pub kept: Kept,
    id: CommandId,
    done: Done,
}

/// A value, and its elements aligned for any dtype.
struct Aligned {
    value: Value,
    elements: SampleBuffer,
}

impl Aligned {
    fn new(value: Value) -> Self {
        let elements = SampleBuffer::from_bytes(value.bytes());
        Self { value, elements }
    }
}

impl Change {
    /// Says that the app could not apply the change, for certain: the value before stays.
    pub fn failed(&mut self, reason: &str) {
        self.done = Done::Failed { reason: reason.to_owned() };
    }

    /// Says which value the app read back, such as what a device took; it has the parameter's dtype and shape.
    pub fn read_back(&mut self, value: Value) {
        self.done = Done::Applied { readback: value };
    }

    /// Says that the app cannot tell whether the change took effect.
    pub fn uncertain(&mut self) {
        self.done = Done::Unknown;
    }
}

impl Steering {
    pub(super) fn new(host: Host, address: SocketAddr, declared: Vec<(String, Value)>) -> Self {
        let (names, values): (Vec<_>, Vec<_>) = declared.into_iter().unzip();
        let values = values.into_iter().map(Aligned::new).collect();
        Self { host, address, names, values, changes: Vec::new(), untold: Untold::default() }
    }

    /// Takes the changes of a step boundary. `index` is that of the first sample computed after it, `time` its time.
    ///
    /// The new values hold at once; [`done`](Self::done) says that they are in a sample. Changes of a step for which it
    /// was not called are uncertain from the next step on. Cost: a comparison, if no command waits. It never waits: if
    /// another thread takes a command at this moment, changes come with the next step.
    pub fn step(&mut self, index: u64, time: WallTime) -> &mut [Change] {
        let shared = &self.host.shared;
        shared.stepped(time);
        // Those of a step without `done` are no longer this app's to report.
        self.changes.clear();
        if !shared.is_due() && self.untold.is_empty() {
            return &mut self.changes;
        }
        let (untold, names) = (&mut self.untold, &self.names);
        let effects = shared.try_with(|app, steps| {
            untold.tell(app, names);
            app.step(clock::monotonic(), index);
            let effects: Vec<_> = std::iter::from_fn(|| app.poll_effect()).collect();
            steps.extend(effects.iter().map(|effect| (effect.id, time)));
            (app.epoch(), effects)
        });
        let Some((epoch, effects)) = effects else { return &mut self.changes };
        for effect in effects {
            let place = self.names.iter().position(|name| *name == effect.parameter);
            let place = place.expect("the app has the parameters that were declared");
            let value = Aligned::new(effect.value.clone());
            let before = std::mem::replace(&mut self.values[place], value).value;
            let done = Done::Applied { readback: effect.value.clone() };
            let Effect { id, parameter, value, revision, index } = effect;
            let kept = Kept::Change { id, revision, epoch, index };
            self.changes.push(Change { place, parameter, before, value, kept, id, done });
        }
        &mut self.changes
    }

    /// Returns the changes of the last step, until [`done`](Self::done).
    pub fn changes(&mut self) -> &mut [Change] {
        &mut self.changes
    }

    /// Says that the sample of the last step has left with its changes.
    pub fn done(&mut self) {
        for change in self.changes.drain(..) {
            let value = match &change.done {
                // The core refuses another one, and calls the command uncertain.
                Done::Applied { readback } if is_alike(readback, &change.value) => readback,
                Done::Failed { .. } => &change.before,
                Done::Applied { .. } | Done::Unknown => &change.value,
            };
            self.values[change.place] = Aligned::new(value.clone());
            self.untold.results.push((change.id, change.done));
        }
        self.tell();
    }

    /// Says which elements a parameter has at its device, where others may have changed them: the greatest step is
    /// measured from there, and the revision rises if they are others than before. It never waits; at the latest the
    /// next [`step`](Self::step) decides by them.
    ///
    /// # Errors
    /// [`SteeringError::Value`] if they are not as many as the parameter has.
    ///
    /// # Panics
    /// If the parameter is another app's.
    pub fn read_back<E: Element>(
        &mut self,
        parameter: Steered<E>,
        elements: &[E],
    ) -> Result<(), SteeringError> {
        self.read_back_at(parameter.place, elements.as_bytes())
    }

    /// As [`read_back`](Self::read_back), for the parameter at a position, in the order of declaration. Its elements are
    /// little-endian bytes.
    ///
    /// # Errors
    /// [`SteeringError::Value`] if they are not those of its dtype and shape.
    ///
    /// # Panics
    /// If there is none.
    pub fn read_back_at(&mut self, place: usize, elements: &[u8]) -> Result<(), SteeringError> {
        let present = &self.values[place].value;
        let value = Value::from_bytes(present.dtype(), present.shape(), elements)?;
        // A change of this step is not concluded yet: it has a reading of its own.
        if self.changes.iter().any(|change| change.place == place) {
            return Ok(());
        }
        self.values[place] = Aligned::new(value.clone());
        self.untold.readings.insert(place, value);
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        if !self.untold.is_empty() {
            let (untold, names) = (&mut self.untold, &self.names);
            let _ = self.host.shared.try_with(|app, _| untold.tell(app, names));
        }
    }

    /// Returns the present elements of a parameter.
    ///
    /// # Panics
    /// If the parameter is another app's.
    #[must_use]
    pub fn value<E: Element>(&self, parameter: Steered<E>) -> &[E] {
        let held = self.values.get(parameter.place).expect("a parameter of this app");
        <[E]>::ref_from_bytes(held.elements.as_bytes()).expect("whole elements, aligned to eight bytes")
    }

    /// Returns the present value of the parameter at a position, in the order of declaration.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn value_at(&self, place: usize) -> &Value {
        &self.values[place].value
    }

    /// Returns a parameter by its name.
    #[must_use]
    pub fn parameter<E: Element>(&self, name: &str) -> Option<Steered<E>> {
        let place = self.names.iter().position(|it| it == name)?;
        let dtype = self.values[place].value.dtype();
        let is_of = dtype == E::DTYPE || (dtype == sample::Dtype::Bool && E::DTYPE == sample::Dtype::U8);
        is_of.then_some(Steered { place, element: PhantomData })
    }

    /// Turns the app's kill switch on, as an interlock does: no command takes effect until an administrator or
    /// [`resume`](Self::resume) releases it. It may wait for other threads for some microseconds.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] without a reason.
    pub fn stop(&self, reason: &str) -> Result<(), SteeringError> {
        let stop = |app: &mut ::steer::App, _| app.stop(::steer::Hand::Host, ::steer::Scope::App, reason);
        self.host.shared.with(stop).map_err(|error| SteeringError::Refused(error.to_string()))
    }

    /// Releases the app's kill switch.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] without a reason.
    pub fn resume(&self, reason: &str) -> Result<(), SteeringError> {
        let resume = |app: &mut ::steer::App, _| app.resume(::steer::Hand::Host, ::steer::Scope::App, reason);
        self.host.shared.with(resume).map_err(|error| SteeringError::Refused(error.to_string()))
    }

    /// Returns the totals of the app's commands.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.host.shared.with(|app, _| *app.totals())
    }

    /// Ends steering: commands that wait have failed. Returns the account of all commands, whose outcomes are in the log.
    #[must_use]
    pub fn close(self) -> Totals {
        let shared = std::sync::Arc::clone(&self.host.shared);
        drop(self);
        shared.with(|app, _| *app.totals())
    }

    /// Returns the address at which the app takes commands.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Returns whether two values have the same dtype and shape.
fn is_alike(one: &Value, other: &Value) -> bool {
    one.dtype() == other.dtype() && one.shape() == other.shape()
}

impl Untold {
    fn is_empty(&self) -> bool {
        self.results.is_empty() && self.readings.is_empty()
    }

    /// Hands everything over: results first, since a change that is under way has the value of its result.
    fn tell(&mut self, app: &mut ::steer::App, names: &[String]) {
        for (id, done) in self.results.drain(..) {
            if let Err(error) = app.done(id, done) {
                tracing::warn!("{error}");
            }
        }
        for (place, value) in std::mem::take(&mut self.readings) {
            if let Err(error) = app.read_back(&names[place], value) {
                tracing::warn!("{error}");
            }
        }
    }
}
