//! Flows of relayed streams: their origin, the losses of the hops before, and where these were told.

use super::*;
use crate::account_json;
use serde_json::json;
use wire::UpstreamHop;

/// Opens the account of a relayed stream.
fn relayed(position: u64) -> Record<'static> {
    Record::Began { epoch: A, first_index: position / E, origin: Some(ORIGIN) }
}

/// The same gap once all that it inherited has settled.
fn settled(positions: Range<u64>) -> Gap {
    let len = positions.end - positions.start;
    let lag = HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count: 1 };
    let late = HopShare { hop: 1, outcome: Outcome::Lost(Stage::Deadline), count: len - 1 };
    Gap { inherited: [lag, late].into_iter().collect(), ..inherited(positions) }
}

fn upstream() -> Vec<UpstreamHop> {
    let hop = |station: &str, stage, count| UpstreamHop {
        station: station.to_owned(),
        lost: StageCounts::of(stage, count),
        unexplained: 0,
    };
    vec![hop("rig", Stage::ReaderLag, 1), hop("gate", Stage::Deadline, 9)]
}

fn only_account(events: &[Event]) -> &StreamAccount {
    let ended = events.iter().filter_map(|event| match event {
        Event::Ended(account) => Some(account),
        _ => None,
    });
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended.len(), 1);
    ended[0]
}

#[test]
fn an_account_of_a_relayed_stream_tells_its_origin_and_every_hop() {
    let mut scene = Scene::new();
    scene.put(&relayed(40), [0, 0]);
    scene.blocks(A, 40..60);
    scene.gap(A, inherited(60..70));
    scene.put(&Record::Upstream(A, upstream()), [0, 0]);
    scene.blocks(A, 70..80);
    scene.settled(A, settled(60..70));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let Event::Began(info) = &events[0] else { panic!("{:?}", words(&events)) };
    assert_eq!((info.origin, info.first_index), (Some(ORIGIN), 20));
    assert_eq!(gaps(&events)[0].gap.inherited, inherited(60..70).inherited);
    let account = only_account(&events);
    assert!(account.account.explained(), "{account:?}");
    let json = account_json(account);
    assert_eq!(json["origin"], json!({"epoch": ORIGIN.epoch, "hop": 2}));
    let hops = json!([
        {"hop": 0, "station": "rig", "lost": {"reader_lag": 1}, "unexplained": 0, "unsettled": 0},
        {"hop": 1, "station": "gate", "lost": {"deadline": 9}, "unexplained": 0, "unsettled": 0},
    ]);
    assert_eq!(json["hops"], hops);
    assert_eq!(json["elements"]["lost"], json!({"source": 10}));
}

#[test]
fn losses_before_that_never_settle_are_unexplained_on_their_hop() {
    let mut scene = Scene::new();
    scene.put(&relayed(0), [0, 0]);
    scene.blocks(A, 0..10);
    scene.gap(A, inherited(10..20));
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let account = &only_account(&events).account;
    assert_eq!(account.check(), Ok(()));
    assert_eq!((account.hops.rows(0).lost.total(), account.hops.rows(1).unexplained), (1, 9));
}

#[test]
fn a_lapped_reader_learns_from_the_page_on_which_hop_elements_were_lost() {
    let mut scene = Scene::new();
    scene.put(&relayed(0), [0, 0]);
    scene.blocks(A, 0..10);
    scene.read();
    scene.gap(A, inherited(10..20));
    scene.blocks(A, 20..TOO_MANY);
    scene.bridge_knows(A, vec![settled(10..20)]);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let account = &only_account(&events).account;
    assert!(account.explained(), "{account:?}");
    assert_eq!(account.elements.lost[Stage::Source], 10);
    assert_eq!(account.hops, settled(10..20).inherited);
    assert!(account.elements.lost[Stage::ReaderLag] > 0);
}

#[test]
fn a_reader_that_comes_later_learns_the_origin_from_the_page() {
    let mut scene = Scene::new();
    scene.put(&relayed(0), [0, 0]);
    scene.blocks(A, 0..TOO_MANY);
    let on_page = EpochOnPage { epoch: A, ended: false, origin: Some(ORIGIN), gaps: Vec::new() };
    scene.bridge.0.lock().unwrap().push(on_page);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let Event::Began(info) = &events[0] else { panic!("{:?}", words(&events)) };
    assert_eq!(info.origin, Some(ORIGIN));
    assert_eq!(only_account(&events).origin, Some(ORIGIN));
}

#[test]
fn a_tap_is_told_origin_hops_before_and_inherited_losses() {
    let mut scene = Scene::new();
    scene.flow.hand_over_as(Handing::Records);
    scene.put(&relayed(0), [0, 0]);
    scene.gap(A, inherited(0..10));
    scene.put(&Record::Upstream(A, upstream()), [0, 0]);
    scene.settled(A, settled(0..10));
    scene.read();
    let records: Vec<_> = scene.flow.take_records().map(|it| it.record).collect();
    let [TapRecord::Began(begun), TapRecord::Gap(gap), TapRecord::Upstream(hops), TapRecord::Settled(news)] =
        &records[..]
    else {
        panic!("{records:?}")
    };
    assert_eq!((begun.origin, hops), (Some(ORIGIN), &upstream()));
    assert_eq!(gap.inherited, inherited(0..10).inherited);
    assert_eq!(news.inherited, settled(0..10).inherited);
}
