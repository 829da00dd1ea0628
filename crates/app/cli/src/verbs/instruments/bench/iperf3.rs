//! `tallycast bench iperf3`: iperf3's options, as a server for its clients and as a client of its servers.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use bench::iperf3::{
    ClientOptions, DEFAULT_PORT, Direction, End, Family, Interval, Notice, Protocol, Repeat, ServerOptions,
    Test, Watch, failure_to_json,
};
use bench::notation;
use bench::throughput::Rate;
use clap::{ArgGroup, Args};
use sys::Cancellation;

use crate::Outcome;
use crate::messages;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench -s --iperf3                             serve clients: iperf3 -c HOST
  tallycast bench -c HOST --iperf3 -u -b 10M              a test against a server: iperf3 -s
  tallycast bench -c HOST --iperf3 -R -P 2 -J             the server sends, two streams, JSON of iperf3's shape

Exit code 1: the account of a stream does not add up, and the report says how.";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("role").required(true).args(["server", "client"]), disable_help_flag = false)]
pub(crate) struct Arguments {
    /// Serve clients, one at a time
    #[arg(long, short)]
    server: bool,
    /// Run a test against this server
    #[arg(long, short, value_name = "HOST")]
    client: Option<String>,
    /// The server's port
    #[arg(long, short, value_name = "PORT", default_value_t = DEFAULT_PORT)]
    port: u16,
    /// Local address; a server serves only this host by default, 0.0.0.0 serves every network
    #[arg(long, short = 'B', visible_alias = "listen", value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Interval between reports, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value = "1", value_parser = notation::time)]
    interval: Duration,
    /// Print one JSON object of iperf3's shape for each test
    #[arg(long, short = 'J')]
    json: bool,
    /// Serve one test, then end
    #[arg(long, short = '1', conflicts_with = "client")]
    one_off: bool,
    #[command(flatten)]
    test: TestArguments,
}

/// Options that only a client has.
#[derive(Args, Debug)]
struct TestArguments {
    /// Datagrams instead of a stream of bytes
    #[arg(long, short, conflicts_with = "server")]
    udp: bool,
    /// Bits per second of each stream, 0 for no limit; RATE/N sends N blocks at once
    #[arg(long, short, value_name = "RATE[KMG][/N]", value_parser = paced, conflicts_with = "server")]
    bitrate: Option<(u64, u32)>,
    /// Duration in seconds; 0 is unlimited
    #[arg(long, short, value_name = "SECONDS", value_parser = notation::time, conflicts_with_all = ["server", "bytes", "blockcount"])]
    time: Option<Duration>,
    /// Number of bytes, over all streams
    #[arg(long, short = 'n', value_name = "SIZE[KMG]", value_parser = notation::size, conflicts_with_all = ["server", "blockcount"])]
    bytes: Option<usize>,
    /// Number of blocks, over all streams
    #[arg(long, short = 'k', value_name = "COUNT[KMG]", value_parser = notation::size, conflicts_with = "server")]
    blockcount: Option<usize>,
    /// Bytes of a block or datagram
    #[arg(long, short, value_name = "SIZE[KMG]", value_parser = notation::size, conflicts_with = "server")]
    length: Option<usize>,
    /// Number of streams
    #[arg(long, short = 'P', value_name = "COUNT", default_value_t = 1, conflicts_with = "server")]
    parallel: u32,
    /// The server sends
    #[arg(long, short = 'R', conflicts_with_all = ["server", "bidir"])]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "server")]
    bidir: bool,
    /// Leave out the first seconds
    #[arg(long, short = 'O', value_name = "SECONDS", value_parser = notation::time, default_value = "0", conflicts_with = "server")]
    omit: Duration,
    /// The buffers of the sockets
    #[arg(long, short, value_name = "SIZE[KMG]", value_parser = notation::size, conflicts_with = "server")]
    window: Option<usize>,
    /// The largest segment
    #[arg(long, short = 'M', value_name = "BYTES", conflicts_with = "server")]
    set_mss: Option<u32>,
    /// The congestion control
    #[arg(long, short = 'C', value_name = "NAME", conflicts_with = "server")]
    congestion: Option<String>,
    /// Send small writes at once
    #[arg(long, short = 'N', conflicts_with = "server")]
    no_delay: bool,
    /// The type of service
    #[arg(long, short = 'S', value_name = "NUMBER", default_value_t = 0, conflicts_with = "server")]
    tos: u32,
    /// The port from which the first stream is sent
    #[arg(long, value_name = "PORT", conflicts_with = "server")]
    cport: Option<u16>,
    /// Number datagrams with 64 bits
    #[arg(long = "udp-counters-64bit", conflicts_with = "server")]
    udp_counters_64bit: bool,
    /// A title for the report
    #[arg(long, short = 'T', value_name = "TEXT", conflicts_with = "server")]
    title: Option<String>,
    /// Text for the reports of both sides
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    extra_data: Option<String>,
    /// IPv4 only
    #[arg(long = "version4", short = '4', conflicts_with = "version6")]
    version4: bool,
    /// IPv6 only
    #[arg(long = "version6", short = '6')]
    version6: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut terminal = Terminal {
        json: arguments.json,
        cancellation: signals::cancellation()?,
        in_order: true,
        failed: false,
        intervals: Vec::new(),
    };
    if let Err(error) = arguments.test(&mut terminal) {
        terminal.print_failure(&error.to_string());
        return Err(error);
    }
    Ok(if terminal.in_order && !(terminal.failed && arguments.one_off) {
        Outcome::Fine
    } else {
        Outcome::Found
    })
}

