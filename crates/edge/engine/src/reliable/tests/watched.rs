//! Owners that wait for news, each in one thread.

use support::WATCHDOG;
use udt::{SendError, Sent, Terms};

use super::*;

fn config() -> SocketConfig {
    SocketConfig::new(SocketType::Datagram)
}

/// A port and its owner's news.
fn watched(seed: u64) -> (ReliablePort, Arc<News>) {
    let (port, news) = (port(seed, true), Arc::new(News::default()));
    port.tell(Arc::clone(&news));
    (port, news)
}

/// Waits for news alone: nothing looks before a word comes, but at the end of the watchdog's time.
fn once<T>(news: &News, look: impl FnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    let found = news.doorbell().wait_until(WATCHDOG, look).expect("it happens");
    assert!(begun.elapsed() < WATCHDOG, "a word of it comes");
    found
}

/// Connects a client to a new listener; returns its connection and the listener's.
fn connected(
    (client, at_client): &(ReliablePort, Arc<News>),
    (server, at_server): &(ReliablePort, Arc<News>),
) -> (SocketId, SocketId) {
    server.listen(config(), 4).expect("the only listener");
    let socket = client.begin_to_connect(server.local_address(), config());
    let is_connected = || (client.standing(socket) == Some(Standing::Connected)).then_some(());
    once(at_client, is_connected);
    (socket, once(at_server, || server.try_accept()))
}

#[test]
fn one_thread_connects_accepts_sends_and_receives_as_news_come() {
    let (near, far) = (watched(11), watched(12));
    let (socket, accepted) = connected(&near, &far);
    let (mut message, mut got) = (Vec::new(), Vec::new());
    for round in 0..3_u8 {
        for number in 0..20 {
            assert_eq!(near.0.try_send_message(socket, &[round, number], Terms::default()), Ok(Sent::Queued));
        }
        while got.len() < 20 * (usize::from(round) + 1) {
            let taken = || far.0.try_receive_message(accepted, &mut message).expect("it holds");
            once(&far.1, taken);
            got.push(message.clone());
        }
    }
    got.sort();
    let all = (0..3).flat_map(|round| (0..20).map(move |number| vec![round, number]));
    assert_eq!(got, all.collect::<Vec<_>>());
    // The end of one is news of the other.
    near.0.leave(socket);
    assert_eq!(near.0.standing(socket), None);
    assert_eq!(
        near.0.try_send_message(socket, b"late", Terms::default()),
        Err(WaitError::Send(SendError::Closed))
    );
    let end = once(&far.1, || far.0.try_receive_message(accepted, &mut message).err());
    assert_eq!(end, WaitError::Closed(CloseReason::ByPeer));
    assert_eq!(far.0.standing(accepted), Some(Standing::Over(CloseReason::ByPeer)));
}

#[test]
fn an_owner_is_told_that_there_is_no_answer_and_of_room_for_a_refused_message() {
    let (client, at_client) = watched(13);
    let nobody = port(14, true).local_address();
    let config = SocketConfig { connect_timeout: Duration::from_millis(300), ..config() };
    let socket = client.begin_to_connect(nobody, config.clone());
    assert_eq!(
        client.try_send_message(socket, b"early", Terms::default()),
        Err(WaitError::Send(SendError::NotConnected))
    );
    let over = once(&at_client, || match client.standing(socket) {
        Some(Standing::Over(reason)) => Some(reason),
        _ => None,
    });
    assert_eq!(over, CloseReason::NoAnswer);
    client.leave(socket);

    let (near, far) = ((client, at_client), watched(15));
    let (socket, accepted) = connected(&near, &far);
    let mut refused = 0;
    let mut message = Vec::new();
    for number in 0..20_000_u32 {
        let send =
            || near.0.try_send_message(socket, &number.to_le_bytes(), Terms::default()) == Ok(Sent::Queued);
        if !send() {
            refused += 1;
            while far.0.try_receive_message(accepted, &mut message).expect("it holds").is_some() {}
            once(&near.1, || send().then_some(()));
        }
    }
    assert!(refused > 0, "the send buffer has room for 8,192 packets");
}

#[test]
fn connections_of_one_port_stand_for_themselves() {
    let (first, second, far) = (watched(16), watched(17), watched(18));
    let (one, of_one) = connected(&first, &far);
    let two = second.0.begin_to_connect(far.0.local_address(), config());
    let of_two = once(&far.1, || far.0.try_accept());
    once(&second.1, || (second.0.standing(two) == Some(Standing::Connected)).then_some(()));
    let mut message = Vec::new();
    for (near, socket, accepted, bytes) in [(&first, one, of_one, b"1"), (&second, two, of_two, b"2")] {
        assert_eq!(near.0.try_send_message(socket, bytes, Terms::default()), Ok(Sent::Queued));
        once(&far.1, || far.0.try_receive_message(accepted, &mut message).expect("it holds"));
        assert_eq!(message, bytes);
    }
    first.0.leave(one);
    once(&far.1, || far.0.try_receive_message(of_one, &mut message).err());
    far.0.leave(of_one);
    assert_eq!(far.0.standing(of_one), None);
    assert_eq!(far.0.standing(of_two), Some(Standing::Connected));
    assert_eq!(far.0.try_send_message(of_two, b"back", Terms::default()), Ok(Sent::Queued));
    once(&second.1, || second.0.try_receive_message(two, &mut message).expect("it holds"));
    assert_eq!(message, b"back");
}

#[test]
fn an_owner_learns_which_messages_were_given_up_and_when_there_is_room_again() {
    let (near, far) = (watched(19), watched(20));
    let (socket, accepted) = connected(&near, &far);
    let begun = clock::monotonic();
    let late = Terms { deadline: Some(begun), tag: 7, ..Terms::default() };
    assert_ne!(near.0.try_send_message(socket, b"late", late), Ok(Sent::NoRoom));
    // Those behind it fill the buffer.
    let mut queued = 0_u64;
    while near.0.way(socket).expect("it is connected").room > 0 {
        let terms = Terms { tag: 8, ..Terms::default() };
        queued += u64::from(near.0.try_send_message(socket, &[1; 1_000], terms) == Ok(Sent::Queued));
    }
    let mut message = Vec::new();
    for _ in 0..queued {
        once(&far.1, || far.0.try_receive_message(accepted, &mut message).expect("it holds"));
        assert_eq!(message, [1; 1_000]);
    }
    once(&near.1, || (near.0.way(socket).expect("it is connected").room > 0).then_some(()));
    let expired = near.0.take_expired(socket);
    assert_eq!(expired.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [7]);
    assert!(near.0.take_expired(socket).is_empty(), "they are told once");
    let way = near.0.way(socket).expect("it is connected");
    assert!(way.is_up && way.message_bytes > 500 && way.at >= begun, "{way:?}");
}
