//! Alarms against their definition, and what each setting does.

use sample::{OWN_TIMES, TIMES_LABEL};
use units::{Epoch, Random};

use super::*;
use crate::Hole;
use crate::scene::{Disturbed, Stream, Truth, floats};

/// An event: its time, and its values without the epoch's start.
type Told = (i64, [f64; 7]);

fn config(inputs: &[&str], limits: [Option<f64>; 4], hold: &str) -> AlarmConfig {
    let [low_alarm, low_warning, high_warning, high_alarm] = limits;
    AlarmConfig {
        input: inputs.iter().map(|input| input.parse().unwrap()).collect(),
        low_alarm,
        low_warning,
        high_warning,
        high_alarm,
        hysteresis: 0.0,
        hold: hold.parse().unwrap(),
        silence: None,
    }
}

/// An alarm of `lab/x:x` that warns from 10 and alarms from 20.
fn high(hysteresis: f64, hold: &str) -> Alarm {
    let limits = [None, None, Some(10.0), Some(20.0)];
    Alarm::new(AlarmConfig { hysteresis, ..config(&["lab/x:x"], limits, hold) }).unwrap()
}

fn told(alarm: &mut Alarm) -> Vec<(Told, [f64; 2])> {
    let mut events = Vec::new();
    while let Some(output) = alarm.poll() {
        let Output::Samples { t0, samples, data, .. } = output else { panic!("an alarm has no holes") };
        let row = floats(&data);
        assert_eq!((samples, row.len()), (1, 9), "each event has its own time");
        let epoch = [row[7], row[8]];
        events.push(((t0.as_nanos(), row[..7].try_into().unwrap()), epoch));
    }
    let totals = alarm.totals();
    assert_eq!((totals.offered, totals.source), (totals.delivered, 0));
    events
}

/// Returns channel, state, side, previous, value, index and since of all events.
fn rows(alarm: &mut Alarm) -> Vec<[f64; 7]> {
    told(alarm).into_iter().map(|((_, row), _)| row).collect()
}

/// Returns state and index of all events.
fn states(alarm: &mut Alarm) -> Vec<(u64, u64)> {
    rows(alarm).iter().map(|row| (row[1] as u64, row[5] as u64)).collect()
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.iter().map(|it| it.to_bits()).eq(b.iter().map(|it| it.to_bits()))
}

/// Returns for each value since the last loss whether a limit is reached, by the definition of hysteresis.
fn reached(values: &[f64], level: i8, at: f64, hysteresis: f64) -> Vec<bool> {
    let beyond = |value: f64, at: f64| if level > 0 { value >= at } else { value <= at };
    let back = if level > 0 { at - hysteresis } else { at + hysteresis };
    (0..values.len())
        .map(|place| {
            let touched = (0..=place).rev().find(|it| beyond(values[*it], at));
            touched.is_some_and(|touched| values[touched..=place].iter().all(|value| beyond(*value, back)))
        })
        .collect()
}

/// Returns whether a limit counts as reached at the last of these, and the first sample of the run that decided it.
fn held(reached: &[bool], hold: usize) -> Option<(bool, usize)> {
    (hold.max(1)..=reached.len()).rev().find_map(|end| {
        let run = &reached[end - hold.max(1)..end];
        let first = reached[..end].iter().rposition(|it| *it != run[0]).map_or(0, |before| before + 1);
        run.iter().all(|it| *it == run[0]).then_some((run[0], first))
    })
}

