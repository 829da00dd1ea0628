//! One end of a run: its threads, its marks, and what it and the other end say meanwhile.
//!
//! Client and server are the same here; what differs is whom they tell, which is a [`Partner`].

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use sys::{clock, scheduling};
use units::Instant;

use super::message::{Count, FlowKey, FlowResult, Live, Sent, SideResult, Word};
use super::options::{Options, Rate};
use super::transport::{Flow, TransportError};
use super::worker::{Ended, Timetable, Worker};
use crate::control::{Connection, ControlError};
use crate::host::Elsewhere;

/// How long this end listens to the other before it looks after its own flows.
const LISTEN: Duration = Duration::from_millis(10);

/// How long after its planned end a run may take to end: longer than receivers wait for a tail.
const GRACE: Duration = Duration::from_secs(20);

/// Says why a run could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SideError {
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Data cannot flow.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The options cannot be.
    #[error(transparent)]
    Options(#[from] super::options::OptionsError),
    /// A processor that there is not, or not for this program.
    #[error("processor {cpu} cannot be used: {source}\nchoose one that `taskset -cp $$` lists")]
    Cpu {
        /// Which.
        cpu: usize,
        /// What the system says.
        source: std::io::Error,
    },
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}\nlower -P, or raise the limit with: ulimit -u")]
    Thread(std::io::Error),
    /// The other end does not come to an end.
    #[error("the other end has not ended the run {0:?} after it should have\nsee what keeps its host busy")]
    Endless(Duration),
}

/// What a run is for whoever is in it.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) rate: Rate,
    pub(super) unit_bytes: usize,
    pub(super) cpu: Option<usize>,
}

/// What the one at this end does with what happens.
pub(super) trait Partner {
    /// A mark has come: this is what this end has counted.
    fn mark(&mut self, live: Live, connection: &mut Connection) -> Result<(), ControlError>;

    /// The other end said something that is not this end's business.
    fn hear(&mut self, word: Word, connection: &mut Connection) -> Result<Heard, ControlError>;

    /// Tells whether this end wants the run to end early.
    fn is_wanted_to_end(&self) -> bool;
}

/// What is to be done after a word of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    Fine,
    /// Send no more.
    Stop,
}

/// The threads of one end while a run goes on.
pub(super) struct Side {
    workers: Vec<Worker>,
    start: Instant,
    run_time: Duration,
    omit: Duration,
    marks: std::iter::Peekable<std::iter::Enumerate<std::vec::IntoIter<Duration>>>,
    /// What was counted when the measured part began.
    omitted: Vec<(FlowKey, Count)>,
    elsewhere: Elsewhere,
    cpu_before_ns: u64,
    is_sent_told: bool,
    is_stopping: bool,
}

impl Side {
    /// Starts the threads of all flows.
    pub(super) fn start(run: &Run<'_>, flows: Vec<Flow>) -> Result<Self, SideError> {
        let (elsewhere, cpu_before_ns) = (Elsewhere::begin(), cpu_ns());
        let start = clock::monotonic();
        let run_time = run.options.run_time();
        let rate = run.rate.of_units(run.unit_bytes);
        let timetable = Timetable { start, end: start + run_time, rate };
        let mut side = Self {
            workers: Vec::new(),
            start,
            run_time,
            omit: run.options.omit,
            marks: run.options.marks().into_iter().enumerate().peekable(),
            omitted: Vec::new(),
            elsewhere,
            cpu_before_ns,
            is_sent_told: false,
            is_stopping: false,
        };
        for flow in flows {
            match Worker::start(flow, timetable, run.cpu) {
                Ok(worker) => side.workers.push(worker),
                Err(error) => {
                    side.give_up();
                    return Err(SideError::Thread(error));
                }
            }
        }
        Ok(side)
    }

    /// Lives through the run; returns what this end counted. After an error of the control connection the threads are
    /// ended, and what they had counted is in the second place.
    pub(super) fn run(
        mut self,
        connection: &mut Connection,
        partner: &mut dyn Partner,
    ) -> (Result<(), SideError>, SideResult) {
        let outcome = self.go_on(connection, partner);
        if outcome.is_err() {
            self.give_up();
        }
        (outcome, self.finish())
    }

