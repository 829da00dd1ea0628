//! A second connection is made beside a silent one, and one of the two goes on.

use units::Random;

use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(20);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn heard(millis: u64) -> FirstConnection {
    FirstConnection { heard: at(millis), round_trip: ROUND_TRIP }
}

/// Polls as a driver does, whose second connection is being made from `Begin` on; returns all steps but questions, with
/// their times, and the number of questions.
fn run(
    decision: &mut SecondConnection,
    millis: core::ops::Range<u64>,
    first: &FirstConnection,
    second: &mut Second,
) -> (Vec<(u64, Step)>, usize) {
    let (mut steps, mut questions) = (Vec::new(), 0);
    for millis in millis {
        while let Some(step) = decision.poll(at(millis), first, *second) {
            match step {
                Step::Ask => questions += 1,
                Step::Begin => *second = Second::Connecting,
                Step::GiveUp => *second = Second::Missing,
                Step::Replace => return ([steps, vec![(millis, step)]].concat(), questions),
            }
            if step != Step::Ask {
                steps.push((millis, step));
            }
        }
    }
    (steps, questions)
}

#[test]
fn a_connection_that_is_heard_is_left_alone() {
    let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
    for millis in (0..60_000).step_by(700) {
        let all = run(&mut decision, millis..millis + 700, &heard(millis), &mut second);
        assert_eq!(all, (vec![], 0));
    }
}

#[test]
fn a_silent_one_is_asked_and_then_a_second_is_made_beside_it() {
    let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
    assert_eq!(run(&mut decision, 0..750, &heard(0), &mut second), (vec![], 0));
    assert_eq!(decision.deadline(), Some(at(750)));
    assert_eq!(run(&mut decision, 750..1_500, &heard(0), &mut second), (vec![], 15));
    assert_eq!(run(&mut decision, 1_500..9_000, &heard(0), &mut second), (vec![(1_500, Step::Begin)], 0));
    second = Second::Missing;
    let again = run(&mut decision, 9_000..9_400, &heard(0), &mut second);
    assert_eq!(again, (vec![(9_000, Step::Begin)], 0), "for as long as the first is silent");
    second = Second::Missing;
    assert_eq!(run(&mut decision, 9_400..9_500, &heard(0), &mut second), (vec![], 0), "refused");
    assert_eq!(decision.deadline(), Some(at(9_500)));
    assert_eq!(run(&mut decision, 9_500..9_600, &heard(0), &mut second).0, [(9_500, Step::Begin)]);
}

#[test]
fn on_a_long_path_silence_is_four_round_trips() {
    let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
    let first = FirstConnection { heard: at(0), round_trip: Duration::from_secs(1) };
    assert_eq!(run(&mut decision, 0..5_000, &first, &mut second).0, [(4_000, Step::Begin)]);
}

#[test]
fn if_the_first_is_heard_before_the_second_is_connected_the_second_is_given_up() {
    let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
    run(&mut decision, 0..4_000, &heard(0), &mut second);
    assert_eq!(run(&mut decision, 4_000..4_100, &heard(3_999), &mut second).0, [(4_000, Step::GiveUp)]);
    assert_eq!(second, Second::Missing);
    let next = run(&mut decision, 4_100..9_000, &heard(3_999), &mut second).0;
    assert_eq!(next, [(5_499, Step::Begin)], "the silence begins anew");
}

#[test]
fn once_the_second_is_connected_the_first_has_a_round_trip_and_a_grace_to_answer() {
    for answer in [4_269, 4_270] {
        let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
        run(&mut decision, 0..4_000, &heard(0), &mut second);
        second = Second::Connected;
        let (steps, questions) = run(&mut decision, 4_000..answer, &heard(0), &mut second);
        assert_eq!((steps, questions), (vec![], 6));
        // What is heard at the last moment counts.
        let first = if answer == 4_269 { heard(4_269) } else { heard(0) };
        let last = if answer == 4_269 { Step::GiveUp } else { Step::Replace };
        assert_eq!(run(&mut decision, answer..answer + 1, &first, &mut second).0, [(answer, last)]);
    }
}

#[test]
fn a_second_that_ends_before_it_replaces_the_first_is_made_again() {
    let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
    run(&mut decision, 0..4_000, &heard(0), &mut second);
    second = Second::Connected;
    run(&mut decision, 4_000..4_200, &heard(0), &mut second);
    second = Second::Missing;
    assert_eq!(run(&mut decision, 4_200..4_300, &heard(0), &mut second).0, [(4_200, Step::Begin)]);
    second = Second::Connected;
    assert_eq!(run(&mut decision, 4_300..5_000, &heard(0), &mut second).0, [(4_570, Step::Replace)]);
}

#[test]
fn under_seeds_the_first_is_replaced_only_while_it_is_silent_and_never_by_one_that_is_not_connected() {
    for seed in 0..500 {
        let mut random = Random::for_purpose(seed, "second connection");
        let (mut decision, mut second) = (SecondConnection::new(at(0)), Second::Missing);
        let (mut last, mut begun, mut connected) = (0, None::<u64>, None::<u64>);
        let deaf_from = random.below(20_000);
        for millis in 0..30_000 {
            // The peer is heard at random, until it falls silent for good.
            if millis < deaf_from && random.below(600) == 0 {
                last = millis;
            }
            if second == Second::Connecting && random.below(100) == 0 {
                (second, connected) = (Second::Connected, Some(millis));
            } else if second != Second::Missing && random.below(2_000) == 0 {
                (second, connected) = (Second::Missing, None);
            }
            let mut steps = 0;
            while let Some(step) = decision.poll(at(millis), &heard(last), second) {
                steps += 1;
                assert!(steps < 5, "seed {seed}: a bound of steps at once");
                match step {
                    Step::Ask => {}
                    Step::Begin => {
                        assert!(second == Second::Missing && millis >= last + 1_500, "seed {seed}");
                        assert!(begun.is_none_or(|begun| millis >= begun + 500), "seed {seed}: too often");
                        (second, begun) = (Second::Connecting, Some(millis));
                    }
                    Step::GiveUp => {
                        assert!(begun.is_some_and(|begun| last >= begun), "seed {seed}: nothing was heard");
                        (second, connected) = (Second::Missing, None);
                    }
                    Step::Replace => {
                        assert!(connected.is_some_and(|it| millis >= it + 270 && last <= it), "seed {seed}");
                        (decision, second, connected) =
                            (SecondConnection::new(at(millis)), Second::Missing, None);
                        last = millis;
                    }
                }
            }
            assert!(
                decision.deadline().is_none_or(|due| due > at(millis)),
                "seed {seed}: nothing is overdue"
            );
            if second == Second::Missing && millis > last + 2_000 {
                assert!(begun.is_some_and(|begun| millis < begun + 501), "seed {seed}: tried for ever");
            }
        }
    }
}
