//! Cookies that show that an initiator receives what is sent to its address, without any state for it.

use core::net::SocketAddr;
use core::time::Duration;

use keys::Secret;
use units::Instant;

use crate::message::{CODE_BYTES, Code};

/// Period of one cookie; it is valid until the end of the next one.
///
/// Source: the WireGuard paper §6.6, where the secret changes every two minutes.
pub(crate) const COOKIE_PERIOD: Duration = Duration::from_secs(120);

/// Makes and checks cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    secret: Secret,
}

impl Cookies {
    pub(crate) const fn new(secret: Secret) -> Self {
        Self { secret }
    }

    /// Returns the cookie of an address now.
    pub(crate) fn make(&self, now: Instant, from: SocketAddr) -> [u8; CODE_BYTES] {
        self.of_period(period(now), from)
    }

    /// Returns whether `proof` shows for these bytes a cookie of the address, of this period or the previous one.
    pub(crate) fn are_proven(&self, now: Instant, from: SocketAddr, bytes: &[u8], proof: &Code) -> bool {
        let periods = [Some(period(now)), period(now).checked_sub(1)];
        let proves = |period| Code::with(&self.of_period(period, from), bytes).is(proof);
        periods.into_iter().flatten().any(proves)
    }

    fn of_period(&self, period: u64, from: SocketAddr) -> [u8; CODE_BYTES] {
        let mut subject = [0; 26];
        subject[..8].copy_from_slice(&period.to_le_bytes());
        let address = match from.ip().to_canonical() {
            core::net::IpAddr::V4(address) => address.to_ipv6_mapped(),
            core::net::IpAddr::V6(address) => address,
        };
        subject[8..24].copy_from_slice(&address.octets());
        subject[24..].copy_from_slice(&from.port().to_le_bytes());
        Code::with(self.secret.reveal(), &subject).0
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / (COOKIE_PERIOD.as_secs() * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_cookie_is_of_one_address_and_valid_for_one_to_two_periods() {
        let cookies = Cookies::new(Secret::new(Zeroizing::new([1; 32])));
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (here, other) = (address("10.0.0.1:5"), [address("10.0.0.1:6"), address("10.0.0.2:5")]);
        let proof = Code::with(&cookies.make(at(1_000), here), b"message");
        let is_proven = |now, from, bytes| cookies.are_proven(at(now), from, bytes, &proof);
        assert!(is_proven(1_000, here, b"message") && is_proven(1_199, here, b"message"));
        assert!(!is_proven(1_200, here, b"message") && !is_proven(959, here, b"message"));
        assert!(!is_proven(1_000, here, b"massage"));
        assert!(other.into_iter().all(|other| !is_proven(1_000, other, b"message")));
        assert!(is_proven(1_000, address("[::ffff:10.0.0.1]:5"), b"message"), "a mapped address is the same");
    }
}
