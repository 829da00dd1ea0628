//! `tallycast apps`: the cyclic apps on the bus, their state and their connections; it needs no server.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use clap::Args;
use tallycast::StreamName;
use tallycast::cyclic::{AppLook, AppState, AppsWatch, app_json, picture};
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::layout;
use crate::messages::print_line;
use crate::settings::{self, Sources};
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast apps                                          which app feeds which, and the state of each
  tallycast apps --watch                                  print changes as they happen
  tallycast apps --watch --json                           one object per line: every change, and all apps once a second

Exit code 1: an app is starving or gone.";

/// Time of a listing: apps announce their status streams once a second, and their first cycle follows.
const USUAL: Duration = Duration::from_millis(2_500);
/// Interval at which `--watch --json` prints every app even if its state is unchanged.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Time within which events are collected: less than the two cycles after which an app may count as gone.
const GATHER: Duration = Duration::from_millis(5);
/// Maximum extra wait of a single listing for silent apps, which may only be delayed.
const BENEFIT_OF_DOUBT: Duration = Duration::from_secs(1);
/// Interval at which the request to end is checked: a subscriber sleeps at words of memory, not at
/// descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Time to listen [default: 2.5s, in which every app announces itself; with --watch until Ctrl-C]
    #[arg(long, short = 't', alias = "wait", value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print changes as they happen
    #[arg(long)]
    watch: bool,
    /// Print JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    let mut watch = AppsWatch::open(&node)?;
    if arguments.watch {
        follow(&mut watch, Deadline::after(arguments.duration), arguments.json)?;
    } else {
        let deadline = Deadline::after(Some(arguments.duration.unwrap_or(USUAL)));
        while !deadline.is_over() {
            watch.follow(deadline.left(Duration::MAX));
        }
        wait_for_the_silent(&mut watch);
        tell(&watch, &watch.apps(), arguments.json)?;
    }
    let apps = watch.apps();
    if apps.is_empty() {
        eprintln!("no cyclic app found on {}", settings::brief(node.bus()));
        eprintln!("start one, or check --bus and its interface");
    }
    let found = apps.iter().any(|app| matches!(app.state, AppState::Starving | AppState::Gone));
    Ok(if found { Outcome::Found } else { Outcome::Fine })
}

/// Gives silent apps extra time, because this host or theirs may only be busy.
fn wait_for_the_silent(watch: &mut AppsWatch) {
    let deadline = Deadline::after(Some(BENEFIT_OF_DOUBT));
    while !deadline.is_over() && watch.apps().iter().any(|app| app.state == AppState::Gone) {
        watch.follow(deadline.left(BENEFIT_OF_DOUBT));
    }
}

/// Prints changes until the end is requested, or comes.
fn follow(watch: &mut AppsWatch, end: Deadline, json: bool) -> anyhow::Result<()> {
    let cancellation = signals::cancellation()?;
    let mut states: BTreeMap<StreamName, AppState> = BTreeMap::new();
    let mut next_round = Deadline::after(Some(TOLD_EVERY));
    while !cancellation.is_cancelled() && !end.is_over() {
        // Every cycle of every app is an event: they are handled together.
        let gathering = Deadline::after(Some(GATHER));
        watch.follow(POLL_INTERVAL);
        while !gathering.is_over() {
            watch.follow(gathering.left(GATHER));
        }
        let apps = watch.apps();
        let now: BTreeMap<_, _> = apps.iter().map(|app| (app.registration.app.clone(), app.state)).collect();
        let round = next_round.is_over();
        if round {
            next_round = Deadline::after(Some(TOLD_EVERY));
        }
        if json {
            let changed = |app: &&AppLook| states.get(&app.registration.app) != Some(&app.state);
            let told: Vec<AppLook> = apps.iter().filter(|app| round || changed(app)).cloned().collect();
            tell_json(watch, &told, &apps)?;
        } else if now != states {
            tell(watch, &apps, false)?;
        }
        states = now;
    }
    Ok(())
}

fn tell(watch: &AppsWatch, apps: &[AppLook], json: bool) -> anyhow::Result<()> {
    if json {
        return tell_json(watch, apps, apps);
    }
    let picture = layout::redrawn(&picture(apps, &watch.streams()?), layout::width());
    writeln!(std::io::stdout().lock(), "{picture}\n")?;
    Ok(())
}

fn tell_json(watch: &AppsWatch, told: &[AppLook], apps: &[AppLook]) -> anyhow::Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let streams = watch.streams()?;
    told.iter().try_for_each(|app| print_line(&app_json(app, apps, &streams)))?;
    Ok(())
}
