//! Judge: compares the samples that a reader or an archive has with what was stated, interval by interval.
//!
//! A leaf whose digest is the stated one is proven, with its holes. A leaf that lacks elements which were numbered
//! cannot be digested as stated: what was delivered of it is unproven. A leaf that lacks nothing and differs is
//! contradicted. Where statements are missing, the chain proves intervals that are complete, up to the next head.
//! Start with [`Judge::take`].

use core::ops::Range;

use units::RangeSet;

use crate::{Claims, Digest, Digester, Grid, Interval, Subject};

/// Compares samples with statements.
pub struct Judge<'a> {
    claims: &'a Claims,
    grid: Grid,
    subject: Subject,
    digester: Digester,
    /// Positions that were never numbered, according to the account: they are not missing.
    unnumbered: RangeSet,
    court: Court<'a>,
}

/// Verdicts in the order of intervals.
struct Court<'a> {
    claims: &'a Claims,
    grid: Grid,
    subject: Subject,
    /// Delivered positions of intervals that are not judged yet.
    present: RangeSet,
    /// Next interval to be judged.
    next: u64,
    /// Head of the chain behind the intervals that wait; `None` if it cannot be computed.
    head: Option<Digest>,
    /// Intervals without statement, until the next head proves them.
    waiting: Vec<Judged>,
}

/// Verdict about consecutive intervals: several only where nothing was delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The intervals.
    pub intervals: Range<u64>,
    /// Their positions; of proven and incomplete ones at most up to the end of the epoch, if a statement tells it.
    pub positions: Range<u64>,
    /// Delivered elements among them.
    pub elements: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// What the statements say of delivered samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Exactly what the publisher numbered, with all its holes.
    Proven,
    /// Elements that were numbered are missing.
    Incomplete {
        /// The missing positions.
        missing: RangeSet,
        /// Delivered positions that share a leaf with missing ones; all others are proven.
        unproven: RangeSet,
    },
    /// Not what the publisher numbered.
    Contradicted {
        /// Positions of the leaves that differ.
        positions: RangeSet,
        /// True if the statement about this interval is missing: then at least one interval of those up to the next
        /// statement differs.
        is_bridged: bool,
    },
    /// No statement says anything about it.
    Unsigned(Unsigned),
}

/// Reason why nothing is known of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsigned {
    /// No statement speaks of it, nor of anything behind it.
    NotStated,
    /// Its statement is missing, and the chain does not bridge it, because samples are missing as well.
    StatementLost,
}

impl Verdict {
    /// Returns the verdict's name in JSON and on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Incomplete { .. } => "incomplete",
            Self::Contradicted { .. } => "contradicted",
            Self::Unsigned(_) => "unsigned",
        }
    }
}

impl<'a> Judge<'a> {
    /// Begins at a position, with the positions that were never numbered according to the account; `None` without a
    /// valid statement. What the account says there is no proof: it only tells incomplete from contradicted.
    #[must_use]
    pub fn new(claims: &'a Claims, first: u64, unnumbered: RangeSet) -> Option<Self> {
        let (grid, subject) = claims.grid()?;
        let digester = Digester::new(&subject, grid, claims.schema().dtype);
        let (present, next) = (RangeSet::new(), grid.interval_of(first));
        let court = Court { claims, grid, subject, present, next, head: None, waiting: Vec::new() };
        Some(Self { claims, grid, subject, digester, unnumbered, court })
    }

    /// Takes delivered elements in their order; `told` receives the verdicts that are due.
    pub fn take(&mut self, position: u64, bytes: &[u8], told: &mut impl FnMut(Judged)) {
        let end = position + (bytes.len() / self.claims.schema().dtype.size_bytes()) as u64;
        let (court, unnumbered) = (&mut self.court, &self.unnumbered);
        // One interval at a time, so that no later position is present when it is judged.
        let element_bytes = self.claims.schema().dtype.size_bytes();
        let mut from = position;
        while from < end {
            let until = self.grid.positions(&(0..self.grid.interval_of(from) + 1)).end.min(end);
            court.present.insert(from..until);
            let at = |position_at: u64| (position_at - position) as usize * element_bytes;
            let part = &bytes[at(from)..at(until)];
            self.digester.take(from, part, &mut |it| court.judge(it, unnumbered, told));
            self.digester.pass(until, &mut |it| court.judge(it, unnumbered, told));
            from = until;
        }
    }

