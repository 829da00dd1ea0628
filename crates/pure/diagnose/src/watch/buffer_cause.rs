//! Cause of a full receive buffer, from the activity of its owner's threads.
//!
//! A full buffer is a place, not a cause: a reader may be too slow, have no processor, be blocked, or be fast enough
//! except for bursts.

use core::fmt;
use core::time::Duration;

use crate::watch::snapshot::{Owner, Thread};

/// Cause of a full receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferCause {
    /// A thread of the reader ran nearly all the time: it is at its limit.
    TooSlow,
    /// The reader was runnable and had no processor.
    Starved,
    /// The reader was blocked, as by a disk or by swapping; the kernel does not report by which.
    Blocked,
    /// The reader was blocked, and there was pressure on the disks.
    BlockedByDisk,
    /// The reader was blocked, and waited for its own memory to be read from swap.
    BlockedBySwap,
    /// The reader slept most of the time: more arrived in a short time than the buffer holds.
    Burst,
}

/// Share of running time from which a thread is at its limit.
const BUSY: f64 = 0.9;
/// Share of waiting time from which a thread is starved of a processor.
const STARVED: f64 = 0.2;

impl BufferCause {
    /// Finds the cause from two snapshots of the owner, `time` apart; `None` if its threads could not be seen.
    /// Finding out what blocked them takes more than the threads ([`crate::watch::stall`]).
    pub(crate) fn find(before: &Owner, after: &Owner, time: Duration) -> Option<Self> {
        let time = time.as_secs_f64();
        if before.pid != after.pid || time <= 0.0 {
            return None;
        }
        let known = |thread: &Thread| before.threads.iter().find(|it| it.tid == thread.tid).copied();
        // A thread that started meanwhile has no earlier counts.
        let both: Vec<(Thread, Thread)> =
            after.threads.iter().filter_map(|thread| Some((known(thread)?, *thread))).collect();
        if both.is_empty() {
            return None;
        }
        let most = |of: fn(&Thread) -> u64| {
            let rises = both.iter().map(|(then, now)| of(now).saturating_sub(of(then)));
            Duration::from_nanos(rises.max().unwrap_or(0)).as_secs_f64() / time
        };
        Some(if both.iter().any(|(then, now)| then.is_blocked && now.is_blocked) {
            Self::Blocked
        } else if most(|thread| thread.waited_ns) >= STARVED {
            Self::Starved
        } else if most(|thread| thread.ran_ns) >= BUSY {
            Self::TooSlow
        } else {
            Self::Burst
        })
    }
}

impl fmt::Display for BufferCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooSlow => "the reader ran all the time and could not keep up",
            Self::Starved => "the reader was runnable and had no processor",
            Self::Blocked => "the reader was blocked, as by a disk or by swapping",
            Self::BlockedByDisk => "the reader was blocked by a disk",
            Self::BlockedBySwap => "the reader was blocked by its own memory, which had been swapped out",
            Self::Burst => "the reader slept most of the time: bursts are larger than its buffer",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(threads: &[(u32, u64, u64, bool)]) -> Owner {
        let thread = |(tid, ran_ms, waited_ms, is_blocked): &(u32, u64, u64, bool)| Thread {
            tid: *tid,
            ran_ns: ran_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
            major_faults: 0,
            is_blocked: *is_blocked,
        };
        Owner { pid: 7, name: "reader".to_owned(), threads: threads.iter().map(thread).collect() }
    }

    fn of_a_second(threads: &[(u32, u64, u64, bool)]) -> Option<BufferCause> {
        let idle: Vec<_> = threads.iter().map(|(tid, .., blocked)| (*tid, 0, 0, *blocked)).collect();
        BufferCause::find(&owner(&idle), &owner(threads), Duration::from_secs(1))
    }

    #[test]
    fn a_thread_that_ran_all_the_time_is_too_slow() {
        assert_eq!(of_a_second(&[(1, 10, 0, false), (2, 900, 50, false)]), Some(BufferCause::TooSlow));
        assert_eq!(of_a_second(&[(1, 899, 0, false)]), Some(BufferCause::Burst));
    }

    #[test]
    fn a_thread_that_waited_for_a_processor_is_starved_however_busy() {
        assert_eq!(of_a_second(&[(1, 500, 200, false)]), Some(BufferCause::Starved));
        assert_eq!(of_a_second(&[(1, 500, 199, false)]), Some(BufferCause::Burst));
    }

    #[test]
    fn a_thread_that_was_blocked_in_both_snapshots_is_blocked() {
        assert_eq!(of_a_second(&[(1, 950, 300, true)]), Some(BufferCause::Blocked));
        let (before, after) = (owner(&[(1, 0, 0, false)]), owner(&[(1, 0, 0, true)]));
        let cause = BufferCause::find(&before, &after, Duration::from_secs(1));
        assert_eq!(cause, Some(BufferCause::Burst), "for a moment anybody is");
    }

    #[test]
    fn of_threads_that_were_not_seen_nothing_is_said() {
        assert_eq!(of_a_second(&[]), None);
        let (before, after) = (owner(&[(1, 0, 0, false)]), owner(&[(2, 1_000, 0, false)]));
        assert_eq!(BufferCause::find(&before, &after, Duration::from_secs(1)), None);
        assert_eq!(BufferCause::find(&before, &before, Duration::ZERO), None);
        let another = Owner { pid: 8, ..before.clone() };
        assert_eq!(BufferCause::find(&before, &another, Duration::from_secs(1)), None);
    }
}
