//! A stream's schema and its publisher's totals as JSON, as `docs/reference/cli.md` describes them.

use cast::send::ReportStats;
use sample::{Channel, Schema};
use serde_json::{Value, json};
use wire::Totals;

use crate::publisher::Publisher;

/// Returns a schema as one JSON object.
#[must_use]
pub fn schema_json(schema: &Schema) -> Value {
    let channel = |channel: &Channel| {
        json!({"name": channel.name, "unit": channel.unit, "shape": channel.shape,
               "scale": channel.scale, "offset": channel.offset})
    };
    json!({
        "dtype": schema.dtype.name(),
        "rate": {"numerator": schema.rate.numerator(), "denominator": schema.rate.denominator()},
        "elements_per_sample": schema.elements_per_sample(),
        "channels": schema.channels.iter().map(channel).collect::<Vec<_>>(),
        "labels": schema.labels,
    })
}

/// Returns a publisher's totals as one JSON object: those of its current epoch, and in addition, as
/// `earlier`, the number and totals of the epochs that have ended, and as `reports` the counts of its
/// readers' reports.
#[must_use]
pub fn publisher_json(publisher: &Publisher) -> Value {
    let earlier = publisher.earlier_epochs();
    let mut json = totals_json(&publisher.totals());
    json["earlier"] = totals_json(&earlier.totals);
    json["earlier"]["epochs"] = json!(earlier.epochs);
    json["reports"] = reports_json(publisher.status().reports);
    json
}

/// Returns the counts of the reports of an epoch's readers as one JSON object: those accepted, and the others
/// by reason.
#[must_use]
pub fn reports_json(reports: ReportStats) -> Value {
    let ReportStats { taken, foreign, too_many, borrowed, displaced } = reports;
    json!({
        "taken": taken, "foreign": foreign, "too_many": too_many, "borrowed": borrowed, "displaced": displaced,
    })
}

/// Returns a publisher's totals as one JSON object: samples by outcome, and datagrams that were not sent.
#[must_use]
pub fn totals_json(totals: &Totals) -> Value {
    let (samples, datagrams) = (&totals.samples, &totals.datagrams);
    json!({
        "samples": {
            "offered": samples.offered,
            "numbered": samples.numbered,
            "source": samples.source,
            "publisher_queue": samples.publisher_queue,
            "publisher_paused": samples.publisher_paused,
            "queued": samples.queued,
        },
        "datagrams": {
            "injected": datagrams.injected,
            "sender_socket": datagrams.sender_socket,
            "sender_ip": datagrams.sender_ip,
            "sender_qdisc": datagrams.sender_qdisc,
            "sender_nic": datagrams.sender_nic,
            "bytes": datagrams.bytes,
        },
    })
}
