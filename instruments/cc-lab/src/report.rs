//! Reports: a table for people, rows for programs, a page and a picture with curves over time.

mod curves;

use core::fmt;
use core::time::Duration;

use drawing::{Chart, Column, FigureError, Forms, Page, Tone};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use units::text;

use crate::{Cell, Comparison, Hosts, Standing, Sweep};

/// Maximum number of controls with curves in a picture: the page has the others.
const MOST_IN_PICTURE: usize = 6;

/// Conditions under which controls were compared.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conditions {
    /// Rate of the bottleneck, with all headers. Units: bits per second.
    pub rate_bits_per_second: u64,
    /// Queue capacity before the bottleneck; `None` if it varies. Units: bytes on the wire.
    pub queue_bytes: Option<u64>,
    /// Round-trip time without queueing; `None` if it is swept.
    pub round_trip_seconds: Option<f64>,
    /// Loss probability of each packet; `None` if it is swept.
    pub loss: Option<f64>,
    /// Packets lost on purpose, by their number at the bottleneck.
    pub lost: Vec<u64>,
    /// Cross traffic through the bottleneck. Units: bits per second.
    pub others_bits_per_second: Option<u64>,
    /// Largest packet, with the IP header. Units: bytes.
    pub packet_bytes: u32,
    /// `ideal`, or `real` for hosts that take time, wake up late and stall.
    pub hosts: &'static str,
    /// Number of flows of one control that shared the path.
    pub flows: usize,
    /// Duration of each run.
    pub duration_seconds: f64,
    /// Time at the beginning that is excluded from the means.
    pub warm_up_seconds: f64,
    /// Seeds; each is a run.
    pub seeds: Vec<u64>,
}

/// Results of controls on one path.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparisonReport {
    /// Conditions of the comparison.
    pub conditions: Conditions,
    /// Result of each control, in the order in which they were named.
    pub standings: Vec<Standing>,
}

/// Results of controls over losses and round trips.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepReport {
    /// Conditions of the sweep.
    pub conditions: Conditions,
    /// Cells by round trip, then loss, then control.
    pub cells: Vec<Cell>,
}

impl Conditions {
    pub(crate) fn of(comparison: &Comparison) -> Self {
        let path = &comparison.path;
        Self {
            rate_bits_per_second: path.rate_bits_per_s,
            queue_bytes: Some(path.queue_bytes),
            round_trip_seconds: Some(path.round_trip.as_secs_f64()),
            loss: Some(path.loss),
            lost: path.lost.clone(),
            others_bits_per_second: path.others.map(|others| others.rate_bits_per_s),
            packet_bytes: path.packet_bytes,
            hosts: match comparison.hosts {
                Hosts::Ideal => "ideal",
                Hosts::Real => "real",
            },
            flows: comparison.flows,
            duration_seconds: comparison.duration.as_secs_f64(),
            warm_up_seconds: comparison.warm_up.as_secs_f64(),
            seeds: comparison.seeds.clone(),
        }
    }
}

impl fmt::Display for Conditions {
    /// Writes the conditions as a line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", text::rate(self.rate_bits_per_second as f64))?;
        if let Some(seconds) = self.round_trip_seconds {
            write!(formatter, ", round-trip time {:?}", Duration::from_secs_f64(seconds))?;
        }
        if let Some(bytes) = self.queue_bytes {
            write!(formatter, ", queue {}", text::decimal_size(bytes))?;
        }
        if let Some(loss) = self.loss.filter(|loss| *loss > 0.0) {
            write!(formatter, ", loss {}", text::percent(loss))?;
        }
        if !self.lost.is_empty() {
            let numbers: Vec<String> = self.lost.iter().map(u64::to_string).collect();
            write!(formatter, ", packet {} lost on purpose", numbers.join(", "))?;
        }
        if let Some(others) = self.others_bits_per_second {
            write!(formatter, ", cross traffic {}", text::rate(others as f64))?;
        }
        let (flows, seeds) = (self.flows, self.seeds.len());
        write!(formatter, ", packets of {} bytes, {} hosts; ", self.packet_bytes, self.hosts)?;
        write!(formatter, "{} of each, ", text::counted(flows, "flow"))?;
        let duration = Duration::from_secs_f64(self.duration_seconds);
        write!(formatter, "{} of {duration:?}", text::counted(seeds, "seed"))
    }
}

