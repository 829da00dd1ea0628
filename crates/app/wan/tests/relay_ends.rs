//! Both ends of a link over loopback: the far end publishes the streams of the home bus, position by position.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use ledger::HopCounts;
use relay::Publish;
use support::WATCHDOG;
use sys::Cancellation;
use tallycast::udt::{Options, Repair};
use tallycast::{Account, AccountState, Bus, Dtype, Event, Node, Publisher, RelayState, Stage, Subscriber};
use wan::{
    BusPublication, DEFAULT_DEADLINE, Far, FarSettings, Near, NearSettings, Notice, Publication,
    PublicationKey, Wanted,
};

const ELEMENTS: u64 = 3;

/// Publications of a stream.
#[derive(Clone, Debug, Default)]
struct Published {
    stations: Vec<String>,
    first: u64,
    next: u64,
    values: Vec<i32>,
    missing: Vec<Range<u64>>,
    shares: HopCounts,
    is_ended: bool,
}

#[derive(Default)]
struct Log {
    streams: BTreeMap<PublicationKey, Published>,
    notices: Vec<Notice>,
    /// The last one that was shown.
    state: Option<RelayState>,
}

/// A bus that only remembers; clones share it.
#[derive(Clone, Default)]
struct Memory(Arc<(Mutex<Log>, Condvar)>);

impl Memory {
    fn change(&self, act: impl FnOnce(&mut Log)) {
        act(&mut self.0.0.lock().unwrap());
        self.0.1.notify_all();
    }

    /// Waits until the log has something.
    fn wait<T>(&self, what: &str, look: impl Fn(&Log) -> Option<T>) -> T {
        let mut log = self.0.0.lock().unwrap();
        loop {
            if let Some(found) = look(&log) {
                return found;
            }
            let (after, timeout) = self.0.1.wait_timeout(log, WATCHDOG).unwrap();
            assert!(!timeout.timed_out(), "{what}: {:?} {:?}", after.streams, after.notices);
            log = after;
        }
    }
}

impl Publication for Memory {
    fn publish(&mut self, key: PublicationKey, publish: Publish) -> Option<String> {
        self.change(|log| {
            let stream = log.streams.entry(key).or_default();
            match publish {
                Publish::Begin { stations, first_position, hop, .. } => {
                    assert_eq!(usize::from(hop.get()), stations.len());
                    (stream.stations, stream.first, stream.next) = (stations, first_position, first_position);
                }
                Publish::Elements { positions, bytes, .. } => {
                    assert_eq!(positions.start, stream.next, "in order, without a hole");
                    let values =
                        bytes.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap()));
                    stream.values.extend(values);
                    stream.next = positions.end;
                }
                Publish::Inherited { positions, shares, .. } => {
                    assert_eq!(positions.start, stream.next, "in order, without a hole");
                    assert_eq!(shares.total(), positions.end - positions.start);
                    stream.shares.add_all(&shares);
                    stream.next = positions.end;
                    stream.missing.push(positions);
                }
                Publish::End => stream.is_ended = true,
                Publish::Settled { .. } | Publish::Statement(_) | Publish::Upstream(_) => {}
            }
        });
        None
    }

    fn wanted(&mut self, _: u64) -> Vec<Wanted> {
        Vec::new()
    }

    fn close(&mut self, _: Duration) {}
}

fn options() -> Options {
    let mut options = Options::messages();
    options.socket.repair = Repair::Timely;
    options
}

