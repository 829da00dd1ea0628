//! Comparison of the doctor's report with what was planted.

use std::collections::BTreeSet;

use ledger::Stage;
use serde_json::{Value, json};

use crate::classes::{Class, Sight};
use crate::remedy::Remedied;
use crate::scene::Version;
use crate::traffic::Planted;
use crate::watch::Told;

/// A class as planted, and as reported.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) is_ok: bool,
    class: &'static str,
    version: Version,
    planted: usize,
    stage_expected: Option<Stage>,
    /// Stages that the doctor reported: one, if it is right.
    stages: Vec<String>,
    named: usize,
    not_observed: u64,
    faults: Vec<String>,
    evidence: Vec<(String, u64)>,
    notes: Vec<String>,
    /// Result of the remedy, for a row about `doctor fix`.
    remedied: Option<Remedied>,
}

/// Header of the table.
pub(crate) const HEAD: &str =
    "class                       IP   planted   named  not observed  stage                    verdict";

/// Compares the planted losses with the reported ones.
pub(crate) fn judge(
    class: &'static Class,
    version: Version,
    planted: &Planted,
    told: &Told,
    nobody: bool,
) -> Row {
    let mut faults = Vec::new();
    let missing = &planted.missing;
    if missing.is_empty() != class.stages.is_empty() {
        faults.push(format!("{} were planted", missing.len()));
    }
    let at_stage = class.stages.iter().flat_map(|stage| told.at(*stage)).collect::<BTreeSet<u64>>();
    let named = missing.intersection(&at_stage).count();
    let everything: BTreeSet<u64> = told.named.values().flatten().copied().collect();
    let arrived = everything.difference(missing).count();
    if arrived > 0 {
        faults.push(format!("{arrived} are named that arrived"));
    }
    let elsewhere = everything.difference(&at_stage).filter(|number| missing.contains(number)).count();
    if elsewhere > 0 {
        faults.push(format!("{elsewhere} are named at another stage"));
    }
    let rest = (missing.len() - named) as u64;
    let counted: u64 = class.stages.iter().filter_map(|stage| told.counted.get(stage.name())).sum();
    let stages: Vec<String> = told.counted.keys().cloned().collect();
    let expected: Vec<&str> = class.stages.iter().map(|stage| stage.name()).collect();
    let other = stages.iter().filter(|stage| !expected.contains(&stage.as_str())).count();
    if other > 0 {
        faults.push("another stage is told".to_owned());
    }
    if let Some(counter) =
        class.counter.filter(|counter| !missing.is_empty() && told.by_counter(counter) == 0)
    {
        faults.push(format!("`{counter}` is not among the evidence"));
    }
    match (class.sight, nobody) {
        // Each by its number; the rest must be reported as not observed. Events for which the hook had no room are
        // part of that, unless their count was attributed elsewhere (a busy host's backlog).
        (Sight::Numbers, false)
            if rest > 0
                && (told.not_observed > rest + planted.markers
                    || told.not_observed + told.unreported < rest) =>
        {
            faults.push(unsaid(rest, told));
        }
        // A counter of the whole host may include other losses, too.
        (Sight::Numbers, true) if class.is_of_whole_host && counted >= missing.len() as u64 => {}
        (Sight::Numbers, true)
            if !(missing.len() as u64..=missing.len() as u64 + planted.markers).contains(&counted) =>
        {
            faults.push(format!("{counted} are counted"));
        }
        (Sight::Unnumbered, _) if counted != missing.len() as u64 => {
            faults.push(format!("{counted} are counted"));
        }
        // Losses without an event are in the count of trains, from which the doctor cannot derive a number of datagrams.
        (Sight::Trains(counter), false)
            if rest > 0 && told.by_counter(counter) * 8 < missing.len() as u64 =>
        {
            faults.push(format!("{rest} are not named, and {} trains are counted", told.by_counter(counter)));
        }
        // No counter shows them: the doctor can report only the events for which it had no room.
        (Sight::NoCounter, false) if rest > 0 && told.not_observed + told.unreported < rest => {
            faults.push(unsaid(rest, told));
        }
        _ => {}
    }
    Row {
        is_ok: faults.is_empty(),
        class: class.name,
        version,
        planted: missing.len(),
        stage_expected: class.stages.first().copied(),
        stages,
        named,
        not_observed: rest,
        faults,
        evidence: told.evidence.iter().map(|(name, count)| (name.clone(), *count)).collect(),
        notes: planted.notes.clone(),
        remedied: None,
    }
}

