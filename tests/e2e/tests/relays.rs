//! Relays in chains and rings, with keys, restarts, frozen readers and links that break: every account closes, and what
//! a far reader has is at the index and time at which the publisher's bus has it.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use e2e::{Accounts, Command, Host, binary, lan_or_skip};
use rustix::process::Signal;
use serde_json::Value;
use support::Watchdog;

/// Rate of [`publish`], and nanoseconds between two of its samples.
const RATE_HZ: u64 = 1_000;
const PERIOD_NS: usize = 1_000_000;

/// Ports of the buses: only the port tells the bus of a laboratory from that of another.
const HOME: u16 = 7_500;
const MIDDLE: u16 = 7_600;
const AWAY: u16 = 7_700;

fn bus(host: &Host, port: u16) -> String {
    format!("udp://239.84.0.0:{port}?iface={}", host.interface())
}

/// Starts a program on the bus of a laboratory; each host is a station.
fn start(host: &Host, port: u16, words: &[&str]) -> Command {
    Command::start(
        host,
        &[words, &["--json", "--bus", &bus(host, port), "--station", &host.address()]].concat(),
    )
}

/// Starts a relay that listens on a host, in the clear.
fn listen(host: &Host, port: u16) -> Command {
    let far = start(host, port, &["relay", "--listen", "udt://0.0.0.0:7400?secure=off"]);
    far.wait_for_event("listening");
    far
}

/// Starts a relay that dials a host, in the clear.
fn dial(host: &Host, port: u16, to: &Host) -> Command {
    let near = start(host, port, &["relay", &format!("udt://{}:7400?secure=off", to.address()), "lab/**"]);
    near.wait_for_event("connected");
    near
}

fn publish(host: &Host, port: u16) -> Command {
    start(host, port, &["pub", "lab/wave", "--wave", "ramp", "--rate", "1k", "--dtype", "f8"])
}

