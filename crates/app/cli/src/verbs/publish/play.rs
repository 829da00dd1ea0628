//! Plays a source into a publisher until it ends, or until the end is requested.
//!
//! A source that waits for its samples is read on its own thread, so that a request to end is noticed while it waits;
//! the queue between the two is short, so that its input is slowed rather than stored.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use source::{Player, Source, SourceError, Speed, Step, Timing};
use sys::{Cancellation, clock};
use tallycast::{
    Epoch, PublicationStatus, Publisher, SampleRate, Schema, Stage, SteadyClock, SteadyTime, WallTime,
};

use super::Stream;
use super::control::InjectControl;
use super::thinning::{Thinning, Windows};
use super::times::{LiveTimes, PacedTimes};
use crate::deadline::Deadline;

/// Interval at which a wait for samples or readers checks the request to end: neither the channel of the reading
/// thread nor the count of readers has a descriptor.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pieces between the reading thread and the publisher: one on each side, and two in between.
const QUEUED_PIECES: usize = 2;

/// Conditions that end a stream before its source does.
pub(crate) struct Ending {
    cancellation: Cancellation,
    duration: Option<Duration>,
    deadline: Deadline,
    count: Option<u64>,
}

/// The publisher that plays a source, and the epochs before its present one.
pub(super) struct Playing {
    pub(super) publisher: Publisher,
    /// Makes windows of the samples before they are published.
    pub(super) thinning: Option<Thinning>,
    /// Those that ended because the host's clock was set back.
    pub(super) ended: Vec<(Epoch, PublicationStatus)>,
    /// Number of samples in the ended epochs.
    before: u64,
}

/// A clock that was set back by more than this begins a new epoch; less is made up for.
const SET_BACK_NS: i64 = -1_000_000_000;

/// Samples that outlive their source's buffer.
enum Owned {
    Samples { bytes: Vec<u8>, arrived: SteadyTime },
    Hole { samples: u64, stage: Stage },
    Failed(SourceError),
}

impl Ending {
    /// Ends on request, after a time, or after a number of samples, whichever comes first.
    pub(crate) fn new(cancellation: Cancellation, duration: Option<Duration>, count: Option<u64>) -> Self {
        Self { cancellation, duration, deadline: Deadline::after(duration), count }
    }

    /// Starts counting the time.
    pub(crate) fn begin(&mut self) {
        self.deadline = Deadline::after(self.duration);
    }

    /// Waits for a value that a thread is about to send; `None` if the end comes first, or the thread is gone.
    pub(super) fn wait_for<T>(&self, receiver: &Receiver<T>) -> Option<T> {
        while !self.is_over() {
            match receiver.recv_timeout(self.deadline.left(POLL_INTERVAL)) {
                Ok(value) => return Some(value),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        None
    }

    /// Waits until every publisher has a reader, at most this long: one of this host's memory, or one that reported.
    ///
    /// Readers beyond this host that are there join at the first announcement; what is sent before they have is not for
    /// them.
    pub(crate) fn wait_for_readers<'a>(
        &self,
        publishers: impl Iterator<Item = &'a Publisher> + Clone,
        at_most: Duration,
    ) {
        let patience = Deadline::after(Some(at_most));
        let unread = || publishers.clone().any(|publisher| publisher.reader_count() == 0);
        while !patience.is_over() && !self.is_over() && unread() {
            self.cancellation.wait(patience.left(self.deadline.left(POLL_INTERVAL)));
        }
    }

    fn is_over(&self) -> bool {
        self.cancellation.is_cancelled() || self.deadline.is_over()
    }

    /// Returns the number of samples that may still be published; `None` once it is over.
    fn left(&self, published: u64) -> Option<u64> {
        let left = self.count.map_or(u64::MAX, |count| count.saturating_sub(published));
        (left > 0 && !self.is_over()).then_some(left)
    }
}

impl Playing {
    /// Returns the schema of the source's samples.
    fn schema(&self) -> &Schema {
        self.thinning.as_ref().map_or(self.publisher.schema(), |thinning| thinning.schema())
    }

    /// Returns the index of the next sample of the source, over all epochs.
    fn next_index(&self) -> u64 {
        let published = || self.before + self.publisher.next_index();
        self.thinning.as_ref().map_or_else(published, Thinning::taken)
    }

