//! Owners of sockets, and whether their threads ran, waited for a processor, or were blocked.
//!
//! A process may inspect its own files and those of its user's other processes; root may inspect
//! all. Times of threads are readable by every user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// A process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its name, as `ps` prints it: 15 bytes at most.
    pub name: String,
}

/// Times and state of a thread so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadTimes {
    /// Thread id.
    pub tid: u32,
    /// Time on a processor, in nanoseconds.
    pub ran_ns: u64,
    /// Time for which it was runnable without a processor (run delay), in nanoseconds.
    pub waited_ns: u64,
    /// Number of page faults that read from a disk (`majflt`).
    pub major_faults: u64,
    /// Current state, by the kernel's letter: `R` running, `S` sleeping, `D` blocked, as by a disk.
    pub state: char,
}

/// Returns the processes that have sockets open, by the sockets' inodes; those of other users are
/// left out unless this is root.
#[must_use]
pub fn owners(inodes: &BTreeSet<u32>) -> BTreeMap<u32, Process> {
    let mut owners = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return owners };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let open = files.filter_map(|file| socket_inode(fs::read_link(file.ok()?.path()).ok()?.to_str()?));
        for inode in open.filter(|inode| inodes.contains(inode)) {
            owners.entry(inode).or_insert_with(|| Process { pid, name: name(pid) });
        }
    }
    owners
}

/// Returns the times of the threads of a process so far.
///
/// # Errors
/// If there is no such process.
pub fn threads(pid: u32) -> io::Result<Vec<ThreadTimes>> {
    let tids = fs::read_dir(format!("/proc/{pid}/task"))?;
    let tids = tids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A thread that ends meanwhile is left out.
    Ok(tids.filter_map(|tid| thread(pid, tid)).collect())
}

/// Priority of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadPriority {
    /// Thread id.
    pub tid: u32,
    /// Nice value, from -20, the highest priority, to 19.
    pub nice: i32,
    /// True in an ordinary scheduling class (`SCHED_OTHER`, `SCHED_BATCH`), where the nice value
    /// counts.
    pub is_ordinary: bool,
}

