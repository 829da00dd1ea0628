//! `tallycast doctor`: its findings about a program that loses datagrams, this test, and its remedies.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use support::{or_skip, wait_until};
use sys::Namespace;

use crate::program::{Running, check_keys, run_as_nobody};

/// Starts watching a port, and waits for the first snapshot; returns whether it names datagrams.
fn watch(port: u16, more: &[&str]) -> (Running, bool) {
    let port = port.to_string();
    let arguments = ["doctor", "watch", "--json", "--interval", "100ms", "--port", &port];
    let watcher = Running::start(&[&arguments, more].concat());
    let names_datagrams =
        watcher.lines_until(|line| line["event"] == "watching").pop().unwrap()["names_datagrams"]
            .as_bool()
            .unwrap();
    (watcher, names_datagrams)
}

/// A program whose buffer holds only some of the datagrams of a burst.
struct Narrow(UdpSocket);

impl Narrow {
    /// Number of datagrams per burst. Each has 1,000 bytes: far more than the buffer holds, and far fewer than the
    /// kernel's queue for a delayed processor.
    const AT_ONCE: usize = 50;

    /// Opens it at a port used by no other sender; `None` if the host has no such address.
    fn at(here: IpAddr) -> Option<Self> {
        let socket = UdpSocket::bind((here, support::ports::free())).ok()?;
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 8_192).unwrap();
        socket.set_nonblocking(true).unwrap();
        Some(Self(socket))
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn drops(&self) -> u64 {
        u64::from(sys::MemInfo::of(&self.0).unwrap().drops)
    }

    /// Sends datagrams to the socket and returns those that it had room for. Each of the others was dropped by then:
    /// none is in flight.
    fn overflow(&self, datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let writer = UdpSocket::bind((self.address().ip(), 0)).unwrap();
        let (mut sent, mut came) = (0, Vec::new());
        for at_once in datagrams.chunks(Self::AT_ONCE) {
            for datagram in at_once {
                writer.send_to(datagram, self.address()).unwrap();
            }
            sent += at_once.len();
            wait_until("all that was sent to be read or dropped", || {
                let mut bytes = [0; 2_000];
                while let Ok(size_bytes) = self.0.recv(&mut bytes) {
                    came.push(bytes[..size_bytes].to_vec());
                }
                (came.len() as u64 + self.drops() == sent as u64).then_some(())
            });
        }
        came
    }
}

#[test]
fn drops_of_a_programs_socket_are_reported_with_evidence_cause_and_remedy() {
    for here in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let Some(reader) = Narrow::at(here) else {
            println!("SKIPPED: this host has no {here}");
            continue;
        };
        let address = reader.address();
        let (watcher, names_datagrams) = watch(address.port(), &["--no-events"]);
        assert!(!names_datagrams);
        reader.overflow(&vec![vec![0; 1_000]; 500]);
        let drops = reader.drops();
        assert!(drops > 0);
        let mut reported = 0;
        let is_ours = |line: &serde_json::Value| line["port"] == address.port();
        let lines = watcher.lines_until(|line| {
            reported += if is_ours(line) { line["count"].as_u64().unwrap() } else { 0 };
            reported >= drops
        });
        assert_eq!(reported, drops);
        let loss = lines.iter().find(|line| is_ours(line)).unwrap();
        assert_eq!(
            (&loss["event"], &loss["stage"]),
            (&"loss".into(), &"receiver_socket_buffer".into()),
            "{loss}"
        );
        let reader_of = format!("[{}]", std::process::id());
        assert!(loss["reader"].as_str().unwrap().ends_with(&reader_of), "{loss}");
        assert_eq!((&loss["place"], &loss["tier"]), (&address.to_string().into(), &"T1".into()), "{loss}");
        assert_eq!(loss["evidence"][0]["counter"], "SK_MEMINFO_DROPS", "{loss}");
        let version = if address.is_ipv6() { "Udp6RcvbufErrors" } else { "UdpRcvbufErrors" };
        assert_eq!(loss["evidence"][1]["counter"], version, "{loss}");
        assert!(loss["cure"][0].as_str().is_some_and(|remedy| !remedy.is_empty()), "{loss}");
        watcher.signal(Signal::INT);
        let ended = watcher.lines_until(|line| line["event"] == "ended").pop().unwrap();
        let sums = ended["losses"].as_array().unwrap();
        let of_socket = sums.iter().find(|sum| sum["place"].as_str().unwrap().contains(&address.to_string()));
        assert_eq!(of_socket.unwrap()["count"], drops, "{ended}");
        assert_eq!(watcher.wait().0.code(), Some(1), "something was lost");
    }
}

