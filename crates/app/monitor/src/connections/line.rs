//! A connection as the server reads and writes it: in clear, or through TLS above the bounds of [`Guarded`].
//!
//! The handshake is driven by the first read, so that accepting connections waits for none. It has the connection's
//! slot and time limit from the first byte on. A request in clear where TLS is spoken is answered in clear, once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::guarded::Guarded;
use super::slots::Occupant;
use super::tally::Closed;
use super::unencrypted::{answer, begins_in_clear};
use crate::host_gate::HostGate;

/// What encrypts connections, and the names to which a request in clear may be sent on.
#[derive(Clone)]
pub(crate) struct Encryption {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) gate: HostGate,
}

/// A connection of a page or program.
pub(crate) struct Line {
    pub(super) occupant: Arc<Occupant>,
    layer: Layer,
}

enum Layer {
    Clear(Guarded),
    Greeting(Greeting),
    Sealed(Box<TlsStream<Guarded>>),
    /// The handshake failed, or was none.
    Broken,
}

type Greeting = Pin<Box<dyn Future<Output = io::Result<TlsStream<Guarded>>> + Send>>;

/// Performs the handshake.
async fn greet(mut guarded: Guarded, encryption: Encryption) -> io::Result<TlsStream<Guarded>> {
    if guarded.first_byte().await?.is_some_and(begins_in_clear) {
        guarded.slot.closed(Closed::Unencrypted);
        answer(&mut guarded, &encryption.gate).await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    encryption.acceptor.accept(guarded).into_fallible().await.map_err(|(error, guarded)| {
        // What broke a bound is counted by then; a client that leaves breaks none.
        if error.kind() == io::ErrorKind::InvalidData {
            guarded.slot.closed(Closed::Handshake);
        }
        error
    })
}

impl Line {
    pub(super) fn new(guarded: Guarded, encryption: Option<&Encryption>) -> Self {
        let occupant = Arc::clone(&guarded.slot.occupant);
        let Some(encryption) = encryption else { return Self { occupant, layer: Layer::Clear(guarded) } };
        occupant.conduct(|conduct| conduct.greets(Instant::now()));
        Self { occupant, layer: Layer::Greeting(Box::pin(greet(guarded, encryption.clone()))) }
    }

    /// Drives the handshake to its end; returns the stream above it.
    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Stream>>> {
        if let Layer::Greeting(greeting) = &mut self.layer {
            match ready!(greeting.as_mut().poll(context)) {
                Ok(stream) => {
                    self.layer = Layer::Sealed(Box::new(stream));
                    self.occupant.conduct(|conduct| conduct.greeted(Instant::now()));
                }
                Err(error) => {
                    self.layer = Layer::Broken;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match &mut self.layer {
            Layer::Clear(stream) => Ok(Pin::new(stream)),
            Layer::Sealed(stream) => Ok(Pin::new(&mut **stream)),
            Layer::Greeting(_) | Layer::Broken => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.get_mut().poll_stream(context))?.poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().poll_stream(context))?.poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.get_mut().poll_stream(context))?.poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.layer {
            Layer::Clear(stream) => stream.is_write_vectored(),
            Layer::Sealed(stream) => stream.is_write_vectored(),
            Layer::Greeting(_) | Layer::Broken => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.get_mut().poll_stream(context))?.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().layer {
            Layer::Clear(stream) => Pin::new(stream).poll_shutdown(context),
            Layer::Sealed(stream) => Pin::new(&mut **stream).poll_shutdown(context),
            // Without keys there is nothing to close; dropping it ends the connection.
            Layer::Greeting(_) | Layer::Broken => Poll::Ready(Ok(())),
        }
    }
}
