//! `tallycast doctor audit`: its findings on hosts and links that were set up for it, for root and for any user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::slice;

use serde_json::Value;
use support::or_skip;

use crate::program::{Running, check_keys, run, run_as_nobody};

/// Reads the lines of an audit, each of which the published schema accepts.
fn audit_lines(output: &[u8]) -> Vec<Value> {
    check_keys(&["doctor", "audit"], output);
    let text = std::str::from_utf8(output).expect("UTF-8");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    lines.iter().for_each(|line| assert_eq!(published::check("doctor-audit", line), Ok(()), "{line}"));
    lines
}

/// Runs a shell command in a namespace of its own; `None`, with a note, if that is impossible.
fn run_apart(script: &str) -> Option<Output> {
    let namespace = or_skip(sys::Namespace::create("audit"))?;
    Some(namespace.command("sh").args(["-ec", script]).output().unwrap())
}

/// Returns audits as JSON within a separate namespace, after a shell command.
fn audit_after(script: &str) -> Option<(Vec<Value>, Option<i32>)> {
    let audit =
        format!("exec {} doctor audit --json --listen 1ms --interface lab0", env!("CARGO_BIN_EXE_tallycast"));
    let output = run_apart(&format!("{script}; {audit}"))?;
    assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((audit_lines(&output.stdout), output.status.code()))
}

#[test]
fn every_check_has_the_published_form_for_every_user() {
    let arguments = ["doctor", "audit", "--json", "--round-trip", "20ms"];
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast")).args(arguments).output().unwrap();
    let mut outputs = vec![output];
    outputs.extend(run_as_nobody(&arguments));
    for output in outputs {
        let lines = audit_lines(&output.stdout);
        let (ended, checks) = lines.split_last().unwrap();
        let count = |name: &str| checks.iter().filter(|it| it["judgement"] == name).count();
        let counts = ["ok", "not seen", "warn", "fail"].map(|name| Value::from(count(name)));
        assert_eq!([&ended["ok"], &ended["not_seen"], &ended["warn"], &ended["fail"]], counts.each_ref());
        for check in checks.iter().filter(|it| it["judgement"] == "warn" || it["judgement"] == "fail") {
            assert!(check["recommended"].is_string(), "{check}");
            assert!(!check["cure"].as_array().unwrap().is_empty(), "{check}");
        }
    }
}

#[test]
fn a_remedy_ends_what_an_audit_finds_and_its_undo_brings_it_back() {
    const LINK: &str = "ip link add lab0 type veth peer name lab1; ip link set lab0 up; ip link set lab1 up";
    let strict = format!("{LINK}; sysctl -qw net.ipv4.conf.lab0.rp_filter=1 net.ipv4.conf.all.rp_filter=0");
    let judged = |script: &str| {
        let (lines, code) = audit_after(script)?;
        let check = lines.iter().find(|line| line["check"] == "rp-filter").expect("it is checked").clone();
        assert_eq!(lines.last().expect("an end")["event"], "ended");
        assert_ne!(code, None);
        Some((check["judgement"].as_str().expect("a word").to_owned(), check))
    };
    let Some((judgement, check)) = judged(&strict) else { return };
    assert_eq!((judgement.as_str(), &check["live"]), ("warn", &"lab0: 1".into()), "{check}");
    let (remedy, undo) = (check["cure"][0].as_str().unwrap(), check["undo"][0].as_str().unwrap());
    assert_eq!(judged(&format!("{strict}; {remedy} >&2")).unwrap().0, "ok");
    assert_eq!(judged(&format!("{strict}; {remedy} >&2; {undo} >&2")).unwrap().0, "warn");
}

#[test]
fn a_bridge_that_snoops_without_a_querier_fails_until_one_asks() {
    const BRIDGE: &str = "ip link add lab0 type bridge mcast_snooping 1 mcast_querier 0 2>/dev/null || exit 9; \
                          ip link add lab1 type veth peer name lab2; ip link set lab1 master lab0; \
                          ip link set lab0 up; ip link set lab1 up; \
                          bridge mdb add dev lab0 port lab1 grp 239.84.0.2 permanent";
    let judged = |script: &str| {
        if !run_apart(BRIDGE)?.status.success() {
            println!("SKIPPED: no bridge can be made here");
            return None;
        }
        let (lines, code) = audit_after(&format!("{BRIDGE}{script}"))?;
        let check = lines.iter().find(|line| line["check"] == "group-querier").expect("it is checked");
        Some((check["judgement"].as_str().expect("a word").to_owned(), check.clone(), code))
    };
    let Some((judgement, check, code)) = judged("") else { return };
    assert_eq!((judgement.as_str(), code), ("fail", Some(2)), "{check}");
    let (judgement, check, _) = judged("; ip link set lab1 nomaster").unwrap();
    assert_eq!(judgement, "ok", "without ports: {check}");
    let (judgement, check, _) = judged("; bridge mdb del dev lab0 port lab1 grp 239.84.0.2").unwrap();
    assert_eq!(judgement, "warn", "nothing has joined a group: {check}");
    // The host itself, by its own stack.
    let joins =
        "; bridge mdb del dev lab0 port lab1 grp 239.84.0.2; ip address add 239.84.0.3/32 dev lab0 autojoin";
    assert_eq!(judged(joins).unwrap().0, "fail");
    for way in [0, 1] {
        let (remedy, undo) = (check["cure"][way].as_str().unwrap(), check["undo"][way].as_str().unwrap());
        assert_eq!(judged(&format!("; {remedy}")).unwrap().0, "ok", "{remedy}");
        assert_eq!(judged(&format!("; {remedy}; {undo}")).unwrap().0, "fail", "{undo}");
    }
}

