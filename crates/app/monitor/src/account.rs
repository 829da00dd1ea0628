//! One stream's account as JSON, with its ladder of stages and its newest gaps.

use std::sync::Arc;

use ledger::{Account, AccountState, HopCounts, ReaderRows, Stage};
use serde_json::{Value, json};
use tallycast::{Reach, StreamAccount, account_json};

use crate::admission::Visitor;
use crate::history::{History, StreamSlot};
use crate::inherited::Inputs;
use crate::key_status::KeyStatus;
use crate::memory::StreamMemory;

/// Maximum number of gaps listed with an account; `GET /api/gaps` has all that are known.
const LISTED_GAPS: usize = 256;

/// Returns a stream's account in the form of `docs/reference/formats/account.md`, with all stages in order, plus the elements
/// never shown to viewers, and on a secured bus the state of the keys. Its gaps tell those of its inputs that the visitor may read.
pub(crate) fn account_of(
    slot: &StreamSlot,
    history: &History,
    visitor: &Visitor,
    keys: Option<&KeyStatus>,
) -> Value {
    let memory = slot.memory();
    let mut json = account_json(&present(&memory));
    let rows = memory.account.as_ref().map(|account| account.account.elements).unwrap_or_default();
    let gaps: Vec<_> = memory.gaps.newest(LISTED_GAPS).cloned().collect();
    let schema = Arc::clone(&memory.info.schema);
    drop(memory);
    let rung = |stage: Stage| json!({"stage": stage.name(), "elements": rows.lost[stage]});
    json["ladder"] = Stage::ALL.into_iter().map(rung).collect();
    let inputs = Inputs::of(&schema, history, |name| visitor.reads(name));
    json["gaps"] = gaps.iter().map(|gap| inputs.gap_json(gap)).collect();
    json["browsers"] = json!({"lost_elements": slot.lost_in_browsers()});
    let unauthentic = slot.unauthentic();
    if !unauthentic.is_empty() {
        json["unauthentic"] = json!(unauthentic);
    }
    if slot.unconfirmed_epochs() > 0 {
        json["unconfirmed_epochs"] = json!(slot.unconfirmed_epochs());
    }
    if let Some(keys) = keys {
        json["keys"] = json!(keys);
    }
    json
}

/// Returns the account without its gaps, which live memory has with their times.
fn present(memory: &StreamMemory) -> StreamAccount {
    let info = &memory.info;
    let empty = || StreamAccount {
        stream: info.name.clone(),
        id: info.id,
        epoch: info.epoch,
        origin: info.origin,
        upstream: Vec::new(),
        join: info.join,
        follows: None,
        reader: String::new(),
        reach: Reach::Udp,
        account: Account {
            state: AccountState::Open,
            datagrams: None,
            elements: ReaderRows {
                first: info.first_index,
                next: info.first_index,
                per_sample: info.schema.elements_per_sample(),
                ..ReaderRows::default()
            },
            hops: HopCounts::default(),
            gaps: Vec::new(),
        },
        samples: None,
        reclassified: Vec::new(),
        settled_early: 0,
        port: None,
        age: None,
        unauthentic: tallycast::UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    };
    let Some(known) = &memory.account else { return empty() };
    StreamAccount {
        upstream: known.upstream.clone(),
        join: known.join,
        follows: known.follows,
        reader: known.reader.clone(),
        reach: known.reach,
        account: Account {
            state: known.account.state,
            datagrams: known.account.datagrams,
            elements: known.account.elements,
            hops: known.account.hops.clone(),
            gaps: Vec::new(),
        },
        samples: known.samples,
        reclassified: known.reclassified.clone(),
        settled_early: known.settled_early,
        port: known.port,
        age: known.age,
        unauthentic: known.unauthentic,
        unconfirmed_epochs: known.unconfirmed_epochs,
        ..empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Gatekeeper, SessionCookie};
    use crate::clock;
    use crate::host_gate::Protection;
    use crate::scene;
    use axum::http::{HeaderMap, Method};
    use tallycast::UnauthenticCounts;

    #[test]
    fn a_flood_of_forged_datagrams_is_told_beside_an_account_that_it_does_not_change() {
        let address = "127.0.0.1:7480".parse().unwrap();
        let gatekeeper = Gatekeeper::open(None, address).unwrap();
        let cookie = SessionCookie::new(address, Protection::Loopback);
        let visitor = Visitor::of(&gatekeeper, &cookie, &Method::GET, &HeaderMap::new()).ok().unwrap();
        let history = History::default();
        history.begin(&Arc::new(scene::info("lab/x", 100)), clock::now());
        let told = || account_of(&history.stream("lab/x").unwrap(), &history, &visitor, None);
        let before = told();
        assert!(before.get("unauthentic").is_none(), "{before}");
        let counts = UnauthenticCounts { bad_tag: 1_000_000, clear: 2, ..UnauthenticCounts::default() };
        history.unauthentic_is("lab/x", counts);
        history.unauthentic_is("lab/unknown", counts);
        let mut after = told();
        let alarm = after.as_object_mut().unwrap().remove("unauthentic").unwrap();
        assert_eq!(
            alarm,
            json!({"no_key": 0, "bad_tag": 1_000_000, "replayed": 0, "wrong_sender": 0, "clear": 2})
        );
        assert_eq!(after, before);
        let info = Arc::new(scene::info("lab/x", 100));
        let account = StreamAccount {
            port: Some(scene::port()),
            unauthentic: counts,
            unconfirmed_epochs: 2,
            ..scene::account(&info, AccountState::Open)
        };
        history.accounts_are(vec![account]);
        assert_eq!(told()["unconfirmed_epochs"], 2);
    }
}
