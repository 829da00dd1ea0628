//! IP packets as a TUN device with a `virtio` header delivers and accepts them.
//!
//! A UDP train arrives in one piece, with the headers of a single large datagram. It is cut here, so that every
//! datagram is judged on its own; survivors that are due together are joined again. Checksums between two ends of
//! one host are never finished: the field holds the sum of the pseudo-header alone, and the `virtio` header says
//! where the rest would go. Source: `linux/virtio_net.h`; RFC 768, 791, 1071, 8200.

use sys::VNET_HEADER_BYTES;

/// Flag of an unfinished checksum (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_SUM: u8 = 1;
/// Type of a UDP train (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const UDP_TRAIN: u8 = 5;
/// Maximum size of headers that are cut and joined: IPv4 with all options, or IPv6 with some extensions, and UDP.
const MOST_HEAD_BYTES: usize = 128;
const UDP_HEADER_BYTES: usize = 8;
/// Offset of the checksum in a UDP header.
const UDP_SUM_AT: usize = 6;
const UDP: u8 = 17;
const IPV6_HEADER_BYTES: usize = 40;

/// Size of the largest IP packet.
pub(crate) const MOST_PACKET_BYTES: usize = 65_535;

/// Start of the summed bytes and position of the checksum, for a packet whose checksum is not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unfinished {
    start: u16,
    offset: u16,
}

/// A single packet: read as one, or a datagram of a train.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment<'a> {
    head: Head,
    /// Bytes after the head.
    pub(crate) rest: &'a [u8],
    pub(crate) unfinished: Option<Unfinished>,
}

/// Rewritten headers of a datagram; empty if the original headers are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    bytes: [u8; MOST_HEAD_BYTES],
    len: usize,
}

/// Contents of a `virtio` header.
struct Vnet {
    unfinished: Option<Unfinished>,
    /// Payload size of each datagram of a train except the last.
    train_of: Option<usize>,
}

impl Head {
    const EMPTY: Self = Self { bytes: [0; MOST_HEAD_BYTES], len: 0 };

    fn new(bytes: &[u8]) -> Option<Self> {
        let mut head = Self::EMPTY;
        head.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        head.len = bytes.len();
        Some(head)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Turns these into the headers of the `index`-th datagram of a train, or of a train, with `payload_bytes` of
    /// payload.
    fn carry(&mut self, payload_bytes: usize, index: u16) -> Option<()> {
        let len = self.len;
        let bytes = &mut self.bytes[..len];
        let udp_at = len.checked_sub(UDP_HEADER_BYTES)?;
        let udp_bytes = u16::try_from(UDP_HEADER_BYTES + payload_bytes).ok()?;
        let in_all = u16::try_from(len + payload_bytes).ok()?;
        let addresses = match bytes[0] >> 4 {
            4 => {
                bytes[2..4].copy_from_slice(&in_all.to_be_bytes());
                let identity = u16::from_be_bytes([bytes[4], bytes[5]]).wrapping_add(index);
                bytes[4..6].copy_from_slice(&identity.to_be_bytes());
                bytes[10..12].fill(0);
                let sum = !folded(sum_of(bytes.get(..usize::from(bytes[0] & 15) * 4)?));
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
                &bytes[12..20]
            }
            6 => {
                let behind = in_all.checked_sub(u16::try_from(IPV6_HEADER_BYTES).expect("it is small"))?;
                bytes[4..6].copy_from_slice(&behind.to_be_bytes());
                &bytes[8..40]
            }
            _ => return None,
        };
        let pseudo = folded(sum_of(addresses) + u32::from(UDP) + u32::from(udp_bytes));
        bytes[udp_at + 4..udp_at + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        bytes[udp_at + UDP_SUM_AT..].copy_from_slice(&pseudo.to_be_bytes());
        Some(())
    }
}

impl Segment<'_> {
    /// Returns the packet's parts, one after the other.
    pub(crate) fn pieces(&self) -> [&[u8]; 2] {
        [self.head.bytes(), self.rest]
    }

    /// Returns the packet's size with all IP headers.
    pub(crate) const fn bytes(&self) -> usize {
        self.head.len + self.rest.len()
    }
}

impl Vnet {
    fn read(header: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_ne_bytes(*header.get(at..)?.first_chunk()?));
        let (flags, kind) = (*header.first()?, *header.get(1)?);
        let needs_sum = flags & NEEDS_SUM != 0;
        let unfinished =
            if needs_sum { Some(Unfinished { start: word(6)?, offset: word(8)? }) } else { None };
        // The highest bit is the ECN flag.
        let train_of = (kind & 0x7f == UDP_TRAIN).then_some(usize::from(word(4)?));
        Some(Self { unfinished, train_of })
    }
}

/// Calls `take` with each packet in what was read from the device, in order; returns whether there was any.
pub(crate) fn cut<'a>(read: &'a [u8], mut take: impl FnMut(&Segment<'a>)) -> bool {
    let Some((header, packet)) = read.split_at_checked(VNET_HEADER_BYTES) else { return false };
    let Some(Vnet { unfinished, train_of }) = Vnet::read(header) else { return false };
    if packet.is_empty() {
        return false;
    }
    let whole = Segment { head: Head::EMPTY, rest: packet, unfinished };
    let Some((head, payload, size, unfinished)) = train_of.and_then(|size| train(packet, size, unfinished))
    else {
        take(&whole);
        return true;
    };
    for (index, part) in (0..).zip(payload.chunks(size)) {
        let mut head = head;
        head.carry(part.len(), index).expect("they carry the largest part");
        take(&Segment { head, rest: part, unfinished: Some(unfinished) });
    }
    true
}

