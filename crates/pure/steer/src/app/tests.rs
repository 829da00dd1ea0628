//! One app, played by hand: what each command becomes, and that nothing is decided twice.

use core::time::Duration;

use access::Principal;
use sample::Dtype;
use units::Random;

use super::scene::{ADA, EVE, Scene, ms, refused};
use super::{Done, MAX_OUTSTANDING, MAX_REMEMBERED, Output, Question};
use crate::{Answer, Command, CommandId, Record, Reply, Rule, SessionId, Value};

#[test]
fn a_command_is_applied_at_a_step_boundary_with_its_sample_index() {
    let mut scene = Scene::new();
    assert_eq!(scene.send(scene.gain(1, 2.0)), [Answer::Accepted]);
    let answers = scene.apply_all(700);
    let [(CommandId(1), Answer::Applied(applied))] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((applied.index, applied.revision, applied.epoch.start_ns), (700, 1, 5));
    assert_eq!(applied.readback, Value::scalar(2.0));
    assert_eq!(scene.app.value("gain"), Some((&Value::scalar(2.0), 1)));
    assert_eq!(scene.app.totals().applied, 1);
}

#[test]
fn an_effect_waits_for_its_intent_and_an_answer_for_its_outcome() {
    let mut scene = Scene::new();
    scene.is_disk_stopped = true;
    assert_eq!(scene.send(scene.gain(1, 2.0)), [], "no answer without the intent on disk");
    assert_eq!(scene.step(1), []);
    scene.app.written(scene.records.len() as u64);
    let effects = scene.step(2);
    assert_eq!(effects.len(), 1);
    scene.app.done(CommandId(1), Done::Applied { readback: Value::scalar(2.0) }).unwrap();
    scene.poll();
    assert_eq!(scene.answers, [(CommandId(1), Answer::Accepted)], "no outcome before it is on disk");
    let command = scene.gain(1, 2.0);
    assert_eq!(scene.send(command.clone()), [Answer::Accepted], "the repeated command waits, too");
    assert_eq!(scene.ask(&command), None);
    scene.app.written(scene.records.len() as u64);
    scene.poll();
    assert!(matches!(scene.answers[..], [(_, Answer::Applied(_))]));
}

#[test]
fn the_same_id_has_the_same_answer_and_no_second_effect() {
    let mut scene = Scene::new();
    let command = scene.gain(1, 2.0);
    assert_eq!(scene.send(command.clone()), [Answer::Accepted]);
    assert_eq!(scene.send(command.clone()), [Answer::Accepted]);
    let (_, answer) = scene.apply_all(1).remove(0);
    assert_eq!(scene.send(command.clone()), vec![answer.clone()]);
    scene.now += ms(60_000);
    assert_eq!(scene.send(command.clone()), vec![answer.clone()], "also after its deadline");
    assert_eq!(scene.ask(&command), Some(Reply::Known(answer)));
    assert_eq!(scene.step(2), []);
    assert_eq!((scene.app.totals().received, scene.app.totals().repeated), (1, 3));
    let bad = scene.gain(2, 11.0);
    assert_eq!(scene.send(bad.clone()), refused(Rule::Range));
    assert_eq!(scene.send(bad), refused(Rule::Range), "a refused one, too");
    assert_eq!(scene.app.totals().refused, 1);
}

#[test]
fn the_same_id_with_another_value_is_refused_and_the_first_command_stands() {
    let mut scene = Scene::new();
    scene.send(scene.gain(1, 2.0));
    assert_eq!(scene.send(scene.gain(1, 3.0)), refused(Rule::IdReused));
    let answers = scene.apply_all(1);
    assert!(matches!(&answers[..], [(_, Answer::Applied(it))] if it.readback == Value::scalar(2.0)));
    assert_eq!(scene.send(scene.gain(1, 3.0)), refused(Rule::IdReused));
}

#[test]
fn bad_commands_are_refused_by_name_counted_and_logged() {
    let mut scene = Scene::new();
    type Change = fn(&mut Command);
    let cases: [(Rule, Change); 9] = [
        (Rule::NotFinite, |it| it.value = Value::scalar(f64::NAN)),
        (Rule::Range, |it| it.value = Value::scalar(10.5)),
        (Rule::Dtype, |it| it.value = Value::scalar(2.0_f32)),
        (Rule::Shape, |it| it.value = Value::from_bytes(Dtype::F8, &[1], &[0; 8]).unwrap()),
        (Rule::Parameter, |it| it.parameter = "gian".to_owned()),
        (Rule::Text, |it| it.reason = "é".repeat(200)),
        (Rule::Session, |it| it.session = SessionId(9)),
        (Rule::ReadOnly, |it| it.session = EVE),
        (Rule::Clock, |it| it.valid_until += Duration::from_secs(3_600)),
    ];
    for (number, (rule, change)) in cases.into_iter().enumerate() {
        let mut command = scene.gain(number as u128, 2.0);
        change(&mut command);
        let records = scene.records.len();
        assert_eq!(scene.send(command), refused(rule));
        assert_eq!(scene.app.totals().refused_by(rule), 1);
        assert!(matches!(&scene.records[records..], [Record::Attempt { .. }]));
    }
    assert_eq!(scene.app.totals().refused, 9);
    assert_eq!(scene.step(1), []);
}

