//! Connections over the loopback interface.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use super::*;

fn listener(options: &Options) -> Listener {
    Listener::bind_to("127.0.0.1:0".parse().expect("an address"), options).expect("loopback has room")
}

#[test]
fn streams_are_read_and_written_as_every_other() {
    let listener = listener(&Options::stream());
    let address = Address::at(listener.local_address());
    let client = thread::spawn(move || {
        let connection = Connection::connect(&address).expect("the listener is there");
        (&connection).write_all(&[7; 300_000]).expect("the connection holds");
        let sent = connection.send_from(&mut [9_u8; 500].as_slice(), 1_000).expect("the connection holds");
        assert_eq!(sent, 500);
        connection.flush().expect("the reader takes it");
        assert_eq!(connection.stats().expect("it is open").queued_bytes, 0);
        connection.close()
    });
    let connection = listener.accept(None).expect("a client comes");
    let mut first = [0; 300_000];
    (&connection).read_exact(&mut first).expect("it is sent");
    assert!(first.iter().all(|byte| *byte == 7));
    let mut rest = Vec::new();
    assert_eq!(connection.receive_into(&mut rest, u64::MAX).expect("the end is in order"), 500);
    assert_eq!(rest, [9; 500]);
    assert_eq!(connection.peer_address().map(|peer| peer.ip().is_loopback()), Some(true));
    assert_eq!(client.join().expect("it does not panic"), Ok(()));
    // Accepted connections outlive their listener.
    drop(listener);
    assert_eq!(connection.close(), Ok(()));
}

#[test]
fn messages_keep_their_borders() {
    let listener = listener(&Options::messages());
    let client = Connection::connect_to(listener.local_address(), &Options::messages())
        .expect("the listener is there");
    let server = listener.accept(None).expect("a client came");
    for length in [1, 1_000, 100_000] {
        client.send_message(&vec![5; length], Lifetime::default()).expect("there is room");
        let mut message = Vec::new();
        assert_eq!(server.receive_message(&mut message), Ok(true));
        assert_eq!(message.len(), length);
    }
    server.set_receive_timeout(Some(Duration::from_millis(1)));
    assert_eq!(server.receive_message(&mut Vec::new()), Err(WaitError::TimedOut));
    assert_eq!(client.send(b"no message"), Err(WaitError::Send(SendError::WrongType)));
    assert_eq!(client.close(), Ok(()));
}

#[test]
fn a_stream_that_is_cut_off_says_so() {
    let mut options = Options::stream();
    options.socket.linger = Duration::from_millis(50);
    options.socket.receive_buffer_packets = 32;
    let listener = listener(&options);
    let client = Connection::connect_to(listener.local_address(), &options).expect("the listener is there");
    let server = listener.accept(None).expect("a client came");
    // The reader never reads: its buffer takes a part, and the rest stays here.
    client.send_all(&[1; 1_000_000]).expect("there is room in our own buffer");
    assert_eq!(client.close(), Err(WaitError::Closed(CloseReason::Unsent)));
    let mut bytes = Vec::new();
    let read = (&server).read_to_end(&mut bytes);
    assert!(read.is_ok() && bytes.len() < 1_000_000, "{} bytes", bytes.len());
}

#[test]
fn a_failed_connection_names_the_address() {
    let mut options = Options::stream();
    options.socket.connect_timeout = Duration::from_millis(200);
    let nobody = listener(&options).local_address();
    let error = Connection::connect_to(nobody, &options).expect_err("the listener is gone");
    assert_eq!(error.to_string(), format!("udt://{nobody}: no answer from the peer"));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::HostUnreachable);
}

