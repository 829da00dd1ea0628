//! `tallycast bench pingpong`: the arguments of the round-trip measurement.

use std::time::Duration;

use anyhow::{Context, bail};
use bench::control::Patience;
use bench::notation::{self, CpuPair};
use bench::pingpong::{self, Options, Report, System, Wait};
use bench::report::State;
use clap::{Args, ValueEnum};

use super::handout::Handout;
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
    #[arg(short = 'C', long, value_name = "LIST", value_delimiter = ',')]
    congestion: Vec<String>,
    /// Message sizes [default: powers of four from 1 byte on, and 9288586]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = notation::size)]
    sizes: Vec<usize>,
    /// Time spent on each size in each run: seconds, or a duration such as 500ms
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = notation::time)]
    time: Duration,
    /// Maximum number of exchanges per size and run
    #[arg(long, value_name = "COUNT", default_value = "100000")]
    exchanges: u64,
    /// Number of runs
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    /// Socket buffers [default: the system's for TCP; room for the largest message, 32M at most, for datagrams]
    #[arg(short, long, value_name = "SIZE", value_parser = notation::size)]
    window: Option<usize>,
    /// Largest datagram, including its header of 24 bytes [default: the path MTU]
    #[arg(long, value_name = "SIZE", value_parser = notation::size)]
    datagram: Option<usize>,
    /// Maximum wait for a reply in datagrams
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = notation::time)]
    timeout: Duration,
    /// Poll for messages at both ends instead of sleeping; uses a whole processor at each
    #[arg(long)]
    busy_poll: bool,
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
    Ok(judge(&report))
}

fn judge(report: &Report) -> Outcome {
    if report.end.state == State::Complete { Outcome::Fine } else { Outcome::Found }
}

impl Arguments {
    fn options(&self) -> anyhow::Result<Options> {
        let usual = Options::default();
        let sizes = self.sizes.iter().map(|size| *size as u64).collect::<Vec<_>>();
        Ok(Options {
            systems: self.systems()?,
            sizes: if sizes.is_empty() { usual.sizes } else { sizes },
            time: self.time,
            exchanges: self.exchanges,
            repeats: self.repeat,
            buffer_bytes: self.window,
            datagram_bytes: self.datagram,
            timeout: self.timeout,
            wait: if self.busy_poll { Wait::Spin } else { Wait::Sleep },
            client_cpu: self.affinity.map(|cpus| cpus.client),
            server_cpu: self.affinity.and_then(|cpus| cpus.server),
            from: self.other_end.bind,
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
