//! Requests that only read: the catalogue, accounts, gaps, spans, pictures, metrics, health, live views.

use std::ops::Range;
use std::sync::Arc;

use access::May;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Extension, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use units::WallTime;

use super::query::Query;
use crate::account::account_of;
use crate::admission::Visitor;
use crate::config::MAX_MESSAGE_BYTES;
use crate::connections::Caller;
use crate::gap_map::KnownGap;
use crate::inherited::Inputs;
use crate::metrics::{OPENMETRICS, Picture};
use crate::preview::{self, MAX_SIDE};
use crate::range::{self, ARROW_STREAM, MAX_GAPS, MAX_POINTS, RangeRequest, Span};
use crate::refused::Refused;
use crate::relay_status::add_relay;
use crate::runs::{self, ALL_RUNS, AskedRuns, MAX_RUNS};
use crate::server_info::ServerInfo;
use crate::shared::Shared;
use crate::viewers::ViewerSlot;

const JSON: &str = "application/json";
const SECOND_NS: i64 = 1_000_000_000;
/// Default number of columns of a range.
const DEFAULT_POINTS: u32 = 1_000;
/// Default span of a range or picture.
const DEFAULT_SPAN_NS: i64 = 60 * SECOND_NS;
const DEFAULT_GAPS: usize = 100;
const DEFAULT_PREVIEW: [u32; 2] = [480, 120];
/// Limit of received bytes per message before the connection is closed: shorter ones that are too long get an error.
const MAX_READ_BYTES: usize = 16 * MAX_MESSAGE_BYTES;
/// Frames of one moment go out together, in parts of this size; more waits for the socket.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;
/// Pages say little at once, and the library clears the whole buffer before each read.
const READ_BUFFER_BYTES: usize = 4 * 1024;

type App = State<Arc<Shared>>;

pub(super) async fn streams(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Read)?;
    let server = serde_json::to_string(&ServerInfo::of(&shared)).expect("plain numbers and text");
    let streams = shared.catalogue.streams(&shared.history, &visitor);
    Ok(typed(JSON, format!(r#"{{"server":{server},"streams":{streams}}}"#)))
}

pub(super) async fn account(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Response, Refused> {
    let name = readable(&visitor, &query)?;
    let slot = shared.history.stream(name).ok_or_else(|| Refused::no_stream(name))?;
    let mut account = account_of(&slot, &shared.history, &visitor, shared.reception.key_status().as_ref());
    add_relay(&mut account, &shared.reception.relays());
    Ok(typed(JSON, account.to_string()))
}

pub(super) async fn gaps(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Response, Refused> {
    let name = readable(&visitor, &query)?;
    let (from, to) = match during(&shared, &visitor, &query).await? {
        Some(range) => (range.start, range.end),
        None => {
            let to = query.time("to", range::edge(&shared, name).offset(SECOND_NS))?;
            (query.time("from", to.offset(-3_600 * SECOND_NS))?, to)
        }
    };
    let limit = query.number("limit", 1..=MAX_GAPS, DEFAULT_GAPS)?;
    if from >= to {
        return Err(Refused::range_ends_first());
    }
    let name = name.to_owned();
    // Shares the queue of span requests: reads of the store wait for each other.
    let turn = Arc::clone(&shared.store_reads).acquire_owned().await;
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let gaps = range::gaps(&shared, &name, from..to)?;
        let newest = gaps.len().saturating_sub(limit);
        let schema = shared.history.stream(&name).map(|slot| Arc::clone(&slot.memory().info.schema));
        let inputs = schema.map(|schema| Inputs::of(&schema, &shared.history, |name| visitor.reads(name)));
        let json = |gap: &Arc<KnownGap>| inputs.as_ref().map_or_else(|| gap.to_json(), |it| it.gap_json(gap));
        let gaps: Vec<_> = gaps[newest..].iter().map(json).collect();
        Ok(typed(JSON, serde_json::Value::Array(gaps).to_string()))
    });
    reading.await.unwrap_or_else(|_| Err(Refused::ending()))
}

pub(super) async fn range(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Response, Refused> {
    let arrow = match query.optional("format").unwrap_or("json") {
        "json" => false,
        "arrow" => true,
        other => return Err(Refused::bad(format!("unknown format={other}"), "choose json or arrow")),
    };
    let during = during(&shared, &visitor, &query).await?;
    let time = |name| query.optional(name).map(|_| query.time(name, WallTime::default())).transpose();
    let (from, to) = match during {
        Some(range) => (Some(range.start), Some(range.end)),
        None => (time("from")?, time("to")?),
    };
    let request = RangeRequest {
        stream: readable(&visitor, &query)?.to_owned(),
        channel: query.text("channel")?.to_owned(),
        from,
        to,
        span_ns: DEFAULT_SPAN_NS,
        points: query.number("points", 1..=MAX_POINTS, DEFAULT_POINTS)?,
    };
    read(shared, request, move |span, request| {
        if !arrow {
            return Ok(typed(JSON, span.to_json(request)));
        }
        let bytes = range::to_arrow(span, request).map_err(|error| Refused::because(&error))?;
        Ok(typed(ARROW_STREAM, bytes))
    })
    .await
}

pub(super) async fn preview(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Response, Refused> {
    let [width, height] = DEFAULT_PREVIEW;
    let height = query.number("height", 1..=MAX_SIDE, height)?;
    let request = RangeRequest {
        stream: readable(&visitor, &query)?.to_owned(),
        channel: query.text("channel")?.to_owned(),
        from: None,
        to: None,
        span_ns: query.span_ns("span", DEFAULT_SPAN_NS)?,
        points: query.number("width", 1..=MAX_SIDE, width)?,
    };
    read(shared, request, move |span, _| {
        let png = preview::to_png(span, height).map_err(|error| Refused::because(&error))?;
        Ok(typed("image/png", png))
    })
    .await
}

pub(super) async fn runs(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    query: Query,
) -> Result<Response, Refused> {
    visitor.may(May::Read, ALL_RUNS)?;
    let id = query.optional("id").map(str::parse).transpose();
    let always = WallTime::from_nanos(i64::MIN / 2)..WallTime::from_nanos(i64::MAX / 2);
    let asked = AskedRuns {
        id: id.map_err(|error| Refused::because(&error))?,
        range: query.time("from", always.start)?..query.time("to", always.end)?,
        limit: query.number("limit", 1..=MAX_RUNS, MAX_RUNS)?,
    };
    if asked.range.is_empty() {
        return Err(Refused::range_ends_first());
    }
    let turn = Arc::clone(&shared.store_reads).acquire_owned().await;
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        Ok(typed(JSON, runs::listed(&shared, &asked)?.to_string()))
    });
    reading.await.unwrap_or_else(|_| Err(Refused::ending()))
}

/// Returns the range of time of the run that is asked for, if one is.
async fn during(
    shared: &Arc<Shared>,
    visitor: &Visitor,
    query: &Query,
) -> Result<Option<Range<WallTime>>, Refused> {
    let Some(choice) = query.optional("during") else { return Ok(None) };
    visitor.may(May::Read, ALL_RUNS)?;
    let [choice, from, to] =
        [Some(choice), query.optional("from"), query.optional("to")].map(|it| it.map(str::to_owned));
    let (shared, turn) = (Arc::clone(shared), Arc::clone(&shared.store_reads).acquire_owned().await);
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        runs::range(&shared, &choice.unwrap_or_default(), from.as_deref(), to.as_deref())
    });
    reading.await.unwrap_or_else(|_| Err(Refused::ending())).map(Some)
}

