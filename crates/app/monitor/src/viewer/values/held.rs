//! Tables of the past: what live memory has not kept whole is asked of the store, without waiting for it.
//!
//! The store is asked once for each row, and once more when a recorder must have written what was recorded up to the
//! time of the table. Start with [`ValuesQuestion`].

use std::collections::BTreeMap;

use sample::{Block, StreamName};
use units::WallTime;
use wire::{NoSample, TraceState, ValueRow, ValueSample};

use super::{Row, TableView, ValuesRequest, channel_of, reason_at, whole};
use crate::memory::newest::NewestSample;
use crate::stored::{HistoryStore, StoreFailure};
use crate::view::TraceRequest;
use crate::viewer::Scenery;
use crate::viewer::trace::ACKNOWLEDGED_NS;

/// What the store told of a row.
#[derive(Clone, Default, Debug)]
pub(super) enum Told {
    #[default]
    Unasked,
    Asked,
    /// Its newest sample up to the time of the table, and when it was asked.
    Answered {
        asked: WallTime,
        sample: Result<ValueSample, NoSample>,
    },
}

/// A question for the samples of one stream at or before a time.
#[derive(Debug)]
pub(crate) struct ValuesQuestion {
    end: WallTime,
    asked: WallTime,
    /// Channels by their rows.
    channels: Vec<(usize, String)>,
}

/// The store's answer for a row: its channel, and the sample or why there is none.
pub(crate) type StoredRow = (usize, String, Result<ValueSample, NoSample>);

impl ValuesQuestion {
    /// Asks the store. May take long.
    ///
    /// Cost: one read for each schema of the stream.
    pub(crate) fn answer(
        &self,
        store: &dyn HistoryStore,
        stream: &StreamName,
    ) -> Result<Vec<StoredRow>, StoreFailure> {
        let mut newest: Option<Block> = None;
        let row = |(row, channel): &(usize, String)| {
            let has_channel = |block: &Block| channel_of(&block.schema, channel).is_some();
            if !newest.as_ref().is_some_and(has_channel) {
                newest = store.newest(stream, channel, self.end)?;
            }
            let sample = newest.as_ref().and_then(|block| {
                let (place, elements) = channel_of(&block.schema, channel)?;
                Some(whole(&NewestSample::of(block), &block.schema, place, elements))
            });
            let sample = match sample {
                Some(sample) => Ok(sample),
                None => Err(self.reason(store, stream)?),
            };
            Ok((*row, channel.clone(), sample))
        };
        self.channels.iter().map(row).collect()
    }

    /// Returns the rows of a question without an answer: the store failed, or has no stream of such a name.
    pub(crate) fn unanswered(&self, failure: Option<StoreFailure>) -> Vec<StoredRow> {
        let reason = failure.map_or(NoSample::NotRecorded, |_| NoSample::Unreadable);
        self.channels.iter().map(|(row, channel)| (*row, channel.clone(), Err(reason))).collect()
    }

    fn reason(&self, store: &dyn HistoryStore, stream: &StreamName) -> Result<NoSample, StoreFailure> {
        let gaps = store.gaps(stream, self.end..self.end.offset(1))?.unwrap_or_default();
        Ok(match reason_at(self.end, &gaps) {
            NoSample::Lost => NoSample::Lost,
            _ => NoSample::NotRecorded,
        })
    }
}

impl TableView {
    /// Returns what the store is to be asked, by stream.
    pub(crate) fn ask_store(&mut self, scenery: Scenery<'_>) -> Vec<(String, ValuesQuestion)> {
        let Some(end) = self.end() else { return Vec::new() };
        let asked = scenery.now.wall;
        let mut questions = BTreeMap::new();
        for (index, (trace, row)) in self.request.traces.iter().zip(&mut self.rows).enumerate() {
            if row.seen.is_none() {
                row.look(trace, Some(end), scenery);
            }
            if row.live.is_whole || !row.stored.is_due(end, asked) {
                continue;
            }
            if matches!(row.stored, Told::Unasked) {
                (row.stored, row.is_new) = (Told::Asked, true);
            }
            let question = ValuesQuestion { end, asked, channels: Vec::new() };
            let question: &mut ValuesQuestion = questions.entry(trace.stream.clone()).or_insert(question);
            question.channels.push((index, trace.channel.clone()));
        }
        questions.into_iter().collect()
    }

    /// Takes the store's answer for rows of a stream, unless the page shows others by now.
    pub(crate) fn answered(&mut self, stream: &str, question: &ValuesQuestion, rows: Vec<StoredRow>) {
        self.delivery.asking = false;
        if self.end() != Some(question.end) {
            return;
        }
        for (index, channel, sample) in rows {
            let is_same = |trace: &TraceRequest| trace.stream == stream && trace.channel == channel;
            if self.request.traces.get(index).is_some_and(is_same) {
                let row = &mut self.rows[index];
                (row.stored, row.is_new) = (Told::Answered { asked: question.asked, sample }, true);
            }
        }
    }

    /// Leaves the answers of the store to the rows of the table in its place, if that is of the same time.
    pub(super) fn give_answers_to(&mut self, request: &ValuesRequest, rows: &mut [Row]) {
        if self.request.end_ns != request.end_ns {
            return;
        }
        for (trace, row) in request.traces.iter().zip(rows) {
            let same = self.request.traces.iter().position(|own| own == trace);
            if let Some(told @ Told::Answered { .. }) = same.map(|place| &self.rows[place].stored) {
                row.stored = told.clone();
            }
        }
    }
}

impl Told {
    /// Returns whether the store is to be asked about a time: a recorder may not have written everything up to then when
    /// it was asked before.
    fn is_due(&self, end: WallTime, now: WallTime) -> bool {
        match self {
            Self::Unasked => true,
            Self::Asked => false,
            Self::Answered { asked, .. } => {
                asked.nanos_since(end) < ACKNOWLEDGED_NS && now.nanos_since(*asked) >= ACKNOWLEDGED_NS
            }
        }
    }
}

impl Row {
    /// Returns the row as it is now: a sample of the store, unless live memory has it whole or has a newer one.
    pub(super) fn shown(&self, index: u16) -> ValueRow {
        let live = &self.live;
        let (mut state, mut sample) = (live.state, live.sample.clone());
        match &self.stored {
            _ if live.is_whole => {}
            Told::Answered { sample: Ok(stored), .. } if live.from.is_none_or(|from| stored.time >= from) => {
                sample = Ok(stored.clone());
                if state == TraceState::Unknown {
                    // The publisher is gone, its recording is not.
                    state = TraceState::Ended;
                }
            }
            Told::Answered { sample: Err(reason), .. } => sample = sample.or(Err(*reason)),
            Told::Asked => sample = sample.or(Err(NoSample::Asked)),
            Told::Answered { .. } | Told::Unasked => {}
        }
        if let (Err(NoSample::NotRecorded), Err(NoSample::Lost)) = (&sample, &live.sample) {
            sample = Err(NoSample::Lost);
        }
        ValueRow { index, state, sample }
    }
}
