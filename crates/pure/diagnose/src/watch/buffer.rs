//! Size of a sufficient receive buffer, and remedies that enlarge it.

use std::net::IpAddr;

use crate::watch::snapshot::{Snapshot, Socket};
use crate::{Change, Remedy};

/// Receive-buffer memory of a datagram of 1,472 bytes, the kernel's structures included; smaller ones are assumed to
/// take as much.
///
/// Source: measured: a fourth datagram is the last that an effective buffer of 8,192 bytes takes.
pub(crate) const DATAGRAM_BYTES: u64 = 2_304;
/// Size of such a packet with its IP header, by which larger ones are scaled.
const PACKET_BYTES: u64 = 1_500;

/// Maximum recommended receive buffer: a reader that needs more is too slow.
const MAX_BUFFER_BYTES: u64 = 1 << 26;

/// Returns remedies for a receive buffer that would also have held the data lost between two snapshots: at once, and
/// for the next start.
pub(crate) fn larger_buffer(snapshots: (&Snapshot, &Snapshot), socket: &Socket, count: u64) -> Vec<Remedy> {
    let more = count.saturating_mul(room_of_one(snapshots, socket));
    let wanted = u64::from(socket.buffer_bytes).saturating_add(more);
    let wanted = wanted.checked_next_power_of_two().unwrap_or(wanted).min(MAX_BUFFER_BYTES);
    let owner = socket.owner.as_ref();
    let at_once = owner.filter(|_| wanted > u64::from(socket.buffer_bytes)).map(|owner| {
        let change = Change::ReceiveBuffer {
            cookie: socket.cookie,
            local: socket.local,
            pid: owner.pid,
            asked_bytes: wanted / 2,
            before_bytes: u64::from(socket.buffer_bytes) / 2,
        };
        Remedy::by_change("a larger receive buffer of this socket, while its program runs", change)
    });
    at_once.into_iter().chain([next_time(snapshots.1, socket, wanted)]).collect()
}

/// Returns the buffer memory of a datagram of the namespace's mean size, because sizes are not counted per socket.
fn room_of_one(snapshots: (&Snapshot, &Snapshot), socket: &Socket) -> u64 {
    let v4 = mean_bytes(snapshots, ["IpExtInOctets", "IpInReceives", "IpReasmReqds", "IpReasmOKs"]);
    let v6 = mean_bytes(snapshots, ["Ip6InOctets", "Ip6InReceives", "Ip6ReasmReqds", "Ip6ReasmOKs"]);
    let mean = match socket.local.ip() {
        IpAddr::V4(_) => v4,
        // A socket bound to any address receives both versions.
        IpAddr::V6(address) if address.is_unspecified() => v4.max(v6),
        IpAddr::V6(_) => v6,
    };
    (mean.saturating_mul(DATAGRAM_BYTES) / PACKET_BYTES).max(DATAGRAM_BYTES)
}

/// Returns the mean size of received datagrams, reassembled ones included, in bytes; 0 if there were none.
fn mean_bytes((before, after): (&Snapshot, &Snapshot), names: [&str; 4]) -> u64 {
    /// Largest datagram that IP carries, in bytes.
    const MOST: u64 = 65_535;
    let [octets, packets, fragments, wholes] = names.map(|name| after.rise(before, name));
    let units = packets.saturating_sub(fragments).saturating_add(wholes);
    octets.checked_div(units).unwrap_or(0).min(MOST)
}

/// Returns the remedy for the next start: programs that request a buffer get at most `rmem_max`, the others
/// `rmem_default`.
fn next_time(after: &Snapshot, socket: &Socket, wanted: u64) -> Remedy {
    let asks_for_none = after.settings.rmem_default_bytes == Some(u64::from(socket.buffer_bytes));
    if asks_for_none {
        let what = "a larger receive buffer for programs that request none; start the reader again";
        return Remedy::by_sysctl(what, "net.core.rmem_default", wanted, after.settings.rmem_default_bytes);
    }
    // The kernel doubles the requested size.
    let asked = wanted / 2;
    let what = format!("a larger receive buffer: let the reader request {asked} bytes (SO_RCVBUF)");
    match after.settings.rmem_max_bytes {
        Some(limit) if limit >= asked => Remedy::by_hand(&what),
        limit => Remedy::by_sysctl(&what, "net.core.rmem_max", asked, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::snapshot::tests::snapshot;
    use crate::watch::snapshot::{Owner, Settings};

    fn socket(local: &str, buffer_bytes: u32) -> Socket {
        let owner = Some(Owner { pid: 7, name: "reader".to_owned(), threads: Vec::new() });
        Socket { cookie: 1, local: local.parse().unwrap(), buffer_bytes, drops: 0, owner }
    }

    #[test]
    fn a_socket_that_asked_for_nothing_is_helped_by_the_default() {
        let mut after = snapshot(1, &[]);
        after.settings.rmem_default_bytes = Some(212_992);
        let before = after.clone();
        let of = |bytes, after: &Snapshot| {
            larger_buffer((&before, after), &socket("127.0.0.1:1", bytes), 100).pop().unwrap()
        };
        let remedy = of(212_992, &after);
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.rmem_default=524288"));
        assert_eq!(remedy.undo().as_deref(), Some("sysctl -w net.core.rmem_default=212992"));
        after.settings = Settings { rmem_max_bytes: Some(1 << 20), ..after.settings };
        let remedy = of(425_984, &after);
        assert_eq!(remedy.command(), None, "it may ask for as much: {remedy:?}");
    }

    #[test]
    fn large_datagrams_take_more_room_and_fragments_are_parts_of_one() {
        let room = |local: &str, counters: &[(&str, u64)]| {
            room_of_one((&snapshot(0, &[]), &snapshot(1, counters)), &socket(local, 1))
        };
        let small = [("IpExtInOctets", 42_800), ("IpInReceives", 100)];
        let jumbo = [("IpExtInOctets", 900_000), ("IpInReceives", 100)];
        // Ten datagrams of 30,000 bytes, in 21 fragments each.
        let parts =
            [("Ip6InOctets", 310_000), ("Ip6InReceives", 210), ("Ip6ReasmReqds", 210), ("Ip6ReasmOKs", 10)];
        assert_eq!(room("10.0.0.1:1", &[]), DATAGRAM_BYTES, "nothing is known");
        assert_eq!(room("10.0.0.1:1", &small), DATAGRAM_BYTES);
        assert_eq!(room("10.0.0.1:1", &jumbo), 9_000 * 2_304 / 1_500);
        assert_eq!(room("10.0.0.1:1", &parts), DATAGRAM_BYTES, "another version's");
        assert_eq!(room("[fd00::1]:1", &parts), 31_000 * 2_304 / 1_500);
        assert_eq!(room("[::]:1", &[&jumbo[..], &parts].concat()), 31_000 * 2_304 / 1_500);
        assert_eq!(
            room("10.0.0.1:1", &[("IpExtInOctets", u64::MAX), ("IpInReceives", 1)]),
            65_535 * 2_304 / 1_500
        );
    }
}
