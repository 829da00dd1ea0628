//! All nodes of a plan checked together, before anything that runs is touched.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use sample::{Block, SampleBuffer, Schema, StreamName};
use serde::Serialize;
use units::{Epoch, RangeSet, WallTime};

use super::circle::{Edges, in_order};
use super::node::Kind;
use super::units::has_unit;
use super::{ChannelName, Node};
use crate::{Expression, Input};

/// The most nodes of a plan.
pub const MAX_NODES: usize = 256;
/// The most operators in Python of a plan: each is a process.
pub const MAX_PYTHON_NODES: usize = 32;
/// Maximum number of values that the nodes of a plan read in a second.
pub const MAX_VALUES_PER_SECOND: f64 = 1e8;

/// Nodes that fit together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Plan {
    nodes: Vec<Node>,
    planned: Vec<Planned>,
}

/// A node of a plan, as far as its inputs are known.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// Its name.
    pub name: StreamName,
    /// Schema of its stream, if those of its inputs are known.
    pub schema: Option<Arc<Schema>>,
    /// Values that it reads in a second, if known.
    pub values_per_s: Option<f64>,
}

/// What is known beside the nodes.
pub struct Surroundings<'a> {
    /// Returns the schema of a stream of the bus.
    pub schema: &'a dyn Fn(&StreamName) -> Option<Arc<Schema>>,
    /// Other streams that are computed on the same server, and from what.
    pub computed: Edges<'a>,
}

/// Reason why nodes are no plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Problem {
    /// The node; none if the plan as a whole is the reason.
    pub node: Option<StreamName>,
    /// What is wrong, and what helps.
    pub error: String,
}

impl Plan {
    /// Checks nodes; their order does not matter.
    ///
    /// A stream that is not known yet is no problem: its node begins when the stream does, and its settings are checked
    /// again by then.
    ///
    /// # Errors
    /// Every problem that was found, in the order of the nodes.
    pub fn check(nodes: Vec<Node>, surroundings: &Surroundings<'_>) -> Result<Self, Vec<Problem>> {
        if nodes.len() > MAX_NODES {
            let error = format!(
                "a graph has at most {MAX_NODES} nodes, not {}; start another monitor server",
                nodes.len()
            );
            return Err(vec![Problem { node: None, error }]);
        }
        let processes = nodes.iter().filter(|node| node.python().is_some()).count();
        if processes > MAX_PYTHON_NODES {
            let error = format!(
                "a graph has at most {MAX_PYTHON_NODES} operators in Python, not {processes}; let one do the work of several"
            );
            return Err(vec![Problem { node: None, error }]);
        }
        let mut problems = twice(&nodes, &surroundings.computed);
        let mut edges = surroundings.computed.clone();
        for node in nodes.iter().filter(|node| !surroundings.computed.contains_key(node.name.as_str())) {
            let inputs = node.inputs().into_iter().map(StreamName::as_str).collect();
            // Of two nodes of one name, the first is checked.
            edges.entry(node.name.as_str()).or_insert(inputs);
        }
        let order = without_circles(edges, &nodes, &mut problems);
        let by_name: BTreeMap<&str, &Node> =
            nodes.iter().rev().map(|node| (node.name.as_str(), node)).collect();
        let mut planned: BTreeMap<&str, Planned> = BTreeMap::new();
        for node in order.iter().filter_map(|name| by_name.get(name)) {
            let schema = |stream: &StreamName| match planned.get(stream.as_str()) {
                Some(planned) => planned.schema.clone(),
                None => (surroundings.schema)(stream),
            };
            match plan(node, &schema) {
                Ok(it) => drop(planned.insert(node.name.as_str(), it)),
                Err(error) => problems.push(Problem { node: Some(node.name.clone()), error }),
            }
        }
        let planned: Vec<_> = nodes.iter().filter_map(|node| planned.remove(node.name.as_str())).collect();
        problems.extend(too_much(&planned));
        let place =
            |problem: &Problem| nodes.iter().position(|node| Some(&node.name) == problem.node.as_ref());
        // Those of the graph as a whole come last.
        problems.sort_by_key(|problem| place(problem).unwrap_or(nodes.len()));
        if problems.is_empty() { Ok(Self { nodes, planned }) } else { Err(problems) }
    }

    /// Returns the nodes, in the order in which they were written.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns what is known of each node, in the same order.
    #[must_use]
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// Returns the values that all nodes read in a second, as far as that is known.
    #[must_use]
    pub fn values_per_s(&self) -> f64 {
        self.planned.iter().filter_map(|node| node.values_per_s).fold(0.0, |sum, values| sum + values)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node `{node}`: {}", self.error),
            None => f.write_str(&self.error),
        }
    }
}

/// Returns a problem for each name that is taken.
fn twice(nodes: &[Node], computed: &Edges<'_>) -> Vec<Problem> {
    let mut seen: Vec<&str> = computed.keys().copied().collect();
    let mut problems = Vec::new();
    for node in nodes {
        if seen.contains(&node.name.as_str()) {
            let error = "this name is already computed on this server; remove that node first, or choose another name";
            problems.push(Problem { node: Some(node.name.clone()), error: error.to_owned() });
        }
        seen.push(node.name.as_str());
    }
    problems
}

