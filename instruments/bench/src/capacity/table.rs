//! The report as tables for people, like those of the notes: a row for each size, a column for each number of
//! receivers.

use std::fmt;

use probe::Summary;
use units::text;

use super::options::{Calls, ThreadingModel};
use super::report::{Point, Report, Settings};
use crate::report::write_conclusions;
use crate::throughput::Account;
use crate::udp_notes;

/// Mark of a noisy point; the next one marks a point limited by its senders.
const NOISY: &str = "~";
const AT_LEAST: &str = "≥";

/// Selects one of the cells of a point.
type Cell = fn(&Cells) -> &str;

/// Cells of a point.
pub(super) struct Cells {
    pub(super) rate: String,
    pub(super) spread: String,
    /// Figure of the notes.
    pub(super) source: String,
    pub(super) lost: String,
    pub(super) cpu: String,
}

impl Cells {
    pub(super) fn of(point: &Point) -> Self {
        let text = |summary: Option<Summary>, write: fn(&Summary) -> String| {
            summary.as_ref().map_or_else(String::new, write)
        };
        let noisy = if point.noise.is_empty() { "" } else { NOISY };
        let at_least = if point.is_limited_by_senders() { AT_LEAST } else { "" };
        let rate = text(point.packets_per_second(), |it| text::grouped(it.median));
        let source = udp_notes::figure(point.threading_model, point.workers, point.payload_bytes);
        Self {
            rate: format!("{noisy}{at_least}{rate}"),
            spread: text(point.packets_per_second(), |it| {
                format!("{}–{}", text::grouped(it.min), text::grouped(it.max))
            }),
            source: source.map_or_else(String::new, |it| text::grouped(it.packets_per_second)),
            lost: text(point.lost_percent(), |it| format!("{:.2} %", it.median)),
            cpu: text(point.receivers_cpu_percent(), |it| format!("{:.0} %", it.median)),
        }
    }
}

impl Report {
    /// Describes hosts and settings.
    pub(super) fn circumstances(&self) -> String {
        format!("{}\n{}", self.start.hosts_in_words(), self.start.test_start.in_words())
    }

    fn write_threading_model(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        threading_model: ThreadingModel,
    ) -> fmt::Result {
        let workers = &self.start.test_start.workers;
        writeln!(formatter, "\n{threading_model}: {}", threading_model.in_words())?;
        let numbers = workers.iter().map(|workers| format!("{workers:>20}")).collect::<String>();
        writeln!(formatter, "{:>7}  {:14}{numbers}", "PAYLOAD", "RECEIVERS")?;
        for payload in &self.start.test_start.payloads {
            let points: Vec<Option<Cells>> = workers
                .iter()
                .map(|workers| self.point(threading_model, *workers, *payload).map(Cells::of))
                .collect();
            let mut head = format!("{payload} B");
            let lines: [(&str, Cell); 5] = [
                ("received/s", |cells| &cells.rate),
                ("min–max", |cells| &cells.spread),
                ("UDP notes", |cells| &cells.source),
                ("lost", |cells| &cells.lost),
                ("receivers' CPU", |cells| &cells.cpu),
            ];
            for (name, of) in lines {
                let cells: Vec<&str> = points.iter().map(|it| it.as_ref().map_or("", of)).collect();
                if cells.iter().any(|cell| !cell.is_empty()) {
                    let cells = cells.iter().map(|cell| format!("{cell:>20}")).collect::<String>();
                    writeln!(formatter, "{:>7}  {name:14}{cells}", std::mem::take(&mut head))?;
                }
            }
        }
        Ok(())
    }

    fn write_marks(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.points.iter().any(Point::is_limited_by_senders) {
            writeln!(
                formatter,
                "\n{AT_LEAST} next to nothing was lost: the senders were the limit, the receivers might take more"
            )?;
        }
        let cut = self.cut_runs();
        if !cut.is_empty() {
            writeln!(formatter, "\nnot whole:")?;
            cut.iter().try_for_each(|cut| writeln!(formatter, "  {cut}"))?;
        }
        let noise = self.noise();
        if !noise.is_empty() {
            writeln!(formatter, "\n{NOISY} noisy, not to be relied on:")?;
            noise.iter().try_for_each(|noise| writeln!(formatter, "  {noise}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    /// Writes the hosts, every point with its spread, its loss and its processor time, the accounts and conclusions.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", self.circumstances())?;
        let measured = |threading_model: &ThreadingModel| {
            self.points.iter().any(|it| it.threading_model == *threading_model)
        };
        for threading_model in ThreadingModel::ALL.into_iter().filter(measured) {
            self.write_threading_model(formatter, threading_model)?;
        }
        self.write_marks(formatter)?;
        writeln!(formatter, "\naccounts in datagrams, all runs of a point together:")?;
        for point in &self.points {
            writeln!(formatter, "  {:19} {:16} {}", point.threading_model, point.case(), account(point))?;
        }
        writeln!(formatter, "\nall processors of the receivers' host, in percent of one:")?;
        for point in &self.points {
            if let Some(shares) = point.runs.last().and_then(|run| run.processors) {
                writeln!(
                    formatter,
                    "  {:19} {:16} {}",
                    point.threading_model,
                    point.case(),
                    shares.in_words()
                )?;
            }
        }
        writeln!(formatter)?;
        write_conclusions(formatter, "002", &self.conclusions)?;
        self.end.notes.iter().try_for_each(|note| writeln!(formatter, "note: {note}"))?;
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

/// Returns the account of all runs of a point as text, with the kernel's own count.
pub(super) fn account(point: &Point) -> String {
    let accounts: Vec<Account> = point.runs.iter().map(|run| run.account.clone()).collect();
    let drops: u64 = point.runs.iter().map(super::Run::drops).sum();
    format!("{}; {drops} dropped by the sockets", Account::sum(&accounts).in_words())
}

impl Settings {
    fn in_words(&self) -> String {
        let rate = match (self.target_packets_per_second, self.target_bitrate) {
            (Some(packets @ 1..), _) => format!("{packets} datagrams a second"),
            (_, Some(bits @ 1..)) => text::rate(bits as f64),
            _ => "as fast as they go".to_owned(),
        };
        let calls = match self.calls {
            Calls::Single => "one datagram per call",
            Calls::Batches => "several datagrams a call (sendmmsg, recvmmsg)",
            Calls::Trains => "sent in trains (UDP_SEGMENT), received several a call",
        };
        let buffer = self.receive_buffer_bytes.map_or("the system's receive buffer".to_owned(), |bytes| {
            format!("receive buffers of {}", text::size(bytes as f64))
        });
        format!(
            "{} {rate}, {calls}, {buffer}; {} of {} s each",
            text::counted(self.senders, "sender"),
            text::counted(self.repeats, "run"),
            self.duration
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::report::tests::{example, point};

    #[test]
    fn a_table_has_the_sources_shape_and_its_figures_below_ours() {
        let text = example().to_string();
        for line in [
            "PAYLOAD  RECEIVERS                        1                   2",
            "    1 B  received/s                 500,001             700,001",
            "         UDP notes                  791,676           1,016,197",
            "         UDP notes                  791,676             509,868",
            "2400003 sent = 1500003 received + 900000 receiver_socket_buffer + 0 unexplained; 900000 dropped",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_point_that_lost_nothing_is_a_lower_bound() {
        let cells = Cells::of(&point(ThreadingModel::OwnThreads, 1, 100, 1_000, 0));
        assert_eq!((cells.rate.as_str(), cells.source.as_str()), ("≥1,001", ""));
    }
}
