//! Cause of a blocked reader, a disk or swapped memory, and the fill levels of its resources.
//!
//! The kernel reports that a thread is blocked, and not by what. It also counts the time in which any task of the
//! host waited for disks and for memory (`/proc/pressure`), pages read from swap (`pswpin`), and for the thread
//! itself the number of pages that had to be read (`majflt`).

use ledger::Stage;

use crate::BufferCause;
use crate::watch::counters::evidence;
use crate::watch::finding::{Evidence, Finding, Level};
use crate::watch::snapshot::{Owner, Snapshot, Thread};

/// Minimum pressure for a blocked reader: a thread that is blocked between two snapshots causes pressure all the
/// time; less was another's.
const PRESSING: f64 = 0.2;

const DISK: &str = "pressure:io_some_us";
const MEMORY: &str = "pressure:memory_some_us";
const FROM_SWAP: &str = "pswpin";

/// Refines the cause of a blocked thread, where the kernel reports more.
pub(crate) fn told_apart(
    cause: BufferCause,
    before: &Snapshot,
    after: &Snapshot,
    owners: (&Owner, &Owner),
) -> BufferCause {
    if cause != BufferCause::Blocked {
        return cause;
    }
    // A page from swap comes from a disk, too: so this first.
    let waits_for_pages = major_faults(owners) > 0 || is_pressing(before, after, MEMORY);
    if after.rise(before, FROM_SWAP) > 0 && waits_for_pages {
        BufferCause::BlockedBySwap
    } else if is_pressing(before, after, DISK) {
        BufferCause::BlockedByDisk
    } else {
        BufferCause::Blocked
    }
}

/// Returns the counters that show a blocked reader's cause.
pub(crate) fn evidence_of(
    cause: BufferCause,
    before: &Snapshot,
    after: &Snapshot,
    owners: (&Owner, &Owner),
) -> Vec<Evidence> {
    let names: &[&str] = match cause {
        BufferCause::BlockedByDisk => &[DISK],
        BufferCause::BlockedBySwap => &[FROM_SWAP, MEMORY],
        _ => return Vec::new(),
    };
    let counts = names.iter().map(|name| evidence(name, after.rise(before, name)));
    let faults = (cause == BufferCause::BlockedBySwap).then(|| evidence("majflt", major_faults(owners)));
    counts.chain(faults).filter(|it| it.rise > 0).collect()
}

fn is_pressing(before: &Snapshot, after: &Snapshot, name: &str) -> bool {
    let time = after.at.since(before.at).as_micros();
    #[expect(clippy::cast_precision_loss, reason = "microseconds between two snapshots are far below 2^53")]
    let share = after.rise(before, name) as f64 / time.max(1) as f64;
    share >= PRESSING
}

/// Returns the major faults of the thread that waited most often.
fn major_faults((before, after): (&Owner, &Owner)) -> u64 {
    let then = |thread: &Thread| before.threads.iter().find(|it| it.tid == thread.tid);
    let rise = |now: &Thread| Some(now.major_faults.saturating_sub(then(now)?.major_faults));
    after.threads.iter().filter_map(rise).max().unwrap_or(0)
}

/// Levels that belong to a loss of a stage, with their limits.
const MEMORIES: &[(Stage, &[(&str, &str)])] = &[
    (Stage::ReceiverUdpMemory, &[("UDP mem", "net.ipv4.udp_mem")]),
    (
        Stage::ReceiverReassembly,
        &[("FRAG memory", "net.ipv4.ipfrag_high_thresh"), ("FRAG6 memory", "net.ipv6.ip6frag_high_thresh")],
    ),
];
/// Prefix of the names of the free space on a disk in a snapshot; the mount point follows.
const DISK_FREE: &str = "disk_free_bytes:";
const DISK_SIZE: &str = "disk_size_bytes:";

/// Adds the fill level of a stage's memory, or of a blocked reader's disk, at the time of the snapshot.
pub(crate) fn add_levels(findings: &mut [Finding], after: &Snapshot) {
    let value = |name: &str| after.levels.get(name).copied();
    for finding in findings {
        let memories = MEMORIES.iter().filter(|(stage, _)| *stage == finding.stage).flat_map(|(_, all)| *all);
        let level = |(name, limit): &(&str, &str)| {
            let used = value(name).filter(|used| *used > 0)?;
            Some(Level { name: (*name).to_owned(), value: used, limit: value(limit) })
        };
        finding.levels.extend(memories.filter_map(level));
        if matches!(finding.cause, Some(BufferCause::Blocked | BufferCause::BlockedByDisk)) {
            finding.levels.extend(disks(after));
        }
    }
}

/// Returns the used space of the disks on which blocked readers have files.
fn disks(snapshot: &Snapshot) -> impl Iterator<Item = Level> {
    let free = snapshot.levels.iter().filter_map(|(name, free)| Some((name.strip_prefix(DISK_FREE)?, *free)));
    free.filter_map(|(mount, free)| {
        let size = *snapshot.levels.get(&format!("{DISK_SIZE}{mount}"))?;
        Some(Level { name: format!("bytes of {mount}"), value: size.saturating_sub(free), limit: Some(size) })
    })
}

