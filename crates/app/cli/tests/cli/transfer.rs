//! `send` and `recv`: files transferred across kills of either end, verified, with accounts that close.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use serde_json::Value;
use support::wait_until;

use crate::program::{Running, command, run};

/// Rate slow enough to kill a transfer in progress, in bits per second: about five seconds for [`big`], also with a
/// delayed killer.
const SLOW: &str = "20M";
const BIG_BYTES: usize = 12_000_000;

/// Returns the size of the largest file: `TALLYCAST_BIG_BYTES`, for long runs, or else [`BIG_BYTES`].
fn big_bytes() -> usize {
    std::env::var("TALLYCAST_BIG_BYTES").map_or(BIG_BYTES, |text| text.parse().expect("a number of bytes"))
}

/// Bytes without repetition.
fn big() -> Vec<u8> {
    let mut word = 1_u64;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    (0..big_bytes()).map(|_| next()).collect()
}

/// A folder with something of everything.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let shot = folder.path().join("shot");
    fs::create_dir_all(shot.join("raw/empty")).unwrap();
    fs::write(shot.join("raw/big.bin"), big()).unwrap();
    fs::write(shot.join("note ü.txt"), "what was done").unwrap();
    fs::write(shot.join("nothing"), "").unwrap();
    folder
}

/// Starts a receiver; returns it and the address to send to.
fn receiver(words: &[&str]) -> (Running, String) {
    let running = Running::start(&[&["recv", "--json"], words].concat());
    let listening = running.next_line().unwrap();
    assert_eq!(listening["event"], "listening");
    let address = format!("udt://127.0.0.1:{}", listening["port"]);
    (running, address)
}

fn sender(paths: &Path, address: &str, others: &[&str]) -> Running {
    Running::start(&[&["send", paths.to_str().unwrap(), address, "--json"], others].concat())
}

/// Waits for an account, which must close; returns it and the lines before.
fn account(running: &mut Running) -> (Value, Vec<Value>) {
    let mut lines = running.lines_until(|line| line["event"] == "account");
    let account = lines.pop().unwrap();
    closes(&account, &lines);
    (account, lines)
}

/// Checks that an account closes, and agrees with the lines before it.
fn closes(account: &Value, lines: &[Value]) {
    for unit in ["", "_bytes"] {
        let of = |name: &str| account[format!("{name}{unit}")].as_u64().unwrap();
        let sum = of("delivered") + of("already_there") + of("refused") + of("missing");
        assert_eq!(of("offered"), sum, "{account}");
    }
    let lines = lines.iter().filter(|line| line["peer"] == account["peer"]);
    for word in ["delivered", "already_there", "refused"] {
        let files = lines.clone().filter(|line| line["event"] == "file" && line["outcome"] == word);
        assert_eq!(account[word], files.count(), "{word}: {account}");
    }
}

/// Waits until part of a file is at the receiver, and not all of it.
fn part_arrived(directory: &Path) {
    let partial = directory.join(".tallycast-partial");
    wait_until("part of a file", || {
        let parts = fs::read_dir(&partial).ok()?.filter_map(|part| part.ok()?.metadata().ok());
        parts.map(|part| part.len()).find(|bytes| *bytes > 2_000_000)
    });
}

