//! The guide to losses (`docs/guide/losses.md`) agrees with the table of causes.

use std::collections::BTreeSet;

use diagnose::{CAUSES, Cause, Settings};
use ledger::Stage;

const GUIDE: &str = include_str!("../../../../docs/guide/losses.md");

/// Returns the guide's section about a stage, in one line.
fn section(stage: Stage) -> String {
    let mut sections = GUIDE.split("\n## ");
    let text = sections.find_map(|section| section.strip_prefix(stage.name())?.strip_prefix('\n'));
    text.unwrap_or_else(|| panic!("the guide has no section {}", stage.name())).replace('\n', " ")
}

/// Returns what follows a mark (`Helps:`, `Undo:`) in a section.
fn after<'a>(section: &'a str, mark: &str) -> &'a str {
    section.split_once(mark).unwrap_or_else(|| panic!("no {mark} in {section}")).1
}

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the kernel's settings in a text, in code or not.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '.' | '_'));
    words.filter(|word| word.starts_with("net.") || word.starts_with("vm."))
}

fn stages() -> BTreeSet<Stage> {
    CAUSES.iter().map(|cause| cause.stage).collect()
}

/// Returns the stages of causes that have a sign; none for what is no sign.
fn stages_of(sign: &str) -> BTreeSet<Stage> {
    let (reason, function) = sign.split_once(" @ ").unwrap_or((sign, ""));
    let has = |cause: &Cause| {
        let counters = cause.counters.iter().map(|name| name.split_once('/').map_or(*name, |(name, _)| name));
        let mut names = counters.chain(cause.drivers.iter().flat_map(|(_, names)| *names).copied());
        cause.reasons.contains(&reason) || cause.functions.contains(&function) || names.any(|it| it == sign)
    };
    CAUSES.iter().filter(|cause| has(cause)).map(|cause| cause.stage).collect()
}

#[test]
fn every_command_and_setting_of_a_remedy_is_in_the_section_of_its_stage() {
    for cause in CAUSES {
        let section = section(cause.stage);
        for what in cause.remedies.iter().flat_map(|remedy| code(remedy).chain(settings(remedy))) {
            assert!(section.contains(what), "{}: `{what}` is not in\n{section}", cause.name);
        }
    }
}

#[test]
fn what_the_doctor_changes_is_in_the_guide_with_its_undo() {
    for (cause, change) in CAUSES.iter().filter_map(|cause| Some((cause, cause.change?))) {
        let command = change(&Settings::default()).command().expect("the doctor's changes are commands");
        let section = section(cause.stage);
        for setting in settings(&command) {
            let helps = after(&section, "Helps:");
            assert!(helps.contains(setting) && after(helps, "Undo:").contains(setting), "{setting}");
        }
    }
}

#[test]
fn the_guide_names_signs_in_the_section_of_their_stage_and_no_unknown_reasons() {
    for stage in stages() {
        let section = section(stage);
        for sign in code(&section) {
            let stages = stages_of(sign);
            assert!(stages.is_empty() || stages.contains(&stage), "`{sign}` in\n{section}");
        }
        let reasons = section.split("reason").skip(1).filter_map(|rest| rest.split('.').next());
        let reasons: Vec<&str> = reasons.flat_map(code).collect();
        for reason in &reasons {
            assert!(stages_of(reason).contains(&stage), "`{reason}` in\n{section}");
        }
        let has_reasons = CAUSES.iter().any(|cause| cause.stage == stage && !cause.reasons.is_empty());
        let is_named = !reasons.is_empty() || section.contains("`HOLE @");
        assert_eq!(is_named, has_reasons, "{}", stage.name());
    }
}
