//! Streams that a relay publishes: the accounts of its readers, also of those of earlier versions, and what its tallies
//! tell.

use cast::send::{Beginning, SenderConfig, Sending};
use ledger::{Account, AccountState, Stage};
use sample::Dtype;
use sim::{Link, NodeId, Port};
use units::Instant;
use wire::{Datagram, Deadline, MIN_DATA_BYTES, MIN_DATAGRAM_BYTES, ORIGIN_BYTES};

use crate::line::at;
use crate::line::publisher::{Command, Publisher, Refusal};
use crate::line::reader::Reader;
use crate::line::relay::{ElementOutcome, Heard, Passed, RelayFeed, as_before_relays, relaying};
use crate::line::scene::{EPOCH, Scene, StreamShape, reader, watched_by};
use crate::line::truth::verify;

/// Samples of three values, 1,000 a second.
const SHAPE: StreamShape = StreamShape { hz: 1_000, elements: 3, ..StreamShape::PLAIN };
const FED_UNTIL: u64 = 2_000;

/// Plays a relay of a stream of this shape; returns the scene, the reader and everything that was passed on.
fn play(
    seed: u64,
    config: &SenderConfig,
    (most_elements, holes): (u64, f64),
    change: impl FnOnce(Publisher) -> Publisher,
    (reader, port): (Reader, Port),
) -> (Scene, NodeId, Passed) {
    let feed = RelayFeed::new(config, seed, at(FED_UNTIL), most_elements, holes);
    let passed = feed.passed();
    let publisher = Publisher::new(config.clone(), feed, seed, Instant::ORIGIN);
    let publisher = change(publisher.told(at(FED_UNTIL + 100), Command::Finish));
    let (mut network, node) = watched_by(seed, publisher, reader, port);
    network.run_until(at(15_000));
    let passed = passed.borrow().clone();
    (network, node, passed)
}

/// Checks everything that left against what was passed on.
fn heard(network: &Scene, passed: &Passed) -> Heard {
    let mut heard = Heard::new(passed.clone());
    let sent = network.log().all_sent().filter(|sent| sent.from == NodeId(0));
    sent.for_each(|sent| heard.hear(sent.bytes));
    heard.check_all();
    heard
}

/// Compares a reader's one account with the log and with what was passed on.
fn account(network: &Scene, node: NodeId, passed: &Passed) -> Account {
    let mut accounts = verify(network, node);
    let (_, account) = accounts.pop().expect("an account");
    assert!(accounts.is_empty(), "one account");
    assert_eq!(account.state, AccountState::Closed);
    let per_sample = u64::from(passed.schema.elements_per_sample());
    let begin = (account.elements.first * per_sample).saturating_sub(passed.first_position) as usize;
    let count = |stage: Stage| {
        let missing =
            |outcome: &&ElementOutcome| matches!(outcome, ElementOutcome::Missing(of, _) if *of == stage);
        passed.outcomes[begin..].iter().filter(missing).count() as u64
    };
    let never_offered = passed.first_position.saturating_sub(account.elements.first * per_sample);
    assert_eq!(account.elements.lost[Stage::Source], count(Stage::Source) + never_offered, "inherited");
    assert_eq!(account.elements.lost[Stage::PublisherQueue], count(Stage::PublisherQueue), "lapped");
    account
}

#[test]
fn a_reader_sees_on_which_hop_everything_before_was_lost() {
    for seed in 0..8 {
        let config = relaying(SHAPE.config(EPOCH), 2, 3_001);
        let (network, node, passed) =
            play(seed, &config, (40, 0.3), |publisher| publisher, (reader(seed), Port::default()));
        heard(&network, &passed);
        let account = account(&network, node, &passed);
        assert_eq!(account.hops, passed.inherited_from(3 * account.elements.first), "seed {seed}");
        assert_eq!(account.elements.unexplained, 0, "seed {seed}");
    }
}

#[test]
fn a_reader_of_an_earlier_version_sees_what_was_missing_as_source_and_closes_its_account() {
    for seed in 0..8 {
        let config = relaying(SHAPE.config(EPOCH), 2, 3_001);
        let before = |publisher: Publisher| publisher.translating(as_before_relays);
        let (network, node, passed) = play(seed, &config, (40, 0.3), before, (reader(seed), Port::default()));
        let account = account(&network, node, &passed);
        assert!(account.hops.is_empty());
        assert!((1_000..1_100).contains(&account.elements.first), "it begins with the first whole sample");
        assert_eq!(account.elements.unexplained, 0, "seed {seed}");
        assert!(account.elements.delivered > 5_000 && account.elements.lost[Stage::Source] > 1_000);
    }
}

