//! The report for people and as CSV: means beside those of Gu & Grossman 2005, and a row for each run.

use units::text;

use super::figure::charts;
use super::report::{Figure, Measured, Metric, Report, Run};
use super::source::SourceCosts;
use crate::report::table::{decimals, ordinal, plain};
use crate::report::{Columns, Document, Row, Section, forms};

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let mark = if self.noise.is_empty() { "" } else { "~" };
        Document {
            title: "Cost".to_owned(),
            heading: "What moving data costs".to_owned(),
            circumstances: self.in_words(),
            noise: self.noise.clone(),
            charts: charts(self),
            sections: vec![
                Section::table("Means, and those of Gu & Grossman 2005", costs().table(self.costs())),
                Row::medians(&self.rows, mark),
                Section::table("Runs", runs().table(self.samples())).on_page(),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        runs().to_csv(self.samples())
    }
}

/// Costs of a transport here, or of a host of the paper.
struct Costs {
    place: String,
    transport: String,
    /// In the order of [`Metric::ALL`].
    means: [String; 3],
    remark: String,
}

fn costs() -> Columns<Costs> {
    Columns::<Costs>::new()
        .words("where", |it| it.place.clone())
        .words("transport", |it| it.transport.clone())
        .number("send [MHz/(Mbit/s)]", plain, |it| it.means[0].clone())
        .number("receive [MHz/(Mbit/s)]", plain, |it| it.means[1].clone())
        .number("delay [ms]", plain, |it| it.means[2].clone())
        .words("", |it| it.remark.clone())
}

/// A run with its transport.
type Sample<'a> = (&'a Measured, &'a Run);

fn runs<'a>() -> Columns<Sample<'a>> {
    Columns::<Sample>::new()
        .shared_words("transport", "transport", |(measured, _)| measured.transport.as_str())
        .shared("run", "run", ordinal, |(_, run)| run.run)
        .shared("rate", "bits_per_second", text::rate, |(_, run)| run.bits_per_second)
        .shared("lost [%]", "lost_percent", decimals::<4>, |(_, run)| run.lost_percent)
        .shared("sender [s]", "sender_cpu_s", decimals::<4>, |(_, run)| run.sender.cpu_seconds)
        .shared("receiver [s]", "receiver_cpu_s", decimals::<4>, |(_, run)| {
            run.receiver.map(|it| it.cpu_seconds)
        })
        .csv("sender_mhz", |(_, run)| run.sender.mhz)
        .csv("receiver_mhz", |(_, run)| run.receiver?.mhz)
        .shared("send [MHz/(Mbit/s)]", "send_mhz_per_mbit", decimals::<4>, |(_, run)| run.send_mhz_per_mbit)
        .shared("receive [MHz/(Mbit/s)]", "receive_mhz_per_mbit", decimals::<4>, |(_, run)| {
            run.receive_mhz_per_mbit
        })
        .shared("delay [ms]", "delay_ms", decimals::<4>, |(_, run)| run.delay_ms)
        .csv("whole", |(_, run)| u8::from(run.trouble.is_none()))
        .warning(|(_, run)| run.trouble.clone().unwrap_or_else(|| run.noise.join("; ")))
}

impl Report {
    /// Describes measurement and hosts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn in_words(&self) -> String {
        let test = &self.start.test_start;
        format!(
            "{}\n{} at {}, datagrams of {} bytes as UDP has them, buffers of {}; {} of {} s each",
            self.start.hosts_in_words(),
            test.transports.join(", "),
            text::rate(test.target_bitrate as f64),
            test.datagram_bytes,
            text::size(test.sock_bufsize as f64),
            text::counted(test.runs, "run"),
            test.duration
        )
    }

    fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.transports.iter().flat_map(|measured| measured.runs.iter().map(move |run| (measured, run)))
    }

    /// Returns the costs of each transport here, then those of the paper, means of 100 runs.
    fn costs(&self) -> impl Iterator<Item = Costs> {
        let here = self.transports.iter().map(Measured::costs);
        let of_paper = self.source.iter().flat_map(|host| {
            [("UDP", host.udp), ("TCP", host.tcp)].map(|(transport, costs)| Costs {
                place: host.name.clone(),
                transport: transport.to_owned(),
                means: costs.in_words(),
                remark: host.machine.clone(),
            })
        });
        here.chain(of_paper)
    }
}

impl Measured {
    fn costs(&self) -> Costs {
        let mean =
            |metric| self.figure(metric).map_or_else(|| "not measured".to_owned(), Figure::mean_in_words);
        let loss = self.loss_in_words();
        Costs {
            place: "here".to_owned(),
            transport: self.transport.clone(),
            means: Metric::ALL.map(mean),
            remark: self
                .trouble
                .as_ref()
                .map_or(loss.clone(), |trouble| format!("{loss}; not whole: {trouble}")),
        }
    }

    /// Describes the loss in all runs together: a cost is never shown without it.
    #[must_use]
    pub fn loss_in_words(&self) -> String {
        let accounts = || self.runs.iter().flat_map(|run| &run.accounts);
        let (sent, missing) =
            (accounts().map(|it| it.sent).sum::<u64>(), accounts().map(|it| it.missing()).sum::<u64>());
        let runs = text::counted(u32::try_from(self.runs.len()).unwrap_or(u32::MAX), "run");
        let unit = accounts().next().map_or("units", |it| it.unit.name());
        format!("{missing} of {sent} {unit} lost in {runs}")
    }
}

impl Figure {
    fn mean_in_words(&self) -> String {
        match self.standard_deviation {
            Some(deviation) => format!("{:.3} ± {deviation:.3}", self.mean),
            None => format!("{:.3}", self.mean),
        }
    }
}

impl SourceCosts {
    /// Returns the costs as text, in the order of [`Metric::ALL`].
    fn in_words(&self) -> [String; 3] {
        [
            format!("{:.2}", self.send_mhz_per_mbit),
            format!("{:.2}", self.receive_mhz_per_mbit),
            format!("{:.3}", self.delay_ms),
        ]
    }
}