/// A relay in a thread of its own; dropping it asks it to end, and waits.
struct Running {
    cancellation: Cancellation,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancellation.cancel();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Starts a far relay; returns where it listens.
fn far(memory: &Memory) -> (Running, std::net::SocketAddr) {
    far_at(memory, "127.0.0.1:0".parse().unwrap())
}

fn far_settings() -> FarSettings {
    FarSettings { station: "far".to_owned(), incarnation: 2, deadline: None, socket: options().socket }
}

fn far_at(memory: &Memory, address: std::net::SocketAddr) -> (Running, std::net::SocketAddr) {
    let port = options().open_to_listen(address).unwrap();
    let settings = far_settings();
    let far = Far::new(port, memory.clone(), settings);
    let (address, cancellation, memory) = (far.local_address(), Cancellation::new().unwrap(), memory.clone());
    let asked = cancellation.clone();
    let thread = std::thread::spawn(move || {
        far.run(&asked, &mut |notice| memory.change(|log| log.notices.push(notice)), &mut |_| {}).unwrap();
    });
    (Running { cancellation, thread: Some(thread) }, address)
}

/// Starts a near relay of a bus, which keeps what it has for long.
fn near(bus: &Bus, peer: std::net::SocketAddr, incarnation: u64) -> (Running, Memory) {
    near_at("home", bus, peer, incarnation)
}

fn near_at(station: &str, bus: &Bus, peer: std::net::SocketAddr, incarnation: u64) -> (Running, Memory) {
    let settings = NearSettings { station: station.to_owned(), ..near_settings(peer, incarnation) };
    near_with(bus, NearSettings { deadline: Duration::from_secs(10), is_least: true, ..settings })
}

fn near_settings(peer: std::net::SocketAddr, incarnation: u64) -> NearSettings {
    NearSettings {
        station: "home".to_owned(),
        incarnation,
        deadline: DEFAULT_DEADLINE,
        is_least: false,
        priorities: Vec::new(),
        peer,
        socket: options().socket,
    }
}

fn near_with(bus: &Bus, settings: NearSettings) -> (Running, Memory) {
    let memory = Memory::default();
    let notices = memory.clone();
    let tap = node(bus, &settings.station).tap("lab/**").unwrap();
    let port = options().open_to_connect("127.0.0.1:0".parse().unwrap()).unwrap();
    let near = Near::new(tap, port, settings);
    let cancellation = Cancellation::new().unwrap();
    let asked = cancellation.clone();
    let thread = std::thread::spawn(move || {
        near.run(&asked, &mut |notice| notices.change(|log| log.notices.push(notice)), &mut |state| {
            notices.change(|log| log.state = Some(state.clone()));
        })
        .unwrap();
    });
    (Running { cancellation, thread: Some(thread) }, memory)
}

fn node(bus: &Bus, station: &str) -> Node {
    Node::builder().bus(bus.clone()).station(station).build().unwrap()
}

fn publisher(bus: &Bus, name: &str) -> Publisher {
    let channels = [("a", "V"), ("b", "V"), ("c", "V")];
    node(bus, "daq").publisher(name).dtype(Dtype::I32).rate("1k").channels(channels).open().unwrap()
}

/// The value of every element is its position.
fn values(positions: Range<u64>) -> Vec<i32> {
    positions.map(|position| i32::try_from(position).unwrap()).collect()
}

/// A bus of this host only.
fn bus() -> (tempfile::TempDir, Bus) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let bus = format!("shm://relayed?dir={}", directory.path().display()).parse().unwrap();
    (directory, bus)
}

fn is_opened(log: &Log) -> Option<()> {
    log.notices.iter().any(|notice| matches!(notice, Notice::Opened { .. })).then_some(())
}

fn ended(log: &Log) -> Option<Published> {
    log.streams.values().find(|stream| stream.is_ended).cloned()
}

#[test]
fn a_stream_comes_out_at_the_far_end_with_its_positions_and_what_was_missing_before() {
    let ((_directory, bus), published) = (bus(), Memory::default());
    let (_far, address) = far(&published);
    let (_near, told) = near(&bus, address, 1);
    let mut publisher = publisher(&bus, "lab/probe");
    told.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..30)).unwrap();
    publisher.skip(5, Stage::Source).unwrap();
    publisher.send(&values(45..3_000)).unwrap();
    drop(publisher);
    let stream = published.wait("the end of the stream", ended);
    assert_eq!((stream.first, stream.next, &stream.stations[0][..]), (0, 3_000, "daq"));
    let own = 30..45_u64;
    assert_eq!(stream.missing, std::slice::from_ref(&own));
    assert_eq!(stream.shares.rows(0).lost[Stage::Source], own.end - own.start);
    assert_eq!(stream.values, [values(0..30), values(45..3_000)].concat());
    assert_eq!(stream.values.len() as u64 % ELEMENTS, 0);
}

