//! Event files: the snapshots and events of a watch, so that it can be evaluated again elsewhere.
//!
//! JSON, one object per line: first the kind of file, then snapshots, each with its drop events. A snapshot has only
//! the counters that changed. `docs/reference/formats/doctor-events.md` is the manual.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use diagnose::{
    DropEvent, Fragment, Losses, Numbers, Observed, Owner, Settings, Snapshot, Socket, Thread, Watch,
};
use serde_json::{Map, Value, json};
use units::Instant;

use crate::seen::Seen;
use crate::wanted::Wanted;

/// Name of the format in the first line.
const FORMAT: &str = "tallycast doctor events";
const VERSION: u64 = 1;

/// Writer of an event file.
#[derive(Debug)]
pub(crate) struct Recorder {
    output: BufWriter<File>,
    /// Counters of the last snapshot.
    counters: BTreeMap<String, u64>,
}

/// Evaluation of an event file.
pub struct Replay {
    lines: Lines,
    counters: BTreeMap<String, u64>,
    wanted: Wanted,
    watch: Watch,
    /// Header of the file.
    pub about: About,
}

/// Header of an event file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// Release of the kernel.
    pub kernel: String,
    /// True if the file has single datagrams.
    pub names_datagrams: bool,
}

/// Reason why an event file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be opened or read.
    #[error("the event file cannot be read")]
    File(#[from] io::Error),
    /// It is no event file, or one of a later version.
    #[error("not an event file of version {VERSION}; write one with `tallycast doctor watch --record FILE`")]
    NotOne,
    /// A line is invalid.
    #[error(
        "line {0} of the event file is invalid: it was changed or damaged; the lines before it were evaluated"
    )]
    Line(usize),
    /// A line, or the counters kept from earlier snapshots, is longer than any host's.
    #[error(
        "line {0} of the event file is longer than {LONGEST} bytes: the file is damaged or not an event file"
    )]
    TooLong(usize),
}

/// Maximum size of a line, in bytes. A snapshot of ten thousand sockets takes some three million.
const LONGEST: usize = 1 << 25;

/// Lines of a file, each of a size that can be held.
struct Lines {
    input: Box<dyn BufRead>,
    /// Number of lines read.
    count: usize,
}

impl Lines {
    /// Returns the next line, or none if it is no text; `None` at the end.
    fn next(&mut self) -> Result<Option<String>, ReplayError> {
        let mut bytes = Vec::new();
        let most = LONGEST as u64 + 1;
        if self.input.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.count += 1;
        if bytes.len() > LONGEST {
            return Err(ReplayError::TooLong(self.count));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| ReplayError::Line(self.count))
    }
}

impl Recorder {
    /// Creates a file with the first snapshot.
    ///
    /// # Errors
    /// If it cannot be written; an existing file of that name is overwritten.
    pub(crate) fn begin(
        path: &Path,
        wanted: &Wanted,
        first: &Snapshot,
        names_datagrams: bool,
    ) -> io::Result<Self> {
        let output = BufWriter::new(File::create(path)?);
        let mut recorder = Self { output, counters: BTreeMap::new() };
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        recorder.write(&json!({
            "format": FORMAT,
            "version": VERSION,
            "kernel": kernel.trim(),
            "names_datagrams": names_datagrams,
            "ports": wanted.ports,
            "pids": wanted.pids,
        }))?;
        recorder.write_snapshot(first, None)?;
        Ok(recorder)
    }

    /// Writes a snapshot, and the drops before it.
    ///
    /// # Errors
    /// If it cannot be written, as to a full disk; earlier snapshots stay in the file.
    pub(crate) fn write_snapshot(
        &mut self,
        snapshot: &Snapshot,
        observed: Option<&Observed>,
    ) -> io::Result<()> {
        let value = snapshot_json(snapshot, &self.counters);
        self.counters.clone_from(&snapshot.counters);
        self.write(&json!({ "look": value, "drops": observed.map(observed_json) }))?;
        self.output.flush()
    }

    fn write(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.output, "{value}")
    }
}

