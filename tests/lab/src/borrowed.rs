//! Numbers of the whole machine that are changed for a while, and put back also where something fails; not after Ctrl-C.

use anyhow::Context;

/// A number of the machine that is put back.
pub(crate) struct Borrowed {
    path: &'static str,
    before: String,
}

impl Borrowed {
    /// Notes what it is.
    pub(crate) fn new(path: &'static str) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
        Ok(Self { path, before: before.trim().to_owned() })
    }

    /// Notes what it is, and sets it.
    pub(crate) fn set(path: &'static str, value: &str) -> anyhow::Result<Self> {
        let borrowed = Self::new(path)?;
        std::fs::write(path, value)?;
        Ok(borrowed)
    }

    /// Returns what it is now.
    pub(crate) fn now(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.path)?.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(self.path, &self.before) {
            eprintln!("{} was {}, and cannot be put back: {error}", self.path, self.before);
        }
    }
}
