//! Data flow between apps, drawn as text.

use core::fmt::Write;
use core::time::Duration;
use std::collections::BTreeSet;

use sample::StreamName;

use crate::status::NEVER;
use crate::{AppLook, AppState, InputStatus, StatusRow};

/// Origin of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Feeder<'a> {
    /// An app writes it.
    App(&'a AppLook),
    /// It is published, but by no app: a device, a recording, a monitor.
    Source,
    /// It has no publisher.
    Nobody,
}

/// Returns the feeder of a stream; `streams` are those that are published.
#[must_use]
pub fn feeder_of<'a>(apps: &'a [AppLook], streams: &BTreeSet<StreamName>, stream: &StreamName) -> Feeder<'a> {
    let mut writers = apps.iter().filter(|app| app.registration.outputs.contains(stream));
    // Of a restarted app, the current run.
    let alive = writers.clone().find(|app| app.state != AppState::Gone);
    match alive.or_else(|| writers.next()) {
        Some(app) => Feeder::App(app),
        None if streams.contains(stream) => Feeder::Source,
        None => Feeder::Nobody,
    }
}

/// Draws apps with their inputs and outputs, feeders above the apps they feed.
#[must_use]
pub fn picture(apps: &[AppLook], streams: &BTreeSet<StreamName>) -> String {
    let mut text = String::new();
    for app in in_order_of_flow(apps) {
        draw_app(&mut text, app, apps, streams);
    }
    text
}

fn draw_app(text: &mut String, app: &AppLook, apps: &[AppLook], streams: &BTreeSet<StreamName>) {
    let it = &app.registration;
    let phase = if it.beat.phase.is_zero() { String::new() } else { format!(" + {}", brief(it.beat.phase)) };
    let place = format!("{} every {}{phase}, {}", app.station, brief(it.beat.period), it.scheduling);
    line(text, format_args!("● {}  {}  at {place}{}", it.app, app.state, cycles(app.newest.as_ref())));
    for (index, wire) in it.inputs.iter().enumerate() {
        let feeder = match feeder_of(apps, streams, &wire.stream) {
            Feeder::App(feeder) if feeder.state == AppState::Gone => {
                format!("{} (gone)", feeder.registration.app)
            }
            Feeder::App(feeder) => feeder.registration.app.to_string(),
            Feeder::Source => "a source that is no app".to_owned(),
            Feeder::Nobody => "nobody".to_owned(),
        };
        let status = app.newest.as_ref().and_then(|(_, row)| row.inputs.get(index));
        let starving = if app.starving.get(index) == Some(&true) { "  STARVES" } else { "" };
        line(
            text,
            format_args!("  ◀ {} ({})  from {feeder}{}{starving}", wire.stream, wire.take, fed(status)),
        );
    }
    for stream in &it.outputs {
        let readers =
            |reader: &&AppLook| reader.registration.inputs.iter().any(|wire| wire.stream == *stream);
        let gone = |reader: &AppLook| if reader.state == AppState::Gone { " (gone)" } else { "" };
        let readers: Vec<String> = apps
            .iter()
            .filter(readers)
            .map(|reader| format!("{}{}", reader.registration.app, gone(reader)))
            .collect();
        let to = if readers.is_empty() { "nobody".to_owned() } else { readers.join(", ") };
        line(text, format_args!("  ▶ {stream}  to {to}"));
    }
}

fn line(text: &mut String, arguments: core::fmt::Arguments<'_>) {
    writeln!(text, "{arguments}").expect("text grows");
}

fn cycles(newest: Option<&(u64, StatusRow)>) -> String {
    let Some((index, row)) = newest else { return String::new() };
    let (late, ran) = (Duration::from_nanos(row.lateness_ns), Duration::from_nanos(row.run_time_ns));
    format!(
        "\n    cycle {index}: {} late, ran {}; {} overran, {} left out, {} alarms",
        brief(late),
        brief(ran),
        row.overruns,
        row.skipped,
        row.alarms
    )
}

fn fed(status: Option<&InputStatus>) -> String {
    let Some(status) = status else { return String::new() };
    let age = if status.age_ns == NEVER {
        "nothing yet".to_owned()
    } else {
        format!("{} old", brief(Duration::from_nanos(status.age_ns)))
    };
    let lost = match status.lost_elements {
        0 => String::new(),
        elements => format!(", {elements} elements lost"),
    };
    format!("; {age}, {} missed, {} late{lost}", status.missed, status.late)
}

