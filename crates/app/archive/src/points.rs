//! Thinned retrieval: as many columns as a plot has pixels, each with the least and the greatest value.
//!
//! A peak of a single sample is kept, however wide the span. Columns lie on an exact grid, so that the next
//! request for the next span continues this one without a seam. Start with [`Archive::points`].

use core::ops::Range;

use sample::Block;
use units::WallTime;

use crate::catalogue::{Archive, StreamEntry};
use crate::error::ArchiveError;
use crate::feed::{Hole, Piece};

/// The most columns one request may have: more than any screen has pixels.
pub const MAX_POINTS: usize = 100_000;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointsRequest {
    /// Which channel of the stream, counted from 0.
    pub channel: usize,
    /// Which element of that channel's sample, counted from 0.
    pub element: usize,
    /// The span of time.
    pub range: Range<WallTime>,
    /// How many columns, 1 to [`MAX_POINTS`].
    pub points: usize,
}

/// The least and greatest value in one column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extremes {
    /// The least value, scaled.
    pub min: f64,
    /// The greatest value, scaled.
    pub max: f64,
    /// How many samples lie in the column.
    pub samples: u64,
}

/// A thinned span.
#[derive(Clone, PartialEq, Debug)]
pub struct Points {
    /// Where the first column begins.
    pub from: WallTime,
    /// How wide a column is: column k covers `from + k * column_ns` up to the next.
    pub column_ns: u64,
    /// The columns; `None` where there is no sample.
    pub columns: Vec<Option<Extremes>>,
    /// The holes in the span.
    pub holes: Vec<Hole>,
}

impl Archive {
    /// Thins a span of one channel to columns.
    ///
    /// A value that is no number does not count; a complex number counts by its magnitude.
    ///
    /// # Errors
    /// [`ArchiveError::Unsuited`] for a request out of its limits; what reading says.
    pub fn points(&self, stream: &StreamEntry, request: &PointsRequest) -> Result<Points, ArchiveError> {
        let mut points = self.points_of_each(stream, core::slice::from_ref(request))?;
        Ok(points.pop().expect("one for each request"))
    }

    /// Thins several elements over one span, reading it once: what [`Self::points`] returns for each of the requests.
    ///
    /// # Errors
    /// [`ArchiveError::Unsuited`] for a request out of its limits, and if the requests are of several spans; what reading
    /// says.
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
