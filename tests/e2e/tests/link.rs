//! `tallycast link --between`: a path between two namespaces has the requested delay and loss, and accounts for
//! everything.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use e2e::{Command, Host, Lan, WATCHDOG, lan_or_skip};
use serde_json::Value;

/// Addresses that the path assigns to its ends.
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 84, 7, 1), Ipv4Addr::new(10, 84, 7, 2)];

/// Starts a path between two hosts of a lan, in addition to the bridge; returns it once it forwards.
fn path(lan: &Lan, conditions: &[&str]) -> Command {
    let [one, other] = [0, 1].map(|host| lan.hosts()[host].namespace());
    let path = Command::start_here(&[&["link", "--json", "--between", one, other], conditions].concat());
    path.wait_for_event("carrying");
    path
}

/// Stops a path; returns its report, whose accounts must close.
fn report(path: Command) -> Value {
    let (mut lines, status) = path.interrupt();
    let report = lines.pop().expect("a report is the last word");
    assert_eq!(report["event"], "report", "{report}");
    // A busy machine is late, which is not tested here: only that the report says so.
    assert_eq!(status.code(), Some(i32::from(report["is_void"] == true)), "{report}");
    for way in [&report["there"], &report["back"]] {
        let of = |name: &str| way[name].as_u64().expect("a count");
        let ended = of("passed") + lost(way) + of("refused") + of("no_listener") + of("overrun");
        assert_eq!(of("taken") + of("duplicated"), ended + of("held"), "{report}");
        assert_eq!((of("refused"), of("overrun"), of("unseen"), of("undelivered")), (0, 0, 0, 0), "{report}");
    }
    report
}

fn lost(way: &Value) -> u64 {
    way["lost"].as_object().expect("losses by why").values().filter_map(Value::as_u64).sum()
}

/// Opens a socket of a host at its end of the path.
fn socket(host: &Host, address: Ipv4Addr) -> UdpSocket {
    let socket = host.inside(|| UdpSocket::bind((address, 0)).expect("the path gave it this address"));
    socket.set_read_timeout(Some(WATCHDOG)).expect("it is no zero time");
    socket
}

/// A socket at each end, connected to the other.
fn sockets(lan: &Lan) -> [UdpSocket; 2] {
    let ends = [0, 1].map(|end| socket(&lan.hosts()[end], ENDS[end]));
    for (one, other) in [(0, 1), (1, 0)] {
        ends[one].connect(ends[other].local_addr().expect("it is bound")).expect("there is a way");
    }
    ends
}

#[test]
fn a_round_trip_takes_both_delays_and_no_other_than_the_placed_ones_are_lost() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let path = path(&lan, &["--delay", "15ms", "--reverse", "delay=25ms", "--forward", "lose=3,4,8"]);
    let [near, far] = sockets(&lan);
    let mut byte = [0];
    for number in 0..3 {
        let began = Instant::now();
        near.send(&[number]).expect("it goes out");
        assert_eq!((far.recv(&mut byte).expect("it arrives"), byte), (1, [number]));
        assert!(began.elapsed() >= Duration::from_millis(15), "{:?}", began.elapsed());
        far.send(&[number]).expect("it goes out");
        assert_eq!((near.recv(&mut byte).expect("it arrives"), byte), (1, [number]));
        assert!(began.elapsed() >= Duration::from_millis(40), "{:?}", began.elapsed());
    }
    for number in 3..10 {
        near.send(&[number]).expect("it goes out");
    }
    let arrived: Vec<u8> = (0..4)
        .map(|_| {
            far.recv(&mut byte).expect("it arrives");
            byte[0]
        })
        .collect();
    assert_eq!(arrived, [5, 6, 7, 9]);
    let report = report(path);
    let forward = &report["there"];
    assert_eq!(
        (&forward["taken"], &forward["passed"], &forward["lost"]["placed"]),
        (&10.into(), &7.into(), &3.into())
    );
    // One byte in a UDP packet over IPv4.
    assert_eq!((&forward["taken_bytes"], &forward["passed_bytes"]), (&290.into(), &203.into()));
    assert_eq!((&report["back"]["taken"], &report["back"]["passed"]), (&3.into(), &3.into()));
}

