//! WAV export: sound programs and SciPy read the file directly.
//!
//! Elements are unchanged, and their scale to the channel's unit stands in a comment. A file over 4 GiB is an RF64.
//! What WAV cannot say is refused: holes, other types, rates that are no whole number.
//!
//! Source: Multimedia Programming Interface and Data Specifications 1.0 (IBM, Microsoft, 1991); Multiple Channel Audio
//! Data and WAVE Files (Microsoft, 2007); EBU Tech 3306 (2018), which reserves a chunk `JUNK` for the sizes of 64 bits.

use std::io::{BufWriter, Seek, SeekFrom, Write};

use sample::{Dtype, Schema};

use super::{Export, Exported};
use crate::error::ArchiveError;
use crate::feed::Piece;

/// Base of the subformats of the extensible format, behind the format tag.
const SUBFORMAT: [u8; 14] = [0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71];
const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;
/// Content of the chunk that is `ds64` in a large file.
const WIDE_BYTES: usize = 28;
/// Scale of integers of 24 bits to full scale, in streams of `i32`.
const SCALE_OF_24_BITS: f64 = 1.0 / 8_388_608.0;

/// Reason why a recording cannot be exported as WAV.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WavError {
    /// The file has no such numbers.
    #[error("WAV files have no {0} samples\nexport as parquet or npy")]
    Dtype(Dtype),
    /// The rate is no whole number.
    #[error("WAV files have a whole number of samples per second, not {0}\nexport as parquet or npy")]
    Rate(units::SampleRate),
    /// A sample is too large.
    #[error("WAV files have samples of at most 65535 bytes, not {0}\nexport as parquet or npy")]
    Sample(usize),
    /// Samples or elements are missing between others.
    #[error(
        "samples from index {first_index} on are missing, and a WAV file has no holes\n\
         export what is before and behind with --from and --to, or everything as parquet"
    )]
    Hole {
        /// Index of the first sample that is not whole.
        first_index: u64,
    },
    /// An integer has more than the 24 bits that its scale promises.
    #[error(
        "the sample of index {index} has {value}, beyond the full scale of 24 bits\nexport as parquet or npy"
    )]
    Beyond {
        /// Index of the sample.
        index: u64,
        /// Its element.
        value: i32,
    },
    /// The archive cannot be read, or the file not written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pub(super) fn write(export: &Export<'_>, target: impl Write + Seek) -> Result<Exported, WavError> {
    let description = &export.recording.description;
    let mut file = File::begin(
        target,
        &description.schema,
        comment(&description.name.to_string(), &description.schema),
    )?;
    let mut exported = Exported::default();
    // Holes before the first sample and behind the last are none in the file.
    let mut hole: Option<u64> = None;
    for piece in export.pieces() {
        match piece? {
            Piece::Block(block) => {
                if let Some(first_index) = hole.take().filter(|_| exported.samples > 0) {
                    return Err(WavError::Hole { first_index });
                }
                if !block.missing.is_empty() {
                    return Err(WavError::Hole { first_index: block.first_index });
                }
                file.append(block.data.as_bytes(), block.first_index)?;
                exported.samples += block.samples;
            }
            Piece::Hole(found) => {
                hole.get_or_insert(found.first_index);
                exported.holes.push(found);
            }
            Piece::Epoch(_) => {}
        }
    }
    file.finish(exported.samples)?;
    Ok(exported)
}

/// Returns the stream's name and its channels with their units, for a comment in the file.
fn comment(stream: &str, schema: &Schema) -> String {
    let channels = schema.channels.iter().map(|channel| {
        let scaled = if (channel.scale, channel.offset) == (1.0, 0.0) {
            String::new()
        } else {
            format!(" = {} x + {}", channel.scale, channel.offset)
        };
        let unit = if channel.unit.is_empty() { String::new() } else { format!(" [{}]", channel.unit) };
        format!("{}{unit}{scaled}", channel.name)
    });
    format!("{stream}: {}", channels.collect::<Vec<_>>().join(", "))
}

/// File being written.
struct File<W: Write> {
    target: BufWriter<W>,
    head: Head,
    /// Chunk behind the samples.
    info: Vec<u8>,
    converted: Vec<u8>,
}

/// What stands before the samples.
struct Head {
    form: Form,
    channels: u16,
    rate_hz: u32,
}

