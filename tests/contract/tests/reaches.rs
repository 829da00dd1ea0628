//! Guarantees of every reach.

use contract::{Place, Transport, check_closed, close, sum};
use tallycast::{AccountState, GapKind, Stage};

/// Runs every scene of the contract over one reach.
macro_rules! contract {
    ($reach:ident, $transport:expr) => {
        mod $reach {
            use contract::{Place, Transport};

            #[test]
            fn every_sample_comes_as_it_was_sent_and_the_account_closes() {
                super::every_sample(&Place::new($transport));
            }

            #[test]
            fn holes_of_the_source_are_gaps_of_that_stage() {
                super::source_holes(&Place::new($transport));
            }

            #[test]
            fn a_late_reader_accounts_from_where_it_joined() {
                super::late_reader(&Place::new($transport));
            }

            #[test]
            fn a_reader_that_leaves_is_cut_and_balanced() {
                super::leaving_reader(&Place::new($transport));
            }

            #[test]
            fn a_publisher_that_comes_back_begins_a_new_epoch() {
                super::two_epochs(&Place::new($transport));
            }

            #[test]
            fn samples_larger_than_a_datagram_come_whole() {
                super::large_samples(&Place::new($transport));
            }

            #[test]
            fn two_readers_are_told_the_same() {
                super::two_readers(&Place::new($transport));
            }

            #[test]
            fn the_way_is_said() {
                let place = Place::new($transport);
                let _publisher = place.publisher("lab/way").open().expect("a publisher");
                assert_eq!(place.joined("lab/way").reaches(), [place.reach()]);
            }
        }
    };
}

contract!(shm, Transport::Shm);
contract!(udp, Transport::Udp);
contract!(agent, Transport::Agent);

/// Returns the value of a sample index in every scene.
fn value(index: u64) -> u32 {
    (index as u32).wrapping_mul(2_654_435_761)
}

fn values(indices: std::ops::Range<u64>) -> Vec<u32> {
    indices.map(value).collect()
}

fn every_sample(place: &Place) {
    let mut publisher = place.publisher("lab/all").open().expect("a publisher");
    let mut reader = place.joined("lab/all");
    for block in 0..50 {
        publisher.send_when_due(&values(block * 997..(block + 1) * 997)).expect("sent");
    }
    close(publisher);
    reader.until(|seen| seen.closed() == 1);
    let seen = reader.leave();
    assert!(seen.values() == values(0..50 * 997), "the samples are equal bit for bit");
    let first = seen.blocks[0].first_index;
    let mut next = first;
    for block in &seen.blocks {
        assert_eq!(block.first_index, next, "blocks follow each other");
        next += block.samples;
    }
    let rows = check_closed(place, &seen.ended).elements;
    assert_eq!((rows.first, rows.next, rows.delivered), (0, 50 * 997, 50 * 997));
}

fn source_holes(place: &Place) {
    let mut publisher = place.publisher("lab/holes").open().expect("a publisher");
    let mut reader = place.joined("lab/holes");
    for _ in 0..3 {
        publisher.send_when_due(&[7_u32; 1000]).expect("sent");
        publisher.skip(50, Stage::Source).expect("skipped");
    }
    publisher.send_when_due(&[7_u32; 1000]).expect("sent");
    close(publisher);
    reader.until(|seen| seen.closed() == 1);
    let seen = reader.leave();
    let places: Vec<_> = seen.gaps.iter().map(|gap| gap.gap.positions.clone()).collect();
    assert_eq!(places, [1000..1050, 2050..2100, 3100..3150]);
    for gap in &seen.gaps {
        assert_eq!((gap.gap.lost[Stage::Source], gap.gap.settled()), (50, true));
    }
    let elements = check_closed(place, &seen.ended).elements;
    assert_eq!((elements.delivered, elements.lost[Stage::Source]), (4000, 150));
}

fn late_reader(place: &Place) {
    // The rate is so low that a socket can hold the data while its reader has no processor.
    let mut publisher = place.publisher("lab/late").rate("10k").open().expect("a publisher");
    publisher.send_when_due(&values(0..5000)).expect("sent");
    let mut reader = place.joined("lab/late");
    let mut sent = 5000;
    while reader.seen.samples() == 0 {
        publisher.send_when_due(&values(sent..sent + 500)).expect("sent");
        sent += 500;
        reader.until(|seen| seen.began > 0);
        reader.glance();
    }
    publisher.send_when_due(&values(sent..sent + 1000)).expect("sent");
    sent += 1000;
    close(publisher);
    reader.until(|seen| seen.closed() == 1);
    let seen = reader.leave();
    let rows = check_closed(place, &seen.ended).elements;
    assert_eq!(rows.next, sent);
    assert_eq!(rows.delivered + rows.lost.total(), sent - rows.first);
    assert_eq!(seen.values(), values(seen.blocks[0].first_index..sent));
    assert_eq!(rows.lost.total(), 0);
}

