//! Small tables of every kind, written with the crate itself, and refused ones.

mod arrow;

use super::*;
use crate::open_file;
use crate::piece::testing::{drain, drain_timed, floats};
use parquet::basic::Compression;
use parquet::data_type::{
    ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
    Int96, Int96Type,
};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet_file::check_places;
use sample::Dtype;
use std::sync::Arc;

/// Column to write: values with definition levels if it is optional.
enum Content {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>, Option<Vec<i16>>),
    /// Values with definition and repetition levels.
    List(Vec<i32>, Vec<i16>, Vec<i16>),
    Text(Vec<&'static str>),
    /// Values of a fixed number of bytes.
    Fixed(Vec<Vec<u8>>),
    /// Nanoseconds of a day, and the Julian day.
    Int96(Vec<(u64, u32)>),
}

fn write(message: &str, columns: &[Content], groups: usize) -> tempfile::NamedTempFile {
    write_described(message, columns, groups, None)
}

fn write_described(
    message: &str,
    columns: &[Content],
    groups: usize,
    description: Option<&str>,
) -> tempfile::NamedTempFile {
    let groups: Vec<&[Content]> = vec![columns; groups];
    write_groups(message, &groups, description)
}

fn write_groups(message: &str, groups: &[&[Content]], description: Option<&str>) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    let schema = Arc::new(parse_message_type(message).unwrap());
    let pair = |text: &str| KeyValue::new("tallycast.description".to_owned(), text.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(description.map(|text| vec![pair(text)]))
        .build();
    let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::new(properties)).unwrap();
    for columns in groups {
        let mut group = writer.next_row_group().unwrap();
        for column in *columns {
            let mut into = group.next_column().unwrap().unwrap();
            match column {
                Content::Int32(values) => into.typed::<Int32Type>().write_batch(values, None, None),
                Content::Int64(values) => into.typed::<Int64Type>().write_batch(values, None, None),
                Content::Double(values, levels) => {
                    into.typed::<DoubleType>().write_batch(values, levels.as_deref(), None)
                }
                Content::List(values, definition, repetition) => {
                    into.typed::<Int32Type>().write_batch(values, Some(definition), Some(repetition))
                }
                Content::Text(values) => {
                    let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
                    into.typed::<ByteArrayType>().write_batch(&values, None, None)
                }
                Content::Fixed(values) => {
                    let value = |bytes: &Vec<u8>| FixedLenByteArray::from(bytes.clone());
                    let values: Vec<_> = values.iter().map(value).collect();
                    into.typed::<FixedLenByteArrayType>().write_batch(&values, None, None)
                }
                Content::Int96(values) => {
                    #[expect(clippy::cast_possible_truncation, reason = "the words of a number")]
                    let value = |(nanos, day): &(u64, u32)| {
                        Int96::from(vec![*nanos as u32, (nanos >> 32) as u32, *day])
                    };
                    let values: Vec<_> = values.iter().map(value).collect();
                    into.typed::<Int96Type>().write_batch(&values, None, None)
                }
            }
            .unwrap();
            into.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    file
}

fn at(rate: &str) -> FileOptions {
    FileOptions { rate: Some(rate.parse().unwrap()), ..FileOptions::default() }
}

fn refusal(file: &tempfile::NamedTempFile, options: &FileOptions) -> String {
    match open_file(file.path(), options) {
        Err(error) => error.to_string(),
        Ok(mut source) => drain(&mut source).unwrap_err().to_string(),
    }
}

#[test]
fn a_footer_with_places_before_the_file_is_refused() {
    let file = write("message m { required double x; }", &[Content::Double(vec![1.0], None)], 1);
    let metadata = SerializedFileReader::new(file.reopen().unwrap()).unwrap().metadata().clone();
    assert!(check_places(&metadata).is_ok());
    let chunk = || metadata.row_group(0).column(0).clone().into_builder();
    let chunks = [
        chunk().set_total_compressed_size(-1),
        chunk().set_data_page_offset(-1),
        chunk().set_dictionary_page_offset(Some(-1)),
    ];
    for chunk in chunks {
        let group = metadata.row_group(0).clone().into_builder();
        let group = group.set_column_metadata(vec![chunk.build().unwrap()]).build().unwrap();
        let damaged = metadata.clone().into_builder().set_row_groups(vec![group]).build();
        assert!(check_places(&damaged).unwrap_err().to_string().contains("its footer is damaged"));
    }
}

#[test]
fn columns_of_one_type_stay_as_they_are_over_all_groups() {
    let message = "message m { required int32 a (INTEGER(16, true)); required int32 b (INTEGER(16, true)); }";
    let file = write(message, &[Content::Int32(vec![1, -2]), Content::Int32(vec![3, 4])], 2);
    let mut source = open_file(file.path(), &at("10")).unwrap();
    assert_eq!(source.description().schema.dtype, Dtype::I16);
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 3.0, -2.0, 4.0, 1.0, 3.0, -2.0, 4.0]);
    source.rewind().unwrap();
    assert_eq!(drain(&mut source).unwrap().0, bytes);
}