/// Interrupts a publisher; returns how many samples it had.
fn end(publisher: Command) -> u64 {
    let (lines, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    lines.last().unwrap()["samples"]["offered"].as_u64().unwrap()
}

/// A reader, and all that it has said.
struct Reader {
    command: Command,
    lines: Vec<Value>,
}

/// Time and value of each sample, by its index.
type Samples = BTreeMap<u64, (i64, Value)>;

impl Reader {
    fn start(host: &Host, port: u16) -> Self {
        Self { command: start(host, port, &["sub", "lab/**", "--values"]), lines: Vec::new() }
    }

    fn until(&mut self, mut is_it: impl FnMut(&Value) -> bool) {
        // A reader that waits for samples still says its account.
        let watchdog = Watchdog::new("what a reader is to say");
        self.lines.extend(self.command.lines_until(|line| {
            watchdog.check();
            is_it(line)
        }));
    }

    /// Reads so many samples more.
    fn take(&mut self, samples: u64) {
        let mut seen = 0;
        self.until(|line| {
            seen += if line["event"] == "block" { line["samples"].as_u64().unwrap() } else { 0 };
            seen >= samples
        });
    }

    /// Reads to the end of the stream; returns what it has said.
    fn finish(mut self) -> Vec<Value> {
        self.until(|line| line["event"] == "ended" && line["state"] == "closed");
        self.lines.extend(self.command.interrupt().0);
        self.lines
    }
}

/// Relays whose last states are printed if the test fails meanwhile.
struct Witnesses<'a>(&'a [&'a Command]);

impl Drop for Witnesses<'_> {
    fn drop(&mut self) {
        for relay in self.0.iter().filter(|_| std::thread::panicking()) {
            let lines = std::iter::from_fn(|| relay.line_within(Duration::ZERO));
            let last = lines.filter(|line| line["event"] == "state").last();
            eprintln!("{}", last.map_or_else(|| "no state".to_owned(), |state| state.to_string()));
        }
    }
}

/// Returns the samples that a reader read, each index once.
fn samples(lines: &[Value]) -> Samples {
    let mut samples = Samples::new();
    for block in lines.iter().filter(|line| line["event"] == "block") {
        let (first, t0) = (block["first_index"].as_u64().unwrap(), block["t0_ns"].as_i64().unwrap());
        for ((index, t_ns), value) in
            (first..).zip((t0..).step_by(PERIOD_NS)).zip(block["values"].as_array().unwrap())
        {
            assert_eq!(samples.insert(index, (t_ns, value.clone())), None, "index {index} came twice");
        }
    }
    samples
}

/// Checks that what a far reader has is what the publisher's bus has, at every index from the one on at which the reader at
/// home joined: on a busy host that may be behind the first.
fn check_same(there: &Samples, at_home: &Samples) {
    let joined = *at_home.first_key_value().unwrap().0;
    assert!(there.range(joined..).next().is_some());
    for (index, sample) in there.range(joined..) {
        assert_eq!(Some(sample), at_home.get(index), "index {index}");
    }
}

/// Returns the losses of a stage on a hop, over all accounts of a reader.
fn lost_on(lines: &[Value], hop: u64, stage: &str) -> u64 {
    let accounts = lines.iter().filter(|line| line["event"] == "account");
    let hops = accounts.flat_map(|account| account["hops"].as_array().into_iter().flatten());
    hops.filter(|it| it["hop"] == hop).filter_map(|it| it["lost"][stage].as_u64()).sum()
}

#[test]
fn a_reader_behind_two_pairs_of_relays_has_every_sample_and_an_account_over_all_hops() {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b", "gate-c"]) else { return };
    let [daq, gate_a, gate_b, gate_c] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let _far = [listen(gate_b, MIDDLE), listen(gate_c, AWAY)];
    let _near = [dial(gate_a, HOME, gate_b), dial(gate_b, MIDDLE, gate_c)];
    let (home, mut away) = (Reader::start(daq, HOME), Reader::start(gate_c, AWAY));
    let publisher = publish(daq, HOME);
    away.take(500);
    let offered = end(publisher);
    let (at_home, lines) = (samples(&home.finish()), away.finish());
    let accounts = Accounts::of(&lines);
    check_same(&samples(&lines), &at_home);
    assert!(accounts.is_explained(), "{accounts}");
    assert_eq!((accounts.first("elements"), accounts.next("elements")), (0, offered), "{accounts}");
    assert_eq!(accounts.last()["origin"]["hop"], 4, "{accounts}");
}

#[test]
fn a_near_relay_that_is_killed_and_started_again_leaves_one_account_and_nothing_at_a_wrong_index_or_time() {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b"]) else { return };
    let [daq, gate_a, gate_b] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let _far = listen(gate_b, AWAY);
    let near = dial(gate_a, HOME, gate_b);
    let (home, mut away) = (Reader::start(daq, HOME), Reader::start(gate_b, AWAY));
    let publisher = publish(daq, HOME);
    away.take(300);
    near.signal(Signal::KILL);
    // Nothing was said: the far end hears of it from the next process.
    let near = dial(gate_a, HOME, gate_b);
    near.wait_for_event("opened");
    away.take(300);
    let offered = end(publisher);
    let (at_home, lines) = (samples(&home.finish()), away.finish());
    let accounts = Accounts::of(&lines);
    check_same(&samples(&lines), &at_home);
    assert!(accounts.is_explained(), "{accounts}");
    assert_eq!((accounts.first("elements"), accounts.next("elements")), (0, offered), "{accounts}");
    assert!(lost_on(&lines, 0, "reader_lag") > 0, "what no relay read: {accounts}");
}

/// Kills a far relay and starts it again, after so many samples of the publisher.
fn kill_far_relay(missed: u64, listens: impl Fn(&Host) -> Command, dials: impl Fn(&Host, &Host) -> Command) {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b"]) else { return };
    let [daq, gate_a, gate_b] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let far = listens(gate_b);
    let near = dials(gate_a, gate_b);
    let (mut home, mut away) = (Reader::start(daq, HOME), Reader::start(gate_b, AWAY));
    let publisher = publish(daq, HOME);
    away.take(300);
    // Killed, and gone: its port is free.
    drop(far);
    home.take(missed);
    let far = listens(gate_b);
    let witnesses = [&near, &far];
    let witnesses = Witnesses(&witnesses);
    away.until(|line| line["event"] == "began" && line["first_index"].as_u64() > Some(0));
    away.take(300);
    drop(witnesses);
    let offered = end(publisher);
    let (at_home, lines) = (samples(&home.finish()), away.finish());
    check_same(&samples(&lines), &at_home);
    let account = |line: &&Value| line["event"] == "account";
    let (last, before) = lines
        .iter()
        .filter(account)
        .cloned()
        .partition::<Vec<_>, _>(|line| line["epoch"] == lines.iter().rfind(account).unwrap()["epoch"]);
    let (before, last) = (Accounts::of(&before), Accounts::of(&last));
    assert_eq!(before.last()["state"], "unconfirmed", "{before}");
    assert!(last.is_explained() && last.first("elements") > 0, "{last}");
    assert_eq!((&last.last()["state"], last.next("elements")), (&"closed".into(), offered), "{last}");
    // By the clock of the samples: the start of a process, two seconds and two round trips, with time for a busy host, and no
    // wait for the end of the connection before, which takes 46 s.
    let between = last.first("elements") - before.next("elements");
    assert!(between < missed + 20 * RATE_HZ, "{between} samples in no account\n{before} {last}");
}

#[test]
fn a_far_relay_that_is_killed_and_started_again_goes_on_under_an_epoch_of_its_own() {
    kill_far_relay(0, |host| listen(host, AWAY), |host, to| dial(host, HOME, to));
}

#[test]
fn so_does_a_far_relay_that_was_away_for_a_while() {
    kill_far_relay(7 * RATE_HZ, |host| listen(host, AWAY), |host, to| dial(host, HOME, to));
}

#[test]
fn so_does_a_far_relay_with_keys_whose_session_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &["new", ".", "--laboratory", "lab", "--station", "a"]);
    keys(folder.path(), &["add", "b", "--authority", "lab.authority", "--like", "a.keys"]);
    keys(folder.path(), &["peers", "a.keys", "b.keys"]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let listens = |host: &Host| {
        let words = ["relay", "--listen", "7400", "--key", &file("b.keys"), "--peer", "a"];
        let far = start(host, AWAY, &words);
        far.wait_for_event("listening");
        far
    };
    let dials = |host: &Host, to: &Host| {
        let address = format!("udt://{}:7400", to.address());
        let words = ["relay", &address, "lab/**", "--key", &file("a.keys"), "--peer", "b"];
        let near = start(host, HOME, &words);
        near.wait_for_event("connected");
        near
    };
    kill_far_relay(RATE_HZ, listens, dials);
}