#[test]
fn a_watch_is_reported_alike_from_its_event_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let file = file.to_str().unwrap();
    let reader = Narrow::at(Ipv4Addr::LOCALHOST.into()).unwrap();
    let (watcher, _) = watch(reader.address().port(), &["--record", file]);
    reader.overflow(&vec![vec![0; 1_000]; 500]);
    let mut lines = watcher.lines_until(|line| line["event"] == "loss");
    watcher.signal(Signal::INT);
    lines.extend(watcher.lines_until(|line| line["event"] == "ended"));
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast"))
        .args(["doctor", "replay", "--json", file])
        .output()
        .unwrap();
    check_keys(&["doctor", "replay"], &output.stdout);
    let text = String::from_utf8(output.stdout).unwrap();
    let replayed: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replayed[0]["event"], "replaying");
    let losses = |lines: &[serde_json::Value]| {
        lines.iter().filter(|it| it["event"] == "loss").cloned().collect::<Vec<_>>()
    };
    assert!(!losses(&lines).is_empty());
    assert_eq!(losses(&replayed), losses(&lines));
    assert_eq!(replayed.last().unwrap()["losses"], lines.last().unwrap()["losses"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn an_event_file_that_cannot_be_written_is_said_before_anything_is_watched() {
    let arguments = ["doctor", "watch", "--snapshots", "2", "--interval", "1ms", "--record", "/dev/full"];
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast")).args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/dev/full cannot be written"), "{error}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_full_disk_ends_the_event_file_and_not_the_watch() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    // A file may have 64 KiB: room for the first snapshot and some more.
    let script = format!(
        "trap '' XFSZ; ulimit -f 128; exec {} doctor watch --snapshots 2000 --interval 1ms --record {}",
        env!("CARGO_BIN_EXE_tallycast"),
        file.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.matches("the event file ends here").count(), 1, "{error}");
    assert_ne!(output.status.code(), Some(2), "{error}");
}

#[test]
fn what_is_no_event_file_is_said() {
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast"))
        .args(["doctor", "replay", "/dev/null"])
        .output()
        .unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--record"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_datagram_that_a_program_of_any_kind_loses_is_named() {
    const COUNT: u16 = 1_000;
    let reader = Narrow::at(Ipv4Addr::LOCALHOST.into()).unwrap();
    let (watcher, names_datagrams) = watch(reader.address().port(), &["--profile", "rtp"]);
    if !names_datagrams {
        println!("SKIPPED: single datagrams cannot be looked at here");
        return;
    }
    let datagram = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let head = [0x80, 0, high, low, 0, 0, 0, 0, 0, 0, 0xca, 0xfe];
        [&head[..], &[0; 1_000]].concat()
    };
    let came = reader.overflow(&(0..COUNT).map(datagram).collect::<Vec<_>>());
    let mut missing: BTreeSet<u64> = (0..COUNT.into()).collect();
    for bytes in came {
        missing.remove(&u64::from(u16::from_be_bytes([bytes[2], bytes[3]])));
    }
    assert!(!missing.is_empty() && missing.len() < COUNT.into());
    let (mut named, mut reported) = (BTreeSet::new(), 0);
    watcher.lines_until(|line| {
        reported += line["count"].as_u64().unwrap();
        assert_eq!(
            (&line["stage"], &line["tier"]),
            (&"receiver_socket_buffer".into(), &"T3".into()),
            "{line}"
        );
        for datagrams in line["datagrams"].as_array().unwrap() {
            assert_eq!(datagrams["stream"], "000000000000cafe", "{line}");
            for range in datagrams["numbers"].as_array().unwrap() {
                named.extend(range[0].as_u64().unwrap()..=range[1].as_u64().unwrap());
            }
        }
        reported == missing.len() as u64
    });
    watcher.signal(Signal::INT);
    let ended = watcher.lines_until(|line| line["event"] == "ended").pop().unwrap();
    assert_eq!(named, missing);
    assert_eq!((&ended["not_observed"], &ended["unreported"]), (&0.into(), &0.into()), "{ended}");
    assert_eq!(watcher.wait().0.code(), Some(1), "something was lost");
}

