//! Arrays in NumPy's NPZ format: a ZIP file of NPY files, as `numpy.savez` and `numpy.savez_compressed` write it.
//!
//! A file of one array is that array; of several, `FILE.npz#ARRAY` chooses one. An array that is stored is read in
//! place, a compressed one from a temporary file, so that none of them has to fit into memory.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::ReadSeek;

/// Number of arrays that an error names.
const MAX_NAMES: usize = 20;

/// Reason why an NPZ file has no array to be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpzError {
    /// The file is not ZIP, damaged, or compressed otherwise than NumPy does it.
    #[error("not readable as NPZ: {0}")]
    Zip(#[from] ZipError),
    /// There are several arrays and none was chosen.
    #[error("the file has several arrays: {names}\nchoose one as FILE.npz#ARRAY, such as {file}#{first}")]
    Several {
        /// Names of the arrays.
        names: String,
        /// Name of the file.
        file: String,
        /// Name of the first array.
        first: String,
    },
    /// The chosen array does not exist.
    #[error("unknown array `{asked}`; the arrays are {names}")]
    NoArray {
        /// Name of the chosen array.
        asked: String,
        /// Names of the arrays.
        names: String,
    },
    /// There are no arrays.
    #[error("the file has no arrays")]
    Empty,
    /// An array is longer or shorter than the file's directory says.
    #[error("array `{array}` has {size_bytes} bytes, not {promised_bytes}: the file is damaged")]
    Size {
        /// Name of the array.
        array: String,
        /// Size found; one more than promised if there are more.
        size_bytes: u64,
        /// Size according to the directory.
        promised_bytes: u64,
    },
    /// The file cannot be read, or the temporary file not written.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// Splits `FILE.npz#ARRAY` into the file and the array, unless a file has that whole name.
pub(crate) fn split(path: &Path) -> (Cow<'_, Path>, Option<&str>) {
    let parts = path.to_str().and_then(|text| text.rsplit_once('#'));
    match parts.filter(|(file, _)| is_npz(Path::new(file)) && !path.exists()) {
        Some((file, array)) => (Path::new(file).into(), Some(array)),
        None => (path.into(), None),
    }
}

pub(crate) fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("npz"))
}

/// Opens the chosen array of a file, or its only one.
pub(crate) fn open(path: &Path, chosen: Option<&str>) -> Result<Box<dyn ReadSeek>, NpzError> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(path)?))?;
    let names = names_of(&archive)?;
    let place = match (chosen, &names[..]) {
        (_, []) => return Err(NpzError::Empty),
        (None, [_]) => 0,
        (None, [first, ..]) => {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(NpzError::Several { names: listed(&names), file, first: first.clone() });
        }
        (Some(asked), _) => {
            let unknown = || NpzError::NoArray { asked: asked.to_owned(), names: listed(&names) };
            names.iter().position(|name| name == asked).ok_or_else(unknown)?
        }
    };
    let index = archive.index_for_name(&format!("{}.npy", names[place])).ok_or(NpzError::Empty)?;
    let mut entry = archive.by_index(index)?;
    let promised_bytes = entry.size();
    if let (CompressionMethod::Stored, Some(start)) = (entry.compression(), entry.data_start()) {
        return Ok(Box::new(Section::new(File::open(path)?, start, promised_bytes)?));
    }
    let mut unpacked = tempfile::tempfile()?;
    let size_bytes = io::copy(&mut (&mut entry).take(promised_bytes.saturating_add(1)), &mut unpacked)?;
    if size_bytes != promised_bytes {
        return Err(NpzError::Size { array: names[place].clone(), size_bytes, promised_bytes });
    }
    unpacked.rewind()?;
    Ok(Box::new(BufReader::new(unpacked)))
}

fn names_of(archive: &ZipArchive<BufReader<File>>) -> Result<Vec<String>, ZipError> {
    let mut names = Vec::new();
    for name in archive.file_names() {
        names.extend(name?.strip_suffix(".npy").map(str::to_owned));
    }
    Ok(names)
}

fn listed(names: &[String]) -> String {
    let more = if names.len() > MAX_NAMES { ", …" } else { "" };
    names[..names.len().min(MAX_NAMES)].join(", ") + more
}

