//! Views that show whole samples: the newest one of a channel at or before the window's end.
//!
//! They share numbers, credit, pace and the account of elements not shown with the views of traces. Start with
//! [`PictureView`].

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use sample::{Matrix, MatrixShape, Picture, Pixels, Plane, Reduction};
use serde::Deserialize;
use tallycast::Schema;
use units::WallTime;
use wire::{MAX_PAGE_COLUMNS, MAX_PICTURE_PIXELS, Obstacle, PictureFrame, PictureSample, TraceState};

use super::{Delivery, Scenery, View, Viewer};
use crate::memory::pictures::WholeSample;
use crate::view::state_of;

/// A picture as requested by a page.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct PictureRequest {
    pub(crate) view: u32,
    pub(crate) stream: String,
    channel: String,
    /// Indices of the matrix, one for each extent before the last two; none name the first.
    #[serde(default)]
    plane: Vec<u32>,
    width_px: u32,
    height_px: u32,
    end_ns: Option<i64>,
    #[serde(default)]
    reduction: Reduction,
}

impl PictureRequest {
    /// Checks the preconditions of a frame; returns the remedy otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { width_px, height_px, .. } = self;
        check_plane(&self.plane)?;
        let sides = 1..=MAX_PAGE_COLUMNS;
        if sides.contains(width_px) && sides.contains(height_px) {
            return Ok(());
        }
        Err(format!("a picture has 1 to {MAX_PAGE_COLUMNS} rows and columns, not {height_px} by {width_px}"))
    }
}

/// Checks that indices may name a plane; returns the remedy otherwise. One that the channel does not have is no error: it
/// has the nearest one.
pub(super) fn check_plane(indices: &[u32]) -> Result<(), String> {
    let most = Plane::MAX_INDICES;
    if indices.len() <= most {
        return Ok(());
    }
    Err(format!(
        "a plane has at most {most} indices, one for each extent of its channel before the last two, not {}",
        indices.len()
    ))
}

/// A view of whole samples, and its state for one viewer.
#[derive(Debug)]
pub(super) struct PictureView {
    pub(super) request: PictureRequest,
    pub(super) delivery: Delivery,
    /// State that the last frame was made from.
    signature: Option<Signature>,
    /// Samples of the channel up to this number were shown, or counted as lost.
    counted_to: Option<u64>,
    /// One behind the number of the sample shown last.
    shown_to: Option<u64>,
    /// The time that the store was asked for, and its newest sample up to then.
    stored: Option<(WallTime, Option<StoredSample>)>,
}

/// Everything that a frame depends on; equal signatures make equal pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Signature {
    state: TraceState,
    /// Number of the sample, `None` of one of the store, and its index, which another epoch may have, too.
    sample: Option<(Option<u64>, u64)>,
    obstacle: Option<Obstacle>,
    further: u32,
}

/// The newest sample that the store has up to a time.
#[derive(Clone, Debug)]
pub(super) struct StoredSample {
    pub(super) sample: WholeSample,
    pub(super) source: Source,
}

/// What a view shows now.
pub(super) struct Sight {
    signature: Signature,
    sample: Option<(WholeSample, Source)>,
    kept_from: Option<WallTime>,
}

/// The channel that a sample is of.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) schema: Arc<Schema>,
    pub(super) channel: usize,
}

impl Viewer {
    /// Shows whole samples in a view from now on.
    ///
    /// # Errors
    /// Message for the user if the request is invalid.
    pub(super) fn picture(&mut self, request: PictureRequest) -> Result<(), String> {
        request.check()?;
        self.check_room(request.view)?;
        let number = request.view;
        let view = match self.views.remove(&number) {
            Some(View::Picture(mut before)) => {
                let delivery = std::mem::take(&mut before.delivery);
                let mut view = PictureView::new(request, delivery);
                view.succeed(before);
                view
            }
            other => PictureView::new(request, View::into_delivery(other)),
        };
        self.views.insert(number, View::Picture(view));
        Ok(())
    }

