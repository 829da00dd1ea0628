//! Succession of epochs: reports on predecessors, accounts after a silence, and replaced epochs.
//!
//! Source: `docs/protocol/account.md`, rules 1 and 16.

use std::sync::Arc;

use units::Epoch;
use wire::{Numbered, Predecessor};

use super::{MAX_REPLACED, Stream, Surroundings};
use crate::receiver::epoch::ReceiverEpoch;
use crate::receiver::event::Event;
use crate::receiver::rivals::Rival;

impl Stream {
    /// Records how far the predecessor came: its account, or one that follows it, covers what was not received.
    pub(super) fn hear_of_predecessor(
        &mut self,
        word: &Predecessor,
        successor: &Numbered,
        with: &mut Surroundings<'_>,
    ) {
        let listens = self.wanted && !self.is_leaving();
        let misses_end =
            |state: &ReceiverEpoch| state.ended && state.is_unconfirmed() && state.misses_end(with.now, word);
        if listens && self.current.as_ref().is_some_and(misses_end) {
            let Some(ended) = self.current.take() else { return };
            let (heard, position) = ((with.now, ended.from), ended.ledger.horizon_position());
            let per_sample = u64::from(ended.description.schema.elements_per_sample());
            let state = ended.following(with.next_key(), heard);
            let state = self.begun(state, position / per_sample, with);
            return state.believe(with.now, word, with.brackets, with.out);
        }
        if listens && let Some(state) = self.missed_epoch(word, successor, with) {
            let is_over =
                |current: &ReceiverEpoch| state.epoch < current.epoch && current.epoch != successor.epoch;
            if self.current.as_ref().is_some_and(is_over) {
                // Of two epochs whose clocks do not give the order, the one that was current came first.
                self.retire(successor.epoch, with);
            }
            return self.tell_missed(state, word, with);
        }
        let epochs = self.current.iter_mut().chain(&mut self.replaced);
        for state in epochs.filter(|state| state.epoch == word.epoch && !state.ended) {
            state.hear_successor(with.now, word);
        }
    }

    /// Returns an epoch with an account for the samples that its successor reports and that were not received, if no
    /// open account covers them: an epoch that had ended before this report, or one that began and ended unreceived
    /// while the reader waited.
    fn missed_epoch(
        &mut self,
        word: &Predecessor,
        successor: &Numbered,
        with: &mut Surroundings<'_>,
    ) -> Option<ReceiverEpoch> {
        let now = with.now;
        // A relayed stream begins anywhere: how much of an unheard epoch there was is not known.
        let is_relayed = with.arrival.origin.is_some();
        let misses_end = |state: &mut ReceiverEpoch| state.is_unconfirmed() && state.misses_end(now, word);
        if let Some(departed) = self.departed.take_if(misses_end) {
            return Some(departed.following(with.next_key(), (now, departed.from)));
        }
        if is_relayed {
            return None;
        }
        let epochs = self.epochs().chain(&self.departed).filter(|state| state.epoch < successor.epoch);
        let precedes = |state: &&ReceiverEpoch| state.epoch < word.epoch && state.can_precede(now, word);
        if let Some(before) = epochs.max_by_key(|state| state.epoch).filter(precedes) {
            return Some(before.unheard_successor(with.next_key(), self.config, word.epoch));
        }
        // Nothing was received before, or a clock that was set hides the order.
        let description = Arc::clone(self.description.as_ref()?);
        let since = self.beginnings.missed(word, successor, description.schema.rate, now)?;
        let (identity, silence) = ((self.id, word.epoch), (since, with.arrival.from));
        Some(ReceiverEpoch::unheard(with.next_key(), self.config, identity, description, silence))
            .filter(|state| state.can_precede(now, word))
    }

    /// Accounts for everything that was missed of an epoch that is over.
    fn tell_missed(&mut self, mut state: ReceiverEpoch, word: &Predecessor, with: &mut Surroundings<'_>) {
        let (stream, epoch, description) = (self.id, state.epoch, Arc::clone(&state.description));
        let per_sample = u64::from(description.schema.elements_per_sample());
        let first_index = state.ledger.horizon_position() / per_sample;
        self.beginnings.heard(epoch, with.now);
        for numbers in self.beginnings.begun(epoch).iter() {
            let first = state.ledger.next_number();
            state.name_undecoded(numbers.start.max(first)..numbers.end.max(first), with.brackets);
        }
        self.rivals.replaced(epoch, with.now, None);
        let origin = state.origin;
        with.out.event(Event::Began { stream, epoch, origin, description, first_index });
        state.believe(with.now, word, with.brackets, with.out);
        state.replaced(with.now, with.brackets, with.out);
        self.keep_replaced(state, with);
    }

