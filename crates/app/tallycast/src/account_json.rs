//! Accounts and gaps as JSON, as `docs/reference/formats/account.md` describes them.

use std::time::Duration;

use engine::PortStatus;
use ledger::{Account, AccountState, Gap, HopCounts, HopRows};
use serde_json::{Map, Value, json};
use units::Epoch;
use wire::UpstreamHop;

use crate::event::{StreamAccount, StreamGap};

/// Returns an account as one JSON object.
#[must_use]
pub fn account_json(account: &StreamAccount) -> Value {
    let rows = &account.account;
    let gaps: Vec<Value> = rows.gaps.iter().map(|gap| gap_json(gap, rows.elements.per_sample)).collect();
    let moved = account.reclassified.iter().map(|moved| {
        let from = moved.from.map_or("unexplained", ledger::Stage::name);
        json!({"from": from, "to": moved.to, "datagrams": moved.datagrams})
    });
    let mut json = json!({
        "stream": account.stream,
        "account": identity(account, (account.epoch, account.join)),
        "follows": account.follows.map(|before| identity(account, before)),
        "epoch": account.epoch,
        "reader": account.reader,
        "leg": account.reach.hop(),
        "state": rows.state.name(),
        "balanced": rows.balanced(),
        "closed": rows.closed(),
        "explained": rows.explained(),
        "datagrams": rows.datagrams,
        "elements": rows.elements,
        "samples": account.samples,
        "reclassified": moved.collect::<Vec<_>>(),
        "settled_early": account.settled_early,
        "socket": account.port.as_ref().map(socket_json),
        "gaps": gaps,
    });
    if let Some(origin) = account.origin {
        json["origin"] = json!({"epoch": origin.epoch, "hop": origin.hop});
        json["hops"] = hops_json(&rows.hops, origin.hop.get(), &account.upstream);
    }
    if !account.unauthentic.is_empty() {
        json["unauthentic"] = json!(account.unauthentic);
    }
    if account.unconfirmed_epochs > 0 {
        json["unconfirmed_epochs"] = json!(account.unconfirmed_epochs);
    }
    json
}

/// Returns the losses on all hops before a relayed stream's own, with the station that sent on each where it is known.
fn hops_json(hops: &HopCounts, own: u8, upstream: &[UpstreamHop]) -> Value {
    let hop_json = |hop: u8| {
        let HopRows { lost, unexplained, unsettled } = hops.rows(hop);
        let mut json = json!({"hop": hop, "lost": lost, "unexplained": unexplained, "unsettled": unsettled});
        if let Some(it) = upstream.get(usize::from(hop)) {
            json["station"] = json!(it.station);
        }
        json
    };
    (0..own).map(hop_json).collect()
}

/// Returns the id of an account of this account's reader: reader, epoch, and number of the account in the
/// epoch.
fn identity(account: &StreamAccount, (epoch, join): (Epoch, u32)) -> String {
    format!("{}/{epoch}/{join}", account.reader)
}

/// Returns a subscriber's gap as one JSON object, with its times.
#[must_use]
pub fn stream_gap_json(gap: &StreamGap) -> Value {
    let mut object = gap_json(&gap.gap, gap.elements_per_sample);
    object["stream"] = json!(gap.stream);
    object["epoch"] = json!(gap.epoch);
    object["join"] = json!(gap.join);
    object["from_ns"] = json!(gap.t0);
    object["to_ns"] = json!(gap.t1);
    object
}

