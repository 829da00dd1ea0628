//! Messages that a peer must ignore: what is not of the protocol, and what the other end says.

use units::Random;

/// Size of a message's head.
const HEAD_BYTES: usize = 16;
/// Place of the epoch in the datagram of a data message.
const EPOCH: usize = HEAD_BYTES + 24;
/// Kinds of messages.
const DATA: u8 = 4;
const HORIZON: u8 = 5;
const TOTALS: u8 = 6;
const WANT: u8 = 7;

/// A peer that puts such messages between its own.
#[derive(Debug)]
pub(crate) struct Hostile {
    random: Random,
    probability: f64,
    /// Number of messages that were ignored, of which the end has not told yet.
    untold: u64,
}

impl Hostile {
    pub(crate) fn new(seed: u64, probability: f64) -> Self {
        Self { random: Random::for_purpose(seed, "hostile"), probability, untold: 0 }
    }

    /// Counts messages that were ignored.
    pub(crate) const fn ignored(&mut self, count: u64) {
        self.untold += count;
    }

    /// Returns whether an end tells of such a message.
    pub(crate) const fn is_told(&mut self) -> bool {
        let is_known = self.untold > 0;
        self.untold = self.untold.saturating_sub(1);
        is_known
    }

    /// Returns a message for a near end before one of its peer.
    pub(crate) fn for_near(&mut self, genuine: &[u8]) -> Option<Vec<u8>> {
        let choice = self.choose(6)?;
        Some(match choice {
            0 => message(genuine, DATA, b"no far end sends data"),
            1 => message(genuine, WANT, &[0; 9]),
            2 => message(genuine, WANT, &[255; 9]),
            3 => message(
                genuine,
                TOTALS,
                &[u64::MAX / 2, u64::MAX / 2, 0, 0, 0].map(u64::to_le_bytes).concat(),
            ),
            4 => message(genuine, TOTALS, &[0x7f; 40]),
            _ => self.broken(genuine),
        })
    }

    /// Returns a message for a far end before one of its peer.
    pub(crate) fn for_far(&mut self, genuine: &[u8], sent_us: u32) -> Option<Vec<u8>> {
        let choice = self.choose(6)?;
        Some(match choice {
            0 => message(genuine, TOTALS, &[0; 40]),
            1 => message(genuine, WANT, &[1; 9]),
            2 => message(genuine, DATA, b"no datagram"),
            3 => {
                // It would be born a second behind its departure.
                let mut bytes = message(genuine, HORIZON, &[0; 16]);
                bytes[4..8].copy_from_slice(&sent_us.wrapping_add(1_000_000).to_le_bytes());
                bytes
            }
            4 if genuine[0] == DATA => {
                // The datagram of another epoch.
                let mut bytes = genuine.to_vec();
                bytes[EPOCH] ^= 0x55;
                bytes
            }
            _ => self.broken(genuine),
        })
    }

    fn choose(&mut self, choices: u64) -> Option<u64> {
        self.random.chance(self.probability).then(|| self.random.below(choices))
    }

    /// Returns a message that cannot be read.
    fn broken(&mut self, genuine: &[u8]) -> Vec<u8> {
        if self.random.chance(0.5) {
            return genuine[..HEAD_BYTES - 1].to_vec();
        }
        let mut bytes = genuine.to_vec();
        bytes[0] = 200;
        bytes
    }
}

/// Returns a message of another kind for the stream of a genuine one.
fn message(genuine: &[u8], kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &genuine[1..HEAD_BYTES], content].concat()
}
