//! The demo: separate processes over real multicast, and every account in order at the end.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Running, private_bus, run, wait_for};

/// Returns the accounts among lines, each as reader and stream.
fn accounts(lines: &[Value]) -> BTreeSet<(&str, &str)> {
    assert!(lines.iter().all(|line| line["event"] == "account"), "{lines:?}");
    lines.iter().filter_map(|line| Some((line["reader"].as_str()?, line["stream"].as_str()?))).collect()
}

#[test]
fn a_short_demo_ends_with_every_account_in_order() {
    let (status, lines) =
        Running::start(&["demo", "--headless", "--duration", "4s", "--json", "--loss", "1%"]).wait();
    assert!(status.success(), "{status}: {lines:?}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in ["signal/ecg", "signal/chime", "test/sine", "test/chirp", "host/cpu"] {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    let injected = lines.iter().filter(|line| line["elements"]["lost"]["injected"].as_u64() > Some(0));
    assert!(injected.count() > 0, "one percent of a stream of 200 kHz is some");
}

/// Asks the demo's monitor server to derive a stream.
fn derive(address: SocketAddr, body: &str) -> String {
    let mut connection = wait_for("the page", || TcpStream::connect(address).ok());
    let head = format!("POST /api/derive HTTP/1.1\r\nHost: {address}\r\nConnection: close");
    write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn derived_streams_end_with_closed_accounts_at_every_reader() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    let derived = r#"
        [[monitor.derive]]
        name = "derived/power"
        expression = "u * u"
        inputs = { u = "signal/ecg:MLII" }
        unit = "mV2"
    "#;
    std::fs::write(&settings, derived).unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (settings, listen) = (settings.to_str().unwrap(), address.to_string());
    let demo = ["demo", "--headless", "--duration", "6s", "--json", "--loss", "10%"];
    let demo = Running::start(&[&demo[..], &["--config", settings, "--listen", &listen]].concat());
    // One of the file, one of the page, and one that is derived from a derived one.
    let of_the_page = [
        r#"{"name":"derived/sine","expression":"a - b","inputs":{"a":"test/sine:ch0","b":"test/sine:ch1"}}"#,
        r#"{"name":"derived/twice","expression":"2 * a","inputs":{"a":"derived/sine:value"}}"#,
    ];
    for body in of_the_page {
        let answer = derive(address, body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let (status, lines) = demo.wait();
    assert!(status.success(), "{status}: {lines:?}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in ["derived/power", "derived/sine", "derived/twice"] {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    let of = |reader: &str, stream: &str| {
        lines.iter().find(|line| line["reader"] == reader && line["stream"] == stream).unwrap()
    };
    // What its input lost is a hole of the source in the derived stream, for every reader of it.
    for reader in ["monitor", "recorder"] {
        assert!(of(reader, "derived/sine")["elements"]["lost"]["source"].as_u64() > Some(0));
    }
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    let place = ["--listen", "127.0.0.1:0", "--dir", folder.path().to_str().unwrap(), "--bus", &bus];
    let demo = Running::start(&[&["demo", "--headless", "--duration", "1h"], &place[..]].concat());
    // The demo itself, two readers, and at least the two waveforms.
    wait_for("the demo's processes", || (processes_with(&bus) >= 5).then_some(()));
    demo.signal(Signal::KILL);
    drop(demo);
    wait_for("the orphans' end", || (processes_with(&bus) == 0).then_some(()));
}

/// Counts the processes of this machine that have `word` among their arguments.
fn processes_with(word: &str) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())).count()
}

#[test]
fn an_address_that_is_taken_is_said_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&["demo", "--headless", "--duration", "1s", "--listen", &address]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&address) && said.contains("--listen"), "{said}");
}
