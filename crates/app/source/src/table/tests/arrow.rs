//! Arrow files and streams, written with the crate itself; their meaning is that of Parquet.

use super::*;
use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::{Float16Type, Int8Type};
use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    DurationMicrosecondArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, PrimitiveArray, RecordBatch, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Schema as ArrowSchema};
use half::f16;
use parquet::arrow::ArrowWriter;
use std::collections::HashMap;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, it)| (name, it, true))).unwrap()
}

/// Ways to write the same table.
#[derive(Clone, Copy, Debug)]
enum Way {
    File,
    Feather,
    Stream,
    Parquet,
}

const ALL: [Way; 4] = [Way::File, Way::Feather, Way::Stream, Way::Parquet];

fn written(way: Way, batches: &[RecordBatch]) -> tempfile::NamedTempFile {
    let suffix = match way {
        Way::File => ".arrow",
        Way::Feather => ".feather",
        Way::Stream => ".arrows",
        Way::Parquet => ".parquet",
    };
    let file = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
    let (out, schema) = (file.reopen().unwrap(), batches[0].schema());
    match way {
        Way::Parquet => {
            let pairs =
                schema.metadata().iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
            let properties =
                WriterProperties::builder().set_key_value_metadata(Some(pairs.collect())).build();
            let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.close().unwrap();
        }
        Way::Stream => {
            let mut writer = StreamWriter::try_new(out, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
        Way::File | Way::Feather => {
            let packed = matches!(way, Way::Feather).then_some(CompressionType::LZ4_FRAME);
            let options = IpcWriteOptions::default().try_with_compression(packed).unwrap();
            let mut writer = FileWriter::try_new_with_options(out, &schema, options).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
    }
    file
}

#[test]
fn every_type_of_number_means_the_same_in_every_file() {
    let columns: Vec<(ArrayRef, Dtype, Vec<f64>)> = vec![
        (Arc::new(BooleanArray::from(vec![true, false])), Dtype::Bool, vec![1.0, 0.0]),
        (Arc::new(Int8Array::from(vec![-128, 127])), Dtype::I8, vec![-128.0, 127.0]),
        (Arc::new(Int16Array::from(vec![-3, 4])), Dtype::I16, vec![-3.0, 4.0]),
        (Arc::new(Int32Array::from(vec![-3, 4])), Dtype::I32, vec![-3.0, 4.0]),
        (Arc::new(Int64Array::from(vec![-3, 4])), Dtype::I64, vec![-3.0, 4.0]),
        (Arc::new(UInt8Array::from(vec![255, 1])), Dtype::U8, vec![255.0, 1.0]),
        (Arc::new(UInt16Array::from(vec![65_535, 1])), Dtype::U16, vec![65_535.0, 1.0]),
        (Arc::new(UInt32Array::from(vec![4_000_000_000, 1])), Dtype::U32, vec![4e9, 1.0]),
        (Arc::new(UInt64Array::from(vec![1 << 63, 1])), Dtype::U64, vec![9_223_372_036_854_775_808.0, 1.0]),
        (Arc::new(Float32Array::from(vec![1.5, -2.5])), Dtype::F4, vec![1.5, -2.5]),
        (Arc::new(Float64Array::from(vec![0.1, -2.5])), Dtype::F8, vec![0.1, -2.5]),
        (
            Arc::new(PrimitiveArray::<Float16Type>::from(vec![f16::from_f32(1.5), f16::MIN])),
            Dtype::F4,
            vec![1.5, -65_504.0],
        ),
        (
            Arc::new(Decimal128Array::from(vec![-1_225, 50]).with_precision_and_scale(18, 2).unwrap()),
            Dtype::I64,
            vec![-12.25, 0.5],
        ),
    ];
    for (column, dtype, expected) in columns {
        for way in ALL {
            let file = written(way, &[batch(vec![("u [V]", Arc::clone(&column))])]);
            let mut source = open_file(file.path(), &at("1")).unwrap();
            let schema = source.description().schema.clone();
            assert_eq!((schema.dtype, schema.channels[0].unit.as_str()), (dtype, "V"), "{way:?}");
            let (bytes, _) = drain(&mut source).unwrap();
            let scale = schema.channels[0].scale;
            let values: Vec<f64> = floats(&source, &bytes).iter().map(|value| value * scale).collect();
            assert_eq!(values, expected, "{way:?} {dtype}");
            source.rewind().unwrap();
            assert_eq!(drain(&mut source).unwrap().0, bytes, "{way:?} {dtype}");
        }
    }
}

#[test]
fn columns_of_several_types_become_floats_and_nulls_nan_where_that_is_allowed() {
    let columns = || {
        vec![
            ("a", Arc::new(UInt32Array::from(vec![Some(4_000_000_000), None])) as ArrayRef),
            ("b", Arc::new(UInt64Array::from(vec![Some(1 << 63), Some(1)]))),
            ("c", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ]
    };
    let allowed = FileOptions { nan: NanPolicy::Allow, ..at("1") };
    for way in ALL {
        let file = written(way, &[batch(columns())]);
        let mut source = open_file(file.path(), &allowed).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        let values = floats(&source, &bytes);
        assert_eq!(values[..3], [4e9, 9_223_372_036_854_775_808.0, 0.5], "{way:?}");
        assert!(values[3].is_nan() && values[4] == 1.0 && values[5].is_nan(), "{way:?}: {values:?}");
        let alone = FileOptions { columns: vec!["c".to_owned()], ..allowed.clone() };
        let mut source = open_file(file.path(), &alone).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        assert!(floats(&source, &bytes)[1].is_nan(), "{way:?}");
    }
}

#[test]
fn a_channel_named_as_a_leading_column_is_not_that_column() {
    let description = r#"{"format": "tallycast-stream", "version": 1, "stream": "z", "dtype": "i64",
        "rate": {"numerator": 10, "denominator": 1}, "labels": {}, "channels": [
            {"name": "index", "unit": "V", "shape": [], "scale": 1.0, "offset": 0.0}]}"#;
    let column = |values: [i64; 2]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let columns = vec![column([0, 1]), column([0, 100_000_000]), column([7, 8])];
    let table = described(description, &["index", "time_ns", "channel:index"], columns);
    let file = written(Way::Stream, &[table]);
    for (chosen, unit) in [("index", ""), ("channel:index", "V")] {
        let options = FileOptions { columns: vec![chosen.to_owned()], ..FileOptions::default() };
        let source = open_file(file.path(), &options).unwrap();
        assert_eq!(source.description().schema.channels, [Channel::new("index", unit)]);
    }
}

#[test]
fn times_give_the_rate_the_start_and_the_holes_over_batches() {
    let start_ms = 1_604_102_400_000;
    let times = |millis: [i64; 2]| -> [ArrayRef; 4] {
        let nanos = millis.map(|at| (start_ms + at) * 1_000_000).to_vec();
        [
            Arc::new(
                TimestampMillisecondArray::from(millis.map(|at| start_ms + at).to_vec()).with_timezone("UTC"),
            ),
            Arc::new(TimestampNanosecondArray::from(nanos.clone())),
            Arc::new(Int64Array::from(nanos)),
            Arc::new(Float64Array::from(millis.map(|at| (1_604_102_400_000 + at) as f64 / 1e3).to_vec())),
        ]
    };
    let values = |first: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![first, first + 1.0])) };
    for (before, behind) in times([0, 10]).into_iter().zip(times([20, 50])) {
        for way in ALL {
            let batches = [
                batch(vec![("time", Arc::clone(&before)), ("u", values(1.0))]),
                batch(vec![("time", Arc::clone(&behind)), ("u", values(3.0))]),
            ];
            let file = written(way, &batches);
            let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
            assert_eq!(source.description().schema.rate, "100".parse().unwrap(), "{way:?}");
            let start = WallTime::from_nanos(start_ms * 1_000_000);
            assert_eq!(source.description().timing, Timing::Recorded { start: Some(start) }, "{way:?}");
            let (bytes, holes) = drain(&mut source).unwrap();
            assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
            assert_eq!(holes, [(3, 2, HoleKind::Recording)], "{way:?}");
        }
    }
    let berlin = FileOptions { time_zone: Some("CET-1".to_owned()), ..FileOptions::default() };
    for way in ALL {
        let local: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![start_ms, start_ms + 10]));
        let file = written(way, &[batch(vec![("time", local), ("u", values(1.0))])]);
        let start = WallTime::from_nanos((start_ms - 3_600_000) * 1_000_000);
        let source = open_file(file.path(), &berlin).unwrap();
        assert_eq!(source.description().timing, Timing::Recorded { start: Some(start) }, "{way:?}");
    }
    let others: [ArrayRef; 3] = [
        Arc::new(Date32Array::from(vec![0, 1])),
        Arc::new(Time64MicrosecondArray::from(vec![0, 86_400_000_000])),
        Arc::new(DurationMicrosecondArray::from(vec![0, 86_400_000_000])),
    ];
    for (times, way) in others.iter().flat_map(|times| ALL.map(|way| (times, way))) {
        let file = written(way, &[batch(vec![("when", Arc::clone(times)), ("u", values(1.0))])]);
        let source = open_file(file.path(), &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.rate, "1/86400".parse().unwrap(), "{way:?} {times:?}");
    }
}

