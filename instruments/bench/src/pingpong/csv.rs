//! The size steps as rows of a CSV table.

use std::fmt::Write as _;

use super::report::Report;
use crate::report::Times;
use crate::report::csv::{cell, text as quoted};

const HEADER: &str = "run,system,message_bytes,sent,completed,lost_there,lost_back,unexplained,measured,min_us,p50_us,\
                      p90_us,p99_us,p999_us,max_us,mean_us,bits_per_second,retransmits\n";

/// Returns a row for every size step; times are Δt/2.
pub(super) fn table(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for size_step in &report.size_steps {
        let account = &size_step.account;
        let time = |of: fn(&Times) -> f64| cell(size_step.half_round_trip.as_ref().map(of));
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            size_step.run,
            quoted(&size_step.system),
            size_step.message_bytes,
            account.sent,
            account.completed,
            account.lost_forward,
            account.lost_reverse,
            account.unexplained,
            cell(size_step.half_round_trip.map(|it| it.count)),
            time(|it| it.min_us),
            time(|it| it.p50_us),
            time(|it| it.p90_us),
            time(|it| it.p99_us),
            time(|it| it.p999_us),
            time(|it| it.max_us),
            time(|it| it.mean_us),
            cell(size_step.bits_per_second),
            cell(size_step.retransmits),
        );
    }
    text
}
