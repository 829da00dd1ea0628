//! Losses of neither host: a doctor at each end, and a bridge between them that drops.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeMap;

use e2e::{Accounts, Command, Host, lan_or_skip};

/// Starts a doctor with checkpoints; `None`, with a report, if it may not load programs into the kernel.
fn doctor(host: &Host, options: &[&str]) -> Option<Command> {
    let bus = host.bus("");
    let watch = ["doctor", "watch", "--checkpoints", "--json", "--interval", "100ms", "--bus", &bus];
    let doctor = Command::start(host, &[&watch[..], options].concat());
    let names = doctor.wait_for_event("watching")["names_datagrams"] == true;
    if !names {
        println!("SKIPPED: single datagrams cannot be looked at here");
    }
    names.then_some(doctor)
}

/// Plays a stream over a bridge that drops every seventh datagram for a while; returns the number of drops, and the
/// accounts.
fn play(source: &Host, reader: &Host) -> (u64, Accounts) {
    let (source_bus, reader_bus) = (source.bus(""), reader.bus_from_now(""));
    let shape = ["--wave", "sine", "--rate", "20000", "--channels", "2", "--dtype", "f4", "--json"];
    let publish = [&["pub", "lab/wave"], &shape[..], &["--bus", &source_bus]].concat();
    let publisher = Command::start(source, &publish);
    let subscriber = Command::start(reader, &["sub", "lab/*", "--json", "--bus", &reader_bus]);
    subscriber.wait_for_blocks(200);
    let rules = "table bridge lab { chain on { type filter hook forward priority 0; \
                 udp length > 500 numgen inc mod 7 3 counter drop; }; }";
    let nft = |arguments: &[&str]| {
        let output = reader.bridge_command("nft").args(arguments).output().unwrap();
        assert!(output.status.success(), "nft {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    nft(&[rules]);
    subscriber.wait_for_blocks(120);
    let listed = nft(&["-j", "list", "ruleset"]);
    nft(&["flush", "chain", "bridge", "lab", "on"]);
    subscriber.wait_for_blocks(300);
    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    let accounts = Accounts::once_closed(subscriber);
    let count = listed
        .split("\"packets\": ")
        .nth(1)
        .and_then(|rest| rest.split(|it: char| !it.is_ascii_digit()).next());
    (count.unwrap().parse().unwrap(), accounts)
}

#[test]
fn what_left_the_one_host_and_never_came_to_the_other_the_network_lost() {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let (Some(_of_source), Some(of_reader)) = (doctor(source, &[]), doctor(reader, &[])) else { return };
    let (dropped, accounts) = play(source, reader);
    let lost = accounts.lost_only_in("network");
    assert!(lost >= dropped && dropped >= 10, "{dropped} were dropped at least: {accounts}");
    assert!(accounts.evidence().all(|line| line.contains("HOLE @ netif_receive_skb")), "{accounts}");
    let (told, _) = of_reader.interrupt();
    let losses = told.iter().filter(|line| line["event"] == "loss" && line["stage"] == "network");
    let counted: u64 = losses.map(|line| line["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, lost, "the doctor tells as many as the account");
    let passed = told.iter().rfind(|line| line["event"] == "passed" && line["name"] == "lab/wave").unwrap();
    assert_eq!((&passed["checkpoint"], &passed["device"]), (&"RX".into(), &"eth0".into()));
}

#[test]
fn without_a_doctor_at_the_publishers_host_nobody_knows_on_which_side_it_was_lost() {
    with_a_doctor_at_the_readers_host(|_| None);
}

#[test]
fn a_doctor_that_could_not_tell_of_all_counts_for_none() {
    for options in [["--profile", "rtp"], ["--port", "7400"]] {
        with_a_doctor_at_the_readers_host(|source| doctor(source, &options));
    }
}

/// Plays it with a doctor at the reader's host, and `at_source` at the publisher's: the losses stay unexplained.
fn with_a_doctor_at_the_readers_host(at_source: impl Fn(&Host) -> Option<Command>) {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let Some(_of_reader) = doctor(reader, &[]) else { return };
    let _of_source = at_source(source);
    let (dropped, accounts) = play(source, reader);
    assert_eq!(accounts.lost("datagrams"), BTreeMap::new(), "{accounts}");
    assert!(accounts.sum("datagrams", "unexplained") >= dropped, "{accounts}");
}
