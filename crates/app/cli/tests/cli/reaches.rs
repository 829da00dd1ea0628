//! One stream, three reaches: their choice, their report, and their failover when a process dies.

use std::fs::{self, Permissions};
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::ports::private_bus;
use support::wait_until;
use tempfile::TempDir;

use crate::accounts::Accounts;
use crate::program::{Running, run, run_as_nobody};

/// Shared memory of one test: leftovers of killed processes are removed with it.
pub(crate) fn memory() -> TempDir {
    tempfile::Builder::new().prefix("tallycast-test").tempdir_in("/dev/shm").unwrap()
}

/// Returns a bus within this host.
pub(crate) fn host_bus(memory: &TempDir) -> String {
    format!("shm://test?dir={}&access=owner", memory.path().display())
}

fn is_event(line: &Value, event: &str) -> bool {
    line["event"] == json!(event)
}

fn reader(bus: &str) -> Running {
    Running::start(&["sub", "test/*", "--json", "--bus", bus])
}

fn publisher(bus: &str) -> Running {
    Running::start(&["pub", "test/wave", "--wave", "sine", "--rate", "20k", "--json", "--bus", bus])
}

/// Reads until this number of samples has arrived from now on.
fn read_samples(reader: &mut Running, count: u64) -> Vec<Value> {
    let mut seen = 0;
    reader.lines_until(|line| {
        seen += line["samples"].as_u64().filter(|_| is_event(line, "block")).unwrap_or(0);
        seen >= count
    })
}

fn end(program: Running) -> Vec<Value> {
    program.signal(Signal::INT);
    program.wait().1
}

#[test]
fn on_one_host_data_come_by_shared_memory_and_ls_and_top_say_so_and_why() {
    let memory = memory();
    let bus = host_bus(&memory);
    let mut reader = reader(&bus);
    let publisher = publisher(&bus);
    read_samples(&mut reader, 10_000);
    let listed = run(&["ls", "--json", "--wait", "10ms", "--bus", &bus]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&listed["stream"], &listed["reach"]), (&json!("test/wave"), &json!("shm")));
    assert!(listed["why"].as_str().unwrap().starts_with("published on this host: process "), "{listed}");
    let top = Running::start(&["top", "--json", "--interval", "100ms", "--bus", &bus]);
    let looked =
        top.lines_until(|line| line["elements"]["delivered"].as_u64().is_some_and(|count| count > 0));
    let look = looked.last().unwrap();
    assert_eq!((&look["reach"], &look["why"]), (&json!("shm"), &json!("published on this host")));
    assert_eq!((&look["balanced"], &look["elements"]["lost"]), (&json!(true), &json!({})));
    end(top);
    let totals = end(publisher);
    reader.lines_until(|line| is_event(line, "ended"));
    let lines = end(reader);
    let account = lines.iter().find(|line| is_event(line, "account")).expect("an account");
    for demand in ["balanced", "closed", "explained"] {
        assert_eq!(account[demand], json!(true), "{account}");
    }
    assert_eq!((&account["leg"], &account["datagrams"]), (&json!("shm"), &Value::Null));
    assert_eq!(account["elements"]["next"], totals[0]["samples"]["offered"]);
}

#[test]
fn ls_says_which_rings_this_user_may_not_read_and_what_helps() {
    let memory = memory();
    // Everyone may list the directory, and only the owner may read the rings.
    fs::set_permissions(memory.path(), Permissions::from_mode(0o755)).unwrap();
    let within = host_bus(&memory);
    let beyond = format!("{}&shm={}&access=owner", private_bus(), memory.path().display());
    let publishers = [publisher(&within), publisher(&beyond)];
    let rings = || fs::read_dir(memory.path()).unwrap().flatten().map(|it| it.path());
    wait_until("both rings", || {
        (rings().filter(|it| it.extension().is_some_and(|it| it == "ring")).count() == 2).then_some(())
    });
    let Some(listed) = run_as_nobody(&["ls", "--wait", "10ms", "--bus", &within]) else { return };
    let said = String::from_utf8(listed.stderr).unwrap();
    assert!(said.contains("may not be read by this user: 1"), "{said}");
    assert!(said.contains("access=group"), "{said}");
    let row = wait_until("the announcement", || {
        let listed = run_as_nobody(&["ls", "--json", "--wait", "1500ms", "--bus", &beyond])?;
        serde_json::from_slice::<Value>(&listed.stdout).ok()
    });
    let why = row["why"].as_str().unwrap();
    assert!(why.starts_with("from the network: its ring on this host may not be read by this user"), "{why}");
    assert!(why.contains("access=group") && row["reach"] == json!("udp"), "{row}");
    publishers.into_iter().for_each(|publisher| drop(end(publisher)));
}

