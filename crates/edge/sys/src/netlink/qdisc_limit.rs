//! Capacity of a queue discipline, where it can be changed and restored from the kernel's own
//! output (`tc qdisc change`).
//!
//! The options written are those read, with another limit. Disciplines whose options are not known
//! here have none.
//! Source: `linux/pkt_sched.h`; the kernel's `sch_fifo.c` and `sch_tbf.c`, Linux 6.18.

use crate::netlink::{attribute, put_attribute, u32_at, u64_at};

/// Capacity of a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QdiscLimit {
    /// A number of packets.
    Packets(u32),
    /// A number of bytes; for a token bucket that of waiting bytes, without the burst.
    Bytes {
        /// The limit.
        bytes: u32,
        /// Further options of a token bucket, which are written with the limit.
        bucket: Option<Bucket>,
    },
}

/// Options of a token bucket without a peak rate and without overhead, as the kernel reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// `struct tc_tbf_qopt`, the limit included.
    parameters: [u8; BUCKET_BYTES],
    /// The rate, if it exceeds 2³² bytes per second.
    rate: Option<u64>,
}

impl QdiscLimit {
    /// Returns the limit, in packets or bytes.
    #[must_use]
    pub const fn value(&self) -> u32 {
        match *self {
            Self::Packets(value) | Self::Bytes { bytes: value, .. } => value,
        }
    }

    /// Reads the limit from the options of a discipline of this kind; `None` if it could not be
    /// written back.
    pub(crate) fn read(kind: &str, options: &[u8]) -> Option<Self> {
        match kind {
            "pfifo" | "pfifo_head_drop" => u32_at(options, 0).map(Self::Packets),
            "bfifo" => u32_at(options, 0).map(|bytes| Self::Bytes { bytes, bucket: None }),
            "tbf" => {
                let parameters = *attribute(options, TCA_TBF_PARMS)?.first_chunk::<BUCKET_BYTES>()?;
                let rate = attribute(options, TCA_TBF_RATE64).map(|content| u64_at(content, 0));
                let bucket = Some(Bucket { parameters, rate: rate.flatten() });
                let has_peak = u32_at(&parameters, PEAK_RATE)? > 0;
                let is_plain = parameters[LINK_LAYER] == ETHERNET && parameters[OVERHEAD] == [0; 2];
                let bytes = u32_at(&parameters, LIMIT).filter(|_| is_plain && !has_peak);
                bytes.map(|bytes| Self::Bytes { bytes, bucket })
            }
            _ => None,
        }
    }

    /// Returns the options that set another limit, and leave all others unchanged.
    pub(crate) fn options(self, value: u32) -> Vec<u8> {
        match self {
            Self::Packets(_) | Self::Bytes { bucket: None, .. } => value.to_ne_bytes().to_vec(),
            Self::Bytes { bucket: Some(bucket), .. } => bucket.options(value),
        }
    }
}

/// Attributes of a token bucket.
pub(crate) const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
pub(crate) const TCA_TBF_BURST: u16 = 6;
/// Size of `struct tc_tbf_qopt`: two `struct tc_ratespec` of twelve bytes, limit, buffer, MTU.
const BUCKET_BYTES: usize = 36;
/// Offsets of its fields.
const LINK_LAYER: usize = 1;
const OVERHEAD: std::ops::Range<usize> = 2..4;
const RATE: usize = 8;
const PEAK_RATE: usize = 20;
pub(crate) const LIMIT: usize = 24;
const BUFFER: usize = 28;
/// Link layer on which a packet takes the time of its bytes (`TC_LINKLAYER_ETHERNET`).
pub(crate) const ETHERNET: u8 = 1;
/// The kernel's tick, the unit of a bucket's size.
pub(crate) const TICK_NS: u64 = 64;

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

    /// Returns the burst in bytes; `None` where it was given as a time.
    ///
    /// The kernel reports the burst as a time, rounded down to ticks, and would reduce it when it
    /// is written back: the largest packet that fitted would not fit any more. So it is written in
    /// bytes, the smallest number that takes as many ticks.
    fn burst_bytes(&self) -> Option<u32> {
        let word = |at| u64::from(u32_at(&self.parameters, at).unwrap_or(0));
        let (rate, time_ns) = (self.rate.unwrap_or(word(RATE)), word(BUFFER) * TICK_NS);
        let about = u64::try_from(u128::from(time_ns) * u128::from(rate) / 1_000_000_000).ok()?;
        let bytes = (about..about.saturating_add(3)).find(|bytes| send_time_ns(*bytes, rate) >= time_ns)?;
        let is_it = send_time_ns(bytes, rate) / TICK_NS == word(BUFFER);
        u32::try_from(bytes).ok().filter(|_| is_it)
    }
}

/// Returns the time to send bytes at a rate, as the kernel computes it
/// (`psched_ratecfg_precompute__`, `psched_l2t_ns`).
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
