//! Changes of a running graph: what they leave alone, and that a refused one changes nothing.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use ledger::Stage;
use sample::SampleBuffer;
use units::{Random, RangeSet, WallTime};

use super::*;
use crate::plan::Kind;

/// Nodes of the branches that no change mentions.
const UNTOUCHED: &str = r#"[
    {"name": "keep/slow", "kind": "thin", "input": "lab/a", "every": 7},
    {"name": "keep/power", "kind": "derive", "expression": "u * i", "unit": "W", "inputs": {"u": "lab/a:x", "i": "lab/b:x"}},
    {"name": "keep/power/slow", "kind": "reduce", "input": "keep/power", "every": "10ms", "statistics": ["mean", "q50"]},
    {"name": "keep/quiet", "kind": "filter", "input": "lab/a", "response": {"lowpass": 50}},
    {"name": "keep/out", "kind": "publish", "input": "keep/quiet", "every": 5, "priority": 3}
]"#;

/// What a node published: the time of each run, and its samples, or the length and stage of a hole.
#[derive(Clone, PartialEq, Debug)]
enum Published {
    Samples(WallTime, Vec<u8>),
    Hole(WallTime, u64, Option<Stage>),
}

/// A bus that records what is published, and returns it as blocks.
#[derive(Default)]
struct Recorder {
    log: BTreeMap<StreamName, Vec<Published>>,
    /// Number of streams that were opened under a name.
    opened: BTreeMap<StreamName, u64>,
    ended: BTreeMap<StreamName, Rc<Cell<u64>>>,
    blocks: VecDeque<Block>,
}

struct Recorded {
    name: Arc<StreamName>,
    schema: Arc<Schema>,
    epoch: Epoch,
    next_index: u64,
    ended: Rc<Cell<u64>>,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.ended.set(self.ended.get() + 1);
    }
}

impl Publishing for Recorder {
    type Stream = Recorded;

    fn open(&mut self, node: &Node, schema: &Schema) -> Result<Recorded, String> {
        let opened = self.opened.entry(node.name.clone()).or_default();
        *opened += 1;
        let ended = self.ended.entry(node.name.clone()).or_default().clone();
        let (name, schema) = (Arc::new(node.name.clone()), Arc::new(schema.clone()));
        let epoch = Epoch { start_ns: *opened, incarnation: *opened };
        Ok(Recorded { name, schema, epoch, next_index: 0, ended })
    }

    fn put(&mut self, stream: &mut Recorded, output: Output) -> Result<(), String> {
        let (samples, published) = match output {
            Output::Hole { t0, samples, inherited, .. } => {
                (samples, Published::Hole(t0, samples, inherited.stage))
            }
            Output::Samples { t0, samples, data, .. } => {
                let published = Published::Samples(t0, data.as_bytes().to_vec());
                self.blocks.push_back(Block {
                    stream: Arc::clone(&stream.name),
                    schema: Arc::clone(&stream.schema),
                    epoch: stream.epoch,
                    first_index: stream.next_index,
                    t0,
                    samples,
                    data,
                    missing: RangeSet::new(),
                });
                (samples, published)
            }
        };
        stream.next_index += samples;
        self.log.entry((*stream.name).clone()).or_default().push(published);
        Ok(())
    }
}

/// A graph with two running streams, `lab/a` in V and `lab/b` in A, at 1 kHz.
struct Laboratory {
    graph: Graph<Recorder>,
    next: [u64; 2],
}

fn lab(input: usize) -> (Arc<StreamName>, Arc<Schema>) {
    let (name, unit) = [("lab/a", "V"), ("lab/b", "A")][input];
    let channels = vec![sample::Channel::new("x", unit)];
    let schema = Schema::new(sample::Dtype::F8, "1000".parse().unwrap(), channels).unwrap();
    (Arc::new(name.parse().unwrap()), Arc::new(schema))
}

