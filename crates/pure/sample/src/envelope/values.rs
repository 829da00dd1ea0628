//! One element of every sample of a block, as scaled floats, with one match on the dtype per block.

use core::ops::Range;

use crate::{Block, Dtype, Element, Schema};

/// Reads one element of every sample in its channel's unit.
///
/// Made once per trace: it knows the element's offset and its channel's scale.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ElementReader {
    element: usize,
    scale: f64,
    offset: f64,
}

impl ElementReader {
    /// Makes the reader of the element at `element` within a sample; `None` if a sample is shorter.
    #[must_use]
    pub fn new(schema: &Schema, element: usize) -> Option<Self> {
        let channel =
            (0..schema.channels.len()).find(|index| schema.channel_elements(*index).contains(&element))?;
        let channel = &schema.channels[channel];
        Some(Self { element, scale: channel.scale, offset: channel.offset })
    }

    /// Returns which element of a sample is read.
    #[must_use]
    pub const fn element(&self) -> usize {
        self.element
    }

    /// Appends the value of every sample of `block`; a missing element reads as its channel's zero.
    ///
    /// Complex numbers give their magnitude, booleans 0 or 1, as [`Dtype::to_f64`] says.
    /// Cost: one pass; the dtype is matched once.
    ///
    /// # Panics
    /// If a sample of `block` is shorter than the schema this was made for.
    pub fn read(&self, block: &Block, values: &mut Vec<f64>) {
        match block.schema.dtype {
            Dtype::I8 => self.convert(block, values, |value: i8| f64::from(value)),
            Dtype::I16 => self.convert(block, values, |value: i16| f64::from(value)),
            Dtype::I32 => self.convert(block, values, |value: i32| f64::from(value)),
            Dtype::I64 => self.convert(block, values, |value: i64| value as f64),
            Dtype::U8 => self.convert(block, values, |value: u8| f64::from(value)),
            Dtype::U16 => self.convert(block, values, |value: u16| f64::from(value)),
            Dtype::U32 => self.convert(block, values, |value: u32| f64::from(value)),
            Dtype::U64 => self.convert(block, values, |value: u64| value as f64),
            Dtype::F4 => self.convert(block, values, |value: f32| f64::from(value)),
            Dtype::F8 => self.convert(block, values, |value: f64| value),
            Dtype::C8 => self.convert(block, values, |[re, im]: [f32; 2]| f64::from(re).hypot(f64::from(im))),
            Dtype::C16 => self.convert(block, values, |[re, im]: [f64; 2]| re.hypot(im)),
            Dtype::Bool => {
                self.pick(block, block.data.as_bytes(), values, |byte: u8| f64::from(u8::from(byte != 0)));
            }
        }
    }

    /// Returns the runs of samples, counted from the block's first, whose element arrived.
    #[must_use]
    pub fn present(&self, block: &Block) -> Vec<Range<usize>> {
        let samples = usize::try_from(block.samples).expect("a block fits in memory");
        if block.missing.is_empty() {
            return core::iter::once(0..samples).collect();
        }
        let per_sample = u64::from(block.schema.elements_per_sample());
        let arrived =
            |sample: &usize| !block.missing.contains(*sample as u64 * per_sample + self.element as u64);
        let mut runs: Vec<Range<usize>> = Vec::new();
        for sample in (0..samples).filter(arrived) {
            match runs.last_mut() {
                Some(run) if run.end == sample => run.end += 1,
                _ => runs.push(sample..sample + 1),
            }
        }
        runs
    }

    fn convert<E: Element>(&self, block: &Block, values: &mut Vec<f64>, to_float: impl Fn(E) -> f64) {
        let elements = block.elements::<E>().expect("chosen by the block's own dtype");
        self.pick(block, elements, values, to_float);
    }

    fn pick<E: Copy>(
        &self,
        block: &Block,
        elements: &[E],
        values: &mut Vec<f64>,
        to_float: impl Fn(E) -> f64,
    ) {
        let per_sample = block.schema.elements_per_sample() as usize;
        assert!(self.element < per_sample, "the block has the schema this reader was made for");
        let first = values.len();
        if per_sample == 1 {
            values.extend(elements.iter().map(|element| to_float(*element)));
        } else {
            values.extend(elements.chunks_exact(per_sample).map(|sample| to_float(sample[self.element])));
        }
        // Most channels need no scaling, and a multiplication by one would cost as much as the conversion.
        if self.scale != 1.0 || self.offset != 0.0 {
            for value in &mut values[first..] {
                *value = *value * self.scale + self.offset;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, SampleBuffer};
    use std::sync::Arc;
    use units::{Epoch, RangeSet, SampleRate, WallTime};

    fn block(dtype: Dtype, channels: Vec<Channel>, bytes: &[u8]) -> Block {
        let schema = Schema::new(dtype, SampleRate::hz(1).unwrap(), channels).unwrap();
        let samples = (bytes.len() / schema.sample_bytes()) as u64;
        Block {
            stream: Arc::new("lab/probe".parse().unwrap()),
            schema: Arc::new(schema),
            epoch: Epoch { start_ns: 0, incarnation: 0 },
            first_index: 0,
            t0: WallTime::from_nanos(0),
            samples,
            data: SampleBuffer::from_bytes(bytes),
            missing: RangeSet::new(),
        }
    }

    #[test]
    fn every_dtype_reads_as_its_own_conversion_says() {
        let bytes: Vec<u8> = (0..96_u8).map(|byte| byte.wrapping_mul(37)).collect();
        for dtype in Dtype::ALL {
            let channels = vec![Channel::new("a", ""), Channel::new("b", ""), Channel::new("c", "")];
            let block = block(dtype, channels, &bytes);
            let mut values = Vec::new();
            ElementReader::new(&block.schema, 1).unwrap().read(&block, &mut values);
            let expected: Vec<f64> =
                (0..block.samples).map(|sample| block.value(sample as usize, 1, 1)).collect();
            let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            assert_eq!(values.len(), expected.len());
            assert!(values.iter().zip(&expected).all(same), "{dtype}: {values:?} is not {expected:?}");
        }
    }

    #[test]
    fn an_element_is_scaled_by_the_channel_it_lies_in() {
        let channels =
            vec![Channel::new("image", "").with_shape([2]), Channel::new("b", "").with_scale(2.0, 1.0)];
        let block = block(Dtype::U8, channels, &[1, 2, 3, 4, 5, 6]);
        let mut values = Vec::new();
        ElementReader::new(&block.schema, 2).unwrap().read(&block, &mut values);
        assert_eq!(values, [7.0, 13.0]);
        assert_eq!(ElementReader::new(&block.schema, 3), None);
    }

    #[test]
    fn only_the_element_asked_for_makes_a_sample_missing() {
        let mut block = block(Dtype::U8, vec![Channel::new("a", "").with_shape([2])], &[0; 8]);
        block.missing.insert(3..5);
        let present = |element| ElementReader::new(&block.schema, element).unwrap().present(&block);
        assert_eq!(present(0), [0..2, 3..4]);
        assert_eq!(present(1), [0..1, 2..4]);
    }
}