/// Returns the events of one channel by the definition, in the whole past at each sample.
fn expected(channel: usize, truth: &[Truth], config: &AlarmConfig, hold: usize) -> Vec<(u64, Told, Epoch)> {
    let (mut events, mut past, mut level) = (Vec::new(), Vec::new(), None);
    let mut tell =
        |order: u64, truth: &Truth, value: f64, before: Option<i8>, now: Option<i8>, since: u64| {
            let state = |level: Option<i8>| level.map_or(3.0, |level| f64::from(level.abs()));
            let side = f64::from(now.map_or(0, i8::signum));
            let row =
                [channel as f64, state(now), side, state(before), value, truth.index as f64, since as f64];
            events.push((order, (truth.time.as_nanos(), row), truth.epoch));
        };
    for (place, sample) in truth.iter().enumerate() {
        let order = 2 * place as u64;
        let before = place.checked_sub(1).map(|place| &truth[place]);
        if let Some(before) = before.filter(|before| before.epoch != sample.epoch) {
            past.clear();
            if let Some(level) = level.take() {
                let due = before.time.offset(1_000_000);
                let next = Truth { index: before.index + 1, time: due.min(sample.time), ..before.clone() };
                tell(order - 1, &next, f64::NAN, Some(level), None, next.index);
            }
        }
        let value = sample.of(&[0, 3]).map_or(f64::NAN, |values| values[channel]);
        if value.is_nan() {
            past.clear();
            if let Some(level) = level.take() {
                tell(order, sample, value, Some(level), None, sample.index);
            }
            continue;
        }
        past.push(value);
        let limits = config.limits();
        let all: Vec<_> =
            limits.iter().map(|(_, level, at)| reached(&past, *level, *at, config.hysteresis)).collect();
        let now = all.iter().map(|reached| held(reached, hold));
        let worst = limits.iter().zip(now.clone()).filter(|(_, held)| held.is_some_and(|held| held.0));
        let worst = worst.map(|(limit, _)| limit.1).max_by_key(|level| level.abs());
        let worst = worst.or_else(|| now.clone().all(|held| held.is_some()).then_some(0));
        if worst.is_none() || worst == level {
            continue;
        }
        let then = all.iter().map(|reached| held(&reached[..reached.len() - 1], hold).map(|held| held.0));
        let changed = now.zip(then).filter(|(now, then)| now.map(|now| now.0) != *then);
        let since = changed.filter_map(|(now, _)| now).map(|now| now.1).max().unwrap();
        let since = sample.index - (past.len() - 1 - since) as u64;
        tell(order, sample, value, level, worst, since);
        level = worst;
    }
    events
}

fn any_config(random: &mut Random) -> (AlarmConfig, usize) {
    let hold = random.below(5) as usize;
    let all = [-20.0, -10.0, 10.0, 20.0];
    let mut limits = all.map(|at| random.chance(0.7).then_some(at));
    if limits.iter().all(Option::is_none) {
        limits[random.below(4) as usize] = Some(3.0);
    }
    let mut config = config(&["lab/x:a", "lab/x:c"], limits, &hold.to_string());
    config.hysteresis = [0.0, 1.0, 4.5, 9.0][random.below(4) as usize];
    (config, hold)
}

#[test]
fn changes_are_those_of_the_definition_over_holes_nan_and_epochs() {
    let mut events = 0;
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let (config, hold) = any_config(&mut random);
        let mut walk = [0.0; 4];
        let scene = Disturbed::new(&mut random, |random| {
            // Whole numbers, so that limits are met exactly.
            walk = walk.map(|value: f64| (value + random.below(13) as f64 - 6.0).clamp(-25.0, 25.0));
            walk.map(|value| if random.chance(0.03) { f64::NAN } else { value })
        });
        let mut alarm = Alarm::new(config.clone()).unwrap();
        let mut is = Vec::new();
        for block in &scene.blocks {
            alarm.handle(0, Input::Block(block)).unwrap();
            is.extend(told(&mut alarm));
        }
        let mut should: Vec<_> =
            (0..2).flat_map(|channel| expected(channel, &scene.truth, &config, hold)).collect();
        should.sort_by_key(|(order, (_, row), _)| (*order, row[0] as u64));
        assert_eq!(is.len(), should.len(), "seed {seed}");
        for ((is, epoch), (_, should, of)) in is.iter().zip(&should) {
            assert!(is.0 == should.0 && same(&is.1, &should.1), "seed {seed}: {is:?}, not {should:?}");
            let start = [of.start_ns / 1_000_000_000, of.start_ns % 1_000_000_000].map(|it| it as f64);
            assert_eq!(*epoch, start, "seed {seed}");
        }
        events += is.len();
    }
    assert!(events > 4_000, "{events} events in all");
}

