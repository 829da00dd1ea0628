//! Streams with keys, beside a clear one and beside the cipher alone.
//!
//! The cipher alone seals and opens datagrams of the same size in memory, in one thread, on the processor of a reader;
//! its rate is that of the slower of the two. A stream cannot be faster than `bound`, the rate of one processor that does
//! what a clear stream does and what the cipher does: `1 / (1 / clear + 1 / cipher)`, within each run. `cpu_bound_to_…`
//! is the same of a side's processor time: that of both, as a share of the secured stream's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use keys::{AuthorityFile, GroupKey, GroupSecret, KeyFile, Purpose, Salt, StationKeys, Suite};
use peers::place::Place;
use peers::process::{Process, tell};
use peers::{Bench, Case, Standing, Taken, ratios};
use serde::{Deserialize, Serialize};
use tallycast::WallTime;
use tempfile::TempDir;

use crate::contest::{Contestant, Pace, Repeat, Run, loss_free, measure_systems};
use crate::limit::Addressing;
use crate::stream::{Secured, Stream};
use crate::{FRAME_BYTES, MAX_TRAIN};

/// Validity of the certificate: longer than any measurement. Units: nanoseconds.
const VALID_NS: i64 = 86_400_000_000_000;
/// Distance between the ports of two systems: a stream uses several.
pub(crate) const PORTS_EACH: u16 = 10;

/// Names of a suite's stream and of its cipher alone.
const fn names(suite: Suite) -> [&'static str; 2] {
    match suite {
        Suite::Aes256Gcm => ["aes-256-gcm", "aes-alone"],
        Suite::ChaCha20Poly1305 => ["chacha20-poly1305", "chacha20-alone"],
    }
}

/// Measures both suites to one reader, and to a group.
pub(crate) fn measure(bench: &Bench, place: &Place) -> Result<()> {
    for (addressing, name) in
        [(Addressing::Unicast, "secured"), (Addressing::Multicast { readers: 1 }, "secured/multicast-1")]
    {
        let Some(case) = bench.case(format!("{}/{FRAME_BYTES}B/{name}", place.name)) else { continue };
        measure_case(bench, &case, place, addressing)?;
    }
    Ok(())
}

fn measure_case(bench: &Bench, case: &Case<'_>, place: &Place, addressing: Addressing) -> Result<()> {
    let files = Suite::ALL.map(Keys::make).into_iter().collect::<Result<Vec<_>>>()?;
    let clear = Stream::start(place, addressing, FRAME_BYTES, crate::stream::Content::Trains)?;
    let mut contestants: Vec<Box<dyn Contestant>> = vec![Box::new(clear)];
    for ((suite, keys), above) in
        Suite::ALL.into_iter().zip(&files).zip((PORTS_EACH..).step_by(PORTS_EACH.into()))
    {
        let [system, alone] = names(suite);
        let secured = Secured { system, keys: &keys.path, is_signed: false, ports_above: above };
        contestants.push(Box::new(Stream::start_secured(place, addressing, FRAME_BYTES, secured)?));
        contestants.push(Box::new(Alone { system: alone, suite }));
    }
    let records = measure_systems(bench, case, contestants)?;
    if let [clear, ciphers @ ..] = &records[..] {
        ciphers.chunks_exact(2).for_each(|pair| compare(case, clear, &pair[0], &pair[1]));
    }
    Ok(())
}

/// Prints a secured stream's loss-free rate as a share of the clear one's and of the bound.
fn compare(case: &Case<'_>, clear: &Taken<Repeat>, secured: &Taken<Repeat>, alone: &Taken<Repeat>) {
    let [plain, encrypted] = [clear, secured].map(|record| loss_free(record, Run::datagrams_per_second));
    let cipher = alone.runs.iter().map(|repeat| repeat.unpaced.datagrams_per_second());
    let bound: Vec<f64> =
        plain.iter().zip(cipher).map(|(plain, cipher)| 1.0 / (1.0 / plain + 1.0 / cipher)).collect();
    case.row(secured.system, "loss_free_to_clear", "x", ratios(&encrypted, &plain));
    case.row(secured.system, "bound", "/s", bound.iter().copied());
    case.row(secured.system, "loss_free_to_bound", "x", ratios(&encrypted, &bound));
    // Processor times say the same of each side, and are not disturbed by a reader that is kept waiting.
    type Cost = fn(&Run) -> f64;
    let sides = [
        ("cpu_bound_to_source", Run::source_cpu_ns as Cost),
        ("cpu_bound_to_reader", Run::reader_cpu_ns as Cost),
    ];
    for (metric, cost) in sides {
        let costs =
            |record: &Taken<Repeat>| record.runs.iter().map(|it| cost(&it.unpaced)).collect::<Vec<f64>>();
        let (clear, alone) = (costs(clear), costs(alone));
        let least: Vec<f64> = clear.iter().zip(&alone).map(|(clear, alone)| clear + alone).collect();
        case.row(secured.system, metric, "x", ratios(&least, &costs(secured)));
    }
}

