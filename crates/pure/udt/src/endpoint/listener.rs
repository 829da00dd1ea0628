//! A socket that accepts connections.

use std::collections::VecDeque;

use wire::udt::SocketId;

use crate::SocketConfig;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) id: SocketId,
    pub(crate) config: SocketConfig,
    backlog: usize,
    /// Half-open connections, without any packet since the handshake, oldest first.
    half_open: VecDeque<SocketId>,
    /// Open connections that wait to be accepted, oldest first; libudt returns the newest first.
    waiting: VecDeque<SocketId>,
}

impl Listener {
    pub(crate) const fn new(id: SocketId, config: SocketConfig, backlog: usize) -> Self {
        Self { id, config, backlog, half_open: VecDeque::new(), waiting: VecDeque::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.half_open.len() + self.waiting.len() >= self.backlog
    }

    /// Adds a half-open connection.
    pub(crate) fn push(&mut self, socket: SocketId) {
        self.half_open.push_back(socket);
    }

    /// Makes a connection acceptable: its peer has confirmed the handshake.
    pub(crate) fn opened(&mut self, socket: SocketId) {
        if self.forget_half_open(socket) {
            self.waiting.push_back(socket);
        }
    }

    pub(crate) fn take(&mut self) -> Option<SocketId> {
        self.waiting.pop_front()
    }

    /// Returns the connections that hold a slot.
    pub(crate) fn slots(&self) -> impl Iterator<Item = SocketId> {
        self.half_open.iter().chain(&self.waiting).copied()
    }

    /// Returns the half-open connections, oldest first.
    pub(crate) fn half_open(&self) -> impl Iterator<Item = SocketId> {
        self.half_open.iter().copied()
    }

    /// Ends the listener; returns the connections that were not accepted.
    pub(crate) fn into_waiting(self) -> impl Iterator<Item = SocketId> {
        self.half_open.into_iter().chain(self.waiting)
    }

    /// Removes a connection that has ended; returns whether it was half-open.
    pub(crate) fn forget(&mut self, socket: SocketId) -> bool {
        self.waiting.retain(|it| *it != socket);
        self.forget_half_open(socket)
    }

    /// Frees the slot of a half-open connection; returns whether it had one.
    pub(crate) fn forget_half_open(&mut self, socket: SocketId) -> bool {
        let before = self.half_open.len();
        self.half_open.retain(|it| *it != socket);
        self.half_open.len() < before
    }
}
