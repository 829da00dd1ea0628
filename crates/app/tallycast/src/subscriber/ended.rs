//! A subscriber's accounts that have ended: completed by the counters of their sockets, and kept while
//! updates may come.

use std::collections::VecDeque;

use engine::StreamAccountView;

use super::{SocketAccounts, Subscriber};
use crate::event::{Event, StreamAccount, StreamGap};
use crate::host_view::Reach;

/// Maximum number of ended accounts that are kept for [`Subscriber::close`].
const MAX_ENDED: usize = 4_096;
/// Maximum number of gaps that they list together: the oldest accounts keep their sums only.
const MAX_ENDED_GAPS: usize = 1 << 16;

impl Subscriber {
    /// Returns the newest accounts of epochs that have ended, with the last updates of their gaps.
    pub fn ended_accounts(&self) -> impl Iterator<Item = &StreamAccount> {
        self.ended.iter()
    }

    /// Queues the events of the flows; ended accounts are completed and kept.
    pub(super) fn tell(&mut self) {
        let mut events = std::mem::take(&mut self.scratch);
        self.note_ends(&events);
        let concerns_the_ended = |event: &Event| match event {
            Event::Ended(_) => true,
            Event::Settled(gap) => self.ended.iter().any(|account| is_of(account, gap)),
            Event::Began(_) | Event::Block(_) | Event::Gap(_) | Event::Statement(_) => false,
        };
        if events.iter().any(concerns_the_ended) {
            let mut sockets = self.leaving.clone();
            sockets.extend(self.socket_accounts());
            for event in &mut events {
                match event {
                    Event::Ended(account) => self.keep_ended(account, &sockets),
                    Event::Settled(gap) => self.settle_ended(gap, &sockets),
                    Event::Began(_) | Event::Block(_) | Event::Gap(_) | Event::Statement(_) => {}
                }
            }
        }
        self.queue.extend(events.drain(..));
        self.scratch = events;
    }

    /// Completes an account that has ended, and keeps it.
    fn keep_ended(&mut self, account: &mut StreamAccount, sockets: &SocketAccounts) {
        if let Some(socket) = socket_account_of(account, sockets) {
            complete(account, socket);
        }
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(account.clone());
        forget_old_gaps(&mut self.ended);
    }

    /// Applies a late update of a gap to the account of its epoch, if that has ended.
    fn settle_ended(&mut self, gap: &StreamGap, sockets: &SocketAccounts) {
        let Some(known) = self.ended.iter_mut().rev().find(|account| is_of(account, gap)) else { return };
        let flow = self.flows.get(&known.id);
        let Some(later) = flow.and_then(|flow| flow.ended_account(gap.epoch, gap.join, &self.reader)) else {
            return;
        };
        known.account.elements = later.account.elements;
        known.account.gaps = later.account.gaps;
        if let Some(socket) = socket_account_of(known, sockets) {
            known.account.datagrams = socket.view.account.datagrams;
            complete(known, socket);
        }
    }
}

/// Removes the lists of all but the newest gaps.
fn forget_old_gaps(ended: &mut VecDeque<StreamAccount>) {
    let mut gaps = 0;
    for account in ended.iter_mut().rev() {
        gaps += account.account.gaps.len();
        if gaps > MAX_ENDED_GAPS {
            account.account.gaps = Vec::new();
        }
    }
}

fn is_of(account: &StreamAccount, gap: &StreamGap) -> bool {
    (account.epoch, account.join) == (gap.epoch, gap.join) && account.stream == gap.stream
}

/// Returns the socket's account that belongs to a reader's account that has ended.
fn socket_account_of<'a>(
    account: &StreamAccount,
    sockets: &'a SocketAccounts,
) -> Option<&'a StreamAccountView> {
    // Data from a ring of this host have no socket here, whatever else this process receives.
    let socket = sockets.get(&(account.id, account.epoch)).filter(|_| account.reach == Reach::Udp)?;
    // A publisher that fell silent and returned has another account in the same epoch by now.
    let same = match (&socket.view.account.datagrams, &account.account.datagrams) {
        (Some(socket), Some(account)) => socket.first == account.first,
        _ => true,
    };
    same.then_some(socket)
}

/// Adds the values that only the socket's account has.
pub(super) fn complete(account: &mut StreamAccount, socket: &StreamAccountView) {
    account.reclassified.clone_from(&socket.view.reclassified);
    account.settled_early = socket.view.settled_early;
    account.port = Some(socket.port);
    account.age = Some(socket.age);
    account.unauthentic = socket.unauthentic;
    account.unconfirmed_epochs = socket.unconfirmed_epochs;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, info, missing};
    use ledger::AccountState;

    fn account(gaps: usize) -> StreamAccount {
        let info = info(0, 1);
        let mut account = scene::account(&info, AccountState::Closed);
        account.account.gaps = vec![missing(&info).gap; gaps];
        account
    }

    /// An epoch that fell silent and returned has two accounts: updates of the later one must not change the
    /// earlier one.
    #[test]
    fn news_of_a_gap_are_of_one_account_of_the_epoch() {
        let account = account(1);
        let news_of = |join| missing(&info(0, join));
        assert!(is_of(&account, &news_of(1)));
        assert!(!is_of(&account, &news_of(2)));
    }

    #[test]
    fn the_oldest_of_the_ended_accounts_keep_their_sums_only() {
        let mut ended: VecDeque<_> = [5, MAX_ENDED_GAPS - 1, 1].map(account).into();
        forget_old_gaps(&mut ended);
        let listed: Vec<_> = ended.iter().map(|account| account.account.gaps.len()).collect();
        assert_eq!(listed, [0, MAX_ENDED_GAPS - 1, 1]);
    }
}
