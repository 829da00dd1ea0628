//! What is drawn and encoded once for all pages that ask for the same.
//!
//! Pages that ask for the same share an entry of [`Subjects`], of which the [`Newest`] drawing of each coarseness is kept.
//! What was drawn in a beat is the newest for every page until the next one: all pages get the same
//! bytes. A page that has the previous one is sent what has changed since; that form, too, is encoded once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::Scenery;
use super::pace::{MAX_FURTHER, Pace};

/// Encoded forms of one drawing that are kept: pages that keep up have the previous drawing, others are few.
const MAX_FORMS: usize = 4;
/// Factors by which a view is thinned further: powers of two.
const COARSENESSES: usize = MAX_FURTHER.trailing_zeros() as usize + 1;

/// What pages are shown, by what they ask for. Nothing is kept of a subject that no page shows.
#[derive(Debug)]
pub(super) struct Subjects<R, S>(Mutex<HashMap<R, Weak<S>>>);

/// The newest drawing of a subject, for each coarseness.
#[derive(Debug)]
pub(super) struct Newest<T>([Mutex<Option<Arc<T>>>; COARSENESSES]);

/// Number, beat and encoded forms of a drawing.
#[derive(Debug)]
pub(super) struct Drawn {
    /// Number among all drawings of the monitor.
    id: u64,
    /// Beat in which it was made.
    beat: u64,
    forms: Mutex<Vec<Form>>,
}

/// Bytes of a drawing for pages that have this other drawing, or none.
type Form = (Option<u64>, Arc<[u8]>);

/// Work on frames so far.
#[derive(Debug, Default)]
pub(super) struct Work {
    drawn: AtomicU64,
    encoded: AtomicU64,
    reused: AtomicU64,
}

/// Counts of the work on frames: `encoded` + `reused` is the number of frames sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WorkCounts {
    /// Drawings made of live memory and the store's answers.
    pub(crate) drawn: u64,
    /// Frames encoded.
    pub(crate) encoded: u64,
    /// Frames that had been encoded for another page.
    pub(crate) reused: u64,
}

impl<R, S> Default for Subjects<R, S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Eq + Hash, S: Default> Subjects<R, S> {
    /// Returns what is kept of a subject, the same for all pages.
    pub(super) fn of(&self, subject: R) -> Arc<S> {
        let mut known = lock(&self.0);
        if let Some(kept) = known.get(&subject).and_then(Weak::upgrade) {
            return kept;
        }
        known.retain(|_, kept| kept.strong_count() > 0);
        let kept = Arc::new(S::default());
        known.insert(subject, Arc::downgrade(&kept));
        kept
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T: AsRef<Drawn>> Newest<T> {
    /// Returns the newest drawing of this coarseness.
    pub(super) fn get(&self, further: u32) -> Option<Arc<T>> {
        lock(self.of(further)).clone()
    }

    /// Returns a drawing that is young enough, or has one made beside the newest: by one page while others wait.
    pub(super) fn draw(
        &self,
        further: u32,
        scenery: Scenery<'_>,
        work: &Work,
        draw: impl FnOnce(Drawn, Option<&T>) -> T,
    ) -> Arc<T> {
        let mut newest = lock(self.of(further));
        if let Some(drawing) = newest.as_ref().filter(|drawing| (***drawing).as_ref().is_young(scenery)) {
            return Arc::clone(drawing);
        }
        // A count that nothing else is read by: no ordering is needed.
        let id = work.drawn.fetch_add(1, Ordering::Relaxed);
        let drawn = Drawn { id, beat: Pace::beat(scenery.now.steady), forms: Mutex::default() };
        let drawing = Arc::new(draw(drawn, newest.as_deref()));
        *newest = Some(Arc::clone(&drawing));
        drawing
    }

    fn of(&self, further: u32) -> &Mutex<Option<Arc<T>>> {
        &self.0[further.trailing_zeros() as usize]
    }
}

impl Drawn {
    /// Returns whether it is the newest of this beat, whatever has changed since.
    pub(super) fn is_young(&self, scenery: Scenery<'_>) -> bool {
        Pace::beat(scenery.now.steady) == self.beat
    }

    /// Returns whether both are the same drawing.
    pub(super) const fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Returns the bytes for pages that have the `previous` drawing, or none that is of use; they are encoded once.
    pub(super) fn form(
        &self,
        previous: Option<&Self>,
        work: &Work,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Arc<[u8]> {
        let key = previous.map(|previous| previous.id);
        let mut forms = lock(&self.forms);
        // Counts that nothing else is read by: no ordering is needed.
        if let Some((_, form)) = forms.iter().find(|(of, _)| *of == key) {
            work.reused.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(form);
        }
        let mut bytes = Vec::new();
        encode(&mut bytes);
        work.encoded.fetch_add(1, Ordering::Relaxed);
        let form: Arc<[u8]> = bytes.into();
        if forms.len() < MAX_FORMS {
            forms.push((key, Arc::clone(&form)));
        }
        form
    }
}

impl Work {
    /// Returns how much work the frames were.
    pub(super) fn counts(&self) -> WorkCounts {
        let [drawn, encoded, reused] =
            [&self.drawn, &self.encoded, &self.reused].map(|count| count.load(Ordering::Relaxed));
        WorkCounts { drawn, encoded, reused }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is put in its place whole, or not at all.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
