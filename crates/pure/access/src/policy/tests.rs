//! Questions to policies, and refused files.

use proptest::prelude::*;

use super::*;

const LABORATORY: &str = "\
# The laboratory.
group operators = ada, grace

deny  user:grace       steer                lab/laser/**
allow group:operators  read, steer, derive  lab/**        # their own streams
allow role:administrator  *  **
allow token:scraper  read  **
allow key:daq-3  publish  lab/**
allow signed-in  viewer  lab/public/*
";

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap()
}

fn user(name: &str) -> Principal {
    Principal::user(name.parse().unwrap())
}

fn token(name: &str, scopes: &str) -> Principal {
    Principal::token(name.parse().unwrap(), scopes.parse().unwrap())
}

/// Asks a question and returns the answer as a person reads it.
fn ask(policy: &Policy, who: &Principal, may: May, stream: &str) -> String {
    policy.decide(who, may, &stream.parse().unwrap()).to_string()
}

#[test]
fn the_first_line_that_applies_decides_and_is_named() {
    let policy = policy(LABORATORY);
    let by_line_5 = "allowed by line 5: allow group:operators read, steer, derive lab/**";
    assert_eq!(ask(&policy, &user("ada"), May::Steer, "lab/laser/power"), by_line_5);
    assert_eq!(ask(&policy, &user("grace"), May::Steer, "lab/pump"), by_line_5);
    assert_eq!(
        ask(&policy, &user("grace"), May::Steer, "lab/laser/power"),
        "denied by line 4: deny user:grace steer lab/laser/**"
    );
    assert_eq!(ask(&policy, &user("grace"), May::Read, "lab/laser/power"), by_line_5);
    assert_eq!(
        ask(&policy, &user("ada"), May::Publish, "lab/laser/power"),
        "denied: no line of the access file applies"
    );
}

#[test]
fn each_form_of_principal_is_its_own() {
    let policy = policy(LABORATORY);
    let may =
        |who: &Principal, may, stream: &str| policy.decide(who, may, &stream.parse().unwrap()).is_allowed;
    let alan = user("alan");
    assert!(may(&alan, May::Read, "lab/public/a") && !may(&alan, May::Read, "lab/a"));
    assert!(!may(&Principal::anonymous(), May::Read, "lab/public/a"));
    assert!(may(&alan.clone().in_groups(["operators"]), May::Steer, "lab/a"));
    assert!(may(&alan.clone().with_role(Some(Role::Administrator)), May::Administer, "a"));
    assert!(!may(&alan.with_role(Some(Role::Operator)), May::Read, "a"));
    let daq = Principal::key("00FF", Some("daq-3".parse().unwrap()));
    assert!(may(&daq, May::Publish, "lab/a") && !may(&daq, May::Publish, "other"));
    // A user or token that is named like a key is none.
    assert!(!may(&user("daq-3"), May::Publish, "lab/a"));
    assert!(!may(&token("daq-3", "*"), May::Publish, "lab/a"));
    assert!(!may(&token("ada", "*"), May::Steer, "lab/a"));
}

#[test]
fn a_key_is_named_by_its_digits_or_its_certificate() {
    let policy = policy("allow key:00ff read **");
    assert!(policy.decide_everywhere(&Principal::key("00FF", None), May::Read).is_allowed);
    assert!(!policy.decide_everywhere(&Principal::key("00fe", None), May::Read).is_allowed);
}

#[test]
fn a_token_never_exceeds_its_scopes() {
    let policy = policy("allow anyone * **");
    let scraper = token("scraper", "read");
    assert!(policy.decide_everywhere(&scraper, May::Read).is_allowed);
    let steer = policy.decide_everywhere(&scraper, May::Steer);
    assert_eq!(steer.to_string(), "denied: the token's scopes do not include steer");
    for reach in [Reach::Loopback, Reach::Elsewhere] {
        let none = Policy::without_file(reach);
        assert!(none.decide_everywhere(&scraper, May::Read).is_allowed);
        assert!(!none.decide_everywhere(&scraper, May::Steer).is_allowed);
    }
}

#[test]
fn an_empty_file_denies_everything() {
    let administrator = user("ada").with_role(Some(Role::Administrator));
    for text in ["", "\n\n", "# allow anyone * **"] {
        for may in May::ALL {
            assert_eq!(policy(text).decide_somewhere(&administrator, may).ground, Ground::NoLine);
        }
    }
}

#[test]
fn without_a_file_anyone_may_do_anything_on_loopback_and_elsewhere_a_role_decides() {
    let (near, far) = (Policy::without_file(Reach::Loopback), Policy::without_file(Reach::Elsewhere));
    for may in May::ALL {
        assert!(near.decide_everywhere(&Principal::anonymous(), may).is_allowed);
        assert!(!far.decide_somewhere(&Principal::anonymous(), may).is_allowed);
        assert!(!far.decide_somewhere(&user("ada"), may).is_allowed);
        assert!(!far.decide_somewhere(&Principal::key("00ff", None), may).is_allowed);
        for role in Role::ALL {
            let ada = user("ada").with_role(Some(role));
            assert_eq!(far.decide_everywhere(&ada, may).is_allowed, role.may().contains(may), "{role} {may}");
        }
    }
    assert_eq!(
        ask(&far, &Principal::anonymous(), May::Read, "a"),
        "denied: without an access file, a role or a token's scope must include read"
    );
}

#[test]
fn everywhere_and_somewhere_bound_the_single_streams() {
    let policy = policy("deny anyone steer lab/laser\nallow anyone steer **\nallow anyone read lab/*");
    let anyone = Principal::anonymous();
    assert!(!policy.decide_everywhere(&anyone, May::Steer).is_allowed);
    assert!(policy.decide_somewhere(&anyone, May::Steer).is_allowed);
    assert!(!policy.decide_everywhere(&anyone, May::Read).is_allowed);
    assert!(policy.decide_somewhere(&anyone, May::Read).is_allowed);
    assert!(!policy.decide_somewhere(&anyone, May::Publish).is_allowed);
}

#[test]
fn a_wrong_line_is_named_and_its_remedy_told() {
    let cases = [
        (
            "\n\nalow anyone read **",
            "line 3: a line begins with allow, deny or group, not: unknown word `alow`\ndid you mean `allow`? known: allow, deny, group",
        ),
        (
            "allow anyone read",
            "line 1: a rule has four parts: allow or deny, WHO, MAY, WHAT\nfor example: allow user:ada read,steer lab/**",
        ),
        (
            "allow anyone",
            "line 1: a rule has four parts: allow or deny, WHO, MAY, WHAT\nfor example: allow user:ada read,steer lab/**",
        ),
        (
            "allow usr:ada read **",
            "line 1: unknown form of a principal: unknown word `usr`\ndid you mean `user`? known: anyone, signed-in, user, group, role, token, key",
        ),
        (
            "allow user read **",
            "line 1: `user` does not name a principal\nwrite anyone, signed-in, role:ROLE, or user: group: token: key: and a name",
        ),
        (
            "allow anyone:x read **",
            "line 1: `anyone:x` does not name a principal\nwrite anyone, signed-in, role:ROLE, or user: group: token: key: and a name",
        ),
        (
            "allow user: read **",
            "line 1: invalid name `` of a user, group, token or key\nwrite letters, digits, and any of _ - . @ + / within 128 bytes",
        ),
        ("allow role:boss read **", "line 1: unknown word `boss`\nknown: viewer, operator, administrator"),
        (
            "allow anyone raed **",
            "line 1: unknown word `raed`\ndid you mean `read`? known: read, publish, steer, derive, administer, *, viewer, operator, administrator",
        ),
        (
            "allow anyone read steer **",
            "line 1: unknown word `read steer`\nknown: read, publish, steer, derive, administer, *, viewer, operator, administrator",
        ),
        (
            "allow anyone read a**",
            "line 1: invalid pattern `a**`; write a stream name in which `*` matches a part of a word and `**` any words",
        ),
        ("group a", "line 1: a group has a name and members\nfor example: group operators = ada, grace"),
        ("group a = b,", "line 1: a group has a name and members\nfor example: group operators = ada, grace"),
        (
            "group a = b c",
            "line 1: invalid name `b c` of a user, group, token or key\nwrite letters, digits, and any of _ - . @ + / within 128 bytes",
        ),
        (
            "group a = b\ngroup a = c",
            "line 2: the group `a` is defined a second time\nwrite all members in one line",
        ),
    ];
    for (text, told) in cases {
        assert_eq!(Policy::parse(text).unwrap_err().to_string(), told);
    }
}

#[test]
fn the_last_size_is_read_and_the_next_refused() {
    let rules = |count: usize| "deny anyone read a\n".repeat(count);
    assert_eq!(policy(&rules(MAX_RULES)).rules().len(), MAX_RULES);
    let error = Policy::parse(&rules(MAX_RULES + 1)).unwrap_err();
    assert_eq!(error, PolicyError { line: MAX_RULES as u32 + 1, problem: Problem::TooManyRules });
    assert!(Policy::parse(&"#".repeat(MAX_POLICY_BYTES)).is_ok());
    let error = Policy::parse(&"#".repeat(MAX_POLICY_BYTES + 1)).unwrap_err();
    assert_eq!(error, PolicyError { line: 1, problem: Problem::TooLarge });
}

#[test]
fn texts_of_other_editors_are_read() {
    let policy = policy("\u{feff}allow anyone read a\r\n\tdeny\tanyone * ** # end\r\n");
    let rules: Vec<&str> = policy.rules().iter().map(Rule::text).collect();
    assert_eq!(rules, ["allow anyone read a", "deny anyone * **"]);
}

/// Words of small files whose rules overlap often.
fn line() -> impl Strategy<Value = String> {
    let effects = prop::sample::select(vec!["allow", "deny"]);
    let who = prop::sample::select(vec![
        "anyone",
        "signed-in",
        "user:ada",
        "group:g",
        "role:operator",
        "token:t",
        "key:k",
    ]);
    let may = prop::sample::select(vec!["read", "steer", "read,steer", "*", "viewer"]);
    let streams = prop::sample::select(vec!["**", "a/*", "a/b", "*/b", "c"]);
    (effects, who, may, streams)
        .prop_map(|(effect, who, may, streams)| format!("{effect} {who} {may} {streams}"))
}