#[test]
fn what_is_no_profile_is_refused_with_what_one_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast"))
        .args(["doctor", "watch", "--profile", "number=x"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("number=4:8,stream=0:4,order=big"), "{text}");
    assert_eq!(output.status.code(), Some(2));
}

/// Makes a network namespace in which nothing else is sent or lost; returns `None` with a note if none can be made.
fn apart() -> Option<Namespace> {
    or_skip(Namespace::create("doctor"))
}

/// A program whose bursts arrive at their rate and without other traffic, however busy this machine is: two windows
/// of time can be compared.
struct Steady {
    program: Bursts,
    place: Namespace,
}

impl Steady {
    fn begin(count: u32, reads: bool) -> Option<Self> {
        let place = apart()?;
        let program = place.inside(|| Bursts::of(count, reads)).unwrap();
        Some(Self { program, place })
    }

    /// Runs a command of the doctor there, before all that computes; returns its lines and exit code.
    fn doctor(&self, arguments: &[&str], journal: &Path) -> (Vec<serde_json::Value>, Option<i32>) {
        let mut command = self.place.command("nice");
        command.args(["-n", "-20", env!("CARGO_BIN_EXE_tallycast")]);
        let journal = ["--json", "--journal", journal.to_str().expect("a path")];
        let output = command.args([&["doctor"], arguments, &journal].concat()).output().expect("it runs");
        print!("{}", String::from_utf8_lossy(&output.stderr));
        check_keys(&[&["doctor"], arguments].concat(), &output.stdout);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        (text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), output.status.code())
    }
}

/// A program that receives larger bursts than its small buffer holds; with `reads` it reads all that is there after
/// each burst.
struct Bursts {
    reader: Arc<UdpSocket>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bursts {
    fn begin(reads: bool) -> Self {
        Self::of(100, reads)
    }

    fn of(count: u32, reads: bool) -> Self {
        let reader = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("loopback"));
        rustix::net::sockopt::set_socket_recv_buffer_size(&reader, 8_192).expect("a small buffer");
        reader.set_nonblocking(true).expect("a socket");
        let is_over = Arc::new(AtomicBool::new(false));
        let (socket, over) = (Arc::clone(&reader), Arc::clone(&is_over));
        let writer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        writer.connect(reader.local_addr().expect("bound")).expect("loopback");
        let thread = std::thread::spawn(move || {
            // If permitted: other load then does not reduce the number of bursts.
            let _ = sys::scheduling::run_fifo(1);
            let (mut bytes, mut due) = ([0; 2_000], sys::clock::monotonic());
            while !over.load(Ordering::Relaxed) {
                for _ in 0..count {
                    writer.send(&[0; 1_000]).expect("loopback");
                }
                while reads && socket.recv(&mut bytes).is_ok() {}
                // Bursts at a rate, as of a device: one that never rests would be called too slow.
                due += Duration::from_millis(10);
                sys::clock::sleep_until(due);
            }
        });
        Self { reader, is_over, thread: Some(thread) }
    }

    fn port(&self) -> String {
        self.reader.local_addr().expect("bound").port().to_string()
    }

    fn buffer_bytes(&self) -> u32 {
        sys::MemInfo::of(&self.reader).expect("a socket").buffer_bytes
    }
}

