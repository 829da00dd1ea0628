//! Rings in shared memory: who may write them, what a dead writer leaves, and what a faulty one can
//! do.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set is a failed test")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ring::shared::{self, Access, CreateError, OpenError, Options};
use ring::{Idle, Read, Writer, wait_any};
use support::WATCHDOG;
use tempfile::TempDir;
use units::Random;

/// Offset of the head in the control block, as `docs/reference/formats/ring.md` draws it.
const HEAD: u64 = 128;
const INTENT: u64 = 256;
const RESUME: u64 = 264;

struct Scene {
    directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { directory: tempfile::Builder::new().prefix("tallycast-ring").tempdir_in("/dev/shm").unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("a.ring")
    }

    fn create(&self, capacity_bytes: usize) -> Writer {
        shared::create(&self.path(), &options(capacity_bytes)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Overwrites a word of the ring's file without its writer.
    fn scribble(&self, offset: u64, word: u64) {
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(&word.to_le_bytes(), offset).unwrap();
    }
}

fn options(capacity_bytes: usize) -> Options {
    let mut options = Options::default();
    options.capacity_bytes = capacity_bytes;
    options
}

fn record(number: u64) -> (u16, [u64; 2], [u8; 8]) {
    ((number % 65_535) as u16, [number, 2 * number], number.to_le_bytes())
}

fn write(writer: &mut Writer, number: u64) {
    let (kind, totals, payload) = record(number);
    writer.write(kind, totals, &[&payload]).unwrap();
}

#[test]
fn what_one_opening_writes_another_reads_with_label_and_page() {
    let scene = Scene::new();
    let mut options = Options::default();
    options.label = b"of what".to_vec();
    options.page_bytes = 20;
    let mut writer = shared::create(&scene.path(), &options).unwrap();
    let found = shared::look(&scene.path()).unwrap();
    assert_eq!((found.label(), found.writer_pid()), (&b"of what"[..], std::process::id()));
    let shared = found.open().unwrap();
    let (mut reader, mut payload) = (shared.ring().reader_at_head(), Vec::new());
    for number in 0..1000 {
        write(&mut writer, number);
        let (kind, totals, bytes) = record(number);
        assert_eq!(reader.read(&mut payload), Read::Record { kind, totals });
        assert_eq!(payload, bytes);
    }
    assert!(shared.ring().page(&mut payload) && payload.is_empty());
    writer.set_page(b"nineteen bytes long").unwrap();
    assert!(shared.ring().page(&mut payload));
    assert_eq!(payload, b"nineteen bytes long");
    assert!(writer.set_page(&[0; 25]).is_err());
    drop(writer);
    assert_eq!(reader.read(&mut payload), Read::Closed);
}

#[test]
fn a_look_tells_what_a_ring_is_and_whether_its_writer_is_alive() {
    let scene = Scene::new();
    let mut options = options(4096);
    options.label = b"of what".to_vec();
    let mut writer = shared::create(&scene.path(), &options).unwrap();
    write(&mut writer, 5);
    let found = shared::look(&scene.path()).unwrap();
    assert_eq!((found.label(), found.writer_pid()), (&b"of what"[..], std::process::id()));
    assert!(found.created_ns() > 0 && found.liveness().writer_is_alive());
    drop(writer);
    assert!(!found.liveness().writer_is_alive());
    let _successor = scene.create(4096);
    assert!(found.liveness().is_replaced());
    let shared = found.open().unwrap();
    let mut payload = Vec::new();
    let read = shared.ring().reader_at_oldest().read(&mut payload);
    assert!(matches!(read, Read::Record { kind: 5, .. }), "what was found is opened, not its successor");
}

#[test]
fn a_look_maps_nothing() {
    let scene = Scene::new();
    let writer = scene.create(4096);
    // A copy, because its writer has mapped the ring itself.
    let copy = scene.directory.path().join("copy.ring");
    fs::copy(scene.path(), &copy).unwrap();
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(copy.to_str().unwrap());
    let found = shared::look(&copy).unwrap();
    assert!(!is_mapped());
    let shared = found.open().unwrap();
    assert!(is_mapped());
    drop((shared, writer));
}

#[test]
fn a_view_folds_and_copies_and_knows_when_it_was_overtaken() {
    let (mut writer, ring) = ring::ring(256);
    let mut reader = ring.reader_at_head();
    writer.write(9, [3, 4], &[&1_u64.to_le_bytes(), &2_u64.to_le_bytes(), &[7]]).unwrap();
    let view = reader.look().unwrap();
    assert_eq!((view.kind(), view.totals(), view.payload_bytes()), (9, [3, 4], 17));
    let sum = view.fold(0, |sum, word| sum + u64::from_le_bytes(word));
    assert_eq!(sum, Some(10));
    for number in 0..8 {
        write(&mut writer, number);
    }
    assert!(!view.still_valid());
    assert_eq!(view.fold(0, |sum, word| sum + u64::from_le_bytes(word)), None);
    assert!(!view.copy_to(&mut Vec::new()));
    assert!(matches!(reader.look(), Err(Read::Lapped { .. })));
    reader.skip();
    assert!(reader.look().is_ok());
}

#[test]
fn a_second_writer_is_refused_with_the_process_of_the_first() {
    let scene = Scene::new();
    let writer = scene.create(4096);
    let refused = shared::create(&scene.path(), &Options::default()).err().unwrap();
    let pid = std::process::id();
    assert!(matches!(&refused, CreateError::InUse { pid: Some(it), .. } if *it == pid), "{refused}");
    assert!(refused.to_string().contains(&format!("process {pid}")), "{refused}");
    drop(writer);
    drop(scene.create(4096));
}

#[test]
fn files_go_with_their_writer_and_readers_read_on() {
    let scene = Scene::new();
    let mut writer = scene.create(4096);
    assert_eq!(scene.names(), ["a.ring", "a.wait"]);
    let shared = shared::open(&scene.path()).unwrap();
    let (mut reader, mut payload) = (shared.ring().reader_at_head(), Vec::new());
    write(&mut writer, 5);
    assert!(shared.liveness().writer_is_alive() && !shared.liveness().is_replaced());
    drop(writer);
    assert_eq!(scene.names(), Vec::<String>::new());
    assert!(!shared.liveness().writer_is_alive() && shared.liveness().is_replaced());
    assert!(matches!(reader.read(&mut payload), Read::Record { .. }));
    assert_eq!(reader.read(&mut payload), Read::Closed);
}

#[test]
fn what_a_dead_writer_left_is_replaced_or_swept() {
    let scene = Scene::new();
    let writer = scene.create(4096);
    let left = fs::read(scene.path()).unwrap();
    drop(writer);
    // As a killed writer leaves them: files without a lock, not closed.
    for name in ["a.ring", "b.ring", "other.ring"] {
        fs::write(scene.directory.path().join(name), &left).unwrap();
    }
    let stale = shared::open(&scene.path()).unwrap();
    assert!(!stale.liveness().writer_is_alive() && !stale.ring().is_closed());
    let successor = scene.create(4096);
    assert!(stale.liveness().is_replaced());
    assert!(shared::open(&scene.path()).unwrap().liveness().writer_is_alive());
    assert_eq!(shared::sweep(scene.directory.path(), "").unwrap(), 2);
    assert_eq!(scene.names(), ["a.ring", "a.wait"]);
    drop(successor);
}

#[test]
fn sweeping_leaves_what_has_another_prefix() {
    let scene = Scene::new();
    fs::write(scene.directory.path().join("mine.1.ring"), [0; 600]).unwrap();
    fs::write(scene.directory.path().join("yours.1.ring"), [0; 600]).unwrap();
    assert_eq!(shared::sweep(scene.directory.path(), "mine.").unwrap(), 1);
    assert_eq!(scene.names(), ["yours.1.ring"]);
}

#[test]
fn a_page_without_a_ring_is_swept_once_nobody_holds_it() {
    let scene = Scene::new();
    let page = |name: &str| fs::write(scene.directory.path().join(name), [0; 4096]).unwrap();
    // As a writer leaves it that is killed before it publishes its ring.
    page("a.wait");
    page("other.wait");
    assert_eq!(shared::sweep(scene.directory.path(), "a").unwrap(), 0, "it is no ring");
    assert_eq!(scene.names(), ["other.wait"]);
    let writer = scene.create(4096);
    fs::remove_file(scene.path()).unwrap();
    shared::sweep(scene.directory.path(), "a").unwrap();
    assert_eq!(scene.names(), ["a.wait", "other.wait"], "its writer is alive");
    drop(writer);
    assert_eq!(scene.names(), ["other.wait"], "it went with its writer");
}

/// Runs `work` on numbered threads while others sweep the scene's directory continuously.
fn while_others_sweep(scene: &Scene, workers: usize, work: impl Fn(usize) + Sync) {
    let working = AtomicUsize::new(workers);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while working.load(Ordering::Relaxed) > 0 {
                    // A directory that changes while it is read may give an error.
                    let _ = shared::sweep(scene.directory.path(), "");
                }
            });
        }
        for number in 0..workers {
            let (work, working) = (&work, &working);
            scope.spawn(move || {
                // A worker that fails ends the sweepers too.
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(number)));
                working.fetch_sub(1, Ordering::Relaxed);
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            });
        }
    });
}

