//! The threads that move data: one for each end of a flow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use probe::flow::{Due, FlowRate, Pace};
use sys::{clock, scheduling};
use units::Instant;

use super::message::{Account, Count, Sent};
use super::transport::{Arrived, Flow, FlowEnd, ReceiveEnd, Room, SendEnd, TransportError};

/// Interval at which a thread checks whether it is to end: paced sleeps are exact only on the clock, and the
/// connections of some transports have no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which counts are published to other threads; counting must not wait for them.
const SHOW: Duration = Duration::from_millis(5);

/// Maximum time a receiver continues after all was sent.
const LONGEST_TAIL: Duration = Duration::from_secs(10);

/// Time and rate of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timetable {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) rate: FlowRate,
}

/// A thread at one end of a flow.
pub(super) struct Worker {
    pub(super) flow: Description,
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Ended, TransportError>>,
}

/// A flow without its end, which the thread owns.
pub(super) struct Description {
    pub(super) key: super::message::FlowKey,
    pub(super) local: std::net::SocketAddr,
    pub(super) remote: Option<std::net::SocketAddr>,
    pub(super) congestion_control: Option<String>,
    pub(super) buffer_bytes: Option<u64>,
    pub(super) notes: Vec<String>,
}

/// Results of a thread.
pub(super) struct Ended {
    pub(super) count: Count,
    /// Account, at receivers.
    pub(super) account: Option<Account>,
    /// End of the sender; at receivers the arrival of the last unit, but not before the sender ended.
    pub(super) last: Option<Instant>,
    pub(super) skipped: u64,
    /// Reason why the flow is incomplete, at senders; a receiver that fails has no results.
    pub(super) failure: Option<String>,
    pub(super) notes: Vec<String>,
}

#[derive(Default)]
struct Shared {
    is_to_end: AtomicBool,
    is_to_give_up: AtomicBool,
    count: Mutex<Count>,
    /// At a sender its final counts, once it is done; at a receiver those received from the sender.
    sent: Mutex<Option<Sent>>,
}

impl Worker {
    /// Starts the thread of a flow, pinned to a processor if one is given.
    pub(super) fn start(flow: Flow, timetable: Timetable, cpu: Option<usize>) -> std::io::Result<Self> {
        let Flow { key, local, remote, congestion_control, buffer_bytes, notes, end } = flow;
        // The counts are initialised before the thread first runs.
        let count = match &end {
            FlowEnd::Send(end) => end.count(),
            FlowEnd::Receive(end) => end.count(),
        };
        let shared = Arc::new(Shared { count: Mutex::new(count), ..Shared::default() });
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("flow".to_owned()).spawn(move || {
            if let Some(cpu) = cpu {
                scheduling::pin_to_cpu(cpu)?;
            }
            // Refused on some kernels; pauses then end up to 50 µs late.
            let _ = clock::lower_timer_slack();
            match end {
                FlowEnd::Send(end) => send(end, timetable, &theirs),
                FlowEnd::Receive(end) => receive(end, timetable.end, &theirs),
            }
        })?;
        Ok(Self {
            flow: Description { key, local, remote, congestion_control, buffer_bytes, notes },
            shared,
            thread,
        })
    }

    pub(super) fn is_sender(&self) -> bool {
        self.flow.key.receiver.is_none()
    }

    /// Returns the counts so far.
    pub(super) fn count(&self) -> Count {
        *lock(&self.shared.count)
    }

    /// Returns the final counts of a sender, once it is done.
    pub(super) fn sent(&self) -> Option<Sent> {
        lock(&self.shared.sent).clone()
    }

    /// Returns whether the thread has ended.
    pub(super) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Passes the sender's final counts to a receiver.
    pub(super) fn tell_sent(&self, sent: Sent) {
        *lock(&self.shared.sent) = Some(sent);
    }

    /// Asks a sender to stop sending.
    pub(super) fn ask_to_end(&self) {
        self.shared.is_to_end.store(true, Ordering::Relaxed);
    }

    /// Asks either kind of thread to end with its present results.
    pub(super) fn ask_to_give_up(&self) {
        self.ask_to_end();
        self.shared.is_to_give_up.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the thread.
    pub(super) fn join(self) -> (Description, Result<Ended, TransportError>) {
        let ended = self.thread.join().expect("a thread of a flow returns its errors");
        (self.flow, ended)
    }
}

impl Shared {
    fn is_to_end(&self) -> bool {
        self.is_to_end.load(Ordering::Relaxed)
    }

