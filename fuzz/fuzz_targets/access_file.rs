//! Any text as an access file: refused with a line of it, or rules that decide the same when they are written again.
#![no_main]

use access::{Ground, May, Policy, Principal, Rule};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let policy = match Policy::parse(text) {
        Ok(policy) => policy,
        Err(error) => return assert!(error.line as usize <= text.split('\n').count(), "{error}"),
    };
    let rules: Vec<&str> = policy.rules().iter().map(Rule::text).collect();
    let again = Policy::parse(&rules.join("\n")).expect("rules read what they write");
    // Groups are not among the rules.
    let strangers = [Principal::anonymous(), Principal::key("00ff", None)];
    for (who, may) in strangers.iter().flat_map(|who| May::ALL.map(|may| (who, may))) {
        let stream = "lab/laser/power".parse().expect("a name");
        let (first, second) = (policy.decide(who, may, &stream), again.decide(who, may, &stream));
        assert_eq!(first.is_allowed, second.is_allowed, "{first}, but then {second}");
        assert!(first.ground != Ground::NoLine || !first.is_allowed);
        assert!(policy.decide_everywhere(who, may).is_allowed <= first.is_allowed);
        assert!(first.is_allowed <= policy.decide_somewhere(who, may).is_allowed);
    }
});
