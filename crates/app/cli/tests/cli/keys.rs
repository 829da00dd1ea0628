//! Files of keys from the command line.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::program::{command, run};

/// A folder in which the program runs.
struct Scene(tempfile::TempDir);

impl Scene {
    /// Makes a laboratory with the station `daq-1` in the folder `keys`.
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        let (code, _, told) = scene.keys(&["new", "--station", "daq-1"]);
        assert_eq!(code, 0, "{told}");
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("keys").join(name)
    }

    /// Runs `tallycast keys`; returns the exit code, the output and the messages.
    fn keys(&self, arguments: &[&str]) -> (i32, String, String) {
        let arguments = [&["keys"], arguments].concat();
        let output = command(&arguments).current_dir(&self.0).output().unwrap();
        crate::program::check_keys(&arguments, &output.stdout);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn shown(&self, file: &str) -> Value {
        let (code, shown, told) = self.keys(&["show", file, "--json"]);
        assert_eq!(code, 0, "{told}");
        serde_json::from_str(&shown).unwrap()
    }

    /// Returns the tokens of a file's secrets with their states.
    fn secrets(&self, file: &str) -> Vec<(String, String)> {
        let of = |secret: &Value, key: &str| secret[key].as_str().unwrap().to_owned();
        let shown = self.shown(file);
        shown["secrets"].as_array().unwrap().iter().map(|it| (of(it, "token"), of(it, "state"))).collect()
    }

    fn add(&self, station: &str) -> (i32, String, String) {
        self.keys(&["add", station, "--authority", "keys/lab.authority", "--like", "keys/daq-1.keys"])
    }
}

