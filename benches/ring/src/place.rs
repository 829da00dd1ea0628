//! Where a measurement takes place: a directory in memory for the rings, and the processors of its sides.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where rings lie.
const MEMORY: &str = "/dev/shm";

/// A directory of this measurement's own; dropping it removes it.
pub(crate) struct Place {
    directory: PathBuf,
    processors: usize,
}

/// Which of the two processors a side stands on.
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
                "{} cannot be made\nthe rings need a memory file system there that this user may write to",
                directory.display()
            )
        })?;
        Ok(Self { directory, processors: allowed()?.len() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Says what the sides stand on.
    pub(crate) fn describe(&self) -> String {
        if self.processors > 1 {
            format!(
                "writers stand on one processor, readers on a second, of {} that may be used",
                self.processors
            )
        } else {
            "ONE PROCESSOR ONLY: both sides take turns on it, and the figures tell how they do".to_owned()
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("{} is left over: {error}", self.directory.display());
        }
    }
}

/// Keeps this process, and those that it starts, on one processor.
pub(crate) fn stand_on(standing: Standing) -> Result<()> {
    let allowed = allowed()?;
    let processor = match standing {
        Standing::First => allowed.first(),
        Standing::Second => allowed.get(1).or(allowed.first()),
    };
    let mut set = CpuSet::new();
    set.set(*processor.context("no processor may be used")?);
    sched_setaffinity(None, &set).context("this process cannot be kept on one processor")
}

/// Returns the processors that this process may use.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("the processors cannot be listed")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}
