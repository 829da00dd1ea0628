//! Scenes of whole chains: buses with publishers and readers, two pairs of relays, a ring of relays, links with keys.

use core::time::Duration;

use chain::{Plan, Shape, at};
use relay::{FarEvent, Refusal};
use sim::{Host, Link, Port};

/// Returns the true age of each delivery to a reader, and the age on the wire, in the order of delivery.
fn ages(scene: &chain::Scene, shape: &Shape) -> Vec<(Duration, Duration)> {
    let following = &scene.readers()[0].followed[0];
    let per_s = u64::from(shape.elements) * u64::from(shape.hz);
    let age = |(now, position, born): &(units::Instant, u64, Option<units::Instant>)| {
        // A record is written when its first element is due.
        let record = position / shape.record * shape.record;
        let written = at(0) + Duration::from_nanos(record * 1_000_000_000 / per_s);
        (now.since(written), now.since(born.expect("relayed data have an age")))
    };
    following.times.iter().map(age).collect()
}

#[test]
fn a_frozen_reader_among_ten_changes_nothing_for_the_others() {
    let play = |has_frozen: bool| {
        let mut plan = Plan::new(21);
        plan.ways = plan.ways.map(|way| way.loss(0.02));
        plan.readers = vec![Port::default(); 5];
        let lossy = Port { down: Link::lan().loss(0.01), ..Port::default() };
        plan.lossy_readers = vec![lossy; 4];
        if has_frozen {
            let host = Host::ideal().receive_buffer(200_000).stalls(at(700)..at(60_000));
            plan.lossy_readers.push(Port { host, ..Port::default() });
        }
        let scene = plan.play();
        let _ = scene.verify();
        let accounts = |reader: &&chain::Reader| {
            let accounts = reader.followed.iter().map(|following| reader.account(following));
            (reader.transcript(), accounts.collect::<Vec<_>>())
        };
        scene.readers().iter().map(accounts).collect::<Vec<_>>()
    };
    let (alone, beside) = (play(false), play(true));
    assert_eq!((alone.len(), beside.len()), (9, 10));
    assert_eq!(alone[..], beside[..9]);
    let delivered = |place: usize| beside[place].1[0].elements.delivered;
    assert!(delivered(9) * 2 < delivered(0), "the tenth is frozen");
}

#[test]
fn the_first_of_two_links_keeps_the_deadline_of_a_reader_behind_the_second() {
    let outage = at(2_000)..at(4_000);
    let play = |deadline: Option<Duration>| {
        let mut plan = Plan::new(27);
        plan.pairs.push(["gate-c", "gate-d"]);
        plan.publishers = vec![at(0)..at(6_000)];
        plan.ways = plan.ways.map(|way| way.outage(outage.clone()));
        plan.deadlines = vec![deadline];
        plan.play()
    };
    let longest = Duration::from_secs(3);
    let scene = play(Some(longest));
    let [delivered, lost] = scene.verify();
    assert!(lost < 400, "both links wait for the end of the outage: {delivered} delivered, {lost} lost");
    for pair in [0, 1] {
        let (near, far) = (scene.near_of(pair), scene.far_of(pair));
        assert_eq!((far.decided.first(), near.wanted.first()), (Some(&longest), Some(&longest)));
        assert_eq!(near.asked.first(), Some(&Some(longest)));
    }
    let scene = play(None);
    let [_, lost] = scene.verify();
    assert!(lost > 8_000, "without it they keep half a second: {lost}");
    assert!(scene.near_of(1).asked.is_empty() && scene.far().decided.is_empty());
}

#[test]
fn hostile_messages_are_counted_at_the_end_that_ignores_them_and_change_nothing() {
    let mut plan = Plan::new(28);
    plan.hostile = 0.2;
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    assert_eq!((delivered, lost), (24_000, 0));
    assert!(scene.near().hostile > 3 && scene.far().hostile > 20);
}

