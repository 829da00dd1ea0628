//! A key service from the command line: made, served, shown, with members that are added and removed.

use std::collections::BTreeSet;
use std::fs::{self, Permissions, set_permissions};
use std::io::BufRead;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::{Value, json};
use support::ports::{free_address, private_bus_from_now};

use crate::accounts::{Accounts, count};
use crate::program::{Running, check_keys, command};

/// A folder with the files of a laboratory that has a key service, and a bus.
struct Scene {
    folder: tempfile::TempDir,
    service: String,
    bus: String,
}

impl Scene {
    /// Makes a laboratory with the station `daq-1` in the folder `keys`.
    fn new() -> Self {
        let (folder, service) = (tempfile::tempdir().unwrap(), free_address().to_string());
        let scene = Self { folder, service, bus: private_bus_from_now() };
        let told = scene.fine(&["new", "--station", "daq-1", "--service", &scene.service]);
        assert!(told.contains("start it there:\n  tallycast keys serve keys/lab.service"), "{told}");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("keys").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the path as an argument of a program that runs elsewhere.
    fn argument(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs `tallycast keys`; returns the exit code, the output and the messages.
    fn keys(&self, arguments: &[&str]) -> (i32, String, String) {
        let arguments = [&["keys"], arguments].concat();
        let output = command(&arguments).current_dir(&self.folder).output().unwrap();
        check_keys(&arguments, &output.stdout);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn fine(&self, arguments: &[&str]) -> String {
        let (code, output, told) = self.keys(arguments);
        assert_eq!(code, 0, "{arguments:?}: {told}");
        output
    }

    /// Runs `tallycast keys`, which refuses; returns its message.
    fn refused(&self, arguments: &[&str]) -> String {
        let (code, output, told) = self.keys(arguments);
        assert!(code == 2 && output.is_empty(), "{arguments:?}: {code}: {output}");
        told
    }

    fn add(&self, station: &str) {
        let add = ["add", station, "--authority", "keys/lab.authority", "--like", "keys/daq-1.keys"];
        let told = self.fine(&add);
        assert!(told.contains(&format!("scp -p keys/{station}.keys {station}:")), "{told}");
    }

    /// Starts the service, and waits until it listens.
    fn serve(&self) -> Running {
        let serving =
            Running::start(&["keys", "serve", &self.argument("lab.service"), "--json", "--with-parent"]);
        let began = serving.wait_for("its address", |line| line["event"] == "listening");
        assert!(began["address"].as_str().unwrap().ends_with(&self.service[9..]), "{began}");
        serving
    }

    fn shown(&self) -> Value {
        serde_json::from_str(&self.fine(&["show", "keys/lab.service", "--json"])).unwrap()
    }

    fn bus_of(&self, station: &str) -> String {
        format!("{}&keys={}", self.bus, self.path(&format!("{station}.keys")).display())
    }

    /// Returns the private keys and secrets of the files.
    fn secrets(&self) -> Vec<String> {
        let named = |line: &str, name: &str| line.starts_with(&format!("{name} = "));
        let of = |file: &str, names: &[&str]| -> Vec<String> {
            let text = self.text(file);
            let lines = text.lines().filter(|line| names.iter().any(|name| named(line, name)));
            lines.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
        };
        let service = of("lab.service", &["value"]);
        // The first `exchange` is the private key of the service; the others are members' public ones.
        let private = of("lab.service", &["exchange"]).into_iter().take(1);
        let station = of("daq-1.keys", &["signing", "exchange"]).into_iter().take(2);
        service.into_iter().chain(private).chain(station).collect()
    }
}

/// Returns whether a line is of this event of this station.
fn is_of(line: &Value, event: &str, station: &str) -> bool {
    line["event"] == event && line["station"] == station
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

#[test]
fn a_laboratory_with_a_service_has_no_secrets_in_the_files_of_its_stations() {
    let scene = Scene::new();
    for name in ["lab.authority", "lab.service", "daq-1.keys"] {
        assert_eq!(fs::metadata(scene.path(name)).unwrap().mode() & 0o7777, 0o600, "{name}");
    }
    let station = scene.text("daq-1.keys");
    assert!(!station.contains("[[secret]]") && station.contains(&scene.service), "no secret, and an address");
    let shown: Value = serde_json::from_str(&scene.fine(&["show", "keys/daq-1.keys", "--json"])).unwrap();
    assert_eq!((&shown["service"]["address"], &shown["secrets"]), (&json!(scene.service), &json!([])));
    assert_eq!(shown["service"]["exchange"], scene.shown()["exchange"]);
    let text = scene.fine(&["show", "keys/daq-1.keys"]);
    assert!(text.contains(&format!("key service  {}, SHA256:", scene.service)), "{text}");
    assert_eq!(scene.fine(&["check", "keys/daq-1.keys"]).lines().count(), 1);
}

#[test]
fn a_service_is_shown_with_its_times_secrets_and_members_and_without_what_is_secret() {
    let scene = Scene::new();
    scene.add("daq-2");
    let before = scene.shown();
    assert_eq!((&before["address"], &before["lifetime_ms"]), (&json!(scene.service), &json!(3_600_000)));
    assert_eq!((&before["kept_ms"], &before["secrets"]), (&json!(10_000), &json!([])));
    let serving = scene.serve();
    serving.wait_for("the first secret", |line| line["event"] == "in_use");
    scene.fine(&["remove", "daq-2", "--service", "keys/lab.service"]);
    let removed = serving.wait_for("the removal", |line| is_of(line, "removed", "daq-2"));
    let shown = scene.shown();
    let names = |list: &str| -> Vec<Value> {
        shown[list].as_array().unwrap().iter().map(|it| it["name"].clone()).collect()
    };
    assert_eq!((names("members"), names("removed")), (vec![json!("daq-1")], vec![json!("daq-2")]));
    let secrets = shown["secrets"].as_array().unwrap();
    assert!(secrets.iter().any(|secret| secret["token"] == removed["token"]), "{shown}");
    assert!(secrets.windows(2).all(|pair| pair[0]["until"] == pair[1]["from"]), "{shown}");
    let text = scene.fine(&["show", "keys/lab.service"]);
    for part in ["daq-1", "daq-2", "removed", "aes-256-gcm", "next", removed["from"].as_str().unwrap()] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for secret in scene.secrets() {
        assert!(!text.contains(&secret[..12]) && !shown.to_string().contains(&secret[..12]));
    }
}

#[test]
fn a_removed_reader_is_told_and_blind_and_the_publisher_goes_on_and_its_account_closes() {
    let scene = Scene::new();
    let serving = scene.serve();
    for station in ["desk", "lost"] {
        scene.add(station);
        serving.wait_for("the new member", |line| is_of(line, "added", station));
    }
    let read = |station: &str| {
        let bus = scene.bus_of(station);
        Running::start_heard(&[
            "sub",
            "lab/probe",
            "--json",
            "--until-end",
            "--reader",
            station,
            "--bus",
            &bus,
        ])
    };
    let ((desk, _desk_said), (lost, lost_said)) = (read("desk"), read("lost"));
    let mut silent = BTreeSet::from(["desk", "lost"]);
    while !silent.is_empty() {
        let asks = serving.wait_for("their questions", |line| line["event"] == "asks");
        silent.remove(asks["station"].as_str().unwrap());
    }
    let wave = ["pub", "lab/probe", "--wave", "sine", "--rate", "1k", "--json", "--bus"];
    let publisher = Running::start(&[&wave[..], &[&scene.bus_of("daq-1")]].concat());
    let is_block = |line: &Value| line["event"] == "block";
    lost.wait_for("samples", is_block);
    let told = scene.fine(&["remove", "lost", "--service", "keys/lab.service"]);
    assert!(told.starts_with("lost: no keys any more; the others send with a new secret from "), "{told}");
    let removed = serving.wait_for("the removal", |line| is_of(line, "removed", "lost"));
    serving.wait_for("the refusal", |line| is_of(line, "refused", "lost"));
    serving.wait_for("the new secret", |line| line["event"] == "in_use" && line["token"] == removed["token"]);
    let mut said = lost_said.lines().map_while(Result::ok);
    let told = said.find(|line| line.contains("gives this station no keys any more")).unwrap();
    assert!(told.contains("removed at") && told.contains(&scene.service), "{told}");
    assert!(said.next().unwrap().contains("tallycast keys add"));
    // Both have happened: whatever is sampled from now on is sent with the new secret.
    let since = now_ns();
    let mut lines = desk.lines_until(|line| is_block(line) && count(&line["t0_ns"]) > since);
    let first_unread = count(&lines[lines.len() - 1]["first_index"]);
    lines.extend(desk.lines_until(|line| is_block(line) && count(&line["first_index"]) > first_unread));
    publisher.signal(Signal::INT);
    let (status, totals) = publisher.wait();
    assert!(status.success(), "{status}");
    let (status, rest) = desk.wait();
    assert!(status.success(), "{status}: {rest:?}");
    lines.extend(rest);
    let (accounts, samples) = (Accounts::whole(&lines), &totals[0]["samples"]);
    assert_eq!((accounts.next(), accounts.lost().len()), (count(&samples["numbered"]), 0));
    assert_eq!(
        (samples["offered"].clone(), count(&samples["publisher_paused"])),
        (samples["numbered"].clone(), 0)
    );
    lost.signal(Signal::INT);
    let (_, unread) = lost.wait();
    let ends = unread.iter().filter(|line| is_block(line));
    let ends = ends.map(|line| count(&line["first_index"]) + count(&line["samples"]));
    assert!(ends.max().is_none_or(|end| end <= first_unread), "it read on behind {first_unread}");
    // Started again, it is refused at once.
    let again = command(&["ls", "--bus", &scene.bus_of("lost")]).output().unwrap();
    let told = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.code() == Some(2) && told.contains("gives this station no keys: "), "{told}");
    assert!(told.contains("removed at") && told.contains("tallycast keys add"), "{told}");
}

#[test]
fn without_the_service_at_the_start_a_publisher_says_so_and_keeps_everything_back() {
    let scene = Scene::new();
    let wave = ["pub", "lab/probe", "--wave", "sine", "--rate", "1k", "--json", "--duration", "1s", "--bus"];
    let output = command(&[&wave[..], &[&scene.bus_of("daq-1")]].concat()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    let news = format!("the key service {} does not answer: nothing is sent or read before", scene.service);
    assert_eq!(told.matches(&news).count(), 1, "{told}");
    assert!(told.contains("tallycast keys serve"), "{told}");
    let totals: Value = serde_json::from_slice(&output.stdout).unwrap();
    let samples = &totals["samples"];
    assert!(count(&samples["offered"]) > 0, "{samples}");
    assert_eq!((count(&samples["numbered"]), &samples["publisher_paused"]), (0, &samples["offered"]));
}

#[test]
fn a_member_of_a_service_that_hears_a_stream_of_key_files_is_told_to_compare_the_services() {
    let scene = Scene::new();
    let _serving = scene.serve();
    scene.fine(&["new", "others", "--station", "daq-9"]);
    let foreign = format!("{}&keys={}", scene.bus, scene.folder.path().join("others/daq-9.keys").display());
    let wave = ["pub", "lab/probe", "--wave", "sine", "--rate", "1k", "--json", "--bus"];
    let _publisher = Running::start(&[&wave[..], &[&foreign]].concat());
    let read = |bus: &str| {
        let (_reader, said) = Running::start_heard(&["sub", "lab/probe", "--json", "--bus", bus]);
        let mut said = said.lines().map_while(Result::ok);
        said.find(|line| line.contains("announcements from ") && line.contains("(no key)")).unwrap();
        said.next().unwrap()
    };
    let remedy = read(&scene.bus_of("daq-1"));
    assert!(remedy.contains(&format!("come from the key service {}", scene.service)), "{remedy}");
    assert!(!remedy.contains("copy the current one"), "{remedy}");
    scene.fine(&["new", "more", "--station", "daq-8"]);
    let of_files = scene.folder.path().join("more/daq-8.keys");
    let remedy = read(&format!("{}&keys={}", scene.bus, of_files.display()));
    assert!(remedy.contains("copy the current one") && !remedy.contains("key service"), "{remedy}");
}

#[test]
fn a_service_that_cannot_begin_says_what_to_do() {
    let scene = Scene::new();
    let serve = |file: &str| scene.refused(&["serve", file]);
    let taken = UdpSocket::bind(&scene.service).unwrap();
    let port = taken.local_addr().unwrap().port();
    let told = serve("keys/lab.service");
    assert!(told.contains(&format!("cannot listen at [::]:{port}")), "{told}");
    assert!(told.contains("name a free port with --listen, or end what uses it"), "{told}");
    let told = scene.refused(&["serve", "keys/lab.service", "--listen", &scene.service]);
    assert!(told.contains(&format!("cannot listen at {}", scene.service)), "{told}");
    for file in ["keys/daq-1.keys", "keys/lab.authority"] {
        let told = serve(file);
        assert!(told.contains(file) && told.contains("this is no file of a key service"), "{told}");
        assert!(told.contains("which ends in .service"), "{told}");
    }
    assert!(serve("keys/other.service").contains("there is no file of a key service /"));
    set_permissions(scene.path("lab.service"), Permissions::from_mode(0o644)).unwrap();
    for told in [serve("keys/lab.service"), scene.refused(&["show", "keys/lab.service"])] {
        assert!(told.contains("chmod 600 ") && told.contains("keys/lab.service"), "{told}");
    }
}

#[test]
fn members_that_are_unknown_or_known_already_change_nothing() {
    let scene = Scene::new();
    scene.add("daq-2");
    let before = scene.text("lab.service");
    let remove = |station: &str, file: &str| scene.refused(&["remove", "daq-1", station, "--service", file]);
    let told = remove("daq-9", "keys/lab.service");
    assert!(told.contains("has no member `daq-9`"), "{told}");
    assert!(told.contains("tallycast keys show"), "{told}");
    assert!(remove("daq-2", "keys/daq-1.keys").contains("this is no file of a key service"));
    fs::rename(scene.path("daq-2.keys"), scene.path("daq-2.old")).unwrap();
    let add = ["add", "daq-2", "--authority", "keys/lab.authority", "--like", "keys/daq-1.keys"];
    let told = scene.refused(&add);
    assert!(told.contains("there is a member `daq-2` already") && told.contains("remove it first"), "{told}");
    assert!(!scene.path("daq-2.keys").exists());
    assert_eq!(scene.text("lab.service"), before);
    scene.fine(&["remove", "daq-2", "--service", "keys/lab.service"]);
    scene.add("daq-2");
}

#[test]
fn files_and_options_that_do_not_fit_a_service_are_refused_with_the_remedy() {
    let scene = Scene::new();
    let bus = format!("{}&keys={}", scene.bus, scene.path("lab.service").display());
    let refused = command(&["ls", "--bus", &bus]).output().unwrap();
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && told.contains("this is the file of a key service"), "{told}");
    assert!(told.contains("name a station's own file, which ends in .keys"), "{told}");
    let told = scene.refused(&["rotate", "keys/daq-1.keys"]);
    assert!(told.contains("a key service makes and changes the secrets of this station"), "{told}");
    let (other, new) =
        (Scene::new(), |name, value| ["new", "other", "--service", "localhost:7409", name, value]);
    let foreign = other.argument("lab.service");
    let add = ["add", "daq-2", "--authority", "keys/lab.authority", "--like", "keys/daq-1.keys"];
    let told = scene.refused(&[&add[..], &["--service", &foreign]].concat());
    assert!(told.contains("is another key service than the one that keys/daq-1.keys names"), "{told}");
    assert!(!scene.path("daq-2.keys").exists());
    assert!(scene.refused(&new("--lifetime", "10ms")).contains("give another: --lifetime 1h"));
    let told = scene.refused(&new("--kept", "2min"));
    assert!(told.contains("give another, or a longer lifetime: --lifetime 1h --kept 10s"), "{told}");
    let told = scene.refused(&["new", "other", "--service", "localhost"]);
    assert!(told.contains("the address of a key service is HOST:PORT"), "{told}");
    assert!(!scene.folder.path().join("other").exists());
}
