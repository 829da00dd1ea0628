//! A processor quota for the processes of a bench: a control group of their own, which is always removed.
//!
//! The kernel refills a group's quota every period and stops all of its processes once it is used up, until the
//! next period begins; `docker run --cpus` does the same. Version 2 of control groups (`cpu.max`) and version 1
//! (`cpu.cfs_quota_us`) are both supported; `places` decides where the group is created. Crates such as `cgroups-rs`
//! enable controllers in groups of other programs, and ignore the limits of groups above.
//!
//! Nothing ever runs without the requested quota: one that cannot be enforced is an error with its reason.

mod places;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use crate::host;
use places::Place;

/// Minimum quota of the kernel. Source: `min_cfs_quota_period` in the kernel's `sched/core.c`.
const LEAST_QUOTA: Duration = Duration::from_millis(1);

/// The shortest rest: both processes have read the start message and sleep by then.
const LEAST_LEAD: Duration = Duration::from_millis(20);

/// Maximum number of attempts to remove a group that still seems to have processes: killed ones leave within
/// moments.
const REMOVALS: u32 = 100;
const BETWEEN_REMOVALS: Duration = Duration::from_millis(10);

/// Prefix of a group's name, followed by the process that created it, and a number.
const PREFIX: &str = "tallycast-bench-";

/// Processor time that a pair of processes may take together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Quota {
    /// Units: thousandths of a processor.
    pub millicpus: u32,
    /// Period of the quota. Docker's is 100 ms.
    pub period: Duration,
}

/// Reasons why a quota cannot be enforced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// The host has fewer processors.
    #[error(
        "a quota of {asked} CPUs limits nothing on a host with {present}\ntake one of at most {present}, or `max`"
    )]
    MoreThanPresent {
        /// The quota.
        asked: f64,
        /// The processors.
        present: u32,
    },
    /// The quota is below the kernel's minimum.
    #[error(
        "a quota of {quota:?} every {period:?} is less than the {LEAST_QUOTA:?} the kernel takes\ntake a longer --quota-period"
    )]
    TooSmall {
        /// The processor time in a period.
        quota: Duration,
        /// The period.
        period: Duration,
    },
    /// No control group limits processors here.
    #[error(
        "no control group limits processors here: the `cpu` controller is neither mounted (version 1) nor enabled (version 2)\non your own host: echo +cpu | sudo tee /sys/fs/cgroup/cgroup.subtree_control"
    )]
    NoController,
    /// The group cannot be created or used.
    #[error("the control group {} cannot be used: {source}\nrun it as root, or in a container that may make control groups", path.display())]
    NotPermitted {
        /// The file or folder.
        path: PathBuf,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A group above, which limits all below it, allows less.
    #[error(
        "a quota of {asked} CPUs is not available below the control group {}, which allows {allowed}\ntake a smaller one, or raise the quota of that group",
        group.display()
    )]
    LessAbove {
        /// The group.
        group: PathBuf,
        /// The quota.
        asked: f64,
        /// Limit of the group. Units: processors.
        allowed: f64,
    },
    /// The kernel did not take the value: a group above, perhaps not visible here, allows less.
    #[error(
        "{} does not take `{written}`: a control group above it allows less\ntake a smaller quota, or raise that of the group above",
        path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// Value that was written.
        written: String,
    },
}

/// A control group with a quota. Dropping removes it; its processes must have ended by then.
#[derive(Debug)]
pub struct CpuGroup {
    folder: PathBuf,
}

impl Quota {
    /// Returns the processor time in a period.
    #[must_use]
    pub fn per_period(&self) -> Duration {
        self.period * self.millicpus / 1_000
    }

    /// Returns the rest of a group before it is measured: within a period its quota is refilled, however much
    /// it used before.
    #[must_use]
    pub fn lead(&self) -> Duration {
        self.period + LEAST_LEAD
    }

    /// Returns the quota in processors.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        f64::from(self.millicpus) / 1_000.0
    }
}

impl CpuGroup {
    /// Creates a group with a quota, below the group of this process, and moves `processes` into it; processes
    /// that they start later are in it too.
    ///
    /// # Errors
    /// [`QuotaError`] with the reason why the quota cannot be enforced here; nothing is left behind.
    pub fn create(quota: &Quota, processes: &[u32]) -> Result<Self, QuotaError> {
        let present = host::cpus();
        if quota.cpus() > f64::from(present) {
            return Err(QuotaError::MoreThanPresent { asked: quota.cpus(), present });
        }
        if quota.per_period() < LEAST_QUOTA {
            return Err(QuotaError::TooSmall { quota: quota.per_period(), period: quota.period });
        }
        Self::create_in(&places::of_this_process()?, quota, processes)
    }

