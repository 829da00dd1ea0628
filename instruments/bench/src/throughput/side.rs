//! One end of a run: its threads, its marks, and the messages of both ends during it.
//!
//! Client and server are the same here; the difference is the recipient of their reports, which is a
//! [`Partner`].

use std::time::Duration;

use sys::{Cancellation, clock, scheduling};
use units::Instant;

use super::message::{Account, Count, FlowKey, FlowResult, Live, Sent, SideResult, Word};
use super::options::{Options, Rate};
use super::transport::{Flow, TransportError};
use super::worker::{Ended, Worker};
use crate::control::{Connection, ControlError};
use crate::options::OptionsError;
use crate::processor::ProcessorMeter;
use crate::report::Meter;
use flow::Timetable;

/// Maximum time this end waits for a message before it checks its own flows.
const LISTEN: Duration = Duration::from_millis(10);

/// Usual time a run may take after its planned end: longer than receivers wait for a tail.
pub(super) const GRACE: Duration = Duration::from_secs(20);

/// Reasons why a run could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SideError {
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Data cannot flow.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The processor does not exist, or is not available to this program.
    #[error("processor {cpu} cannot be used: {source}\nchoose one that `taskset -cp $$` lists")]
    Cpu {
        /// Number of the processor.
        cpu: usize,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}\nlower -P, or raise the limit with: ulimit -u")]
    Thread(std::io::Error),
    /// The other end does not finish.
    #[error("the other end has not ended the run {0:?} after it should have\nsee what keeps its host busy")]
    Endless(Duration),
}

/// Parameters of a run at one end.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) rate: Rate,
    pub(super) unit_bytes: usize,
    pub(super) cpu: Option<usize>,
    /// Time it may take after its planned end.
    pub(super) grace: Duration,
}

/// The part of a run in which client and server differ.
pub(super) trait Partner {
    /// Handles the counts of this end at a mark.
    fn mark(&mut self, live: Live, connection: &mut Connection) -> Result<(), ControlError>;

    /// Handles a message of the other end that is not about the flows.
    fn hear(&mut self, word: Word, connection: &mut Connection) -> Result<Heard, ControlError>;
}

/// Consequence of a message of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    Fine,
    /// Stop sending.
    Stop,
}

/// The threads of one end during a run.
pub(super) struct Side {
    workers: Vec<Worker>,
    start: Instant,
    run_time: Duration,
    grace: Duration,
    omit: Duration,
    marks: std::iter::Peekable<std::iter::Enumerate<std::vec::IntoIter<Duration>>>,
    /// Counts at the beginning of the measured part.
    omitted: Vec<(FlowKey, Count)>,
    /// Time of that since the start; none before it has passed.
    measured_from: Option<Duration>,
    meter: Meter,
    processor: ProcessorMeter,
    is_sent_told: bool,
    /// Request to the senders to stop.
    stop: Cancellation,
}

impl Side {
    /// Starts the threads of all flows.
    pub(super) fn start(run: &Run<'_>, flows: Vec<Flow>) -> Result<Self, SideError> {
        let (meter, processor) = (Meter::begin(), ProcessorMeter::begin());
        let start = clock::monotonic();
        let run_time = run.options.run_time();
        let rate = run.rate.of_units(run.unit_bytes);
        let timetable = Timetable { start, end: start + run_time, rate };
        let mut side = Self {
            workers: Vec::new(),
            start,
            run_time,
            grace: run.grace,
            omit: run.options.omit,
            marks: run.options.marks().into_iter().enumerate().peekable(),
            omitted: Vec::new(),
            measured_from: run.options.omit.is_zero().then_some(Duration::ZERO),
            meter,
            processor,
            is_sent_told: false,
            stop: Cancellation::new().map_err(SideError::Thread)?,
        };
        for flow in flows {
            match Worker::start(flow, timetable, run.cpu, &side.stop) {
                Ok(worker) => side.workers.push(worker),
                Err(error) => {
                    side.give_up();
                    return Err(SideError::Thread(error));
                }
            }
        }
        Ok(side)
    }

