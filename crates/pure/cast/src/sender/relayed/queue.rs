//! Elements and holes that wait to be numbered, in the order of their positions, cut to datagrams when they leave.
//!
//! As the [queue](crate::sender::queue) of whole samples, for blocks that may begin and end inside a sample: what is
//! not whole leaves as a piece of its sample.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use ledger::Stage;
use sample::Schema;
use units::{Instant, SampleRate, WallTime};
use wire::{Clock, Fit, Skipped};

use super::{ElementTimes, Slice};

/// Buffers kept for reuse, so that the steady path allocates nothing.
const MAX_SPARE_BUFFERS: usize = 64;
/// Size up to which contiguous blocks are appended to one run, so that few datagrams have to be joined from two.
const MAX_RUN_BYTES: usize = 128 * 1024;

/// Elements and holes in the order of the stream.
#[derive(Clone, Debug)]
pub(super) struct ElementQueue {
    rate: SampleRate,
    /// Maximum deviation of a run's time from the time that the previous run predicts.
    time_tolerance: Duration,
    element_bytes: usize,
    per_sample: u64,
    fit: Fit,
    linger: Duration,
    /// Position of the front: everything below has left or was skipped.
    position: u64,
    items: VecDeque<Item>,
    /// Births of the elements, each from a position on to the next.
    births: VecDeque<(u64, Option<Instant>)>,
    /// Bytes of elements in `items` that have not left yet.
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Payload of a datagram that spans several runs.
    joined: Vec<u8>,
}

/// The next item to leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A slice for one datagram.
    Slice(Slice),
    /// Elements that never get a number.
    Hole(Skipped),
    /// Too few elements for a datagram: they wait for more until this time.
    Wait(Instant),
    /// The queue is empty.
    Empty,
}

#[derive(Clone, Debug)]
enum Item {
    Elements(Run),
    Hole(Skipped),
}

/// Consecutive elements as they were handed over.
#[derive(Clone, Debug)]
struct Run {
    /// Sample of the run's first element, and its time.
    anchor: (u64, WallTime),
    /// Clock of that time.
    clock: Clock,
    first_position: u64,
    since: Instant,
    memory: Vec<u8>,
    /// Number of elements that have left already.
    taken: usize,
    /// Start of the newest block of the run in elements, and its arrival: once all before it has left, `since` is this
    /// time.
    newest: Option<(usize, Instant)>,
}

impl Run {
    /// Returns the number of elements that have not left.
    const fn left(&self, element_bytes: usize) -> usize {
        self.memory.len() / element_bytes - self.taken
    }

    fn rest(&self, element_bytes: usize) -> &[u8] {
        &self.memory[self.taken * element_bytes..]
    }
}

impl ElementQueue {
    pub(super) fn new(schema: &Schema, fit: Fit, linger: Duration, first_position: u64) -> Self {
        Self {
            rate: schema.rate,
            time_tolerance: schema.time_tolerance(),
            element_bytes: schema.dtype.size_bytes(),
            per_sample: u64::from(schema.elements_per_sample()),
            fit,
            linger,
            position: first_position,
            items: VecDeque::new(),
            births: VecDeque::new(),
            waiting_bytes: 0,
            spare: Vec::new(),
            joined: Vec::new(),
        }
    }

    /// Adds elements behind the last, with the time of the sample of the first, and when they were born if that is known.
    pub(super) fn push(
        &mut self,
        now: Instant,
        position: u64,
        ElementTimes { t0, clock, born }: ElementTimes,
        bytes: &[u8],
    ) {
        if bytes.is_empty() {
            return;
        }
        if self.births.back().map_or(born.is_some(), |(_, last)| *last != born) {
            self.births.push_back((position, born));
            self.forget_births();
        }
        self.waiting_bytes += bytes.len();
        let index = position / self.per_sample;
        if let Some(Item::Elements(run)) = self.items.back_mut()
            && run.memory.len() + bytes.len() <= MAX_RUN_BYTES
            && self.rate.time_of(index, run.anchor.0, run.anchor.1) == t0
            && run.clock == clock
        {
            run.newest = Some((run.memory.len() / self.element_bytes, now));
            run.memory.extend_from_slice(bytes);
            return;
        }
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(bytes);
        let (anchor, first_position) = ((index, t0), position);
        let run = Run { anchor, clock, first_position, since: now, memory, taken: 0, newest: None };
        self.items.push_back(Item::Elements(run));
    }

