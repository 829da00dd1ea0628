//! Trains are cut and joined: every checksum is right, nothing is lost, and malformed input does no harm.

use super::*;

/// Builds a train as the kernel delivers it: headers of one large datagram, and parts of `size` bytes.
fn train_of(is_v6: bool, size: u16, payload: &[u8]) -> Vec<u8> {
    let mut head = if is_v6 {
        let mut head = vec![0x60, 0, 0, 0, 0, 0, UDP, 64];
        head.extend([0xfd; 16]);
        head.extend([0xfe; 16]);
        head
    } else {
        vec![0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, UDP, 0, 0, 10, 84, 7, 1, 10, 84, 7, 2]
    };
    let start = head.len() as u16;
    head.extend([0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0]);
    let mut head = Head::new(&head).unwrap();
    head.carry(payload.len(), 0).unwrap();
    let mut read = vec![NEEDS_SUM, UDP_TRAIN];
    for word in [head.len as u16, size, start, UDP_SUM_AT as u16] {
        read.extend(word.to_ne_bytes());
    }
    [&read, head.bytes(), payload].concat()
}

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7) as u8).collect()
}

fn cut_up(read: &[u8]) -> Vec<(Vec<u8>, Option<Unfinished>)> {
    let mut packets = Vec::new();
    cut(read, |segment| {
        let packet = segment.pieces().concat();
        assert_eq!(packet.len(), segment.bytes());
        packets.push((packet, segment.unfinished));
    });
    packets
}

/// Joins packets as far as possible; returns what is written.
fn joined(most: usize, packets: &[(Vec<u8>, Option<Unfinished>)]) -> Vec<Vec<u8>> {
    let (mut joined, mut written, mut at) = (Joined::new(most), Vec::new(), 0);
    while at < packets.len() {
        joined.clear();
        let mut rest = Vec::new();
        while let Some((packet, unfinished)) = packets.get(at).filter(|it| joined.takes(&it.0, it.1)) {
            rest.extend(joined.push(packet, *unfinished));
            at += 1;
        }
        let (vnet, head) = joined.headers();
        written.push([&vnet, head.bytes(), &rest].concat());
    }
    written
}

/// Finishes a packet's checksum as the last hop does, and returns whether all checksums are then right.
fn is_right(packet: &[u8], unfinished: Unfinished) -> bool {
    let start = usize::from(unfinished.start);
    let udp_bytes = usize::from(u16::from_be_bytes([packet[start + 4], packet[start + 5]]));
    let sum = !folded(sum_of(&packet[start..]));
    let mut finished = packet.to_vec();
    finished[start + UDP_SUM_AT..start + 8].copy_from_slice(&sum.to_be_bytes());
    let (addresses, in_all) = if packet[0] >> 4 == 4 {
        (&packet[12..20], usize::from(u16::from_be_bytes([packet[2], packet[3]])))
    } else {
        (&packet[8..40], 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])))
    };
    let ip_is_right = packet[0] >> 4 == 6 || folded(sum_of(&packet[..start])) == 0xffff;
    let pseudo = sum_of(addresses) + u32::from(UDP) + udp_bytes as u32;
    ip_is_right
        && folded(pseudo + sum_of(&finished[start..])) == 0xffff
        && packet.len() == in_all
        && packet.len() == start + udp_bytes
}

#[test]
fn a_train_is_cut_into_datagrams_that_stand_alone() {
    for is_v6 in [false, true] {
        let payload = payload(3_500);
        let packets = cut_up(&train_of(is_v6, 1_000, &payload));
        let head = if is_v6 { 48 } else { 28 };
        let sizes: Vec<usize> = packets.iter().map(|(packet, _)| packet.len() - head).collect();
        assert_eq!(sizes, [1_000, 1_000, 1_000, 500]);
        let parts: Vec<u8> = packets.iter().flat_map(|(packet, _)| packet[head..].to_vec()).collect();
        assert_eq!(parts, payload);
        for (packet, unfinished) in &packets {
            assert!(is_right(packet, unfinished.unwrap()), "{packet:?}");
        }
        if !is_v6 {
            let identities: Vec<&[u8]> = packets.iter().map(|(packet, _)| &packet[4..6]).collect();
            assert_eq!(
                identities,
                [[0xff, 0xff], [0, 0], [0, 1], [0, 2]],
                "each has its own, as the kernel's"
            );
        }
    }
}

