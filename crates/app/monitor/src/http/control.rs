//! Requests that change something: patterns joined, streams derived, loss injected.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use sample::StreamPattern;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tallycast::AccountState;
use tokio::sync::oneshot;

use super::body::Body;
use super::query::Query;
use crate::admission::Visitor;
use crate::derived::{DerivedStatus, DerivedStream};
use crate::operators::OperatorStatus;
use crate::refused::Refused;
use crate::requests::Command;
use crate::shared::Shared;

/// The most patterns joined at one time.
pub(super) const MAX_PATTERNS: usize = 256;

type App = State<Arc<Shared>>;

#[derive(Deserialize)]
struct PatternBody {
    pattern: String,
}

#[derive(Deserialize)]
struct InjectBody {
    probability: f64,
}

/// A stream made by this monitor, with its state.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Made {
    Derived(DerivedStatus),
    Operator(OperatorStatus),
}

impl Made {
    fn name(&self) -> &str {
        match self {
            Self::Derived(derived) => &derived.stream.name,
            Self::Operator(operator) => &operator.name,
        }
    }
}

pub(super) async fn patterns(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<String>>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(joined(&shared, &visitor))
}

/// Returns the joined patterns; one that is a stream's name only to those who may read or steer that stream.
fn joined(shared: &Shared, visitor: &Visitor) -> Json<Vec<String>> {
    let patterns = shared.requests.patterns();
    let shown = |pattern: &&StreamPattern| {
        [May::Read, May::Steer].iter().any(|may| visitor.may(*may, pattern.as_str()).is_ok())
    };
    Json(patterns.iter().filter(shown).map(ToString::to_string).collect())
}

pub(super) async fn join(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Vec<String>>, Refused> {
    let pattern = pattern_in(&body)?;
    visitor.may_with(May::Steer, &pattern)?;
    if shared.requests.patterns().len() >= MAX_PATTERNS {
        return Err(Refused::bad(
            "too many patterns are joined",
            "leave some, or join a wider one such as **",
        ));
    }
    shared.requests.join(pattern);
    Ok(joined(&shared, &visitor))
}

pub(super) async fn leave(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Vec<String>>, Refused> {
    let pattern = pattern_in(&body)?;
    visitor.may_with(May::Steer, &pattern)?;
    if !shared.requests.leave(&pattern) {
        let help = "GET /api/patterns lists those that are";
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("`{pattern}` is not joined"), help));
    }
    Ok(joined(&shared, &visitor))
}

pub(super) async fn derived(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<Made>>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(made(&shared, &visitor))
}

fn made(shared: &Shared, visitor: &Visitor) -> Json<Vec<Made>> {
    let derived = shared.reception.derived().into_iter().map(Made::Derived);
    let all = derived.chain(shared.operators().into_iter().map(Made::Operator));
    Json(all.filter(|made| visitor.reads(made.name())).collect())
}

pub(super) async fn derive(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Vec<Made>>, Refused> {
    let stream: DerivedStream = body.json()?;
    visitor.may(May::Derive, &stream.name)?;
    if is_published(&shared, &stream.name) {
        visitor.may(May::Publish, &stream.name)?;
    }
    for input in stream.inputs.values() {
        let (name, _) = input.split_once(':').unwrap_or((input, ""));
        visitor.may(May::Read, name)?;
    }
    let (answer, answered) = oneshot::channel();
    shared.requests.send(Command::Derive(stream, answer));
    let result = answered.await.map_err(|_| Refused::ending())?;
    result.map_err(|error| Refused::because(&error))?;
    Ok(made(&shared, &visitor))
}

/// Returns whether a publisher other than a derivation has a stream of this name, which it may continue after a silence.
fn is_published(shared: &Shared, name: &str) -> bool {
    shared.history.stream(name).is_some_and(|slot| {
        let memory = slot.memory();
        let is_derived = memory.info.schema.labels.contains_key("expression");
        let may_continue = matches!(memory.state(), AccountState::Open | AccountState::Unconfirmed);
        may_continue && !is_derived
    })
}

pub(super) async fn forget(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Json<Vec<Made>>, Refused> {
    let name = query.text("name")?;
    visitor.may(May::Derive, name)?;
    if let Some(operator) = shared.operators().iter().find(|it| it.name == name) {
        let error = format!("`{name}` is made by the operator `{}` of the settings", operator.operator);
        return Err(Refused::bad(error, "remove it from [[monitor.operator]] and restart the monitor"));
    }
    let (answer, answered) = oneshot::channel();
    shared.requests.send(Command::Forget(name.to_owned(), answer));
    if !answered.await.map_err(|_| Refused::ending())? {
        let help = "GET /api/derived lists those that are";
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("`{name}` is not derived here"), help));
    }
    Ok(made(&shared, &visitor))
}

pub(super) async fn injection(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Value>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(injected(&shared))
}

fn injected(shared: &Shared) -> Json<Value> {
    let probability = shared.inject.as_ref().map_or(0.0, |inject| inject.get());
    Json(json!({"available": shared.inject.is_some(), "probability": probability}))
}

pub(super) async fn inject(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Value>, Refused> {
    // The switch is one for all publishers.
    visitor.may_everywhere(May::Steer)?;
    let Some(inject) = shared.inject.clone() else {
        let help = "start `tallycast demo`: only its monitor controls publishers";
        return Err(Refused::new(StatusCode::NOT_FOUND, "this monitor cannot plant loss", help));
    };
    let InjectBody { probability } = body.json()?;
    if !(0.0..=1.0).contains(&probability) {
        let error = format!("{probability} is not a probability");
        return Err(Refused::bad(error, "write 0.01 for 1 %, 0 for none"));
    }
    // The control may wait for a socket or a file.
    let set = tokio::task::spawn_blocking(move || inject.set(probability)).await;
    let set = set.unwrap_or_else(|_| Err("the control failed".to_owned()));
    let help = "check that the demo's publishers are still running";
    set.map_err(|error| Refused::new(StatusCode::BAD_GATEWAY, error, help))?;
    Ok(injected(&shared))
}

fn pattern_in(body: &Body) -> Result<StreamPattern, Refused> {
    let PatternBody { pattern } = body.json()?;
    let help = "such as lab/*, w7x/**/power or **";
    pattern.parse().map_err(|error: sample::PatternError| Refused::bad(error.to_string(), help))
}
