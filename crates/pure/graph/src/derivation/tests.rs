//! Scenarios of a derivation: expected output for given input, hole by hole.

use super::*;
use crate::scene::{Stream, floats};
use crate::{Hole, Horizon, Matching};
use ledger::Stage;
use sample::Block;
use units::Random;

/// Outcome of one instant of the grid: its value, or the input whose hole covers it.
#[derive(Clone, PartialEq, Debug)]
enum SampleOutcome {
    Value(f64),
    Hole(String, Option<Stage>),
}

fn derivation(expression: &str, variables: &[(&str, &str)], matching: Matching) -> Derivation {
    let input = |(variable, stream): &(&str, &str)| DerivedInput {
        variable: (*variable).to_owned(),
        stream: stream.parse().unwrap(),
        channel: "x".to_owned(),
    };
    let inputs = variables.iter().map(input).collect();
    let mut config = DerivationConfig::new("lab/derived".parse().unwrap(), expression, inputs);
    config.align.matching = matching;
    Derivation::new(config).unwrap()
}

fn difference(matching: Matching) -> Derivation {
    derivation("a - b", &[("a", "lab/a"), ("b", "lab/b")], matching)
}

/// Polls until nothing more is known; checks that indices continue without a break.
fn drain(derivation: &mut Derivation, outcomes: &mut Vec<(WallTime, SampleOutcome)>) {
    while let Some(output) = derivation.poll() {
        let rate = derivation.schema().unwrap().rate;
        let (first, t0, count) = match &output {
            Output::Samples { first_index, t0, samples, data, .. } => {
                assert_eq!(floats(data).len() as u64, *samples);
                (*first_index, *t0, *samples)
            }
            Output::Hole { first_index, t0, samples, .. } => (*first_index, *t0, *samples),
        };
        assert_eq!(first, outcomes.len() as u64, "the output's indices have a break");
        assert!(count > 0);
        for place in 0..count {
            let outcome = match &output {
                Output::Samples { data, .. } => SampleOutcome::Value(floats(data)[place as usize]),
                Output::Hole { inherited, .. } => {
                    SampleOutcome::Hole(inherited.stream.to_string(), inherited.stage)
                }
            };
            outcomes.push((rate.time_of(place, 0, t0), outcome));
        }
        let totals = derivation.totals();
        assert_eq!(totals.offered, totals.delivered + totals.source);
        assert_eq!(totals.offered, outcomes.len() as u64);
    }
}

fn feed(
    derivation: &mut Derivation,
    outcomes: &mut Vec<(WallTime, SampleOutcome)>,
    input: usize,
    block: &Block,
) {
    derivation.handle(input, Input::Block(block)).unwrap();
    drain(derivation, outcomes);
}

fn only_outcomes(outcomes: &[(WallTime, SampleOutcome)]) -> Vec<SampleOutcome> {
    outcomes.iter().map(|(_, outcome)| outcome.clone()).collect()
}

/// Cuts a line of present and missing samples into blocks of random lengths.
fn cut(random: &mut Random, stream: &Stream, line: &[Option<f64>]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut index = 0;
    while index < line.len() {
        let most = 1 + random.below(40) as usize;
        let values: Vec<f64> = line[index..].iter().take(most).map_while(|value| *value).collect();
        if values.is_empty() {
            index += 1;
        } else {
            blocks.push(stream.block(index as u64, &values));
            index += values.len();
        }
    }
    blocks
}

fn line(random: &mut Random, samples: usize, value: impl Fn(usize) -> f64) -> Vec<Option<f64>> {
    let mut line: Vec<Option<f64>> = (0..samples).map(|index| Some(value(index))).collect();
    for _ in 0..random.below(6) {
        let start = 1 + random.below(samples as u64 - 2) as usize;
        let end = (start + 1 + random.below(25) as usize).min(samples - 1);
        line[start..end].fill(None);
    }
    line
}

/// Passes two lines of blocks in a random order that keeps the order of each line.
fn interleave(
    random: &mut Random,
    derivation: &mut Derivation,
    lines: [Vec<Block>; 2],
) -> Vec<(WallTime, SampleOutcome)> {
    let mut outcomes = Vec::new();
    let mut left = lines.map(|line| line.into_iter().peekable());
    loop {
        // Neither input runs ahead by far.
        let starts = left.each_mut().map(|blocks| blocks.peek().map(|block| block.t0));
        let input = match starts {
            [None, None] => return outcomes,
            [Some(_), None] => 0,
            [None, Some(_)] => 1,
            [Some(a), Some(b)] if a.nanos_since(b).abs() > 500_000_000 => usize::from(b < a),
            [Some(_), Some(_)] => random.below(2) as usize,
        };
        let block = left[input].next().unwrap();
        feed(derivation, &mut outcomes, input, &block);
    }
}

