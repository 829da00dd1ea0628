//! Reasons why something about a shared view is refused, each with what to do.

use crate::edit::MAX_EDIT_FIELDS;
use crate::field::MAX_ORDER;
use crate::views::{MAX_DOCUMENT_BYTES, MAX_DOCUMENTS};

/// The longest part of a refused text that is repeated, in characters.
const REPEATED_CHARACTERS: usize = 80;

/// Reason of a refusal; the second line of its text says what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is no name.
    #[error(
        "`{0}` is not a name of a shared view\nuse 1 to 64 of a-z A-Z 0-9 . _ -, and no dot at the beginning"
    )]
    Name(String),
    /// No document has this name.
    #[error("there is no shared view `{0}`\nGET /api/views lists those that exist")]
    NoView(String),
    /// No document has this read-only link.
    #[error(
        "no shared view has this read-only link\nask for a new link: its view was deleted, or it is incomplete"
    )]
    NoLink,
    /// A document of this name exists already.
    #[error("there is a shared view `{0}` already\nchoose another name, or leave out If-None-Match")]
    Exists(String),
    /// The change is of another revision than the document has.
    #[error(
        "the shared view is at revision {revision}, not {given}\nread it again, and apply the change to that"
    )]
    Stale {
        /// The revision that the change names.
        given: u64,
        /// The document's revision.
        revision: u64,
    },
    /// The edit has no field.
    #[error("the edit has no fields\nsend {{\"fields\": {{\"title\": \"…\"}}}}")]
    NoFields,
    /// The edit has too many fields.
    #[error("an edit has at most {MAX_EDIT_FIELDS} fields, not {0}\nsend it in several parts")]
    TooManyFields(usize),
    /// A document has no such field.
    #[error(
        "a shared view has no field `{0}`\nuse title, notes, window, run, cursors, single, order, or plot/ID with 1 to 16 of a-z 0-9"
    )]
    Field(String),
    /// The value does not fit the field.
    #[error("field `{field}`: {problem}\ndocs/protocol/page.md describes the fields of a shared view")]
    Value {
        /// Name of the field.
        field: String,
        /// What is wrong with its value.
        problem: String,
    },
    /// Together with plots that others have added, there are too many.
    #[error(
        "a shared view has at most {MAX_ORDER} plots, not {0}: others have added some at the same time\nremove plots, or make a second view"
    )]
    TooManyPlots(usize),
    /// The document would become too large.
    #[error(
        "a shared view has at most {MAX_DOCUMENT_BYTES} bytes, not {0}\nremove plots, traces or notes, or make a second view"
    )]
    TooLarge(usize),
    /// There are too many documents.
    #[error(
        "there are {MAX_DOCUMENTS} shared views, the most of one monitor\ndelete some that are not needed any more"
    )]
    TooManyViews,
    /// Another follower presents.
    #[error(
        "{0} presents this view: edits of others are not taken\nwait for the end of the presentation, or take it over"
    )]
    Presented(String),
    /// The follower came by a read-only link.
    #[error("this link is read-only\nask for the view's own link to edit it, or fork it")]
    ReadOnly,
    /// The visitor has no right to edit.
    #[error("{0}")]
    Right(String),
    /// The connection follows no document.
    #[error("this page follows no shared view\nfollow one first")]
    NotFollowing,
}

impl Refusal {
    /// Refuses a text as a name, of which the beginning is repeated.
    pub(crate) fn name(text: &str) -> Self {
        Self::Name(beginning(text))
    }

    /// Refuses a text as the name of a field, of which the beginning is repeated.
    pub(crate) fn field(text: &str) -> Self {
        Self::Field(beginning(text))
    }

    /// Returns its label in the metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Name(_) => "name",
            Self::NoView(_) => "no_view",
            Self::NoLink => "no_link",
            Self::Exists(_) => "exists",
            Self::Stale { .. } => "stale",
            Self::NoFields => "no_fields",
            Self::TooManyFields(_) => "too_many_fields",
            Self::Field(_) => "field",
            Self::Value { .. } => "value",
            Self::TooManyPlots(_) => "too_many_plots",
            Self::TooLarge(_) => "too_large",
            Self::TooManyViews => "too_many_views",
            Self::Presented(_) => "presented",
            Self::ReadOnly => "read_only",
            Self::Right(_) => "right",
            Self::NotFollowing => "not_following",
        }
    }
}

fn beginning(text: &str) -> String {
    let printable = text.chars().map(|it| if it.is_control() { '�' } else { it });
    printable.take(REPEATED_CHARACTERS).collect()
}
