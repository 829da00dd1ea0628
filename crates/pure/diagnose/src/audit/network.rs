//! Buffers, limits and interfaces.

use units::text::{exact_size, rate};

use super::{Check, Facts, Interface, Judgement, interface_setting};
use crate::Remedy;

/// Ratio of receive-buffer memory to payload: a datagram of 1,472 bytes takes 2,304. Source: measured, Linux 6.18.
const OVERHEAD: f64 = 2_304.0 / 1_472.0;
/// Maximum recommended buffer: a larger one only hides that a reader is too slow.
const MAX_BUFFER_BYTES: u64 = 1 << 30;
/// Size of a page, the unit of `udp_mem`.
const PAGE_BYTES: u64 = 4_096;

/// Returns the receive buffer for the data of the longest pause, as a program requests it: the kernel doubles it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn needed_bytes(facts: &Facts) -> u64 {
    let pause = facts.load.longest_pause.as_secs_f64();
    let needed = facts.load.bytes_per_second * pause * OVERHEAD / 2.0;
    (needed.clamp(4_096.0, MAX_BUFFER_BYTES as f64) as u64).next_power_of_two()
}

fn why_so_large(facts: &Facts) -> String {
    let load = &facts.load;
    format!(
        "{} ({}) for {} ms without a reader, and the kernel's overhead of 1.57 bytes a byte",
        rate(load.bytes_per_second * 8.0),
        load.origin,
        load.longest_pause.as_millis(),
    )
}

pub(super) fn receive_buffer_limit(facts: &Facts) -> Vec<Check> {
    const NAME: &str = "net.core.rmem_max";
    limit(
        facts,
        "receive-buffer-limit",
        NAME,
        needed_bytes(facts),
        "programs cannot request a larger receive buffer",
    )
}

pub(super) fn send_buffer_limit(facts: &Facts) -> Vec<Check> {
    const NAME: &str = "net.core.wmem_max";
    // A sender has no reader that pauses; a tenth of it holds what the queue behind the socket does not take at once.
    let needed = (needed_bytes(facts) / 10).max(1 << 16).next_power_of_two();
    limit(facts, "send-buffer-limit", NAME, needed, "programs cannot request a larger send buffer")
}

fn limit(facts: &Facts, check: &'static str, name: &str, needed: u64, what: &str) -> Vec<Check> {
    let Some(now) = facts.setting(name) else {
        return vec![Check::not_seen(check, &format!("{name} cannot be read here"))];
    };
    let why = format!("{what}; {}", why_so_large(facts));
    if now >= needed {
        return vec![Check::new(check, Judgement::Ok, exact_size(now), why)];
    }
    // Three quarters of the data are lost in the first pause, independent of the program's request.
    let judgement = if now < needed / 4 { Judgement::Fail } else { Judgement::Warn };
    let remedy = Remedy::by_sysctl("a higher limit", name, needed, Some(now));
    vec![Check::new(check, judgement, exact_size(now), why).recommending(exact_size(needed), [remedy])]
}

pub(super) fn receive_buffer_default(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "receive-buffer-default";
    const NAME: &str = "net.core.rmem_default";
    let Some(now) = facts.setting(NAME) else {
        return vec![Check::not_seen(CHECK, "net.core.rmem_default cannot be read here")];
    };
    // This one is in the kernel's units: not doubled.
    let needed = 2 * needed_bytes(facts);
    let why = format!("programs that request no receive buffer have this; {}", why_so_large(facts));
    if now >= needed {
        return vec![Check::new(CHECK, Judgement::Ok, exact_size(now), why)];
    }
    let remedy = Remedy::by_sysctl("a larger buffer for programs that request none", NAME, needed, Some(now));
    vec![Check::new(CHECK, Judgement::Warn, exact_size(now), why).recommending(exact_size(needed), [remedy])]
}

/// Returns the size of a number of pages, in bytes: an unlimited number saturates.
const fn pages(count: u64) -> u64 {
    count.saturating_mul(PAGE_BYTES)
}

