//! The report as a table for people.

use std::fmt;
use std::time::Duration;

use units::text::grouped;

use super::report::{Found, Outcome, Point, Report, Spread, State};

/// Mark of a noisy point.
const NOISY: &str = "~";

impl fmt::Display for Report {
    /// Writes the host, every point with its spread, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.host_in_words())?;
        writeln!(formatter, "largest array of u32 every cycle; {}\n", self.rules_in_words())?;
        writeln!(
            formatter,
            "{:>6}  {:>10}  {:9}  {:>12}  {:>25}  {:>7}  {:>8}  FAILED RUNS",
            "CPUS", "CYCLE TIME", "TRANSPORT", "MEDIAN", "(MIN – MAX)", "REPEATS", "MB/S"
        )?;
        self.points.iter().try_for_each(|point| write_point(formatter, point))?;
        self.write_notes(formatter)
    }
}

impl Report {
    /// Describes the host and its load.
    pub(super) fn host_in_words(&self) -> String {
        let host = &self.start.host;
        let load = |load: Option<f64>| load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        format!(
            "{} {}, {} CPUs ({}), load {} before and {} after, {}",
            host.kernel,
            host.machine,
            host.cpus,
            if host.cpu.is_empty() { "unnamed" } else { &host.cpu },
            load(host.load_1min),
            load(self.end.load_1min),
            self.start.interface.as_ref().map_or("interface unknown".to_owned(), |link| link.in_words(""))
        )
    }

    /// Describes the rules of a run.
    pub(super) fn rules_in_words(&self) -> String {
        let options = &self.start.options;
        format!(
            "{} cycles a run, of which {} must come whole and {} callbacks may be late; {} repeats, each a search up to {}",
            options.cycles,
            u64::from(options.cycles) * u64::from(options.complete_ppm) / 1_000_000,
            options.late_allowed,
            options.repeats,
            grouped(f64::from(options.limit)),
        )
    }

    fn write_notes(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_limit = self.points.iter().flat_map(Point::searches).any(|it| it.found == Found::Limit);
        if at_limit {
            // The grid of a published measurement is fixed: `bench reproduce` has no such option.
            let way_out = if self.source.is_none() { ": raise it with --limit" } else { "" };
            writeln!(formatter, "\n≥ the limit of the search held in some repeats{way_out}")?;
        }
        let noisy: Vec<&Point> = self.points.iter().filter(|point| !point.noise().is_empty()).collect();
        if !noisy.is_empty() {
            writeln!(formatter, "\n{NOISY} noisy, not to be relied on:")?;
        }
        for point in noisy {
            writeln!(formatter, "  {} {}: {}", point.transport, point.case(), point.noise().join("; "))?;
        }
        let broken_off = self.points.iter().filter_map(|point| Some((point, point.broken_off()?)));
        for (point, reason) in broken_off {
            let (case, repeats) = (point.case(), point.searches().len());
            writeln!(
                formatter,
                "\n{} {case} has {repeats} of {} repeats; the next one failed: {reason}",
                point.transport, self.start.options.repeats
            )?;
        }
        if let Some(comparison) = &self.source {
            write!(formatter, "\n{comparison}")?;
        }
        for note in &self.end.notes {
            writeln!(formatter, "\nnote: {note}")?;
        }
        if self.end.state == State::Interrupted {
            writeln!(formatter, "\nended early: points are missing, or repeats of the last")?;
        }
        Ok(())
    }
}

fn write_point(formatter: &mut fmt::Formatter<'_>, point: &Point) -> fmt::Result {
    let cpus = point.cpus.map_or("max".to_owned(), |cpus| cpus.to_string());
    let cycle_time = format!("{:?}", Duration::from_nanos(point.cycle_time_ns));
    write!(formatter, "{cpus:>6}  {cycle_time:>10}  {:9}  ", point.transport)?;
    match &point.outcome {
        Outcome::Measured { elements, noise, searches, .. } => {
            let most = if searches.iter().any(|it| it.found == Found::Limit) { "≥ " } else { "" };
            let spread = format!("({} – {most}{})", grouped(elements.min), grouped(elements.max));
            let mark = if noise.is_empty() { "" } else { NOISY };
            let median = format!("{mark}{}", grouped(elements.median));
            let rate = megabytes_per_s(elements, point.cycle_time_ns);
            let failures = point.failures();
            writeln!(formatter, "{median:>12}  {spread:>25}  {:>7}  {rate:>8.1}  {failures}", elements.runs)
        }
        Outcome::Skipped { reason } => writeln!(formatter, "skipped: {}", indented(reason)),
        Outcome::Failed { reason } => writeln!(formatter, "failed: {}", indented(reason)),
    }
}

/// Returns the median's throughput. Units: 10⁶ bytes of elements per second.
#[expect(clippy::cast_precision_loss, reason = "cycle times are far below 2^53 ns")]
fn megabytes_per_s(elements: &Spread, cycle_time_ns: u64) -> f64 {
    elements.median * 4.0 * 1_000.0 / cycle_time_ns as f64
}

fn indented(reason: &str) -> String {
    reason.replace('\n', "\n                                 ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::report::tests::example;
    use crate::scollo::{Grid, compare};

    #[test]
    fn the_interface_that_datagrams_go_by_is_named_with_its_mtu_and_offloads() {
        let mut report = example();
        assert!(
            report.host_in_words().ends_with("lo MTU 65536 (offloads rx-gro)"),
            "{}",
            report.host_in_words()
        );
        report.start.interface = None;
        assert!(report.host_in_words().ends_with("interface unknown"));
    }

    #[test]
    fn a_repeat_that_failed_stands_below_the_table_with_its_reason() {
        let mut report = example();
        let Outcome::Measured { searches, broken_off, .. } = &mut report.points[0].outcome else { panic!() };
        searches.pop();
        *broken_off = Some("the writer of a run ended unexpectedly".to_owned());
        let table = report.to_string();
        let words =
            "udp 2ms/0.3cpu has 2 of 3 repeats; the next one failed: the writer of a run ended unexpectedly";
        assert!(table.contains(words), "{table}");
    }

    #[test]
    fn a_limit_is_to_be_raised_only_where_there_is_an_option_for_it() {
        let mut report = example();
        assert!(report.to_string().contains("held in some repeats: raise it with --limit\n"));
        report.source = Some(compare(&report, Grid::Short));
        assert!(report.to_string().contains("held in some repeats\n"));
    }
}
