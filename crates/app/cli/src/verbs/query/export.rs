//! Writing one epoch of a stream into a file of somebody else's format.

use std::fs::File;
use std::io::BufWriter;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail};
use archive::{Archive, Export, Exported, StreamEntry};
use serde_json::json;
use tallycast::WallTime;

use crate::messages::print_line;

/// Exports the only epoch of `entry`; refuses to join several, between which time is missing.
pub(super) fn export(
    archive: &Archive,
    entry: &StreamEntry,
    range: Range<WallTime>,
    format: &str,
    path: &Path,
    as_json: bool,
) -> anyhow::Result<()> {
    let [recording] = entry.epochs.as_slice() else {
        let epochs: Vec<String> = entry.epochs.iter().map(|it| it.description.epoch.to_string()).collect();
        bail!(
            "run {} has several epochs of {}\nchoose one with --epoch: {}",
            entry.run,
            entry.name,
            epochs.join(", ")
        );
    };
    if !["parquet", "csv", "npy"].contains(&format) {
        bail!("`{format}` is not a format to export\nwrite parquet, csv or npy");
    }
    let export = Export::new(archive, recording, range);
    let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let exported = match format {
        "parquet" => export.parquet(file)?,
        "csv" => export.csv(BufWriter::new(file))?,
        _ => {
            let (exported, beside) = export.npy(BufWriter::new(file))?;
            let beside_path = path.with_extension("json");
            std::fs::write(&beside_path, format!("{beside:#}\n"))
                .with_context(|| format!("{} cannot be written", beside_path.display()))?;
            exported
        }
    };
    report(path, &exported, as_json)
}

fn report(path: &Path, exported: &Exported, as_json: bool) -> anyhow::Result<()> {
    let missing: u64 = exported.holes.iter().map(|hole| hole.samples).sum();
    if as_json {
        let holes: Vec<_> = exported.holes.iter().map(archive::Hole::to_json).collect();
        let path = path.display().to_string();
        return Ok(print_line(&json!({"file": path, "samples": exported.samples, "holes": holes}))?);
    }
    let holes = exported.holes.len();
    eprintln!("{}: {} samples, {missing} missing in {holes} holes", path.display(), exported.samples);
    Ok(())
}
