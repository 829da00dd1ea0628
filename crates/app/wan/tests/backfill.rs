//! Holes of a far archive are filled from the near one, over loopback, whatever is restarted or killed meanwhile.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use archive::{
    Appendable, Archive, FileStore, Lock, Options as RecorderOptions, Piece, Readable, Recorder, Scope,
    Store, StoreError, Verification,
};
use ledger::{Gap, GapKind, HopCounts, Stage, StageCounts};
use support::wait_until;
use sys::{Cancellation, clock};
use tallycast::udt::{Keys, Options, Repair, Secret, Suite};
use tallycast::{
    Block, Bus, Channel, Dtype, Epoch, Event, Node, Publisher, RelayBackfill, RelayState, Schema, StreamGap,
    StreamId, StreamInfo,
};
use units::{RangeSet, SampleRate, WallTime};
use wan::{BusPublication, Far, FarSettings, Near, NearSettings, Notice, Source};
use zeroize::Zeroizing;

const ELEMENTS: u64 = 3;
/// Environment variables of a far relay in a process of its own: its archive, and where it listens.
const ROOT: &str = "TALLYCAST_BACKFILL_TEST_ROOT";
const PLACE: &str = "TALLYCAST_BACKFILL_TEST_PLACE";

fn options() -> Options {
    let mut options = Options::messages();
    options.socket.repair = Repair::Timely;
    options
}

fn node(bus: &Bus, station: &str) -> Node {
    Node::builder().bus(bus.clone()).station(station).build().unwrap()
}

/// A bus of this host only.
fn bus() -> (tempfile::TempDir, Bus) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus = format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap();
    (directory, bus)
}

/// A relay's notices and its state.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<(Vec<Notice>, RelayState)>>);

impl Told {
    fn look<T>(&self, look: impl FnOnce(&[Notice], &RelayState) -> T) -> T {
        let told = self.0.lock().unwrap();
        look(&told.0, &told.1)
    }
}

