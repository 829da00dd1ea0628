//! Publishers whose host's or device's clock is set: the tests pass the times.

use units::Instant as Moment;

use super::*;
use crate::bus::Bus;
use crate::event::{Event, StreamAccount};
use crate::subscriber::Subscriber;

const MS: i64 = 1_000_000;
const HOUR: i64 = 3_600_000;

/// A 1 kHz publisher within this process, its reader, and the time at which both begin.
struct Scene {
    publisher: Publisher,
    reader: Subscriber,
}

/// Output of a reader: for each epoch the times of its samples, in milliseconds; and the accounts.
struct Told {
    epochs: Vec<Vec<i64>>,
    accounts: Vec<StreamAccount>,
}

fn at(ms: i64) -> WallTime {
    WallTime::from_nanos(1_763_756_051_000_000_000 + ms * MS)
}

/// Returns a moment on both clocks, after the wall clock was set by `set_ms`.
fn moment(ms: i64, set_ms: i64) -> (Moment, WallTime) {
    (Moment::from_nanos(u64::try_from((1_000_000 + ms) * MS).unwrap()), at(ms + set_ms))
}

impl Scene {
    fn new(name: &str, own_times: bool) -> Self {
        let bus: Bus = format!("shm://clock-{name}-{}?access=owner", std::process::id()).parse().unwrap();
        let node = Node::open(bus).unwrap();
        let reader = node.subscriber("lab/clock").open().unwrap();
        let builder = node.publisher("lab/clock").dtype(Dtype::U8).rate(1_000);
        let builder = if own_times { builder.own_times() } else { builder };
        Self { publisher: builder.open().unwrap(), reader }
    }

    /// Publishes a tenth of a second of samples, the last of which is taken a period before this moment.
    fn send(&mut self, ms: i64, set_ms: i64) {
        self.publisher.send_by(moment(ms - 1, set_ms), &[0; 100]).unwrap();
    }

    fn refused(&mut self, times_ms: &[i64]) -> Duration {
        let next = self.publisher.next_index();
        let times: Vec<_> = times_ms.iter().map(|ms| at(*ms)).collect();
        let refused = self.publisher.send_bytes_timed(&times, &vec![0; times.len()]);
        let Err(PublishError::TimeGoesBack { back }) = refused else { panic!("{refused:?}") };
        assert_eq!(self.publisher.next_index(), next, "nothing of it was taken");
        back
    }

    fn close(self) -> Told {
        drop(self.publisher);
        let mut told = Told { epochs: Vec::new(), accounts: Vec::new() };
        let mut epoch = None;
        told.accounts = self.reader.close_into(|event| {
            let Event::Block(block) = event else { return };
            if epoch.replace(block.epoch) != Some(block.epoch) {
                told.epochs.push(Vec::new());
            }
            let times = (block.first_index..block.next_index()).map(|index| block.time_of(index));
            told.epochs.last_mut().unwrap().extend(times.map(|time| time.nanos_since(at(0)) / MS));
        });
        for account in &told.accounts {
            assert_eq!(account.account.check(), Ok(()));
            let rows = &account.account.elements;
            assert_eq!((rows.first, rows.lost.total(), rows.delivered), (0, 0, rows.next));
        }
        for times in &told.epochs {
            assert!(times.is_sorted(), "{times:?}");
        }
        told
    }
}

#[test]
fn a_host_clock_that_is_set_for_a_moment_leaves_no_trace() {
    for step in [HOUR, -HOUR] {
        let mut scene = Scene::new(&format!("moment{step}"), false);
        for tick in 1..=60 {
            let is_set = (20..=38).contains(&tick);
            scene.send(tick * 100, if is_set { step } else { 0 });
        }
        let told = scene.close();
        assert_eq!(told.epochs, [(0..6_000).collect::<Vec<_>>()]);
    }
}

#[test]
fn a_host_clock_that_is_set_back_begins_a_new_epoch_with_the_right_time() {
    let mut scene = Scene::new("back", false);
    let first = scene.publisher.epoch();
    for tick in 1..=60 {
        scene.send(tick * 100, if tick >= 20 { -HOUR } else { 0 });
    }
    assert!(scene.publisher.epoch() > first, "the later start wins, whatever the clock says");
    let told = scene.close();
    let [before, after] = &told.epochs[..] else { panic!("two epochs: {}", told.epochs.len()) };
    assert_eq!(before.len() + after.len(), 6_000);
    assert_eq!(
        before.last(),
        Some(&(before.len() as i64 - 1)),
        "by the old time as long as it may be a moment"
    );
    assert_eq!((before.len(), after[0]), (4_000, 4_000 - HOUR));
    assert_eq!(told.accounts.len(), 2);
}

#[test]
fn a_host_clock_that_is_set_forward_is_followed_in_the_same_epoch_once_that_has_lasted() {
    let mut scene = Scene::new("forward", false);
    for tick in 1..=60 {
        scene.send(tick * 100, if tick >= 20 { HOUR } else { 0 });
    }
    let told = scene.close();
    let [times] = &told.epochs[..] else { panic!("one epoch") };
    assert_eq!((times[3_999], times[4_000], times[5_999]), (3_999, 4_000 + HOUR, 5_999 + HOUR));
}

