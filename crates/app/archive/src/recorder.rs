//! Recorder: stores the samples of a reader and reports how far they are stored.
//!
//! A machine without a clock: the caller passes the time, and its only output is the [`Store`]. Samples are buffered
//! in memory until the next commit (every [`Options::commit_interval`], or when a stream has
//! [`Options::batch_bytes`]); a commit is two barriers for all streams together, data and gap maps first, index
//! entries after. Everything before a completed barrier is stored; what cannot be written becomes a gap of stage
//! `archive_write`. Nothing here waits for a network, and memory is bounded by the options.
//!
//! Start with [`Recorder::open`] and [`Recorder::handle`]; call [`Recorder::tick`] at [`Recorder::deadline`].

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sample::{Block, StreamName};
use tallycast::{Event, StreamAccount, StreamInfo, account_json};
use units::{Epoch, Instant};

use crate::catalogue::{self, Mark};
use crate::disk_level::{DiskAlarm, DiskLevel};
use crate::error::ArchiveError;
use crate::folders::{ClosedSegment, LOCK, RunName, run_folder};
use crate::gaps::Mended;
use crate::recovery::{Resumable, recover_run};
use crate::store::{Appendable, Lock, Store, StoreError};

pub(crate) mod accounts;
pub(crate) mod gap_file;
mod outage;
mod statement_file;
mod stream;

use stream::{Failure, StreamRecorder};

/// Time between attempts to write to a full disk.
const SPACE_RETRY: Duration = Duration::from_secs(1);
/// Interval at which the level of the disk is read.
const LEVEL_INTERVAL: Duration = Duration::from_secs(1);
/// Share of a small disk that is enough to record on, as a divisor: 64 MiB may be more than it ever has free.
const ENOUGH_OF_SMALL_DISK: u64 = 20;
/// Maximum number of notices kept for a driver that does not fetch them; the oldest are dropped.
const MAX_NOTICES: usize = 1_024;

/// Maximum number of ended epochs kept open for late updates of their gaps; the oldest are dropped.
const MAX_ENDED: usize = 256;
/// Maximum number of streams that begin while the disk refuses writes and wait for it: a publisher that restarts
/// every second begins one each time.
const MAX_WAITING: usize = 1_024;

/// Options of a recorder. The defaults suit one disk and streams from 1 Hz to some hundred MB/s.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the reader whose events are recorded. Default `recorder`.
    pub reader: String,
    /// Maximum time that samples wait for their commit, and so the most that a power cut costs. Default 250 ms.
    pub commit_interval: Duration,
    /// Size at which a stream's samples are written as a batch before their commit. Default 1 MiB.
    pub batch_bytes: usize,
    /// Number of written bytes that triggers a commit before its time. Default 64 MiB.
    pub unsynced_bytes: u64,
    /// Size at which a segment is closed. Default 256 MiB.
    pub segment_bytes: u64,
    /// Age at which a segment of any size is closed. Default ten minutes.
    pub segment_age: Duration,
    /// Interval at which a changed account is written next to the samples. Default 5 s.
    pub account_interval: Duration,
    /// Free space that a full disk must have before recording continues; on a small disk a twentieth of it is enough.
    /// Default 64 MiB.
    pub resume_space_bytes: u64,
    /// Time for which a disk that was full must take everything before this is reported: space that another program
    /// frees and fills again each second is none. Default 10 s.
    pub space_holds: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reader: "recorder".to_owned(),
            commit_interval: Duration::from_millis(250),
            batch_bytes: 1 << 20,
            unsynced_bytes: 64 << 20,
            segment_bytes: 256 << 20,
            segment_age: Duration::from_secs(600),
            account_interval: Duration::from_secs(5),
            resume_space_bytes: 64 << 20,
            space_holds: Duration::from_secs(10),
        }
    }
}

