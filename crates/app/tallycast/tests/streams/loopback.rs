//! Publishers and subscribers over real multicast on this host's loopback.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::WATCHDOG;
use tallycast::{
    Account, AccountState, Block, Dtype, Event, Node, NodeError, OnFull, PublishError, Publisher, ReaderRows,
    Stage, Start, StreamAccount, StreamPattern, Subscriber,
};

use crate::scene::{bus, bus_from_now, cut, node, sum, wait_until_joined, watch, watch_end, watch_ends};

fn publisher(node: &Node, name: &str, rate: &str) -> Publisher {
    node.publisher(name).dtype(Dtype::I32).rate(rate).channels([("a", "V"), ("b", "A")]).open().unwrap()
}

/// A publisher, and a subscriber in the role of another process that has joined its stream.
fn joined(rate: &str) -> (Publisher, Subscriber) {
    let bus = bus();
    let mut subscriber = node(&bus).subscriber("**").reader("reader").open().unwrap();
    let publisher = publisher(&node(&bus), "lab/probe", rate);
    wait_until_joined(&mut subscriber);
    (publisher, subscriber)
}

/// Samples and gaps that a subscriber received of one stream.
#[derive(Default)]
struct Seen {
    values: Vec<(u64, [i32; 2])>,
    gaps: u64,
    ended: Vec<StreamAccount>,
}

impl Seen {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Block(block) => self.values.extend(values_of(block)),
            Event::Gap(gap) => self.gaps += gap.gap.len(),
            Event::Ended(account) => self.ended.push(account.clone()),
            Event::Began(_) | Event::Settled(_) | Event::Statement(_) => {}
        }
    }

    /// Returns whether every value is that of [`samples`] at its index.
    fn is_untouched(&self) -> bool {
        self.values.iter().all(|(index, pair)| {
            let index = i32::try_from(*index).unwrap();
            *pair == [index, -index]
        })
    }
}

fn values_of(block: &Block) -> impl Iterator<Item = (u64, [i32; 2])> {
    let pairs = block.elements::<i32>().unwrap().chunks_exact(2);
    (block.first_index..).zip(pairs.map(|pair| [pair[0], pair[1]]))
}

/// Reads until the stream has ended.
fn read_to_the_end(subscriber: &mut Subscriber) -> (Seen, Account) {
    let mut seen = Seen::default();
    let account = watch_end(subscriber, |event| seen.take(event));
    (seen, account)
}

fn samples(first: i32, count: i32) -> Vec<i32> {
    (first..first + count).flat_map(|index| [index, -index]).collect()
}

#[test]
fn every_sample_arrives_and_the_account_closes() {
    let (mut publisher, mut subscriber) = joined("100k");
    let mut seen = Seen::default();
    for part in 0..10 {
        for block in 0..10 {
            publisher.send(&samples(part * 5_000 + block * 500, 500)).unwrap();
        }
        // No more at a time than the socket of a preempted receiver holds.
        let sent = publisher.next_index();
        watch(&mut subscriber, |event| {
            seen.take(&event);
            seen.values.last().is_some_and(|(index, _)| index + 1 == sent).then_some(())
        });
    }
    let totals = publisher.close();
    watch_end(&mut subscriber, |event| seen.take(event));
    let account = sum(&seen.ended);
    assert!(account.explained(), "{account:?}");
    assert_eq!(account.state, AccountState::Closed);
    assert_eq!(totals.samples.numbered, 50_000);
    assert_eq!((account.elements.first, account.elements.next), (0, 50_000));
    assert_eq!((seen.gaps, seen.values.len()), (0, 50_000));
    assert!(seen.is_untouched());
}

/// Returns the elements that an account has delivered or counted as missing.
fn accounted(account: &Account) -> u64 {
    let rows = &account.elements;
    rows.delivered + rows.lost.total() + rows.unexplained
}

#[test]
fn a_reader_that_waited_accounts_for_sample_0_although_the_publisher_sends_at_once() {
    let bus = bus();
    let mut subscriber = node(&bus).subscriber("**").reader("reader").open().unwrap();
    let mut publisher = publisher(&node(&bus), "lab/probe", "100k");
    publisher.send(&samples(0, 1_000)).unwrap();
    wait_until_joined(&mut subscriber);
    let totals = publisher.close().samples;
    let (seen, account) = read_to_the_end(&mut subscriber);
    // How much of the beginning a preempted reader misses depends on the machine.
    assert_eq!(
        (account.elements.first, totals.numbered, accounted(&account)),
        (0, 1_000, 2_000),
        "{account:?}"
    );
    assert_eq!(seen.values.len() as u64 * 2 + seen.gaps, 2_000, "{account:?}");
    assert!(seen.is_untouched());
}

