//! `tallycast agent`: receives once for every reader of this host, through shared memory.

use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tallycast::{HostAgent, StreamPattern};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::settings::{self, Sources};
use crate::signals::AsChild;
use crate::verbs::unjoined;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast agent                      every stream of the bus, for every process on this host
  tallycast agent 'lab/**' 'w7x/**'    only streams that match
  tallycast agent --bus 'udp://239.84.0.0:7400?iface=eth1&shm=on'

Readers find the agent's rings by themselves; without an agent each process receives for itself. Streams published
on this host need no agent. `tallycast ls` shows the transport of each stream.";

/// Interval at which the request to end is checked: the agent notifies of streams through a condition variable.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to receive, such as lab/** [default: every stream]
    #[arg(value_name = "PATTERN", default_value = "**")]
    patterns: Vec<StreamPattern>,
    /// End after this time, such as 8h
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print streams that begin and end as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    #[command(flatten)]
    child: AsChild,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let bus = sources.load()?.bus()?;
    let patterns: Vec<String> = arguments.patterns.iter().map(ToString::to_string).collect();
    let cancellation = arguments.child.cancellation()?;
    let agent = HostAgent::open(bus, &patterns)?;
    let directory = agent.node().bus().shm.as_ref().map(|shm| shm.directory.display().to_string());
    if arguments.json {
        let (bus, pid) = (agent.node().bus().to_string(), std::process::id());
        print_line(&json!({"event": "listening", "bus": bus, "shm": directory, "pid": pid}))?;
    } else {
        eprintln!(
            "receiving for this host on {}, into {}",
            settings::brief(agent.node().bus()),
            directory.unwrap_or_default()
        );
    }
    let deadline = Deadline::after(arguments.duration);
    let mut known: Vec<String> = Vec::new();
    while !cancellation.is_cancelled() && !deadline.is_over() {
        let generation = agent.generation();
        let mut streams = agent.streams();
        streams.sort();
        for (names, other, event) in [(&streams, &known, "joined"), (&known, &streams, "left")] {
            for stream in names.iter().filter(|name| !other.contains(name)) {
                if arguments.json {
                    print_line(&json!({"event": event, "stream": stream}))?;
                } else {
                    writeln!(std::io::stdout(), "{event} {stream}")?;
                }
            }
        }
        known = streams;
        agent.wait_for_change(generation, POLL_INTERVAL);
    }
    Ok(if unjoined::say(agent.node()) { Outcome::Fine } else { Outcome::Found })
}
