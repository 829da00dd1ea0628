//! Live data of this host: CPU time by class, interfaces, UDP counters, pressure.
//!
//! The kernel has running totals; a sample is their increase since the sample before, per second or in percent. The
//! files are read when a sample is requested, so a late caller leaves holes ([`HoleKind::Missing`]) instead of
//! invented values. The four files are parsed by functions of text: the column names are in the text, and an error of
//! a damaged line names its file.
//!
//! Source: Linux, `Documentation/filesystems/proc.rst`, `Documentation/accounting/psi.rst`; RFC 4113 (UDP).

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;

use crate::file::as_word;
use crate::{Description, HoleKind, Piece, Source, SourceError, Timing};

/// Default rate of reading the host.
///
/// Units: samples per second. The kernel counts CPU time in hundredths of a second, so faster reading shows steps.
pub const DEFAULT_RATE_HZ: u32 = 10;

/// Classes of CPU time, in the order of `/proc/stat`. The time of guests is part of `user`.
const CPU_CLASSES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

/// Counters of an interface: name, unit, and position among the sixteen columns of `/proc/net/dev`.
const INTERFACE_COUNTERS: [(&str, &str, usize); 8] = [
    ("rx_bytes", "B/s", 0),
    ("rx_packets", "1/s", 1),
    ("rx_errors", "1/s", 2),
    ("rx_drops", "1/s", 3),
    ("tx_bytes", "B/s", 8),
    ("tx_packets", "1/s", 9),
    ("tx_errors", "1/s", 10),
    ("tx_drops", "1/s", 11),
];

/// Counters of UDP, by the kernel's own names.
const UDP_COUNTERS: [&str; 8] = [
    "InDatagrams",
    "OutDatagrams",
    "NoPorts",
    "InErrors",
    "RcvbufErrors",
    "SndbufErrors",
    "InCsumErrors",
    "MemErrors",
];

/// Pressures: resource, and whether some or all tasks waited for it.
const PRESSURES: [(&str, &str); 5] =
    [("cpu", "some"), ("memory", "some"), ("memory", "full"), ("io", "some"), ("io", "full")];

/// Part of this host to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Probe {
    /// Shares of CPU time by class, in percent over all CPUs.
    Cpu,
    /// Bytes, packets, errors and drops of one interface, per second.
    Interface(String),
    /// The kernel's UDP counters, per second.
    Udp,
    /// Share of time in which tasks waited for CPU, memory or disk, in percent.
    Pressure,
}

/// Live source of this host's counters.
pub struct Host {
    probe: Probe,
    /// `/proc`, or a folder with the same files.
    root: PathBuf,
    description: Description,
    read_at: Instant,
    totals: Vec<u64>,
    values: Vec<f64>,
    /// True if samples that were not requested in time were reported, and the current one is yet to be read.
    hole_told: bool,
    buffer: Vec<u8>,
}

/// Reason why this host cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file of the kernel cannot be read.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file of the kernel does not follow its documentation.
    #[error("{file} has no readable {what}")]
    Unreadable {
        /// Name of the file.
        file: &'static str,
        /// Content that is missing.
        what: String,
    },
}

impl Probe {
    /// Returns the available probes: CPU and UDP, each interface, and pressure where the kernel has it.
    #[must_use]
    pub fn all() -> Vec<Self> {
        Self::all_in(Path::new("/proc"))
    }

    fn all_in(root: &Path) -> Vec<Self> {
        let interfaces = std::fs::read_to_string(root.join("net/dev")).unwrap_or_default();
        let mut probes = vec![Self::Cpu, Self::Udp];
        probes.extend(interface_lines(&interfaces).map(|(name, _)| Self::Interface(name.to_owned())));
        if root.join("pressure/cpu").exists() {
            probes.push(Self::Pressure);
        }
        probes
    }

    /// Returns the stream name: `host/cpu`, `host/net/eth0`, `host/udp`, `host/pressure`.
    ///
    /// # Panics
    /// Never: characters that are not allowed in a name are replaced, and the kernel's interface names are short.
    #[must_use]
    pub fn stream_name(&self) -> StreamName {
        let name = match self {
            Self::Cpu => "host/cpu".to_owned(),
            Self::Interface(interface) => format!("host/net/{}", as_word(interface)),
            Self::Udp => "host/udp".to_owned(),
            Self::Pressure => "host/pressure".to_owned(),
        };
        name.parse().expect("words of a name with `/` between them")
    }