/// A station's file of keys, in a folder that is removed with it.
pub(crate) struct Keys {
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

impl Keys {
    pub(crate) fn make(suite: Suite) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for keys")?;
        let path = folder.path().join("bench.keys");
        let (now, random) = (sys::clock::wall(), keyring::random_secret);
        let authority = AuthorityFile::new("bench", random()).context("a name of a laboratory")?;
        let validity = now.offset(-VALID_NS)..now.offset(VALID_NS);
        let station = StationKeys::new(&authority, "bench", [random(), random()], validity)?;
        let secret = GroupSecret::new(keyring::random_token(), suite, random(), WallTime::default());
        keyring::create_station(&path, &KeyFile::new(&authority, station, secret)?)?;
        Ok(Self { path, _folder: folder })
    }
}

/// A cipher without a stream.
struct Alone {
    system: &'static str,
    suite: Suite,
}

/// Task of a cipher.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    is_chacha: bool,
    seconds: f64,
}

/// Times of as many datagrams each way. Units: seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
struct Spent {
    datagrams: u64,
    sealing_s: f64,
    opening_s: f64,
}

impl Contestant for Alone {
    fn system(&self) -> &'static str {
        self.system
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let order = Order { is_chacha: self.suite == Suite::ChaCha20Poly1305, seconds: pace.seconds };
        let mut process = Process::start("aead", Standing::Reader { index: 0 }, &order)?;
        let Spent { datagrams, sealing_s, opening_s } = process.hear("spent")?;
        process.end()?;
        Ok(Run {
            datagram_bytes: FRAME_BYTES,
            sent: datagrams,
            received: datagrams,
            seconds: sealing_s.max(opening_s),
            source_cpu_s: sealing_s,
            reader_cpu_s: opening_s,
            ..Run::default()
        })
    }
}

/// Seals and opens datagrams of a stream, a train at a time, for the time of a run.
pub(crate) fn aead(order: Order) -> Result<()> {
    let suite = if order.is_chacha { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm };
    let (token, secret) = (keyring::random_token(), keyring::random_secret());
    let secret = GroupSecret::new(token, suite, secret, WallTime::default());
    let key = GroupKey::new(&secret, Salt([7; 16])).derive(Purpose::Unnumbered);
    let header_bytes = wire::DATA_HEADER_BYTES + wire::SECURED_DATA_BYTES - keys::TAG_BYTES;
    let mut train = vec![7_u8; FRAME_BYTES * MAX_TRAIN];
    let mut spent = Spent { datagrams: 0, sealing_s: 0.0, opening_s: 0.0 };
    let (began, whole) = (Instant::now(), Duration::from_secs_f64(order.seconds));
    while began.elapsed() < whole {
        let numbers = spent.datagrams..;
        let sealing = Instant::now();
        for (number, datagram) in numbers.clone().zip(train.chunks_exact_mut(FRAME_BYTES)) {
            let (header, payload) = datagram.split_at_mut(header_bytes);
            let (payload, place) = payload.split_at_mut(payload.len() - keys::TAG_BYTES);
            place.copy_from_slice(&key.seal(number, header, payload));
        }
        spent.sealing_s += sealing.elapsed().as_secs_f64();
        let opening = Instant::now();
        for (number, datagram) in numbers.zip(train.chunks_exact_mut(FRAME_BYTES)) {
            let (header, sealed) = datagram.split_at_mut(header_bytes);
            key.open(number, header, sealed).context("what was sealed a moment ago")?;
        }
        spent.opening_s += opening.elapsed().as_secs_f64();
        spent.datagrams += MAX_TRAIN as u64;
    }
    tell("spent", &spent)?;
    Ok(())
}
