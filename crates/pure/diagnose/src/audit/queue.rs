//! Transmit queue of a link: packets that find no room in it were never on the network.

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
    outside().filter_map(|it| of_interface(it, it.queue.as_ref()?)).chain(not_seen).collect()
}

fn of_interface(interface: &Interface, queue: &Queue) -> Option<Check> {
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
    if *drops == 0 {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    let slower =
        Remedy::by_hand("send no faster than the link carries, evenly: without bursts no queue is needed");
    // The only ones that use the link's number.
    if !matches!(discipline.as_str(), "pfifo_fast" | "pfifo") || *packets == 0 {
        let larger = Remedy::by_hand(&format!(
            "or a higher limit of the queue: `tc -s qdisc show dev {name}` shows it"
        ));
        return Some(check.recommending("none dropped", [slower, larger]));
    }
    let longer = packets.saturating_mul(2);
    let set = |packets| format!("ip link set dev {name} txqueuelen {packets}");
    let remedy = Remedy::by_command("a queue twice as long", set(longer), set(*packets));
    Some(check.recommending(format!("{longer} packets"), [remedy, slower]))
}

#[cfg(test)]
mod tests {
    use super::*;

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
