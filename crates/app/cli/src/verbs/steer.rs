//! `tallycast steer`: parameters of running apps read, changed and watched, and the log of all commands.

mod log;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tallycast::StreamName;
use tallycast::steering::{
    self, Answer, Conclusion, Listed, MAX_VALIDITY, Needs, News, Number, Remote, Scope, SetOptions, Switches,
    Totals, Value,
};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::layout::{self, Align, Table};
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals;
use crate::verbs::reliable::keys::KeyArguments;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast steer list                                    the apps that can be steered
  tallycast steer get sim/plate                           their parameters: value, range, revision, holder of the lease
  tallycast steer set sim/plate heater=2.5 --reason 'warm up'
  tallycast steer set sim/plate heater=2.5 --if-revision 4
  tallycast steer watch sim/plate --json
  tallycast steer stop sim/plate --reason 'smoke'         kill switch: no command takes effect until an administrator releases it
  tallycast steer stop --all --reason 'evacuation'        the same for all apps of the bus
  tallycast steer resume sim/plate --reason 'fan replaced'
  tallycast steer log sim/plate                           every command on this host's app, also those that were refused
  tallycast steer verify sim/plate                        whether a record was changed, removed or put elsewhere
  tallycast steer verify sim/plate --authority keys/lab.authority
  tallycast steer verify sim/plate --against archive      whether an earlier log was put back since the archive recorded its stream

A command takes effect at the start of a cycle of the app, and its answer names the first sample with the change.
A parameter that needs a lease is changed under one that is taken before and released after it.
Exit codes: 0 done, 1 a command had no effect or an uncertain one, or the log is damaged, 2 could not run.";

/// Time within which an app is found; apps announce their streams once a second.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Interval at which the request to end is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// List the apps that can be steered
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Show the parameters of an app
    Get {
        /// Name of the app
        app: StreamName,
        /// Parameters [default: all]
        parameters: Vec<String>,
        #[command(flatten)]
        over: Over,
        #[command(flatten)]
        form: Form,
    },
    /// Change parameters of an app, one after the other
    Set {
        /// Name of the app
        app: StreamName,
        /// Parameters and their new values; arrays with commas between their elements
        #[arg(required = true, value_name = "PARAMETER=VALUE")]
        changes: Vec<String>,
        /// Reason for the log
        #[arg(long, default_value = "")]
        reason: String,
        /// Change the parameter only if it still has this revision
        #[arg(long, value_name = "N")]
        if_revision: Option<u64>,
        /// Time within which the command takes effect or expires, at most 2s
        #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = text::duration)]
        valid: Duration,
        #[command(flatten)]
        over: Over,
        #[command(flatten)]
        form: Form,
    },
    /// Print changes of parameters, leases and kill switches as they happen
    Watch {
        /// Name of the app
        app: StreamName,
        /// Time to watch [default: until Ctrl-C]
        #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
        duration: Option<Duration>,
        #[command(flatten)]
        over: Over,
        #[command(flatten)]
        form: Form,
    },
    /// Turn the kill switch of an app on, or that of all apps
    Stop {
        #[command(flatten)]
        which: Which,
        /// Reason for the log
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        over: Over,
    },
    /// Release the kill switch of an app, or that of all apps
    Resume {
        #[command(flatten)]
        which: Which,
        /// Reason for the log
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        over: Over,
    },
    /// Print the log of an app on this host
    Log {
        #[command(flatten)]
        file: log::File,
        #[command(flatten)]
        form: Form,
    },
    /// Verify the log of an app on this host
    Verify {
        #[command(flatten)]
        file: log::File,
        /// Laboratory that certified the app's station, to check the signed head: its authority's file, a station's file
        /// of keys, or the public key, as 64 hexadecimal digits or a file with them
        #[arg(long, value_name = "KEY|FILE")]
        authority: Option<String>,
        /// Archive that recorded the stream `steer/APP`, which shows an earlier log that was put back
        #[arg(long, value_name = "ARCHIVE")]
        against: Option<PathBuf>,
    },
}

/// An app, or all.
#[derive(Args, Debug)]
struct Which {
    /// Name of the app
    #[arg(required_unless_present = "all")]
    app: Option<StreamName>,
    /// Turn the switch of all apps, at each app of the bus; it is released as it was turned on
    #[arg(long, conflicts_with_all = ["app", "at"])]
    all: bool,
}

