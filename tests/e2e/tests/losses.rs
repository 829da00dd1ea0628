//! Attribution of losses: one source, one bridge, three readers.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeMap;

use e2e::{Accounts, Command, Host, lan_or_skip};
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
    Command::start(host, &["sub", "lab/*", "--json", "--reader", name, "--bus", &host.bus_from_now(options)])
}

/// Ends the publisher, and returns its counts and the accounts of every reader.
fn end(publisher: Command, readers: Vec<Command>) -> (Value, Vec<Accounts>) {
    let (lines, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let totals = lines.into_iter().rfind(|line| line["event"] == "totals").expect("it counts at its end");
    (totals, readers.into_iter().map(Accounts::once_closed).collect())
}

fn accounts(publisher: Command, readers: Vec<Command>) -> Vec<Accounts> {
    end(publisher, readers).1
}

fn assert_lost_nothing(accounts: &Accounts) {
    assert!(accounts.lost("datagrams").is_empty() && accounts.is_explained(), "{accounts}");
}

#[test]
fn a_reader_that_is_stopped_loses_in_its_socket_buffer_and_the_others_lose_nothing() {
    // A drop is one datagram, or a whole train if the reader receives trains.
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
    // Waits for two seconds of the stream, as another reader counts them.
    first.wait_for_sample(first.sample_now() + 40_000);
    small.signal(Signal::CONT);
    small.wait_for_blocks(20);
    let accounts = accounts(publisher, vec![first, second, small]);
    assert_lost_nothing(&accounts[0]);
    assert_lost_nothing(&accounts[1]);
    let datagrams = accounts[2].lost_only_in("receiver_socket_buffer");
    let socket = &accounts[2].last()["socket"];
    let drops = socket["drops"].as_u64().unwrap();
    assert!(datagrams <= drops * datagrams_per_drop, "{datagrams} put down to {drops} drops, gro={gro}");
    // It was stopped for two seconds, and the datagrams it did not lose waited for most of that time.
    let waits = ["wait_p50_ns", "wait_p99_ns", "longest_wait_ns"];
    let waits = waits.map(|field| socket[field].as_u64().unwrap());
    assert!(waits.is_sorted() && waits[2] > 500_000_000, "{socket}");
    assert!(socket["reads"].as_u64().unwrap() > 0, "{socket}");
    assert!(datagrams > 20, "a stopped reader with room for a few datagrams lost only {datagrams}");
}

#[test]
fn a_queue_discipline_that_is_too_small_is_named_by_the_sender() {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    let [source, readers @ ..] = lan.hosts() else { unreachable!("four hosts were asked for") };
    source.unthrottle();
    let publisher = publish(source);
    let readers: Vec<_> =
        readers.iter().enumerate().map(|(index, host)| read(host, &index.to_string(), "")).collect();
    for reader in &readers {
        reader.wait_for_event("began");
        reader.wait_for_blocks(5);
    }
    // Losses of a reader before its first tally are only in the ranges of a later tally, 32 at most: about 250 ms
    // of the stream have two tallies.
    readers.iter().for_each(|reader| reader.wait_for_blocks(30));
    source.throttle("800kbit", "3000", "4000");
    readers[0].wait_for_blocks(60);
    let dropped = source.queue_dropped();
    source.unthrottle();
    readers[0].wait_for_blocks(20);
    assert!(dropped > 0, "half of the rate must be too little");
    for accounts in accounts(publisher, readers) {
        assert!(accounts.lost_only_in("sender_qdisc") > 0, "{accounts}");
    }
}

#[test]
fn what_a_queue_discipline_refuses_is_named_to_the_last_one_without_privilege_alone_or_in_trains() {
    // 40 MB/s, in trains of 16 once enough have left: a queue with room for a train drops it in one piece.
    const FAST: [&str; 10] =
        ["pub", "lab/wave", "--wave", "sine", "--rate", "5000000", "--channels", "2", "--dtype", "f4"];
    // A smaller queue would cut the train and not report its drops: no trains are sent over such a queue.
    for (gso, burst, limit) in [("off", "6000", "60000"), ("on", "100000", "400000"), ("on", "6000", "60000")]
    {
        let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
        let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let bus = source.bus(&format!("&gso={gso}"));
        let publish = [&FAST[..], &["--json", "--bus", &bus]].concat();
        let stands_before = burst == "6000";
        if stands_before {
            source.unthrottle();
        }
        let Some(publisher) = Command::start_unprivileged(source, &publish) else { return };
        let reader = read(reader, "reader", "");
        let began = reader.wait_for_event("began")["first_index"].as_u64().unwrap();
        // Losses of a reader before its first tally are only in the newest ranges of the next tally: half a second
        // has several.
        reader.wait_for_sample(began + 2_500_000);
        if !stands_before {
            publisher.while_stopped(|| source.unthrottle());
        }
        let mut dropped = 0;
        for _ in 0..4 {
            // More than a thousand datagrams are enough for trains.
            reader.wait_for_blocks(2_000);
            source.throttle("80mbit", burst, limit);
            reader.wait_for_blocks(300);
            dropped = source.queue_dropped();
            source.unthrottle();
        }
        reader.wait_for_blocks(20);
        assert!(dropped > 0, "a quarter of the rate must be too little");
        let (totals, accounts) = end(publisher, vec![reader]);
        let accounts = &accounts[0];
        assert!(accounts.is_explained(), "gso={gso}, burst {burst}: {accounts}");
        let mut lost = accounts.lost("datagrams");
        let refused = lost.remove("sender_qdisc").unwrap_or(0);
        assert_eq!(refused, totals["datagrams"]["sender_qdisc"].as_u64().unwrap(), "{totals}, {accounts}");
        // At this rate the virtual cable reorders now and then, and if a processor is taken away, the sockets of
        // both ends overflow soon.
        let others = ["late", "sender_socket", "receiver_socket_buffer"];
        assert!(lost.keys().all(|stage| others.contains(&stage.as_str())), "{accounts}");
    }
}

#[test]
fn a_send_buffer_that_is_full_loses_datagrams_or_holds_the_publisher_up_as_it_was_told() {
    for on_full in ["overwrite", "block"] {
        let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
        let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let bus = source.bus("&sndbuf=4608");
        source.unthrottle();
        let publish = [&PUBLISH[..], &["--on-full", on_full, "--json", "--bus", &bus]].concat();
        let publisher = Command::start(source, &publish);
        let reader = read(reader, "reader", "");
        reader.wait_for_event("began");
        reader.wait_for_blocks(30);
        // Half of the rate, and a queue after the socket that would hold everything.
        source.throttle("800kbit", "3000", "10000000");
        reader.wait_for_blocks(60);
        source.unthrottle();
        reader.wait_for_blocks(20);
        assert_eq!(source.queue_dropped(), 0);
        let accounts = accounts(publisher, vec![reader]).remove(0);
        match on_full {
            "block" => assert_lost_nothing(&accounts),
            _ => assert!(accounts.lost_only_in("sender_socket") > 0),
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
    assert_eq!(lossy.lost("datagrams"), BTreeMap::new(), "no evidence at either end: {lossy}");
    for unit in ["datagrams", "elements"] {
        assert!(lossy.sum(unit, "unexplained") > 0, "{lossy}");
    }
    assert!(!lossy.is_explained(), "{lossy}");
}

#[test]
fn a_stream_over_ipv6_has_an_account_like_any_other() {
    let Some(lan) = lan_or_skip(&HOSTS[..2]) else { return };
    let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = source.bus_v6();
    let publisher = [&PUBLISH[..], &["--loss", "5%", "--json", "--bus", &bus]].concat();
    let publisher = Command::start(source, &publisher);
    let reader = Command::start(reader, &["sub", "lab/*", "--start", "now", "--json", "--bus", &bus]);
    reader.wait_for_event("began");
    reader.wait_for_blocks(200);
    let accounts = accounts(publisher, vec![reader]).remove(0);
    assert!(accounts.lost_only_in("injected") > 0);
    let socket = accounts.last()["socket"]["address"].as_str().unwrap();
    assert!(socket.starts_with("[ff15:"), "{socket}");
}