#[test]
fn a_deadline_is_kept_to_the_nanosecond_and_a_wrong_clock_ends_a_session() {
    let mut scene = Scene::new();
    let nanosecond = Duration::from_nanos(1);
    let at = |scene: &Scene, id, deadline| Command { valid_until: deadline, ..scene.gain(id, 2.0) };
    let now = scene.now;
    assert_eq!(scene.send(at(&scene, 1, now - nanosecond)), [Answer::Expired]);
    assert_eq!(scene.send(at(&scene, 2, now - Duration::from_secs(3_600))), [Answer::Expired]);
    assert_eq!(scene.send(at(&scene, 3, now)), [Answer::Accepted]);
    assert_eq!(scene.send(at(&scene, 4, now + ms(2_000))), [Answer::Accepted]);
    scene.now += nanosecond;
    scene.app.tick(scene.now);
    scene.poll();
    assert_eq!(core::mem::take(&mut scene.answers), [(CommandId(3), Answer::Expired)]);
    let too_far = at(&scene, 5, scene.now + ms(2_000) + nanosecond);
    assert_eq!(scene.send(too_far.clone()), refused(Rule::Clock));
    scene.now += ms(1_000);
    assert_eq!(scene.send(too_far), refused(Rule::Clock), "its deadline would be near enough by now");
}

#[test]
fn a_later_command_supersedes_those_that_wait() {
    let mut scene = Scene::new();
    for id in 1..=3 {
        scene.send(scene.gain(id, id as f64));
    }
    let answers = scene.apply_all(1);
    let names: Vec<_> = answers.iter().map(|(id, answer)| (id.0, answer.name())).collect();
    assert_eq!(names, [(1, "superseded"), (2, "superseded"), (3, "applied")]);
}

#[test]
fn a_revision_and_a_step_are_judged_at_the_boundary() {
    let mut scene = Scene::new();
    let if_revision =
        |scene: &Scene, id, revision| Command { if_revision: Some(revision), ..scene.gain(id, 2.0) };
    scene.send(if_revision(&scene, 1, 0));
    assert!(matches!(scene.apply_all(1)[..], [(_, Answer::Applied(_))]));
    scene.send(if_revision(&scene, 2, 0));
    assert_eq!(scene.apply_all(2), [(CommandId(2), Answer::Refused { rule: Rule::Revision })]);
    let slow = |scene: &Scene, id, value| Command { parameter: "slow".to_owned(), ..scene.gain(id, value) };
    scene.send(slow(&scene, 3, 2.5));
    assert_eq!(scene.apply_all(3), [(CommandId(3), Answer::Refused { rule: Rule::Step })]);
    scene.send(slow(&scene, 4, 2.0));
    assert!(matches!(scene.apply_all(4)[..], [(_, Answer::Applied(_))]));
}

#[test]
fn what_the_app_cannot_tell_is_uncertain_and_raises_the_revision() {
    let mut scene = Scene::new();
    let slow = |scene: &Scene, id| Command { parameter: "slow".to_owned(), ..scene.gain(id, 2.0) };
    scene.send(slow(&scene, 1));
    assert_eq!(scene.step(1).len(), 1);
    assert_eq!(scene.step(2), [], "the app was silent until the next step");
    assert_eq!(core::mem::take(&mut scene.answers)[..], [(CommandId(1), Answer::Uncertain)]);
    assert!(scene.app.done(CommandId(1), Done::Unknown).is_err());
    assert_eq!(scene.app.value("slow").unwrap().1, 1);
    scene.send(slow(&scene, 2));
    assert_eq!(scene.apply_all(3), [(CommandId(2), Answer::Refused { rule: Rule::Unread })]);
    scene.app.read_back("slow", Value::scalar(2.0)).unwrap();
    scene.send(slow(&scene, 3));
    assert!(matches!(scene.apply_all(4)[..], [(_, Answer::Applied(_))]));
}

#[test]
fn an_effect_that_was_not_taken_has_failed() {
    let mut scene = Scene::new();
    scene.send(scene.gain(1, 2.0));
    scene.app.step(scene.now, 1);
    scene.app.step(scene.now, 2);
    scene.poll();
    assert!(matches!(&scene.answers[..], [(_, Answer::Failed { .. })]), "{:?}", scene.answers);
    assert_eq!(scene.app.poll_effect(), None);
}

#[test]
fn a_closed_session_has_no_more_effects() {
    let mut scene = Scene::new();
    scene.send(scene.gain(1, 2.0));
    scene.app.close(ADA);
    assert_eq!(scene.apply_all(1), [(CommandId(1), Answer::Refused { rule: Rule::Session })]);
    assert!(scene.app.open(ADA, Principal::anonymous()).is_err(), "a session is never opened twice");
}

