//! One connection made of several streams: its bytes are divided into ranges, and each range takes the stream that has
//! room first.
//!
//! A range is its offset in the whole (8 bytes, big-endian), its length (4), and its bytes. Everything above, frames and
//! messages, is as over one connection: a broken stream breaks the whole, and the next attempt resumes. Replies take
//! the first stream alone. Every stream keeps its own congestion control.
//!
//! Source: parallel streams of GridFTP's extended block mode (Allcock et al. 2005).

use std::collections::{BTreeMap, VecDeque};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of streams of one transfer: each takes a full share of a bottleneck, and one slot of the receiver.
pub const MAX_STREAMS: u32 = 16;
/// Maximum size of a range: small enough that streams of different speed end together. Units: bytes.
const RANGE_BYTES: usize = 256 << 10;
/// Size of a range's offset and length. Units: bytes.
const HEAD_BYTES: usize = 12;
/// Maximum size of ranges that wait for an earlier one, at the receiver. Units: bytes.
const WINDOW_BYTES: u64 = 16 << 20;
/// Maximum number of ranges that wait, at either end: small ones cost more memory than their bytes.
const MOST_RANGES: usize = 1_024;
/// Longest wait of a caller before it checks its stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A connection made of several; one end writes over all of them, the other over the first.
pub struct Stripes {
    first: Arc<dyn Stream>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    sends: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Ranges to be sent.
    queue: VecDeque<(u64, Vec<u8>)>,
    /// Number of bytes queued or read so far.
    offset: u64,
    /// Ranges that arrived before an earlier one.
    arrived: BTreeMap<u64, Vec<u8>>,
    /// Rest of the range that is being read.
    current: VecDeque<u8>,
    /// Error of a stream, for the next call.
    failure: Option<Error>,
    /// True once a stream has ended or failed.
    is_over: bool,
    /// True once the owner lets go.
    closes: bool,
}

/// A connection whose calls take a shared reference. The type is erased: else every connection could be made of others
/// of its kind, without end.
trait Stream: Send + Sync {
    fn take(&self, out: &mut [u8]) -> Result<usize>;
    fn put(&self, bytes: &[u8]) -> Result<usize>;
}

impl<C> Stream for C
where
    C: Send + Sync,
    for<'c> &'c C: Read + Write,
{
    fn take(&self, out: &mut [u8]) -> Result<usize> {
        let mut connection = self;
        connection.read(out)
    }

    fn put(&self, bytes: &[u8]) -> Result<usize> {
        let mut connection = self;
        connection.write(bytes)
    }
}

impl Stripes {
    /// Makes the sending end of at least one stream, whose calls time out now and then.
    #[must_use]
    pub fn sending<C>(streams: &[Arc<C>]) -> Self
    where
        C: Send + Sync + 'static,
        for<'c> &'c C: Read + Write,
    {
        Self::of(streams, true, send_ranges)
    }

    /// Makes the receiving end of at least one stream, whose calls time out now and then.
    #[must_use]
    pub fn receiving<C>(streams: &[Arc<C>]) -> Self
    where
        C: Send + Sync + 'static,
        for<'c> &'c C: Read + Write,
    {
        Self::of(streams, false, receive_ranges)
    }

    fn of<C>(streams: &[Arc<C>], sends: bool, work: fn(&dyn Stream, &Shared) -> Result<()>) -> Self
    where
        C: Send + Sync + 'static,
        for<'c> &'c C: Read + Write,
    {
        let shared = Arc::new(Shared::default());
        let run = |stream: &Arc<C>| {
            let (stream, shared) = (Arc::clone(stream), Arc::clone(&shared));
            std::thread::spawn(move || {
                let outcome = work(&*stream, &shared);
                let mut state = shared.state();
                state.is_over = true;
                if let Err(error) = outcome {
                    state.failure.get_or_insert(error);
                }
                drop(state);
                shared.changed.notify_all();
            })
        };
        let threads = streams.iter().map(run).collect();
        let first: Arc<dyn Stream> = Arc::<C>::clone(&streams[0]);
        Self { first, shared, threads, sends }
    }
}

