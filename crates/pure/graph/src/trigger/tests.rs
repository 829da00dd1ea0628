//! Triggers against their definition, and what each setting does.

use sample::{OWN_TIMES, TIMES_LABEL};
use units::Random;

use super::*;
use crate::Hole;
use crate::scene::{Disturbed, Stream, Truth, floats};

/// Channels that are captured, and their elements.
const CAPTURED: [(&[&str], &[&[usize]]); 3] =
    [(&[], &[&[0]]), (&["c", "b"], &[&[3], &[1, 2]]), (&["b", "a"], &[&[1, 2], &[0]])];

fn config(level: f64, before: &str, after: &str) -> TriggerConfig {
    TriggerConfig {
        input: "lab/x:x".parse().unwrap(),
        channels: Vec::new(),
        level,
        edge: Edge::Rising,
        hysteresis: 0.0,
        before: before.parse().unwrap(),
        after: after.parse().unwrap(),
        holdoff: None,
    }
}

/// Returns time and values of each event, `None` for one in a hole.
fn told(trigger: &mut Trigger) -> Vec<Option<(i64, Vec<f64>)>> {
    let mut events = Vec::new();
    let first = trigger.totals().offered;
    while let Some(output) = trigger.poll() {
        let place = first + events.len() as u64;
        events.push(match output {
            Output::Samples { first_index, t0, samples, data } => {
                assert_eq!((first_index, samples), (place, 1), "each event has its own time");
                Some((t0.as_nanos(), floats(&data)))
            }
            Output::Hole { first_index, samples, inherited, .. } => {
                assert_eq!((first_index, samples, inherited.stream.as_str()), (place, 1, "lab/x"));
                None
            }
        });
    }
    let totals = trigger.totals();
    assert_eq!(totals.offered, first + events.len() as u64);
    assert_eq!(totals.offered, totals.delivered + totals.source);
    events
}

/// Takes blocks one by one.
fn run(trigger: &mut Trigger, blocks: &[Block]) -> Vec<Option<(i64, Vec<f64>)>> {
    let mut events = Vec::new();
    for block in blocks {
        trigger.handle(0, Input::Block(block)).unwrap();
        events.extend(told(trigger));
    }
    events
}

/// Returns the index of each event, `None` for one in a hole.
fn indices(events: &[Option<(i64, Vec<f64>)>], values: usize) -> Vec<Option<u64>> {
    events.iter().map(|event| event.as_ref().map(|(_, row)| row[values + 1] as u64)).collect()
}

/// Returns whether the last value crosses the level, by the definition in the values since the last break.
fn crosses(past: &[f64], config: &TriggerConfig, rising: bool) -> bool {
    let TriggerConfig { level, hysteresis, .. } = config;
    let (value, before) = past.split_last().unwrap();
    let beyond = |value: f64| if rising { value >= *level } else { value <= *level };
    let armed = |value: f64| if rising { value < level - hysteresis } else { value > level + hysteresis };
    // From the last value that reached the level, others came back beyond the hysteresis.
    let start = before.iter().rposition(|value| beyond(*value)).map_or(0, |place| place + 1);
    beyond(*value) && before[start..].iter().any(|value| armed(*value))
}

/// Returns the events by the definition: time and values, `None` in a hole.
fn expected(truth: &[Truth], config: &TriggerConfig, captured: &[&[usize]]) -> Vec<Option<(i64, Vec<f64>)>> {
    let samples =
        |every| if let Every::Samples(samples) = every { samples as usize } else { panic!("a time") };
    let (before, after) = (samples(config.before), samples(config.after));
    let holdoff = config.holdoff.map_or(0, samples).max(before + after);
    // The trigger reads channel `a`; all captured elements must be there.
    let all: Vec<usize> = captured.iter().flat_map(|it| it.iter().copied()).chain([0]).collect();
    let whole: Vec<Option<f64>> =
        truth.iter().map(|sample| Some(*sample.of(&all)?.last().unwrap())).collect();
    let (mut events, mut past, mut newest) = (Vec::new(), Vec::new(), None::<(usize, u64)>);
    let (mut number, mut skipped) = (0.0, 0.0);
    for (place, sample) in truth.iter().enumerate() {
        if place > 0 && truth[place - 1].epoch != sample.epoch {
            past.clear();
            newest = None;
        }
        let Some(value) = whole[place].filter(|value| value.is_finite()) else {
            past.clear();
            continue;
        };
        past.push(value);
        let is = [(true, Edge::Falling), (false, Edge::Rising)];
        let mut is = is.iter().filter(|(_, other)| config.edge != *other).map(|(rising, _)| *rising);
        let Some(rising) = is.find(|rising| crosses(&past, config, *rising)) else { continue };
        if newest.is_some_and(|(_, index)| sample.index - index < holdoff as u64) {
            skipped += 1.0;
            continue;
        }
        newest = Some((place, sample.index));
        let stretch = (place as i64 - before as i64)..(place + after) as i64;
        let rows = stretch.map(|it| {
            let it = usize::try_from(it).ok()?;
            whole.get(it).copied().flatten()?;
            (truth[it].epoch == sample.epoch).then_some(&truth[it])
        });
        let rows: Option<Vec<&Truth>> = rows.collect();
        events.push(rows.map(|rows| {
            let mut row = Vec::new();
            for elements in captured {
                rows.iter().for_each(|sample| row.extend(sample.of(elements).unwrap()));
            }
            let previous = past[past.len() - 2];
            let offset = -(value - config.level) / (value - previous);
            let edge = if rising { 1.0 } else { -1.0 };
            row.extend([number, sample.index as f64, offset + 0.0, value, edge, skipped]);
            row.extend(
                [sample.epoch.start_ns / 1_000_000_000, sample.epoch.start_ns % 1_000_000_000]
                    .map(|it| it as f64),
            );
            (sample.time.offset((offset * 1e6).round() as i64).as_nanos(), row)
        }));
        number += 1.0;
    }
    events
}

