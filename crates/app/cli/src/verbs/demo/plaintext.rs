//! Samples of a recorded signal as they would be seen on the network without encryption.

use std::collections::HashSet;
use std::num::NonZeroU64;

use source::{Piece, Source};

/// Bytes in a row by which samples are recognised: what encryption makes by chance once in 2^128 times.
const WINDOW_BYTES: usize = 16;
/// Samples that are read at once.
const AT_ONCE: NonZeroU64 = NonZeroU64::new(4_096).expect("not zero");
/// Different bytes that a window has at least: zeros, and other even runs, are in every header.
const MIN_DIFFERENT: usize = 6;

/// Runs of samples, and words, that no outsider may see.
pub(super) struct Plaintext {
    windows: HashSet<[u8; WINDOW_BYTES]>,
    words: Vec<Vec<u8>>,
}

impl Plaintext {
    /// Learns all samples of recorded signals, and the names of their streams.
    pub(super) fn of(signals: impl IntoIterator<Item = &'static str>) -> anyhow::Result<Self> {
        let mut plaintext = Self { windows: HashSet::new(), words: Vec::new() };
        for signal in signals {
            plaintext.learn(source::signals::open(signal)?)?;
        }
        Ok(plaintext)
    }

    fn learn(&mut self, mut source: Box<dyn Source>) -> anyhow::Result<()> {
        let sample_bytes = source.description().schema.sample_bytes();
        self.words.push(source.description().name.as_str().as_bytes().to_vec());
        let mut samples = Vec::new();
        loop {
            match source.next(AT_ONCE)? {
                Piece::Samples(bytes) | Piece::Timed { samples: bytes, .. } => {
                    samples.extend_from_slice(bytes);
                }
                Piece::Hole { .. } => {}
                Piece::End => break,
            }
        }
        self.windows.extend(windows(&samples, sample_bytes));
        Ok(())
    }

    /// Returns whether a datagram shows any of it.
    pub(super) fn is_in(&self, datagram: &[u8]) -> bool {
        let shows_samples = datagram.windows(WINDOW_BYTES).any(|window| self.windows.contains(window));
        let shows = |word: &Vec<u8>| datagram.windows(word.len()).any(|window| window == word);
        shows_samples || self.words.iter().any(shows)
    }
}

fn windows(samples: &[u8], sample_bytes: usize) -> HashSet<[u8; WINDOW_BYTES]> {
    let starts = (0..samples.len().saturating_sub(WINDOW_BYTES - 1)).step_by(sample_bytes.max(1));
    let windows = starts.map(|at| samples[at..at + WINDOW_BYTES].try_into().expect("of this length"));
    windows.filter(|window: &[u8; WINDOW_BYTES]| different(window) >= MIN_DIFFERENT).collect()
}

fn different(window: &[u8; WINDOW_BYTES]) -> usize {
    window.iter().collect::<HashSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_and_names_are_found_in_clear_datagrams_and_not_in_others() {
        let plaintext = Plaintext::of(["ecg", "chime"]).unwrap();
        let mut signal = source::signals::open("ecg").unwrap();
        let mut datagram = vec![0; 64];
        let Piece::Samples(samples) = signal.next(NonZeroU64::new(64).unwrap()).unwrap() else {
            panic!("the recording begins with samples");
        };
        datagram.extend_from_slice(samples);
        assert!(plaintext.is_in(&datagram));
        // As many samples as a datagram of the chime holds, from any place.
        let mut chime = source::signals::open("chime").unwrap();
        while let Piece::Samples(samples) = chime.next(NonZeroU64::new(4_410).unwrap()).unwrap() {
            assert!(plaintext.is_in(&samples[samples.len() / 2..][..400]));
        }
        assert!(plaintext.is_in(b"a description of signal/ecg in clear"));
        let encrypted: Vec<u8> =
            datagram.iter().enumerate().map(|(at, byte)| byte ^ (at * 37 % 251) as u8).collect();
        assert!(!plaintext.is_in(&encrypted) && !plaintext.is_in(&[0; 1_400]) && !plaintext.is_in(&[]));
    }
}