#[test]
fn a_reader_that_waited_begins_with_the_first_whole_sample_that_was_offered() {
    let config = relaying(SHAPE.config(EPOCH), 2, 3_001);
    let (network, node, passed) =
        play(1, &config, (40, 0.0), |publisher| publisher, (reader(1).waiting(), Port::default()));
    let account = account(&network, node, &passed);
    assert_eq!((account.elements.first, account.elements.unexplained), (1_001, 0));
    assert_eq!(account.elements.missing(), 0);
}

#[test]
fn data_before_the_first_whole_sample_are_no_loss_of_a_reader_that_waits() {
    let config = relaying(SHAPE.config(EPOCH), 2, 3_001);
    let down = Link::ideal().lose_when("the first whole sample", |passing| {
        matches!(Datagram::decode(passing.bytes), Ok(Datagram::Data(data)) if data.positions().start == 3_003)
    });
    let port = Port { down, ..Port::default() };
    let (network, node, passed) =
        play(1, &config, (40, 0.0), |publisher| publisher, (reader(1).waiting(), port));
    let Account { elements, datagrams, .. } = account(&network, node, &passed);
    let datagrams = datagrams.expect("a reader with a socket");
    assert_eq!((elements.first, elements.lost[Stage::Decode], datagrams.lost[Stage::Decode]), (1_001, 0, 0));
    assert_eq!((elements.missing(), elements.unexplained > 0), (elements.unexplained, true));
    assert_eq!((datagrams.first, datagrams.unexplained), (2, 1), "the description, and a part of a sample");
}

#[test]
fn an_earlier_reader_that_waited_sees_what_was_never_offered_as_source() {
    let config = relaying(SHAPE.config(EPOCH), 2, 3_001);
    let before = |publisher: Publisher| publisher.translating(as_before_relays);
    let (network, node, passed) = play(1, &config, (40, 0.0), before, (reader(1).waiting(), Port::default()));
    let account = account(&network, node, &passed);
    assert_eq!((account.elements.first, account.elements.unexplained), (0, 0));
    assert_eq!(account.elements.lost[Stage::Source], 3_001);
}

#[test]
fn losses_of_its_own_hop_are_told_apart_from_those_before() {
    for seed in 0..8 {
        let config = relaying(SHAPE.config(EPOCH), 4, 6_000);
        let port = Port { down: Link::lan().loss(0.02), ..Port::default() };
        let refusal = Refusal { socket: 0.02, qdisc: 0.02 };
        let change = |publisher: Publisher| publisher.refusing(refusal).told(at(500), Command::Inject(0.02));
        let (network, node, passed) = play(seed, &config, (40, 0.2), change, (reader(seed), port));
        let (truth, account) = verify(&network, node).pop().expect("an account");
        assert_eq!(account.state, AccountState::Closed);
        assert!(truth.network > 0 && account.elements.lost[Stage::SenderSocket] > 0);
        let inherited = passed
            .outcomes
            .iter()
            .filter(|outcome| matches!(outcome, ElementOutcome::Missing(Stage::Source, _)));
        assert!(account.elements.lost[Stage::Source] <= inherited.count() as u64);
    }
}

#[test]
fn a_large_sample_passes_in_pieces_and_holes_inside_it_are_told_by_the_element() {
    let shape = StreamShape { dtype: Dtype::U8, hz: 1, elements: 2_000_000, ..StreamShape::PLAIN };
    let config = relaying(shape.config(EPOCH), 2, 4_000_000);
    let (network, node, passed) =
        play(1, &config, (1_400, 0.1), |publisher| publisher, (reader(1), Port::default()));
    heard(&network, &passed);
    let account = account(&network, node, &passed);
    assert_eq!((account.elements.first, account.elements.next, account.elements.unexplained), (2, 3, 0));
    assert!(account.elements.lost[Stage::Source] > 10_000);
}

