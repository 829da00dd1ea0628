//! The demo: separate processes over real multicast, and every account correct at the end.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::BufRead;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::http::{self, Answer};
use support::ports::{private_bus, private_bus_from_now};
use support::wait_until;

use crate::program::{Running, command, run};

/// Returns the accounts among lines, each as reader and stream.
fn accounts(lines: &[Value]) -> BTreeSet<(&str, &str)> {
    assert!(lines.iter().all(|line| line["event"] == "account"), "{lines:?}");
    lines.iter().filter_map(|line| Some((line["reader"].as_str()?, line["stream"].as_str()?))).collect()
}

/// A demo that runs until it is ended, with the addresses of its monitor server and its archive.
struct Demo {
    running: Running,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Demo {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = support::ports::free_address();
        let (bus, listen, archive) =
            (private_bus_from_now(), address.to_string(), folder.path().join("archive"));
        let place = ["--bus", &bus, "--listen", &listen, "--dir", archive.to_str().unwrap()];
        let demo = ["demo", "--headless", "--duration", "1h", "--json"];
        Self { running: Running::start(&[&demo[..], &place, more].concat()), address, folder }
    }

    /// Waits until both readers have read all of these streams, and the monitor server has lost some of one of them.
    fn wait_until_read(&self, streams: &[&str], losing: &str) {
        wait_until("every stream at the recorder", || {
            let recorded = recorded(self.folder.path());
            streams.iter().all(|stream| recorded.contains(&stream.replace('/', "%2F"))).then_some(())
        });
        let told = |name: &str, field: &str| {
            let all: Value = serde_json::from_slice(&ask(self.address, "GET /api/streams", "").body).ok()?;
            let listed = all["streams"].as_array()?.iter().find(|it| it["stream"] == name)?;
            listed[field].as_u64()
        };
        for stream in streams {
            wait_until("every stream at the monitor", || told(stream, "next_index").filter(|next| *next > 0));
        }
        // From here on, so that the recorder has lost some, too.
        let before = told(losing, "lost_elements").unwrap_or(0);
        wait_until("losses", || told(losing, "lost_elements").filter(|lost| *lost > before + LOST_AT_LEAST));
    }

    fn end(self) -> Vec<Value> {
        self.running.signal(Signal::INT);
        let (status, lines) = self.running.wait();
        assert!(status.success(), "{status}: {lines:?}");
        lines
    }
}

/// Elements; some datagrams' worth.
const LOST_AT_LEAST: u64 = 1_000;

/// Returns the streams in an archive, as their folders are called.
fn recorded(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        match entry.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("stream=")) {
            Some(stream) => found.extend(std::fs::read_dir(&entry).is_ok().then(|| stream.to_owned())),
            None => found.extend(recorded(&entry)),
        }
    }
    found
}

