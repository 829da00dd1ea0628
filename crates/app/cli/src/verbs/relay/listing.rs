//! The relays of a host as text: a line for each link, one for each stream, and what the backfill does.

use std::io::Write;
use std::time::Duration;

use tallycast::{RelayBackfill, RelayLink, RelayState, RelayStream};
use units::text::decimal_size;

/// Prints a relay's state.
pub(super) fn print(pid: u32, state: &RelayState) -> std::io::Result<()> {
    let text = rows(pid, state);
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())
}

fn rows(pid: u32, state: &RelayState) -> String {
    let mut text = String::new();
    if state.turned_away > 0 {
        let (role, count) = (&state.role, state.turned_away);
        text += &format!(
            "{role} relay, process {pid}: {count} datagrams of others than listed peers got no answer\n"
        );
    }
    for link in &state.links {
        text += &of_link(pid, &state.role, link);
        link.streams.iter().for_each(|stream| text += &of_stream(&state.role, stream));
    }
    if let Some(backfill) = &state.backfill {
        let role = &state.role;
        text += &format!("{role} relay, process {pid}, backfill: {}\n", of_backfill(role, backfill));
        text.extend(backfill_errors(backfill).map(|error| format!("  not filled: {error}\n")));
    }
    text
}

/// Returns what a backfill has moved, and what is still missing.
pub(crate) fn of_backfill(role: &str, backfill: &RelayBackfill) -> String {
    let &RelayBackfill { samples, bytes, refused, missing, ranges, lacking, .. } = backfill;
    let moved = if role == "far" { "fetched" } else { "sent" };
    let mut text = format!("{samples} samples {moved}, {}", decimal_size(bytes));
    if missing > 0 {
        let ranges = if ranges == 1 { "1 range".to_owned() } else { format!("{ranges} ranges") };
        text += &format!("; {missing} missing in {ranges}");
    } else if role == "far" {
        text += "; none missing";
    }
    if lacking > 0 {
        text += &format!(", {lacking} of them at the other end, too");
    }
    if refused > 0 {
        text += &format!("; {refused} refused");
    }
    text
}

/// Returns why holes are not filled now, each with its stream.
pub(crate) fn backfill_errors(backfill: &RelayBackfill) -> impl Iterator<Item = String> {
    backfill.errors.iter().map(|(stream, reason)| match stream.as_str() {
        "" => reason.clone(),
        stream => format!("{stream}: {reason}"),
    })
}

fn of_link(pid: u32, role: &str, link: &RelayLink) -> String {
    let is_up = if link.is_up { "up" } else { "down" };
    let round_trip = link.round_trip_ns.map_or_else(|| "not measured".to_owned(), millis);
    let waiting = Some(link.waiting_bytes).filter(|bytes| *bytes > 0);
    let waiting = waiting.map_or_else(String::new, |bytes| format!(", {} waiting", decimal_size(bytes)));
    let (sent, again) = if role == "far" { ("received", "duplicates") } else { ("sent", "repaired") };
    format!(
        "{role} relay, process {pid}, with udt://{} ({}): {is_up}, round trip {round_trip}, {} packets {sent}, \
         {} {again}, {} ignored{waiting}\n",
        link.peer,
        link.station.as_deref().unwrap_or("not heard yet"),
        link.sent_packets,
        link.repaired_packets,
        link.ignored,
    )
}

fn of_stream(role: &str, stream: &RelayStream) -> String {
    let at = if role == "far" { "published" } else { "sent" };
    let age = stream.age.map_or_else(String::new, |age| {
        let [p50, p99, largest] = [age.p50_ns, age.p99_ns, age.largest_ns].map(millis);
        format!(", {at} at an age of {p50} (99 % within {p99}, at most {largest})")
    });
    let deadline = stream
        .deadline_ns
        .map_or_else(String::new, |it| format!(", deadline {:?}", Duration::from_nanos(it)));
    let priority = Some(stream.priority).filter(|it| *it > 0);
    let priority = priority.map_or_else(String::new, |it| format!(", priority {it}"));
    let degraded = stream
        .degraded
        .as_deref()
        .map_or_else(String::new, |why| format!("; degraded: {}", why.replace('_', " ")));
    format!(
        "  {}: {} delivered, {} missing before, {} given up{}, {} on the way{age}{deadline}{priority}{degraded}\n",
        stream.name,
        stream.delivered,
        stream.missing,
        stream.given_up,
        because(&stream.causes),
        stream.in_flight,
    )
}

