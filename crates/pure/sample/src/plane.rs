//! Planes: the matrices of a sample with more than two extents, and the one that indices name.

use crate::Channel;

/// A matrix of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plane {
    /// Number in the order of the sample: the last index runs fastest, as in the sample's memory.
    pub number: u32,
    /// True if the channel has none at the indices asked for, and this is the nearest one.
    pub is_nearest: bool,
}

impl Plane {
    /// The most indices that name a plane: one for each extent of a shape before its last two.
    pub const MAX_INDICES: usize = 6;

    /// Returns the plane of a channel at these indices, one for each extent before the last two; none at all name the
    /// first plane.
    ///
    /// Indices beyond their extent are taken as its last one, missing ones as 0, and further ones are passed over.
    ///
    /// # Panics
    /// If the channel is not of a checked schema.
    #[must_use]
    pub fn at(channel: &Channel, indices: &[u32]) -> Self {
        let extents = &channel.shape[..channel.shape.len().saturating_sub(2)];
        let index = |place: usize| indices.get(place).copied().unwrap_or(0);
        let places = extents.iter().enumerate();
        let number = places.fold(0, |number, (place, extent)| number * extent + index(place).min(extent - 1));
        let fits = indices.len() == extents.len() && indices.iter().zip(extents).all(|(it, of)| it < of);
        Self { number, is_nearest: !indices.is_empty() && !fits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MatrixShape;
    use units::Random;

    fn channel(shape: &[u32]) -> Channel {
        Channel::new("x", "").with_shape(shape)
    }

    #[test]
    fn indices_count_the_planes_in_the_order_of_the_sample() {
        let channel = channel(&[2, 3, 4, 5]);
        let all = (0..2).flat_map(|first| (0..3).map(move |second| [first, second]));
        let numbers: Vec<_> = all.map(|indices| Plane::at(&channel, &indices)).collect();
        let wanted: Vec<_> = (0..6).map(|number| Plane { number, is_nearest: false }).collect();
        assert_eq!(numbers, wanted);
    }

    #[test]
    fn an_index_beyond_its_extent_is_the_last_one_and_says_so() {
        for (shape, indices, number, is_nearest) in [
            (&[3, 4, 5][..], &[][..], 0, false),
            (&[3, 4, 5], &[2], 2, false),
            (&[3, 4, 5], &[3], 2, true),
            (&[3, 4, 5], &[u32::MAX], 2, true),
            (&[3, 4, 5], &[1, 0], 1, true),
            (&[2, 3, 4, 5], &[1], 3, true),
            (&[2, 3, 4, 5], &[0, 7], 2, true),
            (&[2, 3, 4, 5], &[7, 1], 4, true),
            (&[4, 5], &[], 0, false),
            (&[4, 5], &[0], 0, true),
            (&[], &[1], 0, true),
        ] {
            assert_eq!(
                Plane::at(&channel(shape), indices),
                Plane { number, is_nearest },
                "{shape:?} {indices:?}"
            );
        }
    }

    #[test]
    fn whatever_is_asked_for_there_is_such_a_plane() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let mut some = |most: u64, values: u64| -> Vec<u32> {
                let count = random.below(most + 1);
                (0..count).map(|_| random.below(values) as u32).collect()
            };
            let shape: Vec<u32> = some(8, 4).into_iter().map(|extent| extent + 1).collect();
            let (channel, indices) = (channel(&shape), some(6, 6));
            let plane = Plane::at(&channel, &indices);
            assert!(plane.number < MatrixShape::of(&channel).planes, "seed {seed}");
        }
    }
}