impl Laboratory {
    fn new() -> Self {
        let mut graph = Graph::new(Recorder::default(), Vec::new());
        graph.begin(nodes(UNTOUCHED), 1).unwrap();
        Self { graph, next: [0; 2] }
    }

    /// Passes on samples of both streams, some of which are lost, and what the nodes publish of them.
    fn run(&mut self, random: &mut Random) {
        for input in 0..2 {
            let (stream, schema) = lab(input);
            let epoch = Epoch { start_ns: 1, incarnation: 1 };
            let first_index = self.next[input];
            let samples = 1 + random.below(30);
            self.next[input] += samples;
            if random.chance(0.1) {
                let (positions, stage) = (first_index..first_index + samples, Some(Stage::Injected));
                self.graph.hole(&stream, &Hole { epoch, positions, stage });
                continue;
            }
            let values: Vec<u8> =
                (0..samples).flat_map(|_| (random.below(1 << 20) as f64).to_le_bytes()).collect();
            self.graph.block(
                &Block {
                    t0: schema.rate.time_of(first_index, 0, WallTime::from_nanos(1_000_000_000)),
                    data: SampleBuffer::from_bytes(&values),
                    missing: RangeSet::new(),
                    stream,
                    schema,
                    epoch,
                    first_index,
                    samples,
                },
                Instant::ORIGIN,
            );
            while let Some(block) = self.graph.publishing.blocks.pop_front() {
                self.graph.block(&block, Instant::ORIGIN);
            }
        }
    }

    fn change(&mut self, change: &Change, of: Option<u64>) -> Result<Applied, GraphError> {
        let known = |name: &StreamName| (0..2).map(lab).find(|it| *it.0 == *name).map(|it| it.1);
        self.graph.apply(change, of, &known)
    }

    /// Everything that a refused change must leave as it is.
    fn picture(&self) -> (u64, usize, Vec<NodeStatus>, BTreeMap<StreamName, u64>) {
        let ended = &self.graph.publishing.ended;
        let ended = ended.iter().map(|(name, ended)| (name.clone(), ended.get())).collect();
        (self.graph.revision(), self.graph.undo(), self.graph.status(), ended)
    }
}

fn nodes(json: &str) -> Vec<Node> {
    serde_json::from_str(json).unwrap()
}

fn node(json: &str) -> Node {
    serde_json::from_str(json).unwrap()
}