#[test]
fn what_a_reader_that_waited_misses_of_a_beginning_that_is_not_held_is_counted() {
    let bus = bus();
    let mut subscriber = node(&bus).subscriber("**").reader("reader").open().unwrap();
    let builder = node(&bus).publisher("lab/probe").dtype(Dtype::I32).rate("100k").start(Start::Now);
    let mut publisher = builder.channels([("a", "V"), ("b", "A")]).open().unwrap();
    publisher.send(&samples(0, 1_000)).unwrap();
    wait_until_joined(&mut subscriber);
    publisher.send(&samples(1_000, 1_000)).unwrap();
    let _ = publisher.close();
    let (_, account) = read_to_the_end(&mut subscriber);
    assert_eq!((account.elements.first, accounted(&account)), (0, 4_000), "{account:?}");
}

#[test]
fn a_reader_that_takes_what_comes_has_an_account_from_there_on() {
    let bus = bus_from_now();
    let mut subscriber = node(&bus).subscriber("**").reader("reader").open().unwrap();
    let mut publisher = publisher(&node(&bus), "lab/probe", "100k");
    publisher.send(&samples(0, 1_000)).unwrap();
    wait_until_joined(&mut subscriber);
    publisher.send(&samples(1_000, 1_000)).unwrap();
    let _ = publisher.close();
    let (_, account) = read_to_the_end(&mut subscriber);
    let rows = &account.elements;
    assert_eq!((rows.next, accounted(&account)), (2_000, (2_000 - rows.first) * 2), "{account:?}");
    assert!(account.explained(), "{account:?}");
}

#[test]
fn injected_loss_is_named_and_the_rest_is_untouched() {
    let (mut publisher, mut subscriber) = joined("200k");
    publisher.set_injection(0.2);
    let mut seen = Seen::default();
    for part in 0..10 {
        publisher.send(&samples(part * 5_000, 5_000)).unwrap();
        // No more at a time than the socket of a preempted receiver holds; datagrams withheld at the end of a
        // part are reported by a tally.
        let sent = publisher.next_index();
        watch(&mut subscriber, |event| {
            seen.take(&event);
            (seen.values.len() as u64 * 2 + seen.gaps == sent * 2).then_some(())
        });
    }
    let totals = publisher.close();
    watch_end(&mut subscriber, |event| seen.take(event));
    let account = sum(&seen.ended);
    assert!(account.explained(), "{account:?}");
    let datagrams = account.datagrams.unwrap();
    assert!(totals.datagrams.injected > 0, "a fifth of some hundred datagrams");
    assert_eq!(datagrams.lost[Stage::Injected], totals.datagrams.injected);
    assert_eq!(account.elements.lost[Stage::Injected], seen.gaps);
    assert_eq!(seen.values.len() as u64 * 2 + seen.gaps, 100_000);
    assert!(seen.is_untouched());
}

#[test]
fn a_hole_of_the_source_is_a_hole_for_the_reader() {
    let (mut publisher, mut subscriber) = joined("10k");
    publisher.send(&samples(0, 100)).unwrap();
    publisher.skip(50, Stage::Source).unwrap();
    publisher.send(&samples(150, 100)).unwrap();
    let _ = publisher.close();
    let (seen, account) = read_to_the_end(&mut subscriber);
    assert!(account.explained(), "{account:?}");
    assert_eq!(account.elements.lost[Stage::Source], 100);
    assert_eq!((seen.gaps, seen.values.len()), (100, 200));
}

#[test]
fn a_reader_that_leaves_has_an_account_that_is_cut() {
    let (mut publisher, mut subscriber) = joined("10k");
    publisher.send(&samples(0, 1_000)).unwrap();
    watch(&mut subscriber, |event| matches!(event, Event::Block(_)).then_some(()));
    cut(&subscriber.close());
    drop(publisher);
}

#[test]
fn two_hundred_streams_at_once_all_close() {
    let bus = bus();
    let mut subscriber = node(&bus).subscriber("**").open().unwrap();
    let sending = node(&bus);
    let mut publishers: Vec<_> =
        (0..200).map(|index| publisher(&sending, &format!("lab/p{index}"), "1k")).collect();
    let mut joined = BTreeSet::new();
    watch(&mut subscriber, |event| {
        joined.extend(if let Event::Began(info) = event { Some(info.name.clone()) } else { None });
        (joined.len() == publishers.len()).then_some(())
    });
    for publisher in &mut publishers {
        publisher.send(&samples(0, 1_000)).unwrap();
    }
    drop(publishers);
    let ended = watch_ends(&mut subscriber, 200, |_| ());
    assert!(ended.iter().all(|account| account.explained() && account.state == AccountState::Closed));
    let delivered: u64 = ended.iter().map(|account| account.elements.delivered).sum();
    assert_eq!(delivered, 200 * 2_000);
}

