//! The two roles of a process at a ring: writing self-checking records, and checking them.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ring::shared::{self, CreateError, Found, Options, SharedRing};
use ring::{Idle, Read, Writer, wait_any};

/// Size of the ring, small so that readers are lapped often.
const RING_BYTES: usize = 1 << 14;
/// Number of records per byte of progress.
const RECORDS_PER_SIGN: u64 = 16;
/// Time for which a reader sleeps before it checks whether its writer is alive.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum size of a record's payload.
const MAX_PAYLOAD_BYTES: u64 = 600;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", path, run] => match run.parse() {
            Ok(run) => write(Path::new(path), run),
            Err(_) => ExitCode::from(2),
        },
        ["read", path] => read(Path::new(path)),
        _ => {
            eprintln!("ring-torture write PATH RUN | ring-torture read PATH");
            ExitCode::from(2)
        }
    }
}

fn write(path: &Path, run: u64) -> ExitCode {
    let mut options = Options::default();
    options.capacity_bytes = RING_BYTES;
    options.label = run.to_le_bytes().to_vec();
    options.page_bytes = 64;
    let mut writer = loop {
        match shared::create(path, &options) {
            Ok(writer) => break writer,
            // The writer before was killed a moment ago: the kernel is still releasing its locks.
            Err(CreateError::InUse { .. }) => std::thread::yield_now(),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(1);
            }
        }
    };
    let (mut payload, mut total_bytes) = (Vec::new(), 0);
    for number in 0_u64.. {
        total_bytes += write_one(&mut writer, (run, number), total_bytes, &mut payload);
        // Half of the runs publish in batches, so that some writers are killed with records staged.
        if number.is_multiple_of(1 + run % 2 * 7) {
            writer.publish();
            writer.ring_doorbell();
        }
        if number.is_multiple_of(32) {
            let twice = [number.to_le_bytes(), number.to_le_bytes()].concat();
            writer.set_page(&twice).expect("the page takes two numbers");
        }
        if number.is_multiple_of(RECORDS_PER_SIGN) && std::io::stdout().write_all(b".").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

fn write_one(writer: &mut Writer, record: (u64, u64), total_bytes: u64, payload: &mut Vec<u8>) -> u64 {
    fill(record, payload);
    let (first, second) = payload.split_at(payload.len() / 3);
    writer.stage(kind_of(record), [record.1, total_bytes], &[first, second]).expect("the record fits");
    payload.len() as u64
}

/// One run of the writer as one reader saw it.
#[derive(Default)]
struct Run {
    /// Number and bytes before the next record; `None` before the first.
    next: Option<[u64; 2]>,
    read: u64,
    missed: u64,
}

fn read(path: &Path) -> ExitCode {
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        STOP.store(true, Ordering::Relaxed);
    });
    let (mut read, mut missed, mut runs) = (0, 0, 0);
    while !STOP.load(Ordering::Relaxed) {
        let numbered = |found: Found| Ok((number_of(&found), found.open()?));
        let Ok((number, shared)) = shared::look(path).and_then(numbered) else {
            std::thread::yield_now();
            continue;
        };
        let run = follow(number, &shared, &STOP);
        read += run.read;
        missed += run.missed;
        runs += u64::from(run.read > 0);
    }
    println!("{read} {missed} {runs}");
    ExitCode::SUCCESS
}

/// Returns the number that a ring's writer put on it.
fn number_of(found: &Found) -> u64 {
    u64::from_le_bytes(found.label().try_into().expect("the label is a number"))
}

/// Reads the ring of this number until it ends or its writer is dead and all records were read.
fn follow(number: u64, shared: &SharedRing, stop: &AtomicBool) -> Run {
    let mut reader = shared.ring().reader_at_oldest();
    let (mut run, mut payload, mut expected, mut page) = (Run::default(), Vec::new(), Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        // Checked before the ring is read: then all records of a dead writer are there when it is
        // read.
        let is_alive = shared.liveness().writer_is_alive();
        let look = || match reader.read(&mut payload) {
            Read::Empty => None,
            other => Some((other, std::mem::take(&mut payload))),
        };
        let found = wait_any(&[shared.doorbell()], Idle::Sleep, POLL_INTERVAL, look);
        match found {
            None if !is_alive => return run,
            None => {}
            Some((Read::Record { kind, totals }, bytes)) => {
                let next = *run.next.get_or_insert(totals);
                assert_eq!(totals, next, "a record of run {number} was skipped");
                fill((number, totals[0]), &mut expected);
                assert_eq!(kind, kind_of((number, totals[0])));
                assert!(bytes == expected, "record {} of run {number} is torn", totals[0]);
                run.next = Some([totals[0] + 1, totals[1] + bytes.len() as u64]);
                run.read += 1;
                payload = bytes;
            }
            Some((Read::Lapped { totals }, _)) => {
                let next = run.next.replace(totals).unwrap_or(totals);
                assert!(totals[0] >= next[0] && totals[1] >= next[1], "lapped backwards");
                run.missed += totals[0] - next[0];
            }
            Some((Read::Closed, _)) => return run,
            Some((Read::Broken | Read::Empty, _)) => panic!("the ring of run {number} is damaged"),
        }
        if shared.ring().page(&mut page) {
            assert!(page.is_empty() || page[..8] == page[8..], "a page of run {number} is torn");
        }
    }
    run
}

fn kind_of((run, number): (u64, u64)) -> u16 {
    ((run ^ number) % 65_535) as u16
}

/// Fills `payload` with the content of a record: another length and other bytes for each.
fn fill((run, number): (u64, u64), payload: &mut Vec<u8>) {
    let mut state = mix(run << 32 ^ number);
    let len = (state % MAX_PAYLOAD_BYTES) as usize;
    payload.clear();
    while payload.len() < len {
        state = mix(state);
        payload.extend_from_slice(&state.to_le_bytes());
    }
    payload.truncate(len);
}

/// One step of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
const fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