#[test]
fn events_and_stretches_are_those_of_the_definition_over_holes_nan_and_epochs() {
    let (mut delivered, mut holes, mut skipped) = (0, 0, 0.0);
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (names, captured) = CAPTURED[random.below(3) as usize];
        let config = TriggerConfig {
            input: "lab/x:a".parse().unwrap(),
            channels: names.iter().map(|name| (*name).to_owned()).collect(),
            edge: [Edge::Rising, Edge::Falling, Edge::Either][random.below(3) as usize],
            hysteresis: random.below(4) as f64,
            before: Every::Samples(random.below(6) as u32),
            after: Every::Samples(1 + random.below(12) as u32),
            holdoff: random.chance(0.5).then(|| Every::Samples(random.below(20) as u32)),
            ..config(2.0, "0", "1")
        };
        let scene = Disturbed::new(&mut random, |random| {
            let mut value = || random.below(13) as f64 - 6.0;
            let values = [value(), value(), value(), value()];
            let broken = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random.below(3) as usize];
            if random.chance(0.03) { [broken, values[1], values[2], values[3]] } else { values }
        });
        let mut trigger = Trigger::new(config.clone()).unwrap();
        let mut is = run(&mut trigger, &scene.blocks);
        trigger.handle(0, Input::Ended).unwrap();
        is.extend(told(&mut trigger));
        let should = expected(&scene.truth, &config, captured);
        assert_eq!(is.len(), should.len(), "seed {seed}");
        for (is, should) in is.iter().zip(&should) {
            let bits = |event: &Option<(i64, Vec<f64>)>| {
                event
                    .as_ref()
                    .map(|(time, row)| (*time, row.iter().map(|it| it.to_bits()).collect::<Vec<_>>()))
            };
            assert!(bits(is) == bits(should), "seed {seed}: {is:?}, not {should:?}");
        }
        delivered += trigger.totals().delivered;
        holes += trigger.totals().source;
        skipped += is.iter().flatten().next_back().map_or(0.0, |(_, row)| row[row.len() - 3]);
    }
    assert!(delivered > 2_000 && holes > 500 && skipped > 1_000.0, "{delivered}, {holes}, {skipped}");
}