    fn is_to_give_up(&self) -> bool {
        self.is_to_give_up.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends a flow from its beginning to its end: at least once, even if the thread is scheduled only after the
/// end. A run in which nothing was sent says nothing.
fn send(mut end: Box<dyn SendEnd>, timetable: Timetable, shared: &Shared) -> Result<Ended, TransportError> {
    let mut pace = Pace::new(timetable.rate, timetable.start);
    let mut shown = Instant::ORIGIN;
    let mut first = None;
    let outcome = loop {
        let now = clock::monotonic();
        if shared.is_to_end() || (now >= timetable.end && first.is_some()) {
            break Ok(());
        }
        if now.since(shown) >= SHOW {
            shown = now;
            *lock(&shared.count) = end.count();
        }
        match pace.due(now.min(timetable.end)) {
            Due::At(moment) => clock::sleep_until(moment.min(timetable.end).min(now + POLL_INTERVAL)),
            Due::Now(count) => {
                first.get_or_insert(now);
                match end.send(count) {
                    Ok(Room::Taken(handed)) => pace.hand(handed),
                    Ok(Room::Full(handed)) => {
                        pace.hand(handed);
                        if let Err(error) = end.wait_for_room(timetable.end.min(now + POLL_INTERVAL)) {
                            break Err(error);
                        }
                    }
                    Err(error) => break Err(error),
                }
            }
        }
    };
    let now = clock::monotonic();
    let last = Some(now.min(timetable.end.max(first.unwrap_or(now))));
    // Also after a failure: the receivers count what was sent until then.
    let finished = end.finish();
    let count = end.count();
    *lock(&shared.count) = count;
    *lock(&shared.sent) = Some(end.sent());
    let failure = outcome.and(finished).err().map(|error| error.to_string());
    Ok(Ended { count, account: None, last, skipped: pace.skipped(), failure, notes: end.notes() })
}

/// Receives a flow until all of it has arrived, or missing data is lost.
fn receive(
    mut end: Box<dyn ReceiveEnd>,
    planned_end: Instant,
    shared: &Shared,
) -> Result<Ended, TransportError> {
    let (mut last, mut shown) = (None, Instant::ORIGIN);
    let mut sent: Option<(Sent, Instant)> = None;
    let mut has_ended = false;
    while !shared.is_to_give_up() {
        let now = clock::monotonic();
        if !has_ended {
            match end.receive(now + POLL_INTERVAL)? {
                Arrived::Some => last = Some(clock::monotonic()),
                Arrived::Nothing => {}
                Arrived::End => has_ended = true,
            }
        } else {
            // Only the sender's final counts are waited for.
            clock::sleep_until(now + POLL_INTERVAL / 10);
        }
        let now = clock::monotonic();
        if now.since(shown) >= SHOW {
            shown = now;
            *lock(&shared.count) = end.count();
        }
        if sent.is_none() {
            sent = lock(&shared.sent).clone().map(|sent| (sent, now));
        }
        if let Some((sent, heard)) = &sent {
            let is_quiet = now.since(last.unwrap_or(*heard).max(*heard)) >= end.quiet();
            if end.has_all(sent) || has_ended || is_quiet || now.since(*heard) >= LONGEST_TAIL {
                break;
            }
        }
    }
    let count = end.count();
    *lock(&shared.count) = count;
    // A slow flow's last unit is before its end: the time in which nothing was due belongs to it.
    let ended = sent.as_ref().map(|(_, heard)| (*heard).min(planned_end));
    let last = last.map(|last| ended.map_or(last, |ended| last.max(ended)));
    let account = Some(end.close(sent.as_ref().map(|(sent, _)| sent))?);
    Ok(Ended { count, account, last, skipped: 0, failure: None, notes: end.notes() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::options::Rate;

    /// Takes three units, then breaks.
    #[derive(Default)]
    struct Breaking(u64);

    impl SendEnd for Breaking {
        fn send(&mut self, _count: u32) -> Result<Room, TransportError> {
            if self.0 == 3 {
                return Err(TransportError::Broken(std::io::ErrorKind::ConnectionReset.into()));
            }
            self.0 += 1;
            Ok(Room::Taken(1))
        }

        fn wait_for_room(&mut self, _until: Instant) -> Result<(), TransportError> {
            Ok(())
        }

        fn finish(&mut self) -> Result<(), TransportError> {
            Ok(())
        }

        fn count(&self) -> Count {
            Count { units: self.0, ..Count::default() }
        }

        fn sent(&self) -> Sent {
            Sent { units: self.0, ..Sent::default() }
        }
    }

    #[test]
    fn a_sender_that_breaks_tells_what_it_sent_and_that_it_failed() {
        let start = clock::monotonic();
        let end = start + Duration::from_secs(60);
        let timetable = Timetable { start, end, rate: Rate::Bits(0).of_units(100) };
        let shared = Shared::default();
        let ended = send(Box::<Breaking>::default(), timetable, &shared).unwrap();
        assert!(ended.failure.unwrap().contains("closed a connection"));
        assert_eq!(ended.count.units, 3);
        assert_eq!(lock(&shared.sent).as_ref().unwrap().units, 3);
    }

    #[test]
    fn a_sender_that_comes_late_sends_once_and_says_when() {
        let send_to_end = |is_wanted: bool| {
            let end = clock::monotonic();
            let timetable = Timetable { start: end, end, rate: Rate::Units(10).of_units(100) };
            let shared = Shared::default();
            shared.is_to_end.store(!is_wanted, Ordering::Relaxed);
            (end, send(Box::<Breaking>::default(), timetable, &shared).unwrap())
        };
        let (end, late) = send_to_end(true);
        assert_eq!((late.count.units, late.skipped, late.failure), (1, 0, None));
        assert!(late.last.unwrap() > end, "not before it was sent");
        assert_eq!(send_to_end(false).1.count.units, 0, "nobody wants it any more");
    }
}