#[test]
fn a_stream_minus_itself_is_zero_wherever_it_is() {
    for matching in [Matching::Nearest, Matching::Linear] {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let rates = ["360", "1000/3", "48k"];
            let stream = Stream::new("lab/a", rates[random.below(3) as usize]);
            let plain = line(&mut random, 600, |index| (index as f64).sin());
            let blocks = [cut(&mut random, &stream, &plain), cut(&mut random, &stream, &plain)];
            let mut derivation = derivation("a - b", &[("a", "lab/a"), ("b", "lab/a")], matching);
            let outcomes = interleave(&mut random, &mut derivation, blocks);
            assert_eq!(outcomes.len(), plain.len(), "seed {seed}");
            for (index, ((time, outcome), value)) in outcomes.iter().zip(&plain).enumerate() {
                let expected =
                    value.map_or(SampleOutcome::Hole("lab/a".into(), None), |_| SampleOutcome::Value(0.0));
                assert_eq!(*outcome, expected, "seed {seed}, {matching:?}, sample {index}");
                // Every cut rounds the time to a whole nanosecond once.
                assert!(time.nanos_since(stream.time_of(index as u64)).abs() <= 2);
            }
        }
    }
}

#[test]
fn holes_of_either_input_make_holes_and_nothing_else_does() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
        let lines =
            [line(&mut random, 500, |index| index as f64), line(&mut random, 500, |index| index as f64)];
        let blocks = [cut(&mut random, &a, &lines[0]), cut(&mut random, &b, &lines[1])];
        let outcomes = interleave(&mut random, &mut difference(Matching::Nearest), blocks);
        let expected = lines[0].iter().zip(&lines[1]).map(|pair| match pair {
            (None, _) => SampleOutcome::Hole("lab/a".into(), None),
            (Some(_), None) => SampleOutcome::Hole("lab/b".into(), None),
            (Some(_), Some(_)) => SampleOutcome::Value(0.0),
        });
        assert_eq!(only_outcomes(&outcomes), expected.collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn different_rates_meet_on_the_grid_of_the_first() {
    for (matching, error) in [(Matching::Nearest, 0.51 / 360.0), (Matching::Linear, 3e-9)] {
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let (a, mut b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "360"));
            // The second grid has a random phase between the first grid's instants; it begins before it and ends
            // after it.
            b.anchor = b.anchor.offset(-(random.below(2_000_000) as i64));
            // Both streams carry the time in seconds, so the difference is the error of the matching.
            let time = |stream: &Stream, index: usize| {
                stream.time_of(index as u64).nanos_since(WallTime::from_nanos(1_000_000_000)) as f64 / 1e9
            };
            let lines = [
                (0..900).map(|index| Some(time(&a, index))).collect::<Vec<_>>(),
                (0..340).map(|index| Some(time(&b, index))).collect::<Vec<_>>(),
            ];
            let blocks = [cut(&mut random, &a, &lines[0]), cut(&mut random, &b, &lines[1])];
            let outcomes = interleave(&mut random, &mut difference(matching), blocks);
            assert_eq!(outcomes.len(), 900);
            for (_, outcome) in &outcomes {
                assert!(
                    matches!(outcome, SampleOutcome::Value(value) if value.abs() <= error),
                    "seed {seed}: {outcome:?}"
                );
            }
        }
    }
}

#[test]
fn a_line_is_never_interpolated_across_a_hole() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "100"));
    let mut derivation = derivation("0 * a + b", &[("a", "lab/a"), ("b", "lab/b")], Matching::Linear);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 1, &b.block(0, &[0.0, 1.0]));
    feed(&mut derivation, &mut outcomes, 1, &b.block(3, &[3.0, 4.0]));
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[0.0; 41]));
    for (index, outcome) in only_outcomes(&outcomes).into_iter().enumerate() {
        match (outcome, index) {
            (SampleOutcome::Value(value), 0..=10 | 30..=40) => {
                assert!((value - index as f64 / 10.0).abs() < 1e-9)
            }
            (SampleOutcome::Hole(stream, None), 11..30) => assert_eq!(stream, "lab/b"),
            (outcome, _) => panic!("{outcome:?} at {index}"),
        }
    }
    assert_eq!(outcomes.len(), 41);
}