/// Takes a node of each circle out, with a problem, until none is left; returns the rest in the order of computation.
fn without_circles<'a>(mut edges: Edges<'a>, nodes: &[Node], problems: &mut Vec<Problem>) -> Vec<&'a str> {
    loop {
        let circle = match in_order(&edges) {
            Ok(order) => return order,
            Err(circle) => circle,
        };
        let node =
            nodes.iter().map(|node| &node.name).find(|name| circle.0.iter().any(|it| it == name.as_str()));
        let taken = node.map_or(&*circle.0[0], StreamName::as_str);
        edges.retain(|stream, _| *stream != taken);
        problems.push(Problem { node: node.cloned(), error: circle.to_string() });
    }
}

/// Checks one node against the schemas of its inputs.
fn plan(node: &Node, schema: &dyn Fn(&StreamName) -> Option<Arc<Schema>>) -> Result<Planned, String> {
    let words = |error: &dyn core::error::Error| {
        let causes = core::iter::successors(Some(error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    };
    let operands: Vec<_> = node.operands().map_err(|error| words(&error))?;
    let schemas: Vec<_> = operands.iter().map(schema).collect();
    let first = schemas.first().and_then(Option::as_deref);
    let operator = node.operator(first).map_err(|error| words(&error))?;
    let mut planned = Planned { name: node.name.clone(), schema: None, values_per_s: None };
    let Some(schemas) = schemas.into_iter().collect::<Option<Vec<_>>>() else { return Ok(planned) };
    // The rate of the first input is known: so is the operator.
    let Some(mut operator) = operator else { return Ok(planned) };
    for (input, (stream, schema)) in operands.iter().zip(&schemas).enumerate() {
        operator.handle(input, Input::Block(&sample_of(stream, schema))).map_err(|error| words(&error))?;
    }
    check_units(node, &operands, &schemas)?;
    planned.schema = operator.schema();
    if let Some(schema) = &planned.schema {
        schema.check().map_err(|error| words(&error))?;
    }
    let values = |schema: &Arc<Schema>| schema.rate.as_hz() * f64::from(schema.elements_per_sample());
    planned.values_per_s = Some(schemas.iter().map(values).sum::<f64>() * operator.passes());
    Ok(planned)
}

/// Returns one sample of zeros, from which an operator learns the schema.
fn sample_of(stream: &StreamName, schema: &Arc<Schema>) -> Block {
    Block {
        stream: Arc::new(stream.clone()),
        schema: Arc::clone(schema),
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        first_index: 0,
        t0: WallTime::from_nanos(0),
        samples: 1,
        data: SampleBuffer::zeroed(schema.sample_bytes()),
        missing: RangeSet::default(),
    }
}

/// Refuses an expression over different units of which no unit can result; one that is stated is believed.
fn check_units(node: &Node, operands: &[StreamName], schemas: &[Arc<Schema>]) -> Result<(), String> {
    let Kind::Derive { expression, inputs, unit, .. } = &node.kind else { return Ok(()) };
    let unit_of = |from: &ChannelName| -> &str {
        let schema = operands.iter().position(|stream| *stream == from.stream).map(|place| &schemas[place]);
        let channels = schema.map(|schema| &schema.channels[..]).unwrap_or_default();
        channels.iter().find(|channel| channel.name == from.channel).map_or("", |channel| &channel.unit)
    };
    let units: Vec<&str> = inputs.values().map(unit_of).collect();
    let first = units.iter().find(|unit| !unit.is_empty());
    let is_mixed = first.is_some_and(|first| units.iter().any(|unit| !unit.is_empty() && unit != first));
    let variables: Vec<&str> = inputs.keys().map(String::as_str).collect();
    let parsed = Expression::parse(expression, &variables).map_err(|error| error.to_string())?;
    if !unit.is_empty() || !is_mixed || has_unit(&parsed, &units) {
        return Ok(());
    }
    let each = variables.iter().zip(&units).map(|(variable, unit)| format!("{variable} is in {unit}"));
    Err(format!(
        "`{expression}` combines units that do not fit: {}; convert one, or state the unit of the result: unit = \"…\"",
        each.collect::<Vec<_>>().join(", ")
    ))
}

fn too_much(planned: &[Planned]) -> Option<Problem> {
    let total: f64 = planned.iter().filter_map(|node| node.values_per_s).sum();
    let costs = |node: &&Planned| node.values_per_s.unwrap_or(0.0);
    let most = planned.iter().max_by(|a, b| costs(a).total_cmp(&costs(b)))?;
    (total > MAX_VALUES_PER_SECOND).then(|| Problem {
        node: None,
        error: format!(
            "the nodes would read {} million values per second, and a graph at most {}; `{}` reads most: thin its input first",
            (total / 1e6).round(),
            MAX_VALUES_PER_SECOND / 1e6,
            most.name
        ),
    })
}

#[cfg(test)]
mod tests;