    pub(super) fn push_hole(&mut self, hole: Skipped) {
        if hole.positions.is_empty() {
            return;
        }
        // Holes behind elements that wait for a secret are one, however long that takes.
        if let Some(Item::Hole(last)) = self.items.back_mut()
            && goes_on_with(last, &hole)
        {
            last.positions.end = hole.positions.end;
            return;
        }
        self.items.push_back(Item::Hole(hole));
    }

    /// Gives what was inherited within these positions its new outcome.
    pub(super) fn settle(&mut self, settled: &Skipped) {
        if settled.positions.end <= self.position {
            return;
        }
        for item in core::mem::take(&mut self.items) {
            let hole = match item {
                Item::Hole(hole) if hole.inherited.is_some() => hole,
                other => {
                    self.items.push_back(other);
                    continue;
                }
            };
            let Range { start, end } = hole.positions;
            let within = start.max(settled.positions.start)..end.min(settled.positions.end);
            if within.is_empty() {
                self.items.push_back(Item::Hole(hole));
                continue;
            }
            let [below, above] = without(hole, &settled.positions);
            let within = Skipped { positions: within, ..settled.clone() };
            [below, within, above].into_iter().for_each(|hole| self.push_hole(hole));
        }
    }

    /// Returns when the element at the front was born.
    pub(super) fn born(&self) -> Option<Instant> {
        self.births.front().filter(|(start, _)| *start <= self.position).and_then(|(_, born)| *born)
    }

    /// Returns the clock of the element at the front; unknown if there is none.
    pub(super) fn clock(&self) -> Clock {
        match self.items.front() {
            Some(Item::Elements(run)) => run.clock,
            Some(Item::Hole(_)) | None => Clock::Unknown,
        }
    }

    /// Sets the position of the front.
    fn reach(&mut self, position: u64) {
        self.position = position;
        self.forget_births();
    }

    /// Forgets the births of elements that have left; the first of the others is the one of the front.
    fn forget_births(&mut self) {
        while self.births.get(1).is_some_and(|(start, _)| *start <= self.position) {
            self.births.pop_front();
        }
    }

    /// Returns the position of the front.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes of elements that have not left yet.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) const fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Returns the next item to leave at `now`; with `flush` nothing waits for more elements.
    pub(super) fn next(&self, now: Instant, flush: bool) -> Next {
        let run = match self.items.front() {
            None => return Next::Empty,
            Some(Item::Hole(hole)) => return self.next_hole(hole, flush),
            Some(Item::Elements(run)) => run,
        };
        let position = run.first_position + run.taken as u64;
        let (index, offset) = (position / self.per_sample, position % self.per_sample);
        let limit = self.limit(offset);
        let (available, closed) = self.contiguous(limit);
        let due = run.since + self.linger;
        if available < limit && !closed && !flush && now < due {
            return Next::Wait(due);
        }
        let mut count = available.min(limit);
        // Whole samples, or a piece of one.
        if count > self.per_sample {
            count -= count % self.per_sample;
        }
        Next::Slice(Slice {
            first_index: index,
            element_offset: u32::try_from(offset).expect("within a sample"),
            element_count: u32::try_from(count).expect("a datagram's elements"),
            t0: self.rate.time_of(index, run.anchor.0, run.anchor.1),
        })
    }