#[test]
fn a_file_is_sent_from_its_place_and_who_cannot_write_it_says_so() {
    let mut options = Options::stream();
    // Data that the peer cannot write are not worth lingering for.
    options.socket.linger = Duration::from_millis(50);
    let listener = listener(&options);
    let client = Connection::connect_to(listener.local_address(), &options).expect("it listens");
    let server = listener.accept(None).expect("a client came");
    let mut file = tempfile::tempfile().expect("a file");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    file.write_all(&bytes).expect("there is room");
    let sending = thread::spawn(move || {
        assert_eq!(client.send_file(&file, 1_000, 2_000_000).expect("the connection holds"), 2_000_000);
        // Past its end there is nothing to send.
        assert_eq!(client.send_file(&file, 3_000_000, 5).expect("the connection holds"), 0);
        (client, file)
    });
    let copy = tempfile::tempfile().expect("a file");
    assert_eq!(server.receive_file(&copy, 500, 2_000_000).expect("there is room"), 2_000_000);
    let (client, file) = sending.join().expect("it does not panic");
    let mut copied = vec![0; 2_000_000];
    std::os::unix::fs::FileExt::read_exact_at(&copy, &mut copied, 500).expect("it is there");
    assert!(copied == bytes[1_000..2_001_000]);
    assert_eq!(copy.metadata().expect("it is there").len(), 2_000_500);
    // A file that cannot be written: the sender waits for room that never comes, and is notified why.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let sending = thread::spawn(move || {
        loop {
            if let Err(error) = client.send_file(&file, 0, 3_000_000) {
                return error;
            }
        }
    });
    let error = server.receive_file(&full, 0, 9).expect_err("it is full");
    assert!(matches!(&error, Error::File(error) if error.kind() == io::ErrorKind::StorageFull), "{error}");
    let error = sending.join().expect("it does not panic");
    assert!(matches!(error, Error::Wait(WaitError::Peer(4_000))), "{error}");
}

#[test]
fn a_client_connects_from_the_port_it_wants_and_learns_how_the_connection_ended() {
    let listener = listener(&Options::stream());
    let taken = listener.local_address();
    let error = Connection::connect_from(taken, taken, &Options::stream()).expect_err("somebody has it");
    assert!(error.to_string().contains("is in use by another program"), "{error}");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("one");
    let client = Connection::connect_from(free, taken, &Options::stream()).expect("it listens");
    assert_eq!(client.local_address(), free);
    let server = listener.accept(None).expect("a client came");
    assert_eq!((server.peer_address(), client.closed()), (Some(free), None));
    assert_eq!(server.close(), Ok(()));
    assert_eq!(client.receive(&mut [0; 9]), Ok(0));
    assert_eq!(client.closed(), Some(CloseReason::ByPeer));
}

#[test]
fn who_does_not_want_to_wait_does_not_and_a_full_backlog_refuses() {
    let mut options = Options::stream();
    options.backlog = 1;
    // No reader: data that fill both buffers are not waited for at the end.
    options.socket.linger = Duration::ZERO;
    let listener = listener(&options);
    assert_eq!(listener.accept(Some(Duration::ZERO)).err(), Some(WaitError::TimedOut));
    let client = Connection::connect_to(listener.local_address(), &options).expect("it listens");
    let refused = Connection::connect_to(listener.local_address(), &options).expect_err("one waits already");
    assert!(refused.to_string().contains("refused the connection"), "{refused}");
    client.set_receive_timeout(Some(Duration::ZERO));
    assert_eq!(client.receive(&mut [0; 9]), Err(WaitError::TimedOut));
    client.set_send_timeout(Some(Duration::ZERO));
    let mut queued = 0;
    let stopped = loop {
        match client.send(&[1; 100_000]) {
            Ok(count) => queued += count,
            Err(error) => break error,
        }
    };
    assert_eq!(stopped, WaitError::TimedOut, "nobody reads, so both buffers are full at last");
    let stats = client.stats().expect("it is open");
    assert!(queued as u64 >= stats.queued_bytes && stats.queued_bytes > 0, "{stats:?}");
    assert!(stats.send_room_packets < 100_000 / 1_456 + 1, "{stats:?}");
}

#[test]
fn statistics_are_told_as_a_difference_to_an_earlier_look() {
    let listener = listener(&Options::stream());
    let client = Connection::connect_to(listener.local_address(), &Options::stream()).expect("it listens");
    let server = listener.accept(None).expect("a client came");
    let look = |bytes: usize| {
        client.send_all(&vec![1; bytes]).expect("the connection holds");
        (&server).read_exact(&mut vec![0; bytes]).expect("it is sent");
        client.flush().expect("it was read");
        (client.stats().expect("it is open"), server.stats().expect("it is open"))
    };
    let (earlier, _) = look(100_000);
    let (later, at_server) = look(50_000);
    let between = later.since(&earlier);
    assert_eq!((earlier.sent_bytes, between.sent_bytes, later.sent_bytes), (100_000, 50_000, 150_000));
    assert_eq!(between.age, later.age - earlier.age);
    assert!(later.busy > Duration::ZERO && later.busy <= later.age, "{later:?}");
    assert_eq!((later.send_room_packets, at_server.receive_room_packets), (8_192, 8_192));
    assert!(later.peer_window_packets > 8_000, "{later:?}");
}
