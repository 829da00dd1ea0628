//! Arrays in NumPy's NPY format: a short header and the elements in memory order.
//!
//! Reads versions 1 to 3, both byte orders, C and Fortran order, shapes `[samples]` and `[samples, channels]`; of a
//! structured array each field is a channel. Other arrays are refused with the call that converts them. This is the
//! array alone; [`crate::Recording`] adds rate and units.
//!
//! Source: NumPy Enhancement Proposal 1 and the documentation of `numpy.lib.format`.

mod header;
mod items;

use std::io::{self, Read, Seek, SeekFrom};

use sample::{Channel, Dtype, MAX_ELEMENTS_PER_SAMPLE};

use crate::{DtypeError, MAX_PIECE_BYTES};
use header::Header;
use items::Items;

/// Reader of an array.
pub trait ReadSeek: Read + Seek + Send {}

impl<R: Read + Seek + Send> ReadSeek for R {}

/// Open array, read row by row.
pub struct NpyArray {
    reader: Box<dyn ReadSeek>,
    items: Items,
    order: Order,
    rows: u64,
    /// Number of items in a row, and of elements.
    row_items: usize,
    columns: u32,
    data_offset: u64,
    next_row: u64,
    /// Rows as they are in the file, and a part of one of its columns.
    raw: Vec<u8>,
    part: Vec<u8>,
}

