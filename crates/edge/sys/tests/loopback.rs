//! Real sockets on the loopback interface; needs no privilege.
//!
//! IPv6 multicast is in `namespace`: on loopback it takes a route that hosts do not have.

mod scene;

use std::net::SocketAddr;

use scene::{
    BUFFER_BYTES, at, earn_trust, keeps_groups_apart, leaves_and_comes_back, makes_the_round, number,
    numbered, numbers, receive_until, receiver, send_number, sender,
};
use sys::{
    Interest, Interface, Loopback, OpenError, Origin, Outcome, Poller, ReceiveBatch, ReceiveOptions,
    ReceiveSocket, ReceiveTechniques, Refusal, SendOptions, SendSocket, SendTechniques, host,
};

const ECONNREFUSED: i32 = 111;
const EACCES: i32 = 13;

#[test]
fn ipv4_unicast_makes_the_round() {
    makes_the_round(at("127.0.0.1:0"));
}

#[test]
fn ipv4_multicast_makes_the_round() {
    makes_the_round(at("239.84.1.1:0"));
}

#[test]
fn ipv6_unicast_makes_the_round() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("SKIPPED: this host has no IPv6");
        return;
    }
    makes_the_round(at("[::1]:0"));
}

#[test]
fn trains_make_the_round_with_every_technique_and_without() {
    for address in ["127.0.0.1:0", "239.84.1.2:0"] {
        for (gso, gro, batches, connect) in [
            (true, true, true, false),
            (true, false, true, true),
            (false, true, true, false),
            (false, false, false, true),
            (true, true, false, true),
        ] {
            let sending = SendTechniques { gso, batches, connect };
            trains_make_the_round(at(address), sending, ReceiveTechniques { gro, batches });
        }
    }
}

/// Sends trains of many sizes; all arrive, in order, whatever features either side uses.
fn trains_make_the_round(address: SocketAddr, sending: SendTechniques, receiving: ReceiveTechniques) {
    let receiver = ReceiveSocket::open(&ReceiveOptions {
        interface: Some(Interface::find("lo").expect("every host has it")),
        techniques: receiving,
        ..ReceiveOptions::at(address, BUFFER_BYTES)
    })
    .expect("it opens");
    let to = receiver.local_address();
    let mut sender = SendSocket::open(&SendOptions {
        destination: to,
        interface: Some(Interface::find("lo").expect("every host has it")),
        ttl: 1,
        loopback: Loopback::On,
        buffer_bytes: BUFFER_BYTES,
        techniques: sending,
    })
    .expect("it opens");
    sender.connect(to).expect("it is there");
    assert_eq!(
        (sender.techniques(), receiver.techniques()),
        (sending, receiving),
        "this kernel has them all"
    );
    earn_trust(&mut sender, &receiver);
    let mut next = 0;
    for (count, size, last) in
        [(1, 100, 100), (2, 100, 8), (16, 1_472, 1_472), (44, 1_472, 9), (64, 8, 8), (3, 20_000, 99)]
    {
        let mut train: Vec<u8> = (next..next + count).flat_map(|number| numbered(number, size)).collect();
        train.truncate(train.len() - (size - last));
        let outcomes = sender.send_train(&train, size, to);
        assert_eq!((outcomes.len() as u64, outcomes.iter().all(|it| *it == Outcome::Sent)), (count, true));
        assert_eq!(numbers(&receiver, count as usize), (next..next + count).collect::<Vec<_>>());
        next += count;
    }
    assert_eq!(receiver.meminfo().expect("it is told").drops, 0);
}

#[test]
fn a_train_is_received_in_one_piece_and_told_apart_again() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    earn_trust(&mut sender, &receiver);
    let train: Vec<u8> = (0..1_050_u32).map(|byte| byte as u8).collect();
    assert_eq!(sender.send_train(&train, 100, to), [Outcome::Sent; 11]);
    let mut batch = ReceiveBatch::for_trains();
    receive_until(&receiver, &mut batch, |batch| batch.iter().len() > 0);
    let received = batch.iter().next().unwrap();
    assert_eq!((batch.iter().len(), received.bytes, received.segment_bytes), (1, train.as_slice(), 100));
    assert!(received.datagrams().eq(train.chunks(100)));
}

