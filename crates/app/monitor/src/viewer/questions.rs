//! Questions to the store: for what lies behind live memory, asked by one viewer for all that show the same.

use std::sync::Arc;
use std::time::Instant;

use sample::ColumnGrid;
use units::WallTime;

use super::pace::Pace;
use super::rendition::Series;
use super::{Scenery, View, Viewer};
use crate::stored::StoredSpan;
use crate::view::Stored;

/// A question to the store, to be answered with [`Viewer::stored`].
#[derive(Clone, Debug)]
pub(crate) struct StoreQuestion {
    pub(crate) view: u32,
    pub(crate) trace: usize,
    pub(crate) stream: String,
    pub(crate) channel: String,
    pub(crate) grid: ColumnGrid,
    pub(crate) asked: WallTime,
    /// The series that waits for the answer.
    series: Arc<Series>,
    /// Number of the series' answers when it was asked.
    answers: u64,
}

impl StoreQuestion {
    /// Returns whether the store has answered it meanwhile, to another viewer.
    pub(crate) fn is_answered(&self) -> bool {
        self.series.stored(self.trace).is_some() && self.series.answers() != self.answers
    }
}

impl Viewer {
    /// Returns the traces whose window extends behind live memory and whose store was not asked yet.
    pub(crate) fn questions(&mut self, scenery: Scenery<'_>) -> Vec<StoreQuestion> {
        let mut questions = Vec::new();
        if !self.visible {
            return questions;
        }
        for (number, view) in &mut self.views {
            let View::Traces(view) = view else { continue };
            let now = scenery.now.steady;
            let is_recent = |at: Instant| now.saturating_duration_since(at) < Pace::ASK;
            if !view.delivery.may_ask(now) || view.reach_seen_at.is_some_and(is_recent) {
                continue;
            }
            let (grid, _) = view.signature(scenery);
            view.reach_seen_at = Some(now);
            for (place, trace) in view.traces.iter().enumerate() {
                let stored = view.series.stored(place);
                if trace.needs_store(scenery.history, &grid, stored.as_deref()) {
                    questions.push(StoreQuestion {
                        view: *number,
                        trace: place,
                        stream: trace.request.stream.clone(),
                        channel: trace.request.channel.clone(),
                        grid,
                        asked: scenery.now.wall,
                        series: Arc::clone(&view.series),
                        answers: view.series.answers(),
                    });
                    view.delivery.asking = true;
                    view.delivery.asked_at = Some(now);
                }
            }
        }
        questions
    }

    /// Applies the store's answers to the questions of one view.
    pub(crate) fn stored(&mut self, answers: Vec<(StoreQuestion, Option<StoredSpan>)>) {
        for (question, span) in answers {
            let StoreQuestion { trace, grid, asked, series, .. } = question;
            let stored = span.map(|span| Arc::new(Stored { grid, asked, span }));
            if let Some(stored) = &stored {
                series.answered(trace, Arc::clone(stored));
            }
            let Some(view) = self.views.get_mut(&question.view) else { continue };
            // Also of a view that shows something else by now: it has its own questions.
            view.delivery_mut().asking = false;
            let View::Traces(view) = view else { continue };
            // The page may show another window by now, of which the answer has a part.
            let is_asked = view.traces.get(trace).is_some_and(|trace| {
                trace.request.stream == question.stream && trace.request.channel == question.channel
            });
            if let (true, false, Some(stored)) = (is_asked, Arc::ptr_eq(&view.series, &series), stored) {
                view.series.answered(trace, stored);
            }
        }
    }
}
