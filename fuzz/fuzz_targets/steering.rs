//! Any bytes as a record of the log, a message to an app and a message from it: refused, or encoded so that they decode
//! to the same; and any messages at an app, whose law holds after each.
#![no_main]

use access::{Policy, Principal, Reach};
use libfuzzer_sys::fuzz_target;
use sample::Dtype;
use steer::{App, Config, Declared, Hand, Output, Parameter, Record, Request, Response, SessionId, Value};
use units::{Epoch, Instant};

fuzz_target!(|messages: Vec<(u16, Vec<u8>)>| {
    let epoch = Epoch { start_ns: 1, incarnation: 1 };
    let app = "sim/engine".parse().expect("a name");
    let config = Config { app, epoch, policy: Policy::without_file(Reach::Loopback) };
    let declared = Declared { parameter: Parameter::new("gain", Dtype::F8), value: Value::scalar(1.0) };
    let mut app = App::new(config, vec![declared]).expect("a sound declaration");
    let session = SessionId(1);
    app.open(session, Principal::anonymous()).expect("a first session");
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut written = 0;
    for (index, (pause_ms, bytes)) in (0_u64..).zip(&messages) {
        if let Some(record) = Record::decode(bytes) {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        if let Some(response) = Response::decode(bytes) {
            let again = response.encode();
            assert_eq!(Response::decode(&again).map(|it| it.encode()), Some(again));
        }
        let Some(request) = Request::decode(bytes) else { continue };
        assert_eq!(Request::decode(&request.encode()).as_ref(), Some(&request));
        now += core::time::Duration::from_millis(u64::from(*pause_ms));
        match request {
            Request::Command(mut command) => {
                command.session = session;
                app.command(now, command);
            }
            Request::Ask(question) => drop(app.ask(now, session, &question)),
            Request::Lease { group } => drop(app.lease(now, session, &group)),
            Request::TakeOver { group, reason } => drop(app.take_over(now, session, &group, &reason)),
            Request::Release { group } => drop(app.release(now, session, &group)),
            Request::Switch { scope, is_on: true, reason } => {
                drop(app.stop(Hand::Session(session), scope, &reason));
            }
            Request::Switch { scope, is_on: false, reason } => {
                drop(app.resume(Hand::Session(session), scope, &reason));
            }
            _ => {}
        }
        while let Some(output) = app.poll() {
            if let Output::Write { record, .. } = output {
                assert_eq!(Record::decode(&record.encode()), Some(record));
                written += 1;
            }
        }
        app.written(written);
        app.step(now, index);
        assert!(app.totals().holds());
    }
});
