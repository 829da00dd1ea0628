//! Why a receive buffer was full, by what the threads of its owner did meanwhile.
//!
//! That a buffer is full says where, not why: a reader may be too slow, have no processor, be blocked, or be fast enough for all
//! but the bursts.

use core::fmt;
use core::time::Duration;

use crate::snapshot::{Owner, Thread};

/// Why a receive buffer was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A thread of the reader ran nearly all the time: it cannot do more.
    TooSlow,
    /// It could have run and had no processor.
    Starved,
    /// It was blocked, as by a disk or by swapping; the kernel does not tell by which.
    Blocked,
    /// It was blocked, and there was something to wait for at the disks.
    BlockedByDisk,
    /// It was blocked, and waited for its own memory, which came back from swap.
    BlockedBySwap,
    /// It slept most of the time: more came in a short time than the buffer holds.
    Burst,
}

/// A thread that ran for so much of the time can do no more.
const BUSY: f64 = 0.9;
/// One that waited for a processor for so much of the time misses it.
const STARVED: f64 = 0.2;

impl Cause {
    /// Finds the cause by two snapshots of the owner, `time` apart; `None` if its threads could not be seen. It takes more than the
    /// threads to find what blocked them ([`crate::stall`]).
    pub(crate) fn find(before: &Owner, after: &Owner, time: Duration) -> Option<Self> {
        let time = time.as_secs_f64();
        if before.pid != after.pid || time <= 0.0 {
            return None;
        }
        let known = |thread: &Thread| before.threads.iter().find(|it| it.tid == thread.tid).copied();
        // One that came meanwhile has no past to compare with.
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

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooSlow => "the reader ran all the time and could not keep up",
            Self::Starved => "the reader could have run and had no processor",
            Self::Blocked => "the reader was blocked, as by a disk or by swapping",
            Self::BlockedByDisk => "the reader was blocked by a disk",
            Self::BlockedBySwap => "the reader was blocked by its own memory, which had gone to swap",
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

    fn of_a_second(threads: &[(u32, u64, u64, bool)]) -> Option<Cause> {
        let idle: Vec<_> = threads.iter().map(|(tid, .., blocked)| (*tid, 0, 0, *blocked)).collect();
        Cause::find(&owner(&idle), &owner(threads), Duration::from_secs(1))
    }

    #[test]
    fn a_thread_that_ran_all_the_time_is_too_slow() {
        assert_eq!(of_a_second(&[(1, 10, 0, false), (2, 900, 50, false)]), Some(Cause::TooSlow));
        assert_eq!(of_a_second(&[(1, 899, 0, false)]), Some(Cause::Burst));
    }

    #[test]
    fn a_thread_that_waited_for_a_processor_is_starved_however_busy() {
        assert_eq!(of_a_second(&[(1, 500, 200, false)]), Some(Cause::Starved));
        assert_eq!(of_a_second(&[(1, 500, 199, false)]), Some(Cause::Burst));
    }

    #[test]
    fn a_thread_that_was_blocked_in_both_snapshots_is_blocked() {
        assert_eq!(of_a_second(&[(1, 950, 300, true)]), Some(Cause::Blocked));
        let (before, after) = (owner(&[(1, 0, 0, false)]), owner(&[(1, 0, 0, true)]));
        let cause = Cause::find(&before, &after, Duration::from_secs(1));
        assert_eq!(cause, Some(Cause::Burst), "for a moment anybody is");
    }

    #[test]
    fn of_threads_that_were_not_seen_nothing_is_said() {
        assert_eq!(of_a_second(&[]), None);
        let (before, after) = (owner(&[(1, 0, 0, false)]), owner(&[(2, 1_000, 0, false)]));
        assert_eq!(Cause::find(&before, &after, Duration::from_secs(1)), None);
        assert_eq!(Cause::find(&before, &before, Duration::ZERO), None);
        let another = Owner { pid: 8, ..before.clone() };
        assert_eq!(Cause::find(&before, &another, Duration::from_secs(1)), None);
    }
}
