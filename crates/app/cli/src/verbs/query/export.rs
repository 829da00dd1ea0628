//! Export of one epoch of a stream into a file of another format.
//!
//! A file gets its name only once it is complete: until then it has a temporary name in the same folder. An existing
//! file is not overwritten unless requested.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use archive::{Archive, CsvTimes, Export, Exported, Recording, StreamEntry, draft_of};
use serde_json::{Value, json};
use tallycast::WallTime;
use units::text::decimal_size;

use crate::messages::print_line;
use crate::status_line::StatusLine;

mod python_export;
mod sidecar;

const FORMATS: [&str; 4] = ["parquet", "csv", "npy", "wav"];
/// Formats that Python's own packages write.
const PYTHON_FORMATS: [&str; 4] = ["hdf5", "netcdf", "mat", "mcap"];

/// Source and destination of an export.
pub(super) struct Order<'a> {
    /// Folder of the archive.
    pub(super) root: &'a Path,
    pub(super) range: Range<WallTime>,
    pub(super) format: &'a str,
    pub(super) path: &'a Path,
    pub(super) times: CsvTimes,
    /// Files that are there may be replaced.
    pub(super) force: bool,
    pub(super) as_json: bool,
}

/// Keeps the epochs with data or gaps in the range. A single epoch is kept whatever the range is, because it has the
/// gaps there.
pub(super) fn keep_asked_for(entry: &mut StreamEntry, range: &Range<WallTime>) -> anyhow::Result<()> {
    if entry.epochs.len() == 1 {
        return Ok(());
    }
    entry.epochs.retain(|recording| {
        let span = recording.span();
        span.start < range.end && range.start < span.end
    });
    if entry.epochs.is_empty() {
        bail!(
            "nothing is recorded of {} in this range\nlist the recordings without --from and --to, or use --gaps",
            entry.name
        );
    }
    Ok(())
}

/// Exports the only epoch of `entry` and returns whether stored data could not be read; refuses to join several
/// epochs, between which time is missing.
pub(super) fn export(archive: &Archive, entry: &StreamEntry, order: &Order<'_>) -> anyhow::Result<bool> {
    let [recording] = entry.epochs.as_slice() else {
        let epochs: Vec<String> = entry.epochs.iter().map(|it| it.description.epoch.to_string()).collect();
        bail!(
            "run {} has several epochs of {} in this range\nchoose one by its time with --from and --to, or with --epoch: {}",
            entry.run,
            entry.name,
            epochs.join(", ")
        );
    };
    order.check()?;
    if PYTHON_FORMATS.contains(&order.format) {
        return python_export::export(entry, recording, order);
    }
    let export = Export::new(archive, recording, order.range.clone());
    let exported = order.write(&export, recording)?;
    let holes: Vec<Value> = exported.holes.iter().map(archive::Hole::to_json).collect();
    report(order, exported.samples, &holes)?;
    Ok(super::gaps::says_damage(&exported.holes))
}

impl Order<'_> {
    /// Refuses what would not become the files that were meant.
    fn check(&self) -> anyhow::Result<()> {
        let (format, path) = (self.format, self.path);
        let known = || FORMATS.into_iter().chain(PYTHON_FORMATS);
        if !known().any(|it| it == format) {
            let known: Vec<&str> = known().collect();
            bail!("unknown export format `{format}`\nuse one of {}", known.join(", "));
        }
        if format != "csv" && self.times != CsvTimes::default() {
            bail!("--times has no effect on {format}, whose times are exact numbers\nomit it");
        }
        if format == "npy" && path.extension().is_none_or(|extension| extension != "npy") {
            bail!(
                "{} does not end in .npy\nuse that extension: descriptions are written next to it, as .toml and .json",
                path.display()
            );
        }
        let there = self.files().into_iter().find(|file| file.is_file());
        if let Some(there) = there.filter(|_| !self.force) {
            bail!("{} already exists\nname another file, or replace it with --overwrite", there.display());
        }
        Ok(())
    }

    fn files(&self) -> Vec<PathBuf> {
        let beside: &[&str] = if self.format == "npy" { &["toml", "json"] } else { &[] };
        let beside = beside.iter().map(|extension| self.path.with_extension(extension));
        core::iter::once(self.path.to_owned()).chain(beside).collect()
    }

    fn write(&self, export: &Export<'_>, recording: &Recording) -> anyhow::Result<Exported> {
        let (draft, file) = Draft::create(self.path)?;
        let target = Watched::new(file, self.as_json);
        let mut beside = Vec::new();
        let exported = match self.format {
            "parquet" => export.parquet(target)?,
            "csv" => export.csv(BufWriter::new(target), self.times)?,
            "wav" => export.wav(target)?,
            _ => {
                let (exported, rows) = export.npy(BufWriter::new(target))?;
                beside.push(("toml", sidecar::toml(recording, &rows)?));
                beside.push(("json", format!("{rows:#}\n")));
                exported
            }
        };
        if exported.samples == 0 {
            let missing: u64 = exported.holes.iter().map(|hole| hole.samples).sum();
            bail!(
                "nothing is stored in this range; {missing} samples are missing in it\nlist the recordings without \
                 --from and --to, or use --gaps"
            );
        }
        for (extension, text) in beside {
            let (draft, mut file) = Draft::create(&self.path.with_extension(extension))?;
            file.write_all(text.as_bytes()).with_context(|| draft.complaint())?;
            draft.keep()?;
        }
        draft.keep()?;
        Ok(exported)
    }
}

/// A file that gets its name only once it is complete, and is removed otherwise.
struct Draft {
    target: PathBuf,
    /// `None` if the target is not a file, such as a pipe, and once the file has its name.
    draft: Option<PathBuf>,
}

impl Draft {
    fn create(target: &Path) -> anyhow::Result<(Self, File)> {
        let is_file = std::fs::metadata(target).map_or(true, |found| found.is_file());
        let draft = is_file.then(|| draft_of(target));
        let path = draft.as_deref().unwrap_or(target);
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok((Self { target: target.to_owned(), draft }, file))
    }

    fn keep(mut self) -> anyhow::Result<()> {
        let Some(draft) = &self.draft else { return Ok(()) };
        std::fs::rename(draft, &self.target).with_context(|| self.complaint())?;
        self.draft = None;
        Ok(())
    }

    fn complaint(&self) -> String {
        format!("cannot write {}", self.target.display())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // Best effort: what stays is called a draft.
            drop(std::fs::remove_file(draft));
        }
    }
}

/// A file that shows the size written so far.
struct Watched {
    file: File,
    written: u64,
    status: StatusLine,
}

impl Watched {
    fn new(file: File, quiet: bool) -> Self {
        Self { file, written: 0, status: StatusLine::new(quiet) }
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        self.status.show(|| format!("{} written", decimal_size(self.written)));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Watched {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

fn report(order: &Order<'_>, samples: u64, holes: &[Value]) -> anyhow::Result<()> {
    let path = order.path.display();
    if order.as_json {
        return Ok(print_line(&json!({"file": path.to_string(), "samples": samples, "holes": holes}))?);
    }
    let missing: u64 = holes.iter().filter_map(|hole| hole["samples"].as_u64()).sum();
    eprintln!("{path}: {samples} samples, {missing} missing in {} holes", holes.len());
    Ok(())
}
