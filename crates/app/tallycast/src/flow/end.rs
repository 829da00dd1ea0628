//! Ends of accounts at this reader: read from the ring, cut, or given up.

use ledger::{AccountState, Gap};
use units::Epoch;

use super::{Flow, GapList, MAX_EPOCHS};
use crate::event::Event;
use crate::reader_epoch::ReaderEpoch;
use crate::tap::TapRecord;

impl Flow {
    /// Cuts the accounts whose end was overwritten in the ring.
    pub(super) fn cut_overdue(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        let position = self.reader.position();
        let overdue = |reader_epoch: &ReaderEpoch| {
            !reader_epoch.ended && reader_epoch.end_by.is_some_and(|place| place <= position)
        };
        let epochs =
            self.epochs.iter().filter(|(_, reader_epoch)| overdue(reader_epoch)).map(|(epoch, _)| *epoch);
        for epoch in epochs.collect::<Vec<_>>() {
            self.cut(epoch, reader_name, events);
        }
    }

    /// Ends an account at this reader's position, if it is open.
    pub(super) fn cut(&mut self, epoch: Epoch, reader_name: &str, events: &mut Vec<Event>) {
        if self.current == Some(epoch) {
            self.flush(events);
        }
        if let Some(reader_epoch) = self.epochs.get_mut(&epoch).filter(|reader_epoch| !reader_epoch.ended) {
            reader_epoch.end(AccountState::Cut);
            self.tell_end(epoch, reader_name, events);
        }
    }

    /// Ends open accounts: the ring was closed, or is left although others still read it.
    pub(crate) fn close(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        self.closed = true;
        self.end_open(AccountState::Cut, reader_name, events);
    }

    /// Ends every open account at this reader's position, for good.
    pub(super) fn end_open(&mut self, state: AccountState, reader_name: &str, events: &mut Vec<Event>) {
        let open: Vec<_> =
            self.epochs.iter().filter(|(_, reader_epoch)| !reader_epoch.ended).map(|(it, _)| *it).collect();
        for epoch in open {
            if self.current == Some(epoch) {
                self.close_last_sample(epoch, events);
                self.flush(events);
            }
            if let Some(reader_epoch) = self.epochs.get_mut(&epoch) {
                reader_epoch.end(state);
                self.tell_end(epoch, reader_name, events);
            }
        }
    }

    /// Counts as missing the rest of a sample that was delivered in part: the sample is delivered with the
    /// elements that arrived.
    fn close_last_sample(&mut self, epoch: Epoch, events: &mut Vec<Event>) {
        let Some(reader_epoch) = self.epochs.get_mut(&epoch).filter(|reader_epoch| !reader_epoch.lapped)
        else {
            return;
        };
        let start = reader_epoch.hop.next_position();
        let positions = start..start.next_multiple_of(u64::from(self.schema.elements_per_sample()));
        if positions.is_empty() {
            return;
        }
        if let Some(assembly) = &mut self.assembly {
            assembly.gap(&positions, &mut self.blocks);
        }
        let told = reader_epoch.hop.gap(Gap::unexplained(positions)).clone();
        self.hand_over(events);
        self.tell_gap(epoch, told, events);
    }

    pub(super) fn tell_end(&mut self, epoch: Epoch, reader_name: &str, events: &mut Vec<Event>) {
        let Some(reader_epoch) = self.epochs.get(&epoch) else { return };
        let state = reader_epoch.hop.state();
        events.push(Event::Ended(self.account(epoch, reader_epoch, reader_name, GapList::Full)));
        self.tap(epoch, || TapRecord::Ended(state));
        self.forget_epochs(reader_name, events);
    }

    fn forget_epochs(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        while self.epochs.len() > MAX_EPOCHS {
            let oldest = self.epochs.keys().copied().find(|epoch| self.current != Some(*epoch));
            let Some(oldest) = oldest else { break };
            let Some(mut reader_epoch) = self.epochs.remove(&oldest) else { break };
            if !reader_epoch.ended {
                reader_epoch.end(AccountState::Cut);
                self.tap(oldest, || TapRecord::Ended(AccountState::Cut));
                events.push(Event::Ended(self.account(oldest, &reader_epoch, reader_name, GapList::Full)));
            }
        }
    }
}
