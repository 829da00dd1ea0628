//! The conditions of a path as they are written on the command line, for both directions and for one.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Parser};
use emulator::{Conditions, Order};
use units::text;

use crate::quantity::Probability;

/// Conditions of each direction of the path.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Conditions, for each direction")]
pub(crate) struct ConditionArguments {
    /// Rate of the bottleneck, including all headers, such as 100M
    #[arg(long, value_name = "RATE", value_parser = text::bits_per_second)]
    rate: Option<f64>,
    /// Queue of the bottleneck, such as 64KiB or 20ms [default: rate × twice the delay, at least 10 ms]
    #[arg(long, value_name = "SIZE|TIME")]
    queue: Option<Queue>,
    /// One-way delay
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    delay: Option<Duration>,
    /// Additional delay, uniformly distributed up to this
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    jitter: Option<Duration>,
    /// Let jitter reorder datagrams
    #[arg(long)]
    jitter_reorders: bool,
    /// Random loss, such as 1% or 0.001
    #[arg(long, value_name = "PART")]
    loss: Option<Probability>,
    /// Burst loss and its mean length in datagrams: 1%:4
    #[arg(long, value_name = "PART:LENGTH", value_parser = burst)]
    burst: Option<(f64, f64)>,
    /// Lose exactly these datagrams, counted from 0: 17,42
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    lose: Option<Vec<u64>>,
    /// Share of datagrams that are reordered, and by how much: 1%:2ms
    #[arg(long, value_name = "PART:TIME", value_parser = held_back)]
    reorder: Option<(f64, Duration)>,
    /// Share of datagrams that are duplicated, and the delay of the copy: 1% or 1%:2ms
    #[arg(long, value_name = "PART[:TIME]", value_parser = duplicate)]
    duplicate: Option<(f64, Duration)>,
    /// Share of datagrams with a flipped bit, which the checksum detects
    #[arg(long, value_name = "PART")]
    corrupt: Option<Probability>,
    /// Largest packet that passes, in bytes, including the headers of IP and UDP
    #[arg(long, value_name = "BYTES")]
    path_mtu: Option<usize>,
    /// Outage, in time since the start: 2s..3s
    #[arg(long, value_name = "TIME..TIME", value_parser = span)]
    outage: Vec<Range<Duration>>,
}

/// A queue by its size, or by its delay at the bottleneck's rate.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Queue {
    Bytes(usize),
    Time(Duration),
}

/// The argument of `--forward` and `--reverse`.
#[derive(Parser, Debug)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct OneDirection {
    #[command(flatten)]
    conditions: ConditionArguments,
}

impl ConditionArguments {
    /// Returns the conditions of both directions.
    pub(crate) fn directions(
        &self,
        forward: Option<&str>,
        reverse: Option<&str>,
    ) -> anyhow::Result<[Conditions; 2]> {
        let direction =
            |text: Option<&str>| text.map_or_else(|| self.conditions(), |text| self.but(text)?.conditions());
        Ok([direction(forward)?, direction(reverse)?])
    }

    /// Returns these conditions with those of a text in their place, as in `rate=1M&jitter-reorders`.
    fn but(&self, text: &str) -> anyhow::Result<Self> {
        let words = text.split('&').filter(|word| !word.is_empty()).map(|word| format!("--{}", word.trim()));
        let mut one = OneDirection { conditions: self.clone() };
        one.try_update_from(words).map_err(|error| {
            let said = error.to_string().replace("--", "");
            let first = said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            anyhow!("invalid conditions `{text}`: {first}\nwrite them as in loss=0.1%&rate=10M&delay=30ms")
        })?;
        one.conditions.jitter_reorders |= self.jitter_reorders;
        Ok(one.conditions)
    }

    fn conditions(&self) -> anyhow::Result<Conditions> {
        if self.jitter_reorders && self.jitter.is_none() {
            bail!("--jitter-reorders needs jitter\ngive --jitter TIME too");
        }
        let part = |part: Option<Probability>| part.unwrap_or_default().0;
        Ok(Conditions {
            rate_bits_per_s: self.rate.map(whole),
            queue_bytes: self.queue.map(|queue| queue.bytes(self.rate)).transpose()?,
            delay: self.delay.unwrap_or_default(),
            jitter: self.jitter.unwrap_or_default(),
            order: if self.jitter_reorders { Order::Free } else { Order::Kept },
            loss: part(self.loss),
            bursts: self.burst,
            placed: self.lose.clone().unwrap_or_default(),
            reorder: self.reorder,
            duplicate: self.duplicate,
            corruption: part(self.corrupt),
            largest_packet_bytes: self.path_mtu,
            outages: self.outage.clone(),
        })
    }
}

impl Queue {
    fn bytes(self, rate: Option<f64>) -> anyhow::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes as u64),
            Self::Time(time) => {
                let rate = rate.context("a queue needs a rate\ngive --rate too")?;
                Ok(whole(rate * time.as_secs_f64() / 8.0))
            }
        }
    }
}

