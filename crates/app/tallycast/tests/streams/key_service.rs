//! A bus whose secrets come from a key service on loopback: rotations, a removal, a service that is away.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use keyring::{KeyService, ServiceEvent, change_service};
use keys::service::{Member, Periods, ServiceFile};
use keys::{AuthorityFile, KeyFile, PublicKey, ServiceAt, StationKeys, Suite};
use support::wait_until;
use sys::Cancellation;
use tallycast::{AccountState, Bus, Dtype, Event, Node, NodeError, Publisher, Stage, Subscriber};
use tempfile::TempDir;

use crate::scene::{node, wait_until_joined, watch};

const HOUR_NS: i64 = 3_600_000_000_000;

/// A laboratory whose secrets a key service has.
struct Laboratory {
    folder: TempDir,
    authority: AuthorityFile,
    exchange: PublicKey,
    address: SocketAddr,
    service: Option<Service>,
}

/// A running service.
struct Service {
    stop: Cancellation,
    thread: JoinHandle<Vec<ServiceEvent>>,
}

impl Laboratory {
    fn new(lifetime: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = AuthorityFile::new("lab", keyring::random_secret()).unwrap();
        let periods = Periods::new(lifetime, Duration::from_secs(1)).unwrap();
        let (address, exchange) = ("localhost:7409".parse().unwrap(), keyring::random_secret());
        let file = ServiceFile::new(&authority, address, exchange, (periods, Suite::default()));
        let path = folder.path().join("lab.service");
        keyring::create_service(&path, &file).unwrap();
        // The service comes back at its address, which no other socket may take meanwhile.
        let address = support::ports::free_address();
        let mut laboratory = Self { folder, authority, exchange: file.public(), address, service: None };
        laboratory.start();
        laboratory
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("lab.service")
    }

    fn start(&mut self) {
        let stop = Cancellation::new().unwrap();
        let mut service = KeyService::open(&self.path(), Some(self.address), stop.clone()).unwrap();
        self.address = service.address().unwrap();
        let thread = std::thread::spawn(move || {
            let mut events = Vec::new();
            service.run(|event| events.push(event)).unwrap();
            events
        });
        self.service = Some(Service { stop, thread });
    }

    fn end(&mut self) -> Vec<ServiceEvent> {
        let Service { stop, thread } = self.service.take().expect("it runs");
        stop.cancel();
        thread.join().unwrap()
    }

    /// Makes a station's file, and returns the bus with it.
    fn bus(&self, base: &Bus, name: &str, is_member: bool) -> Bus {
        let now = sys::clock::wall();
        let validity = now.offset(-HOUR_NS)..now.offset(HOUR_NS);
        let seeds = [keyring::random_secret(), keyring::random_secret()];
        let keys = StationKeys::new(&self.authority, name, seeds, validity).unwrap();
        let member = Member { name: name.to_owned(), exchange: keys.certificate().exchange };
        let service =
            ServiceAt { address: self.address.to_string().parse().unwrap(), exchange: self.exchange };
        let file = KeyFile::with_service(&self.authority, keys, service).unwrap();
        let path = self.folder.path().join(format!("{name}.keys"));
        keyring::create_station(&path, &file).unwrap();
        if is_member {
            change_service(&self.path(), |file| {
                file.add(member).unwrap();
                Ok::<_, keyring::KeyringError>(())
            })
            .unwrap();
        }
        let mut bus = base.clone();
        bus.keys = Some(path);
        bus
    }

    fn remove(&self, name: &str) {
        change_service(&self.path(), |file| {
            file.remove(&[name.to_owned()], sys::clock::wall(), keyring::draw).unwrap();
            Ok::<_, keyring::KeyringError>(())
        })
        .unwrap();
    }
}

fn publisher(node: &Node) -> Publisher {
    node.publisher("lab/probe").dtype(Dtype::I32).rate("100k").channels([("a", "V")]).open().unwrap()
}

/// Sends a block, and waits until the reader has it, or has a gap in its place; returns how much was delivered.
fn pass(publisher: &mut Publisher, subscriber: &mut Subscriber) -> u64 {
    publisher.send(&[7; 1_000]).unwrap();
    let (sent, mut delivered) = (publisher.next_index(), 0);
    watch(subscriber, |event| match event {
        Event::Block(block) => {
            delivered += block.samples;
            (block.first_index + block.samples == sent).then_some(())
        }
        Event::Gap(gap) => (gap.first_index() + gap.samples() == sent).then_some(()),
        _ => None,
    });
    delivered
}

fn token(node: &Node) -> Option<String> {
    node.key_state().unwrap().token
}

