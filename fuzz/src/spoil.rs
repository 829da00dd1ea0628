//! What can happen to the bytes of a file: bits flip, ends are cut, something is appended or written over.

use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// One change; places are parts of the file's size, so that each of them means something in every file.
#[derive(Debug, Arbitrary)]
pub enum Spoil<'a> {
    /// A bit flips.
    Flip { at: u16, bit: u8 },
    /// The file ends here.
    Cut { at: u16 },
    /// Something follows.
    Append { bytes: &'a [u8] },
    /// Something else is there.
    Overwrite { at: u16, bytes: &'a [u8] },
    /// Something is in between.
    Insert { at: u16, bytes: &'a [u8] },
}

impl Spoil<'_> {
    /// Does it.
    pub fn apply(&self, file: &mut Vec<u8>) {
        let place = |at: u16| file.len() * usize::from(at) / (usize::from(u16::MAX) + 1);
        match self {
            Self::Flip { at, bit } => {
                let place = place(*at);
                if let Some(byte) = file.get_mut(place) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Self::Cut { at } => file.truncate(place(*at)),
            Self::Append { bytes } => file.extend_from_slice(bytes),
            Self::Overwrite { at, bytes } => {
                let place = place(*at);
                file.iter_mut().skip(place).zip(*bytes).for_each(|(byte, new)| *byte = *new);
            }
            Self::Insert { at, bytes } => {
                let place = place(*at);
                drop(file.splice(place..place, bytes.iter().copied()));
            }
        }
    }
}
