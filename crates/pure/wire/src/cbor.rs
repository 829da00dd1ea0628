//! Descriptions and schemas in CBOR (RFC 8949), always the same bytes for the same meaning.
//!
//! Maps have ascending integer keys, lengths are definite, integers have their shortest form (RFC 8949 §4.2.1);
//! labels, the one map with text keys, are sorted by their encoding. Two rules of this protocol: a value that equals
//! its default is omitted, and floats always have 64 bits, so that no encoder needs half floats. The keys are those
//! of the tables in `docs/protocol/stream.md`, section "Description"; keys of later versions follow them unchanged.

use std::collections::BTreeMap;

use minicbor::decode::{Decoder, Error};
use minicbor::encode::Encoder;
use sample::{Channel, Dtype, MAX_CHANNELS, Schema, UnknownEntries};

use crate::announcement::lowest_terms;
use crate::description::{MAX_LABELS, MAX_SHAPE_EXTENTS};
use crate::{Description, DescriptionError};

/// The keys, with the names of the page's tables.
pub(crate) mod key {
    pub(crate) mod description {
        pub(crate) const NAME: u32 = 0;
        pub(crate) const SCHEMA: u32 = 1;
        pub(crate) const REPORT_PORT: u32 = 2;
        pub(crate) const STATION: u32 = 3;
        /// The entry [`Security`](crate::Security).
        pub(crate) const SECURITY: u32 = 4;
        /// True if the publisher signs statements about its samples.
        pub(crate) const PROOF: u32 = 5;
        /// First key whose entry is kept as it is: what is signed must not change.
        pub(crate) const UNKNOWN: u32 = SECURITY;
    }
    pub(crate) mod schema {
        pub(crate) const DTYPE: u32 = 0;
        pub(crate) const RATE: u32 = 1;
        pub(crate) const CHANNELS: u32 = 2;
        pub(crate) const LABELS: u32 = 3;
        /// First key unknown to this version.
        pub(crate) const UNKNOWN: u32 = 4;
    }
    pub(crate) mod channel {
        pub(crate) const NAME: u32 = 0;
        pub(crate) const UNIT: u32 = 1;
        pub(crate) const SHAPE: u32 = 2;
        pub(crate) const SCALE: u32 = 3;
        pub(crate) const OFFSET: u32 = 4;
        /// First key unknown to this version.
        pub(crate) const UNKNOWN: u32 = 5;
    }
}

/// Result of an encoder into memory, which cannot fail.
type Infallible = Result<(), minicbor::encode::Error<core::convert::Infallible>>;
type Memory<'a> = Encoder<&'a mut Vec<u8>>;

pub(crate) fn encode_description(description: &Description) -> Vec<u8> {
    written(|encoder| {
        let has_station = !description.station.is_empty();
        let unknown = from(key::description::UNKNOWN, &description.unknown);
        encoder.map(3 + u64::from(has_station) + unknown.clone().count() as u64)?;
        encoder.u32(key::description::NAME)?.str(description.name.as_str())?;
        encoder.u32(key::description::SCHEMA)?;
        write_schema(encoder, &description.schema)?;
        encoder.u32(key::description::REPORT_PORT)?.u16(description.report_port)?;
        if has_station {
            encoder.u32(key::description::STATION)?.str(&description.station)?;
        }
        write_unknown(encoder, unknown)
    })
}

pub(crate) fn encode_schema(schema: &Schema) -> Vec<u8> {
    written(|encoder| write_schema(encoder, schema))
}

fn written(write: impl FnOnce(&mut Memory<'_>) -> Infallible) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Encoder::new(&mut bytes)).expect("memory takes every byte");
    bytes
}

fn write_schema(encoder: &mut Memory<'_>, schema: &Schema) -> Infallible {
    let has_labels = !schema.labels.is_empty();
    let unknown = from(key::schema::UNKNOWN, &schema.unknown);
    encoder.map(3 + u64::from(has_labels) + unknown.clone().count() as u64)?;
    encoder.u32(key::schema::DTYPE)?.u8(schema.dtype.code())?;
    encoder.u32(key::schema::RATE)?.array(2)?;
    encoder.u32(schema.rate.numerator())?.u32(schema.rate.denominator())?;
    encoder.u32(key::schema::CHANNELS)?.array(schema.channels.len() as u64)?;
    for channel in &schema.channels {
        write_channel(encoder, channel)?;
    }
    if has_labels {
        encoder.u32(key::schema::LABELS)?.map(schema.labels.len() as u64)?;
        let mut labels: Vec<_> = schema.labels.iter().collect();
        // A shorter text has a smaller head, so this is the order of the encodings.
        labels.sort_by_key(|(label, _)| (label.len(), *label));
        for (label, value) in labels {
            encoder.str(label)?.str(value)?;
        }
    }
    write_unknown(encoder, unknown)
}

/// Returns the unknown entries whose keys are not below `first`.
fn from(first: u32, entries: &UnknownEntries) -> impl Iterator<Item = (&u32, &Vec<u8>)> + Clone {
    entries.range(first..)
}

fn write_unknown<'a>(
    encoder: &mut Memory<'_>,
    entries: impl Iterator<Item = (&'a u32, &'a Vec<u8>)>,
) -> Infallible {
    for (key, value) in entries {
        encoder.u32(*key)?;
        encoder.writer_mut().extend_from_slice(value);
    }
    Ok(())
}

