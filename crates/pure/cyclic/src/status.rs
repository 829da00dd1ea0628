//! What an app tells of each cycle: one sample of its status stream.
//!
//! Layout: `docs/cyclic.md`, "The status stream".

use sample::Channel;

/// The age of an input that has never come.
pub const NEVER: u64 = u64::MAX;

/// What an app tells of one cycle.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StatusRow {
    /// The app's process on its host. Not a label of the stream: an app that is started again is the same stream.
    pub pid: u64,
    /// How long after its due time it began.
    pub lateness_ns: u64,
    /// How long it ran.
    pub run_time_ns: u64,
    /// Cycles so far that ended after the next one was due.
    pub overruns: u64,
    /// Cycles so far that were left out.
    pub skipped: u64,
    /// Alarms of the timer rule so far.
    pub alarms: u64,
    /// The inputs in their order.
    pub inputs: Vec<InputStatus>,
}

/// What an app tells of one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputStatus {
    /// How old the newest sample was when the cycle was due; [`NEVER`] if none has come.
    pub age_ns: u64,
    /// Samples so far.
    pub samples: u64,
    /// Elements so far that are known to be lost on the way.
    pub lost_elements: u64,
    /// Cycles so far without the sample that was due.
    pub missed: u64,
    /// Cycles so far in which it was late.
    pub late: u64,
}

impl Default for InputStatus {
    fn default() -> Self {
        Self { age_ns: NEVER, samples: 0, lost_elements: 0, missed: 0, late: 0 }
    }
}

const OWN: [(&str, &str); 6] =
    [("pid", ""), ("lateness", "ns"), ("run_time", "ns"), ("overruns", ""), ("skipped", ""), ("alarms", "")];
const PER_INPUT: [(&str, &str); 5] =
    [("age", "ns"), ("samples", ""), ("lost_elements", ""), ("missed", ""), ("late", "")];

impl StatusRow {
    /// Returns the channels of the status stream of an app with so many inputs.
    #[must_use]
    pub fn channels(inputs: usize) -> Vec<Channel> {
        let own = OWN.into_iter().map(Channel::from);
        let of_input = |input: usize| {
            PER_INPUT.into_iter().map(move |(name, unit)| Channel::new(format!("input{input}.{name}"), unit))
        };
        own.chain((0..inputs).flat_map(of_input)).collect()
    }

    /// Writes the row as the elements of one sample.
    pub fn write(&self, elements: &mut Vec<u64>) {
        elements.clear();
        elements.extend([
            self.pid,
            self.lateness_ns,
            self.run_time_ns,
            self.overruns,
            self.skipped,
            self.alarms,
        ]);
        elements.extend(
            self.inputs.iter().flat_map(|it| [it.age_ns, it.samples, it.lost_elements, it.missed, it.late]),
        );
    }

    /// Reads a row from the elements of one sample; `None` if they are not those of a row.
    #[must_use]
    pub fn read(elements: &[u64]) -> Option<Self> {
        let (own, inputs) = elements.split_first_chunk::<{ OWN.len() }>()?;
        let [pid, lateness_ns, run_time_ns, overruns, skipped, alarms] = *own;
        let (inputs, rest) = inputs.as_chunks::<{ PER_INPUT.len() }>();
        let input = |&[age_ns, samples, lost_elements, missed, late]: &[u64; PER_INPUT.len()]| InputStatus {
            age_ns,
            samples,
            lost_elements,
            missed,
            late,
        };
        let inputs = inputs.iter().map(input).collect();
        rest.is_empty().then_some(Self { pid, lateness_ns, run_time_ns, overruns, skipped, alarms, inputs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_reads_back_as_written(own in any::<[u64; 6]>(), inputs in prop::collection::vec(any::<[u64; 5]>(), 0..5)) {
            let elements: Vec<u64> = own.into_iter().chain(inputs.iter().flatten().copied()).collect();
            let row = StatusRow::read(&elements).unwrap();
            prop_assert_eq!(row.inputs.len(), inputs.len());
            prop_assert_eq!(StatusRow::channels(inputs.len()).len(), elements.len());
            let mut written = Vec::new();
            row.write(&mut written);
            prop_assert_eq!(written, elements);
        }
    }

    #[test]
    fn what_is_cut_is_no_row() {
        for len in [0, 5, 7, 10, 12] {
            assert_eq!(StatusRow::read(&vec![0; len]), None, "{len}");
        }
        assert!(StatusRow::read(&[0; 6]).is_some() && StatusRow::read(&[0; 11]).is_some());
    }
}