#[test]
fn a_ring_of_relays_refuses_what_comes_home_and_stays_small() {
    let mut plan = Plan::new(23);
    plan.near_bus = Some(Link::lan());
    plan.pairs = vec![["gate-a", "gate-b"], ["gate-b", "gate-c"], ["gate-c", "gate-a"]];
    plan.is_ring = true;
    plan.publishers = (0..6).map(|turn| at(turn * 700)..at(turn * 700 + 500)).collect();
    let scene = plan.play_on();
    let [delivered, _] = scene.verify();
    assert!(delivered > 20_000, "{delivered}");
    let home = scene.far_of(2);
    assert!(home.published.is_empty(), "nothing comes home");
    let refused = |event: &&FarEvent| matches!(event, FarEvent::Refused { refusal: Refusal::Loop, .. });
    assert_eq!(
        (home.ignored.len(), home.ignored.iter().filter(refused).count()),
        (6, 6),
        "{:?}",
        home.ignored
    );
    assert_eq!(scene.near_of(2).ignored.len(), 6, "said once of each: {:?}", scene.near_of(2).ignored);
    for pair in 0..3 {
        assert!(scene.near_of(pair).most_queued < 1 << 20);
        assert_eq!(scene.far_of(pair).published.len(), if pair < 2 { 6 } else { 0 });
    }
    assert!(scene.readers()[0].followed.len() == 6);
}

#[test]
fn keys_change_and_numbers_wrap_without_a_loss() {
    let mut plan = Plan::new(24);
    plan.has_keys = true;
    plan.ways = plan.ways.map(|way| way.loss(0.01));
    plan.shape.hz = 100;
    plan.shape.record = 4;
    plan.shape.kept = Duration::from_secs(1);
    plan.publishers = vec![at(0)..at(300_000)];
    plan.first_numbers = Some([(1 << 31) - 10_000, (1 << 29) - 10_000]);
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    assert!(delivered + lost >= 119_900 && lost * 1_000 < delivered, "{delivered} delivered, {lost} lost");
    assert!(scene.near().sessions() > 2, "{} sessions", scene.near().sessions());
    assert_eq!(scene.far().published.len(), 1);
}

#[test]
fn on_an_asymmetric_path_the_age_is_wrong_by_half_the_difference() {
    // Ages are rounded up to milliseconds.
    for (ways, half_ms) in [([50, 50], 0), ([10, 90], 40), ([90, 10], -40)] {
        let mut plan = Plan::new(26);
        plan.ways = ways.map(|ms| Link::ideal().delay(Duration::from_millis(ms)));
        let shape = plan.shape.clone();
        let scene = plan.play();
        let [_, lost] = scene.verify();
        assert_eq!(lost, 0);
        let ages = ages(&scene, &shape);
        let us = |age: &Duration| i64::try_from(age.as_micros()).expect("seconds");
        let mut errors: Vec<i64> = ages.iter().map(|(actual, told)| us(told) - us(actual)).collect();
        errors.sort_unstable();
        let median = errors[errors.len() / 2];
        assert!((0..=1_000).contains(&(median - half_ms * 1_000)), "{ways:?}: {median} µs");
    }
}

#[test]
fn a_near_relay_that_starts_again_publishes_nothing_under_a_wrong_time_or_index() {
    for seed in 30..40 {
        let mut plan = Plan::new(seed);
        plan.ways = plan.ways.map(|way| way.loss(0.02));
        plan.near_deaths = vec![at(1_000)..at(1_000 + 20 * (seed - 29))];
        plan.shape.kept = Duration::from_millis(100);
        plan.silence = Some(Duration::from_secs(1));
        // Values, times and positions are compared at every publication and at every reader.
        let scene = plan.play();
        let _ = scene.verify();
        assert_eq!((scene.far().published.len(), scene.readers()[0].followed.len()), (1, 1));
    }
}
