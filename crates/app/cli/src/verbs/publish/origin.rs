//! Sources that a stream can be published from.

use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use source::host::{DEFAULT_RATE_HZ, Probe};
use source::{
    FileKind, FileOptions, FileSource, FramesOptions, Lines, LinesOptions, NanPolicy, OpenError, Raw, Repeat,
    Shape, Source, Speed, TimeColumn, TimeUnit, WaveOptions,
};
use tallycast::{Channel, Dtype, SampleRate, Schema, StreamName};
use units::RateError;

use super::play::Ending;
use super::python_file::{self, PythonFile};

/// Maximum number of channels of a flag; the schema's own limit is checked after it.
const MAX_CHANNELS: usize = 65_536;

#[derive(Args, Debug)]
pub(super) struct OriginArguments {
    #[command(flatten)]
    what: What,
    /// Samples per second: 360, 48k, 2.5M, 1000/3; overrides the rate in a file
    #[arg(long, value_name = "RATE")]
    rate: Option<SampleRate>,
    /// Number of channels of a waveform or of raw input [default: 1]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_CHANNELS as u64))]
    channels: Option<usize>,
    /// Type of every element: i8 … u64, f4, f8, c8, c16, bool
    #[arg(long)]
    dtype: Option<Dtype>,
    /// Frequency of a waveform: 50, 1k
    #[arg(long, value_name = "HZ", requires = "wave", value_parser = hertz)]
    frequency: Option<f64>,
    /// Amplitude of a waveform
    #[arg(long, requires = "wave")]
    amplitude: Option<f64>,
    /// Seed of the noise
    #[arg(long, requires = "wave")]
    seed: Option<u64>,
    /// Time column of a table, or data set of an HDF5 file; `none` if a column that looks like a time is a channel
    #[arg(long, value_name = "COLUMN", requires = "file")]
    time: Option<String>,
    /// Keep the time of every row; irregular times are kept anyway, unless --rate is given
    #[arg(long, requires = "file")]
    own_times: bool,
    /// Unit of the time column: s, ms, us, ns, min, h; iso for dates and times of day, dmy or mdy where 03/04/2026 has
    /// the day or the month first [default: from its heading, its name or its first value]
    #[arg(long, value_name = "UNIT", requires = "file", value_parser = time_unit)]
    time_unit: Option<TimeUnit>,
    /// Time zone of times without an offset, such as Europe/Berlin [default: that of this host; in Parquet and Arrow UTC]
    #[arg(long, value_name = "ZONE", requires = "file")]
    time_zone: Option<String>,
    /// Pass over this many lines at the beginning of a text
    #[arg(long, value_name = "LINES")]
    skip: Option<u64>,
    /// Format of the file, whatever its name and content: csv, for any table of text, wav, parquet, arrow, npy or npz
    #[arg(long, value_enum, value_name = "FORMAT", requires = "file", hide_possible_values = true)]
    format: Option<FileFormat>,
    /// Columns of a table or fields of an array to publish [default: all but the time]
    #[arg(long, value_name = "NAMES", requires = "file", value_delimiter = ',')]
    columns: Vec<String>,
    /// Accept NaN, infinities and empty text fields from files and standard input
    #[arg(long)]
    allow_nan: bool,
    /// Channel names, instead of the source's own
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) name_channels: Vec<String>,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct What {
    /// A recorded signal: ecg, chime, seismo, seismo-gaps, seismo-long, infrasound, sound
    #[arg(long, value_name = "SIGNAL")]
    signal: Option<String>,
    /// A WAV, CSV, Parquet, Arrow, Feather, NPY or NPZ file (FILE.npz#ARRAY is one array of several); HDF5, NetCDF,
    /// TDMS, MDF, MAT, miniSEED, WFDB, XDF, MCAP, EDF by Python's packages
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

/// [`FileKind`], with its names on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum FileFormat {
    Csv,
    Wav,
    Parquet,
    Arrow,
    Npy,
    Npz,
}

impl From<FileFormat> for FileKind {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Wav => Self::Wav,
            FileFormat::Parquet => Self::Parquet,
            FileFormat::Arrow => Self::Arrow,
            FileFormat::Npy => Self::Npy,
            FileFormat::Npz => Self::Npz,
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Form {
    /// One sample per line: numbers separated by commas, semicolons, spaces or tabs
    Lines,
    /// Elements of type --dtype, --channels per sample
    Raw,
}

impl OriginArguments {
    /// Refuses options that would be without effect.
    pub(super) fn check(&self, repeat: bool, speed: Speed) -> anyhow::Result<()> {
        let given = [
            ("--rate", self.rate.is_some()),
            ("--channels", self.channels.is_some()),
            ("--dtype", self.dtype.is_some()),
            ("--frequency", self.frequency.is_some()),
            ("--amplitude", self.amplitude.is_some()),
            ("--seed", self.seed.is_some()),
            ("--allow-nan", self.allow_nan),
            ("--skip", self.skip.is_some()),
            ("--loop", repeat),
            ("--speed", speed != Speed::true_time()),
        ];
        let (origin, takes) = self.what.takes();
        if let Some((option, _)) = given.iter().find(|(option, given)| *given && !takes.contains(option)) {
            bail!("{option} has no effect on {origin}\nomit it; supported are {}", takes.join(", "));
        }
        Ok(())
    }

