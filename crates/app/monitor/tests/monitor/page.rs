//! The page's files, or the word how to build them.

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
