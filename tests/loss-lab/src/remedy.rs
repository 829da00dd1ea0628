//! `tallycast doctor fix` against a class: bursts at a steady rate, before and after a change, and the change
//! undone.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use e2e::Host;
use serde_json::Value;
use sys::clock;

use crate::borrowed::Borrowed;
use crate::classes::{Stepping, on_first_processor};
use crate::scene::{PORT, Scene, Version};

/// A class with a remedy of `doctor fix`.
pub(crate) struct Remedy {
    /// Traffic during the measurement.
    pub(crate) steps: BeginSteps,
    pub(crate) knob: Knob,
    pub(crate) versions: &'static [Version],
    /// Time from the start of a step to the start of the next.
    pub(crate) period: Duration,
    /// Maximum number of counts per datagram: one for each of its fragments.
    pub(crate) parts: u64,
}

/// Begins to send in steps.
pub(crate) type BeginSteps = fn(&mut Scene) -> anyhow::Result<Box<dyn Stepping>>;

/// Setting that `doctor fix` changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Knob {
    /// Receive buffer of the socket that loses.
    Buffer,
    /// Setting of the sender, as a command there shows it.
    Sender(&'static str),
    /// Setting of the reader, as a command there shows it.
    Reader(&'static str),
    /// Nice values of this process's threads, one of which reads.
    Threads,
    /// Setting of the whole host, by its file: changed only if the class is named, and restored also on failure.
    Host(&'static str),
}

/// Result of a remedy.
#[derive(Debug, Default)]
pub(crate) struct Remedied {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// True if the setting has its old value again.
    pub(crate) is_undone: bool,
    pub(crate) faults: Vec<String>,
    pub(crate) note: String,
}

/// Duration of each measurement of `fix`, before and after.
const WINDOW: &str = "1s";
/// Maximum number of steps, in case `fix` does not end.
const MOST_STEPS: u32 = 5_000;
/// Minimum factor by which the remedy must reduce the losses.
const FACTOR: u64 = 10;

/// Sends at a steady rate, runs `doctor fix`, and reverts it with `doctor undo`.
pub(crate) fn remedy(remedy: &Remedy, scene: &mut Scene) -> anyhow::Result<Remedied> {
    let borrowed = match remedy.knob {
        Knob::Host(path) => Some(Borrowed::new(path)?),
        _ => None,
    };
    let mut steps = (remedy.steps)(scene)?;
    // A second handle of the socket shows its buffer while another thread continues the steps.
    let socket = steps.reader().map(UdpSocket::try_clone).transpose()?;
    let knob = || match remedy.knob {
        Knob::Buffer => {
            let socket = socket.as_ref().context("a class of a buffer has a reader")?;
            Ok(sys::MemInfo::of(socket)?.buffer_bytes.to_string())
        }
        Knob::Threads => nice_values(),
        Knob::Sender(command) => shown(scene.sender(), command),
        Knob::Reader(command) => shown(scene.reader(), command),
        Knob::Host(_) => borrowed.as_ref().context("it was borrowed")?.now(),
    };
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("doctor.jsonl");
    let first = knob()?;
    let is_over = AtomicBool::new(false);
    let proofs = std::thread::scope(|threads| {
        let sending = threads.spawn(|| go(&mut *steps, remedy.period, &is_over));
        let said =
            doctor(remedy, scene, &journal, &["fix", "--yes", "--window", WINDOW, "--port"], Some(PORT));
        is_over.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| anyhow!("the sending thread panicked"))??;
        said
    })?;
    let proof = proofs.iter().find(|line| line["event"] == "proof" && line["kept"] == true);
    let Some(proof) = proof else { bail!("nothing helped: {}", Value::from(proofs)) };
    let lost = |window: &str| proof[window]["lost"].as_u64().unwrap_or_default();
    let (before, after, changed) = (lost("before"), lost("after"), knob()?);
    let undone = doctor(remedy, scene, &journal, &["undo", "--all"], None)?;
    let is_undone = knob()? == first && undone.iter().all(|line| line["result"] == "undone");
    let mut remedied = Remedied {
        before,
        after,
        is_undone,
        note: format!("{first} became {changed}"),
        ..Remedied::default()
    };
    remedied.faults = remedied.faults(steps.lost() * remedy.parts, changed != first);
    steps.finish(scene)?;
    Ok(remedied)
}

/// Returns the distinct nice values of this process's threads; real-time threads have none.
fn nice_values() -> anyhow::Result<String> {
    let threads = sys::process::priorities(std::process::id())?.into_iter().filter(|it| it.is_ordinary);
    let values: BTreeSet<i32> = threads.map(|thread| thread.nice).collect();
    Ok(values.iter().map(i32::to_string).collect::<Vec<_>>().join(" "))
}

/// Returns the output of a command on a host, in one line.
fn shown(host: &Host, command: &str) -> anyhow::Result<String> {
    let output = host.command("sh").args(["-ec", command]).output()?;
    ensure!(output.status.success(), "`{command}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Remedied {
    fn faults(&self, lost: u64, is_changed: bool) -> Vec<String> {
        let Self { before, after, is_undone, .. } = *self;
        [
            (before == 0 || after * FACTOR > before)
                .then(|| format!("{before} were lost before, and {after} after")),
            (before + after > lost).then(|| format!("{} are told, and {lost} were lost", before + after)),
            (!is_changed).then(|| "nothing was changed".to_owned()),
            (!is_undone).then(|| "it is not what it was".to_owned()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Sends at a fixed rate, independent of losses: a sender without pauses would be diagnosed as too slow a reader.
fn go(steps: &mut dyn Stepping, period: Duration, is_over: &AtomicBool) -> anyhow::Result<()> {
    // The queues of the second processor may overflow if the first one fills them.
    on_first_processor(|| {
        let mut due = clock::monotonic();
        for _ in 0..MOST_STEPS {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            steps.step()?;
            due = clock::monotonic().max(due + period);
            clock::sleep_until(due);
        }
        bail!("`doctor fix` has not finished");
    })
}

/// Runs a command of the doctor on the host of the change; returns its output.
fn doctor(
    remedy: &Remedy,
    scene: &Scene,
    journal: &Path,
    arguments: &[&str],
    port: Option<u16>,
) -> anyhow::Result<Vec<Value>> {
    let binary = e2e::binary();
    let binary = binary.to_str().context("a path of plain text")?;
    let mut command = match remedy.knob {
        Knob::Buffer | Knob::Threads | Knob::Reader(_) => scene.reader().command(binary),
        Knob::Sender(_) => scene.sender().command(binary),
        // Only the first namespace shows it.
        Knob::Host(_) => Command::new(binary),
    };
    command.arg("doctor").args(arguments).args(port.map(|it| it.to_string()));
    let output = command.arg("--json").arg("--journal").arg(journal).output()?;
    // Exit code 1: a loss remains that it cannot remedy.
    if !matches!(output.status.code(), Some(0 | 1)) {
        bail!("the doctor failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::Remedied;

    #[test]
    fn a_tenth_at_most_is_lost_afterwards_and_the_change_is_made_and_undone() {
        let remedied = |before, after| Remedied { before, after, is_undone: true, ..Remedied::default() };
        assert_eq!(remedied(100, 10).faults(110, true), Vec::<String>::new());
        assert_eq!(remedied(100, 11).faults(200, true).len(), 1, "it does not help enough");
        assert_eq!(remedied(0, 0).faults(200, true).len(), 1, "there was nothing to help against");
        assert_eq!(remedied(100, 10).faults(109, true).len(), 1, "more are reported than were lost");
        assert_eq!(remedied(100, 10).faults(110, false).len(), 1, "it was something else that helped");
        assert_eq!(Remedied { is_undone: false, ..remedied(100, 10) }.faults(110, true).len(), 1);
    }
}
