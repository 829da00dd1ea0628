//! Configuration of a monitor, and errors of its start.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use graph::GraphError;
use graph::plan::{OperatorConfig, OperatorError};
use identity::FolderError;
use sample::StreamPattern;
use tallycast::udt::Keys;
use tallycast::{Node, NodeError};

use crate::alarms::AlarmsError;
use crate::archived::ArchivedHistory;
use crate::operators::DEFAULT_PYTHON;
use crate::stored::HistoryStore;
use crate::tls::{Tls, TlsError};

/// Default listening address of a monitor: this machine only.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_MONITOR_PORT);
const DEFAULT_MONITOR_PORT: u16 = 7480;
/// Default name of the monitor's account.
const DEFAULT_READER: &str = "monitor";

/// Maximum number of pages at one time: a control room and remote participants.
pub const MAX_PAGES: usize = 256;
/// Default maximum of pages per address: a laboratory behind one address opens dozens, and three more have room.
pub const DEFAULT_PAGES_PER_ADDRESS: usize = MAX_PAGES / 4;
/// Maximum size of a request's body, and of a message of the page.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 * 1024;
/// Maximum time a connection may be idle, accept no data, or answer no ping, as documented in `docs/protocol/page.md`.
const PATIENCE: Duration = Duration::from_secs(30);

/// Configuration of a monitor.
#[derive(Clone)]
pub struct MonitorConfig {
    /// The bus it reads, and publishes the streams of its nodes on.
    pub node: Node,
    /// Listening address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Encryption of its connections.
    pub tls: Tls,
    /// Folder of the local certificate authority; without one the automatic certificate is an error.
    pub tls_folder: Option<PathBuf>,
    /// True if it may listen on other addresses than loopback without encryption.
    pub insecure: bool,
    /// Folder of users, tokens and rules; without it, anyone may do anything on loopback, and nobody anything elsewhere.
    pub access: Option<PathBuf>,
    /// The name of its account.
    pub reader: String,
    /// Age from which samples are of no use to it; none by default. Relays keep it, and older samples are lost.
    pub deadline: Option<Duration>,
    /// Streams it joins at the start; more may be joined while it runs.
    pub patterns: Vec<StreamPattern>,
    /// The nodes of its graph at the start, unless another file has them or others were applied.
    pub nodes: Vec<graph::plan::Node>,
    /// File with the graph at the start, instead of `nodes` and of the graph that was applied last.
    pub graph_file: Option<GraphFile>,
    /// Folder of the Python files whose functions a graph that is sent may name; without it, such a graph has no operators.
    pub programs: Option<PathBuf>,
    /// The operators in Python that it starts, and ends with itself.
    pub operators: Vec<OperatorConfig>,
    /// The interpreter that runs them.
    pub python: String,
    /// Store behind live memory.
    pub history: Option<Arc<dyn HistoryStore>>,
    /// Control for losses injected in the publishers, for demonstrations.
    pub inject: Option<Arc<dyn InjectControl>>,
    /// Keys of its connections to apps that take commands over secured connections only; the apps it lists are trusted.
    pub steering_keys: Option<Keys>,
    /// Folder of what outlasts the monitor: shared views, acknowledged alarms, and the graph that was applied last. Without
    /// one, they end with it.
    pub state: Option<PathBuf>,
    /// True if the graph that was applied last is kept there.
    pub keeps_graph: bool,
    /// Accepted `Host` names, in addition to the bound address, `localhost` and the host's own name.
    pub allowed_hosts: Vec<String>,
    /// The most pages of one address, 1 to [`MAX_PAGES`]; its share of the connections is the same.
    pub pages_per_address: usize,
    /// Maximum time a connection may be idle, accept no data, or answer no ping.
    pub patience: Duration,
}

