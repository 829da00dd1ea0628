//! Outages while all participants stay: no sample of an epoch falls between two accounts, at any reader (rule 16).

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Accounts, Command, Host, binary, get_on, lan_or_skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const RATE_HZ: u64 = 20_000;
/// Longer than the lifetime of announcements (five seconds), open accounts (one) and unused sockets (five)
/// together.
const OUTAGE_SAMPLES: u64 = 13 * RATE_HZ;

fn publish(host: &Host) -> Command {
    let shape = ["--wave", "ramp", "--rate", "20000", "--dtype", "f4", "--json"];
    Command::start(host, &[&["pub", "lab/wave"], &shape[..], &["--bus", &host.bus("")]].concat())
}

fn read(host: &Host, name: &str) -> Command {
    Command::start(host, &["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus("")])
}

fn delivered(account: &Value) -> u64 {
    account["elements"]["delivered"].as_u64().unwrap()
}

fn run(host: &Host, program: &str, arguments: &[&str]) {
    let output = host.bridge_command(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

/// Returns the missing elements in gaps of one surface.
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
    wait_until("the monitor to read", || (delivered(&shown()) > 0).then_some(()));
    far.wait_for_blocks(20);

    run(desk, "ip", &["link", "set", "p1", "nomaster"]);
    let unplugged = near.sample_now();
    near.wait_for_sample(unplugged + OUTAGE_SAMPLES);
    run(desk, "ip", &["link", "set", "p1", "master", "br0"]);
    far.wait_for_sample(unplugged + OUTAGE_SAMPLES);
    far.wait_for_blocks(20);
    let (published, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let offered = published.last().unwrap()["samples"]["offered"].as_u64().unwrap();

    let at_far = Accounts::once_closed(far);
    assert_eq!(at_far.next("elements"), offered);
    assert!(at_far.count() > 1, "its account was closed meanwhile: {at_far}");
    let lost = at_far.next("elements") - at_far.first("elements") - at_far.sum("elements", "delivered");
    assert!(lost >= OUTAGE_SAMPLES, "{lost} elements are missing: {at_far}");

    let listed =
        || desk.command(binary().to_str().unwrap()).args(["query", root, "--list"]).output().unwrap();
    wait_until("the recorder to see the end", || {
        String::from_utf8(listed().stdout).unwrap().contains(", closed").then_some(())
    });
    let (recorded, status) = recorder.interrupt();
    assert_eq!(status.code(), Some(1), "a loss is found");
    let at_recorder = Accounts::of(&recorded);
    let (first, next) = (at_recorder.first("elements"), at_recorder.next("elements"));
    let kept = at_recorder.sum("elements", "delivered");
    assert_eq!(next, offered);
    assert_eq!(at_recorder.last()["archive"]["stored"], kept);
    let query = ["query", root, STREAM, "--gaps", "--json"];
    let holes = desk.command(binary().to_str().unwrap()).args(query).output().unwrap();
    let holes: Vec<Value> = String::from_utf8(holes.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stored = holes.iter().flat_map(|hole| hole["gaps"].as_array().unwrap());
    assert_eq!(missing(stored), next - first - kept, "{holes:?}");

    wait_until("the monitor's account to close", || (shown()["state"] == "closed").then_some(()));
    assert!(!shown()["follows"].is_null(), "{}", shown());
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
    let accounts = Accounts::once_closed(far);
    // A busy machine may have interrupted it once more.
    assert!(accounts.count() >= 3, "{accounts}");
    assert_eq!(accounts.next("elements"), offered);
}
