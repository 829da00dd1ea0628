//! The server's end: the members of the group.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::Cancellation;

use super::member::{Member, MemberError, Notice};
use super::message::{Done, MemberResult, Word, to_flow};
use super::options::Options;
use crate::control::{Connection, Message, ServeError, Test, ensure_running};
use crate::greeting::token;
use crate::report::Meter;

/// The server's part of the test.
pub const TEST: Test = Test { name: NAME, serve };
pub(super) const NAME: &str = "multicast";

/// Maximum time the server waits for a message before it checks whether it is to end.
const LISTEN: Duration = Duration::from_millis(50);

/// Serves the runs of a client in turn.
fn serve(
    parameters: Value,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let options: Options = serde_json::from_value(parameters)
        .map_err(|error| ServeError::Refused(format!("invalid test parameters: {error}")))?;
    options.check().map_err(|error| ServeError::Refused(error.to_string()))?;
    loop {
        match connection.hear(Instant::now() + LISTEN)? {
            None => {}
            Some(Message::Bye) => return Ok(()),
            Some(Message::Word(word)) => match serde_json::from_value(word.clone()) {
                Ok(Word::Prepare { .. }) => serve_run(&options, connection, cancellation)?,
                _ => return Err(connection.unexpected(&Message::Word(word)).into()),
            },
            Some(other) => return Err(connection.unexpected(&other).into()),
        }
        ensure_running(cancellation)?;
    }
}

fn serve_run(
    options: &Options,
    connection: &mut Connection,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    // Datagrams of other runs, and of strangers, carry another number.
    let run = (token() >> 32) as u32;
    let members =
        join_all(options, connection, run).map_err(|error| ServeError::Refused(error.to_string()))?;
    let endpoint = members[0].address();
    let notes: Vec<String> = members[0].note().into_iter().collect();
    let notice = Notice::new().map_err(|error| ServeError::Refused(MemberError::from(error).to_string()))?;
    let meter = Meter::begin();
    std::thread::scope(|scope| {
        let notice = &notice;
        let threads: Vec<_> =
            members.into_iter().map(|member| scope.spawn(move || member.receive(notice))).collect();
        let outcome = connection
            .say(&Word::Ready { endpoint, token: run })
            .map_err(ServeError::from)
            .and_then(|()| hear_sent(options, connection, notice, cancellation));
        if outcome.is_err() {
            notice.give_up();
        }
        let ended = threads.into_iter().map(|thread| thread.join().expect("a member returns its errors"));
        let (members, failures) = by_number(ended);
        outcome?;
        let done = Done { members, used: meter.used(), failures, notes };
        Ok(connection.say(&Word::Done(Box::new(done)))?)
    })
}

/// Returns the members' results by number, even if some of them failed.
fn by_number(
    ended: impl Iterator<Item = Result<MemberResult, MemberError>>,
) -> (BTreeMap<u32, MemberResult>, Vec<String>) {
    let (mut members, mut failures) = (BTreeMap::new(), Vec::new());
    for (receiver, member) in (0..).zip(ended) {
        match member {
            Ok(member) => drop(members.insert(receiver, member)),
            Err(error) => failures.push(format!("receiver {receiver} failed: {error}")),
        }
    }
    (members, failures)
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

/// Waits for the sender's message, for at most the length of a run and the patience, and notifies the members.
fn hear_sent(
    options: &Options,
    connection: &mut Connection,
    notice: &Notice,
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let longest = options.duration + connection.patience().silence;
    let deadline = Instant::now() + longest;
    loop {
        match connection.hear_word(Instant::now() + LISTEN)? {
            None if Instant::now() >= deadline => return Err(ServeError::NeverSent(longest)),
            None => ensure_running(cancellation)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};
    use crate::control::{ControlError, Patience};
    use crate::throughput::{Account, AccountState, Unit};

    fn member(sent: u64) -> MemberResult {
        let account = Account {
            unit: Unit::Datagrams,
            state: AccountState::Closed,
            sent,
            received: sent,
            lost: BTreeMap::new(),
            unexplained: 0,
            duplicates: 0,
            unmatched: 0,
        };
        MemberResult { account, reordered: 0, latency: None }
    }

    /// Longer than a client that sends a heartbeat every [`LISTEN`] can be kept from its processor.
    const SILENCE: Duration = Duration::from_secs(3);

    #[test]
    fn a_member_that_fails_leaves_the_others_their_numbers_also_across_the_connection() {
        let failed = MemberError::System(std::io::Error::other("no memory"));
        let (members, failures) = by_number([Ok(member(1)), Err(failed), Ok(member(3))].into_iter());
        assert_eq!(failures, ["receiver 1 failed: no memory"]);
        let word = serde_json::to_value(&members).unwrap();
        let members: BTreeMap<u32, MemberResult> = serde_json::from_value(word).unwrap();
        let sent: Vec<_> = members.iter().map(|(receiver, it)| (*receiver, it.account.sent)).collect();
        assert_eq!(sent, [(0, 1), (2, 3)]);
    }

    #[test]
    fn a_client_that_stays_alive_and_never_finishes_is_not_waited_for() {
        let scene = Scene::new(&[TEST], Patience { silence: SILENCE, ..PATIENT });
        let options = Options { duration: Duration::from_millis(10), ..Options::default() };
        let mut client = scene.begin(NAME, serde_json::to_value(options).unwrap());
        client.say(&Word::Prepare { run: 0 }).unwrap();
        let word = client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        assert!(matches!(word, Word::Ready { .. }), "{word:?}");
        let refusal = loop {
            match client.tell(&Message::Alive).and_then(|()| client.hear(Instant::now() + LISTEN)) {
                Ok(None) => {}
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        let ControlError::Failed { reason, .. } = refusal else { panic!("{refusal}") };
        assert!(reason.contains("has not reported within 3.01s"), "{reason}");
    }
}