#[test]
fn nine_readers_have_every_sample_while_the_tenth_is_frozen() {
    let Some(lan) = lan_or_skip(&["gate-a", "gate-b", "desk"]) else { return };
    let [gate_a, gate_b, desk] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let _far = listen(gate_b, AWAY);
    let _near = dial(gate_a, HOME, gate_b);
    let mut readers: Vec<Reader> =
        (0..10).map(|place| Reader::start([gate_b, desk][place % 2], AWAY)).collect();
    let publisher = publish(gate_a, HOME);
    readers.iter_mut().for_each(|reader| reader.take(1));
    let frozen = readers.pop().unwrap();
    frozen.command.signal(Signal::STOP);
    readers[0].take(1_000);
    let offered = end(publisher);
    for reader in readers {
        let accounts = Accounts::of(&reader.finish());
        let kept =
            (accounts.first("elements"), accounts.next("elements"), accounts.sum("elements", "delivered"));
        assert_eq!(kept, (0, offered, offered), "{accounts}");
    }
    frozen.command.signal(Signal::CONT);
    assert_eq!(Accounts::of(&frozen.finish()).next("elements"), offered);
}

/// Returns the number of streams that are announced on a bus.
fn announced(host: &Host, port: u16) -> usize {
    let words = ["ls", "--json", "--bus", &bus(host, port)];
    let listed = host.command(binary().to_str().unwrap()).args(words).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

#[test]
fn streams_in_a_ring_of_relays_do_not_come_back_however_often_their_publisher_starts() {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b", "gate-c"]) else { return };
    let [daq, gate_a, gate_b, gate_c] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let buses = [HOME, MIDDLE, AWAY];
    let far = [(gate_a, HOME), (gate_b, MIDDLE), (gate_c, AWAY)].map(|(gate, port)| listen(gate, port));
    let near = [dial(gate_a, HOME, gate_b), dial(gate_b, MIDDLE, gate_c), dial(gate_c, AWAY, gate_a)];
    for _ in 0..3 {
        let mut last = Reader::start(gate_c, AWAY);
        let publisher = publish(daq, HOME);
        last.take(50);
        let refused = near[2].wait_for_event("refused");
        assert_eq!(
            (&refused["stream"], refused["reason"].as_str().unwrap().contains("loop")),
            (&"lab/wave".into(), true),
            "{refused}"
        );
        for (gate, port) in [gate_a, gate_b, gate_c].into_iter().zip(buses) {
            assert_eq!(announced(gate, port), 1, "on bus {port}");
        }
        let offered = end(publisher);
        let accounts = Accounts::of(&last.finish());
        assert!(accounts.is_explained() && accounts.next("elements") == offered, "{accounts}");
    }
    // Streams that have ended leave nothing.
    for relay in near.iter().chain(&far) {
        let is_empty = |line: &Value| {
            line["event"] == "state"
                && line["links"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|link| link["streams"] == Value::Array(Vec::new()))
        };
        relay.skip_to_now();
        relay.wait_for("a state without streams", is_empty);
    }
}

fn keys(folder: &Path, words: &[&str]) {
    let output =
        std::process::Command::new(binary()).arg("keys").args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_listed_relay_is_heard_and_another_only_once_it_is_listed() {
    let Some(lan) = lan_or_skip(&["gate-a", "gate-b", "gate-c"]) else { return };
    let [gate_a, gate_b, gate_c] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), &["new", ".", "--laboratory", "lab", "--station", "a"]);
    for station in ["b", "c"] {
        keys(folder.path(), &["add", station, "--authority", "lab.authority", "--like", "a.keys"]);
    }
    keys(folder.path(), &["peers", "a.keys", "b.keys"]);
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // The third knows the far relay, which does not know it.
    let far_key = {
        let shown = std::process::Command::new(binary())
            .args(["keys", "show", "--json", &file("b.keys")])
            .output()
            .unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let far_key: Value = serde_json::from_str(far_key.lines().next().unwrap()).unwrap();
    let far_key = far_key["exchange"].as_str().unwrap_or_else(|| panic!("{far_key}")).to_owned();
    let far = start(gate_b, AWAY, &["relay", "--listen", "7400", "--key", &file("b.keys"), "--peer", "a"]);
    far.wait_for_event("listening");
    let address = format!("udt://{}:7400", gate_b.address());
    let near = start(gate_a, HOME, &["relay", &address, "lab/**", "--key", &file("a.keys"), "--peer", "b"]);
    near.wait_for_event("connected");
    let mut reader = Reader::start(gate_b, AWAY);
    let publisher = publish(gate_a, HOME);
    reader.take(50);
    let third =
        start(gate_c, MIDDLE, &["relay", &address, "lab/**", "--key", &file("c.keys"), "--peer", &far_key]);
    far.wait_for("a warning", |line| {
        line["event"] == "warning" && line["what"].as_str().unwrap().contains("listed peers")
    });
    far.wait_for("a count", |line| line["event"] == "state" && line["turned_away"].as_u64() > Some(0));
    let said = third.lines_until(|line| line["event"] == "disconnected");
    assert!(said.iter().all(|line| line["event"] != "connected"), "{said:?}");
    keys(folder.path(), &["peers", "b.keys", "c.keys"]);
    far.wait_for_event("relisted");
    third.wait_for_event("connected");
    let offered = end(publisher);
    let accounts = Accounts::of(&reader.finish());
    assert!(accounts.is_explained() && accounts.next("elements") == offered, "{accounts}");
}

/// Plugs a host in, or out: only its link, while its own bus goes on.
fn set_plugged(host: &Host, port: &str, is_plugged: bool) {
    let how: &[&str] = if is_plugged { &["master", "br0"] } else { &["nomaster"] };
    let output = host.bridge_command("ip").args(["link", "set", port]).args(how).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Breaks the link for so many samples.
fn outage(missed: u64) {
    let Some(lan) = lan_or_skip(&["gate-a", "gate-b"]) else { return };
    let [gate_a, gate_b] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let far = listen(gate_b, AWAY);
    let near = dial(gate_a, HOME, gate_b);
    let (mut home, mut away) = (Reader::start(gate_a, HOME), Reader::start(gate_b, AWAY));
    let publisher = publish(gate_a, HOME);
    away.take(100);
    set_plugged(gate_b, "p1", false);
    home.take(missed);
    set_plugged(gate_b, "p1", true);
    let witnesses = [&near, &far];
    let witnesses = Witnesses(&witnesses);
    away.take(1_000);
    drop(witnesses);
    let offered = end(publisher);
    let (at_home, lines) = (samples(&home.finish()), away.finish());
    let accounts = Accounts::of(&lines);
    check_same(&samples(&lines), &at_home);
    assert!(accounts.is_explained(), "{accounts}");
    assert_eq!(accounts.next("elements"), offered, "{accounts}");
    // One second of it could still be sent behind.
    assert!(lost_on(&lines, 1, "deadline") > missed / 2, "{accounts}");
    let link_down = |line: &Value| {
        let causes = line["links"][0]["streams"][0]["causes"].as_array().into_iter().flatten();
        causes.filter(|cause| cause[0] == "link_down").filter_map(|cause| cause[1].as_u64()).sum::<u64>()
    };
    let (lines, _) = near.interrupt();
    assert!(lines.iter().map(link_down).max() > Some(missed / 2), "the cause is told");
    let waiting = lines.iter().filter_map(|line| line["links"][0]["waiting_bytes"].as_u64()).max();
    assert!(waiting < Some(2 * RATE_HZ * 8), "two deadlines of samples: {waiting:?}");
    let said = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert!(said("disconnected") <= said("connected"), "it is said once that the link is down");
}

#[test]
fn what_an_outage_of_the_link_costs_is_deadline_on_the_links_hop_and_the_rest_arrives() {
    outage(5 * RATE_HZ);
}

#[test]
#[ignore = "half a minute; run it with --ignored"]
fn so_does_one_of_half_a_minute() {
    outage(30 * RATE_HZ);
}

#[test]
fn of_two_ways_to_a_bus_one_publishes_and_the_other_goes_on_when_it_fails() {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b", "gate-c"]) else { return };
    let [daq, gate_a, gate_b, gate_c] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let far = listen(gate_c, AWAY);
    let _far = listen(gate_b, MIDDLE);
    let direct = dial(gate_a, HOME, gate_c);
    let _roundabout = [dial(gate_a, HOME, gate_b), dial(gate_b, MIDDLE, gate_c)];
    let (home, mut away) = (Reader::start(daq, HOME), Reader::start(gate_c, AWAY));
    let publisher = publish(daq, HOME);
    away.take(100);
    far.wait_for_event("standing_by");
    assert_eq!(announced(gate_c, AWAY), 1);
    direct.signal(Signal::KILL);
    away.until(|line| line["event"] == "began" && line["first_index"].as_u64() > Some(0));
    away.take(100);
    let offered = end(publisher);
    let (at_home, lines) = (samples(&home.finish()), away.finish());
    let last = lines.iter().rfind(|line| line["event"] == "account").unwrap();
    let (last, before): (Vec<Value>, Vec<Value>) = lines
        .iter()
        .filter(|line| line["event"] == "account")
        .cloned()
        .partition(|line| line["epoch"] == last["epoch"]);
    let (before, last) = (Accounts::of(&before), Accounts::of(&last));
    assert_eq!(before.last()["origin"]["epoch"], last.last()["origin"]["epoch"], "one publisher");
    // A loss on the first bus whose evidence was on the link that died may stay without a stage; any other has one.
    for account in [before.last(), last.last()] {
        let hops = account["hops"].as_array().unwrap();
        let later = hops.iter().filter(|hop| hop["hop"] != 0);
        let unexplained = later.chain([&account["elements"]]).filter_map(|it| it["unexplained"].as_u64());
        assert!(account["balanced"] == true && unexplained.sum::<u64>() == 0, "{before} {last}");
    }
    assert_eq!((&last.last()["state"], last.next("elements")), (&"closed".into(), offered), "{last}");
    for epoch in [before.last(), last.last()] {
        let of_epoch: Vec<Value> =
            lines.iter().filter(|line| line["epoch"] == epoch["epoch"]).cloned().collect();
        check_same(&samples(&of_epoch), &at_home);
    }
}

#[test]
fn on_the_second_link_a_sample_has_the_age_that_it_had_on_the_first() {
    let Some(lan) = lan_or_skip(&["gate-a", "gate-b", "gate-c"]) else { return };
    let [gate_a, gate_b, gate_c] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let path = ["link", "--json", "--delay", "100ms", "--between", gate_a.namespace(), gate_b.namespace()];
    let path = Command::start_here(&path);
    path.wait_for_event("carrying");
    let _far = [listen(gate_b, MIDDLE), listen(gate_c, AWAY)];
    let first = start(gate_a, HOME, &["relay", "udt://10.84.7.2:7400?secure=off", "lab/**"]);
    first.wait_for_event("connected");
    // The way of the second link takes no time, but what enters it is a tenth of a second old already.
    let address = format!("udt://{}:7400?secure=off", gate_c.address());
    let second = start(gate_b, MIDDLE, &["relay", &address, "lab/**", "--deadline", "40ms"]);
    second.wait_for_event("connected");
    let (mut middle, away) = (Reader::start(gate_b, MIDDLE), Reader::start(gate_c, AWAY));
    let publisher = publish(gate_a, HOME);
    // The round trip is known after some of these.
    middle.take(2_000);
    let offered = end(publisher);
    let [middle, away] = [middle, away].map(Reader::finish);
    for lines in [&middle, &away] {
        let accounts = Accounts::of(lines);
        assert!(accounts.is_explained() && accounts.next("elements") == offered, "{accounts}");
    }
    assert_eq!(lost_on(&middle, 1, "deadline"), 0);
    let late = lost_on(&away, 3, "deadline");
    assert!(late > offered / 2, "{late} of {offered}");
}