/// Notice of a recorder; reported once, not for every sample concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A recovery cut bytes that a dead recorder had written and never acknowledged.
    Recovered {
        /// The stream.
        stream: Arc<StreamName>,
        /// Number of bytes.
        cut_bytes: u64,
    },
    /// A recovery found a damaged file, set it aside, and rebuilt it where it could.
    Mended {
        /// The stream.
        stream: Arc<StreamName>,
        /// File, the name under which it is kept, and its fault.
        mended: Mended,
    },
    /// A file is damaged, or was changed or removed while it was recorded. It is left unchanged, because it may be
    /// restored from a copy.
    Damaged {
        /// File and its fault.
        cause: String,
    },
    /// A recovery found something that it cannot identify, and left it unchanged.
    LeftAlone {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause why it was left.
        cause: String,
    },
    /// Recording of an earlier recorder's stream continues; the samples sent in between are a gap.
    Resumed {
        /// The stream.
        stream: Arc<StreamName>,
        /// Index one behind the earlier recorder's last sample.
        stored_index: u64,
    },
    /// The disk is full: from now on samples are counted as `archive_write` until there is space.
    DiskFull {
        /// Error text of the disk.
        cause: String,
    },
    /// The disk has had space for a while, and everything was stored on it.
    DiskBack,
    /// Most of the disk is in use; everything is still stored.
    DiskFilling(DiskLevel),
    /// Less of the disk is in use again.
    DiskEased(DiskLevel),
    /// The archive is no longer where it was opened: from now on samples are counted as `archive_write` until it is
    /// back.
    Gone {
        /// Missing file or folder.
        cause: String,
    },
    /// The archive is in its place again, and something was stored in it.
    Back,
    /// Samples of a stream could not be written and are counted as `archive_write`.
    WriteFailed {
        /// The stream.
        stream: Arc<StreamName>,
        /// Error text of the disk.
        cause: String,
    },
    /// Writing a stream works again.
    WriteResumed {
        /// The stream.
        stream: Arc<StreamName>,
    },
}

/// Progress of a stream's recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Name of the stream.
    pub stream: Arc<StreamName>,
    /// Epoch of the publisher.
    pub epoch: Epoch,
    /// Index one behind the last accepted sample.
    pub accepted_index: u64,
    /// Index one behind the last stored sample: everything before it is on the disk or a recorded gap.
    pub stored_index: u64,
    /// Elements accepted by this recorder.
    pub accepted: u64,
    /// Elements stored by this recorder.
    pub stored: u64,
    /// Elements that could not be written: stage `archive_write`.
    pub archive_write: u64,
}

/// Sums over all streams of a recorder, also those that it no longer keeps.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Size of the accepted elements, without what the archive adds or compresses.
    pub accepted_bytes: u64,
    /// Elements that could not be written: stage `archive_write`.
    pub archive_write: u64,
}

impl Totals {
    fn add(&mut self, stream: &StreamRecorder) {
        let Progress { accepted, archive_write, .. } = stream.progress();
        self.accepted_bytes += accepted * stream.element_bytes();
        self.archive_write += archive_write;
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct StreamKey {
    name: Arc<StreamName>,
    epoch: Epoch,
}

enum Disk {
    Writing,
    Refusing { why: Refusal, retry: Instant },
}

/// Reason why nothing can be written for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    Full,
    Gone,
}

/// Recorder of streams into one run of an archive.
pub struct Recorder {
    store: Arc<dyn Store>,
    run: RunName,
    options: Options,
    streams: BTreeMap<StreamKey, StreamRecorder>,
    /// Origin epochs of relayed streams, by the epochs under which relays publish them: samples are stored under the
    /// former, so that a relay that starts again goes on in one folder.
    origins: BTreeMap<StreamKey, Epoch>,
    /// Sums of the ended streams that were dropped.
    forgotten: Totals,
    resumable: BTreeMap<(StreamName, Epoch), Resumable>,
    disk: Disk,
    /// Refusal that was reported, until something is stored again.
    refused: Option<Refusal>,
    /// Time since which everything is stored again; `None` while the disk refuses.
    taken_since: Option<Instant>,
    alarm: DiskAlarm,
    next_level: Instant,
    next_commit: Instant,
    notices: VecDeque<Notice>,
    closed: Vec<ClosedSegment>,
    lock: Lock,
}

impl Recorder {
    /// Opens a run for recording; first recovers what an earlier recorder left in it.
    ///
    /// # Errors
    /// [`crate::StoreError::Busy`] if another recorder writes this run; [`ArchiveError::Version`] and others if the
    /// content is foreign or of a later version; the error of the disk.
    pub fn open(
        store: Arc<dyn Store>,
        run: RunName,
        options: Options,
        now: Instant,
    ) -> Result<Self, ArchiveError> {
        let mark = catalogue::mark_of(&*store)?;
        let folder = run_folder(&run);
        store.make_folder(&folder)?;
        let lock = store.lock(&folder.join(LOCK))?;
        let mut notices = VecDeque::new();
        match mark {
            Mark::Whole => {}
            Mark::Absent => catalogue::mark_root(&*store, &folder)?,
            Mark::Damaged(cause) => {
                catalogue::mark_root(&*store, &folder)?;
                notices.push_back(Notice::Damaged { cause: format!("{cause}; it is written again") });
            }
        }
        let mut resumable = BTreeMap::new();
        let mut closed = Vec::new();
        let found = recover_run(&*store, &run)?;
        let left_alone = |(path, cause)| Notice::LeftAlone { path, cause };
        notices.extend(found.left_alone.into_iter().map(left_alone));
        for mut recovered in found.epochs {
            let stream = Arc::clone(&recovered.description.name);
            let mended = |mended| Notice::Mended { stream: Arc::clone(&stream), mended };
            notices.extend(core::mem::take(&mut recovered.mended).into_iter().map(mended));
            let left = core::mem::take(&mut recovered.left);
            notices.extend(left.into_iter().map(|cause| Notice::Damaged { cause }));
            closed.append(&mut recovered.closed);
            if recovered.cut_bytes > 0 {
                notices.push_back(Notice::Recovered {
                    stream: Arc::clone(&stream),
                    cut_bytes: recovered.cut_bytes,
                });
            }
            resumable.insert(((*stream).clone(), recovered.description.epoch), recovered);
        }
        let next_commit = now + options.commit_interval;
        let streams = BTreeMap::new();
        let disk = Disk::Writing;
        let refused = None;
        let (taken_since, alarm, next_level) = (None, DiskAlarm::default(), now);
        Ok(Self {
            store,
            run,
            options,
            streams,
            origins: BTreeMap::new(),
            forgotten: Totals::default(),
            resumable,
            disk,
            refused,
            taken_since,
            alarm,
            next_level,
            next_commit,
            notices,
            closed,
            lock,
        })
    }