impl ComparisonReport {
    /// Returns notes on the table.
    fn notes(&self) -> Vec<String> {
        let absurd = self.standings.iter().filter(|standing| standing.absurd_policies > 0);
        let mut notes: Vec<String> = absurd
            .map(|standing| {
                format!(
                    "{} asked {} times for an impossible window or rate; it got the nearest possible one",
                    standing.label(),
                    standing.absurd_policies
                )
            })
            .collect();
        let odd = self.standings.iter().filter(|standing| !standing.packets.balance());
        notes.extend(odd.map(|standing| format!("the account of {} does not close", standing.label())));
        notes
    }

    fn charts(&self, at_most: usize) -> Vec<Chart> {
        self.standings.iter().take(at_most).flat_map(curves::over_time).collect()
    }
}

impl SweepReport {
    pub(crate) fn new(sweep: &Sweep, cells: Vec<Cell>) -> Self {
        let first = Conditions::of(&sweep.comparisons[0]);
        let is_one_queue = cells.iter().all(|cell| Some(cell.queue_bytes) == first.queue_bytes);
        let queue_bytes = first.queue_bytes.filter(|_| is_one_queue);
        Self { conditions: Conditions { round_trip_seconds: None, loss: None, queue_bytes, ..first }, cells }
    }

    /// Returns the labels of the controls in order.
    fn labels(&self) -> Vec<String> {
        let mut labels = Vec::new();
        for label in self.cells.iter().map(Cell::label) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }

    fn charts(&self) -> Vec<Chart> {
        self.labels().iter().map(|label| curves::over_loss(label, &self.cells)).collect()
    }
}

impl fmt::Display for ComparisonReport {
    /// Writes each control, and its figures below.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", text::hanging("", &self.conditions.to_string(), TEXT_WIDTH))?;
        let heads = ["GOODPUT", "MIN – MAX", "USED", "QUEUE", "P95", "LOST", "JAIN", "RENO"];
        writeln!(formatter, "CC\n  {}", line(heads.map(str::to_owned)))?;
        for standing in &self.standings {
            writeln!(formatter, "{}\n  {}", standing.label(), line(cells(standing)))?;
        }
        self.notes().iter().try_for_each(|note| writeln!(formatter, "\n{note}"))
    }
}

/// Returns cells in their columns: 78 letters, so that a line fits into a terminal of 80.
fn line(cells: [String; 8]) -> String {
    let widths = [11, 18, 6, 9, 9, 7, 5, 5];
    let cells: Vec<String> =
        cells.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
    cells.join(" ")
}

/// Returns the cells of a control for people, in column order.
fn cells(standing: &Standing) -> [String; 8] {
    let millis = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    [
        text::rate(standing.goodput_bits_per_second),
        text::rate_range(standing.least_goodput_bits_per_second, standing.most_goodput_bits_per_second),
        format!("{:.1}%", standing.utilisation * 100.0),
        millis(standing.queueing_delay_seconds),
        millis(standing.queueing_delay_p95_seconds),
        text::percent(standing.loss),
        format!("{:.3}", standing.jain_index),
        standing.friendliness_to_reno.map_or_else(|| "-".to_owned(), |kept| format!("{kept:.2}")),
    ]
}

impl Serialize for ComparisonReport {
    /// Writes the conditions and each control with its curves over time.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Control<'a> {
            #[serde(flatten)]
            standing: &'a Standing,
            over_time: curves::OverTime<'a>,
        }
        let controls: Vec<Control<'_>> = self
            .standings
            .iter()
            .map(|standing| Control { standing, over_time: curves::OverTime::of(&standing.first) })
            .collect();
        let mut report = serializer.serialize_struct("ComparisonReport", 3)?;
        report.serialize_field("version", &VERSION)?;
        report.serialize_field("conditions", &self.conditions)?;
        report.serialize_field("controls", &controls)?;
        report.end()
    }
}

/// Width of the report as text. Units: letters.
const TEXT_WIDTH: usize = 80;
/// Version of the reports' JSON.
const VERSION: u32 = 1;

