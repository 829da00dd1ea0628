//! Places of stream and number in a protocol's datagrams.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

/// Places of stream and number in a protocol's payloads, by which a lost datagram can be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// First four bytes, little-endian, under [`magic_mask`](Self::magic_mask).
    pub magic: u32,
    /// Mask of the bits of the first four bytes that identify the protocol; 0 accepts every datagram.
    pub magic_mask: u32,
    /// Stream; `None` where a socket carries only one.
    pub stream: Option<Field>,
    /// Incarnation of the publisher: numbers begin again with each; `None` where the protocol has none.
    pub incarnation: Option<Field>,
    /// Number of the datagram.
    pub number: Field,
    /// True if the most significant byte comes first.
    pub is_big_endian: bool,
}

/// Integer in a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Offset of its first byte.
    pub at: u16,
    /// Size in bytes: 1 to 8.
    pub bytes: u8,
}

/// Stream, incarnation and number of a payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Named {
    /// Stream, 0 where its protocol has none.
    pub stream: u64,
    /// Incarnation of its publisher, 0 where its protocol has none.
    pub incarnation: u64,
    /// Number of the datagram.
    pub number: u64,
}

impl Profile {
    /// Our own data, tallies and descriptors. Source: `docs/protocol/stream.md`, "The common header".
    pub const TALLYCAST: Self = Self {
        // Magic, version 1, and a kind of 1, 2 or 3: those have numbers.
        magic: 0x0001_4354,
        magic_mask: 0xfcff_ffff,
        stream: Some(Field::new(16, 8)),
        incarnation: Some(Field::new(32, 8)),
        number: Field::new(40, 8),
        is_big_endian: false,
    };

    /// RTP: the version in the first byte, a sequence number of 16 bits, the source (SSRC). Source: RFC 3550, section 5.1.
    pub const RTP: Self = Self {
        magic: 0x80,
        magic_mask: 0xc0,
        stream: Some(Field::new(8, 4)),
        incarnation: None,
        number: Field::new(2, 2),
        is_big_endian: true,
    };

    /// Returns the minimum length of a payload that has all fields, in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> u16 {
        let fields = [self.stream, self.incarnation, Some(self.number)];
        let end = |field: Field| field.at.saturating_add(field.bytes.into());
        fields.into_iter().flatten().map(end).fold(4, u16::max)
    }

    /// Returns the highest number that fits: after it numbers begin again.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.number.bytes.clamp(1, 8)))
    }

    /// Reads stream and number from a payload of this protocol; `None` for another protocol.
    #[must_use]
    pub fn read(&self, payload: &[u8]) -> Option<Named> {
        let magic = u32::from_le_bytes(*payload.first_chunk()?);
        if magic & self.magic_mask != self.magic {
            return None;
        }
        let optional = |field: Option<Field>| field.map_or(Some(0), |field| self.number(payload, field));
        Some(Named {
            stream: optional(self.stream)?,
            incarnation: optional(self.incarnation)?,
            number: self.number(payload, self.number)?,
        })
    }

    fn number(&self, payload: &[u8], field: Field) -> Option<u64> {
        let start = usize::from(field.at);
        let bytes = payload.get(start..start + usize::from(field.bytes))?;
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) })
    }
}

impl Field {
    const fn new(at: u16, bytes: u8) -> Self {
        Self { at, bytes }
    }

    fn parse(text: &str) -> Option<Self> {
        let (at, bytes) = text.split_once(':')?;
        let field = Self { at: at.parse().ok()?, bytes: bytes.parse().ok()? };
        ((1..=8).contains(&field.bytes) && field.at <= Self::MAX_AT).then_some(field)
    }

    /// Maximum offset of a field: it must be in the linear part of a packet, and no known protocol has its number
    /// further behind.
    const MAX_AT: u16 = 1_024;
}

/// Error: the text is not a profile.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "invalid profile `{0}`: write `tallycast`, `rtp`, or the place of the number, as offset and size in bytes: \
     `number=0:4`, `number=4:8,stream=0:4,order=big`"
)]
pub struct NoProfile(pub String);

impl FromStr for Profile {
    type Err = NoProfile;

    fn from_str(text: &str) -> Result<Self, NoProfile> {
        match text {
            "tallycast" => return Ok(Self::TALLYCAST),
            "rtp" => return Ok(Self::RTP),
            _ => {}
        }
        parse(text).ok_or_else(|| NoProfile(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Profile> {
    let (mut stream, mut incarnation, mut number, mut is_big_endian) = (None, None, None, false);
    let mut names = BTreeSet::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=')?;
        if !names.insert(name) {
            return None;
        }
        match (name, value) {
            ("number", _) => number = Some(Field::parse(value)?),
            ("stream", _) => stream = Some(Field::parse(value)?),
            ("life", _) => incarnation = Some(Field::parse(value)?),
            ("order", "big") => is_big_endian = true,
            ("order", "little") => is_big_endian = false,
            _ => return None,
        }
    }
    Some(Profile { magic: 0, magic_mask: 0, stream, incarnation, number: number?, is_big_endian })
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::TALLYCAST {
            return formatter.write_str("tallycast");
        }
        if *self == Self::RTP {
            return formatter.write_str("rtp");
        }
        write!(formatter, "number={}:{}", self.number.at, self.number.bytes)?;
        for (name, field) in [("stream", self.stream), ("life", self.incarnation)] {
            if let Some(field) = field {
                write!(formatter, ",{name}={}:{}", field.at, field.bytes)?;
            }
        }
        formatter.write_str(if self.is_big_endian { ",order=big" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rtp_packet_names_its_source_and_number() {
        let packet = [0x80, 0x60, 0x12, 0x34, 0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef, 1];
        assert_eq!(
            Profile::RTP.read(&packet),
            Some(Named { stream: 0xdead_beef, incarnation: 0, number: 0x1234 })
        );
        assert_eq!(Profile::RTP.read(&packet[..11]), None, "cut");
        assert_eq!(Profile::RTP.read(&[0x40; 12]), None, "version 1");
        assert_eq!(Profile::RTP.payload_bytes(), 12);
    }

    #[test]
    fn a_profile_of_ones_own_reads_either_order() {
        let payload = [1, 2, 3, 4, 5, 6, 7, 8];
        let named = |text: &str| text.parse::<Profile>().unwrap().read(&payload).unwrap();
        assert_eq!(named("number=0:4"), Named { stream: 0, incarnation: 0, number: 0x0403_0201 });
        assert_eq!(
            named("number=4:4,stream=0:2,order=big"),
            Named { stream: 0x0102, incarnation: 0, number: 0x0506_0708 }
        );
        assert_eq!(named("number=0:8,life=1:1").incarnation, 2);
    }

    #[test]
    fn what_is_no_profile_is_said() {
        for text in [
            "",
            "number",
            "number=0",
            "number=0:9",
            "number=0:0",
            "number=1025:1",
            "stream=0:4",
            "x=0:1",
            "order=up",
            "number=0:4,number=4:4",
        ] {
            assert_eq!(text.parse::<Profile>(), Err(NoProfile(text.to_owned())));
        }
    }

    #[test]
    fn a_profile_is_written_as_it_is_read() {
        for text in ["tallycast", "rtp", "number=0:4", "number=4:8,stream=0:4,life=2:1,order=big"] {
            assert_eq!(text.parse::<Profile>().unwrap().to_string(), text);
        }
    }
}
