//! Delay of a sample on its path to a reader.

use anyhow::Result;
use peers::interrupt::Interrupt;
use peers::place::Place;
use peers::{Report, Row, percentile};

use crate::RUNS;
use crate::peer::{Content, Order, Pair};

/// Duration of each run, at a thousand samples per second.
const SECONDS: f64 = 2.0;

/// Measures both pairs in turn; the stream both without linger and with the default.
pub(crate) fn measure(
    report: &Report,
    place: &Place,
    pairs: &mut [Pair; 2],
    interrupt: &Interrupt,
) -> Result<()> {
    let [plain, stream] = pairs;
    let cases = [("plain", 0), ("tallycast", 0), ("tallycast", 5)];
    let mut quantiles = [const { [const { Vec::new() }; 2] }; 3];
    for _ in 0..RUNS {
        for ((system, linger_ms), [p50, p99]) in cases.iter().zip(&mut quantiles) {
            interrupt.check()?;
            let pair = if *system == "plain" { &mut *plain } else { &mut *stream };
            let order = Order { content: Content::Stamps { linger_ms: *linger_ms }, seconds: SECONDS };
            let mut delays = pair.run(&order)?.received.delays_us;
            delays.sort_by(f64::total_cmp);
            p50.push(percentile(&delays, 0.5));
            p99.push(percentile(&delays, 0.99));
        }
    }
    for ((system, linger_ms), [p50, p99]) in cases.into_iter().zip(&quantiles) {
        let linger = if system == "plain" { String::new() } else { format!("/linger-{linger_ms}ms") };
        let case = format!("{}/one-way{linger}", place.name);
        report.row(&Row { case: &case, system, metric: "p50", unit: "us", runs: p50 });
        report.row(&Row { case: &case, system, metric: "p99", unit: "us", runs: p99 });
    }
    Ok(())
}
