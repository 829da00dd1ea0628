//! The report as a table for people; times are never shown without losses.

use std::fmt;

use units::text::{self, counted};

use super::options::Wait;
use super::report::{HALF_ROUND_TRIP, RATE, Report, SizeStepReport, Start};
use crate::report::noise;

impl Start {
    /// Describes measurement and ends.
    #[must_use]
    pub fn in_words(&self) -> String {
        let settings = &self.test_start;
        let wait = match settings.wait {
            Wait::Sleep => "both ends sleep while they wait",
            Wait::Spin => "both ends spin while they wait",
        };
        format!(
            "{}\nping-pong with {}:{} over {}; {} of {} s or {} exchanges at each of {}; datagrams of {} bytes; {wait}",
            self.hosts_in_words(),
            self.connecting_to.host,
            self.connecting_to.port,
            settings.systems.join(", "),
            counted(settings.repeats, "run"),
            settings.time,
            settings.exchanges,
            counted(u32::try_from(settings.sizes.len()).unwrap_or(u32::MAX), "size"),
            settings.datagram_bytes,
        )
    }
}

impl fmt::Display for Report {
    /// Writes every size with its spread and loss, then the two figures of Petri 2007, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n", self.start.in_words())?;
        writeln!(
            formatter,
            "{:14} {:>11}  {:>11} {:>25} {:>11} {:>11} {:>11}  {:>11} {:>31}  LOST",
            "", "MESSAGE [B]", "Δt/2 p50", "(MIN – MAX) [µs]", "p99", "p99.9", "MAX", "RATE", "(MIN – MAX)"
        )?;
        for system in &self.start.test_start.systems {
            for size in &self.start.test_start.sizes {
                self.write_size(formatter, system, *size)?;
            }
        }
        self.write_source_table(formatter)?;
        self.write_account(formatter)?;
        for size_step in &self.size_steps {
            if let Some(trouble) = &size_step.trouble {
                let SizeStepReport { run, system, message_bytes, .. } = size_step;
                writeln!(
                    formatter,
                    "run {}, {message_bytes} B over {system}, is not whole: {trouble}",
                    run + 1
                )?;
            }
        }
        for skipped in &self.end.skipped {
            writeln!(formatter, "{} was left out: {}", skipped.system, skipped.reason)?;
        }
        for noise in &self.end.noise {
            writeln!(formatter, "~ noisy, not to be relied on: {noise}")?;
        }
        self.end.notes.iter().try_for_each(|note| writeln!(formatter, "note: {note}"))?;
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

impl Report {
    fn write_size(&self, formatter: &mut fmt::Formatter<'_>, system: &str, size: u64) -> fmt::Result {
        let size_steps: Vec<_> = self.size_steps_of(system, size).collect();
        if size_steps.is_empty() {
            return Ok(());
        }
        let (sent, lost) = size_steps.iter().fold((0, 0), |(sent, lost), size_step| {
            (sent + size_step.account.sent, lost + size_step.account.lost())
        });
        let row = |metric| self.row(system, size, metric);
        let number = |metric| row(metric).map_or("–".to_owned(), |row| format!("{:.1}", row.median));
        // Other work disturbs all sizes; a wide spread concerns its own size only.
        let was_disturbed = self.end.sessions.iter().any(|session| !session.noise.is_empty());
        let is_noisy = was_disturbed || row(HALF_ROUND_TRIP).is_some_and(noise::is_wide);
        let mark = if is_noisy { "~" } else { "" };
        let spread =
            row(HALF_ROUND_TRIP).map_or(String::new(), |row| format!("({:.1} – {:.1})", row.min, row.max));
        let rate = row(RATE).map_or("–".to_owned(), |row| text::rate(row.median));
        let rates = row(RATE)
            .map_or(String::new(), |row| format!("({} – {})", text::rate(row.min), text::rate(row.max)));
        let longest = size_steps
            .iter()
            .filter_map(|size_step| size_step.half_round_trip)
            .map(|it| it.max_us)
            .fold(0.0, f64::max);
        writeln!(
            formatter,
            "{system:14} {size:>11}  {:>11} {spread:>25} {:>11} {:>11} {longest:>11.1}  {rate:>11} {rates:>31}  {lost}/{sent}",
            format!("{mark}{}", number(HALF_ROUND_TRIP)),
            number("half_round_trip_p99"),
            number("half_round_trip_p999"),
        )
    }

    /// Writes the columns of table 1 of Petri 2007 for each system: the time of the smallest message, the rate of the largest.
    fn write_source_table(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = &self.start.test_start.sizes;
        let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) else { return Ok(()) };
        writeln!(
            formatter,
            "\n{:14} {:>18} {:>26}",
            "",
            format!("Δt/2 at {least} B"),
            format!("size/Δt at {most} B")
        )?;
        for system in &self.start.test_start.systems {
            let time = self.row(system, *least, HALF_ROUND_TRIP);
            let rate = self.row(system, *most, RATE);
            let time = time.map_or("–".to_owned(), |row| format!("{:.1} µs", row.median));
            let rate = rate.map_or("–".to_owned(), |row| text::rate(row.median));
            writeln!(formatter, "{system:14} {time:>18} {rate:>26}")?;
        }
        writeln!(formatter)
    }

    /// Writes the account of all exchanges.
    fn write_account(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for system in &self.start.test_start.systems {
            let size_steps = || {
                self.size_steps
                    .iter()
                    .filter(|size_step| size_step.system == *system)
                    .map(|size_step| size_step.account)
            };
            if size_steps().next().is_none() {
                continue;
            }
            let sum = |of: fn(super::Account) -> u64| size_steps().map(of).sum::<u64>();
            let drops = |of: fn(&super::Session) -> u64| {
                self.end.sessions.iter().filter(|it| it.system == *system).map(of).sum::<u64>()
            };
            writeln!(
                formatter,
                "account of {system} in exchanges: {} sent = {} completed + {} lost forward + {} lost in reverse + {} unexplained; \
                 datagrams dropped by full receive buffers: {} at the server, {} at the client",
                sum(|it| it.sent),
                sum(|it| it.completed),
                sum(|it| it.lost_forward),
                sum(|it| it.lost_reverse),
                sum(|it| it.unexplained),
                drops(|it| it.server.dropped_by_socket),
                drops(|it| it.client.dropped_by_socket),
            )?;
        }
        Ok(())
    }
}
