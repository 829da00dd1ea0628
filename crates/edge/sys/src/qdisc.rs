//! What queue disciplines dropped (`tc -s qdisc`): no counter of the network stack tells that apart from what a sender's own
//! socket had no room for.

use std::io;

use crate::netlink::{Netlink, attribute, text, u32_at};

/// A queue discipline of a network device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// The device's number.
    pub device: u32,
    /// Where it stands.
    pub place: QdiscPlace,
    /// How many packets it dropped so far, trains counted once; wraps.
    pub drops: u32,
    /// It takes trains apart: of one for which it has no room it takes some datagrams and drops the others without a word to
    /// their sender.
    pub cuts_trains: bool,
}

/// Where a queue discipline stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QdiscPlace {
    /// Before the device: what leaves; its drops include those of all below it.
    Root,
    /// Behind the device: what comes in is not queued there, and programs may drop it.
    Ingress,
    /// Within another.
    Inner,
}

/// Lists the queue disciplines of this process's network namespace.
///
/// # Errors
/// What the kernel says: there are containers that forbid netlink.
pub fn qdiscs() -> io::Result<Vec<Qdisc>> {
    let mut found = Vec::new();
    // An empty `struct tcmsg`: of every device.
    Netlink::open(None)?
        .dump(RTM_GETQDISC, &[0; MESSAGE_BYTES], |kind, body| take(kind, body, &mut found))?;
    Ok(found)
}

pub(crate) fn take(kind: u16, body: &[u8], qdiscs: &mut Vec<Qdisc>) {
    if kind == RTM_NEWQDISC {
        qdiscs.extend(read(body));
    }
}

/// Message types (`linux/rtnetlink.h`).
pub(crate) const RTM_NEWQDISC: u16 = 36;
pub(crate) const RTM_GETQDISC: u16 = 38;
/// Size of `struct tcmsg`.
pub(crate) const MESSAGE_BYTES: usize = 20;
/// The attribute with its kind, and those kinds that take trains apart (the kernel's `tbf_segment`, `cake_enqueue`).
pub(crate) const TCA_KIND: u16 = 1;
const CUTTERS: [&str; 2] = ["tbf", "cake"];
/// The attribute with `struct tc_stats`.
pub(crate) const TCA_STATS: u16 = 3;
/// Parents (`linux/pkt_sched.h`).
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;

fn read(body: &[u8]) -> Option<Qdisc> {
    let (device, parent) = (u32_at(body, 4)?, u32_at(body, 12)?);
    // Bytes (64 bits), packets, drops.
    let attributes = body.get(MESSAGE_BYTES..)?;
    let drops = u32_at(attribute(attributes, TCA_STATS)?, 12)?;
    let kind = attribute(attributes, TCA_KIND).map(text);
    let cuts_trains = kind.is_some_and(|kind| CUTTERS.contains(&kind.as_str()));
    let place = match parent {
        TC_H_ROOT => QdiscPlace::Root,
        TC_H_INGRESS => QdiscPlace::Ingress,
        _ => QdiscPlace::Inner,
    };
    Some(Qdisc { device, place, drops, cuts_trains })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parent: u32, drops: u32) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let mut body = words(&[0, 7, 0x8001_0000, parent, 0]);
        // A name that is padded, then the statistics.
        body.extend([8, 0, 1, 0, b't', b'b', b'f', 0]);
        body.extend([40_u8, 0, 3, 0]);
        body.extend(words(&[1, 0, 2, drops, 4, 5, 6, 7, 8]));
        body
    }

    #[test]
    fn drops_are_read_with_device_and_place() {
        for (parent, place) in [
            (TC_H_ROOT, QdiscPlace::Root),
            (TC_H_INGRESS, QdiscPlace::Ingress),
            (0x1_0001, QdiscPlace::Inner),
        ] {
            assert_eq!(
                read(&message(parent, 99)),
                Some(Qdisc { device: 7, place, drops: 99, cuts_trains: true })
            );
        }
    }

    #[test]
    fn other_kinds_leave_trains_whole() {
        let mut fifo = message(TC_H_ROOT, 1);
        let at = fifo.windows(3).position(|word| word == b"tbf").unwrap();
        fifo[at..at + 3].copy_from_slice(b"sfb");
        assert!(!read(&fifo).unwrap().cuts_trains);
    }

    #[test]
    fn what_is_cut_is_none() {
        let whole = message(TC_H_ROOT, 99);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None);
        }
    }

    #[test]
    fn the_kernel_answers() {
        // A host may have none: loopback and veth devices need no queue.
        assert!(qdiscs().unwrap().iter().all(|it| it.device > 0));
    }
}