#[test]
fn the_reliable_transport_crosses_it_byte_for_byte_in_trains_and_without() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let folder = tempfile::tempdir().expect("room for two files");
    let file = folder.path().join("data");
    let bytes: Vec<u8> = (0..8_000_000_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    std::fs::write(&file, &bytes).expect("room for two files");
    let conditions = ["--rate", "60M", "--queue", "1MB", "--delay", "5ms", "--loss", "1%"];
    for (seed, manner) in [("1", &[][..]), ("2", &["--split"][..]), ("3", &["--merge", "1ms"][..])] {
        let path = path(&lan, &[&conditions[..], &["--seed", seed], manner].concat());
        let to = folder.path().join(seed);
        let address = format!("udt://{}:7400", ENDS[1]);
        let to_text = to.to_str().expect("a path of plain text");
        let receiver = Command::start(&lan.hosts()[1], &["recv", to_text, &address, "--once", "--json"]);
        receiver.wait_for_event("listening");
        let (file, address) =
            (file.to_str().expect("a path of plain text"), format!("{address}?cc=fixed&rate=45m"));
        let sender = Command::start(&lan.hosts()[0], &["send", file, &address, "--json"]);
        let sent = sender.wait_for_event("account");
        assert_eq!((&sent["delivered"], sender.finish().1.code()), (&1.into(), Some(0)), "{sent}");
        let received = receiver.wait_for_event("account");
        assert_eq!(receiver.finish().1.code(), Some(0));
        assert!(std::fs::read(to.join("data")).expect("it was delivered") == bytes, "{manner:?}");
        let report = report(path);
        let (forward, of) = (&report["there"], |of: &Value, name: &str| of[name].as_u64().expect("a count"));
        assert!(of(forward, "taken") >= of(&sent["transport"], "sent_packets"), "{sent} {report}");
        assert!(
            of(forward, "passed") >= of(&received["transport"], "received_packets"),
            "{received} {report}"
        );
        assert!(of(&forward["lost"], "random") > 0, "{report}");
    }
}

#[test]
fn ipv6_crosses_it_once_it_is_switched_on() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let path = path(&lan, &["--delay", "2ms", "--loss", "1%"]);
    for (host, address) in lan.hosts().iter().zip(["fd77::1/64", "fd77::2/64"]) {
        let succeeds = |program: &str, words: &[&str]| {
            let output = host.command(program).args(words).output().expect("it can be run");
            assert!(
                output.status.success(),
                "{program} {words:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        succeeds("sh", &["-c", "echo 0 > /proc/sys/net/ipv6/conf/tally0/disable_ipv6"]);
        succeeds("ip", &["address", "add", address, "dev", "tally0", "nodad"]);
    }
    let listen = ["recv", "--memory", "udt://[fd77::2]:7400", "--once", "--json"];
    let receiver = Command::start(&lan.hosts()[1], &listen);
    receiver.wait_for_event("listening");
    // A payload for 1,400 bytes over IPv4 also fits one packet over IPv6.
    let address = "udt://[fd77::2]:7400?cc=fixed&rate=50m&mtu=1400";
    let sender = Command::start(&lan.hosts()[0], &["send", "--memory", "3MB", address, "--json"]);
    let sent = sender.wait_for_event("account");
    assert_eq!((&sent["delivered"], sender.finish().1.code()), (&1.into(), Some(0)), "{sent}");
    assert_eq!(receiver.finish().1.code(), Some(0), "verified from end to end");
    let report = report(path);
    assert!(
        report["there"]["taken"].as_u64() >= sent["transport"]["sent_packets"].as_u64(),
        "{sent} {report}"
    );
    assert!(report["there"]["lost"]["random"].as_u64() > Some(0), "{report}");
}

#[test]
fn tcp_crosses_it_too() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let path = path(&lan, &["--delay", "1ms", "--loss", "0.5%"]);
    let listen = || TcpListener::bind((ENDS[1], 0)).expect("the path gave it this address");
    let listener = lan.hosts()[1].inside(listen);
    let server = listener.local_addr().expect("it is bound");
    let send = || {
        let mut client = TcpStream::connect(server).expect("it listens");
        client.write_all(&[7; 1_000_000]).expect("it reads");
    };
    let served = std::thread::scope(|scope| {
        scope.spawn(|| lan.hosts()[0].inside(send));
        let (mut connection, _) = listener.accept().expect("a client");
        std::io::copy(&mut connection, &mut std::io::sink()).expect("the end")
    });
    assert_eq!(served, 1_000_000);
    let report = report(path);
    assert!(report["there"]["taken_bytes"].as_u64() > Some(1_000_000), "{report}");
}

#[test]
fn two_paths_need_two_names_and_a_host_that_is_there() {
    let Some(lan) = lan_or_skip(&["near", "far"]) else { return };
    let [near, far] = [0, 1].map(|host| lan.hosts()[host].namespace());
    let _first = path(&lan, &[]);
    let refused = |words: &[&str], wanted: &str| {
        let output = std::process::Command::new(e2e::binary()).args(words).output().expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{words:?}: {said}");
    };
    refused(&["link", "--between", near, far], "there is an interface tally0 already\nchoose another name");
    refused(
        &["link", "--between", near, "no-such-host", "--name", "tally1"],
        "sudo ip netns add no-such-host",
    );
    refused(&["link", "--between", near, near], "is at both ends");
    refused(&["link", "--between", near, far, "--name", "a-name-that-is-too-long"], "cannot be made");
    let addresses = ["--addresses", "10.84.8.1/24", "10.84.8.2/24", "--name", "tally1", "--duration", "20ms"];
    let second = Command::start_here(&[&["link", "--json", "--between", near, far], &addresses[..]].concat());
    assert_eq!(second.wait_for_event("carrying")["addresses"][1], "10.84.8.2");
    assert_eq!(second.finish().1.code(), Some(0), "nothing passed, nothing was late");
}
