//! `tallycast doctor watch` on the hosts of a scene, and its output.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use e2e::Host;
use ledger::Stage;
use rustix::process::Signal;
use serde_json::Value;
use support::Running;

use crate::classes::Class;
use crate::scene::PORT;
use crate::traffic::Planted;

/// The doctor on each host.
pub(crate) struct Watches(Vec<Watch>);

struct Watch {
    /// True if losses by the whole host's counters count, too: they may belong to other namespaces.
    hears_host: bool,
    running: Running,
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
pub(crate) struct Leaving(Vec<Running>);

impl Drop for Leaving {
    fn drop(&mut self) {
        // A doctor that does not end is killed: a panic here could be the second one.
        self.0.drain(..).for_each(|running| while running.line_within(support::WATCHDOG).is_some() {});
    }
}

/// Time for which each of the two is read in turn.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

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
                let line = watch.running.line_within(POLL_INTERVAL);
                line.iter().for_each(|line| told.take(line, watch.hears_host));
            }
        }
        watches.iter().for_each(|watch| watch.running.signal(Signal::INT));
        for watch in watches {
            leaving.0.push(watch.end(&mut told)?);
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
        let mut command = if nobody { host.unprivileged_command(binary) } else { host.command(binary) };
        command.args(["doctor", "watch", "--json", "--interval", "50ms"]);
        if (class.has_checkpoints || checkpoints) && !nobody {
            command.arg("--checkpoints");
        }
        for port in [PORT, PORT + 1].iter().filter(|_| class.is_of_ports) {
            command.args(["--port", &port.to_string()]);
        }
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(&mut command, "doctor watch".to_owned(), |_| ());
        Ok(Self { hears_host: class.is_of_whole_host, running })
    }

    fn expect_begun(&self, nobody: bool) -> anyhow::Result<()> {
        let first = self.next()?;
        if first["event"] != "watching" || first["names_datagrams"] == nobody {
            bail!("unexpected output of the doctor: {first}");
        }
        Ok(())
    }

    fn next(&self) -> anyhow::Result<Value> {
        self.running.next_line().context("the doctor ended early")
    }

    fn end(self, told: &mut Told) -> anyhow::Result<Running> {
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
        Ok(self.running)
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
