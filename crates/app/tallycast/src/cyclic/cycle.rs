//! Arguments of an app's function: the cycle, the received inputs, and the outputs to write.

use std::sync::Arc;
use std::time::Duration;

use cyclic::{Due, Freshness};
use sample::{Element, Schema};
use units::WallTime;
use zerocopy::{FromBytes, IntoBytes};

use super::input::InputPort;
use super::output::OutputPort;
use super::ports::{Input, Output, UntypedInput, UntypedOutput};
use crate::publisher::PublishError;
use crate::steering::{Change, Steered, Steering};

/// One call of an app's function.
pub struct Cycle<'a> {
    pub(super) due: Due,
    pub(super) inputs: &'a [InputPort],
    pub(super) outputs: &'a mut [OutputPort],
    pub(super) stop: &'a mut bool,
    pub(super) steering: Option<&'a mut Steering>,
}

/// Samples and losses that a cycle found at an input.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a, E> {
    /// Freshness of the newest sample.
    pub freshness: Freshness,
    /// Age of the newest sample when the cycle was due, if any has arrived; zero where another host's clock
    /// is ahead.
    pub age: Option<Duration>,
    /// Number of elements found to be lost since the last cycle.
    pub lost_elements: u64,
    newest: Option<Sample<'a, E>>,
    all: &'a [E],
    marks: &'a [(u64, WallTime)],
}

/// A sample of an input.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample<'a, E> {
    /// Its index since the publisher's epoch began; for another app's output, the cycle that wrote it.
    pub index: u64,
    /// Time at which it was taken; for another app's output, the due time of that cycle.
    pub time: WallTime,
    /// Its elements, channel after channel.
    pub elements: &'a [E],
}

/// Samples and losses that a cycle found at an input whose elements may be of any type.
#[derive(Clone, Copy, Debug)]
pub struct UntypedReceived<'a> {
    /// Freshness of the newest sample.
    pub freshness: Freshness,
    /// Age of the newest sample when the cycle was due, if any has arrived; zero where another host's clock
    /// is ahead.
    pub age: Option<Duration>,
    /// Number of elements found to be lost since the last cycle.
    pub lost_elements: u64,
    /// Schema of the samples; `None` before the first.
    pub schema: Option<&'a Arc<Schema>>,
    /// The newest sample, new or not: its index, time and elements, little-endian.
    pub newest: Option<(u64, WallTime, &'a [u8])>,
    /// Index and time of each sample that arrived since the last cycle, oldest first.
    pub marks: &'a [(u64, WallTime)],
    /// Their elements, sample after sample, little-endian.
    pub bytes: &'a [u8],
}

impl Cycle<'_> {
    /// Returns the index of the cycle, from 0; skipped cycles are counted too.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.due.index
    }

    /// Returns its due time: a whole multiple of the period in UTC, plus the app's phase.
    #[must_use]
    pub const fn time(&self) -> WallTime {
        self.due.time
    }

    /// Returns the samples received at an input.
    ///
    /// # Panics
    /// If the input is another app's.
    #[must_use]
    pub fn input<E: Element>(&self, input: Input<E>) -> Received<'_, E> {
        let port = self.inputs.get(input.place).filter(|port| port.dtype == Some(E::DTYPE));
        let port = port.expect("an input of this app");
        let newest = port.newest.as_ref();
        Received {
            freshness: port.freshness,
            age: self.age_of(port),
            lost_elements: port.news.lost_elements,
            newest: newest.map(|newest| Sample {
                index: newest.index,
                time: newest.time,
                elements: typed(newest.elements.as_bytes()),
            }),
            all: typed(port.all.as_bytes()),
            marks: &port.marks,
        }
    }

    /// Returns the samples received at an input whose elements may be of any type.
    ///
    /// # Panics
    /// If the input is another app's.
    #[must_use]
    pub fn untyped_input(&self, input: UntypedInput) -> UntypedReceived<'_> {
        let port = self.inputs.get(input.place).filter(|port| port.dtype.is_none());
        let port = port.expect("an input of this app");
        UntypedReceived {
            freshness: port.freshness,
            age: self.age_of(port),
            lost_elements: port.news.lost_elements,
            schema: port.schema.as_ref(),
            newest: port.newest.as_ref().map(|it| (it.index, it.time, it.elements.as_bytes())),
            marks: &port.marks,
            bytes: port.all.as_bytes(),
        }
    }

    /// Writes an output's sample as [`Cycle::write`] does, from its elements as little-endian bytes.
    ///
    /// # Errors
    /// [`PublishError::Ragged`] if it is not one sample.
    ///
    /// # Panics
    /// If the output is another app's.
    pub fn write_bytes(&mut self, output: UntypedOutput, sample: &[u8]) -> Result<(), PublishError> {
        self.outputs.get_mut(output.place).expect("an output of this app").write(sample)
    }

    fn age_of(&self, port: &InputPort) -> Option<Duration> {
        let newest = port.newest.as_ref()?;
        let nanos = self.due.time.nanos_since(newest.time);
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }

    /// Writes the output's sample of this cycle; the last call counts. It is sent when the function has
    /// returned.
    ///
    /// # Errors
    /// [`PublishError::Ragged`] if it is not one sample.
    ///
    /// # Panics
    /// If the output is another app's.
    pub fn write<E: Element>(&mut self, output: Output<E>, sample: &[E]) -> Result<(), PublishError> {
        let port = self.outputs.get_mut(output.place).filter(|port| port.dtype() == E::DTYPE);
        port.expect("an output of this app").write(sample.as_bytes())
    }

    /// Returns the present elements of a parameter.
    ///
    /// # Panics
    /// If the parameter is another app's.
    #[must_use]
    pub fn parameter<E: Element>(&self, parameter: Steered<E>) -> &[E] {
        self.steering.as_ref().expect("a parameter of this app").value(parameter)
    }

    /// Returns the changes of parameters with which this cycle began: the app can say that it could not apply one, or
    /// which value it read back. Without a word a change is applied.
    pub fn changes(&mut self) -> &mut [Change] {
        self.steering.as_mut().map_or(&mut [], |steering| steering.changes())
    }

    /// Makes this cycle the last.
    pub const fn stop(&mut self) {
        *self.stop = true;
    }
}

impl<'a, E: Element> Received<'a, E> {
    /// Returns the elements of the newest sample, new or not; `None` if none has arrived yet.
    #[must_use]
    pub fn newest(&self) -> Option<&'a [E]> {
        self.newest.map(|sample| sample.elements)
    }

    /// Returns the newest sample with its index and time.
    #[must_use]
    pub const fn newest_sample(&self) -> Option<Sample<'a, E>> {
        self.newest
    }

    /// Returns the samples that arrived since the last cycle, oldest first: all with
    /// [`Take::All`](super::Take::All), the newest with [`Take::Newest`](super::Take::Newest).
    pub fn samples(&self) -> impl ExactSizeIterator<Item = Sample<'a, E>> + use<'a, E> {
        let per_sample = (self.all.len() / self.marks.len().max(1)).max(1);
        let marks = self.marks.iter();
        marks.zip(self.all.chunks_exact(per_sample)).map(|((index, time), elements)| Sample {
            index: *index,
            time: *time,
            elements,
        })
    }

    /// Returns whether a new sample arrived.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.freshness, Freshness::New | Freshness::Late)
    }
}

fn typed<E: Element>(bytes: &[u8]) -> &[E] {
    <[E]>::ref_from_bytes(bytes).expect("whole elements, aligned to eight bytes")
}
