//! Restarts: from all records, from a checkpoint, and from logs that no app writes.

use super::*;
use crate::app::scene::{ADA, Scene, config, declared, ms};
use crate::bytes::MAX_COUNT;
use crate::{Command, Done, Hand, Output, Question, Reply, Scope, SessionId, Value};

/// Restarts the app of a scene from what it wrote, with what was kept of `gain`.
fn restarted(scene: &Scene, kept: Kept) -> App {
    let mut recovery = Recovery::default();
    scene.records.iter().for_each(|record| recovery.record(record));
    let standings = declared().into_iter().map(|declared| Standing { declared, kept });
    recovery.start(config(), standings.collect()).unwrap()
}

fn answer(app: &mut App, command: &Command) -> Option<Reply> {
    let new = SessionId(77);
    let _ = app.open(new, access::Principal::anonymous());
    let mut count = 0;
    while let Some(output) = app.poll() {
        count += u64::from(matches!(output, Output::Write { .. }));
    }
    app.written(app.written + count);
    let question = Question { id: command.id, session: ADA, valid_until: command.valid_until };
    app.ask(units::Instant::ORIGIN, new, &question)
}

fn change(id: u128, revision: u64) -> Kept {
    Kept::Change { id: CommandId(id), revision, epoch: config().epoch, index: 7 }
}

