//! `/metrics`: the accounts of all streams as counters that never fall, and how the monitor itself fares.
//!
//! Each scrape takes one snapshot of the accounts and writes it. Start with [`Picture::take`].

mod alarms;
mod frames;
mod relayed;
mod shared_views;

use std::fmt;
use std::time::Duration;

use ledger::{Outcome, Stage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tallycast::{
    AdmissionCounts, KeyServiceState, KeyState, PortStatus, UnauthenticCounts, UnjoinedStreams, WallTime,
};

use crate::admission::Visitor;
use crate::clock;
use crate::host_gate::Protection;
use crate::operators::{OperatorState, OperatorStatus};
use crate::shared::Shared;
use crate::stored::DiskStatus;
use crate::totals::Counts;

/// The media type of what [`Picture::encode`] returns.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics at one moment that a visitor may read.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    families: Vec<Family>,
}

#[derive(Clone, Debug)]
struct Family {
    /// Without the `_total` that the encoder gives a counter.
    name: String,
    help: String,
    kind: Kind,
    values: Values,
}

type Labels = Vec<(&'static str, String)>;
type Values = Vec<(Labels, f64)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Counter,
    Gauge,
}

/// A stream's counts as they go into a picture.
struct StreamCounts {
    name: String,
    counts: [Counts; 2],
    unsettled: [u64; 2],
    moves: Vec<(String, &'static str, u64)>,
    hops: Vec<((u8, Outcome), u64)>,
    lost_in_browsers: u64,
    unauthentic: UnauthenticCounts,
    unconfirmed_epochs: u64,
    age_seconds: f64,
}

impl Picture {
    /// Takes the picture.
    pub(crate) fn take(shared: &Shared, visitor: &Visitor) -> Self {
        let now = clock::now();
        let streams = shared.history.streams().into_iter().filter_map(|slot| {
            let (name, age) = {
                let memory = slot.memory();
                (memory.info.name.as_str().to_owned(), memory.age(now))
            };
            if !visitor.reads(&name) {
                return None;
            }
            let totals = slot.totals();
            let from = |stage: Option<Stage>| stage.map_or("unexplained", Stage::name).to_owned();
            let moves = totals.moves();
            Some(StreamCounts {
                name,
                counts: totals.counts(),
                unsettled: totals.unsettled(),
                moves: moves.iter().map(|((before, to), count)| (from(*before), to.name(), *count)).collect(),
                hops: totals.hops().into_iter().collect(),
                lost_in_browsers: slot.lost_in_browsers(),
                unauthentic: slot.unauthentic(),
                unconfirmed_epochs: slot.unconfirmed_epochs(),
                age_seconds: age.as_secs_f64(),
            })
        });
        let mut picture = Self { families: Vec::new() };
        picture.add_streams(&streams.collect::<Vec<_>>());
        picture.add_relays(&shared.reception.relays(), |stream| visitor.reads(stream));
        picture.add_sockets(&shared.reception.ports());
        let mut operators = shared.operators();
        operators.retain(|operator| visitor.reads(&operator.name));
        picture.add_operators(&operators);
        picture.add_monitor(shared);
        picture.add_shared_views(&shared.shared_views.counts());
        picture.add_frames(shared.renditions.counts());
        picture.add_alarms(&shared.alarms.list(&shared.history, |stream| visitor.reads(stream)));
        picture.add_acknowledgements(shared.alarms.acknowledgements());
        picture.add_keys(shared.reception.keys(), clock::wall());
        picture.add_disk(shared.store.as_ref().and_then(|store| store.disk()));
        picture
    }

