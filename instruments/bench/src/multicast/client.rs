//! The client's end: it sends to the group, and builds the report.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sys::{Cancellation, clock};

use super::message::{Done, Word, sent};
use super::options::{Options, OptionsError};
use super::report::{Builder, Ended, Report};
use super::sender::Sender;
use super::server::Multicast;
use crate::control::{Begun, Connection, ControlError, Patience, begin};
use crate::report::{Meter, Watch};

/// Interval at which the request to end and the sending thread are checked: the control connection is read by a
/// thread, whose channel has no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MulticastError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server cannot be reached, or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The sending socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// The server asks for datagrams to another address than the group.
    #[error(
        "the server asks for datagrams at {0}, which is not the group\ninstall the same version of tallycast on both hosts"
    )]
    Stranger(SocketAddr),
}

/// Measures with the server at an address and returns the report.
///
/// # Errors
/// [`MulticastError`] if nothing could be measured. Failures after the first run has begun are in the report.
pub fn measure(
    options: &Options,
    server: SocketAddr,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, MulticastError> {
    options.check()?;
    let Begun { mut connection, client, server } =
        begin::<Multicast>(options, server, options.from, patience)?;
    let mut builder = Builder::new(options, connection.peer_address(), client, server);
    let mut has_begun = false;
    for run in 0..options.repeats {
        if watch.cancellation().is_cancelled() {
            break;
        }
        watch.progress(&|| format!("run {} of {}", run + 1, options.repeats));
        let ended = prepare(options, run, &mut connection).and_then(|sender| {
            has_begun = true;
            run_once(options, sender, &mut connection, watch)
        });
        match ended {
            Ok(ended) => builder.add(run, ended),
            Err(error) if !has_begun => return Err(error),
            Err(error) => {
                builder.break_off(&error.to_string());
                break;
            }
        }
    }
    connection.part();
    Ok(builder.finish(watch.cancellation().is_cancelled()))
}

/// Makes the members join, and opens the socket that sends to them.
fn prepare(options: &Options, run: u32, connection: &mut Connection) -> Result<Sender, MulticastError> {
    connection.say(&Word::Prepare { run })?;
    let (endpoint, token) = match connection.hear_word_surely()? {
        Word::Ready { endpoint, token } => (endpoint, token),
        other => return Err(connection.unexpected_word(&other).into()),
    };
    if endpoint.ip() != IpAddr::V4(options.group) {
        return Err(MulticastError::Stranger(endpoint));
    }
    let local = connection.local_address().ip();
    Ok(Sender::open(endpoint, local, token, options.payload_bytes)?)
}

fn run_once(
    options: &Options,
    mut sender: Sender,
    connection: &mut Connection,
    watch: &dyn Watch,
) -> Result<Ended, MulticastError> {
    let meter = Meter::begin();
    let skipped = send(options, &mut sender, connection, watch)?;
    let ours = meter.used();
    connection.say(&sent(sender.sent()))?;
    let Done { members, used, failures, mut notes } = match connection.hear_word_surely()? {
        Word::Done(done) => *done,
        other => return Err(connection.unexpected_word(&other).into()),
    };
    notes.extend(sender.note());
    let was_stopped = watch.cancellation().is_cancelled();
    Ok(Ended { members, ours, theirs: used, skipped, failures, notes, was_stopped })
}

/// Sends for the duration of a run, with heartbeats to the server in between; returns the number of datagrams
/// that a stall kept from being sent.
fn send(
    options: &Options,
    sender: &mut Sender,
    connection: &mut Connection,
    watch: &dyn Watch,
) -> Result<u64, MulticastError> {
    let rate = options.rate.of_units(options.payload_bytes);
    let cancellation = &Cancellation::new().map_err(ControlError::from)?;
    let end = clock::monotonic() + options.duration;
    std::thread::scope(|scope| {
        // On its own thread: a message to the server must not delay a datagram.
        let sending = scope.spawn(move || {
            // Refused on some kernels; pauses then end up to 50 µs late.
            let _ = clock::lower_timer_slack();
            sender.send(rate, end, &|| cancellation.is_cancelled())
        });
        let mut outcome = Ok(());
        while !sending.is_finished() && outcome.is_ok() {
            let until = Instant::now() + POLL_INTERVAL.min(options.duration);
            outcome = match connection.hear(until) {
                Ok(None) => Ok(()),
                Ok(Some(other)) => Err(connection.unexpected(&other)),
                Err(error) => Err(error),
            };
            if watch.cancellation().is_cancelled() || outcome.is_err() {
                cancellation.cancel();
            }
        }
        let skipped = sending.join().expect("a sender does not panic");
        outcome?;
        Ok(skipped)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::control::Message;
    use crate::control::scene::{PATIENT, Unwatched, by_hand};
    use crate::report::{State, Used};

    /// Measures with a server that survives `runs` runs, and is gone in the next.
    fn gone_after(runs: usize) -> Report {
        let (server, thread) = by_hand(move |mut connection| {
            let endpoint = SocketAddr::new(Options::default().group.into(), 9);
            for run in 0..=runs {
                assert!(matches!(connection.hear_surely(), Ok(Message::Word(_))), "prepare");
                connection.say(&Word::Ready { endpoint, token: 1 }).unwrap();
                if run < runs {
                    while !matches!(connection.hear_surely().unwrap(), Message::Word(_)) {}
                    let (members, failures, notes) = (BTreeMap::new(), Vec::new(), Vec::new());
                    let done = Done { members, used: Used::default(), failures, notes };
                    connection.say(&Word::Done(Box::new(done))).unwrap();
                }
            }
        });
        let options = Options { duration: Duration::from_millis(50), ..Options::default() };
        let report = measure(&options, server, PATIENT, &mut Unwatched::default()).unwrap();
        thread.join().unwrap();
        report
    }

    #[test]
    fn a_server_that_is_gone_leaves_the_runs_before_and_says_so_also_in_the_first() {
        for runs in [0, 1] {
            let report = gone_after(runs);
            assert_eq!((report.end.state, report.runs.len()), (State::BrokenOff, runs));
            let notes = report.end.notes.join("\n");
            assert!(
                notes.contains("a run broke off: the other end, ") && notes.contains("is gone"),
                "{notes}"
            );
        }
    }
}
