//! Contract between sources of samples and their publishers.

use std::num::NonZeroU64;
use std::path::PathBuf;

use ledger::Stage;
use sample::{Schema, SchemaError, StreamName, TIMES_LABEL};
use units::WallTime;

/// Maximum number of bytes that a source returns at once.
///
/// Large enough that the cost of a call vanishes at a million samples per second, small enough to stay in a
/// second-level cache. A single sample larger than that is still returned whole.
pub const MAX_PIECE_BYTES: usize = 256 * 1024;

/// Source that samples are pulled from.
pub trait Source: Send {
    /// Returns the description of the samples.
    fn description(&self) -> &Description;

    /// Returns what was decided about the input without being told, in one line for the user; `None` if nothing was.
    fn decided(&self) -> Option<String> {
        None
    }

    /// Returns the error of the first row that became a hole because it could not be read: once, in words for the user.
    fn refused(&mut self) -> Option<String> {
        None
    }

    /// Returns the next samples, or reports that some are missing.
    ///
    /// Blocks only if the source is [`Timing::Live`]; then it returns the samples that have arrived instead of
    /// waiting for `at_most`. After [`Piece::End`] every further call returns `End` again.
    ///
    /// # Errors
    /// The error of the file, the device or the text, with its place; samples before it were returned.
    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError>;

    /// Goes back to the first sample.
    ///
    /// # Errors
    /// [`SourceError::NotRepeatable`] if the input cannot be read again, and the error of the medium.
    fn rewind(&mut self) -> Result<(), SourceError> {
        Err(SourceError::NotRepeatable(self.description().name.clone()))
    }
}

/// Description of a source's samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Description {
    /// Stream name to publish under unless the user chooses another.
    pub name: StreamName,
    /// Schema of the samples.
    pub schema: Schema,
    /// Timing of the samples.
    pub timing: Timing,
    /// Number of samples from the beginning to the end, holes included, if it is known.
    pub samples: Option<u64>,
}

/// Timing of a source's samples, and so the clock that stamps them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// The samples exist already; a [`Player`](crate::Player) returns them at their rate.
    Recorded {
        /// Time of the first sample, if the recording has it.
        start: Option<WallTime>,
    },
    /// A sample is created on request, so samples are requested at their rate and stamped by the system's clock.
    OnDemand,
    /// Samples arrive in real time; `next` waits for them and the system's clock stamps them.
    Live,
}

/// Run of consecutive samples, or of missing ones.
///
/// A source gives all samples with times if its schema says that they have [their own](Schema::has_own_times), and none
/// otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Whole samples, little-endian; shape `[samples, elements per sample]`, row-major, never empty.
    Samples(&'a [u8]),
    /// Whole samples that each have a time of their own; as many times as samples, never empty.
    Timed {
        /// Samples, as in [`Piece::Samples`].
        samples: &'a [u8],
        /// Recorded time of each.
        times: &'a [WallTime],
    },
    /// Samples that the source does not have; at least one.
    Hole {
        /// Number of missing samples.
        samples: u64,
        /// Kind of the hole.
        why: HoleKind,
    },
    /// End of the source.
    End,
}

/// Reason why a source lacks samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HoleKind {
    /// The recording itself has a hole.
    Recording,
    /// The recording ended and starts again.
    LoopSeam,
    /// The device was not read in time.
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

/// Reason why a source cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The source cannot be read again.
    #[error("`{0}` cannot be read a second time; only files and waveforms can be repeated")]
    NotRepeatable(StreamName),
    /// A source to be repeated has no samples.
    #[error("`{0}` has no samples to repeat")]
    NothingToRepeat(StreamName),
    /// A file cannot be opened, or is of no known kind.
    #[error(transparent)]
    Open(#[from] crate::OpenError),
    /// A file has an error.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of its reader.
        source: Box<Self>,
    },
    /// A name or schema is not supported.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Error of an NPY array.
    #[error(transparent)]
    Npy(#[from] crate::NpyError),
    /// Error of an NPZ file.
    #[error(transparent)]
    Npz(#[from] crate::NpzError),
    /// Error of a recording's description.
    #[error(transparent)]
    Recording(#[from] crate::RecordingError),
    /// Error of a WAV file.
    #[error(transparent)]
    Wav(#[from] crate::WavError),
    /// Error of a CSV file.
    #[error(transparent)]
    Csv(#[from] crate::CsvError),
    /// Error of a table with typed columns: Parquet or Arrow.
    #[error(transparent)]
    Table(#[from] crate::TableError),
    /// Error of a reader in another process.
    #[error(transparent)]
    Frames(#[from] crate::FramesError),
    /// Error of lines of numbers.
    #[error(transparent)]
    Lines(#[from] crate::LinesError),
    /// An element is not a finite number.
    #[error(transparent)]
    NotFinite(#[from] crate::NotFinite),
    /// Error of raw elements.
    #[error(transparent)]
    Raw(#[from] crate::RawError),
    /// Error of this host's counters.
    #[error(transparent)]
    Host(#[from] crate::host::HostError),
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn description(&self) -> &Description {
        (**self).description()
    }

    fn decided(&self) -> Option<String> {
        (**self).decided()
    }

    fn refused(&mut self) -> Option<String> {
        (**self).refused()
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        (**self).next(at_most)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        (**self).rewind()
    }
}

/// Returns the number of samples to return at once: the requested number within [`MAX_PIECE_BYTES`], at least one.
pub(crate) fn samples_at_once(at_most: NonZeroU64, sample_bytes: usize) -> usize {
    let fitting = (MAX_PIECE_BYTES / sample_bytes.max(1)).max(1);
    usize::try_from(at_most.get()).unwrap_or(usize::MAX).min(fitting)
}

/// Removes the label of times of their own from a recording's schema: a player gives samples regular times.
pub(crate) fn at_regular_times(mut schema: Schema) -> Schema {
    if schema.has_own_times() {
        schema.labels.remove(TIMES_LABEL);
    }
    schema
}

#[cfg(test)]
pub(crate) mod testing {
    //! Shared functions of the readers' tests.

    use super::*;

    /// Returns a limit that no test's source reaches.
    pub(crate) fn plenty() -> NonZeroU64 {
        NonZeroU64::MAX
    }

    /// Bytes of a source, and its holes as (samples before it, its samples, kind).
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
                Piece::Timed { samples, times } => {
                    assert_eq!(samples.len(), times.len() * sample_bytes);
                    bytes.extend_from_slice(samples);
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

    /// Bytes of a source whose samples keep their times, those in nanoseconds, and its holes as [`drain`] has them.
    pub(crate) type Timely = (Vec<u8>, Vec<i64>, Vec<(u64, u64, HoleKind)>);

    /// Pulls a source whose samples keep their times to its end.
    pub(crate) fn drain_timed(source: &mut dyn Source) -> Result<Timely, SourceError> {
        assert!(source.description().schema.has_own_times());
        let (mut bytes, mut kept, mut holes) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            match source.next(plenty())? {
                Piece::Samples(_) => panic!("samples without their times"),
                Piece::Timed { samples, times } => {
                    bytes.extend_from_slice(samples);
                    kept.extend(times.iter().map(|time| time.as_nanos()));
                }
                Piece::Hole { samples, why } => holes.push((kept.len() as u64, samples, why)),
                Piece::End => return Ok((bytes, kept, holes)),
            }
        }
    }

    /// Decodes elements as floats.
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