    fn add_streams(&mut self, streams: &[StreamCounts]) {
        let label = |stream: &StreamCounts| vec![("stream", stream.name.clone())];
        for (index, (unit, arrived)) in
            [("datagrams", "received"), ("elements", "delivered")].iter().enumerate()
        {
            let each = |count: fn(&StreamCounts, usize) -> u64| {
                streams.iter().map(|stream| (label(stream), count(stream, index) as f64)).collect()
            };
            self.add(
                format!("tallycast_{unit}_{arrived}"),
                format!("{unit} {arrived} since this monitor joined the stream"),
                Kind::Counter,
                each(|stream, index| stream.counts[index].arrived),
            );
            self.add(
                format!("tallycast_{unit}_lost"),
                format!("{unit} lost, by the stage they were first settled in"),
                Kind::Counter,
                streams.iter().flat_map(|stream| lost(stream, index)).collect(),
            );
            self.add(
                format!("tallycast_{unit}_unsettled"),
                format!("{unit} missing that still wait for evidence"),
                Kind::Gauge,
                each(|stream, index| stream.unsettled[index]),
            );
        }
        let moves = streams.iter().flat_map(|stream| {
            stream.moves.iter().map(|(from, to, count)| {
                let labels = [("stream", stream.name.clone()), ("from", from.clone())];
                ([labels.to_vec(), vec![("to", (*to).to_owned())]].concat(), *count as f64)
            })
        });
        self.add(
            "tallycast_datagrams_reclassified".to_owned(),
            "settled datagrams that moved to another stage later, such as those that came late".to_owned(),
            Kind::Counter,
            moves.collect(),
        );
        self.add_hops(streams);
        let unauthentic = streams.iter().flat_map(|stream| {
            let reasons = stream.unauthentic.by_reason().into_iter().filter(|(_, count)| *count > 0);
            reasons.map(|(reason, count)| {
                (vec![("stream", stream.name.clone()), ("reason", reason.to_owned())], count as f64)
            })
        });
        self.add(
            "tallycast_datagrams_unauthentic".to_owned(),
            "datagrams in the name of a secured stream that were not authentic, by reason: in no account"
                .to_owned(),
            Kind::Counter,
            unauthentic.collect(),
        );
        let unconfirmed = streams.iter().filter(|stream| stream.unconfirmed_epochs > 0);
        self.add(
            "tallycast_unconfirmed_epochs".to_owned(),
            "epochs of a secured stream that began although the publisher did not answer: only clocks tell them from recordings"
                .to_owned(),
            Kind::Counter,
            unconfirmed.map(|stream| (label(stream), stream.unconfirmed_epochs as f64)).collect(),
        );
        let lost_in_browsers = streams.iter().map(|it| (label(it), it.lost_in_browsers as f64));
        self.add(
            "tallycast_monitor_browser_elements_lost".to_owned(),
            "elements that slid out of a page's window unseen, stage `browser`, all pages together"
                .to_owned(),
            Kind::Counter,
            lost_in_browsers.collect(),
        );
        self.add(
            "tallycast_newest_sample_age_seconds".to_owned(),
            "time since the newest sample came".to_owned(),
            Kind::Gauge,
            streams.iter().map(|stream| (label(stream), stream.age_seconds)).collect(),
        );
    }

    /// Adds the statistics of the receiving sockets, which the accounts of streams do not include.
    fn add_sockets(&mut self, ports: &[PortStatus]) {
        let label = |port: &PortStatus| vec![("address", port.address.to_string())];
        let with =
            |port: &PortStatus, name, value: &str| [label(port), vec![(name, value.to_owned())]].concat();
        let each = |value: fn(&PortStatus) -> f64| {
            ports.iter().map(|port| (label(port), value(port))).collect::<Vec<_>>()
        };
        let unmatched = ports.iter().flat_map(|port| {
            let stages = port.unmatched.nonzero();
            stages.map(|(stage, count)| (with(port, "stage", stage.name()), count as f64)).collect::<Vec<_>>()
        });
        let unused = ports.iter().flat_map(|port| {
            port.stats.unused().map(|(reason, count)| (with(port, "reason", reason), count as f64))
        });
        let waits = ports.iter().flat_map(|port| {
            let quantiles = [("0.5", port.waits.median), ("0.99", port.waits.percentile_99)];
            quantiles.map(|(quantile, wait)| (with(port, "quantile", quantile), wait.as_secs_f64()))
        });
        let unauthentic = ports.iter().flat_map(|port| {
            let reasons = port.unauthentic.by_reason().into_iter().filter(|(_, count)| *count > 0);
            reasons.map(|(reason, count)| (with(port, "reason", reason), count as f64))
        });
        let families: [(&str, &str, Kind, Vec<_>); 8] = [
            ("datagrams_read", "datagrams read", Kind::Counter, each(|port| port.stats.datagrams as f64)),
            (
                "datagrams_dropped",
                "datagrams dropped because the receive buffer was full (SO_RXQ_OVFL)",
                Kind::Counter,
                each(|port| f64::from(port.drops)),
            ),
            (
                "datagrams_unmatched",
                "surplus of evidence: losses counted by the kernel or a publisher beyond what is missing",
                Kind::Counter,
                unmatched.collect(),
            ),
            ("datagrams_unused", "datagrams read and not used", Kind::Counter, unused.collect()),
            (
                "datagrams_unauthentic",
                "datagrams on a secured bus that were not authentic, by reason: of whatever stream they claimed",
                Kind::Counter,
                unauthentic.collect(),
            ),
            (
                "receive_buffer_bytes",
                "receive buffer as the kernel counts it",
                Kind::Gauge,
                each(|port| port.buffer.effective_bytes as f64),
            ),
            (
                "wait_seconds",
                "time that the oldest datagram of each read waited in the socket, since it was opened",
                Kind::Gauge,
                waits.collect(),
            ),
            (
                "longest_wait_seconds",
                "longest time a datagram waited in the socket before it was read",
                Kind::Gauge,
                each(|port| port.waits.longest.as_secs_f64()),
            ),
        ];
        self.add_all("tallycast_socket_", families);
    }