/// Returns the stream asked for, if the visitor may read it.
fn readable<'q>(visitor: &Visitor, query: &'q Query) -> Result<&'q str, Refused> {
    let name = query.text("stream")?;
    visitor.may(May::Read, name)?;
    Ok(name)
}

/// Reads a span and makes its answer on a thread where blocking is allowed.
async fn read(
    shared: Arc<Shared>,
    request: RangeRequest,
    answer: impl FnOnce(&Span, &RangeRequest) -> Result<Response, Refused> + Send + 'static,
) -> Result<Response, Refused> {
    // Shares the queue of the viewers: reads of the store wait for each other.
    let turn = Arc::clone(&shared.store_reads).acquire_owned().await;
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        answer(&range::read(&shared, &request)?, &request)
    });
    reading.await.unwrap_or_else(|_| Err(Refused::ending()))
}

pub(super) async fn metrics(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Read)?;
    let text = Picture::take(&shared, &visitor).encode().map_err(|_| Refused::ending())?;
    Ok(typed(OPENMETRICS, text))
}

/// Reports that the process is alive and its intake listens.
pub(super) async fn health(State(shared): App) -> Result<&'static str, Refused> {
    if shared.reception.is_listening() { Ok("ok\n") } else { Err(Refused::ending()) }
}

/// Reports that requests can be answered with data.
pub(super) async fn ready(State(shared): App) -> Response {
    let streams = shared.history.streams().len();
    if shared.reception.is_listening() {
        format!("ready: {streams} streams\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not listening to the bus\n").into_response()
    }
}

pub(super) async fn live(
    State(shared): App,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Extension(visitor): Extension<Visitor>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Read)?;
    let help = "open it as a WebSocket; its protocol is in docs/protocol/page.md";
    let upgrade = upgrade.map_err(|error| Refused::bad(error.to_string(), help))?;
    let slot = ViewerSlot::take(&shared.viewers, caller.source()).map_err(Refused::crowded)?;
    caller.live();
    Ok(upgrade
        .max_message_size(MAX_READ_BYTES)
        .max_frame_size(MAX_READ_BYTES)
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .on_upgrade(move |socket| crate::live::serve(socket, shared, slot, visitor)))
}

fn typed(media_type: &'static str, body: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, media_type)], body).into_response()
}
