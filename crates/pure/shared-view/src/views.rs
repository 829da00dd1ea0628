//! All shared views of a server: documents, followers, presenters; edits are taken or refused, and counted.

use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, WallTime};

use crate::document::{Author, Document};
use crate::watching::{Told, Watcher};
use crate::{
    Edit, Following, News, PRESENCE_INTERVAL, Presence, ReadOnlyId, Refusal, ViewName, WatcherId, Write,
};

/// The most documents of a server.
pub const MAX_DOCUMENTS: usize = 1_000;
/// The largest document: the JSON of its fields, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// All shared views of a server.
#[derive(Debug, Default)]
pub struct SharedViews {
    views: BTreeMap<ViewName, View>,
    links: BTreeMap<ReadOnlyId, ViewName>,
    watchers: BTreeMap<WatcherId, Watcher>,
    /// Documents that differ from their files.
    unsaved: BTreeSet<ViewName>,
    counts: Counts,
}

/// A document, and those who follow it.
#[derive(Debug)]
struct View {
    document: Document,
    watchers: BTreeSet<WatcherId>,
    presenter: Option<WatcherId>,
    /// Rises with every change of the list of watchers.
    presence: u64,
    /// Rises with every change of the presenter, which is told at once.
    presentation: u64,
    notice: (u64, String),
}

/// Condition on which a document is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// None.
    Always,
    /// There is no document of this name.
    IfNew,
    /// The document has this revision.
    IfRevision(u64),
}

/// Counts of edits: `offered` = `applied` + the sum of `refused`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Edits, replacements and deletions that were asked for.
    pub offered: u64,
    /// Those that took effect.
    pub applied: u64,
    /// Those that did not, by [`Refusal::label`].
    pub refused: BTreeMap<&'static str, u64>,
}

/// A document in the list of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Name of the document.
    pub name: ViewName,
    /// Its title; empty without one.
    pub title: String,
    /// Number of changes so far.
    pub revision: u64,
    /// Time of the last change.
    pub changed: WallTime,
    /// The user who made it.
    pub changed_by: Option<String>,
    /// Number of followers.
    pub watchers: usize,
    /// Name of the presenter: the user's, else the follower's number.
    pub presenter: Option<String>,
}

/// The content of a document that differs from its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsaved {
    /// Name of the document.
    pub name: ViewName,
    /// Its JSON; `None` if it was deleted, and with it its file is to be.
    pub content: Option<String>,
}

impl SharedViews {
    /// Takes a document that was stored; `false` if there is no room for it.
    pub fn restore(&mut self, document: Document) -> bool {
        if self.views.len() >= MAX_DOCUMENTS || self.links.contains_key(&document.read_only_id()) {
            return false;
        }
        self.add(document);
        true
    }

    /// Returns a document.
    ///
    /// # Errors
    /// `NoView` of [`Refusal`].
    pub fn document(&self, name: &ViewName) -> Result<&Document, Refusal> {
        self.view(name).map(|view| &view.document)
    }