    /// Returns whether the source can wait without losing anything.
    pub(super) const fn can_wait(&self) -> bool {
        self.what.signal.is_some() || self.what.file.is_some() || self.what.stdin.is_some()
    }

    /// Opens the source under `name`, or its own name; a file of several streams opens each of them, under names that
    /// begin so. Empty if the end was requested while it waited for input.
    pub(super) fn open(
        &self,
        name: Option<&StreamName>,
        repeat: bool,
        ending: &Ending,
    ) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let sources: Vec<Box<dyn Source>> = match &self.what.file {
            Some(path) if self.format.is_none() && python_file::is_for_python(path) => {
                self.python_file(path, name)?
            }
            _ => {
                let named = |source: Box<dyn Source>| -> Box<dyn Source> {
                    match name {
                        Some(name) if *name != source.description().name => {
                            Box::new(Named::new(source, name))
                        }
                        _ => source,
                    }
                };
                self.open_once(name, ending)?.into_iter().map(named).collect()
            }
        };
        let repeated = |source: Box<dyn Source>| -> Box<dyn Source> {
            if repeat { Box::new(Repeat::new(source)) } else { source }
        };
        Ok(sources.into_iter().map(repeated).collect())
    }

    fn python_file(&self, path: &Path, name: Option<&StreamName>) -> anyhow::Result<Vec<Box<dyn Source>>> {
        self.check_for_python().map_err(|error| source::in_file(path, error.into()))?;
        let own = || source::name_of(path).with_context(|| path.display().to_string());
        let name = name.cloned().map_or_else(own, Ok)?;
        let options = FramesOptions { rate: self.rate, dtype: self.dtype, own_times: self.own_times };
        let file = PythonFile { path, name, options, time: self.time.as_deref(), columns: &self.columns };
        let checked = |stream| source::finite(stream, self.nan_policy());
        let named = |stream| -> Box<dyn Source> { Box::new(FileSource::new(path, checked(stream))) };
        Ok(file.open()?.into_iter().map(named).collect())
    }

    /// Refuses options that Python's readers do not have.
    fn check_for_python(&self) -> Result<(), OpenError> {
        if self.skip.is_some() {
            return Err(OpenError::NotText);
        }
        let is_told = self.time_unit.is_some() || self.time_zone.is_some();
        if is_told { Err(OpenError::TimesTold) } else { Ok(()) }
    }

    fn open_once(
        &self,
        name: Option<&StreamName>,
        ending: &Ending,
    ) -> anyhow::Result<Option<Box<dyn Source>>> {
        let source: Box<dyn Source> = if let Some(signal) = &self.what.signal {
            source::signals::open(signal)?
        } else if let Some(path) = &self.what.file {
            Box::new(source::open_file(path, &self.file_options(name))?)
        } else if let Some(shape) = self.what.wave {
            Box::new(self.wave(shape, needed_name(name)?)?.open()?)
        } else if let Some(probe) = &self.what.host {
            let default = SampleRate::hz(DEFAULT_RATE_HZ)?;
            Box::new(probe.open(self.rate.unwrap_or(default))?)
        } else {
            let name = needed_name(name)?;
            match self.what.stdin.expect("clap asks for one of the group") {
                Form::Lines => return self.lines(name, ending),
                Form::Raw => self.raw(name)?,
            }
        };
        Ok(Some(source))
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
            kind: self.format.map(FileKind::from),
            own_times: self.own_times,
            time_unit: self.time_unit,
            time_zone: self.time_zone.clone(),
            skip: self.skip.unwrap_or(0),
            channel_names: self.name_channels.clone(),
        }
    }

    fn wave(&self, shape: Shape, name: &StreamName) -> anyhow::Result<WaveOptions> {
        let rate = self.needed_rate()?;
        Ok(WaveOptions {
            channels: self.channels.unwrap_or(1),
            dtype: self.dtype.unwrap_or(Dtype::F4),
            frequency_hz: self.frequency,
            amplitude: self.amplitude,
            seed: self.seed.unwrap_or(0),
            ..WaveOptions::new(name.clone(), shape, rate)
        })
    }

    fn lines(&self, name: &StreamName, ending: &Ending) -> anyhow::Result<Option<Box<dyn Source>>> {
        let options = LinesOptions {
            dtype: self.dtype.unwrap_or(Dtype::F8),
            nan: self.nan_policy(),
            skip: self.skip.unwrap_or(0),
            ..LinesOptions::new(name.clone(), self.needed_rate()?)
        };
        // Opening waits for the first line, perhaps indefinitely: the thread ends with the process.
        let (sender, opened) = sync_channel(1);
        let open = move || drop(sender.send(Lines::open(std::io::stdin(), &options)));
        std::thread::Builder::new().name("first line".to_owned()).spawn(open)?;
        let Some(lines) = ending.wait_for(&opened) else { return Ok(None) };
        Ok(Some(Box::new(lines?)))
    }

    fn raw(&self, name: &StreamName) -> anyhow::Result<Box<dyn Source>> {
        let dtype =
            self.dtype.ok_or_else(|| anyhow!("raw elements need a type\nset it, as in --dtype i16"))?;
        let channels =
            (0..self.channels.unwrap_or(1)).map(|index| Channel::new(format!("ch{index}"), "")).collect();
        let schema = Schema::new(dtype, self.needed_rate()?, channels)?;
        let raw = Raw::new(std::io::stdin(), name.clone(), schema);
        Ok(source::finite(Box::new(raw), self.nan_policy()))
    }

    fn needed_rate(&self) -> anyhow::Result<SampleRate> {
        self.rate.ok_or_else(|| {
            anyhow!("this source has no rate\nset it, as in --rate 1k for 1,000 samples per second")
        })
    }

    const fn nan_policy(&self) -> NanPolicy {
        if self.allow_nan { NanPolicy::Allow } else { NanPolicy::Refuse }
    }
}

