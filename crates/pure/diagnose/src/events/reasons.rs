//! Meanings of the kernel's drop reasons: stage, explanation and remedy.
//!
//! Source: `include/net/dropreason-core.h`, Linux 6.18, and the losses that the laboratory plants.

use ledger::Stage;

use crate::events::DropEvent;
use crate::events::checkpoints::HOLE;

/// Meaning of a reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meaning {
    pub(crate) stage: Stage,
    pub(crate) why: &'static str,
    pub(crate) remedy: &'static str,
}

const NO_NEIGHBOUR: Meaning = Meaning {
    stage: Stage::SenderIp,
    why: "the receiver's hardware address was not known: it did not answer, or too many datagrams waited for its answer",
    remedy: "see whether the receiver is up (`ip neigh`); let datagrams wait longer for it (net.ipv4.neigh.DEVICE.unres_qlen_bytes), or give it a permanent entry (`ip neigh replace … nud permanent`)",
};

/// Meanings with their reasons, as the kernel names them without `SKB_DROP_REASON_`.
const REASONS: &[(&[&str], Meaning)] = &[
    (&["NEIGH_FAILED", "NEIGH_QUEUEFULL", "NEIGH_DEAD", "NEIGH_CREATEFAIL"], NO_NEIGHBOUR),
    (
        &["IP_OUTNOROUTES", "BPF_CGROUP_EGRESS", "PKT_TOO_BIG"],
        Meaning {
            stage: Stage::SenderIp,
            why: "the send path refused them: no route, a control group's program, or too large",
            remedy: "see route and interface (`ip route get ADDRESS`) and the datagrams' size (`mtu=` on the bus)",
        },
    ),
    (
        &[
            "QDISC_DROP",
            "QDISC_OVERLIMIT",
            "QDISC_CONGESTED",
            "TC_EGRESS",
            "CAKE_FLOOD",
            "FQ_BAND_LIMIT",
            "FQ_HORIZON_LIMIT",
            "FQ_FLOW_LIMIT",
        ],
        Meaning {
            stage: Stage::SenderQdisc,
            why: "the queue discipline of the device they leave by had no room for them",
            remedy: "send at a lower rate, or make its limit larger (`tc -s qdisc` shows which)",
        },
    ),
    (
        &["FULL_RING", "DEV_READY", "DEV_HDR"],
        Meaning {
            stage: Stage::SenderNic,
            why: "the device could not take them",
            remedy: "send at a lower rate, or make the device's ring or queue larger (`ethtool -g`, `ip link set DEVICE txqueuelen N`)",
        },
    ),
    (
        &["XDP", "TC_INGRESS"],
        Meaning {
            stage: Stage::ReceiverHook,
            why: "a program on the device they came in by dropped them",
            remedy: "see what it is (`bpftool net`, `tc filter show dev DEVICE ingress`)",
        },
    ),
    (
        &["CPU_BACKLOG"],
        Meaning {
            stage: Stage::ReceiverBacklog,
            why: "the backlog of a processor was full: its softirq could not keep up",
            remedy: "a longer backlog (net.core.netdev_max_backlog), work spread over processors (RPS), shorter rule sets",
        },
    ),
    (
        &["IP_RPFILTER"],
        Meaning {
            stage: Stage::ReceiverIp,
            why: "the route back to their sender uses another interface (rp_filter)",
            remedy: "set net.ipv4.conf.INTERFACE.rp_filter and …conf.all.rp_filter to 2 or 0, or add a route to the sender",
        },
    ),
    (
        &[
            "IP_INHDR",
            "IP_CSUM",
            "IP_NOPROTO",
            "IP_INADDRERRORS",
            "IP_INNOROUTES",
            "IP_LOCALNET",
            "IP_LOCAL_SOURCE",
            "IP_INVALID_SOURCE",
            "IP_INVALID_DEST",
            "INVALID_PROTO",
            "UNICAST_IN_L2_MULTICAST",
            "OTHERHOST",
            "PKT_TOO_SMALL",
        ],
        Meaning {
            stage: Stage::ReceiverIp,
            why: "their IP header or address was not for this host",
            remedy: "see addresses and routes of both hosts (`ip address`, `ip route get`)",
        },
    ),
    (
        &["FRAG_REASM_TIMEOUT", "FRAG_TOO_FAR", "DUP_FRAG"],
        Meaning {
            stage: Stage::ReceiverReassembly,
            why: "they came in fragments of which some were missing",
            remedy: "send datagrams that fit into the path's MTU (`mtu=` on the bus; `tallycast bench --probe-mtu` finds it)",
        },
    ),
    (
        &["UDP_CSUM", "SKB_CSUM"],
        Meaning {
            stage: Stage::ReceiverChecksum,
            why: "their checksum was wrong: a faulty card, cable, switch or offload",
            remedy: "look for the faulty part: another cable, `ethtool -K DEVICE rx off` to try without the card's own check",
        },
    ),
    (
        &["NO_SOCKET"],
        Meaning {
            stage: Stage::ReceiverNoSocket,
            why: "no socket was bound to their destination",
            remedy: "start the reader first, and see that port and address are those it is bound to",
        },
    ),
    (
        &["SOCKET_FILTER"],
        Meaning {
            stage: Stage::ReceiverSocketFilter,
            why: "the socket's filter refused them",
            remedy: "look at the program's socket filter (SO_ATTACH_FILTER, SO_ATTACH_BPF)",
        },
    ),
    (
        &["SOCKET_RCVBUFF", "SOCKET_RCVBUF"],
        Meaning {
            stage: Stage::ReceiverSocketBuffer,
            why: "the receive buffer was full",
            remedy: "a larger receive buffer (SO_RCVBUF), or a faster reader",
        },
    ),
    (
        &["PROTO_MEM"],
        Meaning {
            stage: Stage::ReceiverUdpMemory,
            why: "the host's memory for UDP was used up (net.ipv4.udp_mem)",
            remedy: "give UDP more memory (net.ipv4.udp_mem, in pages), or let fewer sockets have smaller buffers",
        },
    ),
];

