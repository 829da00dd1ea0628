//! Verification of an archive: account, index, data and gap map are compared, and every stored byte is read.
//!
//! Reads only, never writes, also while it is recorded. A contradiction is between two files or within one; a foreign
//! file, or one that a recovery set aside, is a remark. Start with [`Archive::verify`].

use std::path::{Path, PathBuf};

use ledger::GapKind;
use sample::StreamName;
use serde_json::Value;
use units::RangeSet;

use crate::catalogue::{Archive, Recording, RecordingState};
use crate::error::ArchiveError;
use crate::feed::Piece;
use crate::folders::{
    ACCOUNT, DESCRIPTION, GAPS, LOCK, REFILL_LOCK, RunName, STATEMENTS, earlier_account_of, epoch_folders,
    refill_of, run_folder, run_of, segment_of,
};
use crate::statements::Statements;
use crate::store::{ASIDE, Store};
use crate::wanted::Wanted;

/// Maximum number of contradictions and remarks that are kept; the others are only counted.
const MAX_TOLD: usize = 10_000;

/// Part of an archive to be verified.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// One run only.
    pub run: Option<RunName>,
    /// One stream only.
    pub stream: Option<StreamName>,
}

/// Finding of a verification, with its path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// Path of the folder or file, relative to the archive.
    pub path: PathBuf,
    /// Contradiction or remark.
    pub what: String,
}

/// Result of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Number of runs checked.
    pub runs: u64,
    /// Number of epochs checked.
    pub epochs: u64,
    /// Number of readable segments.
    pub segments: u64,
    /// Number of samples read and compared.
    pub samples: u64,
    /// Number of missing samples, for any reason.
    pub missing_samples: u64,
    /// Number of missing elements, those of incomplete samples included.
    pub missing_elements: u64,
    /// Number of elements that were fetched later from another station's archive.
    pub refilled_elements: u64,
    /// Number of epochs that have not ended, or whose recorder left before their end.
    pub unended_epochs: u64,
    /// Contradictions between files.
    pub contradictions: Vec<Finding>,
    /// Files that contradict nothing and may be worth a check: foreign ones, or ones set aside.
    pub remarks: Vec<Finding>,
    /// Number of findings beyond those kept.
    pub untold: u64,
}

/// Progress of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verifying {
    /// Number of epochs checked.
    pub epochs: u64,
    /// Number of samples read.
    pub samples: u64,
}

impl Verification {
    /// Returns whether there are no contradictions.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.contradictions.is_empty()
    }

    /// Returns whether everything is there from the first sample of every epoch to its end, and without contradictions.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_whole() && self.missing_elements == 0 && self.unended_epochs == 0
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
    /// Reads everything in a scope and compares its files with each other; `progress` is called now and then.
    ///
    /// Cost: reads every stored byte once; memory for the positions of the holes of one epoch.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] if the scope has no such run or stream; the error of the disk for a whole folder.
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
            // An epoch whose stream cannot be named may be the requested one.
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
        self.verify_statements(recording, &folder, found);
        found.segments += recording.segments().count() as u64;
        let per_sample = u64::from(recording.description.schema.elements_per_sample());
        let (mut present, mut damaged) = (RangeSet::new(), RangeSet::new());
        let mut feed = self.epoch(recording, Wanted::ALL.times);
        for piece in feed.by_ref() {
            match piece {
                Ok(Piece::Epoch(_)) => {}
                Ok(Piece::Block(block)) => {
                    let base = block.first_index * per_sample;
                    present.insert(base..base + block.samples * per_sample);
                    for missing in block.missing.iter() {
                        present.remove(base + missing.start..base + missing.end);
                        found.missing_elements += missing.end - missing.start;
                    }
                    found.samples += block.samples;
                    progress(Verifying { epochs: found.epochs, samples: found.samples });
                }
                Ok(Piece::Hole(hole)) => {
                    found.missing_samples += hole.samples;
                    found.missing_elements += hole.samples * per_sample;
                    for gap in hole.gaps.iter().filter(|gap| gap.is_damage()) {
                        damaged.insert(gap.positions.clone());
                        let evidence =
                            gap.evidence.first().map_or("", |line| line.lines().next().unwrap_or(line));
                        // An unreadable file is reported already.
                        if !recording.damaged.iter().any(|told| told == evidence) {
                            found.contradict(&folder, evidence);
                        }
                    }
                }
                Err(error) => found.contradict(&folder, error.in_one_line()),
            }
        }
        let refilled = feed.refilled();
        found.refilled_elements += refilled.len();
        found.unended_epochs += u64::from(recording.state != RecordingState::Closed);
        let mut recorded = present.clone();
        recorded.remove_all(refilled.iter());
        compare_gaps(recording, &folder, (&present, &recorded, &damaged), found);
        compare_accounts(recording, &folder, recorded.len(), found);
    }
}