    /// Keeps a replaced epoch until its account is settled; beyond the maximum the oldest is cut.
    fn keep_replaced(&mut self, state: ReceiverEpoch, with: &mut Surroundings<'_>) {
        if state.ended {
            self.departed = self.departed.take().into_iter().chain([state]).max_by_key(|state| state.epoch);
            return;
        }
        if self.replaced.len() == MAX_REPLACED {
            self.replaced.remove(0).cut(with.now, with.brackets, with.out);
        }
        self.replaced.push(state);
    }

    /// Begins another account of an epoch that had fallen silent, where the last one ended: losses during the silence
    /// count as missing.
    pub(super) fn resume(
        &mut self,
        head: &Numbered,
        with: &mut Surroundings<'_>,
    ) -> Option<&mut ReceiverEpoch> {
        let ended = self.current.take()?;
        let position = ended.ledger.horizon_position();
        if head.position() < position {
            // The rest of a sample that the previous account has given up: received, but unusable.
            with.stats.after_end += 1;
            self.beginnings.came_too_early(head.epoch, head.number);
            self.current = Some(ended);
            return None;
        }
        let mut state = ended.resumed(with.next_key(), (with.now, with.arrival.from));
        for numbers in self.beginnings.begun(head.epoch).iter() {
            let first = state.ledger.next_number();
            state.name_undecoded(numbers.start.max(first)..numbers.end.max(first), with.brackets);
        }
        Some(self.begun(state, position / u64::from(head.elements_per_sample), with))
    }

    pub(super) fn begun(
        &mut self,
        state: ReceiverEpoch,
        first_index: u64,
        with: &mut Surroundings<'_>,
    ) -> &mut ReceiverEpoch {
        let (stream, epoch, description) = (self.id, state.epoch, Arc::clone(&state.description));
        let origin = state.origin;
        with.out.event(Event::Began { stream, epoch, origin, description, first_index });
        self.told_end = false;
        self.departed.take_if(|departed| departed.epoch == epoch);
        self.earlier_heir = None;
        self.current.insert(state)
    }

    /// Retires the current epoch: its account settles, but takes no new data.
    pub(super) fn retire(&mut self, successor: Epoch, with: &mut Surroundings<'_>) {
        let Some(mut state) = self.current.take() else { return };
        self.unusable.remember(state.epoch, state.ledger.next_number().saturating_sub(1));
        state.replaced(with.now, with.brackets, with.out);
        if state.epoch != successor {
            let dropped = self.challengers.forget_up_to(successor);
            self.drop_held(dropped);
            self.rivals.replaced(state.epoch, with.now, Some(state.report_address()));
        }
        if successor < state.epoch {
            // The next epoch may start as early again, and its descriptor is awaited.
            self.introduced = Some(successor);
        }
        self.keep_replaced(state, with);
        self.departed.take_if(|departed| departed.epoch > successor);
    }

    /// Returns the replaced epoch of a datagram, and detects that this epoch continues.
    ///
    /// It still takes datagrams that it missed, but none beyond its horizon: the later start has won. If the winner
    /// has ended and the other continues, the other becomes current again.
    pub(super) fn replaced_epoch(
        &mut self,
        head: &Numbered,
        with: &mut Surroundings<'_>,
    ) -> Option<&mut ReceiverEpoch> {
        with.stats.replaced += 1;
        // Another publisher of the name is current: the beginning of this one is not awaited.
        self.beginnings.begun(head.epoch);
        let current = self.current.as_ref()?;
        let winner = (current.epoch, current.ended);
        // Two relays of one stream are no rivals.
        let rival = if current.is_kin_of(head.epoch, with.arrival.origin) {
            self.rivals.heard_of_kin(head.epoch, with.now)
        } else {
            self.rivals.heard(head.epoch, with.now)
        };
        match (rival, winner) {
            (Rival::Afterglow, _) | (Rival::RivalryKnown, (_, false)) => {}
            (Rival::Rivalry, (winner, false)) => {
                with.out.event(Event::TwoPublishers { stream: self.id, winner, other: head.epoch });
            }
            (Rival::Rivalry | Rival::RivalryKnown, (_, true)) if self.may_begin(head) => {
                return self.begin(head, with);
            }
            (Rival::Rivalry | Rival::RivalryKnown, (_, true)) => {}
        }
        if !self.replaced.iter().any(|state| state.misses(head)) {
            self.unusable.remember(head.epoch, head.number);
        }
        let from = with.arrival.from.ip();
        self.replaced.iter_mut().find(|state| state.misses(head) && state.pin.is_at(from))
    }
}