#[test]
fn the_time_of_a_crossing_is_between_the_samples() {
    let lab = Stream::new("lab/x", "1000");
    let mut trigger = Trigger::new(config(1.0, "1", "2")).unwrap();
    let events = run(&mut trigger, &[lab.block(10, &[0.0, 0.0, 4.0, 5.0])]);
    let [Some((time, row))] = &events[..] else { panic!("one event") };
    assert_eq!(*time, lab.time_of(11).as_nanos() + 250_000, "a quarter of the way from 0 to 4");
    assert_eq!(row[..], [0.0, 4.0, 5.0, 0.0, 12.0, -0.75, 4.0, 1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn a_crossing_stays_between_its_samples_at_the_ends_of_the_range_of_floats() {
    for (previous, value) in
        [(-f64::MAX, f64::MAX), (-f64::MIN_POSITIVE, 1e300), (-1e300, 0.0), (-5e-324, 5e-324)]
    {
        let lab = Stream::new("lab/x", "1000");
        let mut trigger = Trigger::new(config(0.0, "0", "1")).unwrap();
        let events = run(&mut trigger, &[lab.block(0, &[previous, value])]);
        let [Some((time, row))] = &events[..] else { panic!("one event") };
        assert!(row[3] > -1.0 && row[3] <= 0.0, "{previous}, {value}: {}", row[3]);
        assert!((lab.time_of(0).as_nanos()..=lab.time_of(1).as_nanos()).contains(time));
    }
}

#[test]
fn noise_within_the_hysteresis_triggers_once() {
    let lab = Stream::new("lab/x", "1000");
    let values = [0.0, 10.0, 9.0, 10.0, 8.5, 10.0, 7.9, 10.0];
    for (hysteresis, expected) in [(0.0, &[1, 3, 5, 7][..]), (2.0, &[1, 7])] {
        let mut trigger = Trigger::new(TriggerConfig { hysteresis, ..config(10.0, "0", "1") }).unwrap();
        let events = run(&mut trigger, &[lab.block(0, &values)]);
        let expected: Vec<_> = expected.iter().map(|index| Some(*index)).collect();
        assert_eq!(indices(&events, 1), expected);
    }
}

#[test]
fn crossings_within_the_holdoff_are_counted_and_none_is_told_twice() {
    let lab = Stream::new("lab/x", "1000");
    let values: Vec<f64> = (0..41).map(|index| f64::from(index % 2)).collect();
    for (holdoff, indices, skipped) in [(None, &[1, 11, 21, 31][..], 12.0), (Some("20ms"), &[1, 21], 9.0)] {
        let holdoff = holdoff.map(|text| text.parse().unwrap());
        let mut trigger = Trigger::new(TriggerConfig { holdoff, ..config(1.0, "0", "10ms") }).unwrap();
        let events: Vec<_> = run(&mut trigger, &[lab.block(0, &values)]).into_iter().flatten().collect();
        let told: Vec<u64> = events.iter().map(|(_, row)| row[11] as u64).collect();
        assert_eq!(told, indices);
        assert_eq!(events.last().unwrap().1[15], skipped, "those before it");
    }
}

#[test]
fn events_of_a_fast_stream_are_a_millisecond_apart() {
    let lab = Stream::new("lab/x", "20000");
    let values: Vec<f64> = (0..60).map(|index| f64::from(index % 2)).collect();
    let mut trigger = Trigger::new(config(1.0, "0", "1")).unwrap();
    let events = run(&mut trigger, &[lab.block(0, &values)]);
    assert_eq!(indices(&events, 1), [1, 21, 41].map(Some));
}

#[test]
fn a_hole_in_a_stretch_is_a_hole_of_the_output_with_the_stage_of_it() {
    let lab = Stream::new("lab/x", "1000");
    let mut trigger = Trigger::new(config(1.0, "4", "3")).unwrap();
    let hole = Hole { epoch: lab.epoch, positions: 5..10, stage: Some(Stage::Injected) };
    trigger.handle(0, Input::Block(&lab.block(0, &[0.0, 0.0, 0.0, 0.0, 1.0]))).unwrap();
    trigger.handle(0, Input::Hole(&hole)).unwrap();
    // After the hole: a crossing that lacks what was before, and one that does not.
    let values: Vec<f64> = (10..23).map(|index| f64::from(u8::from(index == 12 || index == 20))).collect();
    trigger.handle(0, Input::Block(&lab.block(10, &values))).unwrap();
    let mut stages = Vec::new();
    while let Some(output) = trigger.poll() {
        stages.push(match output {
            Output::Hole { inherited, .. } => inherited.stage.map(Stage::name),
            Output::Samples { .. } => Some("whole"),
        });
    }
    assert_eq!(stages, [Some("injected"), Some("injected"), Some("whole")]);
}

#[test]
fn a_jump_of_the_samples_times_is_not_within_a_stretch() {
    let lab = Stream::new("lab/x", "1000");
    for (shift_ms, whole) in [(1, true), (3, false), (-3, false)] {
        let mut trigger = Trigger::new(config(1.0, "0", "3")).unwrap();
        let late = lab.block(2, &[1.0, 1.0]);
        let late = Block { t0: late.t0.offset(shift_ms * 1_000_000), ..late };
        let events = run(&mut trigger, &[lab.block(0, &[0.0, 1.0]), late]);
        assert_eq!(events[0].is_some(), whole, "{shift_ms} ms");
    }
}

#[test]
fn what_is_kept_is_bounded_by_the_stretch_and_the_block() {
    let lab = Stream::new("lab/x", "1000");
    let mut trigger = Trigger::new(config(1.0, "50", "30")).unwrap();
    let mut random = Random::new(1);
    for block in 0..1_000 {
        let values: Vec<f64> = (0..10).map(|_| f64::from(u8::from(random.chance(0.02)))).collect();
        trigger.handle(0, Input::Block(&lab.block(block * 10, &values))).unwrap();
        told(&mut trigger);
        let kept = trigger.line.as_ref().unwrap().kept.len();
        assert!(kept <= 50 + 30, "{kept} samples");
    }
    assert!(trigger.totals().delivered > 20);
}

#[test]
fn the_stream_of_events_describes_its_stretches() {
    let scene = Disturbed::new(&mut Random::new(1), |_| [0.0; 4]);
    let input = "lab/x:c".parse().unwrap();
    let channels = vec!["b".to_owned(), "a".to_owned()];
    let mut trigger =
        Trigger::new(TriggerConfig { input, channels, ..config(1.5, "2ms", "2500us") }).unwrap();
    trigger.handle(0, Input::Block(&scene.blocks[0])).unwrap();
    let schema = trigger.schema().unwrap();
    assert!(schema.has_own_times());
    let channels: Vec<_> =
        schema.channels.iter().map(|it| (&*it.name, &*it.unit, &it.shape[..])).take(6).collect();
    assert_eq!(channels[..2], [("b", "A", &[5, 2][..]), ("a", "V", &[5])], "times are rounded up to samples");
    assert_eq!(channels[5], ("trigger.value", "K", &[][..]));
    let labels = [
        ("after", "3"),
        ("before", "2"),
        ("edge", "rising"),
        ("holdoff", "5"),
        ("hysteresis", "0"),
        ("input.0", "lab/x:c"),
        ("level", "1.5"),
        ("stretch_rate", "1000"),
        ("times", "own"),
    ];
    assert!(schema.labels.iter().map(|(key, value)| (&**key, &**value)).eq(labels), "{:?}", schema.labels);
}

#[test]
fn settings_and_streams_that_do_not_fit_are_refused() {
    let refused = |config: TriggerConfig| Trigger::new(config).map(drop).unwrap_err();
    assert_eq!(refused(config(f64::INFINITY, "0", "1")), TriggerError::Level(f64::INFINITY));
    assert_eq!(refused(config(0.0, "0", "0")), TriggerError::After);
    assert_eq!(refused(config(0.0, "0", "0s")), TriggerError::After);
    let negative = TriggerConfig { hysteresis: -1.0, ..config(0.0, "0", "1") };
    assert_eq!(refused(negative), TriggerError::Hysteresis(-1.0));
    // Both sides of the limit, without the rate and with it.
    let most = MAX_STRETCH_BYTES as u32 / 8;
    Trigger::new(config(0.0, "1", &(most - 1).to_string())).unwrap();
    let error = refused(config(0.0, "1", &most.to_string()));
    assert_eq!(error, TriggerError::Stretch { samples: u64::from(most) + 1, bytes: MAX_STRETCH_BYTES + 8 });
    let lab = Stream::new("lab/x", "1000");
    let first = |after: &str| {
        let mut trigger = Trigger::new(config(0.0, "0", after)).unwrap();
        trigger.handle(0, Input::Block(&lab.block(0, &[0.0])))
    };
    first(&format!("{most}ms")).unwrap();
    let error = first(&format!("{}ms", most + 1)).unwrap_err().to_string();
    assert!(error.starts_with("a stretch of 2097153 samples has 16777224 bytes"), "{error}");
    let mut own = lab.block(0, &[0.0]);
    let mut schema = (*own.schema).clone();
    schema.labels.insert(TIMES_LABEL.to_owned(), OWN_TIMES.to_owned());
    own.schema = Arc::new(schema);
    let error = Trigger::new(config(0.0, "0", "1")).unwrap().handle(0, Input::Block(&own)).unwrap_err();
    assert!(matches!(error, InputError::OwnTimes { .. }));
    let scene = Disturbed::new(&mut Random::new(1), |_| [0.0; 4]);
    for (input, channel, error) in [
        ("lab/x:z", "a", "has no channel `z`"),
        ("lab/x:a", "z", "has no channel `z`"),
        ("lab/x:b", "a", "has 2 values per sample"),
    ] {
        let (input, channels) = (input.parse().unwrap(), vec![channel.to_owned()]);
        let mut trigger = Trigger::new(TriggerConfig { input, channels, ..config(0.0, "0", "1") }).unwrap();
        let refused = trigger.handle(0, Input::Block(&scene.blocks[0])).unwrap_err().to_string();
        assert!(refused.contains(error), "{refused}");
    }
}
