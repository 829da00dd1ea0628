//! A reader's accounts of one epoch, added up.

use tallycast::{Account, AccountState, StreamAccount};

/// Adds up a reader's accounts of one epoch, each of which is balanced and begins where the previous one ended.
///
/// Usually there is one. A publisher or a reader without a processor for more than a second causes another one.
///
/// # Panics
/// If there are none, or they are not contiguous.
#[must_use]
pub fn sum(accounts: &[StreamAccount]) -> Account {
    let first = accounts.first().expect("an account");
    let mut sum = first.account.clone();
    for pair in accounts.windows(2) {
        let [before, next] = pair else { unreachable!("windows of two") };
        assert_eq!(before.account.state, AccountState::Unconfirmed, "another follows: {before:?}");
        assert_eq!((next.epoch, next.follows), (before.epoch, Some((before.epoch, before.join))), "{next:?}");
        assert_eq!(next.account.elements.first, before.account.elements.next, "{next:?}");
        add(&mut sum, &next.account);
    }
    for account in accounts {
        assert_eq!(account.account.check(), Ok(()), "{account:?}");
    }
    sum
}

fn add(sum: &mut Account, next: &Account) {
    sum.state = next.state;
    if let (Some(sum), Some(next)) = (&mut sum.datagrams, &next.datagrams) {
        assert_eq!(sum.next, next.first, "datagrams");
        sum.next = next.next;
        sum.received += next.received;
        sum.lost.add(&next.lost);
        sum.unexplained += next.unexplained;
        sum.unsettled += next.unsettled;
        sum.in_flight += next.in_flight;
        sum.duplicates += next.duplicates;
    }
    let (sum, next) = (&mut sum.elements, &next.elements);
    sum.next = next.next;
    sum.delivered += next.delivered;
    sum.lost.add(&next.lost);
    sum.unexplained += next.unexplained;
    sum.unsettled += next.unsettled;
    sum.in_flight += next.in_flight;
}