#[test]
fn dropping_a_publisher_sends_what_is_queued_and_the_final_tally() {
    let (mut publisher, mut subscriber) = joined("10k");
    publisher.send(&samples(0, 1_000)).unwrap();
    drop(publisher);
    let (seen, account) = read_to_the_end(&mut subscriber);
    assert_eq!((account.state, seen.values.len()), (AccountState::Closed, 1_000));
    assert!(account.explained(), "{account:?}");
}

#[test]
fn a_block_brings_the_gaps_before_it_and_another_thread_may_publish() {
    let (mut publisher, mut subscriber) = joined("10k");
    let publishing = std::thread::spawn(move || {
        publisher.send_at(tallycast::now(), &samples(0, 100)).unwrap();
        publisher.skip(50, Stage::Source).unwrap();
        publisher.send(&samples(150, 100)).unwrap();
        // Moved here: it ends here, and its samples are complete.
        publisher.close()
    });
    let (mut delivered, mut missing) = (0, Vec::new());
    for block in subscriber.blocks(WATCHDOG) {
        assert_eq!(block.t0_ns(), block.t0.as_nanos());
        missing.extend(block.gaps.iter().map(|gap| (gap.first_index(), gap.samples(), block.first_index)));
        delivered += block.elements::<i32>().unwrap().len();
        if delivered == 400 {
            break;
        }
    }
    assert_eq!(missing, [(100, 50, 150)]);
    assert_eq!(publishing.join().unwrap().samples.source, 50);
}

#[test]
fn samples_sent_when_due_take_the_time_they_last() {
    let bus = bus();
    let sending = node(&bus);
    let mut publisher = publisher(&sending, "lab/probe", "1k");
    let began = Instant::now();
    for part in 0..10 {
        publisher.send_when_due(&samples(part * 20, 20)).unwrap();
    }
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(publisher.close().samples.numbered, 200);
}

#[test]
fn a_publisher_that_may_block_gives_up_when_its_patience_ends() {
    let bus = bus();
    let sending = node(&bus);
    let described = sending.publisher("lab/probe").dtype(Dtype::I32).rate(1).queue_bytes(1 << 18);
    let mut publisher = described.on_full(OnFull::Block).patience(Duration::ZERO).open().unwrap();
    // Sixteen queues' worth in one call: the network takes them in 50 ms at the earliest.
    let refused = publisher.send(&vec![7_i32; 1 << 20]);
    let Err(PublishError::StillFull { taken, .. }) = refused else { panic!("{refused:?}") };
    let totals = publisher.close();
    assert!((1..1 << 20).contains(&taken), "{taken}");
    assert_eq!((totals.samples.offered, totals.samples.numbered), (taken, taken));
}

#[test]
fn what_is_wrong_with_a_description_is_said_when_it_is_opened() {
    let bus = bus();
    let sending = node(&bus);
    let opened = |rate: &str| sending.publisher("lab/probe").rate(rate).open().map(drop);
    assert!(matches!(opened("fast"), Err(NodeError::Rate(_))));
    assert!(matches!(sending.publisher("lab/probe").rate(0).open().map(drop), Err(NodeError::Rate(_))));
    assert!(matches!(sending.publisher("lab/probe").open().map(drop), Err(NodeError::NoRate)));
    let twice = sending.publisher("lab/probe").rate(1_000).channels([("a", "V"), ("a", "A")]);
    assert!(matches!(twice.open().map(drop), Err(NodeError::Schema(_))));
}

