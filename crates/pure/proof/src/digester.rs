//! Digester: takes numbered samples in their order and returns the leaf digests of each interval.
//!
//! The publisher and whoever verifies use the same one. What is passed over was not numbered (or, at a reader, did
//! not arrive): which elements a leaf has is part of its digest. An interval without any has no digest and is no
//! link of the chain. Start with [`Digester::take`].

use sample::Dtype;

use crate::digest::{Digest, Subject, finish};
use crate::{Grid, MAX_LEAVES};

/// Digests of an interval in which something was numbered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// Number of the interval, from 0.
    pub number: u64,
    leaves: [Digest; MAX_LEAVES],
    count: u8,
}

/// Digests of the numbered samples of one epoch.
pub struct Digester {
    grid: Grid,
    element_bytes: usize,
    is_bool: bool,
    /// Hasher of a leaf, before its elements.
    leaf_hasher: blake3::Hasher,
    /// Position from which elements are taken: everything before was taken or passed over.
    next: u64,
    /// Elements of the current leaf: their bytes, and their ranges relative to its start.
    bytes: Vec<u8>,
    ranges: Vec<(u32, u32)>,
    /// Leaf of `bytes`, counted from the epoch's beginning.
    leaf: u64,
    interval: Option<Interval>,
}

impl Interval {
    /// Returns the digests of the leaves, in their order.
    #[must_use]
    pub fn leaves(&self) -> &[Digest] {
        &self.leaves[..usize::from(self.count)]
    }
}

impl Digester {
    /// Begins an epoch.
    #[must_use]
    pub fn new(subject: &Subject, grid: Grid, dtype: Dtype) -> Self {
        let element_bytes = dtype.size_bytes();
        Self {
            grid,
            element_bytes,
            is_bool: dtype == Dtype::Bool,
            leaf_hasher: subject.leaf(),
            next: 0,
            bytes: Vec::with_capacity(grid.leaf_elements() as usize * element_bytes),
            ranges: Vec::with_capacity(16),
            leaf: 0,
            interval: None,
        }
    }

    /// Returns the position before which everything was taken or passed over.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Takes consecutive elements from `position` on, little-endian; `done` receives each interval that is over.
    ///
    /// Elements before those already taken are ignored: an element is numbered once.
    ///
    /// Cost: a copy and a hash of the bytes, no allocation; `docs/protocol/proof.md` has the figures, measured by the
    /// example `signed_archive` of the archive.
    ///
    /// # Panics
    /// If the bytes are no whole elements.
    pub fn take(&mut self, position: u64, bytes: &[u8], done: &mut impl FnMut(&Interval)) {
        assert!(bytes.len().is_multiple_of(self.element_bytes), "whole elements");
        let end = position + (bytes.len() / self.element_bytes) as u64;
        let mut from = position.max(self.next);
        while from < end {
            let leaf = from / u64::from(self.grid.leaf_elements());
            self.enter(leaf, done);
            let leaf_start = leaf * u64::from(self.grid.leaf_elements());
            let until = end.min(leaf_start + u64::from(self.grid.leaf_elements()));
            let at = |position_at: u64| (position_at - position) as usize * self.element_bytes;
            self.append((from - leaf_start) as u32, (until - from) as u32, &bytes[at(from)..at(until)]);
            from = until;
        }
        self.next = self.next.max(end);
    }

    /// Records that no element before `position` follows; `done` receives the interval if it is over.
    pub fn pass(&mut self, position: u64, done: &mut impl FnMut(&Interval)) {
        self.next = self.next.max(position);
        let interval = self.grid.interval_of(self.next);
        if self.interval.is_some_and(|current| current.number < interval) {
            self.finish(done);
        }
    }

    /// Ends the epoch: an interval that is not full is over as well.
    pub fn finish(&mut self, done: &mut impl FnMut(&Interval)) {
        self.close_leaf();
        if let Some(interval) = self.interval.take() {
            done(&interval);
        }
    }

    fn enter(&mut self, leaf: u64, done: &mut impl FnMut(&Interval)) {
        if leaf != self.leaf {
            self.close_leaf();
            self.leaf = leaf;
        }
        let number = leaf / self.grid.leaves() as u64;
        if self.interval.is_none_or(|current| current.number != number) {
            self.finish(done);
            let count = u8::try_from(self.grid.leaves()).expect("at most eight leaves");
            self.interval = Some(Interval { number, leaves: [Digest::NOTHING; MAX_LEAVES], count });
        }
    }