#[test]
fn a_limit_is_reached_at_its_value_and_left_beyond_the_hysteresis() {
    let (lab, mut alarm) = (Stream::new("lab/x", "1000"), high(2.0, "1"));
    let values = [9.9, 10.0, 8.0, 7.9, 20.0, 18.0, 17.9, 8.0, 7.0];
    alarm.handle(0, Input::Block(&lab.block(100, &values))).unwrap();
    let rows = rows(&mut alarm);
    let brief: Vec<_> = rows.iter().map(|row| (row[1], row[2], row[3], row[5])).collect();
    assert_eq!(
        brief,
        [
            (0.0, 0.0, 3.0, 100.0),
            (1.0, 1.0, 0.0, 101.0),
            (0.0, 0.0, 1.0, 103.0),
            (2.0, 1.0, 0.0, 104.0),
            (1.0, 1.0, 2.0, 106.0),
            (0.0, 0.0, 1.0, 108.0)
        ]
    );
    assert_eq!((rows[3][4], rows[3][6]), (20.0, 104.0));
}

#[test]
fn a_value_that_changes_between_warning_and_alarm_is_a_warning_however_short_each_lasts() {
    let (lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "3ms"));
    let values: Vec<f64> = (0..20).map(|index| if index % 2 == 0 { 15.0 } else { 25.0 }).collect();
    alarm.handle(0, Input::Block(&lab.block(0, &values))).unwrap();
    let rows = rows(&mut alarm);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0][1], rows[0][5], rows[0][6]),
        (1.0, 2.0, 0.0),
        "reported after the hold, since the start"
    );
}

#[test]
fn a_fast_stream_is_held_for_a_millisecond_at_least() {
    let (lab, mut alarm) = (Stream::new("lab/x", "20000"), high(0.0, "1"));
    let values: Vec<f64> = (0..100).map(|index| if index % 50 < 19 { 12.0 } else { 1.0 }).collect();
    alarm.handle(0, Input::Block(&lab.block(0, &values))).unwrap();
    assert_eq!(states(&mut alarm), [(0, 38)], "the warnings are shorter");
    alarm.handle(0, Input::Block(&lab.block(100, &[12.0; 20]))).unwrap();
    assert_eq!(states(&mut alarm), [(1, 119)]);
}

#[test]
fn what_is_missing_is_unknown_at_once_and_ok_again_only_after_the_hold() {
    let (lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "3"));
    alarm.handle(0, Input::Block(&lab.block(0, &[1.0; 5]))).unwrap();
    let hole = Hole { epoch: lab.epoch, positions: 5..6, stage: None };
    alarm.handle(0, Input::Hole(&hole)).unwrap();
    alarm.handle(0, Input::Block(&lab.block(6, &[1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0]))).unwrap();
    alarm.handle(0, Input::Ended).unwrap();
    assert_eq!(states(&mut alarm), [(0, 2), (3, 5), (0, 11), (3, 12)]);
    alarm.handle(0, Input::Ended).unwrap();
    assert_eq!(states(&mut alarm), [], "once is enough");
}

/// A tally of an input that has sent everything before `before`.
fn silent(lab: &Stream, next_index: u64, before: WallTime) -> Input<'static> {
    Input::Horizon(Horizon { epoch: lab.epoch, next_index, before: Some(before) })
}

#[test]
fn what_was_sent_and_did_not_arrive_is_unknown_before_the_next_sample_comes() {
    let (lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "1"));
    alarm.handle(0, Input::Block(&lab.block(0, &[1.0; 5]))).unwrap();
    let horizon = |next_index| Input::Horizon(Horizon { epoch: lab.epoch, next_index, before: None });
    alarm.handle(0, horizon(5)).unwrap();
    assert_eq!(states(&mut alarm), [(0, 0)], "everything has come");
    alarm.handle(0, horizon(7)).unwrap();
    alarm.handle(0, horizon(9)).unwrap();
    assert_eq!(states(&mut alarm), [(3, 5)]);
}

#[test]
fn silence_is_unknown_from_the_first_sample_that_did_not_come() {
    let lab = Stream::new("lab/x", "1000");
    for (silence, ms) in [(None, 2_000), (Some("50ms"), 50), (Some("7"), 7)] {
        let limits = [Some(0.0), None, None, None];
        let silence = silence.map(|text| text.parse().unwrap());
        let mut alarm = Alarm::new(AlarmConfig { silence, ..config(&["lab/x:x"], limits, "1") }).unwrap();
        alarm.handle(0, silent(&lab, 5, lab.time_of(1_000_000))).unwrap();
        alarm.handle(0, Input::Block(&lab.block(0, &[1.0; 5]))).unwrap();
        alarm.handle(0, silent(&lab, 5, lab.time_of(5 + ms))).unwrap();
        assert_eq!(states(&mut alarm), [(0, 0)]);
        alarm.handle(0, silent(&lab, 5, lab.time_of(5 + ms).offset(1))).unwrap();
        alarm.handle(0, silent(&lab, 5, lab.time_of(5 + 2 * ms))).unwrap();
        let [((time, row), _)] = told(&mut alarm)[..] else { panic!("one event") };
        assert_eq!((time, row[1], row[5]), (lab.time_of(5).as_nanos(), 3.0, 5.0));
        // What comes late continues, and times do not go back.
        alarm.handle(0, Input::Block(&lab.block(5, &[-1.0]))).unwrap();
        let [((time, row), _)] = told(&mut alarm)[..] else { panic!("one event") };
        assert_eq!((time, row[1], row[3]), (lab.time_of(5).as_nanos(), 2.0, 3.0));
    }
}

