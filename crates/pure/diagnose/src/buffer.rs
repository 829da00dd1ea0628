//! How large a receive buffer would have been large enough, and how a reader is given one.

use std::net::IpAddr;

use crate::snapshot::{Snapshot, Socket};
use crate::{Change, Remedy};

/// What a datagram of 1,472 bytes takes of a receive buffer, the kernel's structures included; smaller ones are taken for as large.
///
/// Source: measured: a fourth is the last that an effective buffer of 8,192 bytes takes.
pub(crate) const DATAGRAM_BYTES: u64 = 2_304;
/// The same of a packet with its IP header, by which larger ones are reckoned.
const PACKET_BYTES: u64 = 1_500;

/// A larger receive buffer than this is not recommended: whoever needs it is too slow.
const MAX_BUFFER_BYTES: u64 = 1 << 26;

/// A receive buffer that would have held what was lost between two snapshots, too: at once, and for the next time.
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

/// What a datagram takes of a buffer, as large as the namespace's were on average, which nobody counts for one socket.
fn room_of_one(snapshots: (&Snapshot, &Snapshot), socket: &Socket) -> u64 {
    let v4 = mean_bytes(snapshots, ["IpExtInOctets", "IpInReceives", "IpReasmReqds", "IpReasmOKs"]);
    let v6 = mean_bytes(snapshots, ["Ip6InOctets", "Ip6InReceives", "Ip6ReasmReqds", "Ip6ReasmOKs"]);
    let mean = match socket.local.ip() {
        IpAddr::V4(_) => v4,
        // A socket of any address takes both versions.
        IpAddr::V6(address) if address.is_unspecified() => v4.max(v6),
        IpAddr::V6(_) => v6,
    };
    (mean.saturating_mul(DATAGRAM_BYTES) / PACKET_BYTES).max(DATAGRAM_BYTES)
}

/// Returns how many bytes came in what was handed up as one, its fragments together; 0 where nothing came.
fn mean_bytes((before, after): (&Snapshot, &Snapshot), names: [&str; 4]) -> u64 {
    /// The largest that IP carries.
    const MOST: u64 = 65_535;
    let [octets, packets, fragments, wholes] = names.map(|name| after.rise(before, name));
    let units = packets.saturating_sub(fragments).saturating_add(wholes);
    octets.checked_div(units).unwrap_or(0).min(MOST)
}

/// Programs that ask for a buffer get at most `rmem_max`, the others have `rmem_default`.
fn next_time(after: &Snapshot, socket: &Socket, wanted: u64) -> Remedy {
    let asks_for_none = after.settings.rmem_default_bytes == Some(u64::from(socket.buffer_bytes));
    if asks_for_none {
        let what = "a larger receive buffer for programs that ask for none; start the reader again";
        return Remedy::by_sysctl(what, "net.core.rmem_default", wanted, after.settings.rmem_default_bytes);
    }
    // The kernel doubles what is asked for.
    let asked = wanted / 2;
    let what = format!("a larger receive buffer: let the reader ask for {asked} bytes (SO_RCVBUF)");
    match after.settings.rmem_max_bytes {
        Some(limit) if limit >= asked => Remedy::by_hand(&what),
        limit => Remedy::by_sysctl(&what, "net.core.rmem_max", asked, limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::tests::snapshot;
    use crate::snapshot::{Owner, Settings};

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