/// Returns the free space on a disk and its size as levels of a snapshot.
#[must_use]
pub fn disk_levels(mount: &str, free_bytes: u64, size_bytes: u64) -> [(String, u64); 2] {
    [(format!("{DISK_FREE}{mount}"), free_bytes), (format!("{DISK_SIZE}{mount}"), size_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::snapshot::tests::snapshot;
    use crate::{Losses, Socket, Watch};

    fn owner(major_faults: u64) -> Owner {
        let thread = Thread { tid: 3, ran_ns: 0, waited_ns: 0, major_faults, is_blocked: true };
        Owner { pid: 3, name: "reader".to_owned(), threads: vec![thread] }
    }

    /// Returns a second in which a reader that was blocked in both snapshots lost nine datagrams.
    fn blocked(major_faults: u64, counters: &[(&str, u64)], levels: &[(String, u64)]) -> Losses {
        let socket = |drops, faults| Socket {
            cookie: 1,
            local: "127.0.0.1:7400".parse().unwrap(),
            buffer_bytes: 8_192,
            drops,
            owner: Some(owner(faults)),
        };
        let mut before = snapshot(0, &[]);
        before.sockets = vec![socket(0, 0)];
        let mut after = snapshot(1, &[&[("UdpRcvbufErrors", 9), ("UdpInErrors", 9)], counters].concat());
        after.sockets = vec![socket(9, major_faults)];
        after.early_drops = [(1, 9)].into();
        after.levels = levels.iter().cloned().collect();
        Watch::begin(before).compare(after, None)
    }

    fn cause(major_faults: u64, counters: &[(&str, u64)]) -> (BufferCause, Vec<String>) {
        let finding = blocked(major_faults, counters, &[]).findings.remove(0);
        (finding.cause.unwrap(), finding.evidence.into_iter().skip(2).map(|it| it.counter).collect())
    }

    #[test]
    fn a_reader_that_waited_for_a_disk_is_recognised_by_the_pressure_on_disks() {
        assert_eq!(cause(0, &[(DISK, 200_000)]), (BufferCause::BlockedByDisk, vec![DISK.to_owned()]));
        assert_eq!(cause(0, &[(DISK, 199_999)]), (BufferCause::Blocked, vec![]), "somebody else's");
        assert_eq!(cause(0, &[]), (BufferCause::Blocked, vec![]), "as of a kernel that does not tell");
    }

    #[test]
    fn a_reader_that_waited_for_swap_is_recognised_by_pages_that_came_back() {
        let both = [(DISK, 900_000), (FROM_SWAP, 40)];
        let expected = vec![FROM_SWAP.to_owned(), "majflt".to_owned()];
        assert_eq!(cause(3, &both), (BufferCause::BlockedBySwap, expected));
        assert_eq!(cause(0, &both).0, BufferCause::BlockedByDisk, "it did not wait for a page");
        assert_eq!(cause(3, &both[..1]).0, BufferCause::BlockedByDisk, "a page of a file");
        let (cause, names) = cause(0, &[both[0], both[1], (MEMORY, 300_000)]);
        assert_eq!(
            (cause, names),
            (BufferCause::BlockedBySwap, vec![FROM_SWAP.to_owned(), MEMORY.to_owned()])
        );
    }

    #[test]
    fn the_remedy_of_a_blocked_reader_follows_what_it_waited_for() {
        let first =
            |faults, counters: &[_]| blocked(faults, counters, &[]).findings[0].remedies[0].what.clone();
        assert!(first(0, &[(DISK, 900_000)]).contains("disk"));
        assert!(first(3, &[(FROM_SWAP, 40)]).contains("mlockall"));
    }

    #[test]
    fn a_full_disk_is_reported_only_for_readers_that_may_wait_for_it() {
        let disk = disk_levels("/var", 100, 1_000);
        let level = Level { name: "bytes of /var".to_owned(), value: 900, limit: Some(1_000) };
        let levels = |counters: &[_], faults| blocked(faults, counters, &disk).findings.remove(0).levels;
        assert_eq!(levels(&[(DISK, 900_000)], 0), std::slice::from_ref(&level));
        assert_eq!(levels(&[], 0), [level]);
        assert_eq!(levels(&[(FROM_SWAP, 40)], 3), []);
        assert_eq!(
            blocked(0, &[], &disk[..1]).findings[0].levels,
            [],
            "of a disk without size nothing is said"
        );
    }

    #[test]
    fn a_memory_that_was_used_up_is_reported_with_its_limit() {
        let mut after = snapshot(1, &[("IpReasmFails", 3)]);
        after.levels = [
            ("FRAG memory", 4_000),
            ("FRAG6 memory", 0),
            ("net.ipv4.ipfrag_high_thresh", 4_096),
            ("UDP mem", 9),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let finding = Watch::begin(snapshot(0, &[])).compare(after, None).findings.remove(0);
        let expected = Level { name: "FRAG memory".to_owned(), value: 4_000, limit: Some(4_096) };
        assert_eq!(finding.levels, [expected]);
    }
}
