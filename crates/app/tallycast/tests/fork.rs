//! A process that forks while it publishes: the child can neither send in the parent's place nor end its streams, and
//! nothing in the child waits for threads that are not there. A target of its own: no other test runs in the process
//! that forks.
#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::time::Duration;

use keys::{AuthorityFile, GroupSecret, KeyFile, StationKeys, Suite};
use sys::ForkedChild;
use tallycast::{Bus, Dtype, Event, Node, PublishError, Publisher, Stage};

/// Returns the buses of a publisher and a reader: in clear over shared memory and over the network, and with keys.
fn buses(folder: &std::path::Path) -> [[Bus; 2]; 3] {
    let network: Bus = support::ports::private_bus().parse().unwrap();
    let shm: Bus = format!("shm://fork-{}", std::process::id()).parse().unwrap();
    let authority = AuthorityFile::new("lab", keyring::random_secret()).unwrap();
    let now = sys::clock::wall();
    let secret = GroupSecret::new(keyring::random_token(), Suite::default(), keyring::random_secret(), now);
    let secured = ["daq", "desk"].map(|station| {
        let validity = now.offset(-60_000_000_000)..now.offset(3_600_000_000_000);
        let seeds = [keyring::random_secret(), keyring::random_secret()];
        let keys = StationKeys::new(&authority, station, seeds, validity).unwrap();
        let path = folder.join(format!("{station}.keys"));
        let file = KeyFile::new(&authority, keys, secret.clone()).unwrap();
        keyring::create_station(&path, &file).unwrap();
        let mut bus: Bus = network.clone();
        bus.keys = Some(path);
        bus
    });
    let clear: Bus = support::ports::private_bus().parse().unwrap();
    [[shm.clone(), shm], [clear.clone(), clear], secured]
}

fn node(bus: &Bus) -> Node {
    Node::builder().bus(bus.clone()).station("test").build().unwrap()
}

fn publisher(node: &Node, name: &str) -> Publisher {
    node.publisher(name).dtype(Dtype::I32).rate("1k").open().unwrap()
}

/// Does in the child all that a program may do with what its parent opened; returns the number of the first step that went
/// wrong, 0 if none did.
fn use_in_child(node: Node, mut publisher: Publisher, own: &Bus) -> u8 {
    let is_refused = |done: Result<(), PublishError>| matches!(done, Err(PublishError::Forked));
    let steps = [
        is_refused(publisher.send(&[9_i32; 10])),
        is_refused(publisher.send_at(tallycast::now(), &[9_i32])),
        is_refused(publisher.skip(3, Stage::Source)),
        is_refused(publisher.begin_anew().map(drop)),
        publisher.readers().is_empty(),
        // A node without a network has no threads.
        !node.bus().has_network() || node.publisher("lab/other").dtype(Dtype::I32).rate("1k").open().is_err(),
        publisher.close().samples.numbered < 1_000,
    ];
    drop(node);
    if let Some(failed) = steps.iter().position(|went_well| !went_well) {
        return u8::try_from(failed).unwrap() + 1;
    }
    let node = Node::builder().bus(own.clone()).station("child").build().unwrap();
    let mut publisher = node.publisher("lab/child").dtype(Dtype::I32).rate("1k").open().unwrap();
    publisher.send(&[1_i32, 2]).unwrap();
    if publisher.close().samples.offered == 2 { 0 } else { 100 }
}

#[test]
fn a_forked_child_sends_nothing_ends_nothing_and_waits_for_nothing_of_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    for [sends, reads] in buses(folder.path()) {
        let own: Bus = support::ports::private_bus().parse().unwrap();
        let desk = node(&reads);
        let mut subscriber = desk.subscriber("lab/parent").open().unwrap();
        let daq = node(&sends);
        let mut stream = publisher(&daq, "lab/parent");
        let watchdog = support::Watchdog::new("the stream is joined");
        while !matches!(subscriber.next(Duration::from_millis(100)), Some(Event::Began(_))) {
            watchdog.check();
        }
        stream.send(&[1_i32; 10]).unwrap();
        let mut moved = Some((daq, stream));
        let child = ForkedChild::run(|| {
            let (node, publisher) = moved.take().unwrap();
            use_in_child(node, publisher, &own)
        });
        assert_eq!(child.unwrap().wait(support::WATCHDOG).unwrap(), Some(0), "{sends}: its first wrong step");
        // The parent's stream goes on, and has all of its samples and none of the child's.
        let (_daq, mut stream) = moved.take().unwrap();
        stream.send(&[1_i32; 10]).unwrap();
        let totals = stream.close();
        assert_eq!(totals.samples.numbered, 20, "{sends}");
        let mut delivered = 0;
        let watchdog = support::Watchdog::new("the end of the stream");
        let account = loop {
            watchdog.check();
            match subscriber.next(Duration::from_millis(100)) {
                Some(Event::Block(block)) => {
                    assert!(block.elements::<i32>().unwrap().iter().all(|value| *value == 1), "{sends}");
                    delivered += block.samples;
                }
                Some(Event::Ended(account)) => break account,
                _ => {}
            }
        };
        assert_eq!((delivered, account.account.state), (20, tallycast::AccountState::Closed), "{sends}");
        assert_eq!(account.account.elements.lost.total(), 0, "{sends}");
        assert!(account.unauthentic.is_empty(), "{sends}: a nonce of the parent came twice");
        assert_eq!(account.account.datagrams.map_or(0, |rows| rows.duplicates), 0, "{sends}");
    }
}
