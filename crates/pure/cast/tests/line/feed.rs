//! Samples at their rate, whose bits follow from their position, with the holes of the scene.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use cast::Sender;
use cast::send::Input;
use ledger::Stage;
use sample::Schema;
use units::{Instant, Random, WallTime};

/// What a sender is fed with.
pub(crate) trait Source {
    /// Takes what has been produced until now.
    fn produce(&mut self, now: Instant);

    /// Passes it to the sender as it wants it.
    fn hand_over(&mut self, now: Instant, sender: &mut Sender);

    fn is_empty(&self) -> bool;

    /// Returns when more is produced, `None` after the last.
    fn next_due(&self) -> Option<Instant>;
}

/// A ring in front of a sender, filled by the clock.
pub(crate) struct Feed {
    schema: Schema,
    /// Salt that makes the bits of epochs differ.
    salt: u64,
    block_samples: u64,
    begin: Instant,
    end: Instant,
    holes: Holes,
    random: Random,
    next_block: u64,
    waiting: VecDeque<Piece>,
    payload: Vec<u8>,
}

/// Losses before numbering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holes {
    /// Probability that a block is missing at the source.
    pub(crate) source: f64,
    /// Number of blocks that the ring holds before it laps the sender.
    pub(crate) ring_blocks: usize,
}

struct Piece {
    first_index: u64,
    samples: u64,
    lost: Option<Stage>,
}

impl Holes {
    pub(crate) const NONE: Self = Self { source: 0.0, ring_blocks: usize::MAX };
}

impl Feed {
    pub(crate) fn new(
        schema: Schema,
        salt: u64,
        block_samples: u64,
        span: Range<Instant>,
        holes: Holes,
    ) -> Self {
        Self {
            schema,
            salt,
            block_samples,
            begin: span.start,
            end: span.end,
            holes,
            random: Random::for_purpose(salt, "feed"),
            next_block: 0,
            waiting: VecDeque::new(),
            payload: Vec::new(),
        }
    }
}

impl Source for Feed {
    /// Takes the samples that the source has produced until now; beyond the ring's capacity the oldest are lapped.
    fn produce(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            let lost = self.random.chance(self.holes.source).then_some(Stage::Source);
            let first_index = self.next_block * self.block_samples;
            self.waiting.push_back(Piece { first_index, samples: self.block_samples, lost });
            self.next_block += 1;
        }
        let lapped = self.waiting.len().saturating_sub(self.holes.ring_blocks);
        for piece in self.waiting.iter_mut().take(lapped) {
            piece.lost.get_or_insert(Stage::PublisherQueue);
        }
    }

    fn hand_over(&mut self, now: Instant, sender: &mut Sender) {
        while let Some(Piece { first_index, samples, lost }) = self.waiting.front() {
            let (first_index, samples) = (*first_index, *samples);
            if let Some(stage) = *lost {
                sender.handle(now, Input::Skipped { first_index, samples, stage });
            } else if sender.wants_samples() {
                self.payload.clear();
                self.payload.resize(self.schema.sample_bytes() * samples as usize, 0);
                let per_sample = u64::from(self.schema.elements_per_sample());
                let size = self.schema.dtype.size_bytes();
                fill(self.salt, first_index * per_sample, size, &mut self.payload);
                let t0 = self.schema.rate.time_of(first_index, 0, WallTime::from_nanos(0));
                sender.handle(now, Input::Samples { first_index, t0, bytes: &self.payload });
            } else {
                return;
            }
            self.waiting.pop_front();
        }
        let waiting = self.waiting.iter().filter(|piece| piece.lost.is_none()).map(|piece| piece.samples);
        let bytes = waiting.sum::<u64>() as usize * self.schema.sample_bytes();
        sender.handle(now, Input::Backlog(bytes));
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns when the next block is complete.
    fn next_due(&self) -> Option<Instant> {
        let due = self.begin + self.schema.rate.duration_of((self.next_block + 1) * self.block_samples);
        (due <= self.end + Duration::from_nanos(1)).then_some(due)
    }
}

/// Writes the elements from `position` on, each derived from its own position.
pub(crate) fn fill(salt: u64, position: u64, element_bytes: usize, bytes: &mut [u8]) {
    for (offset, element) in bytes.chunks_exact_mut(element_bytes).enumerate() {
        // The finaliser of MurmurHash3 (Appleby): every bit of the position moves every bit of the value.
        let mut mixed = (position + offset as u64) ^ salt;
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        let wide = (u128::from(!mixed) << 64 | u128::from(mixed)).to_le_bytes();
        element.copy_from_slice(&wide[..element_bytes]);
    }
}
