//! Every sample of a span: from the store, and behind it from live memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use sample::{Block, ElementReader, Kept, Schema};
use units::{Epoch, WallTime};

use super::table::{Cells, Column, EpochStart, Table};
use super::{ExportRequest, MAX_VALUES, facts};
use crate::gap_map::KnownGap;
use crate::memory::{StreamMemory, element_of, unit_of};
use crate::range;
use crate::refused::Refused;
use crate::shared::Shared;
use crate::stored::StoredSamples;

/// Epoch and index of a sample; `None` in an epoch that live memory no longer has.
type Place = Option<(Epoch, u64)>;

/// Reads the samples of a request.
pub(super) fn samples(shared: &Shared, request: &ExportRequest) -> Result<Table, Refused> {
    let slot = shared.history.stream(&request.stream);
    // First, since a recorder passes on meanwhile what live memory forgets.
    let live = slot.map(|slot| Live::of(&mut slot.memory(), request)).transpose()?;
    let mut rows = Rows::new(request);
    let until = live.as_ref().map_or(request.to, |live| live.single_from.min(request.to));
    let mut is_known = live.is_some();
    if let Some(store) = shared.store.as_ref().filter(|_| request.from < until) {
        let no_stream = |_| Refused::no_stream(&request.stream);
        let stream = request.stream.parse().map_err(no_stream)?;
        let limit = MAX_VALUES / request.channels.len() as u64;
        let asked = StoredSamples { stream: &stream, range: request.from..until, limit };
        let read = store.samples(&asked, &mut |block| rows.block(block));
        is_known |= read.map_err(|failure| Refused::store(&failure))?;
    }
    if !is_known {
        return Err(Refused::no_stream(&request.stream));
    }
    let gaps = range::gaps(shared, &request.stream, request.from..request.to)?;
    if let Some(live) = &live {
        live.check(request, rows.last(), &gaps)?;
        rows.live(live);
    }
    rows.table(request, gaps, live.as_ref())
}

/// Samples that live memory keeps one by one.
pub(super) struct Live {
    schema: Arc<Schema>,
    epoch: Epoch,
    /// Of each channel.
    kept: Vec<Vec<Kept>>,
    /// Time from which it has anything, extremes at least.
    memory_from: Option<WallTime>,
    /// Time from which it has every sample of every channel.
    pub(super) single_from: WallTime,
}

impl Live {
    pub(super) fn of(memory: &mut StreamMemory, request: &ExportRequest) -> Result<Self, Refused> {
        let schema = Arc::clone(&memory.info.schema);
        let (epoch, memory_from) = (memory.info.epoch, memory.gaps_since());
        let mut live = Self { schema, epoch, kept: Vec::new(), memory_from, single_from: request.from };
        for channel in &request.channels {
            let no_channel = || Refused::no_channel(&request.stream, channel);
            let element = element_of(&live.schema, channel).ok_or_else(no_channel)?;
            memory.remember(element);
            let envelope = memory.envelope(element);
            let single_from = envelope.and_then(sample::Envelope::points_from).unwrap_or(request.to);
            live.single_from = live.single_from.max(single_from);
            live.kept.push(envelope.map_or_else(Vec::new, |it| it.kept(request.from, request.to)));
        }
        Ok(live)
    }

    /// Refuses a time of which only extremes are left, or nothing yet: behind the newest stored sample of this epoch and
    /// the holes after it, and before the samples that live memory keeps.
    pub(super) fn check(
        &self,
        request: &ExportRequest,
        stored: Option<(WallTime, Option<Epoch>)>,
        gaps: &[Arc<KnownGap>],
    ) -> Result<(), Refused> {
        let Some(memory_from) = self.memory_from else { return Ok(()) };
        let period = i64::try_from(self.schema.rate.duration_of(1).as_nanos()).unwrap_or(i64::MAX);
        let stored = stored.filter(|(_, epoch)| *epoch == Some(self.epoch));
        let mut reached =
            stored.map_or_else(|| request.from.max(memory_from), |(time, _)| time.offset(period));
        for gap in gaps {
            if gap.from <= reached.offset(period) {
                reached = reached.max(gap.to);
            }
        }
        let needed = self.single_from.min(request.to);
        // Times are rounded to nanoseconds.
        if reached.offset(period / 2 + 1) < needed { Err(Refused::not_kept(reached, needed)) } else { Ok(()) }
    }
}