    /// Makes the next frame of a view of whole samples, if one is due.
    pub(super) fn picture_frame(&mut self, number: u32, scenery: Scenery<'_>) -> Option<Vec<u8>> {
        let now = scenery.now.steady;
        let Some(View::Picture(view)) = self.views.get_mut(&number) else { return None };
        let sight = view.look(scenery)?;
        if !view.delivery.has_room(view.request.end_ns.is_none(), &self.allowance, &mut self.dropped, now) {
            return None;
        }
        view.count_losses(scenery, &mut self.lost);
        let mut bytes = Vec::new();
        let frame = view.frame(sight, self.next_frame, self.dropped, scenery);
        frame.encode(&mut bytes).expect("a picture was made within the bounds of a frame");
        view.delivery.sent(now);
        self.sent(number, true, &bytes, scenery);
        Some(bytes)
    }
}

impl PictureView {
    pub(super) const fn new(request: PictureRequest, delivery: Delivery) -> Self {
        Self { request, delivery, signature: None, counted_to: None, shown_to: None, stored: None }
    }

    /// Takes over the counts of the view in whose place this one is, if it follows the same channel.
    pub(super) fn succeed(&mut self, before: Self) {
        let is_same = self.request.names() == before.request.names();
        if is_same && self.follows() && before.follows() {
            (self.counted_to, self.shown_to) = (before.counted_to, before.shown_to);
        }
        if is_same && self.request.end_ns == before.request.end_ns {
            self.stored = before.stored;
        }
    }

    /// Returns the end of the window if live memory has no sample of it and the store was not asked yet.
    pub(super) fn needs_store(&self, scenery: Scenery<'_>) -> Option<WallTime> {
        let has_none = self.stored.is_none() && self.sight(scenery, 1).sample.is_none();
        has_none.then(|| self.request.end_ns.map_or(scenery.now.wall, WallTime::from_nanos))
    }

    /// Takes the store's answer for the samples up to `end`.
    pub(super) fn answered(&mut self, end: WallTime, sample: Option<StoredSample>) {
        let is_asked = self.request.end_ns.is_none_or(|asked| WallTime::from_nanos(asked) == end);
        if is_asked {
            self.stored = Some((end, sample));
        }
    }

    pub(super) const fn follows(&self) -> bool {
        self.request.end_ns.is_none()
    }

    /// Looks at what the view shows now; `None` if its picture has not changed. The samples of the channel stay kept.
    pub(super) fn look(&self, scenery: Scenery<'_>) -> Option<Sight> {
        let further = if self.follows() { self.delivery.pace.further() } else { 1 };
        let sight = self.sight(scenery, further);
        (self.signature != Some(sight.signature)).then_some(sight)
    }

    /// Looks at live memory, and at what the store told if that has no sample.
    fn sight(&self, scenery: Scenery<'_>, further: u32) -> Sight {
        let mut sight = self.live_sight(scenery, further);
        if let (None, Some((_, Some(stored)))) = (&sight.sample, &self.stored) {
            sight.signature.sample = Some((None, stored.sample.index));
            if sight.signature.state == TraceState::Unknown {
                // The publisher is gone, its recording is not.
                sight.signature.state = TraceState::Ended;
            }
            sight.signature.obstacle = sight.signature.obstacle.filter(|it| *it != Obstacle::Unasked);
            sight.sample = Some((stored.sample.clone(), stored.source.clone()));
        }
        sight
    }

    fn live_sight(&self, scenery: Scenery<'_>, further: u32) -> Sight {
        let unknown = Signature { state: TraceState::Unknown, sample: None, obstacle: None, further };
        let nothing = Sight { signature: unknown, sample: None, kept_from: None };
        let Some(slot) = scenery.history.stream(&self.request.stream) else { return nothing };
        let mut memory = slot.memory();
        let schema = Arc::clone(&memory.info.schema);
        let Some(channel) = schema.channel_index(&self.request.channel) else { return nothing };
        memory.pictures.ask(channel, scenery.now);
        let sample = memory.pictures.newest(channel, self.request.end_ns.map(WallTime::from_nanos)).cloned();
        let signature = Signature {
            state: state_of(memory.health(scenery.now)),
            sample: sample.as_ref().map(|sample| (Some(sample.number), sample.index)),
            obstacle: memory.pictures.obstacle(channel),
            further,
        };
        let kept_from = memory.pictures.kept_from(channel);
        Sight { signature, sample: sample.map(|sample| (sample, Source { schema, channel })), kept_from }
    }

