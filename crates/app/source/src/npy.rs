//! Arrays in NumPy's NPY format: a short header and the elements in memory order.
//!
//! Reads versions 1 to 3, little-endian, C order, shapes `[samples]` and `[samples, channels]`; other arrays are
//! refused with the call that converts them. This is the array alone; [`crate::Recording`] adds rate and units.
//!
//! Source: NumPy Enhancement Proposal 1 and the documentation of `numpy.lib.format`.

use std::io::{self, Read, Seek, SeekFrom};

use sample::{Dtype, MAX_ELEMENTS_PER_SAMPLE};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum size of a header. NumPy pads headers to 64 bytes and writes a few hundred at most; structured types have
/// more, and are refused.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Reader of an array.
pub trait ReadSeek: Read + Seek + Send {}

impl<R: Read + Seek + Send> ReadSeek for R {}

/// Open array, read row by row.
pub struct NpyArray {
    reader: Box<dyn ReadSeek>,
    dtype: Dtype,
    rows: u64,
    columns: u32,
    data_offset: u64,
    next_row: u64,
}

/// Reason why a file is not an array that can be a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The first bytes are not those of the format.
    #[error("this is not an NPY file: it does not begin with \\x93NUMPY")]
    NotNpy,
    /// The version is later than this program.
    #[error("NPY version {major}.{minor} is unknown; versions 1 to 3 are read")]
    Version {
        /// Major version.
        major: u8,
        /// Minor version.
        minor: u8,
    },
    /// The header cannot be parsed.
    #[error("the NPY header is damaged: {0}")]
    Header(&'static str),
    /// The element type is not supported by streams.
    #[error(
        "arrays of type `{0}` cannot be streamed\nconvert with array.astype('<f4'), or another of \
         i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 b1"
    )]
    Type(String),
    /// The array is big-endian.
    #[error("`{0}` is big-endian\nconvert with array.astype(array.dtype.newbyteorder('<'))")]
    BigEndian(String),
    /// The array is stored by columns.
    #[error("the array is in Fortran order\nsave numpy.ascontiguousarray(array) instead")]
    FortranOrder,
    /// The array has neither one nor two dimensions.
    #[error("an array of shape {0} is neither [samples] nor [samples, channels]\nreshape it before saving")]
    Dimensions(String),
    /// The array has no samples.
    #[error("the array of shape {0} is empty")]
    Empty(String),
    /// The file ends early.
    #[error("the file ends at byte {size_bytes}, but its header promises {promised_bytes}: it is truncated")]
    Truncated {
        /// Size of the file.
        size_bytes: u64,
        /// Size according to its header.
        promised_bytes: u64,
    },
    /// The file continues behind the array.
    #[error("{extra_bytes} bytes follow the array, from byte {promised_bytes} on; save one array per file")]
    Trailing {
        /// Size according to its header.
        promised_bytes: u64,
        /// Size of the rest.
        extra_bytes: u64,
    },
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

impl NpyArray {
    /// Reads the header and checks that the elements are all there.
    ///
    /// # Errors
    /// Every variant of [`NpyError`].
    pub fn open(reader: impl ReadSeek + 'static) -> Result<Self, NpyError> {
        let mut reader: Box<dyn ReadSeek> = Box::new(reader);
        let text = read_header(&mut reader)?;
        let data_offset = reader.stream_position()?;
        let dtype = dtype_of(field(&text, "descr")?)?;
        if field(&text, "fortran_order")?.starts_with("True") {
            return Err(NpyError::FortranOrder);
        }
        let (rows, columns) = shape_of(field(&text, "shape")?)?;
        let array = Self { reader, dtype, rows, columns, data_offset, next_row: 0 };
        array.checked()
    }

    /// Returns the type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of rows, that is samples.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of elements in a row.
    #[must_use]
    pub const fn columns(&self) -> u32 {
        self.columns
    }

    /// Replaces the content of `out` by the next rows, `count` of them or all that are left.
    ///
    /// # Errors
    /// [`NpyError::Io`]; also when the file shrank since it was opened.
    pub fn read_rows(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), NpyError> {
        let left = usize::try_from(self.rows - self.next_row).unwrap_or(usize::MAX);
        let count = count.min(left);
        out.resize(count * self.row_bytes(), 0);
        self.reader.read_exact(out)?;
        self.next_row += count as u64;
        Ok(())
    }

    /// Skips the next rows, `count` of them or all that are left.
    ///
    /// # Errors
    /// [`NpyError::Io`] if the file cannot be read.
    pub fn pass_rows(&mut self, count: u64) -> Result<(), NpyError> {
        if count > 0 {
            self.next_row += count.min(self.rows - self.next_row);
            let offset = self.data_offset + self.next_row * self.row_bytes() as u64;
            self.reader.seek(SeekFrom::Start(offset))?;
        }
        Ok(())
    }

