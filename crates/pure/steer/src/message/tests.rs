//! Messages of every kind: read as they were written, and refused if they are cut, prolonged or contradictory.

use super::*;
use crate::Applied;

const EPOCH: Epoch = Epoch { start_ns: 5, incarnation: 6 };

fn requests() -> Vec<Request> {
    let command = Command {
        id: CommandId(u128::MAX),
        session: SessionId(1),
        parameter: "gain".to_owned(),
        if_revision: Some(3),
        value: Value::scalar(2.0),
        valid_until: Instant::from_nanos(9),
        reason: "test".to_owned(),
    };
    let Command { id, session, valid_until, .. } = command;
    let (group, reason) = ("heating".to_owned(), "shift".to_owned());
    vec![
        Request::Hello { version: VERSION },
        Request::Command(Command { if_revision: None, ..command.clone() }),
        Request::Command(command),
        Request::Ask(Question { id, session, valid_until }),
        Request::Lease { group: group.clone() },
        Request::TakeOver { group: group.clone(), reason: reason.clone() },
        Request::Release { group },
        Request::Switch { scope: Scope::All, is_on: true, reason: reason.clone() },
        Request::Switch { scope: Scope::App, is_on: false, reason },
        Request::List,
        Request::Watch,
    ]
}

fn responses() -> Vec<Response> {
    let id = CommandId(7);
    let head = Mark { count: 4, digest: 8 };
    let applied =
        Answer::Applied(Applied { epoch: EPOCH, index: 1, revision: 4, readback: Value::scalar(2.0) });
    let group = "heating".to_owned();
    let until = Instant::from_nanos(9);
    let parameter = Parameter {
        shape: vec![2, 3],
        unit: "kW".to_owned(),
        min: Some(Number::Real(-1.0)),
        greatest_step: Some(Number::Real(0.5)),
        who: May::Administer,
        needs: Needs::Lease { group: group.clone() },
        ..Parameter::new("heater", Dtype::F8)
    };
    let count = Parameter { max: Some(Number::Integer(-3)), ..Parameter::new("count", Dtype::I64) };
    let listed = |parameter: Parameter, value| Listed {
        parameter,
        value,
        is_read: true,
        revision: 4,
        holder: Some("user:ada".to_owned()),
    };
    let mut totals = Totals::default();
    totals.attempt(&Answer::Refused { rule: Rule::Range });
    totals.attempt(&Answer::Expired);
    let switches = Switches { app: true, all: false };
    vec![
        Response::Welcome(Welcome {
            version: VERSION,
            app: "sim/engine".parse().unwrap(),
            session: SessionId(2),
            principal: "key:daq".to_owned(),
            clock: Instant::from_nanos(8),
            epoch: EPOCH,
            run: EPOCH,
            began: Mark { count: 3, digest: 7 },
        }),
        Response::Answer { id, answer: applied.clone(), head },
        Response::Answer { id, answer: Answer::Accepted, head },
        Response::Reply { id, reply: Reply::Known(applied) },
        Response::Reply { id, reply: Reply::NeverSeen },
        Response::Reply { id, reply: Reply::Forgotten },
        Response::Lease { group: group.clone(), granted: Ok(Granted { until, clock: until }) },
        Response::Lease { group: group.clone(), granted: Err("held".to_owned()) },
        Response::Released { group: group.clone(), error: None },
        Response::Released { group, error: Some("not held".to_owned()) },
        Response::Switched { switches, error: Some("no reason".to_owned()) },
        Response::Parameter(listed(parameter, Value::from_bytes(Dtype::F8, &[2, 3], &[0; 48]).unwrap())),
        Response::Parameter(Listed { holder: None, ..listed(count, Value::scalar(-4_i64)) }),
        Response::State { totals, switches },
        Response::Closing { reason: "too many sessions".to_owned() },
    ]
}

#[test]
fn a_message_is_decoded_as_it_was_encoded_and_never_from_a_part() {
    for request in requests() {
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        assert!((0..bytes.len()).all(|size| Request::decode(&bytes[..size]).is_none()));
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
    }
    for response in responses() {
        let bytes = response.encode();
        assert_eq!(Response::decode(&bytes), Some(response));
        assert!((0..bytes.len()).all(|size| Response::decode(&bytes[..size]).is_none()));
        assert_eq!(Response::decode(&[&bytes[..], &[0]].concat()), None);
    }
}

#[test]
fn totals_that_do_not_add_up_are_refused() {
    let mut totals = Totals::default();
    totals.attempt(&Answer::Expired);
    let mut bytes = Response::State { totals, switches: Switches::default() }.encode();
    assert!(Response::decode(&bytes).is_some());
    bytes[1] += 1;
    assert_eq!(Response::decode(&bytes), None, "one command more was received than is accounted for");
}

#[test]
fn the_longest_message_fits() {
    let long = |bytes: usize| "x".repeat(bytes);
    let parameter = Parameter {
        shape: vec![1, 1, 1, 128],
        unit: long(crate::MAX_UNIT_BYTES),
        min: Some(Number::Real(0.0)),
        max: Some(Number::Real(1.0)),
        greatest_step: Some(Number::Real(1.0)),
        needs: Needs::Lease { group: long(crate::MAX_NAME_BYTES) },
        ..Parameter::new(&long(crate::MAX_NAME_BYTES), Dtype::F8)
    };
    assert_eq!(parameter.validate(), Ok(()));
    let value = Value::from_bytes(Dtype::F8, &parameter.shape, &[0; 1_024]).unwrap();
    let holder = Some(long(300));
    let listed = Listed { parameter, value, is_read: true, revision: 1, holder };
    assert!(Response::Parameter(listed).encode().len() <= MAX_MESSAGE_BYTES);
}
