//! Rule 16 at the end of a scene: for a reader that stays, every sample of an epoch is in exactly one account, up to where its end
//! is known.
//!
//! That accounts of an epoch follow each other without a sample between is checked as they begin ([`super::watch`]), that each
//! holds what it says by [`super::truth`]; here it is whether the last one ends where it has to.
//!
//! Source: `docs/protocol/account.md`, rule 16.

use ledger::AccountState;
use sim::{Network, NodeId};

use super::Part;
use super::publisher::EpochAsSent;
use super::reader::{Reader, What};
use super::truth::account_of;

/// What a reader holds of publishers that it does not believe yet (`docs/protocol/stream.md`, "Believed sources").
const MAX_HELD: u64 = 1_024;
const MAX_HELD_BYTES: u64 = 1 << 20;

/// Checks the ends of all epochs of the only publisher of a stream, at a reader that waited for it from the beginning on.
///
/// # Panics
/// If the end of an epoch is known and its last account does not reach there, or if an end was made up.
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
        // One that began by a clock that was set back, and was heard and not believed, is not waited for any more.
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

/// Tells whether so many datagrams of other epochs came after an epoch that none of its own can still be held: they were only
/// counted.
fn is_crowded_out(reader: &Reader, as_sent: &EpochAsSent) -> bool {
    let behind = reader.diary.iter().rev().take_while(|seen| seen.epoch != as_sent.epoch);
    let (datagrams, bytes) = behind.fold((0, 0), |(datagrams, bytes), seen| {
        // Elements of four bytes.
        (datagrams + 1, bytes + 4 * seen.elements)
    });
    datagrams >= MAX_HELD || bytes >= MAX_HELD_BYTES
}
