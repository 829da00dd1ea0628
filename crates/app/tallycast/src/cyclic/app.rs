//! Description of a cyclic app before it runs, and its report at the end.

use std::error::Error;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use cyclic::{AppCounters, Beat, PeriodError, RegistrationError, Take};
use sample::{Channel, Dtype, Element, StreamName};
use wire::Totals;

use super::cycle::Cycle;
use super::run;
use crate::event::StreamAccount;
use crate::node::{Node, NodeError};

/// Default period of the calls of an app's function.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(10);

/// Result of an app's function: an error ends the app in order, and is returned by [`App::run`].
pub type CycleResult = Result<(), Box<dyn Error + Send + Sync>>;

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
}

/// An input of an app, whose elements are of type `E`.
pub struct Input<E> {
    pub(super) place: usize,
    element: PhantomData<fn() -> E>,
}

/// An output of an app, whose elements are of type `E`.
pub struct Output<E> {
    pub(super) place: usize,
    element: PhantomData<fn() -> E>,
}

/// An input of an app whose elements have the type with which they are published.
#[derive(Clone, Copy, Debug)]
pub struct UntypedInput {
    pub(super) place: usize,
}

/// An output of an app whose element type is known only when the app runs.
#[derive(Clone, Copy, Debug)]
pub struct UntypedOutput {
    pub(super) place: usize,
}

#[derive(Clone, Debug)]
pub(super) struct InputOf {
    pub(super) stream: String,
    pub(super) take: Take,
    /// Type of the elements; `None` accepts any.
    pub(super) dtype: Option<Dtype>,
}

#[derive(Clone, Debug)]
pub(super) struct OutputOf {
    pub(super) stream: String,
    pub(super) dtype: Dtype,
    pub(super) channels: Vec<Channel>,
}

/// Report of an app that has ended.
#[derive(Clone, Debug)]
pub struct AppReport {
    /// Counters of its cycles and inputs.
    pub counters: AppCounters,
    /// Totals of each output at this end.
    pub outputs: Vec<(StreamName, Totals)>,
    /// The accounts of its inputs.
    pub accounts: Vec<StreamAccount>,
}

/// Reason why an app could not run, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// A stream could not be opened.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The period is too short to be kept.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// The registration is not valid.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The priority is not valid.
    #[error("{0} is not a priority of SCHED_FIFO\nuse 1 to 99; 50 is usual, kernel threads have 50 too")]
    Priority(u8),
    /// The thread could not be created.
    #[error("the app's thread cannot be started")]
    Thread(#[source] io::Error),
    /// The function returned an error.
    #[error("the app `{app}` ended in cycle {cycle}: its function failed")]
    Failed {
        /// Name of the app.
        app: String,
        /// Index of the cycle.
        cycle: u64,
        /// Error of the function.
        source: Box<dyn Error + Send + Sync>,
        /// Report of the app until then.
        report: Box<AppReport>,
    },
    /// The function panicked.
    #[error("the app `{app}` ended in cycle {cycle}: its function panicked: {message}")]
    Panicked {
        /// Name of the app.
        app: String,
        /// Index of the cycle.
        cycle: u64,
        /// Message of the panic.
        message: String,
        /// Report of the app until then.
        report: Box<AppReport>,
    },
}

impl<E> Copy for Input<E> {}
impl<E> Clone for Input<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Output<E> {}
impl<E> Clone for Output<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Node {
    /// Begins to describe a cyclic app.
    #[must_use]
    pub fn app(&self, name: impl Into<String>) -> App {
        App {
            node: self.clone(),
            name: name.into(),
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

    /// Calls `function` at every due time until it calls [`Cycle::stop`], fails or panics; returns when all
    /// streams are closed.
    ///
    /// The function runs on a thread of its own. A cycle that ends after the next is due is an overrun: the
    /// cycles that it covered are skipped and counted.
    ///
    /// # Errors
    /// [`AppError`]; if the function failed or panicked, with the report of the app until then.
    pub fn run<F>(self, function: F) -> Result<AppReport, AppError>
    where
        F: FnMut(&mut Cycle<'_>) -> CycleResult + Send,
    {
        run::on_its_own_thread(&self, function)
    }
}
