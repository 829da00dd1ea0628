//! Requests that change something beside the graph: patterns joined, loss injected.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use sample::StreamPattern;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Body;
use crate::admission::Visitor;
use crate::refused::Refused;
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
