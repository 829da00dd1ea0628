//! History behind live memory: the interface between the monitor and an archive.
//!
//! Start with [`HistoryStore`]. The archive of this project is one, see `archived.rs`; a monitor without a store
//! shows live memory only.

use std::ops::Range;
use std::sync::Arc;

use sample::{Block, Column, ColumnGrid, Point, StreamName};
use serde::Serialize;
use tallycast::runs::Runs;
use units::{SampleRate, WallTime};

use crate::gap_map::KnownGap;

/// Stored data that a monitor shows behind live memory.
pub trait HistoryStore: Send + Sync {
    /// Returns the stored data of a channel in a span of time; `None` if the stream or channel is not known.
    ///
    /// Called where blocking is allowed; may take long.
    ///
    /// # Errors
    /// [`StoreFailure`], which is shown to the client.
    fn span(&self, asked: &StoredRequest<'_>) -> Result<Option<StoredSpan>, StoreFailure>;

    /// Passes the stored samples in a span of time to `take`, block by block in the order of time; returns whether the
    /// stream is known. A store without single samples knows none.
    ///
    /// Called where blocking is allowed; may take long.
    ///
    /// # Errors
    /// [`StoreFailure`], which is shown to the client.
    fn samples(&self, asked: &StoredSamples<'_>, take: &mut dyn FnMut(&Block)) -> Result<bool, StoreFailure> {
        let _ = (asked, take);
        Ok(false)
    }

    /// Returns a block whose last sample is the newest stored one of a channel at or before `end`, however long before; `None`
    /// if there is none. A store without single samples has none.
    ///
    /// Called where blocking is allowed; may take long.
    ///
    /// # Errors
    /// [`StoreFailure`], which is shown to the client.
    fn newest(
        &self,
        stream: &StreamName,
        channel: &str,
        end: WallTime,
    ) -> Result<Option<Block>, StoreFailure> {
        let _ = (stream, channel, end);
        Ok(None)
    }

    /// Returns the level of the disk that holds the data, if there is one.
    fn disk(&self) -> Option<DiskStatus> {
        None
    }

    /// Returns what is missing of a stream in a span of time, losses and absences, in the order of time; `None` if the stream is
    /// not known.
    ///
    /// Called where blocking is allowed; may take long.
    ///
    /// # Errors
    /// [`StoreFailure`], which is shown to the client.
    fn gaps(
        &self,
        stream: &StreamName,
        range: Range<WallTime>,
    ) -> Result<Option<Vec<KnownGap>>, StoreFailure>;

    /// Returns the events of runs of the experiment that are stored: the same list for as long as there are no others.
    ///
    /// Called where blocking is allowed; may take long.
    ///
    /// # Errors
    /// [`StoreFailure`], which is shown to the client.
    fn runs(&self) -> Result<Option<Arc<Runs>>, StoreFailure> {
        Ok(None)
    }
}

/// Level of the disk that holds the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct DiskStatus {
    /// Number of bytes that can still be written.
    pub free_bytes: u64,
    /// Size of the whole disk, in bytes.
    pub size_bytes: u64,
    /// True from 80 % in use until below 75 %.
    #[serde(rename = "alarm")]
    pub is_alarm: bool,
}

/// Request to a store.
#[derive(Clone, Copy, Debug)]
pub struct StoredRequest<'a> {
    /// The stream.
    pub stream: &'a StreamName,
    /// The channel, or `name[i]` for an element of one with many.
    pub channel: &'a str,
    /// The span, and the columns it is thinned to.
    pub grid: ColumnGrid,
}

/// Request to a store for every sample.
#[derive(Clone, Debug)]
pub struct StoredSamples<'a> {
    /// The stream.
    pub stream: &'a StreamName,
    /// The span of time.
    pub range: Range<WallTime>,
    /// The most samples; more are [`StoreFailure::TooLong`].
    pub limit: u64,
}

/// Content of a store in a span.
#[derive(Clone, Debug)]
pub struct StoredSpan {
    /// The channel's unit.
    pub unit: String,
    /// The stream's rate.
    pub rate: SampleRate,
    /// Content of each column of the grid.
    pub columns: Vec<Column>,
    /// Individual samples in time order, if there are fewer of them than columns.
    pub points: Option<Vec<Point>>,
    /// Gaps in time order.
    pub gaps: Vec<KnownGap>,
}

impl StoredSpan {
    /// Returns the part of this span, made for `of`, on another grid with columns of the same width.
    pub(crate) fn shifted(&self, of: &ColumnGrid, grid: &ColumnGrid) -> Option<Self> {
        let offset = grid.from.nanos_since(of.from);
        let width = i64::try_from(grid.column_ns).ok()?;
        if of.column_ns != grid.column_ns || offset % width != 0 {
            return None;
        }
        let column = |place: i64| usize::try_from(place).ok().and_then(|place| self.columns.get(place));
        let columns = (0..i64::from(grid.count))
            .map(|place| column(place.saturating_add(offset / width)).copied().unwrap_or(Column::EMPTY));
        let (from, to) = (grid.from, grid.edge(grid.count));
        let inside = |point: &&Point| (from..to).contains(&point.time);
        let overlaps = |gap: &&KnownGap| gap.to > from && gap.from < to;
        Some(Self {
            unit: self.unit.clone(),
            rate: self.rate,
            columns: columns.collect(),
            points: self.points.as_ref().map(|points| points.iter().filter(inside).copied().collect()),
            gaps: self.gaps.iter().filter(overlaps).cloned().collect(),
        })
    }
}

/// Reason why a store has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreFailure {
    /// The answer would take too long to compute.
    #[error(
        "the span contains {samples} stored samples; at most {limit} can be read at once\n\
         request a shorter span"
    )]
    TooLong {
        /// Approximate number of samples.
        samples: u64,
        /// Maximum number of samples.
        limit: u64,
    },
    /// The store cannot be read.
    #[error("the archive cannot be read: {0}")]
    Unreadable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_serves_every_grid_of_its_columns() {
        let grid =
            |from_ns, column_ns| ColumnGrid { from: WallTime::from_nanos(from_ns), column_ns, count: 4 };
        let mut columns = vec![Column::EMPTY; 4];
        columns[2].take(&[5.0]);
        let rate = SampleRate::hz(1).unwrap();
        let span = StoredSpan { unit: "V".to_owned(), rate, columns, points: None, gaps: Vec::new() };
        let shifted = span.shifted(&grid(100, 10), &grid(120, 10)).unwrap();
        assert_eq!((shifted.columns.len(), shifted.columns[0].max), (4, 5.0));
        assert_eq!(shifted.columns[3].present, 0);
        assert!(span.shifted(&grid(100, 10), &grid(125, 10)).is_none());
        assert!(span.shifted(&grid(100, 10), &grid(120, 20)).is_none());
    }
}
