//! Outages while everybody stays: no sample of an epoch falls between two accounts, at any reader (rule 16).

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Command, Host, binary, get_on, lan_or_skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const RATE_HZ: u64 = 20_000;
/// Longer than announcements are believed, accounts stay open and unused sockets are kept together: five seconds, one,
/// and five.
const OUTAGE_SAMPLES: u64 = 13 * RATE_HZ;

fn publish(host: &Host) -> Command {
    let shape = ["--wave", "ramp", "--rate", "20000", "--dtype", "f4", "--json"];
    Command::start(host, &[&["pub", "lab/wave"], &shape[..], &["--bus", &host.bus("")]].concat())
}

fn read(host: &Host, name: &str) -> Command {
    Command::start(host, &["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus("")])
}

/// Waits until a reader is handed a sample with this index or a later one.
fn wait_for_index(reader: &Command, index: u64) {
    reader.wait_for("a later block", |line| {
        line["event"] == "block" && line["first_index"].as_u64().unwrap() >= index
    });
}

fn index_now(reader: &Command) -> u64 {
    reader.skip_to_now();
    reader.wait_for_event("block")["first_index"].as_u64().unwrap()
}

fn accounts(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line["event"] == "account").collect()
}

fn element(account: &Value, row: &str) -> u64 {
    account["elements"][row].as_u64().unwrap()
}

/// Checks that accounts of one reader and epoch follow each other without a sample between them; returns where the first
/// begins, where the last ends, and how many elements they delivered.
fn joined(accounts: &[&Value]) -> (u64, u64, u64) {
    for account in accounts {
        assert_eq!((&account["balanced"], &account["closed"]), (&true.into(), &true.into()), "{account}");
    }
    for pair in accounts.windows(2) {
        assert_eq!(element(pair[0], "next"), element(pair[1], "first"), "{pair:?}");
        assert_eq!(pair[0]["account"], pair[1]["follows"], "{pair:?}");
        assert_ne!(pair[0]["account"], pair[1]["account"]);
    }
    let (first, last) = (accounts.first().unwrap(), accounts.last().unwrap());
    let delivered = accounts.iter().map(|account| element(account, "delivered")).sum();
    (element(first, "first"), element(last, "next"), delivered)
}

fn run(host: &Host, program: &str, arguments: &[&str]) {
    let output = host.bridge_command(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Elements of the gaps as somebody tells of them.
fn missing<'v>(gaps: impl IntoIterator<Item = &'v Value>) -> u64 {
    gaps.into_iter().map(|gap| gap["elements"].as_u64().unwrap()).sum()
}

#[test]
fn what_was_sent_while_a_host_was_unplugged_is_missing_and_counted_everywhere() {
    const STREAM: &str = "lab/wave";
    let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
    let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let folder = tempfile::tempdir().unwrap();
    let (root, bus) = (folder.path().to_str().unwrap(), desk.bus(""));
    let start = |arguments: &[&str]| Command::start(desk, &[arguments, &["--json", "--bus", &bus]].concat());
    let monitor = start(&["monitor", STREAM, "--listen", "127.0.0.1:0"]);
    let address = monitor.wait_for_event("listening")["address"].as_str().unwrap().to_owned();
    let recorder = start(&["record", STREAM, "--run", "outage", "--root", root]);
    let (near, far) = (read(source, "near"), read(desk, "far"));
    let publisher = publish(source);
    let ask = |path: &str| get_on(desk, &address, path);
    let shown = || serde_json::from_str::<Value>(&ask(&format!("/api/account?stream={STREAM}"))).unwrap();
    wait_until("the monitor to know the stream", || ask("/api/streams").contains(STREAM).then_some(()));
    wait_until("the monitor to read", || (element(&shown(), "delivered") > 0).then_some(()));
    far.wait_for_blocks(20);

    run(desk, "ip", &["link", "set", "p1", "nomaster"]);
    let unplugged = index_now(&near);
    wait_for_index(&near, unplugged + OUTAGE_SAMPLES);
    run(desk, "ip", &["link", "set", "p1", "master", "br0"]);
    wait_for_index(&far, unplugged + OUTAGE_SAMPLES);
    far.wait_for_blocks(20);
    let (published, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let offered = published.last().unwrap()["samples"]["offered"].as_u64().unwrap();

    far.wait_for("the end", |line| line["event"] == "ended" && line["state"] == "closed");
    let (far, _) = far.interrupt();
    let at_far = accounts(&far);
    let (first, next, delivered) = joined(&at_far);
    assert_eq!(next, offered);
    let lost = next - first - delivered;
    assert!(lost >= OUTAGE_SAMPLES, "{lost} elements are missing: {at_far:?}");

    let listed =
        || desk.command(binary().to_str().unwrap()).args(["query", root, "--list"]).output().unwrap();
    wait_until("the recorder to see the end", || {
        String::from_utf8(listed().stdout).unwrap().contains(", closed").then_some(())
    });
    let (recorded, status) = recorder.interrupt();
    assert_eq!(status.code(), Some(1), "a loss is found");
    let at_recorder = accounts(&recorded);
    let (recorded_first, recorded_next, kept) = joined(&at_recorder);
    assert_eq!(recorded_next, offered);
    assert_eq!(at_recorder.last().unwrap()["archive"]["stored"], kept);
    let query = ["query", root, STREAM, "--gaps", "--json"];
    let holes = desk.command(binary().to_str().unwrap()).args(query).output().unwrap();
    let holes: Vec<Value> = String::from_utf8(holes.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stored = holes.iter().flat_map(|hole| hole["gaps"].as_array().unwrap());
    assert_eq!(missing(stored), recorded_next - recorded_first - kept, "{holes:?}");

    wait_until("the monitor's account to close", || (shown()["state"] == "closed").then_some(()));
    assert_eq!(shown()["account"].as_str().unwrap().rsplit('/').next(), Some("2"), "{}", shown());
    let gaps: Value = serde_json::from_str(&ask(&format!("/api/gaps?stream={STREAM}"))).unwrap();
    assert!(missing(gaps.as_array().unwrap()) >= OUTAGE_SAMPLES, "{gaps}");
    drop(near);
}

#[test]
fn a_publisher_that_was_stopped_again_and_again_leaves_one_row_of_accounts() {
    let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
    let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let far = read(desk, "far");
    let publisher = publish(source);
    far.wait_for_blocks(5);
    for _ in 0..2 {
        publisher.signal(Signal::STOP);
        far.wait_for("silence", |line| line["event"] == "ended" && line["state"] == "unconfirmed");
        wait_until("the announcement to be out of date", || {
            let listed =
                desk.command(binary().to_str().unwrap()).args(["ls", "--bus", &desk.bus("")]).output();
            (!String::from_utf8(listed.unwrap().stdout).unwrap().contains("lab/wave")).then_some(())
        });
        publisher.signal(Signal::CONT);
        far.wait_for_event("block");
    }
    let (published, _) = publisher.interrupt();
    let offered = published.last().unwrap()["samples"]["offered"].as_u64().unwrap();
    far.wait_for("the end", |line| line["event"] == "ended" && line["state"] == "closed");
    let (lines, _) = far.interrupt();
    let accounts = accounts(&lines);
    assert_eq!(accounts.len(), 3, "{accounts:?}");
    assert_eq!(joined(&accounts).1, offered);
}
