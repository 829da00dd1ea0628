//! A PMTU black hole: a smaller MTU further along the path, where packets that are too large are dropped without an ICMP message.

use e2e::{Command, lan_or_skip};
use serde_json::Value;

#[test]
fn a_probe_finds_a_black_hole() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let [near, far] = lan.hosts() else { unreachable!("two hosts were asked for") };
    far.narrow(1_300);
    let server = Command::start(far, &["bench", "-s", "--listen", "0.0.0.0"]);
    let measure = ["bench", "-c", &far.address(), "-u", "--probe-mtu", "-t", "100ms", "--repeat", "1", "-J"];
    let run = || near.command(e2e::binary().to_str().unwrap()).args(measure).output().unwrap();
    // The server may not listen yet.
    let output = e2e::wait_until("a measurement", || Some(run()).filter(|it| it.status.success()));
    server.interrupt();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["start"]["test_start"]["blksize"], 1_300 - 28, "{report}");
    let account = &report["end"]["streams"][0]["account"];
    assert_eq!(account["sent"], account["received"], "{account}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("MTU 1300") && said.contains("assumed 1500"), "{said}");
}
