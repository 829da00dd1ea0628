//! Users, tokens and rules from the command line.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{Running, command, run, run_with};

const PASSWORD: &str = "correct horse battery";

/// Runs `tallycast access` on a folder with a standard input; returns the exit code, the output and the messages.
fn access(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let place = ["--access", folder.to_str().unwrap()];
    let output = run_with(&[&["access"], arguments, &place[..]].concat(), &[], input);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn content(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn neither_command_nor_monitor_logs_a_token_or_a_password() {
    let files = tempfile::tempdir().unwrap();
    let folder = files.path().to_str().unwrap();
    let everything = [("TALLYCAST_LOG", "trace")];
    let mut told = Vec::new();
    let mut access = |arguments: &[&str], input: &str| {
        let output = run_with(&[&["access", "--access", folder], arguments].concat(), &everything, input);
        told.extend_from_slice(&output.stderr);
        output
    };
    access(&["user", "add", "ada", "--password-stdin"], PASSWORD);
    access(&["user", "add", "ada", "--password-stdin"], PASSWORD);
    access(&["user", "password", "bob", "--password-stdin"], PASSWORD);
    let token = String::from_utf8(access(&["token", "new", "scraper"], "").stdout).unwrap().trim().to_owned();
    // A token where its name belongs.
    let misplaced = format!("token:{token}");
    for arguments in [&["token", "remove", &token] as &[&str], &["explain", &misplaced, "read", "lab/a"]] {
        let output = access(arguments, "");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true));
    }
    let listed =
        [&["token", "list"] as &[&str], &["user", "list"], &["check"]].map(|it| access(it, "").stdout);
    told.extend(listed.concat());
    let log = files.path().join("log");
    let bus = support::ports::private_bus();
    let arguments = ["monitor", "--json", "--listen", "127.0.0.1:0", "--access", folder, "--bus", &bus];
    let mut monitor = command(&arguments);
    monitor.envs(everything).stderr(std::fs::File::create(&log).unwrap());
    let monitor = Running::of(&mut monitor, &arguments);
    let listening = monitor.wait_for("its address", |line| line["event"] == "listening");
    let address = listening["address"].as_str().unwrap();
    let ask = |line: &str, headers: &str, body: &str| {
        support::http::ask(address, &format!("{line} HTTP/1.1\r\nHost: {address}\r\n{headers}"), body)
    };
    let bearer = format!("Authorization: Bearer {token}");
    assert_eq!(ask("GET /metrics", &bearer, "").status, 200);
    assert_eq!(ask("GET /metrics", &format!("{bearer}0"), "").status, 401);
    let body = json!({"user": "ada", "password": PASSWORD}).to_string();
    let signed_in = ask("POST /api/sign-in", "Content-Type: application/json", &body);
    let session = signed_in.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let (_, session) = session.split(';').next().unwrap().split_once('=').unwrap();
    drop(monitor);
    told.extend(std::fs::read(&log).unwrap());
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("that is an access token, not its name") && told.contains("TRACE"), "{told}");
    for (what, secret) in [("token", &token[4..]), ("password", PASSWORD), ("session", session)] {
        assert!(!told.contains(secret), "a {what} is told");
    }
}

/// Writes the rules.
fn rules(folder: &Path, rules: &str) {
    let path = folder.join("access");
    std::fs::write(&path, rules).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn a_user_is_added_explained_and_removed_and_the_password_kept_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let access = |arguments: &[&str], input: &str| access(folder.path(), arguments, input);
    let added =
        access(&["user", "add", "ada", "--role", "operator", "--password-stdin"], &format!("{PASSWORD}\n"));
    assert_eq!(added, (0, String::new(), String::new()));
    assert!(!content(folder.path(), "users").contains(PASSWORD));
    let (code, listed, _) = access(&["user", "list", "--json"], "");
    assert_eq!(
        (code, serde_json::from_str(&listed).unwrap()),
        (0, json!({"name": "ada", "role": "operator"}))
    );
    std::fs::write(folder.path().join("access"), "group crew = ada\nallow group:crew steer lab/**\n")
        .unwrap();
    std::fs::set_permissions(folder.path().join("access"), Permissions::from_mode(0o644)).unwrap();
    let explained = access(&["explain", "user:ada", "steer", "lab/laser"], "");
    assert_eq!(
        explained,
        (
            0,
            "allowed by line 2: allow group:crew steer lab/**\nlab/laser: joining and leaving it\n"
                .to_owned(),
            String::new()
        )
    );
    let (code, denied, _) = access(&["explain", "user:ada", "read", "lab/laser", "--json"], "");
    let told: Value = serde_json::from_str(&denied).unwrap();
    assert_eq!((code, &told["allowed"], &told["line"]), (1, &json!(false), &Value::Null));
    assert_eq!(access(&["user", "remove", "ada"], "").0, 0);
    assert_eq!(access(&["user", "list"], "").1, "user  role\n");
}