/// Returns a gap as one JSON object.
#[must_use]
pub fn gap_json(gap: &Gap, elements_per_sample: u32) -> Value {
    let per_sample = u64::from(elements_per_sample);
    let first_index = gap.positions.start / per_sample;
    let mut json = json!({
        "id": gap.id,
        "kind": gap.kind,
        "first_index": first_index,
        "samples": gap.positions.end.div_ceil(per_sample) - first_index,
        "elements": gap.len(),
        "first_element": gap.positions.start,
        "numbers": [gap.numbers.start, gap.numbers.end],
        "lost": gap.lost,
        "unexplained": gap.unexplained,
        "unsettled": gap.unsettled,
        "settled": gap.settled(),
        "apportioned": gap.apportioned,
        "evidence": gap.evidence.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    if !gap.inherited.is_empty() {
        json["hops"] = json!(gap.inherited);
    }
    json
}

/// Returns whether an ended account is complete: it is balanced, nothing is pending or unexplained, and its
/// end is known. Without a final tally it is unknown what the publisher still sent.
#[must_use]
pub fn is_in_order(account: &Account) -> bool {
    account.explained() && account.state != AccountState::Unconfirmed
}

/// Returns whether an ended account is [in order](is_in_order) given the others of its reader: the account of
/// a publisher that fell silent has a known end if another account follows it.
#[must_use]
pub fn is_in_order_among(account: &StreamAccount, all: &[StreamAccount]) -> bool {
    let goes_on = |next: &StreamAccount| {
        let is_next = next.follows == Some((account.epoch, account.join)) && next.epoch == account.epoch;
        is_next && next.id == account.id && next.account.elements.first == account.account.elements.next
    };
    let is_unconfirmed = account.account.state == AccountState::Unconfirmed;
    is_in_order(&account.account) || is_unconfirmed && account.account.explained() && all.iter().any(goes_on)
}

fn socket_json(port: &PortStatus) -> Value {
    let unused = port.stats.unused().into_iter().filter(|(_, count)| *count > 0);
    let extensions =
        port.stats.unknown_extensions.by_type().map(|(code, count)| (code.to_string(), json!(count)));
    let mut json = json!({
        "address": port.address,
        "buffer_bytes": port.buffer.effective_bytes,
        "datagrams": port.stats.datagrams,
        "drops": port.drops,
        "unmatched": port.unmatched,
        "unused": unused.map(|(reason, count)| (reason.to_owned(), json!(count))).collect::<Map<_, _>>(),
        "unknown_extensions": extensions.collect::<Map<_, _>>(),
        "reads": port.waits.reads,
        "wait_p50_ns": nanos(port.waits.median),
        "wait_p99_ns": nanos(port.waits.percentile_99),
        "longest_wait_ns": nanos(port.waits.longest),
    });
    if !port.unauthentic.is_empty() {
        json["unauthentic"] = json!(port.unauthentic);
    }
    json
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{HopCounts, HopShare, Outcome, ReaderRows, Stage, StageCounts};

    fn account(state: AccountState) -> Account {
        let elements = ReaderRows { next: 5, per_sample: 2, delivered: 10, ..ReaderRows::default() };
        Account { state, datagrams: None, elements, hops: HopCounts::default(), gaps: Vec::new() }
    }

    #[test]
    fn losses_before_a_relay_are_told_by_hop_and_only_of_relayed_streams() {
        let mut gap =
            Gap { lost: StageCounts::of(Stage::Source, 4), unexplained: 0, ..Gap::unexplained(0..4) };
        assert_eq!(gap_json(&gap, 2).get("hops"), None);
        gap.inherited.add(HopShare { hop: 1, outcome: Outcome::Lost(Stage::Deadline), count: 3 });
        gap.inherited.add(HopShare { hop: 0, outcome: Outcome::Unexplained, count: 1 });
        let hops = json!([
            {"hop": 0, "lost": {}, "unexplained": 1, "unsettled": 0},
            {"hop": 1, "lost": {"deadline": 3}, "unexplained": 0, "unsettled": 0},
        ]);
        assert_eq!(gap_json(&gap, 2)["hops"], hops);
    }

    #[test]
    fn an_account_tells_every_hop_before_its_own_and_the_stations_that_are_known() {
        let mut hops = HopCounts::default();
        hops.add(HopShare { hop: 1, outcome: Outcome::Lost(Stage::Deadline), count: 3 });
        let rig = UpstreamHop { station: "rig".to_owned(), lost: StageCounts::default(), unexplained: 0 };
        let told = json!([
            {"hop": 0, "station": "rig", "lost": {}, "unexplained": 0, "unsettled": 0},
            {"hop": 1, "lost": {"deadline": 3}, "unexplained": 0, "unsettled": 0},
            {"hop": 2, "lost": {}, "unexplained": 0, "unsettled": 0},
        ]);
        assert_eq!(hops_json(&hops, 3, &[rig]), told);
    }

    #[test]
    fn an_account_is_in_order_when_its_end_is_known_and_everything_is_explained() {
        assert!(is_in_order(&account(AccountState::Closed)));
        assert!(is_in_order(&account(AccountState::Cut)), "a reader may leave when it likes");
        assert!(!is_in_order(&account(AccountState::Open)));
        assert!(!is_in_order(&account(AccountState::Unconfirmed)), "nobody knows what was sent at last");
        let mut unexplained = account(AccountState::Closed);
        unexplained.elements.delivered -= 1;
        assert!(!is_in_order(&unexplained), "not balanced");
        unexplained.elements.unexplained += 1;
        assert!(!is_in_order(&unexplained), "not explained");
    }
}