/// Returns the headers of a train, its payload and the size of each part; `None` if it is not a train, or
/// malformed.
fn train(
    packet: &[u8],
    size: usize,
    unfinished: Option<Unfinished>,
) -> Option<(Head, &[u8], usize, Unfinished)> {
    let unfinished = unfinished.filter(|it| usize::from(it.offset) == UDP_SUM_AT)?;
    let (head, payload) = packet.split_at_checked(usize::from(unfinished.start) + UDP_HEADER_BYTES)?;
    let head = Head::new(head).filter(|head| head.len >= least_head(packet))?;
    { head }.carry(size, 0)?;
    (size > 0 && payload.len() > size).then_some((head, payload, size, unfinished))
}

/// Returns the minimum header size of a datagram of the packet's IP version.
fn least_head(packet: &[u8]) -> usize {
    let of_ip = if packet[0] >> 4 == 6 { IPV6_HEADER_BYTES } else { 20 };
    of_ip + UDP_HEADER_BYTES
}

/// Packets that are due together and can be written in one piece: one packet, or a UDP train.
pub(crate) struct Joined {
    head: Head,
    first_bytes: usize,
    last_bytes: usize,
    payload_bytes: usize,
    count: usize,
    most: usize,
    unfinished: Option<Unfinished>,
}

impl Joined {
    /// Makes room for at most `most` packets.
    pub(crate) const fn new(most: usize) -> Self {
        let (first_bytes, last_bytes, payload_bytes, count) = (0, 0, 0, 0);
        Self { head: Head::EMPTY, first_bytes, last_bytes, payload_bytes, count, most, unfinished: None }
    }

    pub(crate) const fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns whether a packet may follow.
    pub(crate) fn takes(&self, packet: &[u8], unfinished: Option<Unfinished>) -> bool {
        if self.count == 0 {
            return true;
        }
        let Some((head, payload)) = datagram(packet, unfinished) else { return false };
        self.count < self.most
            && self.head.len == head.len()
            && self.unfinished == unfinished
            && self.last_bytes == self.first_bytes
            && (1..=self.first_bytes).contains(&payload.len())
            && self.head.len + self.payload_bytes + payload.len() <= MOST_PACKET_BYTES
            && is_same_flow(self.head.bytes(), head)
    }

    /// Appends a packet; returns the part after its headers, since the joined packets share one set of headers.
    pub(crate) fn push<'a>(&mut self, packet: &'a [u8], unfinished: Option<Unfinished>) -> &'a [u8] {
        let split = datagram(packet, unfinished);
        let (head, payload) = split.unwrap_or((&[], packet));
        if self.count == 0 {
            self.head = Head::new(head).unwrap_or(Head::EMPTY);
            (self.first_bytes, self.payload_bytes, self.unfinished) = (payload.len(), 0, unfinished);
        }
        // A packet that cannot be joined is written alone: its head is empty, so nothing follows it.
        self.last_bytes = payload.len();
        self.payload_bytes += payload.len();
        self.count += 1;
        payload
    }

    /// Returns the `virtio` header and the packet's headers, to be written before everything that was pushed.
    pub(crate) fn headers(&self) -> ([u8; VNET_HEADER_BYTES], Head) {
        let (mut vnet, mut head) = ([0; VNET_HEADER_BYTES], self.head);
        if let Some(Unfinished { start, offset }) = self.unfinished {
            vnet[0] = NEEDS_SUM;
            vnet[6..8].copy_from_slice(&start.to_ne_bytes());
            vnet[8..10].copy_from_slice(&offset.to_ne_bytes());
        }
        if self.count > 1 && head.carry(self.payload_bytes, 0).is_some() {
            let short = |bytes: usize| u16::try_from(bytes).expect("less than a packet").to_ne_bytes();
            vnet[1] = UDP_TRAIN;
            vnet[2..4].copy_from_slice(&short(head.len));
            vnet[4..6].copy_from_slice(&short(self.first_bytes));
        }
        (vnet, head)
    }
}

/// Splits a UDP datagram with an unfinished checksum into headers and payload; `None` for all others.
fn datagram(packet: &[u8], unfinished: Option<Unfinished>) -> Option<(&[u8], &[u8])> {
    let unfinished = unfinished.filter(|it| usize::from(it.offset) == UDP_SUM_AT)?;
    let udp_at = usize::from(unfinished.start);
    let is_udp = match packet.first()? >> 4 {
        4 => *packet.get(9)? == UDP && usize::from(packet[0] & 15) * 4 == udp_at,
        6 => *packet.get(6)? == UDP && udp_at == IPV6_HEADER_BYTES,
        _ => false,
    };
    let (head, payload) = packet.split_at_checked(udp_at + UDP_HEADER_BYTES)?;
    (is_udp && head.len() >= least_head(packet) && head.len() <= MOST_HEAD_BYTES && !payload.is_empty())
        .then_some((head, payload))
}

/// Returns whether two headers differ only in lengths, identification and checksums.
fn is_same_flow(one: &[u8], other: &[u8]) -> bool {
    let ports_end = one.len() - UDP_HEADER_BYTES + 4;
    let spans = match one[0] >> 4 {
        4 => [0..2, 6..10, 12..ports_end],
        _ => [0..4, 6..8, 8..ports_end],
    };
    spans.into_iter().all(|span| one[span.clone()] == other[span])
}

/// Adds 16-bit words (RFC 1071).
fn sum_of(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum()
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum & 0xffff) as u16
}

#[cfg(test)]
mod tests;
