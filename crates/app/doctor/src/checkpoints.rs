//! Checkpoints on the path through this network namespace, and holes between them.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bpf::{HookError, Overlooked};
use diagnose::{DropEvent, Passage, Passed, Profile, Trail};
use sys::counters;
use units::Instant;

use crate::wanted::Wanted;

/// Streams as they pass checkpoints of this namespace.
#[derive(Debug)]
pub struct Checkpoints {
    kernel: bpf::Checkpoints,
    /// Number of this namespace; `None` where it cannot be seen, and then all are taken.
    namespace: Option<u32>,
    trail: Trail,
    passed: BTreeMap<Passage, Passed>,
    counted: Counted,
    /// Events that were overlooked until the last snapshot.
    overlooked: Overlooked,
    /// End of the time in which missing numbers may have passed unseen.
    doubts_until: Instant,
    /// Number of missing datagrams that may have passed unseen.
    doubtful: u64,
}

/// Duration of doubt after overlooked packets: a hole shows only when the next number passes.
const DOUBT: Duration = Duration::from_secs(1);

/// Packets received by this host, as the programs counted them and as the kernel did, at one moment.
#[derive(Clone, Debug)]
struct Counted {
    seen: u64,
    by_processors: Vec<u32>,
}

impl Checkpoints {
    /// Starts to watch passing datagrams.
    ///
    /// # Errors
    /// [`HookError`]: mostly that this process has no permission.
    pub fn begin(wanted: &Wanted, profiles: &[Profile]) -> Result<Self, HookError> {
        let kernel = bpf::Checkpoints::load(&wanted.few_ports(), profiles)?;
        let unknown = |error: io::Error| HookError::Refused(error.to_string());
        // The seen count first: packets between the two reads are then counted by both from now on, or by the kernel
        // only before.
        let seen = kernel.received().map_err(unknown)?;
        let by_processors = counters::received_by_processors().map_err(unknown)?;
        let namespace = sys::process::network_namespace();
        Ok(Self {
            kernel,
            namespace,
            trail: Trail::default(),
            passed: BTreeMap::new(),
            counted: Counted { seen, by_processors },
            overlooked: Overlooked::default(),
            doubts_until: Instant::ORIGIN,
            doubtful: 0,
        })
    }

    /// Collects the passed numbers; before the drop events, so that every dropped datagram has its event.
    pub(crate) fn collect(&mut self, now: Instant) {
        // The passed numbers first: they are then known for later jumps.
        if self.trail.is_due(now) {
            self.collect_what_passed();
        }
        let mut jumps = Vec::new();
        self.kernel.drain(&mut jumps);
        for (at, passage, jump) in jumps.iter().filter(|(_, passage, _)| is_here(self.namespace, passage)) {
            self.trail.jump(*at, *passage, jump);
        }
    }

    /// Takes new drop events of this namespace; returns datagrams that are finally missing, as events.
    pub(crate) fn settle(&mut self, now: Instant, events: &[DropEvent]) -> io::Result<Vec<DropEvent>> {
        self.trail.explain(events);
        if !self.trail.is_due(now) {
            return Ok(Vec::new());
        }
        if self.has_overlooked()? {
            self.doubts_until = now + DOUBT;
        }
        if now < self.doubts_until {
            self.doubtful += self.trail.forget_received();
        }
        Ok(self.trail.settle(now, &self.passed))
    }

    /// Ends and returns everything that is missing.
    pub(crate) fn finish(&mut self) -> Vec<DropEvent> {
        self.collect_what_passed();
        self.trail.finish(&self.passed)
    }

    /// Returns the numbers passed in this namespace, as far as they were collected.
    #[must_use]
    pub const fn passed(&self) -> &BTreeMap<Passage, Passed> {
        &self.passed
    }

    /// Returns the count of numbers that were missing at reception and are not reported as lost: the programs did not
    /// see every packet then.
    #[must_use]
    pub const fn doubtful(&self) -> u64 {
        self.doubtful
    }

    fn collect_what_passed(&mut self) {
        self.passed = self.kernel.passed();
        self.passed.retain(|passage, _| is_here(self.namespace, passage));
    }

    /// Returns whether something may have passed unseen since the last call.
    fn has_overlooked(&mut self) -> io::Result<bool> {
        // The kernel's count first: packets between the two reads then count as seen rather than missed.
        let by_processors = counters::received_by_processors()?;
        let seen = self.kernel.received()?;
        let overlooked = self.kernel.overlooked()?;
        let rises = by_processors.iter().zip(&self.counted.by_processors);
        let counted: u64 = rises.map(|(now, then)| u64::from(now.wrapping_sub(*then))).sum();
        let is_blind = counted > seen - self.counted.seen;
        let has_overlooked = is_blind || overlooked != self.overlooked;
        if is_blind {
            self.counted = Counted { seen, by_processors };
        }
        self.overlooked = overlooked;
        Ok(has_overlooked)
    }
}

fn is_here(namespace: Option<u32>, passage: &Passage) -> bool {
    namespace.is_none_or(|ours| passage.namespace == ours)
}
