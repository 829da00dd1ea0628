//! A send path behind a lock that its agent and its publisher share: one of them holds it, and
//! neither waits for the other.
//!
//! A publisher that sends inline may hold the lock most of the time, and may be preempted while it
//! does. Meanwhile messages to the send path wait in its mailbox, which the next holder of the lock
//! empties first.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};

use cast::send::ReaderReport;
use keys::Membership;
use ledger::DropNotice;
use sys::{Interface, clock};
use units::{Epoch, StreamId};
use wire::{Report, Request};

use super::send_path::SendPath;

/// Maximum number of messages in a mailbox; more are lost, like datagrams that find a buffer full:
/// readers repeat their messages.
const MAX_MESSAGES: usize = 256;
/// Maximum number of these that come from the network, so that a flood of them keeps no local
/// message out.
const MAX_NETWORK_MESSAGES: usize = MAX_MESSAGES / 2;

pub(super) struct GuardedSendPath {
    send_path: Mutex<SendPath>,
    mailbox: Mutex<Vec<Message>>,
    stream: StreamId,
    epoch: Epoch,
    /// The process that opened a secured stream. A forked child has its salt and numbers: what the child sent would
    /// be encrypted with the keys and nonces of its parent's datagrams.
    home: Option<u32>,
}

/// A message to a send path.
pub(super) enum Message {
    /// A reader's report, its source address, and the size of its datagram.
    Report(Box<Report>, IpAddr, usize),
    /// A reader requests the description or the data.
    Request(Request),
    /// The kernel freed datagrams.
    Dropped(DropNotice),
    /// True if a drop reporter sees all drops here.
    Watched(bool),
    /// An interface has changed: the one named, or any.
    Interface(Option<Interface>),
    /// The possible source addresses of datagrams have changed.
    Addresses(Arc<[IpAddr]>),
    /// The keys of a secured bus, and a correction of its UTC.
    Membership(Arc<Membership>),
    /// A caller requests the list of readers.
    Readers(mpsc::Sender<Vec<ReaderReport>>),
}

/// Reason why a send path cannot be locked at this moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unavailable {
    /// Another thread holds it, and does all work that is due.
    InUse,
    /// The thread that held it last panicked.
    Poisoned,
    /// It is secured, and this is a forked child of the process that opened it.
    Forked,
}

impl GuardedSendPath {
    pub(super) fn new(send_path: SendPath) -> Self {
        let (stream, epoch) = (send_path.stream(), send_path.epoch());
        let home = send_path.is_secured().then(std::process::id);
        Self { send_path: Mutex::new(send_path), mailbox: Mutex::default(), stream, epoch, home }
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Calls `act` with the send path, unless another thread holds it, or it is a parent's secured one.
    ///
    /// Cost: a system call if the stream is secured.
    ///
    /// A publisher checks afterwards whether it [has messages](Self::has_messages): then the agent
    /// handles them.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut SendPath) -> T) -> Result<T, Unavailable> {
        let mut send_path = self.try_lock()?;
        self.handle_messages(&mut send_path);
        Ok(act(&mut send_path))
    }

    /// Returns whether the agent must poll the send path before it sleeps. Not while the publisher
    /// holds it: the publisher wakes the agent.
    pub(super) fn needs_poll(&self) -> bool {
        self.try_lock().is_ok_and(|send_path| send_path.needs_poll() || self.has_messages())
    }

    /// Returns whether messages wait. A thread that posted one and found the send path locked did
    /// so before it was unlocked.
    pub(super) fn has_messages(&self) -> bool {
        !self.mailbox().is_empty()
    }

    /// Puts a message into the mailbox; it is handled immediately if no thread holds the send path.
    pub(super) fn post(&self, message: Message) {
        let mut mailbox = self.mailbox();
        let is_of_network = matches!(message, Message::Report(..) | Message::Request(_));
        if mailbox.len() < if is_of_network { MAX_NETWORK_MESSAGES } else { MAX_MESSAGES } {
            mailbox.push(message);
        }
        drop(mailbox);
        // The holder of the send path sees the message when it unlocks.
        let _ = self.with(|_| ());
    }

    fn handle_messages(&self, send_path: &mut SendPath) {
        // Not within the loop, which would keep the mailbox locked for threads that post.
        let messages = std::mem::take(&mut *self.mailbox());
        for message in messages {
            match message {
                Message::Report(report, from, size_bytes) => {
                    send_path.on_report(clock::monotonic(), &report, from, size_bytes);
                }
                Message::Dropped(notice) => send_path.on_drop(clock::monotonic(), &notice),
                Message::Watched(watched) => send_path.on_watched(clock::monotonic(), watched),
                Message::Request(request) => send_path.on_request(clock::monotonic(), &request),
                Message::Interface(interface) => send_path.on_interface(interface.as_ref()),
                Message::Addresses(addresses) => send_path.on_addresses(clock::monotonic(), &addresses),
                Message::Membership(membership) => send_path.on_membership(&membership),
                // The caller may have stopped waiting; an answer that is not received is no error.
                Message::Readers(reply) => drop(reply.send(send_path.readers())),
            }
        }
    }

    fn try_lock(&self) -> Result<MutexGuard<'_, SendPath>, Unavailable> {
        // Proof: `a_forked_child_sends_nothing_on_a_secured_stream`.
        if self.home.is_some_and(|home| home != std::process::id()) {
            return Err(Unavailable::Forked);
        }
        self.send_path.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Unavailable::InUse,
            TryLockError::Poisoned(_) => Unavailable::Poisoned,
        })
    }

    fn mailbox(&self) -> MutexGuard<'_, Vec<Message>> {
        // Code under this lock panics only if memory runs out.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl GuardedSendPath {
    /// Makes this process a forked child of the one that opened a secured stream.
    pub(super) fn fork(&mut self) {
        self.home = self.home.map(|home| home ^ 1);
    }

    /// Holds the send path until the guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, SendPath> {
        self.try_lock().expect("a send path that no thread holds")
    }
}
