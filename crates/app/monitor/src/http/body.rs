//! The body of a request: JSON within bounds, refused in words.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

use super::{MAX_MESSAGE_BYTES, Refused};

/// A request's body.
pub(super) struct Body(Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let help = format!("send at most {MAX_MESSAGE_BYTES} bytes of JSON, and all that were announced");
        let bytes = Bytes::from_request(request, state).await;
        bytes.map(Self).map_err(|refused| Refused::new(refused.status(), refused.body_text(), help))
    }
}

impl Body {
    /// Reads the JSON.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let help = "docs/protocol/page.md says what this request takes";
        serde_json::from_slice(&self.0)
            .map_err(|error| Refused::bad(format!("the body cannot be read: {error}"), help))
    }
}
