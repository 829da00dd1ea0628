//! Bare sockets that are sent what a page was sent: what the bytes alone cost.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use peers::process::{Process, next, stand_by, tell};
use peers::{Standing, Whose, cpu_seconds};
use serde::{Deserialize, Serialize};

use crate::pages::wait;

/// Pieces that came within this time are sent with one write.
const MOMENT_NS: u64 = 1_000_000;
/// Head of a message of a WebSocket that has at least 126 and less than 65,536 bytes (RFC 6455 §5.2).
const HEAD_BYTES: usize = 4;

/// One message to a page.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) at_ns: u64,
    pub(crate) size_bytes: usize,
}

/// Sends the same to some bare sockets, at the same times; returns the processor time of the sending process in seconds.
pub(crate) fn measure(pieces: &[Piece], sockets: usize) -> Result<f64> {
    let mut sender = Process::start("bare-sender", Standing::Anywhere, &sockets)?;
    let port: u16 = sender.hear("port")?;
    let readers = (0..sockets)
        .map(|_| {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_nonblocking(true)?;
            Ok(std::thread::spawn(move || read(stream)))
        })
        .collect::<Result<Vec<_>>>()?;
    sender.hear::<()>("ready")?;
    sender.go()?;
    sender.say(&joined(pieces))?;
    let seconds = sender.hear("cpu")?;
    sender.end()?;
    let join = |reader: JoinHandle<Result<()>>| reader.join().map_err(|_| anyhow!("a reader panicked"))?;
    readers.into_iter().try_for_each(join)?;
    Ok(seconds)
}

/// Reads to the end. It waits as a page does: the sender pays for waking it.
fn read(mut stream: TcpStream) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&stream)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Joins what came at one moment.
fn joined(pieces: &[Piece]) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        let size_bytes = piece.size_bytes + HEAD_BYTES;
        match joined.last_mut() {
            Some(last) if piece.at_ns - last.at_ns < MOMENT_NS => last.size_bytes += size_bytes,
            _ => joined.push(Piece { size_bytes, ..*piece }),
        }
    }
    joined
}

/// Plays the role of the sender.
pub(crate) fn send(sockets: usize) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    tell("port", &listener.local_addr()?.port())?;
    let accept = |_| {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let mut streams = (0..sockets).map(accept).collect::<Result<Vec<_>>>()?;
    stand_by()?;
    let pieces: Vec<Piece> = next()?.context("nothing to send")?;
    let longest = pieces.iter().map(|piece| piece.size_bytes).max().unwrap_or_default();
    let content = vec![0x5a; longest];
    let first = pieces.first().map_or(0, |piece| piece.at_ns);
    let (start, before) = (sys::clock::monotonic(), cpu_seconds(Whose::Process));
    for piece in pieces {
        sys::clock::sleep_until(start + Duration::from_nanos(piece.at_ns - first));
        for stream in &mut streams {
            stream.write_all(&content[..piece.size_bytes])?;
        }
    }
    tell("cpu", &(cpu_seconds(Whose::Process) - before))
}
