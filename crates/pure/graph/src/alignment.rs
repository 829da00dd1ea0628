//! Channels of several streams side by side, on the grid of one of them.
//!
//! The same rows that a derivation evaluates ([`crate::Aligner`]), passed on: a sample has the value of every input, and
//! an instant at which one of them has none is a hole, inherited from that input.

use std::sync::Arc;

use sample::{Channel, Dtype, SampleBuffer, Schema, StreamName, UnknownEntries};

use crate::{
    AlignConfig, Aligned, Aligner, DerivedInput, Inherited, Input, InputError, Operator, Output, Totals,
};

/// Maximum number of inputs, each of which keeps samples that wait.
pub const MAX_ALIGNED: usize = 64;

/// Reason why streams cannot be aligned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlignError {
    /// No input, or too many.
    #[error("an alignment takes 1 to {MAX_ALIGNED} inputs, not {0}; align in several nodes")]
    Inputs(usize),
    /// An alignment that would read itself.
    #[error("`{0}` cannot be aligned with itself; give the aligned stream another name")]
    Itself(StreamName),
}

/// Aligns streams: an [`Operator`] of the given inputs, which waits for their horizons.
///
/// The output has a channel of `f8` for each input, named by its variable, in alphabetical order. Totals count the grid's
/// instants.
#[derive(Clone, Debug)]
pub struct Alignment {
    inputs: Vec<DerivedInput>,
    /// Numbers of the inputs in the order of the channels.
    order: Vec<usize>,
    aligner: Aligner,
    totals: Totals,
}

impl Alignment {
    /// Makes the alignment that is published as `name`; the first input gives the grid.
    ///
    /// # Errors
    /// [`AlignError`].
    pub fn new(
        name: &StreamName,
        inputs: Vec<DerivedInput>,
        config: AlignConfig,
    ) -> Result<Self, AlignError> {
        if !(1..=MAX_ALIGNED).contains(&inputs.len()) {
            return Err(AlignError::Inputs(inputs.len()));
        }
        if inputs.iter().any(|input| input.stream == *name) {
            return Err(AlignError::Itself(name.clone()));
        }
        let mut order: Vec<_> = (0..inputs.len()).collect();
        order.sort_by_key(|input| &inputs[*input].variable);
        let of = inputs.iter().map(|input| (input.stream.clone(), input.channel.clone()));
        let aligner = Aligner::new(config, of);
        Ok(Self { inputs, order, aligner, totals: Totals::default() })
    }

    fn interleave(&self, columns: &[Vec<f64>]) -> SampleBuffer {
        let size = Dtype::F8.size_bytes();
        let mut data = SampleBuffer::zeroed(columns[0].len() * columns.len() * size);
        for (row, sample) in data.as_bytes_mut().chunks_exact_mut(columns.len() * size).enumerate() {
            for (input, place) in self.order.iter().zip(sample.chunks_exact_mut(size)) {
                place.copy_from_slice(&columns[*input][row].to_le_bytes());
            }
        }
        data
    }
}

impl Operator for Alignment {
    fn handle(&mut self, input: usize, what: Input<'_>) -> Result<(), InputError> {
        self.aligner.handle(input, what)
    }

    fn poll(&mut self) -> Option<Output> {
        let output = match self.aligner.poll()? {
            Aligned::Rows { first_index, t0, columns } => {
                let (samples, data) = (columns[0].len() as u64, self.interleave(&columns));
                self.totals.delivered += samples;
                Output::Samples { first_index, t0, samples, data }
            }
            Aligned::Hole { first_index, t0, samples, input, stage } => {
                self.totals.source += samples;
                let stream = self.aligner.stream(input).clone();
                Output::Hole { first_index, t0, samples, inherited: Inherited { stream, stage } }
            }
        };
        self.totals.offered = self.aligner.next_index();
        Some(output)
    }

    /// Returns the schema with the units of the inputs that are known by now; others have none.
    fn schema(&self) -> Option<Arc<Schema>> {
        let rate = self.aligner.schema(0)?.rate;
        let channel = |input: &usize| {
            let DerivedInput { variable, channel, .. } = &self.inputs[*input];
            let schema = self.aligner.schema(*input);
            let known = schema.and_then(|schema| schema.channels.iter().find(|it| it.name == *channel));
            Channel::new(variable.clone(), known.map_or("", |known| &known.unit))
        };
        let channels = self.order.iter().map(channel).collect();
        let origin = |input: &DerivedInput| {
            (format!("input.{}", input.variable), format!("{}:{}", input.stream, input.channel))
        };
        let labels = self.inputs.iter().map(origin).collect();
        Some(Arc::new(Schema { dtype: Dtype::F8, rate, channels, labels, unknown: UnknownEntries::new() }))
    }

