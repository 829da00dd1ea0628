//! Messages over a reliable stream of bytes, plain or through one of the layers of Petri 2007's programs. Their size is
//! not transmitted unless the layer does: both ends know it from the control connection.
//!
//! A new carrier is a module with a [`Carrier`], and a variant of [`System`](crate::pingpong::System).

use std::cmp::Ordering;
use std::time::Duration;

use sys::clock;
use units::Instant;

use super::{
    Answerer, Answering, Attending, End, Exchanged, Far, LinkError, Near, POLL_INTERVAL, Task, since,
};
use crate::pingpong::options::Layer;

/// Size of a head: its kind, and the size of the message.
pub(super) const HEAD_BYTES: usize = 8;

/// A reliable stream of bytes in both directions.
pub(super) trait Carrier: Send {
    /// Sends some bytes; returns how many, or `None` if there was no room within [`POLL_INTERVAL`].
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError>;

    /// Receives some bytes; returns how many, 0 at the end of the stream, or `None` if none came within
    /// [`POLL_INTERVAL`]. Only the first [`HEAD_BYTES`] of them need be in `memory`: nothing reads the others.
    fn receive(&mut self, memory: &mut [u8]) -> Result<Option<usize>, LinkError>;

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the number of segments or packets that this end sent again since the connection began.
    fn retransmits(&self) -> Option<u64> {
        None
    }

    fn congestion_control(&self) -> Option<String> {
        None
    }
}

/// Either end of a connection, whose messages are read and written whole.
pub(super) struct StreamEnd {
    carrier: Box<dyn Carrier>,
    layer: Layer,
    patience: Duration,
    /// Room for a head and the largest message.
    memory: Vec<u8>,
}

/// Outcome of sending or receiving a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moved {
    Whole,
    /// Not one byte of it came in time.
    Nothing,
    /// This end was asked to end before the message was complete.
    Cut,
}

/// Limits for receiving a message.
struct Expected<'a> {
    /// Number of bytes, known once the first one is there.
    bytes: &'a dyn Fn() -> usize,
    /// Time by which it must have begun; without it, it may begin at any time.
    begins_by: Option<Instant>,
}

/// Kind of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Head {
    /// The message follows.
    Message,
    /// A message of this size is to be sent once it is granted.
    Announcement,
    /// The announced message may be sent.
    Grant,
}

impl Head {
    const fn bytes(self, message_bytes: u32) -> [u8; HEAD_BYTES] {
        let kind = match self {
            Self::Message => *b"data",
            Self::Announcement => *b"want",
            Self::Grant => *b"come",
        };
        let [a, b, c, d] = kind;
        let [e, f, g, h] = message_bytes.to_be_bytes();
        [a, b, c, d, e, f, g, h]
    }
}

impl StreamEnd {
    pub(super) fn over(carrier: Box<dyn Carrier>, task: &Task<'_>) -> Self {
        let memory = vec![0; HEAD_BYTES + task.options.largest_bytes() as usize];
        Self { carrier, layer: task.system.layer(), patience: task.patience, memory }
    }

