//! This version together with an earlier one, as during a host-by-host update of a site: each accepts what the
//! other publishes, relays, sends or records, and the accounts close and agree.
//!
//! `TALLYCAST_EARLIER` names the earlier command; without it every scene is skipped. `cargo xtask test --nightly
//! versions` builds the versions in `tests/versions.json` and plays the scenes with each.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use e2e::{Accounts, Command, Host, Program, get_on, lan_or_skip, wait_until};
use serde_json::Value;

const STREAM: &str = "lab/wave";
const RATE_HZ: u64 = 20_000;
/// Number of samples: enough for many tallies, and for hundreds of datagrams with some losses.
const SAMPLES: u64 = 2 * RATE_HZ;
/// Share of the packets to a host that the bridge loses.
const LOST: f64 = 0.05;

/// Plays a scene with this version in the first role and the earlier one in the second, and vice versa.
fn both_ways(play: impl Fn(&Program, &Program)) {
    let Some(earlier) = Program::earlier_or_skip() else { return };
    let now = Program::under_test();
    for (first, second) in [(&now, &earlier), (&earlier, &now)] {
        println!("{first} first, {second} second");
        play(first, second);
    }
}

/// Starts a publisher.
fn publish(program: &Program, host: &Host, options: &[&str], bus: &str) -> Command {
    let shape = ["--wave", "ramp", "--rate", "20000", "--dtype", "i32", "--json"];
    program.start(host, &[&["pub", STREAM], &shape[..], options, &["--bus", bus]].concat())
}

/// Starts a publisher that withholds some of its datagrams.
fn publish_with_losses(program: &Program, host: &Host) -> Command {
    publish(program, host, &["--loss", "2%"], &host.bus(""))
}

fn read(program: &Program, host: &Host, name: &str, bus: &str) -> Command {
    program.start(host, &["sub", "lab/*", "--json", "--reader", name, "--bus", bus])
}

/// Reads a number of samples from now on.
fn read_on(reader: &Command) {
    let now = reader.sample_now();
    reader.wait_for_sample(now + SAMPLES);
}

