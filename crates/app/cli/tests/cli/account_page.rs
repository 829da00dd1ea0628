//! The page `docs/reference/formats/account.md` and the objects that are printed agree, field for field.

use std::collections::BTreeSet;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use ledger::{
    Account, AccountState, Evidence, EvidenceSource, HopCounts, NetworkRows, ReaderRows, Reclassified,
    SampleRows, Unit,
};
use serde_json::Value;
use tallycast::{
    Buffer, Direction, Epoch, Gap, GapKind, HopShare, Origin, Outcome, PortStatus, Reach, ReceiverStats,
    Stage, StageCounts, StreamAccount, StreamGap, StreamId, UnauthenticCounts, UpstreamHop, Waits, WallTime,
    account_json, stream_gap_json,
};

const PAGE: &str = include_str!("../../../../../docs/reference/formats/account.md");

/// Returns the fields in the tables of a section of the page.
fn fields_on_page(section: &str) -> BTreeSet<&'static str> {
    let after = PAGE.split_once(&format!("\n## {section}\n")).expect("the section is there").1;
    let text = after.split("\n## ").next().expect("there is a first part");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(field, _)| field).collect()
}

fn fields_of(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn gap() -> Gap {
    let source = EvidenceSource::TallyRange;
    Gap {
        id: 18_000,
        kind: GapKind::Missing,
        positions: 18_000..18_360,
        numbers: 52..53,
        lost: StageCounts::of(Stage::Injected, 360),
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: 0,
        apportioned: false,
        evidence: vec![Evidence { stage: Stage::Injected, count: 1, unit: Unit::Datagrams, source }],
    }
}

/// The account of the page's example.
fn account() -> StreamAccount {
    let datagrams = NetworkRows {
        first: 2,
        next: 102,
        received: 99,
        lost: StageCounts::of(Stage::Injected, 1),
        ..NetworkRows::default()
    };
    let elements = ReaderRows {
        next: 17_600,
        per_sample: 2,
        delivered: 34_840,
        lost: StageCounts::of(Stage::Injected, 360),
        ..ReaderRows::default()
    };
    StreamAccount {
        stream: Arc::new("lab/probe".parse().unwrap()),
        id: StreamId(7),
        epoch: Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 0xc0ffee },
        origin: None,
        upstream: Vec::new(),
        join: 1,
        follows: None,
        reader: "desk".to_owned(),
        reach: Reach::Udp,
        account: Account {
            state: AccountState::Closed,
            datagrams: Some(datagrams),
            elements,
            hops: HopCounts::default(),
            gaps: vec![gap()],
        },
        samples: Some(SampleRows { whole: 17_420, missing: 180, ..SampleRows::default() }),
        reclassified: Vec::new(),
        settled_early: 0,
        port: Some(socket()),
        age: None,
        unauthentic: UnauthenticCounts::default(),
        unconfirmed_epochs: 0,
    }
}

fn socket() -> PortStatus {
    let (asked_bytes, effective_bytes) = (4 << 20, 8 << 20);
    PortStatus {
        address: "239.84.3.4:7400".parse().unwrap(),
        buffer: Buffer { direction: Direction::Receive, asked_bytes, effective_bytes, limit_bytes: None },
        drops: 3,
        unmatched: StageCounts::of(Stage::ReceiverSocketBuffer, 3),
        stats: ReceiverStats { datagrams: 100, malformed: 1, ..ReceiverStats::default() },
        unauthentic: UnauthenticCounts::default(),
        waits: Waits {
            reads: 90,
            median: Duration::from_micros(40),
            percentile_99: Duration::from_micros(900),
            longest: Duration::from_micros(1_250),
        },
    }
}

/// Losses before a relay.
fn inherited() -> HopCounts {
    [HopShare { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), count: 1 }].into_iter().collect()
}

#[test]
fn the_example_of_the_page_is_what_is_printed() {
    let example = PAGE.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    let example: Value = serde_json::from_str(example).unwrap();
    assert_eq!(account_json(&account()), example);
}

#[test]
fn every_field_is_on_the_page_and_every_field_of_the_page_is_printed() {
    let account = StreamAccount {
        origin: Some(Origin { epoch: Epoch { start_ns: 1, incarnation: 1 }, hop: NonZeroU8::MIN }),
        upstream: vec![UpstreamHop {
            station: "rig".to_owned(),
            lost: StageCounts::of(Stage::ReaderLag, 1),
            unexplained: 0,
        }],
        account: Account { hops: inherited(), ..account().account },
        reclassified: vec![Reclassified { from: None, to: Stage::Late, datagrams: 1 }],
        port: Some(PortStatus {
            unauthentic: UnauthenticCounts { clear: 1, ..Default::default() },
            ..socket()
        }),
        ..account()
    };
    let printed = account_json(&account);
    assert_eq!(fields_of(&printed), fields_on_page("Account"));
    assert_eq!(fields_of(&printed["datagrams"]), fields_on_page("datagrams"));
    assert_eq!(fields_of(&printed["elements"]), fields_on_page("elements"));
    assert_eq!(fields_of(&printed["samples"]), fields_on_page("samples"));
    assert_eq!(fields_of(&printed["reclassified"][0]), ["datagrams", "from", "to"].into());
    assert_eq!(fields_of(&printed["socket"]), fields_on_page("socket"));
    assert_eq!(fields_of(&printed["origin"]), ["epoch", "hop"].into());
    assert_eq!(fields_of(&printed["hops"][0]), fields_on_page("hops"));

    let told = StreamGap {
        stream: Arc::clone(&account.stream),
        epoch: account.epoch,
        join: account.join,
        elements_per_sample: 2,
        gap: Gap { inherited: inherited(), ..gap() },
        t0: WallTime::from_nanos(0),
        t1: WallTime::from_nanos(1),
    };
    let told = stream_gap_json(&told);
    assert_eq!(fields_of(&told), fields_on_page("Gap"));
    let more = ["stream", "epoch", "join", "from_ns", "to_ns", "hops"].into();
    let of_account: BTreeSet<&str> = fields_of(&printed["gaps"][0]);
    assert_eq!(&fields_of(&told) - &of_account, more);
}

#[test]
fn every_stage_is_on_the_page() {
    let section = PAGE.split_once("\n## Stages\n").unwrap().1.split("\n## ").next().unwrap();
    let named: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, Stage::ALL.map(Stage::name));
}
