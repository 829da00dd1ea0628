//! A stream that a reader selects and cannot join for lack of a resource: it is named, and the exit code shows it;
//! the other streams continue.

use std::fs;

use e2e::{Accounts, Command, Host, lan_or_skip, wait_until};

fn publish(host: &Host, name: &str) -> Command {
    let shape = ["--wave", "ramp", "--rate", "1000", "--json"];
    Command::start(host, &[&["pub", name], &shape[..], &["--bus", &host.bus("")]].concat())
}

/// Uses up the group memberships of a host's namespace.
fn use_up_memberships(host: &Host) {
    let limit = "echo 0 > /proc/sys/net/ipv4/igmp_max_memberships";
    let status = host.command("sh").args(["-c", limit]).status().expect("a shell");
    assert!(status.success(), "the limit of memberships cannot be set: {status}");
}

#[test]
fn a_stream_for_which_no_membership_is_left_is_named_and_the_reader_exits_with_1() {
    let Some(lan) = lan_or_skip(&["source", "reader"]) else { return };
    let [source, desk] = lan.hosts() else { unreachable!("two hosts were asked for") };
    let said = tempfile::NamedTempFile::new().expect("a file");
    let errors = || fs::read_to_string(said.path()).expect("a file");
    let reading = ["sub", "lab/*", "--json", "--bus", &desk.bus("")];
    let reader = Command::start_saying_into(desk, &reading, said.reopen().expect("a file"));
    let first = publish(source, "lab/first");
    reader.wait_for_blocks(5);
    use_up_memberships(desk);
    let second = publish(source, "lab/second");
    wait_until("a warning of the second stream", || {
        errors().contains("stream `lab/second` cannot be joined").then_some(())
    });
    for publisher in [second, first] {
        let (_, status) = publisher.interrupt();
        assert!(status.success(), "a publisher ended with {status}");
    }
    reader.wait_for("the end of the first stream", |line| line["event"] == "ended");
    let (lines, status) = reader.interrupt();
    assert_eq!(status.code(), Some(1), "{}", errors());
    let errors = errors();
    let (_, named) = errors.split_once("\nlab/second: cannot join: ").expect("it is named at the end");
    assert!(named.contains("sysctl -w net.ipv4.igmp_max_memberships"), "{named}");
    let accounts = Accounts::of(&lines);
    assert!(accounts.last()["state"] == "closed" && accounts.is_explained(), "{accounts}");
}