#[test]
fn streams_go_on_over_the_next_link_and_a_near_relay_that_starts_again_takes_its_place() {
    let ((_directory, bus), published) = (bus(), Memory::default());
    // The far relay comes late: the near one tries again.
    let far_port = options().open_to_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = far_port.local_address();
    drop(far_port);
    let (first, told) = near(&bus, address, 1);
    told.wait("nobody listens", |log| {
        log.notices.iter().any(|notice| matches!(notice, Notice::Disconnected { .. })).then_some(())
    });
    let _far = far_at(&published, address).0;
    let mut publisher = publisher(&bus, "lab/probe");
    told.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..300)).unwrap();
    let has = |count: usize| {
        move |log: &Log| log.streams.values().any(|stream| stream.values.len() >= count).then_some(())
    };
    published.wait("the first samples", has(300));
    drop(first);
    let (_second, told) = near(&bus, address, 2);
    told.wait("the stream is accepted again", is_opened);
    publisher.send(&values(300..600)).unwrap();
    drop(publisher);
    let stream = published.wait("the end of the stream", ended);
    assert_eq!((stream.first, stream.next), (0, 600));
    let counted = stream.values.len() as u64 + stream.missing.iter().map(|it| it.end - it.start).sum::<u64>();
    assert_eq!(counted, 600, "{stream:?}");
}

/// Starts a far relay that publishes on a bus.
fn far_on(bus: &Bus) -> (Running, std::net::SocketAddr, Memory) {
    far_on_as("far", bus)
}

fn far_on_as(station: &str, bus: &Bus) -> (Running, std::net::SocketAddr, Memory) {
    let port = options().open_to_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let settings = FarSettings { station: station.to_owned(), ..far_settings() };
    let far = Far::new(port, BusPublication::new(node(bus, station)), settings);
    let (address, cancellation, memory) =
        (far.local_address(), Cancellation::new().unwrap(), Memory::default());
    let (asked, notices) = (cancellation.clone(), memory.clone());
    let thread = std::thread::spawn(move || {
        let mut take = |notice| notices.change(|log| log.notices.push(notice));
        drop(far.run(&asked, &mut take, &mut |_| {}).unwrap());
    });
    (Running { cancellation, thread: Some(thread) }, address, memory)
}

/// Reads until the stream ends; returns its account.
fn account_of(mut subscriber: Subscriber) -> Account {
    let watchdog = support::Watchdog::new("the end of the stream");
    loop {
        watchdog.check();
        if let Some(Event::Ended(account)) = subscriber.next(Duration::from_secs(1)) {
            account.account.check().unwrap();
            return account.account;
        }
    }
}

/// Waits until the near relay serves a deadline.
fn wait_until_served(near: &Memory, millis: u64) {
    near.wait(&format!("{millis} ms are served"), |log| {
        let state = log.state.as_ref()?;
        let stream = state.links[0].streams.first()?;
        (stream.deadline_ns == Some(millis * 1_000_000)).then_some(())
    });
}

/// Readers come and go on a far bus: the near relay serves the longest deadline among them.
fn the_longest_deadline_is_served(away: &Bus) {
    let (_home, home) = bus();
    let (_far, address, far) = far_on(away);
    let priorities = vec![("lab/*".parse().unwrap(), 7)];
    let (_near, near) = near_with(&home, NearSettings { priorities, ..near_settings(address, 1) });
    let mut publisher = publisher(&home, "lab/probe");
    near.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..30)).unwrap();
    wait_until_served(&near, 1_000);
    let ms = Duration::from_millis;
    let reader = |name: &str, deadline: Option<Duration>| {
        let builder = node(away, name).subscriber("lab/**").reader(name);
        deadline
            .map_or_else(|| builder.clone(), |deadline| builder.clone().deadline(deadline))
            .open()
            .unwrap()
    };
    let short = reader("short", Some(ms(400)));
    wait_until_served(&near, 400);
    // On this host nothing is sooner than two milliseconds.
    let hopeless = reader("hopeless", Some(Duration::from_micros(1)));
    let refusal = far.wait("the refusal", |log| {
        log.notices.iter().find_map(|notice| match notice {
            Notice::Warning { what } if what.contains("`hopeless`") => Some(what.clone()),
            _ => None,
        })
    });
    assert!(refusal.contains("must be at least round trip / 2 + 2 ms = "), "{refusal}");
    let long = reader("long", Some(ms(3_000)));
    wait_until_served(&near, 3_000);
    drop(long);
    wait_until_served(&near, 400);
    let silent = reader("silent", None);
    wait_until_served(&near, 1_000);
    let priority = near.wait("a state", |log| Some(log.state.as_ref()?.links[0].streams.first()?.priority));
    assert_eq!(priority, 7);
    publisher.send(&values(30..300)).unwrap();
    drop(publisher);
    for subscriber in [short, hopeless, silent] {
        let account = account_of(subscriber);
        assert_eq!(account.state, AccountState::Closed);
        let rows = account.elements;
        assert_eq!(rows.delivered + rows.lost.total() + rows.unexplained, 300 - ELEMENTS * rows.first);
    }
}

