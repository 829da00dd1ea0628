//! The rings of a host, through which processes of one bus find each other's streams in shared
//! memory.
//!
//! A stream has at most two rings on a host: its publisher's, and that of an agent that receives it
//! from the network for all processes. The file name carries bus, stream and writer; the label
//! carries the description. `readers` keeps track of readers. Only rings of root, of the own user
//! and of the group that the bus names are trusted, because any process may take a name. On a secured
//! bus the names carry its laboratory too: there, and on a clear bus, the rings of the other are not seen.

pub(crate) mod pulse;
mod readers;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keys::PublicKey;
use ring::shared::{self, Access, CreateError, Found, Liveness, OpenError, Options, Trusted};
use ring::{Doorbell, Writer};
use sample::{StreamName, StreamPattern};
use units::{StreamId, WallTime};
use wire::Description;

use crate::Subscription;
pub use pulse::BEAT_INTERVAL;
pub use readers::{LeftRing, ReaderPresence, RingRead, RingReader, Waiting};

/// Prefix of all file names.
const PREFIX: &str = "tallycast.";
/// Size of a ring's ledger page, which holds the accounts behind a stream: a few hundred gaps.
const PAGE_BYTES: usize = 1 << 16;

/// Maximum number of rings remembered as not trusted; beyond it a ring may be counted twice.
const MAX_REMEMBERED: usize = 1_024;

/// The rings of one bus on this host.
#[derive(Clone, Debug)]
pub struct HostRings {
    directory: PathBuf,
    bus: String,
    access: Access,
    trusted: Trusted,
    distrusted: Arc<Mutex<DistrustedRings>>,
    /// Rings found to contain invalid records, with their file numbers. Clones share it.
    shunned: Arc<Mutex<BTreeMap<RingName, Option<u64>>>>,
}

/// Rings that were needed and are not trusted, with their file numbers.
#[derive(Debug, Default)]
struct DistrustedRings {
    known: BTreeSet<(RingName, Option<u64>)>,
    count: u64,
}

/// Reason why this process does not read an existing ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Withheld {
    /// This user may not read it.
    Unreadable,
    /// Its writer is not trusted.
    Distrusted,
}

/// Writer of a ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RingWriter {
    /// The stream's publisher, on this host.
    Publisher,
    /// The host's agent, which receives the stream from the network.
    Agent,
}

/// A ring with a living writer, as its file describes it; it can be read once it is opened.
pub struct HostRing {
    /// Description of the stream.
    pub description: Arc<Description>,
    /// Writer of the ring.
    pub writer: RingWriter,
    /// Process id of the writer in the writer's own namespace.
    pub pid: u32,
    /// Time at which the ring was created.
    pub since: WallTime,
    stream: StreamId,
    found: Found,
}

/// A stream that can be read on this host.
#[derive(Clone)]
pub struct HostStream {
    /// The stream as local readers find it.
    pub subscription: Subscription,
    /// Writer of the ring.
    pub writer: RingWriter,
    /// Doorbell that the ring's writer rings.
    pub doorbell: Arc<Doorbell>,
    /// Liveness of the writer.
    pub liveness: Arc<Liveness>,
}

/// Presence of an agent that receives for this host, as other processes see it; removed when
/// dropped.
pub struct AgentPresence {
    /// A ring without records: only one process can hold it, and it ends with that process in any
    /// case.
    _writer: Writer,
}

/// Reason why a ring of this host cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostRingError {
    /// The file cannot be opened as a ring.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its writer is not trusted; `name` is the stream that it claims to be.
    #[error("{error}")]
    Distrusted {
        /// Stream name that the ring claims; it may be anything.
        name: StreamName,
        /// Reason for the distrust.
        error: OpenError,
    },
    /// Its writer was killed.
    #[error("the writer of the ring {0} has died")]
    Dead(PathBuf),
    /// It contains records that no writer of this version writes.
    #[error("stopped reading the ring {0}: it contains records that no writer of this version writes")]
    Shunned(PathBuf),
    /// Its label is not a description of a stream.
    #[error("the ring {0} does not name its stream")]
    Label(PathBuf),
}

impl HostRingError {
    /// Returns whether another attempt may succeed, because the system lacked a resource for a
    /// moment.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Open(OpenError::System { .. }))
    }
}

/// Identity of a ring by its file name alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RingName {
    /// Stream of the ring.
    pub stream: StreamId,
    /// Writer of the ring.
    pub writer: RingWriter,
}

