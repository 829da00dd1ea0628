//! Header of a WAV file: form, number and place of its samples.
//!
//! Walks the chunks of RIFF, RF64 and BW64 up to the samples and keeps none of them in memory. Sizes that a program
//! could not know when it wrote to a pipe are replaced by the end of the file.
//!
//! Source: Multimedia Programming Interface and Data Specifications 1.0 (IBM, Microsoft, 1991), "RIFF" and "WAVE";
//! Multiple Channel Audio Data and WAVE Files (Microsoft, 2007) for the extensible format; EBU Tech 3306 (2018) and
//! ITU-R BS.2088 (2019) for RF64 and BW64.

use std::io::{Read, Seek, SeekFrom};

use sample::Dtype;

use super::WavError;

/// Longest part of a format chunk with a meaning: that of the extensible format.
const FORMAT_BYTES: u64 = 40;
const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;
/// Bytes of a subformat behind its format tag: those of the usual base, and of ambisonic B-format.
const SUBFORMATS: [[u8; 14]; 2] = [
    [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71],
    [0, 0, 0x21, 0x07, 0xD3, 0x11, 0x86, 0x44, 0xC8, 0xC1, 0xCA, 0, 0, 0],
];

/// Result of reading a header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) form: Form,
    pub(super) channels: u16,
    pub(super) rate_hz: u32,
    /// Offset of the first sample in the file.
    pub(super) offset: u64,
    pub(super) samples: u64,
}

/// Form of a number in the file, by its container.
///
/// Fewer valid bits than the container has are its upper ones, so they change neither value nor scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Unsigned, 128 is zero.
    U8,
    I16,
    I24,
    I32,
    F4,
    F8,
}

impl Form {
    fn new(tag: u16, container_bytes: u16) -> Option<Self> {
        match (tag, container_bytes) {
            (PCM, 1) => Some(Self::U8),
            (PCM, 2) => Some(Self::I16),
            (PCM, 3) => Some(Self::I24),
            (PCM, 4) => Some(Self::I32),
            (FLOAT, 4) => Some(Self::F4),
            (FLOAT, 8) => Some(Self::F8),
            _ => None,
        }
    }

    /// Returns the number of bytes in the file.
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I32 | Self::F4 => 4,
            Self::F8 => 8,
        }
    }

    /// Returns the type of the element that keeps every bit.
    pub(super) const fn dtype(self) -> Dtype {
        match self {
            Self::U8 => Dtype::I8,
            Self::I16 => Dtype::I16,
            Self::I24 | Self::I32 => Dtype::I32,
            Self::F4 => Dtype::F4,
            Self::F8 => Dtype::F8,
        }
    }

    /// Returns the scale by which full scale is one.
    pub(super) fn scale(self) -> f64 {
        match self {
            Self::U8 => 0.5_f64.powi(7),
            Self::I16 => 0.5_f64.powi(15),
            Self::I24 => 0.5_f64.powi(23),
            Self::I32 => 0.5_f64.powi(31),
            Self::F4 | Self::F8 => 1.0,
        }
    }
}

/// Content of a format chunk.
struct Format {
    form: Form,
    channels: u16,
    rate_hz: u32,
    frame_bytes: u16,
}

impl Format {
    /// Parses a format chunk of at least 16 bytes, of which only the meaningful ones are given.
    fn parse(chunk: &[u8]) -> Result<Self, WavError> {
        let number = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
        let (channels, frame_bytes, bits) = (number(2), number(12), number(14));
        let rate_hz = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
        if channels == 0 || !frame_bytes.is_multiple_of(channels) || frame_bytes == 0 {
            return Err(WavError::Header("its samples are no whole number of bytes in each channel"));
        }
        let mut tag = number(0);
        if tag == EXTENSIBLE && SUBFORMATS.iter().any(|base| chunk.get(26..40) == Some(&base[..])) {
            tag = number(24);
        }
        let container_bytes = frame_bytes / channels;
        let fits = bits <= container_bytes * 8;
        let form = Form::new(tag, container_bytes).filter(|_| fits).ok_or(WavError::Codec { tag, bits })?;
        Ok(Self { form, channels, rate_hz, frame_bytes })
    }
}

