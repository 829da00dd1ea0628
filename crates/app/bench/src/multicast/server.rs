//! The server's end: the members of the group.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::member::{Member, MemberError, Notice};
use super::message::{Done, Word, to_flow};
use super::options::Options;
use crate::control::{Connection, EndWish, Message, ServeError, Test};
use crate::greeting::token;
use crate::report::Meter;

/// What a server has to know to take part.
pub const TEST: Test = Test { name: NAME, serve };
pub(super) const NAME: &str = "multicast";

/// How long the server listens to the client before it looks whether it is to end.
const LISTEN: Duration = Duration::from_millis(50);

/// Serves the runs of a client, one after the other.
fn serve(
    parameters: Value,
    connection: &mut Connection,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    let options: Options = serde_json::from_value(parameters)
        .map_err(|error| ServeError::Refused(format!("the parameters of the test are none: {error}")))?;
    options.check().map_err(|error| ServeError::Refused(error.to_string()))?;
    loop {
        match connection.hear(Instant::now() + LISTEN)? {
            None => {}
            Some(Message::Bye) => return Ok(()),
            Some(Message::Word(word)) => match serde_json::from_value(word.clone()) {
                Ok(Word::Prepare { .. }) => serve_run(&options, connection, is_wanted_to_end)?,
                _ => return Err(connection.unexpected(&Message::Word(word)).into()),
            },
            Some(other) => return Err(connection.unexpected(&other).into()),
        }
        check_end(is_wanted_to_end)?;
    }
}

fn check_end(is_wanted_to_end: &EndWish<'_>) -> Result<(), ServeError> {
    if is_wanted_to_end() { Err(ServeError::Refused("the server was ended".to_owned())) } else { Ok(()) }
}

fn serve_run(
    options: &Options,
    connection: &mut Connection,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    // What other runs, and strangers, send to the group carries another number.
    let run = (token() >> 32) as u32;
    let members =
        join_all(options, connection, run).map_err(|error| ServeError::Refused(error.to_string()))?;
    let endpoint = members[0].address();
    let notes: Vec<String> = members[0].note().into_iter().collect();
    let (notice, meter) = (Notice::default(), Meter::begin());
    std::thread::scope(|scope| {
        let notice = &notice;
        let threads: Vec<_> =
            members.into_iter().map(|member| scope.spawn(move || member.receive(notice))).collect();
        let outcome = connection
            .say(&Word::Ready { endpoint, token: run })
            .map_err(ServeError::from)
            .and_then(|()| hear_sent(connection, notice, is_wanted_to_end));
        if outcome.is_err() {
            notice.give_up();
        }
        let ended = threads.into_iter().map(|thread| thread.join().expect("a member returns its errors"));
        let (mut members, mut failures) = (Vec::new(), Vec::new());
        for member in ended {
            match member {
                Ok(member) => members.push(member),
                Err(error) => failures.push(error.to_string()),
            }
        }
        outcome?;
        let done = Done { members, used: meter.used(), failures, notes };
        Ok(connection.say(&Word::Done(Box::new(done)))?)
    })
}

fn join_all(options: &Options, connection: &Connection, run: u32) -> Result<Vec<Member>, MemberError> {
    let local = connection.local_address().ip();
    let mut address = SocketAddr::new(options.group.into(), 0);
    let mut members = Vec::new();
    for _ in 0..options.receivers {
        let member = Member::join(options, address, local, run)?;
        address = member.address();
        members.push(member);
    }
    Ok(members)
}

/// Waits for the sender's word, and tells the members.
fn hear_sent(
    connection: &mut Connection,
    notice: &Notice,
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    loop {
        match connection.hear_word(Instant::now() + LISTEN)? {
            None => check_end(is_wanted_to_end)?,
            Some(Word::Sent { numbered, bytes, refused }) => {
                notice.tell_sent(to_flow(numbered, bytes, &refused));
                return Ok(());
            }
            Some(other) => {
                let other = serde_json::to_value(&other).expect("words are plain data");
                return Err(connection.unexpected(&Message::Word(other)).into());
            }
        }
    }
}