/// A relay or a recorder in a thread of its own; dropping it asks it to end, and waits.
struct Running {
    cancellation: Cancellation,
    told: Told,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn begin(work: impl FnOnce(Cancellation, Told) + Send + 'static) -> Self {
        let (cancellation, told) = (Cancellation::new().unwrap(), Told::default());
        let (asked, log) = (cancellation.clone(), told.clone());
        let thread = Some(std::thread::spawn(move || work(asked, log)));
        Self { cancellation, told, thread }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancellation.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn far(bus: &Bus, place: SocketAddr, root: Option<&Path>) -> (Running, SocketAddr) {
    far_with(&options(), bus, place, |far| match root {
        Some(root) => far.with_archive(root.to_owned()),
        None => far,
    })
}

fn far_with(
    options: &Options,
    bus: &Bus,
    place: SocketAddr,
    complete: impl FnOnce(Far<BusPublication>) -> Far<BusPublication>,
) -> (Running, SocketAddr) {
    let port = wait_until("the port is free", || options.open_to_listen(place).ok());
    let incarnation = wan::random_incarnation();
    let (station, socket) = ("far".to_owned(), options.socket.clone());
    let settings = FarSettings { station, incarnation, socket, deadline: None };
    let far = complete(Far::new(port, BusPublication::new(node(bus, "far")), settings));
    let place = far.local_address();
    let running = Running::begin(move |asked, told| {
        let (log, seen) = (told.clone(), told);
        let take = &mut |notice| log.0.lock().unwrap().0.push(notice);
        drop(far.run(&asked, take, &mut |state| seen.0.lock().unwrap().1 = state.clone()).unwrap());
    });
    (running, place)
}

fn near(bus: &Bus, peer: SocketAddr, root: &Path, pattern: &str) -> Running {
    near_with(options(), bus, peer, root, pattern)
}

fn near_with(options: Options, bus: &Bus, peer: SocketAddr, root: &Path, pattern: &str) -> Running {
    let tap = node(bus, "home").tap("lab/**").unwrap();
    let port = options.open_to_connect("127.0.0.1:0".parse().unwrap()).unwrap();
    let (station, deadline) = ("home".to_owned(), Duration::from_secs(1));
    let (incarnation, socket) = (wan::random_incarnation(), options.socket.clone());
    let (is_least, priorities) = (false, Vec::new());
    let settings = NearSettings { station, incarnation, deadline, is_least, priorities, peer, socket };
    let near = Near::new(tap, port, settings);
    let near =
        near.with_archive(Source { archive: root.to_owned(), patterns: vec![pattern.parse().unwrap()] });
    Running::begin(move |asked, told| {
        let (log, seen) = (told.clone(), told);
        let take = &mut |notice| log.0.lock().unwrap().0.push(notice);
        near.run(&asked, take, &mut |state| seen.0.lock().unwrap().1 = state.clone()).unwrap();
    })
}

/// Records a bus until its end is asked for.
fn record(bus: &Bus, root: &Path) -> Running {
    let mut subscriber = node(bus, "recorder").subscriber("lab/**").open().unwrap();
    let store = Arc::new(FileStore::create(root).unwrap());
    let options =
        RecorderOptions { commit_interval: Duration::from_millis(20), ..RecorderOptions::default() };
    let mut recorder = Recorder::open(store, "shot".parse().unwrap(), options, clock::monotonic()).unwrap();
    Running::begin(move |asked, _| {
        loop {
            match subscriber.next(Duration::from_millis(20)) {
                Some(event) => recorder.handle(clock::monotonic(), &event).unwrap(),
                None if asked.is_cancelled() => break,
                None => recorder.tick(clock::monotonic()),
            }
        }
        recorder.close(clock::monotonic()).unwrap();
    })
}

fn publisher(bus: &Bus) -> Publisher {
    let channels = [("a", "V"), ("b", "V"), ("c", "V")];
    node(bus, "daq").publisher("lab/probe").dtype(Dtype::I32).rate("1k").channels(channels).open().unwrap()
}

fn values(positions: std::ops::Range<u64>) -> Vec<i32> {
    positions.map(|position| i32::try_from(position).unwrap()).collect()
}

fn verified(root: &Path) -> Option<Verification> {
    Archive::open(root).ok()?.verify(&Scope::default(), &mut |_| {}).ok()
}

/// Returns every element of an archive, by position.
fn elements(root: &Path) -> (RangeSet, Vec<i32>) {
    let archive = Archive::open(root).unwrap();
    let streams = archive.streams(&"shot".parse().unwrap()).unwrap();
    let [entry] = &streams[..] else { panic!("{} streams", streams.len()) };
    assert_eq!(entry.epochs.len(), 1, "one folder for the origin's epoch");
    let (mut positions, mut values) = (RangeSet::new(), Vec::new());
    for piece in
        archive.epoch(&entry.epochs[0], WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX))
    {
        if let Piece::Block(block) = piece.unwrap() {
            assert!(block.missing.is_empty());
            positions.insert(block.first_index * ELEMENTS..block.next_index() * ELEMENTS);
            values.extend_from_slice(block.elements::<i32>().unwrap());
        }
    }
    (positions, values)
}

#[test]
fn what_an_outage_cost_comes_later_while_live_samples_go_on_and_the_gap_map_keeps_it() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (recorder_here, recorder_there) = (record(&home, here.path()), record(&away, there.path()));
    let (first, place) = far(&away, "127.0.0.1:0".parse().unwrap(), Some(there.path()));
    let near = near(&home, place, here.path(), "lab/**");
    let mut publisher = publisher(&home);
    let is_opened = |notices: &[Notice]| notices.iter().any(|it| matches!(it, Notice::Opened { .. }));
    wait_until("the stream is accepted", || near.told.look(|notices, _| is_opened(notices)).then_some(()));
    publisher.send(&values(0..900)).unwrap();
    wait_until("the first samples are recorded far away", || {
        verified(there.path()).filter(|it| it.samples >= 300).map(drop)
    });
    drop(first);
    publisher.send(&values(900..1_800)).unwrap();
    // What was on the link as it broke counts as given up until the next far relay says what the first one had.
    let is_given_up = |state: &RelayState| {
        let mut streams = state.links.iter().flat_map(|link| &link.streams);
        let given_up = |causes: &[(String, u64)]| causes.iter().map(|(_, count)| count).sum::<u64>();
        streams.any(|stream| stream.delivered + given_up(&stream.causes) >= 1_800)
    };
    wait_until("the samples of the outage are given up", || {
        near.told.look(|_, state| is_given_up(state).then_some(()))
    });
    let (second, _) = far(&away, place, Some(there.path()));
    let reopened =
        |notices: &[Notice]| notices.iter().filter(|it| matches!(it, Notice::Opened { .. })).count() > 1;
    wait_until("the stream goes on", || near.told.look(|notices, _| reopened(notices)).then_some(()));
    for start in (1_800..3_000).step_by(30) {
        publisher.send(&values(start..start + 30)).unwrap();
    }
    drop(publisher);
    // As long as it knows of the first 300 samples only, it is complete without the others.
    wait_until("the far archive is complete", || {
        verified(there.path()).filter(|it| it.is_complete() && it.samples >= 1_000).map(drop)
    });
    drop((recorder_here, recorder_there));
    let is_told = |notices: &[Notice]| notices.iter().any(|it| matches!(it, Notice::Refilled { .. }));
    wait_until("the word of it", || second.told.look(|notices, _| is_told(notices)).then_some(()));
    drop((near, second));
    let (found, own) = (elements(there.path()), elements(here.path()));
    assert_eq!(found, own);
    assert_eq!(own, (std::iter::once(0..3_000).collect(), values(0..3_000)));
    let verification = verified(there.path()).unwrap();
    assert!(verification.is_complete() && verification.refilled_elements >= 900, "{verification:?}");
    let archive = Archive::open(there.path()).unwrap();
    let entry = &archive.streams(&"shot".parse().unwrap()).unwrap()[0];
    let recording = &entry.epochs[0];
    let missed: RangeSet = recording.gaps.iter().map(|gap| gap.positions.clone()).collect();
    assert_eq!(missed.count_in(900..1_800), 900, "it keeps what was missing: {:?}", recording.gaps);
    let came: RangeSet =
        recording.refills.iter().flat_map(|refill| refill.samples.iter().collect::<Vec<_>>()).collect();
    assert_eq!(came.count_in(300..600), 300);
    assert!(recording.refills.iter().all(|refill| refill.station == "home"));
}

