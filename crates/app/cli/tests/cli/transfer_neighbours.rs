//! `send` and `recv` among clients that shake hands and stay silent, restart, or never stop: others are served,
//! patience ends on time, and Ctrl-C ends everything.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::wait_until;
use tallycast::udt::{Address, Connection, Listener};

use crate::program::{Running, command, run};

/// A peer that implements only the handshake of UDT.
struct Stranger(UdpSocket);

impl Stranger {
    /// Maximum number of handshakes sent: the length of any watchdog.
    const ATTEMPTS: u32 = 120;
    /// First request number of refusing answers.
    const REFUSED: i32 = 1_000;

    /// Comes from another address than honest senders do.
    fn new(receiver: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.9:0").unwrap();
        socket.connect(receiver).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        Self(socket)
    }

    /// Sends a handshake, again if there is no answer, and returns request, socket and cookie of the answer.
    fn say(&self, request: i32, cookie: u32, first: u32) -> (i32, u32, u32) {
        let head = [0x8000_0000, 0, 0, 0, 4, 1, first, 1_500, 8_192, request.cast_unsigned(), 77, cookie];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.extend([1, 0, 0, 127]);
        bytes.resize(64, 0);
        for _ in 0..Self::ATTEMPTS {
            self.0.send(&bytes).unwrap();
            let mut answer = [0; 2_048];
            while let Ok(size_bytes) = self.0.recv(&mut answer) {
                let word = |index: usize| u32::from_be_bytes(*answer[index * 4..].first_chunk().unwrap());
                let answered = word(9).cast_signed();
                // Other messages belong to an open connection, or answer an earlier handshake again.
                let is_answer = answered == request || answered >= Self::REFUSED;
                if size_bytes == 64 && word(0) == 0x8000_0000 && is_answer {
                    return (answered, word(10), word(11));
                }
            }
        }
        panic!("the receiver does not answer");
    }

    /// Shakes hands; returns the receiver's socket unless it refuses.
    fn shake(&self, first: u32) -> Option<u32> {
        let (_, _, cookie) = self.say(1, 0, first);
        let (request, socket, _) = self.say(-1, cookie, first);
        (request == -1).then_some(socket)
    }