#[test]
fn more_than_a_train_can_hold_leaves_in_several() {
    let receiver = receiver(at("127.0.0.1:0"), 4 * BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    earn_trust(&mut sender, &receiver);
    // 100 of 8 bytes are more than 64; 50 of 1,472 bytes are more than 65,507 bytes.
    for (count, size) in [(100, 8), (50, 1_472)] {
        let train: Vec<u8> = (0..count).flat_map(|number: u64| numbered(number, size)).collect();
        assert!(sender.send_train(&train, size, to).iter().all(|outcome| *outcome == Outcome::Sent));
        assert_eq!(numbers(&receiver, count as usize), (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn neither_sending_nor_receiving_allocates() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    earn_trust(&mut sender, &receiver);
    let (train, mut batch) = ([7; 16 * 1_000], ReceiveBatch::for_trains());
    let mut round = || {
        assert_eq!(sender.send_train(&train, 1_000, to).len(), 16);
        assert_eq!(sender.send_batch(&[&train[..100], &train[..200]], to).len(), 2);
        let mut datagrams = 0;
        while datagrams < 18 {
            receiver.receive_batch(&mut batch).unwrap();
            datagrams += batch.iter().map(|received| received.datagrams().count()).sum::<usize>();
        }
    };
    round();
    assert_eq!(allocation_counter::measure(|| (0..100).for_each(|_| round())).count_total, 0);
}

#[test]
fn a_datagram_larger_than_the_train_before_it_is_not_cut() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    earn_trust(&mut sender, &receiver);
    sender.send_train(&[1; 64], 32, to);
    sender.send_batch(&[&[2; 200], &[3; 10]], to);
    let (mut batch, mut sizes) = (ReceiveBatch::for_trains(), Vec::new());
    receive_until(&receiver, &mut batch, |batch| {
        sizes.extend(
            batch.iter().flat_map(|received| received.datagrams().map(<[u8]>::len).collect::<Vec<_>>()),
        );
        sizes.len() >= 4
    });
    assert_eq!(sizes, [32, 32, 200, 10]);
}

#[test]
fn an_empty_datagram_is_one_too() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    sender(to).send_batch(&[&[]], to);
    let mut batch = ReceiveBatch::for_trains();
    receive_until(&receiver, &mut batch, |batch| batch.iter().len() == 1);
    assert_eq!(batch.iter().next().unwrap().datagrams().count(), 1);
}

#[test]
fn a_full_buffer_counts_a_train_once() {
    let receiver = receiver(at("127.0.0.1:0"), 4_096);
    let to = receiver.local_address();
    let mut sender = sender(to);
    earn_trust(&mut sender, &receiver);
    // The first always fits, whatever its size; the others find the buffer full.
    for _ in 0..4 {
        assert_eq!(sender.send_train(&[7; 16_000], 1_000, to), [Outcome::Sent; 16]);
    }
    assert_eq!(receiver.meminfo().unwrap().drops, 3);
}

#[test]
fn senders_are_spread_over_the_sockets_of_one_port() {
    let open = |address| {
        ReceiveSocket::open(&ReceiveOptions { shared: true, ..ReceiveOptions::at(address, BUFFER_BYTES) })
    };
    let first = open(at("127.0.0.1:0")).unwrap();
    let to = first.local_address();
    let second = open(to).unwrap();
    for number in 0..64 {
        send_number(&mut sender(to), number, to);
    }
    let mut batch = ReceiveBatch::new();
    let mut heard = |socket: &ReceiveSocket| {
        let mut count = 0;
        while socket.receive_batch(&mut batch).unwrap() > 0 {
            count += batch.iter().len();
        }
        count
    };
    let (one, other) = (heard(&first), heard(&second));
    assert_eq!(one + other, 64, "each datagram goes to one of them");
    assert!(one > 0 && other > 0, "{one} and {other}");
}

#[test]
fn every_socket_of_a_group_gets_its_datagrams_and_none_of_another() {
    keeps_groups_apart(at("239.84.2.1:0"), at("239.84.2.2:0"));
}

#[test]
fn a_socket_that_left_its_group_hears_nothing_until_it_joins_again() {
    leaves_and_comes_back(at("239.84.3.1:0"));
}

#[test]
fn two_hundred_groups_each_have_their_own_socket() {
    let first = receiver(at("239.84.4.0:0"), BUFFER_BYTES);
    let port = first.local_address().port();
    let rest = (1..200).map(|low| receiver(SocketAddr::from(([239, 84, 4, low], port)), BUFFER_BYTES));
    let sockets: Vec<_> = std::iter::once(first).chain(rest).collect();
    let mut poller = Poller::new().unwrap();
    for (token, socket) in sockets.iter().enumerate() {
        poller.add(socket, token as u64, Interest::Read).unwrap();
    }
    let mut sender = sender(sockets[0].local_address());
    for (index, socket) in sockets.iter().enumerate() {
        send_number(&mut sender, index as u64, socket.local_address());
    }
    let (mut batch, mut heard) = (ReceiveBatch::new(), vec![0; sockets.len()]);
    while heard.contains(&0) {
        for token in poller.wait(None).unwrap().iter().map(|ready| ready.token) {
            let index = usize::try_from(token).unwrap();
            sockets[index].receive_batch(&mut batch).unwrap();
            assert!(batch.iter().all(|received| number(received.bytes) == token));
            heard[index] += batch.iter().len();
        }
    }
    assert!(heard.iter().all(|count| *count == 1));
}

#[test]
fn what_a_full_buffer_dropped_is_counted_to_the_last_datagram() {
    let receiver = receiver(at("127.0.0.1:0"), 4_096);
    assert_eq!(receiver.granted_buffer().effective_bytes, 8_192);
    let to = receiver.local_address();
    let mut sender = sender(to);
    let (mut batch, payload) = (ReceiveBatch::new(), [0; 1_472]);
    let (mut sent, mut arrived, mut stamped) = (0, 0, None);
    for _ in 0..20 {
        for _ in 0..50 {
            assert_eq!(sender.send_batch(&[&payload], to), [Outcome::Sent]);
            sent += 1;
        }
        receive_until(&receiver, &mut batch, |batch| {
            arrived += batch.iter().len();
            stamped = batch.iter().last().map_or(stamped, |received| received.drops);
            arrived + receiver.meminfo().unwrap().drops as usize >= sent
        });
    }
    let drops = receiver.meminfo().unwrap().drops;
    assert_eq!(arrived + drops as usize, sent);
    assert!(drops > 0);
    assert!(stamped.unwrap_or(0) < drops, "the stamp lags as long as nothing is queued after the drops");
    sender.send_batch(&[&payload], to);
    receive_until(&receiver, &mut batch, |batch| batch.iter().len() == 1);
    assert_eq!(batch.iter().next().unwrap().drops, Some(drops));
    let empty = receiver.meminfo().unwrap();
    assert_eq!((empty.queued_bytes, empty.buffer_bytes), (0, 8_192));
}

#[test]
fn a_datagram_larger_than_its_slot_is_marked() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut batch = ReceiveBatch::with_slot_bytes(100);
    sender(to).send_batch(&[&[1; 100], &[2; 101]], to);
    let mut seen = Vec::new();
    receive_until(&receiver, &mut batch, |batch| {
        seen.extend(batch.iter().map(|received| (received.bytes.to_vec(), received.truncated)));
        seen.len() == 2
    });
    assert_eq!(seen, [(vec![1; 100], false), (vec![2; 100], true)]);
}

#[test]
fn the_largest_datagram_there_is_arrives_whole() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut batch = ReceiveBatch::with_slot_bytes(65_535);
    let largest = vec![9; 65_507];
    assert_eq!(sender(to).send_batch(&[&largest], to), [Outcome::Sent]);
    receive_until(&receiver, &mut batch, |batch| batch.iter().len() == 1);
    let received = batch.iter().next().unwrap();
    assert_eq!((received.bytes, received.truncated), (largest.as_slice(), false));
}

