//! A link is made again over real ports on loopback.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use engine::{News, PortKeys, PortOptions};
use support::WATCHDOG;
use sys::clock;
use tallycast::udt::{Keys, Secret, Suite};
use udt::SocketType;
use zeroize::Zeroizing;

use super::*;

struct End {
    port: ReliablePort,
    news: Arc<News>,
}

fn end(seed: u64) -> End {
    end_at("127.0.0.1:0".parse().unwrap(), seed, None)
}

fn end_at(address: SocketAddr, seed: u64, keys: Option<PortKeys>) -> End {
    let options = PortOptions {
        address,
        receive_buffer_bytes: 1 << 20,
        send_buffer_bytes: 1 << 20,
        offloads: true,
        seed,
        secret: [7; 16],
        keys,
    };
    let (port, news) = (ReliablePort::open(&options).expect("loopback has room for a port"), Arc::default());
    port.tell(Arc::clone(&news));
    End { port, news }
}

fn config() -> SocketConfig {
    let connect_timeout = Duration::from_millis(100);
    SocketConfig { connect_timeout, ..SocketConfig::new(SocketType::Datagram) }
}

/// Polls a link as its driver does, until it changes.
fn change(link: &mut Link, news: &News) -> Change {
    let end = clock::monotonic() + WATCHDOG;
    loop {
        let now = clock::monotonic();
        assert!(now < end, "the link changes");
        if let Some(change) = link.poll(now) {
            return change;
        }
        news.wait(link.deadline().unwrap_or(end).since(clock::monotonic()));
    }
}

/// Polls a link until it is up: on a busy host the answer of a listener may come too late for a try.
fn up(link: &mut Link, news: &News) -> SocketId {
    loop {
        match change(link, news) {
            Change::Up(socket) => return socket,
            Change::Down { reason, .. } => assert_eq!(reason, CloseReason::NoAnswer),
            Change::Unresolved => {}
        }
    }
}

#[test]
fn a_link_is_made_again_after_silence_after_an_end_and_after_hanging_up() {
    let (near, far) = (end(1), end(2));
    let (to, news) = (far.port.local_address(), near.news);
    let mut link = Link::new(clock::monotonic(), near.port, to, config());
    for millis in [250, 500] {
        let retry_in = Duration::from_millis(millis);
        let down = Change::Down { was_up: false, reason: CloseReason::NoAnswer, retry_in };
        assert_eq!(change(&mut link, &news), down);
        assert_eq!(link.socket(), None);
    }
    far.port.listen(config(), 4).expect("the only listener");
    let first = up(&mut link, &news);
    assert_eq!(link.socket(), Some(first));
    let accepted = far.port.accept(Some(WATCHDOG)).expect("the link came");
    far.port.leave(accepted);
    while let Some(of_a_late_answer) = far.port.try_accept() {
        far.port.leave(of_a_late_answer);
    }
    let retry_in = Duration::from_millis(250);
    let down = Change::Down { was_up: true, reason: CloseReason::ByPeer, retry_in };
    assert_eq!(change(&mut link, &news), down, "the pauses begin anew");
    let second = up(&mut link, &news);
    assert_ne!(first, second);
    link.hang_up(clock::monotonic());
    assert_eq!(link.socket(), None);
    up(&mut link, &news);
    assert_eq!(far.port.standing(accepted), None);
}

