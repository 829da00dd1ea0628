//! Options that all of `lab` has in common.

use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;
use cc_lab::{Comparison, Competitor, Hosts, Path};
use clap::{Args, ValueEnum};
use sim::CrossTraffic;
use units::text;

/// A packet has no less room than UDT's handshake needs, and no more than IP has.
const PACKET_BYTES: std::ops::RangeInclusive<u32> = 128..=65_535;
/// Above it a run takes hours.
const MOST_FLOWS: usize = 256;

/// Controls and durations of the runs.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct Setting {
    /// Controls, each with its options as in `fast?alpha=20`; `all` is every built-in control
    #[arg(
        long,
        short = 'C',
        visible_alias = "congestion",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "reno,cubic,udt"
    )]
    cc: Vec<String>,
    /// Rate of the bottleneck, including all headers
    #[arg(long, value_name = "RATE", value_parser = text::bits_per_second, default_value = "100M")]
    rate: f64,
    /// Queue of the bottleneck: 64KiB, 5ms at its rate, or 1bdp (bandwidth-delay product)
    #[arg(long, value_name = "SIZE", default_value = "1bdp")]
    queue: Queue,
    /// Largest packet, including the IP header
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    mtu: u32,
    /// Packets to lose at the bottleneck, by number, counted from 0
    #[arg(long, value_name = "NUMBER,…", value_delimiter = ',')]
    lose: Vec<u64>,
    /// Rate of unresponsive cross traffic through the bottleneck
    #[arg(long, value_name = "RATE", value_parser = text::bits_per_second)]
    others: Option<f64>,
    /// Ideal hosts without processing time, or real ones that take time, wake up late and stall
    #[arg(long, value_enum, default_value = "ideal")]
    hosts: HostKind,
    /// Flows of each control that share the path
    #[arg(long, value_name = "COUNT", default_value = "1")]
    flows: usize,
    /// Number of runs, each with its own seed; the report shows their median
    #[arg(long, value_name = "COUNT", default_value = "3")]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    first_seed: u64,
    /// Duration of each run, in virtual time
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration, default_value = "20s")]
    duration: Duration,
    /// Initial part of each run that does not count [default: a quarter of the run]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    warm_up: Option<Duration>,
}

/// Kind of the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum HostKind {
    Ideal,
    Real,
}

/// Maximum queue before the bottleneck.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Queue {
    Bytes(u64),
    Time(Duration),
    RoundTrips(f64),
}

/// The error of a queue that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid queue `{0}`: write 64KiB, 5ms or 1bdp")]
pub(super) struct QueueError(String);

impl FromStr for Queue {
    type Err = QueueError;

    fn from_str(text: &str) -> Result<Self, QueueError> {
        let error = || QueueError(text.to_owned());
        if let Some(number) = text.to_ascii_lowercase().strip_suffix("bdp") {
            let times: f64 = number.trim().parse().map_err(|_| error())?;
            return Some(Self::RoundTrips(times)).filter(|_| (0.0..=1e3).contains(&times)).ok_or_else(error);
        }
        text::duration(text)
            .map(Self::Time)
            .or_else(|_| text::size_bytes(text).map(|bytes| Self::Bytes(bytes as u64)))
            .map_err(|_| error())
    }
}

impl Setting {
    /// Makes the comparison on a path with this round trip and loss.
    pub(super) fn comparison(&self, round_trip: Duration, loss: f64) -> anyhow::Result<Comparison> {
        self.check(round_trip)?;
        let mut path = Path::new(whole(self.rate), round_trip);
        path.packet_bytes = self.mtu;
        path.queue_bytes = match self.queue {
            Queue::Bytes(bytes) => bytes,
            Queue::Time(time) => whole(self.rate / 8.0 * time.as_secs_f64()),
            Queue::RoundTrips(times) => path.queue_of(times),
        };
        path.loss = loss;
        path.lost.clone_from(&self.lose);
        path.others = self.others.map(|rate| CrossTraffic::poisson(whole(rate)));
        let competitors = self.competitors(&path)?;
        let mut comparison = Comparison::new(path, competitors);
        comparison.flows = self.flows;
        comparison.duration = self.duration;
        comparison.warm_up = self.warm_up.unwrap_or(self.duration / 4);
        comparison.hosts = match self.hosts {
            HostKind::Ideal => Hosts::Ideal,
            HostKind::Real => Hosts::Real,
        };
        comparison.seeds = (0..self.seeds).map(|index| self.first_seed.wrapping_add(index)).collect();
        Ok(comparison)
    }

    fn check(&self, round_trip: Duration) -> anyhow::Result<()> {
        if !PACKET_BYTES.contains(&self.mtu) {
            let (least, most) = (PACKET_BYTES.start(), PACKET_BYTES.end());
            bail!("packets of {} bytes are not possible\nwrite --mtu from {least} to {most}", self.mtu);
        }
        if round_trip.is_zero() {
            bail!("a round-trip time of 0 is not possible\nwrite --rtt 100us or longer");
        }
        if self.flows == 0 || self.flows > MOST_FLOWS {
            bail!("{} flows cannot be compared\nwrite --flows from 1 to {MOST_FLOWS}", self.flows);
        }
        if self.seeds == 0 {
            bail!("0 seeds give no run\nwrite --seeds 1 or more");
        }
        if self.duration < round_trip * 10 {
            bail!("{:?} is less than ten round trips\nwrite a longer --duration", self.duration);
        }
        if self.warm_up.is_some_and(|warm_up| warm_up >= self.duration) {
            bail!("nothing is measured: the warm-up is as long as the run\ngive a shorter --warm-up");
        }
        Ok(())
    }

    fn competitors(&self, path: &Path) -> anyhow::Result<Vec<Competitor>> {
        let mut competitors = Vec::new();
        for name in &self.cc {
            if name == "all" {
                competitors.extend(Competitor::all(path, self.flows));
            } else {
                competitors.push(Competitor::at_share(name, path, self.flows)?);
            }
        }
        Ok(competitors)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and sizes are positive; `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bytes_time_or_round_trips() {
        assert_eq!("64KiB".parse(), Ok(Queue::Bytes(65_536)));
        assert_eq!("5ms".parse(), Ok(Queue::Time(Duration::from_millis(5))));
        assert_eq!("0.5bdp".parse(), Ok(Queue::RoundTrips(0.5)));
        assert_eq!("2 BDP".parse(), Ok(Queue::RoundTrips(2.0)));
        for text in ["", "bdp", "-1bdp", "nanbdp", "much", "5 apples"] {
            assert!(text.parse::<Queue>().is_err(), "{text}");
        }
    }
}
