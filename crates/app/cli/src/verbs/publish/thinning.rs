//! `pub --thin` and `--calibrate`: windows or other units leave the station instead of the samples as they were taken.
//!
//! The operators are those of a monitor server's graph, so that a window is the same wherever it is made.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use graph::plan::Every;
use graph::{Calibration, Input, InputError, Operator, Output, Reduction, calibrated};
use sample::{Block, SampleBuffer, Schema, StreamName};
use tallycast::Epoch;
use units::{RangeSet, WallTime};

/// Label of a thinned stream: the length of its windows.
const LABEL: &str = "thin";

/// A calibration as it is written: `ch0=0.001,0,kV`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ChannelCalibration(String, Calibration);

/// The windows of one stream.
pub(super) struct Thinning {
    samples: u32,
    stream: Arc<StreamName>,
    /// Of the samples that are taken.
    schema: Arc<Schema>,
    reduction: Reduction,
    epoch: Epoch,
    /// Samples taken in the epochs before, missing ones included.
    before: u64,
    /// Those of this epoch.
    taken: u64,
    /// Time of the newest sample of this epoch.
    newest: Option<WallTime>,
    /// Windows of this epoch that were put out, holes included.
    put: u64,
    /// Windows missing before the next that is put out.
    missing: u64,
}

/// Windows for the publisher.
pub(super) enum Windows {
    /// Samples of the thinned stream, the first of which began at this time.
    Whole { t0: WallTime, data: SampleBuffer },
    /// So many without any sample.
    Missing(u64),
}

impl FromStr for ChannelCalibration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.rsplit_once('=').map(|(channel, it)| (channel, it.splitn(3, ',').collect::<Vec<_>>()));
        let Some((channel, [scale, offset, unit])) =
            parts.as_ref().and_then(|(channel, it)| Some((channel, it.first_chunk::<3>()?)))
        else {
            return Err(format!("`{text}` is not CHANNEL=SCALE,OFFSET,UNIT, such as ch0=0.001,0,kV"));
        };
        let number = |text: &str| text.trim().parse().map_err(|_| format!("`{text}` is not a number"));
        let (scale, offset, unit) = (number(scale)?, number(offset)?, unit.trim().to_owned());
        Ok(Self((*channel).to_owned(), Calibration { scale, offset, unit }))
    }
}

/// Returns the schema with channels in other units: samples stay as they are.
pub(super) fn calibrate(
    stream: &StreamName,
    schema: &Schema,
    calibrations: &[ChannelCalibration],
) -> anyhow::Result<Schema> {
    let mut by_channel = BTreeMap::new();
    for ChannelCalibration(channel, calibration) in calibrations {
        if by_channel.insert(channel.clone(), calibration.clone()).is_some() {
            anyhow::bail!("--calibrate: channel `{channel}` is given twice\ngive each channel once");
        }
    }
    calibrated(stream, schema, &by_channel).context("--calibrate")
}

impl Thinning {
    /// Begins the windows of samples of `schema`; returns the schema of the windows as well.
    pub(super) fn new(stream: StreamName, schema: Schema, every: Every) -> anyhow::Result<(Self, Schema)> {
        if schema.has_own_times() {
            anyhow::bail!(
                "--thin: samples of `{stream}` have their own times, and a window is one of a fixed rate\n\
                 state the rate with --rate, or leave --thin out"
            );
        }
        let samples = every.samples(schema.rate).context("--thin")?;
        let reduction = Reduction::thin(samples).context("--thin")?;
        let mut thinned = reduction.reduced_schema(&stream, &schema).context("--thin")?;
        thinned.labels.insert(LABEL.to_owned(), every.to_string());
        let (stream, schema) = (Arc::new(stream), Arc::new(schema));
        let epoch = Epoch { start_ns: 1, incarnation: 1 };
        let (newest, before, taken, put, missing) = (None, 0, 0, 0, 0);
        let thinning =
            Self { samples, stream, schema, reduction, epoch, before, taken, newest, put, missing };
        Ok((thinning, thinned))
    }