    /// Adds how the operators fare, each by its name.
    fn add_operators(&mut self, operators: &[OperatorStatus]) {
        let label = |it: &OperatorStatus| vec![("operator", it.operator.clone())];
        let each = |value: fn(&OperatorStatus) -> f64| {
            operators.iter().map(|it| (label(it), value(it))).collect::<Vec<_>>()
        };
        let lost = operators.iter().flat_map(|it| {
            let stages = it.report.lost_elements.iter().map(|(stage, count)| (stage.clone(), *count));
            let all = stages.chain([("unexplained".to_owned(), it.report.unexplained_elements)]);
            all.map(|(stage, count)| ([label(it), vec![("stage", stage)]].concat(), count as f64))
        });
        let is_up = |it: &OperatorStatus| {
            f64::from(u8::from(matches!(it.state, OperatorState::Running | OperatorState::Lagging)))
        };
        let families: [(&str, &str, Kind, Vec<_>); 7] = [
            ("up", "1 if the operator's process runs and reports", Kind::Gauge, each(is_up)),
            ("starts", "processes started for the operator", Kind::Counter, each(|it| it.starts as f64)),
            (
                "behind_seconds",
                "how much older what the operator reads is than it was at best",
                Kind::Gauge,
                each(|it| it.report.behind_ns as f64 / 1e9),
            ),
            (
                "samples_offered",
                "samples of the operator's output that were decided, holes included",
                Kind::Counter,
                each(|it| it.report.offered_samples as f64),
            ),
            (
                "samples_source",
                "samples of the operator's output that are holes",
                Kind::Counter,
                each(|it| it.report.source_samples as f64),
            ),
            (
                "elements_delivered",
                "elements of its inputs that reached the operator",
                Kind::Counter,
                each(|it| it.report.delivered_elements as f64),
            ),
            (
                "elements_lost",
                "elements of its inputs lost on the path to the operator, by stage",
                Kind::Counter,
                lost.collect(),
            ),
        ];
        self.add_all("tallycast_monitor_operator_", families);
    }

    /// Adds the state of the keys of a secured bus.
    fn add_keys(&mut self, keys: Option<KeyState>, wall: WallTime) {
        let Some(KeyState { token, service, failed_reloads, certificate_ends, refused_reports }) = keys
        else {
            return;
        };
        self.add_key_service(service);
        let left_seconds = certificate_ends.nanos_since(wall) as f64 / 1e9;
        let token = token.map(|token| (vec![("token", token)], 1.0));
        let refused = refused_reports.by_reason();
        let refused = refused.map(|(reason, count)| (vec![("reason", reason.to_owned())], count as f64));
        let families: [(&str, &str, Kind, Vec<_>); 4] = [
            (
                "keys_in_use",
                "1 for the secret with which this process sends",
                Kind::Gauge,
                token.into_iter().collect(),
            ),
            (
                "keys_refused_files",
                "changed files of keys that could not be used: the keys before stay",
                Kind::Counter,
                vec![(Vec::new(), failed_reloads as f64)],
            ),
            (
                "keys_certificate_left_seconds",
                "time until the station's certificate ends; negative after that",
                Kind::Gauge,
                vec![(Vec::new(), left_seconds)],
            ),
            (
                "reports_unauthentic",
                "reports and requests to this process's publishers that were refused on a secured bus, by reason",
                Kind::Counter,
                refused.to_vec(),
            ),
        ];
        self.add_all("tallycast_", families);
    }

