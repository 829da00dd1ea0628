//! Messages of congestion controls and applications that accompany the data, with libudt at the other end.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use congestion::{Acked, CongestionControl, Environment, Factory, Lost, Message, Policy};
use engine::{ReliablePort, WaitError};
use interop::{MEGABYTE, Peer, send};
use udt::{SocketConfig, SocketId, SocketType};

fn program() -> Option<&'static PathBuf> {
    interop::program(env!("CARGO_TARGET_TMPDIR"))
}

fn to_listener(
    program: &PathBuf,
    ours: &ReliablePort,
    config: SocketConfig,
    action: &str,
    count: &str,
) -> (Peer, SocketId) {
    let size = MEGABYTE.to_string();
    let mut peer = Peer::start(program, &["listen", "127.0.0.1", "0", "stream", action, &size, count]);
    let address = SocketAddr::from(([127, 0, 0, 1], peer.port()));
    let socket = ours.connect(address, config).expect("the peer listens");
    (peer, socket)
}

type Heard = Arc<Mutex<Vec<Message>>>;

/// Sends the same message with every acknowledgement until it is answered.
struct Asker {
    heard: Heard,
    says: bool,
}

/// Content of the message.
const WORDS: [u32; 3] = [0x0102_0304, 7, 0xffff_fffe];

impl CongestionControl for Asker {
    fn policy(&self) -> Policy {
        Policy::window(100.0)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {
        self.says = self.heard.lock().expect("nobody panicked").is_empty();
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn on_message(&mut self, _: &mut Environment<'_>, message: &Message) {
        self.heard.lock().expect("nobody panicked").push(message.clone());
    }

    fn poll_message(&mut self) -> Option<Message> {
        let says = std::mem::take(&mut self.says);
        says.then(|| Message { kind: 0x1234, body: WORDS.to_vec() })
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("asker")
    }
}

#[derive(Debug)]
struct Askers(Heard);

impl Factory for Askers {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(Asker { heard: Arc::clone(&self.0), says: false })
    }
}

#[test]
fn controls_of_both_libraries_understand_each_other() {
    let Some(program) = program() else { return };
    let heard = Heard::default();
    let config = SocketConfig::with(SocketType::Stream, Arc::new(Askers(Arc::clone(&heard))));
    let ours = interop::port(true);
    let (mut peer, socket) = to_listener(program, &ours, config, "talk", "20");
    send(&ours, socket, 20 * MEGABYTE);
    assert_eq!(peer.line(), "received 20000000 wrong 0");
    ours.close(socket);
    let heard = heard.lock().expect("nobody panicked");
    let expected = Message { kind: 0x1234, body: WORDS.map(|word| word + 1).to_vec() };
    assert!(!heard.is_empty() && heard.iter().all(|message| *message == expected), "{heard:?}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_in_both_directions() {
    let Some(program) = program() else { return };
    let config = SocketConfig::new(SocketType::Stream);
    let ours = interop::port(true);
    let (mut peer, socket) = to_listener(program, &ours, config.clone(), "refuse", "20");
    let error = loop {
        if let Err(error) = ours.send(socket, &[7; 100_000], None) {
            break error;
        }
    };
    assert_eq!(error, WaitError::Peer(4_000));
    assert_eq!(peer.line(), "refused");

    let ours = interop::port(true);
    // More than the buffers of both ends hold: the peer still sends when the message arrives.
    let (mut peer, socket) = to_listener(program, &ours, config, "send", "100000");
    ours.receive(socket, &mut [0; 9], None).expect("the peer sends");
    ours.fail(socket, 4_000);
    // libudt checks for the error when it continues to send, and does not wake a sender that waits for buffer space.
    while ours.receive(socket, &mut [0; 100_000], None).is_ok_and(|taken| taken > 0) {}
    let line = peer.line();
    assert!(line.starts_with("failed send: 7000 "), "{line}");
}
