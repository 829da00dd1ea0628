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
    // Those that were accepted outlive their listener.
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
fn whom_nobody_answers_learns_where() {
    let mut options = Options::stream();
    options.socket.connect_timeout = Duration::from_millis(200);
    let nobody = listener(&options).local_address();
    let error = Connection::connect_to(nobody, &options).expect_err("the listener is gone");
    assert_eq!(error.to_string(), format!("udt://{nobody}: nobody answers there"));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::HostUnreachable);
}