    /// Adds what is known of the key service of a secured bus.
    fn add_key_service(&mut self, service: Option<KeyServiceState>) {
        let Some(KeyServiceState { address, left, silent, unanswered, refused }) = service else { return };
        let labels = || vec![("service", address.clone())];
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        let families = [
            (
                "left_seconds",
                "time until the last secret held ends; then nothing is sent",
                Kind::Gauge,
                seconds(left),
            ),
            (
                "silent_seconds",
                "time since the key service last left a question unanswered, 0 while it answers",
                Kind::Gauge,
                seconds(silent),
            ),
            (
                "refused",
                "1 if the key service gives this station no secrets",
                Kind::Gauge,
                f64::from(u8::from(refused.is_some())),
            ),
            (
                "unanswered",
                "questions to the key service that were repeated",
                Kind::Counter,
                unanswered as f64,
            ),
        ];
        for (name, help, kind, value) in families {
            self.add(
                format!("tallycast_keys_service_{name}"),
                help.to_owned(),
                kind,
                vec![(labels(), value)],
            );
        }
    }

    /// Adds the level of the archive's disk.
    fn add_disk(&mut self, disk: Option<DiskStatus>) {
        let Some(DiskStatus { free_bytes, size_bytes, is_alarm }) = disk else { return };
        let families = [
            ("free_bytes", "bytes that can still be written to the archive's disk", free_bytes as f64),
            ("size_bytes", "size of the archive's disk", size_bytes as f64),
            (
                "alarm",
                "1 from 80 % of the archive's disk in use until below 75 %",
                f64::from(u8::from(is_alarm)),
            ),
        ];
        for (name, help, value) in families {
            let name = format!("tallycast_archive_disk_{name}");
            self.add(name, help.to_owned(), Kind::Gauge, vec![(Vec::new(), value)]);
        }
    }

