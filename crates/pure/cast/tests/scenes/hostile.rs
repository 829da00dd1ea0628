//! Attacks by a forger, or a broken publisher: they are counted. Never a panic, never a broken law, never memory
//! without bound, and no lasting harm.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use cast::receive::{Input, WaitsSince};
use cast::{Sender, send};
use ledger::{AccountState, NetworkRows, ReaderRows, Stage};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use units::{Epoch, Instant, Random, ReaderId, StreamId, WallTime};
use wire::{
    Announcement, DatagramTotals, Description, MAX_DATAGRAM_BYTES, Nonce, Numbered, Report, Request,
    SampleTotals, Skipped, Wanted, Withheld,
};

use crate::line::at;
use crate::line::scene::{EPOCH, StreamShape, description};
use crate::victim::{MILLISECOND, Victim};

/// Last position that is accepted.
const LAST_POSITION: u64 = ledger::MAX_POSITION / 2;

/// No reader of the account could continue after such a hole.
#[test]
fn what_lies_beyond_every_account_is_malformed_whoever_sends_it() {
    let mut victim = Victim::new();
    victim.data(1);
    let beyond = |number| Numbered { number, first_index: LAST_POSITION + 1, ..victim.head };
    let [tally, described] = [beyond(4), beyond(5)];
    let description = victim.description.clone();
    victim.data_at(EPOCH, 2, LAST_POSITION - 9);
    victim.data_at(EPOCH, 3, LAST_POSITION - 9);
    victim.tally(tally, |_| ());
    victim.send_description(&description, described);
    assert_eq!((victim.receiver.stats().malformed, victim.receiver.stats().suspicious), (4, 0));
    let mut later = Victim::ignorant();
    later.send_description(&description, described);
    assert_eq!((later.began, later.receiver.stats().malformed), (0, 1));
    victim.data(2);
    assert_eq!((victim.delivered, victim.began), (20, 1));
}

#[test]
fn the_highest_number_there_is_moves_nothing() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.data_at(EPOCH, u64::MAX - 1, 60);
    victim.data_at(EPOCH, u64::MAX - 1, 60);
    victim.data_at(EPOCH, 5, LAST_POSITION - 10);
    assert_eq!((victim.receiver.stats().suspicious, victim.receiver.stats().malformed), (3, 0));
    victim.data(5);
    let rows = victim.rows();
    assert_eq!((rows.next, rows.received, rows.lost.total()), (6, 6, 0));
}

/// From another host, near enough to be plausible for the publisher: data, a tally and a descriptor.
#[test]
fn what_another_host_sends_in_a_publishers_name_moves_nothing() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    let ahead = Numbered { number: 60_000, first_index: 60_000, ..victim.head };
    victim.host = 13;
    (60_000..60_004).for_each(|number| victim.data_at(EPOCH, number, number));
    victim.tally(ahead, |tally| tally.last = true);
    let description = victim.description.clone();
    victim.send_description(&description, ahead);
    victim.host = 66;
    (5..9).for_each(|number| victim.data(number));
    let rows = victim.rows();
    assert_eq!((rows.next, rows.received, rows.lost.total(), rows.unexplained), (9, 9, 0, 0));
    assert_eq!((victim.delivered, victim.receiver.stats().imposter, victim.imposters), (80, 6, 1));
}

#[test]
fn a_publisher_is_believed_from_every_address_that_it_lists() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    let (description, head) =
        (victim.description.clone(), Numbered { number: 5, first_index: 50, ..victim.head });
    victim.send_description_with(&description, head, &[[10, 0, 0, 66].into(), [10, 0, 0, 77].into()]);
    victim.host = 77;
    (6..9).for_each(|number| victim.data_at(EPOCH, number, number * 10 - 10));
    assert_eq!((victim.delivered, victim.receiver.stats().imposter), (70, 0));
    victim.host = 13;
    victim.send_description_with(&description, head, &[[10, 0, 0, 13].into()]);
    victim.data_at(EPOCH, 9, 80);
    assert_eq!((victim.delivered, victim.receiver.stats().imposter), (70, 2), "nobody lists himself");
}

