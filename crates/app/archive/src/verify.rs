//! Whether an archive is what it says: account, index, data and gap map compared, every stored byte read.
//!
//! Only looked at, never changed, and also while it is recorded. A contradiction is whatever two files tell differently, or
//! one file of itself; what is merely not ours, or was set aside by a recovery, is a remark. Start with
//! [`Archive::verify`].

use std::path::{Path, PathBuf};

use ledger::GapKind;
use sample::StreamName;
use serde_json::Value;
use units::RangeSet;

use crate::catalogue::{Archive, Recording, RecordingState};
use crate::error::ArchiveError;
use crate::feed::{Piece, Wanted};
use crate::folders::{
    ACCOUNT, DESCRIPTION, GAPS, LOCK, RunName, earlier_account_of, run_folder, run_of, segment_of,
};
use crate::recovery::epoch_folders;
use crate::store::{ASIDE, Store};

/// The most contradictions and remarks that are kept; of more only the count is.
const MAX_TOLD: usize = 10_000;

/// What is verified.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// One run only.
    pub run: Option<RunName>,
    /// One stream only.
    pub stream: Option<StreamName>,
}

/// Something that was found, and where.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// The folder or file, in the archive.
    pub path: PathBuf,
    /// What is wrong, or remarkable.
    pub what: String,
}

/// What came of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Runs looked at.
    pub runs: u64,
    /// Epochs of streams looked at.
    pub epochs: u64,
    /// Segments that could be read.
    pub segments: u64,
    /// Samples read and compared.
    pub samples: u64,
    /// Samples missing, for whatever reason.
    pub missing_samples: u64,
    /// What contradicts something.
    pub contradictions: Vec<Finding>,
    /// What does not, and may be worth a look: files that are not ours, or were set aside.
    pub remarks: Vec<Finding>,
    /// How many of either there are beyond those kept.
    pub untold: u64,
}

/// How far a verification is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verifying {
    /// Epochs looked at.
    pub epochs: u64,
    /// Samples read.
    pub samples: u64,
}

impl Verification {
    /// Tells whether nothing contradicts anything.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.contradictions.is_empty()
    }

    fn contradict(&mut self, path: &Path, what: impl Into<String>) {
        let finding = Finding { path: path.to_owned(), what: what.into() };
        let is_full = self.contradictions.len() >= MAX_TOLD;
        if is_full {
            self.untold += 1;
        } else if !self.contradictions.contains(&finding) {
            self.contradictions.push(finding);
        }
    }

    fn remark(&mut self, path: &Path, what: &str) {
        if self.remarks.len() >= MAX_TOLD {
            self.untold += 1;
            return;
        }
        self.remarks.push(Finding { path: path.to_owned(), what: what.to_owned() });
    }
}

impl Archive {
    /// Reads everything in a scope and compares what the files tell of each other; `progress` hears of it now and then.
    ///
    /// Cost: reads every stored byte once; memory for the places of the holes of one epoch.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] if the scope has no such run or stream; what the disk says of a whole folder.
    pub fn verify(
        &self,
        scope: &Scope,
        progress: &mut dyn FnMut(Verifying),
    ) -> Result<Verification, ArchiveError> {
        let mut found = Verification::default();
        let store = self.store();
        look_for_strangers(store, Path::new(""), &mut found, is_known_in_root)?;
        let mut seen = false;
        for run in self.runs()? {
            if scope.run.as_ref().is_some_and(|only| *only != run) {
                continue;
            }
            found.runs += 1;
            self.verify_run(&run, scope, &mut found, &mut seen, progress)?;
        }
        if let (Some(run), 0) = (&scope.run, found.runs) {
            return Err(ArchiveError::Unknown(format!("run {run}")));
        }
        match &scope.stream {
            // One that cannot even be named may be what is asked for.
            Some(name) if !seen && found.is_whole() => Err(ArchiveError::Unknown(format!("stream {name}"))),
            _ => Ok(found),
        }
    }

    fn verify_run(
        &self,
        run: &RunName,
        scope: &Scope,
        found: &mut Verification,
        seen: &mut bool,
        progress: &mut dyn FnMut(Verifying),
    ) -> Result<(), ArchiveError> {
        let (entries, unreadable) = self.survey(run)?;
        for epoch in unreadable {
            found.contradict(&epoch.folder, epoch.cause.in_one_line());
        }
        let folder = run_folder(run);
        look_for_strangers(self.store(), &folder, found, |name| name == LOCK || name.starts_with("stream="))?;
        for folder in epoch_folders(self.store(), &folder)?.0 {
            look_for_strangers(self.store(), &folder, found, is_known_in_epoch)?;
        }
        for entry in
            entries.iter().filter(|entry| scope.stream.as_ref().is_none_or(|only| *only == *entry.name))
        {
            *seen = true;
            for recording in &entry.epochs {
                found.epochs += 1;
                self.verify_epoch(recording, found, progress);
            }
        }
        Ok(())
    }

