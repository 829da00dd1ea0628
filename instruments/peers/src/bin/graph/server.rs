//! The monitor server as the measurement sees it: its process, and its requests about the graph.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use peers::{Bench, Server};
use serde_json::Value;

use crate::NODES;
use crate::nodes::Nodes;

/// Watchdog: time limit for an answer, and for all nodes to read.
const WATCHDOG: Duration = Duration::from_secs(60);
/// Interval at which the nodes are looked at until all of them read: the server shows them twice a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the same at the ends of a run, whose samples are counted.
const SHOWN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Samples of each output from which on a node is at work.
const AT_WORK: u64 = 10;

/// The real monitor server.
pub(crate) struct Monitor {
    server: Server,
    address: SocketAddr,
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

impl Monitor {
    pub(crate) fn start(command: &Path, bus: &str, nodes: &Nodes) -> Result<Self> {
        let arguments = ["--bus", bus, "monitor", "bench/**", "--listen", "127.0.0.1:0", "--json"];
        let (server, said) = Server::start(Command::new(command).args(arguments), "address")?;
        let said: Value = serde_json::from_str(&said)?;
        let address = said["address"].as_str().context("the monitor server printed no address")?.parse()?;
        let monitor = Self { server, address, nodes: nodes.len() };
        if nodes.len() > 0 {
            monitor.ask("PUT /api/graph", &nodes.graph().to_string())?;
        }
        Ok(monitor)
    }

    /// Waits until it receives all streams, and every node has results.
    pub(crate) fn wait_until_all_read(&self, bench: &Bench) -> Result<()> {
        let began = Instant::now();
        loop {
            bench.check()?;
            let streams = self.ask("GET /api/streams", "")?;
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
        let graph = self.ask("GET /api/graph", "")?;
        let nodes = graph["nodes"].as_array().context("the server told no nodes")?;
        ensure!(nodes.len() == self.nodes, "{} of {} nodes run", nodes.len(), self.nodes);
        if let Some(failed) = nodes.iter().find(|node| !node["error"].is_null()) {
            anyhow::bail!("node {} does not run: {}", failed["name"], failed["error"]);
        }
        let count = |key: &str| nodes.iter().map(|node| node[key].as_u64().unwrap_or(0)).collect::<Vec<_>>();
        let (at, cpu_s) = (Instant::now(), self.server.processor_time()?.as_secs_f64());
        Ok(Look { at, cpu_s, offered: count("offered_samples"), holes: count("source_samples").iter().sum() })
    }

    /// Sends a request; returns the answer's body.
    fn ask(&self, request: &str, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(WATCHDOG))?;
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {}\r\nIf-Match: *\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the server's answer has no body")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status == "200", "{request}: {head}\n{body}");
        serde_json::from_str(body).with_context(|| format!("{request}: not JSON"))
    }
}
