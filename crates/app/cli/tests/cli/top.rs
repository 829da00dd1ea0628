//! `tallycast top` in a terminal of 80 by 24.

use std::path::Path;
use std::process::{Command, Output};

use support::ports::private_bus;
use support::wait_until;

use crate::program::Running;

/// A separate terminal, which ends with the test however that ends.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Runs a shell command in a terminal; `None`, with a note, if there is no tmux.
    fn open(name: &str, command: &str) -> Option<Self> {
        let terminal = Self { socket: format!("tallycast-{name}-{}", std::process::id()) };
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("SKIPPED: there is no tmux");
            return None;
        }
        let output = terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", command]);
        assert!(output.status.success(), "{output:?}");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket, "-f", "/dev/null"]).args(arguments);
        command.output().expect("tmux was there a moment ago")
    }

    fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen satisfies `is_wanted`, and returns it.
    fn wait_until(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        wait_until(what, || Some(self.screen()).filter(|screen| is_wanted(screen)))
    }

    /// Waits until the screen has this text, and returns it.
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_view_shows_streams_filters_helps_and_gives_the_terminal_back() {
    let bus = private_bus();
    let publish = |name: &str| {
        let wave = ["--wave", "sine", "--rate", "1k", "--loss", "20%", "--json", "--bus", &bus];
        Running::start(&[&["pub", name][..], &wave].concat())
    };
    let publishers = [publish("lab/probe"), publish("w7x/power")];
    let reader = Running::start(&["sub", "lab/**", "--reader", "desk", "--json", "--bus", &bus]);
    let top = env!("CARGO_BIN_EXE_tallycast");
    let command = format!("{top} top --interval 200ms --bus '{bus}'; echo ended with $?; cat");
    let Some(terminal) = Terminal::open("view", &command) else { return };
    let screen = terminal.wait_until("both streams and what is lost", |screen| {
        screen.starts_with("2 streams, ")
            && ["STREAM", "lab/probe", "w7x/power", " injected"].iter().all(|text| screen.contains(text))
    });
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    terminal.press(&["2"]);
    terminal.wait_for("stream lab/probe, elements");
    terminal.press(&["3"]);
    terminal.wait_for("239.84.");
    terminal.press(&["4"]);
    terminal.wait_for("SOFTIRQ");
    terminal.press(&["5"]);
    let is_of_reader =
        |line: &str| line.starts_with("lab/probe ") && line.contains("desk@") && line.contains(" injected");
    let screen = terminal.wait_until("the losses of the reader", |screen| screen.lines().any(is_of_reader));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    terminal.press(&["?"]);
    terminal.wait_for("sort by the next column");
    terminal.press(&["?", "1", "/", "w", "7", "Enter"]);
    terminal.wait_until("the one requested stream", |screen| {
        screen.contains("only rows with `w7`")
            && screen.contains("w7x/power")
            && !screen.contains("lab/probe")
    });
    terminal.press(&["q"]);
    let screen = terminal.wait_for("ended with 0");
    assert!(!screen.contains("w7x"), "the screen from before is back: {screen}");
    drop((publishers, reader));
}

#[test]
fn a_view_whose_terminal_is_gone_ends() {
    let top = env!("CARGO_BIN_EXE_tallycast");
    // Neither the end of the terminal nor the shell's reaches the view as a signal.
    let number = tempfile::NamedTempFile::new().unwrap();
    let (path, bus) = (number.path().display(), private_bus());
    let command = format!("echo $$ > '{path}'; exec env --block-signal=HUP {top} top --bus '{bus}'");
    let Some(terminal) = Terminal::open("gone", &command) else { return };
    terminal.wait_for("0 streams, 0 samples/s");
    terminal.press(&["?"]);
    terminal.wait_for("sort by the next column");
    drop(terminal);
    let process = Path::new("/proc").join(std::fs::read_to_string(number.path()).unwrap().trim());
    wait_until("the view to end", || (!process.exists()).then_some(()));
}
