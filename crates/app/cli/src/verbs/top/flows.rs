//! Rates of the streams between two snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tallycast::{Block, StreamName};

/// Samples and bytes of a stream since `since`.
#[derive(Clone, Copy)]
struct Flow {
    samples: u64,
    bytes: u64,
    since: Instant,
}

impl Flow {
    /// Begins with a stream's first block, at the time at which the first of its samples was due: a stream that was
    /// joined during an interval has the rate of the part in which it was read.
    fn begun_by(block: &Block, now: Instant) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
        let lasted = block.samples as f64 / block.schema.rate.as_hz();
        let lasted = Duration::try_from_secs_f64(lasted).unwrap_or_default();
        Self { samples: 0, bytes: 0, since: now.checked_sub(lasted).unwrap_or(now) }
    }

    fn count(&mut self, block: &Block) {
        self.samples += block.samples;
        self.bytes += block.data.as_bytes().len() as u64;
    }
}

/// Flows of the streams, across snapshots.
#[derive(Default)]
pub(super) struct Flows(BTreeMap<Arc<StreamName>, Flow>);

impl Flows {
    pub(super) fn take(&mut self, block: &Block, now: Instant) {
        let flow = self.0.entry(Arc::clone(&block.stream)).or_insert_with(|| Flow::begun_by(block, now));
        flow.count(block);
    }

    /// Returns a stream's samples and bytes per second until `now`, zero if nothing of it was ever read.
    #[expect(clippy::cast_precision_loss, reason = "rates for display")]
    pub(super) fn per_second(&self, stream: &StreamName, now: Instant) -> (f64, f64) {
        let Some(flow) = self.0.get(stream) else { return (0.0, 0.0) };
        let seconds = now.duration_since(flow.since).as_secs_f64().max(f64::MIN_POSITIVE);
        (flow.samples as f64 / seconds, flow.bytes as f64 / seconds)
    }

    /// Begins the next interval, without the streams of which nothing came in the last one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.0.retain(|_, flow| flow.samples > 0);
        self.0.values_mut().for_each(|flow| *flow = Flow { samples: 0, bytes: 0, since: now });
    }
}

#[cfg(test)]
mod tests {
    use sample::SampleBuffer;
    use tallycast::{Channel, Dtype, Epoch, SampleRate, Schema, WallTime};
    use units::RangeSet;

    use super::*;

    /// A block of a stream of bytes at 1 kHz.
    fn block(samples: usize) -> Block {
        let channels = vec![Channel::new("x", "")];
        Block {
            stream: Arc::new("lab/x".parse().unwrap()),
            schema: Arc::new(Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), channels).unwrap()),
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            first_index: 0,
            t0: WallTime::from_nanos(0),
            samples: samples as u64,
            data: SampleBuffer::from_bytes(&vec![0; samples]),
            missing: RangeSet::new(),
        }
    }

    #[test]
    fn a_stream_joined_within_an_interval_has_the_rate_of_its_part() {
        let (start, name) = (Instant::now(), "lab/x".parse().unwrap());
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut flows = Flows::default();
        assert_eq!(flows.per_second(&name, at(0)), (0.0, 0.0));
        // The first block is heard after three quarters of the interval.
        flows.take(&block(50), at(800));
        flows.take(&block(200), at(1_000));
        assert_eq!(flows.per_second(&name, at(1_000)), (1_000.0, 1_000.0));
        flows.begin(at(1_000));
        flows.take(&block(500), at(1_500));
        assert_eq!(flows.per_second(&name, at(2_000)).0, 500.0, "later ones count the whole interval");
        flows.begin(at(2_000));
        assert_eq!(flows.per_second(&name, at(3_000)).0, 0.0, "silence is no rate");
    }
}
