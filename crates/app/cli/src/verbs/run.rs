//! `tallycast run`: starts and stops of an experiment's runs, and lists of them.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use archive::{Archive, moment_text as utc};
use clap::{Args, Subcommand};
use serde_json::json;
use tallycast::runs::{
    self, End, Event, LabelError, Labels, Run, RunChoice, RunId, Runs, Stranger, What, parse_label, run_json,
    stranger_json,
};
use tallycast::{Node, WallTime};
use units::text;

use crate::Outcome;
use crate::layout::{self, Align, Table};
use crate::messages::print_line;
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast run start shot-17 --label program=ohmic --label gas=D2
  tallycast run stop shot-17
  tallycast run list                                      the runs that monitors and recorders of the bus know
  tallycast run list --archive tallycast-archive          the runs whose events were recorded
  tallycast run show shot-17
  tallycast query tallycast-archive lab/probe --during shot-17 --from +1s --to +2s --export csv probe.csv

A run is known to the monitors and recorders that hear its start; they tell it to those that come later.
An archive run (record --run) is a set of recordings, and has nothing to do with these.
Exit codes: 0 done, 1 no reader heard it, or a stop has no known start, or no such run, 2 could not run.";

/// Time within which keepers are heard: they look for new readers four times a second, and announce their streams
/// once a second.
const PATIENCE: Duration = Duration::from_millis(2_500);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Start a run
    Start {
        /// Id of the run, one word
        id: RunId,
        /// Label of the run, such as program=ohmic; may be given several times
        #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
        label: Vec<(String, String)>,
        #[command(flatten)]
        saying: Saying,
    },
    /// Stop a run
    Stop {
        /// Id of the run
        id: RunId,
        /// Start of the run, in nanoseconds since 1970 UTC [default: that of the open run, as monitors and recorders know it]
        #[arg(long, value_name = "TIME_NS")]
        started: Option<i64>,
        /// Label of the run, as at its start; may be given several times
        #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, requires = "started")]
        label: Vec<(String, String)>,
        #[command(flatten)]
        saying: Saying,
    },
    /// List the runs
    List {
        #[command(flatten)]
        from: From,
    },
    /// Show the runs of an id, with labels, and who started and stopped them
    Show {
        /// Id of the runs, or ID@TIME for the one that was open at this time
        #[arg(value_name = "ID")]
        choice: RunChoice,
        #[command(flatten)]
        from: From,
    },
}

/// How an event is said.
#[derive(Args, Debug)]
struct Saying {
    /// Wait for a reader at most this long
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = text::duration)]
    wait: Duration,
    /// Print the event as JSON
    #[arg(long, short = 'J')]
    json: bool,
}

/// Where runs are known from.
#[derive(Args, Debug)]
struct From {
    /// Read the runs from this archive instead of the bus
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match &arguments.what {
        Action::Start { id, label, saying } => {
            let labels = labels_of(label)?;
            let node = sources.load()?.node()?;
            let event = runs::event(&node, id.clone(), What::Start)?;
            saying.say(&node, &Event { labels, ..event })
        }
        Action::Stop { id, started, label, saying } => {
            let labels = labels_of(label)?;
            let node = sources.load()?.node()?;
            // The moment is that of the command, however long the start is looked for.
            let event = runs::event(&node, id.clone(), What::Stop)?;
            if let Some(started) = started {
                let started = Some(WallTime::from_nanos(*started));
                return saying.say(&node, &Event { started, labels, ..event });
            }
            let heard = runs::hear(&node, PATIENCE, |runs| runs.newest(id).is_some())?;
            saying.say(&node, &heard.runs.stop(event))
        }
        Action::List { from } => {
            let runs = from.runs(sources)?;
            print(&runs.list(), &runs.strangers(), from.json)?;
            Ok(Outcome::Fine)
        }
        Action::Show { choice, from } => {
            let (runs, id) = (from.runs(sources)?, &choice.id);
            let mut listed = runs.list();
            listed.retain(|run| run.id == *id);
            let mut strangers = runs.strangers();
            strangers.retain(|stop| stop.id == *id);
            if choice.at.is_some() {
                (listed, strangers) = (vec![archive::select_run(&runs, choice)?], Vec::new());
            }
            if listed.is_empty() && strangers.is_empty() {
                eprintln!("no run `{id}` is known\nlist the runs: tallycast run list");
                return Ok(Outcome::Found);
            }
            if from.json {
                print(&listed, &strangers, true)?
            } else {
                show(&listed, &strangers)?
            }
            Ok(Outcome::Fine)
        }
    }
}

fn labels_of(given: &[(String, String)]) -> Result<Labels, LabelError> {
    let mut labels = Labels::new();
    for (key, value) in given {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(LabelError::Twice(key.clone()));
        }
    }
    Ok(labels)
}