#[test]
fn a_question_withdraws_a_command_that_did_not_arrive() {
    let mut scene = Scene::new();
    let command = scene.gain(1, 2.0);
    assert_eq!(scene.ask(&command), Some(Reply::NeverSeen));
    assert_eq!(scene.send(command.clone()), refused(Rule::Withdrawn));
    assert_eq!(scene.send(command.clone()), refused(Rule::Withdrawn));
    assert_eq!(scene.ask(&command), Some(Reply::Known(Answer::Refused { rule: Rule::Withdrawn })));
    let other = scene.gain(2, 2.0);
    let question = Question { id: other.id, session: ADA, valid_until: other.valid_until };
    assert_eq!(scene.app.ask(scene.now, EVE, &question), None, "another session withdraws nothing");
    assert_eq!(scene.send(other), [Answer::Accepted]);
}

#[test]
fn a_million_commands_outstanding_are_bounded_refused_as_full_and_counted() {
    let mut scene = Scene::new();
    scene.is_disk_stopped = true;
    let command = scene.gain(0, 2.0);
    let count = 1_000_000_u128;
    let mut fullness = 0;
    for id in 0..count {
        scene.app.command(scene.now, Command { id: CommandId(id), ..command.clone() });
        while let Some(output) = scene.app.poll() {
            match output {
                Output::Write { record, .. } => scene.records.push(record),
                Output::Answer { answer, .. } => {
                    assert_eq!(answer, Answer::Refused { rule: Rule::Full });
                    fullness += 1;
                }
            }
        }
        assert!(scene.app.remembered() <= MAX_OUTSTANDING, "refusals take no memory");
    }
    let full = scene.app.totals().refused_by(Rule::Full);
    assert_eq!(u128::from(full), count - MAX_OUTSTANDING as u128);
    assert_eq!(scene.records.len(), 1 + 8_192, "the beginning, and what may wait for the disk");
    scene.is_disk_stopped = false;
    scene.poll();
    let told = scene.records.iter().map(|record| match record {
        Record::Attempt { .. } => 1,
        Record::Omitted { refused } => refused.iter().map(|(_, count)| count).sum(),
        _ => 0,
    });
    assert_eq!(told.sum::<u64>(), full, "every refusal is in the log, singly or counted");
    assert!(fullness > 0);
    scene.answers.clear();
    assert_eq!(scene.apply_all(1).len(), MAX_OUTSTANDING);
}

#[test]
fn a_command_that_was_refused_as_full_is_not_accepted_when_it_is_repeated() {
    let mut scene = Scene::new();
    for id in 0..MAX_OUTSTANDING as u128 {
        scene.send(scene.gain(id, 2.0));
    }
    let late = scene.gain(5_000, 2.0);
    assert_eq!(scene.send(late.clone()), refused(Rule::Full));
    scene.apply_all(1);
    assert_eq!(scene.send(late), refused(Rule::Full));
    scene.now += Duration::from_nanos(1);
    assert_eq!(scene.send(scene.gain(5_001, 2.0)), [Answer::Accepted]);
}

#[test]
fn what_was_forgotten_is_neither_executed_again_nor_denied() {
    let mut scene = Scene::new();
    let first = scene.gain(0, 2.0);
    for id in 0..=MAX_REMEMBERED as u128 {
        let command = scene.gain(id, 2.0);
        assert_eq!(scene.send(command), [Answer::Accepted]);
        scene.apply_all(id as u64);
        scene.now += ms(1);
    }
    assert_eq!(scene.app.remembered(), MAX_REMEMBERED);
    assert_eq!(scene.ask(&first), Some(Reply::Forgotten));
    assert_eq!(scene.send(first), refused(Rule::Forgotten));
}

#[test]
fn the_law_holds_whatever_happens() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut scene = Scene::new();
        for index in 0..200 {
            let mut command = scene.gain(u128::from(random.below(60)), random.below(12) as f64);
            command.valid_until = scene.now + ms(random.below(2_050));
            command.if_revision = random.chance(0.2).then(|| random.below(5));
            if random.chance(0.3) {
                command.parameter = "slow".to_owned();
            }
            match random.below(6) {
                0..3 => scene.app.command(scene.now, command),
                3 => drop(scene.ask(&command)),
                4 => scene.now += ms(random.below(300)),
                _ => {
                    for effect in scene.step(index) {
                        let done = match random.below(4) {
                            0 => Done::Unknown,
                            1 => Done::Failed { reason: "broken".to_owned() },
                            _ => Done::Applied { readback: effect.value },
                        };
                        scene.app.done(effect.id, done).unwrap();
                    }
                }
            }
            scene.is_disk_stopped = random.chance(0.5);
            scene.poll();
            assert!(scene.app.totals().holds(), "seed {seed}");
        }
    }
}