    /// Waits through the run, which `cancellation` ends early; returns the results of this end. After an error of
    /// the control connection the threads are ended, and their counts so far are in the second place.
    pub(super) fn run(
        mut self,
        connection: &mut Connection,
        cancellation: &Cancellation,
        partner: &mut dyn Partner,
    ) -> (Result<(), SideError>, SideResult) {
        let outcome = self.go_on(connection, cancellation, partner);
        if outcome.is_err() {
            self.give_up();
        }
        (outcome, self.finish())
    }

    fn go_on(
        &mut self,
        connection: &mut Connection,
        cancellation: &Cancellation,
        partner: &mut dyn Partner,
    ) -> Result<(), SideError> {
        let latest = self.start + self.run_time + self.grace;
        loop {
            self.pass_marks(connection, partner)?;
            self.processor.look();
            if cancellation.is_cancelled() && !self.stop.is_cancelled() {
                self.stop.cancel();
                connection.say(&Word::Stop)?;
            }
            self.announce_sent(connection)?;
            if self.is_sent_told && self.workers.iter().all(Worker::is_done) {
                return self.pass_the_rest(connection, partner);
            }
            match connection.hear_word(std::time::Instant::now() + LISTEN)? {
                None => {}
                Some(Word::Sent(sent)) => self.hear_sent(&sent),
                Some(word) => match partner.hear(word, connection)? {
                    Heard::Fine => {}
                    Heard::Stop => self.stop.cancel(),
                },
            }
            if clock::monotonic() > latest {
                return Err(SideError::Endless(self.grace));
            }
        }
    }

    /// Records the counts at marks that have passed.
    fn pass_marks(
        &mut self,
        connection: &mut Connection,
        partner: &mut dyn Partner,
    ) -> Result<(), SideError> {
        let elapsed = clock::monotonic().since(self.start);
        while let Some((mark, at)) = self.marks.next_if(|(_, at)| *at <= elapsed) {
            let live = self.look(mark, at);
            partner.mark(live, connection)?;
        }
        Ok(())
    }

    /// Records the counts for the next mark once all flows have ended: the last mark, which an end that began a
    /// little later has not reached, or the next one of a run that ended early. After that nothing happened
    /// that an interval could report.
    fn pass_the_rest(
        &mut self,
        connection: &mut Connection,
        partner: &mut dyn Partner,
    ) -> Result<(), SideError> {
        self.pass_marks(connection, partner)?;
        if let Some((mark, at)) = self.marks.next() {
            let live = self.look(mark, at);
            partner.mark(live, connection)?;
        }
        Ok(())
    }

    fn look(&mut self, mark: usize, at: Duration) -> Live {
        let flows: Vec<_> = self.workers.iter().map(|worker| (worker.flow.key, worker.count())).collect();
        let elapsed = clock::monotonic().since(self.start);
        // A run that ended before this mark has no measured part.
        if at == self.omit && elapsed >= at {
            self.omitted.clone_from(&flows);
            self.measured_from = Some(elapsed);
            // Start-up costs, such as memory that is touched for the first time, are omitted too.
            (self.meter, self.processor) = (Meter::begin(), ProcessorMeter::begin());
        }
        Live { mark, at_ns: nanos(elapsed), flows }
    }

    /// Sends the final counts to the other end, once everything was sent.
    fn announce_sent(&mut self, connection: &mut Connection) -> Result<(), SideError> {
        if self.is_sent_told {
            return Ok(());
        }
        let senders = self.workers.iter().filter(|worker| worker.is_sender());
        // In this order: a thread that ends in between has stored its counts by then. A thread that failed
        // before sending has none.
        let sent = senders.map(|worker| {
            let is_done = worker.is_done();
            worker.sent().or_else(|| is_done.then(Sent::default))
        });
        let Some(sent) = sent.collect::<Option<Vec<Sent>>>() else { return Ok(()) };
        self.is_sent_told = true;
        Ok(connection.say(&Word::Sent(sent))?)
    }

    /// Passes the sender's final counts to the receivers: one item per flow, in the order of flows.
    fn hear_sent(&self, sent: &[Sent]) {
        for worker in self.workers.iter().filter(|worker| !worker.is_sender()) {
            if let Some(sent) = sent.get(worker.flow.key.stream as usize) {
                worker.announce_sent(sent.clone());
            }
        }
    }

