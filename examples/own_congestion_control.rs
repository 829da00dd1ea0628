//! A custom congestion control on a connection: `cargo run --example own_congestion_control`.
//!
//! It grows by one packet per round trip and halves at a loss, up to a maximum number of packets in flight.
//! `docs/guide/congestion-control.md` explains it step by step.

use std::sync::Arc;
use std::time::Instant;

use tallycast::udt::congestion::{Acked, CongestionControl, Environment, Factory, Lost, Policy};
use tallycast::udt::{Connection, Error, Listener, Options, Stats};

const BYTES: usize = 500_000;

/// Additive increase, multiplicative decrease, up to a limit. Units: packets.
#[derive(Clone, Debug)]
struct Aimd {
    window: f64,
    limit: f64,
}

impl CongestionControl for Aimd {
    fn policy(&self) -> Policy {
        Policy::window(self.window)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
        self.window = (self.window + f64::from(acked.newly) / self.window).min(self.limit);
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.window = (self.window / 2.0).max(2.0);
        }
    }
}

impl Factory for Aimd {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

fn main() -> Result<(), Error> {
    for limit in [2.0, 100.0] {
        let began = Instant::now();
        let stats = send(Aimd { window: 2.0, limit })?;
        let seconds = began.elapsed().as_secs_f64();
        println!("at most {limit} packets on their way: window {}, {seconds:.3} s", stats.window_packets);
    }
    Ok(())
}

/// Sends data to a listener on this host; returns the statistics of the connection.
fn send(control: Aimd) -> Result<Stats, Error> {
    let mut options = Options::stream();
    options.socket.congestion = Arc::new(control);
    let listener = Listener::bind_to(([127, 0, 0, 1], 0).into(), &options)?;
    let address = listener.local_address();
    let reader =
        std::thread::spawn(move || listener.accept(None)?.receive_into(&mut std::io::sink(), u64::MAX));
    let connection = Connection::connect_to(address, &options)?;
    connection.send_all(&[7; BYTES])?;
    connection.flush()?;
    let stats = connection.stats().expect("the connection is not closed yet");
    connection.close()?;
    reader.join().expect("it does not panic")?;
    Ok(stats)
}

#[test]
fn it_takes_effect() {
    for limit in [2.0, 10.0] {
        let stats = send(Aimd { window: 2.0, limit }).expect("loopback carries it");
        assert_eq!(f64::from(stats.window_packets), limit, "{stats:?}");
        assert_eq!(stats.absurd_policies, 0);
    }
}
