//! Sound in WAV files: integers of 8 to 32 bits and floats, unchanged, with the scale to full scale in the schema.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;

use hound::{SampleFormat, WavReader, WavSpec};
use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;

use crate::numbers::numbered;
use crate::piece::samples_at_once;
use crate::{Description, FileOptions, Piece, Source, SourceError, Timing};

/// WAV file being played.
pub struct Wav {
    description: Description,
    reader: WavReader<BufReader<File>>,
    spec: WavSpec,
    next_sample: u64,
    buffer: Vec<u8>,
}

/// Error of a WAV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WavError {
    /// The file is not WAV, or of an unsupported kind.
    #[error("not a WAV file of integers or floats: {0}")]
    Format(hound::Error),
    /// The file has no samples.
    #[error("the file has no samples")]
    Empty,
    /// The file ends early.
    #[error("the file ends within sample {sample} of {promised}: it is truncated")]
    Truncated {
        /// Number of the first missing sample, from 0.
        sample: u64,
        /// Number of samples according to the header.
        promised: u64,
    },
    /// The rate is zero.
    #[error("the header's rate: {0}")]
    Rate(#[from] units::RateError),
    /// Another type was requested.
    #[error("the file's elements are {actual}, not {asked}\nomit --dtype: sound is published unchanged")]
    WrongDtype {
        /// Type of the file's elements.
        actual: Dtype,
        /// Requested type.
        asked: Dtype,
    },
}

impl Wav {
    /// Opens a file, reads its header, and checks that all samples are present.
    ///
    /// # Errors
    /// [`SourceError::Wav`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let reader = WavReader::open(path).map_err(WavError::Format)?;
        let spec = reader.spec();
        let samples = u64::from(reader.duration());
        if samples == 0 {
            return Err(WavError::Empty.into());
        }
        check_length(path, samples)?;
        let dtype = dtype_of(spec);
        if let Some(asked) = options.dtype.filter(|asked| *asked != dtype) {
            return Err(WavError::WrongDtype { actual: dtype, asked }.into());
        }
        let rate = match options.rate {
            Some(rate) => rate,
            None => SampleRate::hz(spec.sample_rate).map_err(WavError::from)?,
        };
        let schema = Schema::new(dtype, rate, channels_of(spec))?;
        let timing = Timing::Recorded { start: None };
        let description = Description { name, schema, timing, samples: Some(samples) };
        Ok(Self { description, reader, spec, next_sample: 0, buffer: Vec::new() })
    }

    fn read(&mut self, count: usize) -> Result<(), WavError> {
        let elements = count * usize::from(self.spec.channels);
        let buffer = &mut self.buffer;
        macro_rules! append {
            ($type:ty) => {
                self.reader
                    .samples::<$type>()
                    .take(elements)
                    .try_for_each(|value| value.map(|value| buffer.extend_from_slice(&value.to_le_bytes())))
            };
        }
        let read = match dtype_of(self.spec) {
            Dtype::I8 => append!(i8),
            Dtype::I16 => append!(i16),
            Dtype::I32 => append!(i32),
            _ => append!(f32),
        };
        read.map_err(|error| match error {
            hound::Error::IoError(_) => self.truncated(),
            hound::Error::FormatError(_) => self.truncated(),
            other => WavError::Format(other),
        })
    }

    fn truncated(&self) -> WavError {
        let whole = (self.buffer.len() / self.description.schema.sample_bytes()) as u64;
        WavError::Truncated { sample: self.next_sample + whole, promised: u64::from(self.reader.duration()) }
    }
}

impl Source for Wav {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        let left = u64::from(self.reader.duration()) - self.next_sample;
        let count = samples_at_once(at_most, self.description.schema.sample_bytes());
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return Ok(Piece::End);
        }
        self.buffer.clear();
        self.read(count)?;
        self.next_sample += count as u64;
        Ok(Piece::Samples(&self.buffer))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.reader.seek(0).map_err(|error| WavError::Format(hound::Error::IoError(error)))?;
        self.next_sample = 0;
        Ok(())
    }
}

/// Checks that the file is as long as its header says.
fn check_length(path: &Path, promised: u64) -> Result<(), WavError> {
    let failed = |error| WavError::Format(hound::Error::IoError(error));
    let (offset, data_bytes, size_bytes) = data_chunk(path).map_err(failed)?;
    let present_bytes = size_bytes.saturating_sub(offset);
    if present_bytes >= data_bytes {
        return Ok(());
    }
    Err(WavError::Truncated { sample: present_bytes / (data_bytes / promised).max(1), promised })
}

/// Finds the samples' chunk; returns the offset of its content, its size by the header, and the size of the file.
///
/// Source: Multimedia Programming Interface and Data Specifications 1.0 (IBM, Microsoft, 1991), "RIFF".
fn data_chunk(path: &Path) -> std::io::Result<(u64, u64, u64)> {
    let mut file = BufReader::new(File::open(path)?);
    let size_bytes = file.get_ref().metadata()?.len();
    file.seek(SeekFrom::Start(12))?;
    loop {
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [id @ .., b0, b1, b2, b3] = head;
        let chunk_bytes = u64::from(u32::from_le_bytes([b0, b1, b2, b3]));
        if id == *b"data" {
            return Ok((file.stream_position()?, chunk_bytes, size_bytes));
        }
        // Chunks begin at even offsets.
        file.seek(SeekFrom::Current(i64::try_from(chunk_bytes.next_multiple_of(2)).expect("33 bits")))?;
    }
}

