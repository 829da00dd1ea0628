//! Cost of one record for its writer, in instructions, with none, one and eight readers.
//!
//! Two runs under valgrind's callgrind, the second with twice the records: the difference is the cost of the
//! records alone. Readers are other processes, whose instructions are not counted; a lapped reader does not matter
//! here.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use peers::Row;
use ring::{Idle, Read};

use crate::bandwidth::BATCH_BYTES;
use crate::latency::{RING_BYTES, RingReader, make_ring};
use crate::place::{Standing, stand_on};
use crate::side::{Side, argument, stand_by, this_program};
use crate::{Bench, size_name};

const MESSAGE_BYTES: [usize; 2] = [64, 1 << 10];
const READERS: [usize; 3] = [0, 1, 8];

/// Records of the shorter run: several times the ring.
const RECORDS: usize = 20_000;

/// Counts instructions if valgrind is installed. The counts are deterministic: one run is enough.
pub(crate) fn measure(bench: &Bench) -> Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        bench.report.note("cost: not measured: there is no valgrind (Debian: apt-get install valgrind)");
        return Ok(());
    }
    for message_bytes in MESSAGE_BYTES {
        for readers in READERS {
            bench.check()?;
            let plural = if readers == 1 { "" } else { "s" };
            let case = format!("cost/{}/{readers}-reader{plural}", size_name(message_bytes));
            if bench.leaves_out(&case) {
                continue;
            }
            let count = |records| count(bench, [message_bytes, records, readers]);
            let per_record = (count(2 * RECORDS)? - count(RECORDS)?) / RECORDS as f64;
            bench.report.row(&Row {
                case: &case,
                system: "tallycast",
                metric: "instructions",
                unit: "1/record",
                runs: &[per_record],
            });
        }
    }
    Ok(())
}

/// Returns the instructions of a whole writer: message size, records, readers.
fn count(bench: &Bench, [message_bytes, records, readers]: [usize; 3]) -> Result<f64> {
    let directory = bench.place.directory().display().to_string();
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this_program()?);
    command.stderr(Stdio::piped());
    let arguments = [directory.clone(), message_bytes.to_string(), records.to_string()];
    let mut writer = Side::start_by(command, "cost-write", &arguments)?;
    let mut errors = writer.take_errors().context("its standard error is a pipe")?;
    let mut sides = Vec::new();
    for _ in 0..readers {
        let mut side = Side::start("cost-read", std::slice::from_ref(&directory))?;
        side.go()?;
        sides.push(side);
    }
    writer.go()?;
    let mut said = String::new();
    errors.read_to_string(&mut said)?;
    writer.end().with_context(|| said.clone())?;
    sides.into_iter().try_for_each(Side::end)?;
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let collected = collected.with_context(|| format!("callgrind reported no count: {said}"))?;
    collected.parse().with_context(|| format!("callgrind counted `{collected}`"))
}

/// Writes `records` records without waiting for readers.
pub(crate) fn write(arguments: &[String]) -> Result<()> {
    stand_on(Standing::First)?;
    let directory: PathBuf = argument(arguments, 0)?;
    let (message_bytes, records): (usize, usize) = (argument(arguments, 1)?, argument(arguments, 2)?);
    let mut writer = make_ring(&directory, "data", RING_BYTES)?;
    stand_by()?;
    let message = vec![3_u8; message_bytes];
    let mut published = 0;
    for _ in 0..records {
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
pub(crate) fn read(arguments: &[String]) -> Result<()> {
    stand_on(Standing::Second)?;
    let directory: PathBuf = argument(arguments, 0)?;
    let mut data = RingReader::open(&directory, "data", Idle::Yield)?;
    stand_by()?;
    loop {
        match data.next()? {
            Read::Closed => return Ok(()),
            Read::Broken => bail!("the ring is broken"),
            _ => {}
        }
    }
}