fn unsaid(rest: u64, told: &Told) -> String {
    let Told { not_observed, unreported, .. } = told;
    format!(
        "{rest} are not named, {not_observed} are said not to be observed, and for {unreported} there was no room"
    )
}

impl Row {
    /// Returns the row of a class that could not be planted.
    pub(crate) fn failed(class: &'static Class, version: Version, error: &anyhow::Error) -> Self {
        let nothing = judge(class, version, &Planted::default(), &Told::default(), false);
        Self { is_ok: false, faults: vec![format!("{error:#}")], ..nothing }
    }

    /// Returns the row of a remedy by `doctor fix`.
    pub(crate) fn of_remedy(class: &'static Class, version: Version, mut remedied: Remedied) -> Self {
        let stage = class.stages.last().copied();
        let faults = std::mem::take(&mut remedied.faults);
        Self {
            is_ok: faults.is_empty(),
            planted: usize::try_from(remedied.before).unwrap_or(usize::MAX),
            stage_expected: stage,
            stages: stage.map(|stage| stage.name().to_owned()).into_iter().collect(),
            faults,
            notes: vec![std::mem::take(&mut remedied.note)],
            remedied: Some(remedied),
            ..judge(class, version, &Planted::default(), &Told::default(), false)
        }
    }

    /// Returns the row of a class that `doctor fix` could not remedy.
    pub(crate) fn remedy_failed(class: &'static Class, version: Version, error: &anyhow::Error) -> Self {
        let faults = vec![format!("{error:#}")];
        Self::of_remedy(class, version, Remedied { faults, ..Remedied::default() })
    }

    /// Returns the row as an object.
    pub(crate) fn json(&self) -> Value {
        let stage_expected = self.stage_expected.map(Stage::name);
        let evidence: serde_json::Map<String, Value> =
            self.evidence.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
        let remedied = self.remedied.as_ref();
        json!({
            "kind": if remedied.is_some() { "cure" } else { "loss" },
            "class": self.class,
            "version": self.version_number(),
            "planted": self.planted,
            "stage_expected": stage_expected,
            "stage": self.stages.join(" "),
            "named": self.named,
            "not_observed": self.not_observed,
            "ok": self.is_ok,
            "faults": self.faults,
            "evidence": evidence,
            "notes": self.notes,
            "before": remedied.map(|it| it.before),
            "after": remedied.map(|it| it.after),
            "undone": remedied.map(|it| it.is_undone),
        })
    }

    /// Returns the row as a line of the table.
    pub(crate) fn text(&self) -> String {
        let verdict = if self.is_ok { "ok".to_owned() } else { self.faults.join("; ") };
        let (stages, notes) = (self.stages.join(" "), self.notes.join(", "));
        let stages = if stages.is_empty() { "-" } else { &stages };
        if let Some(Remedied { before, after, .. }) = self.remedied {
            let (class, version) = (format!("{} remedied", self.class), self.version_number());
            let counts = format!("{before} before, {after} after");
            return format!("{class:<28}v{version}  {counts:>29}  {stages:<24} {verdict} {notes}");
        }
        format!(
            "{:<28}v{}  {:>7} {:>7} {:>13}  {:<24} {verdict} {notes}",
            self.class,
            self.version_number(),
            self.planted,
            self.named,
            self.not_observed,
            stages,
        )
    }

    /// Returns the failure of a row in one line, for a log of which only the end is kept; `None` if the row is
    /// fine.
    pub(crate) fn failure(&self, nobody: bool) -> Option<String> {
        let Self { class, planted, named, faults, evidence, remedied, .. } = self;
        let what = if remedied.is_some() { " remedied" } else { "" };
        let whose = if nobody { " as nobody" } else { "" };
        let evidence: Vec<String> = evidence.iter().map(|(name, rise)| format!("{name} {rise}")).collect();
        let told = [("told at", self.stages.join(" ")), ("by", evidence.join(", "))];
        let told = told.iter().filter(|(_, it)| !it.is_empty()).map(|(how, it)| format!(", {how} {it}"));
        let told: String = told.collect();
        (!self.is_ok).then(|| {
            let (version, faults) = (self.version_number(), faults.join("; "));
            format!("{class}{what} v{version}{whose}: {faults} ({planted} planted, {named} named{told})")
        })
    }

