//! A span of one channel, from live memory and behind it from the store, thinned to columns.
//!
//! Serves programs and previews; views that follow are in [`crate::view`]. Start with [`read`].

mod arrow;

use std::ops::Range;
use std::sync::Arc;

use sample::{Column, ColumnGrid};
use serde::Serialize;
use serde_json::Value;
use units::{SampleRate, WallTime};

pub(crate) use arrow::{ARROW_STREAM, to_arrow};

use crate::clock;
use crate::gap_map::KnownGap;
use crate::memory::{StreamMemory, element_of, unit_of};
use crate::refused::Refused;
use crate::shared::Shared;
use crate::stored::{StoredRequest, StoredSpan};
use crate::view::{gaps_within, older_than, samples_per_column};

/// The most columns one request may have: twice an 8K screen.
pub(crate) const MAX_POINTS: u32 = wire::MAX_PAGE_COLUMNS;
/// Maximum number of gaps in one answer, the newest ones.
pub(crate) const MAX_GAPS: usize = wire::MAX_PAGE_GAPS;

/// Requested range; times that are not given follow the newest data.
#[derive(Clone, Debug)]
pub(crate) struct RangeRequest {
    pub(crate) stream: String,
    pub(crate) channel: String,
    pub(crate) from: Option<WallTime>,
    pub(crate) to: Option<WallTime>,
    /// Length of the span if it has no beginning.
    pub(crate) span_ns: i64,
    pub(crate) points: u32,
}

/// A span of one channel.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) unit: String,
    pub(crate) grid: ColumnGrid,
    pub(crate) samples_per_column: f32,
    pub(crate) columns: Vec<Column>,
    pub(crate) gaps: Vec<Arc<KnownGap>>,
    pub(crate) origin: &'static str,
}

/// Content of live memory in a span.
struct Live {
    unit: String,
    rate: SampleRate,
    columns: Vec<Column>,
    gaps: Vec<Arc<KnownGap>>,
}

impl Live {
    /// Replaces live memory for a stream that only the store knows.
    fn standing_for(stored: &StoredSpan, grid: &ColumnGrid) -> Self {
        Self {
            unit: stored.unit.clone(),
            rate: stored.rate,
            columns: grid.empty_columns(),
            gaps: stored.gaps.iter().cloned().map(Arc::new).collect(),
        }
    }
}

/// Reads a span. Waits for the store for the part before live memory.
pub(crate) fn read(shared: &Shared, request: &RangeRequest) -> Result<Span, Refused> {
    let slot = shared.history.stream(&request.stream);
    let grid = request.grid(edge(shared, &request.stream))?;
    let since = slot.as_ref().and_then(|slot| {
        let memory = slot.memory();
        let element = element_of(&memory.info.schema, &request.channel)?;
        memory.envelope(element)?.memory_from()
    });
    let stored = match &shared.store {
        Some(store) if since.is_none_or(|since| grid.from < since) => {
            let no_stream = |_| Refused::no_stream(&request.stream);
            let stream = request.stream.parse().map_err(no_stream)?;
            let asked = StoredRequest { stream: &stream, channel: &request.channel, grid };
            store.span(&asked).map_err(|failure| Refused::store(&failure))?
        }
        _ => None,
    };
    let live = slot.map(|slot| live(&mut slot.memory(), request, stored.as_ref(), &grid)).transpose()?;
    let origin = origin(live.as_ref(), stored.as_ref());
    let live = match (live, &stored) {
        (Some(live), _) => live,
        (None, Some(stored)) => Live::standing_for(stored, &grid),
        (None, None) => return Err(Refused::no_stream(&request.stream)),
    };
    Ok(Span::of(grid, live, stored.as_ref(), origin))
}

/// Returns the end of a span that follows a stream: now, by this host's clock or by that of the data where these
/// differ.
pub(crate) fn edge(shared: &Shared, name: &str) -> WallTime {
    let now = clock::now();
    shared.history.stream(name).map_or(now.wall, |slot| slot.memory().edge(now))
}

/// Returns the gaps of a stream in a span of time: those of live memory, and before that those of the store.
pub(crate) fn gaps(
    shared: &Shared,
    name: &str,
    range: Range<WallTime>,
) -> Result<Vec<Arc<KnownGap>>, Refused> {
    let slot = shared.history.stream(name);
    let since = slot.as_ref().and_then(|slot| slot.memory().gaps_since());
    let no_stream = || Refused::no_stream(name);
    let stored = match &shared.store {
        Some(store) if since.is_none_or(|since| range.start < since) => {
            let stream = name.parse().map_err(|_| no_stream())?;
            store.gaps(&stream, range.clone()).map_err(|failure| Refused::store(&failure))?
        }
        _ => None,
    };
    let Some(slot) = slot else {
        return Ok(stored.ok_or_else(no_stream)?.into_iter().map(Arc::new).collect());
    };
    let memory = slot.memory();
    let stored = stored.unwrap_or_default();
    let older = older_than(stored.iter(), since, &memory.info.schema);
    Ok(older.chain(memory.gaps.within(&range).cloned()).collect())
}