    fn add_monitor(&mut self, shared: &Shared) {
        let [frames, dropped] = shared.viewers.counts().map(|count| count as f64);
        let viewers = shared.viewers.open() as f64;
        let mut add = |name: &str, help: &str, kind, value| {
            self.add(format!("tallycast_monitor_{name}"), help.to_owned(), kind, vec![(Vec::new(), value)]);
        };
        add("viewers", "pages that are connected", Kind::Gauge, viewers);
        add("frames_sent", "frames sent to pages", Kind::Counter, frames);
        add("frames_dropped", "frames not made because a page did not keep up", Kind::Counter, dropped);
        let messages = shared.refusals.messages() as f64;
        add("messages_refused", "messages of pages that could not be followed", Kind::Counter, messages);
        let insecure = f64::from(u8::from(shared.gate.protection() == Protection::Insecure));
        add(
            "insecure",
            "1 if page and API are open to other hosts without encryption",
            Kind::Gauge,
            insecure,
        );
        let refused = shared.certificates.as_ref().map_or(0, |it| it.refused_files());
        add(
            "certificates_refused",
            "changed files of the certificate that could not be used: the previous one stays",
            Kind::Counter,
            refused as f64,
        );
        let refused = shared.gatekeeper.refused_files() as f64;
        let help = "changed files of users, tokens or rules that could not be used: the previous ones stay";
        add("access_files_refused", help, Kind::Counter, refused);
        let slots = &shared.slots;
        add("connections", "connections that are open, pages among them", Kind::Gauge, slots.taken() as f64);
        let bound = slots.bounds.connections as f64;
        add(
            "connections_limit",
            "connections that may be open: half the open files allowed, at most 1024",
            Kind::Gauge,
            bound,
        );
        let closed = slots.tally.closed_counts().map(|(why, count)| (why.name(), count));
        let turned_away = slots.tally.turned_away_counts().map(|(why, count)| (why.name(), count));
        let by_reason = |counts: &[(&'static str, u64)]| {
            counts.iter().map(|(why, count)| (vec![("reason", (*why).to_owned())], *count as f64)).collect()
        };
        self.add(
            "tallycast_monitor_connections_closed".to_owned(),
            "connections closed because they broke a bound".to_owned(),
            Kind::Counter,
            by_reason(&closed),
        );
        self.add(
            "tallycast_monitor_turned_away".to_owned(),
            "connections and pages that were not taken, by the bound that was reached".to_owned(),
            Kind::Counter,
            by_reason(&turned_away),
        );
        self.add(
            "tallycast_rings_distrusted".to_owned(),
            "requested rings of this host that were not trusted: another user wrote them".to_owned(),
            Kind::Counter,
            vec![(Vec::new(), shared.reception.rings_distrusted() as f64)],
        );
        let UnjoinedStreams { named, beyond, admission, unauthentic } = shared.reception.unjoined();
        self.add(
            "tallycast_streams_unjoined".to_owned(),
            "requested streams that could not be joined: addresses, descriptors, memory or memberships were used up"
                .to_owned(),
            Kind::Counter,
            vec![(Vec::new(), named.len() as f64 + beyond as f64)],
        );
        let AdmissionCounts { given_up, displaced, put_off, out_of_range } = admission;
        let reasons = [
            ("given_up", given_up),
            ("displaced", displaced),
            ("put_off", put_off),
            ("out_of_range", out_of_range),
        ];
        self.add(
            "tallycast_announcements_not_followed".to_owned(),
            "announced groups that were left because no description came (given_up), or sooner for others (displaced), and \
             announcements that were put off or lie outside the bus's range"
                .to_owned(),
            Kind::Counter,
            by_reason(&reasons),
        );
        self.add(
            "tallycast_announcements_unauthentic".to_owned(),
            "announcements that were refused on a secured bus, by reason".to_owned(),
            Kind::Counter,
            by_reason(&unauthentic.by_reason()),
        );
        let requests = shared.refusals.requests().into_iter();
        self.add(
            "tallycast_monitor_requests_refused".to_owned(),
            "requests answered with an error, by status".to_owned(),
            Kind::Counter,
            requests.map(|(status, count)| (vec![("status", status.to_string())], count as f64)).collect(),
        );
        let visitors = shared.refusals.visitors().into_iter();
        self.add(
            "tallycast_monitor_access_refused".to_owned(),
            "refusals because of who asks or from where: a line of the access file, a scope, a password, a token, Host or Origin"
                .to_owned(),
            Kind::Counter,
            visitors.map(|(reason, count)| (vec![("reason", reason)], count as f64)).collect(),
        );
    }

    /// Adds families whose names begin alike.
    fn add_all<'a>(
        &mut self,
        prefix: &str,
        families: impl IntoIterator<Item = (&'a str, &'a str, Kind, Values)>,
    ) {
        for (name, help, kind, values) in families {
            self.add(format!("{prefix}{name}"), help.to_owned(), kind, values);
        }
    }

    fn add(&mut self, name: String, help: String, kind: Kind, values: Values) {
        self.families.push(Family { name, help, kind, values });
    }

