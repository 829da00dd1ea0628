//! Scenes of a relay over a long link, one for each figure that must be shown.

use core::time::Duration;

use chain::{MS, Plan, Shape, at};
use ledger::Cause;
use sim::Link;

#[test]
fn undisturbed_samples_take_the_one_way_delay_and_nothing_else() {
    let scene = Plan::new(1).play();
    let [delivered, lost] = scene.verify();
    assert_eq!((delivered > 20_000, lost), (true, 0));
    let mut ages = scene.far().published[0].ages.clone();
    ages.sort();
    assert!(ages[ages.len() / 2] <= 11 * MS, "{:?}", ages[ages.len() / 2]);
}

#[test]
fn losses_are_repaired_within_the_deadline() {
    let mut plan = Plan::new(2);
    plan.ways = plan.ways.map(|way| way.loss(0.05));
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    // Four rounds of repair and more, each of which fails with a probability of 0.1.
    assert!(delivered > 20_000 && lost * 1_000 < delivered, "{delivered} delivered, {lost} lost");
}

#[test]
fn an_outage_costs_its_length_less_the_deadline() {
    let mut plan = Plan::new(3);
    plan.deadline = Duration::from_secs(1);
    plan.publishers = vec![at(0)..at(45_000)];
    plan.ways = plan.ways.map(|way| way.outage(at(5_000)..at(35_000)));
    let scene = plan.play();
    let [_, lost] = scene.verify();
    let seconds = lost as f64 / 8_000.0;
    assert!((28.0..=30.0).contains(&seconds), "{seconds} s of samples are lost");
    let after = scene.far().published[0].times.iter().find(|time| **time > at(35_000)).expect("it goes on");
    assert!(
        *after <= at(35_140),
        "the first fresh sample comes within two round trips and 100 ms: {after:?}"
    );
    assert_eq!((scene.near().replaced, scene.far().resumed), (0, 0), "over the same connection");
    // Ten attempts at a second one were made meanwhile.
    assert_eq!(scene.near().connections(), 1);
    let [link_down, others @ ..] = scene.near().given_up;
    assert!(link_down > 200_000 && others.iter().sum::<u64>() < 1_000, "{:?}", scene.near().given_up);
    let reader = &scene.readers()[0];
    let account = reader.account(&reader.followed[0]);
    let lines = account.gaps.iter().flat_map(|gap| &gap.evidence);
    let given_up = |cause| lines.clone().filter(move |line| line.source.cause() == Some(cause));
    let told = Cause::ALL.map(|cause| given_up(cause).map(|line| line.count).sum::<u64>());
    assert_eq!(told.iter().sum::<u64>(), lost, "the far reader knows why: {told:?}");
    assert!(told[Cause::LinkDown as usize] > 200_000, "{told:?}");
}

#[test]
fn a_near_relay_that_starts_again_goes_on_in_the_same_account() {
    let mut plan = Plan::new(4);
    plan.near_deaths = vec![at(1_000)..at(1_150)];
    plan.silence = Some(Duration::from_secs(1));
    let scene = plan.play();
    let _ = scene.verify();
    assert_eq!(scene.far().published.len(), 1, "one account");
    assert!(scene.far().resumed > 0);
}

/// A far relay that is killed is found within two seconds and two round trips: of its death, or of its start if it was
/// dead for longer.
#[test]
fn a_far_relay_that_starts_again_is_found_and_begins_another_account() {
    for has_keys in [false, true] {
        for death in [at(1_000)..at(1_150), at(1_000)..at(11_000), at(1_000)..at(31_033)] {
            let mut plan = Plan::new(5);
            plan.has_keys = has_keys;
            plan.publishers = vec![at(0)..death.end + 5_000 * MS];
            plan.far_deaths = vec![death.clone()];
            let scene = plan.play();
            let _ = scene.verify();
            assert_eq!((scene.far().published.len(), scene.near().replaced), (2, 1));
            assert_eq!(scene.near().connections(), 1, "failed attempts are forgotten");
            let found = scene.far().published[1].times.first().expect("samples");
            let latest = death.end.max(at(1_150)) + 2_040 * MS;
            assert!(*found <= latest, "at {found:?}, keys {has_keys}, dead {death:?}");
        }
    }
}

