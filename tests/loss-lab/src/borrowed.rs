//! Settings of the whole machine that are changed temporarily, and restored also on failure; not after Ctrl-C.

use anyhow::Context;

/// A setting of the machine that is restored on drop.
pub(crate) struct Borrowed {
    path: &'static str,
    before: String,
}

impl Borrowed {
    /// Saves the current value.
    pub(crate) fn new(path: &'static str) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
        Ok(Self { path, before: before.trim().to_owned() })
    }

    /// Saves the current value, and sets another one.
    pub(crate) fn set(path: &'static str, value: &str) -> anyhow::Result<Self> {
        let borrowed = Self::new(path)?;
        std::fs::write(path, value)?;
        Ok(borrowed)
    }

    /// Returns the current value.
    pub(crate) fn now(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.path)?.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(self.path, &self.before) {
            eprintln!("{} was {}, and cannot be restored: {error}", self.path, self.before);
        }
    }
}
