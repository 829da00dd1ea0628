//! The receiving process itself: this program, started again, with its instructions on standard input.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::message::{FromWorker, SocketCount, ToWorker};
use super::receive;
use crate::child::{self, say};
use flow::Ending;
use flow::udp::said_if_clamped;

/// Reasons why a receiving process could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// The system refused a call, or the bench no longer reads.
    #[error("{0}\nrun `tallycast bench capacity` again")]
    System(#[from] std::io::Error),
    /// An unexpected message.
    #[error(
        "unexpected message `{0}` for a process of the bench\nthis command is for the bench itself: run `tallycast bench capacity`"
    )]
    Unexpected(String),
}

/// Runs as one receiver of one run.
///
/// # Errors
/// [`WorkerError`], which is also reported to the bench if it still reads.
pub fn serve() -> Result<(), WorkerError> {
    child::serve(serve_run)
}

fn serve_run(told: &Receiver<ToWorker>) -> Result<(), WorkerError> {
    let place = match told.recv() {
        Ok(ToWorker::Receive(place)) => place,
        Ok(other) => return Err(WorkerError::Unexpected(serde_json::to_string(&other).unwrap_or_default())),
        // The bench is gone.
        Err(_) => return Ok(()),
    };
    let socket = Arc::new(receive::open(&place)?);
    let address = socket.local_address();
    say(&FromWorker::Ready { address, note: said_if_clamped(socket.granted_buffer()) })?;
    let ending = Ending::new()?;
    let counted = std::thread::scope(|scope| {
        // On its own thread, so that receiving never waits for standard input.
        let receiving = scope.spawn(|| receive::receive(&socket, place.payload_bytes, &ending));
        match told.recv() {
            Ok(ToWorker::Over) => ending.announce_sent(()),
            // End of input or nonsense: either way the bench does not need the counts.
            _ => ending.give_up(),
        }
        receiving.join().expect("a receiving thread returns its errors")
    })?;
    let drops = u64::from(socket.meminfo()?.drops);
    Ok(say(&FromWorker::Done(SocketCount { address, drops, workers: vec![counted] }))?)
}
