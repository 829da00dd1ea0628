//! Encoding and decoding of all bytes that leave a process.
//!
//! `docs/protocol/stream.md` is the source of truth for the datagrams of the stream protocol; a test compares its
//! tables with the module `layout`, in both directions. A *view* lays a named layout over received bytes and checks
//! them; a *representation* such as [`Data`] or [`Tally`] holds only valid values, and encodes itself. Nothing here
//! keeps time or decides when to send: that is the task of the stream machine.
//!
//! Start with [`Datagram::decode`]; packets of the reliable transport are in [`udt`].

mod announcement;
mod cbor;
mod data;
mod datagram;
mod description;
mod descriptor;
mod extension;
mod fit;
#[cfg(test)]
mod golden;
mod header;
mod identity;
mod layout;
mod malformed;
mod page;
mod relayed;
mod report;
mod request;
mod secured;
mod security;
mod tally;
mod text;
pub mod udt;

pub use announcement::Announcement;
pub use data::{Clock, DATA_HEADER_BYTES, Data, DataEncoder};
pub use datagram::Datagram;
pub use description::{Description, DescriptionError};
pub use description::{MAX_DESCRIPTION_BYTES, MAX_LABELS, MAX_SHAPE_EXTENTS, MAX_TEXT_BYTES, MAX_UNIT_BYTES};
pub use descriptor::{DESCRIPTOR_HEADER_BYTES, MAX_DESCRIPTOR_PARTS, MIN_DESCRIPTOR_PART_BYTES};
pub use descriptor::{
    DescriptorAssembler, DescriptorError, DescriptorExtensions, DescriptorPart, DescriptorParts,
};
pub use extension::{Address, ExtensionType, MAX_ADDRESSES, MAX_NONCES, Nonce, Predecessor, Waiting};
pub use fit::{
    DATAGRAM_BYTES_IPV4, DATAGRAM_BYTES_IPV6, Fit, MAX_DATAGRAM_BYTES, MIN_DATA_BYTES, MIN_DATAGRAM_BYTES,
    is_within_site, max_elements,
};
pub use header::{Kind, MAGIC, MAX_HEADER_BYTES, Numbered, VERSION};
pub use identity::stream_id;
pub use malformed::{BufferTooSmall, Malformed, Reason};
pub use page::{
    Extremes, FrameAddress, GapCause, MeanShare, PageFrameError, PageGap, PagePoint, TraceFrame, TraceShape,
    TraceState, ViewFrame,
};
pub use page::{MAX_PAGE_COLUMNS, MAX_PAGE_GAPS, MAX_PAGE_TRACES, PAGE_MAGIC, PAGE_VERSION};
pub use page::{MAX_PICTURE_PIXELS, Obstacle, PictureFrame, PictureSample};
pub use page::{MAX_ROW_VALUES, NoSample, ValueRow, ValueSample, Values, ValuesFrame};
pub use page::{MAX_WATERFALL_VALUES, WaterfallFrame};
pub use relayed::{
    DataOrigin, Deadline, Inherited, MAX_HOPS, MAX_INHERITED, MAX_UPSTREAM_BYTES, ORIGIN_BYTES, Origin,
    UpstreamHop, relayed_bytes,
};
pub use report::{MAX_READER_NAME_BYTES, Report};
pub use request::{Request, Wanted};
pub use secured::{SECURED_DATA_BYTES, SecuredDataHeader, SecuredHead, secured_bytes};
pub use security::{CLOCK_BOUND, Distrust, Level, Security};
pub use tally::{
    DatagramTotals, MAX_RANGES, MAX_TALLY_STATEMENT_BYTES, SampleTotals, Skipped, TALLY_HEADER_BYTES, Tally,
    Totals, Withheld,
};
pub use text::MAX_STATION_BYTES;
