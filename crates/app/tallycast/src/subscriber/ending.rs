//! Decides when a reader of ending streams has read enough: soon after final tallies, later if a stream only
//! fell silent.
//!
//! Silence is no end. A network outage, a restarting switch or a publisher that was stopped for a while looks
//! like a dead publisher; only its final tally and, on one host, the system distinguish them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger::AccountState;
use sample::StreamName;
use units::Epoch;

use super::Subscriber;
use crate::event::Event;
use crate::host_view::Reach;

/// Time without open streams after which all have ended: longer than a publisher needs to restart and
/// announce itself.
const QUIET: Duration = Duration::from_secs(2);
/// Time for which a silent stream may return: longer than a bridge needs to find another path through its
/// network: 50 s by IEEE 802.1D, 20 to notice and twice 15 to learn.
const OUTAGE: Duration = Duration::from_secs(60);
/// Maximum number of streams named in a message.
const MAX_NAMED: usize = 3;

/// Streams that are open, and those that fell silent without an end.
#[derive(Debug, Default)]
pub(super) struct Ends {
    streams: BTreeMap<Arc<StreamName>, Stream>,
    any_ended: bool,
    /// Time at which it was first observed that no stream is open any more.
    quiet_since: Option<Instant>,
}

/// A stream that is open, or fell silent.
#[derive(Debug)]
struct Stream {
    newest: Epoch,
    open: BTreeSet<Epoch>,
    silent_since: Option<Instant>,
}

impl Subscriber {
    /// Returns whether an account is open, or an event waits to be delivered.
    #[must_use]
    pub fn has_open_accounts(&self) -> bool {
        self.ends.is_open() || !self.queue.is_empty() || !self.view.is_empty()
    }

    /// Returns whether the streams have ended: some were read, all have ended, and none has returned within 2
    /// s, or within 60 s of falling silent if its end is not confirmed. A warning announces that wait.
    ///
    /// An end is confirmed by the publisher's final tally; on one host, by the end of its process; and if no
    /// pattern selects the stream.
    pub fn has_reached_end(&mut self) -> bool {
        if self.has_open_accounts() {
            return false;
        }
        let now = Instant::now();
        if let Some(word) = self.ends.look(now) {
            tracing::warn!("{word}\nCtrl-C ends at once");
        }
        self.ends.are_over(now)
    }

    /// Notes begins and ends of accounts.
    pub(super) fn note_ends(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Began(info) => self.ends.began(&info.name, info.epoch),
                Event::Ended(account) => {
                    let is_selected = self.patterns.iter().any(|pattern| pattern.matches(&account.stream));
                    let goes_on = is_selected && may_go_on(account.account.state, account.reach);
                    self.ends.ended(&account.stream, account.epoch, goes_on.then(Instant::now));
                }
                Event::Block(_) | Event::Gap(_) | Event::Settled(_) | Event::Statement(_) => {}
            }
        }
    }
}

impl Ends {
    fn began(&mut self, name: &Arc<StreamName>, epoch: Epoch) {
        let new = || Stream { newest: epoch, open: BTreeSet::new(), silent_since: None };
        let stream = self.streams.entry(Arc::clone(name)).or_insert_with(new);
        stream.open.insert(epoch);
        (stream.newest, stream.silent_since) = (epoch, None);
        self.quiet_since = None;
    }

    /// Notes the end of an account, and since when the stream is silent if its publisher may continue.
    fn ended(&mut self, name: &StreamName, epoch: Epoch, silent_since: Option<Instant>) {
        self.any_ended = true;
        let Some(stream) = self.streams.get_mut(name) else { return };
        stream.open.remove(&epoch);
        // The rest of a replaced epoch may end after its successor.
        if epoch == stream.newest {
            stream.silent_since = silent_since;
        }
        if stream.open.is_empty() && stream.silent_since.is_none() {
            self.streams.remove(name);
        }
        // Of streams that begin and never end, only those of the last minute are kept.
        if let Some(now) = silent_since {
            self.forget_ended(now);
        }
    }

    /// Forgets the streams that have ended, including those that were silent for too long.
    fn forget_ended(&mut self, now: Instant) {
        self.streams.retain(|_, stream| !stream.open.is_empty() || !stream.patience(now).is_zero());
    }

    fn is_open(&self) -> bool {
        self.streams.values().any(|stream| !stream.open.is_empty())
    }

