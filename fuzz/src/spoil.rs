//! Changes to the bytes of a file: flipped bits, truncation, appended or overwritten bytes.

use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// One change; positions are fractions of the file's size, so that each of them is valid in every file.
#[derive(Debug, Arbitrary)]
pub enum Spoil<'a> {
    /// Flips a bit.
    Flip { at: u16, bit: u8 },
    /// Truncates the file.
    Cut { at: u16 },
    /// Appends bytes.
    Append { bytes: &'a [u8] },
    /// Overwrites bytes.
    Overwrite { at: u16, bytes: &'a [u8] },
    /// Inserts bytes.
    Insert { at: u16, bytes: &'a [u8] },
}

impl Spoil<'_> {
    /// Applies the change.
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
