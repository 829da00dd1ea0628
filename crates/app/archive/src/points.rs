//! Thinned retrieval: one column per pixel of a plot, each with the least and the greatest value.
//!
//! A peak of a single sample is kept in a span of any width. Columns are on an exact grid, so that a request for the
//! next span continues this one without a seam. Start with [`Archive::points`].

use core::ops::Range;

use sample::Block;
use units::WallTime;

use crate::catalogue::{Archive, StreamEntry};
use crate::error::ArchiveError;
use crate::feed::{Hole, Piece};

/// Maximum number of columns in a request: more than any screen has pixels.
pub const MAX_POINTS: usize = 100_000;

/// Request for a thinned span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointsRequest {
    /// Number of the channel in the stream, from 0.
    pub channel: usize,
    /// Number of the element in that channel's sample, from 0.
    pub element: usize,
    /// Span of time.
    pub range: Range<WallTime>,
    /// Number of columns, 1 to [`MAX_POINTS`].
    pub points: usize,
}

/// Least and greatest value in one column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extremes {
    /// Least value, scaled.
    pub min: f64,
    /// Greatest value, scaled.
    pub max: f64,
    /// Number of samples in the column.
    pub samples: u64,
}

/// Thinned span.
#[derive(Clone, PartialEq, Debug)]
pub struct Points {
    /// Time at which the first column begins.
    pub from: WallTime,
    /// Width of a column: column k covers `from + k * column_ns` up to the next.
    pub column_ns: u64,
    /// Columns; `None` for one without a sample.
    pub columns: Vec<Option<Extremes>>,
    /// Holes in the span.
    pub holes: Vec<Hole>,
}

impl Archive {
    /// Thins a span of one channel to columns.
    ///
    /// NaN does not count; a complex number counts by its magnitude.
    ///
    /// # Errors
    /// [`ArchiveError::Unsuited`] for a request outside its limits; the error of reading.
    pub fn points(&self, stream: &StreamEntry, request: &PointsRequest) -> Result<Points, ArchiveError> {
        let mut points = self.points_of_each(stream, core::slice::from_ref(request))?;
        Ok(points.pop().expect("one for each request"))
    }

    /// Thins several elements over one span in a single pass: the results of [`Self::points`] for each request.
    ///
    /// # Errors
    /// [`ArchiveError::Unsuited`] for a request outside its limits, and if the requests have different spans; the
    /// error of reading.
    pub fn points_of_each(
        &self,
        stream: &StreamEntry,
        requests: &[PointsRequest],
    ) -> Result<Vec<Points>, ArchiveError> {
        let Some(first) = requests.first() else { return Ok(Vec::new()) };
        if requests.iter().any(|request| request.range != first.range) {
            return Err(ArchiveError::Unsuited("request one span at a time".to_owned()));
        }
        let mut each: Vec<Points> = requests.iter().map(Points::empty).collect::<Result<_, _>>()?;
        for piece in self.range(stream, first.range.clone()) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => each.iter_mut().for_each(|points| points.holes.push(hole.clone())),
                Piece::Block(block) => {
                    for (points, request) in each.iter_mut().zip(requests) {
                        points.fold(&block, request)?;
                    }
                }
            }
        }
        Ok(each)
    }
}

impl Points {
    fn empty(request: &PointsRequest) -> Result<Self, ArchiveError> {
        let span = request.range.end.nanos_since(request.range.start);
        if !(1..=MAX_POINTS).contains(&request.points) || span <= 0 {
            let text = format!("request 1 to {MAX_POINTS} points of a span that ends after it begins");
            return Err(ArchiveError::Unsuited(text));
        }
        let column_ns = span.cast_unsigned().div_ceil(request.points as u64);
        let columns = vec![None; request.points];
        Ok(Self { from: request.range.start, column_ns, columns, holes: Vec::new() })
    }

    fn fold(&mut self, block: &Block, request: &PointsRequest) -> Result<(), ArchiveError> {
        let schema = &block.schema;
        let channel = schema.channels.get(request.channel);
        let elements = channel.and_then(|channel| channel.elements()).unwrap_or(0) as usize;
        if request.element >= elements {
            let asked = format!("element {} of channel {}", request.element, request.channel);
            return Err(ArchiveError::Unknown(format!("{asked} in stream {}", block.stream)));
        }
        let element = schema.channel_elements(request.channel).start + request.element;
        let per_sample = u64::from(schema.elements_per_sample());
        for sample in 0..block.samples {
            if block.missing.contains(sample * per_sample + element as u64) {
                continue;
            }
            let offset = block.time_of(block.first_index + sample).nanos_since(self.from);
            let column = u64::try_from(offset).unwrap_or(0) / self.column_ns;
            let in_block = usize::try_from(sample).expect("a block lies in memory");
            let value = block.value(in_block, element, request.channel);
            let column = usize::try_from(column).ok().and_then(|column| self.columns.get_mut(column));
            if let Some(column) = column.filter(|_| !value.is_nan()) {
                let so_far = column.unwrap_or(Extremes { min: value, max: value, samples: 0 });
                *column = Some(Extremes {
                    min: so_far.min.min(value),
                    max: so_far.max.max(value),
                    samples: so_far.samples + 1,
                });
            }
        }
        Ok(())
    }
}
