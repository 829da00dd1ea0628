//! Cost of one record for a ring's writer, by number of readers.

use peers::{Bench, Whose, cpu_seconds};

const RECORDS: u32 = 1_000_000;
/// Ring size: large enough for readers to follow, small enough for a core's cache.
const RING_BYTES: usize = 1 << 20;

/// Measures small records and records of a full datagram.
///
/// Measures the processor time of the writer's thread, not elapsed time: with fewer cores than threads the latter
/// would depend on the scheduling.
pub(crate) fn measure(bench: &Bench) {
    for payload_bytes in [64_usize, 1_392] {
        for readers in [0_usize, 1, 3] {
            let Some(case) = bench.case(format!("ring/{payload_bytes}B/{readers}-readers")) else { continue };
            let runs = (0..bench.extent.runs).map(|_| nanos_per_record(payload_bytes, readers));
            case.row("tallycast", "writer_cpu", "ns", runs);
        }
    }
}

fn nanos_per_record(payload_bytes: usize, readers: usize) -> f64 {
    let (mut writer, ring) = ring::ring(RING_BYTES);
    let payload = vec![7_u8; payload_bytes];
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let mut reader = ring.reader_at_head();
            scope.spawn(move || read_along(&mut reader));
        }
        let cpu = cpu_seconds(Whose::Thread);
        for _ in 0..RECORDS {
            writer.write(1, [0, 0], &[&payload]).expect("a small record fits");
        }
        let spent = cpu_seconds(Whose::Thread) - cpu;
        writer.close();
        spent * 1e9 / f64::from(RECORDS)
    })
}

fn read_along(reader: &mut ring::Reader) {
    let mut record = Vec::new();
    loop {
        match reader.read(&mut record) {
            ring::Read::Closed | ring::Read::Broken => return,
            // Yields the core to the writer if there are more threads than cores.
            ring::Read::Empty => std::thread::yield_now(),
            ring::Read::Record { .. } | ring::Read::Lapped { .. } => {}
        }
    }
}