fn leaving_reader(place: &Place) {
    let mut publisher = place.publisher("lab/leave").open().expect("a publisher");
    let mut reader = place.joined("lab/leave");
    publisher.send_when_due(&values(0..3000)).expect("sent");
    reader.until(|seen| seen.samples() >= 1000);
    let seen = reader.leave();
    let account = sum(&seen.ended);
    // Over the network, a publisher without a processor counts as silent.
    let may_be_silent = place.transport() != Transport::Shm && account.state == AccountState::Unconfirmed;
    assert!(account.state == AccountState::Cut || may_be_silent, "{account:?}");
    let rows = &account.elements;
    assert_eq!((rows.delivered, rows.unexplained), (seen.samples(), 0));
    assert_eq!(rows.next - rows.first, seen.samples());
    close(publisher);
}

fn two_epochs(place: &Place) {
    let mut first = place.publisher("lab/epochs").open().expect("a publisher");
    let mut reader = place.joined("lab/epochs");
    first.send_when_due(&values(0..1000)).expect("sent");
    close(first);
    reader.until(|seen| seen.closed() == 1);
    let began = reader.seen.began;
    let mut second = place.publisher("lab/epochs").open().expect("a publisher again");
    reader.until(|seen| seen.began > began);
    second.send_when_due(&values(0..1000)).expect("sent");
    close(second);
    reader.until(|seen| seen.closed() == 2);
    let seen = reader.leave();
    let epochs = seen.by_epoch();
    assert_eq!(epochs.len(), 2, "{epochs:?}");
    for accounts in epochs.values() {
        assert_eq!(check_closed(place, accounts).elements.delivered, 1000);
    }
    assert!(seen.ended.is_sorted_by_key(|account| account.epoch));
    let kinds: Vec<_> = seen.gaps.iter().map(|gap| gap.gap.kind).collect();
    assert_eq!(kinds, [GapKind::PublisherAbsent], "the time between is said, and counts nothing");
}

fn large_samples(place: &Place) {
    // The rate is so high that a frame leaves at once.
    let mut publisher = place
        .publisher("lab/frames")
        .rate(2_000)
        .channel(tallycast::Channel::new("frame", "counts").with_shape(vec![100, 90]))
        .open()
        .expect("a publisher");
    let mut reader = place.joined("lab/frames");
    for frame in 0..6 {
        publisher.send_when_due(&values(frame * 9000..(frame + 1) * 9000)).expect("sent");
    }
    close(publisher);
    reader.until(|seen| seen.closed() == 1);
    let seen = reader.leave();
    check_closed(place, &seen.ended);
    let rows = seen.ended.iter().map(|account| account.samples.expect("they are counted"));
    let (whole, others) = rows.fold((0, 0), |sums, rows| {
        (sums.0 + rows.whole, sums.1 + rows.partial + rows.missing + rows.pending)
    });
    // Over the network, a publisher without a processor for a second within a frame leaves that frame incomplete.
    assert!(whole + others == 6 && others < seen.ended.len() as u64, "{:?}", seen.ended);
    let mut came_whole = 0;
    for block in seen.blocks.iter().filter(|block| block.missing.is_empty()) {
        let elements = block.elements::<u32>().expect("numbers");
        assert!(*elements == values(block.first_index * 9000..block.next_index() * 9000), "bit for bit");
        came_whole += block.samples;
    }
    assert!(came_whole == 6 || others > 0, "{came_whole} of six frames");
}

fn two_readers(place: &Place) {
    let mut publisher = place.publisher("lab/two").open().expect("a publisher");
    let mut readers = [place.joined("lab/two"), place.joined("lab/two")];
    for block in 0..10 {
        publisher.send_when_due(&values(block * 500..(block + 1) * 500)).expect("sent");
    }
    close(publisher);
    for reader in &mut readers {
        reader.until(|seen| seen.closed() == 1);
        check_closed(place, &reader.seen.ended);
        assert_eq!(reader.seen.values(), values(0..5000));
    }
}
