//! Real sockets on the loopback interface; needs no privilege.
//!
//! IPv6 multicast is in `namespace`: on loopback it takes a route that hosts do not have.

mod scene;

use std::net::SocketAddr;

use scene::{
    BUFFER_BYTES, at, keeps_groups_apart, leaves_and_comes_back, makes_the_round, number, numbers,
    receive_until, receiver, send_number, sender,
};
use sys::{
    Interest, Interface, OpenError, Origin, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    Refusal, host,
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
    let second = ReceiveSocket::open(&ReceiveOptions { address, interface, buffer_bytes: BUFFER_BYTES });
    assert!(matches!(second.err(), Some(OpenError::InUse { address: named }) if named == address));
}

#[test]
fn an_address_of_another_host_is_not_received_on() {
    let (address, interface) = (at("192.0.2.1:0"), Interface::find("lo").ok());
    let error = ReceiveSocket::open(&ReceiveOptions { address, interface, buffer_bytes: BUFFER_BYTES }).err();
    assert!(matches!(error, Some(OpenError::NotLocal { .. })));
}
