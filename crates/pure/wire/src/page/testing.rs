//! Checks that frames of every kind pass: golden files, truncation, wrong bytes.

use core::fmt::Debug;

use units::{Random, WallTime};

use super::{PageFrameError, PictureFrame, ValuesFrame, ViewFrame, WaterfallFrame};

/// 2026-11-21T12:00:00Z.
pub(super) const NOON: WallTime = WallTime::from_nanos(1_795_262_400_000_000_000);

/// A kind of frame.
pub(super) trait Coded: Sized + PartialEq + Debug {
    fn encoded(&self) -> Vec<u8>;
    fn decoded(bytes: &[u8]) -> Result<Self, PageFrameError>;
}

macro_rules! coded {
    ($($frame:ty),+) => {
        $(impl Coded for $frame {
            fn encoded(&self) -> Vec<u8> {
                let mut bytes = Vec::new();
                self.encode(&mut bytes).unwrap();
                bytes
            }

            fn decoded(bytes: &[u8]) -> Result<Self, PageFrameError> {
                Self::decode(bytes)
            }
        })+
    };
}

coded!(ViewFrame, PictureFrame, ValuesFrame, WaterfallFrame);

/// Returns the bytes of a golden file.
fn bytes(hex: &str) -> Vec<u8> {
    let text = hex.lines().filter(|line| !line.starts_with('#'));
    text.flat_map(str::split_whitespace).map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Compares frames with their golden files, in both directions.
pub(super) fn assert_golden<T: Coded>(all: &[(T, &str)]) {
    for (frame, golden) in all {
        let golden = bytes(golden);
        assert_eq!(frame.encoded(), golden, "wrote {:02x?}", frame.encoded());
        // A NaN is not equal to itself: frames are compared as bytes.
        assert_eq!(T::decoded(&golden).unwrap().encoded(), golden);
    }
}

/// Cuts frames at every length, and appends a byte.
pub(super) fn assert_cut_is_refused<T: Coded>(frames: &[T]) {
    for frame in frames {
        let whole = frame.encoded();
        for len in 0..whole.len() {
            let error = T::decoded(&whole[..len]).unwrap_err();
            assert!(matches!(error, PageFrameError::TooShort { .. }), "{len}: {error}");
        }
        assert_eq!(T::decoded(&[whole, vec![0]].concat()), Err(PageFrameError::TooLong(1)));
    }
}

/// Changes up to three bytes of a frame at a time.
pub(super) fn assert_any_byte_may_be_wrong<T: Coded>(frames: &[T]) {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let mut bytes = frames[random.below(frames.len() as u64) as usize].encoded();
        for _ in 0..1 + random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.next_u64() as u8;
        }
        if let Ok(frame) = T::decoded(&bytes) {
            assert_eq!(frame.encoded().len(), bytes.len());
        }
    }
}