impl Archive {
    /// Checks that the statements are whole and about this epoch; who signed them is a question of `query --verify`.
    fn verify_statements(&self, recording: &Recording, folder: &Path, found: &mut Verification) {
        let path = folder.join(STATEMENTS);
        let statements = match Statements::read(self.store(), folder, &recording.description) {
            Ok(statements) => statements,
            Err(error) => return found.contradict(&path, error.in_one_line()),
        };
        statements.faults.iter().for_each(|fault| found.contradict(&path, fault.clone()));
        for (number, bytes) in statements.lines.iter().enumerate() {
            let decoded = proof::Statement::decode(bytes);
            let cause = match decoded {
                Ok(statement) if statement.epoch == recording.description.epoch => continue,
                Ok(_) => proof::StatementError::Subject,
                Err(cause) => cause,
            };
            let cause = cause.to_string().replace('\n', "; ");
            found.contradict(&path, format!("statement {}: {cause}", number + 1));
        }
    }
}

/// Compares the gap map with the data: both must agree on the missing samples.
fn compare_gaps(
    recording: &Recording,
    folder: &Path,
    (present, recorded, damaged): (&RangeSet, &RangeSet, &RangeSet),
    found: &mut Verification,
) {
    let per_sample = u64::from(recording.description.schema.elements_per_sample());
    let path = folder.join(GAPS);
    let mut untold: RangeSet =
        core::iter::once(recording.first_index * per_sample..recording.stored_index * per_sample)
            .filter(|range| !range.is_empty())
            .collect();
    // Damage is reported separately.
    for range in present.iter().chain(damaged.iter()) {
        untold.remove(range);
    }
    for gap in recording.gaps.iter() {
        untold.remove(gap.positions.clone());
        // What came later does not contradict that it was missing.
        let there = recorded.count_in(gap.positions.clone());
        // Of an apportioned gap only the counts are exact: other elements may be in its span.
        if there > 0 && !gap.apportioned && !gap.is_damage() {
            let first = gap.positions.start / per_sample;
            let kind = if gap.kind == GapKind::Missing { "missing" } else { "not recorded" };
            let said = format!("{there} elements from sample {first} on are listed as {kind} but are stored");
            found.contradict(&path, said);
        }
    }
    // A recorder at work may be about to record it.
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

/// Compares the accounts with the data: the law of the archive's hop, and the stored samples.
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
    // A recorder that died had stored more than its last account has; so has one at work.
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
    [crate::catalogue::ROOT_MARK, REFILL_LOCK].contains(&name) || run_of(name).is_some()
}

fn is_known_in_epoch(name: &str) -> bool {
    [DESCRIPTION, GAPS, ACCOUNT, STATEMENTS].contains(&name)
        || earlier_account_of(name).is_some()
        || segment_of(name).is_some()
        || refill_of(name).is_some()
}

/// Adds a remark for every foreign file in a folder.
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
