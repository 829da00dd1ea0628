//! Rules of the firewall, as `nft` lists them for root; listing them changes nothing.
//!
//! Users may not list rules. The program is called by its path, since root calls it, and only if the kernel's part is
//! loaded already: the call would load it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use diagnose::audit::{Chain, DropRule, Firewall};
use serde_json::Value;

/// Paths of the program in distributions.
const PROGRAMS: [&str; 3] = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"];

pub(super) fn firewall() -> Firewall {
    let older_tables = fs::read_to_string("/proc/self/net/ip_tables_names").ok();
    let older_tables = older_tables.map(|text| text.lines().map(str::to_owned).collect());
    let (chains, unseen) = match chains() {
        Ok(chains) => (Some(chains), String::new()),
        Err(why) => (None, why.to_owned()),
    };
    Firewall { chains, older_tables, unseen }
}

fn chains() -> Result<Vec<Chain>, &'static str> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root may list rules: sudo tallycast doctor audit");
    }
    if !is_loaded() {
        return Ok(Vec::new());
    }
    let program = PROGRAMS.iter().find(|path| Path::new(path).exists()).ok_or("`nft` is not installed")?;
    // Without the contents of sets, which may be large.
    let output = Command::new(program)
        .args(["--json", "--terse", "list", "ruleset"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success());
    let text =
        output.ok_or("`nft list ruleset` failed: the right to see rules is missing (CAP_NET_ADMIN)")?;
    read_rules(&text.stdout).ok_or("the output of `nft` has an unknown format")
}

/// Returns whether the kernel has nftables now; a module that is not loaded has no rules.
fn is_loaded() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = fs::read_dir(format!("/lib/modules/{}/kernel/net/netfilter", release.trim()));
    let names = modules.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_module = names.into_iter().any(|name| name.to_string_lossy().starts_with("nf_tables.ko"));
    let loaded = fs::read_to_string("/proc/modules").unwrap_or_default();
    !is_module || loaded.lines().any(|line| line.starts_with("nf_tables "))
}

/// Parses the output of `nft --json list ruleset` (`libnftables-json(5)`); `None` if it is no such list.
pub fn read_rules(text: &[u8]) -> Option<Vec<Chain>> {
    let list: Value = serde_json::from_slice(text).ok()?;
    let objects = list["nftables"].as_array()?;
    let mut chains: Vec<Chain> = objects.iter().filter_map(|it| read_chain(&it["chain"])).collect();
    for rule in objects.iter().map(|it| &it["rule"]).filter(|rule| rule.is_object()) {
        let name = name_of(rule, "chain");
        let Some(chain) = chains.iter_mut().find(|chain| Some(&chain.name) == name.as_ref()) else {
            continue;
        };
        chain.rules += 1;
        chain.drops.extend(read_drop(rule));
    }
    Some(chains)
}

fn read_chain(value: &Value) -> Option<Chain> {
    Some(Chain {
        name: name_of(value, "name")?,
        hook: value["hook"].as_str().map(str::to_owned),
        drops_the_rest: value["policy"] == "drop",
        rules: 0,
        drops: Vec::new(),
    })
}

/// Returns family, table and chain, as `nft` takes them.
fn name_of(value: &Value, chain: &str) -> Option<String> {
    let word = |name: &str| value[name].as_str();
    Some(format!("{} {} {}", word("family")?, word("table")?, word(chain)?))
}

/// Parses a rule that drops or rejects and may match UDP.
fn read_drop(rule: &Value) -> Option<DropRule> {
    let statements = rule["expr"].as_array()?;
    let has = |name: &str| statements.iter().find_map(|statement| statement.get(name));
    has("drop").or_else(|| has("reject"))?;
    let about: Vec<About> = statements.iter().map(|statement| about(&statement["match"])).collect();
    if about.contains(&About::Another) {
        return None;
    }
    Some(DropRule {
        handle: rule["handle"].as_u64()?,
        names_udp: about.contains(&About::Udp),
        packets: has("counter").and_then(|counter| counter["packets"].as_u64()),
    })
}

/// Relation of a condition to UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    Udp,
    Another,
    Anything,
}

