//! The monitor server with a graph, as the measurement sees it: its processor time, and the state of its nodes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use peers::{Bench, Monitor};

use crate::NODES;
use crate::nodes::Nodes;

/// Watchdog: time limit for all nodes to read.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Interval at which the nodes are looked at until all of them read: the server shows them twice a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the same at the ends of a run, whose samples are counted.
const SHOWN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Samples of each output from which on a node is at work.
const AT_WORK: u64 = 10;

/// The monitor server with a graph.
pub(crate) struct Computing {
    server: Monitor,
    nodes: usize,
}

/// State of the server at a moment.
pub(crate) struct Look {
    pub(crate) at: Instant,
    /// Processor time of its process so far. Units: seconds.
    pub(crate) cpu_s: f64,
    /// Samples of each node's output so far, in the order of the graph.
    pub(crate) offered: Vec<u64>,
    /// Samples of all of them that are in holes.
    pub(crate) holes: u64,
}

impl Computing {
    pub(crate) fn start(command: &Path, bus: &str, nodes: &Nodes) -> Result<Self> {
        let server = Monitor::start(command, bus, &["bench/**"])?;
        if nodes.len() > 0 {
            server.ask("PUT /api/graph", Some("*"), &nodes.graph().to_string())?;
        }
        Ok(Self { server, nodes: nodes.len() })
    }

    /// Waits until it receives all streams, and every node has results.
    pub(crate) fn wait_until_all_read(&self, bench: &Bench) -> Result<()> {
        let began = Instant::now();
        loop {
            bench.check()?;
            let streams = self.server.ask("GET /api/streams", None, "")?;
            let listed = streams["streams"].as_array().map_or(0, Vec::len);
            let look = self.look()?;
            if listed >= NODES && look.offered.iter().all(|samples| *samples >= AT_WORK) {
                return Ok(());
            }
            ensure!(began.elapsed() < WATCHDOG, "not all nodes read within {WATCHDOG:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns its state at a moment at which it shows its nodes anew.
    pub(crate) fn look_when_shown(&self) -> Result<Look> {
        let began = Instant::now();
        let before = self.look()?;
        loop {
            let look = self.look()?;
            if look.offered != before.offered || self.nodes == 0 {
                return Ok(look);
            }
            ensure!(began.elapsed() < WATCHDOG, "no node went on within {WATCHDOG:?}");
            std::thread::sleep(SHOWN_POLL_INTERVAL);
        }
    }

    /// Returns its state, the nodes as they were shown last.
    fn look(&self) -> Result<Look> {
        let graph = self.server.ask("GET /api/graph", None, "")?;
        let nodes = graph["nodes"].as_array().context("the server told no nodes")?;
        ensure!(nodes.len() == self.nodes, "{} of {} nodes run", nodes.len(), self.nodes);
        if let Some(failed) = nodes.iter().find(|node| !node["error"].is_null()) {
            anyhow::bail!("node {} does not run: {}", failed["name"], failed["error"]);
        }
        let count = |key: &str| nodes.iter().map(|node| node[key].as_u64().unwrap_or(0)).collect::<Vec<_>>();
        let (at, cpu_s) = (Instant::now(), self.server.processor_time()?.as_secs_f64());
        Ok(Look { at, cpu_s, offered: count("offered_samples"), holes: count("source_samples").iter().sum() })
    }
}