impl Withheld {
    /// Returns a clause that names these rings, to follow "its ring" and "that".
    #[must_use]
    pub const fn which(self) -> &'static str {
        match self {
            Self::Unreadable => "may not be read by this user",
            Self::Distrusted => "may be read but is not trusted (another user owns it or may write it)",
        }
    }

    /// Returns the remedy.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Unreadable => {
                "set access=group&group=NAME on the buses of both sides, or access=all on that of a writer without keys"
            }
            Self::Distrusted => {
                "set group=NAME on the buses of both sides; both users must be members of that group"
            }
        }
    }
}

impl RingWriter {
    /// Returns the part of a ring's file name that names the writer.
    const fn word(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Agent => "agent",
        }
    }
}

impl HostRings {
    /// Describes the rings of the bus called `bus` in `directory`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, bus: &str, access: Access) -> Self {
        // A file name must be valid whatever the name of the bus is.
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
        };
        let bus = bus.chars().map(plain).collect();
        let (trusted, distrusted, shunned) = (Trusted::default(), Arc::default(), Arc::default());
        Self { directory: directory.into(), bus, access, trusted, distrusted, shunned }
    }

    /// Trusts rings of a group too, and gives that group to rings created here.
    #[must_use]
    pub fn of_group(mut self, group: Option<u32>) -> Self {
        self.trusted = Trusted { group };
        self
    }

    /// Keeps apart the rings of a secured bus, by its laboratory's authority: a ring is as clear or secured as its
    /// bus, and a reader with keys takes nothing from a process without them.
    #[must_use]
    pub fn of_laboratory(mut self, authority: Option<PublicKey>) -> Self {
        self.bus = of_laboratory(self.bus, authority);
        self
    }

    /// Returns the directory of the rings.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates a stream's ring.
    ///
    /// # Errors
    /// [`CreateError`]: above all when a publisher of the stream already runs on this host.
    pub fn create(
        &self,
        stream: StreamId,
        writer: RingWriter,
        description: &Description,
        capacity_bytes: usize,
    ) -> Result<Writer, CreateError> {
        let mut options = self.options(capacity_bytes, PAGE_BYTES);
        // A description that does not fit into datagrams was refused before.
        options.label = description.encode().unwrap_or_default();
        shared::create(&self.path(&RingName { stream, writer }), &options)
    }

    /// Returns the options for every file of this bus.
    fn options(&self, capacity_bytes: usize, page_bytes: usize) -> Options {
        let mut options = Options::default();
        (options.capacity_bytes, options.page_bytes) = (capacity_bytes, page_bytes);
        (options.access, options.group) = (self.access, self.trusted.group);
        options
    }

    /// Returns the names of all rings here, of any writer, alive or not.
    #[must_use]
    pub fn names(&self) -> Vec<RingName> {
        let mut names: Vec<RingName> = self.files().iter().filter_map(|file| self.name(file)).collect();
        names.sort();
        names
    }

    /// Returns the names of all files in the directory.
    fn files(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return Vec::new() };
        let name = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        entries.filter_map(name).collect()
    }

    /// Returns the number that distinguishes a ring's file from its predecessor of the same name,
    /// if the file exists.
    #[must_use]
    pub fn file_number(&self, name: &RingName) -> Option<u64> {
        std::fs::symlink_metadata(self.path(name)).ok().map(|metadata| metadata.ino())
    }

    /// Inspects a ring.
    ///
    /// Cost: a few system calls; the ring's memory is not touched.
    ///
    /// # Errors
    /// [`HostRingError`] if this process cannot read it.
    pub fn look(&self, name: &RingName) -> Result<HostRing, HostRingError> {
        let path = self.path(name);
        if self.is_shunned(name) {
            return Err(HostRingError::Shunned(path));
        }
        let found = shared::look(&path)?;
        if !found.liveness().writer_is_alive() {
            return Err(HostRingError::Dead(path));
        }
        HostRing::of(found, name.writer, self.trusted, &path)?.named(name, path)
    }

    /// Inspects a ring whose writer was killed, and whose records are therefore complete.
    ///
    /// # Errors
    /// [`HostRingError`] if this process cannot read it.
    pub fn look_at_remains(&self, name: &RingName) -> Result<HostRing, HostRingError> {
        let path = self.path(name);
        if self.is_shunned(name) {
            return Err(HostRingError::Shunned(path));
        }
        HostRing::of(shared::look(&path)?, name.writer, self.trusted, &path)?.named(name, path)
    }

    /// Opens a ring.
    ///
    /// # Errors
    /// [`HostRingError`] if this process cannot read it.
    pub fn open(&self, name: &RingName) -> Result<HostStream, HostRingError> {
        self.look(name)?.open()
    }

    /// Ignores a ring whose contents cannot be read, until another ring has its name.
    pub fn shun(&self, name: RingName, liveness: &Liveness) {
        let file = self.file_number(&name);
        if !liveness.is_replaced() {
            self.shunned().insert(name, file);
        }
    }

    fn is_shunned(&self, name: &RingName) -> bool {
        self.shunned().get(name).is_some_and(|file| *file == self.file_number(name))
    }

    fn shunned(&self) -> MutexGuard<'_, BTreeMap<RingName, Option<u64>>> {
        self.shunned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this process can read a ring of the stream by one of these writers.
    #[must_use]
    pub fn serves(&self, stream: StreamId, writers: &[RingWriter]) -> bool {
        writers.iter().any(|writer| self.look(&RingName { stream, writer: *writer }).is_ok())
    }

    /// Returns why this user does not read a ring of the stream by one of these writers, if there
    /// is such a ring.
    #[must_use]
    pub fn withholds_any(&self, stream: StreamId, writers: &[RingWriter]) -> Option<Withheld> {
        writers.iter().find_map(|writer| self.withholds(&RingName { stream, writer: *writer }))
    }

    /// Returns why this user does not read an existing ring; nothing more can be found out about
    /// it.
    #[must_use]
    pub fn withholds(&self, name: &RingName) -> Option<Withheld> {
        match shared::look(&self.path(name)) {
            Err(OpenError::Forbidden(_)) => Some(Withheld::Unreadable),
            Ok(found) if found.liveness().writer_is_alive() => {
                found.distrusted(self.trusted).map(|_| Withheld::Distrusted)
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Counts a ring that was needed and is not trusted, and warns if it is the first of this
    /// process on this bus.
    pub fn note_distrusted(&self, name: &RingName, error: &HostRingError) {
        let key = (name.clone(), self.file_number(name));
        let mut distrusted = self.distrusted.lock().unwrap_or_else(PoisonError::into_inner);
        if distrusted.known.len() >= MAX_REMEMBERED {
            distrusted.known.clear();
        }
        if distrusted.known.insert(key) {
            distrusted.count += 1;
            if distrusted.count == 1 {
                tracing::warn!("{error}\nfurther ones are counted, not logged");
            }
        }
    }

    /// Returns the number of rings that were needed and are not trusted.
    #[must_use]
    pub fn distrusted(&self) -> u64 {
        self.distrusted.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Shows every process of this host that an agent receives streams that match these patterns.
    ///
    /// # Errors
    /// [`CreateError`]: above all [`CreateError::InUse`] while another agent does so.
    pub fn show_agent(&self, patterns: &[StreamPattern]) -> Result<AgentPresence, CreateError> {
        let mut options = self.options(0, 0);
        let lines: Vec<&str> = patterns.iter().map(StreamPattern::as_str).collect();
        options.label = lines.join("\n").into_bytes();
        Ok(AgentPresence { _writer: shared::create(&self.agent_path(), &options)? })
    }

    /// Returns whether an agent receives streams of that name for this host.
    ///
    /// Cost: a few system calls.
    #[must_use]
    pub fn agent_receives(&self, name: &StreamName) -> bool {
        let presence = shared::look(&self.agent_path()).and_then(|presence| presence.trust(self.trusted));
        let Ok(presence) = presence else { return false };
        let receives = |line: &str| line.parse::<StreamPattern>().is_ok_and(|pattern| pattern.matches(name));
        presence.liveness().writer_is_alive()
            && std::str::from_utf8(presence.label()).is_ok_and(|text| text.lines().any(receives))
    }

    /// Removes the rings that killed writers left here, on any bus; returns how many.
    pub fn sweep(&self) -> usize {
        let removed = shared::sweep(&self.directory, PREFIX).unwrap_or(0);
        self.sweep_left();
        removed
    }

    fn prefix(&self) -> String {
        format!("{PREFIX}{}.", self.bus)
    }

    fn agent_path(&self) -> PathBuf {
        self.directory.join(format!("{}agent.{}", self.prefix(), shared::RING_EXTENSION))
    }

    fn path(&self, name: &RingName) -> PathBuf {
        let RingName { stream, writer } = name;
        let extension = shared::RING_EXTENSION;
        self.directory.join(format!("{}{:016x}.{}.{extension}", self.prefix(), stream.0, writer.word()))
    }

    fn name(&self, file: &str) -> Option<RingName> {
        let rest = file.strip_prefix(&self.prefix())?.strip_suffix(shared::RING_EXTENSION)?;
        let (stream, word) = rest.strip_suffix('.')?.split_once('.')?;
        let writer =
            [RingWriter::Publisher, RingWriter::Agent].into_iter().find(|writer| writer.word() == word)?;
        let is_ours = stream.len() == 16;
        is_ours
            .then(|| u64::from_str_radix(stream, 16).ok())?
            .map(|id| RingName { stream: StreamId(id), writer })
    }
}

/// Returns the part of a file's name that names a bus, with the laboratory of a secured one.
///
/// No bus has an `@` in its name, so none can be called like a laboratory's.
pub(crate) fn of_laboratory(bus: String, authority: Option<PublicKey>) -> String {
    match authority {
        Some(authority) => format!("{bus}@{}", authority.file_label()),
        None => bus,
    }
}

impl HostRing {
    /// Accepts a ring as that of the stream which its label describes, if its writer is trusted.
    fn of(found: Found, writer: RingWriter, trusted: Trusted, path: &Path) -> Result<Self, HostRingError> {
        let label = |_| HostRingError::Label(path.to_owned());
        let description = Description::decode(found.label()).map_err(label)?;
        let name = description.name.clone();
        let found = found.trust(trusted).map_err(|error| HostRingError::Distrusted { name, error })?;
        Ok(Self {
            stream: wire::stream_id(&description.name, &description.schema),
            description: Arc::new(description),
            writer,
            pid: found.writer_pid(),
            since: WallTime::from_nanos(i64::try_from(found.created_ns()).unwrap_or(i64::MAX)),
            found,
        })
    }

    /// Checks that the ring is the one that its name says.
    fn named(self, name: &RingName, path: PathBuf) -> Result<Self, HostRingError> {
        if self.stream == name.stream { Ok(self) } else { Err(HostRingError::Label(path)) }
    }

    /// Returns the stream that it contains.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Opens the ring.
    ///
    /// # Errors
    /// [`HostRingError::Open`] if its memory cannot be mapped.
    pub fn open(self) -> Result<HostStream, HostRingError> {
        let shared = self.found.open()?;
        let (stream, description, ring) = (self.stream, self.description, shared.ring().clone());
        Ok(HostStream {
            subscription: Subscription { stream, description, ring },
            writer: self.writer,
            doorbell: Arc::clone(shared.doorbell()),
            liveness: Arc::clone(shared.liveness()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype, Schema};
    use units::SampleRate;

    pub(super) fn description() -> (StreamId, Description) {
        let schema =
            Schema::new(Dtype::F4, SampleRate::hz(10).unwrap(), vec![Channel::new("a", "V")]).unwrap();
        let name = "lab/probe".parse().unwrap();
        let stream = wire::stream_id(&name, &schema);
        let (station, unknown) = ("here".to_owned(), sample::UnknownEntries::new());
        (stream, Description { name, schema, station, report_port: 0, unknown })
    }

    pub(super) fn rings(directory: &Path) -> HostRings {
        HostRings::new(directory, "239.84.0.0:7400", Access::Owner)
    }

    #[test]
    fn a_stream_is_found_with_its_description_the_publishers_ring_first() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let [publishers, agents] =
            [RingWriter::Publisher, RingWriter::Agent].map(|writer| RingName { stream, writer });
        assert!(rings.look(&agents).is_err() && rings.names().is_empty());
        let agent = rings.create(stream, RingWriter::Agent, &description, 4096).unwrap();
        assert_eq!(rings.names(), std::slice::from_ref(&agents));
        assert!(rings.serves(stream, &[RingWriter::Publisher, RingWriter::Agent]));
        assert!(!rings.serves(stream, &[RingWriter::Publisher]));
        let publisher = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        assert_eq!(rings.names(), [publishers, agents.clone()]);
        let found = rings.look(&agents).unwrap();
        assert_eq!((found.writer, found.pid), (RingWriter::Agent, std::process::id()));
        assert_eq!(*found.description, description);
        assert_eq!(*found.open().unwrap().subscription.description, description);
        drop((agent, publisher));
        assert!(rings.names().is_empty());
    }

    #[test]
    fn rings_of_another_bus_and_other_files_are_not_seen() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (ours, (stream, description)) = (rings(directory.path()), description());
        let theirs = HostRings::new(directory.path(), "239.84.0.0:7401", Access::Owner);
        let _ring = theirs.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        for name in ["tallycast.239.84.0.0-7400.12.publisher.ring", "tallycast.239.84.0.0-7400.x.ring", "x"] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        assert!(ours.names().is_empty() && !ours.serves(stream, &[RingWriter::Publisher]));
        assert_eq!(theirs.names().len(), 1);
    }

    #[test]
    fn secured_and_clear_buses_of_one_name_and_those_of_two_laboratories_never_meet() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (stream, description) = description();
        let laboratories = [None, Some(PublicKey([1; 32])), Some(PublicKey([2; 32]))];
        let buses = laboratories.map(|authority| rings(directory.path()).of_laboratory(authority));
        let patterns = ["lab/**".parse().unwrap()];
        for (at, bus) in buses.iter().enumerate() {
            let (_agent, _reader) = (bus.show_agent(&patterns).unwrap(), bus.show_reader(1, "desk").unwrap());
            let _rings = [RingWriter::Publisher, RingWriter::Agent]
                .map(|writer| bus.create(stream, writer, &description, 4096).unwrap());
            for (other_at, other) in buses.iter().enumerate() {
                let sees = at == other_at;
                assert_eq!(other.names().len(), if sees { 2 } else { 0 }, "{at} {other_at}");
                assert_eq!(other.agent_receives(&description.name), sees);
                assert_eq!(other.serves(stream, &[RingWriter::Publisher, RingWriter::Agent]), sees);
            }
        }
        // A bus within one host cannot take the name of a secured one.
        let name = buses[1].bus.replace('@', "-");
        assert!(HostRings::new(directory.path(), &buses[1].bus, Access::Owner).bus == name);
    }

    #[test]
    fn an_agent_is_seen_while_it_is_alive_and_there_is_one() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let rings = rings(directory.path());
        let (inside, outside) = ("lab/probe".parse().unwrap(), "w7x/probe".parse().unwrap());
        assert!(!rings.agent_receives(&inside));
        let patterns = ["lab/**", "spare"].map(|pattern| pattern.parse().unwrap());
        let presence = rings.show_agent(&patterns).unwrap();
        assert!(rings.agent_receives(&inside) && !rings.agent_receives(&outside));
        assert!(rings.names().is_empty(), "it is no stream's ring");
        let second = rings.show_agent(&patterns).err().unwrap();
        assert!(matches!(second, CreateError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
        drop(presence);
        assert!(!rings.agent_receives(&inside));
    }

    #[test]
    fn a_ring_whose_label_is_of_another_stream_is_refused() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let other = StreamId(stream.0 ^ 1);
        let _ring = rings.create(other, RingWriter::Publisher, &description, 4096).unwrap();
        let name = RingName { stream: other, writer: RingWriter::Publisher };
        assert!(matches!(rings.open(&name), Err(HostRingError::Label(_))));
    }

    #[test]
    fn a_ring_that_others_could_write_is_not_trusted_counted_and_named_by_its_stream() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let _ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        let presence = rings.show_agent(&["lab/**".parse().unwrap()]).unwrap();
        let name = RingName { stream, writer: RingWriter::Publisher };
        assert!(rings.serves(stream, &[RingWriter::Publisher]) && rings.withholds(&name).is_none());
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        }
        let error = rings.look(&name).err().unwrap();
        assert!(
            matches!(&error, HostRingError::Distrusted { name, .. } if *name == description.name),
            "{error}"
        );
        assert!(!rings.serves(stream, &[RingWriter::Publisher]) && !rings.agent_receives(&description.name));
        assert_eq!(rings.withholds(&name), Some(Withheld::Distrusted));
        (0..3).for_each(|_| rings.clone().note_distrusted(&name, &error));
        assert_eq!(rings.distrusted(), 1);
        drop(presence);
    }

    #[test]
    fn a_ring_of_another_user_is_read_only_by_those_who_name_its_group() {
        if sys::process::user() != 0 {
            println!("SKIPPED: only root can give files away");
            return;
        }
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (stream, description) = description();
        let group = 4_711;
        let [strict, of_group] = [None, Some(group)].map(|group| rings(directory.path()).of_group(group));
        let _ring = of_group.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        let name = RingName { stream, writer: RingWriter::Publisher };
        let path = strict.path(&name);
        assert_eq!(std::fs::metadata(&path).unwrap().gid(), group, "it was given to the group");
        assert!(strict.look(&name).is_ok(), "root's");
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert!(matches!(strict.look(&name), Err(HostRingError::Distrusted { .. })));
        assert!(of_group.open(&name).is_ok());
    }
}
