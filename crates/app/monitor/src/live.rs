//! The WebSocket: one task per viewer that follows the page's requests and sends what is due.
//!
//! Nothing is queued for a viewer: every text and every frame is made when it can be sent, from the newest data. A
//! socket that accepts nothing for half a minute is closed, and so is a page that answers no ping. Start with
//! [`serve`].

mod alarms;
mod shared_view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use access::May;
use alarms::ToldAlarms;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::{FutureExt as _, SinkExt as _};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{sleep_until, timeout};

use crate::account::account_of;
use crate::admission::Visitor;
use crate::clock;
use crate::config::MAX_MESSAGE_BYTES;
use crate::connections::{Closed, Due, Liveness};
use crate::refused::Reason;
use crate::relay_status::add_relay;
use crate::revocation::{CLOSE_PATIENCE, CloseReason, revoked};
use crate::runs::ALL_RUNS;
use crate::server_info::ServerInfo;
use crate::shared::Shared;
use crate::stored::{HistoryStore, StoreFailure, StoredRequest, StoredSpan};
use crate::viewer::{
    MAX_VIEWS, PageMessage, SampleAnswer, SampleQuestion, Scenery, StoreQuestion, Viewer, confirmed_by,
};
use crate::viewers::ViewerSlot;

/// Time after a page's last message of its own, in which the next one is read as soon as it comes.
const TALK: Duration = Duration::from_secs(2);
/// The most confirmations that are read in one beat: a page sends one.
const MAX_CONFIRMATIONS: usize = 16;
/// Interval at which lists and accounts are sent.
const TELL: Duration = Duration::from_millis(500);
/// Interval at which the viewer's own losses are sent.
const TELL_LOSSES: Duration = Duration::from_secs(2);

/// Reason for closing a connection that cannot be read any further; at most 123 bytes.
const UNREADABLE: &str = "what came cannot be read: send UTF-8 text, see docs/protocol/page.md";

/// Error for a closed connection; the cause does not matter, the page reconnects by itself.
struct Gone;

/// Answers of the store to questions of the views.
enum Answers {
    Spans(Vec<Answer>),
    Samples(Vec<SampleAnswer>),
}

/// Questions to the store.
enum Questions {
    Spans(Vec<StoreQuestion>),
    Samples(Vec<SampleQuestion>),
}

impl Questions {
    fn is_empty(&self) -> bool {
        match self {
            Self::Spans(questions) => questions.is_empty(),
            Self::Samples(questions) => questions.is_empty(),
        }
    }

    /// Asks the store. May take long.
    fn answer(self, store: &dyn HistoryStore) -> Answers {
        match self {
            Self::Spans(all) => Answers::Spans(all.into_iter().map(|it| answer_of(store, it)).collect()),
            Self::Samples(all) => Answers::Samples(all.into_iter().map(|it| it.answer(store)).collect()),
        }
    }
}

/// Serves one viewer until it leaves.
pub(crate) async fn serve(socket: WebSocket, shared: Arc<Shared>, slot: ViewerSlot, visitor: Visitor) {
    let (answer, answers) = mpsc::channel(MAX_VIEWS);
    let viewer = Viewer::new(slot.number, Arc::clone(&shared.renditions));
    let liveness = Liveness::new(shared.slots.bounds.patience, Instant::now());
    let mut connection = Connection {
        socket,
        shared,
        slot,
        viewer,
        answer,
        told: Instant::now(),
        told_losses: Instant::now(),
        next_look: Instant::now(),
        talked: Instant::now(),
        liveness,
        noted: String::new(),
        visitor: visitor.clone(),
        follows_view: false,
        view_due: None,
        alarms: ToldAlarms::default(),
        told_runs: None,
    };
    let asked = Arc::clone(&connection.shared);
    tokio::select! {
        biased;
        () = revoked(&asked.gatekeeper, &visitor) => connection.turn_away().await,
        // The page left or was dropped: there is no recipient for an error.
        _ = connection.run(answers) => {}
    }
    connection.leave_shared_view();
    // Elements not yet shown to it are lost.
    connection.viewer.count_losses(scenery(&connection.shared));
    connection.slot.count(connection.viewer.counts());
}

