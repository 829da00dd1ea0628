//! Common parts of the scenes: a bus of their own, and readers that wait for expected events.

use std::collections::BTreeMap;
use std::time::Duration;

use support::Watchdog;
pub(crate) use support::ports::free_address;
use tallycast::{Account, AccountState, Bus, Event, Node, StreamAccount, Subscriber};

pub(crate) use crate::accounts::sum;

/// Time for which evidence of a loss is waited for: longer than a publisher that has it is preempted.
const SETTLE: Duration = Duration::from_secs(10);
/// Time after which a publisher of data without a datagram has fallen silent.
const SILENCE: Duration = Duration::from_secs(1);

/// Returns a bus of its own for each test, with an unused port.
pub(crate) fn bus() -> Bus {
    support::ports::private_bus().parse().unwrap()
}

/// Returns another one, whose readers begin with the first sample that arrives: over the network, a preempted
/// reader may miss a stream's beginning.
pub(crate) fn bus_from_now() -> Bus {
    support::ports::private_bus_from_now().parse().unwrap()
}

/// A process on a bus.
pub(crate) fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("test").settle(SETTLE).build().unwrap()
}

/// Passes events to `take` until it returns a value.
pub(crate) fn watch<T>(subscriber: &mut Subscriber, mut take: impl FnMut(Event) -> Option<T>) -> T {
    let watchdog = Watchdog::new("an event");
    loop {
        watchdog.check();
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

/// Passes on events until this many streams have ended, each after one epoch; returns the sums of the
/// accounts of each, in the order of their names.
pub(crate) fn watch_ends(
    subscriber: &mut Subscriber,
    streams: usize,
    mut take: impl FnMut(&Event),
) -> Vec<Account> {
    let mut ended: BTreeMap<_, Vec<StreamAccount>> = BTreeMap::new();
    // Silence is no end: another account follows.
    let has_ended = |accounts: &Vec<StreamAccount>| {
        accounts.last().is_some_and(|last| last.account.state != AccountState::Unconfirmed)
    };
    watch(subscriber, |event| {
        take(&event);
        let Event::Ended(account) = event else { return None };
        ended.entry(account.stream.clone()).or_default().push(account);
        (ended.values().filter(|accounts| has_ended(accounts)).count() == streams).then_some(())
    });
    ended.values().map(|accounts| sum(accounts)).collect()
}

/// Passes on events until the only stream has ended; returns the sum of its accounts.
pub(crate) fn watch_end(subscriber: &mut Subscriber, take: impl FnMut(&Event)) -> Account {
    watch_ends(subscriber, 1, take).remove(0)
}

/// Checks that leaving cut a reader's account, of a publisher that was heard until then; returns the sum of
/// its accounts.
pub(crate) fn cut(accounts: &[StreamAccount]) -> Account {
    let last = accounts.last().expect("an account");
    match last.account.state {
        AccountState::Cut => {}
        AccountState::Unconfirmed => assert!(last.age >= Some(SILENCE), "{last:?}"),
        AccountState::Open | AccountState::Closed => panic!("it was not cut: {last:?}"),
    }
    sum(accounts)
}