fn lists(rows: &[Option<&[i32]>]) -> ArrayRef {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in rows {
        row.iter().copied().flatten().for_each(|value| lists.values().append_value(*value));
        lists.append(row.is_some());
    }
    Arc::new(lists.finish())
}

#[test]
fn lists_of_one_length_are_arrays() {
    let fixed = || -> ArrayRef {
        let field = Arc::new(Field::new_list_field(DataType::Int32, true));
        let items = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]));
        Arc::new(FixedSizeListArray::try_new(field, 2, items, None).unwrap())
    };
    for way in ALL {
        for column in [fixed(), lists(&[Some(&[1, 2]), Some(&[3, 4]), Some(&[5, 6])])] {
            // Part of a batch: its lists do not begin with the first item.
            let file = written(way, &[batch(vec![("pair", column.slice(1, 2))])]);
            let mut source = open_file(file.path(), &at("1")).unwrap();
            assert_eq!(source.description().schema.channels, [Channel::new("pair", "").with_shape([2])]);
            let (bytes, _) = drain(&mut source).unwrap();
            assert_eq!(floats(&source, &bytes), [3.0, 4.0, 5.0, 6.0], "{way:?}");
        }
        for (row, rows) in [
            (1, [Some(&[1, 2][..]), Some(&[3])]),
            (1, [Some(&[1, 2]), Some(&[3, 4, 5])]),
            (1, [Some(&[1, 2]), None]),
            (0, [None, Some(&[1, 2])]),
        ] {
            let said = refusal(&written(way, &[batch(vec![("pair", lists(&rows))])]), &at("1"));
            assert!(
                said.contains(&format!("row {row}, column `pair`: its shape is not [2]")),
                "{way:?}: {said}"
            );
        }
        let mut with_null = ListBuilder::new(Int32Builder::new());
        with_null.append_value([None, Some(2)]);
        let said = refusal(&written(way, &[batch(vec![("u", Arc::new(with_null.finish()))])]), &at("1"));
        assert!(said.contains("row 0, column `u`: a null"), "{way:?}: {said}");
        let said = refusal(&written(way, &[batch(vec![("u", lists(&[Some(&[]), None]))])]), &at("1"));
        assert!(said.contains("column `u` holds lists without elements"), "{way:?}: {said}");
    }
}