struct Connection {
    socket: WebSocket,
    shared: Arc<Shared>,
    slot: ViewerSlot,
    viewer: Viewer,
    answer: mpsc::Sender<Answers>,
    told: Instant,
    told_losses: Instant,
    /// When a frame may be due next.
    next_look: Instant,
    /// Time of the page's last message that was more than a confirmation.
    talked: Instant,
    liveness: Liveness,
    /// The last note, which is not repeated.
    noted: String,
    visitor: Visitor,
    /// True while it follows a shared view.
    follows_view: bool,
    /// When the page is to be told of that view.
    view_due: Option<Instant>,
    alarms: ToldAlarms,
    /// The change of runs that the page was told of last.
    told_runs: Option<u64>,
}

impl Connection {
    /// Closes the connection of a visitor whose rights have changed, with the rule; its page asks again.
    async fn turn_away(&mut self) {
        // Rules that changed back meanwhile have changed nevertheless.
        let ended = self.visitor.ended(&self.shared.gatekeeper, self.viewer.streams());
        let ground = ended.unwrap_or_else(Reason::rules_changed);
        self.shared.refusals.visitor(&ground.label);
        self.shared.slots.tally.closed(Closed::Revoked, &self.slot.source);
        let reason = CloseReason::new(&ground).into_text();
        let close = CloseFrame { code: close_code::POLICY, reason: reason.into() };
        // It is closed anyway; a page that accepts nothing does not hear why.
        drop(timeout(CLOSE_PATIENCE, self.socket.send(Message::Close(Some(close)))).await);
    }

    async fn run(&mut self, mut answers: mpsc::Receiver<Answers>) -> Result<(), Gone> {
        let mut stopping = self.shared.stopping.subscribe();
        let mut shared_views = self.shared.shared_views.subscribe();
        let mut alarms = self.shared.alarms.subscribe();
        let mut runs = self.shared.runs.subscribe();
        let server = ServerInfo::of(&self.shared);
        let hello = json!({"type": "hello", "page_protocol": wire::PAGE_VERSION, "server": server});
        self.say(hello.to_string()).await?;
        self.tell().await?;
        loop {
            let next = tokio::time::Instant::from_std(self.next_look());
            // In this order: the page's liveness is checked only after all received messages were handled.
            tokio::select! {
                biased;
                _ = stopping.changed() => {
                    return self.send(Message::Close(None)).await;
                }
                // Before the page's messages, which may arrive without end; answers come at most as often as it asks.
                Some(answers) = answers.recv() => self.take(answers).await?,
                // An error means that the monitor is gone, which `stopping` tells.
                Ok(()) = shared_views.changed(), if self.follows_view => self.view_due = Some(Instant::now()),
                Ok(()) = alarms.changed() => self.alarms.changed(),
                Ok(()) = runs.changed() => {}
                heard = self.socket.recv(), if self.reads_at_once() => {
                    // Nothing follows from a confirmation until the next look, which confirmations without end do not
                    // prevent.
                    if self.hear_or_confirm(heard).await? && Instant::now() < self.next_look {
                        continue;
                    }
                }
                () = sleep_until(next) => {
                    self.hear_confirmations().await?;
                    self.check_liveness().await?;
                }
            }
            self.tell_shared_view().await?;
            self.speak().await?;
        }
    }

    fn next_look(&self) -> Instant {
        let next = if self.viewer.watches() {
            self.next_look
        } else if self.viewer.visible {
            self.told + TELL
        } else {
            self.liveness.next()
        };
        let next = self.view_due.map_or(next, |due| next.min(due));
        let alarms = self.alarms.next().filter(|_| self.viewer.visible);
        let next = alarms.map_or(next, |due| next.min(due));
        next.min(self.liveness.next())
    }

    /// Returns whether messages are read as they come. A page that watches and says nothing but that it has drawn frames
    /// is read when it is looked at, so that a beat wakes the connection once.
    fn reads_at_once(&self) -> bool {
        !self.viewer.watches() || self.talked.elapsed() < TALK
    }

    /// Reads the confirmations that have come, up to another message.
    async fn hear_confirmations(&mut self) -> Result<(), Gone> {
        for _ in 0..MAX_CONFIRMATIONS {
            let Some(heard) = self.socket.recv().now_or_never() else { break };
            if !self.hear_or_confirm(heard).await? {
                break;
            }
        }
        Ok(())
    }

    /// Takes back the credit of frames that a message confirms, and returns true, or handles another message.
    async fn hear_or_confirm(&mut self, heard: Option<Result<Message, axum::Error>>) -> Result<bool, Gone> {
        self.liveness.heard();
        if let Some(frames) = confirmation(&heard) {
            self.viewer.confirm(&frames);
            return Ok(true);
        }
        self.hear(heard).await?;
        Ok(false)
    }

