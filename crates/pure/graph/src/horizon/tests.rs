//! Live streams with delays, pauses, and deaths, aligned by what they tell: every row at last, and none too early.

use std::collections::BTreeMap;

use sample::StreamName;
use units::Random;

use super::*;
use crate::scene::{Stream, floats};
use crate::{Derivation, DerivationConfig, DerivedInput, Input, Matching, Operator, Output};

const EPOCH: Epoch = Epoch { start_ns: 1, incarnation: 1 };
const MS: u64 = 1_000_000;
/// Steady clock at which the streams begin: another zero than that of their times.
const START: u64 = 77_000 * MS;
/// Time span of a scene.
const SPAN: u64 = 60_000;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(START + ms * MS)
}

/// What arrives of one input, and when.
enum Arrival {
    Block(Block),
    Tally { left: u64, epoch: Epoch, next_index: u64 },
    Ended(End),
}

/// A live stream at 100 samples per second: times of its samples, and arrivals in milliseconds.
struct Live {
    name: &'static str,
    samples: Vec<WallTime>,
    arrivals: Vec<(u64, Arrival)>,
    /// Spans without any sign of it.
    dead: Vec<core::ops::Range<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sends,
    Pauses,
    Dead,
}

impl Live {
    /// Plays a publisher that sends, pauses while its tallies continue, or dies and returns with another epoch.
    fn play(random: &mut Random, name: &'static str) -> Self {
        let mut live = Self { name, samples: Vec::new(), arrivals: Vec::new(), dead: Vec::new() };
        let mut stream = Stream::new(name, "100");
        let lag = 10 + random.below(300);
        let jitter = 1 + random.below(40);
        let block = 1 + random.below(12);
        let (mut ms, mut index, mut arrived) = (random.below(2_000), 0, 0);
        let mut mode = Mode::Sends;
        while ms < SPAN {
            let length = match mode {
                Mode::Sends => 500 + random.below(8_000),
                Mode::Pauses => 100 + random.below(8_000),
                Mode::Dead => 11_000 + random.below(6_000),
            };
            let end = ms + length;
            if mode == Mode::Dead {
                live.dead.push(ms..end);
                // A receiver that heard the silence tells it; another reader has only the silence.
                if random.chance(0.5) {
                    live.arrivals.push((arrived.max(ms + 10_000), Arrival::Ended(End::Silent)));
                }
                stream.epoch.start_ns += 1;
                index = 0;
            }
            let mut tally = ms;
            while ms < end && mode == Mode::Sends {
                // A phase of its own after every pause.
                // No sample of one stream is in the middle between two of the other.
                let t0 = WallTime::from_nanos((ms * MS + 1_000 * name.len() as u64) as i64);
                let taken = ms + block * 10 + lag;
                arrived = arrived.max(taken + random.below(jitter));
                let seconds = |it: u64| t0.as_nanos() as f64 / 1e9 + it as f64 / 100.0;
                let values: Vec<f64> = (0..block).map(seconds).collect();
                let mut data = stream.block(index, &values);
                data.t0 = t0;
                live.samples.extend((0..block).map(|it| data.time_of(index + it)));
                live.arrivals.push((arrived, Arrival::Block(data)));
                index += block;
                ms += block * 10;
            }
            while mode == Mode::Pauses && tally < end {
                // It tells only what it has sent: those behind the last block.
                let left = tally + block * 10 + lag;
                arrived = arrived.max(left + random.below(jitter));
                live.arrivals.push((
                    arrived,
                    Arrival::Tally { left: arrived, epoch: stream.epoch, next_index: index },
                ));
                tally += 100 + random.below(900);
            }
            ms = ms.max(end);
            mode = match (mode, random.below(10)) {
                (Mode::Sends, 0) => Mode::Dead,
                (Mode::Sends, _) => Mode::Pauses,
                _ => Mode::Sends,
            };
        }
        live.arrivals.push((arrived.max(ms) + 1_000, Arrival::Ended(End::Told)));
        live
    }

    /// Returns whether a death ended half a period later at the earliest, or one delay before at the latest.
    fn returns_at(&self, time: WallTime) -> bool {
        let ms = time.as_nanos() as u64 / MS;
        self.dead.iter().any(|dead| (dead.end - 5..dead.end + 500).contains(&ms))
    }

    fn value_near(&self, time: WallTime) -> Option<f64> {
        let near = self.samples.partition_point(|it| it.nanos_since(time) < -5_000_000);
        let found = self.samples.get(near).filter(|it| it.nanos_since(time) <= 5_000_000)?;
        Some(found.as_nanos() as f64 / 1e9)
    }
}

