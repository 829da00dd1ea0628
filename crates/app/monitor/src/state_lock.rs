//! The lock of the folder of what outlasts a monitor: two servers in one folder would overwrite each other's files.
//!
//! The kernel releases the lock with the process, however that ends. Two addresses with one port share a folder, so the
//! port does not tell two servers apart. The file says who holds the lock, and whether that server is ending: a server that
//! is started in its place then waits for the end.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use crate::config::MonitorError;

/// Name of the lock's file in the folder.
const FILE: &str = "lock";
/// Last word of the file of a server that ends.
const ENDING: &str = "ending";
/// Size of the file, more than the longest address takes. Units: bytes.
const WIDTH: usize = 128;

/// A folder of which this process is the only server, until it is dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    file: File,
    address: SocketAddr,
}

impl StateLock {
    /// Takes the lock of a folder, which is made if it is not there. `None` for a folder that cannot be locked, which is
    /// said: files in it cannot be written either, or are not shared.
    ///
    /// # Errors
    /// [`MonitorError::StateInUse`] if another server has the folder. One that is ending is waited for.
    pub(crate) fn take(folder: &Path, address: SocketAddr) -> Result<Option<Self>, MonitorError> {
        Self::open(folder, address).or_else(|error| match error {
            Refusal::Held(holder) => Err(MonitorError::StateInUse { folder: folder.to_owned(), holder }),
            Refusal::System(cause) => {
                tracing::warn!(
                    "{} cannot be locked: {cause}\nset XDG_STATE_HOME to a folder on this host that this user may write, and start again",
                    folder.display()
                );
                Ok(None)
            }
        })
    }

    fn open(folder: &Path, address: SocketAddr) -> Result<Option<Self>, Refusal> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Refusal::System)?;
        let path = folder.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(Refusal::System)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(cause)) => return Err(Refusal::System(cause)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // What cannot be read is not shown.
                let _is_read = (&file).take(WIDTH as u64).read_to_string(&mut holder);
                let Some(holder) = holder.trim().strip_suffix(ENDING) else {
                    return Err(Refusal::Held(holder.trim().to_owned()));
                };
                tracing::info!("{} is released when {} has ended", folder.display(), holder.trim());
                file.lock().map_err(Refusal::System)?;
            }
        }
        let lock = Self { file, address };
        lock.say("").map_err(Refusal::System)?;
        Ok(Some(lock))
    }

    /// Says that this server is ending.
    pub(crate) fn is_ending(&self) {
        // Otherwise a server that is started now ends with an error instead of waiting.
        let _is_said = self.say(ENDING);
    }

    fn say(&self, last: &str) -> io::Result<()> {
        let text = format!("process {}, at {} {last}", std::process::id(), self.address);
        // Over all of what was there, with one write: a reader finds one text or the other, whole.
        self.file.write_all_at(format!("{text:<WIDTH$}").as_bytes(), 0)
    }
}

/// Reason why a folder is not locked.
enum Refusal {
    /// Another server has it: who that is.
    Held(String),
    System(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_server_which_the_next_one_names_and_waits_for_once_it_is_ending() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("7480");
        let (one, other) = ("127.0.0.1:7480".parse().unwrap(), "127.0.0.2:7480".parse().unwrap());
        let first = StateLock::take(&folder, one).unwrap().unwrap();
        let refused = StateLock::take(&folder, other).unwrap_err().to_string();
        let holder = format!("process {}, at 127.0.0.1:7480", std::process::id());
        assert!(refused.contains(&holder) && refused.contains("--listen"), "{refused}");
        first.is_ending();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| StateLock::take(&folder, other));
            drop(first);
            assert!(next.join().unwrap().unwrap().is_some());
        });
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_used_without_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let address = "127.0.0.1:7480".parse().unwrap();
        assert!(StateLock::take(&file.join("7480"), address).unwrap().is_none());
    }
}
