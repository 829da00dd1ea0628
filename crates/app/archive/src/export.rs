//! Exports: one epoch of a stream in a range of time, as Parquet, CSV, NPY or WAV.
//!
//! CSV is for people and has values in their units; the others keep the elements unchanged, with scale and offset in
//! the metadata. No format bridges a hole. Start with [`Export`].

use core::ops::Range;
use std::io::{Seek, Write};

use serde_json::{Value, json};
use units::WallTime;

use crate::catalogue::{Archive, Recording};
use crate::columns::Columns;
use crate::error::ArchiveError;
use crate::feed::{Hole, Piece};
use crate::parquet_file::ParquetWriter;

mod csv;
mod npy;
mod wav;

pub use wav::WavError;

pub use csv::CsvTimes;

/// Size at which the rows gathered for Parquet are passed to its writer.
const BATCH_BYTES: usize = 4 << 20;

/// Key of the holes in an exported Parquet file.
const HOLES_KEY: &str = "tallycast.holes";

/// Result of an export.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Exported {
    /// Number of samples written.
    pub samples: u64,
    /// Holes between the samples, in order.
    pub holes: Vec<Hole>,
}

/// Epoch, range of time and range of indices to be exported.
pub struct Export<'a> {
    archive: &'a Archive,
    recording: &'a Recording,
    range: Range<WallTime>,
    indices: Range<u64>,
}

impl<'a> Export<'a> {
    /// Selects a recording and a range of time to export.
    #[must_use]
    pub fn new(archive: &'a Archive, recording: &'a Recording, range: Range<WallTime>) -> Self {
        Self { archive, recording, range, indices: 0..u64::MAX }
    }

    /// Restricts the export to a range of indices.
    #[must_use]
    pub fn within(mut self, indices: Range<u64>) -> Self {
        self.indices = indices;
        self
    }

    /// Writes Parquet: the columns of the archive itself, and the holes in the footer's metadata.
    ///
    /// # Errors
    /// The error of reading or writing.
    pub fn parquet(&self, target: impl Write + Send) -> Result<Exported, ArchiveError> {
        let mut columns = Columns::new(self.recording.description.clone());
        let mut writer = ParquetWriter::new(target, columns.arrow_schema())?;
        let mut exported = Exported::default();
        for piece in self.pieces() {
            match piece? {
                Piece::Block(block) => {
                    exported.samples += block.samples;
                    columns.append(&block, 0);
                }
                Piece::Hole(hole) => exported.holes.push(hole),
                Piece::Epoch(_) => {}
            }
            if columns.size_bytes() >= BATCH_BYTES
                && let Some((batch, _)) = columns.finish()?
            {
                writer.write(&batch)?;
            }
        }
        if let Some((batch, _)) = columns.finish()? {
            writer.write(&batch)?;
        }
        let holes: Value = exported.holes.iter().map(Hole::to_json).collect();
        writer.note(HOLES_KEY, holes.to_string());
        writer.finish()?;
        Ok(exported)
    }

    /// Writes CSV: a header with units, a line for each sample, a comment line for each hole.
    ///
    /// # Errors
    /// The error of reading or writing.
    pub fn csv(&self, target: impl Write, times: CsvTimes) -> Result<Exported, ArchiveError> {
        csv::write(self, target, times)
    }

    /// Writes NPY, a 2-D array `[samples, elements]` of the stream's dtype; returns with it the JSON object for a
    /// file next to it: sample index of each row, channels, and holes.
    ///
    /// # Errors
    /// The error of reading or writing.
    pub fn npy(&self, target: impl Write + Seek) -> Result<(Exported, Value), ArchiveError> {
        npy::write(self, target)
    }

    /// Writes WAV: the elements as samples of full scale, and the channels with their units in a comment.
    ///
    /// # Errors
    /// Every variant of [`WavError`]; samples that are missing between others are one.
    pub fn wav(&self, target: impl Write + Seek) -> Result<Exported, WavError> {
        wav::write(self, target)
    }

    fn pieces(&self) -> impl Iterator<Item = Result<Piece, ArchiveError>> {
        self.archive.epoch(self.recording, self.range.clone()).within(self.indices.clone())
    }
}

impl Hole {
    /// Returns the hole as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!(self.reasons());
        json["first_index"] = self.first_index.into();
        json["samples"] = self.samples.into();
        json["from_ns"] = json!(self.t0);
        json["to_ns"] = json!(self.t1);
        json["gaps"] = json!(self.gaps);
        json
    }
}
