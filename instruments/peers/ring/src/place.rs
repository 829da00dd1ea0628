//! Location of a measurement: a directory in memory for the rings, and the processors of its sides.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// File system of the rings.
const MEMORY: &str = "/dev/shm";

/// Directory of this measurement; dropping it removes it.
pub(crate) struct Place {
    directory: PathBuf,
    processors: usize,
}

/// Processor that a side runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    First,
    Second,
}

impl Place {
    pub(crate) fn new() -> Result<Self> {
        let directory = Path::new(MEMORY).join(format!("tallycast-bench-ring-{}", std::process::id()));
        std::fs::create_dir(&directory).with_context(|| {
            format!(
                "cannot create {}\nthe rings need a memory file system there that this user may write to",
                directory.display()
            )
        })?;
        Ok(Self { directory, processors: allowed()?.len() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Describes the processors of the sides.
    pub(crate) fn describe(&self) -> String {
        if self.processors > 1 {
            format!("writers run on one processor, readers on another, of {} available", self.processors)
        } else {
            "ONE PROCESSOR ONLY: both sides take turns on it, and the figures tell how they do".to_owned()
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}

/// Pins this process, and the ones that it starts, to one processor.
pub(crate) fn stand_on(standing: Standing) -> Result<()> {
    let allowed = allowed()?;
    let processor = match standing {
        Standing::First => allowed.first(),
        Standing::Second => allowed.get(1).or(allowed.first()),
    };
    let mut set = CpuSet::new();
    set.set(*processor.context("no processor is available")?);
    sched_setaffinity(None, &set).context("cannot pin this process to one processor")
}

/// Returns the processors that this process may use.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot list the processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}
