//! Samples with a shape as matrices for display: which part of a sample a matrix is, and how a matrix with more
//! elements than a picture has pixels is reduced block by block.
//!
//! Start with [`Picture::of`].

use std::ops::Range;

use serde::Deserialize;

use crate::{Channel, Dtype};

/// The matrices of one sample of a channel: its last two extents. A vector is one row, a single value one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixShape {
    /// Number of matrices: the product of all extents before the last two.
    pub planes: u32,
    /// Rows of each.
    pub rows: u32,
    /// Columns of each.
    pub columns: u32,
}

/// Value of a block of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// The mean of its values.
    #[default]
    Mean,
    /// The largest of its values: no peak is lost.
    Max,
}

/// The elements of one matrix of a sample, and the scale of their values.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Elements, little-endian, row by row.
    pub bytes: &'a [u8],
    /// Type of an element.
    pub dtype: Dtype,
    /// Value = element × `scale` + `offset`.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// Elements that never arrived, counted from the first one: they are left out as NaN is.
    pub missing: &'a [Range<usize>],
}

/// A reduced matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Picture {
    /// Number of rows.
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    /// Rows and columns of the matrix that are one pixel; fewer at the lower and right edge.
    pub block: [u32; 2],
    /// Values of the pixels, row by row.
    pub pixels: Pixels,
}

/// Values of pixels, row by row.
#[derive(Clone, PartialEq, Debug)]
pub enum Pixels {
    /// Values in the channel's unit; NaN if no element of the block is a number.
    Values(Vec<f32>),
    /// Elements of 8 bits: value = step × `scale` + `offset` of the channel. Means are rounded to a step.
    Steps(Vec<u8>),
}

impl MatrixShape {
    /// Returns the matrices of one sample of `channel`.
    ///
    /// # Panics
    /// If the channel is not of a checked schema.
    #[must_use]
    pub fn of(channel: &Channel) -> Self {
        let (before, last) = channel.shape.split_at(channel.shape.len().saturating_sub(2));
        let (rows, columns) = match last {
            [] => (1, 1),
            [columns] => (1, *columns),
            [.., rows, columns] => (*rows, *columns),
        };
        Self { planes: before.iter().product(), rows, columns }
    }

    /// Returns the number of elements of one matrix.
    #[must_use]
    pub const fn elements(&self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// Returns how many rows and columns are one pixel, so that the picture has at most `rows` and `columns`, each at
    /// least 1, and at most `pixels` in all.
    #[must_use]
    pub fn block(&self, rows: u32, columns: u32, pixels: u32) -> [u32; 2] {
        let mut block =
            [self.rows.div_ceil(rows.max(1)).max(1), self.columns.div_ceil(columns.max(1)).max(1)];
        let count = |block: [u32; 2]| {
            u64::from(self.rows.div_ceil(block[0])) * u64::from(self.columns.div_ceil(block[1]))
        };
        while count(block) > u64::from(pixels.max(1)) {
            // The side that has more pixels becomes coarser.
            let longer = usize::from(self.columns.div_ceil(block[1]) >= self.rows.div_ceil(block[0]));
            block[longer] += block[longer].div_ceil(8);
        }
        block
    }
}

impl Picture {
    /// Reduces a matrix by blocks of `block` rows and columns.
    ///
    /// NaN elements are left out; complex elements count by their magnitude. 8-bit elements and `bool` stay elements
    /// unless some are missing.
    ///
    /// Cost: one pass over the matrix.
    ///
    /// # Panics
    /// If there are not as many bytes as the matrix has elements, or a block has no row or column.
    #[must_use]
    pub fn of(matrix: &Matrix<'_>, block: [u32; 2], reduction: Reduction) -> Self {
        let size = matrix.dtype.size_bytes();
        let elements = matrix.rows as usize * matrix.columns as usize;
        assert_eq!(matrix.bytes.len(), elements * size, "as many elements as the matrix has");
        let (rows, columns) = (matrix.rows.div_ceil(block[0]), matrix.columns.div_ceil(block[1]));
        let is_steps = matches!(matrix.dtype, Dtype::U8 | Dtype::Bool) && matrix.missing.is_empty();
        let (scale, offset) = if is_steps { (1.0, 0.0) } else { (matrix.scale, matrix.offset) };
        let width = matrix.columns as usize * size;
        let mut cells = vec![Cell::default(); columns as usize];
        let mut values = Vec::with_capacity(rows as usize * columns as usize);
        for (band, lines) in matrix.bytes.chunks(width * block[0] as usize).enumerate() {
            cells.fill(Cell::default());
            for (line, bytes) in lines.chunks_exact(width).enumerate() {
                let first = (band * block[0] as usize + line) * matrix.columns as usize;
                let holes = holes_in(matrix.missing, first..first + matrix.columns as usize);
                for (place, element) in bytes.chunks_exact(size).enumerate() {
                    if holes.iter().any(|hole| hole.contains(&(first + place))) {
                        continue;
                    }
                    let value = matrix.dtype.to_f64(element).mul_add(scale, offset);
                    cells[place / block[1] as usize].take(value);
                }
            }
            values.extend(cells.iter().map(|cell| cell.value(reduction)));
        }
        let pixels = if is_steps {
            Pixels::Steps(values.into_iter().map(|value| value.round() as u8).collect())
        } else {
            Pixels::Values(values.into_iter().map(|value| value as f32).collect())
        };
        Self { rows, columns, block, pixels }
    }
}

/// Returns the ranges that touch `line`.
fn holes_in(missing: &[Range<usize>], line: Range<usize>) -> Vec<Range<usize>> {
    let touches = |hole: &&Range<usize>| hole.start < line.end && hole.end > line.start;
    missing.iter().filter(touches).cloned().collect()
}

/// What is known of a block.
#[derive(Clone, Copy)]
struct Cell {
    sum: f64,
    count: u32,
    max: f64,
}

impl Default for Cell {
    fn default() -> Self {
        Self { sum: 0.0, count: 0, max: f64::NEG_INFINITY }
    }
}

impl Cell {
    fn take(&mut self, value: f64) {
        if !value.is_nan() {
            self.sum += value;
            self.count += 1;
            self.max = self.max.max(value);
        }
    }

