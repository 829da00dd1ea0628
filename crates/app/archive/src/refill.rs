//! Refills: samples that were missing in an archive and were fetched later from the archive of another station.
//!
//! A refill is a segment under another name, with a note that makes it valid: the note is written once the samples are
//! durable, so that a refill counts as a whole or not at all. It never changes a file of a recorder, whose gap map keeps
//! what was missing; where a segment has a sample, the segment counts. [`crate::Refiller`] writes them.

use core::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use units::{RangeSet, WallTime};

use crate::Description;
use crate::contents::{Segment, Unread};
use crate::error::ArchiveError;
use crate::folders::{REFILLS, refill_note, refill_of};
use crate::salvage::{Look, Tail};
use crate::stamped;
use crate::store::{Store, StoreError, read_whole};
use crate::version::VERSION;

const FORMAT: &str = "tallycast-refill";

/// Note of a refill: which samples came, when, and from whose archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refilled {
    /// Number of the refill within the epoch, from 1.
    pub number: u32,
    /// Time at which they were stored.
    pub at: WallTime,
    /// Station whose archive they are from.
    pub station: String,
    /// Samples that this archive had, from its first to its last.
    pub reaches: Range<u64>,
    /// Samples that came, by index.
    pub samples: RangeSet,
    /// Positions that were asked for and are missing in that archive, too.
    pub lacking: RangeSet,
}

/// Refill of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct Refill {
    pub(crate) note: Refilled,
    /// Its samples; `None` if it has none, or they can no longer be read.
    pub(crate) segment: Option<Segment>,
}

impl Refilled {
    /// Returns the note as JSON, as it is in its file.
    #[must_use]
    pub fn to_json(&self, description: &Description) -> Value {
        let ranges = |set: &RangeSet| {
            set.iter().map(|range| json!([range.start, range.end - range.start])).collect::<Vec<_>>()
        };
        json!({
            "format": FORMAT,
            "version": VERSION,
            "stream": description.name.as_str(),
            "epoch": description.epoch.to_string(),
            "refill": self.number,
            "at_ns": self.at,
            "station": self.station,
            "reaches": [self.reaches.start, self.reaches.end],
            "samples": ranges(&self.samples),
            "lacking": ranges(&self.lacking),
        })
    }

    fn of(value: &Value, description: &Description) -> Option<Self> {
        let ranges = |value: &Value| {
            let range = |pair: &Value| {
                let (start, count) = (pair[0].as_u64()?, pair[1].as_u64()?);
                Some(start..start.checked_add(count)?)
            };
            value.as_array()?.iter().map(range).collect::<Option<RangeSet>>()
        };
        let is_ours = value["format"] == FORMAT
            && value["stream"] == description.name.as_str()
            && value["epoch"] == description.epoch.to_string();
        let samples = ranges(&value["samples"])?;
        let reaches = value["reaches"][0].as_u64()?..value["reaches"][1].as_u64()?;
        // Positions are counted in 64 bits, too.
        let end = samples.iter().last().map_or(0, |range| range.end).max(reaches.end);
        end.checked_mul(u64::from(description.schema.elements_per_sample()))?;
        is_ours.then_some(Self {
            number: u32::try_from(value["refill"].as_u64()?).ok().filter(|number| *number < REFILLS)?,
            at: WallTime::from_nanos(value["at_ns"].as_i64()?),
            station: value["station"].as_str()?.to_owned(),
            reaches,
            samples,
            lacking: ranges(&value["lacking"])?,
        })
    }
}

/// Reads the note of a refill.
///
/// # Errors
/// [`ArchiveError::Later`]; [`ArchiveError::Segment`] if it is damaged or foreign; the error of the disk.
pub(crate) fn read_note(
    store: &dyn Store,
    path: &Path,
    description: &Description,
) -> Result<Refilled, ArchiveError> {
    let bytes = read_whole(store, path)?;
    let damaged = || ArchiveError::segment(path, "the note of the refill is damaged or foreign");
    let value = stamped::read(&bytes).map_err(|_| damaged())?;
    ArchiveError::reject_later(path, value["version"].as_u64())?;
    let note = Refilled::of(&value, description).ok_or_else(damaged)?;
    let named = path.file_name().and_then(|name| name.to_str()).and_then(refill_of);
    if named.is_some_and(|(number, _)| number != note.number + REFILLS) {
        return Err(damaged());
    }
    Ok(note)
}

/// Reads the refills of an epoch's folder, and the faults of their files.
pub(crate) fn read(look: &Look<'_>) -> Result<(Vec<Refill>, Vec<String>), ArchiveError> {
    let (mut refills, mut faults) = (Vec::new(), Vec::new());
    let names = look.store.list(look.folder)?;
    let notes = names.iter().filter_map(|name| refill_of(name).filter(|(_, file)| file.is_none()));
    let look = Look { told_index: 0, told_segment: None, tail: Tail::Leave, ..*look };
    for (number, _) in notes {
        let path = look.folder.join(refill_note(number));
        let note = match read_note(look.store, &path, look.description) {
            Ok(note) => note,
            // It was removed by a process that replaces it.
            Err(ArchiveError::Store(StoreError::NotFound(_))) => continue,
            Err(error) if error.is_damage() => {
                faults.push(error.first_line());
                continue;
            }
            Err(error) => return Err(error),
        };
        if note.samples.is_empty() {
            refills.push(Refill { note, segment: None });
            continue;
        }
        let segment = match Segment::read(&look, number, true) {
            Ok(Some((segment, found))) => {
                faults.extend(found);
                Some(segment)
            }
            Ok(None) => {
                faults.push(format!("{}: its samples are missing", path.display()));
                None
            }
            Err(Unread::Damaged(damaged)) => {
                faults.push(damaged.cause);
                None
            }
            Err(Unread::Failed(error)) => return Err(error),
        };
        refills.push(Refill { note, segment });
    }
    Ok((refills, faults))
}
