//! The grid of a sweep, and the measurement of each of its points.

use std::time::Duration;

use clap::Args;

use crate::cpu_load::CpuLoad;
use crate::notation::{NotationError, millionths, size, time};
use crate::options::{OptionsError, check_effects, check_grid, defaults};
use crate::throughput::{self, LossFree, Protocol, Rate};

/// Maximum number of points of a grid.
const MOST_POINTS: u128 = 10_000;

/// The time a run takes on top of its duration: waiting for the last datagrams, and the control messages.
const RUN_OVERHEAD: Duration = Duration::from_millis(400);

/// A grid: every combination of the listed values is a point. The default is the sizes of the Wendelstein 7-X monitoring
/// paper at full speed, with the system's buffers; three runs of one second each.
#[derive(Args, Clone, PartialEq, Debug)]
#[group(skip)]
pub struct Options {
    /// Send buffers; `system` keeps the system's.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = buffer, default_value = "system")]
    pub send_buffers: Vec<Option<usize>>,
    /// Receive buffers; `system` keeps the system's.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = buffer, default_value = "system")]
    pub receive_buffers: Vec<Option<usize>>,
    /// Bytes in each datagram.
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size, default_value = "64,256,1024,1472")]
    pub payloads: Vec<usize>,
    /// Sending rates: 100M, or 200kpps; 0 is as fast as possible.
    #[arg(long, value_name = "RATE,…", value_delimiter = ',', default_value = "0")]
    pub rates: Vec<Rate>,
    /// CPU load to put on the receiver's host, as a share of the time.
    #[arg(
        long = "cpu-load",
        alias = "burn",
        value_name = "PART,…",
        value_delimiter = ',',
        value_parser = millionths,
        default_value = "0%"
    )]
    pub cpu_loads_ppm: Vec<u32>,
    /// Threads that generate the CPU load [default: one per processor].
    #[arg(long, alias = "burn-workers", value_name = "COUNT")]
    pub cpu_load_workers: Option<u32>,
    /// Send trains of datagrams that the kernel handles as one packet (UDP_SEGMENT).
    #[arg(long)]
    pub gso: bool,
    /// Receive trains of datagrams as one packet (UDP_GRO); drops are then counted in trains.
    #[arg(long)]
    pub gro: bool,
    /// Search the highest rate, up to each of --rates, with no more loss than this.
    #[arg(long = "loss-below", value_name = "PART", value_parser = millionths)]
    pub loss_below_ppm: Option<u32>,
    /// Resolution of the search [default: a hundredth of the rate found].
    #[arg(long, value_name = "RATE", requires = "loss_below_ppm")]
    pub step: Option<Rate>,
    /// Duration of a run: seconds, or a duration such as 500ms.
    #[arg(short = 't', long = "time", visible_alias = "duration", value_name = "TIME", default_value = "1", value_parser = time)]
    pub duration: Duration,
    /// Runs of each point.
    #[arg(long = "repeat", value_name = "COUNT", default_value = "3")]
    pub repeats: u32,
}