#[test]
fn a_publisher_that_comes_back_is_believed_although_another_spoke_for_it_in_its_silence() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.pass(Duration::from_secs(11));
    victim.host = 77;
    victim.data(5);
    assert_eq!((victim.began, victim.delivered), (2, 50), "nobody speaks against it");
    victim.host = 66;
    (6..9).for_each(|number| victim.data(number));
    assert_eq!((victim.delivered, victim.receiver.stats().imposter), (80, 0));
}

#[test]
fn new_epochs_held_for_their_descriptors_are_admitted_in_order_of_arrival() {
    let epoch = |start_ns| Epoch { start_ns, incarnation: 11 };
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.data_at(epoch(3_000), 0, 0);
    victim.data_at(epoch(2_000), 0, 0);
    assert_eq!((victim.began, victim.delivered), (1, 40));
    victim.tally(Numbered { number: 5, first_index: 50, ..victim.head }, |tally| tally.last = true);
    victim.pass(Duration::from_millis(1_200));
    victim.data_at(epoch(2_000), 1, 10);
    victim.data_at(epoch(3_000), 1, 10);
    assert_eq!((victim.began, victim.delivered), (2, 60), "the latest epoch is current");
}

#[test]
fn what_waits_for_its_descriptor_is_in_an_account_when_the_reader_leaves() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.data_at(Epoch { start_ns: 2_000, incarnation: 11 }, 0, 0);
    victim.receiver.handle(victim.now, Input::LeaveAll);
    victim.drain();
    assert_eq!((victim.began, victim.delivered), (2, 50));
}

#[test]
fn a_publisher_lists_its_addresses_in_its_next_descriptor() {
    let mut sender =
        Sender::new(StreamShape::PLAIN.config(EPOCH), 1, Instant::ORIGIN).expect("a description");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let mut listed = |now: Instant, input: Option<&[IpAddr]>| {
        input.into_iter().for_each(|addresses| sender.handle(now, send::Input::Addresses(addresses)));
        let mut listed = Vec::new();
        while let send::Output::Transmit { size_bytes, .. } = sender.poll(now, &mut buffer) {
            if let Ok(wire::Datagram::Descriptor(part)) = wire::Datagram::decode(&buffer[..size_bytes]) {
                listed.push(part.addresses.iter().map(|address| address.ip()).collect::<Vec<_>>());
            }
        }
        listed
    };
    assert_eq!(listed(at(0), None), [[]; 1] as [[IpAddr; 0]; 1]);
    let both = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    assert_eq!(listed(at(200), Some(&both)), [both], "without waiting for its turn");
    assert_eq!(listed(at(1_200), None), [both]);
}

/// Asks, as forged readers do, for a nonce with each request.
#[test]
fn nonces_cost_a_tally_each_100_ms_and_every_one_of_a_few_is_repeated() {
    let mut sender =
        Sender::new(StreamShape::PLAIN.config(EPOCH), 1, Instant::ORIGIN).expect("a description");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let stream = sender.next_head().stream;
    let (mut tallies, mut repeated) = (Vec::new(), Vec::new());
    let mut ask = |now: Instant, nonces: Range<u64>| {
        for nonce in nonces.map(Nonce::new) {
            let (reader, what) = (ReaderId(1), Wanted::Descriptor);
            let request = Request { stream, epoch: EPOCH, reader, what, waiting: None, nonce: Some(nonce) };
            sender.handle(now, send::Input::Request(&request));
        }
        while let send::Output::Transmit { size_bytes, .. } = sender.poll(now, &mut buffer) {
            if let Ok(wire::Datagram::Tally(tally)) = wire::Datagram::decode(&buffer[..size_bytes]) {
                tallies.push(now);
                repeated.extend(tally.nonces);
            }
        }
    };
    (0..10).for_each(|second| ask(at(2_000 + 1_000 * second), 10 * second..10 * second + 10));
    (0..100).for_each(|moment| ask(at(20_000 + 10 * moment), 1_000 * moment..1_000 * moment + 1_000));
    let soonest = tallies.windows(2).map(|pair| pair[1].since(pair[0])).min();
    assert!(soonest >= Some(MILLISECOND * 100), "{soonest:?}");
    assert!((0..90).all(|nonce| repeated.contains(&Nonce::new(nonce))), "{repeated:?}");
    assert!(repeated.len() <= 100 + 11 * wire::MAX_NONCES, "{}", repeated.len());
}

