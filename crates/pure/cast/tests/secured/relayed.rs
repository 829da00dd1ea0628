//! A secured stream that a relay publishes: its datagrams carry the origin behind the extension that secures them.

use core::num::NonZeroU8;
use std::collections::BTreeMap;

use cast::send::{ElementTimes, Input, Output, Relayed, SenderConfig};
use keys::Suite;
use ledger::{AccountState, HopCounts, HopShare, Outcome, Stage, StageCounts};
use units::{Epoch, WallTime};
use wire::{
    Clock, DATA_HEADER_BYTES, Datagram, Kind, ORIGIN_BYTES, Origin, SECURED_DATA_BYTES, SecuredHead,
    UpstreamHop,
};

use crate::ends::{Listener, Source, publisher};
use crate::group_level::{EPOCH, at};
use crate::laboratory::{Laboratory, wall};
use crate::nodes::config;

/// Position at which the relay takes the stream up.
const FIRST: u64 = 1_000;
/// Elements of a step, which are their own positions.
const STEP: u64 = 37;
/// Time when the relay has ended. Units: milliseconds.
const FINISH: u64 = 3_000;

fn elements(source: &mut Source, millis: u64, position: u64) {
    let values = (position..position + STEP).flat_map(|it| u32::try_from(it).unwrap().to_le_bytes());
    let t0 = WallTime::from_nanos(i64::try_from(position * 100_000).unwrap());
    let bytes: Vec<u8> = values.collect();
    let times = ElementTimes { t0, clock: Clock::System, born: None };
    source.sender.handle(at(millis), Input::Elements { position, times, bytes: &bytes });
}

fn shares(outcome: Outcome, count: u64) -> HopCounts {
    [HopShare { hop: 1, outcome, count }].into_iter().collect()
}

fn upstream(deadline: u64) -> Vec<UpstreamHop> {
    let hop = |station: &str, lost| UpstreamHop { station: station.to_owned(), lost, unexplained: 0 };
    vec![hop("daq", StageCounts::default()), hop("gate", StageCounts::of(Stage::Deadline, deadline))]
}

/// Takes a step of every 10 ms: each tenth is a hole, of which the outcome becomes known later. Returns the elements that
/// are missing.
fn step(source: &mut Source, millis: u64, missing: &mut u64) {
    let position = source.sender.next_position();
    let positions = position..position + STEP;
    if (millis / 10) % 10 != 3 {
        return elements(source, millis, position);
    }
    let now = at(millis);
    source
        .sender
        .handle(now, Input::Inherited { positions, shares: &shares(Outcome::Unsettled, STEP), cause: None });
    *missing += STEP;
    let settled = position.saturating_sub(10 * STEP);
    if settled >= FIRST {
        let shares = shares(Outcome::Lost(Stage::Deadline), STEP);
        source.sender.handle(now, Input::Settled { positions: settled..settled + STEP, shares: &shares });
    }
    source.sender.handle(now, Input::Upstream(upstream(missing.saturating_sub(STEP))));
}

#[test]
fn a_member_reads_a_secured_relay_and_no_number_encrypts_two_contents() {
    for suite in Suite::ALL {
        let mut laboratory = Laboratory::new(4, suite);
        let secrets = [laboratory.secret(1, wall(at(0)))];
        let ours = laboratory.member(&secrets);
        let origin = Origin { epoch: Epoch { start_ns: 1, incarnation: 2 }, hop: NonZeroU8::new(2).unwrap() };
        let config = SenderConfig {
            relayed: Some(Relayed { origin, first_position: FIRST }),
            ..config(&mut laboratory, &ours, EPOCH, at(0))
        };
        let (mut source, mut listener) = (Source::new(config, at(0)), Listener::new(&ours, at(0)));
        let (mut missing, mut seen, mut largest, mut offered) = (0, BTreeMap::new(), 0, 0);
        let mut buffer = vec![0; source.sender.train_bytes()];
        for millis in 0..FINISH + 9_000 {
            match millis {
                ..FINISH if millis.is_multiple_of(10) => {
                    step(&mut source, millis, &mut missing);
                    offered = source.sender.next_position() - FIRST;
                }
                FINISH => source.sender.handle(at(millis), Input::Finish),
                // The final tally is revised.
                3_030 => source.sender.handle(at(millis), Input::Upstream(upstream(missing))),
                _ => {}
            }
            source.sender.handle(at(millis), Input::Advance);
            while let Output::Transmit { destinations, segment_bytes, size_bytes, .. } =
                source.sender.poll(at(millis), &mut buffer)
            {
                let train = &buffer[..size_bytes];
                for bytes in train.chunks(segment_bytes) {
                    assert!(Datagram::decode(bytes).is_err(), "nothing is in clear");
                    let head = SecuredHead::read(bytes).unwrap();
                    let key = (head.kind as u8, head.destination, head.nonce);
                    assert_eq!(seen.entry(key).or_insert_with(|| bytes.to_vec()), bytes, "{head:?}");
                    if head.kind == Kind::Data {
                        largest = largest.max(bytes.len());
                    }
                }
                if destinations.contains(&0) {
                    listener.hears(at(millis), train, segment_bytes, publisher());
                }
            }
            listener.sends(at(millis)).iter().for_each(|bytes| source.hears(at(millis), bytes));
        }
        let added_bytes = ORIGIN_BYTES + SECURED_DATA_BYTES;
        assert_eq!(largest, DATA_HEADER_BYTES + added_bytes + 4 * STEP as usize);
        let [account] = &listener.accounts[..] else { panic!("one account: {:?}", listener.accounts) };
        assert_eq!((account.state, account.elements.first), (AccountState::Closed, FIRST));
        assert_eq!(account.elements.lost[Stage::Source], missing, "as a reader of today sees it");
        assert_eq!((account.elements.unexplained, listener.delivered()), (0, offered - missing));
        let tallies = seen.keys().filter(|(kind, _, _)| *kind == Kind::Tally as u8);
        let last = tallies.map(|(_, destination, number)| (*number, *destination)).max().unwrap();
        assert!(last.1 > 1, "a revised final tally has another key: {last:?}");
    }
}
