//! The report for people and as CSV: a row for each size, and for each size of each run. Times are never shown
//! without losses.

use units::text::{self, counted};

use super::figure::charts;
use super::options::Wait;
use super::report::{Account, HALF_ROUND_TRIP, RATE, Report, Session, SizeStepReport, Start};
use crate::report::table::{decimals, ordinal, plain};
use crate::report::{Columns, Document, Row, Section, forms, noise};

forms!(Report);

impl crate::report::Report for Report {
    fn document(&self) -> Document {
        let mark = if self.end.noise.is_empty() { "" } else { "~" };
        Document {
            title: "Ping-pong".to_owned(),
            heading: "Round-trip time and rate at every message size".to_owned(),
            circumstances: self.start.in_words(),
            details: self.start.limits_in_words(),
            noise: self.end.noise.clone(),
            charts: charts(self),
            sections: vec![
                Section::table("Every size", sizes().table(self.sizes()))
                    .remark("Δt/2 in µs, medians of the runs; lost are exchanges of all runs"),
                Section::lines("As in table 1 of Petri 2007", self.source_table()),
                Row::medians(&self.end.rows, mark).on_page(),
                Section::table("Every run", size_steps().table(&self.size_steps))
                    .remark(
                        "Δt/2 in µs; in exchanges: sent = completed + lost forward + lost in reverse + unexplained",
                    )
                    .on_page(),
                Section::lines("The accounts", self.accounts()),
                Section::lines("Not whole", self.not_whole()),
            ],
            notes: self.end.notes.clone(),
            missing: self.end.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        size_steps().to_csv(&self.size_steps)
    }
}

/// All runs of a message size over a system.
struct Size<'a> {
    report: &'a Report,
    system: &'a str,
    bytes: u64,
    size_steps: Vec<&'a SizeStepReport>,
}

fn sizes<'a>() -> Columns<Size<'a>> {
    Columns::<Size>::new()
        .words("over", |it| it.system)
        .number("message [B]", plain, |it| it.bytes)
        .number("p50", plain, |it| Some(format!("{}{:.1}", it.mark(), it.row(HALF_ROUND_TRIP)?.median)))
        .number("least", decimals::<1>, |it| it.row(HALF_ROUND_TRIP).map(|row| row.min))
        .number("most", decimals::<1>, |it| it.row(HALF_ROUND_TRIP).map(|row| row.max))
        .number("p99", decimals::<1>, |it| it.row("half_round_trip_p99").map(|row| row.median))
        .number("p99.9", decimals::<1>, |it| it.row("half_round_trip_p999").map(|row| row.median))
        .number("longest", decimals::<1>, |it| it.longest_us())
        .number("rate", text::rate, |it| it.row(RATE).map(|row| row.median))
        .number("least", text::rate, |it| it.row(RATE).map(|row| row.min))
        .number("most", text::rate, |it| it.row(RATE).map(|row| row.max))
        .number("lost", plain, |it| {
            format!("{}/{}", it.sum(|account| account.lost()), it.sum(|account| account.sent))
        })
}

fn size_steps<'a>() -> Columns<&'a SizeStepReport> {
    Columns::<&SizeStepReport>::new()
        .shared("run", "run", ordinal, |it| it.run)
        .shared_words("over", "system", |it| it.system.as_str())
        .shared("message [B]", "message_bytes", plain, |it| it.message_bytes)
        .shared("sent", "sent", plain, |it| it.account.sent)
        .shared("completed", "completed", plain, |it| it.account.completed)
        .shared("lost forward", "lost_there", plain, |it| it.account.lost_forward)
        .shared("lost in reverse", "lost_back", plain, |it| it.account.lost_reverse)
        .shared("unexplained", "unexplained", plain, |it| it.account.unexplained)
        .csv("measured", |it| it.half_round_trip.map(|times| times.count))
        .times(|it| it.half_round_trip)
        .shared("rate", "bits_per_second", text::rate, |it| it.bits_per_second)
        .csv("retransmits", |it| it.retransmits)
        .warning(|it| it.trouble.as_deref())
}