    /// Ends at a position: everything before it that was not taken is missing, and also what statements list behind
    /// it.
    pub fn finish(mut self, end: u64, told: &mut impl FnMut(Judged)) {
        let (court, unnumbered) = (&mut self.court, &self.unnumbered);
        self.digester.finish(&mut |it| court.judge(it, unnumbered, told));
        let last = end.div_ceil(self.grid.interval_elements()).max(self.claims.next_interval());
        court.absent(last, unnumbered, told);
        let head = self.claims.head_before(last);
        court.bridge(head, told);
    }

    /// Returns what the digests cover.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        self.subject
    }
}

impl Court<'_> {
    /// Judges an interval of which something was delivered, and first those before it.
    fn judge(&mut self, interval: &Interval, unnumbered: &RangeSet, told: &mut impl FnMut(Judged)) {
        self.absent(interval.number, unnumbered, told);
        self.judge_one(interval.number, Some(interval.leaves()), unnumbered, told);
    }

    /// Judges intervals of which nothing was delivered.
    fn absent(&mut self, until: u64, unnumbered: &RangeSet, told: &mut impl FnMut(Judged)) {
        let claims = self.claims;
        if self.next >= until {
            return;
        }
        for covered in claims.covered().intersection(self.next..until).collect::<Vec<_>>() {
            self.absent_uncovered(covered.start, unnumbered, told);
            for listed in claims.entries().range(covered.clone()).map(|(interval, _)| *interval) {
                self.nothing_numbered(listed, told);
                self.judge_one(listed, None, unnumbered, told);
            }
            self.nothing_numbered(covered.end, told);
        }
        self.absent_uncovered(until, unnumbered, told);
    }

    /// Intervals of which statements say that nothing was numbered.
    fn nothing_numbered(&mut self, until: u64, told: &mut impl FnMut(Judged)) {
        if self.next < until {
            let head = self.claims.head_before(self.next);
            self.bridge(head, told);
            let positions = self.grid.positions(&(self.next..until));
            let intervals = self.next..until;
            told(Judged { intervals, positions, elements: 0, verdict: Verdict::Proven }.ended(self.claims));
            self.next = until;
        }
    }

    fn absent_uncovered(&mut self, until: u64, unnumbered: &RangeSet, told: &mut impl FnMut(Judged)) {
        if self.next < until {
            self.wait_for_head(self.next..until, None, unnumbered, told);
            self.next = until;
        }
    }

    fn judge_one(
        &mut self,
        number: u64,
        leaves: Option<&[Digest]>,
        unnumbered: &RangeSet,
        told: &mut impl FnMut(Judged),
    ) {
        if self.claims.covered().contains(number) {
            let head = self.claims.head_before(number);
            self.bridge(head, told);
            let intervals = number..number + 1;
            let positions = self.grid.positions(&intervals);
            let elements = self.present.count_in(positions.clone());
            let verdict = self.compare(number, leaves, unnumbered);
            let judged = Judged { intervals, positions: positions.clone(), elements, verdict };
            told(judged.ended(self.claims));
            self.present.remove(positions);
        } else {
            self.wait_for_head(number..number + 1, leaves, unnumbered, told);
        }
        self.next = number + 1;
    }

    /// Compares an interval with its statement, leaf by leaf.
    fn compare(&self, number: u64, leaves: Option<&[Digest]>, unnumbered: &RangeSet) -> Verdict {
        let nothing = vec![Digest::NOTHING; self.grid.leaves()];
        let delivered = leaves.unwrap_or(&nothing);
        let stated = self.claims.entries().get(&number).unwrap_or(&nothing);
        let (mut missing, mut unproven, mut contradicted) =
            (RangeSet::new(), RangeSet::new(), RangeSet::new());
        for (leaf, (delivered, stated)) in delivered.iter().zip(stated).enumerate() {
            if delivered == stated {
                continue;
            }
            let positions = self.grid.leaf_positions(number, leaf);
            let lacks = self.missing_in(&positions, unnumbered);
            // Where nothing was numbered, nothing can be missing.
            if lacks.is_empty() || *stated == Digest::NOTHING {
                contradicted.insert(positions);
                continue;
            }
            missing.extend(lacks.iter());
            unproven.extend(self.present.intersection(positions));
        }
        match () {
            () if !contradicted.is_empty() => {
                Verdict::Contradicted { positions: contradicted, is_bridged: false }
            }
            () if !missing.is_empty() => Verdict::Incomplete { missing, unproven },
            () => Verdict::Proven,
        }
    }

    /// Returns the positions that were neither delivered nor, according to the account, left without a number.
    fn missing_in(&self, positions: &Range<u64>, unnumbered: &RangeSet) -> RangeSet {
        let end = positions.end.min(self.claims.end().unwrap_or(u64::MAX)).max(positions.start);
        let within = positions.start..end;
        let mut missing = RangeSet::new();
        missing.extend((!within.is_empty()).then(|| within.clone()));
        missing.remove_all(self.present.intersection(within.clone()));
        missing.remove_all(unnumbered.intersection(within));
        missing
    }

    /// Continues the chain over intervals without statement; they wait for the next head if it can prove them.
    fn wait_for_head(
        &mut self,
        intervals: Range<u64>,
        leaves: Option<&[Digest]>,
        unnumbered: &RangeSet,
        told: &mut impl FnMut(Judged),
    ) {
        let positions = self.grid.positions(&intervals);
        let elements = self.present.count_in(positions.clone());
        let is_complete = self.missing_in(&positions, unnumbered).is_empty();
        self.present.remove(positions.clone());
        let is_bridge = self.claims.has_head_behind(intervals.start);
        if self.waiting.is_empty()
            && let Some(head) = self.claims.head_before(intervals.start)
        {
            self.head = Some(head);
        }
        if !is_complete || !is_bridge {
            self.give_up_waiting(told);
        }
        if let (Some(head), Some(leaves)) = (self.head, leaves) {
            self.head = Some(self.subject.head(head, intervals.start, leaves));
        }
        let why = if is_bridge { Unsigned::StatementLost } else { Unsigned::NotStated };
        let judged = Judged { intervals, positions, elements, verdict: Verdict::Unsigned(why) };
        if self.head.is_some() { self.waiting.push(judged) } else { told(judged) }
    }

    fn give_up_waiting(&mut self, told: &mut impl FnMut(Judged)) {
        self.head = None;
        self.waiting.drain(..).for_each(told);
    }

    /// Decides on the intervals that wait, by the next known head of the chain.
    fn bridge(&mut self, stated: Option<Digest>, told: &mut impl FnMut(Judged)) {
        let is_proven = self.head.is_some() && self.head == stated;
        let is_known = self.head.is_some() && stated.is_some();
        self.head = None;
        for mut judged in self.waiting.drain(..) {
            if is_proven {
                judged.verdict = Verdict::Proven;
            } else if is_known {
                let positions = core::iter::once(judged.positions.clone()).collect();
                judged.verdict = Verdict::Contradicted { positions, is_bridged: true };
            }
            told(judged.ended(self.claims));
        }
    }
}

