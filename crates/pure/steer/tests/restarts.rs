//! Commands over a bad network to an app that is killed: no doubled effect, none without a record, and no wrong answer.
//!
//! A scene depends on its seed only. The network loses, repeats and reorders messages; the app is killed at one of
//! eight named points, up to twice, with the write of that moment torn, and starts again at once or after some seconds. `TALLYCAST_SEEDS` is the number of scenes
//! (2,400 by default), `TALLYCAST_FIRST_SEED` the first seed; a failure prints the command that repeats its seed.

mod scene;

use std::collections::BTreeMap;

use scene::{POINTS, Scene, Seen};
use steer::{Answer, Conclusion, Record};

#[test]
fn no_effect_is_doubled_or_unlogged_wherever_the_app_is_killed() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 2_400),
        repeat: "TALLYCAST_FIRST_SEED={seed} TALLYCAST_SEEDS=1 cargo test -p tallycast-steer --test restarts",
    };
    let mut seen = Seen::default();
    sim::seeds::each(&seeds, |seed| {
        let mut scene = Scene::new(seed);
        scene.play();
        check(&scene, &mut seen);
    });
    println!("{} seeds: {seen:?}", seeds.count);
    if seeds.count >= 2_000 {
        assert!(POINTS.iter().all(|point| seen.kills.contains_key(point)), "{seen:?}");
        let all = ["applied", "refused", "expired", "superseded", "failed", "uncertain", "never arrived"];
        assert!(all.iter().all(|name| seen.conclusions.contains_key(name)), "{seen:?}");
        assert!(seen.repeated > 0 && seen.withdrawn > 0 && seen.torn > 0 && seen.gave_up > 0, "{seen:?}");
        assert!(seen.segments > 2 * seeds.count, "{seen:?}");
    }
}

#[test]
fn no_effect_is_denied_by_a_run_whose_log_was_put_back() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 2_400),
        repeat: "TALLYCAST_FIRST_SEED={seed} TALLYCAST_SEEDS=1 cargo test -p tallycast-steer --test restarts",
    };
    let (mut seen, mut denied) = (Seen::default(), 0_u64);
    sim::seeds::each(&seeds, |seed| {
        let mut scene = Scene::with_logs_put_back(seed);
        scene.play();
        for (id, client) in &scene.clients {
            let had_effect = scene.device.history.contains(id);
            match client.conclusion().unwrap_or_else(|| panic!("no conclusion about {id}")) {
                Conclusion::Answered(answer) => {
                    assert_eq!(had_effect, matches!(answer, Answer::Applied(_)), "{id}: {answer:?}");
                }
                Conclusion::NeverArrived => assert!(!had_effect, "{id} arrived"),
                Conclusion::Uncertain => denied += u64::from(had_effect && scene.doubted.contains(id)),
            }
        }
        seen.put_back += scene.put_back;
        seen.doubted += scene.doubted.len() as u64;
    });
    let Seen { put_back, doubted, .. } = seen;
    println!(
        "{} seeds: {put_back} logs put back, {doubted} commands doubted, {denied} effects not denied",
        seeds.count
    );
    if seeds.count >= 2_000 {
        assert!(put_back > 100 && doubted > 100 && denied > 0, "{put_back}, {doubted}, {denied}");
    }
}

/// Compares the log and what the clients concluded with what happened at the device.
fn check(scene: &Scene, seen: &mut Seen) {
    let mut effects: BTreeMap<_, u64> = BTreeMap::new();
    for id in &scene.device.history {
        *effects.entry(*id).or_default() += 1;
    }
    assert!(effects.values().all(|count| *count == 1), "a doubled effect: {effects:?}");
    let log = scene.log();
    let mut outcomes = BTreeMap::new();
    for record in log.entries.iter().map(|entry| &entry.record) {
        if let Record::Outcome { id, answer, .. } = record {
            assert!(outcomes.insert(*id, answer.clone()).is_none(), "two outcomes of {id}");
        }
    }
    for id in effects.keys() {
        let outcome = outcomes.get(id).unwrap_or_else(|| panic!("the effect of {id} has no outcome"));
        assert!(matches!(outcome, Answer::Applied(_) | Answer::Uncertain), "{id} had an effect: {outcome:?}");
    }
    for (id, answer) in &outcomes {
        assert!(effects.contains_key(id) || !matches!(answer, Answer::Applied(_)), "{id} had no effect");
        if scene.device.keeps {
            assert_ne!(*answer, Answer::Uncertain, "the app can tell of {id}");
        }
    }
    assert!(scene.doubted.is_empty(), "the log went on in every run");
    for id in &scene.doubtful {
        assert_eq!(outcomes[id], Answer::Uncertain, "nothing was kept that tells of {id}");
    }
    for (id, client) in &scene.clients {
        let conclusion = client.conclusion().unwrap_or_else(|| panic!("no conclusion about {id}"));
        let had_effect = effects.contains_key(id);
        let name = match conclusion {
            Conclusion::Answered(answer) => {
                assert_eq!(had_effect, matches!(answer, Answer::Applied(_)), "{id}: {answer:?}");
                answer.name()
            }
            Conclusion::NeverArrived => {
                assert!(!had_effect, "{id} arrived");
                "never arrived"
            }
            Conclusion::Uncertain => {
                let knows = scene.device.keeps && !scene.gave_up.contains(id);
                assert!(!knows, "the app can tell of {id}");
                "uncertain"
            }
        };
        *seen.conclusions.entry(name).or_default() += 1;
    }
    let totals = scene.totals();
    assert!(totals.holds() && totals.pending == 0, "{totals:?}");
    assert_eq!(totals, scene.totals_of_log(), "the account of the log is that of the app");
    seen.segments += scene.check_checkpoints();
    seen.repeated += scene.repeated;
    seen.withdrawn += totals.refused_by(steer::Rule::Withdrawn);
    seen.torn += scene.torn;
    seen.gave_up += scene.gave_up.len() as u64;
    for point in &scene.killed_at {
        *seen.kills.entry(point).or_default() += 1;
    }
}

#[expect(clippy::disallowed_methods, reason = "the number of scenes is the runner's choice")]
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}
