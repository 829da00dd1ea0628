//! `tallycast apps`: its picture and its JSON for an app that this test runs.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use support::ports::private_bus;
use support::wait_until;
use tallycast::cyclic::Take;
use tallycast::{Bus, Dtype, Node};

use crate::program::{Running, run};
use crate::reaches::{host_bus, memory};

/// Sets its flag when dropped, also when a test fails, which would otherwise wait for the app.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs an app with an input without publisher while `look` observes it.
fn while_an_app_runs(bus: &str, look: impl FnOnce()) {
    let node = Node::open(bus.parse::<Bus>().unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let app = scope.spawn(|| {
            let mut app = node.app("test/engine");
            let _ = app.input::<f32>("test/pedal", Take::All);
            let torque = app.output::<f32>("test/torque", [("torque", "Nm")]);
            app.run(|cycle| {
                cycle.write(torque, &[1.0])?;
                if stop.load(Ordering::Relaxed) {
                    cycle.stop();
                }
                Ok(())
            })
        });
        {
            let _stop = StopAtEnd(&stop);
            look();
        }
        app.join().unwrap().unwrap();
    });
}

#[test]
fn an_app_is_drawn_with_what_it_misses_and_the_exit_code_says_so() {
    let bus = private_bus();
    while_an_app_runs(&bus, || {
        // The first listing may precede the app's first missed input.
        let (drawn, code) = wait_until("an app that starves", || {
            let output = run(&["apps", "--bus", &bus]);
            let drawn = String::from_utf8(output.stdout).unwrap();
            drawn.contains("  starving  ").then_some((drawn, output.status.code()))
        });
        assert_eq!(code, Some(1), "{drawn}");
        assert!(drawn.starts_with("● test/engine  starving  at "), "{drawn}");
        assert!(drawn.contains("◀ test/pedal (all)  from nobody; nothing yet, "), "{drawn}");
        assert!(drawn.contains("STARVES") && drawn.contains("▶ test/torque  to nobody"), "{drawn}");
    });
}

#[test]
fn a_watcher_is_told_of_an_app_when_it_starves_and_when_it_ends() {
    let bus = private_bus();
    let watcher = Running::start(&["apps", "--watch", "--json", "--bus", &bus]);
    while_an_app_runs(&bus, || {
        let lines = watcher.lines_until(|line| line["state"] == "starving");
        let app = lines.last().unwrap();
        assert_eq!((&app["event"], &app["app"]), (&"app".into(), &"test/engine".into()), "{app}");
        assert_eq!((&app["period_ns"], &app["scheduling"]), (&10_000_000.into(), &"other".into()), "{app}");
        let input = &app["inputs"][0];
        assert_eq!((&input["take"], &input["feeder_state"]), (&"all".into(), &"nobody".into()), "{app}");
        assert!(input["age_ns"].is_null() && input["missed"].as_u64() >= Some(2), "{app}");
    });
    watcher.lines_until(|line| line["state"] == "gone");
    watcher.signal(Signal::INT);
    assert_eq!(watcher.wait().0.code(), Some(1), "an app that is gone was found");
}

/// Waits until a watcher on `bus` reports that an app's input comes from a source that is not an app.
fn see_a_source(bus: &str) {
    let node = Node::open(bus.parse::<Bus>().unwrap()).unwrap();
    let _source = node.publisher("test/pedal").dtype(Dtype::F4).rate(100).open().unwrap();
    let watcher = Running::start(&["apps", "--watch", "--json", "--bus", bus]);
    while_an_app_runs(bus, || {
        let lines = watcher.lines_until(|line| line["inputs"][0]["feeder_state"] == "source");
        assert!(lines.last().unwrap()["inputs"][0]["feeder"].is_null(), "{lines:?}");
    });
}

#[test]
fn a_source_in_this_hosts_memory_is_not_nobody() {
    let memory = memory();
    see_a_source(&host_bus(&memory));
}

#[test]
fn where_announcements_cannot_be_heard_this_hosts_apps_and_sources_are_told() {
    let memory = memory();
    // A socket that has the port without sharing it keeps announcements from all others.
    let taken = UdpSocket::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    see_a_source(&format!("udp://239.84.0.0:{port}?iface=lo&shm={}", memory.path().display()));
}

#[test]
fn where_there_is_no_app_that_is_said() {
    let output = run(&["apps", "--duration", "100ms", "--bus", &private_bus()]);
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no cyclic app found on"), "{said}");
}
