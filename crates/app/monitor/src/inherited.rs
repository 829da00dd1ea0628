//! Origin of a derived stream's holes: the gaps of its inputs at the same time.
//!
//! On the wire such a hole belongs to the source, because the path of the derived stream did not lose it. Its labels
//! name the inputs, and live memory has their gaps with later changes. Start with [`Inputs::of`].

use std::sync::Arc;

use ledger::{Stage, StageCounts};
use sample::Schema;
use serde_json::{Value, json};
use units::{SampleRate, WallTime};

use crate::gap_map::KnownGap;
use crate::history::{History, StreamSlot};

/// The labels of a derived stream that name its inputs: `input.VARIABLE` is `STREAM:CHANNEL`.
pub(crate) const INPUT_LABEL: &str = "input.";

/// Inputs of a derived stream; empty for any other.
pub(crate) struct Inputs {
    streams: Vec<(String, Option<Arc<StreamSlot>>)>,
    rate: SampleRate,
}

/// Missing data of one input during a hole.
struct Inherited {
    stream: String,
    lost: StageCounts,
    unexplained: u64,
    unsettled: u64,
}

impl Inputs {
    /// Finds the inputs that a derived stream's labels name, and that may be read.
    pub(crate) fn of(schema: &Schema, history: &History, may_read: impl Fn(&str) -> bool) -> Self {
        let inputs = schema.labels.iter().filter(|(label, _)| label.starts_with(INPUT_LABEL));
        let mut names: Vec<_> = inputs.filter_map(|(_, input)| Some(input.split_once(':')?.0)).collect();
        names.sort_unstable();
        names.dedup();
        // Labels are free text of any publisher: they must not show a reader the gaps of another stream.
        names.retain(|name| may_read(name));
        let found = |name: &str| (name.to_owned(), history.stream(name));
        Self { streams: names.into_iter().map(found).collect(), rate: schema.rate }
    }

    /// Returns a gap as JSON; an inherited hole of a derived stream includes its origin and cause.
    ///
    /// Locks the inputs' memories one after the other: the caller must hold none.
    pub(crate) fn gap_json(&self, gap: &KnownGap) -> Value {
        let mut json = gap.to_json();
        if self.streams.is_empty() || gap.lost[Stage::Source] == 0 {
            return json;
        }
        let inherited: Vec<_> = self.streams.iter().filter_map(|input| self.inherited(input, gap)).collect();
        let mut lines: Vec<Value> = inherited.iter().flat_map(Inherited::lines).map(Value::from).collect();
        if lines.is_empty() {
            lines.extend(self.silent(gap).map(Value::from));
        }
        if lines.is_empty() {
            lines.push(
                "no input is known to have a gap here: one came late, had ended, or jumped in time".into(),
            );
        }
        if let Some(evidence) = json["evidence"].as_array_mut() {
            evidence.append(&mut lines);
        }
        json["inherited"] = inherited.iter().map(Inherited::to_json).collect();
        json
    }

    /// Names the inputs of which nothing has come since the gap began.
    fn silent<'a>(&'a self, gap: &'a KnownGap) -> impl Iterator<Item = String> + 'a {
        let is_silent =
            |slot: &StreamSlot| slot.memory().newest_time().is_none_or(|newest| newest <= gap.from);
        let silent = self.streams.iter().filter(move |(_, slot)| slot.as_deref().is_none_or(is_silent));
        silent.map(|(stream, _)| format!("nothing of {stream} has come since this began"))
    }

    fn inherited(&self, input: &(String, Option<Arc<StreamSlot>>), gap: &KnownGap) -> Option<Inherited> {
        let (stream, slot) = input;
        // Times of both are rounded to nanoseconds: what only touches does not overlap.
        let margin = i64::try_from(self.rate.duration_of(1).as_nanos() / 4).unwrap_or(0);
        let window: std::ops::Range<WallTime> = gap.from.offset(margin)..gap.to.offset(-margin);
        let slot = slot.as_ref()?;
        let gaps: Vec<_> = slot.memory().gaps.within(&window).cloned().collect();
        let mut sum =
            Inherited { stream: stream.clone(), lost: StageCounts::default(), unexplained: 0, unsettled: 0 };
        for gap in &gaps {
            sum.lost.add(&gap.lost);
            sum.unexplained += gap.unexplained;
            sum.unsettled += gap.unsettled;
        }
        (!gaps.is_empty()).then_some(sum)
    }
}