    /// Publishes samples; in a new epoch if the clock that `time` is read from was set back.
    fn send(&mut self, time: WallTime, bytes: &[u8]) -> anyhow::Result<()> {
        let newest = self.thinning.as_ref().and_then(Thinning::newest);
        let is_set_back = newest.is_some_and(|newest| time.nanos_since(newest) < SET_BACK_NS);
        if is_set_back || self.publisher.would_begin_anew(time) {
            self.begin_anew()?;
        }
        match &mut self.thinning {
            None => Ok(self.publisher.send_bytes_at(time, bytes)?),
            Some(thinning) => {
                thinning.take(time, bytes)?;
                self.put_out()
            }
        }
    }

    /// Publishes samples that each have their own time; they are never thinned.
    fn send_timed(&mut self, times: &[WallTime], bytes: &[u8]) -> anyhow::Result<()> {
        if self.publisher.would_begin_anew(times[0]) {
            self.begin_anew()?;
        }
        Ok(self.publisher.send_bytes_timed(times, bytes)?)
    }

    /// Skips samples that the source does not have.
    fn skip(&mut self, samples: u64, stage: Stage) -> anyhow::Result<()> {
        match &mut self.thinning {
            None => self.publisher.skip(samples, stage)?,
            Some(thinning) => thinning.skip(samples),
        }
        Ok(())
    }

    fn begin_anew(&mut self) -> anyhow::Result<()> {
        self.finish()?;
        let (epoch, samples) = (self.publisher.epoch(), self.publisher.next_index());
        let status = self.publisher.begin_anew()?;
        eprintln!("the clock of this host was set back: {} continues in a new epoch", self.publisher.name());
        self.ended.push((epoch, status));
        self.before += samples;
        if let Some(thinning) = &mut self.thinning {
            thinning.begin_anew();
        }
        Ok(())
    }

    /// Publishes what was taken of the window that was begun.
    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(thinning) = &mut self.thinning {
            thinning.end()?;
            self.put_out()?;
        }
        let rest = self.thinning.as_mut().map_or(0, Thinning::rest);
        Ok(self.publisher.skip(rest, Stage::Source)?)
    }

    /// Publishes the windows that are whole.
    fn put_out(&mut self) -> anyhow::Result<()> {
        while let Some(windows) = self.thinning.as_mut().and_then(Thinning::poll) {
            match windows {
                Windows::Whole { t0, data } => self.publisher.send_bytes_at(t0, data.as_bytes())?,
                Windows::Missing(windows) => self.publisher.skip(windows, Stage::Source)?,
            }
        }
        Ok(())
    }
}

/// Plays a source to its end or until `ending`; returns the publisher in any case.
pub(super) fn play(
    Stream { source, thinning, publisher }: Stream,
    speed: Speed,
    ending: &Ending,
    control: Option<InjectControl>,
) -> (Playing, anyhow::Result<()>) {
    let live = source.description().timing == Timing::Live;
    let player = Player::new(source, speed);
    let mut playing = Playing { publisher, thinning, ended: Vec::new(), before: 0 };
    let played = if live {
        relay(player, &mut playing, ending, control)
    } else {
        pace(player, &mut playing, ending, control)
    };
    let played = played.and(playing.finish());
    (playing, played)
}

/// Returns the actual rate of samples when a source of `rate` is played at `speed`.
pub(crate) fn played_rate(rate: SampleRate, speed: Speed) -> anyhow::Result<SampleRate> {
    let factor: SampleRate = speed.to_string().parse()?;
    let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
    let (numerator, denominator) =
        (product(rate.numerator(), factor.numerator()), product(rate.denominator(), factor.denominator()));
    let divisor = greatest_common_divisor(numerator, denominator);
    let fit = |value: u64| {
        let message = format!(
            "{rate} samples/s at speed {speed} is not a valid rate of a stream\nchoose a rounder speed"
        );
        u32::try_from(value / divisor).map_err(|_| anyhow::anyhow!(message))
    };
    Ok(SampleRate::new(fit(numerator)?, fit(denominator)?)?)
}