#[test]
fn a_timestamp_column_gives_the_rate_the_start_and_the_holes() {
    let message = "message m { required int64 time (TIMESTAMP(MILLIS, true)); required double current; }";
    let start_ms = 1_604_102_400_000;
    let times = vec![start_ms, start_ms + 10, start_ms + 20, start_ms + 50];
    let file = write(message, &[Content::Int64(times), Content::Double(vec![1.0, 2.0, 3.0, 4.0], None)], 1);
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    assert_eq!(source.description().schema.rate, "100".parse().unwrap());
    let start = WallTime::from_nanos(start_ms * 1_000_000);
    assert_eq!(source.description().timing, Timing::Recorded { start: Some(start) });
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(holes, [(3, 2, HoleKind::Recording)]);
}

#[test]
fn mixed_columns_become_floats_as_long_as_no_digit_is_lost() {
    let message = "message m { required int64 a; required double b; }";
    let of = |a: Vec<i64>| {
        let b = vec![0.5; a.len()];
        write(message, &[Content::Int64(a), Content::Double(b, None)], 1)
    };
    let mut source = open_file(of(vec![7, 1 << 53]).path(), &at("1")).unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [7.0, 0.5, 9_007_199_254_740_992.0, 0.5]);
    let wide = of(vec![7, (1 << 53) + 1]);
    let said = refusal(&wide, &at("1"));
    assert!(said.contains("row 1, column `a`: 9007199254740993 has no exact form in f8"), "{said}");
    let alone = FileOptions { columns: vec!["a".into()], ..at("1") };
    assert_eq!(open_file(wide.path(), &alone).unwrap().description().schema.dtype, Dtype::I64);
    let asked = FileOptions { dtype: Some(Dtype::I16), ..at("1") };
    assert!(refusal(&wide, &asked).contains("not i16"));
}

/// Opens and reads a table of one column without a time; returns the type of its elements and their scaled values.
fn read_alone(column: &str, content: Content) -> (Dtype, Vec<f64>) {
    let file = write(&format!("message m {{ required {column}; }}"), &[content], 1);
    let mut source = open_file(file.path(), &at("1")).unwrap();
    let schema = source.description().schema.clone();
    let (bytes, _) = drain(&mut source).unwrap();
    let scale = schema.channels[0].scale;
    (schema.dtype, floats(&source, &bytes).iter().map(|value| value * scale).collect())
}

#[test]
fn a_converted_type_alone_tells_the_meaning_too() {
    let of_32 = |column: &str, values: &[i32]| read_alone(column, Content::Int32(values.to_vec()));
    assert_eq!(of_32("int32 u (UINT_32)", &[-294_967_296]), (Dtype::U32, vec![4e9]));
    assert_eq!(of_32("int32 u (UINT_16)", &[65_535]), (Dtype::U16, vec![65_535.0]));
    assert_eq!(of_32("int32 u (UINT_8)", &[255]), (Dtype::U8, vec![255.0]));
    assert_eq!(of_32("int32 u (INT_8)", &[-128]), (Dtype::I8, vec![-128.0]));
    assert_eq!(of_32("int32 u (INT_16)", &[-3]), (Dtype::I16, vec![-3.0]));
    assert_eq!(of_32("int32 u (INT_32)", &[-3]), (Dtype::I32, vec![-3.0]));
    let of_64 = |column: &str, value| read_alone(column, Content::Int64(vec![value]));
    assert_eq!(of_64("int64 u (UINT_64)", i64::MIN), (Dtype::U64, vec![9_223_372_036_854_775_808.0]));
    assert_eq!(of_64("int64 u (INT_64)", -1), (Dtype::I64, vec![-1.0]));
    for (column, content) in [
        ("int32 u (DATE)", Content::Int32(vec![1])),
        ("int64 u (TIMESTAMP_MICROS)", Content::Int64(vec![1])),
        ("int32 u (TIME_MILLIS)", Content::Int32(vec![1])),
    ] {
        let file = write(&format!("message m {{ required {column}; }}"), &[content], 1);
        let time_is_none = FileOptions { time: TimeChoice::None, ..at("1") };
        let said = refusal(&file, &time_is_none);
        assert!(said.contains("column `u` holds times, not numbers"), "{said}");
    }
}

