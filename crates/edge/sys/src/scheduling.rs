//! Where and how urgently the calling thread runs.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::raw;

/// The most urgent priority of `SCHED_FIFO`; the least is 1.
pub const MAX_FIFO_PRIORITY: u8 = 99;

/// Lets the calling thread run on one processor only.
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

/// Lets the calling thread run before all that are not in a real-time class (`SCHED_FIFO`), until it waits.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` or a limit `RLIMIT_RTPRIO` that allows it, and in groups of processes without a share of
/// real time; `EINVAL` for a priority outside 1 to 99.
pub fn run_fifo(priority: u8) -> io::Result<()> {
    raw::set_fifo(priority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    /// Runs on a thread of its own, whose scheduling ends with it.
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
