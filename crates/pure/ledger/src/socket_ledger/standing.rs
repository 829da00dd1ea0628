//! Queries of a ledger: its state, its rows, its gaps, and whether the law holds. They do not modify it.

use super::{End, Reclassified, SocketLedger};
use crate::account::check_inherited;
use crate::{Account, AccountState, Gap, Imbalance, NetworkRows, ReaderRows, Stage};

impl SocketLedger {
    /// Returns whether the publisher has not sent its final tally: silence then has a meaning.
    #[must_use]
    pub fn expects_more(&self) -> bool {
        match self.end {
            End::Open => true,
            End::Final(next) => next != self.horizon.number,
            End::Cut | End::Unconfirmed => false,
        }
    }

    /// Returns the state of the account.
    #[must_use]
    pub fn state(&self) -> AccountState {
        match self.end {
            End::Cut => AccountState::Cut,
            End::Unconfirmed => AccountState::Unconfirmed,
            End::Final(next) if next == self.horizon.number && self.nothing_pending() => AccountState::Closed,
            End::Final(_) | End::Open => AccountState::Open,
        }
    }

    /// Returns whether nothing is in flight or unsettled.
    #[must_use]
    pub fn nothing_pending(&self) -> bool {
        self.holes.is_empty()
            && self.elements_in_flight == 0
            && self.datagrams.unsettled == 0
            && self.elements.unsettled == 0
    }

    /// Returns a gap in its current state, `None` once it is forgotten.
    #[must_use]
    pub fn gap(&self, id: u64) -> Option<&Gap> {
        let first = self.gaps.front()?.gap.id;
        let index = usize::try_from(id.checked_sub(first)?).ok()?;
        self.gaps.get(index).map(|entry| &entry.gap)
    }

    /// Returns whether missing elements still wait for evidence.
    #[must_use]
    pub const fn is_unsettled(&self) -> bool {
        self.elements.unsettled > 0
    }

    /// Returns one more than the highest number seen, H.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.horizon.number
    }

    /// Returns the position up to which headers reach, h·E.
    #[must_use]
    pub const fn horizon_position(&self) -> u64 {
        self.horizon.position
    }

    /// Returns the number of gaps that settled before their time for evidence had passed, because too many were
    /// waiting.
    #[must_use]
    pub const fn settled_early(&self) -> u64 {
        self.settled_early
    }

    /// Returns the current number of accepted higher numbers that declare a number missing.
    #[must_use]
    pub const fn reorder_count(&self) -> u32 {
        self.holes.reorder_count()
    }

    /// Returns the moves of settled datagrams between classes so far.
    #[must_use]
    pub fn reclassified(&self) -> &[Reclassified] {
        &self.reclassified
    }

    /// Returns the network counters.
    #[must_use]
    pub fn network_rows(&self) -> NetworkRows {
        NetworkRows {
            first: self.first.number,
            next: self.horizon.number,
            received: self.received,
            lost: self.datagrams.lost,
            unexplained: self.datagrams.unexplained,
            unsettled: self.datagrams.unsettled,
            in_flight: self.holes.numbers_in_flight(),
            duplicates: self.duplicates,
            before_join: self.before_join,
        }
    }

    /// Returns the counters of a reader that takes everything this ledger delivers.
    #[must_use]
    pub fn reader_rows(&self) -> ReaderRows {
        let per_sample = u64::from(self.per_sample);
        let next = self.horizon.position.div_ceil(per_sample);
        // The rest of a sample whose pieces are still arriving is in flight too.
        let coming = next * per_sample - self.horizon.position;
        ReaderRows {
            first: self.first.position / per_sample,
            next,
            per_sample: self.per_sample,
            delivered: self.delivered,
            lost: self.elements.lost,
            unexplained: self.elements.unexplained,
            unsettled: self.elements.unsettled,
            in_flight: self.elements_in_flight + coming,
        }
    }

    /// Checks the law in datagrams, in elements and over the hops of a relayed stream, without inspecting single gaps.
    ///
    /// # Errors
    /// [`Imbalance`] of the first account that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.network_rows().check()?;
        self.reader_rows().check()?;
        check_inherited("hops", &self.elements.inherited, &self.elements.lost)
    }

    /// Returns the account with the remembered gaps.
    #[must_use]
    pub fn account(&self) -> Account {
        let gaps = self.gaps.iter().map(|entry| entry.gap.clone()).collect();
        Account { gaps, ..self.summary() }
    }

    /// Returns the account without its list of gaps, of which there are thousands after heavy loss.
    #[must_use]
    pub fn summary(&self) -> Account {
        Account {
            state: self.state(),
            datagrams: Some(self.network_rows()),
            elements: self.reader_rows(),
            hops: self.elements.inherited.completed(self.elements.lost[Stage::Source]),
            gaps: Vec::new(),
        }
    }
}