    /// Returns the schema of the samples that are taken.
    pub(super) const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the samples taken so far, missing ones included.
    pub(super) const fn taken(&self) -> u64 {
        self.before + self.taken
    }

    /// Returns the time of the newest sample of this epoch; a window may have begun long before.
    pub(super) const fn newest(&self) -> Option<WallTime> {
        self.newest
    }

    /// Takes samples, the first of which was taken at `t0`.
    pub(super) fn take(&mut self, t0: WallTime, bytes: &[u8]) -> Result<(), InputError> {
        if self.reduction.schema().is_none() {
            // The reduction begins with the first sample: windows before are missing.
            self.missing = self.taken / u64::from(self.samples);
        }
        let samples = (bytes.len() / self.schema.sample_bytes()) as u64;
        let block = Block {
            stream: self.stream.clone(),
            schema: self.schema.clone(),
            epoch: self.epoch,
            first_index: self.taken,
            t0,
            samples,
            data: SampleBuffer::from_bytes(bytes),
            missing: RangeSet::new(),
        };
        self.taken += samples;
        self.newest = Some(block.time_of(self.taken.saturating_sub(1)));
        self.reduction.handle(0, Input::Block(&block))
    }

    /// Takes note of samples that the source does not have.
    pub(super) const fn skip(&mut self, samples: u64) {
        self.taken += samples;
    }

    /// Ends the epoch: the window that was begun has the samples that were there, as its `n` tells.
    pub(super) fn end(&mut self) -> Result<(), InputError> {
        self.reduction.handle(0, Input::Ended)
    }

    /// Begins the next epoch, after the windows of the one before were put out.
    pub(super) fn begin_anew(&mut self) {
        self.reduction = Reduction::thin(self.samples).expect("it was made before");
        self.epoch.start_ns += 1;
        self.before += self.taken;
        (self.taken, self.put, self.newest) = (0, 0, None);
    }

    /// Returns the next windows to publish.
    pub(super) fn poll(&mut self) -> Option<Windows> {
        if self.missing > 0 {
            self.put += self.missing;
            return Some(Windows::Missing(std::mem::take(&mut self.missing)));
        }
        Some(match self.reduction.poll()? {
            Output::Samples { t0, samples, data, .. } => {
                self.put += samples;
                Windows::Whole { t0, data }
            }
            Output::Hole { samples, .. } => {
                self.put += samples;
                Windows::Missing(samples)
            }
        })
    }

