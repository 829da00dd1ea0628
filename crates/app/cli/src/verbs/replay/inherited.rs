//! Why the holes of a replayed stream are there.
//!
//! On the wire they are the source's: the replayed stream's own way did not lose them. What the recording knows of
//! each is counted here while they are published, and said at the end; labels of the stream say it from the first
//! descriptor on.

use std::ops::Range;

use archive::{Hole, Reasons, Recording, StreamEntry};
use serde_json::Value;

/// What a replay published as holes of stage `source`, by what the recording knows of them.
#[derive(Default)]
pub(super) struct Inherited {
    holes: u64,
    reasons: Reasons,
    /// Elements that are stored, of samples that lack others and so are left out whole.
    left_out: u64,
    /// Something was stored and cannot be read any more.
    damaged: bool,
}

impl Inherited {
    /// Counts a hole between stored samples.
    pub(super) fn add(&mut self, hole: &Hole) {
        self.holes += 1;
        self.reasons.add(&hole.reasons());
        self.damaged |= super::says_damage(core::slice::from_ref(hole));
    }

    /// Tells whether all that was stored could be read.
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

    /// Says it for people; nothing where there was no hole.
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
        let mut json = self.reasons.to_json();
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

/// Returns the labels that tell readers what a stream is a replay of, and what that is missing.
pub(super) fn labels(entry: &StreamEntry, recording: &Recording) -> Vec<(&'static str, String)> {
    let of = format!("{}/{}/{}", entry.run, entry.name, recording.description.epoch);
    let mut labels = vec![("replay_of", of), ("replay_from", recording.first_index.to_string())];
    let (lost, unknown) = recording.losses();
    let lost = lost.nonzero().map(|(stage, count)| (stage.name(), count));
    let unknown = (unknown > 0).then_some(("unexplained", unknown));
    let missing: Vec<String> = lost.chain(unknown).map(|(name, count)| format!("{name} {count}")).collect();
    if !missing.is_empty() {
        labels.push(("replay_lost", missing.join(", ")));
    }
    labels
}