#[test]
fn the_longest_deadline_of_readers_in_shared_memory_is_served_and_an_impossible_one_refused() {
    let (_away, away) = bus();
    the_longest_deadline_is_served(&away);
}

#[test]
fn the_longest_deadline_of_readers_that_report_is_served_and_an_impossible_one_refused() {
    let port = support::ports::free();
    the_longest_deadline_is_served(&format!("udp://239.84.0.0:{port}?iface=lo&shm=off").parse().unwrap());
}

/// Two links in a row, with a bus between them: the first one serves the readers behind the second.
fn the_deadline_of_readers_behind_two_links_is_served_by_the_first(middle: &Bus) {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (_first_far, address, _) = far_on_as("first", middle);
    let (_first_near, first) = near_with(&home, near_settings(address, 1));
    let (_second_far, address, _) = far_on_as("second", &away);
    let settings = NearSettings { station: "between".to_owned(), ..near_settings(address, 1) };
    let (_second_near, second) = near_with(middle, settings);
    let mut publisher = publisher(&home, "lab/probe");
    first.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..30)).unwrap();
    second.wait("the relayed stream is accepted", is_opened);
    wait_until_served(&first, 1_000);
    let deadline = Duration::from_secs(3);
    let reader = node(&away, "desk").subscriber("lab/**").reader("desk").deadline(deadline).open().unwrap();
    wait_until_served(&second, 3_000);
    wait_until_served(&first, 3_000);
    drop(reader);
    wait_until_served(&second, 1_000);
    wait_until_served(&first, 1_000);
}

#[test]
fn the_deadline_of_readers_behind_two_links_is_served_by_the_first_over_shared_memory() {
    let (_middle, middle) = bus();
    the_deadline_of_readers_behind_two_links_is_served_by_the_first(&middle);
}

#[test]
fn the_deadline_of_readers_behind_two_links_is_served_by_the_first_over_the_network() {
    let port = support::ports::free();
    let middle = format!("udp://239.84.0.0:{port}?iface=lo&shm=off").parse().unwrap();
    the_deadline_of_readers_behind_two_links_is_served_by_the_first(&middle);
}

#[test]
fn a_reader_on_the_far_bus_has_the_samples_of_the_publisher_at_their_indices_and_its_account_closes() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let (_far, address, _) = far_on(&away);
    let mut subscriber = node(&away, "desk").subscriber("lab/**").open().unwrap();
    let (_near, told) = near(&home, address, 1);
    let mut publisher = publisher(&home, "lab/probe");
    told.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..30)).unwrap();
    publisher.skip(5, Stage::Source).unwrap();
    publisher.send(&values(45..3_000)).unwrap();
    drop(publisher);
    let (mut read, mut gaps) = (Vec::new(), Vec::new());
    let watchdog = support::Watchdog::new("the end of the stream");
    let account = loop {
        watchdog.check();
        match subscriber.next(Duration::from_secs(1)) {
            Some(Event::Block(block)) => {
                assert_eq!(
                    block.first_index * ELEMENTS,
                    u64::try_from(block.elements::<i32>().unwrap()[0]).unwrap()
                );
                read.extend_from_slice(block.elements::<i32>().unwrap());
            }
            Some(Event::Gap(gap)) => gaps.push(gap.gap),
            Some(Event::Ended(account)) => break account,
            _ => {}
        }
    };
    assert_eq!(read, [values(0..30), values(45..3_000)].concat());
    assert_eq!(gaps.iter().map(|gap| gap.positions.clone()).collect::<Vec<_>>(), [30..45_u64]);
    assert_eq!(gaps[0].inherited.rows(0).lost[Stage::Source], 15, "{gaps:?}");
    account.account.check().unwrap();
    assert_eq!((account.account.state, account.account.elements.delivered), (AccountState::Closed, 2_985));
}

