//! Queue disciplines (`tc -s qdisc`): their limits and their drops, which no counter of the network
//! stack distinguishes from drops at a sender's full socket.

use std::io;

use crate::netlink::qdisc_limit::QdiscLimit;
use crate::netlink::{Netlink, attribute, put_attribute, text, u32_at, u64_at};

/// A queue discipline of a network device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// The device's number.
    pub device: u32,
    /// Its own number; 0 for those that the kernel set up by default.
    pub handle: u32,
    /// The root, or the class of another one.
    pub parent: u32,
    /// Its kind: `pfifo`, `tbf`, ….
    pub kind: String,
    /// Number of packets dropped so far, trains counted once; wraps.
    pub drops: u32,
    /// Number of bytes sent so far.
    pub sent_bytes: u64,
    /// Number of packets sent so far; wraps.
    pub sent_packets: u32,
    /// Its capacity; `None` where it cannot be changed here.
    pub limit: Option<QdiscLimit>,
}

/// Place of a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QdiscPlace {
    /// Before the device, for outgoing packets; its drops include those of all below it.
    Root,
    /// Behind the device: incoming packets are not queued there, but programs may drop them.
    Ingress,
    /// Within another queue discipline.
    Inner,
}

impl Qdisc {
    /// Returns its place.
    #[must_use]
    pub const fn place(&self) -> QdiscPlace {
        match self.parent {
            TC_H_ROOT => QdiscPlace::Root,
            TC_H_INGRESS => QdiscPlace::Ingress,
            _ => QdiscPlace::Inner,
        }
    }

    /// Returns whether it segments trains: of a train for which it has no room it takes some
    /// datagrams and silently drops the others.
    #[must_use]
    pub fn cuts_trains(&self) -> bool {
        CUTTERS.contains(&self.kind.as_str())
    }

    /// Sets the limit, and leaves all other options unchanged.
    ///
    /// # Errors
    /// `Unsupported` where it has no limit that can be changed here; else the kernel's error:
    /// `PermissionDenied` without `CAP_NET_ADMIN`.
    pub fn set_limit(&self, value: u32) -> io::Result<()> {
        let body = self.request(value).ok_or(io::ErrorKind::Unsupported)?;
        Netlink::open(None)?.change(RTM_NEWQDISC, &body)
    }

    fn request(&self, value: u32) -> Option<Vec<u8>> {
        let options = self.limit?.options(value);
        let words = [0, self.device, self.handle, self.parent, 0];
        let mut body: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
        put_attribute(&mut body, TCA_KIND, format!("{}\0", self.kind).as_bytes());
        put_attribute(&mut body, TCA_OPTIONS, &options);
        Some(body)
    }
}

/// Lists the queue disciplines of this process's network namespace.
///
/// # Errors
/// The kernel's error: there are containers that forbid netlink.
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
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
/// Size of `struct tcmsg`.
const MESSAGE_BYTES: usize = 20;
/// Attributes: the kind, its options, and `struct tc_stats`.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS: u16 = 3;
/// Kinds that segment trains (the kernel's `tbf_segment`, `cake_enqueue`).
const CUTTERS: [&str; 2] = ["tbf", "cake"];
/// Parents (`linux/pkt_sched.h`).
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_H_INGRESS: u32 = 0xffff_fff1;

