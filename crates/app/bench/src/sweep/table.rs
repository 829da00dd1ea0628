//! The report as a table for people: a row for each point.

use std::fmt;

use probe::Summary;

use super::report::{Point, Report, Settings};
use crate::report::words;
use crate::throughput::Rate;

/// What marks a noisy point.
const NOISY: &str = "~";

/// What is shown of a point.
pub(super) fn cells(point: &Point) -> [String; 9] {
    let buffer = |bytes: Option<u64>| bytes.map_or("system".to_owned(), |it| words::bytes(it as f64));
    let text = |summary: Option<Summary>, write: &dyn Fn(f64) -> String| {
        summary.map_or_else(String::new, |it| write(it.median))
    };
    let noisy = if point.noise.is_empty() { "" } else { NOISY };
    let spread = point
        .received()
        .map_or_else(String::new, |it| format!("({} – {})", words::rate(it.min), words::rate(it.max)));
    let percent = |value: f64| format!("{value:.3} %");
    let received = match point.highest {
        Some(found) => found.in_words(),
        None => format!("{noisy}{}", text(point.received(), &words::rate)),
    };
    [
        format!("{} B", point.payload_bytes),
        rate(point.rate),
        buffer(point.send_buffer_bytes),
        buffer(point.receive_buffer_bytes),
        text(point.burned_percent(), &|value| format!("{value:.0} %")),
        text(point.sent(), &words::rate),
        received,
        spread,
        text(point.lost_percent(), &percent),
    ]
}

fn rate(rate: Rate) -> String {
    match rate {
        Rate::Bits(0) | Rate::Units(0) => "max".to_owned(),
        Rate::Bits(bits) => words::rate(bits as f64),
        Rate::Units(units) => format!("{units} /s"),
    }
}

impl Report {
    /// Says where and how it was measured.
    pub(super) fn circumstances(&self) -> String {
        match &self.start {
            Some(start) => format!("{}\n{}", start.hosts_in_words(), start.test_start.in_words()),
            None => "ended before the first point was there".to_owned(),
        }
    }
}

impl fmt::Display for Report {
    /// Writes the hosts, every point with its spread, its loss and its load, the accounts, and what is to be known.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", self.circumstances())?;
        writeln!(
            formatter,
            "{:>8} {:>11} {:>10} {:>10} {:>6} {:>12} {:>13} {:>29} {:>10}",
            "PAYLOAD", "RATE", "SEND BUF", "RECV BUF", "BURNT", "SENT", "RECEIVED", "(LEAST – MOST)", "LOST"
        )?;
        for point in &self.points {
            let [payload, rate, send, receive, burned, sent, received, spread, lost] = cells(point);
            writeln!(
                formatter,
                "{payload:>8} {rate:>11} {send:>10} {receive:>10} {burned:>6} {sent:>12} {received:>13} {spread:>29} {lost:>10}"
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

/// Writes the account of all runs of a point.
pub(super) fn account(point: &Point) -> String {
    let accounts: Vec<_> = point.runs.iter().filter_map(|run| run.account.clone()).collect();
    if accounts.is_empty() {
        return "none, no receiver could tell what arrived".to_owned();
    }
    crate::throughput::Account::sum(&accounts).in_words()
}

impl Settings {
    fn in_words(&self) -> String {
        let burn = match (self.burns_percent.iter().copied().fold(0.0, f64::max), self.burn_workers) {
            (0.0, _) => "no load put on".to_owned(),
            (_, None) => "load put on every processor of the receiver's host where it says so".to_owned(),
            (_, Some(workers)) => format!("load put on by {}", words::counted(workers, "thread")),
        };
        let search = self.loss_below_ppm.map_or_else(String::new, |ppm| {
            format!("; the highest rate at which at most {} % is lost", f64::from(ppm) / 10_000.0)
        });
        format!("UDP, {} of {} s each, {burn}{search}", words::counted(self.repeats, "run"), self.duration)
    }
}

#[cfg(test)]
mod tests {
    use crate::sweep::report::tests::example;

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
