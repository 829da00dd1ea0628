//! Settings of network cards, judged by the packets for which they had no room.
//!
//! A ring is too small because packets found no room in it, not because another size is customary. Settings that no
//! driver reports are listed once for all interfaces.

mod ethtool;
mod offloads;

use super::{Check, Facts, Interface, Judgement};
use crate::Remedy;
pub use offloads::Offloads;

/// Settings of an interface's card; those that its driver does not report are absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Card {
    /// Receive ring.
    pub ring: Option<Ring>,
    /// Interrupt coalescing.
    pub coalescing: Option<Coalescing>,
    /// Receive queues.
    pub channels: Option<Channels>,
    /// Flow control of its link.
    pub pause: Option<Pause>,
    /// Offloads of its interface.
    pub offloads: Option<Offloads>,
    /// Number of packets dropped for lack of room since the link came up.
    pub had_no_room: Option<u64>,
}

/// Receive ring of a card, which holds packets until the host takes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Number of entries.
    pub entries: u32,
    /// Maximum number of entries.
    pub most: u32,
}

/// Interrupt coalescing: the delay before a card signals packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coalescing {
    /// Maximum delay in microseconds; 0 is no limit.
    pub microseconds: u32,
    /// Maximum number of packets; 0 is no limit.
    pub packets: u32,
    /// True if the driver adapts both to the traffic.
    pub is_adaptive: bool,
}

/// Receive queues of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// Number of queues in use, receive-only and combined ones together.
    pub count: u32,
    /// Maximum number of queues of the kind in use.
    pub most: u32,
    /// True if the queues are for both directions, not only for receiving.
    pub is_combined: bool,
}

/// Flow control (IEEE 802.3x).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// True if both ends negotiated it.
    pub is_negotiated: bool,
    /// True if the card pauses on request.
    pub obeys: bool,
    /// True if the card requests pauses of the other end.
    pub asks: bool,
}

/// Payload of a datagram that fills a packet of 1,500 bytes.
const DATAGRAM_BYTES: f64 = 1_472.0;

pub(super) fn settings(facts: &Facts) -> Vec<Check> {
    let outside = || facts.interfaces.iter().filter(|it| !it.is_loopback);
    let reported = outside().flat_map(|it| {
        let each =
            [ring(it), channels(it, facts), coalescing(it, facts), pause(it), offloads::offloads(it, facts)];
        each.into_iter().flatten()
    });
    reported.chain(not_reported(outside())).collect()
}

/// Returns one check for all settings that no driver reports.
fn not_reported<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> Option<Check> {
    type Has = fn(&Card) -> bool;
    const PARTS: [(&str, Has); 5] = [
        ("rings", |card| card.ring.is_some()),
        ("channels", |card| card.channels.is_some()),
        ("coalescing", |card| card.coalescing.is_some()),
        ("flow control", |card| card.pause.is_some()),
        ("offloads", |card| card.offloads.is_some()),
    ];
    let of = |interface: &Interface| {
        let missing: Vec<&str> =
            PARTS.iter().filter(|(_, has)| !has(&interface.card)).map(|(part, _)| *part).collect();
        (!missing.is_empty()).then(|| format!("{} ({})", interface.name, missing.join(", ")))
    };
    let list: Vec<String> = interfaces.filter_map(of).collect();
    let why = format!(
        "not reported by the driver: {}; the settings of a virtual card are those of its host, and can only be read there",
        list.join("; ")
    );
    (!list.is_empty()).then(|| Check::not_seen("card-settings", &why))
}

