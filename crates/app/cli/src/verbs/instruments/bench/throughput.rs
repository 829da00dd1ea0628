//! `tallycast bench`, `tallycast bench throughput`: the arguments of a measurement between two ends, after iperf3's.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bench::control::Patience;
use bench::notation::{self, CpuPair};
use bench::path_mtu::{self, PathMtu};
use bench::report::Watch as _;
use bench::throughput::{self, Figures, Fragments, LossFree, Options, Protocol, Rate, RunReport, Ways};
use clap::Args;
use sys::Cancellation;

use super::handout::{Form, Terminal};
use super::outcome;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;
use crate::status_line::StatusLine;
use crate::verbs::instruments::files::FileArguments;
use crate::verbs::instruments::pending::Pending;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench throughput                              both ends on this host, over the loopback interface
  tallycast bench -s --listen 0.0.0.0                     a server, on one host
  tallycast bench -c 192.0.2.7                            TCP to it, from another
  tallycast bench -c 192.0.2.7 -u -b 100M -P 4            four flows of datagrams, 100 Mbit/s each
  tallycast bench -c 192.0.2.7 -R -t 30 -J                from the server, half a minute a run, as JSON
  tallycast bench -c 192.0.2.7 --stream --secured --key daq-2.keys -b 0   an encrypted stream, as fast as possible

Rates are decimal bits per second, sizes binary bytes. The loss of each run is accounted for; docs/guide/bench.md says how to
read the report.";

#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(super) other_end: OtherEnd,
    /// Send datagrams instead of TCP
    #[arg(short, long)]
    udp: bool,
    /// Send a Tallycast stream: publisher and subscriber, with its own account
    #[arg(long, conflicts_with = "udp")]
    stream: bool,
    /// Secure the stream with the keys of both stations, whose files --key names here and at the server
    #[arg(long, requires_all = ["stream", "key", "client"])]
    secured: bool,
    /// Send datagrams, or a stream, to a multicast group [default: 239.84.7.1, or ff15::84:7:1 over IPv6]
    #[arg(long, value_name = "GROUP", num_args = 0..=1, require_equals = true)]
    multicast: Option<Option<IpAddr>>,
    /// Number of multicast receivers
    #[arg(long, value_name = "COUNT", default_value = "1")]
    receivers: u32,
    /// Rate of each flow: 100M, 2.5G, or 1000pps; 0 is as fast as possible [default: 1M for datagrams, else 0]
    #[arg(short, long, value_name = "RATE")]
    bitrate: Option<Rate>,
    /// Bytes per datagram, or per write [default: path MTU up to 1472 for datagrams, 128K for TCP]
    #[arg(short, long, value_name = "SIZE", value_parser = notation::size)]
    length: Option<usize>,
    /// Socket buffers [default: the system's]
    #[arg(short, long, value_name = "SIZE", value_parser = notation::size)]
    window: Option<usize>,
    /// Parallel flows
    #[arg(short = 'P', long, value_name = "COUNT", default_value = "1")]
    parallel: u32,
    /// Reverse direction: the server sends
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    reverse: bool,
    /// Both directions at once
    #[arg(long)]
    bidir: bool,
    /// Duration of a run: seconds, or a duration such as 500ms
    #[arg(short, long, visible_alias = "duration", value_name = "TIME", default_value = "10", value_parser = notation::time)]
    time: Duration,
    /// Interval between progress reports; 0 is once per run
    #[arg(short, long, value_name = "TIME", default_value = "1", value_parser = notation::time)]
    interval: Duration,
    /// Warm-up at the beginning of a run, not measured
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0", value_parser = notation::time)]
    omit: Duration,
    /// Number of runs
    #[arg(long, value_name = "COUNT", default_value = "3")]
    repeat: u32,
    /// Search the highest rate without loss up to -b, confirmed by --repeat runs
    #[arg(long, alias = "bisect")]
    loss_free: bool,
    /// Resolution of the search [default: a hundredth of the rate found]
    #[arg(long, value_name = "RATE", requires = "loss_free")]
    step: Option<Rate>,
    /// Processor of this end's threads, and of the server's: 2 or 2,3
    #[arg(short = 'A', long, value_name = "CPU[,CPU]")]
    affinity: Option<CpuPair>,
    /// Congestion control of TCP
    #[arg(short = 'C', long, visible_alias = "cc", value_name = "NAME")]
    congestion: Option<String>,
    /// Refuse datagrams larger than the path MTU instead of fragmenting them
    #[arg(long)]
    dont_fragment: bool,
    /// First find the largest datagram that passes unfragmented in both directions, and use that length
    #[arg(long, conflicts_with = "length")]
    probe_mtu: bool,
    /// Send trains of datagrams that the kernel handles as one packet (UDP_SEGMENT)
    #[arg(long)]
    gso: bool,
    /// Receive trains of datagrams as one packet (UDP_GRO); drops are then counted in trains
    #[arg(long)]
    gro: bool,
    /// Print the report as one JSON object (docs/reference/formats/bench.schema.json)
    #[arg(short = 'J', long)]
    json: bool,
    /// Print one JSON object per line while it runs: start, interval …, end
    #[arg(long, conflicts_with = "json")]
    json_stream: bool,
    #[command(flatten)]
    files: FileArguments,
    /// Also print the interface, buffers and limits of both hosts
    #[arg(short = 'V', long)]
    verbose: bool,
    /// Write the output to a file instead
    #[arg(long, value_name = "FILE")]
    logfile: Option<PathBuf>,
}