#[test]
fn a_datagram_that_is_too_large_is_refused_and_its_neighbours_are_sent() {
    let receiver = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let to = receiver.local_address();
    let mut sender = sender(to);
    let (one, two, too_large) = (1_u64.to_le_bytes(), 2_u64.to_le_bytes(), vec![0; 65_508]);
    let outcomes = sender.send_batch(&[&one, &too_large, &two], to);
    assert_eq!(outcomes, [Outcome::Sent, Outcome::Refused(Refusal::TooLarge), Outcome::Sent]);
    assert_eq!(numbers(&receiver, 2), [1, 2]);
}

#[test]
fn what_the_ip_layer_refuses_keeps_its_error_number() {
    // Broadcast without SO_BROADCAST: refused before any interface is chosen.
    let broadcast = at("255.255.255.255:7400");
    let outcomes = sender(broadcast).send_batch(&[&[0]], broadcast).to_vec();
    assert_eq!(outcomes, [Outcome::Refused(Refusal::Ip(EACCES))]);
}

#[test]
fn a_closed_port_is_reported_without_costing_later_datagrams() {
    let closed = receiver(at("127.0.0.1:0"), BUFFER_BYTES).local_address();
    let open = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let mut sender = sender(closed);
    send_number(&mut sender, 0, closed);
    // The answer to the first one is pending now, and belongs to none of these.
    for number in 1..=3 {
        send_number(&mut sender, number, open.local_address());
    }
    assert_eq!(numbers(&open, 3), [1, 2, 3]);
    let mut errors = Vec::new();
    sender.drain_error_queue(&mut errors).unwrap();
    let [error] = &errors[..] else { panic!("one error, not {errors:?}") };
    assert_eq!((error.errno, error.origin, error.destination), (ECONNREFUSED, Origin::Icmp, Some(closed)));
    assert_eq!(error.offender, Some(closed.ip()));
    assert_eq!(number(error.returned()), 0, "the datagram itself comes back");
    assert!(sender.met_path_errors() && !sender.met_path_errors());
}

