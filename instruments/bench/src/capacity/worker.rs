//! The receiving process itself: this program, started again, with its instructions on standard input.
//!
//! It ends when its standard input does, however the bench ended.

use std::io::BufRead;
use std::sync::Arc;

use super::message::{FromWorker, Place, SocketCount, ToWorker};
use super::receive;
use crate::child::say;
use crate::flow::Ending;
use crate::flow::udp::said_if_clamped;

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
    let outcome = serve_run();
    if let Err(error) = &outcome {
        say(&FromWorker::Failed(error.to_string()))?;
    }
    outcome
}

fn serve_run() -> Result<(), WorkerError> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let place: Place = match serde_json::from_str(&line) {
        Ok(ToWorker::Receive(place)) => place,
        // The bench is gone.
        Err(_) if line.is_empty() => return Ok(()),
        _ => return Err(WorkerError::Unexpected(line)),
    };
    let socket = Arc::new(receive::open(&place)?);
    let address = socket.local_address();
    say(&FromWorker::Ready { address, note: said_if_clamped(socket.granted_buffer()) })?;
    let ending = Arc::new(Ending::new()?);
    listen(Arc::clone(&ending));
    let counted = receive::receive(&socket, place.payload_bytes, &ending)?;
    let drops = u64::from(socket.meminfo()?.drops);
    Ok(say(&FromWorker::Done(SocketCount { address, drops, workers: vec![counted] }))?)
}

/// Reads standard input on its own thread, so that receiving never waits for it.
fn listen(ending: Arc<Ending<()>>) {
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        match read.ok().and_then(|_| serde_json::from_str(&line).ok()) {
            Some(ToWorker::Over) => ending.tell_sent(()),
            // End of input or nonsense: either way the bench does not need the counts.
            _ => ending.give_up(),
        }
    });
}
