//! A process that may open no more files: open ports continue, and errors of new ones name the
//! remedy.
//!
//! The limit is the whole process's, so this is a test program of its own with one test.

use std::fs::File;

use engine::{PortError, PortOptions, ReliablePort};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::WATCHDOG;
use udt::{SocketConfig, SocketType};

fn open() -> Result<ReliablePort, PortError> {
    ReliablePort::open(&PortOptions {
        address: "127.0.0.1:0".parse().expect("an address"),
        receive_buffer_bytes: 1 << 20,
        send_buffer_bytes: 1 << 20,
        offloads: true,
        seed: 1,
        secret: [5; 16],
        keys: None,
    })
}

/// Opens files until the limit is reached.
fn exhaust() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn without_descriptors_no_port_opens_and_what_stands_goes_on() {
    let config = SocketConfig::new(SocketType::Stream);
    let (client, server) = (open().expect("there is room"), open().expect("there is room"));
    server.listen(config.clone(), 4).expect("the only listener");
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).expect("it may be lowered");
    let mut files = exhaust();
    // Sockets of one port share its descriptor: connecting and accepting take none.
    let socket = client.connect(server.local_address(), config).expect("the server listens");
    let accepted = server.accept(Some(WATCHDOG)).expect("a client came");
    // However few are left, a port opens completely or not at all, and the error names what is
    // missing.
    let mut left = 0;
    let port = loop {
        match open() {
            Ok(port) => break port,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("os error 24") && said.contains("ulimit -n"), "{left} left: {said}");
            }
        }
        let again = exhaust();
        assert_eq!(again.len(), left, "what was opened of it is given back");
        drop(again);
        drop(files.pop().expect("a port needs fewer than there are"));
        left += 1;
    };
    assert!(left > 2, "a port has a socket, a waker and a poller");
    drop((port, files));
    client.send(socket, b"still here", None).expect("the connection holds");
    let mut bytes = [0; 16];
    assert_eq!(server.receive(accepted, &mut bytes, Some(WATCHDOG)), Ok(10));
    setrlimit(Resource::Nofile, before).expect("it may be raised again");
}