    /// Goes back to the first row.
    ///
    /// # Errors
    /// [`NpyError::Io`] if the file cannot be read.
    pub fn rewind(&mut self) -> Result<(), NpyError> {
        self.reader.seek(SeekFrom::Start(self.data_offset))?;
        self.next_row = 0;
        Ok(())
    }

    const fn row_bytes(&self) -> usize {
        self.columns as usize * self.dtype.size_bytes()
    }

    fn checked(mut self) -> Result<Self, NpyError> {
        let size_bytes = self.reader.seek(SeekFrom::End(0))?;
        let data_bytes = self.rows.checked_mul(self.row_bytes() as u64);
        let promised_bytes = data_bytes.and_then(|bytes| bytes.checked_add(self.data_offset));
        let promised_bytes = promised_bytes.ok_or(NpyError::Header("its shape is larger than any file"))?;
        if size_bytes < promised_bytes {
            return Err(NpyError::Truncated { size_bytes, promised_bytes });
        }
        if size_bytes > promised_bytes {
            return Err(NpyError::Trailing { promised_bytes, extra_bytes: size_bytes - promised_bytes });
        }
        self.rewind()?;
        Ok(self)
    }
}

fn read_header(reader: &mut dyn ReadSeek) -> Result<String, NpyError> {
    let mut start = [0; 8];
    reader.read_exact(&mut start).map_err(|_| NpyError::NotNpy)?;
    if &start[..6] != MAGIC {
        return Err(NpyError::NotNpy);
    }
    let cut = |_| NpyError::Header("the file ends within it");
    let size_bytes = match start[6] {
        1 => {
            let mut size = [0; 2];
            reader.read_exact(&mut size).map_err(cut)?;
            usize::from(u16::from_le_bytes(size))
        }
        2 | 3 => {
            let mut size = [0; 4];
            reader.read_exact(&mut size).map_err(cut)?;
            u32::from_le_bytes(size) as usize
        }
        major => return Err(NpyError::Version { major, minor: start[7] }),
    };
    if size_bytes > MAX_HEADER_BYTES {
        return Err(NpyError::Header("it is longer than 64 KiB"));
    }
    let mut text = vec![0; size_bytes];
    reader.read_exact(&mut text).map_err(cut)?;
    String::from_utf8(text).map_err(|_| NpyError::Header("it is not text"))
}

/// Returns the text behind a key of the header, which is written as a Python dictionary.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str, NpyError> {
    let missing = NpyError::Header("descr, fortran_order or shape is missing");
    let after_key = ['\'', '"'].iter().find_map(|quote| {
        let quoted = format!("{quote}{key}{quote}");
        header.find(&quoted).map(|at| &header[at + quoted.len()..])
    });
    let value = after_key.and_then(|rest| rest.trim_start().strip_prefix(':')).ok_or(missing)?;
    Ok(value.trim_start())
}

fn dtype_of(value: &str) -> Result<Dtype, NpyError> {
    let quote = value.chars().next().filter(|first| "'\"".contains(*first));
    let Some(name) = quote.and_then(|quote| value[1..].split(quote).next()) else {
        // A list: a structured type.
        return Err(NpyError::Type(value.split(']').next().unwrap_or(value).to_owned() + "]"));
    };
    if name.starts_with('>') {
        return Err(NpyError::BigEndian(name.to_owned()));
    }
    match name.trim_start_matches(['<', '|', '=']) {
        "i1" => Ok(Dtype::I8),
        "i2" => Ok(Dtype::I16),
        "i4" => Ok(Dtype::I32),
        "i8" => Ok(Dtype::I64),
        "u1" => Ok(Dtype::U8),
        "u2" => Ok(Dtype::U16),
        "u4" => Ok(Dtype::U32),
        "u8" => Ok(Dtype::U64),
        "f4" => Ok(Dtype::F4),
        "f8" => Ok(Dtype::F8),
        "c8" => Ok(Dtype::C8),
        "c16" => Ok(Dtype::C16),
        "b1" => Ok(Dtype::Bool),
        _ => Err(NpyError::Type(name.to_owned())),
    }
}