    /// Returns the windows at the end of the epoch of which no sample was there.
    pub(super) fn rest(&mut self) -> u64 {
        let rest = self.taken.div_ceil(u64::from(self.samples)).saturating_sub(self.put);
        self.put += rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::Random;

    fn schema(rate: &str) -> Schema {
        Schema::new(Dtype::F8, rate.parse().unwrap(), vec![Channel::new("x", "V")]).unwrap()
    }

    fn name() -> StreamName {
        "lab/x".parse().unwrap()
    }

    /// Appends the windows that are ready, as (n, mean), `None` if missing.
    fn drain(thinning: &mut Thinning, windows: &mut Vec<Option<(f64, f64)>>) {
        while let Some(put) = thinning.poll() {
            match put {
                Windows::Missing(missing) => windows.extend((0..missing).map(|_| None)),
                Windows::Whole { data, .. } => {
                    let values: Vec<f64> =
                        data.as_bytes().chunks(8).map(|bytes| Dtype::F8.to_f64(bytes)).collect();
                    windows.extend(values.chunks(4).map(|row| Some((row[3], row[2]))));
                }
            }
        }
    }

    #[test]
    fn every_sample_taken_is_in_one_window_over_holes_and_epochs() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let (mut thinning, thinned) =
                Thinning::new(name(), schema("1000"), "5ms".parse().unwrap()).unwrap();
            assert_eq!((thinned.rate.to_string().as_str(), &*thinned.labels[LABEL]), ("200", "5ms"));
            let (mut all, mut expected) = (0, 0);
            for _ in 0..1 + random.below(3) {
                let (mut windows, mut samples) = (Vec::new(), Vec::new());
                for _ in 0..random.below(30) {
                    let count = 1 + random.below(12);
                    if random.chance(0.3) {
                        thinning.skip(count);
                        samples.extend((0..count).map(|_| None));
                    } else {
                        let values: Vec<f64> = (0..count).map(|_| random.unit()).collect();
                        let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
                        thinning
                            .take(WallTime::from_nanos(samples.len() as i64 * 1_000_000), &bytes)
                            .unwrap();
                        samples.extend(values.into_iter().map(Some));
                    }
                    drain(&mut thinning, &mut windows);
                }
                let newest = samples.iter().rposition(Option::is_some);
                let newest = newest.map(|index| WallTime::from_nanos(index as i64 * 1_000_000));
                assert_eq!(thinning.newest(), newest, "seed {seed}");
                thinning.end().unwrap();
                drain(&mut thinning, &mut windows);
                windows.extend((0..thinning.rest()).map(|_| None));
                let there = |window: &[Option<f64>]| {
                    let values: Vec<f64> = window.iter().copied().flatten().collect();
                    (!values.is_empty()).then(|| (values.len() as f64, values.iter().sum::<f64>()))
                };
                let plain: Vec<_> = samples.chunks(5).map(there).collect();
                assert_eq!(windows.len(), plain.len(), "seed {seed}");
                for (window, plain) in windows.iter().zip(&plain) {
                    assert_eq!(window.map(|(n, _)| n), plain.map(|(n, _)| n), "seed {seed}");
                    let (mean, sum) = (window.unwrap_or_default(), plain.unwrap_or_default().1);
                    assert!((mean.0 * mean.1 - sum).abs() < 1e-9, "seed {seed}");
                }
                thinning.begin_anew();
                (all, expected) = (thinning.taken(), expected + samples.len() as u64);
            }
            assert_eq!(all, expected, "seed {seed}");
        }
    }

    #[test]
    fn windows_and_calibrations_that_do_not_fit_are_refused() {
        let refused = |schema: Schema, every: &str| {
            let error = Thinning::new(name(), schema, every.parse().unwrap()).err().unwrap();
            format!("{error:#}")
        };
        assert!(refused(schema("1000"), "1ms").starts_with("--thin: 1ms is not a whole number of samples"));
        assert!(refused(schema("1000"), "1").contains("2 samples or more"));
        let mut own = schema("1000");
        own.labels.insert("times".to_owned(), "own".to_owned());
        assert!(refused(own, "10").contains("state the rate with --rate"));
        let read = |text: &str| text.parse::<ChannelCalibration>();
        for text in ["ch0", "ch0=1", "ch0=1,2", "ch0=a,0,V", "ch0=1,,V"] {
            assert!(read(text).is_err(), "{text}");
        }
        let milli = read("x=1e3,-2,mV").unwrap();
        let calibrated = calibrate(&name(), &schema("1000"), &[milli]).unwrap();
        let channel = &calibrated.channels[0];
        assert_eq!((channel.scale, channel.offset, &*channel.unit), (1e3, -2.0, "mV"));
        let twice = [read("x=1,0,V").unwrap(), read("x=2,0,V").unwrap()];
        let twice = calibrate(&name(), &schema("1000"), &twice).unwrap_err();
        assert!(twice.to_string().contains("channel `x` is given twice"));
        let zero = calibrate(&name(), &schema("1000"), &[read("x=0,0,V").unwrap()]).unwrap_err();
        assert!(format!("{zero:#}").ends_with("must be finite, and the scale not zero"));
        let unknown = calibrate(&name(), &schema("1000"), &[read("y=1,0,V").unwrap()]).unwrap_err();
        assert!(format!("{unknown:#}").contains("has no channel `y`; it has x"));
    }
}