impl Replay {
    /// Opens an event file.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        Self::read(BufReader::new(File::open(path)?))
    }

    /// Reads an event file from any input.
    ///
    /// # Errors
    /// [`ReplayError`] if it cannot be read or is none.
    pub fn read(input: impl BufRead + 'static) -> Result<Self, ReplayError> {
        let mut lines = Lines { input: Box::new(input), count: 0 };
        let head = match lines.next() {
            Err(ReplayError::Line(_) | ReplayError::TooLong(_)) => return Err(ReplayError::NotOne),
            head => head?,
        };
        let head: Value = head
            .and_then(|line| serde_json::from_str(&line).ok())
            .filter(|head: &Value| head["format"] == FORMAT && head["version"] == VERSION)
            .ok_or(ReplayError::NotOne)?;
        let mut counters = BTreeMap::new();
        let first = lines.next()?.and_then(|line| read_line(&line, &mut counters));
        let (first, _) = first.ok_or(ReplayError::Line(2))?;
        let numbers = |name: &str| head[name].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let wanted = Wanted {
            ports: numbers("ports").filter_map(|port| u16::try_from(port).ok()).collect(),
            pids: numbers("pids").filter_map(|pid| u32::try_from(pid).ok()).collect(),
        };
        let about = About {
            kernel: head["kernel"].as_str().unwrap_or_default().to_owned(),
            names_datagrams: head["names_datagrams"] == true,
        };
        Ok(Self { lines, counters, wanted, watch: Watch::begin(first), about })
    }

    /// Evaluates the next snapshot; `None` at the end.
    ///
    /// # Errors
    /// [`ReplayError`]; earlier results stay valid.
    pub fn next_snapshot(&mut self) -> Result<Option<Seen>, ReplayError> {
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let number = self.lines.count;
        let (snapshot, observed) = read_line(&line, &mut self.counters).ok_or(ReplayError::Line(number))?;
        // A first snapshot has all of them in one line: no snapshot keeps more than that.
        if self.counters.keys().map(String::len).sum::<usize>() > LONGEST {
            return Err(ReplayError::TooLong(number));
        }
        let before = self.watch.last().at;
        if snapshot.at < before {
            return Err(ReplayError::Line(number));
        }
        let time = snapshot.at.since(before);
        let mut losses = self.watch.compare(snapshot, observed);
        losses.findings.retain(|finding| self.wanted.has_finding(finding));
        Ok(Some(Seen { losses, time, recording_failed: None }))
    }

    /// Ends and returns losses that were not reported yet.
    pub fn finish(&mut self) -> Losses {
        self.watch.finish()
    }
}

fn snapshot_json(snapshot: &Snapshot, before: &BTreeMap<String, u64>) -> Value {
    let gone: Vec<&String> = before.keys().filter(|name| !snapshot.counters.contains_key(*name)).collect();
    let Settings { rmem_max_bytes, rmem_default_bytes, netdev_max_backlog } = snapshot.settings;
    let levels = changed(&snapshot.levels, &BTreeMap::new());
    json!({
        "at_ns": snapshot.at.as_nanos(),
        "counters": changed(&snapshot.counters, before),
        "gone": gone,
        "levels": (!levels.is_empty()).then_some(levels),
        "sockets": snapshot.sockets.iter().map(socket_json).collect::<Vec<_>>(),
        "early_drops": snapshot.early_drops.iter().map(|(cookie, drops)| json!([cookie, drops])).collect::<Vec<_>>(),
        "devices": snapshot.devices.iter().map(|(number, name)| json!([number, name])).collect::<Vec<_>>(),
        "rmem_max_bytes": rmem_max_bytes,
        "rmem_default_bytes": rmem_default_bytes,
        "netdev_max_backlog": netdev_max_backlog,
    })
}