#[test]
fn an_open_command_is_resolved_by_what_was_kept_or_is_uncertain() {
    let mut scene = Scene::new();
    let command = scene.gain(1, 2.0);
    scene.send(command.clone());
    assert_eq!(scene.step(7).len(), 1);
    let name = |kept| match answer(&mut restarted(&scene, kept), &command) {
        Some(Reply::Known(answer)) => answer.name(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(change(1, 1)), "applied");
    assert_eq!(name(Kept::Unchanged), "failed");
    assert_eq!(name(Kept::Nothing), "uncertain");
    assert_eq!(name(change(9, 1)), "uncertain", "another command changed it, of which no log tells");
}

#[test]
fn a_checkpoint_that_does_not_add_up_is_of_the_commands_that_follow_it() {
    let mut scene = Scene::new();
    scene.send(scene.gain(1, 2.0));
    let mut recovery = Recovery::default();
    scene.records.iter().for_each(|record| recovery.record(record));
    let checkpoint =
        recovery.checkpoint(&"sim/engine".parse().unwrap(), Head::beginning(&"x".parse().unwrap()));
    let is_open = |record: &&Record| matches!(record, Record::Open { .. });
    let open = checkpoint.iter().find(is_open).unwrap();
    let without: Vec<_> = checkpoint.iter().filter(|record| !is_open(record)).collect();
    let twice: Vec<_> = checkpoint.iter().chain([open]).collect();
    for (records, uncertain) in [(without, 0), (twice, 1)] {
        let mut recovery = Recovery::default();
        records.into_iter().for_each(|record| recovery.record(record));
        let app = recovery.start(config(), Vec::new()).unwrap();
        assert_eq!((app.totals().received, app.totals().uncertain), (uncertain, uncertain));
    }
}

/// Records in an order and with numbers that no app writes, as in a log that was forged with all its digests.
#[test]
fn a_forged_log_leaves_an_account_that_closes() {
    for seed in 0..500 {
        let mut random = units::Random::new(seed);
        let mut scene = Scene::new();
        (1..4).for_each(|id| drop(scene.send(scene.gain(id, 2.0))));
        scene.apply_all(7);
        scene.send(scene.gain(4, 2.0));
        let mut records = scene.records;
        let refused =
            [u64::MAX, MAX_COUNT, 1].map(|count| Record::Omitted { refused: vec![(Rule::Full, count)] });
        records.extend(refused);
        let mut totals = Totals::default();
        (totals.received, totals.expired) = (MAX_COUNT, MAX_COUNT);
        let (app, switches) = ("sim/engine".parse().unwrap(), Switches::default());
        let before = Head { count: MAX_COUNT, digest: [3; 32] };
        records.push(Record::Checkpoint { app, before, totals, switches });
        for (id, answer) in [(4, Answer::Uncertain), (5, Answer::Superseded)] {
            let (id, parameter, revision) = (CommandId(id), "gain".to_owned(), MAX_COUNT);
            records.push(Record::Open { id, parameter: parameter.clone(), fingerprint: 5 });
            records.push(Record::Standing {
                parameter: parameter.clone(),
                revision,
                last: vec![id; MAX_LAST],
            });
            records.push(Record::Outcome { id, parameter, revision, answer });
        }
        let mut recovery = Recovery::default();
        for _ in 0..40 {
            recovery.record(&records[usize::try_from(random.below(records.len() as u64)).unwrap()]);
        }
        let mut head = before;
        for record in recovery.checkpoint(&"sim/engine".parse().unwrap(), before) {
            head.append(units::WallTime::default(), &record);
        }
        let kept = [Kept::Nothing, change(4, MAX_COUNT)][usize::try_from(random.below(2)).unwrap()];
        let standings = declared().into_iter().map(|declared| Standing { declared, kept });
        let mut app = recovery.start(config(), standings.collect()).unwrap();
        assert!(app.totals().holds() && app.totals().pending == 0, "seed {seed}: {:?}", app.totals());
        app.read_back("gain", Value::scalar(3.0)).unwrap();
    }
}

#[test]
fn answers_totals_revisions_and_kill_switches_outlast_a_restart() {
    let mut scene = Scene::new();
    let command = scene.gain(1, 2.0);
    scene.send(command.clone());
    let (_, applied) = scene.apply_all(7).remove(0);
    scene.send(scene.gain(2, 99.0));
    scene.send(scene.gain(3, 3.0));
    scene.app.stop(Hand::Host, Scope::App, "smoke").unwrap();
    scene.poll();
    let mut app = restarted(&scene, change(1, 1));
    assert_eq!(answer(&mut app, &command), Some(Reply::Known(applied)));
    let failed = answer(&mut app, &scene.gain(3, 3.0));
    assert!(matches!(failed, Some(Reply::Known(Answer::Failed { .. }))), "{failed:?}");
    assert_eq!(answer(&mut app, &scene.gain(4, 3.0)), Some(Reply::NeverSeen));
    assert_eq!(app.value("gain").unwrap().1, 1);
    assert!(app.switches().app);
    let totals = app.totals();
    assert_eq!((totals.received, totals.applied, totals.refused, totals.failed), (3, 1, 1, 1));
}

#[test]
fn a_command_of_the_earlier_run_has_no_effect_in_the_next() {
    let mut scene = Scene::new();
    let command = scene.gain(1, 2.0);
    let mut app = restarted(&scene, Kept::Unchanged);
    app.command(scene.now, command.clone());
    assert_eq!(app.totals().refused_by(Rule::Session), 1, "its session ended with the earlier run");
    scene.send(command.clone());
    let mut app = restarted(&scene, Kept::Nothing);
    app.command(scene.now, command);
    assert_eq!((app.totals().repeated, app.totals().uncertain), (1, 1));
}

#[test]
fn an_uncertain_outcome_raises_the_revision() {
    let mut scene = Scene::new();
    scene.send(scene.gain(1, 2.0));
    for effect in scene.step(1) {
        scene.app.done(effect.id, Done::Applied { readback: Value::scalar(2.0) }).unwrap();
    }
    scene.poll();
    scene.now += ms(1);
    scene.send(scene.gain(2, 3.0));
    assert_eq!(restarted(&scene, Kept::Nothing).value("gain").unwrap().1, 2);
    assert_eq!(restarted(&scene, change(1, 1)).value("gain").unwrap().1, 1);
    assert_eq!(restarted(&scene, change(2, 2)).value("gain").unwrap().1, 2);
}

/// Takes a checkpoint of an app that had decided nothing, and these records behind it.
fn behind_a_checkpoint(records: impl IntoIterator<Item = Record>) -> Recovery {
    let mut recovery = Recovery::default();
    let app: StreamName = "sim/engine".parse().unwrap();
    let first = Recovery::default().checkpoint(&app, Head::beginning(&app));
    first.into_iter().chain(records).for_each(|record| recovery.record(&record));
    recovery
}

fn open(id: u128) -> Record {
    Record::Open { id: CommandId(id), parameter: "gain".to_owned(), fingerprint: 5 }
}

fn outcome(id: u128, answer: Answer) -> Record {
    Record::Outcome { id: CommandId(id), parameter: "gain".to_owned(), revision: 3, answer }
}

fn standing(last: u128) -> Record {
    Record::Standing { parameter: "gain".to_owned(), revision: 3, last: vec![CommandId(last)] }
}

#[test]
fn a_checkpoint_tells_which_command_had_the_last_effect() {
    for (by, failed, uncertain) in [(7, 1, 0), (8, 0, 1)] {
        let recovery = behind_a_checkpoint([standing(7), open(9)]);
        let standings = declared().into_iter().map(|declared| Standing { declared, kept: change(by, 3) });
        let app = recovery.start(config(), standings.collect()).unwrap();
        assert_eq!((app.totals().failed, app.totals().uncertain), (failed, uncertain), "kept of {by}");
    }
}

#[test]
fn an_id_from_before_a_checkpoint_may_be_forgotten() {
    let scene = Scene::new();
    let start = |recovery: Recovery| {
        let standings = declared().into_iter().map(|declared| Standing { declared, kept: Kept::Nothing });
        recovery.start(config(), standings.collect()).unwrap()
    };
    let command = scene.gain(4, 3.0);
    assert_eq!(answer(&mut start(Recovery::default()), &command), Some(Reply::NeverSeen));
    assert_eq!(answer(&mut start(behind_a_checkpoint([])), &command), Some(Reply::Forgotten));
}

#[test]
fn open_commands_keep_the_order_of_their_arrival_from_checkpoint_to_checkpoint() {
    let app: StreamName = "sim/engine".parse().unwrap();
    let recovery = behind_a_checkpoint([open(5), open(2), open(9)]);
    let next = recovery.checkpoint(&app, Head::beginning(&app));
    assert_eq!(next[1..], [open(5), open(2), open(9)]);
}

#[test]
fn both_sides_of_the_number_of_last_effects() {
    let app: StreamName = "sim/engine".parse().unwrap();
    let ids = 0..=MAX_LAST as u128;
    let uncertain = ids.clone().map(|id| outcome(id, Answer::Uncertain));
    let recovery = behind_a_checkpoint(ids.clone().map(open).chain(uncertain));
    let next = recovery.checkpoint(&app, Head::beginning(&app));
    let Record::Standing { last, .. } = &next[1] else { panic!("{next:?}") };
    assert_eq!(*last, ids.skip(1).map(CommandId).collect::<Vec<_>>(), "the newest");
}

#[test]
fn enough_is_known_with_as_many_ids_as_an_app_remembers() {
    let ids = 0..MAX_RECOVERED as u128;
    let mut recovery = behind_a_checkpoint(ids.clone().map(open));
    for id in ids {
        assert!(!recovery.knows_enough(), "{id}");
        recovery.record(&outcome(id, Answer::Superseded));
    }
    assert!(recovery.knows_enough());
}
