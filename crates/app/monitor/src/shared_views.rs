//! The shared views of a monitor: documents behind one short lock, told to connections and written to disk.
//!
//! The crate `shared_view` decides; here are the lock, the signal that something has changed, random bits for new
//! links, and the [`Store`]. Nothing is written under the lock. Start with [`ViewBoard`].

pub(crate) mod rights;
mod store;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};
use shared_view::{Condition, Edit, ReadOnlyId, Refusal, SharedViews, ViewName};
use tokio::sync::watch;
use tokio::time::sleep;

use self::store::Store;
use crate::clock;
use crate::shared::Shared;

/// Interval at which changed documents are written: a page that drags a window changes its document many times a second.
const SAVE_INTERVAL: Duration = Duration::from_millis(500);
/// Time before another attempt after a failed one: a full disk is not helped by more writes.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// All shared views, with their files.
pub(crate) struct ViewBoard {
    views: Mutex<SharedViews>,
    changed: watch::Sender<()>,
    store: Store,
}

/// Counts for the metrics.
pub(crate) struct ViewCounts {
    pub(crate) documents: usize,
    pub(crate) watchers: usize,
    pub(crate) unsaved: usize,
    pub(crate) edits: shared_view::Counts,
    pub(crate) failed_writes: u64,
    pub(crate) left_out_files: u64,
}

impl ViewBoard {
    /// Reads the documents of a folder; without one, documents end with the monitor.
    pub(crate) fn open(folder: Option<PathBuf>) -> Self {
        let mut views = SharedViews::default();
        let store = Store::open(folder, |document| views.restore(document));
        Self { views: Mutex::new(views), changed: watch::Sender::new(()), store }
    }

    /// Returns all documents, to read them; hold it briefly.
    pub(crate) fn views(&self) -> MutexGuard<'_, SharedViews> {
        // What panicked has changed nothing or all: each change checks before it writes.
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes documents or followers, and wakes the connections.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut SharedViews) -> T) -> T {
        let result = change(&mut self.views());
        self.changed.send_replace(());
        result
    }

    /// Creates or replaces a document.
    pub(crate) fn put(
        &self,
        name: &ViewName,
        edit: Result<Edit, Refusal>,
        on: Condition,
        user: Option<String>,
    ) -> Result<u64, Refusal> {
        let mut bits = [0; 16];
        SystemRandom::new().fill(&mut bits).expect("the system draws random bits for every process");
        let link = ReadOnlyId::new(u128::from_ne_bytes(bits));
        self.change(|views| views.put(name, edit, on, link, (clock::wall(), user)))
    }

    /// Returns what wakes a connection when anything has changed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Writes every changed document; it waits for the disk. Returns the first failure in words.
    pub(crate) fn save(&self) -> Result<(), String> {
        self.store.write(|| self.views().take_unsaved(), |name| self.views().not_saved(name))
    }

    /// Returns the counts for the metrics.
    pub(crate) fn counts(&self) -> ViewCounts {
        let views = self.views();
        ViewCounts {
            documents: views.documents(),
            watchers: views.watchers(),
            unsaved: if self.store.is_on_disk() { views.unsaved() } else { 0 },
            edits: views.counts().clone(),
            failed_writes: self.store.failed_writes(),
            left_out_files: self.store.left_out_files(),
        }
    }
}

/// Writes changed documents until the monitor stops.
pub(crate) async fn keep(shared: Arc<Shared>, stopped: impl Future<Output = ()>) {
    let saving = async {
        let mut pause = SAVE_INTERVAL;
        loop {
            sleep(pause).await;
            pause = SAVE_INTERVAL;
            let unsaved = shared.shared_views.views().unsaved();
            if unsaved > 0 && save(&shared).await.is_err() {
                pause = RETRY_INTERVAL;
            }
        }
    };
    tokio::select! {
        () = saving => {}
        () = stopped => {}
    }
}

/// Writes every changed document on a thread that may wait.
///
/// # Errors
/// The first failure in words.
pub(crate) async fn save(shared: &Arc<Shared>) -> Result<(), String> {
    let of = Arc::clone(shared);
    let saving = tokio::task::spawn_blocking(move || of.shared_views.save());
    saving.await.unwrap_or_else(|_| Err("the monitor is ending".to_owned()))
}