/// Returns the changed counters. Values that a reader would refuse are left out: a driver that counts backwards from
/// zero.
fn changed(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> Map<String, Value> {
    let changed =
        now.iter().filter(|(name, number)| before.get(*name) != Some(number) && **number < MAX_COUNT);
    changed.map(|(name, number)| (name.clone(), json!(number))).collect()
}

/// Adds numbers by name; `None` if the value is no such object.
fn take_numbers(numbers: &Value, all: &mut BTreeMap<String, u64>) -> Option<()> {
    for (name, number) in numbers.as_object()? {
        all.insert(name.clone(), count_of(number)?);
    }
    Some(())
}

fn socket_json(socket: &Socket) -> Value {
    json!({
        "cookie": socket.cookie,
        "local": socket.local.to_string(),
        "buffer_bytes": socket.buffer_bytes,
        "drops": socket.drops,
        "owner": socket.owner.as_ref().map(|owner| json!({
            "pid": owner.pid,
            "name": owner.name,
            "threads": owner.threads.iter().map(thread_json).collect::<Vec<_>>(),
        })),
    })
}

/// Returns a thread as an object. Major faults are left out where there were none, as in files from before they were
/// recorded.
fn thread_json(thread: &Thread) -> Value {
    let Thread { tid, ran_ns, waited_ns, major_faults, is_blocked } = *thread;
    match major_faults {
        0 => json!([tid, ran_ns, waited_ns, is_blocked]),
        faults => json!([tid, ran_ns, waited_ns, is_blocked, faults]),
    }
}

fn observed_json(observed: &Observed) -> Value {
    json!({
        "is_of_ports": observed.is_of_ports,
        "events": observed.events.iter().map(event_json).collect::<Vec<_>>(),
    })
}

fn event_json(event: &DropEvent) -> Value {
    json!({
        "at_ns": event.at.as_nanos(),
        "reason": &*event.reason,
        "location": event.location.as_deref(),
        "socket": event.socket,
        "namespace": event.namespace,
        "device": event.device,
        "is_incoming": event.is_incoming,
        "source": event.source.to_string(),
        "destination": event.destination.to_string(),
        "fragment": event.fragment.map(|it| json!([it.id, it.is_first])),
        "numbers": event.numbers.map(|it| json!([it.stream, it.incarnation, it.first, it.last])),
        "count": event.count,
    })
}

/// Parses a snapshot and its events; `None` for any other line.
fn read_line(line: &str, counters: &mut BTreeMap<String, u64>) -> Option<(Snapshot, Option<Observed>)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let snapshot = read_snapshot(&value["look"], counters)?;
    let observed = match &value["drops"] {
        Value::Null => None,
        drops => Some(read_observed(drops)?),
    };
    Some((snapshot, observed))
}

fn read_snapshot(value: &Value, counters: &mut BTreeMap<String, u64>) -> Option<Snapshot> {
    take_numbers(&value["counters"], counters)?;
    for name in value["gone"].as_array()? {
        counters.remove(name.as_str()?);
    }
    let mut levels = BTreeMap::new();
    // Levels are absent if no counter rose that they explain, and in files of older doctors.
    if !value["levels"].is_null() {
        take_numbers(&value["levels"], &mut levels)?;
    }
    let pairs = |name: &str| value[name].as_array();
    let mut sockets = pairs("sockets")?.iter().map(read_socket).collect::<Option<Vec<_>>>()?;
    sockets.sort_by_key(|socket| socket.cookie);
    let early = |it: &Value| Some((it[0].as_u64()?, u32_of(&it[1])?));
    let device = |it: &Value| Some((u32_of(&it[0])?, it[1].as_str()?.to_owned()));
    Some(Snapshot {
        at: Instant::from_nanos(value["at_ns"].as_u64()?),
        counters: counters.clone(),
        levels,
        sockets,
        early_drops: pairs("early_drops")?.iter().map(early).collect::<Option<_>>()?,
        devices: pairs("devices")?.iter().map(device).collect::<Option<_>>()?,
        settings: Settings {
            rmem_max_bytes: value["rmem_max_bytes"].as_u64(),
            rmem_default_bytes: value["rmem_default_bytes"].as_u64(),
            netdev_max_backlog: value["netdev_max_backlog"].as_u64(),
        },
    })
}

fn read_socket(value: &Value) -> Option<Socket> {
    let thread = |it: &Value| {
        let (tid, is_blocked) = (u32_of(&it[0])?, it[3].as_bool()?);
        let major_faults = if it[4].is_null() { 0 } else { it[4].as_u64()? };
        Some(Thread { tid, ran_ns: it[1].as_u64()?, waited_ns: it[2].as_u64()?, major_faults, is_blocked })
    };
    let owner = match &value["owner"] {
        Value::Null => None,
        owner => Some(Owner {
            pid: u32_of(&owner["pid"])?,
            name: owner["name"].as_str()?.to_owned(),
            threads: owner["threads"].as_array()?.iter().map(thread).collect::<Option<_>>()?,
        }),
    };
    Some(Socket {
        cookie: value["cookie"].as_u64()?,
        local: value["local"].as_str()?.parse().ok()?,
        buffer_bytes: u32_of(&value["buffer_bytes"])?,
        drops: u32_of(&value["drops"])?,
        owner,
    })
}