    /// Makes the frame of a sight, and records it as shown.
    ///
    /// Cost: one pass over the sample, without a lock.
    pub(super) fn frame(
        &mut self,
        sight: Sight,
        frame: u32,
        dropped: u32,
        scenery: Scenery<'_>,
    ) -> PictureFrame {
        let Sight { signature, sample, kept_from } = sight;
        let number = signature.sample.and_then(|(number, _)| number);
        let skipped = match (number, self.shown_to.filter(|_| self.follows())) {
            (Some(number), Some(shown_to)) => number.saturating_sub(shown_to),
            _ => 0,
        };
        self.signature = Some(signature);
        if let Some(number) = number.filter(|_| self.follows()) {
            (self.shown_to, self.counted_to) = (Some(number + 1), Some(number + 1));
        }
        PictureFrame {
            frame,
            view: self.request.view,
            state: signature.state,
            live: self.follows(),
            thinned_further: signature.further > 1,
            is_max: self.request.reduction == Reduction::Max,
            obstacle: signature.obstacle,
            now: scenery.now.wall,
            kept_from,
            dropped_frames: dropped,
            sample: sample
                .map(|(sample, source)| self.request.picture(&sample, &source, signature.further, skipped)),
        }
    }

    /// Counts as lost the samples that a newer one has replaced before they were shown.
    pub(super) fn count_losses(&mut self, scenery: Scenery<'_>, lost: &mut BTreeMap<String, u64>) {
        if !self.follows() {
            return;
        }
        let Some(slot) = scenery.history.stream(&self.request.stream) else { return };
        let mut memory = slot.memory();
        let schema = Arc::clone(&memory.info.schema);
        let Some(channel) = schema.channel_index(&self.request.channel) else { return };
        // A hidden page gets no frames: what it does not see is counted all the same.
        memory.pictures.ask(channel, scenery.now);
        let Some(newest) = memory.pictures.newest(channel, None).map(|sample| sample.number) else { return };
        let counted_to = self.counted_to.get_or_insert(newest);
        let passed = newest.saturating_sub(*counted_to) * schema.channel_elements(channel).len() as u64;
        *counted_to = newest.max(*counted_to);
        if passed > 0 {
            *lost.entry(self.request.stream.clone()).or_default() += passed;
            slot.lost_in_browser(passed);
        }
    }
}

impl PictureRequest {
    /// Returns stream and channel.
    pub(super) fn names(&self) -> (String, String) {
        (self.stream.clone(), self.channel.clone())
    }

    fn picture(&self, sample: &WholeSample, source: &Source, further: u32, skipped: u64) -> PictureSample {
        let channel = &source.schema.channels[source.channel];
        let shape = MatrixShape::of(channel);
        let plane = Plane::at(channel, &self.plane);
        let first = plane.number as usize * shape.elements();
        let elements = first..first + shape.elements();
        let size = source.schema.dtype.size_bytes();
        let touches = |hole: &&Range<usize>| hole.start < elements.end && hole.end > elements.start;
        let within = |hole: &Range<usize>| {
            hole.start.max(elements.start) - elements.start..hole.end.min(elements.end) - elements.start
        };
        let missing: Vec<_> = sample.missing.iter().filter(touches).map(within).collect();
        let matrix = Matrix {
            bytes: &sample.bytes[elements.start * size..elements.end * size],
            dtype: source.schema.dtype,
            scale: channel.scale,
            offset: channel.offset,
            rows: shape.rows,
            columns: shape.columns,
            missing: &missing,
        };
        let [rows, columns] = [self.height_px, self.width_px].map(|side| (side / further).max(1));
        let block = shape.block(rows, columns, MAX_PICTURE_PIXELS / (further * further));
        let picture = Picture::of(&matrix, block, self.reduction);
        let range = match &picture.pixels {
            Pixels::Values(values) => extremes(values),
            Pixels::Steps(_) => [0.0, 255.0].map(|step: f64| step.mul_add(channel.scale, channel.offset)),
        };
        PictureSample {
            time: sample.time,
            index: sample.index,
            skipped,
            planes: shape.planes,
            plane,
            size: [shape.rows, shape.columns],
            range,
            picture,
        }
    }
}

/// Returns the least and the greatest finite value, NaN if there is none.
fn extremes(values: &[f32]) -> [f64; 2] {
    let finite = || values.iter().copied().filter(|value| value.is_finite()).map(f64::from);
    [finite().reduce(f64::min).unwrap_or(f64::NAN), finite().reduce(f64::max).unwrap_or(f64::NAN)]
}

#[cfg(test)]
mod tests;
