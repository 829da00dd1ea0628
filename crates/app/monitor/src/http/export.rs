//! Export of a span as a file.

use std::sync::Arc;

use access::May;
use axum::extract::{Extension, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use units::WallTime;

use super::query::Query;
use crate::admission::Visitor;
use crate::export::{self, ExportRequest, Form, MAX_CHANNELS, Values};
use crate::range::MAX_POINTS;
use crate::refused::Refused;
use crate::shared::Shared;

/// Default number of columns.
const DEFAULT_POINTS: u32 = 1_000;

/// Answers with the samples or columns of a stream's channels as a file.
pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Extension(visitor): Extension<Visitor>,
    query: Query,
    axum::extract::Query(fields): axum::extract::Query<Vec<(String, String)>>,
) -> Result<Response, Refused> {
    let stream = query.text("stream")?;
    visitor.may(May::Read, stream)?;
    query.text("channel")?;
    let channels: Vec<String> =
        fields.into_iter().filter(|(name, _)| name == "channel").map(|(_, channel)| channel).collect();
    if channels.len() > MAX_CHANNELS {
        let error = format!("an export has at most {MAX_CHANNELS} channels, not {}", channels.len());
        return Err(Refused::bad(error, "export fewer channels at a time"));
    }
    let form = match query.text("format")? {
        "csv" => Form::Csv,
        "parquet" => Form::Parquet,
        other => return Err(Refused::bad(format!("unknown format={other}"), "choose csv or parquet")),
    };
    let points = query.number("points", 1..=MAX_POINTS, DEFAULT_POINTS)?;
    let values = match query.optional("values").unwrap_or("samples") {
        "samples" => Values::Samples,
        "columns" => Values::Columns(points),
        other => return Err(Refused::bad(format!("unknown values={other}"), "choose samples or columns")),
    };
    query.text("from").and_then(|_| query.text("to"))?;
    let time = |name| query.time(name, WallTime::default());
    let request =
        ExportRequest { stream: stream.to_owned(), channels, from: time("from")?, to: time("to")?, values };
    if request.from >= request.to {
        return Err(Refused::range_ends_first());
    }
    // Shares the queue of the viewers: reads of the store wait for each other.
    let turn = Arc::clone(&shared.store_reads).acquire_owned().await;
    let reading = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let bytes = export::export(&shared, &request, form)?;
        Ok(([(CONTENT_TYPE, form.media_type())], bytes).into_response())
    });
    reading.await.unwrap_or_else(|_| Err(Refused::ending()))
}
