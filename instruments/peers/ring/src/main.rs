//! The ring between processes: one-way latency spinning and asleep, the highest rate at which no reader loses
//! anything, and the writer's cost per record by number of readers.
//!
//! The references, measured alternately with it in every run, are `limit`, a bare ring of two processes and two
//! copies (`limit.c`), and `iceoryx2`, another library of this kind. All copy in and copy out. Each side is a
//! process of its own (this program starts itself again in either role), pinned to a processor of its own. Options:
//! [`Bench`].

mod bandwidth;
mod cost;
mod iceoryx;
mod latency;
mod limit;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use peers::process::{Process, Role, plays};
use peers::{Bench, Extent, Standing};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use limit::Limit;

/// Maximum time one side waits for the other: far longer than any scheduling delay.
const PATIENCE: Duration = Duration::from_secs(20);
/// File system of the rings.
const MEMORY: &str = "/dev/shm";
/// Processors of the sides.
const WRITER: Standing = Standing::Source;
const READER: Standing = Standing::Reader { index: 0 };

fn main() -> Result<()> {
    let is_role = plays(&[
        Role::new("ping", latency::ping),
        Role::new("pong", latency::pong),
        Role::new("write", bandwidth::write),
        Role::new("read", bandwidth::read),
        Role::new("cost-write", cost::write),
        Role::new("cost-read", cost::read),
        Role::new("iceoryx-ping", iceoryx::ping),
        Role::new("iceoryx-pong", iceoryx::pong),
        Role::new("iceoryx-publish", iceoryx::publish),
        Role::new("iceoryx-subscribe", iceoryx::subscribe),
    ])?;
    if is_role {
        return Ok(());
    }
    let rings = Rings::prepare()?;
    latency::measure(&rings)?;
    bandwidth::measure(&rings)?;
    cost::measure(&rings)
}

/// State shared by all cases.
struct Rings {
    bench: Bench,
    /// Directory in memory for the rings; dropping it removes it.
    directory: TempDir,
    limit: Limit,
}

/// Task of a side that writes or reads one ring.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Task {
    directory: PathBuf,
    message_bytes: usize,
    records: usize,
    readers: usize,
    /// Index of this reader.
    index: usize,
}

impl Rings {
    fn prepare() -> Result<Self> {
        let seconds = bandwidth::DURATION.as_secs_f64();
        let bench = Bench::begin("ring", Extent { runs: 5, seconds }, Extent { runs: 2, seconds })?;
        let directory = tempfile::Builder::new().prefix("tallycast-bench-ring-").tempdir_in(MEMORY);
        let directory = directory.with_context(|| {
            format!("cannot create a directory\nthe rings need a memory file system at {MEMORY} that this user may write to")
        })?;
        let limit = Limit::build(directory.path())?;
        bench.introduce(&format!(
            "medians of {} runs (smallest – largest), the systems in turn; ratio_to_limit within each run: \
             of delays less is better, of rates more",
            bench.extent.runs
        ));
        bench.note(&Standing::describe()?);
        Ok(Self { bench, directory, limit })
    }

    /// Returns a task without records and readers.
    fn task(&self, message_bytes: usize) -> Task {
        Task { directory: self.directory.path().to_owned(), message_bytes, ..Task::default() }
    }
}

/// Starts a side; returns when it is ready.
fn start(role: &'static str, standing: Standing, order: &impl Serialize) -> Result<Process> {
    let mut side = Process::start(role, standing, order)?;
    side.hear::<()>("ready")?;
    Ok(side)
}

/// Formats a number of readers as in case names.
fn readers_name(readers: usize) -> String {
    format!("{readers}-reader{}", if readers == 1 { "" } else { "s" })
}

/// Formats a size as in case names.
fn size_name(size_bytes: usize) -> String {
    match size_bytes {
        bytes if bytes < 1 << 10 => format!("{bytes}B"),
        bytes if bytes < 1 << 20 => format!("{}KiB", bytes >> 10),
        bytes => format!("{}MiB", bytes >> 20),
    }
}
