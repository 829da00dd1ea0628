//! All apps by their status streams: running, late, starving or gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cyclic::{AppLook, AppState, Feeder, Observer, Registration, STATUS_PREFIX, StatusRow, feeder_of};
use sample::{Block, Schema, StreamName};
use serde_json::{Value, json};
use sys::clock;
use units::{Epoch, StreamId};

use crate::event::{Event, StreamAccount, StreamInfo};
use crate::node::{Node, NodeError};
use crate::subscriber::Subscriber;

/// Pattern of the status streams of all apps.
const ALL_APPS: &str = "apps/**";
/// Maximum number of observed apps: beyond it, gone apps are forgotten first.
const MAX_APPS: usize = 4_096;
/// Maximum number of events per call, so that a watcher of many busy apps returns to its work; the rest waits
/// for the next call. It covers several cycles of every app.
const MAX_EVENTS_PER_CALL: usize = 8 * MAX_APPS;
/// Age in the rows of an input from which no sample has arrived.
const NEVER: u64 = cyclic::NEVER;

/// A reader of the status streams of all apps on the bus.
pub struct AppsWatch {
    node: Node,
    subscriber: Subscriber,
    /// Observed apps by name.
    apps: BTreeMap<StreamName, Observed>,
    warned_of_crowd: bool,
}

/// An observed app, by the status stream of its newest run.
struct Observed {
    stream: StreamId,
    epoch: Epoch,
    schema: Arc<Schema>,
    observer: Observer,
}

impl AppsWatch {
    /// Begins to watch all apps of the node's bus.
    ///
    /// # Errors
    /// [`NodeError`] if a socket cannot be opened.
    pub fn open(node: &Node) -> Result<Self, NodeError> {
        let subscriber = node.subscriber(ALL_APPS).open()?;
        Ok(Self { node: node.clone(), subscriber, apps: BTreeMap::new(), warned_of_crowd: false })
    }

    /// Takes the events of the apps until `patience` is over, or until an app may become gone by its silence;
    /// returns whether any arrived.
    pub fn follow(&mut self, patience: Duration) -> bool {
        let now = clock::monotonic();
        // Apps that are gone already are not waited for.
        let silent =
            self.apps.values().filter_map(|app| app.observer.silent_at()).filter(|at| *at >= now).min();
        let silence = silent.map(|at| at.since(now) + Duration::from_nanos(1));
        let mut wait = silence.map_or(patience, |silence| silence.min(patience));
        let mut news = false;
        for _ in 0..MAX_EVENTS_PER_CALL {
            let Some(event) = self.subscriber.next(wait) else { break };
            self.take(&event);
            (news, wait) = (true, Duration::ZERO);
        }
        news
    }

    /// Returns snapshots of all apps, in the order of their names.
    #[must_use]
    pub fn apps(&self) -> Vec<AppLook> {
        let now = clock::monotonic();
        self.apps.values().map(|app| app.observer.look(now)).collect()
    }

    /// Returns the existing streams, announced or in this host's memory, so that a source that is no app can
    /// be distinguished from a missing publisher.
    ///
    /// # Errors
    /// [`NodeError`] if announcements cannot be received and no memory is shared on this host.
    pub fn streams(&self) -> Result<BTreeSet<StreamName>, NodeError> {
        let on_host = self.node.streams_on_host().into_iter();
        let mut streams: BTreeSet<StreamName> = on_host.map(|it| it.description.name.clone()).collect();
        match self.node.streams(Duration::ZERO) {
            Ok(announced) => streams.extend(announced.into_iter().map(|it| it.announcement.name)),
            // The warning was logged when the subscriber was opened, which also works with this host's
            // streams alone.
            Err(_) if self.node.host_rings().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(streams)
    }

    /// Leaves all status streams and returns their accounts.
    #[must_use]
    pub fn close(self) -> Vec<StreamAccount> {
        self.subscriber.close()
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Began(info) => self.observe(info),
            Event::Block(block) => self.take_rows(block),
            Event::Ended(account) => {
                // The end of an earlier run may be reported long after the app has been restarted.
                let is_it = |app: &&mut Observed| (app.stream, app.epoch) == (account.id, account.epoch);
                if let Some(app) = self.apps.values_mut().find(is_it) {
                    app.observer.ended();
                }
            }
            Event::Gap(_) | Event::Settled(_) | Event::Statement(_) => {}
        }
    }

