//! What a subscriber is handed and told when it leaves, and what its accounts say then.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use tallycast::{AccountState, Bus, Channel, Dtype, Event, Node, Publisher, StreamAccount, Subscriber};

/// How long a test waits for something that must come before it gives up.
const WATCHDOG: Duration = Duration::from_secs(30);

fn node() -> Node {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bus: Bus = format!("udp://239.84.0.0:{port}?iface=lo").parse().unwrap();
    Node::builder().bus(bus).station("test").build().unwrap()
}

fn publisher(node: &Node) -> Publisher {
    let builder = node.publisher("lab/probe").dtype(Dtype::I32).rate("10k");
    builder.channel(Channel::new("a", "V")).open().unwrap()
}

/// Takes events until one is as wished; counts the elements that blocks brought meanwhile.
fn take_until(subscriber: &mut Subscriber, is: impl Fn(&Event) -> bool) -> (u64, Event) {
    let deadline = Instant::now() + WATCHDOG;
    let mut elements = 0;
    loop {
        assert!(Instant::now() < deadline, "no such event within {WATCHDOG:?}");
        let Some(event) = subscriber.next(Duration::from_secs(1)) else { continue };
        elements += elements_of(&event);
        if is(&event) {
            return (elements, event);
        }
    }
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
    let node = node();
    let mut subscriber = node.subscriber("**").open().unwrap();
    let mut publisher = publisher(&node);
    take_until(&mut subscriber, |event| matches!(event, Event::Began(_)));
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
    assert!(account.port.unwrap().ip().is_multicast() && account.age.is_some(), "{account:?}");
}

#[test]
fn an_ended_account_still_knows_its_socket() {
    let node = node();
    let mut subscriber = node.subscriber("**").open().unwrap();
    let mut publisher = publisher(&node);
    take_until(&mut subscriber, |event| matches!(event, Event::Began(_)));
    publisher.send(&[7_i32; 200]).unwrap();
    drop(publisher);
    let (_, ended) = take_until(&mut subscriber, |event| matches!(event, Event::Ended(_)));
    let Event::Ended(account) = ended else { panic!("an account") };
    assert!(account.port.unwrap().ip().is_multicast() && account.age.is_some(), "{account:?}");
    assert_eq!(subscriber.close(), [account]);
}

#[test]
fn frequent_looks_at_accounts_need_no_gaps() {
    let node = node();
    let mut subscriber = node.subscriber("**").open().unwrap();
    let mut publisher = publisher(&node);
    take_until(&mut subscriber, |event| matches!(event, Event::Began(_)));
    publisher.skip(100, tallycast::Stage::Source).unwrap();
    publisher.send(&[7_i32; 200]).unwrap();
    take_until(&mut subscriber, is_block);
    let one = |accounts: Vec<StreamAccount>| <[_; 1]>::try_from(accounts).unwrap()[0].account.clone();
    let (full, short) = (one(subscriber.accounts()), one(subscriber.accounts_without_gaps()));
    assert_eq!((full.gaps.len(), short.gaps.len()), (1, 0));
    assert_eq!(full.elements, short.elements);
}

#[test]
fn one_of_two_readers_in_a_process_leaves_without_the_other() {
    let node = node();
    let mut staying = node.subscriber("**").reader("staying").open().unwrap();
    let mut leaving = node.subscriber("**").reader("leaving").open().unwrap();
    let mut publisher = publisher(&node);
    for subscriber in [&mut staying, &mut leaving] {
        take_until(subscriber, |event| matches!(event, Event::Began(_)));
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
