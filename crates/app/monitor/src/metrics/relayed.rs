//! Metrics of relayed streams: what earlier hops lost, and how the relays of this host fare by their boards.

use ledger::Outcome;
use tallycast::{RelayBackfill, RelayOnHost, RelayState, RelayStream};

use super::{Kind, Labels, Picture, StreamCounts, Values};

/// A stream of a link, with the labels that name both.
struct OnLink {
    labels: Labels,
    stream: RelayStream,
}

impl Picture {
    /// Adds what relayed streams lost on the hops before the one on which they are read.
    pub(super) fn add_hops(&mut self, streams: &[StreamCounts]) {
        let each = streams.iter().flat_map(|it| it.hops.iter().map(|hop| (&it.name, hop)));
        let mut lost = Vec::new();
        let mut unsettled = Vec::new();
        for (stream, ((hop, outcome), count)) in each {
            let mut labels = vec![("stream", stream.clone()), ("hop", hop.to_string())];
            let stage = match outcome {
                Outcome::Unsettled => {
                    unsettled.push((labels, *count as f64));
                    continue;
                }
                Outcome::Unexplained => "unexplained",
                Outcome::Lost(stage) => stage.name(),
            };
            labels.push(("stage", stage.to_owned()));
            lost.push((labels, *count as f64));
        }
        self.add(
            "tallycast_hop_elements_lost".to_owned(),
            "elements of a relayed stream lost on an earlier hop, by the stage they were first settled in: \
             among those lost at stage `source`"
                .to_owned(),
            Kind::Counter,
            lost,
        );
        self.add(
            "tallycast_hop_elements_unsettled".to_owned(),
            "elements of a relayed stream missing on an earlier hop that still wait for evidence".to_owned(),
            Kind::Gauge,
            unsettled,
        );
    }

    /// Adds the relays of this host, with the streams that may be read.
    pub(super) fn add_relays(&mut self, relays: &[RelayOnHost], may_read: impl Fn(&str) -> bool) {
        let (mut links, mut streams, mut backfills) = (Vec::new(), Vec::new(), Vec::new());
        for (pid, state) in relays.iter().filter_map(|it| Some((it.pid, RelayState::read(it)?))) {
            if let Some(backfill) = state.backfill {
                backfills.push((vec![("pid", pid.to_string()), ("role", state.role.clone())], backfill));
            }
            for link in state.links {
                let labels = vec![
                    ("pid", pid.to_string()),
                    ("role", state.role.clone()),
                    ("peer", link.peer.clone()),
                    ("station", link.station.clone().unwrap_or_default()),
                ];
                let readable = link.streams.iter().filter(|stream| may_read(&stream.name));
                streams
                    .extend(readable.map(|stream| OnLink { labels: labels.clone(), stream: stream.clone() }));
                links.push((labels, link));
            }
        }
        if !backfills.is_empty() {
            self.add_backfills(&backfills);
        }
        if links.is_empty() {
            return;
        }
        let of_link = |value: fn(&tallycast::RelayLink) -> Option<f64>| -> Values {
            links.iter().filter_map(|(labels, link)| Some((labels.clone(), value(link)?))).collect()
        };
        let families = [
            (
                "link_up",
                "1 if the other relay answers",
                Kind::Gauge,
                of_link(|it| Some(f64::from(u8::from(it.is_up)))),
            ),
            (
                "round_trip_seconds",
                "smoothed round trip of a relay's link",
                Kind::Gauge,
                of_link(|it| Some(it.round_trip_ns? as f64 / 1e9)),
            ),
            (
                "packets_sent",
                "packets that a near relay sent for the first time, or a far relay received",
                Kind::Counter,
                of_link(|it| Some(it.sent_packets as f64)),
            ),
            (
                "packets_repaired",
                "packets that a near relay sent again, or that came to a far relay more than once",
                Kind::Counter,
                of_link(|it| Some(it.repaired_packets as f64)),
            ),
            (
                "waiting_bytes",
                "samples that wait at this end of a link, to be sent or behind holes",
                Kind::Gauge,
                of_link(|it| Some(it.waiting_bytes as f64)),
            ),
        ];
        self.add_all("tallycast_relay_", families);
        self.add_relayed_streams(&streams);
    }

