//! Both ends of a connection in one process: every message comes back whole, and one that cannot is given up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::greeting::token;
use crate::pingpong::options::Layer;

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TOKEN: u64 = 0x0123_4567_89ab_cdef;
const SIZES: [u32; 4] = [1, 2, 5_000, 200_000];

/// A size step that counts the messages that arrive.
#[derive(Default)]
struct AnswerCounter {
    message_bytes: AtomicU64,
    came: AtomicU64,
    is_to_end: AtomicBool,
}

impl Answering for AnswerCounter {
    fn message_bytes(&self) -> u32 {
        u32::try_from(self.message_bytes.load(Ordering::SeqCst)).unwrap()
    }

    fn came(&self, _exchange: Option<u64>) -> bool {
        self.came.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn is_to_end(&self) -> bool {
        self.is_to_end.load(Ordering::SeqCst)
    }
}

/// Continues until it has been called this many times.
struct Until(u32);

impl Attending for Until {
    fn goes_on(&mut self) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

const fn always() -> Until {
    Until(u32::MAX)
}

/// Ends the far end even if a test fails.
struct AtEnd<'a>(&'a AnswerCounter);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.is_to_end.store(true, Ordering::SeqCst);
    }
}

fn options() -> Options {
    let sizes = SIZES.iter().map(|size| u64::from(*size)).collect();
    Options { sizes, timeout: Duration::from_secs(20), ..Options::default() }
}

fn task<'a>(options: &'a Options, system: &'a System) -> Task<'a> {
    let patience = Duration::from_secs(30);
    Task { options, system, piece_bytes: 1_448, local: (LOCAL, 0).into(), peer: LOCAL, patience }
}

/// Opens both ends of a reliable carrier.
fn pair(task: &Task<'_>) -> (Box<dyn Near>, Box<dyn Far>) {
    let token = token();
    let far = listen(task, token).unwrap();
    let endpoint = far.endpoint();
    std::thread::scope(|scope| {
        let near = scope.spawn(move || connect(task, endpoint, token).unwrap());
        let far = far.accept(task, &mut always()).unwrap().unwrap();
        (near.join().unwrap(), far)
    })
}

