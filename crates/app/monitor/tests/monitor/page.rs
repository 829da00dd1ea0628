//! The page's files, or the hint how to build them.

use ledger::Stage;

use crate::scene::{bus, get, monitor};

#[test]
fn the_page_or_the_way_to_it_is_served_under_a_strict_policy() {
    let monitor = monitor(&bus());
    let answer = get(monitor.address(), "/");
    assert_eq!(answer.status, 200);
    let head = answer.head.to_lowercase();
    assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let body = String::from_utf8(answer.body).unwrap();
    assert!(body.contains("<title>Tallycast</title>") || body.contains("cargo xtask page"), "{body}");
}

#[test]
fn the_guide_is_served_with_a_heading_for_each_stage() {
    let monitor = monitor(&bus());
    let answer = get(monitor.address(), "/guide");
    assert_eq!(answer.status, 200);
    let body = String::from_utf8(answer.body).unwrap();
    for stage in Stage::ALL.into_iter().map(Stage::name).chain(["unexplained", "unsettled"]) {
        let (built, written) = (format!("<h2 id=\"{stage}\">"), format!("\n## {stage}\n"));
        assert!(body.contains(&built) || body.contains(&written), "{stage}");
    }
}
