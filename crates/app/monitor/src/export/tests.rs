//! Files of a span: every sample or thinned columns, with holes where they are.

use std::ops::Range;

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use arrow_array::{Array, Float64Array, Int64Array};
use ledger::{Stage, StageCounts};
use units::{Epoch, Random};

use super::samples::Live;
use super::table::EpochStart;
use super::*;
use crate::memory::{Budget, StreamMemory};
use crate::scene;

fn request(range: Range<WallTime>) -> ExportRequest {
    let (from, to) = (range.start, range.end);
    let channels = vec!["x".to_owned()];
    ExportRequest { stream: "lab/x".to_owned(), channels, from, to, values: Values::Samples }
}

fn time(nanos: i64) -> WallTime {
    WallTime::from_nanos(nanos)
}

/// Returns a table of two channels with a hole between its rows, a missing value and NaN.
fn table() -> Table {
    let info = scene::info("lab/x", 10);
    let hole = scene::gap(&info, 0, 2..5, StageCounts::of(Stage::Network, 3));
    let epoch = Epoch { start_ns: 5, incarnation: 0xab };
    Table {
        facts: facts(&request(time(0)..time(9)), "every sample"),
        columns: vec![
            Column::new("index", "", Cells::Counts(vec![Some(1), Some(5)])),
            Column::new(
                "time_ns",
                "ns",
                Cells::Times(vec![scene::time_of(&info, 1), scene::time_of(&info, 5)]),
            ),
            Column::new("a, b", "V", Cells::Values(vec![Some(0.1), None])),
            Column::new("c", "", Cells::Values(vec![Some(f64::NAN), Some(-3.0)])),
        ],
        gaps: vec![Arc::new(KnownGap::from(&hole))],
        epochs: vec![EpochStart { row: 0, epoch: None }, EpochStart { row: 1, epoch: Some(epoch) }],
    }
}

#[test]
fn csv_tells_what_it_is_and_each_hole_where_it_is() {
    let text = String::from_utf8(csv::write(&table())).unwrap();
    assert_eq!(
        text,
        "# stream: lab/x\n\
         # values: every sample\n\
         # time_scale: UTC, nanoseconds since 1970-01-01T00:00:00Z without leap seconds\n\
         # from_ns: 0\n\
         # to_ns: 9\n\
         # holes: 1\n\
         index,time_ns,\"a, b [V]\",c\n\
         # epoch: not known\n\
         1,100100000000,0.1,NaN\n\
         # hole: 3 samples from index 2, 100200000000 to 100500000000 ns, network 3 elements\n\
         # epoch: 5-00000000000000ab\n\
         5,100500000000,,-3\n"
    );
}

#[test]
fn a_text_of_somebody_else_cannot_begin_a_line_of_its_own() {
    let mut table = table();
    table.facts.push(("station", "a\n1,2,3".to_owned()));
    let text = String::from_utf8(csv::write(&table)).unwrap();
    assert!(text.contains("# station: a 1,2,3\n"), "{text}");
}

#[test]
fn parquet_has_the_same_values_holes_and_units() {
    let bytes = parquet::write(&table()).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
    let told = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    let fact = |key: &str| {
        let entry = told.iter().find(|entry| entry.key == format!("tallycast.{key}"));
        entry.and_then(|entry| entry.value.clone()).unwrap()
    };
    assert_eq!(fact("stream"), "lab/x");
    let holes: serde_json::Value = serde_json::from_str(&fact("holes")).unwrap();
    assert_eq!((&holes[0]["first_index"], &holes[0]["lost"]["network"]), (&2.into(), &3.into()));
    assert!(fact("epochs").contains("5-00000000000000ab"));
    assert_eq!(reader.schema().field(2).metadata()["unit"], "V");
    let batch = reader.build().unwrap().next().unwrap().unwrap();
    let times = batch.column(1).as_any().downcast_ref::<Int64Array>().unwrap();
    assert_eq!(times.values(), &[100_100_000_000, 100_500_000_000]);
    let [a, c] = [2, 3].map(|at| batch.column(at).as_any().downcast_ref::<Float64Array>().unwrap().clone());
    // A missing value and one that is not a number differ.
    assert_eq!((a.value(0), a.is_null(1), c.is_null(0), c.value(0).is_nan()), (0.1, true, false, true));
}

/// Returns a memory of this number of samples at 100 Hz, which keeps 16,384 of them one by one.
fn memory(samples: u64) -> StreamMemory {
    let info = Arc::new(scene::info("lab/x", 100));
    let now = scene::moment(time(200 * scene::SECOND));
    let mut memory = StreamMemory::new(Arc::clone(&info), Budget::default(), now);
    let mut index = 0;
    while index < samples {
        let values: Vec<f64> = (index..(index + 1_000).min(samples)).map(|index| index as f64).collect();
        memory.block(&scene::block(&info, index, &values), now);
        index += values.len() as u64;
    }
    memory
}

#[test]
fn a_time_of_which_only_extremes_are_left_is_refused_up_to_its_last_sample() {
    const KEPT: u64 = 16_384;
    const SAMPLES: u64 = 20_000;
    let info = scene::info("lab/x", 100);
    let first_kept = SAMPLES - KEPT;
    let refused = |first: u64, stored: Option<u64>| {
        let request = request(scene::time_of(&info, first)..scene::time_of(&info, SAMPLES));
        let live = Live::of(&mut memory(SAMPLES), &request).unwrap();
        live.check(&request, stored.map(|index| (scene::time_of(&info, index), Some(info.epoch))), &[])
            .is_err()
    };
    assert!(!refused(first_kept, None));
    assert!(refused(first_kept - 1, None));
    assert!(!refused(0, Some(first_kept - 1)));
    assert!(refused(0, Some(first_kept - 2)));
}

#[test]
fn a_hole_between_store_and_live_memory_is_no_reason_to_refuse() {
    const SAMPLES: u64 = 20_000;
    let info = scene::info("lab/x", 100);
    let mut random = Random::new(7);
    for _ in 0..20 {
        let stored = random.below(3_000);
        let request = request(scene::time_of(&info, 0)..scene::time_of(&info, SAMPLES));
        let live = Live::of(&mut memory(SAMPLES), &request).unwrap();
        let hole = |end: u64| {
            let gap =
                scene::gap(&info, 0, stored + 1..end, StageCounts::of(Stage::Network, end - stored - 1));
            let gaps = [Arc::new(KnownGap::from(&gap))];
            live.check(&request, Some((scene::time_of(&info, stored), Some(info.epoch))), &gaps).is_ok()
        };
        assert!(hole(SAMPLES - 16_384), "{stored}");
        assert!(!hole(SAMPLES - 16_384 - 1), "{stored}");
    }
}