fn described(description: &str, names: &[&str], columns: Vec<ArrayRef>) -> RecordBatch {
    let field = |(name, column): (&&str, &ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let fields: Vec<Field> = names.iter().zip(&columns).map(field).collect();
    let metadata = HashMap::from([("tallycast.description".to_owned(), description.to_owned())]);
    let schema = ArrowSchema::new(fields).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[test]
fn a_batch_of_any_size_and_nulls_of_any_number_are_read() {
    // More than a piece has room for.
    let long: ArrayRef = Arc::new(Int32Array::from_iter(0..600_000));
    let mut none = ListBuilder::new(Int32Builder::new());
    none.append_null();
    let none = batch(vec![("u", Arc::new(none.finish()))]);
    let some = batch(vec![("u", lists(&[Some(&[1, 2])]))]);
    for way in ALL {
        let file = written(way, &[batch(vec![("u", Arc::clone(&long))])]);
        let mut source = open_file(file.path(), &at("1")).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        assert_eq!(bytes, (0..600_000_i32).flat_map(i32::to_le_bytes).collect::<Vec<_>>(), "{way:?}");
        let said = refusal(&written(way, &[none.clone(), some.clone()]), &at("1"));
        assert!(said.contains("row 0, column `u`: its shape is not [2]"), "{way:?}: {said}");
    }
}

/// The table of the archive that the tests of Parquet have, as a segment.
fn segment(description: &str) -> RecordBatch {
    let item = || Arc::new(Field::new("item", DataType::Int32, true));
    let pair = FixedSizeListArray::try_new(item(), 2, Arc::new(Int32Array::from_iter(0..6)), None).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(vec![5, 6, 9])),
        Arc::new(Int64Array::from(vec![0, 3_000_000, 12_000_000])),
        Arc::new(Int32Array::from(vec![Some(-1), None, Some(-3)])),
        Arc::new(pair),
    ];
    described(description, &["index", "time_ns", "a", "pair"], columns)
}