#[test]
fn decimals_are_the_integers_of_their_digits() {
    let of = |column: &str, content| {
        let (dtype, values) = read_alone(column, content);
        (dtype, values[0].to_string())
    };
    let fixed = |value: i128, size: usize| Content::Fixed(vec![value.to_be_bytes()[16 - size..].to_vec()]);
    assert_eq!(of("int32 d (DECIMAL(9, 2))", Content::Int32(vec![-1_225])), (Dtype::I32, "-12.25".into()));
    assert_eq!(of("int64 d (DECIMAL(18, 1))", Content::Int64(vec![15])), (Dtype::I64, "1.5".into()));
    assert_eq!(of("fixed_len_byte_array(5) d (DECIMAL(11, 2))", fixed(-150, 5)), (Dtype::I64, "-1.5".into()));
    assert_eq!(of("fixed_len_byte_array(16) d (DECIMAL(38, 0))", fixed(-7, 16)), (Dtype::I64, "-7".into()));
    let message = "message m { required fixed_len_byte_array(16) d (DECIMAL(38, 2)); }";
    let wide = write(message, &[fixed(1 << 63, 16)], 1);
    let said = refusal(&wide, &at("1"));
    assert!(said.contains("row 0, column `d`: 9223372036854775808 has no exact form in i64"), "{said}");
    let message = "message m { required fixed_len_byte_array(17) d (DECIMAL(40, 0)); }";
    let wider = write(message, &[Content::Fixed(vec![vec![0; 17]])], 1);
    assert!(refusal(&wider, &at("1")).contains("holds decimals of more than 38 digits"));
    let asked = FileOptions { dtype: Some(Dtype::F8), ..at("1") };
    assert!(drain(&mut open_file(wide.path(), &asked).unwrap()).is_ok(), "a power of two");
}

#[test]
fn halves_become_floats() {
    let content = Content::Fixed(vec![vec![0, 0x3E], vec![1, 0], vec![0xFF, 0xFB]]);
    let values = vec![1.5, 0.5_f64.powi(24), -65_504.0];
    assert_eq!(read_alone("fixed_len_byte_array(2) h (FLOAT16)", content), (Dtype::F4, values));
}

#[test]
fn the_first_column_of_times_is_the_time_whatever_its_name() {
    let tenths = (0..20_u64).map(|tenth| (tenth * 100_000_000, 2_440_589));
    let wide = Content::Int96(tenths.collect());
    let millis = Content::Int64((0..20).map(|tenth| 86_400_000 + tenth * 100).collect());
    for (column, times) in [("int96 when", wide), ("int64 when (TIMESTAMP_MILLIS)", millis)] {
        let message = format!("message m {{ required double u; required {column}; }}");
        let file = write(&message, &[Content::Double(vec![0.5; 20], None), times], 1);
        let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.rate, "10".parse().unwrap());
        assert_eq!(source.description().schema.channels, [Channel::new("u", "")]);
        assert_eq!(drain(&mut source).unwrap().1, [], "{column}");
    }
}

#[test]
fn a_time_column_without_times_is_refused() {
    let message = "message m { required binary time (STRING); required double u; }";
    let columns = [Content::Text(vec!["2026-01-02", "2026-01-03"]), Content::Double(vec![1.0, 2.0], None)];
    let said = refusal(&write(message, &columns, 1), &FileOptions::default());
    assert!(said.contains("column `time` holds String, not times\nignore it with --time none"), "{said}");
    let message = "message m { required int64 time (DECIMAL(18, 3)); required double u; }";
    let columns = [Content::Int64(vec![250, 500]), Content::Double(vec![1.0, 2.0], None)];
    let file = write(message, &columns, 1);
    let source = open_file(file.path(), &FileOptions::default()).unwrap();
    assert_eq!(source.description().schema.rate, "4".parse().unwrap());
}

