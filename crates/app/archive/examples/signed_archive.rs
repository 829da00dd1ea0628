//! Writes a recording with signed statements into a folder, and prints what digests and verdicts cost.
//!
//! `cargo run --release -p tallycast-archive --example signed_archive -- ROOT`; then, with the key it prints,
//! `tallycast query ROOT lab/probe --verify --authority KEY`.

use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, FileStore, Options, Recorder, Signatory};
use keys::{Authority, Certificate, PublicKey, SIGNATURE_BYTES, Signature, SigningKey, Station};
use proof::{Author, Grid};
use sample::{Block, Channel, Dtype, SampleBuffer, Schema};
use tallycast::{Event, StreamInfo};
use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};
use zeroize::Zeroizing;

const MIB: usize = 1 << 20;
const BLOCKS: u64 = 64;
/// Block that is withheld from the recording, so that one interval is incomplete.
const LOST: u64 = 40;
/// Size of a statement that fits into a tally. Units: bytes.
const STATEMENT_BYTES: usize = 664;

fn station(authority: &Authority) -> Result<Station, Box<dyn std::error::Error>> {
    // Of known bytes, because everybody may forge an example.
    let key = SigningKey::from_seed(&Zeroizing::new([2; 32]));
    let certificate = Certificate {
        name: "daq-3".to_owned(),
        signing: key.public(),
        exchange: PublicKey([3; 32]),
        not_before: WallTime::from_nanos(0),
        not_after: WallTime::from_nanos(i64::MAX),
        signature: Signature([0; SIGNATURE_BYTES]),
    };
    Ok(Station::new(authority.certify(certificate), key)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("give a folder that does not exist")?;
    let authority = Authority::new(SigningKey::from_seed(&Zeroizing::new([1; 32])));
    let schema = Schema::new(Dtype::U16, SampleRate::hz(1_000_000)?, vec![Channel::new("u", "V")])?;
    let (schema, name) = (Arc::new(schema), Arc::new("lab/probe".parse()?));
    let epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 0xc0ffee };
    let author = || -> Result<Author, Box<dyn std::error::Error>> {
        Ok(Author::new(station(&authority)?, (&name, &schema, epoch), Grid::of(&schema))?)
    };
    let bytes: Vec<u8> = (0..MIB).map(|at| ((at * 2_654_435_761) >> 11) as u8).collect();

    for part_bytes in [1_376, 8_928, MIB] {
        let mut author = author()?;
        let (mut position, mut statements) = (0, 0);
        let begun = std::time::Instant::now();
        for _ in 0..BLOCKS {
            for part in bytes.chunks(part_bytes) {
                author.take(position, part);
                position += part.len() as u64 / 2;
            }
            statements += u64::from(author.statement(WallTime::from_nanos(1), STATEMENT_BYTES).is_some());
        }
        let ns = begun.elapsed().as_nanos() / u128::from(BLOCKS);
        println!("{ns} ns per MiB in parts of {part_bytes} bytes, {statements} statements signed");
    }

    std::fs::create_dir_all(&root)?;
    let store = Arc::new(FileStore::open(root.as_ref())?);
    let now = Instant::ORIGIN;
    let mut recorder = Recorder::open(store, "shot-1".parse()?, Options::default(), now)?;
    let (station, first_index, join) = ("daq-3".to_owned(), 0, 1);
    let info = StreamInfo {
        name: Arc::clone(&name),
        id: StreamId(1),
        epoch,
        origin: None,
        schema: Arc::clone(&schema),
        station,
        first_index,
        join,
    };
    recorder.handle(now, &Event::Began(Arc::new(info)))?;
    let mut author = author()?;
    let samples = (MIB / 2) as u64;
    for number in 0..BLOCKS {
        let now = now + Duration::from_millis(number * 100);
        author.take(number * samples, &bytes);
        if number != LOST {
            let block = Block {
                stream: Arc::clone(&name),
                schema: Arc::clone(&schema),
                epoch,
                first_index: number * samples,
                t0: WallTime::from_nanos((number * samples * 1_000) as i64),
                samples,
                data: SampleBuffer::from_bytes(&bytes),
                missing: RangeSet::new(),
            };
            recorder.handle(now, &Event::Block(block))?;
        }
        while let Some(statement) = author.statement(WallTime::from_nanos(1), STATEMENT_BYTES) {
            recorder.note_statement(now, (&name, epoch), &statement)?;
        }
    }
    author.finish(BLOCKS * samples);
    if let Some(statement) = author.statement(WallTime::from_nanos(1), STATEMENT_BYTES) {
        recorder.note_statement(now, (&name, epoch), &statement)?;
    }
    recorder.close(now)?;

    let archive = Archive::open(root.as_ref())?;
    let entry = archive.stream(&"shot-1".parse()?, &name)?;
    let signatory = Signatory { authority: authority.public(), station: None };
    let begun = std::time::Instant::now();
    let proof = archive.prove(&entry.epochs[0], &signatory, &mut |_| {})?;
    let ns = begun.elapsed().as_nanos() / u128::from(BLOCKS);
    println!("{ns} ns per MiB to read and judge: {} proven, {} incomplete", proof.proven, proof.incomplete);
    println!("authority {:?}", authority.public());
    Ok(())
}
