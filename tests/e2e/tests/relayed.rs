//! Live streams between two laboratories: a bus each, and a link between their relays.

use e2e::{Accounts, Command, Host, lan_or_skip};

/// Bus of a laboratory: only the port tells it from that of the other.
fn bus(host: &Host, port: u16) -> String {
    format!("udp://239.84.0.0:{port}?iface={}", host.interface())
}

const HOME: u16 = 7_500;
const AWAY: u16 = 7_600;

fn start(host: &Host, port: u16, words: &[&str]) -> Command {
    Command::start(host, &[words, &["--json", "--bus", &bus(host, port)]].concat())
}

#[test]
fn a_reader_in_another_laboratory_has_every_sample_at_its_index_and_an_account_that_closes() {
    let Some(lan) = lan_or_skip(&["daq", "gate-a", "gate-b", "desk"]) else { return };
    let [daq, gate_a, gate_b, desk] = lan.hosts() else { unreachable!("four hosts were asked for") };
    let far = start(gate_b, AWAY, &["relay", "--listen", "udt://0.0.0.0:7400?secure=off"]);
    far.wait_for_event("listening");
    let address = format!("udt://{}:7400?secure=off", gate_b.address());
    let near = start(gate_a, HOME, &["relay", &address, "lab/**"]);
    near.wait_for_event("connected");
    let reader = start(desk, AWAY, &["sub", "lab/**"]);
    let publisher = start(daq, HOME, &["pub", "lab/wave", "--wave", "sine", "--rate", "1k"]);
    reader.wait_for_blocks(20);
    publisher.interrupt();
    let accounts = Accounts::once_closed(reader);
    assert!(accounts.is_explained(), "{accounts}");
    assert!(accounts.sum("elements", "delivered") > 0, "{accounts}");
    let (told, status) = near.interrupt();
    assert!(status.success(), "the near relay ended with {status}");
    let opened = told.iter().find(|line| line["event"] == "opened").expect("the stream was carried");
    assert_eq!(opened["stream"], "lab/wave");
    assert!(far.interrupt().1.success());
}
