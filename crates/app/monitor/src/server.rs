//! Starting and stopping a monitor: its intake thread, its server, and what they share.
//!
//! The server is the only asynchronous part of the project, on two threads. Start with [`start`].

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use graph::plan::check_operators;
use tallycast::{StreamAccount, SubscriberBuilder};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::admission::{Gatekeeper, SessionCookie};
use crate::alarms::{self, Alarms};
use crate::clock;
use crate::config::{MAX_PAGES, MonitorConfig, MonitorError};
use crate::connections::{Bounds, Caller, Encryption, Gate, Slots};
use crate::host_gate::{HostGate, Protection};
use crate::http::router;
use crate::intake::{Intake, Processes};
use crate::kept_graph::{self, GraphKeeper};
use crate::nodes::{Nodes, OnBus};
use crate::operators::{Operators, Setting};
use crate::requests::{Command, Requests};
use crate::revocation::refresh;
use crate::runs;
use crate::shared::{Parts, Shared};
use crate::shared_views::{self, ViewBoard};
use crate::state_lock::StateLock;
use crate::steering::{Desk, tend};
use crate::tls::{Authority, Certificates};

/// Frames are made within milliseconds: two threads serve a control room.
const SERVER_THREADS: usize = 2;
/// Reads of the store and of spans wait for each other anyway. Passwords that wait for their turn leave threads for them
/// and for the look at revocations.
const BLOCKING_THREADS: usize = identity::MAX_WAITING + 8;
/// Maximum time for open connections to end.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// A running monitor. Dropping it stops it.
pub struct MonitorHandle {
    address: SocketAddr,
    shared: Arc<Shared>,
    intake: Option<JoinHandle<Vec<StreamAccount>>>,
    /// Keeps the runs of the experiment.
    runs: Option<JoinHandle<()>>,
    runtime: Option<Runtime>,
    /// Released behind the last write.
    state: Option<StateLock>,
}

/// Starts a monitor; its page can be opened once this returns.
///
/// # Errors
/// [`MonitorError`] if the address cannot be listened at, the bus not be read, or a node or an operator not be.
pub fn start(config: MonitorConfig) -> Result<MonitorHandle, MonitorError> {
    let listener = listen(config.listen)?;
    let address = listener.local_addr().map_err(|cause| listen_error(config.listen, cause))?;
    let names = own_names(&config);
    let certificates =
        Certificates::new(&config.tls, config.tls_folder.clone(), address, &names)?.map(Arc::new);
    let protection = Protection::of(address, certificates.is_some());
    if protection == Protection::Insecure {
        if !config.insecure {
            return Err(MonitorError::Unencrypted(address));
        }
        tracing::warn!(
            "page and API at {address} are not encrypted: every host on the way can read and change them\n\
             remove --insecure and --tls off, except on a network whose hosts are all trusted"
        );
    }
    let state = config.state.as_deref().map(|folder| StateLock::take(folder, address)).transpose()?.flatten();
    let (commands, orders) = channel();
    let shared = Arc::new(Shared::new(Parts {
        level: config.node.level(),
        store: config.history.clone(),
        inject: config.inject.clone(),
        started: clock::wall(),
        gate: HostGate::new(address, protection, names),
        certificates,
        gatekeeper: Arc::new(Gatekeeper::open(config.access.as_deref(), address)?),
        cookie: SessionCookie::new(address, protection),
        requests: Requests::new(commands, config.patterns.clone()),
        slots: Arc::new(Slots::new(bounds(&config))),
        alarms: Alarms::open(config.acknowledgements())?,
        desk: Desk::new(config.node.clone(), config.steering_keys.clone()),
        shared_views: ViewBoard::open(config.shared_views()),
        has_programs: config.programs.is_some(),
    }));
    if !address.ip().is_loopback() && !shared.gatekeeper.has_users() {
        tracing::warn!("no user can sign in at {address}\nadd one: tallycast access user add NAME");
    }
    let intake = intake(&config, &shared)?;
    let runtime = serve(listener, &shared).map_err(MonitorError::Thread)?;
    shared.reception.set_listening(true);
    let runs = keep_runs(&config, &shared);
    let thread = std::thread::Builder::new().name("monitor-intake".to_owned());
    let told = Arc::clone(&shared);
    let intake = thread.spawn(move || {
        // Dropped also on a panic: then the health check reports it.
        let _silence = Silence(told);
        intake.run(&orders)
    });
    let intake = Some(intake.map_err(MonitorError::Thread)?);
    Ok(MonitorHandle { address, shared, intake, runs, runtime: Some(runtime), state })
}

