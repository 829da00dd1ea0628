//! Believed sources of a stream: new epochs that are held for their descriptor, and addresses that are held back and
//! challenged until they take over.
//!
//! Source: `docs/protocol/stream.md`, "Believed sources".

use core::net::IpAddr;

use units::{Epoch, Instant};
use wire::{Datagram, Numbered, Request, Wanted};

use super::{Arrival, Stream, Surroundings, at_port};
use crate::receiver::challengers::{Held, Over, Round, Successor};
use crate::receiver::epoch::ReceiverEpoch;
use crate::receiver::event::Event;
use crate::receiver::rivals::Rival;

impl Stream {
    /// Returns whether the descriptor of a new epoch may still report how far its predecessor came, which need not be
    /// the current epoch.
    pub(super) fn waits_for_descriptor(&self, epoch: Epoch) -> bool {
        self.wanted && self.current.is_some() && !self.is_introduced(epoch)
    }

    /// Returns whether an epoch is no longer held for its descriptor. An epoch that replaces a later one is still to
    /// be introduced.
    fn is_introduced(&self, epoch: Epoch) -> bool {
        self.introduced == Some(epoch) || self.introduced > Some(epoch) && !self.gives_way_to(epoch)
    }

    /// Admits a new epoch: its descriptor has arrived, or was awaited for long enough.
    pub(super) fn introduce(&mut self, epoch: Epoch, with: &mut Surroundings<'_>) {
        if self.is_introduced(epoch) {
            return; // Nothing can wait for it.
        }
        self.introduce_all(with);
        self.introduced = Some(epoch);
    }

    /// Admits all held datagrams.
    pub(super) fn introduce_all(&mut self, with: &mut Surroundings<'_>) {
        for held in self.newcomer.take() {
            if !self.is_introduced(held.epoch) {
                self.introduced = Some(held.epoch);
            }
            self.take_held(&held.bytes, &mut with.at(held.from, &held.bytes));
        }
    }

    /// Returns whether a datagram comes from an address that is not believed while the believed one is alive; it is
    /// held back then.
    pub(super) fn is_held_back(&mut self, head: &Numbered, with: &mut Surroundings<'_>) -> bool {
        let Some(state) = &self.current else { return false };
        let Arrival { from, bytes, origin } = with.arrival;
        let (is_earlier, is_later) = (head.epoch < state.epoch, state.epoch < head.epoch);
        let (is_at, is_alive) = (state.pin.is_at(from.ip()), state.is_alive());
        // An earlier epoch that was current may still have datagrams in flight; any other counts as a newcomer.
        let is_familiar = if is_earlier { self.was_listened_to(head.epoch) } else { is_at };
        if is_familiar {
            return false;
        }
        if !is_alive && !self.challengers.is_empty() {
            // The held datagrams come first.
            self.challenge(with);
            if self.challengers.is_empty() {
                return self.is_held_back(head, with);
            }
        }
        let is_undecided = !is_alive && !self.challengers.is_empty();
        if is_earlier && !is_undecided && self.gives_way_to(head.epoch) {
            return false;
        }
        let is_held = is_alive || is_undecided;
        if is_held {
            let dropped = self.challengers.hold(with.now, from, head, bytes);
            self.drop_held(dropped);
            self.beginnings.pass_over(head.epoch);
        }
        let Some(state) = self.current.as_mut() else { return false };
        let is_kin = state.epoch != head.epoch && state.is_kin_of(head.epoch, origin);
        if is_held {
            if is_kin {
                // Two relays of one stream are no rivals.
            } else if is_earlier {
                let rival = self.rivals.heard_beside(head.epoch, with.now, state.last_heard);
                if let Some(report_to) = self.challengers.report_address(from.ip()) {
                    self.rivals.described(head.epoch, report_to);
                }
                if rival == Rival::Rivalry {
                    let (stream, winner, other) = (self.id, state.epoch, head.epoch);
                    with.out.event(Event::TwoPublishers { stream, winner, other });
                }
            } else if is_later {
                // Both publishers are notified of each other.
                self.rivals.heard(head.epoch, with.now);
            } else {
                self.challengers.reports_to(head.epoch, at_port(from, state.description.report_port));
            }
        } else if is_later {
            return false;
        } else if state.is_unconfirmed() {
            state.moves_to(from);
            return false;
        }
        if is_at {
            with.stats.replaced += 1;
            return true;
        }
        with.stats.imposter += 1;
        if !core::mem::replace(&mut self.told_imposter, true) {
            let (stream, epoch, believed) = (self.id, head.epoch, state.from);
            with.out.event(Event::Imposter { stream, epoch, believed, imposter: from });
        }
        true
    }

    /// Returns whether the current epoch is over, so that one that is earlier by its clock and was never current
    /// replaces it.
    pub(super) fn gives_way_to(&self, earlier: Epoch) -> bool {
        let Some(state) = self.current.as_ref().filter(|state| earlier < state.epoch) else { return false };
        let is_heir = |&(epoch, since): &(Epoch, Instant)| earlier >= epoch && state.last_heard <= since;
        let is_over = !state.is_alive() || self.earlier_heir.as_ref().is_some_and(is_heir);
        is_over && !self.was_listened_to(earlier)
    }

