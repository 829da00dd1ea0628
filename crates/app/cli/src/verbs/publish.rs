//! `tallycast pub`: a stream from a source, at its true rate.
//!
//! The sources are in `origin`, their playback in `play`.

mod control;
mod origin;
mod play;
mod python_file;
mod thinning;
mod times;

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use graph::plan::Every;
use serde_json::{Value, json};
use source::{Description, Source, Speed};
use tallycast::{
    Address, Channel, Departures, Node, OnFull, PublicationStatus, Publisher, PublisherBuilder, ReaderReport,
    Schema, Sending, StreamName, Totals,
};
use units::text;

use crate::Outcome;
use crate::messages::{chain, print_line};
use crate::quantity::Probability;
use crate::settings::{self, Sources};
use crate::signals;

pub(crate) use play::{Ending, played_rate};
use play::{Playing, play};
use thinning::{ChannelCalibration, Thinning};

/// One line instead of every source with its value.
pub(crate) const USAGE: &str = "tallycast pub [OPTIONS] <--signal|--file|--wave|--host|--stdin> [NAME]";

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast pub lab/sine --wave sine --rate 200k --channels 2 --dtype f4 --frequency 1k
  tallycast pub --signal ecg --loop                       a recorded signal at its original rate
  tallycast pub lab/run7 --file run7.csv --unit mV --label device=probe-1
  tallycast pub lab/probe --wave noise --rate 1M --thin 1ms
      only min, max, mean and number of each millisecond leave this station
  tallycast pub --host cpu
  read-adc | tallycast pub lab/adc --stdin raw --dtype i16 --channels 4 --rate 50k
  tallycast pub lab/sine --wave sine --rate 1k --loss 1%  plant loss: readers see stage `injected`";

/// Default time that a finite source waits for readers: several times the duration of joining.
const DEFAULT_WAIT: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the stream, a path such as lab/probe; recorded signals, files and hosts have a default name
    name: Option<StreamName>,
    #[command(flatten)]
    origin: origin::OriginArguments,
    /// Start over at the end; the jump is a hole of stage `source`
    #[arg(long = "loop")]
    repeat: bool,
    /// Playback speed relative to the original: 10, 0.5 or 1/2
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// End after this many samples of the source
    #[arg(long, value_name = "SAMPLES")]
    count: Option<u64>,
    /// End after this time, such as 30s
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Destination instead of the bus's group; may be given several times
    #[arg(long, value_name = "URL")]
    to: Vec<Address>,
    /// Plant loss: withhold datagrams with this probability, such as 1%; readers of this host then use the network, too
    #[arg(long, value_name = "PROBABILITY", default_value = "0")]
    loss: Probability,
    /// Treatment of samples when the queue is full [default: block for files and standard input, overwrite otherwise]
    #[arg(long, value_enum)]
    on_full: Option<WhenFull>,
    /// Wait for a reader before the first sample, at most this long, so that present readers miss nothing
    /// [default: 500ms for files, recorded signals and standard input; 0s otherwise and with --loop]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    wait: Option<Duration>,
    /// Time that small blocks wait to be sent together; 0s: not at all
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    linger: Option<Duration>,
    /// Send always, or only while a reader is present [default: send= of the bus, otherwise always]
    #[arg(long, value_enum, value_name = "WHEN")]
    send: Option<WhenToSend>,
    /// Sign statements about the samples, so that a recording can be proven later: query --verify; needs a bus with keys
    #[arg(long)]
    proof: bool,
    /// One unit for all channels, or one per channel, separated by commas
    #[arg(long, value_name = "UNITS", value_delimiter = ',')]
    unit: Vec<String>,
    /// Describe a channel in another unit: value × SCALE + OFFSET, such as ch0=0.001,0,kV; may be given several times
    #[arg(long, value_name = "CHANNEL=SCALE,OFFSET,UNIT")]
    calibrate: Vec<ChannelCalibration>,
    /// Publish windows instead of samples: minimum, maximum, mean and number of so many, or of those of a time, such as 1ms
    #[arg(long, value_name = "WINDOW")]
    thin: Option<Every>,
    /// Label of the stream; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    label: Vec<(String, String)>,
    /// Print the totals as JSON at the end
    #[arg(long, short = 'J')]
    json: bool,
    /// Read the probability of planted loss from this file whenever it changes
    #[arg(long, value_name = "PATH", hide = true)]
    inject_control: Option<PathBuf>,
    /// End when standard input ends
    #[arg(long, hide = true, conflicts_with = "stdin")]
    with_parent: bool,
}

