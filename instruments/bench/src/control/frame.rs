//! Messages cut out of a stream of bytes: a length of four bytes, big endian, then as many bytes of JSON.
//!
//! A frame is bounded before it is trusted: a length beyond [`LONGEST`] ends the connection, so that no more
//! than that and one read is ever held of a peer's data. `fuzz/` has a target for it.

use super::message::Message;

/// Maximum length of a message. Units: bytes. A report of a hundred streams has a tenth of it.
pub const LONGEST: usize = 1 << 20;
const LENGTH_BYTES: usize = 4;

/// Reasons why input is not a message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is out of range.
    #[error("it announced a message of {0} bytes, more than {LONGEST}")]
    TooLong(u64),
    /// The text is not a message.
    #[error("it sent an invalid message: {0}")]
    NoMessage(String),
}

/// Received bytes that are not a whole message yet.
#[derive(Clone, Default, Debug)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole message, if there is one. After an error no further message can be recognised.
    ///
    /// # Errors
    /// [`FrameError`], within it, if the input is not a message.
    #[expect(clippy::should_implement_trait, reason = "what has ended now may go on with what comes in")]
    pub fn next(&mut self) -> Option<Result<Message, FrameError>> {
        let length = u32::from_be_bytes(*self.bytes.first_chunk::<LENGTH_BYTES>()?) as usize;
        if length > LONGEST {
            return Some(Err(FrameError::TooLong(length as u64)));
        }
        let end = LENGTH_BYTES + length;
        let text = self.bytes.get(LENGTH_BYTES..end)?;
        let message = serde_json::from_slice(text).map_err(|error| FrameError::NoMessage(error.to_string()));
        self.bytes.drain(..end);
        Some(message)
    }

    /// Returns whether a message has begun and not ended.
    #[must_use]
    pub const fn is_waiting_for_more(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Returns the number of bytes held.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes a message as a frame.
///
/// # Panics
/// If it is longer than 4 GiB, which no message is.
#[must_use]
pub fn encode(message: &Message) -> Vec<u8> {
    let text = serde_json::to_vec(message).expect("messages are plain data");
    let length = u32::try_from(text.len()).expect("a message is far shorter than 4 GiB");
    [&length.to_be_bytes()[..], &text].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    fn word(text: &str) -> Message {
        Message::Word(text.into())
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let messages = [word("a"), Message::Bye, word(&"long ".repeat(1_000))];
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        for step in [1, 3, 7, 1_000, bytes.len()] {
            let (mut frames, mut out) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(step) {
                frames.push(piece);
                out.extend(std::iter::from_fn(|| frames.next()).map(Result::unwrap));
            }
            assert_eq!(out, messages, "in steps of {step}");
            assert!(!frames.is_waiting_for_more());
        }
    }

    #[test]
    fn the_longest_message_is_waited_for_and_one_longer_is_refused() {
        let mut frames = Frames::default();
        frames.push(&u32::try_from(LONGEST).unwrap().to_be_bytes());
        assert_eq!(frames.next(), None);
        assert!(frames.is_waiting_for_more());
        let mut frames = Frames::default();
        frames.push(&u32::try_from(LONGEST + 1).unwrap().to_be_bytes());
        assert_eq!(frames.next(), Some(Err(FrameError::TooLong(LONGEST as u64 + 1))));
    }

    #[test]
    fn noise_is_refused_and_never_grows_beyond_its_bound() {
        let mut random = Random::new(5);
        for _ in 0..2_000 {
            let mut frames = Frames::default();
            let len = random.below(200);
            let bytes: Vec<u8> = (0..len).map(|_| random.next_u64().to_be_bytes()[0]).collect();
            frames.push(&bytes);
            while let Some(Ok(_)) = frames.next() {}
            assert!(frames.bytes.len() <= bytes.len());
        }
    }
}
