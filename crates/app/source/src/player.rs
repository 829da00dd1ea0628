//! Player of a source: the next thing to publish at a given moment, and the time of the next call.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::held::Held;
use crate::{Description, HoleKind, Piece, Playback, Source, SourceError, Speed, Timing};

/// Number of samples with times of their own that are read at once.
const HELD_SAMPLES: NonZeroU64 = NonZeroU64::new(4_096).expect("it is positive");

/// Player that returns a source's samples at their true rate.
///
/// Owns no clock: the caller passes the time since the beginning. A [`Timing::Live`] source sets its own pace and is
/// only passed on. A long hole is returned as it would have happened, a few samples at a time, so that readers see
/// its end when it ends.
///
/// ```
/// # use source::{Player, Speed, Step, Wave, WaveOptions, Shape};
/// # let wave = WaveOptions::new("test/sine".parse()?, Shape::Sine, "1000".parse()?).open()?;
/// let mut player = Player::new(wave, Speed::true_time());
/// let began = std::time::Instant::now();
/// loop {
///     match player.advance(began.elapsed())? {
///         Step::Samples(samples) => { /* publisher.send_bytes(samples)? */ }
///         Step::Timed { samples, after } => { /* publisher.send_bytes_timed(…, samples)? */ }
///         Step::Hole { samples, why } => { /* publisher.skip(samples, why.stage()) */ }
///         Step::Wait(duration) => std::thread::sleep(duration),
///         Step::End => break,
///     }
/// #   if player.position() > 20 { break }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Player<S> {
    source: S,
    playback: Playback,
    position: u64,
    /// Number of samples that may still be returned before the next rest.
    allowance: u64,
    /// End of the rest, counted like `elapsed`.
    rested: Duration,
    /// Whether samples have times of their own, and those that wait for theirs.
    is_timed: bool,
    held: Held,
}

/// Next action of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// Publish these whole samples.
    Samples(&'a [u8]),
    /// Publish these whole samples, each at its own time.
    Timed {
        /// Samples, as in [`Step::Samples`].
        samples: &'a [u8],
        /// Time of each since the beginning, at the speed of playback.
        after: &'a [Duration],
    },
    /// Report to readers that samples are missing.
    Hole {
        /// Number of missing samples.
        samples: u64,
        /// Kind of the hole.
        why: HoleKind,
    },
    /// Wait for this time: nothing is due before.
    Wait(Duration),
    /// End of the source.
    End,
}

impl<S: Source> Player<S> {
    /// Creates a player of a source at a speed.
    #[must_use]
    pub fn new(source: S, speed: Speed) -> Self {
        let playback = Playback::new(source.description().schema.rate, speed);
        let is_timed = source.description().schema.has_own_times();
        let held = Held::new(speed);
        Self { source, playback, position: 0, allowance: 0, rested: Duration::ZERO, is_timed, held }
    }

    /// Returns the error of the first row that became a hole because it could not be read: once.
    pub fn refused(&mut self) -> Option<String> {
        self.source.refused()
    }

    /// Returns the description of the samples.
    #[must_use]
    pub fn description(&self) -> &Description {
        self.source.description()
    }