/// Numbers in the file, by the dtype of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// `i8` as unsigned bytes.
    Byte,
    /// `u8` as `i16`.
    WideByte,
    /// `u16` as `i32`.
    WideWord,
    /// `i32` that are scaled to 24 bits.
    Packed,
    /// Elements unchanged.
    Same { bytes: u16, tag: u16 },
}

impl Form {
    fn of(schema: &Schema) -> Result<Self, WavError> {
        let of_24_bits = || schema.channels.iter().all(|channel| channel.scale == SCALE_OF_24_BITS);
        Ok(match schema.dtype {
            Dtype::I8 => Self::Byte,
            Dtype::U8 => Self::WideByte,
            Dtype::U16 => Self::WideWord,
            Dtype::I16 => Self::Same { bytes: 2, tag: PCM },
            Dtype::I32 if of_24_bits() => Self::Packed,
            Dtype::I32 => Self::Same { bytes: 4, tag: PCM },
            Dtype::F4 => Self::Same { bytes: 4, tag: FLOAT },
            Dtype::F8 => Self::Same { bytes: 8, tag: FLOAT },
            other => return Err(WavError::Dtype(other)),
        })
    }

    /// Returns the size of a number in the file.
    const fn bytes(self) -> u16 {
        match self {
            Self::Byte => 1,
            Self::WideByte => 2,
            Self::Packed => 3,
            Self::WideWord => 4,
            Self::Same { bytes, .. } => bytes,
        }
    }

    const fn tag(self) -> u16 {
        if let Self::Same { tag, .. } = self { tag } else { PCM }
    }
}

impl<W: Write + Seek> File<W> {
    fn begin(target: W, schema: &Schema, comment: String) -> Result<Self, WavError> {
        let head = Head::of(schema)?;
        let mut target = BufWriter::new(target);
        target.write_all(&head.bytes(0, 0))?;
        // A text ends with a zero.
        let info = [b"INFO".to_vec(), chunk(b"ICMT", &[comment.as_bytes(), &[0]].concat())].concat();
        Ok(Self { target, head, info: chunk(b"LIST", &info), converted: Vec::new() })
    }

    /// Appends whole samples; the index of the first is for errors.
    fn append(&mut self, elements: &[u8], first_index: u64) -> Result<(), WavError> {
        let out = &mut self.converted;
        out.clear();
        match self.head.form {
            Form::Same { .. } => return Ok(self.target.write_all(elements)?),
            Form::Byte => out.extend(elements.iter().map(|byte| byte ^ 0x80)),
            Form::WideByte => elements.iter().for_each(|byte| out.extend([*byte, 0])),
            Form::WideWord => elements.chunks_exact(2).for_each(|word| out.extend([word[0], word[1], 0, 0])),
            Form::Packed => {
                for (at, element) in elements.chunks_exact(4).enumerate() {
                    let value = i32::from_le_bytes(element.try_into().expect("four bytes"));
                    if !(-(1 << 23)..1 << 23).contains(&value) {
                        let index = first_index + (at / usize::from(self.head.channels)) as u64;
                        return Err(WavError::Beyond { index, value });
                    }
                    out.extend_from_slice(&element[..3]);
                }
            }
        }
        Ok(self.target.write_all(out)?)
    }

    /// Writes what stands behind the samples, and the sizes before them.
    fn finish(mut self, samples: u64) -> Result<(), WavError> {
        if self.head.data_bytes(samples) % 2 == 1 {
            self.target.write_all(&[0])?;
        }
        self.target.write_all(&self.info)?;
        self.target.seek(SeekFrom::Start(0))?;
        self.target.write_all(&self.head.bytes(samples, self.info.len()))?;
        Ok(self.target.flush()?)
    }
}

impl Head {
    fn of(schema: &Schema) -> Result<Self, WavError> {
        let form = Form::of(schema)?;
        if schema.rate.denominator() != 1 {
            return Err(WavError::Rate(schema.rate));
        }
        let elements = schema.elements_per_sample();
        let sample_bytes = elements as usize * usize::from(form.bytes());
        let channels = u16::try_from(elements).ok().filter(|_| sample_bytes <= usize::from(u16::MAX));
        let channels = channels.ok_or(WavError::Sample(sample_bytes))?;
        Ok(Self { form, channels, rate_hz: schema.rate.numerator() })
    }