fn is_whole(directory: &Path) {
    assert_eq!(fs::read(directory.join("shot/raw/big.bin")).unwrap(), big());
    assert_eq!(fs::read(directory.join("shot/note ü.txt")).unwrap(), b"what was done");
    assert_eq!(fs::read(directory.join("shot/nothing")).unwrap(), b"");
    assert!(directory.join("shot/raw/empty").is_dir());
    let left = fs::read_dir(directory.join(".tallycast-partial")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_directory_arrives_and_is_not_sent_twice() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (mut receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    for (word, moved_bytes) in [("delivered", big_bytes() as u64 + 13), ("already_there", 0)] {
        let mut sender = sender(&from.path().join("shot"), &address, &["--cc", "reno"]);
        for end in [&mut sender, &mut receiver] {
            let (account, _) = account(end);
            assert_eq!((&account["offered"], &account[word]), (&6.into(), &6.into()), "{account}");
            assert_eq!(account["moved_bytes"], moved_bytes);
        }
        assert_eq!(sender.wait().0.code(), Some(0));
        is_whole(to.path());
    }
    receiver.signal(Signal::INT);
    assert_eq!(receiver.wait().0.code(), Some(0));
}

#[test]
fn parallel_streams_carry_each_file_and_have_one_account() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (mut receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let mut sender = sender(&from.path().join("shot"), &address, &["--streams", "4"]);
    let (sent, _) = account(&mut sender);
    let (received, lines) = account(&mut receiver);
    for account in [&sent, &received] {
        assert_eq!(
            (&account["delivered"], &account["moved_bytes"]),
            (&6.into(), &(big_bytes() as u64 + 13).into())
        );
    }
    let joined: Vec<&Value> = lines.iter().filter(|line| line["event"] == "streams").collect();
    assert_eq!((joined.len(), &joined[0]["streams"]), (1, &4.into()), "{lines:?}");
    assert_eq!(sender.wait().0.code(), Some(0));
    is_whole(to.path());
    receiver.signal(Signal::INT);
    assert_eq!(receiver.wait().0.code(), Some(0));
}

#[test]
fn a_third_host_has_offered_files_sent_and_sees_the_account() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (_receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let (_offering, source) = receiver(&["--offer", from.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let order = |path: &str, more: &[&str]| {
        run(&[&["send", "--json", "--from", &source, path, &address], more].concat())
    };
    let output = order("shot", &["--streams", "2"]);
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let account = lines.last().unwrap();
    assert_eq!(account["event"], "account", "{lines:?}");
    closes(account, &lines);
    assert_eq!(
        (&account["delivered"], &account["missing"], output.status.code()),
        (&6.into(), &0.into(), Some(0))
    );
    is_whole(to.path());
    for (path, expected) in
        [("../shot", "it leaves the directory"), ("none", "No such file"), ("/etc", "absolute")]
    {
        let output = order(path, &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{path}: {said}");
        assert_eq!(output.status.code(), Some(2), "{path}");
    }
    // What only offers takes nothing, and what only takes offers nothing.
    let output = run(&["send", from.path().join("shot").to_str().unwrap(), &source]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("receives nothing"));
    let output = run(&["send", "--from", &address, "shot", &source]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("offers no folder"));
}

#[test]
fn an_offer_of_one_transfer_ends_after_it_and_not_after_a_refusal() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (_receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let offer = ["-1", "--offer", from.path().to_str().unwrap(), "udt://127.0.0.1:0"];
    let (offering, source) = receiver(&offer);
    let order = |path: &str, to: &str| run(&["send", "--from", &source, path, to]);
    assert_eq!(order("none", &address).status.code(), Some(2));
    let refused = order("shot", &format!("{address}?sndbuf=1000000"));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("an order gets buffers of at most 1 GiB"), "{said}");
    assert_eq!(order("shot", &address).status.code(), Some(0));
    assert_eq!(offering.wait().0.code(), Some(0));
    is_whole(to.path());
}

#[test]
fn another_file_of_that_name_stays_unless_it_may_be_replaced() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (note, there) = (from.path().join("shot/nothing"), to.path().join("nothing"));
    fs::write(&there, "older").unwrap();
    let directory = to.path().to_str().unwrap();
    let (_refusing, address) = receiver(&[directory, "udt://127.0.0.1:0"]);
    let output = run(&["send", note.to_str().unwrap(), &address]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nothing is not transferred") && said.contains("1 refused"), "{said}");
    assert_eq!(fs::read(&there).unwrap(), b"older");
    let (_replacing, address) = receiver(&[directory, "udt://127.0.0.1:0", "--overwrite"]);
    assert_eq!(run(&["send", note.to_str().unwrap(), &address]).status.code(), Some(0));
    assert_eq!(fs::read(&there).unwrap(), b"");
}

#[test]
fn a_killed_receiver_that_comes_back_gets_the_rest() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let directory = to.path().to_str().unwrap();
    // An attempt that finds no receiver before it is back.
    let (killed, address) = receiver(&[directory, &format!("udt://127.0.0.1:{}", support::ports::free())]);
    let mut sender = sender(&from.path().join("shot"), &address, &["--rate", SLOW]);
    part_arrived(to.path());
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().0.code(), None);
    let (mut again, _) = receiver(&[directory, &address, "--once"]);
    let (received, _) = account(&mut again);
    assert!(received["moved_bytes"].as_u64().unwrap() < big_bytes() as u64 - 1_000_000, "{received}");
    let (sent, lines) = account(&mut sender);
    assert_eq!((&sent["delivered"], &sent["missing"]), (&6.into(), &0.into()), "{sent}");
    assert!(lines.iter().any(|line| line["event"] == "broken"), "{lines:?}");
    assert_eq!((again.wait().0.code(), sender.wait().0.code()), (Some(0), Some(0)));
    is_whole(to.path());
}

#[test]
fn a_killed_sender_goes_on_with_the_same_command() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let killed = sender(&from.path().join("shot"), &address, &["--rate", SLOW]);
    part_arrived(to.path());
    killed.signal(Signal::KILL);
    drop(killed);
    let mut again = sender(&from.path().join("shot"), &address, &[]);
    let (sent, _) = account(&mut again);
    assert_eq!((&sent["refused"], &sent["missing"]), (&0.into(), &0.into()), "{sent}");
    assert!(sent["moved_bytes"].as_u64().unwrap() < big_bytes() as u64 - 1_000_000, "{sent}");
    assert_eq!(again.wait().0.code(), Some(0));
    is_whole(to.path());
    // The receiver has an account of each connection, the broken one included.
    let mut accounts = Vec::new();
    let lines = receiver.lines_until(|line| {
        accounts.extend((line["event"] == "account").then(|| line.clone()));
        accounts.len() == 2
    });
    accounts.iter().for_each(|account| closes(account, &lines));
    assert_eq!(accounts.iter().filter(|account| account["error"].is_null()).count(), 1, "{accounts:?}");
    receiver.signal(Signal::TERM);
    assert_eq!(receiver.wait().0.code(), Some(0), "all of it came in the end");
}

#[test]
fn both_ends_killed_amid_a_file_go_on_where_it_ended() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let directory = to.path().to_str().unwrap();
    let (killed_receiver, address) = receiver(&[directory, "udt://127.0.0.1:0"]);
    let killed_sender = sender(&from.path().join("shot"), &address, &["--rate", SLOW]);
    part_arrived(to.path());
    for killed in [killed_receiver, killed_sender] {
        killed.signal(Signal::KILL);
        assert_eq!(killed.wait().0.code(), None);
    }
    let (mut receiver, address) = receiver(&[directory, "udt://127.0.0.1:0", "--once"]);
    let mut sender = sender(&from.path().join("shot"), &address, &[]);
    for end in [&mut receiver, &mut sender] {
        let (account, _) = account(end);
        assert_eq!((&account["refused"], &account["missing"]), (&0.into(), &0.into()), "{account}");
        assert!(account["moved_bytes"].as_u64().unwrap() < big_bytes() as u64 - 1_000_000, "{account}");
    }
    assert_eq!((receiver.wait().0.code(), sender.wait().0.code()), (Some(0), Some(0)));
    is_whole(to.path());
}

