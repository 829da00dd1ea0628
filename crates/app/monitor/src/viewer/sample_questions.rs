//! Questions to the store for whole samples: the newest one of a picture, those of a table, and the columns of a
//! waterfall behind live memory.

use std::ops::Range;
use std::sync::Arc;

use sample::{BinReader, Block, Plane, StreamName, Waterfall, WaterfallConfig};
use units::WallTime;

use super::pictures::{PictureView, Source, StoredSample};
use super::values::{StoredRow, TableView, ValuesQuestion};
use super::waterfalls::{FallSeries, FallStore, FallStretch, WaterfallView};
use super::{Scenery, View, Viewer};
use crate::memory::pictures::WholeSample;
use crate::stored::{HistoryStore, StoreFailure, StoredSamples};

/// The most elements read for one waterfall: a second or two of work.
const MAX_ELEMENTS: u64 = 50_000_000;
/// The same in samples, of a stream whose shape is not known.
const MAX_SAMPLES: u64 = 200_000;

/// A question to the store, to be answered with [`Viewer::took_samples`].
#[derive(Debug)]
pub(crate) struct SampleQuestion {
    view: u32,
    stream: String,
    about: About,
}

#[derive(Debug)]
enum About {
    /// The newest sample of a channel up to a time.
    Newest { channel: String, end: WallTime },
    /// The newest samples of rows of a table.
    Values(ValuesQuestion),
    /// Columns of a matrix.
    Columns(ColumnsQuestion),
}

#[derive(Debug)]
struct ColumnsQuestion {
    channel: String,
    plane: Vec<u32>,
    stretch: FallStretch,
    asked: WallTime,
    limit: u64,
    series: Arc<FallSeries>,
    answers: u64,
}

/// Answer of the store.
pub(crate) struct SampleAnswer {
    question: SampleQuestion,
    found: Found,
    /// Reason why there is no answer.
    pub(crate) failure: Option<StoreFailure>,
}

enum Found {
    Nothing,
    Sample(StoredSample),
    Values(Vec<StoredRow>),
    Columns(FallStore),
}

impl SampleQuestion {
    /// Asks the store; an invalid name is not stored. May take long.
    pub(crate) fn answer(self, store: &dyn HistoryStore) -> SampleAnswer {
        let found = match self.stream.parse() {
            Ok(stream) => self.find(store, &stream),
            Err(_) => Ok(Found::Nothing),
        };
        match found {
            Ok(found) => SampleAnswer { question: self, found, failure: None },
            Err(failure) => SampleAnswer { question: self, found: Found::Nothing, failure: Some(failure) },
        }
    }

    fn find(&self, store: &dyn HistoryStore, stream: &StreamName) -> Result<Found, StoreFailure> {
        match &self.about {
            About::Newest { channel, end } => {
                let newest = store.newest(stream, channel, *end)?;
                let sample = newest.as_ref().and_then(|block| StoredSample::of(block, channel));
                Ok(sample.map_or(Found::Nothing, Found::Sample))
            }
            About::Values(question) => Ok(Found::Values(question.answer(store, stream)?)),
            // Answered meanwhile, to another viewer.
            About::Columns(of) if of.series.stored().0 != of.answers => Ok(Found::Nothing),
            About::Columns(of) => Ok(Found::Columns(of.answer(store, stream)?)),
        }
    }
}

impl StoredSample {
    /// Copies a channel of the last sample of a block.
    fn of(block: &Block, channel: &str) -> Option<Self> {
        let channel = block.schema.channel_index(channel)?;
        let sample = WholeSample::of(block, block.samples - 1, channel);
        Some(Self { sample, source: Source { schema: Arc::clone(&block.schema), channel } })
    }
}

impl ColumnsQuestion {
    fn answer(&self, store: &dyn HistoryStore, stream: &StreamName) -> Result<FallStore, StoreFailure> {
        let FallStretch { grid, .. } = &self.stretch;
        let range = grid.edge(grid.numbers.start)..self.stretch.end();
        let asked_for = StoredSamples { stream, range, limit: self.limit };
        let columns = self.columns(store, &asked_for)?;
        let (reader, columns) = columns.map_or((None, Vec::new()), |(of, plane)| {
            (Some((*of.reader(), plane)), of.columns(grid.width_ns, grid.numbers.clone(), 1))
        });
        Ok(FallStore { stretch: self.stretch.clone(), asked: self.asked, reader, columns })
    }

    fn columns(
        &self,
        store: &dyn HistoryStore,
        asked: &StoredSamples<'_>,
    ) -> Result<Option<(Waterfall, Plane)>, StoreFailure> {
        let FallStretch { grid, border } = &self.stretch;
        let mut found: Option<(Arc<sample::Schema>, Waterfall, Plane)> = None;
        let mut take = |block: &Block| {
            // Of recordings with other shapes, the last ones are shown.
            if found.as_ref().is_none_or(|(schema, ..)| **schema != *block.schema) {
                let Some(channel) = block.schema.channel_index(&self.channel) else { return };
                let plane = Plane::at(&block.schema.channels[channel], &self.plane);
                let bins = WaterfallConfig::default().bins;
                let reader = BinReader::new(&block.schema, channel, plane.number, bins);
                let columns: Range<i64> = grid.numbers.clone();
                let waterfall = Waterfall::of_stretch(&block.schema, reader, grid.width_ns, columns);
                found = Some((Arc::clone(&block.schema), waterfall.up_to(*border), plane));
            }
            if let Some((_, waterfall, _)) = &mut found {
                waterfall.push(block);
            }
        };
        store.samples(asked, &mut take)?;
        Ok(found.map(|(_, mut waterfall, plane)| {
            waterfall.finish();
            (waterfall, plane)
        }))
    }
}