fn read_observed(value: &Value) -> Option<Observed> {
    let events = value["events"].as_array()?.iter().map(read_event).collect::<Option<_>>()?;
    Some(Observed { events, is_of_ports: value["is_of_ports"].as_bool()? })
}

fn read_event(value: &Value) -> Option<DropEvent> {
    let optional = |value: &Value| u32_of(value);
    let fragment = |it: &Value| Some(Fragment { id: u32_of(&it[0])?, is_first: it[1].as_bool()? });
    let numbers = |it: &Value| {
        let (stream, incarnation) = (it[0].as_u64()?, it[1].as_u64()?);
        let (first, last) = (it[2].as_u64()?, it[3].as_u64()?);
        (first <= last && last < u64::MAX).then_some(Numbers { stream, incarnation, first, last })
    };
    Some(DropEvent {
        at: Instant::from_nanos(value["at_ns"].as_u64()?),
        reason: Arc::from(value["reason"].as_str()?),
        location: value["location"].as_str().map(Arc::from),
        socket: value["socket"].as_u64(),
        namespace: optional(&value["namespace"]),
        device: optional(&value["device"]),
        is_incoming: value["is_incoming"].as_bool()?,
        source: value["source"].as_str()?.parse().ok()?,
        destination: value["destination"].as_str()?.parse().ok()?,
        fragment: fragment(&value["fragment"]),
        numbers: numbers(&value["numbers"]),
        count: u32_of(&value["count"])?.into(),
    })
}

/// Maximum of a counter: sums of a few smaller ones do not overflow.
const MAX_COUNT: u64 = 1 << 56;

fn count_of(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count < MAX_COUNT)
}

