//! Operators in Python: each in its own process, which reads the bus and publishes on it like any other.
//!
//! The monitor starts them, reports their state, restarts them when they die, and ends them when it ends or a change of
//! the graph does. Their output arrives over the bus; the monitor does not depend on it. Start with [`Operators`]; the
//! thread of one is a [`tender::Tender`], and the decisions about one are in [`tending`].

mod process;
mod tender;
mod tending;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use graph::plan::{Node as GraphNode, OperatorConfig};
use sample::{StreamName, StreamPattern};
use serde::Serialize;
use tallycast::Node;

pub(crate) use tending::{OperatorState, Report};

use process::News;
use tender::Tender;

/// The interpreter that runs operators unless another is named.
pub const DEFAULT_PYTHON: &str = "python3";

/// An operator and how it fares, for pages and programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct OperatorStatus {
    /// Stream that it publishes.
    pub(crate) name: String,
    pub(crate) operator: String,
    pub(crate) python: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) state: OperatorState,
    pub(crate) pid: Option<u32>,
    /// Number of times a process was started for it.
    pub(crate) starts: u64,
    #[serde(flatten)]
    pub(crate) report: Report,
    /// Reason why it does not run as expected, if any.
    pub(crate) error: Option<String>,
    /// End of its last process that was not requested, if there was one.
    pub(crate) last_end: Option<String>,
}

/// States of all operators by their output, written by their threads.
pub(crate) type OperatorBoard = Arc<Mutex<BTreeMap<String, OperatorStatus>>>;

/// How operators are run.
#[derive(Clone)]
pub(crate) struct Setting {
    /// The interpreter.
    pub(crate) python: String,
    /// Folder of the functions that requests may name.
    pub(crate) programs: Option<PathBuf>,
    pub(crate) node: Node,
    pub(crate) board: OperatorBoard,
}

/// All operators of a monitor. Dropping ends them.
pub(crate) struct Operators {
    setting: Setting,
    /// By output.
    tended: BTreeMap<String, Tended>,
    /// Threads of those that a change of the graph ended.
    ending: Vec<JoinHandle<()>>,
}

/// An operator with the thread that tends it.
struct Tended {
    config: OperatorConfig,
    news: Sender<News>,
    /// Whether its states are no longer shown.
    is_retired: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Operators {
    /// Starts operators that were [checked](graph::plan::check_operators).
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub(crate) fn start(configs: &[OperatorConfig], setting: Setting) -> std::io::Result<Self> {
        let mut operators = Self { setting, tended: BTreeMap::new(), ending: Vec::new() };
        for config in configs {
            operators.begin(config, None)?;
        }
        Ok(operators)
    }

    /// Starts the operator of a node, after the one that has published the stream so far has ended.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub(crate) fn begin_node(&mut self, node: &GraphNode) -> std::io::Result<()> {
        let Some(python) = node.python() else { return Ok(()) };
        let mut config = python.operator(&node.name);
        if let Some(folder) = &self.setting.programs {
            config.look_in(folder);
        }
        let before = self.retire(node.name.as_str());
        self.begin(&config, before)
    }

    /// Ends the operator of this output, if there is one.
    pub(crate) fn end_node(&mut self, name: &StreamName) {
        let thread = self.retire(name.as_str());
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.extend(thread);
    }

    fn begin(&mut self, config: &OperatorConfig, before: Option<JoinHandle<()>>) -> std::io::Result<()> {
        let (news, told) = channel();
        let is_retired = Arc::new(AtomicBool::new(false));
        let tender = Tender::new(config.clone(), self.setting.clone(), news.clone(), Arc::clone(&is_retired));
        tender.show();
        let thread = std::thread::Builder::new().name("monitor-operator".to_owned());
        let thread = thread.spawn(move || {
            if before.is_some_and(|before| before.join().is_err()) {
                tracing::error!("the thread of an operator failed");
            }
            tender.run(&told);
        })?;
        let tended = Tended { config: config.clone(), news, is_retired, thread };
        self.tended.insert(config.output.clone(), tended);
        Ok(())
    }

    /// Asks an operator to end, and shows it no longer; returns its thread.
    fn retire(&mut self, output: &str) -> Option<JoinHandle<()>> {
        let tended = self.tended.remove(output)?;
        let mut board = lock(&self.setting.board);
        // Under the lock, which its thread takes before it looks: nothing of it is shown behind this.
        tended.is_retired.store(true, Ordering::Relaxed);
        board.remove(output);
        tended.end();
        Some(tended.thread)
    }

    /// Returns the patterns that a monitor joins for them: their inputs and outputs.
    pub(crate) fn patterns(&self) -> Vec<StreamPattern> {
        let names = self.tended.values().flat_map(|it| it.config.streams());
        names.map(|name| name.as_str().parse().expect("every name is a pattern")).collect()
    }

    /// Ends the operators of which no input is open any longer, but whose output is.
    pub(crate) fn finish(&self, is_open: impl Fn(&StreamName) -> bool) {
        for operator in self.tended.values() {
            let mut streams: Vec<StreamName> = operator.config.streams().collect();
            let output = streams.pop().expect("every operator has an output");
            if is_open(&output) && !streams.iter().any(&is_open) {
                operator.end();
            }
        }
    }

    /// Asks all to end; returns their output streams.
    pub(crate) fn end(&self) -> Vec<StreamName> {
        self.tended.values().for_each(Tended::end);
        self.tended.values().filter_map(|it| it.config.streams().last()).collect()
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.tended.values().for_each(Tended::end);
        let tended = std::mem::take(&mut self.tended);
        let threads = tended.into_values().map(|it| it.thread).chain(self.ending.drain(..));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the thread of an operator failed");
            }
        }
    }
}

impl Tended {
    fn end(&self) {
        // A thread that is gone has ended.
        let _ = self.news.send(News::End);
    }
}

pub(crate) fn lock(board: &OperatorBoard) -> std::sync::MutexGuard<'_, BTreeMap<String, OperatorStatus>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
