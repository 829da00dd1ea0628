//! The queue disciplines of which the limit can be changed and taken back, by what the kernel itself says of them (`tc qdisc change`).
//!
//! What is written is what was read, with another limit. Disciplines whose options are not known here are only told of.
//! Source: `linux/pkt_sched.h`; the kernel's `sch_fifo.c` and `sch_tbf.c`, Linux 6.18.

use std::io;

use crate::netlink::{Netlink, attribute, put_attribute, text, u32_at, u64_at};
use crate::qdisc::{MESSAGE_BYTES, RTM_GETQDISC, RTM_NEWQDISC, TCA_KIND, TCA_STATS};

/// A queue discipline of a network device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// The device's number.
    pub device: u32,
    /// Its own number (`handle`); 0 for those that nobody has set up.
    pub handle: u32,
    /// Where it stands: the root, or a class of another one.
    pub parent: u32,
    /// What it is: `pfifo`, `tbf`, ….
    pub kind: String,
    /// How many packets it dropped so far, trains counted once; wraps.
    pub drops: u32,
    /// How many bytes it let through so far.
    pub sent_bytes: u64,
    /// How many packets it let through so far; wraps.
    pub sent_packets: u32,
    /// Its limit; `None` where that cannot be changed here.
    pub limit: Option<QueueLimit>,
}

/// How much a queue discipline holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// So many packets.
    Packets(u32),
    /// So many bytes, which for a token bucket are those that wait, without what it lets through at once.
    Bytes {
        /// The limit.
        bytes: u32,
        /// Of a token bucket: what else is written with the limit.
        bucket: Option<Bucket>,
    },
}

/// A token bucket without a peak rate and without bytes that nobody sees, as the kernel tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// `struct tc_tbf_qopt`, the limit included.
    parameters: [u8; BUCKET_BYTES],
    /// Of one that lets more than 2³² bytes a second through.
    rate: Option<u64>,
}

impl QueueLimit {
    /// Returns the number, of packets or bytes.
    #[must_use]
    pub const fn value(&self) -> u32 {
        match *self {
            Self::Packets(value) | Self::Bytes { bytes: value, .. } => value,
        }
    }
}

impl Queue {
    /// Sets the limit, and leaves the rest as it is.
    ///
    /// # Errors
    /// `Unsupported` where it has none that can be changed here; what the kernel says: `PermissionDenied` without `CAP_NET_ADMIN`.
    pub fn set_limit(&self, value: u32) -> io::Result<()> {
        let body = self.request(value).ok_or(io::ErrorKind::Unsupported)?;
        Netlink::open(None)?.change(RTM_NEWQDISC, &body)
    }