#[test]
fn of_two_links_with_one_stream_one_publishes_and_the_other_goes_on_when_the_first_is_gone() {
    let ((_home, home), (_away, away)) = (bus(), bus());
    let port = options().open_to_listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let settings = far_settings();
    let far = Far::new(port, BusPublication::new(node(&away, "far")), settings);
    let (address, cancellation) = (far.local_address(), Cancellation::new().unwrap());
    let (asked, at_far) = (cancellation.clone(), Memory::default());
    let notices = at_far.clone();
    let thread = std::thread::spawn(move || {
        drop(
            far.run(&asked, &mut |notice| notices.change(|log| log.notices.push(notice)), &mut |_| {})
                .unwrap(),
        );
    });
    let _far = Running { cancellation, thread: Some(thread) };
    let mut subscriber = node(&away, "desk").subscriber("lab/**").open().unwrap();
    let (first, told) = near_at("home", &home, address, 1);
    let mut publisher = publisher(&home, "lab/probe");
    told.wait("the stream is accepted", is_opened);
    let (_second, told) = near_at("other", &home, address, 3);
    told.wait("the stream is accepted", is_opened);
    publisher.send(&values(0..30)).unwrap();
    let happened =
        |wanted: fn(&Notice) -> bool| move |log: &Log| log.notices.iter().any(wanted).then_some(());
    at_far.wait("the second stands by", happened(|notice| matches!(notice, Notice::StandingBy { .. })));
    drop(first);
    let mut next = 30;
    // A sample each millisecond, as long as it takes.
    let watchdog = support::Watchdog::new("the second link takes over");
    let mut log = at_far.0.0.lock().unwrap();
    while !log.notices.iter().any(|it| matches!(it, Notice::TookOver { .. })) {
        publisher.send(&values(next..next + 3)).unwrap();
        next += 3;
        log = at_far.0.1.wait_timeout(log, Duration::from_millis(1)).unwrap().0;
        watchdog.check();
    }
    drop(log);
    publisher.send(&values(next..next + 300)).unwrap();
    next += 300;
    drop(publisher);
    let watchdog = support::Watchdog::new("the end of the stream");
    let (mut accounts, mut read) = (Vec::new(), BTreeMap::new());
    while accounts.len() < 2 {
        watchdog.check();
        match subscriber.next(Duration::from_secs(1)) {
            Some(Event::Block(block)) => {
                let values = block.elements::<i32>().unwrap().iter();
                for (position, value) in (block.first_index * ELEMENTS..).zip(values) {
                    assert_eq!(u64::try_from(*value).unwrap(), position);
                    read.insert((block.epoch, position), *value);
                }
            }
            Some(Event::Ended(account)) => accounts.push(account),
            _ => {}
        }
    }
    let [before, after] = &accounts[..] else { unreachable!("two were waited for") };
    assert!(before.epoch != after.epoch && before.origin.unwrap().epoch == after.origin.unwrap().epoch);
    for account in &accounts {
        account.account.check().unwrap();
        assert!(account.account.explained(), "{account:?}");
    }
    let of = |epoch, position| read.contains_key(&(epoch, position));
    assert!(
        (0..next).all(|position| of(before.epoch, position) || of(after.epoch, position)),
        "nothing is lost"
    );
    assert_eq!((after.account.state, after.account.elements.next * ELEMENTS), (AccountState::Closed, next));
}