fn derivation() -> Derivation {
    let input = |variable: &str| DerivedInput {
        variable: variable.to_owned(),
        stream: format!("lab/{variable}").parse().unwrap(),
        channel: "x".to_owned(),
    };
    let mut config = DerivationConfig::new("lab/d".parse().unwrap(), "a - bb", vec![input("a"), input("bb")]);
    config.align.matching = Matching::Nearest;
    Derivation::new(config).unwrap()
}

#[test]
fn live_streams_with_pauses_and_deaths_are_aligned_by_horizons_alone() {
    let mut told_absent = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let inputs = [Live::play(&mut random, "lab/a"), Live::play(&mut random, "lab/bb")];
        let mut order = BTreeMap::new();
        for (input, live) in inputs.iter().enumerate() {
            for (place, (ms, _)) in live.arrivals.iter().enumerate() {
                order.insert((*ms, input, place), ());
            }
        }
        let (mut derivation, mut horizons) = (derivation(), Horizons::new(2));
        let mut outcomes: Vec<(WallTime, Result<f64, StreamName>)> = Vec::new();
        let mut clock = 0;
        for (ms, input, place) in order.into_keys() {
            // Time passes also while nothing comes.
            while clock < ms {
                clock += 50;
                for absent in horizons.advance(at(clock.min(ms))) {
                    told_absent += 1;
                    derivation.handle(absent, Input::Ended).unwrap();
                }
                drain(&mut derivation, &mut outcomes);
                expect_progress(seed, clock.min(ms), &inputs, &outcomes);
            }
            match &inputs[input].arrivals[place].1 {
                Arrival::Block(block) => {
                    horizons.block(input, at(ms), block);
                    derivation.handle(input, Input::Block(block)).unwrap();
                }
                Arrival::Tally { left, epoch, next_index } => {
                    let before = horizons.horizon(input, at(*left), Path::Direct);
                    let horizon = Horizon { epoch: *epoch, next_index: *next_index, before };
                    derivation.handle(input, Input::Horizon(horizon)).unwrap();
                }
                Arrival::Ended(end) => {
                    assert!(horizons.ended(input, EPOCH, *end));
                    derivation.handle(input, Input::Ended).unwrap();
                    assert_eq!(horizons.is_absent(input), *end == End::Silent);
                }
            }
            drain(&mut derivation, &mut outcomes);
        }
        let rows = outcomes.iter().filter(|(_, outcome)| *outcome != Err(inputs[0].name.parse().unwrap()));
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.len(), inputs[0].samples.len(), "seed {seed}");
        for ((time, outcome), taken) in rows.into_iter().zip(&inputs[0].samples) {
            assert!(time.nanos_since(*taken).abs() <= 2, "seed {seed}");
            let expected = inputs[1].value_near(*taken).map(|b| taken.as_nanos() as f64 / 1e9 - b);
            match (expected, outcome) {
                (Some(expected), Ok(value)) => assert!((expected - value).abs() < 1e-9, "seed {seed}"),
                (None, Err(stream)) => assert_eq!(stream.as_str(), "lab/bb"),
                // Rows do not wait for an absent input: it is back when its first block arrives.
                (Some(_), Err(_)) if inputs[1].returns_at(*taken) => {}
                pair => panic!("seed {seed}: {pair:?} at {taken:?}"),
            }
        }
        let totals = derivation.totals();
        assert_eq!(totals.offered, totals.delivered + totals.source, "seed {seed}");
        assert_eq!(totals.offered, outcomes.len() as u64, "seed {seed}");
    }
    assert!(told_absent > 20, "only {told_absent} silences were told by the clock");
}

fn drain(derivation: &mut Derivation, outcomes: &mut Vec<(WallTime, Result<f64, StreamName>)>) {
    while let Some(output) = derivation.poll() {
        let time = |t0: WallTime, place: u64| t0.offset((place * 10 * MS) as i64);
        match output {
            Output::Samples { t0, data, .. } => {
                let values = floats(&data);
                outcomes.extend((0..).zip(values).map(|(place, value)| (time(t0, place), Ok(value))));
            }
            Output::Hole { t0, samples, inherited, .. } => {
                let name = (*inherited.stream).clone();
                outcomes.extend((0..samples).map(|place| (time(t0, place), Err(name.clone()))));
            }
        }
    }
}

