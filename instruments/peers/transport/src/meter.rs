//! Bytes, time and processor time of one end of a run.

use std::time::{Duration, Instant};

use anyhow::Result;
use peers::{Whose, cpu_seconds};
use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, Task};

/// Report of one side of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    /// Retransmitted packets, of a source.
    pub(crate) again: f64,
}

/// A running measurement of one end.
pub(crate) struct Meter {
    began: Instant,
    cpu_before: f64,
    bytes: usize,
    /// Time of the latest bytes of a reader.
    latest: Instant,
}

impl Meter {
    pub(crate) fn begin() -> Self {
        let began = Instant::now();
        Self { began, cpu_before: cpu_seconds(Whose::Process), bytes: 0, latest: began }
    }

    /// Sends blocks for the time of a run.
    pub(crate) fn send(&mut self, task: &Task, mut block: impl FnMut(&[u8]) -> Result<usize>) -> Result<()> {
        let bytes = vec![7_u8; BLOCK_BYTES];
        while self.goes_on(task) {
            self.bytes += block(&bytes)?;
        }
        Ok(())
    }

    /// Receives until nothing more comes. The time begins with the first bytes, which a reader waits for.
    pub(crate) fn receive(mut block: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Self> {
        let mut buffer = vec![0; BLOCK_BYTES];
        let first = block(&mut buffer)?;
        let mut meter = Self { bytes: first, ..Self::begin() };
        loop {
            match block(&mut buffer)? {
                0 => return Ok(meter),
                count => meter.received(count),
            }
        }
    }

    pub(crate) fn goes_on(&self, task: &Task) -> bool {
        self.began.elapsed() < Duration::from_secs_f64(task.seconds)
    }

    /// Returns the time since the latest bytes of a reader.
    pub(crate) fn silence(&self) -> Duration {
        self.latest.elapsed()
    }

    pub(crate) const fn sent(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.latest = Instant::now();
        self.bytes += bytes;
    }

    /// Returns a source's figures up to now, with the packets that it sent again.
    pub(crate) fn of_source(&self, again: u64) -> Told {
        Told { again: again as f64, ..self.told(Instant::now()) }
    }

    /// Returns a reader's figures up to its latest bytes.
    pub(crate) fn of_reader(&self) -> Told {
        self.told(self.latest)
    }

    fn told(&self, until: Instant) -> Told {
        let seconds = (until - self.began).as_secs_f64();
        let cpu_seconds = cpu_seconds(Whose::Process) - self.cpu_before;
        Told { bytes: self.bytes as f64, seconds, cpu_seconds, again: 0.0 }
    }
}
