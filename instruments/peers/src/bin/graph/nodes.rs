//! Graphs to measure: their nodes, and the values that these read.

use serde_json::{Value, json};

use crate::{NODES, input};

/// Samples of a window, where a kind has one.
const WINDOW: u64 = 100;
/// Samples of a spectrum's segment.
const SEGMENT: u64 = 500;
/// Ratio of the rates of a resampled stream.
const SLOWER: u64 = 2;

/// Kind of a node, with settings of common use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Select,
    Calibrate,
    Thin,
    Reduce,
    Filter,
    Resample,
    Spectrum,
    Derive,
    Align,
    Publish,
}

/// The nodes of a graph.
pub(crate) struct Nodes(Vec<Kind>);

impl Kind {
    /// All kinds whose outputs come at a steady rate.
    pub(crate) const ALL: &[Self] = &[
        Self::Select,
        Self::Calibrate,
        Self::Thin,
        Self::Reduce,
        Self::Filter,
        Self::Resample,
        Self::Spectrum,
        Self::Derive,
        Self::Align,
        Self::Publish,
    ];

    /// Returns the settings of a node that reads a stream of one channel `x`.
    fn settings(self, input: &str) -> Value {
        let channel = format!("{input}:x");
        match self {
            Self::Select => json!({"kind": "select", "input": input, "channels": ["x"]}),
            Self::Calibrate => {
                json!({"kind": "calibrate", "input": input, "channels": {"x": {"scale": 0.5, "unit": "bar"}}})
            }
            Self::Thin => json!({"kind": "thin", "input": input, "every": WINDOW}),
            Self::Reduce => {
                json!({"kind": "reduce", "input": input, "every": WINDOW, "statistics": ["mean", "rms", "q99"]})
            }
            Self::Filter => json!({"kind": "filter", "input": input, "response": {"lowpass": 500}}),
            Self::Resample => {
                json!({"kind": "resample", "input": input, "rate": crate::RATE_HZ as u64 / SLOWER})
            }
            Self::Spectrum => json!({"kind": "spectrum", "input": input, "size": SEGMENT, "overlap": 0}),
            Self::Derive => json!({"kind": "derive", "expression": "2 * a + 1", "inputs": {"a": channel}}),
            Self::Align => json!({"kind": "align", "inputs": {"a": channel}, "grid": "a"}),
            Self::Publish => json!({"kind": "publish", "input": input}),
        }
    }

    /// Returns the values that a node reads for each sample of its output.
    const fn values_per_sample(self) -> u64 {
        match self {
            Self::Thin | Self::Reduce => WINDOW,
            Self::Spectrum => SEGMENT,
            Self::Resample => SLOWER,
            Self::Select | Self::Calibrate | Self::Filter | Self::Derive | Self::Align | Self::Publish => 1,
        }
    }
}

impl Nodes {
    /// Returns a graph without nodes.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns a graph whose nodes have these kinds in turn.
    pub(crate) fn of(kinds: &[Kind]) -> Self {
        Self((0..NODES).map(|number| kinds[number % kinds.len()]).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the graph as a request has it.
    pub(crate) fn graph(&self) -> Value {
        let node = |(number, kind): (usize, &Kind)| {
            let mut node = kind.settings(&input(number));
            node["name"] = json!(format!("bench/out/{number}"));
            node
        };
        json!({ "node": self.0.iter().enumerate().map(node).collect::<Vec<_>>() })
    }

    /// Returns the values that the nodes have read, by the samples of their outputs in the order of the graph.
    pub(crate) fn values(&self, offered: &[u64]) -> u64 {
        self.0.iter().zip(offered).map(|(kind, samples)| kind.values_per_sample() * samples).sum()
    }
}
