//! A server on a thread of a test, and clients of it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
pub(crate) use support::WATCHDOG;
use sys::Cancellation;

use super::*;
use crate::host_state::HostState;
use crate::report::Watch;

/// Time limits of an end that must not give up.
pub(crate) const PATIENT: Patience =
    Patience { connect: WATCHDOG, message: WATCHDOG, silence: Duration::from_secs(60) };

/// A server on its own thread. Dropping it ends it.
pub(crate) struct Scene {
    pub(crate) address: SocketAddr,
    /// The request that it ends.
    pub(crate) end: Cancellation,
    events: Receiver<ServerEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Scene {
    pub(crate) fn new(tests: &'static [&'static dyn Serve], patience: Patience) -> Self {
        Self::with_keys(tests, patience, None)
    }

    pub(crate) fn with_keys(
        tests: &'static [&'static dyn Serve],
        patience: Patience,
        keys: Option<ControlKeys>,
    ) -> Self {
        let end = Cancellation::new().unwrap();
        let cancellation = end.clone();
        let (sender, events) = channel();
        let options = ServerOptions {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            lifetime: Lifetime::UntilStopped,
            patience,
            keys,
        };
        let sender = Mutex::new(sender);
        let thread = std::thread::spawn(move || {
            let tell = |event| drop(sender.lock().unwrap().send(event));
            serve(&options, tests, &tell, &cancellation).unwrap();
        });
        let Ok(ServerEvent::Listening(address)) = events.recv_timeout(WATCHDOG) else { panic!() };
        Self { address, end, events, thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> Result<(Connection, HostState), ControlError> {
        Connection::open(self.address.into(), None, PATIENT)
    }

    /// Returns a client that has begun a test.
    pub(crate) fn begin(&self, test: &str, parameters: Value) -> Connection {
        let (mut connection, _) = self.client().unwrap();
        connection.tell(&Message::Begin { test: test.to_owned(), parameters }).unwrap();
        connection
    }

    /// Waits until a client is refused; returns the reason and the number so far.
    pub(crate) fn refused(&self) -> (Unwelcome, u64) {
        loop {
            if let ServerEvent::Refused { reason, count, .. } = self.events.recv_timeout(WATCHDOG).unwrap() {
                return (reason, count);
            }
        }
    }

    /// Waits until a client has left; returns its trouble.
    pub(crate) fn ended(&self) -> Option<String> {
        loop {
            if let ServerEvent::Ended { trouble, .. } = self.events.recv_timeout(WATCHDOG).unwrap() {
                return trouble;
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end.cancel();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Plays the server for one client by hand, from its first message of the test on; the server is gone once
/// `play` returns.
pub(crate) fn by_hand(play: impl FnOnce(Connection) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut connection = Connection::over(listener.accept().unwrap().0, None, PATIENT).unwrap();
        assert!(matches!(connection.hear_surely(), Ok(Message::Hello { .. })));
        let host = serde_json::to_value(HostState::look(Ipv4Addr::LOCALHOST.into())).unwrap();
        connection.tell(&Message::Welcome { protocol: PROTOCOL, tallycast: String::new(), host }).unwrap();
        assert!(matches!(connection.hear_surely(), Ok(Message::Begin { .. })));
        play(connection);
    });
    (address, thread)
}

/// A watch that ignores progress and never asks to end.
pub(crate) struct Unwatched(Cancellation);

impl Default for Unwatched {
    fn default() -> Self {
        Self(Cancellation::new().unwrap())
    }
}

impl Watch for Unwatched {
    fn progress(&mut self, _words: &dyn Fn() -> String) {}

    fn cancellation(&self) -> &Cancellation {
        &self.0
    }
}
