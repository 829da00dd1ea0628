//! `tallycast link`: an emulated network path with rate, delay, queue and loss, to test programs over.

mod conditions;
mod report;

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use emulator::{
    Between, BetweenError, BetweenOptions, Conditions, Manner, Relay, RelayOptions, Report, Trains,
    USUAL_ADDRESSES, USUAL_CLIENTS, USUAL_MTU, USUAL_NAME, Watch,
};
use serde_json::{Value, json};
use sys::{Cancellation, NamespaceError, TunError};
use units::text;

use self::conditions::ConditionArguments;
use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::signals::WithParent;
use crate::status_line::StatusLine;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast link --relay 127.0.0.1:7500 --to 127.0.0.1:7400 --rate 100M --delay 10ms --loss 1%
  tallycast link --relay 0.0.0.0:7500 --to 10.0.0.1:7400 --delay 50ms --lose 17,42 --reverse 'loss=0&rate=1M'
  sudo tallycast link --between lab-a lab-b --rate 1G --delay 10ms --queue 20ms --loss 0.01% --fifo 20

A relay needs no privilege: clients write to its address instead of the target's. Between two network namespaces, which
requires root, all IP traffic passes; create them with `ip netns add`.
Exit code 1: the run is invalid because of the emulator itself; the reason is printed. Do not use its results.";

/// Interval at which the progress is shown and the driver's thread is checked: its end has no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Relay UDP datagrams that clients send to this address
    #[arg(long, value_name = "ADDRESS", required_unless_present = "between", requires = "to")]
    relay: Option<String>,
    /// With --relay: the target, host:port
    #[arg(long, value_name = "ADDRESS", requires = "relay")]
    to: Option<String>,
    /// Emulate the path between two network namespaces (root)
    #[arg(long, value_names = ["NETNS", "NETNS"], num_args = 2, conflicts_with = "relay")]
    between: Option<Vec<String>>,
    /// With --between: name of the interface in both
    #[arg(long, value_name = "NAME", requires = "between", default_value = USUAL_NAME)]
    name: String,
    /// With --between: its address in each [default: 10.84.7.1/24 and 10.84.7.2/24]
    #[arg(long, value_names = ["ADDRESS/BITS", "ADDRESS/BITS"], num_args = 2, requires = "between", value_parser = network)]
    addresses: Option<Vec<(Ipv4Addr, u8)>>,
    /// With --between: its MTU
    #[arg(long, value_name = "BYTES", requires = "between", default_value_t = USUAL_MTU, value_parser = clap::value_parser!(u32).range(68..=65_535))]
    mtu: u32,
    /// Seed of all random decisions: the same seed repeats them
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// With --relay: most clients at once
    #[arg(long, value_name = "COUNT", default_value_t = USUAL_CLIENTS)]
    clients: usize,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Declare the run invalid if more than one datagram in a thousand is forwarded later than this
    #[arg(long, value_name = "TIME", value_parser = text::duration, default_value = "200us")]
    late: Duration,
    /// Receive and forward each datagram separately: for programs that measure the spacing of packet pairs
    #[arg(long)]
    split: bool,
    /// Delay due datagrams by up to this time to forward several at once: less CPU time, more delay
    #[arg(long, value_name = "TIME", value_parser = text::duration, default_value = "0s", conflicts_with = "split")]
    merge: Duration,
    /// Run at this real-time priority, 1 to 99: less lateness
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,
    /// Print the listening address and the report as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    #[command(flatten)]
    conditions: ConditionArguments,
    /// Override conditions for the forward direction, as in 'loss=0&rate=10M'
    #[arg(long, alias = "there", value_name = "CONDITIONS", help_heading = "Conditions, for each direction")]
    forward: Option<String>,
    /// Override conditions for the reverse direction
    #[arg(long, alias = "back", value_name = "CONDITIONS", help_heading = "Conditions, for each direction")]
    reverse: Option<String>,
    #[command(flatten)]
    parent: WithParent,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let cancellation = arguments.parent.cancellation()?;
    let conditions =
        arguments.conditions.directions(arguments.forward.as_deref(), arguments.reverse.as_deref())?;
    match (&arguments.relay, &arguments.to, arguments.between.as_deref()) {
        (Some(listen), Some(target), None) => relay(arguments, [listen, target], conditions, &cancellation),
        (None, None, Some([one, other])) => {
            between(arguments, [one, other].map(String::clone), conditions, &cancellation)
        }
        _ => {
            bail!("no path was named\nwrite --relay ADDRESS --to ADDRESS, or --between NETNS NETNS")
        }
    }
}

