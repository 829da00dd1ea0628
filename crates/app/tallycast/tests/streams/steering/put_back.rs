//! A log that is put back while its app is down: what the next run says of an earlier command is not believed.

use super::*;

/// Runs in a process of its own: an app that has the effect of its second command, and then hangs until it is killed.
#[test]
fn staller() {
    let Some(folder) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let bus: Bus = std::env::var("TALLYCAST_TEST_BUS").unwrap().parse().unwrap();
    let mut builder = node(&bus).steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(folder.join("rod.log"));
    builder.policy(Policy::parse("allow anyone steer **").unwrap());
    builder.parameter(Parameter::new("position", 0_u64));
    let mut steering = builder.open(tallycast::Epoch { start_ns: 1, incarnation: 1 }).unwrap();
    std::fs::write(folder.join("address"), steering.address().to_string()).unwrap();
    for index in 0.. {
        let values: Vec<_> =
            steering.step(index, tallycast::now()).iter().map(|it| it.value.clone()).collect();
        if values == [Value::scalar(2_u64)] {
            std::fs::write(folder.join("effect"), "").unwrap();
            loop {
                thread::park();
            }
        }
        steering.done();
        thread::yield_now();
    }
}

#[test]
fn of_a_run_whose_log_was_put_back_an_earlier_command_is_uncertain() {
    let (folder, bus) = (logs(), support::ports::private_bus());
    let (node, app) = (node(&bus.parse().unwrap()), APP.parse::<StreamName>().unwrap());
    let (first, _) = start_process("put_back::staller", &bus, folder.path());
    let copy = std::fs::read(log(&folder)).unwrap();
    let found = wait_until("the app", || find(&node, &app, Duration::from_millis(100)).ok());
    let mut remote = found.connect(None).unwrap();
    applied(set(&mut remote, "position", Value::scalar(1_u64)));
    let sender = thread::spawn(move || {
        let conclusion = set(&mut remote, "position", Value::scalar(2_u64));
        (remote, conclusion)
    });
    wait_until("the effect", || folder.path().join("effect").exists().then_some(()));
    drop(first);
    std::fs::write(log(&folder), copy).unwrap();
    let (_second, _) = start_actuator(&bus, folder.path());
    let (mut remote, conclusion) = sender.join().unwrap();
    assert_eq!(conclusion, Conclusion::Uncertain, "it had an effect");
    wait_until("an answer of the next run", || match set(&mut remote, "position", Value::scalar(3_u64)) {
        Conclusion::Answered(Answer::Applied(_)) => Some(()),
        _ => None,
    });
    let broken = remote.log_break().expect("the next run has another log");
    assert!(matches!(broken.error(), LogError::Earlier { .. }), "{broken:?}");
}