#[test]
fn a_second_connection_to_a_far_relay_that_has_the_first_takes_its_place_and_nothing_comes_twice() {
    for has_keys in [false, true] {
        let mut plan = Plan::new(8);
        plan.has_keys = has_keys;
        plan.publishers = vec![at(0)..at(8_000)];
        plan.near_deafness = vec![at(1_000)..at(4_000)];
        let scene = plan.play();
        let [delivered, lost] = scene.verify();
        assert_eq!((scene.far().published.len(), scene.far().resumed), (1, scene.near().replaced));
        assert!(scene.near().replaced > 0 && scene.near().replaced < 8, "{}", scene.near().replaced);
        // What was in flight is lost with each of them, and not more.
        assert!(lost < 2_000 && delivered > 60_000, "{delivered} delivered, {lost} lost");
    }
}

#[test]
fn a_publisher_that_starts_again_is_another_stream() {
    let mut plan = Plan::new(6);
    plan.publishers = vec![at(0)..at(1_000), at(1_100)..at(2_500)];
    let scene = plan.play();
    let [_, lost] = scene.verify();
    assert_eq!((scene.far().published.len(), lost), (2, 0));
}

#[test]
fn a_large_sample_loses_only_the_elements_that_the_link_lost() {
    let mut plan = Plan::new(7);
    plan.shape.elements = 2_000_000;
    plan.shape.hz = 1;
    plan.shape.record = 50_000;
    plan.deadline = 40 * MS;
    plan.rate = "200m".to_owned();
    let way = Link::ideal().delay(10 * MS);
    plan.ways = [way.clone().loss(0.01), way];
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    // No repair arrives in 40 ms: what the path loses is lost, and nothing beside it.
    assert!(lost > 0 && lost * 20 < delivered, "{delivered} delivered, {lost} lost");
}

#[test]
fn of_a_sample_of_200_mb_a_path_that_loses_a_ten_thousandth_costs_a_ten_thousandth() {
    let mut plan = Plan::new(9);
    plan.shape.elements = 200_000_000;
    plan.shape.hz = 1;
    plan.shape.record = 50_000;
    plan.shape.kept = 100 * MS;
    // The first sample is too old for the deadline when the stream has begun on the link.
    plan.publishers = vec![at(0)..at(2_000)];
    // No repair arrives in time.
    plan.deadline = 24 * MS;
    plan.rate = "4g".to_owned();
    let way = Link::ideal().delay(10 * MS);
    plan.ways = [way.clone().loss(0.000_1), way];
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    assert_eq!(delivered + lost, 200_000_000);
    assert!((10_000..40_000).contains(&lost), "{lost} lost");
}

#[test]
fn of_more_than_the_path_carries_the_stream_of_the_higher_priority_arrives_whole() {
    // 46 packets a second, of which the streams' horizons need 20, and the stream of the higher priority 10.
    let mut plan = Plan::new(8);
    let way = Link::ideal().delay(50 * MS).loss(0.01);
    plan.ways = [way.clone(), way];
    plan.publishers = vec![at(0)..at(60_000)];
    plan.rate = "550k".to_owned();
    plan.deadline = Duration::from_secs(1);
    plan.shape.name = "lab/low".to_owned();
    plan.others = vec![Shape { name: "lab/high".to_owned(), hz: 100, ..plan.shape.clone() }];
    plan.priorities = [("lab/high".to_owned(), 9)].into();
    let scene = plan.play();
    let [delivered, lost] = scene.verify();
    assert_eq!(delivered + lost, 60 * (8_000 + 400), "each element has its outcome");
    // Nine rounds of repair fit, of which all fail with a probability of 1e-17.
    assert_eq!(scene.near().given_up_of.get(&1), None, "the stream of the higher priority");
    let [link_down, bandwidth, repair, memory] = scene.near().given_up_of[&0];
    assert_eq!((link_down + bandwidth + repair, memory), (lost, 0));
    assert!(bandwidth * 20 > lost * 19, "{bandwidth} of {lost}");
    assert!(
        delivered > 60 * 400 + 60 * 200,
        "five messages a second of the low one arrive, too: {delivered}"
    );
}
