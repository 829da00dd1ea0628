//! A doctor beside a stream: what it sees the kernel drop, the accounts of its host explain.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Command, Host, lan_or_skip};
use serde_json::Value;

/// 20,000 samples a second of two channels: some 120 datagrams a second.
const PUBLISH: [&str; 10] =
    ["pub", "lab/wave", "--wave", "sine", "--rate", "20000", "--channels", "2", "--dtype", "f4"];

/// Starts a doctor that tells accounts; `None`, and says so, where it may not look into the kernel.
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
    let reader = ["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus("")];
    Command::start(host, &[&reader[..], options].concat())
}

/// Waits until a reader has closed its account, and returns that: the last one, if the publisher fell silent in between.
fn account(reader: Command) -> Value {
    reader.wait_for("a closed account", |line| line["event"] == "ended" && line["state"] == "closed");
    let (rest, _) = reader.interrupt();
    let account = rest.into_iter().rfind(|line| line["event"] == "account").unwrap();
    assert_eq!((&account["balanced"], &account["state"]), (&true.into(), &"closed".into()), "{account}");
    account
}

/// Runs a program on a host that must succeed; returns what it says.
fn run(host: &Host, program: &str, arguments: &[&str]) -> String {
    let output = host.command(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether every evidence of a gap is a drop event for one of these reasons.
fn rests_on_events(account: &Value, reasons: &[&str]) -> bool {
    let is_event = |line: &Value| {
        let line = line.as_str().unwrap();
        reasons.iter().any(|reason| line.contains(&format!("kfree_skb {reason}")))
    };
    let mut lines =
        account["gaps"].as_array().unwrap().iter().flat_map(|gap| gap["evidence"].as_array().unwrap());
    lines.all(is_event)
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
    let [walled, free] = readers.map(account);
    assert_eq!(walled["explained"], true, "{walled}");
    let lost = walled["datagrams"]["lost"]["receiver_hook"].as_u64().unwrap();
    assert!(lost >= 10, "{walled}");
    assert_eq!(walled["datagrams"]["lost"], serde_json::json!({ "receiver_hook": lost }));
    assert!(rests_on_events(&walled, &["NETFILTER_DROP"]), "{walled}");
    assert_eq!((&free["datagrams"]["lost"], &free["explained"]), (&serde_json::json!({}), &true.into()));
    let (told, _) = doctor.interrupt();
    // What came before anybody had joined the group is another loss.
    let is_of_wall = |line: &&Value| line["event"] == "loss" && line["stage"] == "receiver_hook";
    let losses: Vec<&Value> = told.iter().filter(is_of_wall).collect();
    // The name is asked for when the first loss is told.
    assert_eq!(losses.last().unwrap()["datagrams"][0]["name"], "lab/wave", "{losses:?}");
    let counted: u64 = losses.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    let numbers: Vec<&Value> = losses.iter().map(|line| &line["datagrams"][0]["numbers"]).collect();
    assert_eq!(counted, lost, "the doctor tells as many as the account: {numbers:?}, {}", walled["gaps"]);
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
    // The reader's host does not say any more which hardware address it has. Few datagrams wait for that.
    run(source, "sysctl", &["-qw", "net.ipv4.neigh.eth0.unres_qlen_bytes=4096"]);
    run(reader_host, "ip", &["link", "set", "eth0", "arp", "off"]);
    run(source, "ip", &["neigh", "flush", "dev", "eth0"]);
    let lost = doctor.wait_for("a loss for want of a neighbour", |line| line["stage"] == "sender_ip");
    assert_eq!((&lost["event"], &lost["datagrams"][0]["name"]), (&"loss".into(), &"lab/wave".into()));
    run(reader_host, "ip", &["link", "set", "eth0", "arp", "on"]);
    reader.wait_for_blocks(200);
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let account = account(reader);
    assert_eq!(account["explained"], true, "{account}");
    let lost = account["datagrams"]["lost"]["sender_ip"].as_u64().unwrap();
    assert!(lost > 0, "{account}");
    assert_eq!(account["datagrams"]["lost"], serde_json::json!({ "sender_ip": lost }));
    drop(doctor);
}