#[test]
fn a_short_password_and_a_wrong_role_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, told) = access(folder.path(), &["user", "add", "ada", "--password-stdin"], "hunter2\n");
    assert!(code == 2 && told.contains("fewer than 15 characters"), "{told}");
    let (code, _, told) = access(folder.path(), &["user", "role", "ada", "operater"], "");
    assert!(code == 2 && told.contains("did you mean `operator`?"), "{told}");
    assert!(!folder.path().join("users").exists());
}

#[test]
fn a_token_is_shown_once_and_bounded_by_its_scopes() {
    let folder = tempfile::tempdir().unwrap();
    let access = |arguments: &[&str]| access(folder.path(), arguments, "");
    let (code, token, told) = access(&["token", "new", "scraper", "--may", "read", "--days", "1"]);
    assert!(code == 0 && token.starts_with("tct_") && token.len() == 69, "{told}");
    assert!(!content(folder.path(), "tokens").contains(&token.trim()[4..]));
    let (_, listed, _) = access(&["token", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed["name"], &listed["may"], &listed["expired"]),
        (&json!("scraper"), &json!("read"), &json!(false))
    );
    let (code, told, _) = access(&["explain", "token:scraper", "steer", "lab/a"]);
    assert_eq!(
        (code, told.as_str()),
        (1, "denied: the token's scopes do not include steer\nlab/a: joining and leaving it\n")
    );
    assert_eq!(access(&["token", "remove", "scraper"]).0, 0);
    assert_eq!(access(&["explain", "token:scraper", "read", "lab/a"]).0, 2);
}

#[test]
fn a_question_about_all_streams_says_what_it_covers() {
    let folder = tempfile::tempdir().unwrap();
    let access = |arguments: &[&str]| access(folder.path(), arguments, PASSWORD);
    access(&["user", "add", "ada", "--role", "operator", "--password-stdin"]);
    rules(folder.path(), "deny role:viewer steer lab/laser\nallow role:viewer steer,administer **\n");
    let explain = |arguments: &[&str]| {
        let (code, told, _) = access(&[&["explain", "user:ada"], arguments].concat());
        (code, told)
    };
    let switch = "denied by line 1: deny role:viewer steer lab/laser\n\
                  all streams: the loss switch; joining and leaving patterns with wildcards\n";
    // A pattern is joined with the right to all streams.
    for streams in [&["**"] as &[&str], &["lab/*"], &[]] {
        assert_eq!(explain(&[&["steer"], streams].concat()), (1, switch.to_owned()), "{streams:?}");
    }
    assert_eq!(explain(&["steer", "lab/pump"]).0, 0);
    let sessions = "allowed by line 2: allow role:viewer steer,administer **\n\
                    all streams: listing and ending the sessions of all users\n";
    for streams in [&["lab/pump"] as &[&str], &[]] {
        assert_eq!(explain(&[&["administer"], streams].concat()), (0, sessions.to_owned()), "{streams:?}");
    }
}

#[test]
fn without_rules_the_address_that_the_monitor_listens_at_decides() {
    let folder = tempfile::tempdir().unwrap();
    let ask = ["explain", "anyone", "steer", "lab/a", "--listen"];
    for (address, code) in
        [("127.0.0.1:7480", 0), ("[::1]:7480", 0), ("0.0.0.0:7480", 1), ("192.0.2.7:7480", 1)]
    {
        let (found, told, _) = access(folder.path(), &[&ask[..], &[address]].concat(), "");
        assert_eq!(found, code, "{address}: {told}");
    }
}

