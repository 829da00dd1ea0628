//! A lossy path between two ends: the project's own emulated path, as a relay on the loopback interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use emulator::{Account, Conditions, RelayOptions, Report, Watch};

/// A relay to one server; dropping it stops it.
pub struct Relay {
    address: SocketAddr,
    watch: Arc<Watch>,
    thread: Option<JoinHandle<Report>>,
}

impl Relay {
    /// Starts a relay to a server that loses each datagram of both directions with a given probability.
    ///
    /// # Panics
    /// If loopback has no free port.
    #[must_use]
    pub fn start(server: SocketAddr, loss: f64, seed: u64) -> Self {
        let conditions = Conditions { loss, ..Conditions::default() };
        let options = RelayOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)), server, conditions, seed);
        let relay = emulator::Relay::open(options).expect("loopback has ports");
        let (address, watch) = (relay.address(), Arc::new(Watch::default()));
        let watched = Arc::clone(&watch);
        let thread = std::thread::spawn(move || relay.run(&watched).expect("loopback works"));
        Self { address, watch, thread: Some(thread) }
    }

    /// Returns the address that the client sends to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the relay, and returns the accounts of the directions from the client and from the server.
    ///
    /// # Panics
    /// If the relay panicked.
    #[must_use]
    pub fn end(mut self) -> [Account; 2] {
        self.watch.stop();
        let thread = self.thread.take().expect("it ends once");
        let report = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [report.forward.account, report.reverse.account]
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.watch.stop();
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}
