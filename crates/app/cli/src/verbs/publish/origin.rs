//! Which source a stream is published from.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use source::host::{DEFAULT_RATE_HZ, Probe};
use source::{
    FileOptions, Lines, LinesOptions, NanPolicy, Raw, Repeat, Shape, Source, TimeColumn, WaveOptions,
};
use tallycast::{Channel, Dtype, SampleRate, Schema, StreamName};
use units::RateError;

/// The most channels a flag may ask for; the schema's own limit is checked after it.
const MAX_CHANNELS: usize = 65_536;

#[derive(Args, Debug)]
pub(super) struct OriginArguments {
    #[command(flatten)]
    what: What,
    /// Samples per second: 360, 48k, 2.5M, 1000/3; over what a file says
    #[arg(long, value_name = "RATE")]
    rate: Option<SampleRate>,
    /// How many channels a waveform or raw input has
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_CHANNELS as u64))]
    channels: usize,
    /// Type of every element: i8 … u64, f4, f8, c8, c16, bool
    #[arg(long)]
    dtype: Option<Dtype>,
    /// Turns per second of a waveform: 50, 1k
    #[arg(long, value_name = "HZ", requires = "wave", value_parser = hertz)]
    frequency: Option<f64>,
    /// Highest value of a waveform
    #[arg(long, requires = "wave")]
    amplitude: Option<f64>,
    /// What noise begins with
    #[arg(long, requires = "wave", default_value_t = 0)]
    seed: u64,
    /// Which column of a table is the time; `none` if a column that looks like one is a channel
    #[arg(long, value_name = "COLUMN", requires = "file")]
    time: Option<String>,
    /// Which columns of a table are channels; all but the time by default
    #[arg(long, value_name = "NAMES", requires = "file", value_delimiter = ',')]
    columns: Vec<String>,
    /// Let NaN, infinities and empty fields of text pass
    #[arg(long)]
    allow_nan: bool,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// A recorded signal: ecg, chime, seismo, seismo-gaps, seismo-long, infrasound, sound
    #[arg(long, value_name = "SIGNAL")]
    signal: Option<String>,
    /// A WAV, CSV, Parquet or NPY file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A waveform: sine, chirp, steps, noise, ramp
    #[arg(long, value_name = "SHAPE")]
    wave: Option<Shape>,
    /// This host, live: cpu, net:INTERFACE, udp, pressure
    #[arg(long, value_name = "PROBE", value_parser = probe)]
    host: Option<Probe>,
    /// Standard input: lines of numbers, or raw little-endian elements
    #[arg(long, value_name = "FORM")]
    stdin: Option<Form>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Form {
    /// One line, one sample: numbers with commas, semicolons, spaces or tabs between them
    Lines,
    /// Elements of --dtype, --channels for each sample
    Raw,
}

impl OriginArguments {
    /// Opens the source under `name`, or its own name.
    pub(super) fn open(&self, name: Option<&StreamName>, repeat: bool) -> anyhow::Result<Box<dyn Source>> {
        let source = self.open_once(name)?;
        let source: Box<dyn Source> = match name {
            Some(name) if *name != source.description().name => Box::new(Named::new(source, name)),
            _ => source,
        };
        Ok(if repeat { Box::new(Repeat::new(source)) } else { source })
    }

    fn open_once(&self, name: Option<&StreamName>) -> anyhow::Result<Box<dyn Source>> {
        if let Some(signal) = &self.what.signal {
            if self.rate.is_some() || self.dtype.is_some() {
                bail!(
                    "a recorded signal has its own rate and dtype\nleave --rate and --dtype out; --speed plays it faster"
                );
            }
            return Ok(source::signals::open(signal)?);
        }
        if let Some(path) = &self.what.file {
            return Ok(Box::new(source::open_file(path, &self.file_options(name))?));
        }
        if let Some(shape) = self.what.wave {
            return Ok(Box::new(self.wave(shape, needed_name(name)?)?.open()?));
        }
        if let Some(probe) = &self.what.host {
            let default = SampleRate::hz(DEFAULT_RATE_HZ)?;
            return Ok(Box::new(probe.open(self.rate.unwrap_or(default))?));
        }
        let name = needed_name(name)?;
        match self.what.stdin.expect("clap asks for one of the group") {
            Form::Lines => self.lines(name),
            Form::Raw => self.raw(name),
        }
    }

