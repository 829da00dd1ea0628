//! Requests that steer apps: parameters listed, commands, leases, kill switches.
//!
//! The visitor's rights come first, by the monitor's own rules; the app checks by its own those of the monitor.

use std::sync::Arc;

use access::May;
use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tallycast::steering::{
    Listed, Needs, Remote, STREAM_PREFIX, Scope, SetOptions, conclusion_json, stopped_json,
};

use super::body::Body;
use crate::admission::Visitor;
use crate::refused::Refused;
use crate::shared::Shared;
use crate::steering::{Holder, Listing, Rights, SteeredApp, listing_json, value_in};

type App = State<Arc<Shared>>;

/// Header with which pages and programs without a session tell themselves apart.
const PAGE_HEADER: &str = "tallycast-page";
const MAX_PAGE_BYTES: usize = 64;

/// A command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandBody {
    parameter: String,
    value: Value,
    if_revision: Option<u64>,
    #[serde(default)]
    reason: String,
}

/// A request beside commands.
#[derive(Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
enum ActionBody {
    Lease {
        group: String,
    },
    Release {
        group: String,
    },
    TakeOver {
        group: String,
        reason: String,
    },
    Stop {
        #[serde(default)]
        scope: ScopeBody,
        reason: String,
    },
    Resume {
        #[serde(default)]
        scope: ScopeBody,
        reason: String,
    },
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScopeBody {
    #[default]
    App,
    All,
}

/// Returns the apps that can be steered and that the visitor may see.
pub(super) async fn apps(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
) -> Result<Json<Vec<Value>>, Refused> {
    visitor.may_somewhere(May::Read)?;
    let apps = shared.history.streams().into_iter().filter_map(|slot| {
        let (app, state) = {
            let memory = slot.memory();
            (SteeredApp::of(&memory.info)?, memory.state().name())
        };
        let is_seen = is_seen(&visitor, app.name.as_str(), &app.parameters);
        is_seen.then(|| json!({"app": app.name.as_str(), "state": state, "parameters": app.parameters}))
    });
    Ok(Json(apps.collect()))
}

/// Returns an app with its parameters as they stand.
pub(super) async fn app(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(app): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, Refused> {
    let app = seen(&shared, &visitor, &app)?;
    let holder = holder(&visitor, &headers)?;
    let listing = shared.desk.list(&app).await?;
    let rights = Rights {
        steer: visitor.may(May::Steer, app.name.as_str()).is_ok(),
        administer: visitor.may(May::Administer, app.name.as_str()).is_ok(),
        may: &|listed| may_change(&visitor, &app, listed).is_ok(),
        holder: &|group| shared.desk.holder(&app.name, group, &holder),
    };
    Ok(Json(listing_json(app.name.as_str(), &listing, &rights)))
}

/// Sends a command, and answers with what became of it.
pub(super) async fn command(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(app): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refused> {
    let CommandBody { parameter, value, if_revision, reason } = body.json()?;
    visitor.may(May::Steer, &format!("{app}/{parameter}"))?;
    let app = steered(&shared, &app)?;
    let holder = holder(&visitor, &headers)?;
    let listing = shared.desk.list(&app).await?;
    let Some(listed) = listing.parameters.iter().find(|it| it.parameter.name == parameter) else {
        let error = format!("the app `{app}` has no parameter `{parameter}`");
        return Err(Refused::new(StatusCode::NOT_FOUND, error, format!("GET /api/steer/{app} lists them")));
    };
    may_change(&visitor, &app, listed)?;
    let value = value_in(&value, listed.parameter.dtype, &listed.parameter.shape).ok_or_else(|| {
        let error =
            format!("the value of `{parameter}` is no number, boolean or list of them, or is too large");
        Refused::bad(error, "send a number as 2.5, a switch as true or false, an array as a list, row by row")
    })?;
    let options = SetOptions { if_revision, reason: named(&visitor, &reason), ..SetOptions::default() };
    let set = move |remote: &mut Remote| remote.set(&parameter, value.clone(), &options);
    let (id, conclusion) = shared.desk.with(&app, &visitor, &holder, set).await?;
    Ok(Json(conclusion_json(id, &conclusion)))
}

/// Takes or releases a lease, or turns a kill switch.
pub(super) async fn action(
    State(shared): App,
    Extension(visitor): Extension<Visitor>,
    Path(app): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refused> {
    match body.json()? {
        ActionBody::Lease { group } => {
            let app = leased(&shared, &visitor, &app, &group).await?;
            let holder = holder(&visitor, &headers)?;
            lease(&shared, (&visitor, &holder), &app, group, None).await
        }
        ActionBody::TakeOver { group, reason } => {
            visitor.may(May::Administer, &app)?;
            let app = leased(&shared, &visitor, &app, &group).await?;
            let holder = holder(&visitor, &headers)?;
            let reason = with_reason(&visitor, &reason)?;
            lease(&shared, (&visitor, &holder), &app, group, Some(reason)).await
        }
        ActionBody::Release { group } => {
            let app = leased(&shared, &visitor, &app, &group).await?;
            let holder = holder(&visitor, &headers)?;
            shared.desk.not_held(&app.name, &group, &holder);
            let of = group.clone();
            shared.desk.with(&app, &visitor, &holder, move |remote| remote.release(&of)).await?;
            Ok(Json(json!({"group": group})))
        }
        ActionBody::Stop { scope, reason } => {
            visitor.may(May::Steer, &app)?;
            switch(&shared, &visitor, &app, scope, true, &reason).await
        }
        ActionBody::Resume { scope, reason } => {
            visitor.may(May::Administer, &app)?;
            switch(&shared, &visitor, &app, scope, false, &reason).await
        }
    }
}

async fn lease(
    shared: &Shared,
    of: (&Visitor, &Holder),
    app: &SteeredApp,
    group: String,
    take_over: Option<String>,
) -> Result<Json<Value>, Refused> {
    let asked = group.clone();
    let take = move |remote: &mut Remote| match &take_over {
        Some(reason) => remote.take_over(&asked, reason),
        None => remote.lease(&asked),
    };
    let granted = match shared.desk.with(app, of.0, of.1, take).await {
        Ok(granted) => granted,
        Err(refused) => {
            shared.desk.not_held(&app.name, &group, of.1);
            return Err(refused);
        }
    };
    shared.desk.granted(&app.name, &group, of, granted);
    let valid_ns = u64::try_from(granted.until.since(granted.clock).as_nanos()).unwrap_or(u64::MAX);
    Ok(Json(json!({"group": group, "valid_ns": valid_ns})))
}

async fn switch(
    shared: &Shared,
    visitor: &Visitor,
    app: &str,
    scope: ScopeBody,
    is_on: bool,
    reason: &str,
) -> Result<Json<Value>, Refused> {
    let app = steered(shared, app)?;
    let reason = with_reason(visitor, reason)?;
    let scope = match scope {
        ScopeBody::App => Scope::App,
        ScopeBody::All => Scope::All,
    };
    let switches = shared.desk.at_once(&app, move |remote| remote.switch(scope, is_on, &reason)).await?;
    Ok(Json(json!({"stopped": stopped_json(switches)})))
}

/// Checks that the visitor may change a parameter.
fn may_change(visitor: &Visitor, app: &SteeredApp, listed: &Listed) -> Result<(), Refused> {
    let stream = format!("{app}/{}", listed.parameter.name);
    visitor.may(May::Steer, &stream)?;
    visitor.may(listed.parameter.who, &stream)
}

/// Checks that the visitor may steer a parameter of a group.
async fn leased(shared: &Shared, visitor: &Visitor, app: &str, group: &str) -> Result<SteeredApp, Refused> {
    let app = seen(shared, visitor, app)?;
    let listing: Arc<Listing> = shared.desk.list(&app).await?;
    let needs = Needs::Lease { group: group.to_owned() };
    let members = listing.parameters.iter().filter(|listed| listed.parameter.needs == needs);
    let mut rights =
        members.map(|listed| visitor.may(May::Steer, &format!("{app}/{}", listed.parameter.name)));
    let Some(first) = rights.next() else {
        let error = format!("no parameter of `{app}` needs a lease of `{group}`");
        return Err(Refused::new(StatusCode::NOT_FOUND, error, format!("GET /api/steer/{app} lists them")));
    };
    if first.is_err() && !rights.any(|right| right.is_ok()) {
        first?;
    }
    Ok(app)
}

/// Returns whether a visitor may see an app: by reading the stream of its commands, or by steering a parameter.
fn is_seen(visitor: &Visitor, app: &str, parameters: &[String]) -> bool {
    let steers = |name: &String| visitor.may(May::Steer, &format!("{app}/{name}")).is_ok();
    visitor.reads(&format!("{STREAM_PREFIX}{app}")) || parameters.iter().any(steers)
}

/// Returns an app that the visitor may see. One that it may not is refused by the rule, whether it exists or not.
fn seen(shared: &Shared, visitor: &Visitor, app: &str) -> Result<SteeredApp, Refused> {
    let known = known(shared, app);
    let parameters = known.as_ref().map_or(&[][..], |app| &app.parameters[..]);
    if !is_seen(visitor, app, parameters) {
        visitor.may(May::Read, &format!("{STREAM_PREFIX}{app}"))?;
    }
    steered(shared, app)
}

/// Returns an app of whose commands the monitor sees a stream.
fn steered(shared: &Shared, app: &str) -> Result<SteeredApp, Refused> {
    known(shared, app).ok_or_else(|| {
        let help = "GET /api/steer lists those that can; POST /api/join joins more streams, such as steer/**";
        let error = format!("this monitor sees no app `{app}` that can be steered");
        Refused::new(StatusCode::NOT_FOUND, error, help)
    })
}

fn known(shared: &Shared, app: &str) -> Option<SteeredApp> {
    let slot = shared.history.stream(&format!("{STREAM_PREFIX}{app}"))?;
    let info = Arc::clone(&slot.memory().info);
    SteeredApp::of(&info)
}

/// Returns whose connection and leases a request is about.
fn holder(visitor: &Visitor, headers: &HeaderMap) -> Result<Holder, Refused> {
    let page = headers.get(PAGE_HEADER).map_or(Some(""), |value| value.to_str().ok());
    let page = page.filter(|text| text.len() <= MAX_PAGE_BYTES).ok_or_else(|| {
        Refused::bad(
            "the header Tallycast-Page cannot be used",
            format!("send at most {MAX_PAGE_BYTES} letters and digits that nothing else sends"),
        )
    })?;
    Ok(match visitor.session() {
        Some(session) => Holder::Session(session),
        None => Holder::Page { principal: visitor.name(), page: page.to_owned() },
    })
}

/// Returns the reason for the app's log, which knows the monitor's connection only: it begins with the visitor.
fn named(visitor: &Visitor, reason: &str) -> String {
    match reason.trim() {
        "" => visitor.name(),
        reason => format!("{}: {reason}", visitor.name()),
    }
}

/// As [`named`], where a reason is required.
fn with_reason(visitor: &Visitor, reason: &str) -> Result<String, Refused> {
    if reason.trim().is_empty() {
        return Err(Refused::bad("a reason is missing", "write for the log why it is done"));
    }
    Ok(named(visitor, reason))
}