pub(super) fn udp_memory(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "udp-memory";
    let most = facts.setting("net.ipv4.udp_mem.max").zip(facts.udp_memory_pages);
    let Some((most, used)) = most else {
        return vec![Check::not_seen(CHECK, "udp_mem or its use cannot be read here")];
    };
    let live = format!("{} of {} used", exact_size(pages(used)), exact_size(pages(most)));
    let why = "beyond net.ipv4.udp_mem every socket of the host drops, and no counter of UDP rises";
    let judgement = if used as f64 > 0.75 * most as f64 { Judgement::Fail } else { Judgement::Ok };
    let check = Check::new(CHECK, judgement, live, why);
    if judgement == Judgement::Ok {
        return vec![check];
    }
    let by_hand = Remedy::by_hand(
        "raise the third number of net.ipv4.udp_mem, or find the program that does not read (`ss -uanp`)",
    );
    vec![check.recommending(exact_size(pages(most).saturating_mul(2)), [by_hand])]
}

pub(super) fn backlog(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "backlog";
    const NAME: &str = "net.core.netdev_max_backlog";
    let dropped = facts.counted("softnet_dropped");
    let live = format!("{dropped} dropped since the host was started");
    let why =
        "packets wait here for their processor's softirq; those without room are lost before any socket";
    let check = Check::new(CHECK, if dropped > 0 { Judgement::Warn } else { Judgement::Ok }, live, why);
    match facts.setting(NAME) {
        Some(now) if dropped > 0 => {
            let longer = now.saturating_mul(2);
            let remedy = Remedy::by_sysctl("twice as long a backlog", NAME, longer, Some(now));
            vec![check.recommending(longer.to_string(), [remedy])]
        }
        // In network namespaces other than the first, and in many containers, this setting does not exist.
        None if dropped > 0 => {
            vec![check.recommending(
                "twice what it is",
                [Remedy::by_hand("raise net.core.netdev_max_backlog on the host")],
            )]
        }
        _ => vec![check],
    }
}