    fn sample_bytes(&self) -> u16 {
        self.channels * self.form.bytes()
    }

    fn data_bytes(&self, samples: u64) -> u64 {
        samples * u64::from(self.sample_bytes())
    }

    /// Returns everything before the samples, whose size is the same for all numbers of them.
    fn bytes(&self, samples: u64, info_bytes: usize) -> Vec<u8> {
        let of_32_bits = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut inner = chunk(b"fmt ", &self.format());
        if self.form.tag() == FLOAT {
            inner.extend(chunk(b"fact", &of_32_bits(samples).to_le_bytes()));
        }
        let data_bytes = self.data_bytes(samples);
        let before = 4 + 8 + WIDE_BYTES + inner.len() + 8;
        let riff_bytes = (before + info_bytes) as u64 + data_bytes.next_multiple_of(2);
        let is_wide = riff_bytes > u64::from(u32::MAX);
        let mut head = if is_wide { b"RF64\xff\xff\xff\xff".to_vec() } else { b"RIFF".to_vec() };
        if !is_wide {
            head.extend(of_32_bits(riff_bytes).to_le_bytes());
        }
        let sizes = if is_wide { [riff_bytes, data_bytes, samples] } else { [0; 3] };
        let sizes = [sizes.map(u64::to_le_bytes).concat(), vec![0; 4]].concat();
        head.extend(b"WAVE");
        head.extend(chunk(if is_wide { b"ds64" } else { b"JUNK" }, &sizes));
        head.extend(inner);
        head.extend(b"data");
        head.extend(if is_wide { [0xFF; 4] } else { of_32_bits(data_bytes).to_le_bytes() });
        head
    }

    /// Returns the content of the format chunk: plain for sound of one or two channels and 16 bits, which every program
    /// reads, and extensible as the specification has it for the rest.
    fn format(&self) -> Vec<u8> {
        let (bytes, tag) = (self.form.bytes(), self.form.tag());
        let is_plain = self.channels <= 2 && bytes <= 2;
        let bits = bytes * 8;
        let mut format =
            [if is_plain { tag } else { EXTENSIBLE }, self.channels].map(u16::to_le_bytes).concat();
        let rate = u64::from(self.rate_hz);
        let bytes_per_s = u32::try_from(rate * u64::from(self.sample_bytes())).unwrap_or(u32::MAX);
        format.extend([self.rate_hz, bytes_per_s].map(u32::to_le_bytes).concat());
        format.extend([self.sample_bytes(), bits].map(u16::to_le_bytes).concat());
        if !is_plain {
            // No channel belongs to a speaker.
            format.extend([22, bits, 0, 0, tag].map(u16::to_le_bytes).concat());
            format.extend(SUBFORMAT);
        }
        format
    }
}