impl Viewer {
    /// Returns what the store is to be asked for whole samples.
    pub(crate) fn sample_questions(&mut self, scenery: Scenery<'_>) -> Vec<SampleQuestion> {
        let now = scenery.now.steady;
        let mut questions = Vec::new();
        if !self.visible {
            return questions;
        }
        for (number, view) in self.views.iter_mut().filter(|(_, view)| view.delivery().may_ask(now)) {
            let asked = match view {
                View::Picture(view) => view.question(scenery).into_iter().collect(),
                View::Waterfall(view) => view.question(scenery).into_iter().collect(),
                View::Table(view) => view.questions(scenery),
                View::Traces(_) => Vec::new(),
            };
            if asked.is_empty() {
                continue;
            }
            let question = |(stream, about)| SampleQuestion { view: *number, stream, about };
            questions.extend(asked.into_iter().map(question));
            let delivery = view.delivery_mut();
            (delivery.asking, delivery.asked_at) = (true, Some(now));
        }
        questions
    }

    /// Applies answers of the store.
    pub(crate) fn took_samples(&mut self, answers: Vec<SampleAnswer>) {
        for SampleAnswer { question: SampleQuestion { view, stream, about }, found, failure } in answers {
            match (about, self.views.get_mut(&view)) {
                (About::Newest { channel, end }, Some(View::Picture(view))) => {
                    view.delivery.asking = false;
                    if view.request.names() == (stream, channel) {
                        let sample = match found {
                            Found::Sample(sample) => Some(sample),
                            Found::Nothing | Found::Values(_) | Found::Columns(_) => None,
                        };
                        view.answered(end, sample);
                    }
                }
                (About::Values(question), Some(View::Table(view))) => {
                    let rows = match found {
                        Found::Values(rows) => rows,
                        Found::Nothing | Found::Sample(_) | Found::Columns(_) => question.unanswered(failure),
                    };
                    view.answered(&stream, &question, rows);
                }
                (About::Columns(question), view) => {
                    let ColumnsQuestion { channel, plane, stretch, asked, series, .. } = question;
                    // One that could not be read is not asked for again and again.
                    let none =
                        failure.map(|_| FallStore { stretch, asked, reader: None, columns: Vec::new() });
                    let stored = match found {
                        Found::Columns(stored) => Some(stored),
                        Found::Nothing | Found::Sample(_) | Found::Values(_) => none,
                    };
                    let stored = stored.map(Arc::new);
                    if let Some(stored) = &stored {
                        series.answered(Arc::clone(stored));
                    }
                    let Some(View::Waterfall(view)) = view else { continue };
                    view.delivery.asking = false;
                    // The page may show another window by now, of which the answer has a part.
                    let is_of_it = view.request.stream == stream
                        && view.request.channel == channel
                        && view.request.plane == plane
                        && !Arc::ptr_eq(&view.series, &series);
                    if let Some(stored) = stored.filter(|_| is_of_it) {
                        view.series.take_over_answer(stored);
                    }
                }
                // The page shows something else there by now.
                (About::Newest { .. } | About::Values(_), Some(view)) => view.delivery_mut().asking = false,
                (About::Newest { .. } | About::Values(_), None) => {}
            }
        }
    }
}

impl PictureView {
    fn question(&self, scenery: Scenery<'_>) -> Option<(String, About)> {
        let end = self.needs_store(scenery)?;
        let (stream, channel) = self.request.names();
        Some((stream, About::Newest { channel, end }))
    }
}

impl WaterfallView {
    fn question(&self, scenery: Scenery<'_>) -> Option<(String, About)> {
        let stretch = self.needs_store(scenery)?;
        let slot = scenery.history.stream(&self.request.stream);
        let of = |elements: u32| MAX_ELEMENTS / u64::from(elements.max(1));
        let limit = slot.map_or(MAX_SAMPLES, |it| of(it.memory().info.schema.elements_per_sample()));
        let question = ColumnsQuestion {
            channel: self.request.channel.clone(),
            plane: self.request.plane.clone(),
            stretch,
            asked: scenery.now.wall,
            limit,
            series: Arc::clone(&self.series),
            answers: self.series.stored().0,
        };
        Some((self.request.stream.clone(), About::Columns(question)))
    }
}

impl TableView {
    fn questions(&mut self, scenery: Scenery<'_>) -> Vec<(String, About)> {
        let questions = self.ask_store(scenery).into_iter();
        questions.map(|(stream, question)| (stream, About::Values(question))).collect()
    }
}
