//! A demo with `--coupled`: a simulation that its viewers steer, one shared view of it, and the account of its commands.
//!
//! The simulation is the example of the guide *Couple a simulation*. Without a page, the demo steers it itself, as a viewer
//! would, and then looks for each change in the archive.

mod verdict;

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::{Value as Json, json};
use sys::Cancellation;
use tallycast::steering::{self, Answer, Applied, Conclusion, SetOptions, Value};
use tallycast::{Bus, Dtype, Node};

use super::children::{Children, Role};
use super::scene::{STATE_VARIABLE, Scene};
use crate::verbs::server::Server;

pub(super) use verdict::Coupling;

/// Name of the app.
const APP: &str = "sim/plate";
/// The simulation's process.
const SIMULATION: &str = "simulation";
/// Name of the shared view.
const VIEW: &str = "plate";
/// Group of the parameters that one viewer at a time may change.
const GROUP: &str = "plate";
/// Time within which the app is found.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between two rounds of commands.
const ROUND: Duration = Duration::from_millis(500);
/// The commands of the rounds, in turn: parameter and value. The heater has at most 5 kW, so one is refused.
const COMMANDS: [(&str, f64); 5] =
    [("heater", 3.0), ("diffusion", 0.1), ("heater", 9.0), ("heater", 0.5), ("diffusion", 0.2)];

/// Starts the simulation; the log of its commands is gone with the demo's folder.
pub(super) fn start_simulation(scene: &Scene<'_>, children: &mut Children) -> anyhow::Result<()> {
    let shared = scene.shared(scene.publishers);
    let arguments = ["heated-plate"].into_iter().chain(shared.iter().map(String::as_str));
    let state = scene.state();
    children.start_with(Role::Source, SIMULATION, arguments, &[(STATE_VARIABLE, state.as_os_str())])
}

/// Shares a view of the simulation; returns the queries of the addresses of those who may change it and of those who only
/// watch.
pub(super) fn share_view(listen: SocketAddr) -> anyhow::Result<[String; 2]> {
    let server = Server::new(&format!("http://{listen}"), None, None)?;
    let trend = |stream: &str, channels: &[&str]| {
        let traces: Vec<Json> =
            channels.iter().map(|channel| json!({"stream": stream, "channel": channel})).collect();
        json!({"panel": "trend", "traces": traces, "columns": 12, "rows": 1, "axis": {"kind": "auto"}})
    };
    let mut image = trend("plate/image", &["temperature"]);
    image["panel"] = json!("image");
    let fields = json!({
        "title": "Heated plate",
        "notes": "Heater and diffusion are steered; a mark in each plot shows the sample from which on a change is in the data.",
        "window": {"span_ns": 20_000_000_000_u64, "end_ns": null},
        "order": ["image", "probes"],
        "plot/image": image,
        "plot/probes": trend("plate/probes", &["heater", "middle", "edge"]),
    });
    let path = format!("/api/views/{VIEW}");
    server.put(&path, None, &json!({ "fields": fields }))?;
    let view = server.get(&path)?;
    let id = view["read_only_id"]
        .as_str()
        .ok_or_else(|| anyhow!("the monitor server told no read-only link of the view `{VIEW}`"))?;
    Ok([format!("?view={VIEW}"), format!("?watch={id}")])
}

/// A viewer who steers, on a thread of its own.
pub(super) struct Viewer {
    end: Cancellation,
    thread: JoinHandle<anyhow::Result<Commands>>,
}

/// What became of a viewer's commands.
#[derive(Debug, Default)]
pub(super) struct Commands {
    pub(super) applied: Vec<Applied>,
    pub(super) refused: u64,
    /// Those whose two seconds were over before the app took them, or before its log had them: a busy machine, or its disk.
    pub(super) expired: u64,
    /// Those without an effect for another reason, or without an answer.
    pub(super) others: Vec<Conclusion>,
}

impl Viewer {
    /// Starts to steer the simulation on a bus.
    pub(super) fn start(bus: &str) -> anyhow::Result<Self> {
        let (end, bus) = (Cancellation::new()?, bus.parse::<Bus>()?);
        let ended = end.clone();
        let thread = std::thread::Builder::new().name("viewer".to_owned());
        let thread = thread
            .spawn(move || steer(&Node::open(bus)?, &ended))
            .context("cannot start the thread that steers the simulation")?;
        Ok(Self { end, thread })
    }

    /// Ends after the round that runs.
    pub(super) fn end(self) -> anyhow::Result<Commands> {
        self.end.cancel();
        self.thread.join().map_err(|_| anyhow!("the thread that steers the simulation panicked"))?
    }
}

fn steer(node: &Node, end: &Cancellation) -> anyhow::Result<Commands> {
    let mut remote = steering::find(node, &APP.parse()?, PATIENCE)?.connect(None)?;
    let mut commands = Commands::default();
    for (parameter, value) in COMMANDS.into_iter().cycle() {
        remote.lease(GROUP)?;
        let value = Value::parse(Dtype::F8, &[], &value.to_string())?;
        let options = SetOptions { reason: "demo --coupled".to_owned(), ..SetOptions::default() };
        let (_, conclusion) = remote.set(parameter, value, &options)?;
        match conclusion {
            Conclusion::Answered(Answer::Applied(applied)) => commands.applied.push(applied),
            Conclusion::Answered(Answer::Refused { .. }) => commands.refused += 1,
            Conclusion::Answered(Answer::Expired) => commands.expired += 1,
            other => commands.others.push(other),
        }
        if end.wait(ROUND) {
            break;
        }
    }
    remote.release(GROUP)?;
    Ok(commands)
}
