//! Operators in Python: each in its own process, which reads the bus and publishes on it like any other.
//!
//! The monitor starts them, reports their state, restarts them when they die, and ends them when it ends. Their output
//! arrives over the bus; the monitor does not depend on it. Start with [`Operators`]; the decisions about one are in
//! [`tending`].

mod declaration;
mod process;
mod tending;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sample::{StreamName, StreamPattern};
use serde::Serialize;
use tallycast::Node;

pub use declaration::{Incomplete, OperatorChannel, OperatorConfig, OperatorError, check_operators};
pub(crate) use tending::{OperatorState, Report};

use process::{News, Process, Word};
use tending::{Saying, Tending};

/// The interpreter that runs operators unless another is named.
pub const DEFAULT_PYTHON: &str = "python3";
/// Interval at which a silent process is checked: the end of a process has no place in the channel of its words.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait for the last output of a process that has ended; its children may continue to write.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum time for a process to end on request: its last samples, its final tally, the evidence of its last losses.
const ENDING_PATIENCE: Duration = Duration::from_secs(4);

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

/// States of all operators, written by their threads.
pub(crate) type OperatorBoard = Arc<Mutex<Vec<OperatorStatus>>>;

/// All operators of a monitor. Dropping ends them.
pub(crate) struct Operators {
    tended: Vec<Tended>,
}

/// An operator with the thread that tends it.
struct Tended {
    config: OperatorConfig,
    news: Sender<News>,
    thread: Option<JoinHandle<()>>,
}

/// State of the thread.
struct Tender {
    config: OperatorConfig,
    python: String,
    node: Node,
    tending: Tending,
    process: Option<Process>,
    /// Number of the current process, so that late messages of the previous one are not taken for its own.
    number: u64,
    news: Sender<News>,
    board: OperatorBoard,
    place: usize,
    /// Deadline for its end.
    deadline: Option<Instant>,
}

impl Operators {
    /// Starts operators that were [checked](check_operators).
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub(crate) fn start(
        configs: &[OperatorConfig],
        python: &str,
        node: &Node,
        board: &OperatorBoard,
    ) -> std::io::Result<Self> {
        let mut operators = Self { tended: Vec::new() };
        for (place, config) in configs.iter().enumerate() {
            let (news, told) = channel();
            let tender = Tender {
                config: config.clone(),
                python: python.to_owned(),
                node: node.clone(),
                tending: Tending::new(&*config.name, Instant::now()),
                process: None,
                number: 0,
                news: news.clone(),
                board: Arc::clone(board),
                place,
                deadline: None,
            };
            // In the order of the file, whichever thread runs first.
            lock(board).push(tender.status());
            let thread = std::thread::Builder::new().name("monitor-operator".to_owned());
            let thread = thread.spawn(move || tender.run(&told))?;
            operators.tended.push(Tended { config: config.clone(), news, thread: Some(thread) });
        }
        Ok(operators)
    }

    /// Returns the patterns that a monitor joins for them: their inputs and outputs.
    pub(crate) fn patterns(&self) -> Vec<StreamPattern> {
        let names = self.tended.iter().flat_map(|it| it.config.streams());
        names.map(|name| name.as_str().parse().expect("every name is a pattern")).collect()
    }

    /// Ends the operators of which no input is open any longer, but whose output is.
    pub(crate) fn finish(&self, is_open: impl Fn(&StreamName) -> bool) {
        for operator in &self.tended {
            let mut streams: Vec<StreamName> = operator.config.streams().collect();
            let output = streams.pop().expect("every operator has an output");
            if is_open(&output) && !streams.iter().any(&is_open) {
                operator.end();
            }
        }
    }

    /// Asks all to end; returns their output streams.
    pub(crate) fn end(&self) -> Vec<StreamName> {
        self.tended.iter().for_each(Tended::end);
        self.tended.iter().filter_map(|it| it.config.streams().last()).collect()
    }
}

impl Drop for Operators {
    fn drop(&mut self) {
        self.tended.iter().for_each(Tended::end);
        for operator in &mut self.tended {
            if operator.thread.take().is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the thread of the operator `{}` failed", operator.config.name);
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

impl Tender {
    fn run(mut self, told: &Receiver<News>) {
        while self.tending.state() != OperatorState::Ended {
            if self.tending.is_due(Instant::now()) {
                self.start();
            }
            match told.recv_timeout(POLL_INTERVAL) {
                Ok(News::Of(number, word)) if number == self.number => self.hear(word),
                Ok(News::Of(..)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(News::End) | Err(RecvTimeoutError::Disconnected) => self.end(),
            }
            self.look(told);
            self.show();
        }
    }

    fn start(&mut self) {
        self.number += 1;
        let mut command = process::command(&self.config, &self.python, &self.node);
        match Process::start(&mut command, self.number, &self.news) {
            Ok(process) => {
                self.tending.started(process.pid(), Instant::now());
                self.process = Some(process);
            }
            Err(error) => {
                let why = format!("{}: {error}", self.python);
                let saying = self.tending.not_started(&why, Instant::now());
                say(Some(saying));
            }
        }
    }

    fn hear(&mut self, word: Word) {
        let now = Instant::now();
        match word {
            Word::Ready => self.tending.ready(now),
            Word::Report(report) => say(self.tending.reported(report, now)),
            Word::Line(line) => {
                tracing::info!("{}: {}", self.config.name, line.trim_end());
                self.tending.said(&line);
            }
        }
    }

    fn end(&mut self) {
        if self.tending.end()
            && let Some(process) = &mut self.process
        {
            process.let_go();
            self.deadline.get_or_insert_with(|| Instant::now() + ENDING_PATIENCE);
        }
    }

    /// Checks whether its process has ended, and whether its output was received.
    fn look(&mut self, told: &Receiver<News>) {
        say(self.tending.passed(Instant::now()));
        let Some(process) = &mut self.process else { return };
        let how = match process.ended() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) if self.deadline.is_none_or(|deadline| Instant::now() < deadline) => return,
            Ok(None) => {
                tracing::warn!(
                    "the operator `{}` (process {}) did not end within {ENDING_PATIENCE:?} and was killed",
                    self.config.name,
                    process.pid()
                );
                process.kill();
                "a kill".to_owned()
            }
            Err(error) => format!("an end that cannot be read: {error}"),
        };
        self.process = None;
        // Its last lines are still being read: the reading thread stops at their end.
        let until = Instant::now() + LAST_WORDS;
        while let Ok(news) =
            told.recv_timeout(POLL_INTERVAL.min(until.saturating_duration_since(Instant::now())))
        {
            match news {
                News::Of(number, word) if number == self.number => self.hear(word),
                News::Of(..) => {}
                News::End => self.end(),
            }
        }
        say(self.tending.exited(&how, Instant::now()));
    }

    fn status(&self) -> OperatorStatus {
        OperatorStatus {
            name: self.config.output.clone(),
            operator: self.config.name.clone(),
            python: self.config.python.clone(),
            inputs: self.config.inputs.clone(),
            state: self.tending.state(),
            pid: self.tending.pid(),
            starts: self.tending.starts(),
            report: self.tending.totals(),
            error: self.tending.trouble().map(str::to_owned),
            last_end: self.tending.last_end().map(str::to_owned),
        }
    }

    fn show(&self) {
        let status = self.status();
        lock(&self.board)[self.place] = status;
    }
}

fn say(saying: Option<Saying>) {
    if let Some(Saying(words)) = saying {
        tracing::warn!("{words}");
    }
}

pub(crate) fn lock(board: &OperatorBoard) -> std::sync::MutexGuard<'_, Vec<OperatorStatus>> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
