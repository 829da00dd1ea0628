//! Bracketed evidence: counts that are known to fall between two datagrams, but not on which ones.
//!
//! A socket's drop counter gives the number of datagrams it refused between two that were read from it; the
//! publisher's running totals give the number withheld between two tallies. Such a count explains missing numbers
//! inside its bracket, oldest first, and never more of them than it counted (`docs/protocol/account.md`, rule 9). One
//! socket may carry several streams, so the brackets belong to the socket and are shared by its ledgers.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use units::Instant;

use crate::{EvidenceSource, Stage, StageCounts};

/// Key of one ledger among those that share a socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LedgerKey(pub u32);

/// Lifetime of a bracket: longer than any number waits for evidence, so that a released count finds its bracket.
const BRACKET_MEMORY: Duration = Duration::from_secs(60);
/// Maximum number of brackets of a kind; beyond it the oldest is closed and its rest becomes unmatched.
///
/// More than the number of gaps that wait for evidence: under overload each may have a bracket of its own, which must
/// still exist when the gap settles.
const MAX_BRACKETS: usize = 16_384;
/// Maximum number of spans of all brackets of a socket: with many streams each bracket has many, and memory use must
/// stay bounded under overload.
const MAX_SPANS: usize = 1 << 18;

/// Number of newest brackets searched for a ledger that was opened below its first datagram.
const MAX_OPENED_BELOW: usize = 1_024;

/// Number of brackets checked below and above a number that was dropped out of order: more than the usual extent of
/// reordering.
const NEARBY: usize = 64;

/// Unit of a socket's drop counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DropUnit {
    /// A datagram.
    #[default]
    Datagram,
    /// A train of up to [`MAX_TRAIN`] datagrams that the kernel handles as one (`UDP_GRO`): their number is not
    /// known, and counts attributed to it are bounds.
    Train,
}

/// Maximum number of datagrams that the kernel handles as one.
pub const MAX_TRAIN: u64 = 64;

impl DropUnit {
    /// Returns the maximum number of datagrams dropped when the counter rises by one.
    const fn datagrams_at_most(self) -> u64 {
        match self {
            Self::Datagram => 1,
            Self::Train => MAX_TRAIN,
        }
    }
}

/// The counts of one socket that wait to be matched with missing numbers.
#[derive(Clone, Debug, Default)]
pub struct Brackets {
    /// Drops of the socket, in the order of time and so of numbers: later brackets begin and end at higher ones.
    socket: VecDeque<Bracket>,
    /// Datagrams withheld by publishers, in the order of time.
    tallies: VecDeque<Bracket>,
    /// Oldest bracket with an open span of each ledger: a silent stream costs the others of its socket nothing.
    open: BTreeMap<LedgerKey, BracketId>,
    next_id: u64,
    unmatched: StageCounts,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BracketId(u64);

#[derive(Clone, Debug)]
struct Bracket {
    id: BracketId,
    stage: Stage,
    since: Instant,
    /// The rise of the counter, in datagrams or in trains.
    rise: u64,
    /// Number of datagrams that it may still explain.
    remaining: u64,
    /// Number of datagrams that it has explained.
    explained: u64,
    origin: Origin,
    /// Sorted by ledger.
    spans: Vec<Span>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Origin {
    SocketDrops(DropUnit),
    TallyTotals,
}

/// The numbers of one ledger that a bracket may explain.
#[derive(Clone, Debug)]
struct Span {
    ledger: LedgerKey,
    /// The lowest of them: the number after the last one read, or 0.
    from: u64,
    before: Option<u64>,
}

/// Numbers explained by one bracket.
pub(crate) struct Match {
    pub(crate) bracket: BracketId,
    pub(crate) stage: Stage,
    pub(crate) source: EvidenceSource,
    pub(crate) numbers: Range<u64>,
}

impl Brackets {
    /// Records that the socket's drop counter rose by `rise` since the last datagram read from it.
    ///
    /// `ledgers` holds for every stream of the socket its ledger and the highest number seen so far; each span stays
    /// open until [`Brackets::read`] closes it with the stream's next datagram.
    pub fn socket_drops_rose(
        &mut self,
        now: Instant,
        rise: u64,
        unit: DropUnit,
        ledgers: impl IntoIterator<Item = (LedgerKey, u64)>,
    ) {
        if rise == 0 {
            return;
        }
        let spans = ledgers.into_iter().map(|(ledger, after)| Span {
            ledger,
            from: after.saturating_add(1),
            before: None,
        });
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|span| span.ledger);
        for span in &spans {
            self.open.entry(span.ledger).or_insert(BracketId(self.next_id));
        }
        self.add(now, Stage::ReceiverSocketBuffer, rise, Origin::SocketDrops(unit), spans);
    }