#[test]
fn a_publisher_that_has_moved_is_followed_and_what_was_held_is_not_lost() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.tally(Numbered { number: 5, first_index: 50, ..victim.head }, |_| ());
    victim.host = 77;
    (6..16).for_each(|number| {
        victim.data_at(EPOCH, number, number * 10 - 10);
        victim.pass(MILLISECOND * 99);
    });
    assert_eq!((victim.delivered, victim.receiver.stats().imposter), (40, 10));
    victim.pass(MILLISECOND * 10);
    victim.data_at(EPOCH, 16, 150);
    let rows = victim.rows();
    assert_eq!((rows.next, rows.received, rows.lost.total(), rows.unexplained), (17, 17, 0, 0));
    assert_eq!((victim.delivered, victim.began), (150, 1));
}

/// In addition to the publisher, an address without answers sends in its name, and then a standby that answers.
#[test]
fn a_standby_that_repeats_its_nonce_goes_before_whoever_does_not() {
    for ends in [true, false] {
        let (forged, standby) =
            (Epoch { start_ns: 9_000, incarnation: 9 }, Epoch { start_ns: 2_000, incarnation: 2 });
        let mut victim = Victim::new();
        let description = victim.description.clone();
        (1..5).for_each(|number| victim.data(number));
        for (host, epoch) in [(13, forged), (77, standby)] {
            victim.host = host;
            victim.send_description(&description, Numbered { epoch, ..victim.head });
            victim.data_at(epoch, 1, 0);
        }
        let standbys =
            |(to, it): &(SocketAddr, Request)| (to.ip() == IpAddr::from([10, 0, 0, 77])).then_some(it.nonce);
        let asked: Vec<_> = victim.requests.iter().filter_map(standbys).collect();
        let [Some(nonce)] = asked[..] else { panic!("asked at once: {asked:?}") };
        victim.tally(Numbered { epoch: standby, number: 2, first_index: 10, ..victim.head }, |tally| {
            tally.nonces = vec![nonce];
        });
        victim.host = 66;
        victim.tally(Numbered { number: 5, first_index: 50, ..victim.head }, |tally| tally.last = ends);
        victim.host = 13;
        victim.data_at(forged, 2, 10);
        victim.pass(Duration::from_millis(if ends { 0 } else { 1_100 }));
        victim.host = 77;
        victim.data_at(standby, 3, 10);
        let epochs: Vec<_> = victim.receiver.accounts().map(|view| view.epoch).collect();
        assert!(epochs.contains(&standby) && !epochs.contains(&forged), "{epochs:?}");
        assert_eq!((victim.began, victim.delivered), (2, 60), "what was held is not lost");
    }
}

/// A publisher without support for nonces takes over all the same, a little later.
#[test]
fn of_two_that_answer_nothing_one_takes_over_once_both_had_their_time() {
    let mut victim = Victim::new();
    let description = victim.description.clone();
    (1..5).for_each(|number| victim.data(number));
    for host in [13, 77] {
        victim.host = host;
        let epoch = Epoch { start_ns: 9_000 + u64::from(host), incarnation: 9 };
        victim.send_description(&description, Numbered { epoch, ..victim.head });
    }
    victim.host = 66;
    victim.tally(Numbered { number: 5, first_index: 50, ..victim.head }, |tally| tally.last = true);
    victim.pass(Duration::from_millis(1_000));
    assert_eq!(victim.began, 1);
    victim.pass(Duration::from_millis(1_300));
    assert_eq!(victim.began, 2);
    let asked =
        |host| victim.requests.iter().filter(|(to, _)| to.ip() == IpAddr::from([10, 0, 0, host])).count();
    assert_eq!((asked(13), asked(77)), (3, 3));
}

#[test]
fn two_forged_numbers_that_agree_make_a_hole_and_the_law_still_holds() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.data_at(EPOCH, u64::MAX - 3, LAST_POSITION - 100);
    victim.data_at(EPOCH, u64::MAX - 2, LAST_POSITION - 90);
    victim.pass(MILLISECOND);
    let rows = victim.rows();
    assert_eq!((rows.next, rows.received), (u64::MAX - 1, 7), "both count once they agree");
    // Silence is detected, and numbers in flight then settle.
    victim.pass(Duration::from_secs(60));
    victim.pass(Duration::from_secs(60));
    assert_eq!(victim.ended, [AccountState::Unconfirmed]);
}