#[test]
fn the_rate_is_read_over_row_groups() {
    let message = "message m { required double time; required double u; }";
    let row = |at: f64| [Content::Double(vec![at / 100.0], None), Content::Double(vec![at], None)];
    let rows: Vec<_> = (0..50_i32).map(|at| row(at.into())).collect();
    let none = [Content::Double(vec![], None), Content::Double(vec![], None)];
    let groups: Vec<&[Content]> = rows.iter().map(|row| &row[..]).collect();
    for groups in [groups.clone(), [vec![&none[..]], groups].concat()] {
        let file = write_groups(message, &groups, None);
        let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.rate, "100".parse().unwrap());
        let (bytes, holes) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), (0..50).map(f64::from).collect::<Vec<_>>());
        assert_eq!(holes, []);
    }
}

#[test]
fn nulls_and_nan_are_refused_with_their_row() {
    let message = "message m { optional double a; }";
    let null = write(message, &[Content::Double(vec![1.0, 2.0], Some(vec![1, 0, 1]))], 1);
    assert!(refusal(&null, &at("1")).contains("row 1, column `a`: a null"));
    let allowed = FileOptions { nan: NanPolicy::Allow, ..at("1") };
    let mut source = open_file(null.path(), &allowed).unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert!(floats(&source, &bytes)[1].is_nan());
    let nan = write(message, &[Content::Double(vec![1.0, f64::NAN], Some(vec![1, 1]))], 1);
    assert!(refusal(&nan, &at("1")).contains("row 1, column `a`: not a finite"));
    let group = |last: f64| [Content::Double(vec![1.0, last], Some(vec![1, 1]))];
    let second = write_groups(message, &[&group(2.0), &group(f64::NAN)], None);
    assert!(refusal(&second, &at("1")).contains("row 3, column `a`: not a finite"));
}

#[test]
fn what_is_not_numbers_is_refused_by_name() {
    let message = "message m { required binary who (STRING); required double a; }";
    let file = write(message, &[Content::Text(vec!["me"]), Content::Double(vec![1.0], None)], 1);
    assert!(refusal(&file, &at("1")).contains("column `who` holds String"));
    let chosen = FileOptions { columns: vec!["a".into()], ..at("1") };
    assert!(open_file(file.path(), &chosen).is_ok());
    assert!(
        refusal(&file, &FileOptions { columns: vec!["a".into()], ..FileOptions::default() })
            .contains("--rate")
    );
}

#[test]
fn truncated_and_foreign_files_are_refused() {
    let file = write("message m { required double a; }", &[Content::Double(vec![1.0; 1_000], None)], 1);
    let whole = std::fs::read(file.path()).unwrap();
    for len in [4, 12, whole.len() / 2, whole.len() - 1] {
        std::fs::write(file.path(), &whole[..len]).unwrap();
        assert!(refusal(&file, &at("1")).contains("not readable as Parquet"), "{len}");
    }
    let empty = write("message m { required double a; }", &[], 0);
    assert!(refusal(&empty, &at("1")).contains("no rows"));
}

/// Schema of a table of the archive: samples 5, 6 and 9 of a scaled channel, and of a pair.
const RECORDED: &str = "message m { required int64 index (INTEGER(64, false)); required int64 time_ns; \
    optional int32 a; optional group pair (LIST) { repeated group list { optional int32 item; } } }";
const DESCRIPTION: &str = r#"{"format": "tallycast-stream", "version": 1, "stream": "lab/probe", "dtype": "i32",
    "rate": {"numerator": 1000, "denominator": 3}, "labels": {"device": "probe 1"}, "channels": [
        {"name": "a", "unit": "V", "shape": [], "scale": 0.5, "offset": 1.0},
        {"name": "pair", "unit": "", "shape": [2], "scale": 1.0, "offset": 0.0}]}"#;

/// Writes that table; the pair's levels determine its structure.
fn recorded(pair: [&[i16]; 2], description: Option<&str>) -> tempfile::NamedTempFile {
    let values = (0..pair[0].iter().filter(|level| **level == 3).count()).map(|value| value as i32);
    let columns = [
        Content::Int64(vec![5, 6, 9]),
        Content::Int64(vec![0, 3_000_000, 12_000_000]),
        Content::List(vec![-1, -2, -3], vec![1, 1, 1], vec![0, 0, 0]),
        Content::List(values.collect(), pair[0].to_vec(), pair[1].to_vec()),
    ];
    write_described(RECORDED, &columns, 1, description)
}

