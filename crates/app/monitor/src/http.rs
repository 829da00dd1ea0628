//! The HTTP side of `docs/protocol/page.md`: which request goes where, and what every answer bears.

mod answer;
mod body;
mod control;
mod gate;
mod query;
mod reading;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

pub(crate) use answer::Refused;
pub(crate) use gate::HostGate;
pub(crate) use query::Query;

use crate::page_files;
use crate::shared::Shared;

/// The most bytes of a request's body, and of a message of the page.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Scripts and styles come from the server itself; nothing else is loaded, and nobody frames the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns all that the server answers.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page_files::index))
        .route("/healthz", get(reading::health))
        .route("/readyz", get(reading::ready))
        .route("/metrics", get(reading::metrics))
        .route("/api/streams", get(reading::streams))
        .route("/api/account", get(reading::account))
        .route("/api/gaps", get(reading::gaps))
        .route("/api/range", get(reading::range))
        .route("/api/preview.png", get(reading::preview))
        .route("/api/live", get(reading::live))
        .route("/api/patterns", get(control::patterns))
        .route("/api/join", post(control::join))
        .route("/api/leave", post(control::leave))
        .route("/api/derived", get(control::derived).delete(control::forget))
        .route("/api/derive", post(control::derive))
        .route("/api/inject", get(control::injection).post(control::inject))
        .fallback(page_files::file)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn wrong_method(request: Request) -> Refused {
    Refused::method(request.method(), request.uri().path())
}

/// Lets nobody in who asks under another name, and marks every answer.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = match check(&shared.gate, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        shared.refusals.request(status.as_u16());
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // What is measured is new every time; only the page's files say otherwise.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(gate: &HostGate, headers: &HeaderMap) -> Result<(), Refused> {
    // What is no text is nobody's name.
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    gate.check(text(header::HOST), text(header::ORIGIN)).map_err(|stranger| Refused::stranger(&stranger))
}