#[test]
fn an_honest_jump_beyond_belief_costs_no_datagram() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    // A source that skipped a million samples: the first datagram after them is alone.
    victim.data_at(EPOCH, 5, 1_000_000);
    assert_eq!((victim.receiver.stats().suspicious, victim.delivered), (1, 40));
    victim.data_at(EPOCH, 6, 1_000_010);
    victim.tally(Numbered { number: 7, first_index: 1_000_020, ..victim.head }, |tally| {
        tally.totals.samples.source = 1_000_000 - 50;
    });
    victim.pass(Duration::from_secs(3));
    let account = victim.account().account;
    assert_eq!((account.elements.delivered, account.elements.lost[Stage::Source]), (60, 1_000_000 - 50));
    assert_eq!(account.datagrams.expect("a socket").lost.total(), 0);
}

#[test]
fn a_doubted_datagram_of_an_account_that_has_ended_counts_in_the_next() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.pass(Duration::from_secs(60));
    victim.pass(Duration::from_secs(60));
    assert_eq!(victim.ended, [AccountState::Unconfirmed]);
    victim.data_at(EPOCH, u64::MAX / 2, 2_000_000);
    victim.data_at(EPOCH, u64::MAX / 2 + 1, 2_000_010);
    victim.pass(MILLISECOND);
    assert_eq!((victim.began, victim.rows().received), (2, 2));
}

#[test]
fn a_forged_last_word_does_not_keep_the_account_from_closing() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    // Two numbers ahead of the publisher, which then continues and ends in order.
    let at = |number: u64| Numbered { number, first_index: number * 10, ..victim.head };
    let (forged, own) = (at(7), at(9));
    victim.tally(forged, |tally| tally.last = true);
    (5..9).for_each(|number| victim.data(number));
    victim.tally(own, |tally| tally.last = true);
    victim.pass(Duration::from_secs(3));
    assert_eq!(victim.ended, [AccountState::Closed]);
}

#[test]
fn the_last_positions_there_are_overflow_nothing() {
    for first_index in [LAST_POSITION - 11, LAST_POSITION - 10, (LAST_POSITION - 10) / 10 * 10, u64::MAX - 11]
    {
        let mut victim = Victim::ignorant();
        victim.head.number = 7;
        victim.head.first_index = first_index;
        victim.describe();
        victim.data_at(EPOCH, 8, first_index);
        victim.data_at(EPOCH, 9, LAST_POSITION - 10);
        victim.pass(Duration::from_secs(60));
    }
}

#[test]
fn what_was_sent_before_the_join_point_is_counted_and_nothing_more() {
    let mut victim = Victim::ignorant();
    victim.head.number = 10;
    victim.head.first_index = 100;
    victim.describe();
    (5..15).filter(|number| *number != 10).for_each(|number| victim.data(number));
    let rows = victim.rows();
    assert_eq!((rows.first, rows.received, rows.before_join, rows.duplicates), (10, 5, 5, 0));
}

#[test]
fn a_forged_first_datagram_does_not_deafen_a_reader() {
    let mut victim = Victim::ignorant();
    victim.head.number = 1 << 50;
    victim.head.first_index = 1 << 50;
    victim.describe();
    assert_eq!(victim.rows().first, 1 << 50, "nothing speaks against it yet");
    (20..30).for_each(|number| victim.data(number));
    assert_eq!(victim.rows().first, 21, "the second that agrees is believed");
    assert_eq!(victim.delivered, 90);
    assert_eq!(victim.ended, [AccountState::Cut]);
}

#[test]
fn a_forged_first_datagram_does_not_move_the_beginning_that_a_reader_waited_for() {
    let described_at = |number| {
        let mut victim = Victim::ignorant();
        let waiting = WaitsSince { since: Instant::ORIGIN, wall: WallTime::from_nanos(0) };
        victim.receiver.handle(victim.now, Input::Waits(Some(waiting)));
        // The epoch is received at its beginning, and none of it can be used yet.
        (0..3).for_each(|number| victim.data(number));
        victim.send_description(
            &description(&StreamShape::PLAIN),
            Numbered { number, first_index: number, ..victim.head },
        );
        assert_eq!((victim.began, victim.receiver.stats().suspicious), (0, 1), "nothing agrees with it");
        victim
    };
    let mut alone = described_at(1 << 50);
    (4..9).for_each(|number| alone.data(number));
    let rows = alone.rows();
    assert_eq!((alone.began, rows.first, rows.received, rows.next), (1, 0, 5, 9));
    assert_eq!((rows.lost[Stage::Decode], alone.ended.len()), (3, 0), "the early ones came");

    let mut agreed = described_at(1 << 40);
    agreed.data_at(EPOCH, (1 << 40) + 1, (1 << 40) + 10);
    let rows = agreed.rows();
    assert_eq!(
        (agreed.began, rows.first, rows.received),
        (1, 0, 2),
        "two that agree are believed, the first of them, too"
    );
}