    fn file_options(&self, name: Option<&StreamName>) -> FileOptions {
        FileOptions {
            name: name.cloned(),
            rate: self.rate,
            dtype: self.dtype,
            time: match self.time.as_deref() {
                None => TimeColumn::Auto,
                Some("none") => TimeColumn::None,
                Some(column) => TimeColumn::Named(column.to_owned()),
            },
            columns: self.columns.clone(),
            nan: self.nan_policy(),
        }
    }

    fn wave(&self, shape: Shape, name: &StreamName) -> anyhow::Result<WaveOptions> {
        let rate = self.needed_rate()?;
        Ok(WaveOptions {
            channels: self.channels,
            dtype: self.dtype.unwrap_or(Dtype::F4),
            frequency_hz: self.frequency,
            amplitude: self.amplitude,
            seed: self.seed,
            ..WaveOptions::new(name.clone(), shape, rate)
        })
    }

    fn lines(&self, name: &StreamName) -> anyhow::Result<Box<dyn Source>> {
        let options = LinesOptions {
            dtype: self.dtype.unwrap_or(Dtype::F8),
            nan: self.nan_policy(),
            ..LinesOptions::new(name.clone(), self.needed_rate()?)
        };
        Ok(Box::new(Lines::open(std::io::stdin(), &options)?))
    }

    fn raw(&self, name: &StreamName) -> anyhow::Result<Box<dyn Source>> {
        let dtype = self.dtype.ok_or_else(|| anyhow!("raw elements need a type\nsay it: --dtype i16"))?;
        let channels = (0..self.channels).map(|index| Channel::new(format!("ch{index}"), "")).collect();
        let schema = Schema::new(dtype, self.needed_rate()?, channels)?;
        Ok(Box::new(Raw::new(std::io::stdin(), name.clone(), schema)))
    }

    fn needed_rate(&self) -> anyhow::Result<SampleRate> {
        self.rate.ok_or_else(|| {
            anyhow!("this source has no rate of its own\nsay it: --rate 1k for 1,000 samples per second")
        })
    }

    const fn nan_policy(&self) -> NanPolicy {
        if self.allow_nan { NanPolicy::Allow } else { NanPolicy::Refuse }
    }
}

/// A source under another name.
struct Named {
    source: Box<dyn Source>,
    description: source::Description,
}

impl Named {
    fn new(source: Box<dyn Source>, name: &StreamName) -> Self {
        let description = source::Description { name: name.clone(), ..source.description().clone() };
        Self { source, description }
    }
}

impl Source for Named {
    fn description(&self) -> &source::Description {
        &self.description
    }

    fn next(&mut self, at_most: std::num::NonZeroU64) -> Result<source::Piece<'_>, source::SourceError> {
        self.source.next(at_most)
    }

    fn rewind(&mut self) -> Result<(), source::SourceError> {
        self.source.rewind()
    }
}

fn needed_name(name: Option<&StreamName>) -> anyhow::Result<&StreamName> {
    name.ok_or_else(|| anyhow!("this source has no name of its own\nsay one: tallycast pub lab/probe …"))
}

fn probe(text: &str) -> Result<Probe, String> {
    match text.split_once(':') {
        Some(("net", interface)) if !interface.is_empty() => Ok(Probe::Interface(interface.to_owned())),
        None if text == "cpu" => Ok(Probe::Cpu),
        None if text == "udp" => Ok(Probe::Udp),
        None if text == "pressure" => Ok(Probe::Pressure),
        _ => Err(format!("`{text}` cannot be looked at; write cpu, udp, pressure, or net:eth0")),
    }
}

/// Frequencies are written as rates are.
fn hertz(text: &str) -> Result<f64, RateError> {
    text.parse::<SampleRate>().map(SampleRate::as_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_read_by_name() {
        assert_eq!(probe("net:eth0"), Ok(Probe::Interface("eth0".to_owned())));
        assert_eq!(probe("cpu"), Ok(Probe::Cpu));
        for text in ["net:", "net", "disk", ""] {
            assert!(probe(text).is_err(), "{text}");
        }
    }
}
