//! Files of samples: chooses the reader, and adds the file's path to every error.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use sample::{Dtype, SchemaError, StreamName};
use units::SampleRate;

use crate::{
    CsvTable, Description, FramesError, NanPolicy, NpyArray, Piece, ReadSeek, Recording, RecordingError,
    Source, Table, finite, npz, table,
};
use crate::{SourceError, TimeUnit, Wav, csv_table, text_file};

/// Options of a file, in addition to its content.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FileOptions {
    /// Name of the stream; by default the file's name without its extension.
    pub name: Option<StreamName>,
    /// Samples per second, which override the file's rate.
    pub rate: Option<SampleRate>,
    /// Type of the elements, if the file does not fix it: in text, and as float in Parquet and NPY.
    pub dtype: Option<Dtype>,
    /// Time column of a table.
    pub time: TimeColumn,
    /// Columns of a table, or fields of a structured array, that become channels; if empty, all but the time.
    pub columns: Vec<String>,
    /// Policy for values that are not finite numbers.
    pub nan: NanPolicy,
    /// Kind of the file, whatever its name and content.
    pub kind: Option<Kind>,
    /// Samples keep the times of their rows, although those are regular.
    pub own_times: bool,
    /// Unit of the time column; by default as its type, its heading, its name or its first cell says.
    pub time_unit: Option<TimeUnit>,
    /// Time zone of local times, by its name in the system's database; by default that of the host in a text, and UTC
    /// in a table with types.
    pub time_zone: Option<String>,
    /// Number of lines at the beginning of a text that are passed over.
    pub skip: u64,
    /// Names of the channels of a text, instead of its headings; ignored unless there is one for each.
    pub channel_names: Vec<String>,
}

/// Time column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TimeColumn {
    /// First column with a usual name of times, such as `t`, `time_ms` or `timestamp`, else the first of dates; in tables
    /// with types that only if no rate is given.
    #[default]
    Auto,
    /// Column with this name.
    Named(String),
    /// No time column; a column that looks like one is a channel.
    None,
}

