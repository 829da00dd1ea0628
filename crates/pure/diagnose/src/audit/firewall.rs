//! Firewalls: chains with rules, and rules that have dropped packets.
//!
//! Rules are no fault as such, and are only listed. A rule that drops and has counted packets may have dropped a
//! stream; if it matches UDP it has dropped datagrams.

use super::{Check, Facts, Judgement};
use crate::Remedy;

/// Visible part of the firewall of this network namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Firewall {
    /// Chains of nftables, including those written by `iptables`; `None` where they cannot be listed.
    pub chains: Option<Vec<Chain>>,
    /// Tables of the older iptables, whose rules cannot be seen here; `None` where they cannot be listed.
    pub older_tables: Option<Vec<String>>,
    /// Reason why chains cannot be listed.
    pub unseen: String,
}

/// Chain of rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// Family, table and name, as `nft` takes them.
    pub name: String,
    /// Hook of the chain, such as `input`; `None` if only other chains jump to it.
    pub hook: Option<String>,
    /// True if its policy drops packets that no rule accepts.
    pub drops_the_rest: bool,
    /// Number of rules.
    pub rules: u64,
    /// Rules that drop or reject, and may match UDP.
    pub drops: Vec<DropRule>,
}

/// Rule that drops or rejects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DropRule {
    /// Handle of the rule, as in `nft -a`.
    pub handle: u64,
    /// True if it matches UDP explicitly.
    pub names_udp: bool,
    /// Number of packets it matched, if it counts.
    pub packets: Option<u64>,
}

const CHECK: &str = "firewall";

pub(super) fn firewall(facts: &Facts) -> Vec<Check> {
    let Firewall { chains, older_tables, unseen } = &facts.firewall;
    let older = older_tables.as_deref().filter(|tables| !tables.is_empty()).map(older);
    let Some(chains) = chains else {
        let why = if unseen.is_empty() { "rules cannot be listed here" } else { unseen };
        return [Check::not_seen(CHECK, why)].into_iter().chain(older).collect();
    };
    let counted = chains.iter().flat_map(|chain| chain.drops.iter().filter_map(|rule| counted(chain, *rule)));
    [summary(chains)].into_iter().chain(counted).chain(older).collect()
}

fn summary(chains: &[Chain]) -> Check {
    let why =
        "packets that a rule drops are lost silently, unless the rule counts; rules as such are no fault";
    let rules: u64 = chains.iter().map(|chain| chain.rules).sum();
    let uncounted = chains.iter().flat_map(|it| &it.drops).filter(|rule| rule.packets.is_none()).count();
    let hooked = chains.iter().filter_map(|chain| {
        let rest = if chain.drops_the_rest { ", drops the rest" } else { "" };
        Some(format!("{}: {}{rest}", chain.hook.as_ref()?, in_words(chain.rules)))
    });
    let hooked: Vec<String> = hooked.collect();
    let live = match (rules, hooked.is_empty()) {
        (0, true) => "no rules".to_owned(),
        (_, true) => format!("{}, without a hook for packets", in_words(rules)),
        _ => hooked.join("; "),
    };
    let live = match uncounted {
        0 => live,
        count => format!("{live}; {count} that drop and do not count"),
    };
    Check::new(CHECK, Judgement::Ok, live, why)
}

fn in_words(rules: u64) -> String {
    if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") }
}

fn counted(chain: &Chain, rule: DropRule) -> Option<Check> {
    let packets = rule.packets.filter(|count| *count > 0)?;
    let DropRule { handle, names_udp, .. } = rule;
    let (judgement, what) =
        if names_udp { (Judgement::Fail, "UDP packets") } else { (Judgement::Warn, "packets of any kind") };
    let live = format!("{}, rule {handle}: {packets} {what} dropped", chain.name);
    let why = "a rule that drops has counted: if these were streams, they were lost here and no counter of UDP moved";
    let look = Remedy::by_hand(&format!(
        "see what it takes (nft -a list chain {0}), and let streams by before it: nft insert rule {0} udp dport PORT accept (undo: nft delete rule {0} handle NUMBER)",
        chain.name
    ));
    Some(Check::new(CHECK, judgement, live, why).recommending("streams pass before it", [look]))
}

fn older(tables: &[String]) -> Check {
    let live = format!("tables of iptables: {}", tables.join(", "));
    let why = "their rules are not listed here; `iptables-legacy-save -c` shows them with what they counted";
    Check::new(CHECK, Judgement::NotSeen, live, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(drops: &[(bool, Option<u64>)]) -> Chain {
        let rule = |(index, &(names_udp, packets)): (usize, &(bool, Option<u64>))| DropRule {
            handle: 4 + index as u64,
            names_udp,
            packets,
        };
        Chain {
            name: "inet filter input".to_owned(),
            hook: Some("input".to_owned()),
            drops_the_rest: true,
            rules: 3,
            drops: drops.iter().enumerate().map(rule).collect(),
        }
    }

    fn judged(chains: Option<Vec<Chain>>, tables: Option<&[&str]>) -> Vec<(Judgement, String)> {
        let older_tables = tables.map(|tables| tables.iter().map(|it| (*it).to_owned()).collect());
        let firewall = Firewall { chains, older_tables, unseen: "only root may list rules".to_owned() };
        let checks = self::firewall(&Facts { firewall, ..Facts::default() });
        checks.into_iter().map(|it| (it.judgement, it.live)).collect()
    }

    #[test]
    fn that_there_are_rules_is_nothing_wrong() {
        let ok = |words: &str| vec![(Judgement::Ok, words.to_owned())];
        assert_eq!(judged(Some(vec![]), Some(&[])), ok("no rules"));
        assert_eq!(judged(Some(vec![chain(&[])]), None), ok("input: 3 rules, drops the rest"));
        let one = Chain { rules: 1, drops_the_rest: false, ..chain(&[]) };
        assert_eq!(judged(Some(vec![one]), None), ok("input: 1 rule"));
        let inner = Chain { hook: None, drops_the_rest: false, ..chain(&[]) };
        assert_eq!(judged(Some(vec![inner]), None), ok("3 rules, without a hook for packets"));
        let silent = judged(Some(vec![chain(&[(true, None), (true, Some(0))])]), None);
        assert_eq!(silent, ok("input: 3 rules, drops the rest; 1 that drop and do not count"));
    }

    #[test]
    fn a_rule_that_counted_drops_is_named() {
        let checks = judged(Some(vec![chain(&[(true, Some(1)), (false, Some(2))])]), None);
        let expected = [
            (Judgement::Fail, "inet filter input, rule 4: 1 UDP packets dropped".to_owned()),
            (Judgement::Warn, "inet filter input, rule 5: 2 packets of any kind dropped".to_owned()),
        ];
        assert_eq!(checks[1..], expected);
    }

    #[test]
    fn what_cannot_be_listed_is_not_seen() {
        assert_eq!(judged(None, None), [(Judgement::NotSeen, "?".to_owned())]);
        let tables = "tables of iptables: filter, nat".to_owned();
        assert_eq!(judged(Some(vec![]), Some(&["filter", "nat"]))[1], (Judgement::NotSeen, tables));
    }
}
