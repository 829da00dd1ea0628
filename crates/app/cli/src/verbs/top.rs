//! `tallycast top`: every stream as received here: its reach and the reason, its rate, its losses by stage.

mod flows;
mod readers;
mod relays;
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
    HeardReports, HopShare, Level, Node, Reach, ReaderRows, Stage, StreamAccount, StreamId, StreamPattern,
    Subscriber, account_json,
};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::layout::{self, Align, Table};
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;
use flows::Flows;
use readers::OtherReader;
use relays::HostRelay;
use snapshots::Snapshots;
use state::{Next, State};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast top                        every stream, updated every second, until Ctrl-C
  tallycast top 'lab/**' --interval 5s
  tallycast top --snapshots 1 --json   one snapshot, one object per stream

In a terminal the view has six panels: streams, stages, sockets, processors, readers and relays; `?` lists the keys. The streams panel
shows this reader's own accounts: it reads every stream that it shows. The readers panel shows those, also of other hosts, that report
to publishers of this host, and the relays panel the relays of this host. The other panels cover the whole host.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to show, such as lab/** [default: every stream]
    #[arg(value_name = "PATTERN", default_value = "**")]
    patterns: Vec<StreamPattern>,
    /// The time between two snapshots
    #[arg(long, short, value_name = "DURATION", default_value = "1s", value_parser = text::duration)]
    interval: Duration,
    /// End after this time, such as 30s
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// End after this many snapshots
    #[arg(long, alias = "looks", value_name = "COUNT")]
    snapshots: Option<u64>,
    /// One JSON object per stream and snapshot, one per line
    #[arg(long, short = 'J')]
    json: bool,
    /// One table per snapshot, one below the other, also in a terminal
    #[arg(long)]
    plain: bool,
}

/// One stream in one snapshot.
struct Line {
    account: StreamAccount,
    reach: Reach,
    level: Level,
    samples_per_s: f64,
    bytes_per_s: f64,
    readers: Vec<OtherReader>,
}

/// Width of the losses in a table: a stage with its count.
const LOST_WIDTH: usize = 28;

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let settings = sources.load()?;
    let node = settings.node()?;
    let mut patterns = arguments.patterns.iter().map(ToString::to_string);
    let first = patterns.next().unwrap_or_else(|| "**".to_owned());
    let builder = patterns.fold(node.subscriber(first), tallycast::SubscriberBuilder::pattern);
    let mut subscriber = builder.reader("top").open()?;
    let (mut heard, level) = (node.heard_reports(), node.level());
    let cancellation = signals::cancellation()?;
    let is_view = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if is_view && !arguments.json && !arguments.plain && arguments.snapshots.is_none() {
        view_until_ended((&mut subscriber, level), &mut heard, &node, arguments, &cancellation)?;
        return Ok(Outcome::Fine);
    }
    let (mut seen_any, mut flows) = (false, Flows::default());
    let end = Deadline::after(arguments.duration);
    for snapshot in 1.. {
        read_for(&mut subscriber, end.left(arguments.interval), &cancellation, &mut flows);
        let now = Instant::now();
        let lines = lines((&subscriber, level), &mut heard, &flows, now);
        flows.begin(now);
        seen_any |= !lines.is_empty();
        let relays = relays::of_host(&node);
        if arguments.json {
            lines.iter().try_for_each(|line| print_line(&object(line)))?;
            relays::objects(&relays).iter().try_for_each(print_line)?;
        } else {
            print_table(&lines, &relays)?;
        }
        let is_last = arguments.snapshots.is_some_and(|snapshots| snapshot >= snapshots);
        // A rest too short for a rate is left out.
        let is_over = end.left(arguments.interval) < arguments.interval / 10;
        if is_last || is_over || cancellation.is_cancelled() {
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
/// Interval at which the request to end is checked: a subscriber sleeps at words of memory, not at descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

fn view_until_ended(
    (subscriber, level): (&mut Subscriber, Level),
    heard: &mut HeardReports,
    node: &Node,
    arguments: &Arguments,
    cancellation: &Cancellation,
) -> anyhow::Result<()> {
    let interval = arguments.interval;
    let mut screen = Screen::take()?;
    let (mut state, mut snapshots) = (State::new(), Snapshots::begin());
    let (mut flows, mut began, end) = (Flows::default(), Instant::now(), Deadline::after(arguments.duration));
    while !cancellation.is_cancelled() && !end.is_over() {
        screen.terminal.draw(|frame| view::draw(frame, &state))?;
        read_for(subscriber, interval.min(KEY_INTERVAL), cancellation, &mut flows);
        if screen.follow_keys(&mut state)? == Next::End {
            break;
        }
        let now = Instant::now();
        let took = now.duration_since(began);
        if took >= interval {
            let lines = lines((subscriber, level), heard, &flows, now);
            flows.begin(now);
            began = now;
            state.see(snapshots.take(&lines, &relays::of_host(node), took));
        }
    }
    Ok(())
}

/// Reads all events until the time is over.
fn read_for(subscriber: &mut Subscriber, interval: Duration, cancellation: &Cancellation, flows: &mut Flows) {
    let deadline = Deadline::after(Some(interval));
    while !deadline.is_over() && !cancellation.is_cancelled() {
        if let Some(tallycast::Event::Block(block)) = subscriber.next(deadline.left(POLL_INTERVAL)) {
            flows.take(&block, Instant::now());
        }
    }
}

fn lines(
    (subscriber, level): (&Subscriber, Level),
    heard: &mut HeardReports,
    flows: &Flows,
    now: Instant,
) -> Vec<Line> {
    heard.look();
    let reaches: BTreeMap<StreamId, Reach> = subscriber.reaches().into_iter().collect();
    let line = |account: StreamAccount| {
        let (samples_per_s, bytes_per_s) = flows.per_second(&account.stream, now);
        let reach = reaches.get(&account.id).copied().unwrap_or(Reach::Udp);
        let readers = heard.of(account.id, account.epoch);
        let readers = readers.into_iter().map(|reader| OtherReader::of(reader, heard.age(reader))).collect();
        Line { samples_per_s, bytes_per_s, account, reach, level, readers }
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
        fields.insert("level".to_owned(), json!(line.level.name()));
        fields.insert("why".to_owned(), json!(line.reach.why()));
        fields.insert("samples_per_s".to_owned(), json!(line.samples_per_s));
        fields.insert("bytes_per_s".to_owned(), json!(line.bytes_per_s));
        fields.insert("readers".to_owned(), line.readers.iter().map(OtherReader::object).collect());
    }
    object
}

fn print_table(lines: &[Line], relays: &[HostRelay]) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    table(lines).lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    if lines.is_empty() {
        writeln!(output, "no data yet")?;
    }
    if !relays.is_empty() {
        let table = relays::plain_table(relays).lines(layout::width());
        table.iter().try_for_each(|line| writeln!(output, "{line}"))?;
    }
    output.flush()
}

fn table(lines: &[Line]) -> Table<7> {
    let mut table = Table::new([
        ("STREAM", Align::Left),
        ("SAMPLES/S", Align::Right),
        ("PER S", Align::Right),
        ("DELIVERED", Align::Right),
        ("LOST", Align::Left),
        ("LEVEL", Align::Left),
        ("REACH", Align::Left),
    ]);
    for line in lines {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size for display")]
        let size = text::decimal_size(line.bytes_per_s as u64);
        table.row([
            line.account.stream.to_string(),
            format!("{:.0}", line.samples_per_s),
            size,
            line.account.account.elements.delivered.to_string(),
            layout::wrapped(&lost_text(&line.account), LOST_WIDTH).join("\n"),
            line.level.to_string(),
            reach_text(line),
        ]);
    }
    table
}

/// Returns how the data came here; of a relayed stream also the number of its hop.
fn reach_text(line: &Line) -> String {
    let relayed = line.account.origin.map_or_else(String::new, |origin| format!(", hop {}", origin.hop));
    format!("{} ({}){relayed}", line.reach.hop(), line.reach.why())
}

/// Returns the losses and their stages, in elements; those of earlier hops with their hop.
fn lost_text(account: &StreamAccount) -> String {
    let hops = &account.account.hops;
    let before = hops.shares().map(|HopShare { hop, outcome, count }| {
        let stage = match outcome {
            tallycast::Outcome::Lost(stage) => stage.name(),
            tallycast::Outcome::Unexplained => "unexplained",
            tallycast::Outcome::Unsettled => "unsettled",
        };
        format!("{count} {stage} on hop {hop}")
    });
    let mut own = account.account.elements;
    own.lost[Stage::Source] = own.lost[Stage::Source].saturating_sub(hops.total());
    let own = Some(lost_of(&own)).filter(|text| hops.is_empty() || text != NOTHING);
    before.chain(own).collect::<Vec<_>>().join(", ")
}

/// What is lost where nothing is.
const NOTHING: &str = "nothing";

fn lost_of(rows: &ReaderRows) -> String {
    let mut parts: Vec<String> =
        rows.lost.nonzero().map(|(stage, count)| format!("{count} {stage}")).collect();
    if rows.unexplained > 0 {
        parts.push(format!("{} unexplained", rows.unexplained));
    }
    if rows.unsettled > 0 {
        parts.push(format!("{} unsettled", rows.unsettled));
    }
    if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
}