#[test]
fn another_user_reads_the_rings_of_root_and_not_those_of_strangers() {
    if !rustix::process::getuid().is_root() {
        println!("SKIPPED: only root can give files away");
        return;
    }
    let memory = memory();
    fs::set_permissions(memory.path(), Permissions::from_mode(0o755)).unwrap();
    let bus = format!("shm://test?dir={}&access=all", memory.path().display());
    let publisher = publisher(&bus);
    let rings = || fs::read_dir(memory.path()).unwrap().flatten().map(|it| it.path());
    let ring = wait_until("the ring", || {
        rings().find(|path| path.extension().is_some_and(|extension| extension == "ring"))
    });
    let read = ["sub", "test/*", "--json", "--count", "1000", "--bus", &bus];
    let Some(read) = run_as_nobody(&read) else { return };
    let lines = String::from_utf8(read.stdout).unwrap();
    assert!(lines.lines().any(|line| line.contains(r#""leg":"shm""#)), "{lines}");
    std::os::unix::fs::chown(&ring, Some(4_711), None).unwrap();
    let listed = run_as_nobody(&["ls", "--wait", "10ms", "--bus", &bus]).unwrap();
    let said = String::from_utf8(listed.stderr).unwrap();
    assert!(said.contains("is not trusted (another user owns it or may write it): 1"), "{said}");
    assert!(said.contains("group=NAME") && listed.stdout.is_empty(), "{said}");
    drop(end(publisher));
}

#[test]
fn a_user_that_may_not_write_into_the_folder_of_the_rings_is_told_so() {
    let memory = memory();
    fs::set_permissions(memory.path(), Permissions::from_mode(0o755)).unwrap();
    let publish = ["pub", "test/mine", "--wave", "ramp", "--rate", "10", "--bus", &host_bus(&memory)];
    let Some(refused) = run_as_nobody(&publish) else { return };
    let said = String::from_utf8(refused.stderr).unwrap();
    let folder = memory.path().display();
    assert!(said.contains(&format!("this user may not write into {folder}")), "{said}");
    assert!(!refused.status.success() && !said.contains("belongs to another user"), "{said}");
}

#[test]
fn a_publisher_that_was_killed_ends_unconfirmed_and_its_successor_is_read() {
    let memory = memory();
    let bus = host_bus(&memory);
    let mut reader = reader(&bus);
    let first = publisher(&bus);
    read_samples(&mut reader, 5_000);
    first.signal(Signal::KILL);
    first.wait();
    let ended = reader.lines_until(|line| is_event(line, "ended"));
    assert_eq!(ended.last().unwrap()["state"], "unconfirmed");
    let second = publisher(&bus);
    reader.lines_until(|line| is_event(line, "began"));
    read_samples(&mut reader, 5_000);
    end(second);
    reader.lines_until(|line| is_event(line, "ended"));
    let lines = end(reader);
    let accounts: Vec<_> = lines.iter().filter(|line| is_event(line, "account")).collect();
    let states: Vec<_> = accounts.iter().map(|account| &account["state"]).collect();
    assert_eq!(states, ["unconfirmed", "closed"]);
    assert!(accounts.iter().all(|account| account["balanced"] == json!(true)));
}

#[test]
fn a_reader_until_the_end_waits_for_a_publisher_that_only_fell_silent() {
    let bus = private_bus();
    let (mut reader, said) =
        Running::start_heard(&["sub", "test/*", "--until-end", "--json", "--reader", "desk", "--bus", &bus]);
    let publisher = publisher(&bus);
    read_samples(&mut reader, 5_000);
    publisher.signal(Signal::STOP);
    let word = said.lines().map(Result::unwrap).find(|line| line.contains("fallen silent"));
    let word = word.expect("it waits, and says so before it ends");
    assert!(word.contains("stream `test/wave` has fallen silent; waiting up to 60 s"), "{word}");
    publisher.signal(Signal::CONT);
    let mut lines = reader.lines_until(|line| is_event(line, "began"));
    let totals = end(publisher);
    let (status, rest) = reader.wait();
    lines.extend(rest);
    assert!(status.success(), "{status}: {lines:?}");
    let accounts: Vec<_> = lines.iter().filter(|line| is_event(line, "account")).collect();
    let states: Vec<_> = accounts.iter().map(|account| &account["state"]).collect();
    assert_eq!(states, ["unconfirmed", "closed"]);
    assert_eq!(accounts[1]["elements"]["next"], totals[0]["samples"]["offered"]);
}

#[test]
fn a_reader_until_the_end_does_not_wait_for_a_publisher_of_its_host_that_is_gone() {
    let memory = memory();
    let bus = host_bus(&memory);
    let (mut reader, said) = Running::start_heard(&["sub", "test/*", "--until-end", "--json", "--bus", &bus]);
    let publisher = publisher(&bus);
    read_samples(&mut reader, 5_000);
    publisher.signal(Signal::KILL);
    let (status, lines) = reader.wait();
    assert_eq!(status.code(), Some(1), "what it would have written is not known");
    let account = lines.iter().find(|line| is_event(line, "account")).unwrap();
    assert_eq!(account["state"], "unconfirmed");
    let said: Vec<String> = said.lines().map(Result::unwrap).collect();
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn an_agent_that_was_killed_is_an_absence_and_its_readers_receive_for_themselves() {
    let network = private_bus();
    let memory = memory();
    let shared = format!("{network}&shm={}&access=owner", memory.path().display());
    let agent = Running::start(&["agent", "--json", "--bus", &shared]);
    let publisher = publisher(&network);
    agent.lines_until(|line| is_event(line, "joined"));
    let mut reader = reader(&shared);
    read_samples(&mut reader, 5_000);
    let listed = wait_until("the announcement", || {
        let listed = run(&["ls", "--json", "--bus", &shared]);
        serde_json::from_slice::<Value>(&listed.stdout).ok()
    });
    assert!(listed["why"].as_str().unwrap().starts_with("an agent receives it for this host"), "{listed}");

    agent.signal(Signal::KILL);
    agent.wait();
    let mut lines = reader.lines_until(|line| is_event(line, "began"));
    lines.extend(read_samples(&mut reader, 5_000));
    end(publisher);
    lines.extend(reader.lines_until(|line| is_event(line, "ended") && line["state"] == "closed"));
    lines.extend(end(reader));
    let accounts: Vec<_> = lines.iter().filter(|line| is_event(line, "account")).collect();
    let of_agent = accounts.iter().take_while(|account| account["leg"] == "shm").count();
    let (of_agent, own) = accounts.split_at(of_agent);
    assert!(own.iter().all(|account| account["leg"] == "udp"), "{own:?}");
    let of_agent = Accounts::of(of_agent.iter().copied());
    let own = Accounts::whole(own.iter().copied());
    assert_eq!(of_agent.last()["state"], "unconfirmed", "the tail of what the agent received is not known");
    // The absence is exactly the range between the two accounts: usually a second; nothing, if the publisher was
    // delayed meanwhile.
    let (from, to) = (of_agent.next(), own.first());
    let absences: Vec<_> = lines.iter().filter(|line| line["kind"] == json!("reader_absent")).collect();
    let told: Vec<_> =
        absences.iter().map(|it| (it["first_index"].as_u64(), it["samples"].as_u64())).collect();
    let between = (to > from).then(|| (Some(from), Some(to - from)));
    assert_eq!(told, between.into_iter().collect::<Vec<_>>(), "from {from} to {to}");
    assert!(to >= from, "nothing is delivered twice");
}

#[test]
fn a_second_publisher_of_a_stream_on_one_host_is_refused_with_the_process_of_the_first() {
    let memory = memory();
    let bus = host_bus(&memory);
    let first = publisher(&bus);
    let listed = wait_until("the stream", || {
        let listed = run(&["ls", "--json", "--wait", "10ms", "--bus", &bus]);
        serde_json::from_slice::<Value>(&listed.stdout).ok()
    });
    let pid = listed["why"].as_str().unwrap().rsplit_once(' ').unwrap().1.to_owned();
    let second = run(&["pub", "test/wave", "--wave", "sine", "--rate", "20k", "--bus", &bus]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("has a writer already, process {pid}")), "{said}");
    end(first);
}

#[test]
fn an_agent_needs_a_network_and_shared_memory() {
    let memory = memory();
    for bus in [host_bus(&memory), private_bus()] {
        let agent = run(&["agent", "--bus", &bus]);
        let said = String::from_utf8_lossy(&agent.stderr).into_owned();
        assert_eq!(agent.status.code(), Some(2), "{said}");
        assert!(said.contains("shm=on"), "{said}");
    }
}
