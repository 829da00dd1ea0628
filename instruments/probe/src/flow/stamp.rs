//! Stamp of a test datagram: its number and its send time.
//!
//! ```text
//!  0      4      8      12         20         28
//!  ├ magic┼ run  ┼ flow ┼ number   ┼ sent     ┤ filler …
//! ```
//!
//! Big endian. `sent` is in nanoseconds of the sender's own clock: only differences are meaningful to others.

use units::Instant;

/// Length of a stamp; shorter datagrams can only be counted.
pub const STAMP_BYTES: usize = 28;

/// First word of every stamped datagram, which tells it from foreign traffic.
const MAGIC: u32 = 0x7461_6c79;

/// Header of a test datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Run of the bench, so that a straggler of the previous run is not counted.
    pub run: u32,
    /// Flow of the run.
    pub flow: u32,
    /// Datagram of the flow, from 0.
    pub number: u64,
    /// Send time on the sender's clock.
    pub sent: Instant,
}

impl Stamp {
    /// Writes the stamp at the beginning of a datagram; leaves a datagram too short for it unchanged.
    pub fn write(&self, datagram: &mut [u8]) {
        let Some(place) = datagram.first_chunk_mut::<STAMP_BYTES>() else { return };
        place[..4].copy_from_slice(&MAGIC.to_be_bytes());
        place[4..8].copy_from_slice(&self.run.to_be_bytes());
        place[8..12].copy_from_slice(&self.flow.to_be_bytes());
        place[12..20].copy_from_slice(&self.number.to_be_bytes());
        place[20..].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
    }

    /// Reads the stamp of a datagram; `None` if it has none.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let place = datagram.first_chunk::<STAMP_BYTES>()?;
        (word(place, 0) == MAGIC).then(|| Self {
            run: word(place, 4),
            flow: word(place, 8),
            number: long(place, 12),
            sent: Instant::from_nanos(long(place, 20)),
        })
    }
}

fn word(place: &[u8; STAMP_BYTES], at: usize) -> u32 {
    u32::from_be_bytes(*place[at..].first_chunk().expect("a word lies inside the stamp"))
}

fn long(place: &[u8; STAMP_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(*place[at..].first_chunk().expect("a number lies inside the stamp"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { run: 1, flow: 2, number: 3, sent: Instant::from_nanos(4) };

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let mut datagram = [0xaa; STAMP_BYTES + 1];
        STAMP.write(&mut datagram);
        let golden =
            [b't', b'a', b'l', b'y', 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4];
        assert_eq!((&datagram[..STAMP_BYTES], datagram[STAMP_BYTES]), (&golden[..], 0xaa));
    }

    #[test]
    fn what_is_too_short_or_of_another_kind_has_no_stamp() {
        let mut datagram = [0; STAMP_BYTES];
        STAMP.write(&mut datagram);
        for len in 0..STAMP_BYTES {
            assert_eq!(Stamp::read(&datagram[..len]), None);
        }
        datagram[3] ^= 1;
        assert_eq!(Stamp::read(&datagram), None);
        let mut short = [7; STAMP_BYTES - 1];
        STAMP.write(&mut short);
        assert_eq!(short, [7; STAMP_BYTES - 1]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (run, flow, number, nanos) in (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()),
            len in STAMP_BYTES..100,
        ) {
            let stamp = Stamp { run, flow, number, sent: Instant::from_nanos(nanos) };
            let mut datagram = vec![0; len];
            stamp.write(&mut datagram);
            prop_assert_eq!(Stamp::read(&datagram), Some(stamp));
        }
    }
}
