//! Samples of a stream that wait to be sent, and their division into messages.

use core::ops::Range;
use std::collections::VecDeque;

use sample::{Dtype, Schema};
use units::{Instant, SampleRate, WallTime};
use wire::Clock;

/// Samples as they came, less those that were sent.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) positions: Range<u64>,
    /// Time of the sample in which it began.
    pub(super) t0: WallTime,
    /// Index of that sample.
    pub(super) t0_index: u64,
    pub(super) clock: Clock,
    pub(super) born: Instant,
    /// Time at which it came to this end.
    pub(super) entered: Instant,
    /// Elements that were missing before it.
    pub(super) missing_before: u64,
    bytes: Vec<u8>,
    /// Bytes of elements that were taken.
    taken: usize,
}

/// Elements of a piece for one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Slice<'a> {
    pub(super) positions: Range<u64>,
    /// Time of the sample in which it begins.
    pub(super) t0: WallTime,
    pub(super) clock: Clock,
    pub(super) born: Instant,
    pub(super) missing_before: u64,
    pub(super) bytes: &'a [u8],
}

/// End of the queue at which samples are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    Oldest,
    Newest,
}

/// Form of a stream's samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Form {
    pub(super) dtype: Dtype,
    pub(super) per_sample: u32,
    pub(super) rate: SampleRate,
}

/// Samples of a stream that wait to be sent, in the order of the stream.
#[derive(Clone, Debug)]
pub(super) struct LinkQueue {
    form: Form,
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Form {
    pub(super) fn of(schema: &Schema) -> Self {
        Self { dtype: schema.dtype, per_sample: schema.elements_per_sample(), rate: schema.rate }
    }

    pub(super) const fn element_bytes(&self) -> usize {
        self.dtype.size_bytes()
    }

    /// Returns how many of the elements from `start` on fit into `room_bytes`: whole samples, or a part of one that is
    /// larger; 0 if none fits.
    fn elements_within(&self, start: u64, room_bytes: usize) -> u64 {
        let fits = (room_bytes / self.element_bytes()) as u64;
        let per_sample = u64::from(self.per_sample);
        match start % per_sample {
            0 if fits >= per_sample => fits - fits % per_sample,
            offset => fits.min(per_sample - offset),
        }
    }
}

impl Piece {
    pub(super) fn new(
        form: &Form,
        elements: &super::Elements<'_>,
        born: Instant,
        entered: Instant,
        missing_before: u64,
    ) -> Self {
        Self {
            positions: elements.positions.clone(),
            t0: elements.t0,
            t0_index: elements.positions.start / u64::from(form.per_sample),
            clock: elements.clock,
            born,
            entered,
            missing_before,
            bytes: elements.bytes.to_vec(),
            taken: 0,
        }
    }

    fn skip(&mut self, elements: u64, element_bytes: usize) {
        self.positions.start += elements;
        self.taken += usize::try_from(elements).expect("elements in memory") * element_bytes;
    }

