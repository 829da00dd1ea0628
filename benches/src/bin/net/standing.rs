//! Which processor a process stands on: the source on the first, readers on the others in turn.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Whose place it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Source,
    Reader {
        /// Which of the readers.
        index: usize,
    },
}

impl Standing {
    /// Keeps this process, and what it starts, on its processor.
    pub(crate) fn take(self) -> Result<()> {
        let mut set = CpuSet::new();
        set.set(self.processor()?);
        sched_setaffinity(None, &set).context("this process cannot be kept on one processor")
    }

    /// Returns its processor.
    pub(crate) fn processor(self) -> Result<usize> {
        let allowed = allowed()?;
        let (first, others) = allowed.split_first().context("no processor may be used")?;
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
        let index = text.parse().with_context(|| format!("`{text}` stands nowhere"))?;
        Ok(Self::Reader { index })
    }
}

/// Says what the processes stand on.
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
    let set = sched_getaffinity(None).context("the processors cannot be listed")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect())
}
