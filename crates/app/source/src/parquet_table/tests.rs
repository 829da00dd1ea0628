//! Small tables of every kind, written with the crate itself, and what is refused.

use super::*;
use crate::open_file;
use crate::piece::testing::{drain, floats};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A column to write: values with definition levels where it is optional.
enum Content {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Double(Vec<f64>, Option<Vec<i16>>),
    Text(Vec<&'static str>),
}

fn write(message: &str, columns: &[Content], groups: usize) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    let schema = Arc::new(parse_message_type(message).unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::new(properties)).unwrap();
    for _ in 0..groups {
        let mut group = writer.next_row_group().unwrap();
        for column in columns {
            let mut into = group.next_column().unwrap().unwrap();
            match column {
                Content::Int32(values) => into.typed::<Int32Type>().write_batch(values, None, None),
                Content::Int64(values) => into.typed::<Int64Type>().write_batch(values, None, None),
                Content::Double(values, levels) => {
                    into.typed::<DoubleType>().write_batch(values, levels.as_deref(), None)
                }
                Content::Text(values) => {
                    let values: Vec<ByteArray> = values.iter().map(|value| ByteArray::from(*value)).collect();
                    into.typed::<ByteArrayType>().write_batch(&values, None, None)
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
    let start = units::WallTime::from_nanos(start_ms * 1_000_000);
    assert_eq!(source.description().timing, Timing::Recorded { start: Some(start) });
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(holes, [(3, 2, HoleKind::Recording)]);
}

#[test]
fn mixed_columns_become_floats_only_where_no_digit_is_lost() {
    let narrow = write(
        "message m { required int32 a; required double b; }",
        &[Content::Int32(vec![7]), Content::Double(vec![0.5], None)],
        1,
    );
    let mut source = open_file(narrow.path(), &at("1")).unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [7.0, 0.5]);
    let wide = write(
        "message m { required int64 a; required double b; }",
        &[Content::Int64(vec![7]), Content::Double(vec![0.5], None)],
        1,
    );
    assert!(refusal(&wide, &at("1")).contains("`a` (i64) and `b` (f8)"));
    let asked = FileOptions { dtype: Some(Dtype::F8), ..at("1") };
    assert!(open_file(wide.path(), &asked).is_ok());
    let asked = FileOptions { dtype: Some(Dtype::I16), ..at("1") };
    assert!(refusal(&wide, &asked).contains("not i16"));
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
        assert!(refusal(&file, &at("1")).contains("cannot be read as Parquet"), "{len}");
    }
    let empty = write("message m { required double a; }", &[], 0);
    assert!(refusal(&empty, &at("1")).contains("no rows"));
}
