//! What the scenes share: a bus of their own, and readers that wait for what must come.

use std::time::{Duration, Instant};

pub(crate) use ports::free_address;
use tallycast::{Bus, Event, Node, Subscriber};

/// How long a test waits for something that must come before it gives up.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A bus of its own for each test: a port that nobody uses.
pub(crate) fn bus() -> Bus {
    ports::private_bus().parse().unwrap()
}

/// A process on that bus.
pub(crate) fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("test").build().unwrap()
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