    fn give_up(&self) {
        self.stop.cancel();
        self.workers.iter().for_each(Worker::give_up);
    }

    /// Collects the results of the threads.
    fn finish(self) -> SideResult {
        let (start, measured_from, omitted) = (self.start, self.measured_from, self.omitted);
        let elapsed = clock::monotonic().since(start);
        let (mut flows, mut failures, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        let is_group = self.workers.iter().any(|worker| worker.flow.key.receiver > Some(0));
        for worker in self.workers {
            let (flow, ended) = worker.join();
            notes.extend(flow.notes);
            match ended {
                Ok(ended) => {
                    let before = omitted.iter().find(|(key, _)| *key == flow.key).map(|(_, count)| *count);
                    let Ended { count, account, delays, last, skipped, failure, notes: more } = ended;
                    notes.extend(more);
                    failures.extend(failure);
                    failures.extend(account.as_ref().and_then(imbalance));
                    flows.push(FlowResult {
                        key: flow.key,
                        local: flow.local,
                        remote: flow.remote,
                        total: count,
                        omitted: before.unwrap_or_default(),
                        measured_ns: measured(measured_from, last.map_or(elapsed, |last| last.since(start))),
                        skipped,
                        congestion_control: flow.congestion_control,
                        buffer_bytes: flow.buffer_bytes,
                        account,
                        delays,
                    });
                }
                Err(error) => failures.push(match flow.key.receiver {
                    Some(receiver) if is_group => format!("receiver {receiver} failed: {error}"),
                    _ => error.to_string(),
                }),
            }
        }
        // A hundred flows mostly fail for one reason.
        failures.sort_unstable();
        failures.dedup();
        let used = self.meter.used();
        let processor = self.processor.taken(Duration::from_nanos(used.cpu_ns));
        SideResult { flows, used, processor, applied_load: None, failures, notes }
    }
}

/// Describes the imbalance of an account; `None` if it balances.
fn imbalance(account: &Account) -> Option<String> {
    (!account.adds_up()).then(|| {
        format!(
            "an account does not add up: {} sent, {} received, {} missing\nreport this: it is a defect of this program",
            account.sent,
            account.received,
            account.missing()
        )
    })
}

/// Returns the measured time of a flow that ended `until` after the start; `None` if it ended before the
/// measured part.
fn measured(from: Option<Duration>, until: Duration) -> Option<u64> {
    let length = until.checked_sub(from?)?;
    (!length.is_zero()).then(|| nanos(length))
}

/// Checks that threads may run on a processor.
pub(super) fn check_cpu(cpu: Option<usize>) -> Result<(), SideError> {
    let Some(cpu) = cpu else { return Ok(()) };
    // On its own thread, whose scheduling ends with it.
    let pinned = std::thread::spawn(move || scheduling::pin_to_cpu(cpu)).join();
    pinned.expect("pinning does not panic").map_err(|source| SideError::Cpu { cpu, source })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::message::{AccountState, Unit};

    fn account(sent: u64, received: u64, unexplained: u64) -> Account {
        let (unit, state) = (Unit::Bytes, AccountState::Closed);
        let lost = std::collections::BTreeMap::new();
        Account { unit, state, sent, received, lost, unexplained, duplicates: 0, unmatched: 0 }
    }

    #[test]
    fn an_account_that_does_not_add_up_is_a_failure_either_way() {
        assert_eq!(imbalance(&account(10, 10, 0)), None);
        assert_eq!(imbalance(&account(10, 7, 3)), None);
        assert!(imbalance(&account(10, 7, 2)).unwrap().contains("10 sent, 7 received, 2 missing"));
        assert!(imbalance(&account(10, 12, 0)).is_some(), "more came than was sent");
    }

    #[test]
    fn what_ended_before_the_measured_part_began_was_not_measured() {
        let ms = Duration::from_millis;
        assert_eq!(measured(Some(Duration::ZERO), ms(300)), Some(300_000_000));
        assert_eq!(measured(Some(ms(112)), ms(300)), Some(188_000_000));
        assert_eq!(measured(Some(ms(112)), ms(112)), None);
        assert_eq!(measured(Some(ms(112)), ms(90)), None);
        assert_eq!(measured(None, ms(90)), None);
    }
}
