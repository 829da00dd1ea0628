//! The report as a table for people: a row for each point.

use std::fmt;

use probe::Summary;
use units::text;

use super::report::{Point, Report, Settings};
use crate::throughput::{Found, LossFreeFound, Rate};

/// Mark of a noisy point.
const NOISY: &str = "~";

/// Returns the cells of a point.
pub(super) fn cells(point: &Point) -> [String; 9] {
    let text = |summary: Option<Summary>, write: &dyn Fn(f64) -> String| {
        summary.map_or_else(String::new, |it| write(it.median))
    };
    let noisy = if point.noise.is_empty() { "" } else { NOISY };
    let spread = point
        .received()
        .map_or_else(String::new, |it| format!("({} – {})", text::rate(it.min), text::rate(it.max)));
    let percent = |value: f64| format!("{value:.3} %");
    let received = match point.highest {
        Some(found) => format!("{noisy}{}", highest(&found)),
        None => format!("{noisy}{}", text(point.received(), &text::rate)),
    };
    [
        format!("{} B", point.payload_bytes),
        rate(point.rate),
        buffer(point.send_buffer_bytes, point.granted_send_buffer_bytes),
        buffer(point.receive_buffer_bytes, point.granted_receive_buffer_bytes),
        text(point.applied_load_percent(), &|value| format!("{value:.0} %")),
        text(point.sent(), &text::rate),
        received,
        spread,
        text(point.lost_percent(), &percent),
    ]
}

fn rate(rate: Rate) -> String {
    match rate {
        Rate::Bits(0) | Rate::Units(0) => "max".to_owned(),
        Rate::Bits(bits) => text::rate(bits as f64),
        Rate::Units(units) => format!("{units} /s"),
    }
}

impl Report {
    /// Describes hosts and settings.
    pub(super) fn circumstances(&self) -> String {
        match &self.start {
            Some(start) => format!("{}\n{}", start.hosts_in_words(), start.test_start.in_words()),
            None => "ended before the first point was there".to_owned(),
        }
    }
}

impl fmt::Display for Report {
    /// Writes the hosts, every point with its spread, its loss and its load, the accounts, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", self.circumstances())?;
        writeln!(
            formatter,
            "{:>8} {:>11} {:>10} {:>10} {:>6} {:>12} {:>13} {:>29} {:>10}",
            "PAYLOAD", "RATE", "SEND BUF", "RECV BUF", "LOAD", "SENT", "RECEIVED", "(MIN – MAX)", "LOST"
        )?;
        for point in &self.points {
            let [payload, rate, send, receive, applied_load, sent, received, spread, lost] = cells(point);
            writeln!(
                formatter,
                "{payload:>8} {rate:>11} {send:>10} {receive:>10} {applied_load:>6} {sent:>12} {received:>13} {spread:>29} {lost:>10}"
            )?;
        }
        writeln!(formatter, "\naccounts in datagrams, all runs of a point together:")?;
        for point in &self.points {
            writeln!(formatter, "  {:56} {}", point.case(), account(point))?;
        }
        let noise = self.noise();
        if !noise.is_empty() {
            writeln!(formatter, "\n{NOISY} noisy, not to be relied on:")?;
            noise.iter().try_for_each(|noise| writeln!(formatter, "  {noise}"))?;
        }
        self.end.notes.iter().try_for_each(|note| writeln!(formatter, "note: {note}"))?;
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

/// Returns a buffer as text: the requested size, and the granted one if that is less.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn buffer(asked: Option<u64>, granted: Option<u64>) -> String {
    let bytes = |bytes: u64| text::size(bytes as f64);
    match (asked, granted) {
        (None, _) => "system".to_owned(),
        (Some(asked), Some(granted)) if granted < asked => {
            format!("{} of {}", bytes(granted), bytes(asked))
        }
        (Some(asked), _) => bytes(asked),
    }
}

