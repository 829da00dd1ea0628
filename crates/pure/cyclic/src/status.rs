//! Status of each cycle of an app: one sample of its status stream.
//!
//! Layout: `docs/guide/cyclic.md`, "The status stream".

use sample::Channel;

/// Age of an input from which no sample has arrived.
pub const NEVER: u64 = u64::MAX;

/// Status of one cycle.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StatusRow {
    /// Process id of the app on its host. Not a label of the stream: a restarted app is the same
    /// stream.
    pub pid: u64,
    /// Delay of the cycle's begin after its due time.
    pub lateness_ns: u64,
    /// Run time of the cycle.
    pub run_time_ns: u64,
    /// Number of cycles so far that ended after the next one was due.
    pub overruns: u64,
    /// Number of cycles so far that were skipped.
    pub skipped: u64,
    /// Number of alarms of the timer rule so far.
    pub alarms: u64,
    /// Status of the inputs, in the app's order.
    pub inputs: Vec<InputStatus>,
}

/// Status of one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InputStatus {
    /// Age of the newest sample at the cycle's due time; [`NEVER`] if none has arrived.
    pub age_ns: u64,
    /// Number of samples so far.
    pub samples: u64,
    /// Number of elements so far that are known to be lost along the path.
    pub lost_elements: u64,
    /// Number of cycles so far without the sample that was due.
    pub missed: u64,
    /// Number of cycles so far in which the input was late.
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
    /// Returns the channels of the status stream of an app with `inputs` inputs.
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

    /// Reads a row from the elements of one sample; `None` if they are not valid.
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
