//! A link with a delay and lost packets between the two namespaces of a measurement, where the kernel has no `netem` or
//! chosen packets are to be lost: the emulator of `tallycast link`, on a thread of this process.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use emulator::{Between, BetweenError, BetweenOptions, Conditions, Manner, Report, Watch};
use sys::scheduling;

/// Interface of the link in both namespaces.
const INTERFACE: &str = "link0";
/// Addresses of the link, beside those of the cable.
const ADDRESSES: [(Ipv4Addr, u8); 2] =
    [(EmulatedLink::SERVER_ADDRESS, 24), (Ipv4Addr::new(10, 84, 8, 2), 24)];
/// Real-time priority of the emulator, where it is permitted: others on this host must not add to its delays.
const PRIORITY: u8 = 20;
/// Part of the delay by which 999 of 1,000 packets may be late: more would show in the round-trip times.
const LATE_PART: u32 = 20;

/// Settings of an emulated link, for both directions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkSettings {
    /// MTU of the link. Units: bytes.
    pub mtu_bytes: u32,
    /// Delay of each direction.
    pub delay: Duration,
    /// Numbers of the packets to lose in each direction, from 0.
    pub lost: Vec<u64>,
}

/// A link that carries packets until it is ended or dropped.
#[derive(Debug)]
pub struct EmulatedLink {
    watch: Arc<Watch>,
    driver: Option<JoinHandle<io::Result<Report>>>,
    late_limit: Duration,
}

/// Reason why there is no emulated link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatedLinkError {
    /// A device cannot be made in a namespace.
    #[error(transparent)]
    Between(#[from] BetweenError),
    /// The emulator's thread cannot be started.
    #[error("the link emulator's thread cannot be started: {0}")]
    Start(#[from] io::Error),
}

impl EmulatedLink {
    /// Address of the server's end.
    pub(crate) const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 84, 8, 1);

    pub(crate) fn open(namespaces: [&str; 2], settings: &LinkSettings) -> Result<Self, EmulatedLinkError> {
        let LinkSettings { mtu_bytes, delay, ref lost } = *settings;
        let conditions = Conditions { delay, placed: lost.clone(), ..Conditions::default() };
        let fifo = may_have_priority().then_some(PRIORITY);
        let options = BetweenOptions {
            name: INTERFACE.to_owned(),
            addresses: ADDRESSES,
            mtu: mtu_bytes,
            manner: Manner { fifo, ..Manner::default() },
            ..BetweenOptions::new(namespaces.map(str::to_owned), conditions, 1)
        };
        let (between, watch) = (Between::open(options)?, Arc::new(Watch::default()));
        let watched = Arc::clone(&watch);
        let driver =
            std::thread::Builder::new().name("link".to_owned()).spawn(move || between.run(&watched))?;
        Ok(Self { watch, driver: Some(driver), late_limit: delay / LATE_PART })
    }

    /// Ends the link; returns why measurements over it are unreliable, if they are.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        let Some(report) = self.stop() else { return Vec::new() };
        let reasons = match report {
            Ok(report) => report.invalid_reasons(self.late_limit).iter().map(ToString::to_string).collect(),
            Err(error) => vec![error.to_string()],
        };
        reasons.into_iter().map(|why: String| format!("the emulated link: {why}")).collect()
    }

    fn stop(&mut self) -> Option<io::Result<Report>> {
        let driver = self.driver.take()?;
        self.watch.stop();
        Some(driver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for EmulatedLink {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Returns whether a thread of this process may have the priority, by trying it on one of its own.
fn may_have_priority() -> bool {
    std::thread::spawn(|| scheduling::run_fifo(PRIORITY).is_ok()).join().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use support::{WATCHDOG, or_skip};
    use sys::Namespace;

    use super::*;

    #[test]
    fn a_message_takes_the_delay_of_each_direction_and_a_chosen_packet_is_lost() {
        let Some(near) = or_skip(Namespace::create("bench-test")) else { return };
        let far = Namespace::create("bench-test").unwrap();
        let delay = Duration::from_millis(10);
        let settings = LinkSettings { mtu_bytes: 1_500, delay, lost: vec![0] };
        let link = EmulatedLink::open([far.name(), near.name()], &settings).unwrap();
        let socket = |namespace: &Namespace, end: usize| {
            let socket = namespace.inside(|| UdpSocket::bind((ADDRESSES[end].0, 0)).unwrap()).unwrap();
            socket.set_read_timeout(Some(WATCHDOG)).unwrap();
            socket
        };
        let (server, client) = (socket(&far, 0), socket(&near, 1));
        let (to, began, mut byte) = (server.local_addr().unwrap(), Instant::now(), [0]);
        for sent in *b"12" {
            client.send_to(&[sent], to).unwrap();
        }
        let (_, from) = server.recv_from(&mut byte).unwrap();
        assert_eq!(byte, *b"2", "the first one is lost");
        for sent in *b"34" {
            server.send_to(&[sent], from).unwrap();
        }
        client.recv_from(&mut byte).unwrap();
        assert_eq!(byte, *b"4");
        assert!(began.elapsed() >= 2 * delay);
        assert!(link.end().iter().all(|why| why.starts_with("the emulated link: ")));
    }
}
