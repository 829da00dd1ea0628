//! Limits of memory and two processors: the C program `limit.c`, compiled at the beginning of a measurement.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::bandwidth::Rate;
use crate::latency::{Exchange, Quantiles};

/// Source of the program, which is embedded in the binary and compiled on each machine.
const SOURCE: &str = include_str!("../limit.c");

/// The compiled program.
pub(crate) struct Limit {
    program: PathBuf,
}

impl Limit {
    /// Compiles the program.
    pub(crate) fn build(directory: &Path) -> Result<Self> {
        let (source, program) = (directory.join("limit.c"), directory.join("limit"));
        std::fs::write(&source, SOURCE)?;
        let status = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .status()
            .context("no C compiler `cc` found\ninstall one (Debian: apt-get install gcc)")?;
        if !status.success() {
            bail!("cc could not compile limit.c\nsee its error above");
        }
        Ok(Self { program })
    }

    pub(crate) fn latency(&self, exchange: &Exchange) -> Result<Quantiles> {
        let numbers_of = [exchange.message_bytes, exchange.ring_bytes, exchange.warm_up, exchange.count];
        let arguments = numbers_of.map(|number| number.to_string());
        self.run(["latency", exchange.wait.name()], &arguments)
    }

    pub(crate) fn bandwidth(&self, message_bytes: usize, ring_bytes: usize) -> Result<Rate> {
        let arguments = [message_bytes, ring_bytes].map(|number| number.to_string());
        let milliseconds = crate::bandwidth::DURATION.as_millis().to_string();
        let [first, second] = arguments;
        let [messages, seconds] = self.run(["bandwidth", &first], &[second, milliseconds])?;
        Ok(Rate { messages, seconds })
    }

    fn run<const COUNT: usize>(&self, words: [&str; 2], arguments: &[String]) -> Result<[f64; COUNT]> {
        let output = Command::new(&self.program).args(words).args(arguments).output().with_context(|| {
            format!("cannot start `limit`\n{} must be executable", self.program.display())
        })?;
        let line = String::from_utf8_lossy(&output.stdout);
        let numbers: Option<Vec<f64>> = line.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.with_context(|| format!("`limit` printed `{line}` instead of its figures"))
    }
}