    /// Records that `ledger` was opened at the beginning of its epoch although its first datagram read has this
    /// number: earlier drops of the socket may have lower numbers.
    pub fn opened_below(&mut self, ledger: LedgerKey, number: u64) {
        let most_spans = MAX_SPANS / self.socket.len().max(1);
        let newest = self.socket.iter_mut().rev().take(MAX_OPENED_BELOW);
        // The brackets that know a ledger come after those that do not.
        for bracket in newest.take_while(|bracket| bracket.spans.len() < most_spans) {
            if let Err(index) = bracket.spans.binary_search_by_key(&ledger, |span| span.ledger) {
                bracket.spans.insert(index, Span { ledger, from: 0, before: Some(number) });
            }
        }
    }

    /// Records that a datagram of `ledger` was read: datagrams dropped before it have lower numbers.
    pub fn read(&mut self, ledger: LedgerKey, number: u64) {
        let Some(oldest) = self.open.remove(&ledger) else { return };
        let first = self.socket.partition_point(|bracket| bracket.id < oldest);
        for bracket in self.socket.range_mut(first..) {
            let Some(span) = bracket.span_mut(ledger).filter(|span| span.before.is_none()) else { continue };
            if number >= span.from {
                span.before = Some(number);
            } else {
                // Reordered: it was queued before the drops, and the next datagram marks their end.
                self.open.entry(ledger).or_insert(bracket.id);
            }
        }
    }

    /// Records that the publisher's total for `stage` rose between two tallies by `rise` more than their ranges.
    pub fn tally_totals_rose(
        &mut self,
        now: Instant,
        ledger: LedgerKey,
        stage: Stage,
        rise: u64,
        tallies: Range<u64>,
    ) {
        let spans = vec![Span { ledger, from: tallies.start.saturating_add(1), before: Some(tallies.end) }];
        self.add(now, stage, rise, Origin::TallyTotals, spans);
    }

    /// Returns the surplus of the closed brackets over missing datagrams, by stage; always reported.
    #[must_use]
    pub const fn unmatched(&self) -> &StageCounts {
        &self.unmatched
    }

    /// Drops brackets that no ledger can refer to any more; their rest becomes unmatched.
    pub fn expire(&mut self, now: Instant) {
        for brackets in [&mut self.socket, &mut self.tallies] {
            while brackets.front().is_some_and(|bracket| now.since(bracket.since) > BRACKET_MEMORY) {
                forget_oldest(brackets, &mut self.unmatched);
            }
        }
    }

    fn add(&mut self, now: Instant, stage: Stage, rise: u64, origin: Origin, spans: Vec<Span>) {
        let brackets = match origin {
            Origin::SocketDrops(_) => &mut self.socket,
            Origin::TallyTotals => &mut self.tallies,
        };
        let most = (MAX_SPANS / spans.len().max(1)).min(MAX_BRACKETS);
        while brackets.len() >= most.max(1) {
            forget_oldest(brackets, &mut self.unmatched);
        }
        let id = BracketId(self.next_id);
        self.next_id += 1;
        let remaining = match origin {
            Origin::SocketDrops(unit) => rise.saturating_mul(unit.datagrams_at_most()),
            Origin::TallyTotals => rise,
        };
        brackets.push_back(Bracket { id, stage, since: now, rise, remaining, explained: 0, origin, spans });
    }

