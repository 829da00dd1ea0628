//! Repeated snapshots of a host, and reports of the losses between them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use diagnose::{DropEvent, Losses, Observed, Owner, Settings, Snapshot, Socket, Thread, Watch};
use sys::process::{self, Process};
use sys::{DeviceCounters, Interface, Qdisc, QdiscPlace, clock, counters, host, levels};

use crate::checkpoints::Checkpoints;
use crate::drops::Drops;
use crate::record::Recorder;
use crate::reporting::{ReportError, Reporter};
use crate::seen::Seen;
use crate::wanted::Wanted;

/// Watch of this host for losses.
pub struct Watcher {
    wanted: Wanted,
    known: Known,
    watch: Watch,
    unread: Vec<&'static str>,
    drops: Option<Drops>,
    checkpoints: Option<Checkpoints>,
    /// Streams whose losses are reported; all watched ones if `None`.
    streams: Option<BTreeSet<u64>>,
    reporter: Option<Reporter>,
    recorder: Option<Recorder>,
}

/// Facts that need not be read for every snapshot.
struct Known {
    /// Owners of sockets, by their inodes; `None` for those that this user may not see.
    owners: BTreeMap<u32, Option<Process>>,
    devices: DeviceCounters,
}

/// Interval of collecting events: the hook has room for some ten thousand runs, and for some hundred trains of 64
/// KiB.
const COLLECTS_EVERY: Duration = Duration::from_millis(20);

impl Watcher {
    /// Takes the first snapshot. With `drops` datagrams are named, too.
    ///
    /// # Errors
    /// If the kernel does not list its sockets.
    pub fn begin(wanted: Wanted, drops: Option<Drops>) -> io::Result<Self> {
        let devices = DeviceCounters::new(diagnose::driver_counts_losses);
        let mut known = Known { owners: BTreeMap::new(), devices };
        let (first, unread) = take_snapshot(&wanted, None, &mut known)?;
        let watch = Watch::begin(first);
        let mut watcher = Self {
            wanted,
            known,
            watch,
            unread,
            drops,
            checkpoints: None,
            streams: None,
            reporter: None,
            recorder: None,
        };
        // Datagrams freed before the first snapshot are counted in it.
        watcher.observe()?;
        Ok(watcher)
    }

