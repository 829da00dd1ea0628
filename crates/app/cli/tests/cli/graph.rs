//! `tallycast graph` and a monitor server: what it says, and its exit codes.

use rustix::process::Signal;
use support::ports::private_bus;
use tempfile::tempdir;

use crate::program::{Running, run};

const THIN: &str = "[[node]]\nname = 'lab/slow'\nkind = 'thin'\ninput = 'lab/x'\nevery = 10\n";
const CIRCLE: &str = "[[node]]\nname = 'lab/x'\nkind = 'thin'\ninput = 'lab/slow'\nevery = 10\n";

#[test]
fn a_graph_is_applied_shown_and_taken_back_and_one_with_problems_changes_nothing() {
    let files = tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, bad) = (file("good.toml", THIN), file("bad.toml", &format!("{THIN}{CIRCLE}")));
    let bus = private_bus();
    let monitor = Running::start(&["monitor", "--json", "--listen", "127.0.0.1:0", "--bus", &bus]);
    let listening = monitor.wait_for("its address", |line| line["event"] == "listening");
    let url = format!("http://{}", listening["address"].as_str().unwrap());
    let graph = |words: &[&str]| {
        let output = run(&[&["graph"], words, &["--server", &url]].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let (code, changes, _) = graph(&["apply", &good]);
    assert_eq!((code, changes.starts_with("begin       lab/slow\nrevision 1; ")), (0, true), "{changes}");
    for verb in ["check", "apply"] {
        let (code, _, problems) = graph(&[verb, &bad]);
        assert_eq!((code, problems.contains("is computed from itself")), (1, true), "{problems}");
    }
    let (code, shown, _) = graph(&["show"]);
    assert_eq!((code, shown.starts_with("# revision 1, 1 to undo\n")), (0, true), "{shown}");
    assert!(shown.contains("name = \"lab/slow\"") && !shown.contains("name = \"lab/x\""), "{shown}");
    assert!(shown.contains("# applied since the monitor server was started\n"), "{shown}");
    assert_eq!(graph(&["undo"]).0, 0);
    let (code, _, told) = graph(&["undo"]);
    assert_eq!((code, told.contains("there is no earlier graph to return to")), (2, true), "{told}");
    monitor.signal(Signal::INT);
    assert!(monitor.wait().0.success());
    let (code, _, told) = graph(&["show"]);
    assert_eq!((code, told.contains("no answer from the monitor server at")), (2, true), "{told}");
}
