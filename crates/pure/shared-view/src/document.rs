//! A document: what a page shows, field by field, each with the revision at which it was last written.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use units::WallTime;

use crate::field::{self, ORDER, is_plot};
use crate::order::Places;
use crate::{Edit, MAX_DOCUMENT_BYTES, ReadOnlyId, Refusal, ViewName, WatcherId};

/// Deleted plots that are remembered, so that followers hear of them one by one.
const MAX_REMEMBERED: usize = 256;

/// The party that wrote a field.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Author {
    /// The follower, if the edit came over its connection.
    pub watcher: Option<WatcherId>,
    /// The user's name, if it has signed in.
    pub user: Option<String>,
}

/// A shared view's document.
#[derive(Clone, Debug)]
pub struct Document {
    name: ViewName,
    revision: u64,
    changed: WallTime,
    author: Arc<Author>,
    read_only_id: ReadOnlyId,
    fields: BTreeMap<String, Field>,
    /// Plots that were deleted since `whole_since`.
    deleted: BTreeMap<String, Written>,
    /// A follower that knows an earlier revision is told the whole document.
    whole_since: u64,
    size_bytes: usize,
    places: Places,
}

#[derive(Clone, Debug)]
struct Field {
    value: Value,
    written: Written,
}

#[derive(Clone, Debug)]
struct Written {
    revision: u64,
    author: Arc<Author>,
}

/// The fields that one author wrote since a revision, with the last revision among them.
pub(crate) struct Changes {
    pub(crate) revision: u64,
    pub(crate) author: Arc<Author>,
    pub(crate) fields: Map<String, Value>,
}

/// Reason why a stored document cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The text is no JSON.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// A part is missing or has another type.
    #[error("`{0}` is missing or has another type")]
    Part(&'static str),
    /// It has another name than its file.
    #[error("it is a document of another name than its file: `{0}`")]
    Name(String),
    /// A document may not have these fields.
    #[error("{0}")]
    Fields(Refusal),
}

impl Document {
    /// Makes a document of these fields, at revision 1.
    ///
    /// # Errors
    /// `TooLarge` of [`Refusal`].
    pub(crate) fn new(
        name: ViewName,
        read_only_id: ReadOnlyId,
        edit: Edit,
        now: WallTime,
        author: Author,
    ) -> Result<Self, Refusal> {
        let mut document = Self {
            name,
            revision: 0,
            changed: now,
            author: Arc::new(author.clone()),
            read_only_id,
            fields: BTreeMap::new(),
            deleted: BTreeMap::new(),
            whole_since: 1,
            size_bytes: 0,
            places: Places::default(),
        };
        document.write(edit, now, author)?;
        Ok(document)
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &ViewName {
        &self.name
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the time of the last change.
    #[must_use]
    pub const fn changed(&self) -> WallTime {
        self.changed
    }

    /// Returns the author of the last change.
    #[must_use]
    pub fn author(&self) -> &Author {
        &self.author
    }

    /// Returns the id of its read-only link.
    #[must_use]
    pub const fn read_only_id(&self) -> ReadOnlyId {
        self.read_only_id
    }

    /// Returns a field's value.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).map(|field| &field.value)
    }

    /// Returns the fields with their values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), &field.value))
    }

    /// Writes the fields of an edit; all of them or none.
    ///
    /// # Errors
    /// `TooManyPlots` and `TooLarge` of [`Refusal`].
    pub(crate) fn write(&mut self, edit: Edit, now: WallTime, author: Author) -> Result<u64, Refusal> {
        let edit = self.with_unknown_plots(edit)?;
        let size_bytes = edit.fields().fold(self.size_bytes, |size, (name, value)| {
            let before = self.fields.get(name).map_or(0, |field| size_of(name, &field.value));
            let is_deleted = is_plot(name) && value.is_null();
            size - before + if is_deleted { 0 } else { size_of(name, value) }
        });
        if size_bytes > MAX_DOCUMENT_BYTES {
            return Err(Refusal::TooLarge(size_bytes));
        }
        self.size_bytes = size_bytes;
        self.revision += 1;
        self.changed = now;
        self.author = Arc::new(author);
        let written = Written { revision: self.revision, author: Arc::clone(&self.author) };
        for (name, value) in edit.into_fields() {
            if is_plot(&name) && value.is_null() {
                // Told also of one that never was: its writer waits for the answer.
                self.fields.remove(&name);
                self.deleted.insert(name, written.clone());
            } else {
                self.deleted.remove(&name);
                if name == ORDER {
                    self.places.write(&value, self.revision);
                }
                self.fields.insert(name, Field { value, written: written.clone() });
            }
        }
        if self.deleted.len() > MAX_REMEMBERED {
            self.forget_changes();
        }
        Ok(self.revision)
    }

    /// Replaces all fields.
    ///
    /// # Errors
    /// `TooLarge` of [`Refusal`].
    pub(crate) fn replace(&mut self, edit: Edit, now: WallTime, author: Author) -> Result<u64, Refusal> {
        let mut next = Self {
            fields: BTreeMap::new(),
            deleted: BTreeMap::new(),
            size_bytes: 0,
            places: Places::default(),
            ..self.clone()
        };
        next.write(edit, now, author)?;
        next.forget_changes();
        *self = next;
        Ok(self.revision)
    }