fn principals() -> [Principal; 5] {
    [
        Principal::anonymous(),
        user("ada"),
        user("grace").in_groups(["g"]).with_role(Some(Role::Operator)),
        token("t", "read"),
        Principal::key("00", Some("k".parse().unwrap())),
    ]
}

proptest! {
    #[test]
    fn a_longer_file_changes_only_what_no_line_decided(lines in prop::collection::vec(line(), 0..8), next in line()) {
        let before = policy(&lines.join("\n"));
        let after = policy(&[lines.join("\n"), next].join("\n"));
        for who in principals() {
            for may in May::ALL {
                for stream in ["a/b", "a/c", "c", "d/e/f"].map(|name| name.parse().unwrap()) {
                    let (before, after) = (before.decide(&who, may, &stream), after.decide(&who, may, &stream));
                    prop_assert!(before == after || before.ground == Ground::NoLine, "{before}, then {after}");
                    prop_assert!(before.ground != Ground::NoLine || !before.is_allowed);
                }
            }
        }
    }

    #[test]
    fn everywhere_implies_each_stream_and_each_stream_somewhere(lines in prop::collection::vec(line(), 0..8)) {
        let policy = policy(&lines.join("\n"));
        for who in principals() {
            for may in May::ALL {
                let everywhere = policy.decide_everywhere(&who, may).is_allowed;
                let somewhere = policy.decide_somewhere(&who, may).is_allowed;
                for stream in ["a/b", "a/c", "c", "d/e/f"].map(|name| name.parse().unwrap()) {
                    let here = policy.decide(&who, may, &stream).is_allowed;
                    prop_assert!(everywhere <= here && here <= somewhere);
                }
            }
        }
    }

    #[test]
    fn any_text_is_a_policy_or_an_error_with_a_line(text in "(allow|deny|group|#|\\PC| |:|,|=|\\*|\n){0,60}") {
        if let Err(error) = Policy::parse(&text) {
            prop_assert!(error.line >= 1 && error.line as usize <= text.split('\n').count());
        }
    }
}