    fn observe(&mut self, info: &StreamInfo) {
        let Some(registration) = Registration::read(&info.name, &info.schema) else {
            tracing::warn!(
                "`{}` is not a status stream of this version and is not shown as an app\n\
                 update the app, or give the stream another name",
                info.name
            );
            return;
        };
        let name = registration.app.clone();
        if !(self.apps.contains_key(&name) || self.has_room()) {
            return;
        }
        let observer = Observer::new(registration, info.station.clone(), clock::monotonic());
        let schema = Arc::clone(&info.schema);
        self.apps.insert(name, Observed { stream: info.id, epoch: info.epoch, schema, observer });
    }

    /// Makes room for another app, if necessary by forgetting one that is gone.
    fn has_room(&mut self) -> bool {
        if self.apps.len() < MAX_APPS {
            return true;
        }
        let now = clock::monotonic();
        let gone = self.apps.iter().find(|(_, app)| app.observer.state(now) == AppState::Gone);
        let gone = gone.map(|(name, _)| name.clone());
        if gone.is_none() && !std::mem::replace(&mut self.warned_of_crowd, true) {
            tracing::warn!("more than {MAX_APPS} apps are on the bus; only these are shown");
        }
        gone.is_some_and(|name| self.apps.remove(&name).is_some())
    }

    fn take_rows(&mut self, block: &Block) {
        let name = block.stream.as_str().strip_prefix(STATUS_PREFIX).and_then(|name| name.parse().ok());
        let app = name.and_then(|name: StreamName| self.apps.get_mut(&name));
        // Another run of the app may have another schema.
        let same_schema =
            |app: &Observed| Arc::ptr_eq(&app.schema, &block.schema) || app.schema == block.schema;
        let Some(app) = app.filter(|app| app.epoch == block.epoch && same_schema(app)) else { return };
        let Ok(elements) = block.elements::<u64>() else { return };
        let now = clock::monotonic();
        let rows = elements.chunks_exact(block.schema.elements_per_sample() as usize);
        for (row, index) in rows.zip(block.first_index..) {
            if let Some(row) = StatusRow::read(row) {
                app.observer.told(now, index, row);
            }
        }
    }
}

