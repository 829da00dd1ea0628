//! Places in which a control group with a quota can be created, derived from the kernel's files about this
//! process.
//!
//! Version 1, if the `cpu` controller is mounted there: below the own group. Version 2: below the nearest
//! group, the own one first, that delegates `cpu` to its children (`cgroup.subtree_control`). Nothing is
//! enabled that belongs to others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Quota, QuotaError};

/// Version of the kernel's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    One,
    Two,
}

/// A group below which one can be created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) version: Version,
    pub(super) folder: PathBuf,
    /// The uppermost visible group.
    pub(super) mount: PathBuf,
}

impl Version {
    /// Returns the files of a quota and their contents, in the order of writing.
    pub(super) fn files(self, quota: &Quota) -> Vec<(&'static str, String)> {
        let micros = |duration: Duration| duration.as_micros().to_string();
        let (share, period) = (micros(quota.per_period()), micros(quota.period));
        match self {
            Self::One => vec![("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", share)],
            Self::Two => vec![("cpu.max", format!("{share} {period}"))],
        }
    }

    /// Returns the processors that a group and those below it may use together; `None` if it has no limit, like
    /// the root of a hierarchy.
    ///
    /// Source: the kernel's `scheduler/sched-bwc.rst` and `admin-guide/cgroup-v2.rst`: no limit is `-1` in version 1 and
    /// `max` in version 2.
    fn allowed(self, group: &Path) -> Option<f64> {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        let words = match self {
            Self::One => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?),
            Self::Two => read("cpu.max")?,
        };
        let (share, period) = words.trim().split_once(' ')?;
        let (share_us, period_us): (f64, f64) = (share.parse().ok()?, period.parse().ok()?);
        (share_us >= 0.0 && period_us > 0.0).then(|| share_us / period_us)
    }
}

impl Place {
    /// Returns the nearest group, this one or one above it, that allows less than `quota`, and the processors that
    /// it allows.
    ///
    /// Version 2 accepts a larger quota below it all the same, and enforces the smaller one; version 1 refuses
    /// it as invalid.
    pub(super) fn less_allowed_above(&self, quota: &Quota) -> Option<(&Path, f64)> {
        let mut allowances = self.upwards().filter_map(|group| Some((group, self.version.allowed(group)?)));
        allowances.find(|(_, allowed)| *allowed < quota.cpus())
    }

    /// Returns the visible groups from this one up.
    fn upwards(&self) -> impl Iterator<Item = &Path> {
        self.folder.ancestors().take_while(|group| group.starts_with(&self.mount))
    }

    /// Returns the places for groups of a process that is in this one, the best first.
    fn candidates(self) -> Vec<Self> {
        match self.version {
            Version::One => vec![self],
            Version::Two => {
                let delegating = self.upwards().filter(|folder| delegates_cpu(folder));
                delegating.map(|folder| Self { folder: folder.to_owned(), ..self.clone() }).collect()
            }
        }
    }
}

/// Returns the places where a group can be created, the best one first.
pub(super) fn of_this_process() -> Result<Vec<Place>, QuotaError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| QuotaError::NotPermitted { path: path.into(), source })
    };
    let own = own_group(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
    own.map(Place::candidates).ok_or(QuotaError::NoController)
}

fn delegates_cpu(folder: &Path) -> bool {
    let words = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    words.split_whitespace().any(|word| word == "cpu")
}

/// Finds the group of this process in the hierarchy that has the `cpu` controller.
///
/// Source: `proc(5)` for both files.
fn own_group(mountinfo: &str, cgroup: &str) -> Option<Place> {
    let has_cpu = |list: &str| list.split(',').any(|it| it == "cpu");
    let mounts = || mountinfo.lines().filter_map(Mount::parse);
    let place = |version, mount: Mount<'_>, path: &str| {
        // In a container less than the whole hierarchy is mounted: paths begin with the root of that part.
        let below = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(""));
        Place { version, folder: Path::new(mount.point).join(below), mount: mount.point.into() }
    };
    if let Some(mount) = mounts().find(|mount| mount.kind == "cgroup" && has_cpu(mount.options)) {
        return Some(place(Version::One, mount, path_of(cgroup, has_cpu)?));
    }
    let mount = mounts().find(|mount| mount.kind == "cgroup2")?;
    Some(place(Version::Two, mount, path_of(cgroup, str::is_empty)?))
}

