//! Transfers over connections within the process: complete, cut off at any byte, and with faulty peers.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use units::Random;

use crate::frame::{Answer, Frame, FromReceiver, FromSender, HEADER_BYTES, word_frame};
use crate::*;

/// Connection that breaks after a number of written bytes.
struct Cut {
    stream: UnixStream,
    left: AtomicI64,
}

impl Cut {
    fn never(stream: UnixStream) -> Self {
        Self::after(stream, i64::MAX)
    }

    fn after(stream: UnixStream, left: i64) -> Self {
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time above zero");
        Self { stream, left: AtomicI64::new(left) }
    }
}

impl Read for &Cut {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(out)
    }
}

impl Write for &Cut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.load(Ordering::Relaxed)).unwrap_or(0);
        if left == 0 {
            self.stream.shutdown(std::net::Shutdown::Both)?;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let count = (&self.stream).write(&bytes[..bytes.len().min(left)])?;
        self.left.fetch_sub(count as i64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("the system has sockets")
}

fn into(folder: &Path, may_replace: bool) -> Receiver {
    Receiver::new(Whereto::Directory(Store::open(folder, may_replace).expect("it can be written")))
}

/// Returns the result of one connection's transfer: each end's outcome, the receiver's account, and the number of
/// data bytes moved.
fn transfer(
    sender: &mut Sender,
    receiver: &Receiver,
    cuts: (i64, i64),
) -> (Result<(), Failure>, Result<(), Failure>, Tally, u64) {
    let (near, far) = pair();
    let (mut tally, mut moved) = (Tally::default(), 0);
    let (sent, received) = std::thread::scope(|scope| {
        let (tally, moved) = (&mut tally, &mut moved);
        let far = scope.spawn(move || {
            let far = Cut::after(far, cuts.1);
            receiver.receive(&far, &|| false, tally, &mut |notice| {
                if let Notice::Moved { bytes } = notice {
                    *moved += bytes;
                }
            })
        });
        let near = Cut::after(near, cuts.0);
        let sent = sender.send(&near, &|| false, &mut |_| {});
        drop(near);
        (sent, far.join().expect("it does not panic"))
    });
    (sent, received, tally, moved)
}

fn some_bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).take(count).collect()
}

/// Creates a directory with a few files of all sizes; returns its path and its own name.
fn tree(within: &Path) -> PathBuf {
    let top = within.join("shot-7");
    fs::create_dir_all(top.join("empty/very")).unwrap();
    fs::create_dir_all(top.join("raw")).unwrap();
    fs::write(top.join("raw/large.bin"), some_bytes(1, 3_500_000)).unwrap();
    fs::write(top.join("raw/none"), b"").unwrap();
    fs::write(top.join("notes ü.txt"), b"fine").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", top.join("link")).unwrap();
    top
}

fn names_and_bytes(top: &Path) -> Vec<(String, Vec<u8>)> {
    let listing = Listing::of(&[top.to_owned()]).unwrap();
    let bytes = |entry: &Entry| fs::read(top.parent().unwrap().join(&entry.path)).unwrap_or_default();
    listing.entries().iter().map(|entry| (entry.path.clone(), bytes(entry))).collect()
}

/// An odd name costs itself, and what is within it if it is a directory.
#[test]
fn of_a_directory_with_odd_names_the_rest_arrives() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(from.path());
    fs::remove_file(top.join("link")).unwrap();
    fs::write(top.join("line\nbreak ü.txt"), b"odd").unwrap();
    fs::write(top.join(OsStr::from_bytes(b"f\xfcr.txt")), b"Latin-1").unwrap();
    fs::create_dir(top.join(OsStr::from_bytes(b"raw/\xff"))).unwrap();
    fs::write(top.join(OsStr::from_bytes(b"raw/\xff/inside")), b"unreached").unwrap();
    let listing = Listing::of(std::slice::from_ref(&top)).unwrap();
    let left: Vec<(String, &str)> = listing
        .left_out
        .iter()
        .map(|it| (it.shown().replace(top.to_str().unwrap(), ""), &*it.reason))
        .collect();
    let expected = [
        ("/f\\xfcr.txt", "its name is not UTF-8"),
        ("/line\\nbreak ü.txt", "its name is refused: it contains a control character"),
        ("/raw/\\xff", "its name is not UTF-8"),
    ];
    assert_eq!(left, expected.map(|(path, reason)| (path.to_owned(), reason)));
    let mut sender = Sender::new(listing);
    let (sent, received, tally, _) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    assert_eq!((tally.offered, tally.delivered, tally.missing()), (7, 7, 0));
    assert_eq!(fs::read(to.path().join("shot-7/notes ü.txt")).unwrap(), b"fine");
    // A path that was given by name is no accident.
    let given = top.join(OsStr::from_bytes(b"f\xfcr.txt"));
    assert!(matches!(Listing::of(&[given]), Err(ListingError::NotText(_))));
}