#[test]
fn a_buffer_of_a_gibibyte_is_granted_or_its_limit_is_named() {
    let buffer = receiver(at("127.0.0.1:0"), 1 << 30).granted_buffer();
    println!("{buffer}");
    if buffer.clamped() {
        assert_eq!(buffer.limit_bytes, host::receive_buffer_limit().ok());
        assert!(buffer.to_string().contains("sysctl -w net.core.rmem_max="));
    } else {
        assert_eq!(buffer.effective_bytes, 2 * buffer.asked_bytes);
    }
}

#[test]
fn a_unicast_port_is_not_shared() {
    let first = receiver(at("127.0.0.1:0"), BUFFER_BYTES);
    let (address, interface) = (first.local_address(), None);
    let second =
        ReceiveSocket::open(&ReceiveOptions { interface, ..ReceiveOptions::at(address, BUFFER_BYTES) });
    assert!(matches!(second.err(), Some(OpenError::InUse { address: named }) if named == address));
}

#[test]
fn an_address_of_another_host_is_not_received_on() {
    let (address, interface) = (at("192.0.2.1:0"), Interface::find("lo").ok());
    let error =
        ReceiveSocket::open(&ReceiveOptions { interface, ..ReceiveOptions::at(address, BUFFER_BYTES) }).err();
    assert!(matches!(error, Some(OpenError::NotLocal { .. })));
}
