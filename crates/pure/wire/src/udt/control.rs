//! Control packets.

use super::{HEADER_BYTES, Handshake, LossList, Malformed, MessageNumber, Sequence, SocketId, word};

/// A control message between the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control<'a> {
    /// Always 0 from libudt. In acknowledgements of this implementation: the time for which the newest acknowledged
    /// packet had been waiting at the receiver, plus one; 0 if unknown. Units: microseconds.
    pub timestamp_us: u32,
    /// The destination socket.
    pub destination: SocketId,
    /// The content.
    pub body: Body<'a>,
}

/// Content of a control packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// Connection setup.
    Handshake(Handshake),
    /// Sign of life.
    KeepAlive,
    /// Acknowledgement of received packets.
    Ack(Ack),
    /// Report of missing packets.
    Nak(LossList<'a>),
    /// A loss list to be written, as words; never read.
    NakWords(&'a [u32]),
    /// Increasing delay on the path; obsolete and no longer sent.
    CongestionWarning,
    /// End of the connection.
    Shutdown,
    /// Confirmation of an acknowledgement.
    AckOfAck {
        /// Number of the acknowledgement.
        number: u32,
    },
    /// Packets of a message are not sent again.
    DropMessage {
        /// The message.
        message: MessageNumber,
        /// The first abandoned packet.
        first: Sequence,
        /// The last abandoned packet; libudt names one too many, which belongs to the next message.
        last: Sequence,
    },
    /// The other end's application failed.
    PeerError {
        /// Error code; libudt knows only 4000, a file that could not be written.
        code: u32,
    },
    /// Message between the congestion controls of the two ends.
    Custom {
        /// Extended type, chosen by the controls.
        kind: u16,
        /// Content.
        words: Words<'a>,
    },
    /// A packet of an unknown type, which only shows that the peer is alive.
    Unknown {
        /// The type.
        kind: u16,
    },
    /// A [`Custom`](Self::Custom) message to be written, as words; never read.
    CustomWords {
        /// The extended type.
        kind: u16,
        /// Content.
        words: &'a [u32],
    },
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack {
    /// Its own number, which [`Body::AckOfAck`] repeats; 0 in a light acknowledgement, which is not answered.
    pub number: u32,
    /// The first packet that has not arrived.
    pub next: Sequence,
    /// Further values; `None` in a light acknowledgement.
    pub progress: Option<Progress>,
    /// In a light acknowledgement with packets missing before it: the received end. libudt sends 0 there, and ignores
    /// the field.
    pub seen: Option<Sequence>,
}

/// Further values of a full acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The receiver's smoothed round-trip time. Units: microseconds.
    pub round_trip_us: u32,
    /// Its smoothed variation. Units: microseconds.
    pub variation_us: u32,
    /// Free space in the receiver's buffer. Units: packets.
    pub window_packets: u32,
    /// Arrival rate (0 if unknown) and estimated capacity of the path. Units: packets per second.
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

/// Flag that distinguishes a packet number in the additional information of a light acknowledgement from libudt's 0.
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

    /// Appends the packet to `out`. An empty body is padded with four zero bytes, as by libudt.
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
    /// Takes whole words; trailing bytes are ignored.
    const fn of(body: &'a [u8]) -> Self {
        Self(body.split_at(body.len() & !3).0)
    }

    /// Returns whether there are no words.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the words in order.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).map(|chunk| word(chunk, 0))
    }
}
