//! A publisher on this host whose process is stopped: a reader of its ring is told no horizon until it continues.
#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::wait_until;
use tallycast::{Bus, Dtype, Node, Reach, Subscriber};

/// Variable with the bus of the process that publishes.
const BUS: &str = "TALLYCAST_TEST_BUS";

/// A process that publishes a few samples and then pauses; dropping it ends it.
struct Publishing(Child);

impl Publishing {
    fn start(bus: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "publishes_a_little_and_pauses", "--ignored"]).env(BUS, bus);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id().cast_signed()).unwrap(), signal).unwrap();
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        // An error means that it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the process that the other tests start"]
fn publishes_a_little_and_pauses() {
    let Ok(bus) = std::env::var(BUS) else { return };
    let node = Node::open(bus.parse().unwrap()).unwrap();
    let mut publisher = node.publisher("lab/x").dtype(Dtype::I32).rate(1_000).open().unwrap();
    publisher.send(&[1_i32; 100]).unwrap();
    // Its parent ends it.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Takes all events that are there; returns whether a horizon is told behind them.
fn has_horizon(reader: &mut Subscriber) -> bool {
    while reader.next(Duration::ZERO).is_some() {}
    !reader.horizons().is_empty()
}

fn has_no_horizon_while_stopped(bus: &str) {
    let bus_of_reader: Bus = bus.parse().unwrap();
    let mut reader = Node::open(bus_of_reader).unwrap().subscriber("lab/x").open().unwrap();
    let publishing = Publishing::start(bus);
    wait_until("a horizon", || {
        reader.next(Duration::from_millis(10));
        has_horizon(&mut reader).then_some(())
    });
    publishing.signal(Signal::STOP);
    wait_until("no horizon", || (!has_horizon(&mut reader)).then_some(()));
    assert_eq!(reader.accounts().len(), 1, "a process that is stopped ends no account");
    publishing.signal(Signal::CONT);
    wait_until("a horizon again", || has_horizon(&mut reader).then_some(()));
    drop(publishing);
    let accounts = reader.close();
    assert_eq!(accounts.len(), 1);
    assert_eq!(accounts[0].reach, Reach::Shm);
    assert_eq!(accounts[0].account.check(), Ok(()));
}

#[test]
fn a_publisher_within_one_host_that_is_stopped_tells_no_horizon_until_it_continues() {
    let rings = tempfile::tempdir_in("/dev/shm").unwrap();
    has_no_horizon_while_stopped(&format!("shm://stopped?dir={}", rings.path().display()));
}

#[test]
fn a_publisher_of_a_network_that_is_stopped_tells_the_readers_of_its_ring_no_horizon() {
    let rings = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus = format!("{}&shm={}", support::ports::private_bus_from_now(), rings.path().display());
    has_no_horizon_while_stopped(&bus);
}
