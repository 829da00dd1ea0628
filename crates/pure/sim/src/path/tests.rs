//! Effects of a link, exact or near their probability.

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn path(link: Link) -> Path {
    Path::new(link, 5, "test")
}

/// Passes `count` datagrams of 100 bytes, one each millisecond.
fn pass(link: Link, count: u64) -> Vec<Result<Instant, LostBy>> {
    let mut path = path(link);
    let pass = |index| path.pass(at(index * 1_000), &[0; 100]).original.map(|exit| exit.due);
    (0..count).map(pass).collect()
}

fn lost(link: Link, count: u64) -> Vec<bool> {
    pass(link, count).iter().map(Result::is_err).collect()
}

#[test]
fn a_delay_is_exact() {
    assert_eq!(pass(Link::lan(), 2), [Ok(at(100)), Ok(at(1_100))]);
}

#[test]
fn a_shorter_path_overtakes() {
    let link = Link::ideal().delay(3 * MILLISECOND).delay_from(at(1_000), MILLISECOND);
    assert_eq!(pass(link, 3), [Ok(at(3_000)), Ok(at(2_000)), Ok(at(3_000))]);
}

#[test]
fn jitter_stays_within_its_bound_and_keeps_order_only_when_told() {
    let dues = |order| {
        let link = Link::lan().jitter(5 * MILLISECOND, order);
        pass(link, 1_000).into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert!(dues(Order::Kept).is_sorted());
    let free = dues(Order::Free);
    assert!(!free.is_sorted());
    for (index, due) in free.iter().enumerate() {
        let sent = at(index as u64 * 1_000);
        assert!((at(100)..=at(5_100)).contains(&(at(0) + due.since(sent))));
    }
}

#[test]
fn held_back_datagrams_are_overtaken_and_the_others_are_not_moved() {
    let dues = pass(Link::lan().reorder(0.1, 2 * MILLISECOND), 1_000);
    let held = (0..).zip(&dues).filter(|(index, due)| **due == Ok(at(index * 1_000 + 2_100))).count();
    let straight = (0..).zip(&dues).filter(|(index, due)| **due == Ok(at(index * 1_000 + 100))).count();
    assert_eq!(held + straight, 1_000);
    assert!((60..140).contains(&held), "10 % of 1,000 gave {held}");
}

#[test]
fn random_loss_keeps_its_probability() {
    let lost = lost(Link::lan().loss(0.003), 200_000).into_iter().filter(|lost| *lost).count();
    assert!((500..700).contains(&lost), "0.3 % of 200,000 gave {lost}");
}

#[test]
fn bursts_keep_their_share_and_their_mean_length() {
    let lost = lost(Link::lan().bursts(Bursts::of(0.05, 8.0)), 400_000);
    let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    let total = lost.iter().filter(|lost| **lost).count();
    assert!((18_000..22_000).contains(&total), "5 % of 400,000 gave {total}");
    let mean = total as f64 / bursts as f64;
    assert!((7.5..8.5).contains(&mean), "bursts of 8 were {mean} long");
}

#[test]
fn placed_losses_hit_exactly_what_was_named() {
    let link = Link::lan().lose([1, 3]).lose_when("the fifth second", |passing| passing.at == at(5_000));
    assert_eq!(lost(link, 7), [false, true, false, true, false, true, false]);
}

#[test]
fn an_outage_loses_what_enters_in_it_from_its_first_moment_to_before_its_last() {
    let link = Link::lan().outage(at(1_000)..at(3_000));
    assert_eq!(lost(link, 4), [false, true, true, false]);
}

#[test]
fn serialisation_takes_the_wire_size_and_carries_its_remainder() {
    // 3 Mbit/s: (100 + 66) bytes take 442,666.6 ns; three of them exactly 1,328,000 ns.
    let mut path = path(Link::ideal().rate(3_000_000, 10_000));
    let nanos = [442_666, 885_333, 1_328_000].map(Instant::from_nanos);
    for due in nanos {
        assert_eq!(path.pass(at(0), &[0; 100]).original.map(|exit| exit.due).unwrap(), due);
    }
}

#[test]
fn a_queue_holds_its_bytes_and_not_one_more() {
    let queued = |queue_bytes| {
        let mut path = path(Link::ideal().rate(1_000_000, queue_bytes));
        (0..10).filter(|_| path.pass(at(0), &[0; 100]).original.is_ok()).count()
    };
    assert_eq!(queued(3 * 166), 3);
    assert_eq!(queued(3 * 166 - 1), 2);
}

#[test]
fn a_queue_has_room_again_when_a_last_bit_has_left() {
    // 1 Mbit/s: 166 bytes take 1,328 µs.
    let mut path = path(Link::ideal().rate(1_000_000, 166));
    let mut accepted = |micros| path.pass(at(micros), &[0; 100]).original.is_ok();
    assert_eq!([0, 1_327, 1_328].map(&mut accepted), [true, false, true]);
}

#[test]
fn a_duplicate_follows_its_original() {
    let mut path = path(Link::lan().duplicate(1.0, MILLISECOND));
    let passage = path.pass(at(0), &[1]);
    assert_eq!(passage.original.map(|exit| exit.due).unwrap(), at(100));
    assert_eq!(passage.duplicate, Some(at(1_100)));
}

#[test]
fn corruption_flips_one_bit_anywhere_and_a_checksum_would_drop_it() {
    let mut path_delivered = path(Link::lan().corrupt(1.0, Corruption::Delivered));
    let mut struck = [0_u8; 3];
    for _ in 0..200 {
        let damage = path_delivered.pass(at(0), &[0; 3]).original.ok().and_then(|exit| exit.wear.damage);
        let mut bytes = [0_u8; 3];
        damage.unwrap().strike(&mut bytes);
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        for (seen, byte) in struck.iter_mut().zip(bytes) {
            *seen |= byte;
        }
    }
    assert_eq!(struck, [0xff; 3], "every bit was struck once in 200 times");

    let mut path = path(Link::lan().corrupt(1.0, Corruption::Dropped));
    assert!(matches!(path.pass(at(0), &[0; 3]).original, Err(LostBy::Checksum)));
    assert!(matches!(path.pass(at(0), &[]).original, Ok(Exit { wear: Wear { damage: None, .. }, .. })));
}

#[test]
fn a_rate_that_changes_holds_for_what_begins_to_leave_afterwards() {
    let link = Link::ideal().rate(8_000_000, 10_000).rate_from(at(1_500), 80_000_000);
    let mut path = path(link);
    // 1,000 bytes on the wire: a millisecond each at first, a tenth of it afterwards.
    let due: Vec<Instant> =
        (0..4).map(|_| path.pass(at(0), &[0; 934]).original.expect("there is room").due).collect();
    assert_eq!(due, [1_000, 2_000, 2_100, 2_200].map(at));
}

#[test]
fn a_long_queue_marks() {
    let mut path = path(Link::ideal().rate(8_000_000, 10_000).mark_above(1_999));
    let marked: Vec<bool> =
        (0..5).map(|_| path.pass(at(0), &[0; 934]).original.expect("there is room").wear.is_marked).collect();
    assert_eq!(marked, [false, false, true, true, true]);
}
