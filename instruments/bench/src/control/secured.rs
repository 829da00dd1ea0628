//! Keys of a control connection: a server with keys measures with listed clients only, and what it hears is encrypted.
//!
//! The control connection is what starts load; the data of a measurement carry no secrets and go as they are, unless
//! streams are measured as a laboratory secures them. A client with keys never goes on in clear,
//! and a server with keys tells a client without them what to do.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use noise::channel::{
    self, Calling, ChannelError, INITIATION_BYTES, INITIATION_MARK, Opener, REPLY_BYTES, Sealer,
};
use tallycast::udt::{PublicKey, Secret};

use super::connection::ControlError;
use super::frame::{self, Frames};
use super::message::Message;

/// What a server with keys tells clients that it cannot measure with.
const CLEAR: &str = "this server has a key, and measures with listed clients only\nadd --key FILE and --peer, the server's public key";
/// What it tells all clients while it is busy: not with whom.
pub(super) const ANOTHER: &str = "another client";
/// Most bytes of a clear answer that a client with keys reads.
const LONGEST_CLEAR_BYTES: usize = 4 << 10;

/// Keys of one end of a control connection.
#[derive(Clone, Debug)]
pub struct ControlKeys {
    /// Private X25519 key of this end.
    pub key: Secret,
    /// Public keys of the clients that a server measures with, or of the server that a client wants.
    pub peers: BTreeSet<PublicKey>,
    /// The station's file of keys in which the key is: streams can be secured with it.
    pub station: Option<PathBuf>,
}

/// A server, and the keys of this end for it.
#[derive(Clone, Copy, Debug)]
pub struct ServerAt<'a> {
    /// Address of the server.
    pub address: SocketAddr,
    /// Keys; none for a server without.
    pub keys: Option<&'a ControlKeys>,
}

/// Reason why a server with keys does not measure with a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unwelcome {
    /// It has no key.
    Clear,
    /// It was changed on the way, or calls another server.
    Handshake,
    /// Its key is not listed.
    Unlisted(PublicKey),
    /// It did not complete a handshake in time.
    Silent,
}

impl From<SocketAddr> for ServerAt<'_> {
    fn from(address: SocketAddr) -> Self {
        Self { address, keys: None }
    }
}

impl ControlKeys {
    /// Returns the public key of this end.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        noise::public_key(&self.key)
    }

    /// Makes the handshake of a client.
    pub(super) fn call(
        &self,
        mut stream: &TcpStream,
        patience: Duration,
    ) -> Result<(Sealer, Opener), ControlError> {
        let until = Instant::now() + patience;
        let peer = stream.peer_addr()?;
        let refused = || ControlError::NotSecured { peer, own: self.public().to_string() };
        let server = self.peers.first().filter(|_| self.peers.len() == 1).ok_or_else(refused)?;
        let (calling, initiation) =
            Calling::new(&self.key, server, keyring::random_secret().reveal().to_owned().into());
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&initiation).map_err(|_| refused())?;
        let mut reply = [0; REPLY_BYTES];
        let read = read_until(stream, &mut reply, until);
        if read == REPLY_BYTES
            && let Ok(channel) = calling.finish(&reply)
        {
            return Ok(channel);
        }
        // It says nothing that can be believed, but a busy server is worth waiting for.
        let mut frames = Frames::default();
        frames.push(&reply[..read]);
        let mut rest = [0; LONGEST_CLEAR_BYTES];
        let read = if read < REPLY_BYTES { 0 } else { read_until(stream, &mut rest, until) };
        frames.push(&rest[..read]);
        match frames.next() {
            Some(Ok(Message::Busy { .. })) => Err(ControlError::Busy { peer, with: ANOTHER.to_owned() }),
            _ => Err(refused()),
        }
    }

    /// Makes the handshake of a server.
    pub(super) fn answer(
        &self,
        mut stream: &TcpStream,
        patience: Duration,
    ) -> Result<(Sealer, Opener), Unwelcome> {
        let until = Instant::now() + patience;
        let mut initiation = [0; INITIATION_BYTES];
        let (mark, rest) = initiation.split_at_mut(INITIATION_MARK.len());
        if read_until(stream, mark, until) < mark.len() {
            return Err(Unwelcome::Silent);
        }
        if *mark != INITIATION_MARK {
            return Err(Unwelcome::Clear);
        }
        if read_until(stream, rest, until) < rest.len() {
            return Err(Unwelcome::Silent);
        }
        let random = keyring::random_secret().reveal().to_owned().into();
        let accepted =
            channel::accept(&self.key, &self.peers, &initiation, random).map_err(|error| match error {
                ChannelError::Unlisted(key) => Unwelcome::Unlisted(key),
                ChannelError::Foreign => Unwelcome::Clear,
                ChannelError::Handshake | ChannelError::Record => Unwelcome::Handshake,
            })?;
        stream.set_write_timeout(Some(patience)).map_err(|_| Unwelcome::Silent)?;
        stream.write_all(&accepted.reply).map_err(|_| Unwelcome::Silent)?;
        Ok(accepted.channel)
    }
}

/// Tells a client without keys what it lacks; others are not answered.
pub(super) fn turn_away(mut stream: &TcpStream, reason: Unwelcome) {
    const PATIENCE: Duration = Duration::from_secs(2);
    if reason != Unwelcome::Clear {
        return;
    }
    let tell = |stream: &mut &TcpStream| -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&frame::encode(&Message::Failed { reason: CLEAR.to_owned() }))?;
        stream.shutdown(std::net::Shutdown::Write)?;
        // Its greeting is read first: closing with unread input would discard the reply.
        stream.read(&mut [0; 1_024]).map(drop)
    };
    // A client that does not read is not waited for.
    let _ = tell(&mut stream);
}

/// Fills the buffer until a moment; returns how far.
fn read_until(mut stream: &TcpStream, buffer: &mut [u8], until: Instant) -> usize {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() || stream.set_read_timeout(Some(rest)).is_err() {
            break;
        }
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    filled
}