impl<'a> Size<'a> {
    fn row(&self, metric: &str) -> Option<&'a Row> {
        self.report.row(self.system, self.bytes, metric)
    }

    /// Returns the mark of a noisy size: other work disturbs all sizes, a wide spread concerns its own only.
    fn mark(&self) -> &'static str {
        let was_disturbed = self.report.end.sessions.iter().any(|session| !session.noise.is_empty());
        let is_noisy = was_disturbed || self.row(HALF_ROUND_TRIP).is_some_and(noise::is_wide);
        if is_noisy { "~" } else { "" }
    }

    fn longest_us(&self) -> Option<f64> {
        self.size_steps.iter().filter_map(|it| Some(it.half_round_trip?.max_us)).reduce(f64::max)
    }

    fn sum(&self, of: impl Fn(&Account) -> u64) -> u64 {
        self.size_steps.iter().map(|it| of(&it.account)).sum()
    }
}

impl Report {
    fn sizes(&self) -> impl Iterator<Item = Size<'_>> {
        self.start.test_start.points().filter_map(|(system, bytes)| {
            let size_steps: Vec<_> = self.size_steps_of(system, bytes).collect();
            (!size_steps.is_empty()).then_some(Size { report: self, system, bytes, size_steps })
        })
    }

    /// Returns the columns of table 1 of Petri 2007 for each system: the time of the smallest message, the rate of
    /// the largest.
    fn source_table(&self) -> Vec<String> {
        let sizes = &self.start.test_start.sizes;
        let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) else { return Vec::new() };
        let of_system = |system: &String| {
            let time = self.row(system, *least, HALF_ROUND_TRIP);
            let rate = self.row(system, *most, RATE);
            let time = time.map_or("–".to_owned(), |row| format!("{:.1} µs", row.median));
            let rate = rate.map_or("–".to_owned(), |row| text::rate(row.median));
            format!("{system}: Δt/2 at {least} B {time}, size/Δt at {most} B {rate}")
        };
        self.start.test_start.systems.iter().map(of_system).collect()
    }

    /// Describes the account of all exchanges over each system.
    fn accounts(&self) -> Vec<String> {
        let systems = self.start.test_start.systems.iter();
        systems.filter_map(|system| self.account(system)).collect()
    }

    fn account(&self, system: &str) -> Option<String> {
        let size_steps = || self.size_steps.iter().filter(|it| it.system == system);
        size_steps().next()?;
        let sum = |of: fn(Account) -> u64| size_steps().map(|it| of(it.account)).sum::<u64>();
        let sessions = || self.end.sessions.iter().filter(|it| it.system == system);
        let drops = |of: fn(&Session) -> u64| sessions().map(of).sum::<u64>();
        Some(format!(
            "account of {system} in exchanges: {} sent = {} completed + {} lost forward + {} lost in reverse + {} unexplained; \
             datagrams dropped by full receive buffers: {} at the server, {} at the client",
            sum(|it| it.sent),
            sum(|it| it.completed),
            sum(|it| it.lost_forward),
            sum(|it| it.lost_reverse),
            sum(|it| it.unexplained),
            drops(|it| it.server.dropped_by_socket),
            drops(|it| it.client.dropped_by_socket),
        ))
    }

    fn not_whole(&self) -> Vec<String> {
        let cut = self.size_steps.iter().filter_map(|it| {
            let SizeStepReport { run, system, message_bytes, .. } = it;
            let trouble = it.trouble.as_ref()?;
            Some(format!("run {}, {message_bytes} B over {system}, is not whole: {trouble}", run + 1))
        });
        let skipped = self.end.skipped.iter().map(|it| format!("{} was left out: {}", it.system, it.reason));
        cut.chain(skipped).collect()
    }
}

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