fn write_channel(encoder: &mut Memory<'_>, channel: &Channel) -> Infallible {
    let plain = Channel::new("", "");
    let has_unit = !channel.unit.is_empty();
    let has_shape = !channel.shape.is_empty();
    // Bits are compared, so that a negative zero is preserved.
    let has_scale = channel.scale.to_bits() != plain.scale.to_bits();
    let has_offset = channel.offset.to_bits() != plain.offset.to_bits();
    let optional = [has_unit, has_shape, has_scale, has_offset].into_iter().map(u64::from).sum::<u64>();
    let unknown = from(key::channel::UNKNOWN, &channel.unknown);
    encoder.map(1 + optional + unknown.clone().count() as u64)?;
    encoder.u32(key::channel::NAME)?.str(&channel.name)?;
    if has_unit {
        encoder.u32(key::channel::UNIT)?.str(&channel.unit)?;
    }
    if has_shape {
        encoder.u32(key::channel::SHAPE)?.array(channel.shape.len() as u64)?;
        for extent in &channel.shape {
            encoder.u32(*extent)?;
        }
    }
    if has_scale {
        encoder.u32(key::channel::SCALE)?.f64(channel.scale)?;
    }
    if has_offset {
        encoder.u32(key::channel::OFFSET)?.f64(channel.offset)?;
    }
    write_unknown(encoder, unknown)
}

/// Reads a description; also returns the schema's received bytes, from which the stream's identity is computed.
pub(crate) fn decode_description(bytes: &[u8]) -> Result<(Description, &[u8]), DescriptionError> {
    let mut reader = Reader { bytes, decoder: Decoder::new(bytes) };
    let mut unknown = UnknownEntries::new();
    let (mut name, mut schema, mut report_port, mut station) = (None, None, None, String::new());
    reader.map(|reader, key| {
        match key {
            key::description::NAME => name = Some(reader.text()?.parse()?),
            key::description::SCHEMA => {
                let start = reader.decoder.position();
                let decoded = reader.schema()?;
                schema = Some((decoded, &bytes[start..reader.decoder.position()]));
            }
            key::description::REPORT_PORT => report_port = Some(reader.take(Decoder::u16)?),
            key::description::STATION => station = reader.text()?,
            _ => reader.unknown(key, &mut unknown)?,
        }
        Ok(())
    })?;
    if reader.decoder.position() != bytes.len() {
        return Err(DescriptionError::Cbor(reader.decoder.position()));
    }
    let (schema, schema_bytes) = schema.ok_or(DescriptionError::Missing("schema"))?;
    let name = name.ok_or(DescriptionError::Missing("name"))?;
    let report_port = report_port.ok_or(DescriptionError::Missing("report port"))?;
    Ok((Description { name, schema, report_port, station, unknown }, schema_bytes))
}

/// A decoder that reports the position of an error.
struct Reader<'a> {
    bytes: &'a [u8],
    decoder: Decoder<'a>,
}

impl<'a> Reader<'a> {
    fn take<T>(
        &mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, Error>,
    ) -> Result<T, DescriptionError> {
        let position = self.decoder.position();
        read(&mut self.decoder).map_err(|_| DescriptionError::Cbor(position))
    }

    /// Skips a value that this version does not know, and keeps its bytes.
    fn unknown(&mut self, key: u32, entries: &mut UnknownEntries) -> Result<(), DescriptionError> {
        let start = self.decoder.position();
        self.take(Decoder::skip)?;
        entries.insert(key, self.bytes[start..self.decoder.position()].to_vec());
        Ok(())
    }

    fn text(&mut self) -> Result<String, DescriptionError> {
        self.take(Decoder::str).map(str::to_owned)
    }

