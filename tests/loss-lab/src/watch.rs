//! `tallycast doctor watch` on the hosts of a scene, and its output.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use e2e::Host;
use ledger::Stage;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::classes::Class;
use crate::scene::PORT;
use crate::traffic::Planted;

/// The doctor on each host.
pub(crate) struct Watches(Vec<Watch>);

struct Watch {
    /// True if losses by the whole host's counters count, too: they may belong to other namespaces.
    hears_host: bool,
    /// `None` once it has reported everything.
    child: Option<Child>,
    lines: Receiver<Value>,
}

/// Reports of the doctors of both hosts.
#[derive(Default, Debug)]
pub(crate) struct Told {
    /// Numbers that drop events name, by stage.
    pub(crate) named: BTreeMap<String, BTreeSet<u64>>,
    /// Counts, by stage.
    pub(crate) counted: BTreeMap<String, u64>,
    /// Counted losses without an event.
    pub(crate) not_observed: u64,
    /// Events for which the hook had no room. If a counter has them, too, they are among the former.
    pub(crate) unreported: u64,
    /// Part of that from the whole host's counters, which this scene ignores.
    pub(crate) not_heard: u64,
    /// Counters and reasons, by the kernel's names.
    pub(crate) evidence: BTreeMap<String, u64>,
}

/// Doctors that have reported everything and exit on their own: after event matching this takes a second, in which
/// the next class continues.
#[derive(Default)]
pub(crate) struct Leaving(Vec<Child>);

impl Drop for Leaving {
    fn drop(&mut self) {
        for mut child in self.0.drain(..) {
            let _ = child.wait();
        }
    }
}

/// Time for which each of the two is read in turn.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The user without privilege.
const NOBODY: &str = "65534";

impl Watches {
    pub(crate) fn begin(
        hosts: &[&Host],
        class: &Class,
        nobody: bool,
        checkpoints: bool,
    ) -> anyhow::Result<Self> {
        // In parallel: each takes some tenths of a second to start.
        let watches = hosts.iter().map(|host| Watch::begin(host, class, nobody, checkpoints));
        let watches = watches.collect::<anyhow::Result<Vec<Watch>>>()?;
        watches.iter().try_for_each(|watch| watch.expect_begun(nobody))?;
        Ok(Self(watches))
    }

    /// Makes the doctors take one more snapshot, and ends them.
    ///
    /// If the kernel waits before it gives up, so does this: until as many are reported as were planted, or
    /// `patience` has passed.
    pub(crate) fn end(
        self,
        patience: Duration,
        planted: &Planted,
        leaving: &mut Leaving,
    ) -> anyhow::Result<Told> {
        let mut told = Told::default();
        let deadline = Instant::now() + patience;
        let watches = self.0;
        while told.all() < planted.missing.len() as u64 && Instant::now() < deadline {
            for watch in &watches {
                watch
                    .lines
                    .recv_timeout(POLL_INTERVAL)
                    .iter()
                    .for_each(|line| told.take(line, watch.hears_host));
            }
        }
        watches.iter().try_for_each(|watch| watch.signal(Signal::INT))?;
        for watch in watches {
            leaving.0.extend(watch.end(&mut told)?);
        }
        told.leave_what_the_sender_knows();
        told.not_observed -= told.not_heard.min(told.not_observed);
        Ok(told)
    }
}

impl Watch {
    fn begin(host: &Host, class: &Class, nobody: bool, checkpoints: bool) -> anyhow::Result<Self> {
        let binary = e2e::binary();
        let binary = binary.to_str().context("a path of plain text")?;
        let mut command = if nobody {
            let mut command = host.command("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all", binary]);
            command
        } else {
            host.command(binary)
        };
        command.args(["doctor", "watch", "--json", "--interval", "50ms"]);
        if (class.has_checkpoints || checkpoints) && !nobody {
            command.arg("--checkpoints");
        }
        for port in [PORT, PORT + 1].iter().filter(|_| class.is_of_ports) {
            command.args(["--port", &port.to_string()]);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines =
                output.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            // The receiver may have been dropped.
            lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Self { hears_host: class.is_of_whole_host, child: Some(child), lines })
    }

    fn expect_begun(&self, nobody: bool) -> anyhow::Result<()> {
        let first = self.next()?;
        if first["event"] != "watching" || first["names_datagrams"] == nobody {
            bail!("unexpected output of the doctor: {first}");
        }
        Ok(())
    }

    fn next(&self) -> anyhow::Result<Value> {
        self.lines.recv_timeout(e2e::WATCHDOG).context("the doctor printed nothing")
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok());
        let pid = id.and_then(Pid::from_raw).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    fn end(mut self, told: &mut Told) -> anyhow::Result<Option<Child>> {
        loop {
            let line = self.next()?;
            if line["event"] == "ended" {
                // Each loss has its own count of unobserved datagrams; this is the sum.
                let count = |name: &str| line[name].as_u64().unwrap_or(0);
                told.not_observed += count("not_observed");
                told.unreported += count("unreported");
                break;
            }
            told.take(&line, self.hears_host);
        }
        Ok(self.child.take())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Told {
    fn take(&mut self, loss: &Value, hears_host: bool) {
        if loss["event"] != "loss" {
            return;
        }
        let count = |name: &str| loss[name].as_u64().unwrap_or(0);
        if loss["place"] == "host" && !hears_host {
            // The sum at the end includes it.
            self.not_heard += count("not_observed");
            return;
        }
        let stage = loss["stage"].as_str().unwrap_or_default().to_owned();
        *self.counted.entry(stage.clone()).or_default() += count("count");
        for evidence in loss["evidence"].as_array().into_iter().flatten() {
            let name = evidence["counter"].as_str().unwrap_or_default().to_owned();
            *self.evidence.entry(name).or_default() += evidence["rise"].as_u64().unwrap_or(0);
        }
        let numbers = self.named.entry(stage).or_default();
        for range in loss["datagrams"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|it| it["numbers"].as_array())
            .flatten()
        {
            if let (Some(first), Some(last)) = (range[0].as_u64(), range[1].as_u64()) {
                numbers.extend(first..=last);
            }
        }
    }

    /// Drops the losses that the sender's doctor already names: datagrams that never reached the reader's host were
    /// lost by the network, or at the sender.
    fn leave_what_the_sender_knows(&mut self) {
        let network = Stage::Network.name();
        let is_before = |name: &&String| name.parse::<Stage>().is_ok_and(|stage| stage < Stage::Network);
        let known: BTreeSet<u64> = self
            .named
            .iter()
            .filter(|(name, _)| is_before(name))
            .flat_map(|(_, numbers)| numbers)
            .copied()
            .collect();
        let Some(missing) = self.named.get_mut(network) else { return };
        let both = missing.iter().filter(|number| known.contains(number)).count() as u64;
        missing.retain(|number| !known.contains(number));
        if let Some(counted) = self.counted.get_mut(network) {
            *counted -= both;
        }
        self.counted.retain(|name, count| name != network || *count > 0);
    }

    fn all(&self) -> u64 {
        self.named.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Returns the sum of the counters with this text in their names.
    pub(crate) fn by_counter(&self, counter: &str) -> u64 {
        self.evidence.iter().filter(|(name, _)| name.contains(counter)).map(|(_, rise)| rise).sum()
    }

    /// Returns the numbers named at a stage.
    pub(crate) fn at(&self, stage: Stage) -> BTreeSet<u64> {
        self.named.get(stage.name()).cloned().unwrap_or_default()
    }
}