#[test]
fn a_directory_arrives_as_it_was() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(from.path());
    let listing = Listing::of(std::slice::from_ref(&top)).unwrap();
    assert_eq!(listing.left_out, [LeftOut { path: top.join("link"), reason: "a symbolic link".into() }]);
    let mut sender = Sender::new(listing);
    let receiver = into(to.path(), false);
    let (sent, received, tally, moved) = transfer(&mut sender, &receiver, (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    assert_eq!((tally.offered, tally.delivered, tally.missing(), moved), (7, 7, 0, 3_500_004));
    assert_eq!(sender.tally(), tally, "both ends count the same");
    fs::remove_file(top.join("link")).unwrap();
    assert_eq!(names_and_bytes(&to.path().join("shot-7")), names_and_bytes(&top));
    let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(modified(to.path().join("shot-7/raw/large.bin")), modified(top.join("raw/large.bin")));
    assert!(!to.path().join(PARTIAL_FOLDER).exists());
    // Once more: nothing is transferred.
    let mut again = Sender::new(Listing::of(&[top]).unwrap());
    let (sent, received, tally, moved) = transfer(&mut again, &receiver, (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok());
    assert_eq!((tally.already_there, tally.missing(), moved), (7, 0, 0));
    assert_eq!(again.tally(), tally);
}

#[test]
fn one_odd_name_is_left_out_and_everything_beside_it_is_offered() {
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("shot");
    let odd = [top.join(std::ffi::OsStr::from_bytes(b"latin-\xfc")), top.join("tab\u{9}")];
    fs::create_dir_all(top.join("deep")).unwrap();
    fs::write(top.join("deep/good"), "1").unwrap();
    odd.iter().for_each(|path| fs::write(path, "2").unwrap());
    let listing = Listing::of(std::slice::from_ref(&top)).unwrap();
    let offered: Vec<&str> = listing.entries().iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(offered, ["shot", "shot/deep", "shot/deep/good"]);
    let left_out: Vec<&PathBuf> = listing.left_out.iter().map(|it| &it.path).collect();
    assert_eq!(left_out, [&odd[0], &odd[1]]);
    assert_eq!(listing.left_out[1].reason, "its name is refused: it contains a control character");
    assert!(Listing::of(&[odd[1].clone()]).is_err(), "a name that was given is an error");
}

/// Both directions break at random bytes, and both ends lose their state; partial files are continued.
#[test]
fn whatever_breaks_is_gone_on_with() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = tree(from.path());
        let (mut total, mut tries) = (0, 0);
        let mut sender = Sender::new(Listing::of(std::slice::from_ref(&top)).unwrap());
        loop {
            // Later each time, so that it completes.
            let cut = |random: &mut Random| (random.below(1 << (12 + tries)) + 1).cast_signed();
            let cuts = (cut(&mut random), cut(&mut random));
            // A killed receiver is replaced by a new one, and sometimes a sender is, too.
            let receiver = into(to.path(), false);
            if random.below(2) == 0 {
                sender = Sender::new(Listing::of(std::slice::from_ref(&top)).unwrap());
            }
            let (sent, received, _, moved) = transfer(&mut sender, &receiver, cuts);
            total += moved;
            tries += 1;
            match sent {
                Ok(()) => break assert!(received.is_ok(), "seed {seed}: {received:?}"),
                Err(failure) => assert!(failure.is_worth_another_try(), "seed {seed}: {failure}"),
            }
        }
        assert_eq!(sender.tally().missing(), 0, "seed {seed}");
        fs::remove_file(top.join("link")).unwrap();
        assert_eq!(names_and_bytes(&to.path().join("shot-7")), names_and_bytes(&top), "seed {seed}");
        // Each break costs at most the piece in flight.
        assert!(total <= 3_500_004 + tries * (1 << 20), "seed {seed}: {total} bytes in {tries} tries");
    }
}