impl Inherited {
    fn lines(&self) -> Vec<String> {
        let stages = self.lost.nonzero().map(|(stage, count)| (stage.name(), count));
        let unknown = [("unexplained", self.unexplained), ("unsettled", self.unsettled)];
        let all = stages.chain(unknown.into_iter().filter(|(_, count)| *count > 0));
        let line = |(cause, count)| format!("inherited from {}: {cause}, {count} elements", self.stream);
        all.map(line).collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "stream": self.stream,
            "lost": self.lost,
            "unexplained": self.unexplained,
            "unsettled": self.unsettled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene;
    use tallycast::StreamInfo;

    /// Returns a history of an input with a gap in samples 10 to 20, and a stream derived from it.
    fn scene() -> (History, StreamInfo) {
        let (history, input) = (History::default(), Arc::new(scene::info("lab/x", 100)));
        let now = scene::moment(scene::time_of(&input, 0));
        history.begin(&input, now);
        history.block(&scene::block(&input, 0, &[1.0; 10]), now);
        history.gap(&scene::gap(&input, 1, 10..20, StageCounts::of(Stage::Injected, 10)), now);
        let mut derived = scene::info("lab/d", 100);
        let mut schema = (*derived.schema).clone();
        schema.labels = [("input.a".to_owned(), "lab/x:x".to_owned())].into();
        derived.schema = Arc::new(schema);
        (history, derived)
    }

    fn hole(info: &StreamInfo, positions: std::ops::Range<u64>) -> KnownGap {
        let lost = StageCounts::of(Stage::Source, positions.end - positions.start);
        KnownGap::from(&scene::gap(info, 1, positions, lost))
    }

    #[test]
    fn an_inherited_hole_tells_the_input_and_its_stage() {
        let (history, derived) = scene();
        let inputs = Inputs::of(&derived.schema, &history, |_| true);
        let json = inputs.gap_json(&hole(&derived, 10..20));
        assert_eq!(json["inherited"][0]["stream"], "lab/x");
        assert_eq!(json["inherited"][0]["lost"]["injected"], 10);
        let lines = json["evidence"].as_array().unwrap();
        assert_eq!(lines.last().unwrap(), "inherited from lab/x: injected, 10 elements");
    }

    #[test]
    fn an_input_that_may_not_be_read_is_not_told() {
        let (history, derived) = scene();
        let inputs = Inputs::of(&derived.schema, &history, |name| name != "lab/x");
        let gap = hole(&derived, 10..20);
        assert_eq!(inputs.gap_json(&gap), gap.to_json());
    }

    #[test]
    fn a_hole_since_which_nothing_of_the_input_has_come_tells_the_input() {
        let (history, derived) = scene();
        let inputs = Inputs::of(&derived.schema, &history, |_| true);
        let json = inputs.gap_json(&hole(&derived, 20..30));
        assert_eq!(
            json["evidence"].as_array().unwrap().last().unwrap(),
            "nothing of lab/x has come since this began"
        );
    }

    #[test]
    fn a_hole_beside_the_input_s_gap_says_that_it_is_none_of_it() {
        let (history, derived) = scene();
        let input = scene::info("lab/x", 100);
        let now = scene::moment(scene::time_of(&input, 20));
        history.block(&scene::block(&input, 20, &[1.0; 20]), now);
        let inputs = Inputs::of(&derived.schema, &history, |_| true);
        let json = inputs.gap_json(&hole(&derived, 20..30));
        assert_eq!(json["inherited"], json!([]));
        assert!(json["evidence"].to_string().contains("no input"));
    }

    #[test]
    fn other_gaps_are_as_they_are() {
        let (history, derived) = scene();
        let plain = Inputs::of(&scene::info("lab/y", 100).schema, &history, |_| true);
        let gap = hole(&derived, 10..20);
        assert_eq!(plain.gap_json(&gap), gap.to_json());
    }
}
