//! `link`: a path that real programs are tested over; its account, and what both ends know of it, agree.

use std::fs;
use std::net::UdpSocket;

use rustix::process::Signal;
use serde_json::Value;

use crate::measured::check_refusals;
use crate::program::{Running, run, run_as_nobody};

/// Starts a relay to a target; returns it and its port.
fn relay(target: &str, others: &[&str]) -> (Running, u64) {
    let words = ["link", "--relay", "127.0.0.1:0", "--to", target, "--json"];
    let running = Running::start(&[&words, others].concat());
    let listening = running.next_line().unwrap();
    assert_eq!(listening["event"], "listening");
    let port = listening["port"].as_u64().unwrap();
    (running, port)
}

/// Ends an emulator as Ctrl-C does; returns its report, whose accounts must close.
fn report(emulator: Running) -> Value {
    emulator.signal(Signal::INT);
    let (status, mut lines) = emulator.wait();
    let report = lines.pop().unwrap();
    assert_eq!(report["event"], "report");
    // A busy machine delays datagrams, which is not tested here: only that it is reported.
    assert_eq!(status.code(), Some(i32::from(report["is_void"].as_bool().unwrap())), "{report}");
    for way in [&report["there"], &report["back"]] {
        let of = |name: &str| way[name].as_u64().unwrap();
        let ended = of("passed") + lost(way) + of("refused") + of("no_listener") + of("overrun");
        assert_eq!(of("taken") + of("duplicated"), ended + of("held"), "{report}");
        assert_eq!((of("refused"), of("overrun"), of("unseen")), (0, 0, 0), "{report}");
    }
    report
}

fn lost(way: &Value) -> u64 {
    way["lost"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
}

#[test]
fn a_file_crosses_a_path_that_loses_and_every_datagram_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let (file, to) = (folder.path().join("data"), folder.path().join("to"));
    let bytes: Vec<u8> = (0..6_000_000_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    fs::write(&file, &bytes).unwrap();
    let mut receiver =
        Running::start(&["recv", to.to_str().unwrap(), "udt://127.0.0.1:0", "--once", "--json"]);
    let target = format!("127.0.0.1:{}", receiver.next_line().unwrap()["port"]);
    let path = ["--rate", "100M", "--delay", "5ms", "--loss", "1%", "--seed", "3"];
    let (relay, port) = relay(&target, &path);
    let address = format!("udt://127.0.0.1:{port}?cc=fixed&rate=80m");
    let mut sender = Running::start(&["send", file.to_str().unwrap(), &address, "--json"]);
    let [sent, received] = [&mut sender, &mut receiver].map(|end| {
        let account = end.lines_until(|line| line["event"] == "account").pop().unwrap();
        assert_eq!((&account["delivered"], &account["missing"]), (&1.into(), &0.into()), "{account}");
        account["transport"].clone()
    });
    assert_eq!((sender.wait().0.code(), receiver.wait().0.code()), (Some(0), Some(0)));
    assert!(fs::read(to.join("data")).unwrap() == bytes);
    let report = report(relay);
    let forward = &report["there"];
    // The ends count packets with data, the relay every datagram.
    let of = |end: &Value, name: &str| end[name].as_u64().unwrap();
    assert!(of(forward, "taken") >= of(&sent, "sent_packets"), "{sent} {report}");
    assert!(of(forward, "passed") >= of(&received, "received_packets"), "{received} {report}");
    let missed = of(&sent, "sent_packets") - of(&received, "received_packets");
    let duplicates = of(&received, "duplicate_packets");
    assert!(missed <= lost(forward) + duplicates + of(forward, "held"), "{sent} {received} {report}");
    assert!(
        forward["lost"]["random"].as_u64() > Some(0) && report["back"]["passed"].as_u64() > Some(0),
        "{report}"
    );
}

#[test]
fn placed_losses_are_exactly_those_and_the_way_back_is_another() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = server.local_addr().unwrap().to_string();
    let (relay, port) = relay(&target, &["--lose", "2,5", "--reverse", "lose=0"]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    let (mut byte, mut arrived, mut from) = ([0], Vec::new(), None);
    (0..8).for_each(|number| assert_eq!(client.send(&[number]).unwrap(), 1));
    for _ in 0..6 {
        from = Some(server.recv_from(&mut byte).unwrap().1);
        arrived.push(byte[0]);
    }
    assert_eq!(arrived, [0, 1, 3, 4, 6, 7]);
    (0..2).for_each(|number| assert_eq!(server.send_to(&[number], from.unwrap()).unwrap(), 1));
    assert_eq!((client.recv(&mut byte).unwrap(), byte), (1, [1]));
    let report = report(relay);
    assert_eq!(
        (&report["there"]["lost"]["placed"], &report["back"]["lost"]["placed"]),
        (&2.into(), &1.into())
    );
    assert_eq!((&report["there"]["passed"], &report["back"]["passed"]), (&6.into(), &1.into()));
}

#[test]
fn a_run_ends_by_itself_and_says_whether_it_is_valid() {
    let words = ["link", "--relay", "127.0.0.1:0", "--to", "127.0.0.1:9", "--duration", "50ms"];
    let output = run(&words);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("forward 0 received") && said.contains("valid: "), "{said}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("relaying from 127.0.0.1:") && said.contains("\nforward: 0ns\nreverse: 0ns"),
        "{said}"
    );
}

#[test]
fn a_path_that_cannot_be_is_told_with_a_way_out() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let held = holder.local_addr().unwrap().to_string();
    let refusals = [
        ("", "--relay <ADDRESS>"),
        (&format!("--relay {held}"), "--to <ADDRESS>"),
        (&format!("--relay {held} --to 127.0.0.1:9"), "choose another port"),
        (&format!("--relay {held} --to {held}"), "both the relay's own address and its target"),
        (&format!("--relay {held} --to {held} --between a b"), "cannot be used with"),
        ("--between a", "2 values required"),
        ("--between a b --addresses 10.0.0.1 10.0.0.2", "write 10.84.7.1/24"),
        (&format!("--relay nowhere --to {held}"), "write host:port"),
        ("--relay 127.0.0.1:0 --to [::1]:9", "differ in IP version"),
    ];
    check_refusals("link", &refusals);
    let conditions = [
        ("--loss 110%", "probability"),
        ("--burst 50%:0.5", "1%:4"),
        ("--queue 64KiB", "give a rate too"),
        ("--queue 20ms", "give --rate too"),
        ("--outage 3s..2s", "has no duration"),
        ("--reverse loss=two", "write them as in"),
        ("--back loss=two", "write them as in"),
        ("--there loss=two", "write them as in"),
        ("--clients 0", "at least one"),
    ];
    check_refusals("link --relay 127.0.0.1:0 --to 127.0.0.1:9", &conditions);
}

#[test]
fn without_privilege_a_relay_is_named_as_the_way_out() {
    let ends = ["/proc/self/ns/net", "/proc/thread-self/ns/net"];
    let Some(output) = run_as_nobody(&["link", "--between", ends[0], ends[1]]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("run it as root, or use a relay (--relay ADDRESS --to ADDRESS)"), "{said}");
}
