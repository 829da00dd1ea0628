//! Processor of each process: the source on the first, readers on the others in turn.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

/// Place of a process among the processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Standing {
    /// Any processor.
    Anywhere,
    /// The source's.
    Source,
    /// A reader's.
    Reader {
        /// Index of the reader.
        index: usize,
    },
}

impl Standing {
    /// Pins this process, and the ones it starts, to its processor.
    ///
    /// # Errors
    /// If the system does not permit it.
    pub fn take(self) -> Result<()> {
        let Some(processor) = self.processor()? else { return Ok(()) };
        sys::scheduling::pin_to_cpu(processor).context("cannot pin this process to one processor")
    }

    /// Returns the processor of the process; `None` if it may use any.
    ///
    /// # Errors
    /// If the processors cannot be listed.
    pub fn processor(self) -> Result<Option<usize>> {
        let allowed = allowed()?;
        let (first, others) = allowed.split_first().context("no processor is available")?;
        Ok(match self {
            Self::Anywhere => None,
            Self::Reader { index } if !others.is_empty() => Some(others[index % others.len()]),
            Self::Source | Self::Reader { .. } => Some(*first),
        })
    }

    /// Describes the processors of the processes.
    ///
    /// # Errors
    /// If the processors cannot be listed.
    pub fn describe() -> Result<String> {
        let processors = allowed()?.len();
        Ok(if processors > 1 {
            format!("sources stand on one processor, readers on others, of {processors} that may be used")
        } else {
            "ONE PROCESSOR ONLY: both sides take turns on it, and the figures tell how they do".to_owned()
        })
    }
}

/// Returns the processors that this process may use.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot list the processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}
