//! Two publishers of one name on a secured bus are told as on a clear one, whichever began first; the recording of an
//! earlier epoch is none of them.

use core::net::SocketAddr;
use core::ops::Range;
use std::sync::Arc;

use cast::Sender;
use cast::receive::{self, WaitsSince};
use cast::send::{Input, Output, SenderEvent};
use keys::{Membership, Suite};
use ledger::AccountState;
use units::{Epoch, WallTime};
use wire::{Datagram, Kind, Nonce, Request, SecuredHead, Wanted};

use crate::by_hand::{Reader, answer, at};
use crate::laboratory::{Laboratory, wall};
use crate::nodes::config;

const RECORDED: [Epoch; 2] =
    [Epoch { start_ns: 1_000, incarnation: 11 }, Epoch { start_ns: 1_500, incarnation: 12 }];
const EARLIER: Epoch = Epoch { start_ns: 2_000, incarnation: 13 };
const LATER: Epoch = Epoch { start_ns: 3_000, incarnation: 14 };

/// Time from which recordings are repeated: the reader has joined by then, and no station begins in the
/// same millisecond of a second. Units: milliseconds.
const ATTACK: u64 = 3_001;

/// A publisher of ten samples a millisecond.
struct Station {
    sender: Sender,
    address: SocketAddr,
    begins: u64,
    /// Epochs of which it was told that they have its name.
    told: Vec<Epoch>,
}

/// A reader, the stations that it hears, and an attacker that repeats recordings.
struct Scene {
    laboratory: Laboratory,
    membership: Arc<Membership>,
    stations: Vec<Station>,
    recorded: Vec<Vec<u8>>,
    /// What the latest station sent in its first 50 ms.
    earliest: Vec<Vec<u8>>,
    reader: Reader,
    /// Requests of the reader about epochs that were recorded, with their times.
    challenges: Vec<u64>,
}

fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 7_400))
}

impl Station {
    /// Returns what it sends in a millisecond.
    fn sends(&mut self, millis: u64) -> Vec<Vec<u8>> {
        let (now, first_index) = (at(millis), 10 * (millis - self.begins));
        let t0 = WallTime::from_nanos(i64::try_from(millis * 1_000_000).unwrap());
        if !self.sender.has_told_end() {
            self.sender.handle(now, Input::Samples { first_index, t0, bytes: &[0; 40] });
        }
        self.sender.handle(now, Input::Advance);
        let (mut sent, mut buffer) = (Vec::new(), vec![0; self.sender.train_bytes()]);
        loop {
            match self.sender.poll(now, &mut buffer) {
                Output::Transmit { destinations, segment_bytes, size_bytes, .. } => {
                    let is_heard = destinations.contains(&0);
                    let datagrams = buffer[..size_bytes].chunks(segment_bytes).filter(|_| is_heard);
                    sent.extend(datagrams.map(<[u8]>::to_vec));
                }
                Output::Event(SenderEvent::TwoPublishers { other }) => self.told.push(other),
                Output::Event(_) => {}
                Output::Idle { .. } => return sent,
            }
        }
    }
}

impl Scene {
    fn new() -> Self {
        let mut laboratory = Laboratory::new(9, Suite::Aes256Gcm);
        let secrets = [laboratory.secret(1, wall(at(0)))];
        let membership = laboratory.member(&secrets);
        let mut reader = Reader::new(&membership, at(0));
        let waits = WaitsSince { since: at(0), wall: wall(at(0)) };
        reader.receiver.handle(at(0), receive::Input::Waits(Some(waits)));
        Self {
            laboratory,
            membership,
            stations: Vec::new(),
            recorded: Vec::new(),
            earliest: Vec::new(),
            reader,
            challenges: Vec::new(),
        }
    }

    fn station(&mut self, epoch: Epoch, begins: u64) -> Station {
        let config = config(&mut self.laboratory, &self.membership, epoch, at(begins));
        let last = u8::try_from(epoch.incarnation).unwrap();
        let sender = Sender::new(config, 1, at(begins)).unwrap();
        Station { sender, address: host(last), begins, told: Vec::new() }
    }

    fn begin(&mut self, epoch: Epoch, millis: u64) {
        let station = self.station(epoch, millis);
        self.stations.push(station);
        self.earliest.clear();
    }

    /// Records epochs that are over, whose publishers answered other readers.
    fn record(&mut self, epochs: &[Epoch]) {
        for &epoch in epochs {
            let mut station = self.station(epoch, 0);
            for millis in 0..1_500 {
                let stream = station.sender.next_head().stream;
                let (reader, what, nonce) =
                    (units::ReaderId(8), Wanted::Descriptor, Some(Nonce::new(millis)));
                let request = Request { stream, epoch, reader, what, waiting: None, nonce };
                station.sender.handle(at(millis), Input::Request(&request));
                self.recorded.extend(station.sends(millis));
            }
        }
    }

