//! Events and accounts of a subscriber that leaves.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use tallycast::{AccountState, Channel, Dtype, Event, Node, Publisher, Stage, StreamAccount, Subscriber};

use crate::scene::{bus, cut, node, wait_until_joined, watch, watch_end};

fn publisher(node: &Node) -> Publisher {
    let builder = node.publisher("lab/probe").dtype(Dtype::I32).rate("10k");
    builder.channel(Channel::new("a", "V")).open().unwrap()
}

/// A publisher, and a subscriber that has joined its stream.
fn joined() -> (Publisher, Subscriber) {
    let node = node(&bus());
    let mut subscriber = node.subscriber("**").open().unwrap();
    let publisher = publisher(&node);
    wait_until_joined(&mut subscriber);
    (publisher, subscriber)
}

/// Events and accounts that a subscriber received.
#[derive(Default)]
struct Told {
    elements: u64,
    ended: Vec<StreamAccount>,
}

impl Told {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Block(block) => self.elements += block.samples,
            Event::Ended(account) => self.ended.push(account.clone()),
            Event::Began(_) | Event::Gap(_) | Event::Settled(_) | Event::Statement(_) => {}
        }
    }
}

/// Takes events up to the first block.
fn take_a_block(subscriber: &mut Subscriber) -> Told {
    let mut told = Told::default();
    watch(subscriber, |event| {
        told.take(&event);
        matches!(event, Event::Block(_)).then_some(())
    });
    told
}

fn check_socket(account: &StreamAccount) {
    assert!(account.port.unwrap().address.ip().is_multicast() && account.age.is_some(), "{account:?}");
}

#[test]
fn a_reader_that_leaves_is_handed_every_element_that_its_account_calls_delivered() {
    let (mut publisher, mut subscriber) = joined();
    for _ in 0..50 {
        publisher.send(&[7_i32; 200]).unwrap();
    }
    let mut told = take_a_block(&mut subscriber);
    let accounts = subscriber.close_into(|event| told.take(&event));
    assert_eq!(cut(&accounts).elements.delivered, told.elements);
    assert_eq!(told.ended, accounts, "what is returned was told");
    accounts.iter().for_each(check_socket);
}

#[test]
fn an_ended_account_still_knows_its_socket() {
    let (mut publisher, mut subscriber) = joined();
    publisher.send(&[7_i32; 200]).unwrap();
    drop(publisher);
    let mut told = Told::default();
    watch_end(&mut subscriber, |event| told.take(event));
    told.ended.iter().for_each(check_socket);
    assert_eq!(subscriber.close(), told.ended);
}

#[test]
fn frequent_looks_at_accounts_need_no_gaps() {
    let (mut publisher, mut subscriber) = joined();
    publisher.skip(100, Stage::Source).unwrap();
    publisher.send(&[7_i32; 200]).unwrap();
    take_a_block(&mut subscriber);
    let one = |accounts: Vec<StreamAccount>| <[_; 1]>::try_from(accounts).unwrap()[0].account.clone();
    let (full, short) = (one(subscriber.accounts()), one(subscriber.accounts_without_gaps()));
    assert_eq!((full.gaps.len(), short.gaps.len()), (1, 0));
    assert_eq!(full.elements, short.elements);
}

#[test]
fn one_of_two_readers_in_a_process_leaves_without_the_other() {
    let node = node(&bus());
    let mut staying = node.subscriber("**").reader("staying").open().unwrap();
    let mut leaving = node.subscriber("**").reader("leaving").open().unwrap();
    let mut publisher = publisher(&node);
    for subscriber in [&mut staying, &mut leaving] {
        wait_until_joined(subscriber);
    }
    publisher.send(&[7_i32; 200]).unwrap();
    take_a_block(&mut leaving);
    let accounts = leaving.close();
    cut(&accounts);
    assert_eq!(accounts[0].reader, "leaving");
    publisher.send(&[7_i32; 200]).unwrap();
    drop(publisher);
    let mut told = Told::default();
    let account = watch_end(&mut staying, |event| told.take(event));
    assert_eq!((account.state, told.elements), (AccountState::Closed, account.elements.delivered));
}

#[test]
fn a_reader_that_leaves_amid_losses_leaves_none_of_them_unexplained() {
    let node = node(&bus());
    let mut subscriber = node.subscriber("**").open().unwrap();
    let builder = node.publisher("lab/probe").dtype(Dtype::I32).rate("5k").linger(Duration::ZERO);
    let mut publisher = builder.channel(Channel::new("a", "V")).loss(0.2).open().unwrap();
    wait_until_joined(&mut subscriber);
    let (stop, stopped) = channel::<()>();
    // A thousand losses a second: more than a tally can list, so that its totals are needed.
    let publishing = std::thread::spawn(move || {
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            publisher.send_when_due(&[7_i32; 1]).unwrap();
        }
    });
    let mut lost = 0;
    watch(&mut subscriber, |event| {
        lost += if let Event::Gap(gap) = event { gap.gap.len() } else { 0 };
        (lost > 1_000).then_some(())
    });
    let accounts = subscriber.close();
    drop(stop);
    publishing.join().unwrap();
    let account = cut(&accounts);
    let rows = &account.elements;
    // A receiver that is preempted soon runs out of room: its socket reports that loss.
    assert!(rows.lost.total() > 1_000 && rows.lost[Stage::Injected] > 0, "{rows:?}");
    assert_eq!((rows.unexplained, account.explained()), (0, true), "{rows:?}");
    let (datagrams, socket) = (account.datagrams.unwrap(), accounts.last().unwrap().port.unwrap());
    assert!(socket.stats.datagrams >= datagrams.received, "{socket:?}");
}
