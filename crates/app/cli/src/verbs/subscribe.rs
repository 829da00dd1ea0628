//! `tallycast sub`: reads streams and prints the events, as text or as lines of JSON.
//!
//! The lines of JSON are made in `lines`, the text in `screen`.

mod lines;
mod screen;

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;
use tallycast::{Address, Event, Start, StreamAccount, StreamPattern, account_json};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::reading::Patience;
use crate::settings::{self, Sources};
use crate::signals::AsChild;
use crate::verbs::unjoined;
use screen::Screen;

pub(crate) use lines::named;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast sub 'lab/*'                                   one line per second and stream, and every gap
  tallycast sub 'lab/**' --json --duration 30s            one object per line; the accounts at the end
  tallycast sub lab/sine --json --values --count 1000
  tallycast sub lab/sine --from udp://239.1.2.3:7400      without announcements

In patterns, `*` matches anything within one word of a name, `**` any number of words.
Exit code 1: an account is not balanced or has unexplained losses, or no stream matched.";

/// Interval at which the clock and the request to end are checked: a subscriber sleeps at words of memory, not at
/// descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to read, such as lab/probe, 'lab/*' or '**'
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<StreamPattern>,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    /// Print the samples, too
    #[arg(long)]
    values: bool,
    /// End after this time, such as 30s
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// End after this many samples, over all streams
    #[arg(long, value_name = "SAMPLES")]
    count: Option<u64>,
    /// End once every joined stream has ended; a stream that falls silent counts as ended after a minute
    #[arg(long)]
    until_end: bool,
    /// Receive at this address without waiting for announcements; may be given several times
    #[arg(long, value_name = "URL")]
    from: Vec<Address>,
    /// First sample of a stream that starts after this reader [default: start= of the bus]
    #[arg(long, value_enum, value_name = "WHERE")]
    start: Option<StartAt>,
    /// Age from which samples are of no use: relays serve it, and what is older when it comes is lost [default: none]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    deadline: Option<Duration>,
    /// Name of this reader in accounts [default: the station's name]
    #[arg(long, value_name = "NAME")]
    reader: Option<String>,
    /// Receive buffer of each socket, such as 8MiB
    #[arg(long, value_name = "SIZE", value_parser = text::size_bytes)]
    rcvbuf: Option<usize>,
    #[command(flatten)]
    child: AsChild,
}

/// [`Start`], with its names on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum StartAt {
    /// At its first sample; samples that are no longer available are a counted gap
    Beginning,
    /// At the first sample after the stream was found
    Now,
}

impl From<StartAt> for Start {
    fn from(start: StartAt) -> Self {
        match start {
            StartAt::Beginning => Self::Beginning,
            StartAt::Now => Self::Now,
        }
    }
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let mut bus = settings.bus()?;
    bus.receive_buffer_bytes = arguments.rcvbuf.unwrap_or(bus.receive_buffer_bytes);
    let node = settings.node_on(bus)?;
    let cancellation = arguments.child.cancellation()?;
    let mut patterns = arguments.patterns.iter().map(StreamPattern::as_str);
    let mut builder = node.subscriber(patterns.next().expect("clap asks for one"));
    builder = patterns.fold(builder, tallycast::SubscriberBuilder::pattern);
    builder = arguments.from.iter().fold(builder, |builder, address| builder.from(address.socket));
    if let Some(start) = arguments.start {
        builder = builder.start(start.into());
    }
    if let Some(deadline) = arguments.deadline {
        builder = builder.deadline(deadline);
    }
    if let Some(reader) = &arguments.reader {
        builder = builder.reader(reader.as_str());
    }
    let mut subscriber = builder.open()?;
    let mut printer = Printer::new(&arguments);
    let deadline = Deadline::after(arguments.duration);
    let mut patience = Patience::new(cancellation, arguments.child.patience, arguments.until_end);
    while !(deadline.is_over() || patience.is_over(&mut subscriber) || printer.has(arguments.count)) {
        if let Some(event) = subscriber.next(deadline.left(POLL_INTERVAL)) {
            printer.take(&event)?;
        }
        printer.look(|| subscriber.accounts())?;
    }
    let mut printed = Ok(());
    let accounts = subscriber.close_into(|event| {
        if printed.is_ok() {
            printed = printer.take(&event);
        }
    });
    printed?;
    printer.finish(&accounts)?;
    let all_joined = unjoined::say(&node);
    if accounts.is_empty() {
        eprintln!("no stream matched on {}", settings::brief(node.bus()));
        eprintln!("list the streams with `tallycast ls`, or check --bus and its interface");
        return Ok(Outcome::Found);
    }
    let in_order = accounts.iter().all(|account| tallycast::is_in_order_among(account, &accounts));
    let in_order = in_order && all_joined;
    Ok(if in_order { Outcome::Fine } else { Outcome::Found })
}

/// Prints events, and counts them.
struct Printer {
    form: Form,
    values: bool,
    samples: u64,
}

enum Form {
    Lines,
    Screen(Screen),
}

impl Printer {
    fn new(arguments: &Arguments) -> Self {
        let form = if arguments.json { Form::Lines } else { Form::Screen(Screen::new(Instant::now())) };
        Self { form, values: arguments.values, samples: 0 }
    }

    fn has(&self, count: Option<u64>) -> bool {
        count.is_some_and(|count| self.samples >= count)
    }

    fn take(&mut self, event: &Event) -> std::io::Result<()> {
        if let Event::Block(block) = event {
            self.samples += block.samples;
        }
        match &mut self.form {
            Form::Lines => print_line(&lines::event_json(event, self.values)),
            Form::Screen(screen) => screen.take(event, self.values),
        }
    }

    fn look(&mut self, accounts: impl FnOnce() -> Vec<StreamAccount>) -> std::io::Result<()> {
        match &mut self.form {
            Form::Lines => Ok(()),
            Form::Screen(screen) => screen.look(Instant::now(), accounts),
        }
    }

    fn finish(&self, accounts: &[StreamAccount]) -> std::io::Result<()> {
        for account in accounts {
            match &self.form {
                Form::Lines => print_line(&account_line(account))?,
                Form::Screen(_) => screen::print_account(account)?,
            }
        }
        Ok(())
    }
}

/// Returns the line that ends a reader's account of one epoch.
pub(crate) fn account_line(account: &StreamAccount) -> Value {
    named("account", account_json(account))
}