#[test]
fn whoever_is_asked_to_stop_says_what_is_missing() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (mut receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let mut sender = sender(&from.path().join("shot"), &address, &["--rate", SLOW]);
    part_arrived(to.path());
    sender.signal(Signal::INT);
    for (end, error) in [(&mut sender, "stopped"), (&mut receiver, "the peer closed the connection")] {
        let (account, _) = account(end);
        assert!(account["missing"].as_u64().unwrap() > 0, "{account}");
        assert!(account["error"].as_str().unwrap().contains(error), "{account}");
    }
    receiver.signal(Signal::INT);
    assert_eq!((sender.wait().0.code(), receiver.wait().0.code()), (Some(1), Some(1)));
}

#[test]
fn a_full_disk_refuses_what_does_not_fit_and_keeps_what_is_whole() {
    let Some(disk) = Disk::mount() else { return };
    let from = folder();
    let (mut full, address) = receiver(&[disk.path.to_str().unwrap(), "udt://127.0.0.1:0", "--once"]);
    let note = from.path().join("shot/note ü.txt");
    let big = from.path().join("shot/raw/big.bin");
    // Told ahead …
    let paths = [note.to_str().unwrap(), big.to_str().unwrap()];
    let output = run(&["send", paths[0], paths[1], &address]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let bytes = fs::metadata(&note).unwrap().len() + fs::metadata(&big).unwrap().len();
    assert!(said.contains(&format!("{bytes} bytes needed")), "{said}");
    let (account_of_it, _) = account(&mut full);
    assert_eq!((&account_of_it["offered"], &account_of_it["missing"]), (&2.into(), &2.into()));
    assert_eq!(full.wait().0.code(), Some(2));
    // … and where another process takes the room meanwhile.
    disk.grow();
    let (mut filled, address) = receiver(&[disk.path.to_str().unwrap(), "udt://127.0.0.1:0", "--once"]);
    let words = ["send", paths[0], paths[1], &address, "--json", "--rate", SLOW];
    let mut sender = Running::start(&words);
    part_arrived(&disk.path);
    disk.fill();
    for end in [&mut filled, &mut sender] {
        let (account, _) = account(end);
        assert_eq!((&account["delivered"], &account["missing"]), (&1.into(), &1.into()), "{account}");
        assert!(account["error"].as_str().unwrap().contains("No space left on device"), "{account}");
    }
    assert_eq!((filled.wait().0.code(), sender.wait().0.code()), (Some(2), Some(2)));
    assert_eq!(fs::read(disk.path.join("note ü.txt")).unwrap(), b"what was done");
}

#[test]
fn a_receiver_that_may_open_no_more_files_says_so_and_keeps_what_is_whole() {
    let (from, to) = (folder(), tempfile::tempdir().unwrap());
    let (mut receiver, address) = receiver(&[to.path().to_str().unwrap(), "udt://127.0.0.1:0"]);
    let note = from.path().join("shot/note ü.txt");
    let whole = from.path().join("shot/raw/big.bin");
    let send = |path: &Path| run(&["send", path.to_str().unwrap(), &address]);
    assert_eq!(send(&note).status.code(), Some(0));
    let pid = Pid::from_raw(receiver.id().try_into().unwrap());
    let before = getrlimit(Resource::Nofile);
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(4), ..before }).unwrap();
    // The connection itself needs none: it is open, and tells the sender why its file is not accepted.
    let output = send(&whole);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the other end reports: ") && said.contains("Too many open files"), "{said}");
    assert_eq!(fs::read(to.path().join("note ü.txt")).unwrap(), b"what was done");
    prlimit(pid, Resource::Nofile, before).unwrap();
    assert_eq!(send(&whole).status.code(), Some(0));
    assert!(fs::read(to.path().join("big.bin")).unwrap() == big());
    let accounts: Vec<Value> = (0..3).map(|_| account(&mut receiver).0).collect();
    assert!(accounts[1]["error"].as_str().unwrap().contains("Too many open files"), "{accounts:?}");
}

