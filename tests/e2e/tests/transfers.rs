//! Transfers between hosts: over several streams, on the order of a third host, along a long lossy path.

use std::path::{Path, PathBuf};

use e2e::{Command, Host, Lan, lan_or_skip};
use serde_json::Value;

/// Address of the receiver on the long path.
const FAR: &str = "udt://10.84.7.2:7400";

/// Returns bytes that differ from range to range.
fn bytes(seed: u32, count: u32) -> Vec<u8> {
    (0..count).map(|at| (at.wrapping_add(seed).wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// Makes a folder of three files, one of them in a folder of its own; returns their names and bytes.
fn offered(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    std::fs::create_dir_all(folder.join("shot/raw")).expect("room for a folder");
    let files = [("shot/raw/large", 4_000_000), ("shot/small", 70_000), ("shot/empty", 0)];
    let make = |(seed, (name, count)): (u32, (&str, u32))| {
        let bytes = bytes(seed, count);
        std::fs::write(folder.join(name), &bytes).expect("room for a file");
        (name.into(), bytes)
    };
    (1..).zip(files).map(make).collect()
}

/// Starts `recv` on a host, with these words; it listens.
fn receive(host: &Host, words: &[&str]) -> Command {
    let receiver = Command::start(host, &[&["recv", "--once", "--json"], words].concat());
    receiver.wait_for_event("listening");
    receiver
}

/// Starts an order on a host.
fn order(host: &Host, from: &Host, words: &[&str]) -> Command {
    let from = format!("udt://{}:7400", from.address());
    Command::start(host, &[&["send", "--json", "--from", &from], words].concat())
}

/// Waits until a transfer has its account, which closes, and its program has ended with this exit code.
fn account(program: Command, code: i32) -> Value {
    let account = program.wait_for_event("account");
    let of = |name: &str| account[name].as_u64().expect("a count");
    let ended = of("delivered") + of("already_there") + of("refused") + of("missing");
    assert_eq!(of("offered"), ended, "{account}");
    assert_eq!(program.finish().1.code(), Some(code), "{account}");
    account
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

/// Returns the three hosts of an order, and folders of the two that have files.
fn scene() -> Option<(Lan, tempfile::TempDir, [PathBuf; 2])> {
    let lan = lan_or_skip(&["orders", "offers", "receives"])?;
    let folder = tempfile::tempdir().expect("room for files");
    let folders = ["offered", "received"].map(|name| folder.path().join(name));
    Some((lan, folder, folders))
}

#[test]
fn a_third_host_has_a_folder_sent_over_several_streams_of_a_long_path() {
    let Some((lan, _folder, [from, to])) = scene() else { return };
    let [orders, offers, receives] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let between = ["--between", offers.namespace(), receives.namespace()];
    let conditions = ["--rate", "60M", "--queue", "1MB", "--delay", "20ms", "--loss", "0.5%", "--seed", "1"];
    let path = Command::start_here(&[&["link", "--json"], &between[..], &conditions].concat());
    path.wait_for_event("carrying");
    let files = offered(&from);
    let receiver = receive(receives, &[text(&to), FAR]);
    let sender = receive(offers, &["--offer", text(&from)]);
    let ordered = order(orders, offers, &["--streams", "3", "shot", FAR]);
    let ordered = account(ordered, 0);
    // Three files and two folders.
    assert_eq!((&ordered["delivered"], &ordered["missing"]), (&5.into(), &0.into()), "{ordered}");
    let sent = account(sender, 0);
    let streams = receiver.wait_for_event("streams");
    let received = account(receiver, 0);
    assert_eq!(streams["streams"], 3, "{streams}");
    for one in [&sent, &received] {
        for count in ["offered", "delivered", "delivered_bytes", "moved_bytes"] {
            assert_eq!(one[count], ordered[count], "{count}: {one} {ordered}");
        }
    }
    for (name, bytes) in files {
        assert!(std::fs::read(to.join(&name)).expect("it was delivered") == bytes, "{}", name.display());
    }
    let report = path.interrupt().0.pop().expect("a report is the last word");
    assert!(report["there"]["lost"]["random"].as_u64() > Some(0), "{report}");
}

/// Its ranges are missing, so the receiver ends all streams, and the sender begins new ones.
#[test]
fn a_stream_that_dies_in_the_middle_breaks_the_transfer_and_new_ones_complete_it() {
    let Some((lan, _folder, [from, to])) = scene() else { return };
    let [orders, offers, receives] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let files = offered(&from);
    let receiver = receive(receives, &[text(&to)]);
    let sender = receive(offers, &["--offer", text(&from)]);
    let address = format!("udt://{}:7400", receives.address());
    // Eight seconds, of which the first are enough to stop the sender.
    let ordered = order(orders, offers, &["--streams", "3", "-b", "4M", "shot/raw/large", &address]);
    receiver.wait_for_event("streams");
    sender.while_stopped(|| {
        let ports = offers.udp_ports();
        let stream = ports.iter().find(|port| **port != 7_400).expect("each stream has a port");
        offers.silence(*stream);
    });
    receiver.wait_for_event("broken");
    sender.wait_for_event("broken");
    let ordered = account(ordered, 0);
    assert_eq!((&ordered["delivered"], &ordered["error"]), (&1.into(), &Value::Null), "{ordered}");
    assert_eq!(account(sender, 0)["delivered"], 1);
    assert_eq!(receiver.finish().1.code(), Some(0));
    assert!(std::fs::read(to.join("large")).expect("it was delivered") == files[0].1);
}

#[test]
fn an_order_that_cannot_be_carried_out_is_refused_with_a_reason() {
    let Some((lan, _folder, [from, _])) = scene() else { return };
    let [orders, offers, receives] = lan.hosts() else { unreachable!("three hosts were asked for") };
    offered(&from);
    let sender = receive(offers, &["--offer", text(&from)]);
    let host = format!("udt://{}:7400", offers.address());
    let address = format!("udt://{}:7400", receives.address());
    let large = format!("{address}?sndbuf=1000000");
    for (path, to, wanted) in [
        ("../received", &address, "the other end reports: "),
        ("nothing", &address, "the other end reports: "),
        ("shot", &large, "an order gets buffers of at most 1 GiB"),
        ("shot", &address, "start `tallycast recv DIR` on the other host first"),
    ] {
        let words = ["send", "--from", &host, path, to];
        let output = orders.command(text(&e2e::binary())).args(words).output().expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{path} {to}: {said}");
    }
    let (_, status) = sender.interrupt();
    assert_eq!(status.code(), Some(1), "something is missing");
}

/// Private keys in base64, and the public keys that belong to them.
const SENDERS: (&str, &str) =
    ("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=");
const RECEIVERS: (&str, &str) =
    ("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=", "zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=");
const STRANGERS: (&str, &str) =
    ("AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=", "Xf7dO2vUf2+ijuFdlp1bsOpTd01Ii9r53xxuASSz7yI=");

/// Writes a private key into a file of its own.
fn key(folder: &Path, name: &str, key: (&str, &str)) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, key.0).expect("room for a key");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    text(&path).to_owned()
}

#[test]
fn listed_peers_transfer_over_a_lossy_path_and_a_stranger_on_the_same_host_reaches_nothing() {
    let Some(lan) = lan_or_skip(&["sends", "receives"]) else { return };
    let folder = tempfile::tempdir().expect("room for files");
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let [sends, receives] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let files = offered(&from);
    let key = |name, of| key(folder.path(), name, of);
    let (own, theirs, foreign) = (key("s", SENDERS), key("r", RECEIVERS), key("x", STRANGERS));
    let between = ["--between", sends.namespace(), receives.namespace()];
    let conditions = ["--rate", "60M", "--queue", "1MB", "--delay", "20ms", "--loss", "1%", "--seed", "1"];
    let path = Command::start_here(&[&["link", "--json"], &between[..], &conditions].concat());
    path.wait_for_event("carrying");
    let receiver = receive(receives, &[text(&to), FAR, "--key", &theirs, "--peer", SENDERS.1]);
    let send = |key: &str| {
        let shot = from.join("shot");
        Command::start(sends, &["send", "--json", text(&shot), FAR, "--key", key, "--peer", RECEIVERS.1])
    };
    let (stranger, status) = send(&foreign).finish();
    assert!(!status.success(), "{stranger:?}");
    assert!(!to.join("shot").exists(), "nothing is there before a listed peer comes");
    let sent = account(send(&own), 0);
    let (received, sessions) = (receiver.wait_for_event("account"), receiver.wait_for_event("sessions"));
    assert_eq!(receiver.finish().1.code(), Some(0));
    assert!(sessions["unknown_peers"].as_u64() > Some(0), "{sessions}");
    assert_eq!((&sessions["sessions"], &sessions["bad_tags"]), (&1.into(), &0.into()), "{sessions}");
    assert_eq!((&sent["delivered"], &sent["missing"]), (&5.into(), &0.into()), "{sent}");
    assert_eq!(received["delivered_bytes"], sent["delivered_bytes"]);
    for (name, bytes) in files {
        assert!(std::fs::read(to.join(&name)).expect("it was delivered") == bytes, "{}", name.display());
    }
    let report = path.interrupt().0.pop().expect("a report is the last word");
    assert!(report["there"]["lost"]["random"].as_u64() > Some(0), "{report}");
}

#[test]
fn a_third_host_that_is_not_listed_is_refused_while_a_listed_one_transfers() {
    let Some(lan) = lan_or_skip(&["listed", "unlisted", "receives"]) else { return };
    let folder = tempfile::tempdir().expect("room for files");
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    let [listed, unlisted, receives] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let files = offered(&from);
    let large = from.join("shot/raw/large");
    let key = |name, of| key(folder.path(), name, of);
    let (own, theirs, foreign) = (key("s", SENDERS), key("r", RECEIVERS), key("x", STRANGERS));
    let receiver = receive(receives, &[text(&to), "--key", &theirs, "--peer", SENDERS.1]);
    let address = format!("udt://{}:7400", receives.address());
    let send = |host: &Host, words: &[&str]| {
        Command::start(host, &[&["send", "--json", text(&large), &address], words].concat())
    };
    // Eight seconds, in which the others come.
    let sender = send(listed, &["-b", "4M", "--key", &own, "--peer", RECEIVERS.1]);
    sender.wait_for_event("progress");
    for words in [&["--key", &foreign, "--peer", RECEIVERS.1][..], &[]] {
        assert_eq!(send(unlisted, words).finish().1.code(), Some(2), "nothing answers {words:?}");
        receiver.wait_for_event("warning");
    }
    let sent = account(sender, 0);
    assert_eq!((&sent["delivered"], &sent["error"]), (&1.into(), &Value::Null), "{sent}");
    let sessions = receiver.wait_for_event("sessions");
    for counter in ["unknown_peers", "clear"] {
        assert!(sessions[counter].as_u64() > Some(0), "{counter}: {sessions}");
    }
    assert_eq!((&sessions["sessions"], &sessions["bad_tags"]), (&1.into(), &0.into()), "{sessions}");
    assert_eq!(receiver.finish().1.code(), Some(0));
    assert!(std::fs::read(to.join("large")).expect("it was delivered") == files[0].1);
}