    /// Returns all documents in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<Summary> {
        let summary = |view: &View| {
            let document = &view.document;
            Summary {
                name: document.name().clone(),
                title: document.title().to_owned(),
                revision: document.revision(),
                changed: document.changed(),
                changed_by: document.author().user.clone(),
                watchers: view.watchers.len(),
                presenter: self.presenter_of(view),
            }
        };
        self.views.values().map(summary).collect()
    }

    /// Returns the counts of edits so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how many documents there are.
    #[must_use]
    pub fn documents(&self) -> usize {
        self.views.len()
    }

    /// Returns how many follow a document.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.values().filter(|watcher| !watcher.is_gone).count()
    }

    /// Creates or replaces a document; `link` are random bits for its read-only link if it is new.
    ///
    /// # Errors
    /// `Exists`, `Stale`, `NoView`, `Presented`, `TooLarge` and `TooManyViews` of [`Refusal`].
    pub fn put(
        &mut self,
        name: &ViewName,
        fields: Result<Edit, Refusal>,
        on: Condition,
        link: ReadOnlyId,
        by: (WallTime, Option<String>),
    ) -> Result<u64, Refusal> {
        let result = fields.and_then(|edit| self.try_put(name, edit, on, link, by));
        self.count(name, result)
    }

    fn try_put(
        &mut self,
        name: &ViewName,
        edit: Edit,
        on: Condition,
        link: ReadOnlyId,
        (now, user): (WallTime, Option<String>),
    ) -> Result<u64, Refusal> {
        let author = Author { watcher: None, user };
        if !self.views.contains_key(name) {
            if let Condition::IfRevision(_) = on {
                return Err(Refusal::NoView(name.to_string()));
            }
            if self.views.len() >= MAX_DOCUMENTS {
                return Err(Refusal::TooManyViews);
            }
            let document = Document::new(name.clone(), link, edit, now, author)?;
            let revision = document.revision();
            self.add(document);
            return Ok(revision);
        }
        self.may_change(name, on)?;
        self.view_mut(name)?.document.replace(edit, now, author)
    }

    /// Writes fields of a document, as a request asks for it.
    ///
    /// # Errors
    /// `NoView`, `Stale`, `Presented` and `TooLarge` of [`Refusal`], and that of the edit itself.
    pub fn patch(
        &mut self,
        name: &ViewName,
        edit: Result<Edit, Refusal>,
        on: Condition,
        (now, user): (WallTime, Option<String>),
    ) -> Result<u64, Refusal> {
        let result = edit.and_then(|edit| {
            self.may_change(name, on)?;
            self.view_mut(name)?.document.write(edit, now, Author { watcher: None, user })
        });
        self.count(name, result)
    }

    /// Deletes a document; its followers are told.
    ///
    /// # Errors
    /// `NoView`, `Stale` and `Presented` of [`Refusal`].
    pub fn delete(&mut self, name: &ViewName, on: Condition) -> Result<(), Refusal> {
        let result = self.may_change(name, on).map(|()| {
            let view = self.views.remove(name).expect("a document that may be changed is there");
            self.links.remove(&view.document.read_only_id());
            for id in view.watchers {
                self.watchers.get_mut(&id).expect("a follower of a document is known").is_gone = true;
            }
        });
        self.count(name, result)
    }

    /// Lets a connection follow a document, and no other any more.
    ///
    /// # Errors
    /// `NoView` of [`Refusal`].
    pub fn follow(&mut self, who: Following, name: &ViewName) -> Result<(), Refusal> {
        self.view(name)?;
        self.join(who, name.clone(), false);
        Ok(())
    }

    /// Lets a connection follow the document of a read-only link.
    ///
    /// # Errors
    /// `NoLink` of [`Refusal`].
    pub fn watch(&mut self, who: Following, link: ReadOnlyId) -> Result<(), Refusal> {
        let name = self.links.get(&link).cloned().ok_or(Refusal::NoLink)?;
        self.join(who, name, true);
        Ok(())
    }

    /// Ends what a connection follows; its presentation ends with it. The document stays.
    pub fn unfollow(&mut self, id: WatcherId) {
        let Some(watcher) = self.watchers.remove(&id) else { return };
        let Some(view) = self.views.get_mut(&watcher.view) else { return };
        if view.watchers.remove(&id) {
            view.presence += 1;
            if view.presenter == Some(id) {
                view.presenter = None;
                view.presentation += 1;
            }
        }
    }

    /// Writes fields of the document that a connection follows.
    ///
    /// # Errors
    /// `NotFollowing`, `ReadOnly`, `Right`, `Presented` and `TooLarge` of [`Refusal`], and that of the edit itself.
    pub fn edit(
        &mut self,
        id: WatcherId,
        edit: Result<Edit, Refusal>,
        now: WallTime,
    ) -> Result<u64, Refusal> {
        let name = self.followed(id).cloned();
        let result = name.clone().and_then(|name| {
            let user = self.writer(id)?.user.clone();
            let view = self.view(&name)?;
            if view.presenter.is_some_and(|presenter| presenter != id) {
                return Err(self.presented(view));
            }
            let author = Author { watcher: Some(id), user };
            self.view_mut(&name)?.document.write(edit?, now, author)
        });
        match name {
            Ok(name) => self.count(&name, result),
            Err(_) => self.count_only(result),
        }
    }

    /// Takes the presentation, also from another follower, or gives it up.
    ///
    /// # Errors
    /// `NotFollowing`, `ReadOnly` and `Right` of [`Refusal`].
    pub fn present(&mut self, id: WatcherId, take: bool) -> Result<(), Refusal> {
        let name = self.followed(id)?.clone();
        let taker = self.writer(id)?.name(id);
        let before = self.view(&name)?.presenter;
        let loser =
            before.filter(|other| take && *other != id).map(|other| self.watchers[&other].name(other));
        let view = self.view_mut(&name)?;
        if take {
            view.presenter = Some(id);
        } else if before == Some(id) {
            view.presenter = None;
        }
        if view.presenter != before {
            view.presence += 1;
            view.presentation += 1;
        }
        if let Some(loser) = loser {
            view.notice = (view.notice.0 + 1, format!("{taker} presents this view now instead of {loser}"));
        }
        Ok(())
    }

    /// Returns the document that a connection follows.
    ///
    /// # Errors
    /// `NotFollowing` of [`Refusal`].
    pub fn followed(&self, id: WatcherId) -> Result<&ViewName, Refusal> {
        let watcher = self.watchers.get(&id).filter(|watcher| !watcher.is_gone);
        watcher.map(|watcher| &watcher.view).ok_or(Refusal::NotFollowing)
    }

    /// Returns what a follower does not know yet, and takes it as told.
    pub fn news(&mut self, id: WatcherId, now: Instant) -> Vec<News> {
        let Some(watcher) = self.watchers.get(&id) else { return Vec::new() };
        if watcher.is_gone {
            let name = watcher.view.clone();
            self.watchers.remove(&id);
            return vec![News::Gone(name)];
        }
        let view = self.views.get(&watcher.view).expect("a followed document is there");
        let mut told = watcher.told;
        let mut news = Vec::new();
        if told.revision != Some(view.document.revision()) {
            news.extend(document_news(id, watcher, &view.document));
            told.revision = Some(view.document.revision());
        }
        if told.notice != view.notice.0 {
            news.push(News::Notice(view.notice.1.clone()));
            told.notice = view.notice.0;
        }
        if told.presence != Some(view.presence)
            && (told.presentation != view.presentation || presence_due(&told).is_none_or(|due| now >= due))
        {
            news.push(News::Watchers { name: watcher.view.clone(), watchers: self.presence(view) });
            told.presence = Some(view.presence);
            told.presentation = view.presentation;
            told.presence_at = Some(now);
        }
        self.watchers.get_mut(&id).expect("found above").told = told;
        news
    }

    /// Returns when a follower is to be told of others who came or left, if it does not know them yet.
    #[must_use]
    pub fn due(&self, id: WatcherId) -> Option<Instant> {
        let watcher = self.watchers.get(&id)?;
        let view = self.views.get(&watcher.view)?;
        presence_due(&watcher.told).filter(|_| watcher.told.presence != Some(view.presence))
    }

    /// Returns the content of every document that differs from its file, and takes it as saved.
    pub fn take_unsaved(&mut self) -> Vec<Unsaved> {
        let names = std::mem::take(&mut self.unsaved);
        let unsaved = |name: ViewName| {
            let content = self.views.get(&name).map(|view| view.document.to_json().to_string());
            Unsaved { name, content }
        };
        names.into_iter().map(unsaved).collect()
    }

    /// Takes back that a document was saved.
    pub fn not_saved(&mut self, name: ViewName) {
        self.unsaved.insert(name);
    }

    /// Returns how many documents differ from their files.
    #[must_use]
    pub fn unsaved(&self) -> usize {
        self.unsaved.len()
    }

    fn add(&mut self, document: Document) {
        let name = document.name().clone();
        self.links.insert(document.read_only_id(), name.clone());
        let view = View {
            document,
            watchers: BTreeSet::new(),
            presenter: None,
            presence: 0,
            presentation: 0,
            notice: (0, String::new()),
        };
        self.views.insert(name, view);
    }

    fn join(&mut self, who: Following, view: ViewName, is_read_only: bool) {
        self.unfollow(who.watcher);
        let of = self.views.get_mut(&view).expect("the caller has looked it up");
        of.watchers.insert(who.watcher);
        of.presence += 1;
        // What was said before it came is not said to it.
        let told = Told { notice: of.notice.0, ..Told::default() };
        let Following { watcher: id, user, write } = who;
        self.watchers.insert(id, Watcher { view, user, write, is_read_only, is_gone: false, told });
    }

    fn view(&self, name: &ViewName) -> Result<&View, Refusal> {
        self.views.get(name).ok_or_else(|| Refusal::NoView(name.to_string()))
    }

    fn view_mut(&mut self, name: &ViewName) -> Result<&mut View, Refusal> {
        self.views.get_mut(name).ok_or_else(|| Refusal::NoView(name.to_string()))
    }

    /// Returns a follower that may edit.
    fn writer(&self, id: WatcherId) -> Result<&Watcher, Refusal> {
        let watcher = self.watchers.get(&id).ok_or(Refusal::NotFollowing)?;
        watcher.refusal().map_or(Ok(watcher), Err)
    }

    /// Checks that a request may change a document that exists.
    fn may_change(&self, name: &ViewName, on: Condition) -> Result<(), Refusal> {
        let view = self.view(name)?;
        let revision = view.document.revision();
        match on {
            Condition::IfNew => Err(Refusal::Exists(name.to_string())),
            Condition::IfRevision(given) if given != revision => Err(Refusal::Stale { given, revision }),
            Condition::IfRevision(_) | Condition::Always if view.presenter.is_some() => {
                Err(self.presented(view))
            }
            Condition::IfRevision(_) | Condition::Always => Ok(()),
        }
    }

    fn presented(&self, view: &View) -> Refusal {
        Refusal::Presented(self.presenter_of(view).unwrap_or_default())
    }

    fn presenter_of(&self, view: &View) -> Option<String> {
        view.presenter.map(|id| self.watchers[&id].name(id))
    }

    fn presence(&self, view: &View) -> Vec<Presence> {
        let presence = |id: &WatcherId| {
            let watcher = &self.watchers[id];
            Presence {
                id: *id,
                user: watcher.user.clone(),
                is_presenter: view.presenter == Some(*id),
                is_read_only: watcher.is_read_only,
            }
        };
        view.watchers.iter().map(presence).collect()
    }

    /// Counts a change of a document, which is not on disk yet if it took effect.
    fn count<T>(&mut self, name: &ViewName, result: Result<T, Refusal>) -> Result<T, Refusal> {
        if result.is_ok() {
            self.unsaved.insert(name.clone());
        }
        self.count_only(result)
    }

    fn count_only<T>(&mut self, result: Result<T, Refusal>) -> Result<T, Refusal> {
        self.counts.offered += 1;
        match &result {
            Ok(_) => self.counts.applied += 1,
            Err(refusal) => *self.counts.refused.entry(refusal.label()).or_default() += 1,
        }
        result
    }
}

impl Watcher {
    /// Returns why it may not edit.
    fn refusal(&self) -> Option<Refusal> {
        if self.is_read_only {
            return Some(Refusal::ReadOnly);
        }
        match &self.write {
            Write::Allowed => None,
            Write::Denied(rule) => Some(Refusal::Right(rule.clone())),
        }
    }
}

/// Returns the earliest time of a follower's next list of watchers.
fn presence_due(told: &Told) -> Option<Instant> {
    told.presence_at.map(|at| at + PRESENCE_INTERVAL)
}

fn document_news(id: WatcherId, watcher: &Watcher, document: &Document) -> Vec<News> {
    let changes = watcher.told.revision.and_then(|revision| document.changes_since(revision));
    let Some(changes) = changes else {
        let json = if watcher.is_read_only { document.to_json_without_link() } else { document.to_json() };
        let why_not = watcher.refusal().map(|refusal| refusal.to_string());
        return vec![News::Whole { document: json, you: id, why_not }];
    };
    let changed = changes.into_iter().map(|changes| News::Changed {
        name: document.name().clone(),
        revision: changes.revision,
        changed_by: changes.author.user.clone(),
        by: changes.author.watcher,
        fields: changes.fields,
    });
    changed.collect()
}
