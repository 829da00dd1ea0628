//! Views that are tables: of each channel its newest sample, or in the past the newest one at or before a time.
//!
//! They share numbers, credit and pace with the other views. A sample between two frames is no loss: a table asks for the
//! newest alone. Start with [`TableView`].

mod held;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use sample::{ColumnGrid, Envelope};
use serde::Deserialize;
use tallycast::{Dtype, Schema};
use units::WallTime;
use wire::{MAX_ROW_VALUES, NoSample, TraceState, ValueRow, ValueSample, Values, ValuesFrame};

use super::{Delivery, MAX_UNDER_WAY, Scenery, View, Viewer};
use crate::clock::Moment;
use crate::gap_map::KnownGap;
use crate::memory::newest::NewestSample;
use crate::memory::{StreamMemory, element_of};
use crate::view::{MAX_TRACES, TraceRequest, state_of};
use held::Told;
pub(super) use held::{StoredRow, ValuesQuestion};

/// Minimum time between two frames of a table: figures that change faster cannot be read.
const INTERVAL: Duration = Duration::from_millis(100);
/// Samples that are looked at first for the one before a time.
const FIRST_LOOK: u64 = 16;
/// Each further look goes back so many times as far.
const FURTHER: u64 = 16;

/// A table as requested by a page.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct ValuesRequest {
    pub(crate) view: u32,
    pub(crate) traces: Vec<TraceRequest>,
    end_ns: Option<i64>,
}

impl ValuesRequest {
    /// Checks the preconditions of a frame; returns the remedy otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.traces.len() > MAX_TRACES {
            return Err(format!("a table has at most {MAX_TRACES} channels, not {}", self.traces.len()));
        }
        Ok(())
    }
}

/// A table, and its state for one viewer.
#[derive(Debug)]
pub(super) struct TableView {
    pub(super) request: ValuesRequest,
    pub(super) delivery: Delivery,
    /// Of each channel.
    rows: Vec<Row>,
    /// True once a frame with every row was sent.
    is_sent: bool,
}

/// A channel of a table.
#[derive(Default, Debug)]
struct Row {
    /// What `live` was read from, if it was: changes of the stream, and its state, or none of a stream that is not known.
    seen: Option<Option<(u64, TraceState)>>,
    live: Live,
    stored: Told,
    /// True if `live` or `stored` has changed since the row was written.
    is_new: bool,
    /// The row as it was sent last.
    sent: Vec<u8>,
}

impl Viewer {
    /// Shows a table in a view from now on.
    ///
    /// # Errors
    /// Message for the user if the request is invalid.
    pub(super) fn table(&mut self, request: ValuesRequest) -> Result<(), String> {
        request.check()?;
        self.check_room(request.view)?;
        let number = request.view;
        let mut before = self.views.remove(&number);
        let mut rows: Vec<Row> = request.traces.iter().map(|_| Row::default()).collect();
        if let Some(View::Table(before)) = &mut before {
            before.give_answers_to(&request, &mut rows);
        }
        let delivery = View::into_delivery(before);
        self.views.insert(number, View::Table(TableView { request, delivery, rows, is_sent: false }));
        Ok(())
    }

    /// Makes the next frame of a table, if one is due.
    pub(super) fn table_frame(&mut self, number: u32, scenery: Scenery<'_>) -> Option<Vec<u8>> {
        let now = scenery.now.steady;
        let Some(View::Table(view)) = self.views.get_mut(&number) else { return None };
        view.delivery.next_at = Some(now + INTERVAL);
        if view.delivery.under_way >= MAX_UNDER_WAY || self.allowance.is_spent(now) {
            // Nothing is dropped: the next frame has the newest values of that time.
            return None;
        }
        let whole = !std::mem::replace(&mut view.is_sent, true);
        let rows = view.changed(scenery);
        if rows.is_empty() && !whole {
            return None;
        }
        let frame = ValuesFrame {
            frame: self.next_frame,
            view: number,
            live: view.request.end_ns.is_none(),
            whole,
            now: scenery.now.wall,
            dropped_frames: self.dropped,
            rows,
        };
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).expect("a row has few values, a table few rows");
        view.delivery.sent(now);
        view.delivery.next_at = Some(now + INTERVAL);
        self.sent(number, true, &bytes, scenery);
        Some(bytes)
    }
}

impl TableView {
    /// Returns the rows that are not those sent last, and records them as sent.
    ///
    /// Cost: for a stream without changes a look at its counter and its state.
    fn changed(&mut self, scenery: Scenery<'_>) -> Vec<ValueRow> {
        let end = self.end();
        let mut changed = Vec::new();
        for (index, (trace, row)) in (0..).zip(self.request.traces.iter().zip(&mut self.rows)) {
            row.look(trace, end, scenery);
            if !std::mem::take(&mut row.is_new) {
                continue;
            }
            let now = row.shown(index);
            let mut bytes = Vec::new();
            now.encode(&mut bytes).expect("a row has few values");
            if bytes != row.sent {
                row.sent = bytes;
                changed.push(now);
            }
        }
        changed
    }

