//! The client's other work during a size step: it sends heartbeats to the server, and checks whether to stop.

use std::time;

use sys::clock;
use units::Instant;

use super::link::{Attending, POLL_INTERVAL};
use crate::control::{Connection, ControlError};
use crate::report::Watch;

/// Checks every [`POLL_INTERVAL`], however often it is called: a check costs more than a short exchange.
pub(super) struct Attendance<'a> {
    connection: &'a mut Connection,
    watch: &'a dyn Watch,
    next_look: Instant,
    outcome: Option<Result<(), ControlError>>,
}

impl<'a> Attendance<'a> {
    pub(super) fn new(connection: &'a mut Connection, watch: &'a dyn Watch) -> Self {
        Self { connection, watch, next_look: clock::monotonic(), outcome: None }
    }

    /// Returns an error if the server is gone.
    pub(super) fn end(self) -> Result<(), ControlError> {
        self.outcome.unwrap_or(Ok(()))
    }

    /// Reads the control connection without waiting; during a size step it carries only reports of failure.
    fn look(&mut self) -> Option<Result<(), ControlError>> {
        match self.connection.hear(time::Instant::now()) {
            Ok(None) => self.watch.cancellation().is_cancelled().then_some(Ok(())),
            Ok(Some(other)) => Some(Err(self.connection.unexpected(&other))),
            Err(error) => Some(Err(error)),
        }
    }
}

impl Attending for Attendance<'_> {
    fn goes_on(&mut self) -> bool {
        let now = clock::monotonic();
        if self.outcome.is_none() && now >= self.next_look {
            self.next_look = now + POLL_INTERVAL;
            self.outcome = self.look();
        }
        self.outcome.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use support::WATCHDOG;

    use super::*;
    use crate::control::scene::Unwatched;
    use crate::control::{Message, PROTOCOL, Patience};
    use crate::host_state::HostState;

    /// A server that welcomes its client and then stays silent.
    fn connection(silence: Duration) -> (Connection, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let host = serde_json::to_value(HostState::look(Ipv4Addr::LOCALHOST.into())).unwrap();
        let welcome = Message::Welcome { protocol: PROTOCOL, tallycast: "1".to_owned(), host };
        let text = serde_json::to_vec(&welcome).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&u32::try_from(text.len()).unwrap().to_be_bytes()).unwrap();
            stream.write_all(&text).unwrap();
            stream.set_read_timeout(Some(WATCHDOG)).unwrap();
            stream
        });
        let patience = Patience { connect: WATCHDOG, message: WATCHDOG, silence };
        let (connection, _) = Connection::open(address.into(), None, patience).unwrap();
        (connection, server.join().unwrap())
    }

    /// Longer than a client that attends is kept from its processor.
    const SILENCE: Duration = Duration::from_secs(3);

    #[test]
    fn whoever_attends_says_that_it_is_there() {
        let (mut connection, mut server) = connection(SILENCE);
        let is_heard = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut said, mut bytes) = (String::new(), [0; 256]);
                while !said.contains("alive") {
                    let count = server.read(&mut bytes).unwrap();
                    assert!(count > 0, "the client left before it said so: {said}");
                    said.push_str(&String::from_utf8_lossy(&bytes[..count]));
                }
                is_heard.store(true, Ordering::Relaxed);
            });
            let watch = Unwatched::default();
            let mut attendance = Attendance::new(&mut connection, &watch);
            // It continues until it takes the silent server for gone: long after its own heartbeat is due.
            while attendance.goes_on() && !is_heard.load(Ordering::Relaxed) {
                clock::sleep_until(clock::monotonic() + POLL_INTERVAL);
            }
        });
        assert!(is_heard.into_inner());
    }

    #[test]
    fn a_cancellation_is_seen_and_a_server_that_left_is_told() {
        let (mut connection, server) = connection(WATCHDOG);
        let watch = Unwatched::default();
        watch.cancellation().cancel();
        let mut attendance = Attendance::new(&mut connection, &watch);
        assert!(!attendance.goes_on());
        assert!(attendance.end().is_ok());

        drop(server);
        let watch = Unwatched::default();
        let mut attendance = Attendance::new(&mut connection, &watch);
        while attendance.goes_on() {
            clock::sleep_until(attendance.next_look);
        }
        assert!(matches!(attendance.end(), Err(ControlError::Gone { .. })));
    }
}