/// Rows gathered in the order of time.
struct Rows {
    channels: Vec<String>,
    schema: Option<Arc<Schema>>,
    times: Vec<WallTime>,
    indices: Vec<Option<u64>>,
    /// Of each channel.
    values: Vec<Vec<Option<f64>>>,
    epochs: Vec<EpochStart>,
    range: core::ops::Range<WallTime>,
}

impl Rows {
    fn new(request: &ExportRequest) -> Self {
        Self {
            channels: request.channels.clone(),
            schema: None,
            times: Vec::new(),
            indices: Vec::new(),
            values: vec![Vec::new(); request.channels.len()],
            epochs: Vec::new(),
            range: request.from..request.to,
        }
    }

    /// Returns time and epoch of the last row.
    fn last(&self) -> Option<(WallTime, Option<Epoch>)> {
        Some((*self.times.last()?, self.epochs.last()?.epoch))
    }

    /// Adds a sample of which at least one value arrived. Two recordings may have the same time: the first counts.
    fn push(&mut self, place: Place, time: WallTime, values: impl Iterator<Item = Option<f64>>) {
        if !self.range.contains(&time) || self.times.last().is_some_and(|last| time <= *last) {
            return;
        }
        let epoch = place.map(|(epoch, _)| epoch);
        if self.epochs.last().is_none_or(|last| last.epoch != epoch) {
            self.epochs.push(EpochStart { row: self.times.len(), epoch });
        }
        self.times.push(time);
        self.indices.push(place.map(|(_, index)| index));
        self.values.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }

    fn block(&mut self, block: &Block) {
        self.schema = Some(Arc::clone(&block.schema));
        let read = |channel: &String| {
            let reader = ElementReader::new(&block.schema, element_of(&block.schema, channel)?)?;
            let mut values = Vec::new();
            reader.read(block, &mut values);
            let mut arrived = vec![None; values.len()];
            for run in reader.present(block) {
                run.for_each(|sample| arrived[sample] = Some(values[sample]));
            }
            Some(arrived)
        };
        let columns: Vec<_> = self.channels.iter().map(read).collect();
        for sample in 0..usize::try_from(block.samples).expect("a block lies in memory") {
            let value = |column: &Option<Vec<Option<f64>>>| column.as_ref().and_then(|it| it[sample]);
            if columns.iter().any(|column| value(column).is_some()) {
                let index = block.first_index + sample as u64;
                self.push(Some((block.epoch, index)), block.time_of(index), columns.iter().map(value));
            }
        }
    }

    fn live(&mut self, live: &Live) {
        self.schema = Some(Arc::clone(&live.schema));
        let mut rows: BTreeMap<WallTime, (Place, Vec<Option<f64>>)> = BTreeMap::new();
        for (channel, kept) in live.kept.iter().enumerate() {
            for sample in kept.iter().filter(|sample| sample.time >= live.single_from) {
                let empty = || (sample.place, vec![None; self.channels.len()]);
                rows.entry(sample.time).or_insert_with(empty).1[channel] = Some(sample.value);
            }
        }
        for (time, (place, values)) in rows {
            self.push(place, time, values.into_iter());
        }
    }

    fn table(
        self,
        request: &ExportRequest,
        gaps: Vec<Arc<KnownGap>>,
        live: Option<&Live>,
    ) -> Result<Table, Refused> {
        let values = self.times.len() as u64 * self.channels.len() as u64;
        if values > MAX_VALUES {
            return Err(Refused::too_many_values(values, MAX_VALUES));
        }
        let mut facts = facts(request, "every sample, in the channel's unit");
        if let Some(schema) = &self.schema {
            facts.push(("rate_hz", schema.rate.to_string()));
        }
        if let Some(from) = live.and_then(|live| live.memory_from).filter(|from| *from > request.from)
            && self.times.first().is_none_or(|first| *first >= from)
        {
            facts.push(("not_known_before_ns", from.as_nanos().to_string()));
        }
        let mut columns = vec![
            Column::new("index", "", Cells::Counts(self.indices)),
            Column::new("time_ns", "ns", Cells::Times(self.times)),
        ];
        for (channel, values) in self.channels.iter().zip(self.values) {
            let unit =
                self.schema.as_ref().and_then(|schema| Some(unit_of(schema, element_of(schema, channel)?)));
            let unit = match (&self.schema, unit) {
                (Some(_), None) => return Err(Refused::no_channel(&request.stream, channel)),
                (_, unit) => unit.unwrap_or_default(),
            };
            columns.push(Column::new(channel, unit, Cells::Values(values)));
        }
        Ok(Table { facts, columns, gaps, epochs: self.epochs })
    }
}
