//! `tallycast bench -s` with a key: who is not listed does not measure, and loads nothing.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ChildStderr, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{command, run};

/// Files of keys of a server, a listed client, and one that is not listed.
struct Laboratory(tempfile::TempDir);

impl Laboratory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let laboratory = Self(folder);
        let keys = |words: &[&str]| {
            let made = run(&[&["keys"], words].concat());
            assert!(made.status.success(), "{made:?}");
        };
        let [server, client, other] = ["server", "client", "other"].map(|it| laboratory.file(it));
        let folder = laboratory.0.path().join("keys");
        keys(&["new", folder.to_str().unwrap(), "--station", "server"]);
        let authority = folder.join("lab.authority");
        for name in ["client", "other"] {
            keys(&["add", name, "--authority", authority.to_str().unwrap(), "--like", &server]);
        }
        keys(&["peers", &server, &client]);
        // It knows the server, which does not list it.
        let listing = std::fs::read_to_string(&client).unwrap();
        let peer = listing.split("[[peer]]").nth(1).unwrap();
        let text = format!("{}\n[[peer]]{peer}", std::fs::read_to_string(&other).unwrap());
        std::fs::write(&other, text).unwrap();
        laboratory
    }

    /// Writes a file that has the private key of a station's connections alone.
    fn bare(&self, station: &str) -> String {
        let text = std::fs::read_to_string(self.file(station)).unwrap();
        let line = text.lines().find(|line| line.starts_with("exchange = ")).unwrap();
        let path = self.0.path().join("bare.key");
        sys::private_file::replace(&path, &format!("{}\n", line.split('"').nth(1).unwrap())).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Returns the public key of a station's connections.
    fn public(&self, station: &str) -> String {
        let shown = run(&["keys", "show", &self.file(station), "--json"]);
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["exchange"].as_str().unwrap().to_owned()
    }

    fn file(&self, station: &str) -> String {
        let path: PathBuf = self.0.path().join("keys").join(format!("{station}.keys"));
        path.to_str().unwrap().to_owned()
    }
}

/// Reads lines up to one with these words, and returns it.
fn line_with(lines: &mut BufReader<ChildStderr>, words: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "no line with `{words}`");
        if line.contains(words) {
            return line;
        }
    }
}

#[test]
fn only_listed_clients_measure_and_others_are_told_what_to_do_and_counted() {
    let laboratory = Laboratory::new();
    let key = laboratory.file("server");
    let mut serve = command(&["bench", "-s", "-p", "0", "--key", &key]);
    let mut server = serve.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap());
    let said = line_with(&mut lines, "public key: ");
    assert!(said.contains("clients that are listed: 1"), "{said}");
    let listening = line_with(&mut lines, "listening on ");
    let port = listening.split(':').nth(1).unwrap().split(';').next().unwrap().to_owned();
    let measure = |more: &[&str]| {
        let short = ["bench", "-c", "127.0.0.1", "-p", &port, "-t", "50ms", "--repeat", "1", "--json"];
        run(&[&short[..], more].concat())
    };
    let told = |more: &[&str]| {
        let output = measure(more);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let clear = told(&[]);
    assert!(clear.contains("this server has a key") && clear.contains("add --key FILE"), "{clear}");
    line_with(&mut lines, "was refused (1 so far): it has no key");
    let other = laboratory.file("other");
    let unlisted = told(&["--key", &other]);
    assert!(
        unlisted.contains("lists this client") && unlisted.contains("tallycast bench -s --key"),
        "{unlisted}"
    );
    line_with(&mut lines, "was refused (2 so far): its key is not listed");
    let client = laboratory.file("client");
    for peer in [&["--key", &client][..], &["--key", &client, "--peer", "server"]] {
        let output = measure(peer);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = measure(&["--key", &client, "-u", "-b", "1M"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A stream that is encrypted with the laboratory's keys, on the same path as a clear one.
    for way in [&[][..], &["-R"]] {
        let words = ["--key", &client, "--stream", "--secured", "-b", "8M"];
        let output = measure(&[&words[..], way].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains("the stream is encrypted and authenticated"), "{report}");
    }
    let bare = laboratory.bare("client");
    let keyless = told(&["--key", &bare, "--peer", &laboratory.public("server"), "--stream", "--secured"]);
    assert!(keyless.contains("the client has no keys of a station"), "{keyless}");
    assert!(told(&["--key", &client, "-u", "--secured"]).contains("--stream"));
    kill_process(Pid::from_raw(server.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_key_is_for_a_server_elsewhere() {
    let laboratory = Laboratory::new();
    let said =
        String::from_utf8(run(&["bench", "throughput", "--key", &laboratory.file("client")]).stderr).unwrap();
    assert!(said.contains("add -c HOST"), "{said}");
}
