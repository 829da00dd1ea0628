//! State shared by the intake, the requests and the viewers of one monitor: each part is written by one of them.

use std::sync::Arc;

use tallycast::Level;
use tokio::sync::{Semaphore, watch};
use units::WallTime;

use crate::admission::{Gatekeeper, SessionCookie};
use crate::alarms::Alarms;
use crate::catalogue::Catalogue;
use crate::config::InjectControl;
use crate::connections::Slots;
use crate::history::History;
use crate::host_gate::HostGate;
use crate::kept_graph::OriginBoard;
use crate::operators::{OperatorBoard, OperatorStatus, lock};
use crate::reception::Reception;
use crate::refusals::Refusals;
use crate::requests::Requests;
use crate::runs::RunBoard;
use crate::shared_views::ViewBoard;
use crate::steering::Desk;
use crate::stored::HistoryStore;
use crate::tls::Certificates;
use crate::viewer::Renditions;
use crate::viewers::Viewers;

/// The most reads of the store at one time: the disk and the processors have other work.
const MAX_STORE_READS: usize = 2;

/// State shared by the parts of one monitor.
pub(crate) struct Shared {
    pub(crate) history: History,
    pub(crate) catalogue: Catalogue,
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) store_reads: Arc<Semaphore>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    /// Absent without encryption.
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) cookie: SessionCookie,
    /// True once the monitor stops. A channel rather than a [`sys::Cancellation`], since tasks wait for it.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) viewers: Arc<Viewers>,
    pub(crate) renditions: Arc<Renditions>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) refusals: Refusals,
    pub(crate) requests: Requests,
    pub(crate) reception: Reception,
    pub(crate) operators: OperatorBoard,
    /// Where the graph comes from.
    pub(crate) origin: OriginBoard,
    /// Whether a graph that is sent may have operators in Python.
    pub(crate) has_programs: bool,
    pub(crate) desk: Desk,
    pub(crate) shared_views: ViewBoard,
    pub(crate) runs: RunBoard,
    pub(crate) alarms: Alarms,
}

/// Initial parts of a monitor, apart from those that begin empty.
pub(crate) struct Parts {
    /// Level of the streams.
    pub(crate) level: Level,
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    /// Absent without encryption.
    pub(crate) certificates: Option<Arc<Certificates>>,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    pub(crate) cookie: SessionCookie,
    pub(crate) requests: Requests,
    pub(crate) slots: Arc<Slots>,
    pub(crate) desk: Desk,
    pub(crate) shared_views: ViewBoard,
    pub(crate) alarms: Alarms,
    /// Whether a graph that is sent may have operators in Python.
    pub(crate) has_programs: bool,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            history: History::default(),
            catalogue: Catalogue::new(parts.level),
            store: parts.store,
            store_reads: Arc::new(Semaphore::new(MAX_STORE_READS)),
            inject: parts.inject,
            started: parts.started,
            gate: parts.gate,
            certificates: parts.certificates,
            gatekeeper: parts.gatekeeper,
            cookie: parts.cookie,
            stopping: watch::Sender::new(false),
            viewers: Arc::new(Viewers::new(Arc::clone(&parts.slots))),
            renditions: Arc::default(),
            slots: parts.slots,
            refusals: Refusals::default(),
            requests: parts.requests,
            reception: Reception::default(),
            operators: OperatorBoard::default(),
            origin: OriginBoard::default(),
            has_programs: parts.has_programs,
            desk: parts.desk,
            shared_views: parts.shared_views,
            runs: RunBoard::default(),
            alarms: parts.alarms,
        }
    }

    /// Returns how the operators fare, as of a moment ago.
    pub(crate) fn operators(&self) -> Vec<OperatorStatus> {
        lock(&self.operators).values().cloned().collect()
    }
}
