//! State of the relay of this host that publishes a stream, beside the stream's account: of its link, and of the backfill.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tallycast::{RelayBackfill, RelayOnHost, RelayState};

/// Adds to the account of a relayed stream the state of its link; nothing if a relay of another host publishes it.
pub(crate) fn add_relay(account: &mut Value, relays: &[RelayOnHost]) {
    let is_relayed = account.get("origin").is_some();
    let Some(name) = account["stream"].as_str().filter(|_| is_relayed) else { return };
    let far = relays.iter().filter_map(RelayState::read).filter(|state| state.role == "far");
    let links = far.flat_map(|state| state.links.into_iter().map(move |link| (link, state.backfill.clone())));
    let mut found = links.filter_map(|(link, backfill)| {
        let stream = link.streams.iter().find(|stream| stream.name == name)?.clone();
        Some((link, stream, backfill))
    });
    let Some((link, stream, backfill)) = found.next() else { return };
    account["relay"] = json!({
        "is_up": link.is_up,
        "round_trip_ns": link.round_trip_ns,
        "deadline_ns": stream.deadline_ns,
        "age_p50_ns": stream.age.map(|age| age.p50_ns),
        "age_p99_ns": stream.age.map(|age| age.p99_ns),
        "causes": stream.causes.into_iter().collect::<BTreeMap<_, _>>(),
    });
    if let Some(backfill) = backfill {
        account["relay"]["backfill"] = backfill_of(&stream.name, &backfill);
    }
}

/// Returns the backfill of all streams, with the errors that concern this one: others may not be for the visitor.
fn backfill_of(name: &str, backfill: &RelayBackfill) -> Value {
    let of_stream = backfill.errors.iter().filter(|(stream, _)| stream.is_empty() || stream == name);
    json!({
        "samples": backfill.samples,
        "bytes": backfill.bytes,
        "missing": backfill.missing,
        "ranges": backfill.ranges,
        "lacking": backfill.lacking,
        "refused": backfill.refused,
        "errors": of_stream.map(|(_, reason)| reason).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(role: &str, stream: &str) -> RelayOnHost {
        let state = json!({"role": role, "links": [{"is_up": true, "round_trip_ns": 100, "streams": [
            {"name": stream, "causes": [["repair", 5]], "age": {"p50_ns": 50, "p99_ns": 150, "largest_ns": 160}}]}]});
        RelayOnHost { pid: 7, state: state.to_string().into_bytes() }
    }

    #[test]
    fn the_link_is_told_by_the_far_relay_of_this_host_that_publishes_the_stream() {
        let account = json!({"stream": "lab/x", "origin": {"hop": 2}});
        let told = |account: &Value, boards: &[RelayOnHost]| {
            let mut account = account.clone();
            add_relay(&mut account, boards);
            account.get("relay").cloned()
        };
        let relay = told(&account, &[board("far", "lab/y"), board("far", "lab/x")]).unwrap();
        assert_eq!(
            relay,
            json!({"is_up": true, "round_trip_ns": 100, "deadline_ns": null, "age_p50_ns": 50, "age_p99_ns": 150,
                   "causes": {"repair": 5}})
        );
        assert_eq!(told(&account, &[board("near", "lab/x"), board("far", "lab/y")]), None);
        assert_eq!(told(&json!({"stream": "lab/x"}), &[board("far", "lab/x")]), None, "it is not relayed");
    }

    #[test]
    fn the_backfill_is_told_without_the_errors_of_other_streams() {
        let state = json!({"role": "far", "links": [{"streams": [{"name": "lab/x"}]}], "backfill": {
            "samples": 4, "bytes": 32, "missing": 3, "ranges": 2, "lacking": 1, "refused": 6,
            "errors": [["", "disk full"], ["lab/x", "not relayed"], ["secret/y", "disk full"]]}});
        let relay = RelayOnHost { pid: 7, state: state.to_string().into_bytes() };
        let mut account = json!({"stream": "lab/x", "origin": {"hop": 2}});
        add_relay(&mut account, &[relay]);
        assert_eq!(
            account["relay"]["backfill"],
            json!({"samples": 4, "bytes": 32, "missing": 3, "ranges": 2, "lacking": 1, "refused": 6,
                   "errors": ["disk full", "not relayed"]})
        );
    }
}
