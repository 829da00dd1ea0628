//! Causes of drop events, by the kernel's reason or by the function that freed the datagram.

use ledger::Stage;

use crate::causes::{CAUSES, Cause};
use crate::events::DropEvent;

/// Functions of the kernel that free packets which are not lost on the path.
const NO_LOSSES: &[&str] = &[
    // Fragments of a reassembled datagram: they are freed with it.
    "skb_release_data",
    // Data that a program had not read when it closed its socket.
    "udp_destruct_common",
];

impl DropEvent {
    /// Returns whether it is a loss: fragments are freed with their datagram, and unread data with their socket.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.location.as_deref().is_none_or(|location| !NO_LOSSES.contains(&location))
    }

    /// Returns the stage of the loss; `None` for an unknown reason and place.
    #[must_use]
    pub fn stage(&self) -> Option<Stage> {
        self.cause().map(|cause| cause.stage)
    }

    /// Returns the cause of the loss; `None` for an unknown reason and place.
    pub(crate) fn cause(&self) -> Option<&'static Cause> {
        let by_place = || {
            let location = self.location.as_deref()?;
            self.find(|cause| cause.functions.contains(&location))
        };
        self.find(|cause| cause.reasons.contains(&&*self.reason)).or_else(by_place)
    }

    /// Returns the cause that has the sign; where both directions have it, that of the event's direction.
    fn find(&self, has_sign: impl Fn(&Cause) -> bool) -> Option<&'static Cause> {
        let is_of_direction = |cause: &Cause| is_incoming(cause.stage) == self.is_incoming;
        let all = || CAUSES.iter().filter(|cause| has_sign(cause));
        all().find(|cause| is_of_direction(cause)).or_else(|| all().next())
    }
}

/// Returns whether data are lost at this stage after they left their sender's host.
fn is_incoming(stage: Stage) -> bool {
    stage >= Stage::Network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::event;

    #[test]
    fn what_is_freed_with_something_else_is_no_loss() {
        let at = |location: &str| {
            DropEvent { location: Some(location.into()), ..event("NOT_SPECIFIED") }.is_loss()
        };
        assert!(!at("skb_release_data") && !at("udp_destruct_common") && at("ip_defrag"));
        assert!(event("NO_SOCKET").is_loss());
    }

    #[test]
    fn every_sign_stands_once_for_each_direction() {
        let mut signs: Vec<_> = CAUSES
            .iter()
            .flat_map(|cause| {
                cause.reasons.iter().chain(cause.functions).map(|name| (name, is_incoming(cause.stage)))
            })
            .collect();
        let count = signs.len();
        signs.sort_unstable();
        signs.dedup();
        assert_eq!(signs.len(), count);
    }

    #[test]
    fn a_reason_has_its_stage_wherever_it_is_met() {
        for (reason, location, is_incoming, expected) in [
            ("NEIGH_FAILED", None, false, Some(Stage::SenderIp)),
            ("NEIGH_QUEUEFULL", None, false, Some(Stage::SenderIp)),
            ("IP_OUTNOROUTES", None, false, Some(Stage::SenderIp)),
            ("QDISC_DROP", None, false, Some(Stage::SenderQdisc)),
            ("FULL_RING", None, false, Some(Stage::SenderNic)),
            ("XDP", None, true, Some(Stage::ReceiverHook)),
            ("TC_INGRESS", None, true, Some(Stage::ReceiverHook)),
            ("CPU_BACKLOG", None, false, Some(Stage::ReceiverBacklog)),
            ("IP_RPFILTER", None, true, Some(Stage::ReceiverIp)),
            ("IP_INHDR", None, true, Some(Stage::ReceiverIp)),
            ("FRAG_REASM_TIMEOUT", None, true, Some(Stage::ReceiverReassembly)),
            ("UDP_CSUM", None, true, Some(Stage::ReceiverChecksum)),
            ("NO_SOCKET", None, true, Some(Stage::ReceiverNoSocket)),
            ("SOCKET_FILTER", None, true, Some(Stage::ReceiverSocketFilter)),
            ("SOCKET_RCVBUFF", Some("udp_queue_rcv_one_skb"), true, Some(Stage::ReceiverSocketBuffer)),
            ("PROTO_MEM", None, true, Some(Stage::ReceiverUdpMemory)),
            ("NETFILTER_DROP", Some("nft_do_chain"), false, Some(Stage::SenderIp)),
            ("NETFILTER_DROP", Some("nft_do_chain"), true, Some(Stage::ReceiverHook)),
            ("NOT_SPECIFIED", Some("ip_rcv_finish_core"), true, Some(Stage::ReceiverIp)),
            ("NOT_SPECIFIED", Some("ip_defrag"), true, Some(Stage::ReceiverReassembly)),
            ("NOT_SPECIFIED", Some("veth_xdp_rcv_skb"), true, Some(Stage::ReceiverHook)),
            ("NOT_SPECIFIED", Some("neigh_invalidate"), false, Some(Stage::SenderIp)),
            ("NOT_SPECIFIED", Some("dst_discard_out"), false, Some(Stage::SenderIp)),
            ("NOT_SPECIFIED", Some("dst_discard_out"), true, Some(Stage::ReceiverIp)),
            ("NOT_SPECIFIED", Some("dst_discard"), false, Some(Stage::SenderIp)),
            ("NOT_SPECIFIED", Some("dst_discard"), true, Some(Stage::ReceiverIp)),
            ("NOT_SPECIFIED", Some("ip_error"), true, Some(Stage::ReceiverIp)),
            ("NOT_SPECIFIED", Some("some_new_function"), true, None),
            ("NOT_SPECIFIED", None, true, None),
            ("A_REASON_OF_TOMORROW", Some("somewhere"), true, None),
        ] {
            let location = location.map(Into::into);
            let event = DropEvent { location, is_incoming, ..event(reason) };
            assert_eq!(event.stage(), expected, "{event:?}");
        }
    }
}
