//! Rule 16 at the end of a scene: for a reader that stays, every sample of an epoch is in exactly one account, up to
//! its known end.
//!
//! Continuity between accounts of an epoch is checked as they begin ([`super::watch`]), their contents by
//! [`super::truth`]; here the end of the last one is checked.
//!
//! Source: `docs/protocol/account.md`, rule 16.

use ledger::AccountState;
use sim::{Network, NodeId};

use super::Part;
use super::publisher::EpochAsSent;
use super::reader::{Reader, What};
use super::truth::account_of;

/// Maximum number of datagrams that a reader holds of publishers that it does not believe yet
/// (`docs/protocol/stream.md`, "Believed sources").
const MAX_HELD: u64 = 1_024;
const MAX_HELD_BYTES: u64 = 1 << 20;

/// Checks the ends of all epochs of the only publisher of a stream, at a reader that waited for it from the
/// beginning.
///
/// # Panics
/// If the end of an epoch is known and its last account does not reach it, or if an end was invented.
pub(crate) fn check_continuity(network: &Network<Part>, publisher: NodeId, node: NodeId) {
    let epochs = &network.node(publisher).publisher().epochs;
    for (place, as_sent) in epochs.iter().enumerate() {
        let (before, successor) = (&epochs[..place], epochs.get(place + 1));
        if let Err(what) = ends_where_it_has_to(network, node, before, as_sent, successor) {
            panic!("{what}: {:?} in {}", as_sent.epoch, network.scenario());
        }
    }
}

fn ends_where_it_has_to(
    network: &Network<Part>,
    node: NodeId,
    before: &[EpochAsSent],
    as_sent: &EpochAsSent,
    successor: Option<&EpochAsSent>,
) -> Result<(), String> {
    let reader = network.node(node).reader();
    let heard = |as_sent: &EpochAsSent, what: What| {
        reader.diary.iter().any(|seen| seen.epoch == as_sent.epoch && seen.readable && seen.what == what)
    };
    let told = successor.filter(|successor| heard(successor, What::Descriptor)).and_then(|it| it.predecessor);
    let Some(last) = reader.watch.followed.iter().rposition(|following| following.epoch == as_sent.epoch)
    else {
        // An epoch that began by a clock that was set back, and was received and not believed, is no longer awaited.
        let was_heard = reader.diary.iter().any(|seen| seen.epoch == as_sent.epoch);
        let is_next = !was_heard || before.iter().all(|it| it.epoch < as_sent.epoch);
        let is_told = told.is_some_and(|told| told.next_number > 0) && is_next;
        let is_known = heard(as_sent, What::Descriptor) && !is_crowded_out(reader, as_sent) || is_told;
        return if is_known { Err("an epoch without an account".to_owned()) } else { Ok(()) };
    };
    let account = account_of(reader, last);
    let (end, offered) = (account.elements.next, as_sent.end.unwrap_or(as_sent.totals.samples.offered));
    let reached = told.map_or(0, |told| told.next_index + u64::from(told.element_offset > 0));
    let is_closed = account.state == AccountState::Closed;
    if !account.closed() || account.state == AccountState::Open {
        return Err(format!("something is pending in the end: {account:?}"));
    }
    if heard(as_sent, What::FinalTally) {
        return if is_closed && end == offered {
            Ok(())
        } else {
            Err(format!("{offered} samples by the final tally, and an account up to {end}: {account:?}"))
        };
    }
    if end < reached || end > offered {
        return Err(format!("{reached} samples by the successor, and an account up to {end}: {account:?}"));
    }
    let is_told = told.is_some_and(|told| told.is_final);
    if is_closed == is_told { Ok(()) } else { Err(format!("an end that nobody told: {account:?}")) }
}

/// Returns whether so many datagrams of other epochs followed an epoch that none of its own can still be held: they
/// were only counted.
fn is_crowded_out(reader: &Reader, as_sent: &EpochAsSent) -> bool {
    let behind = reader.diary.iter().rev().take_while(|seen| seen.epoch != as_sent.epoch);
    let (datagrams, bytes) = behind.fold((0, 0), |(datagrams, bytes), seen| {
        // Elements of four bytes.
        (datagrams + 1, bytes + 4 * seen.elements)
    });
    datagrams >= MAX_HELD || bytes >= MAX_HELD_BYTES
}
