//! Every run as a row of CSV, with a header.

use std::fmt::Write as _;

use super::report::{Report, Run};
use crate::report::csv::cell;

const HEADER: &str = "structure,workers,payload_bytes,run,packets_per_second,seconds,sent,received,\
                      receiver_socket_buffer,lost_elsewhere,unexplained,kernel_drops,rcvbuf_errors,\
                      receivers_cpu_percent,senders_cpu_percent,user_percent,system_percent,softirq_percent,\
                      irq_percent,idle_percent,iowait_percent,steal_percent,trouble\n";

pub(super) fn table(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for point in &report.points {
        for (index, run) in point.runs.iter().enumerate() {
            let _ =
                write!(text, "{},{},{},{index},", point.threading_model, point.workers, point.payload_bytes);
            write_run(&mut text, run);
        }
    }
    text
}

fn write_run(text: &mut String, run: &Run) {
    let account = &run.account;
    let in_buffer = account.lost.get("receiver_socket_buffer").copied().unwrap_or(0);
    let _ = write!(
        text,
        "{},{},{},{},{in_buffer},{},{},{},{},{},{}",
        run.packets_per_second,
        run.seconds,
        account.sent,
        account.received,
        account.lost.values().sum::<u64>() - in_buffer,
        account.unexplained,
        run.drops(),
        cell(run.rcvbuf_errors),
        run.receivers_cpu_percent,
        run.senders_cpu_percent,
    );
    let shares = run
        .processors
        .map(|it| [it.user, it.system, it.softirq, it.irq, it.idle, it.iowait, it.steal].map(Some));
    for share in shares.unwrap_or_default() {
        let _ = write!(text, ",{}", cell(share));
    }
    // Texts of this program, without commas.
    let _ = writeln!(text, ",{}", cell(run.trouble.as_deref()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::report::tests::example;

    #[test]
    fn every_run_is_a_row_with_as_many_cells_as_the_header() {
        let mut report = example();
        report.points[0].runs[0].processors = None;
        let text = table(&report);
        let cells: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(cells, vec![HEADER.trim().split(',').count(); 1 + 12]);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .starts_with("own-processes,1,1,0,500000,1,800000,500000,300000,0,0,")
        );
        assert!(text.lines().nth(1).unwrap().ends_with(",,,,,,,,"));
    }
}
