//! Complete samples of a recorded block, and those with missing elements.
//!
//! A sample that was recorded in part is published again as one that is missing: the elements it lacks must not be
//! made up.

use std::ops::Range;

/// Samples that follow each other, counted from the block's first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) samples: Range<u64>,
    /// No element of them is missing.
    pub(crate) whole: bool,
}

/// Splits a block of `samples` by the ranges of its missing elements, which ascend.
///
/// Units: `missing` in elements from the block's first; `per_sample` elements in one sample.
pub(crate) fn parts(
    samples: u64,
    missing: impl IntoIterator<Item = Range<u64>>,
    per_sample: u32,
) -> Vec<Part> {
    let per_sample = u64::from(per_sample);
    let (mut parts, mut next) = (Vec::new(), 0);
    for elements in missing {
        let partial = (elements.start / per_sample).max(next)..elements.end.div_ceil(per_sample);
        parts.push(Part { samples: next..partial.start, whole: true });
        next = partial.end.max(next);
        parts.push(Part { samples: partial, whole: false });
    }
    parts.push(Part { samples: next..samples, whole: true });
    parts.retain(|part| !part.samples.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of five samples of four elements.
    fn of_five(missing: &[Range<u64>]) -> Vec<(Range<u64>, bool)> {
        let parts = parts(5, missing.iter().cloned(), 4);
        parts.into_iter().map(|part| (part.samples, part.whole)).collect()
    }

    #[test]
    fn samples_that_lack_an_element_are_told_apart() {
        assert_eq!(of_five(&[]), [(0..5, true)]);
        assert_eq!(of_five(&[5..6]), [(0..1, true), (1..2, false), (2..5, true)]);
        assert_eq!(of_five(&[1..2, 3..4]), [(0..1, false), (1..5, true)]);
        assert_eq!(of_five(&[0..1, 19..20]), [(0..1, false), (1..4, true), (4..5, false)]);
    }
}