/// Reads a header and checks that the samples are present.
pub(super) fn read(file: &mut (impl Read + Seek)) -> Result<Header, WavError> {
    let size_bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let [id @ .., r0, r1, r2, r3, w0, w1, w2, w3] = take::<12>(file)?;
    if ![*b"RIFF", *b"RF64", *b"BW64"].contains(&id) || [w0, w1, w2, w3] != *b"WAVE" {
        return Err(WavError::NotWav);
    }
    let riff_end = u64::from(u32::from_le_bytes([r0, r1, r2, r3])) + 8;
    let (mut format, mut wide) = (None, None);
    loop {
        let [id @ .., s0, s1, s2, s3] = take::<8>(file)?;
        let chunk_bytes = u32::from_le_bytes([s0, s1, s2, s3]);
        let offset = file.stream_position()?;
        match &id {
            b"fmt " => format = Some(Format::parse(&format_chunk(file, chunk_bytes)?)?),
            b"ds64" => {
                wide = Some(u64::from_le_bytes(take::<16>(file)?[8..].try_into().expect("eight bytes")))
            }
            b"data" => {
                let format = format.ok_or(WavError::Header("there are samples before their format"))?;
                let promised = Extent { chunk_bytes, wide, riff_end, offset, size_bytes };
                return format.header(&promised);
            }
            _ => {}
        }
        pass(file, offset + u64::from(chunk_bytes), chunk_bytes % 2 == 1)?;
    }
}

impl Format {
    fn header(&self, extent: &Extent) -> Result<Header, WavError> {
        let frame_bytes = u64::from(self.frame_bytes);
        let present = extent.size_bytes - extent.offset;
        let promised = extent.promised().unwrap_or(present);
        if promised > present {
            let (sample, promised) = (present / frame_bytes, promised / frame_bytes);
            return Err(WavError::Truncated { sample, promised });
        }
        let samples = promised / frame_bytes;
        if samples == 0 {
            return Err(WavError::Empty);
        }
        let &Self { form, channels, rate_hz, .. } = self;
        Ok(Header { form, channels, rate_hz, offset: extent.offset, samples })
    }
}

/// Sizes by which the end of the samples is found. Units: bytes.
struct Extent {
    chunk_bytes: u32,
    /// Size in the chunk `ds64`, if there is one.
    wide: Option<u64>,
    /// Offset of the end of the file by its first chunk.
    riff_end: u64,
    offset: u64,
    size_bytes: u64,
}

impl Extent {
    /// Returns the size of the samples by the header; `None` if its writer did not know it.
    ///
    /// Pipes leave 0xFFFFFFFF (ffmpeg), just under 2 GiB (arecord, SoX), or 0 in a file that goes on.
    fn promised(&self) -> Option<u64> {
        let bytes = match self.wide {
            Some(wide) if self.chunk_bytes == u32::MAX => wide,
            _ => u64::from(self.chunk_bytes),
        };
        let beyond = self.offset.saturating_add(bytes) > self.size_bytes;
        let is_filler = matches!(bytes, 0x7FFF_0000..=0x7FFF_FFFF | 0xFFFF_0000..=0xFFFF_FFFF | u64::MAX);
        let closed = (self.offset + 1..=self.size_bytes).contains(&self.riff_end);
        let is_open = bytes == 0 && !closed;
        (!(beyond && is_filler || is_open)).then_some(bytes)
    }
}

/// Reads the meaningful part of a format chunk.
fn format_chunk(file: &mut impl Read, chunk_bytes: u32) -> Result<Vec<u8>, WavError> {
    if chunk_bytes < 16 {
        return Err(WavError::Header("its format has fewer than 16 bytes"));
    }
    let mut chunk = Vec::new();
    file.take(FORMAT_BYTES.min(chunk_bytes.into())).read_to_end(&mut chunk)?;
    if chunk.len() < 16 { Err(WavError::Cut) } else { Ok(chunk) }
}

/// Goes to the end of a chunk. A pad byte, which is zero, follows an odd one; programs that omit it continue with the
/// next chunk's name, which is not.
fn pass(file: &mut (impl Read + Seek), end: u64, is_odd: bool) -> Result<(), WavError> {
    file.seek(SeekFrom::Start(end))?;
    if is_odd && take::<1>(file)? != [0] {
        file.seek(SeekFrom::Start(end))?;
    }
    Ok(())
}

fn take<const N: usize>(file: &mut impl Read) -> Result<[u8; N], WavError> {
    let mut bytes = [0; N];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(WavError::Cut),
        Err(error) => Err(error.into()),
    }
}
