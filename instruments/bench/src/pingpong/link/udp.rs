//! Messages in datagrams: cut into pieces, reassembled, and lost with any of their pieces.

use std::net::SocketAddr;

use probe::pingpong::{Assembly, Came, PIECE_HEADER_BYTES, Piece, pieces};
use sys::{ReceiveOptions, ReceiveTechniques, SendOptions, clock};
use units::Instant;

use super::{
    Answerer, Answering, Attending, End, Exchanged, Far, LinkError, Near, POLL_INTERVAL, Task, since, wait,
};
use crate::pingpong::message::Evidence;
use crate::pingpong::options::Wait;
use flow::udp::{self, Outcomes, said_if_clamped};

/// Number of datagrams that are written before they are sent.
const BURST: usize = 32;

/// The receiving end of a connection.
struct MessageReceiver {
    receiver: udp::Receiver,
    assembly: Assembly,
    peer: std::net::IpAddr,
    how: Wait,
}

/// The sending end of a connection.
struct MessageSender {
    socket: udp::Sender,
    to: SocketAddr,
    how: Wait,
    run: u32,
    piece_bytes: u32,
    /// The datagrams, one after the other.
    memory: Vec<u8>,
    outcomes: Outcomes,
}

impl MessageReceiver {
    fn open(task: &Task<'_>, run: u32) -> Result<Self, LinkError> {
        let options = ReceiveOptions {
            techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(task.local, task.options.datagram_buffer_bytes())
        };
        Ok(Self {
            receiver: udp::Receiver::open(&options, PIECE_HEADER_BYTES + task.piece_bytes as usize)?,
            assembly: Assembly::new(run, task.piece_bytes, task.options.largest_bytes()),
            peer: task.peer.to_canonical(),
            how: task.options.wait,
        })
    }

    /// Handles a received datagram; returns the exchange and the size of a message that is complete now.
    fn take(&mut self) -> Result<Option<(u64, u32)>, LinkError> {
        let mut whole = None;
        self.receiver.take()?;
        for datagram in self.receiver.batch.iter().filter(|it| it.from.ip().to_canonical() == self.peer) {
            if let Came::Whole { exchange, message_bytes } = self.assembly.accept(datagram.bytes) {
                whole = Some((exchange, message_bytes));
            }
        }
        Ok(whole)
    }

    fn wait(&mut self, until: Instant) -> Result<(), LinkError> {
        Ok(wait(self.how, until, |until| self.receiver.wait(until))?)
    }
}

impl MessageSender {
    fn open(task: &Task<'_>, to: SocketAddr, run: u32) -> Result<Self, LinkError> {
        let to = task.check_endpoint(to)?;
        let buffer_bytes = task.options.datagram_buffer_bytes();
        let socket = udp::Sender::open(&SendOptions { buffer_bytes, ..udp::to(to) })?;
        let (how, piece_bytes) = (task.options.wait, task.piece_bytes);
        let slot = PIECE_HEADER_BYTES + piece_bytes as usize;
        Ok(Self {
            socket,
            to,
            how,
            run,
            piece_bytes,
            memory: vec![0; slot * BURST],
            outcomes: Outcomes::default(),
        })
    }

    /// Sends a message within the time limit; if the system refuses a piece, the message is lost.
    fn send(
        &mut self,
        exchange: u64,
        message_bytes: u32,
        until: Instant,
        meanwhile: &mut dyn Attending,
    ) -> Result<(), LinkError> {
        let slot = PIECE_HEADER_BYTES + self.piece_bytes as usize;
        let mut cut = pieces(message_bytes, self.piece_bytes).peekable();
        while cut.peek().is_some() {
            let lengths: Vec<usize> = cut
                .by_ref()
                .take(BURST)
                .zip(self.memory.chunks_exact_mut(slot))
                .map(|((offset, length), place)| {
                    Piece { run: self.run, exchange, offset, message_bytes }.write(place);
                    PIECE_HEADER_BYTES + length as usize
                })
                .collect();
            let written = self.memory.chunks_exact(slot).zip(&lengths).map(|(place, len)| &place[..*len]);
            let mut waiting: Vec<&[u8]> = written.collect();
            loop {
                let mut still_waiting = Vec::new();
                let full = |index: usize| still_waiting.push(waiting[index]);
                self.socket.send_batch(&waiting, self.to, &mut self.outcomes, full);
                if still_waiting.is_empty() {
                    break;
                }
                if clock::monotonic() >= until || !meanwhile.goes_on() {
                    return Ok(());
                }
                waiting = still_waiting;
                wait(self.how, until, |until| self.socket.wait_for_room(until))?;
            }
        }
        Ok(())
    }
}

