//! Revocation: how soon the end of a right closes the pages that were opened by it, and with which words.
//!
//! Changed users, tokens and rules are taken up by [`refresh`]; each page waits for [`revoked`], and is then closed with
//! the [`CloseReason`]. The three intervals together are the promise: at most [`PROMISE`].

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::admission::{Gatekeeper, Visitor};
use crate::refused::Reason;

/// Maximum time from the change of an access file to the end of the pages that it closes.
pub(crate) const PROMISE: Duration = Duration::from_secs(1);
/// Interval at which users, tokens and rules are looked at.
const REFRESH_INTERVAL: Duration = Duration::from_millis(450);
/// Interval at which an open page's right to be open is checked.
const RECHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time for a page to accept the reason; it is closed anyway.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_millis(250);

/// What the intervals leave of the promise for reading the files and the work in between.
const LEFT_MS: u128 = PROMISE.as_millis()
    - REFRESH_INTERVAL.as_millis()
    - RECHECK_INTERVAL.as_millis()
    - CLOSE_PATIENCE.as_millis();
const _: () = assert!(LEFT_MS >= 50, "the intervals leave no time for the work in between");

/// The longest reason of a close frame. Source: RFC 6455 §5.5, less the two bytes of the code.
const MAX_REASON_BYTES: usize = 123;

/// The words with which a page is closed.
pub(crate) struct CloseReason(String);

impl CloseReason {
    /// Makes them of the ground: what ended, or the rule that denies from now on.
    pub(crate) fn new(ground: &Reason) -> Self {
        let text = format!("ask again: {}", ground.rule);
        if text.len() <= MAX_REASON_BYTES {
            return Self(text);
        }
        let mut end = MAX_REASON_BYTES - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(format!("{}…", &text[..end]))
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Waits until the visitor would not be admitted as it was: its session or token ended, or the rules changed.
pub(crate) async fn revoked(gatekeeper: &Gatekeeper, visitor: &Visitor) {
    while visitor.is_still_admitted(gatekeeper) {
        sleep(RECHECK_INTERVAL).await;
    }
}

/// Takes up changed users, tokens and rules until `stopped`.
pub(crate) async fn refresh(gatekeeper: Arc<Gatekeeper>, stopped: impl Future<Output = ()>) {
    let refreshing = async move {
        loop {
            sleep(REFRESH_INTERVAL).await;
            let asked = Arc::clone(&gatekeeper);
            // One that panicked has printed the cause and is asked again.
            drop(tokio::task::spawn_blocking(move || asked.refresh()).await);
        }
    };
    tokio::select! {
        () = stopped => {}
        () = refreshing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::SessionCookie;
    use crate::host_gate::Protection;
    use axum::http::{HeaderMap, Method};
    use std::path::Path;
    use tokio::time::Instant;

    fn rule(folder: &Path, rules: &str) {
        use std::os::unix::fs::PermissionsExt;
        let draft = folder.join("draft");
        std::fs::write(&draft, rules).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::rename(draft, folder.join("access")).unwrap();
    }

    /// Runs on tokio's own clock, which goes on only while nothing else can: neither load nor a slow disk matters.
    #[test]
    fn the_end_of_a_right_is_noticed_within_the_promise_less_the_time_to_say_it() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true);
        for lead_ms in [0, 1, 249, 250, 251, 449, 450, 451, 699, 700] {
            runtime.build().unwrap().block_on(async {
                let folder = tempfile::tempdir().unwrap();
                rule(folder.path(), "allow anyone read **\n");
                let address = "127.0.0.1:0".parse().unwrap();
                let gatekeeper = Arc::new(Gatekeeper::open(Some(folder.path()), address).unwrap());
                let cookie = SessionCookie::new(address, Protection::Loopback);
                let visitor =
                    Visitor::of(&gatekeeper, &cookie, &Method::GET, &HeaderMap::new()).ok().unwrap();
                tokio::spawn(refresh(Arc::clone(&gatekeeper), std::future::pending()));
                let (asked, page) = (Arc::clone(&gatekeeper), visitor.clone());
                let waiting = tokio::spawn(async move { revoked(&asked, &page).await });
                sleep(Duration::from_millis(lead_ms)).await;
                assert!(!waiting.is_finished());
                rule(folder.path(), "deny anyone read **\n");
                let changed = Instant::now();
                waiting.await.unwrap();
                let noticed = changed.elapsed();
                assert!(noticed <= PROMISE - CLOSE_PATIENCE, "{noticed:?} after a lead of {lead_ms} ms");
                let ground = visitor.ended(&gatekeeper, std::iter::empty()).unwrap();
                assert_eq!(
                    (ground.label.as_str(), CloseReason::new(&ground).into_text().as_str()),
                    ("line 1", "ask again: denied by line 1: deny anyone read **")
                );
            });
        }
    }

    #[test]
    fn a_reason_fits_a_close_frame_whole_or_cut_between_characters() {
        let reason = |rule: String| CloseReason::new(&Reason { label: String::new(), rule }).into_text();
        let room = MAX_REASON_BYTES - "ask again: ".len();
        assert_eq!(reason("x".repeat(room)).len(), MAX_REASON_BYTES);
        for rule in ["x".repeat(room + 1), "ü".repeat(room)] {
            let cut = reason(rule);
            assert!(cut.len() <= MAX_REASON_BYTES && cut.ends_with('…'), "{cut}");
        }
    }
}
