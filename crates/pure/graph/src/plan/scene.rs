//! Nodes and schemas for the tests of plans.

use std::sync::Arc;

use sample::{Channel, Dtype, Schema, StreamName};

use super::{Every, Kind, Node};

pub(crate) fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

/// Makes a node that thins `input`.
pub(crate) fn thin(output: &str, input: &str, every: &str) -> Node {
    let kind = Kind::Thin { input: name(input), every: every.parse::<Every>().unwrap() };
    Node { name: name(output), kind }
}

/// Makes a node that adds channels of streams: `stream:channel`.
pub(crate) fn derive(output: &str, expression: &str, inputs: &[(&str, &str)], unit: Option<&str>) -> Node {
    let inputs = inputs.iter().map(|(variable, from)| ((*variable).to_owned(), from.parse().unwrap()));
    let kind = Kind::Derive {
        expression: expression.to_owned(),
        inputs: inputs.collect(),
        unit: unit.unwrap_or_default().to_owned(),
        grid: None,
    };
    Node { name: name(output), kind }
}

/// Makes the schema of a stream of `f8` with channels of these names and units.
pub(crate) fn schema(rate: &str, channels: &[(&str, &str)]) -> Arc<Schema> {
    let channels = channels.iter().map(|(name, unit)| Channel::new(*name, *unit)).collect();
    Arc::new(Schema::new(Dtype::F8, rate.parse().unwrap(), channels).unwrap())
}