/// Measures.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut options = arguments.options();
    options.check()?;
    let step = arguments.step.map(|step| step.bits_per_second(options.unit_bytes(None)));
    let loss_free = arguments.loss_free.then(|| LossFree::of(&options, step)).transpose()?;
    // Opened before the measurement, so that a folder that cannot be written is reported now.
    let logfile = arguments.logfile.as_deref().map(Pending::new).transpose()?;
    let terminal = Terminal::new(arguments.form(), logfile, StatusLine::new(true))?;
    let report = terminal.hand_out(&arguments.files, |terminal| {
        let scene = Scene::set(&arguments.other_end)?;
        if arguments.probe_mtu {
            options.payload_bytes = Some(probe_mtu(arguments, &scene, terminal.cancellation())?);
            options.fragments = Fragments::Forbidden;
            options.check()?;
        }
        let (server, patience) = (scene.server(), Patience::default());
        Ok(throughput::measure(&options, loss_free.as_ref(), server, patience, terminal)?)
    })?;
    let has_figures = |run: &RunReport| run.sums.all().iter().any(|(sum, _)| sum.is_some());
    let outcome = outcome(report.end.state, report.end.runs.iter().any(has_figures))?;
    let received = |run: &RunReport| [run.sums.sum_received, run.sums.sum_received_bidir_reverse];
    // A search tries rates at which nothing may arrive.
    let is_all_lost =
        !arguments.loss_free && report.end.runs.iter().flat_map(received).flatten().any(is_lost);
    Ok(if is_all_lost { Outcome::Found } else { outcome })
}

/// Returns whether no datagram of a flow arrived: a figure, and no success.
fn is_lost(received: Figures) -> bool {
    let missing = received.lost_packets.and_then(|lost| u64::try_from(lost).ok()).unwrap_or(0);
    received.packets.is_some_and(|packets| packets <= missing)
}

/// Finds the largest datagram for the path, and prints the result.
fn probe_mtu(arguments: &Arguments, scene: &Scene, cancellation: &Cancellation) -> anyhow::Result<usize> {
    if !arguments.udp {
        bail!("--probe-mtu applies to datagrams\nadd -u")
    }
    let from = arguments.other_end.bind.map(|address| SocketAddr::new(address, 0));
    let found = path_mtu::find(scene.server(), from, Patience::default(), cancellation)?;
    let PathMtu { payload_bytes, mtu_bytes, known_mtu_bytes } = found;
    let narrower = match known_mtu_bytes > mtu_bytes {
        true => format!(
            "; this host assumed {known_mtu_bytes}, and no router corrected it: set the MTU of its interface or route"
        ),
        false => String::new(),
    };
    eprintln!(
        "datagrams of {payload_bytes} bytes pass unfragmented in both directions (MTU {mtu_bytes}){narrower}"
    );
    Ok(payload_bytes)
}

impl Arguments {
    fn options(&self) -> Options {
        let protocol = match (self.stream, self.multicast, self.udp) {
            (true, Some(_), _) => Protocol::StreamMulticast,
            (true, None, _) => Protocol::Stream,
            (false, Some(_), _) => Protocol::Multicast,
            (false, None, true) => Protocol::Udp,
            (false, None, false) => Protocol::Tcp,
        };
        let ways = match (self.reverse, self.bidir) {
            (_, true) => Ways::Both,
            (true, _) => Ways::Reverse,
            _ => Ways::Forward,
        };
        let usual = Options::default();
        Options {
            protocol,
            ways,
            streams: self.parallel,
            receivers: self.receivers,
            group: self.multicast.flatten(),
            rate: self.bitrate,
            payload_bytes: self.length,
            buffer_bytes: self.window,
            duration: self.time,
            omit: self.omit,
            // As with iperf3's -i 0: nothing is printed before the end of a run.
            interval: if self.interval.is_zero() { self.omit + self.time } else { self.interval },
            repeats: self.repeat,
            client_cpu: self.affinity.map(|cpus| cpus.client),
            server_cpu: self.affinity.and_then(|cpus| cpus.server),
            from: self.other_end.bind,
            congestion_control: self.congestion.clone(),
            fragments: if self.dont_fragment { Fragments::Forbidden } else { Fragments::Allowed },
            gso: self.gso,
            gro: self.gro,
            secured: self.secured,
            ..usual
        }
    }

    const fn form(&self) -> Form {
        match (self.json, self.json_stream) {
            (true, _) => Form::Json,
            (_, true) => Form::JsonStream,
            _ if self.verbose => Form::VerboseText,
            _ => Form::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_of_which_nothing_arrived_is_no_success() {
        let figures = |packets, lost| Figures {
            packets: Some(packets),
            lost_packets: Some(lost),
            ..Figures::default()
        };
        assert!(is_lost(figures(5, 5)) && is_lost(figures(0, 0)));
        assert!(!is_lost(figures(5, 4)) && !is_lost(Figures::default()), "TCP counts no datagrams");
    }
}