#[test]
fn memory_goes_nowhere_and_is_verified() {
    let (mut receiver, address) = receiver(&["--memory", "udt://127.0.0.1:0", "--once"]);
    let output = run(&["send", "--memory", "20MB", &format!("{address}?mtu=9000"), "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let (account, _) = account(&mut receiver);
    assert_eq!(
        (&account["delivered_bytes"], &account["moved_bytes"]),
        (&20_000_000.into(), &20_000_000.into())
    );
    assert_eq!(receiver.wait().0.code(), Some(0));
}

/// Runs both ends with standard input and output; returns the sender's messages and the received data.
fn raw(of_receiver: &[&str], of_sender: &[&str], input: Vec<u8>) -> (Output, Output) {
    let mut receiver = command(&[&["recv", "--raw", "--json", "udt://127.0.0.1:0"], of_receiver].concat());
    let mut receiver = receiver.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(receiver.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    let listening: Value = serde_json::from_str(&line).unwrap();
    let address = format!("udt://127.0.0.1:{}", listening["port"]);
    let mut sender = command(&[&["send", "--raw", &address], of_sender].concat());
    let mut sender =
        sender.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let received = receiver.wait_with_output().unwrap();
    writer.join().unwrap();
    (sender.wait_with_output().unwrap(), received)
}

#[test]
fn standard_input_comes_out_as_it_went_in() {
    let megabytes = big_bytes() as f64 / 1e6;
    for (of_receiver, of_sender) in
        [(&[][..], &[][..]), (&["--messages"][..], &["--messages", "10kB"][..]), (&[], &["--cc", "scalable"])]
    {
        let (sender, receiver) = raw(of_receiver, of_sender, big());
        assert_eq!((sender.status.code(), receiver.status.code()), (Some(0), Some(0)), "{sender:?}");
        assert!(receiver.stdout == big(), "{of_sender:?}: {} bytes", receiver.stdout.len());
        let said = String::from_utf8(sender.stderr).unwrap();
        assert!(said.contains(&format!("{megabytes:.1} MB in ")), "{said}");
    }
    let (sender, receiver) = raw(&[], &[], Vec::new());
    assert_eq!((sender.status.code(), receiver.status.code(), receiver.stdout.len()), (Some(0), Some(0), 0));
}

#[test]
fn what_cannot_be_sent_or_received_is_told_with_a_way_out() {
    let (_receiver, address) = receiver(&["--memory", "udt://127.0.0.1:0"]);
    let refused = |arguments: &[&str], wanted: &str| {
        let output = run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("error: ") && said.contains(wanted), "{arguments:?}: {said}");
    };
    refused(&["send", "file"], "no destination is given");
    refused(&["send", &address], "nothing to send is given");
    refused(&["send", &address, "file"], "the address must come last");
    refused(&["send", "/no/such/file", &address], "/no/such/file: No such file");
    refused(&["send", "--raw", "file", &address], "--raw sends standard input");
    refused(&["send", "--memory", "1MB", &format!("{address}?cc=turbo")], "known are udt, reno");
    refused(&["send", "--memory", "1MB", &address, "--cc", "fixed"], "rate");
    refused(&["send", "--memory", "1MB", "udt://no.such.host.invalid"], "cannot resolve");
    refused(&["send", "--memory", "1MB", "udp://127.0.0.1"], "write it as udt://host:7400");
    refused(
        &["send", "--memory", "1MB", "udt://127.0.0.1:9"],
        "start `tallycast recv DIR` on the other host first",
    );
    refused(&["recv"], "no directory to receive into is given");
    refused(&["recv", "--memory", &address], "is in use by another program");
    refused(&["recv", "--raw", &address], "choose another port");
    refused(&["recv", "a", "b"], "unexpected second directory");
    refused(&["recv", "--raw", "a"], "take no directory");
    refused(&["recv", "/dev/null/in"], "cannot receive into /dev/null/in");
}

/// A separate disk, small enough to be filled.
struct Disk {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn mount() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: a small disk is mounted by root only");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::create_dir(&path).unwrap();
        let disk = Self { path, _folder: folder };
        disk.mount_with(&format!("size={}", big_bytes() / 2));
        Some(disk)
    }

    fn mount_with(&self, options: &str) {
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "small"]).arg(&self.path).status();
        assert!(status.unwrap().success(), "mount {options}");
    }

    /// Makes room for everything.
    fn grow(&self) {
        self.mount_with(&format!("remount,size={}", big_bytes() + big_bytes() / 3));
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut filler = fs::File::create(self.path.join("filler")).unwrap();
        while filler.write_all(&[1; 65_536]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Ending processes may hold it briefly: it is removed after them.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}