    /// Takes from the brackets the counts that explain `numbers`: earlier stages and older counts first.
    ///
    /// Cost: logarithmic in the socket's brackets, linear in those of tallies that are not used up.
    pub(crate) fn explain(&mut self, ledger: LedgerKey, numbers: Range<u64>) -> Vec<Match> {
        let mut matches = Vec::new();
        let mut rest = vec![numbers.clone()];
        let first = self.socket.partition_point(|bracket| bracket.ends_below(ledger, numbers.start));
        let reaches = |bracket: &&mut Bracket| !bracket.begins_behind(ledger, numbers.end);
        let socket = self.socket.range_mut(first..).take_while(reaches);
        let publishers_word_first = self.tallies.iter_mut().chain(socket);
        for bracket in publishers_word_first.filter(|bracket| bracket.remaining > 0) {
            rest = rest.into_iter().flat_map(|part| bracket.explain(ledger, part, &mut matches)).collect();
            if rest.is_empty() {
                break;
            }
        }
        matches
    }

    /// Takes from the socket's brackets the counts of `numbers` that the socket dropped by exact evidence, so that
    /// they explain no others. Returns the numbers that no bracket counts yet.
    pub(crate) fn take_named(&mut self, ledger: LedgerKey, numbers: Range<u64>) -> Vec<Range<u64>> {
        let mut rest = vec![numbers.clone()];
        let first = self.socket.partition_point(|bracket| bracket.ends_below(ledger, numbers.start));
        for bracket in self.socket.range_mut(first..) {
            if rest.is_empty() || bracket.begins_behind(ledger, numbers.end) {
                break;
            }
            let take = |part| bracket.explain(ledger, part, &mut Vec::new());
            rest = rest.into_iter().flat_map(take).collect();
        }
        rest
    }

    /// Takes as many counts from the brackets next to `numbers`: a datagram that arrives out of order may
    /// be dropped between datagrams whose numbers do not enclose it. Returns how many were found.
    pub(crate) fn take_nearby(&mut self, ledger: LedgerKey, numbers: Range<u64>) -> u64 {
        let first = self.socket.partition_point(|bracket| bracket.ends_below(ledger, numbers.start));
        let mut missing = numbers.end - numbers.start;
        let above = first..self.socket.len().min(first + NEARBY);
        let below = (first.saturating_sub(NEARBY)..first).rev();
        for index in above.chain(below) {
            let bracket = &mut self.socket[index];
            let taken = missing.min(bracket.remaining);
            bracket.remaining -= taken;
            bracket.explained += taken;
            missing -= taken;
        }
        numbers.end - numbers.start - missing
    }

    /// Returns `count` to a bracket whose datagram arrived after all.
    pub(crate) fn release(&mut self, id: BracketId, count: u64) {
        for brackets in [&mut self.socket, &mut self.tallies] {
            if let Ok(index) = brackets.binary_search_by_key(&id, |bracket| bracket.id) {
                brackets[index].remaining += count;
                brackets[index].explained -= count;
            }
        }
    }
}

fn forget_oldest(brackets: &mut VecDeque<Bracket>, unmatched: &mut StageCounts) {
    if let Some(bracket) = brackets.pop_front() {
        // A forged tally may claim any count.
        let unmatched = &mut unmatched[bracket.stage];
        *unmatched = unmatched.saturating_add(bracket.unmatched());
    }
}

impl Bracket {
    /// Returns the count that explains nothing; a train is explained once one of its datagrams is missing.
    const fn unmatched(&self) -> u64 {
        self.rise.saturating_sub(self.explained)
    }

    /// Returns whether all it may explain of a ledger is below `number`. It explains nothing of a ledger that began
    /// later.
    fn ends_below(&self, ledger: LedgerKey, number: u64) -> bool {
        self.span(ledger).is_none_or(|span| span.before.is_some_and(|before| before <= number))
    }

    /// Returns whether all it may explain of a ledger is at `number` or above.
    fn begins_behind(&self, ledger: LedgerKey, number: u64) -> bool {
        self.span(ledger).is_some_and(|span| span.from > number)
    }

