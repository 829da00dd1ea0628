//! The server's end: the members of the group.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use probe::flow::FlowSent;

use super::member::{Member, MemberError};
use super::message::{Done, MemberResult, Word, to_flow};
use super::options::Options;
use crate::control::{Connection, Outcome, RunResult, Serve, ServeError, Session, Test};
use crate::flow::Ending;
use crate::greeting::token;
use crate::report::Meter;

/// The server's part of the test.
pub const TEST: &dyn Serve = &Multicast;
pub(super) struct Multicast;

impl Test for Multicast {
    type Parameters = Options;
    type Word = Word;
    const NAME: &'static str = "multicast";

    fn check(&self, options: &Options) -> Result<(), ServeError> {
        options.check().map_err(ServeError::refused)
    }

    fn run(&self, options: &Options, request: Word, session: &mut Session<'_>) -> RunResult<Word> {
        let Word::Prepare { .. } = request else { return Err(session.unexpected(&request)) };
        // Datagrams of other runs, and of strangers, carry another number.
        let run = (token() >> 32) as u32;
        let members = join_all(options, session.connection, run).map_err(ServeError::refused)?;
        let endpoint = members[0].address();
        let notes: Vec<String> = members[0].note().into_iter().collect();
        let ending = Ending::new().map_err(MemberError::from).map_err(ServeError::refused)?;
        let meter = Meter::begin();
        std::thread::scope(|scope| {
            let ending = &ending;
            let threads: Vec<_> =
                members.into_iter().map(|member| scope.spawn(move || member.receive(ending))).collect();
            let outcome = session
                .connection
                .say(&Word::Ready { endpoint, token: run })
                .map_err(ServeError::from)
                .and_then(|()| hear_sent(options, session));
            match &outcome {
                Ok(sent) => ending.tell_sent(*sent),
                Err(_) => ending.give_up(),
            }
            let ended = threads.into_iter().map(|thread| thread.join().expect("a member returns its errors"));
            let (members, failures) = by_number(ended);
            outcome?;
            let done = Done { members, used: meter.used(), failures, notes };
            Ok(Outcome::Done(Word::Done(Box::new(done))))
        })
    }
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

/// Waits for the sender's counts.
fn hear_sent(options: &Options, session: &mut Session<'_>) -> Result<FlowSent, ServeError> {
    let sent = |word: &Word| match word {
        Word::Sent { numbered, bytes, refused } => Some(to_flow(*numbered, *bytes, refused)),
        _ => None,
    };
    session.hear_sent(options.duration, sent, |_| Err(ServeError::Ended))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::control::scene::{PATIENT, Scene, WATCHDOG};
    use crate::control::{ControlError, Message, Patience};
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

    /// Longer than a client that sends a heartbeat every [`HEARTBEAT`] can be kept from its processor.
    const SILENCE: Duration = Duration::from_secs(3);
    const HEARTBEAT: Duration = Duration::from_millis(50);

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
        let mut client = scene.begin(Multicast::NAME, serde_json::to_value(options).unwrap());
        client.say(&Word::Prepare { run: 0 }).unwrap();
        let word = client.hear_word(Instant::now() + WATCHDOG).unwrap().unwrap();
        assert!(matches!(word, Word::Ready { .. }), "{word:?}");
        let refusal = loop {
            match client.tell(&Message::Alive).and_then(|()| client.hear(Instant::now() + HEARTBEAT)) {
                Ok(None) => {}
                Ok(Some(other)) => panic!("{other:?}"),
                Err(error) => break error,
            }
        };
        let ControlError::Failed { reason, .. } = refusal else { panic!("{refusal}") };
        assert!(reason.contains("has not reported within 3.01s"), "{reason}");
    }
}
