//! Steering of a cyclic app over a real connection on this host's loopback. Nothing here measures time.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::wait_until;
use tallycast::cyclic::{AppReport, CycleResult};
use tallycast::steering::{
    Answer, Applied, Conclusion, Kept, Log, LogError, Mark, News, Parameter, Policy, Record, Remote, Rule,
    Scope, SetOptions, SteeringError, Totals, Value, find, read_log,
};
use tallycast::udt::{Connection, Lifetime, Options};
use tallycast::{Bus, Event, StreamName};

use crate::scene::{bus, node, wait_until_joined, watch};

mod put_back;

const APP: &str = "test/rod";
/// Rules under which anyone steers the gain, and only the app itself the limit.
const RULES: &str = "allow anyone read,steer test/rod/gain\nallow anyone steer,administer test/rod\nallow anyone steer test/rod/heater\n";

/// An app in a thread, that publishes its gain with every cycle.
struct Rod {
    bus: Bus,
    stop: Sender<()>,
    thread: thread::JoinHandle<AppReport>,
}

impl Rod {
    fn start(bus: &Bus, log: &Path) -> Self {
        let (stop, stopped) = channel();
        let mut app = node(bus).app(APP);
        app.steering()
            .listen(Ipv4Addr::LOCALHOST.into(), Some(0))
            .log(log)
            .policy(Policy::parse(RULES).unwrap());
        let gain = app.parameter(Parameter::new("gain", 1.0).range(0.0, 10.0).greatest_step(4.0));
        let heater = app.parameter(Parameter::switch("heater", false).lease("heating"));
        app.parameter(Parameter::array("limit", &[2], &[3_i32, 4]));
        let output = app.output::<f64>("test/temperature", [("gain", ""), ("heater", "")]);
        let run = move || {
            app.run(move |cycle| -> CycleResult {
                let sample = [cycle.parameter(gain)[0], f64::from(cycle.parameter(heater)[0])];
                cycle.write(output, &sample)?;
                if stopped.try_recv().is_ok() {
                    cycle.stop();
                }
                Ok(())
            })
        };
        let thread = thread::spawn(|| run().unwrap());
        Self { bus: bus.clone(), stop, thread }
    }

    fn connect(&self) -> Remote {
        let (node, app) = (node(&self.bus), APP.parse::<StreamName>().unwrap());
        let found = wait_until("the app", || find(&node, &app, Duration::from_millis(100)).ok());
        found.connect(None).unwrap()
    }

    fn end(self) -> Totals {
        self.stop.send(()).unwrap();
        let report = self.thread.join().unwrap();
        let commands = report.commands.expect("the app has parameters");
        assert!(commands.holds(), "{commands:?}");
        assert_eq!(commands.pending, 0, "an orderly end leaves nothing open");
        commands
    }
}

/// Returns a folder in memory: an answer waits until its record is on disk, however busy that is.
fn logs() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("tallycast-steer-").tempdir_in("/dev/shm").unwrap()
}

fn log(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("rod.log")
}

/// Returns the records of a log, of which every byte is verified.
fn records(path: &Path) -> Vec<Record> {
    let log = Log::verify(&APP.parse().unwrap(), &read_log(path).unwrap(), None, |_, _| true).unwrap();
    log.entries.into_iter().map(|entry| entry.record).collect()
}

fn set(remote: &mut Remote, parameter: &str, value: Value) -> Conclusion {
    remote.set(parameter, value, &SetOptions::default()).unwrap().1
}

fn applied(conclusion: Conclusion) -> Applied {
    match conclusion {
        Conclusion::Answered(Answer::Applied(applied)) => applied,
        other => panic!("{other:?}"),
    }
}