#[test]
fn what_is_there_is_not_replaced_unless_it_may_be() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, bytes) in [("same", b"1111"), ("other", b"2222"), ("longer", b"3333"), ("folder", b"4444")] {
        fs::write(from.path().join(name), bytes).unwrap();
    }
    fs::write(to.path().join("same"), b"1111").unwrap();
    fs::write(to.path().join("other"), b"mine").unwrap();
    fs::write(to.path().join("longer"), b"mine, too").unwrap();
    fs::create_dir(to.path().join("folder")).unwrap();
    let paths: Vec<PathBuf> =
        ["same", "other", "longer", "folder"].iter().map(|name| from.path().join(name)).collect();
    let mut sender = Sender::new(Listing::of(&paths).unwrap());
    let (sent, received, tally, moved) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    assert_eq!((tally.already_there, tally.refused, tally.missing(), moved), (1, 3, 0, 0));
    assert_eq!(sender.tally(), tally);
    assert_eq!(fs::read(to.path().join("other")).unwrap(), b"mine");
    let mut sender = Sender::new(Listing::of(&paths).unwrap());
    let (sent, _, tally, _) = transfer(&mut sender, &into(to.path(), true), (i64::MAX, i64::MAX));
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!((tally.already_there, tally.delivered, tally.refused), (1, 2, 1), "a directory stays");
    assert_eq!(fs::read(to.path().join("longer")).unwrap(), b"3333");
}

