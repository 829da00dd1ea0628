//! The contract between whatever acquires samples and whoever publishes them.

use std::num::NonZeroU64;
use std::path::PathBuf;

use ledger::Stage;
use sample::{Schema, SchemaError, StreamName};
use units::WallTime;

/// The most bytes a source hands over at once, however much is asked for.
///
/// Large enough that the cost of a call vanishes at a million samples per second, small enough to stay in
/// a second-level cache. A single sample larger than that is still handed over whole.
pub const MAX_PIECE_BYTES: usize = 256 * 1024;

/// Something samples are pulled from.
pub trait Source: Send {
    /// Returns what the samples are.
    fn description(&self) -> &Description;

    /// Hands over the next samples, or tells that some are missing.
    ///
    /// Blocks only if the source is [`Timing::Live`]; then it returns with what has arrived instead of
    /// waiting for `at_most`. After [`Piece::End`] every further call gives `End` again.
    ///
    /// # Errors
    /// What is wrong with the file, the device or the text, with its place; samples before it were handed over.
    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError>;

    /// Goes back to the first sample.
    ///
    /// # Errors
    /// [`SourceError::NotRepeatable`] if what was read is gone, and what the medium says.
    fn rewind(&mut self) -> Result<(), SourceError> {
        Err(SourceError::NotRepeatable(self.description().name.clone()))
    }
}

/// What a source's samples are.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// The stream name to publish under unless the user chooses another.
    pub name: StreamName,
    /// What the samples mean.
    pub schema: Schema,
    /// When the samples come to be.
    pub timing: Timing,
    /// How many samples there are from the beginning to the end, holes included, where that is known.
    pub samples: Option<u64>,
}

/// When a source's samples come to be, and so whose clock tells their time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// They exist already; a [`Player`](crate::Player) gives them out at their rate.
    Recorded {
        /// When the first was taken, where the recording tells.
        start: Option<WallTime>,
    },
    /// They come to be when asked for, so they are asked for at their rate and stamped by the system's clock.
    OnDemand,
    /// They arrive by themselves; `next` waits for them and the system's clock stamps them.
    Live,
}

/// A run of consecutive samples, or the lack of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Whole samples, little-endian; shape `[samples, elements per sample]`, row-major, never empty.
    Samples(&'a [u8]),
    /// Samples that the source does not have; at least one.
    Hole {
        /// How many.
        samples: u64,
        /// Why.
        why: HoleKind,
    },
    /// There is no more.
    End,
}

/// Why a source lacks samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoleKind {
    /// The recording itself has a hole.
    Recording,
    /// The recording ended and begins again.
    LoopSeam,
    /// Nobody read the device in time.
    Missing,
}

impl HoleKind {
    /// Returns the stage of the account that holes of this kind belong to.
    #[must_use]
    pub const fn stage(self) -> Stage {
        match self {
            Self::Recording | Self::LoopSeam | Self::Missing => Stage::Source,
        }
    }

    /// Returns the name, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::LoopSeam => "loop_seam",
            Self::Missing => "missing",
        }
    }
}

/// Says why a source cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A source that cannot begin again was asked to.
    #[error("`{0}` cannot be read a second time; only files and waveforms can be repeated")]
    NotRepeatable(StreamName),
    /// A source without a single sample was to be repeated.
    #[error("`{0}` has no samples to repeat")]
    NothingToRepeat(StreamName),
    /// A file that cannot be opened, or is none of the known kinds.
    #[error(transparent)]
    Open(#[from] crate::OpenError),
    /// What is wrong with a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// A name or schema the project cannot carry.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An NPY array.
    #[error(transparent)]
    Npy(#[from] crate::NpyError),
    /// A recording with its description.
    #[error(transparent)]
    Recording(#[from] crate::RecordingError),
    /// A WAV file.
    #[error(transparent)]
    Wav(#[from] crate::WavError),
    /// A CSV file.
    #[error(transparent)]
    Csv(#[from] crate::CsvError),
    /// A Parquet file.
    #[error(transparent)]
    Parquet(#[from] crate::ParquetError),
    /// Lines of numbers.
    #[error(transparent)]
    Lines(#[from] crate::LinesError),
    /// An element that is not a finite number.
    #[error(transparent)]
    NotFinite(#[from] crate::NotFinite),
    /// Raw elements.
    #[error(transparent)]
    Raw(#[from] crate::RawError),
    /// This host's counters.
    #[error(transparent)]
    Host(#[from] crate::host::HostError),
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn description(&self) -> &Description {
        (**self).description()
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        (**self).next(at_most)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        (**self).rewind()
    }
}

/// Returns how many samples to hand over at once: what is asked for within [`MAX_PIECE_BYTES`], at least one.
pub(crate) fn samples_at_once(at_most: NonZeroU64, sample_bytes: usize) -> usize {
    let fitting = (MAX_PIECE_BYTES / sample_bytes.max(1)).max(1);
    usize::try_from(at_most.get()).unwrap_or(usize::MAX).min(fitting)
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of the readers share.

    use super::*;

    /// Returns a limit that no test's source reaches.
    pub(crate) fn plenty() -> NonZeroU64 {
        NonZeroU64::MAX
    }

    /// A source's bytes, and its holes as (samples before it, its samples, why).
    pub(crate) type Drained = (Vec<u8>, Vec<(u64, u64, HoleKind)>);

    /// Pulls a source to its end.
    pub(crate) fn drain(source: &mut dyn Source) -> Result<Drained, SourceError> {
        let sample_bytes = source.description().schema.sample_bytes();
        let (mut bytes, mut holes) = (Vec::new(), Vec::new());
        loop {
            match source.next(plenty())? {
                Piece::Samples(run) => {
                    assert!(!run.is_empty() && run.len().is_multiple_of(sample_bytes));
                    bytes.extend_from_slice(run);
                }
                Piece::Hole { samples, why } => {
                    holes.push(((bytes.len() / sample_bytes) as u64, samples, why))
                }
                Piece::End => break,
            }
        }
        assert_eq!(source.next(plenty())?, Piece::End, "the end stays the end");
        Ok((bytes, holes))
    }

    /// Reads elements as floats.
    pub(crate) fn floats(source: &dyn Source, bytes: &[u8]) -> Vec<f64> {
        let dtype = source.description().schema.dtype;
        bytes.chunks(dtype.size_bytes()).map(|element| dtype.to_f64(element)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_bounded_but_never_empty() {
        let plenty = NonZeroU64::MAX;
        assert_eq!(samples_at_once(plenty, 4), MAX_PIECE_BYTES / 4);
        assert_eq!(samples_at_once(plenty, MAX_PIECE_BYTES + 1), 1);
        assert_eq!(samples_at_once(NonZeroU64::MIN, 4), 1);
    }

    #[test]
    fn every_hole_is_the_fault_of_the_source() {
        for kind in [HoleKind::Recording, HoleKind::LoopSeam, HoleKind::Missing] {
            assert_eq!(kind.stage(), Stage::Source, "{}", kind.name());
        }
    }
}
