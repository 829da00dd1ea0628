//! A lane as the agent and its publisher share it: one of them has it at a time, and neither waits for the other.
//!
//! A publisher that sends by itself may have its lane nearly always, and may be kept from running while it has it. What
//! others have to say to the lane meanwhile lies in its letter box, which whoever takes the lane next reads first.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};

use cast::send::ReaderReport;
use ledger::DropNotice;
use sys::{Interface, clock};
use units::{Epoch, StreamId};
use wire::{Report, Request};

use super::send_path::SendPath;

/// More letters than this are lost, as datagrams may be that find a buffer full: readers repeat what they say.
const MAX_MESSAGES: usize = 256;
/// Of these so many are for what comes from the network: a flood of it keeps nothing out that this host has to say.
const MAX_NETWORK_MESSAGES: usize = MAX_MESSAGES / 2;

pub(super) struct GuardedSendPath {
    send_path: Mutex<SendPath>,
    mailbox: Mutex<Vec<Message>>,
    stream: StreamId,
    epoch: Epoch,
}

/// What is for a lane.
pub(super) enum Message {
    /// A reader's report, where it came from, and the size of its datagram.
    Report(Box<Report>, IpAddr, usize),
    /// A reader asks for the description or the data.
    Request(Request),
    /// The kernel was seen to free datagrams.
    Dropped(DropNotice),
    /// Whether somebody sees what the kernel drops here.
    Watched(bool),
    /// An interface has changed: the one that was named, or any.
    Interface(Option<Interface>),
    /// Where datagrams may come from has changed.
    Addresses(Arc<[IpAddr]>),
    /// Somebody asks who reads.
    Readers(mpsc::Sender<Vec<ReaderReport>>),
}

/// Why a lane is not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unavailable {
    /// Somebody else has it, who sees to everything that is due.
    InUse,
    /// Whoever had it last panicked.
    Poisoned,
}

impl GuardedSendPath {
    pub(super) fn new(send_path: SendPath) -> Self {
        let (stream, epoch) = (send_path.stream(), send_path.epoch());
        Self { send_path: Mutex::new(send_path), mailbox: Mutex::default(), stream, epoch }
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Does something with the lane, unless somebody else has it.
    ///
    /// A publisher looks afterwards whether it [has letters](Self::has_messages): they are for the agent then.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut SendPath) -> T) -> Result<T, Unavailable> {
        let mut send_path = self.try_lock()?;
        self.handle_messages(&mut send_path);
        Ok(act(&mut send_path))
    }

    /// Tells whether the agent must have a turn before it sleeps; while a publisher has the lane it need not, who wakes it.
    pub(super) fn needs_poll(&self) -> bool {
        self.try_lock().is_ok_and(|send_path| send_path.needs_poll() || self.has_messages())
    }

    /// Tells whether letters wait. Who posted one and found the lane taken did so before the lane was given back, or took it.
    pub(super) fn has_messages(&self) -> bool {
        !self.mailbox().is_empty()
    }

    /// Puts a letter into the box; it is read at once if nobody has the lane.
    pub(super) fn post(&self, message: Message) {
        let mut mailbox = self.mailbox();
        let is_of_network = matches!(message, Message::Report(..) | Message::Request(_));
        if mailbox.len() < if is_of_network { MAX_NETWORK_MESSAGES } else { MAX_MESSAGES } {
            mailbox.push(message);
        }
        drop(mailbox);
        // Whoever has the lane sees the letter when it gives the lane back.
        let _ = self.with(|_| ());
    }

    fn handle_messages(&self, send_path: &mut SendPath) {
        // Not within the loop, which would keep the box from whoever posts.
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
                // Whoever asked may have given up waiting: an answer that nobody takes is no error.
                Message::Readers(reply) => drop(reply.send(send_path.readers())),
            }
        }
    }

    fn try_lock(&self) -> Result<MutexGuard<'_, SendPath>, Unavailable> {
        self.send_path.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Unavailable::InUse,
            TryLockError::Poisoned(_) => Unavailable::Poisoned,
        })
    }

    fn mailbox(&self) -> MutexGuard<'_, Vec<Message>> {
        // Nobody does anything with them under this lock that could panic but for want of memory.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl GuardedSendPath {
    /// Holds the lane until the guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, SendPath> {
        self.try_lock().expect("a send_path that nobody has")
    }
}
