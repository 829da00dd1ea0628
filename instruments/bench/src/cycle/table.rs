//! The report for people and as CSV: a row for each point, and for each search.

use std::fmt;
use std::time::Duration;

use drawing::{FigureError, Page};
use units::text::{counted, grouped};

use super::figure::Figures;
use super::report::{Found, Outcome, Point, Report, Run, Search, Spread, State};
use crate::report::table::{Value, decimals, plain};
use crate::report::{Columns, Document, Forms, Report as _, Section};
use crate::scollo::{self, Comparison};

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.document().fmt(formatter)
    }
}

impl Forms for Report {
    fn to_html(&self) -> Result<String, FigureError> {
        let draw = |it: Figures| Ok((it.cpus, drawing::svgs(&it.charts)?));
        let figures = self.figures().into_iter().map(draw).collect::<Result<Vec<_>, FigureError>>()?;
        Ok(self.document().page(|page| {
            figures.iter().for_each(|(cpus, svgs)| self.add_figures(page, *cpus, svgs));
        }))
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        let figures = self.figures();
        let rows: Vec<_> = figures.iter().map(|it| &it.charts[..]).collect();
        drawing::png_of_rows(&rows, &self.header())
    }

    fn to_csv(&self) -> String {
        self.csv()
    }
}

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let mut sections = vec![
            Section::table("Largest array of u32 every cycle", points().table(&self.points))
                .remark(self.limit_in_words()),
            Section::lines("The account", vec![self.account()]),
        ];
        sections.extend(self.source.iter().flat_map(Comparison::sections));
        Document {
            title: "The largest array every cycle".to_owned(),
            heading: "The largest array of u32 that a writer hands to a reader every cycle".to_owned(),
            circumstances: format!("{}\n{}", self.host_in_words(), self.rules_in_words()),
            details: format!(
                "tallycast {}\nFaint dots are searches, strong ones their medians; hollow medians are noisy.",
                self.start.tallycast
            ),
            noise: self
                .noise_in_short()
                .iter()
                .map(|points| format!("{points}: the table says why"))
                .collect(),
            sections,
            notes: self.end.notes.iter().cloned().chain(self.comparison_notes()).collect(),
            missing: (self.end.state == State::Interrupted)
                .then_some("ended early: points are missing, or repeats of the last"),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        let searches = |point| Point::searches(point).iter().enumerate();
        let of_point = |point| searches(point).map(move |(index, search)| Sample { point, index, search });
        samples().to_csv(self.points.iter().flat_map(of_point))
    }
}

fn points<'a>() -> Columns<&'a Point> {
    Columns::<&Point>::new()
        .number("CPUs", plain, |it| it.cpus.map_or("max".to_owned(), |cpus| cpus.to_string()))
        .number("cycle", plain, |it| format!("{:?}", Duration::from_nanos(it.cycle_time_ns)))
        .words("via", |it| it.transport.to_string())
        .number("median", plain, Point::median)
        .number("least", grouped, |it| it.elements().map(|elements| elements.min))
        .number("most", plain, |it| Some(format!("{}{}", it.limit_mark(), grouped(it.elements()?.max))))
        .number("repeats", plain, |it| it.elements().map(|elements| elements.runs))
        .number("MB/s", decimals::<1>, |it| {
            it.elements().map(|elements| megabytes_per_s(elements, it.cycle_time_ns))
        })
        .words("failed runs", |it| it.failures())
        .warning(|it| {
            let broken_off = it.broken_off().map(|reason| format!("the next repeat failed: {reason}"));
            it.noise().iter().cloned().chain(broken_off).collect::<Vec<_>>().join("; ")
        })
}

/// A search with its point.
struct Sample<'a> {
    point: &'a Point,
    index: usize,
    search: &'a Search,
}

fn samples<'a>() -> Columns<Sample<'a>> {
    Columns::<Sample>::new()
        .csv("transport", |it| it.point.transport.to_string())
        .csv("cycle_time_ns", |it| it.point.cycle_time_ns)
        .csv("cpus", |it| it.point.cpus)
        .csv("repeat", |it| it.index)
        .csv("multiplicity", |it| it.search.elements)
        .csv("found", |it| match it.search.found {
            Found::Nothing => "nothing",
            Found::Largest => "largest",
            Found::Limit => "limit",
        })
        .csv("runs", |it| it.search.runs.len())
        .csv("elsewhere_cpus", |it| it.search.elsewhere_cpus)
}

