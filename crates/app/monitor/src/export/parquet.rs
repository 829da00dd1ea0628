//! A table as Parquet: units in the fields' metadata, the rest in the file's, under `tallycast.` and with the holes as
//! JSON.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use super::table::{Cells, Table};

/// Returns the file.
pub(super) fn write(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = table
        .columns
        .iter()
        .map(|column| {
            let (kind, array) = array(&column.cells);
            let unit = [("unit".to_owned(), column.unit.clone())];
            let is_times = matches!(column.cells, Cells::Times(_));
            let field = Field::new(&column.name, kind, !is_times).with_metadata(HashMap::from(unit));
            (field, array)
        })
        .unzip();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    let holes: Value = table.gaps.iter().map(|gap| gap.to_json()).collect();
    let own = [("epochs", table.epochs_json().to_string()), ("holes", holes.to_string())];
    let facts = table.facts.iter().cloned().chain(own);
    let facts = facts.map(|(name, value)| KeyValue::new(format!("tallycast.{name}"), value)).collect();
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(facts))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.into_inner()
}

fn array(cells: &Cells) -> (DataType, ArrayRef) {
    match cells {
        Cells::Times(times) => {
            let nanos: Int64Array = times.iter().map(|time| Some(time.as_nanos())).collect();
            (DataType::Int64, Arc::new(nanos))
        }
        Cells::Counts(counts) => {
            (DataType::UInt64, Arc::new(counts.iter().copied().collect::<UInt64Array>()))
        }
        Cells::Values(values) => {
            (DataType::Float64, Arc::new(values.iter().copied().collect::<Float64Array>()))
        }
    }
}