#[test]
fn a_forged_higher_epoch_is_a_new_account_and_its_silence_gives_the_stream_back() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    victim.data_at(Epoch { start_ns: u64::MAX, incarnation: 9 }, 3, 30);
    assert_eq!(victim.began, 1, "its descriptor might come");
    victim.pass(MILLISECOND * 1_200);
    assert_eq!(victim.began, 2);
    for number in 5..3_000 {
        victim.data(number);
        victim.pass(MILLISECOND * 10);
    }
    assert_eq!(victim.began, 3);
    let [before, forged] = victim.ended[..] else { panic!("two accounts have ended: {:?}", victim.ended) };
    assert_eq!((before, forged), (AccountState::Unconfirmed, AccountState::Unconfirmed));
    assert!(victim.delivered > 15_000, "ten seconds later the real one is heard again");
}

#[test]
fn flapping_epochs_leave_few_accounts() {
    let mut victim = Victim::new();
    for start_ns in 0..10_000 {
        victim.data_at(Epoch { start_ns: 2_000 + start_ns, incarnation: 1 }, 3, 30);
        victim.data_at(Epoch { start_ns: 2_000 + start_ns, incarnation: 1 }, 9, 90);
        victim.data(start_ns);
        assert!(victim.receiver.accounts().count() <= 5);
    }
}

#[test]
fn a_description_of_another_stream_is_not_believed() {
    let mut victim = Victim::ignorant();
    let other = description(&StreamShape { name: "lab/other", ..StreamShape::PLAIN });
    victim.send_description(&other, victim.head);
    assert_eq!(victim.receiver.stats().malformed, 1);
    assert_eq!(victim.began, 0);
    victim.head.number += 1;
    victim.describe();
    assert_eq!(victim.began, 1);
}

#[test]
fn forged_totals_claim_no_more_than_is_missing() {
    let mut victim = Victim::new();
    for round in 0..50_u64 {
        let number = 10 * round;
        (number + 1..number + 5).for_each(|number| victim.data(number));
        let head = Numbered { number: number + 9, first_index: 10 * (number + 10), ..victim.head };
        victim.tally(head, |tally| {
            let all = u64::MAX - round;
            let (injected, sender_qdisc) = (all, if round % 2 == 0 { 0 } else { all });
            tally.totals.datagrams = DatagramTotals {
                injected,
                sender_socket: all,
                sender_ip: all,
                sender_qdisc,
                sender_nic: all,
                bytes: all,
            };
            tally.totals.samples = SampleTotals {
                offered: all,
                numbered: 1,
                source: all,
                publisher_queue: all,
                ..SampleTotals::default()
            };
            tally.withheld = vec![Withheld { numbers: 0..number + 9, stage: Stage::SenderIp }; 16];
            tally.skipped =
                vec![Skipped { positions: 0..10 * number + 1, stage: Stage::Source, inherited: None }; 16];
        });
        victim.pass(MILLISECOND * 500);
    }
    victim.pass(Duration::from_secs(60));
    let rows = victim.rows();
    assert_eq!(rows.received, 50 * 5 + 1);
    assert_eq!(rows.lost.total() + rows.unexplained, rows.next - rows.received);
}

#[test]
fn ranges_that_never_end_take_bounded_memory() {
    let mut victim = Victim::new();
    victim.data(1);
    victim.data(50_000);
    for number in 50_001..52_000_u64 {
        let head = Numbered { number, first_index: 500_010, ..victim.head };
        victim.tally(head, |tally| {
            let numbers = |index: u64| 2 + (number - 50_001) * 24 + 2 * index % 48;
            tally.withheld = (0..32)
                .map(|index| Withheld { numbers: numbers(index)..numbers(index) + 1, stage: Stage::Injected })
                .collect();
        });
    }
    victim.pass(Duration::from_secs(60));
    assert!(victim.rows().lost[Stage::Injected] <= 4_096 + 32, "details of one gap are bounded");
}

