//! A connection that is closed when it exceeds its limits: the stream between the server and the kernel.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep_until};

use super::slots::Slot;
use super::tally::Closed;

/// A connection with its slot.
#[derive(Debug)]
pub(crate) struct Guarded {
    stream: TcpStream,
    pub(super) slot: Slot,
    request: Alarm,
    taking: Alarm,
}

/// Rings at a moment that may move.
#[derive(Debug, Default)]
struct Alarm(Option<Pin<Box<Sleep>>>);

impl Guarded {
    pub(super) fn new(stream: TcpStream, slot: Slot) -> Self {
        Self { stream, slot, request: Alarm::default(), taking: Alarm::default() }
    }

    /// Returns the first byte without taking it; `None` if the other end sends nothing any more.
    pub(super) async fn first_byte(&mut self) -> io::Result<Option<u8>> {
        std::future::poll_fn(|context| {
            if self.slot.occupant.is_displaced() {
                return Poll::Ready(Err(displaced()));
            }
            let mut byte = [0];
            match self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte)) {
                Poll::Ready(peeked) => Poll::Ready(peeked.map(|count| (count > 0).then_some(byte[0]))),
                Poll::Pending => self.wait_for_request(context).map(Err),
            }
        })
        .await
    }

    /// Registers a wake-up for the time at which it is closed while it waits for a request.
    fn wait_for_request(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.slot.occupant.call_when_displaced(context.waker()) {
            return Poll::Ready(displaced());
        }
        let (due, patience) =
            self.slot.occupant.conduct(|conduct| (conduct.request_due(), conduct.patience()));
        // Without a deadline, check again later: once an answer is written, nothing else polls this connection.
        let due = due.or_else(|| Some((Instant::now() + patience, Closed::Idle)));
        self.request.poll(due, context).map(|why| self.given_up(why))
    }

    /// Registers a wake-up for the time at which it is closed because the written data are not accepted.
    fn wait_for_taking(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let due = self.slot.occupant.conduct(|conduct| {
            conduct.is_stuck(Instant::now());
            conduct.taking_due()
        });
        self.taking.poll(due, context).map(|why| self.given_up(why))
    }

    fn given_up(&self, why: Closed) -> io::Error {
        self.slot.closed(why);
        io::ErrorKind::TimedOut.into()
    }

    /// Notes what became of a write.
    fn written(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(written) => {
                self.slot.occupant.conduct(|conduct| conduct.wrote(Instant::now()));
                Poll::Ready(written)
            }
            Poll::Pending => self.wait_for_taking(context).map(Err),
        }
    }
}

fn displaced() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

impl Alarm {
    /// Wakes at the deadline; without one it never does.
    fn poll(&mut self, due: Option<(Instant, Closed)>, context: &mut Context<'_>) -> Poll<Closed> {
        let Some((due, why)) = due else { return Poll::Pending };
        let due = tokio::time::Instant::from_std(due);
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() != due {
            sleep.as_mut().reset(due);
        }
        sleep.as_mut().poll(context).map(|()| why)
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.slot.occupant.is_displaced() {
            return Poll::Ready(Err(displaced()));
        }
        let before = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(context, buffer) else {
            return this.wait_for_request(context).map(Err);
        };
        if buffer.filled().len() > before {
            this.slot.occupant.conduct(super::conduct::Conduct::read);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.written(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.written(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