    /// Sends a keep-alive packet.
    fn speak(&self, to: u32) {
        let keep_alive: Vec<u8> =
            [0x8001_0000, 0, 0, to, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        self.0.send(&keep_alive).unwrap();
    }
}

/// Starts a receiver; returns it and its address.
fn receiver(folder: &tempfile::TempDir) -> (Running, SocketAddr) {
    let into = folder.path().join("in");
    let running = Running::start(&["recv", "--json", into.to_str().unwrap(), "udt://127.0.0.1:0"]);
    let listening = running.next_line().unwrap();
    let port = u16::try_from(listening["port"].as_u64().unwrap()).unwrap();
    (running, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn file(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("file");
    fs::write(&path, [7; 100_000]).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn strangers_that_fall_silent_keep_no_sender_and_no_end_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let (running, at) = receiver(&folder);
    let strangers: Vec<Stranger> = (0..100).map(|_| Stranger::new(at)).collect();
    let accepted = strangers.iter().filter(|stranger| stranger.shake(9).is_some()).count();
    assert!(accepted >= 64, "as many as there are places: {accepted}");
    let output = run(&["send", &file(&folder), &format!("udt://{at}")]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let account = running.lines_until(|line| line["event"] == "account").pop().unwrap();
    assert_eq!((&account["offered"], &account["delivered"]), (&1.into(), &1.into()), "{account}");
    // Silent clients do not delay a requested end.
    assert!(Stranger::new(at).shake(9).is_some());
    running.signal(Signal::INT);
    let (status, lines) = running.wait();
    assert_eq!(status.code(), Some(0));
    let sum = lines.iter().find(|line| line["event"] == "strangers").expect("they are counted");
    let of = |name: &str| sum[name].as_u64().unwrap();
    // On a slow machine the first were dropped before the last arrived.
    assert!(of("refused") + of("half_open") >= 36 && of("replaced") == 0, "{sum}");
}

#[test]
fn a_stranger_that_begins_anew_ends_its_own_connection_and_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (running, at) = receiver(&folder);
    let stranger = Stranger::new(at);
    let first = stranger.shake(1_000).expect("there are places");
    stranger.speak(first);
    // It is served.
    running.lines_until(|line| line["event"] == "progress");
    for other in [5_000, 9_000] {
        stranger.shake(other).expect("there are places");
    }
    let broken = running.lines_until(|line| line["event"] == "broken").pop().unwrap();
    assert!(broken["error"].as_str().unwrap().contains("the peer restarted"), "{broken}");
    running.signal(Signal::INT);
    let (status, lines) = running.wait();
    assert_eq!(status.code(), Some(0));
    let sum = lines.iter().find(|line| line["event"] == "strangers").expect("they are counted");
    assert_eq!((&sum["replaced"], &sum["refused"]), (&2.into(), &0.into()), "{sum}");
}

#[test]
fn patience_runs_out_before_anything_was_answered_and_lasts_until_somebody_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    // A peer that accepts connections and never reads.
    let address: Address = "udt://127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&address).unwrap();
    let at = format!("udt://{}", listener.local_address());
    let output = run(&["send", &file, &at, "--patience", "1s", "--json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no progress for 1s; 1 are missing"), "{said}");
    let last: serde_json::Value = serde_json::from_slice(
        output.stdout.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap(),
    )
    .unwrap();
    assert_eq!(
        (&last["event"], &last["offered"], &last["missing"]),
        (&"account".into(), &1.into(), &1.into())
    );
    drop(listener);
    // Nobody is there at first.
    let port = support::ports::free();
    let at = format!("udt://127.0.0.1:{port}");
    let sender = Running::start(&["send", &file, &at, "--patience", "10min", "--json"]);
    let refused = sender.lines_until(|line| line["event"] == "broken").pop().unwrap();
    assert!(refused["error"].as_str().unwrap().contains("no answer from the peer"), "{refused}");
    let into = folder.path().join("in");
    let _receiver = Running::start(&["recv", "--json", "--once", into.to_str().unwrap(), &at]);
    let account = sender.lines_until(|line| line["event"] == "account").pop().unwrap();
    assert_eq!((&account["delivered"], &account["missing"]), (&1.into(), &0.into()), "{account}");
    assert_eq!(sender.wait().0.code(), Some(0));
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

#[test]
fn a_raw_receiver_ends_although_its_peer_never_stops() {
    let port = support::ports::free();
    let at = format!("udt://127.0.0.1:{port}");
    let mut receiver =
        command(&["recv", "--raw", &at]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let address: Address = at.parse().unwrap();
    let connection = wait_until("the receiver", || Connection::connect(&address).ok());
    let bytes = [3; 65_536];
    for _ in 0..16 {
        connection.send_all(&bytes).unwrap();
    }
    connection.flush().unwrap();
    interrupt(&receiver);
    // Until the other end is gone.
    while connection.send_all(&bytes).is_ok() {}
    let status = wait_until("its end", || receiver.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_raw_sender_ends_although_its_peer_takes_nothing() {
    let address: Address = "udt://127.0.0.1:0?rcvbuf=32".parse().unwrap();
    let listener = Listener::bind(&address).unwrap();
    let at = format!("udt://{}", listener.local_address());
    let mut sender = command(&["send", "--raw", &at])
        .stdin(fs::File::open("/dev/zero").unwrap())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let connection = listener.accept(None).unwrap();
    // Only as much is sent as fits into the buffers of both ends.
    wait_until("a full buffer", || (connection.stats()?.receive_room_packets == 0).then_some(()));
    interrupt(&sender);
    let status = wait_until("its end", || sender.try_wait().unwrap());
    assert_eq!(status.code(), Some(2));
    let mut said = String::new();
    std::io::Read::read_to_string(sender.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert!(said.contains("is not acknowledged"), "{said}");
}