/// Part of a file.
struct Section {
    file: BufReader<File>,
    start: u64,
    size_bytes: u64,
    position: u64,
}

impl Section {
    fn new(file: File, start: u64, size_bytes: u64) -> io::Result<Self> {
        let mut file = BufReader::new(file);
        file.seek(SeekFrom::Start(start))?;
        Ok(Self { file, start, size_bytes, position: 0 })
    }
}

impl Read for Section {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.size_bytes.saturating_sub(self.position);
        let read = (&mut self.file).take(left).read(out)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Section {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let position = match place {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            SeekFrom::End(distance) => self.size_bytes.checked_add_signed(distance),
        };
        let target = position.and_then(|position| Some((position, self.start.checked_add(position)?)));
        let (position, target) = target.ok_or(io::ErrorKind::InvalidInput)?;
        self.file.seek(SeekFrom::Start(target))?;
        self.position = position;
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::tests::npy;
    use crate::piece::testing::{drain, floats};
    use crate::{FileOptions, Source, open_file};
    use std::io::Write;
    use zip::write::{SimpleFileOptions, ZipWriter};

    fn written(method: CompressionMethod, arrays: &[(&str, Vec<u8>)]) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().prefix("probe").suffix(".npz").tempfile().unwrap();
        let mut writer = ZipWriter::new(file.reopen().unwrap());
        for (name, bytes) in arrays {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    fn array(values: [i16; 3]) -> Vec<u8> {
        npy("<i2", "(3,)", &values.map(i16::to_le_bytes).concat())
    }

    fn read(path: &str) -> Result<(String, Vec<f64>), String> {
        let options = FileOptions { rate: Some("10".parse().unwrap()), ..FileOptions::default() };
        let mut source = open_file(path, &options).map_err(|error| error.to_string())?;
        let (bytes, _) = drain(&mut source).unwrap();
        source.rewind().unwrap();
        assert_eq!(drain(&mut source).unwrap().0, bytes);
        Ok((source.description().name.to_string(), floats(&source, &bytes)))
    }

    #[test]
    fn an_array_is_read_by_name_or_if_it_is_the_only_one() {
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let arrays =
                [("x.npy", array([1, 2, 3])), ("note.txt", b"hello".to_vec()), ("y.npy", array([4, 5, 6]))];
            let file = written(method, &arrays);
            let path = file.path().to_str().unwrap();
            assert_eq!(read(&format!("{path}#x")), Ok(("x".to_owned(), vec![1.0, 2.0, 3.0])));
            assert_eq!(read(&format!("{path}#y")), Ok(("y".to_owned(), vec![4.0, 5.0, 6.0])));
            let said = read(path).unwrap_err();
            assert!(
                said.contains("several arrays: x, y\nchoose one as FILE.npz#ARRAY")
                    && said.contains(".npz#x")
            );
            assert!(
                read(&format!("{path}#z")).unwrap_err().contains("unknown array `z`; the arrays are x, y")
            );
            let alone = written(method, &arrays[1..]);
            let (name, values) = read(alone.path().to_str().unwrap()).unwrap();
            assert!(name.starts_with("probe") && values == [4.0, 5.0, 6.0], "{name}");
        }
    }

    #[test]
    fn damaged_and_empty_files_are_refused() {
        let empty = written(CompressionMethod::Stored, &[("a.txt", vec![])]);
        assert!(read(empty.path().to_str().unwrap()).unwrap_err().contains("no arrays"));
        let file = written(CompressionMethod::Deflated, &[("x.npy", array([1, 2, 3]))]);
        let mut bytes = std::fs::read(file.path()).unwrap();
        // In the middle of the packed array, which begins behind a header of 30 bytes and its name.
        bytes[60] ^= 0xFF;
        std::fs::write(file.path(), &bytes).unwrap();
        assert!(read(file.path().to_str().unwrap()).is_err());
        std::fs::write(file.path(), b"PK\x03\x04").unwrap();
        assert!(read(file.path().to_str().unwrap()).unwrap_err().contains("not readable as NPZ"));
    }
}