#[test]
fn memory_goes_nowhere_and_is_verified() {
    let mut sender = Sender::new(Listing::of_memory(10_000_001));
    let (sent, received, tally, moved) =
        transfer(&mut sender, &Receiver::new(Whereto::Nowhere), (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok());
    assert_eq!((tally.delivered_bytes, moved), (10_000_001, 10_000_001));
}

/// Returns a receiver's reaction to handwritten frames: its failure, the account, and its messages.
fn tell(receiver: &Receiver, frames: &[Vec<u8>]) -> (Result<(), Failure>, Tally, String) {
    let (near, far) = pair();
    let mut tally = Tally::default();
    let outcome = std::thread::scope(|scope| {
        let tally = &mut tally;
        let receiving =
            scope.spawn(move || receiver.receive(&Cut::never(far), &|| false, tally, &mut |_| {}));
        // A receiver that has closed already needs no more frames.
        let _ = (&near).write_all(&frames.concat());
        near.shutdown(std::net::Shutdown::Write).unwrap();
        receiving.join().expect("it does not panic")
    });
    let mut said = Vec::new();
    // A reset follows its messages.
    let _ = (&near).read_to_end(&mut said);
    (outcome, tally, String::from_utf8_lossy(&said).into_owned())
}

fn hello() -> Vec<u8> {
    word_frame(&FromSender::Hello {
        protocol: "tallycast transfer".into(),
        version: VERSION,
        hears_busy: false,
    })
}

fn offer(path: &str, bytes: u64) -> Vec<u8> {
    let entry = Entry { path: path.into(), kind: Kind::File, bytes, modified_ns: 0, mode: 0o4777 };
    word_frame(&FromSender::Entries { entries: vec![entry], last: true })
}

fn start(from: u64) -> Vec<u8> {
    word_frame(&FromSender::Start { index: 0, from })
}

fn data(bytes: &[u8]) -> Vec<u8> {
    let mut piece = [&[0; HEADER_BYTES + 8][..], bytes].concat();
    frame::seal_data(&mut piece);
    piece
}

fn end(bytes: &[u8]) -> Vec<u8> {
    word_frame(&FromSender::End { index: 0, blake3: blake3::hash(bytes).to_hex().to_string() })
}

#[test]
fn a_sender_that_lies_gets_nothing_into_its_place() {
    let to = tempfile::tempdir().unwrap();
    let inside = to.path().join("in");
    let receiver = into(&inside, true);
    let done = word_frame(&FromSender::Done);
    let (outcome, tally, _) =
        tell(&receiver, &[hello(), offer("good", 4), start(0), data(b"good"), end(b"good"), done.clone()]);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(tally.delivered, 1);
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(inside.join("good")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o777, "no more than the lower nine bits");
    for path in ["../out", "/tmp/tallycast-out", "a/../../out", ".tallycast-partial/x"] {
        let (outcome, tally, said) = tell(&receiver, &[hello(), offer(path, 4), done.clone()]);
        assert!(outcome.is_ok() && said.contains("refuses"), "{path}: {outcome:?} {said}");
        assert_eq!((tally.refused, tally.missing()), (1, 0));
    }
    let bad: [(&str, Vec<Vec<u8>>); 10] = [
        ("does not greet", vec![offer("bad", 4)]),
        ("frame of kind 71", vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()]),
        ("more data than", vec![hello(), offer("bad", 4), start(0), data(b"longer")]),
        ("ends after 2 of 4", vec![hello(), offer("bad", 4), start(0), data(b"no"), end(b"no")]),
        ("resumes at byte 3", vec![hello(), offer("bad", 4), start(3)]),
        ("data of no file", vec![hello(), offer("bad", 4), data(b"good")]),
        ("was not begun", vec![hello(), offer("bad", 4), end(b"good")]),
        (
            "not being transferred",
            vec![hello(), offer("bad", 4), word_frame(&FromSender::Start { index: 1, from: 0 })],
        ),
        (
            "claims a file that does not exist",
            vec![hello(), offer("bad", 4), word_frame(&FromSender::Same { index: 0 })],
        ),
        ("not enough space", vec![hello(), offer("bad", 1 << 62)]),
    ];
    for (expected, frames) in bad {
        let (outcome, _, said) = tell(&receiver, &frames);
        let failure = outcome.expect_err(expected);
        assert!(failure.to_string().contains(expected), "{expected}: {failure}");
        assert!(said.contains("fail"), "the other end learns it: {said}");
        assert!(!inside.join("bad").exists());
    }
    let (_, _, said) =
        tell(&receiver, &[hello(), offer("bad", 4), start(0), data(b"evil"), end(b"good"), done]);
    assert!(said.contains("damaged") && !inside.join("bad").exists(), "{said}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "nothing beside the directory");
}

/// A peer that sends without pause does not keep a receiver from ending.
#[test]
fn a_receiver_ends_when_it_is_wished_however_much_there_is_to_hear() {
    let to = tempfile::tempdir().unwrap();
    let receiver = into(to.path(), true);
    let (near, far) = pair();
    let (moved, mut tally) = (AtomicI64::new(0), Tally::default());
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begin = [hello(), offer("endless", 1 << 40), start(0)].concat();
            let piece = data(&[7; 50_000]);
            let mut said = (&near).write_all(&begin);
            while said.is_ok() {
                said = (&near).write_all(&piece);
            }
        });
        let stop = || moved.load(Ordering::Relaxed) > 1_000_000;
        let outcome = receiver.receive(&Cut::never(far), &stop, &mut tally, &mut |notice| {
            if let Notice::Moved { bytes } = notice {
                moved.fetch_add(bytes as i64, Ordering::Relaxed);
            }
        });
        near.shutdown(std::net::Shutdown::Both).unwrap();
        outcome
    });
    // If the disk is smaller than the offered size it is refused at once.
    assert!(matches!(outcome, Err(Failure::Stopped | Failure::Room { .. })), "{outcome:?}");
    assert_eq!(tally.missing(), 1);
}

fn offering(folder: &Path) -> Sender {
    fs::write(folder.join("one"), some_bytes(9, 10_000)).unwrap();
    Sender::new(Listing::of(&[folder.join("one")]).unwrap())
}

#[test]
fn a_sender_gives_up_a_receiver_that_says_nothing_for_as_long_as_its_patience() {
    let from = tempfile::tempdir().unwrap();
    let mut sender = offering(from.path());
    let (near, _far) = pair();
    // The number of times that the path carries something after all, each within the time limit.
    let left = AtomicI64::new(20);
    let carried = || left.fetch_sub(1, Ordering::Relaxed).max(0).unsigned_abs();
    let patience = Patience { at_most: Duration::from_millis(30), carried: &carried };
    let failure = sender.send_within(&Cut::never(near), Some(patience), &|| false, &mut |_| {}).unwrap_err();
    assert!(failure.is_worth_another_try(), "{failure}");
    assert_eq!(failure.to_string(), "the connection broke: no progress for 30ms");
    assert!(left.into_inner() <= -1, "as long as something is carried it waits");
    assert_eq!((sender.tally().offered, sender.tally().missing()), (1, 1));
}

