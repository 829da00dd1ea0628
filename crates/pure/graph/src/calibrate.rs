//! Raw elements turned into values of their unit, for consumers that do not know scales.

use std::sync::Arc;

use sample::{Block, Dtype, ElementReader, SampleBuffer, Schema};

/// Returns the schema of the values: floats wide enough for the elements, without scale and offset.
///
/// Elements of up to two bytes, and `f4` and `c8`, give `f4`; all others `f8`. Complex numbers give their
/// magnitude.
#[must_use]
pub fn calibrated_schema(schema: &Schema) -> Schema {
    let mut calibrated = schema.clone();
    calibrated.dtype = value_dtype(schema.dtype);
    for channel in &mut calibrated.channels {
        (channel.scale, channel.offset) = (1.0, 0.0);
    }
    calibrated
}

/// Returns the block's values; `schema` is [`calibrated_schema`] of the block's. Missing samples stay missing.
#[must_use]
pub fn calibrate(block: &Block, schema: &Arc<Schema>) -> Block {
    let per_sample = block.schema.elements_per_sample() as usize;
    let samples = usize::try_from(block.samples).expect("a block fits in memory");
    let size = schema.dtype.size_bytes();
    let mut data = SampleBuffer::zeroed(samples * per_sample * size);
    let mut values = Vec::with_capacity(samples);
    for element in 0..per_sample {
        values.clear();
        let reader = ElementReader::new(&block.schema, element).expect("within the sample");
        reader.read(block, &mut values);
        let places = data.as_bytes_mut()[element * size..].chunks_mut(per_sample * size);
        for (place, value) in places.zip(&values) {
            write_value(*value, &mut place[..size]);
        }
    }
    Block { schema: schema.clone(), data, ..block.clone() }
}

/// Returns the float type that holds an element's value for plots and sums.
pub(crate) const fn value_dtype(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::U8 | Dtype::U16 | Dtype::Bool | Dtype::F4 | Dtype::C8 => Dtype::F4,
        Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 | Dtype::F8 | Dtype::C16 => Dtype::F8,
    }
}

/// Writes a value as `f4` or `f8`, whichever fills `place`.
pub(crate) fn write_value(value: f64, place: &mut [u8]) {
    if place.len() == Dtype::F4.size_bytes() {
        place.copy_from_slice(&(value as f32).to_le_bytes());
    } else {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Channel;
    use units::{Epoch, RangeSet, WallTime};

    #[test]
    fn values_are_scaled_once_and_holes_stay() {
        let channels =
            vec![Channel::new("a", "V").with_scale(0.5, 1.0), Channel::new("b", "A").with_shape([2])];
        let schema = Schema::new(Dtype::I16, "10".parse().unwrap(), channels).unwrap();
        let elements: [i16; 6] = [2, 3, 4, -2, 5, 6];
        let block = Block {
            stream: Arc::new("lab/probe".parse().unwrap()),
            schema: Arc::new(schema),
            epoch: Epoch { start_ns: 0, incarnation: 0 },
            first_index: 0,
            t0: WallTime::from_nanos(0),
            samples: 2,
            data: SampleBuffer::from_bytes(&elements.map(i16::to_le_bytes).concat()),
            missing: RangeSet::from_iter(core::iter::once(1..2)),
        };
        let calibrated = calibrate(&block, &Arc::new(calibrated_schema(&block.schema)));
        assert_eq!(calibrated.elements::<f32>().unwrap(), [2.0, 3.0, 4.0, 0.0, 5.0, 6.0]);
        assert_eq!(calibrated.missing, block.missing);
        assert_eq!(calibrated.value(0, 0, 0), block.value(0, 0, 0));
    }
}
