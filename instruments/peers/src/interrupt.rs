//! Ctrl-C and SIGTERM end a measurement between two runs, so that namespaces and processes are removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// Flag that a measurement should end.
pub struct Interrupt {
    wanted: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// If the system does not permit it.
    pub fn watch() -> Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&wanted))
                .context("cannot install signal handlers")?;
        }
        Ok(Self { wanted })
    }

    /// Returns an error once the measurement should end.
    ///
    /// # Errors
    /// If the measurement should end.
    pub fn check(&self) -> Result<()> {
        if self.wanted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}
