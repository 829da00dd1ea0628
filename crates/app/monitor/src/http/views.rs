//! Requests about shared views: listed, read, written, deleted.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared_view::{Condition, Document, Edit, ViewName};

use super::body::Body;
use crate::admission::Visitor;
use crate::clock;
use crate::refused::Refused;
use crate::shared::Shared;
use crate::shared_views::rights::{hide, may_name, may_replace};
use crate::shared_views::save;

type App = State<Arc<Shared>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldsBody {
    fields: Map<String, Value>,
}

/// Lists all documents.
pub(super) async fn list(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Value>, Refused> {
    visitor.may_somewhere(May::Read)?;
    let views = shared.shared_views.views().list().into_iter().map(|view| {
        json!({
            "name": view.name.as_str(), "title": view.title, "revision": view.revision,
            "changed_ns": view.changed.as_nanos(), "changed_by": view.changed_by,
            "watchers": view.watchers, "presenter": view.presenter,
        })
    });
    Ok(Json(json!({"views": views.collect::<Vec<_>>()})))
}

/// Returns a document.
pub(super) async fn view(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Read)?;
    let name = name_in(&name)?;
    let mut json = {
        let views = shared.shared_views.views();
        views.document(&name).map_err(|it| Refused::shared_view(&it))?.to_json()
    };
    if let Some(fields) = json["fields"].as_object_mut() {
        hide(&visitor, fields);
    }
    let tag = format!("\"{}\"", json["revision"]);
    Ok(([(ETAG, tag)], Json(json)).into_response())
}

/// Creates or replaces a document.
pub(super) async fn put(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Derive)?;
    let (name, on) = (name_in(&name)?, condition(&headers)?);
    let FieldsBody { fields } = body.json()?;
    may_name(&visitor, &fields)?;
    may_replace_all(&shared, &visitor, &name)?;
    let revision = shared.shared_views.put(&name, Edit::whole(fields), on, visitor.user());
    answer(&shared, revision.map_err(|it| Refused::shared_view(&it))?).await
}

/// Writes fields of a document.
pub(super) async fn patch(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Derive)?;
    let (name, on) = (name_in(&name)?, condition(&headers)?);
    let FieldsBody { fields } = body.json()?;
    may_name(&visitor, &fields)?;
    with_document(&shared, &name, |document| {
        may_replace(&visitor, document, fields.keys().map(String::as_str))
    })?;
    let by = (clock::wall(), visitor.user());
    let revision = shared.shared_views.change(|views| views.patch(&name, Edit::new(fields), on, by));
    answer(&shared, revision.map_err(|it| Refused::shared_view(&it))?).await
}

/// Deletes a document.
pub(super) async fn delete(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    visitor.may_somewhere(May::Derive)?;
    let (name, on) = (name_in(&name)?, condition(&headers)?);
    may_replace_all(&shared, &visitor, &name)?;
    let deleted = shared.shared_views.change(|views| views.delete(&name, on));
    deleted.map_err(|it| Refused::shared_view(&it))?;
    kept(&shared).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Refuses to replace or delete a document that has a plot whose traces the visitor may not read.
fn may_replace_all(shared: &Shared, visitor: &Visitor, name: &ViewName) -> Result<(), Refused> {
    with_document(shared, name, |document| {
        may_replace(visitor, document, document.fields().map(|(field, _)| field))
    })
}

/// Checks a document if there is one.
fn with_document(
    shared: &Shared,
    name: &ViewName,
    check: impl FnOnce(&Document) -> Result<(), Refused>,
) -> Result<(), Refused> {
    shared.shared_views.views().document(name).map_or(Ok(()), check)
}

/// Answers once the change is on disk.
async fn answer(shared: &Arc<Shared>, revision: u64) -> Result<Response, Refused> {
    kept(shared).await?;
    Ok(([(ETAG, format!("\"{revision}\""))], Json(json!({"revision": revision}))).into_response())
}

async fn kept(shared: &Arc<Shared>) -> Result<(), Refused> {
    save(shared).await.map_err(|why| {
        let error = format!("the change is in memory, and could not be written to disk: {why}");
        let help = "make room on the monitor's disk: it is written again every 5 s until it works";
        Refused::new(StatusCode::INSUFFICIENT_STORAGE, error, help)
    })
}

fn name_in(text: &str) -> Result<ViewName, Refused> {
    text.parse().map_err(|refusal| Refused::shared_view(&refusal))
}

/// Returns the condition of a change. Source: RFC 9110 §13.1.1, §13.1.2.
fn condition(headers: &HeaderMap) -> Result<Condition, Refused> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?").trim());
    match (text(IF_NONE_MATCH), text(IF_MATCH)) {
        (None, None | Some("*")) => Ok(Condition::Always),
        (Some("*"), None) => Ok(Condition::IfNew),
        (None, Some(tag)) => tag.trim_matches('"').parse().map(Condition::IfRevision).map_err(|_| {
            Refused::bad(format!("`{tag}` is not a revision"), "send If-Match with the ETag of the document")
        }),
        (Some(_), _) => Err(Refused::bad(
            "If-None-Match with a revision is not known here",
            "send If-None-Match: * to create a document, or If-Match with its ETag to change it",
        )),
    }
}
