//! Refusals of requests: the error and its remedy, in JSON.

use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::time::Duration;

use crate::connections::TurnedAway;
use crate::host_gate::Stranger;
use crate::stored::StoreFailure;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    error: String,
    help: String,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: help.into() }
    }

    /// Refuses an invalid request.
    pub(crate) fn bad(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, help)
    }

    /// Refuses because of an error whose second line is the remedy.
    pub(crate) fn because(error: &dyn std::error::Error) -> Self {
        let text = error.to_string();
        let (error, help) = text.split_once('\n').unwrap_or((&text, "see docs/protocol/page.md"));
        Self::bad(error, help)
    }

    pub(crate) fn no_stream(name: &str) -> Self {
        let help = "GET /api/streams lists the streams; POST /api/join joins more";
        Self::new(StatusCode::NOT_FOUND, format!("unknown stream `{name}`"), help)
    }

    pub(crate) fn no_channel(stream: &str, channel: &str) -> Self {
        let help = "GET /api/streams lists the channels; write name[i] for an element of one with many";
        Self::new(StatusCode::NOT_FOUND, format!("stream `{stream}` has no channel `{channel}`"), help)
    }

    pub(crate) fn range_ends_first() -> Self {
        Self::bad("the range ends before it begins", "choose `to` later than `from`")
    }

    pub(crate) fn no_path(path: &str) -> Self {
        let help = "docs/protocol/page.md lists what this server answers";
        Self::new(StatusCode::NOT_FOUND, format!("nothing exists at {path}"), help)
    }

    pub(crate) fn method(method: &Method, path: &str) -> Self {
        let help = "docs/protocol/page.md lists what this server answers";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} does not take {method}"), help)
    }

    pub(crate) fn stranger(stranger: &Stranger) -> Self {
        let help = "ask by the address the server listens at, or by localhost; \
                    start it with --allow-host NAME to be asked by another name";
        Self::new(StatusCode::FORBIDDEN, stranger.to_string(), help)
    }

    /// Refuses because there are too many viewers, of all or of one address.
    pub(crate) fn crowded(why: TurnedAway) -> Self {
        let (error, help) = match why {
            TurnedAway::SourcePages => (
                "too many pages are open from your address",
                "close some pages, or start the monitor with a higher --pages-per-address",
            ),
            _ => ("too many pages are open", "close some pages, or start another monitor"),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, help)
    }

    /// Refuses because the body of a request does not arrive.
    pub(crate) fn slow(patience: Duration) -> Self {
        let error = format!("the body of the request did not arrive within {patience:?}");
        Self::new(StatusCode::REQUEST_TIMEOUT, error, "send the complete body at once")
    }

    /// Refuses because the monitor is ending, or a part of it has failed.
    pub(crate) fn ending() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the monitor no longer listens to the bus",
            "start it again",
        )
    }

    pub(crate) fn store(failure: &StoreFailure) -> Self {
        let status = match failure {
            StoreFailure::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            StoreFailure::Unreadable(_) => StatusCode::BAD_GATEWAY,
        };
        Self { status, ..Self::because(failure) }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, Json(json!({"error": self.error, "help": self.help}))).into_response()
    }
}
