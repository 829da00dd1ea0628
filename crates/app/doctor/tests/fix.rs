//! The loop of `fix` over a socket that loses: a request to end keeps the host as it is.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::net::UdpSocket;
use std::time::Duration;

use doctor::{Change, FixError, FixOptions, FixOutcome, FixStep, FixUser, Journal, Proof, Wanted, fix};
use rustix::net::sockopt::set_socket_recv_buffer_size;

/// Datagrams sent per wait: more than the socket holds.
const DATAGRAMS: usize = 100;

/// A user who sends more than a socket holds, consents to the first change, and then asks to end. During a measurement
/// that is cut short, the socket is read, so that nothing is lost.
struct User {
    reader: UdpSocket,
    writer: UdpSocket,
    /// Whether the request to end comes with the consent, or else in the measurement after the change.
    at_once: bool,
    consented: bool,
    proofs: Vec<Proof>,
}

impl User {
    fn new(at_once: bool) -> Self {
        let reader = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_socket_recv_buffer_size(&reader, 8_192).unwrap();
        reader.set_nonblocking(true).unwrap();
        let writer = UdpSocket::bind("127.0.0.1:0").unwrap();
        Self { reader, writer, at_once, consented: false, proofs: Vec::new() }
    }

    fn read_all(&self) {
        while self.reader.recv(&mut [0; 1_000]).is_ok() {}
    }
}

impl FixUser for User {
    type Error = FixError;

    fn step(&mut self, step: &FixStep<'_>) -> Result<(), FixError> {
        if let FixStep::Proof { proof, .. } = step {
            self.proofs.push(*proof);
        }
        Ok(())
    }

    fn consents(&mut self, _: &Change) -> Result<bool, FixError> {
        self.consented = true;
        Ok(true)
    }

    fn wait(&mut self, time: Duration) -> bool {
        if self.consented && self.at_once {
            return false;
        }
        let is_cut_short = self.consented && !time.is_zero();
        for _ in 0..DATAGRAMS {
            if is_cut_short {
                self.read_all();
            }
            self.writer.send_to(&[0; 1_000], self.reader.local_addr().unwrap()).unwrap();
        }
        if !is_cut_short {
            std::thread::sleep(time);
        }
        !is_cut_short
    }
}

/// Runs the loop over the socket; returns the outcome, the number of changes in the journal and of those still made.
fn fix_for(user: &mut User) -> (FixOutcome, usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let ports = [user.reader.local_addr().unwrap().port()].into();
    let options = FixOptions {
        wanted: Wanted { ports, ..Wanted::default() },
        window: Duration::from_millis(50),
        journal: path.clone(),
    };
    let outcome = fix(options, user).unwrap();
    let journal = Journal::open(&path).unwrap();
    (outcome, std::fs::read_to_string(&path).unwrap().lines().count(), journal.open_entries().count())
}

#[test]
fn a_request_to_end_during_the_question_changes_nothing() {
    let mut user = User::new(true);
    assert_eq!(fix_for(&mut user), (FixOutcome::LossesRemain, 0, 0));
    assert!(user.consented && user.proofs.is_empty(), "{:?}", user.proofs);
}

#[test]
fn a_measurement_that_is_cut_short_proves_nothing_and_its_change_is_undone() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: the first change may need root");
    }
    let mut user = User::new(false);
    let (_, lines, open) = fix_for(&mut user);
    // The change, and its undo, although nothing was lost any more.
    assert_eq!((lines, open), (2, 0));
    assert_eq!(user.proofs, [Proof::NoTraffic]);
}