    fn go_on(&mut self, connection: &mut Connection, partner: &mut dyn Partner) -> Result<(), SideError> {
        let latest = self.start + self.run_time + GRACE;
        loop {
            self.pass_marks(connection, partner)?;
            if partner.is_wanted_to_end() && !self.is_stopping {
                self.stop();
                connection.say(&Word::Stop)?;
            }
            self.tell_sent(connection)?;
            if self.is_sent_told && self.workers.iter().all(Worker::is_done) {
                return self.pass_the_rest(connection, partner);
            }
            match connection.hear_word(std::time::Instant::now() + LISTEN)? {
                None => {}
                Some(Word::Sent(sent)) => self.hear_sent(&sent),
                Some(word) => match partner.hear(word, connection)? {
                    Heard::Fine => {}
                    Heard::Stop => self.stop(),
                },
            }
            if clock::monotonic() > latest {
                return Err(SideError::Endless(GRACE));
            }
        }
    }

    /// Takes note of what was counted at marks that have passed.
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

    /// Takes note of what was counted at marks that are still to come when all flows have ended: the last one, which an
    /// end that began a little later has not reached, or the one that a run ended early is on its way to.
    fn pass_the_rest(
        &mut self,
        connection: &mut Connection,
        partner: &mut dyn Partner,
    ) -> Result<(), SideError> {
        while let Some((mark, at)) = self.marks.next() {
            let live = self.look(mark, at);
            partner.mark(live, connection)?;
            if self.is_stopping {
                break;
            }
        }
        Ok(())
    }

    fn look(&mut self, mark: usize, at: Duration) -> Live {
        let flows: Vec<_> = self.workers.iter().map(|worker| (worker.flow.key, worker.count())).collect();
        if at == self.omit {
            self.omitted.clone_from(&flows);
        }
        Live { mark, at_ns: nanos(clock::monotonic().since(self.start)), flows }
    }

    /// Tells the other end what was sent, once all of it was.
    fn tell_sent(&mut self, connection: &mut Connection) -> Result<(), SideError> {
        if self.is_sent_told {
            return Ok(());
        }
        let senders = self.workers.iter().filter(|worker| worker.is_sender());
        // Asked in this order: a thread that ends in between has told what it sent by then. One that failed before it
        // sent anything tells nothing.
        let sent = senders.map(|worker| {
            let is_done = worker.is_done();
            worker.sent().or_else(|| is_done.then(Sent::default))
        });
        let Some(sent) = sent.collect::<Option<Vec<Sent>>>() else { return Ok(()) };
        self.is_sent_told = true;
        Ok(connection.say(&Word::Sent(sent))?)
    }

    /// Tells the receivers what was sent to them: one item a flow, in the order of flows.
    fn hear_sent(&self, sent: &[Sent]) {
        for worker in self.workers.iter().filter(|worker| !worker.is_sender()) {
            if let Some(sent) = sent.get(worker.flow.key.stream as usize) {
                worker.tell_sent(sent.clone());
            }
        }
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        self.workers.iter().for_each(Worker::ask_to_end);
    }

    fn give_up(&self) {
        self.workers.iter().for_each(Worker::ask_to_give_up);
    }

    /// Collects what the threads leave.
    fn finish(self) -> SideResult {
        let (start, omit, omitted) = (self.start, self.omit, self.omitted);
        let elapsed = clock::monotonic().since(start);
        let (mut flows, mut notes) = (Vec::new(), Vec::new());
        for worker in self.workers {
            let (flow, ended) = worker.join();
            notes.extend(flow.notes);
            match ended {
                Ok(ended) => {
                    let before = omitted.iter().find(|(key, _)| *key == flow.key).map(|(_, count)| *count);
                    let Ended { count, account, last, skipped, notes: more } = ended;
                    notes.extend(more);
                    flows.push(FlowResult {
                        key: flow.key,
                        local: flow.local,
                        remote: flow.remote,
                        total: count,
                        omitted: before.unwrap_or_default(),
                        measured_ns: nanos(
                            last.map_or(elapsed, |last| last.since(start)).saturating_sub(omit),
                        ),
                        skipped,
                        congestion_control: flow.congestion_control,
                        account,
                    });
                }
                Err(error) => notes.push(error.to_string()),
            }
        }
        let cpu_ns = cpu_ns().saturating_sub(self.cpu_before_ns);
        let elsewhere_cpus = self.elsewhere.cpus(Duration::from_nanos(cpu_ns));
        SideResult { flows, cpu_ns, elapsed_ns: nanos(elapsed), elsewhere_cpus, notes }
    }
}

/// Checks that threads may run on a processor.
pub(super) fn check_cpu(cpu: Option<usize>) -> Result<(), SideError> {
    let Some(cpu) = cpu else { return Ok(()) };
    // On a thread of its own, whose scheduling ends with it.
    let pinned = std::thread::spawn(move || scheduling::pin_to_cpu(cpu)).join();
    pinned.expect("pinning does not panic").map_err(|source| SideError::Cpu { cpu, source })
}

/// Returns the processor time of this process so far, the kernel's in its name included.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
