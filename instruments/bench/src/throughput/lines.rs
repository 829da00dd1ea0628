//! Intervals and results of runs as lines for people, much as iperf3 writes them; rates are never shown without
//! losses.

use std::fmt::Write as _;

use units::text::{counted, rate as rate_text, size as bytes_text};

use super::options::Protocol;
use super::report::{Figures, Interval, RunReport, Settings, Start, Sums};

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
