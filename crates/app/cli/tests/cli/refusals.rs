//! Impossible requests are refused with exit code 2 and a remedy.

use std::io::Write;

use support::ports::private_bus;

use crate::program::{run, run_with};

/// Runs the program, which must refuse; returns its message.
fn refusal(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert!(said.starts_with("error: "), "{said}");
    said
}

#[test]
fn unknown_options_and_words_are_errors() {
    assert!(refusal(&["pub", "a", "--wave", "sine", "--rate", "1k", "--colour", "red"]).contains("--colour"));
    assert!(refusal(&["pubb"]).contains("pub"));
    let said = refusal(&["pub", "a", "--wave", "sine", "--rate", "1k", "--dtype", "f5"]);
    assert!(said.contains("f5") && said.contains("f4"), "{said}");
    assert!(refusal(&["pub", "a", "--wave", "square", "--rate", "1k"]).contains("choose sine, chirp"));
    assert!(refusal(&["sub", "**", "--duration", "30"]).contains("write 30s"));
    assert!(
        refusal(&["pub", "a", "--wave", "sine", "--rate", "1k", "--loss", "2"]).contains("write 1% or 0.01")
    );
    assert!(refusal(&["sub", "a/**b", "--bus", &private_bus()]).contains("a/**b"));
}

#[test]
fn what_is_missing_is_asked_for() {
    let bus = private_bus();
    assert!(refusal(&["pub", "a", "--wave", "sine", "--bus", &bus]).contains("set it, as in --rate 1k"));
    assert!(
        refusal(&["pub", "--wave", "sine", "--rate", "1k", "--bus", &bus])
            .contains("give one: tallycast pub")
    );
    assert!(refusal(&["pub", "a"]).contains("--signal"));
    assert!(refusal(&["pub", "a", "--signal", "eeg", "--bus", &bus]).contains("known are ecg, chime"));
}

#[test]
fn options_without_effect_are_refused() {
    let bus = private_bus();
    let refused = |arguments: &[&str]| refusal(&[&["pub", "a", "--bus", &bus], arguments].concat());
    let said = refused(&["--signal", "ecg", "--channels", "3"]);
    assert!(said.contains("--channels has no effect on a recorded signal"), "{said}");
    assert!(refused(&["--host", "cpu", "--dtype", "f8"]).contains("--dtype has no effect on this host"));
    let lines = ["--stdin", "lines", "--rate", "10"];
    assert!(refused(&[&lines[..], &["--speed", "10"]].concat()).contains("--speed has no effect on lines"));
    assert!(refused(&[&lines[..], &["--loop"]].concat()).contains("--loop has no effect on lines"));
    let wave = ["--wave", "sine", "--rate", "10"];
    assert!(
        refused(&[&wave[..], &["--allow-nan"]].concat()).contains("--allow-nan has no effect on this wave")
    );
    assert!(
        refused(&[&wave[..], &["--seed", "3"]].concat()).contains("--seed has no effect on this waveform")
    );
}

#[test]
fn an_address_by_name_is_told_how_to_be_written() {
    let said = refusal(&["demo", "--headless", "--listen", "localhost:7480"]);
    assert!(said.contains("write 127.0.0.1:7480"), "{said}");
}

#[test]
fn an_ipv6_address_with_a_port_is_asked_for_its_brackets() {
    let said = refusal(&["monitor", "--listen", "::1:7490"]);
    assert!(said.contains("write [::1]:7490"), "{said}");
}

#[test]
fn with_json_a_refusal_is_an_object() {
    let bus = private_bus();
    for arguments in [
        &["sub", "**", "--duration", "30", "--json"][..],
        &["pub", "a", "--wave", "sine", "--bus", &bus, "-J"],
        &["ls", "--json", "--bus", "udp://239.84.0.0?iface=a&iface=b"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = told["error"].as_str().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(error) && !error.contains("Usage"), "{error} in {said}");
    }
}

#[test]
fn a_wrong_bus_is_told_with_what_would_be_right() {
    let said = refusal(&["ls", "--bus", "udp://10.0.0.1:7400"]);
    assert!(said.contains("such as 239.84.0.0"), "{said}");
    let said = refusal(&["ls", "--bus", "udp://239.84.0.0:7400?speed=9"]);
    assert!(said.contains("known options: iface"), "{said}");
    let said = refusal(&["ls", "--bus", "udp://239.84.0.0:7400?iface=none9"]);
    assert!(said.contains("none9"), "{said}");
}

#[test]
fn a_wrong_file_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ragged.csv");
    std::fs::write(&path, "time [s],a [V]\n0,1\n0.1,2\n0.2,3,4\n").unwrap();
    let said = refusal(&["pub", "--file", path.to_str().unwrap(), "--bus", &private_bus()]);
    assert!(said.contains("ragged.csv") && said.contains("line 4"), "{said}");
    let said = refusal(&["pub", "--file", "/nonexistent/a.wav", "--bus", &private_bus()]);
    assert!(said.contains("/nonexistent/a.wav"), "{said}");
}

#[test]
fn what_was_decided_about_a_file_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.dat");
    std::fs::write(&path, "Logger 7\nZeit;u\nms;V\n0;1,5\n10;2,5\n").unwrap();
    let file = ["pub", "--file", path.to_str().unwrap(), "--time", "Zeit", "--wait", "0s"];
    let bus = private_bus();
    let said = String::from_utf8(run(&[&file[..], &["--bus", &bus]].concat()).stderr).unwrap();
    for part in [
        "run.dat: CSV separated by semicolons",
        "header row 2, units in row 3",
        "milliseconds",
        "at 100 samples/s",
    ] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
    let said = refusal(&["pub", "lab/x", "--wave", "sine", "--rate", "1k", "--skip", "1", "--bus", &bus]);
    assert!(said.contains("--skip has no effect"), "{said}");
    let said = refusal(&[&file[..], &["--time-unit", "weeks", "--bus", &bus]].concat());
    assert!(said.contains("unknown unit of time `weeks`"), "{said}");
}

#[test]
fn settings_are_checked_and_their_origin_is_told() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "[bus]\nadress = 'udp://239.84.0.0:7400'\n").unwrap();
    let path = file.path().to_str().unwrap();
    let output = run(&["config", "check", path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("unknown key bus.adress"));
    assert!(refusal(&["ls", "--config", path]).contains("unknown key bus.adress"));
    // Without a name the file that would be read is checked.
    assert_eq!(run(&["config", "check", "--config", path]).status.code(), Some(1));
    let output = run_with(&["config", "check"], &[("TALLYCAST_CONFIG", path)], "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");

    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "[record]\nroot = '/data'\n").unwrap();
    let path = file.path().to_str().unwrap();
    assert!(run(&["config", "check", path]).status.success());
    let variables = [("TALLYCAST_CONFIG", path), ("TALLYCAST_BUS", "udp://239.85.0.0")];
    let shown = run_with(&["config", "show", "--origin", "--station", "daq-3"], &variables, "");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("address = \"udp://239.85.0.0\"  # environment TALLYCAST_BUS"), "{shown}");
    assert!(shown.contains("station = \"daq-3\"  # flag --station"), "{shown}");
    assert!(shown.contains(&format!("root = \"/data\"  # file {path}")), "{shown}");
    assert!(shown.contains("listen = \"127.0.0.1:7480\"  # default"), "{shown}");
}