    /// Returns what of a hole at the front leaves. A pause goes from sample to sample, because there alone readers join:
    /// within a sample none would be heard that ends it.
    fn next_hole(&self, hole: &Skipped, flush: bool) -> Next {
        let Range { start, end } = hole.positions;
        let goes_on = hole.stage == Stage::PublisherPaused && self.items.len() == 1 && !flush;
        let end = if goes_on { end - end % self.per_sample } else { end };
        if end <= start {
            return Next::Empty;
        }
        Next::Hole(Skipped { positions: start..end, ..hole.clone() })
    }

    /// Returns how many elements a datagram may have from this offset of a sample on.
    fn limit(&self, offset: u64) -> u64 {
        let rest = self.per_sample - offset;
        match self.fit {
            Fit::Samples(samples) if offset == 0 => u64::from(samples) * self.per_sample,
            Fit::Samples(_) => rest,
            Fit::Pieces(elements) => rest.min(u64::from(elements)),
        }
    }

    /// Counts contiguous elements from the front up to `limit`, and returns whether a break follows them.
    fn contiguous(&self, limit: u64) -> (u64, bool) {
        let mut elements = 0;
        let mut first = None;
        for item in &self.items {
            let Item::Elements(run) = item else { return (elements, true) };
            let ((index, t0), clock) = *first.get_or_insert((run.anchor, run.clock));
            let expected = self.rate.time_of(run.anchor.0, index, t0);
            // A datagram has one time, and readers compute the others from it: [`Schema::time_tolerance`].
            let off_by = Duration::from_nanos(run.anchor.1.nanos_since(expected).unsigned_abs());
            if off_by > self.time_tolerance || run.clock != clock {
                return (elements, true);
            }
            elements += run.left(self.element_bytes) as u64;
            if elements >= limit {
                break;
            }
        }
        (elements, false)
    }

    /// Returns the payload of the next slice.
    pub(super) fn payload(&mut self, slice: &Slice) -> &[u8] {
        let size = self.element_bytes;
        let wanted = slice.element_count as usize * size;
        let is_in_one =
            matches!(self.items.front(), Some(Item::Elements(run)) if run.rest(size).len() >= wanted);
        if is_in_one && let Some(Item::Elements(run)) = self.items.front() {
            return &run.rest(size)[..wanted];
        }
        self.joined.clear();
        for item in &self.items {
            let Item::Elements(run) = item else { break };
            let rest = run.rest(size);
            let missing = wanted - self.joined.len();
            self.joined.extend_from_slice(&rest[..rest.len().min(missing)]);
            if self.joined.len() == wanted {
                break;
            }
        }
        &self.joined
    }

    /// Removes the next slice; returns the position behind it.
    pub(super) fn take_slice(&mut self, slice: &Slice) -> u64 {
        let mut left = slice.element_count as usize;
        self.waiting_bytes -= left * self.element_bytes;
        self.reach(self.position + u64::from(slice.element_count));
        while left > 0 {
            let Some(Item::Elements(run)) = self.items.front_mut() else { break };
            let part = left.min(run.left(self.element_bytes));
            run.taken += part;
            left -= part;
            if let Some((_, came)) = run.newest.take_if(|(begin, _)| *begin <= run.taken) {
                run.since = came;
            }
            if run.left(self.element_bytes) == 0 {
                self.drop_front_run();
            }
        }
        self.position
    }

    /// Removes the hole at the front, or its beginning.
    pub(super) fn take_hole(&mut self, taken: &Skipped) {
        self.reach(taken.positions.end);
        if let Some(Item::Hole(hole)) = self.items.front_mut() {
            hole.positions.start = self.position;
            if hole.positions.is_empty() {
                self.items.pop_front();
            }
        }
    }

    fn drop_front_run(&mut self) {
        let Some(Item::Elements(run)) = self.items.pop_front() else { return };
        if self.spare.len() < MAX_SPARE_BUFFERS {
            // Not cleared: the next use overwrites the content.
            self.spare.push(run.memory);
        }
    }
}