const EPOCH: Epoch = Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 };

/// Writes an archive of an ended stream without its `holes`; returns its samples.
fn archive(root: &Path, samples: u64, holes: &[std::ops::Range<u64>]) {
    let channels = ["a", "b", "c"].map(|name| Channel::new(name, "V")).to_vec();
    let schema = Arc::new(Schema::new(Dtype::I32, SampleRate::hz(1_000).unwrap(), channels).unwrap());
    let (name, at) = (Arc::new("lab/probe".parse().unwrap()), |index: u64| {
        WallTime::from_nanos(1_763_756_051_000_000_000 + index as i64 * 1_000_000)
    });
    let store = Arc::new(FileStore::create(root).unwrap());
    let now = clock::monotonic();
    let mut recorder =
        Recorder::open(store, "shot".parse().unwrap(), RecorderOptions::default(), now).unwrap();
    let (id, station, origin) = (StreamId(1), "daq".to_owned(), None);
    let info = StreamInfo {
        id,
        name: Arc::clone(&name),
        epoch: EPOCH,
        origin,
        schema: Arc::clone(&schema),
        station,
        first_index: 0,
        join: 1,
    };
    recorder.handle(now, &Event::Began(Arc::new(info))).unwrap();
    let mut next = 0;
    for (id, hole) in (0..).zip(holes.iter().cloned().chain([samples..samples])) {
        while next < hole.start {
            let count = (hole.start - next).min(10_000);
            let bytes: Vec<u8> = values(next * ELEMENTS..(next + count) * ELEMENTS)
                .into_iter()
                .flat_map(i32::to_le_bytes)
                .collect();
            let block = Block {
                stream: Arc::clone(&name),
                schema: Arc::clone(&schema),
                epoch: EPOCH,
                first_index: next,
                t0: at(next),
                samples: count,
                data: sample::SampleBuffer::from_bytes(&bytes),
                missing: RangeSet::new(),
            };
            recorder.handle(now, &Event::Block(block)).unwrap();
            next += count;
        }
        if hole.is_empty() {
            break;
        }
        let positions = hole.start * ELEMENTS..hole.end * ELEMENTS;
        let lost = StageCounts::of(Stage::Deadline, positions.end - positions.start);
        let gap = Gap {
            id,
            kind: GapKind::Missing,
            positions,
            numbers: id..id + 1,
            lost,
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        };
        let (stream, elements_per_sample) = (Arc::clone(&name), 3);
        let (t0, t1, join) = (at(hole.start), at(hole.end), 1);
        let gap = StreamGap { stream, epoch: EPOCH, join, elements_per_sample, gap, t0, t1 };
        recorder.handle(now, &Event::Gap(gap)).unwrap();
        next = hole.end;
    }
    recorder.close(now).unwrap();
}

