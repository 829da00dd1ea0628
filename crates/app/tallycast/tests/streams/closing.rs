//! What a subscriber is handed and told when it leaves, and what its accounts say then.

use std::sync::mpsc::{TryRecvError, channel};
use std::time::Duration;

use tallycast::{AccountState, Channel, Dtype, Event, Node, Publisher, Stage, StreamAccount, Subscriber};

use crate::scene::{bus, node, wait_until_joined, watch};

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

/// Takes events until one is as wished; counts the elements that blocks brought meanwhile.
fn take_until(subscriber: &mut Subscriber, is: impl Fn(&Event) -> bool) -> (u64, Event) {
    let mut elements = 0;
    let event = watch(subscriber, |event| {
        elements += elements_of(&event);
        is(&event).then_some(event)
    });
    (elements, event)
}

fn elements_of(event: &Event) -> u64 {
    match event {
        Event::Block(block) => block.samples,
        _ => 0,
    }
}

fn is_block(event: &Event) -> bool {
    matches!(event, Event::Block(_))
}

#[test]
fn a_reader_that_leaves_is_handed_every_element_that_its_account_calls_delivered() {
    let (mut publisher, mut subscriber) = joined();
    for _ in 0..50 {
        publisher.send(&[7_i32; 200]).unwrap();
    }
    let (mut elements, _) = take_until(&mut subscriber, is_block);
    let mut ended = Vec::new();
    let accounts = subscriber.close_into(|event| {
        elements += elements_of(&event);
        if let Event::Ended(account) = event {
            ended.push(account);
        }
    });
    let [account] = &accounts[..] else { panic!("one account: {accounts:?}") };
    assert_eq!((account.account.state, account.account.check()), (AccountState::Cut, Ok(())));
    assert_eq!(account.account.elements.delivered, elements);
    assert_eq!(ended, accounts, "what is returned was told");
    assert!(account.port.unwrap().address.ip().is_multicast() && account.age.is_some(), "{account:?}");
}

#[test]
fn an_ended_account_still_knows_its_socket() {
    let (mut publisher, mut subscriber) = joined();
    publisher.send(&[7_i32; 200]).unwrap();
    drop(publisher);
    let (_, ended) = take_until(&mut subscriber, |event| matches!(event, Event::Ended(_)));
    let Event::Ended(account) = ended else { panic!("an account") };
    assert!(account.port.unwrap().address.ip().is_multicast() && account.age.is_some(), "{account:?}");
    assert_eq!(subscriber.close(), [account]);
}

#[test]
fn frequent_looks_at_accounts_need_no_gaps() {
    let (mut publisher, mut subscriber) = joined();
    publisher.skip(100, Stage::Source).unwrap();
    publisher.send(&[7_i32; 200]).unwrap();
    take_until(&mut subscriber, is_block);
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
    take_until(&mut leaving, is_block);
    let accounts = leaving.close();
    assert_eq!((accounts.len(), accounts[0].account.state), (1, AccountState::Cut));
    assert_eq!(accounts[0].reader, "leaving");
    publisher.send(&[7_i32; 200]).unwrap();
    drop(publisher);
    let (elements, ended) = take_until(&mut staying, |event| matches!(event, Event::Ended(_)));
    let Event::Ended(account) = ended else { panic!("an account") };
    assert_eq!((account.account.state, elements), (AccountState::Closed, account.account.elements.delivered));
}

#[test]
fn a_reader_that_leaves_amid_losses_leaves_none_of_them_unexplained() {
    let node = node(&bus());
    let mut subscriber = node.subscriber("**").open().unwrap();
    let builder = node.publisher("lab/probe").dtype(Dtype::I32).rate("5k").linger(Duration::ZERO);
    let mut publisher = builder.channel(Channel::new("a", "V")).loss(0.2).open().unwrap();
    let (stop, stopped) = channel::<()>();
    // A thousand losses a second: more than a tally can name, so that its totals have to tell.
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
    let [account] = &accounts[..] else { panic!("one account: {accounts:?}") };
    assert_eq!((account.account.state, account.account.check()), (AccountState::Cut, Ok(())));
    let rows = &account.account.elements;
    assert!(rows.lost[Stage::Injected] > 1_000, "{rows:?}");
    assert_eq!((rows.unexplained, account.account.explained()), (0, true), "{rows:?}");
    let (datagrams, socket) = (account.account.datagrams.unwrap(), account.port.unwrap());
    assert!(socket.stats.datagrams >= datagrams.received, "{socket:?}");
}
