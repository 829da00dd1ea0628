//! What a monitor is started with, and what can keep it from starting.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sample::StreamPattern;
use tallycast::{Node, NodeError};

use crate::archived::ArchivedHistory;
use crate::derived::{DerivedError, DerivedStream};
use crate::operators::{DEFAULT_PYTHON, OperatorConfig, OperatorError};
use crate::stored::HistoryStore;

/// Where a monitor listens unless told otherwise: on this machine only.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_MONITOR_PORT);
const DEFAULT_MONITOR_PORT: u16 = 7480;
/// The name of the monitor's account unless told otherwise.
const DEFAULT_READER: &str = "monitor";

/// The most pages at one time: a control room and everybody at home.
pub const MAX_PAGES: usize = 256;
/// The most pages of one address unless told otherwise: a laboratory behind one address opens dozens, and three more have room.
pub const DEFAULT_PAGES_PER_ADDRESS: usize = MAX_PAGES / 4;
/// How long a connection may ask for nothing, take nothing, or answer no ping: what `docs/protocol/page.md` promises.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a monitor is started with.
#[derive(Clone)]
pub struct MonitorConfig {
    /// The bus it reads, and publishes derived streams on.
    pub node: Node,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The name of its account.
    pub reader: String,
    /// The streams it joins at once; more may be joined while it runs.
    pub patterns: Vec<StreamPattern>,
    /// The streams it derives from the start.
    pub derived: Vec<DerivedStream>,
    /// The operators in Python that it starts, and ends with itself.
    pub operators: Vec<OperatorConfig>,
    /// The interpreter that runs them.
    pub python: String,
    /// What lies behind live memory.
    pub history: Option<Arc<dyn HistoryStore>>,
    /// How loss is planted in the publishers, for demonstrations.
    pub inject: Option<Arc<dyn InjectControl>>,
    /// Names under which pages may ask, beside the address bound, `localhost` and the host's own name.
    pub allowed_hosts: Vec<String>,
    /// The most pages of one address, 1 to [`MAX_PAGES`]; its share of the connections is the same.
    pub pages_per_address: usize,
    /// How long a connection may ask for nothing, take nothing of what it is sent, or answer no ping.
    pub patience: Duration,
}

impl MonitorConfig {
    /// Makes the configuration of a monitor of all streams, on this machine only, without an archive.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            listen: DEFAULT_LISTEN,
            reader: DEFAULT_READER.to_owned(),
            patterns: vec![StreamPattern::all()],
            derived: Vec::new(),
            operators: Vec::new(),
            python: DEFAULT_PYTHON.to_owned(),
            history: None,
            inject: None,
            allowed_hosts: Vec::new(),
            pages_per_address: DEFAULT_PAGES_PER_ADDRESS,
            patience: PATIENCE,
        }
    }

    /// Shows what the archive in `root` holds behind live memory; it may come to be later.
    #[must_use]
    pub fn archive(mut self, root: impl Into<PathBuf>) -> Self {
        self.history = Some(Arc::new(ArchivedHistory::new(root.into())));
        self
    }
}

/// A hand on the publishers' injected loss: what the page's switch moves.
pub trait InjectControl: Send + Sync {
    /// Withholds datagrams with this probability from now on.
    ///
    /// # Errors
    /// What kept the publishers from hearing it, for people.
    fn set(&self, probability: f64) -> Result<(), String>;

    /// Returns the probability that was set last.
    fn get(&self) -> f64;
}

/// Says why a monitor cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Somebody else listens there.
    #[error(
        "{0} is in use by another program, perhaps another monitor\n\
         choose another port with --listen, such as --listen {ip}:{port}", ip = .0.ip(), port = .0.port().wrapping_add(1)
    )]
    PortTaken(SocketAddr),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {cause}\nchoose an address of this host with --listen")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The bus cannot be read.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A derived stream cannot be.
    #[error("invalid derived stream `{name}`: {cause}")]
    Derived {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        cause: DerivedError,
    },
    /// An operator cannot be.
    #[error("invalid operator `{name}`: {cause}")]
    Operator {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        cause: OperatorError,
    },
    /// The system refuses another thread.
    #[error("cannot start another thread: {0}\nraise the limit on processes (ulimit -u)")]
    Thread(#[source] io::Error),
}