fn chunk(id: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len()).expect("a header is short");
    let mut chunk = [&id[..], &size.to_le_bytes(), content].concat();
    chunk.resize(chunk.len().next_multiple_of(2), 0);
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Channel;
    use std::io::Cursor;

    fn schema(dtype: Dtype, rate: &str, channels: usize) -> Schema {
        let channels = (0..channels).map(|at| Channel::new(format!("c{at}"), "V")).collect();
        Schema::new(dtype, rate.parse().unwrap(), channels).unwrap()
    }

    fn written(schema: &Schema, elements: &[u8], samples: u64) -> Result<Vec<u8>, WavError> {
        let mut target = Cursor::new(Vec::new());
        let mut file = File::begin(&mut target, schema, "s".to_owned())?;
        file.append(elements, 0)?;
        file.finish(samples)?;
        Ok(target.into_inner())
    }

    #[test]
    fn sound_of_16_bits_is_a_plain_file() {
        let elements = [1_i16, -2, 3, -4].map(i16::to_le_bytes).concat();
        let file = written(&schema(Dtype::I16, "8000", 2), &elements, 2).unwrap();
        let expected =
            b"RIFF\x66\0\0\0WAVEJUNK\x1c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
            fmt \x10\0\0\0\x01\0\x02\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x10\0data\x08\0\0\0\
            \x01\0\xfe\xff\x03\0\xfc\xffLIST\x0e\0\0\0INFOICMT\x02\0\0\0s\0";
        assert_eq!(file, expected);
    }

    #[test]
    fn every_dtype_has_its_form_or_is_refused() {
        let body = |dtype, elements: &[u8]| {
            let file = written(&schema(dtype, "1", 1), elements, 1).unwrap();
            let at = file.windows(4).position(|id| id == b"data").unwrap() + 4;
            let size = u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
            let format = file.windows(4).position(|id| id == b"fmt ").unwrap() + 8;
            let tag = u16::from_le_bytes([file[format], file[format + 1]]);
            let tag = if tag == EXTENSIBLE { file[format + 24].into() } else { tag };
            (tag, file[at + 4..][..size].to_vec())
        };
        assert_eq!(body(Dtype::I8, &[0xFF]), (PCM, vec![0x7F]));
        assert_eq!(body(Dtype::U8, &[0xFF]), (PCM, vec![0xFF, 0]));
        assert_eq!(body(Dtype::U16, &[0xFF, 0xFE]), (PCM, vec![0xFF, 0xFE, 0, 0]));
        assert_eq!(body(Dtype::I32, &[1, 2, 3, 4]), (PCM, vec![1, 2, 3, 4]));
        assert_eq!(body(Dtype::F4, &[1, 2, 3, 4]), (FLOAT, vec![1, 2, 3, 4]));
        assert_eq!(body(Dtype::F8, &[1, 2, 3, 4, 5, 6, 7, 8]), (FLOAT, vec![1, 2, 3, 4, 5, 6, 7, 8]));
        for dtype in [Dtype::I64, Dtype::U32, Dtype::U64, Dtype::C8, Dtype::C16, Dtype::Bool] {
            let said = written(&schema(dtype, "1", 1), &[], 0).unwrap_err().to_string();
            assert!(said.contains(&format!("no {dtype} samples")), "{said}");
        }
    }

    #[test]
    fn integers_scaled_to_24_bits_have_three_bytes() {
        let mut schema = schema(Dtype::I32, "1", 1);
        schema.channels[0].scale = SCALE_OF_24_BITS;
        let ends = [-(1_i32 << 23), (1 << 23) - 1];
        let file = written(&schema, &ends.map(i32::to_le_bytes).concat(), 2).unwrap();
        let behind = b"\x06\0\0\0\0\0\x80\xff\xff\x7fLIST";
        assert!(file.windows(behind.len()).any(|window| window == behind));
        let beyond = written(&schema, &(1_i32 << 23).to_le_bytes(), 1).unwrap_err();
        assert!(matches!(beyond, WavError::Beyond { index: 0, value: 8_388_608 }));
    }

    #[test]
    fn an_odd_number_of_bytes_is_padded() {
        let file = written(&schema(Dtype::I8, "1", 1), &[1, 2, 3], 3).unwrap();
        assert!(file.windows(12).any(|window| window == b"\x03\0\0\0\x81\x82\x83\0LIST"));
        let riff_bytes = u32::from_le_bytes(file[4..8].try_into().unwrap()) as usize;
        assert_eq!(riff_bytes + 8, file.len());
    }

    #[test]
    fn a_file_over_4_gib_has_sizes_of_64_bits() {
        let head = Head::of(&schema(Dtype::F8, "1", 1)).unwrap();
        let (small, large) = (head.bytes(1 << 28, 0), head.bytes(1 << 29, 0));
        assert_eq!((&small[..4], &small[12..16]), (&b"RIFF"[..], &b"JUNK"[..]));
        assert_eq!((&large[..8], &large[12..16]), (&b"RF64\xff\xff\xff\xff"[..], &b"ds64"[..]));
        assert_eq!(large[28..36], (1_u64 << 32).to_le_bytes());
        assert_eq!(large[36..44], (1_u64 << 29).to_le_bytes());
        assert_eq!((large.len(), &large[large.len() - 4..]), (small.len(), &[0xFF; 4][..]));
    }

    #[test]
    fn rates_and_samples_without_a_place_in_the_header_are_refused() {
        let said = |schema: &Schema| written(schema, &[], 0).unwrap_err().to_string();
        assert!(said(&schema(Dtype::F4, "1000/3", 1)).contains("not 1000/3"));
        let mut wide = schema(Dtype::F4, "1", 1);
        wide.channels[0].shape = vec![16_384];
        assert!(said(&wide).contains("at most 65535 bytes, not 65536"));
        wide.channels[0].shape = vec![16_383];
        assert!(written(&wide, &[], 0).is_ok());
    }
}
