//! Processor affinity and priority of threads.

use std::io;

use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::raw;

/// The highest priority of `SCHED_FIFO`; the lowest is 1.
pub const MAX_FIFO_PRIORITY: u8 = 99;

/// Restricts the calling thread to one processor.
///
/// # Errors
/// `EINVAL` if there is no such processor or this process may not use it.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread preempt all threads outside the real-time classes (`SCHED_FIFO`), until
/// it waits.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` that allows it, and in control groups
/// without real-time bandwidth; `EINVAL` for a priority outside 1 to 99.
pub fn run_fifo(priority: u8) -> io::Result<()> {
    raw::set_fifo(priority)
}

/// Returns the nice value of a thread of any process: -20 is the highest priority, 19 the lowest.
///
/// # Errors
/// `NotFound` where there is no such thread.
pub fn nice(tid: u32) -> io::Result<i32> {
    getpriority_process(Some(number(tid)?)).map_err(no_such_thread)
}

/// Sets the nice value of a thread of any process.
///
/// # Errors
/// `NotFound` where there is no such thread; `PermissionDenied` for a higher priority than now
/// without `CAP_SYS_NICE`, or for another user's thread.
pub fn set_nice(tid: u32, value: i32) -> io::Result<()> {
    setpriority_process(Some(number(tid)?), value).map_err(no_such_thread)
}

fn number(tid: u32) -> io::Result<Pid> {
    i32::try_from(tid).ok().and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn no_such_thread(error: rustix::io::Errno) -> io::Error {
    if error == rustix::io::Errno::SRCH { io::ErrorKind::NotFound.into() } else { error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    /// Runs `act` on a thread of its own, whose scheduling ends with it.
    fn on_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(act).join().unwrap())
    }

    #[test]
    fn a_pinned_thread_may_use_that_processor_only() {
        let allowed = sched_getaffinity(None).unwrap();
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
        let count = on_a_thread(|| pin_to_cpu(cpu).map(|()| sched_getaffinity(None).unwrap().count()));
        assert_eq!(count.unwrap(), 1);
        assert_eq!(
            on_a_thread(|| pin_to_cpu(CpuSet::MAX_CPU)).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    #[test]
    fn a_thread_is_as_nice_as_it_was_told() {
        let (before, after) = on_a_thread(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let before = nice(tid).unwrap();
            set_nice(tid, before + 1).unwrap();
            (before, nice(tid).unwrap())
        });
        assert_eq!(after, before + 1);
        for nobody in [0, u32::MAX, i32::MAX as u32] {
            assert_eq!(set_nice(nobody, 0).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(nice(nobody).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_priority_that_there_is_not_is_refused_and_one_that_there_is_may_not_be_allowed() {
        for priority in [0, MAX_FIFO_PRIORITY + 1] {
            assert_eq!(on_a_thread(|| run_fifo(priority)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        match on_a_thread(|| run_fifo(1)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => println!("SKIPPED: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
