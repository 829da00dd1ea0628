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
    class("control", socket::nothing_lost).about("nothing is lost"),
    Class {
        is_of_ports: true,
        ..class("busy", |scene| socket::nothing_lost_beside_a_stranger(scene, Duration::from_secs(20)))
            .about("for twenty seconds all arrives, beside a stranger whose reader loses nearly everything")
            .only_over_ipv4()
    },
    Class {
        is_of_ports: true,
        only_if_named: true,
        ..class("busy_long", |scene| socket::nothing_lost_beside_a_stranger(scene, Duration::from_secs(600)))
            .about("for ten minutes all arrives, beside a stranger whose reader loses nearly everything")
            .only_over_ipv4()
    },
    class("send_buffer", path::send_from_a_small_buffer)
        .about("the sender does not wait for room in its own socket: nothing is lost")
        .prepared_by(path::throttled),
    class("firewall_out", path::send_two_thousand)
        .about("a rule of the sender drops every seventh")
        .prepared_by(path::firewall_out)
        .lost_at(&[Stage::SenderIp], Sight::NoCounter),
    class("neighbour", path::send_to_nobody)
        .about("the receiver's hardware address is not answered")
        .prepared_by(path::no_neighbour)
        .lost_at(&[Stage::SenderIp], Sight::NoCounter)
        .given_up_within(Duration::from_secs(10)),
    class("queue_tbf", path::send_two_thousand)
        .about("the sender's token bucket has no room")
        .prepared_by(path::throttled)
        .lost_at(&[Stage::SenderQdisc], Sight::Numbers)
        .fixed_by(remedied_by(QUEUE, BOTH, |scene| boxed(path::more_than_a_token_bucket_holds(scene)), 80)),
    class("queue_pfifo", path::send_two_thousand)
        .about("ten packets wait behind 4 Mbit/s")
        .prepared_by(path::short_queue)
        .lost_at(&[Stage::SenderQdisc], Sight::Numbers)
        .fixed_by(remedied_by(QUEUE, V4, |scene| boxed(path::more_than_ten(scene)), 70)),
    class("queue_train", path::send_trains_of_eight)
        .about("trains of eight meet a token bucket")
        .prepared_by(path::throttled)
        .lost_at(&[Stage::SenderQdisc], Sight::NoCounter),
    class("queue_long_train", path::send_trains_of_forty)
        .about("trains of forty, with their payload in pages, meet a token bucket")
        .prepared_by(path::throttled)
        .lost_at(&[Stage::SenderQdisc], Sight::NoCounter),
    class("tun_ring", device::send_into_a_full_ring)
        .about("nobody reads the tunnel they leave by, and its ring is full")
        .prepared_by(device::tunnel)
        .lost_at(&[Stage::SenderNic], Sight::Numbers)
        .fixed_by(remedied_by(RING, V4, device::into_a_short_ring, 20)),
    Class {
        has_checkpoints: true,
        ..class("network", path::send_two_thousand)
            .about("a third host between the two loses every ninth")
            .prepared_by(path::lossy_bridge)
            .lost_at(&[Stage::Network], Sight::NoCounter)
    },
    class("firewall_device", path::send_two_thousand)
        .about("a rule on the reader's device drops every seventh")
        .prepared_by(path::firewall_on_device)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    class("firewall_device_train", path::send_trains_of_eight)
        .about("a rule on the reader's device drops every seventh train of eight")
        .prepared_by(path::firewall_on_device)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    class("tc_ingress", path::send_two_thousand)
        .about("a program on the reader's device drops one in eight, at random")
        .prepared_by(path::program_on_device)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    class("tc_ingress_train", path::send_trains_of_eight)
        .about("a program on the reader's device drops one train of eight in eight, at random")
        .prepared_by(path::program_on_device)
        .lost_at(&[Stage::ReceiverHook], Sight::Trains("ingress_drops/")),
    class("xdp", path::send_two_thousand)
        .about("an XDP program on the reader's device drops one in eight, at random")
        .prepared_by(device::xdp_on_device)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    Class {
        counter: Some("xdp_drops/eth0"),
        ..class("xdp_driver", path::send_two_thousand)
            .about("an XDP program in the driver of the reader's device drops one in eight, at random")
            .prepared_by(device::xdp_in_driver)
            .lost_at(&[Stage::ReceiverHook], Sight::Numbers)
    },
    class("firewall_in", path::send_two_thousand)
        .about("a rule of the reader drops every seventh")
        .prepared_by(path::firewall_in)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    class("firewall_in_train", path::send_trains_of_eight)
        .about("a rule of the reader drops every seventh train of eight, before they are cut")
        .prepared_by(path::firewall_in)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    class("firewall_in_gro", path::send_trains_of_eight_to_who_takes_them)
        .about("the same, and the reader takes trains")
        .prepared_by(path::firewall_in)
        .lost_at(&[Stage::ReceiverHook], Sight::NoCounter),
    Class {
        is_of_whole_host: true,
        ..class("backlog", path::send_faster_than_a_softirq)
            .about("another processor takes what comes in, and a long list of rules makes it slow")
            .prepared_by(path::slow_softirq)
            .lost_at(&[Stage::ReceiverBacklog], Sight::Numbers)
            .fixed_by(remedied_by(
                Knob::Host("/proc/sys/net/core/netdev_max_backlog"),
                BOTH,
                |scene| boxed(socket::long_bursts(scene)),
                60,
            ))
    },
    Class {
        is_of_whole_host: true,
        ..class("backlog_train", path::send_trains_faster_than_a_softirq)
            .about("the same with trains of eight")
            .prepared_by(path::slow_softirq)
            .lost_at(&[Stage::ReceiverBacklog], Sight::Trains("softnet_dropped/"))
    },
    class("blackhole_route", host::send_into_a_blackhole)
        .about("the reader is to pass them on, and has a route that discards them")
        .prepared_by(host::blackhole_route)
        .lost_at(&[Stage::ReceiverIp], Sight::NoCounter),
    class("rp_filter", host::send_from_elsewhere)
        .about("the way back to the sender leads over another interface")
        .only_over_ipv4()
        .prepared_by(host::strict_way_back)
        .lost_at(&[Stage::ReceiverIp], Sight::Numbers)
        .fixed_by(remedied_by(WAY_BACK, V4, |scene| boxed(host::from_elsewhere(scene)), 10)),
    class("not_joined", host::send_to_a_group_joined_elsewhere)
        .about("the group is joined on another interface")
        .only_over_ipv4()
        .lost_at(&[Stage::ReceiverIp], Sight::NoCounter),
    class("last_fragment", host::send_without_last_fragment)
        .about("the last fragment is missing")
        .only_over_ipv4()
        .prepared_by(host::impatient_reassembly)
        .lost_at(&[Stage::ReceiverReassembly], Sight::NoCounter)
        .given_up_within(Duration::from_secs(10)),
    class("first_fragment", host::send_without_first_fragment)
        .about("the first fragment, which has ports and number, never came")
        .only_over_ipv4()
        .prepared_by(host::impatient_reassembly)
        .lost_at(&[Stage::ReceiverReassembly], Sight::Unnumbered)
        .given_up_within(Duration::from_secs(3)),
    class("fragment_memory", host::send_in_fragments)
        .about("there is no memory to wait for fragments")
        .prepared_by(host::little_memory_for_fragments)
        .lost_at(&[Stage::ReceiverReassembly], Sight::NoCounter)
        .given_up_within(Duration::from_secs(5))
        .fixed_by(Remedy {
            steps: host::in_fragments,
            knob: Knob::Reader("sysctl -n net.ipv4.ipfrag_high_thresh net.ipv6.ip6frag_high_thresh"),
            versions: BOTH,
            period: Duration::from_millis(30),
            // The fragments, and the incomplete datagram itself.
            parts: 22,
        }),
    class("checksum", host::send_wrong_checksums)
        .about("every tenth has a wrong checksum")
        .only_over_ipv4()
        .lost_at(&[Stage::ReceiverChecksum], Sight::Numbers),
    class("no_socket", socket::send_to_no_socket)
        .about("nobody is bound to the port")
        .lost_at(&[Stage::ReceiverNoSocket], Sight::Numbers),
    class("no_socket_train", socket::send_trains_to_no_socket)
        .about("trains of eight, and nobody is bound to the port")
        .lost_at(&[Stage::ReceiverNoSocket], Sight::Trains("NoPorts")),
    class("socket_filter", socket::send_to_a_filter)
        .about("the socket's filter refuses all")
        .lost_at(&[Stage::ReceiverSocketFilter], Sight::Numbers),
    class("socket_filter_gro", socket::send_trains_to_a_filter)
        .about("the socket's filter refuses all, and it takes trains")
        .lost_at(&[Stage::ReceiverSocketFilter], Sight::Trains("SK_MEMINFO_DROPS")),
    class("receive_buffer", socket::send_to_a_small_buffer)
        .about("the reader's buffer holds three")
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(larger_buffer(BOTH, |scene| boxed(socket::small_buffer(scene)))),
    class("receive_buffer_train", socket::send_trains_to_a_small_buffer)
        .about("trains of eight are cut before a small buffer")
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::trains_to_a_small_buffer(scene)))),
    class("receive_buffer_gro", socket::send_trains_to_a_small_buffer_that_takes_trains)
        .about("trains of eight meet a small buffer whole")
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Trains("SK_MEMINFO_DROPS"))
        .fixed_by(larger_buffer(V4, |scene| {
            boxed(socket::trains_to_a_small_buffer_that_takes_trains(scene))
        })),
    class("receive_buffer_large", socket::send_large_to_a_small_buffer)
        .about("datagrams of 30,000 bytes meet a small buffer")
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::large_to_a_small_buffer(scene)))),
    class("receive_buffer_paged", socket::send_large_to_a_small_buffer)
        .about("datagrams of 30,000 bytes in one packet each meet a small buffer")
        .prepared_by(path::jumbo)
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::large_to_a_small_buffer(scene)))),
    class("starved_reader", starved::send_to_a_starved_reader)
        .about("other programs leave the reader too little of its processor")
        .only_over_ipv4()
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(remedied_by(Knob::Threads, V4, starved::starved_reader, 5)),
    Class {
        only_if_named: true,
        ..class("udp_memory", socket::send_without_udp_memory)
            .about("the machine's memory for UDP is used up: it is lowered for a moment, for every program")
            .lost_at(&[Stage::ReceiverUdpMemory], Sight::Numbers)
            .fixed_by(remedied_by(
                Knob::Host("/proc/sys/net/ipv4/udp_mem"),
                V4,
                socket::without_udp_memory,
                60,
            ))
    },
    class("one_slow_of_two", socket::send_to_a_group_with_a_slow_reader)
        .about("one of two readers of a group has a small buffer")
        .only_over_ipv4()
        .lost_at(&[Stage::ReceiverSocketBuffer], Sight::Numbers)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::group_with_a_slow_reader(scene)))),
    class("two_at_once", socket::send_to_a_small_buffer)
        .about("a rule of the sender and a small buffer")
        .prepared_by(path::firewall_out)
        .lost_at(&[Stage::SenderIp, Stage::ReceiverSocketBuffer], Sight::NoCounter)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::small_buffer(scene)))),
    class("two_on_one_host", socket::send_to_a_small_buffer)
        .about("a rule of the reader and a small buffer")
        .prepared_by(path::firewall_in)
        .lost_at(&[Stage::ReceiverHook, Stage::ReceiverSocketBuffer], Sight::NoCounter)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::small_buffer(scene)))),
    class("two_firewalls", path::send_two_thousand)
        .about("a rule of the sender and one of the reader")
        .prepared_by(path::firewalls)
        .lost_at(&[Stage::SenderIp, Stage::ReceiverHook], Sight::NoCounter),
    class("queue_and_buffer", socket::send_long_to_a_small_buffer)
        .about("a token bucket of the sender and a small buffer")
        .prepared_by(path::throttled)
        .lost_at(&[Stage::SenderQdisc, Stage::ReceiverSocketBuffer], Sight::NoCounter),
    class("program_and_buffer", socket::send_to_a_small_buffer)
        .about("a program on the reader's device and a small buffer")
        .prepared_by(path::program_on_device)
        .lost_at(&[Stage::ReceiverHook, Stage::ReceiverSocketBuffer], Sight::NoCounter)
        .fixed_by(larger_buffer(V4, |scene| boxed(socket::small_buffer(scene)))),
    class("firewall_and_fragments", host::send_in_fragments)
        .about("a rule of the sender, and no memory of the reader's to wait for fragments")
        .only_over_ipv4()
        .prepared_by(host::firewall_and_little_memory)
        .lost_at(&[Stage::SenderIp, Stage::ReceiverReassembly], Sight::NoCounter)
        .given_up_within(Duration::from_secs(5)),
];