/// Settings of a point of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The send buffer; none is the system's.
    pub send_buffer: Option<usize>,
    /// The receive buffer; none is the system's.
    pub receive_buffer: Option<usize>,
    /// Bytes in each datagram.
    pub payload: usize,
    /// Rate of the sender.
    pub rate: Rate,
    /// The CPU load to apply on the receiver's host, in millionths of the time.
    pub cpu_load_ppm: u32,
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    /// Checks every point.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        let lists = [
            ("--send-buffers", self.send_buffers.len()),
            ("--receive-buffers", self.receive_buffers.len()),
            ("--payloads", self.payloads.len()),
            ("--rates", self.rates.len()),
            ("--cpu-load", self.cpu_loads_ppm.len()),
        ];
        check_grid(&lists, MOST_POINTS)?;
        let is_loaded = self.cpu_loads_ppm.iter().any(|ppm| *ppm > 0);
        let ignores_workers = self.cpu_load_workers.is_some() && !is_loaded;
        check_effects(&[(ignores_workers, "--cpu-load-workers", "without a load", "add --cpu-load 50%")])?;
        let mut places = self.places().into_iter();
        places
            .try_for_each(|place| self.check_point(&place))
            .map_err(|error| OptionsError::Point(error.into()))
    }

    fn check_point(&self, place: &Place) -> Result<(), OptionsError> {
        let flow = self.flow(place);
        flow.check()?;
        self.search(place)?.map_or(Ok(()), |search| search.check(&flow))
    }

    /// Returns every point, in the order of measuring: points that are compared follow each other.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for rate in &self.rates {
            for send_buffer in &self.send_buffers {
                for receive_buffer in &self.receive_buffers {
                    for payload in &self.payloads {
                        for cpu_load_ppm in &self.cpu_loads_ppm {
                            places.push(Place {
                                send_buffer: *send_buffer,
                                receive_buffer: *receive_buffer,
                                payload: *payload,
                                rate: *rate,
                                cpu_load_ppm: *cpu_load_ppm,
                            });
                        }
                    }
                }
            }
        }
        places
    }

    /// Returns the options of the flow at a point.
    #[must_use]
    pub fn flow(&self, place: &Place) -> throughput::Options {
        let load = CpuLoad { share_ppm: place.cpu_load_ppm, workers: self.cpu_load_workers };
        throughput::Options {
            protocol: Protocol::Udp,
            rate: Some(self.rate_of_flow(place)),
            payload_bytes: Some(place.payload),
            send_buffer_bytes: place.send_buffer,
            buffer_bytes: place.receive_buffer,
            duration: self.duration,
            interval: self.duration,
            repeats: self.repeats,
            load: (place.cpu_load_ppm > 0).then_some(load),
            gso: self.gso,
            gro: self.gro,
            ..throughput::Options::default()
        }
    }

    /// Returns the rate of a flow. A search uses bits per second, whatever the unit of its limit.
    fn rate_of_flow(&self, place: &Place) -> Rate {
        match self.loss_below_ppm {
            Some(_) => Rate::Bits(place.rate.bits_per_second(place.payload)),
            None => place.rate,
        }
    }

    /// Returns the search at a point, if one was requested.
    pub(super) fn search(&self, place: &Place) -> Result<Option<LossFree>, OptionsError> {
        let smallest = self.payloads.iter().copied().min().unwrap_or(1);
        let step = self.step.map(|step| step.bits_per_second(smallest));
        let of = |most_lost_ppm| {
            let search = LossFree::of(&self.flow(place), step)?;
            Ok(LossFree { most_lost_ppm, ..search })
        };
        self.loss_below_ppm.map(of).transpose()
    }

    /// Returns the approximate duration of the whole, if nothing fails; a search takes as long as its host lets
    /// it.
    #[must_use]
    pub fn about(&self) -> Duration {
        let runs = u32::try_from(self.places().len()).unwrap_or(u32::MAX).saturating_mul(self.repeats);
        (self.duration + RUN_OVERHEAD).saturating_mul(runs)
    }
}

/// Reads a socket buffer: a size, or `system`.
fn buffer(text: &str) -> Result<Option<usize>, NotationError> {
    if text == "system" { Ok(None) } else { size(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ignored;

    #[test]
    fn every_combination_is_a_point_and_with_and_without_load_follow_each_other() {
        let options = Options {
            receive_buffers: vec![None, Some(1 << 20)],
            payloads: vec![64, 1_472],
            cpu_loads_ppm: vec![0, 500_000],
            ..Options::default()
        };
        let places = options.places();
        assert_eq!((options.check(), places.len()), (Ok(()), 8));
        assert_eq!((places[0].cpu_load_ppm, places[1].cpu_load_ppm), (0, 500_000));
        assert_eq!((places[0].payload, places[1].payload, places[2].payload), (64, 64, 1_472));
        assert!(options.flow(&places[0]).load.is_none() && options.flow(&places[1]).load.is_some());
    }

    #[test]
    fn what_a_flow_refuses_the_grid_refuses() {
        let refused = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(|it| it.payloads = vec![65_508]).contains("from 0 to 65507, not 65508"));
        assert!(refused(|it| it.rates.clear()).contains("--rates is empty"));
        assert!(refused(|it| it.cpu_loads_ppm = vec![1_000_001]).contains("--cpu-load"));
        assert!(refused(|it| it.payloads = vec![100; 10_001]).contains("10001 points"));
        let search = Options { loss_below_ppm: Some(1_000), ..Options::default() };
        assert!(search.check().unwrap_err().to_string().contains("needs its limit"));
        let limited = Options { rates: vec![Rate::Bits(1_000_000)], ..search };
        assert_eq!(limited.check(), Ok(()));
        let workers = |cpu_load| Options {
            cpu_load_workers: Some(2),
            cpu_loads_ppm: vec![0, cpu_load],
            ..Options::default()
        };
        assert_eq!(ignored(workers(0).check()), Some("--cpu-load-workers"));
        assert_eq!(workers(1).check(), Ok(()));
    }

    #[test]
    fn a_limit_in_datagrams_is_one_in_bits_for_a_search_and_trains_are_passed_on() {
        let options = Options {
            rates: vec![Rate::Units(1_000)],
            payloads: vec![100],
            loss_below_ppm: Some(1_000),
            gro: true,
            ..Options::default()
        };
        let flow = options.flow(&options.places()[0]);
        assert_eq!((flow.rate, flow.gso, flow.gro), (Some(Rate::Bits(800_000)), false, true));
        assert_eq!(options.check(), Ok(()));
        let plain = Options { loss_below_ppm: None, ..options };
        assert_eq!(plain.flow(&plain.places()[0]).rate, Some(Rate::Units(1_000)));
    }
}