#[test]
fn who_is_unknown_or_expired_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let access = |arguments: &[&str]| access(folder.path(), arguments, "");
    access(&["token", "new", "old", "--may", "read", "--expires", "2020-01-31T00:00:00Z"]);
    rules(folder.path(), "allow token:old read **\nallow user:nobody read **\nallow token:none read **\n");
    let (code, told, note) = access(&["explain", "token:old", "read", "lab/a"]);
    assert_eq!((code, told.lines().next()), (1, Some("denied: the token has expired")));
    assert_eq!(note, "note: the access token `old` expired at 2020-01-31T00:00:00Z\n");
    let (code, _, told) = access(&["explain", "user:nobody", "read", "lab/a"]);
    assert!(code == 2 && told.contains("no user is named `nobody`"), "{told}");
    let (code, _, told) = access(&["explain", "token:none", "read", "lab/a"]);
    assert!(code == 2 && told.contains("no access token is named `none`"), "{told}");
    let (code, _, note) = access(&["explain", "user:alan@example.org", "read", "lab/a"]);
    assert!(code == 1 && note.contains("provider's user"), "{note}");
    let (code, told, _) = access(&["check"]);
    let notes = "note: line 2 applies to nobody: no user is named `nobody`\n\
                 note: line 3 applies to nobody: no access token is named `none`\n";
    assert!(code == 0 && told.ends_with(notes), "{told}");
}

#[test]
fn a_check_tells_the_line_and_the_mode_that_are_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let access = |arguments: &[&str], input: &str| access(folder.path(), arguments, input);
    let (code, told, _) = access(&["check"], "");
    assert!(code == 0 && told.contains("no rules") && told.contains("0 users, 0 tokens"), "{told}");
    access(&["user", "add", "ada", "--password-stdin"], PASSWORD);
    let users = folder.path().join("users");
    std::fs::set_permissions(&users, Permissions::from_mode(0o644)).unwrap();
    let (code, _, told) = access(&["check"], "");
    assert!(code == 1 && told.contains(&format!("chmod 600 {}", users.display())), "{told}");
    std::fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let rules = folder.path().join("access");
    std::fs::write(&rules, "alow anyone read **\n").unwrap();
    std::fs::set_permissions(&rules, Permissions::from_mode(0o644)).unwrap();
    let (code, _, told) = access(&["check"], "");
    assert!(code == 1 && told.contains("line 1") && told.contains("did you mean `allow`?"), "{told}");
}

#[test]
fn the_folder_is_named_by_flag_environment_or_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let by_variable = run_with(&["access", "check"], &[("TALLYCAST_ACCESS", path)], "");
    assert!(String::from_utf8(by_variable.stdout).unwrap().starts_with(&format!("{path}: valid")));
    let usual = run(&["access", "check"]);
    assert!(String::from_utf8(usual.stdout).unwrap().starts_with("/nonexistent/tallycast: valid"));
    // An empty variable is none.
    let at_home = run_with(&["access", "check"], &[("XDG_CONFIG_HOME", ""), ("HOME", path)], "");
    let told = String::from_utf8(at_home.stdout).unwrap();
    assert!(told.starts_with(&format!("{path}/.config/tallycast: valid")), "{told}");
    let homeless = run_with(&["access", "check"], &[("XDG_CONFIG_HOME", ""), ("HOME", "")], "");
    let told = String::from_utf8(homeless.stderr).unwrap();
    assert!(homeless.status.code() == Some(2) && told.contains("name one with --access"), "{told}");
}

#[test]
fn a_monitor_does_not_begin_with_a_mistyped_folder() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("acess");
    let missing = missing.to_str().unwrap();
    let monitor =
        ["monitor", "--listen", "127.0.0.1:0", "--bus", "udp://239.84.0.0:7400?iface=lo", "-t", "1ms"];
    let by_flag = run(&[&monitor[..], &["--access", missing]].concat());
    let by_variable = run_with(&monitor, &[("TALLYCAST_ACCESS", missing)], "");
    for output in [by_flag, by_variable] {
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("{missing} is not a folder")), "{told}");
        assert!(told.contains(&format!("tallycast access --access {missing} user add NAME")), "{told}");
    }
}