impl Arguments {
    fn test(&self, terminal: &mut Terminal) -> anyhow::Result<()> {
        match &self.client {
            None => {
                let repeat = if self.one_off { Repeat::Once } else { Repeat::Forever };
                let Arguments { port, interval, .. } = *self;
                // Like every server here: only this host, unless other addresses are given.
                let bind = self.bind.or(Some(Ipv4Addr::LOCALHOST.into()));
                bench::iperf3::serve(&ServerOptions { bind, port, interval, repeat }, terminal)?;
            }
            Some(host) => {
                let report = bench::iperf3::run(&self.client_options(host), terminal)?;
                terminal.notice(Notice::Ended(&report));
            }
        }
        Ok(())
    }

    fn client_options(&self, host: &str) -> ClientOptions {
        let test = &self.test;
        let end = match (test.bytes, test.blockcount) {
            (Some(bytes), _) => End::Bytes(bytes as u64),
            (None, Some(blocks)) => End::Blocks(blocks as u64),
            (None, None) => End::Time(test.time.unwrap_or(Duration::from_secs(10))),
        };
        ClientOptions {
            host: host.to_owned(),
            port: self.port,
            family: match (test.version4, test.version6) {
                (true, _) => Family::V4,
                (_, true) => Family::V6,
                _ => Family::Any,
            },
            bind: self.bind,
            client_port: test.cport,
            interval: self.interval,
            test: Test {
                protocol: if test.udp { Protocol::Udp } else { Protocol::Tcp },
                direction: match (test.reverse, test.bidir) {
                    (true, _) => Direction::Reverse,
                    (_, true) => Direction::Both,
                    _ => Direction::Forward,
                },
                parallel: test.parallel,
                end,
                omit: test.omit,
                burst: test.bitrate.map_or(1, |(_, burst)| burst),
                wide_counters: test.udp_counters_64bit,
                window_bytes: test.window,
                mss_bytes: test.set_mss,
                no_delay: test.no_delay,
                type_of_service: test.tos,
                congestion: test.congestion.clone(),
                title: test.title.clone(),
                extra_data: test.extra_data.clone(),
                ..Test::default()
            },
            block_bytes: test.length,
            rate_bits_per_s: test.bitrate.map(|(rate, _)| rate),
        }
    }
}

fn paced(text: &str) -> Result<(u64, u32), String> {
    let (speed, burst) = text.split_once('/').unwrap_or((text, "1"));
    match (speed.parse(), burst.parse()) {
        (Ok(Rate::Bits(bits)), Ok(burst)) => Ok((bits, burst)),
        _ => Err("write a rate: 10M, 1.5G or 10M/8".to_owned()),
    }
}

/// Prints the progress, and handles Ctrl-C.
struct Terminal {
    json: bool,
    cancellation: Cancellation,
    in_order: bool,
    failed: bool,
    /// Intervals so far, for the report of an aborted test.
    intervals: Vec<Interval>,
}

impl Terminal {
    /// Prints a text; the reader of the output may have closed it, and a server continues.
    fn print(text: &str) {
        let mut output = std::io::stdout().lock();
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }

    /// Prints the data of an aborted test as JSON.
    fn print_failure(&mut self, error: &str) {
        let intervals = std::mem::take(&mut self.intervals);
        if self.json {
            messages::note_told();
            Self::print(&failure_to_json(&intervals, error));
        }
    }

    fn say(&self, line: &str) {
        if !self.json {
            Self::print(line);
        }
    }
}

impl Watch for Terminal {
    fn notice(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Listening(address) => eprintln!("listening at {address} for iperf3"),
            Notice::Accepted(peer) => self.say(&format!("{peer} begins a test")),
            Notice::Refused { peer, reason } => eprintln!("{peer} was refused: {reason}"),
            Notice::Connected { id, local, remote } => self.say(&format!("[{id:3}] {local} with {remote}")),
            Notice::Warning(warning) => eprintln!("warning: {warning}"),
            Notice::Interval(interval) => {
                self.intervals.push(interval.clone());
                self.say(&interval.to_string());
            }
            Notice::Ended(report) => {
                self.intervals.clear();
                self.in_order &= report.is_in_order();
                let text = if self.json { report.to_json() } else { report.to_string() };
                Self::print(text.trim_end());
            }
            Notice::Failed { peer, error } => {
                self.failed = true;
                self.print_failure(&error.to_string());
                eprintln!("the test with {peer} broke off: {error}");
            }
            _ => {}
        }
    }

    fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_have_bursts() {
        assert_eq!(paced("10M"), Ok((10_000_000, 1)));
        assert_eq!(paced("1K/8"), Ok((1_000, 8)));
        assert_eq!(paced("0"), Ok((0, 1)));
        for text in ["1K/x", "/8", "", "-1", "1e30", "10pps"] {
            assert!(paced(text).is_err(), "{text}");
        }
    }
}
