//! The two processes of a run themselves.
//!
//! Both are this program, started again, and both follow messages on standard input. They end when it does,
//! however the bench ended.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use probe::cycle::{Assembly, Cut, CutError, Sending, Sent};
use rustix::time::{ClockId, clock_gettime};
use sys::clock;
use units::Instant;

use super::message::{FromWorker, Role, Task, ToWorker};
use super::transport::{self, Opened, ReceiveEnd, SendEnd, TransportError};
use crate::child::{self, say};

/// Interval at which the reader checks for messages of the bench: a ring has no descriptor that could be waited
/// for together with standard input.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Reasons why a process of a run could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The array cannot be cut into pieces.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// An unexpected message.
    #[error(
        "unexpected message `{0}` for a process of the bench\nthis command is for the bench itself: run `tallycast bench cycle`"
    )]
    Unexpected(String),
    /// The bench no longer reads.
    #[error("the bench is gone: {0}\nrun `tallycast bench cycle` again")]
    Gone(#[from] std::io::Error),
}

/// Runs as one of the two processes, until standard input ends.
///
/// # Errors
/// [`WorkerError`], which is also reported to the bench if it still reads.
pub fn serve() -> Result<(), WorkerError> {
    // Refused on some kernels; sleeps then end up to 50 µs late, which is part of the measurement.
    let _ = clock::lower_timer_slack();
    child::serve(serve_runs)
}