impl Point {
    /// Returns the median, marked if it is noisy, or the reason why there is none.
    fn median(self: &&Self) -> Value {
        match &self.outcome {
            Outcome::Measured { elements, noise, .. } => {
                let mark = if noise.is_empty() { "" } else { "~" };
                Value::Words(format!("{mark}{}", grouped(elements.median)))
            }
            Outcome::Skipped { reason } => Value::Rest(format!("skipped: {reason}")),
            Outcome::Failed { reason } => Value::Rest(format!("failed: {reason}")),
        }
    }

    /// Returns the mark of a point at which the limit of the search held.
    fn limit_mark(&self) -> &'static str {
        let is_at_limit = self.searches().iter().any(|it| it.found == Found::Limit);
        if is_at_limit { "≥ " } else { "" }
    }
}

impl Report {
    /// Describes the host and its load.
    pub(super) fn host_in_words(&self) -> String {
        let interface = self.start.interface.as_ref();
        let interface = interface.map_or("interface unknown".to_owned(), |link| link.in_words(""));
        format!("{}, {interface}", self.start.host.in_words(self.end.load_1min))
    }

    /// Describes the rules of a run.
    pub(super) fn rules_in_words(&self) -> String {
        let options = &self.start.options;
        format!(
            "{} cycles a run, of which {} must come whole and {} callbacks may be late; {}, each a search up to {}",
            options.cycles,
            u64::from(options.cycles) * u64::from(options.complete_ppm) / 1_000_000,
            options.late_allowed,
            counted(options.repeats, "repeat"),
            grouped(f64::from(options.limit)),
        )
    }

    /// Describes what `≥` means, if it stands anywhere.
    fn limit_in_words(&self) -> &'static str {
        let is_at_limit = self.points.iter().any(|point| !point.limit_mark().is_empty());
        match (is_at_limit, &self.source) {
            (false, _) => "",
            (true, None) => "≥ where the limit of the search held in some repeats; raise it with --limit",
            // The grid of a published measurement is fixed: `bench reproduce` has no such option.
            (true, Some(_)) => "≥ where the limit of the search held in some repeats",
        }
    }

    /// Returns a text with the number of noisy points; none if all were undisturbed.
    pub(super) fn noise_in_short(&self) -> Option<String> {
        let noisy = self.points.iter().filter(|point| !point.noise().is_empty()).count();
        (noisy > 0).then(|| format!("{noisy} of {} points", self.points.len()))
    }

    fn comparison_notes(&self) -> Vec<String> {
        self.source.as_ref().map_or_else(Vec::new, Comparison::notes)
    }

    fn add_figures(&self, page: &mut Page, cpus: Option<f64>, svgs: &[String]) {
        page.figures(svgs);
        if self.source.is_some() {
            page.paragraph(scollo::figures(cpus));
        }
    }

    /// Sums up the accounts of everything that was sent.
    fn account(&self) -> String {
        let runs = || self.points.iter().flat_map(Point::searches).flat_map(|search| &search.runs);
        let sum = |of: fn(&Run) -> u64| grouped_whole(runs().map(of).sum());
        format!(
            "{} runs sent {} cycles: {} came complete, {} incomplete, {} not at all. Of {} pieces {} \
             arrived as they were sent, {} with another content, {} not at all, of which the transport had refused {}.",
            grouped_whole(runs().count() as u64),
            sum(|run| run.account.cycles.sent),
            sum(|run| run.account.cycles.complete),
            sum(|run| run.account.cycles.incomplete),
            sum(|run| run.account.cycles.missing),
            sum(|run| run.account.pieces.handed),
            sum(|run| run.account.pieces.received),
            sum(|run| run.account.pieces.wrong),
            sum(|run| run.account.pieces.absent),
            sum(|run| run.account.pieces.refused),
        )
    }
}

fn grouped_whole(value: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "pieces are far below 2^53")]
    grouped(value as f64)
}

/// Returns the median's throughput. Units: 10⁶ bytes of elements per second.
#[expect(clippy::cast_precision_loss, reason = "cycle times are far below 2^53 ns")]
fn megabytes_per_s(elements: &Spread, cycle_time_ns: u64) -> f64 {
    elements.median * 4.0 * 1_000.0 / cycle_time_ns as f64
}