#[test]
fn a_receiver_that_looks_through_what_it_has_says_so_to_senders_that_understand_it() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(to.path().join("one"), some_bytes(9, 10_000)).unwrap();
    let offer = offer("one", 10_000);
    let bye = word_frame(&FromSender::Same { index: 0 });
    let end = [bye, word_frame(&FromSender::Done)].concat();
    let hearing = word_frame(&FromSender::Hello {
        protocol: "tallycast transfer".into(),
        version: VERSION,
        hears_busy: true,
    });
    for (hello, is_told) in [(hearing, true), (hello(), false)] {
        let (outcome, tally, said) = tell(&into(to.path(), false), &[hello, offer.clone(), end.clone()]);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!((said.contains("busy"), tally.already_there), (is_told, 1), "{said}");
    }
    // A whole transfer still succeeds.
    let mut sender = offering(from.path());
    let (sent, received, tally, _) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    assert_eq!((tally.already_there, sender.tally().already_there), (1, 1));
}

/// Whole streams of frames with changed bytes: the receiver ends, and nothing outside the directory changes.
#[test]
fn nothing_that_arrives_breaks_a_receiver() {
    let to = tempfile::tempdir().unwrap();
    let receiver = into(&to.path().join("in"), true);
    let mut random = Random::new(5);
    let done = word_frame(&FromSender::Done);
    let sound = [hello(), offer("good", 4), start(0), data(b"good"), end(b"good"), done].concat();
    for _ in 0..2_000 {
        let mut bytes = sound.clone();
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            bytes[at] ^= 1 << random.below(8);
        }
        bytes.truncate(usize::try_from(random.below(bytes.len() as u64 * 4)).unwrap().max(1));
        let (_, tally, _) = tell(&receiver, &[bytes]);
        let _ = tally.missing_bytes();
    }
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "nothing beside the directory");
}

#[test]
fn a_receiver_that_lies_is_left() {
    let from = tempfile::tempdir().unwrap();
    fs::write(from.path().join("a"), b"1234").unwrap();
    let has = |bytes| Answer::Has { bytes, blake3: "00".into() };
    let answers = |answer: Answer| word_frame(&FromReceiver::Answers { answers: vec![answer] });
    let cases: [(&str, Vec<Vec<u8>>); 5] = [
        (
            "not being transferred",
            vec![answers(Answer::Nothing), word_frame(&FromReceiver::Verified { index: 9 })],
        ),
        ("the disk is full", vec![word_frame(&FromReceiver::Fail { reason: "the disk is full".into() })]),
        ("more answers", vec![word_frame(&FromReceiver::Answers { answers: vec![has(1), has(2)] })]),
        ("instead of answers", vec![word_frame(&FromReceiver::Finished)]),
        ("unrequested", vec![answers(has(u64::MAX)), answers(Answer::Nothing)]),
    ];
    for (expected, frames) in cases {
        let (near, far) = pair();
        let mut sender = Sender::new(Listing::of(&[from.path().join("a")]).unwrap());
        (&far).write_all(&frames.concat()).unwrap();
        let failure = sender.send(&Cut::never(near), &|| false, &mut |_| {}).expect_err(expected);
        assert!(failure.to_string().contains(expected), "{expected}: {failure}");
        assert!(!failure.is_worth_another_try());
        assert_eq!(sender.tally().delivered, 0);
    }
}

/// A partial file of a silent sender comes over a second connection.
#[test]
fn a_newer_connection_goes_on_with_what_an_older_one_holds() {
    let to = tempfile::tempdir().unwrap();
    let receiver = into(to.path(), false);
    let (near, far) = pair();
    std::thread::scope(|scope| {
        let receiver = &receiver;
        let older = scope
            .spawn(move || receiver.receive(&Cut::never(far), &|| false, &mut Tally::default(), &mut |_| {}));
        (&near).write_all(&[hello(), offer("a", 8), start(0), data(b"1234")].concat()).unwrap();
        let part = to.path().join(PARTIAL_FOLDER);
        while fs::read_dir(&part).into_iter().flatten().flatten().all(|it| it.metadata().unwrap().len() < 4) {
            std::thread::yield_now();
        }
        let done = word_frame(&FromSender::Done);
        let (outcome, tally, said) =
            tell(receiver, &[hello(), offer("a", 8), start(4), data(b"5678"), end(b"12345678"), done]);
        assert!(outcome.is_ok(), "{outcome:?}");
        assert!(said.contains("\"bytes\":4") && tally.delivered == 1, "{said}");
        assert!(matches!(older.join().unwrap(), Err(Failure::TakenOver)));
    });
    assert_eq!(fs::read(to.path().join("a")).unwrap(), b"12345678");
}