/// Returns the start time of a process, in the kernel's ticks: with its id it identifies the
/// process.
///
/// # Errors
/// `NotFound` if there is no such process.
pub fn started(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    stat_number(&stat, STARTED).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the priorities of the threads of a process.
///
/// # Errors
/// `NotFound` if there is no such process.
pub fn priorities(pid: u32) -> io::Result<Vec<ThreadPriority>> {
    let tids = fs::read_dir(format!("/proc/{pid}/task"))?;
    let tids = tids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let priority =
        |tid: u32| parse_priority(tid, &fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?);
    Ok(tids.filter_map(priority).collect())
}

/// Returns the times of the calling thread so far.
///
/// # Errors
/// If the kernel keeps no such times, or hides them.
pub fn this_thread() -> io::Result<ThreadTimes> {
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    thread(std::process::id(), tid).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Returns the number of this process's network namespace; `None` if it is not visible.
#[must_use]
pub fn network_namespace() -> Option<u32> {
    let namespace = fs::metadata("/proc/self/ns/net").ok()?;
    u32::try_from(namespace.ino()).ok()
}

/// Returns the effective user of this process.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the processes with a thread that is blocked at this moment, as by a disk (state `D`),
/// each once; empty if `/proc` shows no process.
#[must_use]
pub fn blocked() -> Vec<Process> {
    in_state('D')
}

fn in_state(state: char) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_in_it = |pid: &u32| {
        let tids = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let stats = tids.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.into_iter().any(|stat| parse_state(&stat) == Some(state))
    };
    pids.filter(is_in_it).map(|pid| Process { pid, name: name(pid) }).collect()
}

/// Opens a socket that another process has open, by its cookie (`SO_COOKIE`); both processes have
/// it then.
///
/// # Errors
/// `NotFound` if the process has no such socket or has ended; `PermissionDenied` for a process that
/// this one may not trace (`ptrace(2)`); `Unsupported` before Linux 5.6, else the kernel's error.
pub fn open_socket(pid: u32, cookie: u64) -> io::Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(number, PidfdFlags::empty())?;
    for file in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let path = file?.path();
        // A file that is closed meanwhile is not the socket looked for.
        let Ok(link) = fs::read_link(&path) else { continue };
        let name = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let (Some(number), Some(_)) = (name, link.to_str().and_then(socket_inode)) else { continue };
        let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
        if rustix::net::sockopt::socket_cookie(&socket) == Ok(cookie) {
            return Ok(socket);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn thread(pid: u32, tid: u32) -> Option<ThreadTimes> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok();
    let (ran_ns, waited_ns) = parse_schedstat(&read("schedstat")?)?;
    let stat = read("stat")?;
    let (state, major_faults) = (parse_state(&stat)?, parse_major_faults(&stat).unwrap_or(0));
    Some(ThreadTimes { tid, ran_ns, waited_ns, major_faults, state })
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Parses the inode out of `socket:[4711]`.
pub(crate) fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Parses time on a processor, and time waiting for one; the third number counts its turns
/// (`Documentation/scheduler/sched-stats.rst`).
pub(crate) fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// Parses the state after the name, which is in parentheses and may contain any characters
/// (`proc_pid_stat(5)`).
pub(crate) fn parse_state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Positions of fields in `stat`, counted from 1 (`proc_pid_stat(5)`).
const NICE: usize = 19;
const STARTED: usize = 22;
const POLICY: usize = 41;

pub(crate) fn parse_priority(tid: u32, stat: &str) -> Option<ThreadPriority> {
    /// Ordinary scheduling classes (`linux/sched.h`).
    const ORDINARY: [u32; 2] = [0, 3];
    let is_ordinary = ORDINARY.contains(&stat_number(stat, POLICY)?);
    Some(ThreadPriority { tid, nice: stat_number(stat, NICE)?, is_ordinary })
}

/// Returns a field after the name, which may contain spaces and parentheses.
fn stat_number<T: std::str::FromStr>(stat: &str, field: usize) -> Option<T> {
    const FIRST_BEHIND_NAME: usize = 3;
    stat.rsplit_once(')')?.1.split_whitespace().nth(field - FIRST_BEHIND_NAME)?.parse().ok()
}

/// Parses the twelfth field (`majflt`, `proc_pid_stat(5)`).
pub(crate) fn parse_major_faults(stat: &str) -> Option<u64> {
    const MAJOR_FAULTS: usize = 12;
    stat_number(stat, MAJOR_FAULTS)
}

/// A disk on which a process has files open.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Disk {
    /// Mount point.
    pub path: String,
    /// Space available to users.
    pub free_bytes: u64,
    /// Total size.
    pub size_bytes: u64,
}

/// Returns the disks on which a process has files open, each once; none for a process that this one
/// may not inspect.
#[must_use]
pub fn disks(pid: u32) -> Vec<Disk> {
    /// Maximum number of files that are inspected: further ones are on the same few disks.
    const MOST_FILES: usize = 256;
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut disks = BTreeMap::new();
    for file in files.flatten().take(MOST_FILES).map(|entry| entry.path()) {
        // The link leads to the file itself, even if another file has its path now, or another
        // namespace its mount.
        let Ok(about) = fs::metadata(&file) else { continue };
        if about.is_file() && !disks.contains_key(&about.dev()) {
            let disk = fs::read_link(&file).ok().and_then(|path| disk(&file, &path, about.dev()));
            disks.extend(disk.map(|disk| (about.dev(), disk)));
        }
    }
    disks.into_values().collect()
}

fn disk(file: &Path, path: &Path, device: u64) -> Option<Disk> {
    let stat = rustix::fs::statvfs(file).ok()?;
    let is_on_it = |folder: &&Path| fs::metadata(folder).is_ok_and(|about| about.dev() == device);
    // The highest directory that is still on the disk is its mount point.
    let mount = path.ancestors().skip(1).take_while(is_on_it).last().unwrap_or(path);
    Some(Disk {
        path: mount.to_string_lossy().into_owned(),
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        size_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
    .filter(|disk| disk.size_bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_socket_is_its_process_own() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let sockets = crate::udp_sockets().unwrap();
        let inode = sockets.iter().find(|it| it.local.port() == port).unwrap().inode;
        let owners = owners(&[inode, u32::MAX].into());
        let expected = Process { pid: std::process::id(), name: name(std::process::id()) };
        assert_eq!(owners.into_iter().collect::<Vec<_>>(), [(inode, expected)]);
    }

    #[test]
    fn a_socket_of_a_process_is_opened_and_changed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let cookie = rustix::net::sockopt::socket_cookie(&socket).unwrap();
        let opened = open_socket(std::process::id(), cookie).unwrap();
        let buffer = crate::Buffer::ask_receive(&opened, 8_192).unwrap();
        assert_eq!(buffer.effective_bytes, 16_384);
        assert_eq!(crate::MemInfo::of(&socket).unwrap().buffer_bytes, 16_384);
        assert_eq!(open_socket(std::process::id(), 0).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(open_socket(u32::MAX, cookie).is_err());
    }

    #[test]
    fn a_thread_that_works_runs_longer() {
        let own = || this_thread().unwrap();
        let before = own();
        let all = threads(std::process::id()).unwrap();
        assert!(all.iter().any(|it| it.tid == before.tid && it.ran_ns >= before.ran_ns));
        assert_eq!(before.state, 'R');
        while own().ran_ns < before.ran_ns + 1_000_000 {}
        assert!(threads(0).is_err());
    }

    #[test]
    fn a_process_has_a_beginning_and_its_threads_have_priorities() {
        let own = std::process::id();
        assert!(started(own).unwrap() > 0);
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let priority = priorities(own).unwrap().into_iter().find(|it| it.tid == tid).unwrap();
        assert_eq!(priority.nice, crate::host::scheduling::nice(tid).unwrap());
        assert!(priorities(0).is_err() && started(0).is_err());
    }

    #[test]
    fn the_disk_of_an_open_file_is_told_with_its_room() {
        let path = std::env::current_exe().unwrap();
        let _open = fs::File::open(&path).unwrap();
        let disks = disks(std::process::id());
        let its = disks.iter().filter(|disk| path.starts_with(&disk.path)).max_by_key(|disk| disk.path.len());
        let disk = its.unwrap();
        assert!(disk.free_bytes <= disk.size_bytes, "{disk:?}");
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        assert_eq!(device(Path::new(&disk.path)), device(&path));
        assert_eq!(super::disks(0), []);
    }

    #[test]
    fn who_asks_is_running_and_not_blocked() {
        let own = Process { pid: std::process::id(), name: name(std::process::id()) };
        assert!(in_state('R').contains(&own));
        assert!(!in_state('?').contains(&own));
    }

    #[test]
    fn texts_are_read_or_left_alone() {
        assert_eq!(parse_schedstat("12 34 5\n"), Some((12, 34)));
        assert_eq!(parse_schedstat("12\n"), None);
        assert_eq!(parse_state("7 (a) b (c)) D 1 2"), Some('D'));
        assert_eq!((parse_state("7 (a)"), parse_state("7")), (None, None));
        let fields: Vec<String> =
            (4..42).map(|field| if field == 19 { -5 } else { field }.to_string()).collect();
        let stat = format!("7 (a) b (c)) S {}", fields.join(" "));
        assert_eq!(parse_priority(7, &stat), Some(ThreadPriority { tid: 7, nice: -5, is_ordinary: false }));
        let ordinary = stat.replace(" 41", " 0");
        assert!(parse_priority(7, &ordinary).is_some_and(|it| it.is_ordinary));
        assert_eq!(stat_number::<u64>(&stat, STARTED), Some(22));
        assert_eq!(parse_priority(7, "7 (a) S 1 2"), None);
        let stat = "7 (a) b (c)) D 1 7 7 0 -1 4194304 101 0 42 0 5 6";
        assert_eq!((parse_major_faults(stat), parse_major_faults("7 (a) D 1")), (Some(42), None));
        assert_eq!(socket_inode("socket:[4711]"), Some(4_711));
        assert_eq!((socket_inode("pipe:[4711]"), socket_inode("socket:[]")), (None, None));
    }
}