    fn verify_epoch(
        &self,
        recording: &Recording,
        found: &mut Verification,
        progress: &mut dyn FnMut(Verifying),
    ) {
        let folder = recording.contents.folder.clone();
        for damaged in &recording.damaged {
            found.contradict(&folder, damaged.clone());
        }
        found.segments += recording.segments().count() as u64;
        let per_sample = u64::from(recording.description.schema.elements_per_sample());
        let (mut present, mut damaged) = (RangeSet::new(), RangeSet::new());
        for piece in self.epoch(recording, Wanted::ALL.times) {
            match piece {
                Ok(Piece::Epoch(_)) => {}
                Ok(Piece::Block(block)) => {
                    let base = block.first_index * per_sample;
                    present.insert(base..base + block.samples * per_sample);
                    for missing in block.missing.iter() {
                        present.remove(base + missing.start..base + missing.end);
                    }
                    found.samples += block.samples;
                    progress(Verifying { epochs: found.epochs, samples: found.samples });
                }
                Ok(Piece::Hole(hole)) => {
                    found.missing_samples += hole.samples;
                    for gap in hole.gaps.iter().filter(|gap| gap.is_damage()) {
                        damaged.insert(gap.positions.clone());
                        let evidence =
                            gap.evidence.first().map_or("", |line| line.lines().next().unwrap_or(line));
                        // A file that cannot be read is told already.
                        if !recording.damaged.iter().any(|told| told == evidence) {
                            found.contradict(&folder, evidence);
                        }
                    }
                }
                Err(error) => found.contradict(&folder, error.in_one_line()),
            }
        }
        compare_gaps(recording, &folder, (&present, &damaged), found);
        compare_accounts(recording, &folder, present.len(), found);
    }
}

/// Compares the gap map with the data: what is told to be missing is, and what is missing is told.
fn compare_gaps(
    recording: &Recording,
    folder: &Path,
    (present, damaged): (&RangeSet, &RangeSet),
    found: &mut Verification,
) {
    let per_sample = u64::from(recording.description.schema.elements_per_sample());
    let path = folder.join(GAPS);
    let mut untold: RangeSet =
        core::iter::once(recording.first_index * per_sample..recording.stored_index * per_sample)
            .filter(|range| !range.is_empty())
            .collect();
    // What is damaged is told as that.
    for range in present.iter().chain(damaged.iter()) {
        untold.remove(range);
    }
    for gap in recording.gaps.iter() {
        untold.remove(gap.positions.clone());
        let there = present.count_in(gap.positions.clone());
        // Of an apportioned gap only the counts are exact: other things may lie in its span.
        if there > 0 && !gap.apportioned && !gap.is_damage() {
            let first = gap.positions.start / per_sample;
            let kind = if gap.kind == GapKind::Missing { "missing" } else { "not recorded" };
            let said = format!("{there} elements from sample {first} on are listed as {kind} but are stored");
            found.contradict(&path, said);
        }
    }
    // What a recorder at work has not told yet it may tell in a moment.
    if recording.attended {
        return;
    }
    for range in untold.iter() {
        let (first, count) = (range.start / per_sample, range.end - range.start);
        found.contradict(
            &path,
            format!("{count} elements from sample {first} on are missing, and no gap tells why"),
        );
    }
}

/// Compares the accounts with the data: the law of the archive's hop, and what was stored.
fn compare_accounts(recording: &Recording, folder: &Path, elements: u64, found: &mut Verification) {
    let path = folder.join(ACCOUNT);
    let accounts: Vec<&Value> =
        recording.earlier_accounts.iter().chain([&recording.account]).filter(|it| !it.is_null()).collect();
    let mut stored = 0;
    for account in &accounts {
        let of = |name: &str| account["elements"][name].as_u64();
        let (Some(accepted), Some(kept), Some(pending)) = (of("accepted"), of("stored"), of("pending"))
        else {
            continue;
        };
        let lost = account["elements"]["lost"]["archive_write"].as_u64().unwrap_or(0);
        stored += kept;
        if accepted != kept + lost + pending {
            let session = &account["session"];
            let said = format!(
                "session {session}: {accepted} accepted elements do not equal {kept} stored, {lost} lost and {pending} pending"
            );
            found.contradict(&path, said);
        }
    }
    // A recorder that died had stored more than it had come to write down; one at work has, too.
    let is_exact = !accounts.is_empty()
        && recording.state != RecordingState::Open
        && accounts.iter().all(|account| account["files"].is_object() && account["recovered"] != true);
    if elements < stored || is_exact && elements != stored {
        found.contradict(
            &path,
            format!("{stored} elements were stored according to the accounts, {elements} are present"),
        );
    }
    let told = recording.account["stored_index"].as_u64();
    let reached = recording.segments().map(|segment| segment.next_index).max();
    if let (Some(told), Some(reached)) = (told, reached)
        && recording.state != RecordingState::Open
        && told < reached
    {
        found.contradict(&path, format!("the account reaches sample {told}, the segments reach {reached}"));
    }
}

fn is_known_in_root(name: &str) -> bool {
    name == crate::catalogue::ROOT_MARK || run_of(name).is_some()
}

fn is_known_in_epoch(name: &str) -> bool {
    [DESCRIPTION, GAPS, ACCOUNT].contains(&name)
        || earlier_account_of(name).is_some()
        || segment_of(name).is_some()
}

/// Remarks what is in a folder and not ours.
fn look_for_strangers(
    store: &dyn Store,
    folder: &Path,
    found: &mut Verification,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), ArchiveError> {
    for name in store.list(folder)?.iter().filter(|name| !is_known(name)) {
        let what = match () {
            () if name.contains(ASIDE) => "was set aside by a recovery, and is kept",
            () if name.ends_with(".draft") => "is incomplete, and is not read",
            () => "is unknown to this version, and is ignored",
        };
        found.remark(&folder.join(name), what);
    }
    Ok(())
}
