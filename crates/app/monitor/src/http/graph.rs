//! Requests about the processing graph: shown, checked, replaced as a whole, changed by one node, taken back.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use graph::plan::{KINDS, KindDescription, Node};
use graph::{Change, GraphError, check_graph};
use sample::StreamName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tallycast::AccountState;
use tokio::sync::oneshot;

use super::body::Body;
use super::query::Query;
use crate::admission::Visitor;
use crate::kept_graph::{self, Changed};
use crate::nodes::NodeStatus;
use crate::operators::OperatorStatus;
use crate::refused::{NodeProblem, Refused};
use crate::requests::{Command, GraphRequest};
use crate::shared::Shared;

type App = State<Arc<Shared>>;

/// Help for settings that are wrong.
const SETTINGS: &str = "docs/guide/graph.md has every kind with its settings";

/// A graph, as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphBody {
    #[serde(default)]
    node: Vec<Value>,
}

/// A stream made by this monitor, with its state.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Made {
    Node(NodeStatus),
    Operator(OperatorStatus),
}

impl Made {
    fn name(&self) -> &str {
        match self {
            Self::Node(status) => status.of.node.name.as_str(),
            Self::Operator(operator) => &operator.name,
        }
    }
}

/// Returns the nodes that the visitor may read, and the revision that a change must name.
pub(super) async fn graph(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Value>, Refused> {
    visitor.may_somewhere(May::Read)?;
    let mut graph = shared.reception.graph();
    // As of now: a change is answered once its graph is kept.
    graph.origin = kept_graph::lock(&shared.origin).clone();
    graph.nodes.retain(|status| visitor.reads(status.of.node.name.as_str()));
    if visitor.may_somewhere(May::Derive).is_err() {
        // Paths of this host are for those who may change the graph.
        (graph.origin.file, graph.origin.kept, graph.origin.problem) = (None, None, None);
    }
    Ok(Json(json!(graph)))
}

/// Returns every kind of nodes with its settings.
pub(super) async fn kinds(
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<&'static [KindDescription]>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(Json(KINDS))
}

/// Replaces all nodes, if the graph is still the one that the change is of.
pub(super) async fn replace(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Changed>, Refused> {
    let of = revision_of(&headers)?;
    let (nodes, of) = with_hidden(&shared, &visitor, nodes_in(&body)?, of);
    change_graph(&shared, &visitor, Change::Replace(nodes), of, false).await.map(Json)
}

/// Says what replacing all nodes would change, and changes nothing.
pub(super) async fn check(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Changed>, Refused> {
    let (nodes, _) = with_hidden(&shared, &visitor, nodes_in(&body)?, None);
    change_graph(&shared, &visitor, Change::Replace(nodes), None, true).await.map(Json)
}

/// Returns to the nodes before the last change.
pub(super) async fn undo(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
) -> Result<Json<Changed>, Refused> {
    let of = revision_of(&headers)?;
    change_graph(&shared, &visitor, Change::Undo, of, false).await.map(Json)
}

pub(super) async fn derived(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<Made>>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(made(&shared, &visitor))
}

/// Adds a node; without a kind, a derivation.
pub(super) async fn derive(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Vec<Made>>, Refused> {
    let mut node: Map<String, Value> = body.json()?;
    node.entry("kind").or_insert_with(|| "derive".into());
    let node = node_in(node.into())?;
    change_graph(&shared, &visitor, Change::Add(node), None, false).await?;
    Ok(made(&shared, &visitor))
}

pub(super) async fn forget(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Json<Vec<Made>>, Refused> {
    let name = query.text("name")?;
    visitor.may(May::Derive, name)?;
    let is_node = shared.reception.graph().nodes.iter().any(|it| it.of.node.name.as_str() == name);
    if let Some(operator) = shared.operators().iter().find(|it| it.name == name && !is_node) {
        let error = format!("`{name}` is made by the operator `{}` of the settings", operator.operator);
        return Err(Refused::bad(error, "remove it from [[monitor.operator]] and restart the monitor"));
    }
    let Ok(name) = name.parse() else { return Err(unknown(name)) };
    change_graph(&shared, &visitor, Change::Remove(name), None, false).await?;
    Ok(made(&shared, &visitor))
}

fn made(shared: &Shared, visitor: &Visitor) -> Json<Vec<Made>> {
    // Operators in Python are listed by their processes.
    let nodes = shared.reception.graph().nodes.into_iter();
    let nodes = nodes.filter(|status| status.of.node.python().is_none()).map(Made::Node);
    let all = nodes.chain(shared.operators().into_iter().map(Made::Operator));
    Json(all.filter(|made| visitor.reads(made.name())).collect())
}

/// Has the intake change the graph, if the visitor may make each change of it.
async fn change_graph(
    shared: &Shared,
    visitor: &Visitor,
    change: Change,
    of: Option<u64>,
    only_check: bool,
) -> Result<Changed, Refused> {
    // The rights come first: what a check says of a stream is for those alone who may read it.
    let running = shared.reception.graph().nodes;
    let is_running = |node: &&Node| running.iter().any(|status| status.of.node == **node);
    let begun: Vec<_> = change.nodes().iter().filter(|node| !is_running(node)).collect();
    all_may(&begun, |node| may_begin(shared, visitor, node).and_then(|()| may_run(shared, node)))?;
    let checked = ask(shared, GraphRequest { change: change.clone(), of, only_check: true }).await?;
    let Changed { applied, .. } = &checked;
    let ended = applied.difference.removed.iter().chain(&applied.difference.changed);
    ended.into_iter().try_for_each(|name| visitor.may(May::Derive, name.as_str()))?;
    all_may(&applied.begun.iter().collect::<Vec<_>>(), |node| may_begin(shared, visitor, node))?;
    if only_check {
        return Ok(as_seen(checked, visitor));
    }
    // The graph may have changed since it was checked for the rights.
    let of = of.or_else(|| applied.revision.checked_sub(u64::from(!applied.difference.is_empty())));
    let changed = ask(shared, GraphRequest { change, of, only_check: false }).await?;
    Ok(as_seen(changed, visitor))
}

/// Leaves out the nodes that continue and that the visitor may not see.
fn as_seen(mut changed: Changed, visitor: &Visitor) -> Changed {
    changed.applied.difference.kept.retain(|name| visitor.reads(name.as_str()));
    changed.applied.streams.retain(|stream| visitor.reads(stream.name.as_str()));
    changed
}

/// Returns the nodes with those that run and that the visitor may not see, and the revision that these are of: what is hidden
/// from a visitor is not removed by it.
fn with_hidden(
    shared: &Shared,
    visitor: &Visitor,
    mut nodes: Vec<Node>,
    of: Option<u64>,
) -> (Vec<Node>, Option<u64>) {
    let running = shared.reception.graph();
    let hidden = running.nodes.into_iter().map(|status| status.of.node);
    let before = nodes.len();
    nodes.extend(hidden.filter(|node| !visitor.reads(node.name.as_str())));
    let has_hidden = nodes.len() > before;
    (nodes, of.or(has_hidden.then_some(running.revision)))
}

/// Returns the refusal of the first node that is refused, with those of all.
fn all_may(nodes: &[&Node], may: impl Fn(&Node) -> Result<(), Refused>) -> Result<(), Refused> {
    let refused = nodes.iter().filter_map(|node| may(node).err().map(|refused| (node, refused)));
    let refused: Vec<_> = refused.collect();
    let problem = |(node, refused): &(&&Node, Refused)| NodeProblem {
        node: Some(node.name.to_string()),
        error: refused.sentence(),
    };
    let problems = refused.iter().map(problem).collect();
    refused.into_iter().next().map_or(Ok(()), |(_, first)| Err(first.with_problems(problems)))
}

/// Returns whether the visitor may have this node computed.
fn may_begin(shared: &Shared, visitor: &Visitor, node: &Node) -> Result<(), Refused> {
    visitor.may(May::Derive, node.name.as_str())?;
    if is_published(shared, &node.name) {
        visitor.may(May::Publish, node.name.as_str())?;
    }
    node.inputs().into_iter().try_for_each(|input| visitor.may(May::Read, input.as_str()))
}

/// Returns whether a request may have this operator in Python run: only functions that the server's owner has laid out.
fn may_run(shared: &Shared, node: &Node) -> Result<(), Refused> {
    let Some(python) = node.python() else { return Ok(()) };
    if !shared.has_programs {
        let error = format!("node `{}`: this server runs no operators that a graph names", node.name);
        let help = "name the folder of their Python files in its settings: monitor.programs";
        return Err(Refused::new(StatusCode::FORBIDDEN, error, help));
    }
    python.check_program().map_err(|error| Refused::because(&error))
}

async fn ask(shared: &Shared, request: GraphRequest) -> Result<Changed, Refused> {
    let (answer, answered) = oneshot::channel();
    shared.requests.send(Command::Graph(request, answer));
    let result = answered.await.map_err(|_| Refused::ending())?;
    result.map_err(|error| match &error {
        GraphError::Stale { .. } => {
            let help = "read the graph again, and apply the change to that";
            Refused::new(StatusCode::PRECONDITION_FAILED, error.to_string(), help)
        }
        GraphError::Unknown(name) => unknown(name.as_str()),
        GraphError::Problems(problems) => {
            // One problem says what helps; several are lines.
            let refused = match &problems[..] {
                [one] if one.error.contains('\n') => Refused::because(&error),
                _ => Refused::bad(error.to_string(), SETTINGS),
            };
            refused.with_problems(problems.iter().cloned().map(NodeProblem::from).collect())
        }
        _ => Refused::bad(error.to_string(), SETTINGS),
    })
}

fn unknown(name: &str) -> Refused {
    let help = "GET /api/derived lists those that are";
    Refused::new(StatusCode::NOT_FOUND, format!("`{name}` is not derived here"), help)
}

/// Returns whether a publisher other than a node has a stream of this name, which it may continue after a silence.
fn is_published(shared: &Shared, name: &StreamName) -> bool {
    let is_node = shared.reception.graph().nodes.iter().any(|status| status.of.node.name == *name);
    shared.history.stream(name.as_str()).is_some_and(|slot| {
        let state = slot.memory().state();
        !is_node && matches!(state, AccountState::Open | AccountState::Unconfirmed)
    })
}

/// Returns the revision that the request says its change is of; `*` stands for any.
fn revision_of(headers: &HeaderMap) -> Result<Option<u64>, Refused> {
    let help = "send If-Match with the revision of GET /api/graph, or * for any";
    let Some(value) = headers.get(IF_MATCH) else {
        let error = "a change of the whole graph names the revision that it is of";
        return Err(Refused::new(StatusCode::PRECONDITION_REQUIRED, error, help));
    };
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    match text {
        "*" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Refused::bad(format!("`{text}` is not a revision"), help)),
    }
}

/// Reads the nodes of a graph; if one cannot be read, the problems of all are told, as far as they are known without the bus.
fn nodes_in(body: &Body) -> Result<Vec<Node>, Refused> {
    let GraphBody { node } = body.json()?;
    let (mut nodes, mut problems, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for node in node {
        match read_node(node) {
            Ok(node) => nodes.push(node),
            Err(problem) => {
                lines.push(line_of(&problem));
                problems.push(problem);
            }
        }
    }
    if problems.is_empty() {
        return Ok(nodes);
    }
    if let Err(GraphError::Problems(others)) = check_graph(&nodes, &[]) {
        lines.extend(others.iter().map(ToString::to_string));
        problems.extend(others.into_iter().map(NodeProblem::from));
    }
    Err(Refused::bad(lines.join("\n"), SETTINGS).with_problems(problems))
}

/// Reads a node; an error names it.
fn node_in(node: Value) -> Result<Node, Refused> {
    read_node(node).map_err(|problem| Refused::bad(line_of(&problem), SETTINGS).with_problems(vec![problem]))
}

fn read_node(node: Value) -> Result<Node, NodeProblem> {
    let name = node["name"].as_str().map(str::to_owned);
    serde_json::from_value(node).map_err(|error| NodeProblem { node: name, error: error.to_string() })
}

fn line_of(problem: &NodeProblem) -> String {
    format!("node `{}`: {}", problem.node.as_deref().unwrap_or("without a name"), problem.error)
}