    const fn version_number(&self) -> u8 {
        match self.version {
            Version::V4 => 4,
            Version::V6 => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::CLASSES;

    fn judged(class: &str, missing: std::ops::Range<u64>, told: &Told, nobody: bool) -> Row {
        let class = CLASSES.iter().find(|it| it.name == class).unwrap();
        let planted = Planted { missing: missing.collect(), ..Planted::default() };
        judge(class, Version::V4, &planted, told, nobody)
    }

    fn told(stage: &str, named: std::ops::Range<u64>, counted: u64, not_observed: u64) -> Told {
        Told {
            named: [(stage.to_owned(), named.collect())].into(),
            counted: [(stage.to_owned(), counted)].into(),
            not_observed,
            ..Told::default()
        }
    }

    #[test]
    fn what_is_missing_must_be_named_where_it_was_planted() {
        let ok = |missing, told| judged("receive_buffer", missing, &told, false).is_ok;
        assert!(ok(0..9, told("receiver_socket_buffer", 0..9, 9, 0)));
        assert!(ok(0..9, told("receiver_socket_buffer", 0..7, 9, 2)), "the rest is said");
        assert!(!ok(0..9, told("receiver_socket_buffer", 0..7, 9, 0)), "and must be");
        let no_room = Told { unreported: 2, ..told("receiver_socket_buffer", 0..7, 9, 2) };
        assert!(ok(0..9, no_room), "why it was not observed counts nothing twice");
        let no_room = |unreported| Told { unreported, ..told("receiver_socket_buffer", 0..7, 7, 0) };
        assert!(ok(0..9, no_room(2)) && !ok(0..9, no_room(1)), "it says so where the counter is another's");
        assert!(!ok(0..9, told("receiver_socket_buffer", 0..7, 9, 3)), "no more than there were");
        assert!(!ok(0..9, told("receiver_socket_buffer", 0..10, 10, 0)), "one that arrived");
        assert!(!ok(0..9, told("receiver_no_socket", 0..9, 9, 0)), "another stage");
        assert!(!ok(0..9, Told::default()), "nothing");
    }

    #[test]
    fn of_what_no_counter_has_the_hook_says_what_it_had_no_room_for() {
        let ok = |unreported| {
            let told = Told { unreported, ..told("receiver_hook", 0..7, 7, 0) };
            judged("firewall_in", 0..9, &told, false).is_ok
        };
        assert!(ok(2) && !ok(1));
    }

    #[test]
    fn trains_that_are_not_named_are_counted() {
        let ok = |trains| {
            let evidence = [("UdpNoPorts".to_owned(), trains)].into();
            let told = Told { evidence, ..told("receiver_no_socket", 0..8, 8, 0) };
            judged("no_socket_train", 0..16, &told, false).is_ok
        };
        assert!(ok(2) && !ok(1));
    }

    #[test]
    fn what_a_counter_must_tell_is_missed() {
        let ok = |name: &str| {
            let evidence = [(name.to_owned(), 9)].into();
            let told = Told { evidence, ..told("receiver_hook", 0..9, 9, 0) };
            judged("xdp_driver", 0..9, &told, false).is_ok
        };
        assert!(ok("ethtool:rx_queue_0_xdp_drops/eth0") && !ok("NOT_SPECIFIED @ veth_xdp_rcv_skb"));
    }

    #[test]
    fn a_user_without_privilege_is_told_how_many() {
        let ok = |told| judged("receive_buffer", 0..9, &told, true).is_ok;
        assert!(ok(told("receiver_socket_buffer", 0..0, 9, 0)));
        assert!(!ok(told("receiver_socket_buffer", 0..0, 8, 0)));
    }

    #[test]
    fn a_row_that_failed_tells_itself_in_one_line() {
        let evidence = [("UdpInErrors".to_owned(), 8)].into();
        let eight = Told { evidence, ..told("receiver_socket_buffer", 0..0, 8, 0) };
        let row = judged("receive_buffer", 0..9, &eight, true);
        let expected = "receive_buffer v4 as nobody: 8 are counted (9 planted, 0 named, told at receiver_socket_buffer, by UdpInErrors 8)";
        assert_eq!(row.failure(true).as_deref(), Some(expected));
        assert_eq!(judged("control", 0..0, &Told::default(), false).failure(false), None);
        let class = CLASSES.iter().find(|it| it.name == "control").unwrap();
        let row = Row::remedy_failed(class, Version::V6, &anyhow::anyhow!("nothing helped"));
        let expected = "control remedied v6: nothing helped (0 planted, 0 named)";
        assert_eq!(row.failure(false).as_deref(), Some(expected));
    }

    #[test]
    fn without_loss_nothing_may_be_told() {
        assert!(judged("control", 0..0, &Told::default(), false).is_ok);
        assert!(!judged("control", 0..0, &told("receiver_no_socket", 0..0, 1, 0), false).is_ok);
    }
}