    /// Returns the number of periods so far in which the kernel stopped the group; `None` where it does not count
    /// them.
    #[must_use]
    pub fn throttled_periods(&self) -> Option<u64> {
        throttled_periods(&fs::read_to_string(self.folder.join("cpu.stat")).ok()?)
    }

    /// Returns the path of the group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Uses the first place that allows the quota and accepts the processes.
    fn create_in(places: &[Place], quota: &Quota, processes: &[u32]) -> Result<Self, QuotaError> {
        let mut first_refusal = None;
        for place in places {
            match Self::create_at(place, quota, processes) {
                Ok(group) => return Ok(group),
                // A limit that someone has set is respected, not bypassed further up.
                Err(error @ (QuotaError::LessAbove { .. } | QuotaError::Refused { .. })) => {
                    return Err(error);
                }
                Err(error) => first_refusal = first_refusal.or(Some(error)),
            }
        }
        Err(first_refusal.unwrap_or(QuotaError::NoController))
    }

    fn create_at(place: &Place, quota: &Quota, processes: &[u32]) -> Result<Self, QuotaError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if let Some((group, allowed)) = place.less_allowed_above(quota) {
            return Err(QuotaError::LessAbove { group: group.to_owned(), asked: quota.cpus(), allowed });
        }
        // Relaxed: only the number matters.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = place.folder.join(format!("{PREFIX}{}-{count}", std::process::id()));
        fs::create_dir(&folder)
            .map_err(|source| QuotaError::NotPermitted { path: folder.clone(), source })?;
        // From here on, dropping it removes the folder again.
        let group = Self { folder };
        place.version.files(quota).iter().try_for_each(|(file, value)| group.write(file, value))?;
        processes.iter().try_for_each(|process| group.add(*process))?;
        Ok(group)
    }

    /// Writes a value, and checks that it was taken.
    fn write(&self, file: &str, value: &str) -> Result<(), QuotaError> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|source| refusal(&path, value, source))?;
        let is_taken = fs::read_to_string(&path).is_ok_and(|found| found.trim() == value);
        is_taken.then_some(()).ok_or_else(|| QuotaError::Refused { path, written: value.to_owned() })
    }

    fn add(&self, process: u32) -> Result<(), QuotaError> {
        let path = self.folder.join("cgroup.procs");
        match fs::write(&path, process.to_string()) {
            // The process has ended, and needs no quota any more; its owner reports that.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            written => written.map_err(|source| QuotaError::NotPermitted { path, source }),
        }
    }
}

/// Returns why the kernel refused a quota.
///
/// Source: `tg_set_cfs_bandwidth` in the kernel's `sched/core.c`: a value in range is invalid only if a group
/// above allows less.
fn refusal(path: &Path, written: &str, source: io::Error) -> QuotaError {
    match source.kind() {
        io::ErrorKind::InvalidInput => {
            QuotaError::Refused { path: path.to_owned(), written: written.to_owned() }
        }
        _ => QuotaError::NotPermitted { path: path.to_owned(), source },
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                // Removed, or gone already: in both cases there is nothing left to do.
                _ => return,
            }
        }
    }
}

/// Source: `cpu.stat`, which has it in both versions.
fn throttled_periods(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

/// Removes leftovers of killed benches wherever this process could create a group.
pub(crate) fn sweep() {
    // Without a place there is nothing to sweep; creating a group reports that later.
    let places = places::of_this_process().unwrap_or_default();
    places.iter().for_each(|place| remove_forsaken(&place.folder));
}

/// Removes groups whose bench was killed before it could.
fn remove_forsaken(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().map_while(Result::ok) {
        let maker = entry.file_name().to_str().and_then(maker);
        let is_forsaken = maker.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists());
        if is_forsaken {
            // A group that still has processes remains: the kernel refuses to remove it.
            drop(fs::remove_dir(entry.path()));
        }
    }
}