/// Returns the causes for which elements were given up.
pub(crate) fn because(causes: &[(String, u64)]) -> String {
    let causes: Vec<String> =
        causes.iter().map(|(cause, count)| format!("{} {count}", cause.replace('_', " "))).collect();
    if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) }
}

/// Returns a time in milliseconds.
pub(crate) fn millis(nanos: u64) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_tells_of_each_link_and_each_stream() {
        let mut state = json!({"role": "near", "station": "home", "links": [{
            "peer": "10.0.0.1:7400", "station": "far", "is_up": true, "round_trip_ns": 100_200_000,
            "sent_packets": 9, "repaired_packets": 2, "ignored": 0,
            "streams": [{"name": "lab/a", "delivered": 90, "missing": 4, "given_up": 5, "in_flight": 1,
                         "causes": [["link_down", 5]]}],
        }]});
        let told = |state: &serde_json::Value| rows(7, &serde_json::from_value(state.clone()).unwrap());
        assert_eq!(
            told(&state),
            "near relay, process 7, with udt://10.0.0.1:7400 (far): up, round trip 100.2 ms, 9 packets sent, \
             2 repaired, 0 ignored\n  lab/a: 90 delivered, 4 missing before, 5 given up (link down 5), 1 on the way\n"
        );
        let stream = &mut state["links"][0]["streams"][0];
        stream["age"] = json!({"p50_ns": 50_100_000, "p99_ns": 151_000_000, "largest_ns": 160_000_000});
        stream["deadline_ns"] = json!(300_000_000);
        stream["priority"] = json!(2);
        stream["degraded"] = json!("bandwidth");
        state["role"] = json!("far");
        state["links"][0]["waiting_bytes"] = json!(1_500_000);
        state["turned_away"] = json!(3);
        let line = "1 on the way, published at an age of 50.1 ms (99 % within 151.0 ms, at most 160.0 ms), \
                    deadline 300ms, priority 2; degraded: bandwidth\n";
        assert!(told(&state).ends_with(line), "{}", told(&state));
        assert!(
            told(&state).contains("9 packets received, 2 duplicates, 0 ignored, 1.50 MB waiting\n"),
            "{}",
            told(&state)
        );
        assert!(told(&state).starts_with("far relay, process 7: 3 datagrams of others than listed peers"));
    }

    #[test]
    fn a_backfill_tells_what_came_what_is_missing_and_why_it_stays_so() {
        let told = |state: &serde_json::Value| rows(7, &serde_json::from_value(state.clone()).unwrap());
        let mut state = json!({"role": "near", "backfill": {"samples": 1_200, "bytes": 9_600}});
        assert_eq!(told(&state), "near relay, process 7, backfill: 1200 samples sent, 9.60 kB\n");
        state["role"] = json!("far");
        let line = "far relay, process 7, backfill: 1200 samples fetched, 9.60 kB; none missing\n";
        assert_eq!(told(&state), line);
        state["backfill"] = json!({"samples": 1_200, "bytes": 9_600, "refused": 2, "missing": 40, "ranges": 3,
            "lacking": 10, "errors": [["", "the archive is refilled by another process"], ["lab/a", "disk full"]]});
        assert_eq!(
            told(&state),
            "far relay, process 7, backfill: 1200 samples fetched, 9.60 kB; 40 missing in 3 ranges, 10 of them at the \
             other end, too; 2 refused\n  not filled: the archive is refilled by another process\n  \
             not filled: lab/a: disk full\n"
        );
    }
}