#[test]
fn a_host_clock_that_is_set_back_by_little_is_caught_up_with_in_the_same_epoch() {
    let mut scene = Scene::new("little", false);
    for tick in 1..=300 {
        scene.send(tick * 100, if tick >= 20 { -900 } else { 0 });
    }
    let told = scene.close();
    let [times] = &told.epochs[..] else { panic!("one epoch") };
    let off = times[29_999] - (29_999 - 900);
    assert!((0..=100).contains(&off), "{off} ms after 26 s");
}

#[test]
fn a_host_clock_that_is_set_back_by_hardly_more_than_can_be_made_up_for_begins_a_new_epoch() {
    // A block lasts 100 ms: its first sample is back by more than a second, its end is not.
    let mut scene = Scene::new("hardly", false);
    for tick in 1..=60 {
        scene.send(tick * 100, if tick >= 20 { -1_050 } else { 0 });
    }
    let told = scene.close();
    let [before, after] = &told.epochs[..] else { panic!("two epochs: {}", told.epochs.len()) };
    assert_eq!((before.len() + after.len(), after[0]), (6_000, before.len() as i64 - 1_050));
}

#[test]
fn times_of_ones_own_that_go_back_by_little_or_within_a_block_are_refused_before_anything_is_taken() {
    let mut scene = Scene::new("own", true);
    scene.publisher.send_bytes_timed(&[at(0), at(1), at(7)], &[0; 3]).unwrap();
    assert_eq!(scene.refused(&[8, 9, 9 - HOUR, 10]), Duration::from_secs(3_600));
    assert_eq!(scene.refused(&[6]), Duration::from_millis(1));
    scene.publisher.send_bytes_timed(&[at(7), at(8)], &[0; 2]).unwrap();
    // As documented: a new epoch takes further samples by the current clock.
    assert!(
        !scene.publisher.would_begin_anew(at(8 - 1_000)) && scene.publisher.would_begin_anew(at(7 - 1_000))
    );
    assert_eq!(scene.refused(&[8 - 1_000]), Duration::from_secs(1));
    let ended = scene.publisher.begin_anew().unwrap();
    assert_eq!((ended.totals.samples.numbered, scene.publisher.next_index()), (5, 0));
    scene.publisher.send_bytes_timed(&[at(9 - HOUR)], &[0]).unwrap();
    assert_eq!(scene.close().epochs, [vec![0, 1, 7, 7, 8], vec![9 - HOUR]]);
}

#[test]
fn a_device_clock_that_goes_back_is_caught_up_with_or_begins_a_new_epoch() {
    let mut scene = Scene::new("device", false);
    let send = |scene: &mut Scene, ms| scene.publisher.send_bytes_at(at(ms), &[0; 200]);
    send(&mut scene, 0).unwrap();
    (0..5).for_each(|block| send(&mut scene, 150 + 200 * block).unwrap());
    // The newest sample has the time 1,149 ms.
    send(&mut scene, 148).unwrap();
    assert_eq!(scene.publisher.next_index(), 200, "of a new epoch");
    let earlier = scene.publisher.earlier_epochs();
    let json = crate::publisher_json(&scene.publisher);
    assert_eq!(
        (&json["earlier"]["epochs"], &json["earlier"]["samples"]["offered"]),
        (&1.into(), &1_200.into())
    );
    let told = scene.close();
    let samples = earlier.totals.samples;
    assert!(samples.is_balanced() && earlier.epochs == 1, "{earlier:?}");
    assert_eq!((samples.offered, samples.numbered), (1_200, 1_200), "what ended by itself is not forgotten");
    assert_eq!(told.accounts[0].account.elements.next, samples.offered, "as its reader has it");
    let [times, after] = &told.epochs[..] else { panic!("two epochs") };
    assert_eq!((times[0], times[199], times[200], times[1_000]), (0, 199, 200, 950));
    assert_eq!(*after, (148..348).collect::<Vec<_>>());
}

#[test]
fn a_publisher_that_begins_anew_skips_and_withholds_as_before() {
    let mut scene = Scene::new("anew", false);
    scene.publisher.skip(3, Stage::Source).unwrap();
    scene.send(100, 0);
    let ended = scene.publisher.begin_anew().unwrap().totals.samples;
    assert_eq!((ended.offered, ended.source, ended.numbered), (103, 3, 100));
    scene.publisher.send_when_due(&[1_u8; 2]).unwrap();
    assert_eq!(scene.publisher.close().samples.numbered, 2);
    let accounts = scene.reader.close();
    let rows: Vec<_> = accounts.iter().map(|it| it.account.elements).collect();
    assert_eq!([rows[0].next, rows[0].lost[Stage::Source], rows[1].next], [103, 3, 2]);
}