const WHOLE: [&[i16]; 2] = [&[3, 3, 3, 3, 3, 3], &[0, 1, 0, 1, 0, 1]];

#[test]
fn an_archive_s_table_is_what_its_description_says() {
    let file = recorded(WHOLE, Some(DESCRIPTION));
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    let schema = source.description().schema.clone();
    assert_eq!((schema.dtype, schema.rate), (Dtype::I32, "1000/3".parse().unwrap()));
    assert_eq!(schema.labels["device"], "probe 1");
    let channels = [Channel::new("a", "V").with_scale(0.5, 1.0), Channel::new("pair", "").with_shape([2])];
    assert_eq!(schema.channels, channels);
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [-1.0, 0.0, 1.0, -2.0, 2.0, 3.0, -3.0, 4.0, 5.0]);
    assert_eq!(holes, [(2, 2, HoleKind::Recording)]);
    let one = FileOptions { columns: vec!["pair".into()], ..FileOptions::default() };
    assert_eq!(open_file(file.path(), &one).unwrap().description().schema.channels, channels[1..]);
}

#[test]
fn a_row_that_lacks_an_element_is_left_out_of_a_recording() {
    let file = recorded([&[3, 3, 3, 2, 3, 3], WHOLE[1]], Some(DESCRIPTION));
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [-1.0, 0.0, 1.0, -3.0, 3.0, 4.0]);
    assert_eq!(holes, [(1, 3, HoleKind::Recording)]);
    let last = recorded([&[3, 3, 3, 3, 3, 2], WHOLE[1]], Some(DESCRIPTION));
    let (bytes, holes) = drain(&mut open_file(last.path(), &FileOptions::default()).unwrap()).unwrap();
    assert_eq!(
        (bytes.len(), holes),
        (24, vec![(2, 3, HoleKind::Recording)]),
        "also behind the last whole one"
    );
}

#[test]
fn lists_of_one_length_are_arrays() {
    let file = recorded(WHOLE, None);
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    let channels = [Channel::new("a", ""), Channel::new("pair", "").with_shape([2])];
    assert_eq!(source.description().schema.channels, channels);
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [-1.0, 0.0, 1.0, -2.0, 2.0, 3.0, -3.0, 4.0, 5.0]);
    for (row, ragged) in [
        (0, [&[3, 3, 3, 3, 3, 3][..], &[0, 1, 1, 0, 1, 0]]),
        (0, [&[3, 3, 3, 3, 3, 3], &[0, 0, 1, 1, 0, 1]]),
        (2, [&[3, 3, 3, 3, 3], &[0, 1, 0, 1, 0]]),
        (1, [&[3, 3, 0, 3, 3], &[0, 1, 0, 0, 1]]),
    ] {
        let said = refusal(&recorded(ragged, Some(DESCRIPTION)), &FileOptions::default());
        assert!(said.contains(&format!("row {row}, column `pair`: its shape is not [2]")), "{said}");
    }
    let ragged = recorded([&[3, 3, 3, 3, 3], &[0, 1, 0, 1, 0]], None);
    assert!(refusal(&ragged, &FileOptions::default()).contains("row 2, column `pair`: its shape is not [2]"));
    let without = FileOptions { columns: vec!["a".into()], ..FileOptions::default() };
    assert!(open_file(ragged.path(), &without).is_ok());
}

#[test]
fn maps_and_lists_without_elements_are_refused() {
    let map = "message m { required group u (MAP) { repeated group key_value { required int32 key; \
        required int32 value; } } }";
    let entries = || Content::List(vec![1, 2], vec![1, 1], vec![0, 0]);
    assert!(refusal(&write(map, &[entries(), entries()], 1), &at("1")).contains("nested groups"));
    let empty = "message m { required group u (LIST) { repeated group list { required int32 element; } } }";
    let empty = write(empty, &[Content::List(vec![], vec![0, 0], vec![0, 0])], 1);
    assert!(refusal(&empty, &at("1")).contains("column `u` holds lists without elements"));
    let list = "message m { optional group u (LIST) { repeated group list { required int32 element; } } }";
    let groups: [&[Content]; 2] = [
        &[Content::List(vec![], vec![0, 0], vec![0, 0])],
        &[Content::List(vec![1, 2], vec![2, 2], vec![0, 1])],
    ];
    let said = refusal(&write_groups(list, &groups, None), &at("1"));
    assert!(said.contains("row 0, column `u`: its shape is not [2]"), "{said}");
    let group = "message m { optional group g { optional double x; } }";
    let group = write(group, &[Content::Double(vec![1.0], Some(vec![2]))], 1);
    assert!(refusal(&group, &at("1")).contains("column `g.x` holds nested groups"));
}

