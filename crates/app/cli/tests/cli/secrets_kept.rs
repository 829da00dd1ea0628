//! Secrets of files of keys: in no output, log or process list, and in no core dump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64ct::{Base64, Encoding};
use rustix::process::Signal;
use support::ports::private_bus_from_now;
use support::wait_until;

use crate::program::{command, run};

/// A laboratory's files of keys, made by the program.
struct Laboratory(tempfile::TempDir);

impl Laboratory {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let laboratory = Self(folder);
        let path = laboratory.0.path().join("keys");
        let made = run(&["keys", "new", path.to_str().unwrap(), "--station", "daq-1"]);
        assert!(made.status.success(), "{made:?}");
        laboratory.keep_out(&made.stdout);
        laboratory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join("keys").join(name)
    }

    fn bus(&self) -> String {
        format!("{}&keys={}", private_bus_from_now(), self.file("daq-1.keys").display())
    }

    /// Returns all secrets, in the forms in which they could be shown.
    fn secrets(&self) -> Vec<String> {
        let files = fs::read_dir(self.file("")).unwrap().map(|file| file.unwrap().path());
        let files: Vec<String> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
        // Keys of peers are public.
        let files = files.iter().map(|text| text.split("[[peer]]").next().unwrap());
        let is_secret =
            |line: &&str| ["signing = ", "exchange = ", "value = "].iter().any(|it| line.starts_with(it));
        let quoted = files.flat_map(|text| text.lines().filter(is_secret));
        let secrets: Vec<&str> = quoted.map(|line| line.split('"').nth(1).unwrap()).collect();
        assert!(secrets.len() >= 4, "of the authority, the station's two, the group's");
        let forms = |text: &str| {
            let mut bytes = [0; 33];
            let bytes = Base64::decode(text, &mut bytes).unwrap();
            let hex = |separator: &str, upper: bool| {
                let digits =
                    bytes.iter().map(|it| if upper { format!("{it:02X}") } else { format!("{it:02x}") });
                digits.collect::<Vec<_>>().join(separator)
            };
            let decimal = bytes.iter().map(ToString::to_string).collect::<Vec<_>>();
            vec![
                text.trim_end_matches('=').to_owned(),
                text.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned(),
                hex("", false),
                hex("", true),
                hex(" ", false),
                hex(":", false),
                decimal.join(", "),
                decimal.join(","),
            ]
        };
        secrets.into_iter().flat_map(forms).collect()
    }

    /// Checks that none of the secrets is in the bytes, as text or as they are.
    fn keep_out(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for secret in self.secrets() {
            assert!(!text.contains(&secret), "a secret is in: {text}");
        }
    }
}

fn of_process(id: u32, name: &str) -> Vec<u8> {
    fs::read(Path::new("/proc").join(id.to_string()).join(name)).unwrap()
}

#[test]
fn secrets_are_in_no_output_log_or_process_list() {
    let laboratory = Laboratory::new();
    let (bus, file) = (laboratory.bus(), laboratory.file("daq-1.keys"));
    let (file, authority) = (file.to_str().unwrap(), laboratory.file("lab.authority"));
    let authority = authority.to_str().unwrap();
    let spawn = |words: &[&str]| {
        let mut command = command(&[words, &["--json", "--bus", &bus]].concat());
        command.env("TALLYCAST_LOG", "trace").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let reader = spawn(&["sub", "test/*", "--until-end"]);
    let publisher = spawn(&["pub", "test/wave", "--wave", "sine", "--rate", "20k", "--count", "20000"]);
    for id in [reader.id(), publisher.id()] {
        for name in ["cmdline", "environ", "comm"] {
            laboratory.keep_out(&of_process(id, name));
        }
    }
    for child in [publisher, reader] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty());
        laboratory.keep_out(&output.stdout);
        laboratory.keep_out(&output.stderr);
    }
    for words in [
        &["config", "show", "--bus", &bus][..],
        &["config", "show", "--json", "--bus", &bus],
        &["keys", "show", file],
        &["keys", "show", file, "--json"],
        &["keys", "check", file],
        &["keys", "rotate", file],
        &["keys", "add", "daq-2", "--authority", authority, "--like", file],
        &["keys", "peers", file, laboratory.file("daq-2.keys").to_str().unwrap()],
        &["keys", "renew", file, "--authority", authority],
        &["keys", "retire", "00000000", file],
        &["doctor", "audit", "--json", "--listen", "1ms", "--bus", &bus],
        &["query", file, "test/wave", "--verify", "--authority", authority],
        &["ls", "--json", "--duration", "1ms", "--bus", &bus],
        &["send", file, "udt://127.0.0.1:9", "--key", file],
    ] {
        let output = command(words).env("TALLYCAST_LOG", "trace").output().unwrap();
        laboratory.keep_out(&output.stdout);
        laboratory.keep_out(&output.stderr);
    }
}

