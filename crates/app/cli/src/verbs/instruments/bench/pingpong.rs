//! `tallycast bench pingpong`: the arguments of the round-trip measurement.

use anyhow::{Context, bail};
use bench::control::Patience;
use bench::notation::CpuPair;
use bench::pingpong::{self, Layer, Options, System};
use clap::{Args, ValueEnum};
use tallycast::udt::congestion;

use super::handout::Handout;
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench pingpong                                both ends on this host, over each protocol, 1 B to 9.3 MB
  tallycast bench pingpong -c 192.0.2.7 -C all --cc all   with every congestion control of this host, and of our UDT
  tallycast bench pingpong --protocols udt,shm --layers none,framed,announced
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
    /// Protocols that carry the messages [default: all; shm only with both ends here]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    protocols: Vec<Protocol>,
    /// Congestion controls of TCP, or `all` of this host [default: the system's]
    #[arg(short = 'C', long, value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<String>,
    /// Congestion controls of UDT, each with its options as in `fast?alpha=20`, or `all` [default: udt]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    cc: Vec<String>,
    /// Handling of each message over TCP, UDT and shared memory
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "none")]
    layers: Vec<Layer>,
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
    /// Our reliable transport over UDP
    Udt,
    /// Shared memory, with both ends on this host
    Shm,
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

    fn protocols(&self) -> Vec<Protocol> {
        match &self.protocols[..] {
            [] if self.other_end.is_here() => Protocol::value_variants().to_vec(),
            [] => vec![Protocol::Tcp, Protocol::Udp, Protocol::Udt],
            given => given.to_vec(),
        }
    }

    fn systems(&self) -> anyhow::Result<Vec<System>> {
        let protocols = self.protocols();
        if !self.congestion.is_empty() && !protocols.contains(&Protocol::Tcp) {
            bail!("-C has no effect without TCP\nleave it out, or add tcp to --protocols");
        }
        if !self.cc.is_empty() && !protocols.contains(&Protocol::Udt) {
            bail!("--cc has no effect without UDT\nleave it out, or add udt to --protocols");
        }
        let mut systems = Vec::new();
        for protocol in protocols {
            let carriers = match protocol {
                Protocol::Tcp if self.congestion.is_empty() => vec![System::Tcp(None)],
                Protocol::Tcp => self.congestion_controls()?,
                Protocol::Udp => vec![System::Udp],
                Protocol::Udt if self.cc.is_empty() => vec![System::Udt(None)],
                Protocol::Udt => self.controls_of_udt(),
                Protocol::Shm => vec![System::Shm],
            };
            for carrier in carriers {
                // Datagrams have no layers; alone they leave --layers without effect, which is an error.
                let has_layers = carrier.is_reliable() || self.protocols == [Protocol::Udp];
                let layers = if has_layers { &self.layers[..] } else { &[Layer::None] };
                systems.extend(layers.iter().map(|layer| carrier.clone().through(*layer)));
            }
        }
        Ok(systems)
    }

    fn controls_of_udt(&self) -> Vec<System> {
        let names: Vec<String> = if self.cc.iter().any(|name| name == ALL) {
            congestion::BUILT_IN.iter().map(|choice| choice.name.to_owned()).collect()
        } else {
            self.cc.clone()
        };
        names.into_iter().map(|name| System::Udt(Some(name))).collect()
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
