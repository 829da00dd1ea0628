//! Every run as a row of CSV, with a header. A point without a run has one, too.

use std::fmt::Write as _;

use super::report::{Point, Report, Run};
use crate::report::csv::{cell, text};
use crate::throughput::Rate;

const HEADER: &str = "send_buffer_bytes,receive_buffer_bytes,payload_bytes,target_bits_per_second,\
                      target_packets_per_second,burn_percent,run,sent_bits_per_second,received_bits_per_second,\
                      sent,received,receiver_socket_buffer,lost_elsewhere,unexplained,lost_percent,burned_cpu_percent,\
                      client_cpu_percent,server_cpu_percent,highest_bits_per_second,granted_send_buffer_bytes,\
                      granted_receive_buffer_bytes,trouble\n";

pub(super) fn table(report: &Report) -> String {
    let mut table = HEADER.to_owned();
    for point in &report.points {
        for (index, run) in point.runs.iter().enumerate() {
            write_run(&mut table, point, index, run);
        }
        if point.runs.is_empty() {
            write_hole(&mut table, point);
        }
    }
    table
}

/// Writes a point without a run, with the reason in the column `trouble`.
fn write_hole(table: &mut String, point: &Point) {
    let _ = writeln!(
        table,
        "{},,,,,,,,,,,,,{},{},{},{}",
        settings(point),
        cell(point.highest.map(|found| found.bits_per_second)),
        cell(point.granted_send_buffer_bytes),
        cell(point.granted_receive_buffer_bytes),
        text(&point.why_no_rate().unwrap_or_else(|| point.noise.join("; "))),
    );
}

/// Returns the settings of a point, the first cells of its rows.
fn settings(point: &Point) -> String {
    let (bits, packets) = match point.rate {
        Rate::Bits(bits) => (Some(bits), None),
        Rate::Units(packets) => (None, Some(packets)),
    };
    format!(
        "{},{},{},{},{},{}",
        cell(point.send_buffer_bytes),
        cell(point.receive_buffer_bytes),
        point.payload_bytes,
        cell(bits),
        cell(packets),
        point.cpu_load_percent,
    )
}

fn write_run(table: &mut String, point: &Point, index: usize, run: &Run) {
    let account = run.account.as_ref();
    let in_buffer = account.map(|it| it.lost.get("receiver_socket_buffer").copied().unwrap_or(0));
    let elsewhere = account.zip(in_buffer).map(|(it, here)| it.lost.values().sum::<u64>() - here);
    let _ = writeln!(
        table,
        "{},{index},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        settings(point),
        cell(run.sent_bits_per_second),
        cell(run.received_bits_per_second),
        cell(account.map(|it| it.sent)),
        cell(account.map(|it| it.received)),
        cell(in_buffer),
        cell(elsewhere),
        cell(account.map(|it| it.unexplained)),
        cell(run.lost_percent()),
        cell(run.applied_load.map(|applied_load| applied_load.cpu_percent())),
        run.client_cpu_percent,
        cell(run.server_cpu_percent),
        cell(point.highest.map(|found| found.bits_per_second)),
        cell(run.send_buffer_bytes),
        cell(run.receive_buffer_bytes),
        text(run.trouble.as_deref().unwrap_or("")),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::report::tests::example;
    use crate::throughput::{Found, LossFreeFound};

    #[test]
    fn every_run_is_a_row_with_as_many_cells_as_the_header() {
        let mut report = example();
        report.points[0].runs[0].account = None;
        let found = LossFreeFound {
            found: Found::Nothing,
            bits_per_second: 0,
            limit: 9_000_000,
            step: 1_000_000,
            confirmations: 3,
        };
        report.points[7].runs.clear();
        report.points[7].highest = Some(found);
        let table = table(&report);
        let cells: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(cells, vec![HEADER.trim().split(',').count(); 1 + 7 * 3 + 1]);
        assert!(
            table.ends_with(",0,106496,1048576,no rate held down to 1.00 Mbit/s\n"),
            "a hole keeps its row: {table}"
        );
        assert_eq!(
            table.lines().nth(4).unwrap(),
            ",,64,0,,50,0,100000000,0,100000,0,100000,0,0,100,98,90,60,,106496,106496,"
        );
    }
}