/// Describes the result of a search. The table names the maximum loss once for the whole grid.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn highest(found: &LossFreeFound) -> String {
    let rate = |bits: u64| text::rate(bits as f64);
    match found.found {
        Found::Nothing => format!("none from {}", rate(found.step)),
        Found::Largest => format!("highest {}", rate(found.bits_per_second)),
        Found::Limit => format!("≥ {}", rate(found.bits_per_second)),
    }
}

/// Returns the account of all runs of a point as text.
pub(super) fn account(point: &Point) -> String {
    let accounts: Vec<_> = point.runs.iter().filter_map(|run| run.account.clone()).collect();
    if accounts.is_empty() {
        let why = point.why_no_rate().unwrap_or_else(|| "no receiver could tell what arrived".to_owned());
        return format!("none, {why}");
    }
    crate::throughput::Account::sum(&accounts).in_words()
}

impl Settings {
    fn in_words(&self) -> String {
        let cpu_load =
            match (self.cpu_loads_percent.iter().copied().fold(0.0, f64::max), self.cpu_load_workers) {
                (0.0, _) => "no CPU load".to_owned(),
                (_, None) => {
                    "CPU load on every processor of the receiver's host where LOAD says so".to_owned()
                }
                (_, Some(workers)) => {
                    format!("CPU load generated by {}", text::counted(workers, "thread"))
                }
            };
        let search = self.loss_below_ppm.map_or_else(String::new, |ppm| {
            format!(
                "; the highest rate at which at most {} % is lost, ≥ where the limit held",
                f64::from(ppm) / 10_000.0
            )
        });
        let trains = match (self.gso, self.gro) {
            (false, false) => "",
            (true, false) => " in trains (--gso)",
            (false, true) => ", trains received in one piece (--gro)",
            (true, true) => " in trains, received in one piece (--gso, --gro)",
        };
        format!(
            "UDP{trains}, {} of {} s each, {cpu_load}{search}",
            text::counted(self.repeats, "run"),
            self.duration
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::report::tests::{example, point};

    #[test]
    fn a_search_that_allows_loss_does_not_say_without_loss() {
        let mut found = LossFreeFound {
            found: Found::Largest,
            bits_per_second: 90_000_000,
            limit: 100_000_000,
            step: 1_000_000,
            confirmations: 3,
        };
        let shown = |found: LossFreeFound| {
            let [.., highest, _, lost] = cells(&Point { highest: Some(found), ..point(64, None, 0.0, 50) });
            (highest, lost)
        };
        assert_eq!(shown(found), ("highest 90.0 Mbit/s".to_owned(), "0.050 %".to_owned()));
        found.found = Found::Limit;
        assert_eq!(shown(found).0, "≥ 90.0 Mbit/s");
        found.found = Found::Nothing;
        assert_eq!(shown(found).0, "none from 1.00 Mbit/s");
        let hole = Point { highest: Some(found), runs: Vec::new(), ..point(64, None, 0.0, 50) };
        assert_eq!(account(&hole), "none, no rate held down to 1.00 Mbit/s");
    }

    #[test]
    fn a_buffer_that_the_kernel_clamped_is_told_as_it_is() {
        assert_eq!(buffer(None, Some(106_496)), "system");
        assert_eq!(buffer(Some(8 << 20), Some(8 << 20)), "8.00 MiB");
        assert_eq!(buffer(Some(8 << 20), Some(212_992)), "208 KiB of 8.00 MiB");
        assert_eq!(buffer(Some(8 << 20), None), "8.00 MiB");
    }

    #[test]
    fn a_row_says_what_was_asked_for_what_was_found_and_what_the_load_really_was() {
        let text = example().to_string();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(" max ")).collect();
        assert_eq!(rows.len(), 8, "{text}");
        let words: Vec<&str> = rows[1].split_whitespace().collect();
        assert_eq!(words[..8], ["64", "B", "max", "system", "system", "98", "%", "100"], "{}", rows[1]);
        assert!(rows[1].ends_with("100.000 %"));
        assert!(
            text.contains("300000 sent = 150000 received + 150000 receiver_socket_buffer + 0 unexplained")
        );
    }
}