#[test]
fn more_gaps_than_can_wait_settle_early_and_are_counted() {
    let mut victim = Victim::new();
    // Every fourth datagram is missing, all within a moment.
    (1..60_000).filter(|number| number % 4 != 0).for_each(|number| victim.data(number));
    let view = victim.account();
    assert!(view.settled_early > 10_000, "{}", view.settled_early);
    assert!(view.account.gaps.len() <= 8_192);
    let rows = view.account.datagrams.expect("a socket");
    assert!(rows.unsettled <= 4_096);
    assert_eq!(rows.unexplained + rows.unsettled + rows.in_flight, 14_999);
}

#[test]
fn one_gap_takes_only_so_many_late_datagrams() {
    let mut victim = Victim::new();
    victim.data(1);
    (60_000..60_010).for_each(|number| victim.data(number));
    (2..20_000).for_each(|number| victim.data(number));
    let rows = victim.rows();
    assert_eq!((rows.lost[Stage::Late], rows.duplicates), (4_096, 19_998 - 4_096));
}

#[test]
fn made_up_streams_do_not_keep_a_real_one_out() {
    let mut victim = Victim::ignorant();
    let real = victim.head.stream;
    for stream in 0..10_000 {
        victim.head.stream = StreamId(stream);
        victim.data(3);
    }
    victim.head.stream = real;
    victim.describe();
    victim.data(1);
    assert_eq!(victim.delivered, 10);
    assert_eq!(victim.receiver.stats().too_many_streams, 0);
}

/// Announced and never described, or described and never received again, at a group that a true stream uses, too.
#[test]
fn streams_made_up_at_the_group_of_a_true_one_give_way_until_they_are_described() {
    let mut victim = Victim::ignorant();
    let announcement = |victim: &Victim, stream| Announcement {
        stream,
        epoch: EPOCH,
        name: victim.description.name.clone(),
        group: ([239, 84, 0, 1], 7_400).into(),
        report_port: 9,
        dtype: victim.description.schema.dtype,
        rate: victim.description.schema.rate,
        channels: 1,
        elements_per_sample: 1,
        station: String::new(),
        period: Duration::from_secs(1),
    };
    let (real, from) = (victim.head.stream, SocketAddr::from(([10, 0, 0, 13], 7_400)));
    let made_up = |victim: &mut Victim, count: u64| {
        for stream in 0..count {
            let announcement = announcement(victim, StreamId(stream));
            let input = Input::Announced { announcement: &announcement, from };
            victim.receiver.handle(victim.now, input);
            victim.pass(MILLISECOND);
        }
    };
    made_up(&mut victim, 2_000);
    victim.describe();
    victim.data(1);
    assert_eq!((victim.delivered, victim.receiver.stats().too_many_streams), (10, 0));
    made_up(&mut victim, 2_000);
    victim.data(2);
    assert_eq!(victim.delivered, 20, "one that is described keeps its place");
    for count in 0..1_023 {
        let name = format!("lab/made-up-{count}").parse().expect("a name");
        let other = Description { name, ..victim.description.clone() };
        let stream = wire::stream_id(&other.name, &other.schema);
        victim.send_description(&other, Numbered { stream, ..victim.head });
    }
    assert!(victim.receiver.has_slot_for(real) && !victim.receiver.has_slot_for(StreamId(1)));
    victim.head.stream = StreamId(1);
    victim.data(1);
    assert_eq!(victim.receiver.stats().too_many_streams, 1);
}

#[test]
fn a_critical_extension_that_is_not_known_is_lost_in_decode_and_counted_by_type() {
    let mut victim = Victim::new();
    (1..5).for_each(|number| victim.data(number));
    for (number, code) in [(5, 1), (6, 200), (7, 200)] {
        victim.data_with_extension(number, [code, 1, 2, 0, 7, 7, 0, 0]);
    }
    victim.data_with_extension(8, [200, 0, 2, 0, 7, 7, 0, 0]);
    (9..20).for_each(|number| victim.data(number));
    victim.pass(MILLISECOND * 3_000);
    let rows = victim.rows();
    assert_eq!((rows.lost[Stage::Decode], rows.lost.total()), (3, 3));
    assert_eq!(victim.delivered, 160, "what is not critical is passed over");
    let unknown = victim.receiver.stats().unknown_extensions;
    assert_eq!((unknown.total(), unknown.by_type().collect::<Vec<_>>()), (3, vec![(1, 1), (200, 2)]));
}

