//! A test as lines of text. Every rate comes with its loss or retransmissions.

use std::fmt;

use units::text;

use super::parameters::{Flow, Protocol};
use super::report::{Report, Side, StreamReport, Verdict};
use super::traffic::{Interval, StreamInterval};

impl fmt::Display for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let omitted = if self.is_omitted { " (omitted)" } else { "" };
        for (index, stream) in self.streams.iter().enumerate() {
            let head = Head { id: stream.id, start_s: self.start_s, end_s: self.end_s };
            let seconds = self.end_s - self.start_s;
            let side = Side { bytes: stream.bytes, packets: stream.packets, seconds };
            let end = if index + 1 < self.streams.len() { "\n" } else { "" };
            write!(
                formatter,
                "{head} {} {}{omitted}{end}",
                Rate(&side),
                StreamOutcome(self.protocol, stream)
            )?;
        }
        Ok(())
    }
}

/// Start of a line: stream and interval.
struct Head {
    id: u32,
    start_s: f64,
    end_s: f64,
}

impl fmt::Display for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{:3}] {:6.2}-{:<6.2} s", self.id, self.start_s, self.end_s)
    }
}

/// Amount and rate.
struct Rate<'a>(&'a Side);

impl fmt::Display for Rate<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, rate) = (text::size(self.0.bytes as f64), text::rate(self.0.rate()));
        write!(formatter, "{bytes:>12} {rate:>14}")
    }
}

/// The outcome of an interval of a stream.
struct StreamOutcome<'a>(Protocol, &'a StreamInterval);

impl fmt::Display for StreamOutcome<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(protocol, stream) = self;
        match (protocol, stream.sends) {
            (Protocol::Tcp, true) => write!(formatter, "sent, {} segments again", stream.retransmits),
            (Protocol::Tcp, false) => write!(formatter, "received"),
            (Protocol::Udp, true) => {
                write!(
                    formatter,
                    "sent, {} datagrams; the receiver reports the loss at the end",
                    stream.packets
                )
            }
            (Protocol::Udp, false) => write!(
                formatter,
                "received, lost {}/{} datagrams ({:.3} %), jitter {:.3} ms",
                stream.missing,
                stream.packets,
                percent(stream.missing as f64, stream.packets),
                stream.jitter_s * 1e3
            ),
        }
    }
}

/// Returns a part in percent; 0 if the whole is 0.
pub(super) fn percent(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 * 100.0 }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for stream in &self.streams {
            write_stream(formatter, self.test.protocol, stream)?;
        }
        for flow in self.flows().filter(|_| self.test.parallel > 1) {
            let sum = self.sum(flow);
            let (sender, receiver) = ends(flow);
            writeln!(formatter, "[SUM]                   {} sent by the {sender}", Rate(&sum.sent))?;
            let unit = unit(self.test.protocol);
            let received = Rate(&sum.received);
            writeln!(
                formatter,
                "[SUM]                   {received} received by the {receiver}, {} {unit}",
                sum.lost
            )?;
        }
        writeln!(
            formatter,
            "processor: {:.1} % here ({:.1} % in the kernel), {:.1} % there",
            self.cpu.total, self.cpu.system, self.peer_cpu.total
        )
    }
}

fn write_stream(
    formatter: &mut fmt::Formatter<'_>,
    protocol: Protocol,
    stream: &StreamReport,
) -> fmt::Result {
    let head = |side: &Side| Head { id: stream.id, start_s: 0.0, end_s: side.seconds };
    let (sender, receiver) = ends(stream.flow);
    let again = match stream.retransmits.filter(|_| protocol == Protocol::Tcp) {
        Some(segments) => format!(", {segments} segments again"),
        None => String::new(),
    };
    writeln!(formatter, "{} {} sent by the {sender}{again}", head(&stream.sender), Rate(&stream.sender))?;
    let account = &stream.account;
    let lost = match protocol {
        Protocol::Tcp => format!("{} B unread at the end", account.after_last),
        Protocol::Udp => {
            let lost = account.missing + account.after_last;
            let percent = percent(lost as f64, account.sent);
            let jitter = stream.jitter_s * 1e3;
            format!("lost {lost}/{} datagrams ({percent:.3} %), jitter {jitter:.3} ms", account.sent)
        }
    };
    let head = head(&stream.receiver);
    writeln!(formatter, "{head} {} received by the {receiver}, {lost}", Rate(&stream.receiver))?;
    write_account(formatter, protocol, stream)
}

fn write_account(
    formatter: &mut fmt::Formatter<'_>,
    protocol: Protocol,
    stream: &StreamReport,
) -> fmt::Result {
    let account = &stream.account;
    let noun = if protocol == Protocol::Tcp { "bytes" } else { "datagrams" };
    write!(formatter, "[{:3}] account of {noun}: ", stream.id)?;
    match &account.verdict {
        Verdict::Closed => {
            write!(formatter, "{} sent = {} received", account.sent, account.received)?;
            match protocol {
                Protocol::Tcp => write!(formatter, " + {} unread", account.after_last)?,
                Protocol::Udp => write!(
                    formatter,
                    " + {} missing + {} after the last that came",
                    account.missing, account.after_last
                )?,
            }
            if let Some(dropped) = account.dropped_by_socket.filter(|dropped| *dropped > 0) {
                write!(
                    formatter,
                    "; {dropped} of the lost found the receive buffer full: take a larger one with -w"
                )?;
            }
            writeln!(formatter)
        }
        Verdict::Unknown(reason) => writeln!(formatter, "cannot be checked, since {reason}"),
        Verdict::Unbalanced(how) => writeln!(formatter, "DOES NOT ADD UP: {how}"),
    }
}

const fn unit(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "B unread at the end",
        Protocol::Udp => "datagrams lost",
    }
}

/// Returns the names of sender and receiver.
const fn ends(flow: Flow) -> (&'static str, &'static str) {
    match flow {
        Flow::ToServer => ("client", "server"),
        Flow::ToClient => ("server", "client"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_nothing_is_nothing() {
        assert!((percent(1.0, 8) - 12.5).abs() < 1e-12);
        assert!(percent(0.0, 0).abs() < 1e-12);
    }
}
