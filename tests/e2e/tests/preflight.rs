//! Preflight of groups: two hosts that check at the same time, on a lan that works and on one that does not.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Command, Host, Lan, lan_or_skip};
use serde_json::Value;

const HOSTS: [&str; 2] = ["one", "two"];

/// Runs the preflight on both hosts; returns the failed checks of each, as (check, judgement).
fn look(lan: &Lan, duration: &str) -> Vec<Vec<(String, String)>> {
    let start = |host: &Host| {
        let bus = host.bus("");
        let arguments = ["doctor", "preflight", "--duration", duration, "--json", "--bus", &bus];
        Command::start(host, &arguments)
    };
    let looking: Vec<Command> = lan.hosts().iter().map(start).collect();
    let wrong = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let is_wrong = line["event"] == "finding" && line["judgement"] != "ok";
        is_wrong.then(|| (text("check"), text("judgement")))
    };
    let found = |command: Command| {
        let (lines, status) = command.finish();
        assert!(lines.iter().any(|line| line["event"] == "heard"), "{lines:?}");
        let wrong: Vec<_> = lines.iter().filter_map(wrong).collect();
        let worst = if wrong.iter().any(|(_, it)| it == "fail") { 2 } else { i32::from(!wrong.is_empty()) };
        assert_eq!(status.code(), Some(worst), "{wrong:?}");
        // The settings of this machine are not tested here.
        wrong
            .into_iter()
            .filter(|(check, _)| check.starts_with("group-") || check.starts_with("largest-"))
            .collect()
    };
    looking.into_iter().map(found).collect()
}

fn fails(check: &str) -> (String, String) {
    (check.to_owned(), "fail".to_owned())
}

#[test]
fn a_group_that_a_bridge_forgets_is_reported_and_lasts_once_that_is_remedied() {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    assert_eq!(look(&lan, "5s"), [vec![], vec![]]);
    // A snooping bridge without a querier: memberships expire after two seconds, not minutes.
    let bridge = |arguments: &[&str]| {
        let link = [&["link", "set", "br0", "type", "bridge"], arguments].concat();
        assert!(lan.hosts()[0].bridge_command("ip").args(link).status().unwrap().success(), "{arguments:?}");
    };
    bridge(&["mcast_query_response_interval", "50", "mcast_query_interval", "100000"]);
    bridge(&["mcast_startup_query_count", "0", "mcast_membership_interval", "200", "mcast_snooping", "1"]);
    bridge(&["mcast_querier", "1"]);
    for port in ["p0", "p1"] {
        let flood_no_more = ["link", "set", "dev", port, "mcast_flood", "off"];
        assert!(lan.hosts()[0].bridge_command("bridge").args(flood_no_more).status().unwrap().success());
    }
    // A host that received a membership query reports its groups up to ten seconds later.
    let [one, two] = <[_; 2]>::try_from(look(&lan, "20s")).unwrap();
    for found in [one, two] {
        assert_eq!(found, [fails("group-lasts"), fails("group-lasts")], "from there and to there");
    }
    // One of the remedies that it names: a querier, which here asks ten times before a membership expires.
    bridge(&["mcast_membership_interval", "1000"]);
    bridge(&["mcast_query_interval", "100"]);
    bridge(&["mcast_querier", "0"]);
    bridge(&["mcast_querier", "1"]);
    assert_eq!(look(&lan, "8s"), [vec![], vec![]]);
}

#[test]
fn a_host_with_a_smaller_mtu_is_reported_at_both_ends() {
    let Some(lan) = lan_or_skip(&HOSTS) else { return };
    lan.hosts()[1].narrow(1_000);
    let [wide, narrow] = <[_; 2]>::try_from(look(&lan, "4s")).unwrap();
    assert!(wide.contains(&fails("largest-datagram")), "{wide:?}");
    assert!(narrow.contains(&fails("largest-datagram")), "{narrow:?}");
}
