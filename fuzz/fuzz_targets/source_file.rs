//! Any bytes as a file to publish: WAV, CSV, Parquet, Arrow, NPY with its description.
//!
//! A fuzzer cannot guess Parquet, so most inputs are changes to a valid file. An opened file yields complete
//! samples and holes to its end, as many as announced, nothing after the end, and the same on a second pass.
#![no_main]

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use archive::{Archive, CsvTimes, Export, Store};
use fuzz::recording::{cut, folder, name, run};
use fuzz::spoil::Spoil;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use source::{FileOptions, NanPolicy, Piece, Source, SourceError, TimeColumn};
use units::WallTime;

/// Maximum number of pieces read from one file: a file with a wrong size may have no end.
const PIECES: usize = 20_000;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    kind: Kind,
    whole: bool,
    bytes: &'a [u8],
    spoils: Vec<Spoil<'a>>,
    /// Changes to the description of an array.
    beside: Vec<Spoil<'a>>,
    rate: Option<bool>,
    allow_nan: bool,
    time: Option<bool>,
    at_most: u16,
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Kind {
    Wav,
    Csv,
    Parquet,
    Arrow,
    Npy,
}

/// Valid files, one of each kind.
struct Whole {
    wav: Vec<u8>,
    csv: Vec<u8>,
    parquet: Vec<u8>,
    arrow: Vec<u8>,
    npy: Vec<u8>,
    toml: Vec<u8>,
}

fuzz_target!(|input: Input<'_>| {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let whole = WHOLE.get_or_init(Whole::make);
    let folder = FOLDER.get_or_init(|| tempfile::tempdir().expect("a folder")).path();
    let (mut file, ending) = match input.kind {
        Kind::Wav => (whole.wav.clone(), "wav"),
        Kind::Csv => (whole.csv.clone(), "csv"),
        Kind::Parquet => (whole.parquet.clone(), "parquet"),
        Kind::Arrow => (whole.arrow.clone(), "arrows"),
        Kind::Npy => (whole.npy.clone(), "npy"),
    };
    if !input.whole {
        file = input.bytes.to_vec();
    }
    input.spoils.iter().take(8).for_each(|spoil| spoil.apply(&mut file));
    let mut toml = whole.toml.clone();
    input.beside.iter().take(8).for_each(|spoil| spoil.apply(&mut toml));
    let path = folder.join("file").with_extension(ending);
    std::fs::write(&path, &file).expect("room for it");
    std::fs::write(path.with_extension("toml"), &toml).expect("room for it");
    judge(&path, &input);
});

fn judge(path: &Path, input: &Input<'_>) {
    let options = FileOptions {
        rate: input.rate.map(|slow| if slow { "1/3" } else { "1k" }.parse().expect("a rate")),
        nan: if input.allow_nan { NanPolicy::Allow } else { NanPolicy::Refuse },
        time: match (input.kind, input.time) {
            (Kind::Wav | Kind::Npy, _) | (_, None) => TimeColumn::Auto,
            (_, Some(false)) => TimeColumn::None,
            (_, Some(true)) => TimeColumn::Named("index".to_owned()),
        },
        ..FileOptions::default()
    };
    let Ok(mut source) = source::open_file(path, &options) else { return };
    source.description().schema.check().expect("what is opened can be published");
    let at_most = NonZeroU64::new(u64::from(input.at_most)).unwrap_or(NonZeroU64::MAX);
    let first = pull(&mut source, at_most);
    if source.rewind().is_ok() {
        assert_eq!(pull(&mut source, at_most), first, "a file gives the same twice");
    }
}

/// Result of reading a source: the number of samples, holes included, a checksum of them, and how it ended.
#[derive(PartialEq, Eq, Debug)]
struct Pulled {
    samples: u64,
    checksum: u64,
    end: Result<bool, String>,
}

fn pull(source: &mut dyn Source, at_most: NonZeroU64) -> Pulled {
    let sample_bytes = source.description().schema.sample_bytes();
    let mut pulled = Pulled { samples: 0, checksum: 0, end: Ok(false) };
    for _ in 0..PIECES {
        let piece = source.next(at_most);
        if let Ok(Piece::Timed { samples, times }) = &piece {
            assert_eq!(samples.len(), times.len() * sample_bytes);
            let mix = |sum: u64, time: &units::WallTime| sum.rotate_left(5) ^ time.as_nanos().cast_unsigned();
            pulled.checksum = times.iter().fold(pulled.checksum, mix);
        }
        match piece {
            Ok(Piece::Samples(bytes) | Piece::Timed { samples: bytes, .. }) => {
                assert!(!bytes.is_empty() && bytes.len().is_multiple_of(sample_bytes));
                let samples = (bytes.len() / sample_bytes) as u64;
                assert!(samples <= at_most.get());
                pulled.samples += samples;
                let mix = |sum: u64, byte: &u8| sum.rotate_left(5) ^ u64::from(*byte).wrapping_mul(0x9e37_79b9);
                pulled.checksum = bytes.iter().fold(pulled.checksum, mix);
            }
            Ok(Piece::Hole { samples, .. }) => {
                assert!(samples > 0 && samples <= at_most.get());
                pulled.samples = pulled.samples.saturating_add(samples);
                pulled.checksum = pulled.checksum.rotate_left(7) ^ samples;
            }
            Ok(Piece::End) => {
                assert!(matches!(source.next(at_most), Ok(Piece::End)), "the end stays the end");
                if let Some(promised) = source.description().samples {
                    assert_eq!(pulled.samples, promised);
                }
                pulled.end = Ok(true);
                break;
            }
            Err(error) => {
                pulled.end = Err(said(&error));
                break;
            }
        }
    }
    pulled
}

fn said(error: &SourceError) -> String {
    let said = error.to_string();
    assert!(!said.is_empty());
    said
}

impl Whole {
    /// Exports the recording in every format, and creates a short sound.
    fn make() -> Self {
        let store: Arc<dyn Store> = Arc::new(cut());
        let segment = store.list(&folder()).expect("it was just made").into_iter().find(|name| name.ends_with(".arrows"));
        let segment = folder().join(segment.expect("the last segment is open"));
        let arrow = archive::read_whole(&*store, &segment).expect("it is there");
        let archive = Archive::on(store).expect("it was just made");
        let entry = archive.stream(&run(), &name()).expect("it is there");
        let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
        let export = Export::new(&archive, &entry.epochs[0], always);
        let (mut csv, mut parquet) = (Vec::new(), Vec::new());
        export.csv(&mut csv, CsvTimes::default()).expect("memory takes everything");
        export.parquet(&mut parquet).expect("memory takes everything");
        let mut npy = std::io::Cursor::new(Vec::new());
        export.npy(&mut npy).expect("memory takes everything");
        let toml = "rate = \"1000\"\nlabels = { a = \"b\" }\nchannels = [{ name = \"current\", scale = 0.5 }, \
                    { name = \"pair\", unit = \"V\", shape = [2] }]\nruns = [{ rows = 40, start_ns = 0, \
                    first_index = 0 }, { rows = 1, start_ns = 50000000, first_index = 50, partial = true }, \
                    { rows = 69, start_ns = 51000000, first_index = 51 }]\n";
        Self { wav: wav(), csv, parquet, arrow, npy: npy.into_inner(), toml: toml.into() }
    }
}

/// Returns two channels of 16 bits.
fn wav() -> Vec<u8> {
    let mut file = b"RIFF\x2c\x01\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\xbb\0\0\0\xee\x02\0\x04\0\x10\0data".to_vec();
    file.extend(256_u32.to_le_bytes());
    file.extend(0..=255);
    file
}
