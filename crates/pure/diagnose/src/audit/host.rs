//! Clock, processors, memory and disks.

use units::text::exact_size;

use super::{Check, Disk, Facts, Judgement};
use crate::Remedy;

/// Maximum error of the clock beyond which the times of samples are hardly comparable across hosts.
const LARGE_ERROR_MS: u128 = 100;

pub(super) fn clock(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "clock";
    let Some(clock) = facts.clock else {
        return vec![Check::not_seen(CHECK, "the kernel does not report how its clock is disciplined")];
    };
    let error_ms = clock.max_error.as_millis();
    let why = "samples have this clock's time: across hosts it is only as accurate as the clocks agree";
    if clock.is_synchronised && error_ms <= LARGE_ERROR_MS {
        return vec![Check::new(CHECK, Judgement::Ok, format!("synchronised within {error_ms} ms"), why)];
    }
    let live =
        if clock.is_synchronised { format!("within {error_ms} ms") } else { "not synchronised".to_owned() };
    let remedy = Remedy::by_hand(
        "let a daemon discipline it: chrony for milliseconds, ptp4l and phc2sys (PTP) for microseconds",
    );
    vec![Check::new(CHECK, Judgement::Warn, live, why).recommending("synchronised", [remedy])]
}

pub(super) fn frequency(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "processor-frequency";
    if facts.governors.is_empty() {
        return vec![Check::not_seen(
            CHECK,
            "the kernel does not choose frequencies here, as in most virtual machines",
        )];
    }
    let live = facts.governors.join(", ");
    let why = "a processor raises its frequency only after a burst has passed";
    if facts.governors.iter().all(|governor| governor != "powersave") {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let set = |governor| format!("cpupower frequency-set --governor {governor}");
    let remedy = Remedy::by_command("full speed all the time", set("performance"), set("powersave"));
    vec![Check::new(CHECK, Judgement::Warn, live, why).recommending("performance", [remedy])]
}

pub(super) fn guest(facts: &Facts) -> Vec<Check> {
    let live = facts.guest.clone().unwrap_or_else(|| "a physical machine, as far as can be seen".to_owned());
    let why = "a guest shares processors and cards: time that its host takes is seen here as a pause, and packets that the host drops are not seen";
    vec![Check::new("guest", Judgement::Ok, live, why)]
}

pub(super) fn memory_and_disks(facts: &Facts) -> Vec<Check> {
    let swap = match facts.swap_used_bytes {
        None => Check::not_seen("swap", "/proc/meminfo cannot be read here"),
        Some(0) => Check::new("swap", Judgement::Ok, "none in use", WHY_SWAP),
        Some(used) => {
            let remedy = Remedy::by_hand(
                "end the programs that use the memory, then `swapoff -a && swapon -a` brings it back",
            );
            Check::new("swap", Judgement::Warn, format!("{} in use", exact_size(used)), WHY_SWAP)
                .recommending("none in use", [remedy])
        }
    };
    [swap].into_iter().chain(facts.disks.iter().map(disk)).collect()
}

const WHY_SWAP: &str = "a reader whose memory is on the disk pauses for it in the middle of a burst";

fn disk(disk: &Disk) -> Check {
    /// Used share from which file systems search longer for space.
    const FULL: f64 = 0.8;
    const VERY_FULL: f64 = 0.95;
    let judgement = match disk.used_share {
        share if share >= VERY_FULL => Judgement::Fail,
        share if share >= FULL => Judgement::Warn,
        _ => Judgement::Ok,
    };
    let live = format!("{} {:.0} % full", disk.path, 100.0 * disk.used_share);
    let why = "file systems that are nearly full write slower, and an archive without space loses data";
    let check = Check::new("disk", judgement, live, why);
    if judgement == Judgement::Ok {
        return check;
    }
    check.recommending("below 80 %", [Remedy::by_hand("make room, or record to another disk")])
}

pub(super) fn pressure(facts: &Facts) -> Vec<Check> {
    /// Percentage that is noticeable: a tenth of the time.
    const HIGH_PERCENT: f64 = 10.0;
    if facts.pressure.is_empty() {
        return vec![Check::not_seen("pressure", "this kernel has no /proc/pressure (PSI)")];
    }
    let one = |(what, percent): (&String, &f64)| {
        let judgement = if *percent >= HIGH_PERCENT { Judgement::Warn } else { Judgement::Ok };
        let live = format!("{percent:.1} % of the last minute something waited for {what}");
        let check = Check::new("pressure", judgement, live, "a reader that waits does not read");
        if judgement == Judgement::Ok {
            return check;
        }
        let remedy = Remedy::by_hand(
            "find the programs that use it (`top`, `iotop`), and keep them away from the readers (another host, cgroups, isolated processors)",
        );
        check.recommending("below 10 %", [remedy])
    };
    facts.pressure.iter().map(one).collect()
}

/// Checks for a busy disk, which stalls a program that writes a log file while it should read.
pub(super) fn disk_stall(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "disk-stall";
    /// Percentage that is noticeable: a tenth of the time.
    const HIGH_PERCENT: f64 = 10.0;
    const SHOWN: usize = 4;
    let Some(percent) = facts.waiting_for_disks_percent else {
        return vec![Check::not_seen(CHECK, "this kernel has no /proc/pressure/io (PSI)")];
    };
    let blocked = &facts.blocked;
    let shown = blocked.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if blocked.len() > SHOWN { ", …" } else { "" };
    let who = match blocked.len() {
        0 => "no process is blocked at the moment".to_owned(),
        _ => format!("blocked at the moment: {shown}{more}"),
    };
    let live = format!("{percent:.1} % of the last 10 s something waited for a disk; {who}");
    let why = "a reader that writes to a busy disk, even only a log, does not read meanwhile";
    if percent < HIGH_PERCENT || blocked.is_empty() {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let remedy = Remedy::by_hand(
        "let them log less, to memory (/dev/shm), or to another host, and let another thread write than the one that reads",
    );
    vec![
        Check::new(CHECK, Judgement::Warn, live, why)
            .recommending("no reader that writes to that disk", [remedy]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Clock;
    use core::time::Duration;

    #[test]
    fn a_clock_is_disciplined_and_says_how_well() {
        let judge = |is_synchronised, ms| {
            let clock = Some(Clock { is_synchronised, max_error: Duration::from_millis(ms) });
            self::clock(&Facts { clock, ..Facts::default() })[0].judgement
        };
        assert_eq!(judge(true, 100), Judgement::Ok);
        assert_eq!(judge(true, 101), Judgement::Warn);
        assert_eq!(judge(false, 1), Judgement::Warn);
    }

    #[test]
    fn processors_that_save_power_are_said() {
        let judge = |governors: &[&str]| {
            let governors = governors.iter().map(|it| (*it).to_owned()).collect();
            frequency(&Facts { governors, ..Facts::default() })[0].judgement
        };
        assert_eq!(judge(&[]), Judgement::NotSeen);
        assert_eq!(judge(&["performance", "schedutil"]), Judgement::Ok);
        assert_eq!(judge(&["performance", "powersave"]), Judgement::Warn);
    }

    #[test]
    fn disks_warn_from_eighty_percent_and_fail_from_ninety_five() {
        let judge = |used_share| disk(&Disk { path: "/".to_owned(), used_share }).judgement;
        assert_eq!(
            [judge(0.79), judge(0.8), judge(0.94), judge(0.95)],
            [Judgement::Ok, Judgement::Warn, Judgement::Warn, Judgement::Fail]
        );
    }

    #[test]
    fn swap_in_use_and_pressure_are_said() {
        let swap =
            |used| memory_and_disks(&Facts { swap_used_bytes: Some(used), ..Facts::default() })[0].judgement;
        assert_eq!((swap(0), swap(1)), (Judgement::Ok, Judgement::Warn));
        let judge = |percent| {
            let pressure = [("io".to_owned(), percent)].into();
            self::pressure(&Facts { pressure, ..Facts::default() })[0].judgement
        };
        assert_eq!((judge(9.9), judge(10.0)), (Judgement::Ok, Judgement::Warn));
    }

    #[test]
    fn a_disk_stalls_who_is_blocked_while_it_is_busy() {
        let judge = |percent, blocked: &[&str]| {
            let blocked = blocked.iter().map(|it| (*it).to_owned()).collect();
            disk_stall(&Facts { waiting_for_disks_percent: percent, blocked, ..Facts::default() }).remove(0)
        };
        assert_eq!(judge(None, &["logger[7]"]).judgement, Judgement::NotSeen);
        assert_eq!(judge(Some(9.9), &["logger[7]"]).judgement, Judgement::Ok);
        assert_eq!(judge(Some(10.0), &[]).judgement, Judgement::Ok);
        let check = judge(Some(10.0), &["a[1]", "b[2]", "c[3]", "d[4]", "e[5]"]);
        assert_eq!(check.judgement, Judgement::Warn);
        assert!(check.live.ends_with("blocked at the moment: a[1], b[2], c[3], d[4], …"), "{}", check.live);
    }

    #[test]
    fn a_guest_is_said_to_be_one() {
        let facts = Facts { guest: Some("virtual machine".to_owned()), ..Facts::default() };
        assert_eq!(
            (guest(&facts)[0].live.as_str(), guest(&facts)[0].judgement),
            ("virtual machine", Judgement::Ok)
        );
    }
}