#[test]
fn programs_that_wait_with_keys_show_none_of_them_and_leave_no_memory_in_core_dumps() {
    const PEER: &str = "zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=";
    let laboratory = Laboratory::new();
    let folder = |name: &str| {
        let folder = laboratory.0.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder.to_str().unwrap().to_owned()
    };
    let (incoming, archive, memory) = (folder("incoming"), folder("archive"), folder("memory"));
    let bus = format!("{}&shm={memory}&access=owner", laboratory.bus());
    let file = laboratory.file("daq-1.keys");
    let file = file.to_str().unwrap();
    let port = support::ports::free_address().port().to_string();
    let keyed = ["--key", file, "--peer", PEER];
    let programs: [&[&str]; 5] = [
        &[&["recv", &incoming, "udt://127.0.0.1:0", "--json"], &keyed[..]].concat(),
        &[&["bench", "-s", "--port", &port], &keyed[..]].concat(),
        &["agent", "--json", "--bus", &bus],
        &["monitor", "--listen", "127.0.0.1:0", "--json", "--bus", &bus],
        &["record", "test/*", "--run", "r", "--root", &archive, "--json", "--bus", &bus],
    ];
    for (index, words) in programs.into_iter().enumerate() {
        let said = laboratory.0.path().join(format!("{index}.log"));
        let file = fs::File::create(&said).unwrap();
        let mut command = command(words);
        command.env("TALLYCAST_LOG", "trace").stdin(Stdio::null());
        let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let id = child.id();
        let filter = || String::from_utf8(of_process(id, "coredump_filter")).unwrap();
        wait_until("the filter of core dumps", || (filter().trim() == "00000000").then_some(()));
        for name in ["cmdline", "environ", "comm"] {
            laboratory.keep_out(&of_process(id, name));
        }
        // Something is said once it waits.
        wait_until("its beginning", || (fs::metadata(&said).unwrap().len() > 0).then_some(()));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
        child.wait().unwrap();
        laboratory.keep_out(&fs::read(said).unwrap());
    }
}

#[test]
fn a_file_of_keys_with_an_error_is_not_quoted() {
    let laboratory = Laboratory::new();
    let (bus, path) = (laboratory.bus(), laboratory.file("daq-1.keys"));
    let whole = fs::read_to_string(&path).unwrap();
    for damaged in [
        whole.replace("value = \"", "value = "),
        whole.replace("signing", "singing"),
        whole.replace('=', ":"),
    ] {
        fs::write(&path, damaged).unwrap();
        let outputs = [
            run(&["pub", "test/wave", "--wave", "sine", "--count", "1", "--bus", &bus]),
            run(&["keys", "show", path.to_str().unwrap()]),
            run(&["doctor", "audit", "--listen", "1ms", "--bus", &bus]),
        ];
        fs::write(&path, &whole).unwrap();
        for output in outputs {
            assert!(!output.status.success(), "{output:?}");
            laboratory.keep_out(&output.stdout);
            laboratory.keep_out(&output.stderr);
        }
    }
}

#[test]
fn a_process_with_keys_leaves_no_memory_in_core_dumps() {
    let laboratory = Laboratory::new();
    let with_keys = laboratory.bus();
    let publish = |bus: &str| {
        let words = ["pub", "test/wave", "--wave", "sine", "--rate", "1k", "--json", "--bus", bus];
        command(&words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let filter = |id| String::from_utf8(of_process(id, "coredump_filter")).unwrap();
    let mut secured = publish(&with_keys);
    wait_until("the filter of core dumps", || (filter(secured.id()).trim() == "00000000").then_some(()));
    let limits = String::from_utf8(of_process(secured.id(), "limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let sizes: Vec<&str> = core.split_whitespace().skip(4).collect();
    assert_eq!(sizes[..2], ["0", "0"], "{core}");
    // Before it has begun, it would not take a signal to end by.
    secured.kill().unwrap();
    secured.wait().unwrap();
}
