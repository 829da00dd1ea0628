//! Settings of TCP, the reference for streams and a user of the same network: those listed in Petri 2007.
//!
//! A connection carries at most one window per round trip. The kernel's buffer limits are judged against rate × round
//! trip where that is known; elsewhere the check reports the rate they suffice for.

use core::time::Duration;

use units::text::{exact_size, rate};

use super::{Check, Facts, Judgement};
use crate::Remedy;

/// Settings of TCP; those that cannot be read are absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tcp {
    /// `tcp_rmem`: minimum, default and maximum.
    pub receive_bytes: Option<[u64; 3]>,
    /// `tcp_wmem`: minimum, default and maximum.
    pub send_bytes: Option<[u64; 3]>,
    /// Congestion control of new connections.
    pub congestion_control: Option<String>,
    /// Available congestion controls.
    pub congestion_controls: Option<String>,
}

/// Bytes of buffer per byte of window; the other half is for the kernel's overhead. Source: Linux,
/// `tcp_adv_win_scale` of 1 and `tcp_sndbuf_expand`.
/// `tcp_sndbuf_expand`.
const BUFFER_BYTES_A_BYTE: f64 = 2.0;

pub(super) fn buffers(facts: &Facts) -> Vec<Check> {
    let of = [("net.ipv4.tcp_rmem", facts.tcp.receive_bytes), ("net.ipv4.tcp_wmem", facts.tcp.send_bytes)];
    of.into_iter().map(|(name, now)| buffer(facts, name, now)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn buffer(facts: &Facts, name: &str, now: Option<[u64; 3]>) -> Check {
    const CHECK: &str = "tcp-buffers";
    /// Maximum recommended buffer: larger ones only lengthen a queue in the network.
    const MOST_BYTES: f64 = (1_u64 << 30) as f64;
    let Some([least, first, most]) = now else {
        return Check::not_seen(CHECK, &format!("{name} cannot be read here"));
    };
    let load = &facts.load;
    let said = rate(load.bytes_per_second * 8.0);
    let Some(round_trip) = load.round_trip else {
        let suffices = most as f64 / BUFFER_BYTES_A_BYTE / load.bytes_per_second.max(1.0);
        let live = format!(
            "{name}: {} at most, enough for {:.1} ms at {said}",
            exact_size(most),
            1_000.0 * suffices
        );
        let why = "a connection carries half a buffer per round trip, which is not known: set it with `--round-trip 20ms`";
        return Check::new(CHECK, Judgement::NotSeen, live, why);
    };
    let live = format!("{name}: {} at most", exact_size(most));
    let why = format!(
        "a connection carries half a buffer per round trip: {said} ({}) × {} × 2",
        load.origin,
        words(round_trip)
    );
    let needed = load.bytes_per_second * round_trip.as_secs_f64() * BUFFER_BYTES_A_BYTE;
    if most as f64 >= needed.min(MOST_BYTES) {
        return Check::new(CHECK, Judgement::Ok, live, why);
    }
    let larger = (needed.min(MOST_BYTES) as u64).next_power_of_two();
    let set = |most: u64| format!("sysctl -w {name}=\"{least} {first} {most}\"");
    let remedy = Remedy::by_command("let the kernel make buffers larger", set(larger), set(most));
    Check::new(CHECK, Judgement::Warn, live, why).recommending(exact_size(larger), [remedy])
}

fn words(time: Duration) -> String {
    format!("{} ms", (time.as_secs_f64() * 1e6).round() / 1e3)
}

pub(super) fn options(facts: &Facts) -> Vec<Check> {
    vec![window_scaling(facts), selective_acknowledgement(facts), timestamps(facts)]
}

fn window_scaling(facts: &Facts) -> Check {
    /// Largest window that the header can carry (RFC 9293 §3.1).
    const LARGEST_WINDOW: f64 = 65_535.0;
    let load = &facts.load;
    let without_is_enough =
        load.round_trip.is_some_and(|it| load.bytes_per_second * it.as_secs_f64() <= LARGEST_WINDOW);
    let why = "without it a connection carries 64 KiB per round trip, with buffers of any size (RFC 7323)";
    option(facts, "tcp-window-scaling", "net.ipv4.tcp_window_scaling", why, without_is_enough)
}

fn selective_acknowledgement(facts: &Facts) -> Check {
    let why = "without it a sender learns of one loss per round trip, and retransmits data that had arrived (RFC 2018)";
    option(facts, "tcp-sack", "net.ipv4.tcp_sack", why, false)
}

fn timestamps(facts: &Facts) -> Check {
    /// Number of bytes after which sequence numbers of 32 bits wrap.
    const AROUND_BYTES: f64 = 4_294_967_296.0;
    /// Maximum time that an old segment is in flight (RFC 9293 §3.4.1).
    const SEGMENT_LIFE_S: f64 = 120.0;
    let seconds = AROUND_BYTES / facts.load.bytes_per_second.max(1.0);
    let why = format!(
        "sequence numbers wrap in {seconds:.1} s: only timestamps distinguish an old segment from a new one within 120 s (RFC 7323)"
    );
    option(facts, "tcp-timestamps", "net.ipv4.tcp_timestamps", &why, seconds >= SEGMENT_LIFE_S)
}

/// Checks an option of TCP that should be switched on, unless it is not needed.
fn option(facts: &Facts, check: &'static str, name: &str, why: &str, without_is_enough: bool) -> Check {
    match facts.setting(name) {
        None => Check::not_seen(check, &format!("{name} cannot be read here")),
        Some(0) if without_is_enough => {
            Check::new(check, Judgement::Ok, "off, which is enough at this rate", why)
        }
        Some(0) => {
            let remedy = Remedy::by_sysctl("switch it on", name, 1, Some(0));
            Check::new(check, Judgement::Warn, "off", why).recommending("on", [remedy])
        }
        Some(_) => Check::new(check, Judgement::Ok, "on", why),
    }
}

pub(super) fn congestion_control(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "tcp-congestion-control";
    let Some(now) = &facts.tcp.congestion_control else {
        return vec![Check::not_seen(CHECK, "net.ipv4.tcp_congestion_control cannot be read here")];
    };
    let others = facts.tcp.congestion_controls.as_deref().unwrap_or("no others reported");
    let metrics = match facts.setting("net.ipv4.tcp_no_metrics_save") {
        Some(0) => "; each connection begins with the metrics of earlier ones",
        Some(_) => "; each connection begins from scratch",
        None => "",
    };
    let why = "it determines the cost of a loss: which is best depends on the path, and `tallycast bench pingpong` measures each";
    vec![Check::new(CHECK, Judgement::Ok, format!("{now}, of {others}{metrics}"), why)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Load;

    /// Returns 10 Gbit/s and, as in Petri 2007, 20 ms: 25 MB in flight, 50 MB of buffer.
    fn facts(round_trip: Option<Duration>) -> Facts {
        let load = Load { bytes_per_second: 1.25e9, origin: "as asked", round_trip, ..Load::default() };
        Facts { load, ..Facts::default() }
    }

    const FAR: Option<Duration> = Some(Duration::from_millis(20));

    fn with(name: &str, value: u64, facts: Facts) -> Facts {
        Facts { settings: [(name.to_owned(), value)].into(), ..facts }
    }

    #[test]
    fn buffers_hold_what_is_on_its_way_twice() {
        let judge = |most, round_trip| {
            let tcp = Tcp { receive_bytes: Some([4_096, 131_072, most]), ..Tcp::default() };
            buffers(&Facts { tcp, ..facts(round_trip) }).remove(0)
        };
        assert_eq!(judge(50_000_000, FAR).judgement, Judgement::Ok);
        let small = judge(49_999_999, FAR);
        assert_eq!((small.judgement, small.recommended.as_deref()), (Judgement::Warn, Some("64 MiB")));
        let command = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\"";
        assert_eq!(small.remedies[0].command().as_deref(), Some(command));
        let undo = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 49999999\"";
        assert_eq!(small.remedies[0].undo().as_deref(), Some(undo));
        let unknown = judge(50_000_000, None);
        assert_eq!(unknown.judgement, Judgement::NotSeen);
        assert!(unknown.live.ends_with("enough for 20.0 ms at 10.0 Gbit/s"), "{}", unknown.live);
        assert_eq!(
            judge(1 << 30, Some(Duration::from_secs(9))).judgement,
            Judgement::Ok,
            "no larger one helps"
        );
        assert_eq!(buffers(&facts(FAR))[1].judgement, Judgement::NotSeen);
    }

    #[test]
    fn small_windows_are_enough_only_for_what_fits_into_64_kib() {
        let judge = |value, bytes_per_second, round_trip| {
            let mut facts = with("net.ipv4.tcp_window_scaling", value, facts(round_trip));
            facts.load.bytes_per_second = bytes_per_second;
            options(&facts)[0].judgement
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(
            (judge(0, 65_535.0, second), judge(0, 65_536.0, second)),
            (Judgement::Ok, Judgement::Warn)
        );
        assert_eq!((judge(0, 1.0, None), judge(1, 1e9, None)), (Judgement::Warn, Judgement::Ok));
    }

    #[test]
    fn losses_are_reported_one_by_one() {
        let judge = |value| options(&with("net.ipv4.tcp_sack", value, facts(None))).remove(1);
        assert_eq!(judge(1).judgement, Judgement::Ok);
        let off = judge(0);
        assert_eq!(off.judgement, Judgement::Warn);
        assert_eq!(off.remedies[0].command().as_deref(), Some("sysctl -w net.ipv4.tcp_sack=1"));
        assert_eq!(off.remedies[0].undo().as_deref(), Some("sysctl -w net.ipv4.tcp_sack=0"));
    }

    #[test]
    fn old_segments_are_told_apart_where_numbers_come_around_within_two_minutes() {
        let judge = |value, bytes_per_second| {
            let mut facts = with("net.ipv4.tcp_timestamps", value, facts(None));
            facts.load.bytes_per_second = bytes_per_second;
            options(&facts)[2].judgement
        };
        // 4 GiB in 120 s are 35,791,394.1 bytes a second.
        assert_eq!((judge(0, 35_791_394.0), judge(0, 35_791_395.0)), (Judgement::Ok, Judgement::Warn));
        assert_eq!((judge(1, 1e9), judge(2, 1e9)), (Judgement::Ok, Judgement::Ok));
    }

    #[test]
    fn congestion_control_is_reported_and_never_wrong() {
        let tcp = Tcp {
            congestion_control: Some("bbr".to_owned()),
            congestion_controls: Some("reno bbr".to_owned()),
            ..Tcp::default()
        };
        let reported =
            congestion_control(&Facts { tcp, ..with("net.ipv4.tcp_no_metrics_save", 1, facts(None)) });
        assert_eq!(reported[0].live, "bbr, of reno bbr; each connection begins from scratch");
        assert_eq!(reported[0].judgement, Judgement::Ok);
        assert_eq!(congestion_control(&facts(None))[0].judgement, Judgement::NotSeen);
    }
}