    /// Begins to wait for streams to return, if none is open; returns a message about it, once.
    fn look(&mut self, now: Instant) -> Option<String> {
        self.forget_ended(now);
        if !self.any_ended || self.is_open() || self.quiet_since.is_some() {
            return None;
        }
        self.quiet_since = Some(now);
        let longest = self.streams.values().map(|stream| stream.patience(now)).max()?;
        let named: Vec<_> = self.streams.keys().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
        let (named, more) = (named.join(", "), self.streams.len().saturating_sub(MAX_NAMED));
        let (subject, them) = match (self.streams.len(), more) {
            (1, _) => (format!("stream {named} has"), "it"),
            (_, 0) => (format!("streams {named} have"), "them"),
            _ => (format!("streams {named} and {more} more have"), "them"),
        };
        let seconds = longest.as_secs_f64().ceil();
        Some(format!("{subject} fallen silent; waiting up to {seconds} s for {them} to come back"))
    }

    fn are_over(&self, now: Instant) -> bool {
        let is_quiet = |since: Instant| now.saturating_duration_since(since) >= QUIET;
        self.streams.is_empty() && self.quiet_since.is_some_and(is_quiet)
    }
}

impl Stream {
    /// Returns the remaining time to wait for it, if it is silent.
    fn patience(&self, now: Instant) -> Duration {
        let left = |since: Instant| OUTAGE.saturating_sub(now.saturating_duration_since(since));
        self.silent_since.map_or(Duration::ZERO, left)
    }
}