impl Forms for ComparisonReport {
    fn to_html(&self) -> Result<String, FigureError> {
        let mut page = Page::new("Congestion controls compared", "Congestion controls compared");
        page.paragraph(&self.conditions.to_string());
        let columns = [
            Column::Word("control"),
            Column::Number("goodput"),
            Column::Number("min – max"),
            Column::Number("used"),
            Column::Number("queue"),
            Column::Number("p95"),
            Column::Number("lost"),
            Column::Number("Jain's index"),
            Column::Number("Reno keeps"),
        ];
        let row = |standing: &Standing| [vec![standing.label()], cells(standing).to_vec()].concat();
        page.table(&columns, self.standings.iter().map(row));
        page.paragraph(
            "Medians over the seeds, after the warm-up. Used: share of what full packets could carry. Queue: queueing delay \
             of a packet at the bottleneck, as mean over time and as 95th percentile. Reno keeps: the goodput of a Reno flow \
             that competes with the control, relative to a Reno flow that competes with another Reno.",
        );
        for note in self.notes() {
            page.remark(&note, Tone::Warning);
        }
        for standing in &self.standings {
            page.heading(&standing.label());
            page.figures(&drawing::svgs(&curves::over_time(standing))?);
        }
        Ok(page.end(&["Curves are those of the first seed.".to_owned()]))
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        drawing::png(&self.charts(MOST_IN_PICTURE), &self.conditions.to_string())
    }

    fn to_csv(&self) -> String {
        let mut csv = "cc,options,goodput_bits_per_second,least_goodput_bits_per_second,most_goodput_bits_per_second,\
                       utilisation,queueing_delay_seconds,queueing_delay_p95_seconds,loss,jain_index,friendliness_to_reno,\
                       seeds\n"
            .to_owned();
        for standing in &self.standings {
            let kept = standing.friendliness_to_reno.map_or_else(String::new, |kept| kept.to_string());
            csv += &format!(
                "{},{},{},{},{},{},{},{},{},{},{kept},{}\n",
                standing.cc,
                standing.options,
                standing.goodput_bits_per_second,
                standing.least_goodput_bits_per_second,
                standing.most_goodput_bits_per_second,
                standing.utilisation,
                standing.queueing_delay_seconds,
                standing.queueing_delay_p95_seconds,
                standing.loss,
                standing.jain_index,
                standing.seeds,
            );
        }
        csv
    }
}

impl fmt::Display for SweepReport {
    /// Writes one table per control: a line per loss, a column per round trip.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.conditions)?;
        for label in self.labels() {
            let of_label: Vec<&Cell> = self.cells.iter().filter(|cell| cell.label() == label).collect();
            let round_trips = curves::distinct(of_label.iter().map(|cell| cell.round_trip_seconds));
            write!(formatter, "\n{label}\n{:>10}", "LOSS")?;
            for round_trip in &round_trips {
                write!(formatter, "  {:>12}", format!("{:?}", Duration::from_secs_f64(*round_trip)))?;
            }
            for loss in curves::distinct(of_label.iter().map(|cell| cell.loss)) {
                write!(formatter, "\n{:>10}", text::percent(loss))?;
                for cell in of_label.iter().filter(|cell| cell.loss == loss) {
                    write!(formatter, "  {:>12}", text::rate(cell.goodput_bits_per_second))?;
                }
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

impl Forms for SweepReport {
    fn to_html(&self) -> Result<String, FigureError> {
        let mut page = Page::new("Goodput over loss and round trip", "Goodput over loss and round trip");
        page.paragraph(&self.conditions.to_string());
        page.figures(&drawing::svgs(&self.charts())?);
        Ok(page.end(&["What was not lost at all stands at the left end of each picture.".to_owned()]))
    }

    fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        drawing::png(&self.charts(), &self.conditions.to_string())
    }

    fn to_csv(&self) -> String {
        let head =
            "cc,options,loss,round_trip_seconds,queue_bytes,goodput_bits_per_second,utilisation\n".to_owned();
        self.cells.iter().fold(head, |csv, cell| {
            let Cell { cc, options, loss, round_trip_seconds, queue_bytes, .. } = cell;
            let (goodput, used) = (cell.goodput_bits_per_second, cell.utilisation);
            csv + &format!("{cc},{options},{loss},{round_trip_seconds},{queue_bytes},{goodput},{used}\n")
        })
    }
}