/// Returns the process that created the group of this name; `None` for groups of other programs.
fn maker(name: &str) -> Option<u32> {
    let (id, count) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let _: u32 = count.parse().ok()?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use support::or_skip;

    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    #[test]
    fn a_quota_is_a_share_of_its_period() {
        assert_eq!(Quota { millicpus: 50, period: PERIOD }.per_period(), Duration::from_millis(5));
        assert_eq!(Quota { millicpus: 1_500, period: PERIOD }.per_period(), Duration::from_millis(150));
    }

    #[test]
    fn quotas_beyond_both_ends_are_refused() {
        let quota = |millicpus| CpuGroup::create(&Quota { millicpus, period: PERIOD }, &[]);
        let beyond = quota(host::cpus() * 1_000 + 1);
        assert!(matches!(beyond, Err(QuotaError::MoreThanPresent { .. })), "{beyond:?}");
        let below = quota(9);
        assert!(matches!(below, Err(QuotaError::TooSmall { .. })), "{below:?}");
        assert!(!matches!(quota(10), Err(QuotaError::TooSmall { .. })));
    }

    #[test]
    fn throttled_periods_are_read_in_both_versions() {
        let first = "nr_periods 9\nnr_throttled 3\nthrottled_time 2000000\n";
        let second = "usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec 5000\n";
        assert_eq!([first, second, "usage_usec 5\n"].map(throttled_periods), [Some(3), Some(4), None]);
    }

    #[test]
    fn a_group_holds_its_quota_and_its_processes_and_is_gone_afterwards() {
        let sleep = || std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut children = [sleep(), sleep()];
        let ids = children.each_ref().map(std::process::Child::id);
        let group = or_skip(CpuGroup::create(&Quota { millicpus: 300, period: PERIOD }, &ids));
        if let Some(group) = &group {
            let read = |file: &str| fs::read_to_string(group.folder.join(file)).unwrap_or_default();
            let first = [read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")].map(|it| it.trim().to_owned());
            assert!(first == ["30000", "100000"] || read("cpu.max").trim() == "30000 100000", "{first:?}");
            let mut inside: Vec<u32> = read("cgroup.procs").lines().map(|id| id.parse().unwrap()).collect();
            inside.sort_unstable();
            assert_eq!(inside, ids);
            assert!(group.throttled_periods().is_some());
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        if let Some(group) = group {
            let folder = group.folder.clone();
            drop(group);
            assert!(!folder.exists(), "{} is still there", folder.display());
        }
    }

    #[test]
    fn below_a_group_that_allows_less_there_is_no_group() {
        let quota = |millicpus| Quota { millicpus, period: PERIOD };
        let Some(above) = or_skip(CpuGroup::create(&quota(200), &[])) else { return };
        let version = places::of_this_process().unwrap().remove(0).version;
        let place = Place { version, folder: above.folder.clone(), mount: above.folder.clone() };
        let below = CpuGroup::create_in(&[place], &quota(201), &[]);
        assert!(matches!(&below, Err(QuotaError::LessAbove { allowed, .. }) if *allowed == 0.2), "{below:?}");
    }

    #[test]
    fn a_quota_that_the_kernel_finds_invalid_is_more_than_a_group_above_allows() {
        let refused = |errno: Errno| refusal(Path::new("cpu.max"), "30000", errno.into()).to_string();
        let invalid = refused(Errno::INVAL);
        assert!(invalid.contains("a control group above it allows less"), "{invalid}");
        let forbidden = refused(Errno::ACCESS);
        assert!(forbidden.contains("run it as root"), "{forbidden}");
    }

    #[test]
    fn a_place_that_does_not_take_the_processes_is_left_for_the_next() {
        let real = places::of_this_process().unwrap_or_default();
        let Some(first) = real.first().filter(|place| fs::metadata(&place.folder).is_ok()) else {
            return println!("SKIPPED: no control group limits processors here");
        };
        // A folder that accepts any file, and so any quota and any process.
        let other = tempfile::tempdir().unwrap();
        let folder = other.path().to_owned();
        let second = Place { mount: folder.clone(), folder, version: first.version };
        let quota = Quota { millicpus: 100, period: PERIOD };
        // No process has this number; the kernel refuses it as invalid.
        let nobody = [u32::MAX];
        assert!(CpuGroup::create_in(&real, &quota, &nobody).is_err());
        let places = [first.clone(), second];
        let group = CpuGroup::create_in(&places, &quota, &nobody).unwrap();
        assert!(group.folder.starts_with(other.path()), "{}", group.folder.display());
    }

    #[test]
    fn a_process_that_has_ended_needs_no_quota() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        drop(or_skip(CpuGroup::create(&Quota { millicpus: 100, period: PERIOD }, &[child.id()])));
    }

    #[test]
    fn a_group_whose_maker_is_gone_is_removed_and_that_of_a_living_one_is_not() {
        let parent = tempfile::tempdir().unwrap();
        // No process has so large an id (`/proc/sys/kernel/pid_max` is at most 2²²).
        let forsaken = parent.path().join(format!("{PREFIX}4194305-0"));
        let living = format!("{PREFIX}{}-0", std::process::id());
        let others = ["other-4194305-0", "tallycast-bench-of-mine", "tallycast-bench-4194305-old"];
        let kept = [living.as_str(), others[0], others[1], others[2]];
        let kept = kept.map(|name| parent.path().join(name));
        fs::create_dir(&forsaken).unwrap();
        kept.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        remove_forsaken(parent.path());
        assert!(!forsaken.exists());
        assert!(kept.iter().all(|folder| folder.exists()));
    }
}
