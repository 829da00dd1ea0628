//! Samples that wait to be numbered, in the order of the stream, cut to datagrams when they leave.

use core::time::Duration;
use std::collections::VecDeque;

use ledger::Stage;
use sample::Schema;
use units::{Instant, SampleRate, WallTime};
use wire::Fit;

/// Buffers kept for reuse, so that the steady path allocates nothing.
const MAX_SPARE_BUFFERS: usize = 64;
/// Size up to which contiguous blocks are appended to one run, so that few datagrams have to be joined from two.
const MAX_RUN_BYTES: usize = 128 * 1024;
/// Size from which a block becomes a run of its own if its memory may be kept: copying it would cost more than the
/// one datagram that is joined from it and the next.
const MIN_KEPT_BYTES: usize = 16 * 1024;

/// Samples and holes in the order of the stream.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    rate: SampleRate,
    /// Maximum deviation of a run's time from the time that the previous run predicts.
    time_tolerance: Duration,
    element_bytes: usize,
    /// Cached sum over the channels of the schema.
    elements_per_sample: u32,
    fit: Fit,
    linger: Duration,
    items: VecDeque<Item>,
    /// Samples in `items` that are not wholly numbered, and those of holes: all that are not accounted for yet.
    queued_samples: u64,
    /// Bytes of samples in `items` that have not left yet.
    waiting_bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Payload of a datagram that spans several items.
    joined: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Item {
    Samples(Run),
    Hole { first_index: u64, samples: u64, stage: Stage },
}

/// Consecutive samples as they were handed over.
#[derive(Clone, Debug)]
struct Run {
    first_index: u64,
    t0: WallTime,
    since: Instant,
    /// Buffer with the samples from `start` on.
    memory: Vec<u8>,
    start: usize,
    /// Number of elements: stored, because a division per datagram takes as long as sending it.
    elements: u64,
    /// Number of elements that have left already.
    taken: u64,
    /// The sample of the next element, counted from the run's first.
    next_sample: u64,
    /// Start of the newest block of the run, and its arrival: once all before it has left, `since` is this time.
    newest: Option<(u64, Instant)>,
}

/// The next item to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// A slice for one datagram.
    Slice(Slice),
    /// Samples that never get a number.
    Hole { first_index: u64, samples: u64, stage: Stage },
    /// Too few samples for a datagram: they wait for more until this time.
    Wait(Instant),
    /// The queue is empty.
    Empty,
}

/// A slice for one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slice {
    pub(super) first_index: u64,
    pub(super) element_offset: u32,
    pub(super) element_count: u32,
    pub(super) t0: WallTime,
}

/// Condition for a run to share a datagram with the previous one.
#[derive(Clone, Copy)]
struct Before {
    next_index: u64,
    /// Index and time of a sample, the reference for the times of the datagram.
    anchor: (u64, WallTime),
}

impl Run {
    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Returns whether a sample follows this run's last one, to the nanosecond of its time.
    fn goes_on_at(&self, first_index: u64, t0: WallTime, sample_bytes: usize, rate: SampleRate) -> bool {
        let next_index = self.first_index + (self.bytes().len() / sample_bytes) as u64;
        next_index == first_index && rate.time_of(first_index, self.first_index, self.t0) == t0
    }
}

impl Queue {
    pub(super) fn new(schema: &Schema, fit: Fit, linger: Duration) -> Self {
        Self {
            rate: schema.rate,
            time_tolerance: schema.time_tolerance(),
            element_bytes: schema.dtype.size_bytes(),
            elements_per_sample: schema.elements_per_sample(),
            fit,
            linger,
            items: VecDeque::new(),
            queued_samples: 0,
            waiting_bytes: 0,
            spare: Vec::new(),
            joined: Vec::new(),
        }
    }

