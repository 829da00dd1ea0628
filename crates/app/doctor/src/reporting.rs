//! Reports of drops to the accounts of this host: their datagrams that the kernel freed.

use std::io;
use std::path::Path;
use std::time::Duration;

use diagnose::{DropEvent, Notices, Socket};
use engine::DropBoard;
use units::Instant;

pub use ring::shared::CreateError as ReportError;

/// Reporter to every process of this host, for drops of streams that it reads or publishes.
pub(crate) struct Reporter {
    board: DropBoard,
    notices: Notices,
    next_scope: Instant,
}

/// Interval at which it is reported whether the drops are complete.
const SCOPE_INTERVAL: Duration = Duration::from_millis(250);

impl Reporter {
    pub(crate) fn begin(directory: &Path) -> Result<Self, ReportError> {
        let (notices, next_scope) = (Notices::default(), Instant::ORIGIN);
        Ok(Self { board: DropBoard::open(directory)?, notices, next_scope })
    }

    pub(crate) fn report(&mut self, events: &[DropEvent], sockets: &[Socket]) {
        for notice in self.notices.take(events, sockets) {
            self.board.post(&notice);
        }
    }

    /// Reports at intervals whether the drops are complete; after the events seen so far.
    pub(crate) fn report_scope(
        &mut self,
        now: Instant,
        sees_all: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<()> {
        if now >= self.next_scope {
            self.next_scope = now + SCOPE_INTERVAL;
            self.board.post_scope(sees_all()?);
        }
        Ok(())
    }
}
