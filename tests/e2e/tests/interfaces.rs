//! Interfaces that disappear, return under their names, or get other addresses: sending and receiving continue,
//! datagrams lost in between are in the account, and the loss and the return of the interface are reported once
//! each.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::fs;

use e2e::{Accounts, Command, Host, Lan, lan_or_skip, wait_until};
use serde_json::Value;

/// A publisher and a reader, with the standard error of each.
struct Scene {
    lan: Lan,
    publisher: Command,
    reader: Command,
    said: tempfile::TempDir,
}

impl Scene {
    fn begin() -> Option<Self> {
        let lan = lan_or_skip(&["source", "reader"])?;
        let said = tempfile::tempdir().unwrap();
        let [source, reader] = lan.hosts() else { unreachable!("two hosts were asked for") };
        let start = |host: &Host, name: &str, arguments: &[&str]| {
            let errors = fs::File::create(said.path().join(name)).unwrap();
            let bus = host.bus("");
            let arguments = [arguments, &["--json", "--bus", bus.as_str()]].concat();
            Command::start_saying_into(host, &arguments, errors)
        };
        let reading = start(reader, "reader", &["sub", "lab/*"]);
        let publisher = start(source, "source", &["pub", "lab/x", "--wave", "ramp", "--rate", "2000"]);
        reading.wait_for_blocks(20);
        Some(Self { publisher, reader: reading, said, lan })
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.said.path().join(name)).unwrap()
    }

    /// Waits until a line on standard error contains the text.
    fn wait_until_said(&self, name: &str, what: &str) {
        wait_until(what, || self.said(name).contains(what).then_some(()));
    }

    /// Ends both; returns the publisher's counts and the reader's accounts, which contain every sample from the
    /// first one read to the last one offered.
    fn end(self) -> (Value, Accounts) {
        let Self { publisher, reader, said, lan } = self;
        let (lines, status) = publisher.interrupt();
        assert!(status.success(), "the publisher ended with {status}");
        let sent = lines.into_iter().rfind(|line| line["event"] == "totals").expect("it counts at its end");
        let accounts = Accounts::once_closed(reader);
        assert_eq!(
            Some(accounts.next("elements")),
            sent["samples"]["offered"].as_u64(),
            "{sent}, {accounts}"
        );
        drop((said, lan));
        (sent, accounts)
    }
}

/// Counts how often a text occurs.
fn times(said: &str, what: &str) -> usize {
    said.matches(what).count()
}

#[test]
fn a_publisher_goes_on_from_another_address() {
    let Some(scene) = Scene::begin() else { return };
    let [source, _] = scene.lan.hosts() else { unreachable!("two hosts were asked for") };
    source.move_to("10.84.0.77");
    scene.reader.wait_for_blocks(100);
    // Announcements leave on that interface, too.
    let [_, reader] = scene.lan.hosts() else { unreachable!("two hosts were asked for") };
    let bus = reader.bus("");
    wait_until("an announcement from the new address", || {
        let shown =
            reader.command(e2e::binary().to_str()?).args(["ls", "--json", "--bus", &bus]).output().ok()?;
        String::from_utf8_lossy(&shown.stdout).contains("10.84.0.77").then_some(())
    });
    let (sent, accounts) = scene.end();
    let refused = sent["datagrams"]["sender_ip"].as_u64().unwrap();
    let lost = accounts.lost("datagrams").get("sender_ip").copied().unwrap_or(0);
    assert!(lost <= refused, "{lost} of {refused}: {accounts}");
}

#[test]
fn a_reader_joins_again_when_its_interface_is_back() {
    let Some(scene) = Scene::begin() else { return };
    let [_, reader] = scene.lan.hosts() else { unreachable!("two hosts were asked for") };
    reader.unplug();
    scene.wait_until_said("reader", "interface eth0 is gone");
    reader.plug_in_again();
    scene.reader.wait_for_blocks(100);
    let said = scene.said("reader");
    assert_eq!((times(&said, "eth0 is gone"), times(&said, "eth0 is back")), (1, 1), "{said}");
    scene.end();
}

#[test]
fn a_publisher_sends_again_when_its_interface_is_back() {
    let Some(scene) = Scene::begin() else { return };
    let [source, _] = scene.lan.hosts() else { unreachable!("two hosts were asked for") };
    source.unplug();
    scene.wait_until_said("source", "interface eth0 is gone");
    scene.wait_until_said("source", "sender_ip");
    source.plug_in_again();
    scene.reader.wait_for_blocks(100);
    let said = scene.said("source");
    assert_eq!((times(&said, "eth0 is gone"), times(&said, "eth0 is back")), (1, 1), "{said}");
    let (sent, _) = scene.end();
    assert!(sent["datagrams"]["sender_ip"].as_u64().unwrap() > 0, "{sent}");
}
