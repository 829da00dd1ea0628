//! Cost of one record for its writer, in instructions, with none, one and eight readers.
//!
//! Two runs under valgrind's callgrind, the second with twice the records: the difference is the cost of the
//! records alone. Readers are other processes, whose instructions are not counted; a lapped reader does not matter
//! here.

use std::io::Read as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use peers::process::{Process, stand_by, this_program};
use ring::{Idle, Read};

use crate::bandwidth::BATCH_BYTES;
use crate::latency::{RING_BYTES, RingReader, make_ring};
use crate::{READER, Rings, Task, WRITER, readers_name, size_name, start};

const MESSAGE_BYTES: [usize; 2] = [64, 1 << 10];
const READERS: [usize; 3] = [0, 1, 8];

/// Records of the shorter run: several times the ring.
const RECORDS: usize = 20_000;

/// Counts instructions if valgrind is installed. The counts are deterministic: one run is enough.
pub(crate) fn measure(rings: &Rings) -> Result<()> {
    let bench = &rings.bench;
    if Command::new("valgrind").arg("--version").output().is_err() {
        bench.note("cost: not measured: there is no valgrind (Debian: apt-get install valgrind)");
        return Ok(());
    }
    for message_bytes in MESSAGE_BYTES {
        for readers in READERS {
            bench.check()?;
            let name = format!("cost/{}/{}", size_name(message_bytes), readers_name(readers));
            let Some(case) = bench.case(name) else { continue };
            let count = |records| count(&Task { records, readers, ..rings.task(message_bytes) });
            let per_record = (count(2 * RECORDS)? - count(RECORDS)?) / RECORDS as f64;
            case.row("tallycast", "instructions", "1/record", [per_record]);
        }
    }
    Ok(())
}

/// Returns the instructions of a whole writer.
fn count(task: &Task) -> Result<f64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
    command.stderr(Stdio::piped());
    let mut writer = Process::start_by(command, "cost-write", WRITER, task)?;
    writer.hear::<()>("ready")?;
    let mut errors = writer.take_errors().context("its standard error is a pipe")?;
    let mut sides = Vec::new();
    for _ in 0..task.readers {
        let mut side = start("cost-read", READER, task)?;
        side.go()?;
        sides.push(side);
    }
    writer.go()?;
    let mut said = String::new();
    errors.read_to_string(&mut said)?;
    writer.end().with_context(|| said.clone())?;
    sides.into_iter().try_for_each(Process::end)?;
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let collected = collected.with_context(|| format!("callgrind reported no count: {said}"))?;
    collected.parse().with_context(|| format!("callgrind counted `{collected}`"))
}

/// Writes `records` records without waiting for readers.
pub(crate) fn write(task: Task) -> Result<()> {
    let mut writer = make_ring(&task.directory, "data", RING_BYTES)?;
    stand_by()?;
    let message = vec![3_u8; task.message_bytes];
    let mut published = 0;
    for _ in 0..task.records {
        writer.stage(0, [0, 0], &[&message])?;
        if writer.head() - published >= BATCH_BYTES {
            writer.publish();
            writer.ring_doorbell();
            published = writer.head();
        }
    }
    Ok(())
}

/// Reads, and ignores losses.
pub(crate) fn read(task: Task) -> Result<()> {
    let mut data = RingReader::open(&task.directory, "data", Idle::Yield)?;
    stand_by()?;
    loop {
        match data.next()? {
            Read::Closed => return Ok(()),
            Read::Broken => bail!("the ring is broken"),
            _ => {}
        }
    }
}