    fn left_bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

impl LinkQueue {
    pub(super) const fn new(form: Form) -> Self {
        Self { form, pieces: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, piece: Piece) {
        self.bytes += piece.left_bytes();
        self.pieces.push_back(piece);
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the oldest piece.
    pub(super) fn oldest(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Takes the elements that fit into one message with this room, and passes them on; `None` if there are none, or
    /// not even one fits.
    pub(super) fn take<T>(
        &mut self,
        from: From,
        room_bytes: usize,
        pass: impl FnOnce(&Slice<'_>) -> T,
    ) -> Option<T> {
        let place = match from {
            From::Oldest => 0,
            From::Newest => self.pieces.len().checked_sub(1)?,
        };
        let piece = self.pieces.get_mut(place)?;
        let Range { start, end } = piece.positions;
        let count = self.form.elements_within(start, room_bytes).min(end - start);
        // A sample whose rest follows in the next piece is cut here, and one that fits not whole behind others, too.
        let per_sample = u64::from(self.form.per_sample);
        let whole = count - count % per_sample;
        let count = if start.is_multiple_of(per_sample) && whole > 0 { whole } else { count };
        if count == 0 {
            return None;
        }
        let len = usize::try_from(count).expect("elements in memory") * self.form.element_bytes();
        let slice = Slice {
            positions: start..start + count,
            t0: self.form.rate.time_of(start / per_sample, piece.t0_index, piece.t0),
            clock: piece.clock,
            born: piece.born,
            missing_before: piece.missing_before,
            bytes: &piece.bytes[piece.taken..piece.taken + len],
        };
        let passed = pass(&slice);
        piece.skip(count, self.form.element_bytes());
        self.bytes -= len;
        if piece.positions.is_empty() {
            self.pieces.remove(place);
        }
        Some(passed)
    }

    /// Removes the oldest piece.
    pub(super) fn pop_oldest(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.left_bytes();
        Some(piece)
    }

    /// Removes everything before a position.
    pub(super) fn drop_below(&mut self, position: u64) {
        while let Some(piece) = self.pieces.front_mut() {
            if piece.positions.end > position {
                let elements = position.saturating_sub(piece.positions.start);
                let before = piece.left_bytes();
                piece.skip(elements, self.form.element_bytes());
                self.bytes -= before - piece.left_bytes();
                return;
            }
            self.pop_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use sample::Dtype;

    use super::super::Elements;
    use super::*;

    fn queue(per_sample: u32) -> LinkQueue {
        LinkQueue::new(Form { dtype: Dtype::U8, per_sample, rate: SampleRate::hz(1_000).unwrap() })
    }

    fn push(queue: &mut LinkQueue, positions: Range<u64>) {
        let bytes: Vec<u8> = positions.clone().map(|position| position.to_le_bytes()[0]).collect();
        let t0 = queue.form.rate.time_of(
            positions.start / u64::from(queue.form.per_sample),
            0,
            WallTime::from_nanos(0),
        );
        let elements =
            Elements { positions, t0, clock: Clock::System, bytes: &bytes, age: core::time::Duration::ZERO };
        let piece = Piece::new(&queue.form, &elements, Instant::ORIGIN, Instant::ORIGIN, 0);
        queue.push(piece);
    }

    fn cuts(queue: &mut LinkQueue, from: From, room_bytes: usize) -> Vec<(Range<u64>, i64)> {
        core::iter::from_fn(|| {
            queue.take(from, room_bytes, |slice| {
                assert!(
                    slice
                        .positions
                        .clone()
                        .map(|position| position.to_le_bytes()[0])
                        .eq(slice.bytes.iter().copied())
                );
                (slice.positions.clone(), slice.t0.as_nanos())
            })
        })
        .collect()
    }

    #[test]
    fn whole_samples_are_sent_where_they_fit() {
        let mut all = queue(4);
        push(&mut all, 8..28);
        assert_eq!(
            cuts(&mut all, From::Oldest, 11),
            [(8..16, 2_000_000), (16..24, 4_000_000), (24..28, 6_000_000)]
        );
        assert_eq!((all.bytes(), all.is_empty()), (0, true));
    }

    #[test]
    fn a_sample_larger_than_a_message_is_cut_and_positions_are_kept() {
        let mut all = queue(10);
        push(&mut all, 10..30);
        let cut = cuts(&mut all, From::Oldest, 4);
        let positions: Vec<_> = cut.iter().map(|(positions, _)| positions.clone()).collect();
        assert_eq!(positions, [10..14, 14..18, 18..20, 20..24, 24..28, 28..30]);
        assert_eq!(cut[2].1, 1_000_000, "the time is that of the sample");
        assert_eq!(cut[3].1, 2_000_000);
    }

    #[test]
    fn a_piece_may_begin_and_end_within_a_sample() {
        let mut all = queue(4);
        push(&mut all, 6..15);
        let positions: Vec<_> = cuts(&mut all, From::Oldest, 100).into_iter().map(|cut| cut.0).collect();
        assert_eq!(positions, [6..8, 8..12, 12..15]);
    }

    #[test]
    fn the_newest_piece_is_taken_from_its_start() {
        let mut all = queue(1);
        push(&mut all, 0..4);
        push(&mut all, 4..8);
        let positions: Vec<_> = cuts(&mut all, From::Newest, 3).into_iter().map(|cut| cut.0).collect();
        assert_eq!(positions, [4..7, 7..8, 0..3, 3..4]);
    }

    #[test]
    fn what_lies_below_a_position_is_dropped() {
        let mut all = queue(1);
        push(&mut all, 0..4);
        push(&mut all, 4..8);
        all.drop_below(6);
        assert_eq!(all.bytes(), 2);
        assert_eq!(cuts(&mut all, From::Oldest, 9).into_iter().map(|cut| cut.0).collect::<Vec<_>>(), [6..8]);
    }

    #[test]
    fn no_message_is_too_short_for_an_element() {
        let mut all =
            LinkQueue::new(Form { dtype: Dtype::F8, per_sample: 1, rate: SampleRate::hz(1).unwrap() });
        let elements = Elements {
            positions: 0..1,
            t0: WallTime::from_nanos(0),
            clock: Clock::System,
            bytes: &[0; 8],
            age: core::time::Duration::ZERO,
        };
        all.push(Piece::new(&all.form, &elements, Instant::ORIGIN, Instant::ORIGIN, 0));
        assert!(all.take(From::Oldest, 7, |_| ()).is_none());
        assert!(all.take(From::Oldest, 8, |_| ()).is_some());
    }
}
