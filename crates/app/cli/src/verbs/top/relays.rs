//! The relays of this host, as their boards show them: a row for each stream of a link, and one for a backfill.

use serde_json::{Value, json};
use tallycast::{Node, RelayLink, RelayState, RelayStream};

use super::snapshots::count;
use super::state::{Field, Table};
use crate::layout::{self, Align};
use crate::verbs::relay::{backfill_errors, because, millis, of_backfill};

/// A relay of this host.
#[derive(Clone, Debug)]
pub(super) struct HostRelay {
    pid: u32,
    state: RelayState,
}

/// Returns the relays of this host.
pub(super) fn of_host(node: &Node) -> Vec<HostRelay> {
    let relays = node.relays_on_host();
    relays.iter().filter_map(|it| Some(HostRelay { pid: it.pid, state: RelayState::read(it)? })).collect()
}

/// Returns a row for each stream of a link; an empty one for a link without streams, whose state is worth a line.
fn link_rows(relay: &HostRelay) -> impl Iterator<Item = Vec<Field>> {
    relay.state.links.iter().flat_map(move |link| {
        let streams: Vec<Option<&RelayStream>> =
            if link.streams.is_empty() { vec![None] } else { link.streams.iter().map(Some).collect() };
        streams.into_iter().map(move |stream| link_row(relay, link, stream))
    })
}

fn link_row(relay: &HostRelay, link: &RelayLink, stream: Option<&RelayStream>) -> Vec<Field> {
    let time = |nanos: Option<u64>| {
        Field::number(nanos.map_or_else(|| "?".to_owned(), millis), nanos.map_or(-1.0, |it| it as f64))
    };
    vec![
        Field::text(path(relay, link)),
        Field::text(stream.map_or("", |it| it.name.as_str())),
        time(link.round_trip_ns),
        time(stream.and_then(|it| it.age).map(|age| age.p99_ns)),
        count(link.repaired_packets),
        Field::number(given_up(stream), stream.map_or(0.0, |it| it.given_up as f64)),
    ]
}

/// Returns the row of a relay's backfill.
fn backfill_row(relay: &HostRelay) -> Option<Vec<Field>> {
    let backfill = relay.state.backfill.as_ref()?;
    let mut text = of_backfill(&relay.state.role, backfill);
    backfill_errors(backfill).for_each(|error| text += &format!("; not filled: {error}"));
    let empty = || Field::number(String::new(), -1.0);
    let name = Field::text(format!("{} backfill", relay.state.station));
    Some(vec![name, Field::text(""), empty(), empty(), empty(), Field::number(text, backfill.missing as f64)])
}

/// Returns the panel of the view.
pub(super) fn table(relays: &[HostRelay]) -> Table {
    let rows = relays.iter().flat_map(|relay| link_rows(relay).chain(backfill_row(relay))).collect();
    Table { heads: &["RELAY", "STREAM", "RTT", "AGE P99", "REPAIRED", "GIVEN UP"], rows }
}

/// Returns the table of a snapshot.
pub(super) fn plain_table(relays: &[HostRelay]) -> layout::Table<6> {
    let mut table = layout::Table::new([
        ("RELAY", Align::Left),
        ("STREAM", Align::Left),
        ("RTT", Align::Right),
        ("AGE P99", Align::Right),
        ("REPAIRED", Align::Right),
        ("GIVEN UP", Align::Left),
    ]);
    for row in self::table(relays).rows {
        let cells: Vec<String> = row.into_iter().map(|field| field.text).collect();
        table.row(cells.try_into().expect("as many as heads"));
    }
    table
}