#[test]
fn a_demo_that_is_ended_ends_with_every_account_in_order() {
    let streams = ["signal/ecg", "signal/chime", "test/sine", "test/chirp", "host/cpu"];
    let demo = Demo::start(&["--loss", "1%"]);
    demo.wait_until_read(&streams, "test/chirp");
    let lines = demo.end();
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in streams {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    let injected = lines.iter().filter(|line| line["elements"]["lost"]["injected"].as_u64() > Some(0));
    assert!(injected.count() > 0, "one percent of a stream of 200 kHz is some");
}

#[test]
fn a_coupled_demo_steers_its_simulation_and_has_every_change_in_its_archive() {
    let demo = Demo::start(&["--coupled"]);
    // Each change of a parameter is a sample of this stream, beside the records of its command.
    let changes = || {
        let all: Value = serde_json::from_slice(&ask(demo.address, "GET /api/streams", "").body).ok()?;
        let listed = all["streams"].as_array()?.iter().find(|it| it["stream"] == "steer/sim/plate")?;
        listed["next_index"].as_u64().filter(|next| *next > 20)
    };
    wait_until("some commands", changes);
    let mut lines = demo.end();
    let commands = lines.pop().unwrap();
    assert_eq!((&commands["event"], &commands["complaints"]), (&json!("commands"), &json!([])), "{commands}");
    let count = |name: &str| commands[name].as_u64().unwrap();
    assert!(count("applied") > 0 && commands["refused_by_rule"]["range"].as_u64() > Some(0), "{commands}");
    let without_effect = count("refused") + count("expired");
    assert_eq!(count("received"), count("applied") + without_effect, "{commands}");
    assert_eq!(count("archived_changes"), count("applied"), "{commands}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in ["plate/image", "plate/probes", "steer/sim/plate"] {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
}

#[test]
fn a_demo_ends_by_itself_when_its_time_is_over() {
    let (status, lines) = Running::start(&["demo", "--headless", "--duration", "1s", "--json"]).wait();
    // The amount read by then depends on the machine; all of it is accounted for.
    assert!(status.code().is_some(), "{status}");
    accounts(&lines);
}

/// Sends a request to the monitor server once that listens.
fn ask(address: SocketAddr, line: &str, body: &str) -> Answer {
    wait_until("the monitor server", || TcpStream::connect(address).ok());
    http::ask(address, &format!("{line} HTTP/1.1\r\nHost: {address}"), body)
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
    let demo = Demo::start(&["--loss", "10%", "--config", settings.to_str().unwrap()]);
    // One of the file, one of the page, and one that is derived from a derived one.
    let of_the_page = [
        r#"{"name":"derived/sine","expression":"a - b","inputs":{"a":"test/sine:ch0","b":"test/sine:ch1"}}"#,
        r#"{"name":"derived/twice","expression":"2 * a","inputs":{"a":"derived/sine:value"}}"#,
    ];
    for body in of_the_page {
        let answer = ask(demo.address, "POST /api/derive", body);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let derived = ["derived/power", "derived/sine", "derived/twice"];
    demo.wait_until_read(&derived, "derived/sine");
    let lines = demo.end();
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        for stream in derived {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    // A loss of its input is a hole of the source in the derived stream, for every reader of it.
    for reader in ["monitor", "recorder"] {
        let is_its = |line: &&Value| line["reader"] == reader && line["stream"] == "derived/sine";
        let mut of_source = lines.iter().filter(is_its).map(|line| &line["elements"]["lost"]["source"]);
        assert!(of_source.any(|lost| lost.as_u64() > Some(0)), "{lines:?}");
    }
}

/// Returns the status with which a demo answers strangers where this user's rules deny them everything.
fn status_under_own_rules(more: &[&str]) -> u16 {
    let (rules, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (file, address) = (rules.path().join("access"), support::ports::free_address());
    std::fs::write(&file, "deny anyone * **\n").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let (listen, folder) = (address.to_string(), folder.path().to_str().unwrap());
    let demo = ["demo", "--headless", "--json", "--listen", &listen, "--dir", folder];
    let arguments = [&demo[..], more].concat();
    let demo = Running::of(command(&arguments).env("TALLYCAST_ACCESS", rules.path()), &arguments);
    let status = ask(address, "GET /api/streams", "").status;
    demo.signal(Signal::INT);
    demo.wait();
    status
}

#[test]
fn the_users_own_rules_do_not_bind_a_demo_of_this_host_alone_but_one_on_a_bus_of_its_choice() {
    assert_eq!(status_under_own_rules(&[]), 200);
    assert_eq!(status_under_own_rules(&["--bus", &private_bus_from_now()]), 401);
}

/// Returns an address for the near page; the far one is at the next port.
fn address_before_a_free_one() -> SocketAddr {
    let mut pairs = std::iter::repeat_with(|| [(); 2].map(|()| support::ports::free_address()));
    let [near, _] = pairs.find(|[near, far]| far.port() == near.port() + 1).expect("there is no end");
    near
}

#[test]
fn a_demo_of_two_sites_ends_with_every_account_in_order_at_both() {
    let (folder, listen) = (tempfile::tempdir().unwrap(), address_before_a_free_one().to_string());
    let (bus, archive) = (private_bus_from_now(), folder.path().join("archive"));
    let demo = ["demo", "--wan", "20ms", "--loss", "1%", "--headless", "--duration", "1h", "--json"];
    let place = ["--bus", &bus, "--listen", &listen, "--dir", archive.to_str().unwrap()];
    let arguments = [&demo[..], &place].concat();
    let mut running = Running::of(command(&arguments).stderr(Stdio::piped()), &arguments);
    let mut errors = running.take_errors().lines().map_while(Result::ok);
    let far = errors.find_map(|line| line.strip_prefix("far page  http://")?.strip_suffix('/')?.parse().ok());
    let far: SocketAddr = far.expect("the address of the far page");
    let streams = ["signal/ecg", "signal/chime", "test/sine", "test/chirp", "host/cpu"];
    for stream in streams {
        wait_until("every stream at the far page", || {
            let all: Value = serde_json::from_slice(&ask(far, "GET /api/streams", "").body).ok()?;
            let listed = all["streams"].as_array()?.iter().find(|it| it["stream"] == stream)?;
            listed["next_index"].as_u64().filter(|next| *next > 0)
        });
    }
    running.signal(Signal::INT);
    let (status, lines) = running.wait();
    assert!(status.success(), "{status}: {lines:?}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder", "far"] {
        for stream in streams {
            assert!(accounts.contains(&(reader, stream)), "{reader} {stream}: {accounts:?}");
        }
    }
    for account in &lines {
        let hop = if account["reader"] == "far" { json!(2) } else { Value::Null };
        assert_eq!(account["origin"]["hop"], hop, "{account}");
    }
    drop(errors);
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_behind() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    let place = ["--listen", "127.0.0.1:0", "--dir", folder.path().to_str().unwrap(), "--bus", &bus];
    let demo = Running::start(&[&["demo", "--headless", "--duration", "1h"], &place[..]].concat());
    // The demo itself, two readers, and at least the two waveforms.
    wait_until("the demo's processes", || (processes_with(&bus) >= 5).then_some(()));
    demo.signal(Signal::KILL);
    drop(demo);
    wait_until("the orphans' end", || (processes_with(&bus) == 0).then_some(()));
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

/// Messages of readers under attack that a secured demo waits for, each once for either reader and attacked stream.
const REFUSALS: [&str; 3] = ["(bad tag)", "clear datagrams of", "is secured with secret"];

#[test]
fn a_secured_demo_refuses_forgeries_rotates_its_secret_and_shows_outsiders_nothing() {
    let (folder, listen) = (tempfile::tempdir().unwrap(), support::ports::free_address().to_string());
    let (bus, archive) = (private_bus_from_now(), folder.path().join("archive"));
    let demo = ["demo", "--secure", "--headless", "--duration", "1h", "--json", "--loss", "1%"];
    let arguments =
        [&demo[..], &["--bus", &bus, "--listen", &listen, "--dir", archive.to_str().unwrap()]].concat();
    let mut command = command(&arguments);
    // Refusals are told, so that the test knows when there were enough.
    command.env("TALLYCAST_LOG", "warn").stderr(Stdio::piped());
    let mut running = Running::of(&mut command, &arguments);
    let (mut told, mut rotations, mut sign_ins) = ([0; 3], 0, Vec::new());
    for line in running.take_errors().lines().map_while(Result::ok) {
        for (count, refusal) in told.iter_mut().zip(REFUSALS) {
            *count += u32::from(line.contains(refusal));
        }
        rotations += u32::from(line.starts_with("rotation "));
        sign_ins.extend(["viewer", "operator", "admin", "tct_"].into_iter().filter(|it| line.contains(it)));
        if told.iter().all(|count| *count >= 6) && rotations >= 2 {
            break;
        }
    }
    assert_eq!(sign_ins, ["viewer", "operator", "admin", "tct_"]);
    running.signal(Signal::INT);
    let (status, mut lines) = running.wait();
    assert!(status.success(), "{status}: {lines:?}");
    let defence = lines.pop().unwrap();
    assert_eq!((&defence["event"], &defence["complaints"]), (&json!("defence"), &json!([])), "{defence}");
    for reader in ["monitor", "recorder"] {
        for reason in ["bad_tag", "clear", "no_key", "replayed"] {
            assert!(defence["refused"][reader][reason].as_u64() > Some(0), "{reader} {reason}: {defence}");
        }
    }
    assert_eq!(
        (&defence["clear_datagrams"], &defence["rotations"].as_array().unwrap().len()),
        (&json!(0), &1)
    );
    let proof = lines.pop().unwrap();
    assert_eq!((&proof["event"], &proof["complaints"]), (&json!("proof"), &json!([])), "{proof}");
    assert!(proof["proven"].as_u64() > Some(0) && proof["contradicted"] == 0, "{proof}");
    let proven = proof["streams"].as_array().unwrap();
    assert!(proven.contains(&json!("signal/ecg")) && proven.contains(&json!("test/chirp")), "{proof}");
    let outsiders = defence["outsiders"].as_array().unwrap();
    let told = |outsider: &Value| outsider["told"].to_string();
    assert!(outsiders.len() == 2 && outsiders.iter().all(|outsider| outsider["events"] == 0), "{defence}");
    assert!(told(&outsiders[0]).contains("this process has no keys"), "{defence}");
    assert!(told(&outsiders[1]).contains("are refused (no key)"), "{defence}");
    let accounts = accounts(&lines);
    for reader in ["monitor", "recorder"] {
        assert!(accounts.contains(&(reader, "signal/ecg")) && accounts.contains(&(reader, "test/chirp")));
    }
}

#[test]
fn a_far_site_for_a_bus_that_has_keys_is_refused_with_the_remedy() {
    let bus = format!("{}&keys=/nowhere.keys", private_bus());
    let output = run(&["demo", "--wan", "20ms", "--headless", "--bus", &bus]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("omit keys= from the bus"), "{said}");
}

#[test]
fn a_secured_demo_on_a_bus_that_has_keys_already_is_refused_with_the_remedy() {
    let bus = format!("{}&keys=/nowhere.keys", private_bus());
    let output = run(&["demo", "--secure", "--headless", "--bus", &bus]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("omit keys= from the bus"), "{said}");
}
