//! `tallycast bench pingpong`: the arguments of the round-trip measurement.

use anyhow::{Context, bail};
use bench::control::Patience;
use bench::notation::CpuPair;
use bench::pingpong::{self, Options, System};
use clap::{Args, ValueEnum};

use super::handout::Handout;
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench pingpong                                both ends on this host, TCP and datagrams, 1 B to 9.3 MB
  tallycast bench pingpong -c 192.0.2.7 -C all            with every congestion control of this host
  tallycast bench pingpong --sizes 1,1472,64K --busy-poll --html pingpong.html
  tallycast bench pingpong --protocols udp -w 32M --netns

Δt is from the first byte sent to the last that came back; a message takes half of it, and its rate is its size over Δt.";

/// Every congestion control that there is.
const ALL: &str = "all";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    other_end: OtherEnd,
    /// Protocols that carry the messages
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,udp")]
    protocols: Vec<Protocol>,
    /// Congestion controls of TCP, or `all` of this host [default: the system's]
    #[arg(short = 'C', long, visible_alias = "cc", value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// Processor of this end, and of the server: 2 or 2,3
    #[arg(short = 'A', long, value_name = "CPU[,CPU]")]
    affinity: Option<CpuPair>,
    #[command(flatten)]
    handout: Handout,
}

/// A protocol on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Protocol {
    /// A connection
    Tcp,
    /// Datagrams, without retransmission
    Udp,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let options = arguments.options()?;
    options.check()?;
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        Ok(pingpong::measure(&options, scene.server(), Patience::default(), watch)?)
    })?;
    outcome(report.end.state, true)
}

impl Arguments {
    fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            systems: self.systems()?,
            client_cpu: self.affinity.map(|cpus| cpus.client),
            server_cpu: self.affinity.and_then(|cpus| cpus.server),
            from: self.other_end.bind,
            ..self.options.clone()
        })
    }

    fn systems(&self) -> anyhow::Result<Vec<System>> {
        if !self.congestion.is_empty() && !self.protocols.contains(&Protocol::Tcp) {
            bail!("-C has no effect without TCP\nleave it out, or add tcp to --protocols");
        }
        let mut systems = Vec::new();
        for protocol in &self.protocols {
            match protocol {
                Protocol::Tcp if self.congestion.is_empty() => systems.push(System::Tcp(None)),
                Protocol::Tcp => systems.extend(self.congestion_controls()?),
                Protocol::Udp => systems.push(System::Udp),
            }
        }
        Ok(systems)
    }

    fn congestion_controls(&self) -> anyhow::Result<Vec<System>> {
        let names = if self.congestion.iter().any(|name| name == ALL) {
            sys::tcp::available().context(
                "the congestion controls of this host cannot be read\nname them, such as -C cubic,reno",
            )?
        } else {
            self.congestion.clone()
        };
        Ok(names.into_iter().map(|name| System::Tcp(Some(name))).collect())
    }
}
