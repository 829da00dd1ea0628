//! Bare sockets that are sent what a page was sent: what the bytes alone cost.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use peers::process::{Process, next, stand_by, tell};
use peers::{Standing, Whose, cpu_seconds};
use serde::{Deserialize, Serialize};

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
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            Ok(std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
            }))
        })
        .collect::<Result<Vec<_>>>()?;
    sender.hear::<()>("ready")?;
    sender.go()?;
    sender.say(&joined(pieces))?;
    let seconds = sender.hear("cpu")?;
    sender.end()?;
    readers.into_iter().for_each(|reader| drop(reader.join()));
    Ok(seconds)
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
