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

/// Limit of a group and those below it together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Allowance {
    pub(super) group: PathBuf,
    share_us: u64,
    period_us: u64,
}

/// Mount point of the controller, and the group of this process in it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Hierarchy {
    version: Version,
    mount: PathBuf,
    /// Path below `mount`.
    own: PathBuf,
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

    /// Returns the limit of a group; `None` if it has none, like the root of a hierarchy.
    ///
    /// Source: the kernel's `scheduler/sched-bwc.rst` and `admin-guide/cgroup-v2.rst`: no limit is `-1` in version 1 and
    /// `max` in version 2.
    fn allowance(self, group: &Path) -> Option<Allowance> {
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        let words = match self {
            Self::One => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?),
            Self::Two => read("cpu.max")?,
        };
        let (share, period) = words.trim().split_once(' ')?;
        let (share_us, period_us) = (share.parse().ok()?, period.parse().ok().filter(|it| *it > 0)?);
        Some(Allowance { group: group.to_owned(), share_us, period_us })
    }
}

impl Place {
    /// Returns the nearest group, this one or one above it, that allows less than `quota`.
    ///
    /// Version 2 accepts a larger quota below it all the same, and enforces the smaller one; version 1 refuses
    /// it as invalid.
    pub(super) fn less_allowed_above(&self, quota: &Quota) -> Option<Allowance> {
        let groups = self.folder.ancestors().take_while(|group| group.starts_with(&self.mount));
        groups.filter_map(|group| self.version.allowance(group)).find(|it| !it.allows(quota))
    }
}

impl Allowance {
    /// Returns the limit in processors.
    #[expect(clippy::cast_precision_loss, reason = "the kernel's shares and periods are far below 2^53 µs")]
    pub(super) fn cpus(&self) -> f64 {
        self.share_us as f64 / self.period_us as f64
    }

    fn allows(&self, quota: &Quota) -> bool {
        let (share_us, period_us) = (quota.per_period().as_micros(), quota.period.as_micros());
        share_us * u128::from(self.period_us) <= u128::from(self.share_us) * period_us
    }
}

/// Returns the places where a group can be created, the best one first.
pub(super) fn of_this_process() -> Result<Vec<Place>, QuotaError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| QuotaError::NotPermitted { path: path.into(), source })
    };
    let hierarchy = hierarchy(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?);
    hierarchy.map(|hierarchy| hierarchy.places()).ok_or(QuotaError::NoController)
}

impl Hierarchy {
    fn places(&self) -> Vec<Place> {
        let own = self.mount.join(&self.own);
        match self.version {
            Version::One => vec![self.place(&own)],
            Version::Two => {
                let upwards = own.ancestors().take_while(|folder| folder.starts_with(&self.mount));
                let handing_down = upwards.filter(|folder| hands_cpu_down(folder));
                handing_down.map(|folder| self.place(folder)).collect()
            }
        }
    }

    fn place(&self, folder: &Path) -> Place {
        Place { version: self.version, folder: folder.to_owned(), mount: self.mount.clone() }
    }
}

fn hands_cpu_down(folder: &Path) -> bool {
    let words = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
    words.split_whitespace().any(|word| word == "cpu")
}

/// Finds the hierarchy that has the `cpu` controller.
///
/// Source: `proc(5)` for both files. A line of `mountinfo` has any number of optional fields before ` - `.
fn hierarchy(mountinfo: &str, cgroup: &str) -> Option<Hierarchy> {
    let mounts = || mountinfo.lines().filter_map(Mount::parse);
    let first = mounts().find(|mount| mount.kind == "cgroup" && mount.has_option("cpu"));
    if let Some(mount) = first {
        return Some(
            mount.hierarchy(Version::One, path_of(cgroup, |words| words.split(',').any(|it| it == "cpu"))?),
        );
    }
    let second = mounts().find(|mount| mount.kind == "cgroup2")?;
    Some(second.hierarchy(Version::Two, path_of(cgroup, str::is_empty)?))
}

/// Returns the path of the group on the first line whose controllers match.
fn path_of(cgroup: &str, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
    cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        is_wanted(controllers).then_some(path)
    })
}

struct Mount<'a> {
    /// Mounted part of the hierarchy: more than `/` means less than all of it, as in containers.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut what = what.split(' ');
        let (root, point) = (place.next()?, place.next()?);
        let (kind, _source, options) = (what.next()?, what.next()?, what.next()?);
        Some(Self { root, point, kind, options })
    }

    fn has_option(&self, wanted: &str) -> bool {
        self.options.split(',').any(|option| option == wanted)
    }

    fn hierarchy(&self, version: Version, path: &str) -> Hierarchy {
        let below = Path::new(path).strip_prefix(self.root).unwrap_or(Path::new(""));
        Hierarchy { version, mount: self.point.into(), own: below.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mountinfo: &str, cgroup: &str) -> Option<(Version, String, String)> {
        let it = hierarchy(mountinfo, cgroup)?;
        Some((it.version, it.mount.display().to_string(), it.own.display().to_string()))
    }

    #[test]
    fn version_two_alone() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let group = "0::/user.slice/session-1.scope\n";
        let expected = (Version::Two, "/sys/fs/cgroup".to_owned(), "user.slice/session-1.scope".to_owned());
        assert_eq!(found(mounts, group), Some(expected));
    }

    #[test]
    fn version_one_where_the_controller_is_mounted_there() {
        let mounts = "41 25 0:36 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      42 25 0:37 / /sys/fs/cgroup/cpu,cpuacct rw shared:2 - cgroup cgroup rw,cpu,cpuacct\n\
                      43 25 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "7:cpuset:/\n3:cpu,cpuacct:/jobs/4\n0::/\n";
        let expected = (Version::One, "/sys/fs/cgroup/cpu,cpuacct".to_owned(), "jobs/4".to_owned());
        assert_eq!(found(mounts, groups), Some(expected));
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let mounts = "42 25 0:37 /docker/ab /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let expected = (Version::One, "/sys/fs/cgroup/cpu".to_owned(), String::new());
        assert_eq!(found(mounts, "3:cpu:/docker/ab\n"), Some(expected));
    }

    #[test]
    fn no_controller_is_no_place() {
        assert_eq!(found("", ""), None);
        assert_eq!(found("41 25 0:36 / /x rw - cgroup cgroup rw,cpuset\n", "7:cpuset:/\n"), None);
        assert_eq!(found("gibberish\n\n1 2 - \n", "0::/\n"), None);
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
            let hierarchy =
                Hierarchy { version: Version::Two, mount: root.path().to_owned(), own: "a/b".into() };
            hierarchy.places().into_iter().map(|place| place.folder).collect::<Vec<_>>()
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
            let place = Place { version, folder: own.clone(), mount: root.path().to_owned() };
            let less = |millicpus| {
                let quota = Quota { millicpus, period: Duration::from_millis(10) };
                place.less_allowed_above(&quota).map(|it| (it.group.clone(), it.cpus()))
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
