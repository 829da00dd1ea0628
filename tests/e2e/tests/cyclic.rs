//! A chain of cyclic apps in three processes, one of them on another host. Cycles are counted, not milliseconds.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeSet;

use e2e::{Accounts, Command, lan_or_skip};
use rustix::process::Signal;
use serde_json::Value;

/// Number of pedal steps that must have become a speed.
const STEPS: usize = 300;

/// Speed that the three apps together compute from the pedal in a cycle of the driver, in one formula.
///
/// All its values are whole numbers of 2⁻¹²: every app computes them without rounding.
fn speed_after(pedal_cycle: u64) -> f64 {
    let position = (pedal_cycle % 64) as f64 / 64.0;
    50.0 * position * (2.0 - position)
}

/// Reads speeds until enough steps have arrived, each equal to the formula, bit for bit.
fn wait_for_steps(speeds: &Command) {
    let mut steps = BTreeSet::new();
    speeds.wait_for("enough speeds", |line| {
        for sample in line["values"].as_array().into_iter().flatten() {
            let (speed, pedal_cycle) = (sample[0].as_f64().unwrap(), sample[1].as_f64().unwrap() as u64);
            assert_eq!(speed.to_bits(), speed_after(pedal_cycle).to_bits(), "{sample}");
            steps.insert(pedal_cycle);
        }
        steps.len() >= STEPS
    });
}

fn wait_for_app(apps: &Command, name: &str, state: &str) -> Value {
    apps.wait_for(&format!("{name} {state}"), |line| line["app"] == name && line["state"] == state)
}

/// Ends a program in order and returns the accounts of what it read.
fn accounts(program: Command) -> Accounts {
    let (lines, status) = program.interrupt();
    assert!(status.success(), "{status}: {lines:?}");
    Accounts::of(&lines)
}

#[test]
fn three_apps_make_speed_of_a_pedal_and_who_is_killed_is_missed() {
    let Some(lan) = lan_or_skip(&["car", "bench"]) else { return };
    let [car, bench] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = car.bus_from_now("");
    let speeds = Command::start(car, &["sub", "vehicle/speed", "--json", "--values", "--bus", &bus]);
    let apps = Command::start(car, &["apps", "--watch", "--json", "--bus", &bus]);
    let driver = Command::start_example(car, "vehicle_driver");
    let engine = Command::start_example(bench, "vehicle_engine");
    let body = Command::start_example(car, "vehicle_body");
    wait_for_steps(&speeds);
    let running = apps.wait_for("who feeds the body", |line| {
        let input = &line["inputs"][0];
        (line["state"] == "running" || line["state"] == "late")
            && input["stream"] == "engine/torque"
            && input["feeder"] == "vehicle/engine"
    });
    assert_eq!(
        (&running["app"], &running["phase_ns"]),
        (&"vehicle/body".into(), &6_000_000.into()),
        "{running}"
    );
    assert_eq!(running["outputs"][0]["stream"], "vehicle/speed", "{running}");

    engine.signal(Signal::KILL);
    wait_for_app(&apps, "vehicle/engine", "gone");
    let starving = wait_for_app(&apps, "vehicle/body", "starving");
    assert_eq!(starving["inputs"][0]["starving"], true, "{starving}");
    // Output from before the engine was killed is no evidence.
    apps.skip_to_now();
    apps.wait_for("that the driver drives on", |line| {
        line["app"] == "vehicle/driver" && (line["state"] == "running" || line["state"] == "late")
    });

    let torque = accounts(body);
    assert_eq!(torque.last()["stream"], "engine/torque", "{torque}");
    // No datagram was lost in flight. Only the killed engine could have reported that its last cycles wrote nothing.
    assert_eq!(torque.sum("datagrams", "unexplained"), 0, "{torque}");
    let (_, status) = driver.interrupt();
    assert!(status.success(), "{status}");
    wait_for_app(&apps, "vehicle/body", "gone");
    let speed = Accounts::once_closed(speeds);
    assert!(speed.is_explained(), "{speed}");
    let (_, status) = apps.interrupt();
    assert_eq!(status.code(), Some(1), "apps that are gone were found");
}
