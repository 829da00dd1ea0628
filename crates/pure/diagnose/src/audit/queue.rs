//! Transmit queue of a link: packets that find no room in it were never on the network.
//!
//! A window of rate × round trip may leave in one burst; where both are known, the queue is judged against the packets of
//! that product as well (Villamizar and Song 1994).

use super::{Check, Facts, Interface, Judgement};
use crate::Remedy;

/// Queue of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// Queue discipline; `noqueue` is none.
    pub discipline: String,
    /// `txqueuelen` of the link, in packets: the limit of some disciplines.
    pub packets: u32,
    /// Number of dropped packets, where that can be read.
    pub drops: Option<u64>,
}

const CHECK: &str = "send-queue";

pub(super) fn send_queues(facts: &Facts) -> Vec<Check> {
    let outside = || facts.interfaces.iter().filter(|it| !it.is_loopback);
    let unseen: Vec<&str> = outside().filter(|it| it.queue.is_none()).map(|it| it.name.as_str()).collect();
    let why = format!("the queue of {} cannot be read here", unseen.join(", "));
    let not_seen = (!unseen.is_empty()).then(|| Check::not_seen(CHECK, &why));
    outside().filter_map(|it| of_interface(facts, it, it.queue.as_ref()?)).chain(not_seen).collect()
}

/// Maximum recommended length of a queue: 100,000 full packets are 0.12 s at 10 Gbit/s.
const MOST_PACKETS: u64 = 100_000;

/// Returns the packets that are on their way within a round trip, where it is known.
fn packets_in_flight(facts: &Facts, interface: &Interface) -> Option<u64> {
    /// MTU of a link whose own cannot be read: Ethernet's. Units: bytes.
    const USUAL_MTU: u32 = 1_500;
    let mtu = if interface.mtu == 0 { USUAL_MTU } else { interface.mtu };
    let bytes = facts.load.bytes_per_second * facts.load.round_trip?.as_secs_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    Some((bytes / f64::from(mtu)).ceil() as u64)
}