/// Returns the origin of the samples.
fn origin(live: Option<&Live>, stored: Option<&StoredSpan>) -> &'static str {
    let holds = |columns: &[Column]| columns.iter().any(|column| column.present > 0);
    let live = live.is_some_and(|live| holds(&live.columns));
    match stored.is_some_and(|stored| holds(&stored.columns)) {
        true if live => "both",
        true => "archive",
        false => "live",
    }
}

fn live(
    memory: &mut StreamMemory,
    request: &RangeRequest,
    stored: Option<&StoredSpan>,
    grid: &ColumnGrid,
) -> Result<Live, Refused> {
    let schema = Arc::clone(&memory.info.schema);
    let no_channel = || Refused::no_channel(&request.stream, &request.channel);
    let element = element_of(&schema, &request.channel).ok_or_else(no_channel)?;
    memory.remember(element);
    let envelope = memory.envelope(element).ok_or_else(|| {
        Refused::bad("too many elements are remembered already", "request fewer elements of this stream")
    })?;
    Ok(Live {
        unit: unit_of(&schema, element).to_owned(),
        rate: schema.rate,
        columns: envelope.columns(grid),
        gaps: gaps_within(memory, stored, grid),
    })
}

impl RangeRequest {
    fn grid(&self, edge: WallTime) -> Result<ColumnGrid, Refused> {
        let to = self.to.unwrap_or(edge);
        let from = self.from.unwrap_or_else(|| to.offset(-self.span_ns));
        let span = u64::try_from(to.nanos_since(from)).unwrap_or(0);
        if span == 0 {
            return Err(Refused::range_ends_first());
        }
        let column_ns = span.div_ceil(u64::from(self.points.max(1)));
        let count = u32::try_from(span.div_ceil(column_ns)).expect("no more than points");
        Ok(ColumnGrid { from, column_ns, count })
    }
}

impl Span {
    fn of(grid: ColumnGrid, live: Live, stored: Option<&StoredSpan>, origin: &'static str) -> Self {
        let mut columns = live.columns;
        let older = stored.into_iter().flat_map(|stored| &stored.columns);
        columns.iter_mut().zip(older).for_each(|(column, older)| column.complete_from(older));
        let newest = live.gaps.len().saturating_sub(MAX_GAPS);
        Self {
            unit: live.unit,
            samples_per_column: samples_per_column(live.rate, &grid),
            grid,
            columns,
            gaps: live.gaps[newest..].to_vec(),
            origin,
        }
    }

    /// Returns the span as `docs/protocol/page.md` gives it in JSON.
    pub(crate) fn to_json(&self, request: &RangeRequest) -> String {
        let drawn = |(number, column): (u32, &Column)| {
            let edges = [number, number + 1].map(|edge| self.grid.edge(edge).as_nanos());
            (!column.min.is_nan()).then_some((edges[0], edges[1], column.min, column.max))
        };
        let range = RangeJson {
            stream: &request.stream,
            channel: &request.channel,
            unit: &self.unit,
            from: self.grid.from.as_nanos(),
            to: self.grid.edge(self.grid.count).as_nanos(),
            columns: (0..).zip(&self.columns).map(drawn).collect(),
            samples_per_column: self.samples_per_column,
            thinned: self.samples_per_column > 1.0,
            gaps: self.gaps.iter().map(|gap| gap.to_json()).collect(),
            origin: self.origin,
        };
        serde_json::to_string(&range).expect("plain numbers and text")
    }
}

#[derive(Serialize)]
struct RangeJson<'a> {
    stream: &'a str,
    channel: &'a str,
    unit: &'a str,
    from: i64,
    to: i64,
    columns: Vec<Option<(i64, i64, f64, f64)>>,
    samples_per_column: f32,
    thinned: bool,
    gaps: Vec<Value>,
    origin: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(from: i64, to: i64, points: u32) -> RangeRequest {
        let time = |nanos| Some(WallTime::from_nanos(nanos));
        let (stream, channel) = ("lab/x".to_owned(), "x".to_owned());
        RangeRequest { stream, channel, from: time(from), to: time(to), span_ns: 1, points }
    }

    #[test]
    fn a_range_has_no_more_columns_than_asked_for_and_covers_its_end() {
        for (span, points) in [(1_000, 7), (5, 16_384), (1, 1), (16_385, 16_384)] {
            let grid = request(0, span, points).grid(WallTime::default()).unwrap();
            assert!(grid.count <= points);
            assert!(grid.edge(grid.count).as_nanos() >= span);
        }
        assert!(request(5, 5, 10).grid(WallTime::default()).is_err());
    }
}
