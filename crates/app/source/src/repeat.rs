//! Repetition of a source, with a hole at the seam.

use std::num::NonZeroU64;

use crate::{Description, HoleKind, Piece, Source, SourceError};

/// Source that plays another one repeatedly.
///
/// The last and the first sample were never neighbours, so the seam is a hole of [`Repeat::SEAM_SAMPLES`]: readers
/// see that the signal does not continue, and no line is drawn across.
pub struct Repeat<S> {
    source: S,
    description: Description,
    /// True if this pass has returned samples; a pass without any would repeat for ever.
    given: bool,
    /// True if the seam was reported and the source is yet to be rewound.
    at_seam: bool,
}

impl<S: Source> Repeat<S> {
    /// Number of samples missing at the seam: the smallest hole.
    pub const SEAM_SAMPLES: u64 = 1;

    /// Repeats a source.
    #[must_use]
    pub fn new(source: S) -> Self {
        let description = Description { samples: None, ..source.description().clone() };
        Self { source, description, given: false, at_seam: false }
    }
}

impl<S: Source> Source for Repeat<S> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn decided(&self) -> Option<String> {
        self.source.decided()
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        if self.at_seam {
            self.rewind()?;
        }
        match self.source.next(at_most)? {
            Piece::End if self.given => {
                self.at_seam = true;
                Ok(Piece::Hole { samples: Self::SEAM_SAMPLES, why: HoleKind::LoopSeam })
            }
            Piece::End => Err(SourceError::NothingToRepeat(self.description.name.clone())),
            piece => {
                self.given |= matches!(piece, Piece::Samples(_) | Piece::Timed { .. });
                Ok(piece)
            }
        }
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.source.rewind()?;
        self.given = false;
        self.at_seam = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::testing::plenty;
    use crate::{Lines, LinesOptions, Recording};

    fn recording() -> Recording {
        let sidecar =
            "rate = \"10\"\n[[runs]]\nrows = 1\nstart_ns = 0\n[[runs]]\nrows = 1\nstart_ns = 300000000\n";
        let npy = crate::npy::tests::npy("<i2", "(2,)", &[1, 0, 2, 0]);
        let array = crate::NpyArray::open(std::io::Cursor::new(npy)).unwrap();
        Recording::read(array, sidecar, &"test".parse().unwrap()).unwrap()
    }

    #[test]
    fn the_seam_is_a_hole_and_the_holes_of_the_recording_come_again() {
        let mut repeat = Repeat::new(recording());
        assert_eq!(repeat.description().samples, None);
        for _ in 0..3 {
            assert_eq!(repeat.next(plenty()).unwrap(), Piece::Samples(&[1, 0]));
            let hole = Piece::Hole { samples: 2, why: HoleKind::Recording };
            assert_eq!(repeat.next(plenty()).unwrap(), hole);
            assert_eq!(repeat.next(plenty()).unwrap(), Piece::Samples(&[2, 0]));
            let seam = Piece::Hole { samples: 1, why: HoleKind::LoopSeam };
            assert_eq!(repeat.next(plenty()).unwrap(), seam);
        }
    }

    #[test]
    fn what_was_read_from_a_pipe_cannot_be_repeated() {
        let options = LinesOptions::new("test".parse().unwrap(), "1".parse().unwrap());
        let mut repeat = Repeat::new(Lines::open(&b"1\n"[..], &options).unwrap());
        assert!(matches!(repeat.next(plenty()), Ok(Piece::Samples(_))));
        assert!(matches!(repeat.next(plenty()), Ok(Piece::Hole { .. })));
        let error = repeat.next(plenty()).unwrap_err();
        assert!(matches!(error, SourceError::NotRepeatable(_)), "{error}");
    }
}
