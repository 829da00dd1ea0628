//! The graph that was applied last, kept in a file so that a monitor that is restarted runs it again.
//!
//! The file is written whole and renamed by a thread of its own, in the order of the changes; a change is answered once it
//! is there. A file that cannot be read or run is left where it is, and moved aside only when another graph is applied.
//! Start with [`first`] and [`GraphKeeper`].

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use graph::plan::{Node, OperatorConfig};
use graph::{Applied, GraphError, check_graph};
use serde::{Deserialize, Serialize};
use sys::private_file::{self, FileError, Privacy};
use tokio::sync::oneshot;

use crate::config::MonitorConfig;

/// Maximum size of the file: 256 nodes with long settings.
const MAX_BYTES: usize = 4 << 20;

/// What the file has.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    revision: u64,
    node: Vec<Node>,
}

/// Where a graph comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Origin {
    pub(crate) from: From,
    /// File of [`From::File`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// File in which the graph that was applied last is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<PathBuf>,
    /// Reason why the kept graph does not run, or this graph is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// How the graph came to this monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum From {
    /// With the settings.
    #[default]
    Settings,
    /// With `--graph`.
    File,
    /// It was applied before the monitor was restarted.
    Kept,
    /// It was applied since the start.
    Applied,
}

/// The graph that a monitor begins with.
pub(crate) struct First {
    pub(crate) nodes: Vec<Node>,
    pub(crate) revision: u64,
    pub(crate) origin: Origin,
}

/// A change that was applied, and whether it is kept.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Changed {
    #[serde(flatten)]
    pub(crate) applied: Applied,
    /// Whether a monitor that is restarted runs this graph.
    pub(crate) lasting: bool,
}

/// Answer to a request to change the graph.
pub(crate) type Answer = oneshot::Sender<Result<Changed, GraphError>>;

/// Where the graph comes from, as of a moment ago.
pub(crate) type OriginBoard = Arc<Mutex<Origin>>;

/// Chooses the graph that a monitor begins with: that of `--graph`, else the kept one, else that of the settings.
pub(crate) fn first(config: &MonitorConfig) -> First {
    let mut origin = Origin { kept: config.kept_graph(), ..Origin::default() };
    let read = origin.kept.as_deref().map(|path| read(path, &config.operators));
    let (kept, problem) = match read {
        None | Some(Ok(None)) => (None, None),
        Some(Ok(Some(kept))) => (Some(kept), None),
        Some(Err(problem)) => (None, Some(problem)),
    };
    // A revision names one graph, also beyond a restart.
    let next = kept.as_ref().map_or(0, |kept| kept.revision);
    let (nodes, revision) = match (&config.graph_file, kept) {
        (Some(file), _) => {
            (origin.from, origin.file) = (From::File, Some(file.path.clone()));
            (file.nodes.clone(), next + 1)
        }
        (None, Some(kept)) => {
            origin.from = From::Kept;
            if !config.nodes.is_empty() && config.nodes != kept.node {
                tracing::warn!(
                    "the graph that was applied last runs, and not that of the settings\n\
                     to begin with [[monitor.node]] again, remove {}",
                    shown(origin.kept.as_deref())
                );
            }
            (kept.node, kept.revision)
        }
        (None, None) => (config.nodes.clone(), next + u64::from(!config.nodes.is_empty())),
    };
    if let Some(problem) = problem {
        tracing::warn!("{problem}");
        origin.problem = Some(problem);
    }
    First { nodes, revision, origin }
}

fn read(path: &Path, operators: &[OperatorConfig]) -> Result<Option<Kept>, String> {
    let told = |why: &dyn core::fmt::Display| {
        format!(
            "the graph that was applied last does not run: {}: {why}\n\
             repair the file and restart, or apply another graph; the file is then kept beside it as {}.aside-N",
            path.display(),
            path.display()
        )
    };
    let text = private_file::read(path, Privacy::Open, MAX_BYTES).map_err(|error| told(&error))?;
    let Some(text) = text else { return Ok(None) };
    let kept: Kept = serde_json::from_str(&text).map_err(|error| told(&error))?;
    check_graph(&kept.node, operators).map_err(|error| told(&error))?;
    Ok(Some(kept))
}

fn shown(path: Option<&Path>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// Keeps graphs, and answers requests once theirs is kept. Dropping it ends its thread after the last one.
pub(crate) struct GraphKeeper {
    board: OriginBoard,
    orders: Option<Sender<(Kept, Applied, Answer)>>,
    thread: Option<JoinHandle<()>>,
}

impl GraphKeeper {
    /// Begins to keep graphs in the file of the origin, if it has one.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub(crate) fn start(board: OriginBoard) -> std::io::Result<Self> {
        let Some(path) = lock(&board).kept.clone() else {
            return Ok(Self { board, orders: None, thread: None });
        };
        let (orders, told) = channel();
        let shown = Arc::clone(&board);
        let thread = std::thread::Builder::new().name("monitor-keeper".to_owned());
        let thread = thread.spawn(move || keep(&path, &shown, &told))?;
        Ok(Self { board, orders: Some(orders), thread: Some(thread) })
    }

    /// Keeps the nodes of a graph that was applied, and answers behind that.
    pub(crate) fn applied(&self, nodes: Vec<Node>, applied: Applied, answer: Answer) {
        let Some(orders) = &self.orders else {
            lock(&self.board).from = From::Applied;
            // The client may have disconnected: the graph is changed all the same.
            let _ = answer.send(Ok(Changed { applied, lasting: false }));
            return;
        };
        let kept = Kept { revision: applied.revision, node: nodes };
        orders.send((kept, applied, answer)).expect("the thread ends behind the last order");
    }
}

