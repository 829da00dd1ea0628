//! Drop reports: drop events that a doctor sees explain losses in the accounts of its host.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Accounts, Command, Host, get_on, lan_or_skip, wait_until};
use serde_json::Value;

/// 20,000 samples a second of two channels: some 120 datagrams a second.
const PUBLISH: [&str; 10] =
    ["pub", "lab/wave", "--wave", "sine", "--rate", "20000", "--channels", "2", "--dtype", "f4"];

/// Starts a doctor with accounts; `None`, with a report, if it may not load programs into the kernel.
fn doctor(host: &Host, streams: &[&str]) -> Option<Command> {
    let bus = host.bus("");
    let watch = ["doctor", "watch", "--json", "--interval", "100ms", "--bus", &bus];
    let doctor = Command::start(host, &[&watch[..], streams].concat());
    let tells = doctor.wait_for_event("watching")["tells_accounts"] == true;
    if !tells {
        println!("SKIPPED: single datagrams cannot be looked at here");
    }
    tells.then_some(doctor)
}

fn read(host: &Host, name: &str, options: &[&str]) -> Command {
    let reader = ["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus_from_now("")];
    Command::start(host, &[&reader[..], options].concat())
}

/// Runs a program on a host, which must succeed; returns its output.
fn run(host: &Host, program: &str, arguments: &[&str]) -> String {
    let output = host.command(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether all evidence is from drop events for one of these reasons.
fn rests_on_events(accounts: &Accounts, reasons: &[&str]) -> bool {
    accounts.evidence().all(|line| reasons.iter().any(|reason| line.contains(&format!("kfree_skb {reason}"))))
}

#[test]
fn what_a_firewall_of_the_readers_host_drops_is_in_its_account_and_in_nobody_elses() {
    let Some(lan) = lan_or_skip(&["source", "walled", "free"]) else { return };
    let [source, walled, free] = lan.hosts() else { unreachable!("three hosts were asked for") };
    let Some(doctor) = doctor(walled, &[]) else { return };
    let publisher = Command::start(source, &[&PUBLISH[..], &["--json", "--bus", &source.bus("")]].concat());
    let readers = [read(walled, "walled", &[]), read(free, "free", &[])];
    readers.iter().for_each(|reader| reader.wait_for_blocks(5));
    // Every seventh datagram of data, one by one: their number is the rule's counter.
    let rules = "table ip lab { chain in { type filter hook input priority 0; \
                 udp length > 500 numgen inc mod 7 0 counter drop; }; }";
    run(walled, "nft", &[rules]);
    readers[0].wait_for_blocks(120);
    run(walled, "nft", &["flush chain ip lab in"]);
    let blocks_behind = 10;
    readers.iter().for_each(|reader| reader.wait_for_blocks(blocks_behind));
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let [walled, free] = readers.map(Accounts::once_closed);
    let lost = walled.lost_only_in("receiver_hook");
    assert!(lost >= 10, "{walled}");
    assert!(rests_on_events(&walled, &["NETFILTER_DROP"]), "{walled}");
    assert_eq!((free.lost("datagrams"), free.is_explained()), (BTreeMap::new(), true), "{free}");
    let (reported, _) = doctor.interrupt();
    // Datagrams from before the join of the group are another loss.
    let is_of_wall = |line: &&Value| line["event"] == "loss" && line["stage"] == "receiver_hook";
    let losses: Vec<&Value> = reported.iter().filter(is_of_wall).collect();
    // The name is requested when the first loss is reported.
    assert_eq!(losses.last().unwrap()["datagrams"][0]["name"], "lab/wave", "{losses:?}");
    let counted: u64 = losses.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    let numbers: Vec<&Value> = losses.iter().map(|line| &line["datagrams"][0]["numbers"]).collect();
    assert_eq!(counted, lost, "the doctor tells as many as the account: {numbers:?}, {walled}");
}

/// Returns gaps as every surface shows them: range, losses by stage, and evidence.
fn gaps_of<'v>(gaps: impl IntoIterator<Item = &'v Value>) -> BTreeSet<String> {
    let reported = ["first_element", "elements", "lost", "unexplained", "unsettled", "evidence"];
    gaps.into_iter().map(|gap| reported.map(|field| format!("{field} {}", gap[field])).join(", ")).collect()
}

/// Returns the value of the metric `name` with exactly these labels.
fn metric(text: &str, name: &str, labels: &str) -> Option<u64> {
    let start = format!("{name}{{{labels}}} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&start))?;
    // Whole numbers, whether they are written with a fraction or not.
    value.split('.').next().unwrap().parse().ok()
}

#[test]
fn a_finding_is_the_same_in_the_account_the_monitor_its_metrics_and_the_archive() {
    const STREAM: &str = "lab/wave";
    let Some(lan) = lan_or_skip(&["source", "walled"]) else { return };
    let [source, walled] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let Some(doctor) = doctor(walled, &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (root, bus) = (folder.path().to_str().unwrap(), walled.bus_from_now(""));
    let start =
        |arguments: &[&str]| Command::start(walled, &[arguments, &["--json", "--bus", &bus]].concat());
    let monitor = start(&["monitor", STREAM, "--listen", "127.0.0.1:0"]);
    let address = monitor.wait_for_event("listening")["address"].as_str().unwrap().to_owned();
    let recorder = start(&["record", STREAM, "--run", "walled", "--root", root, "--until-end"]);
    let reader = read(walled, "walled", &[]);
    let publisher = Command::start(source, &[&PUBLISH[..], &["--json", "--bus", &source.bus("")]].concat());
    reader.wait_for_blocks(5);
    let ask = |path: &str| get_on(walled, &address, &format!("{path}?stream={STREAM}&limit=4096"));
    let at_monitor = || serde_json::from_str::<Value>(&ask("/api/account")).unwrap();
    let is_known = || get_on(walled, &address, "/api/streams").contains(STREAM);
    wait_until("the monitor to know the stream", || is_known().then_some(()));
    wait_until("the monitor to read", || at_monitor()["elements"]["delivered"].as_u64().filter(|it| *it > 0));
    // A batch counts as stored once a second one has followed.
    let is_recorded =
        || run(walled, e2e::binary().to_str().unwrap(), &["query", root, "--list"]).contains(STREAM);
    wait_until("the recorder to write", || is_recorded().then_some(()));
    let rules = "table ip lab { chain in { type filter hook input priority 0; \
                 udp length > 500 numgen inc mod 7 0 counter drop; }; }";
    run(walled, "nft", &[rules]);
    reader.wait_for_blocks(120);
    run(walled, "nft", &["flush chain ip lab in"]);
    reader.wait_for_blocks(10);
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");

    let at_reader = Accounts::once_closed(reader);
    let (recorded, status) = recorder.finish();
    assert!(status.success(), "{recorded:?}");
    let at_recorder = Accounts::of(&recorded);
    let of_monitor = wait_until("the monitor's account to close", || {
        Some(at_monitor()).filter(|account| account["state"] == "closed")
    });
    assert_eq!(
        (&of_monitor["balanced"], &of_monitor["explained"]),
        (&true.into(), &true.into()),
        "{of_monitor}"
    );
    let hook = at_reader.lost_only_in("receiver_hook");
    assert!(hook >= 10, "{at_reader}");
    // Nothing was lost before all of them read, nor in any other stage.
    for unit in ["datagrams", "elements"] {
        assert_eq!(at_recorder.lost(unit), at_reader.lost(unit), "{at_recorder}");
    }
    let elements_lost = at_reader.lost("elements")["receiver_hook"];

    // The same gaps with the kernel's evidence.
    let gaps = gaps_of(at_reader.gaps());
    assert!(gaps.iter().all(|gap| gap.contains("kfree_skb NETFILTER_DROP @ nft_do_chain")), "{gaps:?}");
    assert_eq!(gaps_of(at_recorder.gaps()), gaps, "what the recorder was told");
    let shown: Value = serde_json::from_str(&ask("/api/gaps")).unwrap();
    assert_eq!(gaps_of(shown.as_array().unwrap()), gaps, "what the page is shown");
    let read_back =
        run(walled, e2e::binary().to_str().unwrap(), &["query", root, STREAM, "--gaps", "--json"]);
    let holes: Vec<Value> = read_back.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stored = holes.iter().flat_map(|hole| hole["gaps"].as_array().unwrap());
    assert_eq!(gaps_of(stored), gaps, "what the archive has");

    let metrics = get_on(walled, &address, "/metrics");
    let lost = |unit: &str| {
        let labels = format!("stream=\"{STREAM}\",stage=\"receiver_hook\"");
        metric(&metrics, &format!("tallycast_{unit}_lost_total"), &labels)
    };
    assert_eq!((lost("datagrams"), lost("elements")), (Some(hook), Some(elements_lost)), "{metrics}");
    for quantile in ["0.5", "0.99"] {
        let of_socket = |line: &&str| line.starts_with("tallycast_socket_wait_seconds{");
        let labels = format!("quantile=\"{quantile}\"");
        assert!(metrics.lines().filter(of_socket).any(|line| line.contains(&labels)), "{metrics}");
    }
    drop(doctor);
}

#[test]
fn readers_that_leave_amid_losses_wait_for_their_drop_reporter() {
    let Some(lan) = lan_or_skip(&["source", "walled"]) else { return };
    let [source, walled] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let Some(doctor) = doctor(walled, &[]) else { return };
    let publisher = Command::start(source, &[&PUBLISH[..], &["--json", "--bus", &source.bus("")]].concat());
    // Each closes at a different time: the last losses of some may not be reported yet.
    let readers = ["a", "b", "c", "d", "e", "f"].map(|name| read(walled, name, &[]));
    readers.iter().for_each(|reader| reader.wait_for_blocks(5));
    let rules = "table ip lab { chain in { type filter hook input priority 0; \
                 udp length > 500 numgen inc mod 2 0 counter drop; }; }";
    run(walled, "nft", &[rules]);
    for reader in readers {
        reader.wait_for_blocks(10);
        let (rest, status) = reader.interrupt();
        assert!(status.success(), "{status}: {rest:?}");
        let accounts = Accounts::of(&rest);
        assert_eq!(accounts.last()["state"], "cut", "{accounts}");
        assert!(accounts.lost_only_in("receiver_hook") > 0, "{accounts}");
    }
    drop((publisher, doctor));
}

#[test]
fn what_waited_in_vain_for_a_neighbour_the_publisher_tells_its_reader() {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, reader_host] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let Some(doctor) = doctor(source, &["lab/*"]) else { return };
    let (at, to) = ("udp://0.0.0.0:7500", format!("udp://{}:7500", reader_host.address()));
    let reader = read(reader_host, "reader", &["--from", at]);
    let bus = source.bus("");
    let publisher = Command::start(source, &[&PUBLISH[..], &["--to", &to, "--json", "--bus", &bus]].concat());
    reader.wait_for_blocks(30);
    // The reader's host no longer answers for its hardware address. Few datagrams may wait for the answer.
    run(source, "sysctl", &["-qw", "net.ipv4.neigh.eth0.unres_qlen_bytes=4096"]);
    run(reader_host, "ip", &["link", "set", "eth0", "arp", "off"]);
    run(source, "ip", &["neigh", "flush", "dev", "eth0"]);
    let lost = doctor.wait_for("a loss for want of a neighbour", |line| line["stage"] == "sender_ip");
    assert_eq!((&lost["event"], &lost["datagrams"][0]["name"]), (&"loss".into(), &"lab/wave".into()));
    run(reader_host, "ip", &["link", "set", "eth0", "arp", "on"]);
    reader.wait_for_blocks(200);
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let accounts = Accounts::once_closed(reader);
    assert!(accounts.lost_only_in("sender_ip") > 0, "{accounts}");
    drop(doctor);
}
