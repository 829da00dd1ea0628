//! The threads that move data: one for each end of a flow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sys::{Cancellation, clock, scheduling};
use units::Instant;

use super::message::{Account, Count, Sent};
use super::transport::{Arrived, Description, Flow, FlowEnd, ReceiveEnd, SendEnd, TransportError};
use crate::report::Times;
use flow::{Ending, Paced, Progress, Room, Timetable};

/// Interval at which a receiver checks whether it is to end: the connections of some transports have no
/// descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which counts are published to other threads; counting must not wait for them.
const SHOW: Duration = Duration::from_millis(5);

/// A thread at one end of a flow.
pub(super) struct Worker {
    pub(super) flow: Description,
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Ended, TransportError>>,
}

/// Results of a thread.
pub(super) struct Ended {
    pub(super) count: Count,
    /// Account, at receivers.
    pub(super) account: Option<Account>,
    pub(super) delays: Option<Times>,
    /// End of the sender; at receivers the arrival of the last unit, but not before the sender ended.
    pub(super) last: Option<Instant>,
    pub(super) skipped: u64,
    /// Reason why the flow is incomplete, at senders; a receiver that fails has no results.
    pub(super) failure: Option<String>,
    pub(super) notes: Vec<String>,
}

struct Shared {
    count: Mutex<Count>,
    /// Final counts of a sender, once it is done.
    sent: Mutex<Option<Sent>>,
    /// End of the flow, at a receiver.
    ending: Ending<Sent>,
}

impl Worker {
    /// Starts the thread of a flow, pinned to a processor if one is given; `cancellation` stops a sender.
    pub(super) fn start(
        flow: Flow,
        timetable: Timetable,
        cpu: Option<usize>,
        cancellation: &Cancellation,
    ) -> std::io::Result<Self> {
        let Flow { about, end } = flow;
        // The counts are initialised before the thread first runs.
        let count = match &end {
            FlowEnd::Send(end) => end.count(),
            FlowEnd::Receive(end) => end.count(),
        };
        let shared = Arc::new(Shared::new(count)?);
        let (theirs, cancellation) = (Arc::clone(&shared), cancellation.clone());
        let thread = std::thread::Builder::new().name("flow".to_owned()).spawn(move || {
            if let Some(cpu) = cpu {
                scheduling::pin_to_cpu(cpu)?;
            }
            // Refused on some kernels; pauses then end up to 50 µs late.
            let _ = clock::lower_timer_slack();
            match end {
                FlowEnd::Send(end) => Ok(send(end, timetable, &cancellation, &theirs)),
                FlowEnd::Receive(end) => receive(end, timetable.end, &theirs),
            }
        })?;
        Ok(Self { flow: about, shared, thread })
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
    pub(super) fn announce_sent(&self, sent: Sent) {
        self.shared.ending.announce_sent(sent);
    }

    /// Asks a receiver to end with its present results.
    pub(super) fn give_up(&self) {
        self.shared.ending.give_up();
    }

    /// Waits for the end of the thread.
    pub(super) fn join(self) -> (Description, Result<Ended, TransportError>) {
        let ended = self.thread.join().expect("a thread of a flow returns its errors");
        (self.flow, ended)
    }
}

impl Shared {
    fn new(count: Count) -> std::io::Result<Self> {
        Ok(Self { count: Mutex::new(count), sent: Mutex::default(), ending: Ending::new()? })
    }

    fn show(&self, count: Count) {
        *lock(&self.count) = count;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sending end that shows its counts.
struct Shown<'a> {
    end: Box<dyn SendEnd>,
    shared: &'a Shared,
    shown: Instant,
}

impl Paced for Shown<'_> {
    type Error = TransportError;

    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        self.end.send(count)
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        self.end.wait_for_room(until)
    }

    fn show(&mut self, now: Instant) {
        if now.since(self.shown) >= SHOW {
            self.shown = now;
            self.shared.show(self.end.count());
        }
    }
}

/// Sends a flow from its beginning to its end.
fn send(end: Box<dyn SendEnd>, timetable: Timetable, cancellation: &Cancellation, shared: &Shared) -> Ended {
    let mut shown = Shown { end, shared, shown: Instant::ORIGIN };
    let sending = flow::send(&mut shown, timetable, &|| cancellation.is_cancelled());
    let mut end = shown.end;
    // Also after a failure: the receivers count what was sent until then.
    let finished = end.finish();
    let count = end.count();
    shared.show(count);
    *lock(&shared.sent) = Some(end.sent());
    let failure = sending.outcome.and(finished).err().map(|error| error.to_string());
    let (last, skipped) = (Some(sending.ended), sending.skipped);
    Ended { count, account: None, delays: None, last, skipped, failure, notes: end.notes() }
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
    loop {
        let looked = clock::monotonic();
        if !has_ended {
            match end.receive(looked + POLL_INTERVAL)? {
                Arrived::Some => last = Some(clock::monotonic()),
                Arrived::Nothing => {}
                Arrived::End => has_ended = true,
            }
        } else {
            // Only the sender's final counts are waited for.
            clock::sleep_until(looked + POLL_INTERVAL / 10);
        }
        let now = clock::monotonic();
        if now.since(shown) >= SHOW {
            shown = now;
            shared.show(end.count());
        }
        match shared.ending.progress() {
            Progress::Ongoing => {}
            Progress::GivenUp => break,
            Progress::Sent(counts, at) => sent = Some((counts, at)),
        }
        if let Some((sent, at)) = &sent
            && (end.has_all(sent) || has_ended || looked >= end.tail().ends_at(*at, last))
        {
            break;
        }
    }
    let count = end.count();
    shared.show(count);
    // A slow flow's last unit is before its end: the time in which nothing was due belongs to it.
    let ended = sent.as_ref().map(|(_, at)| (*at).min(planned_end));
    let last = last.map(|last| ended.map_or(last, |ended| last.max(ended)));
    let account = Some(end.close(sent.as_ref().map(|(sent, _)| sent))?);
    let delays = end.delays();
    Ok(Ended { count, account, delays, last, skipped: 0, failure: None, notes: end.notes() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::options::Rate;

    /// Takes three units, then breaks.
    #[derive(Default)]
    struct Breaking(u64);

    impl Paced for Breaking {
        type Error = TransportError;

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
    }

    impl SendEnd for Breaking {
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
        let (shared, cancellation) = (Shared::new(Count::default()).unwrap(), Cancellation::new().unwrap());
        let ended = send(Box::<Breaking>::default(), timetable, &cancellation, &shared);
        assert!(ended.failure.unwrap().contains("closed a connection"));
        assert_eq!(ended.count.units, 3);
        assert_eq!(lock(&shared.sent).as_ref().unwrap().units, 3);
    }
}