/// Every row is out five seconds after it was taken, unless the other input is dead and was not found so yet.
fn expect_progress(
    seed: u64,
    now: u64,
    inputs: &[Live; 2],
    outcomes: &[(WallTime, Result<f64, StreamName>)],
) {
    let unknown = inputs[1]
        .dead
        .iter()
        .find(|dead| dead.start < now && now < dead.end.min(dead.start + 12_000) + 5_000);
    let begins = inputs[1].samples[0].as_nanos() as u64 / MS + 6_000;
    let until = unknown.map_or(now, |dead| dead.start.min(now));
    let Some(until) = until.checked_sub(5_000).filter(|_| now > begins) else { return };
    let newest = outcomes.last().map_or(0, |(time, _)| time.as_nanos() as u64 / MS);
    let due = inputs[0].samples.partition_point(|it| (it.as_nanos() as u64) < until * MS);
    let due = due.checked_sub(1).map_or(0, |it| inputs[0].samples[it].as_nanos() as u64 / MS);
    assert!(newest >= due, "seed {seed}: at {now} ms only {newest} of {due} ms is out");
}

fn block_at(t0_ms: u64) -> Block {
    let mut block = Stream::new("lab/a", "100").block(0, &[0.0]);
    block.t0 = WallTime::from_nanos((t0_ms * MS) as i64);
    block
}

fn before_ms(before: Option<WallTime>) -> Option<i64> {
    before.map(|time| time.as_nanos() / MS as i64)
}

#[test]
fn an_input_is_absent_after_ten_seconds_without_a_sign_and_present_with_the_next() {
    let mut horizons = Horizons::new(3);
    assert_eq!(horizons.advance(at(0)), [0; 0], "none is awaited before the first look at the clock");
    horizons.block(1, at(0), &block_at(0));
    assert!(horizons.ended(2, EPOCH, End::Told));
    assert_eq!(horizons.advance(at(9_999)), [0; 0]);
    horizons.horizon(1, at(9_999), Path::Direct);
    assert_eq!(horizons.advance(at(10_000)), [0]);
    assert!(horizons.is_absent(0) && !horizons.is_absent(1) && !horizons.is_absent(2));
    assert_eq!(horizons.advance(at(19_999)), [1], "an input that has ended is not absent");
    horizons.began(0, at(20_000), EPOCH);
    horizons.horizon(1, at(20_000), Path::Direct);
    assert!(!horizons.is_absent(0) && !horizons.is_absent(1));
}

#[test]
fn the_horizon_follows_the_greatest_delay_of_the_last_ten_seconds_or_more() {
    let mut horizons = Horizons::new(1);
    assert_eq!(horizons.horizon(0, at(0), Path::Direct), None, "nothing is known of its times");
    // 4 s of history are read at once, then each block comes 300 ms after its first sample.
    (0..40).for_each(|it| horizons.block(0, at(4_000), &block_at(it * 100)));
    assert_eq!(before_ms(horizons.horizon(0, at(8_500), Path::Direct)), Some(2_500));
    (40..300).for_each(|it| horizons.block(0, at(it * 100 + 300), &block_at(it * 100)));
    assert_eq!(before_ms(horizons.horizon(0, at(31_000), Path::Direct)), Some(28_700));
}

#[test]
fn a_slow_replay_comes_behind_its_horizon() {
    for slowness in [2, 10] {
        let mut random = Random::new(slowness);
        let mut horizons = Horizons::new(1);
        let mut ms = 0;
        for round in 0..200 {
            let taken = ms / slowness;
            if round > 5 {
                let told = before_ms(horizons.horizon(0, at(ms), Path::Direct)).unwrap();
                assert!(told <= taken as i64, "times {slowness}: {told} ms at a sample of {taken} ms");
            }
            horizons.block(0, at(ms), &block_at(taken));
            ms += 500 + random.below(500);
        }
    }
}

#[test]
fn an_input_without_samples_is_taken_for_a_second_later_than_the_others() {
    let mut horizons = Horizons::new(2);
    assert_eq!(horizons.horizon(1, at(5_000), Path::Direct), None);
    horizons.block(0, at(5_000), &block_at(4_000));
    assert_eq!(before_ms(horizons.horizon(1, at(5_000), Path::Direct)), Some(1_000));
    // A relay sends tallies also while its link keeps samples back.
    assert_eq!(before_ms(horizons.horizon(1, at(70_000), Path::Relayed)), Some(6_000));
}

#[test]
fn the_rest_of_a_replaced_epoch_is_no_end() {
    let mut horizons = Horizons::new(1);
    horizons.began(0, at(0), EPOCH);
    let next = Epoch { start_ns: 2, ..EPOCH };
    horizons.began(0, at(5), next);
    assert!(!horizons.ended(0, EPOCH, End::Silent) && !horizons.is_absent(0));
    assert!(horizons.ended(0, next, End::Silent) && horizons.is_absent(0));
}
