//! An attacker beside a secured stream on real sockets: ten forgeries and replays for each datagram of the publisher, of
//! every kind, to the stream's group, the group of announcements and the port for reports.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use cast::secure::{ControlSealer, UnauthenticCounts};
use keys::{Membership, Salt};
use tallycast::{AccountState, Stage};
use wire::{Datagram, Kind, Request, SecuredHead, Wanted};

use crate::scene::{node, sum, wait_until_joined};
use crate::secured::{Laboratory, attacker, clear, ended, group_of, publisher, send};

/// Datagrams of the attacker for each of the publisher's.
const FORGERIES: u64 = 10;
/// Datagrams that are sent before the attacker takes from its own socket what has come back to it.
const BURST: u64 = 32;

/// Returns how many blocks are sent, each of which makes at least three datagrams.
fn blocks() -> u64 {
    std::env::var("TALLYCAST_FORGED_BLOCKS").map_or(200, |text| text.parse().expect("a number of blocks"))
}

/// Where its datagrams go.
#[derive(Clone, Copy)]
struct Places {
    group: SocketAddr,
    announcements: SocketAddr,
    reports: SocketAddr,
}

struct Attacker {
    /// In the stream's group and in that of announcements.
    ears: [UdpSocket; 2],
    mouth: UdpSocket,
    places: Places,
    /// What others sent, by kind.
    recorded: BTreeMap<Kind, Vec<Vec<u8>>>,
    /// One more than the highest number of the stream.
    next_number: u64,
    /// Of a laboratory with other secrets.
    sealer: ControlSealer,
    sent: u64,
    /// Forgeries for the stream's group that a reader refuses as such, by reason.
    expected: UnauthenticCounts,
    /// Others for the stream's group: no datagrams of a stream, or of an epoch that does not begin.
    malformed: u64,
    undescribed: u64,
    /// Forgeries for the port of reports and for the group of announcements.
    reports: u64,
    announcements: u64,
}

impl Attacker {
    fn new(places: Places, foreign: &Membership) -> Self {
        let mouth = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket2::SockRef::from(&mouth).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        Self {
            ears: [places.group, places.announcements].map(attacker),
            mouth,
            places,
            recorded: BTreeMap::new(),
            next_number: 0,
            sealer: ControlSealer::new(foreign, Salt([7; 16]), sys::clock::wall()),
            sent: 0,
            expected: UnauthenticCounts::default(),
            malformed: 0,
            undescribed: 0,
            reports: 0,
            announcements: 0,
        }
    }

    fn listen(&mut self) {
        let (own, mut buffer) = (self.mouth.local_addr().unwrap(), [0; 2_048]);
        for ear in &self.ears {
            while let Ok((size_bytes, from)) = ear.recv_from(&mut buffer) {
                let bytes = &buffer[..size_bytes];
                let Some(head) = SecuredHead::read(bytes).filter(|_| from != own) else { continue };
                if head.kind.is_numbered() {
                    self.next_number = self.next_number.max(head.nonce + 1);
                }
                self.recorded.entry(head.kind).or_default().push(bytes.to_vec());
            }
        }
    }

    /// Sends until there are ten for each datagram that the publisher has sent so far.
    fn attack(&mut self) {
        self.listen();
        while self.sent < FORGERIES * self.next_number {
            self.forge();
            self.sent += 1;
            if self.sent.is_multiple_of(BURST) {
                self.listen();
            }
        }
    }

    /// Returns a datagram that others sent: a later one each time, then the first again.
    fn recorded(&self, kind: Kind) -> Vec<u8> {
        let all = self.recorded.get(&kind).or_else(|| self.recorded.get(&Kind::Data)).unwrap();
        all[usize::try_from(self.sent / 16).unwrap() % all.len()].clone()
    }