#[test]
fn no_writer_is_refused_for_a_sweep_and_nothing_is_left_behind() {
    let scene = Scene::new();
    let writer = scene.create(4096);
    let left = fs::read(scene.path()).unwrap();
    drop(writer);
    let same = Mutex::new(scene.directory.path().join("same.ring"));
    while_others_sweep(&scene, 3, |number| {
        for round in 0..400 {
            let path = scene.directory.path().join(format!("{number}.{}.ring", round % 3));
            if round % 2 == 0 {
                // The file of a predecessor that was killed.
                fs::write(&path, &left).unwrap();
            } else {
                // The page of one that was killed earlier, and of one for whose ring there is no
                // room.
                fs::write(path.with_extension("wait"), []).unwrap();
                let refused = shared::create(&path, &options(1 << 44)).err().unwrap();
                assert!(matches!(refused, CreateError::Full { .. }), "{refused:?}");
            }
            let writer = shared::create(&path, &options(4096)).unwrap();
            assert!(shared::open(&path).unwrap().liveness().writer_is_alive());
            drop(writer);
            // One name for all threads, one at a time.
            let path = same.lock().unwrap();
            drop(shared::create(&path, &options(4096)).unwrap());
        }
    });
    assert_eq!(scene.names(), Vec::<String>::new());
}