/// Exchanges every size a few times; returns the number of messages that arrived at the far end.
fn exchange_all(near: &mut dyn Near, mut far: Box<dyn Far>) -> u64 {
    let counter = AnswerCounter::default();
    std::thread::scope(|scope| {
        let _at_end = AtEnd(&counter);
        scope.spawn(|| {
            while !counter.is_to_end() {
                match far.answer(&counter) {
                    Ok(()) => {}
                    Err(LinkError::Closed) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for (exchange, size) in (0..).zip(SIZES.into_iter().flat_map(|size| [size; 3])) {
            counter.message_bytes.store(size.into(), Ordering::SeqCst);
            let outcome = near.exchange(exchange, size, &mut always()).unwrap();
            assert!(matches!(outcome, Exchanged::Completed(_)), "{size} bytes: {outcome:?}");
        }
    });
    counter.came.into_inner()
}

#[test]
fn every_message_comes_back_over_tcp_asleep_and_spinning() {
    for wait in [Wait::Sleep, Wait::Spin] {
        let options = Options { wait, ..options() };
        let system = System::Tcp(None);
        let task = task(&options, &system);
        let (mut near, far) = pair(&task);
        assert_eq!(exchange_all(&mut *near, far), 3 * SIZES.len() as u64);
        assert!(near.congestion_control().is_some() && near.retransmits().is_some());
    }
}

#[test]
fn every_message_comes_back_over_every_reliable_carrier_through_every_layer() {
    for carrier in
        [System::Tcp(None), System::Udt(None), System::Udt(Some("reno?start=4".to_owned())), System::Shm]
    {
        for layer in [Layer::None, Layer::Framed, Layer::Announced] {
            for wait in [Wait::Sleep, Wait::Spin] {
                let options = Options { wait, ..options() };
                let system = carrier.clone().through(layer);
                let task = task(&options, &system);
                let (mut near, far) = pair(&task);
                assert_eq!(exchange_all(&mut *near, far), 3 * SIZES.len() as u64, "{system} {wait:?}");
            }
        }
    }
}

#[test]
fn a_control_that_there_is_not_is_refused_with_those_that_there_are() {
    let options = options();
    let system = System::Udt(Some("turbo".to_owned()));
    let refused = listen(&task(&options, &system), TOKEN).err().unwrap();
    assert!(refused.to_string().contains("known are udt"), "{refused}");
}

#[test]
fn rings_of_a_run_have_no_name_once_both_ends_are_gone() {
    let options = options();
    let system = System::Shm;
    let token = token();
    let ours = || {
        let entries = std::fs::read_dir("/dev/shm").unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(&format!("{token:016x}"))).count()
    };
    let task = task(&options, &system);
    let far = listen(&task, token).unwrap();
    let near = connect(&task, far.endpoint(), token).unwrap();
    assert!(ours() > 0);
    drop((near, far));
    assert_eq!(ours(), 0);
}

#[test]
fn a_ring_of_an_end_elsewhere_says_that_both_must_be_on_one_host() {
    let options = options();
    let refused = connect(&task(&options, &System::Shm), (LOCAL, 1).into(), token()).err().unwrap();
    assert!(refused.to_string().contains("both ends on one host"), "{refused}");
}

#[test]
fn every_message_comes_back_in_datagrams() {
    let options = options();
    let task = task(&options, &System::Udp);
    let listening = UdpListening::open(&task).unwrap();
    let far = UdpEnd::open(&task, listening.endpoint(), TOKEN).unwrap();
    let to = far.endpoint();
    let mut near = listening.connect(&task, to, TOKEN).unwrap();
    assert_eq!(exchange_all(&mut near, Box::new(far)), 3 * SIZES.len() as u64);
}

#[test]
fn a_message_without_an_answer_is_given_up() {
    let options = Options { timeout: Duration::from_millis(10), ..options() };
    let task = task(&options, &System::Udp);
    let listening = UdpListening::open(&task).unwrap();
    let mute = UdpListening::open(&task).unwrap();
    let mut near = listening.connect(&task, mute.endpoint(), TOKEN).unwrap();
    assert_eq!(near.exchange(0, 5_000, &mut always()).unwrap(), Exchanged::GivenUp);
}

#[test]
fn a_far_end_of_another_token_answers_nothing() {
    let options = Options { timeout: Duration::from_millis(10), ..options() };
    let task = task(&options, &System::Udp);
    let listening = UdpListening::open(&task).unwrap();
    let far = UdpEnd::open(&task, listening.endpoint(), !TOKEN).unwrap();
    let mut near = listening.connect(&task, far.endpoint(), TOKEN).unwrap();
    let counter = AnswerCounter::default();
    assert_eq!(near.exchange(0, 1, &mut always()).unwrap(), Exchanged::GivenUp);
    counter.is_to_end.store(true, Ordering::SeqCst);
    let mut far = far;
    far.answer(&counter).unwrap();
    assert_eq!(counter.came.into_inner(), 0);
}

#[test]
fn messages_go_to_who_asks_for_them_and_to_no_third_host() {
    let options = options();
    let task = task(&options, &System::Udp);
    let elsewhere: SocketAddr = "192.0.2.8:9".parse().unwrap();
    let refused = UdpEnd::open(&task, elsewhere, TOKEN).err().unwrap();
    assert!(refused.to_string().contains("another host"), "{refused}");
}

#[test]
fn a_connection_that_closes_ends_the_exchange() {
    let options = options();
    let system = System::Tcp(None);
    let task = task(&options, &system);
    let (mut near, far) = pair(&task);
    drop(far);
    assert!(matches!(near.exchange(0, 1, &mut always()), Err(LinkError::Closed)));
}

#[test]
fn an_end_looks_up_in_the_middle_of_a_message() {
    let options = Options { sizes: vec![50_000_000], timeout: Duration::from_secs(20), ..Options::default() };
    let system = System::Tcp(None);
    let over_tcp = task(&options, &system);
    // More than any buffer holds, and the peer does not read.
    let (mut near, mut far) = pair(&over_tcp);
    assert_eq!(near.exchange(0, 50_000_000, &mut Until(3)).unwrap(), Exchanged::Cut);
    // The far end has half of the message, and the order to stop answering.
    let counter = AnswerCounter::default();
    counter.message_bytes.store(50_000_000, Ordering::SeqCst);
    counter.is_to_end.store(true, Ordering::SeqCst);
    far.answer(&counter).unwrap();
    assert_eq!(counter.came.into_inner(), 0);

    let in_datagrams = task(&options, &System::Udp);
    let (listening, mute) =
        (UdpListening::open(&in_datagrams).unwrap(), UdpListening::open(&in_datagrams).unwrap());
    let mut near = listening.connect(&in_datagrams, mute.endpoint(), TOKEN).unwrap();
    assert_eq!(near.exchange(0, 1, &mut Until(3)).unwrap(), Exchanged::Cut);
}

#[test]
fn a_far_end_waits_for_its_connection_no_longer_than_it_is_to() {
    let options = options();
    let system = System::Tcp(None);
    let task = task(&options, &system);
    let far = listen(&task, TOKEN).unwrap();
    assert!(far.accept(&task, &mut Until(2)).unwrap().is_none());
}
