//! Boards on which relays show their state to the processes of their host, for `relay --list`.
//!
//! A board is a ring in shared memory, one for each relay, with its newest state as the last record; the state is
//! text of the relay's own. It belongs to a network namespace, ends with its relay, and is optional as the others are:
//! one that is not trusted shows nothing.

use std::fs;
use std::path::{Path, PathBuf};

use keys::PublicKey;
use ring::shared::{self, CreateError, Options, Trusted};
use ring::{Read, Writer};

use crate::host::of_laboratory;
use crate::report_board::Sharing;

/// Kind of the board's records.
const STATE: u16 = 1;
/// Size of a board: a few states, each of some hundred bytes for each stream.
const BOARD_BYTES: usize = 1 << 20;
/// Largest state that is shown: of two in a row one is whole.
const MAX_STATE_BYTES: usize = BOARD_BYTES / 4;
/// Prefix of the names of all boards.
const PREFIX: &str = "tallycast.relay.";
/// Maximum number of relays of a host that are shown.
const MAX_RELAYS: usize = 256;

/// The writing end of a relay's board; it is removed when dropped.
pub struct RelayBoard {
    writer: Writer,
}

/// State of a relay of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayOnHost {
    /// Process id of the relay in its own namespace.
    pub pid: u32,
    /// Text that the relay posted last; anything may be in it.
    pub state: Vec<u8>,
}

impl RelayBoard {
    /// Creates the board of this process's relay with that `incarnation`, a random number.
    ///
    /// # Errors
    /// If shared memory cannot be made.
    pub fn create(directory: &Path, sharing: Sharing, incarnation: u64) -> Result<Self, CreateError> {
        // Boards of killed relays remain.
        let _ = shared::sweep(directory, PREFIX);
        let mut options = Options::default();
        options.capacity_bytes = BOARD_BYTES;
        (options.access, options.group) = (sharing.access, sharing.group);
        let name = format!("{}{incarnation:016x}.{}", prefix(sharing.authority), shared::RING_EXTENSION);
        Ok(Self { writer: shared::create(&directory.join(name), &options)? })
    }

    /// Shows a state in place of the one before; returns whether it is small enough to be shown.
    pub fn post(&mut self, state: &[u8]) -> bool {
        state.len() <= MAX_STATE_BYTES && self.writer.write(STATE, [0; 2], &[state]).is_ok()
    }
}

/// Returns the relays of this host whose boards are those of root, of this user and of the group that the sharing
/// names.
#[must_use]
pub fn relays_on_host(directory: &Path, sharing: Sharing) -> Vec<RelayOnHost> {
    let (prefix, trusted) = (prefix(sharing.authority), Trusted { group: sharing.group });
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut boards: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_board(path, &prefix)).collect();
    boards.sort();
    boards.iter().take(MAX_RELAYS).filter_map(|path| look(path, trusted)).collect()
}

fn is_board(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.extension().is_some_and(|extension| extension == shared::RING_EXTENSION)
        && name.is_some_and(|name| name.starts_with(prefix))
}

fn look(path: &Path, trusted: Trusted) -> Option<RelayOnHost> {
    let found = shared::look(path).and_then(|found| found.trust(trusted)).ok()?;
    if !found.liveness().writer_is_alive() {
        return None;
    }
    let pid = found.writer_pid();
    let shared = found.open().ok()?;
    let mut reader = shared.ring().reader_at_oldest();
    let (mut record, mut state) = (Vec::new(), None);
    // A board that is written faster than it is read does not stop the caller.
    for _ in 0..MAX_RELAYS {
        match reader.read(&mut record) {
            Read::Record { kind: STATE, .. } => state = Some(std::mem::take(&mut record)),
            Read::Record { .. } | Read::Lapped { .. } => {}
            Read::Empty | Read::Closed | Read::Broken => break,
        }
    }
    state.map(|state| RelayOnHost { pid, state })
}

/// Relays in another network namespace are those of another host.
fn prefix(authority: Option<PublicKey>) -> String {
    let namespace = sys::process::network_namespace().unwrap_or_default().to_string();
    format!("{PREFIX}{}.", of_laboratory(namespace, authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(directory: &Path) -> Vec<String> {
        let relays = relays_on_host(directory, Sharing::default()).into_iter();
        relays.map(|relay| String::from_utf8(relay.state).expect("it was text")).collect()
    }

    #[test]
    fn each_relay_shows_its_newest_state_as_long_as_it_incarnations() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let create =
            |incarnation| RelayBoard::create(directory.path(), Sharing::default(), incarnation).unwrap();
        let (mut one, mut other) = (create(1), create(2));
        assert!(shown(directory.path()).is_empty(), "nothing was posted");
        assert!(one.post(b"up") && other.post(b"connecting") && one.post(b"down"));
        assert_eq!(shown(directory.path()), ["down", "connecting"]);
        assert_eq!(relays_on_host(directory.path(), Sharing::default())[0].pid, std::process::id());
        drop(one);
        assert_eq!(shown(directory.path()), ["connecting"]);
    }

    #[test]
    fn a_state_too_large_for_the_board_is_not_shown_and_many_in_a_row_leave_the_newest() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut board = RelayBoard::create(directory.path(), Sharing::default(), 1).unwrap();
        let state = |letter: u8| vec![letter; MAX_STATE_BYTES];
        assert!((b'a'..=b'z').all(|letter| board.post(&state(letter))));
        assert!(!board.post(&[0; MAX_STATE_BYTES + 1]));
        let relays = relays_on_host(directory.path(), Sharing::default());
        assert!(relays[0].state == state(b'z'), "the newest that is small enough");
    }

    #[test]
    fn files_of_others_are_no_boards() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let named = |name: &str| directory.path().join(name);
        let usual = prefix(None);
        fs::write(named(&format!("{usual}1.ring")), b"no ring").unwrap();
        fs::write(named("tallycast.relay.text"), b"no ring").unwrap();
        assert!(relays_on_host(directory.path(), Sharing::default()).is_empty());
        assert!(relays_on_host(&named("nowhere"), Sharing::default()).is_empty());
    }
}