fn refused(conclusion: &Conclusion) -> Rule {
    match conclusion {
        Conclusion::Answered(Answer::Refused { rule }) => *rule,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_is_in_the_samples_from_the_index_that_its_answer_names() {
    let (bus, folder) = (bus(), logs());
    let mut samples = node(&bus).subscriber("test/temperature").open().unwrap();
    let mut commands = node(&bus).subscriber("steer/test/rod").open().unwrap();
    let rod = Rod::start(&bus, &log(&folder));
    let mut remote = rod.connect();
    assert_eq!(remote.welcome().app.as_str(), APP);
    wait_until_joined(&mut commands);
    let before = watch(&mut samples, |event| match event {
        Event::Block(block) => Some(block.elements::<f64>().unwrap().to_vec()),
        _ => None,
    });
    assert!(before.chunks_exact(2).all(|sample| sample[0].to_bits() == 1.0_f64.to_bits()));
    let applied = applied(set(&mut remote, "gain", Value::scalar(2.0)));
    assert_eq!((applied.revision, &applied.readback), (1, &Value::scalar(2.0)));
    let totals = rod.end();
    assert_eq!((totals.received, totals.applied), (1, 1));
    let time = watch(&mut samples, |event| {
        let Event::Block(block) = event else { return None };
        let mut found = None;
        for (index, sample) in (block.first_index..).zip(block.elements::<f64>().unwrap().chunks_exact(2)) {
            let expected: f64 = if index < applied.index { 1.0 } else { 2.0 };
            assert_eq!(
                sample[0].to_bits(),
                expected.to_bits(),
                "sample {index}, change at {}",
                applied.index
            );
            if index == applied.index {
                found = Some(block.time_of(index));
            }
        }
        found
    });
    let row = watch(&mut commands, |event| {
        let Event::Block(block) = event else { return None };
        let rows = block.elements::<f64>().unwrap().chunks_exact(block.schema.channels.len());
        let mut rows = (block.first_index..).zip(rows.map(<[f64]>::to_vec));
        rows.find(|(_, row)| row[1] == 3.0).map(|(index, row)| (block.time_of(index), row))
    });
    assert_eq!(row.0, time, "the row has the time of the sample");
    assert_eq!(row.1[2..3], [4.0], "applied");
    assert_eq!(row.1[4..8], [0.0, 2.0, 1.0, applied.index as f64]);
    let segments = read_log(&log(&folder)).unwrap();
    let logged = Log::verify(&APP.parse().unwrap(), &segments, None, |_, _| true).unwrap();
    let seen = Mark { count: row.1[8] as u64, digest: row.1[9] as u64 };
    assert_eq!(logged.compare([seen]), Ok(1), "the row tells of the log behind its record");
}

#[test]
fn what_is_refused_is_named_counted_and_in_the_log() {
    let (bus, folder) = (bus(), logs());
    let rod = Rod::start(&bus, &log(&folder));
    let mut remote = rod.connect();
    let array = Value::from_bytes(tallycast::Dtype::F8, &[1], &[0; 8]).unwrap();
    let limit = Value::from_bytes(tallycast::Dtype::I32, &[2], &[0; 8]).unwrap();
    let cases = [
        ("gain", Value::scalar(f64::NAN), Rule::NotFinite),
        ("gain", Value::scalar(11.0), Rule::Range),
        ("gain", Value::scalar(9.0), Rule::Step),
        ("gain", Value::scalar(2.0_f32), Rule::Dtype),
        ("gain", array, Rule::Shape),
        ("gian", Value::scalar(2.0), Rule::Parameter),
        ("limit", limit, Rule::ReadOnly),
        ("heater", Value::boolean(true), Rule::Lease),
    ];
    for (parameter, value, rule) in &cases {
        assert_eq!(refused(&set(&mut remote, parameter, value.clone())), *rule);
    }
    let old = SetOptions { if_revision: Some(7), ..SetOptions::default() };
    let (_, conclusion) = remote.set("gain", Value::scalar(2.0), &old).unwrap();
    assert_eq!(refused(&conclusion), Rule::Revision);
    let far = SetOptions { valid: Duration::from_secs(3_600), ..SetOptions::default() };
    let (_, conclusion) = remote.set("gain", Value::scalar(2.0), &far).unwrap();
    assert_eq!(refused(&conclusion), Rule::Clock, "a clock that is an hour off");
    let totals = rod.end();
    assert_eq!((totals.received, totals.refused), (10, 10));
    let logged = records(&log(&folder));
    let refusals = logged.iter().filter(|record| {
        let answer = match record {
            Record::Attempt { answer, .. } | Record::Outcome { answer, .. } => answer,
            _ => return false,
        };
        matches!(answer, Answer::Refused { .. })
    });
    assert_eq!(refusals.count(), 10);
}

#[test]
fn a_lease_has_one_holder_and_a_kill_switch_stops_everybody() {
    let (bus, folder) = (bus(), logs());
    let rod = Rod::start(&bus, &log(&folder));
    let (mut ada, mut grace) = (rod.connect(), rod.connect());
    grace.watch().unwrap();
    ada.lease("heating").unwrap();
    assert!(matches!(grace.lease("heating"), Err(SteeringError::Refused(_))));
    applied(set(&mut ada, "heater", Value::boolean(true)));
    let heater = wait_until("news of the heater", || match grace.next(Duration::from_millis(100)).unwrap() {
        Some(News::Parameter(listed)) if listed.revision == 1 => Some(listed),
        _ => None,
    });
    assert_eq!((heater.value, heater.holder.is_some()), (Value::boolean(true), true));
    assert!(matches!(grace.switch(Scope::App, true, ""), Err(SteeringError::Refused(_))), "without a reason");
    assert!(grace.switch(Scope::App, true, "smoke").unwrap().app);
    assert_eq!(refused(&set(&mut ada, "heater", Value::boolean(false))), Rule::Stopped);
    grace.switch(Scope::App, false, "no smoke").unwrap();
    applied(set(&mut ada, "heater", Value::boolean(false)));
    ada.release("heating").unwrap();
    grace.lease("heating").unwrap();
    drop(grace);
    ada = rod.connect();
    wait_until("a lease that ended with its session", || ada.lease("heating").ok());
    let totals = rod.end();
    assert_eq!((totals.received, totals.applied, totals.refused_by(Rule::Stopped)), (3, 2, 1));
}

#[test]
fn connections_that_do_not_speak_the_protocol_are_ended_and_others_go_on() {
    let (bus, folder) = (bus(), logs());
    let rod = Rod::start(&bus, &log(&folder));
    let (node, app) = (node(&bus), APP.parse::<StreamName>().unwrap());
    let found = wait_until("the app", || find(&node, &app, Duration::from_millis(100)).ok());
    let peer = found.address().resolve().unwrap();
    let silent = Connection::connect_to(peer, &Options::messages()).unwrap();
    let mut bytes = Vec::new();
    for first in [&b"GET / HTTP/1.1"[..], &[0, 99], &[200; 3_000]] {
        let stranger = Connection::connect_to(peer, &Options::messages()).unwrap();
        stranger.send_message(first, Lifetime::default()).unwrap();
        assert!(stranger.receive_message(&mut bytes).unwrap(), "the reason comes");
        assert!(matches!(stranger.receive_message(&mut bytes), Ok(false) | Err(_)), "then the end");
    }
    let mut remote = rod.connect();
    applied(set(&mut remote, "gain", Value::scalar(2.0)));
    assert!(silent.receive_message(&mut bytes).unwrap(), "the silent one is told, too");
    assert_eq!(rod.end().received, 1);
}

#[test]
fn a_restarted_app_goes_on_with_its_log_and_revisions() {
    let (bus, folder) = (bus(), logs());
    let rod = Rod::start(&bus, &log(&folder));
    applied(set(&mut rod.connect(), "gain", Value::scalar(2.0)));
    rod.end();
    let rod = Rod::start(&bus, &log(&folder));
    let mut remote = rod.connect();
    let (parameters, totals, _) = remote.list().unwrap();
    assert_eq!(
        parameters.iter().map(|it| it.parameter.name.as_str()).collect::<Vec<_>>(),
        ["gain", "heater", "limit"]
    );
    assert_eq!((parameters[0].revision, &parameters[0].value), (1, &Value::scalar(1.0)), "values begin anew");
    assert_eq!(totals.applied, 1, "totals go on");
    let again = applied(set(&mut remote, "gain", Value::scalar(3.0)));
    assert_eq!(again.revision, 2);
    assert_eq!(rod.end().applied, 2);
    let begun = records(&log(&folder)).iter().filter(|it| matches!(it, Record::Began { .. })).count();
    assert_eq!(begun, 2);
}

#[test]
fn hundreds_of_commands_of_many_senders_are_all_accounted_for() {
    let (bus, folder) = (bus(), logs());
    let rod = Rod::start(&bus, &log(&folder));
    let conclusions: Vec<Conclusion> = thread::scope(|scope| {
        let senders: Vec<_> = (0..10)
            .map(|_| {
                let mut remote = rod.connect();
                let value = |number: u32| Value::scalar(f64::from(number % 4));
                scope.spawn(move || (0..30).map(|it| set(&mut remote, "gain", value(it))).collect::<Vec<_>>())
            })
            .collect();
        senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
    });
    let count = |is: fn(&Answer) -> bool| {
        let answered =
            conclusions.iter().filter(|it| matches!(it, Conclusion::Answered(answer) if is(answer)));
        answered.count() as u64
    };
    let applied = count(|it| matches!(it, Answer::Applied(_)));
    let superseded = count(|it| matches!(it, Answer::Superseded));
    let expired = count(|it| matches!(it, Answer::Expired));
    let totals = rod.end();
    assert_eq!((totals.applied, totals.superseded, totals.expired), (applied, superseded, expired));
    assert_eq!(totals.received, 300);
    assert_eq!(applied + superseded + expired, 300, "{conclusions:?}");
    let logged = records(&log(&folder));
    let outcomes = logged.iter().filter(|it| matches!(it, Record::Outcome { .. } | Record::Attempt { .. }));
    assert_eq!(outcomes.count(), 300);
}

/// Variable with the folder of an app that is run in a process of its own, to be killed.
const VICTIM: &str = "TALLYCAST_TEST_STEERED";

/// Runs in a process of its own: an app whose actuator is a file, where each change leaves its value.
#[test]
fn actuator() {
    use std::io::Write;
    let Some(folder) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(folder.join("actuator")).unwrap();
    let bus: Bus = std::env::var("TALLYCAST_TEST_BUS").unwrap().parse().unwrap();
    let mut builder = node(&bus).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(folder.join("rod.log"));
    builder.policy(Policy::parse("allow anyone steer **").unwrap());
    let position = builder.parameter(Parameter::new("position", 0_u64));
    let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
    std::fs::write(folder.join("address"), steering.address().to_string()).unwrap();
    for index in 0.. {
        let changed = !steering.step(index, tallycast::now()).is_empty();
        if changed {
            file.write_all(&steering.value(position)[0].to_le_bytes()).unwrap();
        }
        steering.done();
        thread::yield_now();
    }
}

/// Runs in a process of its own: an app that keeps each value in a file, and dies before it says that a change is done.
#[test]
fn keeper() {
    let Some(folder) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let bus: Bus = std::env::var("TALLYCAST_TEST_BUS").unwrap().parse().unwrap();
    let mut builder = node(&bus).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(folder.join("rod.log"));
    builder.policy(Policy::parse("allow anyone steer **").unwrap());
    let position = builder.parameter(Parameter::new("position", 0_u64));
    builder.kept(position, Kept::Unchanged);
    let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
    std::fs::write(folder.join("address"), steering.address().to_string()).unwrap();
    for index in 0.. {
        if let [change] = steering.step(index, tallycast::now()) {
            std::fs::write(folder.join("kept"), format!("{}", change.kept)).unwrap();
            std::process::exit(1);
        }
        thread::yield_now();
    }
}

/// A process that is killed at the end.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_actuator(bus: &str, folder: &Path) -> (Killed, Remote) {
    start_process("actuator", bus, folder)
}

/// Starts an app in a process of its own and connects to it.
fn start_process(app: &str, bus: &str, folder: &Path) -> (Killed, Remote) {
    let address = folder.join("address");
    let _ = std::fs::remove_file(&address);
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([&format!("steering::{app}"), "--exact", "--nocapture"]);
    command.env(VICTIM, folder).env("TALLYCAST_TEST_BUS", bus);
    let process = Killed(command.stdout(std::process::Stdio::null()).spawn().unwrap());
    let remote = wait_until("the app's address", || {
        let peer = std::fs::read_to_string(&address).ok()?.parse().ok()?;
        Remote::connect(peer, None).ok()
    });
    (process, remote)
}

#[test]
fn an_app_that_is_killed_doubles_no_effect_and_leaves_none_out_of_its_log() {
    let folder = logs();
    let bus = support::ports::private_bus();
    let sent = Arc::new(AtomicU64::new(0));
    let told_applied = Arc::new(Mutex::new(Vec::new()));
    let mut senders = Vec::new();
    for point in 0..8_u64 {
        let (process, mut remote) = start_actuator(&bus, folder.path());
        // Killed after another number of bytes each time: in the middle of other work.
        let size = || std::fs::metadata(log(&folder)).map_or(0, |it| it.len());
        let end = size() + 1_500 + 137 * point;
        let (sent, told_applied) = (Arc::clone(&sent), Arc::clone(&told_applied));
        // Its last command has no answer; some announcements later it says that it is uncertain.
        senders.push(thread::spawn(move || {
            loop {
                let value = sent.fetch_add(1, Ordering::Relaxed) + 1;
                match remote.set("position", Value::scalar(value), &SetOptions::default()) {
                    Ok((_, Conclusion::Answered(Answer::Applied(_)))) => {
                        told_applied.lock().unwrap().push(value)
                    }
                    Ok((_, Conclusion::Answered(_))) => {}
                    Ok((_, Conclusion::Uncertain | Conclusion::NeverArrived)) | Err(_) => return,
                }
            }
        }));
        wait_until("the log's next records", || (size() >= end).then_some(()));
        drop(process);
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let (process, mut remote) = start_actuator(&bus, folder.path());
    let (_, totals, _) = remote.list().unwrap();
    drop(process);
    assert!(totals.holds() && totals.pending == 0, "{totals:?}");
    let bytes = std::fs::read(folder.path().join("actuator")).unwrap();
    let effects: Vec<u64> =
        bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap())).collect();
    let once: std::collections::BTreeSet<u64> = effects.iter().copied().collect();
    assert!(effects.len() >= 8, "each run had effects");
    assert_eq!(once.len(), effects.len(), "no effect is doubled");
    let log = Log::recover(&APP.parse().unwrap(), &read_log(&log(&folder)).unwrap()).unwrap();
    let value = |value: &Value| u64::from_le_bytes(value.bytes().try_into().unwrap());
    let (mut intents, mut outcomes) = (std::collections::BTreeMap::new(), std::collections::BTreeMap::new());
    for entry in log.entries {
        match entry.record {
            Record::Intent { command, .. } => drop(intents.insert(command.id, value(&command.value))),
            Record::Outcome { id, answer, .. } => assert!(outcomes.insert(intents[&id], answer).is_none()),
            _ => {}
        }
    }
    let unlogged: Vec<_> =
        effects.iter().filter(|effect| !intents.values().any(|it| it == *effect)).collect();
    assert!(unlogged.is_empty(), "the log has the intent of every effect: {unlogged:?}");
    assert_eq!(outcomes.len(), intents.len(), "every command has its outcome after the last restart");
    for (value, answer) in &outcomes {
        match answer {
            Answer::Applied(_) => assert!(once.contains(value), "{value} is applied"),
            Answer::Uncertain => {}
            other => assert!(!once.contains(value), "{value} had an effect: {other:?}"),
        }
    }
    assert!(
        told_applied.lock().unwrap().iter().all(|value| once.contains(value)),
        "a sender is told the truth"
    );
}