/// Returns the secrets that a file of keys quotes.
fn secrets_in(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let secret = |line: &&str| ["signing", "exchange", "value"].iter().any(|name| line.starts_with(name));
    text.lines().filter(secret).map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn a_laboratory_is_made_for_its_owner_alone_and_the_next_commands_are_told() {
    let scene = Scene(tempfile::tempdir().unwrap());
    let (code, told, _) = scene.keys(&["new", "--station", "daq-1", "--laboratory", "hall-3"]);
    assert_eq!(code, 0, "{told}");
    for name in ["hall-3.authority", "daq-1.keys"] {
        assert_eq!(std::fs::metadata(scene.path(name)).unwrap().mode() & 0o7777, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(scene.path("")).unwrap().mode() & 0o777, 0o700);
    let bus = format!("udp://239.84.0.0:7400?shm=on&keys={}", scene.path("daq-1.keys").display());
    assert!(told.contains(&format!("export TALLYCAST_BUS='{bus}'")), "{told}");
    assert!(
        told.contains("tallycast keys add NAME --authority keys/hall-3.authority --like keys/daq-1.keys")
    );
    for secret in secrets_in(&scene.path("daq-1.keys")) {
        assert!(!told.contains(&secret));
    }
}

#[test]
fn nothing_is_overwritten() {
    let scene = Scene::new();
    let before = std::fs::read(scene.path("daq-1.keys")).unwrap();
    let (code, _, told) = scene.keys(&["new", "--station", "daq-1", "--laboratory", "other"]);
    assert!(code == 2 && told.contains("keys/daq-1.keys exists, and nothing is overwritten"), "{told}");
    assert!(!scene.path("other.authority").exists());
    let (code, _, told) = scene.keys(&["new", "--station", "daq-2"]);
    assert!(code == 2 && told.contains("keys/lab.authority exists"), "{told}");
    assert!(!scene.path("daq-2.keys").exists());
    assert_eq!(scene.add("daq-1").0, 2);
    assert_eq!(std::fs::read(scene.path("daq-1.keys")).unwrap(), before);
}

#[test]
fn another_station_has_the_same_secrets_and_keys_of_its_own() {
    let scene = Scene::new();
    let (code, told, _) = scene.add("daq-2");
    assert!(code == 0 && told.contains("scp -p keys/daq-2.keys daq-2:"), "{told}");
    assert!(told.contains("TALLYCAST_BUS='udp://239.84.0.0:7400?shm=on&keys=/PATH/daq-2.keys'"), "{told}");
    let [one, other] = ["keys/daq-1.keys", "keys/daq-2.keys"].map(|file| scene.shown(file));
    assert_eq!((&one["secrets"], &one["authority"]), (&other["secrets"], &other["authority"]));
    assert_eq!(other["station"], "daq-2");
    assert!(one["signing"] != other["signing"] && one["exchange"] != other["exchange"]);
    assert_eq!(scene.keys(&["check", "keys/daq-1.keys", "keys/daq-2.keys"]).0, 0);
}

#[test]
fn a_file_is_shown_without_its_secrets() {
    let scene = Scene::new();
    let (_, text, _) = scene.keys(&["show", "keys/daq-1.keys"]);
    let (_, json, _) = scene.keys(&["show", "keys/daq-1.keys", "--json"]);
    for shown in [&text, &json] {
        assert!(
            shown.contains("daq-1") && shown.contains("aes-256-gcm") && shown.contains("in use"),
            "{shown}"
        );
        assert!(shown.contains("SHA256:"), "{shown}");
    }
    let secrets = secrets_in(&scene.path("daq-1.keys"));
    assert_eq!(secrets.len(), 3);
    for secret in secrets {
        assert!(!text.contains(&secret[..12]) && !json.contains(&secret[..12]));
    }
}

#[test]
fn several_files_are_shown_one_after_the_other() {
    let scene = Scene::new();
    scene.add("daq-2");
    let (code, text, _) = scene.keys(&["show", "keys/daq-1.keys", "keys/daq-2.keys"]);
    let stations = || text.lines().filter(|line| line.starts_with("station "));
    assert_eq!((code, stations().count()), (0, 2), "{text}");
    let (_, lines, _) = scene.keys(&["show", "--json", "keys/daq-1.keys", "keys/daq-2.keys"]);
    let shown: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown, ["keys/daq-1.keys", "keys/daq-2.keys"].map(|file| scene.shown(file)));
}

#[test]
fn a_bus_open_to_all_users_is_printed_without_what_keys_forbid() {
    let scene = Scene(tempfile::tempdir().unwrap());
    let bus = "udp://239.85.0.0:7400?shm=on&access=all";
    let (code, told, _) = scene.keys(&["new", "--station", "daq-1", "--bus", bus]);
    assert!(code == 0 && told.contains("'udp://239.85.0.0:7400?shm=on&keys=/"), "{told}");
    let (code, _, told) = scene.keys(&["new", "it's", "--station", "daq-1"]);
    assert!(code == 2 && told.contains("a shell cannot quote"), "{told}");
    assert!(!scene.0.path().join("it's").exists());
}

#[test]
fn a_retirement_passes_over_files_without_the_secret_and_says_so() {
    let scene = Scene::new();
    scene.add("daq-2");
    let files = ["keys/daq-1.keys", "keys/daq-2.keys"];
    let old = scene.secrets(files[0])[0].0.clone();
    assert_eq!(scene.keys(&[&["rotate"], &files[..], &["--from", "now"]].concat()).0, 0);
    // As after a change that the system broke off.
    assert_eq!(scene.keys(&["retire", &old, files[0]]).0, 0);
    let before = std::fs::metadata(scene.path("daq-1.keys")).unwrap().ino();
    let (code, _, told) = scene.keys(&[&["retire", old.as_str()], &files[..]].concat());
    assert!(code == 0 && told.contains(&format!("keys/daq-1.keys: has no secret {old} any more")), "{told}");
    assert!(!told.contains("daq-2"), "{told}");
    assert_eq!(scene.secrets(files[0]), scene.secrets(files[1]));
    assert_eq!(std::fs::metadata(scene.path("daq-1.keys")).unwrap().ino(), before);
    let (code, _, told) = scene.keys(&[&["retire", old.as_str()], &files[..]].concat());
    assert!(code == 2 && told.contains(&format!("no secret has the key token {old}")), "{told}");
}

#[test]
fn a_check_compares_whole_secrets_and_laboratories_without_showing_them() {
    let scene = Scene::new();
    scene.add("daq-2");
    let check = || scene.keys(&["check", "keys/daq-1.keys", "keys/daq-2.keys"]);
    let path = scene.path("daq-2.keys");
    let text = std::fs::read_to_string(&path).unwrap();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let value = line("value = ");
    let other_value = format!("value = \"{}\"", "A".repeat(43) + "=");
    let changes = [
        (value, other_value.as_str(), "value"),
        (line("suite = "), "suite = \"chacha20-poly1305\"", "suite"),
        (line("from = "), "from = 2026-01-01T00:00:00Z", "time"),
    ];
    for (old, new, part) in changes {
        std::fs::write(&path, text.replace(old, new)).unwrap();
        let (code, shown, told) = check();
        assert!(code == 1 && told.contains(&format!("another {part} than keys/daq-1.keys")), "{told}");
        for secret in secrets_in(&path).iter().chain(&secrets_in(&scene.path("daq-1.keys"))) {
            assert!(!told.contains(&secret[..12]) && !shown.contains(&secret[..12]));
        }
    }
    std::fs::write(&path, &text).unwrap();
    assert_eq!(check().0, 0);
    let other = Scene::new();
    std::fs::copy(other.path("daq-1.keys"), &path).unwrap();
    let (code, _, told) = check();
    assert!(code == 1 && told.contains("belongs to another laboratory than keys/daq-1.keys"), "{told}");
}

#[test]
fn the_end_of_a_certificate_is_told_before_it_comes_and_after() {
    let scene = Scene::new();
    let file = "keys/daq-1.keys";
    let ends = |valid: &str| {
        let renew = ["renew", file, "--authority", "keys/lab.authority", "--valid", valid];
        assert_eq!(scene.keys(&renew).0, 0);
    };
    let told_by = |verb: &[&str]| scene.keys(&[verb, &[file]].concat()).2;
    ends("15d");
    assert_eq!((told_by(&["show"]), told_by(&["check"])), (String::new(), String::new()));
    ends("13d");
    for verb in [&["show"][..], &["check"], &["rotate", "--from", "+1h"]] {
        let told = told_by(verb);
        assert!(told.contains("warning: keys/daq-1.keys: ") && told.contains("expires soon"), "{told}");
        assert!(told.contains("tallycast keys renew"), "{told}");
    }
    ends("0s");
    for verb in [&["show"][..], &["rotate", "--from", "+2h"]] {
        let told = told_by(verb);
        assert!(told.contains("has expired, at "), "{told}");
    }
}

#[test]
fn a_clock_that_is_behind_shows_the_first_secret_in_use_as_programs_use_it() {
    let scene = Scene::new();
    let path = scene.path("daq-1.keys");
    let text = std::fs::read_to_string(&path).unwrap();
    let from = text.lines().find(|line| line.starts_with("from = ")).unwrap();
    std::fs::write(&path, text.replace(from, "from = 2200-01-01T00:00:00Z")).unwrap();
    let secrets = scene.secrets("keys/daq-1.keys");
    assert_eq!(secrets[0].1, "in use");
    let (code, _, told) = scene.keys(&["check", "keys/daq-1.keys"]);
    assert!(code == 1 && told.contains("check the clock"), "{told}");
    let (code, _, told) = scene.keys(&["retire", &secrets[0].0, "keys/daq-1.keys"]);
    assert!(code == 2 && told.contains("members send with the secret"), "{told}");
}

#[test]
fn a_rotation_gives_all_stations_the_same_next_secret_and_the_old_one_is_retired_later() {
    let scene = Scene::new();
    scene.add("daq-2");
    let files = ["keys/daq-1.keys", "keys/daq-2.keys"];
    let old = scene.secrets(files[0])[0].0.clone();
    let (code, told, _) = scene.keys(&[&["rotate"], &files[..], &["--suite", "chacha20-poly1305"]].concat());
    assert!(code == 0 && told.contains(&format!("tallycast keys retire {old} FILE")), "{told}");
    assert_eq!(scene.shown(files[0])["secrets"], scene.shown(files[1])["secrets"]);
    let states: Vec<_> = scene.secrets(files[0]).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["in use", "next"]);
    assert_eq!(scene.shown(files[0])["secrets"][1]["suite"], "chacha20-poly1305");
    // A secret that would be used before the next one could be known to a lost station is refused.
    let (code, _, told) = scene.keys(&[&["rotate"], &files[..], &["--from", "now"]].concat());
    assert!(code == 2 && told.contains("comes after that"), "{told}");
    let (code, _, told) = scene.keys(&[&["retire", old.as_str()], &files[..]].concat());
    assert!(code == 2 && told.contains(&format!("members send with the secret {old} now")), "{told}");
    let next = scene.secrets(files[0])[1].0.clone();
    assert_eq!(scene.keys(&[&["retire", next.as_str()], &files[..]].concat()).0, 0);
    assert_eq!(scene.keys(&[&["rotate"], &files[..], &["--from", "now"]].concat()).0, 0);
    let states: Vec<_> = scene.secrets(files[1]).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["accepted", "in use"]);
    assert_eq!(scene.keys(&[&["retire", old.as_str()], &files[..]].concat()).0, 0);
    assert_eq!(scene.secrets(files[0]), scene.secrets(files[1]));
    assert_eq!(scene.secrets(files[0]).len(), 1);
    assert_eq!(std::fs::metadata(scene.path("daq-1.keys")).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn stations_list_each_other_and_a_lost_one_no_longer() {
    let scene = Scene::new();
    for station in ["daq-2", "daq-3"] {
        scene.add(station);
    }
    let files = ["keys/daq-1.keys", "keys/daq-2.keys", "keys/daq-3.keys"];
    let listed = |file| {
        let shown = scene.shown(file);
        let peers = shown["peers"].as_array().unwrap().iter();
        peers.map(|peer| (peer["name"].clone(), peer["exchange"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(scene.keys(&[&["peers"], &files[..]].concat()).0, 0);
    let others = |of: usize| {
        let named =
            files.iter().enumerate().filter(move |(at, _)| *at != of).map(|(_, file)| scene.shown(file));
        named.map(|shown| (shown["station"].clone(), shown["exchange"].clone())).collect::<Vec<_>>()
    };
    (0..3).for_each(|at| assert_eq!(listed(files[at]), others(at)));
    // The lost station's file, and a name that nobody has, are refused, and nothing is changed.
    let (code, _, told) = scene.keys(&[&["peers", "--remove", "daq-3"], &files[..]].concat());
    assert!(code == 2 && told.contains("move the file of a removed station out of the folder"), "{told}");
    let removed = |station| scene.keys(&[&["peers", "--remove", station], &files[..2]].concat());
    let (code, _, told) = removed("daq-9");
    assert!(code == 2 && told.contains("none of these files lists a station `daq-9`"), "{told}");
    assert_eq!(listed(files[0]).len(), 2);
    assert_eq!(removed("daq-3").1, "keys/daq-1.keys: daq-1 accepts 1\nkeys/daq-2.keys: daq-2 accepts 1\n");
    assert_eq!(listed(files[0])[0].0, "daq-2");
    assert_eq!(listed(files[1])[0].0, "daq-1");
    // A new station gets the peers of the one it is like.
    scene.add("daq-4");
    assert!(listed("keys/daq-4.keys").iter().all(|(name, _)| name != "daq-3"));
}

#[test]
fn a_rotation_changes_all_files_or_none() {
    let scene = Scene::new();
    scene.add("daq-2");
    let before = scene.secrets("keys/daq-1.keys");
    std::fs::write(scene.path("daq-2.keys"), "format = 1\n").unwrap();
    let (code, _, told) = scene.keys(&["rotate", "keys/daq-1.keys", "keys/daq-2.keys"]);
    assert!(code == 2 && told.contains("daq-2.keys, line 1: `laboratory` is missing"), "{told}");
    assert_eq!(scene.secrets("keys/daq-1.keys"), before);
    let other = Scene::new();
    let theirs = other.path("daq-1.keys");
    let (code, _, told) = scene.keys(&["rotate", "keys/daq-1.keys", theirs.to_str().unwrap()]);
    assert!(code == 2 && told.contains("belong to different laboratories"), "{told}");
    assert_eq!(scene.secrets("keys/daq-1.keys"), before);
}

#[test]
fn a_check_tells_what_keeps_a_station_from_the_bus() {
    let scene = Scene::new();
    scene.add("daq-2");
    let check = || scene.keys(&["check", "keys/daq-1.keys", "keys/daq-2.keys"]);
    assert_eq!(scene.keys(&["rotate", "keys/daq-2.keys"]).0, 0);
    let (code, _, told) = check();
    assert!(code == 1 && told.contains("daq-2.keys has other secrets than keys/daq-1.keys"), "{told}");
    set_permissions(scene.path("daq-2.keys"), Permissions::from_mode(0o644)).unwrap();
    let (code, _, told) = check();
    assert!(code == 1 && told.contains("chmod 600 keys/daq-2.keys"), "{told}");
    let authority = ["--authority", "keys/lab.authority"];
    assert_eq!(scene.keys(&[&["renew", "keys/daq-1.keys", "--valid", "0s"], &authority[..]].concat()).0, 0);
    let (code, _, told) = check();
    assert!(code == 1 && told.contains("has expired") && told.contains("tallycast keys renew"), "{told}");
    assert_eq!(scene.shown("keys/daq-1.keys")["valid"], false);
    let keys = scene.shown("keys/daq-1.keys")["exchange"].clone();
    assert_eq!(scene.keys(&[&["renew", "keys/daq-1.keys"], &authority[..]].concat()).0, 0);
    assert_eq!(scene.keys(&["check", "keys/daq-1.keys"]).0, 0);
    assert_eq!(scene.shown("keys/daq-1.keys")["exchange"], keys);
}

#[test]
fn the_wrong_file_and_the_wrong_name_are_refused_with_the_remedy() {
    let scene = Scene::new();
    let (code, _, told) =
        scene.keys(&["add", "daq-2", "--authority", "keys/daq-1.keys", "--like", "keys/daq-1.keys"]);
    assert!(code == 2 && told.contains("this is the file of a station"), "{told}");
    let (code, _, told) = scene.keys(&["show", "keys/lab.authority"]);
    assert!(code == 2 && told.contains("this is the file of a laboratory's authority"), "{told}");
    for name in ["../daq-2", ".daq", "daq 2", ""] {
        let (code, _, told) = scene.add(name);
        assert!(code == 2 && told.contains("names no file of keys"), "{name}: {told}");
    }
    let other = Scene::new();
    let authority = other.path("lab.authority");
    let (code, _, told) = scene.keys(&[
        "add",
        "daq-2",
        "--authority",
        authority.to_str().unwrap(),
        "--like",
        "keys/daq-1.keys",
    ]);
    assert!(code == 2 && told.contains("belongs to another laboratory, `lab`"), "{told}");
    let (code, _, told) = scene.keys(&["rotate", "keys/daq-1.keys", "--from", "-10min"]);
    assert!(code == 2 && told.contains("write now, +10min"), "{told}");
    let (code, _, told) = scene.keys(&["retire", "1a2b", "keys/daq-1.keys"]);
    assert!(code == 2 && told.contains("a key token has 8 hexadecimal digits"), "{told}");
}

#[test]
fn a_bus_whose_file_of_keys_is_wrong_is_refused() {
    let scene = Scene::new();
    let listed = |keys: &Path| {
        let bus = format!("udp://239.84.0.0:7400?iface=lo&keys={}", keys.display());
        let output = run(&["ls", "--bus", &bus]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let file = scene.path("daq-1.keys");
    let (code, told) = listed(&scene.path("daq-7.keys"));
    assert!(code == Some(2) && told.contains("there is no file of keys"), "{told}");
    let (code, told) = listed(&scene.path("lab.authority"));
    assert!(code == Some(2) && told.contains("this is the file of a laboratory's authority"), "{told}");
    set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let (code, told) = listed(&file);
    assert!(code == Some(2) && told.contains(&format!("chmod 600 {}", file.display())), "{told}");
}
