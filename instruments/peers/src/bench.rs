//! A measurement as the command line asks for it, and its cases.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use probe::Summary;
use serde_json::json;

/// Load by other work, as a share of the processors, from which figures are to be doubted.
const BUSY_SHARE: f64 = 0.3;

/// Number and duration of the runs behind each figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extent {
    /// Number of runs.
    pub runs: usize,
    /// Duration of each. Units: seconds.
    pub seconds: f64,
}

/// A measurement: what to measure, how long, and where the rows go.
///
/// `--json` prints rows as objects; `--quick` takes fewer and shorter runs, for trying; `--only TEXT` takes the cases
/// whose names contain it; `--command PATH` is the `tallycast` to measure.
pub struct Bench {
    name: &'static str,
    /// Extent of every figure.
    pub extent: Extent,
    is_quick: bool,
    has_json: bool,
    only: String,
    command: Option<PathBuf>,
    /// Set by Ctrl-C and SIGTERM, which end a measurement between two runs: namespaces and processes are removed.
    interrupted: Arc<AtomicBool>,
    noted: RefCell<Vec<String>>,
}

/// A case that is to be measured.
pub struct Case<'a> {
    bench: &'a Bench,
    /// Name of the case, such as `loopback/1472B`.
    pub name: String,
}

/// Results of one system, one for each run.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// `tallycast`, `limit`, or a peer's name.
    pub system: &'static str,
    /// Results in the order of the runs.
    pub runs: Vec<T>,
}

impl Bench {
    /// Reads the command line and installs the signal handlers.
    ///
    /// # Errors
    /// If the system does not permit the handlers.
    pub fn begin(name: &'static str, full: Extent, quick: Extent) -> Result<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |option: &str| arguments.iter().any(|argument| argument == option);
        let value = |option: &str| {
            let at = arguments.iter().position(|argument| argument == option)?;
            arguments.get(at + 1).cloned()
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .context("cannot install signal handlers")?;
        }
        let is_quick = has("--quick");
        Ok(Self {
            name,
            extent: if is_quick { quick } else { full },
            is_quick,
            has_json: has("--json"),
            only: value("--only").unwrap_or_default(),
            command: value("--command").map(PathBuf::from),
            interrupted,
            noted: RefCell::default(),
        })
    }

    /// Says first how the figures are taken.
    pub fn introduce(&self, how: &str) {
        self.note(how);
        if let Some(note) = busy() {
            self.note(&note);
        }
        if self.is_quick {
            self.note("quick: too few runs to be quoted");
        }
    }

    /// Prints a note on the figures, once; as an object if programs read the rows.
    pub fn note(&self, text: &str) {
        if self.noted.borrow().iter().any(|noted| noted == text) {
            return;
        }
        self.noted.borrow_mut().push(text.to_owned());
        if self.has_json {
            println!("{}", json!({ "bench": self.name, "note": text }));
        } else {
            println!("{text}");
        }
    }

    /// Returns the `tallycast` to measure.
    ///
    /// # Errors
    /// If none was named.
    pub fn command(&self) -> Result<&PathBuf> {
        let command = self.command.as_ref();
        command.context("--command PATH names the tallycast to measure; `cargo xtask bench` passes it")
    }

    /// Returns a case; `None` if it is left out.
    #[must_use]
    pub fn case(&self, name: String) -> Option<Case<'_>> {
        name.contains(&self.only).then_some(Case { bench: self, name })
    }

    /// Returns an error once the measurement should end.
    ///
    /// # Errors
    /// If the measurement should end.
    pub fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

impl Case<'_> {
    /// Returns a case that is measured with this one, under a longer name.
    #[must_use]
    pub fn with(&self, suffix: &str) -> Self {
        Self { bench: self.bench, name: format!("{}{suffix}", self.name) }
    }

    /// Runs the systems in turn, so that disturbances affect all of them; says so on standard error.
    ///
    /// # Errors
    /// If a run fails, or the measurement should end.
    pub fn in_turn<S, T>(
        &self,
        systems: &mut [(&'static str, S)],
        mut run: impl FnMut(&mut S) -> Result<T>,
    ) -> Result<Vec<Taken<T>>> {
        let (Self { bench, name }, repeats) = (self, self.bench.extent.runs);
        let mut taken: Vec<Taken<T>> =
            systems.iter().map(|(system, _)| Taken { system, runs: Vec::new() }).collect();
        for repeat in 1..=repeats {
            for ((system, it), taken) in systems.iter_mut().zip(&mut taken) {
                bench.check()?;
                eprintln!("{}: {name}: {system} ({repeat} of {repeats})", bench.name);
                taken.runs.push(run(it).with_context(|| format!("{name}: cannot measure {system}"))?);
            }
        }
        Ok(taken)
    }

    /// Prints one metric of a system over repeated runs; nothing if it has no values. Runs without a finite value,
    /// such as a cost per datagram where none arrived, are left out and not counted.
    ///
    /// Units: `unit`; a rate's begins with a stroke.
    pub fn row(&self, system: &str, metric: &str, unit: &str, runs: impl IntoIterator<Item = f64>) {
        let Some(Summary { median, min, max, count, .. }) =
            Summary::of(&runs.into_iter().filter(|value| value.is_finite()).collect::<Vec<_>>())
        else {
            return;
        };
        if self.bench.has_json {
            let object = json!({
                "bench": self.bench.name, "case": self.name, "system": system, "metric": metric,
                "unit": unit, "median": median, "min": min, "max": max, "runs": count,
            });
            println!("{object}");
            return;
        }
        // Only rates become so large that they need a prefix.
        let (shown, space): (fn(f64) -> String, _) =
            if unit.starts_with('/') { (short, "") } else { (three_digits, " ") };
        let value = format!("{}{space}{unit}", shown(median));
        let spread = format!("({} – {}, {count} runs)", shown(min), shown(max));
        println!("{:<30} {system:<12} {metric:<24} {value:>12}  {spread}", self.name);
    }
}

/// Returns a note that the host was busy before the measurement, if it was.
fn busy() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let is_busy = load >= BUSY_SHARE * processors as f64;
    is_busy.then(|| {
        format!(
            "the host was BUSY: other work kept {load:.1} of {processors} processors in the last minute; rates are \
             too low, and spread"
        )
    })
}

/// Formats a number with three digits and an SI prefix.
fn short(value: f64) -> String {
    let (scaled, prefix) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, " G"),
        large if large >= 1e6 => (value / 1e6, " M"),
        large if large >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{prefix}", three_digits(scaled))
}

fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(1_234_567.0), "1.23 M");
        assert_eq!(short(12.34), "12.3");
        assert_eq!(short(999.0), "999");
    }
}