    /// Takes one event of the reader.
    ///
    /// Cost: for a block one copy of its samples; every [`Options::batch_bytes`] a write.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] for a stream that never began; at `Began` [`ArchiveError::SchemaChanged`], the error
    /// that makes an earlier recording of it unreadable, and [`ArchiveError::Waiting`]. A disk that fails, also at
    /// `Began`, is no error here: it becomes gaps and notices, and the stream is recorded once the disk accepts it.
    pub fn handle(&mut self, now: Instant, event: &Event) -> Result<(), ArchiveError> {
        match event {
            Event::Began(info) => self.begin(now, info)?,
            Event::Block(block) => self.take(now, block)?,
            Event::Gap(gap) | Event::Settled(gap) => self.stream(&gap.stream, gap.epoch)?.note_gap(gap),
            Event::Statement(it) => self.stream(&it.stream, it.epoch)?.note_statement(&it.bytes),
            Event::Ended(account) => {
                let epoch = account.epoch;
                self.stream(&account.stream, epoch)?.note_account(epoch, account_json(account), true);
                // The end is a good moment to store everything: nothing follows it.
                self.next_commit = now;
            }
        }
        self.tick(now);
        Ok(())
    }

    /// Takes the reader's current accounts, to be written next to the samples.
    pub fn note_accounts(&mut self, now: Instant, accounts: &[StreamAccount]) {
        for account in accounts {
            // A reader has an account before it has read that the stream began, and keeps it longer than we keep
            // ended streams: then there is no recording to write it to.
            if let Ok(stream) = self.stream(&account.stream, account.epoch) {
                stream.note_account(account.epoch, account_json(account), false);
            }
        }
        self.tick(now);
    }

    /// Takes a statement that the publisher signed about a stream, to be stored beside its samples as it is: who
    /// reads it judges it.
    ///
    /// Cost: a copy of the bytes; of statements that cannot be written the newest 4,096 are kept. More than 1,024 beyond
    /// one for each interval recorded are not stored, and this is told once: it is a flood.
    ///
    /// # Errors
    /// [`ArchiveError::Unknown`] for a stream that never began.
    pub fn note_statement(
        &mut self,
        now: Instant,
        (stream, epoch): (&Arc<StreamName>, Epoch),
        statement: &[u8],
    ) -> Result<(), ArchiveError> {
        self.stream(stream, epoch)?.note_statement(statement);
        self.tick(now);
        Ok(())
    }