#[test]
fn a_jump_of_the_samples_times_is_silence_too() {
    let (lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "1"));
    alarm.handle(0, Input::Block(&lab.block(0, &[1.0; 5]))).unwrap();
    let late = Block { t0: lab.time_of(2_006), ..lab.block(5, &[1.0]) };
    alarm.handle(0, Input::Block(&late)).unwrap();
    assert_eq!(states(&mut alarm), [(0, 0), (3, 5), (0, 5)]);
}

#[test]
fn samples_with_times_of_their_own_are_held_by_time_and_may_be_rare() {
    let lab = Stream::new("lab/x", "1");
    let mut schema = (*lab.block(0, &[]).schema).clone();
    schema.labels.insert(TIMES_LABEL.to_owned(), OWN_TIMES.to_owned());
    let schema = Arc::new(schema);
    let mut alarm = high(0.0, "10s");
    for (index, s) in [0, 3, 10, 500, 509, 511].into_iter().enumerate() {
        let value = if s < 500 { 1.0 } else { 12.0 };
        let t0 = WallTime::from_nanos(s * 1_000_000_000);
        let block = Block { schema: schema.clone(), t0, ..lab.block(index as u64, &[value]) };
        alarm.handle(0, Input::Block(&block)).unwrap();
        alarm.handle(0, silent(&lab, index as u64 + 1, t0)).unwrap();
    }
    let events = told(&mut alarm);
    let brief: Vec<_> =
        events.iter().map(|((time, row), _)| (time / 1_000_000_000, row[1], row[6])).collect();
    // The state of before is told again at 500 s, since the one of 509 s is not held yet.
    assert_eq!(brief, [(10, 0.0, 0.0), (500, 0.0, 0.0), (511, 1.0, 3.0)]);
}

#[test]
fn times_of_events_do_not_go_back_with_a_clock_that_is_corrected() {
    let (mut lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "1"));
    alarm.handle(0, Input::Block(&lab.block(0, &[1.0, 11.0, 1.0]))).unwrap();
    let last = lab.time_of(2).as_nanos();
    // Half a second back, within what a stream of events corrects; two seconds begin another epoch of it.
    for (back_ms, expected) in [(500, last), (2_000, last - 2_000_000_000 + 3_000_000)] {
        lab.epoch.start_ns += 1;
        let t0 = WallTime::from_nanos(last).offset(3_000_000 - back_ms * 1_000_000);
        alarm.handle(0, Input::Block(&Block { t0, ..lab.block(0, &[1.0]) })).unwrap();
        let events = told(&mut alarm);
        assert_eq!(events.last().unwrap().0.0, expected, "{back_ms} ms back");
    }
}

#[test]
fn the_stream_of_events_says_how_its_times_are_and_what_the_limits_are() {
    let mut alarm = high(0.5, "100ms");
    assert!(alarm.schema().is_none());
    alarm.handle(0, Input::Block(&Stream::new("lab/x", "1000").block(0, &[1.0]))).unwrap();
    let schema = alarm.schema().unwrap();
    schema.check().unwrap();
    assert!(schema.has_own_times() && schema.dtype == sample::Dtype::F8);
    assert_eq!((&*schema.channels[4].name, &*schema.channels[4].unit), ("value", "V"));
    let labels = ["high_alarm", "high_warning", "hold", "hysteresis", "input.0", "times"];
    assert!(schema.labels.keys().eq(labels), "{:?}", schema.labels);
    let values = ["20", "10", "100ms", "0.5", "lab/x:x", "own"];
    assert!(schema.labels.values().eq(values), "{:?}", schema.labels);
}