    /// Returns the current epoch's address if another epoch there, earlier by its clock, continued when the current
    /// one fell silent.
    pub(super) fn survivor(&self) -> Option<IpAddr> {
        let state = self.current.as_ref()?;
        self.challengers.survivor(state.epoch, state.last_heard, |ip| state.pin.is_at(ip))
    }

    /// Returns whether an epoch was current before another replaced it.
    fn was_listened_to(&self, epoch: Epoch) -> bool {
        self.rivals.was_believed(epoch) || self.replaced.iter().any(|state| state.epoch == epoch)
    }

    /// Returns when the addresses that are held back need the next check.
    pub(super) fn challengers_due(&self) -> Option<Instant> {
        let state = self.current.as_ref()?;
        let ask = self.challengers.next_ask();
        if state.is_alive() {
            return Instant::earlier(ask, self.challengers.next_round(state.last_heard));
        }
        let decision = (!self.challengers.is_empty()).then(|| self.challengers.heir_known(&over(state)));
        Instant::earlier(ask, decision)
    }

    /// Challenges the believed address and those that are held back; one of these takes over once the other is gone.
    pub(super) fn challenge(&mut self, with: &mut Surroundings<'_>) {
        self.ask_for_proofs(false, with);
        let Some(state) = &self.current else { return };
        if state.is_alive() {
            return match self.challengers.round(with.now, state.last_heard) {
                Round::Wait => {}
                Round::Challenge => self.send_challenges(with),
                Round::TakeOver(ip) => self.take_over(ip, with),
            };
        }
        if with.now < self.challengers.heir_known(&over(state)) {
            return;
        }
        match self.challengers.heir(&over(state)) {
            Some(ip) => self.take_over(ip, with),
            None => {
                let dropped = self.challengers.clear();
                self.drop_held(dropped);
            }
        }
    }

    /// Records held datagrams that are discarded: they count as received if an account of their epoch ever begins.
    pub(super) fn drop_held(&mut self, dropped: Vec<Held>) {
        for held in dropped {
            self.beginnings.came_too_early(held.epoch, held.number);
        }
    }

    fn send_challenges(&mut self, with: &mut Surroundings<'_>) {
        let nonce = self.challengers.nonce();
        let Some(state) = &self.current else { return };
        // A publisher without support for nonces sends its descriptor, which proves that it is alive, too.
        let request = Request { nonce: Some(nonce), ..self.request(state.epoch, Wanted::Descriptor) };
        with.out.request(state.report_address(), request);
        self.ask_for_proofs(true, with);
    }

    /// Requests nonces from held-back addresses: from those whose turn it is, or with `all` from every one without a
    /// proof.
    fn ask_for_proofs(&mut self, all: bool, with: &mut Surroundings<'_>) {
        let (stream, reader, what, waiting) = (self.id, self.reader.id, Wanted::Descriptor, None);
        for (challenger, report_to) in self.challengers.ask(with.now, all) {
            let (epoch, nonce) = (challenger.epoch, Some(challenger.nonce));
            with.out.request(report_to, Request { stream, epoch, reader, what, waiting, nonce });
        }
    }

    /// Believes another address, and takes the datagrams held of it.
    pub(super) fn take_over(&mut self, ip: IpAddr, with: &mut Surroundings<'_>) {
        let Some(Successor { epoch, held, displaced, dropped }) = self.challengers.take(ip) else { return };
        self.drop_held(dropped);
        self.told_imposter = false;
        if self.current.as_ref().is_some_and(|state| epoch < state.epoch) {
            let earliest = held.iter().map(|held| held.epoch).min().unwrap_or(epoch);
            self.earlier_heir = Some((earliest, with.now));
        }
        match (&mut self.current, held.last()) {
            (Some(state), Some(newest)) if state.epoch == epoch => state.moves_to(newest.from),
            // Reports on the previous epoch are still sent to its address.
            (Some(state), _) if state.epoch < epoch => state.pin.moves_to(ip),
            (Some(_) | None, _) => {}
        }
        for held in &held {
            self.take_held(&held.bytes, &mut with.at(held.from, &held.bytes));
        }
        self.introduce(epoch, with);
        for state in self.current.iter_mut().chain(&mut self.replaced) {
            if let Some(numbers) = displaced.get(&state.epoch).filter(|_| !state.ended) {
                numbers.iter().for_each(|numbers| state.name_undecoded(numbers, with.brackets));
                state.advance(with.now, with.brackets, with.out);
            }
        }
    }

    /// Takes a datagram that was held back.
    pub(super) fn take_held(&mut self, bytes: &[u8], with: &mut Surroundings<'_>) {
        match Datagram::decode(bytes) {
            Ok(Datagram::Data(data)) => self.on_data(&data, with),
            Ok(Datagram::Tally(tally)) => self.on_tally(&tally, with),
            Ok(Datagram::Descriptor(part)) => self.on_descriptor(&part, with),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Summarizes an epoch that is over for the choice of its successor.
fn over(state: &ReceiverEpoch) -> Over {
    Over { epoch: state.epoch, ended: !state.is_unconfirmed(), last_heard: state.last_heard }
}
