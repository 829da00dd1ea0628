//! The median of repeats, in the form common to all tests.

use probe::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use units::text;

use super::document::Section;
use super::table::{Columns, Value, plain};

/// The median of repeats.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the bench, such as `cycle` or `throughput`.
    pub bench: String,
    /// Name of the point, such as `10ms/0.3cpu`.
    pub case: String,
    /// System that was measured: a transport.
    pub system: String,
    /// Metric, such as `multiplicity` or `bits_per_second`.
    pub metric: String,
    /// Unit of the metric, such as `elements` or `bit/s`.
    pub unit: String,
    /// Median of the repeats.
    #[schemars(with = "Number")]
    pub median: f64,
    /// Minimum of the repeats.
    #[schemars(with = "Number")]
    pub min: f64,
    /// Maximum of the repeats.
    #[schemars(with = "Number")]
    pub max: f64,
    /// Number of repeats.
    #[schemars(range(min = 1))]
    pub runs: u64,
}

impl Row {
    /// Summarises repeats as a row for each metric; a metric that none of them has gets no row.
    pub(crate) fn each<'a, R: 'a>(
        names: Names<'_>,
        repeats: impl IntoIterator<Item = &'a R>,
        metrics: &[Metric<R>],
    ) -> Vec<Self> {
        let repeats: Vec<&R> = repeats.into_iter().collect();
        let row = |(metric, unit, of): &Metric<R>| {
            Self::of(names, metric, unit, &repeats.iter().filter_map(|it| of(it)).collect::<Vec<_>>())
        };
        metrics.iter().filter_map(row).collect()
    }

    /// Summarises values as a row; `None` if there are none.
    pub(crate) fn of(names: Names<'_>, metric: &str, unit: &str, values: &[f64]) -> Option<Self> {
        let Summary { median, min, max, count, .. } = Summary::of(values)?;
        let Names { bench, case, system } = names;
        let [bench, case, system, metric, unit] = [bench, case, system, metric, unit].map(str::to_owned);
        Some(Self { bench, case, system, metric, unit, median, min, max, runs: count as u64 })
    }

    /// Writes rows for people; `mark` marks the medians of a noisy measurement.
    pub(crate) fn medians(rows: &[Self], mark: &'static str) -> Section {
        let columns = Columns::<&Self>::new()
            .words("what", |row| row.system.as_str())
            .words("of", |row| row.case.as_str())
            .words("figure", |row| row.metric.replace('_', " "))
            .number("median", plain, move |row| format!("{mark}{}", value_text(row.median, &row.unit)))
            .number("least", plain, |row| row.quantity(row.min))
            .number("most", plain, |row| row.quantity(row.max))
            .number("runs", plain, |row| row.runs);
        Section::table("Medians and spread", columns.table(rows))
    }

    /// Returns a value with the row's unit.
    pub(crate) fn quantity(&self, value: f64) -> Value {
        Value::Quantity(value, self.unit.clone())
    }

    /// Returns a row for tests.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        let names = Names { bench: "test", case: "one", system: "udp" };
        Self::of(names, "bits_per_second", "bit/s", &[90.0, 100.0, 110.0]).expect("there are three values")
    }
}

/// A metric of repeats `R`: its name, its unit, and its value in one of them.
pub(crate) type Metric<R> = (&'static str, &'static str, fn(&R) -> Option<f64>);

/// Names of the rows of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) bench: &'a str,
    pub(crate) case: &'a str,
    pub(crate) system: &'a str,
}

/// Writes a value of a row in its unit.
pub(crate) fn value_text(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" => text::rate(value),
        "s" => text::seconds(value),
        "1/s" => format!("{} /s", text::grouped(value)),
        "" if value.fract().abs() > 0.0 => format!("{value:.3}"),
        "B" | "elements" | "packets" | "" => format!("{} {unit}", text::grouped(value)).trim_end().to_owned(),
        unit => format!("{value:.3} {unit}"),
    }
}