#[test]
fn a_file_that_changes_meanwhile_is_not_delivered() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("growing");
    fs::write(&path, some_bytes(3, 2_000_000)).unwrap();
    let mut sender = Sender::new(Listing::of(std::slice::from_ref(&path)).unwrap());
    fs::write(&path, some_bytes(4, 2_000_001)).unwrap();
    let (sent, received, tally, _) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
    assert_eq!((tally.refused, tally.missing()), (1, 0));
    assert_eq!(sender.tally(), tally);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "nothing of it stays");
}

#[test]
fn who_wishes_to_end_ends() {
    let (near, _far) = pair();
    let mut sender = Sender::new(Listing::of_memory(5));
    let stopped = sender.send(&Cut::never(near), &|| true, &mut |_| {});
    assert!(matches!(stopped, Err(Failure::Stopped)), "{stopped:?}");
}

#[test]
fn frames_of_data_are_no_words() {
    let mut body = data(b"abc")[HEADER_BYTES..].to_vec();
    assert_eq!(frame::read::<FromSender>(2, &mut body).unwrap(), Frame::Data);
    assert_eq!(body, b"abc");
}

/// Transfers over several connections that break after a number of bytes; returns as [`transfer`] does.
fn transfer_striped(
    sender: &mut Sender,
    receiver: &Receiver,
    streams: usize,
    cut: i64,
) -> (Result<(), Failure>, Result<(), Failure>, Tally, u64) {
    let (near, far): (Vec<_>, Vec<_>) = (0..streams).map(|_| pair()).unzip();
    // Each of them: a slow one alone might carry less, and never break.
    let near: Vec<Arc<Cut>> = near.into_iter().map(|stream| Arc::new(Cut::after(stream, cut))).collect();
    let far: Vec<Arc<Cut>> = far.into_iter().map(|stream| Arc::new(Cut::never(stream))).collect();
    let (mut tally, mut moved) = (Tally::default(), 0);
    let (sent, received) = std::thread::scope(|scope| {
        let (tally, moved) = (&mut tally, &mut moved);
        let far = scope.spawn(move || {
            receiver.receive(&Stripes::receiving(&far), &|| false, tally, &mut |notice| {
                if let Notice::Moved { bytes } = notice {
                    *moved += bytes;
                }
            })
        });
        let sent = sender.send(&Stripes::sending(&near), &|| false, &mut |_| {});
        drop(near);
        (sent, far.join().expect("it does not panic"))
    });
    (sent, received, tally, moved)
}

#[test]
fn a_file_over_several_streams_arrives_once_and_one_account_closes() {
    for streams in [2, 5] {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = tree(from.path());
        fs::remove_file(top.join("link")).unwrap();
        let mut sender = Sender::new(Listing::of(std::slice::from_ref(&top)).unwrap());
        let (sent, received, tally, moved) =
            transfer_striped(&mut sender, &into(to.path(), false), streams, i64::MAX);
        assert!(sent.is_ok() && received.is_ok(), "{sent:?} {received:?}");
        assert_eq!((tally.offered, tally.delivered, tally.missing(), moved), (7, 7, 0, 3_500_004));
        assert_eq!(sender.tally(), tally, "both ends count the same");
        assert_eq!(names_and_bytes(&to.path().join("shot-7")), names_and_bytes(&top));
    }
}