#[test]
fn what_was_cut_is_put_together_as_it_was() {
    for (is_v6, bytes) in [(false, 3_500), (true, 3_500), (false, 64_000), (true, 3_000)] {
        let read = train_of(is_v6, 1_000, &payload(bytes));
        assert_eq!(joined(64, &cut_up(&read)), [read]);
    }
}

#[test]
fn without_one_in_the_middle_the_rest_still_goes_in_one_piece() {
    let read = train_of(false, 1_000, &payload(5_000));
    let mut packets = cut_up(&read);
    packets.remove(2);
    let written = joined(64, &packets);
    assert_eq!(written.len(), 1);
    let again = cut_up(&written[0]);
    assert_eq!(again.len(), 4);
    for ((packet, unfinished), (before, _)) in again.iter().zip(&packets) {
        assert!(is_right(packet, unfinished.unwrap()));
        assert_eq!(packet[28..], before[28..]);
    }
}

#[test]
fn what_does_not_belong_together_leaves_apart() {
    let two = cut_up(&train_of(false, 1_000, &payload(2_000)));
    let pieces = |other: &dyn Fn(&mut Vec<u8>)| {
        let mut packets = two.clone();
        other(&mut packets[1].0);
        joined(64, &packets).len()
    };
    assert_eq!(pieces(&|_| ()), 1);
    // A different service, host, port or protocol; longer than the first.
    for change in [1_usize, 8, 9, 15, 19, 21, 23] {
        assert_eq!(pieces(&|packet| packet[change] ^= 1), 2, "byte {change}");
    }
    assert_eq!(pieces(&|packet| packet.push(0)), 2);
    assert_eq!(joined(1, &two).len(), 2, "as few as wanted");
    let short_first = cut_up(&train_of(false, 1_000, &payload(2_500))).split_off(1);
    let order = [short_first[1].clone(), short_first[0].clone()];
    assert_eq!(joined(64, &order).len(), 2, "the shorter one is the last");
    // More than an IP packet holds, and a finished checksum.
    let many: Vec<_> = (0..66).map(|_| two[0].clone()).collect();
    assert_eq!(joined(usize::MAX, &many).len(), 2);
    assert_eq!(joined(64, &[(two[0].0.clone(), None), two[1].clone()]).len(), 2);
}

#[test]
fn single_packets_pass_as_they_are() {
    let plain = [
        &[0; VNET_HEADER_BYTES],
        &[0x45, 0, 0, 20, 1, 2, 3, 4, 5, 1, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15][..],
    ];
    let tcp = train_of(false, 0, &payload(900));
    let mut tcp = tcp;
    tcp[1] = 0;
    tcp[VNET_HEADER_BYTES + 9] = 6;
    for read in [plain.concat(), tcp] {
        let packets = cut_up(&read);
        assert_eq!(packets.len(), 1);
        let written = joined(64, &packets);
        assert_eq!(written[0][VNET_HEADER_BYTES..], read[VNET_HEADER_BYTES..]);
        assert_eq!((written[0][0], &written[0][6..10]), (read[0], &read[6..10]));
    }
}

#[test]
fn nonsense_is_passed_on_or_left_and_never_panics() {
    let whole = train_of(true, 1_000, &payload(2_500));
    for end in 0..whole.len().min(200) {
        let any = cut(&whole[..end], |_| ());
        assert_eq!(any, end > VNET_HEADER_BYTES);
    }
    let mut random = units::Random::new(3);
    for _ in 0..20_000 {
        let mut read = train_of(random.chance(0.5), 500, &payload(1_200));
        for _ in 0..random.below(8) {
            let at = random.below(60) as usize;
            read[at] = random.below(256) as u8;
        }
        read.truncate(random.below(read.len() as u64 + 1) as usize);
        let written: usize = joined(64, &cut_up(&read)).iter().map(Vec::len).sum();
        assert!(written <= 2 * read.len() + 200 * 128);
    }
}