/// Returns some more nodes, each of streams that are there or of those before it.
fn more(random: &mut Random) -> Vec<Node> {
    let mut made: Vec<Node> = Vec::new();
    for number in 0..random.below(8) {
        let mut inputs = vec!["lab/a", "lab/b", "keep/slow", "keep/power", "keep/quiet", "lab/later"];
        inputs.extend(made.iter().map(|node| node.name.as_str()));
        let input = inputs[random.below(inputs.len() as u64) as usize];
        let (name, every) = (format!("edit/{number}"), 2 + random.below(40));
        let settings = match random.below(7) {
            0 => format!(r#""kind": "thin", "input": "{input}", "every": {every}"#),
            1 => {
                format!(
                    r#""kind": "reduce", "input": "{input}", "every": {every}, "statistics": ["rms", "n"]"#
                )
            }
            2 => format!(r#""kind": "publish", "input": "{input}", "priority": {every}"#),
            3 => format!(r#""kind": "publish", "input": "{input}", "every": {every}"#),
            4 => r#""kind": "derive", "expression": "a / b", "inputs": {"a": "lab/a:x", "b": "lab/b:x"}"#
                .to_owned(),
            5 => format!(
                r#""kind": "calibrate", "input": "lab/a", "channels": {{"x": {{"scale": {every}, "unit": "mV"}}}}"#
            ),
            _ => format!(
                r#""kind": "operator", "inputs": ["{input}"], "python": "ops.py:rms", "every": {every}"#
            ),
        };
        made.push(node(&format!(r#"{{"name": "{name}", {settings}}}"#)));
    }
    made
}

/// Adds one thing to a graph that it must be refused for.
fn spoilt(mut nodes: Vec<Node>, random: &mut Random) -> (Vec<Node>, &'static str) {
    let (wrong, why) = match random.below(12) {
        0 => (r#"{"name": "keep/slow", "kind": "thin", "input": "lab/b", "every": 3}"#, "already computed"),
        1 => (r#"{"name": "bad/a", "kind": "publish", "input": "bad/a"}"#, "is computed from itself"),
        2 => (
            r#"{"name": "lab/a", "kind": "thin", "input": "keep/power/slow", "every": 3}"#,
            "is computed from itself",
        ),
        3 => (
            r#"{"name": "bad/a", "kind": "thin", "input": "lab/a", "every": "1500us"}"#,
            "no whole number of samples|not a whole number of samples",
        ),
        4 => (
            r#"{"name": "bad/a", "kind": "derive", "expression": "a + b", "inputs": {"a": "lab/a:x", "b": "lab/b:x"}}"#,
            "combines units that do not fit",
        ),
        5 => {
            (r#"{"name": "bad/a", "kind": "select", "input": "lab/a", "channels": ["y"]}"#, "no channel `y`")
        }
        6 => (
            r#"{"name": "bad/a", "kind": "filter", "input": "lab/a", "response": {"lowpass": 500}}"#,
            "below half the rate",
        ),
        7 => (
            r#"{"name": "bad/a", "kind": "alarm", "input": "lab/a:x", "low_alarm": 2, "high_alarm": 1}"#,
            "is not below",
        ),
        8 => (
            r#"{"name": "bad/a", "kind": "operator", "inputs": ["lab/a", "lab/a"], "python": "ops.py:rms"}"#,
            "is given twice",
        ),
        9 => (
            r#"{"name": "bad/a", "kind": "operator", "inputs": ["bad/b"], "python": "ops.py:rms"}"#,
            "is computed from itself",
        ),
        10 => (
            r#"{"name": "bad/a", "kind": "publish", "input": "lab/a", "every": 1}"#,
            "a window has at least 2 samples|2 samples",
        ),
        _ => {
            let kind = node(r#"{"name": "bad/a", "kind": "publish", "input": "lab/a"}"#).kind;
            let many = (0..1_000).map(|number| {
                let (name, kind) = (format!("bad/{number}").parse().unwrap(), kind.clone());
                Node { name, kind }
            });
            nodes.extend(many);
            return (nodes, "at most 256 nodes");
        }
    };
    if wrong.contains("bad/b") {
        nodes.push(node(r#"{"name": "bad/b", "kind": "publish", "input": "bad/a"}"#));
    }
    nodes.insert(random.below(nodes.len() as u64 + 1) as usize, node(wrong));
    (nodes, why)
}

#[test]
fn a_thousand_changes_and_a_thousand_refusals_leave_other_branches_as_if_there_were_none() {
    let seed = 0x6e6f_6465;
    let (mut random, mut inputs, mut same_inputs) =
        (Random::new(seed), Random::new(seed + 1), Random::new(seed + 1));
    let (mut edited, mut undisturbed) = (Laboratory::new(), Laboratory::new());
    let (mut valid, mut refused, mut undone) = (0, 0, 0);
    while valid < 1_000 || refused < 1_000 {
        edited.run(&mut inputs);
        undisturbed.run(&mut same_inputs);
        let mut graph = nodes(UNTOUCHED);
        graph.extend(more(&mut random));
        for place in (1..graph.len()).rev() {
            graph.swap(place, random.below(place as u64 + 1) as usize);
        }
        if random.chance(0.5) && valid < 1_000 {
            let before = edited.graph.nodes();
            let applied = edited.change(&Change::Replace(graph.clone()), None).unwrap();
            let kept: Vec<_> = applied.difference.kept.iter().map(StreamName::as_str).collect();
            for node in nodes(UNTOUCHED) {
                assert!(kept.contains(&node.name.as_str()), "seed {seed:#x}, change {valid}: {kept:?}");
            }
            valid += 1;
            if !applied.difference.is_empty() && random.chance(0.2) {
                edited.change(&Change::Undo, Some(applied.revision)).unwrap();
                assert_eq!(edited.graph.nodes().len(), before.len());
                undone += 1;
            }
        } else if refused < 1_000 {
            let before = edited.picture();
            let (error, why) = if random.chance(0.1) {
                let of = edited.graph.revision() + 1 + random.below(9);
                (edited.change(&Change::Replace(graph), Some(of)).unwrap_err(), "the graph is at revision")
            } else {
                let (graph, why) = spoilt(graph, &mut random);
                (edited.change(&Change::Replace(graph), None).unwrap_err(), why)
            };
            let told = error.to_string();
            assert!(why.split('|').any(|why| told.contains(why)), "seed {seed:#x}: {told}, not {why}");
            assert_eq!(edited.picture(), before, "seed {seed:#x}, refusal {refused}");
            refused += 1;
        }
    }
    assert!(undone > 50, "{undone}");
    let (log, same) = (&edited.graph.publishing.log, &undisturbed.graph.publishing.log);
    for node in nodes(UNTOUCHED) {
        let name = &node.name;
        assert!(log[name].len() > 100 && log[name] == same[name], "seed {seed:#x}: `{name}` differs");
        assert_eq!((edited.graph.publishing.opened[name], edited.graph.publishing.ended[name].get()), (1, 0));
    }
    let edits = log.keys().filter(|name| name.as_str().starts_with("edit/")).count();
    assert!(edits >= 5, "the changed nodes run, too");
    let of = |laboratory: &Laboratory| {
        let status = laboratory.graph.status().into_iter();
        let status = status.filter(|it| it.node.name.as_str().starts_with("keep/"));
        let by_name: BTreeMap<_, _> = status.map(|it| (it.node.name.clone(), it)).collect();
        by_name
    };
    assert_eq!(of(&edited), of(&undisturbed), "the accounts are those of an untouched graph");
}

#[test]
fn a_published_stream_is_its_input_under_another_name_with_holes_and_their_stage() {
    let mut laboratory = Laboratory::new();
    let publish =
        |every: &str| node(&format!(r#"{{"name": "out/a", "kind": "publish", "input": "lab/a"{every}}}"#));
    laboratory.change(&Change::Replace(vec![publish("")]), None).unwrap();
    let mut random = Random::new(5);
    (0..50).for_each(|_| laboratory.run(&mut random));
    let log = &laboratory.graph.publishing.log[&"out/a".parse().unwrap()];
    let samples = |published: &Published| match published {
        Published::Samples(_, bytes) => bytes.len() as u64 / 8,
        Published::Hole(_, samples, _) => *samples,
    };
    let holes: Vec<_> = log.iter().filter(|it| matches!(it, Published::Hole(..))).collect();
    let is_injected = |hole: &&&Published| matches!(hole, Published::Hole(_, _, Some(Stage::Injected)));
    assert!(!holes.is_empty() && holes.iter().filter(is_injected).count() == holes.len(), "{holes:?}");
    let status = &laboratory.graph.status()[0];
    assert_eq!(log.iter().map(samples).sum::<u64>(), status.offered_samples);
    let lost: u64 = holes.into_iter().map(samples).sum();
    assert_eq!(lost, status.source_samples);
    laboratory.change(&Change::Replace(vec![publish(r#", "every": 10"#)]), None).unwrap();
    laboratory.run(&mut random);
    laboratory.run(&mut random);
    assert!(matches!(laboratory.graph.nodes()[0].kind, Kind::Publish { every: Some(_), .. }));
    assert_eq!(laboratory.graph.publishing.opened[&"out/a".parse().unwrap()], 2);
}