    fn append(&mut self, start: u32, len: u32, bytes: &[u8]) {
        match self.ranges.last_mut() {
            Some((begun, so_far)) if *begun + *so_far == start => *so_far += len,
            _ => self.ranges.push((start, len)),
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if self.is_bool {
            // An archive keeps true and false only.
            self.bytes[from..].iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }

    /// Digests the current leaf: subject, position, elements, ranges, number of ranges.
    fn close_leaf(&mut self) {
        if self.ranges.is_empty() {
            return;
        }
        let mut hasher = self.leaf_hasher.clone();
        let position = self.leaf * u64::from(self.grid.leaf_elements());
        hasher.update(&position.to_le_bytes());
        hasher.update(&self.bytes);
        for (start, len) in &self.ranges {
            hasher.update(&start.to_le_bytes());
            hasher.update(&len.to_le_bytes());
        }
        let count = u32::try_from(self.ranges.len()).expect("fewer ranges than elements of a leaf");
        hasher.update(&count.to_le_bytes());
        let interval = self.interval.as_mut().expect("elements are taken within an interval");
        interval.leaves[(self.leaf % self.grid.leaves() as u64) as usize] = finish(&hasher);
        self.bytes.clear();
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{GRID, bytes, subject};

    fn digests(parts: &[(u64, u64)]) -> Vec<Interval> {
        let mut digester = Digester::new(&subject(), GRID, Dtype::U16);
        let mut found = Vec::new();
        for &(position, count) in parts {
            digester.take(position, &bytes(position..position + count), &mut |it| found.push(*it));
        }
        digester.finish(&mut |it| found.push(*it));
        found
    }

    #[test]
    fn digests_do_not_depend_on_how_the_samples_were_handed_over() {
        let whole = digests(&[(0, 100)]);
        assert_eq!(whole.iter().map(|it| it.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let single: Vec<(u64, u64)> = (0..100).map(|at| (at, 1)).collect();
        assert_eq!(digests(&single), whole);
        assert_eq!(digests(&[(0, 37), (30, 20), (50, 50)]), whole, "an element is taken once");
    }

    #[test]
    fn which_elements_were_numbered_is_part_of_a_digest() {
        let (whole, holed) = (digests(&[(0, 60)]), digests(&[(0, 33), (35, 25)]));
        assert_eq!(whole[0], holed[0]);
        assert_ne!(whole[1].leaves()[0], holed[1].leaves()[0]);
        assert_eq!(whole[1].leaves()[1..], holed[1].leaves()[1..], "other leaves are as they were");
        // The same bytes at other places of the leaf.
        let mut moved = Digester::new(&subject(), GRID, Dtype::U16);
        let mut digest = |at| {
            let mut found = Vec::new();
            moved.take(at, &[1, 2, 3, 4], &mut |it: &Interval| found.push(*it));
            moved.finish(&mut |it| found.push(*it));
            found[0].leaves().to_vec()
        };
        assert_ne!(digest(3), digest(5));
    }

    #[test]
    fn an_interval_without_numbered_elements_has_no_digest() {
        let found = digests(&[(0, 30), (300, 5)]);
        assert_eq!(found.iter().map(|it| it.number).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(found[1].leaves()[1..], [Digest::NOTHING; 2]);
    }

    #[test]
    fn an_interval_is_over_when_everything_behind_it_is_passed() {
        let mut digester = Digester::new(&subject(), GRID, Dtype::U16);
        let mut found = 0;
        digester.take(0, &bytes(0..10), &mut |_| found += 1);
        digester.pass(29, &mut |_| found += 1);
        assert_eq!(found, 0);
        digester.pass(30, &mut |_| found += 1);
        assert_eq!(found, 1);
    }

    #[test]
    fn truth_has_one_digest_whatever_byte_stands_for_it() {
        let digest = |byte| {
            let mut found = Vec::new();
            let mut digester = Digester::new(&subject(), GRID, Dtype::Bool);
            digester.take(0, &[byte, 0], &mut |it: &Interval| found.push(*it));
            digester.finish(&mut |it| found.push(*it));
            found
        };
        assert_eq!(digest(1), digest(7));
        assert_ne!(digest(1), digest(0));
    }

    #[test]
    fn the_steady_path_allocates_nothing() {
        let mut digester = Digester::new(&subject(), GRID, Dtype::U16);
        let (data, mut intervals) = (bytes(0..1_000), 0);
        let counted = allocation_counter::measure(|| {
            for (at, part) in data.chunks(14).enumerate() {
                digester.take(at as u64 * 7, part, &mut |_| intervals += 1);
            }
        });
        assert_eq!((counted.count_total, intervals), (0, 33));
    }
}
