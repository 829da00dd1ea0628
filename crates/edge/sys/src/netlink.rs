//! Requests to the kernel by netlink (`netlink(7)`), and the messages of the answers; below, one file for each list
//! that the kernel has.

pub(crate) mod bridge_groups;
pub(crate) mod link_events;
pub(crate) mod links;
pub(crate) mod qdisc;
pub(crate) mod qdisc_limit;
pub(crate) mod udp_sockets;

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// A netlink socket of one protocol.
pub(crate) struct Netlink(OwnedFd);

/// Size of the answer buffer: the kernel answers in parts of at most 32 KiB.
const ANSWER_BYTES: usize = 1 << 16;

/// Message types and flags (`linux/netlink.h`).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLM_F_REQUEST_ACK: u16 = 0x5;
/// Mask of an attribute's type: two further bits mark nested attributes and the byte order.
const NLA_TYPE_MASK: u16 = 0x3fff;
/// Size of `struct nlmsghdr`.
pub(crate) const HEAD_BYTES: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// More messages follow.
    Partial,
    Complete,
}

impl Netlink {
    /// Opens a socket; `None` is the protocol of routes, links and queues (`NETLINK_ROUTE`).
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?))
    }

    /// Requests all objects of a kind; passes each message of the answer, with its type, to `take`.
    pub(crate) fn dump(&self, kind: u16, body: &[u8], mut take: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.ask(kind, NLM_F_REQUEST_DUMP, body, &mut take)
    }

    /// Changes an existing object, and waits for the kernel's acknowledgement.
    pub(crate) fn change(&self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.ask(kind, NLM_F_REQUEST_ACK, body, &mut |_, _| ())
    }

    fn ask(&self, kind: u16, flags: u16, body: &[u8], take: &mut impl FnMut(u16, &[u8])) -> io::Result<()> {
        send(&self.0, &request(kind, flags, body), SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_BYTES];
        loop {
            // A signal must not end a snapshot half-way.
            let (size_bytes, _) = retry_on_intr(|| recv(&self.0, &mut answer[..], RecvFlags::empty()))?;
            if read_answer(&answer[..size_bytes], take)? == Answer::Complete {
                return Ok(());
            }
        }
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEAD_BYTES + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Reads the messages of one datagram of an answer.
pub(crate) fn read_answer(mut messages: &[u8], take: &mut impl FnMut(u16, &[u8])) -> io::Result<Answer> {
    while let Some((length, kind)) = u32_at(messages, 0).zip(u16_at(messages, 4)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length < HEAD_BYTES || length > messages.len() {
            break;
        }
        let body = &messages[HEAD_BYTES..length];
        match kind {
            NLMSG_DONE => return Ok(Answer::Complete),
            NLMSG_ERROR => {
                // A negative error number; zero is the acknowledgement of a change.
                let error = u32_at(body, 0).map_or(0, |word| i32::from_ne_bytes(word.to_ne_bytes()));
                return match error {
                    0 => Ok(Answer::Complete),
                    error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
                };
            }
            _ => take(kind, body),
        }
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Answer::Partial)
}

/// Adds an attribute to a message.
pub(crate) fn put_attribute(message: &mut Vec<u8>, kind: u16, content: &[u8]) {
    /// Size of `struct nlattr`.
    const ATTRIBUTE_HEAD_BYTES: usize = 4;
    let length = u16::try_from(ATTRIBUTE_HEAD_BYTES + content.len()).expect("settings are short");
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(content);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Returns the content of the first attribute of this kind.
pub(crate) fn attribute(all: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(all, wanted).next()
}

/// Returns the contents of all attributes of this kind.
pub(crate) fn attributes(mut all: &[u8], wanted: u16) -> impl Iterator<Item = &[u8]> {
    let next = move || {
        let (length, kind) = (usize::from(u16_at(all, 0)?), u16_at(all, 2)? & NLA_TYPE_MASK);
        let content = all.get(4..length)?;
        // The last one need not be padded.
        all = all.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    };
    std::iter::from_fn(next).filter(move |(kind, _)| *kind == wanted).map(|(_, content)| content)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}

/// Returns the text of an attribute, up to the terminating zero.
pub(crate) fn text(content: &[u8]) -> String {
    let len = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
    String::from_utf8_lossy(&content[..len]).into_owned()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}
