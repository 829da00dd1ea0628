//! Channels passed on, with the holes of their stream.

use sample::Dtype;
use units::{Random, RangeSet};

use super::*;
use crate::Hole;

/// Elements of a sample: `a` has one, `b` three, `c` one.
const E: u64 = 5;

fn schema() -> Arc<Schema> {
    let channels = vec![
        Channel::new("a", "V").with_scale(0.5, 1.0),
        Channel::new("b", "A").with_shape([3]),
        Channel::new("c", "K"),
    ];
    Arc::new(Schema::new(Dtype::I16, "1000".parse().unwrap(), channels).unwrap())
}

/// Makes a block in which element `e` of sample `n` is 10 n + e.
fn block(epoch_ns: u64, first_index: u64, samples: u64, missing: RangeSet) -> Block {
    let elements = (first_index * E..(first_index + samples) * E).map(|it| (it / E * 10 + it % E) as i16);
    let bytes: Vec<u8> = elements.flat_map(i16::to_le_bytes).collect();
    let schema = schema();
    let anchor = WallTime::from_nanos(1_000_000_000 + epoch_ns as i64);
    Block {
        stream: Arc::new("lab/x".parse().unwrap()),
        t0: schema.rate.time_of(first_index, 0, anchor),
        schema,
        epoch: Epoch { start_ns: epoch_ns, incarnation: 1 },
        first_index,
        samples,
        data: SampleBuffer::from_bytes(&bytes),
        missing,
    }
}

/// Returns the output sample by sample, `None` in holes, and checks that its runs follow each other.
fn samples(channels: &mut Channels, width: usize) -> Vec<Option<Vec<i16>>> {
    let mut samples = Vec::new();
    while let Some(output) = channels.poll() {
        match output {
            Output::Samples { first_index, samples: count, data, .. } => {
                assert_eq!(first_index, samples.len() as u64);
                let elements: Vec<i16> =
                    data.as_bytes().chunks(2).map(|it| i16::from_le_bytes([it[0], it[1]])).collect();
                assert_eq!(elements.len(), count as usize * width);
                samples.extend(elements.chunks(width).map(|sample| Some(sample.to_vec())));
            }
            Output::Hole { first_index, samples: count, .. } => {
                assert_eq!(first_index, samples.len() as u64);
                samples.extend((0..count).map(|_| None));
            }
        }
    }
    let totals = channels.totals();
    assert_eq!(totals.offered, samples.len() as u64);
    assert_eq!(totals.delivered, samples.iter().flatten().count() as u64);
    assert_eq!(totals.offered, totals.delivered + totals.source);
    samples
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

#[test]
fn selected_channels_are_passed_on_in_their_order_with_every_hole() {
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let (order, elements): (&[&str], &[u64]) =
            [(&["c", "a"][..], &[4, 0][..]), (&["b"], &[1, 2, 3]), (&["a", "b", "c"], &[0, 1, 2, 3, 4])]
                [random.below(3) as usize];
        let mut channels = Channels::select(names(order));
        let mut expected = Vec::new();
        let mut index = random.below(5);
        let start = index;
        for number in 0..20 {
            if number > 0 && random.chance(0.3) {
                index += random.below(4);
            }
            let count = 1 + random.below(6);
            let mut missing = RangeSet::new();
            while random.chance(0.3) {
                let from = random.below(count * E);
                missing.insert(from..(from + 1 + random.below(8)).min(count * E));
            }
            expected.resize((index - start) as usize, None);
            for sample in 0..count {
                let is_whole = elements.iter().all(|element| !missing.contains(sample * E + element));
                let values = elements.iter().map(|element| ((index + sample) * 10 + element) as i16);
                expected.push(is_whole.then(|| values.collect::<Vec<_>>()));
            }
            let block = block(1, index, count, missing);
            channels.handle(0, Input::Block(&block)).unwrap();
            // A block that comes twice counts once.
            if random.chance(0.1) {
                channels.handle(0, Input::Block(&block)).unwrap();
            }
            index += count;
        }
        assert_eq!(samples(&mut channels, elements.len()), expected, "seed {seed}");
    }
}

#[test]
fn a_calibration_changes_the_description_alone() {
    let volts = Calibration { scale: -2.0, offset: 3.0, unit: "mV".to_owned() };
    let mut channels = Channels::calibrate([("a".to_owned(), volts)].into());
    let from = block(1, 0, 4, RangeSet::new());
    channels.handle(0, Input::Block(&from)).unwrap();
    let schema = channels.schema().unwrap();
    let Some(Output::Samples { data, .. }) = channels.poll() else { panic!("one run") };
    assert_eq!(data.as_bytes(), from.data.as_bytes());
    let to = Block { schema, data, ..from.clone() };
    for sample in 0..4 {
        assert_eq!(to.value(sample, 0, 0), from.value(sample, 0, 0) * -2.0 + 3.0);
        assert_eq!(to.value(sample, 4, 2), from.value(sample, 4, 2));
    }
    assert_eq!((&*to.schema.channels[0].unit, &*to.schema.channels[2].unit), ("mV", "K"));
}

#[test]
fn holes_have_the_stage_of_their_input_and_a_restart_is_one_of_the_source() {
    let mut channels = Channels::select(names(&["a"]));
    let epoch = Epoch { start_ns: 1, incarnation: 1 };
    channels.handle(0, Input::Block(&block(1, 0, 2, RangeSet::new()))).unwrap();
    let hole = Hole { epoch, positions: 2 * E..5 * E, stage: Some(Stage::Network) };
    channels.handle(0, Input::Hole(&hole)).unwrap();
    channels.handle(0, Input::Block(&block(1, 5, 1, RangeSet::new()))).unwrap();
    // Ten milliseconds after the epoch before, which had reached sample 6: four samples are missing.
    channels.handle(0, Input::Block(&block(10_000_001, 0, 1, RangeSet::new()))).unwrap();
    // A block of the epoch before changes nothing.
    channels.handle(0, Input::Block(&block(1, 6, 1, RangeSet::new()))).unwrap();
    let holes: Vec<_> = core::iter::from_fn(|| channels.poll())
        .filter_map(|output| match output {
            Output::Hole { samples, inherited, .. } => Some((samples, inherited.stage)),
            Output::Samples { .. } => None,
        })
        .collect();
    assert_eq!(holes, [(3, Some(Stage::Network)), (4, Some(Stage::Source))]);
}

#[test]
fn what_a_stream_does_not_have_cannot_be_passed_on() {
    let mut channels = Channels::select(names(&["a", "d"]));
    let refused = channels.handle(0, Input::Block(&block(1, 0, 1, RangeSet::new()))).unwrap_err();
    assert_eq!(refused.to_string(), "stream `lab/x` has no channel `d`; it has a, b, c");
    assert!(channels.poll().is_none() && channels.schema().is_none());
    let mut other = block(2, 0, 1, RangeSet::new());
    let mut channels = Channels::select(names(&["a"]));
    channels.handle(0, Input::Block(&block(1, 0, 1, RangeSet::new()))).unwrap();
    other.schema = Arc::new(Schema { dtype: Dtype::U16, ..(*other.schema).clone() });
    assert!(channels.handle(0, Input::Block(&other)).unwrap_err().is_restart());
}