    /// Plays a span, in which the attacker repeats all recordings again and again.
    fn play(&mut self, millis: Range<u64>) {
        for millis in millis {
            let now = at(millis);
            for station in &mut self.stations {
                for bytes in station.sends(millis) {
                    self.reader.hears(now, &bytes, station.address);
                    if (station.begins..station.begins + 50).contains(&millis) {
                        self.earliest.push(bytes);
                    }
                }
            }
            if millis >= ATTACK && !self.recorded.is_empty() {
                let index = usize::try_from(millis).unwrap() % self.recorded.len();
                self.reader.hears(now, &self.recorded[index], host(11));
            }
            for (to, bytes) in self.reader.sends(now) {
                if let Some(station) = self.stations.iter_mut().find(|station| station.address == to) {
                    answer(&mut station.sender, now, &bytes);
                } else if let Ok(Datagram::Request(request)) = Datagram::decode(&bytes)
                    && RECORDED.contains(&request.epoch)
                {
                    assert_eq!(request.waiting, None, "the reader does not wait for what is over");
                    self.challenges.push(millis);
                }
            }
        }
    }

    fn told(&self) -> Vec<&[Epoch]> {
        self.stations.iter().map(|station| &station.told[..]).collect()
    }

    /// Returns the datagrams that were refused, of which all were taken for recordings.
    fn replayed(&self) -> u64 {
        let counts = self.reader.gate.stats().unauthentic;
        assert_eq!(counts.total(), counts.replayed, "{counts:?}");
        counts.replayed
    }
}

#[test]
fn a_publisher_that_began_earlier_is_told_as_the_second_of_its_name() {
    let mut scene = Scene::new();
    scene.begin(LATER, 0);
    scene.play(0..2_000);
    scene.begin(EARLIER, 2_000);
    scene.play(2_000..2_300);
    let refused = scene.replayed();
    assert!(refused > 50, "{refused} before its publisher answered");
    scene.play(2_300..5_000);
    assert_eq!(scene.replayed(), refused, "none of an epoch that is sent now");
    for bytes in &scene.earliest {
        scene.reader.hears(at(5_000), bytes, host(13));
    }
    assert_eq!(
        scene.replayed(),
        refused + scene.earliest.len() as u64,
        "numbers before the answer stay refused"
    );
    assert_eq!(scene.reader.two_publishers, [(LATER, EARLIER)]);
    assert_eq!(scene.told(), [[EARLIER], [LATER]]);
    scene.stations[0].sender.handle(at(5_000), Input::Finish);
    scene.play(5_000..6_000);
    let account = &scene.reader.accounts[0];
    let rows = account.datagrams.as_ref().unwrap();
    assert_eq!((account.state, rows.lost.total(), rows.unexplained), (AccountState::Closed, 0, 0));
}

#[test]
fn two_publishers_are_told_to_a_reader_that_joins_both() {
    let mut scene = Scene::new();
    scene.begin(LATER, 0);
    scene.begin(EARLIER, 0);
    scene.play(0..5_000);
    assert_eq!(scene.reader.two_publishers, [(LATER, EARLIER)]);
    assert_eq!(scene.told(), [[EARLIER], [LATER]]);
    assert_eq!(scene.reader.gate.stats().unconfirmed_epochs, 0);
}

#[test]
fn the_earlier_publisher_takes_over_when_the_later_one_falls_silent() {
    let mut scene = Scene::new();
    scene.begin(LATER, 0);
    scene.play(0..1_000);
    scene.begin(EARLIER, 1_000);
    scene.play(1_000..4_000);
    scene.stations.remove(0);
    scene.play(4_000..9_000);
    let epochs: Vec<_> = scene.reader.receiver.accounts().map(|view| view.epoch).collect();
    assert!(epochs.contains(&EARLIER), "{epochs:?}");
}

#[test]
fn a_recording_of_an_earlier_epoch_stays_replayed_and_changes_no_account() {
    let outcome = |is_attacked: bool| {
        let mut scene = Scene::new();
        if is_attacked {
            scene.record(&RECORDED);
        }
        scene.begin(LATER, 2_000);
        scene.play(2_000..25_000);
        scene.stations[0].sender.handle(at(25_000), Input::Finish);
        scene.play(25_000..27_000);
        let Scene { reader, challenges, .. } = &scene;
        if is_attacked {
            assert!(scene.replayed() > 20_000, "{}", scene.replayed());
            assert!((2..=3).contains(&challenges.len()), "{challenges:?}");
            assert!(challenges.windows(2).all(|pair| pair[1] - pair[0] >= 10_000), "{challenges:?}");
        }
        assert_eq!(scene.told(), [[]; 1]);
        let stats = reader.receiver.stats();
        (format!("{:?}", reader.accounts), stats, reader.two_publishers.clone())
    };
    assert_eq!(outcome(true), outcome(false));
}

#[test]
fn recordings_do_not_keep_an_earlier_publisher_from_being_told_of() {
    let mut scene = Scene::new();
    scene.record(&RECORDED[..1]);
    scene.recorded.retain(|bytes| SecuredHead::read(bytes).unwrap().kind == Kind::Descriptor);
    scene.begin(LATER, 2_000);
    scene.play(2_000..5_000);
    scene.begin(EARLIER, 5_000);
    scene.play(5_000..30_000);
    assert_eq!(scene.reader.two_publishers, [(LATER, EARLIER)]);
}
