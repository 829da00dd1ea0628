//! Heads of a log that others have seen: no honest log is called another one, and one that was put back shows.
//!
//! A seed gives an app whose runs append to a log, are killed, and find the log as it was or an earlier copy of it. A
//! reader sees some of the records, in another order. `TALLYCAST_SEEDS` is the number of seeds (20,000 by default),
//! `TALLYCAST_FIRST_SEED` the first one.

use steer::{LogError, Mark, Seen};
use units::{Epoch, Random};

/// Runs of one seed.
const RUNS: u64 = 6;

/// One run, and what a reader sees of it.
struct Run {
    epoch: Epoch,
    /// The log with which it began: a digest for each record.
    log: Vec<u64>,
    told: Vec<Told>,
}

#[derive(Clone, Copy)]
enum Told {
    Began(Mark),
    Published(Mark),
}

fn mark(log: &[u64]) -> Mark {
    Mark { count: log.len() as u64, digest: log.last().copied().unwrap_or_default() }
}

fn runs(random: &mut Random, is_honest: bool) -> Vec<Run> {
    let mut log: Vec<u64> = Vec::new();
    let knows_began = random.chance(0.5);
    let all = random.chance(0.5);
    (1..=RUNS)
        .map(|start_ns| {
            if !is_honest && random.chance(0.4) {
                let kept = random.below(log.len() as u64 + 1);
                log.truncate(usize::try_from(kept).expect("a short log"));
            }
            let epoch = Epoch { start_ns, incarnation: random.next_u64() };
            let began = log.clone();
            let mut told = if knows_began { vec![Told::Began(mark(&log))] } else { Vec::new() };
            for _ in 0..=random.below(5) {
                log.push(random.next_u64() >> 16);
                if all || random.chance(0.5) {
                    told.push(Told::Published(mark(&log)));
                }
            }
            // Records that no reader saw before the app was killed.
            (0..random.below(2)).for_each(|_| log.push(random.next_u64() >> 16));
            shuffle(random, &mut told);
            Run { epoch, log: began, told }
        })
        .collect()
}

fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let place = usize::try_from(random.below(last as u64 + 1)).expect("few items");
        items.swap(last, place);
    }
}

#[test]
fn a_log_that_was_put_back_shows_and_an_honest_one_does_not() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 20_000),
        repeat: "TALLYCAST_FIRST_SEED={seed} TALLYCAST_SEEDS=1 cargo test -p tallycast-steer --test seen",
    };
    let (mut found, mut replaced) = (0_u64, 0_u64);
    sim::seeds::each(&seeds, |seed| {
        let mut random = Random::new(seed);
        let is_honest = random.chance(0.3);
        let runs = runs(&mut random, is_honest);
        let mut seen = Seen::default();
        let mut breaks = 0;
        // What comes late comes behind the beginning of the next run.
        let mut late: Vec<(Epoch, Told)> = Vec::new();
        for (place, run) in runs.iter().enumerate() {
            let held = if random.chance(0.5) { random.below(run.told.len() as u64 + 1) } else { 0 };
            let (first, last) = run.told.split_at(run.told.len() - usize::try_from(held).expect("few"));
            let mut told: Vec<_> = first.iter().map(|it| (run.epoch, *it)).collect();
            told.append(&mut late);
            shuffle(&mut random, &mut told);
            late = last.iter().map(|it| (run.epoch, *it)).collect();
            for (epoch, told) in
                told.into_iter().chain(if place + 1 == runs.len() { late.clone() } else { Vec::new() })
            {
                let broken = match told {
                    Told::Began(mark) => seen.began(epoch, mark),
                    Told::Published(mark) => seen.published(epoch, mark),
                };
                breaks += u64::from(broken.is_some());
            }
        }
        assert_eq!(seen.breaks(), breaks, "each break is told once");
        assert!(!is_honest || seen.broken().is_none(), "{:?}", seen.broken());
        check_last(&runs, &seen, &mut found);
        if let Some(broken) = seen.broken() {
            replaced += u64::from(matches!(broken.error(), LogError::Replaced(_)));
            assert!(!seen.is_whole_since(runs[0].epoch) && seen.is_whole_since(broken.run));
        }
    });
    println!("{} seeds: {found} breaks of the last run, {replaced} by the digest alone", seeds.count);
    if seeds.count >= 2_000 {
        assert!(found > seeds.count / 10 && replaced > 0, "{found}, {replaced}");
    }
}

/// Compares what is said of the last run with its log.
fn check_last(runs: &[Run], seen: &Seen, found: &mut u64) {
    let heard = |run: &&Run| !run.told.is_empty();
    let mut heard = runs.iter().rev().filter(heard);
    let (Some(last), Some(before)) = (heard.next(), heard.next()) else { return };
    let marks = |run: &Run| {
        run.told.iter().map(|(Told::Began(mark) | Told::Published(mark))| *mark).collect::<Vec<_>>()
    };
    let in_log = |mark: &Mark| {
        let place = mark.count.checked_sub(1).map(|place| usize::try_from(place).expect("a short log"));
        place.is_none_or(|place| last.log.get(place) == Some(&mark.digest))
    };
    let is_broken = seen.broken().is_some_and(|it| it.run == last.epoch);
    let mut earlier = runs.iter().filter(|run| run.epoch < last.epoch).flat_map(marks);
    assert!(!is_broken || !earlier.all(|mark| in_log(&mark)), "the log has all that was seen: {seen:?}");
    let newest = marks(before).into_iter().max_by_key(|mark| mark.count).expect("it was heard of");
    // The beginning is known from what the app says of it, or from the first record.
    let is_known = last.told.iter().any(|it| match it {
        Told::Began(_) => true,
        Told::Published(mark) => mark.count == last.log.len() as u64 + 1,
    });
    if is_known && newest.count > last.log.len() as u64 {
        assert!(is_broken, "an earlier log: {seen:?}");
    }
    let says = last.told.iter().any(|it| matches!(it, Told::Began(_)));
    if says && newest.count == last.log.len() as u64 && !in_log(&newest) {
        assert!(is_broken, "another log: {seen:?}");
    }
    *found += u64::from(is_broken);
}

#[expect(clippy::disallowed_methods, reason = "the number of seeds is the runner's choice")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}