    /// Opens the probe with a first reading.
    ///
    /// # Errors
    /// [`SourceError::Host`] if the kernel's files do not exist.
    pub fn open(&self, rate: SampleRate) -> Result<Host, SourceError> {
        self.open_in(PathBuf::from("/proc"), rate)
    }

    fn open_in(&self, root: PathBuf, rate: SampleRate) -> Result<Host, SourceError> {
        let schema = Schema::new(Dtype::F4, rate, self.channels())?;
        let name = self.stream_name();
        let description = Description { name, schema, timing: Timing::OnDemand, samples: None };
        let totals = self.totals(&root)?;
        Ok(Host {
            values: vec![0.0; totals.len()],
            probe: self.clone(),
            root,
            description,
            read_at: Instant::now(),
            totals,
            hole_told: false,
            buffer: Vec::new(),
        })
    }

    fn channels(&self) -> Vec<Channel> {
        match self {
            Self::Cpu => CPU_CLASSES.iter().map(|class| Channel::new(*class, "%")).collect(),
            Self::Interface(_) => {
                INTERFACE_COUNTERS.iter().map(|(name, unit, _)| Channel::new(*name, *unit)).collect()
            }
            Self::Udp => UDP_COUNTERS.iter().map(|name| Channel::new(*name, "1/s")).collect(),
            Self::Pressure => {
                PRESSURES.iter().map(|(of, who)| Channel::new(format!("{of}_{who}"), "%")).collect()
            }
        }
    }

    /// Reads the kernel's running totals, in the order of the channels.
    fn totals(&self, root: &Path) -> Result<Vec<u64>, HostError> {
        let read = |file: &str| {
            let path = root.join(file);
            std::fs::read_to_string(&path)
                .map_err(|source| HostError::Io { path: path.display().to_string(), source })
        };
        match self {
            Self::Cpu => cpu_ticks(&read("stat")?),
            Self::Interface(name) => interface_totals(&read("net/dev")?, name),
            Self::Udp => udp_totals(&read("net/snmp")?),
            Self::Pressure => PRESSURES
                .iter()
                .map(|(of, who)| stalled_micros(&read(&format!("pressure/{of}"))?, who))
                .collect(),
        }
    }

    /// Converts increases of the totals to values; `None` if nothing was counted yet.
    #[expect(clippy::cast_precision_loss, reason = "growth within a sample's period")]
    fn values(&self, growth: &[u64], seconds: f64) -> Option<Vec<f64>> {
        let share = match self {
            Self::Cpu => 100.0 / growth.iter().sum::<u64>() as f64,
            Self::Interface(_) | Self::Udp => 1.0 / seconds,
            Self::Pressure => 100.0 / (seconds * 1e6),
        };
        share.is_finite().then(|| growth.iter().map(|growth| *growth as f64 * share).collect())
    }
}

impl Host {
    fn read(&mut self) -> Result<(), HostError> {
        let totals = self.probe.totals(&self.root)?;
        let now = Instant::now();
        let seconds = now.duration_since(self.read_at).as_secs_f64();
        let growth: Vec<u64> =
            totals.iter().zip(&self.totals).map(|(now, before)| growth(*now, *before)).collect();
        // Requested again within one tick of the kernel's clock: nothing was counted, so no change is known.
        if let Some(values) = self.probe.values(&growth, seconds) {
            self.values = values;
            self.totals = totals;
            self.read_at = now;
        }
        Ok(())
    }
}

impl Source for Host {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        let missed = at_most.get() - 1;
        // A caller that takes every available sample is not late.
        if missed > 0 && at_most != NonZeroU64::MAX && !std::mem::take(&mut self.hole_told) {
            self.hole_told = true;
            return Ok(Piece::Hole { samples: missed, why: HoleKind::Missing });
        }
        self.hole_told = false;
        self.read()?;
        self.buffer.clear();
        #[expect(clippy::cast_possible_truncation, reason = "seven digits of a rate or a share")]
        self.buffer.extend(self.values.iter().flat_map(|value| (*value as f32).to_le_bytes()));
        Ok(Piece::Samples(&self.buffer))
    }
}

