//! Signing in and out, and what a page may know of its own visitor.

use std::sync::Arc;

use access::{May, PrincipalName};
use axum::Json;
use axum::extract::{ConnectInfo, Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use identity::{Secret, UserSessions};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::Body;
use super::query::Query;
use crate::admission::Visitor;
use crate::connections::Caller;
use crate::host_gate::Protection;
use crate::refused::Refused;
use crate::shared::Shared;

type App = State<Arc<Shared>>;

#[derive(Deserialize)]
struct SignIn {
    user: String,
    password: String,
}

/// Answers who the visitor is, and what it may do.
pub(super) async fn session(State(shared): App, Extension(visitor): Extension<Visitor>) -> Json<Value> {
    let mut session = visitor.to_json(&shared.gatekeeper);
    session["insecure"] = (shared.gate.protection() == Protection::Insecure).into();
    Json(session)
}

/// Answers who is signed in: a user a row, by name.
pub(super) async fn sessions(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<Value>>, Refused> {
    visitor.may_everywhere(May::Administer)?;
    Ok(open_sessions(&shared))
}

fn open_sessions(shared: &Shared) -> Json<Vec<Value>> {
    let row = |of: UserSessions| {
        let idle_ns = u64::try_from(of.idle.as_nanos()).unwrap_or(u64::MAX);
        json!({"user": of.user, "sessions": of.count, "idle_ns": idle_ns})
    };
    Json(shared.gatekeeper.sessions().into_iter().map(row).collect())
}

/// Ends the sessions of one user.
pub(super) async fn end_sessions(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Json<Vec<Value>>, Refused> {
    visitor.may_everywhere(May::Administer)?;
    let user = query.text("user")?.parse::<PrincipalName>().map_err(|error| Refused::because(&error))?;
    if shared.gatekeeper.end_sessions(&user) == 0 {
        let help = "GET /api/sessions lists the users that are signed in";
        return Err(Refused::new(StatusCode::NOT_FOUND, format!("`{user}` has no session"), help));
    }
    Ok(open_sessions(&shared))
}

pub(super) async fn sign_in(
    State(shared): App,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    let SignIn { user, password } = request(&headers, &body)?;
    let (password, source) = (Secret::new(password), caller.source().address());
    let asked = Arc::clone(&shared);
    let signing_in = move || asked.gatekeeper.sign_in(source, &user, &password);
    let session = tokio::task::spawn_blocking(signing_in).await.map_err(|_| Refused::ending())??;
    // Whoever knew the previous session does not know this one.
    if let Some(previous) = visitor.session() {
        shared.gatekeeper.sign_out(previous);
    }
    let mut value = HeaderValue::from_str(&shared.cookie.set(&session)).map_err(|_| Refused::ending())?;
    value.set_sensitive(true);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, value)]).into_response())
}

pub(super) async fn sign_out(State(shared): App, Extension(visitor): Extension<Visitor>) -> Response {
    if let Some(session) = visitor.session() {
        shared.gatekeeper.sign_out(session);
    }
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, shared.cookie.remove())]).into_response()
}

/// Reads a request without a word of it in the error.
fn request(headers: &HeaderMap, body: &Body) -> Result<SignIn, Refused> {
    // A form of another page cannot send this type.
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let is_json = media_type.split(';').next().is_some_and(|it| it.trim() == "application/json");
    let read = if is_json { body.quietly() } else { None };
    read.ok_or_else(|| Refused::bad("malformed sign-in", "send JSON: {\"user\": …, \"password\": …}"))
}
