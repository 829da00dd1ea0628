//! The command's `--raw` and programs of libudt as peers of each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use e2e::binary;
use interop::{Peer, bytes_from};

const BYTES: u64 = 20_000_000;

fn program() -> Option<&'static PathBuf> {
    interop::program(env!("CARGO_TARGET_TMPDIR"))
}

/// Starts the command with pipes for its standard streams.
fn command(arguments: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command was built")
}

#[test]
fn standard_input_goes_to_a_program_of_libudt() {
    let Some(program) = program() else { return };
    for (kind, size, count, options) in
        [("stream", "1000000", "20", &[][..]), ("messages", "10000", "2000", &["--messages", "10kB"][..])]
    {
        let mut peer = Peer::start(program, &["listen", "127.0.0.1", "0", kind, "receive", size, count]);
        let address = format!("udt://127.0.0.1:{}", peer.port());
        let mut sender = command(&[&["send", "--raw", &address], options].concat());
        let mut input = sender.stdin.take().expect("a pipe was asked for");
        input.write_all(&bytes_from(0, BYTES)).expect("it reads all of it");
        drop(input);
        let received = if kind == "stream" { "received 20000000 wrong 0" } else { "received 2000 wrong 0" };
        assert_eq!(peer.line(), received);
        let output = sender.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn what_a_program_of_libudt_sends_comes_out() {
    let Some(program) = program() else { return };
    for (kind, size, count, options) in
        [("stream", "1000000", "20", &[][..]), ("messages", "10000", "2000", &["--messages"][..])]
    {
        let arguments = ["recv", "--raw", "--json", "udt://127.0.0.1:0"];
        let mut receiver = command(&[&arguments, options].concat());
        let mut said = BufReader::new(receiver.stderr.take().expect("a pipe was asked for"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says where it listens");
        let (_, port) = line.split_once(r#""port":"#).expect("and at which port");
        let port = port.trim().trim_end_matches('}');
        let _peer = Peer::start(program, &["connect", "127.0.0.1", port, kind, "send", size, count]);
        let mut output = Vec::new();
        let mut stdout = receiver.stdout.take().expect("a pipe was asked for");
        stdout.read_to_end(&mut output).expect("it can be read");
        assert!(output == bytes_from(0, BYTES), "{kind}: {} bytes", output.len());
        assert!(receiver.wait().expect("it ends").success());
    }
}
