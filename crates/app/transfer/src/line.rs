//! Connection as both ends use it: frames in, frames out, and a check of the stop request while waiting.

use std::io::{Error, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::frame::{self, Frame, FromReceiver, HEADER_BYTES};
use crate::patience::Pulse;

/// Connection with a stop request.
pub(crate) struct Line<'a, C> {
    pub(crate) connection: &'a C,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    pub(crate) pulse: &'a Pulse<'a>,
}

impl<C> Clone for Line<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Line<'_, C> {}

impl<C> Line<'_, C>
where
    for<'c> &'c C: Read + Write,
{
    pub(crate) fn say(&self, word: &impl Serialize) -> Result<(), Failure> {
        self.write_all(&frame::word_frame(word))
    }

    /// Tells the other end of a failure, unless it reported one or is gone.
    pub(crate) fn refuse(&self, failure: &Failure) {
        if !matches!(failure, Failure::Connection(_) | Failure::Peer(_)) {
            // If it can no longer be sent, the other end sees the end of the connection.
            drop(self.say(&FromReceiver::Fail { reason: failure.to_string() }));
        }
    }

    pub(crate) fn write_all(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let mut connection = self.connection;
            match connection.write(bytes) {
                Ok(0) => return Err(Failure::Connection(ErrorKind::WriteZero.into())),
                Ok(count) => bytes = &bytes[count..],
                Err(error) => self.look_again(error)?,
            }
        }
        Ok(())
    }

    /// Waits for the next frame; the content behind its header is left in `body`.
    pub(crate) fn hear<W: DeserializeOwned>(&self, body: &mut Vec<u8>) -> Result<Frame<W>, Failure> {
        let mut header = [0; HEADER_BYTES];
        self.read_exact(&mut header)?;
        body.resize(frame::length(header)?, 0);
        self.read_exact(body)?;
        frame::read(header[0], body)
    }

    /// Waits for a message where no data may come.
    pub(crate) fn hear_word<W: DeserializeOwned>(&self, body: &mut Vec<u8>) -> Result<W, Failure> {
        match self.hear(body)? {
            Frame::Word(word) => Ok(word),
            Frame::Data => Err(Failure::protocol("data instead of a message")),
        }
    }

    fn read_exact(&self, mut out: &mut [u8]) -> Result<(), Failure> {
        while !out.is_empty() {
            // Checked each time: a peer that sends without pause must not keep this end from stopping.
            if (self.stop)() {
                return Err(Failure::Stopped);
            }
            let mut connection = self.connection;
            match connection.read(out) {
                Ok(0) => {
                    let ended = Error::new(ErrorKind::UnexpectedEof, "the peer closed the connection");
                    return Err(Failure::Connection(ended));
                }
                Ok(count) => {
                    self.pulse.beat();
                    out = &mut out[count..];
                }
                Err(error) => self.look_again(error)?,
            }
        }
        Ok(())
    }

    /// Ignores a timeout, which is no failure but an occasion to check the stop request.
    fn look_again(&self, error: Error) -> Result<(), Failure> {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted if (self.stop)() => {
                Err(Failure::Stopped)
            }
            ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted => match self.pulse.over() {
                Some(patience) => {
                    let text = format!("no progress for {patience:?}");
                    Err(Failure::Connection(Error::new(ErrorKind::TimedOut, text)))
                }
                None => Ok(()),
            },
            _ => Err(Failure::Connection(error)),
        }
    }
}