/// The smallest ring holds 256 KiB of a stream of 8 kB/s; a whole megabyte passes before the slow reader
/// reads again.
#[test]
fn a_slow_reader_knows_what_the_ring_took_and_what_was_lost_before() {
    let bus = bus();
    let reading = node(&bus);
    let mut fast = reading.subscriber("**").reader("fast").open().unwrap();
    let mut slow = reading.subscriber("**").reader("slow").open().unwrap();
    let sending = node(&bus);
    let described = sending.publisher("lab/probe").dtype(Dtype::I32).rate("1k");
    let mut publisher = described.channels([("a", "V"), ("b", "A")]).on_full(OnFull::Block).open().unwrap();
    wait_until_joined(&mut fast);
    wait_until_joined(&mut slow);
    publisher.set_injection(0.05);
    let at_bridge = std::thread::scope(|scope| {
        scope.spawn(|| {
            for part in 0..130 {
                publisher.send(&samples(part * 1_000, 1_000)).unwrap();
            }
            drop(publisher);
        });
        read_to_the_end(&mut fast).0.ended
    });
    let (seen, account) = read_to_the_end(&mut slow);
    assert!(account.closed(), "{account:?}");
    assert_eq!(account.state, AccountState::Closed);
    assert!(account.elements.lost[Stage::ReaderLag] > 0);
    let lost_before = |rows: &ReaderRows| rows.missing() - rows.lost[Stage::ReaderLag];
    let whole = sum(&at_bridge).elements;
    assert!(whole.lost[Stage::Injected] > 0);
    assert_eq!(lost_before(&account.elements), lost_before(&whole));
    // Usually none: the stages are not known of samples that are missing from an account that a silence
    // ended, and that the ring overwrote.
    let (_, ended_by_silence) = at_bridge.split_last().unwrap();
    let most: u64 = ended_by_silence.iter().map(|it| lost_before(&it.account.elements)).sum();
    assert!(account.elements.unexplained <= most, "{account:?}");
    assert_eq!(seen.values.len() as u64 * 2, account.elements.delivered);
    assert_eq!(seen.gaps, account.elements.missing());
    assert_eq!(seen.values.len() as u64 * 2 + seen.gaps, 260_000);
}

#[test]
fn a_reader_leaves_at_once_although_another_of_its_process_stays() {
    let bus = bus();
    let reading = node(&bus);
    let mut stays = reading.subscriber("**").reader("stays").open().unwrap();
    let mut leaves = reading.subscriber("lab/*").reader("leaves").open().unwrap();
    let mut closes = reading.subscriber("lab/probe").reader("closes").open().unwrap();
    let sending = node(&bus);
    let mut publisher = publisher(&sending, "lab/probe", "10k");
    for subscriber in [&mut stays, &mut leaves, &mut closes] {
        wait_until_joined(subscriber);
    }
    let pattern: StreamPattern = "lab/*".parse().unwrap();
    leaves.remove_pattern(&pattern);
    let (_, left) = read_to_the_end(&mut leaves);
    assert_eq!(left.state, AccountState::Cut);
    cut(&closes.close());
    // A reader that returns gets samples published from then on, and none twice.
    publisher.send(&samples(0, 100)).unwrap();
    let mut stayed = Seen::default();
    watch(&mut stays, |event| {
        stayed.take(&event);
        (stayed.values.len() == 100).then_some(())
    });
    leaves.add_pattern(pattern);
    assert!(!matches!(leaves.next(Duration::ZERO), Some(Event::Block(_))), "nothing twice");
    publisher.send(&samples(100, 100)).unwrap();
    drop(publisher);
    assert_eq!(read_to_the_end(&mut leaves).0.values.first(), Some(&(100, [100, -100])));
    watch_end(&mut stays, |event| stayed.take(event));
    let account = sum(&stayed.ended);
    assert_eq!(stayed.values.len(), 200);
    assert!(account.explained() && account.state == AccountState::Closed);
}

#[test]
fn a_stream_that_is_left_and_joined_again_is_heard_again() {
    let (mut publisher, mut subscriber) = joined("10k");
    let pattern: StreamPattern = "**".parse().unwrap();
    subscriber.remove_pattern(&pattern);
    subscriber.add_pattern(pattern);
    let (_, left) = read_to_the_end(&mut subscriber);
    assert_eq!(left.state, AccountState::Cut);
    wait_until_joined(&mut subscriber);
    publisher.send(&samples(0, 100)).unwrap();
    drop(publisher);
    let (seen, account) = read_to_the_end(&mut subscriber);
    assert_eq!(seen.values.len(), 100);
    assert!(account.explained(), "{account:?}");
}

#[test]
fn samples_larger_than_a_reader_allows_are_refused() {
    let bus = bus();
    let reading = node(&bus);
    let mut small = reading.subscriber("**").max_sample_bytes(7).open().unwrap();
    let mut large = reading.subscriber("**").max_sample_bytes(8).open().unwrap();
    let sending = node(&bus);
    let publisher = publisher(&sending, "lab/probe", "10k");
    wait_until_joined(&mut large);
    assert!(small.next(Duration::ZERO).is_none());
    assert_eq!((small.refused_streams(), large.refused_streams()), (1, 0));
    drop(publisher);
    assert!(read_to_the_end(&mut large).1.explained());
    assert!(small.close().is_empty());
}
