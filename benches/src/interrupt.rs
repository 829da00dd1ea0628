//! Ctrl-C and SIGTERM end a measurement between two runs, so that namespaces and processes go with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// Tells whether the measurement shall end.
pub struct Interrupt {
    wanted: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches the signals from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn watch() -> Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&wanted)).context("signals cannot be watched")?;
        }
        Ok(Self { wanted })
    }

    /// Goes on unless the measurement shall end.
    ///
    /// # Errors
    /// If it shall.
    pub fn check(&self) -> Result<()> {
        if self.wanted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}
