//! Reading side of the limit.

use std::array;
use std::io::{IoSliceMut, Read as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Instant;

use anyhow::{Result, ensure};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, recvmsg};
use peers::process::{end_with_leader, tell};
use peers::{Whose, cpu_seconds};

use super::socket::receiving;
use super::train::{END_BYTES, Message, Tally, delay_us, turn_of};
use super::{Calls, Line, Received};

/// Maximum number of messages per call.
const MAX_BATCH: usize = 64;
/// Maximum number of trains per call: trains are large, and this many stay in a core's cache.
const TRAINS_PER_CALL: usize = 16;
/// Maximum length of a message, a whole train. Units: bytes.
const TRAIN_BYTES: usize = 1 << 16;

struct Reader {
    socket: UdpSocket,
    calls: Calls,
    /// Buffers of `slot_bytes` each, one for every message of a call.
    bytes: Vec<u8>,
    slot_bytes: usize,
    headers: MultiHeaders<SockaddrIn>,
    lengths: [usize; MAX_BATCH],
}

/// Reads one run and reports its counts.
pub(crate) fn reader(line: Line) -> Result<()> {
    let (socket, granted_bytes) = receiving(&line)?;
    let mut reader = Reader::new(socket, &line);
    let mut tally = Tally::new(line.datagram_bytes);
    end_with_leader();
    tell("ready", &granted_bytes)?;
    let mut messages = reader.receive()?;
    let (began, cpu) = (Instant::now(), cpu_seconds(Whose::Thread));
    let mut delays_us = Vec::new();
    let mut take = |message: &[u8]| {
        let has_datagrams = tally.take(message) == Message::Datagrams;
        if line.is_stamped && has_datagrams {
            delays_us.push(delay_us(message));
        }
        has_datagrams
    };
    while reader.messages(messages).all(&mut take) {
        messages = reader.receive()?;
    }
    let (seconds, cpu_s) = (began.elapsed().as_secs_f64(), cpu_seconds(Whose::Thread) - cpu);
    let ends = reader.messages(messages).filter(|message| message.len() == END_BYTES).count() as u64;
    let (drops, turn) = reader.drops()?;
    // End markers may be dropped, too, and are not datagrams of the run.
    let dropped_messages = drops - (turn - ends - 1);
    let Tally { received: datagrams, missing, out_of_turn, .. } = tally;
    let received = Received { datagrams, missing, out_of_turn, dropped_messages, seconds, cpu_s, delays_us };
    tell("received", &received)?;
    // Waits to be ended, so that the leader finds both sides in their final state.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

impl Reader {
    fn new(socket: UdpSocket, line: &Line) -> Self {
        let (batch, slot_bytes) = match line.calls {
            Calls::Plain => (1, line.datagram_bytes.max(END_BYTES)),
            Calls::Batched => (MAX_BATCH, line.datagram_bytes.max(END_BYTES)),
            Calls::Trains(_) => (TRAINS_PER_CALL, TRAIN_BYTES),
        };
        Self {
            socket,
            calls: line.calls,
            bytes: vec![0; batch * slot_bytes],
            slot_bytes,
            headers: MultiHeaders::preallocate(batch, None),
            lengths: [0; MAX_BATCH],
        }
    }

    /// Waits for messages; returns their number.
    fn receive(&mut self) -> Result<usize> {
        if self.calls == Calls::Plain {
            self.lengths[0] = self.socket.recv(&mut self.bytes)?;
            return Ok(1);
        }
        let batch = self.bytes.len() / self.slot_bytes;
        let mut slots = self.bytes.chunks_exact_mut(self.slot_bytes);
        let mut slices: [_; MAX_BATCH] =
            array::from_fn(|_| [IoSliceMut::new(slots.next().unwrap_or_default())]);
        let fd = self.socket.as_raw_fd();
        let slices = slices.iter_mut().take(batch);
        let received = recvmmsg(fd, &mut self.headers, slices, MsgFlags::MSG_WAITFORONE, None)?;
        let mut count = 0;
        for (length, message) in self.lengths.iter_mut().zip(received) {
            *length = message.bytes;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the messages of the last call.
    fn messages(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let slots = self.bytes.chunks_exact(self.slot_bytes);
        slots.zip(&self.lengths[..count]).map(|(slot, length)| &slot[..*length])
    }

    /// Returns the socket's drop counter from the next end marker (`SO_RXQ_OVFL`), and that marker's turn: the
    /// counter includes everything before it.
    fn drops(&self) -> Result<(u64, u64)> {
        let mut bytes = [0; END_BYTES];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut control = cmsg_space!(u32);
        let fd = self.socket.as_raw_fd();
        let message = recvmsg::<()>(fd, &mut slices, Some(&mut control), MsgFlags::empty())?;
        ensure!(message.bytes == END_BYTES, "a datagram arrived after the end");
        let drops = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::RxqOvfl(drops) => Some(u64::from(drops)),
            _ => None,
        });
        // The kernel attaches the counter only after the first drop.
        Ok((drops.unwrap_or(0), turn_of(&bytes)))
    }
}