#[test]
fn jitter_of_an_anchor_is_no_hole() {
    for matching in [Matching::Nearest, Matching::Linear] {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
            let lines = [vec![Some(1.0); 600], vec![Some(1.0); 610]];
            let mut blocks = [cut(&mut random, &a, &lines[0]), cut(&mut random, &b, &lines[1])];
            for block in blocks.iter_mut().flat_map(|line| line.iter_mut().skip(1)) {
                block.t0 = block.t0.offset(random.below(2_000_001) as i64 - 1_000_000);
            }
            let outcomes = interleave(&mut random, &mut difference(matching), blocks);
            let outcomes = only_outcomes(&outcomes);
            assert_eq!(outcomes.len(), 600, "seed {seed}, {matching:?}");
            assert!(
                outcomes.iter().all(|outcome| *outcome == SampleOutcome::Value(0.0)),
                "seed {seed}, {matching:?}"
            );
        }
    }
}

#[test]
fn a_restart_of_an_input_makes_a_hole_and_goes_on() {
    for restarted in [0, 1] {
        let mut streams = [Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k")];
        let mut derivation = difference(Matching::Nearest);
        let mut outcomes = Vec::new();
        for (input, stream) in streams.iter().enumerate() {
            feed(&mut derivation, &mut outcomes, input, &stream.block(0, &[1.0; 100]));
        }
        // The new epoch begins 50 ms after the old one ended; the other input continues without a break.
        let other = 1 - restarted;
        feed(&mut derivation, &mut outcomes, other, &streams[other].block(100, &[1.0; 100]));
        let stream = &mut streams[restarted];
        stream.epoch.start_ns += 1;
        stream.anchor = stream.anchor.offset(150_000_000);
        feed(&mut derivation, &mut outcomes, restarted, &stream.block(0, &[1.0; 50]));
        let hole = SampleOutcome::Hole(["lab/a", "lab/b"][restarted].into(), Some(Stage::Source));
        let outcomes = only_outcomes(&outcomes);
        assert_eq!(outcomes.len(), 200);
        assert!(
            outcomes[..100]
                .iter()
                .chain(&outcomes[150..])
                .all(|outcome| *outcome == SampleOutcome::Value(0.0))
        );
        assert!(outcomes[100..150].iter().all(|outcome| *outcome == hole), "{:?}", outcomes[100]);
    }
}

#[test]
fn a_clock_set_back_at_a_restart_of_the_grid_costs_one_sample() {
    let mut a = Stream::new("lab/a", "1k");
    let mut derivation = derivation("2 * a", &[("a", "lab/a")], Matching::Nearest);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[1.0, 2.0]));
    a.epoch.start_ns = 2;
    a.anchor = WallTime::from_nanos(0);
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[3.0]));
    let seam = SampleOutcome::Hole("lab/a".into(), Some(Stage::Source));
    assert_eq!(
        only_outcomes(&outcomes),
        [SampleOutcome::Value(2.0), SampleOutcome::Value(4.0), seam, SampleOutcome::Value(6.0)]
    );
    assert_eq!(outcomes[3].0, WallTime::from_nanos(0));
}

#[test]
fn a_hole_inherits_the_stage_told_before_or_after_it_was_seen() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
    let mut derivation = difference(Matching::Nearest);
    let mut outcomes = Vec::new();
    let injected = Hole { epoch: a.epoch, positions: 1..2, stage: Some(Stage::Injected) };
    let network = Hole { epoch: b.epoch, positions: 3..4, stage: Some(Stage::Network) };
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[1.0]));
    derivation.handle(0, Input::Hole(&injected)).unwrap();
    feed(&mut derivation, &mut outcomes, 0, &a.block(2, &[1.0; 3]));
    derivation.handle(1, Input::Block(&b.block(0, &[1.0; 3]))).unwrap();
    derivation.handle(1, Input::Block(&b.block(4, &[1.0]))).unwrap();
    derivation.handle(1, Input::Hole(&network)).unwrap();
    drain(&mut derivation, &mut outcomes);
    let outcomes = only_outcomes(&outcomes);
    assert_eq!(outcomes[1], SampleOutcome::Hole("lab/a".into(), Some(Stage::Injected)));
    assert_eq!(outcomes[3], SampleOutcome::Hole("lab/b".into(), Some(Stage::Network)));
    assert_eq!([&outcomes[0], &outcomes[2], &outcomes[4]], [&SampleOutcome::Value(0.0); 3]);
}

#[test]
fn missing_elements_within_a_block_are_holes() {
    let a = Stream::new("lab/a", "1k");
    let mut derivation = derivation("a", &[("a", "lab/a")], Matching::Nearest);
    let mut block = a.block(0, &[1.0, 2.0, 3.0, 4.0]);
    block.missing.extend([0..1, 2..3]);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 0, &block);
    let hole = SampleOutcome::Hole("lab/a".into(), None);
    assert_eq!(
        only_outcomes(&outcomes),
        [hole.clone(), SampleOutcome::Value(2.0), hole, SampleOutcome::Value(4.0)]
    );
}