/// Either end of a connection.
pub(in crate::pingpong) struct UdpEnd {
    receiver: MessageReceiver,
    sender: MessageSender,
    timeout: std::time::Duration,
}

impl UdpEnd {
    /// Opens the server's end.
    pub(in crate::pingpong) fn open(task: &Task<'_>, to: SocketAddr, token: u64) -> Result<Self, LinkError> {
        let run = run_of(token);
        let (receiver, sender) = (MessageReceiver::open(task, run)?, MessageSender::open(task, to, run)?);
        Ok(Self { receiver, sender, timeout: task.options.timeout })
    }

    pub(in crate::pingpong) fn endpoint(&self) -> SocketAddr {
        self.receiver.receiver.address()
    }
}

impl End for UdpEnd {
    fn evidence(&self) -> Evidence {
        let MessageReceiver { receiver, assembly, .. } = &self.receiver;
        Evidence {
            dropped_by_socket: receiver.drops().unwrap_or(0),
            late: assembly.late(),
            duplicates: assembly.duplicates(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let MessageSender { socket, outcomes, to, .. } = &self.sender;
        let buffers = [self.receiver.receiver.buffer(), socket.buffer()];
        buffers.into_iter().filter_map(said_if_clamped).chain(outcomes.refused(*to)).collect()
    }
}

/// A client's socket before the server's address is known.
pub(in crate::pingpong) struct UdpListening {
    receiver: MessageReceiver,
}

impl UdpListening {
    /// Opens the socket for answers; pieces of another run carry another number.
    pub(in crate::pingpong) fn open(task: &Task<'_>) -> Result<Self, LinkError> {
        // The run is known only with the token, but answers cannot arrive before that.
        Ok(Self { receiver: MessageReceiver::open(task, 0)? })
    }

    pub(in crate::pingpong) fn endpoint(&self) -> SocketAddr {
        self.receiver.receiver.address()
    }

    pub(in crate::pingpong) fn connect(
        mut self,
        task: &Task<'_>,
        to: SocketAddr,
        token: u64,
    ) -> Result<UdpEnd, LinkError> {
        let run = run_of(token);
        self.receiver.assembly = Assembly::new(run, task.piece_bytes, task.options.largest_bytes());
        let sender = MessageSender::open(task, to, run)?;
        Ok(UdpEnd { receiver: self.receiver, sender, timeout: task.options.timeout })
    }
}

/// Returns the run number that pieces carry.
const fn run_of(token: u64) -> u32 {
    (token >> 32) as u32
}

impl Near for UdpEnd {
    fn exchange(
        &mut self,
        exchange: u64,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Exchanged, LinkError> {
        let began = clock::monotonic();
        let until = began + self.timeout;
        self.sender.send(exchange, message_bytes, until, meanwhile)?;
        loop {
            if self.receiver.take()? == Some((exchange, message_bytes)) {
                return Ok(Exchanged::Completed(since(began)));
            }
            if clock::monotonic() >= until {
                return Ok(Exchanged::GivenUp);
            }
            if !meanwhile.goes_on() {
                return Ok(Exchanged::Cut);
            }
            if !self.receiver.receiver.batch.is_full() {
                self.receiver.wait(until)?;
            }
        }
    }
}

impl Far for UdpEnd {
    fn answer(&mut self, size_step: &dyn Answering) -> Result<(), LinkError> {
        loop {
            if let Some((exchange, message_bytes)) = self.receiver.take()? {
                if size_step.came(Some(exchange)) {
                    let until = clock::monotonic() + self.timeout;
                    self.sender.send(exchange, message_bytes, until, &mut Answerer(size_step))?;
                }
                return Ok(());
            }
            if size_step.is_to_end() {
                return Ok(());
            }
            if !self.receiver.receiver.batch.is_full() {
                self.receiver.wait(clock::monotonic() + POLL_INTERVAL)?;
            }
        }
    }
}
