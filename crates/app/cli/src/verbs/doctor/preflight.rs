//! `tallycast doctor preflight`: tests whether a group works between hosts, in both directions, and lasts.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use doctor::{Check, Judgement, Newcomer, Preflight, PreflightOptions, Wishes};
use serde_json::json;
use sys::Interface;
use units::text;

use super::audit;
use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast doctor preflight                    on two hosts or more, at the same time
  tallycast doctor preflight 239.84.0.0 --interface eth1
  tallycast doctor preflight --peer daq-3       where the group may not pass at all
  tallycast doctor preflight --duration 6m      long enough for a switch to forget the group

Each host sends ten small probes a second to the group and to the hosts it receives from, and reports
in them what it received; so each knows both directions. Probes use a separate port and do not disturb the streams.
Exit codes: 0 all is well, 1 something may cost data, 2 something will, or it could not be checked.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Group, with a port if it differs [default: the bus's group of announcements, port 7409]
    #[arg(value_name = "GROUP")]
    group: Option<String>,
    /// Interface on which to join and send [default: that of the bus]
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,
    /// Host to send unicast probes to from the beginning; may be given several times
    #[arg(long = "peer", value_name = "HOST")]
    peers: Vec<String>,
    /// Duration of the test
    #[arg(long, short = 't', value_name = "DURATION", default_value = "10s", value_parser = text::duration)]
    duration: Duration,
    /// One JSON object per check, one per line
    #[arg(long, short = 'J')]
    json: bool,
}

/// Streams have other ports: their readers must not wonder about datagrams that are not theirs.
const PORT: u16 = 7_409;

/// Checks of an audit that affect groups.
const OF_GROUPS: [&str; 5] = ["rp-filter", "multicast-interface", "multicast-route", "mtu", "group-"];

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let Arguments { group, interface, peers, duration, json } = arguments;
    let settings = sources.load()?;
    let bus = settings.bus()?;
    let group = group
        .map_or_else(|| Ok(SocketAddr::new(bus.announcements().ip(), PORT)), |text| parse_group(&text))?;
    let interface =
        interface.or_else(|| bus.interface.clone()).map(|name| Interface::find(&name)).transpose()?;
    let hosts = peers.iter().map(|name| resolve(name, group)).collect::<anyhow::Result<Vec<_>>>()?;
    let cancellation = signals::cancellation()?;
    let station = settings.node()?.station().to_owned();
    let ttl = bus.ttl.unwrap_or(1);
    let names: Vec<String> = interface.iter().map(|it| it.name.clone()).collect();
    let mut preflight = Preflight::begin(PreflightOptions { group, interface, ttl, station, hosts })?;
    begin(group, &names, duration, json)?;
    let deadline = Deadline::after(Some(duration));
    while !deadline.is_over() && !cancellation.is_cancelled() {
        for newcomer in preflight.step().context("the sockets can no longer be read")? {
            report(&newcomer, json)?;
        }
    }
    let mut checks = preflight.judge();
    if let Some(why) = preflight.refused() {
        eprintln!("warning: probes to {group} did not leave this host: {why}");
    }
    // The setup of this host matters only where something was found.
    if checks.iter().any(|it| it.judgement > Judgement::NotSeen) {
        checks.extend(of_this_host(names));
    }
    audit::report_all(&checks, json)
}

/// Returns what an audit of this host finds wrong that bears on groups.
fn of_this_host(interfaces: Vec<String>) -> Vec<Check> {
    let checks = doctor::audit(
        &Wishes { bytes_per_second: None, longest_pause: Duration::ZERO, round_trip: None },
        &interfaces.into_iter().collect(),
    );
    let bears = |it: &Check| {
        it.judgement > Judgement::NotSeen && OF_GROUPS.iter().any(|check| it.name.starts_with(check))
    };
    checks.into_iter().filter(bears).collect()
}

fn begin(group: SocketAddr, interfaces: &[String], duration: Duration, json: bool) -> std::io::Result<()> {
    if json {
        return print_line(&json!({
            "event": "looking", "group": group.to_string(), "interface": interfaces.first(), "seconds": duration.as_secs_f64(),
        }));
    }
    let at = interfaces.first().map_or_else(String::new, |name| format!(" on {name}"));
    eprintln!("probes to {group}{at} for {duration:?}; run the same on the other hosts now");
    Ok(())
}

fn report(newcomer: &Newcomer, json: bool) -> std::io::Result<()> {
    let Newcomer { station, address } = newcomer;
    if json {
        return print_line(&json!({ "event": "heard", "station": station, "address": address.to_string() }));
    }
    eprintln!("receiving from {station} ({address})");
    Ok(())
}

fn parse_group(text: &str) -> anyhow::Result<SocketAddr> {
    let with_port = || text.parse::<SocketAddr>().ok();
    let group = text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT)).or_else(with_port);
    let group = group.with_context(|| {
        format!("`{text}` is no group: give an address such as 239.84.0.0 or 239.84.0.0:{PORT}")
    })?;
    anyhow::ensure!(
        group.ip().is_multicast(),
        "{} is not a multicast group: IPv4 groups begin with 224 to 239, IPv6 groups with ff",
        group.ip()
    );
    Ok(group)
}

fn resolve(name: &str, group: SocketAddr) -> anyhow::Result<IpAddr> {
    let addresses =
        (name, PORT).to_socket_addrs().with_context(|| format!("no address is known for {name}"))?;
    let mut of_version = addresses.map(|it| it.ip()).filter(|ip| ip.is_ipv4() == group.is_ipv4());
    of_version.next().with_context(|| format!("{name} has no address of the group's IP version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_may_have_a_port_and_an_address_of_a_host_is_none() {
        assert_eq!(parse_group("239.84.0.0").unwrap(), "239.84.0.0:7409".parse().unwrap());
        assert_eq!(parse_group("[ff15::1]:7000").unwrap(), "[ff15::1]:7000".parse().unwrap());
        assert!(parse_group("10.0.0.1").unwrap_err().to_string().contains("not a multicast group"));
        assert!(parse_group("group").unwrap_err().to_string().contains("no group"));
    }
}
