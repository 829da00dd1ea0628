//! Processor of each process: the source on the first, readers on the others in turn.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Process that is placed on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Source,
    Reader {
        /// Index of the reader.
        index: usize,
    },
}

impl Standing {
    /// Pins this process, and the ones it starts, to its processor.
    pub(crate) fn take(self) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(self.processor()?);
        sched_setaffinity(None, &set).context("cannot pin this process to one processor")
    }

    /// Returns the processor of the process.
    pub(crate) fn processor(self) -> Result<usize> {
        let allowed = allowed()?;
        let (first, others) = allowed.split_first().context("no processor is available")?;
        Ok(match self {
            Self::Reader { index } if !others.is_empty() => others[index % others.len()],
            Self::Source | Self::Reader { .. } => *first,
        })
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => formatter.write_str("source"),
            Self::Reader { index } => write!(formatter, "{index}"),
        }
    }
}

impl FromStr for Standing {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "source" {
            return Ok(Self::Source);
        }
        let index = text.parse().with_context(|| format!("`{text}` is not a placement"))?;
        Ok(Self::Reader { index })
    }
}

/// Describes the processors of the processes.
pub(crate) fn describe() -> Result<String> {
    let processors = allowed()?.len();
    Ok(if processors > 1 {
        format!("sources stand on one processor, readers on others, of {processors} that may be used")
    } else {
        "ONE PROCESSOR ONLY: both sides take turns on it, and the figures tell how they do".to_owned()
    })
}

/// Returns the processors that this process may use.
fn allowed() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context("cannot list the processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}