    /// Reads the head of a list of definite length; the claimed length is only compared with the limit.
    fn array(&mut self, what: &'static str, limit: usize) -> Result<usize, DescriptionError> {
        let len = self.definite(Decoder::array)?;
        if len > limit { Err(DescriptionError::Limit { what, actual: len, limit }) } else { Ok(len) }
    }

    fn definite(
        &mut self,
        read: impl FnOnce(&mut Decoder<'a>) -> Result<Option<u64>, Error>,
    ) -> Result<usize, DescriptionError> {
        let position = self.decoder.position();
        let len = self.take(read)?.ok_or(DescriptionError::Cbor(position))?;
        usize::try_from(len).map_err(|_| DescriptionError::Cbor(position))
    }

    /// Reads a map with ascending integer keys; `value` reads or skips each value.
    fn map(
        &mut self,
        mut value: impl FnMut(&mut Self, u32) -> Result<(), DescriptionError>,
    ) -> Result<(), DescriptionError> {
        let entries = self.definite(Decoder::map)?;
        let mut previous = None;
        for _ in 0..entries {
            let key = self.take(Decoder::u32)?;
            if previous.is_some_and(|previous| previous >= key) {
                return Err(DescriptionError::KeyOrder(self.decoder.position()));
            }
            previous = Some(key);
            value(self, key)?;
        }
        Ok(())
    }

    fn schema(&mut self) -> Result<Schema, DescriptionError> {
        let (mut dtype, mut rate, mut channels, mut labels) = (None, None, None, BTreeMap::new());
        let mut unknown = UnknownEntries::new();
        self.map(|reader, key| {
            match key {
                key::schema::DTYPE => {
                    let code = reader.take(Decoder::u8)?;
                    dtype = Some(Dtype::from_code(code).ok_or(DescriptionError::Dtype(code))?);
                }
                key::schema::RATE => {
                    let position = reader.decoder.position();
                    if reader.array("the rate", 2)? != 2 {
                        return Err(DescriptionError::Cbor(position));
                    }
                    let (over, under) = (reader.take(Decoder::u32)?, reader.take(Decoder::u32)?);
                    rate = Some(lowest_terms(over, under).ok_or(DescriptionError::Rate(over, under))?);
                }
                key::schema::CHANNELS => channels = Some(reader.channels()?),
                key::schema::LABELS => labels = reader.labels()?,
                _ => reader.unknown(key, &mut unknown)?,
            }
            Ok(())
        })?;
        Ok(Schema {
            dtype: dtype.ok_or(DescriptionError::Missing("dtype"))?,
            rate: rate.ok_or(DescriptionError::Missing("rate"))?,
            channels: channels.ok_or(DescriptionError::Missing("channels"))?,
            labels,
            unknown,
        })
    }

    fn channels(&mut self) -> Result<Vec<Channel>, DescriptionError> {
        let len = self.array("the list of channels", MAX_CHANNELS)?;
        // Not with the claimed capacity: memory is allocated for received channels only.
        let mut channels = Vec::new();
        for _ in 0..len {
            channels.push(self.channel()?);
        }
        Ok(channels)
    }

    fn channel(&mut self) -> Result<Channel, DescriptionError> {
        let mut channel = Channel::new("", "");
        let mut named = false;
        self.map(|reader, key| {
            match key {
                key::channel::NAME => {
                    channel.name = reader.text()?;
                    named = true;
                }
                key::channel::UNIT => channel.unit = reader.text()?,
                key::channel::SHAPE => {
                    let extents = reader.array("a channel's shape", MAX_SHAPE_EXTENTS)?;
                    channel.shape =
                        (0..extents).map(|_| reader.take(Decoder::u32)).collect::<Result<_, _>>()?;
                }
                key::channel::SCALE => channel.scale = reader.take(Decoder::f64)?,
                key::channel::OFFSET => channel.offset = reader.take(Decoder::f64)?,
                _ => reader.unknown(key, &mut channel.unknown)?,
            }
            Ok(())
        })?;
        if named { Ok(channel) } else { Err(DescriptionError::Missing("channel name")) }
    }

    fn labels(&mut self) -> Result<BTreeMap<String, String>, DescriptionError> {
        let len = self.definite(Decoder::map)?;
        if len > MAX_LABELS {
            let what = "the list of labels";
            return Err(DescriptionError::Limit { what, actual: len, limit: MAX_LABELS });
        }
        let mut labels = BTreeMap::new();
        for _ in 0..len {
            let (label, value) = (self.text()?, self.text()?);
            if labels.insert(label, value).is_some() {
                return Err(DescriptionError::KeyOrder(self.decoder.position()));
            }
        }
        Ok(labels)
    }
}