/// Starts a far relay in a process of its own.
fn far_process(root: &Path, place: SocketAddr) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_far_relay_that_runs_until_it_is_killed", "--ignored", "--nocapture"]);
    child.env(ROOT, root).env(PLACE, place.to_string()).spawn().unwrap()
}

#[test]
#[ignore = "the child of the test below"]
fn a_far_relay_that_runs_until_it_is_killed() {
    let (Some(root), Ok(place)) = (std::env::var_os(ROOT), std::env::var(PLACE)) else { return };
    let (_away, away) = bus();
    let _far = far(&away, place.parse().unwrap(), Some(root.as_ref()));
    // It does not outlive a parent that fails, for long.
    std::thread::sleep(support::WATCHDOG);
}

fn refills(root: &Path) -> usize {
    let folder = Path::new("run=shot/stream=lab%2Fprobe").join(format!("epoch={EPOCH}"));
    let names = std::fs::read_dir(root.join(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("refill-") && name.ends_with(".json")).count()
}

#[test]
fn a_far_relay_killed_in_the_middle_of_a_refill_goes_on_with_it_and_what_nobody_has_stays_a_hole() {
    let (_home, home) = bus();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    const SAMPLES: u64 = 1_500_000;
    let nobodys = 700_000..700_010;
    archive(here.path(), SAMPLES, std::slice::from_ref(&nobodys));
    archive(there.path(), SAMPLES, &[1_000..1_400_000, 1_400_005..1_400_006]);
    assert!(!verified(there.path()).unwrap().is_complete());
    let place = {
        let free = options().open_to_listen("127.0.0.1:0".parse().unwrap()).unwrap();
        free.local_address()
    };
    // So slowly that there is a middle.
    let mut slow = options();
    slow.socket.max_bytes_per_s = Some(4_000_000);
    let near = near_with(slow, &home, place, here.path(), "lab/**");
    let mut child = far_process(there.path(), place);
    wait_until("the first refill", || (refills(there.path()) > 0).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let found = verified(there.path()).unwrap();
    assert!(found.is_whole() && !found.is_complete(), "{found:?}");
    let before = refills(there.path());
    let mut child = far_process(there.path(), place);
    let expected = (nobodys.end - nobodys.start) * ELEMENTS;
    wait_until("everything that the near archive has", || {
        verified(there.path()).filter(|it| it.missing_elements == expected).map(drop)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(near);
    assert!(refills(there.path()) > before);
    let found = verified(there.path()).unwrap();
    assert!(found.is_whole() && !found.is_complete(), "what nobody has is not there: {found:?}");
    assert_eq!(elements(there.path()), elements(here.path()));
}

/// Options of both ends with keys, each of which lists the other.
fn with_keys() -> [Options; 2] {
    let key = |byte| Secret::new(Zeroizing::new([byte; 32]));
    let keys = |own, peer| {
        let of =
            |byte| Keys { key: key(byte), peers: BTreeSet::new(), responder: None, suite: Suite::default() };
        Keys { peers: [of(peer).public()].into(), ..of(own) }
    };
    [(3, 4), (4, 3)].map(|(own, peer)| Options { keys: Some(keys(own, peer)), ..options() })
}

#[test]
fn over_a_link_with_keys_holes_are_filled_too_and_a_stranger_fills_none() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    archive(here.path(), 40_000, &[]);
    archive(there.path(), 40_000, &[10..20, 5_000..35_000]);
    let [near_options, far_options] = with_keys();
    let (far, place) = far_with(&far_options, &away, "127.0.0.1:0".parse().unwrap(), |far| {
        far.with_archive(there.path().to_owned())
    });
    let _stranger = near(&home, place, here.path(), "lab/**");
    let turned_away = |state: &RelayState| state.turned_away > 0;
    wait_until("the stranger is counted", || far.told.look(|_, state| turned_away(state).then_some(())));
    assert_eq!(refills(there.path()), 0);
    let _near = near_with(near_options, &home, place, here.path(), "lab/**");
    wait_until("everything is there", || verified(there.path()).filter(|it| it.missing_elements == 0));
    assert_eq!(elements(there.path()), elements(here.path()));
    assert!(verified(there.path()).unwrap().is_whole());
}

/// A disk that can be full.
struct Disk {
    inner: FileStore,
    is_full: AtomicBool,
}

/// File on a disk that can be full.
struct OnDisk {
    inner: Box<dyn Appendable>,
    path: PathBuf,
    disk: Arc<Disk>,
}

/// What the refiller of a far relay writes to.
struct Full(Arc<Disk>);

impl Disk {
    fn check(&self, path: &Path) -> Result<(), StoreError> {
        if self.is_full.load(Ordering::SeqCst) { Err(StoreError::NoSpace(path.to_owned())) } else { Ok(()) }
    }
}

impl Full {
    fn on_disk(&self, path: &Path, inner: Box<dyn Appendable>) -> Box<dyn Appendable> {
        Box::new(OnDisk { inner, path: path.to_owned(), disk: Arc::clone(&self.0) })
    }
}

impl Appendable for OnDisk {
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError> {
        self.disk.check(&self.path)?;
        self.inner.append(parts)
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError> {
        self.inner.truncate(size_bytes)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.inner.sync()
    }
}

impl Store for Full {
    fn make_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.0.inner.make_folder(path)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        // The name still fits, as on any disk; its content does not.
        Ok(self.on_disk(path, self.0.inner.create(path)?))
    }

    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        Ok(self.on_disk(path, self.0.inner.append_to(path)?))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError> {
        self.0.inner.open(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        self.0.inner.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.0.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        self.0.inner.remove(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        self.0.inner.list(path)
    }

    fn space_bytes(&self) -> Result<u64, StoreError> {
        if self.0.is_full.load(Ordering::SeqCst) { Ok(0) } else { self.0.inner.space_bytes() }
    }

    fn capacity_bytes(&self) -> Result<u64, StoreError> {
        self.0.inner.capacity_bytes()
    }

    fn lock(&self, path: &Path) -> Result<Lock, StoreError> {
        self.0.inner.lock(path)
    }

    fn is_locked(&self, path: &Path) -> Result<bool, StoreError> {
        self.0.inner.is_locked(path)
    }
}

#[test]
fn a_full_disk_is_told_once_and_counted_and_holes_are_filled_once_there_is_room() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    archive(here.path(), 2_000, &[]);
    archive(there.path(), 2_000, &[10..20, 500..1_500]);
    let before = (elements(there.path()), verified(there.path()).unwrap().missing_elements);
    let inner = FileStore::open(there.path()).unwrap();
    let disk = Arc::new(Disk { inner, is_full: AtomicBool::new(true) });
    let opened = Arc::clone(&disk);
    let (far, place) = far_with(&options(), &away, "127.0.0.1:0".parse().unwrap(), |far| {
        far.with_archive_in(there.path().to_owned(), move || Ok(Arc::new(Full(Arc::clone(&opened)))))
    });
    let near = near(&home, place, here.path(), "lab/**");
    let told = |notices: &[Notice]| {
        let is_it = |it: &&Notice| matches!(it, Notice::Warning { what } if what.contains("no space left"));
        notices.iter().filter(is_it).count()
    };
    wait_until("the word of it", || far.told.look(|notices, _| (told(notices) > 0).then_some(())));
    let counted =
        |state: &RelayState| state.backfill.as_ref().is_some_and(|it| it.refused == 1 && it.missing > 0);
    wait_until("the count", || far.told.look(|_, state| counted(state).then_some(())));
    // Nothing of the samples counts, and nothing that was there is lost.
    assert!(verified(there.path()).unwrap().is_whole());
    assert_eq!((elements(there.path()), verified(there.path()).unwrap().missing_elements), before);
    disk.is_full.store(false, Ordering::SeqCst);
    wait_until("everything is there", || verified(there.path()).filter(|it| it.missing_elements == 0));
    assert_eq!(elements(there.path()), elements(here.path()));
    assert_eq!(far.told.look(|notices, _| told(notices)), 1, "told once");
    drop(near);
}

#[test]
fn streams_that_are_not_relayed_are_not_handed_out_and_the_refusal_is_told_and_counted() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    archive(here.path(), 1_000, &[]);
    archive(there.path(), 1_000, std::slice::from_ref(&(10..20)));
    let (far, place) = far(&away, "127.0.0.1:0".parse().unwrap(), Some(there.path()));
    let near = near(&home, place, here.path(), "other/**");
    let refused = |notices: &[Notice]| {
        notices
            .iter()
            .any(|it| matches!(it, Notice::Warning { what } if what.contains("is not relayed from here")))
    };
    wait_until("the refusal", || far.told.look(|notices, _| refused(notices)).then_some(()));
    wait_until("the count", || {
        let is_refused = |it: &RelayBackfill| it.refused > 0 && it.samples == 0;
        near.told.look(|_, state| state.backfill.as_ref().is_some_and(is_refused)).then_some(())
    });
    assert_eq!(refills(there.path()), 0);
}

#[test]
fn answers_that_are_not_as_they_must_be_are_refused_in_words_and_counted_and_a_right_one_is_taken_after_them()
{
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    archive(here.path(), 1_000, &[]);
    archive(there.path(), 1_000, std::slice::from_ref(&(10..20)));
    let (far, place) = far(&away, "127.0.0.1:0".parse().unwrap(), Some(there.path()));
    let wrong: [(&[&[u8]], &str); 4] = [
        (&[b"\x03{\"id\":0,\"bytes\":5,\"blake3\":\"00\"}", b"\x0412345"], "does not match its hash"),
        (&[b"\x03{\"id\":0,\"bytes\":18446744073709551615,\"blake3\":\"00\"}"], "where at most"),
        (&[b"\x03{\"id\":7,\"bytes\":5,\"blake3\":\"00\"}"], "was not asked for"),
        (&[b"\x09"], "was not asked for"),
    ];
    for (answers, said) in wrong {
        let port = options().open_to_connect("127.0.0.1:0".parse().unwrap()).unwrap();
        let socket = port.connect(place, options().socket).unwrap();
        let send =
            |bytes: &[u8]| port.send_message(socket, bytes, true, None, Some(support::WATCHDOG)).unwrap();
        send(b"\0tallycast backfill 1 stranger");
        let mut question = Vec::new();
        while question.first() != Some(&2) {
            assert!(port.receive_message(socket, &mut question, Some(support::WATCHDOG)).unwrap());
        }
        let before = far.told.look(|notices, _| notices.len());
        answers.iter().for_each(|answer| send(answer));
        let is_told = |it: &Notice| matches!(it, Notice::Warning { what } if what.contains(said));
        wait_until(said, || far.told.look(|notices, _| notices[before..].iter().any(is_told)).then_some(()));
    }
    assert_eq!(refills(there.path()), 0);
    let _near = near(&home, place, here.path(), "lab/**");
    wait_until("the samples", || verified(there.path()).filter(|it| it.missing_elements == 0).map(drop));
    let is_done = |state: &RelayState| {
        let RelayBackfill { samples, bytes, refused, missing, ranges, lacking, errors } =
            state.backfill.clone().unwrap_or_default();
        (samples, bytes, missing, ranges, lacking) == (10, 10 * ELEMENTS * 4, 0, 0, 0)
            && refused >= 4
            && errors.is_empty()
    };
    wait_until("the counts", || far.told.look(|_, state| is_done(state)).then_some(()));
}