/// Order of the items in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Row by row.
    C,
    /// Column by column.
    Fortran,
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
         i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 b1"
    )]
    Type(String),
    /// A field of a structured array is not supported by streams.
    #[error("field `{field}` holds {holds}, not numbers\nchoose other fields with --columns")]
    Field {
        /// Name of the field.
        field: String,
        /// Its content.
        holds: String,
    },
    /// A requested field does not exist.
    #[error("unknown field `{asked}`; the fields are {present}")]
    NoField {
        /// Requested field.
        asked: String,
        /// Existing fields.
        present: String,
    },
    /// Fields of an array without fields were requested.
    #[error("the array has no named fields to choose\nomit --columns; it applies to structured arrays")]
    NoFields,
    /// The fields have no common dtype, or a number has no exact form in it.
    #[error(transparent)]
    Dtype(#[from] DtypeError),
    /// The array has neither one nor two dimensions.
    #[error(
        "an array of shape {0} is neither [samples] nor [samples, channels]\nreshape it before saving; a structured \
         array has one dimension"
    )]
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
        Self::open_as(reader, &[], None)
    }

    /// Opens an array as the wanted fields of its structured type, and as elements of the requested dtype: `f4` and
    /// `f8` hold what has an exact form in them, and every float.
    ///
    /// # Errors
    /// Every variant of [`NpyError`].
    pub fn open_as(
        reader: impl ReadSeek + 'static,
        fields: &[String],
        dtype: Option<Dtype>,
    ) -> Result<Self, NpyError> {
        let mut reader: Box<dyn ReadSeek> = Box::new(reader);
        let header = Header::read(&mut reader)?;
        let data_offset = reader.stream_position()?;
        let items = Items::new(&header.descr, fields, dtype)?;
        let (rows, row_items) = shape_of(&header.shape)?;
        let columns =
            columns_of(&items, row_items).ok_or_else(|| NpyError::Dimensions(text_of(&header.shape)))?;
        let row_items = usize::try_from(row_items).expect("no more than the elements of a row");
        let by_columns = header.fortran_order && row_items > 1;
        let order = if by_columns { Order::Fortran } else { Order::C };
        let (raw, part) = (Vec::new(), Vec::new());
        let array =
            Self { reader, items, order, rows, row_items, columns, data_offset, next_row: 0, raw, part };
        array.checked()
    }

    /// Returns the type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.items.dtype()
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

    /// Returns the fields of a structured array as channels.
    #[must_use]
    pub fn channels(&self) -> Option<Vec<Channel>> {
        self.items.channels()
    }

    /// Replaces the content of `out` by the next rows, `count` of them or all that are left.
    ///
    /// # Errors
    /// [`NpyError::Io`]; also when the file shrank since it was opened. [`NpyError::Dtype`] at a number without an
    /// exact form in a dtype that is not its own.
    pub fn read_rows(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), NpyError> {
        let left = usize::try_from(self.rows - self.next_row).unwrap_or(usize::MAX);
        let mut left = count.min(left);
        out.clear();
        if self.items.are_elements() {
            out.resize(left * self.row_bytes(), 0);
            self.read_raw(left, out)?;
            self.next_row += left as u64;
            return Ok(());
        }
        // Items may be much larger than the fields that are wanted of them.
        let at_once = (MAX_PIECE_BYTES / self.row_bytes()).max(1);
        let mut raw = std::mem::take(&mut self.raw);
        while left > 0 {
            let rows = left.min(at_once);
            raw.resize(rows * self.row_bytes(), 0);
            self.read_raw(rows, &mut raw)?;
            self.items.append(&raw, self.row_items, self.next_row, out)?;
            self.next_row += rows as u64;
            left -= rows;
        }
        self.raw = raw;
        Ok(())
    }

    /// Fills `raw` with the next rows, as they are in the file.
    fn read_raw(&mut self, count: usize, raw: &mut [u8]) -> Result<(), NpyError> {
        if self.order == Order::C {
            return Ok(self.reader.read_exact(raw)?);
        }
        let (item_bytes, row_bytes) = (self.items.bytes, self.row_bytes());
        self.part.resize(count * item_bytes, 0);
        for column in 0..self.row_items {
            let item = column as u64 * self.rows + self.next_row;
            self.reader.seek(SeekFrom::Start(self.data_offset + item * item_bytes as u64))?;
            self.reader.read_exact(&mut self.part)?;
            for (row, item) in raw.chunks_exact_mut(row_bytes).zip(self.part.chunks_exact(item_bytes)) {
                row[column * item_bytes..][..item_bytes].copy_from_slice(item);
            }
        }
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

    /// Returns the size of a row in the file.
    const fn row_bytes(&self) -> usize {
        self.row_items * self.items.bytes
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

/// Returns the number of samples and of items in each.
fn shape_of(extents: &[u64]) -> Result<(u64, u64), NpyError> {
    if extents.contains(&0) {
        return Err(NpyError::Empty(text_of(extents)));
    }
    match *extents {
        [rows] => Ok((rows, 1)),
        [rows, items] => Ok((rows, items)),
        _ => Err(NpyError::Dimensions(text_of(extents))),
    }
}

/// Returns the number of elements in a row, unless no sample has so many; rows of structured items have one.
fn columns_of(items: &Items, row_items: u64) -> Option<u32> {
    let columns = u64::from(items.elements()?).checked_mul(row_items)?;
    let fits = row_items == 1 || items.channels().is_none();
    u32::try_from(columns).ok().filter(|columns| fits && (1..=MAX_ELEMENTS_PER_SAMPLE).contains(columns))
}

/// Returns a shape as Python writes it.
fn text_of(extents: &[u64]) -> String {
    let extents: Vec<String> = extents.iter().map(u64::to_string).collect();
    match &extents[..] {
        [one] => format!("({one},)"),
        _ => format!("({})", extents.join(", ")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Cursor;

    const MAGIC: &[u8; 6] = b"\x93NUMPY";

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

    fn fortran(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        file(1, &format!("{{'descr': {descr}, 'fortran_order': True, 'shape': {shape}, }}"), data)
    }

    fn structured(descr: &str, rows: usize, data: &[u8]) -> Vec<u8> {
        file(1, &format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({rows},), }}"), data)
    }

    /// Reads all rows of an array, a few at a time.
    fn elements(array: &mut NpyArray) -> Vec<f64> {
        let (mut rows, mut elements) = (Vec::new(), Vec::new());
        for _ in 0..array.rows().div_ceil(2) {
            array.read_rows(2, &mut rows).unwrap();
            let size = array.dtype().size_bytes();
            elements.extend(rows.chunks_exact(size).map(|element| array.dtype().to_f64(element)));
        }
        elements
    }

    #[test]
    fn columns_of_fortran_order_become_rows() {
        let data = [1_i16, 2, 3, -1, -2, -3].map(i16::to_le_bytes).concat();
        let mut array = open(fortran("'<i2'", "(3, 2)", &data)).unwrap();
        let whole = [1.0, -1.0, 2.0, -2.0, 3.0, -3.0];
        assert_eq!(elements(&mut array), whole);
        array.rewind().unwrap();
        array.pass_rows(1).unwrap();
        let mut rows = Vec::new();
        array.read_rows(9, &mut rows).unwrap();
        assert_eq!(rows, [2_i16, -2, 3, -3].map(i16::to_le_bytes).concat());
        array.rewind().unwrap();
        assert_eq!(elements(&mut array), whole);
        // With one column the orders are the same, and NumPy says True for an array that is both.
        assert_eq!(
            elements(&mut open(fortran("'<i2'", "(6,)", &data)).unwrap()),
            [1.0, 2.0, 3.0, -1.0, -2.0, -3.0]
        );
    }

    #[test]
    fn big_endian_numbers_and_halves_become_elements() {
        let data = [258_i16, -1].map(i16::to_be_bytes).concat();
        assert_eq!(elements(&mut open(npy(">i2", "(2,)", &data)).unwrap()), [258.0, -1.0]);
        let data = [1.5_f64, -0.1].map(f64::to_be_bytes).concat();
        assert_eq!(elements(&mut open(npy(">f8", "(2,)", &data)).unwrap()), [1.5, -0.1]);
        let mut complex = open(npy(">c8", "(1,)", &[3.0_f32, -4.0].map(f32::to_be_bytes).concat())).unwrap();
        let mut rows = Vec::new();
        complex.read_rows(1, &mut rows).unwrap();
        assert_eq!(rows, [3.0_f32, -4.0].map(f32::to_le_bytes).concat());
        // 1.5, the smallest subnormal, and the largest number.
        for (name, data) in [("<f2", [0, 0x3E, 1, 0, 0xFF, 0x7B]), (">f2", [0x3E, 0, 0, 1, 0x7B, 0xFF])] {
            let mut halves = open(npy(name, "(3,)", &data)).unwrap();
            assert_eq!(halves.dtype(), Dtype::F4);
            assert_eq!(elements(&mut halves), [1.5, 0.5_f64.powi(24), 65_504.0]);
        }
    }

    #[test]
    fn fields_of_a_structured_array_are_channels() {
        let item = |a: i32, b: [f32; 2]| {
            [&a.to_be_bytes()[..], &[7, 7], b"text", &b.map(f32::to_le_bytes).concat()].concat()
        };
        let data = [item(1, [0.5, 0.25]), item(-2, [3.0, 4.0]), item(9, [5.0, 6.0])].concat();
        let descr = "[('a', '>i4'), ('', '|V2'), (('a title', 'name'), '|S4'), ('pair', '<f4', (2,))]";
        let chosen = |columns: &[&str], dtype| {
            let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
            NpyArray::open_as(Cursor::new(structured(descr, 3, &data)), &columns, dtype)
        };
        let refusal = |columns: &[&str]| chosen(columns, None).err().expect("it is refused").to_string();
        let mut array = chosen(&["pair", "a"], None).unwrap();
        assert_eq!((array.dtype(), array.columns()), (Dtype::F8, 3));
        assert_eq!(
            array.channels().unwrap(),
            [Channel::new("pair", "").with_shape([2]), Channel::new("a", "")]
        );
        assert_eq!(elements(&mut array), [0.5, 0.25, 1.0, 3.0, 4.0, -2.0, 5.0, 6.0, 9.0]);
        let mut one = chosen(&["a"], None).unwrap();
        assert_eq!((one.dtype(), elements(&mut one)), (Dtype::I32, vec![1.0, -2.0, 9.0]));
        assert!(refusal(&[]).contains("field `name` holds `|S4`, not numbers\nchoose other fields"));
        assert!(refusal(&["b"]).contains("unknown field `b`; the fields are a, name, pair"));
    }

    #[test]
    fn a_number_without_an_exact_form_is_told_with_its_place() {
        let item = |a: i64, b: f32| [&a.to_le_bytes()[..], &b.to_le_bytes()].concat();
        let data = [item(1 << 53, 0.5), item((1 << 53) + 1, 0.5)].concat();
        let mut array = open(structured("[('a', '<i8'), ('b', '<f4')]", 2, &data)).unwrap();
        let mut rows = Vec::new();
        array.read_rows(1, &mut rows).unwrap();
        let said = array.read_rows(1, &mut rows).unwrap_err().to_string();
        assert!(said.contains("row 1, column `a`: 9007199254740993 has no exact form in f8"), "{said}");
        let plain = npy("<i4", "(1, 2)", &[16_777_216_i32, 16_777_217].map(i32::to_le_bytes).concat());
        let mut plain = NpyArray::open_as(Cursor::new(plain), &[], Some(Dtype::F4)).unwrap();
        let said = plain.read_rows(1, &mut rows).unwrap_err().to_string();
        assert!(said.contains("row 0, column `ch1`: 16777217 has no exact form in f4"), "{said}");
    }

    #[test]
    fn headers_of_python_2_are_read() {
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 1L), }";
        assert_eq!(open(file(1, header, &[0; 16])).unwrap().rows(), 2);
        let unicode = "{u'descr': u'<f8', u'fortran_order': False, u'shape': (2L,), }";
        assert_eq!(open(file(1, unicode, &[0; 16])).unwrap().rows(), 2);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let message = |bytes| refusal(bytes).to_string();
        assert!(message(npy("<U3", "(1,)", &[0; 12])).contains("astype"));
        assert!(message(npy("<f4", "(2, 2, 2)", &[0; 32])).contains("(2, 2, 2)"));
        assert!(message(npy("<f4", "()", &[0; 4])).contains("reshape"));
        assert!(message(npy("<f4", "(0,)", &[])).contains("shape (0,) is empty"));
        assert!(message(npy("<f4", "(9, 18446744073709551615)", &[])).contains("shape"));
        assert!(message(npy("<f4", "(18446744073709551615, 9)", &[])).contains("larger than any file"));
        let table = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2), }";
        assert!(message(file(1, table, &[0; 8])).contains("one dimension"));
        let nested = "[('a', [('b', '<f4')])]";
        assert!(message(structured(nested, 1, &[0; 4])).contains("field `a` holds fields of its own"));
        assert!(message(b"RIFF....WAVE".to_vec()).contains("not an NPY"));
        assert!(message([MAGIC, &[4, 0, 0, 0][..]].concat()).contains("version 4.0"));
        for damaged in
            ["{'descr': '<f4'", "('descr',)", "{'descr': 1, 'fortran_order': False, 'shape': (1,)}"]
        {
            assert!(message(file(1, damaged, &[0; 4])).contains("header is damaged"), "{damaged}");
        }
        assert!(message(file(1, &"(".repeat(9_000), &[])).contains("not a Python literal"));
    }
}
