//! Input buffer of a control connection: takes bytes in pieces of any size, returns whole messages.
//!
//! Bounded: a peer that announces more than [`MOST_JSON_BYTES`] is refused before memory is reserved for it,
//! and one that sends unrequested data is refused at [`MOST_WAITING_BYTES`].

use super::error::ProtocolError;

/// Maximum length of a JSON text: 128 streams in both directions are 60 kB, and may include a server's whole
/// output.
pub(super) const MOST_JSON_BYTES: usize = 1 << 20;

/// Maximum number of unread bytes: one text with its length, and the states around it.
const MOST_WAITING_BYTES: usize = MOST_JSON_BYTES + 64;

/// Bytes that were not parsed yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        if self.bytes.len() + bytes.len() > MOST_WAITING_BYTES {
            return Err(ProtocolError::TooMuch);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the next byte, if it is there.
    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes the next bytes once all of them are there.
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.bytes.first_chunk::<N>()?;
        self.bytes.drain(..N);
        Some(array)
    }

    /// Takes a text with its length before it, once all of it is there.
    pub(super) fn text(&mut self) -> Result<Option<Vec<u8>>, ProtocolError> {
        let Some(prefix) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let announced = u32::from_be_bytes(*prefix);
        let len = usize::try_from(announced).unwrap_or(usize::MAX);
        if len > MOST_JSON_BYTES {
            return Err(ProtocolError::TooLong { announced });
        }
        if self.bytes.len() < 4 + len {
            return Ok(None);
        }
        let text = self.bytes[4..4 + len].to_vec();
        self.bytes.drain(..4 + len);
        Ok(Some(text))
    }
}

/// Returns a text with its length before it.
pub(super) fn framed(text: &[u8]) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("what we say is short");
    [&len.to_be_bytes()[..], text].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_sides_of_the_limit() {
        for (announced, taken) in [(MOST_JSON_BYTES, true), (MOST_JSON_BYTES + 1, false)] {
            let mut inbox = Inbox::default();
            inbox.push(&u32::try_from(announced).unwrap().to_be_bytes()).unwrap();
            assert_eq!(inbox.text().is_ok(), taken, "{announced}");
        }
        let mut inbox = Inbox::default();
        assert!(inbox.push(&vec![0; MOST_WAITING_BYTES]).is_ok());
        assert!(matches!(inbox.push(&[0]), Err(ProtocolError::TooMuch)));
    }

    proptest! {
        #[test]
        fn a_text_comes_out_whole_however_it_is_cut(text in prop::collection::vec(any::<u8>(), 0..300), cut in 1..50_usize) {
            let mut inbox = Inbox::default();
            let mut found = Vec::new();
            for piece in [framed(&text), vec![7]].concat().chunks(cut) {
                inbox.push(piece).unwrap();
                if found.is_empty() {
                    found.extend(inbox.text().unwrap());
                }
            }
            prop_assert_eq!(found, [text]);
            prop_assert_eq!(inbox.byte(), Some(7));
            prop_assert_eq!(inbox.byte(), None);
        }
    }
}