/// Returns whether the publisher may continue after the end of an account.
const fn may_go_on(state: AccountState, reach: Reach) -> bool {
    match state {
        AccountState::Closed => false,
        // In the publisher's own shared memory it ends so when its process is gone; an agent's ring reports
        // what the agent received.
        AccountState::Unconfirmed => !matches!(reach, Reach::Shm),
        // An agent has ended, or a ring cannot be read any more: the stream changes its reach.
        AccountState::Cut | AccountState::Open => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Epoch = Epoch { start_ns: 1, incarnation: 1 };
    const SECOND: Epoch = Epoch { start_ns: 2, incarnation: 2 };
    const TICK: Duration = Duration::from_millis(1);

    /// A subscriber's events, at times that a test sets.
    struct Scene {
        ends: Ends,
        began: Instant,
    }

    impl Scene {
        fn new() -> Self {
            Self { ends: Ends::default(), began: Instant::now() }
        }

        fn began(&mut self, name: &str, epoch: Epoch) {
            self.ends.began(&Arc::new(name.parse().unwrap()), epoch);
        }

        fn closed(&mut self, name: &str, epoch: Epoch) {
            self.ends.ended(&name.parse().unwrap(), epoch, None);
        }

        fn silent(&mut self, name: &str, epoch: Epoch, at: Duration) {
            self.ends.ended(&name.parse().unwrap(), epoch, Some(self.began + at));
        }

        /// Returns whether all streams have ended, and the message.
        fn ask(&mut self, at: Duration) -> (bool, Option<String>) {
            let now = self.began + at;
            let word = self.ends.look(now);
            (self.ends.are_over(now), word)
        }

        fn is_over(&mut self, at: Duration) -> bool {
            let (is_over, word) = self.ask(at);
            assert_eq!(word, None);
            is_over
        }
    }

    #[test]
    fn it_is_over_a_while_after_the_last_stream_was_closed() {
        let mut scene = Scene::new();
        assert!(!scene.is_over(OUTAGE), "nothing has begun");
        scene.began("a", FIRST);
        scene.began("b", FIRST);
        scene.closed("a", FIRST);
        assert!(!scene.is_over(OUTAGE * 2), "one is open");
        scene.closed("b", FIRST);
        let end = OUTAGE * 3;
        assert!(!scene.is_over(end), "the quiet begins when somebody asks");
        assert!(!scene.is_over(end + QUIET - TICK));
        assert!(scene.is_over(end + QUIET));
    }

    #[test]
    fn a_stream_that_begins_again_begins_the_quiet_anew() {
        let mut scene = Scene::new();
        scene.began("a", FIRST);
        scene.closed("a", FIRST);
        assert!(!scene.is_over(Duration::ZERO));
        scene.began("a", SECOND);
        assert!(!scene.is_over(QUIET));
        scene.closed("a", SECOND);
        // No call while it was open: the end before it must not count.
        assert!(!scene.is_over(QUIET));
        assert!(!scene.is_over(QUIET * 2 - TICK));
        assert!(scene.is_over(QUIET * 2));
    }

    #[test]
    fn a_stream_that_fell_silent_is_waited_for_much_longer_which_is_said_once() {
        let mut scene = Scene::new();
        scene.began("a", FIRST);
        scene.silent("a", FIRST, Duration::ZERO);
        let word = "stream `a` has fallen silent; waiting up to 60 s for it to come back";
        assert_eq!(scene.ask(TICK), (false, Some(word.to_owned())));
        assert!(!scene.is_over(QUIET * 2));
        assert!(!scene.is_over(OUTAGE - TICK));
        assert!(scene.is_over(OUTAGE));
    }

    #[test]
    fn a_stream_that_came_back_and_was_closed_is_not_waited_for() {
        for epoch in [FIRST, SECOND] {
            let mut scene = Scene::new();
            scene.began("a", FIRST);
            scene.silent("a", FIRST, Duration::ZERO);
            assert!(scene.ask(TICK).1.is_some());
            scene.began("a", epoch);
            scene.closed("a", epoch);
            assert!(!scene.is_over(QUIET));
            assert!(scene.is_over(QUIET * 2), "{epoch}");
            // It falls silent once more: a new silence begins.
            scene.began("a", epoch);
            scene.silent("a", epoch, QUIET * 3);
            assert!(scene.ask(QUIET * 3).1.is_some());
            assert!(!scene.is_over(QUIET * 5));
        }
    }

    #[test]
    fn what_is_left_of_a_replaced_epoch_says_nothing_of_its_successor() {
        let mut scene = Scene::new();
        scene.began("a", FIRST);
        scene.began("a", SECOND);
        scene.closed("a", SECOND);
        assert!(!scene.is_over(Duration::ZERO), "the first is still being settled");
        scene.silent("a", FIRST, TICK);
        assert!(!scene.is_over(TICK));
        assert!(scene.is_over(TICK + QUIET));
        // Nor does its end while the successor is open.
        let mut scene = Scene::new();
        scene.began("a", FIRST);
        scene.began("a", SECOND);
        scene.silent("a", FIRST, TICK);
        assert!(!scene.is_over(OUTAGE * 2));
    }

    #[test]
    fn silence_counts_from_when_it_began_also_while_others_were_open() {
        let mut scene = Scene::new();
        for name in ["a", "b", "c", "d", "e"] {
            scene.began(name, FIRST);
        }
        for (seconds, name) in [(0, "a"), (30, "b"), (31, "c"), (32, "d")] {
            scene.silent(name, FIRST, Duration::from_secs(seconds));
        }
        assert!(!scene.is_over(Duration::from_secs(50)));
        scene.closed("e", FIRST);
        let word =
            "streams `a`, `b`, `c` and 1 more have fallen silent; waiting up to 42 s for them to come back";
        assert_eq!(scene.ask(Duration::from_secs(50)), (false, Some(word.to_owned())));
        assert!(!scene.is_over(Duration::from_secs(92) - TICK));
        assert!(scene.is_over(Duration::from_secs(92)));
    }

    #[test]
    fn streams_that_never_end_are_forgotten_while_others_are_open() {
        let mut scene = Scene::new();
        scene.began("open", FIRST);
        for second in 0..1_000 {
            let name = format!("s{second}");
            scene.began(&name, FIRST);
            scene.silent(&name, FIRST, Duration::from_secs(second));
        }
        assert_eq!(scene.ends.streams.len(), 61);
        scene.closed("open", FIRST);
        assert!(!scene.ends.streams.contains_key(&"open".parse::<StreamName>().unwrap()));
    }

    #[test]
    fn only_a_final_tally_and_a_process_of_this_host_that_is_gone_are_an_end() {
        use AccountState::{Closed, Cut, Unconfirmed};
        for reach in [Reach::Shm, Reach::ShmAgent, Reach::Udp] {
            assert!(!may_go_on(Closed, reach));
            assert!(may_go_on(Cut, reach), "an agent that has ended, a ring that was destroyed");
        }
        assert!(!may_go_on(Unconfirmed, Reach::Shm), "the publisher's process is gone");
        assert!(may_go_on(Unconfirmed, Reach::ShmAgent), "the agent heard nothing, or is gone itself");
        assert!(may_go_on(Unconfirmed, Reach::Udp));
    }
}
