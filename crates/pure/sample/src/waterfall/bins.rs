//! The bins of a sample: maxima of blocks of its elements.

use std::ops::Range;

use crate::{Block, MatrixShape, Schema};

/// Reads a channel's bins: bin `k` is the maximum of elements `k·block` up to `(k + 1)·block` of all rows of a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BinReader {
    /// First element of the matrix in a sample.
    first: usize,
    shape: MatrixShape,
    block: u32,
    scale: f64,
    offset: f64,
}

impl BinReader {
    /// Makes the reader of a channel's matrix `plane`, or of the last one if there are fewer, in at most `most` bins.
    ///
    /// # Panics
    /// If the schema has no such channel.
    #[must_use]
    pub fn new(schema: &Schema, channel: usize, plane: u32, most: u32) -> Self {
        let start = schema.channel_elements(channel).start;
        let channel = &schema.channels[channel];
        let shape = MatrixShape::of(channel);
        let first = start + plane.min(shape.planes - 1) as usize * shape.elements();
        let block = shape.columns.div_ceil(most.max(1));
        Self { first, shape, block, scale: channel.scale, offset: channel.offset }
    }

    /// Returns the number of bins.
    #[must_use]
    pub const fn bins(&self) -> u32 {
        self.shape.columns.div_ceil(self.block)
    }

    /// Returns the number of neighbouring elements that are one bin; the last one may have fewer.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// Returns the matrices of a sample.
    #[must_use]
    pub const fn shape(&self) -> MatrixShape {
        self.shape
    }

    /// Reads the bins of a sample, counted from the block's first; NaN where no element is a number. Returns whether
    /// any element arrived.
    ///
    /// Complex numbers give their magnitude, as [`crate::Dtype::to_f64`] says.
    ///
    /// # Panics
    /// If the block has another schema than this was made for.
    pub fn read(&self, block: &Block, sample: u64, bins: &mut Vec<f32>) -> bool {
        bins.clear();
        bins.resize(self.bins() as usize, f32::NAN);
        let (size, width) = (block.schema.dtype.size_bytes(), self.shape.columns as usize);
        let first = sample as usize * block.schema.elements_per_sample() as usize + self.first;
        let within = first as u64..(first + self.shape.elements()) as u64;
        let holes: Vec<Range<u64>> = block.missing.intersection(within.clone()).collect();
        let bytes = &block.data.as_bytes()[first * size..(first + self.shape.elements()) * size];
        for (place, element) in bytes.chunks_exact(size).enumerate() {
            if holes.iter().any(|hole| hole.contains(&((first + place) as u64))) {
                continue;
            }
            let value = block.schema.dtype.to_f64(element).mul_add(self.scale, self.offset) as f32;
            let bin = &mut bins[place % width / self.block as usize];
            // NaN on one side changes nothing.
            *bin = bin.max(value);
        }
        holes.iter().map(|hole| hole.end - hole.start).sum::<u64>() < within.end - within.start
    }
}