fn serve_runs(told: &Receiver<ToWorker>) -> Result<(), WorkerError> {
    while let Ok(message) = told.recv() {
        match message {
            ToWorker::Prepare(task) if task.role == Role::Writer => write(&task, told)?,
            ToWorker::Prepare(task) => read(&task, told)?,
            // A message about a run that is over already.
            ToWorker::Stop => {}
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

/// Runs as the writer of one run.
fn write(task: &Task, told: &Receiver<ToWorker>) -> Result<(), WorkerError> {
    let cut = Cut::new(task.run, task.elements, task.unit_bytes)?;
    let Opened { mut end, endpoint, notes } = transport::open_send(task)?;
    // Touched before the run: the first cycle must not pay for page faults.
    let mut memory = vec![0xff; cut.cycle_bytes()];
    say(&FromWorker::Ready { endpoint, notes })?;
    let Some(start_ns) = wait_for_start(told)? else { return Ok(()) };

    let began = cpu_ns();
    let schedule = task.schedule(start_ns);
    let mut sending = Sending::new(schedule);
    while let Some(cycle) = sending.next_cycle() {
        clock::sleep_until(schedule.begin(cycle));
        if is_told_to_stop(told)? || is_too_late(task, sending.sent()) {
            break;
        }
        let refused = send_cycle(&cut, cycle, &mut memory, &mut *end)?;
        sending.count(u64::from(cut.pieces()), refused, clock::monotonic());
    }
    Ok(say(&FromWorker::Sent { sent: *sending.sent(), cpu_ns: cpu_ns() - began })?)
}

fn send_cycle(
    cut: &Cut,
    cycle: u32,
    memory: &mut Vec<u8>,
    end: &mut dyn SendEnd,
) -> Result<u64, TransportError> {
    let pieces: Vec<&[u8]> = cut.write(cycle, memory).collect();
    end.send(&pieces)
}

/// Runs as the reader of one run.
fn read(task: &Task, told: &Receiver<ToWorker>) -> Result<(), WorkerError> {
    let cut = Cut::new(task.run, task.elements, task.unit_bytes)?;
    let Opened { mut end, endpoint, notes } = transport::open_receive(task)?;
    say(&FromWorker::Ready { endpoint, notes })?;
    let Some(start_ns) = wait_for_start(told)? else { return Ok(()) };

    let began = cpu_ns();
    let mut assembly = Assembly::new(cut, task.schedule(start_ns));
    let Some(sent) = receive_run(task, &mut assembly, &mut *end, told)? else { return Ok(()) };
    // Nothing is in flight any more: sent pieces are in the queue by now, or lost.
    while receive(&mut assembly, &mut *end, Instant::ORIGIN)? > 0 {}
    let (account, cpu_ns) = (assembly.close(&sent), cpu_ns() - began);
    Ok(say(&FromWorker::Received { account, cpu_ns, dropped_by_socket: end.dropped() })?)
}

/// Receives until the bench reports the sent counts; `None` if it has closed.
fn receive_run(
    task: &Task,
    assembly: &mut Assembly,
    end: &mut dyn ReceiveEnd,
    told: &Receiver<ToWorker>,
) -> Result<Option<Sent>, WorkerError> {
    let limits = task.end_beyond;
    let (mut settled, mut until) = (false, clock::monotonic() + POLL_INTERVAL);
    loop {
        if receive(assembly, end, until)? == 0 {
            until = clock::monotonic() + POLL_INTERVAL;
        }
        if !settled && limits.is_some_and(|limits| assembly.is_settled(&limits)) {
            settled = true;
            say(&FromWorker::Settled)?;
        }
        match told.try_recv() {
            Err(TryRecvError::Empty) => {}
            Ok(ToWorker::Close(sent)) => return Ok(Some(sent)),
            Ok(other) => return Err(unexpected(&other)),
            Err(TryRecvError::Disconnected) => return Ok(None),
        }
    }
}

fn receive(assembly: &mut Assembly, end: &mut dyn ReceiveEnd, until: Instant) -> Result<u64, TransportError> {
    end.receive(until, &mut |bytes| {
        let content = assembly.cut().read(bytes);
        // The clock last: comparing is part of the work (`a_cycle_is_called_back_after_it_was_compared`).
        let _ = assembly.accept(clock::monotonic(), content);
    })
}

/// Waits for the start; `None` if the bench cancelled the run or is gone.
fn wait_for_start(told: &Receiver<ToWorker>) -> Result<Option<u64>, WorkerError> {
    match told.recv() {
        Ok(ToWorker::Start { start_ns }) => Ok(Some(start_ns)),
        Ok(ToWorker::Stop) | Err(_) => Ok(None),
        Ok(other) => Err(unexpected(&other)),
    }
}

fn is_told_to_stop(told: &Receiver<ToWorker>) -> Result<bool, WorkerError> {
    match told.try_recv() {
        Err(TryRecvError::Empty) => Ok(false),
        Ok(ToWorker::Stop) | Err(TryRecvError::Disconnected) => Ok(true),
        Ok(other) => Err(unexpected(&other)),
    }
}

/// Returns whether the writer's own callbacks have settled the run.
fn is_too_late(task: &Task, sent: &Sent) -> bool {
    task.end_beyond.is_some_and(|limits| sent.callback.late > limits.late_allowed)
}

fn unexpected(message: &ToWorker) -> WorkerError {
    WorkerError::Unexpected(serde_json::to_string(message).unwrap_or_default())
}

/// Returns the processor time of this process so far, including the kernel's on its behalf.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use probe::cycle::Schedule;

    use super::*;

    /// Passes on its content, once.
    struct Held(Option<Vec<u8>>);

    impl ReceiveEnd for Held {
        fn receive(&mut self, _until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError> {
            Ok(self.0.take().map_or(0, |piece| {
                take(&piece);
                1
            }))
        }

        fn dropped(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_cycle_is_called_back_after_it_was_compared() {
        // 16 MiB in one piece, as through shared memory: no processor compares that in 20 µs, and reading a clock
        // takes a small part of them.
        let (elements, comparison) = (1 << 22, Duration::from_micros(20));
        let cut = Cut::new(1, elements, usize::MAX).unwrap();
        let mut memory = Vec::new();
        let mut end = Held(cut.write(0, &mut memory).next().map(<[u8]>::to_vec));
        let cycle_time = Duration::from_secs(3_600);
        let schedule = Schedule { start: clock::monotonic(), cycle_time, cycles: 1 };
        let mut assembly = Assembly::new(cut, schedule);
        let began = clock::monotonic();
        assert_eq!(receive(&mut assembly, &mut end, Instant::ORIGIN).unwrap(), 1);
        assert!(assembly.is_complete());
        let sent = Sent { cycles: 1, handed: 1, ..Sent::default() };
        let slack = assembly.close(&sent).callbacks.reader.least_slack_ns.unwrap();
        let slack_at_best = schedule.end().since(began + comparison);
        assert!(slack <= i64::try_from(slack_at_best.as_nanos()).unwrap(), "{slack} ns");
    }
}
