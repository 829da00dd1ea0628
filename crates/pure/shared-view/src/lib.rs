//! Shared views: documents that say what pages show, edited by several people at one time.
//!
//! A [`Document`] has fields, each with the revision at which it was last written; the last writer of a field wins.
//! [`SharedViews`] holds all documents and those who follow them, takes edits or refuses them with a [`Refusal`], and
//! tells each follower what it does not know yet ([`News`]): nothing is queued for a slow follower, who gets the newest
//! values of the fields that changed. There is no clock, disk or socket here; the messages are described in
//! `docs/protocol/page.md`.

mod document;
mod edit;
mod field;
mod name;
mod news;
mod order;
mod refusal;
mod views;
mod watching;

pub use document::{Author, Damage, Document};
pub use edit::{Edit, MAX_EDIT_FIELDS};
pub use field::{
    MAX_NOTES_CHARACTERS, MAX_ORDER, MAX_PANEL_CHARACTERS, MAX_PLOT_ID_BYTES, MAX_TITLE_CHARACTERS,
    MAX_TRACES,
};
pub use name::{MAX_NAME_BYTES, ReadOnlyId, ViewName};
pub use news::{News, Presence};
pub use refusal::Refusal;
pub use views::{Condition, Counts, MAX_DOCUMENT_BYTES, MAX_DOCUMENTS, SharedViews, Summary, Unsaved};
pub use watching::{Following, PRESENCE_INTERVAL, WatcherId, Write};
