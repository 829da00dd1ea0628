//! Control packets.

use super::{HEADER_BYTES, Handshake, LossList, Malformed, MessageNumber, Sequence, SocketId, word};

/// What the two ends tell each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<'a> {
    /// Always 0 from libudt. Of our acknowledgements: for how long the newest packet that is acknowledged had lain there, plus
    /// one; 0 if that is not known. Units: microseconds.
    pub timestamp_us: u32,
    /// The socket it is for.
    pub destination: SocketId,
    /// What it says.
    pub body: Body<'a>,
}

/// What a control packet says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// How two ends find together.
    Handshake(Handshake),
    /// I am still here.
    KeepAlive,
    /// What arrived.
    Ack(Ack),
    /// What did not arrive.
    Nak(LossList<'a>),
    /// The same in words of one's own, to be written; it is never read.
    NakWords(&'a [u32]),
    /// The way delays more and more; nobody sends it any more.
    CongestionWarning,
    /// The connection ends.
    Shutdown,
    /// An acknowledgement arrived.
    AckOfAck {
        /// Its number.
        number: u32,
    },
    /// Packets of a message will not be sent again.
    DropMessage {
        /// The message.
        message: MessageNumber,
        /// The first of its packets that is given up.
        first: Sequence,
        /// The last; libudt names one too many, which belongs to the next message.
        last: Sequence,
    },
    /// The other end's application failed.
    PeerError {
        /// Why; libudt knows only 4000, a file that could not be written.
        code: u32,
    },
    /// What the congestion controls of the two ends tell each other.
    Custom {
        /// The extended type, free for them.
        kind: u16,
        /// What they say.
        words: Words<'a>,
    },
    /// Of a type that is not known here: all that it says is that the peer is there.
    Unknown {
        /// The type.
        kind: u16,
    },
    /// The same as [`Custom`](Self::Custom) in words of one's own, to be written; it is never read.
    CustomWords {
        /// The extended type.
        kind: u16,
        /// What is said.
        words: &'a [u32],
    },
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Its own number, which [`Body::AckOfAck`] repeats; 0 in a light one, which is not answered.
    pub number: u32,
    /// Every packet before this one has arrived.
    pub next: Sequence,
    /// What else is told; nothing in a light one.
    pub progress: Option<Progress>,
    /// In a light one: behind which packet nothing has arrived, where packets before it are missing. libudt says 0 there,
    /// and reads nothing.
    pub seen: Option<Sequence>,
}

/// What an acknowledgement tells beyond a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The receiver's smoothed round-trip time. Units: microseconds.
    pub round_trip_us: u32,
    /// Its smoothed variation. Units: microseconds.
    pub variation_us: u32,
    /// Free packets of the receiver's buffer.
    pub window_packets: u32,
    /// Packets per second: how fast they arrive (0 if that is not known), and what the way seems to carry.
    pub rates: Option<(u32, u32)>,
}

/// The words of a body that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words<'a>(&'a [u8]);

const KEEP_ALIVE: u16 = 1;
const ACK: u16 = 2;
const NAK: u16 = 3;
const CONGESTION_WARNING: u16 = 4;
const SHUTDOWN: u16 = 5;
const ACK_OF_ACK: u16 = 6;
const DROP_MESSAGE: u16 = 7;
const PEER_ERROR: u16 = 8;
const CUSTOM: u16 = 0x7fff;

/// Tells a packet number in the additional information of a light acknowledgement from libudt's 0.
const SEEN: u32 = 1 << 31;

impl<'a> Control<'a> {
    pub(super) fn read(header: &[u8; HEADER_BYTES], body: &'a [u8]) -> Result<Self, Malformed> {
        let [kind, extended] = [word(header, 0) >> 16 & 0x7fff, word(header, 0) & 0xffff]
            .map(|half| u16::try_from(half).unwrap_or(u16::MAX));
        let info = word(header, 1);
        let words = Words::of(body);
        let need = |bytes| if body.len() < bytes { Err(Malformed::TooShort(body.len())) } else { Ok(()) };
        let body = match kind {
            0 => Body::Handshake(Handshake::read(body)?),
            KEEP_ALIVE => Body::KeepAlive,
            ACK => {
                need(4)?;
                Body::Ack(Ack::read(info, words))
            }
            NAK => Body::Nak(LossList::read(words)?),
            CONGESTION_WARNING => Body::CongestionWarning,
            SHUTDOWN => Body::Shutdown,
            ACK_OF_ACK => Body::AckOfAck { number: info },
            DROP_MESSAGE => {
                need(8)?;
                let [first, last] = [0, 1].map(|index| Sequence::from_word(word(body, index)));
                Body::DropMessage { message: MessageNumber::from_word(info), first, last }
            }
            PEER_ERROR => Body::PeerError { code: info },
            CUSTOM => Body::Custom { kind: extended, words },
            kind => Body::Unknown { kind },
        };
        Ok(Self { timestamp_us: word(header, 2), destination: SocketId(word(header, 3)), body })
    }