fn about(condition: &Value) -> About {
    const OTHERS: [&str; 9] = ["tcp", "icmp", "icmpv6", "igmp", "sctp", "dccp", "esp", "ah", "comp"];
    let (left, right) = (&condition["left"], &condition["right"]);
    let (protocol, field) = (left["payload"]["protocol"].as_str(), left["payload"]["field"].as_str());
    let is_number = left["meta"]["key"] == "l4proto" || matches!(field, Some("protocol" | "nexthdr"));
    if condition["op"] == "!=" {
        return About::Anything;
    }
    match protocol {
        Some("udp" | "udplite") => About::Udp,
        Some(other) if OTHERS.contains(&other) => About::Another,
        _ if is_number && names(right, "udp") => About::Udp,
        _ if is_number && is_list(right) => About::Another,
        _ => About::Anything,
    }
}

/// Returns whether a value is complete: the name of a set is not.
fn is_list(value: &Value) -> bool {
    value["set"].is_array() || value.as_str().is_some_and(|word| !word.starts_with('@'))
}

/// Returns whether a value is this word, or a set that has it.
fn names(value: &Value, word: &str) -> bool {
    value == word || value["set"].as_array().is_some_and(|set| set.iter().any(|it| it == word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    /// Output of nft 1.0.6.
    const RULES: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
        {"table": {"family": "inet", "name": "filter", "handle": 1}},
        {"chain": {"family": "inet", "table": "filter", "name": "input", "handle": 1, "type": "filter", "hook": "input", "prio": 0, "policy": "drop"}},
        {"chain": {"family": "inet", "table": "filter", "name": "other", "handle": 6}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 2, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 5004}}, {"counter": {"packets": 7, "bytes": 900}}, {"drop": null}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 3, "expr": [{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}, {"counter": {"packets": 1, "bytes": 60}}, {"reject": {"type": "icmpx", "expr": "port-unreachable"}}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "input", "handle": 5, "expr": [{"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": {"set": ["tcp", "udp"]}}}, {"counter": {"packets": 9, "bytes": 60}}, {"accept": null}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "other", "handle": 7, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "protocol"}}, "right": "udp"}}, {"drop": null}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "other", "handle": 8, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "10.0.0.1"}}, {"counter": {"packets": 2, "bytes": 60}}, {"drop": null}]}}]}"#;

    #[test]
    fn rules_are_counted_and_those_that_drop_are_reported() {
        let chains = read_rules(RULES.as_bytes()).unwrap();
        let [input, other] = &chains[..] else { panic!("{chains:?}") };
        assert_eq!((input.name.as_str(), input.hook.as_deref()), ("inet filter input", Some("input")));
        assert_eq!(
            (input.drops_the_rest, input.rules, other.drops_the_rest, other.rules),
            (true, 3, false, 2)
        );
        assert_eq!(input.drops, [DropRule { handle: 2, names_udp: true, packets: Some(7) }]);
        let expected = [
            DropRule { handle: 7, names_udp: true, packets: None },
            DropRule { handle: 8, names_udp: false, packets: Some(2) },
        ];
        assert_eq!((other.hook.as_ref(), &other.drops[..]), (None, &expected[..]));
    }

    #[test]
    fn a_condition_is_about_udp_about_another_or_about_anything() {
        let about = |text: &str| about(&serde_json::from_str(text).unwrap());
        let number = |op: &str, right: &str| {
            about(&format!(r#"{{"op": "{op}", "left": {{"meta": {{"key": "l4proto"}}}}, "right": {right}}}"#))
        };
        assert_eq!(number("==", "\"udp\""), About::Udp);
        assert_eq!(number("==", "{\"set\": [\"tcp\", \"udp\"]}"), About::Udp);
        assert_eq!(number("==", "{\"set\": [\"tcp\"]}"), About::Another);
        assert_eq!(number("==", "\"@protocols\""), About::Anything);
        assert_eq!((number("!=", "\"tcp\""), number("!=", "\"udp\"")), (About::Anything, About::Anything));
        assert_eq!(about("{}"), About::Anything);
    }

    #[test]
    fn no_answer_is_too_strange() {
        assert_eq!(read_rules(b"{\"nftables\": []}"), Some(Vec::new()));
        assert_eq!(
            (read_rules(b""), read_rules(b"[]"), read_rules(b"{\"nftables\": 1}")),
            (None, None, None)
        );
        let mut random = Random::new(3);
        for _ in 0..3_000 {
            let mut bytes = RULES.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = b"0123456789,:{}[]\"nul -tf"[random.below(24) as usize];
            }
            let _ = read_rules(&bytes);
        }
    }
}
