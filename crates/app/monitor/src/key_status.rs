//! State of the keys of a secured bus as JSON, beside each account and in the state of the server; never a secret.
//!
//! `/metrics` has the same as numbers, see [`Picture`](crate::metrics::Picture).

use std::time::Duration;

use serde::Serialize;
use tallycast::{KeyServiceState, KeyState, WallTime};

/// State of the keys.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub(crate) struct KeyStatus {
    /// Public name of the secret in use; null without one, when nothing is sent or read.
    token: Option<String>,
    /// Negative after the end.
    certificate_left_ns: i64,
    /// Left out where the station's file has the secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceStatus>,
}

/// State of the key service.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
struct ServiceStatus {
    address: String,
    /// Time until the last secret held ends; null without secrets.
    left_ns: Option<u64>,
    /// Time of the first question without an answer; null while it answers.
    silent_since_ns: Option<i64>,
    /// Questions that were repeated.
    unanswered: u64,
    /// Reason why it gives no secrets; null while it does.
    refused: Option<String>,
}

impl KeyStatus {
    pub(crate) fn of(state: KeyState, wall: WallTime) -> Self {
        Self {
            token: state.token,
            certificate_left_ns: state.certificate_ends.nanos_since(wall),
            service: state.service.map(|service| ServiceStatus::of(service, wall)),
        }
    }
}

impl ServiceStatus {
    fn of(
        KeyServiceState { address, left, silent, unanswered, refused }: KeyServiceState,
        wall: WallTime,
    ) -> Self {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let before =
            |time: Duration| wall.offset(-i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)).as_nanos();
        let (left_ns, silent_since_ns) = (left.map(nanos), silent.map(before));
        Self { address, left_ns, silent_since_ns, unanswered, refused }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_silent_service_is_told_with_the_time_since_and_the_time_left() {
        let (now, end) = (WallTime::from_nanos(9_000_000_000), WallTime::from_nanos(8_000_000_000));
        let service = KeyServiceState {
            address: "keys.lab.example:7409".to_owned(),
            left: Some(Duration::from_secs(7)),
            silent: Some(Duration::from_secs(4)),
            unanswered: 12,
            refused: None,
        };
        let state = |service| KeyState {
            token: Some("1a2b3c4d".to_owned()),
            service,
            failed_reloads: 0,
            certificate_ends: end,
            refused_reports: tallycast::UnauthenticCounts::default(),
        };
        let told = json!({
            "token": "1a2b3c4d", "certificate_left_ns": -1_000_000_000,
            "service": {
                "address": "keys.lab.example:7409", "left_ns": 7_000_000_000_u64, "silent_since_ns": 5_000_000_000_u64,
                "unanswered": 12, "refused": null
            }
        });
        assert_eq!(to_value(KeyStatus::of(state(Some(service)), now)).unwrap(), told);
        let of_file = json!({ "token": "1a2b3c4d", "certificate_left_ns": -1_000_000_000 });
        assert_eq!(to_value(KeyStatus::of(state(None), now)).unwrap(), of_file);
    }
}
