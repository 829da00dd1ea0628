//! The body of a request: JSON within bounds, with errors as text.

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, Request};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::time::timeout;

use crate::admission::Visitor;
use crate::config::MAX_MESSAGE_BYTES;
use crate::connections::{Caller, Closed};
use crate::refused::Refused;
use crate::shared::Shared;

/// A request's body.
pub(super) struct Body(Bytes);

impl FromRequest<Arc<Shared>> for Body {
    type Rejection = Refused;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, Refused> {
        let patience = shared.slots.bounds.patience;
        let caller = request.extensions().get::<ConnectInfo<Caller>>().cloned();
        let visitor = request.extensions().get::<Visitor>().cloned();
        let help = format!("send at most {MAX_MESSAGE_BYTES} bytes of JSON, as many as announced");
        let Ok(bytes) = timeout(patience, Bytes::from_request(request, shared)).await else {
            if let Some(ConnectInfo(caller)) = caller {
                shared.slots.tally.closed(Closed::Slow, &caller.source());
            }
            return Err(Refused::slow(patience));
        };
        // The rights were those at the head; the body may come much later.
        if visitor.is_some_and(|visitor| !visitor.is_still_admitted(&shared.gatekeeper)) {
            return Err(Refused::revoked());
        }
        bytes.map(Self).map_err(|refused| Refused::new(refused.status(), refused.body_text(), help))
    }
}

impl Body {
    /// Reads the JSON; `None`, without a word of it, if it is malformed.
    pub(super) fn quietly<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.0).ok()
    }

    /// Reads the JSON.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let help = "docs/protocol/page.md describes this request";
        serde_json::from_slice(&self.0)
            .map_err(|error| Refused::bad(format!("malformed body: {error}"), help))
    }
}