impl Drop for Stripes {
    fn drop(&mut self) {
        self.shared.state().closes = true;
        self.shared.changed.notify_all();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, at most for the poll interval.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    fn closes(&self) -> bool {
        self.state().closes
    }

    /// Returns the next range to send; `None` at the end.
    fn next_range(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.state();
        loop {
            if let Some(range) = state.queue.pop_front() {
                self.changed.notify_all();
                return Some(range);
            }
            if state.closes || state.is_over {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Keeps a range that arrived, once there is room for it.
    fn keep(&self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        let mut state = self.state();
        while !state.closes {
            if state.overlaps(offset, bytes.len() as u64) {
                return Err(invalid("two ranges overlap"));
            }
            let ahead = offset - state.offset;
            // The missing range always finds room: the others may all wait for it.
            if ahead == 0 || ahead < WINDOW_BYTES && state.arrived.len() < MOST_RANGES {
                state.arrived.insert(offset, bytes);
                self.changed.notify_all();
                return Ok(());
            }
            state = self.wait(state);
        }
        Ok(())
    }
}

impl State {
    /// Returns whether bytes of a range were read already, or wait in another range.
    fn overlaps(&self, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length) else { return true };
        let before = self.arrived.range(..end).next_back();
        offset < self.offset || before.is_some_and(|(start, bytes)| start + bytes.len() as u64 > offset)
    }

    fn over(&mut self) -> Result<()> {
        match self.failure.take() {
            Some(error) => Err(error),
            None if self.is_over => Err(Error::new(ErrorKind::BrokenPipe, "a parallel stream has ended")),
            None => Ok(()),
        }
    }
}

impl Write for &Stripes {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if !self.sends {
            return self.first.put(bytes);
        }
        let mut state = self.shared.state();
        state.over()?;
        let count = bytes.len().min(RANGE_BYTES);
        let bytes = &bytes[..count];
        let offset = state.offset;
        // As many as there are streams would do; a few more keep fast ones busy.
        let has_room = state.queue.len() < 2 * self.threads.len();
        let newest = state.queue.back_mut().filter(|(_, waiting)| waiting.len() + count <= RANGE_BYTES);
        if let Some((_, waiting)) = newest {
            waiting.extend_from_slice(bytes);
        } else if has_room {
            state.queue.push_back((offset, bytes.to_vec()));
        } else {
            drop(self.shared.wait(state));
            return Err(ErrorKind::TimedOut.into());
        }
        state.offset += count as u64;
        drop(state);
        self.shared.changed.notify_all();
        Ok(count)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Read for &Stripes {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.sends {
            return self.first.take(out);
        }
        let mut state = self.shared.state();
        if state.current.is_empty() {
            let offset = state.offset;
            if let Some(range) = state.arrived.remove(&offset) {
                state.offset += range.len() as u64;
                state.current = range.into();
                self.shared.changed.notify_all();
            } else if state.is_over {
                return state.failure.take().map_or(Ok(0), Err);
            } else {
                drop(self.shared.wait(state));
                return Err(ErrorKind::TimedOut.into());
            }
        }
        state.current.read(out)
    }
}

fn send_ranges(stream: &dyn Stream, shared: &Shared) -> Result<()> {
    while let Some((offset, bytes)) = shared.next_range() {
        let length = u32::try_from(bytes.len()).expect("ranges are short");
        let head = [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat();
        for mut part in [&head[..], &bytes[..]] {
            while !part.is_empty() {
                match stream.put(part) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(count) => part = &part[count..],
                    Err(error) if is_pause(&error) && !shared.closes() => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

fn receive_ranges(stream: &dyn Stream, shared: &Shared) -> Result<()> {
    let mut head = [0; HEAD_BYTES];
    while !shared.closes() && read_exact(stream, shared, &mut head)? {
        let (offset, length) = head.split_first_chunk().expect("the head has both");
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if !(1..=RANGE_BYTES).contains(&length) {
            return Err(invalid("a range of an impossible size"));
        }
        let mut bytes = vec![0; length];
        if !read_exact(stream, shared, &mut bytes)? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        shared.keep(u64::from_be_bytes(*offset), bytes)?;
    }
    Ok(())
}

/// Fills a buffer; returns false at the end of the stream before its first byte.
fn read_exact(stream: &dyn Stream, shared: &Shared, mut out: &mut [u8]) -> Result<bool> {
    let mut is_begun = false;
    while !out.is_empty() {
        match stream.take(out) {
            Ok(0) if is_begun => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(0) => return Ok(false),
            Ok(count) => {
                is_begun = true;
                out = &mut out[count..];
            }
            Err(error) if is_pause(&error) && !shared.closes() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_pause(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn invalid(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use units::Random;

    use super::*;

    fn pairs(count: usize) -> (Vec<Arc<UnixStream>>, Vec<Arc<UnixStream>>) {
        let timed = |stream: UnixStream| {
            stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a time above zero");
            stream.set_write_timeout(Some(Duration::from_millis(5))).expect("a time above zero");
            Arc::new(stream)
        };
        let pair = |_| UnixStream::pair().expect("the system has sockets");
        (0..count).map(pair).map(|(one, other)| (timed(one), timed(other))).unzip()
    }

    fn read_all(from: &Stripes, count: usize) -> Result<Vec<u8>> {
        let (mut all, mut piece) = (Vec::new(), vec![0; 70_000]);
        while all.len() < count {
            match { from }.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => all.extend_from_slice(&piece[..count]),
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn write_all(to: &Stripes, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match { to }.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => assert!(is_pause(&error), "{error}"),
            }
        }
    }

    #[test]
    fn bytes_arrive_in_order_over_any_number_of_streams_and_replies_take_the_first() {
        let mut random = Random::new(7);
        let bytes: Vec<u8> = (0..3_000_000).map(|_| random.next_u64() as u8).collect();
        for count in [1, 2, 5, 16] {
            let (near, far) = pairs(count);
            let (sending, receiving) = (Stripes::sending(&near), Stripes::receiving(&far));
            let received = std::thread::scope(|scope| {
                scope.spawn(|| bytes.chunks(123_457).for_each(|piece| write_all(&sending, piece)));
                read_all(&receiving, bytes.len()).unwrap()
            });
            assert!(received == bytes, "{count} streams");
            (&receiving).write_all(b"verified").unwrap();
            let mut reply = [0; 8];
            (&sending).read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"verified");
        }
    }

    #[test]
    fn a_stream_that_ends_breaks_the_whole_at_both_ends() {
        let (near, far) = pairs(3);
        let (sending, receiving) = (Stripes::sending(&near), Stripes::receiving(&far));
        write_all(&sending, &[7; 100_000]);
        assert_eq!(read_all(&receiving, 100_000).unwrap().len(), 100_000);
        near[1].shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(read_all(&receiving, 1).unwrap(), [0; 0], "it ends");
        let broken = std::iter::repeat_with(|| (&sending).write(&[7; 1 << 18]));
        assert!(broken.filter_map(Result::err).any(|error| !is_pause(&error)));
    }

    #[test]
    fn ranges_that_cannot_be_end_it() {
        let range = |offset: u64, length: u32| [&offset.to_be_bytes()[..], &length.to_be_bytes()].concat();
        let twice = [range(0, 1), vec![7], range(0, 1), vec![7]].concat();
        let waiting = [range(10, 4), vec![7; 4]].concat();
        let overlapping =
            |offset, length: u32| [&waiting[..], &range(offset, length), &vec![7; length as usize]].concat();
        let [tail, head, around] =
            [(13, 1), (9, 2), (9, 9)].map(|(offset, length)| overlapping(offset, length));
        let endless = [range(u64::MAX, 1), vec![7]].concat();
        for bytes in [range(0, 0), range(0, 1 << 19), twice, tail, head, around, endless] {
            let (near, far) = pairs(1);
            let receiving = Stripes::receiving(&far);
            (&*near[0]).write_all(&bytes).unwrap();
            assert_eq!(read_all(&receiving, 9).unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }

    /// Ranges far ahead wait in the stream and not in memory, and the missing one is always taken.
    #[test]
    fn what_is_far_ahead_waits_for_what_is_missing() {
        let (near, far) = pairs(2);
        let receiving = Stripes::receiving(&far);
        let range = |offset: u64, bytes: &[u8]| {
            [&offset.to_be_bytes()[..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
        };
        (&*near[0]).write_all(&range(WINDOW_BYTES + 1, b"later")).unwrap();
        (&*near[1]).write_all(&range(1, b"second")).unwrap();
        while receiving.shared.state().arrived.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(receiving.shared.state().arrived.keys().copied().collect::<Vec<_>>(), [1]);
        (&*near[1]).write_all(&range(0, b"1")).unwrap();
        assert_eq!(read_all(&receiving, 7).unwrap(), b"1second");
    }
}