    /// Also writes everything from now on to an event file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn record(&mut self, path: &Path) -> io::Result<()> {
        let recorder = Recorder::begin(path, &self.wanted, self.watch.last(), self.drops.is_some())?;
        self.recorder = Some(recorder);
        Ok(())
    }

    /// Also reports holes at checkpoints from now on. A datagram with a drop event is not missing there, so without
    /// drop events nothing is reported.
    pub fn watch_checkpoints(&mut self, checkpoints: Checkpoints) {
        self.checkpoints = Some(checkpoints).filter(|_| self.drops.is_some());
    }

    /// Returns the checkpoints, if they are watched.
    #[must_use]
    pub const fn checkpoints(&self) -> Option<&Checkpoints> {
        self.checkpoints.as_ref()
    }

    /// Reports losses of these streams only from now on, and by drop events only: counters cover others, too.
    pub fn want_streams(&mut self, streams: BTreeSet<u64>) {
        self.streams = Some(streams);
    }

    /// Reports dropped datagrams to the accounts of this host's processes from now on, by a board in the directory of
    /// their shared memory. Without drop events nothing is reported.
    ///
    /// # Errors
    /// [`ReportError`]: mostly that another doctor does so.
    pub fn report_to_accounts(&mut self, directory: &Path) -> Result<(), ReportError> {
        if self.drops.is_some() {
            self.reporter = Some(Reporter::begin(directory)?);
        }
        Ok(())
    }

    /// Returns whether drops are reported to the accounts of this host's processes.
    #[must_use]
    pub const fn reports_to_accounts(&self) -> bool {
        self.reporter.is_some()
    }

    /// Returns the kernel's files that cannot be read here: their counters are not seen.
    #[must_use]
    pub fn unread(&self) -> &[&'static str] {
        &self.unread
    }

    /// Returns the sockets of the last snapshot, all of this network namespace.
    #[must_use]
    pub fn last_sockets(&self) -> &[Socket] {
        &self.watch.last().sockets
    }

    /// Returns the name of a device of this namespace, or its number if it no longer exists.
    #[must_use]
    pub fn device(&self, number: u32) -> String {
        self.watch.last().devices.get(&number).map_or_else(|| format!("device {number}"), Clone::clone)
    }

    /// Returns the number of watched sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.watch.last().sockets.iter().filter(|socket| self.wanted.has_socket(socket)).count()
    }

    /// Takes a snapshot each `interval` and passes on the losses: the given number of times, or until `wait`, which
    /// waits at most for its argument, returns `false`.
    ///
    /// The stop is checked before a snapshot, and one more is taken then: losses during a snapshot that had begun are
    /// reported by the next.
    ///
    /// # Errors
    /// The error of `report`, and if the kernel no longer lists its sockets or delivers events.
    pub fn watch_until_stopped<E: From<io::Error>>(
        &mut self,
        (interval, snapshots): (Duration, Option<u64>),
        mut wait: impl FnMut(Duration) -> bool,
        mut report: impl FnMut(&mut Self, Seen) -> Result<(), E>,
    ) -> Result<(), E> {
        for snapshot in 1.. {
            let goes_on = self.wait(interval, &mut wait)?;
            let seen = self.take_snapshot()?;
            report(self, seen)?;
            if !goes_on || snapshots.is_some_and(|snapshots| snapshot >= snapshots) {
                break;
            }
        }
        Ok(())
    }

    /// Waits until the next snapshot, by a function that waits at most for its argument and returns whether to
    /// continue; collects drop events meanwhile. Returns the function's last result.
    ///
    /// # Errors
    /// If the kernel no longer delivers events.
    pub fn wait(&mut self, time: Duration, mut wait: impl FnMut(Duration) -> bool) -> io::Result<bool> {
        let until = clock::monotonic() + time;
        loop {
            let left = until.since(clock::monotonic());
            let most = if self.drops.is_some() { COLLECTS_EVERY } else { left };
            let goes_on = wait(left.min(most));
            if left.is_zero() || !goes_on {
                return Ok(goes_on);
            }
            self.collect()?;
        }
    }

    /// Collects drop events and holes, and reports them at once: accounts wait for two seconds.
    fn collect(&mut self) -> io::Result<()> {
        let Some(drops) = &mut self.drops else { return Ok(()) };
        let now = clock::monotonic();
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.collect(now);
        }
        let events = drops.collect()?;
        let sockets = &self.watch.last().sockets;
        let mut report = |events: &[DropEvent]| {
            if let Some(reporter) = &mut self.reporter {
                reporter.report(events, sockets);
            }
        };
        report(events);
        if let Some(checkpoints) = &mut self.checkpoints {
            let holes = checkpoints.settle(now, events)?;
            report(&holes);
            drops.add(holes);
        }
        match &mut self.reporter {
            Some(reporter) => reporter.report_scope(now, || drops.sees_all(now)),
            None => Ok(()),
        }
    }

    /// Takes a snapshot, and returns the losses since the last one.
    ///
    /// # Errors
    /// If the kernel no longer lists its sockets.
    pub fn take_snapshot(&mut self) -> io::Result<Seen> {
        let (after, unread) = take_snapshot(&self.wanted, Some(self.watch.last()), &mut self.known)?;
        let time = after.at.since(self.watch.last().at);
        // After the counters: every counted datagram has its event now.
        let observed = self.observe()?;
        let recording =
            self.recorder.as_mut().map(|recorder| recorder.write_snapshot(&after, observed.as_ref()));
        let recording_failed = recording.and_then(Result::err);
        if recording_failed.is_some() {
            // The file keeps earlier snapshots; watching continues.
            self.recorder = None;
        }
        let mut losses = self.watch.compare(after, observed);
        self.leave_what_is_wanted(&mut losses);
        self.unread = unread;
        Ok(Seen { losses, time, recording_failed })
    }

    /// Ends and returns losses that were not reported yet.
    pub fn finish(&mut self) -> Seen {
        let mut losses = Losses::default();
        let mut recording_failed = None;
        if let Some((checkpoints, drops)) = self.checkpoints.as_mut().zip(self.drops.as_mut()) {
            drops.add(checkpoints.finish());
            let (now, observed) = (self.watch.last().clone(), self.take_events());
            let recording =
                self.recorder.as_mut().map(|recorder| recorder.write_snapshot(&now, observed.as_ref()));
            recording_failed = recording.and_then(Result::err);
            losses = self.watch.compare(now, observed);
        }
        losses.join(self.watch.finish());
        self.leave_what_is_wanted(&mut losses);
        Seen { losses, time: Duration::ZERO, recording_failed }
    }

    fn leave_what_is_wanted(&self, losses: &mut Losses) {
        losses.findings.retain(|finding| self.wanted.has_finding(finding));
        if self.streams.is_some() {
            leave_what_is_named(losses);
        }
    }

    /// Returns the events that the hook in the kernel could not see or deliver so far; `None` without a hook.
    ///
    /// # Errors
    /// If the kernel does not deliver its counts.
    pub fn unseen(&self) -> io::Result<Option<bpf::Unseen>> {
        self.drops.as_ref().map(Drops::unseen).transpose()
    }

    fn observe(&mut self) -> io::Result<Option<Observed>> {
        self.collect()?;
        Ok(self.take_events())
    }

    /// Takes the collected events of watched sockets and streams.
    fn take_events(&mut self) -> Option<Observed> {
        let drops = self.drops.as_mut()?;
        let (wanted, sockets) = (&self.wanted, &self.watch.last().sockets);
        let ours: Vec<&Socket> = sockets.iter().filter(|socket| wanted.has_socket(socket)).collect();
        let is_ours = |event: &DropEvent| {
            let to = event.destination.port();
            let is_there =
                |socket: &&Socket| event.socket == Some(socket.cookie) || socket.local.port() == to;
            // The later fragments of a datagram have no port.
            wanted.is_everything() || to == 0 || wanted.ports.contains(&to) || ours.iter().any(is_there)
        };
        let mut events = drops.take();
        events.retain(is_ours);
        if let Some(streams) = &self.streams {
            events.retain(|event| event.numbers.is_some_and(|numbers| streams.contains(&numbers.stream)));
        }
        let is_of_ports = self.streams.is_some() || !wanted.is_everything();
        Some(Observed { events, is_of_ports })
    }
}