    /// Returns the number of samples returned so far, holes included: the index of the next one.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next action when `elapsed` has passed since the beginning.
    ///
    /// # Errors
    /// The error of the source.
    pub fn advance(&mut self, elapsed: Duration) -> Result<Step<'_>, SourceError> {
        if self.is_timed {
            return self.advance_timed(elapsed);
        }
        let limit = if self.source.description().timing == Timing::Live {
            NonZeroU64::MAX
        } else {
            match self.allow(elapsed) {
                Ok(limit) => limit,
                Err(rest) => return Ok(Step::Wait(rest)),
            }
        };
        let sample_bytes = self.source.description().schema.sample_bytes();
        let (step, given) = match self.source.next(limit)? {
            Piece::Samples(samples) | Piece::Timed { samples, .. } => {
                (Step::Samples(samples), (samples.len() / sample_bytes) as u64)
            }
            Piece::Hole { samples, why } => (Step::Hole { samples, why }, samples),
            Piece::End => (Step::End, 0),
        };
        self.position += given;
        self.allowance = self.allowance.saturating_sub(given);
        if self.allowance == 0 {
            self.rested = elapsed + self.playback.next_due(elapsed, self.position);
        }
        Ok(step)
    }

    /// Returns the next action for samples that have times of their own, whatever the rate.
    fn advance_timed(&mut self, elapsed: Duration) -> Result<Step<'_>, SourceError> {
        if self.held.is_empty() {
            let (rate, sample_bytes) =
                (self.source.description().schema.rate, self.source.description().schema.sample_bytes());
            match self.source.next(HELD_SAMPLES)? {
                Piece::Timed { samples, times } => self.held.fill(samples, times),
                Piece::Samples(samples) => {
                    // The label came from elsewhere: the source has no times.
                    self.is_timed = false;
                    self.position += (samples.len() / sample_bytes) as u64;
                    return Ok(Step::Samples(samples));
                }
                Piece::Hole { samples, why } => {
                    self.position += samples;
                    if why == HoleKind::LoopSeam {
                        self.held.begin_anew(rate.duration_of(samples));
                    }
                    return Ok(Step::Hole { samples, why });
                }
                Piece::End => return Ok(Step::End),
            }
        }
        match self.held.due(elapsed) {
            Ok((samples, after)) => {
                self.position += after.len() as u64;
                Ok(Step::Timed { samples, after })
            }
            Err(rest) => Ok(Step::Wait(rest)),
        }
    }

    /// Returns the number of samples that may be returned, or the time to wait as an error.
    fn allow(&mut self, elapsed: Duration) -> Result<NonZeroU64, Duration> {
        if self.allowance == 0 {
            if elapsed < self.rested {
                return Err(self.rested - elapsed);
            }
            self.allowance = self.playback.due(elapsed, self.position);
        }
        NonZeroU64::new(self.allowance).ok_or_else(|| {
            let rest = self.playback.next_due(elapsed, self.position);
            self.rested = elapsed + rest;
            rest
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, WaveOptions};

    fn player(rate: &str) -> Player<crate::Wave> {
        let wave = WaveOptions::new("test".parse().unwrap(), Shape::Ramp, rate.parse().unwrap());
        Player::new(wave.open().unwrap(), Speed::true_time())
    }

    #[test]
    fn a_minute_played_is_a_minute_of_samples() {
        let mut player = player("360");
        let mut elapsed = Duration::ZERO;
        let mut samples = 0;
        while elapsed <= Duration::from_secs(60) {
            match player.advance(elapsed).unwrap() {
                Step::Samples(bytes) => samples += bytes.len() / 4,
                Step::Wait(rest) => elapsed += rest,
                step => panic!("a ramp gave {step:?}"),
            }
        }
        assert_eq!(samples, 21_600);
        assert_eq!(player.position(), 21_600);
    }

    #[test]
    fn a_source_that_has_no_times_is_played_at_its_rate_whatever_its_label_says() {
        struct Labelled(crate::Wave, Description);
        impl Source for Labelled {
            fn description(&self) -> &Description {
                &self.1
            }
            fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
                self.0.next(NonZeroU64::new(at_most.get().min(10)).unwrap())
            }
        }
        let wave =
            WaveOptions::new("test".parse().unwrap(), Shape::Ramp, "1000".parse().unwrap()).open().unwrap();
        let mut description = wave.description().clone();
        description.schema.labels.insert("times".into(), "own".into());
        let mut player = Player::new(Labelled(wave, description), Speed::true_time());
        assert!(matches!(player.advance(Duration::ZERO).unwrap(), Step::Samples(_)));
        assert!(matches!(player.advance(Duration::ZERO).unwrap(), Step::Wait(_)));
        assert_eq!(player.position(), 10);
    }

    #[test]
    fn after_a_stall_every_burst_is_followed_by_a_rest() {
        let mut player = player("1000");
        let elapsed = Duration::from_secs(30);
        let Step::Samples(bytes) = player.advance(elapsed).unwrap() else { panic!("30 s are due") };
        assert_eq!(bytes.len() / 4, 50);
        assert_eq!(player.advance(elapsed).unwrap(), Step::Wait(Playback::REST));
    }
}