/// Returns the increase of a counter; one that fell was reset.
const fn growth(now: u64, before: u64) -> u64 {
    if now < before { now } else { now - before }
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

fn cpu_ticks(text: &str) -> Result<Vec<u64>, HostError> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks = line.and_then(numbers).filter(|ticks| ticks.len() >= CPU_CLASSES.len());
    let unreadable = || HostError::Unreadable { file: "/proc/stat", what: "line of CPU times".to_owned() };
    let mut ticks = ticks.ok_or_else(unreadable)?;
    ticks.truncate(CPU_CLASSES.len());
    Ok(ticks)
}

fn interface_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    // Two lines of headings have no colon but `|`.
    text.lines().skip(2).filter_map(|line| line.rsplit_once(':')).map(|(name, rest)| (name.trim(), rest))
}

fn interface_totals(text: &str, name: &str) -> Result<Vec<u64>, HostError> {
    let line = interface_lines(text).find(|(found, _)| *found == name).and_then(|(_, rest)| numbers(rest));
    let columns = line.filter(|columns| columns.len() >= 16);
    let unreadable = || HostError::Unreadable { file: "/proc/net/dev", what: format!("interface `{name}`") };
    let columns = columns.ok_or_else(unreadable)?;
    Ok(INTERFACE_COUNTERS.iter().map(|(.., column)| columns[*column]).collect())
}

/// Parses the two lines of UDP: one of names, one of numbers. Names an old kernel lacks count as zero.
fn udp_totals(text: &str) -> Result<Vec<u64>, HostError> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next(), lines.next().and_then(numbers));
    let unreadable =
        || HostError::Unreadable { file: "/proc/net/snmp", what: "pair of lines `Udp:`".to_owned() };
    let (Some(names), Some(values)) = (names, values) else { return Err(unreadable()) };
    let names: Vec<&str> = names.split_whitespace().collect();
    if names.len() != values.len() {
        return Err(unreadable());
    }
    let value = |wanted: &&str| names.iter().position(|name| name == wanted).map_or(0, |place| values[place]);
    Ok(UDP_COUNTERS.iter().map(value).collect())
}

