//! Requests about alarms: their list, and acknowledging one.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::body::Body;
use crate::admission::Visitor;
use crate::alarms::{Alarm, MAX_REASON_BYTES, Refusal, Word};
use crate::clock;
use crate::refused::Refused;
use crate::shared::Shared;

type App = State<Arc<Shared>>;

#[derive(Deserialize)]
struct Acknowledging {
    stream: String,
    channel: u32,
    /// Number of the state that the visitor has seen.
    change: u64,
    #[serde(default)]
    reason: String,
}

/// Answers with all alarms that the visitor may read.
pub(super) async fn alarms(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<Alarm>>, Refused> {
    visitor.may_somewhere(May::Read)?;
    Ok(Json(shared.alarms.list(&shared.history, |stream| visitor.reads(stream))))
}

/// Acknowledges the state of an alarm; it is on disk when this answers.
pub(super) async fn acknowledge(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Json<Vec<Alarm>>, Refused> {
    let Acknowledging { stream, channel, change, reason } = body.json()?;
    visitor.may(May::Steer, &stream)?;
    if reason.len() > MAX_REASON_BYTES {
        let error = format!("the reason has {} bytes; at most {MAX_REASON_BYTES} are kept", reason.len());
        return Err(Refused::bad(error, "write a shorter reason"));
    }
    let by = visitor.name();
    let writing = tokio::task::spawn_blocking(move || {
        let alarms = &shared.alarms;
        let (stream, reason) = (stream.as_str(), reason.as_str());
        let word = Word { stream, channel, change, by: &by, at: clock::wall(), reason };
        alarms.acknowledge(&shared.history, word).map_err(refused)?;
        Ok(Json(alarms.list(&shared.history, |stream| visitor.reads(stream))))
    });
    writing.await.unwrap_or_else(|_| Err(Refused::ending()))
}

fn refused(refusal: Refusal) -> Refused {
    let status = match refusal {
        Refusal::Unknown => StatusCode::NOT_FOUND,
        Refusal::Changed | Refusal::Ok => StatusCode::CONFLICT,
        Refusal::Disk(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = refusal.to_string();
    let (error, help) = text.split_once('\n').expect("each has a remedy");
    Refused::new(status, error, help)
}
