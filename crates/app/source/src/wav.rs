//! Sound in WAV files (RIFF, RF64, BW64): integers of 8 to 32 bits and floats of 32 and 64, unchanged, with the scale
//! to full scale in the schema.
//!
//! The header is read by own code: `hound` takes valid bits for the lower ones of a container and refuses floats of
//! 64 bits and sizes that a pipe left open, `bwavfile` converts all integers to 32 bits.

mod header;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;

use sample::{Channel, Dtype, Schema, StreamName};
use units::SampleRate;

use crate::numbers::numbered;
use crate::piece::samples_at_once;
use crate::{Description, FileOptions, Piece, Source, SourceError, Timing};
use header::{Form, Header};

/// WAV file being played.
pub struct Wav {
    description: Description,
    file: BufReader<File>,
    header: Header,
    next_sample: u64,
    /// Bytes of the file, and as elements where those differ.
    read: Vec<u8>,
    elements: Vec<u8>,
}

/// Error of a WAV file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WavError {
    /// The first bytes are not those of the format.
    #[error("this is not a WAV file: it does not begin with RIFF, RF64 or BW64")]
    NotWav,
    /// The header contradicts itself.
    #[error("the WAV header is damaged: {0}")]
    Header(&'static str),
    /// The file ends before its samples.
    #[error("the file ends within its header: it is truncated")]
    Cut,
    /// The samples are compressed, or numbers of an unknown kind.
    #[error(
        "its samples have the format 0x{tag:04x} of {bits} bits, neither integers of 8 to 32 bits nor floats\n\
         convert it: ffmpeg -i FILE -c:a pcm_s32le OTHER.wav"
    )]
    Codec {
        /// Format tag of the header.
        tag: u16,
        /// Number of bits of a sample by the header.
        bits: u16,
    },
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
    /// The file cannot be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

impl Wav {
    /// Opens a file, reads its header, and checks that all samples are present.
    ///
    /// # Errors
    /// [`SourceError::Wav`], [`SourceError::Schema`] if the file or its channels are invalid.
    pub fn open(path: &Path, name: StreamName, options: &FileOptions) -> Result<Self, SourceError> {
        let mut file = BufReader::new(File::open(path).map_err(crate::OpenError::from)?);
        let header = header::read(&mut file)?;
        let dtype = header.form.dtype();
        if let Some(asked) = options.dtype.filter(|asked| *asked != dtype) {
            return Err(WavError::WrongDtype { actual: dtype, asked }.into());
        }
        let rate = match options.rate {
            Some(rate) => rate,
            None => SampleRate::hz(header.rate_hz).map_err(WavError::from)?,
        };
        let schema = Schema::new(dtype, rate, channels_of(&header))?;
        let timing = Timing::Recorded { start: None };
        let description = Description { name, schema, timing, samples: Some(header.samples) };
        let mut wav =
            Self { description, file, header, next_sample: 0, read: Vec::new(), elements: Vec::new() };
        wav.rewind()?;
        Ok(wav)
    }

    fn read(&mut self, count: usize) -> Result<(), WavError> {
        self.read.resize(count * usize::from(self.header.channels) * self.header.form.bytes(), 0);
        self.file.read_exact(&mut self.read).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                WavError::Truncated { sample: self.next_sample, promised: self.header.samples }
            }
            _ => error.into(),
        })
    }
}

impl Source for Wav {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        let left = self.header.samples - self.next_sample;
        let count = samples_at_once(at_most, self.description.schema.sample_bytes());
        let count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 {
            return Ok(Piece::End);
        }
        self.read(count)?;
        self.next_sample += count as u64;
        Ok(Piece::Samples(match self.header.form {
            Form::U8 => centred(&mut self.read),
            Form::I24 => widened(&self.read, &mut self.elements),
            Form::I16 | Form::I32 | Form::F4 | Form::F8 => &self.read,
        }))
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.file.seek(SeekFrom::Start(self.header.offset)).map_err(WavError::from)?;
        self.next_sample = 0;
        Ok(())
    }
}