    fn span(&self, ledger: LedgerKey) -> Option<&Span> {
        self.spans.binary_search_by_key(&ledger, |span| span.ledger).ok().map(|index| &self.spans[index])
    }

    fn span_mut(&mut self, ledger: LedgerKey) -> Option<&mut Span> {
        self.spans.binary_search_by_key(&ledger, |span| span.ledger).ok().map(|index| &mut self.spans[index])
    }

    /// Takes the oldest numbers of `part` that fall into this bracket; returns the rest.
    fn explain(&mut self, ledger: LedgerKey, part: Range<u64>, matches: &mut Vec<Match>) -> Vec<Range<u64>> {
        let Some(span) = self.span(ledger) else { return vec![part] };
        let start = part.start.max(span.from);
        let end = part.end.min(span.before.unwrap_or(u64::MAX));
        let end = end.min(start.saturating_add(self.remaining));
        if start >= end {
            return vec![part];
        }
        let after = span.from.saturating_sub(1);
        let source = match self.origin {
            Origin::SocketDrops(unit) => {
                EvidenceSource::SocketDrops { rise: self.rise, unit, after, before: span.before }
            }
            Origin::TallyTotals => EvidenceSource::TallyTotals {
                after,
                before: span.before.expect("a span between two tallies has both ends"),
            },
        };
        self.remaining -= end - start;
        self.explained += end - start;
        matches.push(Match { bracket: self.id, stage: self.stage, source, numbers: start..end });
        [part.start..start, end..part.end].into_iter().filter(|left| !left.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGER: LedgerKey = LedgerKey(0);
    const OTHER: LedgerKey = LedgerKey(1);

    #[test]
    fn drops_before_the_first_datagram_of_a_ledger_that_begins_below_it_explain_its_beginning() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 2, DropUnit::Datagram, [(LEDGER, 7)]);
        brackets.read(LEDGER, 12);
        assert_eq!(explained(&mut brackets, OTHER, 1..5), [], "it was not there");
        brackets.opened_below(OTHER, 5);
        brackets.socket_drops_rose(Instant::ORIGIN, 1, DropUnit::Datagram, [(LEDGER, 12), (OTHER, 5)]);
        brackets.read(OTHER, 9);
        assert_eq!(explained(&mut brackets, OTHER, 0..5), [0..2]);
        assert_eq!(explained(&mut brackets, OTHER, 6..9), [6..7]);
        assert_eq!(explained(&mut brackets, LEDGER, 8..12), [], "used up");
    }

    fn explained(brackets: &mut Brackets, ledger: LedgerKey, numbers: Range<u64>) -> Vec<Range<u64>> {
        brackets.explain(ledger, numbers).into_iter().map(|found| found.numbers).collect()
    }

