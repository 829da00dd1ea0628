//! Losses along the path: at the sender, between the hosts, at the reader's device and firewall.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use crate::scene::{PORT, Scene, Version};
use crate::traffic::{PAYLOAD_BYTES, Planted, send, send_trains};

use super::socket::{roomy_reader, send_on_the_way, send_on_the_way_to, takes_trains};
use super::steps::{Burst, FIFTY, Steps};

/// Returns a rule that drops one of `every` datagrams to the scene's port; not the first, which shows the first
/// number.
fn rule(every: u32) -> String {
    format!("udp dport {PORT} numgen inc mod {every} == 3 drop;")
}

pub(super) fn firewall_out(scene: &mut Scene) -> anyhow::Result<()> {
    let chain = "type filter hook output priority 0;";
    scene.on_sender(&format!("nft 'table inet lab {{ chain out {{ {chain} {} }}; }}'", rule(7)))
}

pub(super) fn firewall_in(scene: &mut Scene) -> anyhow::Result<()> {
    let chain = "type filter hook input priority 0;";
    scene.on_reader(&format!("nft 'table inet lab {{ chain in {{ {chain} {} }}; }}'", rule(7)))
}

pub(super) fn firewall_on_device(scene: &mut Scene) -> anyhow::Result<()> {
    let chain = "type filter hook ingress device eth0 priority 0;";
    scene.on_reader(&format!("nft 'table netdev lab {{ chain in {{ {chain} {} }}; }}'", rule(7)))
}

pub(super) fn firewalls(scene: &mut Scene) -> anyhow::Result<()> {
    firewall_out(scene)?;
    firewall_in(scene)
}

pub(super) fn lossy_bridge(scene: &mut Scene) -> anyhow::Result<()> {
    let chain = "type filter hook forward priority 0;";
    scene.on_bridge(&format!("nft 'table bridge lab {{ chain on {{ {chain} {} }}; }}'", rule(9)))
}

pub(super) fn throttled(scene: &mut Scene) -> anyhow::Result<()> {
    scene.sender().throttle("40mbit", "100000", "100000");
    Ok(())
}

pub(super) fn short_queue(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_sender(
        "tc qdisc replace dev eth0 root handle 1: htb default 1
         tc class add dev eth0 parent 1: classid 1:1 htb rate 4mbit
         tc qdisc add dev eth0 parent 1:1 pfifo limit 10",
    )
}

pub(super) fn program_on_device(scene: &mut Scene) -> anyhow::Result<()> {
    // Classic BPF: of datagrams to the port (behind Ethernet and a header of 20 or 40 bytes), one in eight is shot (2).
    let at = if scene.version == Version::V4 { 36 } else { 56 };
    let program =
        format!("6,40 0 0 {at},21 0 3 {PORT},32 0 0 4294963256,53 1 0 536870912,6 0 0 2,6 0 0 4294967295");
    scene.on_reader(&format!(
        "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress bpf da bytecode '{program}'"
    ))
}

pub(super) fn no_neighbour(scene: &mut Scene) -> anyhow::Result<()> {
    // Resolution is given up after one request, and few packets may wait for the answer.
    scene.on_sender(
        "for of in net.ipv4.neigh.eth0 net.ipv6.neigh.eth0; do
             sysctl -qw $of.retrans_time_ms=50 $of.mcast_solicit=1 $of.ucast_solicit=1 $of.unres_qlen_bytes=20000
         done",
    )
}

pub(super) fn jumbo(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_bridge("ip link set p0 mtu 65535; ip link set p1 mtu 65535; ip link set br0 mtu 65535")?;
    scene.on_sender("ip link set eth0 mtu 65535")?;
    scene.on_reader("ip link set eth0 mtu 65535")
}

pub(super) fn slow_softirq(scene: &mut Scene) -> anyhow::Result<()> {
    scene.on_reader(
        "echo 2 > /sys/class/net/eth0/queues/rx-0/rps_cpus
         (echo 'table inet lab { chain in { type filter hook input priority 0;'
          for port in $(seq 20000 21500); do echo \"udp dport $port drop;\"; done
          echo '}; }') | nft -f -",
    )
}

pub(super) fn send_faster_than_a_softirq(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_on_the_way(scene, |writer, to| until_backlog_is_full(5_000, |numbers| send(writer, to, numbers, 40)))
}

pub(super) fn send_trains_faster_than_a_softirq(scene: &mut Scene) -> anyhow::Result<Planted> {
    const SEGMENTS: u64 = 8;
    send_on_the_way(scene, |writer, to| {
        let send = |trains| send_trains(writer, to, trains, SEGMENTS, 40);
        Ok(SEGMENTS * until_backlog_is_full(1_500, send)?)
    })
}