/// Tells that all samples of a stream below an index have come, and those before a time.
fn tell(
    derivation: &mut Derivation,
    outcomes: &mut Vec<(WallTime, SampleOutcome)>,
    input: usize,
    horizon: (&Stream, u64, Option<WallTime>),
) {
    let (stream, next_index, before) = horizon;
    let horizon = Horizon { epoch: stream.epoch, next_index, before };
    derivation.handle(input, Input::Horizon(horizon)).unwrap();
    drain(derivation, outcomes);
}

#[test]
fn rows_wait_for_a_silent_input_until_its_horizon_is_behind_them() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
    let mut derivation = difference(Matching::Nearest);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 1, &b.block(0, &[1.0; 10]));
    // Rows wait for any length of time …
    for block in 0..100 {
        feed(&mut derivation, &mut outcomes, 0, &a.block(block * 100, &[1.0; 100]));
    }
    // … and a position alone releases none behind it, nor a time within the jitter of the next sample.
    tell(&mut derivation, &mut outcomes, 1, (&b, 10, None));
    tell(&mut derivation, &mut outcomes, 1, (&b, 10, Some(b.time_of(12))));
    assert_eq!(outcomes.len(), 10);
    tell(&mut derivation, &mut outcomes, 1, (&b, 10, Some(b.time_of(500))));
    let silent = SampleOutcome::Hole("lab/b".into(), Some(Stage::Source));
    assert_eq!(outcomes.len(), 500, "half a period before the horizon");
    assert!(only_outcomes(&outcomes)[10..].iter().all(|outcome| *outcome == silent));
    // Data that come behind their horizon are ignored, and the rest continues.
    feed(&mut derivation, &mut outcomes, 1, &b.block(10, &[1.0; 990]));
    assert_eq!(outcomes.len(), 1_000);
    assert_eq!(outcomes[499].1, silent);
    assert!(only_outcomes(&outcomes)[500..].iter().all(|outcome| *outcome == SampleOutcome::Value(0.0)));
}

#[test]
fn an_input_of_which_only_tallies_arrive_is_a_hole_up_to_their_position() {
    for lost in [0, 1] {
        let streams = [Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k")];
        let mut derivation = difference(Matching::Nearest);
        let mut outcomes = Vec::new();
        for (input, stream) in streams.iter().enumerate() {
            feed(&mut derivation, &mut outcomes, input, &stream.block(0, &[1.0; 100]));
        }
        let hole = Hole { epoch: streams[lost].epoch, positions: 100..300, stage: Some(Stage::Network) };
        feed(&mut derivation, &mut outcomes, 1 - lost, &streams[1 - lost].block(100, &[1.0; 300]));
        derivation.handle(lost, Input::Hole(&hole)).unwrap();
        tell(&mut derivation, &mut outcomes, lost, (&streams[lost], 300, None));
        let name = ["lab/a", "lab/b"][lost].to_owned();
        let known = only_outcomes(&outcomes);
        // The first sample behind the hole may come two periods early.
        assert!((297..=300).contains(&known.len()), "{}", known.len());
        assert!(known[100..].iter().all(|it| *it == SampleOutcome::Hole(name.clone(), Some(Stage::Network))));
        feed(&mut derivation, &mut outcomes, lost, &streams[lost].block(300, &[1.0; 100]));
        assert!(only_outcomes(&outcomes)[300..].iter().all(|it| *it == SampleOutcome::Value(0.0)));
        assert_eq!(outcomes.len(), 400);
    }
}

#[test]
fn rows_that_wait_are_bounded_and_the_oldest_become_holes() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
    let mut derivation = difference(Matching::Nearest);
    let mut config = derivation.config().clone();
    config.align.waiting = 250;
    derivation = Derivation::new(config).unwrap();
    let mut outcomes = Vec::new();
    for block in 0..4 {
        feed(&mut derivation, &mut outcomes, 0, &a.block(block * 100, &[1.0; 100]));
    }
    assert_eq!(outcomes.len(), 150);
    let late = SampleOutcome::Hole("lab/b".into(), Some(Stage::Late));
    assert!(only_outcomes(&outcomes).iter().all(|outcome| *outcome == late));
    feed(&mut derivation, &mut outcomes, 1, &b.block(0, &[1.0; 400]));
    assert_eq!(outcomes.len(), 400);
    assert!(only_outcomes(&outcomes)[150..].iter().all(|outcome| *outcome == SampleOutcome::Value(0.0)));
}