fn dtype_of(spec: WavSpec) -> Dtype {
    match (spec.sample_format, spec.bits_per_sample) {
        (SampleFormat::Float, _) => Dtype::F4,
        (SampleFormat::Int, ..=8) => Dtype::I8,
        (SampleFormat::Int, ..=16) => Dtype::I16,
        (SampleFormat::Int, _) => Dtype::I32,
    }
}

/// Returns the usual names of the channels, and scales integers so that full scale is one.
fn channels_of(spec: WavSpec) -> Vec<Channel> {
    let scale = match spec.sample_format {
        SampleFormat::Float => 1.0,
        SampleFormat::Int => 0.5_f64.powi(i32::from(spec.bits_per_sample) - 1),
    };
    let name = |index: u16| match (spec.channels, index) {
        (1, _) => "sound".to_owned(),
        (2, 0) => "left".to_owned(),
        (2, _) => "right".to_owned(),
        _ => numbered(usize::from(index)).name,
    };
    (0..spec.channels).map(|index| Channel::new(name(index), "FS").with_scale(scale, 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_file;
    use crate::piece::testing::{drain, floats};

    /// Two stereo samples of 16 bits at 48 kHz, byte by byte as in the specification.
    const GOLDEN: &[u8] = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\xbb\0\0\0\xee\x02\0\x04\0\x10\0\
        data\x08\0\0\0\x01\0\xff\xff\x00\x80\xff\x7f";

    fn open(bytes: &[u8]) -> Result<(tempfile::NamedTempFile, crate::FileSource), SourceError> {
        let file = tempfile::Builder::new().suffix(".wav").tempfile().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let source = open_file(file.path(), &FileOptions::default())?;
        Ok((file, source))
    }

    fn written(
        spec: WavSpec,
        write: impl Fn(&mut hound::WavWriter<&mut std::io::Cursor<Vec<u8>>>),
    ) -> Vec<u8> {
        let mut cursor = std::io::Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut cursor, spec).unwrap();
        write(&mut writer);
        writer.finalize().unwrap();
        cursor.into_inner()
    }

    #[test]
    fn golden_bytes_are_read_as_they_are() {
        let (_file, mut source) = open(GOLDEN).unwrap();
        let schema = source.description().schema.clone();
        assert_eq!((schema.dtype, schema.rate), (Dtype::I16, "48k".parse().unwrap()));
        assert_eq!(schema.channels[0], Channel::new("left", "FS").with_scale(1.0 / 32_768.0, 0.0));
        let (bytes, _) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [1.0, -1.0, -32_768.0, 32_767.0]);
        source.rewind().unwrap();
        assert_eq!(drain(&mut source).unwrap().0, bytes);
    }

    #[test]
    fn every_width_is_read() {
        for (bits, dtype) in [(8, Dtype::I8), (16, Dtype::I16), (24, Dtype::I32), (32, Dtype::I32)] {
            let spec = WavSpec {
                channels: 1,
                sample_rate: 8_000,
                bits_per_sample: bits,
                sample_format: SampleFormat::Int,
            };
            let lowest = -(1_i64 << (bits - 1));
            let bytes = written(spec, |writer| {
                writer.write_sample(i32::try_from(lowest).unwrap()).unwrap();
                writer.write_sample(5_i32).unwrap();
            });
            let (_file, mut source) = open(&bytes).unwrap();
            assert_eq!(source.description().schema.dtype, dtype);
            let (bytes, _) = drain(&mut source).unwrap();
            #[expect(clippy::cast_precision_loss, reason = "32 bits")]
            let expected = [lowest as f64, 5.0];
            assert_eq!(floats(&source, &bytes), expected);
            assert_eq!(source.description().schema.channels[0].scale * expected[0], -1.0);
        }
        let spec = WavSpec {
            channels: 1,
            sample_rate: 8_000,
            bits_per_sample: 32,
            sample_format: SampleFormat::Float,
        };
        let (_file, mut source) =
            open(&written(spec, |writer| writer.write_sample(0.25_f32).unwrap())).unwrap();
        let (bytes, _) = drain(&mut source).unwrap();
        assert_eq!(floats(&source, &bytes), [0.25]);
    }

    #[test]
    fn every_truncation_is_noticed() {
        for len in 1..GOLDEN.len() {
            let message = open(&GOLDEN[..len]).err().expect("noticed on opening").to_string();
            if len >= 44 {
                let sample = (len - 44) / 4;
                assert!(message.contains(&format!("within sample {sample} of 2")), "{len}: {message}");
            }
        }
    }

    #[test]
    fn what_is_no_sound_is_refused() {
        let message = open(b"PK\x03\x04 not a sound").err().expect("it is refused").to_string();
        assert!(message.contains("not a WAV file"), "{message}");
        let mut empty = GOLDEN[..44].to_vec();
        empty[40] = 0;
        assert!(open(&empty).err().expect("it is refused").to_string().contains("no samples"));
    }
}