/// Keeps only losses that drop events name: other counts belong to other streams.
fn leave_what_is_named(losses: &mut Losses) {
    losses.not_observed = 0;
    for finding in &mut losses.findings {
        finding.count = finding.datagrams.iter().map(|it| it.count).sum();
        finding.not_observed = Some(0);
    }
    losses.findings.retain(|finding| finding.count > 0);
}

/// Takes a snapshot: sockets, then counters, then sockets again, so that the certain drops of a socket between two
/// snapshots are a part of the counters' rise between them. Before them the counters that only explain: the device
/// has counted all packets for which its driver had no room by then.
fn take_snapshot(
    wanted: &Wanted,
    before: Option<&Snapshot>,
    known: &mut Known,
) -> io::Result<(Snapshot, Vec<&'static str>)> {
    let devices: BTreeMap<u32, String> =
        Interface::all().unwrap_or_default().into_iter().map(|device| (device.index, device.name)).collect();
    let mut of_devices = BTreeMap::new();
    known.devices.read(&devices, &mut of_devices);
    let early = sys::udp_sockets()?;
    let (mut counters, mut unread) = counters::read();
    counters.extend(of_devices);
    match sys::qdiscs() {
        Ok(qdiscs) => counters.extend(qdiscs.iter().filter_map(|qdisc| drops_of_queue(qdisc, &devices))),
        Err(_) => unread.push("the list of queue disciplines (netlink)"),
    }
    let sockets = sys::udp_sockets()?;
    let at = clock::monotonic();
    let owners = &mut known.owners;
    let inodes: BTreeSet<u32> = sockets.iter().map(|socket| socket.inode).collect();
    owners.retain(|inode, _| inodes.contains(inode));
    let new: BTreeSet<u32> = inodes.into_iter().filter(|inode| !owners.contains_key(inode)).collect();
    if !new.is_empty() {
        // Searching every process's files takes milliseconds: once for each socket.
        let found = process::owners(&new);
        owners.extend(new.iter().map(|inode| (*inode, found.get(inode).cloned())));
    }
    let mut sockets: Vec<Socket> = sockets.into_iter().map(|socket| with_owner(socket, owners)).collect();
    sockets.sort_by_key(|socket| socket.cookie);
    let mut threads: BTreeMap<u32, Vec<Thread>> = BTreeMap::new();
    for socket in sockets.iter_mut().filter(|socket| wanted.has_socket(socket)) {
        if let Some(owner) = &mut socket.owner {
            owner.threads = threads.entry(owner.pid).or_insert_with(|| threads_of(owner.pid)).clone();
        }
    }
    // The disk that a blocked thread waits for, and full memory, matter to these snapshots only.
    let blocked = threads.iter().filter(|(_, threads)| threads.iter().any(|thread| thread.is_blocked));
    let disks: Vec<process::Disk> = blocked.flat_map(|(pid, _)| process::disks(*pid)).collect();
    if threads.values().flatten().any(|thread| thread.is_blocked) {
        counters::read_waits(&mut counters);
    }
    let mut snapshot = Snapshot {
        at,
        counters,
        levels: BTreeMap::new(),
        sockets,
        early_drops: early.iter().map(|socket| (socket.cookie, socket.drops)).collect(),
        devices,
        settings: Settings {
            rmem_max_bytes: host::receive_buffer_limit().ok(),
            rmem_default_bytes: host::receive_buffer_default().ok(),
            netdev_max_backlog: host::backlog_limit().ok(),
        },
    };
    if before.is_none_or(|before| snapshot.wants_levels(before)) {
        snapshot.levels = levels::read();
    }
    for disk in disks {
        snapshot.levels.extend(diagnose::disk_levels(&disk.path, disk.free_bytes, disk.size_bytes));
    }
    Ok((snapshot, unread))
}

