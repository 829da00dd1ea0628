//! Cookies that prove a client's address before a listener keeps any state.
//!
//! libudt's cookie contains no secret, and expires at the full minute; this one is keyed and valid for one to two
//! periods.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;
use units::Instant;
use wire::udt::Handshake;

const PERIOD_NS: u64 = 60_000_000_000;

/// Creates and checks cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    key: [u8; 16],
}

impl Cookies {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Returns the cookie for a client's request.
    pub(crate) fn make(&self, now: Instant, from: SocketAddr, request: &Handshake) -> u32 {
        self.of_period(now.as_nanos() / PERIOD_NS, from, request)
    }

    /// Returns whether a handshake has a valid cookie of this period or the previous one.
    pub(crate) fn is_ours(&self, now: Instant, from: SocketAddr, handshake: &Handshake) -> bool {
        let period = now.as_nanos() / PERIOD_NS;
        let periods = [Some(period), period.checked_sub(1)];
        periods.into_iter().flatten().any(|it| self.of_period(it, from, handshake) == handshake.cookie)
    }

    fn of_period(&self, period: u64, from: SocketAddr, handshake: &Handshake) -> u32 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        match from.ip() {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.write_u16(from.port());
        hasher.write_u64(period);
        hasher.write_u32(handshake.socket.0);
        hasher.write_u32(handshake.first_sequence.word());
        #[expect(clippy::cast_possible_truncation, reason = "32 bits are all that a handshake has room for")]
        let cookie = hasher.finish() as u32;
        cookie
    }
}
