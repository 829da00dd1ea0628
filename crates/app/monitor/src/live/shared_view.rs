//! A connection that follows a shared view: the page's messages about it, and what the page is told.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared_view::{Edit, Following, News, Refusal, WatcherId};

use super::{Connection, Gone};
use crate::clock;
use crate::shared_views::rights::{hide, may_name, may_replace, write_of};

/// Message of a page about a shared view.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ViewMessage {
    /// Follow the document of this name, or of this read-only link.
    Follow { name: Option<String>, read_only_id: Option<String> },
    /// Follow no longer.
    Unfollow,
    /// Write these fields.
    Edit {
        fields: Map<String, Value>,
        /// Revision at which the page was told the order last.
        order_revision: Option<u64>,
    },
    /// Take the presentation, or give it up.
    Present { take: bool },
}

/// The type of any message.
#[derive(Deserialize)]
struct OfType {
    r#type: String,
}

/// Returns whether a message is about a shared view; one that cannot be read is not.
pub(super) fn is_about_one(text: &str) -> bool {
    let of_type = serde_json::from_str::<OfType>(text).map(|it| it.r#type);
    of_type.is_ok_and(|it| matches!(it.as_str(), "follow" | "unfollow" | "edit" | "present"))
}

impl Connection {
    /// Follows a message about a shared view, or says why not.
    pub(super) async fn about_shared_view(&mut self, text: &str) -> Result<(), Gone> {
        match serde_json::from_str(text) {
            Ok(ViewMessage::Follow { name, read_only_id }) => self.follow_view(name, read_only_id).await,
            Ok(ViewMessage::Unfollow) => {
                self.leave_shared_view();
                Ok(())
            }
            Ok(ViewMessage::Edit { fields, order_revision }) => self.edit_view(fields, order_revision).await,
            Ok(ViewMessage::Present { take }) => {
                let watcher = self.watcher();
                match self.shared.shared_views.change(|views| views.present(watcher, take)) {
                    Ok(()) => Ok(()),
                    Err(refusal) => self.refuse(&one_line(&refusal.to_string())).await,
                }
            }
            Err(error) => self.refuse(&format!("a message of the page cannot be read: {error}")).await,
        }
    }

    async fn follow_view(&mut self, name: Option<String>, link: Option<String>) -> Result<(), Gone> {
        let user = self.visitor.user();
        let who = Following { watcher: self.watcher(), user, write: write_of(&self.visitor) };
        let board = &self.shared.shared_views;
        let followed = match (&name, &link) {
            (_, Some(link)) => link.parse().and_then(|link| board.change(|views| views.watch(who, link))),
            (Some(name), None) => {
                name.parse().and_then(|name| board.change(|views| views.follow(who, &name)))
            }
            (None, None) => Err(Refusal::NoView(String::new())),
        };
        let Err(refusal) = followed else {
            (self.follows_view, self.view_due) = (true, Some(Instant::now()));
            return Ok(());
        };
        // A link that does not exist is one that is gone: the page follows nothing.
        self.leave_shared_view();
        self.say(json!({"type": "shared_view_gone", "name": name}).to_string()).await?;
        self.refuse(&one_line(&refusal.to_string())).await
    }

    async fn edit_view(
        &mut self,
        fields: Map<String, Value>,
        order_revision: Option<u64>,
    ) -> Result<(), Gone> {
        let watcher = self.watcher();
        let names: Vec<String> = fields.keys().cloned().collect();
        let board = &self.shared.shared_views;
        let followed = board.views().followed(watcher).cloned();
        let rights = may_name(&self.visitor, &fields).and_then(|()| match &followed {
            Ok(name) => board.views().document(name).map_or(Ok(()), |document| {
                may_replace(&self.visitor, document, names.iter().map(String::as_str))
            }),
            Err(_) => Ok(()),
        });
        let edit = match &rights {
            Ok(()) => Edit::new(fields).map(|edit| match order_revision {
                Some(revision) => edit.knowing_order(revision),
                None => edit,
            }),
            Err(refused) => Err(Refusal::Right(refused.line())),
        };
        if let Err(refused) = &rights {
            self.shared.refusals.visitor(refused.label());
        }
        let edited = board.change(|views| views.edit(watcher, edit, clock::wall()));
        let Err(refusal) = edited else { return Ok(()) };
        let text = one_line(&refusal.to_string());
        let name = followed.as_ref().ok().map(|name| name.as_str());
        let refused = json!({"type": "shared_view_refused", "name": name, "fields": names, "text": text});
        self.say(refused.to_string()).await?;
        self.refuse(&text).await
    }

    /// Tells the page what it does not know yet of the view that it follows.
    pub(super) async fn tell_shared_view(&mut self) -> Result<(), Gone> {
        if self.view_due.is_none_or(|due| due > Instant::now()) {
            return Ok(());
        }
        let (watcher, now) = (self.watcher(), sys::clock::monotonic());
        let news = {
            let mut views = self.shared.shared_views.views();
            let news = views.news(watcher, now);
            // Others who come or leave are gathered.
            let wait = |due: units::Instant| if due > now { due.since(now) } else { Duration::ZERO };
            self.view_due = views.due(watcher).map(|due| Instant::now() + wait(due));
            news
        };
        for mut news in news {
            self.follows_view &= !matches!(news, News::Gone(_));
            if let Some(fields) = news.fields_mut() {
                hide(&self.visitor, fields);
            }
            self.say(news.into_json().to_string()).await?;
        }
        Ok(())
    }

    /// Ends what the connection follows.
    pub(super) fn leave_shared_view(&mut self) {
        self.view_due = None;
        if std::mem::take(&mut self.follows_view) {
            let watcher = self.watcher();
            self.shared.shared_views.change(|views| views.unfollow(watcher));
        }
    }

    const fn watcher(&self) -> WatcherId {
        WatcherId(self.slot.number)
    }
}

/// Returns a refusal and what helps as one sentence for a note.
fn one_line(text: &str) -> String {
    text.replacen('\n', "; ", 1)
}
