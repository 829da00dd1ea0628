//! Where losses are put down: one source, one bridge, three readers.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Command, Host, lan_or_skip};
use rustix::process::Signal;
use serde_json::Value;

const HOSTS: [&str; 4] = ["source", "reader1", "reader2", "reader3"];
/// 20,000 samples a second of two channels: some 120 datagrams a second.
const PUBLISH: [&str; 10] =
    ["pub", "lab/wave", "--wave", "sine", "--rate", "20000", "--channels", "2", "--dtype", "f4"];

fn publish(host: &Host) -> Command {
    Command::start(host, &[&PUBLISH[..], &["--json", "--bus", &host.bus("")]].concat())
}

fn read(host: &Host, name: &str, options: &str) -> Command {
    Command::start(host, &["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus(options)])
}

/// Ends the publisher, waits until every reader has closed its account, and returns the accounts.
fn accounts(publisher: Command, readers: Vec<Command>) -> Vec<Value> {
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let account = |reader: Command| {
        let ended = reader.wait_for_event("ended");
        let (rest, _) = reader.interrupt();
        let account = rest.into_iter().find(|line| line["event"] == "account");
        let account = account.unwrap_or_else(|| panic!("no account was printed after {ended}"));
        assert_eq!(account["balanced"], true, "{account}");
        assert_eq!(account["state"], "closed", "{account}");
        account
    };
    readers.into_iter().map(account).collect()
}

/// Returns what a book lost, as (stage, count).
fn lost(account: &Value, book: &str) -> Vec<(String, u64)> {
    let stages = account[book]["lost"].as_object().expect("a book has its losses");
    stages.iter().map(|(stage, count)| (stage.clone(), count.as_u64().unwrap())).collect()
}

fn assert_lost_nothing(account: &Value) {
    assert_eq!(lost(account, "datagrams"), [], "{account}");
    assert_eq!(account["elements"]["unexplained"], 0, "{account}");
    assert_eq!(account["explained"], true, "{account}");
}

/// Asserts that everything lost was lost in one stage, and returns how many datagrams.
fn assert_lost_in(account: &Value, stage: &str) -> u64 {
    assert_eq!(account["explained"], true, "{account}");
    let elements = lost(account, "elements");
    assert!(elements.iter().all(|(lost_in, _)| lost_in == stage), "{account}");
    match &lost(account, "datagrams")[..] {
        [(lost_in, count)] if lost_in == stage => *count,
        other => panic!("everything should be lost in {stage}, not {other:?}"),
    }
}

#[test]
fn a_reader_that_is_stopped_loses_in_its_socket_buffer_and_the_others_lose_nothing() {
    // A drop is a datagram, or, received in trains, as many as a train has.
    for (gro, datagrams_per_drop) in [("off", 1), ("on", 64)] {
        stopped_reader_loses_in_its_socket_buffer(gro, datagrams_per_drop);
    }
}

fn stopped_reader_loses_in_its_socket_buffer(gro: &str, datagrams_per_drop: u64) {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    let [source, first, second, small] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let publisher = publish(source);
    let readers = [
        read(first, "first", ""),
        read(second, "second", ""),
        read(small, "small", &format!("&rcvbuf=4096&gro={gro}")),
    ];
    for reader in &readers {
        reader.wait_for_event("began");
        reader.wait_for_blocks(5);
    }
    let [first, second, small] = readers;
    small.signal(Signal::STOP);
    // A second of the stream, by the count of another reader.
    first.wait_for_blocks(120);
    small.signal(Signal::CONT);
    small.wait_for_blocks(20);
    let accounts = accounts(publisher, vec![first, second, small]);
    assert_lost_nothing(&accounts[0]);
    assert_lost_nothing(&accounts[1]);
    let datagrams = assert_lost_in(&accounts[2], "receiver_socket_buffer");
    let drops = accounts[2]["socket"]["drops"].as_u64().unwrap();
    assert!(datagrams <= drops * datagrams_per_drop, "{datagrams} put down to {drops} drops, gro={gro}");
    // It was away for a second, and what it had not lost waited meanwhile.
    let waits = ["wait_p50_ns", "wait_p99_ns", "longest_wait_ns"];
    let waits = waits.map(|field| accounts[2]["socket"][field].as_u64().unwrap());
    assert!(waits.is_sorted() && waits[2] > 500_000_000, "{}", accounts[2]["socket"]);
    assert!(accounts[2]["socket"]["reads"].as_u64().unwrap() > 0, "{}", accounts[2]["socket"]);
    assert!(datagrams > 20, "a stopped reader with room for a few datagrams lost only {datagrams}");
}

#[test]
fn a_queue_discipline_that_is_too_small_is_named_by_the_sender() {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    let [source, readers @ ..] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let publisher = publish(source);
    let readers: Vec<_> =
        readers.iter().enumerate().map(|(index, host)| read(host, &index.to_string(), "")).collect();
    for reader in &readers {
        reader.wait_for_event("began");
        reader.wait_for_blocks(5);
    }
    // What a reader lost before it heard a first tally is only in the ranges that a later one names, 32 at most: some
    // 250 ms of the stream have two tallies.
    readers.iter().for_each(|reader| reader.wait_for_blocks(30));
    source.throttle("800kbit", "3000", "4000");
    readers[0].wait_for_blocks(60);
    let dropped = source.queue_dropped();
    source.unthrottle();
    readers[0].wait_for_blocks(20);
    assert!(dropped > 0, "half of the rate must be too little");
    for account in accounts(publisher, readers) {
        let datagrams = assert_lost_in(&account, "sender_qdisc");
        assert!(datagrams > 0);
    }
}

#[test]
fn what_a_queue_discipline_refuses_is_named_to_the_last_one_without_privilege_alone_or_in_trains() {
    // 40 MB/s, in trains of 16 once enough have left: a queue that is wide enough for a train refuses it in one piece.
    const FAST: [&str; 10] =
        ["pub", "lab/wave", "--wave", "sine", "--rate", "5000000", "--channels", "2", "--dtype", "f4"];
    // A narrow one would take it apart, and not say what it drops: no trains are sent where there is such a one.
    for (gso, burst, limit) in [("off", "6000", "60000"), ("on", "100000", "400000"), ("on", "6000", "60000")]
    {
        let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
        let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let bus = source.bus(&format!("&gso={gso}"));
        let publish = [&FAST[..], &["--json", "--bus", &bus]].concat();
        if burst == "6000" {
            source.throttle("1gbit", "1000000", "10000000");
        }
        let Some(publisher) = Command::start_unprivileged(source, &publish) else { return };
        let reader = read(reader, "reader", "");
        reader.wait_for_event("began");
        let mut dropped = 0;
        for _ in 0..4 {
            // More than a thousand datagrams: enough for trains.
            reader.wait_for_blocks(2_000);
            source.throttle("80mbit", burst, limit);
            reader.wait_for_blocks(300);
            dropped = source.queue_dropped();
            source.unthrottle();
        }
        reader.wait_for_blocks(20);
        assert!(dropped > 0, "a quarter of the rate must be too little");
        let account = accounts(publisher, vec![reader]).remove(0);
        assert_eq!(account["datagrams"]["unexplained"], 0, "gso={gso}, burst {burst}: {account}");
        // At this rate the cable between namespaces changes the order now and then.
        let stages: Vec<String> = lost(&account, "datagrams").into_iter().map(|(stage, _)| stage).collect();
        assert!(stages.contains(&"sender_qdisc".to_owned()), "{account}");
        assert!(stages.iter().all(|stage| ["sender_qdisc", "late"].contains(&stage.as_str())), "{account}");
    }
}

#[test]
fn a_send_buffer_that_is_full_loses_datagrams_or_holds_the_publisher_up_as_it_was_told() {
    for on_full in ["overwrite", "block"] {
        let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
        let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let bus = source.bus("&sndbuf=4608");
        let publish = [&PUBLISH[..], &["--on-full", on_full, "--json", "--bus", &bus]].concat();
        let publisher = Command::start(source, &publish);
        let reader = read(reader, "reader", "");
        reader.wait_for_event("began");
        reader.wait_for_blocks(30);
        // Half of the rate, and a queue behind the socket that would take everything.
        source.throttle("800kbit", "3000", "10000000");
        reader.wait_for_blocks(60);
        source.unthrottle();
        reader.wait_for_blocks(20);
        assert_eq!(source.queue_dropped(), 0);
        let account = accounts(publisher, vec![reader]).remove(0);
        match on_full {
            "block" => assert_lost_nothing(&account),
            _ => assert!(assert_lost_in(&account, "sender_socket") > 0),
        }
    }
}

#[test]
fn what_a_lossy_bridge_takes_is_unexplained_and_said_so() {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    let [source, readers @ ..] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let publisher = publish(source);
    let hosts = readers;
    let readers: Vec<_> =
        hosts.iter().enumerate().map(|(index, host)| read(host, &index.to_string(), "")).collect();
    for reader in &readers {
        reader.wait_for_event("began");
        reader.wait_for_blocks(5);
    }
    hosts[1].lose(0.1);
    readers[0].wait_for_blocks(300);
    let accounts = accounts(publisher, readers);
    assert_lost_nothing(&accounts[0]);
    assert_lost_nothing(&accounts[2]);
    let lossy = &accounts[1];
    assert_eq!(lost(lossy, "datagrams"), [], "no evidence at either end: {lossy}");
    assert!(lossy["datagrams"]["unexplained"].as_u64().unwrap() > 0, "{lossy}");
    assert!(lossy["elements"]["unexplained"].as_u64().unwrap() > 0, "{lossy}");
    assert_eq!(lossy["explained"], false, "{lossy}");
}

#[test]
fn a_stream_over_ipv6_has_an_account_like_any_other() {
    let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
    let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = source.bus_v6();
    let publisher = [&PUBLISH[..], &["--loss", "5%", "--json", "--bus", &bus]].concat();
    let publisher = Command::start(source, &publisher);
    let reader = Command::start(reader, &["sub", "lab/*", "--json", "--bus", &bus]);
    reader.wait_for_event("began");
    reader.wait_for_blocks(200);
    let account = accounts(publisher, vec![reader]).remove(0);
    assert!(assert_lost_in(&account, "injected") > 0);
    let socket = account["socket"]["address"].as_str().unwrap();
    assert!(socket.starts_with("[ff15:"), "{socket}");
}
