//! Table of causes: where data are lost on a host, why, what helps, and the signs in the kernel that show it.
//!
//! Three indexes point into it: the reasons and functions of drop events (`events/reasons.rs`), counters
//! (`watch/counters.rs`), and the names of drivers' counters (`watch/driver.rs`). The guide `docs/guide/losses.md`
//! is compared with it (`tests/guide.rs`).
//!
//! Source: `include/net/dropreason-core.h`, documentation and sources of the drivers (`drivers/net/ethernet`, `veth.c`,
//! `virtio_net.c`), Linux 6.18, and the losses that the laboratory plants.

use ledger::Stage;

use crate::Remedy;
use crate::events::checkpoints::HOLE;
use crate::fix::tunables::BACKLOG;
use crate::watch::finding::Place;
use crate::watch::snapshot::Settings;

/// Name of the cause of datagrams to a group that was not joined where they arrived.
pub(crate) const NOT_JOINED: &str = "not_joined";

/// Cause of a loss, and the signs that show it.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// Name.
    pub name: &'static str,
    /// Stage at which data are lost.
    pub stage: Stage,
    /// Explanation, of which the lost data are the subject.
    pub why: &'static str,
    /// Remedies for a person, the most likely first; `DEVICE` stands for the device's name.
    pub remedies: &'static [&'static str],
    /// Change that the doctor can make and undo instead, where the settings are known.
    pub change: Option<fn(&Settings) -> Remedy>,
    /// Reasons of drop events, as the kernel names them without `SKB_DROP_REASON_`.
    pub reasons: &'static [&'static str],
    /// Functions of the kernel that free data without a reason (`NOT_SPECIFIED`).
    pub functions: &'static [&'static str],
    /// Counters whose sum is the loss; counted for each `/DEVICE`, each `/CPU`, or the namespace. Causes with the same
    /// counters are several explanations of one loss.
    pub counters: &'static [&'static str],
    /// Counters of drivers (`ethtool -S`), by name without queue and number: `rx_drops` is also `rx0_drops`,
    /// `rx_queue_0_drops` and `[0]: rx_drops`.
    pub drivers: &'static [(DriverCount, &'static [&'static str])],
}

/// Relation of a driver's counter to the number of packets lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverCount {
    /// Each count is a packet for which the device had no room.
    NoRoom,
    /// The counter gives the reason, but not the number of packets lost.
    Hint,
    /// Each count is a packet that no other counter includes.
    Apart,
}

impl Cause {
    /// Returns the remedies at a place: the change where the settings are known, otherwise those for a person.
    pub(crate) fn remedies(&self, place: &Place, settings: Option<&Settings>) -> Vec<Remedy> {
        if let Some((change, settings)) = self.change.zip(settings) {
            return vec![change(settings)];
        }
        let named = |what: &str| match place {
            Place::Device(device) => Remedy::by_hand(&what.replace("DEVICE", device)),
            _ => Remedy::by_hand(what),
        };
        self.remedies.iter().map(|what| named(what)).collect()
    }
}

const NO_SIGN: Cause = Cause {
    name: "",
    stage: Stage::Source,
    why: "",
    remedies: &[],
    change: None,
    reasons: &[],
    functions: &[],
    counters: &[],
    drivers: &[],
};

const LOWER_RATE: &str = "send at a lower rate: pace the sender below the rate of the device";
const LONGER_QUEUE: &str = "make the limit of the queue larger (`tc -s qdisc` shows which)";
const SMALLER: &str = "send datagrams that fit into the path's MTU (`mtu=` on the bus; `tallycast bench -c HOST -u --probe-mtu` finds it)";
/// Errors and drops of a device, which include those of its driver. Source: `/proc/net/dev`.
const RECEIVE_ERRORS: &[&str] = &["rx_errs/DEVICE", "rx_drop/DEVICE"];
const REASSEMBLY_FAILURES: &[&str] = &["IpReasmFails", "Ip6ReasmFails"];

