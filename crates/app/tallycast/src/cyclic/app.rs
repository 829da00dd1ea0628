//! Describing a cyclic app before it runs, and what is said of it at the end.

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

/// How often an app's function is called unless it says otherwise.
pub const DEFAULT_PERIOD: Duration = Duration::from_millis(10);

/// What an app's function returns: an error ends the app in order, and is told by [`App::run`].
pub type CycleResult = Result<(), Box<dyn Error + Send + Sync>>;

/// A cyclic app before it runs; made by [`Node::app`].
///
/// What is wrong with it is said by [`App::run`].
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

/// An input of an app whose elements are of the type that they are published with.
#[derive(Clone, Copy, Debug)]
pub struct UntypedInput {
    pub(super) place: usize,
}

/// An output of an app whose elements' type is known when the app runs, and not before.
#[derive(Clone, Copy, Debug)]
pub struct UntypedOutput {
    pub(super) place: usize,
}

#[derive(Clone, Debug)]
pub(super) struct InputOf {
    pub(super) stream: String,
    pub(super) take: Take,
    /// `None`: whatever they are.
    pub(super) dtype: Option<Dtype>,
}

#[derive(Clone, Debug)]
pub(super) struct OutputOf {
    pub(super) stream: String,
    pub(super) dtype: Dtype,
    pub(super) channels: Vec<Channel>,
}

/// What became of an app.
#[derive(Clone, Debug)]
pub struct AppReport {
    /// Its cycles and inputs.
    pub counters: AppCounters,
    /// What became of each output's samples at this end.
    pub outputs: Vec<(StreamName, Totals)>,
    /// The accounts of its inputs.
    pub accounts: Vec<StreamAccount>,
}

/// Says why an app could not run, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// A stream could not be opened.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A period that cannot be kept.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// What the app is made of cannot be told to others.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// A priority that there is not.
    #[error("{0} is not a priority of SCHED_FIFO\nuse 1 to 99; 50 is usual, kernel threads have 50 too")]
    Priority(u8),
    /// No thread could be had.
    #[error("the app's thread cannot be started")]
    Thread(#[source] io::Error),
    /// The function returned an error.
    #[error("the app `{app}` ended in cycle {cycle}: its function failed")]
    Failed {
        /// Which app.
        app: String,
        /// In which cycle.
        cycle: u64,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
        /// What became of it until then.
        report: Box<AppReport>,
    },
    /// The function panicked.
    #[error("the app `{app}` ended in cycle {cycle}: its function panicked: {message}")]
    Panicked {
        /// Which app.
        app: String,
        /// In which cycle.
        cycle: u64,
        /// What it said.
        message: String,
        /// What became of it until then.
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
    /// Sets how often the function is called; every 10 ms otherwise.
    ///
    /// Cycles begin at whole multiples of the period in UTC, with those of all other apps.
    pub const fn period(&mut self, period: Duration) -> &mut Self {
        self.beat.period = period;
        self
    }

    /// Lets each cycle begin so long after the whole multiple of the period, for instance when those that feed this app
    /// have written; at once otherwise.
    pub const fn phase(&mut self, phase: Duration) -> &mut Self {
        self.beat.phase = phase;
        self
    }

    /// Lets the app run on this processor only. Where that is not possible it runs on all, and says so once.
    pub const fn pin_to(&mut self, cpu: usize) -> &mut Self {
        self.cpu = Some(cpu);
        self
    }

    /// Lets the app run before all that are not real-time (`SCHED_FIFO`), priority 1 to 99. Where that is not allowed it
    /// runs like any other, and says so once.
    pub const fn fifo(&mut self, priority: u8) -> &mut Self {
        self.fifo_priority = Some(priority);
        self
    }

    /// Adds an input: the stream of that name, whoever publishes it, as long as its elements are of type `E`.
    pub fn input<E: Element>(&mut self, stream: impl Into<String>, take: Take) -> Input<E> {
        self.inputs.push(InputOf { stream: stream.into(), take, dtype: Some(E::DTYPE) });
        Input { place: self.inputs.len() - 1, element: PhantomData }
    }

    /// Adds an output: a stream of one sample per cycle.
    ///
    /// The index of a sample is that of its cycle; cycles in which nothing was written are holes of stage `source`.
    pub fn output<E: Element>(
        &mut self,
        stream: impl Into<String>,
        channels: impl IntoIterator<Item = impl Into<Channel>>,
    ) -> Output<E> {
        let channels = channels.into_iter().map(Into::into).collect();
        self.outputs.push(OutputOf { stream: stream.into(), dtype: E::DTYPE, channels });
        Output { place: self.outputs.len() - 1, element: PhantomData }
    }

    /// Adds an input whose samples are handed over as bytes beside their schema, whatever their type is: for programs that
    /// learn it from the stream.
    pub fn untyped_input(&mut self, stream: impl Into<String>, take: Take) -> UntypedInput {
        self.inputs.push(InputOf { stream: stream.into(), take, dtype: None });
        UntypedInput { place: self.inputs.len() - 1 }
    }

    /// Adds an output as [`App::output`] does, whose samples are handed over as bytes.
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

    /// Calls `function` at every due time until it says [`Cycle::stop`], fails or panics; returns when all streams are
    /// closed.
    ///
    /// The function runs on a thread of its own. A cycle that ends after the next is due is an overrun: what it covered
    /// is left out and counted.
    ///
    /// # Errors
    /// [`AppError`]; if the function failed or panicked, with what became of the app until then.
    pub fn run<F>(self, function: F) -> Result<AppReport, AppError>
    where
        F: FnMut(&mut Cycle<'_>) -> CycleResult + Send,
    {
        run::on_its_own_thread(&self, function)
    }
}