fn relay(
    arguments: &Arguments,
    [listen, target]: [&str; 2],
    [forward, reverse]: [Conditions; 2],
    cancellation: &Cancellation,
) -> anyhow::Result<Outcome> {
    let options = RelayOptions {
        listen: resolve(listen)?,
        target: resolve(target)?,
        forward,
        reverse,
        seed: arguments.seed,
        most_clients: arguments.clients,
        manner: arguments.manner(),
    };
    let ways = [options.forward.link()?.to_string(), options.reverse.link()?.to_string()];
    let target = options.target;
    let relay = Relay::open(options)?;
    let buffer = relay.granted_buffer();
    if buffer.clamped() {
        eprintln!("warning: {buffer}");
    }
    let at = relay.address();
    arguments.announce(
        &format!("relaying from {at} to {target}"),
        &json!({"event": "listening", "address": at.to_string(), "port": at.port()}),
        &ways,
    )?;
    let report = arguments.watch(cancellation, |watch| relay.run(watch))?;
    arguments.conclude(&report, &ways)
}

fn between(
    arguments: &Arguments,
    namespaces: [String; 2],
    [forward, reverse]: [Conditions; 2],
    cancellation: &Cancellation,
) -> anyhow::Result<Outcome> {
    let ways = [forward.link()?.to_string(), reverse.link()?.to_string()];
    let addresses =
        arguments.addresses.as_deref().and_then(|both| both.try_into().ok()).unwrap_or(USUAL_ADDRESSES);
    let text = format!(
        "carrying between {} ({}) and {} ({})",
        namespaces[0], addresses[0].0, namespaces[1], addresses[1].0
    );
    let event = json!({
        "event": "carrying",
        "namespaces": namespaces,
        "addresses": addresses.map(|(address, _)| address.to_string()),
        "name": arguments.name,
    });
    let (name, mtu, seed, manner) =
        (arguments.name.clone(), arguments.mtu, arguments.seed, arguments.manner());
    let options = BetweenOptions { namespaces, name, addresses, mtu, forward, reverse, seed, manner };
    let path = Between::open(options).map_err(|error| match error {
        BetweenError::Namespace(NamespaceError::NotPermitted { .. })
        | BetweenError::Tun(TunError::NotPermitted { .. }) => {
            anyhow!("{error}, or use a relay (--relay ADDRESS --to ADDRESS), which needs no privilege")
        }
        other => other.into(),
    })?;
    if path.lacks_trains() {
        eprintln!(
            "warning: this kernel does not support UDP segmentation at a TUN device (since Linux 6.2): each datagram is sent separately"
        );
    }
    arguments.announce(&text, &event, &ways)?;
    let report = arguments.watch(cancellation, |watch| path.run(watch))?;
    arguments.conclude(&report, &ways)
}

impl Arguments {
    fn manner(&self) -> Manner {
        let trains = if self.split { Trains::Split } else { Trains::Taken };
        Manner { trains, merge: self.merge, fifo: self.fifo }
    }

    fn announce(&self, text: &str, event: &Value, ways: &[String; 2]) -> anyhow::Result<()> {
        if self.json {
            return Ok(print_line(event)?);
        }
        let until = if self.duration.is_none() { "\nCtrl-C stops it and prints the report" } else { "" };
        eprintln!("{text}\nforward: {}\nreverse: {}{until}", ways[0], ways[1]);
        Ok(())
    }

    /// Runs the emulator on a thread until the end is requested, and shows the progress.
    fn watch(
        &self,
        cancellation: &Cancellation,
        drive: impl FnOnce(&Watch) -> std::io::Result<Report> + Send,
    ) -> anyhow::Result<Report> {
        let (watch, deadline) = (Watch::default(), Deadline::after(self.duration));
        let mut status = StatusLine::new(self.json);
        std::thread::scope(|scope| {
            let driver =
                std::thread::Builder::new().name("link".to_owned()).spawn_scoped(scope, || drive(&watch))?;
            while !driver.is_finished()
                && !deadline.is_over()
                && !cancellation.wait(deadline.left(POLL_INTERVAL))
            {
                status.show(|| report::progress(&watch.accounts()));
            }
            watch.stop();
            let report = driver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            status.clear();
            Ok(report?)
        })
    }

    fn conclude(&self, report: &Report, ways: &[String; 2]) -> anyhow::Result<Outcome> {
        let invalid = report.invalid_reasons(self.late);
        if self.json {
            print_line(&report::to_json(report, &invalid, ways, self.seed))?;
        } else {
            report::print(report, &invalid, &mut std::io::stdout().lock())?;
        }
        Ok(if invalid.is_empty() { Outcome::Fine } else { Outcome::Found })
    }
}

/// Reads an address with the bits that its network shares.
fn network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let wanted = || format!("invalid network address `{text}`: write 10.84.7.1/24");
    let (address, bits) = text.split_once('/').ok_or_else(wanted)?;
    let bits = bits.parse().ok().filter(|bits| (1..=31).contains(bits)).ok_or_else(wanted)?;
    Ok((address.parse().map_err(|_| wanted())?, bits))
}

/// Finds the address that a text names; of several the first.
fn resolve(text: &str) -> anyhow::Result<SocketAddr> {
    let wanted = || format!("invalid address `{text}`\nwrite host:port, as in 127.0.0.1:7500 or [::1]:7500");
    let mut found = text.to_socket_addrs().with_context(wanted)?;
    found.next().with_context(wanted)
}
