//! The listener: accepts connections while there are slots, and refuses the others.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::{TcpListener, TcpStream};

use super::Source;
use super::conduct::Conduct;
use super::guarded::Guarded;
use super::line::{Encryption, Line};
use super::slots::{Occupant, Slots};
use super::tally::TurnedAway;

/// Pause in accepting after the system failed to provide a connection: another attempt would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answer to a refused connection. It is sent without waiting, so delivery depends on the client's timing.
const NO_SLOT: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n\
    Retry-After: 30\r\nContent-Length: 111\r\n\r\n\
    {\"error\":\"too many connections are open\",\"help\":\"close some, or see --pages-per-address of tallycast monitor\"}\n";

/// A listener with its slots.
pub(crate) struct Gate {
    listener: TcpListener,
    encryption: Option<Encryption>,
    slots: Arc<Slots>,
}

/// Origin of a request: its connection as seen by the requests on it.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Occupant>);

impl Gate {
    pub(crate) const fn new(
        listener: TcpListener,
        encryption: Option<Encryption>,
        slots: Arc<Slots>,
    ) -> Self {
        Self { listener, encryption, slots }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Line> {
        let source = Source::of(peer.ip());
        match self.slots.take(source, Instant::now()) {
            Ok(slot) => {
                // Frames are complete messages: waiting for more data gains nothing.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("a connection stays with Nagle's algorithm: {error}");
                }
                Some(Line::new(Guarded::new(stream, slot), self.encryption.as_ref()))
            }
            Err(why) => {
                self.slots.tally.turned_away(why, &source);
                // It fits in an empty buffer; a connection that is gone does not need it. Through TLS it cannot be said.
                if self.encryption.is_some() {
                    return None;
                }
                let _ = stream.into_std().and_then(|mut stream| stream.write_all(NO_SLOT));
                None
            }
        }
    }

    async fn pause(&self, error: &io::Error) {
        self.slots.tally.turned_away(TurnedAway::Descriptors, error);
        self.slots.give_one_up();
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl Listener for Gate {
    type Io = Line;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Line, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if let Some(line) = self.admit(stream, peer) {
                        return (line, peer);
                    }
                }
                Err(error) if is_the_peers(&error) => {}
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Returns whether only this connection failed.
fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl Caller {
    pub(crate) fn source(&self) -> Source {
        self.0.source
    }

    /// Records that a request on it was read.
    pub(crate) fn serving(&self) {
        self.0.conduct(Conduct::serving);
    }

    /// Notes that its request was answered.
    pub(crate) fn answered(&self) {
        self.0.conduct(|conduct| conduct.answered(Instant::now()));
    }

    /// Records that it is a page from now on.
    pub(crate) fn live(&self) {
        self.0.conduct(Conduct::live);
    }
}

impl Connected<IncomingStream<'_, Gate>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Gate>) -> Self {
        Self(Arc::clone(&stream.io().occupant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_for_who_is_turned_away_is_an_answer_as_long_as_it_says() {
        let text = std::str::from_utf8(NO_SLOT).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
        let said: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(said["error"].is_string() && said["help"].is_string());
    }
}