#[test]
fn a_host_that_has_moved_is_found_at_its_new_address_and_without_one_at_its_last() {
    let (near, before, after) = (end(3), end(4), end(5));
    before.port.listen(config(), 4).expect("the only listener");
    let mut answers = vec![Err("the name server is away".to_owned()), Ok(before.port.local_address())];
    let moved = after.port.local_address();
    let answers = Mutex::new(std::iter::from_fn(move || Some(answers.pop().unwrap_or(Ok(moved)))));
    let nowhere = "127.0.0.1:9".parse().unwrap();
    let mut link = Link::new(clock::monotonic(), near.port, nowhere, config());
    let look_up: LookUp = Arc::new(move || answers.lock().unwrap().next().unwrap());
    link.follow(look_up, Arc::clone(&near.news));
    up(&mut link, &near.news);
    assert_eq!(link.peer(), before.port.local_address());
    let end_it = |link: &mut Link| {
        before.port.leave(before.port.accept(Some(WATCHDOG)).expect("the link came"));
        let down = change(link, &near.news);
        assert!(matches!(down, Change::Down { was_up: true, .. }), "{down:?}");
    };
    end_it(&mut link);
    assert_eq!(change(&mut link, &near.news), Change::Unresolved, "told once");
    up(&mut link, &near.news);
    assert_eq!((link.peer(), link.trouble()), (before.port.local_address(), Some("the name server is away")));
    after.port.listen(config(), 4).expect("the only listener");
    end_it(&mut link);
    up(&mut link, &near.news);
    assert_eq!((link.peer(), link.trouble()), (moved, None));
}

#[test]
fn a_barred_link_is_not_made_before_its_peer_is_listed_again() {
    let (near, far) = (end(6), end(7));
    far.port.listen(config(), 4).expect("the only listener");
    let mut link = Link::new(clock::monotonic(), near.port, far.port.local_address(), config());
    up(&mut link, &near.news);
    let now = clock::monotonic();
    assert!(matches!(link.bar(now, true), Some(Change::Down { was_up: true, .. })));
    assert_eq!((link.poll(now + Duration::from_secs(9)), link.socket(), link.deadline()), (None, None, None));
    assert_eq!(link.bar(now, true), None);
    assert_eq!(link.bar(now, false), None);
    up(&mut link, &near.news);
}

/// Keys of an end, by the number of its own and that of the other.
fn keys(own: u8, other: u8) -> PortKeys {
    let secret = |number| Secret::new(Zeroizing::new([number; 32]));
    let of = |number| Keys {
        key: secret(number),
        peers: BTreeSet::new(),
        responder: None,
        suite: Suite::default(),
    };
    let peer = of(other).public();
    let mut seed = Zeroizing::new([own; 32]);
    // A second start has other bits than the first.
    seed[..8].copy_from_slice(&crate::random_incarnation().to_le_bytes());
    let (key, suite, seed) = (secret(own), Suite::default(), Secret::new(seed));
    PortKeys { key, peers: [peer].into(), responder: Some(peer), suite, seed }
}

#[test]
fn a_listener_that_was_started_again_takes_the_link_over_a_second_connection() {
    for is_secured in [false, true] {
        let of = |own, other| is_secured.then(|| keys(own, other));
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let (near, far) = (end_at(anywhere, 8, of(1, 2)), end_at(anywhere, 9, of(2, 1)));
        let (address, config) = (far.port.local_address(), SocketConfig::new(SocketType::Datagram));
        far.port.listen(config.clone(), 4).expect("the only listener");
        let mut link = Link::new(clock::monotonic(), near.port, address, config.clone());
        let first = up(&mut link, &near.news);
        // It ends without a word, as one that is killed.
        drop(far);
        let far = end_at(address, 10, of(2, 1));
        far.port.listen(config, 4).expect("the only listener");
        let (reason, retry_in) = (CloseReason::Replaced, Duration::ZERO);
        assert_eq!(change(&mut link, &near.news), Change::Down { was_up: true, reason, retry_in });
        let second = up(&mut link, &near.news);
        assert_ne!(first, second);
        let accepted = far.port.accept(Some(WATCHDOG)).expect("the link came");
        assert_eq!(far.port.standing(accepted), Some(Standing::Connected));
    }
}

#[test]
fn a_connection_that_nothing_is_sent_over_is_heard_and_stays_alone() {
    let (near, far) = (end(11), end(12));
    far.port.listen(config(), 4).expect("the only listener");
    let mut link = Link::new(clock::monotonic(), near.port, far.port.local_address(), config());
    let first = up(&mut link, &near.news);
    let end = clock::monotonic() + 3 * silence_bound(Duration::ZERO);
    while clock::monotonic() < end {
        assert_eq!((link.poll(clock::monotonic()), link.socket()), (None, Some(first)));
        near.news.wait(link.deadline().unwrap_or(end).min(end).since(clock::monotonic()));
    }
}