/// Returns the drops of a queue as a counter of its device; inner queues are counted by the outer one.
fn drops_of_queue(qdisc: &Qdisc, devices: &BTreeMap<u32, String>) -> Option<(String, u64)> {
    let name = match qdisc.place() {
        QdiscPlace::Root => "qdisc_drops",
        QdiscPlace::Ingress => "ingress_drops",
        QdiscPlace::Inner => return None,
    };
    Some((format!("{name}/{}", devices.get(&qdisc.device)?), qdisc.drops.into()))
}

fn with_owner(socket: sys::UdpSocket, owners: &BTreeMap<u32, Option<Process>>) -> Socket {
    let owner = owners.get(&socket.inode).cloned().flatten();
    Socket {
        cookie: socket.cookie,
        local: socket.local,
        buffer_bytes: socket.buffer_bytes,
        drops: socket.drops,
        owner: owner.map(|Process { pid, name }| Owner { pid, name, threads: Vec::new() }),
    }
}

/// Returns the activity of a process's threads so far; nothing for one that has ended.
fn threads_of(pid: u32) -> Vec<Thread> {
    let threads = process::threads(pid).unwrap_or_default().into_iter();
    let thread = |it: process::ThreadTimes| Thread {
        tid: it.tid,
        ran_ns: it.ran_ns,
        waited_ns: it.waited_ns,
        major_faults: it.major_faults,
        is_blocked: it.state == 'D',
    };
    threads.map(thread).collect()
}

#[cfg(test)]
mod tests {
    use diagnose::Place;

    use super::*;
    use std::cell::Cell;
    use std::net::UdpSocket;

    /// Loses datagrams at a socket of this process that is never read; returns its number of losses so far.
    fn lose(reader: &UdpSocket) -> u64 {
        let before = sys::MemInfo::of(reader).unwrap().drops;
        let writer = UdpSocket::bind("127.0.0.1:0").unwrap();
        writer.connect(reader.local_addr().unwrap()).unwrap();
        while sys::MemInfo::of(reader).unwrap().drops < before + 100 {
            writer.send(&[0; 1_000]).unwrap();
        }
        sys::MemInfo::of(reader).unwrap().drops.into()
    }