/// Returns the path of the group on the first line whose controllers match.
fn path_of(cgroup: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
    let mut groups = cgroup.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    groups.find(|(controllers, _)| is_wanted(controllers)).map(|(_, path)| path)
}

/// A line of `mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// There is any number of optional fields before ` - `.
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let (mut place, mut kind) = (place.split(' ').skip(3), kind.split(' '));
        Some(Self { root: place.next()?, point: place.next()?, kind: kind.next()?, options: kind.nth(1)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(version: Version, mount: &Path, own: &str) -> Place {
        Place { version, mount: mount.to_owned(), folder: mount.join(own) }
    }

    #[test]
    fn version_two_alone() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let group = "0::/user.slice/session-1.scope\n";
        let expected = place(Version::Two, Path::new("/sys/fs/cgroup"), "user.slice/session-1.scope");
        assert_eq!(own_group(mounts, group), Some(expected));
    }

    #[test]
    fn version_one_where_the_controller_is_mounted_there() {
        let mounts = "41 25 0:36 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      42 25 0:37 / /sys/fs/cgroup/cpu,cpuacct rw shared:2 - cgroup cgroup rw,cpu,cpuacct\n\
                      43 25 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "7:cpuset:/\n3:cpu,cpuacct:/jobs/4\n0::/\n";
        let expected = place(Version::One, Path::new("/sys/fs/cgroup/cpu,cpuacct"), "jobs/4");
        assert_eq!(own_group(mounts, groups), Some(expected));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let mounts = "42 25 0:37 /docker/ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let expected = place(Version::One, Path::new("/sys/fs/cgroup/cpu"), "");
        assert_eq!(own_group(mounts, "3:cpu:/docker/ab\n"), Some(expected));
    }

    #[test]
    fn no_controller_is_no_place() {
        assert_eq!(own_group("", ""), None);
        assert_eq!(own_group("41 25 0:36 / /x rw - cgroup cgroup rw,cpuset\n", "7:cpuset:/\n"), None);
        assert_eq!(own_group("gibberish\n\n1 2 - \n", "0::/\n"), None);
    }

    #[test]
    fn version_two_takes_the_nearest_group_that_hands_the_controller_down() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("a/b");
        fs::create_dir_all(&own).unwrap();
        let hand_down = |folder: &Path, words: &str| {
            fs::write(folder.join("cgroup.subtree_control"), words).unwrap();
        };
        let places = || {
            let candidates = place(Version::Two, root.path(), "a/b").candidates();
            candidates.into_iter().map(|place| place.folder).collect::<Vec<_>>()
        };
        assert!(places().is_empty());
        hand_down(&own, "cpuset memory");
        hand_down(root.path(), "cpu memory");
        assert_eq!(places(), [root.path()]);
        hand_down(&root.path().join("a"), "memory cpu");
        assert_eq!(places(), [root.path().join("a").as_path(), root.path()]);
    }

    #[test]
    fn a_group_above_that_allows_less_is_found_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let (above, own) = (root.path().join("a"), root.path().join("a/b"));
        fs::create_dir_all(&own).unwrap();
        // The own groups limit nothing; the group above allows half a processor.
        fs::write(above.join("cpu.max"), "50000 100000\n").unwrap();
        fs::write(own.join("cpu.max"), "max 100000\n").unwrap();
        for (file, value) in [("cpu.cfs_quota_us", "100000\n"), ("cpu.cfs_period_us", "200000\n")] {
            fs::write(above.join(file), value).unwrap();
        }
        fs::write(own.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(own.join("cpu.cfs_period_us"), "100000\n").unwrap();
        for version in [Version::One, Version::Two] {
            let place = place(version, root.path(), "a/b");
            let less = |millicpus| {
                let quota = Quota { millicpus, period: Duration::from_millis(10) };
                place.less_allowed_above(&quota).map(|(group, cpus)| (group.to_owned(), cpus))
            };
            assert_eq!(less(500), None, "{version:?}");
            assert_eq!(less(501), Some((above.clone(), 0.5)), "{version:?}");
        }
    }

    #[test]
    fn both_versions_write_the_same_quota() {
        let quota = Quota { millicpus: 50, period: Duration::from_millis(100) };
        assert_eq!(Version::Two.files(&quota), [("cpu.max", "5000 100000".to_owned())]);
        let first = [("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", "5000".to_owned())];
        assert_eq!(Version::One.files(&quota), first);
    }
}
