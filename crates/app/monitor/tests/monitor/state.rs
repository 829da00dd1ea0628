//! The folder of what outlasts a monitor has one server at a time, also if that is killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use monitor::{MonitorConfig, MonitorError};
use support::wait_until;

use crate::scene::{get, node};

/// Set in the process that is killed: the folder.
const VICTIM: &str = "TALLYCAST_TEST_STATE";

fn config(folder: &Path) -> MonitorConfig {
    let mut config = MonitorConfig::new(node(&"shm://state".parse().unwrap()));
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.state = Some(folder.join("7480"));
    config
}

/// Runs in a process of its own: a monitor that runs until it is killed.
#[test]
fn holder() {
    let Some(folder) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let monitor = monitor::start(config(&folder)).unwrap();
    std::fs::write(folder.join("address"), monitor.address().to_string()).unwrap();
    loop {
        std::thread::park();
    }
}

/// A process that is killed at the end.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_server_names_the_first_and_takes_the_folder_once_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["state::holder", "--exact", "--nocapture"]).env(VICTIM, folder.path());
    let first = Killed(command.stdout(Stdio::null()).spawn().unwrap());
    wait_until("the first server", || std::fs::read_to_string(folder.path().join("address")).ok());
    let refused = monitor::start(config(folder.path())).map(drop).unwrap_err();
    assert!(matches!(refused, MonitorError::StateInUse { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("process {}", first.0.id())), "{refused}");
    drop(first);
    let second = monitor::start(config(folder.path())).unwrap();
    assert_eq!(get(second.address(), "/api/graph").status, 200);
    let _ = second.stop();
    let _ = monitor::start(config(folder.path())).unwrap().stop();
}