#[test]
fn a_stream_that_breaks_costs_what_was_in_flight_and_the_rest_is_resumed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("large.bin");
    fs::write(&path, some_bytes(1, 6_000_000)).unwrap();
    let mut sender = Sender::new(Listing::of(std::slice::from_ref(&path)).unwrap());
    let receiver = into(to.path(), false);
    let (mut moved, mut attempts) = (0, 0);
    while sender.tally().missing() > 0 {
        let cut = [400_000, 900_000, i64::MAX][attempts.min(2)];
        let (sent, _, tally, now) = transfer_striped(&mut sender, &receiver, 3, cut);
        assert!(sent.as_ref().err().is_none_or(Failure::is_worth_another_try), "{sent:?}");
        assert_eq!(tally.offered, tally.delivered + tally.already_there + tally.refused + tally.missing());
        moved += now;
        attempts += 1;
    }
    assert_eq!((attempts, sender.tally().delivered), (3, 1));
    assert_eq!(moved, 6_000_000, "nothing that was stored came again");
    assert_eq!(fs::read(to.path().join("large.bin")).unwrap(), some_bytes(1, 6_000_000));
}

fn place(index: u32) -> Place {
    Place { bundle: 7, streams: 3, index }
}

#[test]
fn streams_of_one_transfer_find_each_other_and_no_others() {
    let bundles: Bundles<u8, u32> = Bundles::default();
    let joined = std::thread::scope(|scope| {
        let bundles = &bundles;
        let strange = |neighbour, place: Place| {
            let (near, far) = pair();
            let refused = bundles.join((neighbour, &place), 9, &Cut::never(far), &|| false);
            assert!(matches!(refused, Err(Failure::Protocol(_))), "{refused:?}");
            drop(near);
        };
        let mut sides = Vec::new();
        for index in 0..3 {
            if index > 0 {
                strange(2, place(index));
                strange(1, Place { streams: 4, ..place(index) });
            }
            let (near, far) = pair();
            sides.push(scope.spawn(move || {
                let far = Cut::never(far);
                bundles.join((1, &place(index)), index, &far, &|| false)
            }));
            // The answer says that it is known, and the next may follow.
            join(&Cut::never(near), &place(index), &|| false).unwrap();
        }
        strange(1, place(1));
        strange(1, Place { bundle: 8, streams: MAX_STREAMS + 1, index: 0 });
        let first = sides.remove(0).join().unwrap().unwrap();
        bundles.end(&1, 7);
        let others = sides.into_iter().map(|side| side.join().unwrap().unwrap());
        std::iter::once(first).chain(others).collect::<Vec<_>>()
    });
    assert_eq!(joined, [Some(vec![0, 1, 2]), None, None]);
}

#[test]
fn a_transfer_whose_first_stream_breaks_at_once_is_not_awaited() {
    let bundles: Bundles<u8, u32> = Bundles::default();
    let (near, far) = pair();
    drop(near);
    let joined = bundles.join((1, &place(0)), 0, &Cut::never(far), &|| false);
    assert!(matches!(joined, Err(Failure::Connection(_))), "{joined:?}");
    let (_near, far) = pair();
    let joined = bundles.join((1, &place(1)), 1, &Cut::never(far), &|| false);
    assert!(matches!(joined, Err(Failure::Protocol(_))), "{joined:?}");
}

#[test]
fn another_protocol_is_told_from_another_version() {
    let words = |protocol: &str, version| {
        let protocol = protocol.to_owned();
        let order = Order { paths: vec![], to: String::new(), streams: 1, max_bytes_per_s: None };
        [
            FromSender::Hello { protocol: protocol.clone(), version, hears_busy: true },
            FromSender::Join { protocol: protocol.clone(), version, place: place(0) },
            FromSender::Order { protocol, version, order },
        ]
    };
    let hear = |word: &FromSender| {
        let (near, far) = pair();
        (&near).write_all(&word_frame(word)).unwrap();
        Opening::hear(&Cut::never(far), &|| false).map(drop)
    };
    for word in words("tallycast transfer", VERSION + 1) {
        assert!(matches!(hear(&word), Err(Failure::Version(2))));
    }
    for word in words("other\n", VERSION) {
        let said = hear(&word).unwrap_err().to_string();
        assert_eq!(said, "the other end violates the protocol: it speaks `other\\n`");
    }
    assert!(words("tallycast transfer", VERSION).iter().all(|word| hear(word).is_ok()));
}