#[test]
fn a_stream_goes_on_through_rotations_a_restart_of_the_service_and_a_removal_that_blinds_one_station() {
    let mut laboratory = Laboratory::new(Duration::from_secs(2));
    let base = crate::scene::bus();
    let [desk, daq, lost] = ["desk", "daq", "lost"].map(|name| node(&laboratory.bus(&base, name, true)));
    let mut subscriber = desk.subscriber("**").reader("reader").open().unwrap();
    let mut thief = lost.subscriber("**").reader("thief").open().unwrap();
    let mut publisher = publisher(&daq);
    wait_until_joined(&mut subscriber);
    wait_until_joined(&mut thief);
    let mut blocks = 0;
    let mut go_on = |publisher: &mut Publisher,
                     subscriber: &mut Subscriber,
                     name,
                     mut until: Box<dyn FnMut() -> bool>| {
        let watchdog = support::Watchdog::new(name);
        while !until() {
            watchdog.check();
            assert_eq!(pass(publisher, subscriber), 1_000, "{name}");
            blocks += 1;
        }
    };
    let first = token(&daq);
    let has_rotated = |daq: &Node, before: Option<String>| -> Box<dyn FnMut() -> bool> {
        let daq = daq.clone();
        Box::new(move || token(&daq) != before)
    };
    go_on(&mut publisher, &mut subscriber, "a rotation", has_rotated(&daq, first));
    laboratory.end();
    go_on(&mut publisher, &mut subscriber, "a rotation without the service", has_rotated(&daq, token(&daq)));
    laboratory.start();
    let answers = daq.clone();
    let answers = move || answers.key_state().unwrap().service.unwrap().silent.is_none();
    go_on(&mut publisher, &mut subscriber, "the service answers again", Box::new(answers));
    laboratory.remove("lost");
    let blind = lost.clone();
    let is_told = move || {
        blind.key_state().unwrap().service.unwrap().refused.is_some_and(|it| it.contains("removed at"))
    };
    go_on(&mut publisher, &mut subscriber, "the removed station is told", Box::new(is_told));
    go_on(&mut publisher, &mut subscriber, "a rotation after the removal", has_rotated(&daq, token(&daq)));
    assert_eq!(token(&lost), None);
    let totals = publisher.close();
    let mut accounts = Vec::new();
    crate::scene::watch_end(&mut subscriber, |event| {
        if let Event::Ended(account) = event {
            accounts.push(account.clone());
        }
    });
    let account = crate::scene::sum(&accounts);
    assert_eq!((account.state, account.balanced(), account.explained()), (AccountState::Closed, true, true));
    assert_eq!((account.elements.delivered, totals.samples.numbered), (blocks * 1_000, blocks * 1_000));
    assert!(accounts.iter().all(|account| account.unauthentic.is_empty()), "{accounts:?}");
    let events = laboratory.end();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, ServiceEvent::Refused { station, .. } if station == "lost"))
    );
    // Started again, it is told why not.
    laboratory.start();
    let mut bus = base;
    bus.keys = Some(laboratory.folder.path().join("lost.keys"));
    let refused = Node::open(bus).unwrap_err();
    assert!(matches!(refused, NodeError::Keys(_)) && refused.to_string().contains("removed at"), "{refused}");
    laboratory.end();
}

#[test]
fn without_the_service_for_three_lifetimes_a_publisher_withholds_and_goes_on_when_it_is_back() {
    let mut laboratory = Laboratory::new(Duration::from_secs(1));
    let base = crate::scene::bus();
    let [desk, daq] = ["desk", "daq"].map(|name| node(&laboratory.bus(&base, name, true)));
    let mut subscriber = desk.subscriber("**").reader("reader").open().unwrap();
    let mut publisher = publisher(&daq);
    wait_until_joined(&mut subscriber);
    assert_eq!(pass(&mut publisher, &mut subscriber), 1_000);
    laboratory.end();
    let ended = || token(&daq).is_none().then_some(());
    wait_until("the last secret has ended", ended);
    // No descriptor, tally or sample leaves; what is offered is counted.
    let mut sent_bytes = Vec::new();
    for count in [10_000, 20_000] {
        for _ in 0..10 {
            publisher.send(&[7; 1_000]).unwrap();
        }
        wait_until("the withheld samples are counted", || {
            (publisher.totals().samples.publisher_paused == count).then_some(())
        });
        sent_bytes.push(publisher.totals().datagrams.bytes);
    }
    assert_eq!(sent_bytes[0], sent_bytes[1], "nothing has left");
    laboratory.start();
    wait_until("there are secrets again", || token(&daq).and(token(&desk)));
    let mut delivered = 0;
    for _ in 0..10 {
        delivered += pass(&mut publisher, &mut subscriber);
    }
    let totals = publisher.close();
    let mut accounts = Vec::new();
    crate::scene::watch_end(&mut subscriber, |event| {
        if let Event::Ended(account) = event {
            accounts.push(account.clone());
        }
    });
    let account = crate::scene::sum(&accounts);
    assert_eq!((account.state, account.balanced(), account.explained()), (AccountState::Closed, true, true));
    // A reader that was silent for so long may have begun another account, behind the samples that were withheld.
    let paused = account.elements.lost[Stage::PublisherPaused];
    assert_eq!((totals.samples.publisher_paused, paused % 10_000), (20_000, 0), "{account:?}");
    assert_eq!(account.elements.delivered, 1_000 + delivered);
    assert_eq!(totals.samples.offered, totals.samples.numbered + totals.samples.publisher_paused);
    laboratory.end();
}

#[test]
fn a_member_that_is_added_later_reads_and_one_that_starts_before_the_service_waits_for_it() {
    let mut laboratory = Laboratory::new(Duration::from_secs(60));
    let base = crate::scene::bus();
    let bus = laboratory.bus(&base, "daq", true);
    laboratory.end();
    let daq = node(&bus);
    let state = daq.key_state().unwrap();
    assert!(state.token.is_none() && state.service.unwrap().silent.is_some());
    let mut publisher = publisher(&daq);
    publisher.send(&[7; 1_000]).unwrap();
    laboratory.start();
    wait_until("there are secrets", || token(&daq));
    let desk = node(&laboratory.bus(&base, "desk", true));
    assert_eq!(token(&desk), token(&daq), "it has them when it is open");
    let mut subscriber = desk.subscriber("**").reader("reader").open().unwrap();
    wait_until_joined(&mut subscriber);
    assert_eq!(pass(&mut publisher, &mut subscriber), 1_000);
    drop(publisher);
    laboratory.end();
}
