//! A socket that waits for others to ask.

use std::collections::VecDeque;

use wire::udt::SocketId;

use crate::SocketConfig;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) id: SocketId,
    pub(crate) config: SocketConfig,
    backlog: usize,
    /// Connections that nobody has taken yet, oldest first; libudt hands out the newest first.
    waiting: VecDeque<SocketId>,
}

impl Listener {
    pub(crate) const fn new(id: SocketId, config: SocketConfig, backlog: usize) -> Self {
        Self { id, config, backlog, waiting: VecDeque::new() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.backlog
    }

    pub(crate) fn push(&mut self, socket: SocketId) {
        self.waiting.push_back(socket);
    }

    pub(crate) fn take(&mut self) -> Option<SocketId> {
        self.waiting.pop_front()
    }

    /// Ends it; returns the connections that nobody has taken.
    pub(crate) fn into_waiting(self) -> VecDeque<SocketId> {
        self.waiting
    }

    pub(crate) fn forget(&mut self, socket: SocketId) {
        self.waiting.retain(|it| *it != socket);
    }
}
