//! Description of a cyclic app before it runs.

use std::marker::PhantomData;
use std::time::Duration;

use cyclic::{Beat, Take};
use sample::{Channel, Dtype, Element};

use super::ports::{Input, InputOf, Output, OutputOf, UntypedInput, UntypedOutput};
use crate::node::Node;
use crate::steering::{Parameter, Steered, SteeringBuilder};

/// Default period of the calls of an app's function.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(10);

/// A cyclic app before it runs; created by [`Node::app`].
///
/// Errors in the description are returned by [`App::run`].
#[derive(Clone, Debug)]
pub struct App {
    pub(super) node: Node,
    pub(super) name: String,
    pub(super) beat: Beat,
    pub(super) cpu: Option<usize>,
    pub(super) fifo_priority: Option<u8>,
    pub(super) inputs: Vec<InputOf>,
    pub(super) outputs: Vec<OutputOf>,
    pub(super) steering: SteeringBuilder,
}

impl Node {
    /// Begins to describe a cyclic app.
    #[must_use]
    pub fn app(&self, name: impl Into<String>) -> App {
        let name = name.into();
        App {
            node: self.clone(),
            steering: self.steering(&name),
            name,
            beat: Beat { period: DEFAULT_PERIOD, phase: Duration::ZERO },
            cpu: None,
            fifo_priority: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

impl App {
    /// Sets the period of the calls of the function; 10 ms by default.
    ///
    /// Cycles begin at whole multiples of the period in UTC, with those of all other apps.
    pub const fn period(&mut self, period: Duration) -> &mut Self {
        self.beat.period = period;
        self
    }

    /// Sets the delay of each cycle after the whole multiple of the period, for instance so that the apps
    /// that feed this app have written; zero by default.
    pub const fn phase(&mut self, phase: Duration) -> &mut Self {
        self.beat.phase = phase;
        self
    }

    /// Restricts the app to this processor. If that is not possible it runs on all, and logs one warning.
    pub const fn pin_to(&mut self, cpu: usize) -> &mut Self {
        self.cpu = Some(cpu);
        self
    }

    /// Lets the app preempt all threads that are not real-time (`SCHED_FIFO`), priority 1 to 99. If that is
    /// not allowed it runs with normal priority, and logs one warning.
    pub const fn fifo(&mut self, priority: u8) -> &mut Self {
        self.fifo_priority = Some(priority);
        self
    }

    /// Adds an input: the stream of that name, by any publisher, whose elements must be of type `E`.
    pub fn input<E: Element>(&mut self, stream: impl Into<String>, take: Take) -> Input<E> {
        self.inputs.push(InputOf { stream: stream.into(), take, dtype: Some(E::DTYPE) });
        Input { place: self.inputs.len() - 1, element: PhantomData }
    }

    /// Adds an output: a stream of one sample per cycle.
    ///
    /// The index of a sample is that of its cycle; cycles without a written sample are holes of stage
    /// `source`.
    pub fn output<E: Element>(
        &mut self,
        stream: impl Into<String>,
        channels: impl IntoIterator<Item = impl Into<Channel>>,
    ) -> Output<E> {
        let channels = channels.into_iter().map(Into::into).collect();
        self.outputs.push(OutputOf { stream: stream.into(), dtype: E::DTYPE, channels });
        Output { place: self.outputs.len() - 1, element: PhantomData }
    }

    /// Adds a parameter that others may change while the app runs. Changes come at the start of a cycle, before the
    /// function is called; the sample of that cycle is the first one with the change.
    pub fn parameter<E: Element>(&mut self, parameter: Parameter<E>) -> Steered<E> {
        self.steering.parameter(parameter)
    }

    /// Returns the settings of its steering: log, address, keys, rules of access. They matter if it has parameters.
    pub const fn steering(&mut self) -> &mut SteeringBuilder {
        &mut self.steering
    }

    /// Adds an input whose samples are passed as bytes with their schema, whatever their type is: for
    /// programs that learn the type from the stream.
    pub fn untyped_input(&mut self, stream: impl Into<String>, take: Take) -> UntypedInput {
        self.inputs.push(InputOf { stream: stream.into(), take, dtype: None });
        UntypedInput { place: self.inputs.len() - 1 }
    }

    /// Adds an output as [`App::output`] does, whose samples are passed as bytes.
    pub fn untyped_output(
        &mut self,
        stream: impl Into<String>,
        dtype: Dtype,
        channels: impl IntoIterator<Item = impl Into<Channel>>,
    ) -> UntypedOutput {
        let channels = channels.into_iter().map(Into::into).collect();
        self.outputs.push(OutputOf { stream: stream.into(), dtype, channels });
        UntypedOutput { place: self.outputs.len() - 1 }
    }
}