/// Formats a duration with three digits.
fn brief(duration: Duration) -> String {
    format!("{duration:.3?}").replace(".000", "")
}

/// Sorts apps so that each is below those that feed it, as far as they form no cycle.
fn in_order_of_flow(apps: &[AppLook]) -> Vec<&AppLook> {
    let mut left: Vec<&AppLook> = apps.iter().collect();
    left.sort_by(|a, b| a.registration.app.cmp(&b.registration.app));
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let feeds = |from: &AppLook, to: &AppLook| {
            from.registration.app != to.registration.app
                && to.registration.inputs.iter().any(|wire| from.registration.outputs.contains(&wire.stream))
        };
        let free = left.iter().position(|app| !left.iter().any(|other| feeds(other, app)));
        ordered.push(left.remove(free.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observer;
    use crate::registration::tests::registration;
    use units::Instant;

    fn look(app: &str, inputs: &[&str], outputs: &[&str], rows: &[u64]) -> AppLook {
        let told = registration(app, inputs, outputs);
        let mut observer = Observer::new(told, "rig".to_owned(), Instant::ORIGIN);
        for (index, missed) in rows.iter().enumerate() {
            let input =
                InputStatus { age_ns: 10_000_000, samples: 9, missed: *missed, ..InputStatus::default() };
            let row = StatusRow {
                lateness_ns: 12_345,
                run_time_ns: 1_250_000,
                inputs: vec![input; inputs.len()],
                ..StatusRow::default()
            };
            observer.told(Instant::ORIGIN, index as u64, row);
        }
        if rows.is_empty() {
            observer.ended();
        }
        observer.look(Instant::ORIGIN)
    }

    #[test]
    fn a_chain_is_drawn_from_its_source_to_its_end() {
        let apps = [
            look("vehicle/body", &["engine/torque", "road/slope"], &["vehicle/speed"], &[5, 6, 7]),
            look("vehicle/driver", &["cabin/wheel"], &["driver/pedal"], &[0]),
            look("vehicle/engine", &["driver/pedal"], &["engine/torque"], &[]),
        ];
        let streams = [&"road/slope".parse().unwrap()].into_iter().cloned().collect();
        insta::assert_snapshot!(picture(&apps, &streams), @r"
        ● vehicle/driver  running  at rig every 10ms, other
            cycle 0: 12.345µs late, ran 1.250ms; 0 overran, 0 left out, 0 alarms
          ◀ cabin/wheel (newest)  from nobody; 10ms old, 0 missed, 0 late
          ▶ driver/pedal  to vehicle/engine (gone)
        ● vehicle/engine  gone  at rig every 10ms, other
          ◀ driver/pedal (newest)  from vehicle/driver
          ▶ engine/torque  to vehicle/body
        ● vehicle/body  starving  at rig every 10ms, other
            cycle 2: 12.345µs late, ran 1.250ms; 0 overran, 0 left out, 0 alarms
          ◀ engine/torque (newest)  from vehicle/engine (gone); 10ms old, 7 missed, 0 late  STARVES
          ◀ road/slope (newest)  from a source that is no app; 10ms old, 7 missed, 0 late  STARVES
          ▶ vehicle/speed  to nobody
        ");
    }

    #[test]
    fn a_ring_of_apps_is_drawn_too() {
        let apps = [look("a", &["y"], &["x"], &[0]), look("b", &["x"], &["y"], &[0])];
        let text = picture(&apps, &BTreeSet::new());
        assert!(text.contains("◀ y (newest)  from b") && text.contains("◀ x (newest)  from a"), "{text}");
    }

    #[test]
    fn of_two_runs_of_an_app_the_running_one_feeds() {
        let apps = [look("old", &[], &["x"], &[]), look("new", &[], &["x"], &[0])];
        let stream = "x".parse().unwrap();
        let feeder = feeder_of(&apps, &BTreeSet::new(), &stream);
        assert_eq!(feeder, Feeder::App(&apps[1]));
        assert_eq!(feeder_of(&apps, &BTreeSet::new(), &"z".parse().unwrap()), Feeder::Nobody);
    }
}
