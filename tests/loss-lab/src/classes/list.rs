//! Every class of loss, in the order along the path.

use std::time::Duration;

use ledger::Stage;

use super::steps::boxed;
use super::{BOTH, Class, Sight, V4, class, device, host, larger_buffer, path, remedied_by, socket, starved};
use crate::remedy::{Knob, Remedy};

/// Settings that remedies change.
const QUEUE: Knob = Knob::Sender("tc -d qdisc show dev eth0");
const RING: Knob = Knob::Sender("cat /sys/class/net/tun1/tx_queue_len");
const WAY_BACK: Knob = Knob::Reader("sysctl -n net.ipv4.conf.eth0.rp_filter net.ipv4.conf.all.rp_filter");

/// Every class.
pub(crate) const CLASSES: &[Class] = &[
    class("control", "nothing is lost", BOTH, &[], Sight::Numbers, socket::nothing_lost),
    Class {
        is_of_ports: true,
        ..class(
            "busy",
            "for twenty seconds all arrives, beside a stranger whose reader loses nearly everything",
            V4,
            &[],
            Sight::Numbers,
            |scene| socket::nothing_lost_beside_a_stranger(scene, Duration::from_secs(20)),
        )
    },
    Class {
        is_of_ports: true,
        only_if_named: true,
        ..class(
            "busy_long",
            "for ten minutes all arrives, beside a stranger whose reader loses nearly everything",
            V4,
            &[],
            Sight::Numbers,
            |scene| socket::nothing_lost_beside_a_stranger(scene, Duration::from_secs(600)),
        )
    },
    Class {
        prepare: path::throttled,
        ..class(
            "send_buffer",
            "the sender does not wait for room in its own socket: nothing is lost",
            BOTH,
            &[],
            Sight::Numbers,
            path::send_from_a_small_buffer,
        )
    },
    Class {
        prepare: path::firewall_out,
        ..class(
            "firewall_out",
            "a rule of the sender drops every seventh",
            BOTH,
            &[Stage::SenderIp],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::no_neighbour,
        patience: Duration::from_secs(10),
        ..class(
            "neighbour",
            "the receiver's hardware address is not answered",
            BOTH,
            &[Stage::SenderIp],
            Sight::NoCounter,
            path::send_to_nobody,
        )
    },
    Class {
        prepare: path::throttled,
        remedy: remedied_by(QUEUE, BOTH, |scene| boxed(path::more_than_a_token_bucket_holds(scene)), 80),
        ..class(
            "queue_tbf",
            "the sender's token bucket has no room",
            BOTH,
            &[Stage::SenderQdisc],
            Sight::Numbers,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::short_queue,
        remedy: remedied_by(QUEUE, V4, |scene| boxed(path::more_than_ten(scene)), 70),
        ..class(
            "queue_pfifo",
            "ten packets wait behind 4 Mbit/s",
            BOTH,
            &[Stage::SenderQdisc],
            Sight::Numbers,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::throttled,
        ..class(
            "queue_train",
            "trains of eight meet a token bucket",
            BOTH,
            &[Stage::SenderQdisc],
            Sight::NoCounter,
            path::send_trains_of_eight,
        )
    },
    Class {
        prepare: path::throttled,
        ..class(
            "queue_long_train",
            "trains of forty, with their payload in pages, meet a token bucket",
            BOTH,
            &[Stage::SenderQdisc],
            Sight::NoCounter,
            path::send_trains_of_forty,
        )
    },
    Class {
        prepare: device::tunnel,
        remedy: remedied_by(RING, V4, device::into_a_short_ring, 20),
        ..class(
            "tun_ring",
            "nobody reads the tunnel they leave by, and its ring is full",
            BOTH,
            &[Stage::SenderNic],
            Sight::Numbers,
            device::send_into_a_full_ring,
        )
    },
    Class {
        prepare: path::lossy_bridge,
        has_checkpoints: true,
        ..class(
            "network",
            "a third host between the two loses every ninth",
            BOTH,
            &[Stage::Network],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::firewall_on_device,
        ..class(
            "firewall_device",
            "a rule on the reader's device drops every seventh",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::firewall_on_device,
        ..class(
            "firewall_device_train",
            "a rule on the reader's device drops every seventh train of eight",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_trains_of_eight,
        )
    },
    Class {
        prepare: path::program_on_device,
        ..class(
            "tc_ingress",
            "a program on the reader's device drops one in eight, at random",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::program_on_device,
        ..class(
            "tc_ingress_train",
            "a program on the reader's device drops one train of eight in eight, at random",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::Trains("ingress_drops/"),
            path::send_trains_of_eight,
        )
    },
    Class {
        prepare: device::xdp_on_device,
        ..class(
            "xdp",
            "an XDP program on the reader's device drops one in eight, at random",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: device::xdp_in_driver,
        counter: Some("xdp_drops/eth0"),
        ..class(
            "xdp_driver",
            "an XDP program in the driver of the reader's device drops one in eight, at random",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::Numbers,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::firewall_in,
        ..class(
            "firewall_in",
            "a rule of the reader drops every seventh",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::firewall_in,
        ..class(
            "firewall_in_train",
            "a rule of the reader drops every seventh train of eight, before they are cut",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_trains_of_eight,
        )
    },
    Class {
        prepare: path::firewall_in,
        ..class(
            "firewall_in_gro",
            "the same, and the reader takes trains",
            BOTH,
            &[Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_trains_of_eight_to_who_takes_them,
        )
    },
    Class {
        prepare: path::slow_softirq,
        is_of_whole_host: true,
        remedy: remedied_by(
            Knob::Host("/proc/sys/net/core/netdev_max_backlog"),
            BOTH,
            |scene| boxed(socket::long_bursts(scene)),
            60,
        ),
        ..class(
            "backlog",
            "another processor takes what comes in, and a long list of rules makes it slow",
            BOTH,
            &[Stage::ReceiverBacklog],
            Sight::Numbers,
            path::send_faster_than_a_softirq,
        )
    },
    Class {
        prepare: path::slow_softirq,
        is_of_whole_host: true,
        ..class(
            "backlog_train",
            "the same with trains of eight",
            BOTH,
            &[Stage::ReceiverBacklog],
            Sight::Trains("softnet_dropped/"),
            path::send_trains_faster_than_a_softirq,
        )
    },
    Class {
        prepare: host::blackhole_route,
        ..class(
            "blackhole_route",
            "the reader is to pass them on, and has a route that discards them",
            BOTH,
            &[Stage::ReceiverIp],
            Sight::NoCounter,
            host::send_into_a_blackhole,
        )
    },
    Class {
        prepare: host::strict_way_back,
        remedy: remedied_by(WAY_BACK, V4, |scene| boxed(host::from_elsewhere(scene)), 10),
        ..class(
            "rp_filter",
            "the way back to the sender leads over another interface",
            V4,
            &[Stage::ReceiverIp],
            Sight::Numbers,
            host::send_from_elsewhere,
        )
    },
    class(
        "not_joined",
        "the group is joined on another interface",
        V4,
        &[Stage::ReceiverIp],
        Sight::NoCounter,
        host::send_to_a_group_joined_elsewhere,
    ),
    Class {
        prepare: host::impatient_reassembly,
        patience: Duration::from_secs(10),
        ..class(
            "last_fragment",
            "the last fragment is missing",
            V4,
            &[Stage::ReceiverReassembly],
            Sight::NoCounter,
            host::send_without_last_fragment,
        )
    },
    Class {
        prepare: host::impatient_reassembly,
        patience: Duration::from_secs(3),
        ..class(
            "first_fragment",
            "the first fragment, which has ports and number, never came",
            V4,
            &[Stage::ReceiverReassembly],
            Sight::Unnumbered,
            host::send_without_first_fragment,
        )
    },
    Class {
        prepare: host::little_memory_for_fragments,
        patience: Duration::from_secs(5),
        remedy: Some(Remedy {
            steps: host::in_fragments,
            knob: Knob::Reader("sysctl -n net.ipv4.ipfrag_high_thresh net.ipv6.ip6frag_high_thresh"),
            versions: BOTH,
            period: Duration::from_millis(30),
            // The fragments, and the incomplete datagram itself.
            parts: 22,
        }),
        ..class(
            "fragment_memory",
            "there is no memory to wait for fragments",
            BOTH,
            &[Stage::ReceiverReassembly],
            Sight::NoCounter,
            host::send_in_fragments,
        )
    },
    class(
        "checksum",
        "every tenth has a wrong checksum",
        V4,
        &[Stage::ReceiverChecksum],
        Sight::Numbers,
        host::send_wrong_checksums,
    ),
    class(
        "no_socket",
        "nobody is bound to the port",
        BOTH,
        &[Stage::ReceiverNoSocket],
        Sight::Numbers,
        socket::send_to_no_socket,
    ),
    class(
        "no_socket_train",
        "trains of eight, and nobody is bound to the port",
        BOTH,
        &[Stage::ReceiverNoSocket],
        Sight::Trains("NoPorts"),
        socket::send_trains_to_no_socket,
    ),
    class(
        "socket_filter",
        "the socket's filter refuses all",
        BOTH,
        &[Stage::ReceiverSocketFilter],
        Sight::Numbers,
        socket::send_to_a_filter,
    ),
    class(
        "socket_filter_gro",
        "the socket's filter refuses all, and it takes trains",
        BOTH,
        &[Stage::ReceiverSocketFilter],
        Sight::Trains("SK_MEMINFO_DROPS"),
        socket::send_trains_to_a_filter,
    ),
    Class {
        remedy: larger_buffer(BOTH, |scene| boxed(socket::small_buffer(scene))),
        ..class(
            "receive_buffer",
            "the reader's buffer holds three",
            BOTH,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            socket::send_to_a_small_buffer,
        )
    },
    Class {
        remedy: larger_buffer(V4, |scene| boxed(socket::trains_to_a_small_buffer(scene))),
        ..class(
            "receive_buffer_train",
            "trains of eight are cut before a small buffer",
            BOTH,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            socket::send_trains_to_a_small_buffer,
        )
    },
    Class {
        remedy: larger_buffer(V4, |scene| boxed(socket::trains_to_a_small_buffer_that_takes_trains(scene))),
        ..class(
            "receive_buffer_gro",
            "trains of eight meet a small buffer whole",
            BOTH,
            &[Stage::ReceiverSocketBuffer],
            Sight::Trains("SK_MEMINFO_DROPS"),
            socket::send_trains_to_a_small_buffer_that_takes_trains,
        )
    },
    Class {
        remedy: larger_buffer(V4, |scene| boxed(socket::large_to_a_small_buffer(scene))),
        ..class(
            "receive_buffer_large",
            "datagrams of 30,000 bytes meet a small buffer",
            BOTH,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            socket::send_large_to_a_small_buffer,
        )
    },
    Class {
        prepare: path::jumbo,
        remedy: larger_buffer(V4, |scene| boxed(socket::large_to_a_small_buffer(scene))),
        ..class(
            "receive_buffer_paged",
            "datagrams of 30,000 bytes in one packet each meet a small buffer",
            BOTH,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            socket::send_large_to_a_small_buffer,
        )
    },
    Class {
        remedy: remedied_by(Knob::Threads, V4, starved::starved_reader, 5),
        ..class(
            "starved_reader",
            "other programs leave the reader too little of its processor",
            V4,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            starved::send_to_a_starved_reader,
        )
    },
    Class {
        only_if_named: true,
        remedy: remedied_by(Knob::Host("/proc/sys/net/ipv4/udp_mem"), V4, socket::without_udp_memory, 60),
        ..class(
            "udp_memory",
            "the machine's memory for UDP is used up: it is lowered for a moment, for every program",
            BOTH,
            &[Stage::ReceiverUdpMemory],
            Sight::Numbers,
            socket::send_without_udp_memory,
        )
    },
    Class {
        remedy: larger_buffer(V4, |scene| boxed(socket::group_with_a_slow_reader(scene))),
        ..class(
            "one_slow_of_two",
            "one of two readers of a group has a small buffer",
            V4,
            &[Stage::ReceiverSocketBuffer],
            Sight::Numbers,
            socket::send_to_a_group_with_a_slow_reader,
        )
    },
    Class {
        prepare: path::firewall_out,
        remedy: larger_buffer(V4, |scene| boxed(socket::small_buffer(scene))),
        ..class(
            "two_at_once",
            "a rule of the sender and a small buffer",
            BOTH,
            &[Stage::SenderIp, Stage::ReceiverSocketBuffer],
            Sight::NoCounter,
            socket::send_to_a_small_buffer,
        )
    },
    Class {
        prepare: path::firewall_in,
        remedy: larger_buffer(V4, |scene| boxed(socket::small_buffer(scene))),
        ..class(
            "two_on_one_host",
            "a rule of the reader and a small buffer",
            BOTH,
            &[Stage::ReceiverHook, Stage::ReceiverSocketBuffer],
            Sight::NoCounter,
            socket::send_to_a_small_buffer,
        )
    },
    Class {
        prepare: path::firewalls,
        ..class(
            "two_firewalls",
            "a rule of the sender and one of the reader",
            BOTH,
            &[Stage::SenderIp, Stage::ReceiverHook],
            Sight::NoCounter,
            path::send_two_thousand,
        )
    },
    Class {
        prepare: path::throttled,
        ..class(
            "queue_and_buffer",
            "a token bucket of the sender and a small buffer",
            BOTH,
            &[Stage::SenderQdisc, Stage::ReceiverSocketBuffer],
            Sight::NoCounter,
            socket::send_long_to_a_small_buffer,
        )
    },
    Class {
        prepare: path::program_on_device,
        remedy: larger_buffer(V4, |scene| boxed(socket::small_buffer(scene))),
        ..class(
            "program_and_buffer",
            "a program on the reader's device and a small buffer",
            BOTH,
            &[Stage::ReceiverHook, Stage::ReceiverSocketBuffer],
            Sight::NoCounter,
            socket::send_to_a_small_buffer,
        )
    },
    Class {
        prepare: host::firewall_and_little_memory,
        patience: Duration::from_secs(5),
        ..class(
            "firewall_and_fragments",
            "a rule of the sender, and no memory of the reader's to wait for fragments",
            V4,
            &[Stage::SenderIp, Stage::ReceiverReassembly],
            Sight::NoCounter,
            host::send_in_fragments,
        )
    },
];
