//! Costs as text: means and medians with their spread, compared with the hosts of Gu & Grossman 2005.

use std::fmt;

use units::text;

use super::report::{Measured, Metric, Report};
use super::source::SourceCosts;

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
}

/// Names of the metrics in a table's head.
const HEADS: [&str; 3] = ["SEND [MHz/(Mbit/s)]", "RECEIVE [MHz/(Mbit/s)]", "DELAY [ms]"];

impl fmt::Display for Report {
    /// Writes the cost of each transport, the hosts of the paper, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", self.in_words())?;
        let [send, receive, delay] = HEADS;
        writeln!(formatter, "{:18} {send:>34} {receive:>34} {delay:>34}", "")?;
        let mark = if self.noise.is_empty() { "" } else { "~" };
        for measured in &self.transports {
            measured.write(formatter, mark)?;
        }
        writeln!(formatter, "\nGu & Grossman 2005, table 2, means of 100 runs:")?;
        for host in &self.source {
            for (transport, costs) in [("UDP", host.udp), ("TCP", host.tcp)] {
                let [send, receive, delay] = costs.in_words();
                let name = format!("{} {transport}", host.name);
                writeln!(formatter, "{name:18} {send:>34} {receive:>34} {delay:>34}  {}", host.machine)?;
            }
        }
        self.noise.iter().try_for_each(|noise| writeln!(formatter, "~ noisy: {noise}"))?;
        self.end.notes.iter().try_for_each(|note| writeln!(formatter, "note: {note}"))?;
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

impl Measured {
    /// Writes two lines: mean and deviation as in the paper, then median and extremes, with loss and repeats.
    fn write(&self, formatter: &mut fmt::Formatter<'_>, mark: &str) -> fmt::Result {
        let cells = |of: fn(&super::report::Figure) -> String| {
            Metric::ALL.map(|metric| self.figure(metric).map_or_else(|| "not measured".to_owned(), of))
        };
        let [send, receive, delay] = cells(|it| match it.standard_deviation {
            Some(deviation) => format!("mean {:.3} ± {deviation:.3}", it.mean),
            None => format!("mean {:.3}", it.mean),
        });
        let name = format!("{mark}{}", self.transport);
        writeln!(formatter, "{name:18} {send:>34} {receive:>34} {delay:>34}  {}", self.loss_in_words())?;
        let [send, receive, delay] = cells(|it| format!("{:.3} ({:.3} – {:.3})", it.median, it.min, it.max));
        writeln!(formatter, "{:18} {send:>34} {receive:>34} {delay:>34}", "  median")?;
        self.trouble.as_ref().map_or(Ok(()), |trouble| writeln!(formatter, "  not whole: {trouble}"))
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

impl SourceCosts {
    /// Returns the texts of the table, in the order of [`Metric::ALL`].
    pub(super) fn in_words(&self) -> [String; 3] {
        [
            format!("mean {:.2}", self.send_mhz_per_mbit),
            format!("mean {:.2}", self.receive_mhz_per_mbit),
            format!("mean {:.3}", self.delay_ms),
        ]
    }
}
