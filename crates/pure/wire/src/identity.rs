//! A stream's identity: a hash of its name and of its schema.

use sample::{Schema, StreamName};
use units::StreamId;

use crate::cbor;

/// Returns the identity of the stream `name` with `schema`.
///
/// A change of dtype, rate, channels or labels makes another stream: a reader never mixes two meanings under one
/// name. This is no protection against forgery.
///
/// Source: `docs/protocol/stream.md`, section "Identity": CRC-64/NVME of the name's bytes, a zero byte, and the
/// canonical CBOR of the schema.
#[must_use]
pub fn stream_id(name: &StreamName, schema: &Schema) -> StreamId {
    of_encoded(name, &cbor::encode_schema(schema))
}

/// Returns the identity of the stream `name` with a schema in its received encoding.
pub(crate) fn of_encoded(name: &StreamName, schema: &[u8]) -> StreamId {
    StreamId(crc_fast::crc64_nvme(&[name.as_str().as_bytes(), &[0], schema].concat()))
}
