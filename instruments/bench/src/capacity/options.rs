//! Options of a capacity measurement; both ends check them, since a server does not trust its clients.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::notation::{size, time};
use crate::options::{
    LARGEST_DATAGRAM_BYTES, OptionsError, check_buffer, check_grid, check_repeats, defaults, in_range,
};
use crate::throughput::Rate;

/// Maximum number of receivers: each is a thread or a process with a receive area of up to 4 MiB.
pub const MOST_WORKERS: u32 = 64;
/// Maximum number of sending threads.
const MOST_SENDERS: u32 = 64;
/// Maximum number of points of a grid.
const MOST_POINTS: u128 = 1_000;

/// Options of a capacity measurement. The default is the grid of the UDP notes and the largest datagram of an Ethernet,
/// in runs of one second; three of each, because a single figure has no spread.
#[derive(Args, Clone, PartialEq, Debug, Serialize, Deserialize)]
#[group(skip)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Bytes in each datagram.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size, default_value = "1,100,1472")]
    pub payloads: Vec<usize>,
    /// Number of receivers.
    #[arg(long, value_name = "COUNT,…", value_delimiter = ',', default_value = "1,2,4,8")]
    pub workers: Vec<u32>,
    /// Threading models of the receivers.
    #[arg(
        long,
        alias = "structures",
        value_name = "MODEL,…",
        value_delimiter = ',',
        default_value = "own-processes,shared-threads,reuseport-threads"
    )]
    #[serde(rename = "structures")]
    pub threading_models: Vec<ThreadingModel>,
    /// Rate of all senders together: 100M, or 200kpps; 0 is as fast as possible.
    #[arg(short = 'b', long = "bitrate", value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Sending threads [default: one per processor, half as many where both ends are on this host].
    #[arg(long, value_name = "COUNT")]
    pub senders: Option<u32>,
    /// Receive buffer of each socket [default: the system's].
    #[arg(short = 'w', long = "window", value_name = "SIZE", value_parser = size)]
    pub receive_buffer_bytes: Option<usize>,
    /// Duration of a run: seconds, or a duration such as 500ms.
    #[arg(short = 't', long = "time", visible_alias = "duration", value_name = "TIME", default_value = "1", value_parser = time)]
    pub duration: Duration,
    /// Runs of each point.
    #[arg(long = "repeat", value_name = "COUNT", default_value = "3")]
    pub repeats: u32,
    /// Number of datagrams per system call.
    #[arg(skip = Calls::Batches)]
    pub calls: Calls,
}

/// Number of datagrams per system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// One per call.
    Single,
    /// Several per call (`sendmmsg`, `recvmmsg`).
    Batches,
    /// Sent in trains that the kernel cuts (`UDP_SEGMENT`), received several per call.
    Trains,
}

/// Kind of the receivers, processes or threads, and the sockets they share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadingModel {
    /// Processes, each with its own port.
    OwnProcesses,
    /// Threads of one process, each with its own port.
    OwnThreads,
    /// Threads of one process, all at one socket.
    SharedThreads,
    /// Processes, each with its own socket at one port, among which the kernel distributes datagrams
    /// (`SO_REUSEPORT`).
    ReuseportProcesses,
    /// Threads of one process, each with its own socket at one port (`SO_REUSEPORT`).
    ReuseportThreads,
}

/// The ports and sockets that the receivers of a threading model share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Places {
    /// Each receiver at its own port.
    Own,
    /// All at one socket.
    OneSocket,
    /// Each receiver at its own socket, all at one port.
    OnePort,
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let lists = [
            ("--payloads", self.payloads.len()),
            ("--workers", self.workers.len()),
            ("--threading-models", self.threading_models.len()),
        ];
        check_grid(&lists, MOST_POINTS)?;
        for payload in &self.payloads {
            in_range("a payload in bytes", *payload as u128, 1..=LARGEST_DATAGRAM_BYTES as u128)?;
        }
        for workers in &self.workers {
            in_range("--workers", *workers, 1..=MOST_WORKERS.into())?;
        }
        in_range("--senders", self.senders.unwrap_or(1), 1..=MOST_SENDERS.into())?;
        check_buffer("-w in bytes", self.receive_buffer_bytes)?;
        in_range("-t in ms", self.duration.as_millis(), 10..=3_600_000)?;
        check_repeats(self.repeats)
    }

    /// Returns the maximum duration of the whole measurement, if nothing fails.
    #[must_use]
    pub fn longest(&self) -> Duration {
        // Starting and ending eight processes, and the quiet time in which the tail of a run is awaited.
        const RUN_OVERHEAD: Duration = Duration::from_millis(600);
        let points = self.payloads.len() * self.workers.len() * self.threading_models.len();
        let runs = u32::try_from(points).unwrap_or(u32::MAX).saturating_mul(self.repeats);
        (self.duration + RUN_OVERHEAD).saturating_mul(runs)
    }
}

impl ThreadingModel {
    /// All threading models, in the order of reports.
    pub const ALL: [Self; 5] = [
        Self::OwnProcesses,
        Self::OwnThreads,
        Self::SharedThreads,
        Self::ReuseportProcesses,
        Self::ReuseportThreads,
    ];

    /// Returns its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnProcesses => "own-processes",
            Self::OwnThreads => "own-threads",
            Self::SharedThreads => "shared-threads",
            Self::ReuseportProcesses => "reuseport-processes",
            Self::ReuseportThreads => "reuseport-threads",
        }
    }

    /// Returns a description for people.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::OwnProcesses => "processes, each at a port of its own",
            Self::OwnThreads => "threads of one process, each at a port of its own",
            Self::SharedThreads => "threads of one process, all at one socket",
            Self::ReuseportProcesses => "processes, each with a socket at one port (SO_REUSEPORT)",
            Self::ReuseportThreads => "threads of one process, each with a socket at one port (SO_REUSEPORT)",
        }
    }

    pub(super) const fn places(self) -> Places {
        match self {
            Self::OwnProcesses | Self::OwnThreads => Places::Own,
            Self::SharedThreads => Places::OneSocket,
            Self::ReuseportProcesses | Self::ReuseportThreads => Places::OnePort,
        }
    }

    pub(super) const fn is_of_processes(self) -> bool {
        matches!(self, Self::OwnProcesses | Self::ReuseportProcesses)
    }
}

impl FromStr for ThreadingModel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|threading_model| threading_model.name() == name);
        found.ok_or_else(|| format!("unknown threading model\nchoose one of: {}", names()))
    }
}

impl fmt::Display for ThreadingModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::bounds;

    #[test]
    fn both_ends_of_every_range() {
        bounds! {
            payloads: [vec![1, 65_507]], not [vec![65_508], vec![0]];
            workers: [vec![MOST_WORKERS]], not [vec![MOST_WORKERS + 1]];
            threading_models: [ThreadingModel::ALL.to_vec()], not [vec![]];
            duration: [Duration::from_millis(10)], not [Duration::from_millis(9)];
            senders: [Some(1)], not [Some(0)];
        }
        let options = Options { payloads: vec![65_508], ..Options::default() };
        assert!(options.check().unwrap_err().to_string().contains("from 1 to 65507, not 65508"));
    }

    #[test]
    fn the_usual_grid_takes_minutes() {
        let longest = Options::default().longest();
        assert!(longest < Duration::from_secs(300), "{longest:?}");
    }

    #[test]
    fn threading_models_have_one_name_everywhere() {
        for threading_model in ThreadingModel::ALL {
            assert_eq!(serde_json::to_value(threading_model).unwrap(), threading_model.name());
        }
    }
}