/// Sends bursts until some backlog has overflowed, with a minimum number of bursts; returns the number of datagrams
/// sent.
fn until_backlog_is_full(
    burst: u64,
    mut send: impl FnMut(Range<u64>) -> anyhow::Result<()> + Send,
) -> anyhow::Result<u64> {
    const BURSTS: Range<u64> = 4..40;
    let dropped = || {
        let (counters, _) = sys::counters::read();
        counters
            .iter()
            .filter(|(name, _)| name.starts_with("softnet_dropped/"))
            .map(|(_, it)| it)
            .sum::<u64>()
    };
    on_first_processor(|| {
        let before = dropped();
        for index in 0..BURSTS.end {
            if index >= BURSTS.start && dropped() > before {
                return Ok(index * burst);
            }
            send(index * burst..(index + 1) * burst)?;
        }
        Ok(BURSTS.end * burst)
    })
}

/// Runs `work` on the first processor, because the second is busy. On a shared processor it would send too slowly
/// to fill a queue.
pub(crate) fn on_first_processor<T: Send>(
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    std::thread::scope(|threads| {
        let working = threads.spawn(|| {
            sys::scheduling::pin_to_cpu(0)?;
            match sys::scheduling::run_fifo(1) {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error.into()),
                // Without the permission, the normal scheduling must do.
                _ => {}
            }
            work()
        });
        working.join().map_err(|_| anyhow::anyhow!("the sending thread panicked"))?
    })
}

pub(super) fn send_two_thousand(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_at_once(scene, Burst::Datagrams { count: 2_000, payload_bytes: PAYLOAD_BYTES })
}

fn send_at_once(scene: &Scene, burst: Burst) -> anyhow::Result<Planted> {
    send_on_the_way(scene, |writer, to| burst.send(writer, to, 0))
}

/// Sends bursts of 280,000 bytes, of which 100,000 pass at once and as many wait.
pub(super) fn more_than_a_token_bucket_holds(scene: &mut Scene) -> anyhow::Result<Steps> {
    let burst = Burst::Datagrams { count: 600, payload_bytes: PAYLOAD_BYTES };
    bursts_to_who_has_room(scene, burst)
}

pub(super) fn more_than_ten(scene: &mut Scene) -> anyhow::Result<Steps> {
    bursts_to_who_has_room(scene, FIFTY)
}

pub(super) fn bursts_to_who_has_room(scene: &Scene, burst: Burst) -> anyhow::Result<Steps> {
    Steps::new(scene, roomy_reader(scene)?, burst)
}

pub(super) fn send_from_a_small_buffer(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_on_the_way(scene, |writer, to| {
        // Half of the capacity of the queue after it.
        rustix::net::sockopt::set_socket_send_buffer_size(writer, 40_000)?;
        send(writer, to, 0..1_000, PAYLOAD_BYTES)?;
        Ok(1_000)
    })
}

const TRAINS_OF_EIGHT: Burst = Burst::Trains { count: 400, segments: 8, payload_bytes: 1_000 };

pub(super) fn send_trains_of_eight(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_at_once(scene, TRAINS_OF_EIGHT)
}

pub(super) fn send_trains_of_eight_to_who_takes_them(scene: &mut Scene) -> anyhow::Result<Planted> {
    let reader = roomy_reader(scene)?;
    takes_trains(&reader)?;
    send_on_the_way_to(scene, reader, |writer, to| TRAINS_OF_EIGHT.send(writer, to, 0))
}

pub(super) fn send_trains_of_forty(scene: &mut Scene) -> anyhow::Result<Planted> {
    send_at_once(scene, Burst::Trains { count: 100, segments: 40, payload_bytes: 1_320 })
}

pub(super) fn send_to_nobody(scene: &mut Scene) -> anyhow::Result<Planted> {
    let writer = scene.sender_socket()?;
    let nobody = match scene.version {
        Version::V4 => SocketAddr::from(([10, 84, 0, 77], PORT)),
        Version::V6 => SocketAddr::from(([0xfd84, 0, 0, 0, 0, 0, 0, 0x77], PORT)),
    };
    send(&writer, nobody, 0..100, PAYLOAD_BYTES)?;
    until_given_up(scene, nobody)?;
    Ok(Planted::of(0..100, &BTreeSet::new()))
}

/// Waits until the kernel gives up the neighbour: the packets that wait for its answer are then lost.
fn until_given_up(scene: &Scene, neighbour: SocketAddr) -> anyhow::Result<()> {
    let address = neighbour.ip().to_string();
    until_shown(scene, &["neighbour", "show", "to", &address], "FAILED")
}

/// Waits until `ip` with these arguments shows these words on the sender.
pub(super) fn until_shown(scene: &Scene, arguments: &[&str], words: &str) -> anyhow::Result<()> {
    e2e::wait_until(format!("ip {} to show {words}", arguments.join(" ")), || {
        let output = scene.sender().command("ip").args(arguments).output();
        match output.map(|output| String::from_utf8_lossy(&output.stdout).contains(words)) {
            Ok(false) => None,
            other => Some(other.map(drop)),
        }
    })?;
    Ok(())
}