impl MonitorHandle {
    /// Returns the listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of its page, as a browser of this host opens it.
    #[must_use]
    pub fn page(&self) -> String {
        let scheme = if self.shared.certificates.is_some() { "https" } else { "http" };
        // No browser can ask for all addresses of a host, and no certificate names them.
        if self.address.ip().is_unspecified() {
            return format!("{scheme}://localhost:{}/", self.address.port());
        }
        format!("{scheme}://{}/", self.address)
    }

    /// Returns the local authority that signs its certificate, if one does.
    #[must_use]
    pub fn authority(&self) -> Option<&Authority> {
        self.shared.certificates.as_ref()?.authority()
    }

    /// Returns every account: those of ended epochs, then the open ones, at most half a second old and without their
    /// lists of gaps.
    #[must_use]
    pub fn accounts(&self) -> Vec<StreamAccount> {
        self.shared.history.accounts()
    }

    /// Lets the streams end first, for so long, and with them the nodes that read them; then stops the server.
    /// Returns every account, ended or cut now.
    ///
    /// A node's stream ends with its final tally as soon as its inputs have ended, so that its own account
    /// closes here and at every other reader. Pages are served meanwhile.
    #[must_use]
    pub fn finish(mut self, patience: Duration) -> Vec<StreamAccount> {
        self.end(patience)
    }

    /// Stops the server, the nodes and the intake now; returns every account, ended or cut.
    #[must_use]
    pub fn stop(self) -> Vec<StreamAccount> {
        self.finish(Duration::ZERO)
    }

    fn end(&mut self, patience: Duration) -> Vec<StreamAccount> {
        if let Some(state) = &self.state {
            state.is_ending();
        }
        self.shared.requests.send(Command::Finish(patience));
        let accounts = self.intake.take().map(JoinHandle::join);
        self.shared.stopping.send_replace(true);
        // Its stream ends with a tally, so that its accounts close.
        let _ended = self.runs.take().map(JoinHandle::join);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_PATIENCE);
        }
        // Whatever failed has been said and counted; this is the last attempt.
        drop(self.shared.shared_views.save());
        drop(self.state.take());
        // An intake that panicked has printed the cause; its last accounts are kept.
        accounts.and_then(Result::ok).unwrap_or_else(|| self.shared.history.accounts())
    }
}

impl Drop for MonitorHandle {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Records on drop that the intake no longer listens.
struct Silence(Arc<Shared>);

impl Drop for Silence {
    fn drop(&mut self) {
        self.0.reception.set_listening(false);
    }
}

/// Keeps runs of the experiment until the monitor stops; a monitor without that does all the rest.
fn keep_runs(config: &MonitorConfig, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let kept = runs::start(&config.node, Arc::clone(shared));
    kept.inspect_err(|cause| tracing::warn!("runs are not kept: {cause}")).ok()
}

/// Returns the descriptors available to connections; the process's limit on open files is raised for the streams.
fn bounds(config: &MonitorConfig) -> Bounds {
    let share = config.pages_per_address.clamp(1, MAX_PAGES);
    Bounds::new(sys::raise_descriptor_limit(), share, MAX_PAGES, config.patience)
}

fn listen(address: SocketAddr) -> Result<TcpListener, MonitorError> {
    let listener = TcpListener::bind(address).map_err(|cause| listen_error(address, cause))?;
    listener.set_nonblocking(true).map_err(|cause| listen_error(address, cause))?;
    Ok(listener)
}

fn listen_error(address: SocketAddr, cause: io::Error) -> MonitorError {
    match cause.kind() {
        io::ErrorKind::AddrInUse => MonitorError::PortTaken(address),
        _ => MonitorError::Listen { address, cause },
    }
}

/// Returns the usual names of this host.
fn own_names(config: &MonitorConfig) -> Vec<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    config.allowed_hosts.iter().cloned().chain(host).collect()
}