#[test]
fn the_smallest_datagrams_carry_a_few_elements_and_tallies_all_outcomes() {
    for (datagram_bytes, hops) in [(MIN_DATA_BYTES + ORIGIN_BYTES, 2), (MIN_DATAGRAM_BYTES, 8)] {
        let shape = StreamShape { datagram_bytes, ..SHAPE };
        let config = relaying(shape.config(EPOCH), hops, 0);
        let (network, node, passed) =
            play(3, &config, (9, 0.3), |publisher| publisher, (reader(1), Port::default()));
        heard(&network, &passed);
        assert_eq!(account(&network, node, &passed).elements.unexplained, 0);
        let largest = network.log().all_sent().filter(|sent| sent.from == NodeId(0));
        let largest = largest.filter(|sent| matches!(Datagram::decode(sent.bytes), Ok(Datagram::Data(_))));
        assert!(largest.map(|sent| sent.bytes.len()).max() <= Some(datagram_bytes));
    }
}

#[test]
fn statements_take_turns_with_the_counts_of_the_hops_before_and_neither_is_left_out() {
    let config = relaying(SHAPE.config(EPOCH), 6, 0);
    let statements = |publisher: Publisher| {
        (0..15).fold(publisher, |publisher, number: u8| {
            let size = [wire::MAX_TALLY_STATEMENT_BYTES, 100, 640][usize::from(number) % 3];
            let mut statement = vec![number; size];
            statement[0] = number;
            // Up to two at once, as where a relay appends its own.
            publisher.told(at(u64::from(number) / 2 * 250 + 33), Command::State(statement))
        })
    };
    let last = vec![15; wire::MAX_TALLY_STATEMENT_BYTES];
    let change = |publisher| statements(publisher).told(at(FED_UNTIL + 99), Command::State(last));
    let (network, node, passed) = play(5, &config, (40, 0.3), change, (reader(1).waiting(), Port::default()));
    let heard = heard(&network, &passed);
    let said: Vec<_> = heard.statements.iter().map(|statement| statement[0]).collect();
    assert_eq!(said, (0..=15).collect::<Vec<_>>());
    assert!(heard.without_upstream >= 11, "{} tallies had a large statement", heard.without_upstream);
    assert!(heard.tallies >= 2 * heard.without_upstream, "every second tally has the counts");
    assert_eq!(network.node(node).reader().watch.statements.len(), 16);
    let stats = network.node(NodeId(0)).publisher().sender().expect("a sender").statement_stats();
    assert_eq!((stats.taken, stats.too_large, stats.displaced), (16, 0, 0));
}

#[test]
fn a_large_statement_is_in_three_tallies_although_it_takes_turns() {
    let config = relaying(SHAPE.config(EPOCH), 6, 0);
    let statement = Command::State(vec![1; wire::MAX_TALLY_STATEMENT_BYTES]);
    let change = |publisher: Publisher| publisher.told(at(500), statement);
    let (network, _, passed) = play(5, &config, (40, 0.0), change, (reader(1), Port::default()));
    let heard = heard(&network, &passed);
    assert_eq!((heard.without_upstream, heard.statements.len()), (3, 1));
}

#[test]
fn descriptors_name_origin_and_deadline() {
    let deadline = Deadline { end_to_end: core::time::Duration::from_secs(1), priority: 3 };
    let config = SenderConfig { deadline: Some(deadline), ..relaying(SHAPE.config(EPOCH), 2, 0) };
    let (network, _, _) = play(1, &config, (40, 0.0), |publisher| publisher, (reader(1), Port::default()));
    let parts = network.log().all_sent().filter(|sent| sent.from == NodeId(0)).filter_map(|sent| {
        match Datagram::decode(sent.bytes) {
            Ok(Datagram::Descriptor(part)) => Some((part.origin, part.deadline)),
            _ => None,
        }
    });
    let origin = config.relayed.map(|relayed| relayed.origin);
    assert!(parts.into_iter().all(|told| told == (origin, Some(deadline))));
}

#[test]
fn without_readers_a_relay_on_demand_pauses_by_the_element() {
    let config = SenderConfig {
        sending: Sending::OnDemand,
        beginning: Beginning::Now,
        ..relaying(SHAPE.config(EPOCH), 2, 7)
    };
    let (network, node, passed) =
        play(2, &config, (40, 0.2), |publisher| publisher, (reader(1), Port::default()));
    let (_, account) = verify(&network, node).pop().expect("an account");
    assert_eq!((account.state, account.elements.unexplained), (AccountState::Closed, 0));
    assert!(account.elements.lost[Stage::PublisherPaused] > 0 && account.elements.delivered > 0);
    let totals = network.node(NodeId(0)).publisher().epochs[0].totals.samples;
    assert!(
        totals.publisher_paused > 0 && totals.queued == 0 && passed.outcomes.len() > 10_000,
        "{totals:?}"
    );
}