    fn forge(&mut self) {
        let Places { group, announcements, reports } = self.places;
        let (data, expected) = (self.recorded(Kind::Data), &mut self.expected);
        let (bytes, to) = match self.sent % 16 {
            0 => (self.copied(Kind::Data), group),
            1 => (self.copied(Kind::Tally), group),
            2 => (self.copied(Kind::Descriptor), group),
            3 => (self.changed(Kind::Data), group),
            4 => (self.changed(Kind::Tally), group),
            5 => (self.changed(Kind::Descriptor), group),
            6 => {
                expected.bad_tag += 1;
                (with(data, 40, &u64::from(u32::MAX).to_le_bytes()), group)
            }
            // An epoch that never begins, and one from before.
            7 => {
                self.undescribed += 1;
                (with_epoch(data, 1 + self.sent / 16 % 8), group)
            }
            8 => {
                expected.replayed += 1;
                (with_epoch(data, 0_u64.wrapping_sub(1)), group)
            }
            9 => {
                expected.clear += 1;
                (clear(&SecuredHead::read(&data).unwrap()), group)
            }
            10 => {
                expected.no_key += 1;
                (with_token(data, self.sent), group)
            }
            11 => {
                self.malformed += 1;
                (data[..data.len() - 1].to_vec(), group)
            }
            // Datagrams that do not belong there.
            12 => {
                self.malformed += 1;
                (self.request(&data), group)
            }
            13 => {
                self.reports += 1;
                (self.request(&data), reports)
            }
            14 => {
                self.reports += 1;
                (clear(&SecuredHead::read(&data).unwrap()), reports)
            }
            _ => {
                self.announcements += 1;
                (self.announcement(&data), announcements)
            }
        };
        self.mouth.send_to(&bytes, to).unwrap();
    }

    fn copied(&mut self, kind: Kind) -> Vec<u8> {
        self.expected.replayed += 1;
        self.recorded(kind)
    }

    fn changed(&mut self, kind: Kind) -> Vec<u8> {
        self.expected.bad_tag += 1;
        let mut bytes = self.recorded(kind);
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    }

    /// An announcement as it was, changed, or a request in its place.
    fn announcement(&mut self, data: &[u8]) -> Vec<u8> {
        match self.recorded.get(&Kind::Announcement).and_then(|all| all.last()).cloned() {
            Some(bytes) if self.sent.is_multiple_of(3) => bytes,
            Some(mut bytes) => {
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            }
            None => self.request(data),
        }
    }

    /// A request for the description, secured with another laboratory's secret.
    fn request(&mut self, data: &[u8]) -> Vec<u8> {
        let SecuredHead { stream, epoch, .. } = SecuredHead::read(data).unwrap();
        let (reader, what) = (units::ReaderId(self.sent), Wanted::Descriptor);
        let mut bytes = vec![0; 512];
        let request = Request { stream, epoch, reader, what, waiting: None, nonce: None };
        let plain_bytes = Datagram::Request(request).encode(&mut bytes).unwrap();
        let size_bytes = self.sealer.seal(sys::clock::wall(), &mut bytes, plain_bytes).unwrap();
        bytes.truncate(size_bytes);
        bytes
    }
}

fn with(mut bytes: Vec<u8>, offset: usize, field: &[u8]) -> Vec<u8> {
    bytes[offset..offset + field.len()].copy_from_slice(field);
    bytes
}

fn with_epoch(bytes: Vec<u8>, later_by: u64) -> Vec<u8> {
    let start_ns = SecuredHead::read(&bytes).unwrap().epoch.start_ns.wrapping_add(later_by);
    let offset = offset_of(&bytes, &SecuredHead::read(&bytes).unwrap().epoch.start_ns.to_le_bytes());
    with(bytes, offset, &start_ns.to_le_bytes())
}

fn with_token(bytes: Vec<u8>, other: u64) -> Vec<u8> {
    let token = SecuredHead::read(&bytes).unwrap().token.0;
    let offset = offset_of(&bytes, &token.to_le_bytes());
    let other = token.wrapping_add(1 + u32::try_from(other % 1_000).unwrap());
    with(bytes, offset, &other.to_le_bytes())
}

/// Returns where a field with this value lies in the header of a datagram.
fn offset_of(bytes: &[u8], field: &[u8]) -> usize {
    bytes.windows(field.len()).position(|window| window == field).unwrap()
}

