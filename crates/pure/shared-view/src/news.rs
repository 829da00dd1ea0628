//! What a follower is told, as the page's protocol has it.

use serde_json::{Map, Value, json};

use crate::{ViewName, WatcherId};

/// One message to a follower.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// The whole document: after it was followed or replaced, or when too much has changed.
    Whole {
        /// In the form of `GET /api/views/NAME`.
        document: Value,
        /// The follower's own number.
        you: WatcherId,
        /// Why it may not edit; `None` if it may.
        why_not: Option<String>,
    },
    /// Fields that one author wrote.
    Changed {
        /// Name of the document.
        name: ViewName,
        /// The latest revision among them.
        revision: u64,
        /// The user who wrote them.
        changed_by: Option<String>,
        /// The follower who wrote them; `None` for a request.
        by: Option<WatcherId>,
        /// The fields with their new values; `null` for a deleted plot.
        fields: Map<String, Value>,
    },
    /// All who follow.
    Watchers {
        /// Name of the document.
        name: ViewName,
        /// In the order of their numbers.
        watchers: Vec<Presence>,
    },
    /// A sentence for the user.
    Notice(String),
    /// The document was deleted, and is followed no longer.
    Gone(ViewName),
}

/// One follower as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Presence {
    /// Its number.
    pub id: WatcherId,
    /// The user's name, if it has signed in.
    pub user: Option<String>,
    /// Whether it presents.
    pub is_presenter: bool,
    /// Whether it came by a read-only link.
    pub is_read_only: bool,
}

impl News {
    /// Returns the fields in it, which a server takes out of it that a visitor may not see.
    pub fn fields_mut(&mut self) -> Option<&mut Map<String, Value>> {
        match self {
            Self::Whole { document, .. } => document["fields"].as_object_mut(),
            Self::Changed { fields, .. } => Some(fields),
            Self::Watchers { .. } | Self::Notice(_) | Self::Gone(_) => None,
        }
    }

    /// Returns the message of the page's protocol.
    #[must_use]
    pub fn into_json(self) -> Value {
        match self {
            Self::Whole { document, you, why_not } => json!({
                "type": "shared_view", "document": document, "you": you.to_string(),
                "may_write": why_not.is_none(), "why_not": why_not,
            }),
            Self::Changed { name, revision, changed_by, by, fields } => json!({
                "type": "shared_view_changed", "name": name.as_str(), "revision": revision,
                "changed_by": changed_by, "by": by.map(|by| by.to_string()), "fields": fields,
            }),
            Self::Watchers { name, watchers } => {
                let watchers: Vec<_> = watchers.into_iter().map(Presence::into_json).collect();
                json!({"type": "watchers", "name": name.as_str(), "watchers": watchers})
            }
            Self::Notice(text) => json!({"type": "note", "level": "info", "text": text}),
            Self::Gone(name) => json!({"type": "shared_view_gone", "name": name.as_str()}),
        }
    }
}

impl Presence {
    fn into_json(self) -> Value {
        json!({
            "id": self.id.to_string(), "user": self.user,
            "presenter": self.is_presenter, "read_only": self.is_read_only,
        })
    }
}
