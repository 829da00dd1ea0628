//! Figures of a report: the largest array over the cycle time, with a dot for every search and a line through
//! the medians.
//!
//! Drawn like figures 2 to 8 of Scollo: for each processor quota one chart with all transports, and one for
//! each transport alone, where its spread is visible.

use drawing::{Axis, COLOURS, Chart, Point, Series};

use super::report::{Found, Report};
use super::transport::Transport;

/// Distance between the points of two transports, so that neither hides the other. Units: parts of the x axis.
const APART: f64 = 0.012;

/// Charts of a processor quota.
pub(super) struct Figures {
    /// The quota; `None` without one.
    pub(super) cpus: Option<f64>,
    pub(super) charts: Vec<Chart>,
}

impl Report {
    /// Returns the charts of each processor quota, in the order of measuring; quotas without a measured point
    /// have none.
    pub(super) fn figures(&self) -> Vec<Figures> {
        let of = |cpus: &Option<f64>| Figures { cpus: *cpus, charts: self.charts_of(*cpus) };
        self.start.options.cpus.iter().map(of).filter(|figures| !figures.charts.is_empty()).collect()
    }

    /// Returns the charts of a quota: all transports together, then each alone.
    fn charts_of(&self, cpus: Option<f64>) -> Vec<Chart> {
        let measured: Vec<Transport> =
            Transport::ALL.into_iter().filter(|it| !self.medians(cpus, *it).is_empty()).collect();
        let together = Some(&measured[..]).filter(|all| all.len() > 1);
        together.into_iter().chain(measured.chunks(1)).map(|these| self.chart(cpus, these)).collect()
    }

    fn chart(&self, cpus: Option<f64>, transports: &[Transport]) -> Chart {
        let names: Vec<String> = transports.iter().map(|it| it.name().to_uppercase()).collect();
        let quota = cpus.map_or("without a CPU quota".to_owned(), |cpus| format!("at {cpus} CPUs"));
        let medians: Vec<Vec<Point>> = transports.iter().map(|it| self.medians(cpus, *it)).collect();
        let times = || medians.iter().flatten().map(|median| median.x);
        let (first, last) = (times().fold(f64::MAX, f64::min), times().fold(0.0, f64::max));
        let room = if last > first { (last - first) * 0.06 } else { last * 0.5 };
        let (from, to) = ((first - room).max(0.0), last + room);
        let mut series = Vec::new();
        if self.has_reached_limit(cpus, transports) {
            let points = [from, to].map(|x| Point::plain(x, self.start.options.limit.into())).to_vec();
            series.push(Series { name: "limit of the search".to_owned(), colour: COLOURS[6], points });
        }
        for (index, (transport, medians)) in transports.iter().zip(&medians).enumerate() {
            // The middle one of an odd number is at its exact place.
            let place = index as f64 - (transports.len() - 1) as f64 / 2.0;
            let aside = place * APART * (to - from);
            let moved = |points: Vec<Point>| {
                points.into_iter().map(|point| Point { x: point.x + aside, ..point }).collect()
            };
            let [strong, faint] = match transport {
                Transport::Udp => [COLOURS[1], COLOURS[0]],
                Transport::Shm => [COLOURS[3], COLOURS[2]],
            };
            let name = format!("{}: medians, and every search", transport.name().to_uppercase());
            let searches = moved(self.searches(cpus, *transport));
            series.push(Series { name: String::new(), colour: faint, points: searches });
            series.push(Series { name, colour: strong, points: moved(medians.clone()) });
        }
        let x = Axis::linear_from(from, "cycle time [ms]", to);
        let y = Axis::linear("largest array [u32 elements]", 10.0);
        Chart { title: format!("{} {quota}", names.join(" and ")), x, y, series }
    }

    /// Returns the medians of a transport in the order of cycle times; noisy ones are hollow.
    fn medians(&self, cpus: Option<f64>, transport: Transport) -> Vec<Point> {
        let points = self.points_of(cpus, transport).filter_map(|point| {
            let is_hollow = !point.noise().is_empty();
            Some(Point { is_hollow, ..Point::plain(point.cycle_time_ms(), point.elements()?.median) })
        });
        let mut points: Vec<Point> = points.collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    /// Returns every search of a transport, with a hole behind each: no line joins them.
    fn searches(&self, cpus: Option<f64>, transport: Transport) -> Vec<Point> {
        let of_point = |point: &super::report::Point| {
            let x = point.cycle_time_ms();
            let sizes: Vec<f64> = point.searches().iter().map(|search| search.elements as f64).collect();
            sizes.into_iter().flat_map(move |size| [Point::plain(x, size), Point::plain(x, f64::NAN)])
        };
        self.points_of(cpus, transport).flat_map(of_point).collect()
    }

    fn has_reached_limit(&self, cpus: Option<f64>, transports: &[Transport]) -> bool {
        let points = transports.iter().flat_map(|transport| self.points_of(cpus, *transport));
        points.flat_map(super::report::Point::searches).any(|search| search.found == Found::Limit)
    }

    fn points_of(
        &self,
        cpus: Option<f64>,
        transport: Transport,
    ) -> impl Iterator<Item = &super::report::Point> {
        self.points.iter().filter(move |it| it.cpus == cpus && it.transport == transport)
    }

    /// Returns the header of a picture, as on a page: every figure names its host and its rules.
    pub(super) fn header(&self) -> String {
        let noise = self.noise_in_short().map(|points| format!("; {points} are noisy (hollow medians)"));
        let noise = noise.unwrap_or_default();
        format!("{}\n{}{noise}", self.host_in_words(), self.rules_in_words())
    }
}

impl super::report::Point {
    #[expect(clippy::cast_precision_loss, reason = "times are far below 2^53")]
    fn cycle_time_ms(&self) -> f64 {
        self.cycle_time_ns as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use crate::FigureError;
    use crate::cycle::report::tests::example;
    use crate::report::Forms as _;

    #[test]
    fn nothing_measured_is_said() {
        let mut report = example();
        report.points.clear();
        assert_eq!(report.to_png(), Err(FigureError::Empty));
    }
}