/// Form of the output.
#[derive(Args, Debug)]
struct Form {
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

/// Way to the app.
#[derive(Args, Debug)]
struct Over {
    /// Connect to this address instead of that which the app announces
    #[arg(long, value_name = "udt://HOST:PORT")]
    at: Option<tallycast::udt::Address>,
    #[command(flatten)]
    keys: KeyArguments,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match arguments.what {
        What::List { form } => list(&form, sources),
        What::Get { app, parameters, over, form } => {
            let mut remote = over.connect(&app, sources)?;
            let (listed, totals, switches) = remote.list()?;
            let chosen = chosen(listed, &parameters)?;
            show(&chosen, &totals, switches, &form)?;
            Ok(Outcome::Fine)
        }
        What::Set { app, changes, reason, if_revision, valid, over, form } => {
            if valid > MAX_VALIDITY {
                bail!(
                    "a command is valid for at most {MAX_VALIDITY:?}: one that waits longer is no longer in mind"
                );
            }
            if if_revision.is_some() && changes.len() > 1 {
                bail!("a revision is that of one parameter\nchange one, or leave --if-revision out");
            }
            let options = SetOptions { if_revision, valid, reason };
            set(&mut over.connect(&app, sources)?, &changes, &options, &form)
        }
        What::Watch { app, duration, over, form } => {
            watch(&mut over.connect(&app, sources)?, Deadline::after(duration), &form)
        }
        What::Stop { which, reason, over } => turn(&which, true, &reason, &over, sources),
        What::Resume { which, reason, over } => turn(&which, false, &reason, &over, sources),
        What::Log { file, form } => log::print(&file, form.json),
        What::Verify { file, authority, against } => {
            log::verify(&file, authority.as_deref(), against.as_deref())
        }
    }
}

impl Over {
    fn connect(&self, app: &StreamName, sources: &Sources) -> anyhow::Result<Remote> {
        let (address, found) = match &self.at {
            Some(address) => (address.clone(), None),
            None => {
                let found = steering::find(&sources.load()?.node()?, app, PATIENCE)?;
                (found.address(), Some(found))
            }
        };
        let keys = self.keys.at(&address)?;
        if keys.is_none() && address.peer().is_some() {
            bail!(
                "`{app}` is steered over secured connections only\nadd --key FILE, the station's file of keys"
            );
        }
        let remote = match found {
            Some(found) => found.connect(keys)?,
            None => Remote::connect(address.resolve()?, keys)?,
        };
        let found = &remote.welcome().app;
        if found != app {
            bail!("the app at this address is `{found}`, not `{app}`");
        }
        Ok(remote)
    }
}

fn list(form: &Form, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let apps = steering::apps(&node, PATIENCE)?;
    for app in &apps {
        if form.json {
            print_line(&json!({ "event": "app", "app": app.as_str() }))?;
        } else {
            writeln!(std::io::stdout().lock(), "{app}")?;
        }
    }
    if apps.is_empty() {
        eprintln!("no app that can be steered was found within {PATIENCE:?}");
        eprintln!("start one that declares parameters, or check --bus and its interface");
    }
    Ok(Outcome::Fine)
}

/// Returns the parameters of these names, or all.
fn chosen(listed: Vec<Listed>, names: &[String]) -> anyhow::Result<Vec<Listed>> {
    if names.is_empty() {
        return Ok(listed);
    }
    let find = |name: &String| {
        let found = listed.iter().find(|it| it.parameter.name == *name).cloned();
        found.with_context(|| format!("the app has no parameter `{name}`; it has {}", names_of(&listed)))
    };
    names.iter().map(find).collect()
}

fn names_of(listed: &[Listed]) -> String {
    listed.iter().map(|it| it.parameter.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn show(listed: &[Listed], totals: &Totals, switches: Switches, form: &Form) -> anyhow::Result<()> {
    if form.json {
        listed.iter().try_for_each(|it| print_line(&parameter_event(it)))?;
        print_line(&state_json(totals, switches))?;
        return Ok(());
    }
    let mut table = Table::new([
        ("PARAMETER", Align::Left),
        ("VALUE", Align::Right),
        ("UNIT", Align::Left),
        ("RANGE", Align::Left),
        ("REVISION", Align::Right),
        ("LEASE", Align::Left),
    ]);
    for it in listed {
        table.row([
            it.parameter.name.clone(),
            value_text(it),
            it.parameter.unit.clone(),
            range_text(it),
            it.revision.to_string(),
            lease_text(it),
        ]);
    }
    let mut output = std::io::stdout().lock();
    for line in table.lines(layout::width()) {
        writeln!(output, "{line}")?;
    }
    writeln!(output, "{}", totals_text(totals))?;
    if switches.is_stopped() {
        writeln!(output, "the kill switch is on: no command takes effect")?;
    }
    Ok(())
}

fn value_text(listed: &Listed) -> String {
    if listed.is_read { listed.value.to_string() } else { format!("{} (uncertain)", listed.value) }
}

fn range_text(listed: &Listed) -> String {
    let limit = |limit: Option<Number>| limit.map(|it| it.to_string()).unwrap_or_default();
    let it = &listed.parameter;
    let mut text = String::new();
    if it.min.is_some() || it.max.is_some() {
        text = format!("{} … {}", limit(it.min), limit(it.max));
    }
    if let Some(step) = it.greatest_step {
        text += &format!("{}step ≤ {step}", if text.is_empty() { "" } else { ", " });
    }
    text
}

fn lease_text(listed: &Listed) -> String {
    match (&listed.parameter.needs, &listed.holder) {
        (Needs::Nothing, _) => String::new(),
        (Needs::Lease { group }, None) => format!("{group}: free"),
        (Needs::Lease { group }, Some(by)) => format!("{group}: {by}"),
    }
}

fn totals_text(totals: &Totals) -> String {
    let terms = [
        (totals.applied, "applied"),
        (totals.refused, "refused"),
        (totals.expired, "expired"),
        (totals.superseded, "superseded"),
        (totals.failed, "failed"),
        (totals.uncertain, "uncertain"),
        (totals.pending, "pending"),
    ];
    let terms = terms.iter().filter(|(count, _)| *count > 0);
    let terms: Vec<String> = terms.map(|(count, name)| format!("{count} {name}")).collect();
    let sum = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
    format!("commands: {} received = {sum}", totals.received)
}

fn state_json(totals: &Totals, switches: Switches) -> Json {
    let mut object = steering::totals_json(totals);
    object["event"] = json!("commands");
    object["stopped"] = steering::stopped_json(switches);
    object
}

fn parameter_event(listed: &Listed) -> Json {
    let mut object = steering::parameter_json(listed);
    object["event"] = json!("parameter");
    object
}

fn set(
    remote: &mut Remote,
    changes: &[String],
    options: &SetOptions,
    form: &Form,
) -> anyhow::Result<Outcome> {
    let (listed, ..) = remote.list()?;
    let parse = |change: &String| {
        let (name, text) = change
            .split_once('=')
            .with_context(|| format!("`{change}` is no change\nwrite it as PARAMETER=VALUE"))?;
        let found = listed.iter().find(|it| it.parameter.name == name);
        let found = found
            .with_context(|| format!("the app has no parameter `{name}`; it has {}", names_of(&listed)))?;
        Ok((found, Value::parse(found.parameter.dtype, &found.parameter.shape, text)?))
    };
    // All are read before the first is sent.
    let changes = changes.iter().map(parse).collect::<anyhow::Result<Vec<_>>>()?;
    let mut outcome = Outcome::Fine;
    for (listed, value) in changes {
        let name = &listed.parameter.name;
        let group = match &listed.parameter.needs {
            Needs::Nothing => None,
            Needs::Lease { group } => Some(group),
        };
        if let Some(group) = group {
            remote.lease(group)?;
        }
        let (id, conclusion) = remote.set(name, value, options)?;
        if let Some(group) = group {
            remote.release(group)?;
        }
        if form.json {
            let mut object = steering::conclusion_json(id, &conclusion);
            object["event"] = json!("command");
            object["parameter"] = json!(name);
            print_line(&object)?;
        } else {
            writeln!(std::io::stdout().lock(), "{name}: {}", conclusion_text(&conclusion))?;
        }
        if !matches!(conclusion, Conclusion::Answered(Answer::Applied(_))) {
            outcome = Outcome::Found;
        }
        if let (Conclusion::Uncertain, Some(broken)) = (&conclusion, remote.log_break()) {
            let app = &remote.welcome().app;
            eprintln!("{}", broken.error());
            eprintln!("verify it on the app's host: tallycast steer verify {app} --against ARCHIVE");
        }
    }
    Ok(outcome)
}

fn conclusion_text(conclusion: &Conclusion) -> String {
    match conclusion {
        Conclusion::Answered(Answer::Applied(it)) => {
            format!("{} from sample {} on, revision {}", it.readback, it.index, it.revision)
        }
        Conclusion::Answered(Answer::Refused { rule }) => format!("refused: {}", rule.advice()),
        Conclusion::Answered(Answer::Expired) => {
            "expired: no cycle of the app began in time; it had no effect".to_owned()
        }
        Conclusion::Answered(Answer::Superseded) => {
            "superseded: a later command of the same cycle took its place".to_owned()
        }
        Conclusion::Answered(Answer::Failed { reason }) => format!("failed: {reason}"),
        Conclusion::NeverArrived => "it never arrived, and has no effect".to_owned(),
        _ => "uncertain: it may have taken effect; read the parameter, and the log".to_owned(),
    }
}

fn watch(remote: &mut Remote, end: Deadline, form: &Form) -> anyhow::Result<Outcome> {
    let cancellation = signals::cancellation()?;
    remote.watch()?;
    let mut switches = Switches::default();
    while !cancellation.is_cancelled() && !end.is_over() {
        match remote.next(end.left(POLL_INTERVAL))? {
            None => {}
            Some(News::Parameter(listed)) if form.json => print_line(&parameter_event(&listed))?,
            Some(News::Parameter(listed)) => {
                let (name, value, lease) = (&listed.parameter.name, value_text(&listed), lease_text(&listed));
                let unit = &listed.parameter.unit;
                let text = format!("{name}: {value} {unit}, revision {}", listed.revision);
                let lease = if lease.is_empty() { lease } else { format!(", lease {lease}") };
                writeln!(std::io::stdout().lock(), "{text}{lease}")?;
            }
            Some(News::State { totals, switches, .. }) if form.json => {
                print_line(&state_json(&totals, switches))?;
            }
            Some(News::State { switches: now, .. }) => {
                if now != switches {
                    writeln!(std::io::stdout().lock(), "kill switch: {}", switches_text(now))?;
                }
                switches = now;
            }
        }
    }
    Ok(Outcome::Fine)
}

fn turn(which: &Which, is_on: bool, reason: &str, over: &Over, sources: &Sources) -> anyhow::Result<Outcome> {
    let Some(app) = &which.app else { return turn_all(is_on, reason, over, sources) };
    let switches = over.connect(app, sources)?.switch(Scope::App, is_on, reason)?;
    writeln!(std::io::stdout().lock(), "kill switch: {}", switches_text(switches))?;
    Ok(Outcome::Fine)
}

/// Turns the switch of all apps at each app; one that cannot be reached is told, and the others are turned.
fn turn_all(is_on: bool, reason: &str, over: &Over, sources: &Sources) -> anyhow::Result<Outcome> {
    let apps = steering::apps(&sources.load()?.node()?, PATIENCE)?;
    let mut outcome = Outcome::Fine;
    for app in &apps {
        let turned =
            over.connect(app, sources).and_then(|mut it| Ok(it.switch(Scope::All, is_on, reason)?));
        match turned {
            Ok(switches) => writeln!(std::io::stdout().lock(), "{app}: {}", switches_text(switches))?,
            Err(error) => {
                eprintln!("{app}: {error}");
                outcome = Outcome::Found;
            }
        }
    }
    if apps.is_empty() {
        bail!("no app that can be steered was found within {PATIENCE:?}\ncheck --bus and its interface");
    }
    Ok(outcome)
}

fn switches_text(switches: Switches) -> &'static str {
    if switches.is_stopped() { "on: no command takes effect" } else { "off" }
}