fn intake(config: &MonitorConfig, shared: &Arc<Shared>) -> Result<Intake, MonitorError> {
    let mut patterns = config.patterns.iter();
    check_operators(&config.operators).map_err(|(name, cause)| MonitorError::Operator { name, cause })?;
    let first = kept_graph::first(config);
    *kept_graph::lock(&shared.origin) = first.origin;
    let mut nodes = Nodes::new(OnBus(config.node.clone()), config.operators.clone());
    // No stream is known yet: each node is checked again by what its inputs have.
    let begun = nodes.begin(first.nodes, first.revision)?;
    let mut joined = begun.join;
    let keeper = GraphKeeper::start(Arc::clone(&shared.origin)).map_err(MonitorError::Thread)?;
    // A subscriber begins with a pattern; one without any reads only what its nodes read, or waits for requests.
    let first = patterns.next().cloned().or_else(|| joined.pop());
    let builder = first.map(|first| config.node.subscriber(first.to_string()));
    let builder = builder.unwrap_or_else(|| config.node.subscriber(NOTHING));
    let builder = patterns.fold(builder, |builder, pattern| builder.pattern(pattern.to_string()));
    let mut builder = SubscriberBuilder::reader(builder, config.reader.clone());
    if let Some(deadline) = config.deadline {
        builder = builder.deadline(deadline);
    }
    let subscriber = builder.open()?;
    // After the intake has started, so that their output is received.
    let setting = Setting {
        python: config.python.clone(),
        programs: config.programs.clone(),
        node: config.node.clone(),
        board: Arc::clone(&shared.operators),
    };
    let operators = Operators::start(&config.operators, setting).map_err(MonitorError::Thread)?;
    joined.extend(operators.patterns());
    let mut intake = Intake::new(subscriber, nodes, Processes { operators, keeper }, Arc::clone(shared));
    intake.join(joined);
    intake.begin_operators(&begun.begun).map_err(MonitorError::Thread)?;
    intake.show_graph();
    Ok(intake)
}

/// A pattern that no stream is expected to match.
const NOTHING: &str = "tallycast/monitor/nothing";

fn serve(listener: TcpListener, shared: &Arc<Shared>) -> io::Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVER_THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("monitor-server")
        .enable_all()
        .build()?;
    let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) })?;
    let encryption = shared.certificates.as_ref().map(|it| Encryption {
        acceptor: TlsAcceptor::from(Arc::new(it.server_config())),
        gate: shared.gate.clone(),
    });
    let gate = Gate::new(listener, encryption, Arc::clone(&shared.slots));
    let router = router(Arc::clone(shared)).into_make_service_with_connect_info::<Caller>();
    let stopped = || {
        let mut stopping = shared.stopping.subscribe();
        // An error means that the monitor is gone, which also counts as a stop.
        async move { drop(stopping.wait_for(|stopping| *stopping).await) }
    };
    runtime.spawn(refresh(Arc::clone(&shared.gatekeeper), stopped()));
    runtime.spawn(tend(Arc::clone(shared), stopped()));
    runtime.spawn(shared_views::keep(Arc::clone(shared), stopped()));
    runtime.spawn(alarms::keep(Arc::clone(shared), stopped()));
    let stopped = stopped();
    runtime.spawn(async move {
        if let Err(error) = axum::serve(gate, router).with_graceful_shutdown(stopped).await {
            tracing::error!("the monitor's server ended: {error}");
        }
    });
    Ok(runtime)
}