impl Drop for Bursts {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Window of `fix`: long enough that a short stop of the program does not matter.
const WINDOW: &str = "3s";

/// Returns the proof of the change that was kept.
fn kept(lines: &[serde_json::Value]) -> &serde_json::Value {
    lines.iter().find(|line| line["event"] == "proof" && line["kept"] == true).expect("something helped")
}

/// If the other tests leave this process no processor, that is the first remedy.
fn is_of_buffer(proof: &serde_json::Value) -> bool {
    let kind = proof["change"]["kind"].as_str().unwrap();
    assert!(["receive_buffer", "niceness"].contains(&kind), "{proof}");
    kind == "receive_buffer"
}

#[test]
fn where_nothing_comes_a_load_of_its_own_is_measured_before_and_after() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: another program's socket is root's to change");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("doctor.jsonl");
    // It reads every 10 ms; in that time fifty come, and eight find room.
    let Some(steady) = Steady::begin(0, true) else { return };
    let program = &steady.program;
    let before = program.buffer_bytes();
    let fix = ["fix", "--port", &program.port(), "--load", "5000", "--window", WINDOW, "--yes"];
    let (lines, _) = steady.doctor(&fix, &journal);
    let loads: Vec<_> = lines.iter().filter(|line| line["event"] == "load").collect();
    let sent = |index: usize| loads[index]["sent"].as_u64().unwrap();
    // 5,000 per second for the length of a window, and the first at once.
    let possible = 1..=15_001;
    assert!(loads.len() >= 2 && possible.contains(&sent(0)) && possible.contains(&sent(1)), "{lines:?}");
    let to = program.reader.local_addr().unwrap().to_string();
    assert_eq!(loads[0]["to"], to);
    let proof = kept(&lines);
    assert_eq!(proof["proof"], "helped", "{proof}");
    assert!(!is_of_buffer(proof) || program.buffer_bytes() > before, "{proof}");
    steady.doctor(&["undo", "--all"], &journal);
    assert_eq!(program.buffer_bytes(), before);
}

#[test]
fn a_load_wants_one_reader() {
    let nobodys = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    for (more, word) in [
        (&[][..], "--port PORT"),
        (&["--port", "1", "--port", "2"], "--port PORT"),
        (&["--port", "1", "--pid", "1"], "--pid"),
        (&["--port", &nobodys], "start the reader first"),
        (&["--port", "1", "--load", "0"], "1..=1000000"),
    ] {
        let load = if more.contains(&"--load") { &[][..] } else { &["--load", "100"] };
        let output = Command::new(env!("CARGO_BIN_EXE_tallycast"))
            .args([&["doctor", "fix", "--yes"], load, more].concat())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(word), "{error}");
        assert_eq!(output.status.code(), Some(2), "{error}");
    }
}

#[test]
fn a_journal_that_is_not_the_doctors_own_word_is_refused_with_the_way_out() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("doctor.jsonl");
    let line = |name: &str| {
        let what = format!(r#"{{"kind":"sysctl","name":"{name}","value":0,"before":1}}"#);
        format!("{{\"change\":1,\"utc_ns\":0,\"what\":{what}}}\n")
    };
    for (name, mode, said) in [
        ("net.core.netdev_max_backlog", 0o666, "chmod go-w"),
        ("net.ipv4.ip_forward", 0o600, "never changes"),
    ] {
        std::fs::write(&journal, line(name)).unwrap();
        std::fs::set_permissions(&journal, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tallycast"))
            .args(["doctor", "undo", "--journal", journal.to_str().unwrap()])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(said), "{error}");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert_eq!(std::fs::read_to_string(&journal).unwrap(), line(name), "nothing was done");
    }
}