#[test]
fn a_rule_that_counted_drops_is_reported_and_others_are_only_listed() {
    let judged = |counted: u32| {
        let rules = format!(
            "command -v nft >/dev/null || exit 9; ip link add lab0 type veth peer name lab1; ip link set lab0 up; \
             nft 'table inet lab {{ chain input {{ type filter hook input priority 0; \
             udp dport 5004 counter packets {counted} bytes 0 drop; }}; }}' || exit 9"
        );
        if !run_apart(&rules)?.status.success() {
            println!("SKIPPED: no rules can be made here");
            return None;
        }
        let (lines, _) = audit_after(&rules)?;
        let of_check = lines.into_iter().filter(|line| line["check"] == "firewall");
        Some(of_check.map(|line| (line["judgement"].clone(), line["live"].clone())).collect::<Vec<_>>())
    };
    let Some(quiet) = judged(0) else { return };
    let rules = (Value::from("ok"), Value::from("input: 1 rule"));
    assert_eq!(quiet, slice::from_ref(&rules));
    let [first, dropped] = &judged(5).unwrap()[..] else { panic!("two findings") };
    assert_eq!(first, &rules);
    assert_eq!(dropped.0, "fail");
    assert!(dropped.1.as_str().unwrap().ends_with(": 5 UDP packets dropped"), "{}", dropped.1);
}

#[test]
fn anybody_may_audit() {
    let Some(output) = run_as_nobody(&["doctor", "audit", "--rate", "1k"]) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("receive-buffer-limit") && text.lines().last().unwrap().contains(" warn, "),
        "{text}"
    );
    assert!(text.lines().any(|line| line.starts_with("ok        receive-buffer-limit")), "1 kbit/s: {text}");
}

#[test]
fn an_interface_that_is_not_there_is_said() {
    let arguments = ["doctor", "audit", "--interface", "none7"];
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast")).args(arguments).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("none7"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_audit_tells_which_streams_are_clear_and_what_the_file_of_keys_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let file = keys.join("daq-1.keys");
    let made = run(&["keys", "new", keys.to_str().unwrap(), "--station", "daq-1", "--valid", "10d"]);
    assert!(made.status.success(), "{made:?}");
    let clear = support::ports::private_bus();
    let secured = format!("{clear}&keys={}", file.display());
    let publish = |name, bus: &str| {
        Running::start(&[
            "pub",
            name,
            "--wave",
            "sine",
            "--rate",
            "1k",
            "--json",
            "--bus",
            bus,
            "--station",
            "daq-1",
        ])
    };
    let _publishers = [publish("test/clear", &clear), publish("test/secured", &secured)];
    let checks = |bus: &str, name: &str| {
        let output = run(&["doctor", "audit", "--json", "--bus", bus]);
        let lines = audit_lines(&output.stdout);
        lines.into_iter().filter(|line| line["check"] == name).collect::<Vec<_>>()
    };
    let streams = support::wait_until("both announcements", || {
        let check = checks(&secured, "bus-streams").swap_remove(0);
        let live = check["live"].as_str().unwrap();
        (live.contains("test/clear") && live.contains("secured: 1")).then(|| check.clone())
    });
    assert_eq!(streams["judgement"], "warn", "{streams}");
    let [keys] = &checks(&secured, "bus-keys")[..] else { panic!("one file") };
    assert_eq!(keys["judgement"], "warn", "ten days are left: {keys}");
    assert!(keys["cure"][0].as_str().unwrap().contains("tallycast keys renew"), "{keys}");
    let [certificates] = &checks(&secured, "bus-certificates")[..] else { panic!("one station") };
    assert_eq!(certificates["judgement"], "warn", "ten days are left: {certificates}");
    let live = certificates["live"].as_str().unwrap();
    assert!(live.starts_with("daq-1 (") && live.ends_with(" for 9 d"), "{live}");
    let [clocks] = &checks(&secured, "bus-clocks")[..] else { panic!("one station") };
    assert_eq!(clocks["judgement"], "ok", "both have one clock: {clocks}");
    let [lacks] = &checks(&clear, "bus-secrets")[..] else { panic!("one secret") };
    assert!(lacks["why"].as_str().unwrap().contains("names no file of keys"), "{lacks}");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let [open] = &checks(&secured, "bus-keys")[..] else { panic!("one file") };
    assert_eq!(open["judgement"], "fail", "{open}");
    assert!(open["cure"][0].as_str().unwrap().starts_with("chmod 600 "), "{open}");
}
