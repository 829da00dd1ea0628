//! What the scenes share: a bus of their own, and readers that wait for what must come.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use tallycast::{Bus, Event, Node, Subscriber};

/// How long a test waits for something that must come before it gives up.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A bus of its own for each test: a port that nobody uses.
pub(crate) fn bus() -> Bus {
    format!("udp://239.84.0.0:{}?iface=lo", free_address().port()).parse().unwrap()
}

/// A process on that bus.
pub(crate) fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("test").build().unwrap()
}

/// An address of this host at which nobody receives.
pub(crate) fn free_address() -> SocketAddr {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below the ports that the kernel gives to anybody who asks for none (`net.ipv4.ip_local_port_range`): one of those could be
    // taken between this look and its use.
    let start = std::process::id().wrapping_mul(97);
    let candidates = std::iter::repeat_with(|| start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)));
    let ports = candidates.map(|number| 12_000 + (number % 18_000) as u16);
    ports
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .find(|address| UdpSocket::bind(address).is_ok())
        .expect("a host has a free port")
}

/// Hands events over until something has been made of them.
pub(crate) fn watch<T>(subscriber: &mut Subscriber, mut take: impl FnMut(Event) -> Option<T>) -> T {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        assert!(Instant::now() < deadline, "what is waited for did not come within {WATCHDOG:?}");
        let made = subscriber.next(Duration::from_secs(1)).and_then(&mut take);
        if let Some(made) = made {
            return made;
        }
    }
}

/// Waits until a stream has been joined, so that nothing is published before; returns its name.
pub(crate) fn wait_until_joined(subscriber: &mut Subscriber) -> String {
    watch(subscriber, |event| match event {
        Event::Began(info) => Some(info.name.to_string()),
        _ => None,
    })
}