/// [`OnFull`], with its names on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum WhenFull {
    /// Discard the oldest unsent samples; readers see stage `publisher_queue`
    Overwrite,
    /// Wait until there is room
    Block,
    /// End with an error
    Error,
}

/// [`Sending`], with its names on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum WhenToSend {
    /// With or without readers
    Always,
    /// Only while a reader is present; samples before that are lost in stage `publisher_paused`
    #[value(name = "on_demand")]
    OnDemand,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let cancellation = signals::cancellation()?;
    if arguments.with_parent {
        signals::cancel_with_parent(&cancellation)?;
    }
    let mut ending = Ending::new(cancellation, arguments.duration, arguments.count);
    arguments.origin.check(arguments.repeat, arguments.speed)?;
    let sources = arguments.origin.open(arguments.name.as_ref(), arguments.repeat, &ending)?;
    if sources.is_empty() {
        eprintln!("ended before the first line, which determines the channels: nothing was published");
        return Ok(Outcome::Fine);
    }
    let streams: Vec<Stream> =
        sources.into_iter().map(|source| arguments.publish(&node, source)).collect::<anyhow::Result<_>>()?;
    if !arguments.json {
        for stream in &streams {
            eprintln!("publishing {} on {}", said(&stream.publisher), settings::brief(node.bus()));
        }
    }
    let is_on_host = node.bus().shm.is_some();
    ending.wait_for_readers(streams.iter().map(|stream| &stream.publisher), arguments.wait());
    ending.begin();
    let (arguments, ending) = (&arguments, &ending);
    let count = streams.len();
    let left: Vec<anyhow::Result<bool>> = std::thread::scope(|scope| {
        let play = |stream: Stream| {
            let name = stream.publisher.name().clone();
            scope.spawn(move || {
                let played = arguments.play(stream, ending);
                if let (Err(error), true) = (&played, count > 1) {
                    // The others may go on for hours.
                    eprintln!("{name} has ended: {}", chain(error));
                }
                played
            })
        };
        let threads: Vec<_> = streams.into_iter().map(play).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let failed = left.iter().filter(|played| played.is_err()).count();
    let left = match left.into_iter().collect::<anyhow::Result<Vec<bool>>>() {
        Err(error) if count > 1 => {
            return Err(error.context(format!("{failed} of {count} streams ended with an error, the first")));
        }
        left => left?,
    };
    let is_fine = is_on_host || left.into_iter().all(|left| left);
    Ok(if is_fine { Outcome::Fine } else { Outcome::Found })
}

/// A source, its publisher, and what is between them.
struct Stream {
    source: Box<dyn Source>,
    thinning: Option<Thinning>,
    publisher: Publisher,
}

impl Arguments {
    fn publish(&self, node: &Node, source: Box<dyn Source>) -> anyhow::Result<Stream> {
        // Also beside JSON: how a file is read decides what its numbers are.
        if let Some(decided) = source.decided() {
            eprintln!("{decided}");
        }
        let name = &source.description().name;
        let taken = thinning::calibrate(name, &self.schema(source.description())?, &self.calibrate)?;
        let (thinning, schema) = match self.thin {
            Some(every) => {
                let (thinning, schema) = Thinning::new(name.clone(), taken, every)?;
                (Some(thinning), schema)
            }
            None => (None, taken),
        };
        let publisher = self.describe(node.publisher(name.to_string()).schema(&schema)).open()?;
        Ok(Stream { source, thinning, publisher })
    }

    /// Plays a stream to its end, and prints its totals; returns whether datagrams left the host.
    fn play(&self, stream: Stream, ending: &Ending) -> anyhow::Result<bool> {
        let control = self.inject_control.as_ref().map(|path| control::InjectControl::new(path));
        let (Playing { publisher, mut ended, thinning, .. }, played) =
            play(stream, self.speed, ending, control);
        let taken = thinning.map(|thinning| thinning.taken());
        let (name, epoch, readers) = (publisher.name().clone(), publisher.epoch(), publisher.readers());
        ended.push((epoch, publisher.close_with_status()));
        for (epoch, status) in &ended {
            if self.json {
                let mut totals = totals_json(&name, *epoch, status, &readers);
                if let (Some(taken), Value::Object(totals)) = (taken, &mut totals) {
                    totals.insert("taken_samples".to_owned(), taken.into());
                }
                print_line(&totals)?;
            } else {
                eprintln!("{}", totals_text(&status.totals));
            }
        }
        if let (Some(taken), false) = (taken, self.json) {
            eprintln!("each of them is a window: {} were taken", text::counted(taken, "sample"));
        }
        if ended.iter().any(|(_, status)| status.totals.samples.publisher_queue > 0) {
            eprintln!(
                "samples arrived faster than they could be sent\nlet the source wait with --on-full block"
            );
        }
        played?;
        Ok(ended.iter().all(|(_, status)| some_left(&name, &status.totals)))
    }

    fn describe(&self, mut builder: PublisherBuilder) -> PublisherBuilder {
        builder = builder.loss(self.loss.0).on_full(match self.on_full() {
            WhenFull::Overwrite => OnFull::Overwrite,
            WhenFull::Block => OnFull::Block,
            WhenFull::Error => OnFull::Error,
        });
        if self.proof {
            builder = builder.proof();
        }
        if let Some(linger) = self.linger {
            builder = builder.linger(linger);
        }
        if let Some(send) = self.send {
            builder = builder.sending(match send {
                WhenToSend::Always => Sending::Always,
                WhenToSend::OnDemand => Sending::OnDemand,
            });
        }
        self.to.iter().fold(builder, |builder, address| builder.to(address.socket))
    }

    /// A file or a pipe can wait; samples generated in real time cannot.
    fn on_full(&self) -> WhenFull {
        let default = if self.origin.can_wait() { WhenFull::Block } else { WhenFull::Overwrite };
        self.on_full.unwrap_or(default)
    }

    fn wait(&self) -> Duration {
        let ends = self.origin.can_wait() && !self.repeat;
        self.wait.unwrap_or(if ends { DEFAULT_WAIT } else { Duration::ZERO })
    }

    /// Returns the source's schema, with the user's options applied.
    fn schema(&self, description: &Description) -> anyhow::Result<Schema> {
        let mut schema = description.schema.clone();
        let channels = schema.channels.len();
        let one_each = |what: &str, given: usize| {
            let message = format!("{given} {what} for {channels} channels\ngive one for each");
            if given == channels { Ok(()) } else { Err(anyhow::anyhow!(message)) }
        };
        if !self.origin.name_channels.is_empty() {
            one_each("channel names", self.origin.name_channels.len())?;
            rename(&mut schema.channels, &self.origin.name_channels);
        }
        match self.unit.as_slice() {
            [] => {}
            [unit] => schema.channels.iter_mut().for_each(|channel| channel.unit.clone_from(unit)),
            units => {
                one_each("units", units.len())?;
                schema
                    .channels
                    .iter_mut()
                    .zip(units)
                    .for_each(|(channel, unit)| channel.unit.clone_from(unit));
            }
        }
        schema.labels.extend(self.label.iter().cloned());
        schema.rate = played_rate(schema.rate, self.speed)?;
        schema.check()?;
        Ok(schema)
    }
}

fn rename(channels: &mut [Channel], names: &[String]) {
    for (channel, name) in channels.iter_mut().zip(names) {
        channel.name.clone_from(name);
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn said(publisher: &Publisher) -> String {
    let schema = publisher.schema();
    format!("{}: {} × {} at {} samples/s", publisher.name(), schema.channels.len(), schema.dtype, schema.rate)
}

/// Returns a publisher's totals as one JSON object.
pub(crate) fn totals_json(
    name: &StreamName,
    epoch: tallycast::Epoch,
    status: &PublicationStatus,
    readers: &[ReaderReport],
) -> Value {
    json!({
        "event": "totals",
        "stream": name,
        "epoch": epoch,
        "samples": status.totals.samples,
        "datagrams": status.totals.datagrams,
        "departures": departures_json(&status.departures),
        "reports": status.reports,
        "statements": status.statements,
        "readers": readers.iter().map(|reader| reader.report.name.as_str()).collect::<Vec<_>>(),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Intervals between trains: the datagrams that left together, and their intervals by powers of two.
fn departures_json(departures: &Departures) -> Value {
    let intervals = departures.intervals();
    let intervals = intervals.map(|(below, count)| json!({"below_ns": nanos(below), "count": count}));
    json!({
        "trains": departures.trains(),
        "datagrams": departures.datagrams(),
        "intervals": intervals.collect::<Vec<_>>(),
    })
}

/// Returns whether something left this host, or nothing was to leave it; says otherwise.
pub(crate) fn some_left(stream: &StreamName, totals: &Totals) -> bool {
    let refused = refused(totals);
    let is_none = refused > 0 && totals.datagrams.bytes == 0;
    if is_none {
        eprintln!("{stream}: nothing left this host, all {refused} datagrams were refused");
        eprintln!("see the warning above, or find the reason: tallycast doctor watch");
    }
    !is_none
}

const fn refused(totals: &Totals) -> u64 {
    let it = &totals.datagrams;
    it.sender_socket + it.sender_ip + it.sender_qdisc + it.sender_nic
}

fn totals_text(totals: &Totals) -> String {
    let (samples, datagrams) = (&totals.samples, &totals.datagrams);
    let parts = [
        (samples.source, "samples missing at the source"),
        (samples.publisher_queue, "samples lost in publisher_queue"),
        (samples.publisher_paused, "samples not sent for lack of readers (publisher_paused)"),
        (datagrams.injected, "datagrams withheld (injected)"),
        (datagrams.sender_socket, "datagrams refused (sender_socket)"),
        (datagrams.sender_ip, "datagrams refused (sender_ip)"),
        (datagrams.sender_qdisc, "datagrams dropped (sender_qdisc)"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!(", {count} {what}")).collect();
    format!("{} of {} samples were sent{}", samples.numbered, samples.offered, parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_which_everything_was_refused_did_not_leave() {
        let name = "lab/x".parse().unwrap();
        let mut totals = Totals::default();
        assert!(some_left(&name, &totals), "nothing was to be sent");
        totals.datagrams.sender_ip = 5;
        assert!(!some_left(&name, &totals));
        totals.datagrams.bytes = 1_400;
        assert!(some_left(&name, &totals), "part of it left");
        (totals.datagrams.bytes, totals.datagrams.sender_ip, totals.datagrams.injected) = (0, 0, 5);
        assert!(some_left(&name, &totals), "withheld on purpose");
    }

    #[test]
    fn labels_are_keys_and_values() {
        assert_eq!(key_value("device=probe=1"), Ok(("device".to_owned(), "probe=1".to_owned())));
        assert!(key_value("device").is_err());
    }
}