/// A receiver of an earlier release answers a message that it does not know in this way.
#[test]
fn a_receiver_without_parallel_streams_is_named_with_a_way_out() {
    let (near, far) = pair();
    let reason = "the other end violates the protocol: malformed message: unknown variant `join`";
    (&far).write_all(&word_frame(&FromReceiver::Fail { reason: reason.into() })).unwrap();
    let failure = join(&Cut::never(near), &place(0), &|| false).unwrap_err();
    let said = failure.to_string();
    assert!(
        said.starts_with("the receiver takes one stream only: ") && said.ends_with("omit --streams"),
        "{said}"
    );
    assert!(!failure.is_worth_another_try());
}

#[test]
fn nothing_outside_an_offered_folder_is_listed_or_read() {
    let (offered, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = tree(offered.path());
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), top.join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), offered.path().join("file")).unwrap();
    let within = |path: &str| Listing::within(offered.path(), &[path.to_owned()]);
    let absolute = outside.path().join("secret");
    for path in [
        "..",
        "shot-7/../..",
        "/etc/passwd",
        absolute.to_str().unwrap(),
        ".",
        "",
        "a\0b",
        ".tallycast-partial",
    ] {
        assert!(matches!(within(path), Err(ListingError::Name(_))), "{path:?}");
    }
    for path in ["file", "shot-7/out", "shot-7/out/secret", "none"] {
        assert!(matches!(within(path), Err(ListingError::Unreadable { .. })), "{path}");
    }
    let left: Vec<String> = within("shot-7").unwrap().left_out.iter().map(LeftOut::shown).collect();
    assert_eq!(left, ["shot-7/link", "shot-7/out"]);
    // A folder is replaced by a link after it was listed: its files are not read any more.
    let listing = within("shot-7/raw").unwrap();
    let mut sender = Sender::new(listing);
    fs::rename(top.join("raw"), top.join("moved")).unwrap();
    fs::write(outside.path().join("large.bin"), some_bytes(1, 3_500_000)).unwrap();
    std::os::unix::fs::symlink(outside.path(), top.join("raw")).unwrap();
    let to = tempfile::tempdir().unwrap();
    let (sent, _, tally, moved) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!((tally.offered, tally.refused, moved), (3, 2, 0), "the directory itself is made");
}

#[test]
fn a_pipe_in_the_place_of_an_offered_file_is_not_waited_for() {
    let (offered, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = offered.path().join("log");
    fs::write(&path, "what was written").unwrap();
    let mut sender = Sender::new(Listing::within(offered.path(), &["log".to_owned()]).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (sent, _, tally, _) = transfer(&mut sender, &into(to.path(), false), (i64::MAX, i64::MAX));
    assert!(sent.is_ok(), "{sent:?}");
    assert_eq!((tally.refused, tally.missing()), (1, 0));
}

#[test]
fn an_order_is_answered_with_reports_and_an_account_that_closes() {
    let order =
        Order { paths: vec!["shot-7".into()], to: "udt://b".into(), streams: 2, max_bytes_per_s: None };
    let tally =
        Tally { offered: 3, offered_bytes: 30, delivered: 2, delivered_bytes: 20, ..Tally::default() };
    let give = |account: Report| {
        let (near, far) = pair();
        std::thread::scope(|scope| {
            let order = &order;
            let host = scope.spawn(move || {
                let far = Cut::never(far);
                let opening = Opening::hear(&far, &|| false).unwrap();
                assert_eq!((opening.order(), opening.place()), (Some(order), None));
                let reporter = Reporter::new(&far, &|| false);
                reporter.report(&Report::Listed { entries: 3, bytes: 30 }).unwrap();
                reporter.report(&account).unwrap();
                reporter.wait_for_end();
            });
            let mut reports = Vec::new();
            let carried =
                super::order(&Cut::never(near), order, &|| false, &mut |report| reports.push(report));
            host.join().unwrap();
            assert_eq!(reports, [Report::Listed { entries: 3, bytes: 30 }]);
            carried
        })
    };
    let carried = give(Report::Account { tally, moved_bytes: 20, error: None }).unwrap();
    assert_eq!((carried.tally, carried.tally.missing(), carried.moved_bytes), (tally, 1, 20));
    let wrong = Tally { delivered: 4, ..tally };
    let refused = give(Report::Account { tally: wrong, moved_bytes: 20, error: None });
    assert!(matches!(refused, Err(Failure::Protocol(_))), "{refused:?}");
    let refused = give(Report::Fail { reason: "this host offers no folder".into() });
    assert!(matches!(refused, Err(Failure::Peer(_))), "{refused:?}");
}