    fn end(&self) -> Option<WallTime> {
        self.request.end_ns.map(WallTime::from_nanos)
    }
}

impl Row {
    /// Reads live memory if that has changed.
    fn look(&mut self, trace: &TraceRequest, end: Option<WallTime>, scenery: Scenery<'_>) {
        // The counter first: what changes behind it makes another look.
        let slot = scenery.history.stream(&trace.stream).map(|slot| (slot.changes(), slot));
        let seen = self.seen;
        let look = slot.as_ref().map(|(changes, slot)| {
            let mut memory = slot.memory();
            memory.newest_sample.ask(scenery.now);
            let now = Some((*changes, state_of(memory.health(scenery.now))));
            let look = (seen != Some(now)).then(|| Look::at(&mut memory, &trace.channel, end, scenery.now));
            (now, look)
        });
        let (now, look) = look.unwrap_or((None, (seen != Some(None)).then_some(None)));
        let Some(look) = look else { return };
        self.seen = Some(now);
        // What is long is done without the lock.
        self.live = match (look, now) {
            (Some(look), Some((_, state))) => look.into_live(state),
            _ => Live::default(),
        };
        self.is_new = true;
    }
}

/// What a row shows of live memory.
#[derive(Debug)]
struct Live {
    state: TraceState,
    sample: Result<ValueSample, NoSample>,
    /// An older sample than of this time is not the newest one.
    from: Option<WallTime>,
    /// True if the sample is as it was published.
    is_whole: bool,
}

impl Default for Live {
    fn default() -> Self {
        Self { state: TraceState::Unknown, sample: Err(NoSample::NotKept), from: None, is_whole: false }
    }
}

/// What is read of a channel under the stream's lock.
enum Look {
    /// Nothing is kept.
    Nothing(NoSample),
    /// A whole sample, and the elements of the channel.
    Whole(NewestSample, Arc<Schema>, usize, Range<usize>),
    /// The first element of an older sample, by its magnitude.
    Kept { time: WallTime, half_period_ns: i64, value: f64, elements: u32, is_whole: bool },
    /// Extremes of older samples.
    Span { times: Range<WallTime>, range: [f64; 2], elements: u32 },
}

impl Look {
    /// Looks at a channel; `None` if the stream has none of this name.
    fn at(memory: &mut StreamMemory, name: &str, end: Option<WallTime>, now: Moment) -> Option<Self> {
        let schema = Arc::clone(&memory.info.schema);
        let (channel, elements) = channel_of(&schema, name)?;
        let element = elements.start;
        let count = u32::try_from(elements.len()).unwrap_or(u32::MAX);
        let newest = memory.newest_sample.ask(now).filter(|newest| end.is_none_or(|end| newest.time <= end));
        if let Some(newest) = newest {
            return Some(Self::Whole(newest.clone(), schema, channel, elements));
        }
        let Some(end) = end else { return Some(Self::Nothing(NoSample::NotKept)) };
        memory.remember(element);
        let period_ns = i64::try_from(schema.rate.duration_of(1).as_nanos()).unwrap_or(i64::MAX);
        let before = memory.envelope(element).and_then(|envelope| before(envelope, end, period_ns.max(1)));
        let is_whole = count == 1 && matches!(schema.dtype, Dtype::F4 | Dtype::F8);
        Some(match before {
            Some(Before::Sample(time, value)) => {
                let half_period_ns = period_ns / 2;
                Self::Kept { time, half_period_ns, value, elements: count, is_whole }
            }
            Some(Before::Span(times, range)) => Self::Span { times, range, elements: count },
            None => Self::Nothing(reason_at(end, memory.gaps.within(&(end..end.offset(1))).map(Arc::as_ref))),
        })
    }

    fn into_live(self, state: TraceState) -> Live {
        let (from, is_whole) = match &self {
            Self::Nothing(_) => (None, false),
            Self::Whole(sample, ..) => (Some(sample.time), true),
            // Live memory may round a time otherwise than the archive.
            Self::Kept { time, half_period_ns, is_whole, .. } => {
                (Some(time.offset(-half_period_ns)), *is_whole)
            }
            Self::Span { times, .. } => (Some(times.start), false),
        };
        let of_first = |time, elements, range, values| {
            Ok(ValueSample { time, elements, lost_elements: 0, lost_values: 0, range, values })
        };
        let sample = match self {
            Self::Nothing(reason) => Err(reason),
            Self::Whole(sample, schema, channel, elements) => Ok(whole(&sample, &schema, channel, elements)),
            Self::Kept { time, value, elements, .. } => {
                of_first(time, elements, [value; 2], Values::Double(vec![value]))
            }
            Self::Span { times, range, elements } => of_first(times.end, elements, range, Values::Span),
        };
        Live { state, sample, from, is_whole }
    }
}