    fn add_backfills(&mut self, backfills: &[(Labels, RelayBackfill)]) {
        let each = |value: fn(&RelayBackfill) -> u64| -> Values {
            backfills.iter().map(|(labels, it)| (labels.clone(), value(it) as f64)).collect()
        };
        let families = [
            (
                "samples",
                "samples that a far relay fetched into its archive, or a near relay sent from its own",
                Kind::Counter,
                each(|it| it.samples),
            ),
            ("bytes", "size of these samples", Kind::Counter, each(|it| it.bytes)),
            (
                "refused",
                "requests for missing samples, and answers, that were refused",
                Kind::Counter,
                each(|it| it.refused),
            ),
            (
                "missing_samples",
                "samples that the archive of a far relay misses",
                Kind::Gauge,
                each(|it| it.missing),
            ),
            (
                "missing_ranges",
                "consecutive ranges of samples that the archive of a far relay misses",
                Kind::Gauge,
                each(|it| it.ranges),
            ),
            (
                "lacking_samples",
                "missing samples that the archive of the near relay lacks, too",
                Kind::Gauge,
                each(|it| it.lacking),
            ),
            (
                "errors",
                "reasons why holes are not filled now",
                Kind::Gauge,
                each(|it| it.errors.len() as u64),
            ),
        ];
        self.add_all("tallycast_relay_backfill_", families);
    }

    fn add_relayed_streams(&mut self, streams: &[OnLink]) {
        let each = |value: fn(&RelayStream) -> Option<f64>| -> Values {
            streams.iter().filter_map(|it| Some((it.named(None), value(&it.stream)?))).collect()
        };
        let given_up = streams.iter().flat_map(|it| {
            let causes = it.stream.causes.iter();
            causes.map(|(cause, count)| (it.named(Some(("cause", cause.clone()))), *count as f64))
        });
        let ages = streams.iter().filter_map(|it| Some((it, it.stream.age?))).flat_map(|(it, age)| {
            let quantiles = [("0.5", age.p50_ns), ("0.99", age.p99_ns), ("1", age.largest_ns)];
            quantiles
                .map(|(share, nanos)| (it.named(Some(("quantile", share.to_owned()))), nanos as f64 / 1e9))
        });
        let degraded = streams.iter().filter_map(|it| {
            let reason = it.stream.degraded.clone()?;
            Some((it.named(Some(("reason", reason))), 1.0))
        });
        let families = [
            (
                "elements_delivered",
                "elements that the far relay published on its bus",
                Kind::Counter,
                each(|it| Some(it.delivered as f64)),
            ),
            (
                "elements_missing_before",
                "elements that were missing before the link",
                Kind::Counter,
                each(|it| Some(it.missing as f64)),
            ),
            (
                "elements_lost",
                "elements that the link lost, stage `deadline`",
                Kind::Counter,
                each(|it| Some(it.given_up as f64)),
            ),
            (
                "elements_given_up",
                "elements that this relay gave up, by cause; some may have arrived all the same",
                Kind::Counter,
                given_up.collect(),
            ),
            (
                "elements_in_flight",
                "elements that wait or are on the way",
                Kind::Gauge,
                each(|it| Some(it.in_flight as f64)),
            ),
            (
                "age_seconds",
                "age of samples when a near relay sent them or a far relay published them, over the last second",
                Kind::Gauge,
                ages.collect(),
            ),
            (
                "deadline_seconds",
                "age from which samples are given up",
                Kind::Gauge,
                each(|it| Some(it.deadline_ns? as f64 / 1e9)),
            ),
            (
                "degraded",
                "1 while a stream is not relayed as it should be, by reason",
                Kind::Gauge,
                degraded.collect(),
            ),
        ];
        self.add_all("tallycast_relay_", families);
    }
}