fn read(body: &[u8]) -> Option<Qdisc> {
    let (device, handle, parent) = (u32_at(body, 4)?, u32_at(body, 8)?, u32_at(body, 12)?);
    let attributes = body.get(MESSAGE_BYTES..)?;
    let counts = attribute(attributes, TCA_STATS)?;
    let kind = attribute(attributes, TCA_KIND).map(text).unwrap_or_default();
    let limit = attribute(attributes, TCA_OPTIONS).and_then(|options| QdiscLimit::read(&kind, options));
    Some(Qdisc {
        device,
        handle,
        parent,
        // The kernel accepts no change of one that it set up by default.
        limit: limit.filter(|_| handle != 0),
        kind,
        sent_bytes: u64_at(counts, 0)?,
        sent_packets: u32_at(counts, 8)?,
        drops: u32_at(counts, 12)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::qdisc_limit::{ETHERNET, LIMIT, TCA_TBF_BURST, TCA_TBF_PARMS, TICK_NS};
    use units::Random;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn standing(parent: u32, kind: &str) -> Vec<u8> {
        of_parts(0x8001_0000, parent, kind, &[])
    }

    fn message(kind: &str, handle: u32, options: &[u8]) -> Vec<u8> {
        of_parts(handle, 0x1_0001, kind, options)
    }

    fn of_parts(handle: u32, parent: u32, kind: &str, options: &[u8]) -> Vec<u8> {
        let mut body = words(&[0, 7, handle, parent, 0]);
        put_attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
        put_attribute(&mut body, TCA_OPTIONS, options);
        put_attribute(&mut body, TCA_STATS, &words(&[90, 0, 3, 99, 0, 0, 0, 0, 0]));
        body
    }

    /// A token bucket of 40 Mbit/s with a burst of 100,001 bytes and a queue of 80,000 bytes.
    fn token_bucket(peak: u32, link_layer: u8) -> Vec<u8> {
        let mut options = Vec::new();
        let ticks = 100_001_u64 * 200 / TICK_NS;
        let parameters = words(&[
            u32::from_ne_bytes([0, link_layer, 0, 0]),
            0,
            5_000_000,
            0,
            0,
            peak,
            80_000,
            ticks as u32,
            0,
        ]);
        put_attribute(&mut options, TCA_TBF_PARMS, &parameters);
        options
    }

    fn options(request: &[u8]) -> &[u8] {
        attribute(&request[MESSAGE_BYTES..], TCA_OPTIONS).unwrap()
    }

    #[test]
    fn drops_are_read_with_device_and_place() {
        for (parent, place) in [
            (TC_H_ROOT, QdiscPlace::Root),
            (TC_H_INGRESS, QdiscPlace::Ingress),
            (0x1_0001, QdiscPlace::Inner),
        ] {
            let qdisc = read(&standing(parent, "tbf")).unwrap();
            assert_eq!((qdisc.device, qdisc.place(), qdisc.drops, qdisc.cuts_trains()), (7, place, 99, true));
        }
    }

    #[test]
    fn other_kinds_leave_trains_whole() {
        assert!(!read(&standing(TC_H_ROOT, "sfb")).unwrap().cuts_trains());
    }

    #[test]
    fn the_kernel_answers() {
        // A host may have none: loopback and veth devices need no queue.
        assert!(qdiscs().unwrap().iter().all(|it| it.device > 0));
    }

    #[test]
    fn a_fifo_is_written_with_its_limit_only() {
        for (kind, limit) in [
            ("pfifo", QdiscLimit::Packets(10)),
            ("pfifo_head_drop", QdiscLimit::Packets(10)),
            ("bfifo", QdiscLimit::Bytes { bytes: 10, bucket: None }),
        ] {
            let queue = read(&message(kind, 0x2_0000, &words(&[10]))).unwrap();
            let (handle, parent) = (0x2_0000, 0x1_0001);
            let counts = (99, 90, 3);
            assert_eq!((queue.device, queue.handle, queue.parent), (7, handle, parent));
            assert_eq!((queue.drops, queue.sent_bytes, queue.sent_packets), counts);
            assert_eq!((&*queue.kind, queue.limit, limit.value()), (kind, Some(limit), 10));
            let request = queue.request(25).unwrap();
            assert_eq!(request[..MESSAGE_BYTES], words(&[0, 7, handle, parent, 0]));
            assert_eq!(options(&request), words(&[25]));
        }
    }

    #[test]
    fn a_token_bucket_keeps_rate_and_burst() {
        let queue = read(&message("tbf", 0x2_0000, &token_bucket(0, ETHERNET))).unwrap();
        assert_eq!(queue.limit.map(|it| it.value()), Some(80_000));
        let request = queue.request(160_000).unwrap();
        let parameters = attribute(options(&request), TCA_TBF_PARMS).unwrap();
        let mut expected = attribute(&token_bucket(0, ETHERNET), TCA_TBF_PARMS).unwrap().to_vec();
        expected[LIMIT..LIMIT + 4].copy_from_slice(&160_000_u32.to_ne_bytes());
        assert_eq!(parameters, expected);
        assert_eq!(attribute(options(&request), TCA_TBF_BURST), Some(&100_001_u32.to_ne_bytes()[..]));
    }

    #[test]
    fn what_could_not_be_written_back_has_no_limit_here() {
        let limit = |kind, handle, options: &[u8]| read(&message(kind, handle, options)).unwrap().limit;
        assert_eq!(limit("tbf", 0x2_0000, &token_bucket(9, ETHERNET)), None, "a peak rate");
        assert_eq!(limit("tbf", 0x2_0000, &token_bucket(0, 2)), None, "cells of ATM");
        assert_eq!(limit("pfifo", 0, &words(&[10])), None, "nobody has set it up");
        assert_eq!(limit("fq_codel", 0x2_0000, &words(&[10])), None);
        assert_eq!(limit("pfifo", 0x2_0000, &[]), None);
        let queue = read(&message("fq", 0x2_0000, &[])).unwrap();
        assert_eq!(queue.set_limit(5).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn what_is_cut_or_changed_is_none_or_another() {
        let whole = message("tbf", 0x2_0000, &token_bucket(0, ETHERNET));
        let mut random = Random::new(7);
        for _ in 0..20_000 {
            let mut body = whole.clone();
            for _ in 0..random.below(6) {
                let at = random.below(body.len() as u64) as usize;
                body[at] = random.below(256) as u8;
            }
            body.truncate(random.below(body.len() as u64 + 1) as usize);
            let _ = read(&body).and_then(|queue| queue.request(u32::MAX));
        }
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None);
        }
    }
}
