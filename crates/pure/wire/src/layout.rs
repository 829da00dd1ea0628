//! Layout of every datagram: the tables of `docs/protocol/stream.md` as types.
//!
//! All fields are little-endian and contiguous without padding, so a structure's order is its layout. A kind's
//! structure begins with the header that it continues (`common` or `group`); offsets are counted from the start of
//! the datagram. The records of a payload have offsets of their own.

use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::extension::ExtensionType;

/// Declares a layout, and in tests the table that is compared with the page.
macro_rules! layout {
    (
        $(#[doc = $doc:literal])+
        $name:ident $(continues $base:ident: $base_type:ty)? {
            $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $base: $base_type,)?
            $($(#[doc = $field_doc])+ pub(crate) $field: $type,)+
        }

        impl $name {
            /// Size of the whole structure, with the header it continues. Units: bytes.
            pub(crate) const SIZE_BYTES: usize = size_of::<Self>();

            #[cfg(test)]
            pub(crate) const FIELDS: &[(usize, usize, &str)] =
                &[$((core::mem::offset_of!(Self, $field), size_of::<$type>(), stringify!($field)),)+];
        }
    };
}

layout! {
    /// The header that every datagram begins with.
    Common {
        /// `TC` in memory.
        magic: U16,
        /// The protocol's version.
        version: u8,
        /// Kind of the datagram.
        kind: u8,
        /// Flags that change the meaning; this version knows none.
        flags: U16,
        /// Size of the whole header, a multiple of 8.
        header_bytes: U16,
        /// CRC-32C over the whole header with this field zero.
        header_crc: U32,
        /// Size of the payload after the header.
        payload_bytes: U32,
        /// The stream's identity.
        stream: U64,
        /// Start of the publisher's epoch.
        epoch_start_ns: U64,
        /// The publisher's random incarnation.
        epoch_life: U64,
    }
}

layout! {
    /// The continuation of the common header in numbered datagrams.
    Group continues common: Common {
        /// The datagram's number.
        number: U64,
        /// Sample index of the position.
        first_index: U64,
        /// Element within that sample.
        element_offset: U32,
        /// Elements of one sample.
        elements_per_sample: U32,
    }
}

layout! {
    /// A slice of the stream's samples.
    Data continues group: Group {
        /// Time of sample `first_index`.
        t0_ns: I64,
        /// Elements in the payload.
        element_count: U32,
        /// Type of every element.
        dtype: u8,
        /// Clock of `t0_ns`.
        clock: u8,
        /// Zero.
        reserved: U16,
    }
}

layout! {
    /// The publisher's running totals.
    Tally continues group: Group {
        /// CRC-32C over the payload.
        payload_crc: U32,
        /// Records of withheld numbers in the payload.
        withheld_count: U16,
        /// Records of skipped positions that follow them.
        skipped_count: U16,
        /// Maximum time until the next tally.
        next_tally_ns: U64,
        /// Interval of each reader's reports.
        report_interval_ns: U64,
        /// Readers whose reports the publisher receives.
        readers: U32,
        /// 1 in the final tally.
        last: u8,
        /// 1 while data are paused until a reader is heard.
        paused: u8,
        /// 1 while kernel drops on the publisher's host are seen and reported to the publisher.
        watched: u8,
        /// Zero.
        reserved: u8,
        /// Index span so far.
        samples_offered: U64,
        /// Samples that were given a number.
        samples_numbered: U64,
        /// Samples missing in the source.
        samples_source: U64,
        /// Samples over which the ring lapped the sender.
        samples_publisher_queue: U64,
        /// Samples not sent because no reader listened.
        samples_publisher_paused: U64,
        /// Samples that wait for a number.
        samples_queued: U64,
        /// Numbers withheld as injected loss.
        datagrams_injected: U64,
        /// Numbers that the socket refused.
        datagrams_sender_socket: U64,
        /// Numbers that the sender's IP layer refused.
        datagrams_sender_ip: U64,
        /// Numbers that the queue discipline dropped.
        datagrams_sender_qdisc: U64,
        /// Numbers that the sender's network card did not send.
        datagrams_sender_nic: U64,
        /// Bytes of the datagrams that were sent.
        sent_bytes: U64,
    }
}

layout! {
    /// A range of withheld numbers, or of positions lost before they were numbered.
    RangeRecord {
        /// First number or position.
        start: U64,
        /// Number of numbers or positions.
        count: U64,
        /// Stage of the loss.
        stage: u8,
        /// Zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// A part of the stream's description.
    Descriptor continues group: Group {
        /// CRC-32C over this part.
        payload_crc: U32,
        /// CRC-32C over the whole description.
        content_crc: U32,
        /// Size of the whole description.
        content_bytes: U32,
        /// Index of this part.
        part: U16,
        /// Number of parts.
        parts: U16,
    }
}

layout! {
    /// A reader's account, reported to the publisher.
    Report continues common: Common {
        /// The reader's identity.
        reader: U64,
        /// Age of the rows when the report was sent.
        age_ns: U64,
        /// CRC-32C over the payload.
        payload_crc: U32,
        /// The account's state.
        state: u8,
        /// Bytes of the reader's name in the payload.
        name_bytes: u8,
        /// Records of lost datagrams that follow it.
        datagram_stages: u8,
        /// Records of lost elements that follow those.
        element_stages: u8,
        /// First number of the network counters.
        datagrams_first: U64,
        /// One more than the highest number seen.
        datagrams_next: U64,
        /// Datagrams received.
        datagrams_received: U64,
        /// Datagrams lost without evidence.
        datagrams_unexplained: U64,
        /// Datagrams that wait for evidence.
        datagrams_unsettled: U64,
        /// Datagrams in flight.
        datagrams_in_flight: U64,
        /// Duplicate datagrams.
        datagrams_duplicates: U64,
        /// Datagrams from before the join point.
        datagrams_before_join: U64,
        /// First sample index of the reader counters.
        elements_first: U64,
        /// One more than the highest sample index seen.
        elements_next: U64,
        /// Elements delivered.
        elements_delivered: U64,
        /// Elements lost without evidence.
        elements_unexplained: U64,
        /// Elements that wait for evidence.
        elements_unsettled: U64,
        /// Elements in flight.
        elements_in_flight: U64,
        /// Elements of one sample.
        elements_per_sample: U32,
        /// The reader's receive buffer, or 0.
        receive_buffer_bytes: U32,
    }
}

layout! {
    /// Losses of a stage, in one unit of a report or on one hop.
    StageRecord {
        /// Number of datagrams or elements.
        count: U64,
        /// Stage of the loss.
        stage: u8,
    }
}

layout! {
    /// A stream that can be joined.
    Announcement continues common: Common {
        /// Maximum time until the next announcement.
        period_ns: U64,
        /// CRC-32C over the payload.
        payload_crc: U32,
        /// Elements of one sample.
        elements_per_sample: U32,
        /// Samples per second, numerator in lowest terms.
        rate_numerator: U32,
        /// Samples per second, denominator in lowest terms.
        rate_denominator: U32,
        /// Channels of the stream.
        channels: U32,
        /// UDP port of the group.
        group_port: U16,
        /// UDP port for reports and requests.
        report_port: U16,
        /// Address of the group in network order.
        group_address: [u8; 16],
        /// 4 or 6.
        group_family: u8,
        /// Type of every element.
        dtype: u8,
        /// Bytes of the stream's name in the payload.
        name_bytes: u8,
        /// Bytes of the station's name that follow it.
        station_bytes: u8,
        /// Zero.
        reserved: U32,
    }
}

layout! {
    /// A request of a reader.
    Request continues common: Common {
        /// The reader's identity.
        reader: U64,
        /// Object of the request.
        what: u8,
        /// Zero.
        reserved: [u8; 7],
    }
}

layout! {
    /// Head of each extension; its value follows, and zeros up to a multiple of 8.
    ExtensionHead {
        /// Type of the extension.
        code: u8,
        /// Bit 0: a reader that does not know the type drops the datagram.
        flags: u8,
        /// Bytes of the value.
        length: U16,
    }
}

layout! {
    /// The value of `predecessor`.
    Predecessor {
        /// Start of the previous epoch.
        epoch_start_ns: U64,
        /// The random incarnation of the previous epoch.
        epoch_life: U64,
        /// One more than its highest number.
        next_number: U64,
        /// Sample index of its horizon.
        next_index: U64,
        /// Element within that sample.
        element_offset: U32,
        /// 1 if its final tally was sent with this horizon.
        is_final: u8,
        /// Zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// The value of `origin`.
    Origin {
        /// Start of the origin epoch.
        epoch_start_ns: U64,
        /// The random incarnation of the origin epoch.
        epoch_life: U64,
        /// Hop on which the datagram was sent, not 0.
        hop: u8,
        /// Zero.
        reserved: u8,
        /// In data, age of the first sample in milliseconds, rounded up; 0 if unknown, and in other kinds.
        age_ms: U16,
    }
}

layout! {
    /// Head of each hop in the value of `upstream`.
    UpstreamHop {
        /// Elements lost on the hop without a stage.
        unexplained: U64,
        /// Bytes of the name of the station that sent on the hop.
        station_bytes: u8,
        /// Records of lost elements that follow it.
        stages: u8,
    }
}

layout! {
    /// Record of the value of `inherited`: the outcome of a skipped range on an earlier hop.
    Inherited {
        /// The hop, 255 if the range was skipped by this publisher.
        hop: u8,
        /// Code of its stage; 250 to 253: `deadline`, with its cause; 254: unsettled, 255: unexplained.
        outcome: u8,
    }
}

layout! {
    /// The value of `deadline`.
    Deadline {
        /// Age from which a sample is useless, not 0.
        deadline_ns: U64,
        /// Precedence of the stream where not all fit.
        priority: u8,
        /// Zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// The value of `waiting`.
    Waiting {
        /// Start of the reader's wait.
        since_ns: I64,
        /// Age from which a sample is useless to the reader, or 0.
        deadline_ns: U64,
        /// 1 if the reader asks for the stream from its beginning.
        from_beginning: u8,
        /// Zero.
        reserved: [u8; 3],
    }
}

layout! {
    /// The value of `secured` in data and tallies.
    Secured {
        /// Public name of the group secret.
        token: U32,
        /// Check of the group secret.
        key_check: U32,
        /// Authenticated encryption.
        suite: u8,
        /// Zero.
        reserved: u8,
        /// Index of the destination of a tally, otherwise 0.
        destination: U16,
    }
}

layout! {
    /// The value of `secured` in descriptors.
    SaltedSecured continues secured: Secured {
        /// The sender's salt.
        salt: [u8; 16],
    }
}

layout! {
    /// The value of `secured` in datagrams without a number.
    CountedSecured continues salted: SaltedSecured {
        /// The sender's counter.
        counter: U64,
    }
}

/// The header of a kind of datagram.
pub(crate) trait Header: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The extensions that are read in this kind; it does not know any others.
    const EXTENSIONS: &'static [ExtensionType];

    /// Returns the common header.
    fn common(&self) -> &Common;

    /// Returns the common header for writing.
    fn common_mut(&mut self) -> &mut Common;
}

macro_rules! headers {
    ($($name:ident: $($path:ident).+, [$($extension:ident),*];)+) => {$(
        impl Header for $name {
            const EXTENSIONS: &'static [ExtensionType] = &[$(ExtensionType::$extension),*];

            fn common(&self) -> &Common {
                &self.$($path).+
            }

            fn common_mut(&mut self) -> &mut Common {
                &mut self.$($path).+
            }
        }

        // The header's size is sent in units that keep the payload aligned to 8 bytes.
        const _: () = assert!($name::SIZE_BYTES % 8 == 0 && $name::SIZE_BYTES <= crate::MAX_HEADER_BYTES);
    )+};
}

headers! {
    Data: group.common, [Origin];
    Tally: group.common, [Origin, Upstream, Proof, Nonces, Inherited];
    Descriptor: group.common, [Predecessor, Addresses, Origin, Deadline];
    Report: common, [Waiting];
    Announcement: common, [];
    Request: common, [Waiting, Nonces];
}

// Headers that other kinds continue never change their size.
const _: () = assert!(Common::SIZE_BYTES == 40 && Group::SIZE_BYTES == 64);

#[cfg(test)]
mod tests;