impl MonitorConfig {
    /// Makes the configuration of a monitor of all streams, on this machine only, without an archive.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self {
            node,
            listen: DEFAULT_LISTEN,
            tls: Tls::default(),
            tls_folder: default_tls_folder(),
            insecure: false,
            access: None,
            reader: DEFAULT_READER.to_owned(),
            deadline: None,
            patterns: vec![StreamPattern::all()],
            nodes: Vec::new(),
            graph_file: None,
            programs: None,
            operators: Vec::new(),
            python: DEFAULT_PYTHON.to_owned(),
            history: None,
            inject: None,
            steering_keys: None,
            state: None,
            keeps_graph: true,
            allowed_hosts: Vec::new(),
            pages_per_address: DEFAULT_PAGES_PER_ADDRESS,
            patience: PATIENCE,
        }
    }

    /// Returns the folder of the shared views.
    pub(crate) fn shared_views(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("views"))
    }

    /// Returns the file of acknowledged alarms.
    pub(crate) fn acknowledgements(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("alarms.json"))
    }

    /// Returns the file of the graph that was applied last.
    pub(crate) fn kept_graph(&self) -> Option<PathBuf> {
        self.state.as_ref().filter(|_| self.keeps_graph).map(|state| state.join("graph.json"))
    }

    /// Shows the archive in `root` behind live memory; it may be created later.
    #[must_use]
    pub fn archive(mut self, root: impl Into<PathBuf>) -> Self {
        self.history = Some(Arc::new(ArchivedHistory::new(root.into())));
        self
    }
}

/// Returns the folder of what outlasts a monitor at this port, `$XDG_STATE_HOME/tallycast/monitor/PORT`; none for port 0,
/// since the one that the system chooses is another's the next time.
#[must_use]
pub fn default_state(port: u16) -> Option<PathBuf> {
    let state = sys::folders::state().filter(|_| port != 0)?;
    Some(state.join(format!("tallycast/monitor/{port}")))
}

/// A graph that was read from a file.
#[derive(Clone, PartialEq, Debug)]
pub struct GraphFile {
    /// The file.
    pub path: PathBuf,
    /// Its nodes.
    pub nodes: Vec<graph::plan::Node>,
}

/// Returns the folder of the local certificate authority: `$XDG_STATE_HOME/tallycast/tls`.
#[must_use]
pub fn default_tls_folder() -> Option<PathBuf> {
    sys::folders::state().map(|state| state.join("tallycast/tls"))
}

/// Control of the publishers' injected loss: the page's switch.
pub trait InjectControl: Send + Sync {
    /// Withholds datagrams with this probability from now on.
    ///
    /// # Errors
    /// Message for the user: why the publishers were not reached.
    fn set(&self, probability: f64) -> Result<(), String>;

    /// Returns the probability that was set last.
    fn get(&self) -> f64;
}

/// Reason why a monitor cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// Somebody else listens there.
    #[error(
        "{0} is in use by another program, perhaps another monitor\n\
         choose another port with --listen, such as --listen {ip}:{port}", ip = .0.ip(), port = .0.port().wrapping_add(1)
    )]
    PortTaken(SocketAddr),
    /// Another server has the folder of what outlasts it.
    #[error(
        "another monitor server keeps its files in {}: {holder}\n\
         end that one, or start this one at another port with --listen, or with another XDG_STATE_HOME", folder.display()
    )]
    StateInUse {
        /// The folder.
        folder: PathBuf,
        /// The other server: its process and address.
        holder: String,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {cause}\nchoose an address of this host with --listen")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// Others could read and change what pages and programs send.
    #[error(
        "page and API at {0} would not be encrypted\n\
         remove --tls off, or add --insecure where every host on the way is trusted"
    )]
    Unencrypted(SocketAddr),
    /// Connections cannot be encrypted.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Users, tokens or rules are wrong.
    #[error(transparent)]
    Access(#[from] FolderError),
    /// Acknowledged alarms cannot be read.
    #[error(transparent)]
    Alarms(#[from] AlarmsError),
    /// The bus cannot be read.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The nodes do not fit together.
    #[error("the graph cannot run\n{0}")]
    Graph(#[from] GraphError),
    /// An operator cannot be.
    #[error("invalid operator `{name}`: {cause}")]
    Operator {
        /// Its name.
        name: String,
        /// Cause.
        #[source]
        cause: OperatorError,
    },
    /// The system refuses another thread.
    #[error("cannot start another thread: {0}\nraise the limit on processes (ulimit -u)")]
    Thread(#[source] io::Error),
}