    /// Returns the edit with an order in which plots that its writer did not know have a place, too.
    fn with_unknown_plots(&self, edit: Edit) -> Result<Edit, Refusal> {
        let (Some(known), Some(mine), Some(theirs)) =
            (edit.order_revision(), edit.field(ORDER), self.field(ORDER))
        else {
            return Ok(edit);
        };
        let exists = |id: &str| {
            let name = field::plot_field(id);
            edit.field(&name).or_else(|| self.field(&name)).is_some_and(|plot| !plot.is_null())
        };
        let order = self.places.merged(theirs, mine, known, exists);
        edit.with_order(order)
    }

    /// Makes that every follower is told the whole document next.
    fn forget_changes(&mut self) {
        self.deleted.clear();
        self.whole_since = self.revision;
    }

    /// Returns the changes since a revision, by author, the latest last; `None` if the whole document is to be told.
    pub(crate) fn changes_since(&self, revision: u64) -> Option<Vec<Changes>> {
        if revision < self.whole_since {
            return None;
        }
        let mut by_author: BTreeMap<&Arc<Author>, Changes> = BTreeMap::new();
        let kept = self.fields.iter().map(|(name, field)| (name, &field.written, field.value.clone()));
        let deleted = self.deleted.iter().map(|(name, written)| (name, written, Value::Null));
        for (name, written, value) in kept.chain(deleted) {
            if written.revision > revision {
                let author = &written.author;
                let changes = by_author.entry(author).or_insert_with(|| Changes {
                    revision: 0,
                    author: Arc::clone(author),
                    fields: Map::new(),
                });
                changes.revision = changes.revision.max(written.revision);
                changes.fields.insert(name.clone(), value);
            }
        }
        let mut changes: Vec<_> = by_author.into_values().collect();
        changes.sort_by_key(|changes| changes.revision);
        Some(changes)
    }

    /// Returns the document in the form of the page's protocol and of its file, with its read-only link.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = self.to_json_without_link();
        json["read_only_id"] = self.read_only_id.to_string().into();
        json
    }

    /// Returns the document as it is told to those who came by the link, or know it already.
    #[must_use]
    pub fn to_json_without_link(&self) -> Value {
        let fields: Map<_, _> =
            self.fields.iter().map(|(name, field)| (name.clone(), field.value.clone())).collect();
        let revisions: Map<_, _> =
            self.fields.iter().map(|(name, field)| (name.clone(), field.written.revision.into())).collect();
        json!({
            "name": self.name.as_str(),
            "title": self.title(),
            "revision": self.revision,
            "changed_ns": self.changed.as_nanos(),
            "changed_by": self.author.user,
            "fields": fields,
            "field_revisions": revisions,
        })
    }

    /// Returns the title; empty without one.
    #[must_use]
    pub fn title(&self) -> &str {
        self.field("title").and_then(Value::as_str).unwrap_or_default()
    }

    /// Reads a document in the form of [`Self::to_json`] from the file of this name.
    ///
    /// # Errors
    /// [`Damage`], if a part is missing or wrong.
    pub fn from_json(name: ViewName, text: &[u8]) -> Result<Self, Damage> {
        let mut json: Value = serde_json::from_slice(text).map_err(|it| Damage::NotJson(it.to_string()))?;
        let given = json["name"].as_str().ok_or(Damage::Part("name"))?;
        if given != name.as_str() {
            return Err(Damage::Name(given.escape_default().take(80).collect()));
        }
        let revision = json["revision"].as_u64().filter(|it| *it > 0).ok_or(Damage::Part("revision"))?;
        let changed = json["changed_ns"].as_i64().ok_or(Damage::Part("changed_ns"))?;
        let link = json["read_only_id"].as_str().and_then(|text| text.parse().ok());
        let author = Arc::new(Author { watcher: None, user: json["changed_by"].as_str().map(str::to_owned) });
        let Value::Object(values) = json["fields"].take() else { return Err(Damage::Part("fields")) };
        let mut size_bytes = 0;
        let mut fields = BTreeMap::new();
        for (name, value) in values {
            field::check(&name, &value).map_err(Damage::Fields)?;
            size_bytes += size_of(&name, &value);
            let of_field = json["field_revisions"][&name].as_u64();
            let of_field = of_field.filter(|it| *it <= revision).ok_or(Damage::Part("field_revisions"))?;
            let written = Written { revision: of_field, author: Arc::clone(&author) };
            fields.insert(name, Field { value, written });
        }
        if size_bytes > MAX_DOCUMENT_BYTES {
            return Err(Damage::Fields(Refusal::TooLarge(size_bytes)));
        }
        let mut places = Places::default();
        if let Some(order) = fields.get(ORDER) {
            places.write(&order.value, order.written.revision);
        }
        Ok(Self {
            name,
            revision,
            changed: WallTime::from_nanos(changed),
            author,
            read_only_id: link.ok_or(Damage::Part("read_only_id"))?,
            fields,
            deleted: BTreeMap::new(),
            whole_since: revision,
            size_bytes,
            places,
        })
    }
}

/// Returns what a field adds to the size of a document: its JSON.
fn size_of(name: &str, value: &Value) -> usize {
    // Quotation marks, colon and comma.
    name.len() + 4 + value.to_string().len()
}