    /// Pings the page when a ping is due, and drops it once it has answered none.
    async fn check_liveness(&mut self) -> Result<(), Gone> {
        match self.liveness.due(Instant::now()) {
            Due::Nothing => Ok(()),
            Due::Ping => self.send(Message::Ping(Vec::new().into())).await,
            Due::End => {
                self.shared.slots.tally.closed(Closed::Silent, &self.slot.source);
                Err(Gone)
            }
        }
    }

    async fn hear(&mut self, heard: Option<Result<Message, axum::Error>>) -> Result<(), Gone> {
        match heard {
            Some(Ok(Message::Text(text))) => {
                self.talked = Instant::now();
                self.follow(&text).await
            }
            // Pings are answered by the library.
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Binary(_))) => self.refuse("binary messages go to the page only").await,
            Some(Ok(Message::Close(_))) | None => Err(Gone),
            Some(Err(_)) => {
                // Far too long, or not text: it cannot be skipped. If the page is gone, the reason is not delivered.
                self.shared.refusals.message();
                let close = CloseFrame { code: close_code::POLICY, reason: UNREADABLE.into() };
                self.send(Message::Close(Some(close))).await?;
                Err(Gone)
            }
        }
    }

    /// Follows a message of the page, or sends an error.
    async fn follow(&mut self, text: &str) -> Result<(), Gone> {
        if text.len() > MAX_MESSAGE_BYTES {
            let given = text.len();
            return self
                .refuse(&format!(
                    "a message has at most {MAX_MESSAGE_BYTES} bytes, not {given}; send less at once"
                ))
                .await;
        }
        if shared_view::is_about_one(text) {
            return self.about_shared_view(text).await;
        }
        let mut message = match serde_json::from_str::<PageMessage>(text) {
            Ok(message) => message,
            Err(error) => {
                return self.refuse(&format!("a message of the page cannot be read: {error}")).await;
            }
        };
        // Its bounds first: rights are asked for every trace.
        if let Err(refused) = message.check() {
            return self.refuse(&refused).await;
        }
        for stream in message.streams() {
            if let Err(refused) = self.visitor.may(May::Read, stream) {
                // A name of no stream: the page shows the others.
                stream.clear();
                self.shared.refusals.visitor(refused.label());
                self.refuse(&refused.line()).await?;
            }
        }
        let at_once = matches!(
            message,
            PageMessage::WatchAccount { stream: Some(_) } | PageMessage::Visible { visible: true }
        );
        if let Err(refused) = self.viewer.handle(message) {
            self.refuse(&refused).await?;
        }
        if at_once { self.tell().await } else { Ok(()) }
    }

    /// Sends an error for a message, and counts it.
    async fn refuse(&mut self, text: &str) -> Result<(), Gone> {
        self.shared.refusals.message();
        self.note(text).await
    }

    /// Sends everything that is due, and the frames that there is credit for.
    async fn speak(&mut self) -> Result<(), Gone> {
        let losses_due = self.told_losses.elapsed() >= TELL_LOSSES;
        if losses_due {
            self.told_losses = Instant::now();
            self.viewer.count_losses(scenery(&self.shared));
        }
        if !self.viewer.visible {
            return Ok(());
        }
        if self.told.elapsed() >= TELL {
            self.tell().await?;
        }
        self.tell_alarms().await?;
        self.tell_runs().await?;
        if losses_due {
            self.say(self.viewer.browser_account().to_string()).await?;
        }
        self.ask_store();
        let sent = timeout(self.shared.slots.bounds.patience, self.send_frames()).await;
        self.slot.count(self.viewer.counts());
        self.unless_gone(sent)
    }

    /// Sends the frames that there is credit for, up to the next beat. Those of one beat cost one write.
    async fn send_frames(&mut self) -> Result<(), axum::Error> {
        let now = clock::now();
        self.next_look = Viewer::next_look(now.steady);
        let mut began = now.steady;
        let mut has_fed = false;
        while let Some(frame) = self.viewer.frame(Scenery { history: &self.shared.history, now }) {
            if self.viewer.has_drawn() {
                self.viewer.took(began.elapsed());
            }
            self.socket.feed(Message::Binary(frame.into())).await?;
            has_fed = true;
            began = Instant::now();
            if began >= self.next_look {
                break;
            }
        }
        if has_fed { self.socket.flush().await } else { Ok(()) }
    }

    async fn tell(&mut self) -> Result<(), Gone> {
        self.told = Instant::now();
        let list = self.shared.catalogue.streams(&self.shared.history, &self.visitor);
        self.say(format!(r#"{{"type":"streams","streams":{list}}}"#)).await?;
        let watched = self.viewer.watched.as_deref();
        let slot = watched.and_then(|stream| self.shared.history.stream(stream));
        if let Some(slot) = slot {
            let keys = self.shared.reception.key_status();
            let mut account = account_of(&slot, &self.shared.history, &self.visitor, keys.as_ref());
            add_relay(&mut account, &self.shared.reception.relays());
            account["type"] = "account".into();
            self.say(account.to_string()).await?;
        }
        Ok(())
    }

    /// Tells the page that runs have changed: it asks for those that it shows.
    async fn tell_runs(&mut self) -> Result<(), Gone> {
        let change = self.shared.runs.change();
        if self.told_runs == Some(change) || !self.visitor.reads(ALL_RUNS) {
            return Ok(());
        }
        self.told_runs = Some(change);
        self.say(json!({"type": "runs", "change": change}).to_string()).await
    }

    /// Asks the store for what live memory does not reach, without waiting for it.
    fn ask_store(&mut self) {
        let Some(store) = &self.shared.store else { return };
        let spans = Questions::Spans(self.viewer.questions(scenery(&self.shared)));
        let samples = Questions::Samples(self.viewer.sample_questions(scenery(&self.shared)));
        for questions in [spans, samples].into_iter().filter(|questions| !questions.is_empty()) {
            let (store, reads) = (Arc::clone(store), Arc::clone(&self.shared.store_reads));
            let answer = self.answer.clone();
            tokio::spawn(async move {
                // Reserve room for the answer first: a page that accepts no data must not hold a turn that others wait
                // for. There is no room once the viewer has gone.
                let Ok(place) = answer.reserve_owned().await else { return };
                let Ok(_turn) = reads.acquire_owned().await else { return };
                if let Ok(answers) = tokio::task::spawn_blocking(move || questions.answer(&*store)).await {
                    place.send(answers);
                }
            });
        }
    }

    async fn take(&mut self, answers: Answers) -> Result<(), Gone> {
        let mut failure = None;
        match answers {
            Answers::Spans(answers) => {
                let answers = answers.into_iter().map(|(question, span)| {
                    let span = span.unwrap_or_else(|error| {
                        failure = Some(error.to_string());
                        None
                    });
                    (question, span)
                });
                self.viewer.stored(answers.collect());
            }
            Answers::Samples(answers) => {
                failure = answers.iter().find_map(|it| it.failure.as_ref()).map(ToString::to_string);
                self.viewer.took_samples(answers);
            }
        }
        match failure {
            Some(failure) => self.note(&failure).await,
            None => Ok(()),
        }
    }

    /// Sends a note to the user, once.
    async fn note(&mut self, text: &str) -> Result<(), Gone> {
        if self.noted == text {
            return Ok(());
        }
        text.clone_into(&mut self.noted);
        self.say(json!({"type": "note", "level": "warn", "text": text}).to_string()).await
    }

    async fn say(&mut self, text: String) -> Result<(), Gone> {
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        let sent = timeout(self.shared.slots.bounds.patience, self.socket.send(message)).await;
        self.unless_gone(sent)
    }

    fn unless_gone(&self, sent: Result<Result<(), axum::Error>, Elapsed>) -> Result<(), Gone> {
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Gone),
            Err(_) => {
                self.shared.slots.tally.closed(Closed::Stalled, &self.slot.source);
                Err(Gone)
            }
        }
    }
}

/// Returns the frames that the page has drawn, if that is all that it says.
fn confirmation(heard: &Option<Result<Message, axum::Error>>) -> Option<Vec<u32>> {
    match heard {
        Some(Ok(Message::Text(text))) => confirmed_by(text),
        _ => None,
    }
}

/// Result of a question to the store.
type Answer = (StoreQuestion, Result<Option<StoredSpan>, StoreFailure>);

/// Asks the store, unless it has answered another viewer meanwhile; an invalid name is not stored.
fn answer_of(store: &dyn HistoryStore, question: StoreQuestion) -> Answer {
    if question.is_answered() {
        return (question, Ok(None));
    }
    let span = question.stream.parse().map_or(Ok(None), |stream| {
        store.span(&StoredRequest { stream: &stream, channel: &question.channel, grid: question.grid })
    });
    (question, span)
}

fn scenery(shared: &Shared) -> Scenery<'_> {
    Scenery { history: &shared.history, now: clock::now() }
}