impl What {
    /// Names the origin, and the options that have an effect on it; clap handles those of the others.
    fn takes(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self { signal: Some(_), .. } => ("a recorded signal", &["--loop", "--speed"]),
            Self { file: Some(_), .. } => {
                ("a file", &["--rate", "--dtype", "--allow-nan", "--skip", "--loop", "--speed"])
            }
            Self { wave: Some(Shape::Noise), .. } => {
                ("noise", &["--rate", "--channels", "--dtype", "--amplitude", "--seed", "--speed"])
            }
            Self { wave: Some(_), .. } => (
                "this waveform",
                &["--rate", "--channels", "--dtype", "--frequency", "--amplitude", "--speed"],
            ),
            Self { host: Some(_), .. } => ("this host", &["--rate", "--speed"]),
            Self { stdin: Some(Form::Raw), .. } => {
                ("raw input", &["--rate", "--channels", "--dtype", "--allow-nan"])
            }
            Self { .. } => ("lines of input", &["--rate", "--dtype", "--allow-nan", "--skip"]),
        }
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

    fn decided(&self) -> Option<String> {
        self.source.decided()
    }

    fn next(&mut self, at_most: std::num::NonZeroU64) -> Result<source::Piece<'_>, source::SourceError> {
        self.source.next(at_most)
    }

    fn rewind(&mut self) -> Result<(), source::SourceError> {
        self.source.rewind()
    }
}

fn needed_name(name: Option<&StreamName>) -> anyhow::Result<&StreamName> {
    name.ok_or_else(|| anyhow!("this source has no default name\ngive one: tallycast pub lab/probe …"))
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    let unknown = || format!("unknown unit of time `{text}`; write one of {}", TimeUnit::NAMES.join(", "));
    TimeUnit::named(text).filter(|_| TimeUnit::NAMES.contains(&text)).ok_or_else(unknown)
}

fn probe(text: &str) -> Result<Probe, String> {
    match text.split_once(':') {
        Some(("net", interface)) if !interface.is_empty() => Ok(Probe::Interface(interface.to_owned())),
        None if text == "cpu" => Ok(Probe::Cpu),
        None if text == "udp" => Ok(Probe::Udp),
        None if text == "pressure" => Ok(Probe::Pressure),
        _ => Err(format!("unknown probe `{text}`; write cpu, udp, pressure, or net:eth0")),
    }
}

/// Frequencies are written as rates are.
fn hertz(text: &str) -> Result<f64, RateError> {
    text.parse::<SampleRate>().map(SampleRate::as_hz)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens the sources that the command line names.
    fn opened(arguments: &[&str]) -> anyhow::Result<Vec<Box<dyn Source>>> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            origin: OriginArguments,
        }
        let line = <Line as clap::Parser>::try_parse_from([&["pub"], arguments].concat())?;
        line.origin.open(None, false, &Ending::new(sys::Cancellation::new()?, None, None))
    }

    #[test]
    fn a_format_that_is_named_counts_more_than_an_extension_of_python_s() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.mat");
        std::fs::write(&path, "t,a\n0,1\n0.1,2\n").unwrap();
        let path = path.to_str().unwrap();
        let sources = opened(&["--file", path, "--format", "csv", "--time-unit", "ms"]).unwrap();
        assert_eq!(sources[0].description().schema.rate, "10k".parse().unwrap());
        for (option, value, advice) in [
            ("--skip", "1", "omit --skip"),
            ("--time-unit", "ms", "omit --time-unit"),
            ("--time-zone", "UTC", "omit"),
        ] {
            let said = format!("{:#}", opened(&["--file", path, option, value]).err().expect(option));
            assert!(said.contains("run.mat") && said.contains(advice), "{said}");
        }
    }

    #[test]
    fn probes_are_read_by_name() {
        assert_eq!(probe("net:eth0"), Ok(Probe::Interface("eth0".to_owned())));
        assert_eq!(probe("cpu"), Ok(Probe::Cpu));
        for text in ["net:", "net", "disk", ""] {
            assert!(probe(text).is_err(), "{text}");
        }
    }
}
