//! The thread that tends one operator: it starts the process, hears it, and ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use graph::plan::OperatorConfig;

use super::process::{self, News, Process, Word};
use super::tending::{OperatorState, Saying, Tending};
use super::{OperatorStatus, Setting, lock};

/// Interval at which a silent process is checked: the end of a process has no place in the channel of its words.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum wait for the last output of a process that has ended; its children may continue to write.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Maximum time for a process to end on request: its last samples, its final tally, the evidence of its last losses.
const ENDING_PATIENCE: Duration = Duration::from_secs(4);

/// State of the thread.
pub(super) struct Tender {
    config: OperatorConfig,
    setting: Setting,
    tending: Tending,
    process: Option<Process>,
    /// Number of the current process, so that late messages of the previous one are not taken for its own.
    number: u64,
    news: Sender<News>,
    /// Whether its states are no longer shown.
    is_retired: Arc<AtomicBool>,
    /// Deadline for its end.
    deadline: Option<Instant>,
}

impl Tender {
    pub(super) fn new(
        config: OperatorConfig,
        setting: Setting,
        news: Sender<News>,
        is_retired: Arc<AtomicBool>,
    ) -> Self {
        let tending = Tending::new(&*config.name, Instant::now());
        let (process, number, deadline) = (None, 0, None);
        Self { config, setting, tending, process, number, news, is_retired, deadline }
    }

    /// Tends it until its end.
    pub(super) fn run(mut self, told: &Receiver<News>) {
        // It may have been asked to end while the one before it did.
        if told.try_iter().any(|news| matches!(news, News::End)) {
            self.end();
        }
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
        let mut command = process::command(&self.config, &self.setting);
        match Process::start(&mut command, self.number, &self.news) {
            Ok(process) => {
                self.tending.started(process.pid(), Instant::now());
                self.process = Some(process);
            }
            Err(error) => {
                let why = format!("{}: {error}", self.setting.python);
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

    /// Shows its state, unless another took its place.
    pub(super) fn show(&self) {
        let status = self.status();
        let mut board = lock(&self.setting.board);
        if !self.is_retired.load(Ordering::Relaxed) {
            board.insert(self.config.output.clone(), status);
        }
    }
}

fn say(saying: Option<Saying>) {
    if let Some(Saying(words)) = saying {
        tracing::warn!("{words}");
    }
}