/// Returns an app as JSON, with its feeders and readers; `streams` are the existing streams.
///
/// Layout: `docs/guide/cyclic.md`, "JSON".
#[must_use]
pub fn app_json(app: &AppLook, apps: &[AppLook], streams: &BTreeSet<StreamName>) -> Value {
    let it = &app.registration;
    let newest = app.newest.as_ref();
    let row = newest.map(|(_, row)| row);
    let inputs = it.inputs.iter().enumerate().map(|(place, wire)| {
        let status = row.and_then(|row| row.inputs.get(place));
        let (feeder, feeder_state) = match feeder_of(apps, streams, &wire.stream) {
            Feeder::App(feeder) => (Some(feeder.registration.app.as_str()), feeder.state.name()),
            Feeder::Source => (None, "source"),
            Feeder::Nobody => (None, "nobody"),
        };
        json!({
            "stream": wire.stream.as_str(),
            "take": wire.take.to_string(),
            "feeder": feeder,
            "feeder_state": feeder_state,
            "starving": app.starving.get(place),
            "age_ns": status.map(|status| status.age_ns).filter(|age| *age != NEVER),
            "samples": status.map(|status| status.samples),
            "lost_elements": status.map(|status| status.lost_elements),
            "missed": status.map(|status| status.missed),
            "late": status.map(|status| status.late),
        })
    });
    let outputs = it.outputs.iter().map(|stream| {
        let reads = |other: &&AppLook| other.registration.inputs.iter().any(|wire| wire.stream == *stream);
        let readers: Vec<&str> =
            apps.iter().filter(reads).map(|reader| reader.registration.app.as_str()).collect();
        json!({"stream": stream.as_str(), "readers": readers})
    });
    json!({
        "event": "app",
        "app": it.app.as_str(),
        "station": app.station,
        "pid": row.map(|row| row.pid),
        "period_ns": u64::try_from(it.beat.period.as_nanos()).unwrap_or(u64::MAX),
        "phase_ns": u64::try_from(it.beat.phase.as_nanos()).unwrap_or(u64::MAX),
        "scheduling": it.scheduling,
        "state": app.state.name(),
        "cycle": newest.map(|(index, _)| *index),
        "lateness_ns": row.map(|row| row.lateness_ns),
        "run_time_ns": row.map(|row| row.run_time_ns),
        "overruns": row.map(|row| row.overruns),
        "skipped": row.map(|row| row.skipped),
        "alarms": row.map(|row| row.alarms),
        "inputs": inputs.collect::<Vec<_>>(),
        "outputs": outputs.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene;
    use cyclic::Beat;
    use ledger::AccountState;
    use sample::SampleBuffer;
    use units::{RangeSet, WallTime};
    use zerocopy::IntoBytes;

    fn watch(directory: &tempfile::TempDir) -> AppsWatch {
        let bus = format!("shm://watched?dir={}", directory.path().display());
        AppsWatch::open(&Node::open(bus.parse().unwrap()).unwrap()).unwrap()
    }

    /// Returns the status stream of one run of an app that never becomes gone by silence.
    fn run(start_ns: u64) -> StreamInfo {
        let registration = Registration {
            app: "engine".parse().unwrap(),
            beat: Beat { period: Duration::from_secs(3_600), phase: Duration::ZERO },
            scheduling: "other".to_owned(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let (name, schema) = (registration.status_stream().unwrap(), registration.schema().unwrap());
        StreamInfo {
            id: wire::stream_id(&name, &schema),
            name: Arc::new(name),
            epoch: Epoch { start_ns, incarnation: 0 },
            origin: None,
            schema: Arc::new(schema),
            station: "rig".to_owned(),
            first_index: 0,
            join: 1,
        }
    }

    fn ended(run: &StreamInfo) -> Event {
        Event::Ended(scene::account(run, AccountState::Unconfirmed))
    }

    fn row(run: &StreamInfo, index: u64) -> Event {
        let mut row = Vec::new();
        StatusRow::default().write(&mut row);
        Event::Block(Block {
            stream: Arc::clone(&run.name),
            schema: Arc::clone(&run.schema),
            epoch: run.epoch,
            first_index: index,
            t0: WallTime::from_nanos(0),
            samples: 1,
            data: SampleBuffer::from_bytes(row.as_bytes()),
            missing: RangeSet::default(),
        })
    }

    #[test]
    fn late_events_of_an_earlier_run_do_not_affect_the_present_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut watch = watch(&directory);
        let (killed, restarted) = (run(1), run(2));
        for event in [Event::Began(Arc::new(killed.clone())), row(&killed, 70)] {
            watch.take(&event);
        }
        watch.take(&Event::Began(Arc::new(restarted.clone())));
        watch.take(&row(&restarted, 0));
        watch.take(&row(&killed, 71));
        watch.take(&ended(&killed));
        let [app] = &watch.apps()[..] else { panic!("one app") };
        assert_eq!(app.state, AppState::Running);
        assert_eq!(app.newest.as_ref().map(|(index, _)| *index), Some(0));
        watch.take(&ended(&restarted));
        assert_eq!(watch.apps()[0].state, AppState::Gone);
    }
}