#[test]
fn a_recording_s_own_times_are_kept_unless_a_rate_is_asked_for() {
    let description = DESCRIPTION.replacen("\"device\"", "\"times\": \"own\", \"device\"", 1);
    let file = recorded(WHOLE, Some(&description));
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    assert!(source.description().schema.has_own_times());
    let (_, times, holes) = drain_timed(&mut source).unwrap();
    assert_eq!((times, holes), (vec![0, 3_000_000, 12_000_000], vec![(2, 2, HoleKind::Recording)]));
    let mut source = open_file(file.path(), &at("300")).unwrap();
    let schema = source.description().schema.clone();
    assert!(!schema.has_own_times() && schema.labels["device"] == "probe 1");
    assert!(matches!(source.next(NonZeroU64::MAX), Ok(Piece::Samples(_))));
}

#[test]
fn irregular_times_are_kept_whatever_their_type() {
    let message = "message m { required int64 time (TIMESTAMP(MILLIS, true)); required double u; }";
    let millis = |times: &[i64]| {
        let values = Content::Double(vec![0.5; times.len()], None);
        write(message, &[Content::Int64(times.to_vec()), values], 1)
    };
    let file = millis(&[1_000, 1_100, 1_149, 1_400]);
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    assert_eq!(source.description().schema.rate, "7.5".parse().unwrap());
    assert!(source.decided().unwrap().contains("every row keeps its own time"));
    let nanos = [1_000, 1_100, 1_149, 1_400].map(|at| at * 1_000_000).to_vec();
    for _ in 0..2 {
        assert_eq!(drain_timed(&mut source).unwrap().1, nanos);
        source.rewind().unwrap();
    }
    let regular = millis(&[0, 100, 200]);
    let asked = FileOptions { own_times: true, ..FileOptions::default() };
    let (_, times, holes) = drain_timed(&mut open_file(regular.path(), &asked).unwrap()).unwrap();
    assert_eq!((times, holes), (vec![0, 100_000_000, 200_000_000], vec![]));
    let back = FileOptions { own_times: true, ..at("10") };
    let said = refusal(&millis(&[0, 100, 99]), &back);
    assert!(said.contains("row 2: its time is 1000000 ns before that of the row before"), "{said}");
    let none = write("message m { required double u; }", &[Content::Double(vec![1.0], None)], 1);
    assert!(refusal(&none, &back).contains("no times to keep"));
}

#[test]
fn the_unit_of_times_that_are_numbers_is_named_or_told_by_their_size() {
    let message = "message m { required int64 time; required double u; }";
    let of = |first: i64, step: i64| {
        let times = (0..20).map(|row| first + row * step).collect();
        write(message, &[Content::Int64(times), Content::Double(vec![0.5; 20], None)], 1)
    };
    let rate = |file: &tempfile::NamedTempFile, options: &FileOptions| {
        open_file(file.path(), options).unwrap().description().schema.rate.to_string()
    };
    let asked =
        |unit: &str| FileOptions { time_unit: crate::TimeUnit::named(unit), ..FileOptions::default() };
    assert_eq!(rate(&of(0, 10), &asked("ms")), "100");
    assert_eq!(rate(&of(0, 10), &asked("min")), "1/600");
    for first in [1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000] {
        assert_eq!(rate(&of(first, first / 170_000_000_000), &FileOptions::default()), "100", "{first}");
    }
    let said = refusal(&of(45_000_000_000, 10), &FileOptions::default());
    assert!(said.contains("row 0: a time of 45000000000 s lies beyond the year 2262"), "{said}");
    assert!(refusal(&of(0, 10), &asked("iso")).contains("are numbers\nname their unit with --time-unit"));
    let in_utc = FileOptions { time_zone: Some("UTC".to_owned()), ..FileOptions::default() };
    assert!(refusal(&of(0, 10), &in_utc).contains("are not local\nomit --time-zone"));
    let typed = "message m { required int64 time (TIMESTAMP(MILLIS, true)); required double u; }";
    let columns = [Content::Int64(vec![0, 10]), Content::Double(vec![0.5; 2], None)];
    let typed = write(typed, &columns, 1);
    assert!(refusal(&typed, &asked("ms")).contains("gives the unit of its times\nomit --time-unit"));
    assert!(refusal(&typed, &in_utc).contains("are not local"));
}