    /// Sends a message as its layer does.
    fn send_message(
        &mut self,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Moved, LinkError> {
        match self.layer {
            Layer::None => self.send(message_bytes as usize, meanwhile),
            Layer::Framed => {
                self.write_head(Head::Message, message_bytes);
                self.send(HEAD_BYTES + message_bytes as usize, meanwhile)
            }
            Layer::Announced => {
                if self.send_head(Head::Announcement, message_bytes, meanwhile)? == Moved::Cut
                    || self.receive_rest(HEAD_BYTES, meanwhile)? == Moved::Cut
                {
                    return Ok(Moved::Cut);
                }
                self.check_head(Head::Grant, message_bytes)?;
                self.send(message_bytes as usize, meanwhile)
            }
        }
    }

    /// Receives a message as its layer does; its size is asked for once its first byte is there.
    fn receive_message(
        &mut self,
        message_bytes: &dyn Fn() -> u32,
        begins_by: Option<Instant>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Moved, LinkError> {
        let layer = self.layer;
        let bytes = || match layer {
            Layer::None => message_bytes() as usize,
            Layer::Framed => HEAD_BYTES + message_bytes() as usize,
            Layer::Announced => HEAD_BYTES,
        };
        let moved = self.receive(&Expected { bytes: &bytes, begins_by }, meanwhile)?;
        if moved != Moved::Whole {
            return Ok(moved);
        }
        let message_bytes = message_bytes();
        match self.layer {
            Layer::None => Ok(Moved::Whole),
            Layer::Framed => self.check_head(Head::Message, message_bytes).map(|()| Moved::Whole),
            Layer::Announced => {
                self.check_head(Head::Announcement, message_bytes)?;
                if self.send_head(Head::Grant, message_bytes, meanwhile)? == Moved::Cut {
                    return Ok(Moved::Cut);
                }
                self.receive_rest(message_bytes as usize, meanwhile)
            }
        }
    }

    fn write_head(&mut self, head: Head, message_bytes: u32) {
        self.memory[..HEAD_BYTES].copy_from_slice(&head.bytes(message_bytes));
    }

    fn send_head(
        &mut self,
        head: Head,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Moved, LinkError> {
        self.write_head(head, message_bytes);
        self.send(HEAD_BYTES, meanwhile)
    }

    fn check_head(&self, head: Head, message_bytes: u32) -> Result<(), LinkError> {
        let is_it = self.memory[..HEAD_BYTES] == head.bytes(message_bytes);
        if is_it { Ok(()) } else { Err(LinkError::NotAsAgreed) }
    }

    /// Sends the first bytes of the memory.
    fn send(&mut self, bytes: usize, meanwhile: &mut dyn Attending) -> Result<Moved, LinkError> {
        let (mut sent, mut moved) = (0, clock::monotonic());
        loop {
            match self.carrier.send(&self.memory[sent..bytes])? {
                Some(count) => {
                    sent += count;
                    moved = clock::monotonic();
                    if sent == bytes {
                        return Ok(Moved::Whole);
                    }
                }
                None if since(moved) > self.patience => return Err(LinkError::Stuck(self.patience)),
                None => {}
            }
            if !meanwhile.goes_on() {
                return Ok(Moved::Cut);
            }
        }
    }

    /// Receives bytes that the other end sends at once.
    fn receive_rest(&mut self, bytes: usize, meanwhile: &mut dyn Attending) -> Result<Moved, LinkError> {
        let begins_by = Some(clock::monotonic() + self.patience);
        match self.receive(&Expected { bytes: &|| bytes, begins_by }, meanwhile)? {
            Moved::Nothing => Err(LinkError::Stuck(self.patience)),
            moved => Ok(moved),
        }
    }

    /// Receives bytes into the memory. As only one message is in flight at a time, what comes beyond is an error.
    fn receive(
        &mut self,
        expected: &Expected<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Moved, LinkError> {
        let (mut received, mut moved) = (0, clock::monotonic());
        loop {
            match self.carrier.receive(&mut self.memory[received..])? {
                Some(0) => return Err(LinkError::Closed),
                Some(count) => {
                    received += count;
                    moved = clock::monotonic();
                    // A message is sent only after its size step has begun at both ends.
                    match received.cmp(&(expected.bytes)()) {
                        Ordering::Less => {}
                        Ordering::Equal => return Ok(Moved::Whole),
                        Ordering::Greater => return Err(LinkError::TooMuch),
                    }
                }
                None if received == 0 && expected.begins_by.is_some_and(|by| clock::monotonic() >= by) => {
                    return Ok(Moved::Nothing);
                }
                None if received > 0 && since(moved) > self.patience => {
                    return Err(LinkError::Stuck(self.patience));
                }
                None => {}
            }
            if !meanwhile.goes_on() {
                return Ok(Moved::Cut);
            }
        }
    }
}

impl End for StreamEnd {
    fn notes(&self) -> Vec<String> {
        self.carrier.notes()
    }
}

impl Near for StreamEnd {
    fn exchange(
        &mut self,
        _exchange: u64,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Exchanged, LinkError> {
        let began = clock::monotonic();
        if self.send_message(message_bytes, meanwhile)? == Moved::Cut {
            return Ok(Exchanged::Cut);
        }
        // Nothing is lost: an answer that does not begin within this time does not come.
        let begins_by = Some(clock::monotonic() + self.patience);
        match self.receive_message(&|| message_bytes, begins_by, meanwhile)? {
            Moved::Whole => Ok(Exchanged::Completed(since(began))),
            Moved::Nothing => Err(LinkError::Stuck(self.patience)),
            Moved::Cut => Ok(Exchanged::Cut),
        }
    }

    fn retransmits(&self) -> Option<u64> {
        self.carrier.retransmits()
    }

    fn congestion_control(&self) -> Option<String> {
        self.carrier.congestion_control()
    }
}

impl Far for StreamEnd {
    fn answer(&mut self, size_step: &dyn Answering) -> Result<(), LinkError> {
        let message_bytes = || size_step.message_bytes();
        let moved = self.receive_message(&message_bytes, None, &mut Answerer(size_step))?;
        if moved == Moved::Whole && size_step.came(None) {
            self.send_message(size_step.message_bytes(), &mut Answerer(size_step))?;
        }
        Ok(())
    }
}

/// A connection that the far end accepts, or does not accept.
pub(super) enum Called {
    OfRun(Box<dyn Carrier>),
    /// Of another program; it was closed.
    Stranger,
}

/// Accepts a connection; others are dropped. `None` if this end is asked to end. `next` waits for at most
/// [`POLL_INTERVAL`].
pub(super) fn accept(
    task: &Task<'_>,
    port: u16,
    meanwhile: &mut dyn Attending,
    next: &mut dyn FnMut() -> Result<Option<Called>, LinkError>,
) -> Result<Option<Box<dyn Far>>, LinkError> {
    let (patience, deadline) = (task.patience, clock::monotonic() + task.patience);
    loop {
        match next()? {
            Some(Called::OfRun(carrier)) => return Ok(Some(Box::new(StreamEnd::over(carrier, task)))),
            Some(Called::Stranger) => {}
            None if clock::monotonic() >= deadline => return Err(LinkError::Missing { patience, port }),
            None if !meanwhile.goes_on() => return Ok(None),
            None => {}
        }
    }
}

/// Returns when an end that waits for its peer looks up at the latest.
pub(super) fn next_look() -> Instant {
    clock::monotonic() + POLL_INTERVAL
}