fn shape_of(value: &str) -> Result<(u64, u32), NpyError> {
    let damaged = || NpyError::Header("its shape is not a tuple of numbers");
    let inside = value.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(damaged)?.0;
    let extents: Vec<u64> = inside
        .split(',')
        .map(str::trim)
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.parse().map_err(|_| damaged()))
        .collect::<Result<_, _>>()?;
    let shape = || format!("({inside})");
    if extents.contains(&0) {
        return Err(NpyError::Empty(shape()));
    }
    match extents[..] {
        [rows] => Ok((rows, 1)),
        [rows, columns] => {
            let fits = u32::try_from(columns).ok().filter(|columns| *columns <= MAX_ELEMENTS_PER_SAMPLE);
            fits.map(|columns| (rows, columns)).ok_or_else(|| NpyError::Dimensions(shape()))
        }
        _ => Err(NpyError::Dimensions(shape())),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Cursor;

    /// Returns a file as NumPy writes it: header padded with spaces to 64 bytes, closed by a line feed.
    pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
        file(1, &dictionary, data)
    }

    fn file(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
        let start = if version == 1 { 10 } else { 12 };
        let padding = 64 - (start + dictionary.len() + 1) % 64;
        let header = format!("{dictionary}{}\n", " ".repeat(padding % 64));
        let mut bytes = MAGIC.to_vec();
        bytes.extend([version, 0]);
        let size = u32::try_from(header.len()).unwrap().to_le_bytes();
        bytes.extend(&size[..if version == 1 { 2 } else { 4 }]);
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn open(bytes: Vec<u8>) -> Result<NpyArray, NpyError> {
        NpyArray::open(Cursor::new(bytes))
    }

    fn refusal(bytes: Vec<u8>) -> NpyError {
        open(bytes).err().expect("the file is refused")
    }

    /// Output of `numpy.save(file, numpy.array([[1, -2], [300, 4]], dtype='<i2'))`, byte by byte.
    const GOLDEN: &[u8] =
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 2), }\
        \x20                                                         \n\
        \x01\x00\xfe\xff\x2c\x01\x04\x00";

    #[test]
    fn bytes_written_by_numpy_are_read() {
        let mut array = open(GOLDEN.to_vec()).unwrap();
        assert_eq!((array.dtype(), array.rows(), array.columns()), (Dtype::I16, 2, 2));
        let mut rows = Vec::new();
        array.read_rows(1, &mut rows).unwrap();
        assert_eq!(rows, [1, 0, 0xfe, 0xff]);
        array.read_rows(9, &mut rows).unwrap();
        assert_eq!(rows, [0x2c, 1, 4, 0]);
        array.read_rows(9, &mut rows).unwrap();
        assert_eq!(rows, [0_u8; 0]);
        array.rewind().unwrap();
        array.read_rows(9, &mut rows).unwrap();
        assert_eq!(rows.len(), 8);
    }

    #[test]
    fn all_three_versions_and_every_dtype_are_read() {
        for version in 1..=3 {
            let dictionary = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
            assert_eq!(open(file(version, dictionary, &[1, 2, 3])).unwrap().rows(), 3);
        }
        let names =
            ["|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8", "<c8", "<c16", "|b1"];
        for (name, dtype) in names.into_iter().zip(Dtype::ALL) {
            assert_eq!(open(npy(name, "(1,)", &vec![0; dtype.size_bytes()])).unwrap().dtype(), dtype);
        }
    }

    #[test]
    fn keys_may_come_in_any_order_and_quotes() {
        let dictionary = r#"{"shape": (1, 2), "fortran_order": False, "descr": "<u2"}"#;
        let array = open(file(1, dictionary, &[0; 4])).unwrap();
        assert_eq!((array.rows(), array.columns()), (1, 2));
    }

    #[test]
    fn every_truncation_is_noticed() {
        for len in 0..GOLDEN.len() {
            let error = refusal(GOLDEN[..len].to_vec());
            let expected = match len {
                0..8 => matches!(error, NpyError::NotNpy),
                8..128 => matches!(error, NpyError::Header(_)),
                _ => {
                    matches!(error, NpyError::Truncated { size_bytes, promised_bytes: 136 } if size_bytes == len as u64)
                }
            };
            assert!(expected, "{len} bytes: {error}");
        }
        let longer = [GOLDEN, &[0]].concat();
        assert!(matches!(refusal(longer), NpyError::Trailing { promised_bytes: 136, extra_bytes: 1 }));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let message = |bytes| refusal(bytes).to_string();
        assert!(message(npy(">f8", "(1,)", &[0; 8])).contains("newbyteorder"));
        assert!(message(npy("<f2", "(1,)", &[0; 2])).contains("astype"));
        assert!(message(npy("<f4", "(2, 2, 2)", &[0; 32])).contains("(2, 2, 2)"));
        assert!(message(npy("<f4", "()", &[0; 4])).contains("reshape"));
        assert!(message(npy("<f4", "(0,)", &[])).contains("empty"));
        assert!(message(npy("<f4", "(9, 18446744073709551615)", &[])).contains("shape"));
        let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }";
        assert!(message(file(1, fortran, &[0; 4])).contains("ascontiguousarray"));
        let structured = "{'descr': [('a', '<f4'), ('b', '<i2')], 'fortran_order': False, 'shape': (1,), }";
        assert!(message(file(1, structured, &[0; 6])).contains("('b', '<i2')"));
        assert!(message(b"RIFF....WAVE".to_vec()).contains("not an NPY"));
        assert!(message([MAGIC, &[4, 0, 0, 0][..]].concat()).contains("version 4.0"));
    }
}