    fn counted(seen: &Seen) -> u64 {
        let of_sockets = seen.losses.findings.iter().filter(|it| matches!(it.place, Place::Socket { .. }));
        of_sockets.map(|it| it.count).sum()
    }

    /// Returns a watcher of one socket, and the socket.
    fn watching() -> (Watcher, UdpSocket) {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wanted = Wanted { ports: [reader.local_addr().unwrap().port()].into(), pids: BTreeSet::new() };
        (Watcher::begin(wanted, None).unwrap(), reader)
    }

    #[test]
    fn losses_during_the_last_report_are_reported_by_one_more_snapshot() {
        let (mut watcher, reader) = watching();
        let (is_stopped, reported, lost, mut snapshots) = (Cell::new(false), Cell::new(0), Cell::new(0), 0);
        let wait = |_| !is_stopped.get();
        let report = |_: &mut Watcher, seen: Seen| -> io::Result<()> {
            reported.set(reported.get() + counted(&seen));
            // The counters have been read: the stop and a loss come before this snapshot is complete.
            if !is_stopped.replace(true) {
                lost.set(lose(&reader));
            }
            snapshots += 1;
            Ok(())
        };
        watcher.watch_until_stopped((Duration::ZERO, None), wait, report).unwrap();
        assert_eq!((snapshots, reported.get()), (2, lost.get()));
    }

    #[test]
    fn losses_before_a_stop_amid_the_wait_are_reported_by_the_last_snapshot() {
        let (mut watcher, reader) = watching();
        let (lost, reported) = (Cell::new(0), Cell::new(0));
        let wait = |_| {
            lost.set(lose(&reader));
            false
        };
        let report = |_: &mut Watcher, seen: Seen| -> io::Result<()> {
            reported.set(reported.get() + counted(&seen));
            Ok(())
        };
        watcher.watch_until_stopped((Duration::from_secs(3_600), None), wait, report).unwrap();
        assert_eq!(reported.get(), lost.get());
    }

    #[test]
    fn as_many_snapshots_are_taken_as_were_asked_for() {
        let (mut watcher, _reader) = watching();
        let mut snapshots = 0;
        let report = |_: &mut Watcher, _: Seen| -> io::Result<()> {
            snapshots += 1;
            Ok(())
        };
        watcher.watch_until_stopped((Duration::ZERO, Some(3)), |_| true, report).unwrap();
        assert_eq!(snapshots, 3);
    }

    #[test]
    fn a_snapshot_has_the_counters_and_levels_that_explain_losses() {
        let (watcher, _reader) = watching();
        let snapshot = watcher.watch.last();
        let has = |prefix: &str| snapshot.counters.keys().any(|name| name.starts_with(prefix));
        assert!(has("NET_RX/cpu") && has("stat:softirq/cpu") && snapshot.levels.contains_key("UDP mem"));
    }

    #[test]
    fn what_a_socket_of_this_process_drops_is_seen_and_of_others_only_what_is_wanted() {
        let (reader, other) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let port = reader.local_addr().unwrap().port();
        let mut watcher =
            Watcher::begin(Wanted { ports: [port].into(), pids: BTreeSet::new() }, None).unwrap();
        assert_eq!((watcher.sockets(), watcher.unread()), (1, &[][..]));
        let writer = UdpSocket::bind("127.0.0.1:0").unwrap();
        for to in [&reader, &other] {
            writer.connect(to.local_addr().unwrap()).unwrap();
            for _ in 0..2_000 {
                writer.send(&[0; 1_000]).unwrap();
            }
        }
        let drops = sys::MemInfo::of(&reader).unwrap().drops;
        assert!(drops > 0);
        let seen = watcher.take_snapshot().unwrap();
        let of_sockets: Vec<_> =
            seen.losses.findings.iter().filter(|it| matches!(it.place, Place::Socket { .. })).collect();
        let count: u64 = of_sockets.iter().map(|it| it.count).sum();
        assert_eq!(count, u64::from(drops), "{of_sockets:?}");
        let Place::Socket { local, owner, .. } = &of_sockets[0].place else { unreachable!("just chosen") };
        assert_eq!(*local, reader.local_addr().unwrap());
        assert_eq!(owner.as_ref().map(|(pid, _)| *pid), Some(std::process::id()));
    }
}