    fn request(&self, value: u32) -> Option<Vec<u8>> {
        let options = match self.limit? {
            QueueLimit::Packets(_) | QueueLimit::Bytes { bucket: None, .. } => value.to_ne_bytes().to_vec(),
            QueueLimit::Bytes { bucket: Some(bucket), .. } => bucket.options(value),
        };
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
/// What the kernel says: there are containers that forbid netlink.
pub fn queues() -> io::Result<Vec<Queue>> {
    let mut found = Vec::new();
    Netlink::open(None)?
        .dump(RTM_GETQDISC, &[0; MESSAGE_BYTES], |kind, body| take(kind, body, &mut found))?;
    Ok(found)
}

pub(crate) fn take(kind: u16, body: &[u8], queues: &mut Vec<Queue>) {
    if kind == RTM_NEWQDISC {
        queues.extend(read(body));
    }
}

const TCA_OPTIONS: u16 = 2;
/// Attributes of a token bucket.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// Size of `struct tc_tbf_qopt`: two `struct tc_ratespec` of twelve bytes, limit, buffer, MTU.
const BUCKET_BYTES: usize = 36;
/// Where it has its numbers.
const LINK_LAYER: usize = 1;
const OVERHEAD: std::ops::Range<usize> = 2..4;
const RATE: usize = 8;
const PEAK_RATE: usize = 20;
const LIMIT: usize = 24;
const BUFFER: usize = 28;
/// A link on which a packet takes as long as its bytes (`TC_LINKLAYER_ETHERNET`).
const ETHERNET: u8 = 1;
/// The kernel's tick, by which a bucket's size is told.
const TICK_NS: u64 = 64;

fn read(body: &[u8]) -> Option<Queue> {
    let [device, handle, parent] = [4, 8, 12].map(|at| u32_at(body, at));
    let attributes = body.get(MESSAGE_BYTES..)?;
    let (kind, counts) = (text(attribute(attributes, TCA_KIND)?), attribute(attributes, TCA_STATS)?);
    let limit = attribute(attributes, TCA_OPTIONS).and_then(|options| read_limit(&kind, options));
    let handle = handle?;
    Some(Queue {
        device: device?,
        handle,
        parent: parent?,
        // The kernel takes no change of one that it set up by itself.
        limit: limit.filter(|_| handle != 0),
        kind,
        sent_bytes: u64_at(counts, 0)?,
        sent_packets: u32_at(counts, 8)?,
        drops: u32_at(counts, 12)?,
    })
}

fn read_limit(kind: &str, options: &[u8]) -> Option<QueueLimit> {
    match kind {
        "pfifo" | "pfifo_head_drop" => u32_at(options, 0).map(QueueLimit::Packets),
        "bfifo" => u32_at(options, 0).map(|bytes| QueueLimit::Bytes { bytes, bucket: None }),
        "tbf" => {
            let parameters = *attribute(options, TCA_TBF_PARMS)?.first_chunk::<BUCKET_BYTES>()?;
            let rate = attribute(options, TCA_TBF_RATE64).map(|content| u64_at(content, 0));
            let bucket = Some(Bucket { parameters, rate: rate.flatten() });
            let has_peak = u32_at(&parameters, PEAK_RATE)? > 0;
            let is_plain = parameters[LINK_LAYER] == ETHERNET && parameters[OVERHEAD] == [0; 2];
            let bytes = u32_at(&parameters, LIMIT).filter(|_| is_plain && !has_peak);
            bytes.map(|bytes| QueueLimit::Bytes { bytes, bucket })
        }
        _ => None,
    }
}

impl Bucket {
    fn options(mut self, limit: u32) -> Vec<u8> {
        self.parameters[LIMIT..LIMIT + 4].copy_from_slice(&limit.to_ne_bytes());
        let mut options = Vec::new();
        put_attribute(&mut options, TCA_TBF_PARMS, &self.parameters);
        if let Some(rate) = self.rate {
            put_attribute(&mut options, TCA_TBF_RATE64, &rate.to_ne_bytes());
        }
        if let Some(bytes) = self.burst_bytes() {
            put_attribute(&mut options, TCA_TBF_BURST, &bytes.to_ne_bytes());
        }
        options
    }

    /// Returns what it lets through at once; `None` where it was given as a time.
    ///
    /// The kernel tells it as a time, rounded down to ticks, and takes the same for less when it is written: the largest packet that
    /// fitted would not fit any more. So it is written in bytes, the least that take as many ticks.
    fn burst_bytes(&self) -> Option<u32> {
        let word = |at| u64::from(u32_at(&self.parameters, at).unwrap_or(0));
        let (rate, time_ns) = (self.rate.unwrap_or(word(RATE)), word(BUFFER) * TICK_NS);
        let about = u64::try_from(u128::from(time_ns) * u128::from(rate) / 1_000_000_000).ok()?;
        let bytes = (about..about.saturating_add(3)).find(|bytes| send_time_ns(*bytes, rate) >= time_ns)?;
        let is_it = send_time_ns(bytes, rate) / TICK_NS == word(BUFFER);
        u32::try_from(bytes).ok().filter(|_| is_it)
    }
}

/// Returns how long so many bytes take at a rate, as the kernel reckons it (`psched_ratecfg_precompute__`, `psched_l2t_ns`).
fn send_time_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    let (mut factor, mut shift) = (1_000_000_000_u64, 0_u32);
    loop {
        let multiplier = factor.checked_div(bytes_per_s).unwrap_or(1) & u64::from(u32::MAX);
        if multiplier >= 1 << 31 || factor >= 1 << 63 || bytes_per_s == 0 {
            return bytes.wrapping_mul(multiplier) >> shift;
        }
        factor <<= 1;
        shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn message(kind: &str, handle: u32, options: &[u8]) -> Vec<u8> {
        let mut body = words(&[0, 7, handle, 0x1_0001, 0]);
        put_attribute(&mut body, TCA_KIND, format!("{kind}\0").as_bytes());
        put_attribute(&mut body, TCA_OPTIONS, options);
        put_attribute(&mut body, TCA_STATS, &words(&[90, 0, 3, 99, 0, 0, 0, 0, 0]));
        body
    }

    /// 40 Mbit/s, 100,001 bytes at once, 80,000 wait.
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
    fn a_fifo_is_written_with_its_limit_only() {
        for (kind, limit) in [
            ("pfifo", QueueLimit::Packets(10)),
            ("pfifo_head_drop", QueueLimit::Packets(10)),
            ("bfifo", QueueLimit::Bytes { bytes: 10, bucket: None }),
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
    fn what_is_cut_or_changed_is_none_or_another_queue() {
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