    pub(super) fn push_samples(&mut self, now: Instant, first_index: u64, t0: WallTime, samples: &[u8]) {
        self.waiting_bytes += samples.len();
        self.queued_samples += (samples.len() / self.sample_bytes()) as u64;
        let sample_bytes = self.sample_bytes();
        let elements = (samples.len() / self.element_bytes) as u64;
        if let Some(Item::Samples(run)) = self.items.back_mut()
            && run.bytes().len() + samples.len() <= MAX_RUN_BYTES
            && run.goes_on_at(first_index, t0, sample_bytes, self.rate)
        {
            run.memory.extend_from_slice(samples);
            run.newest = Some((run.elements, now));
            run.elements += elements;
            return;
        }
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(samples);
        self.push_run(now, first_index, t0, memory, 0);
    }

    /// Takes the samples behind `start` of a buffer; a large buffer is itself taken and exchanged for another one.
    pub(super) fn push_buffer(
        &mut self,
        now: Instant,
        first_index: u64,
        t0: WallTime,
        buffer: &mut Vec<u8>,
        start: usize,
    ) {
        let samples = &buffer[start..];
        if samples.len() < MIN_KEPT_BYTES {
            return self.push_samples(now, first_index, t0, samples);
        }
        self.waiting_bytes += samples.len();
        self.queued_samples += (samples.len() / self.sample_bytes()) as u64;
        let memory = core::mem::replace(buffer, self.spare.pop().unwrap_or_default());
        self.push_run(now, first_index, t0, memory, start);
    }

    fn push_run(&mut self, now: Instant, first_index: u64, t0: WallTime, memory: Vec<u8>, start: usize) {
        let elements = ((memory.len() - start) / self.element_bytes) as u64;
        let (taken, next_sample) = (0, 0);
        let run =
            Run { first_index, t0, since: now, memory, start, elements, taken, next_sample, newest: None };
        self.items.push_back(Item::Samples(run));
    }

    pub(super) fn push_hole(&mut self, first_index: u64, samples: u64, stage: Stage) {
        self.queued_samples += samples;
        // Holes behind samples that wait for a secret are one, however long that takes.
        if let Some(Item::Hole { first_index: first, samples: before, stage: of }) = self.items.back_mut()
            && *of == stage
            && *first + *before == first_index
        {
            *before += samples;
            return;
        }
        self.items.push_back(Item::Hole { first_index, samples, stage });
    }

    pub(super) const fn queued_samples(&self) -> u64 {
        self.queued_samples
    }