/// Returns the relays as JSON, an object for each link.
pub(super) fn objects(relays: &[HostRelay]) -> Vec<Value> {
    let of_link = |relay: &HostRelay, link: &RelayLink| {
        let streams = link.streams.iter().map(|it| {
            json!({
                "stream": it.name, "age_p50_ns": it.age.map(|age| age.p50_ns),
                "age_p99_ns": it.age.map(|age| age.p99_ns), "deadline_ns": it.deadline_ns, "priority": it.priority,
                "delivered": it.delivered, "missing": it.missing, "given_up": it.given_up,
                "in_flight": it.in_flight, "causes": it.causes, "degraded": it.degraded,
            })
        });
        json!({
            "event": "relay", "pid": relay.pid, "role": relay.state.role, "station": relay.state.station,
            "peer": link.peer, "peer_station": link.station, "is_up": link.is_up,
            "round_trip_ns": link.round_trip_ns, "sent_packets": link.sent_packets,
            "repaired_packets": link.repaired_packets, "streams": streams.collect::<Vec<_>>(),
            "backfill": relay.state.backfill,
        })
    };
    let links =
        relays.iter().flat_map(|relay| relay.state.links.iter().map(move |link| of_link(relay, link)));
    links.collect()
}

/// Returns the direction in which samples go.
fn path(relay: &HostRelay, link: &RelayLink) -> String {
    let peer = link.station.as_deref().unwrap_or(&link.peer);
    let arrow = if relay.state.role == "far" { "←" } else { "→" };
    let down = if link.is_up { "" } else { " (down)" };
    format!("{} {arrow} {peer}{down}", relay.state.station)
}

fn given_up(stream: Option<&RelayStream>) -> String {
    let Some(stream) = stream else { return String::new() };
    let degraded =
        stream.degraded.as_deref().map_or_else(String::new, |why| format!("; now {}", why.replace('_', " ")));
    format!("{}{}{degraded}", stream.given_up, because(&stream.causes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallycast::{RelayAge, RelayBackfill};

    fn relays() -> Vec<HostRelay> {
        let stream = RelayStream {
            name: "lab/a".to_owned(),
            given_up: 5,
            causes: vec![("repair".to_owned(), 5)],
            age: Some(RelayAge { p50_ns: 52_000_000, p99_ns: 160_500_000, largest_ns: 170_000_000 }),
            degraded: Some("too_far".to_owned()),
            ..RelayStream::default()
        };
        let up = RelayLink {
            station: Some("far".to_owned()),
            is_up: true,
            round_trip_ns: Some(100_200_000),
            repaired_packets: 2,
            streams: vec![stream],
            ..RelayLink::default()
        };
        let down = RelayLink { peer: "10.0.0.9:7400".to_owned(), ..RelayLink::default() };
        let (role, station) = ("near".to_owned(), "home".to_owned());
        let errors = vec![("lab/a".to_owned(), "disk full".to_owned())];
        let backfill = RelayBackfill { samples: 7, bytes: 56, errors, ..RelayBackfill::default() };
        let (links, backfill) = (vec![up, down], Some(backfill));
        let state = RelayState { role, station, links, backfill, ..RelayState::default() };
        vec![HostRelay { pid: 7, state }]
    }

    #[test]
    fn streams_links_without_streams_and_the_backfill_have_a_row_each() {
        let rows: Vec<Vec<String>> = table(&relays())
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(|field| field.text).collect())
            .collect();
        assert_eq!(
            rows,
            [
                ["home → far", "lab/a", "100.2 ms", "160.5 ms", "2", "5 (repair 5); now too far"],
                ["home → 10.0.0.9:7400 (down)", "", "?", "?", "0", ""],
                ["home backfill", "", "", "", "", "7 samples sent, 56 B; not filled: lab/a: disk full"],
            ]
        );
        assert!(plain_table(&relays()).lines(80).len() > 2);
    }

    #[test]
    fn the_objects_have_the_same_in_units() {
        let objects = objects(&relays());
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0]["streams"][0]["age_p99_ns"], 160_500_000);
        assert_eq!(
            (&objects[0]["round_trip_ns"], &objects[1]["is_up"]),
            (&json!(100_200_000), &json!(false))
        );
        assert_eq!(
            (&objects[0]["backfill"]["samples"], &objects[1]["backfill"]["bytes"]),
            (&json!(7), &json!(56))
        );
    }
}
