//! Reliability of figures: other work on the processors, and the spread of repeats.

use super::row::Row;
use super::used::Used;

/// Number of processors kept busy by other work above which a run is noisy.
pub(crate) const QUIET_CPUS: f64 = 0.2;
/// Spread of repeats, as a share of their median, above which a measurement is noisy.
const QUIET_SPREAD: f64 = 0.1;

/// Processors that other work kept busy on the hosts of both ends; `None` where that is not known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Elsewhere {
    pub(crate) client: Option<f64>,
    pub(crate) server: Option<f64>,
}

impl Elsewhere {
    /// Returns the other work on each host. On a host that has both ends, each end counts the other's work as
    /// other work: it is subtracted.
    pub(crate) fn of(same_host: bool, client: &Used, server: Option<&Used>) -> Self {
        let Some(server) = server else { return Self { client: client.elsewhere_cpus, server: None } };
        if !same_host {
            return Self { client: client.elsewhere_cpus, server: server.elsewhere_cpus };
        }
        let rest = client.elsewhere_cpus.map(|cpus| (cpus - server.cpu_percent() / 100.0).max(0.0));
        Self { client: rest, server: rest }
    }

    /// Returns the maximum over several runs for each end; a run has the client's value and the server's.
    pub(crate) fn most(runs: impl Iterator<Item = [Option<f64>; 2]> + Clone) -> Self {
        let most = |end: usize| runs.clone().filter_map(|ends| ends[end]).reduce(f64::max);
        Self { client: most(0), server: most(1) }
    }

    /// Describes the hosts on which other work kept processors busy; empty if undisturbed.
    pub(crate) fn disturbances(self, same_host: bool) -> Vec<String> {
        let hosts = if same_host {
            vec![("this host", self.client)]
        } else {
            vec![("the client's host", self.client), ("the server's host", self.server)]
        };
        let busy = hosts
            .into_iter()
            .filter_map(|(host, cpus)| Some((host, cpus.filter(|cpus| *cpus > QUIET_CPUS)?)));
        busy.map(|(host, cpus)| format!("other work kept {cpus:.1} CPUs of {host} busy")).collect()
    }
}

/// Describes the rows whose repeats spread too widely; `what` is the quantity, such as `rates`.
pub(crate) fn spreads<'a>(what: &str, rows: impl Iterator<Item = &'a Row>) -> Vec<String> {
    rows.filter_map(|row| wide_spread(&format!("{what} of {}", row.case), row)).collect()
}

/// Describes the spread of a row if its repeats spread too widely; `what` are its values.
pub(crate) fn wide_spread(what: &str, row: &Row) -> Option<String> {
    is_wide(row).then(|| format!("{what} spread over {:.0} % of their median", spread(row) * 100.0))
}

/// Returns whether the repeats of a row spread too widely.
pub(crate) fn is_wide(row: &Row) -> bool {
    row.median > 0.0 && spread(row) > QUIET_SPREAD
}

fn spread(row: &Row) -> f64 {
    (row.max - row.min) / row.median
}

/// Describes in a line the disturbances of a measurement.
pub(crate) fn in_words(noise: &[String]) -> String {
    match noise {
        [] => "quiet while it was measured".to_owned(),
        noise => format!("noisy, not to be relied on: {}", noise.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(cpu_ns: u64, elsewhere_cpus: f64) -> Used {
        Used { cpu_ns, elapsed_ns: 100, elsewhere_cpus: Some(elsewhere_cpus) }
    }

    #[test]
    fn what_the_other_end_did_on_the_same_host_is_nobody_elses() {
        let (client, server) = (used(10, 0.5), used(40, 0.3));
        let both = Elsewhere::of(true, &client, Some(&server));
        assert!((both.client.unwrap() - 0.1).abs() < 1e-9 && both.client == both.server, "{both:?}");
        let apart = Elsewhere::of(false, &client, Some(&server));
        assert_eq!(apart, Elsewhere { client: Some(0.5), server: Some(0.3) });
        assert_eq!(Elsewhere::of(true, &client, None).server, None);
    }

    #[test]
    fn a_disturbance_names_its_host_and_the_limit_itself_is_quiet() {
        let at_limit = Elsewhere { client: Some(QUIET_CPUS), server: Some(0.9) };
        assert_eq!(at_limit.disturbances(true), Vec::<String>::new());
        assert_eq!(at_limit.disturbances(false), ["other work kept 0.9 CPUs of the server's host busy"]);
        let most = Elsewhere::most([[at_limit.client, at_limit.server], [Some(1.0), None]].into_iter());
        assert_eq!(most, Elsewhere { client: Some(1.0), server: Some(0.9) });
    }

    #[test]
    fn wide_spreads_are_said_and_narrow_ones_are_not() {
        let row = |min, max| Row { min, median: 100.0, max, ..Row::example() };
        let (narrow, wide) = (row(95.0, 105.0), row(90.0, 101.0));
        assert_eq!(spreads("rates", [&narrow].into_iter()), Vec::<String>::new());
        let said = spreads("rates", [&narrow, &wide].into_iter());
        assert_eq!(said, [format!("rates of {} spread over 11 % of their median", wide.case)]);
        assert_eq!(in_words(&[]), "quiet while it was measured");
        assert!(in_words(&said).starts_with("noisy, not to be relied on: rates of "));
    }
}