impl Saying {
    fn say(&self, node: &Node, event: &Event) -> anyhow::Result<Outcome> {
        let readers = runs::say(node, event, self.wait)?;
        let has_start = event.what == What::Start || event.started.is_some();
        if self.json {
            print_line(&json!({
                "event": match event.what { What::Start => "run_started", What::Stop => "run_stopped" },
                "id": event.id.as_str(),
                "time_ns": event.time.as_nanos(),
                "start_ns": event.started.unwrap_or(event.time).as_nanos(),
                "has_start": has_start,
                "labels": event.labels,
                "readers": readers,
            }))?;
        } else {
            let verb = match event.what {
                What::Start => "started",
                What::Stop => "stopped",
            };
            writeln!(std::io::stdout().lock(), "run {} {verb} at {}", event.id, utc(event.time))?;
        }
        if !has_start {
            eprintln!("no monitor or recorder of the bus told of an open run `{}`", event.id);
            eprintln!("the stop is kept; it ends the run in archives that have its start");
        }
        if readers == 0 {
            eprintln!("no reader heard it within {:?}: the run is known nowhere", self.wait);
            eprintln!("start a recorder or a monitor, and repeat the command");
        }
        Ok(if readers > 0 && has_start { Outcome::Fine } else { Outcome::Found })
    }
}

impl From {
    fn runs(&self, sources: &Sources) -> anyhow::Result<Runs> {
        let Some(root) = &self.archive else {
            let heard = runs::hear(&sources.load()?.node()?, PATIENCE, |_| false)?;
            warn(heard.malformed, 0);
            return Ok(heard.runs);
        };
        let found = Archive::open(root)?.experiment_runs()?;
        warn(found.malformed, found.missing);
        Ok(found.runs)
    }
}

/// Tells what could not be read: a run may be missing, or appear open.
pub(in crate::verbs) fn warn(malformed: u64, missing: u64) {
    if malformed > 0 {
        eprintln!("warning: {} in streams of runs are no events", text::counted(malformed, "sample"));
    }
    if missing > 0 {
        let samples = text::counted(missing, "sample");
        eprintln!(
            "warning: {samples} of the streams of runs are missing: a start or a stop may be among them"
        );
    }
}

fn print(listed: &[Run], strangers: &[Stranger], json: bool) -> anyhow::Result<()> {
    if json {
        listed
            .iter()
            .map(run_json)
            .chain(strangers.iter().map(stranger_json))
            .try_for_each(|it| print_line(&it))?;
        return Ok(());
    }
    if listed.is_empty() && strangers.is_empty() {
        eprintln!("no run is known\nstart one: tallycast run start ID");
        return Ok(());
    }
    let mut table = Table::new([
        ("RUN", Align::Left),
        ("START", Align::Left),
        ("END", Align::Left),
        ("LABELS", Align::Left),
    ]);
    for run in listed {
        table.row([run.id.to_string(), utc(run.start), end_text(run), labels_text(&run.labels)]);
    }
    for stop in strangers {
        table.row([stop.id.to_string(), "not known".to_owned(), utc(stop.time), String::new()]);
    }
    let mut output = std::io::stdout().lock();
    table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?;
    Ok(())
}

fn show(listed: &[Run], strangers: &[Stranger]) -> anyhow::Result<()> {
    let by = |(host, principal): &(String, String)| format!("by {principal} on {host}");
    let mut output = std::io::stdout().lock();
    for run in listed {
        let started = run.started_by.as_ref().map_or_else(|| "as its stop says".to_owned(), by);
        writeln!(output, "{}", run.id)?;
        writeln!(output, "  started  {}  {started}", utc(run.start))?;
        match &run.end {
            End::Open => writeln!(output, "  open: no stop is known")?,
            End::Stopped { time, by: who } => writeln!(output, "  stopped  {}  {}", utc(*time), by(who))?,
            End::Restarted { time } => {
                writeln!(output, "  ended    {}  by the next start of this id", utc(*time))?;
            }
        }
        if run.clock_behind_ns > 0 {
            let behind = Duration::from_nanos(run.clock_behind_ns);
            writeln!(output, "  the clock of the host that stopped it is behind by {behind:?} or more")?;
        }
        for (key, value) in &run.labels {
            writeln!(output, "  {key} = {value}")?;
        }
    }
    for stop in strangers {
        writeln!(output, "{}\n  stopped  {}  {}; no start is known", stop.id, utc(stop.time), by(&stop.by))?;
    }
    Ok(())
}

fn end_text(run: &Run) -> String {
    match run.end {
        End::Open => "open".to_owned(),
        End::Stopped { time, .. } => utc(time),
        End::Restarted { time } => format!("{} (restarted)", utc(time)),
    }
}

fn labels_text(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}
