//! Refusals of requests: the error and its remedy, in JSON.

use axum::Json;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use graph::plan::Problem;
use serde::Serialize;
use serde_json::json;
use shared_view::Refusal;
use std::time::Duration;

use units::WallTime;

use crate::connections::TurnedAway;
use crate::host_gate::Stranger;
use crate::stored::StoreFailure;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    error: String,
    help: String,
    reason: Option<Reason>,
    /// Of a graph: what is wrong with which node.
    problems: Box<[NodeProblem]>,
}

/// A problem of a graph, with the node as it was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct NodeProblem {
    /// Its name; none if the graph as a whole is the reason, or a node without a name.
    pub(crate) node: Option<String>,
    /// What is wrong, and in the last line what helps.
    pub(crate) error: String,
}

impl From<Problem> for NodeProblem {
    fn from(problem: Problem) -> Self {
        Self { node: problem.node.map(|name| name.to_string()), error: problem.error }
    }
}

/// Reason of a refusal that is due to the visitor, not to the request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reason {
    /// Its label in the metrics.
    pub(crate) label: String,
    /// The rule, in words.
    pub(crate) rule: String,
}

impl Reason {
    /// Returns the reason of a page that is closed though no rule denies what it shows.
    pub(crate) fn rules_changed() -> Self {
        Self { label: "rules".to_owned(), rule: "the rules have changed".to_owned() }
    }
}

impl Refused {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: help.into(), reason: None, problems: Box::default() }
    }

    /// Adds what is wrong with each node of a graph.
    pub(crate) fn with_problems(self, problems: Vec<NodeProblem>) -> Self {
        Self { problems: problems.into(), ..self }
    }

    /// Returns error and remedy, one line each.
    pub(crate) fn sentence(&self) -> String {
        format!("{}\n{}", self.line(), self.help)
    }

    fn by(self, label: &str, rule: &str) -> Self {
        Self { reason: Some(Reason { label: label.to_owned(), rule: rule.to_owned() }), ..self }
    }

    /// Refuses by a rule; a visitor that has not signed in may come back when it has.
    pub(crate) fn denied(signed_in: bool, error: String, help: &str, reason: Reason) -> Self {
        let status = if signed_in { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
        Self { reason: Some(reason), ..Self::new(status, error, help) }
    }

    /// Refuses a token that is unknown, expired or revoked; which one is not said.
    pub(crate) fn token() -> Self {
        let help = "make another one: tallycast access token new NAME";
        let refused = Self::new(StatusCode::UNAUTHORIZED, "the token is not valid here", help);
        refused.by("token", "a token must be known, not expired and not revoked")
    }

    /// Refuses to sign anybody in: there are no users.
    pub(crate) fn no_users() -> Self {
        let help = "add one: tallycast access user add NAME";
        let refused = Self::new(StatusCode::FORBIDDEN, "this monitor has no users", help);
        refused.by("no_users", "users are those of the access folder")
    }

    /// Refuses a user name or password; which one is not said.
    pub(crate) fn password() -> Self {
        let help = "try again; an administrator can set another password";
        let refused = Self::new(StatusCode::UNAUTHORIZED, "wrong name or password", help);
        refused.by("password", "name and password must be a user's")
    }

    /// Refuses to look at another password so soon.
    pub(crate) fn attempts(wait: Duration) -> Self {
        let help = format!("try again in {} s", wait.as_nanos().div_ceil(1_000_000_000).max(1));
        let refused = Self::new(StatusCode::TOO_MANY_REQUESTS, "too many attempts to sign in", help);
        refused.by("attempts", "attempts to sign in are limited by user and address")
    }

    /// Refuses a request whose sender's rights changed before its body arrived.
    pub(crate) fn revoked() -> Self {
        let error = "session, token or rules have changed since the request began";
        let refused = Self::new(StatusCode::UNAUTHORIZED, error, "send it again");
        refused.by("revoked", "rights must last until the body has arrived")
    }

    /// Refuses a change by a session whose request does not say from which page it comes.
    pub(crate) fn no_origin() -> Self {
        let help = "browsers send it by themselves; programs use a token instead of a session";
        let refused = Self::new(StatusCode::FORBIDDEN, "the request has no Origin header", help);
        refused.by("origin", "what a session changes must come from this server's page")
    }

    /// Refuses a change that a browser marks as another page's.
    pub(crate) fn cross_site(site: &str) -> Self {
        let error = format!("the request comes from another page (Sec-Fetch-Site: {site:?})");
        let refused = Self::new(StatusCode::FORBIDDEN, error, "open this server's own page");
        refused.by("origin", "what changes something must come from this server's page")
    }

    /// Returns the label of its reason in the metrics.
    pub(crate) fn label(&self) -> &str {
        self.reason.as_ref().map_or("other", |reason| &reason.label)
    }

    /// Returns it as one line, with the rule.
    pub(crate) fn line(&self) -> String {
        self.reason
            .as_ref()
            .map_or_else(|| self.error.clone(), |reason| format!("{}: {}", self.error, reason.rule))
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

    /// Refuses to replace a plot of a shared view that has a trace which the visitor may not see, and which is not named.
    pub(crate) fn hidden_trace(plot: &str) -> Self {
        let error = format!("`{plot}` has traces that you may not read, and so may not replace");
        let refused = Self::new(StatusCode::FORBIDDEN, error, "leave this plot as it is, or fork the view");
        refused.by("hidden_trace", "a plot is written by those who may read all of its streams")
    }

    /// Refuses something about a shared view.
    pub(crate) fn shared_view(refusal: &Refusal) -> Self {
        let status = match refusal {
            Refusal::NoView(_) | Refusal::NoLink => StatusCode::NOT_FOUND,
            Refusal::Exists(_) | Refusal::Stale { .. } => StatusCode::PRECONDITION_FAILED,
            Refusal::Presented(_) | Refusal::TooManyViews => StatusCode::CONFLICT,
            Refusal::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::ReadOnly | Refusal::Right(_) => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, ..Self::because(refusal) }
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

    /// Refuses to export samples of which only columns are left.
    pub(crate) fn not_kept(from: WallTime, to: WallTime) -> Self {
        let error = format!(
            "the samples from {} to {} ns are not here: live memory keeps columns of them, and no archive has them yet",
            from.as_nanos(),
            to.as_nanos()
        );
        let help =
            "export columns, or a range outside that time; an archive keeps every sample: tallycast record";
        Self::new(StatusCode::CONFLICT, error, help)
    }

    /// Refuses an export of more values than are made at once.
    pub(crate) fn too_many_values(values: u64, limit: u64) -> Self {
        let error = format!("the range holds {values} values; at most {limit} are exported at once");
        let help = "choose a shorter range, fewer channels, or columns";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, error, help)
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
        let label = match stranger {
            Stranger::NoHost | Stranger::Host(_) => "host",
            Stranger::Origin(_) => "origin",
        };
        Self::new(StatusCode::FORBIDDEN, stranger.to_string(), help)
            .by(label, "Host must name this server, and Origin its page")
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
        let mut body = json!({"error": self.error, "help": self.help});
        if let Some(reason) = &self.reason {
            body["rule"] = reason.rule.as_str().into();
        }
        if !self.problems.is_empty() {
            body["problems"] = json!(self.problems);
        }
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(reason) = self.reason {
            response.extensions_mut().insert(reason);
        }
        response
    }
}