#[test]
fn of_several_writers_one_has_the_name_also_while_others_sweep() {
    let scene = Scene::new();
    let (path, holders, had) = (scene.path(), AtomicUsize::new(0), AtomicUsize::new(0));
    while_others_sweep(&scene, 3, |_| {
        for _ in 0..400 {
            match shared::create(&path, &options(4096)) {
                Ok(writer) => {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                    had.fetch_add(1, Ordering::Relaxed);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(writer);
                }
                Err(CreateError::InUse { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    assert!(had.into_inner() > 0);
    assert_eq!(scene.names(), Vec::<String>::new());
}

#[test]
fn a_sweep_leaves_the_page_of_a_living_writer_alone() {
    let scene = Scene::new();
    let writer = scene.create(4096);
    // Removed by hand: a page that is created only to be inspected changes the directory.
    fs::remove_file(scene.directory.path().join("a.wait")).unwrap();
    let changed = || fs::metadata(scene.directory.path()).unwrap().modified().unwrap();
    let before = changed();
    for _ in 0..100 {
        assert_eq!(shared::sweep(scene.directory.path(), "").unwrap(), 0);
    }
    assert_eq!((scene.names(), changed()), (vec!["a.ring".to_owned()], before));
    drop(writer);
}

#[test]
fn access_is_the_mode_of_the_files() {
    for (access, ring, wait) in
        [(Access::Owner, 0o600, 0o600), (Access::Group, 0o640, 0o660), (Access::All, 0o644, 0o666)]
    {
        let scene = Scene::new();
        let mut options = Options::default();
        options.access = access;
        let _writer = shared::create(&scene.path(), &options).unwrap();
        let mode = |name| {
            let metadata = fs::metadata(scene.directory.path().join(name)).unwrap();
            metadata.permissions().mode() & 0o777
        };
        assert_eq!((mode("a.ring"), mode("a.wait")), (ring, wait));
    }
}

#[test]
fn files_that_are_no_ring_of_this_version_are_refused_with_the_reason() {
    let scene = Scene::new();
    let refusal = || shared::open(&scene.path()).err().unwrap();
    assert!(matches!(refusal(), OpenError::Missing(_)));
    for bytes in [&[][..], &[0; 511], &[0; 512], b"TCRINK\x02\0", &[0xff; 9000]] {
        fs::write(scene.path(), bytes).unwrap();
        assert!(matches!(refusal(), OpenError::NotARing(_)), "{} bytes", bytes.len());
    }
    fs::remove_file(scene.path()).unwrap();
    let writer = scene.create(4096);
    let whole = fs::read(scene.path()).unwrap();
    drop(writer);

    let mut other = whole.clone();
    other[6] = 3;
    fs::write(scene.path(), &other).unwrap();
    assert!(matches!(refusal(), OpenError::Version { found: 3, .. }));

    fs::write(scene.path(), &whole[..whole.len() - 1]).unwrap();
    let refused = refusal();
    assert!(matches!(refused, OpenError::Truncated { .. }));
    assert!(refused.to_string().contains("truncated"), "{refused}");
    fs::write(scene.path(), &whole).unwrap();
    assert!(shared::open(&scene.path()).is_ok());

    // Invalid sizes, each alone: capacity, offset, label, page.
    let lies = [(8, 4095), (8, 0), (8, 1 << 62), (16, 8), (16, 513), (24, u64::MAX), (32, 1 << 40)];
    for (offset, word) in lies {
        fs::write(scene.path(), &whole).unwrap();
        scene.scribble(offset, word);
        let refused = refusal();
        let right = matches!(refused, OpenError::NotARing(_) | OpenError::Truncated { .. });
        assert!(right, "{word} at {offset}: {refused}");
    }
}

#[test]
fn a_directory_that_is_full_or_missing_is_said_before_anything_is_written() {
    let scene = Scene::new();
    let mut options = Options::default();
    options.capacity_bytes = 1 << 44;
    let refused = shared::create(&scene.path(), &options).err().unwrap();
    assert!(matches!(refused, CreateError::Full { .. }), "{refused:?}");
    assert!(refused.to_string().contains("make room"), "{refused}");
    assert_eq!(scene.names(), Vec::<String>::new(), "nothing is left of what could not be made");
    let nowhere = scene.directory.path().join("nowhere/a.ring");
    let refused = shared::create(&nowhere, &Options::default()).err().unwrap();
    assert!(matches!(refused, CreateError::System { .. }), "{refused:?}");
    drop(scene.create(4096));
}

#[test]
fn a_ring_that_is_cut_short_under_its_users_ends_no_process() {
    let scene = Scene::new();
    let mut writer = scene.create(1 << 20);
    let shared = shared::open(&scene.path()).unwrap();
    let (mut reader, mut payload) = (shared.ring().reader_at_head(), Vec::new());
    for number in 0..10 {
        write(&mut writer, number);
    }
    assert!(matches!(reader.read(&mut payload), Read::Record { .. }));
    File::options().write(true).open(scene.path()).unwrap().set_len(0).unwrap();
    assert_eq!(reader.read(&mut payload), Read::Broken);
    assert_eq!(reader.read(&mut payload), Read::Broken);
    assert!(shared.ring().page(&mut payload) && payload.is_empty());
    // The writer continues to write, without effect.
    for number in 0..100_000 {
        write(&mut writer, number);
    }
    shared.doorbell().ring();
}

#[test]
fn positions_that_no_writer_writes_are_broken_and_nothing_worse() {
    for (offset, word) in [
        (HEAD, 0),
        (HEAD, u64::MAX),
        (HEAD, u64::MAX - 7),
        (INTENT, 0),
        (INTENT, u64::MAX),
        (RESUME, u64::MAX),
        (RESUME, 3),
    ] {
        let scene = Scene::new();
        let mut writer = scene.create(4096);
        let shared = shared::open(&scene.path()).unwrap();
        let (mut reader, mut payload) = (shared.ring().reader_at_head(), Vec::new());
        (0..20).for_each(|number| write(&mut writer, number));
        assert!(matches!(reader.read(&mut payload), Read::Record { .. }));
        scene.scribble(offset, word);
        let mut late = shared.ring().reader_at_oldest();
        let mut newest = shared.ring().reader_at_head();
        for _ in 0..200 {
            for reader in [&mut reader, &mut late, &mut newest] {
                let _ = reader.read(&mut payload);
                let _ = reader.lag_bytes();
                assert!(payload.len() <= 4096);
            }
        }
    }
}

#[test]
fn padding_without_end_holds_no_reader_up() {
    for (padding, expected) in [(2, Read::Record { kind: 0, totals: [2, 0] }), (3, Read::Broken)] {
        let scene = Scene::new();
        let mut writer = scene.create(4096);
        let mut reader = shared::open(&scene.path()).unwrap().ring().reader_at_head();
        for number in 0..6 {
            writer.write(0, [number, 0], &[&[0; 8]]).unwrap();
        }
        for index in 0..padding {
            scene.scribble(4096 + index * 32, 0xffff << 32 | 8);
        }
        assert_eq!(reader.read(&mut Vec::new()), expected, "{padding} records of padding");
    }
}

#[test]
fn a_mad_writer_crashes_no_reader() {
    let seed = std::env::var("SEED").map_or(0, |text| text.parse().expect("SEED is a number"));
    for seed in seed..seed + 300 {
        let mut random = Random::new(seed);
        let scene = Scene::new();
        let mut writer = scene.create(4096);
        let shared = shared::open(&scene.path()).unwrap();
        let mut readers = [
            shared.ring().reader_at_head(),
            shared.ring().reader_at_oldest(),
            shared.ring().reader_at_head(),
        ];
        let mut payload = Vec::new();
        for number in 0..300 {
            write(&mut writer, number);
            if random.below(8) == 0 {
                let word = match random.below(3) {
                    0 => random.next_u64(),
                    1 => random.below(10_000),
                    _ => u64::MAX - random.below(5000),
                };
                // Anywhere behind the part that is read once: the moving part of the control block,
                // and the records.
                let offset = if random.below(2) == 0 {
                    128 + random.below(48) * 8
                } else {
                    4096 + random.below(512) * 8
                };
                scene.scribble(offset, word);
            }
            for reader in &mut readers {
                for _ in 0..random.below(4) {
                    let _ = reader.has_more();
                    let _ = reader.read(&mut payload);
                    assert!(payload.len() <= 4096, "seed {seed}");
                    if let Ok(view) = reader.look() {
                        let _ = view.fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(word)));
                    }
                }
            }
            let _ = shared.ring().page(&mut payload);
        }
    }
}

#[test]
fn a_sleeping_reader_is_woken_over_shared_memory_and_at_several_rings() {
    let scene = Scene::new();
    let second = scene.directory.path().join("b.ring");
    let mut writers = [scene.create(4096), shared::create(&second, &Options::default()).unwrap()];
    let shared = [shared::open(&scene.path()).unwrap(), shared::open(&second).unwrap()];
    let mut readers = shared.each_ref().map(|it| it.ring().reader_at_head());
    let doorbells = shared.each_ref().map(|it| it.doorbell().as_ref());
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut payload = Vec::new();
            (0..200)
                .map(|_| {
                    let look = || {
                        let next = |reader: &mut ring::Reader| match reader.read(&mut payload) {
                            Read::Record { totals, .. } => Some(totals[0]),
                            _ => None,
                        };
                        readers.iter_mut().find_map(next)
                    };
                    wait_any(&doorbells, Idle::Sleep, WATCHDOG, look).expect("a wake-up was lost")
                })
                .sum::<u64>()
        });
        for number in 0..200 {
            let writer = &mut writers[(number % 2) as usize];
            write(writer, number);
            writer.ring_doorbell();
        }
        assert_eq!(sleeper.join().unwrap(), 199 * 200 / 2);
    });
}

#[test]
fn a_hundred_readers_read_the_same() {
    let scene = Scene::new();
    let mut writer = scene.create(1 << 16);
    let shared = shared::open(&scene.path()).unwrap();
    let mut readers: Vec<_> = (0..100).map(|_| shared.ring().reader_at_head()).collect();
    let mut payload = Vec::new();
    for number in 0..500 {
        write(&mut writer, number);
        let (kind, totals, bytes) = record(number);
        for reader in &mut readers {
            assert_eq!(reader.read(&mut payload), Read::Record { kind, totals });
            assert_eq!(payload, bytes);
        }
    }
}