/// Returns why there is no sample at or before a time, from the gaps at that time.
fn reason_at<'a>(time: WallTime, gaps: impl IntoIterator<Item = &'a KnownGap>) -> NoSample {
    let covers = |gap: &KnownGap| !gap.is_absence() && gap.from <= time && gap.to > time;
    if gaps.into_iter().any(covers) { NoSample::Lost } else { NoSample::NotKept }
}

/// What is kept of the time before another one.
enum Before {
    Sample(WallTime, f64),
    Span(Range<WallTime>, [f64; 2]),
}

/// Returns the newest sample at or before `end`, or of the shortest time before it of which there are samples their extremes.
fn before(envelope: &Envelope, end: WallTime, period_ns: i64) -> Option<Before> {
    let behind = end.offset(1);
    let mut look_ns = period_ns.saturating_mul(FIRST_LOOK as i64);
    loop {
        let from = WallTime::from_nanos(behind.as_nanos().saturating_sub(look_ns));
        if let Some(kept) = envelope.kept(from, behind).last() {
            return Some(Before::Sample(kept.time, kept.value));
        }
        let column_ns = look_ns.unsigned_abs();
        let [column] = &envelope.columns(&ColumnGrid { from, column_ns, count: 1 })[..] else { return None };
        if column.present > 0 {
            return Some(Before::Span(from..end, [column.min, column.max]));
        }
        if envelope.memory_from().is_none_or(|oldest| from <= oldest) {
            return None;
        }
        look_ns = look_ns.saturating_mul(FURTHER as i64);
    }
}

/// Returns the channel that a name denotes, and its elements in a sample: one of many if the name has brackets.
fn channel_of(schema: &Schema, name: &str) -> Option<(usize, Range<usize>)> {
    let element = element_of(schema, name)?;
    let channel = (0..schema.channels.len()).find(|at| schema.channel_elements(*at).contains(&element))?;
    let all = schema.channel_elements(channel);
    Some((channel, if schema.channels[channel].name == name { all } else { element..element + 1 }))
}

/// Returns the values of a channel, or of some of its elements, in a whole sample.
///
/// Cost: one pass over the elements, without a lock.
fn whole(sample: &NewestSample, schema: &Schema, channel: usize, elements: Range<usize>) -> ValueSample {
    let (dtype, size) = (schema.dtype, schema.dtype.size_bytes());
    let (scale, offset) = (schema.channels[channel].scale, schema.channels[channel].offset);
    let is_missing = |element: usize| sample.missing.iter().any(|hole| hole.contains(&element));
    let bytes_of = |element: usize| &sample.bytes[element * size..(element + 1) * size];
    let mut range = [f64::NAN; 2];
    for element in elements.clone().filter(|element| !is_missing(*element)) {
        let value = dtype.to_f64(bytes_of(element)).mul_add(scale, offset);
        range = [range[0].min(value), range[1].max(value)];
    }
    let first = elements.start..elements.end.min(elements.start + MAX_ROW_VALUES);
    let lost = first.clone().enumerate().filter(|(_, element)| is_missing(*element));
    let is_plain = scale == 1.0 && offset == 0.0;
    let raw = || first.clone().map(bytes_of);
    let values = match dtype {
        Dtype::Bool => Values::Bool(raw().map(|byte| byte[0] != 0).collect()),
        Dtype::C8 | Dtype::C16 => {
            let part = if dtype == Dtype::C8 { Dtype::F4 } else { Dtype::F8 };
            let scaled = |bytes: &[u8]| part.to_f64(bytes).mul_add(scale, offset);
            let complex = |bytes: &[u8]| [scaled(&bytes[..size / 2]), scaled(&bytes[size / 2..])];
            Values::Complex(raw().map(complex).collect())
        }
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 if is_plain => Values::Signed(
            raw().map(|bytes| i64::from_le_bytes(widened(bytes, bytes[size - 1] >> 7))).collect(),
        ),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 if is_plain => {
            Values::Unsigned(raw().map(|bytes| u64::from_le_bytes(widened(bytes, 0))).collect())
        }
        _ => Values::Double(raw().map(|bytes| dtype.to_f64(bytes).mul_add(scale, offset)).collect()),
    };
    let within =
        |hole: &Range<usize>| hole.end.min(elements.end).saturating_sub(hole.start.max(elements.start));
    ValueSample {
        time: sample.time,
        elements: u32::try_from(elements.len()).unwrap_or(u32::MAX),
        lost_elements: u32::try_from(sample.missing.iter().map(within).sum::<usize>()).unwrap_or(u32::MAX),
        lost_values: lost.map(|(place, _)| 1 << place).sum(),
        range,
        values,
    }
}

/// Returns an integer of at most eight bytes as one of eight, filled up with its sign.
fn widened(bytes: &[u8], sign: u8) -> [u8; 8] {
    let mut wide = [if sign == 1 { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    wide
}

#[cfg(test)]
mod tests;
