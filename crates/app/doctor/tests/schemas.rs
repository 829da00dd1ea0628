//! The published schema of an audit: its page is what the type of a line says, and accepts nothing else.
//! `INSTA_UPDATE=always` rewrites the page.

use doctor::{AuditLine, CHECK_NAMES};
use serde_json::json;

#[test]
fn the_page_of_an_audit_is_what_its_lines_are_and_accepts_nothing_else() {
    published::check_page::<AuditLine<'_>>("doctor-audit", "tallycast doctor audit --json, a line");
    let accepts = |line| published::check("doctor-audit", &line).is_ok();
    let finding = |check: &str, judgement: &str| {
        json!({
            "event": "finding", "check": check, "judgement": judgement, "live": "", "recommended": null,
            "why": "", "cure": [], "undo": [],
        })
    };
    assert!(accepts(finding("mtu", "not seen")));
    assert!(!accepts(finding("mtu", "good")) && !accepts(finding("luck", "ok")));
    assert!(accepts(json!({ "event": "ended", "ok": 1, "not_seen": 0, "warn": 0, "fail": 0 })));
    assert!(!accepts(json!({ "event": "ended", "ok": 1, "warn": 0, "fail": 0 })));
}

#[test]
fn the_guide_describes_each_check_of_an_audit() {
    let guide = include_str!("../../../../docs/guide/doctor.md");
    for name in CHECK_NAMES {
        assert!(guide.contains(&format!("`{name}`")), "docs/guide/doctor.md does not mention {name}");
    }
}
