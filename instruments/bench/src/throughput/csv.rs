//! The intervals as rows of CSV, with a header.

use std::fmt::Write as _;

use super::report::{Figures, Interval, Report};
use crate::report::csv::cell;

const HEADER: &str = "run,way,side,stream,receiver,start_s,end_s,omitted,bytes,bits_per_second,packets,lost_packets,\
                      lost_percent,jitter_ms,out_of_order,retransmits,rtt_us,snd_cwnd_bytes\n";

/// Returns a row for every flow of every interval, and for every interval's sums with an empty `stream`.
pub(super) fn table(report: &Report) -> String {
    let settings = &report.start.test_start;
    let mut text = HEADER.to_owned();
    for interval in &report.intervals {
        for figures in &interval.streams {
            let is_back =
                settings.bidir == 1 && figures.socket.is_some_and(|socket| socket > settings.num_streams);
            let way = if is_back || settings.reverse == 1 { "reverse" } else { "forward" };
            write_row(&mut text, interval, way, figures);
        }
        for (figures, name) in interval.sums.all() {
            let is_back = name.ends_with("reverse") || settings.reverse == 1;
            if let Some(figures) = figures {
                write_row(&mut text, interval, if is_back { "reverse" } else { "forward" }, &figures);
            }
        }
    }
    text
}

fn write_row(text: &mut String, interval: &Interval, way: &str, it: &Figures) {
    let side = if it.sender { "sender" } else { "receiver" };
    let _ = writeln!(
        text,
        "{},{way},{side},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        interval.run,
        cell(it.socket),
        cell(it.receiver),
        it.start,
        it.end,
        u8::from(it.omitted),
        it.bytes,
        it.bits_per_second,
        cell(it.packets),
        cell(it.lost_packets),
        cell(it.lost_percent),
        cell(it.jitter_ms),
        cell(it.out_of_order),
        cell(it.retransmits),
        cell(it.rtt),
        cell(it.snd_cwnd),
    );
}
