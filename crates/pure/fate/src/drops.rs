//! Drop events: datagrams that the kernel freed unread, one by one or in runs of their like.

use std::net::SocketAddr;
use std::sync::Arc;

use ledger::Stage;
use units::Instant;

/// Datagrams that the kernel freed unread, alike and in a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropEvent {
    /// When the first was.
    pub at: Instant,
    /// Why: the kernel's own name without `SKB_DROP_REASON_`; `NOT_SPECIFIED` also where this kernel does not tell.
    pub reason: Arc<str>,
    /// Where in the kernel: the function, without what the compiler added to its name; `None` where this user may not see it.
    pub location: Option<Arc<str>>,
    /// The cookie of the socket that would have received it; `None` where it was not found yet, or this kernel does not tell.
    pub socket: Option<u64>,
    /// The number of the network namespace; `None` where the kernel had let go of it.
    pub namespace: Option<u32>,
    /// The number of the network device; `None` where the kernel had let go of it.
    pub device: Option<u32>,
    /// Whether it had come in by a device of the namespace.
    pub is_incoming: bool,
    /// Who sent it; port 0 for the later fragments of a datagram.
    pub source: SocketAddr,
    /// Where it was sent to; port 0 for the later fragments of a datagram.
    pub destination: SocketAddr,
    /// Which fragment of a datagram; `None` for whole ones.
    pub fragment: Option<Fragment>,
    /// Stream and numbers; `None` where no profile fits, or the beginning of the payload was not there.
    pub numbers: Option<Numbers>,
    /// How many datagrams, or fragments.
    pub count: u64,
}

/// Which fragment of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fragment {
    /// What all fragments of the datagram share.
    pub id: u32,
    /// The first has ports and number.
    pub is_first: bool,
}

/// Datagrams of a stream in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Numbers {
    /// The stream, as its protocol has it.
    pub stream: u64,
    /// Its life, 0 where its protocol has none.
    pub life: u64,
    /// The first number.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

impl DropEvent {
    /// Returns at which stage it was lost; `None` for what is not known here.
    #[must_use]
    pub fn stage(&self) -> Option<Stage> {
        stage(&self.reason, self.location.as_deref(), self.is_incoming)
    }
}

/// Reasons of the kernel (`include/net/dropreason-core.h`, Linux 6.18) and their stages.
const REASONS: &[(&str, Stage)] = &[
    ("NO_SOCKET", Stage::ReceiverNoSocket),
    ("SOCKET_FILTER", Stage::ReceiverSocketFilter),
    ("SOCKET_RCVBUFF", Stage::ReceiverSocketBuffer),
    ("SOCKET_RCVBUF", Stage::ReceiverSocketBuffer),
    ("PROTO_MEM", Stage::ReceiverUdpMemory),
    ("UDP_CSUM", Stage::ReceiverChecksum),
    ("SKB_CSUM", Stage::ReceiverChecksum),
    ("CPU_BACKLOG", Stage::ReceiverBacklog),
    ("XDP", Stage::ReceiverHook),
    ("TC_INGRESS", Stage::ReceiverHook),
    ("TC_EGRESS", Stage::SenderQdisc),
    ("QDISC_DROP", Stage::SenderQdisc),
    ("QDISC_OVERLIMIT", Stage::SenderQdisc),
    ("QDISC_CONGESTED", Stage::SenderQdisc),
    ("FULL_RING", Stage::SenderNic),
    ("DEV_READY", Stage::SenderNic),
    ("DEV_HDR", Stage::SenderNic),
    ("IP_OUTNOROUTES", Stage::SenderIp),
    ("NEIGH_FAILED", Stage::SenderIp),
    ("NEIGH_QUEUEFULL", Stage::SenderIp),
    ("NEIGH_DEAD", Stage::SenderIp),
    ("NEIGH_CREATEFAIL", Stage::SenderIp),
    ("FRAG_REASM_TIMEOUT", Stage::ReceiverReassembly),
    ("FRAG_TOO_FAR", Stage::ReceiverReassembly),
    ("DUP_FRAG", Stage::ReceiverReassembly),
    ("IP_RPFILTER", Stage::ReceiverIp),
    ("IP_INHDR", Stage::ReceiverIp),
    ("IP_CSUM", Stage::ReceiverIp),
    ("IP_NOPROTO", Stage::ReceiverIp),
    ("IP_INADDRERRORS", Stage::ReceiverIp),
    ("IP_INNOROUTES", Stage::ReceiverIp),
    ("IP_LOCALNET", Stage::ReceiverIp),
    ("IP_INVALID_DEST", Stage::ReceiverIp),
    ("UNICAST_IN_L2_MULTICAST", Stage::ReceiverIp),
    ("OTHERHOST", Stage::ReceiverIp),
    ("PKT_TOO_SMALL", Stage::ReceiverIp),
    ("PKT_TOO_BIG", Stage::SenderIp),
    ("BPF_CGROUP_EGRESS", Stage::SenderIp),
];

/// Functions of the kernel that free without a reason (`NOT_SPECIFIED`), and their stages. Source: measured, Linux 6.18.
const LOCATIONS: &[(&str, Stage)] = &[
    // Nobody on this host has joined the group on that device.
    ("ip_rcv_finish_core", Stage::ReceiverIp),
    ("ip_rcv_core", Stage::ReceiverIp),
    ("ip6_rcv_core", Stage::ReceiverIp),
    ("ip6_rcv_finish_core", Stage::ReceiverIp),
    ("ip6_mc_input", Stage::ReceiverIp),
    ("ip_defrag", Stage::ReceiverReassembly),
    ("ipv6_frag_rcv", Stage::ReceiverReassembly),
    ("do_xdp_generic", Stage::ReceiverHook),
    ("veth_xdp_rcv_skb", Stage::ReceiverHook),
];

fn stage(reason: &str, location: Option<&str>, is_incoming: bool) -> Option<Stage> {
    // A firewall stands on the way out, and on the way in.
    if reason == "NETFILTER_DROP" {
        return Some(if is_incoming { Stage::ReceiverHook } else { Stage::SenderIp });
    }
    let find = |table: &[(&str, Stage)], wanted: &str| {
        table.iter().find(|(name, _)| *name == wanted).map(|(_, stage)| *stage)
    };
    find(REASONS, reason).or_else(|| find(LOCATIONS, location?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_once() {
        let mut names: Vec<_> = REASONS.iter().chain(LOCATIONS).map(|(name, _)| *name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_reason_has_its_stage_wherever_it_is_met() {
        for (reason, location, is_incoming, expected) in [
            ("SOCKET_RCVBUFF", Some("udp_queue_rcv_one_skb"), true, Some(Stage::ReceiverSocketBuffer)),
            ("SOCKET_RCVBUFF", None, false, Some(Stage::ReceiverSocketBuffer)),
            ("NETFILTER_DROP", Some("nft_do_chain"), false, Some(Stage::SenderIp)),
            ("NETFILTER_DROP", Some("nft_do_chain"), true, Some(Stage::ReceiverHook)),
            ("NOT_SPECIFIED", Some("ip_rcv_finish_core"), true, Some(Stage::ReceiverIp)),
            ("NOT_SPECIFIED", Some("ip_defrag"), true, Some(Stage::ReceiverReassembly)),
            ("NOT_SPECIFIED", Some("some_new_function"), true, None),
            ("NOT_SPECIFIED", None, true, None),
            ("A_REASON_OF_TOMORROW", Some("somewhere"), true, None),
        ] {
            assert_eq!(stage(reason, location, is_incoming), expected, "{reason} at {location:?}");
        }
    }
}
