//! Telling the accounts of this host which of their datagrams the kernel freed.

use std::path::Path;

use engine::DropBoard;
use fate::{DropEvent, Notices, Socket};
use sys::clock;

pub use ring::shared::CreateError as TellError;

/// Tells every process of this host what drop events say of the streams it reads or publishes.
pub(crate) struct Telling {
    board: DropBoard,
    notices: Notices,
}

impl Telling {
    pub(crate) fn begin(directory: &Path, sees_all: bool) -> Result<Self, TellError> {
        Ok(Self { board: DropBoard::open(directory, sees_all)?, notices: Notices::default() })
    }

    pub(crate) fn tell(&mut self, events: &[DropEvent], sockets: &[Socket]) {
        for notice in self.notices.take(events, sockets) {
            self.board.post(&notice);
        }
        self.board.keep_up(clock::monotonic());
    }
}
