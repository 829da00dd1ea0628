//! `tallycast top`: every stream as received here: its reach and the reason, its rate, its losses by stage.

mod readers;
mod snapshots;
mod state;
mod view;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use serde_json::{Value, json};
use sys::{Cancellation, Interest, Poller, clock};
use tallycast::{
    HeardReports, Reach, ReaderRows, StreamAccount, StreamId, StreamPattern, Subscriber, account_json,
};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;
use readers::OtherReader;
use snapshots::Snapshots;
use state::{Next, State};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast top                        every stream, updated every second, until Ctrl-C
  tallycast top 'lab/**' --interval 5s
  tallycast top --snapshots 1 --json   one snapshot, one object per stream

In a terminal the view has five panels: streams, stages, sockets, processors and readers; `?` lists the keys. The streams panel
shows this reader's own accounts: it reads every stream that it shows. The readers panel shows those, also of other hosts, that report
to publishers of this host. The other panels cover the whole host.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to show, such as lab/** [default: every stream]
    #[arg(value_name = "PATTERN", default_value = "**")]
    patterns: Vec<StreamPattern>,
    /// The time between two snapshots
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = text::duration)]
    interval: Duration,
    /// End after this many snapshots
    #[arg(long, alias = "looks", value_name = "COUNT")]
    snapshots: Option<u64>,
    /// One JSON object per stream and snapshot, one per line
    #[arg(long)]
    json: bool,
    /// One table per snapshot, one below the other, also in a terminal
    #[arg(long)]
    plain: bool,
}

/// One stream in one snapshot.
struct Line {
    account: StreamAccount,
    reach: Reach,
    samples_per_s: f64,
    bytes_per_s: f64,
    readers: Vec<OtherReader>,
}

/// Samples and bytes of a stream since the last snapshot.
#[derive(Clone, Copy, Default)]
struct Flow {
    samples: u64,
    bytes: u64,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let node = settings.node()?;
    let mut patterns = arguments.patterns.iter().map(ToString::to_string);
    let first = patterns.next().unwrap_or_else(|| "**".to_owned());
    let builder = patterns.fold(node.subscriber(first), tallycast::SubscriberBuilder::pattern);
    let mut subscriber = builder.reader("top").open()?;
    let mut heard = node.heard_reports();
    let cancellation = signals::cancellation()?;
    let is_view = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if is_view && !arguments.json && !arguments.plain && arguments.snapshots.is_none() {
        view_until_ended(&mut subscriber, &mut heard, arguments.interval, &cancellation)?;
        return Ok(Outcome::Fine);
    }
    let mut seen_any = false;
    for snapshot in 1.. {
        let began = Instant::now();
        let flows = read_for(&mut subscriber, arguments.interval, &cancellation);
        let lines = lines(&subscriber, &mut heard, &flows, began.elapsed());
        seen_any |= !lines.is_empty();
        if arguments.json {
            lines.iter().try_for_each(|line| print_line(&object(line)))?;
        } else {
            print_table(&lines)?;
        }
        if cancellation.is_cancelled() || arguments.snapshots.is_some_and(|snapshots| snapshot >= snapshots) {
            break;
        }
    }
    Ok(if seen_any { Outcome::Fine } else { Outcome::Found })
}

/// The terminal, which is given back however the view ends.
struct Screen {
    terminal: ratatui::DefaultTerminal,
    keyboard: Poller,
}

impl Screen {
    fn take() -> std::io::Result<Self> {
        let keyboard = Poller::new()?;
        keyboard.add(std::io::stdin(), 0, Interest::Read)?;
        // It gives the terminal back after a panic, too.
        Ok(Self { terminal: ratatui::try_init()?, keyboard })
    }

    /// Handles the pressed keys; returns whether the view continues.
    fn follow_keys(&mut self, state: &mut State) -> std::io::Result<Next> {
        match self.keyboard.wait(Some(clock::monotonic()))? {
            [] => return Ok(Next::GoOn),
            // Asked for events, the library would try to read from a terminal that is gone without end.
            [terminal, ..] if terminal.failed => return Ok(Next::End),
            _ => {}
        }
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && state.press(key) == Next::End
            {
                return Ok(Next::End);
            }
        }
        Ok(Next::GoOn)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Interval at which keys are checked.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

fn view_until_ended(
    subscriber: &mut Subscriber,
    heard: &mut HeardReports,
    interval: Duration,
    cancellation: &Cancellation,
) -> anyhow::Result<()> {
    let mut screen = Screen::take()?;
    let (mut state, mut snapshots) = (State::new(), Snapshots::begin());
    let (mut flows, mut began) = (BTreeMap::new(), Instant::now());
    while !cancellation.is_cancelled() {
        screen.terminal.draw(|frame| view::draw(frame, &state))?;
        for (name, flow) in read_for(subscriber, interval.min(KEY_INTERVAL), cancellation) {
            let sum: &mut Flow = flows.entry(name).or_default();
            sum.samples += flow.samples;
            sum.bytes += flow.bytes;
        }
        if screen.follow_keys(&mut state)? == Next::End {
            break;
        }
        let took = began.elapsed();
        if took >= interval {
            let lines = lines(subscriber, heard, &std::mem::take(&mut flows), took);
            began = Instant::now();
            state.see(snapshots.take(&lines, took));
        }
    }
    Ok(())
}

/// Reads all events until the time is over; returns them by the streams' names.
fn read_for(
    subscriber: &mut Subscriber,
    interval: Duration,
    cancellation: &Cancellation,
) -> BTreeMap<String, Flow> {
    let deadline = Deadline::after(Some(interval));
    let mut flows: BTreeMap<String, Flow> = BTreeMap::new();
    while !deadline.is_over() && !cancellation.is_cancelled() {
        let Some(event) = subscriber.next(interval.min(Duration::from_millis(50))) else { continue };
        if let tallycast::Event::Block(block) = event {
            let flow = flows.entry(block.stream.to_string()).or_default();
            flow.samples += block.samples;
            flow.bytes += block.data.as_bytes().len() as u64;
        }
    }
    flows
}

#[expect(clippy::cast_precision_loss, reason = "rates for display")]
fn lines(
    subscriber: &Subscriber,
    heard: &mut HeardReports,
    flows: &BTreeMap<String, Flow>,
    took: Duration,
) -> Vec<Line> {
    heard.look();
    let reaches: BTreeMap<StreamId, Reach> = subscriber.reaches().into_iter().collect();
    let line = |account: StreamAccount| {
        let flow = flows.get(account.stream.as_str()).copied().unwrap_or_default();
        let per_s = |count: u64| count as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
        let reach = reaches.get(&account.id).copied().unwrap_or(Reach::Udp);
        let readers = heard.of(account.id, account.epoch);
        let readers = readers.into_iter().map(|reader| OtherReader::of(reader, heard.age(reader))).collect();
        let (samples_per_s, bytes_per_s) = (per_s(flow.samples), per_s(flow.bytes));
        Line { samples_per_s, bytes_per_s, account, reach, readers }
    };
    let mut lines: Vec<Line> = subscriber.accounts_without_gaps().into_iter().map(line).collect();
    lines.sort_by(|a, b| a.account.stream.cmp(&b.account.stream));
    lines
}

fn object(line: &Line) -> Value {
    let mut object = account_json(&line.account);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("event".to_owned(), json!("look"));
        fields.insert("reach".to_owned(), json!(line.reach.hop()));
        fields.insert("why".to_owned(), json!(line.reach.why()));
        fields.insert("samples_per_s".to_owned(), json!(line.samples_per_s));
        fields.insert("bytes_per_s".to_owned(), json!(line.bytes_per_s));
        fields.insert("readers".to_owned(), line.readers.iter().map(OtherReader::object).collect());
    }
    object
}

fn print_table(lines: &[Line]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    let name = lines.iter().map(|line| line.account.stream.as_str().len()).max().unwrap_or(0).max(6);
    writeln!(
        output,
        "{:name$}  {:>10}  {:>10}  {:>14}  {:28}  REACH",
        "STREAM", "SAMPLES/S", "PER S", "DELIVERED", "LOST"
    )?;
    for line in lines {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size for display")]
        let size = text::decimal_size(line.bytes_per_s as u64);
        writeln!(
            output,
            "{:name$}  {:>10.0}  {size:>10}  {:>14}  {:28}  {} ({})",
            line.account.stream.as_str(),
            line.samples_per_s,
            line.account.account.elements.delivered,
            lost_text(&line.account),
            line.reach.hop(),
            line.reach.why()
        )?;
    }
    if lines.is_empty() {
        writeln!(output, "no data yet")?;
    }
    output.flush()
}

/// Returns the losses and their stages, in elements.
fn lost_text(account: &StreamAccount) -> String {
    lost_of(&account.account.elements)
}

fn lost_of(rows: &ReaderRows) -> String {
    let mut parts: Vec<String> =
        rows.lost.nonzero().map(|(stage, count)| format!("{count} {stage}")).collect();
    if rows.unexplained > 0 {
        parts.push(format!("{} unexplained", rows.unexplained));
    }
    if rows.unsettled > 0 {
        parts.push(format!("{} unsettled", rows.unsettled));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