/// Ends a publisher; returns the number of samples it was given.
fn end(publisher: Command) -> u64 {
    let (lines, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    lines.last().unwrap()["samples"]["offered"].as_u64().unwrap()
}

/// Takes the accounts of a reader that stayed to the end; they must cover every sample, and name the withheld ones.
fn told_of_all(reader: Command, offered: u64) -> Accounts {
    let accounts = Accounts::once_closed(reader);
    assert_eq!(accounts.next("elements"), offered, "{accounts}");
    assert!(accounts.lost("elements").contains_key("injected"), "{accounts}");
    accounts
}

#[test]
fn a_stream_crosses_a_network_that_loses_and_each_end_hears_what_the_other_counts() {
    both_ways(|publishing, reading| {
        let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
        let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
        desk.lose(LOST);
        let readers = [(reading, "other"), (publishing, "same")]
            .map(|(program, name)| read(program, desk, name, &desk.bus("")));
        let publisher = publish_with_losses(publishing, source);
        readers.iter().for_each(read_on);
        let top = ["top", "--json", "--interval", "200ms", "--bus", &source.bus("")];
        let top = publishing.start(source, &top);
        let mut reports = BTreeSet::new();
        top.wait_for("both readers' reports", |line| {
            let readers = line["readers"].as_array().into_iter().flatten();
            let counts = |it: &&Value| it["lost"]["injected"].as_u64() > Some(0);
            reports.extend(readers.filter(counts).filter_map(|it| it["reader"].as_str().map(str::to_owned)));
            ["other", "same"].iter().all(|name| reports.contains(*name))
        });
        drop(top);
        let offered = end(publisher);
        for accounts in readers.map(|reader| told_of_all(reader, offered)) {
            assert!(accounts.sum("datagrams", "unexplained") > 0, "the bridge lost some: {accounts}");
        }
    });
}

#[test]
fn a_publisher_with_several_addresses_tells_of_them_and_is_read() {
    both_ways(|publishing, reading| {
        let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
        let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let more = ["address", "add", "10.84.0.101/24", "dev", source.interface()];
        assert!(source.command("ip").args(more).status().unwrap().success());
        let reader = read(reading, desk, "other", &desk.bus(""));
        let publisher = publish_with_losses(publishing, source);
        read_on(&reader);
        let offered = end(publisher);
        told_of_all(reader, offered);
    });
}

#[test]
fn a_stream_is_read_in_shared_memory() {
    both_ways(|publishing, reading| {
        let Some(lan) = lan_or_skip(&["desk"]) else { return };
        let [desk] = lan.hosts() else { unreachable!("one host was asked for") };
        let bus = desk.bus("&shm=on");
        let reader = read(reading, desk, "other", &bus);
        let publisher = publish(publishing, desk, &[], &bus);
        read_on(&reader);
        let offered = end(publisher);
        let accounts = Accounts::once_closed(reader);
        assert_eq!(
            (accounts.next("elements"), &accounts.last()["leg"]),
            (offered, &"shm".into()),
            "{accounts}"
        );
    });
}

#[test]
fn an_agent_receives_for_readers_of_its_host() {
    both_ways(|receiving, other| {
        let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
        let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
        desk.lose(LOST);
        let agent = receiving.start(desk, &["agent", "--json", "--bus", &desk.bus("&shm=on")]);
        let publisher = publish_with_losses(other, source);
        agent.wait_for_event("joined");
        let readers = [(other, "other"), (receiving, "same")]
            .map(|(program, name)| read(program, desk, name, &desk.bus("&shm=on")));
        readers.iter().for_each(read_on);
        let offered = end(publisher);
        for accounts in readers.map(|reader| told_of_all(reader, offered)) {
            assert_eq!(accounts.last()["leg"], "shm", "{accounts}");
            assert!(accounts.sum("elements", "unexplained") > 0, "the bridge lost some: {accounts}");
        }
        drop(agent);
    });
}

#[test]
fn a_file_crosses_a_network_that_loses() {
    both_ways(|sending, receiving| {
        let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
        let [near, far] = lan.hosts() else { unreachable!("two hosts were asked for") };
        [near, far].iter().for_each(|host| host.lose(0.01));
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bytes: Vec<u8> =
            (0..4_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let file = from.path().join("shot.bin");
        fs::write(&file, &bytes).unwrap();
        let recv = ["recv", to.path().to_str().unwrap(), "udt://0.0.0.0:7400", "--once", "--json"];
        let receiver = receiving.start(far, &recv);
        receiver.wait_for_event("listening");
        let address = format!("udt://{}", far.address());
        let sender =
            sending.start(near, &["send", file.to_str().unwrap(), &address, "--rate", "40M", "--json"]);
        for end in [sender, receiver] {
            let account = end.wait_for_event("account");
            let of = |name: &str| account[name].as_u64().unwrap();
            assert_eq!((of("offered"), of("delivered"), of("missing")), (1, 1, 0), "{account}");
            assert_eq!(of("delivered_bytes"), 4_000_000, "{account}");
            assert_eq!(end.finish().1.code(), Some(0));
        }
        assert!(fs::read(to.path().join("shot.bin")).unwrap() == bytes);
    });
}

/// Returns an archive's listing of its one recording, without the fields that a later version adds.
fn listed(program: &Program, host: &Host, root: &str) -> Vec<Value> {
    let (rows, code) = program.ask(host, &["query", root, "--list", "--json"]);
    assert!(matches!(code, Some(0 | 1)), "{program}: {code:?}: {rows:?}");
    let [row] = &rows[..] else { panic!("{program}: one recording: {rows:?}") };
    let facts = ["epoch", "state", "first_index", "stored_index", "samples", "gaps", "lost", "unexplained"];
    facts.map(|fact| row[fact].clone()).into()
}

/// Exports a recording as a table.
fn exported(program: &Program, host: &Host, root: &str, folder: &Path) -> Vec<u8> {
    let file = folder.join("exported.csv");
    let export = ["query", root, STREAM, "--export", "csv", file.to_str().unwrap(), "--json"];
    let output = program.run(host, &export);
    assert!(output.status.success(), "{program}: {output:?}");
    let table = fs::read(&file).unwrap();
    fs::remove_file(file).unwrap();
    table
}

#[test]
fn an_archive_that_one_began_the_other_reads_verifies_and_continues() {
    both_ways(|beginning, continuing| {
        let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
        let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("archive");
        let root = root.to_str().unwrap();
        let bus = desk.bus("");
        let record = ["record", STREAM, "--run", "shared", "--root", root, "--json", "--bus", &bus];
        let stored = |program: &Program| {
            let (rows, _) = program.ask(desk, &["query", root, "--list", "--json"]);
            rows.first().map_or(0, |row| row["samples"].as_u64().unwrap())
        };
        let kept = |lines: &[Value]| Accounts::of(lines).sum("elements", "delivered");

        let publisher = publish_with_losses(beginning, source);
        let recorder = beginning.start(desk, &record);
        wait_until("samples in the archive", || (stored(beginning) >= SAMPLES).then_some(()));
        let first = kept(&recorder.interrupt().0);
        assert_eq!(listed(beginning, desk, root), listed(continuing, desk, root));

        let recorder = continuing.start(desk, &record);
        wait_until("more samples", || (stored(continuing) >= first + SAMPLES).then_some(()));
        let offered = end(publisher);
        wait_until("the recorder to see the end", || {
            let state = listed(continuing, desk, root).swap_remove(1);
            (state == "closed").then_some(())
        });
        let (lines, _) = recorder.interrupt();
        let accounts = Accounts::of(&lines);
        assert_eq!(accounts.next("elements"), offered, "{accounts}");

        let lists = [beginning, continuing].map(|program| listed(program, desk, root));
        assert_eq!(lists[0], lists[1]);
        assert_eq!(lists[0][4], first + kept(&lines), "what both recorded");
        let tables = [beginning, continuing].map(|program| exported(program, desk, root, folder.path()));
        assert!(tables[0] == tables[1], "each exports the same");
        for program in [beginning, continuing].into_iter().filter(|it| it.knows(desk, &["archive", "verify"]))
        {
            let output = program.run(desk, &["archive", "verify", root]);
            assert!(output.status.success(), "{program}: {output:?}");
        }
    });
}

#[test]
fn a_monitor_shows_what_the_other_version_publishes() {
    both_ways(|showing, publishing| {
        let Some(lan) = lan_or_skip(&["source", "desk"]) else { return };
        let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
        desk.lose(LOST);
        let monitor = ["monitor", "lab/*", "--listen", "127.0.0.1:0", "--json", "--bus", &desk.bus("")];
        let monitor = showing.start(desk, &monitor);
        let address = monitor.wait_for_event("listening")["address"].as_str().unwrap().to_owned();
        let publisher = publish_with_losses(publishing, source);
        let ask = |path: &str| get_on(desk, &address, path);
        let account =
            || serde_json::from_str::<Value>(&ask(&format!("/api/account?stream={STREAM}"))).unwrap();
        wait_until("the monitor to know the stream", || ask("/api/streams").contains(STREAM).then_some(()));
        wait_until("samples", || {
            (account()["elements"]["delivered"].as_u64() >= Some(SAMPLES)).then_some(())
        });
        let offered = end(publisher);
        wait_until("the monitor's account to close", || (account()["state"] == "closed").then_some(()));
        let shown = account();
        assert_eq!(shown["elements"]["next"], offered, "{shown}");
        let accounts = Accounts::of(&monitor.interrupt().0);
        assert_eq!(accounts.next("elements"), offered, "{accounts}");
        assert!(accounts.lost("elements").contains_key("injected"), "{accounts}");
        assert!(accounts.sum("datagrams", "unexplained") > 0, "the bridge lost some: {accounts}");
    });
}

#[test]
fn one_measures_the_way_to_the_server_of_the_other() {
    both_ways(|asking, serving| {
        let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
        let [near, far] = lan.hosts() else { unreachable!("two hosts were asked for") };
        far.narrow(1_300);
        let server = serving.start(far, &["bench", "-s", "--listen", "0.0.0.0"]);
        let measure =
            ["bench", "-c", &far.address(), "-u", "--probe-mtu", "-t", "100ms", "--repeat", "1", "-J"];
        // The server may not listen yet.
        let output =
            wait_until("a measurement", || Some(asking.run(near, &measure)).filter(|it| it.status.success()));
        server.interrupt();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["start"]["test_start"]["blksize"], 1_300 - 28, "{report}");
        let account = &report["end"]["streams"][0]["account"];
        assert_eq!(account["sent"], account["received"], "{account}");
    });
}