#[test]
fn reports_of_strangers_are_bounded_and_cannot_hurry_the_others() {
    let mut sender =
        Sender::new(StreamShape::PLAIN.config(EPOCH), 1, Instant::ORIGIN).expect("a description");
    let mut random = Random::new(1);
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let stream = sender.next_head().stream;
    let mut tallies = 0;
    for count in 0..100_000_u64 {
        let report = Report {
            stream: if count % 3 == 0 { StreamId(random.next_u64()) } else { stream },
            epoch: if count % 5 == 0 { Epoch { start_ns: 1, incarnation: random.next_u64() } } else { EPOCH },
            reader: ReaderId(random.next_u64()),
            name: "stranger".to_owned(),
            state: AccountState::Open,
            age: Duration::MAX,
            receive_buffer_bytes: u32::try_from(count % 7).expect("less than seven"),
            datagrams: NetworkRows { first: 9, next: 3, received: u64::MAX, ..NetworkRows::default() },
            elements: ReaderRows { per_sample: u32::MAX, delivered: u64::MAX, ..ReaderRows::default() },
            waiting: None,
        };
        let now = Instant::from_nanos(count * 10_000);
        let from = std::net::Ipv4Addr::from(random.next_u64() as u32).into();
        sender.handle(now, send::Input::Report { report: &report, from, size_bytes: 200 });
        loop {
            match sender.poll(now, &mut buffer) {
                send::Output::Transmit { size_bytes, .. } => {
                    if let Ok(wire::Datagram::Tally(tally)) = wire::Datagram::decode(&buffer[..size_bytes]) {
                        assert!(tally.report_interval >= Duration::from_secs(1));
                        tallies += 1;
                    }
                }
                send::Output::Event(event) => {
                    panic!("an old epoch from a stranger is no publisher: {event:?}")
                }
                send::Output::Idle { .. } => break,
            }
        }
    }
    assert!(sender.readers().count() <= 16_384);
    // A second of forgery: a tally each 100 ms, and the first.
    assert!(tallies <= 11, "{tallies}");
}

#[test]
fn a_crowd_made_up_at_one_address_costs_a_tally_each_100_ms_and_half_a_minute() {
    let mut sender =
        Sender::new(StreamShape::PLAIN.config(EPOCH), 1, Instant::ORIGIN).expect("a description");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let stream = sender.next_head().stream;
    let (mut tallies, mut intervals) = (Vec::new(), Vec::new());
    for count in 0..100_000_u64 {
        let now = Instant::from_nanos(2_000_000_000 + count * 20_000);
        let report = Report {
            stream,
            epoch: EPOCH,
            reader: ReaderId(count + 1),
            name: format!("evil{count}"),
            state: AccountState::Open,
            age: Duration::ZERO,
            receive_buffer_bytes: 0,
            datagrams: NetworkRows { next: 10, received: 10, ..NetworkRows::default() },
            elements: ReaderRows { per_sample: 1, next: 10, delivered: 10, ..ReaderRows::default() },
            waiting: None,
        };
        let from = std::net::Ipv4Addr::new(10, 0, 0, 66).into();
        sender.handle(now, send::Input::Report { report: &report, from, size_bytes: 220 });
        while let send::Output::Transmit { size_bytes, .. } = sender.poll(now, &mut buffer) {
            if let Ok(wire::Datagram::Tally(tally)) = wire::Datagram::decode(&buffer[..size_bytes]) {
                tallies.push(now);
                intervals.push(tally.report_interval);
            }
        }
    }
    let soonest = tallies.windows(2).map(|pair| pair[1].since(pair[0])).min();
    assert!(soonest >= Some(MILLISECOND * 100), "{soonest:?}");
    let longest = intervals.into_iter().max();
    // Sixteen are counted, and three times as many may be in flight.
    assert!(longest <= Some(Duration::from_secs(40)), "{longest:?}");
    assert_eq!(sender.reader_count(), 256);
    let stats = sender.report_stats();
    assert_eq!((stats.taken, stats.displaced), (100_000, 100_000 - 256));
}

