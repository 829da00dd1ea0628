//! `tallycast steer` and a cyclic app: what it says, and its exit codes.

use std::net::Ipv4Addr;
use std::sync::mpsc::channel;
use std::thread;

use support::ports::private_bus;
use support::wait_until;
use tallycast::cyclic::CycleResult;
use tallycast::steering::{Parameter, Policy};
use tallycast::{Bus, Node};
use tempfile::tempdir_in;

use crate::program::{Running, run_with};

#[test]
fn an_app_is_steered_stopped_and_its_log_read_and_verified() {
    // In memory: an answer waits until its record is on disk, however busy that is.
    let (state, bus) = (tempdir_in("/dev/shm").unwrap(), private_bus());
    let log = state.path().join("tallycast/steer/sim/rod.log");
    let (stop, stopped) = channel::<()>();
    let mut app = Node::builder().bus(bus.parse::<Bus>().unwrap()).build().unwrap().app("sim/rod");
    app.steering().listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(&log);
    app.steering().policy(Policy::parse("allow anyone steer,administer **").unwrap());
    let gain = app.parameter(Parameter::new("gain", 1.0).unit("V").range(0.0, 10.0));
    app.parameter(Parameter::switch("heater", false).lease("heating"));
    let output = app.output::<f64>("rod/gain", [("gain", "V")]);
    let archive = state.path().join("archive").to_str().unwrap().to_owned();
    let record =
        ["record", "steer/*/*", "--run", "r", "--archive", &archive, "--until-end", "--json", "--bus", &bus];
    let recorder = Running::start(&record);
    recorder.wait_for("the recorder", |line| line["event"] == "recording");
    let app = thread::spawn(move || {
        app.run(move |cycle| -> CycleResult {
            let gain = cycle.parameter(gain)[0];
            cycle.write(output, &[gain])?;
            if stopped.try_recv().is_ok() {
                cycle.stop();
            }
            Ok(())
        })
        .unwrap()
    });
    let folder = state.path().to_str().unwrap();
    let steer = |words: &[&str]| {
        let output = run_with(
            &[&["steer"], words].concat(),
            &[("XDG_STATE_HOME", folder), ("TALLYCAST_BUS", &bus)],
            "",
        );
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    wait_until("the app", || (steer(&["list", "--json"]).1.contains("sim/rod")).then_some(()));
    let (code, told, _) = steer(&["get", "sim/rod"]);
    assert_eq!((code, told.contains("0 … 10") && told.contains("heating: free")), (0, true), "{told}");
    let (code, told, _) = steer(&["set", "sim/rod", "gain=2.5", "heater=on", "--reason", "warm up"]);
    let is_told = told.starts_with("gain: 2.5 from sample ") && told.contains("heater: on from sample ");
    assert_eq!((code, is_told), (0, true), "{told}");
    let earlier = std::fs::read(&log).unwrap();
    let (code, told, _) = steer(&["set", "sim/rod", "gain=11"]);
    assert_eq!((code, told.starts_with("gain: refused: an element is outside")), (1, true), "{told}");
    let (code, _, told) = steer(&["set", "sim/rod", "gian=1"]);
    assert_eq!((code, told.contains("it has gain, heater")), (2, true), "{told}");
    let (code, told, _) = steer(&["set", "sim/rod", "gain=1", "--if-revision", "0", "--json"]);
    assert_eq!((code, told.contains("\"rule\":\"revision\"")), (1, true), "{told}");
    assert_eq!(steer(&["stop", "sim/rod", "--reason", "smoke"]).0, 0);
    let (_, told, _) = steer(&["get", "sim/rod", "--json"]);
    assert!(told.contains("\"stopped\":{\"all\":false,\"app\":true}"), "{told}");
    assert_eq!(steer(&["set", "sim/rod", "gain=1"]).0, 1);
    assert_eq!(steer(&["resume", "sim/rod", "--reason", "no smoke"]).0, 0);
    let (code, told, _) = steer(&["stop", "--all", "--reason", "evacuation"]);
    assert_eq!((code, told.as_str()), (0, "sim/rod: on: no command takes effect\n"));
    assert_eq!(
        steer(&["resume", "sim/rod", "--reason", "no smoke"]).1,
        "kill switch: on: no command takes effect\n"
    );
    assert_eq!(steer(&["resume", "--all", "--reason", "no fire"]).1, "sim/rod: off\n");
    assert_eq!(steer(&["stop", "--reason", "smoke"]).0, 2, "an app, or all");
    assert_eq!(steer(&["get", "sim/nothing"]).0, 2);
    stop.send(()).unwrap();
    let commands = app.join().unwrap().commands.unwrap();
    assert_eq!((commands.received, commands.applied, commands.refused), (5, 2, 3));
    let (code, told, _) = steer(&["log", "sim/rod"]);
    assert_eq!((code, told.contains("(warm up)")), (0, true), "{told}");
    assert_eq!(steer(&["log", "sim/rod", "--json"]).0, 0);
    let (code, told, _) = steer(&["verify", "sim/rod"]);
    assert_eq!((code, told.contains("each follows from those before it")), (0, true), "{told}");
    assert!(recorder.wait().0.success());
    let (code, told, _) = steer(&["verify", "sim/rod", "--against", &archive]);
    assert_eq!(
        (code, told.contains("records that the archive has of it are in the log")),
        (0, true),
        "{told}"
    );
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, earlier).unwrap();
    assert_eq!(steer(&["verify", "sim/rod"]).0, 0, "an earlier log is whole");
    let (code, told, _) = steer(&["verify", "sim/rod", "--against", &archive]);
    assert_eq!((code, told.contains("an earlier log was put in its place")), (1, true), "{told}");
    std::fs::write(&log, whole).unwrap();
    let (code, _, told) = steer(&["verify", "sim/rod", "--against", state.path().to_str().unwrap()]);
    assert_eq!((code, told.is_empty()), (2, false), "no archive");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(steer(&["verify", "sim/rod"]).0, 1);
}