fn u32_of(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Records two snapshots of a socket that dropped nine datagrams, each named.
    fn recorded(path: &Path) {
        let socket = |drops| Socket {
            cookie: 7,
            local: "127.0.0.1:7400".parse().unwrap(),
            buffer_bytes: 8_192,
            drops,
            owner: Some(Owner {
                pid: 3,
                name: "reader".to_owned(),
                threads: vec![Thread { tid: 3, ran_ns: 1, waited_ns: 2, major_faults: 4, is_blocked: false }],
            }),
        };
        let snapshot = |at, drops: u32| Snapshot {
            at: Instant::from_nanos(at),
            counters: [("UdpRcvbufErrors", drops.into()), ("UdpInErrors", drops.into()), ("IpForwarding", 2)]
                .map(|(name, count): (&str, u64)| (name.to_owned(), count))
                .into(),
            levels: [("UDP mem".to_owned(), u64::from(drops)), ("net.ipv4.udp_mem".to_owned(), 90)].into(),
            sockets: vec![socket(drops)],
            early_drops: [(7, drops)].into(),
            devices: [(1, "lo".to_owned())].into(),
            settings: Settings { rmem_max_bytes: Some(212_992), ..Settings::default() },
        };
        let event = DropEvent {
            at: Instant::from_nanos(5),
            reason: "SOCKET_RCVBUFF".into(),
            location: Some("udp_queue_rcv_one_skb".into()),
            socket: Some(7),
            namespace: Some(9),
            device: None,
            is_incoming: true,
            source: "127.0.0.1:4000".parse().unwrap(),
            destination: "127.0.0.1:7400".parse().unwrap(),
            fragment: None,
            numbers: Some(Numbers { stream: u64::MAX, incarnation: 1, first: 3, last: 11 }),
            count: 9,
        };
        let wanted = Wanted { ports: [7_400].into(), ..Wanted::default() };
        let mut recorder = Recorder::begin(path, &wanted, &snapshot(0, 0), true).unwrap();
        let observed = Observed { events: vec![event], is_of_ports: true };
        recorder.write_snapshot(&snapshot(1_000_000_000, 9), Some(&observed)).unwrap();
    }

    fn replayed(path: &Path) -> Result<Vec<Losses>, ReplayError> {
        let mut replay = Replay::open(path)?;
        let mut losses = Vec::new();
        while let Some(seen) = replay.next_snapshot()? {
            losses.push(seen.losses);
        }
        losses.push(replay.finish());
        Ok(losses)
    }

    #[test]
    fn lines_are_written_byte_for_byte_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(text.replace(kernel.trim(), "6.18.0"), include_str!("../tests/recorded.jsonl"));
    }

    #[test]
    fn what_was_recorded_is_judged_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let losses = replayed(&path).unwrap();
        let finding = &losses[0].findings[0];
        assert_eq!((finding.count, finding.not_observed, finding.datagrams.len()), (9, Some(0), 1));
        assert_eq!(finding.datagrams[0].stream, Some((u64::MAX, 1)));
        assert!(finding.cause.is_some(), "threads are recorded");
        assert_eq!((losses.len(), losses[1].findings.len()), (2, 0));
    }

    #[test]
    fn what_explains_a_loss_is_recorded_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let snapshot = |seconds: u64, counters: &[(&str, u64)], levels: Vec<(String, u64)>, faults| {
            let thread = Thread { tid: 3, ran_ns: 1, waited_ns: 2, major_faults: faults, is_blocked: true };
            let drops = if seconds == 0 { 0 } else { 9 };
            Snapshot {
                at: Instant::from_nanos(seconds * 1_000_000_000),
                counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
                levels: levels.into_iter().collect(),
                sockets: vec![Socket {
                    cookie: 7,
                    local: "127.0.0.1:7400".parse().unwrap(),
                    buffer_bytes: 8_192,
                    drops,
                    owner: Some(Owner { pid: 3, name: "reader".to_owned(), threads: vec![thread] }),
                }],
                early_drops: [(7, drops)].into(),
                devices: [(2, "eth0".to_owned())].into(),
                settings: Settings::default(),
            }
        };
        let driver = "ethtool:rx0_xdp_drops/eth0";
        let before = snapshot(
            0,
            &[(driver, 5), ("ethtool:rx0_drops/eth0", u64::MAX), ("pressure:io_some_us", 4)],
            vec![],
            0,
        );
        let disk = diagnose::disk_levels("/var", 100, 1_000);
        let after = snapshot(
            1,
            &[(driver, 8), ("pressure:io_some_us", 900_004), ("UdpRcvbufErrors", 9), ("UdpInErrors", 9)],
            disk.to_vec(),
            2,
        );
        let mut recorder = Recorder::begin(&path, &Wanted::default(), &before, false).unwrap();
        recorder.write_snapshot(&after, None).unwrap();
        let replayed = replayed(&path).unwrap().remove(0);
        assert_eq!(replayed, Watch::begin(before).compare(after, None));
        let [buffer, program] = &replayed.findings[..] else { panic!("{replayed:?}") };
        assert_eq!((program.count, program.evidence[0].counter.as_str()), (3, driver));
        assert_eq!((buffer.cause, buffer.levels.len()), (Some(diagnose::BufferCause::BlockedByDisk), 1));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&u64::MAX.to_string()), "no reader takes such a count");
    }

    #[test]
    fn counters_that_did_not_change_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("IpForwarding").count(), 1);
    }

    #[test]
    fn another_file_is_refused_and_a_damaged_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        for text in ["", "nonsense\n", "{}\n", "{\"format\":\"tallycast doctor events\",\"version\":2}\n"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(replayed(&path), Err(ReplayError::NotOne)), "{text}");
        }
        recorded(&path);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[1], &lines[2][..lines[2].len() / 2]))
            .unwrap();
        assert!(matches!(replayed(&path), Err(ReplayError::Line(3))));
        // Back in time.
        fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[2], lines[1])).unwrap();
        assert!(matches!(replayed(&path), Err(ReplayError::Line(3))));
    }

    #[test]
    fn whatever_is_changed_in_a_file_it_is_judged_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        recorded(&path);
        let text = fs::read(&path).unwrap();
        let mut random = units::Random::new(1);
        for _ in 0..2_000 {
            let mut changed = text.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = b"0123456789,:{}[]\"nul -tf"[random.below(24) as usize];
            }
            fs::write(&path, &changed).unwrap();
            let _ = replayed(&path);
        }
    }
}