#[test]
fn a_forged_answer_to_a_datagram_that_was_never_sent_names_nothing() {
    let mut sender =
        Sender::new(StreamShape::PLAIN.config(EPOCH), 1, Instant::ORIGIN).expect("a description");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    while !matches!(sender.poll(Instant::ORIGIN, &mut buffer), send::Output::Idle { .. }) {}
    let next = sender.next_head().number;
    let mut answered = |number| {
        let (stage, destination, size_bytes) = (Stage::SenderIp, 0, 0);
        sender.handle(Instant::ORIGIN, send::Input::Refused { destination, number, stage, size_bytes });
        sender.totals().datagrams.sender_ip
    };
    for number in [next, next + 7, u64::MAX - 1, u64::MAX] {
        assert_eq!(answered(number), 0, "{number}");
    }
    assert_eq!(answered(next - 1), 1);
}

/// A datagram of a forger that knows the stream.
#[derive(Clone, Debug)]
enum Forged {
    Data { epoch: u64, number: u64, index: u64 },
    Tally { number: u64, index: u64, total: u64, named: Range<u64>, last: bool },
    Describe { epoch: u64, number: u64 },
    Drops(u32),
    Pass(u64),
    Leave,
}

fn interesting() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0_u64..40, 1 => 60_000_u64..70_000, 1 => Just(u64::MAX - 1), 1 => u64::MAX - 80..u64::MAX,
        1 => LAST_POSITION - 80..LAST_POSITION + 8]
}

fn forged() -> impl Strategy<Value = Forged> {
    let tally = (interesting(), interesting(), any::<u64>(), 0_u64..40, 1_u64..9, any::<bool>());
    prop_oneof![
        8 => (0_u64..3, interesting(), interesting())
            .prop_map(|(epoch, number, index)| Forged::Data { epoch, number, index }),
        4 => (0_u64..3, 0_u64..60).prop_map(|(epoch, number)| Forged::Data { epoch, number, index: number * 10 }),
        4 => tally.prop_map(|(number, index, total, start, len, last)| {
            Forged::Tally { number, index, total, named: start..start + len, last }
        }),
        1 => (0_u64..3, interesting()).prop_map(|(epoch, number)| Forged::Describe { epoch, number }),
        1 => any::<u32>().prop_map(Forged::Drops),
        2 => (0_u64..3_000).prop_map(Forged::Pass),
        1 => Just(Forged::Leave),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_forged_datagrams_breaks_the_law(sequence in proptest::collection::vec(forged(), 1..120)) {
        let mut victim = Victim::new();
        let epoch = |epoch| Epoch { start_ns: 1_000 + epoch, incarnation: 11 };
        for forged in sequence {
            match forged {
                Forged::Data { epoch: of, number, index } => victim.data_at(epoch(of), number, index.min(u64::MAX - 10)),
                Forged::Tally { number, index, total, named, last } => {
                    let head = Numbered { number, first_index: index, ..victim.head };
                    victim.tally(head, |tally| {
                        tally.last = last;
                        tally.totals.datagrams.injected = total;
                        tally.totals.samples.source = total;
                        if named.end <= number {
                            tally.withheld = vec![Withheld { numbers: named.clone(), stage: Stage::SenderQdisc }];
                        }
                        if named.end <= index {
                            tally.skipped = vec![Skipped { positions: named, stage: Stage::PublisherQueue, inherited: None }];
                        }
                    });
                }
                Forged::Describe { epoch: of, number } => {
                    let description = victim.description.clone();
                    victim.send_description(&description, Numbered { epoch: epoch(of), number, ..victim.head });
                }
                Forged::Drops(drops) => {
                    victim.receiver.handle(victim.now, Input::SocketDrops(drops));
                    victim.drain();
                }
                Forged::Pass(millis) => victim.pass(MILLISECOND * millis as u32),
                Forged::Leave => {
                    victim.receiver.handle(victim.now, Input::LeaveAll);
                    victim.drain();
                    victim.describe();
                }
            }
        }
        victim.pass(at(60_000).since(Instant::ORIGIN));
        for view in victim.receiver.accounts() {
            assert_eq!(view.account.check(), Ok(()));
        }
    }
}
