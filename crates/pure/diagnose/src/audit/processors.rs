//! Processors that are reserved for readers, and interrupts that disturb them there.

use std::collections::BTreeSet;

use super::{Check, Facts, Interface, Judgement};
use crate::Remedy;

/// Processors of a host, by their numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Processors {
    /// Processors that are online.
    pub online: BTreeSet<u32>,
    /// Processors without tasks except those pinned to them (`isolcpus=`).
    pub isolated: BTreeSet<u32>,
    /// Processors without a regular tick (`nohz_full=`).
    pub without_ticks: BTreeSet<u32>,
}

/// Interrupt of a card.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interrupt {
    /// Number of the interrupt.
    pub number: u32,
    /// Processors that may handle it.
    pub allowed: BTreeSet<u32>,
    /// Processors that handle it.
    pub taken_by: BTreeSet<u32>,
}

pub(super) fn isolation(facts: &Facts) -> Vec<Check> {
    const CHECK: &str = "processor-isolation";
    let Some(processors) = &facts.processors else {
        return vec![Check::not_seen(CHECK, "/sys/devices/system/cpu cannot be read here")];
    };
    let Processors { online, isolated, without_ticks } = processors;
    let words = |what: &str, set: &BTreeSet<u32>| match set.is_empty() {
        true => format!("none {what}"),
        false => format!("{} {what}", list(set)),
    };
    let live = format!(
        "{}: {}, {}",
        list(online),
        words("isolated", isolated),
        words("without ticks", without_ticks)
    );
    let why = "a reader that is pinned to an isolated processor waits for no other program; this is for streams with strict deadlines";
    vec![Check::new(CHECK, Judgement::Ok, live, why)]
}

pub(super) fn interrupts(facts: &Facts) -> Vec<Check> {
    let Some(processors) = &facts.processors else { return Vec::new() };
    let outside = || facts.interfaces.iter().filter(|it| !it.is_loopback);
    let unseen: Vec<&str> =
        outside().filter(|it| it.interrupts.is_none()).map(|it| it.name.as_str()).collect();
    let why =
        format!("the processors that handle the interrupts of {} cannot be seen here", unseen.join(", "));
    let not_seen = (!unseen.is_empty()).then(|| Check::not_seen(CHECK, &why));
    outside().filter_map(|it| of_interface(it, processors)).chain(not_seen).collect()
}

const CHECK: &str = "interrupt-affinity";

/// Checks the interrupts of an interface; virtual ones have none, and no check.
fn of_interface(interface: &Interface, processors: &Processors) -> Option<Check> {
    let interrupts = interface.interrupts.as_ref().filter(|it| !it.is_empty())?;
    let taken_by: BTreeSet<u32> = interrupts.iter().flat_map(|it| &it.taken_by).copied().collect();
    let live = format!("{}: interrupts on {}", interface.name, list(&taken_by));
    let why = "an isolated processor that handles a card's interrupts is disturbed by every packet, also those for others";
    let is_wrong = |it: &&Interrupt| !it.taken_by.is_disjoint(&processors.isolated);
    let wrong: Vec<&Interrupt> = interrupts.iter().filter(is_wrong).collect();
    if wrong.is_empty() {
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let live = format!("{live}, of which {} are isolated", list(&(&taken_by & &processors.isolated)));
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    let others = &processors.online - &processors.isolated;
    if others.is_empty() {
        let remedy =
            Remedy::by_hand("leave a processor for the rest of the host (kernel parameter `isolcpus=`)");
        return Some(check.recommending("another processor", [remedy]));
    }
    let set = |to: &dyn Fn(&Interrupt) -> String| {
        let each =
            wrong.iter().map(|it| format!("echo {} > /proc/irq/{}/smp_affinity_list", to(it), it.number));
        each.collect::<Vec<_>>().join("; ")
    };
    let remedy = Remedy::by_command(
        "let the other processors handle them (`irqbalance`, where it runs, may choose again)",
        set(&|_| list(&others)),
        set(&|it| list(&it.allowed)),
    );
    Some(check.recommending(format!("on {}", list(&others)), [remedy]))
}

/// Returns numbers as the kernel lists them: `0-3,8`.
fn list(set: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in set {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let words = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(isolated: &[u32], interrupts: Option<Vec<Interrupt>>) -> Facts {
        let set = |numbers: &[u32]| numbers.iter().copied().collect::<BTreeSet<u32>>();
        let processors =
            Processors { online: set(&[0, 1, 2, 3]), isolated: set(isolated), ..Processors::default() };
        let interface = Interface { name: "eth0".to_owned(), interrupts, ..Interface::default() };
        Facts { processors: Some(processors), interfaces: vec![interface], ..Facts::default() }
    }

    fn interrupt(number: u32, taken_by: u32) -> Interrupt {
        Interrupt { number, allowed: [0, 1, 2, 3].into(), taken_by: [taken_by].into() }
    }

    #[test]
    fn processors_are_reported_and_never_wrong() {
        let check = |isolated: &[u32]| isolation(&facts(isolated, None)).remove(0);
        assert_eq!(check(&[]).live, "0-3: none isolated, none without ticks");
        assert_eq!(check(&[1, 3]).live, "0-3: 1,3 isolated, none without ticks");
        assert_eq!(check(&[1]).judgement, Judgement::Ok);
        assert_eq!(isolation(&Facts::default())[0].judgement, Judgement::NotSeen);
    }

    #[test]
    fn interrupts_do_not_belong_on_isolated_processors() {
        let judge = |isolated: &[u32]| {
            interrupts(&facts(isolated, Some(vec![interrupt(24, 1), interrupt(25, 2)]))).remove(0)
        };
        assert_eq!((judge(&[]).judgement, judge(&[3]).judgement), (Judgement::Ok, Judgement::Ok));
        let check = judge(&[2, 3]);
        assert_eq!(check.judgement, Judgement::Warn);
        assert_eq!(check.live, "eth0: interrupts on 1-2, of which 2 are isolated");
        assert_eq!(check.remedies[0].command().as_deref(), Some("echo 0-1 > /proc/irq/25/smp_affinity_list"));
        assert_eq!(check.remedies[0].undo().as_deref(), Some("echo 0-3 > /proc/irq/25/smp_affinity_list"));
        let both = judge(&[1, 2, 3]);
        assert_eq!(both.remedies[0].command().map(|it| it.matches("echo 0 >").count()), Some(2));
        assert_eq!(judge(&[0, 1, 2, 3]).remedies[0].command(), None, "no processor is left");
    }

    #[test]
    fn cards_without_interrupts_are_not_reported_and_unseen_ones_once() {
        assert_eq!(interrupts(&facts(&[], Some(vec![]))), []);
        let checks = interrupts(&facts(&[], None));
        assert_eq!((checks.len(), checks[0].judgement), (1, Judgement::NotSeen));
    }

    #[test]
    fn numbers_in_a_row_are_one_run() {
        let list = |numbers: &[u32]| list(&numbers.iter().copied().collect());
        assert_eq!([list(&[]), list(&[7]), list(&[0, 1, 3, 8, 9])], ["", "7", "0-1,3,8-9"]);
    }
}