#[test]
fn local_times_are_those_of_the_named_zone_else_of_utc() {
    let message = "message m { required int64 time (TIMESTAMP(MILLIS, false)); required double u; }";
    // 2026-06-01, and the hour of autumn that the zone has twice.
    let of = |first: i64| {
        let times = vec![first, first + 1_000];
        write(message, &[Content::Int64(times), Content::Double(vec![0.5; 2], None)], 1)
    };
    let berlin =
        FileOptions { time_zone: Some("CET-1CEST,M3.5.0,M10.5.0/3".to_owned()), ..FileOptions::default() };
    let start = |options: &FileOptions| match open_file(of(1_780_272_000_000).path(), options)
        .unwrap()
        .description()
        .timing
    {
        Timing::Recorded { start: Some(start) } => start.as_nanos(),
        other => panic!("{other:?}"),
    };
    assert_eq!(start(&FileOptions::default()) - start(&berlin), 7_200_000_000_000);
    let said = refusal(&of(1_792_895_400_000), &berlin);
    assert!(said.contains("row 0: `2026-10-25T02:30:00` exists twice or never"), "{said}");
}

#[test]
fn an_index_and_a_time_are_single_numbers() {
    let message = "message m { required binary index (STRING); required int64 time_ns; required double u; }";
    let columns =
        [Content::Text(vec!["a", "b"]), Content::Int64(vec![0, 10]), Content::Double(vec![1.0, 2.0], None)];
    let said = refusal(&write(message, &columns, 1), &FileOptions::default());
    assert!(said.contains("column `index` holds String, not numbers"), "{said}");
    let message = "message m { required group time (LIST) { repeated group list { required int32 item; } } \
        required double u; }";
    let columns = [Content::List(vec![1, 2], vec![1, 1], vec![0, 0]), Content::Double(vec![1.0, 2.0], None)];
    let said = refusal(&write(message, &columns, 1), &FileOptions::default());
    assert!(said.contains("column `time` holds lists or nested groups"), "{said}");
}

#[test]
fn a_column_that_somebody_changed_is_a_plain_one() {
    let message = "message m { required int64 index; required int64 time_ns; required double a; }";
    let columns = [
        Content::Int64(vec![5, 6]),
        Content::Int64(vec![0, 3_000_000]),
        Content::Double(vec![1.0, 2.0], None),
    ];
    let file = write_described(message, &columns, 1, Some(DESCRIPTION));
    let source = open_file(file.path(), &FileOptions::default()).unwrap();
    assert_eq!(source.description().schema.channels, [Channel::new("a", "")]);
}

#[test]
fn descriptions_that_cannot_be_followed_are_refused() {
    let said = |from: &str, to: &str| {
        let description = DESCRIPTION.replacen(from, to, 1);
        assert_ne!(description, DESCRIPTION);
        refusal(&recorded(WHOLE, Some(&description)), &FileOptions::default())
    };
    assert!(said("\"version\": 1", "\"version\": 2").contains("has version 2, this program reads 1"));
    for (from, to) in
        [("\"i32\"", "\"i33\""), ("1000", "0"), ("\"unit\"", "\"einheit\""), ("[2]", "[0]"), ("{", "")]
    {
        assert!(said(from, to).contains("tallycast.description` cannot be read"), "{from} to {to}");
    }
}

#[test]
fn an_index_that_is_none_is_told_with_its_row() {
    let message = "message m { required int64 index; required int64 time_ns; required int32 a; }";
    let refuse = |indices: Vec<i64>| {
        let columns =
            [Content::Int64(indices), Content::Int64(vec![0, 10, 20]), Content::Int32(vec![1, 2, 3])];
        refusal(&write(message, &columns, 1), &FileOptions::default())
    };
    assert!(refuse(vec![1, 2, 2]).contains("row 2: its sample index is 2, the row before has 2"));
    assert!(refuse(vec![1, -2, 3]).contains("row 1: `null, negative or no integer` is not a sample index"));
}