    /// Returns the picture as text.
    pub(crate) fn encode(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// Returns the stages with losses, and what nothing explains.
fn lost(stream: &StreamCounts, index: usize) -> Vec<(Vec<(&'static str, String)>, f64)> {
    let counts = &stream.counts[index];
    let stages = counts.lost.nonzero().map(|(stage, count)| (stage.name(), count));
    let all = stages.chain([("unexplained", counts.unexplained)]);
    all.map(|(stage, count)| {
        (vec![("stream", stream.name.clone()), ("stage", stage.to_owned())], count as f64)
    })
    .collect()
}

impl Collector for Picture {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.families {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
            };
            let mut values = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
            for (labels, value) in &family.values {
                let labels = labels.as_slice();
                let value_encoder = values.encode_family(&labels)?;
                match family.kind {
                    Kind::Counter => ConstCounter::new(*value).encode(value_encoder)?,
                    Kind::Gauge => ConstGauge::new(*value).encode(value_encoder)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene;
    use ledger::StageCounts;

    #[test]
    fn the_level_of_the_archives_disk_is_shown_if_there_is_one() {
        let text = |disk| {
            let mut picture = Picture { families: Vec::new() };
            picture.add_disk(disk);
            picture.encode().unwrap()
        };
        assert!(!text(None).contains("archive_disk"));
        let shown = text(Some(DiskStatus { free_bytes: 150, size_bytes: 1_000, is_alarm: true }));
        for line in ["free_bytes{} 150.0", "size_bytes{} 1000.0", "alarm{} 1.0"] {
            assert!(shown.contains(&format!("tallycast_archive_disk_{line}")), "{line} is not in\n{shown}");
        }
    }

    #[test]
    fn the_state_of_the_keys_is_shown_on_a_secured_bus() {
        let text = |keys| {
            let mut picture = Picture { families: Vec::new() };
            picture.add_keys(keys, WallTime::from_nanos(1_000_000_000));
            picture.encode().unwrap()
        };
        assert!(!text(None).contains("keys"));
        let shown = text(Some(KeyState {
            token: Some("00c0ffee".to_owned()),
            service: Some(KeyServiceState {
                address: "keys:7409".to_owned(),
                left: Some(Duration::from_secs(7_000)),
                silent: None,
                unanswered: 6,
                refused: None,
            }),
            failed_reloads: 2,
            certificate_ends: WallTime::from_nanos(4_000_000_000),
            refused_reports: UnauthenticCounts { replayed: 5, ..UnauthenticCounts::default() },
        }));
        for line in [
            r#"keys_in_use{token="00c0ffee"} 1"#,
            "keys_refused_files_total{} 2",
            r#"keys_service_left_seconds{service="keys:7409"} 7000"#,
            r#"keys_service_silent_seconds{service="keys:7409"} 0"#,
            r#"keys_service_unanswered_total{service="keys:7409"} 6"#,
            "keys_certificate_left_seconds{} 3",
            r#"reports_unauthentic_total{reason="replayed"} 5"#,
        ] {
            assert!(shown.contains(&format!("tallycast_{line}")), "{line} is not in\n{shown}");
        }
    }

    #[test]
    fn a_flood_of_forged_datagrams_shows_at_its_socket_whatever_stream_it_claims() {
        let unauthentic = UnauthenticCounts { clear: 9, ..UnauthenticCounts::default() };
        let mut picture = Picture { families: Vec::new() };
        picture.add_sockets(&[PortStatus { unauthentic, ..scene::port() }]);
        let text = picture.encode().unwrap();
        let line =
            r#"tallycast_socket_datagrams_unauthentic_total{address="239.84.3.4:7400",reason="clear"} 9"#;
        assert!(text.contains(line) && !text.contains("bad_tag"), "{text}");
    }

    #[test]
    fn losses_have_the_names_people_search_for() {
        let counts = Counts { arrived: 90, lost: StageCounts::of(Stage::Injected, 7), unexplained: 3 };
        let stream = StreamCounts {
            name: "lab/x".to_owned(),
            counts: [counts; 2],
            unsettled: [2, 20],
            moves: vec![("unexplained".to_owned(), "late", 1)],
            hops: Vec::new(),
            lost_in_browsers: 5,
            unauthentic: UnauthenticCounts { bad_tag: 6, ..UnauthenticCounts::default() },
            unconfirmed_epochs: 4,
            age_seconds: 0.5,
        };
        let mut picture = Picture { families: Vec::new() };
        picture.add_streams(&[stream]);
        let text = picture.encode().unwrap();
        for line in [
            r#"tallycast_datagrams_lost_total{stream="lab/x",stage="injected"} 7"#,
            r#"tallycast_elements_lost_total{stream="lab/x",stage="unexplained"} 3"#,
            r#"tallycast_datagrams_unsettled{stream="lab/x"} 2"#,
            r#"tallycast_datagrams_reclassified_total{stream="lab/x",from="unexplained",to="late"} 1"#,
            r#"tallycast_monitor_browser_elements_lost_total{stream="lab/x"} 5"#,
            r#"tallycast_datagrams_unauthentic_total{stream="lab/x",reason="bad_tag"} 6"#,
            r#"tallycast_unconfirmed_epochs_total{stream="lab/x"} 4"#,
            r#"tallycast_newest_sample_age_seconds{stream="lab/x"} 0.5"#,
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("wrong_sender"), "only what happened: {text}");
    }
}
