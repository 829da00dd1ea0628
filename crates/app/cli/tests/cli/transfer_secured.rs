//! `send` and `recv` with keys: who is listed transfers, and nobody else is heard.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::program::{Running, run};

/// Private keys in base64, and the public keys that belong to them.
const DAQ: (&str, &str) =
    ("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=");
const ARCHIVE: (&str, &str) =
    ("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=", "zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=");
const STRANGER: (&str, &str) =
    ("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=", "Xf7dO2vUf2+ijuFdlp1bsOpTd01Ii9r53xxuASSz7yI=");

fn key_file(folder: &Path, name: &str, key: (&str, &str), mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("{}\n", key.0)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A folder with keys, something to send, and a place to receive into.
struct Scene {
    folder: tempfile::TempDir,
    content: Vec<u8>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> =
            (0..3_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        fs::write(folder.path().join("shot.bin"), &content).unwrap();
        fs::create_dir(folder.path().join("incoming")).unwrap();
        Self { folder, content }
    }

    fn key(&self, name: &str, key: (&str, &str)) -> String {
        key_file(self.folder.path(), name, key, 0o600)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn received(&self) -> PathBuf {
        self.folder.path().join("incoming/shot.bin")
    }

    /// Starts the archive, which lists the key of `daq` alone.
    fn archive(&self) -> (Running, String) {
        let (key, incoming) = (self.key("archive.key", ARCHIVE), self.path("incoming"));
        let words = ["recv", "--json", &incoming, "udt://127.0.0.1:0", "--key", &key, "--peer", DAQ.1, "-1"];
        let running = Running::start(&words);
        let listening = running.next_line().unwrap();
        let address = format!("udt://127.0.0.1:{}", listening["port"]);
        let secured = running.next_line().unwrap();
        assert_eq!(secured["event"], "secured");
        assert_eq!((&secured["public_key"], &secured["peers"]), (&ARCHIVE.1.into(), &1.into()));
        (running, address)
    }

    fn send(&self, address: &str, others: &[&str]) -> std::process::Output {
        run(&[&["send", &self.path("shot.bin"), address, "--json"], others].concat())
    }
}

#[test]
fn a_listed_peer_transfers_and_others_are_not_heard() {
    let scene = Scene::new();
    let (archive, address) = scene.archive();
    let stranger = scene.key("stranger.key", STRANGER);
    let daq = scene.key("daq.key", DAQ);
    // Not listed, then without a key: neither gets an answer, and nothing is there.
    let refused = scene.send(&address, &["--key", &stranger, "--peer", ARCHIVE.1]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("no answer from the peer"), "{said}");
    assert!(said.contains("each end with the other's public key"), "{said}");
    let refused = scene.send(&address, &[]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(
        fs::read_dir(scene.path("incoming"))
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name() != ".tallycast-partial" })
            .count(),
        0
    );
    let sent = scene.send(&address, &["--streams", "2", "--key", &daq, "--peer", ARCHIVE.1]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let lines = archive.lines_until(|line| line["event"] == "sessions");
    assert!(fs::read(scene.received()).unwrap() == scene.content);
    let warnings: Vec<_> =
        lines.iter().filter(|line| line["event"] == "warning").map(|line| &line["what"]).collect();
    assert_eq!(
        warnings,
        ["clients have a key that is not listed and are refused", "clients have no key and are not heard"]
    );
    let sum = lines.last().unwrap();
    assert!(sum["unknown_peers"].as_u64() > Some(0) && sum["clear"].as_u64() > Some(0), "{sum}");
    // One session for each stream.
    assert_eq!(sum["sessions"], 2, "{sum}");
}

#[test]
fn keys_that_others_may_read_and_keys_without_peers_are_refused() {
    let scene = Scene::new();
    let open = key_file(scene.folder.path(), "open.key", DAQ, 0o644);
    let failed = scene.send("udt://127.0.0.1:9", &["--key", &open, "--peer", ARCHIVE.1]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("others may read it") && said.contains("chmod 600"), "{said}");
    let daq = scene.key("daq.key", DAQ);
    let failed = scene.send("udt://127.0.0.1:9", &["--key", &daq]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains("add --peer") && said.contains(DAQ.1) && !said.contains(DAQ.0), "{said}");
    let two = ["--key", &daq, "--peer", ARCHIVE.1, "--peer", STRANGER.1];
    let said = |address: &str, words: &[&str]| {
        String::from_utf8_lossy(&scene.send(address, words).stderr).into_owned()
    };
    let unlisted = said(&format!("udt://127.0.0.1:9?peer={}", STRANGER.1), &two[..4]);
    assert!(unlisted.contains("the peer that the address names is not listed"), "{unlisted}");
    let named = said(&format!("udt://127.0.0.1:9?peer={}", STRANGER.1), &two);
    assert!(named.contains("no answer from the peer"), "{named}");
    let keyless = said(&format!("udt://127.0.0.1:9?peer={}", STRANGER.1), &[]);
    assert!(keyless.contains("add --key FILE"), "{keyless}");
    let said = said("udt://127.0.0.1:9", &two);
    assert!(said.contains("2 are listed\nlist that one only"), "{said}");
}

#[test]
fn secure_off_in_the_address_reaches_a_receiver_without_keys() {
    let scene = Scene::new();
    let running = Running::start(&["recv", "--json", &scene.path("incoming"), "udt://127.0.0.1:0", "-1"]);
    let address = format!("udt://127.0.0.1:{}?secure=off", running.next_line().unwrap()["port"]);
    let daq = scene.key("daq.key", DAQ);
    let sent = scene.send(&address, &["--key", &daq, "--peer", ARCHIVE.1]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(fs::read(scene.received()).unwrap() == scene.content);
}

#[test]
fn a_peer_taken_from_the_file_is_cut_off_while_it_transfers_and_a_bad_file_is_told_and_changes_nothing() {
    let scene = Scene::new();
    let keys = |words: &[&str]| {
        let made = run(&[&["keys"], words].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let [archive, daq] = ["archive", "daq"].map(|it| scene.path(&format!("keys/{it}.keys")));
    keys(&["new", &scene.path("keys"), "--station", "archive"]);
    keys(&["add", "daq", "--authority", &scene.path("keys/lab.authority"), "--like", &archive]);
    let alone = fs::read_to_string(&archive).unwrap();
    keys(&["peers", &archive, &daq]);
    let listing = fs::read_to_string(&archive).unwrap();
    let rewrite = |text: &str| sys::private_file::replace(Path::new(&archive), text).unwrap();
    let receiver =
        Running::start(&["recv", "--json", &scene.path("incoming"), "udt://127.0.0.1:0", "--key", &archive]);
    let address = format!("udt://127.0.0.1:{}", receiver.next_line().unwrap()["port"]);
    // 12 MB take a minute: what ends it is the list.
    let words = ["send", "--json", &scene.path("shot.bin"), &address, "--key", &daq, "-b", "1600k"];
    let sender = Running::start(&[&words[..], &["--patience", "1s"]].concat());
    receiver.lines_until(|line| line["event"] == "progress");
    rewrite("format = 1\n");
    let warned = receiver.lines_until(|line| line["event"] == "warning");
    let what = warned.last().unwrap()["what"].as_str().unwrap().to_owned();
    assert!(what.contains("the peers listed before stay listed") && what.contains("archive.keys"), "{what}");
    receiver.lines_until(|line| line["event"] == "progress");
    rewrite(&alone);
    let cut = receiver.lines_until(|line| line["event"] == "sent_away");
    assert!(cut.iter().any(|line| line["event"] == "relisted" && line["peers"] == 0), "{cut:?}");
    assert_eq!(cut.last().unwrap()["reason"], "its key is no longer listed");
    sender.lines_until(|line| line["event"] == "account");
    assert!(!scene.received().exists());
    rewrite(&listing);
    receiver.lines_until(|line| line["event"] == "relisted" && line["peers"] == 1);
    let sent = scene.send(&address, &["--key", &daq]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    assert!(fs::read(scene.received()).unwrap() == scene.content);
}