    fn value(self, reduction: Reduction) -> f64 {
        match reduction {
            _ if self.count == 0 => f64::NAN,
            Reduction::Mean => self.sum / f64::from(self.count),
            Reduction::Max => self.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    fn shape(extents: &[u32]) -> MatrixShape {
        MatrixShape::of(&Channel::new("x", "").with_shape(extents))
    }

    fn matrix(bytes: &[u8], dtype: Dtype, rows: u32, columns: u32) -> Matrix<'_> {
        Matrix { bytes, dtype, scale: 2.0, offset: 1.0, rows, columns, missing: &[] }
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn values(picture: &Picture) -> Vec<f32> {
        match &picture.pixels {
            Pixels::Values(values) => values.clone(),
            Pixels::Steps(_) => panic!("values"),
        }
    }

    #[test]
    fn every_shape_is_a_number_of_matrices() {
        let of = |planes, rows, columns| MatrixShape { planes, rows, columns };
        assert_eq!(shape(&[]), of(1, 1, 1));
        assert_eq!(shape(&[7]), of(1, 1, 7));
        assert_eq!(shape(&[1, 7]), of(1, 1, 7));
        assert_eq!(shape(&[4, 3]), of(1, 4, 3));
        assert_eq!(shape(&[2, 5, 4, 3]), of(10, 4, 3));
    }

    #[test]
    fn a_picture_keeps_within_its_pixels_whatever_the_shape() {
        let mut random = Random::new(7);
        for _ in 0..2_000 {
            let side = |random: &mut Random| {
                let most = 1 << random.below(14);
                1 + random.below(most) as u32
            };
            let shape = MatrixShape { planes: 1, rows: side(&mut random), columns: side(&mut random) };
            let (rows, columns) = (side(&mut random), side(&mut random));
            let pixels = 1 + random.below(1 << 18) as u32;
            let block = shape.block(rows, columns, pixels);
            let [high, wide] = [shape.rows.div_ceil(block[0]), shape.columns.div_ceil(block[1])];
            assert!(high <= rows && wide <= columns && high * wide <= pixels, "{shape:?} {block:?}");
        }
        assert_eq!(shape(&[8, 8]).block(8, 8, 64), [1, 1], "what fits is not reduced");
        assert_eq!(shape(&[8_192, 8_192]).block(0, 0, 0), [8_192, 8_192]);
    }

    #[test]
    fn blocks_are_scaled_means_or_maxima_also_at_the_edges() {
        let bytes = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let matrix = matrix(&bytes, Dtype::F4, 3, 3);
        let mean = Picture::of(&matrix, [2, 2], Reduction::Mean);
        assert_eq!((mean.rows, mean.columns, mean.block), (2, 2, [2, 2]));
        assert_eq!(values(&mean), [5.0, 8.0, 14.0, 17.0]);
        assert_eq!(values(&Picture::of(&matrix, [2, 2], Reduction::Max)), [9.0, 11.0, 15.0, 17.0]);
        let whole = Picture::of(&matrix, [1, 1], Reduction::Mean);
        assert_eq!(values(&whole)[8], 17.0);
    }

    #[test]
    fn what_is_no_number_is_left_out_and_alone_is_nan() {
        let bytes = floats(&[f32::NAN, 1.0, f32::NAN, f32::NAN, f32::NEG_INFINITY, f32::INFINITY]);
        let of = |reduction| values(&Picture::of(&matrix(&bytes, Dtype::F4, 1, 6), [1, 2], reduction));
        assert_eq!(of(Reduction::Mean)[0], 3.0);
        assert!(of(Reduction::Mean)[1].is_nan() && of(Reduction::Max)[1].is_nan());
        assert!(of(Reduction::Mean)[2].is_nan(), "no mean of both infinities");
        assert_eq!(of(Reduction::Max)[2], f32::INFINITY);
    }

    #[test]
    fn elements_that_never_arrived_are_left_out() {
        let bytes = [1, 2, 3, 4, 5, 6];
        let missing = [1..2, 4..6];
        let partial = Matrix { missing: &missing, ..matrix(&bytes, Dtype::U8, 2, 3) };
        let whole = values(&Picture::of(&partial, [1, 1], Reduction::Mean));
        let shown: Vec<_> = whole.iter().map(|value| if value.is_nan() { 0.0 } else { *value }).collect();
        assert_eq!(shown, [3.0, 0.0, 7.0, 9.0, 0.0, 0.0]);
        assert_eq!(values(&Picture::of(&partial, [2, 2], Reduction::Max))[0], 9.0);
    }

    #[test]
    fn elements_of_8_bits_stay_so_and_complex_ones_count_by_magnitude() {
        let picture = Picture::of(&matrix(&[1, 2, 255, 254], Dtype::U8, 2, 2), [2, 1], Reduction::Mean);
        assert_eq!(picture.pixels, Pixels::Steps(vec![128, 128]));
        let picture = Picture::of(&matrix(&floats(&[3.0, 4.0]), Dtype::C8, 1, 1), [1, 1], Reduction::Mean);
        assert_eq!(values(&picture), [11.0]);
    }
}