/// Reason of a firewall, which may be on the outgoing or on the incoming path.
const FIREWALL: &str = "NETFILTER_DROP";
const FIREWALL_OUT: Meaning = Meaning {
    stage: Stage::SenderIp,
    why: "a firewall rule of this host dropped outgoing packets",
    remedy: "find the rule (`nft list ruleset`, `iptables -vnL OUTPUT`)",
};
const FIREWALL_IN: Meaning = Meaning {
    stage: Stage::ReceiverHook,
    why: "a firewall rule of this host dropped incoming packets",
    remedy: "find the rule (`nft list ruleset`, `iptables -vnL INPUT`)",
};

const NOT_WANTED: Meaning = Meaning {
    stage: Stage::ReceiverIp,
    why: "their group was not joined on the interface where they arrived, or their address is not this host's",
    remedy: "let the reader join on that interface (`iface=` on the bus; `ip maddress` shows who joined where)",
};
const NO_MEMORY_FOR_FRAGMENTS: Meaning = Meaning {
    stage: Stage::ReceiverReassembly,
    why: "they came in fragments that did not fit together, or there was no memory to wait for them",
    remedy: "send datagrams that fit into the path's MTU; more memory to wait for fragments (net.ipv4.ipfrag_high_thresh)",
};
const PROGRAM_ON_DEVICE: Meaning = Meaning {
    stage: Stage::ReceiverHook,
    why: "an XDP program on the device they came in by dropped them",
    remedy: "see what it is (`ip link show dev DEVICE`, `bpftool net`)",
};

/// Meaning of a hole at a checkpoint without a drop event.
const MISSING_BEHIND_QUEUE: Meaning = Meaning {
    stage: Stage::SenderQdisc,
    why: "they entered the queue of the device they leave by, and did not leave it",
    remedy: "send at a lower rate, or make its limit larger (`tc -s qdisc` shows which)",
};
const NEVER_CAME: Meaning = Meaning {
    stage: Stage::Network,
    why: "they never arrived at this host: lost on the path, or at their sender after the last point that this host can see",
    remedy: "let a doctor watch at the sender's host too (`doctor watch --checkpoints`): datagrams that leave it are lost between the hosts; look there at switch counters, speeds that differ, flow control and MTU (`doctor preflight GROUP`)",
};

/// Functions that discard packets without a route: one that discards (`blackhole`), or one whose device is down.
const DISCARDED: [&str; 2] = ["dst_discard", "dst_discard_out"];
const NO_WAY_OUT: Meaning = Meaning {
    stage: Stage::SenderIp,
    why: "their outgoing route discards them: a blackhole, or its device went down",
    remedy: "see route and device (`ip route get ADDRESS`, `ip link`)",
};
const NO_WAY_IN: Meaning = Meaning {
    stage: Stage::ReceiverIp,
    why: "the route for their address discards them on this host: a blackhole, or its device went down",
    remedy: "see this host's route to their destination (`ip route get ADDRESS`, `ip route show type blackhole`)",
};

/// Functions of the kernel that free without a reason (`NOT_SPECIFIED`).
const LOCATIONS: &[(&[&str], Meaning)] = &[
    (
        &["ip_rcv_finish_core", "ip_rcv_core", "ip6_rcv_core", "ip6_rcv_finish_core", "ip6_mc_input"],
        NOT_WANTED,
    ),
    (&["ip_defrag", "ipv6_frag_rcv"], NO_MEMORY_FOR_FRAGMENTS),
    // IPv6 only; IPv4 reports `NEIGH_FAILED` there.
    (&["neigh_invalidate"], NO_NEIGHBOUR),
    (&["do_xdp_generic", "veth_xdp_rcv_skb"], PROGRAM_ON_DEVICE),
    // IPv4 only, on a host that forwards; IPv6 discards.
    (&["ip_error"], NO_WAY_IN),
];

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
        self.meaning().map(|meaning| meaning.stage)
    }

    pub(crate) fn meaning(&self) -> Option<Meaning> {
        if &*self.reason == FIREWALL {
            return Some(if self.is_incoming { FIREWALL_IN } else { FIREWALL_OUT });
        }
        if &*self.reason == HOLE {
            return Some(if self.is_incoming { NEVER_CAME } else { MISSING_BEHIND_QUEUE });
        }
        let at = self.location.as_deref();
        let by_place = || match at? {
            at if DISCARDED.contains(&at) => Some(if self.is_incoming { NO_WAY_IN } else { NO_WAY_OUT }),
            at => find(LOCATIONS, at),
        };
        find(REASONS, &self.reason).or_else(by_place)
    }
}

fn find(table: &[(&[&str], Meaning)], wanted: &str) -> Option<Meaning> {
    table.iter().find(|(names, _)| names.contains(&wanted)).map(|(_, meaning)| *meaning)
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
    fn every_name_stands_once() {
        let mut names: Vec<_> = REASONS.iter().chain(LOCATIONS).flat_map(|(names, _)| names.iter()).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
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
