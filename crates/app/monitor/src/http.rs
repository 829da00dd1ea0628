//! The HTTP side of `docs/protocol/page.md`: routes, and headers of every answer.

mod alarms;
mod body;
mod control;
mod export;
mod graph;
mod query;
mod reading;
mod session;
mod steer;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::admission::Visitor;
use crate::config::MAX_MESSAGE_BYTES;
use crate::connections::Caller;
use crate::page_files;
use crate::refused::{Reason, Refused};
use crate::shared::Shared;

/// Scripts and styles come from the server itself; nothing else is loaded, and the page cannot be framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the router of the server.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page_files::index))
        .route("/guide", get(page_files::guide))
        .route("/healthz", get(reading::health))
        .route("/readyz", get(reading::ready))
        .route("/metrics", get(reading::metrics))
        .route("/api/streams", get(reading::streams))
        .route("/api/account", get(reading::account))
        .route("/api/gaps", get(reading::gaps))
        .route("/api/range", get(reading::range))
        .route("/api/runs", get(reading::runs))
        .route("/api/export", get(export::export))
        .route("/api/preview.png", get(reading::preview))
        .route("/api/live", get(reading::live))
        .route("/api/patterns", get(control::patterns))
        .route("/api/join", post(control::join))
        .route("/api/leave", post(control::leave))
        .route("/api/graph", get(graph::graph).put(graph::replace))
        .route("/api/graph/kinds", get(graph::kinds))
        .route("/api/graph/check", post(graph::check))
        .route("/api/graph/undo", post(graph::undo))
        .route("/api/derived", get(graph::derived).delete(graph::forget))
        .route("/api/derive", post(graph::derive))
        .route("/api/steer", get(steer::apps))
        .route("/api/steer/{*app}", get(steer::app).put(steer::command).post(steer::action))
        .route("/api/views", get(views::list))
        .route(
            "/api/views/{name}",
            get(views::view).put(views::put).patch(views::patch).delete(views::delete),
        )
        .route("/api/alarms", get(alarms::alarms).post(alarms::acknowledge))
        .route("/api/inject", get(control::injection).post(control::inject))
        .route("/api/session", get(session::session))
        .route("/api/sessions", get(session::sessions).delete(session::end_sessions))
        .route("/api/sign-in", post(session::sign_in))
        .route("/api/sign-out", post(session::sign_out))
        .fallback(page_files::file)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
        .layer(from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

async fn wrong_method(request: Request) -> Refused {
    Refused::method(request.method(), request.uri().path())
}

/// Refuses requests under another host name, finds out who asks, and sets the headers of every answer.
async fn guard(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    caller.serving();
    let mut response = match check(&shared, request.method(), request.headers()) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    };
    if let Some(reason) = response.extensions().get::<Reason>() {
        shared.refusals.visitor(&reason.label);
    }
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
    // Measured data are never cached; only the page's files set their own caching.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    caller.answered();
    response
}

/// Source: W3C, Fetch Metadata Request Headers §2.4.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn check(shared: &Shared, method: &Method, headers: &HeaderMap) -> Result<Visitor, Refused> {
    // A header that is not text matches no name.
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = shared.gate.check(text(header::HOST), text(header::ORIGIN));
    host.map_err(|stranger| Refused::stranger(&stranger))?;
    match headers.get(FETCH_SITE) {
        Some(site) if !method.is_safe() && site != "same-origin" => {
            return Err(Refused::cross_site(site.to_str().unwrap_or("?")));
        }
        Some(_) | None => {}
    }
    Visitor::of(&shared.gatekeeper, &shared.cookie, method, headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, export as exports, preview, range, runs, view, viewer};

    const PAGE: &str = include_str!("../../../../docs/protocol/page.md");

    #[test]
    fn the_page_and_the_limits_agree() {
        let (_, section) = PAGE.split_once("## Limits of requests\n").unwrap();
        let section = section.split("\n#").next().unwrap();
        let row = |line: &str| {
            let (limit, what) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
            Some((limit.parse().ok()?, what.to_owned()))
        };
        let rows: Vec<(usize, String)> = section.lines().filter_map(row).collect();
        let limits = [
            (config::MAX_PAGES, "pages open at one time"),
            (
                config::DEFAULT_PAGES_PER_ADDRESS,
                "of them from one address, unless `--pages-per-address` is set",
            ),
            (viewer::MAX_VIEWS, "views of one page"),
            (view::MAX_TRACES, "traces of one view, channels of a table"),
            (viewer::MAX_UNDER_WAY, "frames of one view sent and not confirmed"),
            (viewer::MAX_CONFIRMED, "frames confirmed by one message"),
            (MAX_MESSAGE_BYTES, "bytes of a message or of a request's body"),
            (range::MAX_POINTS as usize, "columns of a view, and points of a range"),
            (exports::MAX_VALUES as usize, "values of an export of samples"),
            (range::MAX_GAPS, "gaps in one answer"),
            (runs::MAX_RUNS, "runs in one answer"),
            (preview::MAX_SIDE as usize, "pixels of a picture's side"),
            (control::MAX_PATTERNS, "patterns joined"),
            (::graph::plan::MAX_NODES, "nodes of the graph"),
            (shared_view::MAX_DOCUMENTS, "shared views"),
            (shared_view::MAX_DOCUMENT_BYTES, "bytes of the fields of a shared view, as JSON"),
            (shared_view::MAX_EDIT_FIELDS, "fields of an edit of a shared view"),
            (shared_view::MAX_ORDER, "plots in the order of a shared view"),
            (tallycast::runs::MAX_RUN_ID_BYTES, "bytes of the id of a run in a shared view"),
            (shared_view::MAX_NOTES_CHARACTERS, "characters of its notes"),
            (shared_view::MAX_TITLE_CHARACTERS, "characters of its title"),
        ];
        assert_eq!(rows, limits.map(|(limit, what)| (limit, what.to_owned())));
    }

    #[test]
    fn the_page_lists_every_path() {
        let router = include_str!("http.rs");
        let paths =
            router.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split('"').next());
        let paths: Vec<_> = paths.collect();
        assert!(paths.len() > 10);
        for path in paths.into_iter().map(|path| path.replace("{*app}", "APP").replace("{name}", "NAME")) {
            assert!(
                PAGE.contains(&format!("{path}`"))
                    || PAGE.contains(&format!("{path}?"))
                    || PAGE.contains(&format!("{path} ")),
                "{path}"
            );
        }
    }
}