#[test]
fn an_input_that_ended_is_not_waited_for() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
    let mut derivation = difference(Matching::Nearest);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 1, &b.block(0, &[1.0; 10]));
    derivation.handle(1, Input::Ended).unwrap();
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[1.0; 12]));
    let gone = SampleOutcome::Hole("lab/b".into(), Some(Stage::Source));
    assert_eq!(outcomes.len(), 12);
    assert_eq!(only_outcomes(&outcomes)[10..], [gone.clone(), gone]);
}

#[test]
fn a_silent_grid_does_not_make_the_others_pile_up() {
    let (a, b) = (Stream::new("lab/a", "1k"), Stream::new("lab/b", "1k"));
    let waiting = |derivation: &Derivation| format!("{:?}", derivation.aligner).matches("Run(").count();
    let mut derivation = difference(Matching::Nearest);
    let mut config = derivation.config().clone();
    config.align.waiting = 5_000;
    derivation = Derivation::new(config).unwrap();
    let mut outcomes = Vec::new();
    let mut index = 0;
    let mut blocks = |derivation: &mut Derivation, count| {
        for _ in 0..count {
            derivation.handle(1, Input::Block(&b.block(index, &[1.0; 100]))).unwrap();
            index += 100;
        }
        index
    };
    blocks(&mut derivation, 1_000);
    assert_eq!(waiting(&derivation), 50, "as many as may wait");
    // A grid that is idle asks for nothing before its horizon.
    tell(&mut derivation, &mut outcomes, 0, (&a, 0, Some(b.time_of(100_000 - 1_000))));
    assert_eq!(waiting(&derivation), 11);
    // For one that is absent two seconds are kept, and the blocks at both ends.
    derivation.handle(0, Input::Ended).unwrap();
    let next = blocks(&mut derivation, 1_000);
    assert_eq!(waiting(&derivation), 22);
    feed(&mut derivation, &mut outcomes, 0, &a.block(next - 100, &[1.0; 100]));
    assert_eq!(only_outcomes(&outcomes), vec![SampleOutcome::Value(0.0); 100]);
}

#[test]
fn inputs_that_cannot_be_are_refused_with_what_there_is() {
    let a = Stream::new("lab/a", "1k");
    let input = DerivedInput { variable: "a".into(), stream: "lab/a".parse().unwrap(), channel: "y".into() };
    let config = DerivationConfig::new("lab/d".parse().unwrap(), "a", vec![input.clone()]);
    let mut derivation = Derivation::new(config.clone()).unwrap();
    let error = derivation.handle(0, Input::Block(&a.block(0, &[1.0]))).unwrap_err();
    assert_eq!(error.to_string(), "stream `lab/a` has no channel `y`; it has x");
    let itself = DerivationConfig { name: input.stream, ..config.clone() };
    assert!(matches!(Derivation::new(itself), Err(DeriveError::Itself(_))));
    let integer = DerivationConfig { dtype: Dtype::I32, ..config };
    assert_eq!(Derivation::new(integer).unwrap_err(), DeriveError::Dtype(Dtype::I32));
}

#[test]
fn another_rate_after_a_restart_is_refused_and_what_is_known_stays() {
    let a = Stream::new("lab/a", "1k");
    let mut derivation = derivation("a", &[("a", "lab/a")], Matching::Nearest);
    let mut outcomes = Vec::new();
    feed(&mut derivation, &mut outcomes, 0, &a.block(0, &[1.0]));
    let mut faster = Stream::new("lab/a", "2k");
    faster.epoch.start_ns = 2;
    assert!(derivation.handle(0, Input::Block(&faster.block(0, &[1.0]))).is_err());
    feed(&mut derivation, &mut outcomes, 0, &a.block(1, &[5.0]));
    assert_eq!(only_outcomes(&outcomes), [SampleOutcome::Value(1.0), SampleOutcome::Value(5.0)]);
}

#[test]
fn the_output_says_where_it_comes_from() {
    let a = Stream::new("lab/a", "360");
    let mut derivation = derivation("a ^ 2", &[("a", "lab/a")], Matching::Nearest);
    assert_eq!(derivation.schema(), None);
    derivation.handle(0, Input::Block(&a.block(0, &[3.0]))).unwrap();
    let schema = derivation.schema().unwrap();
    assert_eq!(schema.rate, "360".parse().unwrap());
    assert_eq!(schema.labels["expression"], "a ^ 2");
    assert_eq!(schema.labels["input.a"], "lab/a:x");
}
