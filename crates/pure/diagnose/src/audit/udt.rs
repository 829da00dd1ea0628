//! Buffers of the reliable transport (`udt://`): a connection carries at most one of them per round trip.

use units::text::rate;

use super::{Check, Facts, Judgement};
use crate::Remedy;

/// Default of `send` and `recv` for `sndbuf` and `rcvbuf`. Units: packets.
const USUAL_PACKETS: u32 = 46_080;
/// Payload of a packet of 1,500 bytes. Source: `docs/protocol/udt.md`.
const PAYLOAD_BYTES: f64 = 1_456.0;
/// Maximum of both options. Units: packets.
const MOST_PACKETS: u64 = 4_194_304;

pub(super) fn buffers(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "udt-buffers";
    let load = &facts.load;
    let said = rate(load.bytes_per_second * 8.0);
    let live = format!("sndbuf and rcvbuf: {USUAL_PACKETS} packets unless the address says more");
    let Some(round_trip) = load.round_trip else {
        let why = "a connection carries a buffer per round trip, which is not known: set it with `--round-trip 20ms`";
        return vec![Check::new(CHECK, Judgement::NotSeen, live, why)];
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let needed = (load.bytes_per_second * round_trip.as_secs_f64() / PAYLOAD_BYTES).ceil() as u64;
    let mut why = format!(
        "a connection carries a buffer per round trip: {said} ({}) × {} ms are {needed} packets",
        load.origin,
        (round_trip.as_secs_f64() * 1e6).round() / 1e3
    );
    if needed <= u64::from(USUAL_PACKETS) {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    // Lost packets are sent again while the next window is on its way.
    let larger = needed.saturating_mul(2).min(MOST_PACKETS);
    if needed > MOST_PACKETS {
        why = format!("{why}, more than the largest buffer: it will carry less");
    }
    let both = format!("give both ends `udt://HOST?sndbuf={larger}&rcvbuf={larger}`");
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    vec![check.recommending(format!("{larger} packets"), [Remedy::by_hand(&both)])]
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::audit::Load;

    fn judge(bits_per_second: f64, round_trip_ms: Option<u64>) -> Check {
        let round_trip = round_trip_ms.map(Duration::from_millis);
        let load = Load {
            bytes_per_second: bits_per_second / 8.0,
            round_trip,
            origin: "as asked",
            ..Load::default()
        };
        buffers(&Facts { load, ..Facts::default() }).remove(0)
    }

    #[test]
    fn a_buffer_holds_the_packets_of_a_round_trip() {
        assert_eq!(judge(1e10, None).judgement, Judgement::NotSeen);
        // 10 Gbit/s and 50 ms: 62.5 MB, 42,926 packets.
        assert_eq!(judge(1e10, Some(50)).judgement, Judgement::Ok);
        let small = judge(1e10, Some(100));
        assert_eq!(
            (small.judgement, small.recommended.as_deref()),
            (Judgement::Warn, Some("171704 packets"))
        );
        assert!(small.why.ends_with("10.0 Gbit/s (as asked) × 100 ms are 85852 packets"), "{}", small.why);
        assert!(small.remedies[0].what.contains("sndbuf=171704&rcvbuf=171704"), "{:?}", small.remedies);
        let far = judge(1e12, Some(10_000));
        assert_eq!(far.recommended.as_deref(), Some("4194304 packets"), "the largest buffer");
        let said = "are 858516484 packets, more than the largest buffer: it will carry less";
        assert!(far.why.ends_with(said), "{}", far.why);
    }
}