/// Parses the total time, in microseconds, that `some` or `full` waited. A missing line counts as zero.
fn stalled_micros(text: &str, who: &str) -> Result<u64, HostError> {
    let unreadable = || HostError::Unreadable { file: "/proc/pressure", what: format!("total of `{who}`") };
    let Some(line) = text.lines().find(|line| line.split_whitespace().next() == Some(who)) else {
        return Ok(0);
    };
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="));
    total.and_then(|total| total.parse().ok()).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  14589 14538 2538 298161 585 7 88 17 5 3\ncpu0 7000 7000 1200 149000 300 3 44 8 0 0\n";
    const NET_DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    1    2    0     0          0         0     4193      39    3    4    0     0       0          0
eth0:1:486169839   18297    0    0    0     0          0         0  1220143   13577    0    0    0     0       0          0
";
    const SNMP: &str = "\
Ip: Forwarding DefaultTTL\nIp: 2 64
Tcp: RtoAlgorithm MaxConn\nTcp: 1 -1
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti
Udp: 201 1 5 202 4 3 1 9
UdpLite: InDatagrams\nUdpLite: 0
";
    const PRESSURE: &str = "some avg10=1.76 avg60=3.89 avg300=2.14 total=14311902\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";

    #[test]
    fn recorded_texts_are_read() {
        assert_eq!(cpu_ticks(STAT).unwrap(), [14_589, 14_538, 2_538, 298_161, 585, 7, 88, 17]);
        assert_eq!(interface_totals(NET_DEV, "lo").unwrap(), [3_193, 29, 1, 2, 4_193, 39, 3, 4]);
        assert_eq!(interface_totals(NET_DEV, "eth0:1").unwrap()[0], 486_169_839);
        assert_eq!(udp_totals(SNMP).unwrap(), [201, 202, 1, 5, 4, 3, 1, 0]);
        assert_eq!(stalled_micros(PRESSURE, "some").unwrap(), 14_311_902);
        assert_eq!(stalled_micros(PRESSURE, "full").unwrap(), 7);
        assert_eq!(stalled_micros("some total=1\n", "full").unwrap(), 0);
    }

    #[test]
    fn damaged_texts_are_refused_by_name() {
        assert!(cpu_ticks("cpu 1 2 3").unwrap_err().to_string().contains("/proc/stat"));
        assert!(interface_totals(NET_DEV, "eth7").unwrap_err().to_string().contains("`eth7`"));
        assert!(udp_totals("Udp: A B\nUdp: 1\n").unwrap_err().to_string().contains("/proc/net/snmp"));
        assert!(stalled_micros("some total=x", "some").unwrap_err().to_string().contains("/proc/pressure"));
    }

    #[test]
    fn totals_become_shares_and_rates() {
        let growth = [10, 0, 10, 60, 0, 0, 20, 0];
        assert_eq!(Probe::Cpu.values(&growth, 0.1).unwrap()[6], 20.0);
        assert_eq!(Probe::Cpu.values(&[0; 8], 0.1), None);
        assert_eq!(Probe::Udp.values(&growth, 0.5).unwrap()[0], 20.0);
        assert_eq!(Probe::Pressure.values(&[50_000], 0.1).unwrap(), [50.0]);
        assert_eq!(super::growth(3, 10), 3, "the interface was made anew");
    }

    /// Creates a folder like `/proc`, with a number for its UDP counter.
    fn proc(received: u64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("net")).unwrap();
        write_udp(root.path(), received);
        std::fs::write(root.path().join("net/dev"), NET_DEV).unwrap();
        root
    }

    fn write_udp(root: &Path, received: u64) {
        let text = format!("Udp: InDatagrams\nUdp: {received}\n");
        std::fs::write(root.join("net/snmp"), text).unwrap();
    }

    #[test]
    fn a_sample_is_what_the_totals_grew_by() {
        let root = proc(100);
        let mut host = Probe::Udp.open_in(root.path().to_owned(), "10".parse().unwrap()).unwrap();
        host.read_at -= std::time::Duration::from_secs(1);
        write_udp(root.path(), 1_100);
        let Piece::Samples(bytes) = host.next(NonZeroU64::MIN).unwrap() else { panic!("a sample is due") };
        let received = Dtype::F4.to_f64(&bytes[..4]);
        assert!((1.0..=1_000.0).contains(&received), "1,000 datagrams in a second or more gave {received}");
        assert_eq!(bytes.len(), 32);
    }

    #[test]
    fn samples_nobody_came_for_are_a_hole() {
        let root = proc(0);
        let mut host = Probe::Udp.open_in(root.path().to_owned(), "10".parse().unwrap()).unwrap();
        let five = NonZeroU64::new(5).unwrap();
        assert_eq!(host.next(five).unwrap(), Piece::Hole { samples: 4, why: HoleKind::Missing });
        assert!(matches!(host.next(NonZeroU64::MIN).unwrap(), Piece::Samples(_)));
        assert!(matches!(host.next(NonZeroU64::MIN).unwrap(), Piece::Samples(_)));
    }

    #[test]
    fn what_is_there_is_offered() {
        let root = proc(0);
        let names: Vec<String> =
            Probe::all_in(root.path()).iter().map(|probe| probe.stream_name().to_string()).collect();
        assert_eq!(names, ["host/cpu", "host/udp", "host/net/lo", "host/net/eth0_1"]);
        std::fs::create_dir(root.path().join("pressure")).unwrap();
        std::fs::write(root.path().join("pressure/cpu"), PRESSURE).unwrap();
        assert_eq!(Probe::all_in(root.path()).last(), Some(&Probe::Pressure));
        let missing = Probe::Cpu.open_in(root.path().to_owned(), "10".parse().unwrap());
        assert!(missing.err().expect("there is no stat").to_string().contains("stat cannot be read"));
    }

    #[test]
    fn this_host_can_be_looked_at() {
        for probe in Probe::all() {
            let mut host = probe.open("10".parse().unwrap()).unwrap();
            assert!(matches!(host.next(NonZeroU64::MIN).unwrap(), Piece::Samples(_)), "{probe:?}");
        }
    }
}