#[test]
fn a_segment_of_an_archive_is_what_its_description_says() {
    for way in ALL {
        let file = written(way, &[segment(DESCRIPTION)]);
        let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
        let schema = source.description().schema.clone();
        assert_eq!((schema.dtype, schema.rate), (Dtype::I32, "1000/3".parse().unwrap()));
        assert_eq!(schema.labels["device"], "probe 1");
        assert_eq!(schema.channels[0], Channel::new("a", "V").with_scale(0.5, 1.0));
        let (bytes, holes) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [-1.0, 0.0, 1.0, -3.0, 4.0, 5.0], "a sample in part is left out");
        assert_eq!(holes, [(1, 3, HoleKind::Recording)]);
        let own = DESCRIPTION.replacen("\"device\"", "\"times\": \"own\", \"device\"", 1);
        let (_, times, _) = drain_timed(
            &mut open_file(written(way, &[segment(&own)]).path(), &FileOptions::default()).unwrap(),
        )
        .unwrap();
        assert_eq!(times, [0, 12_000_000]);
    }
}

#[test]
fn complex_numbers_are_pairs_of_which_none_may_lack_a_part() {
    let description = r#"{"format": "tallycast-stream", "version": 1, "stream": "z", "dtype": "c8",
        "rate": {"numerator": 10, "denominator": 1}, "labels": {}, "channels": [
            {"name": "z", "unit": "V", "shape": [], "scale": 1.0, "offset": 0.0}]}"#;
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let parts = Arc::new(Float32Array::from(vec![1.0, 2.0, 0.0, 0.0, 3.0, 4.0]));
    // The second is null: the nulls of a column of one number are taken over.
    let nulls = Int32Array::from(vec![Some(0), None, Some(0)]).nulls().cloned();
    let column = FixedSizeListArray::try_new(item, 2, parts, nulls).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(vec![0, 1, 2])),
        Arc::new(Int64Array::from(vec![0, 100_000_000, 200_000_000])),
        Arc::new(column),
    ];
    let table = described(description, &["index", "time_ns", "z"], columns);
    let expected: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].iter().flat_map(|part| part.to_le_bytes()).collect();
    for way in ALL {
        let file = written(way, std::slice::from_ref(&table));
        let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
        assert_eq!(source.description().schema.dtype, Dtype::C8);
        let (bytes, holes) = drain(&mut source).unwrap();
        assert_eq!((&bytes, holes), (&expected, vec![(1, 1, HoleKind::Recording)]), "{way:?}");
    }
}