pub(super) fn softirq_budget(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "softirq-budget";
    /// Rate per second from which losses are no accident.
    const OFTEN_PER_SECOND: f64 = 1.0;
    let squeezed = facts.counted("softnet_time_squeeze");
    let Some(uptime) = facts.uptime.filter(|it| !it.is_zero()) else {
        return vec![Check::not_seen(CHECK, "how long the host has been up cannot be read here")];
    };
    let per_second = squeezed as f64 / uptime.as_secs_f64();
    let live = format!("out of time {squeezed} times, {per_second:.3} a second");
    let why = "a softirq that runs out of its budget leaves packets in the card's ring for the next time";
    if per_second < OFTEN_PER_SECOND {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let names = ["net.core.netdev_budget", "net.core.netdev_budget_usecs"];
    let remedies = names.iter().filter_map(|name| {
        let now = facts.setting(name)?;
        Some(Remedy::by_sysctl("twice the budget", name, now.saturating_mul(2), Some(now)))
    });
    vec![Check::new(CHECK, Judgement::Warn, live, why).recommending("twice the budget", remedies)]
}

pub(super) fn reverse_path(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "rp-filter";
    const STRICT: u64 = 1;
    let of = |name: &str| facts.setting(&interface_setting(name, "rp_filter"));
    let Some(all) = of("all") else {
        return vec![Check::not_seen(CHECK, "net.ipv4.conf.all.rp_filter cannot be read here")];
    };
    let why = "a strict filter drops packets that arrive on an interface other than that of the route back: groups on a second network";
    let one = |interface: &Interface| {
        let own = of(&interface.name)?;
        // The kernel uses the larger of the two.
        let live = format!("{}: {}", interface.name, own.max(all));
        if own.max(all) != STRICT {
            return Some(Check::new(CHECK, Judgement::Ok, live, why));
        }
        let names = [("all", all), (interface.name.as_str(), own)];
        let remedies = names.into_iter().filter(|(_, now)| *now == STRICT).map(|(name, now)| {
            let setting = interface_setting(name, "rp_filter");
            Remedy::by_sysctl("a loose filter", &setting, 2, Some(now))
        });
        Some(Check::new(CHECK, Judgement::Warn, live, why).recommending("2", remedies))
    };
    facts.interfaces.iter().filter(|it| !it.is_loopback).filter_map(one).collect()
}

pub(super) fn interfaces(facts: &Facts) -> Vec<Check> {
    let outside: Vec<&Interface> = facts.interfaces.iter().filter(|it| !it.is_loopback).collect();
    if outside.is_empty() {
        return vec![Check::not_seen("interfaces", "no interface but the loopback one is up")];
    }
    let mut checks = Vec::new();
    for interface in outside.iter().filter(|it| !it.takes_groups) {
        let set = |value| format!("ip link set dev {} multicast {value}", interface.name);
        let remedy = Remedy::by_command("switch groups on", set("on"), set("off"));
        checks.push(
            Check::new(
                "multicast-interface",
                Judgement::Warn,
                format!("{} does not support groups", interface.name),
                "streams are sent to groups, which this interface neither sends nor receives",
            )
            .recommending("multicast on", [remedy]),
        );
    }
    checks.extend([mtu(&outside), link_speed(&outside)]);
    checks
}

fn link_speed(outside: &[&Interface]) -> Check {
    const CHECK: &str = "link-speed";
    let known: Vec<u64> = outside.iter().filter_map(|it| it.bits_per_second).collect();
    let Some(first) = known.first() else {
        return Check::not_seen(CHECK, "no driver reports the rate of its link");
    };
    let one = |it: &&Interface| {
        let speed =
            it.bits_per_second.map_or_else(|| "?".to_owned(), |bits| format!("{} Mbit/s", bits / 1_000_000));
        format!("{} {speed}", it.name)
    };
    let live = outside.iter().map(one).collect::<Vec<_>>().join(", ");
    let why = "a fast sender overruns a slow receiver's port in the switch, where no host counts it";
    if known.iter().all(|speed| speed == first) {
        return Check::new(CHECK, Judgement::Ok, live, why);
    }
    let remedy =
        "let streams use links of one speed (`iface=` on the bus), or pace senders below the slowest";
    Check::new(CHECK, Judgement::Warn, live, why).recommending("one speed", [Remedy::by_hand(remedy)])
}

fn mtu(outside: &[&Interface]) -> Check {
    let list: Vec<String> = outside.iter().map(|it| format!("{} {}", it.name, it.mtu)).collect();
    let why = "datagrams that fit into one interface's packets are fragmented on another, and one lost fragment loses all: `tallycast bench -c HOST -u --probe-mtu` measures the path";
    let least = outside.iter().map(|it| it.mtu).min().unwrap_or(0);
    let larger = || outside.iter().filter(|it| it.mtu > least);
    if larger().next().is_none() {
        return Check::new("mtu", Judgement::Ok, list.join(", "), why);
    }
    let set = |it: &Interface, mtu: u32| format!("ip link set dev {} mtu {mtu}", it.name);
    let remedies =
        larger().map(|it| Remedy::by_command("as small as the others", set(it, least), set(it, it.mtu)));
    Check::new("mtu", Judgement::Warn, list.join(", "), why)
        .recommending(format!("{least} on each"), remedies)
}

pub(super) fn multicast_route(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "multicast-route";
    let choices: Vec<&str> = facts
        .interfaces
        .iter()
        .filter(|it| !it.is_loopback && it.takes_groups)
        .map(|it| it.name.as_str())
        .collect();
    let Some(has_route) = facts.has_multicast_route else {
        return vec![Check::not_seen(CHECK, "the table of routes cannot be read here")];
    };
    let why = "without a route for groups they leave by the interface of the default route, which may change";
    let live = match (has_route, choices.as_slice()) {
        (true, _) => "groups have a route".to_owned(),
        (false, [only]) => format!("only {only} takes groups"),
        (false, _) => format!("no route for groups, and a choice of {}", choices.join(", ")),
    };
    if has_route || choices.len() < 2 {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let remedy = Remedy::by_hand(
        "name the interface on the bus (`iface=`), or add a route: ip route add 224.0.0.0/4 dev DEVICE",
    );
    vec![Check::new(CHECK, Judgement::Warn, live, why).recommending("one interface, by name", [remedy])]
}

pub(super) fn reassembly(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "reassembly";
    const NAME: &str = "net.ipv4.ipfrag_high_thresh";
    let failed = facts.counted("IpReasmFails") + facts.counted("Ip6ReasmFails");
    let live = format!("{failed} failures since the host was started");
    let why = "incomplete datagrams hold memory for ipfrag_time, and beyond ipfrag_high_thresh complete ones are refused, too; datagrams that fit into the MTU need none of it";
    if failed == 0 {
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let fit = Remedy::by_hand("send datagrams that fit into the path's MTU (`mtu=` on the bus)");
    let more = facts.setting(NAME).map(|now| {
        Remedy::by_sysctl("more memory to wait for fragments", NAME, now.saturating_mul(4), Some(now))
    });
    vec![
        Check::new(CHECK, Judgement::Warn, live, why)
            .recommending("no fragments", [fit].into_iter().chain(more)),
    ]
}

pub(super) fn card(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "card";
    /// Columns of `/proc/net/dev` that a full ring increases.
    const COLUMNS: [&str; 3] = ["rx_drop", "rx_fifo", "rx_errs"];
    let one = |interface: &Interface| {
        let count = |column: &&str| facts.counters.get(&format!("{column}/{}", interface.name)).copied();
        let counts: Vec<u64> = COLUMNS.iter().map(|column| count(column).unwrap_or(0)).collect();
        let lost: u64 = counts.iter().sum();
        let live = format!(
            "{}: {} dropped, {} without room, {} wrong",
            interface.name, counts[0], counts[1], counts[2]
        );
        let why = "packets for which the card had no room are lost before the host sees them";
        if lost == 0 {
            return Check::new(CHECK, Judgement::Ok, live, why);
        }
        let name = &interface.name;
        let remedy = Remedy::by_hand(&format!(
            "see which count rises (`ethtool -S {name}`): `card-ring` reports packets without room; errors are the cable's, the port's or the driver's"
        ));
        Check::new(CHECK, Judgement::Warn, live, why).recommending("none", [remedy])
    };
    facts.interfaces.iter().filter(|it| !it.is_loopback).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Load;
    use core::time::Duration;

    /// Returns 1 Gbit/s and 10 ms: 1.25 MB, with overhead 1.96 MB, half of which is requested, rounded up: 1 MiB.
    fn facts() -> Facts {
        let load = Load {
            bytes_per_second: 125e6,
            origin: "as asked",
            longest_pause: Duration::from_millis(10),
            round_trip: None,
        };
        Facts { load, uptime: Some(Duration::from_secs(1_000)), ..Facts::default() }
    }

    fn with(name: &str, value: u64) -> Facts {
        Facts { settings: [(name.to_owned(), value)].into(), ..facts() }
    }

    fn counting(name: &str, count: u64) -> Facts {
        Facts { counters: [(name.to_owned(), count)].into(), ..facts() }
    }

    fn eth(name: &str) -> Interface {
        let bits_per_second = Some(1_000_000_000);
        Interface {
            name: name.to_owned(),
            mtu: 1_500,
            bits_per_second,
            is_loopback: false,
            takes_groups: true,
            ..Interface::default()
        }
    }

    fn judgements(checks: &[Check]) -> Vec<Judgement> {
        checks.iter().map(|check| check.judgement).collect()
    }

    #[test]
    fn a_receive_buffer_holds_what_comes_in_the_longest_pause() {
        for (limit, expected) in [
            (1 << 20, Judgement::Ok),
            ((1 << 20) - 1, Judgement::Warn),
            (1 << 18, Judgement::Warn),
            ((1 << 18) - 1, Judgement::Fail),
        ] {
            let checks = receive_buffer_limit(&with("net.core.rmem_max", limit));
            assert_eq!(judgements(&checks), [expected], "{limit}");
        }
        let checks = receive_buffer_limit(&with("net.core.rmem_max", 212_992));
        assert_eq!(checks[0].recommended.as_deref(), Some("1 MiB"));
        assert_eq!(checks[0].remedies[0].command().as_deref(), Some("sysctl -w net.core.rmem_max=1048576"));
        assert_eq!(checks[0].remedies[0].undo().as_deref(), Some("sysctl -w net.core.rmem_max=212992"));
    }

    #[test]
    fn the_default_is_counted_as_the_kernel_does() {
        let judge = |value| judgements(&receive_buffer_default(&with("net.core.rmem_default", value)));
        assert_eq!((judge(2 << 20), judge((2 << 20) - 1)), (vec![Judgement::Ok], vec![Judgement::Warn]));
    }

    #[test]
    fn a_sender_needs_a_tenth() {
        let judge = |value| judgements(&send_buffer_limit(&with("net.core.wmem_max", value)));
        assert_eq!((judge(1 << 17), judge((1 << 17) - 1)), (vec![Judgement::Ok], vec![Judgement::Warn]));
    }

    #[test]
    fn counters_since_the_start_say_what_was_too_small() {
        assert_eq!(judgements(&backlog(&facts())), [Judgement::Ok]);
        let mut busy = counting("softnet_dropped/cpu1", 1);
        assert_eq!(judgements(&backlog(&busy)), [Judgement::Warn]);
        busy.settings.insert("net.core.netdev_max_backlog".to_owned(), 1_000);
        assert_eq!(
            backlog(&busy)[0].remedies[0].command().as_deref(),
            Some("sysctl -w net.core.netdev_max_backlog=2000")
        );
        assert_eq!(judgements(&softirq_budget(&counting("softnet_time_squeeze/cpu0", 999))), [Judgement::Ok]);
        assert_eq!(
            judgements(&softirq_budget(&counting("softnet_time_squeeze/cpu0", 1_000))),
            [Judgement::Warn]
        );
        assert_eq!(judgements(&reassembly(&counting("IpReasmFails", 1))), [Judgement::Warn]);
        assert_eq!(judgements(&reassembly(&facts())), [Judgement::Ok]);
    }

    #[test]
    fn udp_memory_is_short_from_three_quarters_on() {
        let judge = |used| {
            let facts = Facts { udp_memory_pages: Some(used), ..with("net.ipv4.udp_mem.max", 100) };
            judgements(&udp_memory(&facts))
        };
        assert_eq!((judge(75), judge(76)), (vec![Judgement::Ok], vec![Judgement::Fail]));
    }

    #[test]
    fn the_stricter_of_two_filters_counts() {
        let judge = |all, own| {
            let mut facts =
                Facts { interfaces: vec![eth("eth0")], ..with("net.ipv4.conf.all.rp_filter", all) };
            facts.settings.insert("net.ipv4.conf.eth0.rp_filter".to_owned(), own);
            let check = reverse_path(&facts).remove(0);
            (check.judgement, check.remedies.len())
        };
        assert_eq!(judge(0, 0), (Judgement::Ok, 0));
        assert_eq!(judge(0, 2), (Judgement::Ok, 0));
        assert_eq!(judge(1, 2), (Judgement::Ok, 0), "the kernel takes the larger");
        assert_eq!(judge(1, 0), (Judgement::Warn, 1));
        assert_eq!(judge(1, 1), (Judgement::Warn, 2));
    }

    #[test]
    fn an_interface_with_a_dot_in_its_name_has_its_settings_by_slashes() {
        let mut facts = Facts { interfaces: vec![eth("eth0.7")], ..with("net.ipv4.conf.all.rp_filter", 0) };
        facts.settings.insert("net/ipv4/conf/eth0.7/rp_filter".to_owned(), 1);
        let check = reverse_path(&facts).remove(0);
        let command = "sysctl -w net/ipv4/conf/eth0.7/rp_filter=2";
        assert_eq!(check.remedies[0].command().as_deref(), Some(command));
    }

    #[test]
    fn interfaces_that_differ_are_said() {
        let judge = |interfaces: &[Interface]| {
            let facts =
                Facts { interfaces: interfaces.to_vec(), has_multicast_route: Some(false), ..facts() };
            let checks = interfaces_and_route(&facts);
            checks
                .into_iter()
                .filter(|it| it.judgement == Judgement::Warn)
                .map(|it| it.name)
                .collect::<Vec<_>>()
        };
        let remedy = mtu(&[&eth("a"), &Interface { mtu: 9_000, ..eth("b") }]).remedies.remove(0);
        assert_eq!(remedy.command().as_deref(), Some("ip link set dev b mtu 1500"));
        assert_eq!(remedy.undo().as_deref(), Some("ip link set dev b mtu 9000"));
        assert_eq!(judge(&[eth("a")]), [""; 0]);
        assert_eq!(judge(&[eth("a"), Interface { mtu: 9_000, ..eth("b") }]), ["mtu", "multicast-route"]);
        assert_eq!(
            judge(&[eth("a"), Interface { bits_per_second: Some(1), ..eth("b") }]),
            ["link-speed", "multicast-route"]
        );
        let unreported = Interface { bits_per_second: None, ..eth("c") };
        assert_eq!(
            judge(&[eth("a"), eth("b"), unreported]),
            ["multicast-route"],
            "what is not told does not differ"
        );
        assert_eq!(judge(&[eth("a"), Interface { is_loopback: true, mtu: 65_536, ..eth("lo") }]), [""; 0]);
        assert_eq!(judge(&[Interface { takes_groups: false, ..eth("a") }]), ["multicast-interface"]);
    }

    fn interfaces_and_route(facts: &Facts) -> Vec<Check> {
        [interfaces(facts), multicast_route(facts)].concat()
    }

    #[test]
    fn a_card_that_dropped_is_named() {
        let judge = |name| {
            let facts = Facts { interfaces: vec![eth("eth0")], ..counting(name, 5) };
            judgements(&card(&facts))
        };
        assert_eq!(judge("rx_fifo/eth0"), [Judgement::Warn]);
        assert_eq!(judge("rx_fifo/eth1"), [Judgement::Ok]);
    }
}