fn of_interface(facts: &Facts, interface: &Interface, queue: &Queue) -> Option<Check> {
    let (name, Queue { discipline, packets, drops }) = (&interface.name, queue);
    let why = "packets without room here are dropped before they leave; a sender gets an error only on request (`IP_RECVERR`)";
    if discipline == "noqueue" {
        return Some(Check::new(CHECK, Judgement::Ok, format!("{name}: no queue"), why));
    }
    let live = format!("{name}: {discipline}, txqueuelen {packets}");
    let Some(drops) = drops else {
        let why = "whether it dropped anything cannot be read here";
        return Some(Check::new(CHECK, Judgement::NotSeen, live, why));
    };
    let live = format!("{live}, {drops} dropped");
    // The only ones that use the link's number.
    let is_by_packets = matches!(discipline.as_str(), "pfifo_fast" | "pfifo") && *packets > 0;
    let is_short = |needed: &u64| is_by_packets && (*needed).min(MOST_PACKETS) > u64::from(*packets);
    let in_flight = packets_in_flight(facts, interface).filter(is_short);
    if *drops == 0 && in_flight.is_none() {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let of_window = |needed| {
        format!("{why}; {needed} packets are on their way within a round trip, and may leave at once")
    };
    let why = in_flight.map_or_else(|| why.to_owned(), of_window);
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    let slower =
        Remedy::by_hand("send no faster than the link carries, evenly: without bursts no queue is needed");
    if !is_by_packets {
        let larger = Remedy::by_hand(&format!(
            "or a higher limit of the queue: `tc -s qdisc show dev {name}` shows it"
        ));
        return Some(check.recommending("none dropped", [slower, larger]));
    }
    let twice = if *drops > 0 { u64::from(*packets) * 2 } else { 0 };
    let longer = twice.max(in_flight.unwrap_or(0).min(MOST_PACKETS));
    let set = |packets: u64| format!("ip link set dev {name} txqueuelen {packets}");
    let remedy = Remedy::by_command("a longer queue", set(longer), set(u64::from(*packets)));
    Some(check.recommending(format!("{longer} packets"), [remedy, slower]))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::audit::Load;

    fn judge(queue: Option<(&str, Option<u64>)>) -> Check {
        let queue = queue.map(|(discipline, drops)| Queue {
            discipline: discipline.to_owned(),
            packets: 1_000,
            drops,
        });
        let interface = Interface { name: "eth0".to_owned(), queue, ..Interface::default() };
        send_queues(&Facts { interfaces: vec![interface], ..Facts::default() }).remove(0)
    }

    #[test]
    fn a_queue_is_too_short_when_it_dropped() {
        assert_eq!(judge(Some(("pfifo_fast", Some(0)))).judgement, Judgement::Ok);
        let short = judge(Some(("pfifo_fast", Some(1))));
        assert_eq!((short.judgement, short.recommended.as_deref()), (Judgement::Warn, Some("2000 packets")));
        let commands = (short.remedies[0].command(), short.remedies[0].undo());
        let set = |packets| Some(format!("ip link set dev eth0 txqueuelen {packets}"));
        assert_eq!(commands, (set(2_000), set(1_000)));
    }

    #[test]
    fn a_queue_holds_the_packets_of_rate_times_round_trip_where_both_are_known() {
        let judge_mtu = |mtu, discipline: &str, packets, round_trip_ms| {
            let queue = Some(Queue { discipline: discipline.to_owned(), packets, drops: Some(0) });
            let interface = Interface { name: "eth0".to_owned(), mtu, queue, ..Interface::default() };
            // 1 Gbit/s and 20 ms: 2.5 MB, 1,667 packets of 1,500 bytes.
            let round_trip = Some(Duration::from_millis(round_trip_ms));
            let load = Load { bytes_per_second: 125e6, round_trip, ..Load::default() };
            send_queues(&Facts { interfaces: vec![interface], load, ..Facts::default() }).remove(0)
        };
        let judge =
            |discipline: &str, packets, round_trip_ms| judge_mtu(1_500, discipline, packets, round_trip_ms);
        assert_eq!(judge("pfifo_fast", 1_667, 20).judgement, Judgement::Ok);
        let short = judge("pfifo_fast", 1_666, 20);
        assert_eq!((short.judgement, short.recommended.as_deref()), (Judgement::Warn, Some("1667 packets")));
        let command = short.remedies[0].command();
        assert_eq!(command.as_deref(), Some("ip link set dev eth0 txqueuelen 1667"));
        assert_eq!(judge("fq_codel", 1_000, 20).judgement, Judgement::Ok, "its own limit counts");
        let far = judge("pfifo_fast", 1_000, 10_000);
        assert_eq!(far.recommended.as_deref(), Some("100000 packets"), "no longer than helps");
        assert!(far.why.contains("; 833334 packets are on their way"), "{}", far.why);
        assert_eq!(judge("pfifo_fast", 100_000, 10_000).judgement, Judgement::Ok);
        let unknown = judge_mtu(0, "pfifo_fast", 1_666, 20);
        assert_eq!(
            unknown.recommended.as_deref(),
            Some("1667 packets"),
            "1,500 bytes where the MTU is unknown"
        );
    }

    #[test]
    fn queues_with_a_limit_of_their_own_have_no_use_for_txqueuelen() {
        let dropped = judge(Some(("fq_codel", Some(1))));
        assert_eq!((dropped.judgement, dropped.remedies[0].command()), (Judgement::Warn, None));
    }

    #[test]
    fn without_a_queue_all_is_well_and_unread_ones_are_not_seen() {
        assert_eq!(judge(Some(("noqueue", None))).judgement, Judgement::Ok);
        assert_eq!(judge(Some(("fq", None))).judgement, Judgement::NotSeen);
        assert_eq!(judge(None).judgement, Judgement::NotSeen);
    }
}