#[test]
fn what_is_not_numbers_is_refused_by_name_and_the_rest_can_be_chosen() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let words: ArrayRef = Arc::new(["a", "b"].into_iter().collect::<DictionaryArray<Int8Type>>());
    let group = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef,
    )]);
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for (column, holds) in [(text, "Utf8"), (words, "Dictionary"), (Arc::new(group), "nested groups")] {
        let file = written(Way::Stream, &[batch(vec![("who", column), ("u", Arc::clone(&numbers))])]);
        let said = refusal(&file, &at("1"));
        assert!(said.contains("column `who` holds") && said.contains(holds), "{said}");
        let chosen = FileOptions { columns: vec!["u".into()], ..at("1") };
        assert_eq!(drain(&mut open_file(file.path(), &chosen).unwrap()).unwrap().0.len(), 8);
    }
    let nulls: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None]));
    let file = written(Way::File, &[batch(vec![("u", nulls)])]);
    assert!(refusal(&file, &at("1")).contains("row 1, column `u`: a null"));
    std::fs::write(file.path(), b"FEA1 and more").unwrap();
    assert!(refusal(&file, &at("1")).contains("Feather file of version 1"));
    let none = written(Way::File, &[batch(vec![("u", numbers.slice(0, 0))])]);
    assert!(refusal(&none, &at("1")).contains("no rows"));
}

#[test]
fn a_file_or_stream_that_ends_anywhere_gives_no_wrong_sample() {
    let column: ArrayRef = Arc::new(Int32Array::from_iter(0..20));
    let batches = [batch(vec![("u", Arc::clone(&column))]), batch(vec![("u", column)])];
    for way in [Way::File, Way::Feather, Way::Stream] {
        let file = written(way, &batches);
        let whole = std::fs::read(file.path()).unwrap();
        let expected = drain(&mut open_file(file.path(), &at("1")).unwrap()).unwrap().0;
        for size in 1..whole.len() {
            std::fs::write(file.path(), &whole[..size]).unwrap();
            let Ok(mut source) = open_file(file.path(), &at("1")) else { continue };
            let mut read = Vec::new();
            while let Ok(Piece::Samples(bytes)) = source.next(NonZeroU64::MAX) {
                read.extend_from_slice(bytes);
            }
            assert!(expected.starts_with(&read), "{way:?} at {size}");
        }
    }
}

#[test]
fn a_damaged_file_or_stream_is_an_error_or_has_other_values_and_no_panic() {
    let column: ArrayRef = Arc::new(Int32Array::from_iter(0..20));
    for way in [Way::File, Way::Feather, Way::Stream] {
        let file = written(way, &[batch(vec![("u", Arc::clone(&column))])]);
        let whole = std::fs::read(file.path()).unwrap();
        for (place, bit) in (0..whole.len()).flat_map(|place| [(place, 0x80), (place, 0x01)]) {
            let mut damaged = whole.clone();
            damaged[place] ^= bit;
            std::fs::write(file.path(), &damaged).unwrap();
            let Ok(mut source) = open_file(file.path(), &at("1")) else { continue };
            let mut pieces = 0;
            while source.next(NonZeroU64::MAX).is_ok_and(|piece| !matches!(piece, Piece::End)) {
                pieces += 1;
                assert!(pieces < 100, "{way:?}, bit {bit} of byte {place}");
            }
        }
    }
}

#[test]
fn unsigned_times_are_not_negative() {
    let times: ArrayRef = Arc::new(UInt32Array::from(vec![0x8000_0000, 0x8000_0001, 0x8000_0002]));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let file = written(Way::File, &[batch(vec![("time_s", times), ("u", values)])]);
    let source = open_file(file.path(), &FileOptions::default()).unwrap();
    let Timing::Recorded { start } = source.description().timing else { panic!("times are recorded") };
    assert_eq!(start.unwrap().as_nanos(), 0x8000_0000 * 1_000_000_000);
}

#[test]
fn a_table_is_recognised_by_its_content() {
    let column: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for way in [Way::File, Way::Stream] {
        let file = written(way, &[batch(vec![("u", Arc::clone(&column))])]);
        let renamed = file.path().with_extension("table");
        std::fs::rename(file.path(), &renamed).unwrap();
        let opened = open_file(&renamed, &at("1")).map(|source| source.description().schema.dtype);
        std::fs::remove_file(&renamed).unwrap();
        assert_eq!(opened.unwrap(), Dtype::I32, "{way:?}");
    }
}
