//! Sending on demand over real sockets: a late reader wakes the publisher, and the account closes.

use std::time::Duration;

use support::Watchdog;
use tallycast::{AccountState, Bus, Dtype, Event, Publisher, Sending, Stage};

use crate::scene::{bus, node, watch_end};

fn publisher(bus: &Bus) -> Publisher {
    let node = node(bus);
    node.publisher("lab/probe").dtype(Dtype::I32).rate(10_000).sending(Sending::OnDemand).open().unwrap()
}

/// Publishes blocks until the condition holds.
fn publish_until(publisher: &mut Publisher, mut holds: impl FnMut(&Publisher) -> bool) {
    let watchdog = Watchdog::new("a condition of the publisher");
    while !holds(publisher) {
        watchdog.check();
        publisher.send_when_due(&[7; 100]).unwrap();
    }
}

#[test]
fn a_late_reader_wakes_the_publisher_and_its_account_closes() {
    let bus = bus();
    let mut publisher = publisher(&bus);
    publish_until(&mut publisher, |publisher| publisher.totals().samples.publisher_paused > 0);
    assert_eq!(publisher.totals().samples.numbered, 0, "nobody listens");
    assert!(publisher.status().paused);
    let mut subscriber = node(&bus).subscriber("lab/*").open().unwrap();
    let mut first_block = None;
    publish_until(&mut publisher, |_| {
        while let Some(event) = subscriber.next(Duration::ZERO) {
            if let Event::Block(block) = event {
                first_block.get_or_insert(block.first_index);
            }
        }
        first_block.is_some()
    });
    publish_until(&mut publisher, |publisher| !publisher.status().paused);
    let next = publisher.next_index();
    publisher.send(&[8; 5_000]).unwrap();
    let totals = publisher.close().samples;
    assert_eq!(totals.numbered + totals.publisher_paused, totals.offered);
    // Samples sent after its first request, before it could read the description, are before its join point.
    assert!((1..=first_block.unwrap()).contains(&totals.publisher_paused), "{totals:?} {first_block:?}");
    let account = watch_end(&mut subscriber, |_| ());
    let rows = &account.elements;
    assert!(account.explained() && account.state == AccountState::Closed, "{account:?}");
    assert_eq!(rows.next, next + 5_000);
    assert_eq!(rows.delivered + rows.lost[Stage::PublisherPaused], rows.next - rows.first, "{account:?}");
}
