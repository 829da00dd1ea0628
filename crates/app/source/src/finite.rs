//! Check for finite numbers in sources that return their bytes unparsed.

use std::num::NonZeroU64;

use sample::Dtype;

use crate::{Description, NanPolicy, Piece, Source, SourceError};

/// Error: an element is not a finite number.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error(
    "sample {sample}, channel `{channel}`: {value} is not a finite number\naccept such values with --allow-nan"
)]
pub struct NotFinite {
    /// Index of the sample, from 0, holes included.
    pub sample: u64,
    /// Name of the channel.
    pub channel: String,
    /// Value of the element.
    pub value: f64,
}

/// Source whose samples are checked before they are returned.
struct Finite {
    source: Box<dyn Source>,
    description: Description,
    /// Index of the next sample.
    position: u64,
    /// Element found behind samples that were returned first.
    found: Option<NotFinite>,
}

/// Wraps a source so that only finite numbers pass, unless the policy allows others or its type has no others.
#[must_use]
pub fn finite(source: Box<dyn Source>, policy: NanPolicy) -> Box<dyn Source> {
    if policy == NanPolicy::Allow || part_bytes(source.description().schema.dtype).is_none() {
        return source;
    }
    let description = source.description().clone();
    Box::new(Finite { source, description, position: 0, found: None })
}

impl Source for Finite {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        self.source.decided()
    }

    fn refused(&mut self) -> Option<String> {
        self.source.refused()
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if let Some(found) = self.found.take() {
            return Err(found.into());
        }
        let schema = &self.description.schema;
        let (sample_bytes, element_bytes) = (schema.sample_bytes(), schema.dtype.size_bytes());
        let piece = self.source.next(at_most)?;
        let bytes = match piece {
            Piece::Samples(bytes) | Piece::Timed { samples: bytes, .. } => bytes,
            Piece::Hole { samples, .. } => {
                self.position = self.position.saturating_add(samples);
                return Ok(piece);
            }
            Piece::End => return Ok(piece),
        };
        let Some((place, value)) = first_not_finite(bytes, schema.dtype) else {
            self.position += (bytes.len() / sample_bytes) as u64;
            return Ok(piece);
        };
        let whole = place / sample_bytes;
        let element = place % sample_bytes / element_bytes;
        let sample = self.position + whole as u64;
        let found = NotFinite { sample, channel: channel_of(&self.description, element), value };
        if whole == 0 {
            return Err(found.into());
        }
        self.position = sample;
        self.found = Some(found);
        let samples = &bytes[..whole * sample_bytes];
        Ok(match piece {
            Piece::Timed { times, .. } => Piece::Timed { samples, times: &times[..whole] },
            _ => Piece::Samples(samples),
        })
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.position = 0;
        self.found = None;
        self.source.rewind()
    }
}

/// Returns the size of the floats in an element of a type; `None` for other types.
const fn part_bytes(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::F4 | Dtype::C8 => Some(4),
        Dtype::F8 | Dtype::C16 => Some(8),
        _ => None,
    }
}

/// Finds the first float that is not finite, with the offset of its first byte.
fn first_not_finite(bytes: &[u8], dtype: Dtype) -> Option<(usize, f64)> {
    let size = part_bytes(dtype)?;
    let value = |part: &[u8]| match size {
        4 => f64::from(f32::from_le_bytes(part.try_into().expect("four bytes"))),
        _ => f64::from_le_bytes(part.try_into().expect("eight bytes")),
    };
    let mut values = bytes.chunks_exact(size).map(value).enumerate();
    values.find(|(_, value)| !value.is_finite()).map(|(index, value)| (index * size, value))
}

fn channel_of(description: &Description, element: usize) -> String {
    let schema = &description.schema;
    let found = (0..schema.channels.len()).find(|index| {
        let mut elements = schema.channel_elements(*index);
        elements.any(|of_channel| of_channel == element)
    });
    found.map_or_else(String::new, |index| schema.channels[index].name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Raw;
    use crate::piece::testing::{drain, floats, plenty};
    use sample::{Channel, Schema};

    fn source(values: &'static [f32], policy: NanPolicy) -> Box<dyn Source> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let channels = vec![Channel::new("a", ""), Channel::new("b", "")];
        let schema = Schema::new(Dtype::F4, "10".parse().unwrap(), channels).unwrap();
        let raw = Raw::new(std::io::Cursor::new(bytes), "test".parse().unwrap(), schema);
        finite(Box::new(raw), policy)
    }

    #[test]
    fn what_is_not_finite_is_told_with_its_place_behind_the_samples_before_it() {
        let mut source = source(&[1.0, 2.0, 3.0, 4.0, 5.0, f32::INFINITY, 7.0, 8.0], NanPolicy::Refuse);
        let Piece::Samples(bytes) = source.next(plenty()).unwrap() else { panic!("two samples are whole") };
        let bytes = bytes.to_vec();
        assert_eq!(floats(&*source, &bytes), [1.0, 2.0, 3.0, 4.0]);
        let said = source.next(plenty()).unwrap_err().to_string();
        assert!(said.starts_with("sample 2, channel `b`: inf is not a finite number"), "{said}");
        assert!(said.contains("--allow-nan"), "{said}");
    }

    #[test]
    fn places_go_on_from_piece_to_piece() {
        let mut source = source(&[1.0, 2.0, 3.0, 4.0, f32::NAN, 6.0], NanPolicy::Refuse);
        source.next(NonZeroU64::MIN).unwrap();
        source.next(NonZeroU64::MIN).unwrap();
        let said = source.next(NonZeroU64::MIN).unwrap_err().to_string();
        assert!(said.starts_with("sample 2, channel `a`: NaN"), "{said}");
    }

    #[test]
    fn with_leave_everything_passes() {
        let mut source = source(&[1.0, f32::NAN], NanPolicy::Allow);
        assert_eq!(drain(&mut *source).unwrap().0.len(), 8);
    }

    #[test]
    fn complex_numbers_have_two_parts() {
        let bytes: Vec<u8> = [1.0_f64, 0.0, 2.0, f64::NAN].iter().flat_map(|v| v.to_le_bytes()).collect();
        let place = first_not_finite(&bytes, Dtype::C16).map(|(place, _)| place);
        assert_eq!(place.map(|place| place / 16), Some(1));
    }
}