    /// Returns the number of bytes of samples that have not left yet.
    pub(super) const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) const fn sample_bytes(&self) -> usize {
        self.elements_per_sample as usize * self.element_bytes
    }

    /// Returns the next item to leave at `now`; with `flush` nothing waits for more samples.
    pub(super) fn next(&self, now: Instant, flush: bool) -> Next {
        let run = match self.items.front() {
            None => return Next::Empty,
            Some(&Item::Hole { first_index, samples, stage }) => {
                return Next::Hole { first_index, samples, stage };
            }
            Some(Item::Samples(run)) => run,
        };
        let per_sample = u64::from(self.elements_per_sample);
        let first_index = run.first_index + run.next_sample;
        let limit = u64::from(self.fit.elements(self.elements_per_sample));
        let (element_offset, available, closed) = match self.fit {
            Fit::Samples(_) if run.elements - run.taken >= limit => (0, limit, true),
            Fit::Samples(_) => {
                let (elements, closed) = self.contiguous_elements(limit);
                (0, elements, closed)
            }
            Fit::Pieces(_) => {
                let element_offset = run.taken - run.next_sample * per_sample;
                (element_offset, per_sample - element_offset, true)
            }
        };
        let element_offset = u32::try_from(element_offset).expect("within a sample");
        let due = run.since + self.linger;
        if available < limit && !closed && !flush && now < due {
            return Next::Wait(due);
        }
        let element_count = u32::try_from(available.min(limit)).expect("a datagram's elements");
        let t0 = self.rate.time_of(first_index, run.first_index, run.t0);
        Next::Slice(Slice { first_index, element_offset, element_count, t0 })
    }

    /// Counts contiguous elements from the front up to `limit`, and returns whether a break follows them.
    fn contiguous_elements(&self, limit: u64) -> (u64, bool) {
        let mut elements = 0;
        let mut before: Option<Before> = None;
        for item in &self.items {
            let Item::Samples(run) = item else { return (elements, true) };
            if before.is_some_and(|before| !self.follows(run, before)) {
                return (elements, true);
            }
            elements += run.elements - run.taken;
            let anchor = before.map_or((run.first_index, run.t0), |before| before.anchor);
            before = Some(Before { next_index: run.first_index + self.samples(run), anchor });
            if elements >= limit {
                break;
            }
        }
        (elements, false)
    }

    /// Returns whether a run continues the previous one in index and in time.
    ///
    /// A datagram has one time, and readers compute the others from it: [`Schema::time_tolerance`].
    fn follows(&self, run: &Run, before: Before) -> bool {
        let expected = self.rate.time_of(run.first_index, before.anchor.0, before.anchor.1);
        let off_by = Duration::from_nanos(run.t0.nanos_since(expected).unsigned_abs());
        before.next_index == run.first_index && off_by <= self.time_tolerance
    }

    /// Returns the payload of the next slice.
    pub(super) fn payload(&mut self, slice: &Slice) -> &[u8] {
        let size = self.element_bytes;
        let wanted = slice.element_count as usize * size;
        let taken_bytes = |run: &Run| run.taken as usize * size;
        if let Some(Item::Samples(run)) = self.items.front()
            && run.bytes().len() - taken_bytes(run) >= wanted
        {
            let start = taken_bytes(run);
            let Some(Item::Samples(run)) = self.items.front() else { unreachable!("just matched") };
            return &run.bytes()[start..start + wanted];
        }
        self.joined.clear();
        for item in &self.items {
            let Item::Samples(run) = item else { break };
            let rest = &run.bytes()[taken_bytes(run)..];
            let missing = wanted - self.joined.len();
            self.joined.extend_from_slice(&rest[..rest.len().min(missing)]);
            if self.joined.len() == wanted {
                break;
            }
        }
        &self.joined
    }

    /// Removes the next slice; returns the number of samples it completed.
    pub(super) fn take_slice(&mut self, slice: &Slice) -> u64 {
        let per_sample = u64::from(self.elements_per_sample);
        let mut left = u64::from(slice.element_count);
        self.waiting_bytes -= slice.element_count as usize * self.element_bytes;
        let mut completed = 0;
        while left > 0 {
            let Some(Item::Samples(run)) = self.items.front_mut() else { break };
            let part = left.min(run.elements - run.taken);
            run.taken += part;
            left -= part;
            if let Some((_, came)) = run.newest.take_if(|(begin, _)| *begin <= run.taken) {
                run.since = came;
            }
            // Most datagrams hold as many samples as fit, which saves the division.
            let samples = match self.fit {
                Fit::Samples(samples) if part == u64::from(samples) * per_sample => u64::from(samples),
                Fit::Samples(_) | Fit::Pieces(_) => run.taken / per_sample - run.next_sample,
            };
            run.next_sample += samples;
            completed += samples;
            if run.taken == run.elements {
                self.drop_front_run();
            }
        }
        self.queued_samples -= completed;
        completed
    }

    /// Removes the hole at the front.
    pub(super) fn take_hole(&mut self) {
        if let Some(Item::Hole { samples, .. }) = self.items.pop_front() {
            self.queued_samples -= samples;
        }
    }

    fn drop_front_run(&mut self) {
        let Some(Item::Samples(run)) = self.items.pop_front() else { return };
        if self.spare.len() < MAX_SPARE_BUFFERS {
            // Not cleared: the next use overwrites the content.
            self.spare.push(run.memory);
        }
    }

    fn samples(&self, run: &Run) -> u64 {
        (run.bytes().len() / self.sample_bytes()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::SampleRate;

    const LINGER: Duration = Duration::from_millis(5);

    fn queue(channels: usize, fit: Fit) -> Queue {
        let channels = (0..channels).map(|index| Channel::new(index.to_string(), "V")).collect();
        let schema = Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), channels).unwrap();
        Queue::new(&schema, fit, LINGER)
    }

    fn slice(queue: &Queue, now: Instant) -> Slice {
        match queue.next(now, false) {
            Next::Slice(slice) => slice,
            other => panic!("expected a slice, not {other:?}"),
        }
    }

    #[test]
    fn small_blocks_are_joined_until_a_datagram_is_full() {
        let mut queue = queue(2, Fit::Samples(3));
        let now = Instant::ORIGIN;
        queue.push_samples(now, 0, WallTime::from_nanos(0), &[1, 2, 3, 4]);
        assert_eq!(queue.next(now, false), Next::Wait(now + LINGER));
        queue.push_samples(now, 2, WallTime::from_nanos(2_000_000), &[5, 6, 7, 8]);
        let first = slice(&queue, now);
        assert_eq!((first.first_index, first.element_count), (0, 6));
        assert_eq!(queue.payload(&first), [1, 2, 3, 4, 5, 6]);
        assert_eq!(queue.take_slice(&first), 3);
        assert_eq!(queue.queued_samples(), 1);
        let rest = slice(&queue, now + LINGER);
        assert_eq!((rest.first_index, rest.t0), (3, WallTime::from_nanos(3_000_000)));
        assert_eq!(queue.payload(&rest), [7, 8]);
    }

    #[test]
    fn samples_linger_from_when_they_came_and_not_from_when_those_before_them_did() {
        let mut queue = queue(1, Fit::Samples(3));
        let later = |ms| Instant::ORIGIN + Duration::from_millis(ms);
        queue.push_samples(later(0), 0, WallTime::from_nanos(0), &[1, 2]);
        queue.push_samples(later(2), 2, WallTime::from_nanos(2_000_000), &[3, 4]);
        let first = slice(&queue, later(2));
        queue.take_slice(&first);
        assert_eq!(queue.next(later(3), false), Next::Wait(later(2) + LINGER));
    }

    #[test]
    fn nothing_is_joined_across_a_hole_or_a_jump() {
        let mut queue = queue(1, Fit::Samples(4));
        let now = Instant::ORIGIN;
        queue.push_samples(now, 0, WallTime::default(), &[1]);
        queue.push_hole(1, 5, Stage::Source);
        queue.push_samples(now, 6, WallTime::default(), &[2]);
        queue.push_samples(now, 9, WallTime::default(), &[3]);
        let first = slice(&queue, now);
        assert_eq!(first.element_count, 1, "no company can come");
        queue.take_slice(&first);
        let hole = Next::Hole { first_index: 1, samples: 5, stage: Stage::Source };
        assert_eq!(queue.next(now, false), hole);
        queue.take_hole();
        let second = slice(&queue, now);
        assert_eq!((second.first_index, second.element_count), (6, 1));
    }

    #[test]
    fn samples_with_times_of_their_own_are_joined_only_where_the_rate_foretells_them() {
        let mut schema =
            Schema::new(Dtype::U8, SampleRate::hz(1_000).unwrap(), vec![Channel::new("a", "V")]).unwrap();
        schema.labels.insert(sample::TIMES_LABEL.to_owned(), sample::OWN_TIMES.to_owned());
        for (t0, joined) in [(2_000_000, 3), (2_000_001, 2), (1_999_999, 2)] {
            let mut queue = Queue::new(&schema, Fit::Samples(8), LINGER);
            queue.push_samples(Instant::ORIGIN, 0, WallTime::from_nanos(0), &[1, 2]);
            queue.push_samples(Instant::ORIGIN, 2, WallTime::from_nanos(t0), &[3]);
            assert_eq!(slice(&queue, Instant::ORIGIN + LINGER).element_count, joined, "{t0}");
        }
    }

    #[test]
    fn nothing_is_joined_across_a_jump_in_time() {
        // At 1,000 Hz; half a sample is half a millisecond.
        for (t0, joined) in [(2_499_999, 3), (2_500_000, 3), (2_500_001, 2), (1_499_999, 2), (1_500_000, 3)] {
            let mut queue = queue(1, Fit::Samples(8));
            queue.push_samples(Instant::ORIGIN, 0, WallTime::from_nanos(0), &[1, 2]);
            queue.push_samples(Instant::ORIGIN, 2, WallTime::from_nanos(t0), &[3]);
            let after = Instant::ORIGIN + LINGER;
            let first = slice(&queue, after);
            assert_eq!((first.element_count, first.t0), (joined, WallTime::from_nanos(0)), "{t0}");
            queue.take_slice(&first);
            if joined == 2 {
                assert_eq!(slice(&queue, after).t0, WallTime::from_nanos(t0));
            }
        }
    }

    #[test]
    fn a_clock_that_runs_away_slowly_is_not_followed_further_than_half_a_sample() {
        let mut queue = queue(1, Fit::Samples(64));
        // Each block comes 0.2 ms later than the rate predicts.
        for block in 0..5 {
            let t0 = WallTime::from_nanos(block * 2_200_000);
            queue.push_samples(Instant::ORIGIN, block as u64 * 2, t0, &[0, 0]);
        }
        let first = slice(&queue, Instant::ORIGIN + LINGER);
        assert_eq!(first.element_count, 6, "0.4 ms off, and no more");
    }

    #[test]
    fn a_large_buffer_is_kept_and_given_back_for_another_and_a_small_one_is_copied() {
        let mut queue = queue(1, Fit::Samples(1_000));
        let bytes: Vec<u8> = (0..MIN_KEPT_BYTES + 3).map(|at| (at % 251) as u8).collect();
        let (mut kept, mut copied) = (bytes.clone(), bytes[..103].to_vec());
        let t0 = |ms| WallTime::from_nanos(ms * 1_000_000);
        queue.push_buffer(Instant::ORIGIN, 0, t0(0), &mut kept, 3);
        assert!(kept.is_empty(), "another one lies in its place");
        queue.push_buffer(Instant::ORIGIN, MIN_KEPT_BYTES as u64, t0(MIN_KEPT_BYTES as i64), &mut copied, 3);
        assert_eq!(copied.len(), 103);
        let mut seen = Vec::new();
        while let Next::Slice(slice) = queue.next(Instant::ORIGIN, true) {
            seen.extend_from_slice(queue.payload(&slice));
            queue.take_slice(&slice);
        }
        assert_eq!(seen, [&bytes[3..], &bytes[3..103]].concat());
        assert_eq!((queue.waiting_bytes(), queue.queued_samples()), (0, 0));
        let mut next = bytes.clone();
        queue.push_buffer(Instant::ORIGIN, 0, t0(0), &mut next, 3);
        assert!(next.capacity() >= bytes.len(), "what has left gives its memory to what comes");
    }

    #[test]
    fn a_large_sample_leaves_in_pieces() {
        let mut queue = queue(5, Fit::Pieces(2));
        let now = Instant::ORIGIN;
        queue.push_samples(now, 7, WallTime::default(), &[1, 2, 3, 4, 5]);
        let mut seen = Vec::new();
        let mut waiting = Vec::new();
        while let Next::Slice(slice) = queue.next(now, false) {
            assert_eq!(slice.first_index, 7);
            waiting.push(queue.waiting_bytes());
            seen.push((slice.element_offset, queue.payload(&slice).to_vec(), queue.take_slice(&slice)));
        }
        assert_eq!(seen, [(0, vec![1, 2], 0), (2, vec![3, 4], 0), (4, vec![5], 1)]);
        assert_eq!(waiting, [5, 3, 1], "what has left waits no more");
        assert_eq!((queue.waiting_bytes(), queue.queued_samples()), (0, 0));
    }
}