#[test]
fn settings_that_do_not_fit_each_other_are_refused() {
    let good = config(&["lab/x:a"], [Some(-2.0), Some(-1.0), Some(1.0), Some(2.0)], "1");
    let refused = |config: AlarmConfig| Alarm::new(config).map(drop).unwrap_err();
    for hysteresis in [0.0, 0.99] {
        Alarm::new(AlarmConfig { hysteresis, ..good.clone() }).unwrap();
    }
    for hysteresis in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let error = refused(AlarmConfig { hysteresis, ..good.clone() });
        assert!(matches!(error, AlarmError::Hysteresis { .. }), "{hysteresis}: {error}");
    }
    let error = refused(AlarmConfig { low_warning: Some(1.0), ..good.clone() });
    assert_eq!(error, AlarmError::Order { below: "low_warning", above: "high_warning" });
    let error = refused(AlarmConfig { high_alarm: Some(f64::INFINITY), ..good.clone() });
    assert_eq!(error, AlarmError::NotFinite { limit: "high_alarm", value: f64::INFINITY });
    assert_eq!(refused(config(&["lab/x:a"], [None; 4], "1")), AlarmError::NoLimit);
    for inputs in [&[][..], &["lab/x:a", "lab/y:a"], &["lab/x:a", "lab/x:a"]] {
        let error = refused(AlarmConfig { input: config(inputs, [None; 4], "1").input, ..good.clone() });
        assert_eq!(error, AlarmError::Inputs);
    }
    for silence in ["0", "0s"] {
        let error = refused(AlarmConfig { silence: Some(silence.parse().unwrap()), ..good.clone() });
        assert_eq!(error, AlarmError::Silence);
    }
}

#[test]
fn channels_that_are_not_there_or_have_many_values_are_refused() {
    let scene = Disturbed::new(&mut Random::new(1), |_| [0.0; 4]);
    let limits = [None, None, None, Some(1.0)];
    for (input, error) in
        [("lab/x:z", "no channel `z`; it has a, b, c"), ("lab/x:b", "has 2 values per sample")]
    {
        let mut alarm = Alarm::new(config(&[input], limits, "1")).unwrap();
        let refused = alarm.handle(0, Input::Block(&scene.blocks[0])).unwrap_err();
        assert!(refused.to_string().contains(error), "{refused}");
        assert!(alarm.poll().is_none());
    }
}

#[test]
fn another_schema_is_refused_as_a_restart_and_the_alarm_goes_on() {
    let (mut lab, mut alarm) = (Stream::new("lab/x", "1000"), high(0.0, "1"));
    alarm.handle(0, Input::Block(&lab.block(0, &[1.0]))).unwrap();
    let mut other = Stream::new("lab/x", "500");
    other.epoch.start_ns += 1;
    assert!(alarm.handle(0, Input::Block(&other.block(0, &[30.0]))).unwrap_err().is_restart());
    lab.epoch.start_ns += 2;
    alarm.handle(0, Input::Block(&lab.block(7, &[30.0]))).unwrap();
    assert_eq!(states(&mut alarm), [(0, 0), (3, 1), (2, 7)]);
}

#[test]
fn a_state_that_lasts_is_told_again_for_readers_that_joined_since() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (lab, mut alarm) = (Stream::new("lab/x", "100"), high(0.0, "1"));
        let value = 5.0 + seed as f64;
        let state = if value >= 20.0 { 2.0 } else { f64::from(u8::from(value >= 10.0)) };
        let mut index = 0;
        while index < 5_000 {
            let samples = 1 + random.below(300);
            alarm.handle(0, Input::Block(&lab.block(index, &vec![value; samples as usize]))).unwrap();
            index += samples;
        }
        let told = told(&mut alarm);
        assert!(told.len() >= 4, "seed {seed}: {told:?}");
        assert_eq!([told[0].0.1[1], told[0].0.1[3]], [state, 3.0], "seed {seed}");
        for pair in told.windows(2) {
            let [((before, earlier), _), ((time, row), _)] = [pair[0], pair[1]];
            // At the end of the first block behind 10 s, with the first sample of the state as told before.
            assert!((10_000_000_000..13_000_000_000).contains(&(time - before)), "seed {seed}");
            assert_eq!((row[1], row[3], row[4], row[6]), (state, state, value, earlier[6]), "seed {seed}");
        }
    }
}