/// Returns whether another hole is just more of one.
pub(super) fn goes_on_with(hole: &Skipped, next: &Skipped) -> bool {
    hole.positions.end == next.positions.start && (hole.stage, hole.inherited) == (next.stage, next.inherited)
}

/// Returns what of a hole lies below a range, and what lies above it; either may be empty.
pub(super) fn without(hole: Skipped, range: &Range<u64>) -> [Skipped; 2] {
    let Range { start, end } = hole.positions;
    let below = start..end.min(range.start).max(start);
    let above = start.max(range.end).min(end)..end;
    [below, above].map(|positions| Skipped { positions, ..hole.clone() })
}

#[cfg(test)]
mod tests {
    use ledger::Outcome;
    use sample::{Channel, Dtype};
    use wire::Inherited;

    use super::*;

    const LINGER: Duration = Duration::from_millis(5);
    const UNSETTLED: Option<Inherited> = Some(Inherited { hop: 0, outcome: Outcome::Unsettled, cause: None });
    const NETWORK: Option<Inherited> =
        Some(Inherited { hop: 0, outcome: Outcome::Lost(Stage::Network), cause: None });

    /// Returns a queue of samples of this many bytes, at 1,000 Hz.
    fn queue(elements: u32, fit: Fit, first_position: u64, linger: Duration) -> ElementQueue {
        let channel = Channel::new("a", "V");
        let channel = if elements == 1 { channel } else { channel.with_shape([elements]) };
        let schema = Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), vec![channel]).unwrap();
        ElementQueue::new(&schema, fit, linger, first_position)
    }

    fn inherited(positions: Range<u64>, inherited: Option<Inherited>) -> Skipped {
        Skipped { positions, stage: Stage::Source, inherited }
    }

    /// Index, offset and bytes of a slice.
    type Left = (u64, u32, Vec<u8>);

    /// Takes everything that leaves now.
    fn left(queue: &mut ElementQueue, now: Instant) -> (Vec<Left>, Vec<Skipped>) {
        let (mut slices, mut holes) = (Vec::new(), Vec::new());
        loop {
            match queue.next(now, false) {
                Next::Slice(slice) => {
                    let bytes = queue.payload(&slice).to_vec();
                    assert_eq!(slice.t0, time(slice.first_index), "the time of its first sample");
                    slices.push((slice.first_index, slice.element_offset, bytes));
                    queue.take_slice(&slice);
                }
                Next::Hole(hole) => {
                    queue.take_hole(&hole);
                    holes.push(hole);
                }
                Next::Wait(_) | Next::Empty => return (slices, holes),
            }
        }
    }

    fn time(index: u64) -> WallTime {
        WallTime::from_nanos(index as i64 * 1_000_000)
    }

    fn times(index: u64, born: Option<Instant>) -> ElementTimes {
        ElementTimes { t0: time(index), clock: Clock::System, born }
    }

    #[test]
    fn what_begins_and_ends_inside_samples_leaves_as_pieces_and_what_is_between_as_whole_samples() {
        let mut queue = queue(4, Fit::Samples(2), 2, Duration::ZERO);
        let bytes: Vec<u8> = (2..23).collect();
        queue.push(Instant::ORIGIN, 2, times(0, None), &bytes);
        let (slices, _) = left(&mut queue, Instant::ORIGIN);
        let cut =
            |index: u64, offset: u32, positions: Range<u8>| (index, offset, positions.collect::<Vec<_>>());
        let cuts = [cut(0, 2, 2..4), cut(1, 0, 4..12), cut(3, 0, 12..20), cut(5, 0, 20..23)];
        assert_eq!(slices, cuts);
        assert_eq!((queue.position(), queue.waiting_bytes()), (23, 0));
    }

    #[test]
    fn pieces_end_with_their_sample_and_go_on_where_a_hole_inside_it_ends() {
        let mut queue = queue(10, Fit::Pieces(4), 0, Duration::ZERO);
        queue.push(Instant::ORIGIN, 0, times(0, None), &[0, 1, 2]);
        queue.push(Instant::ORIGIN, 3, times(0, None), &[3, 4]);
        queue.push_hole(inherited(5..7, NETWORK));
        queue.push(Instant::ORIGIN, 7, times(0, None), &[7, 8, 9, 10, 11]);
        let (slices, holes) = left(&mut queue, Instant::ORIGIN);
        let cuts = [(0, 0, vec![0, 1, 2, 3]), (0, 4, vec![4]), (0, 7, vec![7, 8, 9]), (1, 0, vec![10, 11])];
        assert_eq!((slices, holes), (cuts.to_vec(), vec![inherited(5..7, NETWORK)]));
    }

    #[test]
    fn each_datagram_has_the_birth_of_its_first_element_whatever_it_was_joined_from() {
        let at = |ms| Some(Instant::ORIGIN + Duration::from_millis(ms));
        let mut queue = queue(1, Fit::Samples(2), 0, Duration::ZERO);
        let births = [None, at(3), at(3), at(5), None, at(9)];
        for (position, born) in (0..).zip(births) {
            queue.push(Instant::ORIGIN, position, times(position, born), &[0]);
        }
        queue.push_hole(inherited(6..7, NETWORK));
        queue.push(Instant::ORIGIN, 7, times(7, at(11)), &[0]);
        let mut told = Vec::new();
        loop {
            match queue.next(Instant::ORIGIN, false) {
                Next::Slice(slice) => {
                    told.push((slice.first_index, queue.born()));
                    queue.take_slice(&slice);
                }
                Next::Hole(hole) => queue.take_hole(&hole),
                Next::Wait(_) | Next::Empty => break,
            }
        }
        assert_eq!(told, [(0, None), (2, at(3)), (4, None), (7, at(11))]);
        assert!(queue.births.len() <= 1, "those of what has left are forgotten");
    }

    #[test]
    fn elements_that_find_the_queue_empty_have_their_own_birth() {
        let at = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        let mut queue = queue(1, Fit::Samples(2), 0, Duration::ZERO);
        for (position, ms) in [(0, 3), (1, 1_003), (2, 2_003)] {
            queue.push(at(ms), position, times(position, Some(at(ms))), &[0]);
            let Next::Slice(slice) = queue.next(at(ms), false) else { panic!("nothing waits") };
            assert_eq!(queue.born(), Some(at(ms)));
            queue.take_slice(&slice);
        }
    }

    #[test]
    fn a_datagram_has_elements_of_one_clock_only() {
        let mut queue = queue(1, Fit::Samples(4), 0, LINGER);
        for (position, clock) in
            (0..).zip([Clock::Ptp, Clock::Ptp, Clock::Ptp, Clock::System, Clock::Other(9)])
        {
            queue.push(Instant::ORIGIN, position, ElementTimes { clock, ..times(position, None) }, &[0]);
        }
        let mut told = Vec::new();
        while let Next::Slice(slice) = queue.next(Instant::ORIGIN, true) {
            told.push((slice.first_index, slice.element_count, queue.clock()));
            queue.take_slice(&slice);
        }
        assert_eq!(told, [(0, 3, Clock::Ptp), (3, 1, Clock::System), (4, 1, Clock::Other(9))]);
    }

    #[test]
    fn elements_linger_for_the_rest_of_a_datagram_but_not_before_a_hole() {
        let mut queue = queue(1, Fit::Samples(4), 9, LINGER);
        queue.push(Instant::ORIGIN, 9, times(9, None), &[9]);
        assert_eq!(queue.next(Instant::ORIGIN, false), Next::Wait(Instant::ORIGIN + LINGER));
        assert!(matches!(queue.next(Instant::ORIGIN, true), Next::Slice(_)), "nothing lingers at the end");
        queue.push_hole(inherited(10..11, NETWORK));
        assert!(matches!(queue.next(Instant::ORIGIN, false), Next::Slice(_)), "no company can come");
    }

    #[test]
    fn nothing_is_joined_across_a_jump_in_time() {
        let mut queue = queue(1, Fit::Samples(4), 0, Duration::ZERO);
        queue.push(Instant::ORIGIN, 0, times(0, None), &[0]);
        queue.push(Instant::ORIGIN, 1, times(7, None), &[1]);
        let Next::Slice(first) = queue.next(Instant::ORIGIN, false) else { panic!("a slice") };
        assert_eq!((first.element_count, queue.payload(&first)), (1, &[0][..]));
        queue.take_slice(&first);
        let Next::Slice(second) = queue.next(Instant::ORIGIN, false) else { panic!("a slice") };
        assert_eq!((second.first_index, second.t0), (1, time(7)));
    }

    #[test]
    fn holes_are_one_while_their_outcome_is_the_same_and_settle_before_they_leave() {
        let mut queue = queue(1, Fit::Samples(4), 0, Duration::ZERO);
        queue.push_hole(inherited(0..3, UNSETTLED));
        queue.push_hole(inherited(3..9, UNSETTLED));
        queue.push(Instant::ORIGIN, 9, times(9, None), &[9]);
        queue.push_hole(inherited(10..12, UNSETTLED));
        queue.push_hole(inherited(12..12, NETWORK));
        queue.settle(&inherited(4..6, NETWORK));
        queue.settle(&inherited(11..12, NETWORK));
        let (slices, holes) = left(&mut queue, Instant::ORIGIN);
        assert_eq!(slices, [(9, 0, vec![9])]);
        let expected =
            [(0..4, UNSETTLED), (4..6, NETWORK), (6..9, UNSETTLED), (10..11, UNSETTLED), (11..12, NETWORK)];
        assert_eq!(holes, expected.map(|(positions, outcome)| inherited(positions, outcome)));
    }

    #[test]
    fn a_pause_goes_from_sample_to_sample_until_something_follows_it() {
        let paused = |positions| Skipped { positions, stage: Stage::PublisherPaused, inherited: None };
        let mut queue = queue(10, Fit::Samples(4), 7, Duration::ZERO);
        queue.push_hole(paused(7..9));
        assert_eq!(left(&mut queue, Instant::ORIGIN).1, []);
        assert_eq!(queue.next(Instant::ORIGIN, true), Next::Hole(paused(7..9)), "nothing stays at the end");
        queue.push_hole(paused(9..25));
        assert_eq!(left(&mut queue, Instant::ORIGIN).1, [paused(7..20)]);
        queue.push(Instant::ORIGIN, 25, times(2, None), &[25]);
        assert_eq!(left(&mut queue, Instant::ORIGIN), (vec![(2, 5, vec![25])], vec![paused(20..25)]));
        assert_eq!(queue.position(), 26);
    }

    #[test]
    fn long_runs_give_their_memory_to_what_comes() {
        let mut queue = queue(1, Fit::Samples(1_000), 0, Duration::ZERO);
        let block = vec![7; MAX_RUN_BYTES - 1];
        queue.push(Instant::ORIGIN, 0, times(0, None), &block);
        queue.push(Instant::ORIGIN, block.len() as u64, times(block.len() as u64, None), &[1, 2]);
        assert_eq!((queue.items.len(), queue.waiting_bytes()), (2, MAX_RUN_BYTES + 1));
        let (slices, _) = left(&mut queue, Instant::ORIGIN);
        assert!(slices[..131].iter().all(|(_, _, bytes)| bytes.len() == 1_000), "joined over the runs");
        assert_eq!((queue.spare.len(), queue.waiting_bytes()), (2, 0));
    }
}