#[test]
fn a_program_that_loses_nothing_is_not_accused_beside_one_that_does() {
    let foreign = Bursts::begin(false);
    let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (watcher, names_datagrams) = watch(reader.local_addr().unwrap().port(), &[]);
    if !names_datagrams {
        println!("SKIPPED: without drop events the namespace's counts may be from other sockets");
        return;
    }
    let writer = UdpSocket::bind("127.0.0.1:0").unwrap();
    writer.connect(reader.local_addr().unwrap()).unwrap();
    let before = sys::MemInfo::of(&foreign.reader).unwrap().drops;
    let mut times = 0;
    wait_until("the other one to lose", || {
        let mut bytes = [0; 2_000];
        for _ in 0..1_000 {
            for _ in 0..5 {
                writer.send(&[0; 1_000]).unwrap();
            }
            for _ in 0..5 {
                reader.recv(&mut bytes).unwrap();
            }
        }
        times += 1;
        let loses = sys::MemInfo::of(&foreign.reader).unwrap().drops > before;
        (times >= 20 && loses).then_some(())
    });
    watcher.signal(Signal::INT);
    let lines = watcher.lines_until(|line| line["event"] == "ended");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["losses"], serde_json::json!([]));
    // Losses that sockets of other tests took with them when they closed cannot be assigned, and are reported so.
    let is_all_observed = lines[0]["not_observed"] == 0;
    assert_eq!(watcher.wait().0.code(), Some(i32::from(!is_all_observed)));
}

#[test]
fn a_larger_buffer_is_tried_on_a_running_program_proved_and_taken_back() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: another program's socket is root's to change");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("doctor.jsonl");
    let Some(steady) = Steady::begin(100, true) else { return };
    let program = &steady.program;
    let before = program.buffer_bytes();
    let fix = ["fix", "--port", &program.port(), "--window", WINDOW, "--yes"];
    let (lines, code) = steady.doctor(&fix, &journal);
    let proof = kept(&lines);
    assert_eq!((&proof["proof"], code), (&"helped".into(), Some(0)), "{proof}");
    assert!(proof["before"]["lost"].as_u64() > Some(0), "{proof}");
    assert!(!is_of_buffer(proof) || program.buffer_bytes() > before, "{proof}");
    let (listed, _) = steady.doctor(&["undo", "--list"], &journal);
    assert_eq!((listed.len(), &listed[0]["change"]), (1, &proof["change"]));
    let (undone, code) = steady.doctor(&["undo"], &journal);
    assert_eq!((&undone[0]["result"], code), (&"undone".into(), Some(0)));
    assert_eq!(program.buffer_bytes(), before);
    assert_eq!(steady.doctor(&["undo"], &journal).0[0]["event"], "nothing_to_undo");
}

#[test]
fn a_change_that_does_not_help_is_taken_back_at_once() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: another program's socket is root's to change");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("doctor.jsonl");
    let Some(steady) = Steady::begin(100, false) else { return };
    let program = &steady.program;
    let before = program.buffer_bytes();
    let fix = ["fix", "--port", &program.port(), "--window", WINDOW, "--yes"];
    let (lines, code) = steady.doctor(&fix, &journal);
    let proof = lines.iter().find(|line| line["event"] == "proof").unwrap();
    // A machine that stands still for half of a window brings `no_traffic` instead of `did_not_help`.
    assert_ne!(proof["proof"], "helped", "{proof}");
    assert_eq!((&proof["kept"], code), (&false.into(), Some(1)), "{proof}");
    assert_eq!(program.buffer_bytes(), before);
    assert_eq!(steady.doctor(&["undo", "--list"], &journal).0, Vec::<serde_json::Value>::new());
}

#[test]
fn nobody_is_changed_without_being_asked() {
    let output = Command::new(env!("CARGO_BIN_EXE_tallycast")).args(["doctor", "fix"]).output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("--yes"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn where_nothing_is_lost_it_says_so() {
    // Among the other tests there are always losses: a separate namespace has none of them.
    let Some(place) = apart() else { return };
    let two_snapshots = ["doctor", "watch", "--snapshots", "2", "--interval", "1ms"];
    let output = place.command(env!("CARGO_BIN_EXE_tallycast")).args(two_snapshots).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("nothing was lost in "), "{text}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn anybody_may_watch() {
    let arguments = ["doctor", "watch", "--json", "--snapshots", "1", "--interval", "1ms"];
    let Some(output) = run_as_nobody(&arguments) else { return };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.contains("\"event\":\"ended\"")), "{text}");
    assert_ne!(output.status.code(), Some(2));
}
