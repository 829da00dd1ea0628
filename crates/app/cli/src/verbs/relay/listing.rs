//! The relays of a host as text: a line for each link, and one for each stream.

use std::io::Write;

use serde_json::Value;

/// Prints a relay's state as its board has it.
pub(super) fn print(pid: u32, state: &Value) -> std::io::Result<()> {
    let text = rows(pid, state);
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())
}

fn rows(pid: u32, state: &Value) -> String {
    let mut text = String::new();
    for link in state["links"].as_array().into_iter().flatten() {
        let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let is_up = if link["is_up"] == true { "up" } else { "down" };
        let round_trip = link["round_trip_ns"]
            .as_u64()
            .map_or_else(|| "not measured".to_owned(), |nanos| format!("{:.1} ms", nanos as f64 / 1e6));
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        text += &format!(
            "{} relay, process {pid}, with udt://{} ({}): {is_up}, round trip {round_trip}, {} packets sent, {} repaired, \
             {} ignored\n",
            word(&state["role"]),
            word(&link["peer"]),
            link["station"].as_str().unwrap_or("not heard yet"),
            count(&link["sent_packets"]),
            count(&link["repaired_packets"]),
            count(&link["ignored"]),
        );
        for stream in link["streams"].as_array().into_iter().flatten() {
            let causes = stream["causes"].as_array().into_iter().flatten();
            let causes: Vec<String> =
                causes.map(|cause| format!("{} {}", word(&cause[0]), count(&cause[1]))).collect();
            let because = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join(", ")) };
            text += &format!(
                "  {}: {} delivered, {} missing before, {} given up{because}, {} on the way\n",
                word(&stream["name"]),
                count(&stream["delivered"]),
                count(&stream["missing"]),
                count(&stream["given_up"]),
                count(&stream["in_flight"]),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_tells_of_each_link_and_each_stream() {
        let state = json!({"role": "near", "station": "home", "links": [{
            "peer": "10.0.0.1:7400", "station": "far", "is_up": true, "round_trip_ns": 100_200_000,
            "sent_packets": 9, "repaired_packets": 2, "ignored": 0,
            "streams": [{"name": "lab/a", "delivered": 90, "missing": 4, "given_up": 5, "in_flight": 1,
                         "causes": [["repair", 5]]}],
        }]});
        assert_eq!(
            rows(7, &state),
            "near relay, process 7, with udt://10.0.0.1:7400 (far): up, round trip 100.2 ms, 9 packets sent, 2 repaired, \
             0 ignored\n  lab/a: 90 delivered, 4 missing before, 5 given up (repair 5), 1 on the way\n"
        );
        assert_eq!(rows(7, &json!({"role": 5})), "", "anything may be in it");
    }
}