/// Gives samples out as they become due.
fn pace(
    mut player: Player<Box<dyn Source>>,
    playing: &mut Playing,
    ending: &Ending,
    mut control: Option<InjectControl>,
) -> anyhow::Result<()> {
    let began = clock::pair();
    let mut times = PacedTimes::begin(playing.schema().rate, began);
    while let Some(left) = ending.left(playing.next_index()) {
        if let Some(control) = &mut control {
            control.follow(&mut playing.publisher);
        }
        let sample_bytes = playing.schema().sample_bytes();
        let now = clock::pair();
        match player.advance(now.0.since(began.0))? {
            Step::Samples(samples) => {
                let time = times.time_of(playing.next_index(), now);
                playing.send(time, first_of(samples, left, sample_bytes))?;
            }
            Step::Timed { samples, after } => {
                let after = &after[..after.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                let moments: Vec<_> = after.iter().map(|after| times.time_after(*after, now)).collect();
                playing.send_timed(&moments, first_of(samples, left, sample_bytes))?;
            }
            Step::Hole { samples, why } => playing.skip(samples.min(left), why.stage())?,
            Step::Wait(pause) => {
                let pause = control.as_ref().map_or(pause, |control| pause.min(control.due_in()));
                ending.cancellation.wait(ending.deadline.left(pause));
            }
            Step::End => break,
        }
    }
    Ok(())
}

/// Passes on samples that arrive in real time.
fn relay(
    player: Player<Box<dyn Source>>,
    playing: &mut Playing,
    ending: &Ending,
    mut control: Option<InjectControl>,
) -> anyhow::Result<()> {
    let (sender, receiver) = sync_channel(QUEUED_PIECES);
    // The thread may block in a read indefinitely; it ends with the process.
    std::thread::Builder::new().name("source".to_owned()).spawn(move || read_on(player, &sender))?;
    let rate = playing.schema().rate;
    let mut times = LiveTimes::begin(rate, clock::wall());
    while let Some(left) = ending.left(playing.next_index()) {
        if let Some(control) = &mut control {
            control.follow(&mut playing.publisher);
        }
        let sample_bytes = playing.schema().sample_bytes();
        match next_piece(&receiver, ending) {
            Ok(Owned::Samples { bytes, arrived }) => {
                let samples = (bytes.len() / sample_bytes) as u64;
                if arrived.step_ns < SET_BACK_NS {
                    playing.begin_anew()?;
                    times = LiveTimes::begin(
                        rate,
                        arrived.wall.offset(-nanos(rate.duration_of(samples.saturating_sub(1)))),
                    );
                }
                let time = times.first_of(playing.next_index(), samples, arrived.wall);
                playing.send(time, first_of(&bytes, left, sample_bytes))?;
            }
            Ok(Owned::Hole { samples, stage }) => playing.skip(samples.min(left), stage)?,
            Ok(Owned::Failed(error)) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(())
}

fn next_piece(receiver: &Receiver<Owned>, ending: &Ending) -> Result<Owned, RecvTimeoutError> {
    receiver.recv_timeout(ending.deadline.left(POLL_INTERVAL))
}

/// Reads a source to its end, or until the receiver is gone.
fn read_on(mut player: Player<Box<dyn Source>>, sender: &SyncSender<Owned>) {
    let mut wall = SteadyClock::new();
    loop {
        let piece = match player.advance(Duration::ZERO) {
            Ok(Step::Samples(samples) | Step::Timed { samples, .. }) => {
                Owned::Samples { bytes: samples.to_vec(), arrived: wall.read(clock::pair()) }
            }
            Ok(Step::Hole { samples, why }) => {
                let stage = why.stage();
                if let Some(refused) = player.refused() {
                    eprintln!("warning: {refused}");
                }
                Owned::Hole { samples, stage }
            }
            Ok(Step::Wait(_)) => continue,
            Ok(Step::End) => return,
            Err(error) => Owned::Failed(error),
        };
        let failed = matches!(piece, Owned::Failed(_));
        if sender.send(piece).is_err() || failed {
            return;
        }
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn first_of(samples: &[u8], at_most: u64, sample_bytes: usize) -> &[u8] {
    let limit = usize::try_from(at_most).unwrap_or(usize::MAX).saturating_mul(sample_bytes);
    &samples[..samples.len().min(limit)]
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_source_has_a_higher_rate() {
        let played = |rate: &str, speed: &str| {
            played_rate(rate.parse().unwrap(), speed.parse().unwrap()).map(|rate| rate.to_string())
        };
        assert_eq!(played("360", "1").unwrap(), "360");
        assert_eq!(played("360", "0.5").unwrap(), "180");
        assert_eq!(played("1000/3", "1/2").unwrap(), "500/3");
        assert!(played("4000000000", "2").is_err());
    }

    #[test]
    fn no_more_samples_are_taken_than_asked_for() {
        assert_eq!(first_of(&[1, 2, 3, 4, 5, 6], 2, 2), [1, 2, 3, 4]);
        assert_eq!(first_of(&[1, 2], 9, 2), [1, 2]);
    }
}
