//! Questions to the store for whole samples: the newest one of a picture, and the columns of a waterfall behind live
//! memory.

use std::ops::Range;
use std::sync::Arc;

use sample::{BinReader, Block, Plane, StreamName, Waterfall, WaterfallConfig};
use units::WallTime;

use super::pictures::{PictureView, Source, StoredSample};
use super::waterfalls::{FallGrid, FallSeries, FallStore, WaterfallView};
use super::{Scenery, View, Viewer};
use crate::memory::pictures::WholeSample;
use crate::stored::{HistoryStore, StoreFailure, StoredSamples};

/// The most elements read for one waterfall: a second or two of work.
const MAX_ELEMENTS: u64 = 50_000_000;
/// The same in samples, of a stream whose shape is not known.
const MAX_SAMPLES: u64 = 200_000;
/// The newest sample is looked for in these times before the window's end, one after the other.
const LOOKED_BACK_S: [i64; 4] = [1, 60, 3_600, 86_400];
/// The most samples read to find the newest one.
const MAX_LOOKED_AT: u64 = 10_000;

/// A question to the store, to be answered with [`Viewer::took_samples`].
#[derive(Debug)]
pub(crate) struct SampleQuestion {
    view: u32,
    stream: String,
    channel: String,
    about: About,
}

#[derive(Debug)]
enum About {
    /// The newest sample up to this time.
    Newest(WallTime),
    /// Columns of a matrix.
    Columns {
        plane: Vec<u32>,
        grid: FallGrid,
        asked: WallTime,
        limit: u64,
        series: Arc<FallSeries>,
        answers: u64,
    },
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
            About::Newest(end) => self.newest(store, stream, *end),
            // Answered meanwhile, to another viewer.
            About::Columns { series, answers, .. } if series.stored().0 != *answers => Ok(Found::Nothing),
            About::Columns { plane, grid, asked, limit, .. } => {
                let range = grid.edge(grid.numbers.start)..grid.edge(grid.numbers.end);
                let asked_for = StoredSamples { stream, range, limit: *limit };
                let columns = self.columns(store, &asked_for, plane, grid)?;
                let (reader, columns) = columns.map_or((None, Vec::new()), |(of, plane)| {
                    (Some((*of.reader(), plane)), of.columns(grid.width_ns, grid.numbers.clone(), 1))
                });
                Ok(Found::Columns(FallStore { grid: grid.clone(), asked: *asked, reader, columns }))
            }
        }
    }

    fn newest(
        &self,
        store: &dyn HistoryStore,
        stream: &StreamName,
        end: WallTime,
    ) -> Result<Found, StoreFailure> {
        for back in LOOKED_BACK_S {
            let range = end.offset(-back * 1_000_000_000)..end.offset(1);
            let mut newest = None;
            let mut take = |block: &Block| {
                let Some(channel) = block.schema.channel_index(&self.channel) else { return };
                let indices = block.first_index..block.next_index();
                let Some(index) = indices.rev().find(|index| block.time_of(*index) <= end) else { return };
                let sample = WholeSample::of(block, index - block.first_index, channel);
                let source = Source { schema: Arc::clone(&block.schema), channel };
                newest = Some(StoredSample { sample, source });
            };
            let asked = StoredSamples { stream, range, limit: MAX_LOOKED_AT };
            let known = store.samples(&asked, &mut take)?;
            match newest {
                Some(sample) => return Ok(Found::Sample(sample)),
                None if !known => break,
                None => {}
            }
        }
        Ok(Found::Nothing)
    }

    fn columns(
        &self,
        store: &dyn HistoryStore,
        asked: &StoredSamples<'_>,
        plane: &[u32],
        grid: &FallGrid,
    ) -> Result<Option<(Waterfall, Plane)>, StoreFailure> {
        let mut found: Option<(Arc<sample::Schema>, Waterfall, Plane)> = None;
        let mut take = |block: &Block| {
            // Of recordings with other shapes, the last ones are shown.
            if found.as_ref().is_none_or(|(schema, ..)| **schema != *block.schema) {
                let Some(channel) = block.schema.channel_index(&self.channel) else { return };
                let plane = Plane::at(&block.schema.channels[channel], plane);
                let reader =
                    BinReader::new(&block.schema, channel, plane.number, WaterfallConfig::default().bins);
                let columns: Range<i64> = grid.numbers.clone();
                let waterfall = Waterfall::of_stretch(&block.schema, reader, grid.width_ns, columns);
                found = Some((Arc::clone(&block.schema), waterfall, plane));
            }
            if let Some((_, waterfall, _)) = &mut found {
                waterfall.push(block);
            }
        };
        store.samples(asked, &mut take)?;
        Ok(found.map(|(_, waterfall, plane)| (waterfall, plane)))
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
            let question = match view {
                View::Picture(view) => view.question(*number, scenery),
                View::Waterfall(view) => view.question(*number, scenery),
                View::Traces(_) | View::Table(_) => None,
            };
            let Some(question) = question else { continue };
            questions.push(question);
            let delivery = view.delivery_mut();
            (delivery.asking, delivery.asked_at) = (true, Some(now));
        }
        questions
    }

    /// Applies answers of the store.
    pub(crate) fn took_samples(&mut self, answers: Vec<SampleAnswer>) {
        for SampleAnswer { question, found, failure } in answers {
            match question.about {
                About::Newest(end) => {
                    let Some(View::Picture(view)) = self.views.get_mut(&question.view) else { continue };
                    view.delivery.asking = false;
                    if view.request.names() == (question.stream, question.channel) {
                        let sample = match found {
                            Found::Sample(sample) => Some(sample),
                            Found::Nothing | Found::Columns(_) => None,
                        };
                        view.answered(end, sample);
                    }
                }
                About::Columns { plane, grid, asked, series, .. } => {
                    // One that could not be read is not asked for again and again.
                    let none = failure.map(|_| FallStore { grid, asked, reader: None, columns: Vec::new() });
                    let stored = match found {
                        Found::Columns(stored) => Some(stored),
                        Found::Nothing | Found::Sample(_) => none,
                    };
                    let stored = stored.map(Arc::new);
                    if let Some(stored) = &stored {
                        series.answered(Arc::clone(stored));
                    }
                    let Some(View::Waterfall(view)) = self.views.get_mut(&question.view) else { continue };
                    view.delivery.asking = false;
                    // The page may show another window by now, of which the answer has a part.
                    let is_of_it = view.request.stream == question.stream
                        && view.request.channel == question.channel
                        && view.request.plane == plane
                        && !Arc::ptr_eq(&view.series, &series);
                    if let Some(stored) = stored.filter(|_| is_of_it) {
                        view.series.take_over_answer(stored);
                    }
                }
            }
        }
    }
}

impl PictureView {
    fn question(&self, view: u32, scenery: Scenery<'_>) -> Option<SampleQuestion> {
        let end = self.needs_store(scenery)?;
        let (stream, channel) = self.request.names();
        Some(SampleQuestion { view, stream, channel, about: About::Newest(end) })
    }
}

impl WaterfallView {
    fn question(&self, view: u32, scenery: Scenery<'_>) -> Option<SampleQuestion> {
        let grid = self.needs_store(scenery)?;
        let slot = scenery.history.stream(&self.request.stream);
        let of = |elements: u32| MAX_ELEMENTS / u64::from(elements.max(1));
        let limit = slot.map_or(MAX_SAMPLES, |it| of(it.memory().info.schema.elements_per_sample()));
        let about = About::Columns {
            plane: self.request.plane.clone(),
            grid,
            asked: scenery.now.wall,
            limit,
            series: Arc::clone(&self.series),
            answers: self.series.stored().0,
        };
        let (stream, channel) = (self.request.stream.clone(), self.request.channel.clone());
        Some(SampleQuestion { view, stream, channel, about })
    }
}