    /// Appends the packet to `out`. A body that would be empty gets four zero bytes, as libudt fills it up.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (kind, extended, info) = self.body.head();
        let first = 1 << 31 | u32::from(kind) << 16 | u32::from(extended);
        for word in [first, info, self.timestamp_us, self.destination.0] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        let start = out.len();
        self.body.write(out);
        if out.len() == start {
            out.extend_from_slice(&[0; 4]);
        }
    }
}

impl Body<'_> {
    /// Returns type, extended type and additional information.
    const fn head(&self) -> (u16, u16, u32) {
        match *self {
            Self::Handshake(_) => (0, 0, 0),
            Self::KeepAlive => (KEEP_ALIVE, 0, 0),
            Self::Ack(ack) => (ACK, 0, ack.info()),
            Self::Nak(_) | Self::NakWords(_) => (NAK, 0, 0),
            Self::CongestionWarning => (CONGESTION_WARNING, 0, 0),
            Self::Shutdown => (SHUTDOWN, 0, 0),
            Self::AckOfAck { number } => (ACK_OF_ACK, 0, number),
            Self::DropMessage { message, .. } => (DROP_MESSAGE, 0, message.word()),
            Self::PeerError { code } => (PEER_ERROR, 0, code),
            Self::Unknown { kind } => (kind, 0, 0),
            Self::Custom { kind, .. } | Self::CustomWords { kind, .. } => (CUSTOM, kind, 0),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = |word: u32| out.extend_from_slice(&word.to_be_bytes());
        match *self {
            Self::Handshake(handshake) => handshake.write(out),
            Self::Ack(ack) => ack.write(out),
            Self::Nak(LossList(words)) | Self::Custom { words, .. } => words.iter().for_each(put),
            Self::NakWords(words) | Self::CustomWords { words, .. } => {
                words.iter().for_each(|word| put(*word))
            }
            Self::DropMessage { first, last, .. } => {
                [first, last].iter().for_each(|number| put(number.word()))
            }
            Self::KeepAlive
            | Self::CongestionWarning
            | Self::Shutdown
            | Self::AckOfAck { .. }
            | Self::PeerError { .. }
            | Self::Unknown { .. } => {}
        }
    }
}

impl Ack {
    fn read(info: u32, words: Words<'_>) -> Self {
        let at = |index| word(words.0, index);
        let count = words.0.len() / 4;
        let progress = (count >= 4).then(|| Progress {
            round_trip_us: at(1),
            variation_us: at(2),
            window_packets: at(3),
            rates: (count >= 6).then(|| (at(4), at(5))),
        });
        let is_light = progress.is_none();
        let seen = (is_light && info & SEEN != 0).then(|| Sequence::from_word(info & !SEEN));
        Self { number: if is_light { 0 } else { info }, next: Sequence::from_word(at(0)), progress, seen }
    }

    const fn info(&self) -> u32 {
        match self.seen {
            Some(seen) if self.progress.is_none() => seen.word() | SEEN,
            _ => self.number,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut put = |word: u32| out.extend_from_slice(&word.to_be_bytes());
        put(self.next.word());
        if let Some(progress) = self.progress {
            let Progress { round_trip_us, variation_us, window_packets, rates } = progress;
            [round_trip_us, variation_us, window_packets].into_iter().for_each(&mut put);
            rates.into_iter().flat_map(|(arrival, capacity)| [arrival, capacity]).for_each(put);
        }
    }
}

impl<'a> Words<'a> {
    /// Takes whole words; bytes beyond them belong to nobody.
    const fn of(body: &'a [u8]) -> Self {
        Self(body.split_at(body.len() & !3).0)
    }

    /// Tells whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns one after the other.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).map(|chunk| word(chunk, 0))
    }
}