impl Judged {
    /// Leaves out positions behind the end of the epoch: the last interval is seldom full.
    fn ended(mut self, claims: &Claims) -> Self {
        if let Verdict::Proven | Verdict::Incomplete { .. } = self.verdict
            && let Some(end) = claims.end()
        {
            self.positions.end = self.positions.end.min(end).max(self.positions.start);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{bytes, claims, judged, judged_of, statements};

    fn names(judged: &[Judged]) -> Vec<(u64, &'static str)> {
        judged.iter().map(|it| (it.intervals.start, it.verdict.name())).collect()
    }

    fn set(range: Range<u64>) -> RangeSet {
        core::iter::once(range).collect()
    }

    #[test]
    fn what_was_delivered_whole_is_proven_to_the_last_element() {
        let claims = claims(&statements(&[0..130], 130));
        let found = judged(&claims, &[0..130], &[]);
        let all = ["proven"; 5];
        assert_eq!(found.iter().map(|it| it.verdict.name()).collect::<Vec<_>>(), all);
        assert_eq!(found.iter().map(|it| it.elements).sum::<u64>(), 130);
        assert_eq!(found.last().unwrap().positions.end, 130, "the last interval ends with the epoch");
    }

    #[test]
    fn a_gap_leaves_only_the_rest_of_its_leaf_unproven() {
        let claims = claims(&statements(&[0..90], 90));
        let found = judged(&claims, &[0..43, 45..90], &[]);
        assert_eq!(names(&found), [(0, "proven"), (1, "incomplete"), (2, "proven")]);
        let unproven: RangeSet = [40..43, 45..50].into_iter().collect();
        assert_eq!(found[1].verdict, Verdict::Incomplete { missing: set(43..45), unproven });
    }

    #[test]
    fn a_hole_that_was_never_numbered_is_part_of_the_proof() {
        let claims = claims(&statements(&[0..35, 40..90], 90));
        let found = judged(&claims, &[0..35, 40..90], &[]);
        assert_eq!(names(&found), [(0, "proven"), (1, "proven"), (2, "proven")]);
        // And cannot be made by whoever takes samples away.
        let found = judged(&claims, &[0..35, 40..70, 75..90], &[70..75]);
        assert_eq!(names(&found)[2], (2, "contradicted"));
        let found = judged(&claims, &[0..90], &[]);
        assert_eq!(names(&found)[1], (1, "contradicted"), "nor filled");
    }

    #[test]
    fn one_flipped_bit_contradicts_its_leaf_only() {
        let claims = claims(&statements(&[0..90], 90));
        let mut data = bytes(0..90);
        data[2 * 47] ^= 1;
        let found = judged_of(&claims, &[(0, data)], &[], 90);
        assert_eq!(names(&found), [(0, "proven"), (1, "contradicted"), (2, "proven")]);
        let positions = set(40..50);
        assert_eq!(found[1].verdict, Verdict::Contradicted { positions, is_bridged: false });
    }

    #[test]
    fn a_lost_statement_is_bridged_by_the_chain() {
        let mut list = statements(&[0..30, 30..60, 60..90, 90..120, 120..150, 150..180, 180..210], 210);
        // Only the first, about interval 0, and the last, about 4 to 6, are there.
        list = vec![list.remove(0), list.pop().unwrap()];
        let claims = claims(&list);
        let found = judged(&claims, &[0..210], &[]);
        assert_eq!(found.iter().filter(|it| it.verdict == Verdict::Proven).count(), 7);
        let mut data = bytes(0..210);
        data[2 * 65] ^= 1;
        let found = judged_of(&claims, &[(0, data)], &[], 210);
        let is_bridged = |it: &Judged| matches!(it.verdict, Verdict::Contradicted { is_bridged: true, .. });
        assert_eq!(
            found.iter().map(is_bridged).collect::<Vec<_>>(),
            [false, true, true, true, false, false, false]
        );
        // With a gap in between nothing can be said of them.
        let found = judged(&claims, &[0..65, 66..210], &[]);
        let lost = Verdict::Unsigned(Unsigned::StatementLost);
        assert_eq!(
            found.iter().filter(|it| it.verdict == lost).map(|it| it.intervals.start).collect::<Vec<_>>(),
            [1, 2, 3]
        );
    }

    #[test]
    fn the_first_statement_is_bridged_from_the_beginning() {
        let list = statements(&[0..30, 30..60, 60..90, 90..120, 120..150, 150..180], 180);
        let found = judged(&claims(&list[5..]), &[0..180], &[]);
        assert!(found.iter().all(|it| it.verdict == Verdict::Proven), "{found:?}");
    }

    #[test]
    fn what_no_statement_reaches_is_unsigned_and_what_is_cut_off_is_missing() {
        let list = statements(&[0..100], 130);
        let found = judged(&claims(&list[..1]), &[0..100], &[]);
        assert_eq!(names(&found), [(0, "proven"), (1, "proven"), (2, "proven"), (3, "unsigned")]);
        assert_eq!(found[3].verdict, Verdict::Unsigned(Unsigned::NotStated));
        let found = judged(&claims(&list), &[0..65], &[]);
        assert_eq!(names(&found)[2..], [(2, "incomplete"), (3, "incomplete"), (4, "proven")]);
        let Verdict::Incomplete { missing, unproven } = &found[2].verdict else { unreachable!() };
        assert_eq!((missing.clone(), unproven.clone()), (set(65..90), set(60..65)));
    }

    #[test]
    fn a_long_pause_is_one_verdict() {
        let list = statements(&[0..30, 30_000_000..30_000_030], 30_000_030);
        let found = judged(&claims(&list), &[0..30, 30_000_000..30_000_030], &[30..30_000_000]);
        assert_eq!(found.len(), 3);
        assert_eq!((found[1].intervals.clone(), found[1].elements), (1..1_000_000, 0));
        assert!(found.iter().all(|it| it.verdict == Verdict::Proven));
        let found = judged(&claims(&list[1..]), &[0..30, 30_000_000..30_000_030], &[30..30_000_000]);
        assert!(found.iter().all(|it| it.verdict == Verdict::Proven), "also by the chain: {found:?}");
    }

    #[test]
    fn samples_of_another_interval_do_not_pass_for_this_one() {
        let claims = claims(&statements(&[0..90], 90));
        let data = [(0, bytes(30..60)), (30, bytes(0..30)), (60, bytes(60..90))];
        let found = judged_of(&claims, &data, &[], 90);
        assert_eq!(names(&found), [(0, "contradicted"), (1, "contradicted"), (2, "proven")]);
    }
}