impl OnLink {
    fn named(&self, more: Option<(&'static str, String)>) -> Labels {
        let stream = ("stream", self.stream.name.clone());
        self.labels.iter().cloned().chain([stream]).chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::Stage;
    use tallycast::UnauthenticCounts;

    fn text(add: impl FnOnce(&mut Picture)) -> String {
        let mut picture = Picture { families: Vec::new() };
        add(&mut picture);
        picture.encode().unwrap()
    }

    #[test]
    fn losses_of_earlier_hops_have_their_hop_and_stage() {
        let stream = StreamCounts {
            name: "lab/x".to_owned(),
            counts: Default::default(),
            unsettled: [0; 2],
            moves: Vec::new(),
            hops: vec![
                ((0, Outcome::Unexplained), 8),
                ((1, Outcome::Lost(Stage::Deadline)), 9),
                ((1, Outcome::Unsettled), 10),
            ],
            lost_in_browsers: 0,
            unauthentic: UnauthenticCounts::default(),
            unconfirmed_epochs: 0,
            age_seconds: 0.0,
        };
        let text = text(|picture| picture.add_hops(&[stream]));
        for line in [
            r#"tallycast_hop_elements_lost_total{stream="lab/x",hop="0",stage="unexplained"} 8"#,
            r#"tallycast_hop_elements_lost_total{stream="lab/x",hop="1",stage="deadline"} 9"#,
            r#"tallycast_hop_elements_unsettled{stream="lab/x",hop="1"} 10"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_relay_of_this_host_is_shown_with_the_streams_that_may_be_read() {
        let state = br#"{"role":"near","station":"home","links":[{"peer":"10.0.0.1:7400","station":"far","is_up":true,
            "round_trip_ns":100000000,"sent_packets":9,"repaired_packets":2,"streams":[
            {"name":"lab/a","delivered":90,"missing":4,"given_up":5,"in_flight":1,"causes":[["repair",5]],
             "deadline_ns":300000000,"age":{"p50_ns":50000000,"p99_ns":150000000,"largest_ns":160000000},
             "degraded":"bandwidth"}, {"name":"secret/b","delivered":7}]}],
            "backfill":{"samples":4,"bytes":32,"missing":3,"ranges":2,"lacking":1,"errors":[["secret/b","disk full"]]}}"#;
        let relay = RelayOnHost { pid: 7, state: state.to_vec() };
        let broken = RelayOnHost { pid: 8, state: b"no state".to_vec() };
        let shown = text(|picture| picture.add_relays(&[relay, broken], |stream| stream.starts_with("lab/")));
        let link = r#"pid="7",role="near",peer="10.0.0.1:7400",station="far""#;
        for (name, more, value) in [
            ("link_up", "", "1"),
            ("round_trip_seconds", "", "0.1"),
            ("packets_sent_total", "", "9"),
            ("packets_repaired_total", "", "2"),
            ("waiting_bytes", "", "0"),
            ("elements_delivered_total", r#",stream="lab/a""#, "90"),
            ("elements_missing_before_total", r#",stream="lab/a""#, "4"),
            ("elements_lost_total", r#",stream="lab/a""#, "5"),
            ("elements_given_up_total", r#",stream="lab/a",cause="repair""#, "5"),
            ("elements_in_flight", r#",stream="lab/a""#, "1"),
            ("age_seconds", r#",stream="lab/a",quantile="0.99""#, "0.15"),
            ("deadline_seconds", r#",stream="lab/a""#, "0.3"),
            ("degraded", r#",stream="lab/a",reason="bandwidth""#, "1"),
        ] {
            let line = format!("tallycast_relay_{name}{{{link}{more}}} {value}");
            assert!(shown.contains(&line), "{line} is not in\n{shown}");
        }
        for (name, value) in [
            ("samples_total", 4),
            ("bytes_total", 32),
            ("refused_total", 0),
            ("missing_samples", 3),
            ("missing_ranges", 2),
            ("lacking_samples", 1),
            ("errors", 1),
        ] {
            let line = format!(r#"tallycast_relay_backfill_{name}{{pid="7",role="near"}} {value}"#);
            assert!(shown.contains(&line), "{line} is not in\n{shown}");
        }
        assert!(!shown.contains("secret"), "{shown}");
        assert!(!text(|picture| picture.add_relays(&[], |_| true)).contains("relay"));
    }
}