    #[test]
    fn a_rise_explains_the_oldest_missing_numbers_inside_it_and_no_more_than_it_counted() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 3, DropUnit::Datagram, [(LEDGER, 9)]);
        brackets.read(LEDGER, 20);
        assert_eq!(explained(&mut brackets, LEDGER, 5..9), [], "numbers before the rise are not its doing");
        assert_eq!(explained(&mut brackets, LEDGER, 12..14), [12..14]);
        assert_eq!(explained(&mut brackets, LEDGER, 15..18), [15..16]);
        assert_eq!(explained(&mut brackets, LEDGER, 16..18), [], "the count is used up");
        assert_eq!(explained(&mut brackets, LEDGER, 21..22), []);
    }

    #[test]
    fn two_streams_of_one_socket_share_its_drops() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 2, DropUnit::Datagram, [(LEDGER, 4), (OTHER, 70)]);
        brackets.read(OTHER, 72);
        assert_eq!(explained(&mut brackets, OTHER, 71..72), [71..72]);
        assert_eq!(explained(&mut brackets, LEDGER, 5..9), [5..6], "open behind 4, one count left");
    }

    #[test]
    fn a_stream_that_was_silent_closes_all_its_brackets_at_once() {
        let mut brackets = Brackets::default();
        for number in 0..3 {
            brackets.socket_drops_rose(
                Instant::ORIGIN,
                1,
                DropUnit::Datagram,
                [(OTHER, 70), (LEDGER, 2 * number)],
            );
            brackets.read(LEDGER, 2 * number + 2);
        }
        brackets.read(OTHER, 69);
        brackets.read(OTHER, 72);
        assert_eq!(explained(&mut brackets, OTHER, 71..75), [71..72], "what was dropped lies before 72");
        assert_eq!(explained(&mut brackets, LEDGER, 3..4), [3..4]);
    }

    #[test]
    fn under_overload_each_loss_finds_its_own_count() {
        let mut brackets = Brackets::default();
        let losses: Vec<Range<u64>> = (1..10_000).map(|loss| 10 * loss..10 * loss + 3).collect();
        for loss in &losses {
            brackets.socket_drops_rose(Instant::ORIGIN, 3, DropUnit::Datagram, [(LEDGER, loss.start - 1)]);
            brackets.read(LEDGER, loss.end);
        }
        for loss in losses {
            assert_eq!(explained(&mut brackets, LEDGER, loss.clone()), [loss]);
        }
    }

    #[test]
    fn forged_counts_do_not_overflow() {
        let mut brackets = Brackets::default();
        for _ in 0..2 {
            brackets.tally_totals_rose(Instant::ORIGIN, LEDGER, Stage::Injected, u64::MAX, 0..u64::MAX);
        }
        assert_eq!(explained(&mut brackets, LEDGER, 1..u64::MAX), [1..u64::MAX]);
        brackets.expire(Instant::ORIGIN + BRACKET_MEMORY * 2);
        assert_eq!(brackets.unmatched()[Stage::Injected], u64::MAX);
    }

    #[test]
    fn what_turned_up_late_gives_its_count_back() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 1, DropUnit::Datagram, [(LEDGER, 0)]);
        let found = brackets.explain(LEDGER, 1..2);
        brackets.release(found[0].bracket, 1);
        assert_eq!(explained(&mut brackets, LEDGER, 2..3), [2..3]);
    }

    #[test]
    fn the_publishers_word_is_heard_before_the_sockets() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 5, DropUnit::Datagram, [(LEDGER, 0)]);
        brackets.tally_totals_rose(Instant::ORIGIN, LEDGER, Stage::SenderQdisc, 1, 0..10);
        let stages: Vec<_> =
            brackets.explain(LEDGER, 1..4).into_iter().map(|found| (found.stage, found.numbers)).collect();
        assert_eq!(stages, [(Stage::SenderQdisc, 1..2), (Stage::ReceiverSocketBuffer, 2..4)]);
    }

    #[test]
    fn a_dropped_train_explains_as_many_as_a_train_may_have_and_its_surplus_is_counted_in_trains() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 2, DropUnit::Train, [(LEDGER, 9)]);
        brackets.read(LEDGER, 400);
        assert_eq!(explained(&mut brackets, LEDGER, 10..110), [10..110]);
        assert_eq!(
            explained(&mut brackets, LEDGER, 200..300),
            [200..228],
            "two trains are 128 datagrams at most"
        );
        brackets.socket_drops_rose(Instant::ORIGIN, 3, DropUnit::Train, [(LEDGER, 400)]);
        assert_eq!(explained(&mut brackets, LEDGER, 401..402), [401..402]);
        brackets.expire(Instant::ORIGIN + BRACKET_MEMORY * 2);
        assert_eq!(brackets.unmatched()[Stage::ReceiverSocketBuffer], 2, "one of three trains was found");
    }

    #[test]
    fn a_count_that_matches_nothing_is_shown_as_unmatched() {
        let mut brackets = Brackets::default();
        brackets.socket_drops_rose(Instant::ORIGIN, 4, DropUnit::Datagram, [(LEDGER, 0)]);
        brackets.explain(LEDGER, 1..2);
        brackets.expire(Instant::ORIGIN + BRACKET_MEMORY + Duration::from_nanos(1));
        assert_eq!(brackets.unmatched()[Stage::ReceiverSocketBuffer], 3);
    }
}