/// Reason why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The system refused to open it.
    #[error("cannot be opened: {0}")]
    Io(#[from] std::io::Error),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// The type is not recognised by name or content.
    #[error(
        "unknown file type by name and content\n\
         supported are {}; a table of text in any file: --format csv; \
         with tallycast's Python package (cargo xtask wheel) also {}",
        dotted(EXTENSIONS.iter().map(|(it, _)| *it)), dotted(PYTHON_EXTENSIONS.into_iter())
    )]
    UnknownKind,
    /// Columns were chosen in a file without columns.
    #[error(
        "a WAV file has no columns to choose\nomit --columns; it applies to tables and structured arrays"
    )]
    NoColumns,
    /// A time column was chosen, or described, in a file without one.
    #[error(
        "{0} file has no time column\n\
         omit --time, --own-times, --time-unit and --time-zone; they apply to CSV, Parquet and Arrow"
    )]
    NoTime(&'static str),
    /// Lines are to be passed over in a file without lines.
    #[error("the file is no text\nomit --skip; it applies to CSV")]
    NotText,
    /// The form of times is named for a reader that knows it.
    #[error("the file itself gives unit and zone of its times\nomit --time-unit and --time-zone")]
    TimesTold,
    /// The file's name is no valid stream name.
    #[error("its name cannot be a stream name: {0}\nchoose one")]
    Name(#[from] SchemaError),
}

/// File being played; every error has its path.
pub struct FileSource {
    path: PathBuf,
    inner: Box<dyn Source>,
}

/// Opens a WAV, CSV, Parquet, Arrow, NPY or NPZ file, recognised by its extension or else by its content.
///
/// A CSV file may be compressed by gzip, and may have any other extension if its content is a table. `FILE.npz#ARRAY`
/// is one array of an NPZ file.
///
/// An NPY file with a TOML file of the same name next to it is a described recording.
///
/// # Errors
/// [`SourceError::File`] with the error of the reader.
pub fn open_file(path: impl AsRef<Path>, options: &FileOptions) -> Result<FileSource, SourceError> {
    let path = path.as_ref();
    match open_inner(path, options) {
        Ok(inner) => Ok(FileSource::new(path, inner)),
        Err(error) => Err(in_file(path, error)),
    }
}

impl FileSource {
    /// Adds the path to the errors of a file's reader.
    #[must_use]
    pub fn new(path: &Path, inner: Box<dyn Source>) -> Self {
        Self { path: path.to_owned(), inner }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Source for FileSource {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn decided(&self) -> Option<String> {
        self.inner.decided().map(|decided| format!("{}: {decided}", self.path.display()))
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        self.inner.next(at_most).map_err(|error| in_file(&self.path, error))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.inner.rewind().map_err(|error| in_file(&self.path, error))
    }
}

/// Adds the path of a file to an error of its reader.
#[must_use]
pub fn in_file(path: &Path, error: SourceError) -> SourceError {
    match error {
        // The words of a reader in another process name the file where that helps.
        SourceError::Frames(FramesError::Refused(_)) => error,
        _ => SourceError::File { path: path.to_owned(), source: Box::new(error) },
    }
}

/// Kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sound.
    Wav,
    /// Table of text, with any separator.
    Csv,
    /// Table by columns.
    Parquet,
    /// Table by columns, as in memory: a file, a stream, or Feather.
    Arrow,
    /// Array of NumPy.
    Npy,
    /// Arrays of NumPy in a ZIP file.
    Npz,
}

fn open_inner(path: &Path, options: &FileOptions) -> Result<Box<dyn Source>, SourceError> {
    let (path, array) = npz::split(path);
    let path = path.as_ref();
    let kind = options.kind.map_or_else(|| kind_of(path), Ok)?;
    let name = match (&options.name, array) {
        (Some(name), _) => name.clone(),
        (None, Some(array)) => as_word(array).parse().map_err(OpenError::from)?,
        (None, None) => name_of(path)?,
    };
    check_columns(&kind, options)?;
    check_text(kind, options)?;
    // Text is checked where it is read, so that the error has the line.
    Ok(match kind {
        Kind::Csv => Box::new(CsvTable::open(path, name, options)?),
        Kind::Wav => finite(Box::new(Wav::open(path, name, options)?), options.nan),
        Kind::Parquet => finite(Box::new(Table::open_parquet(path, name, options)?), options.nan),
        Kind::Arrow => finite(Box::new(Table::open_arrow(path, name, options)?), options.nan),
        Kind::Npy => {
            let file = std::io::BufReader::new(File::open(path).map_err(OpenError::from)?);
            finite(Box::new(open_recording(Box::new(file), path, &name, options)?), options.nan)
        }
        Kind::Npz => {
            let array = npz::open(path, array)?;
            finite(Box::new(open_recording(array, path, &name, options)?), options.nan)
        }
    })
}

fn check_columns(kind: &Kind, options: &FileOptions) -> Result<(), OpenError> {
    let what = match kind {
        Kind::Wav if !options.columns.is_empty() => return Err(OpenError::NoColumns),
        Kind::Wav => "a WAV",
        Kind::Npy | Kind::Npz => "an NPY",
        Kind::Csv | Kind::Parquet | Kind::Arrow => return Ok(()),
    };
    let is_described = options.own_times || options.time_unit.is_some() || options.time_zone.is_some();
    if is_described || options.time != TimeColumn::Auto { Err(OpenError::NoTime(what)) } else { Ok(()) }
}

fn check_text(kind: Kind, options: &FileOptions) -> Result<(), OpenError> {
    if options.skip > 0 && kind != Kind::Csv { Err(OpenError::NotText) } else { Ok(()) }
}

fn open_recording(
    array: Box<dyn ReadSeek>,
    path: &Path,
    name: &StreamName,
    options: &FileOptions,
) -> Result<Recording, SourceError> {
    let array = NpyArray::open_as(array, &options.columns, options.dtype)?;
    let recording = match std::fs::read_to_string(path.with_extension("toml")) {
        Ok(sidecar) => Recording::read(array, &sidecar, name)?,
        Err(_) => Recording::bare(array, options.rate.ok_or(RecordingError::NoRate)?, name)?,
    };
    Ok(recording.adjusted(options.rate))
}

fn kind_of(path: &Path) -> Result<Kind, OpenError> {
    let mut start = Vec::new();
    File::open(path)?.take(8).read_to_end(&mut start)?;
    if start.is_empty() {
        return Err(OpenError::Empty);
    }
    let ending = extension(path);
    if let Some((_, kind)) = EXTENSIONS.iter().find(|(known, _)| *known == ending) {
        return Ok(*kind);
    }
    match ending.as_str() {
        _ if [b"RIFF", b"RF64", b"BW64"].iter().any(|id| start.starts_with(*id)) => Ok(Kind::Wav),
        _ if start.starts_with(b"PAR1") => Ok(Kind::Parquet),
        _ if start.starts_with(b"\x93NUMPY") => Ok(Kind::Npy),
        _ if table::is_arrow(&start) => Ok(Kind::Arrow),
        "gz" if text_file::is_compressed(&start)
            && extension(Path::new(path.file_stem().unwrap_or_default())) == "csv" =>
        {
            Ok(Kind::Csv)
        }
        _ if csv_table::is_table(path)? => Ok(Kind::Csv),
        _ => Err(OpenError::UnknownKind),
    }
}

/// Extensions of the files that are read here. Files with others are recognised by their content.
const EXTENSIONS: [(&str, Kind); 11] = [
    ("wav", Kind::Wav),
    ("wave", Kind::Wav),
    ("csv", Kind::Csv),
    ("tsv", Kind::Csv),
    ("parquet", Kind::Parquet),
    ("arrow", Kind::Arrow),
    ("arrows", Kind::Arrow),
    ("feather", Kind::Arrow),
    ("ipc", Kind::Arrow),
    ("npy", Kind::Npy),
    ("npz", Kind::Npz),
];

/// Extensions of the files that Python's packages read: the keys of `FORMATS` in `python/tallycast/readers/__init__.py`.
pub const PYTHON_EXTENSIONS: [&str; 24] = [
    "h5", "hdf5", "hdf", "nxs", "nx5", "nc", "nc4", "cdf", "tdms", "mf4", "mdf", "mf3", "mat", "mseed",
    "miniseed", "msd", "ms", "mseed3", "hea", "xdf", "xdfz", "mcap", "edf", "bdf",
];

fn dotted<'a>(extensions: impl Iterator<Item = &'a str>) -> String {
    extensions.map(|it| format!(".{it}")).collect::<Vec<_>>().join(" ")
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// Returns the default name of a file's stream: the file's name without its extension.
///
/// # Errors
/// [`OpenError::Name`] if that is none.
pub fn name_of(path: &Path) -> Result<StreamName, OpenError> {
    let uncompressed = if extension(path) == "gz" { path.with_extension("") } else { path.to_owned() };
    let stem = uncompressed.file_stem().unwrap_or_default().to_string_lossy();
    Ok(as_word(&stem).parse()?)
}

/// Replaces characters that are not allowed in a stream's name.
#[must_use]
pub fn as_word(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() || "_-.".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::tests::npy;
    use crate::piece::testing::drain;

    fn refusal(name: &str, content: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        open_file(&path, &FileOptions::default()).err().expect("it is refused").to_string()
    }

    #[test]
    fn the_first_bytes_tell_where_the_name_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my probe.dat");
        std::fs::write(&path, npy("<f4", "(1,)", &[0; 4])).unwrap();
        let options = FileOptions { rate: Some("10".parse().unwrap()), ..FileOptions::default() };
        let source = open_file(&path, &options).unwrap();
        assert_eq!(source.description().name.as_str(), "my_probe");
        assert_eq!(source.path(), path);
    }

    #[test]
    fn an_array_with_a_description_beside_it_is_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.npy");
        std::fs::write(&path, npy("<f4", "(1,)", &[0; 4])).unwrap();
        std::fs::write(path.with_extension("toml"), "rate = \"48k\"").unwrap();
        let source = open_file(&path, &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.rate, "48k".parse().unwrap());
        let asked = |dtype| FileOptions { dtype: Some(dtype), ..FileOptions::default() };
        let said = open_file(&path, &asked(Dtype::I16)).err().expect("another dtype").to_string();
        assert!(said.contains("are f4, not i16"), "{said}");
        assert_eq!(open_file(&path, &asked(Dtype::F8)).unwrap().description().schema.dtype, Dtype::F8);
    }

    #[test]
    fn an_array_with_a_value_that_is_none_needs_leave() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let values: Vec<u8> = [1.0_f32, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(&path, npy("<f4", "(2,)", &values)).unwrap();
        let options = FileOptions { rate: Some("10".parse().unwrap()), ..FileOptions::default() };
        let said = drain(&mut open_file(&path, &options).unwrap()).unwrap_err().to_string();
        assert!(said.contains("a.npy: sample 1, channel `ch0`: NaN is not a finite number"), "{said}");
        let options = FileOptions { nan: NanPolicy::Allow, ..options };
        assert_eq!(drain(&mut open_file(&path, &options).unwrap()).unwrap().0, values);
    }

    #[test]
    fn a_table_of_text_is_one_whatever_its_name_and_compressed_or_not() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let text = "0.0\t1\n0.1\t2\n";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let options = FileOptions { rate: Some("10".parse().unwrap()), ..FileOptions::default() };
        for (name, content) in [
            ("run 7.txt", text.as_bytes()),
            ("run 7.dat", text.as_bytes()),
            ("run 7.csv.gz", &packed[..]),
            ("run 7.gz", &packed[..]),
            ("run 7", &packed[..]),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let mut source = open_file(&path, &options).unwrap();
            assert_eq!(source.description().name.as_str(), "run_7", "{name}");
            let (bytes, _) = drain(&mut source).unwrap();
            assert_eq!(crate::piece::testing::floats(&source, &bytes), [0.0, 1.0, 0.1, 2.0], "{name}");
        }
        let path = folder.path().join("run.wav");
        std::fs::write(&path, text).unwrap();
        let forced = FileOptions { kind: Some(Kind::Csv), ..options };
        assert_eq!(open_file(&path, &forced).unwrap().description().schema.channels.len(), 2);
    }

    #[test]
    fn columns_are_chosen_in_tables_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, npy("<f4", "(1,)", &[0; 4])).unwrap();
        let options = FileOptions { rate: Some("10".parse().unwrap()), ..FileOptions::default() };
        let refusal = |options: &FileOptions| open_file(&path, options).err().expect("a refusal").to_string();
        let columns = FileOptions { columns: vec!["a".to_owned()], ..options.clone() };
        assert!(refusal(&columns).contains("the array has no named fields to choose"));
        let time = FileOptions { time: TimeColumn::None, ..options.clone() };
        assert!(refusal(&time).contains("an NPY file has no time column"));
        let described = FileOptions { time_zone: Some("UTC".to_owned()), ..options.clone() };
        assert!(refusal(&described).contains("omit --time, --own-times, --time-unit and --time-zone"));
        assert!(refusal(&FileOptions { own_times: true, ..options.clone() }).contains("no time column"));
        assert!(refusal(&FileOptions { skip: 1, ..options }).contains("omit --skip"));
    }

    #[test]
    fn refusals_name_the_file() {
        assert!(refusal("a.npy", b"").contains("a.npy: the file is empty"));
        assert!(refusal("a.npy", b"no array at all").contains("a.npy: this is not an NPY file"));
        let said = refusal("a.xyz", b"something");
        assert!(
            said.contains(".wav .wave .csv .tsv .parquet .arrow") && said.contains("--format csv"),
            "{said}"
        );
        assert!(
            said.contains("cargo xtask wheel") && said.contains(".h5") && said.contains(".tdms"),
            "{said}"
        );
        assert!(refusal("a.npy", &npy("<f4", "(1,)", &[0; 4])).contains("--rate"));
        let missing = open_file("/nowhere/at/all.wav", &FileOptions::default()).err().expect("not there");
        assert!(missing.to_string().contains("/nowhere/at/all.wav: cannot be opened"));
    }
}
