//! A verdict as an object: `docs/doctor.md`.

use fate::{Evidence, Place, Verdict};
use serde_json::{Value, json};

/// What may be seen without privilege: counters and other processes' sockets, not single datagrams.
const TIER: &str = "T1";

/// Returns a verdict as an object; `not_observed` is what its look could not put down to any socket.
#[must_use]
pub fn verdict_json(verdict: &Verdict, not_observed: u64) -> Value {
    let (mut port, mut reader, mut place) = (Value::Null, Value::Null, json!("namespace"));
    match &verdict.place {
        Place::Socket { local, owner, .. } => {
            port = json!(local.port());
            reader = owner.as_ref().map_or(Value::Null, |(pid, name)| json!(format!("{name}[{pid}]")));
            place = json!(local.to_string());
        }
        Place::Device(name) => place = json!(name),
        Place::Namespace => {}
        Place::Host => place = json!("host"),
    }
    let evidence = |it: &Evidence| json!({ "counter": it.counter, "rise": it.rise });
    let cures = verdict.cures.iter();
    json!({
        "port": port,
        "reader": reader,
        "place": place,
        "stage": verdict.stage.name(),
        "count": verdict.count,
        "unit": verdict.unit.in_words(),
        "apportioned": verdict.is_apportioned,
        "not_observed": not_observed,
        "evidence": verdict.evidence.iter().map(evidence).collect::<Vec<_>>(),
        "why": verdict.why,
        "cure": cures.clone().map(|cure| cure.command.as_ref().unwrap_or(&cure.what)).collect::<Vec<_>>(),
        "undo": cures.filter_map(|cure| cure.undo.as_ref()).collect::<Vec<_>>(),
        "tier": TIER,
    })
}