#[test]
fn the_sender_of_a_killed_app_asks_the_next_run_and_is_uncertain_if_there_is_none() {
    let (folder, bus) = (logs(), support::ports::private_bus());
    let (node, app) = (node(&bus.parse().unwrap()), APP.parse::<StreamName>().unwrap());
    let found = || find(&node, &app, Duration::from_millis(100));
    let (first, _) = start_actuator(&bus, folder.path());
    let mut remote = wait_until("the app", || found().ok()).connect(None).unwrap();
    applied(set(&mut remote, "position", Value::scalar(1_u64)));
    drop(first);
    // At another port, with the same log.
    let (second, _) = start_actuator(&bus, folder.path());
    // Over the old connection it did not arrive, which the next run says; a later one is sent to that run.
    wait_until("the next run", || match set(&mut remote, "position", Value::scalar(2_u64)) {
        Conclusion::Answered(Answer::Applied(_)) => Some(()),
        _ => None,
    });
    drop(second);
    assert!(matches!(found(), Err(SteeringError::NoApp(_))), "a dead run is not found");
    match remote.set("position", Value::scalar(4_u64), &SetOptions::default()) {
        Ok((_, conclusion)) => assert_eq!(conclusion, Conclusion::Uncertain),
        Err(SteeringError::Closed(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_value_read_back_that_the_parameter_cannot_have_is_uncertain_and_one_without_done_too() {
    let (bus, folder) = (bus(), logs());
    let mut builder = node(&bus).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(log(&folder));
    builder.policy(Policy::parse("allow anyone steer **").unwrap());
    let gain = builder.parameter(Parameter::new("gain", 1.0_f64));
    let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
    let peer = steering.address();
    let mut index = 0;
    for (value, is_done) in [(2.0_f64, true), (3.0, false)] {
        let sender = thread::spawn(move || {
            set(&mut Remote::connect(peer, None).unwrap(), "gain", Value::scalar(value))
        });
        while !sender.is_finished() {
            for change in steering.step(index, tallycast::now()) {
                change.read_back(Value::scalar(7_u8));
            }
            assert!(steering.value(gain)[0].is_finite());
            if is_done {
                steering.done();
            }
            index += 1;
            thread::yield_now();
        }
        assert_eq!(sender.join().unwrap(), Conclusion::Uncertain);
        assert_eq!(steering.value(gain)[0].to_bits(), value.to_bits(), "as it was asked for");
    }
    assert_eq!(steering.close().uncertain, 2);
}

#[test]
fn an_app_that_keeps_values_can_tell_of_a_command_that_a_crash_left_open() {
    let (folder, bus) = (logs(), support::ports::private_bus());
    let (_process, mut remote) = start_process("keeper", &bus, folder.path());
    assert_eq!(
        set(&mut remote, "position", Value::scalar(7_u64)),
        Conclusion::Uncertain,
        "no other run tells"
    );
    let kept: Kept = std::fs::read_to_string(folder.path().join("kept")).unwrap().parse().unwrap();
    let mut builder = node(&bus.parse().unwrap()).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(log(&folder));
    let position = builder.parameter(Parameter::new("position", 7_u64));
    builder.kept(position, kept).policy(Policy::parse("allow anyone steer **").unwrap());
    let steering = builder.open(tallycast::Epoch { start_ns: 2, incarnation: 2 }).unwrap();
    let totals = steering.close();
    assert_eq!((totals.received, totals.applied, totals.uncertain), (1, 1, 0));
    assert!(totals.holds());
    let outcomes: Vec<_> = records(&log(&folder))
        .into_iter()
        .filter_map(|record| match record {
            Record::Outcome { answer: Answer::Applied(applied), .. } => Some(applied),
            _ => None,
        })
        .collect();
    let [Applied { epoch, revision: 1, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(epoch.start_ns, 1, "in the run that took the command");
}

#[test]
fn a_step_is_measured_from_the_value_that_was_read_back() {
    let (bus, folder) = (bus(), logs());
    let mut builder = node(&bus).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(log(&folder));
    builder.policy(Policy::parse("allow anyone steer **").unwrap());
    let gain = builder.parameter(Parameter::new("gain", 1.0_f64).greatest_step(2.0));
    let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
    let mut remote = Remote::connect(steering.address(), None).unwrap();
    assert!(matches!(steering.read_back(gain, &[]), Err(SteeringError::Value(_))));
    // Another client has changed the device, before each step; a change of the step has a reading of its own.
    let mut steps = |remote: &mut Remote, value: f64| {
        thread::scope(|scope| {
            let sender = scope.spawn(|| set(remote, "gain", Value::scalar(value)));
            for index in 0.. {
                if sender.is_finished() {
                    break;
                }
                steering.read_back(gain, &[7.0]).unwrap();
                let is_changed = !steering.step(index, tallycast::now()).is_empty();
                steering.read_back(gain, &[7.0]).unwrap();
                assert_eq!(steering.value(gain)[0].to_bits(), if is_changed { value } else { 7.0 }.to_bits());
                steering.done();
                thread::yield_now();
            }
            sender.join().unwrap()
        })
    };
    assert_eq!(
        refused(&steps(&mut remote, 2.0)),
        Rule::Step,
        "one from the last command, five from the device"
    );
    let change = applied(steps(&mut remote, 8.0));
    assert_eq!((change.revision, change.readback), (2, Value::scalar(8.0)), "the reading was a change, too");
    let totals = steering.close();
    assert_eq!((totals.received, totals.applied, totals.refused), (2, 1, 1));
    assert!(totals.holds());
}

mod secured {
    use std::collections::BTreeMap;

    use keys::{Secret, exchange_public};
    use tallycast::steering::verify_log;
    use tallycast::udt::{Keys, PublicKey, Suite};

    use super::*;
    use crate::secured::Laboratory;

    fn keys(own: u8, peers: &[u8]) -> Keys {
        let secret = |number: u8| Secret::new(zeroize::Zeroizing::new([number; 32]));
        let peers: std::collections::BTreeSet<PublicKey> =
            peers.iter().map(|peer| exchange_public(&secret(*peer))).collect();
        Keys { key: secret(own), responder: peers.first().copied(), peers, suite: Suite::default() }
    }

    #[test]
    fn an_app_on_a_secured_bus_is_steered_by_listed_keys_and_its_log_is_signed() {
        let (folder, laboratory) = (logs(), Laboratory::new());
        let bus = laboratory.bus(&bus(), "daq-1");
        let mut builder = node(&bus).steering(APP);
        let names = keys(1, &[2]).peers.into_iter().map(|key| (key, "desk".parse().unwrap()));
        builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(log(&folder));
        builder.keys(keys(1, &[2, 3]), names.collect::<BTreeMap<_, _>>());
        builder.policy(Policy::parse("allow key:desk steer test/rod/gain").unwrap());
        builder.parameter(Parameter::new("gain", 1.0));
        let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
        let peer = steering.address();
        let steps = thread::scope(|scope| {
            let commands = scope.spawn(|| {
                let mut desk = Remote::connect(peer, Some(keys(2, &[1]))).unwrap();
                assert_eq!(desk.welcome().principal, "key:desk");
                applied(set(&mut desk, "gain", Value::scalar(2.0)));
                let mut other = Remote::connect(peer, Some(keys(3, &[1]))).unwrap();
                assert_eq!(refused(&set(&mut other, "gain", Value::scalar(3.0))), Rule::ReadOnly);
            });
            let mut steps = 0;
            while !commands.is_finished() {
                steering.step(steps, tallycast::now());
                steering.done();
                steps += 1;
                thread::yield_now();
            }
            commands.join().unwrap();
            steps
        });
        assert!(steps > 0);
        assert!(steering.close().holds());
        let (app, path) = (APP.parse().unwrap(), log(&folder));
        let authority = laboratory.authority();
        let verified = verify_log(&app, &path, Some(&authority)).unwrap();
        assert_eq!(verified.signed, Some((verified.log.head.count, "daq-1".to_owned())));
        let whole = std::fs::read(&path).unwrap();
        let last = verified.log.entries.last().unwrap().record.encode().len() + 52;
        std::fs::write(&path, &whole[..whole.len() - last]).unwrap();
        assert!(verify_log(&app, &path, None).is_ok(), "what is left is whole");
        let mut again = node(&bus).steering(APP);
        again
            .listen(Ipv4Addr::LOCALHOST.into(), Some(0))
            .log(&path)
            .policy(Policy::parse("allow anyone steer **").unwrap());
        let opened = again.open(tallycast::Epoch { start_ns: 2, incarnation: 2 }).map(drop);
        assert!(
            matches!(opened, Err(SteeringError::Log { error: LogError::CutOff { .. }, .. })),
            "the next run does not go on with it: {opened:?}"
        );
        assert!(
            matches!(verify_log(&app, &path, Some(&authority)), Err(SteeringError::Log { .. })),
            "cut off"
        );
        std::fs::write(&path, &whole).unwrap();
        let stranger = Laboratory::new().authority();
        assert!(matches!(verify_log(&app, &path, Some(&stranger)), Err(SteeringError::Head { .. })));
    }

    #[test]
    fn an_app_without_keys_does_not_listen_beyond_its_host() {
        let folder = logs();
        let mut builder = node(&bus()).steering(APP);
        builder.listen(Ipv4Addr::UNSPECIFIED.into(), Some(0)).log(log(&folder));
        builder.parameter(Parameter::new("gain", 1.0));
        let opened = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 });
        assert!(matches!(opened, Err(SteeringError::Clear)));
    }
}