/// Subtracts 128 from unsigned numbers.
fn centred(bytes: &mut [u8]) -> &[u8] {
    bytes.iter_mut().for_each(|byte| *byte ^= 0x80);
    bytes
}

/// Extends integers of three bytes by their sign to four.
fn widened<'a>(bytes: &[u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    out.clear();
    for number in bytes.chunks_exact(3) {
        let sign = if number[2] & 0x80 == 0 { 0 } else { 0xFF };
        out.extend_from_slice(&[number[0], number[1], number[2], sign]);
    }
    out
}

/// Returns the usual names of the channels, and scales integers so that full scale is one.
fn channels_of(header: &Header) -> Vec<Channel> {
    let scale = header.form.scale();
    let name = |index: u16| match (header.channels, index) {
        (1, _) => "sound".to_owned(),
        (2, 0) => "left".to_owned(),
        (2, _) => "right".to_owned(),
        _ => numbered(usize::from(index)).name,
    };
    (0..header.channels).map(|index| Channel::new(name(index), "FS").with_scale(scale, 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_file;
    use crate::piece::testing::{drain, floats};

    /// Two stereo samples of 16 bits at 48 kHz, byte by byte as in the specification.
    const GOLDEN: &[u8] = b"RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\xbb\0\0\0\xee\x02\0\x04\0\x10\0\
        data\x08\0\0\0\x01\0\xff\xff\x00\x80\xff\x7f";
    const FLOAT_TAG: u16 = 3;
    const EXTENSIBLE: u16 = 0xFFFE;
    /// Size that ffmpeg leaves when it writes to a pipe.
    const UNKNOWN: u32 = u32::MAX;

    fn open(bytes: &[u8]) -> Result<(tempfile::NamedTempFile, crate::FileSource), SourceError> {
        let file = tempfile::Builder::new().suffix(".wav").tempfile().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let source = open_file(file.path(), &FileOptions::default())?;
        Ok((file, source))
    }

    fn refusal(bytes: &[u8]) -> String {
        open(bytes).err().expect("it is refused").to_string()
    }

    /// Opens and reads a file; returns the type of its elements and their values in full scales.
    fn heard(bytes: &[u8]) -> (Dtype, Vec<f64>) {
        let (_file, mut source) = open(bytes).unwrap();
        let schema = source.description().schema.clone();
        let (bytes, _) = drain(&mut source).unwrap();
        let scaled = floats(&source, &bytes).iter().map(|value| value * schema.channels[0].scale).collect();
        (schema.dtype, scaled)
    }

    fn chunk(id: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let size = u32::try_from(content.len()).unwrap().to_le_bytes();
        let pad = vec![0; content.len() % 2];
        [id, &size[..], content, &pad].concat()
    }

    fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
        let content = [b"WAVE".to_vec(), chunks.concat()].concat();
        chunk(b"RIFF", &content)
    }

    /// The same with other sizes of the file and of its last chunk, the samples.
    fn with_sizes(mut file: Vec<u8>, data: &[u8], file_bytes: u32, data_bytes: u32) -> Vec<u8> {
        let at = file.len() - data.len() - 4;
        file[4..8].copy_from_slice(&file_bytes.to_le_bytes());
        file[at..at + 4].copy_from_slice(&data_bytes.to_le_bytes());
        file
    }

    /// Content of a format chunk of one channel at 8 kHz.
    fn format(tag: u16, container_bytes: u16, bits: u16) -> Vec<u8> {
        let mut content = [tag, 1].map(u16::to_le_bytes).concat();
        content.extend([8_000, 8_000 * u32::from(container_bytes)].map(u32::to_le_bytes).concat());
        content.extend([container_bytes, bits].map(u16::to_le_bytes).concat());
        content
    }

    /// Content of an extensible one, of which `more` bytes have no meaning.
    fn extensible(tag: u16, container_bytes: u16, valid_bits: u16, more: usize) -> Vec<u8> {
        let mut content = format(EXTENSIBLE, container_bytes, container_bytes * 8);
        content.extend(
            [22 + u16::try_from(more).unwrap(), valid_bits, 4, 0, tag].map(u16::to_le_bytes).concat(),
        );
        content.extend(*b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
        content.resize(40 + more, 0);
        content
    }

    fn of_16_bits() -> (Vec<u8>, Vec<f64>) {
        let values = [-32_768_i16, 0, 1, 16_384];
        let scaled = values.iter().map(|value| f64::from(*value) / 32_768.0).collect();
        (values.map(i16::to_le_bytes).concat(), scaled)
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
    fn every_width_is_read_to_its_last_bit() {
        let file = |tag, bytes: u16, data: &[u8]| {
            riff(&[chunk(b"fmt ", &format(tag, bytes, bytes * 8)), chunk(b"data", data)])
        };
        assert_eq!(heard(&file(1, 1, &[0, 128, 129])), (Dtype::I8, vec![-1.0, 0.0, 1.0 / 128.0]));
        let (data, scaled) = of_16_bits();
        assert_eq!(heard(&file(1, 2, &data)), (Dtype::I16, scaled));
        let three = [0, 0, 0x80, 0xFF, 0xFF, 0xFF, 1, 0, 0];
        let last = 1.0 / 8_388_608.0;
        assert_eq!(heard(&file(1, 3, &three)), (Dtype::I32, vec![-1.0, -last, last]));
        let four = [i32::MIN, 1].map(i32::to_le_bytes).concat();
        assert_eq!(heard(&file(1, 4, &four)), (Dtype::I32, vec![-1.0, 1.0 / 2_147_483_648.0]));
        let float = [0.25_f32, -3.5].map(f32::to_le_bytes).concat();
        assert_eq!(heard(&file(FLOAT_TAG, 4, &float)), (Dtype::F4, vec![0.25, -3.5]));
        let double = [0.1_f64, -1e-300].map(f64::to_le_bytes).concat();
        assert_eq!(heard(&file(FLOAT_TAG, 8, &double)), (Dtype::F8, vec![0.1, -1e-300]));
    }

    #[test]
    fn valid_bits_are_the_upper_ones_of_their_container() {
        let values = [0.5, -0.5, 0.25, -0.25, 0.75];
        let data = [2, -2, 1, -1, 3].map(|quarters: i32| (quarters << 29).to_le_bytes()).concat();
        let of = |format: &[u8], data: &[u8]| riff(&[chunk(b"fmt ", format), chunk(b"data", data)]);
        assert_eq!(heard(&of(&extensible(1, 4, 24, 0), &data)), (Dtype::I32, values.to_vec()));
        assert_eq!(heard(&of(&format(1, 4, 24), &data)), (Dtype::I32, values.to_vec()));
        let (data, scaled) = of_16_bits();
        assert_eq!(heard(&of(&extensible(1, 2, 12, 0), &data)), (Dtype::I16, scaled));
        let three = heard(&of(&extensible(1, 3, 20, 0), &[0, 0, 0x40]));
        assert_eq!(three, (Dtype::I32, vec![0.5]));
    }

    #[test]
    fn format_chunks_of_every_length_are_read() {
        let (data, scaled) = of_16_bits();
        let longer = |bytes: usize| [format(1, 2, 16), vec![0; bytes]].concat();
        for content in
            [longer(0), longer(2), longer(3), longer(24), extensible(1, 2, 16, 0), extensible(1, 2, 16, 2)]
        {
            let file = riff(&[chunk(b"fmt ", &content), chunk(b"data", &data)]);
            assert_eq!(heard(&file), (Dtype::I16, scaled.clone()), "{} bytes", content.len());
        }
        let short = riff(&[chunk(b"fmt ", &format(1, 2, 16)[..14]), chunk(b"data", &data)]);
        assert!(refusal(&short).contains("fewer than 16 bytes"));
    }

    #[test]
    fn an_odd_chunk_is_passed_with_its_pad_byte_and_without() {
        let (data, scaled) = of_16_bits();
        let (format, note) = (chunk(b"fmt ", &format(1, 2, 16)), chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf5"));
        let unpadded = note[..note.len() - 1].to_vec();
        for note in [note, unpadded] {
            let trailer = chunk(b"id3 ", b"behind the samples");
            let file = riff(&[format.clone(), note, chunk(b"data", &data), trailer]);
            assert_eq!(heard(&file), (Dtype::I16, scaled.clone()));
        }
    }

    #[test]
    fn sizes_that_a_pipe_leaves_open_end_with_the_file() {
        let (data, scaled) = of_16_bits();
        let file = riff(&[chunk(b"fmt ", &format(1, 2, 16)), chunk(b"data", &data)]);
        for (file_bytes, data_bytes) in [
            (UNKNOWN, UNKNOWN),
            (0x7FFF_FFFE, 0x7FFF_FFDA),
            (0x7FFF_F024, 0x7FFF_F000),
            (0, 0),
            (36, 0),
            (UNKNOWN, 0),
        ] {
            let streamed = with_sizes(file.clone(), &data, file_bytes, data_bytes);
            assert_eq!(heard(&streamed), (Dtype::I16, scaled.clone()), "{file_bytes:#x} {data_bytes:#x}");
        }
        let honest = with_sizes(file, &data, 0x8000_0024, 0x8000_0000);
        assert!(refusal(&honest).contains("within sample 4 of 1073741824"));
    }

    #[test]
    fn sizes_of_64_bits_are_in_a_chunk_of_their_own() {
        let (data, scaled) = of_16_bits();
        let of = |id: &[u8; 4], data_bytes: u64| {
            let mut wide = [100, data_bytes, 4].map(u64::to_le_bytes).concat();
            wide.extend([0; 4]);
            let chunks = [chunk(b"ds64", &wide), chunk(b"fmt ", &format(1, 2, 16)), chunk(b"data", &data)];
            let mut file = with_sizes(riff(&chunks), &data, UNKNOWN, UNKNOWN);
            file[..4].copy_from_slice(id);
            file
        };
        for id in [b"RF64", b"BW64"] {
            assert_eq!(heard(&of(id, 8)), (Dtype::I16, scaled.clone()));
            assert_eq!(heard(&of(id, 4)).1, scaled[..2]);
            assert_eq!(heard(&of(id, 0)).1, scaled, "a pipe");
            assert!(refusal(&of(id, 1 << 33)).contains("within sample 4 of 4294967296"));
        }
    }

    #[test]
    fn every_truncation_is_noticed() {
        for len in 1..GOLDEN.len() {
            let message = refusal(&GOLDEN[..len]);
            if len >= 44 {
                let sample = (len - 44) / 4;
                assert!(message.contains(&format!("within sample {sample} of 2")), "{len}: {message}");
            }
        }
    }

    #[test]
    fn files_without_samples_are_refused() {
        assert!(refusal(b"PK\x03\x04 not a sound").contains("not a WAV file"));
        let format = |tag, bits| chunk(b"fmt ", &format(tag, 2, bits));
        let of = |format| riff(&[format, chunk(b"data", b""), chunk(b"LIST", b"INFO")]);
        assert!(refusal(&of(format(1, 16))).contains("no samples"));
        assert!(refusal(&of(format(17, 4))).contains("ffmpeg"));
        assert!(refusal(&of(format(1, 24))).contains("0x0001 of 24 bits"), "more bits than bytes");
        let reversed = riff(&[chunk(b"data", b"12"), format(1, 16)]);
        assert!(refusal(&reversed).contains("before their format"));
        let headless = riff(&[format(1, 16)]);
        assert!(refusal(&headless).contains("within its header"));
    }
}