impl Drop for GraphKeeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that keeps the graph failed");
        }
    }
}

fn keep(path: &Path, board: &OriginBoard, told: &Receiver<(Kept, Applied, Answer)>) {
    while let Ok((kept, applied, answer)) = told.recv() {
        let mut origin = lock(board).clone();
        // What could not be run is kept beside it: it may be needed.
        if origin.from != From::Applied && origin.problem.is_some() {
            match private_file::set_aside(path) {
                Ok(aside) => tracing::warn!("the graph that did not run is kept as {}", aside.display()),
                Err(error) => tracing::warn!("the graph that did not run is replaced: {error}"),
            }
        }
        let written = write(path, &kept);
        origin.from = From::Applied;
        origin.file = None;
        origin.problem = written.err().map(|error| {
            format!("a monitor that is restarted does not run this graph: {error}\napply it again once that is repaired")
        });
        if let Some(problem) = &origin.problem {
            tracing::warn!("{problem}");
        }
        let is_kept = origin.problem.is_none();
        *lock(board) = origin;
        // The client may have disconnected: the graph is changed all the same.
        let _ = answer.send(Ok(Changed { applied, lasting: is_kept }));
    }
}

fn write(path: &Path, kept: &Kept) -> Result<(), FileError> {
    let failed = |source| FileError::System { action: "write", path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(kept).expect("nodes have names as keys");
    private_file::replace(path, &(text + "\n"))
}

pub(crate) fn lock(board: &OriginBoard) -> std::sync::MutexGuard<'_, Origin> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thin(every: &str) -> Node {
        let node = serde_json::json!({"name": "lab/slow", "kind": "thin", "input": "lab/x", "every": every});
        serde_json::from_value(node).unwrap()
    }

    fn config(kept: &Path, settings: &[Node], file: Option<&[Node]>) -> MonitorConfig {
        let bus = "shm://kept".parse().unwrap();
        let mut config = MonitorConfig::new(tallycast::Node::builder().bus(bus).build().unwrap());
        config.state = kept.parent().map(Path::to_owned);
        config.nodes = settings.to_vec();
        config.graph_file =
            file.map(|nodes| crate::GraphFile { path: "given.toml".into(), nodes: nodes.to_vec() });
        config
    }

    fn applied(revision: u64) -> Applied {
        let difference = graph::plan::Difference::default();
        let (begun, join, leave) = (Vec::new(), Vec::new(), Vec::new());
        Applied { revision, difference, values_per_s: 0.0, streams: Vec::new(), begun, join, leave }
    }

    /// Keeps a graph as a monitor with this origin does.
    fn keep_one(origin: Origin, revision: u64, nodes: Vec<Node>) -> (bool, Origin) {
        let board = Arc::new(Mutex::new(origin));
        let keeper = GraphKeeper::start(Arc::clone(&board)).unwrap();
        let (answer, answered) = oneshot::channel();
        keeper.applied(nodes, applied(revision), answer);
        let kept = answered.blocking_recv().unwrap().unwrap().lasting;
        drop(keeper);
        let origin = lock(&board).clone();
        (kept, origin)
    }

    #[test]
    fn the_command_line_goes_before_the_kept_graph_and_that_before_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/graph.json");
        let (ours, kept, given) = ([thin("10")], [thin("20")], [thin("30")]);
        let begins = |settings: &[Node], file: Option<&[Node]>| {
            let first = first(&config(&path, settings, file));
            (first.nodes, first.revision, first.origin.from)
        };
        assert_eq!(begins(&[], None), (vec![], 0, From::Settings));
        assert_eq!(begins(&ours, None), (ours.to_vec(), 1, From::Settings));
        let origin = Origin { kept: Some(path.clone()), ..Origin::default() };
        let (is_kept, origin) = keep_one(origin, 7, kept.to_vec());
        assert_eq!((is_kept, origin.from, origin.problem), (true, From::Applied, None));
        assert_eq!(begins(&ours, None), (kept.to_vec(), 7, From::Kept));
        assert_eq!(begins(&ours, Some(&given)), (given.to_vec(), 8, From::File));
    }

    #[test]
    fn a_damaged_or_invalid_file_is_told_and_goes_aside_only_when_another_is_applied() {
        let circle =
            serde_json::json!({"name": "lab/a", "kind": "thin", "input": "lab/a", "every": 10}).to_string();
        for (text, why) in [
            (r#"{"revision": 3, "no"#.to_owned(), "EOF while parsing"),
            (r#"{"revision": 3, "node": [{"name": "a", "kind": "thinner"}]}"#.to_owned(), "unknown variant"),
            (format!(r#"{{"revision": 3, "node": [{circle}]}}"#), "is computed from itself"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("graph.json");
            private_file::create(&path, &text).unwrap();
            let first = first(&config(&path, &[thin("10")], None));
            assert_eq!((first.origin.from, first.nodes), (From::Settings, vec![thin("10")]));
            let problem = first.origin.problem.clone().unwrap();
            assert!(problem.contains(why) && problem.contains("repair the file"), "{problem}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "it is as it was");
            assert!(keep_one(first.origin, 1, vec![thin("20")]).0);
            assert_eq!(std::fs::read_to_string(folder.path().join("graph.json.aside-1")).unwrap(), text);
            assert_eq!(read(&path, &[]).unwrap().unwrap().node, [thin("20")]);
        }
    }

    #[test]
    fn a_graph_that_cannot_be_kept_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let blocked = folder.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        let origin = Origin { kept: Some(blocked.join("graph.json")), ..Origin::default() };
        let (is_kept, origin) = keep_one(origin, 1, vec![thin("20")]);
        assert!(!is_kept && origin.problem.unwrap().contains("apply it again"));
    }
}