    fn totals(&self) -> Totals {
        Totals { late: self.aligner.late(), ..self.totals }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Horizon;
    use crate::scene::{Stream, floats};
    use units::Random;

    fn alignment(variables: &[(&str, &str)]) -> Result<Alignment, AlignError> {
        let input = |(variable, stream): &(&str, &str)| DerivedInput {
            variable: (*variable).to_owned(),
            stream: stream.parse().unwrap(),
            channel: "x".to_owned(),
        };
        let name = "lab/aligned".parse().unwrap();
        Alignment::new(&name, variables.iter().map(input).collect(), AlignConfig::default())
    }

    #[test]
    fn each_input_is_a_channel_in_its_unit_at_the_instants_of_the_grid() {
        // The grid is the second by name.
        let mut alignment = alignment(&[("slow", "lab/b"), ("fast", "lab/a")]).unwrap();
        let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "100"));
        let fast: Vec<f64> = (0..30).map(f64::from).collect();
        alignment.handle(0, Input::Block(&b.block(0, &[100.0, 110.0, 120.0]))).unwrap();
        assert!(alignment.poll().is_none(), "the other input is waited for");
        alignment.handle(1, Input::Block(&a.block(0, &fast))).unwrap();
        let Some(Output::Samples { first_index: 0, samples: 3, data, .. }) = alignment.poll() else {
            panic!("three rows")
        };
        assert_eq!(floats(&data), [0.0, 100.0, 10.0, 110.0, 20.0, 120.0]);
        let schema = alignment.schema().unwrap();
        let channels: Vec<_> =
            schema.channels.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
        assert_eq!((channels, schema.rate), (vec![("fast", "V"), ("slow", "V")], "100".parse().unwrap()));
        assert_eq!(schema.labels["input.slow"], "lab/b:x");
    }

    #[test]
    fn an_input_without_a_value_makes_a_hole_that_names_it() {
        let mut alignment = alignment(&[("a", "lab/a"), ("b", "lab/b")]).unwrap();
        let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
        alignment.handle(1, Input::Block(&b.block(0, &[1.0]))).unwrap();
        alignment.handle(0, Input::Block(&a.block(0, &[1.0; 100]))).unwrap();
        let before = Some(b.time_of(200));
        alignment.handle(1, Input::Horizon(Horizon { epoch: b.epoch, next_index: 1, before })).unwrap();
        assert!(matches!(alignment.poll(), Some(Output::Samples { samples: 1, .. })));
        let Some(Output::Hole { samples: 99, inherited, .. }) = alignment.poll() else { panic!("a hole") };
        assert_eq!(inherited.stream.as_str(), "lab/b");
        let totals = alignment.totals();
        assert_eq!((totals.offered, totals.delivered, totals.source), (100, 1, 99));
    }

    #[test]
    fn samples_that_come_behind_their_horizon_are_counted_and_no_others() {
        for (next_index, is_told) in [(10, true), (40, false)] {
            let mut alignment = alignment(&[("a", "lab/a"), ("b", "lab/b")]).unwrap();
            let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
            alignment.handle(0, Input::Block(&a.block(0, &[1.0; 50]))).unwrap();
            alignment.handle(1, Input::Block(&b.block(0, &[1.0; 10]))).unwrap();
            let before = is_told.then(|| b.time_of(40));
            alignment.handle(1, Input::Horizon(Horizon { epoch: b.epoch, next_index, before })).unwrap();
            while alignment.poll().is_some() {}
            assert_eq!(alignment.totals().late, 0);
            for _ in 0..2 {
                alignment.handle(1, Input::Block(&b.block(10, &[1.0; 40]))).unwrap();
                while alignment.poll().is_some() {}
                let totals = alignment.totals();
                assert_eq!((totals.late, totals.delivered, totals.source), (30, 20, 30), "told {is_told}");
            }
        }
    }

    #[test]
    fn no_sample_in_order_is_late_whatever_the_rates_and_holes() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let rates = ["100", "999", "1k", "10k"];
            let streams = ["lab/a", "lab/b"].map(|name| Stream::new(name, rates[random.below(4) as usize]));
            let mut alignment = alignment(&[("a", "lab/a"), ("b", "lab/b")]).unwrap();
            let mut next = [0_u64; 2];
            for _ in 0..100 {
                let input = random.below(2) as usize;
                let samples = 1 + random.below(40);
                if !random.chance(0.2) {
                    let block = streams[input].block(next[input], &vec![1.0; samples as usize]);
                    alignment.handle(input, Input::Block(&block)).unwrap();
                }
                next[input] += samples;
                while alignment.poll().is_some() {}
            }
            assert_eq!(alignment.totals().late, 0, "seed {seed}");
        }
    }

    #[test]
    fn inputs_that_cannot_be_are_refused() {
        assert_eq!(alignment(&[]).unwrap_err(), AlignError::Inputs(0));
        assert!(alignment(&[("a", "lab/a"); MAX_ALIGNED]).is_ok());
        assert!(alignment(&[("a", "lab/a"); MAX_ALIGNED + 1]).is_err());
        assert!(matches!(alignment(&[("a", "lab/aligned")]), Err(AlignError::Itself(_))));
    }
}