/// Lets this thread and those that it starts run where it runs now: loopback has a queue for each processor, and a sender
/// that moves while one of them is flooded overtakes itself, so that its datagrams come late.
fn stay_on_one_processor() {
    sys::scheduling::pin_to_cpu(rustix::thread::sched_getcpu()).unwrap();
}

/// Without them, nothing would be lost. The times of a scene do not count: the reader has taken a block, and all that came
/// before it, when the next one is sent.
#[test]
fn ten_forgeries_for_each_datagram_change_no_account() {
    stay_on_one_processor();
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let desk = node(&laboratory.bus(&base, "desk"));
    let mut subscriber = desk.subscriber("**").reader("reader").open().unwrap();
    let bus = laboratory.bus(&base, "daq");
    let daq = node(&bus);
    let mut publisher = publisher(&daq);
    wait_until_joined(&mut subscriber);
    let announced = || desk.streams(Duration::ZERO).unwrap().into_iter().next();
    let report_port = support::wait_until("the stream is announced", announced).announcement.report_port;
    let places = Places {
        group: group_of(&bus, &publisher),
        announcements: bus.announcements(),
        reports: SocketAddr::from((Ipv4Addr::LOCALHOST, report_port)),
    };
    let foreign = Laboratory::new().station("spy").membership(sys::clock::wall()).unwrap();
    let mut attacker = Attacker::new(places, &foreign);
    // Some of each kind is recorded before the first attack.
    let mut delivered = 0;
    let watchdog = support::Watchdog::new("a tally and a descriptor");
    while ![Kind::Data, Kind::Tally, Kind::Descriptor].iter().all(|it| attacker.recorded.contains_key(it)) {
        watchdog.check();
        delivered += send(&mut publisher, &mut subscriber, 1, || attacker.listen());
    }
    delivered += send(&mut publisher, &mut subscriber, blocks(), || attacker.attack());
    // A reader reports half a second after it has joined, or later.
    while publisher.status().readers == 0 {
        watchdog.check();
        delivered += send(&mut publisher, &mut subscriber, 1, || attacker.attack());
    }
    let (refused_reports, refused_announcements) =
        (daq.key_state().unwrap().refused_reports, desk.unjoined().unauthentic);
    let status = publisher.status();
    let totals = publisher.close();
    let accounts = ended(&mut subscriber);

    let (account, last) = (sum(&accounts), accounts.last().unwrap());
    assert_eq!((account.state, account.balanced(), account.explained()), (AccountState::Closed, true, true));
    let lost = account.elements.lost;
    assert_eq!(lost.total(), lost[Stage::ReceiverSocketBuffer], "{lost:?}");
    assert_eq!(account.elements.delivered, delivered);
    assert_eq!(delivered + lost.total(), totals.samples.numbered);
    assert!(attacker.sent >= FORGERIES * attacker.next_number && attacker.sent >= 29 * blocks());

    let (port, arrived) = (last.port.unwrap(), last.unauthentic);
    let stats = port.stats;
    println!("{} forgeries, {} drops, refused: {arrived:?}", attacker.sent, port.drops);
    if port.drops == 0 {
        assert_eq!((lost.total(), arrived), (0, attacker.expected));
        assert_eq!(stats.malformed, attacker.malformed);
    } else {
        assert!(arrived.total() <= attacker.expected.total() && stats.malformed <= attacker.malformed);
    }
    assert!(stats.undescribed <= attacker.undescribed + attacker.next_number);
    assert_eq!((stats.suspicious, stats.imposter, stats.replaced, stats.misdirected), (0, 0, 0, 0));

    // The publisher has believed nothing of it either, and the directory of streams is as it was.
    let foreign_reports = (status.reports.foreign, status.reports.too_many, status.reports.borrowed);
    assert_eq!((foreign_reports, status.readers), ((0, 0, 0), 1), "{:?}", status.reports);
    assert!(refused_reports.no_key > 0 && refused_reports.clear > 0, "{refused_reports:?}");
    assert!(refused_reports.total() <= attacker.reports, "{refused_reports:?} of {}", attacker.reports);
    assert!(refused_announcements.total() > 0 && refused_announcements.total() <= attacker.announcements);
    assert_eq!(desk.streams(Duration::ZERO).unwrap().len(), 1);
}
