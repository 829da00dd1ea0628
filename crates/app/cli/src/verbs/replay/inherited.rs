//! Causes of the holes of a replayed stream.
//!
//! On the wire they belong to the source: the path of the replayed stream did not lose them. The recorded causes are
//! counted here while the holes are published, and reported at the end; labels of the stream carry them from the
//! first descriptor on.

use std::ops::Range;

use archive::{Hole, Reasons, Recording, StreamEntry};
use serde_json::{Value, json};

/// Holes of stage `source` published by a replay, by their recorded causes.
#[derive(Default)]
pub(super) struct Inherited {
    holes: u64,
    reasons: Reasons,
    /// Stored elements of incomplete samples, which are left out entirely.
    left_out: u64,
    /// True if stored data can no longer be read.
    damaged: bool,
}

impl Inherited {
    /// Counts a hole between stored samples.
    pub(super) fn add(&mut self, hole: &Hole) {
        self.holes += 1;
        self.reasons.add(&hole.reasons());
        self.damaged |= super::says_damage(core::slice::from_ref(hole));
    }

    /// Returns whether all stored data could be read.
    pub(super) const fn is_whole(&self) -> bool {
        !self.damaged
    }

    /// Counts samples that were recorded in part.
    ///
    /// Units: positions, of all their elements and of those that are missing.
    pub(super) fn add_partial(
        &mut self,
        recording: &Recording,
        elements: &Range<u64>,
        missing: impl IntoIterator<Item = Range<u64>>,
    ) {
        self.holes += 1;
        let mut stored = elements.end - elements.start;
        for missing in missing {
            stored -= missing.end - missing.start;
            self.reasons.add(&Reasons::of(&missing, recording.gaps.iter()));
        }
        self.left_out += stored;
    }

    /// Formats it as text; `None` if there was no hole.
    pub(super) fn text(&self, stream: &str) -> Option<String> {
        let elements = self.elements();
        let left_out = (self.left_out > 0).then_some(("of samples recorded in part", self.left_out));
        let reasons = self.reasons.named().chain(left_out);
        let reasons: Vec<String> = reasons.map(|(name, count)| format!("{name} {count}")).collect();
        let said = || {
            format!(
                "{} holes inherited from {stream}, {elements} elements: {}",
                self.holes,
                reasons.join(", ")
            )
        };
        (self.holes > 0).then(said)
    }

    /// Returns it as a JSON object, with what was replayed.
    pub(super) fn to_json(&self, entry: &StreamEntry, recording: &Recording) -> Value {
        let mut json = json!(self.reasons);
        json["run"] = entry.run.as_str().into();
        json["stream"] = entry.name.as_str().into();
        json["epoch"] = recording.description.epoch.to_string().into();
        json["holes"] = self.holes.into();
        json["elements"] = self.elements().into();
        json["left_out"] = self.left_out.into();
        json
    }

    fn elements(&self) -> u64 {
        self.reasons.total() + self.left_out
    }
}

/// Returns the labels that name the recording of a stream, the first sample that is replayed, and the missing parts of the
/// recording; those of a part of it are known only once it has been read.
pub(super) fn labels(
    entry: &StreamEntry,
    recording: &Recording,
    first_of_part: Option<u64>,
) -> Vec<(&'static str, String)> {
    let of = format!("{}/{}/{}", entry.run, entry.name, recording.description.epoch);
    let from = first_of_part.unwrap_or(recording.first_index);
    let mut labels = vec![("replay_of", of), ("replay_from", from.to_string())];
    if first_of_part.is_some() {
        return labels;
    }
    let (lost, unknown) = recording.losses();
    let lost = lost.nonzero().map(|(stage, count)| (stage.name(), count));
    let unknown = (unknown > 0).then_some(("unexplained", unknown));
    let missing: Vec<String> = lost.chain(unknown).map(|(name, count)| format!("{name} {count}")).collect();
    if !missing.is_empty() {
        labels.push(("replay_lost", missing.join(", ")));
    }
    labels
}
