//! Intervals and results as lines for people, much as iperf3 writes them; rates are never shown without losses.

use std::fmt::{self, Write as _};

use units::text::{counted, rate as rate_text, size as bytes_text};

use super::options::Protocol;
use super::report::{Figures, Interval, Report, RunReport, Settings, Start, Sums};
use crate::report::{Whole, write_rows};

impl Protocol {
    /// Returns the protocol's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Multicast => "multicast",
            Self::Stream => "stream",
            Self::StreamMulticast => "stream multicast",
        }
    }
}

impl Start {
    /// Describes measurement and ends.
    #[must_use]
    pub fn in_words(&self) -> String {
        let test = &self.test_start;
        let way = match (test.reverse, test.bidir) {
            (_, 1) => "both ways",
            (1, _) => "from the server",
            _ => "to the server",
        };
        let rate = match (test.target_packets_per_second, test.target_bitrate) {
            (Some(0), _) | (None, 0) => "as fast as possible".to_owned(),
            (Some(packets), _) => format!("{packets} a second each"),
            (None, bits) => format!("{} each", rate_text(bits as f64)),
        };
        format!(
            "{}\n{}{} {way} {}:{}, {} of {} bytes, {rate}; {} of {} s",
            self.hosts_in_words(),
            test.protocol,
            test.trains_in_words(),
            self.connecting_to.host,
            self.connecting_to.port,
            counted(test.num_streams, "flow"),
            test.blksize,
            counted(test.repeats, "run"),
            test.duration
        )
    }
}

impl Settings {
    /// Describes the ends that handle trains of datagrams; empty if neither does.
    const fn trains_in_words(&self) -> &'static str {
        match (self.gso, self.gro) {
            (true, true) => " in trains (GSO, GRO)",
            (true, false) => " in trains (GSO)",
            (false, true) => " received in trains (GRO)",
            (false, false) => "",
        }
    }
}

impl Interval {
    /// Formats the interval: a line for the sent and one for the received data, in each direction.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        if self.streams.len() > 2 {
            for figures in &self.streams {
                write_line(&mut text, &line_head(self.run, figures), figures);
            }
        }
        write_sums(&mut text, self.run, &self.sums);
        text
    }
}

impl RunReport {
    /// Formats the results of the run.
    #[must_use]
    pub fn in_words(&self) -> String {
        let rate = match self.target_bitrate {
            0 => String::new(),
            bits => format!(" at {} each", rate_text(bits as f64)),
        };
        let mut text = format!("run {}{rate} came to\n", self.run + 1);
        write_sums(&mut text, self.run, &self.sums);
        for noise in &self.noise {
            let _ = writeln!(text, "  ~ noisy: {noise}");
        }
        if self.skipped > 0 {
            let _ = writeln!(text, "  skipped {}: stalls of senders kept them from being sent", self.skipped);
        }
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "  not whole: {trouble}");
        }
        text
    }
}

impl fmt::Display for Report {
    /// Writes the results of all runs with their spread, the accounts, and the notes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.end.noise.is_empty() { Whole::Quiet } else { Whole::Noisy };
        write_rows(formatter, &self.end.rows, whole)?;
        if let Some(found) = &self.end.loss_free {
            writeln!(formatter, "{}", found.in_words())?;
        }
        self.write_accounts(formatter)?;
        let cpu = &self.end.cpu_utilization_percent;
        let remote = cpu.remote_total.map_or("unknown".to_owned(), |percent| format!("{percent:.0} %"));
        let load = self.end.load_1min.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        writeln!(formatter, "CPU: client {:.0} %, server {remote}; load {load} afterwards", cpu.host_total)?;
        for noise in &self.end.noise {
            writeln!(formatter, "~ noisy, not to be relied on: {noise}")?;
        }
        for note in &self.end.notes {
            writeln!(formatter, "note: {note}")?;
        }
        self.end.state.in_words().map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

impl Report {
    /// Writes the account by stage of loss, all flows of all runs together.
    fn write_accounts(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounts: Vec<_> = self.end.streams.iter().filter_map(|flow| flow.account.as_ref()).collect();
        let Some(first) = accounts.first() else {
            return writeln!(formatter, "account: none, no receiver could tell what arrived");
        };
        let unit = if first.unit == super::Unit::Bytes { "bytes" } else { "datagrams" };
        let sum = |of: fn(&super::Account) -> u64| accounts.iter().map(|it| of(it)).sum::<u64>();
        let mut lost = std::collections::BTreeMap::<&str, u64>::new();
        for (stage, count) in accounts.iter().flat_map(|account| &account.lost) {
            *lost.entry(stage).or_default() += count;
        }
        let lost: String = lost.iter().map(|(stage, count)| format!(" + {count} {stage}")).collect();
        let all_closed = accounts.iter().all(|it| it.state == super::AccountState::Closed);
        let state =
            if all_closed { "closed" } else { "unconfirmed: a sender could not say how much there was" };
        writeln!(
            formatter,
            "account in {unit}: {} sent = {} received{lost} + {} unexplained ({state})",
            sum(|it| it.sent),
            sum(|it| it.received),
            sum(|it| it.unexplained),
        )
    }
}

fn write_sums(text: &mut String, run: u32, sums: &Sums) {
    for (figures, name) in sums.all() {
        if let Some(figures) = figures {
            let way = if name.ends_with("reverse") { "back" } else { "" };
            write_line(text, &format!("[{:>2}] sum {way:4}", run + 1), &figures);
        }
    }
}

fn line_head(run: u32, figures: &Figures) -> String {
    let socket = figures.socket.unwrap_or(0);
    let receiver = figures.receiver.map_or(String::new(), |receiver| format!(".{receiver}"));
    format!("[{:>2}] {:<8}", run + 1, format!("{socket}{receiver}"))
}

fn write_line(text: &mut String, head: &str, it: &Figures) {
    let side = if it.sender { "sent" } else { "received" };
    let _ = write!(
        text,
        "{head} {:>7.2}-{:<7.2} s {side:8} {:>10} {:>14}",
        it.start,
        it.end,
        bytes_text(it.bytes as f64),
        rate_text(it.bits_per_second)
    );
    if let Some(packets) = it.packets.filter(|_| it.sender) {
        let _ = write!(text, "  {packets} datagrams");
    }
    match (it.lost_packets, it.packets) {
        (Some(lost), Some(packets)) => {
            let _ = write!(text, "  lost {lost}/{packets} ({:.2} %)", it.lost_percent.unwrap_or(0.0));
        }
        (None, Some(_)) if !it.sender => text.push_str("  lost: known at the end"),
        _ => {}
    }
    if let Some(jitter) = it.jitter_ms {
        let _ = write!(text, "  jitter {jitter:.3} ms");
    }
    if let Some(count) = it.out_of_order.filter(|count| *count > 0) {
        let _ = write!(text, "  {count} out of order");
    }
    if let Some(retransmits) = it.retransmits {
        let _ = write!(text, "  {retransmits} sent again");
    }
    if let Some(window) = it.snd_cwnd {
        let _ = write!(text, "  window {}", bytes_text(window as f64));
    }
    if it.omitted {
        text.push_str("  (omitted)");
    }
    text.push('\n');
}
