//! The places where a datagram or an element can be lost, in the order of the path.

use core::fmt;
use core::ops::{Index, IndexMut};
use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal $name:literal,)*) => {
        /// A place where a datagram or an element can be lost, in the order of the path.
        ///
        /// Source: `docs/protocol/account.md`. The names are the same in JSON, metrics, page and
        /// archive; the codes are those of the wire.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Stage {
            $($(#[doc = $doc])+ $variant = $code,)*
        }

        impl Stage {
            /// All stages, in the order of the path.
            pub const ALL: [Self; COUNT] = [$(Self::$variant),*];

            /// Returns the stage's name, the same in all outputs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        const COUNT: usize = [$($code),*].len();
    };
}

stages! {
    /// The device or the recording itself has a hole.
    Source = 0 "source",
    /// The ring lapped the sender.
    PublisherQueue = 1 "publisher_queue",
    /// Not sent on purpose: no remote reader was heard, or a secured stream had no secret to send with.
    PublisherPaused = 2 "publisher_paused",
    /// Injected loss.
    Injected = 3 "injected",
    /// The sender's socket refused the datagram.
    SenderSocket = 4 "sender_socket",
    /// Firewall, route or neighbour at the sender.
    SenderIp = 5 "sender_ip",
    /// The sender's queue discipline dropped it.
    SenderQdisc = 6 "sender_qdisc",
    /// The sender's network card.
    SenderNic = 7 "sender_nic",
    /// Between the two hosts.
    Network = 8 "network",
    /// The receiver's network card.
    ReceiverNic = 9 "receiver_nic",
    /// XDP, TC or nft at the receiver.
    ReceiverHook = 10 "receiver_hook",
    /// Softirq or the CPU backlog.
    ReceiverBacklog = 11 "receiver_backlog",
    /// IP header, rp_filter, or the group not joined.
    ReceiverIp = 12 "receiver_ip",
    /// IP reassembly.
    ReceiverReassembly = 13 "receiver_reassembly",
    /// A wrong UDP checksum.
    ReceiverChecksum = 14 "receiver_checksum",
    /// No socket was bound.
    ReceiverNoSocket = 15 "receiver_no_socket",
    /// A socket filter.
    ReceiverSocketFilter = 16 "receiver_socket_filter",
    /// The socket's receive buffer was full.
    ReceiverSocketBuffer = 17 "receiver_socket_buffer",
    /// The host's UDP memory was used up.
    ReceiverUdpMemory = 18 "receiver_udp_memory",
    /// Arrived but could not be read.
    Decode = 19 "decode",
    /// Arrived after its gap was declared.
    Late = 20 "late",
    /// The ring lapped the reader.
    ReaderLag = 21 "reader_lag",
    /// Given up on purpose by the reliable reach.
    Deadline = 22 "deadline",
    /// A frame for the browser was given up.
    Browser = 23 "browser",
    /// A segment of the archive could not be written.
    ArchiveWrite = 24 "archive_write",
}

impl Stage {
    /// Returns whether the receiving socket's own drop counter counts losses of this stage.
    #[must_use]
    pub const fn is_counted_by_socket(self) -> bool {
        matches!(self, Self::ReceiverSocketFilter | Self::ReceiverSocketBuffer | Self::ReceiverUdpMemory)
    }

    /// Returns the stage's code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the stage with this code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A text that names no stage.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown stage `{0}` of the account")]
pub struct UnknownStage(pub String);

impl FromStr for Stage {
    type Err = UnknownStage;

    fn from_str(name: &str) -> Result<Self, UnknownStage> {
        let found = Self::ALL.into_iter().find(|stage| stage.name() == name);
        found.ok_or_else(|| UnknownStage(name.to_owned()))
    }
}

units::serde_as_text!(Stage);

/// A count for every stage.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct StageCounts([u64; COUNT]);

impl StageCounts {
    /// Number of stages.
    pub const LEN: usize = COUNT;

    /// Returns the place of a stage's count.
    pub(crate) const fn place(&mut self, stage: Stage) -> &mut u64 {
        &mut self.0[stage.code() as usize]
    }

    /// Returns the sum over all stages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the stages with a count, in the order of the path.
    pub fn nonzero(&self) -> impl Iterator<Item = (Stage, u64)> + '_ {
        Stage::ALL.into_iter().map(|stage| (stage, self[stage])).filter(|(_, count)| *count > 0)
    }

    /// Adds another set of counts, stage by stage.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Subtracts another set of counts, stage by stage.
    ///
    /// # Panics
    /// If a stage holds less than is subtracted, which is a defect of this program.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.checked_sub(theirs).expect("only what was counted is taken away");
        }
    }

    /// Returns the counts of exactly one stage.
    #[must_use]
    pub fn of(stage: Stage, count: u64) -> Self {
        let mut counts = Self::default();
        counts[stage] = count;
        counts
    }
}

impl Index<Stage> for StageCounts {
    type Output = u64;

    fn index(&self, stage: Stage) -> &u64 {
        &self.0[usize::from(stage.code())]
    }
}

impl IndexMut<Stage> for StageCounts {
    fn index_mut(&mut self, stage: Stage) -> &mut u64 {
        &mut self.0[usize::from(stage.code())]
    }
}

/// An object of the stages with a count.
impl Serialize for StageCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.nonzero())
    }
}

/// Stages that only another version knows are left out.
impl<'de> Deserialize<'de> for StageCounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by_name = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut counts = Self::default();
        for (name, count) in by_name {
            if let Ok(stage) = name.parse::<Stage>() {
                counts[stage] = count;
            }
        }
        Ok(counts)
    }
}

impl fmt::Debug for StageCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.nonzero().map(|(stage, count)| (stage.name(), count))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::value::MapDeserializer;

    #[test]
    fn codes_and_names_lead_back_to_their_stage() {
        for (code, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(stage.code()), code);
            assert_eq!(Stage::from_code(stage.code()), Some(stage));
            assert_eq!(stage.name().parse(), Ok(stage));
        }
        assert_eq!(Stage::from_code(25), None);
        assert!("unexplained".parse::<Stage>().is_err(), "unexplained is not a stage but the rest");
    }

    #[test]
    fn counts_of_stages_that_only_another_version_knows_are_left_out() {
        let told = [("network", 3_u64), ("of_another_version", 9), ("late", 1)];
        let told = MapDeserializer::<_, serde::de::value::Error>::new(told.into_iter());
        let mut expected = StageCounts::of(Stage::Network, 3);
        expected[Stage::Late] = 1;
        assert_eq!(StageCounts::deserialize(told), Ok(expected));
    }
}