impl std::str::FromStr for Queue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |_| text::duration(text).map(Self::Time);
        let is_none_of_both = |_| format!("invalid queue `{text}`: write 64KiB, 1MB or 20ms");
        text::size_bytes(text).map(Self::Bytes).or_else(time).map_err(is_none_of_both)
    }
}

/// Rounds a rate to whole bits: at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above zero, and saturates")]
const fn whole(value: f64) -> u64 {
    value.max(1.0) as u64
}

fn burst(text: &str) -> Result<(f64, f64), String> {
    let wanted =
        || format!("invalid burst loss `{text}`: write 1%:4, the share of datagrams and the mean length");
    let (share, mean) = text.split_once(':').ok_or_else(wanted)?;
    let share: Probability = share.parse().map_err(|_| wanted())?;
    Ok((share.0, mean.trim().parse().map_err(|_| wanted())?))
}

fn held_back(text: &str) -> Result<(f64, Duration), String> {
    let wanted = || format!("invalid value `{text}`: write 1%:2ms, the share of datagrams and the delay");
    let (part, time) = text.split_once(':').ok_or_else(wanted)?;
    let part: Probability = part.parse().map_err(|_| wanted())?;
    Ok((part.0, text::duration(time).map_err(|_| wanted())?))
}

fn duplicate(text: &str) -> Result<(f64, Duration), String> {
    if text.contains(':') {
        return held_back(text);
    }
    let part: Probability = text.parse().map_err(|error: text::QuantityError| error.to_string())?;
    Ok((part.0, Duration::ZERO))
}

fn span(text: &str) -> Result<Range<Duration>, String> {
    let wanted = || format!("invalid time range `{text}`: write 2s..3s");
    let (from, to) = text.split_once("..").ok_or_else(wanted)?;
    let moment = |text| text::duration(text).map_err(|_| wanted());
    Ok(moment(from)?..moment(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directions(
        both: &str,
        forward: Option<&str>,
        reverse: Option<&str>,
    ) -> anyhow::Result<[Conditions; 2]> {
        ConditionArguments::default().but(both)?.directions(forward, reverse)
    }

    #[test]
    fn one_direction_differs_from_both_in_what_is_said_of_it() {
        let both =
            "rate=100M&queue=20ms&delay=10ms&loss=1%&lose=17,42&burst=2%:4&reorder=1%:2ms&duplicate=3%";
        let [forward, reverse] =
            directions(both, None, Some("loss=0&rate=8M&lose=5&jitter=1ms&jitter-reorders")).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!((forward.rate_bits_per_s, forward.queue_bytes), (Some(100_000_000), Some(250_000)));
        assert_eq!(
            (forward.loss, forward.bursts, forward.placed.clone()),
            (0.01, Some((0.02, 4.0)), vec![17, 42])
        );
        assert_eq!(
            (forward.reorder, forward.duplicate),
            (Some((0.01, second / 500)), Some((0.03, Duration::ZERO)))
        );
        let expected = Conditions {
            rate_bits_per_s: Some(8_000_000),
            queue_bytes: Some(20_000),
            loss: 0.0,
            placed: vec![5],
            jitter: second / 1_000,
            order: Order::Free,
            ..forward
        };
        assert_eq!(reverse, expected);
        let [forward, _] =
            directions("", Some("outage=2s..3s&path-mtu=1400&corrupt=1%&duplicate=1%:1s"), None).unwrap();
        assert_eq!(
            (forward.outages, forward.largest_packet_bytes),
            (vec![2 * second..3 * second], Some(1_400))
        );
        assert_eq!((forward.corruption, forward.duplicate), (0.01, Some((0.01, second))));
        let both = "jitter=1ms&jitter-reorders&outage=1s..2s";
        let [forward, reverse] = directions(both, Some("loss=1%"), Some("outage=5s..6s")).unwrap();
        assert_eq!((forward.order, forward.outages), (Order::Free, vec![second..2 * second]));
        assert_eq!((reverse.order, reverse.outages), (Order::Free, vec![5 * second..6 * second]));
    }

    #[test]
    fn what_says_nothing_is_refused_with_the_way_to_write_it() {
        for (text, wanted) in [
            ("loss=two", "probability"),
            ("queue=much&rate=1M", "64KiB"),
            ("queue=20ms", "give --rate too"),
            ("burst=1%", "1%:4"),
            ("reorder=1%", "1%:2ms"),
            ("outage=2s", "2s..3s"),
            ("turbo=1", "unexpected argument"),
            ("jitter-reorders", "give --jitter"),
            ("rate=fast", "a rate"),
            ("lose=a", "invalid"),
        ] {
            let said = directions(text, None, None).unwrap_err().to_string();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