fn ring(interface: &Interface) -> Option<Check> {
    const CHECK: &str = "card-ring";
    let (name, ring) = (&interface.name, interface.card.ring?);
    let why = "packets that arrive while this ring is full are lost before the host sees them";
    let Some(lost) = interface.card.had_no_room else {
        let live = format!("{name}: {} of {} entries", ring.entries, ring.most);
        let why = "it is unknown whether it was ever too small: the link's counters cannot be read here";
        return Some(Check::new(CHECK, Judgement::NotSeen, live, why));
    };
    let live = format!("{name}: {} of {} entries, {lost} found no room", ring.entries, ring.most);
    if lost == 0 {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    let flow_control = interface.card.pause.filter(|pause| !pause.asks).map(|_| {
        let set = |value| format!("ethtool -A {name} tx {value}");
        Remedy::by_command("let the card pause the switch, if the switch supports it", set("on"), set("off"))
    });
    if ring.entries >= ring.most {
        let slower = Remedy::by_hand("it is at its maximum: spread the traffic over more queues or links");
        return Some(check.recommending("another way", [slower].into_iter().chain(flow_control)));
    }
    let larger = ring.entries.saturating_mul(2).clamp(1, ring.most);
    let set = |entries| format!("ethtool -G {name} rx {entries}");
    let remedy = Remedy::by_command("a ring twice as large", set(larger), set(ring.entries));
    Some(check.recommending(format!("{larger} entries"), [remedy].into_iter().chain(flow_control)))
}

fn channels(interface: &Interface, facts: &Facts) -> Option<Check> {
    const CHECK: &str = "card-channels";
    let (name, channels) = (&interface.name, interface.card.channels?);
    let live = format!("{name}: {} of {} queues", channels.count, channels.most);
    let why = "each queue has its own ring and interrupt; more queues than processors have no benefit";
    let processors = facts.processors.as_ref().and_then(|it| u32::try_from(it.online.len()).ok());
    let useful = processors.map_or(channels.count, |count| channels.most.min(count));
    let lost = interface.card.had_no_room.unwrap_or(0);
    if lost == 0 || channels.count >= useful {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let kind = if channels.is_combined { "combined" } else { "rx" };
    let set = |count| format!("ethtool -L {name} {kind} {count}");
    let remedy = Remedy::by_command("a queue for each processor", set(useful), set(channels.count));
    let live = format!("{live}, and {lost} packets found no room");
    Some(Check::new(CHECK, Judgement::Warn, live, why).recommending(format!("{useful} queues"), [remedy]))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a floor of a positive number")]
fn coalescing(interface: &Interface, facts: &Facts) -> Option<Check> {
    const CHECK: &str = "card-coalescing";
    let (name, coalescing) = (&interface.name, interface.card.coalescing?);
    let Coalescing { microseconds, packets, is_adaptive } = coalescing;
    let adaptive = if is_adaptive { ", adaptive" } else { "" };
    let live = format!("{name}: after {microseconds} µs or {packets} packets{adaptive}");
    let why = "while the card delays its interrupt the ring fills; without a delay each packet may interrupt";
    let Some(ring) = interface.card.ring else {
        let why = "the driver does not report how much room the ring has meanwhile";
        return Some(Check::new(CHECK, Judgement::NotSeen, live, why));
    };
    // The other half is for packets that arrive until the host responds.
    let room = f64::from(ring.entries) / 2.0;
    let per_second = facts.load.bytes_per_second / DATAGRAM_BYTES;
    let is_bounded = packets > 0 && f64::from(packets) <= room;
    let meanwhile = per_second * f64::from(microseconds) / 1e6;
    if is_adaptive || is_bounded || meanwhile <= room {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let shorter = (room / per_second * 1e6).floor() as u32;
    let set = |microseconds| format!("ethtool -C {name} rx-usecs {microseconds}");
    let remedy = Remedy::by_command("a shorter delay", set(shorter), set(microseconds));
    let why = format!(
        "{why}: {meanwhile:.0} datagrams arrive in that time ({}), and half the ring holds {room:.0}",
        facts.load.origin
    );
    Some(Check::new(CHECK, Judgement::Warn, live, why).recommending(format!("{shorter} µs"), [remedy]))
}

/// Checks flow control. It is no fault as such: it loses nothing on the link, and makes all of a sender's streams
/// wait for one slow reader.
fn pause(interface: &Interface) -> Option<Check> {
    let pause = interface.card.pause?;
    let word = |is_on| if is_on { "on" } else { "off" };
    let negotiated = if pause.is_negotiated { ", negotiated" } else { "" };
    let live = format!(
        "{}: pauses when asked {}, asks {}{negotiated}",
        interface.name,
        word(pause.obeys),
        word(pause.asks)
    );
    let why = "802.3x makes a sender wait instead of losing, for all of its streams at once; it helps only if the switch supports it, too";
    Some(Check::new("card-pause", Judgement::Ok, live, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Load, Processors};

    fn with(card: Card) -> Facts {
        let interface = Interface { name: "eth0".to_owned(), card, ..Interface::default() };
        // 1.25 GB/s are 849,184 datagrams a second.
        let load = Load { bytes_per_second: 1.25e9, origin: "as asked", ..Load::default() };
        let processors = Some(Processors { online: (0..4).collect(), ..Processors::default() });
        Facts { interfaces: vec![interface], processors, load, ..Facts::default() }
    }

    fn of(card: Card, check: &str) -> Check {
        settings(&with(card)).into_iter().find(|it| it.name == check).expect("it is judged")
    }

    fn commands(check: &Check) -> Vec<(String, String)> {
        let pair = |remedy: &Remedy| Some((remedy.command()?, remedy.undo()?));
        check.remedies.iter().filter_map(pair).collect()
    }

    #[test]
    fn a_ring_is_too_small_when_something_found_no_room() {
        let ring = |entries, lost| {
            of(
                Card { ring: Some(Ring { entries, most: 4_096 }), had_no_room: lost, ..Card::default() },
                "card-ring",
            )
        };
        assert_eq!(ring(512, Some(0)).judgement, Judgement::Ok);
        assert_eq!(ring(512, None).judgement, Judgement::NotSeen);
        let small = ring(512, Some(1));
        assert_eq!((small.judgement, small.recommended.as_deref()), (Judgement::Warn, Some("1024 entries")));
        let (larger, back) = ("ethtool -G eth0 rx 1024".to_owned(), "ethtool -G eth0 rx 512".to_owned());
        assert_eq!(commands(&small), [(larger, back)]);
        assert_eq!(ring(4_095, Some(1)).recommended.as_deref(), Some("4096 entries"));
        assert_eq!(commands(&ring(4_096, Some(1))), [], "it cannot be larger");
        assert_eq!(ring(4_096, Some(1)).judgement, Judgement::Warn);
    }

    #[test]
    fn flow_control_is_offered_where_the_card_does_not_ask() {
        let remedies = |asks| {
            let pause = Some(Pause { is_negotiated: true, obeys: true, asks });
            let ring = Some(Ring { entries: 512, most: 512 });
            commands(&of(Card { ring, pause, had_no_room: Some(1), ..Card::default() }, "card-ring"))
        };
        assert_eq!(
            remedies(false),
            [("ethtool -A eth0 tx on".to_owned(), "ethtool -A eth0 tx off".to_owned())]
        );
        assert_eq!(remedies(true), []);
    }

    #[test]
    fn more_queues_are_asked_for_where_packets_found_no_room_and_processors_are_left() {
        let judge = |count, most, lost| {
            let channels = Some(Channels { count, most, is_combined: true });
            of(Card { channels, had_no_room: Some(lost), ..Card::default() }, "card-channels")
        };
        assert_eq!(judge(1, 8, 0).judgement, Judgement::Ok);
        assert_eq!((judge(4, 8, 1).judgement, judge(2, 2, 1).judgement), (Judgement::Ok, Judgement::Ok));
        let few = judge(3, 8, 1);
        assert_eq!(few.judgement, Judgement::Warn);
        let (more, back) = ("ethtool -L eth0 combined 4".to_owned(), "ethtool -L eth0 combined 3".to_owned());
        assert_eq!(commands(&few), [(more, back)]);
    }

    #[test]
    fn a_card_waits_no_longer_than_half_its_ring_holds() {
        let judge = |microseconds, packets, is_adaptive| {
            let coalescing = Some(Coalescing { microseconds, packets, is_adaptive });
            let ring = Some(Ring { entries: 512, most: 512 });
            of(Card { coalescing, ring, ..Card::default() }, "card-coalescing")
        };
        // At 849,184 datagrams a second 256 arrive in 301.5 µs.
        assert_eq!(judge(301, 0, false).judgement, Judgement::Ok);
        let long = judge(302, 0, false);
        assert_eq!((long.judgement, long.recommended.as_deref()), (Judgement::Warn, Some("301 µs")));
        let (shorter, back) =
            ("ethtool -C eth0 rx-usecs 301".to_owned(), "ethtool -C eth0 rx-usecs 302".to_owned());
        assert_eq!(commands(&long), [(shorter, back)]);
        assert_eq!(
            (judge(302, 256, false).judgement, judge(302, 257, false).judgement),
            (Judgement::Ok, Judgement::Warn)
        );
        assert_eq!(judge(302, 0, true).judgement, Judgement::Ok);
        let coalescing = Some(Coalescing { microseconds: 302, packets: 0, is_adaptive: false });
        let without_ring = of(Card { coalescing, ..Card::default() }, "card-coalescing");
        assert_eq!(without_ring.judgement, Judgement::NotSeen);
    }

    #[test]
    fn flow_control_is_reported_and_never_wrong() {
        for asks in [false, true] {
            let pause = Some(Pause { is_negotiated: false, obeys: true, asks });
            let check = of(Card { pause, ..Card::default() }, "card-pause");
            let word = if asks { "on" } else { "off" };
            assert_eq!(check.live, format!("eth0: pauses when asked on, asks {word}"));
            assert_eq!(check.judgement, Judgement::Ok);
        }
    }

    #[test]
    fn settings_that_no_driver_reports_are_listed_once() {
        let mut facts = with(Card { ring: Some(Ring { entries: 1, most: 1 }), ..Card::default() });
        facts.interfaces.push(Interface { name: "eth1".to_owned(), ..Interface::default() });
        facts.interfaces.push(Interface { name: "lo".to_owned(), is_loopback: true, ..Interface::default() });
        let checks = settings(&facts);
        let unseen: Vec<&Check> = checks.iter().filter(|it| it.name == "card-settings").collect();
        assert_eq!((unseen.len(), unseen[0].judgement), (1, Judgement::NotSeen));
        let expected = "eth0 (channels, coalescing, flow control, offloads); eth1 (rings, channels, coalescing, flow control, offloads)";
        assert!(unseen[0].why.contains(expected), "{}", unseen[0].why);
    }
}
