//! A PMTU black hole that appears amid a transfer: packets that are too large are dropped without an ICMP message.

use std::fs;

use e2e::{Command, lan_or_skip, wait_until};

#[test]
fn a_transfer_goes_on_with_smaller_packets() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let [near, far] = lan.hosts() else { unreachable!("two hosts were asked for") };
    near.cut_trains();
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes: Vec<u8> = (0..12_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = from.path().join("shot.bin");
    fs::write(&file, &bytes).unwrap();
    let recv = ["recv", to.path().to_str().unwrap(), "udt://0.0.0.0:7400", "--once", "--json"];
    let receiver = Command::start(far, &recv);
    receiver.wait_for("a receiver that listens", |line| line["event"] == "listening");
    let address = format!("udt://{}", far.address());
    let send = ["send", file.to_str().unwrap(), &address, "--rate", "20M", "--json"];
    let sender = Command::start(near, &send);
    let partial = to.path().join(".tallycast-partial");
    wait_until("part of the file", || {
        let parts = fs::read_dir(&partial).ok()?.filter_map(|part| part.ok()?.metadata().ok());
        parts.map(|part| part.len()).find(|bytes| *bytes > 2_000_000)
    });
    far.narrow(1_400);
    let (lines, status) = sender.finish();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    let find = |event: &str| lines.iter().find(|line| line["event"] == event);
    let broken = find("broken").expect("the first connection breaks")["error"].as_str().unwrap();
    assert!(broken.contains("packets of 1500 bytes no longer arrive, smaller ones do"), "{broken}");
    assert_eq!(find("narrower").expect("it is said")["packet_bytes"], 1_280);
    let account = find("account").expect("it ends");
    assert_eq!((&account["delivered"], &account["missing"]), (&1.into(), &0.into()), "{account}");
    // The second connection transfers only the rest.
    let (lines, status) = receiver.finish();
    assert_eq!(status.code(), Some(0), "{lines:?}");
    let account = lines.iter().rfind(|line| line["event"] == "account").expect("one a connection");
    assert!(account["moved_bytes"].as_u64().unwrap() < 12_000_000 - 1_000_000, "{account}");
    assert!(fs::read(to.path().join("shot.bin")).unwrap() == bytes);
}