/// All known causes, in the order of the path.
pub static CAUSES: &[Cause] = &[
    Cause {
        name: "no_route",
        stage: Stage::SenderIp,
        why: "there is no route to their destination",
        remedies: &[
            "add a route to the destination (`ip route add ADDRESS dev DEVICE`), or name the interface (`iface=` on the bus)",
        ],
        reasons: &["IP_OUTNOROUTES"],
        counters: &["IpOutNoRoutes", "Ip6OutNoRoutes"],
        ..NO_SIGN
    },
    Cause {
        name: "route_out_discards",
        stage: Stage::SenderIp,
        why: "their outgoing route discards them: a blackhole, or its device went down",
        remedies: &["see route and device (`ip route get ADDRESS`, `ip link`)"],
        functions: &["dst_discard", "dst_discard_out"],
        ..NO_SIGN
    },
    Cause {
        name: "no_neighbour",
        stage: Stage::SenderIp,
        why: "the receiver's hardware address was not known: it did not answer, or too many datagrams waited for its answer",
        remedies: &[
            "see whether the receiver is up (`ip neigh`); let more datagrams wait for it (net.ipv4.neigh.DEVICE.unres_qlen_bytes), or give it a permanent entry (`ip neigh replace ADDRESS lladdr MAC dev DEVICE nud permanent`)",
        ],
        reasons: &["NEIGH_FAILED", "NEIGH_QUEUEFULL", "NEIGH_DEAD", "NEIGH_CREATEFAIL"],
        // IPv6 only; IPv4 reports `NEIGH_FAILED` there.
        functions: &["neigh_invalidate"],
        ..NO_SIGN
    },
    Cause {
        name: "firewall_out",
        stage: Stage::SenderIp,
        why: "a firewall rule of this host dropped outgoing packets",
        remedies: &["find the rule (`nft list ruleset`, `iptables -vnL OUTPUT`)"],
        reasons: &["NETFILTER_DROP"],
        ..NO_SIGN
    },
    Cause {
        name: "send_refused",
        stage: Stage::SenderIp,
        why: "the send path refused them: a control group's program, or too large",
        remedies: &[
            "see the programs of control groups (`bpftool cgroup tree`) and the datagrams' size (`mtu=` on the bus)",
        ],
        reasons: &["BPF_CGROUP_EGRESS", "PKT_TOO_BIG"],
        ..NO_SIGN
    },
    Cause {
        name: "queue_full",
        stage: Stage::SenderQdisc,
        why: "the queue discipline of the device they leave by had no room for them",
        remedies: &[LOWER_RATE, LONGER_QUEUE],
        reasons: &[
            "QDISC_DROP",
            "QDISC_OVERLIMIT",
            "QDISC_CONGESTED",
            "TC_EGRESS",
            "CAKE_FLOOD",
            "FQ_BAND_LIMIT",
            "FQ_HORIZON_LIMIT",
            "FQ_FLOW_LIMIT",
        ],
        counters: &["qdisc_drops/DEVICE"],
        ..NO_SIGN
    },
    Cause {
        name: "left_in_queue",
        stage: Stage::SenderQdisc,
        why: "they entered the queue of the device they leave by, and did not leave it",
        remedies: &[LOWER_RATE, LONGER_QUEUE],
        reasons: &[HOLE],
        ..NO_SIGN
    },
    Cause {
        name: "device_cannot_send",
        stage: Stage::SenderNic,
        why: "the device could not send them",
        remedies: &[
            "send at a lower rate, or make the ring or queue of the device larger (`ethtool -g DEVICE`, `ethtool -G DEVICE tx N`; `ip link set DEVICE txqueuelen N`); where its carrier went, another cable",
        ],
        reasons: &["FULL_RING", "DEV_READY", "DEV_HDR"],
        counters: &["tx_errs/DEVICE", "tx_drop/DEVICE"],
        drivers: &[(
            DriverCount::Hint,
            &[
                "tx_dropped",
                "tx_discards_phy",
                "tx_aborted_errors",
                "tx_carrier_errors",
                "tx_fifo_errors",
                "tx_timeout_count",
            ],
        )],
        ..NO_SIGN
    },
    Cause {
        name: "never_arrived",
        stage: Stage::Network,
        why: "they never arrived at this host: lost on the path, or at their sender after the last point that this host can see",
        remedies: &[
            "let a doctor watch at the sender's host too (`tallycast doctor watch --checkpoints`): datagrams that leave it are lost between the hosts; look there at switch counters, speeds that differ, flow control and MTU (`tallycast doctor preflight GROUP`)",
        ],
        reasons: &[HOLE],
        ..NO_SIGN
    },
    Cause {
        name: "card_memory_full",
        stage: Stage::ReceiverNic,
        why: "the card's own memory was full: the host did not take them fast enough",
        remedies: &[
            "switch flow control on (`ethtool -A DEVICE rx on`), and see that the card has all lanes of its slot (`lspci -vv`, LnkSta)",
        ],
        drivers: &[(DriverCount::Apart, &["rx_discards_phy"])],
        ..NO_SIGN
    },
    Cause {
        name: "ring_full",
        stage: Stage::ReceiverNic,
        why: "the device had no room for them: its ring was full",
        remedies: &[
            "make the ring larger (`ethtool -g DEVICE`, `ethtool -G DEVICE rx N`), shorten the card's interrupt delay (`ethtool -C DEVICE rx-usecs N`), or switch flow control on (`ethtool -A DEVICE rx on`)",
        ],
        counters: RECEIVE_ERRORS,
        drivers: &[
            (
                DriverCount::NoRoom,
                // Those of Intel, many others, Mellanox, Broadcom, and of virtual machines.
                &[
                    "rx_missed_errors",
                    "rx_missed",
                    "rx_no_dma_resources",
                    "rx_fifo_errors",
                    "rx_over_errors",
                    "rx_out_of_buffer",
                    "rx_discards",
                    "rx_dropped_nic",
                    "rx_drops",
                ],
            ),
            (DriverCount::Hint, &["rx_no_buffer_count", "rx_no_buffer"]),
        ],
        ..NO_SIGN
    },
    Cause {
        name: "no_receive_memory",
        stage: Stage::ReceiverNic,
        why: "the kernel had no memory for what came in",
        remedies: &["let the kernel keep more memory free (vm.min_free_kbytes), or let programs use less"],
        drivers: &[(
            DriverCount::Hint,
            &[
                "alloc_rx_buff_failed",
                "alloc_rx_page_failed",
                "rx_alloc_failed",
                "rx_alloc_err",
                "rx_buff_alloc_err",
                "rx_page_alloc_fail",
            ],
        )],
        ..NO_SIGN
    },
    Cause {
        name: "damaged",
        stage: Stage::ReceiverNic,
        why: "they arrived damaged",
        remedies: &[
            "look for the faulty part: another cable, another port of the switch, one speed and MTU at both ends (`ethtool DEVICE`)",
        ],
        counters: RECEIVE_ERRORS,
        drivers: &[(
            DriverCount::Hint,
            &[
                "rx_crc_errors",
                "rx_crc_errors_phy",
                "rx_fcs_errors",
                "rx_frame_errors",
                "rx_align_errors",
                "rx_symbol_err_phy",
                "rx_symbol_errors",
                "rx_length_errors",
                "rx_long_length_errors",
                "rx_short_length_errors",
            ],
        )],
        ..NO_SIGN
    },
    Cause {
        name: "unknown_protocol",
        stage: Stage::ReceiverNic,
        why: "no program receives their protocol",
        remedies: &["see which counter of the driver rises, if any does (`ethtool -S DEVICE`)"],
        counters: RECEIVE_ERRORS,
        ..NO_SIGN
    },
    Cause {
        name: "xdp_program",
        stage: Stage::ReceiverHook,
        why: "an XDP program on the device they came in by dropped them",
        remedies: &["see what it is (`ip -d link show DEVICE`, `bpftool net show dev DEVICE`)"],
        reasons: &["XDP"],
        functions: &["do_xdp_generic", "veth_xdp_rcv_skb"],
        drivers: &[(
            DriverCount::Apart,
            &["rx_xdp_drops", "rx_xdp_drop", "xdp_drops", "xdp_drop", "rx_xdp_aborted", "xdp_aborted"],
        )],
        ..NO_SIGN
    },
    Cause {
        name: "ingress_program",
        stage: Stage::ReceiverHook,
        why: "a program or filter on the device they came in by dropped them",
        remedies: &["see what it is (`tc filter show dev DEVICE ingress`, `bpftool net show dev DEVICE`)"],
        reasons: &["TC_INGRESS"],
        counters: &["ingress_drops/DEVICE"],
        ..NO_SIGN
    },
    Cause {
        name: "firewall_in",
        stage: Stage::ReceiverHook,
        why: "a firewall rule of this host dropped incoming packets",
        remedies: &["find the rule (`nft list ruleset`, `iptables -vnL INPUT`)"],
        reasons: &["NETFILTER_DROP"],
        ..NO_SIGN
    },
    Cause {
        name: "backlog_full",
        stage: Stage::ReceiverBacklog,
        why: "the backlog of a processor was full: its softirq could not keep up",
        remedies: &[
            "a longer backlog (net.core.netdev_max_backlog), work spread over processors (RPS), shorter rule sets",
        ],
        change: Some(longer_backlog),
        reasons: &["CPU_BACKLOG"],
        counters: &["softnet_dropped/CPU"],
        ..NO_SIGN
    },
    Cause {
        name: "reverse_path",
        stage: Stage::ReceiverIp,
        why: "the route back to their sender uses another interface (rp_filter)",
        remedies: &[
            "set net.ipv4.conf.DEVICE.rp_filter to 2, whatever that of `all` is, or add a route to the sender",
        ],
        reasons: &["IP_RPFILTER"],
        counters: &["TcpExtIPReversePathFilter"],
        ..NO_SIGN
    },
    Cause {
        name: "not_for_this_host",
        stage: Stage::ReceiverIp,
        why: "their IP header or address was not for this host",
        remedies: &["see addresses and routes of both hosts (`ip address`, `ip route get ADDRESS`)"],
        reasons: &[
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
        ..NO_SIGN
    },
    Cause {
        name: NOT_JOINED,
        stage: Stage::ReceiverIp,
        why: "their group was not joined on the interface where they arrived, or their address is not this host's",
        remedies: &[
            "let the reader join on that interface (`iface=` on the bus; `ip maddress` shows who joined where)",
        ],
        functions: &[
            "ip_rcv_finish_core",
            "ip_rcv_core",
            "ip6_rcv_core",
            "ip6_rcv_finish_core",
            "ip6_mc_input",
        ],
        ..NO_SIGN
    },
    Cause {
        name: "route_in_discards",
        stage: Stage::ReceiverIp,
        why: "the route for their address discards them on this host: a blackhole, or its device went down",
        remedies: &[
            "see this host's route to their destination (`ip route get ADDRESS`, `ip route show type blackhole`)",
        ],
        // `ip_error`: IPv4 only, on a host that forwards; IPv6 discards.
        functions: &["dst_discard", "dst_discard_out", "ip_error"],
        ..NO_SIGN
    },
    Cause {
        name: "fragments_missing",
        stage: Stage::ReceiverReassembly,
        why: "some of their fragments were missing",
        remedies: &[SMALLER],
        reasons: &["FRAG_REASM_TIMEOUT", "FRAG_TOO_FAR", "DUP_FRAG"],
        counters: REASSEMBLY_FAILURES,
        ..NO_SIGN
    },
    Cause {
        name: "no_fragment_memory",
        stage: Stage::ReceiverReassembly,
        why: "their fragments did not fit together, or there was no memory to wait for the others",
        remedies: &[SMALLER, "give fragments more memory to wait in (net.ipv4.ipfrag_high_thresh)"],
        functions: &["ip_defrag", "ipv6_frag_rcv"],
        counters: REASSEMBLY_FAILURES,
        ..NO_SIGN
    },
    Cause {
        name: "wrong_checksum",
        stage: Stage::ReceiverChecksum,
        why: "their checksum was wrong: a faulty card, cable, switch or offload",
        remedies: &[
            "look for the faulty part: another cable, `ethtool -K DEVICE rx off` to try without the card's own check",
        ],
        reasons: &["UDP_CSUM", "SKB_CSUM"],
        counters: &["UdpInCsumErrors", "Udp6InCsumErrors"],
        ..NO_SIGN
    },
    Cause {
        name: "no_socket",
        stage: Stage::ReceiverNoSocket,
        why: "no socket was bound to their destination",
        remedies: &["start the reader first, and see that port and address are those it is bound to"],
        reasons: &["NO_SOCKET"],
        counters: &["UdpNoPorts", "Udp6NoPorts"],
        ..NO_SIGN
    },
    // Sockets count the last three themselves (`watch.rs`); which thread let the buffer fill is a `BufferCause`.
    Cause {
        name: "socket_filter",
        stage: Stage::ReceiverSocketFilter,
        why: "the socket's filter refused them",
        remedies: &["look at the program's socket filter (SO_ATTACH_FILTER, SO_ATTACH_BPF)"],
        reasons: &["SOCKET_FILTER"],
        ..NO_SIGN
    },
    Cause {
        name: "receive_buffer_full",
        stage: Stage::ReceiverSocketBuffer,
        why: "the receive buffer was full",
        remedies: &["a larger receive buffer (SO_RCVBUF), or a faster reader"],
        reasons: &["SOCKET_RCVBUFF", "SOCKET_RCVBUF"],
        ..NO_SIGN
    },
    Cause {
        name: "udp_memory",
        stage: Stage::ReceiverUdpMemory,
        why: "the host's memory for UDP was used up (net.ipv4.udp_mem)",
        remedies: &[
            "give UDP more memory (net.ipv4.udp_mem, in pages), or let fewer sockets have smaller buffers",
        ],
        reasons: &["PROTO_MEM"],
        ..NO_SIGN
    },
];

fn longer_backlog(settings: &Settings) -> Remedy {
    /// Default in the kernel (`net/core/hotdata.c`).
    const DEFAULT: u64 = 1_000;
    let now = settings.netdev_max_backlog;
    let value = now.unwrap_or(DEFAULT).saturating_mul(2);
    Remedy::by_sysctl("twice as long a backlog", BACKLOG, value, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_name_an_explanation_a_remedy_and_a_sign() {
        for cause in CAUSES {
            let same_name = CAUSES.iter().filter(|it| it.name == cause.name || it.why == cause.why);
            assert_eq!(same_name.count(), 1, "{cause:?}");
            assert!(!cause.remedies.is_empty(), "{cause:?}");
            let signs =
                cause.reasons.len() + cause.functions.len() + cause.counters.len() + cause.drivers.len();
            assert!(signs > 0, "{cause:?}");
        }
        assert!(CAUSES.is_sorted_by_key(|cause| cause.stage), "in the order of the path");
    }

    #[test]
    fn a_backlog_becomes_twice_what_it_is() {
        let remedy = longer_backlog(&Settings { netdev_max_backlog: Some(3_000), ..Settings::default() });
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=6000"));
        let remedy = longer_backlog(&Settings::default());
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=2000"));
    }

    #[test]
    fn the_doctor_undoes_what_it_changes() {
        let settings = Settings { netdev_max_backlog: Some(3_000), ..Settings::default() };
        for change in CAUSES.iter().filter_map(|cause| cause.change) {
            assert!(change(&settings).undo().is_some());
        }
    }
}