    /// Returns the latest time at which [`Self::tick`] must be called.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match self.disk {
            Disk::Writing => self.next_commit,
            Disk::Refusing { retry, .. } => retry,
        }
    }

    /// Does what is due at `now`: a commit, another check of a full disk, and a look at the level of any.
    pub fn tick(&mut self, now: Instant) {
        self.read_level(now);
        if let Disk::Refusing { why, retry } = self.disk {
            if now < retry {
                return;
            }
            let is_over = match why {
                Refusal::Full => self.has_space_again(),
                Refusal::Gone => self.check_place().is_ok(),
            };
            if !is_over {
                self.disk = Disk::Refusing { why, retry: now + SPACE_RETRY };
                return;
            }
            // Reported once something is stored again: the next write may fail although space is reported.
            self.disk = Disk::Writing;
            self.next_commit = now;
        }
        if now >= self.next_commit {
            self.commit(now);
        }
    }

    /// Reports once when most of the disk is in use, and when less is again.
    fn read_level(&mut self, now: Instant) {
        if now < self.next_level {
            return;
        }
        self.next_level = now + LEVEL_INTERVAL;
        let Ok(level) = DiskLevel::of(&*self.store) else { return };
        match self.alarm.take(&level) {
            Some(true) => self.notice(Notice::DiskFilling(level)),
            Some(false) => self.notice(Notice::DiskEased(level)),
            None => {}
        }
    }

    /// Checks that the archive is where it was opened, and that its lock keeps other recorders out.
    fn check_place(&mut self) -> Result<(), StoreError> {
        self.store.check_place()?;
        if self.lock.check_place().is_err() {
            // Removing the lock file does not change the samples; another recorder in its place would.
            self.lock = match self.store.lock(&run_folder(&self.run).join(LOCK)) {
                Ok(lock) => lock,
                // The folder of the run is not created again where it was removed.
                Err(StoreError::NotFound(path)) => return Err(StoreError::Gone(path)),
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Returns whether the archive is still in its place; if not, the buffered samples are given up.
    fn is_in_place(&mut self, now: Instant) -> bool {
        let Err(error) = self.check_place() else { return true };
        let failure = Failure::from(error);
        self.streams.values_mut().for_each(|stream| stream.give_up_pending(&failure));
        if self.refused.replace(Refusal::Gone) != Some(Refusal::Gone) {
            self.notice(Notice::Gone { cause: failure.cause });
        }
        self.disk = Disk::Refusing { why: Refusal::Gone, retry: now + SPACE_RETRY };
        self.taken_since = None;
        false
    }

    fn has_space_again(&self) -> bool {
        let capacity = self.store.capacity_bytes().unwrap_or(u64::MAX);
        let enough = self.options.resume_space_bytes.min(capacity / ENOUGH_OF_SMALL_DISK);
        self.store.space_bytes().is_ok_and(|space| space >= enough)
    }

    /// Returns the progress of each stream; the oldest of many that have ended are left out.
    pub fn progress(&self) -> impl Iterator<Item = Progress> + '_ {
        self.streams.values().map(StreamRecorder::progress)
    }

    /// Returns the sums over all streams since it was opened.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.forgotten;
        self.streams.values().for_each(|stream| totals.add(stream));
        totals
    }

    /// Returns the next notice.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Returns the segments closed since the last call, to be compacted; at first those that an earlier recorder
    /// left.
    pub fn take_closed(&mut self) -> Vec<ClosedSegment> {
        core::mem::take(&mut self.closed)
    }

    /// Stores what is left, closes all segments and writes the last accounts.
    ///
    /// # Errors
    /// The first error of the disk; the next recorder or reader of this run then finds and reports a cut recording.
    pub fn close(mut self, now: Instant) -> Result<Vec<ClosedSegment>, ArchiveError> {
        self.disk = Disk::Writing;
        self.commit(now);
        self.check_place()?;
        let mut failed = None;
        for stream in self.streams.values_mut() {
            match stream.close(&*self.store) {
                Ok(closed) => self.closed.extend(closed),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(self.closed), Err)
    }

    /// Begins a session of a stream. What the disk refuses for now waits, as samples do.
    fn begin(&mut self, now: Instant, info: &StreamInfo) -> Result<(), ArchiveError> {
        let key = StreamKey { name: Arc::clone(&info.name), epoch: identity_of(info) };
        let hop_key = StreamKey { epoch: info.epoch, ..key.clone() };
        if self.streams.get(&key).is_some_and(|stream| !stream.has_schema(info)) {
            return Err(ArchiveError::SchemaChanged(key.name.to_string()));
        }
        if hop_key != key {
            self.origins.insert(hop_key, key.epoch);
        }
        if self.streams.contains_key(&key) && matches!(self.disk, Disk::Writing) {
            // A reader that left and joined again within one recording: the span between is its absence. Its samples
            // are stored first, so that nothing is pending in the account that is set aside.
            self.commit(now);
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.rejoin(info.epoch, info.first_index);
            return self.settle(now, &key);
        }
        let found = self.resumable.remove(&((*key.name).clone(), key.epoch));
        let stream = StreamRecorder::new(&self.run, &self.options.reader, info, found.as_ref(), now)?;
        if let Some(Resumable { stored_index, .. }) = found {
            self.notice(Notice::Resumed { stream: Arc::clone(&key.name), stored_index });
        }
        self.streams.insert(key.clone(), stream);
        let settled = self.settle(now, &key);
        let waiting = self.streams.values().filter(|stream| stream.is_waiting()).count();
        let begun = if waiting > MAX_WAITING { Err(ArchiveError::Waiting(MAX_WAITING)) } else { settled };
        if begun.is_err() {
            self.streams.remove(&key);
        }
        begun
    }

    /// Writes the start of a session, if the disk accepts it. Other errors are returned, because waiting does not
    /// help.
    fn settle(&mut self, now: Instant, key: &StreamKey) -> Result<(), ArchiveError> {
        if !matches!(self.disk, Disk::Writing) || !self.is_in_place(now) {
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        match stream.settle(&*self.store) {
            Err(ArchiveError::Store(error)) => {
                self.fail(now, vec![(key.clone(), Failure::from(error))]);
                Ok(())
            }
            settled => settled,
        }
    }

    fn take(&mut self, now: Instant, block: &Block) -> Result<(), ArchiveError> {
        let writing = matches!(self.disk, Disk::Writing);
        let batch_bytes = self.options.batch_bytes;
        let stream = self.stream(&block.stream, block.epoch)?;
        if !writing || stream.is_waiting() {
            stream.refuse(block);
            return Ok(());
        }
        stream.accept(block);
        if stream.pending_bytes() >= batch_bytes {
            let key = self.key_of(&block.stream, block.epoch);
            let store = Arc::clone(&self.store);
            let written = self.streams.get_mut(&key).map_or(Ok(()), |stream| stream.write(&*store, now));
            written.unwrap_or_else(|failure| self.fail(now, vec![(key, failure)]));
            let unsynced: u64 = self.streams.values().map(StreamRecorder::staged_bytes).sum();
            if unsynced >= self.options.unsynced_bytes {
                self.next_commit = now;
            }
        }
        Ok(())
    }

    /// Returns the key under which a stream is stored that is published in an epoch.
    fn key_of(&self, name: &Arc<StreamName>, epoch: Epoch) -> StreamKey {
        let key = StreamKey { name: Arc::clone(name), epoch };
        match self.origins.get(&key) {
            Some(origin) => StreamKey { epoch: *origin, ..key },
            None => key,
        }
    }

    fn stream(&mut self, name: &Arc<StreamName>, epoch: Epoch) -> Result<&mut StreamRecorder, ArchiveError> {
        let key = self.key_of(name, epoch);
        self.streams
            .get_mut(&key)
            .ok_or_else(|| ArchiveError::Unknown(format!("stream {name} in epoch {epoch}")))
    }

    /// Makes everything accepted so far durable: two barriers for all streams.
    fn commit(&mut self, now: Instant) {
        self.next_commit = now + self.options.commit_interval;
        if !self.is_in_place(now) {
            return;
        }
        let before = self.stored();
        let store = Arc::clone(&self.store);
        self.for_each(now, |stream| Ok(stream.settle(&*store)?));
        self.for_each(now, |stream| stream.write(&*store, now));
        self.for_each(now, StreamRecorder::write_gaps);
        self.for_each(now, |stream| {
            stream.write_statements(&*store);
            Ok(())
        });
        // Barrier one: samples and gap maps.
        self.barrier(now, StreamRecorder::unsynced_data);
        self.for_each(now, |stream| stream.acknowledge(&*store));
        // Barrier two: the index entries that acknowledge them.
        self.barrier(now, StreamRecorder::unsynced_index);
        // Stored data must be at the expected path: a folder may have been removed while it was written.
        if !self.is_in_place(now) {
            return;
        }
        self.for_each(now, |stream| stream.check_place());
        for stream in self.streams.values_mut() {
            self.notices.extend(stream.take_faults().into_iter().map(|cause| Notice::Damaged { cause }));
            if stream.committed() {
                self.notices.push_back(Notice::WriteResumed { stream: stream.name() });
            }
        }
        self.note_taken(now, self.stored() > before);
        self.roll(now);
        let (account_interval, writing) = (self.options.account_interval, matches!(self.disk, Disk::Writing));
        if writing {
            self.for_each(now, |stream| stream.write_account(&*store, now, account_interval));
        }
        self.forget_ended();
    }

    /// Records that a commit succeeded or failed; reports once that an outage is over.
    fn note_taken(&mut self, now: Instant, stores: bool) {
        if matches!(self.disk, Disk::Refusing { .. }) {
            self.taken_since = None;
            return;
        }
        let Some(refused) = self.refused else { return };
        if stores {
            self.taken_since.get_or_insert(now);
        }
        let holds = if refused == Refusal::Full { self.options.space_holds } else { Duration::ZERO };
        if self.taken_since.is_some_and(|since| now.since(since) >= holds) {
            (self.refused, self.taken_since) = (None, None);
            self.notice(if refused == Refusal::Full { Notice::DiskBack } else { Notice::Back });
        }
    }

    fn stored(&self) -> u64 {
        self.streams.values().map(StreamRecorder::stored).sum()
    }

    fn forget_ended(&mut self) {
        let ended = self.streams.iter().filter(|(_, stream)| stream.is_finished());
        let mut ended: Vec<StreamKey> = ended.map(|(key, _)| key.clone()).collect();
        ended.sort_by_key(|key| key.epoch);
        for key in ended.iter().rev().skip(MAX_ENDED) {
            if let Some(stream) = self.streams.remove(key) {
                self.forgotten.add(&stream);
                self.origins.retain(|hop, origin| hop.name != key.name || *origin != key.epoch);
            }
        }
    }

    fn roll(&mut self, now: Instant) {
        let (bytes, age) = (self.options.segment_bytes, self.options.segment_age);
        let mut failures = Vec::new();
        for (key, stream) in &mut self.streams {
            match stream.roll(now, bytes, age) {
                Ok(closed) => self.closed.extend(closed),
                Err(failure) => failures.push((key.clone(), failure)),
            }
        }
        self.fail(now, failures);
    }

    fn for_each(&mut self, now: Instant, mut action: impl FnMut(&mut StreamRecorder) -> Result<(), Failure>) {
        let failed = |(key, stream): (&StreamKey, &mut StreamRecorder)| {
            action(stream).err().map(|failure| (key.clone(), failure))
        };
        let failures = self.streams.iter_mut().filter_map(failed).collect();
        self.fail(now, failures);
    }

    /// Syncs the files of each stream. If that fails, none of them counts as durable.
    fn barrier(
        &mut self,
        now: Instant,
        files_of: for<'a> fn(&'a mut StreamRecorder, &mut Vec<&'a mut dyn Appendable>),
    ) {
        let mut files = Vec::new();
        let mut keys = Vec::new();
        for (key, stream) in &mut self.streams {
            let before = files.len();
            files_of(stream, &mut files);
            keys.extend((files.len() > before).then(|| key.clone()));
        }
        if files.is_empty() {
            return;
        }
        let Err(error) = self.store.sync_all(&mut files) else { return };
        drop(files);
        let failure = Failure::from(error);
        let failures = keys.into_iter().map(|key| (key, failure.clone())).collect();
        self.fail(now, failures);
    }

    fn fail(&mut self, now: Instant, failures: Vec<(StreamKey, Failure)>) {
        for (key, failure) in failures {
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            let first = stream.give_up(&failure);
            if failure.full {
                if self.refused.replace(Refusal::Full) != Some(Refusal::Full) {
                    self.notice(Notice::DiskFull { cause: failure.cause });
                }
                self.disk = Disk::Refusing { why: Refusal::Full, retry: now + SPACE_RETRY };
                self.taken_since = None;
            } else if first {
                self.notice(Notice::WriteFailed { stream: key.name, cause: failure.cause });
            }
        }
        if matches!(self.disk, Disk::Refusing { .. }) {
            // Samples of the other streams cannot be written either, and memory is bounded.
            let full = Failure { cause: String::new(), full: true };
            self.streams.values_mut().for_each(|stream| stream.give_up_pending(&full));
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

/// Returns the epoch that identifies the samples of a stream, wherever they are read.
fn identity_of(info: &StreamInfo) -> Epoch {
    info.origin.map_or(info.epoch, |origin| origin.epoch)
}
